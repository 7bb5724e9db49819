//! How good the forecast of a start is: logs of real machines, with their users' limits, are run through the scheduler of
//! the product. Of the jobs that wait after the cycle in which they were submitted, a sample is asked when it starts, as
//! `muster explain` is, and what was said is compared with what came. Beside it a bound as Slurm's `--start` gives it:
//! everybody ahead in the order of the queue, each lasting to its limit.

use crate::Options;
use crate::backfill::drive::{WaitingJob, run_observed};
use crate::backfill::{CURIE, KTH, Log, WAGAP, policy, read};
use crate::forecast_explain;
use crate::report::Report;
use crate::scheduler::traces;
use crate::stats::percentile;
use anyhow::Result;
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::units::{Span, Time};
use muster_scheduler::forecast::{Durations, ENOUGH, Range, RunLength, range};
use muster_scheduler::{Work, explain};
use std::path::Path;
use std::time::{Duration, Instant};

/// What was said of one job, and what came.
struct ForecastSample {
    now: Time,
    said: Range,
    slurm: Time,
    /// Filled in when the log is over.
    start: Time,
}

/// What was said of all that were asked.
#[derive(Default)]
struct Score {
    asked: usize,
    /// Shares of those with a range.
    inside: f64,
    before_early: f64,
    widths: Vec<f64>,
    early_off: Vec<f64>,
    /// Shares of all.
    ranged: f64,
    by_late: f64,
    by_slurm: f64,
    slurm_widths: Vec<f64>,
    waits: Vec<f64>,
}

/// When a job starts, as the product says it.
fn forecast(s: &WaitingJob<'_>, policy: &SitePolicy) -> Option<Range> {
    let durations = Durations::new(s.history, |_| ());
    let length =
        |w: &Work, ran: Span, draw: u64| durations.length((w.user.clone(), ()), w, ran, draw);
    let lasts: Option<&RunLength<'_>> =
        if durations.seen() >= ENOUGH { Some(&length) } else { None };
    let bound = match s.reserved {
        Some(at) => (at, true),
        None => (explain(s.c, s.c.queue.get(s.job)?, policy, s.now).estimate?.at, false),
    };
    Some(range(s.c.clone(), s.job, policy, s.now, bound, lasts))
}

/// A plan by limits over counts of nodes: everybody ahead of the job first, each as early as it fits.
fn planned(s: &WaitingJob<'_>, machine: u32) -> Time {
    // Nodes that are free from a moment on, until the next.
    let mut free: Vec<(Time, i64)> = vec![(s.now, i64::from(machine))];
    for r in s.c.running.values() {
        take(&mut free, (s.now, r.until.max(s.now)), r.slots().len() as i64);
    }
    for t in s.c.queue.iter() {
        let Some(w) = s.c.queue.get(t.job) else { continue };
        let (width, length) = (i64::from(w.demand.nodes()), w.limit.unwrap_or_default());
        let at = fits(&free, width, length);
        if t.job == s.job {
            return at;
        }
        take(&mut free, (at, at + length), width);
    }
    s.now
}

/// The place of a moment in the profile; a step begins there from now on.
fn cut(free: &mut Vec<(Time, i64)>, at: Time) -> usize {
    match free.binary_search_by_key(&at, |(t, _)| *t) {
        Ok(i) => i,
        Err(i) => {
            let before = free[i - 1].1;
            free.insert(i, (at, before));
            i
        }
    }
}

fn take(free: &mut Vec<(Time, i64)>, (from, to): (Time, Time), width: i64) {
    if to <= from {
        return;
    }
    let (first, last) = (cut(free, from), cut(free, to));
    for step in &mut free[first..last] {
        step.1 -= width;
    }
}

