//! Why a job waits, as its owner reads it.

use crate::common::{TestSite, checkpoints, gang, limited, node, replay};
use muster_model::command::{Command, Refusal, RefusalCode};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::{Basis, JobState, ReservedStart};
use muster_model::node::NodeRole;
use muster_model::placement::GpuSet;
use muster_model::spec::{JobSpec, Priority};
use muster_model::topology::Level;
use muster_model::units::Span;
use muster_scheduler::Explanation;
use std::sync::Arc;

fn binding(w: &TestSite, id: JobId) -> String {
    let e = w.explain(id);
    let names: Vec<String> =
        e.constraints.iter().filter(|c| c.binding).map(|c| c.name.clone()).collect();
    assert_eq!(names.len(), 1, "exactly one constraint stops it: {e:?}");
    assert!(!e.starts_now && !e.summary.is_empty());
    names[0].clone()
}

#[test]
fn a_reserved_start_is_shown_with_what_it_rests_on() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(2, 8, 60));
    let at = w.now + Span::mins(60);
    let id = w.submit(limited(2, 8, 30));
    assert_eq!(binding(&w, id), "capacity");
    let said = w.explain(id).estimate.unwrap();
    assert_eq!(said.at, at);
    let caveat = "reserved by the time limits of what runs, unless jobs of a higher priority class take that capacity";
    assert!(said.basis.starts_with(caveat), "{}", said.basis);
}

#[test]
fn room_made_by_others_is_shown_as_such() {
    let mut w = TestSite::new(1, 8);
    let low = JobSpec { priority: Priority::Low, checkpoint: checkpoints(true), ..gang(1, 8) };
    w.run(low);
    w.pass(Span::mins(10));
    let id = w.submit(JobSpec { priority: Priority::High, ..gang(1, 8) });
    let said = w.explain(id).estimate.unwrap();
    assert_eq!(said.at, w.now + w.engine.state().policy.preemption.notice);
    assert!(said.basis.contains("others are being stopped"), "{}", said.basis);
}

#[test]
fn others_are_said_to_be_stopped_only_while_they_are() {
    let mut w = TestSite::new(1, 8);
    w.run(gang(1, 8));
    let job = w.submit(limited(1, 8, 30));
    // It was reserved when others were stopped for it; all of them are gone.
    let (nodes, basis) = ([node(0)].into(), Basis::Preemption);
    let reserved_start =
        ReservedStart { at: w.now + Span::mins(1), nodes, basis, since: w.now, moved: None };
    let mut s = replay(&w.log);
    let event = Event::StartReserved { job, reserved_start };
    let r = Record { seq: s.seq.next(), at: w.now, event, ..w.log[0].clone() };
    s.apply(&r).unwrap();
    let said = s.explain(job, w.now).unwrap().estimate.unwrap();
    assert_eq!(said.basis, "others were stopped for it");
}

#[test]
fn room_that_is_kept_for_others_is_named() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(1, 8, 60));
    w.submit(limited(2, 8, 60));
    let long = w.submit(limited(1, 8, 120));
    assert_eq!(binding(&w, long), "reserved");
    let e = w.explain(long);
    assert!(e.summary.contains("a reserved start"), "{}", e.summary);
    let hint = e.suggestions.iter().find(|s| s.contains("time limit of at most"));
    assert!(hint.is_some(), "{:?}", e.suggestions);
}

#[test]
fn jobs_ahead_are_named_with_why_they_are() {
    let mut w = TestSite::new(1, 8);
    w.run(gang(1, 8));
    let first = w.submit(gang(1, 8));
    w.pass(Span::secs(1));
    let second = w.submit(gang(1, 8));
    w.pass(Span::secs(1));
    let high = w.submit(JobSpec { priority: Priority::High, ..gang(1, 8) });
    let e = w.explain(second);
    let ahead: Vec<(JobId, &str)> = e.ahead.iter().map(|a| (a.job, a.why.as_str())).collect();
    assert_eq!(ahead, [(high, "higher priority"), (first, "submitted earlier")]);
    assert_eq!(e.ahead_count, 2);
}

