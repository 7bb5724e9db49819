//! No node and no job can fill the log.

use super::support::{Line, Site, node, script, site, spec};
use crate::agents::checkpoints::{BURST, EVERY};
use crate::agents::node_entry::NodeEntry;
use muster_link::messages::{
    FromAgent, FromServer, Hello, LogChunk, ProgressReport, Stream, Telemetry,
};
use muster_model::command::Observed;
use muster_model::event::{Event, Record};
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{Exit, JobState, SlotEnd};
use muster_model::node::{Disk, Nic};
use muster_model::units::{Bytes, Span, Time};
use serde_json::json;
use std::sync::Arc;

async fn records(s: &Site) -> Vec<Arc<Record>> {
    s.brain.records(Seq(0), 10_000).await.unwrap()
}

async fn count(s: &Site, is: impl Fn(&Event) -> bool) -> u64 {
    records(s).await.iter().filter(|r| is(&r.event)).count() as u64
}

#[tokio::test]
async fn what_a_node_says_of_an_end_is_cut_before_it_is_written() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("x")).await;
    let key = s.runs(job, &mut line).await;
    let reason = format!("\u{1b}[2J\u{202e}no\nprogram {}", "x".repeat(1 << 20));
    let observed = Observed::Ended(SlotEnd::Unstartable { reason });
    line.say(FromAgent::Report { key, observed, ago: None }).await;
    s.until(|st| st.jobs[&job].state == JobState::Failed).await;
    let mut reported = 0;
    for r in records(&s).await {
        let text = String::from_utf8(r.to_json().unwrap()).unwrap();
        assert!(text.len() < 16 << 10, "{} bytes: {}", text.len(), &text[..200]);
        if let Event::SlotEnded { end: SlotEnd::Unstartable { reason }, .. } = &r.event {
            assert!(reason.starts_with("\\u{1b}[2J\\u{202e}no program xx"), "{reason}");
            assert!(reason.ends_with("… (cut)") && reason.len() <= 1024, "{reason}");
            reported += 1;
        }
    }
    assert_eq!(reported, 1);
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_with_a_reason() {
    let s = site().await;
    let (mut agent, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("x")).await;
    let key = s.runs(job, &mut line).await;
    agent.hello.observed = vec![(key, Observed::Running)];
    let why = async |line: &mut Line| {
        let refused = line.hear_of(|m| match m {
            FromServer::Refused { code, message, retry } => Some((code, message, retry)),
            _ => None,
        });
        let (code, message, retry) = refused.await;
        assert!(code == "protocol" && retry && message.len() <= 1024, "{code}: {message}");
        line.is_closed().await;
        message
    };
    let ago = json!({"type": "report", "key": key, "observed": "running", "ago": [1]});
    line.say_anything(&ago).await;
    assert!(why(&mut line).await.starts_with("a frame cannot be read: "));
    let unknown = json!({"type": "x\u{1b}".repeat(9000)});
    for (first, said) in
        [(unknown, "x\\u{1b}"), (json!({"type": "hello", "node": "n1"}), "protocol")]
    {
        let mut line = Line::open(&agent.addr, agent.config.clone()).await.unwrap();
        line.say_anything(&first).await;
        let message = why(&mut line).await;
        assert!(message.contains(said), "{message}");
    }
    // Output past the end of all streams.
    let (mut line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    let (age, data) = (Some(Span(0)), "x".into());
    let past = LogChunk { key, rank: 0, stream: Stream::Stdout, offset: u64::MAX, age, data };
    line.log(&past).await;
    assert!(why(&mut line).await.contains("past the end of all streams"));
}

#[test]
fn a_node_that_sends_rows_without_end_has_most_of_them_dropped() {
    let (node_entry, start) = (NodeEntry::default(), Time(1_000_000));
    let accepted = |at: Time| node_entry.may_send_row(at, Span::secs(10), 120);
    let first = (0..1_671).filter(|_| accepted(start)).count();
    let later = (0..1_671).filter(|_| accepted(start + Span::secs(10))).count();
    assert_eq!((first, later), (120, 10));
}

#[tokio::test]
async fn names_that_a_terminal_would_obey_are_not_taken_from_a_node() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let host = [("load".to_owned(), 1.0), ("x\u{1b}[2J\u{7}".to_owned(), 1.0)].into();
    let row = Telemetry { at: Time(5), columns: Vec::new(), gpus: Vec::new(), host };
    line.say(FromAgent::Telemetry(Box::new(row))).await;
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear().await;
    let seen = s.agents.telemetry(&node("n1")).unwrap();
    assert_eq!(seen.host_columns[..], ["load".to_owned()]);
    assert_eq!(s.agents.unaccepted_metrics(), 1);
}

