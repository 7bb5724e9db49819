//! Tables that fit the terminal.

use super::colour::{Style, paint};
use crate::clean::line;

/// One cell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Cell {
    text: String,
    style: Style,
    right: bool,
}

/// A cell of text. Control characters, and those that turn text around or are not seen, are made
/// visible, and it is always one line.
pub fn cell(text: impl ToString) -> Cell {
    let text = line(&text.to_string()).into_owned();
    Cell { text, ..Cell::default() }
}

/// A cell with a number.
pub fn number(n: impl ToString) -> Cell {
    Cell { right: true, ..cell(n) }
}

/// A cell with a state.
pub fn state(word: &str) -> Cell {
    cell(word).style(super::colour::of_state(word))
}

impl Cell {
    /// In this style.
    pub fn style(mut self, style: Style) -> Cell {
        self.style = style;
        self
    }

    fn width(&self) -> usize {
        self.text.chars().count()
    }
}

/// A table: a head and rows of as many cells.
#[derive(Debug, Clone, Default)]
pub struct Table {
    head: Vec<&'static str>,
    rows: Vec<Vec<Cell>>,
}

/// Columns are never made narrower than this.
const NARROWEST: usize = 6;

impl Table {
    /// With these headings.
    #[must_use]
    pub fn new(head: &[&'static str]) -> Table {
        Table { head: head.to_vec(), rows: Vec::new() }
    }

    /// Adds a row.
    pub fn row(&mut self, cells: Vec<Cell>) {
        self.rows.push(cells);
    }

    /// For this process's stdout.
    pub fn render(&self) -> String {
        self.render_for(super::width(), super::colour::on())
    }

    /// Fits into `width` by cutting the widest column, again and again; no width, no cutting.
    pub fn render_for(&self, width: Option<usize>, colour: bool) -> String {
        let mut widths: Vec<usize> = self.head.iter().map(|h| h.chars().count()).collect();
        for row in &self.rows {
            for (w, c) in widths.iter_mut().zip(row) {
                *w = (*w).max(c.width());
            }
        }
        if let Some(width) = width {
            fit(&mut widths, width);
        }
        let mut head: Vec<Cell> = self.head.iter().map(|h| cell(h).style(Style::Bold)).collect();
        // A heading stands over its column's numbers.
        for (h, c) in head.iter_mut().zip(self.rows.first().into_iter().flatten()) {
            h.right = c.right;
        }
        let mut text = String::new();
        for row in std::iter::once(&head).chain(&self.rows) {
            let mut line = String::new();
            for (n, (c, w)) in row.iter().zip(&widths).enumerate() {
                let last = n + 1 == row.len();
                let shown = cut(&c.text, *w);
                let pad = " ".repeat(w.saturating_sub(shown.chars().count()));
                let shown = paint(&shown, c.style, colour);
                match (c.right, last) {
                    (true, _) => line.push_str(&format!("{pad}{shown}")),
                    (false, true) => line.push_str(&shown),
                    (false, false) => line.push_str(&format!("{shown}{pad}")),
                }
                if !last {
                    line.push_str("  ");
                }
            }
            text.push_str(line.trim_end());
            text.push('\n');
        }
        text
    }
}

fn fit(widths: &mut [usize], width: usize) {
    let gaps = 2 * widths.len().saturating_sub(1);
    while widths.iter().sum::<usize>() + gaps > width {
        let total = widths.iter().sum::<usize>() + gaps;
        let mut sorted: Vec<usize> = widths.to_vec();
        sorted.sort_unstable_by(|a, b| b.cmp(a));
        let (Some(widest), second) = (sorted.first().copied(), sorted.get(1).copied()) else {
            return;
        };
        if widest <= NARROWEST {
            return;
        }
        // Down to the next widest at a time, so that a long reason pays before names do.
        let floor = second.unwrap_or(0).max(NARROWEST).min(widest - 1);
        let to = widest.saturating_sub(total - width).max(floor);
        if let Some(w) = widths.iter_mut().rfind(|w| **w == widest) {
            *w = to;
        }
    }
}

fn cut(text: &str, width: usize) -> String {
    if text.chars().count() <= width {
        return text.into();
    }
    let mut short: String = text.chars().take(width.saturating_sub(1)).collect();
    short.push('…');
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut t = Table::new(&["ID", "NAME", "GPUS", "REASON"]);
        t.row(vec![cell("1"), cell("a"), number(16), cell("waits for 2 nodes of 8 GPUs")]);
        t.row(vec![cell("22"), cell("training-run"), number(8), cell("")]);
        t
    }

    #[test]
    fn what_turns_text_around_or_is_not_seen_is_shown() {
        let text = cell("a\u{202e}txt.exe\u{2066}\u{200b}\u{7}é").text;
        assert_eq!(text, "a\\u{202e}txt.exe\\u{2066}\\u{200b}\\u{7}é");
        assert_eq!(cell("naïve 火").text, "naïve 火");
    }

    #[test]
    fn columns_line_up_and_numbers_stand_right() {
        assert_eq!(
            table().render_for(None, false),
            "ID  NAME          GPUS  REASON\n\
             1   a               16  waits for 2 nodes of 8 GPUs\n\
             22  training-run     8\n"
        );
    }

    #[test]
    fn the_widest_column_is_cut_to_fit() {
        let text = table().render_for(Some(40), false);
        assert!(text.lines().all(|l| l.chars().count() <= 40), "{text}");
        assert!(text.contains("waits for 2 nod…"), "{text}");
        assert!(text.contains("training-run"), "{text}");
        // Absurdly narrow terminals get what they get, without panic or endless loop.
        let _ = table().render_for(Some(1), false);
    }

    #[test]
    fn control_characters_never_reach_the_terminal() {
        let mut t = Table::new(&["NAME"]);
        t.row(vec![cell("evil\x1b[2J\nname")]);
        let text = t.render_for(None, true);
        assert!(!text.contains("\x1b[2J") && text.lines().count() == 2, "{text:?}");
    }

    #[test]
    fn colours_come_only_when_asked_for() {
        let mut t = Table::new(&["STATE"]);
        t.row(vec![state("running")]);
        assert!(!t.render_for(None, false).contains('\x1b'));
        assert!(t.render_for(None, true).contains("\x1b[32mrunning\x1b[0m"));
    }
}
