//! Paths of the topology as numbers in the same order: nodes and domains are compared far more
//! often than they come and go, and long texts that begin alike are slow to compare.

use std::collections::BTreeMap;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// Between two neighbours after all were numbered anew, and beyond the first and the last.
const GAP: u64 = 1 << 40;
/// Where the first path goes: there is as much room before it as after it.
const MIDDLE: u64 = 1 << 63;
/// What the next of a run takes of the room it is in, as a shift: names are mostly counted up, and
/// half of what is left each time would soon be nothing.
const RUN: u32 = 10;

/// A number for each path. Numbers say nothing but the order, which is that of the texts.
#[derive(Debug, Clone)]
pub(crate) struct Order {
    numbers: BTreeMap<Arc<str>, u64>,
    /// The number that was given out last: the next path of a run stands beside it.
    last: u64,
    gap: u64,
}

impl Default for Order {
    fn default() -> Order {
        Order { numbers: BTreeMap::new(), last: 0, gap: GAP }
    }
}

impl Order {
    /// The number of a path that is known.
    pub(crate) fn get(&self, path: &str) -> Option<u64> {
        self.numbers.get(path).copied()
    }

    /// Paths known.
    pub(crate) fn len(&self) -> usize {
        self.numbers.len()
    }

    /// The number of a path, which is known from now on. True when there was none left between its
    /// neighbours, so that every other path has a new one too.
    pub(crate) fn insert(&mut self, path: &Arc<str>) -> (u64, bool) {
        if let Some(number) = self.get(path) {
            return (number, false);
        }
        let text: &str = path;
        let mut before = self.numbers.range::<str, _>((Unbounded, Excluded(text)));
        let mut after = self.numbers.range::<str, _>((Excluded(text), Unbounded));
        let below = before.next_back().map(|(_, number)| *number);
        let above = after.next().map(|(_, number)| *number);
        let found = self.between(below, above);
        self.numbers.insert(path.clone(), found.unwrap_or(0));
        if found.is_none() {
            self.renumber();
        }
        self.last = found.or_else(|| self.get(path)).unwrap_or(0);
        (self.last, found.is_none())
    }

    /// A path that is gone. The others keep their numbers.
    pub(crate) fn remove(&mut self, path: &str) {
        self.numbers.remove(path);
    }

    /// Do the numbers follow the texts?
    pub(crate) fn holds(&self) -> bool {
        let numbers: Vec<u64> = self.numbers.values().copied().collect();
        numbers.windows(2).all(|w| w[0] < w[1])
    }

    fn between(&self, below: Option<u64>, above: Option<u64>) -> Option<u64> {
        match (below, above) {
            (None, None) => Some(MIDDLE),
            (Some(below), None) => below.checked_add(self.gap),
            (None, Some(above)) => above.checked_sub(self.gap),
            (Some(below), Some(above)) => {
                let room = above - below;
                let step = (room >> RUN).max(1);
                let number = if below == self.last {
                    below + step
                } else if above == self.last {
                    above - step
                } else {
                    below + room / 2
                };
                (room > 1).then_some(number)
            }
        }
    }

    fn renumber(&mut self) {
        let n = self.numbers.len() as u64;
        let gap = self.gap.min(u64::MAX / (n + 1));
        let first = MIDDLE - n / 2 * gap;
        for (i, number) in (0..n).zip(self.numbers.values_mut()) {
            *number = first + i * gap;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look like chance and are the same in every run.
    struct Dice(u64);

    impl Dice {
        fn below(&mut self, n: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % n
        }
    }

    fn path(text: &str) -> Arc<str> {
        Arc::from(text)
    }

    /// Every number is the one that was handed out, or the one after the last new numbering.
    fn check(order: &Order, known: &BTreeMap<Arc<str>, u64>) {
        assert_eq!(&order.numbers, known);
        assert!(order.holds(), "{order:?}");
    }

    fn insert(order: &mut Order, known: &mut BTreeMap<Arc<str>, u64>, text: &str) -> bool {
        let p = path(text);
        let (number, moved) = order.insert(&p);
        if moved {
            known.clone_from(&order.numbers);
        }
        known.insert(p, number);
        moved
    }

    #[test]
    fn numbers_follow_the_paths_whatever_comes_and_goes() {
        let mut renumbered = 0;
        for seed in 1..=60u64 {
            let mut dice = Dice(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15));
            // Little room, so that it is used up often.
            let mut order = Order { gap: 1 << (seed % 12), ..Order::default() };
            let mut known: BTreeMap<Arc<str>, u64> = BTreeMap::new();
            for _ in 0..400 {
                let rack = ["a", "a-1", "a.2", "b"][dice.below(4) as usize];
                let text = format!("r/{rack}/n{}", dice.below(150));
                if dice.below(4) == 0 {
                    order.remove(&text);
                    known.remove(text.as_str());
                } else if insert(&mut order, &mut known, &text) {
                    renumbered += 1;
                }
                check(&order, &known);
            }
        }
        assert!(renumbered > 100, "{renumbered}");
    }

    #[test]
    fn a_run_finds_room_for_thousands() {
        for down in [false, true] {
            let (mut order, mut known) = (Order::default(), BTreeMap::new());
            insert(&mut order, &mut known, "a");
            insert(&mut order, &mut known, "c");
            for i in 0..10_000 {
                let i = if down { 10_000 - i } else { i };
                assert!(!insert(&mut order, &mut known, &format!("b{i:05}")));
            }
            check(&order, &known);
        }
    }

    #[test]
    fn a_path_keeps_its_number_when_it_comes_again() {
        let mut order = Order::default();
        let (first, _) = order.insert(&path("a"));
        let (after, _) = order.insert(&path("b"));
        assert!(first < after);
        assert_eq!(order.insert(&path("a")), (first, false));
        assert_eq!(order.len(), 2);
    }
}
