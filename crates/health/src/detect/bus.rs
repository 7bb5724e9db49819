//! The bus between a GPU and its host, and the links between GPUs.

use super::meter::Rise;
use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// What a link of the bus can do: the best that was seen of it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct BusLink {
    /// How many lanes.
    pub width: f32,
    /// PCIe generation.
    pub generation: f32,
}

/// How many replays a minute a link may have.
#[must_use]
pub fn replay_limit(c: &WatchConfig, link: BusLink) -> f64 {
    // What is not reported is taken for the widest and fastest, which is the most tolerant.
    let lanes = if (1.0..=64.0).contains(&link.width) { f64::from(link.width) } else { 16.0 };
    let lane = match link.generation {
        g if g < 3.5 => c.replay_lane[0],
        g if g < 4.5 => c.replay_lane[1],
        g if g < 5.5 => c.replay_lane[2],
        g if g < 6.5 => c.replay_lane[3],
        _ => c.replay_lane[2],
    };
    (lanes * lane).ceil().max(1.0)
}

/// Replays against the line rate's limit, in more than one piece: a link that trains again makes
/// one burst.
///
/// A false alarm costs nothing, later one quick test.
#[must_use]
pub fn replay(c: &WatchConfig, rise: Rise, link: BusLink) -> DetectorVerdict {
    let limit = replay_limit(c, link);
    // Less than a minute counts as one: the limit is by the minute.
    let minute = rise.by / (rise.secs / 60.0).max(1.0);
    if minute > limit && rise.pieces >= 2 {
        let worse = minute > limit * c.replay_worse;
        let severity = if worse { Severity::Degraded } else { Severity::Warning };
        let why = format!("{minute:.0} replays a minute, {limit:.0} allowed");
        return DetectorVerdict::bad(severity, 850, why);
    }
    DetectorVerdict::good_if(minute <= limit / 2.0 && rise.secs >= 60.0)
}

/// A link that is narrower or slower under load than it was, or than those of its peers. An idle
/// link shifts down to save power, so nothing is said of a GPU that is not busy.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn downgrade(now: BusLink, best: BusLink, busy: bool, lasts: bool) -> DetectorVerdict {
    let known = [now.width, now.generation, best.width, best.generation];
    if !busy || known.iter().any(|v| !v.is_finite() || *v <= 0.0) {
        return DetectorVerdict::Unknown;
    }
    let narrow = now.width < best.width;
    let slow = now.generation < best.generation;
    if !narrow && !slow {
        return DetectorVerdict::Good;
    }
    if !lasts {
        return DetectorVerdict::Unknown;
    }
    let why = format!(
        "x{} generation {} under load, x{} generation {} is possible",
        now.width, now.generation, best.width, best.generation
    );
    DetectorVerdict::bad(Severity::Degraded, if narrow { 900 } else { 750 }, why)
}