#[test]
fn who_has_a_later_reserved_start_is_not_ahead() {
    let mut w = TestSite::new(2, 8);
    w.policy(|p| p.preemption.enabled = false);
    w.run(limited(1, 8, 60));
    w.run(limited(1, 8, 120));
    let wide = w.submit(JobSpec { priority: Priority::High, ..limited(2, 8, 30) });
    w.pass(Span::secs(1));
    let narrow = w.submit(limited(1, 8, 45));
    let at = |id: JobId| w.job(id).reserved_start.as_ref().unwrap().at;
    assert!(at(narrow) < at(wide), "it passes");
    let e = w.explain(narrow);
    assert_eq!((e.ahead_count, e.ahead.len()), (0, 0), "{e:?}");
}

#[test]
fn a_required_level_that_has_no_room_is_named_with_the_way_out() {
    let mut w = TestSite::new(16, 8);
    w.run(gang(5, 8));
    w.run(JobSpec { topology: required(Level::Leaf), ..gang(5, 8) });
    let spec = JobSpec { topology: required(Level::Leaf), ..gang(4, 8) };
    let id = w.submit(spec);
    assert_eq!(w.job(id).state, JobState::Queued, "three free in each leaf");
    assert_eq!(binding(&w, id), "topology");
    let e = w.explain(id);
    assert!(e.suggestions.iter().any(|s| s.contains("topology.required")), "{e:?}");
}

fn required(level: Level) -> muster_model::spec::TopologySpec {
    muster_model::spec::TopologySpec { required: Some(level), ..Default::default() }
}

#[test]
fn nodes_out_of_service_are_counted_by_what_ails_them() {
    let mut w = TestSite::new(3, 8);
    w.ok(Command::Cordon { node: node(0), reason: "fan".into() });
    w.ok(Command::MarkNode { node: node(1), role: Some(NodeRole::Suspect), hazard: None });
    let id = w.gang(2, 8);
    assert_eq!(binding(&w, id), "service");
    let e = w.explain(id);
    let words = &e.constraints.iter().find(|c| c.name == "service").unwrap().detail;
    assert!(words.contains("1 cordoned") && words.contains("1 suspect"), "{words}");
    w.ok(Command::MarkNode { node: node(1), role: Some(NodeRole::Normal), hazard: None });
    assert_eq!(w.job(id).state, JobState::Starting);
    let (node, role) = (node(1), None);
    let e = w.send(Command::MarkNode { node, role, hazard: Some(1001) }).unwrap_err();
    assert_eq!(e.code, RefusalCode::Invalid);
}

/// What a list says of why a job waits: the words of `explain`.
fn listed(w: &TestSite, id: JobId) -> String {
    let state = w.engine.state();
    let said = state.stopped_by(w.job(id), &mut state.reasons(w.now), w.now);
    assert_eq!(said, Some(w.explain(id).summary));
    said.unwrap_or_default()
}

#[test]
fn a_list_says_that_a_job_can_never_start_before_what_its_owner_may_not_have() {
    let mut w = TestSite::new(3, 8);
    w.policy(|p| p.limits.gpus_per_user = Some(24));
    let first = w.submit_as("ann", gang(1, 8));
    let wide = w.submit_as("ann", gang(3, 8));
    let limit = "already has 8 of 24 GPUs and requests 24 more";
    assert!(listed(&w, wide).ends_with(limit), "{}", listed(&w, wide));
    let taken = w.nodes_of(first);
    let free = (0..3).map(node).find(|n| !taken.contains(n)).unwrap();
    w.ok(Command::Drain { node: free.clone(), reason: "old".into(), stop: true });
    assert!(listed(&w, wide).ends_with(limit), "{}", listed(&w, wide));
    w.ok(Command::Retire { node: free });
    assert!(w.explain(wide).impossible);
    let never = "no cluster of this fleet has more than 2 nodes that satisfy the per-node request";
    assert!(listed(&w, wide).ends_with(never), "{}", listed(&w, wide));
    w.policy(|p| p.limits.gpus_per_user = None);
    assert!(listed(&w, wide).ends_with(never), "{}", listed(&w, wide));
}

