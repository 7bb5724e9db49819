//! What follows from what was seen (H3, H4).
//!
//! - [`fault`]: from a fault that a node classified to a finding.
//!
//! Nothing here remembers anything: `crate::watch` keeps what it needs and asks.

pub mod fault;
