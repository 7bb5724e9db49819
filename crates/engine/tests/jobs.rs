//! The life of jobs, from submission to every kind of end.

use crate::common;

use common::{TestSite, crash, gang, node, replay};
use muster_model::command::{Actor, Command, IdempotencyKey, Observed, RefusalCode, Request};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::{JobId, Seq};
use muster_model::job::{Exit, JobState, SlotEnd, Verdict};
use muster_model::spec::{JobSpec, Priority, Retries};
use muster_model::tenant::Role;
use muster_model::topology::Level;
use muster_model::units::{Bytes, Span, Time};
use std::sync::Arc;

#[test]
fn a_gang_starts_when_every_rank_is_up_and_succeeds_when_every_rank_ended_well() {
    let mut w = TestSite::new(4, 8);
    let id = w.gang(2, 8);
    assert_eq!(w.job(id).state, JobState::Starting);
    let nodes = w.nodes_of(id);
    w.report(id, &nodes[0], Observed::Running);
    assert_eq!(w.job(id).state, JobState::Starting, "one of two is not running");
    w.report(id, &nodes[1], Observed::Running);
    assert_eq!(w.job(id).state, JobState::Running);
    w.finish(id);
    assert_eq!(w.job(id).state, JobState::Succeeded);
    assert_eq!(w.job(id).exit_code, Some(0));
}

#[test]
fn an_attempt_that_ends_with_the_first_report_of_it_ran_before_its_ranks_were_gone() {
    let mut w = TestSite::new(4, 8);
    let id = w.gang(2, 8);
    let from = w.log.len();
    w.finish(id);
    assert_eq!(w.job(id).state, JobState::Succeeded);
    let kinds = w.since(from).filter_map(|e| match e {
        Event::AttemptStarted { .. } => Some("runs"),
        Event::SlotEnded { .. } => Some("gone"),
        Event::AttemptEnded { .. } => Some("over"),
        _ => None,
    });
    assert_eq!(kinds.collect::<Vec<_>>(), ["gone", "runs", "gone", "over"]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_gang_gets_all_its_nodes_or_none() {
    let mut w = TestSite::new(4, 8);
    let first = w.gang(3, 8);
    let second = w.gang(2, 8);
    assert_eq!(w.job(first).state, JobState::Starting);
    assert_eq!(w.job(second).state, JobState::Queued, "one free node is not two");
    w.start(first);
    w.finish(first);
    assert_eq!(w.job(second).state, JobState::Starting);
}

#[test]
fn one_failing_rank_stops_the_gang_and_its_code_comes_back() {
    let mut w = TestSite::new(4, 8);
    let id = w.gang(2, 8);
    w.start(id);
    let nodes = w.nodes_of(id);
    w.report(id, &nodes[1], crash(9, 3));
    assert_eq!(w.job(id).state, JobState::Stopping, "the other node must be stopped first");
    w.report(id, &nodes[0], Observed::Ended(SlotEnd::Stopped));
    w.sleep(Span::secs(5));
    assert_eq!(w.job(id).state, JobState::Failed);
    assert_eq!(w.job(id).exit_code, Some(3));
    assert!(w.job(id).reason.as_deref().unwrap().contains("rank 9"), "{:?}", w.job(id).reason);
}

#[test]
fn a_lost_node_sends_its_gang_elsewhere_and_the_old_ranks_are_stopped_before_it_works_again() {
    let mut w = TestSite::new(4, 8);
    let id = w.gang(2, 8);
    w.start(id);
    let old = w.key(id);
    let nodes = w.nodes_of(id);
    let gone = nodes[0].clone();
    w.ok(Command::NodeLost { node: gone.clone(), last_seen: w.now });
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.report(id, &nodes[1], Observed::Ended(SlotEnd::Stopped));
    assert_eq!(w.job(id).state, JobState::Starting, "a new attempt on other nodes");
    assert!(!w.nodes_of(id).contains(&gone));
    assert_eq!(w.job(id).infrastructure_failures, 1);
    // It comes back with the old ranks still there.
    let i = gone.as_str()[1..].parse().unwrap();
    w.connect(i, 8, "boot", vec![(old, Observed::Running)]);
    let other = w.gang(2, 8);
    assert_eq!(w.job(other).state, JobState::Queued, "not before the orphan is gone");
    w.ok(Command::SlotReport {
        node: gone.clone(),
        key: old,
        observed: Observed::Ended(SlotEnd::Stopped),
        ago: None,
    });
    assert_eq!(w.job(other).state, JobState::Starting);
}

#[test]
fn ranks_that_vanished_with_a_reboot_are_the_platforms_fault() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(1, 8);
    w.start(id);
    let n = w.nodes_of(id)[0].clone();
    w.connect(n.as_str()[1..].parse().unwrap(), 8, "another boot", Vec::new());
    assert_eq!(w.job(id).infrastructure_failures, 1);
    assert_eq!(w.job(id).state, JobState::Starting);
}

#[test]
fn an_order_that_never_arrived_is_not_counted_as_a_failure() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(1, 8);
    let n = w.nodes_of(id)[0].clone();
    w.connect(n.as_str()[1..].parse().unwrap(), 8, "boot", Vec::new());
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_eq!(w.job(id).attempts, 1);
}

