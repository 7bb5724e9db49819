//! Runbooks as data: Markdown that people read, with one small block of facts in each step
//! that the machine reads. This crate reads a runbook ([`parse`]), says what is wrong with it, and
//! knows which step follows what came of another ([`ParsedRunbook::after`]). What is so and what
//! is done is for others to find out and to do.

#![forbid(unsafe_code)]

mod act;
pub mod builtin;
mod error;
mod observable;
mod parse;
mod runbook;
#[cfg(test)]
mod tests;

pub use act::{Act, ActKind, fill};
pub use error::RunbookError;
pub use observable::{Bound, Observable, Value};
pub use parse::parse;
pub use runbook::{Ask, Choice, Next, ParsedRunbook, Step, StepKind, Target, Test, Urgency};
