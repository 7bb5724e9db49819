//! Who used what: where a job's time went, what it did with its GPUs, and what would have been
//! enough. A reading: it decides nothing, and the same log gives the same figures.
//!
//! Pure: it looks at no clock and only uses the times it is given. Lengths are whole milliseconds,
//! GPU time is counted in thousandths of a GPU times milliseconds (GPU-microseconds), and shares
//! are millionths or thousandths.

#![forbid(unsafe_code)]

pub mod advice;
mod allocated;
pub mod days;
pub mod fleet;
pub mod forecast;
pub mod goodput;
pub mod history;
pub mod parts;
pub mod progress;
mod running;
mod signs;
pub mod stage;
mod supply;
pub mod track;
pub mod usage;

pub use advice::{Advice, AdviceKind, GivenResources, advice};
pub use allocated::{Allocated, allocated_milli};
pub use days::{Step, Supply, TelemetryTotals, Work};
pub use fleet::{Fleet, Report, Row, no_observation};
pub use forecast::{CapacityReached, Forecast, NewestDay, Trend};
pub use goodput::{AttemptObservation, AttemptParts, Goodput, goodput};
pub use history::{AttemptHistory, JobHistories, JobHistory, wanted_milli};
pub use parts::{Part, Parts};
pub use progress::{JobProgress, Pace};
pub use stage::Stage;
pub use supply::Counts;
pub use track::{Band, BandBuilder, Bins, Means, Track};
pub use usage::{GpuRow, GpuUsage, Usage};
