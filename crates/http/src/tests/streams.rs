//! Streams: the log and the ranks' output.

use super::{PATIENCE, Site, held, id_of, patient, request, site, site_with};
use crate::feed::{SendFailure, StreamBuffer};
use crate::{App, HttpConfig, router};
use axum::body::BodyDataStream;
use futures::StreamExt as _;
use muster_link::messages::{LogChunk, Stream};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::tenant::Role;
use muster_model::units::Span;
use serde_json::{Value, json};
use std::time::Duration;
use tower::ServiceExt as _;

/// Reads server-sent events off a body.
struct Sse {
    body: BodyDataStream,
    buffer: String,
    /// The last block that was no event.
    last: String,
}

async fn follow(s: &Site, token: &str, path: &str, last: Option<&str>) -> Sse {
    let mut headers = vec![("accept", "text/event-stream"), ("accept-encoding", "gzip")];
    headers.extend(last.map(|l| ("last-event-id", l)));
    let r = s
        .router
        .clone()
        .oneshot(request(token, "GET", path, &Value::Null, &headers))
        .await
        .unwrap();
    assert_eq!(r.status(), 200);
    assert_eq!(r.headers()["content-type"], "text/event-stream");
    assert!(
        !r.headers().contains_key("content-encoding"),
        "a stream is not held back to be compressed"
    );
    Sse { body: r.into_body().into_data_stream(), buffer: String::new(), last: String::new() }
}

impl Sse {
    /// The next bytes as they came.
    async fn piece(&mut self) -> bytes::Bytes {
        let more = tokio::time::timeout(PATIENCE, self.body.next()).await.expect("more to come");
        more.unwrap().unwrap()
    }

