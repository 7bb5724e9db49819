//! The lines of a log: an export of a store, or bare records as a simulated life leaves them.

use crate::SimError;
use muster_model::event::{Record, SCHEMA};
use muster_model::ids::Seq;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::io::BufRead;

/// A line of an export.
#[derive(Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line<'a> {
    Header {
        first: Seq,
    },
    Entry {
        #[serde(borrow)]
        body: Option<&'a RawValue>,
    },
    Snapshot {},
    Payload {},
    Secret {},
    Footer {
        digest: String,
    },
}

/// What of a line is needed to say why it is not understood.
#[derive(Deserialize)]
struct Outline {
    kind: Option<String>,
    v: Option<u32>,
}

/// Reads every record of a log. `name` is what errors call the file.
///
/// # Errors
/// With the number of the line: one that breaks off or is no record, a gap in the sequence, an
/// event that only a newer version knows, a file that ends too early or was changed.
pub fn records(name: &str, from: &mut dyn BufRead) -> Result<Vec<Record>, SimError> {
    let mut out: Vec<Record> = Vec::new();
    let mut digest = blake3::Hasher::new();
    let (mut line, mut no) = (Vec::new(), 0u64);
    let (mut export, mut whole) = (false, false);
    loop {
        line.clear();
        no += 1;
        let at = |what: String| SimError::new(format!("{name}, line {no}: {what}"));
        let n = from.read_until(b'\n', &mut line).map_err(|e| at(format!("cannot read: {e}")))?;
        if n == 0 {
            break;
        }
        let text = line.trim_ascii_end();
        if text.is_empty() {
            continue;
        }
        if whole {
            return Err(at("something follows the last line of the export".into()));
        }
        let body = if text.starts_with(b"{\"seq\"") || (out.is_empty() && !export && bare(text)) {
            text
        } else {
            match serde_json::from_slice::<Line<'_>>(text).map_err(|e| at(unread(text, &e)))? {
                Line::Header { first } if first > Seq(1) => {
                    return Err(at(format!(
                        "the log begins with record {first}: what came before is in archived \
                         segments, without which nothing is known of the site"
                    )));
                }
                Line::Header { .. } => {
                    export = true;
                    b""
                }
                Line::Entry { body: Some(raw) } => raw.get().as_bytes(),
                Line::Entry { body: None } => {
                    return Err(at("an entry that is no record of this version".into()));
                }
                Line::Footer { digest: reported } => {
                    if digest.finalize().to_hex().as_str() != reported {
                        return Err(at(
                            "the file is not as it was written: its digest differs".into()
                        ));
                    }
                    whole = true;
                    b""
                }
                Line::Snapshot {} | Line::Payload {} | Line::Secret {} => b"",
            }
        };
        digest.update(&line);
        if body.is_empty() {
            continue;
        }
        let record = muster_records::read(body).map_err(|e| at(unread(body, &e)))?;
        if record.v > SCHEMA {
            return Err(at(newer(&format!("a record of shape {}", record.v))));
        }
        let last = out.last().map_or(Seq(0), |r| r.seq);
        if record.seq != last.next() {
            return Err(at(match out.is_empty() {
                true => format!("the log begins with record {}, not with the first", record.seq),
                false => format!("record {} follows record {last}: some are missing", record.seq),
            }));
        }
        out.push(record);
    }
    if export && !whole {
        return Err(SimError::new(format!(
            "{name}: it ends after line {} without the last line of an export: it is truncated",
            no - 1
        )));
    }
    if out.is_empty() {
        return Err(SimError::new(format!(
            "{name}: there is no record in it; `muster store export FILE` writes a log"
        )));
    }
    Ok(out)
}

fn bare(text: &[u8]) -> bool {
    serde_json::from_slice::<Outline>(text).is_ok_and(|o| o.kind.is_some())
}

fn newer(what: &str) -> String {
    format!("{what}, which this version does not know: use the version that wrote it")
}

/// Why a line was not read, for a person.
fn unread(text: &[u8], e: &serde_json::Error) -> String {
    if e.is_eof() {
        return "the line breaks off: the file is truncated".into();
    }
    match serde_json::from_slice::<Outline>(text) {
        Ok(Outline { v: Some(v), .. }) if v > SCHEMA => newer(&format!("a record of shape {v}")),
        Ok(Outline { kind: Some(kind), .. }) if e.to_string().contains("unknown variant") => {
            let kind: String = kind.chars().take(60).flat_map(char::escape_debug).collect();
            newer(&format!("an event of kind `{kind}`"))
        }
        _ => {
            let why: String = e.to_string().chars().take(160).collect();
            format!("this is no record of a log: {why}")
        }
    }
}
