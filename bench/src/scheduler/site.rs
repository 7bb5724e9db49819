//! A site in memory: a fleet, what runs on it, and the part of the engine that carries plans out.

use super::mix::{CandidateJob, Draw, Mix, SKU, name};
use muster_model::ids::JobId;
use muster_model::placement::{AllocatedPart, Fabric, GpuSet, Placement, Slot};
use muster_model::policy::SitePolicy;
use muster_model::quota::{QueueOrder, Quota, QuotaLimit, Quotas};
use muster_model::spec::GpuPart;
use muster_model::topology::{Level, Location};
use muster_model::units::{Bytes, Span, Time};
use muster_scheduler::{Cluster, NodeFacts, Plan, Running, Work, plan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::sync::Arc;

pub(crate) const GPUS: u32 = 8;
const CPUS: u32 = 128;
const MEMORY_GIB: u64 = 2048;

/// Who claims back what was lent.
pub(crate) const CLAIMANT: &str = "claimant";

/// A node of the fleet: racks of 4, leaves of 32, spines of 16 leaves.
fn facts(i: u32) -> NodeFacts {
    let (rack, leaf, spine) = (i / 4, i / 32, i / 512);
    let location = Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: format!("s{spine:03}"),
        leaf: format!("l{leaf:05}"),
        rack: format!("k{rack:05}"),
        nvlink: format!("node-{i:06}"),
        feed: format!("f{}", rack % 2),
        rails: Vec::new(),
    };
    let rest = (CPUS, Bytes::gib(MEMORY_GIB));
    NodeFacts::plain(name(&format!("node-{i:06}")), location, SKU, GPUS, rest)
}

/// A cluster and what is needed to let its jobs live.
#[derive(Clone)]
pub(crate) struct Site {
    pub(crate) cluster: Cluster,
    pub(crate) policy: SitePolicy,
    pub(crate) now: Time,
    pub(crate) nodes: u32,
    /// When jobs end, as only the bench knows.
    ends: BinaryHeap<Reverse<(Time, JobId)>>,
    runs: BTreeMap<JobId, Span>,
}

impl Site {
    pub(crate) fn new(nodes: u32) -> Site {
        let mut cluster = Cluster::default();
        let timed = std::time::Instant::now();
        for i in 0..nodes {
            cluster.fleet.upsert(facts(i));
        }
        eprintln!("  {nodes} nodes joined in {:.0} ms", timed.elapsed().as_secs_f64() * 1000.0);
        Site {
            cluster,
            policy: SitePolicy::default(),
            now: Time(1_700_000_000_000),
            nodes,
            ends: BinaryHeap::new(),
            runs: BTreeMap::new(),
        }
    }

    /// Half of the fleet belongs to the projects by their use, a tenth to one that is idle, the
    /// rest is the site's: everybody borrows.
    pub(crate) fn set_quotas(&mut self, mix: &Mix) {
        let all = f64::from(self.nodes * GPUS);
        let limit = |n: f64| {
            vec![QuotaLimit { sku: None, tier: None, nominal: n as u32, borrow: None, lend: None }]
        };
        let quota = |label: &str, parent: Option<&str>, projects: Vec<_>, gpus| Quota {
            name: name(label),
            parent: parent.map(name),
            shares: 1,
            projects,
            gpus: limit(gpus),
            order: QueueOrder::BestEffort,
            max_priority: None,
        };
        let mut tree = vec![quota("site", None, Vec::new(), all * 0.4)];
        for (p, part) in mix.projects.iter().zip(mix.parts()) {
            tree.push(quota(p.as_str(), Some("site"), vec![p.clone()], all * 0.5 * part));
        }
        tree.push(quota(CLAIMANT, Some("site"), vec![name(CLAIMANT)], all * 0.1));
        self.cluster.set_quotas(&Quotas { tree });
    }

    /// A job waits.
    pub(crate) fn submit(&mut self, d: CandidateJob) {
        self.runs.insert(d.work.job, d.run);
        self.cluster.fleet.arrived(&d.work.demand);
        self.cluster.queue.insert(d.work);
    }

