//! Traces of a real server, as a collector gets them: whole, with the caller's trace going on,
//! and without anything that is nobody's business. A collector that is away changes nothing.

use crate::minutes::cluster::{Cluster, until};
use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::trace::v1::Span;
use prost::Message as _;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Instant;

/// Takes what is sent to it, as a collector does.
struct Collector {
    url: String,
    bodies: Arc<Mutex<Vec<Vec<u8>>>>,
    gone: Arc<AtomicBool>,
}

impl Collector {
    fn start() -> Collector {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let url = format!("http://{}", listener.local_addr().expect("an address"));
        let (bodies, gone) = (Arc::<Mutex<Vec<Vec<u8>>>>::default(), Arc::<AtomicBool>::default());
        let (kept, over) = (Arc::clone(&bodies), Arc::clone(&gone));
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                let (kept, over) = (Arc::clone(&kept), Arc::clone(&over));
                std::thread::spawn(move || serve(stream, &kept, &over));
            }
        });
        Collector { url, bodies, gone }
    }

    /// Ends: from now on connections are refused or closed.
    fn leave(&self) {
        self.gone.store(true, Ordering::SeqCst);
        let address: SocketAddr = self.url["http://".len()..].parse().expect("its own address");
        let _ = TcpStream::connect(address);
    }

    fn spans(&self) -> Vec<Span> {
        let mut out = Vec::new();
        for body in self.bodies.lock().expect("nobody fell").iter() {
            let request = ExportTraceServiceRequest::decode(&body[..]).expect("OTLP");
            for r in request.resource_spans {
                let about = r.resource.expect("it says what it is").attributes;
                assert!(about.iter().any(|a| a.key == "service.name"), "{about:?}");
                out.extend(r.scope_spans.into_iter().flat_map(|s| s.spans));
            }
        }
        out
    }
}

/// Requests of one connection, one after the other.
fn serve(mut stream: TcpStream, kept: &Mutex<Vec<Vec<u8>>>, over: &AtomicBool) {
    let mut held: Vec<u8> = Vec::new();
    let mut buffer = [0; 8192];
    loop {
        let head = held.windows(4).position(|w| w == b"\r\n\r\n");
        let whole = head.and_then(|at| {
            let text = String::from_utf8_lossy(&held[..at]).to_lowercase();
            assert!(text.starts_with("post /v1/traces "), "{text}");
            assert!(text.contains("application/x-protobuf"), "{text}");
            let length = text.lines().find_map(|l| l.strip_prefix("content-length: "));
            let end = at + 4 + length.expect("a length").trim().parse::<usize>().expect("a number");
            (held.len() >= end).then_some((at + 4, end))
        });
        match whole {
            Some((from, end)) => {
                if over.load(Ordering::SeqCst) {
                    return;
                }
                kept.lock().expect("nobody fell").push(held[from..end].to_vec());
                held.drain(..end);
                let answer = "HTTP/1.1 200 OK\r\nContent-Type: application/x-protobuf\r\n\
                              Content-Length: 0\r\n\r\n";
                if stream.write_all(answer.as_bytes()).is_err() {
                    return;
                }
            }
            None => match stream.read(&mut buffer) {
                Ok(n) if n > 0 => held.extend_from_slice(&buffer[..n]),
                _ => return,
            },
        }
    }
}

/// A plain request, with headers that no client of ours sends.
fn ask(c: &Cluster, token: &str, path: &str, more: &str) -> String {
    let mut stream = TcpStream::connect(c.listen()).expect("the API");
    let request = format!(
        "GET {path} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {token}\r\n{more}\
         Connection: close\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer");
    answer
}

fn text(span: &Span, key: &str) -> Option<String> {
    let value = span.attributes.iter().find(|a| a.key == key)?.value.as_ref()?.value.as_ref()?;
    Some(match value {
        Value::StringValue(s) => s.clone(),
        Value::IntValue(n) => n.to_string(),
        other => format!("{other:?}"),
    })
}