    /// The next event with its id.
    async fn next(&mut self) -> Option<(String, Value)> {
        loop {
            while let Some((block, rest)) = self.buffer.split_once("\n\n") {
                let (block, rest) = (block.to_owned(), rest.to_owned());
                self.buffer = rest;
                let line =
                    |p: &str| block.lines().find_map(|l| l.strip_prefix(p).map(str::to_owned));
                if let (Some(id), Some(data)) = (line("id: "), line("data: ")) {
                    return Some((id, serde_json::from_str(&data).unwrap()));
                }
                self.last = block;
            }
            let more =
                tokio::time::timeout(PATIENCE, self.body.next()).await.expect("more to come")?;
            self.buffer.push_str(std::str::from_utf8(&more.unwrap()).unwrap());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_resumes_with_nothing_skipped_or_repeated() {
    let s = site().await;
    s.held_job(&s.user).await;
    let mut seen = Vec::new();
    let mut last: Option<String> = None;
    // Broken off after every few events, while the log goes on.
    while seen.len() < 12 {
        let mut stream = follow(&s, &s.admin, "/v1/events", last.as_deref()).await;
        s.held_job(&s.user).await;
        for _ in 0..3 {
            let (id, event) = stream.next().await.unwrap();
            assert_eq!(id, event["seq"].to_string());
            seen.push(event["seq"].as_u64().unwrap());
            last = Some(id);
        }
    }
    assert_eq!(seen, (1..=seen.len() as u64).collect::<Vec<_>>());
    let mut after = follow(&s, &s.admin, "/v1/events?after=5", None).await;
    assert_eq!(after.next().await.unwrap().0, "6");
}

#[tokio::test(flavor = "multi_thread")]
async fn followers_that_are_woken_in_groups_see_each_event_once_and_in_order() {
    let s = site().await;
    s.held_job(&s.user).await;
    let begin = s.brain.durable().0;
    let mut streams = Vec::new();
    // So many that there is a pause between two groups.
    for _ in 0..100 {
        let after = begin.to_string();
        streams.push(follow(&s, &s.admin, "/v1/events", Some(&after)).await);
    }
    for _ in 0..5 {
        s.held_job(&s.user).await;
    }
    let end = s.brain.durable().0;
    assert!(end >= begin + 5);
    for stream in &mut streams {
        for seq in begin + 1..=end {
            assert_eq!(stream.next().await.unwrap().0, seq.to_string());
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_that_a_filter_keeps_empty_is_not_silent() {
    let s = site_with(HttpConfig { keep_alive: Duration::ZERO, ..patient() }).await;
    let last = s.brain.durable().to_string();
    let mut stream = follow(&s, &s.admin, "/v1/events?kind=node_lost", Some(&last)).await;
    s.held_job(&s.user).await;
    while !stream.piece().await.starts_with(b": still here, at ") {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_finds_the_few_that_it_chose_among_many() {
    let s = site().await;
    for _ in 0..100 {
        s.held_job(&s.user).await;
    }
    let chosen = s.held_job(&s.operator).await["number"].clone();
    for _ in 0..100 {
        s.held_job(&s.user).await;
    }
    let path = "/v1/events?kind=job_submitted&actor=ops";
    let mut stream = follow(&s, &s.admin, path, None).await;
    assert_eq!(stream.next().await.unwrap().1["data"]["id"], chosen);
    let later = s.held_job(&s.operator).await["number"].clone();
    assert_eq!(stream.next().await.unwrap().1["data"]["id"], later);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_tenant_sees_its_own_events_and_no_sequence() {
    let s = site().await;
    for _ in 0..3 {
        s.held_job(&s.other).await;
        s.held_job(&s.user).await;
    }
    let (mut path, mut items) = ("/v1/events?limit=2".to_owned(), Vec::new());
    loop {
        let page = s.get(&s.user, &path).await.json();
        items.extend(page["items"].as_array().unwrap().clone());
        let Some(c) = page["cursor"].as_str() else { break };
        path = format!("/v1/events?limit=2&after={c}");
    }
    assert!(items.iter().all(|e| e["project"] == "alpha" && e.get("seq").is_none()), "{items:?}");
    let jobs: Vec<_> = items.iter().filter(|e| e["kind"] == "job_submitted").collect();
    assert_eq!(jobs.len(), 3);
    let cursor = jobs[0]["cursor"].as_str().unwrap();
    assert!(cursor.parse::<u64>().is_err());
    let mut stream = follow(&s, &s.user, "/v1/events", Some(cursor)).await;
    assert_eq!(stream.next().await.unwrap().0, jobs[1]["cursor"].as_str().unwrap());
    let stolen =
        s.call(&s.other, "GET", &format!("/v1/events?after={cursor}"), &Value::Null, &[]).await;
    assert_eq!(stolen.status, 400, "a position means nothing to another project");
    assert_eq!(s.get(&s.user, "/v1/events?after=3").await.status, 400);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_is_of_chosen_events_where_that_is_asked() {
    let s = site().await;
    s.held_job(&s.other).await;
    let first = s.held_job(&s.user).await["number"].as_u64().unwrap();
    let path = "/v1/events?kind=job_submitted&actor=ann";
    let mut stream = follow(&s, &s.admin, path, None).await;
    let (id, event) = stream.next().await.unwrap();
    assert_eq!(event["data"]["id"], json!(first));
    s.held_job(&s.other).await;
    let second = s.held_job(&s.user).await["number"].as_u64().unwrap();
    assert_eq!(stream.next().await.unwrap().1["data"]["id"], json!(second));
    let mut again = follow(&s, &s.admin, path, Some(&id)).await;
    assert_eq!(again.next().await.unwrap().1["data"]["id"], json!(second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_reader_that_takes_nothing_is_cut_off_and_can_resume() {
    let config =
        HttpConfig { slow_reader: Duration::from_millis(50), stream_bytes: 4096, ..patient() };
    let mut s = site_with(config).await;
    let room = || s.app.0.streams.available_permits();
    let all = room();
    let mut stream = follow(&s, &s.admin, "/v1/events", None).await;
    // Events come until they are more than a stream may have waiting, and the reader's place is free
    // again.
    let cut_off = async {
        while room() < all {
            s.held_job(&s.user).await;
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    tokio::time::timeout(PATIENCE, cut_off).await.expect("the reader is cut off");
    let mut last = 0;
    while let Some((_, event)) = stream.next().await {
        last += 1;
        assert_eq!(event["seq"], last);
    }
    assert!(stream.last.contains("cut off") && stream.last.contains("Last-Event-ID"));
    // Resumed with the usual patience: this reader is not to be cut off as well.
    let (brain, agents, logs) = (s.brain.clone(), s.app.agents().clone(), s.logs.clone());
    s.router = router(App::new(brain, agents, logs, patient()));
    let mut stream = follow(&s, &s.admin, "/v1/events", Some(&last.to_string())).await;
    assert_eq!(stream.next().await.unwrap().1["seq"], last + 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_ends_when_its_token_does() {
    let s = site().await;
    let made =
        s.post(&s.admin, "/v1/tokens", &json!({"name": "ci", "role": "viewer"})).await.json();
    let mut stream = follow(&s, made["secret"].as_str().unwrap(), "/v1/events", None).await;
    stream.next().await.unwrap();
    let path = format!("/v1/tokens/{}", made["id"].as_str().unwrap());
    assert_eq!(s.call(&s.admin, "DELETE", &path, &Value::Null, &[]).await.status, 204);
    while stream.next().await.is_some() {}
}

#[tokio::test(flavor = "multi_thread")]
async fn a_stream_on_which_nothing_happens_ends_when_its_token_expires() {
    // Nobody hears of it by a sign of life: these never come here.
    let s = site().await;
    let headers = [("accept", "text/event-stream")];
    // On a slow machine a token may have expired before it is shown: then the next lasts longer.
    let mut ttl = Span::secs(1);
    let r = loop {
        let brief = s.token(&format!("brief-{ttl}"), Role::Viewer, Some("alpha"), Some(ttl)).await;
        // A kind of which there is nothing: only the end of the token is left to be reported.
        let path = "/v1/events?kind=node_lost";
        let r = s.router.clone().oneshot(request(&brief, "GET", path, &Value::Null, &headers));
        let r = r.await.unwrap();
        if r.status() == 200 {
            break r;
        }
        assert_eq!(r.status(), 401);
        ttl = Span(ttl.0 * 2);
    };
    let body = r.into_body().into_data_stream();
    let mut stream = Sse { body, buffer: String::new(), last: String::new() };
    assert!(stream.next().await.is_none());
    assert!(stream.last.contains("has expired"), "{}", stream.last);
}

/// The id of a job that has begun, and its attempt.
async fn begun(s: &Site) -> (String, AttemptKey) {
    let spec = json!({"gang": {"gpus": 1}, "run": {"command": ["true"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let (id, number) = (job["id"].as_str().unwrap().to_owned(), job["number"].as_u64().unwrap());
    let mut durable = s.brain.watch();
    while s.brain.read(|st| st.jobs[&JobId(number)].attempts == 0) {
        tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
    }
    (id, AttemptKey { job: JobId(number), attempt: 1 })
}

#[tokio::test(flavor = "multi_thread")]
async fn output_has_its_times_where_they_are_asked_for() {
    let s = site().await;
    let (id, key) = begun(&s).await;
    let begin = s.brain.now();
    let print = async |offset, age, data: &'static [u8]| {
        let (stream, data) = (Stream::Stdout, bytes::Bytes::from_static(data));
        s.logs.append(LogChunk { key, rank: 0, stream, offset, age, data }).await.unwrap();
    };
    print(0, None, b"unseen\n").await;
    print(7, Some(Span::hours(2)), b"early\nbeg").await;
    print(16, Some(Span::hours(1)), b"un\nlate\n").await;
    let path = format!("/v1/jobs/{id}/logs");
    let pieces = async |path: String| {
        let got = s.get(&s.user, &path).await;
        assert_eq!(got.status, 200);
        let lines = got.body.split(|b| *b == b'\n').filter(|l| !l.is_empty());
        lines.map(|l| serde_json::from_slice::<Value>(l).unwrap()).collect::<Vec<_>>()
    };
    let all = "unseen\nearly\nbegun\nlate\n";
    let plain = pieces(path.clone()).await;
    assert_eq!((plain.len(), &plain[0]["text"]), (1, &json!(all)));
    assert!(plain[0].get("at").is_none(), "nobody asked");
    let timed = pieces(format!("{path}?timestamps=true")).await;
    let texts: Vec<_> = timed.iter().map(|p| p["text"].as_str().unwrap()).collect();
    assert_eq!(texts, ["unseen\n", "early\nbeg", "un\nlate\n"]);
    assert!(timed[0].get("at").is_none(), "a time that nobody knows is not made up");
    let at = |p: &Value| p["at"].as_str().unwrap().parse::<muster_api::Timestamp>().unwrap().0;
    let hours = |p: &Value| (begin + Span::mins(30)).since(at(p)).0 / Span::hours(1).0;
    assert_eq!((hours(&timed[1]), hours(&timed[2])), (2, 1));

    // Of a moment or later: whole lines, and a note about what has no time.
    let since = muster_api::Timestamp(begin - Span::mins(90));
    let late = pieces(format!("{path}?since={since}")).await;
    assert!(late[0]["note"].as_str().unwrap().contains("its time is not known"), "{late:?}");
    assert_eq!((late.len(), &late[1]["text"]), (2, &json!("late\n")));
    assert_eq!(s.get(&s.user, &format!("{path}?since=yesterday")).await.status, 400);

    let accept = [("accept", "text/plain")];
    let text = async |more: &str| {
        let path = format!("{path}?rank=0{more}");
        let got = s.call(&s.user, "GET", &path, &Value::Null, &accept).await;
        String::from_utf8(got.body.to_vec()).unwrap()
    };
    assert_eq!(text("").await, all, "byte for byte");
    let stamped = text("&timestamps=true").await;
    let (early, late) = (timed[1]["at"].as_str().unwrap(), timed[2]["at"].as_str().unwrap());
    assert_eq!(
        stamped,
        format!("no-time unseen\n{early} early\n{early} begun\n{late} late\n"),
        "a line has the time of its first byte"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn output_that_is_followed_is_not_silent_while_only_the_log_moves() {
    let s = site_with(HttpConfig { keep_alive: Duration::from_millis(100), ..patient() }).await;
    let (id, _) = begun(&s).await;
    let path = format!("/v1/jobs/{id}/logs?follow=true");
    let asked = request(&s.user, "GET", &path, &Value::Null, &[]);
    let r = s.router.clone().oneshot(asked).await.unwrap();
    assert_eq!(r.status(), 200);
    let mut body = r.into_body().into_data_stream();
    let first = async {
        loop {
            s.held_job(&s.user).await;
            let next = tokio::time::timeout(Duration::from_millis(1), body.next()).await;
            if let Ok(next) = next {
                return next.unwrap().unwrap();
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, first).await.expect("a heartbeat"), "\n");
}

#[tokio::test(flavor = "multi_thread")]
async fn output_comes_as_lines_or_as_bytes() {
    let s = site().await;
    let (id, key) = begun(&s).await;
    let chunk = |offset, data: &'static [u8]| LogChunk {
        key,
        rank: 0,
        stream: Stream::Stdout,
        offset,
        age: Some(Span(0)),
        data: bytes::Bytes::from_static(data),
    };
    s.logs.append(chunk(0, b"one\ntwo\n\xff\nthree\n")).await.unwrap();
    let path = format!("/v1/jobs/{id}/logs");
    let got = s.get(&s.user, &path).await;
    assert_eq!(got.header("content-type"), "application/x-ndjson");
    let line: Value =
        serde_json::from_slice(got.body.split(|b| *b == b'\n').next().unwrap()).unwrap();
    assert_eq!(
        (&line["rank"], &line["attempt"], &line["offset"]),
        (&json!(0), &json!(1), &json!(0))
    );
    let plain = [("accept", "text/plain")];
    let got = s.call(&s.user, "GET", &format!("{path}?rank=0"), &Value::Null, &plain).await;
    assert_eq!(&got.body[..], b"one\ntwo\n\xff\nthree\n");
    let got = s.call(&s.user, "GET", &format!("{path}?rank=0&tail=1"), &Value::Null, &plain).await;
    assert_eq!(&got.body[..], b"three\n");
    assert_eq!(s.call(&s.user, "GET", &path, &Value::Null, &plain).await.status, 400);
    assert_eq!(
        s.call(&s.user, "GET", &path, &Value::Null, &[("accept", "image/png")]).await.status,
        406
    );
    assert_eq!(s.get(&s.user, &format!("{path}?attempt=7")).await.status, 404);
    let got = s.get(&s.user, &format!("{path}?rank=99")).await;
    assert_eq!(got.status, 404);
    assert!(String::from_utf8_lossy(&got.body).contains("has rank 0 only"), "{:?}", got.body);

    // Followed, it goes on until the job has ended.
    let follow =
        request(&s.user, "GET", &format!("{path}?rank=0&follow=true"), &Value::Null, &plain);
    let mut body = s.router.clone().oneshot(follow).await.unwrap().into_body().into_data_stream();
    assert!(body.next().await.unwrap().unwrap().ends_with(b"three\n"));
    s.logs.append(chunk(16, b"four\n")).await.unwrap();
    let next = tokio::time::timeout(PATIENCE, body.next()).await.unwrap();
    assert_eq!(&next.unwrap().unwrap()[..], b"four\n");
    assert_eq!(s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &Value::Null).await.status, 200);
    let ended = muster_model::command::Observed::Ended(muster_model::job::SlotEnd::Stopped);
    let report = muster_model::Command::SlotReport {
        node: "n1".parse().unwrap(),
        key,
        observed: ended,
        ago: None,
    };
    s.brain.system(report).await.unwrap();
    let end =
        tokio::time::timeout(PATIENCE, body.next()).await.expect("the stream ends with the job");
    assert!(end.is_none());
}

#[tokio::test]
async fn followers_share_the_text_of_what_happened() {
    let s = site().await;
    let last = s.brain.durable().to_string();
    let mut all = Vec::new();
    for _ in 0..20 {
        let mut stream = follow(&s, &s.admin, "/v1/events", Some(&last)).await;
        stream.piece().await;
        all.push(stream);
    }
    s.held_job(&s.user).await;
    let mut pieces = Vec::new();
    for stream in &mut all {
        pieces.push(stream.piece().await);
    }
    for piece in &pieces {
        assert!(piece.starts_with(b"id: "), "{piece:?}");
        assert_eq!(piece.as_ptr(), pieces[0].as_ptr(), "one text for all of them");
    }
}

#[tokio::test]
async fn followers_share_the_text_of_a_burst_too() {
    let s = site().await;
    let last = s.brain.durable().to_string();
    // Together more than is sent at a time.
    let path = |n: usize| format!("/{n:02}{}", "x".repeat(1000));
    let volumes: Vec<Value> = (0..30).map(|n| json!({"from": path(n), "at": path(n)})).collect();
    for n in 0..5 {
        let mut spec = held(&format!("j{n}"));
        spec["volumes"] = json!(volumes);
        assert_eq!(s.post(&s.user, "/v1/jobs", &spec).await.status, 201);
    }
    let (mut all, mut pieces) = (Vec::new(), Vec::new());
    for _ in 0..5 {
        let mut stream = follow(&s, &s.admin, "/v1/events", Some(&last)).await;
        stream.piece().await;
        pieces.push(stream.piece().await);
        all.push(stream);
    }
    for piece in &pieces {
        assert!(piece.len() < 4 * 60_000, "{} bytes are all of it", piece.len());
        assert_eq!(piece.as_ptr(), pieces[0].as_ptr(), "one text for all of them");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_token_has_so_many_streams_and_no_more() {
    let s = site_with(HttpConfig { streams_per_token: 1, ..patient() }).await;
    let first = follow(&s, &s.user, "/v1/events", None).await;
    let accept = [("accept", "text/event-stream")];
    let got = s.call(&s.user, "GET", "/v1/events", &Value::Null, &accept).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    let _other = follow(&s, &s.other, "/v1/events", None).await;
    drop(first);
    let room = async {
        while s.app.0.streams_by_token.count(&id_of(&s.user)) > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    tokio::time::timeout(PATIENCE, room).await.expect("a stream that is over takes no place");
}

#[tokio::test]
async fn streams_of_one_token_share_the_bytes_that_may_wait() {
    let config = HttpConfig {
        stream_bytes: 1000,
        stream_bytes_per_token: 1500,
        slow_reader: Duration::from_millis(20),
        ..patient()
    };
    let s = site_with(config).await;
    let bytes = |n: usize| bytes::Bytes::from(vec![b'x'; n]);
    let (first, mut unread) = StreamBuffer::new(&s.app, "a");
    assert_eq!(first.send(bytes(900)).await, Ok(()));
    assert_eq!(first.send(bytes(200)).await, Err(SendFailure::Slow), "a stream has so many");
    let (second, _unread) = StreamBuffer::new(&s.app, "a");
    assert_eq!(second.send(bytes(700)).await, Err(SendFailure::Slow), "and its token so many");
    let (other, _other) = StreamBuffer::new(&s.app, "b");
    assert_eq!(other.send(bytes(700)).await, Ok(()), "another token has its own");
    assert_eq!(unread.next().await.unwrap().unwrap().len(), 900);
    assert_eq!(second.send(bytes(700)).await, Ok(()), "what was read waits no longer");
    assert_eq!(first.send(bytes(5000)).await, Err(SendFailure::Slow));
    first.end("over".into());
    assert_eq!(unread.next().await.unwrap().unwrap(), "over");
    assert!(unread.next().await.is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_a_limit_of_their_own() {
    let s = site_with(HttpConfig { streams: 1, ..patient() }).await;
    s.post(&s.user, "/v1/jobs", &held("a")).await;
    let first = follow(&s, &s.admin, "/v1/events", None).await;
    let got = s
        .call(&s.admin, "GET", "/v1/events", &Value::Null, &[("accept", "text/event-stream")])
        .await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (503, "unavailable"));
    assert_eq!(s.get(&s.admin, "/v1/events").await.status, 200, "pages still come");
    drop(first);
}

/// Operators and viewers of the whole site follow side by side, and do not share that event's text.
#[tokio::test(flavor = "multi_thread")]
async fn a_stream_shows_the_routing_to_operators_only() {
    let s = site().await;
    let watcher = s.token("watcher", Role::Viewer, None, None).await;
    let place = s.brain.durable().to_string();
    let body = json!({"routing": {"receivers": [
        {"name": "chat", "by": {"webhook": {"url": "http://chat.example/pa55word"}}},
    ]}});
    let set = s.call(&s.admin, "PUT", "/v1/routing", &body, &[]).await;
    assert_eq!(set.status, 200, "{:?}", set.body);
    for (token, shown) in [(&s.operator, true), (&watcher, false), (&s.operator, true)] {
        let mut stream = follow(&s, token, "/v1/events", Some(&place)).await;
        let event = loop {
            let (_, event) = stream.next().await.unwrap();
            if event["kind"] == "routing_set" {
                break event;
            }
        };
        assert_eq!(event.to_string().contains("pa55word"), shown, "{event}");
    }
}
