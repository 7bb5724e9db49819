//! What a job waits for when a node was lost: its ranks there may still run.

use super::{Job, SlotState, StopReason};
use crate::names::NodeName;
use crate::spec::JobSpec;
use crate::units::{Span, Time};

/// Lost nodes that are named one by one.
const NODES_NAMED: usize = 4;

/// Until when ranks on lost nodes may still run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FenceEnd {
    /// They have certainly stopped then.
    At(Time),
    /// Until their nodes connect again, restart or are retired: nothing else ends them.
    Connected,
}

/// What keeps the next attempt of a job from starting, or the job from being over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// The lost nodes.
    pub nodes: Vec<NodeName>,
    /// Until when.
    pub until: FenceEnd,
    /// No other attempt follows: the job is over then.
    pub ends: bool,
}

impl StopReason {
    /// Does a job end with an attempt that was stopped for this, after so many failures of the
    /// infrastructure?
    #[must_use]
    pub fn ends_job(&self, spec: &JobSpec, infrastructure_failures: u32) -> bool {
        match self {
            StopReason::Cancelled { .. }
            | StopReason::TimeLimit { .. }
            | StopReason::Idle { .. } => true,
            StopReason::NodeLost { .. } => infrastructure_failures >= spec.retries.infrastructure,
            _ => false,
        }
    }
}

impl FenceEnd {
    /// What an attempt that lost nodes waits for; none where nothing is waited for any more. A job
    /// that ends waits for a time only where its ranks could still write to its checkpoint
    /// directory, and for ranks that no time ends like any other.
    #[must_use]
    pub fn of(
        spec: &JobSpec,
        ends: bool,
        fence_until: Option<Time>,
        now: Time,
    ) -> Option<FenceEnd> {
        let timed = ends && fence_until.is_some();
        let waits = if timed { spec.checkpoint.is_some() } else { spec.fenced() };
        match fence_until {
            _ if !waits => None,
            Some(t) if t <= now => None,
            Some(t) => Some(FenceEnd::At(t)),
            None => Some(FenceEnd::Connected),
        }
    }
}

impl Job {
    /// The fence that it waits for; none where nothing of it is lost.
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
        let ends = stop.reason.ends_job(&self.spec, self.infrastructure_failures);
        let until = FenceEnd::of(&self.spec, ends, stop.fence_until, now)?;
        Some(Fence { nodes, until, ends })
    }
}

impl Fence {
    /// What it waits for and until when, for people.
    #[must_use]
    pub fn words(&self, now: Time) -> String {
        let named: Vec<&str> = self.nodes.iter().take(NODES_NAMED).map(NodeName::as_str).collect();
        let more = match self.nodes.len().saturating_sub(NODES_NAMED) {
            0 => String::new(),
            n => format!(" and {n} more"),
        };
        let nodes = format!("{}{more}", named.join(", "));
        match (self.until, self.ends) {
            (FenceEnd::At(until), ends) => {
                let wait = Span::secs(until.since(now).0.div_ceil(1000));
                if ends {
                    format!("its ranks on {nodes} may still write, for {wait} at most")
                } else {
                    format!(
                        "next attempt in {wait} at the earliest, when its ranks on {nodes} have certainly stopped"
                    )
                }
            }
            (FenceEnd::Connected, true) => format!(
                "its ranks on {nodes} may still run, until it connects again, restarts, or is drained and retired"
            ),
            (FenceEnd::Connected, false) => format!(
                "next attempt when {nodes} connects again, restarts, or is drained and retired: its ranks there may still run"
            ),
        }
    }
}
