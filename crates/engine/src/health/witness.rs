//! How far a straggler is believed. Its gang's ranks measure their own steps: that is the word of
//! a tenant. By itself it may cost the tenant's own work something, and nobody else's.

use crate::Engine;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, ObservedFinding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::placement::GpuSet;
use muster_model::remediation::{Action, Remediation, RemediationStep};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// How long it is remembered who called a node slow, and that the node passed its test.
const REMEMBERED: Span = Span::hours(24);

/// What a node itself reports, and what makes work there slow.
const SHOWN: [FailureMode; 14] = [
    FailureMode::ECC_UNCORRECTABLE,
    FailureMode::ECC_RATE,
    FailureMode::PCIE_REPLAY,
    FailureMode::PCIE_DOWNGRADE,
    FailureMode::NVLINK_ERRORS,
    FailureMode::THERMAL,
    FailureMode::POWER_BRAKE,
    FailureMode::CLOCKS_LOW,
    FailureMode::NIC_MISSING,
    FailureMode::LINK_DOWN,
    FailureMode::LINK_FLAP,
    FailureMode::SYMBOL_ERRORS,
    FailureMode::LINK_SLOW,
    FailureMode::HOST_FAULT,
];

/// What a finding rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum FindingEvidence {
    /// What the node or a job of another project shows, too; or no job's word is in it.
    Corroborated,
    /// The word of a job that holds all GPUs of the node and is alone there.
    OwnNode(JobId),
    /// The word of a job that is not alone there.
    Shared(JobId),
    /// The word of a job that holds no GPU there.
    NoGpus(JobId),
    /// The word of a job, while another node is out by the word of the same project.
    Second(JobId),
    /// The word of a job, after a node passed its test that the same project had called slow.
    Refuted(JobId),
}

impl FindingEvidence {
    /// The heaviest that may be done on it, and why no more; none: anything.
    pub(super) fn most(self) -> Option<(Action, String)> {
        let only = |j: JobId| format!("only the step times of job {j} show it");
        match self {
            FindingEvidence::Corroborated => None,
            FindingEvidence::OwnNode(j) => {
                Some((Action::Drain, format!("{}: the node is tested, nothing more", only(j))))
            }
            FindingEvidence::Shared(j) => Some((
                Action::RestartJob,
                format!("{}, and it does not have the node to itself", only(j)),
            )),
            FindingEvidence::NoGpus(j) => {
                Some((Action::RestartJob, format!("{}, and it has no GPU of the node", only(j))))
            }
            FindingEvidence::Second(j) => Some((
                Action::RestartJob,
                format!("{}, and another node that its project called slow is out", only(j)),
            )),
            FindingEvidence::Refuted(j) => Some((
                Action::RestartJob,
                format!(
                    "attributed to job {j}: within the last day a node passed its test that its \
                     project had called slow"
                ),
            )),
        }
    }
}

/// The attempt on whose word alone a finding is, and the node it speaks of.
pub(super) fn reporting_attempt(seen: &ObservedFinding) -> Option<(AttemptKey, &NodeName)> {
    if seen.kind != FailureMode::STRAGGLER {
        return None;
    }
    seen.attempt.zip(seen.entity.node())
}

/// Does an attempt hold GPUs of a node?
fn holds_gpus(job: &Job, key: AttemptKey, node: &NodeName) -> bool {
    match job.attempt.as_ref().filter(|a| a.no == key.attempt) {
        Some(a) => a.placement.slots.iter().any(|s| s.node == *node && !s.gpus.is_empty()),
        // Which slot was there is not known any more.
        None => job.groups.iter().all(|g| g.gpus > 0),
    }
}

