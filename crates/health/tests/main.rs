//! Every integration test of the crate in one program: it is linked once.

mod corpus;
mod detect;
mod judge_hazard;
