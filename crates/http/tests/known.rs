//! Sites of which it is known what happened and when, and what a real server over their logs answers. The
//! engine itself writes the logs, with a clock that the test moves.

#[path = "../../engine/tests/common/mod.rs"]
mod common;

use crate::truth::moment::{self, Site};
use common::{TestSite, connected, fault, gang, inventory, node, number};
use muster_api::Timestamp;
use muster_engine::{Engine, Policy};
use muster_model::command::{Command, Observed};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::node::Inventory;
use muster_model::slo::Objectives;
use muster_model::units::{Span, Time};
use muster_server::brain::clock;
use muster_simnode::Random;
use serde_json::{Value, json};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// One test at a time in a process: the log of another one moves the clock of this one's server.
fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Nodes with eight GPUs that can be tested, reset and restarted. It is later than everything that this process
/// has seen: the server's clock does not stand before its log, and never goes back.
fn site(nodes: usize) -> TestSite {
    let mut w = TestSite::begun(clock() + Span::hours(1)).with_nodes(nodes, 8);
    for i in 0..nodes {
        let can = ["qualify", "reset", "reboot"].map(String::from).into();
        w.ok(connected(i, "boot", Inventory { can, ..inventory(8) }, Vec::new()));
    }
    w
}

/// The same, which makes alerts: none about objectives.
fn alerted(nodes: usize) -> TestSite {
    let mut w = site(nodes);
    let policy = Policy { objectives: true, ..Policy::default() };
    w.engine = Engine::new(w.engine.state().clone(), policy);
    let none = Objectives { defaults: 0, ..Objectives::default() };
    w.ok(Command::SetObjectives { objectives: Arc::new(none) });
    w
}