impl Engine {
    /// What a finding rests on.
    pub(super) fn proof(&self, f: &Finding) -> FindingEvidence {
        let Some((key, node)) = reporting_attempt(&f.seen) else {
            return FindingEvidence::Corroborated;
        };
        let job = key.job;
        let (Some(gang), Some(n)) = (self.state.jobs.get(&job), self.state.nodes.get(node)) else {
            return FindingEvidence::Shared(job);
        };
        if !holds_gpus(gang, key, node) {
            FindingEvidence::NoGpus(job)
        } else if self.node_shows(&f.seen, node) {
            FindingEvidence::Corroborated
        } else if self.is_refuted(key) {
            FindingEvidence::Refuted(job)
        } else if self.others_see(key, node) {
            FindingEvidence::Corroborated
        } else if !self.is_alone(gang, key, n) {
            FindingEvidence::Shared(job)
        } else if self.is_second(key, node) {
            FindingEvidence::Second(job)
        } else {
            FindingEvidence::OwnNode(job)
        }
    }

    /// Why a remediation may not take its node by itself, by what its finding rests on; none: it may.
    pub(super) fn unproven(&self, r: &Remediation) -> Option<String> {
        let f = self.state.health.findings.get(&r.finding)?;
        self.proof(f).most().filter(|(most, _)| r.action > *most).map(|(_, why)| why)
    }

    /// May findings with a common cause be counted with this one? What only jobs say is no sign of
    /// a switch or a version that fails.
    pub(super) fn is_shown(&self, f: &Finding) -> bool {
        reporting_attempt(&f.seen).is_none_or(|(_, node)| self.node_shows(&f.seen, node))
    }

    /// Does the node's own telemetry show something that explains it?
    fn node_shows(&self, seen: &ObservedFinding, node: &NodeName) -> bool {
        self.state.health.open_on(node).any(|o| {
            let same = match (seen.entity.gpu(), o.seen.entity.gpu()) {
                (Some(a), Some(b)) => a == b,
                _ => true,
            };
            same && o.seen.severity >= Severity::Warning
                && FailureMode::is_one_of(&o.seen.kind, &SHOWN)
        })
    }

    /// Did a node pass its test lately that this attempt's project had called slow?
    fn is_refuted(&self, key: AttemptKey) -> bool {
        let now = self.state.now;
        let passed = |(at, step): &(Time, RemediationStep)| {
            *step == RemediationStep::Probation && now.since(*at) < REMEMBERED
        };
        self.state.health.remediations.values().any(|r| {
            r.kind == FailureMode::STRAGGLER
                && r.action == Action::Drain
                && r.taken.iter().any(passed)
                && self.is_of_project(r.finding, key)
        })
    }

    /// Is another node out, or to be taken out, by the word of this attempt's project?
    fn is_second(&self, key: AttemptKey, node: &NodeName) -> bool {
        self.state.health.live_remediations().any(|r| {
            r.kind == FailureMode::STRAGGLER
                && r.action.takes_node()
                && r.step != RemediationStep::Probation
                && r.node != *node
                && self.is_of_project(r.finding, key)
        })
    }

    /// Is a finding on the word of this attempt's job or project?
    fn is_of_project(&self, finding: u64, key: AttemptKey) -> bool {
        let reported = self.state.health.findings.get(&finding).and_then(|f| f.seen.attempt);
        reported.is_some_and(|k| {
            let project = self.project_of(Some(k));
            k.job == key.job || project.is_some() && project == self.project_of(Some(key))
        })
    }

    /// Did a job of another project call the node slow lately?
    fn others_see(&self, key: AttemptKey, node: &NodeName) -> bool {
        let now = self.state.now;
        self.state.health.findings.values().any(|o| {
            reporting_attempt(&o.seen).is_some_and(|(k, n)| {
                n == node
                    && now.since(o.seen.last_seen) < REMEMBERED
                    && self.differ(k, key)
                    && self.is_witness(k, node)
            })
        })
    }

    /// Are these known to be of different projects?
    fn differ(&self, a: AttemptKey, b: AttemptKey) -> bool {
        let (a, b) = (self.project_of(Some(a)), self.project_of(Some(b)));
        a.is_some() && b.is_some() && a != b
    }

    /// Does the word of an attempt count for what others say of a node?
    fn is_witness(&self, key: AttemptKey, node: &NodeName) -> bool {
        let job = self.state.jobs.get(&key.job);
        job.is_some_and(|j| holds_gpus(j, key, node)) && !self.is_refuted(key)
    }

