//! Network ports: down, flapping, or with too many errors.

use super::meter::Rise;
use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// No link, for several rows, on a port that had one.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn down(c: &WatchConfig, rows_down: u16, up: bool) -> DetectorVerdict {
    if rows_down >= c.down_rows {
        return DetectorVerdict::bad(
            Severity::Critical,
            950,
            format!("no link in {rows_down} rows in a row"),
        );
    }
    DetectorVerdict::good_if(up)
}

/// Down and up again, within an hour.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn flap(c: &WatchConfig, downs: u32) -> DetectorVerdict {
    if downs >= c.flaps {
        return DetectorVerdict::bad(
            Severity::Degraded,
            900,
            format!("lost its link {downs} times in an hour"),
        );
    }
    DetectorVerdict::good_if(downs == 0)
}

/// What the counters of a port did.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Errors {
    /// Symbol errors of the last while.
    pub symbols: Rise,
    /// Symbol errors of the last hour.
    pub symbols_hour: Rise,
    /// Recoveries of the last while.
    pub recoveries: Rise,
    /// Receive errors of the last while.
    pub receive: Rise,
}

/// Errors by their rate. Links with four levels a symbol always have some, so a count says
/// nothing, and neither does one burst when a cable is moved.
///
/// A false alarm costs nothing, later one quick test.
#[must_use]
pub fn errors(c: &WatchConfig, e: Errors) -> DetectorVerdict {
    let steady = |r: Rise| r.pieces >= 3 && r.secs >= 20.0;
    if steady(e.symbols) && e.symbols.per_sec() > c.symbols_sec {
        let why = format!("{:.1} symbol errors a second", e.symbols.per_sec());
        return DetectorVerdict::bad(Severity::Degraded, 850, why);
    }
    let minute = e.recoveries.by / (e.recoveries.secs / 60.0).max(1.0);
    if e.recoveries.pieces >= 2 && minute > c.recoveries_min {
        let why = format!("{minute:.0} recoveries of the link a minute");
        return DetectorVerdict::bad(Severity::Degraded, 850, why);
    }
    if steady(e.receive) && e.receive.per_sec() > c.receive_sec {
        let why = format!("{:.1} receive errors a second", e.receive.per_sec());
        return DetectorVerdict::bad(Severity::Degraded, 800, why);
    }
    let hour = e.symbols_hour.by / (e.symbols_hour.secs / 3600.0).max(1.0);
    if e.symbols_hour.pieces >= 2 && e.symbols.pieces >= 2 && hour > c.symbols_hour {
        let why = format!("{hour:.0} symbol errors within an hour");
        return DetectorVerdict::bad(Severity::Warning, 700, why);
    }
    DetectorVerdict::good_if(
        hour < c.symbols_hour / 2.0 && e.symbols.per_sec() < c.symbols_sec / 2.0,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rise(by: f64, secs: f64, pieces: u32) -> Rise {
        Rise { by, secs, pieces }
    }

    #[test]
    fn a_port_is_down_after_some_rows() {
        let c = WatchConfig::default();
        assert!(down(&c, 3, false).is_bad());
        assert_eq!(down(&c, 2, false), DetectorVerdict::Unknown);
        assert_eq!(down(&c, 0, true), DetectorVerdict::Good);
        assert!(flap(&c, 3).is_bad() && !flap(&c, 2).is_bad());
    }

    #[test]
    fn errors_count_by_rate_and_never_by_count() {
        let c = WatchConfig::default();
        let quiet = Errors { symbols_hour: rise(100.0, 3600.0, 5), ..Errors::default() };
        assert!(!errors(&c, quiet).is_bad(), "four levels a symbol always have some");
        let many = Errors {
            symbols: rise(30.0, 60.0, 4),
            symbols_hour: rise(300.0, 1800.0, 5),
            ..Errors::default()
        };
        let DetectorVerdict::Bad(b) = errors(&c, many) else { panic!("bad") };
        assert_eq!(b.severity, Severity::Warning);
        let fast = Errors { symbols: rise(1200.0, 60.0, 5), ..Errors::default() };
        let DetectorVerdict::Bad(b) = errors(&c, fast) else { panic!("bad") };
        assert_eq!(b.severity, Severity::Degraded);
        let moved = Errors { symbols: rise(50_000.0, 60.0, 1), ..Errors::default() };
        assert!(!errors(&c, moved).is_bad(), "somebody moved the cable");
        let recovering = Errors { recoveries: rise(8.0, 60.0, 4), ..Errors::default() };
        assert!(errors(&c, recovering).is_bad());
        let seldom = Errors { recoveries: rise(4.0, 60.0, 4), ..Errors::default() };
        assert!(!errors(&c, seldom).is_bad());
    }
}
