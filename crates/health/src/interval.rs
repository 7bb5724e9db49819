//! How often a job should write checkpoints.

use muster_model::units::Span;

/// More often than this a checkpoint is only noise in the log.
const LEAST: Span = Span::secs(10);
/// Less often than this nobody wants to lose, however rare failures are.
const MOST: Span = Span::hours(24);

/// How long to compute between two checkpoints: `sqrt(2 * cost * mtbf) - cost`, where `cost` is how
/// long a write holds the job up and `mtbf` how long its gang runs between failures (Young 1974;
/// Daly 2006, first order). At least ten seconds and at least `cost`; at most a day unless the
/// write itself takes longer. A gang that never fails (`None`) writes daily, a write that costs
/// nothing is made as often as allowed.
///
/// First order means that failures are rare beside the interval: at most one in it, at its middle
/// on average, and none while writing or restarting. It holds while `cost` is far below `mtbf / 2`:
/// up to `mtbf / 50` no other interval gains half a percent of all time. At `mtbf / 2` the formula
/// turns and falls again, at `2 * mtbf` it reaches zero; from `mtbf / 2` on, therefore, the lower
/// bound answers: as much computing as writing. A job in that state makes little progress at any
/// interval and wants a cheaper checkpoint or fewer nodes.
///
/// Integers throughout: a decision uses it.
#[must_use]
pub fn checkpoint_every(cost: Span, mtbf: Option<Span>) -> Span {
    let least = LEAST.max(cost);
    if cost.0 == 0 {
        return least;
    }
    let Some(mtbf) = mtbf else { return MOST.max(least) };
    let square = (u128::from(cost.0) * u128::from(mtbf.0)).saturating_mul(2);
    let young = u64::try_from(square.isqrt()).unwrap_or(u64::MAX);
    // The lower bound is asked last: an interval below its write would be all writing.
    Span(young.saturating_sub(cost.0)).min(MOST).max(least)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Expect, Rate, ettr_exact};
    use proptest::prelude::*;

    #[test]
    fn the_formula_by_hand() {
        // sqrt(2 * 20 s * 6490 s) = 509.5 s.
        let got = checkpoint_every(Span::secs(20), Some(Span::secs(6490)));
        assert_eq!(got, Span(489_509));
        // sqrt(2 * 1 s * 200 s) = 20 s.
        assert_eq!(checkpoint_every(Span::secs(1), Some(Span::secs(200))), Span::secs(19));
    }

    #[test]
    fn the_ends_are_held() {
        let day = Span::hours(24);
        assert_eq!(checkpoint_every(Span(0), None), LEAST);
        assert_eq!(checkpoint_every(Span(0), Some(day)), LEAST);
        assert_eq!(checkpoint_every(Span::secs(5), None), day);
        assert_eq!(checkpoint_every(Span::secs(5), Some(Span(u64::MAX))), day);
        assert_eq!(checkpoint_every(Span::secs(1), Some(Span::secs(1))), LEAST);
        assert_eq!(checkpoint_every(Span::mins(5), Some(Span::mins(5))), Span::mins(5));
        assert_eq!(checkpoint_every(Span::hours(30), None), Span::hours(30));
        assert_eq!(checkpoint_every(Span(u64::MAX), Some(Span(u64::MAX))), Span(u64::MAX));
    }

    proptest! {
        #[test]
        fn always_within_its_bounds(
            cost in any::<u64>(), mtbf in proptest::option::of(any::<u64>()),
        ) {
            let got = checkpoint_every(Span(cost), mtbf.map(Span));
            prop_assert!(got >= LEAST && got.0 >= cost);
            prop_assert!(got <= MOST || got.0 == cost);
        }

        #[test]
        fn rarer_failures_never_shorten_it(
            cost in 0..10_000_000u64, mtbf in any::<u32>(), more in any::<u32>(),
        ) {
            let at = |ms: u64| checkpoint_every(Span(cost), Some(Span(ms)));
            let mtbf = u64::from(mtbf);
            prop_assert!(at(mtbf) <= at(mtbf + u64::from(more)));
            prop_assert!(at(mtbf) <= checkpoint_every(Span(cost), None) || cost == 0);
        }

        // Where a write is short beside the time between failures, no other interval is better by
        // more than half a percent, judged by the exact formula.
        #[test]
        fn no_other_interval_is_much_better(
            nodes in 16..20_000u32, rate in 500..10_000u64, part in 50..5000u64,
            percent in 10..1000u64,
        ) {
            let rate = Rate(rate);
            let mtbf = rate.mtbf(nodes).unwrap();
            let cost = Span(mtbf.0 / part);
            let every = checkpoint_every(cost, Some(mtbf));
            let restart = Span::mins(2);
            let share = |every| {
                let queue = Span(0);
                ettr_exact(&Expect { nodes, rate, restart, queue, cost, every })
            };
            let other = Span((every.0 * percent / 100).clamp(10_000, MOST.0));
            prop_assert!(share(other) <= share(every) + 0.005, "{every} {other}");
        }
    }
}
