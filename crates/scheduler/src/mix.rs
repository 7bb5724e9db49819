//! Placement scoring that keeps GPUs usable: which node, and which GPU of it, loses least to come.
//!
//! A node's *loss* is an estimate of the GPU left on it that no later task will use, in milli-GPU. A task goes where it
//! raises the loss least. The loss is learnt from the mix of tasks that arrived so far and has three parts:
//!
//! * **slivers**: for each GPU, the part of what is left that stays unused if the GPU may pick the best of the next
//!   [`PATIENCE`] tasks again and again until nothing fits (a dynamic program over 0..=1000 milli);
//! * **starved**: GPU left that the node's CPU and memory cannot serve, averaged over "what if only tasks of this kind
//!   came" and weighted by GPU demand. It sends CPU-heavy tasks, and those without a GPU, to nodes with CPU to spare;
//! * **broken blocks**: free GPUs that tasks of several GPUs can no longer use together.
//!
//! To that comes a small price for a GPU model that restricted tasks ask for beyond what there is of it.
//!
//! The idea to score by expected fragmentation against the task mix is FGD's (Weng et al., USENIX ATC'23); the parts
//! above replace its one-step measure. All arithmetic is integer, so the same history gives the same choice anywhere.
//! The score depends on a node's free resources and model alone: nodes in the same state share one evaluation.

use std::collections::BTreeMap;

/// Thousandths of one GPU.
pub const WHOLE: u16 = 1000;
/// Fixed-point bits behind the milli-GPU of a loss.
const FRAC: u32 = 16;
/// How many tasks a GPU may wait for to pick the one that fits best. Less wastes slivers; from about 45 on, fresh GPUs
/// are opened for shares too freely.
const PATIENCE: u32 = 24;
/// What a starved milli-GPU counts, in 64ths of one lost as sliver: it guides the choice long before it is lost for
/// certain. More saves GPU when CPU is short, but breaks more blocks.
const STARVED: i64 = 12;
/// What a milli-GPU in a broken block counts, in 64ths: a twelfth of a starved one, for single-GPU tasks can use it.
const BROKEN: i64 = 1;
/// What a milli-GPU of a model in full demand costs those who need not have it, in 64ths.
const SCARCE: i64 = 1;
/// Costs closer than this (2 milli-GPU) are equal; then the node with less GPU left is filled first.
const QUANTUM: i64 = 2 << FRAC;
/// Most kinds of task that the summary keeps, by GPU demand.
const MAX_KINDS: usize = 96;
/// Most kinds of multi-GPU task that the summary keeps.
const MAX_BLOCKS: usize = 16;
/// Most GPU sizes that the sliver table is built from.
const MAX_SIZES: usize = 64;
/// Distinct kinds counted before the rare ones are forgotten.
const MAX_COUNTED: usize = 4096;
/// Arrivals counted before all counts are halved, so that the mix follows the times.
const MAX_ARRIVALS: u64 = 1 << 16;
/// Most that a [`Ratio`] holds, as good as no limit.
const MAX_RATE: u32 = u32::MAX >> 1;
/// Memory beyond this (4 PiB) does not count.
const MAX_MEM: u64 = u32::MAX as u64;
/// Fixed-point one for probabilities.
const ONE: u64 = 1 << 32;

/// What a task wants of the GPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum GpuAsk {
    /// No GPU.
    None,
    /// Part of one GPU, in milli (1..=999).
    Share(u16),
    /// So many whole GPUs.
    Whole(u32),
}

impl GpuAsk {
    /// Milli-GPU asked for in all.
    #[must_use]
    pub fn milli(self) -> u32 {
        match self {
            Self::None => 0,
            Self::Share(s) => u32::from(s.min(WHOLE)),
            Self::Whole(n) => n.saturating_mul(u32::from(WHOLE)),
        }
    }

    /// GPUs touched, and how much of each.
    fn pieces(self) -> (u32, u16) {
        match self {
            Self::None => (0, 0),
            Self::Share(s) => (1, s.min(WHOLE)),
            Self::Whole(n) => (n, WHOLE),
        }
    }
}

/// A task to place.
#[derive(Clone, Copy, Debug)]
pub struct Task<'a> {
    /// CPU in milli.
    pub cpu: u32,
    /// Memory in MiB.
    pub mem: u64,
    /// GPUs.
    pub ask: GpuAsk,
    /// GPU models allowed, sorted and without doubles; empty means any.
    pub skus: &'a [u16],
}

