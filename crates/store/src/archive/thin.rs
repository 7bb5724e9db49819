//! Which snapshots of the archive stay. A state of the past is replayed from the last one before it,
//! so that they are at most a day and so many records apart; and all of them together are bounded.

use muster_model::{Seq, Span, Time};

/// Snapshots stay for so long.
const STAY: Span = Span::hours(90 * 24);
/// Two that are left are at most so far apart, where there were any in between.
const APART: Span = Span::hours(24);
/// The same in entries: half of what is replayed for one look.
const ENTRIES_APART: u64 = 250_000;
/// So many of the newest stay in any case but for their bytes: what was just now is looked at most.
const NEWEST: usize = 5;

/// What is known of a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Known {
    pub(super) seq: Seq,
    pub(super) at: Time,
    pub(super) bytes: u64,
}

/// The places of those that are not needed any more, out of all, oldest first. What is left has at most
/// so many bytes, the oldest are given up first; the newest one always stays.
pub(super) fn superfluous(all: &[Known], now: Time, most_bytes: u64) -> Vec<usize> {
    let mut stays = vec![true; all.len()];
    let mut before: Option<Known> = None;
    for (n, s) in all.iter().enumerate() {
        let Some(next) = all.get(n + 1) else { break };
        if now.since(s.at) > STAY {
            stays[n] = false;
            continue;
        }
        let in_between = before.is_some_and(|b| {
            next.at.since(b.at) <= APART && next.seq.0.saturating_sub(b.seq.0) <= ENTRIES_APART
        });
        if in_between && n + NEWEST < all.len() {
            stays[n] = false;
        } else {
            before = Some(*s);
        }
    }
    let mut bytes: u64 = 0;
    for (n, s) in all.iter().enumerate().rev() {
        if !stays[n] {
            continue;
        }
        bytes = bytes.saturating_add(s.bytes);
        if bytes > most_bytes && n + 1 < all.len() {
            stays[n] = false;
        }
    }
    stays.iter().enumerate().filter(|(_, stays)| !**stays).map(|(n, _)| n).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Snapshots of 1 MiB, taken so far apart in entries and hours.
    fn taken(count: u64, entries: u64, hours: i64) -> Vec<Known> {
        let at = |n: u64| Time(i64::try_from(n).unwrap() * hours * 3_600_000);
        (0..count).map(|n| Known { seq: Seq(n * entries), at: at(n), bytes: MIB }).collect()
    }

    /// What is left where snapshots are thinned each time when one is taken.
    fn left(all: &[Known], most_bytes: u64) -> Vec<Known> {
        let mut left = Vec::new();
        for s in all {
            left.push(*s);
            let gone = superfluous(&left, s.at, most_bytes);
            let mut n = 0;
            left.retain(|_| {
                n += 1;
                !gone.contains(&(n - 1))
            });
        }
        left
    }

    #[test]
    fn one_a_day_and_the_newest_stay_for_ninety_days() {
        let some = left(&taken(24 * 200, 1_000, 1), u64::MAX);
        let end = some[some.len() - 1].at;
        assert!(end.since(some[0].at) <= STAY);
        assert!(end.since(some[0].at) > Span::hours(88 * 24));
        assert!((90..=97).contains(&some.len()), "{}", some.len());
        assert!(some.windows(2).all(|w| w[1].at.since(w[0].at) <= APART));
        let newest = &some[some.len() - NEWEST..];
        assert!(newest.windows(2).all(|w| w[1].at.since(w[0].at) == Span::hours(1)));
    }

    #[test]
    fn those_of_a_busy_day_are_a_bounded_number_of_entries_apart() {
        let some = left(&taken(100, 50_000, 0), u64::MAX);
        assert!(some.windows(2).all(|w| w[1].seq.0 - w[0].seq.0 <= ENTRIES_APART));
        assert_eq!(some[0].seq, Seq(0), "the first of all stays");
        assert!(some.len() <= 100 / 5 + NEWEST + 1, "{}", some.len());
        // Where they are further apart than that none is given up.
        assert_eq!(left(&taken(20, 300_000, 0), u64::MAX).len(), 20);
    }

    #[test]
    fn their_bytes_are_bounded_and_the_newest_stays() {
        let all = taken(30, 1_000, 25);
        let few = left(&all, 10 * MIB);
        assert_eq!(few, all[20..]);
        assert_eq!(left(&all, 1), all[29..]);
        assert_eq!(superfluous(&[], Time(0), 0), [0; 0]);
        // A clock that was set back deletes nothing.
        assert_eq!(superfluous(&all, Time(i64::MIN), u64::MAX), [0; 0]);
    }
}
