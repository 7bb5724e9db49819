//! From bytes to records: `prio,seq,usec,flags;text`, with lines of properties after it that
//! begin with a blank, and unprintable bytes as `\xNN`. A line without that head is a record of
//! its own, so that other logs can be read too.

/// Longest line that is kept; what is longer is cut.
const LONGEST: usize = 8 << 10;

/// One record.
#[derive(Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// The message, one line, without the head.
    pub text: &'a [u8],
    /// Microseconds since boot, where the record says.
    pub usec: Option<u64>,
    /// Records missing before this one.
    pub missed: u64,
}

/// Puts records together from pieces.
#[derive(Debug, Default)]
pub struct Lines {
    part: Vec<u8>,
    cut: bool,
    last: Option<u64>,
    plain: Vec<u8>,
}

impl Lines {
    /// Takes a piece; calls `each` for every line that is complete now.
    pub fn feed(&mut self, mut bytes: &[u8], mut each: impl FnMut(Record<'_>)) {
        while let Some(end) = bytes.iter().position(|b| *b == b'\n') {
            let (line, rest) = bytes.split_at(end);
            bytes = &rest[1..];
            if self.part.is_empty() && !self.cut {
                // The usual case: nothing to copy.
                let line = &line[..line.len().min(LONGEST)];
                one(line, &mut self.last, &mut self.plain, &mut each);
                continue;
            }
            self.append(line);
            let part = std::mem::take(&mut self.part);
            self.cut = false;
            one(&part, &mut self.last, &mut self.plain, &mut each);
            self.part = part;
            self.part.clear();
        }
        self.append(bytes);
    }

    fn append(&mut self, bytes: &[u8]) {
        let room = LONGEST - self.part.len();
        self.cut |= bytes.len() > room;
        self.part.extend_from_slice(&bytes[..bytes.len().min(room)]);
    }
}

fn one(
    line: &[u8],
    last: &mut Option<u64>,
    plain: &mut Vec<u8>,
    each: &mut impl FnMut(Record<'_>),
) {
    let line = line.strip_suffix(b"\r").unwrap_or(line);
    // Properties of the record before: SUBSYSTEM=, DEVICE=.
    if line.is_empty() || line[0] == b' ' {
        return;
    }
    let Some((head, text)) = head(line) else {
        each(Record { text: line, usec: None, missed: 0 });
        return;
    };
    let missed = match *last {
        // The first record, or a log that began anew.
        None => 0,
        Some(before) => head.seq.checked_sub(before).map_or(0, |d| d.saturating_sub(1)),
    };
    *last = Some(head.seq);
    let mut missed = Some(missed);
    let mut pass_on = |text: &[u8]| {
        each(Record { text, usec: Some(head.usec), missed: missed.take().unwrap_or(0) });
    };
    if !text.windows(2).any(|w| w == b"\\x") {
        pass_on(text);
        return;
    }
    unescape(text, plain);
    for part in plain.split(|b| *b == b'\n') {
        pass_on(part);
    }
}

struct Head {
    seq: u64,
    usec: u64,
}

/// Splits `6,1234,98765,-;text`.
fn head(line: &[u8]) -> Option<(Head, &[u8])> {
    if !line.first()?.is_ascii_digit() {
        return None;
    }
    let semicolon = line.iter().take(96).position(|b| *b == b';')?;
    let mut parts = line[..semicolon].split(|b| *b == b',');
    let mut number = || -> Option<u64> {
        let digits = parts.next()?;
        let all = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
        all.then(|| std::str::from_utf8(digits).ok()?.parse().ok()).flatten()
    };
    let (_priority, seq, usec) = (number()?, number()?, number()?);
    parts.next()?;
    Some((Head { seq, usec }, &line[semicolon + 1..]))
}

/// `\x0a` to its byte.
fn unescape(text: &[u8], out: &mut Vec<u8>) {
    out.clear();
    let mut i = 0;
    while i < text.len() {
        let code = text
            .get(i..i + 4)
            .filter(|e| e.starts_with(b"\\x"))
            .and_then(|e| std::str::from_utf8(&e[2..]).ok())
            .and_then(|e| u8::from_str_radix(e, 16).ok());
        match code {
            Some(b) => {
                out.push(b);
                i += 4;
            }
            None => {
                out.push(text[i]);
                i += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn all(pieces: &[&[u8]]) -> Vec<(String, Option<u64>, u64)> {
        let (mut lines, mut out) = (Lines::default(), Vec::new());
        for piece in pieces {
            lines.feed(piece, |r| {
                out.push((String::from_utf8_lossy(r.text).into_owned(), r.usec, r.missed));
            });
        }
        out
    }

    #[test]
    fn records_properties_escapes_and_gaps() {
        let got = all(&[
            b"6,100,5000,-;hello\n SUBSYSTEM=pci\n DEVICE=+pci:0000:18:00.0\n",
            b"4,101,6000,-;tab\\x09and\\x0asecond line\n",
            b"4,105,7000,-;after a gap\n",
        ]);
        assert_eq!(
            got,
            vec![
                ("hello".into(), Some(5000), 0),
                ("tab\tand".into(), Some(6000), 0),
                ("second line".into(), Some(6000), 0),
                ("after a gap".into(), Some(7000), 3),
            ]
        );
    }

    #[test]
    fn pieces_may_break_anywhere() {
        let whole = b"6,1,2,-;one\n K=v\n6,2,3,-;two\\x41\nplain line\n";
        let expected = all(&[whole]);
        assert_eq!(expected.len(), 3);
        for cut in 0..whole.len() {
            assert_eq!(all(&[&whole[..cut], &whole[cut..]]), expected, "cut at {cut}");
        }
    }

    #[test]
    fn a_log_that_begins_anew_misses_nothing_and_odd_heads_are_plain_lines() {
        let got = all(&[b"6,900,1,-;old boot\n6,0,1,-;new boot\n6,x,1,-;odd\n12:00 plain; text\n"]);
        let texts: Vec<_> = got.iter().map(|(t, ..)| t.as_str()).collect();
        assert_eq!(texts, ["old boot", "new boot", "6,x,1,-;odd", "12:00 plain; text"]);
        assert!(got.iter().all(|(.., missed)| *missed == 0));
    }

    #[test]
    fn a_line_without_end_is_cut() {
        let mut lines = Lines::default();
        for _ in 0..100 {
            lines.feed(&[b'x'; 1000], |_| panic!("no line is complete"));
        }
        let mut got = Vec::new();
        lines.feed(b"tail\nnext\n", |r| got.push(r.text.to_vec()));
        assert_eq!(got[0].len(), LONGEST);
        assert_eq!(got[1], b"next");
    }

    proptest! {
        #[test]
        fn any_bytes_in_any_pieces_do_no_harm(
            pieces in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..20)
        ) {
            let mut lines = Lines::default();
            for p in &pieces {
                lines.feed(p, |r| assert!(r.text.len() <= LONGEST));
            }
        }
    }
}
