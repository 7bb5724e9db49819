//! A node's figures beside its own past and beside other nodes of its kind.
//!
//! A floor says what a device must reach to work at all. A device that passes it and is still
//! worse than its like, or than it was, is found here. Medians and median deviations, because a
//! few unhealthy nodes among the peers must not move what counts as usual.

use muster_model::qualification::{Check, Milli, Outcome, PastQualification, Qualification};
use std::sync::Arc;

/// Fewer peers say nothing.
const PEERS_MIN: usize = 4;
/// So many median absolute deviations from the median are no chance.
const DEVIATIONS: i64 = 5;
/// Peers that are all alike would make a hair's breadth stand out: at least so many percent.
const PEERS_PERCENT: i64 = 3;
/// Worse than its own best by more than so many percent.
const OWN_PERCENT: i64 = 5;

/// What a comparison adds to a check.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CheckComparison {
    /// Place of the check in the report.
    pub check: usize,
    /// It is at least as bad as this.
    pub outcome: Outcome,
    /// Why, in words.
    pub note: String,
}

/// Which way is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Good {
    More,
    Less,
}

/// Floors and expectations say which way is good; without them only rates are compared.
fn good(c: &Check) -> Option<Good> {
    match (c.expected, c.floor) {
        (Some(e), Some(f)) if e < f => Some(Good::Less),
        (Some(_), _) | (_, Some(_)) => Some(Good::More),
        (None, None) => c.unit.ends_with("/s").then_some(Good::More),
    }
}

/// Judges every check that passed against what the node measured before and against the newest
/// figures of other nodes of the same kind.
#[must_use]
pub fn evaluate_against(
    report: &Qualification,
    history: &[Arc<PastQualification>],
    peers: &[Arc<PastQualification>],
) -> Vec<CheckComparison> {
    let mut out = Vec::new();
    for (place, c) in report.checks.iter().enumerate() {
        let (Outcome::Passed, Some(value), Some(way)) = (c.outcome, c.value, good(c)) else {
            continue;
        };
        let notes: Vec<String> =
            [compare_with_peers(c, value, way, peers), compare_with_past(c, value, way, history)]
                .into_iter()
                .flatten()
                .collect();
        if !notes.is_empty() {
            out.push(CheckComparison {
                check: place,
                outcome: Outcome::Degraded,
                note: notes.join("; "),
            });
        }
    }
    out
}

/// How far a value is behind another one, in thousandths of its unit; negative when it is ahead.
fn behind(value: i64, other: i64, way: Good) -> i64 {
    match way {
        Good::More => other.saturating_sub(value),
        Good::Less => value.saturating_sub(other),
    }
}

/// Is it behind by at least so many percent?
fn percent_behind(gap: i64, of: i64, percent: i64, strictly: bool) -> bool {
    let (a, b) = (i128::from(gap) * 100, i128::from(of.abs()) * i128::from(percent));
    if strictly { a > b } else { a >= b }
}

fn compare_with_peers(
    c: &Check,
    value: Milli,
    way: Good,
    peers: &[Arc<PastQualification>],
) -> Option<String> {
    let figures = |p: &PastQualification| -> Vec<i64> {
        p.figures.iter().filter(|f| f.name == c.name).map(|f| f.value.0).collect()
    };
    let each: Vec<Vec<i64>> = peers.iter().map(|p| figures(p)).filter(|v| !v.is_empty()).collect();
    if each.len() < PEERS_MIN {
        return None;
    }
    let mut all = each.concat();
    let usual = median(&mut all)?;
    let mut off: Vec<i64> = all.iter().map(|v| v.saturating_sub(usual).saturating_abs()).collect();
    let spread = median(&mut off)?;
    let gap = behind(value.0, usual, way);
    let far =
        gap > spread.saturating_mul(DEVIATIONS) && percent_behind(gap, usual, PEERS_PERCENT, false);
    far.then(|| {
        format!(
            "{} than the {} of {} nodes of its kind",
            worse(gap, usual, way),
            show(usual, &c.unit),
            each.len()
        )
    })
}

fn compare_with_past(
    c: &Check,
    value: Milli,
    way: Good,
    history: &[Arc<PastQualification>],
) -> Option<String> {
    let mine = history.iter().flat_map(|p| &p.figures);
    let mine = mine.filter(|f| f.name == c.name && f.gpu == c.gpu).map(|f| f.value.0);
    let best = match way {
        Good::More => mine.max(),
        Good::Less => mine.min(),
    }?;
    let gap = behind(value.0, best, way);
    let fallen = gap > 0 && percent_behind(gap, best, OWN_PERCENT, true);
    fallen
        .then(|| format!("{} than its own best of {}", worse(gap, best, way), show(best, &c.unit)))
}

fn worse(gap: i64, of: i64, way: Good) -> String {
    let word = match way {
        Good::More => "lower",
        Good::Less => "higher",
    };
    match of.abs() {
        0 => word.into(),
        of => {
            let tenths = i128::from(gap) * 1000 / i128::from(of);
            format!("{}.{} % {word}", tenths / 10, tenths % 10)
        }
    }
}

