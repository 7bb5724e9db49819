//! Findings with one cause.

use super::*;
use crate::common::{crash, gang, node};
use muster_model::breaker::BreakerState;
use muster_model::finding::Incident;
use muster_model::hold::HeldBy;
use muster_model::job::{JobState, SlotEnd, Verdict};
use muster_model::spec::{JobSpec, Priority};
use muster_model::units::Span;

#[test]
fn a_lost_leaf_is_one_incident_and_its_nodes_are_left_alone() {
    let mut w = able(32);
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let all: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(all[0].kind, "leaf-loss", "{:?}", all[0]);
    assert_eq!(all[0].count, 8);
    assert!(matches!(all[0].cause, Entity::Domain(..)));
    let b = w.engine.state().health.breakers.get(&all[0].cause).unwrap().clone();
    assert_eq!(b.state, BreakerState::Open);
    // The switch is back: probed, and closed when a node passes.
    for i in 8..16 {
        meet(&mut w, i, "boot");
    }
    assert_eq!(w.engine.state().health.open_incidents().count(), 0);
    let probe = w.engine.state().nodes.values().find(|n| n.qualifying.is_some()).unwrap();
    let name = probe.name.clone();
    tested(&mut w, &name, Outcome::Passed);
    assert_eq!(w.engine.state().health.breakers[&all[0].cause].state, BreakerState::Closed);
    assert!(w.engine.state().nodes.values().all(|n| n.breaker.is_none()));
    assert!(w.engine.state().nodes.values().all(|n| n.stage == Stage::Ready));
}

