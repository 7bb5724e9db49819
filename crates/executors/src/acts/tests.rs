//! Acts outside the log, without a brain: files, webhooks, commands.

use super::hook::Hook;
use super::page::{self, Page};
use super::{End, UNDER_WAY, asked_before, bundle, has_capacity, power, ticket};
use crate::effect::Outcome;
use crate::webhook::signature;
use axum::extract::State as Shared;
use axum::http::{HeaderMap, StatusCode};
use bytes::Bytes;
use muster_engine::State;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, ObservedFinding, Severity};
use muster_model::ids::{Epoch, Seq};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::remediation::{Act, Action, AskedAct, Leave, Mode, Remediation, RemediationStep};
use muster_model::units::Time;
use std::mem::discriminant;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

fn n1() -> NodeName {
    "n1".parse().unwrap()
}

fn asked(id: u64, act: Act) -> AskedAct {
    AskedAct { id, act, at: Time(1_700_000_000_000), until: Time(i64::MAX), ended: None }
}

fn a_ticket() -> AskedAct {
    asked(23, Act::Ticket { node: n1(), title: "GPU 2 of n1".into(), remediation: 17 })
}

/// A node with an unhealthy GPU, as the log would know it.
fn unhealthy() -> State {
    let mut s = State::default();
    let gpu = |i: u32| {
        serde_json::json!({"index": i, "sku": "h100-sxm", "uuid": format!("GPU-{i}"),
            "serial": format!("SN{i}"), "memory": "80GiB"})
    };
    let node: Node = serde_json::from_value(serde_json::json!({
        "name": "n1", "stage": "repairing", "reachable": true, "cordon": null,
        "inventory": {"cpu_model": "", "cpus": 8, "memory": "8GiB", "kernel": "6.1",
            "gpus": [gpu(1), gpu(2)]},
        "missing_gpus": [gpu(0)],
        "location": {"region": "eu", "cluster": "c1", "spine": "s", "leaf": "l", "rack": "r7",
            "nvlink": "n1", "feed": "A"},
        "address": "", "host": "", "machine": "m-1", "boot": "b",
        "enrolled_at": 0, "changed_at": 0, "version": 1,
    }))
    .unwrap();
    s.nodes.insert(n1(), Arc::new(node));
    let seen = ObservedFinding::new(
        "row-remap-failure",
        Entity::Gpu(n1(), 2),
        Severity::Critical,
        Time(1_699_999_990_000),
    )
    .because("rows can no longer be\nreplaced");
    let finding = Finding {
        id: 11,
        seen,
        opened_at: Time(1_699_999_991_000),
        inferred: true,
        incident: None,
        remediation: Some(17),
        closed: None,
    };
    s.health.findings.insert(11, Arc::new(finding));
    let remediation = Remediation {
        id: 17,
        finding: 11,
        kind: "row-remap-failure".into(),
        node: n1(),
        gpu: Some(2),
        action: Action::Replace,
        step_index: 0,
        mode: Mode::Automatic,
        leave: Leave::Checkpoint,
        step: RemediationStep::Repairing,
        why: String::new(),
        chosen_why: None,
        at: Time(1_699_999_992_000),
        since: Time(1_699_999_993_000),
        until: None,
        approved: None,
        begun_by_operator: false,
        act: Some(23),
        taken: vec![(Time(1_699_999_993_000), RemediationStep::Repairing)],
        outcome: None,
    };
    s.health.remediations.insert(17, Arc::new(remediation));
    s
}

/// What came in at a webhook: key, signature, body.
type ReceivedWebhooks = Arc<Mutex<Vec<(String, String, Bytes)>>>;

/// A webhook that fails so often before it takes something.
async fn webhook(failures: usize) -> (String, ReceivedWebhooks) {
    let heard = ReceivedWebhooks::default();
    let handler = move |Shared(heard): Shared<ReceivedWebhooks>,
                        headers: HeaderMap,
                        body: Bytes| async move {
        let text = |name: &str| {
            headers.get(name).map(|v| v.to_str().unwrap().to_owned()).unwrap_or_default()
        };
        let mut heard = heard.lock().unwrap();
        heard.push((text("idempotency-key"), text("muster-signature"), body));
        if heard.len() <= failures { StatusCode::INTERNAL_SERVER_ERROR } else { StatusCode::OK }
    };
    let app =
        axum::Router::new().route("/in", axum::routing::post(handler)).with_state(heard.clone());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/in", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await });
    (url, heard)
}

