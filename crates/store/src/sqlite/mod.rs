//! The embedded store: one SQLite file, in WAL mode, synced at every commit.

mod open_files;
mod rows;
mod schema;

use crate::chain::{Link, linked};
use crate::error::db_int;
use crate::files::parent;
use crate::head_file::{self, HeadFile};
use crate::walk::{self, Fill, Rows};
use crate::{
    AcceptedLoss, ArchiveReport, Batch, CheckReport, DumpHeader, DumpItem, Entry, Head,
    LeaseAnswer, LoadMode, Snapshot, Store, StoreError, StoreInfo, failpoint, migrate, segment,
};
use muster_model::{Epoch, JobId, Seq, Span, Time};
use open_files::OpenFiles;
use rows::{Db, RESTORED};
use rusqlite::backup::{Backup, StepResult};
use rusqlite::{
    Connection, ErrorCode, OpenFlags, OptionalExtension, Transaction, TransactionBehavior, params,
};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// How long a call waits for another handle's write.
const BUSY: Duration = Duration::from_secs(10);

/// A store in a file.
pub(crate) struct SqliteStore {
    conn: Connection,
    path: PathBuf,
    kept: HeadFile,
    files: Arc<OpenFiles>,
    /// The last link this handle wrote or verified: the next append must find it again.
    tail: Option<(Seq, Link)>,
    /// The last link this handle read.
    seen: Option<(Seq, Link)>,
}

/// The lease of an embedded store goes by the time since this machine started, which nobody sets:
/// all who can open the file are on this machine. A lease of an earlier start ends with that start,
/// or within its length. Where the kernel does not report it, by the machine's clock.
fn now() -> Time {
    static LOOKED: Mutex<Option<(Instant, i64)>> = Mutex::new(None);
    let mut looked = LOOKED.lock().unwrap_or_else(PoisonError::into_inner);
    // The kernel is asked once a second: every append looks whether the lease is held.
    if let Some((when, uptime)) = *looked
        && when.elapsed() < Duration::from_secs(1)
    {
        return Time(uptime.saturating_add(millis(when.elapsed())));
    }
    let uptime = uptime_ms().unwrap_or_else(|| {
        millis(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default())
    });
    *looked = Some((Instant::now(), uptime));
    Time(uptime)
}

fn millis(d: Duration) -> i64 {
    i64::try_from(d.as_millis()).unwrap_or(i64::MAX)
}

/// Milliseconds since the machine started, those that it slept included.
fn uptime_ms() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let (whole, part) = text.split_whitespace().next()?.split_once('.')?;
    let hundredths = part.get(..2)?.parse::<i64>().ok()?;
    Some(whole.parse::<i64>().ok()?.checked_mul(1000)? + hundredths * 10)
}

/// What SQLite's error means for the caller.
fn fail(e: rusqlite::Error) -> StoreError {
    let detail = e.to_string();
    match e.sqlite_error_code() {
        Some(ErrorCode::DiskFull) => StoreError::Full { detail },
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => {
            StoreError::corrupt("a page of the file", detail)
        }
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => StoreError::Unavailable {
            detail: format!("another process has the file open ({detail})"),
            outcome_unknown: false,
        },
        Some(ErrorCode::SystemIoFailure) => StoreError::Unavailable {
            detail: format!("the disk failed ({detail}); look into the kernel's log"),
            outcome_unknown: false,
        },
        Some(ErrorCode::ReadOnly | ErrorCode::PermissionDenied | ErrorCode::CannotOpen) => {
            StoreError::Other {
                what: format!(
                    "the store's file cannot be written ({detail}): check its owner, its mode and its directory's"
                ),
                source: Some(Box::new(e)),
            }
        }
        _ => match e {
            // A row with a value of the wrong type: strict tables cannot hold one unless damaged.
            rusqlite::Error::InvalidColumnType(..)
            | rusqlite::Error::FromSqlConversionFailure(..)
            | rusqlite::Error::IntegralValueOutOfRange(..)
            | rusqlite::Error::Utf8Error(..) => StoreError::corrupt("a row", detail),
            e => StoreError::Other {
                what: format!("SQLite refused: {detail}"),
                source: Some(Box::new(e)),
            },
        },
    }
}

