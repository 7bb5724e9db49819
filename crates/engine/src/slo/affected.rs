//! Which jobs a cause affects. There is this one definition: alerts, the on-call page and their
//! counts must never name different jobs.

use crate::health::{of_hardware, of_program};
use crate::state::State;
use muster_health::attribute::AFTER;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident, ObservedFinding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Attempt, Job, PastAttempt};
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

impl State {
    /// Jobs that these findings and incidents affect, with the GPUs of each: one GPU stops the whole
    /// gang. A job is affected while it runs on what a finding is about, or was stopped by it and
    /// has not resumed; what began there later is affected only where it is slower or dies.
    #[must_use]
    pub fn affected_by<'a>(
        &self,
        findings: impl IntoIterator<Item = &'a Finding>,
        incidents: impl IntoIterator<Item = &'a Incident>,
    ) -> BTreeMap<JobId, u32> {
        let found = findings.into_iter().flat_map(|f| self.affected_by_finding(f));
        let hit = incidents.into_iter().flat_map(|i| self.stopped_by_incident(i));
        let jobs = found.chain(hit).filter_map(|id| self.jobs.get(&id));
        jobs.filter(|j| !j.state.is_final()).map(|j| (j.id, gpus_of(j))).collect()
    }

    fn affected_by_finding(&self, f: &Finding) -> BTreeSet<JobId> {
        let seen = &f.seen;
        let named = seen.attempt.and_then(|k| Some((self.jobs.get(&k.job)?, k.attempt)));
        let mut jobs: BTreeSet<JobId> =
            named.filter(|(j, no)| latest(j) == Some(*no)).map(|(j, _)| j.id).into_iter().collect();
        if let Entity::Job(job) = seen.entity {
            jobs.insert(job);
        }
        // What a program did is no trouble of those beside it.
        let Some(node) = seen.entity.node().filter(|_| !of_program(seen)) else { return jobs };
        let new_work = of_hardware(seen) && seen.severity >= Severity::Degraded;
        let there = |a: &Attempt| {
            (new_work || a.placed_at <= f.opened_at) && holds(a, node, seen.entity.gpu())
        };
        let here = self.attempts_on(node).filter(|j| j.attempt.as_ref().is_some_and(there));
        jobs.extend(here.map(|j| j.id));
        if stops_jobs(seen) {
            jobs.extend(self.stopped_by_node(node, seen.first_seen));
        }
        jobs
    }

    /// Attempts that these findings and incidents have ended, by the same definition. Their jobs may
    /// have resumed elsewhere or be over: nothing affects them now, but the cause did.
    #[must_use]
    pub fn ended_by<'a>(
        &self,
        findings: impl IntoIterator<Item = &'a Finding>,
        incidents: impl IntoIterator<Item = &'a Incident>,
    ) -> BTreeSet<AttemptKey> {
        let mut out = BTreeSet::new();
        for f in findings {
            out.extend(self.rests_on(f));
            let Some(n) = f.seen.entity.node().filter(|_| stops_jobs(&f.seen)) else { continue };
            out.extend(self.ended_by_node(n, f.seen.first_seen));
            // What was found only afterwards, and is the cause all the same.
            let (from, id) = (f.seen.first_seen - AFTER, f.id);
            let past = self.hits_of(n, from).take_while(|h| h.1 < f.seen.first_seen);
            let rests = |p: &&PastAttempt| p.findings.contains(&id);
            out.extend(past.filter_map(|h| self.hit_attempt(h).filter(|(_, p)| rests(p))).map(key));
        }
        for i in incidents {
            let nodes = self.nodes_of_findings(&i.findings).into_iter();
            out.extend(nodes.flat_map(|n| self.ended_by_node(&n, i.began_at)));
        }
        out
    }

    /// The attempt that a finding was seen with, where the verdict about its end rests on the finding.
    fn rests_on(&self, f: &Finding) -> Option<AttemptKey> {
        let key = f.seen.attempt?;
        let past = self.jobs.get(&key.job)?.past.iter().find(|p| p.no == key.attempt)?;
        past.findings.contains(&f.id).then_some(key)
    }

    /// Attempts that a node has ended since then.
    fn ended_by_node(&self, node: &NodeName, since: Time) -> Vec<AttemptKey> {
        self.hits_of(node, since).filter_map(|h| self.hit_attempt(h)).map(key).collect()
    }

    /// The attempt that a node stopped then, with its job.
    fn hit_attempt(&self, h: &(NodeName, Time, JobId)) -> Option<(JobId, &PastAttempt)> {
        Some((h.2, self.jobs.get(&h.2)?.past.iter().find(|p| p.ended_at == h.1)?))
    }

    /// When a node stopped which jobs since then.
    fn hits_of<'s>(
        &'s self,
        node: &'s NodeName,
        since: Time,
    ) -> impl Iterator<Item = &'s (NodeName, Time, JobId)> {
        let from = (node.clone(), since, JobId(0));
        self.index.hit.range(from..).take_while(move |h| h.0 == *node)
    }

    /// The nodes that these findings are about.
    pub(crate) fn nodes_of_findings(&self, findings: &[u64]) -> BTreeSet<NodeName> {
        let all = findings.iter().filter_map(|id| self.health.findings.get(id));
        all.filter_map(|f| f.seen.entity.node().cloned()).collect()
    }

    /// Jobs that nodes of an incident stopped since it began, also those where nothing is open any
    /// more.
    fn stopped_by_incident(&self, i: &Incident) -> BTreeSet<JobId> {
        let nodes = self.nodes_of_findings(&i.findings).into_iter();
        nodes.flat_map(|n| self.stopped_by_node(&n, i.began_at)).collect()
    }

    /// Jobs of which the latest attempt was stopped by a node since then.
    fn stopped_by_node(&self, node: &NodeName, since: Time) -> Vec<JobId> {
        let last = |job: &Arc<Job>, at: Time| stopped(job) == Some(at);
        let waits =
            self.hits_of(node, since).filter(|h| self.jobs.get(&h.2).is_some_and(|j| last(j, h.1)));
        waits.map(|h| h.2).collect()
    }
}

