//! The index of one project, as its one writer sees it.
//!
//! Lines are numbered as they come. The words of some of them in a row form a part, a full-text
//! table of its own: space is made by dropping the oldest part, which costs nothing, while taking
//! single lines out of a full-text table would write most of it anew. A line whose stream is gone
//! is not found any more, and a part without streams is dropped at once.

use crate::lines::{Line, Position};
use crate::{AttemptRef, IndexError, StreamKey, from_sql, to_sql};
use rusqlite::{Connection, OpenFlags, OptionalExtension as _, Transaction, TransactionBehavior};
use rusqlite::{named_params, params};
use std::fs;
use std::os::unix::fs::{OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The format of the files. One of another format is made again.
pub(crate) const FORMAT: i64 = 2;
/// How long a call waits for another handle.
pub(crate) const BUSY: Duration = Duration::from_secs(5);
/// How long emptying the write-ahead log waits for readers: it is tried again later.
const BUSY_LOG: Duration = Duration::from_millis(250);

/// Numbers of streams and parts are never used again: lines of those that are gone may still be there.
const SCHEMA: &str = "
CREATE TABLE stream (
    id INTEGER PRIMARY KEY AUTOINCREMENT, life INTEGER NOT NULL, job INTEGER NOT NULL,
    attempt INTEGER NOT NULL, rank INTEGER NOT NULL, stderr INTEGER NOT NULL,
    next INTEGER NOT NULL, line INTEGER, within INTEGER NOT NULL,
    UNIQUE (life, job, attempt, rank, stderr)) STRICT;
CREATE TABLE line (
    id INTEGER PRIMARY KEY, stream INTEGER NOT NULL, offset INTEGER NOT NULL,
    len INTEGER NOT NULL, number INTEGER, at INTEGER) STRICT;
CREATE TABLE part (
    id INTEGER PRIMARY KEY AUTOINCREMENT, first INTEGER NOT NULL, last INTEGER NOT NULL,
    text INTEGER NOT NULL) STRICT;
CREATE TABLE share (
    part INTEGER NOT NULL, stream INTEGER NOT NULL, PRIMARY KEY (part, stream)) STRICT, WITHOUT ROWID;
";

/// What the index as a whole must know of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct FileFacts {
    /// Its bytes, without its write-ahead log.
    pub(crate) bytes: u64,
    /// Bytes of its write-ahead log.
    pub(crate) log: u64,
    /// When the last line of its oldest part was added; none while it has no part.
    pub(crate) oldest: Option<i64>,
    /// The last number that a line had.
    pub(crate) last_line: u64,
    /// It has streams, with or without lines.
    pub(crate) has_streams: bool,
}

/// A file that SQLite has beside a database.
pub(crate) fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(ending);
    PathBuf::from(name)
}

/// Lets this user alone read a file, made here where it is not: SQLite would let everybody. One that is
/// there is not opened, because closing it would end the locks of those who use it. What is wrong with
/// it is found by whoever opens it.
fn protect(path: &Path) {
    let _ = fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
    for path in [path.to_owned(), beside(path, "-wal"), beside(path, "-shm")] {
        if fs::symlink_metadata(&path).is_ok_and(|m| m.is_file()) {
            let _ = fs::set_permissions(&path, fs::Permissions::from_mode(0o600));
        }
    }
}

/// A project's file, open for writing.
pub(crate) struct ProjectFile {
    conn: Connection,
    path: PathBuf,
}

impl ProjectFile {
    /// Opens a file, or makes it.
    pub(crate) fn open(path: &Path) -> Result<ProjectFile, IndexError> {
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let path = path.to_owned();
        protect(&path);
        let fail = |source| IndexError::Database { path: path.clone(), source };
        let mut conn = Connection::open_with_flags(&path, flags).map_err(fail)?;
        conn.busy_timeout(BUSY).map_err(fail)?;
        // The first must come before anything is written. What the machine forgets when it loses
        // power is made again: the order of writes matters, their end does not.
        conn.execute_batch(
            "PRAGMA auto_vacuum = INCREMENTAL; PRAGMA journal_mode = WAL; PRAGMA synchronous = NORMAL;
             PRAGMA journal_size_limit = 4194304; PRAGMA cell_size_check = ON;
             PRAGMA trusted_schema = OFF;",
        )
        .map_err(fail)?;
        let format: i64 =
            conn.pragma_query_value(None, "user_version", |r| r.get(0)).map_err(fail)?;
        match format {
            FORMAT => {}
            0 => {
                let tx = conn.transaction().map_err(fail)?;
                tx.execute_batch(SCHEMA).map_err(fail)?;
                tx.pragma_update(None, "user_version", FORMAT).map_err(fail)?;
                tx.commit().map_err(fail)?;
            }
            found => return Err(IndexError::Format { path, found }),
        }
        Ok(ProjectFile { conn, path })
    }

    fn run<T>(
        &mut self,
        work: impl FnOnce(&mut Connection) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        work(&mut self.conn)
            .map_err(|source| IndexError::Database { path: self.path.clone(), source })
    }

