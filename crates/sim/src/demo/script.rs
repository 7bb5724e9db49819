//! What happens in the week, and when.

use super::NEW_DRIVER;
use crate::chance::Chance;
use crate::scenario::Delay;
use crate::simulation::{Ev, Simulation};
use muster_health::faults::{Catalogue, Reader};
use muster_model::FailureMode;
use muster_model::command::Command;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::qualification::Level;
use muster_model::spec::JobSpec;
use muster_model::units::{Span, Time};
use muster_simnode::Fault;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Something that happens.
#[derive(Debug, Clone)]
pub(crate) enum DemoEvent {
    /// Hardware breaks somewhere.
    Breaks(Break),
    /// A node has this fault.
    Fault(u32, Fault),
    /// A rank dies of what happened to its GPU.
    Dies(AttemptKey, u32, String),
    /// Somebody says something.
    Says(&'static str, Command),
    /// A job, or an array of them, is submitted.
    Submits(&'static str, Box<JobSpec>),
    /// What detectors conclude from telemetry.
    Found(ObservedFinding),
    /// A test of a node is over.
    Tested { node: u32, id: u64, level: Level, began: Time },
    /// A GPU was reset.
    Reset { id: u64, node: u32, gpu: u32 },
    /// The heartbeat of a node is lost.
    Lost(u32, Time),
    /// A node is heard again.
    Back(u32),
    /// Something was done outside.
    Done(u64, String),
    /// People have repaired a node.
    Repaired(u32),
    /// An attempt makes its first step.
    FirstStep(AttemptKey),
    /// What the server counted about itself.
    Counts,
    /// The next rack gets the new driver.
    Wave(usize),
    /// A drained node gets the new driver.
    Update(u32),
    /// The new driver fails.
    Regression,
    /// A GPU falls off the bus under the largest gang.
    OffTheBus,
}

/// Ways in which hardware breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Break {
    OffBus,
    Memory,
    Remap,
    Firmware,
    Links,
    Crash,
    Hot,
    Flap,
    EccRate,
    Job,
}

/// How often each, in comparison.
const BREAKS: [(Break, f64); 10] = [
    (Break::OffBus, 3.0),
    (Break::Memory, 3.0),
    (Break::Remap, 2.0),
    (Break::Firmware, 1.0),
    (Break::Links, 1.0),
    (Break::Crash, 2.0),
    (Break::Hot, 1.0),
    (Break::Flap, 2.0),
    (Break::EccRate, 2.0),
    (Break::Job, 4.0),
];
/// How many in the week: some two failures a day of 64 nodes are more than a fleet in its best
/// years has, and about what one in its first month has.
const COUNT: usize = 20;

/// The story: what was planned, and what it remembers.
pub(crate) struct DemoScript {
    pub(super) beats: Vec<Option<DemoEvent>>,
    pub(super) chance: Chance,
    pub(super) readers: BTreeMap<u32, Reader>,
    pub(super) catalogue: Arc<Catalogue>,
    /// Tests so far: no two measure quite the same.
    pub(super) tests: u64,
    /// Tickets so far.
    pub(super) tickets: u64,
    /// Nodes that are being given the new driver.
    pub(super) updating: BTreeSet<NodeName>,
    /// Incidents of the end have their own words.
    pub(super) finale: Time,
    pub(super) seed: u64,
}

impl std::fmt::Debug for DemoScript {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("DemoScript").field("seed", &self.seed).finish_non_exhaustive()
    }
}

impl DemoScript {
    pub(crate) fn new(seed: u64) -> DemoScript {
        DemoScript {
            beats: Vec::new(),
            chance: Chance::new(seed, &["story"]),
            readers: BTreeMap::new(),
            catalogue: Arc::new(Catalogue::builtin().clone()),
            tests: 0,
            tickets: 0,
            updating: BTreeSet::new(),
            finale: Time(i64::MAX),
            seed,
        }
    }
}

