//! Text that nodes report, as it is stored.

use crate::names::turns_text;

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
            match c {
                '\n' | '\r' | '\t' => out.push(' '),
                c if is_odd(c) => out.extend(c.escape_unicode()),
                c => out.push(c),
            }
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
}
