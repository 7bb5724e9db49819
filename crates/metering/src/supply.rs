//! Which GPUs there are, and which of them are in service, as the log shows.

use crate::days::Calendar;
use muster_model::event::{Event, Record};
use muster_model::names::NodeName;
use muster_model::node::{Inventory, Node, Stage, excluded_by_operator};
use muster_model::placement::GpuSet;
use muster_model::slo::{Cause, NodeServiceFacts};
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// How a node stands, as far as it matters for its GPUs.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NodeSupply {
    sku: String,
    present: GpuSet,
    /// Those it had and does not report any more.
    missing: GpuSet,
    excluded: GpuSet,
    /// Those of the excluded ones that an operator excluded.
    #[serde(default)]
    by_operator: GpuSet,
    footing: NodeServiceFacts,
}

fn gpus(i: &Inventory) -> GpuSet {
    let bits = i.gpus.iter().filter(|g| g.index < 64);
    GpuSet(bits.fold(0, |set, g| set | 1 << g.index))
}

impl NodeSupply {
    fn fresh() -> NodeSupply {
        NodeSupply {
            sku: String::new(),
            present: GpuSet::EMPTY,
            missing: GpuSet::EMPTY,
            excluded: GpuSet::EMPTY,
            by_operator: GpuSet::EMPTY,
            footing: NodeServiceFacts::FRESH,
        }
    }

    pub(crate) fn of(n: &Node) -> NodeSupply {
        NodeSupply {
            sku: n.sku().to_owned(),
            present: gpus(&n.inventory),
            missing: n.missing_set(),
            excluded: n.excluded_gpus,
            by_operator: n.excluded_by_operator,
            footing: NodeServiceFacts::from(n),
        }
    }

    /// Its GPUs by how they count.
    fn counts(&self) -> Vec<(Option<Cause>, u64)> {
        let Some(how) = self.footing.service() else { return Vec::new() };
        let n = |set: GpuSet| u64::from(set.len());
        let excluded = self.excluded.and(self.present);
        let rest = n(self.present.minus(excluded));
        let all = match how {
            Ok(()) => vec![
                (None, rest),
                (Some(Cause::Quarantine), n(excluded.minus(self.by_operator))),
                (Some(Cause::Operator), n(excluded.and(self.by_operator))),
            ],
            Err(cause) => vec![(Some(cause), n(self.present))],
        };
        let missing = (Some(Cause::Hardware), n(self.missing));
        all.into_iter().chain([missing]).filter(|(_, n)| *n > 0).collect()
    }

    fn inventoried(&mut self, i: &Inventory) {
        let now = gpus(i);
        self.missing = self.present.or(self.missing).minus(now);
        self.present = now;
        if let Some(g) = i.gpus.first() {
            self.sku.clone_from(&g.sku);
        } else if self.sku.is_empty() {
            "cpu".clone_into(&mut self.sku);
        }
    }
}

/// GPUs that stand alike: by kind, and by why they are out of service.
pub type Counts = BTreeMap<String, BTreeMap<Option<Cause>, u64>>;

/// Every node as it stands, and what follows from all of them.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct Nodes {
    nodes: BTreeMap<NodeName, NodeSupply>,
    /// Counted until then.
    at: Time,
    /// Follows from the nodes.
    #[serde(skip)]
    counts: Option<Counts>,
}

fn counted(nodes: &BTreeMap<NodeName, NodeSupply>) -> Counts {
    let mut out = Counts::new();
    for s in nodes.values() {
        for (how, n) in s.counts() {
            *out.entry(s.sku.clone()).or_default().entry(how).or_default() += n;
        }
    }
    out
}

