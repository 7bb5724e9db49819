//! The site's scheduling policy, and what operators say of waiting jobs and of nodes.

use crate::Kind;
use muster_model::node::NodeRole;
use muster_model::policy::SitePolicy;
use muster_model::spec::Priority;
use muster_model::units::Span;
use serde::{Deserialize, Serialize, Serializer};
use std::sync::Arc;

/// The site's scheduling policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Policy {
    /// Always `Policy`.
    pub kind: Kind,
    /// The version: it changes with the content; goes into `If-Match`.
    pub version: u64,
    /// The whole of it, every default filled in.
    #[cfg_attr(feature = "openapi", schema(value_type = SitePolicy))]
    #[serde(serialize_with = "whole")]
    pub policy: Arc<SitePolicy>,
}

/// A policy with every default filled in. Records leave out what came later and was not changed.
#[must_use]
pub fn whole_policy(policy: &SitePolicy) -> serde_json::Value {
    let mut all = serde_json::to_value(policy).unwrap_or_default();
    if let Some(all) = all.as_object_mut() {
        let fabric = || serde_json::to_value(&policy.fabric).unwrap_or_default();
        all.entry("fabric").or_insert_with(fabric);
    }
    all
}

fn whole<S: Serializer>(policy: &Arc<SitePolicy>, to: S) -> Result<S::Ok, S::Error> {
    whole_policy(policy).serialize(to)
}

/// `PUT /v1/policy`. Accepts what `GET` returned.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetPolicy {
    /// The whole of it; what is left out gets its default.
    #[cfg_attr(feature = "openapi", schema(value_type = SitePolicy))]
    #[serde(deserialize_with = "muster_model::object::object")]
    pub policy: Arc<SitePolicy>,
    /// Always `Policy`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<Kind>,
    /// Ignored: the version the caller saw goes into `If-Match`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<i64>,
}

/// `PATCH /v1/jobs/{id}`: what changes about a job that waits or runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct UpdateJob {
    /// Its new priority class.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// Its new time limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time_limit: Option<Span>,
}

/// `POST /v1/nodes/{name}/mark`: what changes about a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct MarkRequest {
    /// What it is reserved for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub role: Option<NodeRole>,
    /// How likely it is to fail, in thousandths a month.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(feature = "openapi", schema(minimum = 0, maximum = 1000))]
    pub hazard: Option<u32>,
}