#[test]
fn a_gpu_off_the_bus_or_excluded_refuses_no_gang_that_the_whole_fleet_could_carry() {
    let fleet = "the fleet has 4 nodes and 32 GPUs";
    let mut w = TestSite::new(4, 8);
    w.connect(1, 7, "boot", Vec::new());
    assert_eq!(w.engine.state().nodes[&node(1)].missing_gpus.len(), 1);
    let id = w.gang(4, 8);
    let e = w.explain(id);
    assert_eq!((binding(&w, id).as_str(), e.impossible), ("service", false), "{e:?}");
    assert_eq!((e.constraints[0].detail.as_str(), e.constraints[1].gpus_left), (fleet, 32));
    assert!(e.summary.ends_with("but only 3 are in service"), "{}", e.summary);
    assert_eq!(listed(&w, id), e.summary);
    assert!(ask(&w, &gang(5, 8)).unwrap().impossible);
    // All of them at once: the node is of their SKU all the same.
    w.connect(1, 0, "boot", Vec::new());
    let mut of = gang(4, 8);
    of.gang.sku = Some("h100-sxm".into());
    assert!(!ask(&w, &of).unwrap().impossible);

    let mut w = TestSite::new(4, 8);
    let (gpus, reason) = (GpuSet(1 << 3), "slow".to_owned());
    w.ok(Command::ExcludeGpus { node: node(2), gpus, reason });
    let e = ask(&w, &gang(4, 8)).unwrap();
    assert!(!e.impossible && !e.starts_now, "{e:?}");
    let service = e.constraints.iter().find(|c| c.name == "service").unwrap();
    assert_eq!(service.detail, "1 with a GPU missing or excluded");
}

#[test]
fn a_node_that_is_drained_is_not_called_draining() {
    let mut w = TestSite::new(2, 8);
    let job = w.run(gang(1, 8));
    let busy = w.nodes_of(job)[0].clone();
    let idle = (0..2).map(node).find(|n| *n != busy).unwrap();
    for (n, stop) in [(busy, false), (idle, true)] {
        w.ok(Command::Drain { node: n, reason: "old".into(), stop });
    }
    let e = ask(&w, &gang(1, 8)).unwrap();
    let service = e.constraints.iter().find(|c| c.name == "service").unwrap();
    assert_eq!(service.detail, "1 drained, 1 draining");
}

#[test]
fn holds_dependencies_and_back_offs_come_before_room() {
    let mut w = TestSite::new(1, 8);
    let first = w.run(gang(1, 8));
    let held = w.submit(JobSpec { hold: true, ..gang(1, 8) });
    assert_eq!(binding(&w, held), "hold");
    let after = w.submit(JobSpec { after: vec![format!("{first}:any")], ..gang(1, 1) });
    assert_eq!(binding(&w, after), "dependency");
}

fn ask(w: &TestSite, spec: &JobSpec) -> Result<Explanation, Refusal> {
    w.engine.state().explain_spec(&Arc::new(spec.clone()), "user:ann", w.now)
}

#[test]
fn what_a_spec_would_meet_can_be_asked_beforehand() {
    let mut w = TestSite::new(2, 8);
    w.run(limited(1, 8, 60));
    assert!(ask(&w, &gang(1, 8)).unwrap().starts_now);
    let e = ask(&w, &limited(2, 8, 10)).unwrap();
    assert!(!e.starts_now && !e.impossible);
    assert_eq!(e.estimate.unwrap().at, w.now + Span::mins(60));
    assert!(ask(&w, &gang(3, 8)).unwrap().impossible);
}

