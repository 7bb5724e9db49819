//! The verbs of operators and users that no other test types, with the real binary and a real
//! server: what each says, how it ends, and what became of it. Several share a cluster, because
//! starting one takes longer than most of them.

mod data_dir;
mod health;
mod plans;
mod projects;
mod slo;
pub(crate) mod standby;
mod table;
mod tokens;
mod work;

use crate::minutes::cluster::{Cluster, CommandOutput};
use serde_json::Value;

/// A file of the test's own.
fn write(c: &Cluster, name: &str, text: &str) -> String {
    let path = c.path(name);
    std::fs::write(&path, text).expect("the test's own directory");
    path.display().to_string()
}

/// The command did what it should and said this.
#[track_caller]
fn says(said: &CommandOutput, words: &[&str]) {
    said.code(0);
    for w in words {
        assert!(said.stdout.contains(w), "`{w}` in {said:#?}");
    }
}

/// The command ended so and said this on stderr.
#[track_caller]
fn refuses(said: &CommandOutput, code: i32, words: &[&str]) {
    said.code(code);
    for w in words {
        assert!(said.stderr.contains(w), "`{w}` in {said:#?}");
    }
}

fn items(list: &Value) -> &[Value] {
    list["items"].as_array().map(Vec::as_slice).unwrap_or_default()
}

/// The names of what is listed.
fn names(list: &Value) -> Vec<&str> {
    items(list).iter().filter_map(|i| i["name"].as_str()).collect()
}

fn job(c: &Cluster, id: &str) -> Value {
    c.json(&["get", "job", id])
}

fn is(c: &Cluster, id: &str, state: &str) -> bool {
    job(c, id)["state"] == state
}

/// Submits simulated work that lasts, on so many GPUs of one node; it can be moved.
fn lasting(c: &Cluster, name: &str, gpus: u32, more: &[&str]) -> String {
    let spec = serde_json::json!({
        "name": name,
        "gang": {"nodes": 1, "gpus_per_node": gpus},
        "checkpoint": {"dir": c.path("checkpoints")},
        "simulate": {"run": "1h"},
    });
    let file = write(c, &format!("{name}.json"), &spec.to_string());
    c.submit(&[&[file.as_str()], more].concat())
}
