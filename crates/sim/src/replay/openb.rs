//! FGD's experiment (Weng et al., USENIX ATC'23) on openb's nodes: pods are offered to the
//! scheduler of the product one at a time. There is no time, nothing ends, and what finds no room
//! is dropped.

use crate::SimError;
use crate::traces::{Ask, TraceJob, TraceNode};
use muster_model::NodeName;
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::placement::{Placement, Slot};
use muster_model::policy::SitePolicy;
use muster_model::spec::{GpuPart, Group, Priority, Tier};
use muster_model::topology::Location;
use muster_model::units::{Bytes, Time};
use muster_scheduler::{Cluster, Demand, FAR, NodeFacts, Running, Work, find_capacity};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Where the published curves are read: GPUs asked for, in % of what there is.
pub const ARRIVED: u64 = 130;

const NOW: Time = Time(0);

/// The `i`th node of one leaf, for logs that know no topology; names keep the order.
///
/// # Panics
/// Never: a letter and digits are a name.
#[must_use]
pub fn plain_node(i: usize, sku: &str, gpus: u32, rest: (u32, Bytes)) -> NodeFacts {
    let name: NodeName = format!("n{i:05}").parse().expect("a letter and digits are a name");
    let location = Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: "s".into(),
        leaf: "l".into(),
        rack: "k".into(),
        nvlink: name.to_string(),
        feed: "f".into(),
        rails: Vec::new(),
    };
    NodeFacts::plain(name, location, sku, gpus, rest)
}

/// A kind of pod: many are alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Pod {
    cpu_milli: u32,
    memory_mib: u64,
    gpus: u32,
    /// On each GPU.
    milli: u32,
    /// Models that will do, as `a|b`.
    models: Option<String>,
}

impl Pod {
    fn asked(&self) -> u64 {
        u64::from(self.gpus) * u64::from(self.milli)
    }

    fn demand(&self) -> Demand {
        let group = Group {
            name: "main".into(),
            nodes: 1,
            gpus: self.gpus,
            ranks: self.gpus.max(1),
            cpus: self.cpu_milli,
            memory: Bytes(self.memory_mib << 20),
            sku: self.models.clone(),
            part: (self.gpus == 1 && self.milli < 1000).then_some(GpuPart::Milli(self.milli)),
        };
        Demand {
            groups: [group].into(),
            required: None,
            preferred: None,
            segment: None,
            spread: None,
            simulated: false,
        }
    }
}

/// A list of pods, distinguished by kind.
#[derive(Debug, Clone, Default)]
pub struct Mix {
    kinds: Vec<Pod>,
    /// Kind of each row of the list; none where the row could not be read.
    rows: Vec<Option<usize>>,
}

impl Mix {
    /// From the pods of a list; work that is no pod is left out.
    #[must_use]
    pub fn new(pods: &[TraceJob]) -> Mix {
        let mut known: BTreeMap<Pod, usize> = BTreeMap::new();
        let mut mix = Mix::default();
        for j in pods {
            let Ask::Pod { cpu_milli, memory_mib, gpus, gpu_milli, models } = &j.ask else {
                continue;
            };
            let pod = Pod {
                cpu_milli: *cpu_milli,
                memory_mib: *memory_mib,
                gpus: *gpus,
                milli: *gpu_milli,
                models: (!models.is_empty()).then(|| models.join("|")),
            };
            let kind = *known.entry(pod.clone()).or_insert_with(|| {
                mix.kinds.push(pod);
                mix.kinds.len() - 1
            });
            let row = j.row as usize;
            if mix.rows.len() <= row {
                mix.rows.resize(row + 1, None);
            }
            mix.rows[row] = Some(kind);
        }
        mix
    }

    /// Rows of the list, those that could not be read among them.
    #[must_use]
    pub fn rows(&self) -> u32 {
        u32::try_from(self.rows.len()).unwrap_or(u32::MAX)
    }

