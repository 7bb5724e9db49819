//! Whole numbers in as few bits as they need.

/// A number in groups of seven bits.
pub(crate) fn put_varint(out: &mut Vec<u8>, mut v: u64) {
    while v >= 0x80 {
        out.push(low_byte(v) | 0x80);
        v >>= 7;
    }
    out.push(low_byte(v));
}

fn low_byte(v: u64) -> u8 {
    v.to_le_bytes()[0]
}

/// Small numbers of either sign become small numbers without one.
pub(crate) fn zigzag(v: i64) -> u64 {
    ((v << 1) ^ (v >> 63)).cast_unsigned()
}

fn unzigzag(v: u64) -> i64 {
    (v >> 1).cast_signed() ^ -(v & 1).cast_signed()
}

/// Bits that every number up to this fits in.
fn bits_of(v: u64) -> u32 {
    u64::BITS - v.leading_zeros()
}

/// What was written, front to back. Everything is checked: the bytes may be damaged.
#[derive(Debug)]
pub(crate) struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Reader<'a> {
        Reader(bytes)
    }

    pub(crate) fn byte(&mut self) -> Option<u8> {
        let (first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(*first)
    }

    pub(crate) fn bytes(&mut self, n: usize) -> Option<&'a [u8]> {
        let (head, rest) = self.0.split_at_checked(n)?;
        self.0 = rest;
        Some(head)
    }

    pub(crate) fn varint(&mut self) -> Option<u64> {
        let mut v = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            v |= u64::from(b & 0x7f) << shift;
            if b & 0x80 == 0 {
                return Some(v);
            }
        }
        None
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.0
    }
}

/// Numbers of `width` bits, one after the other.
fn pack(out: &mut Vec<u8>, width: u32, values: impl Iterator<Item = u64>) {
    let (mut acc, mut have) = (0u128, 0u32);
    for v in values {
        acc |= u128::from(v) << have;
        have += width;
        while have >= 8 {
            out.push(acc.to_le_bytes()[0]);
            acc >>= 8;
            have -= 8;
        }
    }
    if have > 0 {
        out.push(acc.to_le_bytes()[0]);
    }
}

fn unpack(from: &mut Reader<'_>, width: u32, n: usize) -> Option<Vec<u64>> {
    if width == 0 {
        return Some(vec![0; n]);
    }
    let bytes = n.checked_mul(usize::try_from(width).ok()?)?.div_ceil(8);
    let mut source = from.bytes(bytes)?.iter();
    let mask = u64::MAX >> (64 - width);
    let (mut acc, mut have) = (0u128, 0u32);
    let mut out = Vec::with_capacity(n);
    for _ in 0..n {
        while have < width {
            acc |= u128::from(*source.next()?) << have;
            have += 8;
        }
        out.push((acc as u64) & mask);
        acc >>= width;
        have -= width;
    }
    Some(out)
}

/// Set in a column's first byte where the differences are kept.
const DELTAS: u8 = 0x80;
/// No number here is wider: values are within 2^25, their differences within 2^26.
const WIDEST: u32 = 40;

fn range(values: impl Iterator<Item = i64>) -> (i64, u64) {
    let (mut low, mut high) = (i64::MAX, i64::MIN);
    for v in values {
        low = low.min(v);
        high = high.max(v);
    }
    if low > high { (0, 0) } else { (low, high.abs_diff(low)) }
}

/// Numbers of one column: their distance from the least of them, or that of each from the one
/// before, whichever is shorter. All the same take no bits.
pub(crate) fn put_column(out: &mut Vec<u8>, values: &[i64]) {
    let Some(first) = values.first() else { return };
    let (low, wide) = range(values.iter().copied());
    let differences = || values.windows(2).map(|w| w[1] - w[0]);
    let (step, wide_step) = range(differences());
    let (width, width_step) = (bits_of(wide), bits_of(wide_step));
    // A column of differences says two numbers first.
    let total = |w: u32, n: usize| u64::from(w) * u64::try_from(n).unwrap_or(u64::MAX);
    let n = values.len();
    if total(width_step, n - 1) + 8 < total(width, n) {
        out.push(low_byte(u64::from(width_step)) | DELTAS);
        put_varint(out, zigzag(*first));
        put_varint(out, zigzag(step));
        pack(out, width_step, differences().map(|d| d.abs_diff(step)));
    } else {
        out.push(low_byte(u64::from(width)));
        put_varint(out, zigzag(low));
        pack(out, width, values.iter().map(|v| v.abs_diff(low)));
    }
}

/// The `n` numbers of a column.
pub(crate) fn column(from: &mut Reader<'_>, n: usize) -> Option<Vec<i64>> {
    if n == 0 {
        return Some(Vec::new());
    }
    let head = from.byte()?;
    let width = u32::from(head & !DELTAS);
    if width > WIDEST {
        return None;
    }
    let first = unzigzag(from.varint()?);
    if head & DELTAS == 0 {
        let all = unpack(from, width, n)?;
        return all.into_iter().map(|v| first.checked_add_unsigned(v)).collect();
    }
    let step = unzigzag(from.varint()?);
    let mut out = Vec::with_capacity(n);
    out.push(first);
    let mut last = first;
    for v in unpack(from, width, n - 1)? {
        last = last.checked_add(step)?.checked_add_unsigned(v)?;
        out.push(last);
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(values: &[i64]) -> usize {
        let mut bytes = Vec::new();
        put_column(&mut bytes, values);
        let mut r = Reader::new(&bytes);
        assert_eq!(column(&mut r, values.len()).as_deref(), Some(values));
        assert!(r.rest().is_empty());
        bytes.len()
    }

    #[test]
    fn columns_are_short_and_come_back() {
        assert_eq!(there_and_back(&[]), 0);
        assert_eq!(there_and_back(&[7; 60]), 2, "all the same");
        assert_eq!(there_and_back(&[-1, 0, 1, 0]), 3);
        let line: Vec<i64> = (0..60).map(|i| i * 1000).collect();
        assert!(there_and_back(&line) < 6, "a straight line");
        there_and_back(&[1 << 24, -(1 << 24), 0, 5]);
    }

    #[test]
    fn what_is_cut_off_is_not_read() {
        let mut bytes = Vec::new();
        put_column(&mut bytes, &[3, 900, 17, 44]);
        for n in 0..bytes.len() {
            assert_eq!(column(&mut Reader::new(&bytes[..n]), 4), None);
        }
        assert_eq!(column(&mut Reader::new(&[63, 0]), 4), None, "wider than anything here");
        assert_eq!(Reader::new(&[0xff; 11]).varint(), None);
    }

    #[test]
    fn signs_come_back() {
        for v in [0, 1, -1, i64::MAX, i64::MIN] {
            assert_eq!(unzigzag(zigzag(v)), v);
        }
    }
}
