//! Runs of runbooks. A step and what it does are one round of the log, so that a server that
//! starts anew never does it twice and never forgets that it was done.

mod act;
mod apply;
mod decide;
mod look;
mod rehearse;
mod step;

pub use rehearse::{DryStep, Rehearsed, rehearse};

use muster_model::command::{Refusal, RefusalCode};
use muster_model::runbook::{Run, SiteBook};
use muster_runbook::{Book, parse, shelf};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(crate) use decide::decide;

/// Ended runs that are kept in the working state; the log keeps all.
const RUNS_KEPT: usize = 512;
/// Runs that go on at a time.
const LIVE_MAX: usize = 64;
/// Books of the site's own.
const BOOKS_MAX: usize = 256;

/// The site's own books, and runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RunbookShelf {
    /// Books that the site wrote or changed.
    pub books: BTreeMap<String, Arc<SiteBook>>,
    /// Runs: all that go on, and those that ended lately.
    pub runs: BTreeMap<u64, Arc<Run>>,
    /// Those that go on; derived.
    #[serde(skip)]
    pub(crate) live: BTreeSet<u64>,
}

impl RunbookShelf {
    /// Nothing was ever written down here.
    pub(crate) fn is_empty(&self) -> bool {
        self.books.is_empty() && self.runs.is_empty()
    }

    /// Finds anew what goes on.
    pub(crate) fn reindex(&mut self) {
        let going = self.runs.values().filter(|r| r.ended.is_none());
        self.live = going.map(|r| r.id).collect();
    }

    /// Runs that go on, oldest first.
    pub fn live(&self) -> impl Iterator<Item = &Arc<Run>> {
        self.live.iter().filter_map(|id| self.runs.get(id))
    }

    /// Text of a book: the site's own, or the one that came with Muster. With it the record of the
    /// site's own.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<(Arc<str>, Option<u64>)> {
        match self.books.get(name) {
            Some(b) => Some((b.text.clone(), Some(b.version))),
            None => shelf::text(name).map(|t| (Arc::from(t), None)),
        }
    }

    /// Every book, by name: the site's own before those that came with Muster.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, (Book, Option<u64>)> {
        let names = shelf::names().map(str::to_owned).chain(self.books.keys().cloned());
        let read = |name: String| {
            let (text, version) = self.text(&name)?;
            Some((name.clone(), (parse(&name, &text).ok()?, version)))
        };
        names.filter_map(read).collect()
    }

    /// Names of the books that serve a failure mode or a topic: the site's own first.
    #[must_use]
    pub fn for_mode(&self, mode: &str) -> Vec<String> {
        let serves = |b: &Book| b.modes.iter().chain(&b.topics).any(|m| m == mode);
        let mut out: Vec<(bool, String)> = self
            .all()
            .into_iter()
            .filter(|(_, (b, _))| serves(b))
            .map(|(name, (_, version))| (version.is_none(), name))
            .collect();
        out.sort();
        out.into_iter().map(|(_, n)| n).collect()
    }

    /// The book of this name, or the first that serves what is called so: an alert names what is
    /// wrong, and several things share a book.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<String> {
        if self.text(word).is_some() {
            return Some(word.to_owned());
        }
        self.for_mode(word).into_iter().next()
    }
}

/// The book that a run follows.
pub(crate) fn read(name: &str, text: &str) -> Result<Book, Refusal> {
    parse(name, text).map_err(|e| {
        let hint = e.hint.clone();
        Refusal::new(RefusalCode::Invalid, e.to_string()).field("text").hint(hint)
    })
}

/// There is no such book.
pub(crate) fn no_book(name: &str) -> Refusal {
    let name: String = name.chars().take(63).collect();
    Refusal::new(RefusalCode::NotFound, format!("there is no runbook {name}"))
        .hint("`muster runbook list` shows them")
}

/// What the step that a run stands at sees now; none where there is nothing to see in the log.
#[must_use]
pub fn sees(state: &crate::State, run: &Run) -> Option<String> {
    use muster_runbook::What;
    let book = parse(&run.book, &run.text).ok()?;
    match &book.step(run.step)?.what {
        What::Check(t) | What::Wait(t, _) if !t.look.outside() => {
            Some(step::saw(t, &look::look(state, t, &run.vars)))
        }
        _ => None,
    }
}
