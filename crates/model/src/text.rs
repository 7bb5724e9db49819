//! Text that nodes report, as it is stored, and lines of output, as they are shown.

use crate::names::turns_text;
use std::borrow::Cow;

/// At the end of what was cut.
const CUT: &str = "… (cut)";

/// Does a character move the cursor, or turn the text around it?
#[must_use]
pub fn is_odd(c: char) -> bool {
    c.is_control() || turns_text(c)
}

/// Makes one line of plain characters of at most `most` bytes: what ends a line becomes a space,
/// other characters that are not plain are written out, and what is too long is cut, with a mark.
pub fn bound(text: &mut String, most: usize) {
    if text.contains(is_odd) {
        let mut out = String::with_capacity(text.len().min(most));
        for c in text.chars() {
            write_plain(if c == '\t' { ' ' } else { c }, &mut out);
            if out.len() > most {
                break;
            }
        }
        *text = out;
    }
    if text.len() > most {
        text.truncate(text.floor_char_boundary(most.saturating_sub(CUT.len())));
        text.push_str(CUT);
    }
}

/// A line of output as it is shown: like [`bound`], but tabs stay, which output has in its tables,
/// and nothing is cut.
#[must_use]
pub fn plain_line(text: &str) -> Cow<'_, str> {
    let stays = |c: char| c == '\t' || !is_odd(c);
    if text.chars().all(stays) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        if c == '\t' {
            out.push(c);
        } else {
            write_plain(c, &mut out);
        }
    }
    Cow::Owned(out)
}

/// Writes a character as a plain one: what ends a line as a space, what is odd by its number.
fn write_plain(c: char, out: &mut String) {
    match c {
        '\n' | '\r' => out.push(' '),
        c if is_odd(c) => out.extend(c.escape_unicode()),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_one_plain_line_and_no_longer_than_it_may_be() {
        let of = |text: &str, most| {
            let mut once = text.to_owned();
            bound(&mut once, most);
            let mut twice = once.clone();
            bound(&mut twice, most);
            assert_eq!(once, twice, "bounded text stays as it is");
            once
        };
        assert_eq!(of("fine, with é", 100), "fine, with é");
        assert_eq!(of("a\nb\tc\u{7}\u{1b}[2J\u{202e}", 100), "a b c\\u{7}\\u{1b}[2J\\u{202e}");
        for odd in ["x", "é", "\u{7}", "日"] {
            let long = of(&odd.repeat(1 << 20), 1024);
            assert!(long.len() <= 1024 && long.len() > 1000, "{}", long.len());
            assert!(long.ends_with("… (cut)") && !long.contains(is_odd));
        }
    }

    #[test]
    fn a_line_of_output_turns_no_text_around_it() {
        let shown = plain_line("a\tb\r\u{7}\u{9b}2J\u{202e}txt.exe\u{2066}é");
        assert_eq!(shown, "a\tb \\u{7}\\u{9b}2J\\u{202e}txt.exe\\u{2066}é");
        assert!(matches!(plain_line("a\tplain é"), Cow::Borrowed(_)));
    }
}
