//! A job that ended stays ended: what is learnt later changes whose doing it was, and no more.

use super::*;
use crate::common::{checkpoints, crash, gang, node, number, replay};
use muster_engine::invariants::step_problems;
use muster_engine::{Engine, Policy, State};
use muster_model::job::{Exit, JobState, SlotEnd, StopReason, Verdict};
use muster_model::spec::{JobSpec, OnPartition};
use muster_model::units::Span;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Every record of a life follows the rules that are about records.
pub(super) fn no_odd_steps(w: &TestSite) {
    let mut s = State::default();
    for r in &w.log {
        let odd = step_problems(&s, r);
        assert!(odd.is_empty(), "{odd:?} at {r:?}");
        s.apply(r).unwrap();
    }
}

#[test]
fn a_job_that_ended_is_not_started_by_what_is_learnt_later() {
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 3));
    w.sleep(Span::secs(30));
    let j = w.job(job);
    assert_eq!((j.state, j.exit_code, j.attempts), (JobState::Failed, Some(3), 1));
    assert_eq!(j.past[0].verdict, Verdict::Application);
    xid79(&mut w, &n);
    w.sleep(Span::mins(20));
    let j = w.job(job);
    assert_eq!((j.state, j.exit_code, j.attempts), (JobState::Failed, Some(3), 1));
    // But it is known whose doing it was.
    assert_eq!(j.past[0].verdict, Verdict::Infrastructure);
    assert!(!j.past[0].findings.is_empty() && j.past[0].reason.contains("gpu-off-bus"), "{j:?}");
    assert_eq!((j.application_failures, j.infrastructure_failures), (0, 1));
    let why = w.explain(job).summary;
    assert!(why.contains("infrastructure") && why.contains("muster requeue"), "{why}");
    // Only somebody's word starts it again.
    w.ok(Command::Requeue { job });
    assert_eq!((w.job(job).state, w.job(job).attempts), (JobState::Starting, 2));
    no_odd_steps(&w);
}

