//! The same log always gives the same state; whatever happens, the invariants hold.

mod common;
#[path = "replay/ops.rs"]
mod ops;

use common::{World, replay};
use muster_engine::{Engine, Policy, State};
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::job::{Basis, Rank, StopReason};
use muster_model::spec::Tier;
use muster_model::units::{Span, Time};
use ops::{op, play, site};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// A start that was promised by limits is never put off without a reason given.
fn promises_hold(w: &World) -> Result<(), TestCaseError> {
    let mut standing: BTreeMap<JobId, Time> = BTreeMap::new();
    for r in &w.log {
        match &r.event {
            Event::JobPromised { job, promise } if promise.basis == Basis::Limits => {
                let before = standing.insert(*job, promise.at);
                let later = before.is_some_and(|t| promise.at > t);
                prop_assert!(!later || promise.moved.is_some(), "{before:?} {:?}", r);
            }
            Event::JobPromised { job, .. }
            | Event::PromiseDropped { job, .. }
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
fn victims_rank_lower(w: &World) -> Result<(), TestCaseError> {
    let mut s = State::default();
    for r in &w.log {
        if let Event::StopOrdered { key, reason, .. } | Event::NoticeGiven { key, reason, .. } =
            &r.event
            && let StopReason::Preempted { by, rank } = reason
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

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, ..ProptestConfig::default() })]

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
        let text: Vec<String> = a.log.iter().map(|r| serde_json::to_string(r).unwrap()).collect();
        let back: Vec<_> = text.iter().map(|t| serde_json::from_str(t).unwrap()).collect();
        prop_assert_eq!(replay(&back).digest(), digest.clone());
        // Through a snapshot half way.
        let half = a.log.len() / 2;
        let bytes = replay(&a.log[..half]).to_bytes().unwrap();
        let mut s = State::from_bytes(1, &bytes).unwrap();
        for r in &a.log[half..] {
            s.apply(r).unwrap();
        }
        prop_assert_eq!(s.digest(), digest);
        prop_assert!(s.problems().is_empty(), "{:?}", s.problems());
        promises_hold(&a)?;
        victims_rank_lower(&a)?;
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

    /// A server that starts anew goes on from what the log says.
    #[test]
    fn a_restart_at_any_moment_breaks_nothing(ops in proptest::collection::vec(op(), 1..60), at in 0usize..60) {
        let mut w = site();
        for (i, o) in ops.iter().enumerate() {
            if i == at % ops.len() {
                let bytes = w.engine.state().to_bytes().unwrap();
                let state = State::from_bytes(1, &bytes).unwrap();
                w.engine = Engine::new(state, Policy::default());
                w.tick();
            }
            play(&mut w, o);
        }
        promises_hold(&w)?;
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
