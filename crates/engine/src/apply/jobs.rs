//! How a job is changed: the index follows, and so do those who wait for the job.

use super::unknown;
use crate::state::dependencies::Depends;
use crate::state::index::Traces;
use crate::state::{ApplyError, State};
use muster_model::ids::{JobId, Seq};
use muster_model::job::{Dependency, Job};
use std::sync::Arc;

/// A record names a job that does not exist.
fn unknown_job(seq: Seq, id: JobId) -> ApplyError {
    unknown(seq, format!("job {id}"))
}

impl State {
    /// Changes a job and keeps the index in step, waiters on it included.
    pub(crate) fn job(
        &mut self,
        seq: Seq,
        id: JobId,
        f: impl FnOnce(&mut Job),
    ) -> Result<(), ApplyError> {
        let old = self.jobs.get(&id).ok_or_else(|| unknown_job(seq, id))?;
        if old.attempt.is_none() {
            return self.job_anew(seq, id, f);
        }
        let old = old.clone();
        let was_final = old.state.is_final();
        let outlook = self.index.waits.outlook(&old);
        let mut job = (*old).clone();
        f(&mut job);
        job.version = seq;
        let same_hold = match (&old.attempt, &job.attempt) {
            (Some(a), Some(b)) => a.no == b.no && a.slots == b.slots && job.state.is_active(),
            _ => false,
        };
        let job = Arc::new(job);
        if same_hold {
            self.jobs.insert(id, job.clone());
            self.with_index(|ix, s| ix.touch(s, &old, &job));
            return Ok(());
        }
        self.with_index(|ix, s| ix.remove(s, &old));
        self.jobs.insert(id, job.clone());
        self.with_index(|ix, s| ix.add(s, &job));
        if was_final != job.state.is_final() {
            let array = outlook != self.index.waits.outlook(&job);
            self.reevaluate_waiters(&job, array);
        }
        Ok(())
    }

    /// As [`State::job`], where an attempt that goes on keeps all it has: `f` changes neither its
    /// slots nor its number, nor the spec, nor the attempts before it, nor what is reserved. No copy
    /// of the job is made: one of a gang of thousands takes longer than all the rest.
    pub(super) fn job_in_place(
        &mut self,
        seq: Seq,
        id: JobId,
        f: impl FnOnce(&mut Job),
    ) -> Result<(), ApplyError> {
        let arc = self.jobs.get_mut(&id).ok_or_else(|| unknown_job(seq, id))?;
        if arc.attempt.is_none() || !arc.state.is_active() {
            return self.job(seq, id, f);
        }
        let kept = |j: &Job| {
            let attempt = j.attempt.as_ref().map(|a| (a.no, a.slots.len(), a.freed_at));
            let reserved = j.reserved_start.as_ref().map(|p| p.at);
            let spec = (j.spec.priority, j.spec.time_limit);
            (attempt, j.state.is_active(), j.past.len(), reserved, spec)
        };
        let was = kept(arc);
        let traces = Traces::of(arc);
        let job = Arc::make_mut(arc);
        f(job);
        job.version = seq;
        debug_assert_eq!(kept(job), was, "job {id} keeps what it has");
        self.with_index(|ix, s| {
            if let Some(job) = s.jobs.get(&id) {
                ix.follow(s, &traces, job);
            }
        });
        Ok(())
    }

    /// As [`State::job`], where the job has no attempt, or has none any more: all traces of it leave
    /// the index before the change and come back after it, so no copy is made here either.
    pub(super) fn job_anew(
        &mut self,
        seq: Seq,
        id: JobId,
        f: impl FnOnce(&mut Job),
    ) -> Result<(), ApplyError> {
        let old = self.jobs.get(&id).ok_or_else(|| unknown_job(seq, id))?;
        let was_final = old.state.is_final();
        let outlook = self.index.waits.outlook(old);
        self.with_index(|ix, s| {
            if let Some(old) = s.jobs.get(&id) {
                ix.remove(s, old);
            }
        });
        if let Some(arc) = self.jobs.get_mut(&id) {
            let job = Arc::make_mut(arc);
            f(job);
            job.version = seq;
        }
        let mut now_final = was_final;
        self.with_index(|ix, s| {
            if let Some(job) = s.jobs.get(&id) {
                now_final = job.state.is_final();
                ix.add(s, job);
            }
        });
        if was_final != now_final
            && let Some(job) = self.jobs.get(&id).cloned()
        {
            let array = outlook != self.index.waits.outlook(&job);
            self.reevaluate_waiters(&job, array);
        }
        Ok(())
    }

    /// Jobs that wait for this one, or with `array` for all of its array, may now be free to
    /// start, or never.
    fn reevaluate_waiters(&mut self, job: &Job, array: bool) {
        let waiters = self.index.waits.on(job, array);
        if waiters.is_empty() {
            return;
        }
        self.with_index(|ix, s| {
            // The tasks of one array wait for the same jobs.
            let mut last: Option<(&Arc<[Dependency]>, Depends)> = None;
            for job in waiters.iter().filter_map(|w| s.jobs.get(w)) {
                let before = match last {
                    Some((same, judged)) if Arc::ptr_eq(same, &job.depends) => judged,
                    _ => ix.waits.evaluate(s, job),
                };
                last = Some((&job.depends, before));
                ix.reevaluate(s, job, before);
            }
        });
    }
}
