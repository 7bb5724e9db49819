//! A site with its changes, ready to be lived on from now.

use super::change::{Change, set_field};
use super::draw::{Draw, SimulatedJob};
use super::facts::median;
use super::machines::{self, Kinds};
use super::pair::{JobResult, JobTotals, SimulatedRun};
use super::{Site, limit};
use crate::arrivals::{Arrival, Source};
use crate::chance::Chance;
use crate::fleet::Fleet;
use crate::run::{Completed, run_with};
use crate::scenario::{
    Cause, Delay, Failures, FleetSpec, Mode, Operations, Owner, Scenario, Scope, Spares, Stream,
    Workload,
};
use crate::simulation::{START, seconds};
use crate::{Options, SimError};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::names::NodeName;
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::{Reservation, ReservationTarget};
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// How long a twin lives when nobody says.
const USUAL: Span = Span::hours(7 * 24);
/// A queue to which nothing is added is over by then.
const LONGEST: Span = Span::hours(90 * 24);

/// A site with its changes.
#[derive(Debug, Clone)]
pub struct Plan<'a> {
    site: &'a Site,
    pub(crate) scenario: Scenario,
    pub(crate) fleet: Fleet,
    kinds: Kinds,
    checkpoint: Option<Span>,
    factor: f64,
    /// What must be known to read the answer.
    pub notes: Vec<String>,
}

struct Track {
    job: SimulatedJob,
    at: Time,
    start: Option<Time>,
    end: Option<Time>,
}

