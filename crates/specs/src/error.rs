//! What is wrong with a file, and "did you mean".

pub use muster_model::near::closest;
use muster_model::spec::SpecProblem;
use std::fmt;

/// What is wrong with a file: where, what, and how to fix it. Shown as
/// `FILE:LINE:COLUMN: message` with the hint on a line of its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileError {
    /// The file's name, as the user gave it.
    pub origin: String,
    /// Line, from 1.
    pub line: Option<u32>,
    /// Column in characters, from 1.
    pub column: Option<u32>,
    /// Dotted path of the field, when one is the cause.
    pub field: Option<String>,
    /// What is wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl FileError {
    /// An error about the file as a whole.
    #[must_use]
    pub fn new(origin: &str, message: impl Into<String>) -> FileError {
        FileError {
            origin: origin.into(),
            line: None,
            column: None,
            field: None,
            message: message.into(),
            hint: None,
        }
    }

    /// The same, at a place.
    #[must_use]
    pub fn at(mut self, line: u32, column: u32) -> FileError {
        self.line = Some(line).filter(|l| *l > 0);
        self.column = Some(column).filter(|c| *c > 0 && self.line.is_some());
        self
    }

    /// The same, about a field.
    #[must_use]
    pub fn about(mut self, field: impl Into<String>) -> FileError {
        self.field = Some(field.into());
        self
    }

    /// The same, with a hint; an empty one is no hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> FileError {
        self.hint = Some(hint.into()).filter(|h| !h.is_empty());
        self
    }

    /// From a problem that the model found in a spec.
    #[must_use]
    pub fn from_problem(origin: &str, p: SpecProblem) -> FileError {
        FileError::new(origin, p.message).about(p.field).hint(p.hint.unwrap_or_default())
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.origin)?;
        if let Some(line) = self.line {
            write!(f, ":{line}")?;
        }
        if let Some(column) = self.column {
            write!(f, ":{column}")?;
        }
        f.write_str(": ")?;
        // The message of an unknown field already names it.
        if let Some(field) = &self.field
            && !self.message.contains(&format!("`{field}`"))
        {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.message)?;
        match &self.hint {
            Some(hint) => write!(f, "\n  hint: {hint}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for FileError {}

/// "did you mean `x`?", or what there is to choose from.
#[must_use]
pub fn did_you_mean(given: &str, known: &[&str]) -> String {
    match closest(given, known) {
        Some(k) => format!("did you mean `{k}`?"),
        None if known.is_empty() => String::new(),
        None => format!("known here: {}", known.join(", ")),
    }
}

/// Foreign text that is safe to show: short, and without control characters.
#[must_use]
pub fn shown(s: &str) -> String {
    s.chars().take(60).flat_map(char::escape_debug).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_like_a_compilers() {
        let e =
            FileError::new("job.yaml", "0 is too few").at(3, 9).about("gang.nodes").hint("use 1");
        assert_eq!(e.to_string(), "job.yaml:3:9: gang.nodes: 0 is too few\n  hint: use 1");
        assert_eq!(FileError::new("-", "empty").to_string(), "-: empty");
    }
}
