//! The brain's virtual body: the production engine with a virtual clock and a simulated fleet.
//! Nothing here decides what the site does: requests go into the engine, records come out, and
//! the world that answers them is simulated.

pub mod outcome;
pub mod scenario;
pub mod traces;
