//! Names under which the model's types stand in the OpenAPI description.

#[cfg(feature = "model-schemas")]
pub(crate) use muster_model::{
    alert::{Matcher, Routing, Topic, Urgency},
    breaker::BreakerState,
    fault::{FaultAction, FaultClass, FaultSource},
    finding::Severity,
    job::{ArrayTask, Basis, Dependency, JobState, SlotEnd, StopReason, Verdict},
    node::{Inventory, NodeRole, Stage},
    placement::{Fabric, HeldPart},
    policy::SitePolicy,
    qualification::{Check as QualifyCheck, Level as QualifyLevel, Outcome as QualifyOutcome},
    quota::{QueueOrder, Quotas},
    remedy::{Action, Leave, Mode as RemedyMode, Remedies, RemedyOutcome, RemedyStep},
    reservation::{Over, Overrun},
    slo::{Cause, Gate, Objectives, Scope, Sli},
    spec::{Group, JobSpec, Priority, Tier},
    tenant::Role,
    topology::{Level, Location},
    units::{Bytes, Span},
};

/// Without the model's schemas, its types are described as what they look like from afar.
#[cfg(not(feature = "model-schemas"))]
mod plain {
    use serde_json::Value;

    pub(crate) type Action = String;
    pub(crate) type Cause = String;
    pub(crate) type Gate = String;
    pub(crate) type Matcher = Value;
    pub(crate) type Objectives = Value;
    pub(crate) type Routing = Value;
    pub(crate) type Scope = Value;
    pub(crate) type Sli = Value;
    pub(crate) type Topic = String;
    pub(crate) type Urgency = String;
    pub(crate) type BreakerState = String;
    pub(crate) type Leave = String;
    pub(crate) type Remedies = Value;
    pub(crate) type RemedyMode = String;
    pub(crate) type RemedyOutcome = String;
    pub(crate) type RemedyStep = String;
    pub(crate) type Severity = String;
    pub(crate) type ArrayTask = Value;
    pub(crate) type Basis = String;
    pub(crate) type Dependency = Value;
    pub(crate) type Fabric = String;
    pub(crate) type HeldPart = Value;
    pub(crate) type NodeRole = String;
    pub(crate) type FaultAction = String;
    pub(crate) type FaultClass = String;
    pub(crate) type FaultSource = String;
    pub(crate) type Over = Value;
    pub(crate) type QualifyCheck = Value;
    pub(crate) type QualifyLevel = String;
    pub(crate) type QualifyOutcome = String;
    pub(crate) type Overrun = String;
    pub(crate) type Priority = String;
    pub(crate) type QueueOrder = String;
    pub(crate) type Quotas = Value;
    pub(crate) type SitePolicy = Value;
    pub(crate) type Tier = String;
    pub(crate) type JobState = String;
    pub(crate) type SlotEnd = Value;
    pub(crate) type StopReason = Value;
    pub(crate) type Verdict = String;
    pub(crate) type Inventory = Value;
    pub(crate) type Stage = String;
    pub(crate) type Group = Value;
    pub(crate) type JobSpec = Value;
    pub(crate) type Role = String;
    pub(crate) type Level = String;
    pub(crate) type Location = Value;
    pub(crate) type Bytes = String;
    pub(crate) type Span = String;
}
#[cfg(not(feature = "model-schemas"))]
pub(crate) use plain::*;
