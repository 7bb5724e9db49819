//! The nouns of Muster: ids, units, topology, nodes, jobs, tenants, commands and events.
//!
//! Everything here is plain data. Nothing reads a clock, a file or a socket, and every
//! type that reaches the log keeps its serialised shape for good.

#![forbid(unsafe_code)]

mod actor;
pub mod alert;
pub mod breaker;
pub mod calendar;
pub mod clock;
pub mod command;
pub mod contained;
pub mod cordon;
pub mod entity;
pub mod event;
pub mod failure_mode;
pub mod fault;
pub mod finding;
pub mod hold;
pub mod ids;
pub mod inject;
pub mod job;
pub mod mig;
pub mod names;
pub mod near;
pub mod node;
pub mod node_paths;
pub mod object;
pub mod placement;
pub mod policy;
pub mod preflight;
mod problem;
pub mod projection;
pub mod qualification;
pub mod quota;
pub mod remediation;
pub mod reservation;
pub mod resolve;
pub mod runbook;
pub mod slo;
pub mod spec;
pub mod tenant;
pub mod text;
pub mod topology;
pub mod units;
pub mod whatif;

pub use command::{Actor, Answer, Command, IdempotencyKey, Refusal, RefusalCode, Request};
pub use event::{Event, Origin, Record};
pub use failure_mode::FailureMode;
pub use ids::{AttemptKey, Epoch, JobId, Seq, SiteId};
pub use names::{NodeName, ProjectName};
pub use units::{Bytes, Span, Time};

/// Each once, in order.
pub fn distinct<T: Ord>(all: impl IntoIterator<Item = T>) -> Vec<T> {
    let mut all: Vec<T> = all.into_iter().collect();
    all.sort_unstable();
    all.dedup();
    all
}
