//! The store of a site with several servers: a PostgreSQL database.

mod append;
mod error;
mod rows;
mod schema;
mod tls;

use crate::chain::{Link, linked};
use crate::error::db_int;
use crate::head_file::{self, HeadFile};
use crate::settings::{self, Settings};
use crate::walk::{self, Fill, HeadRow, Rows};
use crate::{
    AcceptedLoss, ArchiveReport, Batch, CheckReport, DumpHeader, DumpItem, Entry, Head,
    LeaseAnswer, LoadMode, Snapshot, Store, StoreError, StoreInfo, StoreUrl, failpoint, migrate,
    segment,
};
use error::{fail, fail_commit};
use muster_model::{Epoch, JobId, Seq, Span, Time};
use postgres::types::Type;
use postgres::{Client, GenericClient, IsolationLevel, NoTls, Statement, Transaction};
use rows::{Db, RESTORED};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Serialises migrations of all servers that start at once.
const MIGRATION_LOCK: i64 = 0x6d75_7374_6572;

/// A store in a database.
pub(crate) struct PostgresStore {
    settings: Settings,
    tls: Option<tls::Tls>,
    shown: String,
    conn: Option<Conn>,
    /// The head outside the database, where somebody keeps it.
    kept: Option<HeadFile>,
    /// The last link this handle wrote or verified: the next append must find it again.
    tail: Option<(Seq, Link)>,
    /// The last link this handle read.
    seen: Option<(Seq, Link)>,
    /// Whose lease it goes by; unknown: by the epoch alone.
    holder: Option<Arc<str>>,
}

/// A connection and what was prepared on it.
struct Conn {
    client: Client,
    append: Option<Statement>,
    /// When it last answered.
    used: Instant,
}

/// A connection that was idle for so long is asked first whether it is still one: a write on a
/// dead one fails without anybody knowing whether it was done.
const IDLE: Duration = Duration::from_secs(1);
/// How long it may take to say so.
const ALIVE: Duration = Duration::from_secs(5);

impl Conn {
    fn lives(&mut self) -> bool {
        !self.client.is_closed()
            && (self.used.elapsed() < IDLE || self.client.is_valid(ALIVE).is_ok())
    }
}

impl PostgresStore {
    /// Connects, and creates the tables or brings them up to date.
    pub(crate) fn open(url: &str, kept: Option<HeadFile>) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore::new(url)?;
        store.kept = kept;
        store.with(migrate_schema)?;
        Ok(store)
    }

    /// Connects to a store that exists, and leaves its schema as it is: a server of an older
    /// version may be running on it.
    pub(crate) fn open_as_is(url: &str) -> Result<PostgresStore, StoreError> {
        let mut store = PostgresStore::new(url)?;
        let recorded = store.with(recorded)?;
        migrate::pending(schema::MIGRATIONS, &recorded)?;
        if recorded.is_empty() {
            return Err(StoreError::other(format!("there is no store at {}", store.shown)));
        }
        Ok(store)
    }

    fn new(url: &str) -> Result<PostgresStore, StoreError> {
        let shown = StoreUrl::Postgres(url.to_owned()).to_string();
        let settings = settings::parse(url)
            .map_err(|why| StoreError::other(format!("{shown} is not a store: {why}")))?;
        let tls = settings.tls.then(|| tls::Tls::new(settings.root.as_deref())).transpose()?;
        Ok(PostgresStore {
            settings,
            tls,
            shown,
            conn: None,
            kept: None,
            tail: None,
            seen: None,
            holder: None,
        })
    }

    fn connect(&self) -> Result<Conn, StoreError> {
        let mut client = match &self.tls {
            Some(tls) => self.settings.config.connect(tls.clone()),
            None => self.settings.config.connect(NoTls),
        }
        .map_err(fail)?;
        // An acknowledged write must be on disk whatever the server's default; and a frozen
        // leader must not keep the head locked for ever.
        client
            .batch_execute(
                "SELECT set_config('synchronous_commit', 'on', false)
                 WHERE current_setting('synchronous_commit') = 'off';
                 SET lock_timeout = '10s'; SET idle_in_transaction_session_timeout = '15s';
                 SET client_min_messages = warning",
            )
            .map_err(fail)?;
        Ok(Conn { client, append: None, used: Instant::now() })
    }

    /// Runs `work` on the connection, reconnecting first if the last call lost it.
    fn with<T>(
        &mut self,
        work: impl FnOnce(&mut Client) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        self.with_conn(|conn| work(&mut conn.client))
    }

    fn with_conn<T>(
        &mut self,
        work: impl FnOnce(&mut Conn) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let kept = self.conn.take().and_then(|mut conn| conn.lives().then_some(conn));
        let mut conn = match kept {
            Some(conn) => conn,
            None => self.connect()?,
        };
        let result = work(&mut conn);
        conn.used = Instant::now();
        if matches!(result, Err(StoreError::Unavailable { .. })) || conn.client.is_closed() {
            tracing::warn!(store = %self.shown, "the database connection was dropped; the next call reconnects");
        } else {
            self.conn = Some(conn);
        }
        result
    }

    /// Remembers what was just committed.
    fn committed(&mut self, tail: (Seq, Link)) {
        self.tail = Some(tail);
        if let Some(kept) = &mut self.kept {
            kept.note(tail.0, tail.1);
        }
    }

    fn try_append(&mut self, batch: &Batch, tail: (Seq, Link)) -> Result<Appended, StoreError> {
        let links = linked(&batch.entries, tail.0, tail.1)?;
        let next = match (batch.entries.last(), links.last()) {
            (Some(e), Some(link)) => (e.seq, *link),
            _ => tail,
        };
        let mine = self.holder.clone();
        self.with_conn(|conn| {
            if append::append(conn, batch, mine.as_deref(), &tail, &links)? {
                return Ok(Appended::Done(next));
            }
            let found = Db(&mut conn.client).lease()?;
            if !held_by(&found, batch.epoch, mine.as_deref()) {
                return Err(StoreError::StaleLease { mine: batch.epoch, current: found.0.epoch });
            }
            Ok(Appended::HeadIs(found.0))
        })
    }
}

