//! What the third version's log holds beside the second one's: faults that nodes reported, and
//! tests of nodes.

use crate::common::{TestSite, connected, fault, gang, inventory, node, report};
use muster_engine::State;
use muster_model::command::Command;
use muster_model::qualification::{Level, Outcome};
use muster_model::units::Span;
use serde_json::json;

/// Goes on from the second version's life, with two nodes that can be tested.
pub(crate) fn live(w: &mut TestSite) {
    let job = w.run(gang(1, 1));
    let (home, key) = (w.nodes_of(job)[0].clone(), w.key(job));
    let mut own = fault("xid-31", 0);
    (own.attempt, own.rank, own.pid) = (Some(key), Some(0), Some(4242));
    w.ok(Command::FaultsSeen { node: home.clone(), faults: vec![own, fault("xid-79", 2)] });
    for i in [6, 7] {
        let (node, machine) = (node(i), format!("m{i}"));
        w.ok(Command::Enroll { node, machine, token: "t".into(), key: None });
        if i == 7 {
            w.policy(|p| p.qualification.on_join = muster_model::policy::OnJoin::Quick);
        }
        join(w, i);
    }
    // The policy asked this one.
    let id = w.testing(7).unwrap();
    w.ok(Command::QualificationDone { node: node(7), id, report: report(Outcome::Passed, 700) });
    // It was better before.
    w.ok(Command::Qualify { node: node(7), level: Level::Standard });
    let id = w.testing(7).unwrap();
    w.ok(Command::QualificationDone { node: node(7), id, report: report(Outcome::Passed, 640) });
    // This one fails, is cancelled, and lets its time pass.
    w.ok(Command::Qualify { node: node(6), level: Level::Quick });
    let id = w.testing(6).unwrap();
    w.ok(Command::QualificationDone { node: node(6), id, report: report(Outcome::Failed, 500) });
    w.ok(Command::Uncordon { node: node(6) });
    w.ok(Command::Qualify { node: node(6), level: Level::Quick });
    w.ok(Command::CancelQualification { node: node(6) });
    w.ok(Command::Qualify { node: node(6), level: Level::Quick });
    w.pass(Span::mins(10));
    w.ok(Command::Qualify { node: node(7), level: Level::Full });
}

fn join(w: &mut TestSite, i: usize) {
    let mut all = inventory(8);
    all.can.insert("qualify".into());
    w.ok(connected(i, "boot", all, Vec::new()));
}

/// What users would notice, beside what the first version's facts say.
pub(crate) fn summary(s: &State) -> serde_json::Value {
    let nodes: Vec<_> = s
        .nodes
        .values()
        .map(|n| {
            json!({
                "name": n.name, "cordon": n.cordon.as_ref().map(|c| &c.reason), "qualifying": n.qualifying,
                "qualified": n.qualified, "figures": n.past_figures,
                "faults": s.faults_of(&n.name).collect::<Vec<_>>(),
            })
        })
        .collect();
    let counts: Vec<_> = s.fault_counts.iter().collect();
    json!({ "nodes": nodes, "counts": counts })
}
