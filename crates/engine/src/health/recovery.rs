//! How long the way back from a fault took, and where the time went.

use crate::state::HealthState;
use muster_model::job::{Job, Recovery, SlotEnd, StopReason};
use muster_model::units::{Span, Time};

/// Nodes that are remembered as having become unhealthy under a job.
const UNHEALTHY_NODES_KEPT: usize = 16;

/// When a fault happened, when it was found, and under which number.
pub(crate) type FaultBehind = Option<(Time, Time, u64)>;

impl HealthState {
    /// The fault behind a stop, where a finding names it.
    pub(crate) fn fault_behind(&self, reason: &StopReason) -> FaultBehind {
        let (StopReason::Unhealthy { finding, .. } | StopReason::Hung { finding }) = reason else {
            return None;
        };
        self.fault_of(*finding)
    }

    /// The fault that a finding reports.
    pub(crate) fn fault_of(&self, finding: u64) -> FaultBehind {
        let f = self.findings.get(&finding)?;
        Some((f.seen.first_seen.min(f.opened_at), f.opened_at, f.id))
    }
}

/// A way back that begins. What was wrong before the attempt was placed did not hit it yet.
fn begun(
    attempt: u32,
    placed_at: Time,
    (fault_at, found_at): (Time, Time),
    finding: Option<u64>,
    at: Time,
) -> Recovery {
    let fault_at = fault_at.max(placed_at).min(at);
    Recovery {
        attempt,
        finding,
        fault_at,
        found_at: found_at.max(fault_at).min(at),
        decided_at: at,
        drained_at: None,
        placed_at: None,
        started_at: None,
        working_at: None,
        held: None,
    }
}

/// A way back begins. What is over is kept: it may turn out that the job recovers from nothing now.
fn begin(j: &mut Job, new: Recovery) {
    let over = j.recovery.filter(|r| r.started_at.is_some());
    j.recovered = over.or(j.recovered);
    j.recovery = Some(new);
}

/// The job comes back from nothing: of its ways back that count which is over.
pub(crate) fn recovery_given_up(j: &mut Job) {
    if j.recovery.is_none_or(|r| r.started_at.is_none()) {
        j.recovery = j.recovered.take();
    }
}

/// The heartbeat of a node under the job is lost: the way back of what runs there begins when it was
/// last heard, not when that was noticed. The order to stop follows in the same breath.
pub(crate) fn recovery_of_lost(j: &mut Job, last_seen: Time, at: Time) {
    let Some(a) = j.attempt.as_ref().filter(|a| a.stop.is_none()) else { return };
    let new = begun(a.no, a.placed_at, (last_seen, at), None, at);
    begin(j, new);
}

/// The cause of an attempt's end became known: it may have begun before the attempt was stopped.
pub(crate) fn recovery_explained(j: &mut Job, attempt: u32, fault: FaultBehind) {
    let Some((fault_at, found_at, finding)) = fault else { return };
    let Some(placed_at) = j.past.iter().find(|p| p.no == attempt).map(|p| p.placed_at) else {
        return;
    };
    if let Some(r) = j.recovery.as_mut().filter(|r| r.attempt == attempt && r.finding.is_none()) {
        r.finding = Some(finding);
        r.fault_at = fault_at.max(placed_at).min(r.fault_at);
        r.found_at = found_at.max(r.fault_at).min(r.found_at);
    }
}

/// An attempt was ordered to stop: from here on the way back is measured, where hardware may be
/// the cause.
pub(crate) fn recovery_begins(
    j: &mut Job,
    attempt: u32,
    reason: &StopReason,
    fault: FaultBehind,
    at: Time,
) {
    if let StopReason::Unhealthy { node, .. } | StopReason::NodeLost { node } = reason
        && !j.unhealthy_nodes.contains(node)
    {
        if j.unhealthy_nodes.len() >= UNHEALTHY_NODES_KEPT {
            j.unhealthy_nodes.remove(0);
        }
        j.unhealthy_nodes.push(node.clone());
    }
    let counts = match reason {
        StopReason::Unhealthy { .. } | StopReason::Hung { .. } | StopReason::NodeLost { .. } => {
            true
        }
        StopReason::SlotFailed { end, .. } => {
            matches!(end, SlotEnd::NodeFault { .. } | SlotEnd::Failed { .. })
        }
        _ => false,
    };
    let known = j.recovery.as_ref().is_some_and(|r| r.attempt == attempt);
    if !counts || (known && fault.is_none()) {
        return;
    }
    // A rank may have ended a while before a server heard of it.
    let failed = matches!(reason, StopReason::SlotFailed { .. });
    let ended = j.attempt.as_ref().filter(|_| failed).and_then(|a| a.last_end);
    let own = (ended.map_or(at, |t| t.min(at)), at, None);
    let (fault_at, found_at, finding) =
        fault.map_or(own, |(fault, found, id)| (fault, found, Some(id)));
    let placed_at = j.attempt.as_ref().map_or(fault_at, |a| a.placed_at);
    begin(j, begun(attempt, placed_at, (fault_at, found_at), finding, at));
}

/// The next attempt was placed. What was the job's own doing is no recovery, and one that ended with
/// an attempt before this one stays as it was.
pub(crate) fn recovery_placed(j: &mut Job, at: Time) {
    if j.recovery.as_ref().is_some_and(|r| r.started_at.is_some()) {
        return;
    }
    if j.past.last().is_some_and(|p| !p.verdict.is_interruption()) {
        recovery_given_up(j);
        return;
    }
    if let Some(r) = &mut j.recovery {
        r.placed_at = Some(at);
    }
}

/// A hold ends. Where a person held the job while it was to resume, that time is no part of its
/// recovery.
pub(crate) fn recovery_released(j: &mut Job, at: Time) {
    let Some(since) = j.held_since() else { return };
    if let Some(r) = j.recovery.as_mut().filter(|r| r.started_at.is_none()) {
        let from = since.max(r.drained_at.unwrap_or(r.decided_at));
        let before = r.held.unwrap_or_default();
        r.held = Some(Span(before.0.saturating_add(at.since(from).0)));
    }
}
