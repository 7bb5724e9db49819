//! The fleet as the scheduler sees it: what is free, by node and by domain.

use muster_model::names::NodeName;
use muster_model::placement::{GpuSet, Slot};
use muster_model::topology::{Level, Location};
use muster_model::units::Bytes;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Why a node takes no new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// Its agent is not heard.
    Unreachable,
    /// An operator cordoned it.
    Cordoned,
    /// It is being drained, or is drained.
    Draining,
    /// Ranks of an attempt that was given up on still run there.
    Orphans,
    /// It has seen more of the log than this server.
    Protected,
    /// It has not passed into service yet.
    NotReady,
}

impl Block {
    /// For people.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Block::Unreachable => "unreachable",
            Block::Cordoned => "cordoned",
            Block::Draining => "draining",
            Block::Orphans => "still stopping old ranks",
            Block::Protected => "held after a restored backup",
            Block::NotReady => "not in service yet",
        }
    }
}

/// What the scheduler must know of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name.
    pub name: NodeName,
    /// Where it stands.
    pub location: Location,
    /// SKU of its GPUs, or `cpu`.
    pub sku: String,
    /// GPUs that jobs may use.
    pub gpus: GpuSet,
    /// Processors in all.
    pub cpus: u32,
    /// Memory in all.
    pub memory: Bytes,
    /// Devices are simulated.
    pub simulated: bool,
    /// Why it takes no new work, if so.
    pub block: Option<Block>,
}

/// A node's position in the order of the topology. Two nodes next to each other in this order
/// are near each other in the fabric, so ranks follow it.
#[derive(Debug, Clone)]
pub(crate) struct Pos {
    key: Arc<str>,
    pub(crate) ix: usize,
}

impl PartialEq for Pos {
    fn eq(&self, o: &Pos) -> bool {
        self.key == o.key
    }
}
impl Eq for Pos {}
impl PartialOrd for Pos {
    fn partial_cmp(&self, o: &Pos) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for Pos {
    fn cmp(&self, o: &Pos) -> std::cmp::Ordering {
        self.key.cmp(&o.key)
    }
}

#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) facts: NodeFacts,
    pub(crate) pos: Pos,
    used_gpus: GpuSet,
    used_cpus: u32,
    used_memory: u64,
}

impl Entry {
    pub(crate) fn free_gpus(&self) -> GpuSet {
        self.facts.gpus.minus(self.used_gpus)
    }
    pub(crate) fn free_cpus(&self) -> u32 {
        self.facts.cpus.saturating_sub(self.used_cpus)
    }
    pub(crate) fn free_memory(&self) -> u64 {
        self.facts.memory.0.saturating_sub(self.used_memory)
    }
    pub(crate) fn usable(&self) -> bool {
        self.facts.block.is_none()
    }
}

/// Nodes of one domain, counted by how many GPUs they have free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Domain {
    pub(crate) nodes: BTreeSet<Pos>,
    /// Usable nodes by number of free GPUs.
    hist: BTreeMap<u32, u32>,
    pub(crate) free_gpus: u64,
}

impl Domain {
    /// Usable nodes with at least so many free GPUs: an upper bound for what fits.
    pub(crate) fn with_free(&self, gpus: u32) -> u32 {
        self.hist.range(gpus..).map(|(_, n)| n).sum()
    }
}

/// Name of a domain: its level and its path from the region down.
pub(crate) type DomainId = (Level, String);

/// The fleet, indexed. Kept up to date by [`upsert`](Fleet::upsert), [`take`](Fleet::take) and
/// [`release`](Fleet::release); [`consistent`](Fleet::consistent) rebuilds it and compares.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    nodes: Vec<Option<Entry>>,
    by_name: BTreeMap<NodeName, usize>,
    pub(crate) domains: BTreeMap<DomainId, Domain>,
    /// Usable nodes by free GPUs.
    pub(crate) by_free: BTreeMap<u32, BTreeSet<Pos>>,
    /// Grows whenever something may fit that did not fit before.
    freed: u64,
    /// Grows whenever a node comes, goes or changes.
    shape: u64,
}

/// Levels that form domains; a single node needs none.
pub(crate) const DOMAIN_LEVELS: [Level; 6] =
    [Level::Nvlink, Level::Rack, Level::Leaf, Level::Spine, Level::Cluster, Level::Region];

pub(crate) fn domain_path(facts: &NodeFacts, level: Level) -> String {
    facts.location.path(&facts.name, level).join("/")
}

impl Fleet {
    /// Grows whenever something may fit that did not fit before.
    #[must_use]
    pub fn freed(&self) -> u64 {
        self.freed
    }

    /// Grows whenever a node comes, goes or changes (not when work does).
    #[must_use]
    pub fn shape(&self) -> u64 {
        self.shape
    }

    /// Number of nodes known.
    #[must_use]
    pub fn len(&self) -> usize {
        self.by_name.len()
    }

