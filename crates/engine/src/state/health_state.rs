//! Findings, incidents, breakers, remediations and acts, as the log adds them up.

use muster_health::breaker::Count;
use muster_health::lemon::Record;
use muster_model::breaker::Breaker;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, Incident};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::remediation::{Act, Action, AskedAct, Remediation, RemediationStep};
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Closed findings that are kept in the working state; the log keeps all.
pub(crate) const FINDINGS_KEPT: usize = 4096;
/// Closed incidents that are kept.
pub(crate) const INCIDENTS_KEPT: usize = 512;
/// Ended remediations that are kept.
pub(crate) const REMEDIATIONS_KEPT: usize = 2048;
/// Ended acts that are kept.
pub(crate) const ACTS_KEPT: usize = 1024;

/// Everything that is known of what is wrong.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HealthState {
    /// Findings: all that are open, and those closed lately.
    pub findings: BTreeMap<u64, Arc<Finding>>,
    /// Incidents: all that are open, and those closed lately.
    pub incidents: BTreeMap<u64, Arc<Incident>>,
    /// Breakers that are not closed, or that remember having been open.
    pub breakers: BTreeMap<Entity, Arc<Breaker>>,
    /// Remediations: all that go on, and those that ended lately.
    pub remediations: BTreeMap<u64, Arc<Remediation>>,
    /// Acts: all that are under way, and those that ended lately.
    pub acts: BTreeMap<u64, Arc<AskedAct>>,
    /// The status of automation.
    pub automation: Automation,
    /// How long each node worked and what ended work there, over four weeks.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub records: BTreeMap<NodeName, Arc<Record>>,
    /// Failures that nothing explains, of work and of nodes.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub counts: BTreeMap<Entity, Count>,
    /// Nodes that the control plane itself keeps for small work.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub lemons: BTreeSet<NodeName>,
    /// Derived from the above; never stored.
    #[serde(skip)]
    pub(crate) index: HealthIndex,
}

/// The status of automation.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Automation {
    /// It does nothing more until an operator resumes it.
    pub stopped: Option<AutomationStop>,
    /// Nodes it took out of service within the last hour, and when.
    pub taken: VecDeque<(Time, NodeName)>,
    /// Findings that asked for a node, within the storm's window.
    pub asked: VecDeque<(Time, NodeName)>,
    /// When it was last resumed.
    pub resumed_at: Option<Time>,
    /// Nodes that runs of runbooks took from work by themselves.
    #[serde(skip_serializing_if = "BTreeSet::is_empty")]
    pub runs: BTreeSet<NodeName>,
}

/// Why automation does nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AutomationStop {
    /// When it was stopped.
    pub at: Time,
    /// Why, for people.
    pub reason: String,
    /// An operator's word.
    #[serde(default)]
    pub by_operator: bool,
}

/// Ways to what is open.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct HealthIndex {
    /// Open findings by what they are about.
    pub(crate) open: BTreeMap<Entity, BTreeSet<u64>>,
    /// How many there are.
    pub(crate) open_count: usize,
    /// Open findings by the node they are on.
    pub(crate) on_node: BTreeMap<NodeName, BTreeSet<u64>>,
    /// Open incidents.
    pub(crate) incidents: BTreeSet<u64>,
    /// Remediations that go on, by node.
    pub(crate) remediations: BTreeMap<NodeName, BTreeSet<u64>>,
    /// And all that are kept.
    pub(crate) remediations_ever: BTreeMap<NodeName, BTreeSet<u64>>,
    /// Acts that are under way.
    pub(crate) acts: BTreeSet<u64>,
    /// When somebody was last notified of something, by its title.
    pub(crate) pages: BTreeMap<String, Time>,
    /// What is closed, in the order it was: candidates for being forgotten.
    pub(crate) closed_findings: BTreeSet<(Time, u64)>,
    pub(crate) closed_incidents: BTreeSet<(Time, u64)>,
    pub(crate) ended_remediations: BTreeSet<(Time, u64)>,
    pub(crate) ended_acts: BTreeSet<(Time, u64)>,
}

impl HealthState {
    /// Builds the ways anew, after the state was read from a snapshot.
    pub(crate) fn reindex(&mut self) {
        let mut ix = HealthIndex::default();
        for f in self.findings.values() {
            ix.finding(f);
        }
        for i in self.incidents.values() {
            match &i.closed {
                None => ix.incidents.insert(i.id),
                Some(c) => ix.closed_incidents.insert((c.at, i.id)),
            };
        }
        for r in self.remediations.values() {
            ix.remediation(r);
        }
        for a in self.acts.values() {
            ix.act(a);
        }
        self.index = ix;
    }

    /// Findings that are open, oldest first.
    pub fn open(&self) -> impl Iterator<Item = &Arc<Finding>> {
        let ids: BTreeSet<u64> = self.index.open.values().flatten().copied().collect();
        ids.into_iter().filter_map(|id| self.findings.get(&id))
    }