    /// Thousandths of GPUs that a row asks for.
    #[must_use]
    pub fn asked(&self, row: u32) -> u64 {
        self.kind(row).map_or(0, |k| self.kinds[k].asked())
    }

    fn kind(&self, row: u32) -> Option<usize> {
        self.rows.get(row as usize).copied().flatten()
    }
}

/// GPUs of the nodes in thousandths.
#[must_use]
pub fn total(nodes: &[TraceNode]) -> u64 {
    nodes.iter().map(|n| u64::from(n.gpus) * 1000).sum()
}

/// What came of one order of arrival.
#[derive(Debug, Clone, PartialEq)]
pub struct ArrivalResult {
    /// GPUs in use of those there are, averaged over the pods that arrive in the last 1% before
    /// [`ARRIVED`].
    pub allocation: f64,
    /// Share of the GPU left over at the end that the pods of the list cannot use, on average over
    /// the list: FGD's measure.
    pub fragmentation: f64,
    /// Pods offered.
    pub pods: u64,
    /// Pods that found room.
    pub placed: u64,
    /// Arrivals of rows that could not be read; they are no part of the others.
    pub unknown: u64,
    /// Hash over every decision.
    pub digest: String,
}

/// Offers the rows of `order`.
///
/// # Errors
/// When the order ends before so much was asked for, or the scheduler loses count.
pub fn offer(nodes: &[TraceNode], mix: &Mix, order: &[u32]) -> Result<ArrivalResult, SimError> {
    let nodes: Vec<&TraceNode> = nodes.iter().filter(|n| n.gpus > 0).collect();
    let mut c = Cluster::default();
    for (i, n) in nodes.iter().enumerate() {
        // Processors are counted in thousandths: the scheduler does not mind the unit.
        let rest = (n.cpus_milli, Bytes(n.memory_mib << 20));
        c.fleet.upsert(plain_node(i, n.model.as_deref().unwrap_or_default(), n.gpus, rest));
    }
    let demands: Vec<Arc<Demand>> = mix.kinds.iter().map(|p| Arc::new(p.demand())).collect();
    let policy = SitePolicy::default();
    let project: ProjectName = "openb".parse().map_err(|e| SimError::new(format!("{e}")))?;
    let total: u64 = nodes.iter().map(|n| u64::from(n.gpus) * 1000).sum();
    let mut left = Left::new(&nodes);
    let mut hash = blake3::Hasher::new();
    let (mut asked, mut used) = (0u64, 0u64);
    let (mut sum, mut seen) = (0u64, 0u64);
    let (mut pods, mut placed, mut unknown) = (0, 0, 0);
    for row in order {
        let Some(kind) = mix.kind(*row) else {
            unknown += 1;
            continue;
        };
        let pod = &mix.kinds[kind];
        pods += 1;
        c.fleet.arrived(&demands[kind]);
        let work = Arc::new(Work {
            job: JobId(pods),
            demand: demands[kind].clone(),
            priority: Priority::Normal,
            tier: Tier::OnDemand,
            project: project.clone(),
            user: "u".into(),
            since: NOW,
            limit: None,
            checkpoints: false,
            elastic: None,
        });
        asked += pod.asked();
        if let Ok(found) = find_capacity(&c, &work, &policy, NOW) {
            placed += 1;
            used += pod.asked();
            for s in &found.slots {
                hash.update(format!("{row} {} {}\n", s.node, s.gpus).as_bytes());
                left.take(s, pod);
            }
            let placement = Placement {
                slots: found.slots,
                port: 0,
                domain: found.domain,
                level: found.level,
                fabric: found.fabric,
                cap_watts: found.cap_watts,
                checkpoint_every: None,
            };
            let running = Running {
                work,
                placement: Arc::new(placement),
                placed: NOW,
                saved: NOW,
                until: FAR,
                stopping: false,
                sku: String::new(),
            };
            c.run(running, |_| true);
        } else {
            hash.update(format!("{row} dropped\n").as_bytes());
        }
        // Rounded to the nearest percent, as in the published curves.
        if total > 0 && (asked * 200 + total) / (2 * total) == ARRIVED {
            sum += used;
            seen += 1;
        }
    }
    let problems = c.problems();
    if !problems.is_empty() {
        return Err(SimError::new(format!("the scheduler lost count: {}", problems.join("; "))));
    }
    if seen == 0 {
        let percent = (asked * 100).checked_div(total).unwrap_or(0);
        return Err(SimError::new(format!(
            "the order ends when {percent}% of the GPUs have been requested; the metrics are read \
             at {ARRIVED}%"
        )));
    }
    Ok(ArrivalResult {
        allocation: sum as f64 / (seen as f64 * total as f64),
        fragmentation: left.fragmentation(mix),
        pods,
        placed,
        unknown,
        digest: hash.finalize().to_hex().to_string(),
    })
}

