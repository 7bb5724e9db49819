//! Time, spans and bytes. Integers throughout: a decision never depends on floating point.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::ops::{Add, Sub};
use std::str::FromStr;

/// A moment: milliseconds since 1970-01-01 UTC. Always handed in, never read from a clock here.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Time(pub i64);

/// A length of time in milliseconds. Written `90s`, `24h`, `1d12h`, `250ms`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^([0-9]{1,9}(ms|s|m|h|d|w))$", example = "24h", max_length = 64))]
pub struct Span(pub u64);

/// An amount of memory. Written `512GiB`, `16GB`, `4096`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9]{1,15}( ?([KMGTP]i?)?B?)$", example = "512GiB", max_length = 64))]
pub struct Bytes(pub u64);

/// Why a quantity was not understood.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{given}` is not {want}")]
pub struct UnitError {
    given: String,
    want: &'static str,
}

fn unit_error(given: &str, want: &'static str) -> UnitError {
    UnitError { given: given.chars().take(60).flat_map(char::escape_debug).collect(), want }
}

impl Time {
    /// Milliseconds from `earlier` to this moment; zero when it is not earlier.
    #[must_use]
    pub fn since(self, earlier: Time) -> Span {
        Span(u64::try_from(self.0.saturating_sub(earlier.0)).unwrap_or(0))
    }

    /// Of windows that begin here and come again, the one that goes on at `t`, or the next one after
    /// it.
    #[must_use]
    pub fn window(self, length: Span, every: Option<Span>, t: Time) -> Option<(Time, Time)> {
        let mut start = self;
        if let Some(every) = every.filter(|e| e.0 > 0)
            && t > start
        {
            start = start + Span(t.since(start).0 / every.0 * every.0);
            if t >= start + length {
                start = start + every;
            }
        }
        let end = start + length;
        (t < end).then_some((start, end))
    }
}

impl Add<Span> for Time {
    type Output = Time;
    fn add(self, s: Span) -> Time {
        Time(self.0.saturating_add(i64::try_from(s.0).unwrap_or(i64::MAX)))
    }
}

impl Sub<Span> for Time {
    type Output = Time;
    fn sub(self, s: Span) -> Time {
        Time(self.0.saturating_sub(i64::try_from(s.0).unwrap_or(i64::MAX)))
    }
}

/// Longer texts are no quantities; the API's schema says the same.
const TEXT_MAX: usize = 64;

const UNITS: [(&str, u64); 6] = [
    ("w", 604_800_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

impl Span {
    /// So many seconds.
    #[must_use]
    pub const fn secs(s: u64) -> Span {
        Span(s * 1000)
    }
    /// So many hours.
    #[must_use]
    pub const fn hours(h: u64) -> Span {
        Span(h * 3_600_000)
    }
    /// So many minutes.
    #[must_use]
    pub const fn mins(m: u64) -> Span {
        Span(m * 60_000)
    }
    /// As the standard library's duration.
    #[must_use]
    pub fn to_std(self) -> std::time::Duration {
        std::time::Duration::from_millis(self.0)
    }
}

impl fmt::Display for Span {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.0 == 0 {
            return f.write_str("0s");
        }
        let mut rest = self.0;
        for (unit, ms) in UNITS {
            // A day is the largest unit that reads well in a sum; weeks only when exact.
            if unit == "w" && !rest.is_multiple_of(ms) {
                continue;
            }
            if rest >= ms {
                write!(f, "{}{unit}", rest / ms)?;
                rest %= ms;
            }
        }
        Ok(())
    }
}

impl FromStr for Span {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        let bad = || unit_error(s, "a length of time: write it like 90s, 30m, 24h or 1d12h");
        let mut rest = s.trim();
        let mut total: u64 = 0;
        if rest.is_empty() || s.len() > TEXT_MAX {
            return Err(bad());
        }
        while !rest.is_empty() {
            let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
            let n: u64 = rest[..digits].parse().map_err(|_| bad())?;
            rest = &rest[digits..];
            // `0.4s` is how people write a step time; three decimals are enough.
            let mut thousandths = 0;
            if let Some(after) = rest.strip_prefix('.') {
                let d = after.bytes().take_while(u8::is_ascii_digit).count();
                if !(1..=3).contains(&d) {
                    return Err(bad());
                }
                let part: u64 = after[..d].parse().map_err(|_| bad())?;
                thousandths = part * 10u64.pow(3 - u32::try_from(d).unwrap_or(3));
                rest = &after[d..];
            }
            let letters = rest.bytes().take_while(u8::is_ascii_alphabetic).count();
            let ms = UNITS.iter().find(|(u, _)| *u == &rest[..letters]).ok_or_else(bad)?.1;
            rest = &rest[letters..];
            let fraction = thousandths * ms / 1000;
            total = n
                .checked_mul(ms)
                .and_then(|v| total.checked_add(v)?.checked_add(fraction))
                .ok_or_else(bad)?;
        }
        // A century: longer is a slip of the keyboard, and sums of times must not overflow.
        if total > 100 * 366 * 86_400_000 {
            return Err(unit_error(s, "a length of time under 100 years"));
        }
        Ok(Span(total))
    }
}

