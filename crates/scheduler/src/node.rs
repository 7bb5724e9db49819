//! One node as the scheduler sees it: what is free on it now, who holds the rest and until when,
//! and for whom it is kept later.

use crate::fleet::Fleet;
use crate::mig;
use crate::work::FAR;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::node::NodeRole;
use muster_model::placement::{AllocatedPart, GpuSet, Slot};
use muster_model::spec::{GpuPart, Group, Priority};
use muster_model::topology::Location;
use muster_model::units::{Bytes, Time};
use std::sync::Arc;

/// Why a node gets no new work.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Block {
    /// Its agent is not heard.
    Unreachable,
    /// An operator cordoned it.
    Cordoned,
    /// It is being drained.
    Draining,
    /// It is drained.
    Drained,
    /// Ranks of an attempt that was given up on still run there.
    Orphans,
    /// It has seen more of the log than this server.
    Protected,
    /// It has not passed into service yet.
    Enrolled,
    /// It left the site for good.
    Retired,
    /// Somebody must look at it first.
    Suspect,
    /// It is being tested.
    Qualifying,
    /// It was taken out of service; what is to be done is not decided yet.
    Quarantined,
    /// It is being repaired.
    Repairing,
    /// The breaker of a group that it belongs to is open.
    Breaker,
}

impl Block {
    /// What people read for it: the word that lists of nodes have for the state, where it is one.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Block::Unreachable => "lost",
            Block::Cordoned => "cordoned",
            Block::Draining => "draining",
            Block::Drained => "drained",
            Block::Orphans => "still stopping old ranks",
            Block::Protected => "protected after a restored backup",
            Block::Enrolled => "enrolled",
            Block::Retired => "retired",
            Block::Suspect => "suspect",
            Block::Qualifying => "qualifying",
            Block::Quarantined => "quarantined",
            Block::Repairing => "repairing",
            Block::Breaker => "blocked by an open breaker",
        }
    }
}

/// What the scheduler must know of a node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeFacts {
    /// Its name, unique in the site.
    pub name: NodeName,
    /// Where it is.
    pub location: Location,
    /// SKU of its GPUs, or `cpu`.
    pub sku: String,
    /// GPUs that jobs may use.
    pub gpus: GpuSet,
    /// GPUs that belong to it and that no job can use now: off the bus, or excluded.
    pub absent: GpuSet,
    /// Those of both that are in MIG mode: they are given out in slices only.
    pub mig: GpuSet,
    /// Processors in all.
    pub cpus: u32,
    /// Memory in all.
    pub memory: Bytes,
    /// Devices are simulated.
    pub simulated: bool,
    /// Why it gets no new work, if so.
    pub block: Option<Block>,
    /// What it is reserved for.
    pub role: NodeRole,
    /// How likely it is to fail, in thousandths a month.
    pub hazard: u32,
    /// Something was found there and nothing was done yet: new work goes there only where no
    /// other node fits.
    pub avoided: bool,
}

impl NodeFacts {
    /// A real node in service with so many whole GPUs and nothing odd about it.
    #[must_use]
    pub fn plain(
        name: NodeName,
        location: Location,
        sku: &str,
        gpus: u32,
        (cpus, memory): (u32, Bytes),
    ) -> NodeFacts {
        NodeFacts {
            name,
            location,
            sku: sku.into(),
            gpus: GpuSet::first(gpus),
            absent: GpuSet::EMPTY,
            mig: GpuSet::EMPTY,
            cpus,
            memory,
            simulated: false,
            block: None,
            role: NodeRole::Normal,
            hazard: 0,
            avoided: false,
        }
    }

    /// Could it carry something before that it cannot carry now? Whether it serves is another
    /// question, and what was reserved on a node before it became a spare stays reserved.
    pub(crate) fn has_less_capacity_than(&self, before: &NodeFacts) -> bool {
        let whole = |f: &NodeFacts| f.gpus.minus(f.mig);
        let sliced = |f: &NodeFacts| f.gpus.and(f.mig);
        let lemon = |f: &NodeFacts| f.role == NodeRole::Lemon;
        // Elsewhere it may be no part of the domain that a gang has to be in.
        self.location != before.location
            || self.sku != before.sku
            || !whole(before).minus(whole(self)).is_empty()
            || !sliced(before).minus(sliced(self)).is_empty()
            || self.cpus < before.cpus
            || self.memory.0 < before.memory.0
            || (before.simulated && !self.simulated)
            || (lemon(self) && !lemon(before))
    }
}

