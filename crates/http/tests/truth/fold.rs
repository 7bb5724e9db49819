//! What the log says, folded by hand: this file knows records and nothing of the engine.

use super::documents::Documents;
use super::events::Lines;
use super::indicators::Indicators;
use muster_model::alert::{Alert, AlertState, Escalated};
use muster_model::event::{Event, Record};
use muster_model::finding::Finding;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::StopReason;
use muster_model::names::NodeName;
use muster_model::node::{NodeRole, Stage};
use muster_model::placement::{GpuSet, Placement};
use muster_model::spec::{GpuPart, Group};
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Where the ranks of an attempt on one node stand.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Slot {
    Pending,
    Running,
    Lost,
    Ended,
}

#[derive(Debug, Clone)]
pub(super) struct Attempt {
    pub(super) no: u32,
    pub(super) placement: Arc<Placement>,
    pub(super) slots: Vec<Slot>,
    /// When the latest of its ranks ended that have.
    last_end: Option<Time>,
}

#[derive(Debug, Clone)]
pub(super) struct Job {
    /// `42`, or `42_3`.
    pub(super) name: String,
    pub(super) project: String,
    pub(super) state: &'static str,
    pub(super) held: bool,
    pub(super) attempts: u32,
    pub(super) attempt: Option<Attempt>,
    pub(super) submitted_at: Time,
    pub(super) ended_at: Option<Time>,
    /// When the end of its newest attempt was settled, and when the last rank of that ended.
    last_attempt: Option<(Time, Time)>,
    pub(super) reason: Option<String>,
    /// What its newest attempt was stopped for.
    pub(super) stop: Option<StopReason>,
    pub(super) exit_code: Option<i32>,
    /// What it asks for on each node.
    groups: Arc<[Group]>,
}

impl Job {
    /// Has it something: an attempt of which some rank has not ended?
    pub(super) fn holds(&self) -> bool {
        self.attempt.as_ref().is_some_and(|a| a.slots.iter().any(|at| *at != Slot::Ended))
    }

    /// Thousandths of GPUs that its attempt was given, until the last of its ranks has ended; none where
    /// they are slices.
    pub(super) fn milli(&self) -> Option<u64> {
        let held = self.attempt.as_ref().filter(|_| self.holds());
        let slots = held.iter().flat_map(|a| &a.placement.slots);
        let of = |slot: &muster_model::placement::Slot| {
            let group = self.groups.get(slot.group as usize)?;
            match &group.part {
                None => Some(u64::from(slot.gpus.len()) * 1000),
                Some(GpuPart::Milli(part)) => Some(u64::from(*part)),
                Some(GpuPart::Mig(_)) => None,
            }
        };
        slots.map(of).sum()
    }
}

#[derive(Debug, Clone)]
pub(super) struct Node {
    pub(super) stage: Stage,
    pub(super) reachable: bool,
    pub(super) cordon: Option<String>,
    pub(super) protected: bool,
    pub(super) tested: bool,
    pub(super) gpus: GpuSet,
    /// Those that it had and does not report any more.
    pub(super) missing: GpuSet,
    pub(super) excluded: GpuSet,
    pub(super) role: NodeRole,
}

impl Node {
    fn new() -> Node {
        Node {
            stage: Stage::Enrolled,
            reachable: false,
            cordon: None,
            protected: false,
            tested: false,
            gpus: GpuSet::EMPTY,
            missing: GpuSet::EMPTY,
            excluded: GpuSet::EMPTY,
            role: NodeRole::Normal,
        }
    }

    /// The one word for people, as the API describes it: what matters most comes first.
    pub(super) fn word(&self) -> &'static str {
        match (self.stage, self.reachable) {
            (Stage::Retired, _) => "retired",
            (Stage::Enrolled, _) => "enrolled",
            (_, false) => "lost",
            _ if self.protected => "protected",
            _ if self.tested => "qualifying",
            (Stage::Draining, _) => "draining",
            (Stage::Drained, _) => "drained",
            (Stage::Suspect, _) => "suspect",
            (Stage::Quarantined, _) => "quarantined",
            (Stage::Repairing, _) => "repairing",
            (Stage::Ready, _) if self.cordon.is_some() => "cordoned",
            (Stage::Ready, _) if self.role == NodeRole::Suspect => "suspect",
            (Stage::Ready, _) => "ready",
        }
    }
}

