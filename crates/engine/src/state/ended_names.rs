//! Tokens and silences that are over: who ends one a second time reads that it was done, and who
//! slips in its name reads that there is none.

use super::State;
use muster_model::names::Label;
use muster_model::units::{Span, Time};

/// So many are known, the newest.
const OVER_MAX: usize = 2000;
/// An expired token is listed for at least so long: it goes with the next token
/// that is created.
const EXPIRED_FOR: Span = Span::hours(30 * 24);

/// A token by its id or its name.
pub(crate) fn token(word: &str) -> String {
    format!("token:{word}")
}

/// A silence by its name.
pub(crate) fn silence(name: &Label) -> String {
    format!("silence:{name}")
}

impl State {
    /// Was it ended, as [`token`] or [`silence`] writes it?
    pub(crate) fn is_over(&self, what: &str) -> bool {
        self.over.iter().any(|w| w == what)
    }

    pub(crate) fn note_over(&mut self, what: String) {
        self.over.retain(|w| *w != what);
        self.over.push(what);
        if self.over.len() > OVER_MAX {
            self.over.remove(0);
        }
    }

    /// A token ends by somebody's wish.
    pub(crate) fn end_token(&mut self, id: &str) {
        if let Some(t) = self.tokens.remove(id) {
            self.note_over(token(t.name.as_str()));
        }
        self.note_over(token(id));
    }

    /// Tokens that nobody can use any more are not listed for ever. Their ids are random and long: none
    /// returns.
    pub(crate) fn drop_expired_tokens(&mut self, now: Time) {
        self.tokens.retain(|_, t| t.expires_at.is_none_or(|end| now.since(end) < EXPIRED_FOR));
    }
}
