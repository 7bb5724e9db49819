//! Which events the world reported to us, and which we chose.

use super::Event;
use serde::{Deserialize, Serialize};

/// Input or decision.
// A what-if replay feeds the inputs and lets another policy decide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = EventOrigin))]
#[serde(rename_all = "snake_case")]
pub enum Origin {
    /// A submission, an observation, an operator's word.
    Input,
    /// The control plane's own choice.
    Decision,
}

impl Event {
    /// Input or decision?
    #[must_use]
    pub fn origin(&self) -> Origin {
        match self {
            Event::PreflightSet(p) if p.preflight.is_reported() => Origin::Input,
            Event::JobPlaced { .. }
            | Event::PreflightSet(_)
            | Event::AttemptStarted { .. }
            | Event::StopOrdered { .. }
            | Event::AttemptEnded { .. }
            | Event::JobRequeued { .. }
            | Event::JobSucceeded { .. }
            | Event::JobFailed { .. }
            | Event::JobCancelled { .. }
            | Event::JobsForgotten { .. }
            | Event::SlotLost { .. }
            | Event::NodeDrained { .. }
            | Event::NodeReady { .. }
            | Event::StartReserved { .. }
            | Event::ReservedStartDropped { .. }
            | Event::NoticeGiven { .. }
            | Event::NoticeWithdrawn { .. }
            | Event::JobResized { .. }
            | Event::NodeCordoned { decided: true, .. }
            | Event::NodeUncordoned { decided: true, .. }
            | Event::QualificationAsked { on_join: true, .. }
            | Event::QualificationEnded { expired: true, .. }
            | Event::FindingOpened { decided: true, .. }
            | Event::FindingChanged { decided: true, .. }
            | Event::FindingClosed { decided: true, .. }
            | Event::IncidentOpened { .. }
            | Event::IncidentGrew { .. }
            | Event::IncidentClosed { .. }
            | Event::BreakerSet { by_operator: false, .. }
            | Event::RemediationChosen { .. }
            | Event::RemediationStepped { .. }
            | Event::RemediationEnded { by_operator: false, .. }
            | Event::ActAsked { .. }
            | Event::ActEnded { expired: true, .. }
            | Event::NodeStaged { by_operator: false, .. }
            | Event::GpusExcluded { by_operator: false, .. }
            | Event::ProbationSet { .. }
            | Event::AutomationStopped { by_operator: false, .. }
            | Event::AttemptAttributed { .. }
            | Event::NodeMarked { decided: true, .. }
            | Event::JobHeld { decided: true, .. }
            | Event::JobReleased { decided: true, .. }
            | Event::RunbookStepDone { decided: true, .. }
            | Event::RunbookWaits { .. }
            | Event::RunbookEnded { by_operator: false, .. }
            | Event::AlertOpened { .. }
            | Event::AlertChanged { .. }
            | Event::AlertClosed { .. }
            | Event::AlertsForgotten { .. }
            | Event::SilenceEnded { expired: true, .. }
            | Event::IdleWarned { .. } => Origin::Decision,
            Event::SiteCreated { .. }
            | Event::LeaderChanged { .. }
            | Event::JobSubmitted { .. }
            | Event::JobHeld { .. }
            | Event::JobReleased { .. }
            | Event::SlotStarted { .. }
            | Event::SlotEnded { .. }
            | Event::CheckpointAsked { .. }
            | Event::CheckpointDone { .. }
            | Event::NodeEnrolled { .. }
            | Event::NodeBack { .. }
            | Event::NodeInventoried { .. }
            | Event::NodeLost { .. }
            | Event::OrphanGone { .. }
            | Event::NodeCordoned { .. }
            | Event::NodeUncordoned { .. }
            | Event::DrainStarted { .. }
            | Event::NodeRetired { .. }
            | Event::NodeReconciled { .. }
            | Event::TopologySet { .. }
            | Event::ProjectCreated { .. }
            | Event::TokenCreated { .. }
            | Event::TokenRevoked { .. }
            | Event::SecretSet { .. }
            | Event::JobUpdated(_)
            | Event::NodeMarked { .. }
            | Event::PolicySet { .. }
            | Event::QuotasSet { .. }
            | Event::ReservationSet { .. }
            | Event::ReservationDeleted { .. }
            | Event::SecretDeleted { .. }
            | Event::FaultSeen { .. }
            | Event::QualificationAsked { .. }
            | Event::QualificationEnded { .. }
            | Event::QualificationCancelled { .. }
            | Event::FindingOpened { .. }
            | Event::FindingChanged { .. }
            | Event::FindingClosed { .. }
            | Event::BreakerSet { .. }
            | Event::RemediationApproved { .. }
            | Event::RemediationEnded { .. }
            | Event::ActEnded { .. }
            | Event::NodeStaged { .. }
            | Event::GpusExcluded { .. }
            | Event::AutomationStopped { .. }
            | Event::AutomationResumed { .. }
            | Event::RunbookSet { .. }
            | Event::RunbookDeleted { .. }
            | Event::RunbookStarted { .. }
            | Event::RunbookStepDone { .. }
            | Event::RunbookEnded { .. }
            | Event::IncidentNoted { .. }
            | Event::IncidentOwned { .. }
            | Event::ObjectivesSet { .. }
            | Event::RoutingSet { .. }
            | Event::SilenceSet { .. }
            | Event::SilenceEnded { .. }
            | Event::CountsReported { .. }
            | Event::ConditionReported { .. }
            | Event::ConditionOver { .. }
            | Event::CertificateSeen { .. }
            | Event::AlertAcknowledged { .. }
            | Event::AlertEscalated { .. }
            | Event::AlertsNotified { .. }
            | Event::ReceiverFailed { .. }
            | Event::ClockStepped(_)
            | Event::AttemptProgressed { .. } => Origin::Input,
        }
    }
}
