//! Pods are offered to the scheduler of the product one at a time. There is no time, nothing
//! ends, and what finds no room is dropped.

use super::data::{ARRIVED, Node, Pod, Trace};
use crate::alike;
use anyhow::{Context, Result};
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::spec::{GpuPart, Group, Priority, Tier};
use muster_model::units::{Bytes, Time};
use muster_scheduler::{Cluster, Demand, FAR, Running, Work, room_for};
use std::sync::Arc;

const NOW: Time = Time(0);

fn demand(p: &Pod) -> Demand {
    let group = Group {
        name: "main".into(),
        nodes: 1,
        gpus: p.gpus,
        ranks: p.gpus.max(1),
        cpus: p.cpu_milli,
        memory: Bytes(p.memory_mib << 20),
        sku: p.models.clone(),
        part: (p.gpus == 1 && p.milli < 1000).then_some(GpuPart::Milli(p.milli)),
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

/// GPU of the nodes in thousandths.
pub(crate) fn total(nodes: &[Node]) -> u64 {
    nodes.iter().map(|n| u64::from(n.gpus) * 1000).sum()
}

/// GPU allocation in %, averaged over the pods that arrive in the last 1% of capacity.
pub(crate) fn offer(nodes: &[Node], trace: &Trace, order: &[usize]) -> Result<f64> {
    let mut c = Cluster::default();
    for (i, n) in nodes.iter().enumerate() {
        // Processors are counted in thousandths: the scheduler does not mind the unit.
        let rest = (n.cpu_milli, Bytes(n.memory_mib << 20));
        c.fleet.upsert(alike::node(i, &n.model, n.gpus, rest));
    }
    let demands: Vec<Arc<Demand>> = trace.kinds.iter().map(|p| Arc::new(demand(p))).collect();
    let policy = SitePolicy::default();
    let project: ProjectName = "openb".parse().context("a bad name")?;
    let total = total(nodes);
    let (mut asked, mut used) = (0u64, 0u64);
    let (mut sum, mut seen) = (0u64, 0u64);
    for (i, row) in order.iter().enumerate() {
        let kind = trace.pods[*row];
        let pod = &trace.kinds[kind];
        c.fleet.arrived(&demands[kind]);
        let work = Arc::new(Work {
            job: JobId(i as u64 + 1),
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
        if let Ok(placed) = room_for(&c, &work, &policy, NOW) {
            used += pod.asked();
            let placement = Placement {
                slots: placed.slots,
                port: 0,
                domain: placed.domain,
                level: placed.level,
                fabric: placed.fabric,
                cap_watts: placed.cap_watts,
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
        }
        // Rounded to the nearest percent, as in the published curves.
        if (asked * 200 + total) / (2 * total) == ARRIVED {
            sum += used;
            seen += 1;
        }
    }
    let problems = c.problems();
    anyhow::ensure!(problems.is_empty(), "the scheduler lost count: {}", problems.join("; "));
    anyhow::ensure!(seen > 0, "the order ends before {ARRIVED}% have arrived");
    Ok(sum as f64 * 100.0 / (seen as f64 * total as f64))
}
