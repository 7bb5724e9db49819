//! File systems: one finding about the file system, so that its users are left alone.

use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// How one file system looks from the nodes that use it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct StorageObservation {
    /// Nodes that use it.
    pub nodes: u32,
    /// Of these, those whose probe waits.
    pub stalled: u32,
    /// And those for which it is slow.
    pub slow: u32,
}

/// Nobody, or one of many, is not enough: then it is the node's own trouble.
fn enough(hit: u32, of: u32) -> bool {
    hit >= 2 || (hit == 1 && of == 1)
}

/// Probes do not come back.
///
/// A false alarm costs nothing: nodes are left alone.
#[must_use]
pub fn stall(seen: StorageObservation) -> DetectorVerdict {
    if enough(seen.stalled, seen.nodes) {
        let why = format!("probes of {} of {} nodes do not come back", seen.stalled, seen.nodes);
        return DetectorVerdict::bad(Severity::Critical, 900, why);
    }
    DetectorVerdict::good_if(seen.stalled == 0)
}

/// Many nodes for which it is slow at once.
const MANY: u32 = 8;

/// Slower than it was, for a quarter of those who use it, or for many of them: a part of a file
/// system serves a part of its users. Of a large fleet some have trouble of their own at any time,
/// so that many are also one in twenty.
///
/// A false alarm costs nothing.
#[must_use]
pub fn slow(seen: StorageObservation) -> DetectorVerdict {
    let share = |one_in: u64| u64::from(seen.slow) * one_in >= u64::from(seen.nodes);
    let many = seen.slow >= MANY && share(20);
    if enough(seen.slow, seen.nodes) && (share(4) || many) {
        let why = format!("slower than it was for {} of {} nodes", seen.slow, seen.nodes);
        return DetectorVerdict::bad(Severity::Warning, 750, why);
    }
    DetectorVerdict::good_if(seen.slow == 0)
}

/// Is this latency slow beside its own past?
#[must_use]
pub fn is_slow(c: &WatchConfig, now_ms: f64, usual_ms: f64) -> bool {
    now_ms.is_finite() && now_ms >= c.slow_ms && now_ms > usual_ms * c.slow_times
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_many_is_the_nodes_own_trouble() {
        let seen = |nodes, stalled, slow| StorageObservation { nodes, stalled, slow };
        assert!(stall(seen(100, 2, 0)).is_bad() && stall(seen(1, 1, 0)).is_bad());
        assert_eq!(stall(seen(100, 1, 0)), DetectorVerdict::Unknown);
        assert_eq!(stall(seen(100, 0, 0)), DetectorVerdict::Good);
        assert!(slow(seen(4, 0, 2)).is_bad() && !slow(seen(100, 0, 2)).is_bad());
        assert!(slow(seen(100, 0, 8)).is_bad() && !slow(seen(100, 0, 7)).is_bad());
        assert!(slow(seen(256, 0, 16)).is_bad() && !slow(seen(12_500, 0, 100)).is_bad());
    }

    #[test]
    fn slow_is_beside_its_own_past() {
        let c = WatchConfig::default();
        assert!(is_slow(&c, 90.0, 20.0));
        assert!(!is_slow(&c, 79.0, 20.0) && !is_slow(&c, 40.0, 2.0));
        assert!(!is_slow(&c, f64::NAN, 20.0));
    }
}