/// What became of an append.
enum Appended {
    /// Committed; this is the new tail.
    Done((Seq, Link)),
    /// The lease is fine and the head is elsewhere than this handle thought.
    HeadIs(HeadRow),
}

/// A database that lost its last writes may have given the same epoch to two: the holder
/// distinguishes them.
fn held_by((head, holder): &(HeadRow, String), epoch: Epoch, mine: Option<&str>) -> bool {
    head.epoch == epoch && !holder.is_empty() && mine.is_none_or(|mine| mine == holder)
}

/// Locks the head for the transaction, if the lease is still of this epoch and this holder.
fn fenced(
    tx: &mut Transaction<'_>,
    epoch: Epoch,
    mine: Option<&str>,
) -> Result<HeadRow, StoreError> {
    let found = Db(tx).lock_head()?;
    if !held_by(&found, epoch, mine) {
        return Err(StoreError::StaleLease { mine: epoch, current: found.0.epoch });
    }
    Ok(found.0)
}

fn recorded(c: &mut impl GenericClient) -> Result<Vec<(u32, String)>, StoreError> {
    let there = c
        .query_typed("SELECT to_regclass('migrations') IS NOT NULL", &[])
        .map_err(fail)?
        .first()
        .is_some_and(|r| r.get(0));
    if !there {
        return Ok(Vec::new());
    }
    let rows = c
        .query_typed("SELECT version, hash FROM migrations ORDER BY version", &[])
        .map_err(fail)?;
    rows.iter()
        .map(|r| {
            let version = u32::try_from(r.get::<_, i32>(0))
                .map_err(|_| StoreError::corrupt("the migrations", "a version is negative"))?;
            Ok((version, r.get(1)))
        })
        .collect()
}

fn migrate_schema(client: &mut Client) -> Result<(), StoreError> {
    if migrate::pending(schema::MIGRATIONS, &recorded(client)?)?.is_empty() {
        return Ok(());
    }
    let mut tx = client.transaction().map_err(fail)?;
    tx.query_typed("SELECT pg_advisory_xact_lock($1)", &[(&MIGRATION_LOCK, Type::INT8)])
        .map_err(fail)?;
    tx.batch_execute(schema::RECORD).map_err(fail)?;
    for step in migrate::pending(schema::MIGRATIONS, &recorded(&mut tx)?)? {
        tx.batch_execute(step.sql).map_err(fail)?;
        let version = i32::try_from(step.version).unwrap_or(i32::MAX);
        tx.execute_typed(
            "INSERT INTO migrations (version, name, hash) VALUES ($1, $2, $3)",
            &[(&version, Type::INT4), (&step.name, Type::TEXT), (&step.hash(), Type::TEXT)],
        )
        .map_err(fail)?;
        tracing::info!(version = step.version, name = step.name, "store schema migrated");
    }
    tx.commit().map_err(fail_commit)
}