    /// Changes all that `work` changes, or nothing.
    fn change<T>(
        &mut self,
        work: impl FnOnce(&Transaction<'_>) -> rusqlite::Result<T>,
    ) -> Result<T, IndexError> {
        self.run(|conn| {
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate)?;
            let done = work(&tx)?;
            tx.commit()?;
            Ok(done)
        })
    }

    pub(crate) fn facts(&mut self) -> Result<FileFacts, IndexError> {
        // Where there is no such file, nothing is in it.
        let log = fs::metadata(beside(&self.path, "-wal")).map_or(0, |m| m.len());
        self.run(|conn| {
            let pages: i64 = conn.pragma_query_value(None, "page_count", |r| r.get(0))?;
            let size: i64 = conn.pragma_query_value(None, "page_size", |r| r.get(0))?;
            let one = |sql: &str| {
                conn.query_row(sql, [], |r| r.get::<_, Option<i64>>(0))
                    .map(Option::unwrap_or_default)
            };
            let oldest = "SELECT last FROM part ORDER BY id LIMIT 1";
            Ok(FileFacts {
                bytes: from_sql(pages.saturating_mul(size)),
                log,
                oldest: conn.query_row(oldest, [], |r| r.get(0)).optional()?,
                // A part begins with the number that comes next, also when all lines before it are gone.
                last_line: from_sql(
                    one("SELECT max(id) FROM line")?.max(one("SELECT max(first) - 1 FROM part")?),
                ),
                has_streams: one("SELECT EXISTS (SELECT 1 FROM stream)")? != 0,
            })
        })
    }

    /// How far a stream is indexed; none of one that is not in here.
    pub(crate) fn position(&mut self, key: &StreamKey) -> Result<Option<Position>, IndexError> {
        self.run(|conn| {
            let mut find = conn.prepare_cached(
                "SELECT next, line, within FROM stream WHERE life = ?1 AND job = ?2
                 AND attempt = ?3 AND rank = ?4 AND stderr = ?5",
            )?;
            let StreamKey { attempt: a, rank, is_stderr } = *key;
            find.query_row(
                params![to_sql(a.life), to_sql(a.job), a.attempt, rank, is_stderr],
                |r| {
                    Ok(Position {
                        next: from_sql(r.get(0)?),
                        line: r.get::<_, Option<i64>>(1)?.map(from_sql),
                        within: r.get(2)?,
                    })
                },
            )
            .optional()
        })
    }

    /// Every attempt of which something is in here.
    pub(crate) fn attempts(&mut self) -> Result<Vec<AttemptRef>, IndexError> {
        self.run(|conn| {
            let mut all = conn.prepare("SELECT DISTINCT life, job, attempt FROM stream")?;
            let found = all.query_map([], |r| {
                Ok(AttemptRef {
                    life: from_sql(r.get(0)?),
                    job: from_sql(r.get(1)?),
                    attempt: r.get(2)?,
                })
            })?;
            found.collect()
        })
    }

    /// Adds lines of a stream and how far it is indexed now, in one step. `last` is the last number
    /// that a line of any project had. A part with `part_text` bytes of text is followed by another.
    pub(crate) fn add(
        &mut self,
        key: &StreamKey,
        position: Position,
        lines: &[Line],
        (last, now): (u64, i64),
        part_text: u64,
    ) -> Result<u64, IndexError> {
        self.change(|tx| {
            let stream = put_position(tx, key, position)?;
            if lines.is_empty() {
                return Ok(last);
            }
            let part = open_part(tx, last, now, part_text)?;
            let job = key.attempt.job.to_string();
            let words = format!("INSERT INTO words_{part} (rowid, job, text) VALUES (?1, ?2, ?3)");
            let mut put_words = tx.prepare_cached(&words)?;
            let mut put_line = tx.prepare_cached(
                "INSERT INTO line (id, stream, offset, len, number, at)
                 VALUES (:id, :stream, :offset, :len, :number, :at)",
            )?;
            let (mut id, mut text) = (last, 0);
            for line in lines {
                id += 1;
                put_words.execute(params![to_sql(id), job, line.text])?;
                put_line.execute(named_params! {
                    ":id": to_sql(id), ":stream": stream, ":offset": to_sql(line.offset),
                    ":len": to_sql(line.len as u64), ":number": line.number.map(to_sql), ":at": line.at,
                })?;
                text += line.text.len() as u64;
            }
            let sum = "UPDATE part SET text = text + ?1, last = ?2 WHERE id = ?3";
            tx.execute(sum, params![to_sql(text), now, part])?;
            let share = "INSERT OR IGNORE INTO share (part, stream) VALUES (?1, ?2)";
            tx.execute(share, params![part, stream])?;
            Ok(id)
        })
    }

    /// Takes out a stream, to be indexed anew.
    pub(crate) fn remove_stream(&mut self, key: &StreamKey) -> Result<(), IndexError> {
        let StreamKey { attempt: a, rank, is_stderr } = *key;
        self.remove(
            "life = ?1 AND job = ?2 AND attempt = ?3 AND rank = ?4 AND stderr = ?5",
            params![to_sql(a.life), to_sql(a.job), a.attempt, rank, is_stderr],
        )
    }