    /// How many findings are open.
    #[must_use]
    pub fn open_count(&self) -> usize {
        self.index.open_count
    }

    /// Open findings about a node, its GPUs and its ports.
    pub fn open_on(&self, node: &NodeName) -> impl Iterator<Item = &Arc<Finding>> {
        let ids = self.index.on_node.get(node).into_iter().flatten();
        ids.filter_map(|id| self.findings.get(id))
    }

    /// The open finding of a kind about something.
    #[must_use]
    pub fn open_of(&self, entity: &Entity, kind: &str) -> Option<&Arc<Finding>> {
        let ids = self.index.open.get(entity)?;
        ids.iter().filter_map(|id| self.findings.get(id)).find(|f| f.seen.kind == kind)
    }

    /// Incidents that are open, oldest first.
    pub fn open_incidents(&self) -> impl Iterator<Item = &Arc<Incident>> {
        self.index.incidents.iter().filter_map(|id| self.incidents.get(id))
    }

    /// Is one of an incident's findings open? Only the first of very many are listed with it.
    pub(crate) fn is_live(&self, i: &Incident) -> bool {
        let of_it = |f: &Arc<Finding>| f.closed.is_none() && f.incident == Some(i.id);
        i.findings.iter().any(|f| self.findings.get(f).is_some_and(of_it))
            || i.count > i.findings.len() as u64 && self.open().any(of_it)
    }

    /// Incidents that became part of another one, and those that were part of them by then, as far as
    /// they are kept.
    #[must_use]
    pub fn parts_of(&self, id: u64) -> Vec<Arc<Incident>> {
        let joined = self.incidents.values().filter_map(|i| Some((i.part_of?, Some(i))));
        let mut joined: Vec<(u64, Option<&Arc<Incident>>)> = joined.collect();
        joined.sort_by_key(|(whole, _)| *whole);
        let mut parts: Vec<Arc<Incident>> = Vec::new();
        let mut wholes = vec![id];
        while let Some(whole) = wholes.pop() {
            // Each is looked at once: what this costs grows with the incidents that are kept.
            let first = joined.partition_point(|(of, _)| *of < whole);
            let of_it = joined[first..].iter_mut().take_while(|(of, _)| *of == whole);
            for part in of_it.filter_map(|(_, part)| part.take()) {
                wholes.push(part.id);
                parts.push(Arc::clone(part));
            }
        }
        parts
    }

    /// Were incidents or findings that were over after this moment left out of the working state?
    #[must_use]
    pub fn has_forgotten_since(&self, from: Time) -> bool {
        let full = |over: &BTreeSet<(Time, u64)>, kept: usize| {
            over.len() >= kept && over.first().is_some_and(|(at, _)| *at > from)
        };
        full(&self.index.closed_incidents, INCIDENTS_KEPT)
            || full(&self.index.closed_findings, FINDINGS_KEPT)
    }

    /// Remediations of a node that go on, oldest first.
    pub fn remediations_of(&self, node: &NodeName) -> impl Iterator<Item = &Arc<Remediation>> {
        let ids = self.index.remediations.get(node).into_iter().flatten();
        ids.filter_map(|id| self.remediations.get(id))
    }

    /// Does a remediation wait to be allowed to take this node, or a GPU of it?
    #[must_use]
    pub fn waits_on(&self, node: &NodeName) -> bool {
        self.waiting_on(node).is_some()
    }

    /// The first remediation that waits to be allowed to take this node, or a GPU of it.
    pub(crate) fn waiting_on(&self, node: &NodeName) -> Option<&Arc<Remediation>> {
        self.remediations_of(node).find(|r| waits(r))
    }

    /// Was only allocation stopped on a node? It gets no new work, and automation has not taken it:
    /// what is to be done there waits, or was denied.
    #[must_use]
    pub fn is_stopped(&self, n: &Node) -> bool {
        let took = |r: &Remediation| {
            let early = matches!(r.step, RemediationStep::Proposed | RemediationStep::Probation);
            r.action.takes_node() && !early
        };
        n.stage == Stage::Suspect && !self.remediations_of(&n.name).any(|r| took(r))
    }

    /// Does only a breaker that the machine opened keep new work from it? Automation has not taken such
    /// a node: what runs there goes on, and it needs no remediation to take work again.
    pub(crate) fn is_behind_breaker(&self, n: &Node) -> bool {
        let word = |e: &Entity| self.breakers.get(e).is_some_and(|b| b.pinned.is_some());
        n.reachable && n.breaker.as_ref().is_some_and(|e| !word(e)) && !self.is_out(n)
    }

