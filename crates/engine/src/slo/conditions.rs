//! What is so now, from all that the state holds.

use crate::Engine;
use crate::health::of_hardware;
use muster_model::FailureMode;
use muster_model::alert::{Condition, Urgency};
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::remediation::{RemediationOutcome, RemediationStep};
use muster_model::units::Time;
use muster_slo::conditions::{self, SiteConditions};
use std::collections::{BTreeMap, BTreeSet};

impl Engine {
    /// Everything that alerts follow from.
    pub(super) fn conditions(&self) -> Vec<Condition> {
        let (s, now) = (&self.state, self.state.now);
        let stopped = s.health.automation.stopped.as_ref();
        let spares = s.spares();
        let standing = SiteConditions {
            // A site that keeps no spares does not miss them.
            spares: spares.is_empty() || spares.values().any(|of| of.ready > 0),
            automation: stopped.is_none(),
        };
        let mut out: Vec<Condition> = Vec::new();
        let mut worst: BTreeMap<u64, Severity> = BTreeMap::new();
        for f in s.health.open() {
            if let Some(i) = f.incident {
                let of = worst.entry(i).or_insert(f.seen.severity);
                *of = f.seen.severity.max(*of);
            }
            // That automation has stopped says it already, with why.
            if f.seen.kind == FailureMode::DETECTOR_STORM && stopped.is_some_and(|s| !s.by_operator)
            {
                continue;
            }
            // What was chosen for it and denied helps nobody.
            let chosen = f.remediation.and_then(|id| s.health.remediations.get(&id));
            let denied = chosen.is_some_and(|r| r.outcome == Some(RemediationOutcome::Denied));
            let alone = denied.then(|| Finding { remediation: None, ..(**f).clone() });
            let judged: &Finding = alone.as_ref().unwrap_or(f);
            let Some(c) = conditions::finding(judged, standing) else { continue };
            // A job that takes its nodes down is the cause, not they.
            let suffers = c.job.is_some() && c.kind != FailureMode::NODE_KILLER;
            let broken = || f.seen.attempt.filter(|_| suffers).and_then(|k| self.broken_under(k));
            let parent = c.parent.clone().or_else(broken);
            out.push(Condition { parent, affected: self.affected(f), ..c });
        }
        for i in s.health.open_incidents() {
            let told = conditions::incident(i, worst.get(&i.id).copied());
            out.extend(told.map(|c| Condition { affected: self.hit_by(i), ..c }));
        }
        if let Some(stop) = stopped {
            let told = conditions::automation_stopped(&stop.reason, stop.at);
            // Whoever stopped it knows.
            let urgency = if stop.by_operator { Urgency::Ticket } else { told.urgency };
            out.push(Condition { urgency, ..told });
        }
        if s.nodes.values().any(|n| n.protected && n.stage != Stage::Retired) {
            out.push(conditions::nodes_protected(s.lives.last().map_or(now, |l| l.at)));
        }
        let waiting =
            || s.health.live_remediations().filter(|r| r.step == RemediationStep::Approval);
        let since = waiting().map(|r| r.since).min().unwrap_or(now);
        out.extend(conditions::approvals_wait(waiting().count() as u64, since));
        let gone = spares.iter().filter(|(_, of)| of.ready == 0);
        out.extend(gone.map(|(pool, _)| conditions::no_spares(pool, now)));
        let lasts = |until: Option<Time>| until.is_none_or(|t| now < t);
        let outside = s.slo.outside.values().filter(|o| lasts(o.until));
        out.extend(outside.map(|o| o.condition.clone()));
        let certificates = s.slo.certificates.iter();
        out.extend(certificates.filter_map(|(e, ends)| conditions::certificate(e, *ends, now)));
        out.extend(self.watch.burning.iter().cloned());
        out
    }

