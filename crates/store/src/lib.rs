//! The log and its snapshots behind one synchronous trait: SQLite embedded, PostgreSQL.
//!
//! A [`Store`] keeps the log's bodies as opaque bytes. Every row carries a link of a checksum
//! chain, every append is fenced by the leader's epoch inside its own transaction (with PostgreSQL by
//! its name as well), and anything
//! that is missing or altered is an error that names the place, never a shorter answer.
//!
//! Both implementations block. Call them from a thread of their own: the PostgreSQL client runs
//! a small runtime inside and panics when it is driven (or dropped) from an async task.

pub mod seal;

mod archive;
mod chain;
mod error;
mod files;
mod head_file;
mod lines;
mod migrate;
mod postgres;
mod segment;
mod settings;
mod sqlite;
mod tools;
mod types;
mod url;
mod walk;

pub use archive::{
    Archive, ArchiveReader, ArchivedSnapshot, archive_snapshot, archived_snapshots, thin_snapshots,
};
pub use error::StoreError;
pub use head_file::head_path;
pub use muster_supervise::failpoint;
pub use tools::{CopyReport, backup, export, import, restore};
pub use types::{
    AcceptedLoss, ArchiveReport, Batch, CheckReport, DumpHeader, DumpItem, Entry, Head,
    LeaseAnswer, LoadMode, SecretWrite, Snapshot, Store, StoreInfo,
};
pub use url::{StoreUrl, StoreUrlError};

use std::path::Path;

/// Name of the file in a server's data directory that keeps the head of a PostgreSQL log.
pub const HEAD_FILE: &str = "store.head";

/// Opens the store, creating it or bringing its schema up to date. The same store may be open
/// several times at once: one handle for the writer, others for readers.
///
/// The head of a SQLite log is kept a second time in a file beside it, `PATH.head`.
pub fn open(url: &StoreUrl) -> Result<Box<dyn Store>, StoreError> {
    open_with(url, None)
}

/// The same, with the head of a PostgreSQL log kept in the file `head` (see
/// [`Store::verify_head`]).
pub fn open_with_head(url: &StoreUrl, head: &Path) -> Result<Box<dyn Store>, StoreError> {
    open_with(url, Some(head_file::HeadFile::of(url, head)))
}

fn open_with(
    url: &StoreUrl,
    head: Option<head_file::HeadFile>,
) -> Result<Box<dyn Store>, StoreError> {
    Ok(match url {
        StoreUrl::Sqlite(path) => Box::new(sqlite::SqliteStore::open(path)?),
        StoreUrl::Postgres(text) => Box::new(postgres::PostgresStore::open(text, head)?),
    })
}
