//! What of objectives and alerts is to be looked at again. Derived; never stored.

use crate::state::State;
use muster_model::alert::Condition;
use muster_model::event::{Event, Record};
use muster_model::names::{Label, NodeName};
use muster_model::units::Time;

/// What is to be looked at again.
#[derive(Debug, Clone)]
pub(crate) struct Watch {
    /// Something happened that alerts may follow from.
    pub(super) news: bool,
    /// When alerts were last looked at.
    pub(super) looked_at: Time,
    /// How many conditions there were then: many take longer to look at.
    pub(super) weight: u64,
    /// When time alone may change an alert.
    pub(super) next: Option<Time>,
    /// When an alert that is over may next be forgotten, should no other be over by then.
    pub(super) forget_at: Option<Time>,
    /// When objectives were last judged.
    pub(super) judged_at: Option<Time>,
    /// Objectives that burn, or whose budget is exhausted.
    pub(super) burning: Vec<Condition>,
    /// Objectives of the site that are not met and stop automation.
    pub(super) holding: Vec<Label>,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            news: true,
            looked_at: Time(0),
            weight: 0,
            next: None,
            forget_at: Some(Time(0)),
            judged_at: None,
            burning: Vec::new(),
            holding: Vec::new(),
        }
    }
}

impl Watch {
    /// An event is being written: what follows from it is looked at.
    pub(crate) fn note(&mut self, r: &Record, before: &State) {
        match &r.event {
            Event::FindingOpened { .. }
            | Event::FindingChanged { .. }
            | Event::FindingClosed { .. }
            | Event::IncidentOpened { .. }
            | Event::IncidentGrew { .. }
            | Event::IncidentClosed { .. }
            | Event::RemediationChosen { .. }
            | Event::RemediationStepped { .. }
            | Event::RemediationApproved { .. }
            | Event::RemediationEnded { .. }
            | Event::AutomationStopped { .. }
            | Event::AutomationResumed { .. }
            | Event::NodeMarked { .. }
            | Event::NodeStaged { .. }
            | Event::NodeReady { .. }
            | Event::NodeLost { .. }
            | Event::NodeBack { .. }
            | Event::NodeCordoned { .. }
            | Event::NodeUncordoned { .. }
            | Event::NodeRetired { .. }
            | Event::NodeReconciled { .. }
            | Event::OrphanGone { .. }
            | Event::QualificationAsked { .. }
            | Event::QualificationEnded { .. }
            | Event::QualificationCancelled { .. }
            | Event::BreakerSet { .. }
            | Event::PolicySet { .. }
            | Event::TopologySet { .. }
            | Event::RoutingSet { .. }
            | Event::SilenceSet { .. }
            | Event::SilenceEnded { .. }
            | Event::ConditionReported { .. }
            | Event::ConditionOver { .. }
            | Event::CertificateSeen { .. }
            | Event::AlertAcknowledged { .. }
            | Event::AlertEscalated { .. } => self.news = true,
            // One may be over now.
            Event::AlertOpened { .. }
            | Event::AlertChanged { .. }
            | Event::AlertClosed { .. }
            | Event::AlertsForgotten { .. } => self.forget_at = Some(Time(0)),
            // Judged anew at once: the objectives have changed.
            Event::ObjectivesSet { .. } => {
                self.news = true;
                self.judged_at = None;
            }
            // Work on a spare, or no longer: jobs come and go all the time, so only these are looked for.
            event if !before.index.spares.is_empty() => {
                self.news |= on_spare(event, before);
            }
            _ => {}
        }
    }
}

/// Does an event put work on a spare, or end some there?
fn on_spare(event: &Event, before: &State) -> bool {
    let spare = |n: &NodeName| before.index.spares.contains(n);
    match event {
        Event::JobPlaced { placement, .. } => placement.slots.iter().any(|s| spare(&s.node)),
        Event::SlotEnded { node, .. } => spare(node),
        Event::AttemptEnded { key, .. } => {
            let ended = before.jobs.get(&key.job).and_then(|j| j.attempt.as_ref());
            ended.is_some_and(|a| a.placement.slots.iter().any(|s| spare(&s.node)))
        }
        _ => false,
    }
}
