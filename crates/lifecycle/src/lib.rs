//! Where each node stands, which steps are allowed, and how it is brought back.
//!
//! - [`step`]: the stages of a node's life and the ways between them.
//! - [`steps`]: which remediation a finding calls for.
//! - [`groups`]: what the limits count; [`limits`]: how much automation may take out of service.
//! - [`remediation`]: what a remediation does next.
//!
//! Reachability, cordon, role, test and probation are axes of their own: a node can be ready,
//! unreachable and cordoned at once. No clock, no I/O: what is known comes in, what is to be done
//! goes out.

#![forbid(unsafe_code)]

pub mod groups;
pub mod limits;
pub mod remediation;
pub mod steps;

use muster_model::node::{Node, Stage};
use muster_model::units::Span;

/// A step somebody wants a node to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Into service.
    Serve,
    /// Let what runs leave, take nothing new.
    Drain,
    /// Nothing runs there any more.
    Empty,
    /// Something was found there: no new work.
    Suspect,
    /// Out of service until it is decided what is done.
    Quarantine,
    /// Something is done to it.
    Repair,
    /// Back into service, after a test or by an operator's word.
    Return,
    /// Gone for good.
    Retire,
}

/// A step that may not be taken from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node} is {stage}: {why}")]
pub struct StepError {
    /// The node's name.
    pub node: String,
    /// Its stage.
    pub stage: &'static str,
    /// Why the step is refused, for people.
    pub why: &'static str,
}

/// The word for a stage.
#[must_use]
pub fn stage_label(stage: Stage) -> &'static str {
    match stage {
        Stage::Enrolled => "enrolled",
        Stage::Ready => "ready",
        Stage::Draining => "draining",
        Stage::Drained => "drained",
        Stage::Suspect => "suspect",
        Stage::Quarantined => "quarantined",
        Stage::Repairing => "repairing",
        Stage::Retired => "retired",
    }
}

/// Where the step leads, or why it may not be taken. `None`: it is there already.
///
/// # Errors
/// [`StepError`] when the step is not allowed from the node's stage.
pub fn step(node: &Node, step: Step) -> Result<Option<Stage>, StepError> {
    // One in service is called what lists call it: a cordoned node is not called ready.
    let stage = match node.stage {
        Stage::Ready => shown_state(node),
        other => stage_label(other),
    };
    let fail = |why| Err(StepError { node: node.name.to_string(), stage, why });
    match (step, node.stage) {
        (_, Stage::Retired) => fail(
            "a retired node takes no further step; enrol it anew: `muster token create --join \
             NAME` makes a token for `muster agent`",
        ),
        (Step::Serve, Stage::Ready) => Ok(None),
        (Step::Serve, Stage::Suspect | Stage::Quarantined | Stage::Repairing) => fail(
            "a finding took it out of service; `muster node repaired` has it tested and returned",
        ),
        (Step::Serve, _) => Ok(Some(Stage::Ready)),
        (Step::Drain, Stage::Draining | Stage::Drained) => Ok(None),
        (Step::Drain, Stage::Quarantined | Stage::Repairing) => {
            fail("it is out of service already; nothing runs there")
        }
        (Step::Drain, _) => Ok(Some(Stage::Draining)),
        (Step::Suspect, Stage::Ready) => Ok(Some(Stage::Suspect)),
        (Step::Suspect, _) => Ok(None),
        (Step::Quarantine, Stage::Enrolled) => fail("it has not joined yet"),
        (Step::Quarantine, Stage::Quarantined) => Ok(None),
        (Step::Quarantine, _) => Ok(Some(Stage::Quarantined)),
        (Step::Repair, Stage::Repairing) => Ok(None),
        (Step::Repair, Stage::Quarantined | Stage::Drained) => Ok(Some(Stage::Repairing)),
        (Step::Repair, _) => fail("work may run there; it is drained first"),
        (Step::Return, Stage::Ready) => Ok(None),
        (Step::Return, _) => Ok(Some(Stage::Ready)),
        (Step::Empty, Stage::Draining) => Ok(Some(Stage::Drained)),
        (Step::Empty, _) => Ok(None),
        (
            Step::Retire,
            Stage::Drained | Stage::Enrolled | Stage::Quarantined | Stage::Repairing,
        ) => Ok(Some(Stage::Retired)),
        (Step::Retire, _) if !node.reachable => Ok(Some(Stage::Retired)),
        (Step::Retire, Stage::Draining) => fail(
            "work is still leaving it; wait until it is drained, or stop the work with `muster \
                  node drain NODE --stop`",
        ),
        (Step::Retire, _) => fail("it is in service; drain it first"),
    }
}

/// The state a node is in, in the words of its life: one for all axes.
#[must_use]
pub fn state(node: &Node) -> &'static str {
    let full = |q: muster_model::qualification::Qualifying| {
        q.level == muster_model::qualification::Level::Full && node.generation <= 1
    };
    match (node.stage, node.qualifying) {
        (Stage::Ready | Stage::Drained | Stage::Quarantined | Stage::Repairing, Some(q)) => {
            if full(q) { "burn-in" } else { "qualifying" }
        }
        (stage, _) => stage_label(stage),
    }
}

/// The same, and `cordoned` where a node in service takes no new work: as lists of nodes say it.
#[must_use]
pub fn shown_state(node: &Node) -> &'static str {
    match node.stage {
        Stage::Ready if node.cordon.is_some() && node.qualifying.is_none() => "cordoned",
        _ => state(node),
    }
}

/// How long a node may stand in a stage before somebody is notified; none: for ever.
#[must_use]
pub fn time_limit(stage: Stage) -> Option<Span> {
    match stage {
        // Findings settle within minutes, or nobody is settling them.
        Stage::Suspect => Some(Span::mins(30)),
        Stage::Draining => Some(Span::hours(26)),
        Stage::Quarantined => Some(Span::hours(24)),
        Stage::Repairing => Some(Span::hours(7 * 24)),
        Stage::Enrolled | Stage::Ready | Stage::Drained | Stage::Retired => None,
    }
}
