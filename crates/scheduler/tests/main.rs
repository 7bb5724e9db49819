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
mod explaining;
mod forecasts;
mod lives;
mod order;
mod parts;
mod placement;
mod reserved_starts;
mod same;
mod tiny;
mod waiting;
