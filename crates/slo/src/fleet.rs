//! Which nodes are in service, and since when: availability counts time, not events.

use crate::ledger::{Ledger, Series};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::slo::{Cause, NodeServiceFacts, Scope, Sli};
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node as it counts.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
struct NodeServiceState {
    pool: String,
    /// Out of service, and why.
    out: Option<Cause>,
}

/// All nodes, as they count.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Fleet {
    nodes: BTreeMap<NodeName, NodeServiceState>,
    /// Counted until then.
    at: Time,
    /// How many stand alike; follows from the nodes.
    #[serde(skip)]
    alike: Option<BTreeMap<NodeServiceState, u64>>,
}

impl Fleet {
    fn alike(&mut self) -> &mut BTreeMap<NodeServiceState, u64> {
        let nodes = &self.nodes;
        self.alike.get_or_insert_with(|| {
            let mut alike = BTreeMap::new();
            for s in nodes.values() {
                *alike.entry(s.clone()).or_default() += 1;
            }
            alike
        })
    }

    /// A node may stand differently since a moment. What was before has to be counted first.
    pub fn set(&mut self, node: &Node) {
        let now = NodeServiceFacts::from(node)
            .service()
            .map(|how| NodeServiceState { pool: node.pool().to_owned(), out: how.err() });
        let before = self.nodes.get(&node.name).cloned();
        if before == now {
            return;
        }
        let alike = self.alike();
        if let Some(s) = before
            && let Some(n) = alike.get_mut(&s)
        {
            *n -= 1;
            if *n == 0 {
                alike.remove(&s);
            }
        }
        if let Some(s) = &now {
            *alike.entry(s.clone()).or_default() += 1;
        }
        match now {
            Some(s) => self.nodes.insert(node.name.clone(), s),
            None => self.nodes.remove(&node.name),
        };
    }

    /// Counts the time up to a moment.
    pub fn settle(&mut self, ledger: &mut Ledger, watch: &[Series], now: Time) {
        self.alike();
        self.spread(ledger, watch, now);
        self.at = self.at.max(now);
    }

    /// Puts the time since it was last counted into a ledger, and stays as it is.
    pub fn spread(&self, ledger: &mut Ledger, watch: &[Series], now: Time) {
        let of = |s: &NodeServiceState, n: u64, ledger: &mut Ledger| {
            let mine =
                |w: &&Series| w.sli == Sli::NodeAvailability && w.scope.admits(None, Some(&s.pool));
            for series in watch.iter().filter(mine) {
                ledger.spread((self.at, now), series, n, s.out.map_or(Ok(()), Err));
            }
        };
        match &self.alike {
            Some(alike) => alike.iter().for_each(|(s, n)| of(s, *n, ledger)),
            None => self.nodes.values().for_each(|s| of(s, 1, ledger)),
        }
    }

    /// Nodes of a scope that are out of service, whatever the cause, and how many count there.
    #[must_use]
    pub fn out_of_service(&self, scope: &Scope) -> (Vec<NodeName>, u64) {
        let mut all = 0;
        let mut out = Vec::new();
        for (name, s) in self.nodes.iter().filter(|(_, s)| scope.admits(None, Some(&s.pool))) {
            all += 1;
            out.extend(s.out.map(|_| name.clone()));
        }
        (out, all)
    }

    /// Counted until then.
    #[must_use]
    pub fn at(&self) -> Time {
        self.at
    }
}
