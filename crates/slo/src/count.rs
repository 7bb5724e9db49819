//! What is counted, and for how long by the minute.

use serde::{Deserialize, Serialize};

/// The longest fine window, and the longest time that one is looked back at.
pub(crate) const MINUTES_KEPT: i64 = (8 + 6) * 60 + 61;

/// Good ones of all.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Count {
    /// Good ones.
    pub good: u64,
    /// All; never less than the good ones.
    pub total: u64,
}

impl Count {
    /// So many good ones.
    #[must_use]
    pub fn good(n: u64) -> Count {
        Count { good: n, total: n }
    }

    /// So many bad ones.
    #[must_use]
    pub fn bad_ones(n: u64) -> Count {
        Count { good: 0, total: n }
    }

    /// Those that are not good.
    #[must_use]
    pub fn bad(self) -> u64 {
        self.total.saturating_sub(self.good)
    }

    pub(crate) fn add(&mut self, other: Count) {
        // Both stop at the same moment, so that good never passes all.
        self.total = self.total.saturating_add(other.total);
        self.good = self.good.saturating_add(other.good.min(other.total)).min(self.total);
    }
}
