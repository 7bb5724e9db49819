//! Who is the cause of slow pairs. Both nodes of a slow pair are suspects; each is paired again
//! with a node that is known to be good because a pair with it passed. Two rounds are enough
//! while the slow pairs are at most half of all; with more of them the good ones take turns.

use super::pairs::{Pair, all_rounds, pair, round, shuffled};
use std::collections::{BTreeMap, BTreeSet};

/// What is known of a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FabricNodeStatus {
    /// Nothing yet, or nothing that could be decided.
    Unknown,
    /// A pair with it passed.
    Good,
    /// No pair with it passed, and one with a good node failed.
    Bad,
    /// It could not be tested.
    Away,
}

/// A hunt for bad nodes. Ask [`Isolate::next_tests`] for tests, give every result, and ask again until
/// there are none.
#[derive(Debug, Clone)]
pub struct Isolate {
    /// In which the rounds of the plan seat the nodes.
    order: Vec<usize>,
    /// Rounds of the plan that are run in any case.
    first: usize,
    done: usize,
    results: BTreeMap<Pair, bool>,
    passed: BTreeSet<usize>,
    away: BTreeSet<usize>,
    rounds: usize,
}

impl Isolate {
    /// Among so many nodes; `first` rounds pair everybody before suspects are paired again.
    #[must_use]
    pub fn new(nodes: usize, first: usize, seed: u64) -> Isolate {
        Isolate {
            order: shuffled(nodes, seed),
            first: first.clamp(1, all_rounds(nodes).max(1)),
            done: 0,
            results: BTreeMap::new(),
            passed: BTreeSet::new(),
            away: BTreeSet::new(),
            rounds: 0,
        }
    }

    /// The tests of the next round: disjoint pairs. None when all is known that can be.
    pub fn next_tests(&mut self) -> Vec<Pair> {
        while self.done < self.first {
            let round = self.planned();
            if !round.is_empty() {
                return round;
            }
        }
        let suspects = self.in_pairs(&self.unknown());
        if suspects.is_empty() {
            return Vec::new();
        }
        let mut good: Vec<usize> = self.with_status(FabricNodeStatus::Good);
        if good.is_empty() {
            // Nobody to compare with: others meet until a pair passes.
            while self.done < all_rounds(self.order.len()) {
                let round = self.planned();
                if !round.is_empty() {
                    return round;
                }
            }
            return Vec::new();
        }
        let mut tests = Vec::new();
        for group in suspects {
            // Both of a pair at once or none, so that neither is named as the cause for the path between
            // them only because the other had its turn first.
            if good.len() < group.len() && !tests.is_empty() {
                break;
            }
            for s in group {
                let Some(g) = good.pop() else { break };
                tests.push(pair(s, g));
            }
        }
        self.rounds += usize::from(!tests.is_empty());
        tests
    }

    fn planned(&mut self) -> Vec<Pair> {
        let round = round(&self.order, self.done);
        self.done += 1;
        let there = |n: &usize| !self.away.contains(n);
        let round: Vec<Pair> = round.into_iter().filter(|(a, b)| there(a) && there(b)).collect();
        self.rounds += usize::from(!round.is_empty());
        round
    }

    /// Suspects of one failed pair together, then those that met nobody.
    fn in_pairs(&self, unknown: &[usize]) -> Vec<Vec<usize>> {
        let mut left: BTreeSet<usize> = unknown.iter().copied().collect();
        let mut out = Vec::new();
        for ((a, b), passed) in &self.results {
            let group: Vec<usize> =
                [*a, *b].into_iter().filter(|n| !passed && left.remove(n)).collect();
            if !group.is_empty() {
                out.push(group);
            }
        }
        out.extend(left.into_iter().map(|n| vec![n]));
        out
    }

    /// What came of a test.
    pub fn result(&mut self, tested: Pair, passed: bool) {
        self.results.insert(tested, passed);
        if passed {
            self.passed.extend([tested.0, tested.1]);
        }
    }

    /// A node cannot be tested (any more). Its partner is paired anew.
    pub fn leave(&mut self, node: usize) {
        self.away.insert(node);
    }

    /// Rounds asked for so far.
    #[must_use]
    pub fn rounds(&self) -> usize {
        self.rounds
    }

    /// How a node stands.
    #[must_use]
    pub fn status(&self, node: usize) -> FabricNodeStatus {
        if self.passed.contains(&node) {
            return FabricNodeStatus::Good;
        }
        let attributed = self.results.iter().any(|((a, b), passed)| {
            let other = if *a == node { b } else { a };
            (*a == node || *b == node) && !passed && self.passed.contains(other)
        });
        match attributed {
            true => FabricNodeStatus::Bad,
            false if self.away.contains(&node) => FabricNodeStatus::Away,
            false => FabricNodeStatus::Unknown,
        }
    }

    fn with_status(&self, wanted: FabricNodeStatus) -> Vec<usize> {
        let there = |n: &usize| wanted != FabricNodeStatus::Good || !self.away.contains(n);
        (0..self.order.len()).filter(|n| self.status(*n) == wanted).filter(there).collect()
    }

