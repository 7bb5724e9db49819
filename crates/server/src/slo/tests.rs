//! Notifying real listeners, from an alert in the log to what they hear.

use super::count::{Counter, ServedRequest};
use super::own;
use crate::brain::{Attach, Brain, BrainConfig, BrainError};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use muster_executors::alerts::{self, AlertDelivery, Sender};
use muster_model::alert::Routing;
use muster_model::command::{Actor, Command, Request};
use muster_model::event::Event;
use muster_model::ids::Seq;
use muster_model::names::NodeName;
use muster_model::node::Inventory;
use muster_model::slo::{Objectives, Sli};
use muster_model::topology::{Location, Topology};
use muster_model::units::{Bytes as Size, Span, Time};
use muster_store::StoreUrl;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Fixture {
    brain: Brain,
    post: AlertDelivery,
    stop: CancellationToken,
    dir: tempfile::TempDir,
}

fn node(i: usize) -> NodeName {
    format!("n{i:03}").parse().unwrap()
}

/// A brain that makes alerts, with so many nodes on one of two leaves, and somebody who notifies.
async fn fixture(nodes: usize) -> Fixture {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let config = BrainConfig {
        store: StoreUrl::Sqlite(path("muster.db")),
        holder: "test".into(),
        archive: path("archive"),
        seal_key: path("seal.key"),
        policy: muster_engine::Policy { objectives: true, ..muster_engine::Policy::default() },
        lease: Span::secs(10),
        snapshot_every: 100_000,
        retain: 100_000,
    };
    let brain = tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {}));
    let brain = brain.await.unwrap().unwrap();
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
    let none = muster_model::slo::Objectives { defaults: 0, ..Default::default() };
    let commands = [
        Command::CreateSite { site: "lab".into() },
        Command::CreateProject { name: "operators".parse().unwrap(), description: "o".into() },
        Command::CreateToken {
            id: "t".into(),
            name: "join".parse().unwrap(),
            hash: String::new(),
            usage: muster_model::tenant::TokenUse::Join { uses_left: None },
            ttl: None,
        },
        Command::SetTopology { topology: Arc::new(topology) },
        // An objective that is not met is an alert of its own.
        Command::SetObjectives { objectives: Arc::new(none) },
    ];
    for c in commands {
        brain.system(c).await.unwrap();
    }
    let machine = |i: usize| format!("m{i}");
    let enroll =
        |i| Command::Enroll { node: node(i), machine: machine(i), token: "t".into(), key: None };
    let connect = |i| Command::NodeConnected {
        node: node(i),
        machine: machine(i),
        boot: "b".into(),
        address: format!("10.0.0.{i}"),
        host: format!("h{i}"),
        inventory: Box::new(Inventory { cpus: 8, memory: Size::gib(8), ..Inventory::default() }),
        observed: Vec::new(),
        ended_ago: Vec::new(),
        place: String::new(),
        ahead: false,
        silent_for: None,
    };
    // Many at once, so that a slow disk is waited for a few times only.
    let all: [Vec<Command>; 2] =
        [(0..nodes).map(enroll).collect(), (0..nodes).map(connect).collect()];
    for commands in all {
        let done = commands.into_iter().map(|c| brain.system(c));
        for reported in futures::future::join_all(done).await {
            reported.unwrap();
        }
    }
    let (post, stop) = (AlertDelivery::default(), CancellationToken::new());
    let sender = Sender::new(brain.clone(), "http://muster.example.org/".into()).unwrap();
    tokio::spawn(alerts::run(brain.clone(), post.clone(), Arc::new(sender), stop.clone()));
    Fixture { brain, post, stop, dir }
}

impl Fixture {
    async fn route(&self, routing: Value) {
        let routing: Routing = serde_json::from_value(routing).unwrap();
        let command = Command::SetRouting { routing: Arc::new(routing) };
        self.brain.system(command).await.unwrap();
    }

    async fn secret(&self, name: &str, value: &str) {
        let (project, name) = ("operators".parse().unwrap(), name.parse().unwrap());
        let command = Command::SetSecret { project, name };
        let Command::SetSecret { project, name } = command.clone() else { return };
        let attach =
            Attach { secret: Some((project, name, Some(value.to_owned()))), ..Attach::default() };
        let (actor, at) = (Actor::system(), self.brain.now());
        let request = Request { actor, at, key: None, if_version: None, command };
        self.brain.call(request, attach).await.unwrap();
    }

