//! Every integration test of the crate in one program: it is linked once.

mod claims;
mod common;
mod explaining;
mod forecasts;
mod lives;
mod parts;
mod placement;
mod promises;
mod same;
mod tiny;
mod waiting;
