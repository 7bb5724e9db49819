//! What the log shows that its state does not keep: every job that ever came and how long it ran,
//! and how long every node was watched.

use muster_health::Exposure;
use muster_model::command::Actor;
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::SharedSpec;
use muster_model::names::{NodeName, ProjectName};
use muster_model::spec::Group;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::Arc;

/// How a job ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum End {
    Well,
    Badly,
    Cancelled,
}

/// A job that came.
#[derive(Debug, Clone)]
pub(crate) struct SubmittedJob {
    pub(crate) at: Time,
    pub(crate) user: String,
    pub(crate) project: ProjectName,
    pub(crate) spec: SharedSpec,
    pub(crate) groups: Arc<[Group]>,
    /// Time that its ranks were up, in all attempts that are over.
    pub(crate) ran: Span,
    /// The same of the last of them alone.
    pub(crate) last: Span,
    pub(crate) attempts: u32,
    pub(crate) end: Option<End>,
}

impl SubmittedJob {
    /// GPUs, or nodes of one that has none.
    pub(crate) fn width(&self) -> u64 {
        let of = |f: fn(&Group) -> u32| self.groups.iter().map(|g| u64::from(f(g))).sum::<u64>();
        let gpus: u64 = self.groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.gpus)).sum();
        if gpus > 0 { gpus } else { of(|g| g.nodes) }
    }

    /// How long it ran when nothing disturbed it, if it came to an end of its own.
    pub(crate) fn own_run(&self) -> Option<Span> {
        let whole = if self.spec.checkpoint.is_some() { self.ran } else { self.last };
        (matches!(self.end, Some(End::Well | End::Badly)) && whole.0 > 0).then_some(whole)
    }
}

/// A node that was away.
#[derive(Debug, Clone)]
pub(crate) struct Outage {
    pub(crate) node: NodeName,
    pub(crate) from: Time,
    pub(crate) back: Option<Time>,
    /// Many went at once: the server, the network or the power, and no fault of the node.
    pub(crate) mass: bool,
}

/// Collected from the records, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Facts {
    pub(crate) first: Time,
    pub(crate) jobs: BTreeMap<JobId, SubmittedJob>,
    started: BTreeMap<JobId, Time>,
    placed: BTreeMap<JobId, Time>,
    /// From the placement to all ranks being up.
    pub(crate) starts: Vec<Span>,
    up: BTreeMap<NodeName, Time>,
    away: BTreeMap<NodeName, usize>,
    pub(crate) outages: Vec<Outage>,
    pub(crate) watched: u64,
    /// How long checkpoints held their jobs up.
    pub(crate) blocked: Vec<u64>,
}

/// Nodes that go within this belong together.
const AT_ONCE: Span = Span::mins(1);

impl Facts {
    pub(crate) fn note(&mut self, r: &Record) {
        if self.first == Time(0) {
            self.first = r.at;
        }
        match &r.event {
            Event::JobSubmitted { id, project, user, spec, groups, array, .. } => {
                let came = SubmittedJob {
                    at: r.at,
                    user: user.clone(),
                    project: project.clone(),
                    spec: spec.clone().into(),
                    groups: groups.clone(),
                    ran: Span(0),
                    last: Span(0),
                    attempts: 0,
                    end: None,
                };
                for i in 0..u64::try_from(array.len().max(1)).unwrap_or(1) {
                    self.jobs.insert(JobId(id.0 + i), came.clone());
                }
            }
            Event::JobUpdated(u) => {
                if let Some(j) = self.jobs.get_mut(&u.job) {
                    u.apply(&mut j.spec);
                }
            }
            Event::JobPlaced { key, .. } => drop(self.placed.insert(key.job, r.at)),
            Event::AttemptStarted { key, .. } => {
                self.started.insert(key.job, r.at);
                self.starts.extend(self.placed.get(&key.job).map(|t| r.at.since(*t)));
            }
            Event::AttemptEnded { key, .. } => {
                let ran = self.started.remove(&key.job).map(|t| r.at.since(t));
                if let (Some(j), Some(ran)) = (self.jobs.get_mut(&key.job), ran) {
                    j.last = ran;
                    j.ran = Span(j.ran.0 + ran.0);
                    j.attempts += 1;
                }
            }
            Event::JobSucceeded { job } => self.ended(*job, End::Well),
            Event::JobFailed { job, .. } => self.ended(*job, End::Badly),
            Event::JobCancelled { job, .. } => self.ended(*job, End::Cancelled),
            Event::CheckpointDone { checkpoint, .. } => self.blocked.extend(checkpoint.blocked_ms),
            Event::NodeBack { node, .. } | Event::NodeReady { node, .. } => self.back(node, r.at),
            Event::NodeLost { node, .. } => self.gone(node, r.at, true),
            // A drain by hand is maintenance; one by the site itself is a finding.
            Event::DrainStarted { node, .. } => {
                self.gone(node, r.at, r.actor == Actor::system().name);
            }
            Event::NodeRetired { node } => self.gone(node, r.at, false),
            _ => {}
        }
    }

