//! Output as it comes.

use super::{LogError, LogKeeper, LogPiece};
use muster_link::messages::Stream;
use muster_model::ids::AttemptKey;
use std::collections::{BTreeMap, BTreeSet};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

/// Hints that may wait for a slow reader; after that it looks at every stream.
const HINTS: usize = 256;
/// Most bytes of one piece.
const PIECE: usize = 64 << 10;

/// Follows an attempt's output. Every byte that is kept comes once, in order for each stream;
/// what was dropped is reported. Hints only say where to look: the bytes come from the files.
#[derive(Debug)]
pub struct Follow {
    keeper: LogKeeper,
    key: AttemptKey,
    rank: Option<u32>,
    hints: broadcast::Receiver<(u32, Stream)>,
    at: BTreeMap<(u32, Stream), u64>,
    /// Streams that may have more than was read.
    open: BTreeSet<(u32, Stream)>,
    /// Which streams there are is not known.
    lost: bool,
    /// Pieces have their times.
    timed: bool,
}

impl Follow {
    pub(super) fn new(keeper: LogKeeper, key: AttemptKey, rank: Option<u32>) -> Follow {
        let hints = keeper
            .shared
            .followers()
            .entry(key)
            .or_insert_with(|| broadcast::Sender::new(HINTS))
            .subscribe();
        let (at, open) = (BTreeMap::new(), BTreeSet::new());
        Follow { keeper, key, rank, hints, at, open, lost: true, timed: false }
    }

    /// Goes on from here instead of the beginning.
    pub fn seek(&mut self, rank: u32, stream: Stream, offset: u64) {
        self.at.insert((rank, stream), offset);
    }

    /// Goes on from here where it would begin before it.
    pub fn skip_to(&mut self, rank: u32, stream: Stream, offset: u64) {
        let at = self.at.entry((rank, stream)).or_default();
        *at = offset.max(*at);
    }

    /// Whether pieces have their times.
    pub fn set_timed(&mut self, timed: bool) {
        self.timed = timed;
    }

    fn hint(&mut self, rank: u32, stream: Stream) {
        if self.rank.is_none_or(|r| r == rank) {
            self.open.insert((rank, stream));
        }
    }

    /// The next piece that is there already; `None` when everything kept so far was given.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn ready(&mut self) -> Result<Option<LogPiece>, LogError> {
        loop {
            match self.hints.try_recv() {
                Ok((rank, stream)) => self.hint(rank, stream),
                Err(broadcast::error::TryRecvError::Lagged(_)) => self.lost = true,
                Err(_) => break,
            }
        }
        if self.lost {
            for s in self.keeper.ranks(self.key).await? {
                self.hint(s.rank, s.stream);
            }
            self.lost = false;
        }
        while let Some(&(rank, stream)) = self.open.first() {
            let at = self.at.get(&(rank, stream)).copied().unwrap_or(0);
            let piece =
                self.keeper.read_with(self.key, rank, stream, at, PIECE, self.timed).await?;
            // Remembered only once it is handed over, so that a dropped call loses nothing.
            if piece.data.is_empty() {
                self.open.remove(&(rank, stream));
                if piece.dropped == 0 {
                    continue;
                }
            }
            self.at.insert((rank, stream), piece.next());
            return Ok(Some(piece));
        }
        Ok(None)
    }

    /// The next piece, once there is one. Safe to drop halfway.
    ///
    /// # Errors
    /// When the disk cannot be read.
    pub async fn next(&mut self) -> Result<LogPiece, LogError> {
        loop {
            if let Some(piece) = self.ready().await? {
                return Ok(piece);
            }
            match self.hints.recv().await {
                Ok((rank, stream)) => self.hint(rank, stream),
                Err(RecvError::Lagged(_)) => self.lost = true,
                Err(RecvError::Closed) => return Err(LogError::Stopped),
            }
        }
    }
}

/// The last who follows an attempt takes the way to it along: one that prints nothing more would keep it
/// for ever.
impl Drop for Follow {
    fn drop(&mut self) {
        let none = broadcast::Sender::new(1).subscribe();
        let mut followers = self.keeper.shared.followers();
        // Under the lock: of two who end at once, one is the last.
        drop(std::mem::replace(&mut self.hints, none));
        if followers.get(&self.key).is_some_and(|f| f.receiver_count() == 0) {
            followers.remove(&self.key);
        }
    }
}