#[test]
fn who_would_be_stopped_for_a_spec_is_said_as_the_plan_does_it() {
    let mut w = TestSite::new(1, 8);
    let low = JobSpec { priority: Priority::Low, checkpoint: checkpoints(true), ..gang(1, 8) };
    let running = w.run(low);
    w.pass(Span::mins(10));
    let notice = w.engine.state().policy.preemption.notice;
    let spec = JobSpec { priority: Priority::High, ..gang(1, 8) };
    let e = ask(&w, &spec).unwrap();
    assert_eq!(e.gives_way, [running], "{e:?}");
    assert!(e.summary.contains("work of a lower priority is stopped"), "{}", e.summary);
    assert!(!e.starts_now && e.constraints.iter().all(|c| !c.binding), "{e:?}");
    assert_eq!(e.estimate.as_ref().unwrap().at, w.now + notice);
    // One of the same rank has nobody stopped.
    let e = ask(&w, &JobSpec { priority: Priority::Low, ..gang(1, 8) }).unwrap();
    assert!(e.gives_way.is_empty() && e.constraints.iter().any(|c| c.binding), "{e:?}");
    // It happens as it was said.
    let id = w.submit(spec);
    assert_eq!(w.explain(id).estimate.unwrap().at, w.now + notice);
}

#[test]
fn what_starts_when_others_are_stopped_needs_no_advice() {
    let mut w = TestSite::new(2, 8);
    let low = JobSpec { priority: Priority::Low, checkpoint: checkpoints(true), ..gang(1, 8) };
    let running = w.run(low);
    w.pass(Span::mins(10));
    // One node is free, so a smaller gang would start at once.
    let spec = JobSpec { priority: Priority::High, ..gang(2, 8) };
    let e = ask(&w, &spec).unwrap();
    assert_eq!(e.gives_way, [running], "{e:?}");
    assert!(e.suggestions.is_empty(), "it starts as it is: {e:?}");
    let id = w.submit(spec);
    let e = w.explain(id);
    assert!(e.estimate.is_some() && e.suggestions.is_empty(), "{e:?}");
}

#[test]
fn who_may_be_stopped_after_the_minimum_run_time_is_said_before_it_is_over() {
    let mut w = TestSite::new(1, 8);
    let low = JobSpec { priority: Priority::Low, checkpoint: checkpoints(true), ..gang(1, 8) };
    let running = w.run(low);
    let policy = w.engine.state().policy.preemption.clone();
    let from = w.job(running).attempt.as_ref().unwrap().placed_at + policy.min_run;
    assert!(from > w.now, "it has just begun");
    let spec = JobSpec { priority: Priority::High, ..gang(1, 8) };
    let e = ask(&w, &spec).unwrap();
    assert_eq!((e.gives_way.as_slice(), e.gives_way_from), (&[running][..], Some(from)), "{e:?}");
    assert_eq!(e.estimate.as_ref().unwrap().at, from + policy.notice, "{e:?}");
    let id = w.submit(spec);
    let e = w.explain(id);
    assert_eq!((e.gives_way.as_slice(), e.gives_way_from), (&[running][..], Some(from)), "{e:?}");
    assert_eq!(e.estimate.as_ref().unwrap().at, from + policy.notice, "{e:?}");
    assert!(e.constraints.iter().any(|c| c.binding), "until then it waits: {e:?}");
    // One of the same rank has nobody stopped, now or later.
    let e = ask(&w, &JobSpec { priority: Priority::Low, ..gang(1, 8) }).unwrap();
    assert!(e.gives_way.is_empty() && e.estimate.is_none(), "{e:?}");
    // It happens as it was said.
    w.pass(from.since(w.now));
    let start = w.job(id).reserved_start.clone().unwrap();
    assert!(start.at >= from && start.at <= from + policy.notice + Span::secs(5), "{start:?}");
}