/// Something in a hello that is more than any node has to say.
type TooMuch = (&'static str, fn(&mut Hello));

#[tokio::test]
async fn a_hello_that_says_too_much_is_refused_and_nothing_of_it_is_written() {
    let s = site().await;
    let (mut agent, line) = s.idle("n1").await;
    drop(line);
    let good = agent.hello.clone();
    let before = s.brain.read(|st| st.nodes[&node("n1")].clone());
    let all: [TooMuch; 12] = [
        // Written out, each of these characters has six bytes.
        ("inventory has", |h| {
            let (name, kind) = ("\u{1b}".repeat(42), "ethernet".to_owned());
            let nic = Nic { name, kind, address: None, speed_mbps: None, state: None, rail: None };
            h.inventory.nics = vec![nic; 1000];
        }),
        ("inventory.kernel has 1048576 bytes", |h| h.inventory.kernel = "k".repeat(1 << 20)),
        ("boot", |h| h.boot = "b".repeat(257)),
        ("address", |h| h.address = "a".repeat(1 << 20)),
        ("place", |h| h.place = "p".repeat(1 << 20)),
        ("observed", |h| {
            let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
            h.observed = (1..20_000).map(|job| (key(job), Observed::Running)).collect();
        }),
        ("inventory.versions", |h| {
            h.inventory.versions = (0..50_000).map(|n| (format!("v{n}"), "1".into())).collect();
        }),
        ("inventory.gpus has 10000 entries", |h| {
            let gpu = h.inventory.gpus[0].clone();
            h.inventory.gpus = vec![gpu; 10_000];
        }),
        ("inventory.gpus", |h| h.inventory.gpus[1].serial = Some("s".repeat(1000))),
        ("inventory.nics", |h| {
            let (name, kind) = ("eth0".to_owned(), "ethernet".to_owned());
            let nic = Nic { name, kind, address: None, speed_mbps: None, state: None, rail: None };
            h.inventory.nics = vec![nic; 5000];
        }),
        ("inventory.disks", |h| {
            let (name, size) = ("d".repeat(1000), Bytes::gib(1));
            h.inventory.disks = vec![Disk { name, size, model: None, rotational: None }];
        }),
        ("control characters", |h| {
            h.inventory.can.insert("re\u{7}set".to_owned());
        }),
    ];
    for (what, change) in all {
        agent.hello = good.clone();
        change(&mut agent.hello);
        match agent.greet().await.1 {
            FromServer::Refused { code, message, retry: false } => {
                assert_eq!(code, "protocol");
                assert!(message.contains(what) && message.contains("n1"), "{what}: {message}");
            }
            other => panic!("{what}: {other:?}"),
        }
    }
    let after = s.brain.read(|st| st.nodes[&node("n1")].clone());
    assert_eq!((&before.boot, &before.inventory), (&after.boot, &after.inventory));
    // Texts are made plain.
    agent.hello = good;
    agent.hello.inventory.gpus[0].sku = "h100\u{1b}]0;x\u{7}\u{202e}".into();
    let (_line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    let sku = s.brain.read(|st| st.nodes[&node("n1")].sku().to_owned());
    assert_eq!(sku, "h100\\u{1b}]0;x\\u{7}\\u{202e}");
}

#[tokio::test]
async fn a_node_that_changes_with_each_connection_is_written_down_only_so_often() {
    let s = site().await;
    let (mut agent, line) = s.idle("n1").await;
    drop(line);
    let began = s.agents.inner.clock();
    let (mut welcome, mut refused) = (0, 0);
    for n in 0..40 {
        agent.hello.boot = format!("boot-{n}-anew");
        agent.hello.inventory.kernel = format!("6.{n}");
        match agent.greet().await.1 {
            FromServer::Welcome { .. } => welcome += 1,
            FromServer::Refused { code, message, retry: true } => {
                assert_eq!(code, "changing", "{message}");
                refused += 1;
            }
            other => panic!("{other:?}"),
        }
    }
    let passed = s.agents.inner.clock().since(began).0;
    assert!(welcome <= 11 + passed / 6_000, "{welcome} of 40 in {passed} ms");
    assert_eq!(welcome + refused, 40);
    let written = count(&s, |e| matches!(e, Event::NodeInventoried { .. })).await;
    assert_eq!(written, welcome + 1, "with the first");
    // What stays the same is let in at once.
    agent.hello.boot = s.brain.read(|st| st.nodes[&node("n1")].boot.clone());
    agent.hello.inventory = s.brain.read(|st| st.nodes[&node("n1")].inventory.clone());
    let m = agent.greet().await.1;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
}

#[tokio::test]
async fn a_node_that_claims_work_of_another_at_every_second_connection_writes_nothing() {
    let s = site().await;
    let (_one, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("x")).await;
    let key = s.runs(job, &mut line).await;
    let (mut agent, other) = s.idle("n2").await;
    drop(other);
    let before = count(&s, |e| matches!(e, Event::NodeBack { .. })).await;
    for n in 0..40 {
        // The job runs, but not there: neither to claim it nor to claim it no more is a change.
        agent.hello.observed = if n % 2 == 0 { vec![(key, Observed::Running)] } else { Vec::new() };
        let m = agent.greet().await.1;
        assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    }
    assert_eq!(count(&s, |e| matches!(e, Event::NodeBack { .. })).await, before);
    assert_eq!(s.job(job).state, JobState::Running);
}

#[tokio::test]
async fn a_job_fills_the_log_with_no_checkpoints_and_its_last_one_counts() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("x")).await;
    let key = s.runs(job, &mut line).await;
    let began = s.agents.inner.clock();
    for step in 0..200 {
        let report = ProgressReport::Checkpoint {
            state: "done".into(),
            step: Some(step),
            path: Some(format!("/ckpt/{step}")),
            bytes: None,
            blocked_s: None,
        };
        line.say(FromAgent::Progress { key, rank: 0, report }).await;
    }
    let exit = Exit { rank: 0, code: Some(1), signal: None, note: String::new() };
    let observed = Observed::Ended(SlotEnd::Failed { exit });
    line.say(FromAgent::Report { key, observed, ago: None }).await;
    s.until(|st| st.jobs[&job].state == JobState::Failed).await;
    let newest = s.job(job).checkpoint.clone().unwrap();
    assert_eq!((newest.step, newest.path.as_deref()), (Some(199), Some("/ckpt/199")));
    let passed = s.agents.inner.clock().since(began).0;
    let written = count(&s, |e| matches!(e, Event::CheckpointDone { .. })).await;
    assert!(written <= BURST + 2 + passed / EVERY.0, "{written} of 200 in {passed} ms");
}

