//! A log written by the first version must load in every later one, and add up to the same
//! things. The files were begun anew once, when events were renamed before the first release. Since
//! then they are never rewritten: a new kind of event or a new shape adds a new pair.

use crate::common;
#[path = "golden/fifth.rs"]
mod fifth;
#[path = "golden/fourth.rs"]
mod fourth;
#[path = "golden/second.rs"]
mod second;
#[path = "golden/sixth.rs"]
mod sixth;
#[path = "golden/third.rs"]
mod third;

use common::{TestSite, crash, gang, node, replay};
use muster_engine::State;
use muster_model::command::{Command, IdempotencyKey, Observed};
use muster_model::event::{Record, SCHEMA};
use muster_model::ids::AttemptKey;
use muster_model::job::{JobState, SlotEnd};
use muster_model::spec::{CheckpointRequest, CheckpointSpec, Simulate};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::PathBuf;
use std::sync::Arc;

fn file(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("golden").join(name)
}

fn read_log(name: &str) -> Vec<Record> {
    let text = std::fs::read_to_string(file(name)).unwrap();
    text.lines().map(|l| muster_records::read(l.as_bytes()).unwrap()).collect()
}

/// A life that meets every kind of event.
fn life() -> TestSite {
    let mut w = TestSite::new(6, 8);
    w.ok(Command::Lead {
        epoch: muster_model::ids::Epoch(1),
        server: "server-1".into(),
        restored: false,
    });
    w.ok(Command::CreateProject { name: "research".parse().unwrap(), description: "r".into() });
    w.ok(Command::CreateToken {
        id: "abc".into(),
        name: "alice".parse().unwrap(),
        hash: "00".into(),
        usage: TokenUse::Api { role: Role::User, project: Some("research".parse().unwrap()) },
        ttl: Some(Span::mins(60)),
    });
    w.ok(Command::CreateToken {
        id: "join".into(),
        name: "rack-1".parse().unwrap(),
        hash: "11".into(),
        usage: TokenUse::Join { uses_left: Some(4) },
        ttl: None,
    });
    w.ok(Command::RevokeToken { id: "join".into() });
    let (project, name) = ("default".parse().unwrap(), "wandb-key".parse().unwrap());
    w.ok(Command::SetSecret { project, name });
    let (project, name) = ("research".parse().unwrap(), "old".parse().unwrap());
    w.ok(Command::SetSecret { project, name });
    let (project, name) = ("research".parse().unwrap(), "old".parse().unwrap());
    w.ok(Command::DeleteSecret { project, name });
    // A job with everything in its spec.
    let mut spec = gang(2, 8);
    spec.name = Some("train".parse().unwrap());
    spec.checkpoint = Some(CheckpointSpec {
        dir: "/ckpt".into(),
        request: CheckpointRequest { signal: Some("SIGUSR1".into()) },
        grace: Some(Span::secs(30)),
        interval: Some("auto".into()),
    });
    spec.time_limit = Some(Span::mins(30));
    spec.secrets = vec!["wandb-key".parse().unwrap()];
    spec.tags.insert("team".into(), "nlp".into());
    let train = w.submit(spec);
    w.start(train);
    w.ok(Command::AskCheckpoint { job: train });
    let key = w.key(train);
    w.ok(Command::CheckpointDone {
        key,
        step: Some(12),
        path: Some("/ckpt/12".into()),
        bytes: Some(1 << 30),
        blocked_ms: Some(900),
    });
    let gone = w.nodes_of(train)[0].clone();
    let i: usize = gone.as_str()[1..].parse().unwrap();
    w.pass(Span::secs(5));
    w.ok(Command::NodeLost { node: gone.clone(), last_seen: w.now });
    w.stopped(train);
    w.pass(Span::mins(3));
    w.connect(i, 8, "boot", vec![(key, Observed::Running)]);
    let observed = Observed::Ended(SlotEnd::Stopped);
    w.ok(Command::SlotReport { node: gone, key, observed, ago: None });
    w.start(train);
    w.pass(Span::mins(31));
    w.stopped(train);
    // Holds, arrays, dependencies, failures, cancels, requeues.
    let mut spec = gang(1, 1);
    spec.array = Some("0-3:2".into());
    spec.hold = true;
    let array = w.submit(spec);
    w.ok(Command::Release { job: array });
    let mut spec = gang(1, 2);
    spec.after = vec![format!("{array}:any")];
    spec.simulate = Some(Simulate {
        run: Span::mins(2),
        step: Some(Span(400)),
        checkpoint: None,
        exit_code: 0,
        idle: false,
        ..Simulate::default()
    });
    let waits = w.submit(spec);
    w.ok(Command::Hold { job: waits });
    w.ok(Command::Release { job: waits });
    w.start(array);
    let n = w.nodes_of(array)[0].clone();
    w.report(array, &n, crash(0, 3));
    w.ok(Command::Cancel { job: muster_model::ids::JobId(array.0 + 1) });
    w.start(waits);
    w.finish(waits);
    w.ok(Command::Requeue { job: waits });
    // An idempotent request.
    let request = muster_model::command::Request {
        actor: muster_model::command::Actor {
            name: "user:alice".into(),
            role: Role::User,
            project: Some("research".parse().unwrap()),
        },
        at: w.now,
        key: Some(IdempotencyKey {
            key: "user:alice/k".into(),
            fingerprint: "f".into(),
            keep_until: w.now + Span::mins(60),
        }),
        if_version: None,
        command: Command::Submit { spec: Arc::new(gang(1, 4)) },
    };
    w.request(&request).unwrap();
    // Nodes.
    w.ok(Command::Cordon { node: node(4), reason: "fan".into() });
    w.ok(Command::Uncordon { node: node(4) });
    w.ok(Command::Drain { node: node(5), reason: "swap".into(), stop: true });
    w.ok(Command::Undrain { node: node(5) });
    w.ok(Command::Drain { node: node(5), reason: "gone".into(), stop: true });
    w.ok(Command::Retire { node: node(5) });
    let stranger = AttemptKey { job: muster_model::ids::JobId(999), attempt: 1 };
    let observed = vec![(stranger, Observed::Running)];
    let met = common::connected(4, "b2", common::inventory(8), observed);
    w.ok(common::said_ahead(met, true));
    w.ok(Command::Reconcile { node: node(4) });
    w
}

