//! What is done about a finding: remediations, the policy they follow, and the limits they keep.

use crate::failure_mode::FailureMode;
use crate::names::NodeName;
use crate::near::closest;
use crate::object::object;
use crate::qualification::Level;
use crate::spec::{SpecProblem, problem};
use crate::units::{Span, Time};
use serde::{Deserialize, Deserializer, Serialize};
use std::collections::BTreeMap;

/// What can be done. Ordered: a later one is heavier.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Nothing but remembering it.
    Watch,
    /// The job is restarted; the hardware stays.
    RestartJob,
    /// The GPU takes no work any more; the rest of its node goes on.
    IsolateGpu,
    /// The node takes no work until it has passed a test.
    Drain,
    /// The GPU is reset.
    ResetGpu,
    /// The node is restarted.
    Reboot,
    /// The node's power is cut and given back.
    PowerCycle,
    /// A part is replaced by people.
    Replace,
}

impl Action {
    /// All of them, lightest first.
    pub const ALL: [Action; 8] = [
        Action::Watch,
        Action::RestartJob,
        Action::IsolateGpu,
        Action::Drain,
        Action::ResetGpu,
        Action::Reboot,
        Action::PowerCycle,
        Action::Replace,
    ];

    /// The word users write.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Action::Watch => "watch",
            Action::RestartJob => "restart_job",
            Action::IsolateGpu => "isolate_gpu",
            Action::Drain => "drain",
            Action::ResetGpu => "reset_gpu",
            Action::Reboot => "reboot",
            Action::PowerCycle => "power_cycle",
            Action::Replace => "replace",
        }
    }

    /// What people read for it, as an instruction.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Action::Watch => "watch it",
            Action::RestartJob => "restart the job",
            Action::IsolateGpu => "take the GPU out and let the others work",
            Action::Drain => "drain the node and test it",
            Action::ResetGpu => "reset the GPU",
            Action::Reboot => "reboot the node",
            Action::PowerCycle => "power-cycle the node",
            Action::Replace => "have the part replaced",
        }
    }

    /// The same as something that was done: what follows "after".
    #[must_use]
    pub fn noun(self) -> &'static str {
        match self {
            Action::Watch => "being watched",
            Action::RestartJob => "a restart of the job",
            Action::IsolateGpu => "its GPU was taken out",
            Action::Drain => "a drain",
            Action::ResetGpu => "a GPU reset",
            Action::Reboot => "a reboot",
            Action::PowerCycle => "a power cycle",
            Action::Replace => "a part was replaced",
        }
    }

    /// Does it take a whole node out of service?
    #[must_use]
    pub fn takes_node(self) -> bool {
        self >= Action::Drain
    }

    /// Does it wait for approval at this step? What something holds back is proposed only, and goes on
    /// when somebody approves it; watching needs nobody.
    #[must_use]
    pub fn awaits_approval(self, step: RemediationStep) -> bool {
        step == RemediationStep::Approval
            || (step == RemediationStep::Proposed && self > Action::Watch)
    }
}

/// Who decides that it is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Mode {
    /// It is written down and not done.
    DetectOnly,
    /// It is pending approval.
    Approve,
    /// It is done.
    Automatic,
}

/// How work leaves a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Leave {
    /// It may end by itself, for as long as the policy waits.
    Finish,
    /// It is asked for a checkpoint and goes on elsewhere.
    #[default]
    Checkpoint,
    /// What runs on the unhealthy part is stopped at once; the rest is asked for a checkpoint.
    Now,
}

/// The current step of a remediation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RemediationStep {
    /// Chosen; nothing was done yet: a limit, or the policy, holds it.
    Proposed,
    /// No new work comes there, and what runs leaves.
    Moving,
    /// Nothing runs there; the act is pending approval.
    Approval,
    /// The act is being carried out.
    Acting,
    /// People repair it.
    Repairing,
    /// It is being tested.
    Testing,
    /// Back in service, and watched.
    Probation,
    /// Over; see its outcome.
    Ended,
}

