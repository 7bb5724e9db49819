//! What is done about findings: remediations, acts, and how automation stands.

use crate::Timestamp;
use muster_model::remediation as m;
use muster_model::remediation::{
    Action, Leave, Mode, RemediationOutcome, RemediationStep, Remediations,
};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What is done about a finding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Remediation {
    /// Its number, as text: that of the record that chose it.
    pub id: String,
    /// The failure mode.
    pub kind: String,
    /// Its current step, in words: `pending approval`, `delayed`, or how it ended.
    pub state: String,
    /// The finding it is for.
    pub finding: String,
    /// The node that is to be brought back.
    pub node: String,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// What is done in the end.
    pub action: Action,
    /// The same in words.
    pub action_text: String,
    /// Its remediation step, from 0.
    pub step_index: u32,
    /// Who decides on the act itself.
    pub mode: Mode,
    /// How work leaves.
    pub leave: Leave,
    /// Its current step.
    pub step: RemediationStep,
    /// Why it is in this state.
    pub why: String,
    /// When it was chosen.
    pub at: Timestamp,
    /// Since when it is in this state.
    pub since: Timestamp,
    /// It has been there for too long after this.
    pub until: Option<Timestamp>,
    /// Who approved it.
    pub approved: Option<String>,
    /// The act that is under way, or was the last.
    pub act: Option<Act>,
    /// Its steps, oldest first.
    #[serde(default)]
    pub taken: Vec<RemediationStepEntry>,
    /// How it ended.
    pub outcome: Option<RemediationOutcome>,
    /// A limit, missing proof or stopped automation delays it: nobody has to decide, though an
    /// operator may approve it.
    #[serde(default)]
    pub delayed: bool,
    /// It keeps its node out of service, and an operator may return that now, without a test.
    #[serde(default)]
    pub returnable: bool,
}

/// A step of a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemediationStepEntry {
    /// When the step began.
    pub at: Timestamp,
    /// The step it came to.
    pub step: RemediationStep,
}

/// Something that is done once, outside.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Act {
    /// Its number, as text: that of the record that asked for it.
    pub id: String,
    /// `reset_gpu`, `reboot`, `power_cycle`, `ticket` or `page`.
    pub what: String,
    /// `open`, `done` or `failed`.
    pub state: String,
    /// The node it is done to.
    pub node: Option<String>,
    /// The GPU.
    pub gpu: Option<u32>,
    /// A ticket's or page's line.
    pub title: Option<String>,
    /// When it was asked for.
    pub at: Timestamp,
    /// It has failed when nothing was reported about it by then.
    pub until: Timestamp,
    /// When it ended.
    pub ended_at: Option<Timestamp>,
    /// What came of it: where the ticket is, or what went wrong.
    pub message: Option<String>,
}

impl Act {
    /// The act as the API shows it.
    #[must_use]
    pub fn of(asked: &m::AskedAct) -> Act {
        let m::AskedAct { id, act, at, until, ended } = asked;
        let (gpu, title) = match act {
            m::Act::ResetGpu { gpu, .. } => (Some(*gpu), None),
            m::Act::Ticket { title, .. } | m::Act::Page { title, .. } => {
                (None, Some(title.clone()))
            }
            m::Act::Reboot { .. } | m::Act::PowerCycle { .. } => (None, None),
        };
        Act {
            id: id.to_string(),
            what: act.word().into(),
            state: match ended {
                None => "open",
                Some(e) if e.ok => "done",
                Some(_) => "failed",
            }
            .into(),
            node: act.node().map(ToString::to_string),
            gpu,
            title,
            at: (*at).into(),
            until: (*until).into(),
            ended_at: ended.as_ref().map(|e| e.at.into()),
            message: ended.as_ref().map(|e| e.message.clone()),
        }
    }
}

impl Remediation {
    /// The remediation as the API shows it, with its act, whether something delays it, and whether an operator may
    /// return its node.
    #[must_use]
    pub fn of(
        remediation: &m::Remediation,
        act: Option<&m::AskedAct>,
        delayed: bool,
        returnable: bool,
    ) -> Remediation {
        let m::Remediation {
            id,
            finding,
            kind,
            node,
            gpu,
            action,
            step_index,
            mode,
            leave,
            step,
            why,
            chosen_why: _,
            at,
            since,
            until,
            approved,
            begun_by_operator: _,
            act: _,
            taken,
            outcome,
        } = remediation;
        Remediation {
            id: id.to_string(),
            kind: kind.clone(),
            state: remediation.state_words(delayed).into(),
            finding: finding.to_string(),
            node: node.to_string(),
            gpu: *gpu,
            action: *action,
            action_text: remediation.words().into(),
            step_index: *step_index,
            mode: *mode,
            leave: *leave,
            step: *step,
            why: why.clone(),
            at: (*at).into(),
            since: (*since).into(),
            until: until.map(Into::into),
            approved: approved.clone(),
            act: act.map(Act::of),
            taken: taken
                .iter()
                .map(|(at, step)| RemediationStepEntry { at: (*at).into(), step: *step })
                .collect(),
            outcome: *outcome,
            delayed,
            returnable,
        }
    }

