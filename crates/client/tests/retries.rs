//! A server that is away for a moment: writes are repeated under one key, streams go on.

use muster_api::{CreateProject, LogsQuery};
use muster_client::{Client, ClientError};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

/// Answers each connection with the next text, then closes it; gives back what was asked.
async fn serve(answers: Vec<String>) -> (String, tokio::task::JoinHandle<Vec<String>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("bound"));
    let asked = tokio::spawn(async move {
        let mut asked = Vec::new();
        for answer in answers {
            let (mut stream, _) = listener.accept().await.expect("a client");
            let mut request = Vec::new();
            let mut piece = [0; 4096];
            // With its body, which may come on its own: a connection that is closed with something
            // unread is reset, and the answer may be lost.
            while !is_whole(&request) {
                let n = stream.read(&mut piece).await.expect("readable");
                assert!(n > 0, "the client hung up");
                request.extend_from_slice(&piece[..n]);
            }
            asked.push(String::from_utf8_lossy(&request).into_owned());
            stream.write_all(answer.as_bytes()).await.expect("writable");
        }
        asked
    });
    (url, asked)
}

fn is_whole(request: &[u8]) -> bool {
    let text = String::from_utf8_lossy(request);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return false };
    let length = header(head, "content-length").map_or(0, |l| l.parse().expect("a number"));
    body.len() >= length
}

fn answer(status: &str, body: &str) -> String {
    format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{body}",
        body.len()
    )
}

fn header<'a>(request: &'a str, name: &str) -> Option<&'a str> {
    request.lines().find_map(|l| {
        let (k, v) = l.split_once(':')?;
        k.eq_ignore_ascii_case(name).then(|| v.trim())
    })
}

#[tokio::test]
async fn a_write_is_repeated_under_one_key_until_it_is_done() {
    let project = r#"{"id":"nlp","kind":"Project","name":"nlp","state":"active","version":3,"description":""}"#;
    let busy = r#"{"error":{"code":"unavailable","message":"not now"}}"#;
    let (url, asked) = serve(vec![
        String::new(),
        answer("503 Service Unavailable", busy),
        answer("201 Created", project),
    ])
    .await;
    let client = Client::new(&url, Some("mst_x")).expect("a good address");
    let body = CreateProject { name: "nlp".into(), description: String::new() };
    let made = client.create_project(&body).await.expect("the third time");
    assert_eq!(made.name, "nlp");
    let asked = asked.await.expect("served");
    let keys: Vec<_> = asked.iter().map(|r| header(r, "idempotency-key")).collect();
    assert!(keys[0].is_some_and(|k| k.len() == 32), "{keys:?}");
    assert!(keys.iter().all(|k| *k == keys[0]), "{keys:?}");
    assert_eq!(header(&asked[0], "authorization"), Some("Bearer mst_x"));
}

#[tokio::test]
async fn a_refusal_is_not_repeated() {
    let no = r#"{"error":{"code":"policy","message":"no","field":"tier","hint":"ask"}}"#;
    let (url, asked) = serve(vec![answer("403 Forbidden", no)]).await;
    let client = Client::new(&url, None).expect("a good address");
    let body = CreateProject { name: "nlp".into(), description: String::new() };
    let e = client.create_project(&body).await.expect_err("refused");
    assert_eq!((e.exit_code(), e.hint().as_deref()), (5, Some("ask")));
    assert_eq!(asked.await.expect("served").len(), 1);
}

#[tokio::test]
async fn a_server_that_stays_away_is_unreachable() {
    let client = Client::builder("http://127.0.0.1:1", None).tries(2).build().expect("good");
    let e = client.whoami().await.expect_err("nobody there");
    assert!(matches!(e, ClientError::Unreachable { .. }), "{e}");
    assert_eq!(e.exit_code(), 6);
}

