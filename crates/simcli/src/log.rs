//! The log of a simulated site, as `muster store import` reads it.

use muster_model::units::{Span, Time};
use muster_model::{Epoch, Seq};
use muster_store::{Batch, Entry, LeaseAnswer, Store, StoreError, StoreUrl};
use muster_terminal::fail::Fail;
use serde::Deserialize;
use std::ffi::OsString;
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Records that are written at once.
const BATCH: usize = 4096;
/// As long as any: nobody else knows the store while it is filled, so that it is not lost when this
/// is over. Appends go by the epoch.
const LEASE: Span = Span::secs(15);

/// A log that is being written. The export's head reports how the log ends, so that the records
/// wait in a store of their own until the end is known.
pub(crate) struct Log {
    file: PathBuf,
    spool: Spool,
    store: Option<Box<dyn Store>>,
    epoch: Epoch,
    batch: Vec<Entry>,
    failed: Option<Fail>,
}

#[derive(Deserialize)]
struct Head {
    seq: Seq,
    at: Time,
}

impl Log {
    /// Begins a log for `file`, which must not exist.
    pub(crate) fn create(file: &Path) -> Result<Log, Fail> {
        if file.exists() {
            return Err(
                Fail::usage(format!("{} exists already", file.display())).hint("name a new file")
            );
        }
        if let Some(dir) = file.parent().filter(|d| !d.as_os_str().is_empty() && !d.is_dir()) {
            return Err(Fail::usage(format!("there is no directory {}", dir.display())));
        }
        let spool = Spool::beside(file);
        let mut store =
            muster_store::open(&StoreUrl::Sqlite(spool.path(""))).map_err(|e| cannot(file, &e))?;
        let epoch = match store.acquire_lease("sim", LEASE).map_err(|e| cannot(file, &e))? {
            LeaseAnswer::Granted(epoch) => epoch,
            LeaseAnswer::Held { holder, .. } => {
                return Err(Fail::failed(format!("{} is in use by {holder}", file.display())));
            }
        };
        let (batch, failed) = (Vec::with_capacity(BATCH), None);
        Ok(Log { file: file.into(), spool, store: Some(store), epoch, batch, failed })
    }

    /// Takes a record. A failure is reported at the end.
    pub(crate) fn record(&mut self, line: &[u8]) {
        if self.failed.is_some() {
            return;
        }
        match serde_json::from_slice(line) {
            Ok(Head { seq, at }) => self.batch.push(Entry { seq, at, body: line.to_vec() }),
            Err(e) => self.failed = Some(cannot(&self.file, &e)),
        }
        if self.batch.len() >= BATCH {
            self.flush();
        }
    }

    fn flush(&mut self) {
        let entries = std::mem::replace(&mut self.batch, Vec::with_capacity(BATCH));
        let batch = Batch { epoch: self.epoch, entries, ..Batch::default() };
        if let Some(store) = &mut self.store
            && let Err(e) = store.append(&batch)
        {
            self.failed = Some(cannot(&self.file, &e));
        }
    }

    /// Writes the file.
    pub(crate) fn finish(mut self) -> Result<(), Fail> {
        self.flush();
        if let Some(f) = self.failed.take() {
            return Err(f);
        }
        let Some(mut store) = self.store.take() else { return Ok(()) };
        let target = muster_terminal::config::private_file(&self.file)
            .map_err(|e| cannot(&self.file, &e))?;
        let mut out = BufWriter::new(target);
        let written: Result<_, StoreError> = muster_store::export(store.as_mut(), &mut out);
        written.map_err(|e| cannot(&self.file, &e))?;
        // A store that is open would write its files again.
        drop(store);
        drop(self.spool);
        out.into_inner()
            .map_err(std::io::IntoInnerError::into_error)
            .and_then(|f| f.sync_all())
            .map_err(|e| cannot(&self.file, &e))
    }
}

fn cannot(file: &Path, e: &dyn std::fmt::Display) -> Fail {
    Fail::failed(format!("cannot write {}: {e}", file.display()))
}

/// The files of the store that the records wait in; gone when it is dropped.
struct Spool {
    base: OsString,
}

impl Spool {
    fn beside(file: &Path) -> Spool {
        let mut base = file.as_os_str().to_owned();
        base.push(format!(".{}.part", std::process::id()));
        Spool { base }
    }

    fn path(&self, ending: &str) -> PathBuf {
        let mut path = self.base.clone();
        path.push(ending);
        path.into()
    }
}

impl Drop for Spool {
    fn drop(&mut self) {
        for ending in ["", "-wal", "-shm", "-journal", ".head"] {
            let _ = std::fs::remove_file(self.path(ending));
        }
    }
}
