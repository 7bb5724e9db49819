//! The brain's virtual body: the production engine with a virtual clock and a simulated fleet.
//! Nothing here decides what the site does: requests go into the engine, records come out, and
//! the world that answers them is simulated.

#![forbid(unsafe_code)]

mod accounting;
mod arrivals;
pub mod causes;
mod chance;
pub mod compare;
pub mod demo;
mod error;
mod faults;
mod fleet;
mod gangs;
mod job_metrics;
pub mod library;
pub mod outcome;
pub mod replay;
pub mod report;
mod run;
pub mod scenario;
mod simulation;
pub mod site;
pub mod traces;

pub use error::SimError;
pub use fleet::{mean_repair, spares_wanted};
pub use job_metrics::{share, spread};
pub use run::{Options, run, run_while};
pub use simulation::{Hosted, START};
