//! The answer: what a change does to the figures of a site, and how sure that is.

use super::words::{self, amount};
use super::{Change, Plan, SimulatedRun, Site, limit};
use serde::Serialize;

/// What a figure counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Unit {
    /// A time, in seconds.
    Seconds,
    /// A share of one.
    Share,
    /// A number of things.
    Count,
}

/// A mean over seeds with its 95% interval.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Estimate {
    /// The mean over all seeds.
    pub mean: f64,
    /// Least and most of the interval; not a number when there was one seed.
    pub interval: [f64; 2],
}

/// One figure, as the site is and as it would be.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Figure {
    /// The metric's name.
    pub name: &'static str,
    /// What it counts.
    pub unit: Unit,
    /// As the site is.
    pub base: Estimate,
    /// As it would be.
    pub changed: Estimate,
    /// The difference, seed by seed.
    pub change: Estimate,
    /// Whether the difference is more than chance makes.
    pub certain: bool,
}

/// The whole answer.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// The answer in a few sentences, for people.
    pub summary: String,
    /// What was changed, in words.
    pub changes: Vec<String>,
    /// Pairs of lives.
    pub seeds: u64,
    /// How long each was lived at most, in seconds.
    pub horizon_s: f64,
    /// Whether new work came.
    pub new_work: bool,
    /// Nodes and GPUs as it is.
    pub base_size: (usize, u64),
    /// Nodes and GPUs as it would be.
    pub changed_size: (usize, u64),
    /// Jobs that run and that wait now.
    pub running: usize,
    /// Jobs that wait now.
    pub waiting: usize,
    /// Jobs that came in an hour, lately.
    pub arrivals_per_hour: Option<f64>,
    /// Failures in a thousand node-days, as it is.
    pub failures_per_1000_node_days: f64,
    /// The metrics that were compared.
    pub figures: Vec<Figure>,
    /// What binds first, as it is.
    pub limit_base: String,
    /// What binds first, as it would be.
    pub limit: String,
    /// What must be known to read it.
    pub notes: Vec<String>,
}

/// Quantiles of Student's distribution, 97.5%, from one degree of freedom on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160,
    2.145, 2.131, 2.120, 2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056,
    2.052, 2.048, 2.045, 2.042,
];

/// The mean of what several seeds gave, with its 95% interval, which one seed alone does not have.
pub(crate) fn estimate(values: &[f64]) -> Estimate {
    let n = values.len() as f64;
    if values.is_empty() {
        return Estimate { mean: 0.0, interval: [0.0, 0.0] };
    }
    let mean = values.iter().sum::<f64>() / n;
    if values.len() == 1 {
        return Estimate { mean, interval: [f64::NAN; 2] };
    }
    let square = values.iter().map(|v| (v - mean) * (v - mean)).sum::<f64>() / (n - 1.0);
    let t = T.get(values.len() - 2).copied().unwrap_or(1.96);
    let half = t * (square / n).sqrt();
    Estimate { mean, interval: [mean - half, mean + half] }
}

/// One of a pair.
type PairSelector = fn(&(SimulatedRun, SimulatedRun)) -> &SimulatedRun;

fn figure(
    name: &'static str,
    unit: Unit,
    pairs: &[(SimulatedRun, SimulatedRun)],
    of: impl Fn(&SimulatedRun) -> f64,
) -> Figure {
    let base: Vec<f64> = pairs.iter().map(|(b, _)| of(b)).collect();
    let changed: Vec<f64> = pairs.iter().map(|(_, c)| of(c)).collect();
    let differ: Vec<f64> = base.iter().zip(&changed).map(|(b, c)| c - b).collect();
    let change = estimate(&differ);
    let [low, high] = change.interval;
    // Nothing here is below zero, and no share above one.
    let most = if unit == Unit::Share { 1.0 } else { f64::MAX };
    let within = |mut e: Estimate| {
        e.interval = e.interval.map(|x| x.clamp(0.0, most));
        e
    };
    let certain = low > 0.0 || high < 0.0;
    Figure {
        name,
        unit,
        base: within(estimate(&base)),
        changed: within(estimate(&changed)),
        change,
        certain,
    }
}