/// What is free on a node.
#[derive(Clone, Copy, Debug)]
pub struct NodeView<'a> {
    /// CPU free, in milli.
    pub cpu_free: u32,
    /// Memory free, in MiB.
    pub mem_free: u64,
    /// Milli left on each GPU.
    pub gpu_free: &'a [u16],
    /// GPU model.
    pub sku: u16,
}

/// How good a placement is; lower is better. Equal scores are settled by the caller's order of nodes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Score {
    /// Loss added, in quanta.
    pub cost: i64,
    /// Milli-GPU left on the node afterwards.
    pub left: u32,
}

/// A way to place a task on a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placement {
    /// How good it is.
    pub score: Score,
    /// Index of the GPU that a share goes to; none for other tasks (any wholly free GPUs serve those).
    pub gpu: Option<usize>,
}

/// A kind of task, as counted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Kind {
    cpu: u32,
    mem: u64,
    ask: GpuAsk,
    skus: Box<[u16]>,
}

/// Demand of one kind, reduced to what the starved part needs.
#[derive(Clone, Copy, Debug)]
struct Ratio {
    /// Share of the GPU demand, [`FRAC`] bits.
    weight: u64,
    /// Milli-GPU that one milli of CPU serves, [`FRAC`] bits.
    per_cpu: u32,
    /// Milli-GPU that one MiB serves, [`FRAC`] bits.
    per_mem: u32,
}

/// A kind of multi-GPU task.
#[derive(Clone, Debug)]
struct Block {
    weight: i64,
    cpu: u32,
    mem: u64,
    gpus: u32,
    skus: Box<[u16]>,
}

/// The free resources that the node-wide parts of the loss look at.
#[derive(Clone, Copy)]
struct Sum {
    cpu: u32,
    mem: u64,
    /// Milli-GPU left in all.
    free: u32,
    /// GPUs wholly free.
    whole: u32,
}

/// The mix of tasks seen so far, and the summary of it that scores are taken from.
#[derive(Clone, Debug)]
pub struct Mix {
    counts: BTreeMap<Kind, u64>,
    arrivals: u64,
    next_refresh: u64,
    /// Sliver part by milli left on a GPU, [`FRAC`] bits.
    sliver: Vec<i64>,
    ratios: Vec<Ratio>,
    blocks: Vec<Block>,
    /// By model: demand that only some models serve over what there is of them, at most one, [`FRAC`] bits.
    scarce: Vec<i64>,
}

impl Default for Mix {
    fn default() -> Self {
        Self::new()
    }
}

impl Mix {
    /// A mix that has seen nothing: shares are packed best-fit, all else by least GPU left.
    #[must_use]
    pub fn new() -> Self {
        Self {
            counts: BTreeMap::new(),
            arrivals: 0,
            next_refresh: 1,
            sliver: sliver_table(&[]),
            ratios: Vec::new(),
            blocks: Vec::new(),
            scarce: Vec::new(),
        }
    }

    /// Counts a task that arrived, placed or not. True when the summary is due for a [`Self::refresh`].
    pub fn arrived(&mut self, task: &Task<'_>) -> bool {
        let kind = Kind { cpu: task.cpu, mem: task.mem, ask: task.ask, skus: task.skus.into() };
        *self.counts.entry(kind).or_insert(0) += 1;
        self.arrivals += 1;
        self.arrivals >= self.next_refresh || self.counts.len() > 2 * MAX_COUNTED
    }

    /// Rebuilds the summary; scores taken before no longer hold. `capacity` is the cluster's milli-GPU by model.
    pub fn refresh(&mut self, capacity: &[u64]) {
        self.forget();
        // A quarter more: each refresh drops cached scores, and the mix of many arrivals changes slowly.
        self.next_refresh = self.arrivals + self.arrivals / 4 + 8;
        self.sliver = sliver_table(&self.sizes());
        self.ratios = self.summed_ratios();
        self.blocks = self.summed_blocks();
        self.scarce = self.scarcity(capacity);
    }

    /// Bounds what is counted: old arrivals weigh half, and the rarest kinds go when there are too many.
    fn forget(&mut self) {
        if self.arrivals > MAX_ARRIVALS {
            self.counts.values_mut().for_each(|n| *n = n.div_ceil(2));
        }
        if self.counts.len() > MAX_COUNTED {
            let counts = std::mem::take(&mut self.counts);
            let counts = heaviest(counts.into_iter().collect(), MAX_COUNTED / 2);
            self.counts = counts.into_iter().collect();
        }
        self.arrivals = self.counts.values().sum();
    }

