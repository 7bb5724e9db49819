//! A job that waits for another: every answer gives the same reason.

use super::{held, site};
use serde_json::{Value, json};

#[tokio::test(flavor = "multi_thread")]
async fn a_list_says_of_a_dependency_what_explain_says() {
    let s = site().await;
    let first = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let mut spec = held("b");
    spec["hold"] = json!(false);
    spec["after"] = json!([first]);
    let made = s.post(&s.user, "/v1/jobs", &spec).await.json();
    let next = made["id"].as_str().unwrap();
    let why = json!(format!("waits for job {first}, which is held"));
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let row = list["items"].as_array().unwrap().iter().find(|j| j["id"] == next).unwrap();
    assert_eq!(row["waiting"], why, "{row}");
    let explained = s.get(&s.user, &format!("/v1/jobs/{next}/explain")).await.json();
    assert_eq!(explained["summary"], why, "{explained}");
    assert_eq!(s.get(&s.user, &format!("/v1/jobs/{next}")).await.json()["waiting"], why);
    // What is done to it answers with the job as it stands, and so does the other one.
    let released = s.post(&s.user, &format!("/v1/jobs/{next}/release"), &Value::Null).await;
    assert_eq!(released.json()["waiting"], why);
    let explained = s.get(&s.user, &format!("/v1/jobs/{first}/explain")).await.json();
    assert_eq!(explained["state"], "held", "{explained}");
    // Also what ends a hold is said in the same words.
    let list = s.get(&s.user, "/v1/jobs").await.json();
    let row = list["items"].as_array().unwrap().iter().find(|j| j["id"] == first).unwrap();
    let one = s.get(&s.user, &format!("/v1/jobs/{first}")).await.json();
    let why = format!("is held by user:ann; `muster release {first}` releases it");
    assert_eq!((&row["waiting"], &one["waiting"]), (&json!(why), &json!(why)));
    assert_eq!(explained["summary"], json!(why), "{explained}");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_waits_for_an_end_that_cannot_come_is_refused_and_not_cancelled() {
    let s = site().await;
    let first = s.held_job(&s.user).await["id"].as_str().unwrap().to_owned();
    let mut spec = held("b");
    spec["hold"] = json!(false);
    spec["after"] = json!([first]);
    let next = s.post(&s.user, "/v1/jobs", &spec).await.json()["id"].as_str().unwrap().to_owned();
    assert_eq!(
        s.post(&s.user, &format!("/v1/jobs/{first}/cancel"), &Value::Null).await.status,
        200
    );
    // Both end with it: the second waits for a success.
    let ways = [
        ("/v1/jobs".to_owned(), spec.clone()),
        ("/v1/jobs?dry_run=true".to_owned(), spec),
        (format!("/v1/jobs/{next}/requeue"), Value::Null),
    ];
    for (path, body) in ways {
        let got = s.post(&s.user, &path, &body).await;
        assert_eq!((got.status.as_u16(), got.error()), (409, "conflict".to_owned()), "{path}");
        let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
        let how =
            format!("job {first}, which it depends on, did not end as required: it was cancelled");
        assert!(message.ends_with(&how), "{path}: {message}");
    }
    let job = s.get(&s.user, &format!("/v1/jobs/{next}")).await.json();
    assert_eq!(job["state"], "cancelled", "{job}");
}