#[test]
fn retries_end_and_slow_down() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.retries = Retries { infrastructure: 2, application: 0 };
    let id = w.submit(spec);
    for attempt in 1..=3 {
        w.pass(Span::mins(2));
        assert_eq!(w.job(id).attempts, attempt);
        let n = w.nodes_of(id)[0].clone();
        let end = SlotEnd::fault("no cgroup");
        w.report(id, &n, Observed::Ended(end));
    }
    assert_eq!(w.job(id).state, JobState::Failed);
    assert!(w.job(id).reason.as_deref().unwrap().contains("no retry is left"));
}

#[test]
fn application_errors_are_not_retried_unless_asked() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.retries.application = 1;
    let id = w.submit(spec);
    let n = node(0);
    w.report(id, &n, crash(0, 1));
    assert_eq!(w.job(id).attempts, 2, "the first retry comes at once");
    w.report(id, &n, crash(0, 1));
    w.sleep(Span::secs(5));
    assert_eq!(w.job(id).state, JobState::Failed);
}

/// A rank is killed.
fn killed(note: &str) -> Observed {
    let exit = Exit { rank: 0, code: None, signal: Some(9), note: note.into() };
    Observed::Ended(SlotEnd::Failed { exit })
}

#[test]
fn a_rank_that_is_killed_and_nobody_knows_why_is_not_the_jobs_fault() {
    let mut w = TestSite::new(2, 8);
    let mut spec = gang(1, 8);
    spec.retries = Retries { infrastructure: 1, application: 0 };
    let id = w.submit(spec);
    for attempt in 1..=2 {
        w.pass(Span::mins(2));
        assert_eq!(w.job(id).attempts, attempt);
        w.start(id);
        let n = w.nodes_of(id)[0].clone();
        w.report(id, &n, killed(""));
        let past = w.job(id).past.last().cloned().unwrap();
        assert_eq!(past.verdict, Verdict::Unknown);
        assert!(past.reason.contains("nothing explains it"), "{}", past.reason);
    }
    let j = w.job(id);
    assert_eq!(
        (j.state, j.infrastructure_failures, j.application_failures),
        (JobState::Failed, 2, 0)
    );
    assert!(j.reason.as_deref().unwrap().contains("no retry is left"));
    assert_eq!(j.exit_code, Some(137));
}

