//! Scenarios of the simulator's library.

use muster_model::units::Span;
use serde::{Deserialize, Serialize};

/// A scenario that the server can simulate.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scenario {
    /// Its name: that of its file without `.toml`.
    pub name: String,
    /// What it shows.
    pub about: String,
    /// The time that it simulates.
    pub length: Span,
    /// The seed of its random choices.
    pub seed: u64,
}

/// All scenarios of the library.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScenarioList {
    /// The scenarios, by name.
    pub items: Vec<Scenario>,
    /// Always null: there are few.
    pub cursor: Option<String>,
}

/// `POST /v1/scenarios/{name}/run`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RunScenario {
    /// Another seed than its own.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(maximum = 4_294_967_295_u64))]
    pub seed: Option<u32>,
    /// Only its beginning, at least an hour of it: a long scenario does not end in the time that the
    /// server has for it.
    #[serde(default)]
    pub length: Option<Span>,
}

/// What a scenario came to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ScenarioRun {
    /// The scenario.
    pub name: String,
    /// The time that was simulated.
    pub length: Span,
    /// The seed.
    pub seed: u64,
    /// The report of the run, as `muster sim run -o json` prints it.
    #[cfg_attr(feature = "openapi", schema(value_type = Object))]
    pub report: serde_json::Value,
}
