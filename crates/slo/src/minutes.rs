//! What was counted in each of the last minutes, side by side.
//!
//! Time is counted in every minute that it lasts, up to 15 hours at once, whenever an attempt ends
//! and for all that runs each minute: in a map every one of them is looked for, here only the first.
//!
//! A minute in which nothing was counted is not the same as one in which nothing is left of what
//! was: only the second is stored and reports since when there are counts.

use crate::count::{Count, MINUTES_KEPT};
use std::collections::VecDeque;

/// Minutes at most: those that are kept, and an hour until the oldest of them are dropped.
const CELLS_MAX: i64 = MINUTES_KEPT + 60;

/// Counts by minute, each named by where it ends.
///
/// What is further back than [`CELLS_MAX`] before the newest is not counted, and what is further
/// ahead drops the oldest. A ledger asks for neither: it is so for what is read from a file, which
/// may name any minutes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct MinuteRing {
    /// The minute of the first cell; 0 while there is none.
    first: i64,
    /// Nothing was counted where there is none. The first and the last are never such, so that
    /// the same counts are the same cells.
    cells: VecDeque<Option<Count>>,
}

/// How many minutes one is after another; 0 when it is not.
fn distance(from: i64, to: i64) -> usize {
    usize::try_from(to.saturating_sub(from)).unwrap_or(0)
}

impl MinuteRing {
    /// Counts in one minute.
    pub(crate) fn add(&mut self, minute: i64, count: Count) {
        self.fill((minute, minute), |_, cell| cell.get_or_insert_default().add(count));
    }

    /// Counts in every minute from one to another.
    pub(crate) fn add_each(&mut self, span: (i64, i64), count: impl Fn(i64) -> Count) {
        self.fill(span, |minute, cell| cell.get_or_insert_default().add(count(minute)));
    }

    /// Makes the cells from one minute to another; each must be filled.
    fn fill(&mut self, (from, to): (i64, i64), mut put: impl FnMut(i64, &mut Option<Count>)) {
        let last = self.last().map_or(to, |last| last.max(to));
        let oldest = last.saturating_sub(CELLS_MAX - 1);
        let from = from.max(oldest);
        if from > to {
            return;
        }
        self.forget_before(oldest);
        if self.cells.is_empty() {
            self.first = from;
        }
        for _ in from..self.first {
            self.cells.push_front(None);
        }
        self.first = self.first.min(from);
        self.cells.resize(distance(self.first, last) + 1, None);
        let start = distance(self.first, from);
        for (minute, cell) in (from..=to).zip(self.cells.range_mut(start..)) {
            put(minute, cell);
        }
    }

    /// Drops the minutes before one.
    pub(crate) fn forget_before(&mut self, minute: i64) {
        let old = distance(self.first, minute).min(self.cells.len());
        if old == 0 {
            return;
        }
        let empty = self.cells.range(old..).take_while(|c| c.is_none()).count();
        let gone = old + empty;
        self.cells.drain(..gone);
        self.first = if self.cells.is_empty() { 0 } else { self.minute(gone) };
    }

    /// The minute of a cell.
    fn minute(&self, cell: usize) -> i64 {
        self.first.saturating_add(i64::try_from(cell).unwrap_or(i64::MAX))
    }

    fn last(&self) -> Option<i64> {
        Some(self.minute(self.cells.len().checked_sub(1)?))
    }

    /// The first minute in which something was counted.
    pub(crate) fn first(&self) -> Option<i64> {
        (!self.cells.is_empty()).then_some(self.first)
    }

    /// What was counted in a minute, if anything was.
    pub(crate) fn get_mut(&mut self, minute: i64) -> Option<&mut Count> {
        let cell = usize::try_from(minute.checked_sub(self.first)?).ok()?;
        self.cells.get_mut(cell)?.as_mut()
    }

    /// What was counted from one minute to another, both included.
    pub(crate) fn range(&self, from: i64, to: i64) -> impl Iterator<Item = Count> {
        let upto = if to < self.first { 0 } else { distance(self.first, to) + 1 };
        let end = upto.min(self.cells.len());
        let start = distance(self.first, from).min(end);
        self.cells.range(start..end).flatten().copied()
    }

