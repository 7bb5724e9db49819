//! The places of a generated fleet, for checks that need to know them.

use super::{FleetSpec, Scope, Spares};
use muster_model::topology::{Level, Topology};
use muster_specs::generate;
use std::cell::OnceCell;
use std::collections::{BTreeMap, BTreeSet};

/// Trays of an NVL72 rack, and GPUs of a tray.
const TRAYS: u32 = 18;
const TRAY_GPUS: u32 = 4;

/// What can be said about a fleet before its files are read.
pub(super) struct Ground<'a> {
    fleet: &'a FleetSpec,
    topology: OnceCell<Option<Topology>>,
}

impl<'a> Ground<'a> {
    pub(super) fn new(fleet: &'a FleetSpec) -> Ground<'a> {
        Ground { fleet, topology: OnceCell::new() }
    }

    /// Nodes, where a file does not say how many.
    pub(super) fn nodes(&self) -> Option<u32> {
        match self.fleet {
            FleetSpec::Hgx { nodes, .. } => Some(*nodes),
            FleetSpec::Nvl72 { racks, .. } => Some(racks.saturating_mul(TRAYS)),
            FleetSpec::Topology { .. } | FleetSpec::Openb { .. } => None,
        }
    }

    /// GPUs of a node, where all have as many.
    pub(super) fn node_gpus(&self) -> Option<u32> {
        match self.fleet {
            FleetSpec::Hgx { gpus_per_node, .. } | FleetSpec::Topology { gpus_per_node, .. } => {
                Some(*gpus_per_node)
            }
            FleetSpec::Nvl72 { .. } => Some(TRAY_GPUS),
            FleetSpec::Openb { .. } => None,
        }
    }

    pub(super) fn spares(&self) -> Option<&'a Spares> {
        match self.fleet {
            FleetSpec::Hgx { spares, .. }
            | FleetSpec::Nvl72 { spares, .. }
            | FleetSpec::Topology { spares, .. } => Some(spares),
            FleetSpec::Openb { .. } => None,
        }
    }

    /// Nodes that are no spares, as far as that is known.
    pub(super) fn room(&self) -> Option<u32> {
        match self.spares() {
            Some(Spares::Count(n)) => Some(self.nodes()?.saturating_sub(*n)),
            _ => self.nodes(),
        }
    }

    /// GPUs of the nodes that are no spares.
    pub(super) fn gpus(&self) -> Option<u64> {
        Some(u64::from(self.room()?) * u64::from(self.node_gpus()?))
    }

    fn topology(&self) -> Option<&Topology> {
        let make = || match self.fleet {
            FleetSpec::Hgx { nodes, gpus_per_node, .. } => {
                Some(generate::hgx(*nodes, *gpus_per_node))
            }
            FleetSpec::Nvl72 { racks, .. } => Some(generate::nvl72(*racks)),
            FleetSpec::Topology { .. } | FleetSpec::Openb { .. } => None,
        };
        self.topology.get_or_init(make).as_ref()
    }

    /// Nodes of the largest domain of a level.
    pub(super) fn largest(&self, level: Level) -> Option<u32> {
        let mut sizes: BTreeMap<Vec<&str>, u32> = BTreeMap::new();
        for (node, location) in &self.topology()?.nodes {
            *sizes.entry(location.path(node, level)).or_default() += 1;
        }
        sizes.into_values().max()
    }

    /// Names of the places that an incident of a scope can be on.
    pub(super) fn scope_names(&self, scope: Scope) -> Option<BTreeSet<String>> {
        let nodes = self.topology()?.nodes.iter();
        Some(match scope {
            Scope::Node => nodes.map(|(n, _)| n.to_string()).collect(),
            Scope::Rack => nodes.flat_map(|(_, l)| [l.rack.clone(), l.nvlink.clone()]).collect(),
            Scope::Leaf => nodes.map(|(_, l)| l.leaf.clone()).collect(),
            Scope::Feed => nodes.map(|(_, l)| l.feed.clone()).collect(),
        })
    }

    /// Names of the domains of a level, alone and with the path to them.
    pub(super) fn level_names(&self, level: Level) -> Option<BTreeSet<String>> {
        let paths = self.topology()?.nodes.iter().map(|(n, l)| l.path(n, level));
        let both =
            |p: Vec<&str>| [p.join("/"), p.last().map(|l| (*l).to_owned()).unwrap_or_default()];
        Some(paths.flat_map(both).collect())
    }
}
