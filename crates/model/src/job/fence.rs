//! What the next attempt of a job waits for when a node was lost: its ranks there may still run.

use super::{Job, SlotState, StopReason};
use crate::names::NodeName;
use crate::spec::{JobSpec, OnPartition};
use crate::units::{Span, Time};

/// Lost nodes that are named one by one.
const NODES_NAMED: usize = 4;

/// Until when ranks on lost nodes may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceEnd {
    /// They have certainly stopped then.
    At(Time),
    /// Until their nodes connect again or are retired: nothing else ends them.
    Connected,
}

/// What keeps the next attempt of a job from starting.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lost nodes.
    pub nodes: Vec<NodeName>,
    /// Until when.
    pub until: FenceEnd,
}

impl FenceEnd {
    /// What an attempt that lost nodes waits for; none where nothing follows, or nothing is waited
    /// for any more.
    #[must_use]
    pub fn of(
        spec: &JobSpec,
        why: &StopReason,
        fence_until: Option<Time>,
        now: Time,
    ) -> Option<FenceEnd> {
        let ends = matches!(
            why,
            StopReason::Cancelled { .. } | StopReason::TimeLimit { .. } | StopReason::Idle { .. }
        );
        if ends || !spec.fenced() {
            return None;
        }
        let left = fence_until.filter(|t| *t > now).map(FenceEnd::At);
        match spec.partition() {
            OnPartition::StopAfter(_) => left,
            OnPartition::Continue => Some(left.unwrap_or(FenceEnd::Connected)),
        }
    }
}

impl Job {
    /// The fence that its next attempt waits for; none where nothing of it is lost.
    #[must_use]
    pub fn fence(&self, now: Time) -> Option<Fence> {
        let a = self.attempt.as_ref()?;
        let stop = a.stop.as_ref()?;
        let slots = a.placement.slots.iter().zip(&a.slots);
        let nodes: Vec<NodeName> =
            slots.filter(|(_, s)| **s == SlotState::Lost).map(|(s, _)| s.node.clone()).collect();
        if nodes.is_empty() {
            return None;
        }
        let until = FenceEnd::of(&self.spec, &stop.reason, stop.fence_until, now)?;
        Some(Fence { nodes, until })
    }
}

impl Fence {
    /// When the next attempt starts, for people.
    #[must_use]
    pub fn words(&self, now: Time) -> String {
        let named: Vec<&str> = self.nodes.iter().take(NODES_NAMED).map(NodeName::as_str).collect();
        let more = match self.nodes.len().saturating_sub(NODES_NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let nodes = format!("{}{more}", named.join(", "));
        match self.until {
            FenceEnd::At(until) => {
                let wait = Span::secs(until.since(now).0.div_ceil(1000));
                format!(
                    "next attempt in {wait} at the earliest, when its ranks on {nodes} have certainly stopped"
                )
            }
            FenceEnd::Connected => format!(
                "next attempt when {nodes} connects again or is retired: its ranks there may still run"
            ),
        }
    }
}