/// A node's position in the order of the topology. Two nodes next to each other in this order
/// are near each other in the fabric, so ranks follow it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Pos {
    /// The number of its path: no two nodes have the same.
    pub(crate) order: u64,
    pub(crate) ix: u32,
}

/// One node's share of a group, ready to be compared with nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) nodes: u32,
    pub(crate) gpus: u32,
    pub(crate) part: Option<Part>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// SKUs that will do, as a mask over the fleet's numbers; all ones for any.
    pub(crate) skus: u64,
    pub(crate) simulated: bool,
    /// May go to a lemon.
    pub(crate) lemon: bool,
}

/// A part of a GPU that is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Part {
    Milli(u16),
    /// Compute and memory slices; which profile that is depends on the SKU.
    Mig(u8, u8),
}

impl Ask {
    pub(crate) fn new(g: &Group, skus: u64, simulated: bool, lemon: bool, sku: &str) -> Ask {
        let part = g.part.as_ref().map(|p| match p {
            GpuPart::Milli(m) => Part::Milli(u16::try_from(*m).unwrap_or(1000)),
            GpuPart::Mig(name) => {
                mig::profile(sku, name).map_or(Part::Mig(0, 0), |p| Part::Mig(p.compute, p.memory))
            }
        });
        Ask {
            nodes: g.nodes,
            gpus: g.gpus,
            part,
            cpus: g.cpus,
            memory: g.memory.0,
            skus,
            simulated,
            lemon,
        }
    }
}

/// Work that is there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hold {
    pub(crate) job: JobId,
    pub(crate) gpus: GpuSet,
    pub(crate) part: Option<AllocatedPart>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// Over by then.
    pub(crate) until: Time,
}

/// Room that is kept for a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Booking {
    pub(crate) job: JobId,
    pub(crate) start: Time,
    pub(crate) end: Time,
    pub(crate) gpus: u32,
    pub(crate) part: Option<Part>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    /// Work of a class above this one need not heed it; none where others were stopped for it.
    pub(crate) class: Option<Priority>,
}

impl Booking {
    /// What it reserves, as a share that is compared with what is free.
    pub(crate) fn share(&self) -> Ask {
        Ask {
            nodes: 1,
            gpus: self.gpus,
            part: self.part,
            cpus: self.cpus,
            memory: self.memory,
            skus: u64::MAX,
            simulated: false,
            lemon: true,
        }
    }
}

/// What is free: now, or at some time to come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FreeCapacity {
    /// GPUs that nobody holds any part of.
    pub(crate) whole: GpuSet,
    /// Shared GPUs and what is left of each, in thousandths.
    pub(crate) shared: Vec<(u8, u16)>,
    /// GPUs in MIG mode and which of their memory slices are taken.
    pub(crate) mig: Vec<(u8, u8)>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
}

impl FreeCapacity {
    /// An empty node.
    pub(crate) fn of(f: &NodeFacts) -> FreeCapacity {
        FreeCapacity {
            whole: f.gpus.minus(f.mig),
            shared: Vec::new(),
            mig: f.gpus.and(f.mig).iter().map(|g| (gpu(g), 0)).collect(),
            cpus: f.cpus,
            memory: f.memory.0,
        }
    }

    pub(crate) fn take(
        &mut self,
        gpus: GpuSet,
        part: Option<&AllocatedPart>,
        cpus: u32,
        memory: u64,
    ) {
        self.cpus = self.cpus.saturating_sub(cpus);
        self.memory = self.memory.saturating_sub(memory);
        match part {
            None => self.whole = self.whole.minus(gpus),
            Some(AllocatedPart::Milli(m)) => {
                let m = u16::try_from(*m).unwrap_or(1000);
                for g in gpus.iter().map(gpu) {
                    if let Some((_, left)) = self.shared.iter_mut().find(|(i, _)| *i == g) {
                        *left = left.saturating_sub(m);
                    } else {
                        self.whole = self.whole.minus(GpuSet(1 << g));
                        self.shared.push((g, 1000u16.saturating_sub(m)));
                        self.shared.sort_unstable();
                    }
                }
            }
            Some(AllocatedPart::Mig { start, size, .. }) => {
                for g in gpus.iter().map(gpu) {
                    if let Some((_, used)) = self.mig.iter_mut().find(|(i, _)| *i == g) {
                        *used |= mig::slices(*start, *size);
                    }
                }
            }
        }
    }

