//! The lines of an export and of an archived segment: JSON, one thing each.

use crate::chain::{hex, unhex};
use crate::{DumpHeader, DumpItem, Entry, Snapshot};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use muster_model::{Epoch, JobId, Seq, SiteId, Time};
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

/// The format's name, on its first line.
pub(crate) const EXPORT: &str = "muster-export-1";
/// The same for an archived segment.
pub(crate) const SEGMENT: &str = "muster-segment-1";

/// The first line.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(crate) struct HeaderLine {
    pub(crate) format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) site: Option<SiteId>,
    pub(crate) first: Seq,
    pub(crate) last: Seq,
    pub(crate) count: u64,
    /// Whether entries before `first` were archived: the log then starts from a snapshot.
    pub(crate) archived: bool,
    pub(crate) last_at: Time,
    pub(crate) base_chain: String,
    pub(crate) last_chain: String,
    pub(crate) epoch: Epoch,
}

/// One line.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Line<'a> {
    Header(HeaderLine),
    Snapshot {
        seq: Seq,
        at: Time,
        format: u32,
        base64: String,
    },
    Entry {
        seq: Seq,
        at: Time,
        /// The body as it is, when it is JSON on one line.
        #[serde(borrow, default, skip_serializing_if = "Option::is_none")]
        body: Option<&'a RawValue>,
        /// The body in base64, when it is not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        base64: Option<String>,
    },
    Payload {
        job: JobId,
        base64: String,
    },
    Secret {
        project: String,
        name: String,
        base64: String,
    },
    Footer {
        /// Lines between the header and this one.
        lines: u64,
        /// Of every byte before this line.
        digest: String,
    },
}

/// The header line for a dump.
pub(crate) fn header(h: &DumpHeader, format: &str, site: Option<SiteId>) -> HeaderLine {
    HeaderLine {
        format: format.to_owned(),
        site,
        first: h.base_seq.next(),
        last: h.last_seq,
        count: h.last_seq.0 - h.base_seq.0,
        archived: h.base_seq > Seq(0),
        last_at: h.last_at,
        base_chain: hex(&h.base_chain),
        last_chain: hex(&h.last_chain),
        epoch: h.epoch,
    }
}

/// An item as a line; `None` for a header, which needs more.
pub(crate) fn of_item(item: &DumpItem) -> Option<Line<'_>> {
    Some(match item {
        DumpItem::Header(_) => return None,
        DumpItem::Snapshot(s) => Line::Snapshot {
            seq: s.seq,
            at: s.at,
            format: s.format,
            base64: BASE64.encode(&s.body),
        },
        DumpItem::Entry(e) => of_entry(e),
        DumpItem::Payload(job, body) => Line::Payload { job: *job, base64: BASE64.encode(body) },
        DumpItem::Secret { project, name, value } => Line::Secret {
            project: project.clone(),
            name: name.clone(),
            base64: BASE64.encode(value),
        },
    })
}

/// An entry as a line.
pub(crate) fn of_entry(e: &Entry) -> Line<'_> {
    // Only a body that comes back byte for byte may be embedded: the chain covers its bytes.
    let raw = serde_json::from_slice::<&RawValue>(&e.body).ok().filter(|raw| {
        raw.get().len() == e.body.len() && !e.body.contains(&b'\n') && !e.body.contains(&b'\r')
    });
    // `null` would read back as an absent body.
    let raw = raw.filter(|raw| raw.get() != "null");
    let base64 = raw.is_none().then(|| BASE64.encode(&e.body));
    Line::Entry { seq: e.seq, at: e.at, body: raw, base64 }
}

/// A line as an item; the error says what is wrong with it.
pub(crate) fn to_item(line: Line<'_>) -> Result<DumpItem, String> {
    let decode = |text: &str| BASE64.decode(text).map_err(|e| format!("bad base64: {e}"));
    Ok(match line {
        Line::Header(h) => DumpItem::Header(to_header(&h)?),
        Line::Snapshot { seq, at, format, base64 } => {
            DumpItem::Snapshot(Snapshot { seq, at, format, body: decode(&base64)? })
        }
        Line::Entry { seq, at, body, base64 } => {
            let body = match (body, base64) {
                (Some(raw), None) => raw.get().as_bytes().to_vec(),
                (None, Some(text)) => decode(&text)?,
                _ => return Err(format!("entry {seq} must have either a body or a base64")),
            };
            DumpItem::Entry(Entry { seq, at, body })
        }
        Line::Payload { job, base64 } => DumpItem::Payload(job, decode(&base64)?),
        Line::Secret { project, name, base64 } => {
            DumpItem::Secret { project, name, value: decode(&base64)? }
        }
        Line::Footer { .. } => return Err("a footer is no item".into()),
    })
}

fn to_header(h: &HeaderLine) -> Result<DumpHeader, String> {
    if h.format != EXPORT {
        return Err(format!("its format is `{}`, this version reads `{EXPORT}`", h.format));
    }
    let base = h.first.0.checked_sub(1).ok_or("its first entry is 0")?;
    if h.last.0.checked_sub(base) != Some(h.count) {
        return Err(format!("it announces {} entries from {} to {}", h.count, h.first, h.last));
    }
    Ok(DumpHeader {
        base_seq: Seq(base),
        base_chain: unhex(&h.base_chain).ok_or("its base_chain is not 32 hexadecimal digits")?,
        last_seq: h.last,
        last_at: h.last_at,
        last_chain: unhex(&h.last_chain).ok_or("its last_chain is not 32 hexadecimal digits")?,
        epoch: h.epoch,
    })
}
