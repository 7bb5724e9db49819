//! Every integration test of the crate in one program: it is linked once.

#![cfg(test)]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may read files, clocks and the environment"
)]

mod claims;
mod common;
mod determinism;
mod explaining;
mod forecasts;
mod parts;
mod placement;
mod random_histories;
mod reserved_starts;
mod tiny;
mod waiting;
