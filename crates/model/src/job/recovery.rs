//! How long a job took to resume after a failure of hardware.

use super::{Job, SlotEnd, StopReason, Verdict};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// How long it took from a fault until the work resumed, and where the time went.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recovery {
    /// The attempt that was interrupted.
    pub attempt: u32,
    /// The finding, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub finding: Option<u64>,
    /// When the fault happened, as far as is known.
    pub fault_at: Time,
    /// When it was found.
    pub found_at: Time,
    /// When the attempt was ordered to stop.
    pub decided_at: Time,
    /// When its last rank was gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drained_at: Option<Time>,
    /// When the next attempt was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub placed_at: Option<Time>,
    /// When all its ranks were up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub started_at: Option<Time>,
    /// When it made its first step.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub working_at: Option<Time>,
    /// How long a person held the job before its next attempt: no part of the recovery.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Span>,
}

impl Job {
    /// Its recovery from an attempt, where that is still kept.
    #[must_use]
    pub fn recovery_from(&self, attempt: u32) -> Option<&Recovery> {
        self.recovery.iter().chain(&self.recovered).find(|r| r.attempt == attempt)
    }

    /// Its recoveries that are over and that hardware made necessary, as far as is known now: a verdict may
    /// change after the job runs again.
    pub fn recoveries_from_hardware(&self) -> impl Iterator<Item = &Recovery> {
        let kept = self.recovery.iter().chain(&self.recovered);
        kept.filter(move |r| r.started_at.is_some() && r.is_from_hardware(self))
    }
}

impl Recovery {
    /// Did hardware fail the attempt of this job, as far as is known? Only such a recovery counts in
    /// what is counted about hardware, by the verdict as it is now. While nothing is found that made a rank
    /// fail, hardware did not; of an attempt that is not kept any more nobody knows.
    #[must_use]
    pub fn is_from_hardware(&self, job: &Job) -> bool {
        if let Some(p) = job.past.iter().find(|p| p.no == self.attempt) {
            return p.verdict == Verdict::Infrastructure;
        }
        if job.past.first().is_some_and(|p| p.no > self.attempt) {
            return false;
        }
        let active = job.attempt.as_ref().filter(|a| a.no == self.attempt);
        match active.and_then(|a| a.stop.as_ref()).map(|stop| &stop.reason) {
            Some(StopReason::SlotFailed { end: SlotEnd::Failed { .. }, .. }) => {
                self.finding.is_some()
            }
            Some(StopReason::SlotFailed { end, .. }) => !end.is_by_platform(),
            _ => true,
        }
    }

    /// From here on its time counts: the fault, moved by the time in which a person held the job.
    #[must_use]
    pub fn counts_from(&self) -> Time {
        self.fault_at + self.held.unwrap_or_default()
    }

    /// From the end of the last rank until the next attempt was placed, without the time in which a
    /// person held the job.
    #[must_use]
    pub fn placing(&self) -> Option<Span> {
        let waited = self.placed_at?.since(self.drained_at?);
        Some(Span(waited.0.saturating_sub(self.held.unwrap_or_default().0)))
    }

    /// From the fault until the last moment that is known, without the time in which a person held
    /// the job.
    #[must_use]
    pub fn total(&self) -> Span {
        let resumed = self.working_at.or(self.started_at).or(self.placed_at);
        match resumed {
            Some(at) => at.since(self.counts_from()),
            // A hold comes after the last rank: none of it is in here.
            None => self.drained_at.unwrap_or(self.decided_at).since(self.fault_at),
        }
    }
}
