//! Random fleets, jobs, policies and lives.

use super::{Build, ClusterRun, closed, fleet, gang, node, nvl};
use muster_model::node::NodeRole;
use muster_model::placement::GpuSet;
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::spec::{Priority, Spread, Tier};
use muster_model::topology::Level;
use muster_model::units::{Bytes, Span};
use muster_scheduler::NodeFacts;
use proptest::prelude::*;

/// What a life may meet.
#[derive(Debug, Clone)]
pub enum Act {
    Submit(Build),
    Pass(u64),
    Fail(usize),
    Heal(usize),
    /// A window over a node, so many minutes from now, so many minutes long, for a project.
    Reserve(usize, u64, u64, usize),
}

/// Which kinds of trouble there are.
#[derive(Debug, Clone, Copy)]
pub struct Kinds {
    pub endless: bool,
    pub failures: bool,
    pub reservations: bool,
    pub parts: bool,
    pub elastic: bool,
    pub ranks: bool,
}

pub const ALL: Kinds = Kinds {
    endless: true,
    failures: true,
    reservations: true,
    parts: true,
    elastic: true,
    ranks: true,
};

/// Something with a short name, so that a failing life can be read.
#[derive(Clone)]
pub struct Named<T> {
    pub label: String,
    pub it: T,
}

impl<T> std::fmt::Debug for Named<T> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.label)
    }
}

fn named<T>(label: String, it: T) -> Named<T> {
    Named { label, it }
}

/// The same lives every time, unless somebody asks for others (`PROPTEST_RNG_SEED`).
pub fn cases(n: u32) -> ProptestConfig {
    let given = std::env::var("PROPTEST_RNG_SEED").ok().and_then(|s| s.parse().ok());
    ProptestConfig {
        cases: std::env::var("PROPTEST_CASES").ok().and_then(|s| s.parse().ok()).unwrap_or(n),
        rng_seed: proptest::test_runner::RngSeed::Fixed(given.unwrap_or(1)),
        failure_persistence: None,
        max_shrink_iters: 4000,
        ..ProptestConfig::default()
    }
}

/// Fleets with an even fabric, with NVLink racks, or with all kinds of nodes.
pub fn any_fleet() -> impl Strategy<Value = Named<Vec<NodeFacts>>> {
    prop_oneof![
        (1..4u32, 1..5u32).prop_map(|(l, n)| named(format!("{l} leaves of {n}"), fleet(l, n, 4))),
        (1..4u32, 2..5u32).prop_map(|(r, t)| named(format!("{r} racks of {t}"), nvl(r, t))),
        Just(mixed()).prop_map(|m| named("mixed".into(), m)),
    ]
}

pub fn mixed() -> Vec<NodeFacts> {
    let mut all = fleet(2, 4, 4);
    all[1].mig = GpuSet(0b11);
    all[2].sku = "h200".into();
    all[3].sku = "h200".into();
    all[3].mig = GpuSet(0b1000);
    all[3].location.feed = "f2".into();
    all[4].role = NodeRole::Spare;
    all[5].role = NodeRole::Lemon;
    all[6].role = NodeRole::Suspect;
    all[6].block = Some(muster_scheduler::Block::Suspect);
    all[7].hazard = 300;
    all[7].location.feed = "f2".into();
    let mut cpu = node("cpu", "l1", "k1-9");
    cpu.sku = "cpu".into();
    cpu.gpus = GpuSet::EMPTY;
    all.push(cpu);
    all
}

pub fn any_job(k: Kinds) -> impl Strategy<Value = Build> {
    let size = (1..=5u32, prop_oneof![Just(1u32), Just(2), Just(4), Just(0), Just(3)]);
    let limit = prop_oneof![3 => (1..20u64).prop_map(|x| Some(x * 7)), 1 => Just(None)];
    let real = (1..=100u64).prop_map(|x| x * 2);
    let who = (0..3usize, 0..2usize);
    let ranks = (0..8usize, 0..6usize);
    let place = (0..12usize, 0..10usize);
    let rest = (0..10usize, 0..8usize, 0..3u32, 0..4u64);
    (size, limit, real, who, ranks, place, rest).prop_map(
        move |((n, g), limit, real, who, ranks, place, rest)| {
            let mut b = gang(n, g);
            b = match limit.or((!k.endless).then_some(60)) {
                Some(m) => b.limit(m).runs((m * real / 200).max(1)),
                None => b.runs(real),
            };
            b = b.of(["p0", "p1", "p2"][who.0], ["u0", "u1"][who.1]);
            if k.ranks {
                b.work.priority = match ranks.0 {
                    0 => Priority::Critical,
                    1 => Priority::High,
                    2 | 3 => Priority::Low,
                    _ => Priority::Normal,
                };
                b.work.tier = match ranks.1 {
                    0 | 1 => Tier::Spot,
                    2 if k.reservations => Tier::Reserved,
                    _ => Tier::OnDemand,
                };
            }
            b = match place.0 {
                0 => b.required(Level::Leaf),
                1 => b.required(Level::Rack),
                2 => b.required(Level::Nvlink),
                3 => b.spread(Spread::Feed),
                4 => b.spread(Spread::Leaf),
                5 if n.is_multiple_of(2) => b.segment(2),
                _ => b,
            };
            b = match place.1 {
                0 => b.sku("h100"),
                1 => b.sku("h200|gb200"),
                2 => b.demand(|d| d.preferred = Some(Level::Leaf)),
                _ => b,
            };
            b = b.group(|g| {
                g.cpus = [1, 8, 30][rest.2 as usize];
                g.memory = Bytes((1 << 38) * rest.3);
            });
            match rest.0 {
                0 if k.parts => b.group(|g| g.nodes = 1).milli(300).demand(single),
                1 if k.parts => b.group(|g| g.nodes = 1).milli(600).demand(single),
                2 if k.parts => b.group(|g| g.nodes = 1).mig("3g.40gb").demand(single),
                3 if k.parts => b.group(|g| g.nodes = 1).mig("1g.10gb").demand(single),
                4 if k.parts => b.group(|g| g.nodes = 1).mig("3g.71gb").demand(single),
                5 if k.elastic && n > 1 => b.demand(|d| d.segment = None).elastic(1, n + 2),
                6 if rest.1 < 4 => b.demand(|d| d.segment = None).and(1, 0),
                7 if rest.1 < 4 => b.demand(|d| d.segment = None).and(1, 2),
                _ => b,
            }
        },
    )
}