    pub(crate) fn give(&mut self, f: &NodeFacts, h: &Hold) {
        self.cpus = (self.cpus + h.cpus).min(f.cpus);
        self.memory = (self.memory + h.memory).min(f.memory.0);
        match &h.part {
            None => self.whole = self.whole.or(h.gpus.and(f.gpus).minus(f.mig)),
            Some(AllocatedPart::Milli(m)) => {
                let m = u16::try_from(*m).unwrap_or(1000);
                for g in h.gpus.iter().map(gpu) {
                    if let Some(i) = self.shared.iter().position(|(x, _)| *x == g) {
                        self.shared[i].1 = (self.shared[i].1 + m).min(1000);
                        if self.shared[i].1 == 1000 {
                            self.shared.remove(i);
                            self.whole = self.whole.or(GpuSet(1 << g).and(f.gpus).minus(f.mig));
                        }
                    }
                }
            }
            Some(AllocatedPart::Mig { start, size, .. }) => {
                for g in h.gpus.iter().map(gpu) {
                    if let Some((_, used)) = self.mig.iter_mut().find(|(i, _)| *i == g) {
                        *used &= !mig::slices(*start, *size);
                    }
                }
            }
        }
    }

    /// Does a share fit beside what else is kept: so many whole GPUs, processors, memory?
    pub(crate) fn holds(&self, a: &Ask, kept: (u32, u32, u64)) -> bool {
        if self.cpus < a.cpus.saturating_add(kept.1)
            || self.memory < a.memory.saturating_add(kept.2)
        {
            return false;
        }
        let whole = self.whole.len();
        match a.part {
            None => whole >= a.gpus + kept.0,
            Some(Part::Milli(m)) => {
                self.shared.iter().any(|(_, left)| *left >= m) || whole > kept.0
            }
            Some(Part::Mig(c, m)) => {
                let Some(p) = shape(c, m) else { return false };
                self.mig.iter().any(|(_, used)| mig::place(*used, p).is_some())
            }
        }
    }
}

/// A GPU's number in a byte: a node has at most 64.
pub(crate) fn gpu(i: u32) -> u8 {
    u8::try_from(i).unwrap_or(u8::MAX)
}

/// The MIG shape with so many slices.
pub(crate) fn shape(compute: u8, memory: u8) -> Option<mig::Profile> {
    // Shapes are the same for every SKU; only their names differ.
    let gb = u32::from(memory) * 10;
    mig::profile("h100", &format!("{compute}g.{gb}gb"))
}

/// A node in the index.
#[derive(Debug, Clone)]
pub(crate) struct Entry {
    pub(crate) facts: NodeFacts,
    /// Where it stands, from the region down to its name.
    pub(crate) path: Arc<str>,
    pub(crate) pos: Pos,
    pub(crate) sku: u16,
    /// Its domain at each level of [`DOMAIN_LEVELS`](crate::fleet::DOMAIN_LEVELS).
    pub(crate) domains: [u32; 6],
    pub(crate) room: FreeCapacity,
    pub(crate) holds: Vec<Hold>,
    pub(crate) book: Vec<Booking>,
    /// Reservations that cover it, by number.
    pub(crate) reserved: Vec<u16>,
}

impl Entry {
    /// In service: may take work, if only as a spare.
    pub(crate) fn serving(&self) -> bool {
        self.facts.block.is_none() && self.facts.role != NodeRole::Suspect
    }
    /// Takes new work by itself.
    pub(crate) fn open(&self) -> bool {
        self.serving() && self.facts.role != NodeRole::Spare
    }
    /// Nothing runs there.
    pub(crate) fn empty(&self) -> bool {
        self.holds.is_empty()
    }
    pub(crate) fn free_gpus(&self) -> u32 {
        self.room.whole.len()
    }
    /// GPUs that jobs may use, be they free or not.
    pub(crate) fn usable_gpus(&self) -> u32 {
        self.facts.gpus.len()
    }
    /// GPUs that belong to it, those that are not there now included.
    pub(crate) fn own_gpus(&self) -> GpuSet {
        self.facts.gpus.or(self.facts.absent)
    }

    /// Could it carry this share with the GPUs that it has now, were it empty and in service?
    pub(crate) fn capable(&self, a: &Ask) -> bool {
        self.carries(a, self.facts.gpus)
    }

    /// Takes new work by itself, and could carry this share.
    pub(crate) fn takes(&self, a: &Ask) -> bool {
        self.open() && self.capable(a)
    }

    /// Could it ever carry this share? What is off the bus, out of service or taken comes back.
    pub(crate) fn ever_capable(&self, a: &Ask) -> bool {
        self.carries(a, self.own_gpus())
    }

