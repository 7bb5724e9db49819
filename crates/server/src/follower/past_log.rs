//! The log from any place on: out of the archive where the store does not have it any more. And the
//! snapshot of the archive from which a state of the past is soonest replayed. Files are read on
//! threads for that.

use super::Cursor;
use crate::brain::{Brain, BrainError, read_record, read_snapshot};
use muster_engine::State;
use muster_model::event::Record;
use muster_model::ids::Seq;
use muster_model::units::Time;
use muster_store::{Archive, ArchiveReader, ArchivedSnapshot, StoreError, archived_snapshots};
use std::path::PathBuf;
use std::sync::Arc;

/// Records read at a time.
const BATCH: usize = 2048;
/// Snapshots that are tried for one state: one that is damaged, or of a log that a restore gave up, is
/// passed over.
const TRIED: usize = 8;
/// Records that are sooner replayed than a snapshot is read.
const FEW: u64 = 20_000;

/// Why the log cannot be read from a place on.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PastLogError {
    /// Records are archived, and this server's archive does not have them.
    #[error("records up to {0} are archived and not in this server's archive")]
    Missing(Seq),
    /// The store cannot be read now.
    #[error("{0}")]
    Brain(#[from] BrainError),
    /// What is in the archive cannot be read.
    #[error("the archive cannot be read")]
    Archive,
}

impl From<StoreError> for PastLogError {
    fn from(error: StoreError) -> PastLogError {
        tracing::error!(%error, "the archive cannot be read");
        PastLogError::Archive
    }
}

/// A state that was archived, and the log behind it.
pub(crate) struct Restart {
    pub(crate) state: Box<State>,
    pub(crate) log: PastLog,
}

/// Reads the log on from a place.
pub(crate) struct PastLog {
    brain: Brain,
    /// The record that was read last.
    after: Seq,
    /// What is read first.
    archive: Option<Box<ArchiveReader>>,
}

impl PastLog {
    /// Reads on behind a record.
    pub(crate) async fn open(brain: &Brain, after: Seq) -> Result<PastLog, PastLogError> {
        let found = PastLog::open_at(brain, after, None).await?;
        found.ok_or(PastLogError::Missing(after))
    }

    /// The same; none where the log has another chain at that record.
    async fn open_at(
        brain: &Brain,
        after: Seq,
        chain: Option<[u8; 16]>,
    ) -> Result<Option<PastLog>, PastLogError> {
        let (place, link) = brain.chain_at(after).await?;
        let mut log = PastLog { brain: brain.clone(), after, archive: None };
        let found = if place > after {
            let dir = brain.archive_dir().to_owned();
            let work = move || -> Result<_, PastLogError> {
                let archive = Archive::find(&dir, (place, link), after)?;
                if archive.begins_behind() > after {
                    return Err(PastLogError::Missing(archive.begins_behind()));
                }
                let (reader, link) = archive.reader(after)?;
                Ok((Box::new(reader), link))
            };
            let (reader, link) = blocking(work).await??;
            log.archive = Some(reader);
            Some(link)
        } else {
            (place == after).then_some(link)
        };
        let fits = found.is_some() && (chain.is_none() || chain == found);
        Ok(fits.then_some(log))
    }

    /// The next records, none of them behind `end`; nothing when there are no more.
    pub(crate) async fn next_batch(
        &mut self,
        end: Seq,
    ) -> Result<Option<Vec<Arc<Record>>>, PastLogError> {
        loop {
            if let Some(mut reader) = self.archive.take() {
                let work = move || -> Result<_, PastLogError> {
                    let entries = reader.read(BATCH)?;
                    let records = entries.iter().map(|e| read_record(e.seq, &e.body).map(Arc::new));
                    let page = records.collect::<Result<Vec<_>, _>>().map_err(|error| {
                        tracing::error!(%error, "a record of the archive cannot be read");
                        PastLogError::Archive
                    })?;
                    Ok((reader, page))
                };
                let (reader, page) = blocking(work).await??;
                if let Some(last) = page.last() {
                    (self.after, self.archive) = (last.seq, Some(reader));
                    return Ok(Some(page));
                }
            }
            let mut cursor = Cursor::in_batches(&self.brain, self.after, BATCH);
            let page = cursor.next_batch(end).await?;
            if cursor.is_cut() {
                // They were archived meanwhile.
                *self = PastLog::open(&self.brain, self.after).await?;
                continue;
            }
            if let Some(last) = page.as_ref().and_then(|page| page.last()) {
                self.after = last.seq;
            }
            return Ok(page);
        }
    }

    /// The state of the newest snapshot up to a moment, and the log behind it; none where there is none
    /// that is worth it for whoever has the state after the record `have`.
    pub(crate) async fn restart(
        brain: &Brain,
        have: Seq,
        time: Time,
    ) -> Result<Option<Restart>, PastLogError> {
        let least = if have == Seq(0) { Seq(1) } else { Seq(have.0.saturating_add(FEW)) };
        let dir = brain.archive_dir().to_owned();
        let all = blocking(move || archived_snapshots(&dir)).await??;
        let useful = all.into_iter().rev().filter(|s| s.at <= time && s.seq >= least);
        for snapshot in useful.take(TRIED) {
            let Some((state, chain)) = blocking(move || unpacked(&snapshot)).await? else {
                continue;
            };
            match PastLog::open_at(brain, state.seq, Some(chain)).await {
                Ok(Some(log)) => return Ok(Some(Restart { state, log })),
                Ok(None) => {}
                Err(error @ PastLogError::Brain(_)) => return Err(error),
                // What is needed for older ones is missing, too. From what the caller has it may work.
                Err(PastLogError::Missing(_) | PastLogError::Archive) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// When the oldest record was written from which a state of the past can be replayed; none where
    /// nothing was written.
    pub(crate) async fn begins_at(brain: &Brain) -> Result<Option<Time>, PastLogError> {
        let (place, link) = brain.chain_at(Seq(0)).await?;
        if place == Seq(0) {
            return Ok(brain.records(Seq(0), 1).await?.first().map(|r| r.at));
        }
        let dir: PathBuf = brain.archive_dir().to_owned();
        let work = move || -> Result<Option<Time>, StoreError> {
            let archive = Archive::find(&dir, (place, link), Seq(0))?;
            let begins = archive.begins_behind();
            if begins == Seq(0) {
                let (mut reader, _) = archive.reader(Seq(0))?;
                return Ok(reader.read(1)?.first().map(|e| e.at));
            }
            let all = archived_snapshots(&dir)?;
            Ok(all.iter().find(|s| s.seq >= begins).map(|s| s.at))
        };
        Ok(blocking(work).await??)
    }
}

/// The state of a snapshot, and the chain of the log at its end; none where it is damaged.
fn unpacked(s: &ArchivedSnapshot) -> Option<(Box<State>, [u8; 16])> {
    let (snapshot, chain) = s
        .read()
        .inspect_err(|error| tracing::warn!(%error, "a snapshot of the archive cannot be used"))
        .ok()?;
    let state = read_snapshot(&snapshot)
        .inspect_err(|error| tracing::warn!(%error, "a snapshot of the archive cannot be used"))
        .ok()?;
    // Its file says what is in it.
    ((state.seq, state.at) == (s.seq, s.at)).then(|| (Box::new(state), chain))
}

/// Does something that reads files, on a thread for that.
async fn blocking<R: Send + 'static>(
    work: impl FnOnce() -> R + Send + 'static,
) -> Result<R, PastLogError> {
    tokio::task::spawn_blocking(work).await.map_err(|_| PastLogError::Archive)
}
