//! The site at an earlier moment: a state of the archive, or the empty one, and the log replayed from
//! there up to that moment.
//!
//! Where the last look ended is stored, so that moving forwards costs only what lies between.

use crate::brain::{Brain, BrainError};
use crate::follower::{PastLog, PastLogError, Restart};
use muster_engine::State;
use muster_model::{Record, Seq, Time};
use std::collections::VecDeque;
use std::sync::Arc;

/// Records replayed for one look, at most: some seconds.
const MOST: u64 = 500_000;

/// Why a moment cannot be shown.
#[derive(Debug, Clone, thiserror::Error)]
pub enum PastError {
    /// What is needed of the log is archived, and not here.
    #[error("the log of that time is archived, and this server's archive does not have all of it")]
    Archived,
    /// Too much happened between the last snapshot before that moment and the moment.
    #[error("more than {MOST} records would have to be replayed since the last snapshot before it")]
    TooMuch,
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

impl From<PastLogError> for PastError {
    fn from(e: PastLogError) -> PastError {
        match e {
            PastLogError::Missing(_) => PastError::Archived,
            PastLogError::Brain(e) => PastError::Brain(e),
            PastLogError::Archive => {
                PastError::Brain(BrainError::Unavailable("the archive cannot be read".into()))
            }
        }
    }
}

/// The site as it was at the moment that was looked at last.
#[derive(Default)]
pub(super) struct PastSite {
    state: Box<State>,
    /// Records that were read and come next. The first one is later than that moment.
    ahead: VecDeque<Arc<Record>>,
    /// The log behind those; none before the first look.
    log: Option<PastLog>,
}

impl PastSite {
    /// Does something with the state that takes a while.
    pub(super) async fn with<R: Send + 'static>(
        &mut self,
        work: impl FnOnce(&State) -> R + Send + 'static,
    ) -> Result<R, PastError> {
        // Whoever asked may go away meanwhile: then nothing is left, and the next look begins anew.
        let PastSite { state, ahead, log } = std::mem::take(self);
        let work = tokio::task::spawn_blocking(move || {
            let out = work(&state);
            (state, out)
        });
        let (state, out) = work.await.map_err(|_| PastError::Broken)?;
        *self = PastSite { state, ahead, log };
        Ok(out)
    }

    /// Goes to a moment: all that had happened by then, and nothing after.
    pub(super) async fn go(&mut self, brain: &Brain, time: Time) -> Result<(), PastError> {
        // What failed, or was given up, leaves nothing: the next look begins anew.
        let mut site = std::mem::take(self);
        if site.state.at > time {
            site = PastSite::default();
        }
        let went = site.go_forwards(brain, time, MOST).await;
        // The next look goes on where too much was left to be replayed.
        if matches!(went, Ok(()) | Err(PastError::TooMuch)) {
            *self = site;
        }
        went?;
        if self.state.seq == Seq(0) { Err(PastError::Before) } else { Ok(()) }
    }

    /// Goes on to a moment that is not earlier, by so many records at most from where it is or the
    /// last snapshot before it.
    async fn go_forwards(&mut self, brain: &Brain, time: Time, most: u64) -> Result<(), PastError> {
        if self.state.seq > Seq(0) && self.ahead.front().is_some_and(|r| r.at > time) {
            return Ok(());
        }
        if let Some(Restart { state, log }) = PastLog::restart(brain, self.state.seq, time).await? {
            *self = PastSite { state, ahead: VecDeque::new(), log: Some(log) };
        }
        let mut log = match self.log.take() {
            Some(log) => log,
            None => PastLog::open(brain, self.state.seq).await?,
        };
        let (end, mut replayed) = (brain.durable(), 0);
        let went = loop {
            let (state, ahead) = (std::mem::take(&mut self.state), std::mem::take(&mut self.ahead));
            let before = state.seq;
            let work = tokio::task::spawn_blocking(move || replay(state, ahead, time));
            (self.state, self.ahead) = work.await.map_err(|_| PastError::Broken)??;
            replayed += self.state.seq.0 - before.0;
            if !self.ahead.is_empty() {
                break Ok(());
            }
            if replayed >= most {
                break Err(PastError::TooMuch);
            }
            let Some(page) = log.next_batch(end).await? else { break Ok(()) };
            self.ahead = page.into();
        };
        self.log = Some(log);
        went
    }
}

type ReplayedState = (Box<State>, VecDeque<Arc<Record>>);

/// Replays the records up to a moment; what is left of them is later.
fn replay(
    mut state: Box<State>,
    mut ahead: VecDeque<Arc<Record>>,
    until: Time,
) -> Result<ReplayedState, PastError> {
    while let Some(record) = ahead.front().filter(|r| r.at <= until) {
        state.apply(record).map_err(|_| PastError::Broken)?;
        ahead.pop_front();
    }
    Ok((state, ahead))
}

#[cfg(test)]
mod tests;
