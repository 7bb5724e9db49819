//! The server itself, and what operators tell nodes.

use crate::{Kind, Timestamp, schema};
use muster_model::ids::AttemptKey;
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `GET /v1/server`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ServerInfo {
    /// Always `Server`.
    pub kind: Kind,
    /// Its version.
    pub version: String,
    /// The site's id.
    pub site: String,
    /// Fencing token of the leader.
    pub epoch: u64,
    /// Whether this server decides.
    pub leader: bool,
    /// Its name.
    pub server: String,
    /// Its clock, so that a caller sees skew.
    pub at: Timestamp,
    /// When it started.
    pub started_at: Timestamp,
    /// The log.
    pub store: StoreStatus,
    /// Nodes in all.
    pub nodes: u64,
    /// Nodes whose agent is not heard.
    pub nodes_lost: u64,
    /// Nodes that are ahead of this server: it was restored from an old backup.
    pub nodes_protected: u64,
    /// Jobs that have not ended.
    pub jobs_active: u64,
    /// What an operator should know: skewed clocks, missing isolation, a full disk.
    pub warnings: Vec<String>,
}

/// State of the log.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
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
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CordonRequest {
    /// Why.
    #[schema(max_length = 1000)]
    pub reason: String,
}

/// `POST /v1/nodes/{name}/drain`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields, default)]
pub struct DrainRequest {
    /// Why.
    #[schema(max_length = 1000)]
    pub reason: String,
    /// Stop and requeue what runs there instead of letting it end.
    pub stop: bool,
}

/// `POST /v1/nodes/{name}/inject`: a fault for a simulated node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Inject {
    /// Everything on it dies; it is back (with a new boot) after so long.
    Crash {
        /// How long it is away.
        #[schema(value_type = schema::Span)]
        down: Span,
    },
    /// It goes on working but hears and says nothing for so long.
    Partition {
        /// How long.
        #[schema(value_type = schema::Span)]
        length: Span,
    },
    /// The ranks of one attempt are killed.
    KillRanks {
        /// Which.
        #[schema(value_type = schema::AttemptKey)]
        key: AttemptKey,
    },
    /// A GPU falls off the bus.
    LoseGpu {
        /// Index.
        gpu: u32,
    },
    /// A GPU computes more slowly than it should; zero makes it well again.
    SlowGpu {
        /// Index.
        gpu: u32,
        /// By so many percent.
        #[schema(maximum = 99)]
        percent: u32,
    },
    /// A GPU's driver tells of an error.
    Xid {
        /// Index.
        gpu: u32,
        /// The driver's number for it.
        code: u32,
    },
}

/// Answer to an injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Injected {
    /// The node.
    pub node: String,
    /// Whether it was handed on.
    pub ok: bool,
    /// In words.
    pub message: String,
}
