//! A group that fails as a whole is halved until its bad nodes are left: `ceil(log2 n)` rounds,
//! for any number of bad nodes, as both halves are tested at once. For tests of many nodes
//! together, like a collective; pairs are distinguished sooner by [`super::isolate`].

use std::collections::BTreeSet;

/// A hunt in a failing group.
#[derive(Debug, Clone)]
pub struct Bisect {
    /// Groups that failed and are not halved yet.
    failed: Vec<Vec<usize>>,
    /// Halves that wait for a result: those of one group beside each other.
    open: Vec<[Half; 2]>,
    bad: BTreeSet<usize>,
    together: Vec<Vec<usize>>,
    rounds: usize,
    tests: usize,
}

#[derive(Debug, Clone)]
struct Half {
    nodes: Vec<usize>,
    passed: Option<bool>,
}

impl Bisect {
    /// In a group of which it is known that it fails.
    #[must_use]
    pub fn new(mut group: Vec<usize>) -> Bisect {
        group.sort_unstable();
        group.dedup();
        let mut b = Bisect {
            failed: Vec::new(),
            open: Vec::new(),
            bad: BTreeSet::new(),
            together: Vec::new(),
            rounds: 0,
            tests: 0,
        };
        b.fails(group);
        b
    }

    fn fails(&mut self, group: Vec<usize>) {
        match group[..] {
            [] => {}
            [one] => drop(self.bad.insert(one)),
            _ => self.failed.push(group),
        }
    }

    /// Groups to test next, all disjoint. None when the bad nodes are known, or while results
    /// of earlier ones are missing.
    pub fn next_tests(&mut self) -> Vec<Vec<usize>> {
        if !self.open.is_empty() {
            return Vec::new();
        }
        for mut left in std::mem::take(&mut self.failed) {
            let right = left.split_off(left.len().div_ceil(2));
            self.open.push([left, right].map(|nodes| Half { nodes, passed: None }));
        }
        let tests: Vec<_> = self.open.iter().flatten().map(|h| h.nodes.clone()).collect();
        self.rounds += usize::from(!tests.is_empty());
        self.tests += tests.len();
        tests
    }

    /// What came of the test of a group that [`Bisect::next_tests`] named.
    pub fn result(&mut self, group: &[usize], passed: bool) {
        if let Some(h) = self.open.iter_mut().flatten().find(|h| h.nodes == group) {
            h.passed = Some(passed);
        }
        if self.open.iter().flatten().any(|h| h.passed.is_none()) {
            return;
        }
        for [a, b] in std::mem::take(&mut self.open) {
            if a.passed == Some(true) && b.passed == Some(true) {
                // Each half is well: they fail only with one another.
                let mut both = a.nodes;
                both.extend(b.nodes);
                self.together.push(both);
                continue;
            }
            for h in [a, b].into_iter().filter(|h| h.passed == Some(false)) {
                self.fails(h.nodes);
            }
        }
    }

    /// Nodes that fail alone, in order.
    #[must_use]
    pub fn bad(&self) -> Vec<usize> {
        self.bad.iter().copied().collect()
    }

    /// Groups that failed though both of their halves passed: what lies between them is at fault.
    #[must_use]
    pub fn together(&self) -> &[Vec<usize>] {
        &self.together
    }

    /// Rounds and tests asked for so far.
    #[must_use]
    pub fn cost(&self) -> (usize, usize) {
        (self.rounds, self.tests)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn hunt(n: usize, fails: impl Fn(&[usize]) -> bool) -> Bisect {
        let mut b = Bisect::new((0..n).collect());
        loop {
            let tests = b.next_tests();
            if tests.is_empty() {
                return b;
            }
            for t in tests {
                b.result(&t, !fails(&t));
            }
        }
    }

    fn log2_up(n: usize) -> usize {
        n.next_power_of_two().trailing_zeros() as usize
    }

    proptest! {
        #[test]
        fn every_bad_node_is_found_in_as_many_rounds_as_halvings(
            n in 1usize..130,
            picks in prop::collection::vec(any::<prop::sample::Index>(), 1..20),
        ) {
            let bad: BTreeSet<usize> = picks.iter().map(|p| p.index(n)).collect();
            let b = hunt(n, |g| g.iter().any(|x| bad.contains(x)));
            prop_assert_eq!(b.bad(), bad.iter().copied().collect::<Vec<_>>());
            prop_assert!(b.together().is_empty());
            let (rounds, tests) = b.cost();
            prop_assert!(rounds <= log2_up(n), "{} rounds for {}", rounds, n);
            prop_assert!(tests <= 2 * bad.len() * log2_up(n), "{} tests", tests);
            prop_assert!(tests <= 2 * n - 2);
        }
    }

    #[test]
    fn what_fails_only_together_is_said_so() {
        let b = hunt(8, |g| g.contains(&1) && g.contains(&6));
        assert!(b.bad().is_empty());
        assert_eq!(b.together(), [(0..8).collect::<Vec<_>>()]);
    }
}
