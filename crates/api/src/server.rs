//! The server itself, and what operators ask of nodes.

use crate::{Kind, Timestamp};
use serde::{Deserialize, Serialize};

/// `GET /v1/server`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ServerInfo {
    /// Always `Server`.
    pub kind: Kind,
    /// The version of Muster that it runs.
    pub version: String,
    /// The site's id.
    pub site: String,
    /// Fencing token of the leader.
    pub epoch: u64,
    /// Whether this server decides, and no other can: false while its lease may have ended.
    pub leader: bool,
    /// The name it leads under.
    pub server: String,
    /// Its clock, so that a caller sees skew.
    pub at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// Where the log is, and how far it is durable.
    pub store: StoreStatus,
    /// Nodes in all; not shown to tokens that are bound to a project, nor are the next two.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<u64>,
    /// Nodes whose agent sends no heartbeats.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_lost: Option<u64>,
    /// Nodes that are ahead of this server: it was restored from an old backup.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes_protected: Option<u64>,
    /// Jobs that have not ended.
    pub jobs_active: u64,
    /// What an operator should know: skewed clocks, missing isolation, a full disk.
    pub warnings: Vec<String>,
}

/// State of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StoreStatus {
    /// `sqlite` or `postgres`.
    pub kind: String,
    /// Everything up to here survives a crash.
    pub durable_seq: u64,
    /// Newest snapshot.
    pub snapshot_seq: Option<u64>,
    /// Bytes on disk, where known.
    pub bytes: Option<u64>,
}

/// `POST /v1/nodes/{name}/cordon`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct CordonRequest {
    /// Why, for people.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
}

/// `POST /v1/nodes/{name}/drain`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct DrainRequest {
    /// Why, for people.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
    /// Stop and requeue what runs there instead of letting it end.
    pub stop: bool,
}