/// The same for the moment of commit, when an I/O error leaves the outcome open.
fn fail_commit(e: rusqlite::Error) -> StoreError {
    let disk_failed = e.sqlite_error_code() == Some(ErrorCode::SystemIoFailure);
    match fail(e) {
        StoreError::Unavailable { detail, .. } if disk_failed => {
            StoreError::Unavailable { detail, outcome_unknown: true }
        }
        other => other,
    }
}

impl SqliteStore {
    /// Opens the file, creating it or bringing it up to date.
    pub(crate) fn open(path: &Path) -> Result<SqliteStore, StoreError> {
        let dir = parent(path);
        if !dir.is_dir() {
            return Err(StoreError::other(format!(
                "the directory {} of the store does not exist: create it, or name another with \
                 --store sqlite:PATH",
                dir.display()
            )));
        }
        open_files::create(path)?;
        let conn = Self::connect(path)?;
        if Self::journal(&conn)? != "wal" {
            return Err(StoreError::other(format!(
                "the file system of {} cannot share memory, which SQLite's WAL needs: put the \
                 store on a local disk, or use PostgreSQL",
                path.display()
            )));
        }
        conn.execute_batch(
            "PRAGMA synchronous = FULL; PRAGMA secure_delete = ON; PRAGMA trusted_schema = OFF;
             PRAGMA cell_size_check = ON; PRAGMA wal_autocheckpoint = 4000;",
        )
        .map_err(fail)?;
        conn.set_prepared_statement_cache_capacity(64);
        let kept = HeadFile::beside(path);
        let path = path.to_owned();
        let files = Arc::default();
        let mut store = SqliteStore { conn, path, kept, files, tail: None, seen: None };
        store.migrate()?;
        // Something was read, so all of them are open now.
        store.files = Arc::new(OpenFiles::of(&store.path));
        Ok(store)
    }