    /// The best way to place `task` on `node`, if it fits.
    #[must_use]
    pub fn place(&self, node: &NodeView<'_>, task: &Task<'_>) -> Option<Placement> {
        if task.cpu > node.cpu_free || task.mem > node.mem_free {
            return None;
        }
        let (pieces, size) = task.ask.pieces();
        if pieces > 0 && !task.skus.is_empty() && !task.skus.contains(&node.sku) {
            return None;
        }
        let free = node.gpu_free.iter().map(|&g| u32::from(g)).sum();
        let whole = count(node.gpu_free.iter().filter(|&&g| g >= WHOLE).count());
        let before = Sum { cpu: node.cpu_free, mem: node.mem_free, free, whole };
        let mut after = Sum { cpu: before.cpu - task.cpu, mem: before.mem - task.mem, ..before };
        let (slivers, broken, gpu) = match task.ask {
            GpuAsk::None => (0, self.broken(after, node.sku), None),
            GpuAsk::Whole(n) => {
                after.whole = after.whole.checked_sub(n)?;
                let used = -i64::from(n) * self.sliver_of(WHOLE);
                (used, self.broken(after, node.sku), None)
            }
            GpuAsk::Share(_) => {
                let (slivers, broken, gpu) = self.best_share(node, size, after)?;
                (slivers, broken, Some(gpu))
            }
        };
        after.free -= task.ask.milli();
        let starved = self.starved(after) - self.starved(before);
        let broken = broken - self.broken(before, node.sku);
        let scarce = self.scarce.get(usize::from(node.sku)).copied().unwrap_or(0)
            * i64::from(task.ask.milli());
        let loss = slivers + ((STARVED * starved + BROKEN * broken + SCARCE * scarce) >> 6);
        let score = Score { cost: loss.div_euclid(QUANTUM), left: after.free };
        Some(Placement { score, gpu })
    }

    /// How good `node` is for `task`, if it fits.
    #[must_use]
    pub fn score(&self, node: &NodeView<'_>, task: &Task<'_>) -> Option<Score> {
        self.place(node, task).map(|p| p.score)
    }

    /// The GPU of `node` that a share should go to.
    #[must_use]
    pub fn choose_gpu(&self, node: &NodeView<'_>, task: &Task<'_>) -> Option<usize> {
        self.place(node, task).and_then(|p| p.gpu)
    }

    /// The GPU where a share of `size` adds least loss: the slivers added there, what is broken
    /// afterwards, and which it is. The starved part is the same on every GPU; opening a wholly free
    /// one may break a block.
    fn best_share(&self, node: &NodeView<'_>, size: u16, after: Sum) -> Option<(i64, i64, usize)> {
        let closed = self.broken(after, node.sku);
        let opened = match after.whole.checked_sub(1) {
            Some(whole) => self.broken(Sum { whole, ..after }, node.sku),
            None => closed,
        };
        let rate = |(i, &left): (usize, &u16)| {
            let slivers = self.sliver_of(left - size) - self.sliver_of(left);
            let broken = if left >= WHOLE { opened } else { closed };
            (slivers + ((BROKEN * broken) >> 6), left, i, slivers, broken)
        };
        let fitting = node.gpu_free.iter().enumerate().filter(|&(_, &left)| left >= size);
        let (_, _, gpu, slivers, broken) = fitting.map(rate).min()?;
        Some((slivers, broken, gpu))
    }

    fn sliver_of(&self, left: u16) -> i64 {
        self.sliver[usize::from(left.min(WHOLE))]
    }

    /// GPU left that CPU and memory cannot serve, over the kinds of task.
    fn starved(&self, s: Sum) -> i64 {
        if s.free == 0 {
            return 0;
        }
        let (free, cpu, mem) = (u64::from(s.free), u64::from(s.cpu), s.mem.min(MAX_MEM));
        // Neither product can overflow: a rate has 31 bits, CPU and memory have 32.
        let lost = |r: &Ratio| {
            let served = (cpu * u64::from(r.per_cpu)).min(mem * u64::from(r.per_mem)) >> FRAC;
            r.weight * free.saturating_sub(served)
        };
        i64::try_from(self.ratios.iter().map(lost).sum::<u64>()).unwrap_or(i64::MAX / 64)
    }

