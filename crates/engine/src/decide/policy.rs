//! Commands about the policy, the quotas and the reservations.

use crate::lookup::no_project;
use crate::{Engine, State};
use muster_model::command::{Answer, Refusal, RefusalCode};
use muster_model::event::Event;
use muster_model::ids::AttemptKey;
use muster_model::job::StopReason;
use muster_model::names::{Label, NodeName};
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::Reservation;
use muster_model::units::Time;
use std::sync::Arc;

pub(super) fn set_policy(e: &mut Engine, policy: &Arc<SitePolicy>) -> Result<Answer, Refusal> {
    policy.check()?;
    if *e.state.policy != **policy {
        e.emit(None, Event::PolicySet { policy: policy.clone() });
        e.possible.clear();
    }
    Ok(Answer::Done)
}

pub(super) fn set_quotas(e: &mut Engine, quotas: &Arc<Quotas>) -> Result<Answer, Refusal> {
    e.state.check_quotas(quotas)?;
    if *e.state.quotas != **quotas {
        e.emit(None, Event::QuotasSet { quotas: quotas.clone() });
    }
    Ok(Answer::Done)
}

impl State {
    /// Could this tree be set now?
    ///
    /// # Errors
    /// What is wrong with it, or which project of it there is not.
    pub fn check_quotas(&self, quotas: &Quotas) -> Result<(), Refusal> {
        quotas.check()?;
        for (i, q) in quotas.tree.iter().enumerate() {
            if let Some(p) = q.projects.iter().find(|p| !self.projects.contains_key(*p)) {
                return Err(no_project(self, p).field(format!("tree[{i}].projects")));
            }
        }
        Ok(())
    }
}

pub(super) fn set_reservation(
    e: &mut Engine,
    reservation: &Arc<Reservation>,
) -> Result<Answer, Refusal> {
    // What stays as it is keeps its nodes, whether or not it could be made now.
    let booked = e.state.reservations.get(&reservation.name);
    if booked.is_none_or(|b| b.reservation != *reservation) {
        let nodes = e.state.plan_reservation(reservation, e.state.now)?;
        e.emit(None, Event::ReservationSet { reservation: reservation.clone(), nodes });
    }
    Ok(Answer::Done)
}

pub(super) fn delete_reservation(e: &mut Engine, name: &Label) -> Result<Answer, Refusal> {
    if !e.state.reservations.contains_key(name) {
        return Err(Refusal::new(RefusalCode::NotFound, format!("there is no reservation {name}"))
            .hint("`muster reservation` lists them"));
    }
    e.emit(None, Event::ReservationDeleted { name: name.clone() });
    Ok(Answer::Done)
}

/// An agent saw GPUs that do nothing, or something again. Warned and then ended as the policy
/// says; agents repeat the report while it lasts.
pub(super) fn idle(
    e: &mut Engine,
    node: &NodeName,
    key: AttemptKey,
    since: Option<Time>,
) -> Answer {
    let policy = e.state.policy.idle.clone();
    let (Some(since), Some(warn)) = (since, policy.warn_after) else { return Answer::Done };
    let Some(job) = e.state.jobs.get(&key.job).cloned() else { return Answer::Done };
    let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt && a.stop.is_none()) else {
        return Answer::Done;
    };
    let here = a.placement.slots.iter().any(|s| s.node == *node);
    // A gang works together: its first node speaks for it.
    let speaks = a.placement.slots.first().is_some_and(|s| s.node == *node);
    if !here || !speaks {
        return Answer::Done;
    }
    let since = since.max(a.started_at.unwrap_or(e.state.now));
    let idle = e.state.now.since(since);
    let warned = job.idle_warned.is_some_and(|t| t >= since);
    if !warned && idle >= warn {
        e.emit(Some(&job.project), Event::IdleWarned { job: job.id, idle });
    } else if warned && policy.end_after.is_some_and(|end| idle >= end) {
        e.order_stop(&job, StopReason::Idle { idle }, None);
        e.conclude_job(job.id);
    }
    Answer::Done
}
