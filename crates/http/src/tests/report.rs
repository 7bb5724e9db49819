//! Where a job's time went, over HTTP.

use super::{PATIENCE, Site, site};
use muster_model::command::{Command, Observed};
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
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
async fn a_job_that_is_held_has_only_been_held() {
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
    assert_eq!(r["time_ms"]["held"], r["wall_ms"]);
    assert_eq!(
        (&r["goodput"], &r["efficiency"], &r["steps"]),
        (&Value::Null, &Value::Null, &Value::Null)
    );
    assert_eq!((&r["gpus"], &r["advice"]), (&json!(1.0), &json!([])));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_job_that_was_placed_and_cancelled_reports_where_its_time_went() {
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
async fn what_an_end_is_attributed_to_is_one_word_and_who_cancels_their_own_is_no_operator() {
    let s = site().await;
    for (token, word) in [(&s.user, "user"), (&s.operator, "operator")] {
        let id = running(&s).await;
        let path = format!("/v1/jobs/{id}");
        let wait = async {
            while s.get(&s.user, &path).await.json()["attempt"].is_null() {
                tokio::time::sleep(std::time::Duration::from_millis(20)).await;
            }
        };
        tokio::time::timeout(PATIENCE, wait).await.expect("it has its node");
        let got = s.post(token, &format!("{path}/cancel"), &Value::Null).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        let key = AttemptKey { job: id.parse().unwrap(), attempt: 1 };
        let (node, observed) = ("n1".parse().unwrap(), Observed::Ended(SlotEnd::Stopped));
        s.brain.system(Command::SlotReport { node, key, observed, ago: None }).await.unwrap();
        let job = s.get(&s.user, &path).await.json();
        let past = &job["past"][0];
        assert_eq!((&job["state"], &past["verdict"]), (&json!("cancelled"), &json!("operator")));
        assert_eq!(past["attributed_to"], word, "{job:#}");
        let r = s.get(&s.user, &format!("{path}/report")).await.json();
        assert_eq!(r["attempts"][0]["attributed_to"], word, "{r:#}");
    }
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