/// A length of time as the database takes it.
fn millis(ttl: Span) -> f64 {
    // A lease's length only reaches the database's clock here, it decides nothing in the engine.
    #[allow(clippy::cast_precision_loss)]
    let ms = ttl.0 as f64;
    ms
}

impl Store for PostgresStore {
    fn info(&self) -> StoreInfo {
        StoreInfo {
            kind: "postgres",
            url: self.shown.clone(),
            schema: migrate::newest(schema::MIGRATIONS),
        }
    }

    fn head(&mut self) -> Result<Head, StoreError> {
        self.with(|c| walk::head(&mut Db(c)))
    }

    fn append(&mut self, batch: &Batch) -> Result<(), StoreError> {
        if let Some(tail) = self.tail {
            // A batch that does not follow what this handle knows is looked at afresh.
            if batch.entries.first().is_none_or(|e| e.seq == tail.0.next())
                && let Appended::Done(tail) = self.try_append(batch, tail)?
            {
                self.committed(tail);
                return Ok(());
            }
        }
        self.tail = None;
        let mine = self.holder.clone();
        let tail = self.with(|c| {
            let found = Db(c).lease()?;
            if !held_by(&found, batch.epoch, mine.as_deref()) {
                return Err(StoreError::StaleLease { mine: batch.epoch, current: found.0.epoch });
            }
            let head = found.0;
            // The head is not taken at its word: the row it speaks of must say the same.
            let last = if head.seq == head.base_seq {
                Some(head.base_chain)
            } else {
                Db(c).chain_at(head.seq)?
            };
            if last == Some(head.chain) || Db(c).head_row()?.base_seq != head.base_seq {
                return Ok((head.seq, head.chain));
            }
            Err(StoreError::corrupt(
                format!("entry {}", head.seq),
                "the last entry and the head of the log disagree",
            ))
        })?;
        match self.try_append(batch, tail)? {
            Appended::Done(tail) => {
                self.committed(tail);
                Ok(())
            }
            // Another handle of the same leader wrote in between.
            Appended::HeadIs(head) => Err(StoreError::NotDense {
                expected: head.seq.next(),
                got: batch.entries.first().map_or(head.seq, |e| e.seq),
            }),
        }
    }

    fn read(&mut self, after: Seq, limit: usize) -> Result<Vec<Entry>, StoreError> {
        let mut seen = self.seen;
        let entries = self.with(|c| walk::read(&mut Db(c), &mut seen, after, limit))?;
        self.seen = seen;
        Ok(entries)
    }

    fn chain_at(&mut self, seq: Seq) -> Result<(Seq, Link), StoreError> {
        self.with(|c| walk::chain_at(&mut Db(c), seq))
    }

    fn latest_snapshot(&mut self) -> Result<Option<Snapshot>, StoreError> {
        self.with(|c| walk::latest_snapshot(&mut Db(c)))
    }

