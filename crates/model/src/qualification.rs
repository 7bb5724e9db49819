//! Passing muster: what was measured on a node before it takes work, and what came of it.

use crate::units::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// How thoroughly a node is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Level {
    /// Under a minute.
    Quick,
    /// About six minutes.
    Standard,
    /// Hours, in rounds.
    Full,
}

impl Level {
    /// The word users write.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Level::Quick => "quick",
            Level::Standard => "standard",
            Level::Full => "full",
        }
    }
}

/// What came of a check, or of all of them. Ordered: a later one is worse.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Not done here; the note says why.
    Skipped,
    /// As good as it must be.
    Passed,
    /// It may work, and somebody should look.
    Degraded,
    /// It may not take work.
    Failed,
}

impl Outcome {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Outcome::Skipped => "skipped",
            Outcome::Passed => "passed",
            Outcome::Degraded => "degraded",
            Outcome::Failed => "failed",
        }
    }
}

/// A measured number, kept in thousandths so that it means the same on every machine. Written as
/// a plain number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64))]
pub struct Milli(pub i64);

impl Milli {
    /// The nearest thousandth; what is no number is zero.
    #[must_use]
    pub fn from_f64(v: f64) -> Milli {
        #[expect(clippy::cast_possible_truncation, reason = "casts of floats saturate")]
        Milli((v * 1000.0).round() as i64)
    }

    /// As a floating-point number.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        #[expect(clippy::cast_precision_loss, reason = "measured figures have few digits")]
        {
            self.0 as f64 / 1000.0
        }
    }
}

impl fmt::Display for Milli {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.0.unsigned_abs() {
            0..10_000 => 2,
            10_000..100_000 => 1,
            _ => 0,
        };
        write!(f, "{:.digits$}", self.to_f64())
    }
}

impl Serialize for Milli {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        s.serialize_f64(self.to_f64())
    }
}

impl<'de> Deserialize<'de> for Milli {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Milli, D::Error> {
        f64::deserialize(d).map(Milli::from_f64)
    }
}

/// One check of one thing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Check {
    /// `hbm-copy`, `gemm-bf16`, `pcie-h2d`: stable, what history and rules name.
    pub name: String,
    /// The GPU, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// What came of it.
    pub outcome: Outcome,
    /// What was measured.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub value: Option<Milli>,
    /// Its unit, such as `GB/s` or `TFLOP/s`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub unit: String,
    /// What a good one reaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<Milli>,
    /// What it must reach (or, for what should be small, may not pass).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floor: Option<Milli>,
    /// In words: why it failed, was skipped, or what stands out.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

/// A whole qualification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Qualification {
    /// How thoroughly.
    pub level: Level,
    /// When it began, by the node's clock.
    pub started_at: Time,
    /// How long it took.
    pub took: Span,
    /// The worst of its checks that were not skipped.
    pub outcome: Outcome,
    /// Every check, in the order they were made.
    pub checks: Vec<Check>,
}