    fn connect(path: &Path) -> Result<Connection, StoreError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let conn = Connection::open_with_flags(path, flags).map_err(fail)?;
        conn.busy_timeout(BUSY).map_err(fail)?;
        Ok(conn)
    }

    /// Turns the WAL on and says what the file uses now. Of several that open a new file at one
    /// moment SQLite refuses some at once: each holds a read lock that the others wait for. Those
    /// let go and try again.
    fn journal(conn: &Connection) -> Result<String, StoreError> {
        let deadline = Instant::now() + BUSY;
        loop {
            match conn.query_row("PRAGMA journal_mode = WAL", [], |r| r.get(0)) {
                Err(e)
                    if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                        && Instant::now() < deadline =>
                {
                    std::thread::sleep(Duration::from_millis(5));
                }
                answer => return answer.map_err(fail),
            }
        }
    }

    /// Copies the whole store, as of one moment and beside a running writer, into a new file, and
    /// says what it found there. The source is left at its schema: a server of an older version
    /// may be running on it.
    pub(crate) fn copy(source: &Path, target: &Path) -> Result<CheckReport, StoreError> {
        let head = HeadFile::beside(source);
        let kept = head.read()?;
        let source = Self::connect(source)?;
        let known = migrate::pending(schema::MIGRATIONS, &Self::recorded(&source)?)?;
        if known.len() == schema::MIGRATIONS.len() {
            return Err(StoreError::other("the file to back up is not a store: it has no schema"));
        }
        let mut copy = Connection::open(target).map_err(fail)?;
        {
            let work = Backup::new(&source, &mut copy).map_err(fail)?;
            // All pages in one step: under a steady stream of writes a copy in pieces would start
            // again and again. Readers do not block the writer in WAL mode.
            let deadline = Instant::now() + BUSY;
            loop {
                match work.step(-1).map_err(fail)? {
                    StepResult::Done => break,
                    _ if Instant::now() > deadline => {
                        return Err(StoreError::Unavailable {
                            detail: "another process has the file open".into(),
                            outcome_unknown: false,
                        });
                    }
                    _ => std::thread::sleep(Duration::from_millis(20)),
                }
            }
        }
        // One plain file, without side files.
        let _: String =
            copy.query_row("PRAGMA journal_mode = DELETE", [], |r| r.get(0)).map_err(fail)?;
        let report = check(&copy)?;
        if report.is_ok() {
            head_file::reaches(&mut Db(&copy), kept, head.path())?;
        }
        copy.close().map_err(|(_, e)| fail(e))?;
        Ok(report)
    }

    fn recorded(conn: &Connection) -> Result<Vec<(u32, String)>, StoreError> {
        let there: bool = conn
            .query_row(
                "SELECT count(*) > 0 FROM sqlite_schema WHERE type = 'table' AND name = 'migrations'",
                [],
                |r| r.get(0),
            )
            .map_err(fail)?;
        if !there {
            return Ok(Vec::new());
        }
        let mut q =
            conn.prepare("SELECT version, hash FROM migrations ORDER BY version").map_err(fail)?;
        q.query_map([], |r| Ok((r.get(0)?, r.get(1)?)))
            .map_err(fail)?
            .collect::<Result<_, _>>()
            .map_err(fail)
    }

    fn migrate(&mut self) -> Result<(), StoreError> {
        // Most opens find nothing to do and must not wait for the writer.
        if migrate::pending(schema::MIGRATIONS, &Self::recorded(&self.conn)?)?.is_empty() {
            return Ok(());
        }
        let tx = self.begin()?;
        tx.execute_batch(schema::RECORD).map_err(fail)?;
        for step in migrate::pending(schema::MIGRATIONS, &Self::recorded(&tx)?)? {
            tx.execute_batch(step.sql).map_err(fail)?;
            tx.execute(
                "INSERT INTO migrations VALUES (?1, ?2, ?3, ?4)",
                params![step.version, step.name, step.hash(), now().0],
            )
            .map_err(fail)?;
            tracing::info!(version = step.version, name = step.name, "store schema migrated");
        }
        tx.commit().map_err(fail_commit)?;
        // Into the file at once: whoever opens it without its `-wal` file then finds nothing to
        // migrate, writes nothing, and the `-wal` file can still be put back.
        let _: bool = self
            .conn
            .query_row("PRAGMA wal_checkpoint(PASSIVE)", [], |r| r.get(0))
            .map_err(fail)?;
        Ok(())
    }

    fn begin(&mut self) -> Result<Transaction<'_>, StoreError> {
        self.conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(fail)
    }

    /// The head, if the lease is still of this epoch.
    fn fenced(tx: &Transaction<'_>, epoch: Epoch) -> Result<walk::HeadRow, StoreError> {
        let (head, holder, _) = Db(tx).lease()?;
        if head.epoch != epoch || holder.is_empty() {
            return Err(StoreError::StaleLease { mine: epoch, current: head.epoch });
        }
        Ok(head)
    }
}

/// Everything that is wrong with a file, in one read transaction: a writer beside it does not look
/// like damage.
fn check(conn: &Connection) -> Result<CheckReport, StoreError> {
    let tx = conn.unchecked_transaction().map_err(fail)?;
    let mut problems = Vec::new();
    let said: Result<Vec<String>, _> = tx
        .prepare("PRAGMA integrity_check(50)")
        .and_then(|mut q| q.query_map([], |r| r.get(0))?.collect());
    match said.map_err(fail) {
        Ok(lines) => problems.extend(lines.into_iter().filter(|l| l != "ok")),
        Err(StoreError::Corrupt { place, detail }) => problems.push(format!("{place}: {detail}")),
        Err(e) => return Err(e),
    }
    walk::check(&mut Db(&tx), problems)
}

