//! Bytes to lines: what becomes an entry of the index, and what of a line is shown.

/// Most bytes of a line that are searched. The rest of a longer one is kept, but not found.
pub const MAX_LINE: usize = 4096;

/// How far a stream is indexed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Position {
    /// Offset of the first byte that is not indexed.
    pub next: u64,
    /// The number of the line there; none once a part of the stream was missing, since nobody knows
    /// how many lines that had.
    pub line: Option<u64>,
    /// The beginning of the line there is indexed, and its end has not come yet.
    pub within: bool,
}

impl Default for Position {
    fn default() -> Position {
        Position { next: 0, line: Some(1), within: false }
    }
}

impl Position {
    /// What is between here and `offset` is not kept.
    pub fn skip_to(&mut self, offset: u64) {
        if offset > self.next {
            *self = Position { next: offset, line: None, within: false };
        }
    }
}

/// A line that can be searched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Line {
    /// Offset of its first byte in its stream.
    pub offset: u64,
    /// Its bytes, without its end and without what is too long.
    pub len: usize,
    /// Counts from 1, where it is known.
    pub number: Option<u64>,
    /// When its first byte came, where it is known: milliseconds since 1970.
    pub at: Option<i64>,
    /// What is searched.
    pub text: String,
}

/// Cuts bytes that begin at `position` into lines. A last line without its end is left for the next
/// time, unless nothing follows it (`ended`) or it is too long to wait for. `times` says from which offset
/// on they came when, in order; what is before the first has no time.
#[must_use]
pub fn cut_lines(
    mut position: Position,
    data: &[u8],
    times: &[(u64, Option<i64>)],
    ended: bool,
) -> (Vec<Line>, Position) {
    let mut lines = Vec::new();
    let mut rest = data;
    while !rest.is_empty() {
        let newline = rest.iter().position(|b| *b == b'\n');
        let (body, taken) = match newline {
            Some(n) => (&rest[..n], n + 1),
            None if ended || position.within || rest.len() >= MAX_LINE => (rest, rest.len()),
            None => break,
        };
        if !position.within {
            let body = &body[..body.len().min(MAX_LINE)];
            let text = without_sequences(&String::from_utf8_lossy(body));
            // Blank lines and rulers are counted, and nobody can search for them.
            if text.contains(char::is_alphanumeric) {
                let holds = times.partition_point(|(from, _)| *from <= position.next);
                lines.push(Line {
                    offset: position.next,
                    len: body.len(),
                    number: position.line,
                    at: times[..holds].last().and_then(|(_, at)| *at),
                    text,
                });
            }
        }
        position.next += taken as u64;
        position.within = newline.is_none() && !ended;
        if !position.within {
            position.line = position.line.map(|n| n + 1);
        }
        rest = &rest[taken..];
    }
    (lines, position)
}

/// Text without what colours it or moves a terminal's cursor: `31mERROR` is not a word.
fn without_sequences(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        if c != '\u{1b}' {
            out.push(c);
            continue;
        }
        match rest.next() {
            // Parameters, then one character that ends it.
            Some('[') => {
                let _end = rest.by_ref().find(|c| !matches!(c, ' '..='?'));
            }
            // A title: up to a bell, or to another escape character and what follows that.
            Some(']') => {
                let end = rest.by_ref().find(|c| matches!(c, '\u{7}' | '\u{1b}'));
                let _last = end.filter(|c| *c == '\u{1b}').and_then(|_| rest.next());
            }
            _ => {}
        }
    }
    out
}

/// A line as it is shown: without colours, at most `most` characters; and whether it was cut.
#[must_use]
pub fn shown_line(bytes: &[u8], most: usize) -> (String, bool) {
    let text = without_sequences(&String::from_utf8_lossy(bytes));
    let text = text.trim_end_matches(['\r', '\n']);
    match text.char_indices().nth(most) {
        Some((end, _)) => (text[..end].to_owned(), true),
        None => (text.to_owned(), false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn found(lines: &[Line]) -> Vec<(u64, Option<u64>, &str)> {
        lines.iter().map(|l| (l.offset, l.number, l.text.as_str())).collect()
    }

    #[test]
    fn whole_lines_are_taken_and_the_last_one_waits_for_its_end() {
        let (lines, at) = cut_lines(Position::default(), b"one\n\n--\ntwo\nthr", &[], false);
        assert_eq!(found(&lines), [(0, Some(1), "one"), (8, Some(4), "two")]);
        assert_eq!(at, Position { next: 12, line: Some(5), within: false });
        let (lines, at) = cut_lines(at, b"three", &[], true);
        assert_eq!(found(&lines), [(12, Some(5), "three")]);
        assert_eq!((at.next, at.line), (17, Some(6)));
    }

    #[test]
    fn a_line_that_never_ends_is_searched_by_its_beginning() {
        let long = "word ".repeat(1000);
        let (lines, at) = cut_lines(Position::default(), long.as_bytes(), &[], false);
        assert_eq!((lines.len(), lines[0].len), (1, MAX_LINE));
        assert_eq!(at, Position { next: 5000, line: Some(1), within: true });
        let (lines, at) = cut_lines(at, b"more of it\nnext\n", &[], false);
        assert_eq!(found(&lines), [(5011, Some(2), "next")]);
        assert_eq!(at, Position { next: 5016, line: Some(3), within: false });
    }

    #[test]
    fn after_a_hole_lines_have_no_number() {
        let mut at = Position::default();
        at.skip_to(0);
        assert_eq!(at.line, Some(1), "nothing was missing");
        at.skip_to(100);
        let (lines, _) = cut_lines(at, b"late\n", &[], false);
        assert_eq!(found(&lines), [(100, None, "late")]);
    }

    #[test]
    fn a_line_has_the_time_of_its_first_byte() {
        let times = [(4, Some(66)), (6, Some(77)), (17, None), (25, Some(88))];
        let text = b"old\nhalf new\nnew\nno time\nlast\n";
        let (lines, _) = cut_lines(Position::default(), text, &times, false);
        let at: Vec<_> = lines.iter().map(|l| l.at).collect();
        assert_eq!(at, [None, Some(66), Some(77), None, Some(88)]);
    }

    #[test]
    fn colours_and_titles_are_no_words() {
        let text =
            "\u{1b}[1;31mERROR\u{1b}[0m of \u{1b}]0;title\u{7}rank \u{1b}]2;x\u{1b}\\3\u{1b}";
        assert_eq!(without_sequences(text), "ERROR of rank 3");
        assert_eq!(shown_line(text.as_bytes(), 5), ("ERROR".to_owned(), true));
        assert_eq!(shown_line(b"done\r", 10), ("done".to_owned(), false));
    }

    proptest! {
        #[test]
        fn however_it_comes_every_byte_is_passed_once(
            data in prop::collection::vec(prop::sample::select(b"ab \n\r\x1b[m".to_vec()), 0..200),
            step in 1usize..20,
        ) {
            let times = [(9, Some(1)), (40, None), (90, Some(2))];
            let (whole, end) = cut_lines(Position::default(), &data, &times, true);
            let (mut at, mut pieces, mut given) = (Position::default(), Vec::new(), 0);
            while given < data.len() {
                given = (given + step).min(data.len());
                let from = usize::try_from(at.next).unwrap();
                let (lines, next) = cut_lines(at, &data[from..given], &times, given == data.len());
                pieces.extend(lines);
                at = next;
            }
            prop_assert_eq!(pieces, whole);
            prop_assert_eq!(at, end);
        }
    }
}
