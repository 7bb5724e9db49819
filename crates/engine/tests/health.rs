//! From a fault to a repaired node: findings, incidents, remediations, limits, and the way back.

#[path = "health/absent.rs"]
mod absent;
#[path = "health/causes.rs"]
mod causes;
use crate::common;
#[path = "health/decided.rs"]
mod decided;
#[path = "health/drift.rs"]
mod drift;
#[path = "health/ended.rs"]
mod ended;
#[path = "health/ending.rs"]
mod ending;
#[path = "health/lemons.rs"]
mod lemons;
#[path = "health/limits.rs"]
mod limits;
#[path = "health/offered.rs"]
mod offered;
#[path = "health/recovery.rs"]
mod recovery;
#[path = "health/rehearse.rs"]
mod rehearse;
#[path = "health/repeats.rs"]
mod repeats;
#[path = "health/several.rs"]
mod several;
#[path = "health/stopped.rs"]
mod stopped;
#[path = "health/tested.rs"]
mod tested;
#[path = "health/timeline.rs"]
mod timeline;
#[path = "health/witness.rs"]
mod witness;
#[path = "health/words.rs"]
mod words;
#[path = "health/work.rs"]
mod work;

use common::{TestSite, connected, fault, inventory, node, report};
use muster_model::command::{Command, Observed};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::fault::ObservedFault;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::node::{Inventory, Node, Stage};
use muster_model::qualification::Outcome;
use muster_model::remediation::{Act, Action, Mode, Remediation, RemediationStep, Rule};
use std::sync::Arc;

/// Nodes that can be tested, reset and restarted.
pub(crate) fn able(nodes: usize) -> TestSite {
    let mut w = TestSite::new(nodes, 8);
    for i in 0..nodes {
        meet(&mut w, i, "boot");
    }
    w
}

pub(crate) fn meet(w: &mut TestSite, i: usize, boot: &str) {
    meet_with(w, i, boot, Vec::new());
}

pub(crate) fn meet_with(
    w: &mut TestSite,
    i: usize,
    boot: &str,
    observed: Vec<(AttemptKey, Observed)>,
) {
    let can = ["qualify", "reset", "reboot"].map(String::from).into();
    report_inventory(w, i, boot, Inventory { can, ..inventory(8) }, observed);
}

/// A node that was silent for a while connects, and knows of no attempt.
pub(crate) fn meet_after(
    w: &mut TestSite,
    i: usize,
    boot: &str,
    silent: muster_model::units::Span,
) {
    let can = ["qualify", "reset", "reboot"].map(String::from).into();
    let mut command = connected(i, boot, Inventory { can, ..inventory(8) }, Vec::new());
    if let Command::NodeConnected { silent_for, .. } = &mut command {
        *silent_for = Some(silent);
    }
    w.ok(command);
}

/// A node connects and reports what is in it.
pub(crate) fn report_inventory(
    w: &mut TestSite,
    i: usize,
    boot: &str,
    inventory: Inventory,
    observed: Vec<(AttemptKey, Observed)>,
) {
    w.ok(connected(i, boot, inventory, observed));
}

pub(crate) fn report_fault(w: &mut TestSite, n: &NodeName, fault: ObservedFault) {
    w.ok(Command::FaultsSeen { node: n.clone(), faults: vec![fault] });
}

pub(crate) fn xid79(w: &mut TestSite, n: &NodeName) {
    let mut f = fault("xid-79", 3);
    f.at = w.now;
    report_fault(w, n, f);
}

pub(crate) fn see(w: &mut TestSite, kind: &str, entity: Entity, severity: Severity) {
    let f = ObservedFinding::new(kind, entity, severity, w.now).because("seen by a test");
    w.ok(Command::FindingsSeen { findings: vec![f] });
}

pub(crate) fn of<'a>(w: &'a TestSite, n: &NodeName) -> &'a Node {
    &w.engine.state().nodes[n]
}

/// The heaviest remediation of a node that goes on.
pub(crate) fn remediation(w: &TestSite, n: &NodeName) -> Option<Arc<Remediation>> {
    w.engine.state().health.remediations_of(n).max_by_key(|r| (r.action, r.id)).cloned()
}

pub(crate) fn stands(w: &TestSite, n: &NodeName) -> (Stage, RemediationStep) {
    (of(w, n).stage, remediation(w, n).expect("a remediation goes on").step)
}

pub(crate) fn acts(w: &TestSite, n: &NodeName) -> Vec<(u64, &'static str)> {
    let all = w.engine.state().health.open_acts();
    all.filter(|a| a.act.node() == Some(n)).map(|a| (a.id, a.act.word())).collect()
}

/// The test of a node ends.
pub(crate) fn tested(w: &mut TestSite, n: &NodeName, outcome: Outcome) {
    let id = of(w, n).qualifying.expect("it is tested").id;
    w.ok(Command::QualificationDone { node: n.clone(), id, report: report(outcome, 700) });
}

/// Ranks of a job that is being stopped are gone, and those of the next attempt come up.
pub(crate) fn moves_on(w: &mut TestSite, id: JobId) {
    w.stopped(id);
    assert!(w.job(id).attempt.is_some(), "it is placed again: {:?}", w.job(id).state);
    w.start(id);
}

pub(crate) fn pages(w: &TestSite) -> usize {
    let page =
        |e: &Event| matches!(e, Event::ActAsked { act } if matches!(act.act, Act::Page { .. }));
    w.log.iter().filter(|r| page(&r.event)).count()
}

/// What a policy has done about failure modes, one after the other.
pub(crate) fn rule(kind: &str, steps: &[Action]) -> Rule {
    Rule {
        kind: Some(kind.into()),
        pool: None,
        sku: None,
        steps: steps.to_vec(),
        mode: None,
        leave: None,
    }
}

pub(crate) fn automatic(w: &mut TestSite, action: Action) {
    w.policy(|p| {
        p.remediations.modes.insert(action, Mode::Automatic);
    });
}