fn line(r: &Record) -> String {
    String::from_utf8(r.to_json().unwrap()).unwrap()
}

fn kind(r: &Record) -> String {
    let record: Value = serde_json::from_str(&line(r)).unwrap();
    record["kind"].as_str().unwrap().to_string()
}

/// A log of an earlier shape, and what it added up to when it was written: by the version that made
/// the shape, with `MUSTER_WRITE_GOLDEN=1`, and never again. One that is not there is a failure, or
/// a shape that nobody holds later versions to would look like one that is held.
fn kept(name: &str, live: fn() -> TestSite, sum: &dyn Fn(&State) -> Value) -> (State, Value) {
    let (log, facts) = (format!("{name}.jsonl"), format!("{name}.facts.json"));
    if !file(&log).exists() && std::env::var_os("MUSTER_WRITE_GOLDEN").is_some() {
        let w = live();
        let s = w.engine.state();
        assert_eq!(sum(s), sum(&replay(&w.log)));
        let text: String = w.log.iter().map(|r| line(r) + "\n").collect();
        std::fs::write(file(&log), text).unwrap();
        let value = serde_json::to_string_pretty(&sum(s)).unwrap();
        std::fs::write(file(&facts), value + "\n").unwrap();
    }
    let state = replay(&read_log(&log));
    assert!(state.problems().is_empty(), "{:?}", state.problems());
    let want = serde_json::from_str(&std::fs::read_to_string(file(&facts)).unwrap()).unwrap();
    (state, want)
}

#[test]
fn the_first_versions_log_still_adds_up_to_the_same_things() {
    let (state, want) = kept("log-v1", life, &summary);
    assert_eq!(summary(&state), want);
}

/// What users would notice if it changed. Not a digest of the memory, which later versions may
/// lay out differently.
fn summary(s: &State) -> serde_json::Value {
    let jobs: Vec<_> = s
        .jobs
        .values()
        .map(|j| {
            serde_json::json!({
                "id": j.id, "name": j.name, "project": j.project, "state": j.state.word(),
                "attempts": j.attempts, "reason": j.reason, "exit_code": j.exit_code,
                "version": j.version,
            })
        })
        .collect();
    let nodes: Vec<_> = s
        .nodes
        .values()
        .map(|n| serde_json::json!({"name": n.name, "stage": n.stage, "reachable": n.reachable, "used": s.used_gpus(&n.name)}))
        .collect();
    serde_json::json!({
        "seq": s.seq, "site": s.site, "epoch": s.epoch, "jobs": jobs, "nodes": nodes,
        "tokens": s.tokens.keys().collect::<Vec<_>>(), "secrets": s.secrets, "keys": s.keys.len(),
    })
}

/// The second version's life: the first one's, and what is new.
fn second_life() -> TestSite {
    let mut w = life();
    second::live(&mut w);
    w
}

