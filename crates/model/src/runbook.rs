//! Runs of runbooks, as the log keeps them. What a runbook says is plain text here; reading it is
//! another crate's work.

use crate::actor::Actor;
use crate::names::ProjectName;
use crate::qualification::cut;
use crate::tenant::Role;
use crate::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Characters of a runbook.
pub const BOOK_MAX: usize = 64 * 1024;
/// Characters of what was seen, done or said at a step.
pub const WORDS_MAX: usize = 600;

/// A runbook that the site wrote or changed itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteRunbook {
    /// The whole text.
    pub text: Arc<str>,
    /// Who applied it.
    pub by: String,
    /// When it was applied.
    pub at: Time,
    /// Sequence number of the record that holds it.
    pub version: u64,
}

/// Whose permissions a run has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunActor {
    /// `user:NAME`, or `system`.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// The one project they are bound to.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectName>,
}

impl RunActor {
    /// As whoever asks.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor { name: self.name.clone(), role: self.role, project: self.project.clone() }
    }
}

impl From<&Actor> for RunActor {
    fn from(a: &Actor) -> RunActor {
        RunActor { name: a.name.clone(), role: a.role, project: a.project.clone() }
    }
}

/// Somebody, or the machine, follows a runbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Run {
    /// Its number: that of the record that began it.
    pub id: u64,
    /// Name of the runbook.
    pub book: String,
    /// The runbook as it was then: a run stays readable whatever becomes of its runbook.
    pub text: Arc<str>,
    /// Record that holds the site's own runbook; none: the runbook came with Muster.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub version: Option<u64>,
    /// Who began it; what it does, it does with their permissions.
    pub by: RunActor,
    /// Its steps are run automatically.
    #[serde(default)]
    pub auto: bool,
    /// What it is about: node, gpu, job, finding, incident and the like.
    #[serde(default)]
    pub vars: BTreeMap<String, String>,
    /// When it began.
    pub started_at: Time,
    /// The current step.
    pub step: u32,
    /// When it came to that step.
    pub since: Time,
    /// The step's time is up then.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Why it waits for a person.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waits: Option<String>,
    /// Steps that are behind it, oldest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub done: Vec<StepDone>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<RunEnd>,
}

/// What came of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum StepOutcome {
    /// What was expected is so.
    Holds,
    /// It is not so, or not in time.
    HoldsNot,
    /// It was done.
    Done,
    /// It was refused, or could not be done.
    Refused,
    /// Somebody chose.
    Answered,
    /// Somebody passed over it.
    Skipped,
    /// It cannot be known yet: it depends on what a dry run only takes as done.
    Assumed,
}

impl StepOutcome {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            StepOutcome::Holds => "pass",
            StepOutcome::HoldsNot => "fail",
            StepOutcome::Done => "done",
            StepOutcome::Refused => "refused",
            StepOutcome::Answered => "answered",
            StepOutcome::Skipped => "skipped",
            StepOutcome::Assumed => "cannot know yet",
        }
    }
}

/// A completed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct StepDone {
    /// Its number in the runbook.
    pub step: u32,
    /// Who completed it.
    pub by: String,
    /// What came of it.
    pub outcome: StepOutcome,
    /// What was seen.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub saw: String,
    /// What was done.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub did: String,
    /// What was chosen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chose: Option<String>,
    /// A comment.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub note: String,
    /// When the step was over.
    #[serde(default)]
    pub at: Time,
}

impl StepDone {
    /// With what is too long cut short.
    #[must_use]
    pub fn bounded(mut self) -> StepDone {
        cut(&mut self.saw, WORDS_MAX);
        cut(&mut self.did, WORDS_MAX);
        cut(&mut self.note, WORDS_MAX);
        self
    }
}

/// How a run ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunEnd {
    /// When it ended.
    pub at: Time,
    /// Whether it resolved the matter, left it to people or was stopped.
    pub outcome: RunOutcome,
    /// Why it ended so, for people.
    pub why: String,
}

/// How a run ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunOutcome {
    /// The runbook's end was reached.
    Resolved,
    /// The runbook does not help further: people take over.
    Unresolved,
    /// Somebody stopped it.
    Stopped,
}

impl RunOutcome {
    /// The word users read.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            RunOutcome::Resolved => "resolved",
            RunOutcome::Unresolved => "unresolved",
            RunOutcome::Stopped => "stopped",
        }
    }
}

/// What a person says at a step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StepAnswer {
    /// Look now, or do it now.
    Go,
    /// The answer to a question: one of its choices.
    Choose(String),
    /// It is so, or it was done by hand.
    Yes,
    /// It is not so, or it could not be done.
    No,
    /// Pass over it.
    Skip,
}

/// What a run would see and do. Nothing was done.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookDryRun {
    /// Steps in the order in which they would be taken.
    pub steps: Vec<RunbookDryStep>,
    /// How it would end, if people answer as the runbook assumes.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub outcome: RunOutcome,
}

/// What a step would see and do.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookDryStep {
    /// The step's number in the runbook, from 1.
    pub step: u32,
    /// `check`, `act`, `ask` or `wait`.
    pub kind: String,
    /// What it is about.
    pub title: String,
    /// What would come of it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub outcome: StepOutcome,
    /// What it sees.
    pub saw: String,
    /// What it would do.
    pub would: String,
}
