//! Searching a project's file, while its writer goes on.

use crate::file::{BUSY, FORMAT};
use crate::index::path_of;
use crate::query::Query;
use crate::{AttemptRef, IndexError, StreamKey, from_sql, to_sql};
use rusqlite::{Connection, OpenFlags, Row, params};
use std::path::Path;
use std::time::Instant;

/// Most lines with the words that one search looks at: it goes on with the next page.
const SCANNED: usize = 50_000;

/// What is searched for.
#[derive(Debug, Clone, Copy)]
pub struct SearchRequest<'a> {
    /// The words.
    pub query: &'a Query,
    /// Only in this job's output.
    pub job: Option<u64>,
    /// Not in lines that are known to be older: milliseconds since 1970.
    pub since: Option<i64>,
    /// Only lines before this one.
    pub below: Option<u64>,
    /// At most so many.
    pub limit: usize,
    /// From then on only what was begun is looked at to its end; the rest is for the next page.
    pub until: Option<Instant>,
}

/// A line that has the words.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MatchedLine {
    /// Its number in the index: larger ones came later, in all projects.
    pub id: u64,
    /// Whose output it is.
    pub stream: StreamKey,
    /// Offset of its first byte.
    pub offset: u64,
    /// Its bytes.
    pub len: u64,
    /// Counts from 1 in its stream, where it is known.
    pub number: Option<u64>,
    /// When its first byte came, where it is known: milliseconds since 1970.
    pub at: Option<i64>,
}

/// Some of the lines that have the words, the newest first.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SearchResults {
    /// The lines.
    pub lines: Vec<MatchedLine>,
    /// What is before this one was not looked at; none when everything was.
    pub floor: Option<u64>,
}

/// Searches the file of a project. Reads from a disk: not on a thread that answers requests.
///
/// # Errors
/// When the file cannot be used.
pub fn find(
    dir: &Path,
    project: &str,
    wanted: &SearchRequest<'_>,
) -> Result<SearchResults, IndexError> {
    let path = path_of(dir, project);
    if !path.exists() {
        return Ok(SearchResults::default());
    }
    search(&path, wanted, SCANNED).map_err(|source| IndexError::Database { path, source })
}

/// The newest line of a project below another one, or of all, whatever its words; none where there is
/// none. Costs little. Reads from a disk: not on a thread that answers requests.
///
/// # Errors
/// When the file cannot be used.
pub fn newest(dir: &Path, project: &str, below: Option<u64>) -> Result<Option<u64>, IndexError> {
    let path = path_of(dir, project);
    if !path.exists() {
        return Ok(None);
    }
    newest_line(&path, below).map_err(|source| IndexError::Database { path, source })
}

fn newest_line(path: &Path, below: Option<u64>) -> rusqlite::Result<Option<u64>> {
    let conn = open_reader(path)?;
    if !is_made(&conn)? {
        return Ok(None);
    }
    let sql = "SELECT max(id) FROM line WHERE id < ?1";
    let id: Option<i64> = conn.query_row(sql, [below.map_or(i64::MAX, to_sql)], |r| r.get(0))?;
    Ok(id.map(from_sql))
}

fn open_reader(path: &Path) -> rusqlite::Result<Connection> {
    // A reader of a file with a write-ahead log writes the memory that both share.
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = Connection::open_with_flags(path, flags)?;
    conn.busy_timeout(BUSY)?;
    conn.execute_batch("PRAGMA query_only = ON; PRAGMA trusted_schema = OFF;")?;
    Ok(conn)
}

/// False while the file is being made.
fn is_made(conn: &Connection) -> rusqlite::Result<bool> {
    let format: i64 = conn.pragma_query_value(None, "user_version", |r| r.get(0))?;
    Ok(format == FORMAT)
}