const SIZES: [(&str, u64); 11] = [
    ("PiB", 1 << 50),
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("PB", 1_000_000_000_000_000),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("KB", 1000),
    ("B", 1),
];

impl Bytes {
    /// So many mebibytes.
    #[must_use]
    pub const fn mib(n: u64) -> Bytes {
        Bytes(n << 20)
    }
    /// So many gibibytes.
    #[must_use]
    pub const fn gib(n: u64) -> Bytes {
        Bytes(n << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, n) in SIZES {
            if self.0 >= n && self.0.is_multiple_of(n) {
                return write!(f, "{}{unit}", self.0 / n);
            }
        }
        write!(f, "{}B", self.0)
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(s: &str) -> Result<Self, UnitError> {
        let bad = || unit_error(s, "an amount of memory: write it like 512GiB or 16GB");
        let t = s.trim();
        if s.len() > TEXT_MAX {
            return Err(bad());
        }
        let digits = t.bytes().take_while(u8::is_ascii_digit).count();
        let n: u64 = t[..digits].parse().map_err(|_| bad())?;
        let unit = t[digits..].trim();
        // `16G` and `16Gi` are what Slurm and Kubernetes users type; both mean binary units.
        let size = match unit {
            "" => 1,
            "K" | "k" | "Ki" => 1 << 10,
            "M" | "Mi" => 1 << 20,
            "G" | "Gi" => 1 << 30,
            "T" | "Ti" => 1 << 40,
            "P" | "Pi" => 1 << 50,
            u => SIZES.iter().find(|(name, _)| *name == u).ok_or_else(bad)?.1,
        };
        n.checked_mul(size).filter(|v| *v < 1 << 60).map(Bytes).ok_or_else(bad)
    }
}

macro_rules! text_serde {
    ($name:ident, $example:literal) => {
        impl Serialize for $name {
            fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> Deserialize<'de> for $name {
            fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                struct V;
                impl serde::de::Visitor<'_> for V {
                    type Value = $name;
                    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                        f.write_str(concat!(
                            "a ",
                            stringify!($name),
                            " written as text with its unit"
                        ))
                    }
                    fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<$name, E> {
                        v.parse().map_err(E::custom)
                    }
                    fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<$name, E> {
                        // A bare number is ambiguous: minutes or seconds, megabytes or bytes?
                        Err(E::custom(format!(
                            "{v} has no unit: write it as text, for example {}",
                            $example
                        )))
                    }
                }
                d.deserialize_any(V)
            }
        }
    };
}
text_serde!(Span, "90s or 24h");
text_serde!(Bytes, "512GiB");

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn spans_read_as_people_write_them() {
        assert_eq!("1d12h".parse::<Span>().unwrap(), Span(129_600_000));
        assert_eq!("90s".parse::<Span>().unwrap().to_string(), "1m30s");
        assert_eq!("0.4s".parse::<Span>().unwrap(), Span(400));
        assert_eq!("1.5h".parse::<Span>().unwrap(), Span::mins(90));
        assert_eq!(Span(604_800_000).to_string(), "1w");
        for bad in ["", "5", "-1s", "1y", "99999999999999999999h", "1h 2", "200000w"] {
            assert!(bad.parse::<Span>().is_err(), "{bad:?}");
        }
    }

    #[test]
    fn bytes_read_as_people_write_them() {
        assert_eq!("512GiB".parse::<Bytes>().unwrap(), Bytes(512 << 30));
        assert_eq!("16G".parse::<Bytes>().unwrap(), Bytes(16 << 30));
        assert_eq!("16 GB".parse::<Bytes>().unwrap(), Bytes(16_000_000_000));
        for bad in ["", "GiB", "-1", "1.5GiB", "9999999999999PiB", "4XB"] {
            assert!(bad.parse::<Bytes>().is_err(), "{bad:?}");
        }
    }

    proptest! {
        #[test]
        fn spans_and_bytes_survive_text(ms in 0u64..3_000_000_000_000, b in 0u64..(1 << 60)) {
            prop_assert_eq!(Span(ms).to_string().parse::<Span>().unwrap(), Span(ms));
            prop_assert_eq!(Bytes(b).to_string().parse::<Bytes>().unwrap(), Bytes(b));
        }

        #[test]
        fn no_text_panics(s in "\\PC{0,40}") {
            let _ = s.parse::<Span>();
            let _ = s.parse::<Bytes>();
        }
    }
}
