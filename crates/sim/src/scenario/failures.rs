//! What breaks in a scenario.

use super::Delay;
use muster_model::units::Span;
use serde::{Deserialize, Serialize};

/// What breaks, and how often.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Failures {
    /// Published causes and rates to begin with.
    pub preset: Option<Preset>,
    /// All rates of the preset and of `causes` times this.
    pub scale: Option<f64>,
    /// Further causes.
    pub causes: Vec<Cause>,
    /// Young machines fail more often.
    pub infant: Option<Infant>,
    /// A few nodes fail again and again.
    pub lemons: Option<Lemons>,
    /// Jobs fail for reasons that are not the nodes'.
    pub jobs: Option<JobHazard>,
    /// Things that happen once, at a given time.
    pub incidents: Vec<Incident>,
    /// Lifetimes of Titan's GPUs as a stream of failures: the file.
    pub titan: Option<String>,
}

/// Published failure rates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Preset {
    /// Llama 3 405B: 419 in 54 days of 2,048 nodes, by cause.
    Llama3,
    /// Meta's RSC-1: 6.5 in a thousand node-days.
    Rsc1,
    /// Meta's RSC-2: 2.34 in a thousand node-days.
    Rsc2,
    /// Delta's H100 part: uncorrectable memory errors and failed remaps.
    DeltaH100,
}

/// One cause of failures.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Cause {
    /// What it is called.
    pub name: String,
    /// How often, in a thousand node-days.
    pub per_1000_node_days: f64,
    /// What it does.
    #[serde(default)]
    pub mode: Mode,
    /// What it takes with it.
    #[serde(default)]
    pub scope: Scope,
    /// Until it is repaired, where that differs.
    #[serde(default)]
    pub repair: Option<Delay>,
    /// A sign of it that shows beforehand.
    #[serde(default)]
    pub precursor: Option<Precursor>,
}

/// What a failure does.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// What runs there stops.
    #[default]
    FailStop,
    /// What runs there goes on at this share of its speed.
    FailSlow(f64),
    /// Results are wrong until somebody notices.
    Corruption,
    /// What runs there stands still for a moment.
    Flap(Span),
    /// The job's own software fails: the node is fine.
    Software,
}

/// What a failure takes with it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Scope {
    /// One node.
    #[default]
    Node,
    /// Every node of its rack or NVLink domain.
    Rack,
    /// Every node of its leaf.
    Leaf,
    /// Every node of its power feed within its rack row (spine).
    Feed,
}

/// A sign that shows before a failure.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Precursor {
    /// Share of the failures that show it.
    pub share: f64,
    /// How long before.
    pub lead: Delay,
    /// False signs in a thousand node-days.
    #[serde(default)]
    pub false_per_1000_node_days: f64,
}

/// Young machines fail more often.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Infant {
    /// How much more often at the beginning.
    pub factor: f64,
    /// How long until half of the excess is gone.
    pub half_life: Span,
}

/// A few nodes fail again and again.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Lemons {
    /// Share of the nodes.
    pub share: f64,
    /// How much more often they fail.
    pub factor: f64,
}

/// Jobs fail for reasons that are not the nodes'.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct JobHazard {
    /// How often, in a thousand node-days of running.
    pub per_1000_node_days: f64,
    /// Larger gangs fail as often as one of so many nodes does.
    #[serde(default)]
    pub up_to_nodes: Option<u32>,
}

/// Something that happens once.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Incident {
    /// When it happens, from the scenario's start.
    pub at: Span,
    /// Its name in the figures.
    pub name: String,
    /// Which nodes, racks, leaves or feeds: their names. Empty: chosen by the seed.
    #[serde(default)]
    pub on: Vec<String>,
    /// What it takes with it.
    #[serde(default)]
    pub scope: Scope,
    /// What it does.
    #[serde(default)]
    pub mode: Mode,
    /// Share of the fleet's nodes that it hits, instead of one place.
    #[serde(default)]
    pub share: Option<f64>,
    /// Until it is repaired.
    #[serde(default)]
    pub repair: Option<Delay>,
    /// From then on the failures of these nodes come so many times as often (a bad driver).
    #[serde(default)]
    pub rate_factor: Option<f64>,
    /// How long that lasts.
    #[serde(default)]
    pub lasts: Option<Span>,
}
