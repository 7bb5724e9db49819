//! Steps of machines' wall clocks.

use crate::names::NodeName;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// A difference beyond this is a step; less is what a time service corrects.
pub const STEP_MS: i64 = 2_000;
/// Steps of one clock are reported at most this often. One that comes sooner is part of the next.
pub const STEPS_APART: Span = Span::mins(1);

/// Somebody, or a time service, set the wall clock of a machine.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ClockStep {
    /// The node whose clock it is; none: the machine of the server that leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<NodeName>,
    /// By how many milliseconds; negative: back.
    pub by_ms: i64,
    /// When it was noticed, by the time since that machine started.
    pub since_boot: Span,
    /// What the clock would have said then.
    pub before: Time,
    /// What it said.
    pub after: Time,
}

/// Notices steps of a wall clock by comparing it with the time since the machine started, which
/// nobody can set.
#[derive(Debug, Clone, Default)]
pub struct StepWatch {
    /// Wall clock less time since the start, in milliseconds, as last reported or slowly followed.
    offset: Option<i64>,
    /// When a step was last reported.
    reported: Option<Span>,
}

impl StepWatch {
    /// Looks at both clocks; says when there is a step to be reported.
    pub fn observe_clocks(&mut self, since_boot: Span, wall: Time) -> Option<ClockStep> {
        let offset = wall.0.saturating_sub_unsigned(since_boot.0);
        let known = *self.offset.get_or_insert(offset);
        let by_ms = offset.saturating_sub(known);
        if by_ms.unsigned_abs() <= STEP_MS.unsigned_abs() {
            self.offset = Some(offset);
            return None;
        }
        let soon = |at: Span| since_boot.0.saturating_sub(at.0) < STEPS_APART.0;
        if self.reported.is_some_and(soon) {
            return None;
        }
        (self.offset, self.reported) = (Some(offset), Some(since_boot));
        let before = Time(known.saturating_add_unsigned(since_boot.0));
        Some(ClockStep { node: None, by_ms, since_boot, before, after: wall })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_reported_once_and_at_most_once_a_minute_with_what_they_add_up_to() {
        let mut watch = StepWatch::default();
        let (start, day) = (Time(1_700_000_000_000), 24 * 3_600_000);
        let mut look = |s: u64, by_ms: i64| {
            watch.observe_clocks(Span::secs(s), Time((start + Span::secs(s)).0 + by_ms))
        };
        assert_eq!(look(10, 0), None);
        assert_eq!(look(11, 1_500), None, "a time service corrects as much");
        assert_eq!(look(12, 3_000), None, "from where it was last");
        let step = look(13, 3_000 + day).expect("a day");
        assert_eq!((step.by_ms, step.since_boot), (day, Span::secs(13)));
        assert_eq!(step.after.0 - step.before.0, day);
        assert_eq!(look(14, 3_000 + day), None, "reported");
        assert_eq!(look(15, 3_000), None, "too soon");
        assert_eq!(look(16, 3_000 - day), None, "too soon");
        let both = look(73, 3_000 - day).expect("what both add up to");
        assert_eq!(both.by_ms, -2 * day);
        assert_eq!(look(200, 3_000 - day), None);
    }

    #[test]
    fn no_pair_of_clocks_is_too_far_apart() {
        let mut watch = StepWatch::default();
        for wall in [0, i64::MAX, i64::MIN, 0] {
            watch.observe_clocks(Span(u64::MAX), Time(wall));
            watch.observe_clocks(Span(0), Time(wall));
        }
    }
}
