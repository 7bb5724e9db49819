//! Where a job's time went, over HTTP.

use super::{Site, site};
use serde_json::{Value, json};

fn sum(parts: &Value) -> u64 {
    parts.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum()
}

async fn running(s: &Site) -> String {
    let spec = json!({"name": "train", "gang": {"gpus": 4}, "run": {"command": ["train"]}});
    let got = s.post(&s.user, "/v1/jobs", &spec).await;
    assert_eq!(got.status, 201, "{:?}", got.body);
    got.json()["id"].as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_waits_has_only_waited() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let got = s.get(&s.user, &format!("/v1/jobs/{id}/report")).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let r = got.json();
    assert_eq!(
        (&r["kind"], &r["id"], &r["state"]),
        (&json!("JobReport"), &json!(id), &json!("queued"))
    );
    assert_eq!(sum(&r["time_ms"]), r["wall_ms"].as_u64().unwrap(), "{r:#}");
    assert_eq!(r["time_ms"]["queued"], r["wall_ms"]);
    assert_eq!(
        (&r["goodput"], &r["efficiency"], &r["steps"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&r["gpus"], &r["advice"]), (&json!(1.0), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_placed_and_cancelled_tells_where_its_time_went() {
    let s = site().await;
    let id = running(&s).await;
    let path = format!("/v1/jobs/{id}/report");
    let r = s.get(&s.user, &path).await.json();
    assert_eq!((&r["complete"], &r["lost_estimated"]), (&json!(true), &json!(false)));
    assert_eq!(sum(&r["time_ms"]), r["wall_ms"].as_u64().unwrap(), "{r:#}");
    let placed = r["attempts_made"] == 1;
    s.post(&s.user, &format!("/v1/jobs/{id}/cancel"), &Value::Null).await;
    let r = s.get(&s.user, &path).await.json();
    assert_eq!(sum(&r["time_ms"]), r["wall_ms"].as_u64().unwrap(), "{r:#}");
    assert!(!placed || r["attempts"][0]["no"] == 1, "{r:#}");
}

#[tokio::test(flavor = "multi_thread")]
async fn wrong_names_and_others_jobs_get_the_right_errors() {
    let s = site().await;
    let id = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    for (token, name, status, code) in [
        (&s.user, "nonsense", 400, "invalid"),
        (&s.user, "4_", 400, "invalid"),
        (&s.user, "-1", 400, "invalid"),
        (&s.user, "99999999999999999999", 400, "invalid"),
        (&s.user, "4242", 404, "not_found"),
        (&s.user, &format!("{id}_7"), 404, "not_found"),
        (&s.other, &id, 404, "not_found"),
    ] {
        let got = s.get(token, &format!("/v1/jobs/{name}/report")).await;
        assert_eq!((got.status.as_u16(), got.error().as_str()), (status, code), "{name}");
    }
    let got = s.get("", &format!("/v1/jobs/{id}/report")).await;
    assert_eq!(got.status, 401);
    let got = s.post(&s.user, &format!("/v1/jobs/{id}/report"), &Value::Null).await;
    assert_eq!(got.status, 405);
    // One that may only look, may look.
    assert_eq!(s.get(&s.viewer, &format!("/v1/jobs/{id}/report")).await.status, 200);
}
