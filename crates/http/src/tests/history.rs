//! Metrics over time, over HTTP.

use super::arrays::{ends, when};
use super::{PATIENCE, Site, site};
use muster_model::JobId;
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};
use muster_server::history::{HistoryRow, NoHistory};
use serde_json::{Value, json};

/// A row of a node with eight GPUs, each with this utilisation.
pub(crate) fn row(node: &str, at: Time, util: f32) -> HistoryRow {
    HistoryRow {
        node: node.parse().unwrap(),
        at,
        gpu_columns: vec!["util".to_owned()].into(),
        gpus: vec![util; 8].into(),
        host_columns: vec!["load".to_owned()].into(),
        host: vec![1.5].into(),
    }
}

/// Takes a row in, once the files are open.
pub(crate) async fn take(s: &Site, row: &HistoryRow) {
    let open = async {
        while s.app.agents().history().take(row) == Err(NoHistory::Opening) {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, open).await.expect("the files are opened");
}

/// The means of a series.
fn means(series: &Value) -> Vec<f64> {
    let points = series["points"].as_array().unwrap().iter();
    points.filter_map(|p| p[1].as_f64()).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_node_is_reported_gpu_by_gpu_with_gaps() {
    let s = site().await;
    let start = Time(s.brain.now().0 / 600_000 * 600_000 - 3_600_000);
    for i in 0..30 {
        // Ten steps without a sample.
        if !(10..20).contains(&i) {
            let util = if i < 10 { 40.0 } else { 80.0 };
            take(&s, &row("n1", start + Span(i * 10_000), util)).await;
        }
    }
    let time = format!("from={}&to={}", start.0, start.0 + 300_000);
    let path = format!("/v1/metrics/history?node=n1&gpu=3&metrics=util&{time}");
    let got = s.get(&s.operator, &path).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let h = got.json();
    assert_eq!((&h["from"], &h["step_ms"]), (&json!(start.0), &json!(10_000)), "{h:#}");
    assert_eq!((&h["to"], &h["source"]), (&json!(start.0 + 300_000), &json!("builtin")));
    assert_eq!(h["known_from"], json!(start.0), "nothing is older: {h:#}");
    let series = &h["series"];
    assert_eq!(series.as_array().unwrap().len(), 1);
    let one = &series[0];
    assert_eq!((&one["metric"], &one["unit"]), (&json!("util"), &json!("%")));
    assert_eq!((&one["node"], &one["gpu"], &one["gpus"]), (&json!("n1"), &json!(3), &json!(1)));
    assert_eq!(one["points"][0], json!([40.0, 40.0, 40.0]));
    assert_eq!((&one["points"][15], &one["points"][29][2]), (&Value::Null, &json!(80.0)));
    // Fewer points: longer steps with the least and the greatest.
    let few = s.get(&s.operator, &format!("{path}&points=2")).await.json();
    let points = few["series"][0]["points"].as_array().unwrap();
    assert!(points.len() <= 2 && few["step_ms"].as_u64().unwrap() >= 150_000, "{few:#}");
    let least = points.iter().filter_map(|p| p[0].as_f64()).fold(f64::MAX, f64::min);
    let most = points.iter().filter_map(|p| p[2].as_f64()).fold(f64::MIN, f64::max);
    assert_eq!((least, most), (40.0, 80.0), "{few:#}");
    // All GPUs, and the host by the name of its metric.
    let all = s.get(&s.operator, &format!("/v1/metrics/history?node=n1&{time}")).await.json();
    assert_eq!(all["series"].as_array().unwrap().len(), 8, "{all:#}");
    let path = format!("/v1/metrics/history?node=n1&metrics=load&{time}");
    let host = s.get(&s.operator, &path).await.json();
    assert_eq!((&host["series"][0]["gpu"], means(&host["series"][0])[0]), (&Value::Null, 1.5));
    let names = s.get(&s.operator, "/v1/metrics/history/metrics").await.json();
    let has =
        |list: &Value, n: &str| list["items"].as_array().unwrap().iter().any(|i| i["name"] == n);
    assert!(has(&names, "util") && has(&names, "load"), "{names:#}");
    let names = s.get(&s.user, "/v1/metrics/history/metrics").await.json();
    assert!(has(&names, "util") && !has(&names, "load"), "a project sees GPUs: {names:#}");
    // How far it reaches back, and that nothing had to go.
    let page = s.get(&s.operator, "/metrics").await;
    let page = String::from_utf8_lossy(&page.body).into_owned();
    let reach =
        page.lines().find_map(|l| l.strip_prefix("muster_history_reach_seconds{step=\"10s\"} "));
    assert!(reach.is_some_and(|n| n.parse::<u64>().unwrap() >= 3600), "{page}");
    assert!(page.contains("muster_history_short{step=\"1m\"} 0\n"), "{page}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_project_sees_its_gpus_for_the_time_in_which_they_were_allocated_to_it() {
    let s = site().await;
    let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
    let made = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let id = JobId(made["number"].as_u64().unwrap());
    let mut durable = s.brain.watch();
    while s.brain.read(|st| st.jobs[&id].attempt.is_none()) {
        tokio::time::timeout(PATIENCE, durable.changed()).await.unwrap().unwrap();
    }
    let placed = s.brain.read(|st| st.jobs[&id].attempt.as_ref().unwrap().placed_at);
    // Somebody else's work before it, its own after it.
    for i in (10..70).step_by(10) {
        take(&s, &row("n1", placed - Span::secs(70 - i), 10.0)).await;
    }
    for i in (10..70).step_by(10) {
        take(&s, &row("n1", placed + Span::secs(i), 90.0)).await;
    }
    let time = format!("from={}&to={}", placed.0 - 120_000, placed.0 + 120_000);
    let all_means = |got: Value| -> Vec<f64> {
        got["series"].as_array().unwrap().iter().flat_map(means).collect()
    };
    for path in [
        format!("/v1/metrics/history?job={id}&metrics=util&{time}"),
        format!("/v1/metrics/history?node=n1&metrics=util&{time}"),
    ] {
        for token in [&s.user, &s.viewer] {
            let got = s.get(token, &path).await;
            assert_eq!(got.status, 200, "{path}: {:?}", got.body);
            let h = got.json();
            assert_eq!(h["series"].as_array().unwrap().len(), 4, "{path}: {h:#}");
            let means = all_means(h);
            assert!(!means.is_empty() && means.iter().all(|v| *v == 90.0), "{path}: {means:?}");
        }
    }
    let whole = format!("/v1/metrics/history?node=n1&metrics=util&{time}");
    let all = all_means(s.get(&s.operator, &whole).await.json());
    assert!(all.contains(&10.0) && all.contains(&90.0), "who sees the site sees it all: {all:?}");
    assert_eq!(s.get(&s.other, &whole).await.status, 403);
    let job = format!("/v1/metrics/history?job={id}");
    assert_eq!(s.get(&s.other, &job).await.status, 404);
    let host = format!("/v1/metrics/history?node=n1&metrics=load&{time}");
    assert_eq!(s.get(&s.user, &host).await.status, 400, "nothing of the host");
    let gpus = s.brain.read(|st| st.jobs[&id].attempt.as_ref().unwrap().placement.slots[0].gpus);
    let others = (0..8).find(|g| gpus.iter().all(|own| own != *g)).unwrap();
    let path = format!("/v1/metrics/history?node=n1&gpu={others}");
    assert_eq!(s.get(&s.user, &path).await.status, 403);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_by_name() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    take(&s, &row("n1", s.brain.now(), 1.0)).await;
    for (query, status, field) in [
        ("", 400, "node"),
        ("node=n1&job=1", 400, "node"),
        ("job=1&gpu=0", 400, "gpu"),
        ("node=n1&points=1", 400, "points"),
        ("node=n1&points=2001", 400, "points"),
        ("node=n1&metrics=warmth", 400, "metrics"),
        ("node=n1&metrics=util,,power", 400, "metrics"),
        ("node=n1&from=20&to=10", 400, "from"),
        ("node=n1&from=-1", 400, "from"),
        ("node=n1&from=0", 400, "from"),
        ("node=n1&gpu=99", 404, "gpu"),
    ] {
        let got = s.get(&s.operator, &format!("/v1/metrics/history?{query}")).await;
        assert_eq!(got.status, status, "{query}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], field, "{query}");
    }
    assert_eq!(s.get(&s.operator, "/v1/metrics/history?node=n9").await.status, 404);
    assert_eq!(s.get(&s.operator, "/v1/metrics/history?job=4242").await.status, 404);
    // A job that waits has no GPUs and no past.
    let none = s.get(&s.user, &format!("/v1/metrics/history?job={id}")).await;
    assert_eq!(none.status, 200, "{:?}", none.body);
    assert_eq!(none.json()["series"], json!([]));
}

/// A job with four GPUs that is being started.
async fn train(s: &Site) -> Value {
    let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
    let job = s.post(&s.user, "/v1/jobs", &spec).await.json();
    when(s, job["id"].as_str().unwrap(), |j| j["state"] == "starting").await;
    job
}

#[tokio::test(flavor = "multi_thread")]
async fn an_attempt_that_is_over_is_reported_with_the_gpus_that_it_had_and_only_its_time() {
    let s = site().await;
    let job = train(&s).await;
    let id = job["id"].as_str().unwrap();
    let placed = s.brain.now();
    take(&s, &row("n1", placed - Span::secs(60), 10.0)).await;
    s.app.agents().history().note_allocations(&s.brain);
    ends(&s, &job, 0).await;
    when(&s, id, |j| j["past"].as_array().is_some_and(|p| !p.is_empty())).await;
    // Somebody else's, after it.
    take(&s, &row("n1", placed + Span::secs(60), 20.0)).await;
    let time = format!("from={}&to={}", placed.0 - 120_000, placed.0 + 120_000);
    let path = format!("/v1/metrics/history?job={id}&metrics=util&{time}");
    for token in [&s.user, &s.operator] {
        let got = s.get(token, &path).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let h = got.json();
        let series = h["series"].as_array().unwrap();
        assert_eq!(series.len(), 4, "its GPUs are known: {h:#}");
        assert!(series.iter().flat_map(means).next().is_none(), "it lasted no step: {h:#}");
    }
    let got = s.get(&s.user, &format!("/v1/metrics/history?job={id}")).await;
    assert_eq!(got.status, 200, "its own time: {:?}", got.body);
}

#[tokio::test(flavor = "multi_thread")]
async fn step_times_of_a_job_are_stored_for_all_its_ranks_together() {
    let s = site().await;
    let job = train(&s).await;
    let id = job["id"].as_str().unwrap();
    take(&s, &row("n1", s.brain.now(), 10.0)).await;
    let history = s.app.agents().history();
    history.note_allocations(&s.brain);
    let number = JobId(job["number"].as_u64().unwrap());
    let key = s.brain.read(|st| st.jobs[&number].attempt_key().unwrap());
    let start = s.brain.now();
    for i in 2..10 {
        for seconds in [0.5, 0.5, 2.0, f64::NAN] {
            history.take_step(key, start + Span::secs(10 * i), seconds).unwrap();
        }
    }
    // Of an attempt that is not there nothing is stored.
    let none = AttemptKey { attempt: key.attempt + 1, ..key };
    history.take_step(none, start + Span::secs(50), 9.0).unwrap();
    let time = format!("from={}&to={}", start.0 - 60_000, start.0 + 120_000);
    let path = format!("/v1/metrics/history?job={id}&metrics=step_time&{time}");
    let check = async |token: &str| {
        let got = s.get(token, &path).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let h = got.json();
        assert_eq!(h["series"].as_array().unwrap().len(), 1, "{h:#}");
        let one = &h["series"][0];
        assert_eq!((&one["metric"], &one["unit"]), (&json!("step_time"), &json!("ms")));
        assert_eq!((&one["node"], &one["gpus"]), (&Value::Null, &json!(0)), "{h:#}");
        let points: Vec<&Value> =
            one["points"].as_array().unwrap().iter().filter(|p| !p.is_null()).collect();
        assert_eq!(points.len(), 8, "{h:#}");
        assert!(points.iter().all(|p| **p == json!([500.0, 1000.0, 2000.0])), "{h:#}");
    };
    check(&s.user).await;
    check(&s.operator).await;
    assert_eq!(s.get(&s.other, &path).await.status, 404);
    // Nobody has to ask for it by name.
    let usual = s.get(&s.user, &format!("/v1/metrics/history?job={id}&{time}")).await.json();
    let has =
        |v: &Value| v["series"].as_array().unwrap().iter().any(|s| s["metric"] == "step_time");
    assert!(has(&usual), "{usual:#}");
    let names = s.get(&s.user, "/v1/metrics/history/metrics").await.json();
    assert!(names["items"].as_array().unwrap().iter().any(|i| i["title"] == "Step time"));
    // And when it is over they are there as before.
    ends(&s, &job, 0).await;
    when(&s, id, |j| j["past"].as_array().is_some_and(|p| !p.is_empty())).await;
    check(&s.user).await;
}
