//! What is allocated to an attempt: all of its slots from its placement on, and each until its ranks
//! have ended. When the end of the attempt or of its job is settled does not matter here: others
//! may be placed on what is free by then.

use muster_model::job::{Attempt, SlotState};
use muster_model::names::NodeName;
use muster_model::placement::{AllocatedPart, Placement, Slot};
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// GPUs of an attempt over time, in thousandths.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Allocated {
    /// All that it was given.
    milli: u64,
    /// What it still has, by node.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    slots: BTreeMap<NodeName, u64>,
    /// What it has given back, and when, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    freed: Vec<(Time, u64)>,
}

impl Allocated {
    /// All of a placement.
    #[must_use]
    pub fn of(placement: &Placement) -> Allocated {
        let mut out = Allocated::default();
        for s in &placement.slots {
            let milli = slot_milli(s);
            out.milli += milli;
            *out.slots.entry(s.node.clone()).or_default() += milli;
        }
        out
    }

    /// So much until a moment: where it is not known what was on which node.
    #[must_use]
    pub fn until(milli: u64, at: Time) -> Allocated {
        Allocated { milli, freed: vec![(at, milli)], ..Allocated::default() }
    }

    /// What an attempt has left, of which only the state is known.
    #[must_use]
    pub fn of_attempt(a: &Attempt) -> Allocated {
        let mut out = Allocated::of(&a.placement);
        let slots = a.placement.slots.iter().zip(&a.slots);
        for (slot, _) in slots.filter(|(_, s)| matches!(s, SlotState::Ended { .. })) {
            // When it ended is known only where it was the last.
            out.free(&slot.node, a.freed_at.unwrap_or(a.placed_at));
        }
        out
    }

    /// All that it was given.
    #[must_use]
    pub fn milli(&self) -> u64 {
        self.milli
    }

    /// What it still has, by node.
    pub fn slots(&self) -> impl Iterator<Item = (&NodeName, u64)> {
        self.slots.iter().map(|(n, m)| (n, *m))
    }

    /// Its ranks on a node have ended.
    pub(crate) fn free(&mut self, node: &NodeName, at: Time) {
        let Some(milli) = self.slots.remove(node) else { return };
        // Ends are not always heard in the order in which they happened.
        let i = self.freed.partition_point(|(t, _)| *t < at);
        match self.freed.get_mut(i) {
            Some((t, m)) if *t == at => *m += milli,
            _ => self.freed.insert(i, (at, milli)),
        }
    }

    /// When its last rank ended, once all have.
    pub(crate) fn freed_at(&self) -> Option<Time> {
        self.freed.last().map(|(at, _)| *at).filter(|_| self.slots.is_empty())
    }

    /// It is over: what it has left is nobody's concern any more.
    pub(crate) fn close(&mut self) {
        self.slots.clear();
    }

    /// A stretch of time in pieces in which it had the same, with how much that was.
    pub(crate) fn pieces(&self, from: Time, to: Time) -> Vec<(Time, Time, u64)> {
        let (mut out, mut at, mut milli) = (Vec::new(), from, self.milli);
        for (t, freed) in &self.freed {
            if *t > at && at < to {
                out.push((at, (*t).min(to), milli));
                at = (*t).min(to);
            }
            milli = milli.saturating_sub(*freed);
        }
        if at < to {
            out.push((at, to, milli));
        }
        out
    }

    /// GPU time of a stretch, in thousandths of a GPU times milliseconds.
    pub(crate) fn gpu_time(&self, from: Time, to: Time) -> u128 {
        let pieces = self.pieces(from, to).into_iter();
        pieces.map(|(a, b, milli)| u128::from(b.since(a).0) * u128::from(milli)).sum()
    }
}

/// GPUs that an attempt has now, in thousandths: those of slots whose ranks have not ended.
#[must_use]
pub fn allocated_milli(a: &Attempt) -> u64 {
    let slots = a.placement.slots.iter().zip(&a.slots);
    let has = slots.filter(|(_, s)| !matches!(s, SlotState::Ended { .. }));
    has.map(|(slot, _)| slot_milli(slot)).sum()
}

/// GPUs of one slot, in thousandths.
fn slot_milli(s: &Slot) -> u64 {
    match &s.part {
        None => u64::from(s.gpus.len()) * 1000,
        Some(AllocatedPart::Milli(m)) => u64::from(*m),
        Some(AllocatedPart::Mig { profile, size, .. }) => mig_milli(profile, u64::from(*size)),
    }
}

/// A slice by the larger of its parts: sevenths of the processors, eighths of the memory.
pub(crate) fn mig_milli(profile: &str, memory: u64) -> u64 {
    let digits: String = profile.chars().take_while(char::is_ascii_digit).collect();
    let compute = digits.parse::<u64>().unwrap_or(1).min(7);
    (compute * 1000).div_ceil(7).max(memory.min(8) * 1000 / 8)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stretch_is_cut_where_something_was_given_back() {
        let (n1, n2): (NodeName, NodeName) = ("n1".parse().unwrap(), "n2".parse().unwrap());
        let slots = BTreeMap::from([(n1.clone(), 8000), (n2.clone(), 4000)]);
        let mut a = Allocated { milli: 12_000, slots, freed: Vec::new() };
        assert_eq!(a.pieces(Time(0), Time(10)), [(Time(0), Time(10), 12_000)]);
        a.free(&n1, Time(10));
        a.free(&n1, Time(20));
        assert_eq!(a.slots().collect::<Vec<_>>(), [(&n2, 4000)], "and given back once");
        a.free(&n2, Time(30));
        let want =
            [(Time(5), Time(10), 12_000), (Time(10), Time(30), 4000), (Time(30), Time(40), 0)];
        assert_eq!(a.pieces(Time(5), Time(40)), want);
        assert_eq!(a.gpu_time(Time(5), Time(40)), 5 * 12_000 + 20 * 4000);
        assert_eq!(a.pieces(Time(12), Time(13)), [(Time(12), Time(13), 4000)]);
        assert!(a.pieces(Time(7), Time(7)).is_empty());
    }
}
