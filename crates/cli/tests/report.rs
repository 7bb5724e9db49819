//! Where a job's time went, with the real binary: work that saves, loses a node and
//! comes back, and the report that is read from the log of it.

use crate::minutes::cluster::{Cluster, until};
use muster_api::Timestamp;
use serde_json::Value;

/// The parts of a life cover it exactly.
#[track_caller]
fn covers(r: &Value) {
    let sum = |parts: &Value| -> u64 {
        parts.as_object().unwrap().values().map(|v| v.as_u64().unwrap()).sum()
    };
    assert_eq!(sum(&r["time_ms"]), r["wall_ms"].as_u64().unwrap(), "{r:#}");
    let attempts = r["attempts"].as_array().unwrap();
    let all: u64 = attempts.iter().map(|a| sum(&a["time_ms"])).sum();
    assert_eq!(all, r["wall_ms"].as_u64().unwrap(), "{r:#}");
}

/// For how long a node had been silent when it was called lost, in milliseconds, as the log has it.
#[track_caller]
fn silence_before_loss(c: &Cluster, node: &str) -> u64 {
    let lost = c.json(&["events", "--kind", "node_lost", "--limit", "1000"]);
    let events = lost["items"].as_array().expect("a list");
    let e = events.iter().find(|e| e["data"]["node"] == node).expect("it was lost");
    let at: Timestamp = e["at"].as_str().unwrap_or_default().parse().expect("a time");
    let last_seen = e["data"]["last_seen"].as_i64().expect("milliseconds");
    u64::try_from(at.0.0 - last_seen).expect("it was seen before it was missed")
}

/// Work that reports its steps, most of which is reading, and saves after every tenth. Its first
/// attempt does not end by itself: a node is taken from under it.
const TRAIN: &str = r#"
i=0
while [ $MUSTER_ATTEMPT = 1 ] || [ $i -lt 20 ]; do
  i=$((i + 1))
  sleep 0.2
  echo "{\"step\":$i,\"t\":0.2,\"stages\":{\"read\":0.15,\"compute\":0.05}}" >> "$MUSTER_REPORT"
  if [ $((i % 10)) = 0 ]; then
    echo "{\"checkpoint\":{\"step\":$i,\"blocked_s\":0.1,\"state\":\"done\"}}" >> "$MUSTER_REPORT"
  fi
done
"#;

