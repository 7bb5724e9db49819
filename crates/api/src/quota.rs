//! Quotas, and entitlement against what was received.

pub use muster_model::quota::{AccountRow, LimitRow, QuotaReport, QuotaRow};

use crate::Kind;
use muster_model::quota as m;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The tree of quotas, and how it is used.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
// The model's own tree is called `Quotas` in the description.
#[cfg_attr(feature = "openapi", schema(as = QuotasWithReport))]
pub struct Quotas {
    /// Always `Quotas`.
    pub kind: Kind,
    /// The version: it changes with the tree; goes into `If-Match`.
    pub version: u64,
    /// The tree. A token that is bound to a project sees the way from its project to the root.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Quotas))]
    pub quotas: Arc<m::Quotas>,
    /// How it is used.
    pub report: QuotaReport,
    /// What of the tree has no effect, in words; also in the answer of a dry run. It is allowed, because what others
    /// lend may change. A token that is bound to a project gets none.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// `PUT /v1/quotas`. Accepts what `GET` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetQuotas {
    /// The whole tree.
    #[cfg_attr(feature = "openapi", schema(value_type = m::Quotas))]
    pub quotas: Arc<m::Quotas>,
    /// Always `Quotas`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Object>))]
    pub report: Option<serde_json::Map<String, serde_json::Value>>,
    /// Not looked at.
    #[serde(default, skip_serializing)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<Vec<String>>))]
    pub warnings: Option<Vec<String>>,
}
