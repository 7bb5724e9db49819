//! Moments at which something is due by time alone, the first of them found at once.

use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// One moment at most for each thing.
#[derive(Debug, Clone)]
pub(crate) struct Timers<K> {
    of: BTreeMap<K, Time>,
    order: BTreeSet<(Time, K)>,
}

impl<K> Default for Timers<K> {
    fn default() -> Timers<K> {
        Timers { of: BTreeMap::new(), order: BTreeSet::new() }
    }
}

impl<K: Ord + Clone> Timers<K> {
    /// Sets the moment of a thing, or that it has none.
    pub(crate) fn set(&mut self, key: &K, at: Option<Time>) {
        let old = match at {
            Some(t) => self.of.insert(key.clone(), t),
            None => self.of.remove(key),
        };
        if let Some(old) = old {
            self.order.remove(&(old, key.clone()));
        }
        if let Some(t) = at {
            self.order.insert((t, key.clone()));
        }
    }

    /// Has a thing a moment?
    pub(crate) fn has(&self, key: &K) -> bool {
        self.of.contains_key(key)
    }

    /// The first moment.
    pub(crate) fn first(&self) -> Option<Time> {
        self.order.first().map(|(t, _)| *t)
    }

    /// Takes out the first thing whose moment has come.
    pub(crate) fn pop(&mut self, now: Time) -> Option<K> {
        if self.first()? > now {
            return None;
        }
        let (_, key) = self.order.pop_first()?;
        self.of.remove(&key);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_comes_first_and_each_thing_once() {
        let mut t = Timers::default();
        t.set(&"a", Some(Time(30)));
        t.set(&"b", Some(Time(20)));
        t.set(&"a", Some(Time(10)));
        t.set(&"c", Some(Time(5)));
        t.set(&"c", None);
        assert_eq!(t.first(), Some(Time(10)));
        assert!(t.has(&"a") && !t.has(&"c"));
        assert_eq!(t.pop(Time(9)), None);
        assert_eq!(t.pop(Time(25)), Some("a"));
        assert_eq!(t.pop(Time(25)), Some("b"));
        assert_eq!(t.pop(Time(25)), None);
        assert_eq!(t.first(), None);
    }
}
