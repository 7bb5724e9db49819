//! What jobs share stands in a snapshot once, and is shared again when it is read.

use crate::common::{TestSite, connected, gang, inventory, node, replay, report};
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, SnapshotError, State};
use muster_model::command::{Actor, Command, Request};
use muster_model::ids::JobId;
use muster_model::job::JobState;
use muster_model::node::{GpuFacts, GpuLink, Inventory, Nic, Stage};
use muster_model::qualification::{Level, Outcome};
use muster_model::spec::{JobSpec, Priority, Volume};
use muster_model::units::Span;
use serde_json::{Value, json};
use std::sync::Arc;

/// A spec of about 50 KB, submitted on hold.
fn large(array: &str) -> JobSpec {
    let path = |n: usize| format!("/data/{n:03}{}", "x".repeat(390));
    let volume = |n| Volume { from: path(n), at: path(n), read_only: true };
    let volumes = (0..60).map(volume).collect();
    JobSpec { array: Some(array.into()), hold: true, volumes, ..gang(1, 1) }
}

/// A site with an array of a hundred tasks that differ in how they stand, and a job beside it.
fn site() -> (TestSite, JobId) {
    let mut w = TestSite::new(1, 8);
    let first = w.submit(large("0-99"));
    w.ok(Command::Cancel { job: JobId(first.0 + 3) });
    w.ok(Command::Release { job: JobId(first.0 + 4) });
    w.gang(1, 1);
    (w, first)
}

/// What task `n` of an array is changed to.
fn change(n: u64) -> (Priority, Option<Span>) {
    let priority = if n.is_multiple_of(2) { Priority::Low } else { Priority::High };
    (priority, Some(Span::mins(n + 1)))
}

/// Changes the first tasks of an array, each in a way of its own.
fn change_each(w: &mut TestSite, first: JobId, tasks: u64) {
    for n in 0..tasks {
        let (job, (priority, time_limit)) = (JobId(first.0 + n), change(n));
        let command = Command::UpdateJob { job, priority: Some(priority), time_limit };
        // The world itself would look at every invariant after each.
        let (actor, at) = (Actor::system(), w.now);
        w.engine.handle(&Request { actor, at, key: None, if_version: None, command }).unwrap();
    }
    w.tick();
}

fn assert_changed(state: &State, first: JobId, tasks: u64) {
    let spec = |n: u64| &state.jobs[&JobId(first.0 + n)].spec;
    for n in 0..tasks {
        assert_eq!((spec(n).priority, spec(n).time_limit), change(n), "task {n}");
        assert!(Arc::ptr_eq(spec(0).shared(), spec(n).shared()), "task {n} has a copy");
    }
}

fn assert_shared(state: &State, first: JobId) {
    let task = |n: u64| &state.jobs[&JobId(first.0 + n)];
    for n in [1, 3, 4, 99] {
        assert!(Arc::ptr_eq(task(0).spec.shared(), task(n).spec.shared()), "spec of task {n}");
        assert!(Arc::ptr_eq(&task(0).groups, &task(n).groups), "groups of task {n}");
        assert!(Arc::ptr_eq(&task(0).depends, &task(n).depends), "dependencies of task {n}");
        assert!(std::ptr::eq(task(0).name.as_str(), task(n).name.as_str()), "name of task {n}");
    }
}

/// The same state as one JSON value, as older versions wrote it.
fn format_1(bytes: &[u8]) -> Vec<u8> {
    let mut lines = bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty());
    let mut value = || lines.next().map(|l| serde_json::from_slice::<Value>(l).unwrap());
    let mut state = value().unwrap()["state"].take();
    let kinds = ["spec", "groups", "depends"];
    let mut parts: [Vec<Value>; 3] = Default::default();
    let mut jobs = Vec::new();
    while let Some(mut line) = value() {
        for (kind, known) in kinds.iter().zip(&mut parts) {
            if let Some(part) = line.get_mut("part").and_then(|p| p.get_mut(*kind)) {
                known.push(part.take());
            }
        }
        if let Some(folded) = line.get_mut("job") {
            let mut job = folded["job"].take();
            for (kind, known) in kinds.iter().zip(&parts) {
                let n = folded[*kind].as_u64().unwrap();
                job[*kind] = known[usize::try_from(n).unwrap()].clone();
            }
            set_own(&mut job["spec"], folded);
            jobs.push(job);
        }
    }
    state["jobs"] = json!(jobs);
    serde_json::to_vec(&state).unwrap()
}

