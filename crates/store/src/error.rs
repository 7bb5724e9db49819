//! What can go wrong with a store, and how to fix it.

use muster_model::{Epoch, Seq};

/// Why the store did not do what it was asked to.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// There is no room left.
    #[error(
        "the store's disk is full ({detail}): nothing of this write was stored and everything \
         acknowledged before it is safe; free space on that disk, then try again"
    )]
    Full {
        /// What the database said.
        detail: String,
    },
    /// Something stored is missing or altered.
    #[error(
        "the store is damaged at {place}: {detail}; do not write to it: keep a copy of it and \
         restore the newest backup (`muster store restore`)"
    )]
    Corrupt {
        /// Which entry, snapshot or page.
        place: String,
        /// What is wrong with it.
        detail: String,
    },
    /// Entries that were committed are not in the log any more.
    #[error(
        "{detail}; do not write to it: put the file that is missing back (a `-wal` file belongs to \
         its database), or restore the newest backup into an empty store (`muster store restore`); \
         if nothing can be brought back, `muster store accept-loss` lets the site continue without it"
    )]
    Lost {
        /// Which entries, and where it is remembered.
        detail: String,
    },
    /// It was to be filled from a backup or an export, and whoever did so was killed.
    #[error(
        "{what} was to be loaded into this store and that did not come to its end, so nothing of it \
         is here: do it again into the same store (`muster store restore` or `muster store \
         import`), or name a new store to begin a new site"
    )]
    Unfinished {
        /// The backup or the export.
        what: String,
    },
    /// A file of the database is not the one that is open.
    #[error("{detail}")]
    Replaced {
        /// Which file, and what to do.
        detail: String,
    },
    /// Another server leads now, or the lease was given up.
    #[error(
        "the lease of epoch {mine} is no longer held (the current epoch is {current}): another \
         server decides now, or this one gave the lease up; stop deciding and acquire it again"
    )]
    StaleLease {
        /// The caller's fencing token.
        mine: Epoch,
        /// The newest one.
        current: Epoch,
    },
    /// Entries do not follow the log's head.
    #[error(
        "entry {got} does not follow the log, which expects {expected}: reload from the store \
         and decide again"
    )]
    NotDense {
        /// What must come next.
        expected: Seq,
        /// The number of the entry that came.
        got: Seq,
    },
    /// The database cannot be reached or is busy.
    #[error("the store cannot be reached: {detail}; {}", outcome(*outcome_unknown))]
    Unavailable {
        /// What the database said.
        detail: String,
        /// Whether the write may have been committed all the same.
        outcome_unknown: bool,
    },
    /// What is asked for is no longer in the log.
    #[error(
        "the log begins at entry {oldest}, older ones are archived: start from the newest \
         snapshot, or read the archived segments"
    )]
    Archived {
        /// The oldest entry that is left.
        oldest: Seq,
    },
    /// A newer Muster wrote this store.
    #[error(
        "the store has schema {found} and this binary knows up to {known}: run the newer Muster \
         that wrote it, or restore a backup made before the upgrade"
    )]
    NewerSchema {
        /// The store's version.
        found: u32,
        /// The newest this binary knows.
        known: u32,
    },
    /// The schema was not made by the migrations of this binary.
    #[error(
        "migration {version} of the store's schema is not the one this binary has: the store was \
         made by a development version or changed by hand; export it with the binary that made \
         it, and import it into a new store"
    )]
    ChangedSchema {
        /// The number of the migration that differs.
        version: u32,
    },
    /// The target of an import or a restore holds something.
    #[error("the target store is not empty ({detail}): name a new file or an empty database")]
    NotEmpty {
        /// What it holds.
        detail: String,
    },
    /// A dump, an export or a backup that cannot be trusted.
    #[error("{place}: {detail}; nothing was loaded: take another copy of it, or an older backup")]
    BadInput {
        /// The file or line.
        place: String,
        /// What is wrong.
        detail: String,
    },
    /// Anything else; the text says what to do.
    #[error("{what}")]
    Other {
        /// What and how to fix it.
        what: String,
        /// The error below it, where there is one.
        #[source]
        source: Option<Box<dyn std::error::Error + Send + Sync>>,
    },
}

fn outcome(unknown: bool) -> &'static str {
    if unknown {
        "whether the last write was stored is unknown: read the log's head before continuing"
    } else {
        "nothing of this call was written; it may be tried again"
    }
}

impl StoreError {
    /// A failure without a kind of its own; `what` also says how to fix it.
    pub fn other(what: impl Into<String>) -> StoreError {
        StoreError::Other { what: what.into(), source: None }
    }

    pub(crate) fn corrupt(place: impl Into<String>, detail: impl Into<String>) -> StoreError {
        StoreError::Corrupt { place: place.into(), detail: detail.into() }
    }

    pub(crate) fn bad(place: impl Into<String>, detail: impl Into<String>) -> StoreError {
        StoreError::BadInput { place: place.into(), detail: detail.into() }
    }

    pub(crate) fn io(what: impl Into<String>, e: std::io::Error) -> StoreError {
        let what = what.into();
        if e.kind() == std::io::ErrorKind::StorageFull
            || e.kind() == std::io::ErrorKind::QuotaExceeded
        {
            return StoreError::Full { detail: format!("{what}: {e}") };
        }
        StoreError::Other { what: format!("{what}: {e}"), source: Some(Box::new(e)) }
    }
}

/// Database integers are signed; ids above that never occur in a site's life.
pub(crate) fn db_int(n: u64) -> Result<i64, StoreError> {
    i64::try_from(n).map_err(|_| {
        StoreError::other(format!(
            "the number {n} is too large for the store; at most {}",
            i64::MAX
        ))
    })
}

/// And back: a negative one was never written by us.
pub(crate) fn from_db(n: i64, place: &str) -> Result<u64, StoreError> {
    u64::try_from(n).map_err(|_| StoreError::corrupt(place, format!("it has the number {n}")))
}
