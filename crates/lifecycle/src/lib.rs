//! Where each node stands, and which steps are allowed (F3, first part).
//!
//! Only the stage of life is decided here. Reachability and cordon are axes of their own: a node
//! can be ready, unreachable and cordoned at once.

use muster_model::node::{Node, Stage};

/// A step somebody wants a node to take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Step {
    /// Into service.
    Serve,
    /// Let what runs leave, take nothing new.
    Drain,
    /// Nothing runs there any more.
    Empty,
    /// Gone for good.
    Retire,
}

/// A step that may not be taken from here.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("node {node} is {stage}: {why}")]
pub struct StepError {
    /// The node.
    pub node: String,
    /// Where it stands.
    pub stage: &'static str,
    /// Why not.
    pub why: &'static str,
}

/// The word for a stage.
#[must_use]
pub fn word(stage: Stage) -> &'static str {
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
    let fail = |why| Err(StepError { node: node.name.to_string(), stage: word(node.stage), why });
    match (step, node.stage) {
        (_, Stage::Retired) => fail("a retired node takes no further step; enrol it anew"),
        (Step::Serve, Stage::Ready) => Ok(None),
        (Step::Serve, _) => Ok(Some(Stage::Ready)),
        (Step::Drain, Stage::Draining | Stage::Drained) => Ok(None),
        (Step::Drain, _) => Ok(Some(Stage::Draining)),
        (Step::Empty, Stage::Draining) => Ok(Some(Stage::Drained)),
        (Step::Empty, _) => Ok(None),
        (Step::Retire, Stage::Drained | Stage::Enrolled) => Ok(Some(Stage::Retired)),
        (Step::Retire, _) if !node.reachable => Ok(Some(Stage::Retired)),
        (Step::Retire, _) => fail("it is in service; drain it first"),
    }
}
