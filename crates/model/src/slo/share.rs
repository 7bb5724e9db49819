//! Shares and factors: whole numbers, written as people read them.

use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A share in parts per million. Written `99.9%`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9]{1,3}([.][0-9]{1,4})?%$", example = "99.9%", max_length = 9))]
pub struct Ppm(pub u32);

impl Ppm {
    /// The whole: a million millionths.
    pub const ONE: Ppm = Ppm(1_000_000);

    /// What is left to one.
    #[must_use]
    pub fn rest(self) -> Ppm {
        Ppm(Ppm::ONE.0.saturating_sub(self.0))
    }

    /// From a decimal number, of which `places` decimals are whole parts per million: 4 for
    /// percent, 6 for a share of one.
    fn decimal(s: &str, places: usize) -> Option<Ppm> {
        let (whole, part) = s.split_once('.').unwrap_or((s, "0"));
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        if !digits(whole) || !digits(part) || whole.len() > 3 {
            return None;
        }
        // Zeros at the end say nothing; more decimals than are kept would be lost.
        let part = part.trim_end_matches('0');
        if part.len() > places {
            return None;
        }
        let unit = 10u32.pow(u32::try_from(places).ok()?);
        let scale = 10u32.pow(u32::try_from(places - part.len()).ok()?);
        let ppm = whole.parse::<u32>().ok()?.checked_mul(unit)?;
        let part = if part.is_empty() { 0 } else { part.parse::<u32>().ok()? * scale };
        let ppm = ppm.checked_add(part)?;
        (ppm <= Ppm::ONE.0).then_some(Ppm(ppm))
    }

    /// From a share of one, like `0.999`.
    #[must_use]
    pub fn from_share(s: &str) -> Option<Ppm> {
        Ppm::decimal(s, 6)
    }

    /// From percent without the sign, like `99.9`.
    #[must_use]
    pub fn from_percent(s: &str) -> Option<Ppm> {
        Ppm::decimal(s, 4)
    }
}

impl fmt::Display for Ppm {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 10_000, self.0 % 10_000);
        let text = match part {
            0 => format!("{whole}%"),
            _ => format!("{}%", format!("{whole}.{part:04}").trim_end_matches('0')),
        };
        f.pad(&text)
    }
}

/// Text that is no share.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a share: write percent with at most 4 decimals, like 99.9%")]
pub struct PpmError(String);

pub(super) fn shown(s: &str) -> String {
    s.chars().take(60).flat_map(char::escape_debug).collect()
}

impl FromStr for Ppm {
    type Err = PpmError;
    fn from_str(s: &str) -> Result<Ppm, PpmError> {
        let percent = s.trim().strip_suffix('%').map(str::trim_end);
        percent.and_then(Ppm::from_percent).ok_or_else(|| PpmError(shown(s)))
    }
}

impl Serialize for Ppm {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Ppm {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Ppm, D::Error> {
        String::deserialize(d)?.parse().map_err(serde::de::Error::custom)
    }
}

/// How many times too fast, in thousandths. Written `14.4x`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, pattern = "^[0-9]{1,6}([.][0-9]{1,3})?x$", example = "14.4x"))]
pub struct Factor(pub u32);

impl fmt::Display for Factor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (whole, part) = (self.0 / 1000, self.0 % 1000);
        match part {
            0 => f.pad(&format!("{whole}x")),
            _ => f.pad(&format!("{}x", format!("{whole}.{part:03}").trim_end_matches('0'))),
        }
    }
}

impl FromStr for Factor {
    type Err = FactorError;
    fn from_str(s: &str) -> Result<Factor, FactorError> {
        let wrong = || FactorError(shown(s));
        let t = s.trim();
        let t = t.strip_suffix('x').unwrap_or(t);
        let (whole, part) = t.split_once('.').unwrap_or((t, "0"));
        let digits = |t: &str| !t.is_empty() && t.bytes().all(|b| b.is_ascii_digit());
        let part = if part.len() > 1 { part.trim_end_matches('0') } else { part };
        let part = if part.is_empty() { "0" } else { part };
        if !digits(whole) || !digits(part) || whole.len() > 6 || part.len() > 3 {
            return Err(wrong());
        }
        let thousandths = format!("{part:0<3}").parse::<u32>().map_err(|_| wrong())?;
        Ok(Factor(whole.parse::<u32>().map_err(|_| wrong())? * 1000 + thousandths))
    }
}

/// Text that is no factor.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a factor: write it with at most 3 decimals, like 14.4x")]
pub struct FactorError(String);

impl Serialize for Factor {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Factor {
    /// Also from a plain number, as people write it.
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Factor, D::Error> {
        struct V;
        impl serde::de::Visitor<'_> for V {
            type Value = Factor;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a factor like 14.4x")
            }
            fn visit_str<E: serde::de::Error>(self, v: &str) -> Result<Factor, E> {
                v.parse().map_err(E::custom)
            }
            fn visit_u64<E: serde::de::Error>(self, v: u64) -> Result<Factor, E> {
                v.to_string().parse().map_err(E::custom)
            }
            fn visit_f64<E: serde::de::Error>(self, v: f64) -> Result<Factor, E> {
                // The shortest text of the number is what was written.
                v.to_string().parse().map_err(E::custom)
            }
        }
        d.deserialize_any(V)
    }
}
