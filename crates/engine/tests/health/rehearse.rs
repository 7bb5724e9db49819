//! The dry run of remediations: the engine itself, on a copy of the state, fed the inputs of a log.

use super::*;
use crate::common::node;
use muster_engine::{Engine, Policy, RehearsedRemediations, RemediationRehearsal};
use muster_health::faults::Catalogue;
use muster_model::remediation::Remediations;
use muster_model::units::{Span, Time};

/// A site on which nothing is done about findings.
fn watched(nodes: usize) -> TestSite {
    let mut w = able(nodes);
    w.policy(|p| p.remediations = idle());
    w.sleep(Span::mins(1));
    w
}

fn idle() -> Remediations {
    let modes = Action::ALL.iter().map(|a| (*a, Mode::DetectOnly)).collect();
    Remediations { modes, ..Remediations::default() }
}

fn rehearsed(w: &TestSite, policy: Remediations, from: Time) -> RehearsedRemediations {
    rehearsed_by(w, &Policy::default(), policy, from)
}

/// The same on a site whose engine was started with something.
fn rehearsed_by(
    w: &TestSite,
    site: &Policy,
    policy: Remediations,
    from: Time,
) -> RehearsedRemediations {
    let mut life = RemediationRehearsal::new(w.engine.state(), site, policy, from);
    for r in w.log.iter().filter(|r| r.at >= from) {
        life.read(r);
    }
    life.end(w.now)
}

fn over(w: &mut TestSite, kind: &str, entity: Entity) {
    let mut f = ObservedFinding::new(kind, entity, Severity::Critical, w.now);
    f.over = true;
    w.ok(Command::FindingsSeen { findings: vec![f] });
}

#[test]
fn a_step_follows_the_one_that_did_not_help() {
    let mut w = watched(20);
    let from = w.now;
    let gpu = Entity::Gpu(node(1), 3);
    for _ in 0..3 {
        see(&mut w, "gpu-off-bus", gpu.clone(), Severity::Critical);
        w.sleep(Span::hours(1));
        over(&mut w, "gpu-off-bus", gpu.clone());
        w.sleep(Span::hours(3));
    }
    let digest = w.engine.state().digest();
    let done = rehearsed(&w, Remediations::default(), from);
    let actions: Vec<Action> = done.items.iter().map(|i| i.action).collect();
    assert_eq!(actions, [Action::Reboot, Action::PowerCycle, Action::Replace], "{done:#?}");
    assert_eq!((done.findings, done.out_at_once, done.storms), (3, 1, 0));
    assert!(done.held.is_empty());
    // Each is for the finding that the log has at that time.
    let book = &w.engine.state().health.findings;
    for i in &done.items {
        assert_eq!(book[&i.finding].opened_at, i.at);
    }
    assert_eq!(w.engine.state().digest(), digest, "nothing was done to the site itself");
}

#[test]
fn limits_and_storms_hold_back_what_they_do_in_earnest() {
    let mut w = watched(20);
    let from = w.now;
    for i in [0, 8, 16, 4, 12, 1, 9, 17] {
        xid79(&mut w, &node(i));
        w.sleep(Span::secs(1));
    }
    let done = rehearsed(&w, Remediations::default(), from);
    assert_eq!((done.out_at_once, done.storms), (2, 1), "{done:#?}");
    assert_eq!(done.held.get("limit of fleet"), Some(&2), "{:?}", done.held);
    assert_eq!(done.held.get("automation is stopped"), Some(&4), "{:?}", done.held);
    assert_eq!((done.items.len(), done.by_action[&Action::Reboot]), (8, 2), "taken, not held");
    // An hour later somebody lets it go on.
    w.sleep(Span::hours(6));
    let done = rehearsed(&w, Remediations::default(), from);
    let (taken, held): (u64, u64) = (done.by_action.values().sum(), done.held.values().sum());
    assert_eq!(taken + held, done.items.len() as u64, "each in one of both: {done:#?}");
    assert_eq!(done.items.iter().filter(|i| i.held.is_some()).count() as u64, held);
    assert!(done.out_at_once <= 4, "a fifth at most: {done:#?}");
}

