//! Costs, and when one has grown.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a case cost.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cost {
    /// Instructions; none where several threads take turns.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub instructions: Option<u64>,
    /// Allocations; none where instructions are not counted either.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allocations: Option<u64>,
    /// Records written.
    pub records: u64,
    /// Bytes written.
    pub bytes: u64,
}

/// The costs of all cases.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Baselines {
    /// What instructions depend on beside the code: compiler, counter, C library, processor.
    pub made_by: String,
    /// By name.
    pub cases: BTreeMap<String, Cost>,
}

/// What came of a comparison.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Verdict {
    /// One for each case, and for what is odd.
    pub lines: Vec<String>,
    /// Cases that cost no more than they may.
    pub passed: u64,
    /// Cases that cost more, or cannot be compared.
    pub failed: u64,
}

/// Hundredths by which a count may grow; one that shrank by more is worth keeping.
const TOLERANCE: u128 = 3;

/// Compares what was found with what was kept. Instructions are compared only where both were made
/// by the same tools.
#[must_use]
pub fn compare(kept: &Baselines, found: &Baselines) -> Verdict {
    let mut verdict = Verdict::default();
    let same_tools = kept.made_by == found.made_by;
    if !same_tools {
        verdict.lines.push(format!(
            "instructions are not compared: the baselines were made by {}, this by {}",
            kept.made_by, found.made_by
        ));
    }
    for (name, cost) in &found.cases {
        let line = match kept.cases.get(name) {
            Some(before) => one(before, cost, same_tools),
            None => Err("there is no baseline".into()),
        };
        verdict.add(name, line);
    }
    for name in kept.cases.keys().filter(|name| !found.cases.contains_key(*name)) {
        verdict.add(name, Err("there is a baseline, and nobody counts it any more".into()));
    }
    verdict
}

impl Verdict {
    fn add(&mut self, name: &str, line: Result<String, String>) {
        let (word, text) = match line {
            Ok(text) => {
                self.passed += 1;
                ("  ok", text)
            }
            Err(text) => {
                self.failed += 1;
                ("FAIL", text)
            }
        };
        self.lines.push(format!("{word}  {name:<14} {text}"));
    }
}

/// What to say of one case: as an error, where something of it costs too much.
fn one(before: &Cost, now: &Cost, same_tools: bool) -> Result<String, String> {
    let instructions = same_tools.then_some((before.instructions, now.instructions));
    let measures = [
        ("instructions", instructions.unwrap_or_default()),
        ("allocations", (before.allocations, now.allocations)),
        ("records", (Some(before.records), Some(now.records))),
        ("bytes", (Some(before.bytes), Some(now.bytes))),
    ];
    let (mut parts, mut bad) = (Vec::new(), false);
    for (what, counts) in measures {
        let (before, now) = match counts {
            (None, None) => continue,
            (Some(before), Some(now)) => (before, now),
            (before, _) => {
                let only = if before.is_some() { "in the baseline" } else { "now" };
                parts.push(format!("{what}: counted {only} only"));
                bad = true;
                continue;
            }
        };
        let (a, b) = (u128::from(before), u128::from(now));
        if b * 100 > a * (100 + TOLERANCE) {
            bad = true;
            parts.push(format!("{what} {before} -> {now} ({}): too much", change(before, now)));
        } else if b * 100 < a * (100 - TOLERANCE) {
            parts.push(format!(
                "{what} {before} -> {now} ({}): the baseline can be lowered",
                change(before, now)
            ));
        } else if now > 0 {
            parts.push(format!("{what} {now} ({})", change(before, now)));
        }
    }
    let text = parts.join(", ");
    if bad { Err(text) } else { Ok(text) }
}

