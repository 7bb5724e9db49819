//! What events are made of.

pub(super) use crate::alert::{
    Acknowledgement, Alert, AlertChange, Condition, Escalated, Routing, Silence,
};
pub(super) use crate::ids::{AttemptKey, Epoch, JobId, SiteId};
pub(super) use crate::job::{Checkpoint, Dependency, JobUpdate, SlotEnd, StopReason, Verdict};
pub(super) use crate::names::{Label, NodeName, ProjectName};
pub(super) use crate::remediation::{AskedAct, Remediation, RemediationOutcome, RemediationStep};
pub(super) use crate::{node::Inventory, placement::Placement, qualification::Qualification};
pub(super) use crate::{slo::IndicatorCount, slo::Objectives, units::Span, units::Time};
pub(super) use crate::{spec::Group, spec::JobSpec, topology::Location, topology::Topology};
pub(super) use std::{collections::BTreeSet, sync::Arc};
