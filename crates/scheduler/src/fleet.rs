//! The fleet as the scheduler sees it: what is free, by kind of node and by domain, now and in
//! time to come. Every change costs what changes.

use crate::broken::Loss;
use crate::domain::{Domain, LevelIndex};
use crate::mig;
use crate::mix::Mix;
use crate::node::{Ask, Booking, Entry, FreeCapacity, Hold, NodeFacts, Part, Pos};
use crate::order::Order;
use crate::power::Meter;
use crate::scores::Scores;
use crate::windows::ReservedNodes;
use crate::work::{Demand, FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::names::NodeName;
use muster_model::node::NodeRole;
use muster_model::placement::{GpuSet, Slot};
use muster_model::spec::{GpuPart, Priority};
use muster_model::topology::Level;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

/// Levels that form domains, narrowest first; a single node needs none.
pub(crate) const DOMAIN_LEVELS: [Level; 6] =
    [Level::Nvlink, Level::Rack, Level::Leaf, Level::Spine, Level::Cluster, Level::Region];

/// Index of a level in [`DOMAIN_LEVELS`].
pub(crate) fn level_ix(level: Level) -> usize {
    DOMAIN_LEVELS.iter().position(|l| *l == level).unwrap_or(0)
}

/// Releases remembered one by one; a cycle that is further behind looks at everything.
const REMEMBERED: usize = 512;

/// Nodes in the same state: what is true of one is true of all.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Class {
    pub(crate) sku: u16,
    pub(crate) whole: u8,
    pub(crate) shared: Vec<u16>,
    pub(crate) mig: Vec<u8>,
    pub(crate) cpus: u32,
    pub(crate) memory: u64,
    pub(crate) total: (u8, u32, u64),
    pub(crate) simulated: bool,
    pub(crate) lemon: bool,
    pub(crate) empty: bool,
    pub(crate) hazard: u32,
}

/// Room that is kept for a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct CapacityReservation {
    pub(crate) start: Time,
    pub(crate) end: Time,
    /// Nodes, in the order of the gang's groups.
    pub(crate) nodes: Vec<u32>,
    pub(crate) basis: Basis,
    /// Priority class of the job.
    pub(crate) class: Priority,
}

/// The fleet, indexed. [`consistent`](Fleet::consistent) rebuilds it and compares.
#[derive(Debug, Clone, Default)]
pub struct Fleet {
    nodes: Vec<Option<Entry>>,
    /// Numbers of nodes that are gone.
    vacant: BTreeSet<u32>,
    by_name: BTreeMap<NodeName, u32>,
    /// Paths of the nodes, and their numbers.
    paths: Order,
    /// Paths of the domains of all levels, and their numbers.
    domain_paths: Order,
    pub(crate) domain_ids: BTreeMap<(Level, Arc<str>), u32>,
    pub(crate) domains: Vec<Domain>,
    /// What is free in the domains of each level of [`DOMAIN_LEVELS`].
    pub(crate) free_by_level: [LevelIndex; 6],
    /// Largest domain of each level, in nodes: an upper bound.
    pub(crate) largest: [usize; 6],
    /// Open nodes by state.
    pub(crate) classes: BTreeMap<Arc<Class>, BTreeSet<Pos>>,
    pub(crate) scores: Scores,
    /// Leaves by the number of empty nodes in them, then by path.
    pub(crate) leaves: BTreeSet<(u32, u64, u32)>,
    /// When something on a node ends, and how many things do at that moment.
    pub(crate) ends: BTreeMap<(Time, u32), u32>,
    pub(crate) kept: BTreeMap<JobId, CapacityReservation>,
    /// Those of them that give way to work of a higher class, the lowest first.
    pub(crate) yielding: BTreeSet<(Priority, JobId)>,
    /// Nodes on which room is kept for somebody.
    pub(crate) booked: BTreeSet<Pos>,
    /// Nodes that take new work only where no other fits.
    pub(crate) avoided: BTreeSet<u32>,
    /// Nodes that ended the last attempt of a waiting job: it goes there only where no other fits.
    tried: BTreeMap<JobId, NodeName>,
    /// Jobs whose reserved start rests on a node that does not carry it any more, and why.
    pub(crate) broken: BTreeMap<JobId, Loss>,
    pub(crate) skus: Vec<String>,
    /// Grows whenever something may fit that did not fit before.
    freed: u64,
    released: VecDeque<u32>,
    /// Grows whenever a node comes, goes or changes.
    shape: u64,
    /// Grows whenever quotas, limits, power budgets or reservations change.
    rules: u64,
    pub(crate) closed: Vec<ReservedNodes>,
    /// When a reservation next begins or ends, as of the last cycle.
    pub(crate) edge: Option<Time>,
    pub(crate) meter: Meter,
    /// Largest preemptible gang that lemons take; one node until the policy says.
    pub(crate) lemon_max: Option<u32>,
    /// Work that the site has seen.
    pub(crate) mix: Mix,
}

