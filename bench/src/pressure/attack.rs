//! The tenant who sends the worst inputs known, each again as soon as it is answered.

use super::crowd::{Counts, linger, open_events};
use super::parts::Parts;
use crate::http::{Client, Target};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use hyper::header::{ACCEPT_ENCODING, HeaderValue};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::time::{sleep, timeout};

/// Arrays that the lists have to show.
const ARRAYS: u32 = 3;
/// Bodies that never come whole: more than one token may have.
const BODIES: usize = 300;
/// Length that such a body announces; half of it is sent.
const BODY: usize = 280_000;
/// Event streams from the beginning that nobody reads.
const UNREAD: usize = 64;
/// Between two arrays that are accepted.
const ARRAY_EVERY: Duration = Duration::from_secs(10);
/// An answer that takes longer is given up, and asked for again.
const PATIENCE: Duration = Duration::from_secs(60);

/// A request, and how many clients send it at once.
struct Input {
    part: &'static str,
    what: &'static str,
    method: Method,
    path: String,
    body: Bytes,
    clients: usize,
}

impl Input {
    /// It belongs to this part of the load.
    fn of(self, part: &'static str) -> Input {
        Input { part, ..self }
    }
}

fn get(what: &'static str, path: impl Into<String>, clients: usize) -> Input {
    let (method, body) = (Method::GET, Bytes::new());
    Input { part: "lists", what, method, path: path.into(), body, clients }
}

fn post(what: &'static str, path: &str, body: impl ToString, clients: usize) -> Input {
    let (method, body) = (Method::POST, Bytes::from(body.to_string()));
    Input { part: "specs", what, method, path: path.into(), body, clients }
}

fn job(fields: &Value) -> Value {
    let mut spec =
        json!({"kind": "Job", "name": "worst", "hold": true, "run": {"command": ["true"]}});
    for (name, value) in fields.as_object().into_iter().flatten() {
        spec[name] = value.clone();
    }
    spec
}

/// What is sent all the time to a site of so many nodes, where this task waits last of all.
fn inputs(nodes: u32, last: &str) -> Vec<Input> {
    const SUBMIT: &str = "/v1/jobs";
    const DRY_RUN: &str = "/v1/jobs?dry_run=true";
    let overlapping = job(&json!({"array": vec!["0-9999"; 40_000].join(",")}));
    let apart: Vec<String> = (0..1024).map(|n| format!("{}-{}", n * 9, n * 9 + 7)).collect();
    let words = |n: usize| (0..n).map(|i| format!("word-{i:08}"));
    let volumes: Vec<Value> =
        words(6000).map(|w| json!({"from": format!("/{w}"), "at": format!("/{w}")})).collect();
    let groups: Vec<Value> = words(5000).map(|w| json!({"name": w, "gpus_per_node": 8})).collect();
    let whole = json!({"nodes": nodes, "gpus_per_node": 8});
    let waits = vec!["sweep-0:any"; 64];
    let over: Vec<String> = words(20_000).collect();
    let states = vec!["queued"; 1000].join(",");
    vec![
        post("overlapping ranges, dry run", DRY_RUN, &overlapping, 3).of("ranges"),
        post("overlapping ranges", SUBMIT, &overlapping, 3).of("ranges"),
        post("1,024 ranges, dry run", DRY_RUN, job(&json!({"array": apart.join(",")})), 2)
            .of("ranges"),
        post("20,000 dependencies", SUBMIT, job(&json!({"after": vec!["sweep-0:any"; 20_000]})), 2),
        post(
            "an array with 64 dependencies, dry run",
            DRY_RUN,
            job(&json!({"array": "0-1561", "after": waits})),
            1,
        ),
        post(
            "a list of GPU kinds",
            SUBMIT,
            job(&json!({"gang": {"sku": over.join("|"), "gpus": 1}})),
            1,
        ),
        post("5,000 groups", SUBMIT, job(&json!({"gang": {"groups": groups}})), 1),
        post("6,000 volumes", SUBMIT, job(&json!({"volumes": volumes})), 1),
        post(
            "a gang of every node in one leaf, dry run",
            DRY_RUN,
            job(&json!({"gang": whole, "topology": {"required": "leaf"}})),
            2,
        )
        .of("gangs"),
        post("a gang of every node, dry run", DRY_RUN, job(&json!({"gang": whole})), 2).of("gangs"),
        post("brackets in brackets", SUBMIT, "[".repeat(BODY), 1),
        Input {
            method: Method::PUT,
            ..post(
                "a list of 20,000 nodes",
                "/v1/reservations/worst",
                json!({"over": {"nodes": over}}),
                1,
            )
        },
        get("pages of 1,000 jobs", "/v1/jobs?limit=1000", 3),
        get("jobs of a name that none has", "/v1/jobs?limit=1000&name=nobody", 3),
        get("jobs in 1,000 states", format!("/v1/jobs?limit=1000&state={states}"), 1),
        get("pages of the log", "/v1/events?after=0&limit=1000", 2).of("log"),
        get("pages of nodes", "/v1/nodes?limit=1000", 2),
        get("the last gang of the fleet's size", format!("/v1/jobs/{last}"), 3).of("explain"),
        get("why it waits", format!("/v1/jobs/{last}/explain"), 3).of("explain"),
        get("the API's description", "/openapi.json", 2).of("openapi"),
    ]
    .into_iter()
    .chain(reads(last))
    .collect()
}

