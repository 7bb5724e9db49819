//! What the agent of a node may say, and whose name a node is.

use crate::common;
use crate::health::{able, acts, remediation, xid79};

use common::{TestSite, fault, node};
use muster_engine::{AllocationBlocker, Engine, NOT_CONNECTED, Policy};
use muster_health::faults::Catalogue;
use muster_model::command::{Actor, Answer, Command, Observed, Refusal, RefusalCode, Request};
use muster_model::event::Event;
use muster_model::fault::{FaultAction, FaultClass, ObservedFault};
use muster_model::finding::Severity;
use muster_model::ids::{AttemptKey, Epoch, JobId};
use muster_model::job::{JobState, SlotEnd};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::Span;
use std::sync::Arc;

fn say(w: &mut TestSite, i: usize, command: Command) -> Result<Answer, Refusal> {
    let (actor, at) = (Actor::agent(&node(i)), w.now);
    w.request(&Request { actor, at, key: None, if_version: None, command })
}

#[test]
fn an_agent_says_what_it_sees_of_itself_and_nothing_else() {
    let mut w = TestSite::new(3, 8);
    let job = w.gang(1, 8);
    w.start(job);
    let here = common::number(&w.nodes_of(job)[0]);
    let other = (here + 1) % 3;
    let key = AttemptKey { job, attempt: 1 };
    let done = || Command::CheckpointDone {
        key,
        step: Some(7),
        path: None,
        bytes: None,
        blocked_ms: None,
    };
    let own = |i: usize| {
        [
            Command::FaultsSeen { node: node(i), faults: vec![fault("xid-31", 0)] },
            Command::SlotReport { node: node(i), key, observed: Observed::Running, ago: None },
            Command::IdleReport { node: node(i), key, since: None },
        ]
    };
    for command in own(here).into_iter().chain([done()]) {
        say(&mut w, here, command).unwrap();
    }
    assert_eq!(w.job(job).checkpoint.as_ref().and_then(|c| c.step), Some(7));
    let before = w.log.len();
    let usage = TokenUse::Api { role: Role::Admin, project: None };
    let wants = [
        Command::Cancel { job },
        Command::Cordon { node: node(other), reason: "x".into() },
        Command::Uncordon { node: node(here) },
        Command::Reconcile { node: node(here) },
        Command::AgentConnection { node: node(here), connected: true },
        Command::NodeLost { node: node(here), last_seen: w.now },
        Command::NoteNodeKey { node: node(here), key: "k".into() },
        Command::ReadmitNode { node: node(here), machine: "m".into(), key: "k".into() },
        Command::FindingsSeen { findings: Vec::new() },
        Command::ActDone { id: 1, ok: true, message: String::new() },
        Command::CreateToken {
            id: "x".into(),
            name: "x".parse().unwrap(),
            hash: String::new(),
            usage,
            ttl: None,
        },
    ];
    for command in wants.into_iter().chain(own(other)) {
        let no = say(&mut w, here, command).unwrap_err();
        assert_eq!(no.code, RefusalCode::NotAllowed, "{no:?}");
    }
    let no = say(&mut w, other, done()).unwrap_err();
    assert_eq!(no.code, RefusalCode::NotAllowed, "of a job that does not run there: {no:?}");
    assert_eq!(w.log.len(), before, "a refusal leaves no trace");
}

#[test]
fn new_work_avoids_a_node_whose_agent_is_not_connected() {
    let mut w = TestSite::new(2, 8);
    let before = w.log.len();
    w.ok(Command::AgentConnection { node: node(0), connected: false });
    assert_eq!(w.log.len(), before, "nothing is written for it");
    let blocker = |w: &TestSite| {
        let state = w.engine.state();
        state.allocation_blocker(&state.nodes[&node(0)])
    };
    let why = AllocationBlocker::IfOthersFit(NOT_CONNECTED.into());
    assert_eq!(blocker(&w), Some(why.clone()));
    // By itself, small work goes to the first of two equal nodes.
    let first = w.gang(1, 8);
    assert_eq!(w.nodes_of(first), [node(1)]);
    w.ok(Command::Cordon { node: node(0), reason: "look".into() });
    w.ok(Command::Uncordon { node: node(0) });
    assert_eq!(blocker(&w), Some(why), "whatever is written about the node");
    // No other node fits: it may be back in a moment.
    let second = w.gang(1, 8);
    assert_eq!(w.nodes_of(second), [node(0)]);
    w.connect(0, 8, "boot", vec![(w.key(second), Observed::Running)]);
    assert_eq!(blocker(&w), None);
    w.finish(second);
    let third = w.gang(1, 8);
    assert_eq!(w.nodes_of(third), [node(0)]);
}

