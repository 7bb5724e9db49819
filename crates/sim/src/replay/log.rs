//! A log of jobs, lived by the twin: the engine of production decides, nothing breaks, and the
//! life ends with the last job.

use crate::arrivals::{Arrival, FleetSize, Source, replayed};
use crate::fleet::Fleet;
use crate::outcome::{History, Outcome};
use crate::run::run_with;
use crate::scenario::{FleetSpec, Operations, Saving, Scenario, Spares};
use crate::traces::{Ask, TraceJob, by_submit};
use crate::{Options, SimError, fleet, spread};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::policy::SitePolicy;
use muster_model::topology::Location;
use muster_model::units::{Span, Time};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;

/// What came of a log.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct LogReplay {
    /// Form of the log.
    pub format: String,
    /// What came of the replay.
    #[serde(flatten)]
    pub outcome: Outcome,
    /// Bounded slowdown of the jobs that ended; null where it was not looked at.
    pub bounded_slowdown: Option<Slowdown>,
    /// What is not in the file.
    pub assumptions: Vec<String>,
    /// Rows of the file that could not be read.
    pub rows_skipped: u64,
    /// Jobs that the machine is too small for.
    pub jobs_left_out: u64,
    /// Jobs that the engine refused.
    pub jobs_refused: u64,
}

/// Time from submit to end over run time, where runs below ten seconds count as ten; never less
/// than one.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize)]
pub struct Slowdown {
    /// The arithmetic mean.
    pub mean: f64,
    /// The median: half are below it.
    pub p50: f64,
    /// 95th percentile.
    pub p95: f64,
    /// 99th percentile.
    pub p99: f64,
    /// The largest of all.
    pub max: f64,
}

/// The shortest run that counts as itself.
const TAU: Span = Span::secs(10);

/// So many nodes with so many GPUs each, written `64x8`.
#[must_use]
pub fn machine(text: &str) -> Option<FleetSpec> {
    let (nodes, gpus) = text.split_once('x')?;
    let [nodes, gpus_per_node] = [nodes, gpus].map(|n| n.trim().parse().unwrap_or(0));
    (nodes > 0 && (1..=16).contains(&gpus_per_node)).then(|| alike(nodes, gpus_per_node))
}

/// So many nodes with so many GPUs each.
#[must_use]
pub fn alike(nodes: u32, gpus_per_node: u32) -> FleetSpec {
    FleetSpec::Hgx { sku: "h100-sxm".into(), nodes, gpus_per_node, spares: Spares::default() }
}

/// Puts jobs in the order of their submit. As in the published runs of such logs, one that ran past
/// its limit is cut at it, an unknown or empty run time is one second, and one that asks for more
/// processors than there are gets all of them.
#[must_use]
pub fn prepared(mut jobs: Vec<TraceJob>, procs: Option<u32>) -> Vec<TraceJob> {
    by_submit(&mut jobs);
    for j in &mut jobs {
        let run = j.run.unwrap_or_default().max(Span::secs(1));
        j.run = Some(j.limit.map_or(run, |l| run.min(l)));
        if let (Ask::Procs { .. }, Some(most)) = (&j.ask, procs) {
            let width = j.ask.procs().unwrap_or(1).min(most);
            j.ask = Ask::Procs { asked: Some(width), used: None };
        }
    }
    jobs
}

/// What a log is lived with.
#[derive(Debug, Clone)]
pub struct Setting {
    /// What the log is called.
    pub name: String,
    /// The machines; files that it names are found from the working directory.
    pub fleet: FleetSpec,
    /// All nodes are equally near to each other, as the processors of a parallel machine.
    pub flat: bool,
    /// The site's policy.
    pub policy: SitePolicy,
}

