//! A moment on the wire.

use muster_model::units::Time;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A moment, written as RFC 3339 in UTC with milliseconds: `2026-01-31T12:00:00.000Z`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, format = DateTime, example = "2026-01-31T12:00:00.000Z"))]
pub struct Timestamp(pub Time);

impl From<Time> for Timestamp {
    fn from(t: Time) -> Timestamp {
        Timestamp(t)
    }
}

impl From<Timestamp> for Time {
    fn from(t: Timestamp) -> Time {
        t.0
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A time outside jiff's years is nonsense from a broken clock: show the nearest edge
        // instead of failing the whole answer.
        let t = jiff::Timestamp::from_millisecond(self.0.0).unwrap_or(if self.0.0 < 0 {
            jiff::Timestamp::MIN
        } else {
            jiff::Timestamp::MAX
        });
        write!(f, "{t:.3}")
    }
}

impl FromStr for Timestamp {
    type Err = String;
    fn from_str(s: &str) -> Result<Timestamp, String> {
        s.parse::<jiff::Timestamp>().map(|t| Timestamp(Time(t.as_millisecond()))).map_err(|_| {
            let given: String = s.chars().take(60).flat_map(char::escape_debug).collect();
            format!("`{given}` is not a time: write it like 2026-01-31T12:00:00Z")
        })
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Timestamp, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_text_and_extremes_do_not_panic() {
        let t = Timestamp(Time(1_769_860_800_123));
        assert_eq!(t.to_string(), "2026-01-31T12:00:00.123Z");
        assert_eq!(t.to_string().parse::<Timestamp>(), Ok(t));
        assert_eq!("2026-01-31T13:00:00.123+01:00".parse::<Timestamp>(), Ok(t));
        for extreme in [i64::MIN, i64::MAX] {
            assert!(!Timestamp(Time(extreme)).to_string().is_empty());
        }
        assert!("yesterday".parse::<Timestamp>().is_err());
    }
}
