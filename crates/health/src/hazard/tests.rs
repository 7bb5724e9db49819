use super::*;
use proptest::prelude::*;

#[test]
fn nothing_known_is_the_base_rate() {
    let p = Precursors::default();
    assert_eq!(FLEET.rate_ppm(&p), 9_100);
    assert_eq!(hazard(&p), 9);
    assert!(hazard_reasons(&p).is_empty());
}

#[test]
fn signs_of_one_fault_count_once_and_of_two_twice() {
    let rows = Precursors { remapped_rows: Some(64), ..Precursors::default() };
    let both = Precursors { sbe_slope: Some(20_000), ..rows };
    assert_eq!(hazard(&rows), 103);
    assert_eq!(hazard(&both), 103);
    let hot = Precursors { thermal_margin: Some(2), ..both };
    assert_eq!(hazard(&hot), 354);
    assert_eq!(
        hazard_reasons(&hot),
        [
            "20000 correctable memory errors a day",
            "64 replaced memory rows",
            "2 degrees of thermal margin"
        ]
    );
}

#[test]
fn what_failed_lately_fails_again() {
    let ago = |d| Precursors { failed_days_ago: Some(d), ..Precursors::default() };
    assert!(hazard(&ago(3)) > 200);
    assert!((20..40).contains(&hazard(&ago(91))));
}

#[test]
fn several_gpus_fail_more_often_than_one() {
    assert_eq!(together([]), 0);
    assert_eq!(together([9; 8]), 70);
    assert_eq!(together([9, 1000]), 1000);
}

#[test]
fn steps_are_in_order_and_never_fall() {
    let f = &FLEET;
    for t in [f.sbe, f.rows, f.xid92, f.replay, f.nvlink, f.heat, f.repairs] {
        assert!(t.windows(2).all(|w| w[0].0 < w[1].0 && w[0].1 <= w[1].1), "{t:?}");
    }
    assert!(TITAN.age.windows(2).all(|w| w[0].0 < w[1].0));
}

fn some() -> impl Strategy<Value = Precursors> {
    let n = || prop::option::of(0u32..30_000);
    (n(), n(), prop::option::of(any::<bool>()), n(), n(), n(), n(), n()).prop_map(
        |(sbe, rows, pending, replay, nvlink, xid92, failed, repairs)| Precursors {
            sbe_slope: sbe,
            remapped_rows: rows,
            remap_pending: pending,
            replay_slope: replay,
            nvlink_slope: nvlink,
            xid92,
            failed_days_ago: failed,
            repairs,
            ..Precursors::default()
        },
    )
}

proptest! {
    #[test]
    fn more_of_anything_bad_is_never_safer(p in some(), more in 1u32..10_000, margin in 0u32..60) {
        let h = hazard(&p);
        prop_assert!(h <= 1000);
        let up = |v: Option<u32>| Some(v.unwrap_or(0) + more);
        for worse in [
            Precursors { sbe_slope: up(p.sbe_slope), ..p },
            Precursors { remapped_rows: up(p.remapped_rows), ..p },
            Precursors { remap_pending: Some(true), ..p },
            Precursors { replay_slope: up(p.replay_slope), ..p },
            Precursors { nvlink_slope: up(p.nvlink_slope), ..p },
            Precursors { xid92: up(p.xid92), ..p },
            Precursors { repairs: up(p.repairs), ..p },
            Precursors { failed_days_ago: Some(0), ..p },
            Precursors { slot: Some(Slot::Hot), ..p },
            Precursors { thermal_margin: Some(margin), ..p },
        ] {
            prop_assert!(hazard(&worse) >= h, "{worse:?}");
        }
        prop_assert!(hazard_reasons(&p).len() <= 3);
    }
}
