//! Power: what racks and feeds may draw, and what the work on them draws at full load.

use crate::fleet::Fleet;
use crate::node::{Ask, Entry, Part};
use crate::place::Query;
use muster_model::placement::AllocatedPart;
use muster_model::policy::{OverBudget, Power};
use muster_model::topology::Level;
use std::collections::{BTreeMap, BTreeSet};

/// Draw at full load in watts, for GPUs that the policy does not name (vendors' data sheets).
#[must_use]
pub fn rated(sku: &str) -> u32 {
    let table: [(&str, u32); 12] = [
        ("gb300", 1400),
        ("gb200", 1200),
        ("b300", 1400),
        ("b200", 1000),
        ("h200", 700),
        ("h100-pcie", 350),
        ("h100", 700),
        ("a100-pcie", 300),
        ("a100", 400),
        ("l40s", 350),
        ("v100", 300),
        ("mi300", 750),
    ];
    table.iter().find(|(name, _)| sku.starts_with(name)).map_or(500, |(_, w)| *w)
}

/// What a rack may draw: the policy names it by its whole path, or by its last name.
#[must_use]
pub fn rack_budget(policy: &Power, path: &str, rack: &str) -> Option<u64> {
    policy.racks.get(path).or_else(|| policy.racks.get(rack)).copied()
}

/// What may hold a budget.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum PowerDomain {
    Feed(String),
    Rack(String),
}

/// Draw of the placed work by feed and rack, where there are budgets.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Meter {
    policy: Power,
    used: BTreeMap<PowerDomain, u64>,
}

impl Meter {
    pub(crate) fn new(policy: &Power) -> Meter {
        Meter { policy: policy.clone(), used: BTreeMap::new() }
    }

    pub(crate) fn emptied(&self) -> Meter {
        Meter::new(&self.policy)
    }

    pub(crate) fn policy(&self) -> &Power {
        &self.policy
    }

    /// Are there budgets at all?
    pub(crate) fn on(&self) -> bool {
        !self.policy.feeds.is_empty() || !self.policy.racks.is_empty()
    }

    fn gpu_watts(&self, sku: &str) -> u64 {
        u64::from(self.policy.gpu_watts.get(sku).copied().unwrap_or_else(|| rated(sku)))
    }

    /// Draw of what runs on a node.
    fn draw(&self, e: &Entry) -> u64 {
        if e.holds.is_empty() {
            return 0;
        }
        let milli: u64 = e
            .holds
            .iter()
            .map(|h| match &h.part {
                None => u64::from(h.gpus.len()) * 1000,
                Some(AllocatedPart::Milli(m)) => u64::from(*m),
                Some(AllocatedPart::Mig { size, .. }) => u64::from(*size) * 125,
            })
            .sum();
        u64::from(self.policy.node_watts) + milli * self.gpu_watts(&e.facts.sku) / 1000
    }

    /// What one more share would add to a node's draw.
    pub(crate) fn adds(&self, e: &Entry, a: &Ask) -> u64 {
        let milli = match a.part {
            None => u64::from(a.gpus) * 1000,
            Some(Part::Milli(m)) => u64::from(m),
            Some(Part::Mig(_, m)) => u64::from(m) * 125,
        };
        let host = if e.holds.is_empty() { u64::from(self.policy.node_watts) } else { 0 };
        host + milli * self.gpu_watts(&e.facts.sku) / 1000
    }

    /// What a share would draw on a node with nothing else on it.
    fn alone(&self, e: &Entry, a: &Ask) -> u64 {
        let host = u64::from(self.policy.node_watts);
        self.adds(e, a) + if e.holds.is_empty() { 0 } else { host }
    }

    /// Places of a node that have a budget, with it.
    pub(crate) fn budgets(&self, e: &Entry) -> Vec<(PowerDomain, u64)> {
        let mut out = Vec::new();
        let l = &e.facts.location;
        if let Some(b) = self.policy.feeds.get(&l.feed) {
            out.push((PowerDomain::Feed(l.feed.clone()), *b));
        }
        if !self.policy.racks.is_empty() {
            let path = l.path(&e.facts.name, Level::Rack).join("/");
            if let Some(b) = rack_budget(&self.policy, &path, &l.rack) {
                out.push((PowerDomain::Rack(path), b));
            }
        }
        out
    }