/// What of a node is counted in the index.
struct Stamp {
    class: Option<Class>,
    free: u32,
    empty: bool,
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

    /// The nodes and the rules, numbered: what can never start follows from them. Only the time at which
    /// a reservation is over is not in it.
    #[must_use]
    pub fn bounds(&self) -> (u64, u64) {
        (self.shape, self.rules)
    }

    pub(crate) fn note_rules(&mut self) {
        self.rules += 1;
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

    /// A job that waits goes to this node only where no other fits, because it ended the job's last
    /// attempt; none: to any.
    pub fn try_last(&mut self, job: JobId, node: Option<&NodeName>) {
        match node {
            Some(n) => self.tried.insert(job, n.clone()),
            None => self.tried.remove(&job),
        };
    }

    /// The node that a job tries last, if it takes work at all.
    pub(crate) fn tried_last(&self, job: JobId) -> Option<u32> {
        let ix = self.find(self.tried.get(&job)?)?;
        self.present(ix).filter(|e| e.open()).map(|_| ix)
    }

    pub(crate) fn entry(&self, ix: u32) -> &Entry {
        self.nodes[ix as usize].as_ref().expect("positions name present nodes: remove drops both")
    }

    /// Numbers that nodes have or had.
    pub(crate) fn numbers(&self) -> usize {
        self.nodes.len()
    }

    /// A node that may be gone by now.
    pub(crate) fn present(&self, ix: u32) -> Option<&Entry> {
        self.nodes.get(ix as usize)?.as_ref()
    }

    pub(crate) fn entries(&self) -> impl Iterator<Item = &Entry> {
        self.nodes.iter().flatten()
    }

    pub(crate) fn find(&self, node: &NodeName) -> Option<u32> {
        self.by_name.get(node).copied()
    }

    /// GPUs of a node that are held by attempts, wholly or in part.
    #[must_use]
    pub fn used_gpus(&self, node: &NodeName) -> GpuSet {
        self.find(node).map_or(GpuSet::EMPTY, |ix| {
            self.entry(ix).holds.iter().fold(GpuSet::EMPTY, |s, h| s.or(h.gpus))
        })
    }

    /// Nodes on which something became free after the moment `since` of [`Fleet::freed`]; none
    /// when it is too long ago to know.
    pub(crate) fn released_since(&self, since: u64) -> Option<impl Iterator<Item = u32> + '_> {
        let n = usize::try_from(self.freed - since).ok().filter(|n| *n <= self.released.len())?;
        Some(self.released.iter().rev().take(n).copied())
    }

    fn note_freed(&mut self, ix: u32) {
        self.freed += 1;
        if self.released.len() >= REMEMBERED {
            self.released.pop_front();
        }
        self.released.push_back(ix);
    }

    /// Something changed that may let anything fit.
    pub fn forget_failures(&mut self) {
        self.freed += 1;
        self.released.clear();
    }

    fn intern_sku(&mut self, sku: &str) -> u16 {
        let at = self.skus.iter().position(|s| s == sku).unwrap_or_else(|| {
            self.skus.push(sku.to_string());
            self.skus.len() - 1
        });
        // A mask has 64 bits; kinds beyond that share the last one and are distinguished by nobody.
        u16::try_from(at.min(63)).unwrap_or(63)
    }

