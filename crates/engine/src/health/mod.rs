//! What is wrong, what follows from it and how far that has come (H2 H7 H9, F3 F6).

mod apply;
mod book;

use crate::Engine;
use muster_model::command::{Answer, Refusal, Request};

/// Decides on a command about health.
pub(crate) fn decide(_e: &mut Engine, _req: &Request) -> Result<Answer, Refusal> {
    Ok(Answer::Done)
}

pub use book::{Automation, HealthBook, Stopped};