/// What a server over this log answers to an administrator.
fn answers<const N: usize>(log: &[Record], paths: [&str; N]) -> [Value; N] {
    let dir = tempfile::tempdir().expect("a directory");
    moment::write(dir.path(), log);
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let said = runtime.block_on(async {
        let site = Site::open(dir.path(), &mut Random::new(1, &["known"])).await;
        let mut said = paths.map(|_| Value::Null);
        for (path, said) in paths.iter().zip(&mut said) {
            *said = site.get(path).await;
        }
        site.close().await;
        said
    });
    // What still reads the log has nobody left to inform.
    runtime.shutdown_timeout(Duration::from_secs(1));
    said
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The ranks of a job leave after two seconds, and nobody hears of those on a lost node. Those of its next
/// attempt are up three seconds after their placement, and make a step five seconds later.
fn comes_back(w: &mut TestSite, job: JobId, lost: Option<&NodeName>) {
    w.pass(Span::secs(2));
    let key = w.key(job);
    for node in w.nodes_of(job).into_iter().filter(|n| Some(n) != lost) {
        let observed = Observed::Ended(SlotEnd::Stopped);
        w.ok(Command::SlotReport { node, key, observed, ago: None });
    }
    let placed = |w: &TestSite| w.job(job).attempt_key().is_some_and(|now| now != key);
    for _ in 0..600 {
        if !placed(w) {
            w.sleep(Span::secs(1));
        }
    }
    assert!(placed(w), "{:?}", w.job(job));
    w.pass(Span::secs(3));
    w.start(job);
    w.pass(Span::secs(5));
    w.ok(Command::FirstStep { key: w.key(job) });
    w.pass(Span::secs(60));
}

/// When something was written down first.
fn first(w: &TestSite, fits: impl Fn(&Event) -> bool) -> Time {
    w.log.iter().find(|r| fits(&r.event)).expect("it is in the log").at
}

/// The way back of a job's first attempt by the log alone, from when its trouble began.
fn way_back(w: &TestSite, job: JobId, began: Time) -> Value {
    let (one, two) = (AttemptKey { job, attempt: 1 }, AttemptKey { job, attempt: 2 });
    let decided = first(w, |e| matches!(e, Event::StopOrdered { key, .. } if *key == one));
    let gone = |r: &&Record| matches!(&r.event, Event::SlotEnded { key, .. } if *key == one);
    let drained = w.log.iter().rev().find(gone).expect("its ranks have ended").at;
    let placed = first(w, |e| matches!(e, Event::JobPlaced { key, .. } if *key == two));
    let started = first(w, |e| matches!(e, Event::AttemptStarted { key, .. } if *key == two));
    let working = first(w, |e| matches!(e, Event::AttemptProgressed { key } if *key == two));
    json!({
        "attempt": 1,
        "fault_at": Timestamp(began),
        "found_at": Timestamp(decided),
        "decided_at": Timestamp(decided),
        "drained_at": Timestamp(drained),
        "placed_at": Timestamp(placed),
        "started_at": Timestamp(started),
        "working_at": Timestamp(working),
        "detect_ms": decided.since(began).0,
        "decide_ms": 0,
        "drain_ms": drained.since(decided).0,
        "place_ms": placed.since(drained).0,
        "start_ms": started.since(placed).0,
        "load_ms": working.since(started).0,
        "held_ms": null,
        "total_ms": working.since(began).0,
    })
}

/// What begins a trouble, and what is known of it when it is found.
type Trouble = fn(&mut TestSite, JobId, Time) -> Option<NodeName>;

#[test]
fn the_way_back_is_counted_from_the_beginning_of_every_kind_of_trouble() {
    let _alone = alone();
    let lost_node: Trouble = |w, job, heard| {
        let node = w.nodes_of(job)[0].clone();
        w.ok(Command::NodeLost { node: node.clone(), last_seen: heard });
        Some(node)
    };
    let kernel_line: Trouble = |w, job, line| {
        let mut f = fault("xid-79", 3);
        f.at = line;
        let node = w.nodes_of(job)[0].clone();
        w.ok(Command::FaultsSeen { node, faults: vec![f] });
        None
    };
    let hang: Trouble = |w, job, step| {
        let mut f = ObservedFinding::new("hang", Entity::Job(job), Severity::Critical, w.now);
        (f.first_seen, f.attempt, f.rank) = (step, Some(w.key(job)), Some(1));
        w.ok(Command::FindingsSeen { findings: vec![f] });
        None
    };
    let metric: Trouble = |w, job, value| {
        let gpu = Entity::Gpu(w.nodes_of(job)[0].clone(), 3);
        let mut f = ObservedFinding::new("gpu-off-bus", gpu, Severity::Critical, w.now);
        f.first_seen = value;
        w.ok(Command::FindingsSeen { findings: vec![f] });
        None
    };
    let kinds = [
        ("the last heartbeat", 31, lost_node),
        ("the first line of the kernel", 4, kernel_line),
        ("the last step", 300, hang),
        ("the first bad value", 20, metric),
    ];
    for (kind, detected, trouble) in kinds {
        let mut w = site(4);
        let job = w.run(gang(2, 8));
        w.pass(Span::secs(60));
        let began = w.now;
        w.pass(Span::secs(detected));
        let lost = trouble(&mut w, job, began);
        comes_back(&mut w, job, lost.as_ref());
        let (shown, report) = (format!("/v1/jobs/{job}"), format!("/v1/jobs/{job}/report"));
        let [shown, report, fleet] = answers(&w.log, [&*shown, &*report, "/v1/reports/fleet"]);
        let said = &shown["recovery"];
        let known = way_back(&w, job, began);
        for (part, known) in known.as_object().expect("its parts") {
            assert_eq!(&said[part], known, "{kind}: {part}: {said:#}");
        }
        let parts = ["detect_ms", "drain_ms", "start_ms", "load_ms"].map(|p| &said[p]);
        assert_eq!(parts, [&json!(detected * 1000), &json!(2000), &json!(3000), &json!(5000)]);
        // The reports count the same way back.
        assert_eq!(report["recover_ms"], said["total_ms"], "{kind}: {report:#}");
        assert_eq!(fleet["total"]["recover_ms"], said["total_ms"], "{kind}: {fleet:#}");
    }
}

/// Of what is affected: the one job with its 32 GPUs, and an alert of this topic that counts it so.
#[track_caller]
fn affects_one_job(job: JobId, topic: &str, (alerts, causes): (&Value, &Value)) {
    let about: Vec<&Value> = items(alerts).iter().filter(|a| a["topic"] == topic).collect();
    assert_eq!(about.len(), 1, "{alerts:#}");
    assert_eq!((&about[0]["jobs"], &about[0]["gpus"]), (&json!(1), &json!(32)), "{alerts:#}");
    let of = |c: &&Value| items_of(c, "alerts").iter().any(|a| a["id"] == about[0]["id"]);
    let cause = items(causes).iter().find(of).unwrap_or_else(|| panic!("{causes:#}"));
    assert_eq!(cause["jobs_affected"], 1, "{cause:#}");
    let jobs: Vec<_> = items_of(cause, "jobs").iter().map(|j| (&j["id"], &j["gpus"])).collect();
    assert_eq!(jobs, [(&json!(job.to_string()), &json!(32))], "{cause:#}");
    let shown = &items_of(cause, "alerts")[0];
    assert_eq!((&shown["jobs"], &shown["gpus"]), (&json!(1), &json!(32)), "{cause:#}");
}

fn items_of<'a>(v: &'a Value, part: &str) -> &'a [Value] {
    v[part].as_array().map(Vec::as_slice).unwrap_or_default()
}