    /// Takes out all streams of an attempt.
    pub(crate) fn remove_attempt(&mut self, of: AttemptRef) -> Result<(), IndexError> {
        self.remove(
            "life = ?1 AND job = ?2 AND attempt = ?3",
            params![to_sql(of.life), to_sql(of.job), of.attempt],
        )
    }

    fn remove(&mut self, which: &str, values: &[&dyn rusqlite::ToSql]) -> Result<(), IndexError> {
        self.change(|tx| {
            let shares =
                format!("DELETE FROM share WHERE stream IN (SELECT id FROM stream WHERE {which})");
            tx.execute(&shares, values)?;
            tx.execute(&format!("DELETE FROM stream WHERE {which}"), values)?;
            let empty: Vec<i64> = tx
                .prepare("SELECT id FROM part WHERE id NOT IN (SELECT part FROM share)")?
                .query_map([], |r| r.get(0))?
                .collect::<rusqlite::Result<_>>()?;
            empty.into_iter().try_for_each(|part| drop_part(tx, part))
        })?;
        self.shrink()
    }

    /// Drops the oldest part, where there is one.
    pub(crate) fn drop_oldest(&mut self) -> Result<(), IndexError> {
        self.change(|tx| {
            let oldest = "SELECT id FROM part ORDER BY id LIMIT 1";
            let part: Option<i64> = tx.query_row(oldest, [], |r| r.get(0)).optional()?;
            part.map_or(Ok(()), |part| drop_part(tx, part))
        })?;
        self.shrink()
    }

    /// Writes what is in the write-ahead log to the file, and empties it. Readers of what it was
    /// before keep it from that: it stays as it is, and no error.
    pub(crate) fn empty_log(&mut self) -> Result<(), IndexError> {
        self.run(|conn| {
            conn.busy_timeout(BUSY_LOG)?;
            // The row says whether it was kept from it; how large the log is says it as well.
            let done = conn.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()));
            conn.busy_timeout(BUSY)?;
            done
        })
    }

    /// Gives back what is free in the file.
    fn shrink(&mut self) -> Result<(), IndexError> {
        self.run(|conn| {
            // It frees one page for each row that is asked for.
            let mut vacuum = conn.prepare("PRAGMA incremental_vacuum")?;
            let mut rows = vacuum.query([])?;
            while rows.next()?.is_some() {}
            Ok(())
        })
    }
}

/// Notes how far a stream is indexed; its number in this file.
fn put_position(
    tx: &Transaction<'_>,
    key: &StreamKey,
    position: Position,
) -> rusqlite::Result<i64> {
    let StreamKey { attempt: a, rank, is_stderr } = *key;
    let mut put = tx.prepare_cached(
        "INSERT INTO stream (life, job, attempt, rank, stderr, next, line, within)
         VALUES (:life, :job, :attempt, :rank, :stderr, :next, :line, :within)
         ON CONFLICT (life, job, attempt, rank, stderr) DO UPDATE
         SET next = excluded.next, line = excluded.line, within = excluded.within
         RETURNING id",
    )?;
    put.query_row(
        named_params! {
            ":life": to_sql(a.life), ":job": to_sql(a.job), ":attempt": a.attempt, ":rank": rank,
            ":stderr": is_stderr, ":next": to_sql(position.next),
            ":line": position.line.map(to_sql), ":within": position.within,
        },
        |r| r.get(0),
    )
}

/// The part that takes new lines, begun anew where the last one is full.
fn open_part(tx: &Transaction<'_>, last: u64, now: i64, part_text: u64) -> rusqlite::Result<i64> {
    let newest = "SELECT id, text FROM part ORDER BY id DESC LIMIT 1";
    let newest: Option<(i64, i64)> =
        tx.query_row(newest, [], |r| Ok((r.get(0)?, r.get(1)?))).optional()?;
    if let Some((part, text)) = newest
        && from_sql(text) < part_text
    {
        return Ok(part);
    }
    let first = to_sql(last.saturating_add(1));
    tx.execute("INSERT INTO part (first, last, text) VALUES (?1, ?2, 0)", params![first, now])?;
    let part = tx.last_insert_rowid();
    // Positions of words, for phrases; neither the text nor its length.
    tx.execute_batch(&format!(
        "CREATE VIRTUAL TABLE words_{part} USING fts5
         (job, text, content = '', columnsize = 0, tokenize = 'unicode61')"
    ))?;
    Ok(part)
}

fn drop_part(tx: &Transaction<'_>, part: i64) -> rusqlite::Result<()> {
    // Its lines are those from its first to that of the next part.
    tx.execute(
        "DELETE FROM line WHERE id >= (SELECT first FROM part WHERE id = ?1)
         AND id < ifnull((SELECT min(first) FROM part WHERE id > ?1), 9223372036854775807)",
        [part],
    )?;
    tx.execute("DELETE FROM share WHERE part = ?1", [part])?;
    tx.execute("DELETE FROM part WHERE id = ?1", [part])?;
    tx.execute_batch(&format!("DROP TABLE words_{part}"))
}
