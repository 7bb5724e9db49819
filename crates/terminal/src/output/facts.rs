//! `Name:      value` lines, sections and tables: one thing, reported at length.

use super::colour::{Style, paint};
use super::table::Table;

/// What is shown of one thing.
#[derive(Debug, Default)]
pub struct Facts(pub String);

impl Facts {
    /// With nothing in it.
    #[must_use]
    pub fn new() -> Facts {
        Facts(String::new())
    }

    /// A line; what is not known is not shown.
    pub fn line(&mut self, name: &str, value: impl std::fmt::Display) {
        let value = plain(&value.to_string());
        if !value.is_empty() {
            self.0.push_str(&format!("{:<13} {value}\n", format!("{name}:")));
        }
    }

    /// A line of plain text, indented.
    pub fn text(&mut self, text: &str) {
        self.0.push_str(&format!("  {}\n", plain(text)));
    }

    /// Begins a section.
    pub fn section(&mut self, title: &str, on: bool) {
        if !self.0.is_empty() {
            self.0.push('\n');
        }
        self.0.push_str(&format!("{}\n", paint(title, Style::Bold, on)));
    }

    /// Puts a table under the section.
    pub fn table(&mut self, table: &Table, on: bool) {
        for line in table.render_for(super::width().map(|w| w - 2), on).lines() {
            self.0.push_str(&format!("  {line}\n"));
        }
    }
}

fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}
