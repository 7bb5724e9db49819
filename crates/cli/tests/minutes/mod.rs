//! A cluster to try things on.

#[allow(dead_code, reason = "not every test needs all of it")]
pub(crate) mod cluster;
