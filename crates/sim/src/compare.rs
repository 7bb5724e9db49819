//! What several runs say together: means, and differences between paired runs with their 95%
//! confidence intervals.

use crate::outcome::Outcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Which way a figure is good.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Better {
    /// More is better.
    More,
    /// Less is better.
    Less,
    /// Neither: it reports what happened.
    Neither,
}

/// What a figure is counted in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    /// Part of a whole, between 0 and 1.
    Share,
    /// A time, in seconds.
    Seconds,
    /// GPU-seconds.
    GpuSeconds,
    /// A number of things.
    Count,
}

/// A figure that runs are compared by.
#[derive(Debug, Clone, Copy)]
pub struct Metric {
    /// Its name in results; parts of a figure follow a dot.
    pub name: &'static str,
    /// What people call it.
    pub label: &'static str,
    /// Which way it is good.
    pub better: Better,
    /// What it is counted in.
    pub unit: Unit,
    /// Takes it from a run; none where the run has no such figure.
    pub value: fn(&Outcome) -> Option<f64>,
}

/// Counts lose nothing below 2^53.
#[allow(clippy::cast_precision_loss, reason = "counts are far below 2^53")]
fn count(n: u64) -> Option<f64> {
    Some(n as f64)
}

const fn metric(
    name: &'static str,
    label: &'static str,
    better: Better,
    unit: Unit,
    value: fn(&Outcome) -> Option<f64>,
) -> Metric {
    Metric { name, label, better, unit, value }
}

/// The main figures, the most important first.
pub static METRICS: &[Metric] = &[
    metric("ettr", "ETTR", Better::More, Unit::Share, |o| Some(o.ettr)),
    metric("goodput", "goodput", Better::More, Unit::Share, |o| Some(o.goodput)),
    metric("gpu_allocation_ratio", "GPU allocation", Better::More, Unit::Share, |o| {
        Some(o.gpu_allocation_ratio)
    }),
    metric("gpu_utilization", "GPU utilisation", Better::More, Unit::Share, |o| {
        Some(o.gpu_utilization)
    }),
    metric("fragmentation", "fragmentation", Better::Less, Unit::Share, |o| Some(o.fragmentation)),
    metric("wait_s.mean", "wait, mean", Better::Less, Unit::Seconds, |o| waited(o, o.wait_s.mean)),
    metric("wait_s.p50", "wait, median", Better::Less, Unit::Seconds, |o| waited(o, o.wait_s.p50)),
    metric("wait_s.p95", "wait, p95", Better::Less, Unit::Seconds, |o| waited(o, o.wait_s.p95)),
    metric("jct_s.mean", "completion time, mean", Better::Less, Unit::Seconds, |o| {
        (o.jct_s.count > 0).then_some(o.jct_s.mean)
    }),
    metric("jobs_completed", "jobs completed", Better::More, Unit::Count, |o| {
        count(o.jobs_completed)
    }),
    metric("makespan_s", "makespan", Better::Less, Unit::Seconds, |o| Some(o.makespan_s)),
    metric("interruptions", "interruptions", Better::Less, Unit::Count, |o| count(o.interruptions)),
    metric("mtbi_s", "time between them", Better::More, Unit::Seconds, |o| o.mtbi_s),
    metric("lost_gpu_seconds", "lost work", Better::Less, Unit::GpuSeconds, |o| {
        Some(o.lost_gpu_seconds)
    }),
    metric("preemptions", "preemptions", Better::Neither, Unit::Count, |o| count(o.preemptions)),
    metric("migrations", "migrations", Better::Neither, Unit::Count, |o| count(o.migrations)),
];

/// Where nothing waited there is nothing to compare.
fn waited(o: &Outcome, v: f64) -> Option<f64> {
    (o.wait_s.count > 0).then_some(v)
}

/// The figure of this name.
#[must_use]
pub fn by_name(name: &str) -> Option<&'static Metric> {
    METRICS.iter().find(|m| m.name == name)
}

/// A mean with its 95% confidence interval; one run alone has none.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Interval {
    /// The mean of all runs.
    pub mean: f64,
    /// The interval's lower end.
    pub low: Option<f64>,
    /// The interval's upper end.
    pub high: Option<f64>,
    /// Of so many runs.
    pub runs: u64,
}