/// The first moment from which so many are free for so long.
fn fits(free: &[(Time, i64)], width: i64, length: Span) -> Time {
    let mut from: Option<Time> = None;
    for (t, n) in free {
        match from {
            Some(begin) if *t >= begin + length => return begin,
            Some(_) if *n < width => from = None,
            None if *n >= width => from = Some(*t),
            _ => {}
        }
    }
    // The last step lasts for ever, and everything is free then.
    from.unwrap_or_else(|| free.last().map_or(Time(0), |(t, _)| *t))
}

fn seconds(from: Time, to: Time) -> f64 {
    to.since(from).0 as f64 / 1000.0
}

fn score(all: &[ForecastSample]) -> Score {
    let mut s = Score { asked: all.len(), ..Score::default() };
    let count = all.len().max(1) as f64;
    let ranged: Vec<&ForecastSample> = all.iter().filter(|a| a.said.earliest.is_some()).collect();
    let many = ranged.len().max(1) as f64;
    s.ranged = ranged.len() as f64 / count;
    for a in ranged {
        let early = a.said.earliest.unwrap_or(a.said.latest);
        s.inside += f64::from(u8::from(early <= a.start && a.start <= a.said.latest)) / many;
        s.before_early += f64::from(u8::from(a.start < early)) / many;
        s.widths.push(seconds(early, a.said.latest));
        s.early_off.push(seconds(early, a.start));
    }
    for a in all {
        s.by_late += f64::from(u8::from(a.start <= a.said.latest)) / count;
        s.by_slurm += f64::from(u8::from(a.start <= a.slurm)) / count;
        s.slurm_widths.push(seconds(a.now, a.slurm));
        s.waits.push(seconds(a.now, a.start));
    }
    s
}

/// What is run of a log, and how many of its jobs are asked.
#[derive(Debug, Clone, Copy)]
struct Sample {
    /// The first so many jobs are run.
    jobs: usize,
    /// One that waits of each of so many equal stretches of them.
    asked: usize,
}

const WHOLE: usize = usize::MAX;

/// Nobody is asked any more after so long in one log: a forecast on a large machine takes seconds.
const LONGEST: Duration = Duration::from_secs(40);

/// Runs one log and asks some of its jobs.
fn ask(dir: &Path, log: &Log, sample: Sample) -> Result<Score> {
    let mut jobs = read(dir, log)?;
    jobs.truncate(sample.jobs);
    let nodes = log.rules.machine / log.rules.node;
    let policy = policy(BackfillMode::Conservative);
    let stretch = jobs.len().div_ceil(sample.asked.max(1)).max(1);
    let mut asked: Vec<(usize, ForecastSample)> = Vec::new();
    let (mut waiting, mut from, mut spent) = (0usize, 0usize, Duration::ZERO);
    let (_, starts) = run_observed(&jobs, nodes, &policy, &mut |s: &WaitingJob<'_>| {
        waiting += 1;
        if s.index < from || spent > LONGEST {
            return;
        }
        from = (s.index / stretch + 1) * stretch;
        let began = Instant::now();
        if let Some(said) = forecast(s, &policy) {
            let slurm = planned(s, nodes);
            asked.push((s.index, ForecastSample { now: s.now, said, slurm, start: s.now }));
        }
        spent += began.elapsed();
    });
    for (index, a) in &mut asked {
        let start = starts.get(*index).copied().flatten().unwrap_or(0);
        a.start = Time(i64::try_from(start).unwrap_or(i64::MAX));
    }
    let all: Vec<ForecastSample> = asked.into_iter().map(|(_, a)| a).collect();
    eprintln!("  {}: {waiting} of {} jobs waited, {} asked", log.name, jobs.len(), all.len());
    if spent > LONGEST {
        eprintln!("  {}: asking took {spent:.0?}: nobody was asked after that", log.name);
    }
    Ok(score(&all))
}

/// The name of the peer.
const SLURM: &str = "bound by time limits, as Slurm's --start";

