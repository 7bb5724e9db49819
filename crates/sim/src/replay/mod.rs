//! Public traces, replayed: openb's pods through the scheduler alone, logs of jobs through the
//! twin.

mod log;
mod many;
mod openb;
mod steps;

pub use log::{LogReplay, Setting, Slowdown, alike, machine, prepared, simulate_log};
pub use many::{OpenbReplay, OpenbRun, seeds};
pub use openb::{ARRIVED, ArrivalResult, Mix, offer, plain_node, total};
pub use steps::{ASSUMED, timed};
