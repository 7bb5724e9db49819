//! The rows of a SQLite store, inside or outside a transaction.

use super::{fail, now};
use crate::chain::{self, Link};
use crate::error::{db_int, from_db};
use crate::walk::{Fill, HeadRow, LOADING, PayloadRow, Row, Rows, SecretRow};
use crate::{DumpHeader, Entry, Snapshot, StoreError};
use muster_model::{Epoch, JobId, Seq, Time};
use rusqlite::{Connection, OptionalExtension, params};

/// The key under which a restore leaves its mark.
pub(super) const RESTORED: &str = "restored_at_seq";

/// A connection seen as rows.
pub(super) struct Db<'a>(pub(super) &'a Connection);

fn link(bytes: &[u8], place: &str) -> Result<Link, StoreError> {
    chain::from_bytes(bytes).ok_or_else(|| {
        StoreError::corrupt(place, format!("its checksum has {} bytes", bytes.len()))
    })
}

/// A limit as SQLite takes it.
fn limit(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

impl Db<'_> {
    /// The row, and who holds the lease until when.
    pub(super) fn lease(&self) -> Result<(HeadRow, String, Time), StoreError> {
        let mut q = self
            .0
            .prepare_cached(
                "SELECT base_seq, base_chain, seq, at, chain, epoch, holder, expires FROM head",
            )
            .map_err(fail)?;
        let row = q
            .query_row([], |r| {
                Ok((
                    r.get::<_, i64>(0)?,
                    r.get::<_, Vec<u8>>(1)?,
                    r.get::<_, i64>(2)?,
                    r.get::<_, i64>(3)?,
                    r.get::<_, Vec<u8>>(4)?,
                    r.get::<_, i64>(5)?,
                    r.get::<_, String>(6)?,
                    r.get::<_, i64>(7)?,
                ))
            })
            .optional()
            .map_err(fail)?;
        let place = "the head of the log";
        let (base_seq, base_chain, seq, at, chain, epoch, holder, expires) =
            row.ok_or_else(|| StoreError::corrupt(place, "its row is missing"))?;
        let head = HeadRow {
            base_seq: Seq(from_db(base_seq, place)?),
            base_chain: link(&base_chain, place)?,
            seq: Seq(from_db(seq, place)?),
            at: Time(at),
            chain: link(&chain, place)?,
            epoch: Epoch(from_db(epoch, place)?),
            held: !holder.is_empty() && expires > now().0,
        };
        if head.base_seq > head.seq {
            return Err(StoreError::corrupt(place, "the log begins after its end"));
        }
        Ok((head, holder, Time(expires)))
    }
}

impl Rows for Db<'_> {
    fn head_row(&mut self) -> Result<HeadRow, StoreError> {
        Ok(self.lease()?.0)
    }

    fn bounds(&mut self) -> Result<Option<(Seq, Seq)>, StoreError> {
        // Two subqueries, for SQLite answers min and max from the index only one at a time.
        let mut q = self
            .0
            .prepare_cached("SELECT (SELECT min(seq) FROM log), (SELECT max(seq) FROM log)")
            .map_err(fail)?;
        let (low, high) = q
            .query_row([], |r| Ok((r.get::<_, Option<i64>>(0)?, r.get::<_, Option<i64>>(1)?)))
            .map_err(fail)?;
        let (Some(low), Some(high)) = (low, high) else { return Ok(None) };
        Ok(Some((Seq(from_db(low, "the log")?), Seq(from_db(high, "the log")?))))
    }

    fn rows(&mut self, after: Seq, most: usize) -> Result<Vec<Row>, StoreError> {
        let Ok(after) = i64::try_from(after.0) else { return Ok(Vec::new()) };
        let mut q = self
            .0
            .prepare_cached(
                "SELECT seq, at, body, chain FROM log WHERE seq > ?1 ORDER BY seq LIMIT ?2",
            )
            .map_err(fail)?;
        let mut found = q.query(params![after, limit(most)]).map_err(fail)?;
        let mut rows = Vec::new();
        while let Some(r) = found.next().map_err(fail)? {
            let seq = Seq(from_db(r.get(0).map_err(fail)?, "the log")?);
            let at = Time(r.get(1).map_err(fail)?);
            let body = r.get(2).map_err(fail)?;
            let bytes: Vec<u8> = r.get(3).map_err(fail)?;
            let chain = link(&bytes, &format!("entry {seq}"))?;
            rows.push(Row { entry: Entry { seq, at, body }, chain });
        }
        Ok(rows)
    }

    fn chain_at(&mut self, seq: Seq) -> Result<Option<Link>, StoreError> {
        let Ok(n) = i64::try_from(seq.0) else { return Ok(None) };
        let mut q = self.0.prepare_cached("SELECT chain FROM log WHERE seq = ?1").map_err(fail)?;
        let found: Option<Vec<u8>> = q.query_row([n], |r| r.get(0)).optional().map_err(fail)?;
        found.map(|bytes| link(&bytes, &format!("entry {seq}"))).transpose()
    }

    fn snapshot_seqs(&mut self) -> Result<Vec<Seq>, StoreError> {
        let mut q =
            self.0.prepare_cached("SELECT seq FROM snapshots ORDER BY seq DESC").map_err(fail)?;
        let found: Vec<i64> =
            q.query_map([], |r| r.get(0)).map_err(fail)?.collect::<Result<_, _>>().map_err(fail)?;
        found.into_iter().map(|n| Ok(Seq(from_db(n, "a snapshot")?))).collect()
    }

    fn snapshot_row(&mut self, seq: Seq) -> Result<Option<(Snapshot, Vec<u8>)>, StoreError> {
        let mut q = self
            .0
            .prepare_cached("SELECT at, format, body, sum FROM snapshots WHERE seq = ?1")
            .map_err(fail)?;
        q.query_row([db_int(seq.0)?], |r| {
            let s = Snapshot { seq, at: Time(r.get(0)?), format: r.get(1)?, body: r.get(2)? };
            Ok((s, r.get(3)?))
        })
        .optional()
        .map_err(fail)
    }

    fn payload_rows(&mut self, after: i64, most: usize) -> Result<Vec<PayloadRow>, StoreError> {
        let mut q = self
            .0
            .prepare_cached(
                "SELECT job, body, sum FROM payloads WHERE job > ?1 ORDER BY job LIMIT ?2",
            )
            .map_err(fail)?;
        let mut found = q.query(params![after, limit(most)]).map_err(fail)?;
        let mut rows = Vec::new();
        while let Some(r) = found.next().map_err(fail)? {
            let job = JobId(from_db(r.get(0).map_err(fail)?, "a payload")?);
            rows.push((job, r.get(1).map_err(fail)?, r.get(2).map_err(fail)?));
        }
        Ok(rows)
    }

    fn secret_rows(&mut self) -> Result<Vec<SecretRow>, StoreError> {
        let mut q = self
            .0
            .prepare_cached("SELECT project, name, value, sum FROM secrets ORDER BY project, name")
            .map_err(fail)?;
        q.query_map([], |r| {
            Ok(SecretRow { project: r.get(0)?, name: r.get(1)?, value: r.get(2)?, sum: r.get(3)? })
        })
        .map_err(fail)?
        .collect::<Result<_, _>>()
        .map_err(fail)
    }

    fn loading(&mut self) -> Result<Option<String>, StoreError> {
        self.0
            .query_row("SELECT value FROM meta WHERE key = ?1", [LOADING], |r| r.get(0))
            .optional()
            .map_err(fail)
    }
}

