//! The last minutes of a job, over HTTP.

use super::{PATIENCE, site};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_has_no_figures_and_says_how_far_they_would_reach() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let got = s.get(&s.user, &format!("/v1/jobs/{id}/telemetry")).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let t = got.json();
    assert_eq!(
        (&t["kind"], &t["attempt"], &t["ranks"], &t["lines"]),
        (&json!("JobTelemetry"), &Value::Null, &json!(0), &json!([]))
    );
    assert_eq!((t["at"].as_array().unwrap().len(), &t["width_ms"]), (60, &json!(10_000)));
    assert_eq!(t["fields"][0]["name"], "util");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_runs_is_reported_rank_by_rank_with_what_happened() {
    let s = site().await;
    let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
    let id = s.post(&s.user, "/v1/jobs", &spec).await.json()["id"].as_str().unwrap().to_owned();
    let path = format!("/v1/jobs/{id}/telemetry?fields=power,util,power&order=slow&ranks=2");
    let mut t = Value::Null;
    let placed = async {
        while t["attempt"] != 1 {
            t = s.get(&s.user, &path).await.json();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, placed).await.expect("it is placed");
    assert_eq!((&t["attempt"], &t["gpus"]), (&json!(1), &json!(4)), "{t:#}");
    assert_eq!(t["fields"].as_array().unwrap().len(), 2, "asked for twice is reported once");
    assert!(t["lines"].as_array().unwrap().len() <= 2);
    assert_eq!(t["lines"][0]["node"], "n1");
    assert!(t["marks"].as_array().unwrap().iter().any(|m| m["what"] == "attempt"), "{t:#}");
    // The attempt that is asked for by its number, and one that never was.
    let other = s.get(&s.user, &format!("/v1/jobs/{id}/telemetry?attempt=7")).await.json();
    assert_eq!((&other["attempt"], &other["ranks"]), (&Value::Null, &json!(0)));
}

#[tokio::test(flavor = "multi_thread")]
async fn what_makes_no_sense_is_refused_by_name() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    for (query, field) in [
        ("fields=warmth", "fields"),
        ("fields=util,,temp", "fields"),
        ("order=random", "order"),
        ("ranks=0", "ranks"),
        ("ranks=257", "ranks"),
        ("from=-1", "from"),
    ] {
        let got = s.get(&s.user, &format!("/v1/jobs/{id}/telemetry?{query}")).await;
        assert_eq!(got.status, 400, "{query}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], field, "{query}");
    }
    assert_eq!(s.get(&s.user, &format!("/v1/jobs/{id}/telemetry?colour=red")).await.status, 400);
    assert_eq!(s.get(&s.other, &format!("/v1/jobs/{id}/telemetry")).await.status, 404);
}