/// The cases of one log; the first one's names have no ending.
fn report_score(report: &mut Report, ending: &str, mut s: Score) {
    let median = |v: &mut Vec<f64>| percentile(v, 50.0).unwrap_or(0.0);
    let name = |case: &str| format!("{case}{ending}");
    report.ours(&name("inside_range"), "share", s.inside);
    report.theirs(&name("inside_range"), "share", SLURM, s.by_slurm, true);
    report.ours(&name("range_median_s"), "s", median(&mut s.widths));
    report.theirs(&name("range_median_s"), "s", SLURM, median(&mut s.slurm_widths), false);
    report.ours(&name("by_late_end"), "share", s.by_late);
    report.theirs(&name("by_late_end"), "share", SLURM, s.by_slurm, true);
    report.ours(&name("before_early_end"), "share", s.before_early);
    report.ours(&name("after_early_median_s"), "s", median(&mut s.early_off));
    report.ours(&name("with_range"), "share", s.ranged);
    report.ours(&name("wait_median_s"), "s", median(&mut s.waits));
    report.quietly(&name("asked"), "jobs", s.asked as f64);
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("forecast");
    forecast_explain::run(&mut report, options.quick)?;
    let Some(dir) = traces::folder() else {
        eprintln!("SKIPPED: no traces (MUSTER_TRACES): only the case explain was measured");
        report.note("SKIPPED: no traces found, only the case explain was measured.");
        return Ok(report);
    };
    let (asked, count) = if options.quick { (40, 1) } else { (120, 3) };
    let logs = [
        ("", &KTH, Sample { jobs: WHOLE, asked }),
        ("_wagap", &WAGAP, Sample { jobs: WHOLE, asked: 20 }),
        // A cycle of its 5,832 nodes costs more.
        ("_curie", &CURIE, Sample { jobs: 10_000, asked: 20 }),
    ];
    for (ending, log, sample) in logs.into_iter().take(count) {
        report_score(&mut report, ending, ask(&dir, log, sample)?);
        // Each as soon as it is there: a run that is cut off leaves what it measured.
        if options.save {
            report.save(options.results.as_deref())?;
        }
    }
    report.note(
        "Jobs that wait after the cycle of their submission, the first in each of so many equal stretches of the log; \
         KTH-SP2 unless a case names another log, of Curie the first 10,000 jobs. inside_range and range_median_s: of \
         those that have a range. The peer's range is from the submission to its bound. by_late_end: started \
         by the late end.",
    );
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_plan_by_limits_fills_holes_and_waits_for_width() {
        let mut free = vec![(Time(0), 4)];
        take(&mut free, (Time(0), Time(100)), 3);
        assert_eq!(free, [(Time(0), 1), (Time(100), 4)]);
        assert_eq!(fits(&free, 1, Span(1000)), Time(0));
        assert_eq!(fits(&free, 2, Span(10)), Time(100));
        take(&mut free, (Time(100), Time(200)), 4);
        assert_eq!(free, [(Time(0), 1), (Time(100), 0), (Time(200), 4)]);
        assert_eq!(fits(&free, 1, Span(100)), Time(0), "over before the wide one begins");
        assert_eq!(fits(&free, 1, Span(101)), Time(200));
    }

    #[test]
    fn a_score_counts_both_ends() {
        let asked = |early: Option<i64>, late: i64, slurm: i64, start: i64| ForecastSample {
            now: Time(0),
            said: Range { earliest: early.map(Time), latest: Time(late), whole: true },
            slurm: Time(slurm),
            start: Time(start),
        };
        let s = score(&[
            asked(Some(1000), 5000, 5000, 2000),
            asked(Some(3000), 5000, 1000, 2000),
            asked(None, 4000, 5000, 9000),
        ]);
        assert_eq!((s.asked, s.inside, s.before_early), (3, 0.5, 0.5));
        assert_eq!(s.widths, [4.0, 2.0]);
        assert!((s.by_late - 2.0 / 3.0).abs() < 1e-9 && (s.by_slurm - 1.0 / 3.0).abs() < 1e-9);
    }
}