    /// Will nodes do that fail more often than others?
    pub(crate) fn lemon_will_do(&self, w: &Work) -> bool {
        w.preemptible() && w.demand.nodes() <= self.lemon_max.unwrap_or(1)
    }

    /// The shares of a demand, ready to be compared with nodes.
    pub(crate) fn asks(&self, d: &Demand, lemon: bool) -> Vec<Ask> {
        d.groups
            .iter()
            .map(|g| {
                let mut skus = match &g.sku {
                    None => u64::MAX,
                    Some(names) => self
                        .skus
                        .iter()
                        .enumerate()
                        .filter(|(_, s)| names.split('|').any(|n| n == s.as_str()))
                        .fold(0, |m, (i, _)| m | 1 << i.min(63)),
                };
                let mut sku = "";
                if let Some(GpuPart::Mig(name)) = &g.part {
                    // Only SKUs that have this profile, in the shape that the first of them has.
                    let first = self
                        .skus
                        .iter()
                        .enumerate()
                        .find(|(i, s)| skus >> i & 1 == 1 && mig::profile(s, name).is_some());
                    sku = first.map_or("", |(_, s)| s);
                    let shape = mig::profile(sku, name);
                    for (i, s) in self.skus.iter().enumerate().take(64) {
                        if shape.is_none() || mig::profile(s, name) != shape {
                            skus &= !(1 << i);
                        }
                    }
                }
                Ask::new(g, skus, d.simulated, lemon, sku)
            })
            .collect()
    }

    /// Adds a node or replaces what is known of it; what it holds stays held.
    pub fn upsert(&mut self, facts: NodeFacts) {
        let known = self.find(&facts.name);
        if known.is_some_and(|ix| self.entry(ix).facts == facts) {
            return;
        }
        let ix = known.unwrap_or_else(|| {
            let ix = self.vacant.pop_first().unwrap_or_else(|| {
                self.nodes.push(None);
                u32::try_from(self.nodes.len() - 1).unwrap_or(u32::MAX)
            });
            self.by_name.insert(facts.name.clone(), ix);
            ix
        });
        let old = self.unlink(ix);
        let sku = self.intern_sku(&facts.sku);
        let path: Arc<str> = facts.location.path(&facts.name, Level::Node).join("/").into();
        if let Some(old) = old.as_ref().filter(|old| old.path != path) {
            self.paths.remove(&old.path);
        }
        let order = self.number(&path);
        let mut domains = [0; 6];
        for (i, level) in DOMAIN_LEVELS.into_iter().enumerate() {
            domains[i] = self.domain_id(level, &facts);
        }
        let mut e = Entry {
            path,
            pos: Pos { order, ix },
            sku,
            domains,
            room: FreeCapacity::of(&facts),
            facts,
            holds: Vec::new(),
            book: Vec::new(),
            reserved: Vec::new(),
        };
        let mut less = false;
        if let Some(old) = old {
            less = e.facts.has_less_capacity_than(&old.facts);
            e.holds = old.holds;
            e.book = old.book;
            e.reserved = old.reserved;
            e.recount();
        }
        self.note_loss(&e, less);
        self.nodes[ix as usize] = Some(e);
        self.link(ix);
        self.cover(ix);
        self.note_freed(ix);
        self.shape += 1;
    }

    fn domain_id(&mut self, level: Level, f: &NodeFacts) -> u32 {
        let path: Arc<str> = f.location.path(&f.name, level).join("/").into();
        if let Some(id) = self.domain_ids.get(&(level, path.clone())) {
            return *id;
        }
        let id = u32::try_from(self.domains.len()).unwrap_or(u32::MAX);
        let (order, moved) = self.domain_paths.insert(&path);
        let place = self.free_by_level[level_ix(level)].push(id, order);
        self.domains.push(Domain::new(path.clone(), order, place));
        self.domain_ids.insert((level, path), id);
        if moved {
            self.renumber_domains();
        }
        id
    }