#[test]
fn a_retry_leaves_the_node_that_ended_the_attempt_while_another_fits() {
    let mut w = TestSite::new(2, 8);
    let id = w.run(gang(1, 8));
    let first = w.nodes_of(id)[0].clone();
    w.report(id, &first, killed(""));
    w.sleep(Span::mins(2));
    assert_eq!(w.job(id).past.last().unwrap().verdict, Verdict::Unknown);
    let second = w.nodes_of(id)[0].clone();
    assert_ne!(second, first, "nothing is known of it yet");
    // Where no other fits it will do.
    let other = w.run(gang(1, 8));
    assert_eq!(w.nodes_of(other), [first]);
    w.start(id);
    w.report(id, &second, killed(""));
    w.sleep(Span::mins(2));
    assert_eq!(w.job(id).attempts, 3);
    assert_eq!(w.nodes_of(id), [second]);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_critical_gang_leaves_the_node_that_ended_it_though_its_nodes_are_kept_for_it() {
    for others in [1, 0] {
        let mut w = TestSite::new(2 + others, 8);
        let id = w.run(JobSpec { priority: Priority::Critical, ..gang(2, 8) });
        let had = w.nodes_of(id);
        w.report(id, &had[0], killed(""));
        let kept = w.job(id).reserved_start.as_ref().expect("no lower class has them meanwhile");
        assert!(kept.nodes.iter().eq(&had));
        w.stopped(id);
        w.sleep(Span::secs(10));
        assert_eq!((w.job(id).state, w.job(id).attempts), (JobState::Starting, 2));
        let stays = w.nodes_of(id).contains(&had[0]);
        assert_eq!(stays, others == 0, "where no other fits it will do");
        assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    }
}

#[test]
fn a_rank_that_is_killed_for_its_memory_failed_by_itself() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit(gang(1, 8));
    w.report(id, &node(0), killed("out of memory: limit 16GiB"));
    w.sleep(Span::secs(5));
    assert_eq!(w.job(id).state, JobState::Failed);
    assert_eq!(w.job(id).past.last().unwrap().verdict, Verdict::Application);
}

#[test]
fn a_word_about_memory_that_comes_after_the_end_explains_it() {
    let mut w = TestSite::new(2, 8);
    let id = w.submit(gang(1, 8));
    w.start(id);
    let (key, n) = (w.job(id).attempt_key().unwrap(), w.nodes_of(id)[0].clone());
    w.report(id, &n, killed(""));
    assert_eq!(w.job(id).past.last().unwrap().verdict, Verdict::Unknown);
    w.pass(Span::secs(2));
    let mut seen = ObservedFinding::new("oom", Entity::Node(n), Severity::Info, w.now);
    seen.attempt = Some(key);
    w.ok(Command::FindingsSeen { findings: vec![seen.because("Memory cgroup out of memory")] });
    let past = w.job(id).past.last().cloned().unwrap();
    assert_eq!(past.verdict, Verdict::Application);
    assert!(!past.findings.is_empty(), "{past:?}");
    assert_eq!((w.job(id).infrastructure_failures, w.job(id).application_failures), (0, 1));
}

#[test]
fn a_time_limit_counts_from_the_start_and_ends_the_job() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.time_limit = Some(Span::mins(10));
    let id = w.submit(spec);
    w.pass(Span::mins(5));
    w.start(id);
    w.pass(Span::mins(9));
    assert_eq!(w.job(id).state, JobState::Running);
    assert_eq!(w.engine.next_wake(), Some(w.now + Span::mins(1)));
    w.pass(Span::mins(1));
    assert_eq!(w.job(id).state, JobState::Stopping);
    w.stopped(id);
    assert_eq!((w.job(id).state, w.job(id).exit_code), (JobState::Failed, Some(124)));
}

#[test]
fn cancel_wins_over_a_retry_that_was_under_way() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(2, 8);
    w.start(id);
    let nodes = w.nodes_of(id);
    let end = SlotEnd::fault("x");
    w.report(id, &nodes[0], Observed::Ended(end));
    w.ok(Command::Cancel { job: id });
    w.report(id, &nodes[1], Observed::Ended(SlotEnd::Stopped));
    assert_eq!(w.job(id).state, JobState::Cancelled);
    w.ok(Command::Cancel { job: id });
}

#[test]
fn arrays_make_tasks_and_dependencies_wait_for_all_of_them() {
    let mut w = TestSite::new(4, 8);
    let mut spec = gang(1, 8);
    spec.array = Some("0-2".into());
    spec.name = Some("prep".parse().unwrap());
    let first = w.submit(spec);
    assert_eq!(w.job(JobId(first.0 + 2)).display_id(), format!("{first}_2"));
    let mut spec = gang(1, 1);
    spec.after = vec!["prep:ok".into()];
    let next = w.submit(spec);
    for n in 0..3 {
        assert_eq!(w.job(next).state, JobState::Queued);
        let id = JobId(first.0 + n);
        w.start(id);
        w.finish(id);
    }
    assert_eq!(w.job(next).state, JobState::Starting);
}

