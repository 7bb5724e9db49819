//! Public traces, replayed: openb's pods through the scheduler alone, logs of jobs through the
//! twin.

mod log;
mod many;
mod openb;
mod steps;

pub use log::{LogReplay, Setting, Slowdown, alike, live, machine, prepared};
pub use many::{OpenbReplay, OpenbRun, seeds};
pub use openb::{ARRIVED, Mix, Offered, offer, plain_node, total};
pub use steps::{ASSUMED, timed};