#[test]
fn a_reserved_start_stays_the_late_end_where_others_may_be_stopped_before_it() {
    let mut w = TestSite::new(1, 8);
    let (priority, checkpoint) = (Priority::Low, checkpoints(true));
    let running = w.run(JobSpec { priority, checkpoint, ..limited(1, 8, 60) });
    let policy = w.engine.state().policy.preemption.clone();
    let from = w.job(running).attempt.as_ref().unwrap().placed_at + policy.min_run;
    let id = w.submit(JobSpec { priority: Priority::High, ..limited(1, 8, 30) });
    let shown = w.job(id).reserved_start.clone().unwrap();
    assert_eq!(shown.basis, Basis::Limits);
    let e = w.explain(id);
    let said = e.estimate.clone().unwrap();
    assert_eq!((said.at, said.reserved), (shown.at, true), "as in every list: {e:?}");
    assert_eq!(said.earliest, Some(from + policy.notice), "{e:?}");
    assert!(said.basis.contains("the early end follows from preemption"), "{}", said.basis);
    assert_eq!((e.gives_way.as_slice(), e.gives_way_from), (&[running][..], Some(from)), "{e:?}");
}

#[test]
fn what_a_spec_names_is_asked_beforehand_too() {
    let mut w = TestSite::new(2, 8);
    let first = w.run(limited(1, 8, 60));
    let after = |job: &str| JobSpec { after: vec![job.into()], ..gang(1, 1) };
    let e = ask(&w, &after(&format!("{first}:any"))).unwrap();
    assert!(!e.starts_now && !e.impossible && e.would_go.is_none(), "{e:?}");
    assert_eq!(e.summary, format!("waits for job {first}, which is running"));
    let refused = ask(&w, &after("4242")).unwrap_err();
    assert_eq!(refused.code, RefusalCode::NotFound, "{refused:?}");
    let nowhere = JobSpec { project: Some("nope".parse().unwrap()), ..gang(1, 1) };
    assert_eq!(ask(&w, &nowhere).unwrap_err().code, RefusalCode::NotFound);
    let held = JobSpec { hold: true, ..gang(1, 1) };
    assert!(ask(&w, &held).unwrap().summary.contains("held"));
}

#[test]
fn a_directory_for_checkpoints_that_another_job_has_is_reported() {
    let mut w = TestSite::new(1, 8);
    let saves = JobSpec { checkpoint: checkpoints(false), ..gang(1, 1) };
    let warning = |e: &Explanation| {
        let notes: Vec<_> = e.constraints.iter().filter(|c| c.name == "checkpoint").collect();
        assert!(notes.len() < 2 && notes.iter().all(|c| c.warning && !c.binding), "{notes:?}");
        notes.first().map_or_else(String::new, |c| c.detail.clone())
    };
    assert_eq!(warning(&ask(&w, &saves).unwrap()), "");
    let first = w.run(saves.clone());
    assert_eq!(warning(&w.explain(first)), "");
    let may_warn = |w: &TestSite, id| w.engine.state().may_warn(w.job(id), w.now);
    assert!(!may_warn(&w, first));
    let (one, asked) = (format!("job {first}, which is running, saves to `/ckpt` too"), &saves);
    assert!(warning(&ask(&w, asked).unwrap()).starts_with(&one), "before it is submitted");
    assert!(ask(&w, asked).unwrap().starts_now, "and it is only reported");
    let mut slash = saves.clone();
    slash.checkpoint.as_mut().unwrap().dir = "/ckpt/".into();
    let held = w.submit(JobSpec { hold: true, ..slash });
    assert!(warning(&w.explain(held)).starts_with(&one), "while it waits");
    assert!(
        warning(&w.explain(first)).contains(&format!("job {held}, ")),
        "and of the one that runs"
    );
    assert!(may_warn(&w, held) && may_warn(&w, first), "whoever submits is asked to ask");
    // Who waits for the other goes on from there, and other projects have other users.
    let next = JobSpec { after: vec![format!("{first}:any")], ..saves.clone() };
    assert_eq!(warning(&ask(&w, &next).unwrap()), "");
    w.project("other");
    let other = JobSpec { project: Some("other".parse().unwrap()), ..saves.clone() };
    assert_eq!(warning(&ask(&w, &other).unwrap()), "");
    // Tasks of one array are one job.
    w.ok(Command::Cancel { job: held });
    w.finish(first);
    let array = w.submit(JobSpec { array: Some("0-1".into()), ..saves });
    assert_eq!(warning(&w.explain(array)), "");
    assert!(!may_warn(&w, array));
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
}

