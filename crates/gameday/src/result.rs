//! What a drill showed, and whether that was right.

use super::scene::{Expect, ExpectedRemediation};
use muster_model::units::Time;
use serde::Serialize;
use std::collections::BTreeSet;
use std::fmt::Write as _;

/// The result of a drill.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Outcome {
    pub(crate) name: String,
    /// From the blow until it was found.
    pub(crate) detected_ms: Option<u64>,
    /// Whose doing it was said to be.
    pub(crate) verdict: Option<String>,
    pub(crate) verdict_right: bool,
    /// What was done, and how far it got.
    pub(crate) remediation: Option<String>,
    pub(crate) remediation_right: bool,
    /// From the blow until work went on, where it had stopped.
    pub(crate) recovered_ms: Option<u64>,
    /// Work that was done for nothing or not at all, by the server's clock.
    pub(crate) lost_gpu_seconds: f64,
    /// Nodes that were well and were taken out of service.
    pub(crate) healthy_drained: u32,
    pub(crate) passed: bool,
    /// What was wrong, for people.
    #[serde(skip)]
    pub(crate) why: String,
}

impl Outcome {
    /// A drill that could not be played.
    pub(crate) fn broken(name: &str, why: String) -> Outcome {
        Outcome {
            name: name.to_owned(),
            detected_ms: None,
            verdict: None,
            verdict_right: false,
            remediation: None,
            remediation_right: false,
            recovered_ms: None,
            lost_gpu_seconds: 0.0,
            healthy_drained: 0,
            passed: false,
            why,
        }
    }
}

/// What was seen so far.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "each is one thing that was seen or not")]
pub(crate) struct DrillObservation {
    pub(crate) detected_ms: Option<u64>,
    /// The kind of thing that the finding is attributed to.
    pub(crate) attributed_to: Option<String>,
    /// The right failure mode was found on this instead.
    pub(crate) elsewhere: Option<String>,
    /// The verdict on the attempt that was hit.
    pub(crate) verdict: Option<String>,
    /// The remediation that was wanted, as far as it got.
    pub(crate) remediation: Option<String>,
    /// It got as far as it should.
    pub(crate) remediated: bool,
    /// The last remediation that took a node.
    pub(crate) acted: Option<String>,
    /// Failure mode and node it was chosen for, for people.
    pub(crate) acted_for: String,
    pub(crate) stopped: bool,
    pub(crate) drained: BTreeSet<String>,
    pub(crate) saved_at: Option<Time>,
    pub(crate) saved_step: Option<u64>,
    /// The next attempt did not go on from the checkpoint.
    pub(crate) anew: bool,
    pub(crate) recovered_ms: Option<u64>,
    pub(crate) lost_gpu_ms: u64,
    pub(crate) ended: bool,
    pub(crate) held: bool,
    /// The attempt of the beginning goes on.
    pub(crate) same: bool,
    pub(crate) on_spare: bool,
}

/// Verdicts on attempts; all other words name what is named as the cause.
const ON_ATTEMPTS: [&str; 7] =
    ["application", "infrastructure", "platform", "unknown", "scheduler", "operator", "success"];

/// Nodes that automation may take within an hour however small the fleet is.
const LIMIT: usize = 2;

impl DrillObservation {
    fn verdict(&self, expect: &Expect) -> Option<&String> {
        let on_attempt = ON_ATTEMPTS.contains(&expect.verdict);
        if on_attempt { self.verdict.as_ref() } else { self.attributed_to.as_ref() }
    }

    fn verdict_right(&self, expect: &Expect) -> bool {
        if expect.verdict == "none" {
            return self.verdict.is_none() && self.attributed_to.is_none();
        }
        self.verdict(expect).is_some_and(|v| v == expect.verdict)
    }

    fn remediation_right(&self, expect: &Expect) -> bool {
        match expect.remediation {
            ExpectedRemediation::Untouched | ExpectedRemediation::Watched => self.acted.is_none(),
            ExpectedRemediation::Reaches(..)
            | ExpectedRemediation::Approved(_)
            | ExpectedRemediation::Repaired(_) => self.remediated,
            ExpectedRemediation::Stopped => self.stopped,
        }
    }

    /// Has all that must happen happened?
    pub(crate) fn complete(&self, expect: &Expect) -> bool {
        (expect.kind.is_none() || self.detected_ms.is_some())
            && self.verdict_right(expect)
            && self.remediation_right(expect)
            && expect.job.is_so(self)
    }

