//! What is known of how often hardware fails, and what follows from it: how often to write
//! checkpoints, how many spares to hold, what a job can expect.
//!
//! - [`qualify`]: a node's measured figures beside its own past and its peers.
//! - [`rate`]: failures per million node-days, learned from what was seen and a prior.
//! - [`interval`]: how often a job should write checkpoints.
//! - [`mod@ettr`]: which share of its time a job can expect to use. For reports.
//! - [`spares`]: how many nodes to hold ready for a target.
//! - [`fabric`]: tests of the network between nodes, and whom they name as the cause.
//! - [`faults`]: what the kernel's log says went wrong, whose fault it is, and what to do.
//! - [`mod@correlate`]: which findings have one cause.
//! - [`mod@attribute`]: what caused the end of an attempt: job, node or something shared.
//! - [`breaker`]: when work is kept away from something, and when it is let back.
//! - [`mod@lemon`]: nodes that fail more often than their work explains.
//! - [`mod@hazard`]: how likely a GPU is to fail within a month.
//! - [`idle`]: which GPUs are held and do nothing, and when that is reported of an attempt.
//! - [`identity`]: two machines that have the identity of one node.
//! - [`detect`]: what follows from faults and figures; [`watch`]: rows and steps in, news out.
//!
//! No clock, no I/O, no randomness. Decisions come from integers, or from floating-point sums made
//! of `+ - * /` and square roots alone, which IEEE 754 defines to the last bit: the same figures
//! give the same decision on every machine. `exp`, `ln` and `powf` are not defined so, and are not
//! used.

#![forbid(unsafe_code)]

pub mod attribute;
pub mod breaker;
mod config;
pub mod correlate;
pub mod detect;
#[cfg(test)]
mod draw;
pub mod drift;
pub mod ettr;
pub mod fabric;
pub mod faults;
pub mod hazard;
pub mod identity;
pub mod idle;
pub mod interval;
pub mod lemon;
pub mod modes;
pub mod qualify;
pub mod rate;
mod series;
pub mod spares;
pub mod watch;

pub use ettr::{Expect, best_ettr, ettr, ettr_exact};
pub use interval::checkpoint_every;
pub use rate::{Exposure, Rate};
pub use spares::{erlang_b, spares_for_waiting, waiting_share};