#[test]
fn a_node_that_reported_the_end_and_falls_silent_later_did_not_cause_it() {
    for settled_at_once in [true, false] {
        let mut w = able(4);
        let mut spec = gang(1, 8);
        if settled_at_once {
            // A failure of the infrastructure would not be tried again: no cause is looked for.
            spec.retries.infrastructure = 0;
        }
        let job = w.run(spec);
        let n = w.nodes_of(job)[0].clone();
        w.pass(Span::secs(100));
        let end = w.now;
        w.report(job, &n, crash(0, 3));
        assert_eq!(w.job(job).state.is_final(), settled_at_once);
        w.sleep(Span::secs(20));
        w.lose(&n);
        w.sleep(Span::mins(2));
        let p = &w.job(job).past[0];
        assert_eq!((p.verdict, p.freed_at), (Verdict::Application, Some(end)), "{p:?}");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn what_begins_on_a_node_that_was_lost_or_restarted_after_an_end_did_not_cause_it() {
    for (lost, boot) in [(true, "boot"), (false, "another boot"), (true, "another boot")] {
        let mut w = able(4);
        let job = w.run(gang(1, 8));
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, crash(0, 3));
        w.sleep(Span::secs(30));
        assert_eq!(w.job(job).state, JobState::Failed);
        if lost {
            w.lose(&n);
            w.sleep(Span::secs(30));
        }
        meet(&mut w, number(&n), boot);
        w.sleep(Span::secs(20));
        xid79(&mut w, &n);
        w.sleep(Span::secs(20));
        let p = &w.job(job).past[0];
        assert_eq!(p.verdict, Verdict::Application, "lost: {lost}, {boot}: {p:?}");
        no_odd_steps(&w);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

/// A rack loses its power within seconds: the ranks of its last node end by the order that the loss of the
/// first one brings, and that node is called lost a moment after the attempt is over.
#[test]
fn an_attempt_rests_on_the_loss_of_each_of_its_nodes_also_of_the_last() {
    let mut w = able(3);
    let job = w.run(gang(3, 8));
    w.pass(Span::mins(5));
    let (nodes, heard) = (w.nodes_of(job), w.now);
    w.pass(Span::secs(25));
    w.ok(Command::NodeLost { node: nodes[0].clone(), last_seen: heard });
    for n in &nodes[1..] {
        w.report(job, n, Observed::Ended(SlotEnd::Stopped));
    }
    assert_eq!(w.job(job).past.len(), 1, "it is over");
    w.pass(Span::secs(2));
    w.ok(Command::NodeLost { node: nodes[1].clone(), last_seen: heard });
    let found = |w: &TestSite, n: &NodeName| {
        let lost = Entity::Node(n.clone());
        w.engine.state().health.open_of(&lost, "node-lost").expect("it is away").id
    };
    let both = vec![found(&w, &nodes[0]), found(&w, &nodes[1])];
    let p = w.job(job).past[0].clone();
    assert_eq!((p.verdict, &p.findings), (Verdict::Infrastructure, &both), "{p:?}");
    // What falls silent afterwards had nothing to do with it.
    w.lose(&nodes[2]);
    assert_eq!(w.job(job).past[0].findings, both);
    no_odd_steps(&w);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// The finding that a node is lost is opened after the attempt is, where nothing of it runs elsewhere.
#[test]
fn an_attempt_that_is_lost_with_its_node_rests_on_the_finding_of_that() {
    let waits = |mins: u64| JobSpec {
        checkpoint: checkpoints(false),
        on_partition: Some(OnPartition::StopAfter(Span::mins(mins))),
        ..gang(1, 8)
    };
    // With a fence it ends long after its node was last heard.
    for (what, spec) in [("alone", gang(1, 8)), ("a gang", gang(2, 8)), ("fenced", waits(20))] {
        // A silent node may be given work until it is called lost.
        for silent_before in [false, true] {
            let mut w = able(4);
            let heard = w.now;
            w.pass(Span::secs(5));
            let job = w.submit(spec.clone());
            let last_seen = if silent_before {
                heard
            } else {
                w.start(job);
                w.now
            };
            w.pass(Span::secs(25));
            let nodes = w.nodes_of(job);
            w.ok(Command::NodeLost { node: nodes[0].clone(), last_seen });
            if let Some(other) = nodes.get(1) {
                w.report(job, other, Observed::Ended(SlotEnd::Stopped));
            }
            w.sleep(Span::mins(25));
            let lost = Entity::Node(nodes[0].clone());
            let found = w.engine.state().health.open_of(&lost, "node-lost").expect("it is away");
            let p = &w.job(job).past[0];
            let case = format!("{what}, silent before: {silent_before}: {p:?}");
            assert_eq!(
                (p.verdict, &p.findings[..]),
                (Verdict::Infrastructure, &[found.id][..]),
                "{case}"
            );
            assert!(matches!(p.stopped_for, Some(StopReason::NodeLost { .. })), "{case}");
            no_odd_steps(&w);
            assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
        }
    }
}

/// An attempt may end before anybody reported that its ranks are up.
#[test]
fn what_was_over_before_an_attempt_was_placed_did_not_cause_its_end() {
    for start_reported in [false, true] {
        let mut w = able(1);
        detect_only_if(&mut w, true);
        let n = node(0);
        xid79(&mut w, &n);
        w.sleep(Span::mins(1));
        let open: Vec<u64> = w.engine.state().health.open_on(&n).map(|f| f.id).collect();
        for id in open {
            w.ok(Command::CloseFinding { id, reason: "the node was restarted".into() });
        }
        w.sleep(Span::mins(1));
        let job = w.submit(gang(1, 8));
        w.tick();
        if start_reported {
            w.start(job);
        }
        w.report(job, &n, crash(0, 3));
        w.sleep(Span::mins(2));
        let j = w.job(job);
        assert_eq!((j.state, j.exit_code, j.attempts), (JobState::Failed, Some(3), 1));
        assert_eq!(j.past[0].verdict, Verdict::Application, "{start_reported}: {:?}", j.past);
        assert!(j.past[0].findings.is_empty(), "{:?}", j.past);
        no_odd_steps(&w);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_gpu_that_an_attempt_did_not_hold_did_not_end_it() {
    let hit = |w: &mut TestSite, n: &NodeName, gpu: u32| {
        let mut f = fault("xid-79", gpu);
        f.at = w.now;
        report_fault(w, n, f);
    };
    for restarted in [false, true] {
        let mut w = able(1);
        let job = w.run(gang(1, 1));
        let n = w.nodes_of(job)[0].clone();
        let held = w.job(job).attempt.as_ref().unwrap().placement.slots[0].gpus;
        let own = held.iter().next().unwrap();
        w.report(job, &n, crash(0, 3));
        w.sleep(Span::secs(43));
        assert_eq!(w.job(job).state, JobState::Failed);
        if restarted {
            // What it held is not known any more.
            w.engine = Engine::new(w.engine.state().clone(), Policy::default());
        }
        hit(&mut w, &n, (own + 5) % 8);
        let j = w.job(job);
        assert_eq!(j.past[0].verdict, Verdict::Application, "{:?}", j.past);
        if !restarted {
            // Its own GPU did, and what is reported counts from the end of its ranks.
            hit(&mut w, &n, own);
            let p = &w.job(job).past[0];
            assert_eq!(p.verdict, Verdict::Infrastructure, "{p:?}");
            assert!(p.reason.contains("43s after the end"), "{p:?}");
        }
        no_odd_steps(&w);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_job_that_exits_with_the_code_of_a_time_limit_did_not_run_past_one() {
    let mut w = able(4);
    let own = w.run(gang(1, 8));
    let mut spec = gang(1, 8);
    spec.time_limit = Some(Span::mins(10));
    let limited = w.run(spec);
    let on = [own, limited].map(|j| w.nodes_of(j)[0].clone());
    w.sleep(Span::mins(10));
    assert_eq!(w.job(limited).state, JobState::Stopping);
    w.stopped(limited);
    w.report(own, &on[0], crash(0, Exit::TIME_IS_UP));
    w.sleep(Span::secs(30));
    for j in [own, limited] {
        assert_eq!((w.job(j).state, w.job(j).exit_code), (JobState::Failed, Some(124)));
        assert_eq!(w.job(j).past[0].verdict, Verdict::Application);
    }
    // A fault that shows half a minute later may have ended a program, but not a limit.
    for n in &on {
        xid79(&mut w, n);
    }
    w.sleep(Span::mins(1));
    assert_eq!(w.job(own).past[0].verdict, Verdict::Infrastructure);
    assert_eq!(w.job(limited).past[0].verdict, Verdict::Application);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    no_odd_steps(&w);
}

#[test]
fn a_job_that_ends_with_the_same_code_again_did_so_by_itself() {
    for (first, verdict) in [(3, Verdict::Application), (4, Verdict::Infrastructure)] {
        let mut w = able(1);
        let mut spec = gang(1, 8);
        spec.retries.application = 1;
        let job = w.run(spec);
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, crash(0, first));
        assert_eq!(w.job(job).attempts, 2);
        w.start(job);
        w.sleep(Span::mins(10));
        w.report(job, &n, crash(0, 3));
        w.sleep(Span::secs(30));
        assert_eq!((w.job(job).state, w.job(job).exit_code), (JobState::Failed, Some(3)));
        // A fault that begins only now, as other work uses the GPU.
        xid79(&mut w, &n);
        w.sleep(Span::mins(1));
        let p = &w.job(job).past[1];
        assert_eq!(p.verdict, verdict, "first {first}: {p:?}");
        no_odd_steps(&w);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn what_could_not_be_run_is_not_run_again_and_no_gpu_is_the_cause() {
    let unstartable = SlotEnd::Unstartable { reason: "there is no program `trian`".into() };
    for end in [Observed::Ended(unstartable), crash(0, 127)] {
        let mut w = able(4);
        let job = w.run(gang(1, 8));
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, end);
        assert_eq!(w.job(job).state, JobState::Failed, "nothing is waited for");
        w.sleep(Span::mins(2));
        xid79(&mut w, &n);
        w.sleep(Span::mins(20));
        let j = w.job(job);
        assert_eq!((j.state, j.exit_code, j.attempts), (JobState::Failed, Some(127), 1));
        assert_eq!(j.past[0].verdict, Verdict::Application);
        no_odd_steps(&w);
    }
}

#[test]
fn a_fault_that_follows_within_the_window_is_the_cause_and_the_job_goes_on() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    // Every rank is gone, and what they held is free; the job is not called ended yet.
    let a = w.job(job).attempt.clone().expect("it is ending");
    assert_eq!(w.job(job).state, JobState::Stopping);
    assert!(a.slots.iter().all(|s| matches!(s, muster_model::job::SlotState::Ended { .. })));
    let why = w.explain(job).summary;
    assert!(why.contains("ending, looking for the cause"), "{why}");
    let free = w.run(gang(4, 8));
    assert_eq!(w.nodes_of(free).len(), 4, "it holds nothing while its cause is looked for");
    w.finish(free);
    w.pass(Span::secs(2));
    xid79(&mut w, &n);
    let j = w.job(job);
    assert!(j.attempt.is_some() && j.attempts == 2, "{:?} {:?}", j.state, j.past);
    assert_eq!(j.past[0].verdict, Verdict::Infrastructure);
    assert_eq!((j.application_failures, j.infrastructure_failures), (0, 1));
    assert!(!w.nodes_of(job).contains(&n));
    no_odd_steps(&w);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_end_is_held_back_no_longer_than_the_window_and_only_where_it_matters() {
    let state = |w: &TestSite, job| w.job(job).state;
    let mut w = able(4);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    let from = w.now;
    w.pass(Span(4_999));
    assert_eq!(state(&w, job), JobState::Stopping);
    w.pass(Span(1));
    assert_eq!(state(&w, job), JobState::Failed);
    assert_eq!(w.job(job).ended_at.map(|t| t.since(from)), Some(Span::secs(5)));
    // Without a GPU, or where no retry would follow, or where one follows anyhow, there is nothing
    // to wait for.
    let mut none = gang(1, 8);
    none.retries.infrastructure = 0;
    let mut more = gang(1, 8);
    more.retries.application = 3;
    for (spec, want) in
        [(gang(1, 0), JobState::Failed), (none, JobState::Failed), (more, JobState::Starting)]
    {
        let job = w.run(spec);
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, crash(0, 1));
        assert_eq!(state(&w, job), want);
        w.ok(Command::Cancel { job });
        if w.job(job).attempt.is_some() {
            w.stopped(job);
        }
    }
    // Somebody's word is not kept waiting.
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    w.ok(Command::Requeue { job });
    assert_eq!((state(&w, job), w.job(job).attempts), (JobState::Starting, 2));
    no_odd_steps(&w);
}

#[test]
fn a_server_that_starts_anew_in_the_window_ends_the_job_in_time() {
    let mut w = able(2);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    w.pass(Span::secs(1));
    let bytes = replay(&w.log).to_bytes().unwrap();
    let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    w.engine = muster_engine::Engine::new(state, muster_engine::Policy::default());
    w.tick();
    assert_eq!(w.job(job).state, JobState::Stopping);
    assert!(matches!(
        w.job(job).attempt.as_ref().unwrap().stop.as_ref().unwrap().reason,
        StopReason::SlotFailed { .. }
    ));
    w.sleep(Span::secs(4));
    assert_eq!(w.job(job).state, JobState::Failed);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 40, ..ProptestConfig::default() })]

    /// Jobs start, crash and end well; faults come before, between and after. Where nobody asks for
    /// it, nothing takes a job out of its end.
    #[test]
    fn nothing_but_a_caller_takes_a_job_out_of_its_end(
        steps in proptest::collection::vec((0u8..8, any::<u8>(), 0u64..120), 1..50),
    ) {
        let mut w = able(4);
        detect_only_if(&mut w, steps.len().is_multiple_of(2));
        let mut ended: BTreeMap<JobId, (JobState, u32)> = BTreeMap::new();
        for (what, n, secs) in steps {
            let of = |w: &TestSite, s: JobState| {
                let all = w.engine.state().jobs.values().filter(|j| j.state == s);
                let all: Vec<JobId> = all.map(|j| j.id).collect();
                all.get(usize::from(n) % all.len().max(1)).copied()
            };
            match what {
                0 | 1 => {
                    let mut spec = gang(1, 1 + u32::from(n) % 8);
                    spec.retries.application = u32::from(n) % 2;
                    w.submit(spec);
                }
                2 => if let Some(id) = of(&w, JobState::Starting) {
                    w.start(id);
                },
                3 | 4 => if let Some(id) = of(&w, JobState::Running) {
                    let at = w.nodes_of(id)[0].clone();
                    w.report(id, &at, crash(0, i32::from(n % 130)));
                },
                5 => if let Some(id) = of(&w, JobState::Running) {
                    w.finish(id);
                },
                6 => xid79(&mut w, &node(usize::from(n) % 4)),
                _ => w.sleep(Span::secs(secs)),
            }
            for j in w.engine.state().jobs.values() {
                let now = (j.state, j.attempts);
                match ended.get(&j.id) {
                    Some(was) => prop_assert_eq!(*was, now, "job {} went on", j.id),
                    None if j.state.is_final() => {
                        ended.insert(j.id, now);
                    }
                    None => {}
                }
            }
        }
        no_odd_steps(&w);
        prop_assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

fn detect_only_if(w: &mut TestSite, yes: bool) {
    if yes {
        w.policy(|p| {
            p.remediations.modes.insert(Action::Drain, Mode::DetectOnly);
        });
    }
}