    /// No node at all?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.by_name.is_empty()
    }

    pub(crate) fn entry(&self, ix: usize) -> &Entry {
        self.nodes[ix].as_ref().expect("positions name present nodes: remove() drops both")
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.by_name.values().map(|&ix| self.entry(ix))
    }

    /// GPUs of a node that are held by attempts.
    #[must_use]
    pub fn used_gpus(&self, node: &NodeName) -> GpuSet {
        self.by_name.get(node).map_or(GpuSet::EMPTY, |&ix| self.entry(ix).used_gpus)
    }

    /// Adds a node or replaces what is known of it; what it holds stays held.
    pub fn upsert(&mut self, facts: NodeFacts) {
        let ix = match self.by_name.get(&facts.name) {
            Some(&ix) => {
                if self.entry(ix).facts == facts {
                    return;
                }
                ix
            }
            None => {
                let ix = self.nodes.iter().position(Option::is_none).unwrap_or(self.nodes.len());
                if ix == self.nodes.len() {
                    self.nodes.push(None);
                }
                self.by_name.insert(facts.name.clone(), ix);
                ix
            }
        };
        self.unlink(ix);
        let key: Arc<str> = domain_path(&facts, Level::Node).into();
        let pos = Pos { key, ix };
        let entry = match self.nodes[ix].take() {
            Some(old) => Entry { facts, pos, ..old },
            None => Entry { facts, pos, used_gpus: GpuSet::EMPTY, used_cpus: 0, used_memory: 0 },
        };
        self.nodes[ix] = Some(entry);
        self.link(ix);
        self.freed += 1;
        self.shape += 1;
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: &NodeName) {
        if let Some(ix) = self.by_name.remove(node) {
            self.unlink(ix);
            self.nodes[ix] = None;
            self.shape += 1;
        }
    }

    /// A slot now holds what it names.
    pub fn take(&mut self, slot: &Slot) {
        self.change(&slot.node, |e| {
            debug_assert!(
                e.used_gpus.and(slot.gpus).is_empty(),
                "gpu taken twice on {}",
                slot.node
            );
            e.used_gpus = e.used_gpus.or(slot.gpus);
            e.used_cpus += slot.cpus;
            e.used_memory += slot.memory.0;
        });
    }

    /// A slot holds nothing any more.
    pub fn release(&mut self, slot: &Slot) {
        self.change(&slot.node, |e| {
            e.used_gpus = e.used_gpus.minus(slot.gpus);
            e.used_cpus = e.used_cpus.saturating_sub(slot.cpus);
            e.used_memory = e.used_memory.saturating_sub(slot.memory.0);
        });
        self.freed += 1;
    }

    /// Undoes a [`take`](Fleet::take) made while planning: nothing has become free by it.
    pub(crate) fn untake(&mut self, slot: &Slot) {
        self.release(slot);
        self.freed -= 1;
    }

    fn change(&mut self, node: &NodeName, f: impl FnOnce(&mut Entry)) {
        let Some(&ix) = self.by_name.get(node) else { return };
        self.unlink(ix);
        if let Some(e) = self.nodes[ix].as_mut() {
            f(e);
        }
        self.link(ix);
    }

    fn unlink(&mut self, ix: usize) {
        let Some(e) = self.nodes[ix].as_ref() else { return };
        let free = e.free_gpus().len();
        let usable = e.usable();
        if usable && let Some(set) = self.by_free.get_mut(&free) {
            set.remove(&e.pos);
            if set.is_empty() {
                self.by_free.remove(&free);
            }
        }
        for level in DOMAIN_LEVELS {
            let id = (level, domain_path(&e.facts, level));
            let Some(d) = self.domains.get_mut(&id) else { continue };
            d.nodes.remove(&e.pos);
            if usable {
                d.free_gpus -= u64::from(free);
                if let Some(n) = d.hist.get_mut(&free) {
                    *n -= 1;
                    if *n == 0 {
                        d.hist.remove(&free);
                    }
                }
            }
            if d.nodes.is_empty() {
                self.domains.remove(&id);
            }
        }
    }

    fn link(&mut self, ix: usize) {
        let Some(e) = self.nodes[ix].as_ref() else { return };
        let free = e.free_gpus().len();
        let usable = e.usable();
        if usable {
            self.by_free.entry(free).or_default().insert(e.pos.clone());
        }
        for level in DOMAIN_LEVELS {
            let d = self.domains.entry((level, domain_path(&e.facts, level))).or_default();
            d.nodes.insert(e.pos.clone());
            if usable {
                d.free_gpus += u64::from(free);
                *d.hist.entry(free).or_default() += 1;
            }
        }
    }

    /// Rebuilds the index from its nodes and compares: the test of the incremental upkeep.
    #[must_use]
    pub fn consistent(&self) -> bool {
        let mut fresh = Fleet::default();
        for e in self.entries() {
            let ix = fresh.nodes.len();
            fresh.by_name.insert(e.facts.name.clone(), ix);
            fresh.nodes.push(Some(Entry { pos: Pos { key: e.pos.key.clone(), ix }, ..e.clone() }));
            fresh.link(ix);
        }
        fresh.by_free == self.by_free && fresh.domains == self.domains
    }
}
