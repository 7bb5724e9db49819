//! Steps of all series of a shard, as they lie in a file.
//!
//! ```text
//! magic u32 | length u32 | crc u32 | shard u32 | first step i64 | steps u16 | series u16 | 0 u32
//! for each series: index since the one before (varint), length of its cells (varint)
//! the cells, series after series
//! ```
//! The checksum is over all that follows it, so that a block is either whole or not there.

use crate::bits::{Reader, put_varint};
use crate::cell::Cell;
use crate::codec;
use flate2::Crc;

/// Series of one shard. Few enough that a block is read at once for one series of it.
pub(crate) const SHARD: u32 = 512;
/// Bytes before the series.
pub(crate) const HEAD: usize = 32;
/// `MHB1`
const MAGIC: u32 = u32::from_le_bytes(*b"MHB1");
/// Where what the checksum is over begins.
const SUMMED: usize = 12;
/// More than any block: what says more is damaged.
const MOST_BYTES: usize = 16 << 20;
const MOST_STEPS: u16 = 4096;

/// What a block says of itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Head {
    /// Bytes after the head.
    pub(crate) len: usize,
    pub(crate) shard: u32,
    /// Number of its first step.
    pub(crate) start: i64,
    pub(crate) steps: u16,
    series: u16,
}

pub(crate) fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.update(bytes);
    crc.sum()
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at.checked_add(4)?)?.try_into().ok()?))
}

/// Writes a block; `series` are the cells by index in the shard, in order. Empty where nothing was
/// sampled.
pub(crate) fn encode(
    shard: u32,
    start: i64,
    steps: u16,
    series: impl Iterator<Item = (u32, Vec<Cell>)>,
) -> Vec<u8> {
    let (mut list, mut data) = (Vec::new(), Vec::new());
    let (mut n, mut next) = (0u16, 0u32);
    for (index, cells) in series {
        let before = data.len();
        codec::encode(&cells, &mut data);
        if data.len() > before {
            put_varint(&mut list, u64::from(index.saturating_sub(next)));
            put_varint(&mut list, (data.len() - before) as u64);
            next = index.saturating_add(1);
            n = n.saturating_add(1);
        }
    }
    if n == 0 {
        return Vec::new();
    }
    let len = u32::try_from(list.len() + data.len()).unwrap_or(u32::MAX);
    let mut out = Vec::with_capacity(HEAD + list.len() + data.len());
    out.extend(MAGIC.to_le_bytes());
    out.extend(len.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend(shard.to_le_bytes());
    out.extend(start.to_le_bytes());
    out.extend(steps.to_le_bytes());
    out.extend(n.to_le_bytes());
    out.extend(0u32.to_le_bytes());
    out.extend(list);
    out.extend(data);
    let sum = checksum(&out[SUMMED..]);
    out[8..SUMMED].copy_from_slice(&sum.to_le_bytes());
    out
}

/// What a head says; none where it is none.
pub(crate) fn head(bytes: &[u8]) -> Option<Head> {
    if word(bytes, 0)? != MAGIC {
        return None;
    }
    let len = usize::try_from(word(bytes, 4)?).ok().filter(|n| *n <= MOST_BYTES)?;
    let start = i64::from_le_bytes(bytes.get(16..24)?.try_into().ok()?);
    let steps = u16::from_le_bytes(bytes.get(24..26)?.try_into().ok()?);
    let series = u16::from_le_bytes(bytes.get(26..28)?.try_into().ok()?);
    let fine = bytes.len() >= HEAD && (1..=MOST_STEPS).contains(&steps);
    fine.then_some(Head { len, shard: word(bytes, 12)?, start, steps, series })
}

/// A whole block; none where its checksum is wrong.
pub(crate) fn checked(bytes: &[u8]) -> Option<Head> {
    let head = head(bytes)?;
    let whole = bytes.get(..HEAD.checked_add(head.len)?)?;
    (checksum(&whole[SUMMED..]) == word(bytes, 8)?).then_some(head)
}

/// Hands the cells of those series on that `wanted` names by index, in order. Stops where the bytes
/// make no sense.
pub(crate) fn read(bytes: &[u8], wanted: &[u32], mut each: impl FnMut(u32, &[Cell])) -> Option<()> {
    let head = checked(bytes)?;
    let body = bytes.get(HEAD..HEAD + head.len)?;
    let mut list = Reader::new(body);
    let mut found = Vec::new();
    let (mut next, mut at) = (0u32, 0usize);
    for _ in 0..head.series {
        let index = next.checked_add(u32::try_from(list.varint()?).ok()?)?;
        let len = usize::try_from(list.varint()?).ok()?;
        if wanted.binary_search(&index).is_ok() {
            found.push((index, at, len));
        }
        next = index.checked_add(1)?;
        at = at.checked_add(len)?;
    }
    let data = list.rest();
    for (index, at, len) in found {
        let cells = codec::decode(data.get(at..at.checked_add(len)?)?, usize::from(head.steps))?;
        each(index, &cells);
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<u8> {
        let series = [(3, vec![Cell::of(1.0), Cell::GAP]), (9, vec![Cell::of(2.0); 2])];
        let none = (5, vec![Cell::GAP; 2]);
        let all = [series[0].clone(), none, series[1].clone()];
        encode(7, 100, 2, all.into_iter())
    }

    #[test]
    fn a_block_gives_back_the_series_that_are_asked_for() {
        let bytes = sample();
        let h = checked(&bytes).expect("whole");
        assert_eq!((h.shard, h.start, h.steps, h.series), (7, 100, 2, 2));
        let mut got = Vec::new();
        read(&bytes, &[3, 5, 9], |i, c| got.push((i, c.to_vec()))).expect("whole");
        assert_eq!(got.len(), 2);
        assert_eq!(got[1], (9, vec![Cell::of(2.0); 2]));
        assert!(encode(7, 0, 2, [(1, vec![Cell::GAP; 2])].into_iter()).is_empty());
    }

    #[test]
    fn one_wrong_bit_is_noticed() {
        let good = sample();
        for at in 0..good.len() {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            assert!(read(&bad, &[3, 9], |_, _| ()).is_none(), "byte {at}");
            assert!(checked(&good[..at]).is_none());
        }
    }
}
