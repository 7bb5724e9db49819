//! A whole job beside its own past, and what its steps are made of.

use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// What a stage of a step is spent on, by its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StageKind {
    /// The rank's own work.
    Own,
    /// Waiting for others.
    Waiting,
    /// Exchange with others; where waiting is not distinguished, it is in here.
    Exchange,
    /// Reading data.
    Reading,
    /// Writing a checkpoint.
    Saving,
}

const WAITING: [&str; 5] = ["wait", "sync", "barrier", "bubble", "idle"];
const EXCHANGE: [&str; 10] = [
    "comm",
    "reduce",
    "gather",
    "scatter",
    "nccl",
    "collective",
    "p2p",
    "to_all",
    "alltoall",
    "broadcast",
];
const READING: [&str; 7] = ["read", "data", "load", "fetch", "input", "batch", "io"];
const SAVING: [&str; 3] = ["ckpt", "checkpoint", "save"];

/// What a stage is, by its name. Names that say nothing are the rank's own work.
#[must_use]
pub fn stage_kind(stage: &str) -> StageKind {
    let name = stage.to_ascii_lowercase();
    let has = |words: &[&str]| words.iter().any(|w| name.contains(w));
    // A word of two letters is only meant where it stands alone.
    let alone = |w: &str| name.split(|c: char| !c.is_ascii_alphanumeric()).any(|p| p == w);
    if has(&SAVING) {
        StageKind::Saving
    } else if has(&WAITING) {
        StageKind::Waiting
    } else if has(&EXCHANGE) {
        StageKind::Exchange
    } else if has(&READING[..6]) || alone(READING[6]) {
        StageKind::Reading
    } else {
        StageKind::Own
    }
}

/// All ranks slower than the job's own past, and none of them more than the others.
///
/// A false alarm costs nothing: it is a remark to the owner.
#[must_use]
pub fn job_slow(c: &WatchConfig, now: f64, base: f64, spread: f64, lasts: bool) -> DetectorVerdict {
    if !(now > 0.0 && base > 0.0) {
        return DetectorVerdict::Unknown;
    }
    let gap = now - base;
    if gap <= base * c.job_slow / 2.0 {
        return DetectorVerdict::Good;
    }
    if lasts && gap > base * c.job_slow && gap > spread * 4.0 {
        let why =
            format!("steps take {now:.3} s on all ranks, {base:.3} s before: the job, not a node");
        return DetectorVerdict::bad(Severity::Info, 750, why);
    }
    DetectorVerdict::Unknown
}

/// A job that waits for its data.
///
/// A false alarm costs nothing: it is a remark to the owner.
#[must_use]
pub fn starved(c: &WatchConfig, share: f64, lasts: bool) -> DetectorVerdict {
    if share > c.read_share && lasts {
        let why = format!("{:.0}% of its steps is reading", share * 100.0);
        return DetectorVerdict::bad(Severity::Info, 800, why);
    }
    DetectorVerdict::good_if(share < c.read_share * 0.66)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stages_are_known_by_their_names() {
        for (name, is) in [
            ("compute", StageKind::Own),
            ("fwd", StageKind::Own),
            ("optimizer", StageKind::Own),
            ("comm", StageKind::Exchange),
            ("all_reduce", StageKind::Exchange),
            ("grad-sync", StageKind::Waiting),
            ("read", StageKind::Reading),
            ("dataloader", StageKind::Reading),
            ("io", StageKind::Reading),
            ("bios", StageKind::Own),
            ("checkpoint", StageKind::Saving),
        ] {
            assert_eq!(stage_kind(name), is, "{name}");
        }
    }

    #[test]
    fn a_job_is_slow_beside_its_past() {
        let c = WatchConfig::default();
        assert!(job_slow(&c, 1.2, 1.0, 0.01, true).is_bad());
        assert!(!job_slow(&c, 1.08, 1.0, 0.01, true).is_bad(), "nearly");
        assert!(!job_slow(&c, 1.2, 1.0, 0.08, true).is_bad(), "its steps always differ");
        assert_eq!(job_slow(&c, 1.03, 1.0, 0.01, true), DetectorVerdict::Good);
        assert_eq!(job_slow(&c, f64::NAN, 1.0, 0.0, true), DetectorVerdict::Unknown);
    }

    #[test]
    fn a_job_starves_by_the_share_of_reading() {
        let c = WatchConfig::default();
        assert!(starved(&c, 0.4, true).is_bad());
        assert!(!starved(&c, 0.4, false).is_bad() && !starved(&c, 0.28, true).is_bad());
        assert_eq!(starved(&c, 0.05, false), DetectorVerdict::Good);
    }
}
