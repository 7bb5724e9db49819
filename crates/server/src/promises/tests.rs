//! Telling real listeners, from an alert in the log to what they hear.

use super::channels::Sender;
use super::count::{Counter, Served};
use super::own;
use super::post::{self, Post};
use super::smtp;
use crate::brain::{Attach, Brain, BrainConfig};
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use muster_model::alert::Routing;
use muster_model::command::{Actor, Command, Request};
use muster_model::names::NodeName;
use muster_model::node::Inventory;
use muster_model::slo::Sli;
use muster_model::topology::{Location, Topology};
use muster_model::units::{Bytes as Size, Span, Time};
use muster_store::StoreUrl;
use serde_json::{Value, json};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio_util::sync::CancellationToken;

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

struct Kit {
    brain: Brain,
    post: Post,
    stop: CancellationToken,
    dir: tempfile::TempDir,
}

fn node(i: usize) -> NodeName {
    format!("n{i:03}").parse().unwrap()
}

/// A brain that makes alerts, with so many nodes on one of two leaves, and somebody who tells.
async fn kit(nodes: usize) -> Kit {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let config = BrainConfig {
        store: StoreUrl::Sqlite(path("muster.db")),
        holder: "test".into(),
        archive: path("archive"),
        seal_key: path("seal.key"),
        policy: muster_engine::Policy { promises: true, ..muster_engine::Policy::default() },
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
        // A promise that breaks is an alert of its own.
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
        ahead: false,
    };
    // Many at once, so that a slow disk is waited for a few times only.
    let all: [Vec<Command>; 2] =
        [(0..nodes).map(enroll).collect(), (0..nodes).map(connect).collect()];
    for commands in all {
        let done = commands.into_iter().map(|c| brain.system(c));
        for told in futures::future::join_all(done).await {
            told.unwrap();
        }
    }
    let (post, stop) = (Post::default(), CancellationToken::new());
    let sender = Sender::new(brain.clone(), "http://muster.example.org/".into()).unwrap();
    tokio::spawn(post::run(brain.clone(), post.clone(), Arc::new(sender), stop.clone()));
    Kit { brain, post, stop, dir }
}