#[test]
fn a_dependency_that_can_never_be_met_ends_the_job_with_the_reason() {
    let mut w = TestSite::new(1, 8);
    let first = w.gang(1, 8);
    let mut spec = gang(1, 1);
    spec.after = vec![format!("{first}:ok")];
    let next = w.submit(spec);
    w.report(first, &node(0), crash(0, 1));
    w.sleep(Span::secs(5));
    assert_eq!(w.job(next).state, JobState::Cancelled);
    assert!(w.job(next).reason.as_deref().unwrap().contains("depends"));
}

#[test]
fn held_jobs_wait_and_released_ones_go_on() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 8);
    spec.hold = true;
    let id = w.submit(spec);
    assert_eq!(w.job(id).state, JobState::Queued);
    let why = w.engine.state().explain(id, w.now).unwrap();
    assert!(why.summary.contains("held"), "{}", why.summary);
    w.ok(Command::Release { job: id });
    assert_eq!(w.job(id).state, JobState::Starting);
    let late = w.send(Command::Hold { job: id }).unwrap_err();
    assert!(late.hint.unwrap().contains("stops it"), "it goes on");
    w.start(id);
    w.finish(id);
    let over = w.send(Command::Hold { job: id }).unwrap_err();
    assert_eq!(over.hint, Some(format!("`muster requeue {id}` runs it again")));
}

#[test]
fn an_impossible_gang_is_refused_with_the_exact_reason() {
    let mut w = TestSite::new(4, 8);
    let e = w.send(Command::Submit { spec: Arc::new(gang(99, 8)) }).unwrap_err();
    assert_eq!(e.code, RefusalCode::Policy);
    assert!(e.message.contains("99 nodes") && e.message.contains("4 nodes"), "{}", e.message);
    let e = w.send(Command::Submit { spec: Arc::new(gang(1, 16)) }).unwrap_err();
    assert!(e.message.contains("16 GPUs"), "{}", e.message);
    assert!(e.message.ends_with("but no node of this fleet has more than 8 GPUs"), "{}", e.message);
    assert_eq!(e.hint.as_deref(), Some("ask for at most 8 GPUs a node"));
    let mut spec = gang(1, 8);
    spec.gang.memory_per_node = Some(Bytes::gib(9 * 1024));
    let e = w.send(Command::Submit { spec: Arc::new(spec) }).unwrap_err();
    let most = "but no node of this fleet with 8 GPUs has more than 512GiB memory";
    assert!(e.message.ends_with(most), "{}", e.message);
    let mut spec = gang(1, 8);
    spec.gang.cpus_per_node = Some(65);
    let e = w.send(Command::Submit { spec: Arc::new(spec) }).unwrap_err();
    assert!(e.message.ends_with("with 8 GPUs has more than 64 CPUs"), "{}", e.message);
    let mut spec = gang(1, 8);
    spec.gang.sku = Some("h100".into());
    let e = w.send(Command::Submit { spec: Arc::new(spec) }).unwrap_err();
    let known = "but no node of this fleet is of SKU h100: there is h100-sxm";
    assert!(e.message.ends_with(known), "{}", e.message);
    assert_eq!(e.hint.as_deref(), Some("ask for SKU h100-sxm"));
    let mut spec = gang(8, 8);
    spec.topology.required = Some(Level::Rack);
    assert!(w.send(Command::Submit { spec: Arc::new(spec) }).is_err(), "a rack has four nodes");
}

#[test]
fn an_explanation_names_the_node_of_a_job_once() {
    let mut w = TestSite::new(1, 8);
    let id = w.gang(1, 8);
    let summary = |w: &TestSite| w.engine.state().why(id, w.now).expect("a job").summary;
    assert_eq!(summary(&w), "is starting on r/c/s0/l0/k0/n000");
    w.start(id);
    assert_eq!(summary(&w), "is running on r/c/s0/l0/k0/n000");
}

#[test]
fn a_node_that_work_is_leaving_is_not_called_in_service() {
    let mut w = TestSite::new(1, 8);
    let id = w.gang(1, 8);
    w.start(id);
    let early = w.send(Command::Retire { node: node(0) }).unwrap_err();
    assert!(early.message.contains("it is in service; drain it first"), "{}", early.message);
    w.ok(Command::Drain { node: node(0), reason: "sold".into(), stop: false });
    let early = w.send(Command::Retire { node: node(0) }).unwrap_err();
    assert!(early.message.contains("is draining: work is still leaving it"), "{}", early.message);
    w.finish(id);
    w.ok(Command::Retire { node: node(0) });
}

