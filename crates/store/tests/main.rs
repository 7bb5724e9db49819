//! Every integration test of the crate in one program: it is linked once.

mod append;
mod common;
mod conformance;
mod faults;
mod lost;
mod tls;
