//! What a reader may know of the jobs of other projects that theirs make room for.

use super::App;
use muster_api::Job;
use muster_model::event::Event;
use muster_model::job::StopReason;
use muster_model::names::ProjectName;

/// Why an attempt is stopped, for whoever is bound to this project; none where it names nothing of
/// others.
fn reason_for(app: &App, bound: Option<&ProjectName>, reason: &StopReason) -> Option<StopReason> {
    let (own, other) = (bound?, reason.preempted_for()?);
    let seen = app.brain().read(|s| s.jobs.get(&other).is_some_and(|j| j.project == *own));
    (!seen).then(|| reason.unnamed())
}

fn hide_reason(
    app: &App,
    bound: Option<&ProjectName>,
    reason: &mut StopReason,
    message: &mut String,
) {
    if let Some(unnamed) = reason_for(app, bound, reason) {
        *message = message.replace(&reason.to_string(), &unnamed.to_string());
        *reason = unnamed;
    }
}

/// Takes the numbers of others' jobs out of a job.
pub(crate) fn hide(app: &App, bound: Option<&ProjectName>, job: &mut Job) {
    let Some(a) = &mut job.attempt else { return };
    if let Some(stop) = &mut a.stop {
        hide_reason(app, bound, &mut stop.reason, &mut stop.message);
    }
    if let Some(notice) = &mut a.notice {
        hide_reason(app, bound, &mut notice.reason, &mut notice.message);
    }
}

/// The event without the numbers of others' jobs; none where it has none.
pub(crate) fn hidden(app: &App, bound: Option<&ProjectName>, event: &Event) -> Option<Event> {
    let (Event::StopOrdered { reason, .. } | Event::NoticeGiven { reason, .. }) = event else {
        return None;
    };
    let unnamed = reason_for(app, bound, reason)?;
    let mut event = event.clone();
    if let Event::StopOrdered { reason, .. } | Event::NoticeGiven { reason, .. } = &mut event {
        *reason = unnamed;
    }
    Some(event)
}