    /// The number of a node's path. The node itself is not in the index meanwhile.
    fn number(&mut self, path: &Arc<str>) -> u64 {
        let (order, moved) = self.paths.insert(path);
        if moved {
            self.renumber_nodes();
        }
        order
    }

    /// Takes over new numbers of the nodes. Their order is as before.
    fn renumber_nodes(&mut self) {
        for e in self.nodes.iter_mut().flatten() {
            e.pos.order = self.paths.get(&e.path).unwrap_or(e.pos.order);
        }
        let nodes = &self.nodes;
        let now = |p: &Pos| nodes[p.ix as usize].as_ref().map_or(*p, |e| e.pos);
        let domains = self.domains.iter_mut().map(|d| &mut d.nodes);
        for set in self.classes.values_mut().chain(domains).chain([&mut self.booked]) {
            *set = set.iter().map(now).collect();
        }
    }

    /// Takes over new numbers of the domains. Their order is as before.
    fn renumber_domains(&mut self) {
        for d in &mut self.domains {
            d.order = self.domain_paths.get(&d.path).unwrap_or(d.order);
        }
        for level in &mut self.free_by_level {
            level.renumber(&self.domains);
        }
        let order = |id: u32| self.domains[id as usize].order;
        self.leaves = self.leaves.iter().map(|(n, _, id)| (*n, order(*id), *id)).collect();
    }

    /// Domains of a level, by path.
    pub(crate) fn level(&self, level: Level) -> impl Iterator<Item = &Domain> {
        let from = (level, Arc::from(""));
        self.domain_ids
            .range(from..)
            .take_while(move |((l, _), _)| *l == level)
            .map(|(_, id)| &self.domains[*id as usize])
            .filter(|d| !d.nodes.is_empty())
    }

    /// The domain of a node at a level.
    pub(crate) fn domain_of(&self, e: &Entry, level: Level) -> &Domain {
        &self.domains[e.domains[level_ix(level)] as usize]
    }

    /// Forgets a node.
    pub fn remove(&mut self, node: &NodeName) {
        if let Some(ix) = self.by_name.remove(node) {
            self.vacant.insert(ix);
            if let Some(e) = self.unlink(ix) {
                self.paths.remove(&e.path);
                let gone = |b: &Booking| (b.job, Loss::OutOfService(node.clone()));
                self.broken.extend(e.book.iter().map(gone));
                for h in &e.holds {
                    self.end_at(ix, h.until, false);
                }
            }
            self.shape += 1;
        }
    }

    /// A slot of a job now holds what it names, until then at the latest.
    pub fn take(&mut self, job: JobId, slot: &Slot, until: Time) {
        let Some(ix) = self.find(&slot.node) else { return };
        self.change(ix, |e| {
            debug_assert!(
                slot.part.is_some() || slot.gpus.minus(e.room.whole).and(e.facts.gpus).is_empty(),
                "gpu taken twice on {}",
                slot.node
            );
            e.room.take(slot.gpus, slot.part.as_ref(), slot.cpus, slot.memory.0);
            e.holds.push(Hold {
                job,
                gpus: slot.gpus,
                part: slot.part.clone(),
                cpus: slot.cpus,
                memory: slot.memory.0,
                until,
            });
        });
        self.end_at(ix, until, true);
    }

    /// A slot of a job holds nothing any more.
    pub fn release(&mut self, job: JobId, slot: &Slot) {
        if let Some(ix) = self.let_go(job, slot) {
            self.note_freed(ix);
        }
    }

    /// Undoes a [`take`](Fleet::take) while planning: nothing has become free by it. False when
    /// the slot held nothing.
    pub(crate) fn undo_take(&mut self, job: JobId, slot: &Slot) -> bool {
        self.let_go(job, slot).is_some()
    }

