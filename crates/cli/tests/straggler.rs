//! Stragglers with real processes: the ranks of a gang really compute and report their steps, and
//! one of them, or all, get little of a processor.

use serde_json::Value;

/// Plays a drill, which must pass.
fn passes(name: &str) -> Value {
    let out =
        crate::muster().args(["gameday", "run", name, "-o", "json"]).output().expect("it starts");
    let more = String::from_utf8_lossy(&out.stderr);
    let all: Value = serde_json::from_slice(&out.stdout).unwrap_or_else(|e| panic!("{e}: {more}"));
    assert_eq!(all[0]["passed"], true, "{all:#} {more}");
    assert_eq!(all[0]["healthy_drained"], 0, "{all:#}");
    all[0].clone()
}

#[test]
fn the_rank_that_is_slow_is_named() {
    let r = passes("slow-rank-real");
    assert_eq!(r["verdict"], "infrastructure", "{r:#}");
}

#[test]
#[ignore = "real steps for a minute: `cargo xtask soak fabric` takes them"]
fn a_job_that_is_slow_is_no_nodes_fault() {
    let r = passes("slow-job-real");
    assert_eq!(r["verdict"], "job", "{r:#}");
    assert!(r["remediation"].is_null(), "{r:#}");
}
