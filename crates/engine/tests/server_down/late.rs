//! What broke while no server was there is reported late, and is still what ended the work.

use super::{ended, restart, same_when_read_again};
use crate::common::{TestSite, connected, crash, fault, gang, inventory, limited, number};
use crate::health::report_fault;
use muster_model::command::{Command, Observed};
use muster_model::fault::ObservedFault;
use muster_model::ids::JobId;
use muster_model::job::Verdict;
use muster_model::names::NodeName;
use muster_model::units::Span;

/// A job that ran for five minutes when its server went, which is back three quarters of an hour
/// later, and the job's node. What is found stops nothing here: only attribution is looked at.
fn without_server(gpus: u32, retries: u32) -> (TestSite, JobId, NodeName) {
    let mut w = TestSite::new(2, 8);
    w.policy(|p| p.remediations.enabled = false);
    let mut spec = gang(1, gpus);
    spec.retries.application = retries;
    let job = w.run(spec);
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::mins(5));
    restart(&mut w, Span::mins(45));
    (w, job, n)
}

/// The node connects while its agent has output to send, so that its ranks seem to run.
fn back(w: &mut TestSite, job: JobId, n: &NodeName) {
    let key = w.key(job);
    w.connect(number(n), 8, "boot", vec![(key, Observed::Running)]);
}

/// The node connects without one of its GPUs, and reports at once how its ranks ended.
fn back_without(w: &mut TestSite, job: JobId, n: &NodeName, gpu: u32, ago: Span) {
    let (i, key) = (number(n), w.key(job));
    let mut has = inventory(8);
    has.gpus.retain(|g| g.index != gpu);
    let mut back = connected(i, "boot", has, vec![(key, crash(0, 1))]);
    if let Command::NodeConnected { ended_ago, .. } = &mut back {
        ended_ago.push((key, ago));
    }
    w.ok(back);
}

/// A GPU fell off the bus so long ago.
fn off_bus(w: &TestSite, gpu: u32, ago: Span) -> ObservedFault {
    ObservedFault { at: w.now - ago, ..fault("xid-79", gpu) }
}

#[test]
fn a_fault_that_ended_ranks_is_their_cause_however_late_it_is_reported() {
    for mins in [3, 7, 12, 40] {
        // Settled at once with a retry left, held back without; and the fault comes first.
        for (retries, first) in [(1, false), (0, false), (0, true)] {
            let (mut w, job, n) = without_server(8, retries);
            let ago = Span::mins(mins);
            back(&mut w, job, &n);
            let broke = off_bus(&w, 3, Span(ago.0 + 1000));
            if first {
                report_fault(&mut w, &n, broke.clone());
            }
            ended(&mut w, job, number(&n), crash(0, 1), Some(ago));
            if !first {
                report_fault(&mut w, &n, broke);
            }
            let p = &w.job(job).past[0];
            let case = format!("{mins} minutes, {retries} retries, fault first: {first}; {p:?}");
            assert_eq!(p.verdict, Verdict::Infrastructure, "{case}");
            assert!(p.reason.contains("gpu-off-bus"), "{case}");
            same_when_read_again(&w);
        }
    }
}

#[test]
fn a_gpu_that_is_missing_when_its_node_reports_an_end_caused_it_however_late_that_is() {
    for mins in [3, 12, 40] {
        let (mut w, job, n) = without_server(8, 0);
        back_without(&mut w, job, &n, 7, Span::mins(mins));
        let p = &w.job(job).past[0];
        assert_eq!(p.verdict, Verdict::Infrastructure, "{mins} minutes; {p:?}");
        assert!(p.reason.contains("gpu-missing"), "{p:?}");
        same_when_read_again(&w);
    }
}

#[test]
fn what_broke_long_after_an_end_or_beside_the_work_did_not_cause_it() {
    let ago = Span::mins(12);
    let mut worlds = Vec::new();
    // Six minutes after the end, as its node says.
    let (mut w, job, n) = without_server(8, 0);
    back(&mut w, job, &n);
    ended(&mut w, job, number(&n), crash(0, 1), Some(ago));
    let broke = off_bus(&w, 3, Span::mins(6));
    report_fault(&mut w, &n, broke);
    worlds.push((w, job));
    // With the end, but on a GPU that the attempt did not hold.
    for missing in [false, true] {
        let (mut w, job, n) = without_server(1, 0);
        let held = w.job(job).attempt.as_ref().unwrap().placement.slots[0].gpus;
        let other = (held.iter().next().unwrap() + 5) % 8;
        if missing {
            back_without(&mut w, job, &n, other, ago);
        } else {
            back(&mut w, job, &n);
            ended(&mut w, job, number(&n), crash(0, 1), Some(ago));
            let broke = off_bus(&w, other, ago);
            report_fault(&mut w, &n, broke);
        }
        worlds.push((w, job));
    }
    for (mut w, job) in worlds {
        w.sleep(Span::secs(5));
        let p = &w.job(job).past[0];
        assert_eq!(p.verdict, Verdict::Application, "{p:?}");
        same_when_read_again(&w);
    }
}

#[test]
fn a_node_that_connects_twice_was_away_only_before_the_first_time() {
    let mut w = TestSite::new(2, 8);
    let job = w.run(limited(1, 8, 60));
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::mins(1));
    restart(&mut w, Span::secs(33));
    back(&mut w, job, &n);
    w.pass(Span::secs(2));
    // The same machine, and its agent started anew since it said that they run.
    w.connect(number(&n), 8, "boot", Vec::new());
    let p = &w.job(job).past[0];
    assert_eq!((p.verdict, p.freed()), (Verdict::Platform, w.now), "{p:?}");
    same_when_read_again(&w);
}