    fn let_go(&mut self, job: JobId, slot: &Slot) -> Option<u32> {
        let ix = self.find(&slot.node)?;
        let same = |h: &Hold| h.job == job && h.gpus == slot.gpus && h.part == slot.part;
        let at = self.entry(ix).holds.iter().position(same)?;
        let mut until = FAR;
        self.change(ix, |e| {
            let h = e.holds.swap_remove(at);
            until = h.until;
            if e.holds.is_empty() {
                e.room = FreeCapacity::of(&e.facts);
            } else {
                // Memory and processors may have been over-committed when a node lost some.
                e.recount();
            }
        });
        self.end_at(ix, until, false);
        Some(ix)
    }

    /// A job will be over at another time than was known.
    pub fn set_until(&mut self, job: JobId, node: &NodeName, until: Time) {
        let Some(ix) = self.find(node) else { return };
        let Some(e) = self.nodes[ix as usize].as_mut() else { return };
        let mut moved = Vec::new();
        for h in e.holds.iter_mut().filter(|h| h.job == job && h.until != until) {
            moved.push(h.until);
            h.until = until;
        }
        for old in &moved {
            self.end_at(ix, *old, false);
            self.end_at(ix, until, true);
        }
        if moved.iter().any(|old| *old > until) {
            self.note_freed(ix);
        }
    }

    fn end_at(&mut self, ix: u32, t: Time, more: bool) {
        if t >= FAR {
            return;
        }
        let n = self.ends.entry((t, ix)).or_default();
        *n = if more { *n + 1 } else { n.saturating_sub(1) };
        if *n == 0 {
            self.ends.remove(&(t, ix));
        }
    }

    /// Keeps room for a waiting job: on these nodes, in the order of its groups.
    pub fn keep(&mut self, w: &Work, nodes: &[NodeName], (start, end): (Time, Time), basis: Basis) {
        let found: Vec<u32> = nodes.iter().filter_map(|n| self.find(n)).collect();
        self.reserve_nodes(
            w,
            CapacityReservation { start, end, nodes: found, basis, class: w.priority },
        );
        if let Some(gone) = nodes.iter().find(|n| self.find(n).is_none()) {
            self.broken.insert(w.job, Loss::OutOfService(gone.clone()));
        }
    }

    pub(crate) fn reserve_nodes(&mut self, w: &Work, kept: CapacityReservation) {
        let job = w.job;
        self.release_reservation_silently(job);
        let (start, end) = (kept.start, kept.end);
        // What others were stopped for is nobody else's.
        let class = (kept.basis == Basis::Limits).then_some(kept.class);
        self.yielding.extend(class.map(|c| (c, job)));
        let asks = self.asks(&w.demand, self.lemon_will_do(w));
        let groups = asks.iter().flat_map(|a| std::iter::repeat_n(a, a.nodes as usize));
        for (ix, a) in kept.nodes.iter().zip(groups) {
            let Some(e) = self.nodes[*ix as usize].as_mut() else { continue };
            e.book.push(Booking {
                job,
                start,
                end,
                gpus: if a.part.is_some() { 0 } else { a.gpus },
                part: a.part,
                cpus: a.cpus,
                memory: a.memory,
                class,
            });
            self.booked.insert(e.pos);
            if !e.serving() {
                self.broken.insert(job, Loss::OutOfService(e.facts.name.clone()));
            } else if !e.capable(a) {
                self.broken.insert(job, Loss::CarriesLess(e.facts.name.clone()));
            }
        }
        self.kept.insert(job, kept);
    }

    /// Nothing is kept for the job any more.
    pub fn release_reservation(&mut self, job: JobId) {
        for ix in self.release_reservation_silently(job).map(|k| k.nodes).unwrap_or_default() {
            self.note_freed(ix);
        }
    }

    pub(crate) fn release_reservation_silently(
        &mut self,
        job: JobId,
    ) -> Option<CapacityReservation> {
        self.broken.remove(&job);
        let k = self.kept.remove(&job)?;
        self.yielding.remove(&(k.class, job));
        for ix in &k.nodes {
            if let Some(e) = self.nodes[*ix as usize].as_mut() {
                e.book.retain(|b| b.job != job);
                if e.book.is_empty() {
                    self.booked.remove(&e.pos);
                }
            }
        }
        Some(k)
    }