impl Site {
    /// The site as it is when `changes` is empty, and as it would be with them.
    ///
    /// # Errors
    /// When a change is not possible here.
    pub fn plan(&self, changes: &[Change], horizon: Option<Span>) -> Result<Plan<'_>, SimError> {
        let names = self.state.nodes.values().map(|n| n.sku());
        let mut kinds = Kinds::of(names);
        let (mut all, out) = machines::present(self, &kinds);
        let mut notes = Vec::new();
        notes.extend(machines::left_out(self, &out));
        let other = kinds.renamed();
        if !other.is_empty() {
            notes.push(format!("{} counted as another kind of GPU", other.join(", ")));
        }
        let mut policy = (*self.state.policy).clone();
        let (mut checkpoint, mut factor) = (None, 1.0);
        let busy: BTreeSet<NodeName> = self
            .state
            .nodes
            .keys()
            .filter(|n| self.state.attempts_on(n).next().is_some())
            .cloned()
            .collect();
        for c in changes {
            match c {
                Change::Nodes { by, sku } if *by > 0 => {
                    machines::add(&mut all, u32::try_from(*by).unwrap_or(u32::MAX), *sku)?;
                }
                Change::Nodes { by, .. } => {
                    let by = usize::try_from(by.unsigned_abs()).unwrap_or(usize::MAX);
                    machines::remove(&mut all, by, &busy)?;
                }
                Change::Spares(n) => machines::set_spares(&mut all, *n)?,
                Change::Policy(p) => policy = (**p).clone(),
                Change::PolicyFile(file) => {
                    return Err(SimError::new(format!("the policy of {file} was not read")));
                }
                Change::PolicyField { path, value } => policy = set_field(&policy, path, value)?,
                Change::Checkpoint(every) => checkpoint = Some(*every),
                Change::FailureRate(x) => factor *= x,
                Change::Sku(sku) => {
                    all.iter_mut().for_each(|m| m.config.sku = *sku);
                    kinds.all_are(*sku);
                    notes.push("every kind of GPU is taken to be as fast as every other".into());
                }
            }
        }
        if all.is_empty() {
            return Err(SimError::new("the site has no nodes"));
        }
        let jobs = self.state.jobs.values();
        let held = jobs.filter(|j| j.state == JobState::Queued && j.held.is_some()).count();
        if held > 0 {
            let jobs = if held == 1 { "job is" } else { "jobs are" };
            notes.push(format!("{held} held {jobs} left out"));
        }
        let coming = self.arrivals_per_hour();
        if coming.is_none() {
            notes.push(
                "the log is too short to say what will come: only what is there now is simulated, \
                 and waits count from now"
                    .into(),
            );
        }
        let mut open = self.state.jobs.values().filter(|j| !j.state.is_final()).peekable();
        if coming.is_none() && open.peek().is_some() && open.all(|j| j.spec.simulate.is_some()) {
            notes.push(
                "simulated jobs say how long they run: only failures differ from seed to seed"
                    .into(),
            );
        }
        let usual = if coming.is_some() { USUAL } else { LONGEST };
        let fleet = machines::fleet(all);
        let scenario = self.scenario(&fleet, policy, &kinds, horizon.unwrap_or(usual));
        Ok(Plan { site: self, scenario, fleet, kinds, checkpoint, factor, notes })
    }

    /// The frame of a twin: everything but its work.
    pub(crate) fn scenario(
        &self,
        fleet: &Fleet,
        mut policy: SitePolicy,
        kinds: &Kinds,
        length: Span,
    ) -> Scenario {
        let watts = std::mem::take(&mut policy.power.gpu_watts);
        policy.power.gpu_watts = watts.into_iter().map(|(k, w)| (kinds.names(&k), w)).collect();
        let mut quotas = (*self.state.quotas).clone();
        for limit in quotas.tree.iter_mut().flat_map(|q| &mut q.gpus) {
            limit.sku = limit.sku.as_ref().map(|s| kinds.names(s));
        }
        let repairs = self.facts.repairs();
        let usual = Operations::default();
        let repair = match repairs.len() {
            0..5 => usual.repair,
            n => Delay { median: repairs[n / 2], p95: Some(repairs[n * 95 / 100]) },
        };
        let decide = median(&mut self.facts.starts.clone()).unwrap_or(usual.decide);
        let cause = Cause {
            name: "node failure".into(),
            per_1000_node_days: self.failure_rate().0 as f64 / 1000.0,
            mode: Mode::FailStop,
            scope: Scope::Node,
            repair: None,
            precursor: None,
        };
        Scenario {
            name: self.state.site.as_ref().map_or("site".into(), ToString::to_string),
            about: String::new(),
            length,
            seed: 1,
            fleet: FleetSpec::Hgx {
                sku: "h100-sxm".into(),
                nodes: u32::try_from(fleet.machines.len()).unwrap_or(u32::MAX),
                gpus_per_node: 8,
                spares: Spares::Count(fleet.spares()),
            },
            policy,
            quotas: (quotas != Quotas::default()).then_some(quotas),
            reservations: self.reservations(fleet),
            operations: Operations {
                repair,
                decide: decide.min(Span::mins(10)),
                checkpoint_records: Span::hours(1),
                ..usual
            },
            failures: Failures { causes: vec![cause], ..Failures::default() },
            workload: self.state.projects.keys().map(|p| owner(p.as_str())).collect(),
            expect: BTreeMap::new(),
        }
    }

    /// Windows from now on; their beginnings are reported from now.
    fn reservations(&self, fleet: &Fleet) -> Vec<Reservation> {
        let mut out = Vec::new();
        for booked in self.state.reservations.values() {
            let mut r = (*booked.reservation).clone();
            let named = match &r.over {
                ReservationTarget::Nodes(n) => Some(n),
                ReservationTarget::Gpus { .. } => Some(&booked.nodes),
                // None of its nodes takes work now: it keeps nothing from others.
                ReservationTarget::Domain { level, path }
                    if !self
                        .state
                        .in_domain(*level, path)
                        .any(|n| fleet.by_name.contains_key(&n.name)) =>
                {
                    continue;
                }
                ReservationTarget::Domain { .. } => None,
            };
            if let Some(n) = named {
                let here = n.iter().filter(|n| fleet.by_name.contains_key(*n)).cloned();
                let here: Vec<NodeName> = here.collect();
                if here.is_empty() {
                    continue;
                }
                r.over = ReservationTarget::Nodes(here);
            }
            let Some((start, end)) = r.window(self.now) else { continue };
            let every = r.every.take();
            let mut next = r.clone();
            if start <= self.now {
                let length = Span(end.since(self.now).0.max(1000));
                let name = every.map_or(r.name.to_string(), |_| format!("{}-now", r.name));
                if let Ok(name) = name.parse() {
                    out.push(Reservation { name, start: Time(0), length, ..r });
                }
                let Some(every) = every else { continue };
                next.start = Time((start + every).since(self.now).0.try_into().unwrap_or(0));
            } else {
                next.start = Time(start.since(self.now).0.try_into().unwrap_or(0));
            }
            next.every = every;
            out.push(next);
        }
        out
    }
}

/// Says that there is a project; what its people submit comes from the log.
fn owner(project: &str) -> Workload {
    Workload::Stream(Stream {
        owner: Owner { project: Some(project.into()), ..Owner::default() },
        ..Stream::of(project, 0.0, Delay { median: Span::hours(1), p95: None })
    })
}