impl RemediationStep {
    /// What people read for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            RemediationStep::Proposed => "proposed",
            RemediationStep::Moving => "work is leaving",
            RemediationStep::Approval => "pending approval",
            RemediationStep::Acting => "under way",
            RemediationStep::Repairing => "in repair",
            RemediationStep::Testing => "being tested",
            RemediationStep::Probation => "on probation",
            RemediationStep::Ended => "ended",
        }
    }
}

/// How a remediation ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum RemediationOutcome {
    /// It helped.
    Resolved,
    /// It was only written down.
    Noted,
    /// It did not help; the next step follows.
    Escalated,
    /// An operator said no.
    Denied,
    /// An operator took it back.
    Undone,
    /// What asked for it is over, or another remediation does more.
    Superseded,
}

impl RemediationOutcome {
    /// What people read for it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            RemediationOutcome::Resolved => "resolved",
            RemediationOutcome::Noted => "no action",
            RemediationOutcome::Escalated => "escalated",
            RemediationOutcome::Denied => "denied",
            RemediationOutcome::Undone => "undone",
            RemediationOutcome::Superseded => "superseded",
        }
    }
}

/// A remediation as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Remediation {
    /// Its number: that of the record that chose it.
    pub id: u64,
    /// The finding it is for.
    pub finding: u64,
    /// The failure mode.
    pub kind: String,
    /// The node that is to be brought back.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub node: NodeName,
    /// The GPU, where one is meant.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// What is done in the end.
    pub action: Action,
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
    /// Why it was chosen, while `why` says what delays it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub chosen_why: Option<String>,
    /// When it was chosen.
    pub at: Time,
    /// Since when it is in this state.
    pub since: Time,
    /// What is to be noticed when it stands there for longer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
    /// Who approved it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub approved: Option<String>,
    /// It was approved before it began: an operator decided that it takes its node or GPU.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub begun_by_operator: bool,
    /// The act that is under way, or was the last.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub act: Option<u64>,
    /// Steps it took, oldest first (at most 32).
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taken: Vec<(Time, RemediationStep)>,
    /// How it ended.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub outcome: Option<RemediationOutcome>,
}

impl Remediation {
    /// What people read for it, as an instruction; the GPU is named with the node.
    #[must_use]
    pub fn words(&self) -> &'static str {
        match (self.action, self.gpu) {
            (Action::Replace, Some(_)) => "have the GPU replaced",
            (action, _) => action.words(),
        }
    }

    /// Is approval all that it lacks? What was approved and is on hold for another reason is not
    /// pending.
    #[must_use]
    pub fn is_pending(&self) -> bool {
        let open = self.outcome.is_none() && self.approved.is_none();
        open && self.action.awaits_approval(self.step)
    }

    /// Is something being done now? What waits to be begun, or to be approved, is not; nor is what is only
    /// watched: a finding, or a node on probation, which passed its test and is in service.
    #[must_use]
    pub fn is_in_progress(&self) -> bool {
        let open = self.outcome.is_none() && self.action > Action::Watch;
        let watched = matches!(self.step, RemediationStep::Probation | RemediationStep::Ended);
        open && !watched && !self.action.awaits_approval(self.step)
    }

    /// Did it take its node, or its GPU?
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.taken.iter().any(|(_, step)| *step > RemediationStep::Proposed)
    }

    /// Is its node back in service and only watched?
    #[must_use]
    pub fn is_probation(&self) -> bool {
        self.outcome.is_none() && self.step == RemediationStep::Probation
    }

    /// Who decides that it begins, where `taking` is who decides that a node is taken. What is done to
    /// hardware begins with its node being taken, and has a decision of its own later.
    #[must_use]
    pub fn begun_by(&self, taking: Mode) -> Mode {
        match self.action {
            Action::Watch | Action::RestartJob | Action::IsolateGpu => self.mode,
            Action::Drain => self.mode.min(taking),
            _ => taking,
        }
    }

    /// Does a limit, missing proof or stopped automation delay it? Then nobody has to decide, though
    /// an operator may approve it. `taking` is who decides that a node is taken: where an operator
    /// decides that it begins, and automation runs, it is pending approval.
    #[must_use]
    pub fn is_delayed(&self, taking: Mode, stopped: bool) -> bool {
        let proposed = self.is_pending() && self.step == RemediationStep::Proposed;
        proposed && (stopped || self.begun_by(taking) != Mode::Approve)
    }

    /// Its state in words, the same wherever it is shown: how it ended, else whether somebody has to decide,
    /// which is what people ask, else its step. `delayed` is what [`Remediation::is_delayed`] says.
    #[must_use]
    pub fn state_words(&self, delayed: bool) -> &'static str {
        match (self.outcome, self.action) {
            (Some(outcome), _) => outcome.words(),
            (None, _) if delayed => "delayed",
            (None, _) if self.is_pending() => RemediationStep::Approval.words(),
            // Nothing more than that is proposed.
            (None, Action::Watch) => "watched",
            (None, _) => self.step.words(),
        }
    }
}

