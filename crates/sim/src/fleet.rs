//! The machines of a scenario.

use crate::SimError;
use crate::causes;
use crate::chance;
use crate::scenario::{FleetSpec, Scenario, Spares};
use crate::traces::{self, OnBadRow};
use muster_model::names::NodeName;
use muster_model::topology::{Location, Topology};
use muster_model::units::{Bytes, Span};
use muster_simnode::{SimConfig, Sku};
use muster_specs::generate;
use std::collections::BTreeMap;
use std::path::Path;

/// A machine before it joins.
#[derive(Debug, Clone)]
pub(crate) struct Machine {
    pub(crate) name: NodeName,
    pub(crate) config: SimConfig,
    pub(crate) location: Location,
    pub(crate) spare: bool,
}

/// All machines, in the order of their names.
#[derive(Debug, Clone, Default)]
pub(crate) struct Fleet {
    pub(crate) machines: Vec<Machine>,
    pub(crate) topology: Topology,
    pub(crate) by_name: BTreeMap<NodeName, u32>,
}

impl Fleet {
    pub(crate) fn gpus(&self) -> u64 {
        self.machines.iter().map(|m| u64::from(m.config.gpus)).sum()
    }

    pub(crate) fn spares(&self) -> u32 {
        u32::try_from(self.machines.iter().filter(|m| m.spare).count()).unwrap_or(u32::MAX)
    }

    /// From a topology, all nodes alike.
    fn alike(topology: Topology, config: &SimConfig, spares: u32) -> Fleet {
        let n = topology.nodes.len();
        let machines = topology
            .nodes
            .iter()
            .enumerate()
            .map(|(i, (name, location))| Machine {
                name: name.clone(),
                config: config.clone(),
                location: location.clone(),
                spare: is_spare(i, n, spares as usize),
            })
            .collect();
        Fleet::of(machines, topology)
    }

    pub(crate) fn of(machines: Vec<Machine>, topology: Topology) -> Fleet {
        let by_name = (0u32..).zip(&machines).map(|(i, m)| (m.name.clone(), i)).collect();
        Fleet { machines, topology, by_name }
    }
}

/// Spares stand evenly among the others, so that each leaf has some near.
fn is_spare(i: usize, nodes: usize, spares: usize) -> bool {
    let bucket = |i: usize| i * spares / nodes.max(1);
    spares > 0 && bucket(i) != bucket(i + 1)
}

fn config(sku: &str, gpus: u32) -> Result<SimConfig, SimError> {
    let sku: Sku = sku.parse().map_err(|e| SimError::new(format!("{e}")))?;
    Ok(SimConfig::of(sku, gpus))
}

/// How many spares a target needs at the rates of the scenario.
#[must_use]
pub fn spares_wanted(s: &Scenario, nodes: u32) -> u32 {
    let spares = match &s.fleet {
        FleetSpec::Hgx { spares, .. }
        | FleetSpec::Nvl72 { spares, .. }
        | FleetSpec::Topology { spares, .. } => spares,
        FleetSpec::Openb { .. } => return 0,
    };
    match spares {
        Spares::Count(n) => *n,
        Spares::Target { share } => {
            let ppm = (share * 1e6).round().clamp(0.0, 999_999.0) as u32;
            // A gang without a spare waits for the next repair.
            let (rate, within) = (causes::node_rate(&s.failures), Span::mins(2));
            muster_health::spares_for_waiting(nodes, rate, mean_repair(s), within, ppm)
        }
    }
}

/// The mean time that a broken node is away.
#[must_use]
pub fn mean_repair(s: &Scenario) -> muster_model::units::Span {
    let all = causes::causes(&s.failures);
    let of = |c: &crate::scenario::Cause| {
        let d = c.repair.unwrap_or(s.operations.repair);
        (c.per_1000_node_days, chance::mean(&d).0 as f64)
    };
    let takes_out = all.iter().filter(|c| causes::takes_out(c.mode)).map(of);
    let (weight, sum) = takes_out.fold((0.0, 0.0), |(w, t), (r, d)| (w + r, t + r * d));
    if weight > 0.0 { chance::millis(sum / weight) } else { chance::mean(&s.operations.repair) }
}

/// The machines of a scenario; files are found from `dir`.
pub(crate) fn build(s: &Scenario, dir: &Path) -> Result<Fleet, SimError> {
    match &s.fleet {
        FleetSpec::Hgx { sku, nodes, gpus_per_node, .. } => {
            let topology = generate::hgx(*nodes, *gpus_per_node);
            Ok(Fleet::alike(topology, &config(sku, *gpus_per_node)?, spares_wanted(s, *nodes)))
        }
        FleetSpec::Nvl72 { racks, .. } => {
            let topology = generate::nvl72(*racks);
            let nodes = u32::try_from(topology.nodes.len()).unwrap_or(u32::MAX);
            let config = SimConfig::of(Sku::Gb200, 4);
            Ok(Fleet::alike(topology, &config, spares_wanted(s, nodes)))
        }
        FleetSpec::Topology { file, sku, gpus_per_node, .. } => {
            let text = traces::read_file(&dir.join(file))?;
            let first = text.lines().next().unwrap_or_default().to_ascii_lowercase();
            let topology = if first.contains("asw") {
                let read = traces::alibaba::hosts(file, text.as_bytes(), OnBadRow::Stop)?;
                traces::alibaba::topology(read.items)
            } else {
                muster_specs::topology::parse(&text, file)?
            };
            let nodes = u32::try_from(topology.nodes.len()).unwrap_or(u32::MAX);
            Ok(Fleet::alike(topology, &config(sku, *gpus_per_node)?, spares_wanted(s, nodes)))
        }
        FleetSpec::Openb { file } => {
            let text = traces::read_file(&dir.join(file))?;
            let read = traces::openb::nodes(file, text.as_bytes(), OnBadRow::Stop)?;
            openb(&read.items)
        }
    }
}

/// openb's machines have kinds of GPU that are not sold under these names; what matters is that
/// they differ.
fn openb(nodes: &[traces::TraceNode]) -> Result<Fleet, SimError> {
    let mut topology = Topology::default();
    let mut machines = Vec::new();
    for n in nodes {
        let name: NodeName = n.name.parse().map_err(|e| SimError::new(format!("{e}")))?;
        let location = Location::unplaced(&name);
        topology.nodes.insert(name.clone(), location.clone());
        let mut config = SimConfig::of(Sku::H100Sxm, n.gpus);
        config.cpus = n.cpus_milli / 1000;
        config.memory = Bytes(n.memory_mib << 20);
        machines.push(Machine { name, config, location, spare: false });
    }
    machines.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(Fleet::of(machines, topology))
}