impl Nodes {
    pub(crate) fn begin<'a>(at: Time, nodes: impl IntoIterator<Item = &'a Node>) -> Nodes {
        let nodes = nodes.into_iter().map(|n| (n.name.clone(), NodeSupply::of(n))).collect();
        Nodes { nodes, at, counts: None }
    }

    /// GPUs as they stand now.
    pub(crate) fn counts(&self) -> Counts {
        self.counts.clone().unwrap_or_else(|| counted(&self.nodes))
    }

    /// Puts the time since it was last counted into a calendar, and stays as it is.
    pub(crate) fn spread(&self, to: Time, calendar: &mut Calendar) {
        let counts = self.counts();
        // Before the first record there was nothing.
        if self.at == Time(0) || counts.is_empty() {
            return;
        }
        calendar.spread(self.at, to, |b, ms| {
            for (sku, hows) in &counts {
                let supply = b.supply(sku);
                for (how, n) in hows {
                    *supply.of(*how) += u128::from(*n) * 1000 * u128::from(ms);
                }
            }
        });
    }

    /// Counts the time up to a moment.
    pub(crate) fn settle(&mut self, to: Time, calendar: &mut Calendar) {
        if to > self.at {
            self.spread(to, calendar);
            self.at = to;
        }
    }

    fn change(
        &mut self,
        r: &Record,
        node: &NodeName,
        c: &mut Calendar,
        f: impl FnOnce(&mut NodeSupply),
    ) {
        let Some(stand) = self.nodes.get(node) else { return };
        let before = stand.clone();
        let mut now = before.clone();
        f(&mut now);
        self.put(r.at, node, Some(before), now, c);
    }

    fn put(
        &mut self,
        at: Time,
        node: &NodeName,
        was: Option<NodeSupply>,
        now: NodeSupply,
        c: &mut Calendar,
    ) {
        let (old, new) = (was.as_ref().map(NodeSupply::counts).unwrap_or_default(), now.counts());
        let same = was.as_ref().is_some_and(|w| w.sku == now.sku) && old == new;
        if !same {
            if self.counts.is_none() {
                self.counts = Some(counted(&self.nodes));
            }
            self.settle(at, c);
            let counts = self.counts.get_or_insert_default();
            if let Some(was) = &was {
                let hows = counts.entry(was.sku.clone()).or_default();
                for (how, n) in old {
                    let left = hows.entry(how).or_default();
                    *left = left.saturating_sub(n);
                }
                hows.retain(|_, n| *n > 0);
            }
            let hows = counts.entry(now.sku.clone()).or_default();
            for (how, n) in new {
                *hows.entry(how).or_default() += n;
            }
            counts.retain(|_, hows| !hows.is_empty());
        }
        self.nodes.insert(node.clone(), now);
    }

    /// Folds one record in.
    pub(crate) fn apply(&mut self, r: &Record, c: &mut Calendar) {
        let stage = |s: Stage| move |n: &mut NodeSupply| n.footing.stage = s;
        match &r.event {
            Event::NodeEnrolled { node, .. } => {
                let was = self.nodes.get(node).cloned();
                // The same machine that enrols again keeps its life.
                if was.as_ref().is_none_or(|n| n.footing.stage == Stage::Retired) {
                    self.put(r.at, node, was, NodeSupply::fresh(), c);
                }
            }
            Event::NodeBack { node, protected, .. } => self.change(r, node, c, |n| {
                n.footing.reachable = true;
                n.footing.protected = *protected;
            }),
            Event::NodeInventoried { node, inventory } => {
                self.change(r, node, c, |n| n.inventoried(inventory));
            }
            Event::NodeLost { node, .. } => {
                self.change(r, node, c, |n| n.footing.reachable = false);
            }
            Event::NodeCordoned { node, decided, .. } => self.change(r, node, c, |n| {
                n.footing.cordoned = true;
                n.footing.failed_test = *decided;
            }),
            Event::NodeUncordoned { node, .. } => {
                self.change(r, node, c, |n| n.footing.cordoned = false);
            }
            Event::DrainStarted { node, .. } => self.change(r, node, c, |n| {
                n.footing.stage = Stage::Draining;
                n.footing.drained_by_remediation = false;
            }),
            Event::NodeDrained { node } => self.change(r, node, c, stage(Stage::Drained)),
            Event::NodeReady { node, .. } => self.change(r, node, c, stage(Stage::Ready)),
            Event::NodeStaged { node, stage, by_operator, .. } => self.change(r, node, c, |n| {
                let f = &mut n.footing;
                let was = (f.stage, f.drained_by_remediation);
                f.drained_by_remediation =
                    NodeServiceFacts::drained_by_remediation(was, *stage, *by_operator);
                f.stage = *stage;
            }),
            Event::NodeRetired { node } => self.change(r, node, c, |n| {
                n.footing.stage = Stage::Retired;
                n.footing.reachable = false;
            }),
            Event::NodeReconciled { node } => {
                self.change(r, node, c, |n| n.footing.protected = false);
            }
            Event::NodeMarked { node, role, .. } => {
                self.change(r, node, c, |n| n.footing.role = *role);
            }
            Event::QualificationAsked { node, .. } => {
                self.change(r, node, c, |n| n.footing.testing = true);
            }
            Event::QualificationEnded { node, .. } | Event::QualificationCancelled { node, .. } => {
                self.change(r, node, c, |n| n.footing.testing = false);
            }
            Event::GpusExcluded { node, gpus, by_operator, .. } => self.change(r, node, c, |n| {
                let was = (n.excluded, n.by_operator);
                n.by_operator = excluded_by_operator(was, *gpus, *by_operator);
                n.excluded = *gpus;
            }),
            _ => {}
        }
    }
}
