//! The rows of a PostgreSQL store, inside or outside a transaction.

use super::error::fail;
use crate::chain::{self, Link};
use crate::error::{db_int, from_db};
use crate::walk::{Fill, HeadRow, LOADING, PayloadRow, Row, Rows, SecretRow};
use crate::{DumpHeader, Entry, Snapshot, StoreError};
use muster_model::{Epoch, JobId, Seq, Time};
use postgres::GenericClient;
use postgres::types::Type;

/// The key under which a restore leaves its mark.
pub(super) const RESTORED: &str = "restored_at_seq";

/// The columns that [`head_of`] reads.
pub(super) const HEAD: &str = "base_seq, base_chain, seq, at, chain, epoch, \
    (holder <> '' AND expires > clock_timestamp()) AS held, holder";

/// A connection or a transaction seen as rows.
pub(super) struct Db<'a, C>(pub(super) &'a mut C);

fn link(bytes: &[u8], place: &str) -> Result<Link, StoreError> {
    chain::from_bytes(bytes).ok_or_else(|| {
        StoreError::corrupt(place, format!("its checksum has {} bytes", bytes.len()))
    })
}

fn limit(n: usize) -> i64 {
    i64::try_from(n).unwrap_or(i64::MAX)
}

/// The head, and who holds the lease.
pub(super) fn head_of(row: Option<postgres::Row>) -> Result<(HeadRow, String), StoreError> {
    let place = "the head of the log";
    let r = row.ok_or_else(|| StoreError::corrupt(place, "its row is missing"))?;
    let head = HeadRow {
        base_seq: Seq(from_db(r.get(0), place)?),
        base_chain: link(r.get(1), place)?,
        seq: Seq(from_db(r.get(2), place)?),
        at: Time(r.get(3)),
        chain: link(r.get(4), place)?,
        epoch: Epoch(from_db(r.get(5), place)?),
        held: r.get(6),
    };
    if head.base_seq > head.seq {
        return Err(StoreError::corrupt(place, "the log begins after its end"));
    }
    Ok((head, r.get(7)))
}

impl<C: GenericClient> Db<'_, C> {
    /// The head and the holder, locked until the transaction ends.
    pub(super) fn lock_head(&mut self) -> Result<(HeadRow, String), StoreError> {
        let sql = format!("SELECT {HEAD} FROM head FOR UPDATE");
        head_of(self.0.query_typed(&sql, &[]).map_err(fail)?.into_iter().next())
    }

    /// The head and the holder.
    pub(super) fn lease(&mut self) -> Result<(HeadRow, String), StoreError> {
        let sql = format!("SELECT {HEAD} FROM head");
        head_of(self.0.query_typed(&sql, &[]).map_err(fail)?.into_iter().next())
    }
}

