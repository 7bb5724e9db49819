//! What the generator is given, as one line of JSON on its input.

use serde::Deserialize;
use std::path::PathBuf;

/// Everything there is to choose.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Settings {
    /// `HOST:PORT` of the agent link.
    pub(crate) link: String,
    /// A join token.
    pub(crate) join: String,
    /// Everything random follows from it.
    pub(crate) seed: u64,
    /// The fleet's nodes and where each stands.
    pub(crate) nodes: Vec<NodeLocation>,
    /// What is done with it.
    pub(crate) life: RunMode,
}

/// A node and where it stands.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct NodeLocation {
    pub(crate) name: String,
    pub(crate) leaf: String,
    pub(crate) rack: String,
    pub(crate) feed: String,
}

#[derive(Debug, Clone, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub(crate) enum RunMode {
    /// A busy fleet in which things go wrong.
    Scored {
        /// Seconds of the fleet's clock in a second.
        speed: f64,
        /// Nothing goes wrong for so many seconds of the fleet's clock.
        calm_s: f64,
        /// Then so many seconds in which it does.
        busy_s: f64,
        /// Then so many in which nothing new begins.
        tail_s: f64,
        /// Things that go wrong.
        faults: u32,
        /// Things that only look so.
        alikes: u32,
        /// Only these kinds; all when empty.
        #[serde(default)]
        only: Vec<String>,
        /// Where the ground truth is written, one JSON object a line.
        truth: PathBuf,
    },
    /// Many nodes that signal at random.
    Signals {
        /// Signals of a node in a second.
        rate: f64,
        /// For so many seconds.
        steady_s: f64,
        /// Then so many signals of the whole fleet in a second.
        burst: f64,
        /// For so many seconds.
        burst_s: f64,
    },
}
