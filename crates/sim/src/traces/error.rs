//! What is wrong with a trace, and what was read all the same.

use std::fmt;

/// What to do with a row that cannot be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnBadRow {
    /// It is the error.
    Stop,
    /// It is left out and named in [`Read::skipped`].
    Skip,
}

/// What was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Read<T> {
    /// In the order of the file.
    pub items: Vec<T>,
    /// Rows left out; empty with [`OnBadRow::Stop`].
    pub skipped: Vec<RowProblem>,
}

/// A row that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RowProblem {
    /// Row, from 1, without the head, remarks and blank lines.
    pub row: u32,
    /// Line of the text, from 1.
    pub line: u32,
    /// What is wrong.
    pub message: String,
}

impl fmt::Display for RowProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "row {} (line {}): {}", self.row, self.line, self.message)
    }
}

/// Why a trace was not read. Shown as `FILE: row 17 (line 18): message`, with the hint on a line of
/// its own.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{file}: {}{message}{}", shown_row(*.row, *.line), shown_hint(.hint.as_deref()))]
pub struct TraceError {
    /// The file's name, as given.
    pub file: String,
    /// Row, from 1, when one is the cause.
    pub row: Option<u32>,
    /// Line of the text, from 1.
    pub line: Option<u32>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

fn shown_row(row: Option<u32>, line: Option<u32>) -> String {
    match (row, line) {
        (Some(row), Some(line)) => format!("row {row} (line {line}): "),
        _ => String::new(),
    }
}

fn shown_hint(hint: Option<&str>) -> String {
    hint.map(|h| format!("\n  hint: {h}")).unwrap_or_default()
}

impl TraceError {
    /// An error about the file as a whole.
    pub(super) fn new(file: &str, message: impl Into<String>) -> TraceError {
        TraceError { file: file.into(), row: None, line: None, message: message.into(), hint: None }
    }

    /// The same, with a hint; an empty one is no hint.
    pub(super) fn hint(mut self, hint: impl Into<String>) -> TraceError {
        self.hint = Some(hint.into()).filter(|h| !h.is_empty());
        self
    }

    /// An error about one row.
    pub(super) fn of_row(file: &str, problem: RowProblem) -> TraceError {
        TraceError {
            row: Some(problem.row),
            line: Some(problem.line),
            ..TraceError::new(file, problem.message)
        }
    }
}

/// A piece of the file that is safe to show: short, and without control characters.
pub(super) fn shown(text: &str) -> String {
    text.chars().take(60).flat_map(char::escape_debug).collect()
}
