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

/// In lower-case hexadecimal. Digit by digit: every commit writes forty bytes of it, and to format
/// each byte took a third of the writer's instructions.
pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |n: u8| char::from(b"0123456789abcdef"[usize::from(n & 15)]);
    let mut text = String::with_capacity(bytes.len() * 2);
    for b in bytes {
        text.push(digit(b >> 4));
        text.push(digit(*b));
    }
    text
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_byte_is_written_as_two_digits_and_read_back() {
        assert_eq!(hex(&[]), "");
        assert_eq!(hex(&[0x00, 0x09, 0x0a, 0x9f, 0xf0, 0xff]), "00090a9ff0ff");
        for first in (0..=255u8).step_by(16) {
            let mut link: Link = [first; 16];
            (0u8..).zip(&mut link).for_each(|(n, b)| *b += n);
            let text = hex(&link);
            let formatted: Vec<String> = link.iter().map(|b| format!("{b:02x}")).collect();
            assert_eq!(text, formatted.concat());
            assert_eq!(unhex(&text), Some(link));
        }
    }
}
