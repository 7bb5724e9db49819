//! Kinds of node by how good they are for a share, remembered from one question to the next: the
//! answer changes only with the mix of work and by the kinds that come and go.

use crate::fleet::{Class, Fleet};
use crate::frag::NodeFit;
use crate::node::{Ask, Part};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

/// Kinds that came, remembered one by one; whoever asks more seldom looks at everything again.
const REMEMBERED: usize = 8192;
/// Different questions remembered.
const QUESTIONS: usize = 512;

/// What of a share decides where it fits.
type Key = (u32, Option<Part>, u32, u64, u64, bool, bool);

fn key(a: &Ask) -> Key {
    (a.gpus, a.part, a.cpus, a.memory, a.skus, a.simulated, a.lemon)
}

/// The answer to one question. Kinds that are gone may still be in it.
#[derive(Debug)]
struct Ranked {
    /// Kinds that had come when it was true.
    seen: u64,
    kinds: BTreeSet<(NodeFit, Arc<Class>)>,
}

/// Kinds of node by how good they are. A copy remembers nothing: it is always found out anew.
#[derive(Debug, Default)]
pub(crate) struct Scores {
    came: VecDeque<Arc<Class>>,
    /// Kinds that ever came.
    count: u64,
    answers: Mutex<BTreeMap<Key, Ranked>>,
}

impl Clone for Scores {
    fn clone(&self) -> Scores {
        Scores::default()
    }
}

impl Scores {
    /// There are nodes of a kind of which there were none.
    pub(crate) fn came(&mut self, class: &Arc<Class>) {
        if self.came.len() >= REMEMBERED {
            self.came.pop_front();
        }
        self.came.push_back(class.clone());
        self.count += 1;
    }

    /// The mix of work is another one.
    pub(crate) fn forget(&mut self) {
        self.answers.get_mut().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Fleet {
    /// Asks `take` about the kinds of node on which the share fits now, the best first, until it
    /// takes one.
    pub(crate) fn best<'f, T>(
        &'f self,
        a: &Ask,
        mut take: impl FnMut(&Class, &'f BTreeSet<crate::node::Pos>) -> Option<T>,
    ) -> Option<T> {
        let s = &self.scores;
        let mut answers = s.answers.lock().unwrap_or_else(PoisonError::into_inner);
        if answers.len() > QUESTIONS {
            answers.clear();
        }
        let old = usize::try_from(s.count).unwrap_or(usize::MAX) - s.came.len();
        let r = answers.entry(key(a)).or_insert(Ranked { seen: 0, kinds: BTreeSet::new() });
        let behind = usize::try_from(r.seen).unwrap_or(0) < old;
        let skus = self.allowed(a);
        let mut gpus = Vec::new();
        let mut rate = |c: &Arc<Class>| self.fit(c, a, &skus, &mut gpus).map(|f| (f, c.clone()));
        let new = usize::try_from(s.count - r.seen).unwrap_or(usize::MAX);
        if r.seen == 0 || behind || new.max(r.kinds.len() / 2) > self.classes.len() {
            r.kinds = self.classes.keys().filter_map(&mut rate).collect();
        } else {
            r.kinds.extend(s.came.iter().rev().take(new).filter_map(&mut rate));
        }
        r.seen = s.count;
        let mut gone = Vec::new();
        let mut found = None;
        for k in &r.kinds {
            let Some(members) = self.classes.get(&*k.1) else {
                gone.push(k.clone());
                continue;
            };
            found = take(&k.1, members);
            if found.is_some() {
                break;
            }
        }
        for k in gone {
            r.kinds.remove(&k);
        }
        found
    }
}