#[test]
fn a_lost_append_does_not_forget_whose_agent_is_not_connected() {
    let mut w = TestSite::new(2, 8);
    w.ok(Command::AgentConnection { node: node(0), connected: false });
    let state = common::replay(&w.log).with_connections_of(w.engine.state());
    w.engine = w.engine.reloaded(state);
    let job = w.gang(1, 8);
    assert_eq!(w.nodes_of(job), [node(1)]);
}

#[test]
fn an_agent_ends_only_the_acts_that_are_its_own_to_do() {
    let mut w = able(16);
    for i in [1, 9] {
        xid79(&mut w, &node(i));
    }
    let open = |w: &TestSite, i: usize, what: &str| {
        acts(w, &node(i)).into_iter().find(|(_, word)| *word == what).map(|(id, _)| id)
    };
    let ended = |id: u64| Command::ActDone { id, ok: true, message: "done".into() };
    let ticket = open(&w, 1, "ticket").expect("people are asked for the reboot");
    let no = say(&mut w, 1, ended(ticket)).unwrap_err();
    assert_eq!(no.code, RefusalCode::NotAllowed, "{no:?}");
    assert_eq!(open(&w, 1, "ticket"), Some(ticket), "it is still written");
    for i in [1, 9] {
        let id = remediation(&w, &node(i)).unwrap().id;
        w.ok(Command::ApproveRemediation { id });
    }
    let of_other = open(&w, 9, "reboot").expect("a reboot");
    let no = say(&mut w, 1, ended(of_other)).unwrap_err();
    assert_eq!(no.code, RefusalCode::NotAllowed, "{no:?}");
    let own = open(&w, 1, "reboot").expect("a reboot");
    say(&mut w, 1, ended(own)).unwrap();
    assert_eq!(open(&w, 1, "reboot"), None);
}

#[test]
fn a_node_says_nothing_about_attempts_that_were_never_there() {
    let mut w = TestSite::new(2, 8);
    let job = w.gang(1, 8);
    w.start(job);
    let other = 1 - common::number(&w.nodes_of(job)[0]);
    let keys = [0, 1, 2].map(|attempt| AttemptKey { job, attempt });
    let orphans = |w: &TestSite| w.engine.state().nodes[&node(other)].orphans.clone();
    let before = w.log.len();
    w.connect(other, 8, "boot", keys.map(|key| (key, Observed::Running)).to_vec());
    assert!(orphans(&w).is_empty());
    for key in keys {
        let observed = Observed::Ended(SlotEnd::Stopped);
        let report = Command::SlotReport { node: node(other), key, observed, ago: None };
        say(&mut w, other, report).unwrap();
    }
    let about = |e: &Event| matches!(e, Event::NodeBack { .. } | Event::OrphanGone { .. });
    assert!(!w.since(before).any(about));
    assert_eq!(w.job(job).state, JobState::Running);
    // Of a job that the log does not know, the node may be right.
    let unknown = AttemptKey { job: JobId(77), attempt: 1 };
    w.connect(other, 8, "boot", vec![(unknown, Observed::Running)]);
    assert!(orphans(&w).contains(&unknown));
}

fn enroll(w: &mut TestSite, machine: &str, key: Option<&str>) -> Result<Answer, Refusal> {
    let (node, token) = (node(0), "t".to_owned());
    let command =
        Command::Enroll { node, machine: machine.into(), token, key: key.map(str::to_owned) };
    say(w, 0, command)
}

