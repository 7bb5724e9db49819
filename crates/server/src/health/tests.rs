//! Figures about recovery.

use super::metrics::HealthMetrics;
use muster_model::job::Recovery;
use muster_model::units::{Span, Time};

fn recovery() -> Recovery {
    Recovery {
        attempt: 1,
        finding: None,
        fault_at: Time(0),
        found_at: Time(500),
        decided_at: Time(700),
        drained_at: Some(Time(5_700)),
        placed_at: Some(Time(5_800)),
        started_at: Some(Time(7_800)),
        working_at: Some(Time(37_800)),
        held: None,
    }
}

#[test]
fn the_parts_of_a_recovery_are_reported_one_by_one() {
    let f = HealthMetrics::default();
    f.recovered(&recovery());
    f.loaded(&recovery());
    let stats = f.read(0, 0);
    let sums = stats.parts.map(|p| (p.count, (p.sum * 10.0).round()));
    let parts = [(1, 5.0), (1, 2.0), (1, 50.0), (1, 1.0), (1, 20.0), (1, 300.0)];
    assert_eq!(sums, parts);
    // The same after a person held it for an hour: that is no part.
    let f = HealthMetrics::default();
    let later = |t: Option<Time>| t.map(|t| t + Span::hours(1));
    let r = recovery();
    let (placed_at, started_at) = (later(r.placed_at), later(r.started_at));
    let (working_at, held) = (later(r.working_at), Some(Span::hours(1)));
    let r = Recovery { placed_at, started_at, working_at, held, ..r };
    f.recovered(&r);
    f.loaded(&r);
    let sums = f.read(0, 0).parts.map(|p| (p.count, (p.sum * 10.0).round()));
    assert_eq!(sums, parts);
}

#[test]
fn what_is_not_known_of_a_recovery_is_not_counted() {
    let f = HealthMetrics::default();
    f.recovered(&Recovery { drained_at: None, working_at: None, ..recovery() });
    let stats = f.read(0, 0);
    assert_eq!(stats.parts.map(|p| p.count), [1, 1, 0, 0, 1, 0]);
}

#[test]
fn kinds_that_no_map_names_share_one_word() {
    let f = HealthMetrics::default();
    for kind in ["straggler", "made-up-1", "made-up-2", "straggler"] {
        f.finding(kind);
    }
    let opened: Vec<_> = f.read(0, 0).opened.into_iter().collect();
    assert_eq!(opened, [("other", 2), ("straggler", 2)]);
}
