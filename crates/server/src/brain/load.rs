//! From the store to a state: the newest snapshot, then what came after it.

use flate2::read::GzDecoder;
use muster_engine::{ApplyError, SnapshotError, State};
use muster_model::event::{Record, SCHEMA};
use muster_model::ids::Seq;
use muster_store::{Snapshot, Store, StoreError};
use std::io::BufReader;

/// Why a log cannot be lived on.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// The store failed.
    #[error("the store cannot be read")]
    Store(#[from] StoreError),
    /// The snapshot is damaged or from a newer version.
    #[error("the snapshot at record {seq} cannot be used")]
    Snapshot {
        /// The number of the last record in it.
        seq: Seq,
        /// What is wrong with it.
        #[source]
        source: SnapshotError,
    },
    /// The snapshot does not unpack.
    #[error("the snapshot at record {seq} does not unpack")]
    Packed {
        /// The number of the last record in it.
        seq: Seq,
        /// What is wrong with it.
        #[source]
        source: std::io::Error,
    },
    /// A record is of a kind this version does not know: a server like that may not lead.
    #[error("record {seq} cannot be read by this version; upgrade before you start it here")]
    Record {
        /// The record's number.
        seq: Seq,
        /// Why it cannot be read.
        #[source]
        source: serde_json::Error,
    },
    /// A record does not follow.
    #[error("the log does not add up")]
    Apply(#[from] ApplyError),
}

/// Parses a record's bytes.
pub(crate) fn record(seq: Seq, body: &[u8]) -> Result<Record, LoadError> {
    let r = muster_records::read(body).map_err(|source| LoadError::Record { seq, source })?;
    if r.v > SCHEMA {
        let source = serde::de::Error::custom(format!("schema {} is newer than {SCHEMA}", r.v));
        return Err(LoadError::Record { seq, source });
    }
    Ok(r)
}

/// Reads everything after `from` that the store holds, and so verifies it: also what a snapshot
/// stands for, which a start does not need. Returns how far that was.
pub(crate) fn verify(store: &mut dyn Store, from: Seq) -> Result<Seq, StoreError> {
    let mut at = from;
    loop {
        match store.read(at, 4096) {
            Ok(page) => match page.last() {
                Some(e) => at = e.seq,
                None => return Ok(at),
            },
            Err(StoreError::Archived { oldest }) if oldest > at.next() => {
                at = Seq(oldest.0 - 1);
            }
            Err(e) => return Err(e),
        }
    }
}

/// A state, and the snapshot that it began with.
pub(crate) struct LoadedState {
    pub(crate) state: State,
    /// The last record in that snapshot; none where there is no snapshot.
    pub(crate) snapshot: Option<Seq>,
}

/// Loads the whole state.
pub(crate) fn state(store: &mut dyn Store) -> Result<LoadedState, LoadError> {
    let (mut state, snapshot) = match store.latest_snapshot()? {
        Some(s) => (unpack(&s)?, Some(s.seq)),
        None => (State::default(), None),
    };
    loop {
        let page = store.read(state.seq, 4096)?;
        if page.is_empty() {
            return Ok(LoadedState { state, snapshot });
        }
        for e in page {
            state.apply(&record(e.seq, &e.body)?)?;
        }
    }
}

/// The state of a snapshot, read while it is unpacked.
pub(crate) fn unpack(s: &Snapshot) -> Result<State, LoadError> {
    let mut text = BufReader::with_capacity(64 * 1024, GzDecoder::new(&s.body[..]));
    State::read_from(s.format, &mut text).map_err(|e| match e {
        SnapshotError::Io(source) => LoadError::Packed { seq: s.seq, source },
        source => LoadError::Snapshot { seq: s.seq, source },
    })
}