/// What an incident says of its beginning and of what it cost is final once it is over.
#[test]
fn findings_that_were_over_with_their_incident_are_part_of_no_later_one() {
    let mut w = able(32);
    let lose = |w: &mut TestSite, leaf: std::ops::Range<usize>| {
        for i in leaf.clone() {
            w.lose(&node(i));
        }
        w.sleep(Span::secs(5));
        let open: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
        assert_eq!(open.len(), 1, "{open:#?}");
        for i in leaf {
            meet(w, i, "boot");
        }
        assert_eq!(w.engine.state().health.open_incidents().count(), 0);
        open[0].clone()
    };
    let first = lose(&mut w, 8..16);
    let ended = w.engine.state().health.incidents[&first.id].closed.clone().unwrap();
    let second = lose(&mut w, 16..24);
    assert_eq!((&second.kind[..], second.count), ("leaf-loss", 8), "{second:#?}");
    assert!(second.began_at >= ended.at && second.cause != first.cause, "{second:#?}");
    let health = &w.engine.state().health;
    assert!(first.findings.iter().all(|f| health.findings[f].incident == Some(first.id)));
    assert_eq!(crate::common::replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn retired_nodes_do_not_hide_that_most_of_a_leaf_failed() {
    let mut w = able(32);
    for i in [10, 11, 14, 15] {
        w.ok(Command::Drain { node: node(i), reason: "sold".into(), stop: false });
        w.ok(Command::Retire { node: node(i) });
    }
    // Three of the four that are left, in two racks.
    for i in [8, 9, 12] {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let all: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((&all[0].kind[..], all[0].count), ("leaf-loss", 3));
    assert!(all[0].summary.contains("(4 nodes)"), "{}", all[0].summary);
    assert_eq!(crate::common::replay(&w.log).digest(), w.engine.state().digest());
}

/// The first node of a job loses a GPU.
fn first_node_dies(w: &mut TestSite, job: JobId) {
    w.pass(Span::mins(2));
    let n = w.nodes_of(job)[0].clone();
    let mut f = fault("xid-79", 0);
    f.at = w.now;
    report_fault(w, &n, f);
    // A limit may hold the node; an operator lets it go.
    if let Some(r) = remediation(w, &n).filter(|r| r.step == RemediationStep::Proposed) {
        w.ok(Command::ApproveRemediation { id: r.id });
    }
}

/// A job under which nodes lose a GPU one after another, three times.
fn nodes_die_under_a_job(w: &mut TestSite) -> JobId {
    let mut spec = gang(1, 8);
    spec.retries.infrastructure = 20;
    let job = w.run(spec);
    for _ in 0..3 {
        first_node_dies(w, job);
        w.stopped(job);
        w.sleep(Span::mins(2));
        if w.job(job).attempt.is_some() {
            w.start(job);
        }
    }
    job
}

fn is_suspected(w: &TestSite, job: JobId) -> (bool, bool) {
    let held = w.job(job).held.as_ref().is_some_and(|h| h.by == HeldBy::Suspicion);
    (held, w.engine.state().health.open_of(&Entity::Job(job), "node-killer").is_some())
}

#[test]
fn a_job_under_which_nodes_die_one_after_another_is_held() {
    let mut w = able(16);
    let job = nodes_die_under_a_job(&mut w);
    let j = w.job(job);
    assert_eq!(is_suspected(&w, job), (true, true), "{:?} {:?}", j.held, j.unhealthy_nodes);
    assert_eq!(j.state, JobState::Queued);
}

#[test]
fn holding_a_job_heals_no_gpu_that_failed_under_it() {
    let mut w = able(24);
    // Three nodes of three leaves have only the job in common.
    for i in (0..24).filter(|i| i % 8 != 0) {
        w.ok(Command::Cordon { node: node(i), reason: "others".into() });
    }
    let job = w.run(gang(3, 8));
    // Nothing is begun, so what is proposed can still be taken back.
    w.ok(Command::StopAutomation { reason: "practice".into() });
    let nodes = w.nodes_of(job);
    for n in &nodes {
        w.pass(Span::mins(2));
        let mut f = fault("xid-79", 0);
        (f.at, f.attempt) = (w.now, w.job(job).attempt_key());
        report_fault(&mut w, n, f);
    }
    w.sleep(Span::secs(10));
    let incident = |i: &Arc<Incident>| i.kind == "node-killer" && i.cause == Entity::Job(job);
    let all: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
    assert!(all.iter().any(incident), "{all:#?}");
    for n in &nodes {
        let r = remediation(&w, n).expect("its GPU is gone, whatever made it so");
        assert_eq!(r.step, RemediationStep::Proposed);
        assert!(w.engine.state().allocation_blocker(of(&w, n)).is_some(), "new work avoids it");
    }
    assert_eq!(crate::common::replay(&w.log).digest(), w.engine.state().digest());
}

/// All nodes have a driver of which an incident says that it is bad.
fn open_incident_of_the_driver(w: &mut TestSite, other: usize) {
    see(w, "gpu-off-bus", Entity::Gpu(node(other), 3), Severity::Critical);
    let on = Entity::Gpu(node(other), 3);
    let f = w.engine.state().health.open_of(&on, "gpu-off-bus").expect("a finding").id;
    let incident = Incident {
        id: w.engine.state().seq.next().0,
        cause: Entity::Version("driver".into(), "580.105.08".into()),
        kind: "bad-version".into(),
        severity: Severity::Critical,
        summary: "nodes that share a driver".into(),
        began_at: w.now,
        opened_at: w.now,
        findings: vec![f],
        count: 1,
        owner: None,
        notes: Vec::new(),
        closed: None,
        part_of: None,
    };
    let event = Event::IncidentOpened { incident: Box::new(incident) };
    w.wrote(event, muster_engine::Policy::default());
    // Something is found, so causes are looked for.
    see(w, "thermal", Entity::Gpu(node(other), 4), Severity::Degraded);
    w.sleep(Span::secs(3));
}

fn with_the_driver(nodes: usize) -> TestSite {
    let mut w = able(nodes);
    for i in 0..nodes {
        let can = ["qualify", "reset", "reboot"].map(String::from).into();
        let versions = [("driver".to_string(), "580.105.08".to_string())].into();
        report_inventory(
            &mut w,
            i,
            "boot",
            Inventory { can, versions, ..inventory(8) },
            Vec::new(),
        );
    }
    w
}

#[test]
fn a_job_is_released_when_its_nodes_turn_out_to_have_another_cause() {
    let mut w = with_the_driver(16);
    let job = nodes_die_under_a_job(&mut w);
    assert_eq!(is_suspected(&w, job), (true, true));
    let others = (0..16).rev().find(|i| !w.job(job).unhealthy_nodes.contains(&node(*i)));
    let from = w.log.len();
    open_incident_of_the_driver(&mut w, others.expect("a node that the job did not meet"));
    assert_eq!(is_suspected(&w, job), (false, false));
    let why = w.since(from).find_map(|e| match e {
        Event::FindingClosed { why, .. } if why.contains("another cause") => Some(why.clone()),
        _ => None,
    });
    let why = why.expect("the finding says why it is over");
    assert!(why.contains("version:driver/580.105.08"), "{why}");
    assert!(why.ends_with(&format!("job {job} is released")), "{why}");
    let again = crate::common::replay(&w.log);
    assert_eq!(again.digest(), w.engine.state().digest());
}

#[test]
fn nodes_that_fail_for_a_known_cause_are_not_counted_against_a_job() {
    let mut w = with_the_driver(16);
    open_incident_of_the_driver(&mut w, 15);
    let job = nodes_die_under_a_job(&mut w);
    assert_eq!(w.job(job).unhealthy_nodes.len(), 3);
    assert_eq!(is_suspected(&w, job), (false, false));
}

/// A job that crashed until its template's breaker held it.
fn crash_loop(name: Option<&str>) -> (TestSite, JobId) {
    let mut w = able(8);
    let mut spec = gang(1, 8);
    spec.name = name.map(|n| n.parse().unwrap());
    spec.retries.application = 100;
    let job = w.run(spec);
    for i in 0..5 {
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, crash(0, 1));
        if w.job(job).state == JobState::Stopping {
            w.stopped(job);
        }
        assert!(i < 4 || w.job(job).held.is_some(), "held after five: {:?}", w.job(job).past.len());
        w.sleep(Span::mins(2));
        if w.job(job).attempt.is_some() {
            w.start(job);
        }
    }
    (w, job)
}

#[test]
fn a_gang_that_its_breaker_holds_has_no_nodes_reserved() {
    let mut w = able(8);
    let like = |nodes: u32, priority: Priority| {
        let name = Some("train".parse().unwrap());
        let mut spec = JobSpec { name, priority, ..gang(nodes, 8) };
        spec.retries.application = 100;
        spec
    };
    let job = w.run(like(2, Priority::Critical));
    // Another of its template opens the breaker.
    let other = w.run(like(1, Priority::Normal));
    while w.job(other).attempt.is_some() {
        let n = w.nodes_of(other)[0].clone();
        w.report(other, &n, crash(0, 1));
        w.sleep(Span::mins(2));
        if w.job(other).attempt.is_some() {
            w.start(other);
        }
    }
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 1));
    assert!(w.job(job).reserved_start.is_some(), "no lower class has them meanwhile");
    w.stopped(job);
    assert!(w.job(job).held.as_ref().is_some_and(|h| matches!(h.by, HeldBy::Breaker { .. })));
    assert_eq!(w.job(job).reserved_start, None);
    let others = w.gang(8, 8);
    assert_eq!(w.job(others).state, JobState::Starting, "all nodes are free");
    assert_eq!(crate::common::replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gang_that_is_held_while_it_stops_has_no_nodes_reserved() {
    let mut w = able(16);
    let job = w.run(gang(2, 8));
    for _ in 0..2 {
        first_node_dies(&mut w, job);
        assert!(w.job(job).reserved_start.is_some(), "the failed node is replaced");
        w.stopped(job);
        w.sleep(Span::mins(2));
        w.start(job);
    }
    first_node_dies(&mut w, job);
    assert_eq!((w.job(job).state, is_suspected(&w, job).0), (JobState::Stopping, true));
    let n = w.nodes_of(job)[1].clone();
    w.lose(&n);
    assert_eq!(w.job(job).reserved_start, None);
    assert_eq!(crate::common::replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn agents_that_are_started_again_make_no_crash_loop_of_their_job() {
    let mut w = able(8);
    let job = w.run(gang(1, 8));
    for i in 0..6 {
        let n = w.nodes_of(job)[0].clone();
        w.report(job, &n, Observed::Ended(SlotEnd::agent_anew()));
        if w.job(job).state == JobState::Stopping {
            w.stopped(job);
        }
        assert_eq!(w.job(job).past.last().map(|p| p.verdict), Some(Verdict::Platform));
        w.sleep(Span::mins(2));
        assert!(w.job(job).held.is_none(), "held after {i}");
        w.start(job);
    }
    assert!(!w.engine.state().health.open().any(|f| f.seen.kind == "crash-loop"));
}

#[test]
fn a_crash_loop_is_over_when_its_job_is_cancelled() {
    let open = |w: &TestSite| {
        let book = &w.engine.state().health;
        let found = book.open().any(|f| f.seen.kind == "crash-loop");
        (found, book.breakers.values().any(|b| b.state != BreakerState::Closed))
    };
    let (mut w, job) = crash_loop(None);
    assert_eq!(open(&w), (true, true));
    w.ok(Command::Cancel { job });
    w.sleep(Span::secs(2));
    assert_eq!(open(&w), (false, false));
    // Another of its name may come, and is its probe; nobody does for hours.
    let (mut w, job) = crash_loop(Some("train"));
    w.ok(Command::Cancel { job });
    w.sleep(Span::secs(2));
    assert_eq!(open(&w), (false, true));
    w.sleep(Span::hours(3));
    assert_eq!(open(&w), (false, false));
}

#[test]
fn a_crash_loop_is_stopped_by_its_templates_breaker() {
    let (mut w, job) = crash_loop(None);
    // After a while one is let through; it works, and the breaker closes.
    w.sleep(Span::mins(30));
    assert!(w.job(job).attempt.is_some(), "{:?}", w.job(job));
    w.start(job);
    w.pass(Span::mins(20));
    w.finish(job);
    let all = w.engine.state().health.breakers.values();
    assert!(all.into_iter().all(|b| b.state == BreakerState::Closed));
    assert!(w.engine.state().nodes.values().all(|n| n.stage == Stage::Ready));
}

#[test]
fn a_node_that_is_moved_elsewhere_leaves_its_breaker_behind() {
    let mut w = able(16);
    let n = node(0);
    let leaf =
        Entity::domain(muster_model::topology::Level::Leaf, &n, &of(&w, &n).location.clone());
    let force = |state| Command::ForceBreaker { entity: leaf.clone(), state, reason: "x".into() };
    w.ok(force(Some(BreakerState::Open)));
    assert!(of(&w, &n).breaker.is_some());
    let mut t = crate::common::topology(16);
    t.nodes.get_mut(&n).unwrap().leaf = "elsewhere".into();
    w.ok(Command::SetTopology { topology: Arc::new(t) });
    assert_eq!(of(&w, &n).breaker, None);
    assert!(of(&w, &node(1)).breaker.is_some());
    w.ok(force(Some(BreakerState::Closed)));
    assert!(w.engine.state().nodes.values().all(|n| n.breaker.is_none()));
}

/// Four unhealthy nodes of a leaf, two of which the leaf's breaker keeps work from.
fn unhealthy_leaf() -> (TestSite, Entity) {
    let mut w = able(32);
    for i in [8, 9, 12, 13] {
        xid79(&mut w, &node(i));
        w.pass(Span::secs(20));
    }
    let cause = w.engine.state().health.open_incidents().next().unwrap().cause.clone();
    assert!(matches!(cause, Entity::Domain(muster_model::topology::Level::Leaf, _)), "{cause}");
    assert_eq!(w.engine.state().health.breakers[&cause].state, BreakerState::Open);
    for n in [12, 13].map(node) {
        assert_eq!((of(&w, &n).stage, remediation(&w, &n)), (Stage::Ready, None), "left alone");
        assert!(of(&w, &n).breaker.is_some());
    }
    (w, cause)
}

#[test]
fn unhealthy_nodes_are_looked_after_when_the_breaker_before_them_closes() {
    let (mut w, cause) = unhealthy_leaf();
    let (state, reason) = (Some(BreakerState::Closed), "looked at".to_string());
    w.ok(Command::ForceBreaker { entity: cause, state, reason });
    for n in [12, 13].map(node) {
        assert_eq!(of(&w, &n).breaker, None);
        assert_eq!(stands(&w, &n), (Stage::Suspect, RemediationStep::Proposed));
    }
    let again = crate::common::replay(&w.log);
    assert_eq!(again.digest(), w.engine.state().digest());
}

#[test]
fn unhealthy_nodes_are_looked_after_when_a_wider_cause_may_not_be_shut() {
    let mut w = able(16);
    for i in 8..11 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(5));
    let open = |w: &TestSite| {
        let all = w.engine.state().health.breakers.values();
        all.filter(|b| b.state != BreakerState::Closed).count()
    };
    assert_eq!(
        (open(&w), remediation(&w, &node(8))),
        (1, None),
        "the rack's breaker deals with it"
    );
    let from = w.log.len();
    for i in [12, 13] {
        see(&mut w, "thermal", Entity::Node(node(i)), Severity::Degraded);
    }
    w.sleep(Span::secs(5));
    let all: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
    assert_eq!((all.len(), all[0].count, open(&w)), (1, 5, 0), "{all:#?}");
    for n in [8, 9, 10].map(node) {
        let chosen = |e: &Event| matches!(e, Event::RemediationChosen { remediation } if remediation.node == n);
        assert!(w.since(from).any(chosen), "{n} is remediated for itself");
    }
}

#[test]
fn findings_beyond_those_that_are_listed_count_once() {
    let mut w = able(32);
    let kinds = ["gpu-off-bus", "ecc-uncorrectable", "pcie-replay", "thermal", "nvlink-errors"];
    let at = w.now;
    let mut findings = Vec::new();
    for kind in kinds {
        for (i, gpu) in (0..8).flat_map(|i| (0..8).map(move |gpu| (i, gpu))) {
            let entity = Entity::Gpu(node(i), gpu);
            findings.push(ObservedFinding::new(kind, entity, Severity::Degraded, at));
        }
    }
    w.ok(Command::FindingsSeen { findings });
    w.pass(Span::secs(2));
    let count = |w: &TestSite| {
        let all: Vec<_> = w.engine.state().health.open_incidents().cloned().collect();
        assert_eq!(all.len(), 1, "{:?}", all.iter().map(|i| &i.summary).collect::<Vec<_>>());
        all[0].count
    };
    assert_eq!(count(&w), 320);
    see(&mut w, "thermal", Entity::Node(node(0)), Severity::Degraded);
    w.pass(Span::secs(2));
    assert_eq!(count(&w), 321);
}

#[test]
fn an_incident_of_which_nothing_is_left_but_what_a_wider_one_has_is_part_of_that() {
    let mut w = able(64);
    w.policy(|p| p.remediations.enabled = false);
    for i in [0, 8, 9] {
        let can = ["qualify", "reset", "reboot"].map(String::from).into();
        let versions = [("bios".to_string(), "2".to_string())].into();
        report_inventory(
            &mut w,
            i,
            "boot",
            Inventory { can, versions, ..inventory(8) },
            Vec::new(),
        );
    }
    let hot = |w: &mut TestSite, i| see(w, "thermal", Entity::Node(node(i)), Severity::Degraded);
    hot(&mut w, 0);
    w.pass(Span::mins(20));
    hot(&mut w, 8);
    hot(&mut w, 9);
    w.pass(Span::secs(2));
    let of_version = |w: &TestSite| {
        let mut all = w.engine.state().health.open_incidents();
        all.any(|i| matches!(i.cause, Entity::Version(..)))
    };
    assert!(of_version(&w));
    let mut over =
        ObservedFinding::new("thermal", Entity::Node(node(0)), Severity::Degraded, w.now);
    over.over = true;
    w.ok(Command::FindingsSeen { findings: vec![over] });
    w.pass(Span::mins(1));
    hot(&mut w, 10);
    hot(&mut w, 11);
    w.pass(Span::secs(2));
    let rack = |e: &Entity| matches!(e, Entity::Domain(muster_model::topology::Level::Rack, _));
    assert!(w.engine.state().health.open_incidents().any(|i| rack(&i.cause)));
    assert!(!of_version(&w), "nothing would ever close it");
    let book = &w.engine.state().health;
    let whole = book.open_incidents().find(|i| rack(&i.cause)).expect("the rack's");
    let parts = book.parts_of(whole.id);
    assert!(parts.iter().any(|i| matches!(i.cause, Entity::Version(..))), "{parts:?}");
}

#[test]
fn the_next_machine_of_a_retired_name_inherits_nothing() {
    let mut w = able(16);
    xid79(&mut w, &node(0));
    assert!(remediation(&w, &node(0)).is_some());
    w.ok(Command::Retire { node: node(0) });
    assert_eq!(remediation(&w, &node(0)), None);
    assert_eq!(w.engine.state().health.open_on(&node(0)).count(), 0);
}
