//! A host and its agent: processes that hang in the kernel, rows that stop, GPUs that vanish.

use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// Processes hang in the kernel, and no file system of the node explains it.
///
/// A false alarm costs one reboot.
#[must_use]
pub fn stuck(processes: f64, lasts: bool, storage_stalls: bool) -> DetectorVerdict {
    if processes < 1.0 {
        return DetectorVerdict::good_if(processes >= 0.0);
    }
    // Whoever waits for a file server is not unhealthy.
    if storage_stalls || !lasts || processes.is_nan() {
        return DetectorVerdict::Unknown;
    }
    let why = format!("{processes:.0} processes in uninterruptible sleep");
    DetectorVerdict::bad(Severity::Degraded, 700, why)
}

/// Rounds of rows of all others after which a silent agent hangs, whatever the clock says.
const ROUNDS: u64 = 20;

/// How silent an agent is that is heard.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct AgentSilence {
    /// Milliseconds since its last row.
    pub ms: i64,
    /// Its usual pause between two rows, in milliseconds.
    pub usual_ms: f64,
    /// How often it was heard since.
    pub heard: u32,
    /// Rows that each of the others reported since, about.
    pub rounds: u64,
}

/// An agent that is heard and reports no rows, while other agents do.
///
/// A false alarm costs nothing: ranks go on.
#[must_use]
pub fn silent(c: &WatchConfig, s: AgentSilence) -> DetectorVerdict {
    let bound = (c.silent_for.0 as f64).max(s.usual_ms * 6.0);
    let long = s.ms as f64 > bound && s.rounds >= 3;
    if s.heard >= 3 && (long || s.rounds >= ROUNDS) {
        let why = format!("{} heartbeats, and no row for {} s", s.heard, s.ms / 1000);
        return DetectorVerdict::bad(Severity::Degraded, 800, why);
    }
    DetectorVerdict::Unknown
}

/// A GPU without any figure while others of its node report theirs.
///
/// A false alarm costs one reboot and a quick test.
#[must_use]
pub fn missing(c: &WatchConfig, rows_without: u16, others_report: bool) -> DetectorVerdict {
    if rows_without == 0 {
        return DetectorVerdict::Good;
    }
    if rows_without >= c.missing_rows && others_report {
        let why = format!("no number in {rows_without} rows while other GPUs report theirs");
        return DetectorVerdict::bad(Severity::Critical, 850, why);
    }
    DetectorVerdict::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stuck_is_who_hangs_without_storage_as_the_cause() {
        assert!(stuck(2.0, true, false).is_bad());
        assert_eq!(stuck(2.0, true, true), DetectorVerdict::Unknown, "the file server stalls");
        assert_eq!(stuck(2.0, false, false), DetectorVerdict::Unknown, "for a moment");
        assert_eq!(stuck(0.0, false, false), DetectorVerdict::Good);
        assert_eq!(stuck(f64::NAN, true, false), DetectorVerdict::Unknown);
    }

    #[test]
    fn silence_counts_beside_the_usual_pause_and_others() {
        let c = WatchConfig::default();
        let s = AgentSilence { ms: 61_000, usual_ms: 10_000.0, heard: 9, rounds: 6 };
        assert!(silent(&c, s).is_bad());
        let seldom = AgentSilence { ms: 59_000, ..s };
        assert_eq!(silent(&c, seldom), DetectorVerdict::Unknown, "its rows are seldom");
        let nearly = AgentSilence { ms: 29_000, usual_ms: 5000.0, ..s };
        assert_eq!(silent(&c, nearly), DetectorVerdict::Unknown);
        assert_eq!(
            silent(&c, AgentSilence { rounds: 0, ..s }),
            DetectorVerdict::Unknown,
            "nobody's rows come"
        );
        assert_eq!(
            silent(&c, AgentSilence { heard: 1, ..s }),
            DetectorVerdict::Unknown,
            "just back"
        );
        assert!(silent(&c, AgentSilence { ms: 5000, rounds: 20, ..s }).is_bad());
    }

    #[test]
    fn a_gpu_is_missing_when_others_are_not() {
        let c = WatchConfig::default();
        assert!(missing(&c, 3, true).is_bad());
        assert_eq!(missing(&c, 2, true), DetectorVerdict::Unknown);
        assert_eq!(
            missing(&c, 9, false),
            DetectorVerdict::Unknown,
            "the driver reports nothing at all"
        );
        assert_eq!(missing(&c, 0, true), DetectorVerdict::Good);
    }
}