impl<C: GenericClient> Rows for Db<'_, C> {
    fn head_row(&mut self) -> Result<HeadRow, StoreError> {
        Ok(self.lease()?.0)
    }

    fn bounds(&mut self) -> Result<Option<(Seq, Seq)>, StoreError> {
        let rows = self.0.query_typed("SELECT min(seq), max(seq) FROM log", &[]).map_err(fail)?;
        let ends = rows.first().map(|r| (r.get::<_, Option<i64>>(0), r.get::<_, Option<i64>>(1)));
        let Some((Some(low), Some(high))) = ends else { return Ok(None) };
        Ok(Some((Seq(from_db(low, "the log")?), Seq(from_db(high, "the log")?))))
    }

    fn rows(&mut self, after: Seq, most: usize) -> Result<Vec<Row>, StoreError> {
        let Ok(after) = i64::try_from(after.0) else { return Ok(Vec::new()) };
        let found = self
            .0
            .query_typed(
                "SELECT seq, at, body, chain FROM log WHERE seq > $1 ORDER BY seq LIMIT $2",
                &[(&after, Type::INT8), (&limit(most), Type::INT8)],
            )
            .map_err(fail)?;
        found
            .into_iter()
            .map(|r| {
                let seq = Seq(from_db(r.get(0), "the log")?);
                let chain = link(r.get(3), &format!("entry {seq}"))?;
                Ok(Row { entry: Entry { seq, at: Time(r.get(1)), body: r.get(2) }, chain })
            })
            .collect()
    }

    fn chain_at(&mut self, seq: Seq) -> Result<Option<Link>, StoreError> {
        let Ok(n) = i64::try_from(seq.0) else { return Ok(None) };
        let found = self
            .0
            .query_typed("SELECT chain FROM log WHERE seq = $1", &[(&n, Type::INT8)])
            .map_err(fail)?;
        found.first().map(|r| link(r.get(0), &format!("entry {seq}"))).transpose()
    }

    fn snapshot_seqs(&mut self) -> Result<Vec<Seq>, StoreError> {
        let found =
            self.0.query_typed("SELECT seq FROM snapshots ORDER BY seq DESC", &[]).map_err(fail)?;
        found.iter().map(|r| Ok(Seq(from_db(r.get(0), "a snapshot")?))).collect()
    }

    fn snapshot_row(&mut self, seq: Seq) -> Result<Option<(Snapshot, Vec<u8>)>, StoreError> {
        let found = self
            .0
            .query_typed(
                "SELECT at, format, body, sum FROM snapshots WHERE seq = $1",
                &[(&db_int(seq.0)?, Type::INT8)],
            )
            .map_err(fail)?;
        found
            .first()
            .map(|r| {
                let place = format!("snapshot {seq}");
                let format = u32::try_from(from_db(r.get(1), &place)?)
                    .map_err(|_| StoreError::corrupt(place, "its format is not a small number"))?;
                let s = Snapshot { seq, at: Time(r.get(0)), format, body: r.get(2) };
                Ok((s, r.get(3)))
            })
            .transpose()
    }

    fn payload_rows(&mut self, after: i64, most: usize) -> Result<Vec<PayloadRow>, StoreError> {
        let found = self
            .0
            .query_typed(
                "SELECT job, body, sum FROM payloads WHERE job > $1 ORDER BY job LIMIT $2",
                &[(&after, Type::INT8), (&limit(most), Type::INT8)],
            )
            .map_err(fail)?;
        found
            .into_iter()
            .map(|r| Ok((JobId(from_db(r.get(0), "a payload")?), r.get(1), r.get(2))))
            .collect()
    }

    fn secret_rows(&mut self) -> Result<Vec<SecretRow>, StoreError> {
        // Bytewise, so that a copy comes out in the same order whatever the locale.
        let found = self
            .0
            .query_typed(
                "SELECT project, name, value, sum FROM secrets \
                 ORDER BY project COLLATE \"C\", name COLLATE \"C\"",
                &[],
            )
            .map_err(fail)?;
        Ok(found
            .into_iter()
            .map(|r| SecretRow {
                project: r.get(0),
                name: r.get(1),
                value: r.get(2),
                sum: r.get(3),
            })
            .collect())
    }

    fn loading(&mut self) -> Result<Option<String>, StoreError> {
        let found = self
            .0
            .query_typed("SELECT value FROM meta WHERE key = $1", &[(&LOADING, Type::TEXT)])
            .map_err(fail)?;
        Ok(found.first().map(|r| r.get(0)))
    }
}

