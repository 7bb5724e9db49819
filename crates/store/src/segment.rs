//! Archived parts of the log: `log-FROM-TO.jsonl.gz`.

use crate::archive::create_dir;
use crate::chain::Link;
use crate::files::{Draft, finish, parent};
use crate::lines::{self, Line, SEGMENT};
use crate::walk::{self, CHUNK, HeadRow, Rows};
use crate::{DumpHeader, StoreError};
use flate2::{Compression, write::GzEncoder};
use muster_model::Seq;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

/// Entries deleted at a time, so that an append beside it does not wait long.
pub(crate) const DELETE_CHUNK: u64 = 2000;

/// The last entry that may leave the log: never past the older of the kept snapshots.
pub(crate) fn limit(r: &mut impl Rows, upto: Seq) -> Result<Seq, StoreError> {
    Ok(r.snapshot_seqs()?.into_iter().min().unwrap_or(Seq(0)).min(upto))
}

/// The ends of the pieces in which `from..=to` is deleted, with the chain at each.
pub(crate) fn pieces(
    r: &mut impl Rows,
    from: Seq,
    to: Seq,
) -> Result<Vec<(Seq, Link)>, StoreError> {
    let mut ends = Vec::new();
    let mut at = from.0;
    while at <= to.0 {
        let end = Seq((at + DELETE_CHUNK - 1).min(to.0));
        let link = r
            .chain_at(end)?
            .ok_or_else(|| StoreError::corrupt(format!("entry {end}"), "it is missing"))?;
        ends.push((end, link));
        at = end.0 + 1;
    }
    Ok(ends)
}

/// Writes the entries after the log's base up to `to` into a segment, durable under its name.
pub(crate) fn write(
    r: &mut impl Rows,
    h: &HeadRow,
    to: Seq,
    dir: &Path,
) -> Result<PathBuf, StoreError> {
    create_dir(dir)?;
    let name = format!("log-{}-{to}", h.base_seq.next());
    let mut target = dir.join(format!("{name}.jsonl.gz"));
    if target.exists() {
        // Left by a crash before its entries were deleted, or by a life that a restore gave up:
        // history is not replaced.
        target = dir.join(format!("{name}.{}.jsonl.gz", h.epoch));
    }
    let draft = Draft::beside(&target);
    let failed = |e| StoreError::io(format!("cannot write {}", target.display()), e);
    let last_chain = r
        .chain_at(to)?
        .ok_or_else(|| StoreError::corrupt(format!("entry {to}"), "it is missing"))?;
    let mut out = GzEncoder::new(BufWriter::new(draft.create()?), Compression::default());
    let header = DumpHeader {
        base_seq: h.base_seq,
        base_chain: h.base_chain,
        last_seq: to,
        last_at: h.at,
        last_chain,
        epoch: h.epoch,
    };
    let mut digest = blake3::Hasher::new();
    let mut count = 0;
    put(&mut out, &mut digest, &Line::Header(lines::header(&header, SEGMENT, None)))
        .map_err(failed)?;
    let (mut cache, mut last) = (Some((h.base_seq, h.base_chain)), h.base_seq);
    while last < to {
        let room = usize::try_from(to.0 - last.0).unwrap_or(CHUNK).min(CHUNK);
        let entries = walk::read(r, &mut cache, last, room)?;
        for e in &entries {
            put(&mut out, &mut digest, &lines::of_entry(e)).map_err(failed)?;
            count += 1;
        }
        last = entries.last().map_or(to, |e| e.seq);
    }
    let footer = Line::Footer { lines: count, digest: digest.finalize().to_hex().to_string() };
    put(&mut out, &mut digest, &footer).map_err(failed)?;
    finish(out.finish().map_err(failed)?, draft.path())?;
    debug_assert_eq!(parent(&target), dir);
    draft.replace(&target)?;
    Ok(target)
}

fn put(
    out: &mut GzEncoder<BufWriter<File>>,
    digest: &mut blake3::Hasher,
    line: &Line<'_>,
) -> std::io::Result<()> {
    let mut text = serde_json::to_vec(line)?;
    text.push(b'\n');
    digest.update(&text);
    out.write_all(&text)
}