impl Answer {
    /// From pairs of lives with the same seeds.
    #[must_use]
    pub fn of(
        site: &Site,
        base: &Plan<'_>,
        changed: &Plan<'_>,
        changes: &[Change],
        pairs: &[(SimulatedRun, SimulatedRun)],
    ) -> Answer {
        let goes_on = base.goes_on();
        let figures = vec![
            figure("wait_mean_s", Unit::Seconds, pairs, |l| l.waits.mean),
            figure("wait_p95_s", Unit::Seconds, pairs, |l| l.waits.p95),
            figure("queue_makespan_s", Unit::Seconds, pairs, |l| l.queue_s),
            figure("goodput", Unit::Share, pairs, |l| l.outcome.goodput),
            figure("gpu_allocation_ratio", Unit::Share, pairs, |l| l.outcome.gpu_allocation_ratio),
            figure("jobs_completed", Unit::Count, pairs, |l| l.outcome.jobs_completed as f64),
            figure("interruptions", Unit::Count, pairs, |l| l.outcome.interruptions as f64),
        ];
        let mut notes = base.notes.clone();
        notes.extend(changed.notes.iter().filter(|n| !base.notes.contains(n)).cloned());
        let most = |of: fn(&SimulatedRun) -> u64, which: PairSelector| {
            pairs.iter().map(|p| of(which(p))).max().unwrap_or(0)
        };
        let sides: [(&str, PairSelector); 2] = [("as it is", |p| &p.0), ("changed", |p| &p.1)];
        for (side, which) in sides {
            let (refused, unstarted) = (most(|l| l.refused, which), most(|l| l.unstarted, which));
            let open = most(|l| l.unfinished, which);
            if refused > 0 {
                notes
                    .push(format!("{side}: up to {refused} jobs could never run and are left out"));
            }
            if unstarted > 0 {
                notes.push(format!(
                    "{side}: up to {unstarted} jobs had not started at the end; they count with \
                     the time that they had waited, so real waits are longer"
                ));
            }
            if open > 0 {
                notes.push(format!(
                    "{side}: up to {open} of the jobs that are there now were not over at the end"
                ));
            }
        }
        if pairs.len() == 1 {
            notes.push("one seed shows nothing about chance: use --seeds 4 or more".into());
        }
        let other = limit::other(site);
        let seen = |which: PairSelector| {
            pairs
                .iter()
                .map(|p| which(p).limits)
                .fold(limit::SaturationCounts::default(), limit::SaturationCounts::and)
        };
        let limits = sides.map(|(_, which)| seen(which));
        let (running, waiting) = site.counts();
        let mut answer = Answer {
            summary: String::new(),
            changes: changes.iter().map(ToString::to_string).collect(),
            seeds: pairs.len() as u64,
            horizon_s: base.horizon().0 as f64 / 1000.0,
            new_work: goes_on,
            base_size: base.size(),
            changed_size: changed.size(),
            running,
            waiting,
            arrivals_per_hour: site.arrivals_per_hour(),
            failures_per_1000_node_days: base.failures_per_1000_node_days(),
            figures,
            limit_base: limits[0].words(other.as_deref(), base.fleet.spares()),
            limit: limits[1].words(other.as_deref(), changed.fleet.spares()),
            notes,
        };
        answer.summary = words::summary(&answer);
        answer
    }

    /// A figure by its name.
    #[must_use]
    pub fn figure(&self, name: &str) -> Option<&Figure> {
        self.figures.iter().find(|f| f.name == name)
    }
}

impl Figure {
    /// As the site is, as it would be, the difference and its interval, for a table.
    #[must_use]
    pub fn cells(&self) -> [String; 4] {
        let [low, high] = self.change.interval;
        let interval = if low.is_nan() || high.is_nan() {
            "?".into()
        } else {
            format!("{} to {}", words::signed(low, self.unit), words::signed(high, self.unit))
        };
        [
            amount(self.base.mean, self.unit),
            amount(self.changed.mean, self.unit),
            words::signed(self.change.mean, self.unit),
            interval,
        ]
    }

    /// What it is called in a table.
    #[must_use]
    pub fn label(&self) -> &'static str {
        match self.name {
            "wait_mean_s" => "mean wait",
            "wait_p95_s" => "95th percentile of waits",
            "queue_makespan_s" => "present queue over after",
            "gpu_allocation_ratio" => "GPUs allocated to jobs",
            "jobs_completed" => "jobs completed",
            other => other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_are_students() {
        let e = estimate(&[1.0, 2.0, 3.0, 4.0]);
        assert!((e.mean - 2.5).abs() < 1e-12);
        // Standard deviation 1.290994, of the mean 0.645497, times 3.182.
        assert!((e.interval[0] - 0.446).abs() < 1e-3 && (e.interval[1] - 4.554).abs() < 1e-3);
        let same = estimate(&[7.0; 8]);
        assert!(same.interval == [7.0, 7.0]);
        assert!(estimate(&[1.0]).interval[1].is_nan());
        assert_eq!(T.len(), 30);
    }
}
