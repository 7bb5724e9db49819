//! All nodes of a cluster at once: each sends to the next, as in a collective. Pairs one by one
//! do not show what is too narrow for all of them together. A ring that is slow is halved until it
//! is known who is the cause; a node by itself is in a ring with one that is known to be good.

use super::pair::{self, Lanes};
use super::run::{AGAIN_LEAST, AGAIN_MOST, HuntResult, PairResult, RunningFabricTest, Tested};
use futures::future::join_all;
use muster_health::fabric::bisect::Bisect;
use muster_health::fabric::isolate::FabricNodeStatus;
use muster_health::fabric::pairs::Pair;
use muster_model::node::Node;
use muster_model::topology::Level;
use std::collections::BTreeSet;
use std::sync::Arc;

/// Who was good in a ring or beside one, and who has left.
#[derive(Default)]
struct RingNodes {
    good: BTreeSet<usize>,
    away: BTreeSet<usize>,
}

impl RunningFabricTest {
    /// A cluster as a whole. Nodes that stand next to each other are neighbours in the ring.
    pub(super) async fn whole(&mut self, group: &[Arc<Node>], seed: u64) -> HuntResult {
        let place = |n: &Node| -> Vec<String> {
            let path = n.location.path(&n.name, Level::Rack);
            path.into_iter().map(ToOwned::to_owned).chain([n.name.to_string()]).collect()
        };
        // Places in the ring are numbers in the hunt, so that its halves are neighbours.
        let mut seats: Vec<usize> = (0..group.len()).collect();
        seats.sort_by_cached_key(|i| place(&group[*i]));
        let seated: Vec<Arc<Node>> = seats.iter().map(|i| Arc::clone(&group[*i])).collect();
        self.lanes = Lanes::wide(seated.len());
        let mut known = RingNodes::default();
        let all: Vec<usize> = (0..seated.len()).collect();
        let passed = self.rings(&seated, std::slice::from_ref(&all), &mut known).await;
        let (mut bad, mut together) = (Vec::new(), Vec::new());
        if passed != [true] {
            let mut hunt = Bisect::new(all);
            if !self.halve(&seated, &mut hunt, &mut known).await {
                // Nobody is known to be good: pairs show it.
                return self.in_pairs(group, seed).await;
            }
            // Of a group that somebody has left nothing is known as a whole.
            let whole = |g: &&Vec<usize>| !g.iter().any(|s| known.away.contains(s));
            together = hunt.together().iter().filter(whole).cloned().collect();
            bad = hunt.bad();
        }
        let mut statuses = vec![FabricNodeStatus::Unknown; group.len()];
        for (seat, i) in seats.iter().enumerate() {
            statuses[*i] = match seat {
                s if bad.contains(&s) && !known.away.contains(&s) => FabricNodeStatus::Bad,
                s if known.good.contains(&s) => FabricNodeStatus::Good,
                s if known.away.contains(&s) => FabricNodeStatus::Away,
                _ => FabricNodeStatus::Unknown,
            };
        }
        let together = together.into_iter().map(|g| g.into_iter().map(|s| seats[s]).collect());
        HuntResult { statuses, paths: Vec::new(), together: together.collect() }
    }

    /// Halves until all is known; not when nobody is good whom others could be tested with.
    async fn halve(
        &mut self,
        seated: &[Arc<Node>],
        hunt: &mut Bisect,
        known: &mut RingNodes,
    ) -> bool {
        loop {
            let tests = hunt.next_tests();
            if tests.is_empty() {
                return true;
            }
            let (mut single, rings): (Vec<_>, Vec<_>) =
                tests.into_iter().partition(|t| t.len() == 1);
            let passed = self.rings(seated, &rings, known).await;
            for (ring, passed) in rings.iter().zip(passed) {
                hunt.result(ring, passed);
            }
            while !single.is_empty() {
                let there = |g: &usize| known.good.contains(g) && !known.away.contains(g);
                let mut good: Vec<usize> = (0..seated.len()).filter(there).collect();
                let (mut round, mut later): (Vec<Vec<usize>>, Vec<Vec<usize>>) = Default::default();
                for one in single {
                    // Who was in a ring that passed is good.
                    if known.good.contains(&one[0]) {
                        hunt.result(&one, true);
                    } else if let Some(g) = good.pop() {
                        round.push(vec![one[0], g]);
                    } else {
                        later.push(one);
                    }
                }
                if round.is_empty() {
                    if later.is_empty() {
                        break;
                    }
                    return false;
                }
                let passed = self.rings(seated, &round, known).await;
                for (ring, passed) in round.iter().zip(passed) {
                    let one = ring[0];
                    if !known.away.contains(&one) && known.away.contains(&ring[1]) {
                        // Whose partner has left is tested again.
                        later.push(vec![one]);
                    } else {
                        // Who left is not named as the cause.
                        hunt.result(&[one], passed || known.away.contains(&one));
                    }
                }
                single = later;
            }
        }
    }