#[test]
fn smaller_work_passes_a_waiting_gang_until_its_patience_ends() {
    let mut w = TestSite::new(2, 8);
    let first = w.gang(1, 8);
    w.start(first);
    let big = w.gang(2, 8);
    let small = w.gang(1, 4);
    assert_eq!(w.job(small).state, JobState::Starting, "it fits beside and nobody has waited long");
    w.pass(Span::mins(11));
    let late = w.gang(1, 4);
    assert_eq!(w.job(late).state, JobState::Queued, "the room is kept for the gang now");
    w.start(small);
    w.finish(small);
    w.finish(first);
    assert_eq!(w.job(big).state, JobState::Starting);
}

#[test]
fn an_idempotency_key_repeats_the_answer_and_refuses_another_body() {
    let mut w = TestSite::new(1, 8);
    let key = |f: &str| IdempotencyKey {
        key: "user:a/k1".into(),
        fingerprint: f.into(),
        keep_until: Time(2_000_000),
    };
    let req = |w: &TestSite, f: &str| Request {
        actor: Actor::system(),
        at: w.now,
        key: Some(key(f)),
        if_version: None,
        command: Command::Submit { spec: Arc::new(gang(1, 1)) },
    };
    let r = req(&w, "x");
    let a = w.request(&r).unwrap();
    let n = w.log.len();
    assert_eq!(w.request(&r).unwrap(), a);
    assert_eq!(w.log.len(), n, "nothing happened twice");
    let r = req(&w, "y");
    assert_eq!(w.request(&r).unwrap_err().code, RefusalCode::Conflict);
}

#[test]
fn a_version_that_moved_is_a_conflict() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 1);
    spec.hold = true;
    let id = w.submit(spec);
    let v = w.job(id).version;
    let req = |w: &TestSite, v: Seq, command| Request {
        actor: Actor::system(),
        at: w.now,
        key: None,
        if_version: Some(v),
        command,
    };
    let r = req(&w, v, Command::Release { job: id });
    w.request(&r).unwrap();
    let r = req(&w, v, Command::Cancel { job: id });
    assert_eq!(w.request(&r).unwrap_err().code, RefusalCode::Conflict);
}

#[test]
fn a_bound_token_neither_sees_nor_steers_another_projects_jobs() {
    let mut w = TestSite::new(1, 8);
    let id = w.gang(1, 1);
    w.ok(Command::CreateProject { name: "other".parse().unwrap(), description: String::new() });
    let actor = Actor {
        name: "user:eve".into(),
        role: Role::Admin,
        project: Some("other".parse().unwrap()),
    };
    let at = w.now;
    let mut ask = |command| {
        let req = Request { actor: actor.clone(), at, key: None, if_version: None, command };
        w.request(&req).unwrap_err().code
    };
    assert_eq!(ask(Command::Cancel { job: id }), RefusalCode::NotFound);
    assert_eq!(
        ask(Command::Drain { node: node(0), reason: String::new(), stop: true }),
        RefusalCode::NotAllowed
    );
    let mut spec = gang(1, 1);
    spec.project = Some("default".parse().unwrap());
    assert_eq!(ask(Command::Submit { spec: Arc::new(spec) }), RefusalCode::NotAllowed);
}

#[test]
fn draining_lets_work_end_and_takes_nothing_new() {
    let mut w = TestSite::new(1, 8);
    let id = w.gang(1, 4);
    w.start(id);
    w.ok(Command::Drain { node: node(0), reason: "fan".into(), stop: false });
    let next = w.gang(1, 4);
    assert_eq!(w.job(next).state, JobState::Queued);
    assert_eq!(w.engine.state().nodes[&node(0)].stage, muster_model::node::Stage::Draining);
    w.finish(id);
    assert_eq!(w.engine.state().nodes[&node(0)].stage, muster_model::node::Stage::Drained);
    w.ok(Command::Undrain { node: node(0) });
    assert_eq!(w.job(next).state, JobState::Starting);
}

