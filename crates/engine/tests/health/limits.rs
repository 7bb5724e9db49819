//! How far automation goes: limits, storms, the last of a reservation.

use super::*;
use crate::common::{gang, node, replay};
use muster_model::units::Span;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn out(w: &World) -> usize {
    let gone = |n: &&Arc<Node>| {
        matches!(n.stage, Stage::Suspect | Stage::Draining | Stage::Quarantined | Stage::Repairing)
    };
    w.engine.state().nodes.values().filter(gone).count()
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
    let r = remedy(&w, &node(24)).unwrap();
    assert_eq!(r.step, RemedyStep::Proposed);
    assert!(r.why.contains("limit of fleet"), "{}", r.why);
    assert_eq!(pages(&w), 1);
    // When the hour is over it goes on by itself.
    w.sleep(Span::mins(50));
    assert_eq!(out(&w), 4);
}

#[test]
fn an_approved_remedy_passes_the_limit() {
    let mut w = able(16);
    xid79(&mut w, &node(0));
    xid79(&mut w, &node(4));
    xid79(&mut w, &node(8));
    assert_eq!(stands(&w, &node(8)), (Stage::Ready, RemedyStep::Proposed), "two in an hour");
    let id = remedy(&w, &node(8)).unwrap().id;
    w.ok(Command::ApproveRemedy { id });
    assert_ne!(of(&w, &node(8)).stage, Stage::Ready);
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
    let job = w.run(gang(32, 8));
    assert_eq!(w.nodes_of(job).len(), 32, "the fleet still works");
    // Nothing more happens until somebody says so; then the limits hold again.
    w.sleep(Span::hours(5));
    let before = out(&w);
    w.ok(Command::ResumeAutomation);
    w.sleep(Span::hours(2));
    assert!(out(&w) <= before + 64 / 10 * 3);
    assert!(out(&w) <= 64 / 5);
}

#[test]
fn automation_can_be_stopped_by_hand() {
    let mut w = able(16);
    w.ok(Command::StopAutomation { reason: "works on the cooling".into() });
    xid79(&mut w, &node(0));
    assert_eq!(stands(&w, &node(0)), (Stage::Ready, RemedyStep::Proposed));
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
    let r = remedy(&w, &node(9)).unwrap();
    assert_eq!(r.step, RemedyStep::Proposed, "{}", r.why);
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

fn does(w: &mut World, op: &Op) {
    let sev = [Severity::Info, Severity::Warning, Severity::Degraded, Severity::Critical];
    match op {
        Op::Find { node: i, gpu, kind, severity, sure } => {
            let e = Entity::Gpu(node(*i), *gpu);
            let f = SeenFinding::new(KINDS[*kind], e, sev[*severity], w.now).sure(*sure);
            w.ok(Command::FindingsSeen { findings: vec![f] });
        }
        Op::Over { node: i, gpu, kind } => {
            let e = Entity::Gpu(node(*i), *gpu);
            let mut f = SeenFinding::new(KINDS[*kind], e, Severity::Info, w.now);
            f.over = true;
            w.ok(Command::FindingsSeen { findings: vec![f] });
        }
        Op::Fault { node: i, gpu } => tell(w, &node(*i), fault("xid-79", *gpu)),
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
            let waits =
                |r: &&Arc<Remedy>| r.step == RemedyStep::Approval && r.action != Action::Drain;
            let id = w.engine.state().health.live_remedies().find(waits).map(|r| r.id);
            if let Some(id) = id {
                // The node is out already: a word for the act takes nothing more.

                w.ok(Command::ApproveRemedy { id });
            }
        }
        Op::Sleep(s) => w.sleep(Span::secs(*s)),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 96, ..ProptestConfig::default() })]

    /// Whatever is found, truly or falsely, and in whatever order: never more than the limits.
    #[test]
    fn no_sequence_of_findings_takes_more_than_the_limits(
        ops in prop::collection::vec(op(), 1..120)
    ) {
        let mut w = able(24);
        let limits = w.engine.state().policy.remedies.limits.clone();
        for op in &ops {
            does(&mut w, op);
            let mut groups: BTreeMap<String, (u32, u32)> = BTreeMap::new();
            for n in w.engine.state().nodes.values() {
                let gone = matches!(
                    n.stage,
                    Stage::Suspect | Stage::Draining | Stage::Drained | Stage::Quarantined
                        | Stage::Repairing
                );
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
        }
        // The log alone gives the same state.
        let again = replay(&w.log);
        prop_assert_eq!(again.digest(), w.engine.state().digest());
    }
}