/// What is left of each node.
struct Left<'a> {
    nodes: Vec<(&'a TraceNode, FreeResources)>,
}

struct FreeResources {
    cpu_milli: u32,
    memory: u64,
    /// Thousandths of each GPU.
    gpus: Vec<u32>,
}

impl<'a> Left<'a> {
    fn new(nodes: &[&'a TraceNode]) -> Left<'a> {
        let rest = |n: &&'a TraceNode| {
            let gpus = vec![1000; n.gpus as usize];
            (*n, FreeResources { cpu_milli: n.cpus_milli, memory: n.memory_mib << 20, gpus })
        };
        Left { nodes: nodes.iter().map(rest).collect() }
    }

    fn take(&mut self, s: &Slot, pod: &Pod) {
        // Nodes are named by their place in the list.
        let at = s.node.as_str().get(1..).and_then(|n| n.parse::<usize>().ok());
        let Some((_, rest)) = at.and_then(|i| self.nodes.get_mut(i)) else { return };
        rest.cpu_milli = rest.cpu_milli.saturating_sub(pod.cpu_milli);
        rest.memory = rest.memory.saturating_sub(pod.memory_mib << 20);
        for g in s.gpus.iter() {
            if let Some(left) = rest.gpus.get_mut(g as usize) {
                *left = left.saturating_sub(pod.milli);
            }
        }
    }

    /// FGD's measure: of the GPU that is left on a node, what a pod cannot use is all of it where
    /// the pod does not fit, and else what is left of the GPUs that are too full for it. The mean
    /// over the list, of what is left.
    fn fragmentation(&self, mix: &Mix) -> f64 {
        let mut count = vec![0u64; mix.kinds.len()];
        for kind in mix.rows.iter().flatten() {
            count[*kind] += 1;
        }
        let mut free = 0u64;
        let mut lost = 0u128;
        for (node, rest) in &self.nodes {
            let all: u64 = rest.gpus.iter().map(|g| u64::from(*g)).sum();
            free += all;
            if all == 0 {
                continue;
            }
            for (pod, n) in mix.kinds.iter().zip(&count) {
                lost += u128::from(rest.useless(node, pod, all)) * u128::from(*n);
            }
        }
        let pods: u64 = count.iter().sum();
        let whole = free as f64 * pods as f64;
        if whole > 0.0 { lost as f64 / whole } else { 0.0 }
    }
}

impl FreeResources {
    fn useless(&self, node: &TraceNode, pod: &Pod, all: u64) -> u64 {
        let fit: Vec<u32> = self.gpus.iter().copied().filter(|g| *g >= pod.milli).collect();
        let model = node.model.as_deref().unwrap_or_default();
        let right = pod.models.as_ref().is_none_or(|m| m.split('|').any(|m| m == model));
        let fits = pod.gpus > 0
            && right
            && self.cpu_milli >= pod.cpu_milli
            && self.memory >= pod.memory_mib << 20
            && fit.len() >= pod.gpus as usize;
        if fits { all - fit.iter().map(|g| u64::from(*g)).sum::<u64>() } else { all }
    }
}
