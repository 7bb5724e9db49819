//! Nodes, fleets, jobs and reservations, short to write.

use muster_model::ids::JobId;
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::NodeRole;
use muster_model::placement::GpuSet;
use muster_model::reservation::{Overrun, Reservation, ReservationTarget};
use muster_model::spec::{GpuPart, Group, Priority, Spread, Tier};
use muster_model::topology::{Level, Location};
use muster_model::units::{Bytes, Span, Time};
use muster_scheduler::{Demand, NodeFacts, ReservedNodes, Work};
use std::sync::Arc;

pub fn name(s: &str) -> NodeName {
    s.parse().unwrap()
}

pub fn project(s: &str) -> ProjectName {
    s.parse().unwrap()
}

/// A node with 8 GPUs in a leaf and a rack; NVLink ends at the node.
pub fn node(n: &str, leaf: &str, rack: &str) -> NodeFacts {
    NodeFacts {
        name: name(n),
        location: Location {
            region: "r".into(),
            cluster: "c".into(),
            spine: "s".into(),
            leaf: leaf.into(),
            rack: rack.into(),
            nvlink: n.into(),
            feed: "f1".into(),
            rails: Vec::new(),
        },
        sku: "h100".into(),
        gpus: GpuSet::first(8),
        absent: GpuSet::EMPTY,
        mig: GpuSet::EMPTY,
        cpus: 64,
        memory: Bytes(1 << 40),
        simulated: true,
        block: None,
        role: NodeRole::Normal,
        hazard: 0,
        avoided: false,
    }
}

pub fn with_gpus(mut f: NodeFacts, n: u32) -> NodeFacts {
    f.gpus = GpuSet::first(n);
    f
}

/// Leaves of so many nodes each, in racks of two, with so many GPUs a node.
pub fn fleet(leaves: u32, nodes: u32, gpus: u32) -> Vec<NodeFacts> {
    (0..leaves)
        .flat_map(|l| {
            (0..nodes).map(move |i| {
                let f = node(&format!("n{l}{i:02}"), &format!("l{l}"), &format!("k{l}-{}", i / 2));
                with_gpus(f, gpus)
            })
        })
        .collect()
}

/// NVL racks: so many trays of 4 GPUs joined by NVLink, all racks in one leaf.
pub fn nvl(racks: u32, trays: u32) -> Vec<NodeFacts> {
    (0..racks)
        .flat_map(|r| {
            (0..trays).map(move |t| {
                let mut f = node(&format!("t{r}{t:02}"), "l", &format!("k{r}"));
                f.location.nvlink = format!("k{r}");
                f.sku = "gb200".into();
                f.gpus = GpuSet::first(4);
                f
            })
        })
        .collect()
}

/// A job under construction.
#[derive(Clone)]
pub struct Build {
    pub work: Work,
    pub real: Option<Span>,
}

/// Short, so that a failing life can be read.
impl std::fmt::Debug for Build {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (w, d) = (&self.work, &self.work.demand);
        for g in d.groups.iter() {
            write!(f, "{}x{} cpus {} mem {}", g.nodes, g.gpus, g.cpus, g.memory.0 >> 38)?;
            write!(f, " {:?} {:?}; ", g.sku, g.part)?;
        }
        write!(f, "req {:?} seg {:?} spread {:?} ", d.required, d.segment, d.spread)?;
        write!(f, "{:?} {:?} {}/{} ", w.priority, w.tier, w.project, w.user)?;
        write!(f, "limit {:?} real {:?} el {:?}", w.limit, self.real, w.elastic)
    }
}

