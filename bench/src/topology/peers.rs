//! Three ways to choose hosts, over the same hosts.

use super::{GPUS, Host};
use crate::scheduler::mix::{SKU, name};
use crate::scheduler::traces::TraceJob;
use muster_model::ids::JobId;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::spec::{Group, Priority, Tier};
use muster_model::topology::{Level, Location};
use muster_model::units::{Bytes, Time};
use muster_scheduler::{Cluster, Demand, FAR, NodeFacts, Running, Work, plan};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Chooses hosts for jobs.
pub(crate) trait Placer {
    /// Hosts for a job, by number, if there is room now.
    fn place(&mut self, id: usize, job: &TraceJob) -> Option<Vec<usize>>;
    /// It is over.
    fn end(&mut self, id: usize);
    /// Leaves used less one, of every gang so far.
    fn crossings(&self) -> BTreeMap<usize, u32>;
}

/// What all of them count.
#[derive(Default)]
struct LeafCounts {
    leaf_of: Vec<usize>,
    spine_of: Vec<usize>,
    crossings: BTreeMap<usize, u32>,
}

impl LeafCounts {
    fn new(hosts: &[Host]) -> LeafCounts {
        let number = |names: Vec<&str>| -> Vec<usize> {
            let all: BTreeSet<&str> = names.iter().copied().collect();
            let all: Vec<&str> = all.into_iter().collect();
            names.iter().map(|n| all.iter().position(|a| a == n).unwrap_or(0)).collect()
        };
        LeafCounts {
            leaf_of: number(hosts.iter().map(|h| h.leaf.as_str()).collect()),
            spine_of: number(hosts.iter().map(|h| h.spine.as_str()).collect()),
            crossings: BTreeMap::new(),
        }
    }

    fn note(&mut self, id: usize, hosts: &[usize]) {
        if hosts.len() > 1 {
            let leaves: BTreeSet<usize> = hosts.iter().map(|h| self.leaf_of[*h]).collect();
            self.crossings.insert(id, u32::try_from(leaves.len() - 1).unwrap_or(u32::MAX));
        }
    }
}

/// Free GPUs of each host, for the two rules that are written here.
struct Counts {
    book: LeafCounts,
    free: Vec<u32>,
    given: BTreeMap<usize, (Vec<usize>, u32)>,
}

impl Counts {
    fn new(hosts: &[Host]) -> Counts {
        Counts {
            book: LeafCounts::new(hosts),
            free: vec![GPUS; hosts.len()],
            given: BTreeMap::new(),
        }
    }

    fn give(&mut self, id: usize, job: &TraceJob, hosts: Vec<usize>) -> Option<Vec<usize>> {
        for h in &hosts {
            self.free[*h] -= job.gpus;
        }
        self.book.note(id, &hosts);
        self.given.insert(id, (hosts.clone(), job.gpus));
        Some(hosts)
    }

    fn end(&mut self, id: usize) {
        if let Some((hosts, gpus)) = self.given.remove(&id) {
            for h in hosts {
                self.free[h] += gpus;
            }
        }
    }
}

/// The fullest host that still holds the share; hosts that are alike in the order of their names,
/// which say nothing of their place.
pub(crate) struct BestFit {
    counts: Counts,
    by_name: Vec<usize>,
}

impl BestFit {
    pub(crate) fn new(hosts: &[Host]) -> BestFit {
        let mut by_name: Vec<usize> = (0..hosts.len()).collect();
        by_name.sort_by_key(|i| &hosts[*i].name);
        BestFit { counts: Counts::new(hosts), by_name }
    }
}

impl Placer for BestFit {
    fn place(&mut self, id: usize, job: &TraceJob) -> Option<Vec<usize>> {
        let free = &self.counts.free;
        let mut fit: Vec<usize> =
            self.by_name.iter().copied().filter(|h| free[*h] >= job.gpus).collect();
        fit.sort_by_key(|h| free[*h]);
        fit.truncate(job.nodes as usize);
        if fit.len() < job.nodes as usize {
            return None;
        }
        self.counts.give(id, job, fit)
    }
    fn end(&mut self, id: usize) {
        self.counts.end(id);
    }
    fn crossings(&self) -> BTreeMap<usize, u32> {
        self.counts.book.crossings.clone()
    }
}

/// The rule of Slurm's topology/tree, as its guide describes it: the lowest switch that satisfies
/// the request, the tightest of those; below it, leaves with the most free hosts first.
pub(crate) struct Tree {
    counts: Counts,
}

impl Tree {
    pub(crate) fn new(hosts: &[Host]) -> Tree {
        Tree { counts: Counts::new(hosts) }
    }

    /// Hosts that fit, by switch.
    fn under(&self, job: &TraceJob, switch: &[usize]) -> BTreeMap<usize, Vec<usize>> {
        let mut out: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for (h, free) in self.counts.free.iter().enumerate() {
            if *free >= job.gpus {
                out.entry(switch[h]).or_default().push(h);
            }
        }
        out
    }

