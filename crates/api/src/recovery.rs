//! How a job came back after a failure of hardware.

use crate::Timestamp;
use muster_model::job as m;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};

/// How long it took from a fault until the work resumed, and where the time went. What has not
/// happened yet is null.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Recovery {
    /// The attempt that was interrupted.
    pub attempt: u32,
    /// The finding, where there is one.
    pub finding: Option<String>,
    /// When the fault happened, as far as is known.
    pub fault_at: Timestamp,
    /// When it was found.
    pub found_at: Timestamp,
    /// When the attempt was ordered to stop.
    pub decided_at: Timestamp,
    /// When its last rank was gone.
    pub drained_at: Option<Timestamp>,
    /// When the next attempt was placed.
    pub placed_at: Option<Timestamp>,
    /// When all its ranks were up.
    pub started_at: Option<Timestamp>,
    /// When it made its first step.
    pub working_at: Option<Timestamp>,
    /// From the fault until it was found, in milliseconds.
    pub detect_ms: u64,
    /// From there until the attempt was ordered to stop.
    pub decide_ms: u64,
    /// From there until its last rank was gone.
    pub drain_ms: Option<u64>,
    /// From there until the next attempt was placed, without the time in which a person held it.
    pub place_ms: Option<u64>,
    /// From there until all its ranks were up.
    pub start_ms: Option<u64>,
    /// From there until its first step.
    pub load_ms: Option<u64>,
    /// How long a person held the job before its next attempt was placed. It is in no other part.
    pub held_ms: Option<u64>,
    /// From the fault until the last moment that is known, without the time in which a person held
    /// the job.
    pub total_ms: u64,
}

impl Recovery {
    /// The last recovery of a job. What the job did itself is none, and one that ended before it
    /// was placed again did not come back.
    #[must_use]
    pub fn of_job(job: &m::Job) -> Option<Recovery> {
        let counts = |r: &&m::Recovery| {
            let hit = job.past.iter().find(|p| p.no == r.attempt);
            let own = hit.is_some_and(|p| !p.verdict.is_interruption());
            let over = job.state.is_final() && r.placed_at.is_none();
            !own && !over && !failed_by_itself(job, r)
        };
        job.recovery.iter().chain(&job.recovered).find(counts).map(Recovery::of)
    }

    /// The recovery as the API shows it.
    #[must_use]
    pub fn of(recovery: &m::Recovery) -> Recovery {
        let m::Recovery {
            attempt,
            finding,
            fault_at,
            found_at,
            decided_at,
            drained_at,
            placed_at,
            started_at,
            working_at,
            held,
        } = recovery;
        // Clocks of nodes may be ahead: a part never counts below zero.
        let ms = |from: Time, to: Time| u64::try_from(to.0.saturating_sub(from.0)).unwrap_or(0);
        let part = |from: Option<Time>, to: Option<Time>| Some(ms(from?, to?));
        Recovery {
            attempt: *attempt,
            finding: finding.map(|f| f.to_string()),
            fault_at: (*fault_at).into(),
            found_at: (*found_at).into(),
            decided_at: (*decided_at).into(),
            drained_at: drained_at.map(Into::into),
            placed_at: placed_at.map(Into::into),
            started_at: started_at.map(Into::into),
            working_at: working_at.map(Into::into),
            detect_ms: ms(*fault_at, *found_at),
            decide_ms: ms(*found_at, *decided_at),
            drain_ms: part(Some(*decided_at), *drained_at),
            place_ms: recovery.placing().map(|s| s.0),
            start_ms: part(*placed_at, *started_at),
            load_ms: part(*started_at, *working_at),
            held_ms: held.map(|s| s.0),
            total_ms: recovery.total().0,
        }
    }

    /// The parts that are known, in order: what took how many milliseconds.
    #[must_use]
    pub fn parts(&self) -> Vec<(&'static str, u64)> {
        [
            ("detect", Some(self.detect_ms)),
            ("decide", Some(self.decide_ms)),
            ("drain", self.drain_ms),
            ("place", self.place_ms),
            ("start", self.start_ms),
            ("load", self.load_ms),
        ]
        .into_iter()
        .filter_map(|(name, ms)| Some((name, ms?)))
        .collect()
    }
}

/// Is it of the attempt that is being stopped because a rank failed, while nothing is found that
/// caused it? That is the program's own failure, as far as is known.
fn failed_by_itself(job: &m::Job, r: &m::Recovery) -> bool {
    let stops = job.attempt.as_ref().filter(|a| a.no == r.attempt).and_then(|a| a.stop.as_ref());
    let failed = stops.is_some_and(|s| {
        matches!(s.reason, m::StopReason::SlotFailed { end: m::SlotEnd::Failed { .. }, .. })
    });
    failed && r.finding.is_none()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parts_add_up_to_the_whole() {
        let mut r = m::Recovery {
            attempt: 1,
            finding: Some(7),
            fault_at: Time(1_000),
            found_at: Time(1_250),
            decided_at: Time(1_300),
            drained_at: None,
            placed_at: None,
            started_at: None,
            working_at: None,
            held: None,
        };
        let shown = Recovery::of(&r);
        assert_eq!((shown.total_ms, shown.drain_ms), (300, None));
        r.drained_at = Some(Time(4_000));
        r.placed_at = Some(Time(4_100));
        r.started_at = Some(Time(9_000));
        r.working_at = Some(Time(21_000));
        let shown = Recovery::of(&r);
        assert_eq!(shown.parts().iter().map(|(_, ms)| ms).sum::<u64>(), shown.total_ms);
        assert_eq!(shown.parts().last(), Some(&("load", 12_000)));
        assert_eq!((shown.place_ms, shown.held_ms), (Some(100), None));
        // A person held it for an hour before it was placed.
        let hour = 3_600_000;
        r.held = Some(muster_model::units::Span::hours(1));
        for at in [&mut r.placed_at, &mut r.started_at, &mut r.working_at] {
            *at = at.map(|t| t + muster_model::units::Span::hours(1));
        }
        let held = Recovery::of(&r);
        assert_eq!((held.held_ms, held.place_ms), (Some(hour), Some(100)));
        assert_eq!((held.parts(), held.total_ms), (shown.parts(), shown.total_ms));
        // Released, and not placed yet.
        let waits = m::Recovery { placed_at: None, started_at: None, working_at: None, ..r };
        assert_eq!((Recovery::of(&waits).total_ms, Recovery::of(&waits).place_ms), (3_000, None));
        // A node whose clock is ahead.
        r.fault_at = Time(5_000);
        assert_eq!(Recovery::of(&r).detect_ms, 0);
    }
}