/// A gang of so many nodes with so many GPUs each, without a limit.
pub fn gang(nodes: u32, gpus: u32) -> Build {
    let group = Group {
        name: "main".into(),
        nodes,
        gpus,
        ranks: gpus.max(1),
        cpus: 1,
        memory: Bytes(0),
        sku: None,
        part: None,
    };
    let demand = Demand {
        groups: [group].into(),
        required: None,
        preferred: None,
        segment: None,
        spread: None,
        simulated: false,
    };
    let work = Work {
        job: JobId(0),
        demand: Arc::new(demand),
        priority: Priority::Normal,
        tier: Tier::OnDemand,
        project: project("p0"),
        user: "u0".into(),
        since: Time(0),
        limit: None,
        checkpoints: false,
        elastic: None,
    };
    Build { work, real: None }
}

impl Build {
    pub fn demand(mut self, f: impl FnOnce(&mut Demand)) -> Build {
        let mut d = (*self.work.demand).clone();
        f(&mut d);
        self.work.demand = Arc::new(d);
        self
    }
    pub fn group(self, f: impl FnOnce(&mut Group)) -> Build {
        self.demand(|d| {
            let mut g = d.groups.to_vec();
            f(&mut g[0]);
            d.groups = g.into();
        })
    }
    /// Another group beside the first.
    pub fn and(self, nodes: u32, gpus: u32) -> Build {
        self.demand(|d| {
            let mut g = d.groups.to_vec();
            let name = format!("g{}", g.len());
            g.push(Group { name, nodes, gpus, ranks: gpus.max(1), ..g[0].clone() });
            d.groups = g.into();
        })
    }
    pub fn limit(mut self, m: u64) -> Build {
        self.work.limit = Some(Span::mins(m));
        self
    }
    /// Really runs so many minutes.
    pub fn runs(mut self, m: u64) -> Build {
        self.real = Some(Span::mins(m));
        self
    }
    pub fn priority(mut self, p: Priority) -> Build {
        self.work.priority = p;
        self
    }
    pub fn low(self) -> Build {
        self.priority(Priority::Low)
    }
    pub fn high(self) -> Build {
        self.priority(Priority::High)
    }
    pub fn tier(mut self, t: Tier) -> Build {
        self.work.tier = t;
        self
    }
    pub fn spot(self) -> Build {
        self.tier(Tier::Spot)
    }
    pub fn of(mut self, p: &str, user: &str) -> Build {
        self.work.project = project(p);
        self.work.user = user.into();
        self
    }
    pub fn required(self, l: Level) -> Build {
        self.demand(|d| d.required = Some(l))
    }
    pub fn segment(self, n: u32) -> Build {
        self.demand(|d| d.segment = Some(n))
    }
    pub fn spread(self, s: Spread) -> Build {
        self.demand(|d| d.spread = Some(s))
    }
    pub fn sku(self, s: &str) -> Build {
        self.group(|g| g.sku = Some(s.into()))
    }
    pub fn milli(self, m: u32) -> Build {
        self.group(|g| {
            g.gpus = 1;
            g.part = Some(GpuPart::Milli(m));
        })
    }
    pub fn mig(self, p: &str) -> Build {
        self.group(|g| {
            g.gpus = 1;
            g.part = Some(GpuPart::Mig(p.into()));
        })
    }
    pub fn elastic(mut self, min: u32, max: u32) -> Build {
        self.work.elastic = Some((min, max));
        self
    }
}

/// A window over nodes, for these projects; for nobody when there are none.
pub fn closed(
    label: &str,
    nodes: &[&str],
    projects: &[&str],
    start: Time,
    mins: u64,
) -> ReservedNodes {
    let nodes: Vec<NodeName> = nodes.iter().map(|n| name(n)).collect();
    ReservedNodes {
        reservation: Arc::new(Reservation {
            name: label.parse().unwrap(),
            projects: projects.iter().map(|p| project(p)).collect(),
            reason: String::new(),
            over: ReservationTarget::Nodes(nodes.clone()),
            start,
            length: Span::mins(mins),
            every: None,
            overrun: Overrun::Stop,
            lend: false,
        }),
        nodes: nodes.into_iter().collect(),
    }
}
