//! Detectors: from faults, telemetry and steps to findings.
//!
//! - [`fault`]: from a fault that a node classified to a finding.
//! - [`memory`], [`bus`], [`heat`]: a GPU by its figures. [`port`], [`host`], [`storage`]: what is
//!   around it.
//! - [`gang`], [`pace`], [`hang`]: ranks beside each other, a job beside its own past.
//! - [`robust`], [`meter`]: medians, counters and streaks that these are made of.
//!
//! Nothing here remembers anything: [`crate::watch`] keeps what it needs and asks.

pub mod bus;
pub mod fault;
pub mod gang;
pub mod hang;
pub mod heat;
pub mod host;
pub mod memory;
pub mod meter;
pub mod pace;
pub mod port;
pub mod robust;
pub mod storage;
mod verdict;

pub use verdict::{DetectorVerdict, FindingReason};
