//! From what happens to what somebody is notified of: objectives, alerts, silences, and restarts.

mod late;
mod nodes;

use crate::common;

use common::{TestSite, crash, gang, node, replay};
use muster_engine::{Engine, Policy, State};
use muster_model::alert::{
    Alert, AlertChange, AlertState, Matcher, Routing, Silence, Topic, Urgency,
};
use muster_model::command::{Command, Observed, RefusalCode};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{Finding, ObservedFinding, Severity};
use muster_model::job::{SlotEnd, Verdict};
use muster_model::node::NodeRole;
use muster_model::remediation::{Action, Mode};
use muster_model::slo::{Cause, Gate, IndicatorCount, Objectives, Scope, Sli};
use muster_model::topology::{Level, Location, Topology};
use muster_model::units::Span;
use muster_slo::conditions;
use std::sync::Arc;

fn policy() -> Policy {
    Policy { objectives: true, ..Policy::default() }
}

/// A site whose leaves have 64 nodes, and that makes alerts.
fn site(nodes: usize) -> TestSite {
    let mut w = TestSite::new(nodes, 8);
    let place = |i: usize| Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: "s".into(),
        leaf: format!("l{}", i / 64),
        rack: format!("k{}", i / 8),
        nvlink: node(i).to_string(),
        feed: "A".into(),
        rails: Vec::new(),
    };
    let topology = Topology { nodes: (0..nodes).map(|i| (node(i), place(i))).collect() };
    w.ok(Command::SetTopology { topology: Arc::new(topology) });
    w.engine = Engine::new(w.engine.state().clone(), policy());
    w.pass(Span::secs(1));
    w
}

/// No objectives are set about nodes: an objective that is not met is an alert of its own.
fn unreserved(nodes: usize) -> TestSite {
    let mut w = site(nodes);
    let none = Objectives { defaults: 0, ..Objectives::default() };
    w.ok(Command::SetObjectives { objectives: Arc::new(none) });
    w
}

/// The server is killed: what is left is what a snapshot holds.
fn restart(w: &mut TestSite) {
    let bytes = w.engine.state().to_bytes().unwrap();
    let state = State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(state.digest(), w.engine.state().digest());
    w.engine = Engine::new(state, policy());
}

fn open(w: &TestSite) -> Vec<Alert> {
    w.engine.state().slo.open().cloned().collect()
}

fn routing(text: &str) -> Arc<Routing> {
    Arc::new(serde_json::from_slice(text.as_bytes()).unwrap())
}

fn reported(w: &TestSite) -> usize {
    w.log.iter().filter(|r| matches!(r.event, Event::AlertOpened { .. })).count()
}

/// Sends all that is owed now, as a server would; what was sent.
fn deliver(w: &mut TestSite) -> Vec<(String, String, AlertChange)> {
    let mut out = Vec::new();
    loop {
        let slo = &w.engine.state().slo;
        let Some(letter) = slo.desk.due(w.now, &slo.alerts, &slo.routing).into_iter().next() else {
            return out;
        };
        out.extend(letter.alerts.iter().map(|(id, n)| (letter.to.to_string(), id.clone(), *n)));
        w.ok(Command::AlertsNotified { receiver: letter.to, alerts: letter.alerts });
    }
}

const ONCALL: &str = r#"{"receivers":[{"name":"oncall","by":{"webhook":{"url":"http://x"}}},
    {"name":"boss","by":{"webhook":{"url":"http://y"}}}],
    "routes":[{"match":{"urgency":"page"},"to":["oncall"],
               "escalate":[{"after":"15m","to":["boss"]}]}]}"#;

