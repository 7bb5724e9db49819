//! What the web console lives on: layout, frames, figures, and its own addresses.

use super::{Site, request, site};
use axum::body::BodyDataStream;
use futures::StreamExt as _;
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::time::Duration;
use tower::ServiceExt as _;

/// Reads frames off a body.
struct Frames {
    body: BodyDataStream,
    buffer: VecDeque<u8>,
}

struct Frame {
    kind: u8,
    count: usize,
    layout: u64,
    tick: u64,
    body: Vec<u8>,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap())
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap())
}

impl Frame {
    fn json(&self) -> Value {
        serde_json::from_slice(&self.body[..self.count]).unwrap()
    }
    /// Jobs of the cells, by index, of a whole picture or a change.
    fn jobs(&self) -> Vec<(u32, u32)> {
        let skip = if self.kind == 1 { self.count * 4 } else { 0 };
        let index = |i: usize| {
            if self.kind == 1 { u32_at(&self.body, i * 4) } else { u32::try_from(i).unwrap() }
        };
        (0..self.count).map(|i| (index(i), u32_at(&self.body, skip + i * 4))).collect()
    }
}

async fn watch(s: &Site, token: &str) -> Frames {
    let r =
        request(token, "GET", "/v1/console/frames", &Value::Null, &[("accept-encoding", "gzip")]);
    let r = s.router.clone().oneshot(r).await.unwrap();
    assert_eq!(r.status(), 200);
    assert_eq!(r.headers()["content-type"], "application/octet-stream");
    assert!(!r.headers().contains_key("content-encoding"), "a stream is not held back");
    Frames { body: r.into_body().into_data_stream(), buffer: VecDeque::new() }
}

impl Frames {
    async fn next(&mut self) -> Frame {
        loop {
            let have = self.buffer.make_contiguous();
            if have.len() >= 4 {
                let length = u32_at(have, 0) as usize;
                assert_eq!(length % 4, 0, "columns stay aligned");
                if have.len() >= 4 + length {
                    let all: Vec<u8> = self.buffer.drain(..4 + length).skip(4).collect();
                    assert_eq!(all[0], 1, "the format");
                    return Frame {
                        kind: all[1],
                        count: u32_at(&all, 4) as usize,
                        layout: u64_at(&all, 8),
                        tick: u64_at(&all, 16),
                        body: all[32..].to_vec(),
                    };
                }
            }
            let more = tokio::time::timeout(Duration::from_secs(60), self.body.next())
                .await
                .expect("more to come")
                .expect("the stream goes on");
            self.buffer.extend(more.unwrap());
        }
    }
}

fn four_gpus() -> Value {
    json!({"name": "hush", "gang": {"gpus": 4}, "run": {"command": ["true"]}})
}

#[tokio::test(flavor = "multi_thread")]
async fn a_console_sees_the_fleet_and_then_only_what_changes() {
    let s = site().await;
    let layout = s.get(&s.admin, "/v1/console/layout").await.json();
    assert_eq!(layout["nodes"][0]["name"], "n1");
    assert_eq!(layout["nodes"][0]["gpus"], 8);
    let mut frames = watch(&s, &s.admin).await;
    let words = frames.next().await;
    assert_eq!((words.kind, words.json()["tenants"].clone()), (2, json!([])));
    let whole = frames.next().await;
    assert_eq!((whole.kind, whole.count), (0, 8));
    assert_eq!(json!(whole.layout), layout["version"]);
    assert_eq!(whole.body.len(), 8 * 16);
    assert!(whole.jobs().iter().all(|(_, job)| *job == 0));
    assert_eq!(s.post(&s.user, "/v1/jobs", &four_gpus()).await.status, 201);
    // A frame comes every second, also while the job is on its way.
    let (mut last, mut hints) = (whole.tick, Vec::new());
    let changed = loop {
        let frame = frames.next().await;
        match frame.kind {
            1 => {
                assert_eq!(frame.tick, last + 1, "none is skipped");
                last = frame.tick;
                if frame.count > 0 {
                    break frame;
                }
            }
            3 => hints.extend(frame.json()["kinds"].as_array().unwrap().iter().cloned()),
            _ => {}
        }
    };
    assert!(hints.contains(&json!("job_submitted")), "{hints:?}");
    let jobs = changed.jobs();
    assert_eq!(jobs.iter().map(|(_, j)| *j).collect::<Vec<_>>(), [1; 4]);
    // Who comes later gets it whole.
    let mut late = watch(&s, &s.viewer).await;
    assert_eq!(late.next().await.kind, 2);
    assert_eq!(late.next().await.jobs().iter().filter(|(_, j)| *j == 1).count(), 4);
}

