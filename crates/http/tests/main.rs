//! Every integration test of the crate in one program: it is linked once.

#![allow(clippy::pedantic, dead_code, reason = "tests")]

mod known;
mod truth;
