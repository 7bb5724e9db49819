//! This machine as a node: its devices watched, tested and cleaned.
//!
//! Work on a GPU happens in a child process: a driver that crashes or hangs takes the test down
//! and not the agent, and what the test held is freed by the kernel.

mod act;
pub mod child;
mod clean;
mod mig;
mod order;
mod qualify;
mod start;
mod watch;

pub use act::Allowed;
pub use clean::Scrub;
pub use order::{Answer, Order, Simulated, TestOrder, WantOrder};
pub use qualify::{Spawned, TestError};
pub use start::{Machine, MachineError, OptionalDuties, Options, start, start_with};
pub use watch::Watch;
