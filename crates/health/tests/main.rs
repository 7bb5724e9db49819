//! Every integration test of the crate in one program: it is linked once.

#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may read files, clocks and the environment"
)]

mod corpus;
mod detect;
mod evaluate_hazard;
