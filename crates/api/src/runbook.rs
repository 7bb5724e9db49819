//! Runbooks and runs of them.

pub use muster_model::runbook::{RunbookDryRun, RunbookDryStep};

use crate::time::Timestamp;
use muster_model::runbook::StepOutcome;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A runbook: steps that people follow, or that run automatically.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Runbook {
    /// Stable name.
    pub name: String,
    /// In a few words.
    pub title: String,
    /// Failure modes it serves, by their codes.
    pub modes: Vec<String>,
    /// What else it serves.
    pub topics: Vec<String>,
    /// How soon somebody has to act: `page`, `today` or `ticket`.
    pub urgency: String,
    /// Who maintains it.
    pub owner: String,
    /// Variables that a run must be given.
    pub needs: Vec<String>,
    /// Variables that a run may be given.
    pub takes: Vec<String>,
    /// How many steps it has.
    pub length: u32,
    /// The record with it, where it is the site's own; null: it came with Muster.
    pub version: Option<u64>,
    /// The text before the first step; empty in lists.
    pub intro: String,
    /// Its steps; empty in lists.
    pub steps: Vec<RunbookStep>,
    /// The whole text as it is written; null in lists.
    pub text: Option<String>,
}

/// One step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookStep {
    /// Its number, from 1.
    pub no: u32,
    /// `check`, `act`, `ask` or `wait`.
    pub kind: String,
    /// What it is about.
    pub title: String,
    /// What people read.
    pub text: String,
    /// The condition or the action, in words.
    pub says: String,
    /// A possible answer to a question.
    pub choices: Vec<RunbookChoice>,
    /// The step when it passes.
    pub then: String,
    /// The step when it fails.
    pub otherwise: String,
}

/// A possible answer to a question.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookChoice {
    /// The answer, as it is offered and sent back.
    pub text: String,
    /// Where it leads.
    pub goto: String,
}

/// All runbooks.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookList {
    /// The runbooks, by name.
    pub items: Vec<Runbook>,
    /// Always null: there are few.
    pub cursor: Option<String>,
}

/// `PUT /v1/runbooks/{name}`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct SetRunbook {
    /// The whole text.
    #[cfg_attr(feature = "openapi", schema(max_length = 65536))]
    pub text: String,
}

/// `POST /v1/runbooks/{name}/run` and `/dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct StartRunbook {
    /// What it is about, such as `node`.
    pub vars: BTreeMap<String, String>,
    /// Its steps are run automatically, with the permissions of whoever asks.
    pub auto: bool,
}

/// A run of a runbook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookRun {
    /// Its number, as text: that of the record that began it.
    pub id: String,
    /// Name of the runbook.
    pub runbook: String,
    /// Title of the runbook.
    pub title: String,
    /// `running`, `waiting` (for a person), `resolved`, `unresolved` or `stopped`.
    pub state: String,
    /// Who began it.
    pub by: String,
    /// Its steps are run automatically.
    pub auto: bool,
    /// What it is about.
    pub vars: BTreeMap<String, String>,
    /// When it began.
    pub started_at: Timestamp,
    /// The current step.
    pub step: u32,
    /// That step, with what the run is about filled in; null when it is over.
    pub now: Option<RunbookStep>,
    /// What that step sees at this moment.
    pub sees: Option<String>,
    /// Why it waits for a person.
    pub waits: Option<String>,
    /// The step's time is up then.
    pub until: Option<Timestamp>,
    /// Completed steps.
    pub done: Vec<RunbookStepDone>,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// Why it ended so, for people.
    pub why: Option<String>,
}

/// A completed step.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookStepDone {
    /// The step's number in the runbook, from 1.
    pub step: u32,
    /// What it is about.
    pub title: String,
    /// When the step was over.
    pub at: Timestamp,
    /// Who completed it.
    pub by: String,
    /// What came of it.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub outcome: StepOutcome,
    /// What was seen.
    pub saw: String,
    /// What was done.
    pub did: String,
    /// What was chosen.
    pub chose: Option<String>,
    /// A comment.
    pub note: String,
}

/// Runs, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RunbookRunList {
    /// The runs of this page.
    pub items: Vec<RunbookRun>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// An answer at a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RunbookAnswer {
    /// Look now, or do it now.
    Go,
    /// It is so, or it was done by hand.
    Yes,
    /// It is not so, or it could not be done.
    No,
    /// Pass over it.
    Skip,
    /// What `choose` says.
    Choose,
}

/// `POST /v1/runbook-runs/{id}/answer`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct AnswerRunbook {
    /// The step that is meant.
    pub step: u32,
    /// What is answered at that step.
    pub answer: RunbookAnswer,
    /// One of the choices of a question.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 600))]
    pub choose: Option<String>,
    /// A comment.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(max_length = 600))]
    pub note: String,
}