    fn carries(&self, a: &Ask, gpus: GpuSet) -> bool {
        let f = &self.facts;
        if a.skus >> self.sku & 1 == 0
            || f.cpus < a.cpus
            || f.memory.0 < a.memory
            || (a.simulated && !f.simulated)
            || (f.role == NodeRole::Lemon && !a.lemon)
        {
            return false;
        }
        match a.part {
            None => gpus.minus(f.mig).len() >= a.gpus,
            Some(Part::Milli(_)) => !gpus.minus(f.mig).is_empty(),
            Some(Part::Mig(..)) => !gpus.and(f.mig).is_empty(),
        }
    }

    /// Can it carry the share now, whatever it is kept for later?
    pub(crate) fn fits(&self, a: &Ask) -> bool {
        self.capable(a) && self.room.holds(a, (0, 0, 0))
    }

    /// What is free, from what it has and what is held.
    pub(crate) fn recount(&mut self) {
        let mut room = FreeCapacity::of(&self.facts);
        for h in &self.holds {
            room.take(h.gpus, h.part.as_ref(), h.cpus, h.memory);
        }
        self.room = room;
    }

    /// Which GPUs, or which part of which GPU, a share would get; from `among` if it can be.
    pub(crate) fn choose(
        &self,
        fleet: &Fleet,
        a: &Ask,
        among: GpuSet,
    ) -> (GpuSet, Option<AllocatedPart>) {
        match a.part {
            None => (choose(self.room.whole, a.gpus, among), None),
            Some(Part::Milli(m)) => {
                // The fullest GPU that still takes it, unless the mix of work says another.
                let shared = self
                    .room
                    .shared
                    .iter()
                    .filter(|(_, left)| *left >= m)
                    .min_by_key(|x| (x.1, x.0));
                let fullest = || shared.map(|(g, _)| *g);
                let g = fleet.best_gpu(self, a).or_else(fullest);
                let g = g.map_or_else(|| self.room.whole.lowest(1), |g| GpuSet(1 << g));
                (g, Some(AllocatedPart::Milli(u32::from(m))))
            }
            Some(Part::Mig(c, m)) => {
                let Some(p) = shape(c, m) else { return (GpuSet::EMPTY, None) };
                // The GPU that loses the least of what could be placed on it.
                let best = self
                    .room
                    .mig
                    .iter()
                    .filter_map(|(g, used)| mig::place(*used, p).map(|s| (*g, *used, s)))
                    .min_by_key(|(g, used, s)| {
                        (
                            mig::packing_value(*used)
                                - mig::packing_value(*used | mig::slices(*s, m)),
                            *g,
                        )
                    });
                best.map_or((GpuSet::EMPTY, None), |(g, _, start)| {
                    let names = mig::profiles(&self.facts.sku);
                    let named = names.iter().find(|n| {
                        mig::profile(&self.facts.sku, n)
                            .is_some_and(|p| (p.compute, p.memory) == (c, m))
                    });
                    let profile = named.cloned().unwrap_or_default();
                    (GpuSet(1 << g), Some(AllocatedPart::Mig { profile, start, size: m }))
                })
            }
        }
    }

    /// Moments after `now` at which what is free here changes, in order.
    pub(crate) fn changes(&self, now: Time) -> Vec<Time> {
        let mut t: Vec<Time> = self
            .holds
            .iter()
            .map(|h| h.until)
            .chain(self.book.iter().flat_map(|b| [b.start, b.end]))
            .filter(|t| *t > now && *t < FAR)
            .collect();
        t.sort_unstable();
        t.dedup();
        t
    }
}

/// Which GPUs of the free ones: the wished ones if they do, else an aligned block if there is one
/// (neighbours share a PCIe switch and, on cut-down boards, an NVLink pair), else the lowest.
pub(crate) fn choose(free: GpuSet, n: u32, among: GpuSet) -> GpuSet {
    let wish = free.and(among);
    let free = if wish.len() >= n { wish } else { free };
    if n.is_power_of_two() && n > 1 {
        for start in (0..64 - n + 1).step_by(n as usize) {
            let block = GpuSet(GpuSet::first(n).0 << start);
            if block.minus(free).is_empty() {
                return block;
            }
        }
    }
    free.lowest(n)
}

/// The slot that a share becomes.
pub(crate) fn slot(
    e: &Entry,
    g: &Group,
    (group, node_rank, first_rank): (usize, usize, u32),
    (gpus, part): (GpuSet, Option<AllocatedPart>),
) -> Slot {
    let n = |x: usize| u32::try_from(x).unwrap_or(u32::MAX);
    Slot {
        node: e.facts.name.clone(),
        group: n(group),
        node_rank: n(node_rank),
        first_rank,
        ranks: g.ranks,
        gpus,
        cpus: g.cpus,
        memory: g.memory,
        part,
    }
}
