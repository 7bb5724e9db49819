//! Which work runs where, when, and why not.
//!
//! Pure and deterministic: the same cluster, policy and time give the same plan, whatever the
//! order in which nodes joined. [`Cluster`] is an index that costs what changes;
//! [`plan`](plan::plan) returns only the difference; [`explain`](explain::explain) answers from
//! the very predicates that decided.

#![forbid(unsafe_code)]

mod broken;
mod claims;
pub mod cluster;
mod cycle_cache;
pub mod defrag;
mod domain;
pub mod explain;
pub mod fairshare;
pub mod fleet;
pub mod forecast;
mod frag;
mod give_way;
pub mod history;
mod leaving;
pub mod mig;
pub mod mix;
mod never;
pub mod node;
mod order;
mod overrule;
mod pick;
pub mod place;
pub mod plan;
mod power;
mod preempt;
pub mod queue;
pub mod quota;
mod reasons;
mod reserve;
mod rights;
mod scores;
mod suggest;
mod timeline;
mod ways;
pub mod windows;
mod words;
pub mod work;

pub use cluster::{Cluster, Running, UserUsage};
pub use defrag::{Moves, moves};
pub use explain::{
    Constraint, Estimate, Explanation, JobAhead, STARTS_NEXT, WAITS, explain, impossible,
    window_words,
};
pub use fleet::Fleet;
pub use node::{Block, NodeFacts};
pub use place::{NoCapacity, Placed, find_capacity};
pub use plan::{Plan, Resize, Start, StartReservation, Victim, plan};
pub use power::{rack_budget, rated as rated_watts};
pub use queue::Queue;
pub use reasons::Reasons;
pub use reserve::replacements;
pub use windows::ReservedNodes;
pub use work::{Demand, FAR, Work};
