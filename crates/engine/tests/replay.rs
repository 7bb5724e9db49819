//! The same log always gives the same state; whatever happens, the invariants hold.

use crate::common;
#[path = "replay/ops.rs"]
mod ops;

use common::{TestSite, limited, replay};
use muster_engine::invariants::step_problems;
use muster_engine::{Engine, Policy, State};
use muster_metering::JobHistories;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, Rank, StopReason};
use muster_model::policy::BackfillMode;
use muster_model::spec::{JobSpec, Priority, Tier};
use muster_model::units::{Span, Time};
use ops::{NODES, op, play, site};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A start that was reserved by limits is never put off without a reason given.
fn reserved_starts_hold(w: &TestSite) -> Result<(), TestCaseError> {
    let mut standing: BTreeMap<JobId, Time> = BTreeMap::new();
    for r in &w.log {
        match &r.event {
            Event::StartReserved { job, reserved_start }
                if reserved_start.basis == Basis::Limits =>
            {
                let before = standing.insert(*job, reserved_start.at);
                let later = before.is_some_and(|t| reserved_start.at > t);
                prop_assert!(!later || reserved_start.moved.is_some(), "{before:?} {:?}", r);
            }
            Event::StartReserved { job, .. }
            | Event::ReservedStartDropped { job, .. }
            | Event::JobHeld { job, .. }
            | Event::JobRequeued { job, .. } => {
                standing.remove(job);
            }
            Event::JobPlaced { key, .. } => {
                standing.remove(&key.job);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Whoever is stopped for another ranks below it.
fn victims_rank_lower(w: &TestSite) -> Result<(), TestCaseError> {
    let mut s = State::default();
    for r in &w.log {
        let odd = step_problems(&s, r).into_iter().find(|p| p.starts_with("none_where_blocked"));
        prop_assert!(odd.is_none(), "{:?}", odd);
        if let Event::StopOrdered { key, reason, .. } | Event::NoticeGiven { key, reason, .. } =
            &r.event
            && let StopReason::Preempted { by: Some(by), rank } = reason
            && let (Some(victim), Some(by)) = (s.jobs.get(&key.job), s.jobs.get(by))
            // A notice becomes a stop later; what ranks them was judged when it was given.
            && victim.attempt.as_ref().is_some_and(|a| a.notice.is_none() && a.stop.is_none())
        {
            let lower = match rank {
                Rank::Priority => victim.spec.priority < by.spec.priority,
                Rank::Spot => victim.spec.tier == Tier::Spot && by.spec.tier != Tier::Spot,
                Rank::Quota => !s.quotas.tree.is_empty() && victim.project != by.project,
            };
            prop_assert!(lower, "{:?}", r);
        }
        s.apply(r).unwrap();
    }
    Ok(())
}

/// Metering counts no GPU for two attempts at one moment: so the GPU time of all of them on a node
/// never exceeds its GPUs times the time.
fn metered_once(w: &TestSite) -> Result<(), TestCaseError> {
    let mut meter = JobHistories::default();
    for r in &w.log {
        meter.apply(r);
        // Only here it can become more.
        if matches!(r.event, Event::JobPlaced { .. }) {
            for (node, milli) in meter.allocated() {
                // A slice counts as the larger of its parts: together they can be more than a GPU.
                let sliced = *node == common::node(NODES - 1);
                prop_assert!(sliced || milli <= 8000, "{milli} on {node} at {:?}", r);
            }
        }
    }
    Ok(())
}

/// So many lives, or as many as `PROPTEST_CASES` asks for.
fn lives(n: u32) -> ProptestConfig {
    let asked = std::env::var_os("PROPTEST_CASES").is_some();
    let default = ProptestConfig::default();
    ProptestConfig { cases: if asked { default.cases } else { n }, ..default }
}

/// Whoever is placed starts at once, and whoever is stopped is gone at once.
fn attend(w: &mut TestSite) {
    let next = |w: &TestSite, s: JobState| {
        w.engine.state().jobs.values().find(|j| j.state == s).map(|j| j.id)
    };
    loop {
        if let Some(id) = next(w, JobState::Starting) {
            w.start(id);
        } else if let Some(id) = next(w, JobState::Stopping) {
            w.stopped(id);
        } else {
            return;
        }
    }
}

/// Time passes, and nothing is late.
fn attend_for(w: &mut TestSite, span: Span) {
    let end = w.now + span;
    while w.now < end {
        w.now = w.engine.next_wake().filter(|t| *t < end).unwrap_or(end);
        w.tick();
        attend(w);
    }
}

/// Nobody starts later than the limits of others allow.
fn reserved_starts_on_time(w: &TestSite) -> Result<(), TestCaseError> {
    let mut standing: BTreeMap<JobId, Time> = BTreeMap::new();
    for r in &w.log {
        match &r.event {
            Event::StartReserved { job, reserved_start }
                if reserved_start.basis == Basis::Limits =>
            {
                standing.insert(*job, reserved_start.at);
            }
            Event::StartReserved { job, .. } | Event::ReservedStartDropped { job, .. } => {
                standing.remove(job);
            }
            Event::JobPlaced { key, .. } => {
                let by = standing.remove(&key.job);
                prop_assert!(by.is_none_or(|t| r.at <= t), "{by:?} {:?}", r);
            }
            _ => {}
        }
    }
    let now = w.now;
    prop_assert!(standing.values().all(|t| *t >= now), "{standing:?} at {now:?}");
    Ok(())
}

proptest! {
    #![proptest_config(lives(24))]

    /// Where no node fails and everybody goes when their time is up.
    #[test]
    fn in_calm_lives_every_reserved_start_is_kept(
        mode in 0u8..3,
        steps in proptest::collection::vec((1u32..5, 1u32..9, 1u64..300, any::<u8>(), 0u8..8), 1..60),
    ) {
        let mut w = TestSite::new(6, 8);
        w.policy(|p| p.backfill.mode = [BackfillMode::Conservative, BackfillMode::Easy, BackfillMode::Aggressive][usize::from(mode)]);
        for (nodes, gpus, mins, n, what) in steps {
            match what {
                0 | 1 => attend_for(&mut w, Span::mins(mins)),
                2 => {
                    let running: Vec<JobId> = w.engine.state().jobs.values().filter(|j| j.state == JobState::Running).map(|j| j.id).collect();
                    if let Some(id) = running.get(usize::from(n) % running.len().max(1)) {
                        w.finish(*id);
                    }
                }
                _ => {
                    let priority = [Priority::Normal, Priority::Normal, Priority::Low, Priority::High][usize::from(n) % 4];
                    let spec = JobSpec { priority, ..limited(nodes, gpus, mins) };
                    w.submit_as(if n.is_multiple_of(3) { "ann" } else { "bob" }, spec);
                }
            }
            attend(&mut w);
        }
        reserved_starts_on_time(&w)?;
        attend_for(&mut w, Span::hours(1000));
        reserved_starts_on_time(&w)?;
        let waiting = w.engine.state().queue_len();
        prop_assert_eq!(waiting, 0, "somebody waits for ever");
    }
}

proptest! {
    #![proptest_config(lives(24))]

    /// Invariants are checked after every step by the world itself.
    #[test]
    fn a_log_replays_to_the_same_digest_and_two_lives_are_equal(ops in proptest::collection::vec(op(), 1..120)) {
        let mut a = site();
        let mut b = site();
        for o in &ops {
            play(&mut a, o);
            play(&mut b, o);
        }
        prop_assert_eq!(&a.log, &b.log);
        let digest = a.engine.state().digest();
        prop_assert_eq!(replay(&a.log).digest(), digest.clone());
        // Through text, as the store keeps it.
        let text: Vec<Vec<u8>> = a.log.iter().map(|r| r.to_json().unwrap()).collect();
        let back: Vec<_> = text.iter().map(|t| muster_records::read(t).unwrap()).collect();
        prop_assert_eq!(replay(&back).digest(), digest.clone());
        // Through a snapshot half way.
        let half = a.log.len() / 2;
        let before = replay(&a.log[..half]);
        let bytes = before.to_bytes().unwrap();
        let mut s = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
        prop_assert_eq!(&s.jobs, &before.jobs);
        for task in s.jobs.values() {
            let first = task.array.and_then(|a| s.jobs.get(&a.parent));
            // Only priority and time limit are their own.
            let shares = first.is_none_or(|f| {
                std::sync::Arc::ptr_eq(f.spec.shared(), task.spec.shared())
            });
            prop_assert!(shares, "task {} has a copy of its array's spec", task.id);
        }
        for r in &a.log[half..] {
            s.apply(r).unwrap();
        }
        prop_assert_eq!(s.digest(), digest);
        prop_assert!(s.problems().is_empty(), "{:?}", s.problems());
        reserved_starts_hold(&a)?;
        victims_rank_lower(&a)?;
        metered_once(&a)?;
    }

    #[test]
    fn an_early_tick_changes_nothing(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = site();
        for o in &ops {
            play(&mut w, o);
            let n = w.log.len();
            w.tick();
            prop_assert_eq!(w.log.len(), n, "a second tick at the same time found something to do");
        }
    }

    /// A server that starts anew goes on from what the log says.
    #[test]
    fn a_restart_at_any_moment_breaks_nothing(ops in proptest::collection::vec(op(), 1..60), at in 0usize..60) {
        let mut w = site();
        for (i, o) in ops.iter().enumerate() {
            if i == at % ops.len() {
                let bytes = w.engine.state().to_bytes().unwrap();
                let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
                w.engine = Engine::new(state, Policy::default());
                w.tick();
            }
            play(&mut w, o);
        }
        reserved_starts_hold(&w)?;
        prop_assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }

    #[test]
    fn every_waiting_job_can_say_why(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = site();
        for o in &ops {
            play(&mut w, o);
        }
        for id in w.engine.state().jobs.keys() {
            let e = w.engine.state().explain(*id, w.now).unwrap();
            prop_assert!(!e.summary.is_empty());
            prop_assert!(e.constraints.iter().filter(|c| c.binding).count() <= 1, "{:?}", e);
        }
    }
}

proptest! {
    // Each of these lives two days more, step by step.
    #![proptest_config(lives(8))]

    /// The engine wakes for a reason, and not for ever: the world counts its steps.
    #[test]
    fn when_nothing_comes_it_falls_quiet(ops in proptest::collection::vec(op(), 1..60)) {
        let mut w = site();
        for o in &ops {
            play(&mut w, o);
        }
        w.sleep(Span::hours(24));
        let n = w.log.len();
        w.sleep(Span::hours(24));
        let orders = w.since(n).filter(|e| matches!(e, Event::JobPlaced { .. })).count();
        prop_assert!(orders <= w.engine.state().jobs.len(), "{} starts in a day without news", orders);
    }
}