/// The rack that the first power feed let down.
const DARK_RACK: usize = 5;
/// The leaf that gets the new driver, and how far apart its racks do.
const ROLLOUT_LEAF: usize = 2;
const WAVES_APART: Span = Span::hours(3);
/// Nodes of a rack, and racks of a leaf.
const RACK: usize = 4;
const LEAF_RACKS: usize = 4;
/// Nodes of the largest gang.
const LARGE: usize = 16;
/// Racks that have the new driver by the end.
const WAVES: usize = 2;

impl Simulation<'_> {
    pub(super) fn plan(&mut self, at: Time, beat: DemoEvent) {
        let Some(script) = &mut self.script else { return };
        let i = script.beats.len();
        script.beats.push(Some(beat));
        self.at(at.max(self.now), Ev::Story(i));
    }

    /// Draws a length of time.
    pub(super) fn draw(&mut self, median: Span, p95: Span) -> Span {
        let d = Delay { median, p95: Some(p95) };
        self.script.as_mut().map_or(median, |s| s.chance.delay(&d))
    }

    pub(super) fn below(&mut self, n: usize) -> usize {
        let n = u64::try_from(n.max(1)).unwrap_or(1);
        self.script.as_mut().map_or(0, |s| usize::try_from(s.chance.below(n)).unwrap_or(0))
    }

    /// Plans the week.
    pub(super) fn begin_script(&mut self) {
        let (start, end) = (self.start, self.end);
        let hours = |h: u64| start + Span::hours(h);
        let before = |m: u64| end - Span::mins(m);
        if let Some(s) = &mut self.script {
            s.finale = before(70);
        }
        // The nodes have joined; nobody else needs that token.
        let ended = Command::RevokeToken { id: "sim".into() };
        self.plan(start + Span::mins(1), DemoEvent::Says(super::people::FLEET, ended));
        self.plan(start + Span::mins(5), DemoEvent::Counts);
        // Breakage at any time but in the hours that the end needs.
        let (first, last) = (hours(5), before(5 * 60));
        for _ in 0..COUNT {
            let Some(s) = &mut self.script else { return };
            let at = first + crate::chance::millis(s.chance.even() * last.since(first).0 as f64);
            let kind = s.chance.pick(&BREAKS).copied().unwrap_or(Break::OffBus);
            self.plan(at, DemoEvent::Breaks(kind));
        }
        // One rack's power, on the second day.
        for i in 0..RACK {
            let node = u32::try_from(DARK_RACK * RACK + i).unwrap_or(0);
            let at = hours(33) + Span::secs(20 * i as u64);
            self.plan(at, DemoEvent::Fault(node, Fault::PowerBrake));
            let entity = Entity::Node(self.name(node).clone());
            let seen = ObservedFinding::new(
                FailureMode::POWER_BRAKE.code(),
                entity,
                Severity::Degraded,
                at,
            )
            .with_confidence(950)
            .because("all 8 GPUs report power brake; clocks at half of their peers'");
            let over = ObservedFinding { over: true, ..seen.clone() };
            self.plan(at + Span::secs(40), DemoEvent::Found(seen));
            self.plan(at + Span::mins(26), DemoEvent::Fault(node, Fault::Repair));
            self.plan(at + Span::mins(28), DemoEvent::Found(over));
        }
        for day in 0..7u64 {
            self.plan(hours(24 * day + 10), DemoEvent::Submits("esra", Box::new(array(day))));
        }
        self.plan_rollout(before(2 * 24 * 60));
        for m in [112, 84, 61, 38] {
            self.plan(before(m), DemoEvent::Regression);
        }
        self.plan(hours(40), DemoEvent::OffTheBus);
        self.plan(before(13), DemoEvent::OffTheBus);
        self.plan(before(6), DemoEvent::Breaks(Break::Hot));
    }

    fn plan_rollout(&mut self, at: Time) {
        let silence = super::people::rollout_silence(at);
        self.plan(at - Span::mins(10), DemoEvent::Says(super::people::FLEET, silence));
        for wave in 0..WAVES {
            let apart = Span(WAVES_APART.0 * wave as u64);
            self.plan(at + apart, DemoEvent::Wave(wave));
        }
    }

    /// Nodes of a rack of the leaf that gets the new driver.
    pub(super) fn wave(&self, wave: usize) -> Vec<u32> {
        let first = (ROLLOUT_LEAF * LEAF_RACKS + wave) * RACK;
        (first..first + RACK).filter_map(|i| u32::try_from(i).ok()).collect()
    }

    /// A node in service that nothing is done to, among those that are asked for.
    pub(super) fn healthy(&mut self, fits: impl Fn(&Self, u32) -> bool) -> Option<u32> {
        let all = 0..u32::try_from(self.nodes.len()).unwrap_or(0);
        let state = self.engine.state();
        let good: Vec<u32> = all
            .filter(|i| {
                let name = self.name(*i);
                let ready = |n: &Arc<muster_model::node::Node>| {
                    n.reachable && n.stage == Stage::Ready && n.cordon.is_none()
                };
                state.nodes.get(name).is_some_and(ready)
                    && state.health.remediations_of(name).next().is_none()
                    && fits(self, *i)
            })
            .collect();
        let i = self.below(good.len());
        good.get(i).copied()
    }

    /// Gangs of so many nodes at least that run on a node.
    pub(super) fn gangs_on(&self, node: u32, least: usize) -> Vec<AttemptKey> {
        let on = &self.gangs.on[node as usize];
        let runs = |k: &&AttemptKey| {
            let g = self.gangs.by_key.get(*k);
            g.is_some_and(|g| g.up.is_some() && !g.leaving && g.nodes.len() >= least)
        };
        on.iter().filter(runs).copied().collect()
    }

    /// A GPU of a node, one that an attempt has if there is one.
    pub(super) fn some_gpu(&mut self, node: u32) -> u32 {
        let name = self.name(node);
        let keys = self.gangs_on(node, 1);
        let first = keys.first().and_then(|k| self.gangs.by_key.get(k));
        let slot = first.and_then(|g| g.placement.slots.iter().find(|s| s.node == *name));
        let held: Vec<u32> = slot.map(|s| s.gpus.iter().collect()).unwrap_or_default();
        let i = self.below(held.len());
        held.get(i).copied().unwrap_or(0)
    }

    /// Something of a kind breaks somewhere.
    pub(super) fn breaks(&mut self, kind: Break) {
        // The largest gang has its own troubles: a job under which node after node breaks is
        // taken for their cause.
        let busy =
            |t: &Self, n: u32| !t.gangs_on(n, 1).is_empty() && t.gangs_on(n, LARGE).is_empty();
        let small = |t: &Self, n: u32| {
            let one = |k: &AttemptKey| t.gangs.by_key.get(k).is_some_and(|g| g.nodes.len() == 1);
            t.gangs_on(n, 1).iter().any(one)
        };
        let node = match kind {
            Break::Job => self.healthy(small),
            Break::Crash | Break::Flap => self.healthy(|t, n| t.gangs_on(n, LARGE).is_empty()),
            _ => self.healthy(busy),
        };
        let Some(node) = node else { return };
        let gpu = self.some_gpu(node);
        let name = self.name(node).clone();
        let now = self.now;
        match kind {
            Break::OffBus => self.apply_node_fault(node, &Fault::Xid { gpu, code: 79 }),
            Break::Memory => self.apply_node_fault(node, &Fault::EccUncorrectable { gpu }),
            Break::Remap => {
                self.apply_node_fault(node, &Fault::Remap { gpu, pending: true, failed: false });
            }
            Break::Firmware => self.apply_node_fault(node, &Fault::Xid { gpu, code: 119 }),
            Break::Links => self.apply_node_fault(node, &Fault::Xid { gpu, code: 74 }),
            Break::Crash => {
                let down = self.draw(Span::mins(7), Span::mins(25));
                self.apply_node_fault(node, &Fault::Crash { down });
            }
            Break::Hot => {
                self.apply_node_fault(node, &Fault::Thermal { gpu });
                let seen = ObservedFinding::new(
                    FailureMode::THERMAL.code(),
                    Entity::Gpu(name, gpu),
                    Severity::Degraded,
                    now,
                );
                let seen = seen
                    .with_confidence(880)
                    .because("88 °C and thermal slowdown; peers at the same power are at 71 °C");
                self.plan(now + Span::secs(70), DemoEvent::Found(seen));
            }
            Break::Flap => {
                let port = Entity::Port(name, "mlx5_3".into());
                let seen = ObservedFinding::new(
                    FailureMode::LINK_FLAP.code(),
                    port,
                    Severity::Degraded,
                    now,
                );
                let seen = seen
                    .with_confidence(900)
                    .because("the link was lost 3 times within 41 minutes");
                self.plan(now, DemoEvent::Found(seen));
            }
            Break::EccRate => {
                let seen = ObservedFinding::new(
                    FailureMode::ECC_RATE.code(),
                    Entity::Gpu(name, gpu),
                    Severity::Warning,
                    now,
                );
                let seen = seen
                    .with_confidence(800)
                    .because("14 single-bit errors an hour; peers have none");
                self.plan(now, DemoEvent::Found(seen.clone()));
                let over = ObservedFinding { over: true, ..seen };
                self.plan(now + Span::hours(3), DemoEvent::Found(over));
            }
            Break::Job => self.apply_node_fault(node, &Fault::Xid { gpu, code: 31 }),
        }
    }

    /// The new driver's firmware hangs on one of the nodes that have it.
    pub(super) fn regression(&mut self) {
        let nodes: Vec<u32> = (0..WAVES).flat_map(|w| self.wave(w)).collect();
        let node = self
            .healthy(|t, n| nodes.contains(&n) && !t.gangs_on(n, 1).is_empty())
            .or_else(|| self.healthy(|_, n| nodes.contains(&n)));
        let Some(node) = node else { return };
        let gpu = self.some_gpu(node);
        self.apply_node_fault(node, &Fault::Xid { gpu, code: 119 });
    }

    /// Under the largest gang that is not on the new driver.
    pub(super) fn off_the_bus(&mut self) {
        let new: BTreeSet<u32> = (0..WAVES).flat_map(|w| self.wave(w)).collect();
        let sizes = self.gangs.by_key.values().filter(|g| g.up.is_some() && !g.leaving);
        let most = sizes.map(|g| g.nodes.len()).max().unwrap_or(1);
        let node = (1..=most)
            .rev()
            .find_map(|n| self.healthy(|t, i| !new.contains(&i) && !t.gangs_on(i, n).is_empty()));
        let Some(node) = node else { return };
        let gpu = self.some_gpu(node);
        self.apply_node_fault(node, &Fault::Xid { gpu, code: 79 });
    }

    /// A node has the new driver after a restart.
    pub(super) fn new_driver(&mut self, node: u32) {
        let fault = Fault::Version { component: "driver".into(), version: NEW_DRIVER.into() };
        self.nodes[node as usize].apply(&fault, self.now);
    }
}

/// A sweep over seeds, as research does it.
fn array(day: u64) -> JobSpec {
    use muster_model::spec::{GangSpec, Simulate};
    JobSpec {
        name: format!("seeds-{}", day + 1).parse().ok(),
        project: "elm".parse().ok(),
        gang: GangSpec {
            nodes: Some(1),
            gpus_per_node: Some(1),
            ranks_per_node: Some(1),
            ..GangSpec::default()
        },
        array: Some("0-15".into()),
        time_limit: Some(Span::hours(3)),
        simulate: Some(Simulate {
            run: Span::mins(50),
            step: Some(Span(1500)),
            startup: Span::secs(30),
            ..Simulate::default()
        }),
        ..JobSpec::default()
    }
}
