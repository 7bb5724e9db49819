//! What is to be looked at again. Derived; never stored.

use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::Verdict;
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};

/// What is to be looked at again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Nodes whose remedies may take a step.
    pub(crate) due: BTreeSet<NodeName>,
    /// Findings are new: they may have a common cause.
    pub(crate) correlate: bool,
    /// When everything was last looked at.
    pub(crate) looked_at: Time,
    /// When something is due by time alone.
    pub(crate) wake: Option<Time>,
    /// Everything is to be looked at.
    pub(crate) all: bool,
    /// Jobs that were submitted and not looked at yet: the first, and how many.
    pub(crate) arrived: Vec<(JobId, u32)>,
    /// When nodes' histories were last looked at, if they were.
    pub(crate) judged_at: Option<Time>,
    /// Failures were added to them since.
    pub(crate) failures: bool,
    /// When the first of the nodes that were not compared with their peers since told what it is
    /// made of.
    pub(crate) inventoried: Option<Time>,
    /// Groups and how much of each is out, while nothing changed.
    pub(crate) groups: Option<BTreeMap<String, Group>>,
}

impl Work {
    /// An event was written: what follows from it is looked at.
    pub(crate) fn note(&mut self, r: &Record, has_remedy: impl Fn(&NodeName) -> bool) {
        let event = &r.event;
        match event {
            Event::NodeEnrolled { .. }
            | Event::NodeRetired { .. }
            | Event::NodeReady { .. }
            | Event::TopologySet { .. }
            | Event::RemedyEnded { .. }
            | Event::PolicySet { .. } => {
                self.groups = None;
                self.all |= matches!(event, Event::RemedyEnded { .. } | Event::PolicySet { .. });
            }
            _ => {}
        }
        match event {
            Event::JobSubmitted { id, array, .. } => {
                let count = u32::try_from(array.len().max(1)).unwrap_or(u32::MAX);
                self.arrived.push((*id, count));
            }
            Event::AttemptEnded { verdict, .. } => {
                self.failures |= matches!(verdict, Verdict::Infrastructure | Verdict::Unknown);
            }
            Event::AttemptAttributed { .. } => self.failures = true,
            Event::NodeInventoried { inventory, .. } if !inventory.versions.is_empty() => {
                self.inventoried.get_or_insert(r.at);
            }
            _ => {}
        }
        match event {
            Event::NodeDrained { node }
            | Event::NodeBack { node, .. }
            | Event::NodeLost { node, .. }
            | Event::OrphanGone { node, .. }
            | Event::SlotEnded { node, .. }
            | Event::NodeReconciled { node }
                if has_remedy(node) =>
            {
                self.due.insert(node.clone());
            }
            // Something new has a time of its own, or waited for this.
            Event::RemedyChosen { .. }
            | Event::RemedyStepped { .. }
            | Event::ActAsked { .. }
            | Event::ActEnded { .. } => self.wake = Some(Time(0)),
            _ => {}
        }
    }
}

/// A group of nodes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Group {
    pub(crate) nodes: u32,
    pub(crate) out: u32,
    pub(crate) hour: u32,
}