    pub(crate) fn plan(&mut self) -> Plan {
        plan(&mut self.cluster, &self.policy, self.now)
    }

    /// What the engine does with a plan.
    pub(crate) fn execute(&mut self, plan: Plan) {
        for s in plan.starts {
            let Some(work) = self.cluster.queue.get(s.job).cloned() else { continue };
            self.cluster.queue.remove(s.job);
            self.cluster.fleet.release_reservation(s.job);
            let placement = Placement {
                slots: s.placed.slots,
                port: 0,
                domain: s.placed.domain,
                level: s.placed.level,
                fabric: s.placed.fabric,
                cap_watts: s.placed.cap_watts,
                checkpoint_every: None,
            };
            self.started(work, placement, self.now);
        }
        for p in plan.reserved_starts {
            let Some(w) = self.cluster.queue.get(p.job).cloned() else { continue };
            let end = w.ends(p.at);
            self.cluster.fleet.keep(&w, &p.nodes, (p.at, end), p.basis);
        }
        for v in plan.victims {
            if let Some(r) = self.cluster.running.get_mut(&v.job) {
                r.stopping = true;
                let soon = self.now + Span::secs(30);
                self.ends.push(Reverse((soon, v.job)));
            }
        }
    }

    fn started(&mut self, work: Arc<Work>, placement: Placement, placed: Time) {
        let run = self.runs.get(&work.job).copied().unwrap_or(Span::hours(1));
        let over = work.limit.map_or(run, |l| run.min(l));
        self.ends.push(Reverse(((placed + over).max(self.now + Span::secs(1)), work.job)));
        let until = work.ends(placed);
        self.cluster.run(
            Running {
                until,
                placement: Arc::new(placement),
                placed,
                saved: placed,
                stopping: false,
                sku: SKU.into(),
                work,
            },
            |_| true,
        );
    }

    /// The next job that ends does so, and time passes until then. Those that were stopped for
    /// others wait again. Returns how long the change of the cluster took.
    pub(crate) fn end_next(&mut self) -> Option<std::time::Duration> {
        loop {
            let Reverse((t, job)) = self.ends.pop()?;
            let Some(r) = self.cluster.running.get(&job) else { continue };
            let again = r.stopping.then(|| r.work.clone());
            self.now = self.now.max(t);
            let timed = std::time::Instant::now();
            self.cluster.end(job, |_| true);
            if let Some(w) = again {
                self.cluster.queue.insert(w);
            } else {
                self.runs.remove(&job);
            }
            return Some(timed.elapsed());
        }
    }

    /// Thousandths of all GPUs that are allocated.
    pub(crate) fn full(&self) -> u64 {
        let held: u64 = self.cluster.running.values().map(Running::milli).sum();
        held / u64::from(self.nodes * GPUS)
    }

    /// Fills the fleet with what runs at a moment, without asking the scheduler: up to so many
    /// thousandths, then some that are drawn at random end until `left` are held.
    pub(crate) fn fill(&mut self, mix: &mut Mix, upto: u64, left: u64) {
        let all = u64::from(self.nodes * GPUS) * 1000;
        let mut packer = Packer::new(self.nodes);
        let mut held = 0;
        let mut jobs: Vec<(JobId, u64)> = Vec::new();
        let mut misses = 0;
        while held < all / 1000 * upto && misses < 2000 {
            let mut d = mix.draw(Draw::Running, self.now);
            let Some(slots) = packer.place(&d.work) else {
                misses += 1;
                continue;
            };
            // Somewhere in the middle of its run, and for at least a while.
            let gone = mix.dice.below(d.run.0).max(mix.dice.below(600_000));
            let placed = Time(self.now.0 - i64::try_from(gone).unwrap_or(0));
            let w = Arc::make_mut(&mut d.work);
            w.since = placed;
            self.runs.insert(d.work.job, d.run);
            let placement = Placement {
                slots,
                port: 0,
                domain: String::new(),
                level: Level::Node,
                fabric: Fabric::Leaf,
                cap_watts: None,
                checkpoint_every: None,
            };
            let milli = d.work.demand.milli(SKU);
            held += milli;
            jobs.push((d.work.job, milli));
            self.started(d.work, placement, placed);
        }
        while held > all / 1000 * left && !jobs.is_empty() {
            let i = mix.dice.below(jobs.len() as u64) as usize;
            let (job, milli) = jobs.swap_remove(i);
            held -= milli;
            self.cluster.end(job, |_| true);
            self.runs.remove(&job);
        }
    }
}

