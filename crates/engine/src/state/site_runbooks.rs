//! The site's own runbooks and their runs, as the log adds them up.

use muster_model::runbook::{Run, SiteRunbook};
use muster_runbook::{ParsedRunbook, builtin, parse};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// The site's own runbooks, and runs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SiteRunbooks {
    /// Runbooks that the site wrote or changed.
    pub books: BTreeMap<String, Arc<SiteRunbook>>,
    /// Runs: all that go on, and those that ended lately.
    pub runs: BTreeMap<u64, Arc<Run>>,
    /// Those that go on; derived.
    #[serde(skip)]
    pub(crate) live: BTreeSet<u64>,
}

impl SiteRunbooks {
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

    /// Text of a runbook: the site's own, or the one that came with Muster. With it the record
    /// of the site's own.
    #[must_use]
    pub fn text(&self, name: &str) -> Option<(Arc<str>, Option<u64>)> {
        match self.books.get(name) {
            Some(b) => Some((b.text.clone(), Some(b.version))),
            None => builtin::text(name).map(|t| (Arc::from(t), None)),
        }
    }

    /// Every runbook, by name: the site's own before those that came with Muster.
    #[must_use]
    pub fn all(&self) -> BTreeMap<String, (ParsedRunbook, Option<u64>)> {
        let names = builtin::names().map(str::to_owned).chain(self.books.keys().cloned());
        let read = |name: String| {
            let (text, version) = self.text(&name)?;
            Some((name.clone(), (parse(&name, &text).ok()?, version)))
        };
        names.filter_map(read).collect()
    }

    /// Names of the runbooks that serve a failure mode or a topic: the site's own first.
    #[must_use]
    pub fn for_mode(&self, mode: &str) -> Vec<String> {
        let serves = |b: &ParsedRunbook| b.modes.iter().chain(&b.topics).any(|m| m == mode);
        let own = self.books.keys().cloned();
        let names: BTreeSet<String> = builtin::names().map(str::to_owned).chain(own).collect();
        let read = |name: String| {
            let (text, version) = self.text(&name)?;
            // What it serves is in its text, and only few have that: reading all of them takes long.
            let book = text.contains(mode).then(|| parse(&name, &text).ok()).flatten()?;
            serves(&book).then(|| (version.is_none(), name))
        };
        let mut out: Vec<(bool, String)> = names.into_iter().filter_map(read).collect();
        out.sort();
        out.into_iter().map(|(_, n)| n).collect()
    }

    /// The runbook of this name, or the first that serves what is called so: an alert names what is
    /// wrong, and several things share a runbook.
    #[must_use]
    pub fn find(&self, word: &str) -> Option<String> {
        if self.text(word).is_some() {
            return Some(word.to_owned());
        }
        self.for_mode(word).into_iter().next()
    }
}