#[tokio::test(flavor = "multi_thread")]
async fn gpus_of_a_node_in_maintenance_are_not_shown_as_ready() {
    let s = site().await;
    let open = json!({"over": {"nodes": ["n1"]}, "start": "1970-01-01T00:00:00Z",
        "length": "1d", "every": "1d"});
    let got = s.call(&s.operator, "PUT", "/v1/reservations/upkeep", &open, &[]).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let layout = s.get(&s.admin, "/v1/console/layout").await.json();
    let mut frames = watch(&s, &s.admin).await;
    assert_eq!(frames.next().await.kind, 2);
    let whole = frames.next().await;
    assert_eq!((whole.kind, whole.count), (0, 8));
    // Their states are behind the jobs and four columns of two bytes.
    for state in &whole.body[whole.count * 12..whole.count * 13] {
        assert_eq!(layout["states"][usize::from(*state)], "maintenance", "{layout}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn others_work_has_no_name_in_a_projects_picture() {
    let s = site().await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &four_gpus()).await.status, 201);
    let mut durable = s.brain.watch();
    let placed = |s: &Site| s.brain.read(|st| st.jobs.values().any(|j| j.attempt.is_some()));
    while !placed(&s) {
        tokio::time::timeout(Duration::from_secs(60), durable.changed()).await.unwrap().unwrap();
    }
    let mut own = watch(&s, &s.user).await;
    assert_eq!(own.next().await.json()["tenants"], json!(["alpha"]));
    assert_eq!(own.next().await.jobs().iter().filter(|(_, j)| *j == 1).count(), 4);
    let mut others = watch(&s, &s.other).await;
    let words = others.next().await.json();
    assert_eq!(words, json!({"tenants": ["beta"], "versions": []}), "nobody is counted");
    let whole = others.next().await;
    let held = whole.jobs().iter().filter(|(_, j)| *j == u32::MAX).count();
    assert_eq!(held, 4, "held by somebody, no more");
}

/// The jobs of a picture of the past.
async fn past(s: &Site, token: &str, at: muster_model::Time) -> Result<Vec<(u32, u32)>, String> {
    Ok(picture_of(s, token, at).await?.jobs())
}

