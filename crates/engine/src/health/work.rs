//! What is to be looked at again. Derived; never stored.

use super::timers::Timers;
use crate::state::{HealthState, State};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::ObservedFinding;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Verdict;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::placement::Placement;
use muster_model::remediation::{Remediation, RemediationStep};
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What is to be looked at again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Work {
    /// Nodes whose remediations may take a step.
    pub(crate) due: BTreeSet<NodeName>,
    /// Nodes whose own moment may have changed.
    pub(crate) moved: BTreeSet<NodeName>,
    /// When nodes with remediations have something to do by time alone.
    pub(crate) nodes_at: Timers<NodeName>,
    /// When nodes are looked at about whose missing GPU something was closed.
    pub(crate) absent_at: Timers<NodeName>,
    /// In a rehearsal actions are assumed to have helped, although the inventories that it is fed may not
    /// show it yet.
    pub(crate) assumes_repairs: bool,
    /// When acts that are under way are given up.
    pub(crate) acts_at: Timers<u64>,
    /// When breakers are looked at.
    pub(crate) breakers_at: Option<Time>,
    /// Findings are new: they may have a common cause.
    pub(crate) correlate: bool,
    /// When causes were last looked for.
    pub(crate) correlated_at: Time,
    /// Limits may have room again.
    pub(crate) room: bool,
    /// Something was held back by them when it was last tried.
    pub(crate) holds: bool,
    /// When what they hold back was last tried.
    pub(crate) tried_at: Time,
    /// Everything is to be looked at.
    pub(crate) all: bool,
    /// Jobs that were submitted and not looked at yet: the first, and how many.
    pub(crate) arrived: Vec<(JobId, u32)>,
    /// Jobs that ended and about which something may be open.
    pub(crate) ended: Vec<JobId>,
    /// When nodes' histories were last looked at, if they were.
    pub(crate) judged_at: Option<Time>,
    /// Failures were added to them since.
    pub(crate) failures: bool,
    /// When the first of the nodes that were not compared with their peers since reported what it
    /// is made of.
    pub(crate) inventoried: Option<Time>,
    /// How many nodes are in a place, or are managed alike, as far as it was asked.
    pub(crate) sizes: BTreeMap<Entity, u32>,
    /// Repeats of open findings that are not written down yet. A server that starts anew begins
    /// without them: at most a few minutes of repeats are not counted.
    pub(crate) repeats: BTreeMap<u64, Repeat>,
    /// When they are.
    pub(crate) repeats_at: Timers<u64>,
    /// What attempts that failed within the last minutes held, and when they ended.
    pub(crate) failed: BTreeMap<AttemptKey, (Time, Arc<Placement>)>,
    /// Nodes that reported late how ranks ended, one entry each.
    pub(crate) reported_late: BTreeMap<NodeName, LateEndReport>,
    /// Groups and how much of each is out, while nothing changed.
    pub(crate) groups: Option<BTreeMap<String, Group>>,
}

/// When the first of the ranks ended of whose end a node reported late, and when it last did so.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LateEndReport {
    pub(crate) ended_at: Time,
    pub(crate) heard_at: Time,
}

/// An open finding as it is known now, while the log knows less of it.
#[derive(Debug, Clone)]
pub(crate) struct Repeat {
    pub(crate) seen: ObservedFinding,
    /// It follows from what the log holds.
    pub(crate) decided: bool,
    /// When it is written down.
    pub(crate) due: Time,
}

impl Work {
    /// An event is being written: what follows from it is looked at. The state is as it was
    /// before.
    pub(crate) fn note(&mut self, r: &Record, state: &State) {
        let event = &r.event;
        self.note_groups(event, &state.health);
        self.note_moments(event, &state.health);
        match event {
            Event::JobSubmitted { id, array, .. } => {
                let count = u32::try_from(array.len().max(1)).unwrap_or(u32::MAX);
                self.arrived.push((*id, count));
            }
            Event::JobSucceeded { job }
            | Event::JobFailed { job, .. }
            | Event::JobCancelled { job, .. }
                if !state.health.breakers.is_empty()
                    || state.health.index.open.contains_key(&Entity::Job(*job)) =>
            {
                self.ended.push(*job);
            }
            Event::AttemptEnded { verdict, .. } => {
                self.failures |= matches!(verdict, Verdict::Infrastructure | Verdict::Unknown);
            }
            Event::AttemptAttributed { .. } => self.failures = true,
            Event::NodeInventoried { inventory, .. } if !inventory.versions.is_empty() => {
                self.inventoried.get_or_insert(r.at);
            }
            Event::GpusExcluded { node, gpus, by_operator, .. } => {
                // What automation isolates is counted where it does.
                let had = state.nodes.get(node).map_or(*gpus, |n| n.excluded_gpus);
                if *by_operator || !had.minus(*gpus).is_empty() {
                    self.groups = None;
                    self.room |= state.health.automation.stopped.is_none();
                }
                // A GPU that work may use again has to be there.
                if state.nodes.get(node).is_some_and(|n| !n.missing_gpus.is_empty()) {
                    self.absent_after(node, r.at);
                }
                // Nothing critical may be left of what work uses.
                self.due.insert(node.clone());
            }
            Event::NodeDrained { node }
            | Event::NodeBack { node, .. }
            | Event::NodeLost { node, .. }
            | Event::OrphanGone { node, .. }
            | Event::SlotEnded { node, .. }
            | Event::NodeReconciled { node }
                if state.health.index.remediations.contains_key(node) =>
            {
                self.due.insert(node.clone());
            }
            _ => {}
        }
    }