impl Fill for Db<'_> {
    fn insert_rows(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        let mut q = self
            .0
            .prepare_cached("INSERT INTO log (seq, at, body, chain) VALUES (?1, ?2, ?3, ?4)")
            .map_err(fail)?;
        for row in rows {
            let e = &row.entry;
            q.execute(params![db_int(e.seq.0)?, e.at.0, e.body, row.chain.as_slice()])
                .map_err(fail)?;
        }
        Ok(())
    }

    fn insert_snapshot(&mut self, s: &Snapshot) -> Result<(), StoreError> {
        self.0
            .prepare_cached("INSERT OR REPLACE INTO snapshots VALUES (?1, ?2, ?3, ?4, ?5)")
            .and_then(|mut q| {
                let sum = chain::of_snapshot(s);
                let seq = i64::try_from(s.seq.0).unwrap_or(i64::MAX);
                q.execute(params![seq, s.at.0, s.format, s.body, sum.as_slice()])
            })
            .map_err(fail)?;
        Ok(())
    }

    fn insert_payload(&mut self, job: JobId, body: &[u8]) -> Result<(), StoreError> {
        let id = db_int(job.0)?;
        self.0
            .prepare_cached("INSERT OR REPLACE INTO payloads VALUES (?1, ?2, ?3)")
            .and_then(|mut q| q.execute(params![id, body, chain::of_payload(job, body).as_slice()]))
            .map_err(fail)?;
        Ok(())
    }

    fn insert_secret(&mut self, project: &str, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.0
            .prepare_cached("INSERT OR REPLACE INTO secrets VALUES (?1, ?2, ?3, ?4)")
            .and_then(|mut q| {
                let sum = chain::of_secret(project, name, value);
                q.execute(params![project, name, value, sum.as_slice()])
            })
            .map_err(fail)?;
        Ok(())
    }

    fn set_head(&mut self, h: &DumpHeader) -> Result<(), StoreError> {
        self.0
            .execute(
                "UPDATE head SET base_seq = ?1, base_chain = ?2, seq = ?3, at = ?4, chain = ?5, \
                 epoch = ?6, holder = '', expires = 0",
                params![
                    db_int(h.base_seq.0)?,
                    h.base_chain.as_slice(),
                    db_int(h.last_seq.0)?,
                    h.last_at.0,
                    h.last_chain.as_slice(),
                    db_int(h.epoch.0)?
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn set_restored(&mut self, at: Seq) -> Result<(), StoreError> {
        self.0
            .execute(
                "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
                params![RESTORED, at.0.to_string()],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn set_loading(&mut self, what: Option<&str>) -> Result<(), StoreError> {
        match what {
            Some(what) => self.0.execute(
                "INSERT OR REPLACE INTO meta (key, value) VALUES (?1, ?2)",
                params![LOADING, what],
            ),
            None => self.0.execute("DELETE FROM meta WHERE key = ?1", [LOADING]),
        }
        .map_err(fail)?;
        Ok(())
    }
}