impl Plan<'_> {
    /// How long it is lived at most.
    #[must_use]
    pub fn horizon(&self) -> Span {
        self.scenario.length
    }

    /// Shorter, because there is no time for more.
    pub fn shorten(&mut self, to: Span) {
        self.scenario.length = self.scenario.length.min(to);
    }

    /// Whether new work comes, so that the end is that of the time and not of the work.
    #[must_use]
    pub fn goes_on(&self) -> bool {
        self.site.arrivals_per_hour().is_some()
    }

    /// Nodes, and GPUs in them.
    #[must_use]
    pub fn size(&self) -> (usize, u64) {
        (self.fleet.machines.len(), self.fleet.gpus())
    }

    /// Failures in a thousand node-days.
    #[must_use]
    pub fn failures_per_1000_node_days(&self) -> f64 {
        self.site.failure_rate().0 as f64 / 1000.0 * self.factor
    }

    /// Lives it. The same seed draws the same for every plan of a site.
    ///
    /// # Errors
    /// When the twin cannot begin.
    pub fn live(&self, seed: u64) -> Result<SimulatedRun, SimError> {
        self.live_while(seed, &|| true)
    }

    /// The same as long as it is to go on.
    ///
    /// # Errors
    /// When the twin cannot begin, or was stopped before its end.
    pub fn live_while(
        &self,
        seed: u64,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<SimulatedRun, SimError> {
        let mut s = self.scenario.clone();
        s.seed = seed;
        s.failures.scale = Some(self.factor * self.doubt(seed));
        let draw = Draw::new(self.site, &self.kinds, self.checkpoint);
        let present = draw.present(seed);
        let coming = draw.coming(seed, s.length);
        let name = |a: &Arrival| a.spec.name.as_ref().map(|n| SimulatedJob::of(n.as_str()));
        let mut never: BTreeSet<SimulatedJob> =
            present.iter().chain(&coming).filter_map(name).collect();
        let sources = [present, coming].map(given_source).into();
        let options = Options { until_done: !self.goes_on() };
        let mut tracks: BTreeMap<JobId, Track> = BTreeMap::new();
        let run =
            run_with(&s, &self.fleet, sources, options, goes_on, |r, _| follow(&mut tracks, r))?;
        // What the engine took could run there.
        for t in tracks.values() {
            never.remove(&t.job);
        }
        Ok(self.sum_up(&tracks, never, run))
    }

    fn sum_up(
        &self,
        tracks: &BTreeMap<JobId, Track>,
        never: BTreeSet<SimulatedJob>,
        run: Completed,
    ) -> SimulatedRun {
        let Completed { outcome, history, jobs: used } = run;
        let lived = history.samples.last().map_or(0.0, |s| s.at_s);
        let last = tracks.values().filter_map(|t| t.end).max().unwrap_or(START);
        let end = if self.goes_on() {
            START + self.scenario.length
        } else {
            last.max(START + crate::chance::millis(lived * 1000.0))
        };
        let result = |(id, t): (&JobId, &Track)| {
            let result = JobResult {
                waited_s: seconds(t.start.unwrap_or(end).since(t.at)),
                over_s: seconds(t.end.unwrap_or(end).since(START)),
                started: t.start.is_some(),
                over: t.end.is_some(),
                used: used.get(id).copied(),
            };
            (t.job, result)
        };
        let jobs: BTreeMap<SimulatedJob, JobResult> = tracks.iter().map(result).collect();
        let started = |t: &Track| Some((t.job.waiting()?, seconds(t.start?.since(START))));
        let totals = JobTotals::of(&jobs);
        let spare_gpus = self.fleet.spare_gpus();
        let limits = limit::SaturationCounts::of(&history, spare_gpus, &outcome, totals.waits.mean);
        SimulatedRun {
            totals,
            starts: tracks.values().filter_map(started).collect(),
            never,
            jobs,
            outcome,
            history,
            limits,
        }
    }

    /// How far the real rate of failures may be from the estimate: about one in the root of what
    /// it rests on.
    fn doubt(&self, seed: u64) -> f64 {
        let seen = self.site.facts.exposure(self.site.now).failures;
        let weight = u64::from(self.site.state.policy.reliability.weight) + seen;
        let z = Chance::new(seed, &["site", "rate"]).normal();
        (1.0 + z / (weight.max(1) as f64).sqrt()).clamp(0.1, 4.0)
    }
}

fn given_source(all: Vec<Arrival>) -> Source {
    Source::Given(all.into_iter())
}

fn follow(tracks: &mut BTreeMap<JobId, Track>, r: &Record) {
    match &r.event {
        Event::JobSubmitted { id, name, .. } => {
            let job = SimulatedJob::of(name.as_str());
            tracks.insert(*id, Track { job, at: r.at, start: None, end: None });
        }
        Event::JobPlaced { key, .. } => {
            if let Some(t) = tracks.get_mut(&key.job) {
                t.start.get_or_insert(r.at);
            }
        }
        Event::JobSucceeded { job }
        | Event::JobFailed { job, .. }
        | Event::JobCancelled { job, .. } => {
            if let Some(t) = tracks.get_mut(job) {
                t.end = Some(r.at);
            }
        }
        _ => {}
    }
}

impl Fleet {
    fn spare_gpus(&self) -> u64 {
        self.machines.iter().filter(|m| m.spare).map(|m| u64::from(m.config.gpus)).sum()
    }
}