impl Interval {
    /// Half of its width.
    #[must_use]
    pub fn half(&self) -> Option<f64> {
        self.low.zip(self.high).map(|(low, high)| (high - low) / 2.0)
    }
}

/// How two scenarios differ in a figure: the second less the first, seed by seed.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Difference {
    /// Mean of the differences.
    pub mean: f64,
    /// Least of its 95% confidence interval; none with one pair.
    pub low: Option<f64>,
    /// Most of it.
    pub high: Option<f64>,
    /// How many pairs.
    pub pairs: u64,
    /// What can be said.
    pub verdict: Verdict,
}

/// What a difference says about the second scenario.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// It does better.
    Better,
    /// It does worse.
    Worse,
    /// It has more of what is neither good nor bad.
    More,
    /// It has less of it.
    Less,
    /// Chance alone explains the difference.
    NoDifferenceSeen,
    /// One pair does not distinguish chance from effect.
    OnePair,
}

impl Verdict {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Better => "better",
            Verdict::Worse => "worse",
            Verdict::More => "more",
            Verdict::Less => "less",
            Verdict::NoDifferenceSeen => "no difference seen",
            Verdict::OnePair => "one pair, not conclusive",
        }
    }
}

/// The 97.5% quantiles of Student's t for 1 to 30 degrees of freedom.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The same further on; the last stands for all above.
const T_FAR: [(f64, f64); 5] =
    [(30.0, 2.042), (40.0, 2.021), (60.0, 2.000), (120.0, 1.980), (f64::INFINITY, 1.960)];

/// The 97.5% quantile of Student's t; infinite without a degree of freedom.
#[must_use]
pub fn t_quantile(degrees: usize) -> f64 {
    if degrees == 0 {
        return f64::INFINITY;
    }
    if let Some(t) = T.get(degrees - 1) {
        return *t;
    }
    #[allow(clippy::cast_precision_loss, reason = "runs are few")]
    let n = degrees as f64;
    for pair in T_FAR.windows(2) {
        let ((from, high), (to, low)) = (pair[0], pair[1]);
        if n <= to {
            // Between two entries the quantile is nearly straight in 1 / degrees.
            let part = (1.0 / n - 1.0 / to) / (1.0 / from - 1.0 / to);
            return low + (high - low) * part;
        }
    }
    T_FAR[T_FAR.len() - 1].1
}

/// The mean of values with its 95% confidence interval; none without a value.
#[must_use]
pub fn interval(values: &[f64]) -> Option<Interval> {
    if values.is_empty() {
        return None;
    }
    #[allow(clippy::cast_precision_loss, reason = "runs are few")]
    let n = values.len() as f64;
    let mean = values.iter().sum::<f64>() / n;
    let runs = u64::try_from(values.len()).unwrap_or(u64::MAX);
    if values.len() < 2 {
        return Some(Interval { mean, low: None, high: None, runs });
    }
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    let half = t_quantile(values.len() - 1) * (squares / (n - 1.0) / n).sqrt();
    Some(Interval { mean, low: Some(mean - half), high: Some(mean + half), runs })
}

/// Values of a figure in runs that have it.
fn values(runs: &[&Outcome], m: &Metric) -> Vec<f64> {
    runs.iter().filter_map(|o| (m.value)(o)).filter(|v| v.is_finite()).collect()
}

/// The mean of a figure over runs, with its interval; none where no run has it.
#[must_use]
pub fn figure(runs: &[&Outcome], m: &Metric) -> Option<Interval> {
    interval(&values(runs, m))
}

/// The means of all main figures, by name.
#[must_use]
pub fn means(runs: &[&Outcome]) -> BTreeMap<String, f64> {
    METRICS.iter().filter_map(|m| Some((m.name.to_owned(), figure(runs, m)?.mean))).collect()
}