/// Errors of the links between GPUs, by rate and beside the node's other GPUs. `longer` is the
/// same counter over ten minutes.
///
/// A false alarm costs a reset of one GPU.
#[must_use]
pub fn nvlink(c: &WatchConfig, own: Rise, longer: Rise, peers_per_sec: f64) -> DetectorVerdict {
    let rate = own.per_sec();
    let why = || format!("{rate:.1} link errors a second, peers {peers_per_sec:.2}");
    if rate >= c.nvlink_fatal && own.secs >= 10.0 && own.pieces >= 2 {
        return DetectorVerdict::bad(Severity::Critical, 900, why());
    }
    let steady = own.secs >= 30.0 && own.pieces >= 3;
    if rate >= c.nvlink_rate && steady && rate > peers_per_sec * 10.0 {
        return DetectorVerdict::bad(Severity::Degraded, 800, why());
    }
    let slow = longer.per_sec();
    let many = longer.by >= c.nvlink_window && longer.secs >= 240.0 && longer.pieces >= 4;
    if many && slow > peers_per_sec * 20.0 {
        let why = format!("{:.0} link errors in {:.0} s, peers fewer", longer.by, longer.secs);
        return DetectorVerdict::bad(Severity::Warning, 650, why);
    }
    DetectorVerdict::good_if(longer.by < c.nvlink_window / 2.0 && own.secs >= 30.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GEN5: BusLink = BusLink { width: 16.0, generation: 5.0 };

    #[test]
    fn the_limit_is_that_of_the_line() {
        let c = WatchConfig::default();
        assert_eq!(replay_limit(&c, GEN5), 31.0);
        assert_eq!(replay_limit(&c, BusLink { width: 16.0, generation: 4.0 }), 16.0);
        assert_eq!(replay_limit(&c, BusLink { width: 8.0, generation: 3.0 }), 4.0);
        assert_eq!(replay_limit(&c, BusLink { width: f32::NAN, generation: f32::NAN }), 31.0);
    }

    #[test]
    fn replays_count_by_the_minute_and_not_in_one_burst() {
        let c = WatchConfig::default();
        let rise = |by, secs, pieces| Rise { by, secs, pieces };
        assert!(replay(&c, rise(40.0, 60.0, 4), GEN5).is_bad());
        assert!(replay(&c, rise(40.0, 20.0, 2), GEN5).is_bad(), "over it before the minute is");
        assert!(!replay(&c, rise(30.0, 60.0, 4), GEN5).is_bad(), "nearly");
        assert!(!replay(&c, rise(4000.0, 60.0, 1), GEN5).is_bad(), "the link trained again");
        assert_eq!(replay(&c, rise(0.0, 60.0, 0), GEN5), DetectorVerdict::Good);
        let DetectorVerdict::Bad(b) = replay(&c, rise(900.0, 60.0, 4), GEN5) else { panic!("bad") };
        assert_eq!(b.severity, Severity::Degraded);
    }

    #[test]
    fn idle_links_shift_down_and_that_is_fine() {
        let low = BusLink { width: 16.0, generation: 1.0 };
        assert_eq!(downgrade(low, GEN5, false, true), DetectorVerdict::Unknown);
        assert!(downgrade(low, GEN5, true, true).is_bad());
        assert_eq!(downgrade(low, GEN5, true, false), DetectorVerdict::Unknown, "just woken");
        assert_eq!(downgrade(GEN5, GEN5, true, true), DetectorVerdict::Good);
        let gone = BusLink { width: f32::NAN, generation: 5.0 };
        assert_eq!(downgrade(gone, GEN5, true, true), DetectorVerdict::Unknown);
    }

    #[test]
    fn links_between_gpus_count_by_rate() {
        let c = WatchConfig::default();
        let nvlink = |c: &WatchConfig, own, peers| super::nvlink(c, own, Rise::default(), peers);
        let rise = |by, pieces| Rise { by, secs: 60.0, pieces };
        assert!(nvlink(&c, rise(12_000.0, 4), 0.0).is_bad());
        assert!(nvlink(&c, rise(300.0, 4), 0.1).is_bad());
        assert!(!nvlink(&c, rise(300.0, 4), 4.0).is_bad(), "peers see the same");
        assert!(!nvlink(&c, rise(50.0, 4), 0.0).is_bad(), "nearly");
        assert!(!nvlink(&c, rise(900.0, 1), 0.0).is_bad(), "one burst, at a restart of the job");
        assert_eq!(nvlink(&c, rise(0.0, 0), 0.0), DetectorVerdict::Good);
        let longer = |by, pieces| Rise { by, secs: 500.0, pieces };
        let DetectorVerdict::Bad(b) = super::nvlink(&c, rise(10.0, 3), longer(80.0, 5), 0.0) else {
            panic!("many over ten minutes")
        };
        assert_eq!(b.severity, Severity::Warning);
        assert!(!super::nvlink(&c, rise(10.0, 3), longer(40.0, 5), 0.0).is_bad(), "nearly");
    }
}