fn metric(c: &Cluster, name: &str) -> Option<u64> {
    let page = ask(c, &c.token, "/metrics", "");
    page.lines().find_map(|l| l.strip_prefix(name)?.trim().parse().ok())
}

#[test]
fn a_collector_gets_requests_and_cycles_and_nothing_secret() {
    let collector = Collector::start();
    let c = Cluster::start_with(2, &["--otlp", &collector.url]);
    let secret = "hunter2-in-a-secret";
    c.muster_with_input(&["secret", "set", "wandb-key"], secret).code(0);
    c.muster(&["project", "create", "other"]).code(0);
    let made = c.json(&["token", "create", "ann", "--project", "other", "--role", "user"]);
    let token = made["secret"].as_str().expect("it is shown once").to_owned();
    let parent = "traceparent: 00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01\r\n\
                  X-Request-Id: req-7\r\nCookie: a=cookie-secret\r\n";
    let answer = ask(&c, &token, "/v1/jobs?name=secret-query", parent);
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // Headers that make no sense are no reason to fail.
    ask(&c, &token, "/v1/whoami", "traceparent: 00-zz-1-01\r\nX-Request-Id: a b\r\n");
    let id = c.submit(&["--name", "traced", "--gpus", "2", "--", "echo", "secret-argument"]);
    until("it ends", || c.json(&["get", "job", &id])["state"] == "succeeded");

    let named = |name: &str| -> Vec<Span> {
        collector.spans().into_iter().filter(|s| s.name == name).collect()
    };
    until("the caller's request is there", || {
        named("GET /v1/jobs").iter().any(|s| text(s, "muster.request_id").is_some())
    });
    let all = named("GET /v1/jobs");
    let span = all.iter().find(|s| text(s, "muster.request_id").is_some()).expect("it is there");
    let hex = |bytes: &[u8]| bytes.iter().map(|b| format!("{b:02x}")).collect::<String>();
    assert_eq!(hex(&span.trace_id), "0af7651916cd43dd8448eb211c80319c");
    assert_eq!(hex(&span.parent_span_id), "b7ad6b7169203331");
    assert_eq!(span.kind, 2, "a server's: {span:?}");
    for (key, want) in [
        ("http.request.method", "GET"),
        ("http.route", "/v1/jobs"),
        ("http.response.status_code", "200"),
        ("muster.project", "other"),
        ("muster.request_id", "req-7"),
    ] {
        assert_eq!(text(span, key).as_deref(), Some(want), "{key}: {span:?}");
    }
    until("the submission is decided as a part of its request", || {
        let posted = named("POST /v1/jobs");
        let decided = named("decide");
        posted.iter().any(|p| {
            decided.iter().any(|d| d.parent_span_id == p.span_id && d.trace_id == p.trace_id)
        })
    });
    until("the cycle that placed it, its placement and a commit are there", || {
        let cycles = named("cycle");
        let placed = named("place");
        let of = |p: &Span| {
            text(p, "muster.job").as_deref() == Some(id.as_str())
                && text(p, "muster.gpus").as_deref() == Some("2")
                && cycles.iter().any(|c| {
                    c.span_id == p.parent_span_id
                        && text(c, "muster.jobs_started").as_deref() == Some("1")
                })
        };
        placed.iter().any(of) && !named("commit").is_empty()
    });
    let spans = collector.spans();
    assert!(spans.iter().all(|s| s.end_time_unix_nano >= s.start_time_unix_nano));
    assert!(!spans.iter().any(|s| text(s, "muster.idle").is_some()), "nothing is not reported");
    // Nothing of it is in the bytes.
    let bytes = collector.bodies.lock().expect("nobody fell").concat();
    let admin = c.token.clone();
    for hidden in [
        secret,
        "secret-query",
        "cookie-secret",
        "secret-argument",
        token.as_str(),
        token.rsplit('_').next().unwrap_or(&token),
        admin.as_str(),
        admin.rsplit('_').next().unwrap_or(&admin),
        "Bearer",
    ] {
        let found = bytes.windows(hidden.len()).any(|w| w == hidden.as_bytes());
        assert!(!found, "{hidden} was sent");
    }
    until("what was sent is counted", || metric(&c, "muster_traces_sent_total") > Some(0));

    // The collector leaves; the server does not care, and says so.
    let left = Instant::now();
    collector.leave();
    let id = c.submit(&["--gpus", "1", "--", "true"]);
    until("work goes on", || c.json(&["get", "job", &id])["state"] == "succeeded");
    until("what is lost is counted", || {
        metric(&c, "muster_traces_dropped_total{why=\"refused\"}") > Some(0)
    });
    let log = || std::fs::read_to_string(c.path("up.log")).expect("its log");
    until("it is reported", || log().contains("the collector accepts no traces"));
    let id = c.submit(&["--gpus", "1", "--", "true"]);
    until("more is lost", || c.json(&["get", "job", &id])["state"] == "succeeded");
    let reported = log().matches("the collector accepts no traces").count();
    let minutes = usize::try_from(left.elapsed().as_secs() / 60).expect("few");
    assert!(reported <= 1 + minutes, "once a minute at most: {}", log());
}

