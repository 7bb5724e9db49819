//! How often nodes fail: failures per million node-days, learned from what was seen.

use muster_model::units::Span;
use serde::{Deserialize, Serialize};

/// Node-milliseconds in a million node-days: what a rate counts failures over.
const MILLION_NODE_DAYS: u64 = 1_000_000 * 86_400_000;

/// Failures per million node-days.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize,
)]
#[serde(transparent)]
pub struct Rate(pub u64);

/// What was seen: how long how many nodes were watched, and how often one failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Exposure {
    /// Nodes times milliseconds, summed. Stops at the largest number there is, which 100,000 nodes
    /// reach after 5,800 years.
    pub node_ms: u64,
    /// Failures seen in that time.
    pub failures: u64,
}

impl Exposure {
    /// Adds `nodes` nodes watched for `span`, and whether a failure ended it.
    pub fn note(&mut self, nodes: u32, span: Span, failed: bool) {
        self.node_ms = self.node_ms.saturating_add(span.0.saturating_mul(u64::from(nodes)));
        self.failures = self.failures.saturating_add(u64::from(failed));
    }
}

impl Rate {
    /// Pre-training of Llama 3 405B: 419 unexpected stops of 2,048 nodes in 54 days
    /// (arXiv:2407.21783, table 5).
    pub const LLAMA3: Rate = Rate(3_789);
    /// Meta's RSC-1, 16,000 A100 over 11 months (arXiv:2410.21680).
    pub const RSC1: Rate = Rate(6_500);
    /// Meta's RSC-2, 8,000 A100 over 11 months (arXiv:2410.21680).
    pub const RSC2: Rate = Rate(2_340);
    /// One failure of every node in every millisecond. Larger rates are taken as this one.
    pub const MAX: Rate = Rate(MILLION_NODE_DAYS);

    /// What was seen, weighed against what was believed before: the mean of a Gamma distribution,
    /// `(weight + failures) / (weight / prior + exposure)`. The prior counts as `weight` failures
    /// seen at its rate, so it fades as real failures gather. Rounded to the nearest.
    ///
    /// A prior of zero or with no weight says nothing: what was seen decides alone. If nothing was
    /// seen either, the answer is the prior. Counts of failures above 2^32 are taken as 2^32.
    #[must_use]
    pub fn estimate(seen: &Exposure, prior: Rate, weight: u64) -> Rate {
        let cap = |n: u64| u128::from(n.min(1 << 32));
        let per = u128::from(MILLION_NODE_DAYS);
        let (failures, exposure) = (cap(seen.failures), u128::from(seen.node_ms));
        let believed = u128::from(prior.0.min(Rate::MAX.0));
        // Both sides of the fraction times the prior, so that no division rounds before the last.
        // At most 2^33 * 2^46.3 * 2^46.3 above and 2^79 + 2^110.3 below.
        let (above, below) = if prior.0 == 0 || weight == 0 {
            (failures * per, exposure)
        } else {
            let weight = cap(weight);
            ((weight + failures) * per * believed, weight * per + exposure * believed)
        };
        if below == 0 {
            return Rate(prior.0.min(Rate::MAX.0));
        }
        let nearest = (above + below / 2) / below;
        Rate(u64::try_from(nearest).unwrap_or(u64::MAX).min(Rate::MAX.0))
    }

    /// Mean time between failures of a gang of `nodes` nodes, any of which stops it. `None` when
    /// none fails. Never less than a millisecond.
    #[must_use]
    pub fn mtbf(self, nodes: u32) -> Option<Span> {
        let often = u128::from(self.0.min(Rate::MAX.0)) * u128::from(nodes);
        let ms = u128::from(MILLION_NODE_DAYS).checked_div(often)?;
        Some(Span(u64::try_from(ms).unwrap_or(u64::MAX).max(1)))
    }