fn search(path: &Path, wanted: &SearchRequest<'_>, most: usize) -> rusqlite::Result<SearchResults> {
    let conn = open_reader(path)?;
    // One state of the file for the whole search: parts come and go.
    let view = conn.unchecked_transaction()?;
    if !is_made(&view)? {
        return Ok(SearchResults::default());
    }
    let parts: Vec<(i64, i64)> = view
        .prepare("SELECT id, first FROM part ORDER BY id DESC")?
        .query_map([], |r| Ok((r.get(0)?, r.get(1)?)))?
        .collect::<rusqlite::Result<_>>()?;
    let oldest = parts.last().map_or(0, |(_, first)| *first);
    let expression = wanted.query.expression(wanted.job);
    let below = wanted.below.map_or(i64::MAX, to_sql);
    let mut found = SearchResults::default();
    let mut scanned = 0;
    for (part, first) in parts.into_iter().filter(|(_, first)| *first < below) {
        let mut matches = view.prepare(&format!(
            "SELECT words_{part}.rowid, s.life, s.job, s.attempt, s.rank, s.stderr,
                    l.offset, l.len, l.number, l.at
             FROM words_{part}
             LEFT JOIN line AS l ON l.id = words_{part}.rowid
             LEFT JOIN stream AS s ON s.id = l.stream
             WHERE words_{part} MATCH ?1 AND words_{part}.rowid < ?2
             ORDER BY words_{part}.rowid DESC"
        ))?;
        let mut rows = matches.query(params![expression, below])?;
        while let Some(row) = rows.next()? {
            let id = from_sql(row.get(0)?);
            scanned += 1;
            // The line may be of a stream that is gone.
            if let Some(line) = found_line(id, row)?
                && !is_older(&line, wanted.since)
            {
                found.lines.push(line);
            }
            if scanned >= most || found.lines.len() >= wanted.limit {
                found.floor = Some(id);
                return Ok(found);
            }
        }
        // At least one part is looked at, so that every page comes further.
        if wanted.until.is_some_and(|until| Instant::now() >= until) && first > oldest {
            found.floor = Some(from_sql(first));
            return Ok(found);
        }
    }
    Ok(found)
}

fn is_older(line: &MatchedLine, since: Option<i64>) -> bool {
    since.is_some_and(|since| line.at.is_some_and(|at| at < since))
}

fn found_line(id: u64, row: &Row<'_>) -> rusqlite::Result<Option<MatchedLine>> {
    let Some(life) = row.get::<_, Option<i64>>(1)? else { return Ok(None) };
    let attempt =
        AttemptRef { life: from_sql(life), job: from_sql(row.get(2)?), attempt: row.get(3)? };
    Ok(Some(MatchedLine {
        id,
        stream: StreamKey { attempt, rank: row.get(4)?, is_stderr: row.get(5)? },
        offset: from_sql(row.get(6)?),
        len: from_sql(row.get(7)?),
        number: row.get::<_, Option<i64>>(8)?.map(from_sql),
        at: row.get(9)?,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::OutputIndex;
    use crate::index::tests::{add, stream};

    #[test]
    fn a_search_that_took_too_long_ends_with_a_part_and_the_next_page_goes_on() {
        let d = tempfile::tempdir().unwrap();
        // Parts are small in a small index.
        let mut index = OutputIndex::open(d.path(), 1 << 20).unwrap();
        for n in 0..3 {
            let many: String = (0..5000).map(|i| format!("same {i} words of {n}\n")).collect();
            add(&mut index, "alpha", stream(n), &many);
        }
        drop(index);
        let query = Query::parse("words 7 same").unwrap();
        let until = Some(Instant::now());
        let (mut below, mut pages, mut seen) = (None, 0, Vec::new());
        loop {
            let wanted =
                SearchRequest { query: &query, job: None, since: None, below, limit: 100, until };
            let found = search(&path_of(d.path(), "alpha"), &wanted, SCANNED).unwrap();
            seen.extend(found.lines.iter().map(|l| l.stream.attempt.job));
            pages += 1;
            below = found.floor;
            if below.is_none() {
                break;
            }
        }
        assert!(pages > 1, "{pages}");
        seen.dedup();
        assert!(seen.is_sorted_by(|a, b| a > b) && seen.contains(&2), "{seen:?}");
    }

    #[test]
    fn a_search_that_looked_at_enough_says_where_to_go_on() {
        let d = tempfile::tempdir().unwrap();
        let mut index = OutputIndex::open(d.path(), 1 << 30).unwrap();
        for n in 0..10 {
            add(&mut index, "alpha", stream(n), "same words\n");
        }
        drop(index);
        let query = Query::parse("same").unwrap();
        let mut below = None;
        let mut seen = Vec::new();
        loop {
            let wanted = SearchRequest {
                query: &query,
                job: None,
                since: None,
                below,
                limit: 100,
                until: None,
            };
            let found = search(&path_of(d.path(), "alpha"), &wanted, 3).unwrap();
            seen.extend(found.lines.iter().map(|l| l.stream.attempt.job));
            below = found.floor;
            if below.is_none() {
                break;
            }
        }
        assert_eq!(seen, (0..10).rev().collect::<Vec<_>>());
    }
}
