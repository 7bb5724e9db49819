//! What each kind of GPU is expected to reach: data, not code.

use muster_model::qualification::{Check, Milli, Outcome};
use serde::Deserialize;
use std::collections::BTreeMap;

/// What one check is held to.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Bar {
    /// What a good one reaches.
    pub expected: f64,
    /// What it must reach.
    pub floor: f64,
    /// In which unit.
    pub unit: String,
    /// Smaller is better, and the floor is a ceiling.
    #[serde(default)]
    pub most: bool,
}

/// Why a file of expectations was refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ExpectError {
    /// It is not what it should be.
    #[error("{0}")]
    Syntax(String),
    /// A floor that a good GPU could not pass, or the wrong unit.
    #[error("`{check}` of `{sku}`: {problem}")]
    Value {
        /// The kind of GPU.
        sku: String,
        /// The name of the check.
        check: String,
        /// What is wrong, and how to fix it.
        problem: String,
    },
}

/// Expectations by kind of GPU and name of check.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Expectations(BTreeMap<String, BTreeMap<String, Bar>>);

impl Expectations {
    /// What comes with this version.
    #[must_use]
    pub fn builtin() -> Expectations {
        Expectations::parse(include_str!("../../data/expect.toml")).unwrap_or_default()
    }

    /// Reads a file of expectations.
    ///
    /// # Errors
    /// With the line and what is wrong there.
    pub fn parse(text: &str) -> Result<Expectations, ExpectError> {
        let all: BTreeMap<String, BTreeMap<String, Bar>> =
            toml::from_str(text).map_err(|e| ExpectError::Syntax(e.to_string()))?;
        for (sku, bars) in &all {
            for (check, bar) in bars {
                let wrong = |problem: &str| ExpectError::Value {
                    sku: sku.clone(),
                    check: check.clone(),
                    problem: problem.into(),
                };
                if !(bar.expected > 0.0 && bar.expected.is_finite() && bar.floor > 0.0) {
                    return Err(wrong("`expected` and `floor` must be above zero"));
                }
                if bar.most && bar.floor < bar.expected {
                    return Err(wrong(
                        "with `most` the floor is a ceiling: set it above `expected`",
                    ));
                }
                if !bar.most && bar.floor > bar.expected {
                    return Err(wrong("the floor is above what is expected: set it below"));
                }
            }
        }
        Ok(Expectations(all))
    }

    /// These, with another file's bars put over them.
    #[must_use]
    pub fn with(mut self, over: Expectations) -> Expectations {
        for (sku, bars) in over.0 {
            self.0.entry(sku).or_default().extend(bars);
        }
        self
    }

    /// What a check of this kind of GPU is held to.
    #[must_use]
    pub fn bar(&self, sku: &str, check: &str) -> Option<&Bar> {
        self.0.get(sku)?.get(check)
    }

    /// A measured value, judged.
    #[must_use]
    pub fn evaluate(
        &self,
        sku: &str,
        name: &str,
        gpu: Option<u32>,
        value: f64,
        unit: &str,
    ) -> Check {
        let bar = self.bar(sku, name);
        let short = |b: &Bar| if b.most { value > b.floor } else { value < b.floor };
        let (outcome, note) = match bar {
            // What is no number fails whatever it is held to.
            _ if !value.is_finite() => (Outcome::Failed, "no number came out".to_owned()),
            Some(b) if short(b) => {
                let percent = (value / b.expected - 1.0) * 100.0;
                (Outcome::Failed, format!("{percent:+.1}% of what is expected"))
            }
            Some(_) => (Outcome::Passed, String::new()),
            None => (Outcome::Passed, format!("there is no baseline for `{sku}`: not checked")),
        };
        Check {
            name: name.into(),
            gpu,
            outcome,
            value: Some(Milli::from_f64(value)),
            unit: unit.into(),
            expected: bar.map(|b| Milli::from_f64(b.expected)),
            floor: bar.map(|b| Milli::from_f64(b.floor)),
            note,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_that_comes_along_is_right() {
        let e = Expectations::parse(include_str!("../../data/expect.toml")).unwrap();
        for sku in ["a100-sxm", "h100-sxm", "h200-sxm", "b200-sxm", "gb200"] {
            assert!(e.bar(sku, "gemm-bf16").is_some(), "{sku}");
        }
    }

    #[test]
    fn a_value_below_its_floor_fails_and_an_unknown_kind_is_not_judged() {
        let e = Expectations::builtin();
        let at = |v| e.evaluate("h200-sxm", "hbm-copy", Some(0), v, "GB/s");
        assert_eq!(at(4250.0).outcome, Outcome::Passed);
        assert_eq!(at(3999.0).outcome, Outcome::Failed);
        assert_eq!(at(f64::NAN).outcome, Outcome::Failed);
        let other = e.evaluate("z9", "hbm-copy", Some(0), 1.0, "GB/s");
        assert_eq!((other.outcome, other.floor), (Outcome::Passed, None));
        assert!(other.note.contains("not checked"));
    }

    #[test]
    fn bad_files_say_what_is_wrong_and_where() {
        for (text, want) in [
            ("[h200-sxm]\nx = { expected = 1, floor = 2, unit = \"W\" }", "above what is expected"),
            ("[h200-sxm]\nx = { expected = 0, floor = 0, unit = \"W\" }", "above zero"),
            ("[h200-sxm]\nx = { expected = 5, floor = 2, unit = \"W\", most = true }", "ceiling"),
            ("[h200-sxm]\nx = { expect = 1 }", "line 2"),
            ("[h200-sxm\n", "line 1"),
        ] {
            let e = Expectations::parse(text).unwrap_err().to_string();
            assert!(e.contains(want), "{text}: {e}");
        }
    }

    #[test]
    fn an_operators_bar_goes_over_ours() {
        let own = "[h200-sxm]\nhbm-copy = { expected = 4300, floor = 4200, unit = \"GB/s\" }";
        let e = Expectations::builtin().with(Expectations::parse(own).unwrap());
        let c = e.evaluate("h200-sxm", "hbm-copy", None, 4190.0, "GB/s");
        assert_eq!(c.outcome, Outcome::Failed);
        assert!(e.bar("h200-sxm", "gemm-bf16").is_some());
    }
}
