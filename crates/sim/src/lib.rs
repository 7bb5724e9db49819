//! The brain's virtual body: the production engine with a virtual clock and a simulated fleet.

pub mod traces;
