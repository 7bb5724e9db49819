//! Every integration test of the crate in one program: it is linked once.

mod degraded_host;
mod prometheus;
mod storage;