/// Something that is done once outside the log: intended first, then its outcome is written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Act {
    /// A GPU is reset by the node's agent.
    ResetGpu {
        /// The node the GPU is in.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// The GPU.
        gpu: u32,
    },
    /// A node is restarted by its agent; done when it is back with another boot id.
    Reboot {
        /// The node to restart.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// Its boot id before; when it differs already, nothing is done.
        boot: String,
    },
    /// A node's power is cut and given back, by whatever the site plugged in for it.
    PowerCycle {
        /// The node whose power is cut.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// Its boot id before.
        boot: String,
    },
    /// People are asked to repair something; with the evidence.
    Ticket {
        /// The node to repair.
        #[cfg_attr(feature = "openapi", schema(value_type = String))]
        node: NodeName,
        /// In a line.
        title: String,
        /// The remediation it is part of.
        remediation: u64,
    },
    /// Somebody is woken.
    Page {
        /// In a line.
        title: String,
        /// What is known, in some lines.
        detail: String,
    },
}

impl Act {
    /// The node it is done to.
    #[must_use]
    pub fn node(&self) -> Option<&NodeName> {
        match self {
            Act::ResetGpu { node, .. }
            | Act::Reboot { node, .. }
            | Act::PowerCycle { node, .. }
            | Act::Ticket { node, .. } => Some(node),
            Act::Page { .. } => None,
        }
    }

    /// Does the node's own agent carry it out? The power of a simulated node is its agent's, too.
    #[must_use]
    pub fn is_done_by_agent(&self, simulated: bool) -> bool {
        match self {
            Act::ResetGpu { .. } | Act::Reboot { .. } => true,
            Act::PowerCycle { .. } => simulated,
            Act::Ticket { .. } | Act::Page { .. } => false,
        }
    }

    /// The word users read.
    #[must_use]
    pub fn word(&self) -> &'static str {
        match self {
            Act::ResetGpu { .. } => "reset_gpu",
            Act::Reboot { .. } => "reboot",
            Act::PowerCycle { .. } => "power_cycle",
            Act::Ticket { .. } => "ticket",
            Act::Page { .. } => "page",
        }
    }
}

/// An act as the log knows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AskedAct {
    /// Its number: that of the record that asked for it.
    pub id: u64,
    /// What is done.
    pub act: Act,
    /// When it was asked for.
    pub at: Time,
    /// It has failed when nothing was reported about it by then.
    pub until: Time,
    /// What came of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ended: Option<ActEnd>,
}

/// What came of an act.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct ActEnd {
    /// When its outcome was written down.
    pub at: Time,
    /// It was done.
    pub ok: bool,
    /// In words: where the ticket is, or what went wrong.
    pub message: String,
}

