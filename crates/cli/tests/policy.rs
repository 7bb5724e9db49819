//! What the site's policy does to work that really runs: room is made for work that ranks higher,
//! and GPUs that are allocated for nothing come back. With the real binary and real ranks.

use crate::minutes::cluster::{Cluster, until};

fn write(c: &Cluster, name: &str, text: &str) -> String {
    let path = c.path(name);
    std::fs::write(&path, text).expect("the test's own directory");
    path.display().to_string()
}

fn apply(c: &Cluster, policy: &str) {
    let file = write(c, "policy.yaml", policy);
    c.muster(&["policy", "apply", &file]).code(0);
}

fn state(c: &Cluster, id: &str) -> String {
    c.json(&["get", "job", id])["state"].as_str().unwrap_or_default().to_owned()
}

#[test]
fn a_rank_that_makes_room_is_asked_then_stopped_and_goes_on_later() {
    let c = Cluster::start(1);
    apply(&c, "kind: Policy\npreemption: {min_run: 0s}\n");
    let seen = c.path("seen");
    // Answers the question with a checkpoint, and goes on until it is asked to stop.
    let script = format!(
        r#"
say() {{ echo "$@" >> {seen}; }}
checkpoint() {{
  say asked
  echo '{{"checkpoint":{{"state":"done","step":4,"path":"{dir}/4"}}}}' >> $MUSTER_REPORT
}}
trap checkpoint USR1
trap 'say stopped; exit 0' TERM
say attempt $MUSTER_ATTEMPT from ${{MUSTER_RESUME:-nothing}}
[ $MUSTER_ATTEMPT = 1 ] || exit 0
while :; do sleep 0.1; done
"#,
        seen = seen.display(),
        dir = c.path("ckpt").display(),
    );
    let spec = serde_json::json!({
        "name": "low",
        "gang": {"nodes": 1, "gpus_per_node": 8, "ranks_per_node": 1},
        "priority": "low",
        "checkpoint": {"dir": c.path("ckpt"), "request": {"signal": "SIGUSR1"}, "grace": "60s"},
        "run": {"script": script},
    });
    let low = c.submit(&[&write(&c, "low.json", &spec.to_string())]);
    let lines = || std::fs::read_to_string(&seen).unwrap_or_default();
    until("the low job has begun", || lines().contains("attempt 1"));
    let go = c.path("go");
    let wait = format!("while [ ! -e {} ]; do sleep 0.1; done", go.display());
    let high = c.submit(&[
        "--name",
        "high",
        "--priority",
        "high",
        "--gpus",
        "8",
        "--ranks-per-node",
        "1",
        "--",
        "sh",
        "-c",
        &wait,
    ]);
    until("the high job runs", || state(&c, &high) == "running");
    assert_eq!(lines(), "attempt 1 from nothing\nasked\nstopped\n");
    assert_eq!(state(&c, &low), "queued");
    std::fs::write(&go, "").expect("the test's own directory");
    c.muster(&["wait", &high]).code(0);
    c.muster(&["wait", &low]).code(0);
    let resumed = format!("attempt 2 from {}/4\n", c.path("ckpt").display());
    assert!(lines().ends_with(&resumed), "{}", lines());
}

#[test]
fn gpus_that_are_held_for_nothing_come_back() {
    let c = Cluster::start(2);
    apply(&c, "kind: Policy\nidle: {warn_after: 1s, end_after: 2s}\n");
    let job = |name: &str, idle: bool| {
        let spec = serde_json::json!({
            "name": name,
            "gang": {"nodes": 1, "gpus_per_node": 4},
            "simulate": {"run": "1h", "idle": idle},
        });
        c.submit(&[&write(&c, &format!("{name}.json"), &spec.to_string())])
    };
    let (works, idles) = (job("works", false), job("idles", true));
    // The idle one may be over before anybody has asked how it is.
    until("both have begun", || {
        state(&c, &works) == "running" && !["queued", "starting"].contains(&&*state(&c, &idles))
    });
    until("the idle one is ended", || !["running", "stopping"].contains(&&*state(&c, &idles)));
    let ended = c.json(&["get", "job", &idles]);
    let reason = ended["reason"].as_str().unwrap_or_default();
    assert!(reason.contains("did nothing"), "{ended:#}");
    assert_eq!(state(&c, &works), "running");
}
