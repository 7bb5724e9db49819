//! This machine as a node: its devices watched, tested and cleaned.
//!
//! Work on a GPU happens in a child process: a driver that crashes or hangs takes the test down
//! and not the agent, and what the test held is freed by the kernel.

pub mod child;
mod order;
mod qualify;

pub use order::{Answer, Order, Simulated, TestOrder, WantOrder};
pub use qualify::{Spawned, TestError};
