//! What the simulated nodes of one process know of each other's shares, so that a gang steps
//! together. Only shares that are held back are written down: a sound fleet keeps nothing.

use muster_model::ids::AttemptKey;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};

/// What a sound share needs for a step, in thousandths of one.
pub(crate) const SOUND: u32 = 1000;

/// Shares that are held back, by attempt and first rank.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    shares: Mutex<BTreeMap<AttemptKey, BTreeMap<u32, u32>>>,
    version: AtomicU64,
}

impl Gangs {
    /// Changes with every change.
    pub(crate) fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// A share needs so much now; a sound one, or one that is over, is forgotten.
    pub(crate) fn set_share_needs(&self, key: AttemptKey, rank: u32, needs: Option<u32>) {
        let mut shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        let before = match needs.filter(|n| *n != SOUND) {
            Some(n) => shares.entry(key).or_default().insert(rank, n) != Some(n),
            None => {
                let gone = shares.get_mut(&key).and_then(|gang| gang.remove(&rank)).is_some();
                shares.retain(|_, gang| !gang.is_empty());
                gone
            }
        };
        if before {
            self.version.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// What the slowest share of an attempt needs.
    pub(crate) fn slowest(&self, key: AttemptKey) -> u32 {
        let shares = self.shares.lock().unwrap_or_else(PoisonError::into_inner);
        shares.get(&key).and_then(|gang| gang.values().max().copied()).unwrap_or(SOUND)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;

    #[test]
    fn the_slowest_share_counts_until_it_is_sound_again() {
        let gangs = Gangs::default();
        let key = AttemptKey { job: JobId(1), attempt: 1 };
        gangs.set_share_needs(key, 0, Some(SOUND));
        assert_eq!((gangs.version(), gangs.slowest(key)), (0, SOUND));
        gangs.set_share_needs(key, 8, Some(1500));
        gangs.set_share_needs(key, 16, Some(u32::MAX));
        assert_eq!((gangs.version(), gangs.slowest(key)), (2, u32::MAX));
        gangs.set_share_needs(key, 16, None);
        gangs.set_share_needs(key, 16, None);
        assert_eq!((gangs.version(), gangs.slowest(key)), (3, 1500));
        gangs.set_share_needs(key, 8, Some(SOUND));
        assert_eq!(gangs.slowest(key), SOUND);
    }
}