impl Store for SqliteStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "sqlite",
            url: format!("sqlite:{}", self.path.display()),
            schema: migrate::newest(schema::MIGRATIONS),
        }
    }

    fn head(&mut self) -> Result<Head, StoreError> {
        self.files.verify()?;
        walk::head(&mut Db(&self.conn))
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        let (known, files) = (self.tail, self.files.clone());
        let tx = self.begin()?;
        let head = Self::fenced(&tx, batch.epoch)?;
        let mut db = Db(&tx);
        // The head is not taken at its word: the row it speaks of must say the same.
        let last = match known {
            Some((seq, link)) if seq == head.seq => Some(link),
            _ if head.seq == head.base_seq => Some(head.base_chain),
            _ => db.chain_at(head.seq)?,
        };
        if last != Some(head.chain) {
            return Err(StoreError::corrupt(
                format!("entry {}", head.seq),
                "the last entry and the head of the log disagree",
            ));
        }
        let links = linked(&batch.entries, head.seq, head.chain)?;
        {
            let mut q = tx
                .prepare_cached("INSERT INTO log (seq, at, body, chain) VALUES (?1, ?2, ?3, ?4)")
                .map_err(fail)?;
            for (e, link) in batch.entries.iter().zip(&links) {
                q.execute(params![db_int(e.seq.0)?, e.at.0, e.body, link.as_slice()])
                    .map_err(fail)?;
            }
        }
        let mut tail = (head.seq, head.chain);
        if let (Some(e), Some(link)) = (batch.entries.last(), links.last()) {
            tail = (e.seq, *link);
            tx.prepare_cached("UPDATE head SET seq = ?1, at = ?2, chain = ?3")
                .and_then(|mut q| {
                    let seq = i64::try_from(e.seq.0).unwrap_or(i64::MAX);
                    q.execute(params![seq, e.at.0, link.as_slice()])
                })
                .map_err(fail)?;
        }
        for (job, body) in &batch.payloads {
            db.insert_payload(*job, body)?;
        }
        for job in &batch.unneeded {
            let id = db_int(job.0)?;
            tx.prepare_cached("DELETE FROM payloads WHERE job = ?1")
                .and_then(|mut q| q.execute([id]))
                .map_err(fail)?;
        }
        for s in &batch.secrets {
            match &s.value {
                Some(value) => db.insert_secret(&s.project, &s.name, value)?,
                None => {
                    tx.prepare_cached("DELETE FROM secrets WHERE project = ?1 AND name = ?2")
                        .and_then(|mut q| q.execute(params![s.project, s.name]))
                        .map_err(fail)?;
                }
            }
        }
        failpoint::hit("store.append.before_commit");
        files.verify()?;
        tx.commit().map_err(fail_commit)?;
        failpoint::hit("store.append.after_commit");
        self.tail = Some(tail);
        self.kept.note(tail.0, tail.1);
        Ok(())
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
        walk::read(&mut Db(&self.conn), &mut self.seen, after, limit)
    }

    fn chain_at(&mut self, seq: Seq) -> Result<(Seq, Link), StoreError> {
        walk::chain_at(&mut Db(&self.conn), seq)
    }

    fn latest_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        walk::latest_snapshot(&mut Db(&self.conn))
    }

    fn put_snapshot(&mut self, epoch: Epoch, s: &Snapshot) -> Result<(), StoreError> {
        self.files.verify()?;
        let tx = self.begin()?;
        let head = Self::fenced(&tx, epoch)?;
        walk::snapshot_fits(&head, s)?;
        Db(&tx).insert_snapshot(s)?;
        tx.execute(
            "DELETE FROM snapshots WHERE seq NOT IN \
             (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2)",
            [],
        )
        .map_err(fail)?;
        failpoint::hit("store.snapshot.before_commit");
        tx.commit().map_err(fail_commit)?;
        failpoint::hit("store.snapshot.after_commit");
        Ok(())
    }

    fn archive(
        &mut self,
        epoch: Epoch,
        upto: Seq,
        dir: &Path,
    ) -> Result<ArchiveReport, StoreError> {
        let mut db = Db(&self.conn);
        let (head, holder, _) = db.lease()?;
        if head.epoch != epoch || holder.is_empty() {
            return Err(StoreError::StaleLease { mine: epoch, current: head.epoch });
        }
        let to = segment::limit(&mut db, upto)?.min(head.seq);
        let from = head.base_seq.next();
        if to < from {
            return Ok(ArchiveReport { from, to: head.base_seq, file: None });
        }
        let file = segment::write(&mut db, &head, to, dir)?;
        for (end, link) in segment::pieces(&mut db, from, to)? {
            let tx = self.begin()?;
            Self::fenced(&tx, epoch)?;
            let end = db_int(end.0)?;
            tx.execute("DELETE FROM log WHERE seq <= ?1", [end]).map_err(fail)?;
            tx.execute(
                "UPDATE head SET base_seq = ?1, base_chain = ?2",
                params![end, link.as_slice()],
            )
            .map_err(fail)?;
            tx.commit().map_err(fail_commit)?;
        }
        Ok(ArchiveReport { from, to, file: Some(file) })
    }

    fn acquire_lease(&mut self, holder: &str, ttl: Span) -> Result<LeaseAnswer, StoreError> {
        walk::holder_fits(holder)?;
        self.files.verify()?;
        let tx = self.begin()?;
        let (head, current, expires) = Db(&tx).lease()?;
        if head.held && current != holder {
            let now = now();
            let left = expires.since(now);
            if left > ttl {
                // Of an earlier start of the machine: nobody waits for the clock to come there again.
                tx.execute("UPDATE head SET expires = ?1", [(now + ttl).0]).map_err(fail)?;
                tx.commit().map_err(fail_commit)?;
            }
            return Ok(LeaseAnswer::Held { holder: current, expires_in: left.min(ttl) });
        }
        let epoch = Epoch(head.epoch.0 + 1);
        tx.execute(
            "UPDATE head SET epoch = ?1, holder = ?2, expires = ?3",
            params![db_int(epoch.0)?, holder, (now() + ttl).0],
        )
        .map_err(fail)?;
        tx.commit().map_err(fail_commit)?;
        Ok(LeaseAnswer::Granted(epoch))
    }

    fn renew_lease(&mut self, epoch: Epoch, ttl: Span) -> Result<(), StoreError> {
        self.files.verify()?;
        let tx = self.begin()?;
        Self::fenced(&tx, epoch)?;
        tx.execute("UPDATE head SET expires = ?1", [(now() + ttl).0]).map_err(fail)?;
        tx.commit().map_err(fail_commit)
    }

    fn release_lease(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let tx = self.begin()?;
        Self::fenced(&tx, epoch)?;
        tx.execute("UPDATE head SET holder = '', expires = 0", []).map_err(fail)?;
        tx.commit().map_err(fail_commit)
    }

    fn payload(&mut self, job: JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(id) = i64::try_from(job.0) else { return Ok(None) };
        let mut q = self
            .conn
            .prepare_cached("SELECT body, sum FROM payloads WHERE job = ?1")
            .map_err(fail)?;
        let found: Option<(Vec<u8>, Vec<u8>)> =
            q.query_row([id], |r| Ok((r.get(0)?, r.get(1)?))).optional().map_err(fail)?;
        found.map(|(body, sum)| walk::whole_payload(job, body, &sum)).transpose()
    }

    fn secret(&mut self, project: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        let mut q = self
            .conn
            .prepare_cached("SELECT value, sum FROM secrets WHERE project = ?1 AND name = ?2")
            .map_err(fail)?;
        let found: Option<(Vec<u8>, Vec<u8>)> = q
            .query_row([project, name], |r| Ok((r.get(0)?, r.get(1)?)))
            .optional()
            .map_err(fail)?;
        found.map(|(value, sum)| walk::whole_secret(project, name, value, &sum)).transpose()
    }

    fn check(&mut self) -> Result<CheckReport, StoreError> {
        let mut report = check(&self.conn)?;
        match self.verify_head() {
            Err(StoreError::Lost { detail }) => report.problems.push(detail),
            // What else is wrong was found already.
            Err(StoreError::Corrupt { .. } | StoreError::Unfinished { .. }) | Ok(()) => {}
            Err(e) => return Err(e),
        }
        report.problems.extend(self.kept.problem()?);
        Ok(report)
    }

    fn dump(
        &mut self,
        sink: &mut dyn FnMut(DumpItem) -> Result<(), StoreError>,
    ) -> Result<DumpHeader, StoreError> {
        let tx = self.conn.unchecked_transaction().map_err(fail)?;
        walk::dump(&mut Db(&tx), sink)
    }

    fn load(
        &mut self,
        items: &mut dyn Iterator<Item = Result<DumpItem, StoreError>>,
        mode: LoadMode,
    ) -> Result<DumpHeader, StoreError> {
        let path = self.path.clone();
        let tx = self.begin()?;
        let header = walk::load(&mut Db(&tx), items, mode)?;
        HeadFile::beside(&path).forget()?;
        tx.commit().map_err(fail_commit)?;
        self.kept = HeadFile::beside(&path);
        (self.tail, self.seen) = (None, None);
        Ok(header)
    }

    fn begin_load(&mut self, what: &str) -> Result<Option<String>, StoreError> {
        let tx = self.begin()?;
        let before = walk::begin_load(&mut Db(&tx), what)?;
        tx.commit().map_err(fail_commit)?;
        Ok(before)
    }

    fn cancel_load(&mut self, before: Option<&str>) -> Result<(), StoreError> {
        Db(&self.conn).set_loading(before)
    }

    fn restored(&mut self) -> Result<Option<Seq>, StoreError> {
        let found: Option<String> = self
            .conn
            .query_row("SELECT value FROM meta WHERE key = ?1", [RESTORED], |r| r.get(0))
            .optional()
            .map_err(fail)?;
        found.map(|text| walk::restored_mark(&text)).transpose()
    }

    fn clear_restored(&mut self) -> Result<(), StoreError> {
        self.conn.execute("DELETE FROM meta WHERE key = ?1", [RESTORED]).map_err(fail_commit)?;
        Ok(())
    }

    fn verify_head(&mut self) -> Result<(), StoreError> {
        walk::finished(&mut Db(&self.conn))?;
        // What a restore gave up is known; the head is kept anew from the first append on.
        if self.restored()?.is_some() {
            return Ok(());
        }
        let kept = self.kept.read()?;
        head_file::reaches(&mut Db(&self.conn), kept, self.kept.path())
    }

    fn accept_loss(&mut self) -> Result<Option<AcceptedLoss>, StoreError> {
        let lost = match self.verify_head() {
            Ok(()) => return Ok(None),
            Err(StoreError::Lost { detail }) => detail,
            Err(e) => return Err(e),
        };
        let tx = self.begin()?;
        let left = walk::accept_loss(&mut Db(&tx))?;
        tx.commit().map_err(fail_commit)?;
        // Last: after a crash before it, the mark of a restore says the same.
        self.kept.keep(left.seq, left.chain)?;
        Ok(Some(AcceptedLoss { lost, last_seq: left.seq }))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        let busy: bool = self
            .conn
            .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |r| r.get(0))
            .map_err(fail)?;
        let head = Db(&self.conn).head_row()?;
        self.kept.keep_unless_ahead(head.seq, head.chain)?;
        if busy {
            return Err(StoreError::Unavailable {
                detail: "another process has the file open, so its `-wal` file is still needed"
                    .into(),
                outcome_unknown: false,
            });
        }
        Ok(())
    }
}