#[tokio::test]
async fn a_checkpoint_that_waits_is_written_when_its_node_goes() {
    let s = site().await;
    let (_a, mut line) = s.idle("n1").await;
    let job = s.submit(spec(1), script("x")).await;
    let key = s.runs(job, &mut line).await;
    for step in 0..50 {
        // A path that leads nowhere replaces none that does.
        let path = Some(match step {
            48 => "/ckpt/\u{202e}48".to_owned(),
            49 => "/p".repeat(513),
            _ => format!("/ckpt/{step}"),
        });
        let (bytes, blocked_s, step) = (None, None, Some(step));
        let report =
            ProgressReport::Checkpoint { state: "done".into(), step, path, bytes, blocked_s };
        line.say(FromAgent::Progress { key, rank: 0, report }).await;
    }
    // Answered after all of that: what is on its way when a connection is cut may be lost with it.
    line.say(FromAgent::Heartbeat { at: s.brain.now() }).await;
    line.hear_of(|m| matches!(m, FromServer::Ack { .. }).then_some(())).await;
    drop(line);
    let is_last = |step| step == Some(47);
    s.until(|st| st.jobs[&job].checkpoint.as_ref().is_some_and(|c| is_last(c.step))).await;
    assert_eq!(s.job(job).checkpoint.clone().unwrap().path.as_deref(), Some("/ckpt/47"));
}

#[tokio::test]
async fn a_simulated_node_dates_no_fault_in_the_future() {
    let s = site().await;
    let mut agent = s.enrolled("n1").await;
    agent.hello.inventory.simulated = true;
    let (mut line, m) = agent.greet().await;
    assert!(matches!(m, FromServer::Welcome { .. }), "{m:?}");
    let fault = ObservedFault {
        code: "xid-79".into(),
        at: Time(2_051_222_400_000),
        count: 1,
        source: FaultSource::Kernel,
        class: FaultClass::Bus,
        action: FaultAction::Reboot,
        gpu: Some(2),
        pid: None,
        attempt: None,
        rank: None,
        text: "fell off the bus".into(),
    };
    line.say(FromAgent::Faults { faults: vec![fault] }).await;
    s.until(|st| st.faults_of(&node("n1")).next().is_some()).await;
    let at = s.brain.read(|st| st.faults_of(&node("n1")).next().map(|kept| kept.fault.at));
    assert!(at.is_some_and(|at| at <= s.brain.now() + Span::secs(5)), "{at:?}");
}