    /// Is approval all that it lacks?
    #[must_use]
    pub fn waits(&self) -> bool {
        let open = self.outcome.is_none() && self.approved.is_none();
        open && self.action.awaits_approval(self.step)
    }
}

/// A page of remediations, newest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemediationList {
    /// The remediations of this page.
    pub items: Vec<Remediation>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// The status of automation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Automation {
    /// `running`, `stopped`, or `off` by the policy.
    pub state: String,
    /// When it was stopped.
    pub stopped_at: Option<Timestamp>,
    /// Why it was stopped.
    pub reason: Option<String>,
    /// An operator stopped it; otherwise it stopped itself.
    pub by_operator: bool,
    /// When it was last resumed.
    pub resumed_at: Option<Timestamp>,
    /// Who decides, by action.
    pub modes: BTreeMap<String, Mode>,
    /// Nodes of the fleet.
    pub nodes: u32,
    /// Nodes that remediations have out of service, whether automation took them or operators approved it: all
    /// of them count in the limit.
    pub out: u32,
    /// Nodes of `out` that operators approved.
    #[serde(default)]
    pub out_approved: u32,
    /// What it took of other nodes by isolating GPUs, in thousandths of a node. Counts as `out` does.
    #[serde(default)]
    pub isolated_milli: u32,
    /// So many it may have out of service at a time.
    pub out_at_most: u32,
    /// Nodes that were taken out of service within the last hour, oldest first: by automation, or because
    /// operators approved it.
    pub taken: Vec<NodeTakenOut>,
    /// What it isolated within the last hour, in thousandths of a node. Counts as `taken` does.
    #[serde(default)]
    pub isolated_hour_milli: u32,
    /// So many it may take out of service within an hour.
    pub taken_at_most: u32,
}

/// A node that was taken out of service for a remediation.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeTakenOut {
    /// When it was taken out of service.
    pub at: Timestamp,
    /// The node's name.
    pub node: String,
    /// An operator approved that; else automation took it by itself.
    #[serde(default)]
    pub approved: bool,
}

/// `POST /v1/nodes/{name}/repaired`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RepairedRequest {
    /// What was done.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub note: String,
}

/// `POST /v1/nodes/{name}/exclude`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct ExcludeRequest {
    /// All GPUs that are to get no work, by index; empty gives work to all of them again.
    #[cfg_attr(feature = "openapi", schema(max_items = 64))]
    pub gpus: Vec<u32>,
    /// Why, for people.
    #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
    pub reason: String,
}

/// `POST /v1/remediations/dry-run`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct RemediationDryRun {
    /// Over so many days of the log.
    #[cfg_attr(feature = "openapi", schema(minimum = 1, maximum = 366))]
    pub days: u32,
    /// Under this policy; under the site's own when absent.
    pub policy: Option<Remediations>,
}

impl Default for RemediationDryRun {
    fn default() -> Self {
        RemediationDryRun { days: 7, policy: None }
    }
}

/// What would have been done over the last days.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct RemediationDryRunReport {
    /// The first moment of the log that was read.
    pub from: Timestamp,
    /// The last one.
    pub to: Timestamp,
    /// The log does not reach back as far as was asked for, or is too long to be read at once.
    pub cut: bool,
    /// Findings of that time.
    pub findings: u64,
    /// Remediations that would have been done, by action.
    pub by_action: BTreeMap<String, u64>,
    /// Those that would have been blocked to the end, by what blocked them first.
    pub held: BTreeMap<String, u64>,
    /// Most nodes that would have been out at a time.
    pub out_at_once: u32,
    /// How often automation would have stopped itself.
    pub storms: u32,
    /// The remediations, oldest first (at most 1000).
    pub items: Vec<DryRemediation>,
}

/// A remediation that would have been chosen.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct DryRemediation {
    /// When it would have been chosen.
    pub at: Timestamp,
    /// The number of the finding it would be for.
    pub finding: String,
    /// The failure mode.
    pub kind: String,
    /// The node that would be taken out of service.
    pub node: String,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// What would be done.
    pub action: Action,
    /// Who would decide.
    pub mode: Mode,
    /// What would block it.
    pub held: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Time;

    #[test]
    fn an_act_says_what_came_of_it() {
        let mut asked = m::AskedAct {
            id: 9,
            act: m::Act::ResetGpu { node: "n1".parse().expect("a name"), gpu: 3 },
            at: Time(1),
            until: Time(2),
            ended: None,
        };
        assert_eq!((Act::of(&asked).state.as_str(), Act::of(&asked).gpu), ("open", Some(3)));
        asked.ended = Some(m::ActEnd { at: Time(2), ok: false, message: "no".into() });
        let shown = Act::of(&asked);
        assert_eq!((shown.state.as_str(), shown.message.as_deref()), ("failed", Some("no")));
    }
}