/// How jobs came and ended, each time that one did.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Ends {
    pub(super) submitted: u64,
    pub(super) succeeded: u64,
    pub(super) failed: u64,
    pub(super) cancelled: u64,
}

/// The log, added up.
#[derive(Debug, Default)]
pub(super) struct Fold {
    pub(super) jobs: BTreeMap<JobId, Job>,
    pub(super) nodes: BTreeMap<NodeName, Node>,
    /// Findings that are open.
    pub(super) findings: BTreeMap<u64, Finding>,
    /// Incidents that are open.
    pub(super) incidents: BTreeSet<u64>,
    /// Remediations that go on.
    pub(super) remediations: BTreeSet<u64>,
    /// All alerts that are remembered.
    pub(super) alerts: BTreeMap<String, Alert>,
    /// Why automation is stopped.
    pub(super) stopped: Option<String>,
    pub(super) ends: Ends,
    /// The same by project.
    pub(super) ends_of: BTreeMap<String, Ends>,
    pub(super) documents: Documents,
    pub(super) lines: Lines,
    pub(super) indicators: Indicators,
}

impl Fold {
    /// What the log says of the jobs of one project, and of nothing else.
    pub(super) fn of_project(&self, project: &str) -> Fold {
        let own = self.jobs.iter().filter(|(_, j)| j.project == project);
        Fold {
            jobs: own.map(|(id, job)| (*id, job.clone())).collect(),
            ends: self.ends_of.get(project).copied().unwrap_or_default(),
            ..Fold::default()
        }
    }

    /// Counts for all jobs and for those of the project of this one.
    fn count(&mut self, job: JobId, add: impl Fn(&mut Ends)) {
        let project = self.job(job).project.clone();
        add(&mut self.ends);
        add(self.ends_of.entry(project).or_default());
    }

    pub(super) fn of(records: &[Arc<Record>]) -> Fold {
        let mut fold = Fold::default();
        for r in records {
            fold.of_jobs(r);
            fold.of_nodes(r);
            fold.of_health(r);
            fold.documents.take(r);
            fold.lines.take(r);
            fold.indicators.take(r);
        }
        fold
    }

    /// GPUs that jobs hold on a node: those of ranks that have not ended, which jobs, by number.
    pub(super) fn held(&self, node: &str) -> BTreeMap<u32, BTreeSet<u64>> {
        let mut held: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (id, job) in &self.jobs {
            let Some(a) = &job.attempt else { continue };
            for (slot, at) in a.placement.slots.iter().zip(&a.slots) {
                if slot.node.as_str() == node && *at != Slot::Ended {
                    slot.gpus.iter().for_each(|g| {
                        held.entry(g).or_default().insert(id.0);
                    });
                }
            }
        }
        held
    }

    /// Jobs with ranks on a node that have not ended.
    pub(super) fn jobs_on(&self, node: &str) -> BTreeSet<&str> {
        let here = |a: &Attempt| {
            let mut slots = a.placement.slots.iter().zip(&a.slots);
            slots.any(|(s, at)| s.node.as_str() == node && *at != Slot::Ended)
        };
        let on = self.jobs.values().filter(|j| j.attempt.as_ref().is_some_and(here));
        on.map(|j| j.name.as_str()).collect()
    }

    /// How many are in each state.
    pub(super) fn jobs_by_state(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        self.jobs.values().for_each(|j| *counts.entry(j.state).or_default() += 1);
        counts
    }