/// Lives the jobs of a log, which are in the order of their submit. Each record of the life goes
/// to `sink`, as one line of JSON without its end.
///
/// # Errors
/// When the life cannot begin.
pub fn simulate_log(
    setting: &Setting,
    jobs: &[TraceJob],
    mut sink: impl FnMut(&[u8]),
) -> Result<(LogReplay, History), SimError> {
    let mut s = scenario(setting);
    let mut fleet = fleet::build(&s, Path::new(""))?;
    if setting.flat {
        fleet = flattened(fleet);
    }
    let node_gpus = fleet.machines.iter().map(|m| m.config.gpus).max().unwrap_or(1);
    let largest = fleet.machines.iter().filter(|m| m.config.gpus == node_gpus).count();
    let room = FleetSize { node_gpus, nodes: u32::try_from(largest).unwrap_or(u32::MAX) };
    let saving = Saving { every: "never".into(), cost: Span(0), startup: Span(0) };
    let arrivals: Vec<Arrival> = jobs.iter().filter_map(|j| replayed(j, &saving, room)).collect();
    let left_out = jobs.len() - arrivals.len();
    if arrivals.is_empty() {
        return Err(SimError::new("no job of the trace fits the machine"));
    }
    s.length = enough(jobs, fleet.gpus());
    let came = arrivals.len() as u64;
    let sources = vec![Source::Given(arrivals.into_iter())];
    let mut lives = JobTimes::default();
    let done = Options { until_done: true };
    let to_its_end = || true;
    let run = run_with(&s, &fleet, sources, done, &to_its_end, |r, line| {
        lives.note(r);
        sink(line);
    })?;
    let (outcome, history) = (run.outcome, run.history);
    let replay = LogReplay {
        jobs_refused: came - outcome.jobs.min(came),
        jobs_left_out: left_out as u64,
        bounded_slowdown: Some(lives.slowdown()),
        outcome,
        ..LogReplay::default()
    };
    Ok((replay, history))
}

/// The same machines on one switch.
fn flattened(fleet: Fleet) -> Fleet {
    let Fleet { mut machines, mut topology, .. } = fleet;
    for m in &mut machines {
        m.location = Location {
            region: "local".into(),
            cluster: "flat".into(),
            spine: "spine1".into(),
            leaf: "leaf01".into(),
            rack: "rack01".into(),
            nvlink: m.name.to_string(),
            feed: "feed-a".into(),
            rails: Vec::new(),
        };
        topology.nodes.insert(m.name.clone(), m.location.clone());
    }
    Fleet::of(machines, topology)
}

fn scenario(setting: &Setting) -> Scenario {
    Scenario {
        name: setting.name.clone(),
        about: format!("Replay of {}.", setting.name),
        length: Span(0),
        seed: 1,
        fleet: setting.fleet.clone(),
        policy: setting.policy.clone(),
        quotas: None,
        reservations: Vec::new(),
        // What took time where the log was taken is in its run times.
        operations: Operations { decide: Span(0), ..Operations::default() },
        failures: crate::scenario::Failures::default(),
        workload: Vec::new(),
        expect: BTreeMap::new(),
    }
}

/// Within this every schedule that leaves no GPU idle for nothing is done: the submits, the work on
/// a quarter of the machine, and the longest job twice.
fn enough(jobs: &[TraceJob], gpus: u64) -> Span {
    let run = |j: &TraceJob| j.run.unwrap_or_default().0;
    let width = |j: &TraceJob| u64::from(j.ask.procs().unwrap_or_else(|| j.ask.gpus()).max(1));
    let last = jobs.iter().map(|j| j.submit.0).max().unwrap_or(0);
    let longest = jobs.iter().map(run).max().unwrap_or(0);
    let work: u128 = jobs.iter().map(|j| u128::from(run(j)) * u128::from(width(j))).sum();
    let packed = u64::try_from(work * 4 / u128::from(gpus.max(1))).unwrap_or(u64::MAX / 4);
    Span(last + packed + longest * 2 + 3_600_000)
}

/// When each job came, first ran, and ended.
#[derive(Debug, Default)]
struct JobTimes {
    open: BTreeMap<JobId, (Time, Option<Time>)>,
    slowdowns: Vec<f64>,
}

impl JobTimes {
    fn note(&mut self, r: &Record) {
        match &r.event {
            Event::JobSubmitted { id: job, .. } => {
                self.open.insert(*job, (r.at, None));
            }
            Event::JobPlaced { key, .. } => {
                if let Some((_, start)) = self.open.get_mut(&key.job) {
                    start.get_or_insert(r.at);
                }
            }
            Event::JobSucceeded { job } | Event::JobFailed { job, .. } => {
                if let Some((came, Some(start))) = self.open.remove(job) {
                    let run = r.at.since(start).max(TAU).0 as f64;
                    self.slowdowns.push((r.at.since(came).0 as f64 / run).max(1.0));
                }
            }
            _ => {}
        }
    }

    fn slowdown(mut self) -> Slowdown {
        let s = spread(&mut self.slowdowns);
        let max = self.slowdowns.last().copied().unwrap_or_default();
        Slowdown { mean: s.mean, p50: s.p50, p95: s.p95, p99: s.p99, max }
    }
}