    async fn lose_the_leaf(&self) {
        let last_seen = self.brain.now();
        // At once, so that a slow disk does not make several losses of one.
        let lost = |i| self.brain.system(Command::NodeLost { node: node(i), last_seen });
        for reported in futures::future::join_all((64..128).map(lost)).await {
            reported.unwrap();
        }
    }
}

async fn until<T>(what: &str, mut f: impl FnMut() -> Option<T>) -> T {
    let end = tokio::time::Instant::now() + PATIENCE;
    loop {
        if let Some(t) = f() {
            return t;
        }
        assert!(tokio::time::Instant::now() < end, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// What came in: signature, body.
type ReceivedMessages = Arc<Mutex<Vec<(String, Bytes)>>>;

/// An endpoint that takes what is posted, while it is there.
async fn endpoint(there: Arc<AtomicBool>) -> (String, ReceivedMessages) {
    let heard = ReceivedMessages::default();
    let state = (heard.clone(), there);
    let handler = |Shared((heard, there)): Shared<(ReceivedMessages, Arc<AtomicBool>)>,
                   headers: HeaderMap,
                   body: Bytes| async move {
        if !there.load(Ordering::Acquire) {
            return StatusCode::BAD_GATEWAY;
        }
        let sign = headers.get("muster-signature").map(|v| v.to_str().unwrap().to_owned());
        heard.lock().unwrap().push((sign.unwrap_or_default(), body));
        StatusCode::OK
    };
    let app = axum::Router::new().fallback(axum::routing::post(handler)).with_state(state);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, heard)
}

fn pages(heard: &ReceivedMessages) -> Vec<Value> {
    let all = heard.lock().unwrap();
    let of = |(_, b): &(String, Bytes)| -> Value { serde_json::from_slice(b).unwrap() };
    all.iter().map(of).flat_map(|v| v["alerts"].as_array().cloned().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_leaf_is_one_signed_page_also_for_a_receiver_that_was_away() {
    let k = fixture(128).await;
    let there = Arc::new(AtomicBool::new(false));
    let (url, heard) = endpoint(there.clone()).await;
    k.secret("hook-key", "hush\n").await;
    k.secret("chat-url", &format!("{url}/chat")).await;
    k.route(json!({
        "receivers": [
            {"name": "oncall", "by": {"webhook": {"url": url, "sign": "hook-key"}}},
            {"name": "chat", "by": {"slack": {"url_secret": "chat-url"}}},
            {"name": "lost", "by": {"slack": {"url_secret": "no-such"}}}],
        "routes": [{"match": {"urgency": "page"}, "to": ["oncall", "chat", "lost"], "wait": "3s"}]}))
        .await;
    k.lose_the_leaf().await;
    // It is away: what waits is seen, and why.
    let away = until("a failure", || {
        let all = k.post.backlog(&k.brain, k.brain.now());
        all.into_iter().find(|b| b.receiver.as_str() == "oncall" && b.line.failures > 1)
    })
    .await;
    assert_eq!(away.alerts, 1);
    assert!(away.line.error.contains("502"), "{}", away.line.error);
    let all = k.post.backlog(&k.brain, k.brain.now());
    let lost = all.iter().find(|b| b.receiver.as_str() == "lost").unwrap();
    assert!(lost.line.error.contains("muster secret set no-such"), "{}", lost.line.error);
    there.store(true, Ordering::Release);
    until("the chat and the page", || (heard.lock().unwrap().len() >= 2).then_some(())).await;
    let reported = pages(&heard);
    assert_eq!(reported.len(), 1, "one page, not 64: {reported:#?}");
    assert_eq!(
        (&reported[0]["news"], &reported[0]["kind"]),
        (&json!("firing"), &json!("leaf-loss"))
    );
    assert_eq!(reported[0]["members"].as_array().unwrap().len(), 64);
    assert_eq!(reported[0]["instructions"], "http://muster.example.org/runbooks/leaf-loss");
    let (sign, body) = heard.lock().unwrap().iter().find(|(s, _)| !s.is_empty()).cloned().unwrap();
    assert_eq!(sign, muster_executors::signature(b"hush", &body));
    // The log knows who was notified; another server would not notify them again.
    until("the record", || {
        k.brain.read(|s| {
            let a = s.slo.open().find(|a| a.kind == "leaf-loss")?;
            (s.slo.desk.notified_of(&a.id).count() == 2).then_some(())
        })
    })
    .await;
    k.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_write_calls_somebody_all_the_same() {
    let k = fixture(1).await;
    let (url, heard) = endpoint(Arc::new(AtomicBool::new(true))).await;
    k.secret("hook-key", "hush").await;
    k.route(json!({
        "receivers": [{"name": "oncall", "by": {"webhook": {"url": url, "sign": "hook-key"}}}],
        "routes": [{"match": {"topic": "control_plane"}, "to": ["oncall"], "wait": "0s"}]}))
        .await;
    // Impatient, so that the test need not be.
    let soon = (Span::secs(1), Duration::from_millis(50));
    let sender =
        Arc::new(Sender::new(k.brain.clone(), "http://muster.example.org".into()).unwrap());
    tokio::spawn(own::run(k.brain.clone(), sender, soon, k.stop.clone()));
    let lock = rusqlite::Connection::open(k.dir.path().join("muster.db")).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let (brain, last_seen) = (k.brain.clone(), k.brain.now());
    let written =
        tokio::spawn(
            async move { brain.system(Command::NodeLost { node: node(0), last_seen }).await },
        );
    let page =
        until("a page", || pages(&heard).into_iter().find(|p| p["kind"] == "cannot-write")).await;
    assert_eq!((&page["news"], &page["urgency"]), (&json!("firing"), &json!("page")));
    assert_eq!(page["instructions"], "http://muster.example.org/runbooks/control-plane");
    assert!(k.brain.stuck().is_some());
    lock.execute_batch("ROLLBACK").unwrap();
    until("the store", || k.brain.stuck().is_none().then_some(())).await;
    let _ = written.await.unwrap();
    assert_eq!(pages(&heard).len(), 1, "reported once");
    k.stop.cancel();
}

/// A port that nobody uses, and what keeps other tests from it until this one ends.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it. Whoever has the
/// port of the same number for datagrams has it, across processes: that nobody listens may only
/// mean that another test's server has not come up yet.
fn free_port() -> (u16, std::net::UdpSocket) {
    let first = std::process::id() % 10_000;
    let ports = (0..10_000).map(|step| 10_000 + (first + step * 7) % 10_000);
    let mut ports = ports.map(|p| u16::try_from(p).unwrap());
    let free = ports.find_map(|port| {
        let held = std::net::UdpSocket::bind(("127.0.0.1", port)).ok()?;
        std::net::TcpListener::bind(("127.0.0.1", port)).is_ok().then_some((port, held))
    });
    free.unwrap()
}

/// The real thing, where it is installed.
#[tokio::test(flavor = "multi_thread")]
async fn a_real_alertmanager_gets_one_page_for_a_lost_leaf_and_then_its_end() {
    let Some(program) = ["/usr/bin/prometheus-alertmanager", "/usr/local/bin/alertmanager"]
        .into_iter()
        .find(|p| std::path::Path::new(p).exists())
    else {
        let how = "apt-get install prometheus-alertmanager";
        let _ = muster_testkit::component(false, "Alertmanager", how);
        return;
    };
    let dir = tempfile::tempdir().unwrap();
    let (port, _held) = free_port();
    let config = dir.path().join("am.yml");
    std::fs::write(&config, "route: {receiver: none}\nreceivers: [{name: none}]\n").unwrap();
    let mut child = tokio::process::Command::new(program)
        .arg(format!("--config.file={}", config.display()))
        .arg(format!("--storage.path={}", dir.path().join("data").display()))
        .arg(format!("--web.listen-address=127.0.0.1:{port}"))
        .arg("--cluster.listen-address=")
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let k = fixture(128).await;
    let url = format!("http://127.0.0.1:{port}");
    k.route(json!({
        "receivers": [{"name": "am", "by": {"alertmanager": {"url": url}}}],
        "routes": [{"match": {"urgency": "page"}, "to": ["am"], "wait": "3s"}]}))
        .await;
    k.lose_the_leaf().await;
    muster_link::tls::install();
    let client = reqwest::Client::new();
    let end = tokio::time::Instant::now() + PATIENCE;
    let all = loop {
        let got = client.get(format!("{url}/api/v2/alerts")).send().await;
        if let Ok(answer) = got
            && let Ok(Value::Array(all)) = answer.json::<Value>().await
            && !all.is_empty()
        {
            break all;
        }
        assert!(tokio::time::Instant::now() < end, "no alert came");
        tokio::time::sleep(Duration::from_millis(200)).await;
    };
    assert_eq!(all.len(), 1, "one page, not 64: {all:#?}");
    let (labels, notes) = (&all[0]["labels"], &all[0]["annotations"]);
    assert_eq!((&labels["alertname"], &labels["severity"]), (&json!("leaf-loss"), &json!("page")));
    assert_eq!(notes["runbook"], "http://muster.example.org/runbooks/leaf-loss");
    assert!(notes["affected"].as_str().unwrap().contains("node:n064"), "{notes}");
    assert!(all[0]["generatorURL"].as_str().unwrap().contains("/incidents/"));
    k.stop.cancel();
    child.kill().await.unwrap();
}

#[test]
fn answers_are_counted_by_the_limits_that_objectives_have() {
    let c = Counter::default();
    let slow = Sli::ApiLatency { under: Span::secs(1) };
    let admission = Sli::Admission { under: Span::secs(1) };
    c.ask(vec![Sli::ApiAvailability, slow, admission]);
    let ms = Duration::from_millis;
    c.served(ServedRequest { submits: false, status: 200, took: ms(10) });
    c.served(ServedRequest { submits: false, status: 200, took: ms(1500) });
    c.served(ServedRequest { submits: true, status: 503, took: ms(10) });
    c.served(ServedRequest { submits: true, status: 422, took: ms(10) });
    let mut counts: Vec<(Sli, u64, u64)> =
        c.due(Time(0)).into_iter().map(|c| (c.sli, c.good, c.total)).collect();
    counts.sort();
    let want = [(admission, 0, 1), (Sli::ApiAvailability, 2, 3), (slow, 1, 3)];
    let mut want = want.to_vec();
    want.sort();
    assert_eq!(counts, want);
    assert!(c.due(Time(0)).is_empty());
}

#[test]
fn a_failure_is_reported_at_once_then_by_the_minute_and_rarely_five_minutes_after_the_last() {
    let c = Counter::default();
    c.ask(vec![Sli::ApiAvailability]);
    let reported = |looks: std::ops::Range<i64>, status: u16| -> Vec<i64> {
        let reported_at = |look: &i64| {
            c.served(ServedRequest { submits: false, status, took: Duration::ZERO });
            !c.due(Time(look * 20_000)).is_empty()
        };
        looks.filter(reported_at).collect()
    };
    assert_eq!(reported(0..10, 200), [0], "the first ones, so that something is shown");
    assert_eq!(reported(10..20, 503), [10, 13, 16, 19]);
    assert_eq!(reported(20..60, 200), [22, 25, 28, 31, 34, 49]);
}

#[test]
fn what_the_log_does_not_take_is_reported_at_the_next_look_and_nothing_of_it_is_lost() {
    let c = Counter::default();
    c.ask(vec![Sli::ApiAvailability]);
    for minute in 1..=100 {
        c.served(ServedRequest { submits: false, status: 200, took: Duration::ZERO });
        let due = c.due(Time(minute * 60_000));
        assert_eq!(due.last().and_then(|c| c.at), Some(Time(minute * 60_000)));
        c.put_back(&due);
    }
    let due = c.due(Time(101 * 60_000));
    assert_eq!(due.len(), 60, "the oldest minutes are one");
    assert_eq!(due.iter().map(|c| c.total).sum::<u64>(), 100);
}

#[tokio::test(flavor = "multi_thread")]
async fn counts_whose_answer_was_lost_are_in_the_log_once() {
    let k = fixture(1).await;
    let api = json!({"name": "api", "sli": "api_availability", "target": "99.9%"});
    let objectives = vec![serde_json::from_value(api).unwrap()];
    let objectives = Objectives { defaults: 0, objectives, ..Objectives::default() };
    let command = Command::SetObjectives { objectives: Arc::new(objectives) };
    k.brain.system(command).await.unwrap();
    let c = Counter::default();
    c.follow(&k.brain);
    let served = || c.served(ServedRequest { submits: false, status: 200, took: Duration::ZERO });
    let start = k.brain.now();
    served();
    let report = c.report(&k.brain, c.due(start));
    // It is written, and the server does not learn that.
    k.brain.call(report.request(start), Attach::default()).await.unwrap();
    assert!(!c.answered(&report, Err(BrainError::Unavailable("the store failed".into()))));
    served();
    for look in 1..=30 {
        c.record_due_counts(&k.brain, start + Span::secs(20 * look)).await;
    }
    let records = k.brain.records(Seq(0), 2048).await.unwrap();
    let reported = records.iter().filter_map(|r| match &r.event {
        Event::CountsReported { counts } => Some(counts.iter().map(|c| c.total).sum::<u64>()),
        _ => None,
    });
    assert_eq!(reported.collect::<Vec<_>>(), [1, 1]);
    k.stop.cancel();
}
