//! Which work runs where, when, and why not.
//!
//! Pure and deterministic: the same fleet, queue and time give the same plan, whatever the order
//! in which nodes joined. [`Fleet`] is an index that costs what changes; [`plan`](plan::plan)
//! returns only the difference; [`explain`](explain::explain) answers from the very predicates
//! that decided.

pub mod explain;
pub mod fleet;
pub mod place;
pub mod plan;
pub mod queue;

pub use explain::{Ahead, Constraint, Estimate, Explanation};
pub use fleet::{Block, Fleet, NodeFacts};
pub use place::{NoRoom, Placed};
pub use plan::{Plan, Policy, Start, plan};
pub use queue::{Demand, Queue, Ticket};