    fn unknown(&self) -> Vec<usize> {
        self.with_status(FabricNodeStatus::Unknown)
    }

    /// Nodes that are bad, in order.
    #[must_use]
    pub fn bad(&self) -> Vec<usize> {
        self.with_status(FabricNodeStatus::Bad)
    }

    /// Pairs that failed though both nodes are good with others: the path between them is at
    /// fault, or it was something that passed.
    #[must_use]
    pub fn paths(&self) -> Vec<Pair> {
        let good = |n: &usize| self.passed.contains(n);
        let failed = self.results.iter().filter(|(_, passed)| !**passed).map(|(p, _)| *p);
        failed.filter(|(a, b)| good(a) && good(b)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::super::pairs::rounds;
    use super::*;
    use proptest::prelude::*;

    struct Hunt {
        found: Isolate,
        tests: usize,
        failed_first: usize,
    }

    /// A pair passes when both of its nodes are good.
    fn hunt(n: usize, first: usize, seed: u64, bad: &BTreeSet<usize>) -> Hunt {
        let mut i = Isolate::new(n, first, seed);
        let (mut tests, mut failed_first) = (0, 0);
        loop {
            let round = i.next_tests();
            if round.is_empty() {
                return Hunt { found: i, tests, failed_first };
            }
            let mut here = BTreeSet::new();
            for (a, b) in round {
                assert!(here.insert(a) && here.insert(b), "one test of a node at a time");
                let passed = !bad.contains(&a) && !bad.contains(&b);
                failed_first += usize::from(!passed && i.rounds() == 1);
                tests += 1;
                i.result((a, b), passed);
            }
        }
    }

    fn set(picks: &[prop::sample::Index], n: usize) -> BTreeSet<usize> {
        picks.iter().map(|p| p.index(n)).collect()
    }

    proptest! {
        #[test]
        fn every_bad_node_is_found_and_no_other(
            n in 3usize..65, first in 1usize..4, seed: u64,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 0..32),
        ) {
            let mut bad = set(&picks, n);
            while bad.len() * 2 >= n {
                bad.pop_last();
            }
            let h = hunt(n, first, seed, &bad);
            prop_assert_eq!(h.found.bad(), bad.iter().copied().collect::<Vec<_>>());
            prop_assert!(h.found.unknown().is_empty());
            prop_assert!(h.found.paths().is_empty());
            if n % 2 == 0 {
                // An even round has a good pair while fewer than half are bad.
                prop_assert!(h.tests <= first.min(n - 1) * (n / 2) + n, "{} tests", h.tests);
                if first == 1 {
                    prop_assert!(h.tests <= n / 2 + 2 * h.failed_first);
                    if h.failed_first * 2 <= n / 2 {
                        prop_assert!(h.found.rounds() <= 2, "{} rounds", h.found.rounds());
                    }
                }
            } else {
                prop_assert!(h.tests <= n * (n - 1) / 2 + n, "{} tests", h.tests);
            }
        }
    }

    #[test]
    fn one_bad_node_of_sixteen_takes_ten_tests_in_two_rounds() {
        for bad in 0..16 {
            let h = hunt(16, 1, 7, &BTreeSet::from([bad]));
            assert_eq!(h.found.bad(), [bad]);
            assert_eq!((h.found.rounds(), h.tests), (2, 10));
        }
    }

    #[test]
    fn two_nodes_alone_cannot_be_distinguished() {
        let h = hunt(2, 1, 0, &BTreeSet::from([1]));
        assert!(h.found.bad().is_empty());
        assert_eq!(h.found.unknown(), [0, 1]);
        for n in 0..2 {
            assert!(Isolate::new(n, 1, 0).next_tests().is_empty());
        }
    }

    #[test]
    fn a_bad_path_is_not_a_bad_node() {
        let mut i = Isolate::new(8, 1, 3);
        let broken = i.next_tests()[0];
        for p in rounds(8, 1, 3).remove(0) {
            i.result(p, p != broken);
        }
        let again = i.next_tests();
        assert_eq!(again.len(), 2, "both of them, and nobody else: {again:?}");
        again.into_iter().for_each(|p| i.result(p, true));
        assert!(i.next_tests().is_empty());
        assert!(i.bad().is_empty());
        assert_eq!(i.paths(), [broken]);
    }

    #[test]
    fn who_leaves_is_not_the_cause_and_the_partner_is_still_tested() {
        let mut i = Isolate::new(6, 1, 1);
        let round = i.next_tests();
        let (gone, left) = round[0];
        i.leave(gone);
        round[1..].iter().for_each(|p| i.result(*p, true));
        let again = i.next_tests();
        assert_eq!(again.len(), 1);
        assert!(again[0].0 == left || again[0].1 == left);
        i.result(again[0], true);
        assert!(i.next_tests().is_empty());
        assert_eq!(i.status(gone), FabricNodeStatus::Away);
        assert_eq!(i.status(left), FabricNodeStatus::Good);
    }
}
