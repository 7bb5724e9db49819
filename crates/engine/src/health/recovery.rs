//! How long the way back from a fault took, and where the time went.

use super::HealthBook;
use muster_model::job::{Job, Recovery, SlotEnd, StopReason, Verdict};
use muster_model::units::Time;

/// Nodes that are remembered as having become sick under a job.
const SICKENED_KEPT: usize = 16;

/// When a fault happened, when it was found, and under which number.
pub(crate) type FaultBehind = Option<(Time, Time, u64)>;

impl HealthBook {
    /// The fault behind a stop, where a finding names it.
    pub(crate) fn fault_behind(&self, reason: &StopReason) -> FaultBehind {
        let (StopReason::Sick { finding, .. } | StopReason::Hung { finding }) = reason else {
            return None;
        };
        let f = self.findings.get(finding)?;
        Some((f.seen.first_seen.min(f.opened_at), f.opened_at, f.id))
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
    if let StopReason::Sick { node, .. } | StopReason::NodeLost { node } = reason
        && !j.sickened.contains(node)
    {
        if j.sickened.len() >= SICKENED_KEPT {
            j.sickened.remove(0);
        }
        j.sickened.push(node.clone());
    }
    let counts = match reason {
        StopReason::Sick { .. } | StopReason::Hung { .. } | StopReason::NodeLost { .. } => true,
        StopReason::SlotFailed { end, .. } => {
            matches!(end, SlotEnd::NodeFault { .. } | SlotEnd::Failed { .. })
        }
        _ => false,
    };
    let known = j.recovery.as_ref().is_some_and(|r| r.attempt == attempt);
    if !counts || (known && fault.is_none()) {
        return;
    }
    let (fault_at, found_at, finding) =
        fault.map_or((at, at, None), |(fault, found, id)| (fault, found, Some(id)));
    j.recovery = Some(Recovery {
        attempt,
        finding,
        fault_at,
        found_at,
        decided_at: at,
        drained_at: None,
        placed_at: None,
        started_at: None,
        working_at: None,
    });
}

/// The next attempt was placed. What was the job's own doing is no recovery.
pub(crate) fn recovery_placed(j: &mut Job, at: Time) {
    let own = j.past.last().is_some_and(|p| {
        !matches!(p.verdict, Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown)
    });
    if own {
        j.recovery = None;
    }
    if let Some(r) = &mut j.recovery {
        r.placed_at = Some(at);
        r.started_at = None;
        r.working_at = None;
    }
}