#[tokio::test]
async fn a_ticket_is_written_once_with_all_that_is_known() {
    let dir = tempfile::tempdir().unwrap();
    let mut state = unhealthy();
    let first = bundle::of(&state, &a_ticket()).unwrap();
    let done = ticket::execute(dir.path(), None, &first).await;
    assert_eq!(done, Outcome::Over(End { ok: true, message: "tickets/17-23.json".into() }));
    let json = std::fs::read(dir.path().join("tickets/17-23.json")).unwrap();
    let value: serde_json::Value = serde_json::from_slice(&json).unwrap();
    assert_eq!(value["finding"]["kind"], "row-remap-failure");
    assert_eq!(value["node"]["gpus"][2]["serial"], "SN2");
    assert_eq!(value["node"]["gpus"][2]["suspect"], true);
    assert_eq!(value["node"]["gpus"][0]["serial"], "SN0", "one that is gone is named as well");
    assert_eq!(value["node"]["gpus"][0]["gone"], true);
    assert_eq!(value["timeline"].as_array().unwrap().len(), 3);
    let md = std::fs::read_to_string(dir.path().join("tickets/17-23.md")).unwrap();
    assert!(md.contains("| 2 | SN2 |") && md.contains("rack r7"), "{md}");
    assert!(md.contains("- rows can no longer be replaced"), "one line stays one: {md}");

    // Another server takes over; more is known by now.
    state.health.findings.clear();
    let second = bundle::of(&state, &a_ticket()).unwrap();
    let again = ticket::execute(dir.path(), None, &second).await;
    assert_eq!(again, done);
    assert_eq!(std::fs::read(dir.path().join("tickets/17-23.json")).unwrap(), json);
    assert_eq!(std::fs::read_dir(dir.path().join("tickets")).unwrap().count(), 2);
}

#[tokio::test]
async fn a_webhook_is_tried_until_it_takes_a_ticket_and_then_left_alone() {
    let dir = tempfile::tempdir().unwrap();
    let secret = dir.path().join("secret");
    std::fs::write(&secret, "hush\n").unwrap();
    let (url, heard) = webhook(2).await;
    let hook = Hook::new(&url, Some(secret)).unwrap();
    let bundle = bundle::of(&unhealthy(), &a_ticket()).unwrap();
    for _ in 0..2 {
        let failed = ticket::execute(dir.path(), Some(&hook), &bundle).await;
        assert_eq!(failed, Outcome::Later);
    }
    let done = ticket::execute(dir.path(), Some(&hook), &bundle).await;
    assert!(
        matches!(&done, Outcome::Over(End { ok: true, message }) if message.contains("127.0.0.1"))
    );
    {
        let heard = heard.lock().unwrap();
        assert_eq!(heard.len(), 3);
        for (key, sign, body) in heard.iter() {
            assert!(key.ends_with("-act-23"));
            assert_eq!(*sign, signature(b"hush", body));
            assert_eq!(body, &std::fs::read(dir.path().join("tickets/17-23.json")).unwrap());
        }
    }
    let again = ticket::execute(dir.path(), Some(&hook), &bundle).await;
    assert_eq!((again, heard.lock().unwrap().len()), (done, 3), "it was sent already");
}

#[test]
fn the_signature_is_the_one_that_others_compute() {
    // Test case 2 of RFC 4231.
    assert_eq!(
        signature(b"Jefe", b"what do ya want for nothing?"),
        "sha256=5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843"
    );
}

#[tokio::test]
async fn a_page_is_kept_once_even_after_a_line_that_was_cut_short() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("pages.jsonl");
    std::fs::write(&path, "{\"id\":4,\"si").unwrap();
    let (url, heard) = webhook(1).await;
    let hook = Hook::new(&url, None).unwrap();
    let act = asked(5, Act::Page { title: "storm".into(), detail: "40 nodes".into() });
    let page = Page::new("site-1".into(), 0, &act, "storm", "40 nodes");
    assert_eq!(page::execute(dir.path(), Some(&hook), &page).await, Outcome::Later);
    for _ in 0..2 {
        let done = page::execute(dir.path(), Some(&hook), &page).await;
        assert!(matches!(done, Outcome::Over(End { ok: true, .. })));
    }
    let text = std::fs::read_to_string(&path).unwrap();
    assert_eq!(text.lines().count(), 2, "{text}");
    let kept: Page = serde_json::from_str(text.lines().last().unwrap()).unwrap();
    assert_eq!(kept, page);
    let heard = heard.lock().unwrap();
    assert!(heard.iter().all(|(_, sign, _)| sign.is_empty()), "no secret, no signature");
    let keys: Vec<_> = heard.iter().map(|h| h.0.clone()).collect();
    assert_eq!(keys, ["site-1-act-5"; 3], "a repeat can be seen for what it is");
}

