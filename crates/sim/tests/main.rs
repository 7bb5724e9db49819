//! Every integration test of the crate in one program: it is linked once.

#![allow(clippy::pedantic, dead_code, reason = "tests")]
#![allow(
    clippy::disallowed_macros,
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "tests may read files, clocks and the environment"
)]

mod goodput;
mod library;
mod published;
mod regressions;
mod replay;
mod scenario_files;
mod system;
mod week;
