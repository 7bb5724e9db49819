//! What a change would do to the site.

use muster_model::units::Span;
use serde::{Deserialize, Serialize};

/// `POST /v1/whatif`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WhatIf {
    /// What is changed, one after the other, each as `muster whatif --change` takes it: `nodes=+64`,
    /// `nodes=-8`, `nodes=+64:h200-sxm`, `spares=4`, `policy.backfill.mode=aggressive`,
    /// `checkpoint=10m`, `failure_rate=x2`, `sku=h200-sxm`.
    #[cfg_attr(feature = "openapi", schema(min_items = 1, max_items = 16))]
    pub changes: Vec<String>,
    /// Pairs of simulated runs; fewer are made where there is no time for all.
    #[serde(default = "usual_seeds")]
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 64))]
    pub seeds: u32,
    /// How far ahead, from a minute to 90 days; by itself 7 days, or as long as the queue lasts.
    #[serde(default)]
    pub horizon: Option<Span>,
    /// About how long it may take, from a second to 20; by itself 10.
    #[serde(default)]
    pub budget: Option<Span>,
}

fn usual_seeds() -> u32 {
    8
}
