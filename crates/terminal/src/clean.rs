//! Output of jobs, made harmless for a terminal: colours pass, everything that could move the
//! cursor, hide text, turn it around, change the title or answer back is made visible.

use std::borrow::Cow;

/// Takes the bytes of one stream in pieces.
#[derive(Debug, Default)]
pub struct Cleaner {
    held: Vec<u8>,
    /// A return to the beginning of the line passes.
    returns: bool,
}

/// Longest colour sequence that passes.
const MAX_SEQUENCE: usize = 64;

impl Cleaner {
    /// One that lets a line be written over, as progress bars do. Otherwise what would be written over
    /// stays, on a line of its own.
    pub fn with_returns(returns: bool) -> Cleaner {
        Cleaner { returns, ..Cleaner::default() }
    }

    /// The harmless form of the next piece.
    pub fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let mut input = std::mem::take(&mut self.held);
        input.extend_from_slice(bytes);
        let mut out = Vec::with_capacity(input.len());
        let mut rest = &input[..];
        while let Some(&first) = rest.first() {
            let mut taken = 1;
            match first {
                b'\r' if !self.returns => match rest.get(1) {
                    None => break,
                    Some(b'\n') => out.push(first),
                    Some(b'\r') => {}
                    Some(_) => out.push(b'\n'),
                },
                b'\n' | b'\t' | b'\r' => out.push(first),
                0x1b => match sequence(rest) {
                    Sequence::Colour(n) => {
                        out.extend_from_slice(&rest[..n]);
                        taken = n;
                    }
                    Sequence::Unfinished => break,
                    Sequence::Other => out.extend_from_slice("␛".as_bytes()),
                },
                c if c < 0x20 => out.extend_from_slice(&[b'^', c + 0x40]),
                0x7f => out.extend_from_slice(b"^?"),
                c if c < 0x80 => out.push(c),
                c => match character(rest) {
                    Character::Unfinished => break,
                    Character::Whole(c) => {
                        taken = c.len_utf8();
                        match c {
                            // 8-bit forms of the same escape sequences.
                            '\u{80}'..='\u{9f}' => out.extend(in_hex(u32::from(c))),
                            c if turns(c) => {
                                out.extend(c.escape_unicode().to_string().into_bytes());
                            }
                            _ => out.extend_from_slice(&rest[..taken]),
                        }
                    }
                    Character::Invalid => alone(c, &mut out),
                },
            }
            rest = &rest[taken..];
        }
        self.held = rest.to_vec();
        out
    }

    /// What was held back waiting for more, once there is no more.
    pub fn finish(&mut self) -> Vec<u8> {
        let held = std::mem::take(&mut self.held);
        match held.first() {
            Some(0x1b) => {
                let mut out = "␛".as_bytes().to_vec();
                out.extend_from_slice(&held[1..]);
                out
            }
            // Whatever is written next would stand in the place of this line.
            Some(b'\r') => b"\n".to_vec(),
            // The beginning of a character that never came to an end.
            _ => {
                let mut out = Vec::new();
                held.iter().for_each(|c| alone(*c, &mut out));
                out
            }
        }
    }
}

/// A byte that is part of no character. A terminal that does not read UTF-8 obeys some of them.
fn alone(byte: u8, out: &mut Vec<u8>) {
    match byte {
        0x80..0xa0 => out.extend(in_hex(u32::from(byte))),
        _ => out.push(byte),
    }
}

fn in_hex(c: u32) -> Vec<u8> {
    format!("<{c:02x}>").into_bytes()
}

enum Character {
    Whole(char),
    Unfinished,
    Invalid,
}

/// The character that bytes begin with.
fn character(bytes: &[u8]) -> Character {
    let most = &bytes[..bytes.len().min(4)];
    let valid = match std::str::from_utf8(most) {
        Ok(_) => most.len(),
        Err(e) if e.valid_up_to() > 0 => e.valid_up_to(),
        Err(e) if e.error_len().is_none() => return Character::Unfinished,
        Err(_) => return Character::Invalid,
    };
    let first = std::str::from_utf8(&most[..valid]).ok().and_then(|text| text.chars().next());
    first.map_or(Character::Invalid, Character::Whole)
}

