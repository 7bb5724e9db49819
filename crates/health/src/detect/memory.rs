//! The memory of a GPU: errors, and rows that were replaced or could not be.

use super::meter::Rise;
use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// Uncorrectable errors: any rise of the counter. A count that was there before says nothing.
///
/// A false alarm costs a reset of one GPU.
#[must_use]
pub fn uncorrectable(rose: f64, restarted: bool) -> DetectorVerdict {
    if rose > 0.0 {
        DetectorVerdict::bad(Severity::Critical, 950, format!("{rose} more double-bit errors"))
    } else {
        // Only a reset makes the counter start again, and only a reset repairs it.
        DetectorVerdict::good_if(restarted)
    }
}

/// Correctable errors by their slope: too many in any case, or far more than the peers see, in
/// several pieces. Single errors and one burst are nothing.
///
/// A false alarm costs nothing, later one quick test.
#[must_use]
pub fn correctable(c: &WatchConfig, own: Rise, peers_per_sec: f64) -> DetectorVerdict {
    let rate = own.per_sec();
    let fast = own.by >= c.sbe_rate * 30.0 && rate >= c.sbe_rate && own.pieces >= 2;
    if fast {
        let why = format!("{rate:.1} single-bit errors a second (limit {})", c.sbe_rate);
        return DetectorVerdict::bad(Severity::Warning, 900, why);
    }
    let steep = rate * 600.0 >= c.sbe_window && own.by >= c.sbe_window && own.pieces >= 3;
    if steep && rate > peers_per_sec * c.sbe_peers {
        let why = format!(
            "{:.0} single-bit errors in {:.0} s, peers {:.3} a second",
            own.by, own.secs, peers_per_sec
        );
        return DetectorVerdict::bad(Severity::Warning, 700, why);
    }
    DetectorVerdict::good_if(rate * 600.0 < c.sbe_window / 2.0)
}

/// Rows that wait for a reset, by the driver's flag.
///
/// A false alarm costs a reset between two jobs.
#[must_use]
pub fn remap_pending(flag: f32, rows: u16) -> DetectorVerdict {
    if flag >= 0.5 && rows >= 2 {
        DetectorVerdict::bad(
            Severity::Warning,
            950,
            "the driver reports that a row waits for a reset",
        )
    } else {
        DetectorVerdict::good_if(flag < 0.5)
    }
}

/// Rows that cannot be replaced any more, by the driver's flag.
///
/// A false alarm costs a technician's visit.
#[must_use]
pub fn remap_failed(flag: f32, rows: u16) -> DetectorVerdict {
    if flag >= 0.5 && rows >= 2 {
        DetectorVerdict::bad(
            Severity::Critical,
            970,
            "the driver reports that a row could not be replaced",
        )
    } else {
        DetectorVerdict::good_if(flag < 0.5)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rise(by: f64, secs: f64, pieces: u32) -> Rise {
        Rise { by, secs, pieces }
    }

    #[test]
    fn any_new_double_bit_error_counts_and_old_ones_do_not() {
        assert!(uncorrectable(1.0, false).is_bad());
        assert_eq!(uncorrectable(0.0, false), DetectorVerdict::Unknown);
        assert_eq!(uncorrectable(0.0, true), DetectorVerdict::Good);
    }

    #[test]
    fn correctable_errors_count_by_slope() {
        let c = WatchConfig::default();
        assert!(correctable(&c, rise(6000.0, 600.0, 5), 0.0).is_bad(), "ten a second");
        assert!(correctable(&c, rise(120.0, 600.0, 5), 0.001).is_bad(), "beside quiet peers");
        assert!(!correctable(&c, rise(50.0, 600.0, 5), 0.0).is_bad(), "nearly");
        assert!(!correctable(&c, rise(120.0, 600.0, 5), 0.1).is_bad(), "peers see as many");
        assert!(!correctable(&c, rise(500.0, 600.0, 1), 0.0).is_bad(), "one burst");
        assert_eq!(
            correctable(&c, rise(2.0, 600.0, 2), 0.0),
            DetectorVerdict::Good,
            "stray errors"
        );
    }

    #[test]
    fn flags_are_believed_when_they_stay() {
        assert!(remap_pending(1.0, 2).is_bad() && remap_failed(1.0, 2).is_bad());
        assert_eq!(remap_pending(1.0, 1), DetectorVerdict::Unknown);
        assert_eq!(remap_failed(0.0, 9), DetectorVerdict::Good);
        assert_eq!(remap_pending(f32::NAN, 0), DetectorVerdict::Unknown);
    }
}