    /// All minutes in which something was counted, in their order.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (i64, Count)> {
        self.cells.iter().enumerate().filter_map(|(i, c)| Some((self.minute(i), (*c)?)))
    }
}

impl FromIterator<(i64, Count)> for MinuteRing {
    fn from_iter<I: IntoIterator<Item = (i64, Count)>>(counts: I) -> MinuteRing {
        let mut out = MinuteRing::default();
        for (minute, count) in counts {
            out.fill((minute, minute), |_, cell| *cell = Some(count));
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(ring: &MinuteRing) -> Vec<(i64, u64)> {
        ring.iter().map(|(m, c)| (m, c.total)).collect()
    }

    fn ring(minutes: &[i64]) -> MinuteRing {
        minutes.iter().map(|m| (*m, Count::good(1))).collect()
    }

    #[test]
    fn minutes_are_made_before_between_and_after_others() {
        let mut r = MinuteRing::default();
        assert_eq!((r.first(), r.range(-5, 5).count()), (None, 0));
        for minute in [10, 14, 7, 12, 14] {
            r.add(minute, Count::good(1));
        }
        assert_eq!(all(&r), [(7, 1), (10, 1), (12, 1), (14, 2)]);
        r.add_each((6, 8), |m| Count::bad_ones(m.unsigned_abs()));
        assert_eq!(all(&r), [(6, 6), (7, 8), (8, 8), (10, 1), (12, 1), (14, 2)]);
        assert_eq!(r.first(), Some(6));
        let sum = |from, to| r.range(from, to).map(|c| c.total).sum::<u64>();
        assert_eq!((sum(7, 10), sum(-9, 6), sum(13, 99), sum(15, 99), sum(9, 8)), (17, 6, 2, 0, 0));
        r.add_each((9, 8), |_| Count::good(1));
        assert_eq!(r.get_mut(9), None);
        assert_eq!(r.get_mut(5), None);
        assert_eq!(r.get_mut(15), None);
        assert_eq!(r.get_mut(7).copied(), Some(Count { good: 1, total: 8 }));
    }

    #[test]
    fn the_same_counts_are_the_same_however_they_came_about() {
        let mut r = ring(&[3, 20, 9]);
        r.forget_before(4);
        assert_eq!(r, ring(&[9, 20]));
        assert_eq!(r.first(), Some(9), "no empty minutes are left in front");
        r.forget_before(9);
        assert_eq!(r, ring(&[20, 9]));
        r.forget_before(100);
        assert_eq!((r.first(), &r), (None, &MinuteRing::default()));
        r.add(5, Count::good(1));
        assert_eq!(r, ring(&[5]));
    }

    #[test]
    fn a_minute_of_which_nothing_is_left_stays_one() {
        let mut r = ring(&[4, 6]);
        *r.get_mut(4).unwrap() = Count::default();
        assert_eq!(all(&r), [(4, 0), (6, 1)]);
        assert_eq!(r.first(), Some(4));
        assert_ne!(r, ring(&[6]));
    }

    #[test]
    fn minutes_of_a_damaged_file_take_no_more_than_those_of_any_other() {
        let mut r = ring(&[i64::MIN, -7, i64::MAX, 8]);
        assert_eq!(all(&r), [(i64::MAX, 1)]);
        r.add(i64::MAX - 1, Count::good(1));
        r.add_each((i64::MIN, i64::MAX), |_| Count::good(1));
        assert_eq!(r.iter().count(), usize::try_from(CELLS_MAX).unwrap());
        assert_eq!(r.range(i64::MIN, i64::MAX).count(), r.cells.len());
        r.forget_before(i64::MAX);
        assert_eq!(all(&r), [(i64::MAX, 2)]);
        let r = ring(&[i64::MIN]);
        assert_eq!(all(&r), [(i64::MIN, 1)]);
        assert_eq!(ring(&[5, 5 + CELLS_MAX - 1]).iter().count(), 2);
        assert_eq!(all(&ring(&[5, 5 + CELLS_MAX])), [(5 + CELLS_MAX, 1)], "the oldest is dropped");
    }
}