    fn choose(&self, job: &TraceJob) -> Option<Vec<usize>> {
        let need = job.nodes as usize;
        let book = &self.counts.book;
        let all = vec![0; self.counts.free.len()];
        let levels = [&book.leaf_of, &book.spine_of, &all];
        let fit = levels.into_iter().find_map(|level| {
            let switches = self.under(job, level);
            switches.into_values().filter(|s| s.len() >= need).min_by_key(Vec::len)
        })?;
        let mut leaves: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
        for h in fit {
            leaves.entry(book.leaf_of[h]).or_default().push(h);
        }
        let mut leaves: Vec<Vec<usize>> = leaves.into_values().collect();
        leaves.sort_by_key(|l| Reverse(l.len()));
        Some(leaves.concat().into_iter().take(need).collect())
    }
}

impl Placer for Tree {
    fn place(&mut self, id: usize, job: &TraceJob) -> Option<Vec<usize>> {
        let hosts = self.choose(job)?;
        self.counts.give(id, job, hosts)
    }
    fn end(&mut self, id: usize) {
        self.counts.end(id);
    }
    fn crossings(&self) -> BTreeMap<usize, u32> {
        self.counts.book.crossings.clone()
    }
}

/// Our scheduler, asked for one job at a time, so that the queue is the same for all.
pub(crate) struct MusterPlacer {
    cluster: Cluster,
    policy: SitePolicy,
    numbers: BTreeMap<String, usize>,
    book: LeafCounts,
}

impl MusterPlacer {
    pub(crate) fn new(hosts: &[Host]) -> MusterPlacer {
        let mut cluster = Cluster::default();
        for h in hosts {
            let location = Location {
                region: "r".into(),
                cluster: "g6".into(),
                spine: h.spine.clone(),
                leaf: h.leaf.clone(),
                rack: h.leaf.clone(),
                nvlink: h.name.clone(),
                feed: "f".into(),
                rails: Vec::new(),
            };
            let rest = (128, Bytes::gib(2048));
            cluster.fleet.upsert(NodeFacts::plain(name(&h.name), location, SKU, GPUS, rest));
        }
        let mut policy = SitePolicy::default();
        policy.backfill.reserved_starts = 0;
        policy.preemption.enabled = false;
        let numbers = hosts.iter().enumerate().map(|(i, h)| (h.name.clone(), i)).collect();
        MusterPlacer { cluster, policy, numbers, book: LeafCounts::new(hosts) }
    }

    fn work(id: usize, job: &TraceJob) -> Arc<Work> {
        Arc::new(Work {
            job: JobId(id as u64 + 1),
            demand: Arc::new(Demand {
                groups: Arc::from([Group {
                    name: "main".into(),
                    nodes: job.nodes,
                    gpus: job.gpus,
                    ranks: job.gpus,
                    cpus: job.gpus,
                    memory: Bytes::gib(1),
                    sku: None,
                    part: None,
                }]),
                required: None,
                preferred: (job.nodes > 1).then_some(Level::Leaf),
                segment: None,
                spread: None,
                simulated: false,
            }),
            priority: Priority::Normal,
            tier: Tier::OnDemand,
            project: name("p"),
            user: Arc::from("u"),
            since: Time(0),
            limit: None,
            checkpoints: false,
            elastic: None,
        })
    }
}

impl Placer for MusterPlacer {
    fn place(&mut self, id: usize, job: &TraceJob) -> Option<Vec<usize>> {
        let now = Time((job.at * 1000.0) as i64);
        let work = MusterPlacer::work(id, job);
        self.cluster.fleet.arrived(&work.demand);
        self.cluster.queue.insert(work.clone());
        let planned = plan(&mut self.cluster, &self.policy, now);
        self.cluster.queue.remove(work.job);
        let placed = planned.starts.into_iter().next()?.placed;
        let hosts: Vec<usize> = placed
            .slots
            .iter()
            .filter_map(|s| self.numbers.get(s.node.as_str()).copied())
            .collect();
        self.book.note(id, &hosts);
        let placement = Placement {
            slots: placed.slots,
            port: 0,
            domain: placed.domain,
            level: placed.level,
            fabric: placed.fabric,
            cap_watts: None,
            checkpoint_every: None,
        };
        let running = Running {
            work,
            placement: Arc::new(placement),
            placed: now,
            saved: now,
            until: FAR,
            stopping: false,
            sku: SKU.into(),
        };
        self.cluster.run(running, |_| true);
        Some(hosts)
    }
    fn end(&mut self, id: usize) {
        self.cluster.end(JobId(id as u64 + 1), |_| true);
    }
    fn crossings(&self) -> BTreeMap<usize, u32> {
        self.book.crossings.clone()
    }
}