    /// Wholly free GPUs that multi-GPU tasks cannot use, over the kinds of such tasks.
    fn broken(&self, s: Sum, sku: u16) -> i64 {
        if s.whole == 0 {
            return 0;
        }
        let lost = |b: &Block| {
            let allowed = b.skus.is_empty() || b.skus.contains(&sku);
            let mut n = if allowed && s.whole >= b.gpus { s.whole / b.gpus } else { 0 };
            // Counting down beats dividing: there is room for very few such tasks on a node.
            while n > 0
                && (u64::from(s.cpu) < u64::from(b.cpu) * u64::from(n)
                    || s.mem < b.mem.saturating_mul(u64::from(n)))
            {
                n -= 1;
            }
            b.weight * i64::from(WHOLE) * i64::from(s.whole - n * b.gpus)
        };
        self.blocks.iter().map(lost).sum()
    }

    /// GPU demand of a kind seen `n` times.
    fn demand(kind: &Kind, n: u64) -> u64 {
        n.saturating_mul(u64::from(kind.ask.milli()))
    }

    fn total_demand(&self) -> u64 {
        self.counts.iter().map(|(k, &n)| Self::demand(k, n)).sum::<u64>().max(1)
    }

    /// How often a piece of each size was asked for.
    fn sizes(&self) -> Vec<(u16, u64)> {
        let mut sizes = Vec::new();
        for (kind, &n) in &self.counts {
            let (pieces, size) = kind.ask.pieces();
            if pieces > 0 && size > 0 {
                sizes.push((size, n.saturating_mul(u64::from(pieces))));
            }
        }
        heaviest(sizes, MAX_SIZES)
    }

    fn summed_ratios(&self) -> Vec<Ratio> {
        let mut by_need = Vec::new();
        for (kind, &n) in self.counts.iter().filter(|(k, _)| k.ask.milli() > 0) {
            by_need.push(((kind.cpu, kind.mem, kind.ask.milli()), Self::demand(kind, n)));
        }
        let kept = heaviest(by_need, MAX_KINDS);
        let total = kept.iter().map(|&(_, d)| d).sum::<u64>().max(1);
        let ratio = |((cpu, mem, milli), demand): ((u32, u64, u32), u64)| Ratio {
            weight: fraction(demand, total).unsigned_abs(),
            per_cpu: rate(milli, u64::from(cpu)),
            per_mem: rate(milli, mem),
        };
        kept.into_iter().map(ratio).collect()
    }

    fn summed_blocks(&self) -> Vec<Block> {
        let total = self.total_demand();
        let mut kinds = Vec::new();
        for (kind, &n) in &self.counts {
            if let GpuAsk::Whole(gpus @ 2..) = kind.ask {
                kinds.push(((kind, gpus), Self::demand(kind, n)));
            }
        }
        let block = |((k, gpus), demand): ((&Kind, u32), u64)| Block {
            weight: fraction(demand, total),
            cpu: k.cpu,
            mem: k.mem,
            gpus,
            skus: k.skus.clone(),
        };
        heaviest(kinds, MAX_BLOCKS).into_iter().map(block).collect()
    }

    /// Restricted demand, spread over the models allowed by what there is of each, against a fair part of all demand.
    fn scarcity(&self, capacity: &[u64]) -> Vec<i64> {
        let of = |sku: u16| capacity.get(usize::from(sku)).copied().unwrap_or(0);
        let all: u64 = capacity.iter().sum();
        let total = self.total_demand();
        let mut scarce = vec![0u64; capacity.len()];
        for (kind, &n) in self.counts.iter().filter(|(k, _)| k.ask.milli() > 0) {
            let allowed: u64 = kind.skus.iter().map(|&s| of(s)).sum();
            if allowed == 0 {
                continue;
            }
            let part = (u128::from(Self::demand(kind, n)) * u128::from(all)) << FRAC;
            let part = part / (u128::from(allowed) * u128::from(total));
            for &sku in &kind.skus {
                if let Some(s) = scarce.get_mut(usize::from(sku)) {
                    *s = s.saturating_add(u64::try_from(part).unwrap_or(u64::MAX)).min(1 << FRAC);
                }
            }
        }
        scarce.into_iter().map(|s| i64::try_from(s).unwrap_or(0)).collect()
    }
}

