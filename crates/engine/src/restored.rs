//! After a restore: ranks of the log's lost end may still run. No second attempt writes beside them.

use crate::Engine;
use muster_model::command::{Refusal, RefusalCode};
use muster_model::event::Event;
use muster_model::hold::{HeldBy, Hold};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Job, JobState};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::spec::OnPartition;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Nodes have so long to report ranks that no lease ends.
const REPORTED: Span = Span::mins(5);

impl Engine {
    /// The log was just restored. What waits in it may have been started in the part that is lost:
    /// it waits until such ranks have stopped by their lease, or their node has reported them.
    pub(crate) fn delay_restored(&mut self) {
        let waits = |j: &&Arc<Job>| j.state == JobState::Queued && j.spec.fenced();
        let jobs: Vec<Arc<Job>> = self.state.jobs.values().filter(waits).cloned().collect();
        for job in jobs {
            let not_before = self.lost_generation_until(&job);
            if not_before <= job.not_before {
                continue;
            }
            self.delay_lost(&job, not_before);
        }
    }

    fn delay_lost(&mut self, job: &Job, not_before: Time) {
        let reason = "the log was restored from a backup, and ranks of its lost part may still run";
        self.drop_reserved_start(job, reason);
        let reason = job.after_last_end(reason);
        let (job, project) = (job.id, &job.project);
        // Attempts of the lost part may have had the same numbers: what a node says of the last one
        // may be about another.
        let (by, unreported) = (None, Vec::new());
        self.emit(Some(project), Event::JobRequeued { job, reason, not_before, by, unreported });
    }

    /// Ranks were given up by an agent that has not seen them end. Their job waits as long as they
    /// may go on, whoever holds it: nobody will say when they are gone.
    pub(crate) fn outlast_lost_ranks(&mut self, node: &NodeName, key: AttemptKey) {
        if self.state.lives.is_empty() || self.state.never_ran_here(node, key, false) {
            return;
        }
        let id = key.job;
        let waits = |j: &Arc<Job>| j.state == JobState::Queued && j.spec.fenced();
        let Some(job) = self.state.jobs.get(&id).cloned().filter(waits) else { return };
        let not_before = self.state.now + self.lost_ranks_wait(&job);
        if not_before > job.not_before {
            self.delay_lost(&job, not_before);
        }
    }

    /// Until then ranks of the lost life may run on nodes that are not heard; 0 when there are none.
    pub(crate) fn lost_generation_until(&self, job: &Job) -> Time {
        let life = self.state.lives.last().filter(|l| job.submitted_at < l.at && job.spec.fenced());
        let Some(life) = life else { return Time(0) };
        let until = life.at + self.lost_ranks_wait(job);
        if until > self.state.now { until } else { Time(0) }
    }

    /// How long ranks of a lost life are waited for that nobody reports.
    fn lost_ranks_wait(&self, job: &Job) -> Span {
        let after = match job.spec.partition() {
            OnPartition::StopAfter(after) => after,
            OnPartition::Continue => REPORTED,
        };
        let grace = job.spec.checkpoint.as_ref().and_then(|c| c.grace).unwrap_or(self.policy.grace);
        job.spec.stopped_after(after, grace)
    }

    /// Jobs whose ranks a node has that the log does not know there, or has no more: they are held
    /// for so long.
    pub(crate) fn follow_lost_ranks(&mut self, jobs: impl IntoIterator<Item = JobId>) {
        if self.state.lives.is_empty() {
            return;
        }
        for id in jobs {
            let held = |j: &Arc<Job>| j.held.as_ref().is_some_and(|h| h.by == HeldBy::LostRanks);
            match self.state.jobs.get(&id).cloned().filter(held) {
                Some(job) if self.lost_ranks_on(id).is_none() => {
                    let released = Event::JobReleased { job: id, decided: true };
                    self.emit(Some(&job.project), released);
                    self.held_by_breaker(id);
                }
                Some(_) => {}
                None => self.held_by_lost_ranks(id),
            }
        }
    }

    /// A job that is to be started does not, while ranks of it run that the log does not know.
    pub(crate) fn held_by_lost_ranks(&mut self, id: JobId) {
        if self.state.lives.is_empty() {
            return;
        }
        let waits =
            |j: &Arc<Job>| j.state == JobState::Queued && j.held.is_none() && j.spec.fenced();
        let Some(job) = self.state.jobs.get(&id).cloned().filter(waits) else { return };
        let Some(node) = self.lost_ranks_on(id).map(|n| n.name.clone()) else { return };
        let name = format!(
            "a restored log: ranks of it run on node {node}, and `muster node reconcile {node}` \
             stops them"
        );
        self.emit_hold(&job, Hold { name, by: HeldBy::LostRanks, since: None });
    }

    /// Nobody's word starts a job beside ranks of it that the log does not know.
    pub(crate) fn refuse_lost_ranks(&self, job: &Job) -> Result<(), Refusal> {
        let Some(node) = self.lost_ranks_on(job.id).filter(|_| job.spec.fenced()) else {
            return Ok(());
        };
        let (id, node) = (job.id, &node.name);
        let what = format!("ranks of job {id} from before a restore still run on node {node}");
        let hint = format!("`muster node reconcile {node}` stops them; then the job continues");
        Err(Refusal::new(RefusalCode::Conflict, what).hint(hint))
    }

    fn lost_ranks_on(&self, id: JobId) -> Option<&Arc<Node>> {
        let here = |n: &&Arc<Node>| {
            let its = |key: &&AttemptKey| key.job == id;
            n.stage != Stage::Retired
                && n.orphans
                    .iter()
                    .filter(its)
                    .any(|k| !self.state.never_ran_here(&n.name, *k, false))
        };
        self.state.nodes.values().find(here)
    }

    pub(crate) fn drop_reserved_start(&mut self, job: &Job, reason: &str) {
        if job.reserved_start.is_some() {
            let reason = reason.to_owned();
            self.emit(Some(&job.project), Event::ReservedStartDropped { job: job.id, reason });
            self.withdraw_notices(job.id);
        }
    }
}
