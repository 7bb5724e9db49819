//! What time can go into.

use serde::{Deserialize, Serialize};

/// What a job's time can go into. Every moment of its life is exactly one of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// It waited for its turn or for room: before the first attempt, and after one that was
    /// stopped for others or by a person.
    Queued,
    /// Placed, and not all ranks up yet; or up, and the first step not made, where steps are
    /// reported.
    Starting,
    /// Work that counts.
    Productive,
    /// Standing still for checkpoints, as the job reported.
    Checkpointing,
    /// The way back: leaving after the order to stop, and after a failure everything until the
    /// work goes on.
    Restarting,
    /// Work that was thrown away: done after the last checkpoint of an attempt that did not end
    /// well.
    Lost,
    /// All ranks up and nothing done for longer than is usual for it.
    Idle,
    /// A person kept it from starting. Last: what is stored has the others by their place.
    Held,
}

impl Part {
    /// All of them, in the order in which they are reported.
    pub const ALL: [Part; 8] = [
        Part::Queued,
        Part::Held,
        Part::Starting,
        Part::Productive,
        Part::Checkpointing,
        Part::Restarting,
        Part::Lost,
        Part::Idle,
    ];

    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Part::Queued => "queued",
            Part::Starting => "starting",
            Part::Productive => "productive",
            Part::Checkpointing => "checkpointing",
            Part::Restarting => "restarting",
            Part::Lost => "lost",
            Part::Idle => "idle",
            Part::Held => "held",
        }
    }
}

/// An amount for each part: milliseconds, or GPU-microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(from = "Vec<u128>")]
pub struct Parts([u128; 8]);

/// What an older version stored has fewer parts.
impl From<Vec<u128>> for Parts {
    fn from(stored: Vec<u128>) -> Parts {
        let mut parts = Parts::default();
        for (part, amount) in parts.0.iter_mut().zip(stored) {
            *part = amount;
        }
        parts
    }
}

impl Parts {
    /// The amount of a part.
    #[must_use]
    pub fn get(&self, part: Part) -> u128 {
        self.0[part as usize]
    }

    /// Adds to a part.
    pub fn add(&mut self, part: Part, amount: u128) {
        let sum = &mut self.0[part as usize];
        *sum = sum.saturating_add(amount);
    }

    /// Takes as much of one part as is there, and adds it to another.
    pub(crate) fn shift(&mut self, from: Part, to: Part, amount: u128) {
        let moved = amount.min(self.get(from));
        self.0[from as usize] -= moved;
        self.add(to, moved);
    }

    /// Adds all parts of another.
    pub fn add_all(&mut self, other: &Parts) {
        for part in Part::ALL {
            self.add(part, other.get(part));
        }
    }

    /// All parts together.
    #[must_use]
    pub fn total(&self) -> u128 {
        self.0.iter().fold(0, |sum, v| sum.saturating_add(*v))
    }
}

/// Of all, in millionths; none of nothing.
#[must_use]
pub(crate) fn millionths(of: u128, all: u128) -> Option<u32> {
    let share = of.saturating_mul(1_000_000).checked_div(all)?;
    Some(u32::try_from(share.min(1_000_000)).unwrap_or(1_000_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_its_own_place_and_word() {
        let mut p = Parts::default();
        for (n, part) in Part::ALL.into_iter().enumerate() {
            p.add(part, 1 << n);
        }
        for (n, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(p.get(part), 1 << n, "{}", part.word());
        }
        assert_eq!(p.total(), 255);
        let text = serde_json::to_string(&p).unwrap();
        assert_eq!(serde_json::from_str::<Parts>(&text).unwrap(), p);
        // As a version stored it that did not know of holds.
        let old: Parts = serde_json::from_str("[1,2,3,4,5,6,7]").unwrap();
        assert_eq!((old.get(Part::Idle), old.get(Part::Held)), (7, 0));
        assert_eq!(millionths(1, 3), Some(333_333));
        assert_eq!(millionths(1, 0), None);
    }
}