#[test]
fn a_spare_that_cannot_step_in_is_not_left() {
    let mut w = unreserved(4);
    let id = w.run(gang(1, 8));
    let spare = w.nodes_of(id)[0].clone();
    let role = Some(NodeRole::Spare);
    w.ok(Command::MarkNode { node: spare.clone(), role, hazard: None });
    // What `muster health` counts, and whether the alert says that none is left.
    let seen = |w: &mut TestSite| {
        w.sleep(Span::secs(10));
        let all = w.engine.state().spares().into_values();
        let missed = open(w).iter().any(|a| a.kind == "no-spares" && a.gone_since.is_none());
        (all.map(|of| (of.ready, of.all)).collect::<Vec<_>>(), missed)
    };
    assert_eq!(seen(&mut w), (vec![(0, 1)], true), "a job runs there");
    w.finish(id);
    assert_eq!(seen(&mut w), (vec![(1, 1)], false));
    w.ok(Command::Cordon { node: spare.clone(), reason: "disk".into() });
    assert_eq!(seen(&mut w), (vec![(0, 1)], true), "no work may go there");
    w.ok(Command::Uncordon { node: spare });
    assert_eq!(seen(&mut w), (vec![(1, 1)], false));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_lost_leaf_is_one_page_that_names_its_nodes_and_its_runbook() {
    let mut w = unreserved(128);
    w.ok(Command::SetRouting { routing: routing(ONCALL) });
    for i in 64..128 {
        w.lose(&node(i));
        // Killed again and again while it happens.
        if i % 16 == 0 {
            restart(&mut w);
        }
    }
    w.sleep(Span::secs(40));
    let is_page = |a: &Alert| a.urgency == Urgency::Page && a.gone_since.is_none();
    let pages: Vec<Alert> = open(&w).into_iter().filter(is_page).collect();
    assert_eq!(pages.len(), 1, "{pages:#?}");
    let a = &pages[0];
    assert_eq!((a.topic, a.kind.as_str()), (Topic::Incident, "leaf-loss"));
    assert!(matches!(&a.cause, Entity::Domain(Level::Leaf, p) if p.ends_with("l1")), "{}", a.cause);
    assert_eq!(a.members.len(), 64);
    assert!(a.members.contains(&Entity::Node(node(100))));
    assert_eq!(a.runbook, "/runbooks/leaf-loss");
    assert!(a.link.starts_with("/incidents/"), "{}", a.link);
    // Reported once, however often the server starts anew.
    assert_eq!(deliver(&mut w).len(), 1);
    restart(&mut w);
    w.sleep(Span::mins(5));
    assert!(deliver(&mut w).is_empty());
    // Nobody answers: it is passed on, once.
    w.sleep(Span::mins(12));
    let passed = deliver(&mut w);
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!((passed[0].0.as_str(), passed[0].2), ("boss", AlertChange::Firing));
    assert_eq!(w.engine.state().slo.alerts[&a.id].level, 1);
    // Acknowledged: no reminders.
    w.ok(Command::AcknowledgeAlert { id: a.id.clone(), note: "on it".into() });
    assert_eq!(w.engine.state().slo.alerts[&a.id].state, AlertState::Acknowledged);
    w.sleep(Span::hours(6));
    assert!(deliver(&mut w).iter().all(|(_, id, _)| *id != a.id));
    // The switch is back: over, and both learn it.
    for i in 64..128 {
        w.connect(i, 8, "boot", Vec::new());
    }
    w.sleep(Span::mins(10));
    let over = deliver(&mut w);
    let mine: Vec<_> =
        over.iter().filter(|(_, id, n)| *id == a.id && *n == AlertChange::Over).collect();
    assert_eq!(mine.len(), 2, "{over:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn somebody_escalates_an_alert_before_its_time() {
    let mut w = unreserved(16);
    let escalate = |id: &str| Command::EscalateAlert { id: id.into(), reason: "alone".into() };
    assert_eq!(w.send(escalate("nope")).unwrap_err().code, RefusalCode::NotFound);
    w.ok(Command::SetRouting {
        routing: routing(&ONCALL.replace(r#""match":{"urgency":"page"},"#, "")),
    });
    w.lose(&node(1));
    w.sleep(Span::mins(2));
    let id = open(&w)[0].id.clone();
    assert_eq!(deliver(&mut w).len(), 1);
    let turned = Command::AcknowledgeAlert { id: id.clone(), note: "on\u{202e}it".into() };
    assert_eq!(w.send(turned).unwrap_err().field.as_deref(), Some("note"));
    w.ok(Command::AcknowledgeAlert { id: id.clone(), note: String::new() });
    w.ok(escalate(&id));
    let a = w.engine.state().slo.alerts[&id].clone();
    assert_eq!((a.level, a.state, a.acknowledged), (1, AlertState::Firing, None));
    let passed = deliver(&mut w);
    assert_eq!(passed.len(), 1, "{passed:?}");
    assert_eq!((passed[0].0.as_str(), passed[0].2), ("boss", AlertChange::Firing));
    // There is no further step.
    let refusal = w.send(escalate(&id)).unwrap_err();
    assert_eq!(refusal.code, RefusalCode::Conflict);
    assert!(refusal.message.contains("no further escalation step"), "{refusal:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_alert_about_a_node_is_over_when_the_node_is_back_and_its_end_is_reported_when_it_stays() {
    let mut w = unreserved(16);
    w.ok(Command::SetRouting {
        routing: routing(&ONCALL.replace(r#""match":{"urgency":"page"},"#, "")),
    });
    w.lose(&node(1));
    w.sleep(Span::mins(2));
    let all = open(&w);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!(deliver(&mut w).len(), 1);
    w.connect(1, 8, "boot", Vec::new());
    w.sleep(Span::secs(3));
    assert!(open(&w).is_empty(), "{:#?}", open(&w));
    assert!(deliver(&mut w).is_empty(), "it may come back");
    w.lose(&node(1));
    w.sleep(Span::secs(10));
    let again = open(&w);
    assert_eq!(again.len(), 1);
    assert_eq!(again[0].id, all[0].id, "the same alert");
    assert!(deliver(&mut w).is_empty(), "it was reported");
    w.connect(1, 8, "boot", Vec::new());
    w.sleep(Span::mins(3));
    let over = deliver(&mut w);
    assert_eq!(over, [("oncall".to_owned(), all[0].id.clone(), AlertChange::Over)]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_alert_that_was_over_long_ago_is_forgotten() {
    let mut w = unreserved(16);
    w.lose(&node(1));
    w.sleep(Span::mins(2));
    let id = open(&w)[0].id.clone();
    w.connect(1, 8, "boot", Vec::new());
    w.sleep(Span::mins(3));
    assert!(w.engine.state().slo.alerts[&id].resolved_at.is_some());
    let known = |w: &TestSite| w.engine.state().slo.alerts.contains_key(&id);
    w.pass(Span::hours(34 * 24));
    w.lose(&node(2));
    w.sleep(Span::secs(10));
    assert!(known(&w), "it is kept for 35 days");
    // Its time comes without another one that is over.
    w.pass(Span::hours(24));
    w.sleep(Span::secs(30));
    assert!(!known(&w));
    let gone = |e: &Event| matches!(e, Event::AlertsForgotten { ids } if ids.contains(&id));
    assert_eq!(w.log.iter().filter(|r| gone(&r.event)).count(), 1);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_incident_whose_critical_findings_are_over_is_a_page_until_it_is_acknowledged() {
    let mut w = unreserved(128);
    for i in 64..128 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(40));
    let id = w.engine.state().health.open_incidents().next().expect("an incident").id;
    let slow = Entity::Node(node(100));
    let seen = ObservedFinding::new("thermal", slow.clone(), Severity::Degraded, w.now);
    w.ok(Command::FindingsSeen { findings: vec![seen] });
    w.sleep(Span::secs(5));
    let f = w.engine.state().health.open_of(&slow, "thermal").expect("it is open");
    assert_eq!(f.incident, Some(id), "it stands where the others were lost");
    for i in 64..128 {
        w.connect(i, 8, "boot", Vec::new());
    }
    w.sleep(Span::secs(5));
    assert!(w.engine.state().health.incidents[&id].closed.is_none(), "one finding is open");
    let pages = |w: &TestSite| -> Vec<Alert> {
        open(w).into_iter().filter(|a| a.urgency == Urgency::Page).collect()
    };
    let unanswered = pages(&w);
    assert!(!unanswered.is_empty(), "nobody has answered it: {:#?}", open(&w));
    for a in unanswered {
        w.ok(Command::AcknowledgeAlert { id: a.id, note: String::new() });
    }
    w.sleep(Span::secs(5));
    assert!(pages(&w).is_empty(), "the rest is a ticket");
    assert!(!open(&w).is_empty());
}

#[test]
fn a_job_that_hangs_on_a_broken_gpu_is_part_of_the_alert_about_the_gpu() {
    let mut w = unreserved(16);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    let mut hang = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
    hang.attempt = Some(w.key(job));
    w.ok(Command::FindingsSeen { findings: vec![hang] });
    let mut f = common::fault("xid-79", 0);
    f.at = w.now;
    w.ok(Command::FaultsSeen { node: n.clone(), faults: vec![f] });
    w.sleep(Span::secs(3));
    let found: Vec<Alert> = open(&w).into_iter().filter(|a| a.topic == Topic::Finding).collect();
    assert_eq!(found.len(), 1, "{found:#?}");
    assert_eq!(found[0].cause, Entity::Gpu(n, 0));
    let affects = format!("affects job {job}");
    assert!(found[0].summary.ends_with(&affects), "{}", found[0].summary);
}

#[test]
fn an_alert_counts_the_jobs_and_gpus_that_one_gpu_stops() {
    let mut w = unreserved(16);
    let job = w.run(gang(4, 8));
    w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    let mut f = common::fault("xid-79", 0);
    f.at = w.now;
    w.ok(Command::FaultsSeen { node: n.clone(), faults: vec![f] });
    w.sleep(Span::secs(3));
    let of = |w: &TestSite| open(w).into_iter().find(|a| a.cause == Entity::Gpu(n.clone(), 0));
    let a = of(&w).expect("an alert about the GPU");
    assert_eq!((a.jobs, a.gpus), (1, 32), "{a:#?}");
    // The gang is stopped and leaves: it is affected until it runs elsewhere.
    w.report(job, &n, crash(0, 1));
    w.stopped(job);
    for _ in 0..3 {
        w.sleep(Span::mins(1));
    }
    let waits = w.job(job).attempt.is_none();
    let left = if waits { (1, 32) } else { (0, 0) };
    let after = of(&w).map(|a| (a.jobs, a.gpus));
    assert!(after.is_none_or(|counts| counts == left), "{after:?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_critical_finding_whose_remediation_was_denied_is_a_page() {
    let mut w = unreserved(16);
    let mut f = common::fault("xid-79", 0);
    f.at = w.now;
    w.ok(Command::FaultsSeen { node: node(1), faults: vec![f] });
    w.sleep(Span::secs(3));
    let of = |w: &TestSite| open(w).into_iter().find(|a| a.cause == Entity::Gpu(node(1), 0));
    assert_eq!(of(&w).map(|a| a.urgency), Some(Urgency::Ticket));
    let live = |w: &TestSite| {
        let health = &w.engine.state().health;
        health.live_remediations().find(|r| r.node == node(1)).map(|r| r.id)
    };
    let id = live(&w).expect("a remediation");
    w.ok(Command::DenyRemediation { id, reason: "vendor is coming".into() });
    w.sleep(Span::secs(3));
    assert_eq!(of(&w).map(|a| a.urgency), Some(Urgency::Page), "{:#?}", open(&w));
}

#[test]
fn jobs_that_have_ended_are_not_affected_any_more() {
    let mut w = unreserved(16);
    let job = w.run(gang(1, 8));
    let n = w.nodes_of(job)[0].clone();
    let drift = |w: &TestSite| {
        let on = Entity::Node(n.clone());
        ObservedFinding::new("config-drift", on, Severity::Warning, w.now)
    };
    w.ok(Command::FindingsSeen { findings: vec![drift(&w)] });
    w.sleep(Span::secs(3));
    let of = |w: &TestSite| open(w).into_iter().find(|a| a.topic == Topic::Drift);
    assert_eq!(of(&w).map(|a| (a.jobs, a.gpus)), Some((1, 8)));
    w.ok(Command::Cancel { job });
    w.stopped(job);
    // Seen again on the empty node: the alert is looked at anew.
    w.sleep(Span::mins(1));
    w.ok(Command::FindingsSeen { findings: vec![drift(&w)] });
    w.sleep(Span::secs(3));
    assert!(of(&w).is_none_or(|a| (a.jobs, a.gpus) == (0, 0)), "{:?}", of(&w));
    // What begins there later knows the node as it is.
    for _ in 0..16 {
        w.run(gang(1, 8));
    }
    assert!(w.engine.state().attempts_on(&n).next().is_some());
    let s = w.engine.state();
    let found: Vec<&Finding> = s.health.open().map(|f| &**f).collect();
    assert!(s.affected_by(found, []).is_empty());
}

#[test]
fn an_attempt_that_a_node_ended_is_known_after_its_job_has_resumed() {
    let mut w = unreserved(16);
    let job = w.run(gang(1, 8));
    let (first, n) = (w.key(job), w.nodes_of(job)[0].clone());
    w.lose(&n);
    assert_ne!(w.key(job), first, "it was placed elsewhere");
    w.start(job);
    w.sleep(Span::mins(2));
    let s = w.engine.state();
    let found: Vec<&Finding> = s.health.open().map(|f| &**f).collect();
    assert!(s.affected_by(found.iter().copied(), []).is_empty(), "it runs again");
    assert_eq!(s.ended_by(found, []).into_iter().collect::<Vec<_>>(), [first]);
}

#[test]
fn an_attempt_is_ended_by_what_its_verdict_rests_on_and_not_by_an_agent_that_started_anew() {
    let mut w = unreserved(16);
    w.policy(|p| {
        for act in [Action::RestartJob, Action::Drain] {
            p.remediations.modes.insert(act, Mode::DetectOnly);
        }
    });
    let (failed, restarted) = (w.run(gang(1, 8)), w.run(gang(1, 8)));
    let (key, n) = (w.key(failed), w.nodes_of(failed)[0].clone());
    let other = w.nodes_of(restarted)[0].clone();
    let hot =
        ObservedFinding::new("thermal", Entity::Node(other.clone()), Severity::Warning, w.now);
    w.ok(Command::FindingsSeen { findings: vec![hot] });
    w.sleep(Span::secs(10));
    w.report(restarted, &other, Observed::Ended(SlotEnd::agent_anew()));
    w.report(failed, &n, crash(0, 3));
    w.sleep(Span::secs(60));
    assert_eq!(w.job(failed).past[0].verdict, Verdict::Application);
    let gpu = Entity::Gpu(n, 0);
    let broken = ObservedFinding::new("ecc-uncorrectable", gpu, Severity::Critical, w.now);
    w.ok(Command::FindingsSeen { findings: vec![broken] });
    w.sleep(Span::secs(2));
    assert_eq!(w.job(failed).past[0].verdict, Verdict::Infrastructure, "found out afterwards");
    let s = w.engine.state();
    let found: Vec<&Finding> = s.health.open().map(|f| &**f).collect();
    assert_eq!(s.ended_by(found, []).into_iter().collect::<Vec<_>>(), [key]);
}

#[test]
fn what_a_program_did_affects_no_job_beside_it() {
    let mut w = unreserved(16);
    let (mine, beside) = (w.run(gang(1, 4)), w.run(gang(1, 4)));
    let n = w.nodes_of(mine)[0].clone();
    let mut seen =
        ObservedFinding::new("app-fault", Entity::Node(n.clone()), Severity::Info, w.now);
    seen.attempt = Some(w.key(mine));
    w.ok(Command::FindingsSeen { findings: vec![seen] });
    let broken = ObservedFinding::new("thermal", Entity::Node(n), Severity::Degraded, w.now);
    w.ok(Command::FindingsSeen { findings: vec![broken] });
    let s = w.engine.state();
    let of = |kind: &str| {
        let found: Vec<&Finding> =
            s.health.open().map(|f| &**f).filter(|f| f.seen.kind == kind).collect();
        assert_eq!(found.len(), 1, "{kind}");
        s.affected_by(found, []).into_keys().collect::<Vec<_>>()
    };
    assert_eq!(of("app-fault"), [mine]);
    // Where both share a node, a hot one affects both.
    let shared = w.nodes_of(mine) == w.nodes_of(beside);
    assert_eq!(of("thermal"), if shared { vec![mine, beside] } else { vec![mine] });
}

#[test]
fn the_alert_of_an_incident_counts_the_jobs_that_it_hit_although_they_are_gone() {
    let mut w = TestSite::new(32, 8);
    w.engine = Engine::new(w.engine.state().clone(), policy());
    let none = Objectives { defaults: 0, ..Objectives::default() };
    w.ok(Command::SetObjectives { objectives: Arc::new(none) });
    for _ in 0..32 {
        w.run(gang(1, 8));
    }
    // One job after the other loses its node and waits: no two of them at a time.
    for i in 8..16 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(40));
    let all = open(&w);
    let a = all.iter().find(|a| a.topic == Topic::Incident).expect("an alert of the incident");
    assert_eq!((a.jobs, a.gpus), (8, 64), "{a:#?}");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_silence_keeps_its_alerts_quiet_and_what_lasts_longer_is_reported_at_its_end() {
    let mut w = unreserved(16);
    w.ok(Command::SetRouting { routing: routing(ONCALL) });
    let silence = Silence {
        name: "fans".parse().unwrap(),
        matcher: Matcher { under: Some("rack:r/c/s/l0/k0".into()), ..Matcher::default() },
        start: w.now,
        length: Span::hours(1),
        every: None,
        by: String::new(),
        why: "fans are replaced".into(),
    };
    w.ok(Command::SetSilence { silence: Box::new(silence.clone()) });
    let wrong = Silence { matcher: Matcher::default(), ..silence.clone() };
    assert!(w.send(Command::SetSilence { silence: Box::new(wrong) }).is_err(), "all of it");
    w.lose(&node(1));
    w.sleep(Span::mins(5));
    let all = open(&w);
    assert!(!all.is_empty() && all.iter().all(|a| a.silenced.is_some()), "{all:#?}");
    assert!(deliver(&mut w).is_empty());
    restart(&mut w);
    w.sleep(Span::mins(56));
    assert!(w.engine.state().slo.silences.is_empty(), "its time is up");
    let pages = open(&w).iter().filter(|a| a.urgency == Urgency::Page).count();
    assert_eq!(deliver(&mut w).len(), pages, "what lasts longer is reported");
    let n = w.log.len();
    w.ok(Command::EndSilence { name: silence.name });
    assert_eq!(w.log.len(), n, "it is over already");
    let e = w.send(Command::EndSilence { name: "fons".parse().unwrap() }).unwrap_err();
    assert_eq!(e.code, RefusalCode::NotFound);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn what_a_silence_is_under_is_named_in_full_and_must_be_there() {
    let mut w = unreserved(16);
    let set = |w: &mut TestSite, under: &str| {
        let silence = Silence {
            name: "fans".parse().unwrap(),
            matcher: Matcher { under: Some(under.into()), ..Matcher::default() },
            start: w.now,
            length: Span::hours(1),
            every: None,
            by: String::new(),
            why: String::new(),
        };
        w.send(Command::SetSilence { silence: Box::new(silence) })
    };
    let kept = |w: &TestSite| {
        let all = &w.engine.state().slo.silences;
        all.values().next().and_then(|s| s.matcher.under.clone())
    };
    for wrong in ["rack:k99", "node:n9999", "leaf", "feed:nowhere", "pool:nowhere", "sku:h999"] {
        let no = set(&mut w, wrong).expect_err(wrong);
        assert_eq!(no.field.as_deref(), Some("match.under"), "{no:?}");
        assert_eq!(kept(&w), None, "{wrong}");
    }
    for (given, whole) in [
        ("rack:k0", "rack:r/c/s/l0/k0"),
        ("rack:l0/k0", "rack:r/c/s/l0/k0"),
        ("rack:r/c/s/l0/k0", "rack:r/c/s/l0/k0"),
        ("rack:*/k0", "rack:*/k0"),
    ] {
        assert!(set(&mut w, given).is_ok(), "{given}");
        assert_eq!(kept(&w).as_deref(), Some(whole));
    }
}

#[test]
fn nodes_that_are_protected_are_a_page_until_they_are_reconciled() {
    let mut w = unreserved(4);
    let has = w.engine.state().nodes[&node(1)].inventory.clone();
    w.ok(common::said_ahead(common::connected(1, "boot", has, Vec::new()), true));
    w.sleep(Span::mins(5));
    let all = open(&w);
    let page = all.iter().find(|a| a.kind == "nodes-protected").expect("an alert");
    assert_eq!(page.urgency, Urgency::Page);
    assert!(page.summary.contains("muster node reconcile"), "{}", page.summary);
    w.ok(Command::Reconcile { node: node(1) });
    w.sleep(Span::mins(5));
    assert!(open(&w).iter().all(|a| a.kind != "nodes-protected"), "{:#?}", open(&w));
}

#[test]
fn automation_that_stopped_itself_is_one_page() {
    let mut w = unreserved(64);
    // Spread over the racks, so that none of them explains it.
    for i in 0..32 {
        let n = node(i % 8 * 8 + i / 8);
        let hot = ObservedFinding::new("thermal", Entity::Node(n), Severity::Critical, w.now);
        w.ok(Command::FindingsSeen { findings: vec![hot] });
        w.pass(Span::secs(1));
    }
    assert!(w.engine.state().health.automation.stopped.is_some());
    w.sleep(Span::mins(5));
    let kinds: Vec<String> = open(&w).into_iter().map(|a| a.kind).collect();
    assert!(kinds.iter().any(|k| k == "automation-stopped"), "{kinds:?}");
    assert!(kinds.iter().all(|k| k != "detector-storm"), "{kinds:?}");
}

fn errors(w: &mut TestSite, good: u64, total: u64) {
    let (sli, scope) = (Sli::ApiAvailability, Scope::default());
    let c = IndicatorCount { sli, scope, good, total, cause: None, at: None };
    w.ok(Command::ReportCounts { counts: vec![c] });
}

#[test]
fn a_budget_that_burns_pages_once_and_is_over_when_it_does_not() {
    let mut w = site(2);
    for _ in 0..10 {
        errors(&mut w, 1000, 1000);
        w.sleep(Span::mins(1));
    }
    assert!(open(&w).is_empty(), "{:#?}", open(&w));
    for _ in 0..10 {
        errors(&mut w, 900, 1000);
        w.sleep(Span::mins(1));
    }
    let all = open(&w);
    assert_eq!(all.len(), 1, "{all:#?}");
    assert_eq!((all[0].topic, all[0].kind.as_str()), (Topic::Objective, "api-availability"));
    assert_eq!((all[0].urgency, all[0].owner.as_str()), (Urgency::Page, "control-plane"));
    assert_eq!(all[0].link, "/slos/api-availability");
    let raised = reported(&w);
    let now = w.now;
    let standings = w.engine.state().objective_statuses(now);
    let api = standings.iter().find(|s| s.objective.name.as_str() == "api-availability").unwrap();
    assert!(!api.status.firing.is_empty());
    // Ten bad minutes are not the budget of four weeks, however young the site is.
    assert!(!api.status.is_exhausted(), "{:?}", api.status);
    restart(&mut w);
    // Nothing fails any more: it is over, and leaves no ticket about a budget that is there.
    for _ in 0..90 {
        errors(&mut w, 1000, 1000);
        w.sleep(Span::mins(1));
    }
    assert!(open(&w).is_empty(), "{:#?}", open(&w));
    assert_eq!(reported(&w), raised, "one alert from beginning to end");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn an_objective_burns_from_the_moment_of_its_alert_on() {
    let mut w = site(2);
    for _ in 0..10 {
        errors(&mut w, 1000, 1000);
        w.sleep(Span::mins(1));
    }
    let mut seen = Vec::new();
    for _ in 0..12 {
        errors(&mut w, 100, 1000);
        w.sleep(Span::secs(10));
        let all = w.engine.state().objective_statuses(w.now);
        let api = all.iter().find(|s| s.objective.name.as_str() == "api-availability").unwrap();
        let raised = open(&w).iter().any(|a| a.kind == "api-availability");
        assert_eq!(!api.status.firing.is_empty(), raised, "{:?}", api.status);
        seen.push(raised);
    }
    assert_eq!((seen[0], seen[11]), (false, true), "{seen:?}");
}

#[test]
fn a_site_of_seconds_with_one_failed_job_alerts_nobody() {
    let mut w = site(2);
    let job = w.run(gang(1, 8));
    w.sleep(Span::secs(10));
    let n = w.nodes_of(job)[0].clone();
    w.report(job, &n, crash(0, 7));
    // When it is 16 seconds old, when the first minutes are full, and a day later.
    for pause in [Span::secs(6), Span::mins(8), Span::hours(24)] {
        w.sleep(pause);
        let slos: Vec<Alert> =
            open(&w).into_iter().filter(|a| a.topic == Topic::Objective).collect();
        assert!(slos.is_empty(), "{slos:#?}");
    }
    assert!(w.job(job).ended_at.is_some());
}

#[test]
fn what_burnt_before_a_page_about_hardware_is_reported_by_itself_to_its_end() {
    let mut w = unreserved(2);
    let api = r#"{"name":"api","sli":"api_availability","target":"99.9%"}"#;
    let api = Arc::new(serde_json::from_slice(api.as_bytes()).unwrap());
    w.ok(Command::SetObjective { objective: api });
    let burns = IndicatorCount {
        sli: Sli::ApiAvailability,
        scope: Scope::default(),
        good: 900,
        total: 1000,
        cause: Some(Cause::Hardware),
        at: None,
    };
    for _ in 0..20 {
        w.ok(Command::ReportCounts { counts: vec![burns.clone()] });
        w.sleep(Span::mins(1));
    }
    let api = |w: &TestSite| open(w).into_iter().find(|a| a.kind == "api");
    let words = api(&w).unwrap().summary;
    let gpu = Entity::Gpu(node(1), 3);
    let hang = ObservedFinding::new("driver-hang", gpu, Severity::Critical, w.now);
    w.ok(Command::FindingsSeen { findings: vec![hang] });
    // It burns more slowly: other words, and no younger than it was.
    for _ in 0..40 {
        errors(&mut w, 996, 1000);
        w.sleep(Span::mins(1));
    }
    assert_ne!(api(&w).expect("it is no part of the page").summary, words);
}

#[test]
fn objectives_are_set_replaced_and_given_up() {
    let mut w = site(1);
    let names = |w: &TestSite| -> Vec<String> {
        w.engine.state().slo.in_force().iter().map(|o| o.name.to_string()).collect()
    };
    assert_eq!(names(&w).len(), 16);
    assert!(!w.engine.state().slo.is_stated());
    let mine = r#"{"name":"mine","sli":"node_availability","target":"99%"}"#;
    let mine = Arc::new(serde_json::from_slice(mine.as_bytes()).unwrap());
    w.ok(Command::SetObjective { objective: mine });
    assert!(names(&w).contains(&"mine".to_owned()) && w.engine.state().slo.is_stated());
    w.ok(Command::DeleteObjective { name: "goodput".parse().unwrap() });
    w.ok(Command::DeleteObjective { name: "mine".parse().unwrap() });
    assert_eq!(names(&w).len(), 15);
    let gone = w.send(Command::DeleteObjective { name: "mine".parse().unwrap() }).unwrap_err();
    assert!(gone.hint.unwrap().contains("muster slo"));
    let wrong = Objectives { defaults: 99, ..Objectives::default() };
    let before = w.engine.state().digest();
    assert!(w.send(Command::SetObjectives { objectives: Arc::new(wrong) }).is_err());
    assert_eq!(w.engine.state().digest(), before, "a refusal changes nothing");
    let none = Objectives { defaults: 0, ..Objectives::default() };
    w.ok(Command::SetObjectives { objectives: Arc::new(none) });
    assert!(names(&w).is_empty());
    restart(&mut w);
    assert!(names(&w).is_empty());
}

#[test]
fn an_exhausted_budget_stops_automation_only_where_the_site_set_it() {
    let gated = |stated: bool| {
        let mut w = site(20);
        if stated {
            let text = r#"{"defaults":0,"objectives":[{"name":"nodes","sli":"node_availability",
                "target":"99%","window":"6h","gates":["automation"]}]}"#;
            let all: Objectives = serde_json::from_slice(text.as_bytes()).unwrap();
            assert!(all.objectives[0].gates.contains(&Gate::Automation));
            w.ok(Command::SetObjectives { objectives: Arc::new(all) });
        }
        w.ok(Command::Cordon { node: node(0), reason: "x".into() });
        w.sleep(Span::mins(30));
        let early = w.engine.state().objective_statuses(w.now);
        assert!(early.iter().all(|s| !s.status.is_exhausted()), "half an hour is no window");
        w.sleep(Span::hours(6));
        let mut f = common::fault("xid-79", 0);
        f.at = w.now;
        w.ok(Command::FaultsSeen { node: node(5), faults: vec![f] });
        w.sleep(Span::secs(5));
        let health = &w.engine.state().health;
        let r = health.live_remediations().find(|r| r.node == node(5)).cloned();
        r.map(|r| r.why.clone()).unwrap_or_default()
    };
    assert!(gated(true).contains("the error budget of nodes is exhausted"), "{}", gated(true));
    assert!(!gated(false).contains("budget"));
}

#[test]
fn what_older_servers_heard_from_outside_lasts_until_it_is_over() {
    let mut w = site(1);
    let c = conditions::cannot_write("disk full", w.now);
    let until = Some(w.now + Span::mins(10));
    w.wrote(Event::ConditionReported { condition: Box::new(c.clone()), until }, policy());
    w.sleep(Span::secs(2));
    assert_eq!(open(&w).len(), 1);
    w.wrote(Event::ConditionOver { key: c.key.clone() }, policy());
    w.sleep(Span::mins(4));
    assert!(open(&w).is_empty());
    // One that nobody takes back ends by itself.
    let until = Some(w.now + Span::mins(1));
    w.wrote(Event::ConditionReported { condition: Box::new(c), until }, policy());
    w.sleep(Span::mins(5));
    assert!(open(&w).is_empty());
    // A certificate: nothing for weeks, then a ticket, then a page.
    let ends = w.now + Span::hours(30 * 24);
    w.ok(Command::CertificateSeen { entity: Entity::Site, ends });
    w.pass(Span::hours(8 * 24));
    assert!(open(&w).is_empty());
    w.pass(Span::hours(2 * 24));
    assert_eq!(open(&w)[0].urgency, Urgency::Ticket);
    w.pass(Span::hours(19 * 24));
    assert_eq!(open(&w)[0].urgency, Urgency::Page);
}

/// Random lives with restarts at random moments: the same alerts, the same state.
#[test]
fn restarts_at_any_moment_change_nothing() {
    for seed in 0..6u64 {
        let mut x = seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1;
        let mut dice = move |n: u64| {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            x % n
        };
        let mut w = site(24);
        w.ok(Command::SetRouting { routing: routing(ONCALL) });
        for _ in 0..60 {
            match dice(8) {
                0 => w.lose(&node(dice(24) as usize)),
                1 => w.connect(dice(24) as usize, 8, "boot", Vec::new()),
                2 => errors(&mut w, dice(100), 100),
                3 => {
                    let job = w.submit(gang(1, 8));
                    if w.job(job).attempt.is_some() {
                        w.start(job);
                        let n = w.nodes_of(job)[0].clone();
                        w.report(job, &n, crash(0, 1));
                    }
                }
                4 => restart(&mut w),
                5 => drop(deliver(&mut w)),
                _ => {}
            }
            w.sleep(Span::secs(dice(400)));
            let groups: Vec<String> = open(&w).into_iter().map(|a| a.group).collect();
            let mut once = groups.clone();
            once.dedup();
            assert_eq!(groups.len(), once.len(), "one open alert of a group");
        }
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest(), "seed {seed}");
    }
}