impl Kit {
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
            Attach { payload: None, secret: Some((project, name, Some(value.to_owned()))) };
        let (actor, at) = (Actor::system(), self.brain.now());
        let request = Request { actor, at, key: None, if_version: None, command };
        self.brain.call(request, attach).await.unwrap();
    }

    async fn lose_the_leaf(&self) {
        let last_seen = self.brain.now();
        // At once, so that a slow disk does not make several losses of one.
        let lost = |i| self.brain.system(Command::NodeLost { node: node(i), last_seen });
        for told in futures::future::join_all((64..128).map(lost)).await {
            told.unwrap();
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
type Heard = Arc<Mutex<Vec<(String, Bytes)>>>;

/// An endpoint that takes what is posted, while it is there.
async fn endpoint(there: Arc<AtomicBool>) -> (String, Heard) {
    let heard = Heard::default();
    let state = (heard.clone(), there);
    let handler = |Shared((heard, there)): Shared<(Heard, Arc<AtomicBool>)>,
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

fn pages(heard: &Heard) -> Vec<Value> {
    let all = heard.lock().unwrap();
    let of = |(_, b): &(String, Bytes)| -> Value { serde_json::from_slice(b).unwrap() };
    all.iter().map(of).flat_map(|v| v["alerts"].as_array().cloned().unwrap_or_default()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_lost_leaf_is_one_signed_page_also_for_a_receiver_that_was_away() {
    let k = kit(128).await;
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
    let told = pages(&heard);
    assert_eq!(told.len(), 1, "one page, not 64: {told:#?}");
    assert_eq!((&told[0]["news"], &told[0]["kind"]), (&json!("firing"), &json!("leaf-loss")));
    assert_eq!(told[0]["members"].as_array().unwrap().len(), 64);
    assert_eq!(told[0]["instructions"], "http://muster.example.org/runbooks/leaf-loss");
    let (sign, body) = heard.lock().unwrap().iter().find(|(s, _)| !s.is_empty()).cloned().unwrap();
    assert_eq!(sign, crate::acts::signature(b"hush", &body));
    // The log knows who was told; another server would not tell them again.
    until("the record", || {
        k.brain.read(|s| {
            let a = s.slo.open().find(|a| a.kind == "leaf-loss")?;
            (s.slo.desk.told_of(&a.id).count() == 2).then_some(())
        })
    })
    .await;
    k.stop.cancel();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_write_calls_somebody_all_the_same() {
    let k = kit(1).await;
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
    assert_eq!(pages(&heard).len(), 1, "told once");
    k.stop.cancel();
}

/// A mail server that takes everything; what it heard.
async fn mail_server() -> (String, Arc<Mutex<String>>) {
    let heard = Arc::new(Mutex::new(String::new()));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let said = heard.clone();
    tokio::spawn(async move {
        while let Ok((socket, _)) = listener.accept().await {
            let said = said.clone();
            tokio::spawn(async move {
                let mut io = BufReader::new(socket);
                io.get_mut().write_all(b"220 here\r\n").await.unwrap();
                let (mut line, mut data) = (String::new(), false);
                while {
                    line.clear();
                    io.read_line(&mut line).await.unwrap()
                } > 0
                {
                    said.lock().unwrap().push_str(&line);
                    let answer: &[u8] = match line.trim_end() {
                        "." if data => {
                            data = false;
                            b"250 taken\r\n"
                        }
                        _ if data => continue,
                        "DATA" => {
                            data = true;
                            b"354 go on\r\n"
                        }
                        "QUIT" => b"221 bye\r\n",
                        l if l.starts_with("EHLO") => {
                            b"250-here\r\n250-8BITMIME\r\n250 AUTH PLAIN\r\n"
                        }
                        l if l.starts_with("AUTH PLAIN AG9wcwBwdw==") => b"235 yes\r\n",
                        l if l.contains("nobody@") => b"550 no such user\r\n",
                        _ => b"250 ok\r\n",
                    };
                    io.get_mut().write_all(answer).await.unwrap();
                }
            });
        }
    });
    (address, heard)
}

#[tokio::test]
async fn mail_is_sent_whole_and_a_refusal_is_told() {
    let (server, heard) = mail_server().await;
    let to = vec!["ops@example.org".to_owned(), "b@example.org".to_owned()];
    let text = "[page] leaf is lost\r\n.hidden\r\n";
    let (at, id) = (Time(1_794_845_109_000), "site-1-oncall-0a1b");
    let subject = "größer\r\nBcc: x";
    let mail = smtp::Mail { from: "m@example.org", to: &to, subject, text, at, id };
    smtp::send(&server, Some(("ops", "pw")), &mail).await.unwrap();
    let said = heard.lock().unwrap().clone();
    assert!(said.contains("RCPT TO:<ops@example.org>") && said.contains("RCPT TO:<b@example.org>"));
    assert!(said.contains("Subject: =?utf-8?B?"), "{said}");
    assert!(said.contains("\r\n..hidden\r\n") && !said.contains("\nBcc"), "{said}");
    let to = vec!["nobody@example.org".to_owned()];
    let mail = smtp::Mail { from: "m@example.org", to: &to, subject: "s", text, at, id };
    let e = smtp::send(&server, None, &mail).await.unwrap_err().to_string();
    assert!(e.contains("550 no such user") && e.contains("RCPT TO"), "{e}");
    let e = smtp::send("127.0.0.1:1", None, &mail).await.unwrap_err().to_string();
    assert!(e.contains("cannot be reached"), "{e}");
    assert!(smtp::send("nonsense", None, &mail).await.is_err());
}

#[tokio::test]
async fn a_mail_has_the_form_that_mail_servers_insist_on() {
    let (server, heard) = mail_server().await;
    let to: Vec<String> = (0..80).map(|i| format!("person-{i}@example.org")).collect();
    let long = "ü".repeat(3000);
    // A name that would end the header, and lines that are too long.
    let id = "site>\r\nBcc: x..oncall-0a1b";
    let mail = smtp::Mail {
        from: "muster@ops.example.org",
        to: &to,
        subject: &"s".repeat(5000),
        text: &long,
        at: Time(1_794_845_109_000),
        id,
    };
    smtp::send(&server, None, &mail).await.unwrap();
    let said = heard.lock().unwrap().clone();
    let (_, message) = said.split_once("DATA\r\n").unwrap();
    let (head, body) = message.split_once("\r\n\r\n").unwrap();
    let fields = |name: &str| head.split("\r\n").filter(|l| l.starts_with(name)).count();
    for name in ["Date: ", "From: ", "To: ", "Message-ID: ", "Subject: "] {
        assert_eq!(fields(name), 1, "{name} once: {head}");
    }
    assert!(head.contains("Date: Mon, 16 Nov 2026 16:05:09 +0000\r\n"), "{head}");
    assert!(
        head.contains("Message-ID: <muster.siteBccx.oncall-0a1b@ops.example.org>\r\n"),
        "{head}"
    );
    assert!(message.split("\r\n").all(|l| l.len() <= 998), "no line is longer than 998");
    assert_eq!(body.matches('ü').count(), 3000, "and nothing is lost");
    // The next one is another message.
    let next = smtp::Mail { id: "site-oncall-ffff", ..mail };
    smtp::send(&server, None, &next).await.unwrap();
    assert!(heard.lock().unwrap().contains("<muster.site-oncall-ffff@ops.example.org>"));
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
    let k = kit(128).await;
    let url = format!("http://127.0.0.1:{port}");
    k.route(json!({
        "receivers": [{"name": "am", "by": {"alertmanager": {"url": url}}}],
        "routes": [{"match": {"urgency": "page"}, "to": ["am"], "wait": "3s"}]}))
        .await;
    k.lose_the_leaf().await;
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
    c.served(Served { submits: false, status: 200, took: ms(10) });
    c.served(Served { submits: false, status: 200, took: ms(1500) });
    c.served(Served { submits: true, status: 503, took: ms(10) });
    c.served(Served { submits: true, status: 422, took: ms(10) });
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
fn a_failure_is_told_at_once_then_by_the_minute_and_rarely_five_minutes_after_the_last() {
    let c = Counter::default();
    c.ask(vec![Sli::ApiAvailability]);
    let told = |looks: std::ops::Range<i64>, status: u16| -> Vec<i64> {
        let told_at = |look: &i64| {
            c.served(Served { submits: false, status, took: Duration::ZERO });
            !c.due(Time(look * 20_000)).is_empty()
        };
        looks.filter(told_at).collect()
    };
    assert_eq!(told(0..10, 200), [0], "the first ones, so that something is shown");
    assert_eq!(told(10..20, 503), [10, 13, 16, 19]);
    assert_eq!(told(20..60, 200), [22, 25, 28, 31, 34, 49]);
}

#[test]
fn what_the_log_does_not_take_is_told_at_the_next_look_and_nothing_of_it_is_lost() {
    let c = Counter::default();
    c.ask(vec![Sli::ApiAvailability]);
    for minute in 1..=100 {
        c.served(Served { submits: false, status: 200, took: Duration::ZERO });
        let due = c.due(Time(minute * 60_000));
        assert_eq!(due.last().and_then(|c| c.at), Some(Time(minute * 60_000)));
        c.put_back(&due);
    }
    let due = c.due(Time(101 * 60_000));
    assert_eq!(due.len(), 60, "the oldest minutes are one");
    assert_eq!(due.iter().map(|c| c.total).sum::<u64>(), 100);
}
