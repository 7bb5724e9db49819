//! The brain's real body: the loop, the agent link, job output, and what reads the log.

pub mod agents;
pub mod brain;
pub mod console;
pub mod delay;
mod effects;
pub mod fabric;
pub mod follower;
pub mod health;
pub mod history;
pub mod logs;
pub mod metering;
pub mod output_search;
pub mod runbooks;
pub mod slo;
mod telemetry;
pub mod trace;

pub use muster_executors::acts;
pub use muster_supervise as supervise;