/// Expected milli left unused for each amount left on one GPU, [`FRAC`] bits, if at each step the best of the next
/// [`PATIENCE`] tasks is taken. With no sizes known, all of a GPU in use is lost and none of a free one.
fn sliver_table(sizes: &[(u16, u64)]) -> Vec<i64> {
    let len = usize::from(WHOLE) + 1;
    let mut table: Vec<i64> = (0..=i64::from(WHOLE)).map(|r| r << FRAC).collect();
    if sizes.is_empty() {
        table[len - 1] = 0;
        return table;
    }
    let total: u64 = sizes.iter().map(|&(_, n)| n).sum::<u64>().max(1);
    let chance = |n: u64| u64::try_from((u128::from(n) << 32) / u128::from(total)).unwrap_or(ONE);
    let sizes: Vec<(usize, u64)> =
        sizes.iter().map(|&(s, n)| (usize::from(s), chance(n))).collect();
    let mut ways: Vec<(i64, u64)> = Vec::with_capacity(sizes.len());
    for left in 1..len {
        ways.clear();
        ways.extend(sizes.iter().filter(|&&(s, _)| s <= left).map(|&(s, p)| (table[left - s], p)));
        ways.sort_unstable();
        // `none`: the chance that none of the ways so far, best first, is among the tasks to come.
        let (mut others, mut none, mut expected) = (ONE, ONE, 0u128);
        for &(unused, p) in &ways {
            others = others.saturating_sub(p);
            let still_none = pow(others, PATIENCE);
            expected += u128::from(none - still_none) * u128::from(unused.unsigned_abs());
            none = still_none;
        }
        expected += u128::from(none) * u128::from(table[left].unsigned_abs());
        table[left] = i64::try_from(expected >> 32).unwrap_or(table[left]);
    }
    table
}

/// `base` to the power `exp`, both ends in 32-bit fixed point; `base` at most one.
fn pow(base: u64, exp: u32) -> u64 {
    let (mut result, mut square, mut exp) = (u128::from(ONE), u128::from(base), exp);
    while exp > 0 {
        if exp & 1 == 1 {
            result = (result * square) >> 32;
        }
        square = (square * square) >> 32;
        exp >>= 1;
    }
    u64::try_from(result).unwrap_or(ONE)
}

/// `part` of `whole` with [`FRAC`] bits.
fn fraction(part: u64, whole: u64) -> i64 {
    i64::try_from((u128::from(part) << FRAC) / u128::from(whole.max(1))).unwrap_or(0)
}

/// Milli-GPU per unit of something a task also needs, [`FRAC`] bits, at most [`MAX_RATE`].
fn rate(milli: u32, needs: u64) -> u32 {
    let rate = (u64::from(milli) << FRAC).checked_div(needs).unwrap_or(u64::MAX);
    u32::try_from(rate).unwrap_or(MAX_RATE).min(MAX_RATE)
}

/// The `most` keys of greatest weight in all, ties by key.
fn heaviest<K: Ord>(mut all: Vec<(K, u64)>, most: usize) -> Vec<(K, u64)> {
    all.sort_unstable_by(|a, b| a.0.cmp(&b.0));
    all.dedup_by(|next, kept| {
        let same = next.0 == kept.0;
        if same {
            kept.1 += next.1;
        }
        same
    });
    all.sort_unstable_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    all.truncate(most);
    all
}

fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ANY: &[u16] = &[];

    fn task(cpu: u32, ask: GpuAsk) -> Task<'static> {
        Task { cpu, mem: 1024, ask, skus: ANY }
    }

    fn node(cpu_free: u32, gpu_free: &[u16]) -> NodeView<'_> {
        NodeView { cpu_free, mem_free: 400_000, gpu_free, sku: 0 }
    }

    fn mix(tasks: &[(Task<'_>, u32)], capacity: &[u64]) -> Mix {
        let mut mix = Mix::new();
        for (t, n) in tasks {
            for _ in 0..*n {
                mix.arrived(t);
            }
        }
        mix.refresh(capacity);
        mix
    }

    #[test]
    fn what_does_not_fit_has_no_placement() {
        let m = Mix::new();
        let n = node(4000, &[500, 1000]);
        assert_eq!(m.place(&n, &task(4001, GpuAsk::None)), None);
        assert_eq!(m.place(&n, &task(1, GpuAsk::Whole(2))), None);
        let picky = Task { skus: &[3], ..task(1, GpuAsk::Share(100)) };
        assert_eq!(m.place(&n, &picky), None);
        let picky_without_gpu = Task { skus: &[3], ..task(1, GpuAsk::None) };
        assert!(m.place(&n, &picky_without_gpu).is_some());
        let huge = Task { mem: 400_001, ..task(1, GpuAsk::None) };
        assert_eq!(m.place(&n, &huge), None);
    }

    #[test]
    fn with_no_history_shares_are_packed() {
        let m = Mix::new();
        let n = node(64_000, &[1000, 700, 400]);
        assert_ne!(m.choose_gpu(&n, &task(1, GpuAsk::Share(300))), Some(0));
        let used = m.score(&node(64_000, &[1000, 0]), &task(1, GpuAsk::Whole(1)));
        let fresh = m.score(&node(64_000, &[1000, 1000]), &task(1, GpuAsk::Whole(1)));
        assert!(used < fresh);
    }

    #[test]
    fn a_small_share_fills_the_sliver_nothing_else_fits() {
        let big = task(3000, GpuAsk::Share(810));
        let half = task(3000, GpuAsk::Share(470));
        let small = task(3000, GpuAsk::Share(160));
        let m = mix(&[(big, 40), (half, 40), (small, 3)], &[100_000]);
        let n = node(64_000, &[1000, 530, 190]);
        assert_eq!(m.choose_gpu(&n, &small), Some(2));
        assert_eq!(m.choose_gpu(&n, &half), Some(1));
    }

    #[test]
    fn cpu_tasks_go_where_cpu_is_to_spare() {
        let gpu = task(12_000, GpuAsk::Whole(1));
        let cpu = task(16_000, GpuAsk::None);
        let m = mix(&[(gpu, 20), (cpu, 5)], &[100_000]);
        let tight = m.score(&node(48_000, &[1000; 4]), &cpu);
        let rich = m.score(&node(104_000, &[1000; 2]), &cpu);
        let no_gpu_left = m.score(&node(48_000, &[0; 4]), &cpu);
        assert!(rich < tight);
        assert!(no_gpu_left < tight);
    }

    #[test]
    fn blocks_are_not_broken_for_one_gpu() {
        let eight = task(64_000, GpuAsk::Whole(8));
        let one = task(8000, GpuAsk::Whole(1));
        let m = mix(&[(eight, 10), (one, 10)], &[100_000]);
        let fresh = m.score(&node(96_000, &[1000; 8]), &one);
        let started = m.score(&node(88_000, &[1000, 1000, 1000, 1000, 1000, 1000, 1000, 0]), &one);
        assert!(started < fresh);
    }

    #[test]
    fn a_model_that_others_must_have_is_spared() {
        let plain = task(8000, GpuAsk::Whole(1));
        let picky = Task { skus: &[1], ..plain };
        let m = mix(&[(plain, 10), (picky, 10)], &[90_000, 10_000]);
        let common = m.score(&node(96_000, &[1000; 4]), &plain);
        let scarce = m.score(&NodeView { sku: 1, ..node(96_000, &[1000; 4]) }, &plain);
        assert!(common < scarce);
    }

    #[test]
    fn refresh_is_due_at_first_and_then_ever_more_seldom() {
        let mut m = Mix::new();
        let mut due = 0;
        for _ in 0..10_000 {
            if m.arrived(&task(1000, GpuAsk::Share(500))) {
                m.refresh(&[1000]);
                due += 1;
            }
        }
        assert!((10..60).contains(&due), "{due}");
    }

    #[test]
    fn counts_are_bounded_and_forget() {
        let mut m = Mix::new();
        for i in 0..20_000u32 {
            if m.arrived(&task(i, GpuAsk::Share(500))) {
                m.refresh(&[1000]);
            }
        }
        assert!(m.counts.len() <= 2 * MAX_COUNTED);
        assert!(!m.ratios.is_empty() && m.ratios.len() <= MAX_KINDS);
    }

    #[test]
    fn odd_figures_do_not_overflow() {
        let t = Task { cpu: 0, mem: 0, ask: GpuAsk::Whole(64), skus: ANY };
        let u = Task { cpu: u32::MAX, mem: u64::MAX, ask: GpuAsk::Share(u16::MAX), skus: &[9] };
        let m = mix(&[(t, 3), (u, 3)], &[]);
        let free = [1000u16; 64];
        let n = NodeView { cpu_free: u32::MAX, mem_free: u64::MAX, gpu_free: &free, sku: 9 };
        assert!(m.place(&n, &t).is_some());
        assert!(m.place(&n, &u).is_some());
    }

    #[test]
    fn the_sliver_table_distinguishes_use_from_waste() {
        let t = sliver_table(&[(1000, 10), (500, 10)]);
        assert_eq!(t[0], 0);
        assert_eq!(t[499], 499 << FRAC);
        assert!(t[500] < 1 << FRAC);
        assert!(t[1000] < 1 << FRAC);
        assert!((200..=300).contains(&(t[750] >> FRAC)));
    }
}
