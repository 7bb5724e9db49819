//! Scenarios of the simulator's library, over HTTP.

use super::{PATIENCE, patient, site, site_with};
use crate::HttpConfig;
use serde_json::json;
use std::time::Duration;

#[tokio::test(flavor = "multi_thread")]
async fn a_scenario_is_simulated_and_the_same_seed_gives_the_same() {
    let s = site().await;
    let list = s.get(&s.operator, "/v1/scenarios").await.json();
    let names: Vec<&str> =
        list["items"].as_array().unwrap().iter().filter_map(|i| i["name"].as_str()).collect();
    assert!(names.contains(&"neocloud-week") && names.is_sorted(), "{names:?}");
    let run = async |body: serde_json::Value| {
        let got = s.post(&s.operator, "/v1/scenarios/neocloud-week/run", &body).await;
        assert_eq!(got.status, 200, "{:?}", got.body);
        got.json()
    };
    let first = run(json!({"length": "1h"})).await;
    assert_eq!((&first["name"], &first["length"]), (&json!("neocloud-week"), &json!("1h")));
    assert_eq!((&first["seed"], &first["report"]["nodes"]), (&json!(1), &json!(256)));
    let again = run(json!({"length": "1h", "seed": 1})).await;
    let digest = |run: &serde_json::Value| run["report"]["log_digest"].clone();
    assert!(digest(&first).is_string());
    assert_eq!(digest(&again), digest(&first));
    let other = run(json!({"length": "1h", "seed": 2})).await;
    assert_ne!(digest(&other), digest(&first));
    assert_eq!(s.app.whatif().available_permits(), 1, "its turn is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn the_beginning_of_a_scenario_is_simulated_without_what_comes_later() {
    let s = site().await;
    // A reservation, jobs, and the loss of a rack: none of them within the first hour.
    for name in ["neocloud-week", "quota-war", "nvl72-rack-loss"] {
        let path = format!("/v1/scenarios/{name}/run");
        let got = s.post(&s.operator, &path, &json!({"length": "1h"})).await;
        assert_eq!(got.status, 200, "{name}: {:?}", got.body);
        let report = &got.json()["report"];
        assert_eq!((&report["refusals"], &report["makespan_s"]), (&json!(0), &json!(3600.0)));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_run_is_said_and_one_is_simulated_at_a_time() {
    let s = site().await;
    let path = "/v1/scenarios/neocloud-week/run";
    for length in ["1m", "8d"] {
        let got = s.post(&s.operator, path, &json!({"length": length})).await;
        assert_eq!(got.status, 422, "{length}: {:?}", got.body);
        assert_eq!(got.json()["error"]["field"], "length");
        let message = got.json()["error"]["message"].as_str().unwrap_or_default().to_owned();
        assert!(message.ends_with("give 1h to 1w"), "{message}");
    }
    let got = s.post(&s.operator, "/v1/scenarios/nowhere/run", &json!({})).await;
    assert_eq!(got.status, 404, "{:?}", got.body);
    assert_eq!(s.post(&s.user, path, &json!({})).await.status, 403, "a user of a project");
    let turn = s.app.whatif().acquire_owned().await.unwrap();
    let got = s.post(&s.operator, path, &json!({"length": "1h"})).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    drop(turn);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_takes_too_long_to_simulate_is_refused_with_what_to_do() {
    let s = site_with(HttpConfig { simulation_limit: Duration::ZERO, ..patient() }).await;
    let what_if = json!({"changes": ["nodes=+1"], "seeds": 1, "budget": "1s"});
    for (path, body, instead) in [
        ("/v1/scenarios/neocloud-week/run", json!({"length": "1h"}), "`muster sim run`"),
        ("/v1/whatif", what_if, "`muster whatif --from live`"),
    ] {
        let got = s.post(&s.operator, path, &body).await;
        assert_eq!(got.status, 422, "{path}: {:?}", got.body);
        let hint = got.json()["error"]["hint"].as_str().unwrap_or_default().to_owned();
        assert!(hint.contains(instead), "{path}: {hint}");
        // Until its work has ended, too.
        let turn = tokio::time::timeout(PATIENCE, s.app.whatif().acquire_owned()).await;
        assert!(turn.is_ok(), "{path}");
    }
}
