//! Small readers of bytes. Each walks its input once.

/// Where a text begins in another, looking from the front.
pub(super) fn find(hay: &[u8], needle: &[u8]) -> Option<usize> {
    let (first, rest) = needle.split_first()?;
    let mut from = 0;
    while let Some(at) = hay.get(from..)?.iter().position(|b| b == first) {
        let start = from + at;
        if hay.get(start + 1..)?.starts_with(rest) {
            return Some(start);
        }
        from = start + 1;
    }
    None
}

/// Whether a text is in another.
pub(super) fn has(hay: &[u8], needle: &[u8]) -> bool {
    find(hay, needle).is_some()
}

/// What follows a text, looking from the front.
pub(super) fn after<'a>(hay: &'a [u8], needle: &[u8]) -> Option<&'a [u8]> {
    find(hay, needle).and_then(|at| hay.get(at + needle.len()..))
}

/// What stands before the first of some byte, and what follows it.
pub(super) fn split(hay: &[u8], byte: u8) -> Option<(&[u8], &[u8])> {
    let at = hay.iter().position(|b| *b == byte)?;
    Some((hay.get(..at)?, hay.get(at + 1..)?))
}

/// The decimal number at the front, and what follows it.
pub(super) fn number(bytes: &[u8]) -> Option<(u32, &[u8])> {
    let digits = bytes.iter().take_while(|b| b.is_ascii_digit()).count();
    if digits == 0 || digits > 10 {
        return None;
    }
    let mut value = 0u32;
    for b in bytes.iter().take(digits) {
        value = value.checked_mul(10)?.checked_add(u32::from(b - b'0'))?;
    }
    Some((value, bytes.get(digits..)?))
}

/// A small number at the front.
pub(super) fn small(bytes: &[u8]) -> Option<u16> {
    number(bytes).and_then(|(n, _)| u16::try_from(n).ok())
}

/// A process id at the front.
pub(super) fn pid(bytes: &[u8]) -> Option<i32> {
    number(bytes).and_then(|(n, _)| i32::try_from(n).ok()).filter(|n| *n > 0)
}

/// A hexadecimal number with or without `0x`, and what follows it.
pub(super) fn hex_word(bytes: &[u8]) -> Option<(u32, &[u8])> {
    super::super::pci::hex(bytes.strip_prefix(b"0x").unwrap_or(bytes), 8)
}

/// Bytes as text, where they are text.
pub(super) fn utf8(bytes: &[u8]) -> Option<&str> {
    std::str::from_utf8(bytes).ok()
}

/// The word at the front: up to a space, colon, comma or closing bracket.
pub(super) fn word(bytes: &[u8]) -> &[u8] {
    let end = bytes.iter().position(|b| matches!(b, b' ' | b':' | b',' | b')' | b']' | b'\n'));
    bytes.get(..end.unwrap_or(bytes.len())).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_and_split() {
        assert_eq!(find(b"aab", b"ab"), Some(1));
        assert_eq!(find(b"aa", b"aaa"), None);
        assert_eq!(find(b"", b"a"), None);
        assert_eq!(after(b"x: y", b": "), Some(&b"y"[..]));
        assert_eq!(split(b"a:b:c", b':'), Some((&b"a"[..], &b"b:c"[..])));
        assert_eq!(word(b"nvme0n1, sector"), b"nvme0n1");
    }

    #[test]
    fn numbers_have_an_end() {
        assert_eq!(number(b"79, x"), Some((79, &b", x"[..])));
        assert_eq!(number(b"99999999999"), None);
        assert_eq!(number(b"4294967296"), None);
        assert_eq!(number(b"x"), None);
        assert_eq!(pid(b"0"), None);
        assert_eq!(pid(b"4294967295"), None);
        assert_eq!(hex_word(b"0x10000, 0x0"), Some((0x1_0000, &b", 0x0"[..])));
    }
}