#[test]
fn a_name_belongs_to_the_key_that_it_was_enrolled_with() {
    let mut w = TestSite::new(1, 8);
    // Let in before keys were noted: the first certificate it shows counts.
    w.ok(Command::NoteNodeKey { node: node(0), key: "k1".into() });
    w.ok(Command::NoteNodeKey { node: node(0), key: "k2".into() });
    let noted = |w: &TestSite| w.engine.state().nodes[&node(0)].enrolment.clone();
    assert_eq!(noted(&w).as_deref(), Some("k1"));
    assert_eq!(w.engine.state().nodes[&node(0)].stage, Stage::Ready, "it keeps its life");
    for (machine, key) in [("m0", Some("k2")), ("m0", None), ("m1", Some("k1"))] {
        let no = enroll(&mut w, machine, key).unwrap_err();
        assert_eq!(no.code, RefusalCode::Conflict);
        assert!(no.hint.is_some_and(|h| h.contains("node retire n000")));
    }
    enroll(&mut w, "m0", Some("k1")).unwrap();
    w.ok(Command::Drain { node: node(0), reason: "old".into(), stop: true });
    w.ok(Command::Retire { node: node(0) });
    enroll(&mut w, "m9", Some("k9")).unwrap();
    assert_eq!(noted(&w).as_deref(), Some("k9"));
    // Nobody has been heard under it yet: the answer to its join may have been lost.
    enroll(&mut w, "m9", Some("k10")).unwrap();
    assert_eq!(noted(&w).as_deref(), Some("k10"));
    assert_eq!(common::replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_name_that_differs_from_a_nodes_in_capital_letters_alone_is_refused() {
    let mut w = TestSite::new(2, 8);
    let join = |w: &mut TestSite, name: &str| {
        let (node, machine, key) = (name.parse().unwrap(), format!("m-{name}"), "k".to_owned());
        let token = "t".to_owned();
        w.send(Command::Enroll { node, machine, token, key: Some(key) })
    };
    let before = w.log.len();
    let no = join(&mut w, "N001").unwrap_err();
    assert_eq!(no.code, RefusalCode::Conflict);
    assert!(no.message.contains("N001") && no.message.contains("n001"), "{no:?}");
    assert!(no.hint.is_some_and(|h| h.contains("node retire n001")));
    assert_eq!(w.log.len(), before, "a refusal leaves no trace");
    for other in ["N00", "N0011", "m001", "Rack-A.1"] {
        join(&mut w, other).unwrap();
    }
    assert!(join(&mut w, "rack-a.1").is_err() && join(&mut w, "RACK-a.1").is_err());
    // The name of a retired node is free, and its own cannot come back beside the new one.
    w.ok(Command::Drain { node: node(1), reason: "old".into(), stop: true });
    w.ok(Command::Retire { node: node(1) });
    join(&mut w, "N001").unwrap();
    assert!(join(&mut w, "n001").unwrap_err().message.contains("N001"));
    assert_eq!(common::replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_operators_verdicts_count_whatever_the_agent_was_started_with() {
    let text = "[[fault]]\ncode = \"xid-63\"\naction = \"watch\"\n\n\
                [[fault]]\ncode = \"xid-94\"\nsku = \"h100-sxm\"\naction = \"inspect\"\n";
    let reported = |code: &str, action: FaultAction| ObservedFault {
        class: FaultClass::Memory,
        action,
        ..fault(code, 3)
    };
    let judged = |catalogue: Option<Arc<Catalogue>>, f: ObservedFault| {
        let mut w = TestSite::new(1, 8);
        let state = w.engine.state().clone();
        w.engine = Engine::new(state, Policy { faults: catalogue, ..Policy::default() });
        let n = w.log.len();
        say(&mut w, 0, Command::FaultsSeen { node: node(0), faults: vec![f] }).unwrap();
        let action = w.since(n).find_map(|e| match e {
            Event::FaultSeen { fault, .. } => Some(fault.action),
            _ => None,
        });
        let severity = w.since(n).find_map(|e| match e {
            Event::FindingOpened { finding, .. } => Some(finding.seen.severity),
            _ => None,
        });
        (action.unwrap(), severity)
    };
    let site = || Some(Arc::new(Catalogue::builtin().with_overrides(text).unwrap()));
    let row = || reported("xid-63", FaultAction::ResetWhenIdle);
    assert_eq!(judged(None, row()), (FaultAction::ResetWhenIdle, Some(Severity::Warning)));
    let (action, severity) = judged(site(), row());
    assert_eq!(action, FaultAction::Watch);
    assert!(severity.is_none_or(|s| s <= Severity::Warning));
    // What the node concluded from repeats stays.
    assert_eq!(judged(site(), reported("xid-63", FaultAction::Inspect)).0, FaultAction::Inspect);
    // One for a SKU alone; how bad it is follows from the site's verdict, too.
    let contained = || reported("xid-94", FaultAction::RestartJob);
    assert_eq!(judged(None, contained()), (FaultAction::RestartJob, Some(Severity::Degraded)));
    let (action, severity) = judged(site(), contained());
    assert_eq!(action, FaultAction::Inspect);
    assert_eq!(severity, Some(Severity::Critical), "as bad as its failure mode is");
}

#[test]
fn the_name_of_a_place_that_nobody_stated_is_no_place() {
    let mut w = TestSite::new(1, 8);
    let place = |w: &TestSite, spine: &str, leaf: &str| {
        let mut t = (*w.engine.state().topology).clone();
        let at = t.nodes.get_mut(&node(0)).unwrap();
        (at.spine, at.leaf) = (spine.into(), leaf.into());
        Command::SetTopology { topology: Arc::new(t) }
    };
    let both = place(&w, "unplaced", "unplaced");
    let no = w.send(both).unwrap_err();
    assert_eq!((no.code, no.field.as_deref()), (RefusalCode::Invalid, Some("nodes")));
    let one = place(&w, "unplaced", "l1");
    w.ok(one);
    assert!(w.engine.state().nodes[&node(0)].location.is_placed());
}

#[test]
fn what_a_restored_log_did_not_place_on_a_node_is_of_a_lost_life() {
    let mut w = TestSite::new(2, 8);
    w.ok(Command::Lead { epoch: Epoch(1), server: "s".into(), restored: false });
    let id = w.gang(1, 8);
    w.start(id);
    let (key, here) = (w.key(id), w.nodes_of(id)[0].clone());
    let there = [node(0), node(1)].into_iter().find(|n| *n != here).unwrap();
    let other = AttemptKey { job: JobId(id.0 + 70), attempt: 1 };
    let lost = |w: &TestSite, n: &NodeName, e: u64, k: AttemptKey| {
        w.engine.state().holds_lost_attempts(n, Epoch(e), [k].into_iter())
    };
    assert!(!lost(&w, &here, 1, other), "nothing was restored");
    w.pass(Span::mins(1));
    w.ok(Command::Lead { epoch: Epoch(5_000_000), server: "s".into(), restored: true });
    assert!(lost(&w, &here, 1, other), "a job that the log does not know");
    assert!(!lost(&w, &here, 5_000_000, other), "it met this life already");
    assert!(!lost(&w, &here, 1, key) && lost(&w, &there, 1, key), "it runs here");
    let next = AttemptKey { attempt: 2, ..key };
    assert!(lost(&w, &here, 1, next), "an attempt that was not placed yet");
    w.pass(Span::mins(1));
    w.lose(&here);
    assert_eq!((w.key(id), &w.nodes_of(id)[0]), (next, &there), "it was placed anew");
    assert!(!lost(&w, &here, 1, key), "given up, and known");
    assert!(lost(&w, &there, 1, next), "of the same name, but placed in this life");
    assert!(!w.engine.state().lost_enrolment(&here));
    assert!(w.engine.state().lost_enrolment(&node(7)));
}