#[test]
fn a_policy_that_only_looks_takes_nothing() {
    let mut w = watched(4);
    let from = w.now;
    xid79(&mut w, &node(1));
    w.sleep(Span::hours(2));
    let done = rehearsed(&w, idle(), from);
    assert_eq!((done.out_at_once, done.items.len()), (0, 1));
    assert!(done.by_action.is_empty(), "{done:#?}");
    assert_eq!(done.held.get("detect only"), Some(&1), "{:?}", done.held);
    let off = Remediations { enabled: false, ..Remediations::default() };
    let done = rehearsed(&w, off, from);
    assert_eq!((done.findings, done.items.len()), (1, 0));
}

#[test]
fn under_the_same_policy_it_says_what_the_engine_did() {
    let mut w = able(64);
    w.sleep(Span::mins(1));
    let (from, first) = (w.now, w.log.len());
    for i in 0..64 {
        let n = node(i * 7 % 64);
        if i % 3 == 0 {
            xid79(&mut w, &n);
        } else {
            see(&mut w, "thermal", Entity::Gpu(n, 2), Severity::Critical);
        }
        w.sleep(Span::secs(2));
    }
    w.lose(&node(5));
    let chosen: Vec<_> = w
        .since(first)
        .filter_map(|e| match e {
            Event::RemediationChosen { remediation: r } => {
                Some((r.at, r.finding, r.node.clone(), r.kind.clone(), r.action, r.step_index))
            }
            _ => None,
        })
        .collect();
    let done = rehearsed(&w, w.engine.state().policy.remediations.clone(), from);
    let dry: Vec<_> = done.items.iter().map(|i| (i.at, i.finding, i.node.clone())).collect();
    let did: Vec<_> = chosen.iter().map(|c| (c.0, c.1, c.2.clone())).collect();
    assert_eq!(dry, did);
    let dry: Vec<_> = done.items.iter().map(|i| (&i.kind, i.action)).collect();
    let did: Vec<_> = chosen.iter().map(|c| (&c.3, c.4)).collect();
    assert_eq!(dry, did);
    let stops = |e: &&Event| matches!(e, Event::AutomationStopped { .. });
    assert_eq!(done.storms as usize, w.since(first).filter(stops).count());
}

#[test]
fn a_node_that_cannot_be_tested_is_restarted_once_and_returned() {
    let mut w = TestSite::new(8, 8);
    w.policy(|p| p.remediations = idle());
    w.sleep(Span::mins(1));
    let from = w.now;
    xid79(&mut w, &node(1));
    w.sleep(Span::hours(12));
    let done = rehearsed(&w, Remediations::default(), from);
    assert_eq!((done.items.len(), done.out_at_once), (1, 1), "{done:#?}");
}

#[test]
fn faults_are_judged_by_the_operators_verdicts_as_they_are_in_earnest() {
    let text = "[[fault]]\ncode = \"xid-79\"\naction = \"watch\"\n";
    let catalogue = Catalogue::builtin().with_overrides(text).unwrap();
    let site = Policy { faults: Some(Arc::new(catalogue)), ..Policy::default() };
    // The log is older than the operator's file.
    let mut w = watched(8);
    let from = w.now;
    xid79(&mut w, &node(1));
    w.sleep(Span::mins(1));
    let mut live = able(8);
    live.engine = Engine::new(live.engine.state().clone(), site.clone());
    let first = live.log.len();
    xid79(&mut live, &node(1));
    live.sleep(Span::mins(1));
    let did: Vec<Action> = live
        .since(first)
        .filter_map(|e| match e {
            Event::RemediationChosen { remediation } => Some(remediation.action),
            _ => None,
        })
        .collect();
    let done = rehearsed_by(&w, &site, Remediations::default(), from);
    let dry: Vec<Action> = done.items.iter().map(|i| i.action).collect();
    assert_eq!(dry, did, "{done:#?}");
    assert_eq!(done.out_at_once, 0, "to be watched takes no node");
    let done = rehearsed(&w, Remediations::default(), from);
    assert_eq!(done.by_action.get(&Action::Reboot), Some(&1), "without the file: {done:#?}");
}