/// What is done about findings, and how far automation may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Remediations {
    /// Findings lead to remediations at all.
    pub enabled: bool,
    /// Who decides, by action; what is not named has its default.
    pub modes: BTreeMap<Action, Mode>,
    /// Rules by pool, SKU and failure mode; the first that fits counts, before the built-in ones.
    #[serde(deserialize_with = "rules")]
    pub rules: Vec<Rule>,
    /// A remediation step that did not help within this is followed by the next.
    pub escalate_within: Span,
    /// How long work may continue when it may finish.
    pub finish_within: Span,
    /// The test before a node returns.
    // Another thing is called a level in the topology.
    #[cfg_attr(feature = "openapi", schema(value_type = String))]
    pub requalify: Level,
    /// How long a node that returned is watched.
    pub probation: Span,
    /// How far automation may go.
    #[serde(deserialize_with = "object")]
    pub limits: Limits,
}

impl Default for Remediations {
    fn default() -> Self {
        Remediations {
            enabled: true,
            modes: BTreeMap::new(),
            rules: Vec::new(),
            escalate_within: Span::hours(7 * 24),
            finish_within: Span::hours(1),
            requalify: Level::Quick,
            probation: Span::hours(24),
            limits: Limits::default(),
        }
    }
}

/// Rules, each written with the names of its fields.
fn rules<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Rule>, D::Error> {
    #[derive(Deserialize)]
    struct Written(#[serde(deserialize_with = "object")] Rule);
    Ok(Vec::<Written>::deserialize(d)?.into_iter().map(|w| w.0).collect())
}

/// No fleet has more nodes.
const NODES_MAX: u32 = 1_000_000;
/// Most rules.
const RULES_MAX: usize = 500;

impl Remediations {
    /// Who decides on an action. Stopping allocation and moving work is automatic, what touches
    /// the hardware waits for approval.
    #[must_use]
    pub fn mode(&self, action: Action) -> Mode {
        self.modes.get(&action).copied().unwrap_or(if action <= Action::Drain {
            Mode::Automatic
        } else {
            Mode::Approve
        })
    }

    /// Checks what can be judged from the policy alone.
    ///
    /// # Errors
    /// The first thing that is wrong, with the field and how to fix it.
    pub fn check(&self) -> Result<(), SpecProblem> {
        // Every finding is held against all of them.
        if self.rules.len() > RULES_MAX {
            let message = format!("{} rules are more than {RULES_MAX}", self.rules.len());
            let hint = "let one rule cover several kinds: `gpu-*` stands for all that begin so";
            return Err(problem("remediations.rules", message, hint));
        }
        for (i, r) in self.rules.iter().enumerate() {
            if let Some(kind) = r.kind.as_ref().filter(|k| !is_known(k)) {
                return Err(unknown_kind(i, kind));
            }
            if r.steps.is_empty() {
                let field = format!("remediations.rules[{i}].steps");
                return Err(problem(&field, "it is empty", "name at least one action, like watch"));
            }
            if r.steps.windows(2).any(|w| w[0] >= w[1]) {
                let field = format!("remediations.rules[{i}].steps");
                let hint = "order it from the lightest action to the heaviest, each once";
                return Err(problem(&field, "a later step is not heavier", hint));
            }
        }
        let l = &self.limits;
        if l.storm_percent > 100 || l.storm_nodes > NODES_MAX {
            let hint = "give 0 to 100 percent, and fewer than a million nodes";
            return Err(problem(
                "remediations.limits.storm_percent",
                "not a share of a fleet",
                hint,
            ));
        }
        if [l.fleet, l.pool, l.leaf, l.feed].iter().any(|s| s.at_least > NODES_MAX) {
            let hint = "give fewer than a million nodes";
            return Err(problem(
                "remediations.limits",
                "`at_least` is more than a fleet has",
                hint,
            ));
        }
        if self.limits.fleet.total > 100 || self.limits.fleet.per_hour > 100 {
            return Err(problem(
                "remediations.limits.fleet",
                "more than 100 percent",
                "give 0 to 100",
            ));
        }
        for (name, share) in
            [("pool", &self.limits.pool), ("leaf", &self.limits.leaf), ("feed", &self.limits.feed)]
        {
            if share.total > 100 || share.per_hour > 100 {
                let field = format!("remediations.limits.{name}");
                return Err(problem(&field, "more than 100 percent", "give 0 to 100"));
            }
        }
        Ok(())
    }
}

/// Is it a failure mode, or the beginning of some?
fn is_known(kind: &str) -> bool {
    match kind.strip_suffix('*') {
        Some(start) => FailureMode::ALL.iter().any(|m| m.code().starts_with(start)),
        None => FailureMode::is_one_of(kind, FailureMode::ALL),
    }
}

fn unknown_kind(rule: usize, kind: &str) -> SpecProblem {
    let known: Vec<&str> = FailureMode::ALL.iter().map(|m| m.code()).collect();
    let near = closest(kind.trim_end_matches('*'), &known);
    let near = near.map(|n| format!("did you mean `{n}`? ")).unwrap_or_default();
    let message = format!("there is no failure mode `{kind}`");
    let hint = format!("{near}`muster failure-modes` lists them");
    problem(&format!("remediations.rules[{rule}].kind"), message, hint)
}

/// What is done about a failure mode somewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Rule {
    /// Failure mode; a final `*` stands for anything, and absent for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Only in this pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<String>,
    /// Only for this SKU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// Actions from the lightest to the heaviest: each follows when the one before did not help.
    pub steps: Vec<Action>,
    /// Who decides; else as the modes say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode: Option<Mode>,
    /// How work leaves; else by how bad the finding is.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leave: Option<Leave>,
}

