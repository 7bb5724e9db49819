//! The checksum chain: each row's link covers the link before it, so that an altered, missing or
//! reordered row shows.

use crate::{Entry, Snapshot, StoreError};
use muster_model::{JobId, Seq, Time};

/// One link.
pub(crate) type Link = [u8; 16];

fn cut(hash: &blake3::Hash) -> Link {
    let mut link = [0; 16];
    link.copy_from_slice(&hash.as_bytes()[..16]);
    link
}

/// chain(n) = blake3(chain(n-1) ‖ seq ‖ at ‖ body), its first 16 bytes.
pub(crate) fn next(previous: &Link, seq: Seq, at: Time, body: &[u8]) -> Link {
    let mut h = blake3::Hasher::new();
    h.update(previous).update(&seq.0.to_be_bytes()).update(&at.0.to_be_bytes()).update(body);
    cut(&h.finalize())
}

/// The link of an entry.
pub(crate) fn of_entry(previous: &Link, e: &Entry) -> Link {
    next(previous, e.seq, e.at, &e.body)
}

/// Entries with their links, if they follow `seq` without a gap.
pub(crate) fn linked(
    entries: &[Entry],
    mut seq: Seq,
    mut link: Link,
) -> Result<Vec<Link>, StoreError> {
    let mut links = Vec::with_capacity(entries.len());
    for e in entries {
        if e.seq != seq.next() {
            return Err(StoreError::NotDense { expected: seq.next(), got: e.seq });
        }
        link = of_entry(&link, e);
        seq = e.seq;
        links.push(link);
    }
    Ok(links)
}

/// A snapshot's own checksum.
pub(crate) fn of_snapshot(s: &Snapshot) -> Link {
    let mut h = blake3::Hasher::new();
    h.update(b"snapshot").update(&s.seq.0.to_be_bytes()).update(&s.at.0.to_be_bytes());
    h.update(&s.format.to_be_bytes()).update(&s.body);
    cut(&h.finalize())
}

/// A payload's own checksum.
pub(crate) fn of_payload(job: JobId, body: &[u8]) -> Link {
    let mut h = blake3::Hasher::new();
    h.update(b"payload").update(&job.0.to_be_bytes()).update(body);
    cut(&h.finalize())
}

/// A secret's own checksum (over its ciphertext).
pub(crate) fn of_secret(project: &str, name: &str, value: &[u8]) -> Link {
    let mut h = blake3::Hasher::new();
    h.update(b"secret").update(&(project.len() as u64).to_be_bytes()).update(project.as_bytes());
    h.update(&(name.len() as u64).to_be_bytes()).update(name.as_bytes()).update(value);
    cut(&h.finalize())
}

/// A link as a database gives it back.
pub(crate) fn from_bytes(bytes: &[u8]) -> Option<Link> {
    bytes.try_into().ok()
}

/// In lower-case hexadecimal.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// Reads a link from hexadecimal; none when it is not one.
pub(crate) fn unhex(text: &str) -> Option<Link> {
    if text.len() != 32 || !text.is_ascii() {
        return None;
    }
    let mut link = [0; 16];
    for (i, byte) in link.iter_mut().enumerate() {
        *byte = u8::from_str_radix(&text[2 * i..2 * i + 2], 16).ok()?;
    }
    Some(link)
}
