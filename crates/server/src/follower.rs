//! The one reader of the log: [`Cursor`] reads a stretch of it, batch by batch; a `Follower` keeps
//! a projection up with its end, and writes down one that is `PersistedProjection`, with its place; `Growth` wakes who
//! looks at the state whenever the log has grown. `PastLog` reads what is archived, too.

mod past_log;
mod persist;

pub(crate) use past_log::{PastLog, PastLogError, Restart};
pub(crate) use persist::PersistedProjection;

use crate::brain::{Brain, BrainError};
use crate::supervise;
use muster_model::event::Record;
use muster_model::ids::Seq;
use muster_model::projection::Projection;
use muster_model::units::Time;
use persist::ProjectionFile;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{MappedMutexGuard, Mutex, MutexGuard, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Records read at a time.
const BATCH: usize = 2048;
/// Between two looks at a log that keeps growing; what comes meanwhile is one look.
const PACE: Duration = Duration::from_millis(50);
/// A log that cannot be read now is tried again after this.
const AGAIN: Duration = Duration::from_millis(500);

/// A place in the log, from which it is read on.
#[derive(Debug)]
pub struct Cursor {
    brain: Brain,
    after: Seq,
    /// Records read at a time.
    most: usize,
    /// Records up to this one were to be read and are archived.
    archived: Option<Seq>,
}

impl Cursor {
    /// Reads on behind a record.
    #[must_use]
    pub fn new(brain: &Brain, after: Seq) -> Cursor {
        Cursor::in_batches(brain, after, BATCH)
    }

    /// The same, at most so many records at a time.
    #[must_use]
    pub fn in_batches(brain: &Brain, after: Seq, most: usize) -> Cursor {
        Cursor { brain: brain.clone(), after, most, archived: None }
    }

    /// Reads on behind the last record up to `end` that was written before a moment, and not before
    /// `least`. No record is older than the one before it, so that it is found by halves. It is cut
    /// where that is the end of what is archived: what is there may be of the time that is wanted.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn seek(
        brain: &Brain,
        time: Time,
        (least, end): (Seq, Seq),
    ) -> Result<Cursor, BrainError> {
        // What is up to `low` is earlier, or archived; what is behind `high` is not earlier.
        let (mut low, mut high, mut archived) = (least.0, end.0, None);
        while low < high {
            let middle = low + (high - low).div_ceil(2);
            match brain.records(Seq(middle - 1), 1).await {
                Ok(found) => match found.first() {
                    Some(record) if record.at < time => low = middle,
                    _ => high = middle - 1,
                },
                Err(BrainError::Archived { behind }) => {
                    low = behind.0.clamp(middle, high);
                    archived = Some(Seq(low));
                }
                Err(e) => return Err(e),
            }
        }
        let mut cursor = Cursor::new(brain, Seq(low));
        cursor.archived = archived.filter(|behind| *behind == cursor.after);
        Ok(cursor)
    }

    /// The records right before this one, oldest first and at most so many; none where the log that is
    /// stored begins.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub async fn before(
        brain: &Brain,
        before: Seq,
        most: usize,
    ) -> Result<Vec<Arc<Record>>, BrainError> {
        let end = Seq(before.0.saturating_sub(1));
        let mut cursor = Cursor::in_batches(brain, Seq(end.0.saturating_sub(most as u64)), most);
        Ok(cursor.next_batch(end).await?.unwrap_or_default())
    }

    /// The record behind which it reads on.
    #[must_use]
    pub fn place(&self) -> Seq {
        self.after
    }

    /// Were records passed over because they are archived?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.archived.is_some()
    }

    /// The last of the records that were passed over because they are archived.
    #[must_use]
    pub fn archived(&self) -> Option<Seq> {
        self.archived
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
            match self.brain.records(self.after, self.most).await {
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

/// Wakes when the log has grown.
pub struct Growth {
    durable: watch::Receiver<Seq>,
    /// Not before this.
    next: Instant,
}

impl Growth {
    pub(crate) fn new(brain: &Brain) -> Growth {
        Growth { durable: brain.watch(), next: Instant::now() }
    }

    /// Waits until the log has grown since it last did. Whoever is cut off while waiting has missed
    /// nothing.
    pub(crate) async fn wait(&mut self) {
        tokio::time::sleep_until(self.next).await;
        // Whoever looks at the brain keeps the other end of this.
        let _ = self.durable.changed().await;
        self.next = Instant::now() + PACE;
    }
}

/// A projection, and up to where the log was read for it.
struct Reading<P> {
    cursor: Cursor,
    projection: P,
    keep: Option<ProjectionFile<P>>,
}

impl<P: Projection> Reading<P> {
    /// Takes the next batch in; false when there is none.
    async fn take_batch(&mut self, end: Seq) -> Result<bool, BrainError> {
        let batch = self.cursor.next_batch(end).await?;
        if let Some(behind) = self.cursor.archived.take() {
            self.cursor.after = self.projection.begin_anew(behind).max(behind);
            return Ok(true);
        }
        for record in batch.iter().flatten() {
            // Noted first: a record at which it panics is not given to it again.
            self.cursor.after = record.seq;
            self.projection.apply(record);
        }
        Ok(batch.is_some())
    }
}

/// Keeps a projection up with the log. One that panics is started again, behind the record at which
/// it did.
pub(crate) struct Follower<P> {
    part: &'static str,
    brain: Brain,
    reading: Mutex<Reading<P>>,
}

impl<P: Projection + Send + 'static> Follower<P> {
    /// Begins to read behind a record, and goes on until `stop`: then it is woken a last time.
    pub(crate) fn start(
        part: &'static str,
        brain: Brain,
        after: Seq,
        projection: P,
        stop: CancellationToken,
    ) -> Arc<Follower<P>> {
        let cursor = Cursor::new(&brain, after);
        Follower::begin(part, brain, Reading { cursor, projection, keep: None }, stop)
    }

    fn begin(
        part: &'static str,
        brain: Brain,
        reading: Reading<P>,
        stop: CancellationToken,
    ) -> Arc<Follower<P>> {
        brain.followed(part, reading.cursor.after);
        let follower = Arc::new(Follower { part, brain, reading: Mutex::new(reading) });
        let runs = follower.clone();
        supervise::task(part, move || runs.clone().run(stop.clone()));
        follower
    }

    /// What was read, after reading on, at most so many batches; and whether that is all there is.
    pub(crate) async fn caught_up(&self, batches: usize) -> (MappedMutexGuard<'_, P>, bool) {
        let mut reading = self.reading.lock().await;
        let read = self.read_on(&mut reading, batches).await;
        (MutexGuard::map(reading, |r| &mut r.projection), read == Some(true))
    }

    /// Takes in at most so many batches. True when nothing is left to be read; none when the log
    /// cannot be read now.
    async fn read_on(&self, reading: &mut Reading<P>, batches: usize) -> Option<bool> {
        let end = self.brain.durable();
        for _ in 0..batches {
            let read = reading.take_batch(end).await.inspect_err(|error| {
                tracing::debug!(part = self.part, %error, "the log cannot be read now");
            });
            if !read.ok()? {
                return Some(true);
            }
            self.brain.followed(self.part, reading.cursor.after);
        }
        Some(reading.cursor.after >= end)
    }

    async fn run(self: Arc<Self>, stop: CancellationToken) {
        let mut growth = Growth::new(&self.brain);
        loop {
            let last = stop.is_cancelled();
            let mut reading = self.reading.lock().await;
            // One batch: whoever asks in between need not wait for the whole log.
            let read = self.read_on(&mut reading, 1).await;
            let now = self.brain.now();
            let wake_at = reading.projection.wake(now, read == Some(true));
            let Reading { projection, keep, .. } = &mut *reading;
            if let Some(keep) = keep {
                keep.save(projection, &self.brain, now, last);
            }
            drop(reading);
            let wait = match read {
                _ if last => return,
                Some(false) => continue,
                Some(true) => wake_at.map(|at| at.since(now).to_std().max(PACE)),
                None => Some(AGAIN),
            };
            tokio::select! {
                () = growth.wait() => {}
                () = tokio::time::sleep(wait.unwrap_or_default()), if wait.is_some() => {}
                () = stop.cancelled() => {}
            }
        }
    }
}

impl<P: PersistedProjection + Send + 'static> Follower<P> {
    /// The same for a projection that is written down in `file` every few minutes and at the end:
    /// begins with what is there and reads on behind that. It begins with nothing where there is no
    /// file, or one of another log.
    pub(crate) fn start_kept(
        part: &'static str,
        brain: Brain,
        file: Option<PathBuf>,
        projection: impl FnOnce(P::Fold) -> P,
        stop: CancellationToken,
    ) -> Arc<Follower<P>> {
        let fold = file.as_deref().and_then(|f| persist::read::<P>(part, &brain, f));
        let fold = fold.unwrap_or_default();
        let after = P::place(&fold);
        let keep = file.map(|f| ProjectionFile::new(f, after, brain.now()));
        let cursor = Cursor::new(&brain, after);
        let reading = Reading { cursor, projection: projection(fold), keep };
        Follower::begin(part, brain, reading, stop)
    }
}

#[cfg(test)]
mod tests;
