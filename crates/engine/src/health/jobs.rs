//! Jobs and unhealthy hardware: what caused an attempt's end, and how long recovery took.

use crate::Engine;
use muster_health::attribute::{AFTER, Attribution, BEFORE, Ended, Known, attribute};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::Finding;
use muster_model::ids::AttemptKey;
use muster_model::job::{Job, JobState, PastAttempt, Verdict};
use muster_model::names::NodeName;
use muster_model::topology::Level;
use std::collections::BTreeSet;
use std::sync::Arc;

impl Engine {
    /// Whose doing the end of an attempt was, from what is known of its nodes.
    pub(crate) fn attributed(&self, job: &Job, nodes: &[NodeName], first: Verdict) -> Attribution {
        let now = self.state.now;
        let key = job.attempt_key().unwrap_or(AttemptKey { job: job.id, attempt: job.attempts });
        let ended = Ended {
            at: now,
            started_at: job.attempt.as_ref().and_then(|a| a.started_at),
            verdict: first,
            nodes,
        };
        self.judge(key, &ended)
    }

    fn judge(&self, key: AttemptKey, ended: &Ended<'_>) -> Attribution {
        let places: BTreeSet<Entity> = ended
            .nodes
            .iter()
            .filter_map(|n| self.state.nodes.get(n))
            .flat_map(|n| {
                let at = &n.location;
                [
                    Entity::domain(Level::Leaf, &n.name, at),
                    Entity::domain(Level::Rack, &n.name, at),
                    Entity::Feed(at.feed.clone()),
                ]
            })
            .collect();
        let here: BTreeSet<&NodeName> = ended.nodes.iter().collect();
        let about = |f: &Finding| match &f.seen.entity {
            Entity::Job(j) => *j == key.job,
            Entity::Storage(_) => true,
            e => e.node().map_or_else(|| places.contains(e), |n| here.contains(n)),
        };
        let near = self
            .state
            .health
            .findings
            .values()
            .rev()
            .take_while(|f| f.opened_at + BEFORE + AFTER >= ended.at || f.closed.is_none())
            .take(4096);
        let known: Vec<&Arc<Finding>> = near.filter(|f| about(f)).collect();
        let known: Vec<Known<'_>> =
            known.iter().map(|f| Known { id: f.id, seen: &f.seen }).collect();
        attribute(ended, key, &known)
    }

    /// A finding came after the end of an attempt that it explains: the verdict is mended, and a
    /// job that failed for it goes on.
    pub(super) fn attribute_late(&mut self, f: &Finding) {
        let Some(node) = f.seen.entity.node() else { return };
        let now = self.state.now;
        let lately = |p: &PastAttempt| {
            now.since(p.ended_at) <= AFTER
                && p.nodes.contains(node)
                && matches!(p.verdict, Verdict::Application | Verdict::Unknown)
        };
        let ended: Vec<Arc<Job>> = self
            .state
            .index
            .lately_tried(now - AFTER)
            .filter_map(|id| self.state.jobs.get(&id))
            .filter(|j| j.past.last().is_some_and(lately))
            .cloned()
            .collect();
        for job in ended {
            let Some(p) = job.past.last().cloned() else { continue };
            let key = AttemptKey { job: job.id, attempt: p.no };
            let ended = Ended {
                at: p.ended_at,
                started_at: p.started_at,
                verdict: p.verdict,
                nodes: &p.nodes,
            };
            let found = self.judge(key, &ended);
            let better = match found.verdict {
                Verdict::Infrastructure => true,
                // Nobody knew why it ended; now somebody does.
                Verdict::Application | Verdict::Platform => p.verdict == Verdict::Unknown,
                _ => false,
            };
            if !better || found.findings.is_empty() {
                continue;
            }
            let Attribution { verdict, findings, reason } = found;
            let reason = format!("{}; {reason}", p.reason);
            let event = Event::AttemptAttributed { key, verdict, findings, reason: reason.clone() };
            self.emit(Some(&job.project), event);
            let Some(job) = self.state.jobs.get(&job.id).cloned() else { continue };
            let left = job.infrastructure_failures <= job.spec.retries.infrastructure;
            if job.state == JobState::Failed && left && verdict == Verdict::Infrastructure {
                let not_before = self.state.now;
                let event = Event::JobRequeued { job: job.id, reason, not_before };
                self.emit(Some(&job.project), event);
            }
        }
    }

    /// An attempt made its first step.
    pub(super) fn first_step(&mut self, key: AttemptKey) {
        let Some(job) = self.state.jobs.get(&key.job).cloned() else { return };
        let waits = |r: &muster_model::job::Recovery| {
            r.attempt < key.attempt && r.working_at.is_none() && r.started_at.is_some()
        };
        // Only the way back from a failure is measured.
        if job.attempt_key() == Some(key) && job.recovery.as_ref().is_some_and(waits) {
            self.emit(Some(&job.project), Event::AttemptProgressed { key });
        }
    }
}