    /// A node's missing GPUs are looked at a while after this moment, or when they already are to be.
    pub(super) fn absent_after(&mut self, node: &NodeName, at: Time) {
        if !self.absent_at.has(node) {
            self.absent_at.set(node, Some(at + super::absent::AGAIN));
        }
    }

    /// How much of which group is out may have changed.
    fn note_groups(&mut self, event: &Event, book: &HealthState) {
        let ended = |id: &u64| {
            let took =
                |r: &Remediation| r.action.takes_node() && r.step != RemediationStep::Proposed;
            book.remediations.get(id).is_some_and(|r| took(r))
        };
        let changed = match event {
            Event::NodeEnrolled { .. }
            | Event::NodeRetired { .. }
            | Event::NodeReady { .. }
            | Event::NodeLost { .. }
            | Event::NodeBack { .. }
            | Event::NodeUncordoned { .. }
            | Event::RunbookStepDone { took: Some(_), .. }
            | Event::TopologySet { .. }
            | Event::BreakerSet { .. }
            | Event::ReservationSet { .. }
            | Event::ReservationDeleted { .. }
            | Event::AutomationStopped { .. }
            | Event::AutomationResumed { .. }
            | Event::PolicySet { .. } => true,
            // One that was taken out by automation is counted where it is taken.
            Event::NodeStaged { by_operator, stage, .. } => *by_operator || *stage == Stage::Ready,
            Event::RemediationEnded { id, .. } => ended(id),
            _ => false,
        };
        if changed {
            self.groups = None;
            // Nothing is tried while automation is stopped; that it was is reported once.
            self.room |= book.automation.stopped.is_none();
        }
        self.all |= matches!(event, Event::PolicySet { .. });
        if matches!(
            event,
            Event::NodeEnrolled { .. }
                | Event::NodeRetired { .. }
                | Event::NodeReady { .. }
                | Event::NodeInventoried { .. }
                | Event::TopologySet { .. }
        ) {
            self.sizes.clear();
        }
    }

    /// Something has a moment of its own, or waited for this.
    fn note_moments(&mut self, event: &Event, book: &HealthState) {
        match event {
            Event::NodeStaged { node, .. }
            | Event::NodeReady { node, .. }
            | Event::NodeRetired { node }
            | Event::ProbationSet { node, .. } => {
                self.moved.insert(node.clone());
            }
            Event::RemediationChosen { remediation } => {
                self.moved.insert(remediation.node.clone());
            }
            Event::RemediationStepped { id, .. } | Event::RemediationEnded { id, .. } => {
                self.moved.extend(book.remediations.get(id).map(|r| r.node.clone()));
            }
            Event::BreakerSet { .. } => self.breakers_at = Some(Time(0)),
            Event::ActAsked { act } => self.acts_at.set(&act.id, Some(act.until)),
            Event::ActEnded { id, .. } => {
                self.acts_at.set(id, None);
                self.due.extend(book.acts.get(id).and_then(|a| a.act.node().cloned()));
            }
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
    /// Of those out, and of those taken within the hour, the ones that operators approved.
    pub(crate) out_approved: u32,
    pub(crate) hour_approved: u32,
    /// GPUs that automation isolated on the others, in thousandths of a node; and within the hour.
    pub(crate) parts: u32,
    pub(crate) parts_hour: u32,
    pub(crate) stopped: u32,
    /// Of these, behind a breaker.
    pub(crate) behind_breaker: u32,
}

impl Group {
    /// With what another has.
    pub(crate) fn plus(self, o: Group) -> Group {
        self.with(o, u32::saturating_add)
    }

    /// Without what another has.
    pub(crate) fn minus(self, o: Group) -> Group {
        self.with(o, u32::saturating_sub)
    }

    fn with(self, o: Group, f: impl Fn(u32, u32) -> u32) -> Group {
        Group {
            nodes: f(self.nodes, o.nodes),
            out: f(self.out, o.out),
            hour: f(self.hour, o.hour),
            out_approved: f(self.out_approved, o.out_approved),
            hour_approved: f(self.hour_approved, o.hour_approved),
            parts: f(self.parts, o.parts),
            parts_hour: f(self.parts_hour, o.parts_hour),
            stopped: f(self.stopped, o.stopped),
            behind_breaker: f(self.behind_breaker, o.behind_breaker),
        }
    }
}
