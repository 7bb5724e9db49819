//! How a command ends badly: what is said, and with which code.

use muster_client::ClientError;
use muster_model::spec::SpecProblem;
use std::borrow::Cow;
use std::error::Error as _;
use std::fmt::Display;

/// It failed.
pub const FAILED: u8 = 1;
/// Wrong usage.
pub const USAGE: u8 = 2;
/// No such thing.
pub const NOT_FOUND: u8 = 3;
/// Not for this token.
pub const NOT_ALLOWED: u8 = 4;
/// Refused by policy, or it contradicts the present state.
pub const REFUSED: u8 = 5;

/// What a failed command says.
#[derive(Debug)]
pub struct Fail {
    /// Exit code.
    pub code: u8,
    /// What went wrong.
    pub message: String,
    /// How to fix it.
    pub hint: Option<String>,
}

impl Fail {
    /// With this exit code.
    pub fn new(code: u8, message: impl Display) -> Fail {
        Fail { code, message: message.to_string(), hint: None }
    }

    /// It was tried and did not work.
    pub fn failed(message: impl Display) -> Fail {
        Fail::new(FAILED, message)
    }

    /// The command makes no sense as typed.
    pub fn usage(message: impl Display) -> Fail {
        Fail::new(USAGE, message)
    }

    /// With a way to repair it.
    pub fn hint(mut self, hint: impl Display) -> Fail {
        self.hint = Some(hint.to_string());
        self
    }

    /// The lines for the terminal.
    pub fn render(&self, colour: bool) -> String {
        let (red, cyan, off) =
            if colour { ("\x1b[1;31m", "\x1b[36m", "\x1b[0m") } else { ("", "", "") };
        let mut text = format!("{red}error:{off} {}\n", visible(&self.message));
        if let Some(hint) = &self.hint {
            text.push_str(&format!("{cyan}hint:{off} {}\n", visible(hint)));
        }
        text
    }
}

/// Messages may quote what a server or a file said.
fn visible(text: &str) -> Cow<'_, str> {
    crate::clean::escape_controls(text, false)
}

impl From<ClientError> for Fail {
    fn from(e: ClientError) -> Fail {
        let mut message = e.to_string();
        if let ClientError::Api { error, .. } = &e
            && let Some(field) = &error.field
            && !message.contains(field.as_str())
        {
            message = format!("{field}: {message}");
        }
        // The innermost cause ("connection refused") says most.
        let mut cause = e.source();
        while let Some(next) = cause.and_then(|c| c.source()) {
            cause = Some(next);
        }
        if let Some(cause) = cause {
            message = format!("{message}: {cause}");
        }
        Fail { code: e.exit_code(), message, hint: e.hint() }
    }
}

impl From<SpecProblem> for Fail {
    fn from(p: SpecProblem) -> Fail {
        let SpecProblem { field, message, hint } = p;
        Fail { code: USAGE, message: format!("{field}: {message}"), hint }
    }
}

impl From<muster_specs::FileError> for Fail {
    fn from(mut e: muster_specs::FileError) -> Fail {
        let hint = e.hint.take();
        Fail { code: USAGE, message: e.to_string(), hint }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_two_plain_lines_when_piped() {
        let f = Fail::usage("no \x1b[31mred").hint("write green");
        assert_eq!(f.render(false), "error: no \\u{1b}[31mred\nhint: write green\n");
        assert!(f.render(true).starts_with("\x1b[1;31merror:"));
    }

    #[test]
    fn a_refusal_keeps_field_hint_and_code() {
        let e = ClientError::Api {
            status: 422,
            error: muster_api::ErrorInfo {
                code: "invalid".into(),
                message: "must be positive".into(),
                field: Some("gang.nodes".into()),
                hint: Some("ask for one".into()),
            },
        };
        let f = Fail::from(e);
        assert_eq!(f.code, USAGE);
        assert_eq!(f.message, "gang.nodes: must be positive");
        assert_eq!(f.hint.as_deref(), Some("ask for one"));
    }
}