/// How two scenarios differ in a figure. The runs stand in the same order of seeds; pairs of which
/// one has no such figure are left out.
#[must_use]
pub fn difference(a: &[&Outcome], b: &[&Outcome], m: &Metric) -> Option<Difference> {
    let pairs: Vec<(f64, f64)> = a
        .iter()
        .zip(b)
        .filter_map(|(a, b)| (m.value)(a).zip((m.value)(b)))
        .filter(|(a, b)| a.is_finite() && b.is_finite())
        .collect();
    let differences: Vec<f64> = pairs.iter().map(|(a, b)| b - a).collect();
    let i = interval(&differences)?;
    let scale = pairs.iter().map(|(a, b)| a.abs().max(b.abs())).fold(0.0, f64::max);
    Some(Difference {
        mean: i.mean,
        low: i.low,
        high: i.high,
        pairs: i.runs,
        verdict: verdict(&i, m.better, scale),
    })
}

fn verdict(i: &Interval, better: Better, scale: f64) -> Verdict {
    let Some((low, high)) = i.low.zip(i.high) else { return Verdict::OnePair };
    // Sums of the same parts in another order differ in their last digits.
    if (low <= 0.0 && high >= 0.0) || i.mean.abs() <= 1e-9 * scale {
        return Verdict::NoDifferenceSeen;
    }
    match (better, i.mean > 0.0) {
        (Better::More, true) | (Better::Less, false) => Verdict::Better,
        (Better::More, false) | (Better::Less, true) => Verdict::Worse,
        (Better::Neither, true) => Verdict::More,
        (Better::Neither, false) => Verdict::Less,
    }
}

/// A figure that does not lie where the scenario expects it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Missed {
    /// The metric's name.
    pub figure: String,
    /// What it is; none where the run has no such figure.
    pub value: Option<f64>,
    /// Where it was expected: least and most.
    pub expected: [f64; 2],
}

/// The expectations of a scenario that a run does not meet.
#[must_use]
pub fn missed(o: &Outcome, expect: &BTreeMap<String, [f64; 2]>) -> Vec<Missed> {
    let all = serde_json::to_value(o).unwrap_or_default();
    expect
        .iter()
        .map(|(name, range)| Missed {
            figure: name.clone(),
            value: find(&all, name),
            expected: *range,
        })
        .filter(|m| m.value.is_none_or(|v| !(m.expected[0]..=m.expected[1]).contains(&v)))
        .collect()
}

