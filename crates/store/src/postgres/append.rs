//! How a batch is written: in one statement where that is enough, else in a transaction.

use super::error::{fail, fail_commit};
use super::rows::Db;
use super::{Conn, held_by};
use crate::chain::{self, Link};
use crate::error::db_int;
use crate::walk::Fill;
use crate::{Batch, StoreError, failpoint};
use muster_model::{JobId, Seq};
use postgres::types::{ToSql, Type};
use postgres::{GenericClient, Statement, Transaction};
use std::collections::{BTreeMap, BTreeSet};

/// Advances the head if it is where the caller thinks it is and the lease is the caller's, and
/// with it writes the entries and the payloads: one statement, so that a batch costs one round
/// trip. `$more` is written under the same condition.
macro_rules! append {
    ($more:literal) => {
        concat!(
            "WITH moved AS (
    UPDATE head SET seq = $4, at = $5, chain = $6
    WHERE epoch = $1 AND holder <> '' AND ($14::text IS NULL OR holder = $14)
        AND seq = $2 AND chain = $3 RETURNING 1
), written AS (
    INSERT INTO log (seq, at, body, chain)
    SELECT * FROM unnest($7::int8[], $8::int8[], $9::bytea[], $10::bytea[])
    WHERE EXISTS (SELECT 1 FROM moved)
), paid AS (
    INSERT INTO payloads (job, body, sum)
    SELECT * FROM unnest($11::int8[], $12::bytea[], $13::bytea[])
    WHERE EXISTS (SELECT 1 FROM moved)
    ON CONFLICT (job) DO UPDATE SET body = EXCLUDED.body, sum = EXCLUDED.sum
)",
            $more,
            " SELECT count(*) FROM moved"
        )
    };
}

const APPEND: &str = append!("");

/// The same, and takes away what is not needed any more. Not prepared: a plan that was made while
/// there were few payloads would go on reading all of them.
const APPEND_AND_DELETE: &str = append!(
    ", gone AS (
    DELETE FROM payloads WHERE job = ANY($15::int8[]) AND EXISTS (SELECT 1 FROM moved)
)"
);

/// Types of the parameters of [`APPEND_AND_DELETE`].
const TYPES: [Type; 15] = [
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::INT8,
    Type::INT8,
    Type::BYTEA,
    Type::INT8_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
    Type::BYTEA_ARRAY,
    Type::INT8_ARRAY,
    Type::BYTEA_ARRAY,
    Type::BYTEA_ARRAY,
    Type::TEXT,
    Type::INT8_ARRAY,
];

/// What a batch with entries writes, column by column.
struct Columns<'a> {
    epoch: i64,
    /// Whose lease it must be, where the handle knows that.
    holder: Option<&'a str>,
    /// The head that it follows.
    from: (i64, &'a [u8]),
    /// The head that it leaves: number, time, link.
    to: (i64, i64, &'a [u8]),
    seqs: Vec<i64>,
    ats: Vec<i64>,
    bodies: Vec<&'a [u8]>,
    chains: Vec<&'a [u8]>,
    jobs: Vec<i64>,
    payloads: Vec<&'a [u8]>,
    sums: Vec<Vec<u8>>,
    unneeded: Vec<i64>,
}

impl<'a> Columns<'a> {
    /// None for a batch without entries: it moves no head.
    fn of(
        batch: &'a Batch,
        holder: Option<&'a str>,
        tail: &'a (Seq, Link),
        links: &'a [Link],
    ) -> Result<Option<Columns<'a>>, StoreError> {
        let (Some(last), Some(link)) = (batch.entries.last(), links.last()) else {
            return Ok(None);
        };
        let payloads = last_payloads(batch);
        Ok(Some(Columns {
            epoch: db_int(batch.epoch.0)?,
            holder,
            from: (db_int(tail.0.0)?, tail.1.as_slice()),
            to: (db_int(last.seq.0)?, last.at.0, link.as_slice()),
            seqs: numbers(batch.entries.iter().map(|e| e.seq.0))?,
            ats: batch.entries.iter().map(|e| e.at.0).collect(),
            bodies: batch.entries.iter().map(|e| e.body.as_slice()).collect(),
            chains: links.iter().map(|l| l.as_slice()).collect(),
            jobs: numbers(payloads.keys().map(|j| j.0))?,
            sums: payloads.iter().map(|(j, body)| chain::of_payload(*j, body).to_vec()).collect(),
            payloads: payloads.into_values().collect(),
            unneeded: numbers(batch.unneeded.iter().map(|j| j.0))?,
        }))
    }

    /// Runs the statement; says whether the head moved. Nothing was written if it did not.
    fn write(
        &self,
        client: &mut impl GenericClient,
        statement: &Statement,
    ) -> Result<bool, postgres::Error> {
        let all: [&(dyn ToSql + Sync); 15] = [
            &self.epoch,
            &self.from.0,
            &self.from.1,
            &self.to.0,
            &self.to.1,
            &self.to.2,
            &self.seqs,
            &self.ats,
            &self.bodies,
            &self.chains,
            &self.jobs,
            &self.payloads,
            &self.sums,
            &self.holder,
            &self.unneeded,
        ];
        let row = if self.unneeded.is_empty() {
            client.query_one(statement, &all[..14])?
        } else {
            let typed: Vec<(&(dyn ToSql + Sync), Type)> = all.into_iter().zip(TYPES).collect();
            client.query_typed_one(APPEND_AND_DELETE, &typed)?
        };
        Ok(row.get::<_, i64>(0) == 1)
    }
}

