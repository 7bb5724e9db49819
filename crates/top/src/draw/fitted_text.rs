//! Text that fits: everything that is drawn passes here, and nothing passes that could do more
//! than be read.

use muster_terminal::clean::plain;
use muster_terminal::output::colour::Style as Tone;
use ratatui::style::{Color, Modifier, Style};
use ratatui::text::{Line, Span};

/// Writes with or without colours.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pen {
    pub(crate) colour: bool,
}

impl Pen {
    /// How a meaning looks.
    pub(super) fn style(self, tone: Tone) -> Style {
        let base = Style::new();
        if !self.colour {
            return match tone {
                Tone::Bold | Tone::Bad => base.add_modifier(Modifier::BOLD),
                _ => base,
            };
        }
        match tone {
            Tone::Plain => base,
            Tone::Good => base.fg(Color::Green),
            Tone::Busy => base.fg(Color::Cyan),
            Tone::Warn => base.fg(Color::Yellow),
            Tone::Bad => base.fg(Color::Red).add_modifier(Modifier::BOLD),
            Tone::Faint => base.add_modifier(Modifier::DIM),
            Tone::Bold => base.add_modifier(Modifier::BOLD),
        }
    }

    /// A piece of text.
    pub(super) fn put(self, text: impl AsRef<str>, tone: Tone) -> Span<'static> {
        Span::styled(plain(text.as_ref()), self.style(tone))
    }

    /// A line of one piece.
    pub(super) fn line(self, text: impl AsRef<str>, tone: Tone) -> Line<'static> {
        Line::from(self.put(text, tone))
    }

    /// A line of several pieces.
    pub(super) fn pieces<'a>(
        self,
        all: impl IntoIterator<Item = (&'a str, Tone)>,
    ) -> Line<'static> {
        Line::from(all.into_iter().map(|(t, tone)| self.put(t, tone)).collect::<Vec<_>>())
    }
}

/// Columns that a text takes.
pub(super) fn wide(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { Span::raw(text).width() }
}

/// At most so many columns; what is left out shows as `…`.
pub(super) fn cut(text: &str, width: usize) -> String {
    let text = plain(text);
    if wide(&text) <= width {
        return text;
    }
    let (mut out, mut used) = (String::new(), 0);
    for c in text.chars() {
        let more = wide(c.encode_utf8(&mut [0; 4]));
        if used + more + 1 > width {
            break;
        }
        out.push(c);
        used += more;
    }
    if width > 0 {
        out.push('…');
    }
    out
}

/// Exactly so many columns.
pub(super) fn fit(text: &str, width: usize) -> String {
    let mut out = cut(text, width);
    out.extend(std::iter::repeat_n(' ', width.saturating_sub(wide(&out))));
    out
}

/// Exactly so many columns, the text at their end.
pub(super) fn right(text: &str, width: usize) -> String {
    let text = cut(text, width);
    format!("{}{text}", " ".repeat(width.saturating_sub(wide(&text))))
}

/// Words in lines of at most so many columns, all but the first indented.
pub(super) fn wrap(text: &str, width: usize, indent: usize) -> Vec<String> {
    let text = plain(text);
    let (mut lines, mut row) = (Vec::new(), String::new());
    for word in text.split_whitespace() {
        let word = cut(word, width.saturating_sub(indent).max(1));
        if !row.trim().is_empty() && wide(&row) + 1 + wide(&word) > width {
            lines.push(std::mem::take(&mut row));
            row = " ".repeat(indent);
        } else if !row.trim().is_empty() {
            row.push(' ');
        }
        row.push_str(&word);
    }
    if !row.trim().is_empty() {
        lines.push(row);
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_fits_whatever_it_holds() {
        assert_eq!(cut("hgx-0001", 8), "hgx-0001");
        assert_eq!(cut("hgx-0001", 5), "hgx-…");
        assert_eq!(cut("火火火", 5), "火火…");
        assert_eq!(cut("x", 0), "");
        assert_eq!((fit("ab", 4), right("ab", 4)), ("ab  ".into(), "  ab".into()));
        assert_eq!(fit("a\x1b[2Jb", 8), "a␛[2Jb  ");
        assert_eq!(wrap("one two three", 8, 2), ["one two", "  three"]);
        assert_eq!(wrap("", 8, 2), Vec::<String>::new());
        for width in 0..9 {
            assert_eq!(wide(&fit("火é\u{202e}x\tyz", width)), width);
        }
    }
}