    /// Does an attempt hold all GPUs of a node, and does nothing else run there?
    fn is_alone(&self, job: &Job, key: AttemptKey, n: &Node) -> bool {
        let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) else { return false };
        let here = a.placement.slots.iter().filter(|s| s.node == n.name);
        let held = here.fold(GpuSet(0), |all, s| all.or(s.gpus));
        n.gpu_set().minus(n.excluded_gpus).minus(held).is_empty()
            && self.state.attempts_on(&n.name).all(|j| j.id == job.id)
    }

    /// A straggler that is open is seen by a job of another project, too.
    pub(super) fn is_confirmed_by_another_project(
        &self,
        f: &Finding,
        seen: &ObservedFinding,
    ) -> bool {
        let both = reporting_attempt(&f.seen).zip(reporting_attempt(seen));
        both.is_some_and(|((a, _), (b, _))| self.differ(a, b))
    }

    /// A second project's word makes a straggler proven: it is a finding of its own, so that the
    /// log keeps who said what. Where it adds nothing, the finding stays with the first.
    pub(super) fn confirm_straggler(
        &mut self,
        f: &Finding,
        mut seen: ObservedFinding,
        decided: bool,
    ) {
        let counts =
            |s: &ObservedFinding| reporting_attempt(s).is_some_and(|(k, n)| self.is_witness(k, n));
        let (first, second) = (counts(&f.seen), counts(&seen));
        if first && second && self.proof(f) != FindingEvidence::Corroborated {
            self.close_finding(f.id, "a job of another project sees it, too", true);
            self.open_finding(seen, decided);
            return;
        }
        if first {
            (seen.attempt, seen.rank) = (None, None);
            // What was said about one tenant's program is not for another one to read.
            seen.evidence.clear();
        }
        self.update_open_finding(f, seen, decided);
    }

    /// A straggler that was only watched may be proven by now: its gang has the node to itself, or
    /// the test of another node is over.
    pub(super) fn proven_since(&mut self, id: u64) {
        let Some(f) = self.state.health.findings.get(&id).cloned() else { return };
        let Some((_, node)) = reporting_attempt(&f.seen) else { return };
        let Some(n) = self.state.nodes.get(node).cloned() else { return };
        let last = f.remediation.and_then(|r| self.state.health.remediations.get(&r));
        let watched = last.is_some_and(|r| r.action <= Action::RestartJob && r.outcome.is_some());
        if watched && self.choice(&f, &n, self.proof(&f)).action.takes_node() {
            self.choose_remediation(&f);
        }
    }

    /// What a job says of nodes was refuted: that is a finding about the job.
    pub(super) fn attribute_to_job(&mut self, f: &Finding, proof: FindingEvidence) {
        let (FindingEvidence::Refuted(job), Some((_, why))) = (proof, proof.most()) else { return };
        let (kind, entity) = (FailureMode::JOB_SLOW.code(), Entity::Job(job));
        if self.state.health.open_of(&entity, kind).is_some() {
            return;
        }
        let line = format!("it says that {} is slow; {why}", f.seen.entity);
        let mut seen = ObservedFinding::new(kind, entity, Severity::Warning, self.state.now);
        (seen.attempt, seen.rank) = (f.seen.attempt, f.seen.rank);
        self.found(seen.because(line), true);
    }

    /// A straggler is over: so is what was concluded about its job, and about jobs that have
    /// ended.
    pub(super) fn close_straggler(&mut self, seen: &ObservedFinding) {
        let Some((key, _)) = reporting_attempt(seen) else { return };
        let runs = |j: &JobId| self.state.jobs.get(j).is_some_and(|j| j.attempt.is_some());
        let over = |f: &&Arc<Finding>| match &f.seen.entity {
            Entity::Job(j) => {
                let own = f.inferred && f.seen.kind == FailureMode::JOB_SLOW;
                own && (*j == key.job || !runs(j))
            }
            _ => false,
        };
        let ids: Vec<u64> = self.state.health.open().filter(over).map(|f| f.id).collect();
        for id in ids {
            self.close_finding(id, "it calls no node slow any more", true);
        }
    }
}