impl Rule {
    /// Does it speak of this?
    #[must_use]
    pub fn fits(&self, kind: &str, pool: &str, sku: &str) -> bool {
        let glob = |k: &String| match k.strip_suffix('*') {
            Some(start) => kind.starts_with(start),
            None => k == kind,
        };
        self.kind.as_ref().is_none_or(glob)
            && self.pool.as_ref().is_none_or(|p| p == pool)
            && self.sku.as_ref().is_none_or(|s| s == sku)
    }
}

/// How far automation may go.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Limits {
    /// Of the whole fleet.
    #[serde(deserialize_with = "object")]
    pub fleet: Share,
    /// Of each pool.
    #[serde(deserialize_with = "object")]
    pub pool: Share,
    /// Of each leaf.
    #[serde(deserialize_with = "object")]
    pub leaf: Share,
    /// Of each power feed.
    #[serde(deserialize_with = "object")]
    pub feed: Share,
    /// So many nodes with new findings that ask for a node, within the storm's window, stop the
    /// automation itself; in percent of the fleet.
    pub storm_percent: u32,
    /// At least so many nodes make a storm.
    pub storm_nodes: u32,
    /// The storm's window.
    pub storm_window: Span,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            fleet: Share { total: 20, per_hour: 10, at_least: 2 },
            pool: Share { total: 25, per_hour: 15, at_least: 2 },
            leaf: Share { total: 34, per_hour: 25, at_least: 1 },
            feed: Share { total: 34, per_hour: 25, at_least: 1 },
            storm_percent: 25,
            storm_nodes: 5,
            storm_window: Span::mins(5),
        }
    }
}

/// A share of a group that automation may take out of service.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Share {
    /// At a time, in percent.
    pub total: u32,
    /// Newly within an hour, in percent.
    pub per_hour: u32,
    /// So many nodes are allowed however small the group is, but never all of it.
    pub at_least: u32,
}

impl Default for Share {
    fn default() -> Self {
        Share { total: 20, per_hour: 10, at_least: 1 }
    }
}