    /// Is it out of service by automation? This is what the limits allow so many of, and what people are
    /// shown as the nodes that automation has out. One that a breaker keeps from new work is not.
    pub(crate) fn is_out(&self, n: &Node) -> bool {
        if matches!(n.stage, Stage::Quarantined | Stage::Repairing)
            || n.stage == Stage::Suspect && !self.is_stopped(n)
        {
            return true;
        }
        if self.automation.runs.contains(&n.name) && (n.stage != Stage::Ready || n.cordon.is_some())
        {
            return true;
        }
        self.remediations_of(&n.name).any(|r| {
            r.action.takes_node()
                && !matches!(
                    r.step,
                    RemediationStep::Proposed | RemediationStep::Probation | RemediationStep::Ended
                )
        })
    }

    /// Remediations of a node that are kept, also those that ended, oldest first.
    pub(crate) fn remediations_ever(
        &self,
        node: &NodeName,
    ) -> impl Iterator<Item = &Arc<Remediation>> {
        let ids = self.index.remediations_ever.get(node).into_iter().flatten();
        ids.filter_map(|id| self.remediations.get(id))
    }

    /// Remediations that go on, oldest first.
    pub fn live_remediations(&self) -> impl Iterator<Item = &Arc<Remediation>> {
        let ids: BTreeSet<u64> = self.index.remediations.values().flatten().copied().collect();
        ids.into_iter().filter_map(|id| self.remediations.get(&id))
    }

    /// Acts that are under way, oldest first.
    pub fn open_acts(&self) -> impl Iterator<Item = &Arc<AskedAct>> {
        self.index.acts.iter().filter_map(|id| self.acts.get(id))
    }

    /// The reset, reboot or power cycle that goes on with a node. Nothing stops it, so the node takes
    /// no work before it is over, whoever asks.
    pub(crate) fn act_under_way(&self, node: &NodeName) -> Option<&Arc<AskedAct>> {
        self.acts_under_way(node).next()
    }

    /// All of them, oldest first.
    pub(crate) fn acts_under_way(&self, node: &NodeName) -> impl Iterator<Item = &Arc<AskedAct>> {
        let done_to = move |a: &Act| match a {
            Act::ResetGpu { node: n, .. }
            | Act::Reboot { node: n, .. }
            | Act::PowerCycle { node: n, .. } => n == node,
            Act::Ticket { .. } | Act::Page { .. } => false,
        };
        self.open_acts().filter(move |a| done_to(&a.act))
    }
}

impl HealthIndex {
    pub(crate) fn finding(&mut self, f: &Finding) {
        match &f.closed {
            None => {
                let new = self.open.entry(f.seen.entity.clone()).or_default().insert(f.id);
                self.open_count += usize::from(new);
                if let Some(n) = f.seen.entity.node() {
                    self.on_node.entry(n.clone()).or_default().insert(f.id);
                }
            }
            Some(c) => {
                let was = drop_from(&mut self.open, &f.seen.entity, f.id);
                self.open_count -= usize::from(was);
                if let Some(n) = f.seen.entity.node() {
                    drop_from(&mut self.on_node, n, f.id);
                }
                self.closed_findings.insert((c.at, f.id));
            }
        }
    }

    pub(crate) fn remediation(&mut self, r: &Remediation) {
        self.remediations_ever.entry(r.node.clone()).or_default().insert(r.id);
        if r.outcome.is_some() {
            drop_from(&mut self.remediations, &r.node, r.id);
            self.ended_remediations.insert((r.since, r.id));
        } else {
            self.remediations.entry(r.node.clone()).or_default().insert(r.id);
        }
    }

    /// A remediation is not kept any more.
    pub(crate) fn forget_remediation(&mut self, r: &Remediation) {
        drop_from(&mut self.remediations_ever, &r.node, r.id);
    }

    pub(crate) fn act(&mut self, a: &AskedAct) {
        match &a.ended {
            None => self.acts.insert(a.id),
            Some(e) => self.ended_acts.insert((e.at, a.id)),
        };
        if let Act::Page { title, .. } = &a.act {
            let last = self.pages.entry(title.clone()).or_insert(a.at);
            *last = a.at.max(*last);
        }
    }

    /// An act is not kept any more.
    pub(crate) fn forget_act(&mut self, a: &AskedAct) {
        if let Act::Page { title, .. } = &a.act
            && self.pages.get(title) == Some(&a.at)
        {
            self.pages.remove(title);
        }
    }
}

/// Does a remediation wait to be allowed to take its node, or its GPU?
fn waits(r: &Remediation) -> bool {
    r.step == RemediationStep::Proposed && r.action >= Action::IsolateGpu && r.outcome.is_none()
}

/// Says whether it was there.
fn drop_from<K: Ord>(map: &mut BTreeMap<K, BTreeSet<u64>>, key: &K, id: u64) -> bool {
    let Some(set) = map.get_mut(key) else { return false };
    let was = set.remove(&id);
    if set.is_empty() {
        map.remove(key);
    }
    was
}