    fn ended(&mut self, job: JobId, end: End) {
        if let Some(j) = self.jobs.get_mut(&job) {
            j.end = Some(end);
        }
        self.placed.remove(&job);
    }

    fn back(&mut self, node: &NodeName, at: Time) {
        self.up.entry(node.clone()).or_insert(at);
        if let Some(i) = self.away.remove(node) {
            self.outages[i].back = Some(at);
        }
    }

    fn gone(&mut self, node: &NodeName, at: Time, fault: bool) {
        let Some(since) = self.up.remove(node) else { return };
        self.watched = self.watched.saturating_add(at.since(since).0);
        if fault {
            self.away.insert(node.clone(), self.outages.len());
            self.outages.push(Outage { node: node.clone(), from: at, back: None, mass: false });
        }
    }

    /// The log ends here.
    pub(crate) fn close(&mut self) {
        let many = (self.up.len() / 4).max(3);
        let times: Vec<Time> = self.outages.iter().map(|o| o.from).collect();
        for o in &mut self.outages {
            let first = times.partition_point(|t| *t + AT_ONCE < o.from);
            let last = times.partition_point(|t| *t <= o.from + AT_ONCE);
            o.mass = last - first > many;
        }
    }

    /// Node time that was watched, and nodes that failed in it.
    pub(crate) fn exposure(&self, now: Time) -> Exposure {
        let still = self.up.values().map(|since| now.since(*since).0);
        let failures = self.outages.iter().filter(|o| !o.mass).count();
        let node_ms = still.fold(self.watched, u64::saturating_add);
        Exposure { node_ms, failures: failures as u64 }
    }

    /// How long nodes that failed were away, sorted.
    pub(crate) fn repairs(&self) -> Vec<Span> {
        let of = |o: &Outage| o.back.map(|b| b.since(o.from)).filter(|_| !o.mass);
        let mut all: Vec<Span> = self.outages.iter().filter_map(of).collect();
        all.sort();
        all
    }

    /// Time of the log that a simulated second takes, where nodes are simulated at another speed.
    pub(crate) fn pace(&self) -> f64 {
        let of = |j: &SubmittedJob| {
            let sim = j.spec.simulate.as_ref()?;
            let asked = (sim.run.0 + sim.startup.0) as f64;
            let plain = j.end == Some(End::Well) && j.attempts == 1 && asked >= 10_000.0;
            plain.then(|| j.last.0 as f64 / asked)
        };
        let mut all: Vec<f64> = self.jobs.values().filter_map(of).collect();
        all.sort_by(f64::total_cmp);
        let middle = all.get(all.len() / 2).copied().unwrap_or(1.0);
        // A start and an end take their time as well: nearly one is one.
        if all.len() < 3 || (0.8..1.25).contains(&middle) { 1.0 } else { middle.max(1e-6) }
    }
}

/// The middle of a list; sorts it.
pub(crate) fn median(all: &mut [Span]) -> Option<Span> {
    all.sort();
    all.get(all.len() / 2).copied()
}