    pub(crate) fn outcome(&self, name: &str, expect: &Expect) -> Outcome {
        let (verdict_right, remediation_right) =
            (self.verdict_right(expect), self.remediation_right(expect));
        let remediation = match expect.remediation {
            ExpectedRemediation::Stopped if self.stopped => {
                Some("blocked: automation stopped itself".to_owned())
            }
            _ => self.remediation.clone().or_else(|| self.acted.clone()),
        };
        let mut why: Vec<String> = Vec::new();
        if let (Some(kind), None) = (expect.kind, self.detected_ms) {
            why.push(match &self.elsewhere {
                Some(e) => format!("{kind} was found on {e}"),
                None => format!("{kind} was not found"),
            });
        }
        if !verdict_right {
            let said = self.verdict(expect).map_or("nothing", String::as_str);
            why.push(format!("verdict {said} instead of {}", expect.verdict));
        }
        if !remediation_right {
            let done = remediation.as_deref().unwrap_or("nothing was done");
            let mut said = format!("expected {:?}: {done}", expect.remediation);
            if self.acted.is_some() {
                let _ = write!(said, " for {}", self.acted_for);
            }
            why.push(said);
        }
        if self.anew {
            why.push("the job began anew instead of at its checkpoint".into());
        }
        if !expect.job.is_so(self) {
            why.push(format!("the job: expected {:?}", expect.job));
        }
        // Until automation sees that it is fooled, its limits hold: two nodes of a small fleet.
        let allowed = if expect.remediation == ExpectedRemediation::Stopped { LIMIT } else { 0 };
        if self.drained.len() > allowed {
            let names: Vec<&str> = self.drained.iter().map(String::as_str).collect();
            why.push(format!("healthy nodes out of service: {}", names.join(", ")));
        }
        #[expect(clippy::cast_precision_loss, reason = "far below 2^52")]
        let lost_gpu_seconds = self.lost_gpu_ms as f64 / 1000.0;
        Outcome {
            name: name.to_owned(),
            detected_ms: self.detected_ms,
            verdict: self.verdict(expect).cloned(),
            verdict_right,
            remediation,
            remediation_right,
            recovered_ms: self.recovered_ms,
            lost_gpu_seconds,
            healthy_drained: u32::try_from(self.drained.len()).unwrap_or(u32::MAX),
            passed: why.is_empty(),
            why: why.join("; "),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scene::ExpectedJobOutcome;
    use muster_model::remediation::{Action, RemediationStep};

    fn wanted() -> Expect {
        Expect {
            kind: Some("thermal"),
            about: |_| "gpu:n1/3".into(),
            verdict: "infrastructure",
            remediation: ExpectedRemediation::Reaches(Action::Drain, RemediationStep::Testing),
            job: ExpectedJobOutcome::Again,
        }
    }

    fn good() -> DrillObservation {
        DrillObservation {
            detected_ms: Some(1200),
            attributed_to: Some("gpu".into()),
            verdict: Some("infrastructure".into()),
            remediation: Some("drain: being tested".into()),
            remediated: true,
            recovered_ms: Some(1500),
            lost_gpu_ms: 48_000,
            ..DrillObservation::default()
        }
    }

    #[test]
    fn all_of_it_must_be_right() {
        let o = good().outcome("thermal", &wanted());
        assert!(o.passed && good().complete(&wanted()), "{o:?}");
        assert_eq!((o.lost_gpu_seconds, o.healthy_drained), (48.0, 0));
        let fails = |sight: DrillObservation, word: &str| {
            let o = sight.outcome("thermal", &wanted());
            assert!(!o.passed && o.why.contains(word), "{word}: {o:?}");
        };
        fails(DrillObservation { detected_ms: None, ..good() }, "was not found");
        let elsewhere = Some("gpu:n2/3".into());
        fails(DrillObservation { detected_ms: None, elsewhere, ..good() }, "gpu:n2/3");
        fails(DrillObservation { verdict: Some("application".into()), ..good() }, "application");
        fails(DrillObservation { remediated: false, ..good() }, "expected Reaches");
        fails(DrillObservation { recovered_ms: None, ..good() }, "the job");
        fails(DrillObservation { anew: true, ..good() }, "checkpoint");
        fails(DrillObservation { drained: ["n9".to_owned()].into(), ..good() }, "n9");
    }

    #[test]
    fn where_nothing_may_be_done_anything_is_wrong() {
        let quiet = Expect {
            kind: None,
            verdict: "none",
            remediation: ExpectedRemediation::Untouched,
            job: ExpectedJobOutcome::GoesOn,
            ..wanted()
        };
        let calm = DrillObservation { same: true, ..DrillObservation::default() };
        assert!(calm.outcome("xid45-flood", &quiet).passed);
        let acted = DrillObservation { acted: Some("drain: being tested".into()), ..calm.clone() };
        assert!(!acted.outcome("xid45-flood", &quiet).remediation_right);
        let attributed_to = DrillObservation { attributed_to: Some("gpu".into()), ..calm };
        assert!(!attributed_to.outcome("xid45-flood", &quiet).verdict_right);
    }

    #[test]
    fn a_lying_detector_may_cost_what_the_limits_allow_and_no_more() {
        let storm = Expect {
            kind: Some("detector-storm"),
            verdict: "site",
            remediation: ExpectedRemediation::Stopped,
            job: ExpectedJobOutcome::Any,
            ..wanted()
        };
        let taken = |n: usize| DrillObservation {
            detected_ms: Some(20),
            attributed_to: Some("site".into()),
            stopped: true,
            drained: (0..n).map(|i| format!("n{i}")).collect(),
            ..DrillObservation::default()
        };
        assert!(taken(LIMIT).outcome("poisoned-detector", &storm).passed);
        assert!(!taken(LIMIT + 1).outcome("poisoned-detector", &storm).passed);
    }
}
