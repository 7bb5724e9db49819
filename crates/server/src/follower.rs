//! The one reader of the log: [`Cursor`] reads a stretch of it, batch by batch.

use crate::brain::{Brain, BrainError};
use muster_model::event::Record;
use muster_model::ids::Seq;
use std::sync::Arc;

/// Records read at a time.
const BATCH: usize = 2048;

/// A place in the log, from which it is read on.
#[derive(Debug)]
pub struct Cursor {
    brain: Brain,
    after: Seq,
    /// Records up to this one were to be read and are archived.
    archived: Option<Seq>,
}

impl Cursor {
    /// Reads on behind a record.
    #[must_use]
    pub fn new(brain: &Brain, after: Seq) -> Cursor {
        Cursor { brain: brain.clone(), after, archived: None }
    }

    /// The last record that was read.
    #[must_use]
    pub fn after(&self) -> Seq {
        self.after
    }

    /// Were records passed over because they are archived?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.archived.is_some()
    }

    /// The next records, none of them behind `end`; nothing when there are no more. Whoever is cut
    /// off while waiting has missed nothing.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn next_batch(&mut self, end: Seq) -> Result<Option<Vec<Arc<Record>>>, BrainError> {
        while self.after < end {
            // What memory holds is there without waiting: others are to have their turn, too.
            tokio::task::yield_now().await;
            match self.brain.records(self.after, BATCH).await {
                Ok(mut batch) => {
                    let within = batch.partition_point(|r| r.seq <= end);
                    batch.truncate(within);
                    let Some(last) = batch.last() else { break };
                    self.after = last.seq;
                    return Ok(Some(batch));
                }
                Err(BrainError::Archived { behind }) if behind > self.after => {
                    (self.after, self.archived) = (behind, Some(behind));
                }
                Err(e) => return Err(e),
            }
        }
        Ok(None)
    }
}