#[test]
fn a_life_with_a_lost_node_is_reported_from_the_log_also_by_a_new_server() {
    let mut c = Cluster::start_to_crash(4);
    let gang = ["--name", "train", "--nodes", "2", "--gpus", "8", "--ranks-per-node", "1"];
    let id = c.submit(&[&gang[..], &["--", "sh", "-c", TRAIN]].concat());
    let report = |c: &Cluster| c.json(&["report", "job", &id]);
    until("it has saved and reported steps", || {
        let r = report(&c);
        covers(&r);
        r["attempts"][0]["checkpoints"].as_u64() > Some(0) && r["steps"]["step"].is_u64()
    });
    let job = c.json(&["get", "job", &id]);
    let node = job["attempt"]["slots"][0]["node"].as_str().unwrap().to_owned();
    c.muster(&["node", "inject", "crash", &node]).code(0);
    until("it ends well after all", || c.json(&["get", "job", &id])["state"] == "succeeded");
    let r = report(&c);
    covers(&r);
    let ms = |part: &str| r["time_ms"][part].as_u64().unwrap();
    assert!(ms("productive") > 0 && ms("restarting") > 0 && ms("checkpointing") > 0, "{r:#}");
    assert_eq!((&r["complete"], &r["lost_estimated"]), (&true.into(), &false.into()), "{r:#}");
    let n = r["interruptions"].as_u64().unwrap();
    assert!(n >= 1 && r["mtbi_ms"].is_u64() && r["recover_ms"].is_u64(), "{r:#}");
    // The way back begins when the node fell silent, not when it was missed. It is a mean of at most
    // as many returns as there were interruptions, cut to whole milliseconds.
    let (silence, recover) = (silence_before_loss(&c, &node), r["recover_ms"].as_u64().unwrap());
    assert!((recover + 1) * n >= silence, "{silence} ms of silence: {r:#}");
    assert_eq!(r["ended_by"]["success"], 1, "{r:#}");
    let each = r["attempts"].as_array().unwrap();
    assert!(each.iter().all(|a| a["goodput"].as_f64().is_some_and(|g| g <= 1.0)), "{r:#}");
    assert!(r["ettr"].as_f64() <= r["goodput"].as_f64(), "{r:#}");
    assert_eq!(r["steps"]["stages"][0]["name"], "read", "{r:#}");

    let out = c.muster(&["report", "job", "train"]);
    out.code(0);
    assert!(out.stdout.lines().all(|l| l.chars().count() <= 80), "{}", out.stdout);
    for part in ["productive", "ETTR", "MTBI", "Attempts", "infrastructure"] {
        assert!(out.stdout.contains(part), "{part} in {}", out.stdout);
    }
    let out = c.muster(&["describe", "job", &id]);
    out.code(0);
    let line = |l: &str| l.starts_with("Goodput:") && l.contains("ETTR");
    assert!(out.stdout.lines().any(line), "{}", out.stdout);

    // The fleet's hours hold the same life.
    let fleet = |c: &Cluster| c.json(&["report", "fleet", "--days", "1"]);
    let f = fleet(&c);
    let (total, job) = (&f["total"], &r["gpu_seconds"]);
    let of = |part: &str| {
        let (fleet, job) = (total["gpu_seconds"][part].as_f64(), job[part].as_f64());
        (fleet.expect("a figure"), job.expect("a figure"))
    };
    for part in ["starting", "checkpointing", "restarting", "lost"] {
        let (a, b) = of(part);
        assert!((a - b).abs() < 1.0, "{part}: {f:#} {r:#}");
    }
    assert_eq!(total["jobs"]["succeeded"], 1, "{f:#}");
    assert_eq!(total["jobs"]["succeeded_first"], 0, "{f:#}");
    assert_eq!((&f["complete"], &f["inventory"][0]["gpus"]), (&true.into(), &32.into()), "{f:#}");
    // Last week there was no site: nothing of it is final.
    let out = c.muster(&["report", "weekly"]);
    out.code(0);
    assert!(out.stdout.contains("no data: this site is known since"), "{out:?}");
    assert!(!out.stdout.contains("  final "), "{out:?}");
    let out = c.muster(&["report", "fleet"]);
    out.code(0);
    assert!(out.stdout.contains("not enough history"), "{}", out.stdout);

    // What GPUs report is in no log: it is written down when it is taken, not at a clean stop only.
    let known = f["telemetry_since"].clone();
    assert!(known.is_string(), "GPUs have reported: {f:#}");
    until("what GPUs reported is written down", || {
        let text = std::fs::read(c.path("data/fleet.json")).unwrap_or_default();
        let stored: Value = serde_json::from_slice(&text).unwrap_or_default();
        stored["fleet"]["seen_since"].is_i64()
    });
    // The figures are in the log: a server that was not there reports the same life.
    c.kill();
    c.restart();
    assert_eq!(fleet(&c)["telemetry_since"], known, "a crash takes nothing that was reported");
    let again = report(&c);
    covers(&again);
    for same in
        ["wall_ms", "complete", "interruptions", "ended_by", "allocated_gpu_seconds", "since"]
    {
        assert_eq!(again[same], r[same], "{same}: {again:#}");
    }
    for part in ["queued", "checkpointing", "lost"] {
        assert_eq!(again["time_ms"][part], r["time_ms"][part], "{part}: {again:#}");
    }
    assert_eq!((&again["steps"], &again["efficiency"]), (&Value::Null, &Value::Null));
    let g = fleet(&c);
    for same in ["jobs", "interruptions"] {
        assert_eq!(g["total"][same], f["total"][same], "{same}: {g:#}");
    }
    for part in ["queued", "checkpointing", "lost"] {
        assert_eq!(
            g["total"]["gpu_seconds"][part], f["total"]["gpu_seconds"][part],
            "{part}: {g:#}"
        );
    }
    assert_eq!(g["since"], f["since"], "{g:#}");
    assert!(r["watched_since"].is_null() && again["watched_since"].is_string(), "{again:#}");
}

#[test]
fn wrong_names_get_the_right_exit_codes() {
    let c = Cluster::start(1);
    let out = c.muster(&["report", "job", "4242"]);
    out.code(3);
    assert!(out.stderr.contains("4242") && out.stdout.is_empty(), "{out:?}");
    c.muster(&["report", "job", "no-such-name"]).code(3);
    c.muster(&["report", "job"]).code(2);
    c.muster(&["report", "node", "x"]).code(2);
    let id = c.submit(&["--hold", "--gpus", "1", "--", "true"]);
    let r = c.json(&["report", "job", &id]);
    covers(&r);
    assert_eq!((&r["state"], &r["goodput"]), (&"queued".into(), &Value::Null), "{r:#}");
    c.muster(&["project", "create", "other"]).code(0);
    let made = c.json(&["token", "create", "ann", "--project", "other", "--role", "user"]);
    let token = made["secret"].as_str().expect("it is shown once").to_owned();
    c.muster(&["--token", &token, "report", "job", &id]).code(3);
}