#[test]
fn the_limits_of_the_site_are_asked_beforehand_too() {
    let mut w = TestSite::new(1, 8);
    w.policy(|p| {
        p.limits.max_time = Some(Span::hours(2));
        p.limits.queued_jobs_per_user = Some(1);
    });
    let refused = |w: &mut TestSite, spec: &JobSpec| {
        let asked = ask(w, spec).unwrap_err();
        assert_eq!(w.try_as("ann", spec.clone()).unwrap_err(), asked);
        asked
    };
    assert_eq!(refused(&mut w, &limited(1, 8, 180)).code, RefusalCode::Policy);
    assert!(ask(&w, &gang(1, 8)).unwrap().starts_now);
    w.run(gang(1, 8));
    w.submit_as("ann", gang(1, 8));
    assert!(refused(&mut w, &gang(1, 8)).message.contains("jobs of ann wait already"));
}

#[test]
fn a_lemon_takes_small_preemptible_work_only() {
    let mut w = TestSite::new(1, 8);
    w.ok(Command::MarkNode { node: node(0), role: Some(NodeRole::Lemon), hazard: Some(300) });
    let normal = w.try_as("ann", gang(1, 8));
    if let Ok(id) = normal {
        assert_eq!(w.job(id).state, JobState::Queued);
    }
    let low = w.submit(JobSpec { priority: Priority::Low, ..gang(1, 8) });
    assert_eq!(w.job(low).state, JobState::Starting);
}

#[test]
fn a_submission_is_refused_as_its_dry_run_says_whatever_was_submitted_before() {
    let can_never_start = |w: &mut TestSite| {
        assert!(ask(w, &gang(1, 8)).unwrap().impossible);
        let no = w.send(Command::Submit { spec: Arc::new(gang(1, 8)) }).unwrap_err();
        assert_eq!(no.code, RefusalCode::Policy, "{}", no.message);
    };
    let mut w = TestSite::new(1, 8);
    w.ok(Command::MarkNode { node: node(0), role: Some(NodeRole::Lemon), hazard: None });
    w.submit(JobSpec { priority: Priority::Low, ..gang(1, 8) });
    can_never_start(&mut w);
    let mut w = TestSite::new(1, 8);
    w.run(gang(1, 8));
    // Less than a node of eight GPUs draws.
    w.policy(|p| {
        p.power.feeds.insert("A".into(), 1000);
    });
    can_never_start(&mut w);
}

#[test]
fn parts_of_gpus_share_one_and_say_when_they_do_not_fit() {
    let part = |milli: u32| {
        let mut spec = JobSpec::default();
        spec.gang.gpu_milli = Some(milli);
        spec
    };
    let mut w = TestSite::new(1, 1);
    let a = w.run(part(600));
    let b = w.run(part(400));
    assert_eq!(w.nodes_of(a), w.nodes_of(b));
    let c = w.submit(part(100));
    assert_eq!(w.job(c).state, JobState::Queued);
    assert_eq!(binding(&w, c), "capacity");
    w.finish(a);
    assert_eq!(w.job(c).state, JobState::Starting);
    assert_eq!(w.engine.state().used_gpus(&node(0)).len(), 1);
}