    fn put_snapshot(&mut self, epoch: Epoch, s: &Snapshot) -> Result<(), StoreError> {
        let mine = self.holder.clone();
        self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            // The body goes first: the head, which every append needs, is locked only for the end.
            Db(&mut tx).insert_snapshot(s)?;
            let head = fenced(&mut tx, epoch, mine.as_deref())?;
            walk::snapshot_fits(&head, s)?;
            tx.execute_typed(
                "DELETE FROM snapshots WHERE seq NOT IN \
                 (SELECT seq FROM snapshots ORDER BY seq DESC LIMIT 2)",
                &[],
            )
            .map_err(fail)?;
            failpoint::hit("store.snapshot.before_commit");
            tx.commit().map_err(fail_commit)?;
            failpoint::hit("store.snapshot.after_commit");
            Ok(())
        })
    }

    fn archive(
        &mut self,
        epoch: Epoch,
        upto: Seq,
        dir: &Path,
    ) -> Result<ArchiveReport, StoreError> {
        let mine = self.holder.clone();
        self.with(|c| {
            let found = Db(c).lease()?;
            if !held_by(&found, epoch, mine.as_deref()) {
                return Err(StoreError::StaleLease { mine: epoch, current: found.0.epoch });
            }
            let head = found.0;
            let to = segment::limit(&mut Db(c), upto)?.min(head.seq);
            let from = head.base_seq.next();
            if to < from {
                return Ok(ArchiveReport { from, to: head.base_seq, file: None });
            }
            let file = segment::write(&mut Db(c), &head, to, dir)?;
            for (end, link) in segment::pieces(&mut Db(c), from, to)? {
                let mut tx = c.transaction().map_err(fail)?;
                fenced(&mut tx, epoch, mine.as_deref())?;
                let end = db_int(end.0)?;
                tx.execute_typed("DELETE FROM log WHERE seq <= $1", &[(&end, Type::INT8)])
                    .map_err(fail)?;
                tx.execute_typed(
                    "UPDATE head SET base_seq = $1, base_chain = $2",
                    &[(&end, Type::INT8), (&link.as_slice(), Type::BYTEA)],
                )
                .map_err(fail)?;
                tx.commit().map_err(fail_commit)?;
            }
            Ok(ArchiveReport { from, to, file: Some(file) })
        })
    }

    fn clock(&mut self) -> Result<Option<Time>, StoreError> {
        self.with(|c| {
            let ask = "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::int8";
            let rows = c.query_typed(ask, &[]).map_err(fail)?;
            Ok(rows.first().map(|r| Time(r.get::<_, i64>(0))))
        })
    }

    fn acquire_lease(&mut self, holder: &str, ttl: Span) -> Result<LeaseAnswer, StoreError> {
        walk::holder_fits(holder)?;
        let answer = self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            let (head, current) = Db(&mut tx).lock_head()?;
            if head.held && current != holder {
                let rows = tx
                    .query_typed(
                        "SELECT ceil(extract(epoch FROM expires - clock_timestamp()) * 1000)::int8 \
                         FROM head",
                        &[],
                    )
                    .map_err(fail)?;
                let left = rows.first().map_or(0, |r| r.get::<_, i64>(0));
                let expires_in = Span(u64::try_from(left).unwrap_or(0));
                return Ok(LeaseAnswer::Held { holder: current, expires_in });
            }
            let epoch = Epoch(head.epoch.0 + 1);
            tx.execute_typed(
                "UPDATE head SET epoch = $1, holder = $2, \
                 expires = clock_timestamp() + $3 * interval '1 millisecond'",
                &[
                    (&db_int(epoch.0)?, Type::INT8),
                    (&holder, Type::TEXT),
                    (&millis(ttl), Type::FLOAT8),
                ],
            )
            .map_err(fail)?;
            tx.commit().map_err(fail_commit)?;
            Ok(LeaseAnswer::Granted(epoch))
        })?;
        if let LeaseAnswer::Granted(_) = answer {
            self.lead_as(holder);
        }
        Ok(answer)
    }

    fn lead_as(&mut self, holder: &str) {
        self.holder = Some(holder.into());
    }

    fn renew_lease(&mut self, epoch: Epoch, ttl: Span) -> Result<(), StoreError> {
        let mine = self.holder.clone();
        self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            fenced(&mut tx, epoch, mine.as_deref())?;
            tx.execute_typed(
                "UPDATE head SET expires = clock_timestamp() + $1 * interval '1 millisecond'",
                &[(&millis(ttl), Type::FLOAT8)],
            )
            .map_err(fail)?;
            tx.commit().map_err(fail_commit)
        })
    }

    fn release_lease(&mut self, epoch: Epoch) -> Result<(), StoreError> {
        let mine = self.holder.clone();
        self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            fenced(&mut tx, epoch, mine.as_deref())?;
            tx.execute_typed("UPDATE head SET holder = '', expires = '-infinity'", &[])
                .map_err(fail)?;
            tx.commit().map_err(fail_commit)
        })
    }

    fn payload(&mut self, job: JobId) -> Result<Option<Vec<u8>>, StoreError> {
        let Ok(id) = i64::try_from(job.0) else { return Ok(None) };
        self.with(|c| {
            let rows = c
                .query_typed("SELECT body, sum FROM payloads WHERE job = $1", &[(&id, Type::INT8)])
                .map_err(fail)?;
            rows.first().map(|r| walk::whole_payload(job, r.get(0), r.get(1))).transpose()
        })
    }

    fn secret(&mut self, project: &str, name: &str) -> Result<Option<Vec<u8>>, StoreError> {
        self.with(|c| {
            let rows = c
                .query_typed(
                    "SELECT value, sum FROM secrets WHERE project = $1 AND name = $2",
                    &[(&project, Type::TEXT), (&name, Type::TEXT)],
                )
                .map_err(fail)?;
            rows.first().map(|r| walk::whole_secret(project, name, r.get(0), r.get(1))).transpose()
        })
    }

    fn check(&mut self) -> Result<CheckReport, StoreError> {
        let mut report = self.with(|c| {
            let mut tx = c
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()
                .map_err(fail)?;
            walk::check(&mut Db(&mut tx), Vec::new())
        })?;
        match self.verify_head() {
            Err(StoreError::Lost { detail }) => report.problems.push(detail),
            // What else is wrong was found already.
            Err(StoreError::Corrupt { .. } | StoreError::Unfinished { .. }) | Ok(()) => {}
            Err(e) => return Err(e),
        }
        if let Some(kept) = &self.kept {
            report.problems.extend(kept.problem()?);
        }
        Ok(report)
    }

    fn dump(
        &mut self,
        sink: &mut dyn FnMut(DumpItem) -> Result<(), StoreError>,
    ) -> Result<DumpHeader, StoreError> {
        self.with(|c| {
            let mut tx = c
                .build_transaction()
                .isolation_level(IsolationLevel::RepeatableRead)
                .read_only(true)
                .start()
                .map_err(fail)?;
            // The sink may be a slow pipe.
            tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0").map_err(fail)?;
            walk::dump(&mut Db(&mut tx), sink)
        })
    }

    fn load(
        &mut self,
        items: &mut dyn Iterator<Item = Result<DumpItem, StoreError>>,
        mode: LoadMode,
    ) -> Result<DumpHeader, StoreError> {
        (self.tail, self.seen) = (None, None);
        let mut kept = self.kept.take();
        let loaded = self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            tx.batch_execute("SET LOCAL idle_in_transaction_session_timeout = 0").map_err(fail)?;
            Db(&mut tx).lock_head()?;
            let header = walk::load(&mut Db(&mut tx), items, mode)?;
            if let Some(kept) = &mut kept {
                kept.forget()?;
            }
            tx.commit().map_err(fail_commit)?;
            Ok(header)
        });
        self.kept = kept;
        loaded
    }

    fn begin_load(&mut self, what: &str) -> Result<Option<String>, StoreError> {
        self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            Db(&mut tx).lock_head()?;
            let before = walk::begin_load(&mut Db(&mut tx), what)?;
            tx.commit().map_err(fail_commit)?;
            Ok(before)
        })
    }

    fn cancel_load(&mut self, before: Option<&str>) -> Result<(), StoreError> {
        self.with(|c| Db(c).set_loading(before))
    }

    fn restored(&mut self) -> Result<Option<Seq>, StoreError> {
        self.with(|c| {
            let rows = c
                .query_typed("SELECT value FROM meta WHERE key = $1", &[(&RESTORED, Type::TEXT)])
                .map_err(fail)?;
            rows.first().map(|r| walk::restored_mark(r.get(0))).transpose()
        })
    }

    fn clear_restored(&mut self) -> Result<(), StoreError> {
        self.with(|c| {
            c.execute_typed("DELETE FROM meta WHERE key = $1", &[(&RESTORED, Type::TEXT)])
                .map_err(fail_commit)?;
            Ok(())
        })
    }

    fn verify_head(&mut self) -> Result<(), StoreError> {
        self.with(|c| walk::finished(&mut Db(c)))?;
        // What a restore gave up is known; the head is kept anew from the first append on.
        if self.kept.is_none() || self.restored()?.is_some() {
            return Ok(());
        }
        let Some(head) = &self.kept else { return Ok(()) };
        let (kept, path) = (head.read()?, head.path().to_owned());
        self.with(|c| head_file::reaches(&mut Db(c), kept, &path))
    }

    fn accept_loss(&mut self) -> Result<Option<AcceptedLoss>, StoreError> {
        let lost = match self.verify_head() {
            Ok(()) => return Ok(None),
            Err(StoreError::Lost { detail }) => detail,
            Err(e) => return Err(e),
        };
        let left = self.with(|c| {
            let mut tx = c.transaction().map_err(fail)?;
            Db(&mut tx).lock_head()?;
            let left = walk::accept_loss(&mut Db(&mut tx))?;
            tx.commit().map_err(fail_commit)?;
            Ok(left)
        })?;
        self.tail = None;
        if let Some(kept) = &mut self.kept {
            kept.keep(left.seq, left.chain)?;
        }
        Ok(Some(AcceptedLoss { lost, last_seq: left.seq }))
    }

    fn close(&mut self) -> Result<(), StoreError> {
        if self.kept.is_none() {
            return Ok(());
        }
        let head = self.with(|c| Db(c).head_row())?;
        match &mut self.kept {
            Some(kept) => kept.keep_unless_ahead(head.seq, head.chain),
            None => Ok(()),
        }
    }
}
