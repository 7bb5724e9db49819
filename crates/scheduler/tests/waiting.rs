//! Nobody waits for ever: a stream of small jobs does not keep a big gang from starting, and two
//! gangs that cannot run together run one after the other.

use crate::common;

use common::{ClusterRun, fleet, gang};
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::units::Span;

fn policy(mode: BackfillMode, predict: bool) -> SitePolicy {
    let mut p = SitePolicy::default();
    p.backfill.mode = mode;
    p.backfill.predict = predict;
    p
}

const MODES: [(BackfillMode, bool); 4] = [
    (BackfillMode::Conservative, true),
    (BackfillMode::Conservative, false),
    (BackfillMode::Easy, true),
    (BackfillMode::Aggressive, true),
];

/// An endless stream: whenever something ends, and every few minutes, more small jobs come.
/// Returns after how long the big gang started.
fn against_a_stream(mode: (BackfillMode, bool), limit: Option<u64>, most: u64) -> Option<Span> {
    let mut life = ClusterRun::new(fleet(2, 3, 4)).with_policy(policy(mode.0, mode.1));
    life.strict = false;
    let small = |i: u64| {
        let real = 11 + i * 7 % 23;
        let b = gang(1, 1 + u32::try_from(i % 2).unwrap()).runs(real).of("p1", "u1");
        if let Some(l) = limit { b.limit(l) } else { b }
    };
    let mut i = 0;
    for _ in 0..16 {
        life.add(small(i));
        i += 1;
    }
    life.cycle();
    life.pass(Span::mins(5));
    let came = life.now;
    let big = life.submit(gang(6, 4).limit(60).runs(60));
    for _ in 0..most {
        if life.running(big) {
            return Some(life.now.since(came));
        }
        for _ in 0..6 {
            life.add(small(i));
            i += 1;
        }
        life.pass(Span::mins(3));
    }
    None
}

#[test]
fn a_big_gang_starts_against_a_stream_with_limits() {
    for mode in MODES {
        let waited = against_a_stream(mode, Some(40), 200);
        let waited = waited.unwrap_or_else(|| panic!("{mode:?}: it never starts"));
        // Under the aggressive mode only the head has a reserved start, half an hour after its earliest start.
        let most = if mode.0 == BackfillMode::Aggressive { 40 + 120 + 60 + 40 } else { 45 };
        assert!(waited <= Span::mins(most), "{mode:?}: it waited {waited}");
    }
}

#[test]
fn a_big_gang_starts_against_a_stream_without_limits() {
    for mode in MODES {
        let waited = against_a_stream(mode, None, 200);
        let waited = waited.unwrap_or_else(|| panic!("{mode:?}: it never starts"));
        // Nodes are gathered after the patience is over, and the longest job runs 33 minutes.
        assert!(waited <= Span::mins(10 + 33 + 6), "{mode:?}: it waited {waited}");
    }
}

#[test]
fn one_bound_to_a_leaf_starts_against_a_stream() {
    for limit in [Some(40), None] {
        let mut life = ClusterRun::new(fleet(3, 3, 4));
        life.strict = false;
        let small = |i: u64| {
            let b = gang(1, 2).runs(9 + i * 5 % 29).of("p1", "u1");
            if let Some(l) = limit { b.limit(l) } else { b }
        };
        for i in 0..30 {
            life.add(small(i));
        }
        life.pass(Span::mins(5));
        let bound = gang(3, 4).limit(30).required(muster_model::topology::Level::Leaf);
        let big = life.submit(bound);
        let mut steps = 0;
        while !life.running(big) {
            for i in 0..6 {
                life.add(small(i + steps));
            }
            life.pass(Span::mins(3));
            steps += 1;
            assert!(steps < 60, "it never starts ({limit:?})");
        }
    }
}

#[test]
fn two_gangs_that_cannot_run_together_run_one_after_the_other() {
    for limit in [Some(50), None] {
        for mode in MODES {
            let mut life = ClusterRun::new(fleet(2, 3, 4)).with_policy(policy(mode.0, mode.1));
            let with = |b: common::Build| if let Some(l) = limit { b.limit(l) } else { b };
            let busy = life.submit(with(gang(6, 1).runs(20)));
            let one = life.submit(with(gang(4, 4).runs(40)));
            let two = life.submit(with(gang(5, 4).runs(40)));
            assert!(life.running(busy) && life.waits(one) && life.waits(two));
            let left = life.drain();
            assert!(left.is_empty(), "{mode:?} {limit:?}: {left:?} wait for ever");
            let (a, b) = (life.started[&one], life.started[&two]);
            assert!(a.since(b) >= Span::mins(40) || b.since(a) >= Span::mins(40));
        }
    }
}

#[test]
fn many_gangs_of_more_than_half_all_run() {
    let mut life = ClusterRun::new(fleet(2, 2, 2));
    for i in 0..8 {
        let b = gang(3, 2).runs(10 + i).of(["p0", "p1", "p2"][(i % 3) as usize], "u");
        life.add(if i.is_multiple_of(2) { b.limit(30) } else { b });
    }
    life.cycle();
    assert!(life.drain().is_empty());
    assert_eq!(life.done.len(), 8);
}
