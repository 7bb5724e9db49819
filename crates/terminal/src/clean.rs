//! Output of jobs, made harmless for a terminal: colours pass, everything that could move the
//! cursor, change the title or answer back is made visible.

use std::borrow::Cow;

/// Takes the bytes of one stream in pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    held: Vec<u8>,
}

/// Longest colour sequence that passes.
const MAX_SEQUENCE: usize = 64;

impl Cleaner {
    /// The harmless form of the next piece.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(input.len());
        let mut i = 0;
        while i < input.len() {
            let rest = &input[i..];
            match rest[0] {
                b'\n' | b'\t' | b'\r' => {
                    out.push(rest[0]);
                    i += 1;
                }
                0x1b => match sequence(rest) {
                    Sequence::Colour(n) => {
                        out.extend_from_slice(&rest[..n]);
                        i += n;
                    }
                    Sequence::Unfinished => {
                        self.held = rest.to_vec();
                        return out;
                    }
                    Sequence::Other => {
                        out.extend_from_slice("␛".as_bytes());
                        i += 1;
                    }
                },
                c if c < 0x20 => {
                    out.extend_from_slice(&[b'^', c + 0x40]);
                    i += 1;
                }
                0x7f => {
                    out.extend_from_slice(b"^?");
                    i += 1;
                }
                // C1 controls as UTF-8: 8-bit forms of the same escape sequences.
                0xc2 => match rest.get(1) {
                    None => {
                        self.held = rest.to_vec();
                        return out;
                    }
                    Some(c @ 0x80..=0x9f) => {
                        out.extend_from_slice(format!("<{c:02x}>").as_bytes());
                        i += 2;
                    }
                    Some(_) => {
                        out.extend_from_slice(&rest[..2]);
                        i += 2;
                    }
                },
                c => {
                    out.push(c);
                    i += 1;
                }
            }
        }
        out
    }

    /// What was held back waiting for more, once there is no more.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        if held.first() == Some(&0x1b) {
            let mut out = "␛".as_bytes().to_vec();
            out.extend_from_slice(&held[1..]);
            return out;
        }
        held
    }
}

enum Sequence {
    Colour(usize),
    Unfinished,
    Other,
}

/// `ESC [ digits ; : m` and nothing else is a colour.
fn sequence(bytes: &[u8]) -> Sequence {
    match bytes.get(1) {
        None => return Sequence::Unfinished,
        Some(b'[') => {}
        Some(_) => return Sequence::Other,
    }
    for (n, b) in bytes.iter().enumerate().skip(2).take(MAX_SEQUENCE) {
        match b {
            b'0'..=b'9' | b';' | b':' => {}
            b'm' => return Sequence::Colour(n + 1),
            _ => return Sequence::Other,
        }
    }
    if bytes.len() > MAX_SEQUENCE { Sequence::Other } else { Sequence::Unfinished }
}

/// Text from outside as one line of plain characters: no colours, nothing that moves the cursor,
/// turns the line around or takes no room. For screens that are drawn cell by cell.
pub fn plain(text: &str) -> String {
    let fine = |c: char| !c.is_control() && !unseen(c);
    if text.chars().all(fine) {
        return text.to_owned();
    }
    let mut cleaner = Cleaner::default();
    let mut bytes = cleaner.push(text.as_bytes());
    bytes.extend(cleaner.finish());
    let text = String::from_utf8_lossy(&bytes);
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            // Only colours are left of what begins with it, and they end with an `m`.
            '\x1b' => while rest.next().is_some_and(|c| c != 'm') {},
            '\t' => out.push_str("    "),
            c if fine(c) => out.push(c),
            c if unseen(c) => {}
            _ => out.push(' '),
        }
    }
    out
}

/// Text from outside for one line of a terminal: whatever is not plainly seen is written out.
pub fn line(text: &str) -> Cow<'_, str> {
    written_out(text, |_| false, false)
}

