//! An entry of the log.

use super::Event;
use crate::command::IdempotencyKey;
use crate::ids::Seq;
use crate::names::ProjectName;
use crate::units::Time;
use serde::{Deserialize, Serialize};

/// Newest shape of records that this version writes.
pub const SCHEMA: u32 = 5;

/// One entry of the log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Record {
    /// Its place; dense.
    pub seq: Seq,
    /// When; never before the record before it.
    pub at: Time,
    /// Shape of this record.
    pub v: u32,
    /// Organisation it belongs to.
    pub org: String,
    /// Project it belongs to, if any: those who may see it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
    /// Who caused it.
    pub actor: String,
    /// The key of the request that caused it (on its first record).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub key: Option<IdempotencyKey>,
    /// The fact itself.
    #[serde(flatten)]
    pub event: Event,
}
