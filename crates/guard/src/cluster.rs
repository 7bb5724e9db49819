//! Cycles of the scheduler: a fleet that is full, a standing queue, and one gang ends at a time.

use crate::{WriteCounts, measured};
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::placement::{Fabric, GpuSet, Placement, Slot};
use muster_model::policy::SitePolicy;
use muster_model::spec::{Group, Priority, Tier};
use muster_model::topology::{Level, Location};
use muster_model::units::{Bytes, Span, Time};
use muster_scheduler::{Cluster, Demand, NodeFacts, Running, Work, plan};
use std::sync::Arc;

const SKU: &str = "h100-sxm";
const GPUS: u32 = 8;
const CPUS: u32 = 128;
/// Nodes of each gang that runs.
const GANG: u32 = 4;
/// Jobs that wait.
const WAITING: u64 = 1000;
/// Nodes of the jobs that wait, in turn.
const SIZES: [u32; 8] = [1, 1, 2, 1, 4, 1, 8, 16];
/// Gangs that end while it is counted, each followed by a whole cycle.
const CYCLES: u32 = 10;
/// Plans until a cycle has nothing more to do; far more than it takes.
const PLANS: u32 = 100;

struct Site {
    cluster: Cluster,
    policy: SitePolicy,
    now: Time,
    started: usize,
}

pub(crate) fn cycles(nodes: u32) -> WriteCounts {
    let mut site = Site::full(nodes);
    for i in 0..WAITING {
        let w = work(1_000_000 + i, SIZES[i as usize % SIZES.len()], 1 + i % 24, site.now);
        site.cluster.fleet.arrived(&w.demand);
        site.cluster.queue.insert(w);
    }
    site.cycle();
    site.started = 0;
    measured(|| {
        for _ in 0..CYCLES {
            site.end_first();
            site.cycle();
        }
    });
    assert!(site.started > 0, "nothing started in the cycles that are counted");
    WriteCounts::default()
}

impl Site {
    /// Racks of 4, leaves of 32, spines of 512, and a gang on every rack.
    fn full(nodes: u32) -> Site {
        let mut cluster = Cluster::default();
        for i in 0..nodes {
            let location = Location {
                region: "r".into(),
                cluster: "c".into(),
                spine: format!("s{:03}", i / 512),
                leaf: format!("l{:05}", i / 32),
                rack: format!("k{:05}", i / 4),
                nvlink: format!("node-{i:06}"),
                feed: format!("f{}", i / 4 % 2),
                rails: Vec::new(),
            };
            let rest = (CPUS, Bytes::gib(2048));
            cluster.fleet.upsert(NodeFacts::plain(name(i), location, SKU, GPUS, rest));
        }
        let now = Time(1_700_000_000_000);
        let mut site = Site { cluster, policy: SitePolicy::default(), now, started: 0 };
        for gang in 0..nodes / GANG {
            let w = work(u64::from(gang) + 1, GANG, 24 + u64::from(gang % 240), now);
            let slots = (0..GANG).map(|rank| slot(gang * GANG + rank, rank)).collect();
            let placement = Placement {
                slots,
                port: 0,
                domain: String::new(),
                level: Level::Rack,
                fabric: Fabric::Leaf,
                cap_watts: None,
                checkpoint_every: None,
            };
            site.run(w, placement);
        }
        site
    }

    fn run(&mut self, work: Arc<Work>, placement: Placement) {
        let running = Running {
            until: work.ends(self.now),
            placement: Arc::new(placement),
            placed: self.now,
            saved: self.now,
            stopping: false,
            sku: SKU.into(),
            work,
        };
        self.cluster.run(running, |_| true);
    }

    /// The gang that has run longest is over.
    fn end_first(&mut self) {
        self.now = self.now + Span::secs(60);
        if let Some(job) = self.cluster.running.keys().next().copied() {
            self.cluster.end(job, |_| true);
        }
    }

    /// Plans, and does what the engine does with a plan, until nothing more is to do.
    fn cycle(&mut self) {
        for _ in 0..PLANS {
            let plan = plan(&mut self.cluster, &self.policy, self.now);
            let more = plan.more;
            for s in plan.starts {
                let Some(work) = self.cluster.queue.get(s.job).cloned() else { continue };
                self.cluster.queue.remove(s.job);
                self.cluster.fleet.release_reservation(s.job);
                self.started += 1;
                let placement = Placement {
                    slots: s.placed.slots,
                    port: 0,
                    domain: s.placed.domain,
                    level: s.placed.level,
                    fabric: s.placed.fabric,
                    cap_watts: s.placed.cap_watts,
                    checkpoint_every: None,
                };
                self.run(work, placement);
            }
            for p in plan.reserved_starts {
                let Some(w) = self.cluster.queue.get(p.job).cloned() else { continue };
                let end = w.ends(p.at);
                self.cluster.fleet.keep(&w, &p.nodes, (p.at, end), p.basis);
            }
            if !more {
                break;
            }
        }
    }
}

fn name(i: u32) -> NodeName {
    format!("node-{i:06}").parse().expect("made of letters and digits")
}

fn slot(node: u32, rank: u32) -> Slot {
    Slot {
        node: name(node),
        group: 0,
        node_rank: rank,
        first_rank: rank * GPUS,
        ranks: GPUS,
        gpus: GpuSet::first(GPUS),
        cpus: 64,
        memory: Bytes::gib(1024),
        part: None,
    }
}

/// A gang of whole nodes, of one of four projects with four users each.
fn work(job: u64, nodes: u32, hours: u64, since: Time) -> Arc<Work> {
    let (project, user) = (job % 4, job / 4 % 4);
    Arc::new(Work {
        job: JobId(job),
        demand: Arc::new(Demand {
            groups: Arc::from([Group {
                name: "main".into(),
                nodes,
                gpus: GPUS,
                ranks: GPUS,
                cpus: 64,
                memory: Bytes::gib(1024),
                sku: None,
                part: None,
            }]),
            required: None,
            preferred: (nodes > 1).then_some(Level::Leaf),
            segment: None,
            spread: None,
            simulated: false,
        }),
        priority: Priority::Normal,
        tier: Tier::OnDemand,
        project: format!("p{project}").parse().expect("made of letters and digits"),
        user: Arc::from(format!("user{project}{user}")),
        since,
        limit: Some(Span::hours(hours)),
        checkpoints: nodes > 1,
        elastic: None,
    })
}
