//! Fair share: who has had less than their part goes first. Past use fades by half in each
//! half-life; integers only, so that every machine agrees.

use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Use of one account: GPU-milliseconds in thousandths that still count.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Usage {
    /// What counts at `at`.
    pub value: u128,
    /// When that was.
    pub at: Time,
    /// Thousandths of GPUs allocated since then.
    pub rate: u64,
}

/// Bits behind the point of a factor.
const BITS: u32 = 32;

/// Steps of a half-life.
const STEPS: u128 = 65_536;

/// 2^(-steps / [`STEPS`]), with [`BITS`] bits behind the point.
fn factor(steps: u128) -> u128 {
    let whole = steps / STEPS;
    if whole >= 64 {
        return 0;
    }
    // By repeated square roots of one half.
    let steps = steps % STEPS;
    let mut f: u128 = 1 << BITS;
    for (bit, root) in ROOTS.iter().enumerate() {
        if steps >> (15 - bit) & 1 == 1 {
            f = (f * u128::from(*root)) >> BITS;
        }
    }
    f >> whole
}

/// 2^(-1/2), 2^(-1/4), … with 32 bits behind the point.
const ROOTS: [u32; 16] = [
    3_037_000_500,
    3_611_622_603,
    3_938_502_376,
    4_112_874_773,
    4_202_935_003,
    4_248_701_965,
    4_271_771_996,
    4_283_353_945,
    4_289_156_690,
    4_292_061_010,
    4_293_513_907,
    4_294_240_540,
    4_294_603_903,
    4_294_785_595,
    4_294_876_445,
    4_294_921_870,
];

impl Usage {
    /// What counts at `t`.
    #[must_use]
    pub fn at(&self, t: Time, half: Span) -> u128 {
        let dt = t.since(self.at).0;
        if dt == 0 {
            return self.value;
        }
        let (dt, rate, half) = (u128::from(dt), u128::from(self.rate), u128::from(half.0.max(1)));
        let steps = dt * STEPS / half;
        let f = factor(steps);
        let one = 1u128 << BITS;
        // What is held all the time adds rate * half / ln 2 * (1 - f).
        let scale = half * 1_442_695 / 1_000_000;
        let long = ((self.value * f) >> BITS) + ((rate * scale * (one - f)) >> BITS);
        // The rest is shorter than a step: a straight line, so that nothing is lost to whoever
        // starts and ends something every second.
        let rest = dt - steps * half / STEPS;
        let fades = long * rest * 693_147 / (half * 1_000_000);
        long - fades.min(long) + rate * rest
    }

    /// Holds so much more, or less, from `t` on.
    pub fn change(&mut self, t: Time, half: Span, milli: u64, up: bool) {
        self.value = self.at(t, half);
        self.at = t;
        self.rate = if up { self.rate + milli } else { self.rate.saturating_sub(milli) };
    }

    /// Takes back what was counted of so much between a moment and the last change: it was free
    /// since then, which became known only now.
    pub fn take_back(&mut self, since: Time, half: Span, milli: u64) {
        let counted = Usage { value: 0, at: since, rate: milli };
        self.value = self.value.saturating_sub(counted.at(self.at, half));
    }
}

/// A node of the tree of shares.
#[derive(Debug, Clone, Default)]
pub struct ShareNode {
    /// Its weight among its siblings.
    pub shares: u32,
    /// What it and all below it have had.
    pub usage: u128,
    /// Those below it; empty for an account.
    pub children: Vec<ShareNode>,
    /// The account, for a leaf.
    pub account: Option<usize>,
}

/// Places accounts in order: at each level of the tree the one who has had least for its share
/// comes first, with all below it; those who are even are looked at together one level down.
/// Returns each account's place; equal places go by age.
#[must_use]
pub fn ranks(roots: Vec<ShareNode>, accounts: usize) -> Vec<u32> {
    let mut out = vec![u32::MAX; accounts];
    let mut next = 0;
    rank(roots, &mut next, &mut out);
    out
}

fn rank(mut level: Vec<ShareNode>, next: &mut u32, out: &mut [u32]) {
    let ratio = |a: &ShareNode, b: &ShareNode| {
        (a.usage * u128::from(b.shares.max(1))).cmp(&(b.usage * u128::from(a.shares.max(1))))
    };
    level.sort_by(ratio);
    while !level.is_empty() {
        let even = level.iter().take_while(|n| ratio(n, &level[0]).is_eq()).count();
        let run: Vec<ShareNode> = level.drain(..even).collect();
        let mut below = Vec::new();
        let mut any = false;
        for n in run {
            if let Some(a) = n.account {
                if let Some(slot) = out.get_mut(a) {
                    *slot = *next;
                }
                any = true;
            }
            below.extend(n.children);
        }
        if any {
            *next += 1;
        }
        if !below.is_empty() {
            rank(below, next, out);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn use_fades_by_half() {
        let half = Span::hours(1);
        let u = Usage { value: 1_000_000, at: Time(0), rate: 0 };
        assert!(u.at(Time(0) + half, half).abs_diff(500_000) < 2);
        assert!(u.at(Time(0) + Span::mins(30), half).abs_diff(707_107) < 20);
        assert_eq!(u.at(Time(0) + Span::hours(100), half), 0);
    }

    #[test]
    fn what_is_held_adds_up() {
        let half = Span::hours(24 * 365);
        let mut u = Usage::default();
        u.change(Time(0), half, 8000, true);
        let hour = u.at(Time(3_600_000), half);
        let want: u128 = 8000 * 3_600_000;
        assert!(hour.abs_diff(want) < want / 200, "{hour} {want}");
        // Looked at in one go or in steps, it is the same but for rounding.
        let mut v = Usage::default();
        v.change(Time(0), half, 8000, true);
        for m in 1..=60 {
            v.change(Time(m * 60_000), half, 0, true);
        }
        assert!(v.value.abs_diff(hour) < want / 100);
    }

    #[test]
    fn who_had_less_for_its_share_goes_first() {
        let leaf = |a: usize, shares: u32, usage: u128| ShareNode {
            shares,
            usage,
            children: Vec::new(),
            account: Some(a),
        };
        let parent = |shares: u32, children: Vec<ShareNode>| ShareNode {
            shares,
            usage: children.iter().map(|c| c.usage).sum(),
            children,
            account: None,
        };
        // One tenant with twice the shares and the same use goes first, its users by their use.
        let tree =
            vec![parent(1, vec![leaf(0, 1, 100)]), parent(2, vec![leaf(1, 1, 70), leaf(2, 1, 30)])];
        assert_eq!(ranks(tree, 3), [2, 1, 0]);
        let even = vec![parent(1, vec![leaf(0, 1, 0)]), parent(1, vec![leaf(1, 1, 0)])];
        assert_eq!(ranks(even, 2), [0, 0], "nobody has had anything: age decides");
    }
}
