//! A store from JSON lines.

use super::{CopyReport, marked};
use crate::lines::{self, Line};
use crate::{DumpItem, LoadMode, Store, StoreError};
use std::io::BufRead;

/// Fills an empty store from an export: all of it or nothing, with the export's footer and the
/// checksum chain verified before anything is kept.
pub fn import(reader: &mut dyn BufRead, store: &mut dyn Store) -> Result<CopyReport, StoreError> {
    load(reader, "the export", store, LoadMode::Move)
}

/// The same for a named file and with a mode.
pub(super) fn load(
    reader: &mut dyn BufRead,
    name: &str,
    store: &mut dyn Store,
    mode: LoadMode,
) -> Result<CopyReport, StoreError> {
    let mut report = CopyReport::default();
    let lines = Lines {
        reader,
        name,
        number: 0,
        digest: blake3::Hasher::new(),
        buffer: Vec::new(),
        over: false,
    };
    let mut counted = lines.inspect(|item| {
        if let Ok(item) = item {
            report.count(item);
        }
    });
    marked(store, name, |store| store.load(&mut counted, mode))?;
    Ok(report)
}

struct Lines<'a> {
    reader: &'a mut dyn BufRead,
    name: &'a str,
    number: u64,
    digest: blake3::Hasher,
    buffer: Vec<u8>,
    over: bool,
}

impl Lines<'_> {
    fn bad(&self, detail: impl Into<String>) -> StoreError {
        StoreError::bad(format!("{}, line {}", self.name, self.number), detail)
    }

    fn take(&mut self) -> Result<Option<DumpItem>, StoreError> {
        let cut = "it ends here without a footer: it was cut short";
        self.number += 1;
        self.buffer.clear();
        let read = self.reader.read_until(b'\n', &mut self.buffer);
        read.map_err(|e| self.bad(format!("cannot be read: {e}")))?;
        if self.buffer.last() != Some(&b'\n') {
            return Err(self.bad(cut));
        }
        let line: Line<'_> = serde_json::from_slice(&self.buffer)
            .map_err(|e| self.bad(format!("is not understood ({e})")))?;
        if let Line::Footer { lines, digest } = line {
            if lines + 2 != self.number {
                return Err(self.bad(format!(
                    "the footer counts {lines} lines and there are {}",
                    self.number.saturating_sub(2)
                )));
            }
            if digest != self.digest.finalize().to_hex().as_str() {
                return Err(self.bad("the footer's digest does not match: it was altered"));
            }
            self.buffer.clear();
            let more = self.reader.read_until(b'\n', &mut self.buffer);
            if more.map_err(|e| self.bad(format!("cannot be read: {e}")))? > 0 {
                return Err(self.bad("something follows the footer"));
            }
            return Ok(None);
        }
        let item = lines::to_item(line).map_err(|why| self.bad(why))?;
        self.digest.update(&self.buffer);
        Ok(Some(item))
    }
}

impl Iterator for Lines<'_> {
    type Item = Result<DumpItem, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.over {
            return None;
        }
        let item = self.take().transpose();
        self.over = !matches!(item, Some(Ok(_)));
        item
    }
}
