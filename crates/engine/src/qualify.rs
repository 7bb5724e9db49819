//! Tests of nodes: who is tested, and what a report means.

use crate::Engine;
use crate::lookup::{find, find_versioned};
use crate::node_actions::{CAN, may_qualify};
use crate::state::State;
use muster_health::qualify::evaluate_against;
use muster_model::command::{Answer, Refusal, Request};
use muster_model::cordon::CordonedBy;
use muster_model::event::Event;
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::qualification::{
    Check, Level, Outcome, PastQualification, Qualification, Qualifying,
};
use muster_model::remediation::RemediationStep;
use std::sync::Arc;

/// Nodes that a report is compared with; more would change no median.
const PEERS: usize = 64;

pub(crate) fn ask(
    e: &mut Engine,
    req: &Request,
    name: &NodeName,
    level: Level,
) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    may_qualify(&e.state, &n, e.state.now)?;
    begin(e, &n.name, level, false);
    Ok(Answer::Done)
}

/// Begins a test and says under which number.
pub(crate) fn begin(e: &mut Engine, node: &NodeName, level: Level, on_join: bool) -> u64 {
    let id = e.state.seq.next().0;
    let event = Event::QualificationAsked {
        node: node.clone(),
        // The record's own number: never used again, and the same in every replay.
        id,
        level,
        until: e.state.now + level.time_limit(),
        on_join,
    };
    e.emit(None, event);
    id
}

/// A node that joins is tested first where the policy says so.
pub(crate) fn on_join(e: &mut Engine, node: &NodeName) {
    let Some(level) = e.state.policy.qualification.on_join.level() else { return };
    let able = |n: &Arc<Node>| n.inventory.can.contains(CAN) && n.qualifying.is_none();
    if e.state.nodes.get(node).is_some_and(able) {
        begin(e, node, level, true);
    }
}

pub(crate) fn cancel(e: &mut Engine, req: &Request, name: &NodeName) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    drop_test(e, &n);
    Ok(Answer::Done)
}

/// The test of a node, if one goes on, is not wanted any more.
pub(crate) fn drop_test(e: &mut Engine, n: &Node) {
    if let Some(q) = n.qualifying {
        e.emit(None, Event::QualificationCancelled { node: n.name.clone(), id: q.id });
    }
}

/// A report; one of a test that is over or was cancelled changes nothing.
pub(crate) fn done(
    e: &mut Engine,
    node: &NodeName,
    id: u64,
    report: &Qualification,
) -> Result<Answer, Refusal> {
    let n = find(e, node)?;
    if n.qualifying.is_some_and(|q| q.id == id) {
        let report = judged(&e.state, &n, report.clone().bounded());
        end(e, &n, id, report, false);
    }
    Ok(Answer::Done)
}

/// The report beside the node's own past and nodes of its kind.
fn judged(state: &State, n: &Node, mut report: Qualification) -> Qualification {
    let kind = |p: &&Arc<Node>| p.name != n.name && p.sku() == n.sku() && p.stage != Stage::Retired;
    let reported = |p: &&Arc<PastQualification>| !p.figures.is_empty();
    let newest = |p: &Arc<Node>| p.past_figures.iter().rev().find(reported).cloned();
    let peers: Vec<Arc<PastQualification>> =
        state.nodes.values().filter(kind).filter_map(newest).take(PEERS).collect();
    for j in evaluate_against(&report, &n.past_figures, &peers) {
        if let Some(c) = report.checks.get_mut(j.check) {
            c.outcome = c.outcome.max(j.outcome);
            c.note = if c.note.is_empty() { j.note } else { format!("{}; {}", c.note, j.note) };
        }
    }
    report.outcome = report.worst();
    report
}

fn end(e: &mut Engine, n: &Node, id: u64, report: Qualification, expired: bool) {
    let outcome = report.outcome;
    let failed = outcome == Outcome::Failed;
    let wrong = report.checks.iter().any(Check::found_wrong_results);
    let why = report.first_failure().unwrap_or_else(|| "the node reports it".into());
    let (node, report) = (n.name.clone(), Box::new(report));
    e.emit(None, Event::QualificationEnded { node, id, report, expired });
    e.test_was_probe(&n.name, id, outcome);
    e.work.due.insert(n.name.clone());
    // A remediation that tests its node draws its own conclusions.
    if e.state.health.remediations_of(&n.name).any(|r| r.step == RemediationStep::Testing) {
        return;
    }
    if failed {
        e.test_found(&n.name, &why, wrong);
    }
    if let Some(q) = n.qualifying.filter(|_| outcome == Outcome::Passed) {
        e.test_passed(&n.name, q);
    }
    // Whoever cordoned it for a reason of their own finds that reason again.
    let free = n.cordon.as_ref().is_none_or(|c| c.by == CordonedBy::FailedTest);
    if failed && free {
        let reason = format!("failed qualification: {why}");
        e.emit(None, Event::NodeCordoned { node: n.name.clone(), reason, decided: true });
    }
}

impl Engine {
    /// Tests that took too long have failed.
    pub(crate) fn fail_overdue_tests(&mut self) {
        while let Some((until, name)) = self.state.index.tests.first().cloned()
            && until <= self.state.now
        {
            let Some(n) = self.state.nodes.get(&name).cloned() else { return };
            let Some(q) = n.qualifying else { return };
            end(self, &n, q.id, expired(q), true);
        }
    }
}

/// What is written down of a test that nothing was heard of.
fn expired(q: Qualifying) -> Qualification {
    let limit = q.level.time_limit();
    Qualification {
        level: q.level,
        started_at: q.asked_at,
        took: limit,
        outcome: Outcome::Failed,
        checks: vec![Check::plain(
            "time-limit",
            None,
            Outcome::Failed,
            format!("the node did not report within {limit}"),
        )],
    }
}