fn single(d: &mut muster_scheduler::Demand) {
    (d.required, d.segment, d.spread) = (None, None, None);
}

pub fn any_act(k: Kinds) -> impl Strategy<Value = Act> {
    let f = u32::from(k.failures);
    let r = u32::from(k.reservations);
    prop_oneof![
        8 => any_job(k).prop_map(Act::Submit),
        5 => (1..90u64).prop_map(Act::Pass),
        f => (0..20usize).prop_map(Act::Fail),
        f => (0..20usize).prop_map(Act::Heal),
        r => (0..20usize, 0..90u64, 1..60u64, 0..4usize)
            .prop_map(|(n, a, l, p)| Act::Reserve(n, a, l, p)),
    ]
}

/// Policies without budgets of power.
pub fn any_policy() -> impl Strategy<Value = Named<SitePolicy>> {
    let mode = prop_oneof![
        3 => Just(BackfillMode::Conservative),
        1 => Just(BackfillMode::Easy),
        1 => Just(BackfillMode::Aggressive),
    ];
    (mode, any::<bool>(), prop_oneof![Just(1u32), Just(2), Just(128)], any::<bool>(), 0..4u64)
        .prop_map(|(mode, predict, reserved_starts, preempt, settle)| {
            let mut p = SitePolicy::default();
            p.backfill.mode = mode;
            p.backfill.predict = predict;
            p.backfill.reserved_starts = reserved_starts;
            p.preemption.enabled = preempt;
            p.elastic.settle = Span::mins(settle * 5);
            p.hazard.large_gang = 3;
            let label = format!(
                "{mode:?} predict {predict} reserved starts {reserved_starts} preempt {preempt} settle {settle}"
            );
            named(label, p)
        })
}

/// Budgets for every feed and rack.
pub fn powered(mut p: SitePolicy, feed: u64, rack: u64) -> SitePolicy {
    p.power.node_watts = 1000;
    for (sku, w) in [("h100", 700), ("h200", 700), ("gb200", 1000), ("cpu", 0)] {
        p.power.gpu_watts.insert(sku.into(), w);
    }
    for f in ["f1", "f2"] {
        p.power.feeds.insert(f.into(), feed);
    }
    for r in ["k0-0", "k0-1", "k1-0", "k0", "k1"] {
        p.power.racks.insert(r.into(), rack);
    }
    p
}

pub const QUOTAS: [&str; 4] = [
    r#"{"tree":[]}"#,
    r#"{"tree":[{"name":"co"},
        {"name":"a","parent":"co","projects":["p0"],"gpus":[{"nominal":8,"borrow":4}]},
        {"name":"b","parent":"co","projects":["p1"],"gpus":[{"nominal":8,"lend":6}]},
        {"name":"c","parent":"co","projects":["p2"],"gpus":[{"nominal":0}]}]}"#,
    r#"{"tree":[{"name":"co"},
        {"name":"a","parent":"co","projects":["p0"],"gpus":[{"nominal":12}],"order":"strict"},
        {"name":"b","parent":"co","projects":["p1"],"gpus":[{"nominal":4,"borrow":0}]},
        {"name":"c","parent":"co","projects":["p2"],"gpus":[{"nominal":4}],"order":"strict"}]}"#,
    r#"{"tree":[{"name":"co"},
        {"name":"a","parent":"co","projects":["p0"],"gpus":[{"nominal":24}]},
        {"name":"b","parent":"co","projects":["p1","p2"],"gpus":[{"nominal":2}]}]}"#,
];

/// Lives an act.
pub fn act(life: &mut ClusterRun, a: &Act) {
    let names: Vec<_> = life.nodes.keys().cloned().collect();
    match a {
        Act::Submit(b) => {
            life.submit(b.clone());
        }
        Act::Pass(m) => life.pass(Span::mins(*m)),
        Act::Fail(i) => {
            life.fail(&names[i % names.len()]);
            life.cycle();
        }
        Act::Heal(i) => {
            life.heal(&names[i % names.len()]);
            life.cycle();
        }
        Act::Reserve(i, from, mins, p) => {
            let n = &names[i % names.len()];
            let projects: &[&str] = [&["p0"][..], &["p1"], &["p2", "p0"], &[]][*p];
            let label = format!("r{}", life.reservations.len());
            let at = life.now + Span::mins(*from);
            life.reserve(closed(&label, &[n.as_str()], projects, at, *mins));
            life.cycle();
        }
    }
}