    /// Jobs that run on what a finding is about, or were stopped by its node since it began, with the
    /// GPUs of each: one GPU stops the whole gang. Those that have ended are not affected any more.
    fn affected(&self, f: &Finding) -> Vec<(JobId, u32)> {
        let s = &self.state;
        let mut jobs: BTreeSet<JobId> = f.seen.attempt.iter().map(|k| k.job).collect();
        match (&f.seen.entity, f.seen.entity.node()) {
            (Entity::Job(job), _) => jobs.extend([*job]),
            (Entity::Gpu(node, gpu), _) => {
                let on = s.attempts_on(node).filter(|j| has_gpu(j, node, *gpu));
                jobs.extend(on.map(|j| j.id));
            }
            (_, Some(node)) => jobs.extend(s.attempts_on(node).map(|j| j.id)),
            _ => {}
        }
        // What a node is told to be is not what stops its jobs.
        let stops = f.seen.entity.node().filter(|_| f.seen.kind != FailureMode::CONFIG_DRIFT);
        jobs.extend(stops.into_iter().flat_map(|n| self.stopped_by_node(n, f.seen.first_seen)));
        self.with_gpus(&jobs)
    }

    /// Jobs of which an attempt was stopped by a node since then.
    fn stopped_by_node(&self, node: &NodeName, since: Time) -> Vec<JobId> {
        let from = (node.clone(), since, JobId(0));
        let here = self.state.index.hit.range(from..).take_while(|h| h.0 == *node);
        here.map(|h| h.2).collect()
    }

    /// Those of some jobs that have not ended, with their GPUs.
    fn with_gpus(&self, jobs: &BTreeSet<JobId>) -> Vec<(JobId, u32)> {
        let known = jobs.iter().filter_map(|id| self.state.jobs.get(id));
        known.filter(|j| !j.state.is_final()).map(|j| (j.id, gpus_of(j))).collect()
    }

    /// Jobs that nodes of an incident stopped since it began, also those where nothing is open any
    /// more.
    fn hit_by(&self, i: &Incident) -> Vec<(JobId, u32)> {
        let s = &self.state;
        let findings = i.findings.iter().filter_map(|id| s.health.findings.get(id));
        let nodes: BTreeSet<&NodeName> = findings.filter_map(|f| f.seen.entity.node()).collect();
        let hits = |n: &NodeName| self.stopped_by_node(n, i.began_at);
        let jobs: BTreeSet<JobId> = nodes.into_iter().flat_map(hits).collect();
        self.with_gpus(&jobs)
    }

    /// The first critical finding that is open about hardware under an attempt: it explains what
    /// its job does.
    fn broken_under(&self, key: AttemptKey) -> Option<String> {
        let job = self.state.jobs.get(&key.job)?;
        let now = job.attempt.iter().filter(|a| a.no == key.attempt);
        let now = now.flat_map(|a| a.placement.slots.iter().map(|s| &s.node));
        let past = job.past.iter().filter(|p| p.no == key.attempt).flat_map(|p| p.nodes.iter());
        let found = now.chain(past).flat_map(|n| self.state.health.open_on(n));
        let broken =
            found.filter(|f| f.seen.severity == Severity::Critical && of_hardware(&f.seen));
        broken.map(|f| f.id).min().map(|id| format!("finding:{id}"))
    }
}

/// Was this GPU given to the job's attempt?
fn has_gpu(job: &Job, node: &NodeName, gpu: u32) -> bool {
    let slots = job.attempt.iter().flat_map(|a| &a.placement.slots);
    slots.filter(|s| s.node == *node).any(|s| s.gpus.iter().any(|g| g == gpu))
}

/// GPUs of a job: what it was given, or asks for.
fn gpus_of(job: &Job) -> u32 {
    match &job.attempt {
        Some(a) => a.placement.slots.iter().map(|s| s.gpus.len()).sum(),
        None => job.groups.iter().map(|g| g.nodes.saturating_mul(g.gpus)).sum(),
    }
}