/// A number by its dotted name. Names of causes and classes may hold dots themselves.
fn find(value: &serde_json::Value, name: &str) -> Option<f64> {
    if let Some(v) = value.get(name) {
        return v.as_f64();
    }
    let object = value.as_object()?;
    let inner = |(k, v)| {
        let rest = name.strip_prefix(String::as_str(k))?.strip_prefix('.')?;
        find(v, rest)
    };
    let found = object.iter().find_map(inner);
    // A cause that never struck is not in the list.
    let counted = |k: &&str| name.strip_prefix(*k).is_some_and(|r| r.starts_with('.'));
    found.or_else(|| ["failures", "faults"].iter().any(counted).then_some(0.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn near(a: f64, b: f64, by: f64) {
        assert!((a - b).abs() <= by, "{a} is not {b}");
    }

    fn metric(name: &str) -> &'static Metric {
        by_name(name).unwrap()
    }

    fn run(ettr: f64, mtbi_s: Option<f64>, preemptions: u64) -> Outcome {
        Outcome { ettr, mtbi_s, preemptions, ..Outcome::default() }
    }

    #[test]
    fn quantiles_are_those_of_the_tables() {
        for (degrees, t) in [(1, 12.706), (2, 4.303), (9, 2.262), (30, 2.042), (120, 1.980)] {
            near(t_quantile(degrees), t, 1e-12);
        }
        // Exact values to four digits: 2.0096 at 49, 1.9842 at 99, 1.9623 at 999.
        near(t_quantile(49), 2.0096, 1e-3);
        near(t_quantile(99), 1.9842, 1e-3);
        near(t_quantile(999), 1.9623, 1e-3);
        assert!(t_quantile(0).is_infinite());
        let falls = |d: &usize| t_quantile(*d) > t_quantile(d + 1);
        assert!((1..500).all(|d| falls(&d)), "more runs never widen the interval");
    }

    #[test]
    fn an_interval_of_known_values() {
        // Mean 5, standard deviation 2, so 2 / sqrt(5) x 2.776 on each side.
        let i = interval(&[3.0, 4.0, 4.0, 6.0, 8.0]).unwrap();
        near(i.mean, 5.0, 1e-12);
        near(i.half().unwrap(), 2.776 * 2.0 / 5f64.sqrt(), 1e-12);
        near(i.low.unwrap(), 2.517, 1e-3);
        assert_eq!(i.runs, 5);
        let one = interval(&[7.0]).unwrap();
        assert_eq!((one.mean, one.low, one.high, one.half()), (7.0, None, None, None));
        assert_eq!(interval(&[]), None);
    }

    #[test]
    fn pairs_find_what_unpaired_runs_hide() {
        // Seeds differ by far more than the scenarios do.
        let a: Vec<Outcome> = [0.50, 0.70, 0.90, 0.60].map(|e| run(e, None, 0)).into();
        let b: Vec<Outcome> = [0.51, 0.711, 0.909, 0.61].map(|e| run(e, None, 0)).into();
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        let d = difference(&a, &b, metric("ettr")).unwrap();
        near(d.mean, 0.01, 1e-9);
        assert_eq!((d.verdict, d.pairs), (Verdict::Better, 4));
        assert_eq!(difference(&b, &a, metric("ettr")).unwrap().verdict, Verdict::Worse);
        let unpaired = figure(&a, metric("ettr")).unwrap().half().unwrap();
        assert!(unpaired > 0.2, "{unpaired}");
    }

    #[test]
    fn chance_and_single_pairs_prove_nothing() {
        let a = [run(0.5, Some(9.0), 3), run(0.6, None, 3)];
        let b = [run(0.6, Some(8.0), 5), run(0.5, Some(7.0), 5)];
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        let say = |name| difference(&a, &b, metric(name)).unwrap();
        assert_eq!(say("ettr").verdict, Verdict::NoDifferenceSeen);
        // Only one pair has the figure on both sides.
        assert_eq!((say("mtbi_s").verdict, say("mtbi_s").pairs), (Verdict::OnePair, 1));
        assert_eq!(say("preemptions").verdict, Verdict::More);
        assert_eq!(difference(&a, &a, metric("ettr")).unwrap().verdict, Verdict::NoDifferenceSeen);
        assert!(difference(&a, &b, metric("wait_s.p95")).is_none(), "nothing waited");
    }

    #[test]
    fn last_digits_are_no_difference() {
        let a = [run(0.3, None, 0), run(0.3, None, 0)];
        let b = [run(0.1 + 0.2, None, 0), run(0.1 + 0.2, None, 0)];
        let (a, b): (Vec<_>, Vec<_>) = (a.iter().collect(), b.iter().collect());
        assert_eq!(difference(&a, &b, metric("ettr")).unwrap().verdict, Verdict::NoDifferenceSeen);
    }

    #[test]
    fn expectations_are_found_by_their_names() {
        let failures = [("gpu.xid".to_owned(), 3)].into();
        let o = Outcome { ettr: 0.9, failures, ..Outcome::default() };
        let look = |name: &str, range| missed(&o, &[(name.to_owned(), range)].into());
        assert_eq!(look("ettr", [0.9, 1.0]), []);
        assert_eq!(look("wait_s.p95", [0.0, 0.0]), []);
        assert_eq!(look("failures.gpu.xid", [3.0, 3.0]), []);
        assert_eq!(look("failures.nic", [0.0, 1.0]), [], "what never struck struck 0 times");
        assert_eq!(look("ettr", [0.95, 1.0])[0].value, Some(0.9));
        assert_eq!(look("mtbi_s", [0.0, 1e9])[0].value, None);
    }

    #[test]
    fn metrics_have_the_names_of_the_results() {
        let full = Outcome { mtbi_s: Some(1.0), ..Outcome::default() };
        let value = serde_json::to_value(full).unwrap();
        for m in METRICS {
            let pointer = format!("/{}", m.name.replace('.', "/"));
            assert!(value.pointer(&pointer).is_some(), "{}", m.name);
        }
    }
}