impl Share {
    /// Nodes of a group of `n` that may be out at a time, and newly within an hour. Never all.
    #[must_use]
    pub fn of(&self, n: u32) -> (u32, u32) {
        let most = n.saturating_sub(1);
        let part = |percent: u32| {
            let share = u64::from(n) * u64::from(percent) / 100;
            u32::try_from(share).unwrap_or(u32::MAX).max(self.at_least).min(most)
        };
        (part(self.total), part(self.per_hour))
    }

    /// The same in thousandths of a node, of which GPUs are parts.
    #[must_use]
    pub fn milli_of(&self, n: u32) -> (u64, u64) {
        let most = (u64::from(n) * 1000).saturating_sub(1);
        let part = |percent: u32| {
            let share = u64::from(n) * u64::from(percent) * 10;
            share.max(u64::from(self.at_least) * 1000).min(most)
        };
        (part(self.total), part(self.per_hour))
    }
}

/// So many nodes and thousandths of a node: `2`, or `2.125` with one isolated GPU of eight.
#[must_use]
pub fn in_nodes(nodes: u32, milli: u32) -> String {
    let nodes = nodes.saturating_add(milli / 1000);
    match milli % 1000 {
        0 => nodes.to_string(),
        rest => format!("{nodes}.{rest:03}"),
    }
}

/// Who took so many nodes and thousandths of a node out of service, where operators approved some of it:
/// `3 approved by operators, 2 by automation`. None where automation took all.
#[must_use]
pub fn taken_by(nodes: u32, milli: u32, approved: u32) -> Option<String> {
    let own = in_nodes(nodes.saturating_sub(approved), milli);
    (approved > 0).then(|| format!("{approved} approved by operators, {own} by automation"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_operators_approved_is_reported_apart() {
        assert_eq!(taken_by(5, 0, 0), None);
        let words = |nodes, milli, approved| taken_by(nodes, milli, approved).unwrap();
        assert_eq!(words(5, 0, 3), "3 approved by operators, 2 by automation");
        assert_eq!(words(3, 125, 3), "3 approved by operators, 0.125 by automation");
    }

    #[test]
    fn the_state_of_a_remediation_has_one_word() {
        let with = |action, step, outcome| Remediation {
            id: 7,
            finding: 5,
            kind: "gpu-off-bus".to_owned(),
            node: "n1".parse().unwrap(),
            gpu: None,
            action,
            step_index: 0,
            mode: Mode::Approve,
            leave: Leave::Checkpoint,
            step,
            why: String::new(),
            chosen_why: None,
            at: Time(0),
            since: Time(0),
            until: None,
            approved: None,
            begun_by_operator: false,
            act: None,
            taken: Vec::new(),
            outcome,
        };
        let (proposed, acting) = (RemediationStep::Proposed, RemediationStep::Acting);
        let drain = with(Action::Drain, proposed, None);
        assert_eq!(drain.state_words(drain.is_delayed(Mode::Approve, false)), "pending approval");
        assert_eq!(drain.state_words(drain.is_delayed(Mode::Approve, true)), "delayed");
        let approved = Remediation { approved: Some("user:ann".to_owned()), ..drain };
        assert_eq!(approved.state_words(false), "proposed");
        assert_eq!(with(Action::Watch, proposed, None).state_words(false), "watched");
        assert_eq!(with(Action::Reboot, acting, None).state_words(false), "under way");
        let over = with(Action::Reboot, RemediationStep::Ended, Some(RemediationOutcome::Denied));
        assert_eq!(over.state_words(false), "denied");
        // What is only watched is nothing in progress.
        let acts = |action, step| with(action, step, None).is_in_progress();
        for step in
            [RemediationStep::Moving, acting, RemediationStep::Repairing, RemediationStep::Testing]
        {
            assert!(acts(Action::Reboot, step), "{step:?}");
        }
        for step in [proposed, RemediationStep::Approval, RemediationStep::Probation] {
            assert!(!acts(Action::Reboot, step), "{step:?}");
        }
        assert!(!acts(Action::Watch, proposed) && !over.is_in_progress());
        assert!(with(Action::Reboot, RemediationStep::Probation, None).is_probation());
    }
}
