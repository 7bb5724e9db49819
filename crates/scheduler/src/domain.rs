//! Domains of the topology: what is free in each, and which of a level have enough of it.

use crate::node::Pos;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Nodes of one domain, counted by how many whole GPUs they have free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) path: Arc<str>,
    /// The number of its path among those of the domains.
    pub(crate) order: u64,
    /// Its place in the [`LevelIndex`] of its level.
    pub(crate) place: usize,
    pub(crate) nodes: BTreeSet<Pos>,
    /// Open nodes by SKU and number of whole free GPUs.
    hist: Vec<(u16, Vec<u32>)>,
    pub(crate) free_gpus: u64,
    /// Open nodes on which nothing runs.
    pub(crate) empty: u32,
}

impl Domain {
    /// A domain without nodes.
    pub(crate) fn new(path: Arc<str>, order: u64, place: usize) -> Domain {
        Domain { path, order, place, ..Domain::default() }
    }

    /// Open nodes of these SKUs with at least so many whole free GPUs: an upper bound for what
    /// fits.
    pub(crate) fn with_free(&self, skus: u64, gpus: u32) -> u32 {
        self.hist
            .iter()
            .filter(|(s, _)| skus >> s & 1 == 1)
            .flat_map(|(_, h)| h.iter().skip(gpus as usize))
            .sum()
    }

    pub(crate) fn count(&mut self, sku: u16, free: u32, up: bool) {
        let i = self.hist.iter().position(|(s, _)| *s == sku).unwrap_or_else(|| {
            self.hist.push((sku, Vec::new()));
            self.hist.len() - 1
        });
        let h = &mut self.hist[i].1;
        let free = free as usize;
        if h.len() <= free {
            h.resize(free + 1, 0);
        }
        if up {
            h[free] += 1;
            self.free_gpus += free as u64;
        } else {
            h[free] -= 1;
            self.free_gpus -= free as u64;
        }
    }

    /// Without entries that say nothing and without numbers, which depend on who came first: for
    /// comparison.
    pub(crate) fn tidy(&self) -> Domain {
        let mut d = Domain { order: 0, place: 0, nodes: BTreeSet::new(), ..self.clone() };
        for (_, h) in &mut d.hist {
            while h.last() == Some(&0) {
                h.pop();
            }
        }
        d.hist.retain(|(_, h)| !h.is_empty());
        d.hist.sort();
        d
    }
}

/// The domains of one level and what is free in them, side by side: a gang looks at all of them, and
/// what runs on a node changes one number.
#[derive(Debug, Clone, Default)]
pub(crate) struct LevelIndex {
    /// Numbers of the domains in the fleet, in the order in which they came.
    ids: Vec<u32>,
    orders: Vec<u64>,
    free_gpus: Vec<u64>,
}

impl LevelIndex {
    /// A new domain, in which nothing is free yet. Returns its place.
    pub(crate) fn push(&mut self, id: u32, order: u64) -> usize {
        self.ids.push(id);
        self.orders.push(order);
        self.free_gpus.push(0);
        self.ids.len() - 1
    }

    /// So much is free in the domain at a place now.
    pub(crate) fn set_free(&mut self, place: usize, gpus: u64) {
        self.free_gpus[place] = gpus;
    }

    /// Takes over new numbers of the paths.
    pub(crate) fn renumber(&mut self, domains: &[Domain]) {
        for (id, order) in self.ids.iter().zip(&mut self.orders) {
            *order = domains[*id as usize].order;
        }
    }

    /// Domains with at least so many free GPUs: the one with the least of them first, and the first
    /// by path among equals.
    pub(crate) fn with_at_least(&self, gpus: u64) -> LeastFree {
        let all = self.free_gpus.iter().zip(&self.orders).zip(&self.ids);
        let enough = all.filter(|((free, _), _)| **free >= gpus);
        LeastFree(enough.map(|((free, order), id)| Reverse((*free, *order, *id))).collect())
    }

    /// Does it say the same as the domains?
    pub(crate) fn agrees(&self, domains: &[Domain]) -> bool {
        self.ids.iter().enumerate().all(|(i, id)| {
            let d = &domains[*id as usize];
            (d.place, d.order, d.free_gpus) == (i, self.orders[i], self.free_gpus[i])
        })
    }
}

/// Numbers of domains, in order. Mostly the first is taken, so that they are not sorted at once.
pub(crate) struct LeastFree(BinaryHeap<Reverse<(u64, u64, u32)>>);

impl Iterator for LeastFree {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        self.0.pop().map(|Reverse((_, _, id))| id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_that_does_comes_first_and_paths_decide_among_equals() {
        let mut level = LevelIndex::default();
        for (id, order, free) in [(7, 30, 16), (8, 10, 24), (9, 20, 16), (10, 40, 8), (11, 5, 0)] {
            let place = level.push(id, order);
            level.set_free(place, free);
        }
        assert_eq!(level.with_at_least(9).collect::<Vec<_>>(), [9, 7, 8]);
        assert_eq!(level.with_at_least(0).collect::<Vec<_>>(), [11, 10, 9, 7, 8]);
        assert_eq!(level.with_at_least(25).collect::<Vec<_>>(), Vec::<u32>::new());
    }
}