    /// Failures that `nodes` nodes expect within `span`.
    pub(crate) fn expected(self, nodes: u32, span: Span) -> f64 {
        let often = self.0.min(Rate::MAX.0) as f64 * f64::from(nodes);
        often * (span.0 as f64 / MILLION_NODE_DAYS as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const DAY: Span = Span::hours(24);

    #[test]
    fn a_published_fleet_gives_its_published_rate() {
        let mut seen = Exposure::default();
        for n in 0..419 * 8 {
            // 54 days in equal parts; every eighth ends with a failure.
            seen.note(2048, Span(54 * DAY.0 / (419 * 8)), n % 8 == 0);
        }
        assert_eq!(seen.failures, 419);
        assert_eq!(Rate::estimate(&seen, Rate(1), 0), Rate::LLAMA3);
        // Reported there: one stop in three hours.
        assert_eq!(Rate::LLAMA3.mtbf(2048).map(|m| m.0 / 60_000), Some(185));
        // Reported for RSC-1: 1.8 h for 16,384 GPUs.
        assert_eq!(Rate::RSC1.mtbf(2048).map(|m| m.0 / 60_000), Some(108));
    }

    #[test]
    fn the_prior_holds_until_failures_gather() {
        let prior = Rate::RSC1;
        assert_eq!(Rate::estimate(&Exposure::default(), prior, 10), prior);
        // Ten failures' worth of quiet at the prior's rate halve it.
        let quiet = Exposure { node_ms: 10 * MILLION_NODE_DAYS / prior.0, failures: 0 };
        assert_eq!(Rate::estimate(&quiet, prior, 10), Rate(3250));
        let one = Exposure { node_ms: DAY.0 * 1000, failures: 1 };
        assert_eq!(Rate::estimate(&one, prior, 0), Rate(1000));
    }

    #[test]
    fn nothing_known_and_nothing_seen_is_no_rate() {
        let none = Exposure::default();
        assert_eq!(Rate::estimate(&none, Rate(0), 5), Rate(0));
        assert_eq!(Rate::estimate(&none, Rate(7), 0), Rate(7));
        let sudden = Exposure { node_ms: 0, failures: 3 };
        assert_eq!(Rate::estimate(&sudden, Rate(7), 0), Rate(7));
        // A prior of zero does not hide failures.
        let one = Exposure { node_ms: DAY.0 * 1000, failures: 1 };
        assert_eq!(Rate::estimate(&one, Rate(0), 5), Rate(1000));
        assert_eq!(Rate(0).mtbf(2048), None);
        assert_eq!(Rate::LLAMA3.mtbf(0), None);
        assert_eq!(Rate(u64::MAX).mtbf(u32::MAX), Some(Span(1)));
    }

    #[test]
    fn sums_stop_at_the_largest_number() {
        let mut seen = Exposure { node_ms: u64::MAX - 1, failures: u64::MAX };
        seen.note(u32::MAX, Span(u64::MAX), true);
        assert_eq!(seen, Exposure { node_ms: u64::MAX, failures: u64::MAX });
    }

    fn seen() -> impl Strategy<Value = Exposure> {
        prop_oneof![(0..1u64 << 52, 0..10_000u64), (any::<u64>(), any::<u64>()),]
            .prop_map(|(node_ms, failures)| Exposure { node_ms, failures })
    }

    proptest! {
        #[test]
        fn an_estimate_lies_between_belief_and_sight(
            s in seen(),
            prior in prop_oneof![1..20_000u64, any::<u64>()],
            weight in prop_oneof![1..1000u64, any::<u64>()],
        ) {
            let prior = Rate(prior.min(Rate::MAX.0));
            let bare = Rate::estimate(&s, prior, 0);
            let got = Rate::estimate(&s, prior, weight);
            // Without exposure any failure argues for an endless rate.
            let bare = if s.node_ms == 0 && s.failures > 0 { Rate::MAX } else { bare };
            prop_assert!(prior.min(bare) <= got && got <= prior.max(bare), "{bare:?} {got:?}");
        }

        #[test]
        fn more_failures_never_lower_it_and_more_quiet_never_raises_it(
            s in seen(), prior in any::<u64>(), weight in any::<u64>(), more in any::<u32>(),
        ) {
            let now = Rate::estimate(&s, Rate(prior), weight);
            let worse = Exposure { failures: s.failures.saturating_add(u64::from(more)), ..s };
            prop_assert!(Rate::estimate(&worse, Rate(prior), weight) >= now);
            let mut better = s;
            better.note(more, Span(86_400_000), false);
            // The first exposure turns a belief into a sight; only after it is there an order.
            prop_assume!(s.node_ms > 0 || (prior > 0 && weight > 0));
            prop_assert!(Rate::estimate(&better, Rate(prior), weight) <= now);
        }

        #[test]
        fn rate_and_mtbf_are_inverse(rate in 1..1_000_000u64, nodes in 1..100_000u32) {
            let mtbf = Rate(rate).mtbf(nodes).unwrap();
            let seen = Exposure { node_ms: mtbf.0 * u64::from(nodes), failures: 1 };
            let back = Rate::estimate(&seen, Rate(1), 0).0;
            // A millisecond of rounding in the span is at most this share.
            prop_assert!(back >= rate && back - rate <= back / mtbf.0 + 1, "{back}");
        }

        #[test]
        fn larger_gangs_fail_sooner(rate in any::<u64>(), nodes in 1..u32::MAX) {
            let (a, b) = (Rate(rate).mtbf(nodes), Rate(rate).mtbf(nodes + 1));
            prop_assert!(rate == 0 || b <= a);
        }
    }
}
