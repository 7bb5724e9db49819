//! Colours, on terminals only.

use crate::output;

/// What a piece of text means.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Style {
    /// Nothing special.
    #[default]
    Plain,
    /// As it should be.
    Good,
    /// Under way.
    Busy,
    /// Needs an eye.
    Warn,
    /// Something is wrong.
    Bad,
    /// Of little interest.
    Faint,
    /// Headings and names.
    Bold,
}

impl Style {
    fn code(self) -> &'static str {
        match self {
            Style::Plain => "",
            Style::Good => "\x1b[32m",
            Style::Busy => "\x1b[36m",
            Style::Warn => "\x1b[33m",
            Style::Bad => "\x1b[31m",
            Style::Faint => "\x1b[2m",
            Style::Bold => "\x1b[1m",
        }
    }
}

/// Whether the user's terminal wants colours at all.
pub fn wanted() -> bool {
    let set = |name| std::env::var_os(name).is_some_and(|v| !v.is_empty());
    !set("NO_COLOR") && std::env::var_os("TERM").is_none_or(|t| t != "dumb")
}

/// Whether stdout gets colours.
pub fn on() -> bool {
    output::is_terminal() && wanted()
}

/// The text in its colour, if `on`.
pub fn paint(text: &str, style: Style, on: bool) -> String {
    let code = style.code();
    if !on || code.is_empty() { text.into() } else { format!("{code}{text}\x1b[0m") }
}

/// How a job's or a node's state looks.
pub fn of_state(state: &str) -> Style {
    match state {
        "running" | "ready" | "valid" | "active" | "would start" => Style::Good,
        "starting" | "stopping" | "draining" | "qualifying" | "enrolled" | "scheduled" => {
            Style::Busy
        }
        "queued" | "held" | "cordoned" | "drained" | "protected" | "suspect" | "quarantined"
        | "repairing" | "would wait" | "ready, avoided" | "ready, no new work" => Style::Warn,
        "failed" | "lost" | "expired" | "can never start" => Style::Bad,
        "succeeded" | "cancelled" | "retired" | "over" => Style::Faint,
        _ => Style::Plain,
    }
}
