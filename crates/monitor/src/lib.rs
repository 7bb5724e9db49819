//! What a node sees of itself: samples of its devices and host, the kernel's log, and the exporter.
//!
//! [`Monitor`] runs it all on threads of its own, so that nothing it waits for (a driver, a disk,
//! a log) can stop whoever uses it. What is found is taken with [`Monitor::latest`] and
//! [`Monitor::take_faults`]; faults are signalled.

pub mod check;
pub mod clock;
mod config;
pub mod exporter;
pub mod faults;
pub mod gather;
pub mod host;
pub mod kmsg;
mod monitor;
mod parts;
pub mod probe;
pub mod ring;
mod sampler;
pub mod simulated_gpus;
pub mod snapshot;

#[cfg(test)]
mod fake;

pub use config::{Config, FASTEST, SLOWEST};
pub use monitor::{Described, Monitor, MonitorError};
pub use ring::Row;
pub use sampler::MOST_LEFT_BEHIND;
pub use snapshot::{GpuNow, LogNow, Snapshot};
