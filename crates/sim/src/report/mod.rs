//! The report of a run: one page of HTML that stands alone, made of nothing but what the run left.
//! Charts are SVG stretched under labels in HTML, so that words stay legible at every width.

/// Writes into a string, which cannot fail.
macro_rules! put {
    ($out:expr, $($arg:tt)*) => {{
        use std::fmt::Write as _;
        let _ = write!($out, $($arg)*);
    }};
}

mod axis;
mod bars;
mod cdf;
mod faults;
mod line;
mod map;
mod page;
mod table;
mod tiles;
mod words;

#[cfg(test)]
mod tests;

use crate::outcome::{History, Outcome};

pub use page::{page, page_with};

/// One run, as the report gets it.
#[derive(Debug, Clone, Copy)]
pub struct Run<'a> {
    /// What distinguishes it from the other runs of the page.
    pub label: &'a str,
    /// What the scenario is, in a paragraph.
    pub about: &'a str,
    /// What came of it: the metrics.
    pub outcome: &'a Outcome,
    /// Its course over time.
    pub history: &'a History,
}

/// What several runs say together: a table of words and figures.
#[derive(Debug, Clone, Default)]
pub struct ReportSheet {
    /// What it is about.
    pub title: String,
    /// How to read it.
    pub note: String,
    /// The heads of its columns.
    pub heads: Vec<String>,
    /// Its rows, with as many cells.
    pub rows: Vec<Vec<String>>,
}