fn change(before: u64, now: u64) -> String {
    if before == 0 {
        return "none before".into();
    }
    format!("{:+.2}%", (now as f64 / before as f64 - 1.0) * 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cost(instructions: u64) -> Cost {
        Cost {
            instructions: Some(instructions),
            allocations: Some(1000),
            records: 100,
            bytes: 10_000,
        }
    }

    fn all(cases: &[(&str, Cost)]) -> Baselines {
        let cases = cases.iter().map(|(name, cost)| ((*name).to_owned(), cost.clone())).collect();
        Baselines { made_by: "rustc 1".into(), cases }
    }

    #[test]
    fn a_slow_down_of_more_than_three_percent_fails_and_less_passes() {
        let kept = all(&[("cycle", cost(1_000_000))]);
        let verdict = |n| compare(&kept, &all(&[("cycle", cost(n))]));
        for fine in [970_000, 1_000_000, 1_029_999, 1_030_000] {
            let v = verdict(fine);
            assert_eq!((v.passed, v.failed), (1, 0), "{fine}: {v:?}");
            assert!(!v.lines[0].contains("lowered"), "{v:?}");
        }
        let v = verdict(1_030_001);
        assert_eq!((v.passed, v.failed), (0, 1), "{v:?}");
        let said = "FAIL  cycle          instructions 1000000 -> 1030001 (+3.00%): too much";
        assert!(v.lines[0].starts_with(said), "{v:?}");
    }

    #[test]
    fn what_became_cheaper_passes_and_is_reported() {
        let kept = all(&[("cycle", cost(1_000_000))]);
        let v = compare(&kept, &all(&[("cycle", cost(969_999))]));
        assert_eq!((v.passed, v.failed), (1, 0));
        assert!(v.lines[0].contains("(-3.00%): the baseline can be lowered"), "{v:?}");
    }

    #[test]
    fn every_count_is_compared_also_one_that_was_nothing() {
        let kept = all(&[("a", Cost { allocations: Some(0), ..cost(1) })]);
        let changes: [fn(&mut Cost); 3] =
            [|c| c.allocations = Some(1), |c| c.records += 4, |c| c.bytes += 301];
        for (i, change) in changes.iter().enumerate() {
            let mut now = kept.cases["a"].clone();
            change(&mut now);
            let v = compare(&kept, &all(&[("a", now)]));
            assert_eq!((v.passed, v.failed), (0, 1), "{i}: {v:?}");
        }
    }

    #[test]
    fn a_case_without_a_baseline_fails_and_so_does_a_baseline_without_a_case() {
        let kept = all(&[("gone", cost(1)), ("same", cost(1))]);
        let v = compare(&kept, &all(&[("new", cost(1)), ("same", cost(1))]));
        assert_eq!((v.passed, v.failed), (1, 2), "{v:?}");
        assert!(v.lines.iter().any(|l| l.contains("new") && l.contains("no baseline")), "{v:?}");
        assert!(v.lines.iter().any(|l| l.contains("gone") && l.contains("nobody counts")), "{v:?}");
        let uncounted = Cost { instructions: None, ..cost(1) };
        let v = compare(&all(&[("a", cost(1))]), &all(&[("a", uncounted)]));
        assert_eq!(v.failed, 1, "{v:?}");
    }

    #[test]
    fn another_compiler_is_reported_and_only_the_other_counts_are_compared() {
        let kept = all(&[("a", cost(1_000_000))]);
        let mut now = all(&[("a", cost(2_000_000))]);
        now.made_by = "rustc 2".into();
        let v = compare(&kept, &now);
        assert_eq!((v.passed, v.failed), (1, 0), "{v:?}");
        assert!(v.lines[0].contains("rustc 1, this by rustc 2"), "{v:?}");
        now.cases.insert("a".into(), Cost { allocations: Some(1031), ..cost(1) });
        assert_eq!(compare(&kept, &now).failed, 1);
    }

    #[test]
    fn baselines_are_read_as_they_are_written() {
        let http = Cost { instructions: None, allocations: None, ..cost(1) };
        let kept = all(&[("cycle-1000", cost(12)), ("http", http)]);
        let text = toml::to_string(&kept).unwrap();
        assert!(text.contains("[cases.cycle-1000]") && !text.contains("null"), "{text}");
        assert_eq!(toml::from_str::<Baselines>(&text).unwrap(), kept);
    }
}