    /// Rings that have no node in common, all at once: which of them passed.
    async fn rings(
        &mut self,
        seated: &[Arc<Node>],
        rings: &[Vec<usize>],
        known: &mut RingNodes,
    ) -> Vec<bool> {
        let there = |r: &Vec<usize>| -> Vec<usize> {
            r.iter().copied().filter(|s| !known.away.contains(s)).collect()
        };
        let edges: Vec<(usize, Pair)> = rings
            .iter()
            .enumerate()
            .flat_map(|(no, r)| round_of(&there(r)).into_iter().map(move |e| (no, e)))
            .collect();
        if edges.is_empty() {
            return vec![true; rings.len()];
        }
        self.ring = true;
        self.next_round();
        let whole: Vec<usize> = (0..edges.len()).collect();
        let outcomes = self.edges(seated, &edges, &whole).await;
        let mut all: Vec<Tested> =
            edges.iter().map(|(_, e)| *e).zip(outcomes).map(Tested::once).collect();
        for time in 0..AGAIN_MOST {
            // A ring is tested as a whole each time.
            let doubted = self.pairs_to_retest(seated, &all, time >= AGAIN_LEAST);
            let slow: BTreeSet<usize> = doubted.into_iter().map(|i| edges[i].0).collect();
            let again: Vec<usize> =
                (0..edges.len()).filter(|i| slow.contains(&edges[*i].0)).collect();
            if again.is_empty() {
                break;
            }
            let outcomes = self.edges(seated, &edges, &again).await;
            for (i, outcome) in again.into_iter().zip(outcomes) {
                all[i].more(outcome);
            }
        }
        let mut passed = vec![true; rings.len()];
        for ((no, _), (_, reported)) in edges.iter().zip(self.evaluate(seated, all)) {
            match reported {
                PairResult::Passed(true) => {}
                PairResult::Passed(false) => passed[*no] = false,
                PairResult::Left(i) => drop(known.away.insert(i)),
            }
        }
        self.ring = false;
        for (ring, _) in rings.iter().zip(&passed).filter(|(_, passed)| **passed) {
            known.good.extend(ring.iter().filter(|s| !known.away.contains(s)));
        }
        passed
    }

    async fn edges(
        &self,
        seated: &[Arc<Node>],
        edges: &[(usize, Pair)],
        which: &[usize],
    ) -> Vec<pair::Outcome> {
        let tests = which.iter().map(|i| {
            let (a, b) = edges[*i].1;
            pair::test(&self.inner, &self.lanes, (&seated[a], &seated[b]), &self.wish, true)
        });
        join_all(tests).await
    }
}

/// Each with the next, and the last with the first: the second of a pair sends.
fn round_of(ring: &[usize]) -> Vec<Pair> {
    match ring {
        [] | [_] => Vec::new(),
        [first, .., last] => {
            let next = ring.windows(2).map(|w| (w[1], w[0]));
            next.chain([(*first, *last)]).collect()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_sends_to_the_next() {
        assert_eq!(round_of(&[4, 7, 9]), [(7, 4), (9, 7), (4, 9)]);
        assert_eq!(round_of(&[4, 7]), [(7, 4), (4, 7)]);
        assert!(round_of(&[4]).is_empty() && round_of(&[]).is_empty());
    }
}
