//! The whole store as JSON lines.

use super::CopyReport;
use crate::lines::{self, EXPORT, Line};
use crate::{DumpItem, Store, StoreError};
use muster_model::{Seq, SiteId};
use serde::Deserialize;
use std::io::Write;

#[derive(Deserialize)]
struct Founding {
    site: Option<SiteId>,
}

/// The site's name stands in the first record of its log, while that is there.
fn site(store: &mut dyn Store) -> Result<Option<SiteId>, StoreError> {
    if store.head()?.first_seq > Seq(1) {
        return Ok(None);
    }
    let first = store.read(Seq(0), 1)?;
    Ok(first.first().and_then(|e| serde_json::from_slice::<Founding>(&e.body).ok()?.site))
}

/// Writes everything, as of one moment: a header line, the snapshots, the entries, the payloads,
/// the sealed secrets, and a footer with a digest of it all.
pub fn export(store: &mut dyn Store, writer: &mut dyn Write) -> Result<CopyReport, StoreError> {
    let site = site(store)?;
    let mut out = Out { writer, digest: blake3::Hasher::new(), lines: 0 };
    let mut report = CopyReport::default();
    store.dump(&mut |item| {
        report.count(&item);
        match (&item, lines::of_item(&item)) {
            (_, Some(line)) => {
                out.lines += 1;
                out.put(&line)
            }
            (DumpItem::Header(h), None) => {
                out.put(&Line::Header(lines::header(h, EXPORT, site.clone())))
            }
            (_, None) => Ok(()),
        }
    })?;
    let digest = out.digest.finalize().to_hex().to_string();
    let footer = Line::Footer { lines: out.lines, digest };
    out.put(&footer)?;
    out.writer.flush().map_err(written)?;
    Ok(report)
}

fn written(e: std::io::Error) -> StoreError {
    StoreError::io("cannot write the export", e)
}

struct Out<'a> {
    writer: &'a mut dyn Write,
    digest: blake3::Hasher,
    lines: u64,
}

impl Out<'_> {
    fn put(&mut self, line: &Line<'_>) -> Result<(), StoreError> {
        let mut text = serde_json::to_vec(line)
            .map_err(|e| StoreError::other(format!("cannot write the export: {e}")))?;
        text.push(b'\n');
        self.digest.update(&text);
        self.writer.write_all(&text).map_err(written)
    }
}