#[test]
fn a_collector_that_never_answers_holds_nothing_up() {
    // It takes connections, and that is all it does.
    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let url = format!("http://{}", silent.local_addr().expect("an address"));
    let c = Cluster::start_with(2, &["--otlp", &url, "--otlp-sample", "1"]);
    let id = c.submit(&["--gpus", "1", "--", "true"]);
    until("it ends", || c.json(&["get", "job", &id])["state"] == "succeeded");
    until("what is lost is counted", || {
        metric(&c, "muster_traces_dropped_total{why=\"refused\"}") > Some(0)
    });
    // More than may wait: the rest is dropped at once. How many that takes is up to the machine:
    // now and then some of those that wait are given up.
    until("a full queue is counted", || {
        let mut stream = TcpStream::connect(c.listen()).expect("the API");
        let many = "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n".repeat(500);
        stream.write_all(many.as_bytes()).expect("sent");
        let last = "GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
        stream.write_all(last.as_bytes()).expect("sent");
        let mut all = String::new();
        stream.read_to_string(&mut all).expect("answers");
        assert_eq!(all.matches("HTTP/1.1 200").count(), 501);
        metric(&c, "muster_traces_dropped_total{why=\"full\"}") > Some(0)
    });
    drop(silent);
}

#[test]
fn with_a_sample_of_nothing_only_callers_who_ask_for_it_are_traced() {
    let collector = Collector::start();
    let c = Cluster::start_with(1, &["--otlp", &collector.url, "--otlp-sample", "0"]);
    let id = c.submit(&["--gpus", "1", "--", "true"]);
    until("it ends", || c.json(&["get", "job", &id])["state"] == "succeeded");
    let trace = "0af7651916cd43dd8448eb211c80319c";
    for (span, flag) in [("b7ad6b7169203331", "00"), ("b7ad6b7169203332", "01")] {
        let parent = format!("traceparent: 00-{trace}-{span}-{flag}\r\n");
        ask(&c, &c.token, "/v1/whoami", &parent);
    }
    until("the one that was asked for is there", || !collector.spans().is_empty());
    let spans = collector.spans();
    assert!(spans.iter().all(|s| s.parent_span_id.last() == Some(&0x32)), "{spans:?}");
}

#[test]
fn without_the_flag_there_are_no_traces_and_wrong_flags_are_refused() {
    let c = Cluster::start(1);
    assert!(!ask(&c, &c.token, "/metrics", "").contains("muster_traces"));
    for (flags, part) in [
        (["--otlp", "127.0.0.1:4318"], "http://127.0.0.1:4318"),
        (["--otlp", "http://me:hunter2@c"], "OTEL_EXPORTER_OTLP_HEADERS"),
        (["--otlp-sample", "2"], "from 0 to 1"),
    ] {
        for command in ["server", "up"] {
            let out = c.muster(&[command, flags[0], flags[1]]);
            out.code(2);
            assert!(out.stderr.contains(part) && !out.stderr.contains("hunter2"), "{out:?}");
        }
    }
}