/// What looks at the whole site, however little of it a tenant is shown.
fn reads(last: &str) -> Vec<Input> {
    let array = last.split('_').next().unwrap_or(last);
    let all = vec![
        get("quotas", "/v1/quotas", 3),
        get("what is wrong", "/v1/causes", 2),
        get("the status of the site", "/v1/health", 2),
        get("the status of the server", "/v1/server", 2),
        get("a search for what there is not", "/v1/search?q=nobody&limit=100", 3),
        get(
            "events with a text that none has",
            "/v1/events?order=newest&text=nobody&limit=1000",
            2,
        ),
        get("jobs by their names", "/v1/jobs?limit=1000&sort=name", 2),
        get("an array in short", format!("/v1/jobs/{array}/array"), 2),
        get("GPUs by the hour", "/v1/reports/fleet?from=2000-01-01T00:00:00Z&step=hour", 2),
        get("places of nodes", "/v1/topology", 1),
        get("objectives", "/v1/slos", 1),
        get("alerts", "/v1/alerts?limit=1000", 1),
        get("the layout of the map", "/v1/console/layout", 1),
    ];
    all.into_iter().map(|input| input.of("reads")).collect()
}

/// Answers by what was asked and their status; 0 where none came.
#[derive(Debug, Default, Clone)]
pub(super) struct Attack {
    answers: Arc<Mutex<BTreeMap<(&'static str, u16), u64>>>,
    pub(super) bodies: Arc<Counts>,
    pub(super) unread: Arc<Counts>,
}

/// Submits the arrays that the lists have to show, each task with as much text as it may have, and one
/// of gangs of the whole fleet, which wait behind everybody else. Gives the last of those.
pub(super) async fn prepare(who: &Target, nodes: u32, arrays: bool) -> Result<String> {
    let mut client = Client::new(who.clone());
    let path = |n: usize| format!("/{n}{}", "x".repeat(1000));
    let volumes: Vec<Value> = (0..3).map(|n| json!({"from": path(n), "at": path(n)})).collect();
    let mut specs: Vec<Value> = (0..ARRAYS)
        .map(|n| json!({"name": format!("sweep-{n}"), "array": "0-9999", "volumes": volumes}))
        .collect();
    specs.push(json!({
        "name": "queue", "array": "0-9999", "hold": !arrays, "priority": "low",
        "gang": {"nodes": nodes, "gpus_per_node": 8}, "run": {}, "simulate": {"run": "1s"},
    }));
    let mut last = String::new();
    for spec in &specs {
        let body = Bytes::from(job(spec).to_string());
        let (status, body) = client.call(&Method::POST, "/v1/jobs", body).await?;
        let text = String::from_utf8_lossy(&body);
        ensure!(status == 201, "an array was not accepted: {status} {text}");
        let made: Value = serde_json::from_slice(&body)?;
        last = format!("{}_9999", made["id"].as_str().context("an array without an id")?);
    }
    Ok(last)
}

impl Attack {
    /// Sends everything, on the runtime that this is called on, until that ends. With `arrays` also
    /// what is accepted: an array of 10,000 tasks every ten seconds, which is cancelled again.
    pub(super) fn begin(&self, who: &Target, nodes: u32, last: &str, arrays: bool, parts: &Parts) {
        for input in inputs(nodes, last).into_iter().filter(|input| parts.have(input.part)) {
            let input = Arc::new(input);
            for n in 0..input.clients {
                let mut who = who.clone();
                // Packing costs the server more than sending.
                if n % 2 == 1 {
                    who.headers.push((ACCEPT_ENCODING, HeaderValue::from_static("gzip")));
                }
                tokio::spawn(self.clone().again_and_again(who, input.clone()));
            }
        }
        let unfinished = Arc::new(unfinished(who));
        for _ in 0..parts.count("bodies", BODIES) {
            let (port, said, counts) = (who.port, unfinished.clone(), self.bodies.clone());
            tokio::spawn(async move {
                loop {
                    linger(port, &said, &counts).await;
                    sleep(Duration::from_millis(500)).await;
                }
            });
        }
        for _ in 0..parts.count("unread", UNREAD) {
            tokio::spawn(unread(who.clone(), self.unread.clone()));
        }
        if arrays {
            tokio::spawn(self.clone().accepted_arrays(who.clone()));
        }
    }

