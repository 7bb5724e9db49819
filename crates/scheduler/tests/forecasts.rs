//! When a waiting job starts, as a range.

use crate::common;

use common::shapes::{ALL, Kinds, QUOTAS, act, any_act, any_fleet, any_policy, cases};
use common::{ClusterRun, fleet, gang};
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::policy::SitePolicy;
use muster_model::units::{Span, Time};
use muster_scheduler::forecast::{Durations, ENOUGH, Range, range};
use muster_scheduler::history::History;
use muster_scheduler::{Cluster, Work, explain};
use proptest::prelude::*;

/// One user whose jobs of an hour ran so many seconds.
fn seen(seconds: &[u64]) -> History<u8> {
    let mut history = History::default();
    for s in seconds {
        history.observe(0, 1, 3_600_000, s * 1000);
    }
    history
}

/// What is known of a job's start: reserved, or by the limits of what runs.
fn bound(life: &ClusterRun, id: JobId) -> Option<(Time, bool)> {
    match life.reported.get(&id) {
        Some(t) => (t.basis == Basis::Limits).then_some((t.at, true)),
        None => {
            let w = life.c.queue.get(id)?;
            let e = explain(&life.c, w, &life.policy, life.now);
            e.estimate.map(|e| (e.at, false))
        }
    }
}

fn forecast(life: &ClusterRun, id: JobId, history: &History<u8>) -> Option<Range> {
    forecast_on(life.c.clone(), life, id, history)
}

/// The same on a copy of the cluster.
fn forecast_on(c: Cluster, life: &ClusterRun, id: JobId, history: &History<u8>) -> Option<Range> {
    let durations = Durations::new(history, |_| ());
    let length = |w: &Work, ran: Span, draw: u64| durations.length((0, ()), w, ran, draw);
    let bound = bound(life, id)?;
    Some(range(c, id, &life.policy, life.now, bound, Some(&length)))
}

#[test]
fn a_length_is_drawn_from_those_that_ran_longer() {
    let w = gang(1, 8).limit(60).work;
    let few = Durations::new(&seen(&[900; ENOUGH - 1]), |_| ());
    assert_eq!(few.length((0, ()), &w, Span(0), 0), None, "too few were seen");
    let some = Durations::new(&seen(&[900, 900, 900, 900, 1800, 1800, 1800, 1800]), |_| ());
    assert_eq!(some.seen(), 8);
    let length = |ran: u64, draw: u64| some.length((0, ()), &w, Span::mins(ran), draw).unwrap();
    assert_eq!(length(0, 0), Span(0));
    assert_eq!(length(0, u64::MAX / 4), Span::mins(15));
    let middle = length(0, u64::MAX / 2);
    assert!(Span::mins(15) < middle && middle < Span::mins(30), "between the two: {middle}");
    assert!(length(0, u64::MAX) > Span::mins(59), "some run to their limit");
    assert_eq!(length(15, 0), Span::mins(15));
    assert_eq!(length(15, u64::MAX / 2), Span::mins(30));
    assert!(length(45, u64::MAX / 2) > Span::mins(50), "longer than all before it");
    // A stranger lasts as the others do; work without a limit as none of them.
    assert_eq!(some.length((1, ()), &w, Span(0), u64::MAX / 4), Some(Span::mins(15)));
    assert_eq!(some.length((0, ()), &gang(1, 8).work, Span(0), 0), None);
}

#[test]
fn the_same_question_has_the_same_answer() {
    let mut life = ClusterRun::new(fleet(1, 2, 8));
    for _ in 0..2 {
        life.submit(gang(1, 8).limit(60));
    }
    let waits = life.submit(gang(2, 8).limit(60));
    let history = seen(&[60, 300, 600, 900, 1200, 1800, 2400, 3000]);
    let r = forecast(&life, waits, &history).unwrap();
    assert_eq!(Some(r), forecast(&life, waits, &history));
    assert_eq!((r.latest, r.whole), (life.now + Span::mins(60), true));
    assert!(r.earliest.is_some_and(|t| life.now < t && t < r.latest), "{r:?}");
}

#[test]
fn a_late_end_that_leaves_jobs_ahead_out_does_not_count_as_whole() {
    let mut policy = SitePolicy::default();
    policy.backfill.reserved_starts = 1;
    let mut life = ClusterRun::new(fleet(1, 2, 8)).with_policy(policy);
    let waits: Vec<JobId> = (0..13).map(|_| life.submit(gang(2, 8).limit(60))).collect();
    let (second, last) = (waits[2], waits[12]);
    let history = seen(&[60, 300, 600, 900, 1200, 1800, 2400, 3000]);
    let whole = forecast(&life, last, &history).unwrap();
    assert_eq!((whole.latest, whole.whole), (life.now + Span::hours(12), true));
    // A queue that is not longer is not cut.
    let copy = life.c.copy_for(last, life.c.queue.len(), Vec::new());
    assert!(!copy.queue.is_cut());
    assert_eq!(forecast_on(copy, &life, last, &history), Some(whole));
    let cut = life.c.copy_for(last, 4, Vec::new());
    assert_eq!((cut.queue.len(), cut.queue.len_in_all()), (5, 12));
    let r = forecast_on(cut, &life, last, &history).unwrap();
    assert!(!r.whole && r.latest < whole.latest, "{r:?}");
    assert!(r.earliest.is_some_and(|t| t <= r.latest), "{r:?}");
    // Everybody ahead of this one is in it.
    let cut = life.c.copy_for(second, 4, Vec::new());
    let r = forecast_on(cut, &life, second, &history).unwrap();
    assert_eq!(Some(r), forecast(&life, second, &history));
    assert_eq!((r.latest, r.whole), (life.now + Span::hours(2), true));
}

proptest! {
    #![proptest_config(cases(16))]

    #[test]
    fn the_early_end_is_never_after_the_late_one(
        nodes in any_fleet(),
        policy in any_policy(),
        quota in 0..QUOTAS.len(),
        ran in prop::collection::vec(0..3600u64, ENOUGH..16),
        acts in prop::collection::vec(any_act(Kinds { ..ALL }), 1..20),
    ) {
        let mut life = ClusterRun::new(nodes.it).with_policy(policy.it).with_quotas(QUOTAS[quota]);
        life.strict = false;
        let history = seen(&ran);
        for a in &acts {
            act(&mut life, a);
        }
        let waiting: Vec<JobId> = life.c.queue.jobs().take(3).collect();
        for id in waiting {
            let Some(r) = forecast(&life, id, &history) else { continue };
            let early = r.earliest.expect("enough were seen");
            prop_assert!(early <= r.latest, "{id}: {r:?}");
            prop_assert!(early >= life.now || r.latest <= life.now, "{id}: {r:?}");
        }
        prop_assert!(life.c.problems().is_empty());
    }
}
