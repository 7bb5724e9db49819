//! What is found out after a job runs again counts as if it had been known at once.

use super::*;
use crate::common::fault;
use muster_model::breaker::BreakerState;
use muster_model::ids::JobId;
use muster_model::job::Exit;

/// Milliseconds that interruptions cost, and the good ones and all of the recoveries.
fn counts(w: &TestSite) -> (u64, (u64, u64)) {
    let all = w.engine.state().objective_statuses(w.now);
    let of = |name: &str| {
        let found = all.iter().find(|s| s.objective.name.as_str() == name);
        found.expect("a default objective").status.count
    };
    let recovery = of("recovery");
    (of("interruptions").bad(), (recovery.good, recovery.total))
}

/// A rank is killed by a signal, and nothing says why.
fn is_killed(w: &mut TestSite, job: JobId) -> muster_model::names::NodeName {
    let exit = Exit { rank: 0, code: None, signal: Some(9), note: String::new() };
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, Observed::Ended(SlotEnd::Failed { exit }));
    n
}

#[test]
fn the_last_crash_of_a_loop_counts_once_hardware_turns_out_to_be_its_cause() {
    let mut w = site(8);
    let mut spec = gang(1, 8);
    spec.retries.infrastructure = 100;
    let job = w.run(spec);
    let mut last = node(0);
    for no in 1..=5 {
        w.pass(Span::secs(1));
        last = is_killed(&mut w, job);
        assert_eq!(w.job(job).past.last().map(|p| p.verdict), Some(Verdict::Unknown));
        if no < 5 {
            w.sleep(Span::mins(2));
            w.start(job);
        }
    }
    // It runs again before anything is found.
    let held = w.job(job).held.clone().expect("the breaker of its template holds it");
    let entity = held.by.breaker().expect("a breaker").clone();
    let (state, reason) = (Some(BreakerState::Closed), "looked at".to_owned());
    w.ok(Command::ForceBreaker { entity, state, reason });
    w.sleep(Span::secs(70));
    w.start(job);
    assert_eq!(w.job(job).attempts, 6);
    assert_eq!(counts(&w), (0, (0, 0)), "its crashes explain one another");
    let mut off_bus = fault("xid-79", 3);
    off_bus.at = w.now;
    w.ok(Command::FaultsSeen { node: last, faults: vec![off_bus] });
    let j = w.job(job);
    let p = &j.past[4];
    assert_eq!(p.verdict, Verdict::Infrastructure, "{p:?}");
    let explained = p.reason.contains("gpu-off-bus") && !p.reason.contains("nothing explains it");
    assert!(explained, "{}", p.reason);
    // The objectives, and what the metric counts by.
    assert_eq!(counts(&w), (Span::mins(15).0, (1, 1)));
    let recovered: Vec<u32> = j.recoveries_from_hardware().map(|r| r.attempt).collect();
    assert_eq!(recovered, [5]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}
