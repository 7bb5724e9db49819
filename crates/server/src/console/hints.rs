//! Which kinds of events the readers of the console are given as hints.

use super::{Viewer, frame};
use muster_model::alert::Urgency;
use muster_model::{Event, ProjectName, Record};

/// The hint that a record is for this viewer; none where it is about nothing that they may read.
pub(super) fn hint(viewer: &Viewer, r: &Record) -> Option<String> {
    match (viewer, &r.project) {
        (None, _) => Some(frame::kind(&r.event)),
        (Some(own), Some(project)) => (own == project).then(|| frame::kind(&r.event)),
        (Some(own), None) => of_site(own, &r.event).map(str::to_owned),
    }
}

/// What a record of the site is for one project: that something changed which every token reads, and not
/// what it was. Findings, remediations, tokens, runbooks and so on are the site's own business.
fn of_site(own: &ProjectName, event: &Event) -> Option<&'static str> {
    match event {
        Event::NodeEnrolled { .. }
        | Event::NodeBack { .. }
        | Event::NodeInventoried { .. }
        | Event::NodeLost { .. }
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
        | Event::QualificationAsked { .. }
        | Event::QualificationEnded { .. }
        | Event::QualificationCancelled { .. }
        | Event::BreakerSet { .. } => Some("node"),
        // That the operators were paged is in the status of the site, which is read anew with the nodes.
        Event::AlertOpened { alert }
        | Event::AlertChanged { alert }
        | Event::AlertClosed { alert } => (alert.urgency == Urgency::Page).then_some("node"),
        Event::ReservationSet { reservation, .. } => {
            let theirs = reservation.is_maintenance() || reservation.projects.contains(own);
            theirs.then_some("reservation_set")
        }
        // Only its name is in the record. A page that is not read again would show it for ever.
        Event::ReservationDeleted { .. } => Some("reservation_set"),
        Event::TopologySet { .. } => Some("topology_set"),
        // A project reads its part of the quotas. Which of the two was set is not said.
        Event::PolicySet { .. } | Event::QuotasSet { .. } => Some("policy_set"),
        _ => None,
    }
}
