//! What is submitted, and what operators set, from small numbers.

use muster_model::names::NodeName;
use muster_model::node::{Gpu, Inventory, NodeRole};
use muster_model::policy::{BackfillMode, OverBudget, SitePolicy};
use muster_model::spec::{
    CheckpointRequest, CheckpointSpec, Elastic, JobSpec, OnPartition, Priority, Tier,
};
use muster_model::topology::{Level, Location, Topology};
use muster_model::units::{Bytes, Span, Time};
use muster_simnode::Random;
use serde_json::{Value, json};

/// What a submitted job asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Ask {
    pub(crate) nodes: u8,
    pub(crate) gpus: u8,
    pub(crate) shape: u8,
    pub(crate) limit: u8,
    pub(crate) class: u8,
    pub(crate) tier: u8,
    pub(crate) saves: u8,
    pub(crate) owner: u8,
    pub(crate) after: Option<u8>,
}

impl Ask {
    pub(crate) fn any(r: &mut Random) -> Ask {
        let mut n = |most: u64| u8::try_from(r.below(most)).expect("below 256");
        let after = n(5);
        Ask {
            nodes: 1 + n(4),
            gpus: n(9),
            shape: n(10),
            limit: n(5),
            class: n(5),
            tier: n(5),
            saves: n(6),
            owner: n(6),
            after: (after == 0).then(|| n(256)),
        }
    }

    /// The user who asks.
    pub(crate) fn user(&self) -> &'static str {
        if self.owner.is_multiple_of(2) { "ann" } else { "bob" }
    }

    pub(crate) fn project(&self) -> &'static str {
        ["default", "blue", "red"][usize::from(self.owner / 2) % 3]
    }

    /// As written. `after` is what it waits for.
    pub(crate) fn spec(&self, after: Option<String>) -> JobSpec {
        let mut s = JobSpec::default();
        s.gang.nodes = Some(self.nodes.into());
        s.gang.gpus_per_node = Some(self.gpus.into());
        match self.shape % 10 {
            0 => {
                s.gang = Default::default();
                s.gang.gpu_milli = Some(u32::from(self.limit) * 180 + 100);
            }
            1 => {
                s.gang = Default::default();
                let profile = ["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"];
                s.gang.mig = Some(profile[usize::from(self.class) % 4].into());
            }
            2 | 3 => {
                let nodes = u32::from(self.nodes);
                let max_nodes = nodes + u32::from(self.class % 3);
                s.elastic = Some(Elastic { min_nodes: 1.max(nodes - 1), max_nodes });
            }
            4 if self.nodes == 1 => s.array = Some("0-2".into()),
            5 => s.topology.required = Some(Level::Leaf),
            6 => s.gang.sku = Some("h200-sxm".into()),
            _ => {}
        }
        s.time_limit = limit(self.limit);
        s.priority = class(self.class);
        s.tier = [Tier::OnDemand, Tier::OnDemand, Tier::Spot, Tier::OnDemand, Tier::Reserved]
            [usize::from(self.tier) % 5];
        if self.saves % 6 > 2 || s.elastic.is_some() {
            let request =
                CheckpointRequest { signal: (self.saves % 6 > 3).then(|| "SIGUSR1".into()) };
            s.checkpoint =
                Some(CheckpointSpec { dir: "/ckpt".into(), request, grace: None, interval: None });
        }
        s.on_partition = match self.saves % 6 {
            1 => Some(OnPartition::Continue),
            2 | 5 => Some(OnPartition::StopAfter(Span::mins(1))),
            _ => None,
        };
        s.retries.application = u32::from(self.saves % 2) * 2;
        s.project = Some(self.project().parse().expect("a name"));
        s.hold = self.gpus == 0 && self.tier == 0;
        s.after = after.into_iter().collect();
        s
    }
}

pub(crate) fn limit(n: u8) -> Option<Span> {
    [None, Some(1), Some(10), Some(60), Some(240)][usize::from(n) % 5].map(Span::mins)
}

pub(crate) fn class(n: u8) -> Priority {
    [Priority::Normal, Priority::Low, Priority::Normal, Priority::High, Priority::Critical]
        [usize::from(n) % 5]
}

pub(crate) fn role(n: u8) -> NodeRole {
    [NodeRole::Normal, NodeRole::Spare, NodeRole::Lemon, NodeRole::Suspect][usize::from(n) % 4]
}

pub(crate) fn name(i: usize) -> NodeName {
    format!("n{i}").parse().expect("a name")
}