/// A whole picture of the past.
async fn picture_of(s: &Site, token: &str, at: muster_model::Time) -> Result<Frame, String> {
    let at = muster_api::Timestamp(at);
    let at = serde_json::to_value(at).unwrap().as_str().unwrap().to_owned();
    let got = s.get(token, &format!("/v1/console/past?at={at}")).await;
    if got.status != 200 {
        return Err(got.error());
    }
    let mut frames = Vec::new();
    let mut rest = &got.body[..];
    while !rest.is_empty() {
        let (head, body) = rest.split_at(4);
        let (frame, more) = body.split_at(u32_at(head, 0) as usize);
        let count = u32_at(frame, 4) as usize;
        let (layout, tick) = (u64_at(frame, 8), u64_at(frame, 16));
        frames.push(Frame { kind: frame[1], count, layout, tick, body: frame[32..].to_vec() });
        rest = more;
    }
    assert_eq!(frames.iter().map(|f| f.kind).collect::<Vec<_>>(), [4, 2, 0]);
    assert_eq!(frames[0].json()["version"], json!(frames[2].layout));
    Ok(frames.remove(2))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_is_shown_as_it_was_and_others_work_stays_without_a_name() {
    let s = site().await;
    // More than the server's clock is set back at once while this machine's is corrected.
    let tick = async || {
        let from = s.brain.now();
        while s.brain.now().since(from) < muster_model::Span(100) {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tick().await;
    let before = s.brain.now();
    tick().await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &four_gpus()).await.status, 201);
    let mut durable = s.brain.watch();
    while !s.brain.read(|st| st.jobs.values().any(|j| j.attempt.is_some())) {
        tokio::time::timeout(Duration::from_secs(60), durable.changed()).await.unwrap().unwrap();
    }
    tick().await;
    let after = s.brain.now();
    let held = |jobs: Vec<(u32, u32)>, id: u32| jobs.iter().filter(|(_, j)| *j == id).count();
    // Forwards, backwards and forwards again.
    for _ in 0..2 {
        assert_eq!(held(past(&s, &s.admin, after).await.unwrap(), 1), 4);
        assert_eq!(held(past(&s, &s.admin, before).await.unwrap(), 0), 8);
    }
    assert_eq!(held(past(&s, &s.other, after).await.unwrap(), u32::MAX), 4);
    // Whoever moves the slider goes away before the answer comes, over and over.
    for n in 0..20 {
        let at = if n % 2 == 0 { before } else { after };
        let asked = past(&s, &s.admin, at);
        let _ = tokio::time::timeout(Duration::from_micros(n * 100), asked).await;
        assert_eq!(held(past(&s, &s.admin, after).await.unwrap(), 1), 4);
        assert_eq!(held(past(&s, &s.admin, before).await.unwrap(), 0), 8);
    }
    assert_eq!(past(&s, &s.admin, muster_model::Time(1000)).await, Err("invalid".into()));
    assert_eq!(s.get("", "/v1/console/past?at=2030-01-01T00:00:00Z").await.status, 401);
    assert_eq!(s.get(&s.admin, "/v1/console/past").await.status, 400);
    let first = s.brain.records(muster_model::Seq(0), 1).await.unwrap()[0].at;
    let begin = s.get(&s.viewer, "/v1/console/past-begin").await.json();
    assert_eq!(begin, json!({"at": muster_api::Timestamp(first)}));
    assert_eq!(s.get("", "/v1/console/past-begin").await.status, 401);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_past_has_the_metrics_that_its_history_has() {
    use super::history::{row, take};
    let s = site().await;
    let at = s.brain.now();
    let known = async || {
        let whole = picture_of(&s, &s.admin, at).await.unwrap();
        // Job, four columns of two bytes, state and flags come before it.
        let util = whole.count * 14;
        whole.body[util..util + whole.count].to_vec()
    };
    assert_eq!(known().await, [255; 8], "nothing is made up");
    take(&s, &row("n1", at, 64.0)).await;
    assert_eq!(known().await, [64; 8]);
    // Nobody holds them: a project does not see what they do.
    let others = picture_of(&s, &s.other, at).await.unwrap();
    assert_eq!(others.body[8 * 14..8 * 15], [255; 8]);
}

#[tokio::test(flavor = "multi_thread")]
async fn frames_need_a_token_and_end_with_it() {
    let s = site().await;
    assert_eq!(s.get("", "/v1/console/frames").await.error(), "unauthenticated");
    let made = s.post(&s.admin, "/v1/tokens", &json!({"name": "brief", "role": "viewer"})).await;
    let token = made.json()["secret"].as_str().unwrap().to_owned();
    let mut frames = watch(&s, &token).await;
    frames.next().await;
    let id = made.json()["id"].as_str().unwrap().to_owned();
    s.call(&s.admin, "DELETE", &format!("/v1/tokens/{id}"), &Value::Null, &[]).await;
    let end = async { while frames.body.next().await.is_some() {} };
    tokio::time::timeout(Duration::from_secs(60), end).await.expect("the stream ends");
}

#[tokio::test(flavor = "multi_thread")]
async fn figures_of_a_silent_node_are_an_empty_list() {
    let s = site().await;
    let got = s.get(&s.operator, "/v1/nodes/n1/telemetry").await.json();
    assert_eq!(got["rows"], json!([]));
    assert_eq!(s.get(&s.operator, "/v1/nodes/n9/telemetry").await.error(), "not_found");
    let bad = s.get(&s.operator, "/v1/nodes/n1/telemetry?after=yesterday").await;
    assert_eq!(bad.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn addresses_of_the_console_open_anywhere_and_the_apis_stay_its_own() {
    let s = site().await;
    let browser = [("accept", "text/html,application/xhtml+xml,*/*;q=0.8")];
    let open = async |path: &str| s.call("", "GET", path, &Value::Null, &browser).await;
    let index = s.get("", "/").await.body;
    for path in ["/nodes/n1", "/jobs/7", "/oncall"] {
        let got = open(path).await;
        assert_eq!((got.status.as_u16(), got.header("cache-control")), (200, "no-cache"));
        assert_eq!(got.body, index, "{path}");
    }
    for path in ["/v1/nonsense", "/ui/nonsense.js"] {
        assert_eq!(open(path).await.error(), "not_found");
    }
    assert_eq!(s.get("", "/nodes/n1").await.error(), "not_found", "a program gets it");
}

#[test]
fn every_operation_has_a_name_of_its_own() {
    let doc = crate::openapi::description();
    let mut seen = std::collections::BTreeSet::new();
    for (path, item) in doc["paths"].as_object().unwrap() {
        for (method, op) in item.as_object().unwrap() {
            let id = op["operationId"].as_str().unwrap().to_owned();
            assert!(seen.insert(id.clone()), "{method} {path}: {id} is taken");
        }
    }
    assert!(seen.contains("get_nodes_name") && seen.contains("post_jobs"), "{seen:?}");
    let level = &doc["components"]["schemas"]["TestLevel"]["enum"];
    assert_eq!(level, &json!(["quick", "standard", "full"]));
}
