//! Names under which the model's types stand in the OpenAPI description.

pub(crate) use muster_model::{
    alert::{Matcher, Routing, Topic, Urgency},
    breaker::BreakerState,
    fault::{FaultAction, FaultClass, FaultSource},
    finding::Severity,
    job::{ArrayTask, Basis, Dependency, JobState, SlotEnd, StopReason, Verdict},
    node::{Inventory, NodeRole, Stage},
    placement::{AllocatedPart, Fabric},
    policy::SitePolicy,
    qualification::{Check as QualifyCheck, Level as QualifyLevel, Outcome as QualifyOutcome},
    quota::{QueueOrder, Quotas},
    remediation::{
        Action, Leave, Mode as RemediationMode, RemediationOutcome, RemediationStep, Remediations,
    },
    reservation::{Overrun, ReservationTarget},
    slo::{Cause, Gate, Objectives, Scope, Sli},
    spec::{Group, JobSpec, Priority, Tier},
    tenant::Role,
    topology::{Level, Location},
    units::{Bytes, Span},
};