/// The priority and the time limit of a folded job that are not those of its spec.
fn set_own(spec: &mut Value, folded: &mut Value) -> bool {
    let own = folded.as_object_mut().unwrap().remove("own");
    let Some(own) = own else { return false };
    (spec["priority"], spec["time_limit"]) = (own[0].clone(), own[1].clone());
    true
}

/// The same state as the version before wrote it: each changed spec stands there as a whole.
fn format_2(bytes: &[u8]) -> Vec<u8> {
    let (mut specs, mut numbers, mut written) = (Vec::new(), Vec::new(), 0);
    let mut out = Vec::new();
    let mut put = |line: &Value| {
        serde_json::to_writer(&mut out, line).unwrap();
        out.push(b'\n');
    };
    for line in bytes.split(|b| *b == b'\n').filter(|l| !l.is_empty()) {
        let mut line: Value = serde_json::from_slice(line).unwrap();
        if let Some(spec) = line.get("part").and_then(|p| p.get("spec")) {
            specs.push(spec.clone());
            numbers.push(written);
            written += 1;
        }
        if let Some(folded) = line.get_mut("job") {
            let n = usize::try_from(folded["spec"].as_u64().unwrap()).unwrap();
            let mut spec = specs[n].clone();
            let own = set_own(&mut spec, folded);
            folded["spec"] = json!(if own { written } else { numbers[n] });
            if own {
                put(&json!({"part": {"spec": spec}}));
                written += 1;
            }
        }
        put(&line);
    }
    out
}

#[test]
fn tasks_of_an_array_share_their_spec_in_a_snapshot_and_after_it() {
    let (w, first) = site();
    let before = w.engine.state();
    assert_shared(before, first);
    let bytes = before.to_bytes().unwrap();
    assert!(bytes.len() < 1_000_000, "{} bytes for a spec of 50 KB", bytes.len());
    let read = State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_eq!(read.jobs, before.jobs);
    assert_eq!(read.digest(), before.digest());
    assert_shared(&read, first);
    assert!(read.problems().is_empty(), "{:?}", read.problems());
    assert_eq!(read.to_bytes().unwrap(), bytes, "the same state gives the same bytes");
}

#[test]
fn the_bytes_do_not_depend_on_who_shares_what() {
    let (mut w, first) = site();
    change_each(&mut w, JobId(first.0 + 10), 20);
    let shared = w.engine.state();
    let mut apart = shared.clone();
    for job in apart.jobs.values_mut() {
        let spec = JobSpec::clone(&job.spec.whole());
        Arc::make_mut(job).spec = spec.into();
    }
    assert_eq!(apart.digest(), shared.digest());
    assert!(apart.to_bytes().unwrap() == shared.to_bytes().unwrap(), "equal states, other bytes");
}

#[test]
fn a_snapshot_of_an_older_version_is_read_and_its_jobs_share_again() {
    let (w, first) = site();
    let before = w.engine.state();
    let old = format_1(&before.to_bytes().unwrap());
    assert!(old.len() > 4_000_000, "every task has a copy of its own: {} bytes", old.len());
    let read = State::from_bytes(1, &old).unwrap();
    assert_eq!(read.jobs, before.jobs);
    assert_eq!(read.digest(), before.digest());
    assert_shared(&read, first);
}