    /// The same of nodes.
    pub(super) fn nodes_by_word(&self) -> BTreeMap<&'static str, u64> {
        let mut counts = BTreeMap::new();
        self.nodes.values().for_each(|n| *counts.entry(n.word()).or_default() += 1);
        counts
    }

    fn job(&mut self, id: JobId) -> &mut Job {
        self.jobs.get_mut(&id).unwrap_or_else(|| panic!("the log speaks of job {id} too early"))
    }

    fn slots(&mut self, key: AttemptKey, node: &NodeName, to: Slot) {
        let Some(a) = &mut self.job(key.job).attempt else { return };
        if a.no != key.attempt {
            return;
        }
        for (slot, at) in a.placement.slots.iter().zip(&mut a.slots) {
            let moves = match (*at, to) {
                (Slot::Ended, _) => false,
                (now, Slot::Running) => now == Slot::Pending,
                _ => true,
            };
            if slot.node == *node && moves {
                *at = to;
            }
        }
    }

    fn ended(&mut self, id: JobId, state: &'static str, at: Time) -> &mut Job {
        let job = self.job(id);
        // With its last rank, also where that was heard or settled later.
        let ranks = job.last_attempt.filter(|(settled, _)| *settled == at).map(|(_, end)| end);
        (job.state, job.ended_at) = (state, Some(ranks.unwrap_or(at)));
        // What has ended waits for nobody.
        job.held = false;
        job
    }

    fn of_jobs(&mut self, r: &Record) {
        match &r.event {
            Event::JobSubmitted { id, array, held, project, groups, .. } => {
                let tasks = u64::try_from(array.len().max(1)).expect("few tasks");
                for n in 0..tasks {
                    let task = array.get(usize::try_from(n).expect("few tasks"));
                    let number = JobId(id.0 + n);
                    let job = Job {
                        name: task.map_or_else(|| number.to_string(), |t| format!("{id}_{t}")),
                        project: project.to_string(),
                        state: "queued",
                        held: *held,
                        attempts: 0,
                        attempt: None,
                        submitted_at: r.at,
                        ended_at: None,
                        last_attempt: None,
                        reason: None,
                        stop: None,
                        exit_code: None,
                        groups: Arc::clone(groups),
                    };
                    self.jobs.insert(number, job);
                    self.count(number, |e| e.submitted += 1);
                }
            }
            Event::JobHeld { job, .. } => self.job(*job).held = true,
            Event::JobReleased { job, .. } => self.job(*job).held = false,
            Event::JobPlaced { key, placement } => {
                let job = self.job(key.job);
                (job.state, job.attempts, job.reason) = ("starting", key.attempt, None);
                job.stop = None;
                job.attempt = Some(Attempt {
                    no: key.attempt,
                    placement: Arc::clone(placement),
                    slots: vec![Slot::Pending; placement.slots.len()],
                    last_end: None,
                });
            }
            Event::SlotStarted { key, node } => self.slots(*key, node, Slot::Running),
            Event::SlotEnded { key, node, ended_at, .. } => {
                let at = ended_at.unwrap_or(r.at);
                let now = self.job(key.job).attempt.as_mut().filter(|a| a.no == key.attempt);
                if let Some(a) = now {
                    let mut slots = a.placement.slots.iter().zip(&a.slots);
                    if slots.any(|(s, now)| s.node == *node && *now != Slot::Ended) {
                        a.last_end = a.last_end.max(Some(at));
                    }
                }
                self.slots(*key, node, Slot::Ended);
            }
            Event::SlotLost { key, node } => self.slots(*key, node, Slot::Lost),
            Event::AttemptStarted { key, .. } => {
                let job = self.job(key.job);
                // Its start may be known later than the order to stop it.
                if job.state != "stopping" {
                    job.state = "running";
                }
            }
            Event::StopOrdered { key, reason, .. } => {
                let job = self.job(key.job);
                (job.state, job.reason) = ("stopping", Some(reason.to_string()));
                job.stop = Some(reason.clone());
            }
            Event::AttemptEnded { key, .. } => {
                let job = self.job(key.job);
                let over = |a: &Attempt| a.slots.iter().all(|s| *s == Slot::Ended);
                let ranks = job.attempt.take().filter(over).and_then(|a| a.last_end);
                job.last_attempt = Some((r.at, ranks.unwrap_or(r.at)));
            }
            Event::JobRequeued { job, reason, .. } => {
                let job = self.job(*job);
                (job.state, job.ended_at, job.exit_code) = ("queued", None, None);
                job.reason = Some(reason.clone());
            }
            Event::JobSucceeded { job } => {
                self.count(*job, |e| e.succeeded += 1);
                let job = self.ended(*job, "succeeded", r.at);
                (job.reason, job.exit_code) = (None, Some(0));
            }
            Event::JobFailed { job, reason, exit_code } => {
                self.count(*job, |e| e.failed += 1);
                let job = self.ended(*job, "failed", r.at);
                (job.reason, job.exit_code) = (Some(reason.clone()), Some(*exit_code));
            }
            Event::JobCancelled { job, reason } => {
                self.count(*job, |e| e.cancelled += 1);
                self.ended(*job, "cancelled", r.at).reason = Some(reason.clone());
            }
            Event::JobsForgotten { jobs } => self.jobs.retain(|id, _| !jobs.contains(id)),
            _ => {}
        }
    }

    fn node(&mut self, name: &NodeName) -> &mut Node {
        self.nodes.get_mut(name).unwrap_or_else(|| panic!("the log speaks of {name} too early"))
    }

    fn of_nodes(&mut self, r: &Record) {
        match &r.event {
            // The same machine that enrols again keeps its life.
            Event::NodeEnrolled { node, .. }
                if self.nodes.get(node).is_none_or(|n| n.stage == Stage::Retired) =>
            {
                self.nodes.insert(node.clone(), Node::new());
            }
            Event::NodeBack { node, protected, .. } => {
                let node = self.node(node);
                (node.reachable, node.protected) = (true, *protected);
            }
            Event::NodeInventoried { node, inventory } => {
                let all = inventory.gpus.iter().map(|g| g.index).filter(|i| *i < 64);
                let now = GpuSet(all.fold(0, |set, i| set | 1 << i));
                let n = self.node(node);
                (n.gpus, n.missing) = (now, n.gpus.or(n.missing).minus(now));
            }
            Event::NodeLost { node, .. } => self.node(node).reachable = false,
            Event::NodeCordoned { node, reason, .. } => {
                self.node(node).cordon = Some(reason.clone());
            }
            Event::NodeUncordoned { node, .. } => self.node(node).cordon = None,
            Event::DrainStarted { node, .. } => self.node(node).stage = Stage::Draining,
            Event::NodeDrained { node } => self.node(node).stage = Stage::Drained,
            Event::NodeReady { node, .. } => self.node(node).stage = Stage::Ready,
            Event::NodeStaged { node, stage, .. } => self.node(node).stage = *stage,
            Event::NodeRetired { node } => {
                let node = self.node(node);
                (node.stage, node.reachable) = (Stage::Retired, false);
            }
            Event::NodeReconciled { node } => self.node(node).protected = false,
            Event::NodeMarked { node, role, .. } => self.node(node).role = *role,
            Event::QualificationAsked { node, .. } => self.node(node).tested = true,
            Event::QualificationEnded { node, .. } | Event::QualificationCancelled { node, .. } => {
                self.node(node).tested = false;
            }
            Event::GpusExcluded { node, gpus, .. } => self.node(node).excluded = *gpus,
            _ => {}
        }
    }

    fn of_health(&mut self, r: &Record) {
        match &r.event {
            Event::FindingOpened { finding, .. } => {
                self.findings.insert(finding.id, (**finding).clone());
            }
            Event::FindingChanged { id, seen, .. } => {
                if let Some(f) = self.findings.get_mut(id) {
                    f.seen = (**seen).clone();
                }
            }
            Event::FindingClosed { id, .. } => {
                self.findings.remove(id);
            }
            Event::IncidentOpened { incident } => {
                self.incidents.insert(incident.id);
            }
            Event::IncidentClosed { id, .. } => {
                self.incidents.remove(id);
            }
            Event::RemediationChosen { remediation } => {
                self.remediations.insert(remediation.id);
            }
            Event::RemediationEnded { id, .. } => {
                self.remediations.remove(id);
            }
            Event::AutomationStopped { reason, .. } => self.stopped = Some(reason.clone()),
            Event::AutomationResumed { .. } => self.stopped = None,
            Event::AlertOpened { alert }
            | Event::AlertChanged { alert }
            | Event::AlertClosed { alert } => {
                self.alerts.insert(alert.id.clone(), (**alert).clone());
            }
            Event::AlertAcknowledged { id, acknowledgement } => {
                if let Some(a) = self.alerts.get_mut(id) {
                    a.state = AlertState::Acknowledged;
                    a.acknowledged = Some(acknowledgement.clone());
                }
            }
            Event::AlertEscalated { escalation: Escalated { id, level, .. } } => {
                if let Some(a) = self.alerts.get_mut(id) {
                    a.state = AlertState::Firing;
                    a.acknowledged = None;
                    a.level = *level;
                }
            }
            Event::AlertsForgotten { ids } => self.alerts.retain(|id, _| !ids.contains(id)),
            _ => {}
        }
    }
}
