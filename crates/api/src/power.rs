//! What nodes, racks and feeds draw, beside what they could and may draw.

use crate::Kind;
use serde::{Deserialize, Serialize};

/// What power is added up by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum PowerBy {
    /// Each node.
    #[default]
    Node,
    /// Each rack.
    Rack,
    /// Each power feed.
    Feed,
}

/// `GET /v1/power`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::IntoParams), into_params(parameter_in = Query))]
#[serde(default)]
pub struct PowerQuery {
    /// Added up by node, rack or feed.
    pub by: PowerBy,
}

/// The power of one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DomainPower {
    /// Its name; a rack with its spine and leaf, or its whole path if two have one name.
    pub name: String,
    /// Nodes in it.
    pub nodes: u32,
    /// GPUs in it.
    pub gpus: u32,
    /// GPUs whose draw is measured now.
    pub gpus_measured: u32,
    /// What those draw together, in watts; none when none is measured.
    pub gpu_watts: Option<u64>,
    /// What all its GPUs draw at full load, in watts.
    pub gpu_watts_rated: u64,
    /// What its nodes draw besides their GPUs, in watts; planned, not measured.
    pub host_watts_planned: u64,
    /// What it may draw, where the policy says.
    pub budget_watts: Option<u64>,
}

/// The power of all places.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct PowerInventory {
    /// Always `PowerInventory`.
    pub kind: Kind,
    /// What it is added up by.
    pub by: PowerBy,
    /// Places by name.
    pub items: Vec<DomainPower>,
}