#[test]
fn a_task_that_was_changed_costs_what_was_changed_of_it() {
    let mut w = TestSite::new(1, 8);
    let first = w.submit(large("0-999"));
    let (from, plain) = (w.log.len(), w.engine.state().to_bytes().unwrap().len());
    change_each(&mut w, first, 1000);
    // In the log,
    let text: usize = w.log[from..].iter().map(|r| r.to_json().unwrap().len()).sum();
    assert!(text < 1_000_000, "{text} bytes for a thousand changes");
    // in memory, also after a start without a snapshot,
    assert_changed(w.engine.state(), first, 1000);
    assert_changed(&replay(&w.log), first, 1000);
    // in a snapshot, and after a start with it.
    let before = w.engine.state();
    let bytes = before.to_bytes().unwrap();
    assert!(bytes.len() < plain + 100_000, "{} bytes, {plain} before", bytes.len());
    let read = State::from_bytes(SNAPSHOT_FORMAT, &bytes).unwrap();
    assert_changed(&read, first, 1000);
    assert_eq!(read.jobs, before.jobs);
    assert_eq!(read.to_bytes().unwrap(), bytes, "the same state gives the same bytes");
}

#[test]
fn what_older_versions_wrote_of_changed_tasks_is_read_and_shared_again() {
    let mut w = TestSite::new(1, 8);
    let first = w.submit(large("0-99"));
    change_each(&mut w, first, 90);
    w.gang(1, 1);
    let before = w.engine.state();
    let bytes = before.to_bytes().unwrap();
    for (format, old) in [(1, format_1(&bytes)), (2, format_2(&bytes))] {
        assert!(old.len() > 4_000_000, "every task has a copy of its own: {} bytes", old.len());
        let read = State::from_bytes(format, &old).unwrap();
        assert_changed(&read, first, 90);
        assert_eq!(read.jobs, before.jobs);
        assert_eq!(read.digest(), before.digest());
        assert_eq!(read.to_bytes().unwrap(), bytes, "what is written next is small");
    }
}

