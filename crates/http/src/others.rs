//! What a reader may know of the jobs and reservations of other projects that theirs make room for.

use super::App;
use muster_api::Job;
use muster_model::event::Event;
use muster_model::job::StopReason;
use muster_model::names::ProjectName;

/// Why an attempt is stopped, for whoever is bound to this project, as a reason and in words; none
/// where it names nothing of others.
fn reason_for(
    app: &App,
    bound: Option<&ProjectName>,
    reason: &StopReason,
) -> Option<(StopReason, String)> {
    let own = bound?;
    let is_own = match (reason.preempted_for(), reason.reservation()) {
        (Some(other), _) => app.brain().read(|s| s.jobs.get(&other).map(|j| j.project == *own)),
        (None, Some(name)) => app.brain().read(|s| s.may_name_reservation(name, own)),
        (None, None) => return None,
    };
    visible_reason(reason, is_own)
}

/// The same by whether the other job is one's own, or the reservation is one to know, which is not
/// known once it is forgotten.
fn visible_reason(reason: &StopReason, is_own: Option<bool>) -> Option<(StopReason, String)> {
    let unnamed = reason.unnamed();
    let words = unnamed.to_string();
    match is_own {
        Some(true) => None,
        Some(false) => {
            let words = words.replace("another job", "a job of another project");
            let words =
                words.replace("a reservation begins", "a reservation of another project begins");
            Some((unnamed, words))
        }
        None => Some((unnamed, words)),
    }
}

fn hide_reason(
    app: &App,
    bound: Option<&ProjectName>,
    reason: &mut StopReason,
    message: &mut String,
) {
    if let Some((unnamed, words)) = reason_for(app, bound, reason) {
        *message = message.replace(&reason.to_string(), &words);
        *reason = unnamed;
    }
}

/// Takes the numbers of others' jobs, and the names of their reservations, out of a job.
pub(crate) fn hide(app: &App, bound: Option<&ProjectName>, job: &mut Job) {
    let Some(a) = &mut job.attempt else { return };
    if let Some(stop) = &mut a.stop {
        if let Some((_, words)) = reason_for(app, bound, &stop.reason) {
            job.reason = Some(words);
        }
        hide_reason(app, bound, &mut stop.reason, &mut stop.message);
    }
    if let Some(notice) = &mut a.notice {
        hide_reason(app, bound, &mut notice.reason, &mut notice.message);
    }
}

/// The event without the numbers of others' jobs and the names of their reservations; none where it
/// has none.
pub(crate) fn hidden(app: &App, bound: Option<&ProjectName>, event: &Event) -> Option<Event> {
    let (Event::StopOrdered { reason, .. } | Event::NoticeGiven { reason, .. }) = event else {
        return None;
    };
    let (unnamed, _) = reason_for(app, bound, reason)?;
    let mut event = event.clone();
    if let Event::StopOrdered { reason, .. } | Event::NoticeGiven { reason, .. } = &mut event {
        *reason = unnamed;
    }
    Some(event)
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::JobId;
    use muster_model::job::Rank;

    #[test]
    fn a_job_that_is_forgotten_is_not_said_to_be_of_another_project() {
        let reason = StopReason::Preempted { by: Some(JobId(7)), rank: Rank::Spot };
        let words = |is_own| visible_reason(&reason, is_own).map(|(_, words)| words);
        assert_eq!(words(Some(true)), None);
        let theirs = "spot work, evicted for a job of another project";
        assert_eq!(words(Some(false)).as_deref(), Some(theirs));
        assert_eq!(words(None).as_deref(), Some("spot work, evicted for another job"));
    }

    #[test]
    fn a_reservation_of_another_project_is_not_named() {
        let reason = StopReason::ReservationBegins { name: Some("merger".parse().unwrap()) };
        let seen = |may_name| visible_reason(&reason, may_name);
        let unnamed =
            |words: &str| (StopReason::ReservationBegins { name: None }, words.to_owned());
        assert_eq!(seen(Some(true)), None);
        let theirs = unnamed("a reservation of another project begins");
        assert_eq!(seen(Some(false)), Some(theirs));
        // One that is deleted may have been anybody's.
        assert_eq!(seen(None), Some(unnamed("a reservation begins")));
    }
}
