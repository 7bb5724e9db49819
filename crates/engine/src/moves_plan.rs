//! Which records let a scheduling cycle follow. A cycle looks at nodes, at what is free there, at who
//! waits and at the rules; most of what agents report and of what is noted for people is none of
//! that. No log depends on it: what a cycle decides is in records of its own.

use crate::Engine;
use crate::state::State;
use muster_model::event::Event;
use muster_model::ids::JobId;
use muster_model::units::Time;

/// May a cycle decide otherwise once this record is folded into this state? Whoever is not sure
/// says yes: that costs a cycle, and a wrong no leaves work waiting.
pub(crate) fn moves_plan(state: &State, event: &Event) -> bool {
    match event {
        // The log begins, or goes on with another server.
        Event::SiteCreated { .. } | Event::LeaderChanged { .. } => true,

        // Who waits, for what, and in which order.
        Event::JobSubmitted { .. }
        | Event::JobHeld { .. }
        | Event::JobReleased { .. }
        | Event::JobRequeued { .. }
        | Event::JobResized { .. }
        | Event::JobUpdated(_)
        | Event::JobSucceeded { .. }
        | Event::JobFailed { .. }
        | Event::JobCancelled { .. }
        | Event::JobsForgotten { .. } => true,

        // Who holds what, and until when.
        Event::JobPlaced { .. }
        | Event::SlotEnded { .. }
        | Event::SlotLost { .. }
        | Event::StopOrdered { .. }
        | Event::AttemptEnded { .. }
        | Event::StartReserved { .. }
        | Event::ReservedStartDropped { .. }
        | Event::NoticeGiven { .. }
        | Event::NoticeWithdrawn { .. } => true,

        // A gang that hardware interrupted may have a spare, and whose doing an end was may turn
        // out late, while the job waits.
        Event::AttemptAttributed { .. } => true,

        // What is pending counts as what is up: both hold the same for as long.
        Event::SlotStarted { .. } => false,

        // Its limit counts from here on, and so does the time after which it may be stopped, moved or
        // made larger.
        Event::AttemptStarted { .. } => true,

        // What is noted of an attempt that holds what it held.
        Event::PreflightSet(p) => !goes_on(state, p.key.job),
        Event::CheckpointAsked { key } | Event::AttemptProgressed { key } => {
            !goes_on(state, key.job)
        }
        Event::IdleWarned { job, .. } => !goes_on(state, *job),

        // Stopping the attempt costs less now. Whether anybody is stopped for a job that waits does
        // not follow from the price, only who is: a claim that found nobody is not made again before
        // something is released, or somebody has run for long enough. Moves are weighed by it.
        Event::CheckpointDone { job, .. } => state.policy.defrag.enabled || !goes_on(state, *job),

        // Nodes: which there are, what is in them, and whether they take work.
        Event::NodeEnrolled { .. }
        | Event::NodeBack { .. }
        | Event::NodeInventoried { .. }
        | Event::NodeLost { .. }
        | Event::OrphanGone { .. }
        | Event::NodeCordoned { .. }
        | Event::NodeUncordoned { .. }
        | Event::DrainStarted { .. }
        | Event::NodeDrained { .. }
        | Event::NodeReady { .. }
        | Event::NodeRetired { .. }
        | Event::NodeReconciled { .. }
        | Event::NodeMarked { .. }
        | Event::NodeStaged { .. }
        | Event::GpusExcluded { .. }
        | Event::ProbationSet { .. }
        | Event::BreakerSet { .. }
        | Event::QualificationAsked { .. }
        | Event::QualificationEnded { .. }
        | Event::QualificationCancelled { .. } => true,

        // New work avoids a node whose remediation waits to take it.
        Event::RemediationChosen { .. }
        | Event::RemediationStepped { .. }
        | Event::RemediationApproved { .. }
        | Event::RemediationEnded { .. } => true,

        // The rules.
        Event::TopologySet { .. }
        | Event::PolicySet { .. }
        | Event::QuotasSet { .. }
        | Event::ReservationSet { .. }
        | Event::ReservationDeleted { .. } => true,

        // What is wrong, and what is known of it. What follows for a node or a job is reported by
        // records about those.
        Event::FaultSeen { .. }
        | Event::FindingOpened { .. }
        | Event::FindingChanged { .. }
        | Event::FindingClosed { .. }
        | Event::IncidentOpened { .. }
        | Event::IncidentGrew { .. }
        | Event::IncidentClosed { .. }
        | Event::IncidentNoted { .. }
        | Event::IncidentOwned { .. }
        | Event::ActAsked { .. }
        | Event::ActEnded { .. }
        | Event::AutomationStopped { .. }
        | Event::AutomationResumed { .. } => false,

        // The same of runbooks: what their acts change is reported by records beside these.
        Event::RunbookSet { .. }
        | Event::RunbookDeleted { .. }
        | Event::RunbookStarted { .. }
        | Event::RunbookStepDone { .. }
        | Event::RunbookWaits { .. }
        | Event::RunbookEnded { .. } => false,

        // Objectives and alerts: nothing is placed by them.
        Event::ObjectivesSet { .. }
        | Event::RoutingSet { .. }
        | Event::SilenceSet { .. }
        | Event::SilenceEnded { .. }
        | Event::CountsReported { .. }
        | Event::ConditionReported { .. }
        | Event::ConditionOver { .. }
        | Event::CertificateSeen(_)
        | Event::AlertOpened { .. }
        | Event::AlertChanged { .. }
        | Event::AlertClosed { .. }
        | Event::AlertAcknowledged { .. }
        | Event::AlertEscalated { .. }
        | Event::AlertsNotified { .. }
        | Event::ReceiverFailed { .. }
        | Event::AlertsForgotten { .. } => false,

        // Who may ask, and what ranks may read. A project without jobs has no share.
        Event::ProjectCreated { .. }
        | Event::TokenCreated { .. }
        | Event::TokenRevoked { .. }
        | Event::SecretSet { .. }
        | Event::SecretDeleted { .. } => false,

        // For people to read.
        Event::ClockStepped(_) => false,
    }
}

/// Does a job have an attempt that keeps all it has? One that waits is taken out of the queue and
/// put back to be changed, and may be ripe by then.
fn goes_on(state: &State, job: JobId) -> bool {
    state.jobs.get(&job).is_some_and(|j| j.attempt.is_some() && j.state.is_active())
}

impl Engine {
    /// What a scheduling cycle would decide at a moment. Nothing is changed by asking.
    #[must_use]
    pub fn would_plan(&self, at: Time) -> Vec<Event> {
        let mut copy = self.clone();
        copy.out.clear();
        copy.advance(at);
        copy.schedule();
        copy.out.into_iter().map(|r| r.event).collect()
    }

    /// What this engine left undecided: records were written since it was as `before`, no cycle
    /// followed, and one would decide this now because of them. None where there is nothing to
    /// compare: a cycle followed, nothing was written, or time alone gives it something to decide.
    #[must_use]
    pub fn undecided_since(&self, before: &Engine, now: Time) -> Option<Vec<Event>> {
        let compared = self.cycles == before.cycles && self.seq() != before.seq();
        (compared && before.would_plan(now).is_empty()).then(|| self.would_plan(now))
    }
}
