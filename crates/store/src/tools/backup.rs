//! A copy of a store that runs, and the way back.

use super::{CopyReport, export, import, marked};
use crate::files::{self, Draft};
use crate::postgres::PostgresStore;
use crate::sqlite::SqliteStore;
use crate::{DumpItem, LoadMode, Store, StoreError, StoreUrl, open};
use std::fs::File;
use std::io::{BufReader, BufWriter, Read};
use std::path::Path;
use std::sync::mpsc::{Receiver, sync_channel};

/// How every SQLite file begins.
const SQLITE_MAGIC: &[u8] = b"SQLite format 3\0";

/// Copies the store, as of one moment and while a server runs on it, into a new file: a SQLite
/// file of a SQLite store, an export of a PostgreSQL one. The copy is verified before it gets its
/// name. It does not hold the key that opens the secrets.
pub fn backup(url: &StoreUrl, path: &Path) -> Result<CopyReport, StoreError> {
    if path.exists() {
        return Err(files::taken(path));
    }
    let draft = Draft::beside(path);
    let report = match url {
        StoreUrl::Sqlite(source) => {
            if !source.is_file() {
                return Err(StoreError::other(format!("there is no store at {url}")));
            }
            draft.create()?;
            let found = SqliteStore::copy(source, draft.path())?;
            if let Some(problem) = found.problems.first() {
                return Err(StoreError::corrupt(
                    format!("the store that was to be backed up, {url}"),
                    format!("{problem} ({} problems in all)", found.problems.len()),
                ));
            }
            let copy = File::open(draft.path()).and_then(|f| f.sync_all());
            copy.map_err(|e| StoreError::io(format!("cannot write {}", path.display()), e))?;
            CopyReport {
                first: found.head.first_seq,
                last: found.head.last_seq,
                entries: found.entries,
                snapshots: found.snapshots,
                payloads: found.payloads,
                secrets: found.secrets,
                archived: found.head.first_seq.0 > 1,
            }
        }
        StoreUrl::Postgres(text) => {
            let mut source = PostgresStore::open_as_is(text)?;
            let mut out = BufWriter::new(draft.create()?);
            let report = export(&mut source, &mut out)?;
            files::finish(out, draft.path())?;
            report
        }
    };
    draft.publish(path)?;
    Ok(report)
}

/// Fills the empty store at `url` from a backup of either kind, or from an export. The lease is
/// free afterwards and the store knows that it was restored (see [`Store::restored`]).
pub fn restore(path: &Path, url: &StoreUrl) -> Result<CopyReport, StoreError> {
    let name = path.display().to_string();
    let cannot = |e| StoreError::io(format!("cannot read the backup {name}"), e);
    let mut file = File::open(path).map_err(cannot)?;
    let mut magic = Vec::new();
    (&mut file).take(SQLITE_MAGIC.len() as u64).read_to_end(&mut magic).map_err(cannot)?;
    if magic == SQLITE_MAGIC {
        return marked(open(url)?.as_mut(), &name, |target| restore_sqlite(path, url, target));
    }
    if magic.first() != Some(&b'{') {
        let detail = match magic.len() {
            0 => "the file is empty",
            _ => "it is neither a SQLite file nor an export",
        };
        return Err(StoreError::bad(name, detail));
    }
    let mut reader = BufReader::new(File::open(path).map_err(cannot)?);
    import::load(&mut reader, &name, open(url)?.as_mut(), LoadMode::Restore)
}

fn restore_sqlite(
    path: &Path,
    url: &StoreUrl,
    target: &mut dyn Store,
) -> Result<CopyReport, StoreError> {
    let name = path.display().to_string();
    // A copy is opened, never the backup itself: opening may migrate it.
    let draft = match url {
        StoreUrl::Sqlite(file) => Draft::beside(&file.with_extension("restoring")),
        StoreUrl::Postgres(_) => Draft::beside(&std::env::temp_dir().join("muster-restoring")),
    };
    let mut copy = draft.create()?;
    File::open(path)
        .and_then(|mut from| std::io::copy(&mut from, &mut copy))
        .map_err(|e| StoreError::io(format!("cannot copy the backup {name}"), e))?;
    drop(copy);
    let damaged = |e| match e {
        StoreError::Corrupt { place, detail } => {
            StoreError::bad(&name, format!("{place}: {detail}"))
        }
        other => other,
    };
    let result = (|| {
        let mut source = SqliteStore::open(draft.path()).map_err(damaged)?;
        let found = source.check().map_err(damaged)?;
        if let Some(problem) = found.problems.first() {
            let detail = format!("{problem} ({} problems in all)", found.problems.len());
            return Err(StoreError::bad(&name, detail));
        }
        pour(&mut source, target, LoadMode::Restore)
    })();
    for side in ["-wal", "-shm"] {
        let mut side_path = draft.path().as_os_str().to_owned();
        side_path.push(side);
        let _ = std::fs::remove_file(side_path);
    }
    result
}

/// What the reading side hands over; `None` says that it came to its end.
type Piece = Option<Result<DumpItem, StoreError>>;

/// Pours one store into another: one thread reads, this one writes.
fn pour(
    from: &mut dyn Store,
    to: &mut dyn Store,
    mode: LoadMode,
) -> Result<CopyReport, StoreError> {
    std::thread::scope(|scope| {
        let (tx, rx) = sync_channel::<Piece>(256);
        scope.spawn(move || {
            let stopped = |_| StoreError::other("the target stopped");
            let done = from.dump(&mut |item| tx.send(Some(Ok(item))).map_err(stopped));
            // A target that failed is not listening any more, and knows why.
            let _ = tx.send(done.err().map(Err));
        });
        let mut report = CopyReport::default();
        let mut items = Pieces { rx, over: false }.inspect(|item| {
            if let Ok(item) = item {
                report.count(item);
            }
        });
        let loaded = to.load(&mut items, mode);
        // Lets the reading side end, in case it still has something to say.
        drop(items);
        loaded.map(|_| report)
    })
}

struct Pieces {
    rx: Receiver<Piece>,
    over: bool,
}

impl Iterator for Pieces {
    type Item = Result<DumpItem, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let piece = self
            .rx
            .recv()
            .unwrap_or_else(|_| Some(Err(StoreError::other("reading the source stopped early"))));
        self.over = !matches!(piece, Some(Ok(_)));
        piece
    }
}
