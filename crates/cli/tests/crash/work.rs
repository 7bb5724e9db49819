//! The jobs of the load: real processes that write down when they start and end.

use super::ranks::{FILE, PROLOGUE};
use super::rng::Rng;
use serde_json::{Value, json};
use std::path::Path;

/// What a job does, and so how it must end when nobody interferes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Ends at once.
    Quick,
    /// Sleeps a while.
    Sleep,
    /// Speaks through `MUSTER_REPORT`: its last checkpoint is step [`STEPS`].
    Report,
    /// Ends with exit code 3.
    Fail,
    /// Goes on until it is cancelled.
    Endless,
    /// Starts no process.
    Simulated,
    /// Keeps its steps in a checkpoint directory.
    Writer,
}

/// Checkpoints that a job of kind [`Kind::Report`] writes.
pub(crate) const STEPS: u64 = 5;

impl Kind {
    pub(crate) fn any(rng: &mut Rng) -> Kind {
        match rng.between(0, 99) {
            0..=29 => Kind::Quick,
            30..=54 => Kind::Sleep,
            55..=69 => Kind::Report,
            70..=76 => Kind::Fail,
            77..=84 => Kind::Endless,
            _ => Kind::Simulated,
        }
    }

    /// The state that it must end in.
    pub(crate) fn expected(self) -> &'static str {
        match self {
            Kind::Fail => "failed",
            Kind::Endless => "cancelled",
            _ => "succeeded",
        }
    }
}

/// The request body of a job.
pub(crate) fn spec(kind: Kind, name: &str, file: &Path, rng: &mut Rng) -> Value {
    let (nodes, gpus, ranks) = *rng
        .pick(&[(1, 1, 1), (1, 1, 1), (1, 2, 2), (1, 4, 1), (2, 2, 1), (2, 8, 1), (3, 1, 1)])
        .expect("there are some");
    let gang = json!({ "nodes": nodes, "gpus_per_node": gpus, "ranks_per_node": ranks });
    let seconds = format!("{}.{}", rng.between(0, 1), rng.between(2, 9));
    let body = match kind {
        Kind::Simulated => {
            let run = format!("{}ms", rng.between(1, 1500));
            return json!({ "name": name, "gang": gang, "simulate": { "run": run } });
        }
        // A writer has a spec of its own.
        Kind::Quick | Kind::Writer => "over 0".to_owned(),
        Kind::Fail => "rest 0.1; over 3".to_owned(),
        Kind::Sleep => format!("rest {seconds}; over 0"),
        Kind::Endless => "while :; do rest 60; done".to_owned(),
        Kind::Report => format!(
            r#"for i in $(seq 1 {STEPS}); do
  printf '{{"step":%s,"t":0.1}}\n{{"checkpoint":{{"step":%s,"path":"/ckpt/%s","state":"done"}}}}\n' $i $i $i >> "$MUSTER_REPORT"
  rest 0.1
done
over 0"#
        ),
    };
    script(name, gang, &body, file)
}

/// A job that runs a script after the prologue.
pub(crate) fn script(name: &str, gang: Value, body: &str, file: &Path) -> Value {
    json!({
        "name": name,
        "gang": gang,
        "run": {
            "command": ["/bin/sh", "-c", format!("{PROLOGUE}{body}\n")],
            "env": { FILE: file },
            // Named, so that the ranks see it: the rest of /tmp is their own.
            "workdir": file.parent(),
        },
    })
}
