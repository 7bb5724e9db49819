//! The wall clock, by which everything is reported to the server.

use muster_model::units::Time;
use std::time::SystemTime;

/// Now.
pub(crate) fn wall() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}
