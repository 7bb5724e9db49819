//! What a change would do, over HTTP.

use super::{Site, site};
use serde_json::{Value, json};

/// Gangs of a whole node; there is one node.
async fn queue(s: &Site, jobs: usize) {
    for i in 0..jobs {
        let job = json!({
            "name": format!("w{i}"),
            "gang": {"nodes": 1, "gpus_per_node": 8},
            "simulate": {"run": "1h"},
        });
        let got = s.post(&s.user, "/v1/jobs", &job).await;
        assert_eq!(got.status, 201, "{:?}", got.body);
    }
}

fn metric<'a>(answer: &'a Value, name: &str) -> &'a Value {
    answer["metrics"].as_array().unwrap().iter().find(|f| f["name"] == name).unwrap()
}

#[tokio::test(flavor = "multi_thread")]
async fn more_nodes_start_waiting_jobs_earlier_and_nothing_is_changed() {
    let s = site().await;
    queue(&s, 5).await;
    let ask = json!({"changes": ["nodes=+3"], "seeds": 2, "budget": "1s"});
    let got = s.post(&s.operator, "/v1/whatif", &ask).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    let answer = got.json();
    assert_eq!((&answer["base_size"], &answer["changed_size"]), (&json!([1, 8]), &json!([4, 32])));
    assert_eq!(answer["changes"], json!(["3 more nodes"]));
    let wait = metric(&answer, "wait_mean_s");
    assert!(wait["change"]["mean"].as_f64().unwrap() < -3600.0, "{wait}");
    assert_eq!((&answer["starts_earlier"], &answer["starts_later"]), (&json!(4), &json!(0)));
    let first = &answer["starts"][0];
    assert!(first["base_s"].as_f64() > first["changed_s"].as_f64(), "{first}");
    let nodes = s.get(&s.admin, "/v1/nodes").await.json();
    assert_eq!(nodes["items"].as_array().unwrap().len(), 1, "nodes were made for the simulation");
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_wrong_with_a_question_is_said_with_its_place() {
    let s = site().await;
    for (ask, field, says) in [
        (json!({"changes": []}), "changes", "give 1 to 16"),
        (json!({"changes": ["spares=0", "speed=2"]}), "changes[1]", "there is no such change"),
        (json!({"changes": ["policy=/etc/passwd"]}), "changes[0]", "reads no file"),
        (json!({"changes": ["policy.backfill.mod=easy"]}), "changes", "backfill.mod"),
        (json!({"changes": ["nodes=-1"]}), "changes", "node"),
        (json!({"changes": ["nodes=+30000"]}), "changes", "at most 20000"),
        (json!({"changes": ["spares=0"], "seeds": 0}), "seeds", "give 1 to 64"),
        (json!({"changes": ["spares=0"], "budget": "5m"}), "budget", "from 1s to 20s"),
        (json!({"changes": ["spares=0"], "horizon": "1s"}), "horizon", "from 1m to"),
    ] {
        let got = s.post(&s.operator, "/v1/whatif", &ask).await;
        assert_eq!(got.status, 422, "{ask}: {:?}", got.body);
        let error = got.json()["error"].clone();
        assert_eq!(error["field"], field, "{ask}: {error}");
        assert!(error["message"].as_str().unwrap().contains(says), "{ask}: {error}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn one_is_simulated_at_a_time() {
    let s = site().await;
    let ask = json!({"changes": ["nodes=+1"], "seeds": 1, "budget": "1s"});
    let turn = s.app.whatif().acquire_owned().await.unwrap();
    let got = s.post(&s.admin, "/v1/whatif", &ask).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (429, "rate_limited"));
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("another what-if"));
    drop(turn);
    let got = s.post(&s.admin, "/v1/whatif", &ask).await;
    assert_eq!(got.status, 200, "{:?}", got.body);
    assert_eq!(s.app.whatif().available_permits(), 1, "its turn is over");
}

#[tokio::test(flavor = "multi_thread")]
async fn one_whose_caller_hangs_up_ends() {
    let s = site().await;
    queue(&s, 3).await;
    let ask = json!({"changes": ["nodes=+1"], "seeds": 64, "budget": "20s"});
    {
        let asked = s.post(&s.admin, "/v1/whatif", &ask);
        tokio::pin!(asked);
        // Until it has its turn; one that is over by then has given it back.
        while s.app.whatif().available_permits() == 1 {
            if futures::poll!(asked.as_mut()).is_ready() {
                break;
            }
            tokio::task::yield_now().await;
        }
    }
    let turn = tokio::time::timeout(super::PATIENCE, s.app.whatif().acquire_owned()).await;
    assert!(turn.is_ok(), "its work goes on");
}