impl<C: GenericClient> Fill for Db<'_, C> {
    fn insert_rows(&mut self, rows: &[Row]) -> Result<(), StoreError> {
        if rows.is_empty() {
            return Ok(());
        }
        let seqs =
            rows.iter().map(|r| db_int(r.entry.seq.0)).collect::<Result<Vec<_>, StoreError>>()?;
        let ats: Vec<i64> = rows.iter().map(|r| r.entry.at.0).collect();
        let bodies: Vec<&[u8]> = rows.iter().map(|r| r.entry.body.as_slice()).collect();
        let links: Vec<&[u8]> = rows.iter().map(|r| r.chain.as_slice()).collect();
        self.0
            .execute_typed(
                "INSERT INTO log (seq, at, body, chain) SELECT * FROM unnest($1, $2, $3, $4)",
                &[
                    (&seqs, Type::INT8_ARRAY),
                    (&ats, Type::INT8_ARRAY),
                    (&bodies, Type::BYTEA_ARRAY),
                    (&links, Type::BYTEA_ARRAY),
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn insert_snapshot(&mut self, s: &Snapshot) -> Result<(), StoreError> {
        self.0
            .execute_typed(
                "INSERT INTO snapshots VALUES ($1, $2, $3, $4, $5) ON CONFLICT (seq) DO UPDATE \
                 SET at = EXCLUDED.at, format = EXCLUDED.format, body = EXCLUDED.body, \
                 sum = EXCLUDED.sum",
                &[
                    (&db_int(s.seq.0)?, Type::INT8),
                    (&s.at.0, Type::INT8),
                    (&i64::from(s.format), Type::INT8),
                    (&s.body, Type::BYTEA),
                    (&chain::of_snapshot(s).as_slice(), Type::BYTEA),
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn insert_payload(&mut self, job: JobId, body: &[u8]) -> Result<(), StoreError> {
        self.0
            .execute_typed(
                "INSERT INTO payloads VALUES ($1, $2, $3) \
                 ON CONFLICT (job) DO UPDATE SET body = EXCLUDED.body, sum = EXCLUDED.sum",
                &[
                    (&db_int(job.0)?, Type::INT8),
                    (&body, Type::BYTEA),
                    (&chain::of_payload(job, body).as_slice(), Type::BYTEA),
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn insert_secret(&mut self, project: &str, name: &str, value: &[u8]) -> Result<(), StoreError> {
        self.0
            .execute_typed(
                "INSERT INTO secrets VALUES ($1, $2, $3, $4) ON CONFLICT (project, name) \
                 DO UPDATE SET value = EXCLUDED.value, sum = EXCLUDED.sum",
                &[
                    (&project, Type::TEXT),
                    (&name, Type::TEXT),
                    (&value, Type::BYTEA),
                    (&chain::of_secret(project, name, value).as_slice(), Type::BYTEA),
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn set_head(&mut self, h: &DumpHeader) -> Result<(), StoreError> {
        self.0
            .execute_typed(
                "UPDATE head SET base_seq = $1, base_chain = $2, seq = $3, at = $4, chain = $5, \
                 epoch = $6, holder = '', expires = '-infinity'",
                &[
                    (&db_int(h.base_seq.0)?, Type::INT8),
                    (&h.base_chain.as_slice(), Type::BYTEA),
                    (&db_int(h.last_seq.0)?, Type::INT8),
                    (&h.last_at.0, Type::INT8),
                    (&h.last_chain.as_slice(), Type::BYTEA),
                    (&db_int(h.epoch.0)?, Type::INT8),
                ],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn set_restored(&mut self, at: Seq) -> Result<(), StoreError> {
        self.0
            .execute_typed(
                "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value",
                &[(&RESTORED, Type::TEXT), (&at.0.to_string(), Type::TEXT)],
            )
            .map_err(fail)?;
        Ok(())
    }

    fn set_loading(&mut self, what: Option<&str>) -> Result<(), StoreError> {
        match what {
            Some(what) => self.0.execute_typed(
                "INSERT INTO meta VALUES ($1, $2) ON CONFLICT (key) DO UPDATE SET value = EXCLUDED.value",
                &[(&LOADING, Type::TEXT), (&what, Type::TEXT)],
            ),
            None => self
                .0
                .execute_typed("DELETE FROM meta WHERE key = $1", &[(&LOADING, Type::TEXT)]),
        }
        .map_err(fail)?;
        Ok(())
    }
}