#[test]
fn a_drain_without_a_reason_does_not_take_the_reason_of_what_was_before() {
    let mut w = TestSite::new(1, 8);
    w.ok(Command::Drain { node: node(0), reason: String::new(), stop: false });
    let n = &w.engine.state().nodes[&node(0)];
    assert_eq!(n.stage, muster_model::node::Stage::Drained);
    assert_eq!(n.stage_why, "by system, no reason given");
    // The reason comes later: it is recorded, and no reason does not take it away again.
    let mut drain = |reason: &str| {
        w.ok(Command::Drain { node: node(0), reason: reason.into(), stop: false });
        let n = &w.engine.state().nodes[&node(0)];
        let started = |r: &&Record| matches!(r.event, Event::DrainStarted { .. });
        (n.stage, n.stage_why.clone(), w.log.iter().filter(started).count())
    };
    let fan = (muster_model::node::Stage::Drained, "fan".to_owned(), 2);
    assert_eq!(drain("fan"), fan);
    assert_eq!(drain(""), fan);
    assert_eq!(drain("fan"), fan, "the same again is nothing new");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn a_drain_that_stops_sends_the_work_elsewhere_without_counting_it_as_a_failure() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(1, 8);
    w.start(id);
    let n = w.nodes_of(id)[0].clone();
    w.person(Command::Drain { node: n.clone(), reason: "fan".into(), stop: true });
    w.stopped(id);
    assert_eq!(w.job(id).state, JobState::Starting);
    assert_ne!(w.nodes_of(id)[0], n);
    assert_eq!(w.job(id).infrastructure_failures, 0);
    // A person wanted it: neither hardware's doing nor anything to come back from.
    assert_eq!(w.job(id).past[0].verdict, Verdict::Operator);
    assert_eq!(w.job(id).recovery, None);
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn attempts_on_one_host_never_share_a_port() {
    let mut w = TestSite::empty();
    for i in 0..4 {
        w.ok(Command::Enroll {
            node: node(i),
            machine: format!("m{i}"),
            token: "t".into(),
            key: None,
        });
        w.ok(Command::NodeConnected {
            node: node(i),
            machine: format!("m{i}"),
            boot: "b".into(),
            address: "127.0.0.1".into(),
            host: "one machine".into(),
            inventory: Box::new(common::inventory(8)),
            observed: Vec::new(),
            ended_ago: Vec::new(),
            place: String::new(),
            ahead: false,
            silent_for: None,
        });
    }
    let ids: Vec<_> = (0..32).map(|_| w.gang(1, 1)).collect();
    let ports: std::collections::BTreeSet<u16> =
        ids.iter().map(|id| w.job(*id).attempt.as_ref().unwrap().placement.port).collect();
    assert_eq!(ports.len(), 32);
}

#[test]
fn a_node_that_is_ahead_of_the_server_is_left_alone_until_an_operator_says_so() {
    let mut w = TestSite::new(2, 8);
    let id = w.gang(1, 8);
    let n = w.nodes_of(id)[0].clone();
    let i: usize = n.as_str()[1..].parse().unwrap();
    w.start(id);
    let stranger = muster_model::ids::AttemptKey { job: JobId(999), attempt: 1 };
    let observed = vec![(stranger, Observed::Running)];
    let met = common::connected(i, "boot", common::inventory(8), observed);
    w.ok(common::said_ahead(met, true));
    assert!(w.engine.state().nodes[&n].protected);
    assert_eq!(
        w.job(id).state,
        JobState::Running,
        "no conclusion is drawn from what is not seen there"
    );
    w.ok(Command::Reconcile { node: n.clone() });
    assert!(!w.engine.state().nodes[&n].protected);
}

#[test]
fn a_join_token_works_as_often_and_as_long_as_it_says() {
    let mut w = TestSite::empty();
    w.ok(Command::CreateToken {
        id: "two".into(),
        name: "two".parse().unwrap(),
        hash: String::new(),
        usage: muster_model::tenant::TokenUse::Join { uses_left: Some(2) },
        ttl: Some(Span::mins(5)),
    });
    let join = |w: &mut TestSite, i: usize| {
        w.send(Command::Enroll {
            node: node(i),
            machine: format!("m{i}"),
            token: "two".into(),
            key: None,
        })
    };
    join(&mut w, 0).unwrap();
    join(&mut w, 1).unwrap();
    assert_eq!(join(&mut w, 2).unwrap_err().code, RefusalCode::NotAllowed);
    w.ok(Command::CreateToken {
        id: "late".into(),
        name: "late".parse().unwrap(),
        hash: String::new(),
        usage: muster_model::tenant::TokenUse::Join { uses_left: None },
        ttl: Some(Span::mins(5)),
    });
    w.pass(Span::mins(5));
    let late = w.send(Command::Enroll {
        node: node(3),
        machine: "m3".into(),
        token: "late".into(),
        key: None,
    });
    assert_eq!(late.unwrap_err().code, RefusalCode::NotAllowed);
}

#[test]
fn a_restored_log_that_caught_up_still_knows_that_a_node_has_seen_another_life() {
    let mut w = TestSite::new(1, 8);
    let lead = |w: &mut TestSite, e: u64| {
        w.ok(Command::Lead {
            epoch: muster_model::ids::Epoch(e),
            server: "s".into(),
            restored: false,
        });
    };
    lead(&mut w, 1);
    let seen = w.engine.state().seq;
    let epoch = muster_model::ids::Epoch;
    assert!(!w.engine.state().is_behind(seen, epoch(1)));
    // The agent saw twenty records more of a life that was lost with the disk.
    let more = Seq(seen.0 + 20);
    assert!(w.engine.state().is_behind(more, epoch(1)), "more than there is");
    lead(&mut w, 5_000_001);
    for _ in 0..40 {
        w.gang(1, 0);
    }
    assert!(w.engine.state().seq > more);
    assert!(w.engine.state().is_behind(more, epoch(1)), "those records are not the ones it saw");
    assert!(!w.engine.state().is_behind(seen, epoch(1)), "these are");
    // A restart is not another life.
    let now = w.engine.state().seq;
    lead(&mut w, 5_000_002);
    assert!(!w.engine.state().is_behind(now, epoch(5_000_001)));
    assert!(
        !w.engine.state().is_behind(now, epoch(5_000_002)),
        "welcomed before the lead was written"
    );
}

#[test]
fn no_id_of_a_job_returns_after_a_restore() {
    let epoch = muster_model::ids::Epoch;
    let lead = |w: &mut TestSite, e: u64, restored: bool| {
        w.ok(Command::Lead { epoch: epoch(e), server: "s".into(), restored });
    };
    let mut w = TestSite::new(2, 8);
    lead(&mut w, 1, false);
    let kept = w.gang(1, 8);
    w.start(kept);
    let backup = w.engine.state().clone();
    let lost: Vec<_> = (0..50).map(|_| w.gang(1, 0)).collect();
    let mut seen: std::collections::BTreeSet<_> = lost.iter().copied().collect();

    // The same backup comes back twice; the store makes the epoch jump each time.
    for e in [1_700_042, 2_000_000_017] {
        let mut w = TestSite::new(2, 8);
        w.engine = muster_engine::Engine::new(backup.clone(), muster_engine::Policy::default());
        w.pass(Span::mins(1));
        lead(&mut w, e, true);
        let state = w.engine.state();
        assert_eq!(state.generation_at(backup.seq), epoch(0));
        assert_eq!(state.generation_at(state.seq), epoch(e));
        assert_eq!(state.generation_of(w.key(kept)), epoch(0), "placed before");
        let first = w.key(kept);
        let node = w.nodes_of(kept)[0].clone();
        w.lose(&node);
        let again = w.key(kept);
        assert_eq!((first.attempt, again.attempt), (1, 2), "its node was lost");
        let state = w.engine.state();
        assert_eq!(state.generation_of(again), epoch(e), "placed after");
        assert_eq!(state.generation_of(first), epoch(0), "over, and still of its own life");
        for _ in 0..50 {
            let id = w.gang(1, 8);
            assert!(seen.insert(id), "job {id} was there before");
        }
        // A restart is not another life, and forgets none.
        lead(&mut w, e + 1, false);
        let next = w.gang(1, 0);
        assert!(seen.insert(next) && next.0 % 1000 == 50, "{next} goes on from where it was");
        let old = w.engine.state();
        let bytes = old.to_bytes().unwrap();
        let read =
            muster_engine::State::from_bytes(muster_engine::SNAPSHOT_FORMAT, &bytes).unwrap();
        assert_eq!((read.next_job, &read.lives), (old.next_job, &old.lives));
    }
}

#[test]
fn only_an_operator_ends_the_protection_of_a_node() {
    let mut w = TestSite::new(1, 8);
    let connect = |w: &mut TestSite, ahead: bool| {
        let met = common::connected(0, "boot", common::inventory(8), Vec::new());
        w.ok(common::said_ahead(met, ahead));
    };
    connect(&mut w, true);
    connect(&mut w, false);
    assert!(w.engine.state().nodes[&node(0)].protected);
    let id = w.gang(1, 1);
    assert_eq!(w.job(id).state, JobState::Queued);
    w.ok(Command::Reconcile { node: node(0) });
    connect(&mut w, false);
    assert_eq!(w.job(id).state, JobState::Starting);
}

#[test]
fn a_checkpoint_reported_twice_is_written_once_and_never_goes_back() {
    let mut w = TestSite::new(1, 8);
    let id = w.gang(1, 1);
    w.start(id);
    let key = w.key(id);
    let save = |w: &mut TestSite, step: u64| {
        w.ok(Command::CheckpointDone {
            key,
            step: Some(step),
            path: Some(format!("/c/{step}")),
            bytes: None,
            blocked_ms: None,
        });
    };
    save(&mut w, 5);
    let n = w.log.len();
    save(&mut w, 5);
    save(&mut w, 4);
    assert_eq!(w.log.len(), n);
    w.finish(id);
    save(&mut w, 6);
    assert_eq!(w.job(id).checkpoint.as_ref().unwrap().step, Some(6), "also after the end");
}

#[test]
fn an_unknown_project_or_secret_is_refused_by_name() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 1);
    spec.project = Some("nobody".parse().unwrap());
    let e = w.send(Command::Submit { spec: Arc::new(spec.clone()) }).unwrap_err();
    assert_eq!((e.code, e.field.as_deref()), (RefusalCode::NotFound, Some("project")));
    let hint = e.hint.unwrap();
    assert!(hint.contains("known projects: default;"), "the known ones are named: {hint}");
    assert!(!hint.contains("did you mean"), "none is near: {hint}");
    spec.project = Some("defualt".parse().unwrap());
    let e = w.send(Command::Submit { spec: Arc::new(spec) }).unwrap_err();
    assert!(e.hint.unwrap().starts_with("did you mean `default`? "), "the nearest is named");
    let mut spec = gang(1, 1);
    spec.secrets = vec!["wandb-key".parse().unwrap()];
    let e = w.send(Command::Submit { spec: Arc::new(spec) }).unwrap_err();
    assert!(e.hint.unwrap().contains("muster secret set wandb-key"));
    assert!(w.engine.state().jobs.is_empty(), "nothing has changed");
}

