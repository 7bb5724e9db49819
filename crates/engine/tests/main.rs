//! Every integration test of the crate in one program: it is linked once.

#![cfg(test)]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may read files, clocks and the environment"
)]

mod agents;
mod arrays;
mod common;
mod fences;
mod golden;
mod hardware;
mod health;
mod in_place;
mod jobs;
mod moved_agent;
mod preflight;
mod replay;
mod runbooks;
mod scheduling;
mod server_down;
mod slo;
mod snapshots;
mod tokens;
mod waits;
mod whole;
