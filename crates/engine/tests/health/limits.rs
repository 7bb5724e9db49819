//! How far automation goes: limits, storms, the last of a reservation.

use super::*;
use crate::common::{gang, node, replay, said_ahead};
use muster_model::breaker::BreakerState;
use muster_model::qualification::Level;
use muster_model::units::Span;
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Is it out of service? One that only gets no new work is not.
fn gone(w: &TestSite, n: &Node) -> bool {
    match n.stage {
        Stage::Suspect => !w.engine.state().health.is_stopped(n),
        Stage::Draining | Stage::Drained | Stage::Quarantined | Stage::Repairing => true,
        _ => false,
    }
}

fn out(w: &TestSite) -> usize {
    w.engine.state().nodes.values().filter(|n| gone(w, n)).count()
}

/// Nodes that automation keeps new work from without having taken them.
fn stopped(w: &TestSite) -> usize {
    let s = w.engine.state();
    s.nodes.values().filter(|n| s.health.is_stopped(n)).count()
}

fn taken(w: &TestSite) -> Vec<NodeName> {
    let all = &w.engine.state().health.automation.taken;
    all.iter().map(|(_, n)| n.clone()).collect()
}

#[test]
fn a_limit_stops_pages_and_shows_what_waits() {
    let mut w = able(32);
    // One in each leaf but the last two share one; spread over an hour they are no storm.
    for i in [0, 8, 16, 24] {
        xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    assert_eq!(out(&w), 3, "a tenth of 32 nodes within an hour");
    let r = remediation(&w, &node(24)).unwrap();
    assert_eq!(r.step, RemediationStep::Proposed);
    assert!(r.why.contains("limit of fleet: 3 of 32 nodes were taken out of service"), "{}", r.why);
    assert_eq!(pages(&w), 1);
    assert_eq!(of(&w, &node(24)).stage, Stage::Suspect, "no new work all the same");
    // When the hour is over it goes on by itself.
    w.sleep(Span::mins(50));
    assert_eq!(out(&w), 4);
}

#[test]
fn what_held_a_remediation_back_is_not_why_it_runs() {
    for approved in [true, false] {
        let mut w = able(32);
        for i in [0, 8, 16, 24] {
            xid79(&mut w, &node(i));
            w.pass(Span::mins(6));
        }
        let r = remediation(&w, &node(24)).unwrap();
        assert!(r.why.contains("limit of fleet"), "{}", r.why);
        let chosen = w.log.iter().find_map(|x| match &x.event {
            Event::RemediationChosen { remediation } if remediation.id == r.id => {
                Some(remediation.why.clone())
            }
            _ => None,
        });
        let from = w.log.len();
        if approved {
            w.person(Command::ApproveRemediation { id: r.id });
        } else {
            w.sleep(Span::mins(50));
        }
        let moves = w.since(from).find_map(|e| match e {
            Event::RemediationStepped { id, step: RemediationStep::Moving, why, .. }
                if *id == r.id =>
            {
                Some(why.clone())
            }
            _ => None,
        });
        let by = approved.then(|| "approved by user:olga".to_owned());
        assert_eq!(moves, by.or(chosen));
        assert!(moves.is_some());
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_node_that_is_taken_twice_within_an_hour_counts_once() {
    let mut w = able(32);
    xid79(&mut w, &node(0));
    w.pass(Span::mins(6));
    w.ok(Command::ReturnUntested { node: node(0), reason: "swapped".into() });
    w.pass(Span::mins(6));
    // Before anything makes the fleet be counted anew.
    for i in [0, 8, 16] {
        xid79(&mut w, &node(i));
    }
    assert_eq!(out(&w), 3, "a tenth of 32 nodes within an hour");
    assert_eq!(remediation(&w, &node(16)).unwrap().step, RemediationStep::Approval);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_is_held_back_waits_since_it_began_to_whatever_the_reason_says() {
    let mut w = able(16);
    for i in [0, 4, 8] {
        xid79(&mut w, &node(i));
    }
    let before = remediation(&w, &node(8)).unwrap();
    assert_eq!(before.step, RemediationStep::Proposed);
    // One node fewer: the limit counts another fleet.
    w.ok(Command::Drain { node: node(15), reason: "sold".into(), stop: false });
    w.ok(Command::Retire { node: node(15) });
    w.sleep(Span::mins(3));
    let after = remediation(&w, &node(8)).unwrap();
    assert_eq!((after.step, after.since), (RemediationStep::Proposed, before.since));
    assert_ne!(after.why, before.why);
}

#[test]
fn nothing_is_done_about_a_protected_node_until_it_is_reconciled() {
    let mut w = able(16);
    let n = node(3);
    let met = connected(3, "boot", of(&w, &n).inventory.clone(), Vec::new());
    w.ok(said_ahead(met, true));
    xid79(&mut w, &n);
    w.sleep(Span::mins(5));
    assert!(w.engine.state().health.open_on(&n).next().is_some(), "it is known");
    assert!(remediation(&w, &n).is_none() && acts(&w, &n).is_empty(), "and nothing is done");
    w.ok(Command::Reconcile { node: n.clone() });
    assert!(remediation(&w, &n).is_some());
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_approved_remediation_passes_the_limit() {
    let mut w = able(16);
    xid79(&mut w, &node(0));
    xid79(&mut w, &node(4));
    xid79(&mut w, &node(8));
    assert_eq!(stands(&w, &node(8)), (Stage::Suspect, RemediationStep::Proposed), "two in an hour");
    let id = remediation(&w, &node(8)).unwrap().id;
    w.ok(Command::ApproveRemediation { id });
    assert_eq!(stands(&w, &node(8)), (Stage::Repairing, RemediationStep::Acting));
}

#[test]
fn what_an_operator_approved_counts_in_the_limits_and_is_not_called_automations() {
    let mut w = able(16);
    for i in [0, 4, 8] {
        xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    // The reboot of a node that automation took, and a remediation that a limit delays.
    for i in [0, 8] {
        let id = remediation(&w, &node(i)).unwrap().id;
        w.person(Command::ApproveRemediation { id });
    }
    let held = |w: &TestSite| {
        let all = w.engine.state().held_by_automation(w.now);
        ((all.out, all.out_approved), (all.hour, all.hour_approved))
    };
    let by_operator =
        |w: &TestSite| [0, 4, 8].map(|i| w.engine.state().taken_by_operator(&node(i)));
    assert_eq!(held(&w), ((3, 1), (3, 1)));
    assert_eq!(by_operator(&w), [false, false, true]);
    w.pass(Span::mins(6));
    xid79(&mut w, &node(12));
    let r = remediation(&w, &node(12)).unwrap();
    assert_eq!(r.step, RemediationStep::Proposed);
    assert_eq!(
        r.why,
        "limit of fleet: 3 of 16 nodes are out (1 approved by operators, 2 by automation), \
         automation takes at most 3"
    );
    // The reboot does not help. What follows keeps the node out, and nobody takes it anew.
    let (act, _) = acts(&w, &node(8))[0];
    w.ok(Command::ActDone { id: act, ok: false, message: "no power".into() });
    assert_eq!(held(&w), ((3, 1), (3, 1)));
    assert_eq!(by_operator(&w), [false, false, true]);
    let again = replay(&w.log);
    assert_eq!(again.digest(), w.engine.state().digest());
    assert_eq!(again.held_by_automation(w.now), w.engine.state().held_by_automation(w.now));
}

#[test]
fn an_unhealthy_node_takes_no_new_work_however_many_were_taken() {
    let mut w = able(17);
    // Three within an hour; the limits let automation take two.
    for i in [0, 4, 8] {
        xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    assert_eq!((out(&w), stopped(&w)), (2, 1));
    assert_eq!(stands(&w, &node(8)), (Stage::Suspect, RemediationStep::Proposed));
    // What is held again and again is not taken, and one that is taken counts once.
    for i in [12, 13] {
        w.pass(Span::mins(6));
        xid79(&mut w, &node(i));
        w.pass(Span::mins(3));
    }
    assert_eq!(taken(&w), [node(0), node(4)]);
    let held = remediation(&w, &node(8)).unwrap();
    assert!(
        held.why.contains("2 of 17 nodes were taken out of service within an hour, 2 may be"),
        "{}",
        held.why
    );
    assert_eq!((out(&w), stopped(&w)), (2, 3), "as many as make a storm");
    // New work goes nowhere near any of them, even when everything else is full.
    let unhealthy = [0, 4, 8, 12, 13].map(node);
    for _ in 0..12 {
        let job = w.run(gang(1, 8));
        assert!(!unhealthy.contains(&w.nodes_of(job)[0]));
    }
    let waits = w.gang(1, 8);
    assert!(w.job(waits).attempt.is_none(), "{:?}", w.job(waits).attempt);
}

#[test]
fn unhealthy_nodes_of_one_leaf_take_no_new_work_although_its_breaker_may_not_open() {
    let mut w = able(6);
    let unhealthy = [0, 1, 2].map(node);
    for n in &unhealthy {
        xid79(&mut w, n);
        w.pass(Span::secs(20));
    }
    let held = w.engine.state().health.breakers.values().all(|b| b.state == BreakerState::Closed);
    assert!(held, "half of the fleet is not shut by a breaker");
    for _ in 0..3 {
        let job = w.run(gang(1, 7));
        let on = &w.nodes_of(job)[0];
        assert!(!unhealthy.contains(on), "{on} is unhealthy and others are free");
    }
}

#[test]
fn nodes_that_only_a_breaker_keeps_from_new_work_are_not_out_by_automation() {
    let mut w = able(32);
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let held = |w: &TestSite| {
        let all = w.engine.state().held_by_automation(w.now);
        (all.out, all.stopped)
    };
    assert_eq!(held(&w), (0, 0), "lost nodes are out by themselves");
    for i in 8..16 {
        meet(&mut w, i, "boot");
    }
    let b = &w.engine.state().health.breakers;
    assert!(b.values().any(|b| b.state == BreakerState::HalfOpen), "one of them is tested first");
    // They are more than the limit of the fleet allows, and automation took none.
    assert_eq!(held(&w), (0, 8));
    assert!(taken(&w).is_empty());
}

#[test]
fn an_unhealthy_node_by_which_an_incident_grows_takes_no_new_work_while_no_breaker_is_open() {
    let mut w = able(16);
    for i in 0..4 {
        xid79(&mut w, &node(i));
        w.pass(Span::secs(20));
    }
    let shut = w.engine.state().health.breakers.values().any(|b| b.state != BreakerState::Closed);
    assert!(!shut, "too much of its leaf would be out");
    let book = &w.engine.state().health;
    let incident = book.open_incidents().next().unwrap();
    assert_eq!(incident.count, 4);
    let why = book.refused_breaker(incident).expect("a limit held its breaker back");
    assert!(why.starts_with("limit of "), "{why}");
    assert_eq!(stands(&w, &node(3)), (Stage::Suspect, RemediationStep::Proposed));
}

#[test]
fn beyond_the_limit_unhealthy_nodes_are_avoided_and_somebody_is_paged() {
    let mut w = able(17);
    for i in [0, 4, 8, 12, 13] {
        xid79(&mut w, &node(i));
        w.pass(Span::mins(6));
    }
    let before = pages(&w);
    xid79(&mut w, &node(16));
    assert_eq!(stands(&w, &node(16)), (Stage::Ready, RemediationStep::Proposed));
    assert_eq!(pages(&w), before + 1);
    // Eleven healthy ones are left: they come first.
    for _ in 0..11 {
        let job = w.run(gang(1, 8));
        assert_ne!(w.nodes_of(job), [node(16)], "others fit");
    }
    let last = w.run(gang(1, 8));
    assert_eq!(w.nodes_of(last), [node(16)], "nothing else fits");
    // One that could be healthy again makes a place for it.
    w.ok(Command::ReturnUntested { node: node(13), reason: "looked at".into() });
    w.sleep(Span::mins(2));
    assert_eq!(stands(&w, &node(16)), (Stage::Suspect, RemediationStep::Proposed));
}

#[test]
fn a_node_takes_new_work_again_when_what_was_critical_is_over() {
    let ends: [fn(&mut TestSite, &NodeName); 3] = [
        |w, n| {
            let id = w.engine.state().health.open_on(n).next().unwrap().id;
            w.ok(Command::CloseFinding { id, reason: "false".into() });
        },
        |w, n| {
            let id = remediation(w, n).unwrap().id;
            w.ok(Command::UndoRemediation { id, reason: "false".into() });
        },
        |w, n| {
            w.ok(Command::ReturnUntested { node: n.clone(), reason: "swapped".into() });
        },
    ];
    for over in ends {
        let mut w = able(16);
        for i in [0, 4, 8] {
            xid79(&mut w, &node(i));
        }
        assert_eq!(of(&w, &node(8)).stage, Stage::Suspect);
        let no = w.send(Command::Undrain { node: node(8) }).unwrap_err();
        assert!(no.hint.unwrap().contains("muster node return n008"), "{}", no.message);
        over(&mut w, &node(8));
        assert_eq!(of(&w, &node(8)).stage, Stage::Ready);
        assert_eq!(remediation(&w, &node(8)), None);
        let state = replay(&w.log);
        assert_eq!(state.digest(), w.engine.state().digest());
    }
}

#[test]
fn a_denial_alone_gives_no_new_work_to_a_node_with_a_critical_finding() {
    let ends: [fn(&mut TestSite, &NodeName); 3] = [
        |w, n| {
            let id = w.engine.state().health.open_on(n).next().unwrap().id;
            w.ok(Command::CloseFinding { id, reason: "false".into() });
        },
        |w, n| {
            w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
            tested(w, n, Outcome::Passed);
        },
        |w, n| {
            w.ok(Command::ReturnUntested { node: n.clone(), reason: "swapped".into() });
        },
    ];
    for over in ends {
        let mut w = able(16);
        let n = node(8);
        for i in [0, 4, 8] {
            xid79(&mut w, &node(i));
        }
        let id = remediation(&w, &n).unwrap().id;
        w.ok(Command::DenyRemediation { id, reason: "a customer is on it".into() });
        w.sleep(Span::hours(2));
        assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Suspect, None));
        let why = &of(&w, &n).stage_why;
        assert!(why.starts_with("gpu-off-bus (finding "), "{why}");
        assert!(why.contains("): remediation denied by "), "{why}");
        assert!(why.ends_with(": a customer is on it"), "{why}");
        assert_eq!(stopped(&w), 1, "it counts as before");
        over(&mut w, &n);
        assert_eq!(of(&w, &n).stage, Stage::Ready);
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
    // What is not critical stops no work, denied or not.
    let mut w = able(16);
    for i in [0, 4] {
        xid79(&mut w, &node(i));
    }
    see(&mut w, "straggler", Entity::Node(node(8)), Severity::Degraded);
    let id = remediation(&w, &node(8)).unwrap().id;
    w.ok(Command::DenyRemediation { id, reason: String::new() });
    assert_eq!((of(&w, &node(8)).stage, remediation(&w, &node(8))), (Stage::Ready, None));
}

#[test]
fn a_warning_that_is_held_stops_no_allocation_until_it_is_critical() {
    let mut w = able(16);
    for i in [0, 4] {
        xid79(&mut w, &node(i));
    }
    see(&mut w, "straggler", Entity::Node(node(8)), Severity::Degraded);
    assert_eq!(stands(&w, &node(8)), (Stage::Ready, RemediationStep::Proposed));
    // A second finding is covered by the remediation that waits, and yet it counts.
    see(&mut w, "straggler", Entity::Node(node(8)), Severity::Critical);
    assert_eq!(stands(&w, &node(8)), (Stage::Suspect, RemediationStep::Proposed));
    let mut f = ObservedFinding::new("straggler", Entity::Node(node(8)), Severity::Critical, w.now);
    f.over = true;
    w.ok(Command::FindingsSeen { findings: vec![f] });
    assert_eq!(of(&w, &node(8)).stage, Stage::Ready);
}

#[test]
fn a_log_of_before_counts_as_it_did() {
    let mut w = able(16);
    for i in [0, 4, 8] {
        xid79(&mut w, &node(i));
    }
    // An older server did not say that a remediation was only held.
    let old: Vec<_> = w
        .log
        .iter()
        .cloned()
        .map(|mut r| {
            if let Event::RemediationStepped { held, .. } = &mut r.event {
                *held = false;
            }
            r
        })
        .collect();
    let nodes = |s: &muster_engine::State| s.health.automation.taken.len();
    assert_eq!(nodes(&replay(&w.log)), 2);
    assert_eq!(nodes(&replay(&old)), 3);
}

#[test]
fn a_poisoned_detector_ends_with_a_page_and_a_fleet_that_works() {
    let mut w = able(64);
    for i in 0..64 {
        let n = node(i);
        for gpu in 0..8 {
            see(&mut w, "thermal", Entity::Gpu(n.clone(), gpu), Severity::Critical);
        }
        w.pass(Span::secs(1));
    }
    assert!(w.engine.state().health.automation.stopped.is_some());
    assert!(pages(&w) >= 1);
    assert!(out(&w) <= 64 / 10, "{} are out", out(&w));
    assert_eq!(stopped(&w), 0, "nobody believes it any more");
    let job = w.run(gang(32, 8));
    assert_eq!(w.nodes_of(job).len(), 32, "the fleet still works");
    // Nothing more happens until somebody says so; then the limits hold again.
    w.sleep(Span::hours(5));
    let before = out(&w);
    w.ok(Command::ResumeAutomation);
    w.sleep(Span::hours(2));
    assert!(out(&w) <= before + 64 / 10 * 3);
    assert!(out(&w) <= 64 / 5);
    assert!(out(&w) + stopped(&w) <= 64 / 4, "{} take no new work", out(&w) + stopped(&w));
}

#[test]
fn a_detector_that_lies_slowly_does_not_empty_the_fleet() {
    let mut w = able(64);
    // Too slowly for a storm: one node a minute.
    for i in 0..64 {
        see(&mut w, "thermal", Entity::Node(node(i)), Severity::Critical);
        w.sleep(Span::mins(1));
    }
    assert!(w.engine.state().health.automation.stopped.is_none());
    assert!(out(&w) <= 64 / 5);
    assert!(out(&w) + stopped(&w) <= 64 / 4, "{} take no new work", out(&w) + stopped(&w));
    let job = w.run(gang(40, 8));
    assert_eq!(w.nodes_of(job).len(), 40, "the fleet still works");
}

#[test]
fn automation_can_be_stopped_by_hand() {
    let mut w = able(16);
    w.ok(Command::StopAutomation { reason: "works on the cooling".into() });
    xid79(&mut w, &node(0));
    assert_eq!(stands(&w, &node(0)), (Stage::Ready, RemediationStep::Proposed));
    w.ok(Command::ResumeAutomation);
    assert_ne!(of(&w, &node(0)).stage, Stage::Ready);
}

#[test]
fn the_last_healthy_node_of_a_reservation_stays() {
    let mut w = able(16);
    w.project("physics");
    let start = w.now - Span::secs(10);
    w.reserve(serde_json::json!({
        "name": "beam", "projects": ["physics"], "over": {"nodes": ["n000", "n009"]},
        "start": start.0, "length": "240h",
    }));
    xid79(&mut w, &node(0));
    assert_ne!(of(&w, &node(0)).stage, Stage::Ready);
    w.pass(Span::hours(2));
    xid79(&mut w, &node(9));
    let r = remediation(&w, &node(9)).unwrap();
    assert_eq!(r.step, RemediationStep::Proposed, "{}", r.why);
    assert!(r.why.contains("reservation beam"), "{}", r.why);
}

#[derive(Debug, Clone)]
enum Op {
    Find { node: usize, gpu: u32, kind: usize, severity: usize, sure: u16 },
    Fault { node: usize, gpu: u32 },
    Over { node: usize, gpu: u32, kind: usize },
    Lose(usize),
    Back(usize),
    Test { node: usize, pass: bool },
    Act { ok: bool },
    Approve,
    Sleep(u64),
}

const KINDS: [&str; 8] = [
    "gpu-off-bus",
    "thermal",
    "straggler",
    "ecc-uncorrectable",
    "link-flap",
    "pcie-replay",
    "node-killer",
    "made-up",
];

fn op() -> impl Strategy<Value = Op> {
    let n = 0usize..24;
    prop_oneof![
        6 => (n.clone(), 0u32..8, 0usize..8, 0usize..4, 0u16..=1000).prop_map(
            |(node, gpu, kind, severity, sure)| Op::Find { node, gpu, kind, severity, sure }
        ),
        4 => (n.clone(), 0u32..8).prop_map(|(node, gpu)| Op::Fault { node, gpu }),
        1 => (n.clone(), 0u32..8, 0usize..8).prop_map(|(node, gpu, kind)| Op::Over { node, gpu, kind }),
        1 => n.clone().prop_map(Op::Lose),
        2 => n.clone().prop_map(Op::Back),
        2 => (n, any::<bool>()).prop_map(|(node, pass)| Op::Test { node, pass }),
        1 => any::<bool>().prop_map(|ok| Op::Act { ok }),
        1 => Just(Op::Approve),
        3 => (0u64..7200).prop_map(Op::Sleep),
    ]
}

fn does(w: &mut TestSite, op: &Op) {
    let sev = [Severity::Info, Severity::Warning, Severity::Degraded, Severity::Critical];
    match op {
        Op::Find { node: i, gpu, kind, severity, sure } => {
            let e = Entity::Gpu(node(*i), *gpu);
            let f =
                ObservedFinding::new(KINDS[*kind], e, sev[*severity], w.now).with_confidence(*sure);
            w.ok(Command::FindingsSeen { findings: vec![f] });
        }
        Op::Over { node: i, gpu, kind } => {
            let e = Entity::Gpu(node(*i), *gpu);
            let mut f = ObservedFinding::new(KINDS[*kind], e, Severity::Info, w.now);
            f.over = true;
            w.ok(Command::FindingsSeen { findings: vec![f] });
        }
        Op::Fault { node: i, gpu } => report_fault(w, &node(*i), fault("xid-79", *gpu)),
        Op::Lose(i) => w.lose(&node(*i)),
        Op::Back(i) => meet(w, *i, "boot-x"),
        Op::Test { node: i, pass } => {
            if let Some(id) = w.testing(*i) {
                let outcome = if *pass { Outcome::Passed } else { Outcome::Failed };
                let report = report(outcome, 700);
                w.ok(Command::QualificationDone { node: node(*i), id, report });
            }
        }
        Op::Act { ok } => {
            let open = w.engine.state().health.open_acts().next().map(|a| a.id);
            if let Some(id) = open {
                w.ok(Command::ActDone { id, ok: *ok, message: "m".into() });
            }
        }
        Op::Approve => {
            let waits = |r: &&Arc<Remediation>| {
                r.step == RemediationStep::Approval && r.action != Action::Drain
            };
            let id = w.engine.state().health.live_remediations().find(waits).map(|r| r.id);
            if let Some(id) = id {
                // The node is out already: a word for the act takes nothing more.

                w.ok(Command::ApproveRemediation { id });
            }
        }
        Op::Sleep(s) => w.sleep(Span::secs(*s)),
    }
}

/// Does something critical ask for a node, while what is to be done waits?
fn unhealthy(w: &TestSite, n: &Node) -> bool {
    let book = &w.engine.state().health;
    let elsewhere = |f: &ObservedFinding, incident: Option<u64>| {
        let i = incident.and_then(|i| book.incidents.get(&i)).filter(|i| i.closed.is_none());
        f.kind == "made-up"
            || f.kind == "node-killer"
            || i.is_some_and(|i| i.cause.node().is_none() && i.kind != "node-killer")
    };
    let grave = |f: &ObservedFinding| f.severity == Severity::Critical && f.confidence >= 600;
    book.waits_on(&n.name)
        && book.open_on(&n.name).any(|f| grave(&f.seen) && !elsewhere(&f.seen, f.incident))
}

proptest! {
    // Each takes a third of a second; `cargo xtask soak props` asks for thousands.
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    /// Whatever is found, truly or falsely, and in whatever order: never more than the limits.
    #[test]
    fn no_sequence_of_findings_takes_more_than_the_limits(
        ops in prop::collection::vec(op(), 1..120)
    ) {
        let mut w = able(24);
        let limits = w.engine.state().policy.remediations.limits.clone();
        for op in &ops {
            does(&mut w, op);
            let mut groups: BTreeMap<String, (u32, u32)> = BTreeMap::new();
            for n in w.engine.state().nodes.values() {
                let gone = gone(&w, n);
                for g in ["fleet".to_string(), n.location.leaf.clone(), n.location.feed.clone()] {
                    let e = groups.entry(g).or_default();
                    e.0 += 1;
                    e.1 += u32::from(gone);
                }
            }
            for (name, (all, gone)) in groups {
                let share = match &name[..] {
                    "fleet" => limits.fleet,
                    "A" | "B" => limits.feed,
                    _ => limits.leaf,
                };
                prop_assert!(gone <= share.of(all).0, "{gone} of {all} of {name} are out");
            }
            let without = out(&w) + stopped(&w);
            prop_assert!(without <= 6, "{without} of 24 take no new work");
        }
        // Up to there no critical finding leaves its node in service, once it was looked at.
        w.sleep(Span::mins(2));
        let state = w.engine.state();
        let behind = state.nodes.values().filter(|n| n.breaker.is_some()).count();
        let room = out(&w) + stopped(&w) + behind < 6;
        let stops = state.health.automation.stopped.is_none() && room;
        for n in state.nodes.values().filter(|n| stops && n.reachable) {
            prop_assert!(!(n.stage == Stage::Ready && unhealthy(&w, n)), "{} takes work", n.name);
        }
        // The log alone gives the same state.
        let again = replay(&w.log);
        prop_assert_eq!(again.digest(), w.engine.state().digest());
    }
}
