//! What ranks say of themselves is the word of a tenant: how far it goes.

use super::*;
use crate::common::{gang, node, replay};
use muster_model::remediation::RemediationOutcome;
use muster_model::spec::JobSpec;
use muster_model::units::Span;

fn of_project(name: &str, spec: JobSpec) -> JobSpec {
    JobSpec { project: Some(name.parse().unwrap()), ..spec }
}

fn slow(w: &TestSite, job: JobId, entity: Entity) -> ObservedFinding {
    let f = ObservedFinding::new("straggler", entity, Severity::Degraded, w.now);
    let mut f = f.because("rank 0: 8.50 times the others, its own work is slower than it was");
    (f.attempt, f.rank) = (Some(w.key(job)), Some(0));
    f
}

/// By the steps that a gang's ranks report, something is slow.
fn says(w: &mut TestSite, job: JobId, entity: Entity) {
    let f = slow(w, job, entity);
    w.ok(Command::FindingsSeen { findings: vec![f] });
}

fn stragglers(w: &TestSite) -> usize {
    let all = w.engine.state().health.findings.values();
    all.filter(|f| f.seen.kind == "straggler").count()
}

/// Nothing was taken, asked for, ordered or spent.
fn assert_untouched(w: &TestSite) {
    let book = &w.engine.state().health;
    assert!(w.engine.state().nodes.values().all(|n| n.stage == Stage::Ready));
    assert!(
        book.remediations.values().all(|r| r.action == Action::Watch),
        "{:#?}",
        book.remediations
    );
    assert!(book.automation.taken.is_empty() && book.automation.asked.is_empty());
    assert!(book.acts.is_empty(), "{:#?}", book.acts);
}

#[test]
fn a_job_without_gpus_costs_nobody_a_node() {
    let mut w = able(4);
    w.project("alpha");
    w.project("beta");
    let victims: Vec<JobId> = (0..4).map(|_| w.run(of_project("beta", gang(1, 8)))).collect();
    let keys: Vec<AttemptKey> = victims.iter().map(|v| w.key(*v)).collect();
    let mut spec = JobSpec::default();
    (spec.gang.nodes, spec.gang.ranks_per_node) = (Some(4), Some(2));
    let liar = w.run(of_project("alpha", spec));
    let n = w.nodes_of(liar)[0].clone();
    for _ in 0..3 {
        says(&mut w, liar, Entity::Node(n.clone()));
        assert_untouched(&w);
        let f = w.engine.state().health.open_on(&n).next().unwrap().clone();
        assert_eq!(f.seen.attempt, Some(w.key(liar)), "it is named");
        w.pass(Span::mins(20));
    }
    let first = w.engine.state().health.remediations.values().next().unwrap().clone();
    assert_eq!(first.outcome, Some(RemediationOutcome::Noted));
    let chosen = w.log.iter().find_map(|r| match &r.event {
        Event::RemediationChosen { remediation } => Some(remediation.why.clone()),
        _ => None,
    });
    let why = format!("only the step times of job {liar} show it, and it has no GPU of the node");
    assert!(chosen.as_ref().is_some_and(|w| w.starts_with(&why)), "{chosen:?}");
    for (v, key) in victims.iter().zip(keys) {
        let a = w.job(*v).attempt.as_ref().unwrap();
        assert_eq!(w.key(*v), key);
        assert!(a.stop.is_none() && a.notice.is_none());
    }
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

/// Two projects share every node: the first holds half of each, the second half of one.
fn shared() -> (TestSite, JobId, JobId, NodeName) {
    let mut w = able(8);
    w.project("alpha");
    w.project("beta");
    let alpha = w.run(of_project("alpha", gang(8, 4)));
    let beta = w.run(of_project("beta", gang(1, 4)));
    let n = w.nodes_of(beta)[0].clone();
    (w, alpha, beta, n)
}

#[test]
fn a_job_that_shares_a_node_is_not_believed_by_itself() {
    let (mut w, alpha, beta, n) = shared();
    let gpu = w.job(alpha).attempt.as_ref().unwrap().placement.slots[0].gpus.iter().next();
    says(&mut w, alpha, Entity::Gpu(n.clone(), gpu.unwrap()));
    assert_untouched(&w);
    w.sleep(Span::hours(1));
    assert_untouched(&w);
    assert!(w.job(beta).attempt.as_ref().unwrap().stop.is_none());
}

#[test]
fn the_nodes_own_telemetry_makes_it_believed() {
    let (mut w, alpha, _, n) = shared();
    see(&mut w, "symbol-errors", Entity::Port(n.clone(), "p0".into()), Severity::Warning);
    assert_untouched(&w);
    says(&mut w, alpha, Entity::Node(n.clone()));
    assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
}

#[test]
fn a_second_project_makes_it_believed() {
    let (mut w, alpha, beta, n) = shared();
    says(&mut w, alpha, Entity::Node(n.clone()));
    w.pass(Span::mins(1));
    says(&mut w, alpha, Entity::Node(n.clone()));
    assert_untouched(&w);
    assert_eq!(stragglers(&w), 1);
    says(&mut w, beta, Entity::Node(n.clone()));
    assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
    assert_eq!(stragglers(&w), 2, "each has its own");
    let f = w.engine.state().health.open_on(&n).next().unwrap().clone();
    says(&mut w, alpha, Entity::Node(n.clone()));
    assert_eq!(stragglers(&w), 2, "they do not take turns");
    let again = w.engine.state().health.findings[&f.id].clone();
    assert_eq!(again.seen.attempt, f.seen.attempt);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gang_that_has_the_node_to_itself_is_believed_once() {
    let mut w = able(4);
    let job = w.run(gang(2, 8));
    let n = w.nodes_of(job)[1].clone();
    says(&mut w, job, Entity::Gpu(n.clone(), 3));
    assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
    moves_on(&mut w, job);
    tested(&mut w, &n, Outcome::Passed);
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Probation));

    // The test refuted it: from now on it is the job.
    let other = w.nodes_of(job)[0].clone();
    says(&mut w, job, Entity::Node(other.clone()));
    assert_eq!(of(&w, &other).stage, Stage::Ready);
    assert_eq!(remediation(&w, &other).unwrap().action, Action::Watch);
    let held = w.engine.state().health.open_of(&Entity::Job(job), "job-slow").cloned().unwrap();
    let line = &held.seen.evidence[0];
    assert!(line.starts_with(&format!("it says that node:{other} is slow; ")), "{line}");
    assert_eq!(held.seen.attempt, Some(w.key(job)));
    w.sleep(Span::mins(40));
    assert_eq!(of(&w, &other).stage, Stage::Ready, "watching leads to nothing heavier");

    let over = ObservedFinding { over: true, ..slow(&w, job, Entity::Node(other.clone())) };
    w.ok(Command::FindingsSeen { findings: vec![over] });
    assert_eq!(w.engine.state().health.open_count(), 0, "with it the job's is over");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());

    w.sleep(Span::hours(25));
    says(&mut w, job, Entity::Node(other.clone()));
    assert_eq!(stands(&w, &other), (Stage::Draining, RemediationStep::Moving), "a day later");
}

