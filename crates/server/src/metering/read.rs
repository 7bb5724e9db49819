//! Lives of jobs: from some way back when the server begins, and then as the log grows.

use super::Inner;
use crate::follower::Follower;
use muster_metering::JobHistories;
use muster_model::event::Record;
use muster_model::ids::Seq;
use muster_model::projection::Projection;
use muster_model::units::{Span, Time};
use std::sync::{Arc, PoisonError};
use tokio_util::sync::CancellationToken;

/// Records before the start that are read. Of attempts that were placed before, only what the
/// state keeps is known: a site's whole past would take minutes.
const BACK: u64 = 200_000;
/// Between two looks for what can be forgotten.
const TIDY: Span = Span::secs(5);

/// Lives, and what is forgotten of them when nobody asks for it any more.
pub(super) struct Jobs {
    inner: Arc<Inner>,
    pub(super) lives: JobHistories,
    tidied: Time,
}

pub(super) fn follow(inner: Arc<Inner>, stop: CancellationToken) -> Arc<Follower<Jobs>> {
    let brain = inner.brain.clone();
    let after = Seq(brain.durable().0.saturating_sub(BACK));
    let jobs = Jobs { tidied: inner.since, lives: JobHistories::default(), inner };
    Follower::start("metering-jobs", brain, after, jobs, stop)
}

impl Projection for Jobs {
    fn apply(&mut self, record: &Record) {
        self.lives.apply(record);
    }

    fn begin_anew(&mut self, behind: Seq) -> Seq {
        self.lives = JobHistories::default();
        behind
    }

    fn wake(&mut self, now: Time, _: bool) -> Option<Time> {
        if now.since(self.tidied) >= TIDY {
            self.tidied = now;
            let inner = &self.inner;
            inner.brain.read(|s| {
                let mut attempts = inner.attempts.lock().unwrap_or_else(PoisonError::into_inner);
                attempts.tidy(s);
                drop(attempts);
                inner.recents.lock().unwrap_or_else(PoisonError::into_inner).tidy(s);
            });
        }
        None
    }
}