    fn stamp(&self, ix: u32) -> Option<Stamp> {
        let e = self.nodes[ix as usize].as_ref()?;
        let n = |x: u32| u8::try_from(x).unwrap_or(u8::MAX);
        let class = e.open().then(|| Class {
            sku: e.sku,
            whole: n(e.free_gpus()),
            shared: {
                let mut s: Vec<u16> = e.room.shared.iter().map(|(_, left)| *left).collect();
                s.sort_unstable();
                s
            },
            mig: {
                let mut m: Vec<u8> = e.room.mig.iter().map(|(_, used)| *used).collect();
                m.sort_unstable();
                m
            },
            cpus: e.room.cpus,
            memory: e.room.memory,
            total: (n(e.facts.gpus.len()), e.facts.cpus, e.facts.memory.0),
            simulated: e.facts.simulated,
            lemon: e.facts.role == NodeRole::Lemon,
            empty: e.empty(),
            hazard: e.facts.hazard,
        });
        Some(Stamp { class, free: e.free_gpus(), empty: e.empty() })
    }

    fn change(&mut self, ix: u32, f: impl FnOnce(&mut Entry)) {
        let before = self.stamp(ix);
        self.meter_out(ix);
        if let Some(e) = self.nodes[ix as usize].as_mut() {
            f(e);
        }
        self.meter_in(ix);
        let after = self.stamp(ix);
        if let (Some(b), Some(a)) = (before, after) {
            self.recount(ix, &b, false);
            self.recount(ix, &a, true);
        }
    }

    fn meter_out(&mut self, ix: u32) {
        if let Some(e) = self.nodes[ix as usize].as_ref() {
            self.meter.count(e, false);
        }
    }

    fn meter_in(&mut self, ix: u32) {
        if let Some(e) = self.nodes[ix as usize].as_ref() {
            self.meter.count(e, true);
        }
    }

    /// Counts a node in its class and its domains, or no longer.
    fn recount(&mut self, ix: u32, s: &Stamp, up: bool) {
        let Some(class) = &s.class else { return };
        let Some(e) = self.nodes[ix as usize].as_ref() else { return };
        let (pos, sku, domains) = (e.pos, e.sku, e.domains);
        if up {
            if let Some(set) = self.classes.get_mut(class) {
                set.insert(pos);
            } else {
                let class = Arc::new(class.clone());
                self.scores.came(&class);
                self.classes.insert(class, BTreeSet::from([pos]));
            }
        } else if let Some(set) = self.classes.get_mut(class) {
            set.remove(&pos);
            if set.is_empty() {
                self.classes.remove(class);
            }
        }
        let leaf = domains[level_ix(Level::Leaf)];
        let was = self.domains[leaf as usize].empty;
        for (level, id) in self.free_by_level.iter_mut().zip(domains) {
            let d = &mut self.domains[id as usize];
            d.count(sku, s.free, up);
            level.set_free(d.place, d.free_gpus);
            if s.empty {
                d.empty = if up { d.empty + 1 } else { d.empty - 1 };
            }
        }
        let is = self.domains[leaf as usize].empty;
        if was != is {
            let order = self.domains[leaf as usize].order;
            self.leaves.remove(&(was, order, leaf));
            if is > 0 {
                self.leaves.insert((is, order, leaf));
            }
        }
    }

    /// Takes a node out of the index.
    fn unlink(&mut self, ix: u32) -> Option<Entry> {
        if let Some(s) = self.stamp(ix) {
            self.recount(ix, &s, false);
        }
        self.meter_out(ix);
        let e = self.nodes[ix as usize].take()?;
        self.booked.remove(&e.pos);
        self.avoided.remove(&ix);
        for id in e.domains {
            self.domains[id as usize].nodes.remove(&e.pos);
        }
        Some(e)
    }

    fn link(&mut self, ix: u32) {
        let Some(e) = self.nodes[ix as usize].as_ref() else { return };
        let (pos, domains) = (e.pos, e.domains);
        if e.facts.avoided {
            self.avoided.insert(ix);
        }
        if !e.book.is_empty() {
            self.booked.insert(pos);
        }
        for (i, id) in domains.into_iter().enumerate() {
            let d = &mut self.domains[id as usize];
            d.nodes.insert(pos);
            self.largest[i] = self.largest[i].max(d.nodes.len());
        }
        self.meter_in(ix);
        if let Some(s) = self.stamp(ix) {
            self.recount(ix, &s, true);
        }
    }