#[test]
fn one_gpu_off_the_bus_that_stops_32_is_shown_so_everywhere() {
    let _alone = alone();
    let mut w = alerted(16);
    let job = w.run(gang(4, 8));
    w.run(gang(1, 8));
    let (node, key) = (w.nodes_of(job)[0].clone(), w.key(job));
    let mut f = fault("xid-79", 0);
    (f.at, f.attempt, f.rank) = (w.now, Some(key), Some(0));
    w.ok(Command::FaultsSeen { node: node.clone(), faults: vec![f] });
    w.sleep(Span::secs(3));
    let shown = format!("/v1/jobs/{job}");
    let paths = [&*shown, "/v1/findings?open=true", "/v1/alerts?open=true", "/v1/causes"];
    let [shown, findings, alerts, causes] = answers(&w.log, paths);
    assert_eq!(shown["state"], "stopping", "{shown:#}");
    let gpus = items_of(&shown["attempt"], "slots").iter().map(|s| items_of(s, "gpus").len());
    assert_eq!(gpus.sum::<usize>(), 32, "{shown:#}");
    let found: Vec<_> = items(&findings).iter().filter(|f| f["kind"] == "gpu-off-bus").collect();
    assert_eq!(found.len(), 1, "{findings:#}");
    let of = (&found[0]["entity"], &found[0]["job"], &found[0]["attempt"]);
    let known = (json!(format!("gpu:{node}/0")), json!(job.0), json!(key.to_string()));
    assert_eq!(of, (&known.0, &known.1, &known.2), "{findings:#}");
    affects_one_job(job, "finding", (&alerts, &causes));
}

#[test]
fn an_incident_that_stops_32_gpus_counts_them_and_names_the_job() {
    let _alone = alone();
    let mut w = alerted(32);
    // One job on all nodes of a leaf, and no place for it elsewhere.
    let job = w.run(gang(8, 4));
    let leaf = number(&w.nodes_of(job)[0]) / 8;
    assert!(w.nodes_of(job).iter().all(|n| number(n) / 8 == leaf), "{:?}", w.nodes_of(job));
    for _ in 0..24 {
        w.run(gang(1, 8));
    }
    for i in leaf * 8..(leaf + 1) * 8 {
        w.lose(&node(i));
    }
    w.sleep(Span::secs(40));
    let incident = w.engine.state().health.open_incidents().next().expect("an incident").id;
    let record = format!("/v1/incidents/{incident}/record");
    let [record, alerts, causes] =
        answers(&w.log, [&*record, "/v1/alerts?open=true", "/v1/causes"]);
    assert_eq!(record["impact"]["jobs"], json!([job.0]), "{record:#}");
    affects_one_job(job, "incident", (&alerts, &causes));
}