/// Marks that change the direction in which text is shown.
fn turns(c: char) -> bool {
    matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

enum Sequence {
    Colour(usize),
    Unfinished,
    Other,
}

/// `ESC [ digits ; : m` and nothing else is a colour, unless it hides what follows.
fn sequence(bytes: &[u8]) -> Sequence {
    match bytes.get(1) {
        None => return Sequence::Unfinished,
        Some(b'[') => {}
        Some(_) => return Sequence::Other,
    }
    for (n, b) in bytes.iter().enumerate().skip(2).take(MAX_SEQUENCE) {
        match b {
            b'0'..=b'9' | b';' | b':' => {}
            b'm' if conceals(&bytes[2..n]) => return Sequence::Other,
            b'm' => return Sequence::Colour(n + 1),
            _ => return Sequence::Other,
        }
    }
    if bytes.len() > MAX_SEQUENCE { Sequence::Other } else { Sequence::Unfinished }
}

/// Whether text is hidden: by an 8 that is not part of a colour.
fn conceals(parameters: &[u8]) -> bool {
    let number = |p: &[u8]| {
        let zeros = p.iter().take_while(|b| **b == b'0').count();
        std::str::from_utf8(&p[zeros..]).ok().and_then(|p| p.parse::<u32>().ok()).unwrap_or(0)
    };
    let mut all = parameters.split(|b| *b == b';').map(number);
    while let Some(one) = all.next() {
        match one {
            8 => return true,
            // One of 256 colours, or its three parts.
            38 | 48 | 58 => match all.next() {
                Some(5) => {
                    all.next();
                }
                Some(2) => {
                    all.nth(2);
                }
                Some(8) => return true,
                _ => {}
            },
            _ => {}
        }
    }
    false
}

/// Text from outside as one line of plain characters: no colours, nothing that moves the cursor,
/// turns the line around or takes no room. For screens that are drawn cell by cell.
pub fn plain(text: &str) -> String {
    let fine = |c: char| !c.is_control() && !unseen(c);
    if text.chars().all(fine) {
        return text.to_owned();
    }
    let text: String = text.chars().filter(|c| !unseen(*c)).collect();
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
    fn nothing_hides_what_was_printed() {
        // Written over, on a line of its own.
        assert_eq!(clean(b"secret\rharmless\r\nend\r\r\n\r"), "secret\nharmless\r\nend\r\n\n");
        assert_eq!(clean(b"a\x1b[8mb"), "a␛[8mb");
        assert_eq!(clean(b"a\x1b[1;08;31mb"), "a␛[1;08;31mb");
        let colours = "\x1b[38;5;8mgrey\x1b[48;2;8;8;8m\x1b[0m";
        assert_eq!(clean(colours.as_bytes()), colours);
        // Turned around; what joins the parts of a character stays.
        let text = "a\u{202e}b\u{2066}c\u{200f}d \u{1f469}\u{200d}\u{1f680}";
        let shown = "a\\u{202e}b\\u{2066}c\\u{200f}d \u{1f469}\u{200d}\u{1f680}";
        assert_eq!(clean(text.as_bytes()), shown);
        // For a terminal that reads single bytes; the same byte within a character is none of it.
        assert_eq!(clean(b"\x9b2J"), "<9b>2J");
        assert_eq!(clean("\u{165b}\u{45b}".as_bytes()), "\u{165b}\u{45b}");
        // A character that was cut off at the end of the output.
        assert_eq!(clean(b"\xe2\x9b"), "\u{fffd}<9b>");
        assert_eq!(clean(b"\xf0\x9f\x9a"), "\u{fffd}<9f><9a>");
        assert_eq!(clean(b"caf\xc3"), "caf\u{fffd}");
    }

    #[test]
    fn a_progress_bar_may_write_over_its_line_where_that_is_allowed() {
        let mut c = Cleaner::with_returns(true);
        assert_eq!(c.push(b"1%\r2%\r\n\x1b[2K"), "1%\r2%\r\n␛[2K".as_bytes());
        assert!(c.finish().is_empty());
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