fn numbers(all: impl Iterator<Item = u64>) -> Result<Vec<i64>, StoreError> {
    all.map(db_int).collect()
}

/// The payloads to write. One row may be written once in a statement, so the last word counts;
/// and what the same batch takes away need not be written first.
fn last_payloads(batch: &Batch) -> BTreeMap<JobId, &[u8]> {
    let unneeded: BTreeSet<JobId> = batch.unneeded.iter().copied().collect();
    let needed = batch.payloads.iter().filter(|(job, _)| !unneeded.contains(job));
    needed.map(|(job, body)| (*job, body.as_slice())).collect()
}

/// Writes a batch that follows `tail`; says whether it is committed. Nothing was written if the
/// head is elsewhere, or the lease is not of the batch's epoch and this holder.
pub(super) fn append(
    conn: &mut Conn,
    batch: &Batch,
    holder: Option<&str>,
    tail: &(Seq, Link),
    links: &[Link],
) -> Result<bool, StoreError> {
    let Some(columns) = Columns::of(batch, holder, tail, links)? else {
        let mut tx = conn.client.transaction().map_err(fail)?;
        if !held_by(&Db(&mut tx).lock_head()?, batch.epoch, holder) {
            return Ok(false);
        }
        write_payloads(&mut tx, batch)?;
        return finish(tx, batch);
    };
    // By itself: when this fails, nothing was written.
    let statement = match &conn.append {
        Some(s) => s.clone(),
        None => {
            let s = conn.client.prepare(APPEND).map_err(fail)?;
            conn.append.insert(s).clone()
        }
    };
    if !batch.secrets.is_empty() {
        let mut tx = conn.client.transaction().map_err(fail)?;
        if !columns.write(&mut tx, &statement).map_err(fail)? {
            return Ok(false);
        }
        return finish(tx, batch);
    }
    failpoint::hit("store.append.before_commit");
    // The statement is its own transaction: its answer comes after the commit.
    let moved = columns.write(&mut conn.client, &statement).map_err(fail_commit)?;
    if moved {
        failpoint::hit("store.append.after_commit");
    }
    Ok(moved)
}

/// Writes the secrets and commits.
fn finish(mut tx: Transaction<'_>, batch: &Batch) -> Result<bool, StoreError> {
    write_secrets(&mut tx, batch)?;
    failpoint::hit("store.append.before_commit");
    tx.commit().map_err(fail_commit)?;
    failpoint::hit("store.append.after_commit");
    Ok(true)
}

/// Payloads of a batch without entries, which is rare.
fn write_payloads(tx: &mut Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
    for (job, body) in last_payloads(batch) {
        Db(tx).insert_payload(job, body)?;
    }
    if !batch.unneeded.is_empty() {
        let jobs = numbers(batch.unneeded.iter().map(|j| j.0))?;
        tx.execute_typed("DELETE FROM payloads WHERE job = ANY($1)", &[(&jobs, Type::INT8_ARRAY)])
            .map_err(fail)?;
    }
    Ok(())
}

fn write_secrets(tx: &mut Transaction<'_>, batch: &Batch) -> Result<(), StoreError> {
    for s in &batch.secrets {
        match &s.value {
            Some(value) => Db(tx).insert_secret(&s.project, &s.name, value)?,
            None => {
                tx.execute_typed(
                    "DELETE FROM secrets WHERE project = $1 AND name = $2",
                    &[(&s.project, Type::TEXT), (&s.name, Type::TEXT)],
                )
                .map_err(fail)?;
            }
        }
    }
    Ok(())
}
