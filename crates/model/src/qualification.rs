//! Passing muster: what was measured on a node before it takes work, and what came of it.

use crate::units::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// How thoroughly a node is tested.
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
    /// A node that has not reported after so long has failed.
    #[must_use]
    pub fn time_limit(self) -> Span {
        match self {
            Level::Quick => Span::mins(10),
            Level::Standard => Span::mins(30),
            Level::Full => Span::hours(24),
        }
    }

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
    /// For people: why it failed, was skipped, or what is unusual.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
}

impl Check {
    /// Every multiprocessor computes the same product; those whose answer differs are wrong.
    pub const SM_AGREE: &str = "sm-agree";
    /// The same product again and again; words that differ from the first time are wrong.
    pub const GEMM_REPEAT: &str = "gemm-repeat";

    /// Whether it says that a GPU computes wrong results, which is worse than being slow or absent.
    #[must_use]
    pub fn found_wrong_results(&self) -> bool {
        let compares = matches!(self.name.as_str(), Check::SM_AGREE | Check::GEMM_REPEAT);
        compares && self.outcome == Outcome::Failed
    }

    /// A check without a figure: what came of it, in words.
    #[must_use]
    pub fn plain(
        name: impl Into<String>,
        gpu: Option<u32>,
        outcome: Outcome,
        note: impl Into<String>,
    ) -> Check {
        Check {
            name: name.into(),
            gpu,
            outcome,
            value: None,
            unit: String::new(),
            expected: None,
            floor: None,
            note: note.into(),
        }
    }
}

/// A whole qualification.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Qualification {
    /// How much was tested: quick, standard or full.
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

/// Checks of one report that are kept; no node has so many.
const CHECKS_MAX: usize = 1024;
/// Characters of a name or a unit that are kept.
const NAME_MAX: usize = 64;
/// Characters of a note that are kept.
const NOTE_MAX: usize = 500;

impl Qualification {
    /// The report with what is too long cut short, so that no node can fill the log.
    #[must_use]
    pub fn bounded(mut self) -> Qualification {
        self.checks.truncate(CHECKS_MAX);
        for c in &mut self.checks {
            cut(&mut c.name, NAME_MAX);
            cut(&mut c.unit, NAME_MAX);
            cut(&mut c.note, NOTE_MAX);
        }
        self
    }

    /// The worst of its checks, and never better than what it says itself.
    #[must_use]
    pub fn worst(&self) -> Outcome {
        self.checks.iter().map(|c| c.outcome).max().map_or(self.outcome, |o| o.max(self.outcome))
    }

    /// What was measured, without the words.
    #[must_use]
    pub fn figures(&self) -> Vec<Measurement> {
        let one =
            |c: &Check| Some(Measurement { name: c.name.clone(), gpu: c.gpu, value: c.value? });
        self.checks.iter().filter_map(one).collect()
    }

    /// The GPU that every check that failed is about, if it is one.
    #[must_use]
    pub fn failed_gpu(&self) -> Option<u32> {
        let mut failed = self.checks.iter().filter(|c| c.outcome == Outcome::Failed);
        let gpu = failed.next()?.gpu?;
        failed.all(|c| c.gpu == Some(gpu)).then_some(gpu)
    }

    /// The first check that failed, in words.
    #[must_use]
    pub fn first_failure(&self) -> Option<String> {
        first_failure(&self.checks)
    }
}

/// The first of these checks that failed, in words.
#[must_use]
pub fn first_failure(checks: &[Check]) -> Option<String> {
    let c = checks.iter().find(|c| c.outcome == Outcome::Failed)?;
    let gpu = c.gpu.map(|g| format!(" of GPU {g}")).unwrap_or_default();
    let figure = match (c.value, c.floor) {
        (Some(v), Some(f)) => format!(" is {v} {}, not {f}", c.unit),
        _ => String::new(),
    };
    let note = if c.note.is_empty() { String::new() } else { format!(": {}", c.note) };
    Some(format!("{}{gpu}{figure}{note}", c.name))
}

pub(crate) fn cut(text: &mut String, most: usize) {
    if let Some((at, _)) = text.char_indices().nth(most) {
        text.truncate(at);
    }
}

/// A measured figure, as it is kept for later comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Measurement {
    /// The check's name.
    pub name: String,
    /// The GPU, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// What was measured.
    pub value: Milli,
}

/// A test that goes on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qualifying {
    /// Names this test.
    pub id: u64,
    /// How much is tested: quick, standard or full.
    pub level: Level,
    /// When it was asked for.
    pub asked_at: Time,
    /// It has failed when nothing was reported about it by then.
    pub until: Time,
}

/// A test that came to an end.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Qualified {
    /// The test's number, from `QualificationAsked`.
    pub id: u64,
    /// When its end was written down.
    pub ended_at: Time,
    /// What was measured.
    pub report: Qualification,
}

/// What is remembered of a test for later comparison.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PastQualification {
    /// When its end was written down.
    pub at: Time,
    /// How much was tested: quick, standard or full.
    pub level: Level,
    /// What came of it.
    pub outcome: Outcome,
    /// What was measured.
    pub figures: Vec<Measurement>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(name: &str, outcome: Outcome) -> Check {
        Check {
            name: name.into(),
            gpu: Some(3),
            outcome,
            value: Some(Milli(512_000)),
            unit: "TFLOP/s".into(),
            expected: Some(Milli(680_000)),
            floor: Some(Milli(640_000)),
            note: String::new(),
        }
    }

    #[test]
    fn a_report_is_cut_and_its_worst_check_counts() {
        let long = Check { note: "é".repeat(2000), ..check("gemm-bf16", Outcome::Failed) };
        let q = Qualification {
            level: Level::Quick,
            started_at: Time(1),
            took: Span(2),
            outcome: Outcome::Passed,
            checks: vec![long; 2000],
        };
        let q = q.bounded();
        assert_eq!((q.checks.len(), q.checks[0].note.chars().count()), (1024, 500));
        assert_eq!(q.worst(), Outcome::Failed);
        assert_eq!(q.figures().len(), 1024);
    }

    #[test]
    fn a_failure_is_reported_with_its_figures() {
        let q = Qualification {
            level: Level::Quick,
            started_at: Time(1),
            took: Span(2),
            outcome: Outcome::Failed,
            checks: vec![check("hbm-copy", Outcome::Passed), check("gemm-bf16", Outcome::Failed)],
        };
        let reported = q.first_failure().unwrap();
        assert_eq!(reported, "gemm-bf16 of GPU 3 is 512 TFLOP/s, not 640");
        assert_eq!(q.failed_gpu(), Some(3));
    }
}