    /// Counts a node's draw in, or out.
    pub(crate) fn count(&mut self, e: &Entry, up: bool) {
        if !self.on() {
            return;
        }
        let w = self.draw(e);
        if w == 0 {
            return;
        }
        for (place, _) in self.budgets(e) {
            let u = self.used.entry(place.clone()).or_default();
            *u = if up { *u + w } else { u.saturating_sub(w) };
            if *u == 0 {
                self.used.remove(&place);
            }
        }
    }

    pub(crate) fn used(&self, p: &PowerDomain) -> u64 {
        self.used.get(p).copied().unwrap_or(0)
    }

    /// Are starts refused that pass a budget (rather than capped)?
    pub(crate) fn refuses(&self) -> bool {
        self.policy.over_budget == OverBudget::Refuse
    }
}

impl Fleet {
    /// How many nodes of the gang the budgets carry at most on the nodes that pass for a share, if
    /// nothing else ran; none where they carry all of it.
    pub(crate) fn unpowered(&self, q: &Query<'_>, test: fn(&Entry, &Ask) -> bool) -> Option<usize> {
        if !self.meter.on() || !self.meter.refuses() {
            return None;
        }
        let all: usize = q.asks.iter().map(|a| a.nodes as usize).sum();
        let mut most = 0;
        for n in self.powered(q, test) {
            if n == all {
                return None;
            }
            most = most.max(n);
        }
        Some(most)
    }

    /// The same where no budget ever carries all of it. The first nodes may draw so much that nothing
    /// fits beside them: those in service are looked at alone, too.
    pub(crate) fn never_powered(&self, q: &Query<'_>) -> Option<usize> {
        let most = self.unpowered(q, Entry::ever_capable)?;
        Some(most.max(self.unpowered(q, Entry::takes)?))
    }

    /// The same for each domain that the gang may be in.
    fn powered<'a>(
        &'a self,
        q: &'a Query<'_>,
        test: fn(&Entry, &Ask) -> bool,
    ) -> Box<dyn Iterator<Item = usize> + 'a> {
        match q.demand.widest() {
            Level::Node => Box::new(self.entries().map(move |e| self.carried(q, &[e], test))),
            l => Box::new(self.level(l).map(move |d| {
                let nodes: Vec<&Entry> = d.nodes.iter().map(|p| self.entry(p.ix)).collect();
                self.carried(q, &nodes, test)
            })),
        }
    }

    /// How many nodes of the gang the budgets carry on these nodes.
    fn carried(&self, q: &Query<'_>, nodes: &[&Entry], test: fn(&Entry, &Ask) -> bool) -> usize {
        let m = &self.meter;
        let mut used: BTreeMap<PowerDomain, u64> = BTreeMap::new();
        let mut taken: BTreeSet<u32> = BTreeSet::new();
        for a in &q.asks {
            let mut need = a.nodes;
            for e in nodes.iter().filter(|e| test(e, a)) {
                if need == 0 {
                    break;
                }
                let (w, places) = (m.alone(e, a), m.budgets(e));
                let would = |p: &PowerDomain| used.get(p).copied().unwrap_or(0) + w;
                if taken.contains(&e.pos.ix) || places.iter().any(|(p, b)| would(p) > *b) {
                    continue;
                }
                for (p, _) in places {
                    *used.entry(p).or_default() += w;
                }
                taken.insert(e.pos.ix);
                need -= 1;
            }
        }
        taken.len()
    }
}

/// Draw that a gang under way of being placed adds, node by node.
#[derive(Debug, Default)]
pub(crate) struct Added {
    watts: BTreeMap<PowerDomain, u64>,
    /// Lowest part of the full draw that a budget leaves, in thousandths.
    pub(crate) cap_milli: Option<u64>,
}

impl Added {
    /// Adds a share on a node if the budgets allow it.
    pub(crate) fn allow(&mut self, m: &Meter, e: &Entry, a: &Ask) -> bool {
        if !m.on() {
            return true;
        }
        let w = m.adds(e, a);
        let places = m.budgets(e);
        for (p, budget) in &places {
            let would = m.used(p) + self.watts.get(p).copied().unwrap_or(0) + w;
            if would > *budget {
                if m.refuses() {
                    return false;
                }
                let part = budget * 1000 / would.max(1);
                self.cap_milli = Some(self.cap_milli.map_or(part, |c| c.min(part)));
            }
        }
        for (p, _) in places {
            *self.watts.entry(p).or_default() += w;
        }
        true
    }
}
