//! `muster search --logs` against a real server whose jobs really print.

use crate::minutes::cluster::{Cluster, until};
use serde_json::Value;
use std::collections::BTreeSet;

/// The lines that are found, once there are so many.
fn found(c: &Cluster, args: &[&str], many: usize) -> Vec<Value> {
    let mut all = vec!["search", "--logs"];
    all.extend(args);
    let look = || c.json(&all)["items"].as_array().cloned().unwrap_or_default();
    until(&format!("{many} lines of {args:?} are found"), || look().len() == many);
    look()
}

/// When each line came.
fn times(hits: &[Value]) -> BTreeSet<String> {
    hits.iter().map(|h| format!("{} {} {}", h["job"], h["stream"], h["at"])).collect()
}

#[test]
fn a_line_that_a_job_printed_is_found_across_jobs_and_by_its_project_alone() {
    let mut c = Cluster::start_with(1, &["--output-search", "on"]);
    let print = "echo quiet; echo 'NCCL WARN mark-7319 of rank 0'; echo 'mark-7319 again' >&2";
    let first = c.submit(&["--", "sh", "-c", print]);
    c.muster(&["wait", &first]).code(0);
    let second = c.submit(&["--", "sh", "-c", "printf 'the last mark-7319 has no end'"]);
    c.muster(&["wait", &second]).code(0);

    let hits = found(&c, &["mark-7319"], 3);
    let of = |job: &str| hits.iter().filter(|h| h["job"] == job).count();
    assert_eq!((of(&first), of(&second)), (2, 1), "{hits:#?}");
    let before = times(&hits);
    let hits = found(&c, &["nccl", "warn"], 1);
    let hit = &hits[0];
    assert_eq!(hit["job"], first.as_str());
    assert_eq!((&hit["attempt"], &hit["rank"], &hit["line"]), (&1.into(), &0.into(), &2.into()));
    assert_eq!((&hit["stream"], &hit["project"]), (&"stdout".into(), &"default".into()));
    assert_eq!(hit["text"], "NCCL WARN mark-7319 of rank 0");
    assert_eq!(found(&c, &["mark-7319", "--job", &second], 1)[0]["job"], second.as_str());
    assert_eq!(found(&c, &["\"7319 again\"", "--since", "1h"], 1)[0]["stream"], "stderr");
    let out = c.muster(&["search", "--logs", "NCCL", "WARN"]);
    out.code(0);
    let shown = format!("job {first} attempt 1 rank 0 line 2: NCCL WARN mark-7319 of rank 0\n");
    assert!(out.stdout.ends_with(&shown), "{out:#?}");

    c.muster(&["project", "create", "other"]).code(0);
    let eve = c.muster(&["token", "create", "eve", "--role", "user", "--project", "other"]);
    eve.code(0);
    let out = c.muster(&["search", "--logs", "mark-7319", "--token", eve.stdout.trim()]);
    out.code(0);
    assert!(out.stderr.contains("no line of stored output has these words"), "{out:#?}");

    // What was indexed is there after a crash, and what the index lost is made again.
    c.kill();
    std::fs::remove_dir_all(c.path("data/output-index")).expect("the index is a directory");
    c.restart();
    assert_eq!(times(&found(&c, &["mark-7319"], 3)), before, "with the times at which they came");
}

#[test]
fn a_server_that_indexes_no_output_says_so_and_how_to_turn_it_on() {
    let c = Cluster::start_with(1, &["--output-search", "off"]);
    let out = c.muster(&["search", "--logs", "anything"]);
    out.code(5);
    assert!(out.stderr.contains("output search is off"), "{out:#?}");
    assert!(out.stderr.contains("--output-search on"), "{out:#?}");
    assert!(!c.path("data/output-index").exists());
}