#[test]
fn a_clock_that_runs_backwards_does_not_turn_the_log_back() {
    let mut w = TestSite::new(1, 8);
    let mut spec = gang(1, 1);
    spec.time_limit = Some(Span::mins(10));
    let id = w.submit(spec);
    w.start(id);
    w.pass(Span::mins(5));
    w.now = w.now - Span::mins(60);
    w.gang(1, 1);
    w.tick();
    assert!(w.log.windows(2).all(|p| p[0].at <= p[1].at), "times never fall");
    assert_eq!(w.job(id).state, JobState::Running, "nor does a limit pass early");
}

#[test]
fn a_job_that_is_requeued_by_hand_still_says_how_its_last_attempt_ended() {
    let mut w = TestSite::new(1, 8);
    let id = w.run(gang(1, 8));
    let other = w.submit(gang(1, 8));
    w.report(id, &node(0), crash(0, 3));
    w.sleep(Span::secs(5));
    assert_eq!((w.job(id).state, w.job(other).state), (JobState::Failed, JobState::Starting));
    let ended = w.job(id).past[0].reason.clone();
    assert!(ended.contains("exited with code 3"), "{ended}");
    w.person(Command::Requeue { job: id });
    let job = w.job(id);
    assert_eq!(job.state, JobState::Queued);
    let why = format!("{ended}; then requeued by user:olga");
    assert_eq!(job.reason.as_deref(), Some(why.as_str()));
    // One that never ran has no such end.
    let last = w.submit(gang(1, 8));
    w.person(Command::Cancel { job: last });
    w.person(Command::Requeue { job: last });
    assert_eq!(w.job(last).reason.as_deref(), Some("requeued by user:olga"));
}