/// A node while it is packed.
#[derive(Clone)]
struct Bin {
    whole: GpuSet,
    shared: Vec<(u32, u32)>,
    cpus: u32,
    memory_gib: u64,
}

/// Packs small jobs into a few open nodes at a time and gives gangs whole new ones.
struct Packer {
    bins: Vec<Bin>,
    open: VecDeque<usize>,
    next: usize,
}

/// Nodes that are open at a time.
const OPEN: usize = 24;

impl Packer {
    fn new(nodes: u32) -> Packer {
        let bin = Bin {
            whole: GpuSet::first(GPUS),
            shared: Vec::new(),
            cpus: CPUS,
            memory_gib: MEMORY_GIB,
        };
        Packer { bins: vec![bin; nodes as usize], open: VecDeque::new(), next: 0 }
    }

    fn place(&mut self, w: &Work) -> Option<Vec<Slot>> {
        let g = w.demand.groups.first()?;
        let n = g.nodes as usize;
        let mut out = Vec::with_capacity(n);
        if n > 1 {
            if self.next + n > self.bins.len() {
                return None;
            }
            for rank in 0..n {
                out.push(self.give(self.next + rank, w, rank)?);
            }
            self.next += n;
            return Some(out);
        }
        if let Some(i) = self.open.iter().copied().find(|i| self.fits(*i, w)) {
            return Some(vec![self.give(i, w, 0)?]);
        }
        if self.next >= self.bins.len() {
            return None;
        }
        if self.open.len() >= OPEN {
            self.open.pop_front();
        }
        self.open.push_back(self.next);
        self.next += 1;
        Some(vec![self.give(self.next - 1, w, 0)?])
    }

    fn fits(&self, i: usize, w: &Work) -> bool {
        let (b, g) = (&self.bins[i], &w.demand.groups[0]);
        let gpus = match g.part {
            Some(GpuPart::Milli(m)) => {
                !b.whole.is_empty() || b.shared.iter().any(|(_, left)| *left >= m)
            }
            _ => b.whole.len() >= g.gpus,
        };
        gpus && b.cpus >= g.cpus && Bytes::gib(b.memory_gib) >= g.memory
    }

    fn give(&mut self, i: usize, w: &Work, rank: usize) -> Option<Slot> {
        let g = &w.demand.groups[0];
        let b = &mut self.bins[i];
        b.cpus = b.cpus.checked_sub(g.cpus)?;
        b.memory_gib -= g.memory.0 >> 30;
        let (gpus, part) = match g.part {
            Some(GpuPart::Milli(m)) => {
                let at = b.shared.iter().position(|(_, left)| *left >= m).unwrap_or_else(|| {
                    let fresh = b.whole.lowest(1);
                    b.whole = b.whole.minus(fresh);
                    b.shared.push((fresh.iter().next().unwrap_or(0), 1000));
                    b.shared.len() - 1
                });
                b.shared[at].1 -= m;
                (GpuSet(1 << b.shared[at].0), Some(AllocatedPart::Milli(m)))
            }
            _ => {
                let gpus = b.whole.lowest(g.gpus);
                b.whole = b.whole.minus(gpus);
                (gpus, None)
            }
        };
        let rank = u32::try_from(rank).unwrap_or(0);
        Some(Slot {
            node: name(&format!("node-{i:06}")),
            group: 0,
            node_rank: rank,
            first_rank: rank * g.ranks,
            ranks: g.ranks,
            gpus,
            cpus: g.cpus,
            memory: g.memory,
            part,
        })
    }
}
