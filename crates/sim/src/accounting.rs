//! Where the time goes: one page for each job, and one for the fleet.

use muster_model::ids::JobId;
use muster_model::units::{Span, Time};
use muster_simnode::Account;
use std::collections::BTreeMap;

/// Why a running attempt was interrupted.
pub(crate) type InterruptionCause = std::sync::Arc<str>;

/// One job.
#[derive(Debug, Clone)]
pub(crate) struct Page {
    pub(crate) gpus: u64,
    pub(crate) class: &'static str,
    pub(crate) load: f64,
    pub(crate) submitted: Time,
    pub(crate) first_start: Option<Time>,
    pub(crate) ended: Option<Time>,
    pub(crate) succeeded: bool,
    /// Waiting since, when it waits.
    waits: Option<Time>,
    /// Placed since, and with how many GPUs.
    held: Option<(Time, u64)>,
    pub(crate) queued: Span,
    /// Sums in GPU-milliseconds.
    pub(crate) allocated_gpu: u128,
    pub(crate) queued_gpu: u128,
    pub(crate) useful_gpu: u128,
    pub(crate) saving_gpu: u128,
    pub(crate) degraded_gpu: u128,
    /// Useful time of all attempts, and what of it is in the newest checkpoint.
    pub(crate) useful: Span,
    pub(crate) saved: Span,
    /// Time that its ranks were up.
    pub(crate) running: Span,
    pub(crate) interruptions: u32,
    pub(crate) wants: bool,
}

impl Page {
    /// Useful GPU time that was lost again: done but neither saved nor part of the end.
    pub(crate) fn lost_gpu(&self, kept: Span) -> u128 {
        if self.useful.0 == 0 {
            return 0;
        }
        let lost = u128::from(self.useful.0.saturating_sub(kept.0));
        self.useful_gpu * lost / u128::from(self.useful.0)
    }
}

/// A page for each job, and counts over all of them.
#[derive(Debug, Default)]
pub(crate) struct JobAccounting {
    pub(crate) pages: BTreeMap<JobId, Page>,
    pub(crate) interruptions: BTreeMap<InterruptionCause, u64>,
    pub(crate) faults: BTreeMap<InterruptionCause, u64>,
    pub(crate) preemptions: u64,
    pub(crate) migrations: u64,
}

impl JobAccounting {
    pub(crate) fn submitted(
        &mut self,
        job: JobId,
        gpus: u64,
        class: &'static str,
        load: f64,
        at: Time,
    ) {
        let page = Page {
            gpus,
            class,
            load,
            submitted: at,
            first_start: None,
            ended: None,
            succeeded: false,
            waits: Some(at),
            held: None,
            queued: Span(0),
            allocated_gpu: 0,
            queued_gpu: 0,
            useful_gpu: 0,
            saving_gpu: 0,
            degraded_gpu: 0,
            useful: Span(0),
            saved: Span(0),
            running: Span(0),
            interruptions: 0,
            wants: true,
        };
        self.pages.insert(job, page);
    }

    pub(crate) fn placed(&mut self, job: JobId, gpus: u64, at: Time) {
        let Some(p) = self.pages.get_mut(&job) else { return };
        p.first_start.get_or_insert(at);
        if let Some(since) = p.waits.take() {
            let waited = at.since(since);
            p.queued = Span(p.queued.0 + waited.0);
            p.queued_gpu += u128::from(waited.0) * u128::from(p.gpus);
        }
        p.held = Some((at, gpus));
    }

    /// An attempt is over. `stalled`: time of it in which it stood still because it was broken.
    pub(crate) fn attempt_over(
        &mut self,
        job: JobId,
        account: Option<Account>,
        stalled: Span,
        up: Option<Time>,
        at: Time,
    ) {
        let Some(p) = self.pages.get_mut(&job) else { return };
        let Some((since, gpus)) = p.held.take() else { return };
        let gpus = u128::from(gpus);
        p.allocated_gpu += u128::from(at.since(since).0) * gpus;
        if let Some(up) = up {
            p.running = Span(p.running.0 + at.since(up).0);
        }
        if let Some(a) = account {
            p.useful = Span(p.useful.0 + a.useful.0);
            p.useful_gpu += u128::from(a.useful.0) * gpus;
            p.saving_gpu += u128::from(a.saving.0) * gpus;
            p.degraded_gpu += u128::from(a.slowed.0.saturating_sub(stalled.0)) * gpus;
        }
        p.waits = Some(at);
    }

    /// The job wants nothing any more.
    pub(crate) fn ended(&mut self, job: JobId, succeeded: bool, at: Time) {
        let Some(p) = self.pages.get_mut(&job) else { return };
        p.waits = None;
        p.ended = Some(at);
        p.succeeded = succeeded;
        p.wants = false;
        if succeeded {
            // All that counts was done once; the rest was done again.
            p.saved = p.saved.max(Span(0));
        }
    }

    pub(crate) fn interrupted(&mut self, job: JobId, why: &InterruptionCause) {
        if let Some(p) = self.pages.get_mut(&job) {
            p.interruptions += 1;
        }
        *self.interruptions.entry(why.clone()).or_default() += 1;
    }

    /// The scenario ends here for everybody.
    pub(crate) fn close(&mut self, at: Time) {
        for p in self.pages.values_mut() {
            if let Some(since) = p.waits.take() {
                let waited = at.since(since);
                p.queued = Span(p.queued.0 + waited.0);
                p.queued_gpu += u128::from(waited.0) * u128::from(p.gpus);
            }
        }
    }
}

/// GPU time of the fleet that no job held, in GPU-milliseconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Free {
    pub(crate) queued: u128,
    pub(crate) idle: u128,
    pub(crate) spare: u128,
    pub(crate) broken: u128,
    pub(crate) held: u128,
    /// Free on nodes that are partly held.
    pub(crate) broken_up: u128,
}
