//! `muster history` against a real server with a simulated node.

use crate::export::get;
use crate::minutes::cluster::{Cluster, until};

fn first_node(c: &Cluster) -> String {
    let nodes = c.json(&["get", "nodes"]);
    nodes["items"][0]["name"].as_str().expect("a name").to_owned()
}

#[test]
fn metrics_of_a_node_are_kept_and_shown() {
    let c = Cluster::start(1);
    let node = first_node(&c);
    let ask = ["history", "node", &node, "--gpu", "0", "--metric", "power,temp", "--since", "10m"];
    let sampled = || {
        let h = c.json(&ask);
        let series = h["series"].as_array().cloned().unwrap_or_default();
        series
            .iter()
            .filter(|s| s["points"].as_array().is_some_and(|p| p.iter().any(|p| !p.is_null())))
            .count()
    };
    until("rows of telemetry were kept", || sampled() == 2);
    let out = c.muster(&ask);
    out.code(0);
    for word in ["METRIC", "TREND", "power", "temp", "GPU 0", "in steps of"] {
        assert!(out.stdout.contains(word), "`{word}` in {out:#?}");
    }
    let h = c.json(&ask);
    assert_eq!((&h["source"], &h["step_ms"]), (&"builtin".into(), &10_000.into()), "{h:#}");
    let out = c.muster(&["history", "metrics"]);
    out.code(0);
    assert!(out.stdout.contains("power") && out.stdout.contains("agent.gap_ms"), "{out:#?}");
    let files = c.path("data/history/step-10000ms");
    assert!(files.is_dir(), "they have files of their own");
    // A node that is retired keeps its past under its name, and no series of the server names it.
    c.muster(&["node", "drain", &node]).code(0);
    until("it is drained", || c.json(&["get", "node", &node])["state"] == "drained");
    c.muster(&["node", "retire", &node]).code(0);
    assert_eq!(sampled(), 2, "its past is there");
    let page = || get(c.listen(), "/metrics", &c.token).unwrap_or_default();
    let retired = "muster_nodes_by_stage{stage=\"retired\"} 1";
    until("it is counted as retired", || page().contains(retired));
    assert!(!page().contains(&node), "{}", page());
}

/// Work that reports a step of a quarter of a second now and then, until it is cancelled.
const STEPS: &str = r#"
i=0
while true; do
  i=$((i + 1))
  echo "{\"step\":$i,\"t\":0.25}" >> "$MUSTER_REPORT"
  sleep 0.3
done
"#;

#[test]
fn step_times_of_a_job_are_kept_and_shown() {
    // They are shown from the first whole step on that is stored since its start.
    let c = Cluster::start_sampled(1);
    let id = c.submit(&["--name", "train", "--gpus", "1", "--", "sh", "-c", STEPS]);
    let ask = ["history", "job", &id, "--metric", "step_time"];
    let points = || {
        let h = c.json(&ask);
        let points = h["series"][0]["points"].as_array().cloned().unwrap_or_default();
        points.into_iter().filter(|p| !p.is_null()).collect::<Vec<_>>()
    };
    until("steps were stored", || !points().is_empty());
    assert!(points().iter().all(|p| p.as_array().unwrap().iter().all(|v| *v == 250.0)));
    let out = c.muster(&ask);
    out.code(0);
    for word in ["step_time", "its ranks", "ms", "250"] {
        assert!(out.stdout.contains(word), "`{word}` in {out:#?}");
    }
    c.muster(&["cancel", &id]).code(0);
    until("it is over", || c.json(&["get", "job", &id])["state"] == "cancelled");
    assert!(!points().is_empty(), "its steps stay");
}

#[test]
fn a_server_without_a_history_says_so() {
    let c = Cluster::start_with(1, &["--history", "off"]);
    let out = c.muster(&["history", "node", &first_node(&c)]);
    out.code(5);
    assert!(out.stderr.contains("--history off"), "{out:#?}");
    assert!(!c.path("data/history").exists());
}
