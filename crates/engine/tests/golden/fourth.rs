//! What the fourth version's log holds beside the third one's: findings and what follows from them.

use crate::common::{TestSite, connected, crash, fault, gang, inventory, node, report};
use crate::health::rule;
use muster_engine::State;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::fault::ObservedFault;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::job::PastAttempt;
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::qualification::Outcome;
use muster_model::remediation::{Action, RemediationStep};
use muster_model::units::Span;
use serde_json::json;

fn join(w: &mut TestSite, i: usize, boot: &str) {
    let mut all = inventory(8);
    all.can.insert("qualify".into());
    w.ok(connected(i, boot, all, Vec::new()));
}

fn remediation(w: &TestSite, n: &NodeName) -> u64 {
    w.engine.state().health.remediations_of(n).max_by_key(|r| (r.action, r.id)).unwrap().id
}

fn pass_test(w: &mut TestSite, n: &NodeName) {
    let id = w.engine.state().nodes[n].qualifying.unwrap().id;
    w.ok(Command::QualificationDone { node: n.clone(), id, report: report(Outcome::Passed, 700) });
}

fn see(w: &mut TestSite, kind: &str, entity: Entity, severity: Severity) {
    let f = ObservedFinding::new(kind, entity, severity, w.now).because("seen by a test");
    w.ok(Command::FindingsSeen { findings: vec![f] });
}

/// A life with everything that version knows.
pub(crate) fn live() -> TestSite {
    let mut w = TestSite::new(32, 8);
    for i in 0..32 {
        join(&mut w, i, "boot");
    }
    // A GPU falls off the bus under a gang; the node is rebooted, tested and watched.
    let job = w.run(gang(2, 8));
    let n = w.nodes_of(job)[0].clone();
    w.pass(Span::mins(10));
    let off_bus = ObservedFault { at: w.now, ..fault("xid-79", 3) };
    w.ok(Command::FaultsSeen { node: n.clone(), faults: vec![off_bus] });
    w.stopped(job);
    w.start(job);
    let key = w.key(job);
    w.ok(Command::FirstStep { key });
    let id = remediation(&w, &n);
    w.ok(Command::ApproveRemediation { id });
    let i: usize = n.as_str()[1..].parse().unwrap();
    w.lose(&n);
    join(&mut w, i, "boot-2");
    pass_test(&mut w, &n);
    // A hang, a warning that becomes worse and is closed by hand, a GPU that is isolated.
    let mut hang = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
    (hang.attempt, hang.rank) = (Some(w.key(job)), Some(1));
    w.ok(Command::FindingsSeen { findings: vec![hang] });
    w.stopped(job);
    w.sleep(Span::secs(10));
    w.start(job);
    let port = Entity::Port(node(30), "mlx5_0".into());
    see(&mut w, "symbol-errors", port.clone(), Severity::Info);
    see(&mut w, "symbol-errors", port, Severity::Warning);
    let open = w.engine.state().health.open().last().unwrap().id;
    w.ok(Command::CloseFinding { id: open, reason: "cable was moved".into() });
    w.policy(|p| {
        p.remediations.rules.push(rule("ecc-*", &[Action::IsolateGpu]));
    });
    see(&mut w, "ecc-uncorrectable", Entity::Gpu(node(29), 1), Severity::Critical);
    let none = GpuSet::EMPTY;
    w.ok(Command::ExcludeGpus { node: node(29), gpus: none, reason: "swapped".into() });
    // A rank dies of its GPU before that is known.
    let late = w.run(gang(1, 8));
    let at = w.nodes_of(late)[0].clone();
    w.report(late, &at, crash(0, 1));
    if w.job(late).attempt.is_some() {
        w.stopped(late);
    }
    w.pass(Span::secs(3));
    w.ok(Command::FaultsSeen { node: at.clone(), faults: vec![fault("xid-79", 0)] });
    let id = remediation(&w, &at);
    w.ok(Command::UndoRemediation { id, reason: "a drill".into() });
    // A leaf is lost in two strokes, and comes back.
    for i in 16..20 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(2));
    for i in 20..24 {
        w.lose(&node(i));
        w.sleep(Span::secs(2));
    }
    for i in 16..24 {
        join(&mut w, i, "boot");
    }
    w.ok(Command::StopAutomation { reason: "works".into() });
    w.ok(Command::FaultsSeen { node: node(28), faults: vec![fault("xid-79", 2)] });
    w.ok(Command::ResumeAutomation);
    w.sleep(Span::hours(30));
    w
}

/// What users would notice.
pub(crate) fn summary(s: &State) -> serde_json::Value {
    let h = &s.health;
    let nodes: Vec<_> = s
        .nodes
        .values()
        .map(|n| {
            json!({
                "name": n.name, "stage": n.stage, "why": n.stage_why, "generation": n.generation,
                "probation": n.probation, "breaker": n.breaker, "remediation": n.remediation,
                "excluded": n.excluded_gpus,
            })
        })
        .collect();
    let jobs: Vec<_> = s
        .jobs
        .values()
        .map(|j| {
            // What an attempt was stopped for is kept only since then, and so is when its last rank
            // ended where that was the end of the attempt.
            let past = j.past.iter().map(|p| PastAttempt {
                stopped_for: None,
                // So is when ranks on lost nodes were last heard of.
                stopped_at: None,
                freed_at: p.freed_at.filter(|t| *t != p.ended_at),
                ..p.clone()
            });
            let past: Vec<_> = past.collect();
            json!({ "id": j.id, "recovery": j.recovery, "unhealthy_nodes": j.unhealthy_nodes, "past": past })
        })
        .collect();
    let waits = h.live_remediations().filter(|r| r.step == RemediationStep::Proposed).count();
    json!({
        "nodes": nodes, "jobs": jobs, "waits": waits,
        "findings": h.findings.values().collect::<Vec<_>>(),
        "incidents": h.incidents.values().collect::<Vec<_>>(),
        "breakers": h.breakers.values().collect::<Vec<_>>(),
        "remediations": h.remediations.values().collect::<Vec<_>>(),
        "acts": h.acts.values().collect::<Vec<_>>(),
        "automation": h.automation,
    })
}