    pub(crate) fn set_reserved(&mut self, ix: u32, by: Vec<u16>) {
        if let Some(e) = self.nodes[ix as usize].as_mut() {
            e.reserved = by;
        }
    }

    pub(crate) fn ixs(&self) -> impl Iterator<Item = u32> + '_ {
        self.nodes.iter().flatten().map(|e| e.pos.ix)
    }

    /// Rebuilds the index from its nodes and compares: the test of the incremental upkeep.
    #[must_use]
    pub fn consistent(&self) -> bool {
        let mut fresh = Fleet { skus: self.skus.clone(), ..Fleet::default() };
        fresh.meter = self.meter.emptied();
        for e in self.entries() {
            fresh.upsert(e.facts.clone());
            let Some(ix) = fresh.find(&e.facts.name) else { return false };
            fresh.change(ix, |n| {
                n.holds.clone_from(&e.holds);
                n.recount();
            });
            for h in &e.holds {
                fresh.end_at(ix, h.until, true);
            }
            if fresh.entry(ix).room != e.room {
                return false;
            }
        }
        // By path, since numbers differ with the order in which nodes joined.
        let paths = |f: &Fleet, set: &BTreeSet<Pos>| -> Vec<Arc<str>> {
            set.iter().map(|p| f.entry(p.ix).path.clone()).collect()
        };
        let classes = |f: &Fleet| -> Vec<(Arc<Class>, Vec<Arc<str>>)> {
            f.classes.iter().map(|(class, set)| (class.clone(), paths(f, set))).collect()
        };
        let domains = |f: &Fleet| -> Vec<(Level, Domain, Vec<Arc<str>>)> {
            let all = f.domain_ids.iter().map(|((l, _), id)| (*l, &f.domains[*id as usize]));
            let used = all.filter(|(_, d)| !d.nodes.is_empty());
            used.map(|(l, d)| (l, d.tidy(), paths(f, &d.nodes))).collect()
        };
        let leaves = |f: &Fleet| -> Vec<(u32, Arc<str>)> {
            f.leaves.iter().map(|(n, _, id)| (*n, f.domains[*id as usize].path.clone())).collect()
        };
        let ends = |f: &Fleet| -> BTreeMap<(Time, NodeName), u32> {
            let name = |ix: u32| f.entry(ix).facts.name.clone();
            f.ends.iter().map(|((t, ix), n)| ((*t, name(*ix)), *n)).collect()
        };
        self.in_path_order()
            && classes(&fresh) == classes(self)
            && domains(&fresh) == domains(self)
            && leaves(&fresh) == leaves(self)
            && ends(&fresh) == ends(self)
            && fresh.meter == self.meter
    }

    /// Does every position, wherever it is written down, follow the order of the paths?
    fn in_path_order(&self) -> bool {
        let domains = self.domains.iter().map(|d| &d.nodes);
        let mut all = self.classes.values().chain(domains).chain([&self.booked]).flatten();
        self.paths.holds()
            && self.paths.len() == self.len()
            && self.entries().all(|e| self.paths.get(&e.path) == Some(e.pos.order))
            && all.all(|p| self.present(p.ix).is_some_and(|e| e.pos == *p))
            && self.domain_paths.holds()
            && self.domains.iter().all(|d| self.domain_paths.get(&d.path) == Some(d.order))
            && self.leaves.iter().all(|(_, order, id)| self.domains[*id as usize].order == *order)
            && self.free_by_level.iter().all(|level| level.agrees(&self.domains))
    }

    /// GPUs that a part of a GPU is kept on.
    pub(crate) fn kept_parts(b: &Booking) -> u32 {
        // A part may need a GPU of its own in the worst case.
        if matches!(b.part, Some(Part::Milli(_))) { 1 } else { 0 }
    }
}