#[tokio::test]
async fn output_goes_on_after_a_break_and_nothing_comes_twice() {
    let line = |offset: u64, text: &str| {
        format!(
            "{{\"attempt\":1,\"rank\":0,\"stream\":\"stdout\",\"offset\":{offset},\"text\":\"{text}\\n\"}}\n"
        )
    };
    let (one, two) = (line(0, "one"), line(4, "two"));
    // The first answer announces more than it sends: the connection breaks.
    let broken = format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{one}{}",
        one.len() + two.len(),
        &two[..20]
    );
    let (url, _asked) = serve(vec![broken, answer("200 OK", &format!("{one}{two}"))]).await;
    let client = Client::new(&url, None).expect("a good address");
    let mut logs = client.logs("1", &LogsQuery { follow: true, ..LogsQuery::default() });
    let mut text = String::new();
    while let Some(piece) = logs.next().await.expect("in the end") {
        text.push_str(&String::from_utf8_lossy(&piece.bytes));
    }
    assert_eq!(text, "one\ntwo\n");
}

#[tokio::test]
async fn output_goes_on_when_a_server_that_served_stays_away_for_several_tries() {
    let line = |offset: u64, text: &str| {
        format!(
            "{{\"attempt\":1,\"rank\":0,\"stream\":\"stdout\",\"offset\":{offset},\"text\":\"{text}\\n\"}}\n"
        )
    };
    let (one, two) = (line(0, "one"), line(4, "two"));
    let broken = format!("HTTP/1.1 200 OK\r\ncontent-length: 1000\r\n\r\n{one}");
    let busy = r#"{"error":{"code":"unavailable","message":"not now"}}"#;
    let away = || answer("503 Service Unavailable", busy);
    let again = answer("200 OK", &format!("{one}{two}"));
    let (url, asked) = serve(vec![broken, away(), away(), again]).await;
    let client = Client::builder(&url, None).tries(1).build().expect("a good address");
    let mut logs = client.logs("1", &LogsQuery { follow: true, ..LogsQuery::default() });
    let mut text = String::new();
    while let Some(piece) = logs.next().await.expect("in the end") {
        text.push_str(&String::from_utf8_lossy(&piece.bytes));
    }
    assert_eq!(text, "one\ntwo\n");
    assert_eq!(asked.await.expect("served").len(), 4);
    // One that was never there is not waited for.
    let client = Client::builder("http://127.0.0.1:1", None).tries(1).build().expect("good");
    let e = client.logs("1", &LogsQuery::default()).next().await.expect_err("nobody there");
    assert_eq!(e.exit_code(), 6);
}

#[tokio::test]
async fn whoever_waits_for_a_job_has_the_patience_of_who_follows() {
    let busy = r#"{"error":{"code":"unavailable","message":"not now"}}"#;
    let none = r#"{"error":{"code":"not_found","message":"there is no job 1"}}"#;
    let away = || answer("503 Service Unavailable", busy);
    let (url, asked) = serve(vec![away(), away(), answer("404 Not Found", none)]).await;
    let client = Client::builder(&url, None).tries(1).build().expect("a good address");
    let e = client.patient().job("1").await.expect_err("there is none");
    assert!(e.is_not_found(), "{e}");
    assert_eq!(asked.await.expect("served").len(), 3);
}

#[tokio::test]
async fn events_go_on_when_a_server_that_served_stays_away_for_several_tries() {
    let event = |seq: u64| {
        let data = format!(
            "{{\"seq\":{seq},\"at\":\"2026-01-31T12:00:00Z\",\"kind\":\"project_created\",\
             \"origin\":\"input\",\"project\":null,\"actor\":\"ann\",\"data\":{{}}}}"
        );
        answer("200 OK", &format!("id: {seq}\ndata: {data}\n\n"))
    };
    let busy = r#"{"error":{"code":"unavailable","message":"not now"}}"#;
    let away = || answer("503 Service Unavailable", busy);
    let (url, asked) = serve(vec![event(1), away(), away(), event(2)]).await;
    let client = Client::builder(&url, None).tries(1).build().expect("a good address");
    let mut events = client.follow_events(None);
    assert_eq!(events.next().await.expect("the first").seq, 1);
    assert_eq!(events.next().await.expect("the next one").seq, 2);
    let asked = asked.await.expect("served");
    let places: Vec<_> = asked.iter().map(|r| header(r, "last-event-id")).collect();
    assert_eq!(places, [None, Some("1"), Some("1"), Some("1")], "it goes on where it was");
}

#[tokio::test]
async fn events_of_a_server_that_was_never_there_are_not_waited_for() {
    let client = Client::builder("http://127.0.0.1:1", None).tries(1).build().expect("good");
    let e = client.follow_events(None).next().await.expect_err("nobody there");
    assert_eq!(e.exit_code(), 6);
}
