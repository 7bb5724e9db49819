//! Who is hit: chosen at random among those that nothing ails.

use super::FaultFleet;
use super::gang::Gang;
use muster_model::ids::AttemptKey;

/// A GPU that works.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Busy {
    pub(crate) node: usize,
    pub(crate) gpu: u32,
    pub(crate) key: AttemptKey,
    pub(crate) rank: u32,
}

const TRIES: usize = 60;

impl FaultFleet {
    /// Any node that is there and free of trouble, with a GPU of it.
    pub(crate) fn any_gpu(&mut self) -> Option<(usize, u32)> {
        let now = self.now;
        for _ in 0..TRIES {
            let n = self.rng.below(self.nodes.len());
            let quiet = self.nodes[n]
                .work
                .keys()
                .all(|k| self.gangs.get(k).is_some_and(|g| g.episode.is_none()));
            if self.nodes[n].free(now) && quiet {
                return Some((n, self.rng.below(8) as u32));
            }
        }
        None
    }

    /// A node without work.
    pub(crate) fn idle_node(&mut self) -> Option<usize> {
        let now = self.now;
        (0..TRIES)
            .map(|_| self.rng.below(self.nodes.len()))
            .find(|n| self.nodes[*n].free(now) && self.nodes[*n].work.is_empty())
    }

    /// A GPU that has been at work for a while, in a gang that nothing ails.
    pub(crate) fn busy_gpu(&mut self, fits: impl Fn(&Gang) -> bool) -> Option<Busy> {
        let now = self.now;
        for _ in 0..TRIES {
            let node = self.rng.below(self.nodes.len());
            if !self.nodes[node].free(now) {
                continue;
            }
            let Some((key, first)) = self.nodes[node].work.iter().next() else { continue };
            let (key, first) = (*key, *first);
            let Some(gang) = self.gangs.get(&key) else { continue };
            if gang.settled(now) && fits(gang) {
                let gpu = self.rng.below(8) as u32;
                let rank = if gang.ranks == 8 { first + gpu } else { first };
                return Some(Busy { node, gpu, key, rank });
            }
        }
        None
    }

    /// A gang that nothing ails, none of its nodes either.
    pub(crate) fn gang(&mut self, fits: impl Fn(&Gang) -> bool) -> Option<AttemptKey> {
        let now = self.now;
        let all: Vec<AttemptKey> = self
            .gangs
            .values()
            .filter(|g| g.settled(now) && g.nodes.iter().all(|n| self.nodes[*n].free(now)))
            .filter(|g| fits(g))
            .map(|g| g.key)
            .collect();
        self.rng.pick(&all).copied()
    }
}