#[tokio::test]
async fn power_is_cut_once_and_only_by_what_is_plugged_in() {
    let dir = tempfile::tempdir().unwrap();
    let none = power::execute(dir.path(), None, "1", &n1(), false).await;
    assert!(
        matches!(&none, Outcome::Over(End { ok: false, message }) if message.contains("--power-cycle-command"))
    );
    let made = dir.path().join("cut-n1");
    let command = format!("mkdir {}/cut-{{node}}", dir.path().display());
    assert_eq!(power::execute(dir.path(), Some(&command), "2", &n1(), false).await, Outcome::Begun);
    assert!(made.is_dir());
    // A server that was killed in the middle does not cut it again.
    std::fs::remove_dir(&made).unwrap();
    assert_eq!(power::execute(dir.path(), Some(&command), "2", &n1(), false).await, Outcome::Begun);
    assert!(!made.exists());
    // Nor one that took the lead from another, in whose directory the mark is.
    assert_eq!(power::execute(dir.path(), Some(&command), "5", &n1(), true).await, Outcome::Begun);
    assert!(!made.exists());
    let wrong = power::execute(dir.path(), Some("ls /no/such/place"), "3", &n1(), false).await;
    assert!(
        matches!(&wrong, Outcome::Over(End { ok: false, message }) if message.contains("No such file"))
    );
    let absent = power::execute(dir.path(), Some("/no/such/program"), "4", &n1(), false).await;
    assert!(matches!(absent, Outcome::Over(End { ok: false, .. })));
}

#[test]
fn an_act_of_an_earlier_lead_is_distinguished_from_one_of_this() {
    let (then, now) = (Epoch(7), Epoch(8));
    let mut s = State::default();
    s.leads.push((Seq(10), then));
    assert!(!asked_before(&s, then, 15));
    assert!(asked_before(&s, now, 15), "this lead is not in the log yet");
    s.leads.push((Seq(20), now));
    assert!(asked_before(&s, now, 15));
    assert!(!asked_before(&s, now, 25));
}

#[tokio::test]
async fn the_power_command_outlives_the_server_that_began_it() {
    let dir = tempfile::tempdir().unwrap();
    let (begun, go, done) =
        (dir.path().join("begun"), dir.path().join("go"), dir.path().join("done"));
    let script = dir.path().join("cycle.sh");
    let text = format!(
        "touch {}; while [ ! -e {} ]; do sleep 0.02; done; touch {}",
        begun.display(),
        go.display(),
        done.display()
    );
    std::fs::write(&script, text).unwrap();
    let (at, command) = (dir.path().to_path_buf(), format!("sh {}", script.display()));
    let server = tokio::spawn(async move {
        power::execute(&at, Some(&command), "6", &n1(), false).await;
    });
    let until = async |path: &Path| {
        while !path.exists() {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    until(&begun).await;
    server.abort();
    assert!(server.await.unwrap_err().is_cancelled());
    std::fs::write(&go, "").unwrap();
    tokio::time::timeout(Duration::from_secs(60), until(&done)).await.expect("it was killed");
}

#[test]
fn tickets_that_cannot_be_sent_hold_up_nothing_else() {
    let key = |act: Act, id| (discriminant(&act), id);
    let under_way: Vec<_> = (1..=UNDER_WAY as u64).map(|id| key(a_ticket().act, id)).collect();
    let ticket = key(a_ticket().act, 99);
    assert!(!has_capacity(&ticket, under_way.iter()));
    assert!(has_capacity(&ticket, under_way[1..].iter()));
    let page = Act::Page { title: "storm".into(), detail: String::new() };
    let power = Act::PowerCycle { node: n1(), boot: "b".into() };
    assert!(has_capacity(&key(page, 100), under_way.iter()));
    assert!(has_capacity(&key(power, 101), under_way.iter()));
}

#[test]
fn what_is_no_address_is_said_at_the_start() {
    for wrong in ["", "pager", "ftp://x/y", "file:///etc/passwd"] {
        assert!(Hook::new(wrong, None).is_err(), "{wrong}");
    }
}

#[tokio::test]
async fn an_act_of_another_life_of_the_log_is_not_taken_for_done() {
    let dir = tempfile::tempdir().unwrap();
    let mut s = unhealthy();
    let ticket = async |s: &State| {
        let bundle = bundle::of(s, &a_ticket()).unwrap();
        ticket::execute(dir.path(), None, &bundle).await
    };
    let message = |o| match o {
        Outcome::Over(End { ok: true, message }) => message,
        other => panic!("{other:?}"),
    };
    assert_eq!(message(ticket(&s).await), "tickets/17-23.json");
    // The log was restored before record 23: this is another act of the same number.
    let epoch = Epoch(1_700_000_042);
    s.lives.push(muster_engine::LogGeneration { seq: Seq(20), at: Time(0), epoch });
    assert_eq!(message(ticket(&s).await), "tickets/1700000042-17-23.json");
    let act = asked(23, Act::Page { title: "storm".into(), detail: String::new() });
    for life in [0, 1_700_000_042, 1_700_000_042] {
        let page = Page::new("site-1".into(), life, &act, "storm", "");
        page::execute(dir.path(), None, &page).await;
    }
    let pages = std::fs::read_to_string(dir.path().join("pages.jsonl")).unwrap();
    assert_eq!(pages.lines().count(), 2, "one for each of the two acts: {pages}");
}
