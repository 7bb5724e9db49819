//! A typed client of the HTTP API, for the CLI, tests and tools.
//!
//! Every write carries an idempotency key, so that it is safely repeated when the server is
//! away for a moment; streams go on where they broke off.

mod admin;
mod console;
mod error;
mod fabric;
mod fleet;
mod health;
mod http;
mod jobs;
mod logs;
mod runbooks;
mod scheduling;
mod search;
mod slo;
mod sse;
mod waits;

pub use console::{Frame, FrameBody, Frames, GpuCell, Hints};
pub use error::ClientError;
pub use health::RemediationDecision;
pub use http::{Builder, Client};
pub use jobs::JobAction;
pub use logs::{LogFollow, Piece};
pub use sse::EventFollow;
