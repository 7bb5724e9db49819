//! Faults for simulated nodes: `POST /v1/nodes/{name}/inject`.

pub use muster_model::inject::Inject;
use serde::{Deserialize, Serialize};

/// Answer to an injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Injected {
    /// The simulated node.
    pub node: String,
    /// Whether the agent received it.
    pub ok: bool,
    /// What it did, or why it could not, for people.
    pub message: String,
}
