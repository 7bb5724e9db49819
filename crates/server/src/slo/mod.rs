//! Objectives and alerts at the edge: what the server counts about itself, and alerting
//! people. What is owed to whom is decided by `muster_slo::notifications`;
//! `muster_executors::alerts` sends it.

mod count;
mod objective_statuses;
mod own;
#[cfg(test)]
pub mod tests;

pub use count::{Counter, ServedRequest};
pub use muster_executors::alerts::AlertDelivery;
pub use objective_statuses::{ObjectiveMoment, ObjectiveStatuses};

use crate::agents::Agents;
use crate::brain::Brain;
use crate::supervise;
use muster_executors::alerts::{self, Sender};
use std::sync::Arc;
use tokio_util::sync::CancellationToken;

/// Starts to count and to report, until `stop`. `base` is the console's address in messages.
pub fn start(
    brain: &Brain,
    agents: &Agents,
    post: &AlertDelivery,
    counter: &Counter,
    base: String,
    stop: &CancellationToken,
) -> Result<(), reqwest::Error> {
    let sender = Arc::new(Sender::new(brain.clone(), base)?);
    let (b, s, end) = (brain.clone(), Arc::clone(&sender), stop.clone());
    supervise::task("alerts-own", move || {
        own::run(b.clone(), Arc::clone(&s), (own::PATIENCE, own::PAUSE), end.clone())
    });
    let (b, p, end) = (brain.clone(), post.clone(), stop.clone());
    supervise::task("alerts-send", move || {
        alerts::run(b.clone(), p.clone(), Arc::clone(&sender), end.clone())
    });
    let (b, a, c, end) = (brain.clone(), agents.clone(), counter.clone(), stop.clone());
    counter.follow(brain);
    supervise::task("slo-count", move || count::run(b.clone(), a.clone(), c.clone(), end.clone()));
    Ok(())
}
