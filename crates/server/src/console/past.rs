//! The site at an earlier moment: the log lived again up to there.
//!
//! Where the last look ended is kept, so that moving forwards costs only what lies between.

use crate::brain::{Brain, BrainError};
use crate::follower::Cursor;
use muster_engine::State;
use muster_model::{Record, Seq, Time};
use std::sync::Arc;

/// Records lived again for one look, at most: some seconds.
const MOST: u64 = 500_000;

/// Why a moment cannot be shown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PastError {
    /// The beginning of the log is in the archive.
    #[error("the beginning of the log is archived: the past cannot be replayed here")]
    Archived,
    /// Too much happened since then.
    #[error("{records} records would have to be replayed, and {MOST} are the most")]
    TooMuch {
        /// Records that would have to be read.
        records: u64,
    },
    /// The log begins later.
    #[error("nothing had happened yet: the log begins later")]
    Before,
    /// A record does not follow from those before it.
    #[error("the log does not add up")]
    Broken,
    /// The log cannot be read now.
    #[error("{0}")]
    Brain(BrainError),
}

/// The site as it was at the moment that was looked at last.
#[derive(Default)]
pub(super) struct PastSite {
    state: Box<State>,
    /// The next record, when it is known to be later than that moment.
    next: Option<Arc<Record>>,
}

impl PastSite {
    /// Does something with the state that takes a while.
    pub(super) async fn with<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, PastError> {
        // Whoever asked may go away meanwhile: then nothing is left, and the next look begins anew.
        let PastSite { state, next } = std::mem::take(self);
        let work = tokio::task::spawn_blocking(move || {
            let out = work(&state);
            (state, out)
        });
        let (state, out) = work.await.map_err(|_| PastError::Broken)?;
        *self = PastSite { state, next };
        Ok(out)
    }

    /// Goes to a moment: all that had happened by then, and nothing after.
    pub(super) async fn go(&mut self, brain: &Brain, time: Time) -> Result<(), PastError> {
        if self.state.at > time {
            *self = PastSite::default();
        }
        let (mut log, end) = (Cursor::new(brain, self.state.seq), brain.durable());
        let mut lived = 0;
        loop {
            if self.next.as_ref().is_some_and(|r| r.at > time) {
                break;
            }
            self.next = None;
            let page = log.next_batch(end).await.map_err(PastError::Brain)?;
            if log.is_cut() {
                return Err(PastError::Archived);
            }
            let Some(page) = page else { break };
            lived += page.len() as u64;
            if lived > MOST {
                return Err(PastError::TooMuch { records: end.0 });
            }
            let state = std::mem::take(&mut self.state);
            let work = tokio::task::spawn_blocking(move || live(state, page, time));
            // What fell over leaves nothing behind: the next look begins anew.
            let (state, next) = work.await.map_err(|_| PastError::Broken)??;
            (self.state, self.next) = (state, next);
        }
        if self.state.seq == Seq(0) { Err(PastError::Before) } else { Ok(()) }
    }
}

type ReplayedState = (Box<State>, Option<Arc<Record>>);

fn live(
    mut state: Box<State>,
    page: Vec<Arc<Record>>,
    until: Time,
) -> Result<ReplayedState, PastError> {
    for record in page {
        if record.at > until {
            return Ok((state, Some(record)));
        }
        state.apply(&record).map_err(|_| PastError::Broken)?;
    }
    Ok((state, None))
}