#[test]
fn a_project_has_one_node_tested_at_a_time() {
    let mut w = able(16);
    let (a, b) = (w.run(gang(1, 8)), w.run(gang(1, 8)));
    let (of_a, of_b) = (w.nodes_of(a)[0].clone(), w.nodes_of(b)[0].clone());
    says(&mut w, a, Entity::Node(of_a.clone()));
    says(&mut w, b, Entity::Node(of_b.clone()));
    assert_eq!(stands(&w, &of_a), (Stage::Draining, RemediationStep::Moving));
    assert_eq!(of(&w, &of_b).stage, Stage::Ready);
    assert_eq!(remediation(&w, &of_b).unwrap().action, Action::Watch);
    moves_on(&mut w, a);
    tested(&mut w, &of_a, Outcome::Failed);
    w.sleep(Span::mins(16));
    assert_eq!(remediation(&w, &of_b).unwrap().action, Action::Drain, "what it said was true");
}

#[test]
fn a_drain_that_was_held_back_asks_again_who_is_there() {
    let mut w = able(16);
    w.project("beta");
    // Automation takes two of sixteen nodes within an hour.
    for i in [0, 4] {
        xid79(&mut w, &node(i));
    }
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    says(&mut w, job, Entity::Node(n.clone()));
    assert_eq!(stands(&w, &n), (Stage::Ready, RemediationStep::Proposed));
    assert!(remediation(&w, &n).unwrap().why.starts_with("limit of"), "{:?}", remediation(&w, &n));
    // Work of somebody else comes to every node.
    let mut spec = JobSpec::default();
    (spec.gang.nodes, spec.gang.ranks_per_node) = (Some(14), Some(1));
    let beside = w.run(of_project("beta", spec));
    assert!(w.nodes_of(beside).contains(&n));
    w.sleep(Span::hours(2));
    let r = remediation(&w, &n).unwrap();
    assert_eq!((of(&w, &n).stage, r.step), (Stage::Ready, RemediationStep::Proposed), "{}", r.why);
    assert!(r.why.ends_with("it does not have the node to itself"), "{}", r.why);
    // An operator may.
    w.ok(Command::ApproveRemediation { id: r.id });
    assert_eq!(stands(&w, &n), (Stage::Draining, RemediationStep::Moving));
}