#[test]
fn the_second_versions_log_still_adds_up_to_the_same_things() {
    let both = |s: &State| serde_json::json!([summary(s), second::summary(s)]);
    let (state, mut want) = kept("log-v2", second_life, &both);
    // What a policy did not know yet has its default.
    let policy = &mut want[1]["policy"];
    let text = policy.to_string();
    let read: muster_model::policy::SitePolicy = serde_json::from_slice(text.as_bytes()).unwrap();
    *policy = serde_json::to_value(read).unwrap();
    assert!(both(&state) == want, "the log adds up to something else");
}

/// The third version's life: the second one's, and what is new.
fn third_life() -> TestSite {
    let mut w = second_life();
    third::live(&mut w);
    w
}

#[test]
fn the_third_versions_log_still_adds_up_to_the_same_things() {
    let all = |s: &State| serde_json::json!([summary(s), third::summary(s)]);
    let (state, want) = kept("log-v3", third_life, &all);
    assert!(all(&state) == want, "the log adds up to something else");
}

#[test]
fn the_fourth_versions_log_still_adds_up_to_the_same_things() {
    let (state, want) = kept("log-v4", fourth::live, &fourth::summary);
    assert!(fourth::summary(&state) == want, "the log adds up to something else");
}

/// Two lives: one with runbooks and notes, one with objectives and alerts, kept once more when
/// steps of clocks, preflights and escalations had joined it.
#[test]
fn the_fifth_versions_logs_still_add_up_to_the_same_things() {
    let (state, want) = kept("log-v5", fifth::live, &fifth::summary);
    assert_eq!(fifth::summary(&state), want);
    for name in ["log-v5-slo", "log-v5-clocks"] {
        let (state, want) = kept(name, sixth::live, &sixth::summary);
        assert_eq!(sixth::summary(&state), want, "{name}");
    }
}

#[test]
fn every_shape_of_the_log_has_a_golden_log() {
    for shape in 1..=SCHEMA {
        let name = format!("log-v{shape}.jsonl");
        assert!(file(&name).exists(), "{name} is missing: MUSTER_WRITE_GOLDEN=1 writes it");
        assert!(read_log(&name).iter().all(|r| r.v == shape), "{name} holds another shape");
    }
}

#[test]
fn the_golden_logs_hold_every_kind_of_event() {
    // JobsForgotten needs a hundred thousand ended jobs to happen by itself.
    let rare = ["jobs_forgotten"];
    // Those that are kept, not the lives as this version writes them: what only it has written nobody
    // holds the next one to.
    let mut newest = Vec::new();
    for name in ["log-v2", "log-v3", "log-v4", "log-v5", "log-v5-slo", "log-v5-clocks"] {
        newest.extend(read_log(&format!("{name}.jsonl")));
    }
    let seen: BTreeSet<String> = newest.iter().map(kind).collect();
    let source = include_str!("../../model/src/event.rs");
    let body = &source[source.find("pub enum Event").unwrap()..];
    let body = &body[..body.find("\n}").unwrap()];
    let all = body.lines().filter_map(|l| {
        let t = l.strip_prefix("    ")?;
        let name = t.split([' ', '(', ',']).next().filter(|n| !n.is_empty())?;
        name.starts_with(|c: char| c.is_ascii_uppercase()).then(|| snake(name))
    });
    let missing: Vec<String> =
        all.filter(|k| !seen.contains(k) && !rare.contains(&k.as_str())).collect();
    assert!(missing.is_empty(), "the golden log lacks {missing:?}");
    // Every reason to stop an attempt is in one of them too.
    let text: String = newest.iter().map(line).collect();
    for why in ["preempted", "resized", "moved", "reservation_begins", "idle", "unhealthy", "hung"]
    {
        assert!(text.contains(&format!("\"why\":\"{why}\"")), "the golden log lacks {why}");
    }
}

fn snake(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_ascii_uppercase() && !out.is_empty() {
            out.push('_');
        }
        out.push(c.to_ascii_lowercase());
    }
    out
}

#[test]
fn an_unknown_kind_of_event_is_an_error_and_not_skipped() {
    let line =
        r#"{"seq":1,"at":5,"v":1,"org":"default","actor":"system","kind":"gpu_melted","data":{}}"#;
    let e = muster_records::read(line.as_bytes()).unwrap_err().to_string();
    assert!(e.contains("gpu_melted"), "{e}");
    let mut s = State::default();
    let line = r#"{"seq":2,"at":5,"v":1,"org":"default","actor":"system","kind":"site_created","data":{"site":"x"}}"#;
    let r = muster_records::read(line.as_bytes()).unwrap();
    assert!(s.apply(&r).is_err(), "a gap in the log is an error");
    let _: (JobState, Time) = (JobState::Queued, Time(0));
}