fn key((job, past): (JobId, &PastAttempt)) -> AttemptKey {
    AttemptKey { job, attempt: past.no }
}

/// May what was found on a node be what stopped jobs there? Neither what a node is set to be nor
/// what a program did is.
fn stops_jobs(seen: &ObservedFinding) -> bool {
    !of_program(seen) && seen.kind != FailureMode::CONFIG_DRIFT
}

/// The number of its attempt, or of the last one while it has none.
fn latest(job: &Job) -> Option<u32> {
    let past = || job.past.last().map(|p| p.no);
    job.attempt.as_ref().map(|a| a.no).or_else(past)
}

/// When its latest attempt was stopped, unless that one runs.
fn stopped(job: &Job) -> Option<Time> {
    match &job.attempt {
        Some(a) => a.stop.as_ref().map(|stop| stop.at),
        None => job.past.last().map(|p| p.ended_at),
    }
}

/// Was this GPU of a node given to an attempt, or anything of the node where no GPU is meant?
fn holds(a: &Attempt, node: &NodeName, gpu: Option<u32>) -> bool {
    let mut here = a.placement.slots.iter().filter(|s| s.node == *node);
    here.any(|s| gpu.is_none_or(|gpu| s.gpus.iter().any(|g| g == gpu)))
}

/// GPUs of a job: what it was given, or asks for.
fn gpus_of(job: &Job) -> u32 {
    match &job.attempt {
        Some(a) => a.placement.slots.iter().map(|s| s.gpus.len()).sum(),
        None => job.groups.iter().map(|g| g.nodes.saturating_mul(g.gpus)).sum(),
    }
}