#[test]
fn a_snapshot_that_is_cut_altered_or_newer_is_refused() {
    let mut w = TestSite::new(1, 8);
    w.gang(1, 1);
    let bytes = w.engine.state().to_bytes().unwrap();
    let text = String::from_utf8(bytes.clone()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let refused = |lines: &[&str]| {
        let e = State::from_bytes(SNAPSHOT_FORMAT, lines.join("\n").as_bytes()).err().unwrap();
        std::error::Error::source(&e).unwrap().to_string()
    };
    let end = lines.len() - 1;
    assert!(refused(&lines[..end]).contains("cut short"));
    assert!(refused(&lines[1..]).contains("does not begin with the state"));
    let without_part: Vec<&str> =
        lines.iter().filter(|l| !l.starts_with(r#"{"part":{"spec""#)).copied().collect();
    assert!(refused(&without_part).contains("a part that is not there"));
    let without_job: Vec<&str> =
        lines.iter().filter(|l| !l.starts_with(r#"{"job""#)).copied().collect();
    assert!(refused(&without_job).contains("has 0 jobs and announces 1"));
    assert!(refused(&[&lines[..], &lines[end..]].concat()).contains("something follows"));
    assert!(State::from_bytes(SNAPSHOT_FORMAT, &bytes[..bytes.len() / 2]).is_err());
    assert!(State::from_bytes(SNAPSHOT_FORMAT, b"").is_err());
    let newer = State::from_bytes(SNAPSHOT_FORMAT + 1, &bytes).err().unwrap();
    assert!(matches!(newer, SnapshotError::Newer(n) if n == SNAPSHOT_FORMAT + 1));
}

/// A node as agents of real ones report it: 8 GPUs with their links, and network cards.
fn real() -> Inventory {
    let peer = Some("00000000:05:00.0".to_owned());
    let link = |link: u32| GpuLink { link, active: true, peer: peer.clone() };
    let mut all = inventory(8);
    for g in &mut all.gpus {
        g.uuid = format!("GPU-7f1d2a9c-0b1e-4c55-9a41-00000000000{}", g.index);
        (g.serial, g.pci) = (Some("1324223058123".into()), peer.clone());
        let links = (0..18).map(link).collect();
        g.facts = Some(Box::new(GpuFacts { links, ..GpuFacts::default() }));
    }
    let nic = |n: usize| Nic {
        name: format!("mlx5_{n}"),
        kind: "infiniband".into(),
        address: Some("0c42:a103:00b7:1f5a".into()),
        speed_mbps: Some(400_000),
        state: Some("active".into()),
        rail: Some(n.to_string()),
    };
    let versions = [("driver", "580.95.05"), ("cuda", "13.0")];
    let versions = versions.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
    let can = ["qualify".to_owned()].into();
    Inventory { nics: (0..8).map(nic).collect(), versions, can, ..all }
}

#[test]
fn a_retired_node_costs_little_although_it_is_stored_for_ever() {
    let mut w = TestSite::new(2, 8);
    let n = node(1);
    w.ok(Command::NoteNodeKey { node: n.clone(), key: "ab12".into() });
    w.ok(connected(1, "boot", real(), Vec::new()));
    w.ok(Command::Qualify { node: n.clone(), level: Level::Quick });
    let id = w.engine.state().nodes[&n].qualifying.expect("it is tested").id;
    let mut tests = report(Outcome::Passed, 700);
    tests.checks = vec![tests.checks[0].clone(); 80];
    w.ok(Command::QualificationDone { node: n.clone(), id, report: tests });
    let size = |s: &State| serde_json::to_vec(&*s.nodes[&n]).unwrap().len();
    let before = size(w.engine.state());
    assert!(before > 15_000, "{before} bytes while it is in use");
    w.ok(Command::Drain { node: n.clone(), reason: "sold".into(), stop: false });
    let full = Arc::clone(&w.engine.state().nodes[&n]);
    w.ok(Command::Retire { node: n.clone() });
    let after = size(w.engine.state());
    assert!(after < 3_500, "{after} bytes once it is retired");
    let gone = &w.engine.state().nodes[&n];
    assert_eq!((gone.stage, gone.sku()), (Stage::Retired, "h100-sxm"));
    assert_eq!(gone.inventory.gpus.len(), 8);
    assert_eq!(gone.enrolment.as_deref(), Some("ab12"), "certificates are still refused by it");
    assert_eq!(replay(&w.log).digest(), w.engine.state().digest());
    // One of which an older version stored everything.
    let mut old = w.engine.state().clone();
    let kept = Arc::make_mut(old.nodes.get_mut(&n).unwrap());
    (kept.qualified, kept.inventory) = (full.qualified.clone(), full.inventory.clone());
    assert!(size(&old) > 10_000);
    let read = State::from_bytes(SNAPSHOT_FORMAT, &old.to_bytes().unwrap()).unwrap();
    assert_eq!(read.digest(), w.engine.state().digest());
}

/// An older version kept the hold, and released the job when somebody queued it again.
#[test]
fn a_job_of_an_older_snapshot_that_ended_while_it_was_held_starts_when_it_is_queued_again() {
    let mut w = TestSite::new(1, 8);
    let id = w.submit(JobSpec { hold: true, ..gang(1, 1) });
    let held = w.job(id).held.clone();
    assert!(held.is_some());
    w.ok(Command::Cancel { job: id });
    let mut old = w.engine.state().clone();
    Arc::make_mut(old.jobs.get_mut(&id).unwrap()).held = held;
    let read = State::from_bytes(SNAPSHOT_FORMAT, &old.to_bytes().unwrap()).unwrap();
    assert_eq!(read.digest(), w.engine.state().digest());
    w.engine = Engine::new(read, Policy::default());
    w.ok(Command::Requeue { job: id });
    w.pass(Span::secs(1));
    assert_eq!((w.job(id).state, w.job(id).held.as_ref()), (JobState::Starting, None));
}

#[test]
fn a_copy_without_what_is_derived_packs_to_the_same_bytes() {
    let (mut w, _) = site();
    w.gang(1, 8);
    let whole = w.engine.state();
    let copy = whole.without_index();
    assert_eq!(copy.to_bytes().unwrap(), whole.to_bytes().unwrap());
    assert_eq!(copy.digest(), whole.digest());
    assert!(whole.queue_len() > 0, "something is derived");
    assert_eq!(copy.queue_len(), 0, "and is not copied");
    // With all of it built anew it is a state like any other.
    let again = copy.indexed();
    assert_eq!(again.problems(), Vec::<String>::new());
    assert!(again.queue().eq(whole.queue()));
    assert_eq!(again.to_bytes().unwrap(), whole.to_bytes().unwrap());
}