/// What a machine has: the last of the fleet is cut into slices in part, and every third is of
/// another kind.
pub(crate) fn inventory(i: usize, of: usize, gpus: u8) -> Inventory {
    let sku = if i % 3 == 2 { "h200-sxm" } else { "h100-sxm" };
    let gpu = |index: u32| Gpu {
        index,
        sku: sku.into(),
        uuid: format!("GPU-{i}-{index}"),
        memory: Bytes::gib(80),
        mig: (i + 1 == of && index >= u32::from(gpus) / 2).then_some(true),
        ..Gpu::default()
    };
    Inventory {
        cpu_model: "test".into(),
        cpus: 64,
        memory: Bytes::gib(512),
        gpus: (0..u32::from(gpus)).map(gpu).collect(),
        kernel: "test".into(),
        simulated: true,
        ..Inventory::default()
    }
}

/// So many nodes a rack, twice as many a leaf.
pub(crate) fn topology(nodes: usize, rack: usize) -> Topology {
    let place = |i: usize| Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: "s".into(),
        leaf: format!("l{}", i / (2 * rack)),
        rack: format!("k{}", i / rack),
        nvlink: name(i).to_string(),
        feed: if (i / rack).is_multiple_of(2) { "A" } else { "B" }.into(),
        rails: Vec::new(),
    };
    Topology { nodes: (0..nodes).map(|i| (name(i), place(i))).collect() }
}

pub(crate) fn policy(n: u8) -> SitePolicy {
    let mut p = SitePolicy::default();
    match n % 12 {
        0 => p.backfill.mode = BackfillMode::Easy,
        1 => p.backfill.mode = BackfillMode::Aggressive,
        2 => p.preemption.enabled = false,
        3 => p.preemption.min_run = Span(0),
        4 => p.elastic.settle = Span::secs(30),
        5 => {
            p.power.stagger_gpus = 8;
            p.power.feeds.insert("A".into(), 20_000);
        }
        6 => {
            p.power.feeds.insert("A".into(), 20_000);
            p.power.over_budget = OverBudget::Cap;
        }
        7 => {
            p.limits.running_jobs_per_user = Some(3);
            p.limits.gpus_per_user = Some(20);
            p.limits.queued_jobs_per_user = Some(6);
        }
        8 => {
            p.limits.max_time = Some(Span::hours(2));
            p.idle.warn_after = Some(Span::mins(5));
            p.idle.end_after = Some(Span::mins(20));
        }
        9 => {
            p.fair_share.half_life = Span::mins(30);
            p.backfill.reserved_starts = 2;
            p.backfill.patience = Span(0);
        }
        10 => p.defrag.enabled = true,
        11 => {
            // Nobody measures here: gangs wait until their time is up.
            p.fabric.preflight_nodes = 2;
            p.fabric.within = Span::secs(20);
        }
        _ => {}
    }
    p
}

pub(crate) fn quotas(n: u8) -> Value {
    match n % 4 {
        0 => json!({"tree": []}),
        1 => json!({"tree": [
            {"name": "site"},
            {"name": "b", "parent": "site", "projects": ["blue"], "gpus": [{"nominal": 16}]},
            {"name": "r", "parent": "site", "projects": ["red"], "gpus": [{"nominal": 16}]},
        ]}),
        2 => json!({"tree": [
            {"name": "b", "projects": ["blue"], "order": "strict", "gpus": [{"nominal": 16, "borrow": 0}]},
            {"name": "r", "projects": ["red"], "gpus": [{"nominal": 8, "tier": "spot"}]},
        ]}),
        _ => json!({"tree": [
            {"name": "site", "gpus": [{"sku": "h100-sxm", "nominal": 8}]},
            {"name": "b", "parent": "site", "shares": 3, "projects": ["blue"],
             "gpus": [{"sku": "h100-sxm", "nominal": 16, "borrow": 8, "lend": 8}]},
            {"name": "r", "parent": "site", "projects": ["red", "default"],
             "gpus": [{"sku": "h100-sxm", "nominal": 16}]},
        ]}),
    }
}

pub(crate) fn reservation(
    n: u8,
    (over, start, length, kind): (u8, u8, u8, u8),
    nodes: usize,
    now: Time,
) -> Value {
    let over = match over % 4 {
        0 => json!({"gpus": {"count": 12}}),
        1 => json!({"domain": {"level": "rack", "path": "k1"}}),
        _ => json!({"nodes": [name(usize::from(over) % nodes), name(usize::from(kind) % nodes)]}),
    };
    let mut r = json!({
        "name": format!("r{}", n % 3),
        "over": over,
        "start": (now + Span::mins(u64::from(start))).0,
        "length": format!("{}m", u64::from(length) + 1),
        "overrun": if kind & 1 == 0 { "stop" } else { "finish" },
        "lend": kind & 2 != 0,
    });
    if kind & 4 != 0 {
        r["projects"] = json!(["blue"]);
    }
    if kind & 8 != 0 {
        r["every"] = json!("8h");
    }
    r
}
