//! Every integration test of the crate in one program: it is linked once.

#![allow(clippy::pedantic, dead_code, reason = "tests")]

mod goodput;
mod library;
mod published;
mod regressions;
mod replay;
mod scenario_files;
mod system;
mod week;