fn show(value: i64, unit: &str) -> String {
    let value = Milli(value);
    if unit.is_empty() { value.to_string() } else { format!("{value} {unit}") }
}

/// The middle value; of an even number the mean of the two in the middle.
fn median(values: &mut [i64]) -> Option<i64> {
    values.sort_unstable();
    let n = values.len();
    let upper = *values.get(n / 2)?;
    if n % 2 == 1 {
        return Some(upper);
    }
    let lower = *values.get(n / 2 - 1)?;
    i64::try_from(i128::midpoint(i128::from(lower), i128::from(upper))).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::qualification::{Level, Measurement};
    use muster_model::units::{Span, Time};

    fn check(gpu: u32, value: i64) -> Check {
        Check {
            name: "gemm-bf16".into(),
            gpu: Some(gpu),
            outcome: Outcome::Passed,
            value: Some(Milli(value)),
            unit: "TFLOP/s".into(),
            expected: Some(Milli(700_000)),
            floor: Some(Milli(600_000)),
            note: String::new(),
        }
    }

    fn report(values: &[i64]) -> Qualification {
        let checks = (0..).zip(values).map(|(g, v)| check(g, *v)).collect();
        Qualification {
            level: Level::Quick,
            started_at: Time(0),
            took: Span(0),
            outcome: Outcome::Passed,
            checks,
        }
    }

    fn past(values: &[i64]) -> Arc<PastQualification> {
        let figures = (0..).zip(values).map(|(g, v)| Measurement {
            name: "gemm-bf16".into(),
            gpu: Some(g),
            value: Milli(*v),
        });
        Arc::new(PastQualification {
            at: Time(0),
            level: Level::Quick,
            outcome: Outcome::Passed,
            figures: figures.collect(),
        })
    }

    #[test]
    fn one_that_is_far_behind_its_like_is_degraded() {
        let peers: Vec<_> =
            [690_000, 695_000, 700_000, 705_000, 710_000].map(|v| past(&[v, v + 1_000])).to_vec();
        let found = evaluate_against(&report(&[700_000, 640_000]), &[], &peers);
        assert_eq!(found.len(), 1, "{found:?}");
        assert_eq!((found[0].check, found[0].outcome), (1, Outcome::Degraded));
        assert_eq!(found[0].note, "8.6 % lower than the 700 TFLOP/s of 5 nodes of its kind");
        // Behind, and not by five deviations.
        assert!(evaluate_against(&report(&[675_000]), &[], &peers).is_empty());
        // Too few to know what is usual.
        assert!(evaluate_against(&report(&[610_000]), &[], &peers[..3]).is_empty());
    }

    #[test]
    fn peers_that_are_all_alike_make_no_hair_stand_out() {
        let peers = vec![past(&[700_000]); 6];
        assert!(evaluate_against(&report(&[690_000]), &[], &peers).is_empty());
        assert_eq!(evaluate_against(&report(&[679_000]), &[], &peers).len(), 1);
        assert!(evaluate_against(&report(&[900_000]), &[], &peers).is_empty(), "faster is fine");
    }

    #[test]
    fn unhealthy_peers_do_not_move_what_is_usual() {
        let mut peers = vec![past(&[700_000]); 5];
        peers.extend(vec![past(&[350_000]); 2]);
        assert_eq!(evaluate_against(&report(&[670_000]), &[], &peers).len(), 1);
    }

    #[test]
    fn one_that_was_better_before_is_degraded() {
        let own = [past(&[700_000, 690_000]), past(&[680_000, 690_000])];
        let found = evaluate_against(&report(&[660_000, 690_000]), &own, &[]);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].note, "5.7 % lower than its own best of 700 TFLOP/s");
        assert!(
            evaluate_against(&report(&[665_000]), &own, &[]).is_empty(),
            "five percent is allowed"
        );
    }

    #[test]
    fn where_less_is_better_more_stands_out() {
        let mut r = report(&[12_000]);
        (r.checks[0].expected, r.checks[0].floor) = (Some(Milli(8_000)), Some(Milli(20_000)));
        let own = [past(&[8_000])];
        assert_eq!(
            evaluate_against(&r, &own, &[])[0].note,
            "50.0 % higher than its own best of 8.00 TFLOP/s"
        );
        r.checks[0].value = Some(Milli(7_000));
        assert!(evaluate_against(&r, &own, &[]).is_empty());
    }

    #[test]
    fn what_failed_or_was_skipped_is_left_as_it_is() {
        let own = [past(&[700_000])];
        let mut r = report(&[100_000]);
        for outcome in [Outcome::Failed, Outcome::Skipped, Outcome::Degraded] {
            r.checks[0].outcome = outcome;
            assert!(evaluate_against(&r, &own, &[]).is_empty());
        }
    }
}