    fn answered(&self, what: &'static str, status: u16) {
        let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
        *answers.entry((what, status)).or_default() += 1;
    }

    /// What was answered how often.
    pub(super) fn now(&self) -> BTreeMap<(&'static str, u16), u64> {
        self.answers.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn again_and_again(self, who: Target, input: Arc<Input>) {
        let mut client = Client::new(who.clone());
        loop {
            let status = ask(&mut client, &input.method, &input.path, input.body.clone()).await;
            self.answered(input.what, status.unwrap_or(0));
            if status.is_none() {
                client = Client::new(who.clone());
                sleep(Duration::from_millis(100)).await;
            }
        }
    }

    async fn accepted_arrays(self, who: Target) {
        let spec = job(&json!({"name": "more", "array": "0-9999"}));
        let mut every = tokio::time::interval(ARRAY_EVERY);
        loop {
            every.tick().await;
            let mut client = Client::new(who.clone());
            let body = Bytes::from(spec.to_string());
            let made = timeout(PATIENCE, client.call(&Method::POST, "/v1/jobs", body)).await;
            let Ok(Ok((status, body))) = made else {
                self.answered("an array of 10,000", 0);
                continue;
            };
            self.answered("an array of 10,000", status);
            let made: Value = serde_json::from_slice(&body).unwrap_or_default();
            let Some(id) = made["id"].as_str() else { continue };
            let path = format!("/v1/jobs/{id}/cancel");
            let status = ask(&mut client, &Method::POST, &path, Bytes::new()).await;
            self.answered("its end", status.unwrap_or(0));
        }
    }
}

/// The status of the answer, when one came whole.
async fn ask(client: &mut Client, method: &Method, path: &str, body: Bytes) -> Option<u16> {
    match timeout(PATIENCE, client.call(method, path, body)).await {
        Ok(Ok((status, _))) => Some(status),
        Ok(Err(_)) | Err(_) => None,
    }
}

/// A submit of which half is sent.
fn unfinished(who: &Target) -> Vec<u8> {
    let mut text = format!(
        "POST /v1/jobs HTTP/1.1\r\nHost: 127.0.0.1:{}\r\nContent-Type: application/json\r\n\
         Content-Length: {BODY}\r\n",
        who.port
    )
    .into_bytes();
    for (name, value) in &who.headers {
        text.extend_from_slice(name.as_str().as_bytes());
        text.extend_from_slice(b": ");
        text.extend_from_slice(value.as_bytes());
        text.extend_from_slice(b"\r\n");
    }
    text.extend_from_slice(b"\r\n{\"array\": \"");
    text.resize(text.len() + BODY / 2, b'0');
    text
}

/// A stream from the beginning of the log that nobody reads; made anew once a minute.
async fn unread(who: Target, counts: Arc<Counts>) {
    loop {
        match open_events(&who, "0").await {
            Ok(_stream) => {
                let _standing = counts.register_open();
                sleep(Duration::from_secs(60)).await;
            }
            Err(_) => {
                counts.refuse();
                sleep(Duration::from_secs(1)).await;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_worst_inputs_are_as_large_as_they_are_said_to_be() {
        let all = inputs(64, "4_9999");
        let of = |what: &str| all.iter().find(|b| b.what == what).unwrap();
        assert!(of("overlapping ranges").body.len() > 280_000 - 1);
        assert_eq!(of("overlapping ranges").clients, 3);
        assert!(all.iter().all(|input| super::super::PARTS.contains(&input.part)));
        let dry = of("1,024 ranges, dry run");
        let spec: Value = serde_json::from_slice(&dry.body).unwrap();
        assert_eq!(spec["array"].as_str().unwrap().split(',').count(), 1024);
        assert_eq!(of("a list of 20,000 nodes").method, Method::PUT);
        let array = of("an array in short");
        assert_eq!((array.part, array.path.as_str()), ("reads", "/v1/jobs/4/array"));
        assert_eq!((of("quotas").part, of("quotas").path.as_str()), ("reads", "/v1/quotas"));
        // The server takes no more than a megabyte: what is larger would be refused unread.
        assert!(all.iter().all(|b| b.body.len() < 1 << 20), "one is larger");
    }

    #[test]
    fn a_body_that_never_comes_whole_says_that_it_will() {
        let who = Target::new(80, &[("Authorization", "Bearer x")]).unwrap();
        let text = String::from_utf8(unfinished(&who)).unwrap();
        let (head, body) = text.split_once("\r\n\r\n").unwrap();
        assert!(head.contains("authorization: Bearer x") && head.contains("280000"), "{head}");
        assert!(body.len() > BODY / 2 && body.len() < BODY);
    }
}