/// Text of several lines for a terminal, with what came from outside in it: whatever could move the
/// cursor, change the title or turn text around is written out. Colours pass where this process
/// paints.
pub(crate) fn escape_controls(text: &str, colours: bool) -> Cow<'_, str> {
    written_out(text, |c| matches!(c, '\n' | '\t'), colours)
}

fn written_out(text: &str, passes: impl Fn(char) -> bool, colours: bool) -> Cow<'_, str> {
    let plain = |c: char| passes(c) || !(c.is_control() || unseen(c));
    if text.chars().all(plain) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let mut taken = c.len_utf8();
        match sequence(rest.as_bytes()) {
            Sequence::Colour(n) if colours && c == '\x1b' => {
                out.push_str(&rest[..n]);
                taken = n;
            }
            _ if plain(c) => out.push(c),
            _ if unseen(c) => out.extend(c.escape_unicode()),
            _ => out.extend(c.escape_debug()),
        }
        rest = &rest[taken..];
    }
    Cow::Owned(out)
}

/// Marks of direction and other characters that are not seen but change what is.
fn unseen(c: char) -> bool {
    matches!(c, '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{ad}' | '\u{61c}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_text_is_one_line_without_any_sequence() {
        for (text, want) in [
            ("hgx-01", "hgx-01"),
            ("\x1b[1;31mréd\x1b[0m\tok", "réd    ok"),
            ("\x1b[2Jgone\x1b]0;title\x07", "␛[2Jgone␛]0;title^G"),
            ("a\r\nb", "a  b"),
            ("\u{9b}2J\u{202e}txt.exe\u{200b}", "<9b>2Jtxt.exe"),
            ("cut \x1b[3", "cut ␛[3"),
        ] {
            assert_eq!(plain(text), want, "{text:?}");
            assert!(!plain(text).chars().any(char::is_control));
        }
    }

    fn clean(text: &[u8]) -> String {
        let whole = {
            let mut c = Cleaner::default();
            let mut out = c.push(text);
            out.extend(c.finish());
            String::from_utf8_lossy(&out).into_owned()
        };
        // Cut anywhere, the result is the same.
        for size in 1..4 {
            let mut c = Cleaner::default();
            let mut out: Vec<u8> = text.chunks(size).flat_map(|p| c.push(p)).collect();
            out.extend(c.finish());
            assert_eq!(String::from_utf8_lossy(&out), whole);
        }
        whole
    }

    #[test]
    fn colours_and_text_pass() {
        assert_eq!(
            clean("\x1b[1;31mréd\x1b[0m\tok\r\n".as_bytes()),
            "\x1b[1;31mréd\x1b[0m\tok\r\n"
        );
    }

    #[test]
    fn dangerous_sequences_become_visible() {
        assert_eq!(clean(b"\x1b[2Jgone"), "␛[2Jgone");
        assert_eq!(clean(b"\x1b]0;title\x07"), "␛]0;title^G");
        assert_eq!(clean(b"\x08\x7f"), "^H^?");
        assert_eq!(clean("\u{9b}2J".as_bytes()), "<9b>2J");
        assert_eq!(clean(b"\x1b"), "␛");
    }

    #[test]
    fn what_a_terminal_would_obey_is_written_out() {
        let text = "a\x1b[2J\u{9b}2J\x7f\r\u{202e}b\n\tc\x1b[1mé\x1b[0m";
        let all = "a\\u{1b}[2J\\u{9b}2J\\u{7f}\\r\\u{202e}b";
        assert_eq!(escape_controls(text, true), format!("{all}\n\tc\x1b[1mé\x1b[0m"));
        assert_eq!(escape_controls(text, false), format!("{all}\n\tc\\u{{1b}}[1mé\\u{{1b}}[0m"));
        assert_eq!(line(text), format!("{all}\\n\\tc\\u{{1b}}[1mé\\u{{1b}}[0m"));
        assert!(matches!(escape_controls("plain\n", false), Cow::Borrowed(_)));
    }
}
