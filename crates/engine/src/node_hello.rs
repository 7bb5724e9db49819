//! What a node says of itself when its agent connects, compared with what the log knows.

use crate::state::State;
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotState;
use muster_model::names::NodeName;
use muster_model::node::{Inventory, Node, Stage};
use std::collections::BTreeSet;

/// How an attempt that an agent names stands in the log.
pub(crate) enum ReportedAttemptState {
    /// Wanted there and alive as far as the log knows.
    Live(SlotState),
    /// The node was lost with it; it may not go on.
    Lost,
    /// Nobody waits for it.
    Orphan,
}

pub(crate) fn standing(state: &State, node: &NodeName, key: AttemptKey) -> ReportedAttemptState {
    let Some(job) = state.jobs.get(&key.job) else { return ReportedAttemptState::Orphan };
    let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) else {
        return ReportedAttemptState::Orphan;
    };
    let first = state.slots_on(key.job, node).first();
    match first.and_then(|i| a.slots.get(*i)) {
        Some(SlotState::Lost) => ReportedAttemptState::Lost,
        Some(s) => ReportedAttemptState::Live(s.clone()),
        None => ReportedAttemptState::Orphan,
    }
}

/// What a node says of itself when its agent connects.
#[derive(Debug, Clone, Copy)]
pub struct NodeHello<'a> {
    /// The node.
    pub node: &'a NodeName,
    /// Which start of the machine it is.
    pub boot: &'a str,
    /// Where others reach it.
    pub address: &'a str,
    /// What the machine calls itself.
    pub host: &'a str,
    /// Where its agent keeps its data.
    pub place: &'a str,
    /// What it has.
    pub inventory: &'a Inventory,
    /// The attempts that its agent knows.
    pub observed: &'a [(AttemptKey, Observed)],
}

impl NodeHello<'_> {
    /// Attempts that run there, and nobody waits for them there. What never was on this node it has no
    /// word about, unless it has seen more of the log than this server: then the log is `behind`.
    pub(crate) fn orphans(&self, state: &State, behind: bool) -> BTreeSet<AttemptKey> {
        let mut runs = BTreeSet::new();
        for (key, o) in self.observed {
            // Of an attempt that is named twice, the last word counts.
            if matches!(o, Observed::Running) {
                runs.insert(*key);
            } else {
                runs.remove(key);
            }
        }
        let unwanted = |key: &AttemptKey| {
            !matches!(standing(state, self.node, *key), ReportedAttemptState::Live(..))
                && !state.never_ran_here(self.node, *key, behind)
        };
        runs.into_iter().filter(unwanted).collect()
    }

    /// Does it say of where and how the node runs what the log knows? `orphans` are its own.
    pub(crate) fn is_known(&self, n: &Node, orphans: &BTreeSet<AttemptKey>) -> bool {
        n.boot == self.boot
            && n.address == self.address
            && n.host == self.host
            && n.place == self.place
            && n.orphans == *orphans
    }

    /// Would it be written down, because it says something of a node at work that the log does not
    /// know? The first one of a node is no change, nor is that a lost node is back: it is not lost often.
    #[must_use]
    pub fn changes(&self, state: &State) -> bool {
        let at_work = state.nodes.get(self.node).filter(|n| n.stage != Stage::Enrolled);
        at_work.is_some_and(|n| {
            n.inventory != *self.inventory || !self.is_known(n, &self.orphans(state, n.protected))
        })
    }
}
