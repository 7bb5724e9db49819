//! The simulated node at work: its model, its clock, and simulated work as attempts.

mod devices;
mod gangs;
mod inject;
mod log;
mod state_file;

pub(crate) use gangs::Gangs;
pub(crate) use state_file::NodeStateFile;

use crate::clock::wall;
use gangs::SOUND;
use log::Log;
use muster_link::messages::{FromAgent, ProgressReport};
use muster_model::fault::FaultClass;
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::qualification::{Level, Qualification};
use muster_model::spec::OnPartition;
use muster_model::units::{Span, Time};
use muster_simnode::{SimConfig, SimEvent, SimNode, Stages, WorkEvent};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What a simulated node can be asked for.
pub(crate) const SIM_CAN: [&str; 3] = ["qualify", "reset", "reboot"];

/// The node's clock: it may run faster or slower than the wall's.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SimClock {
    origin: Instant,
    start: Time,
    /// Thousandths of the wall clock's speed.
    speed_milli: u64,
}

impl SimClock {
    pub(crate) fn new(speed: f64) -> SimClock {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "clamped")]
        let speed_milli = (speed * 1000.0).clamp(1.0, 1e9) as u64;
        SimClock { origin: Instant::now(), start: wall(), speed_milli }
    }

    fn at(&self, now: Instant) -> Time {
        let real = u64::try_from(now.saturating_duration_since(self.origin).as_millis());
        let passed = u128::from(real.unwrap_or(u64::MAX)) * u128::from(self.speed_milli) / 1000;
        self.start + Span(u64::try_from(passed).unwrap_or(u64::MAX))
    }

    /// The first moment of the wall clock at which the node's clock shows `t`.
    fn real(&self, t: Time) -> Instant {
        let ms = u128::from(t.since(self.start).0) * 1000;
        let real = u64::try_from(ms.div_ceil(u128::from(self.speed_milli))).unwrap_or(u64::MAX);
        // A year is as good as never, and cannot overflow.
        self.origin + Duration::from_millis(real.min(365 * 86_400_000))
    }
}

/// An attempt that pretends.
#[derive(Debug)]
struct SimulatedAttempt {
    rank: u32,
    gpus: u64,
    /// It speaks for the gang where all would say the same.
    speaks: bool,
    /// Its steps are reported this far apart: a gang of thousands says as much as a small one.
    pace: Duration,
    /// What the slowest share of the gang needs, as the node knows it.
    gang: u32,
    /// What is known of why it may die.
    why: Option<String>,
    checkpoints: Option<String>,
    on_partition: OnPartition,
    running_reported: bool,
    end: Option<SlotEnd>,
    end_reported: bool,
    step: Option<ProgressReport>,
    step_reported: Option<Instant>,
    /// Checkpoints to report.
    progress_reports: Vec<ProgressReport>,
    /// The newest checkpoint that was reported; the next connection hears it again.
    done: Option<ProgressReport>,
}

impl SimulatedAttempt {
    /// A share that has just begun, of a gang on so many nodes.
    fn new(rank: u32, gpus: u64, shares: u32) -> SimulatedAttempt {
        SimulatedAttempt {
            rank,
            gpus,
            speaks: rank == 0,
            pace: PACE * (shares / GANG_STEPS).max(1),
            gang: SOUND,
            why: None,
            checkpoints: None,
            on_partition: OnPartition::default(),
            running_reported: false,
            end: None,
            end_reported: false,
            step: None,
            step_reported: None,
            progress_reports: Vec::new(),
            done: None,
        }
    }
}

pub(crate) struct Simulated {
    node: SimNode,
    clock: SimClock,
    work: BTreeMap<AttemptKey, SimulatedAttempt>,
    loads: BTreeMap<AttemptKey, u64>,
    test: Option<Test>,
    /// Tests begun so far: no two measure quite the same.
    tests: u64,
    log: Log,
    gangs: Arc<Gangs>,
    /// What was seen of the gangs; none when this node's own shares may have changed.
    gangs_seen: Option<u64>,
    pool: String,
    /// Resets that are under way: act, GPU, end.
    resets: Vec<(u64, u32, Time)>,
    /// Where what it suffers from is kept.
    life: Option<NodeStateFile>,
    /// Down or cut off until then, by the wall's clock.
    away_until: Option<Time>,
}

/// A test of the node.
struct Test {
    id: u64,
    level: Level,
    began: Time,
    report: Option<Qualification>,
    reported: bool,
    progress_reported: Option<Instant>,
}

const PACE: Duration = Duration::from_secs(1);
/// Steps reported by one gang in a second, at most.
const GANG_STEPS: u32 = 64;

impl Simulated {
    pub(crate) fn new(
        seed: u64,
        config: SimConfig,
        name: &str,
        clock: SimClock,
        gangs: Arc<Gangs>,
    ) -> Simulated {
        let pool = config.pool.clone();
        let node = SimNode::new(seed, config, name, clock.start);
        Simulated {
            node,
            clock,
            work: BTreeMap::new(),
            loads: BTreeMap::new(),
            test: None,
            tests: 0,
            log: Log::default(),
            gangs,
            gangs_seen: None,
            pool,
            resets: Vec::new(),
            life: None,
            away_until: None,
        }
    }

    fn test_turn(&mut self, at: Time, now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        let Some(t) = &mut self.test else { return };
        let passed = at.since(t.began);
        if t.report.is_none() && passed >= self.node.test_length(t.level) {
            t.report = Some(self.node.test(t.level, self.tests, t.began));
        }
        if !connected {
            return;
        }
        let due = t.progress_reported.is_none_or(|t| now.saturating_duration_since(t) >= PACE);
        match &t.report {
            Some(report) if !std::mem::replace(&mut t.reported, true) => {
                let report = Box::new(report.clone());
                out.push(FromAgent::Qualified { id: t.id, report });
            }
            None if due => {
                t.progress_reported = Some(now);
                let s = self.node.test_step(t.level, passed);
                // By the wall's clock, which is what people look at.
                let eta = self.clock.real(at + s.left).saturating_duration_since(now);
                out.push(FromAgent::Qualifying {
                    id: t.id,
                    done: s.done,
                    of: s.of,
                    doing: s.doing.into(),
                    eta_s: Some(eta.as_secs()),
                });
            }
            _ => {}
        }
    }

    /// When the test has something to say by the clock alone.
    fn test_due(&self) -> Option<Instant> {
        let t = self.test.as_ref()?;
        if t.report.is_some() {
            return (!t.reported).then(Instant::now);
        }
        let end = self.clock.real(t.began + self.node.test_length(t.level));
        Some(t.progress_reported.map_or_else(Instant::now, |reported| reported + PACE).min(end))
    }

    fn take(&mut self, event: SimEvent) {
        let Some(work) = self.work.get_mut(&event.key) else { return };
        let exit = |code, signal| {
            let note = work.why.clone().unwrap_or_default();
            SlotEnd::Failed { exit: Exit { rank: work.rank, code, signal, note } }
        };
        match event.what {
            WorkEvent::Step { step, stages, .. } => work.step = Some(report_step(step, &stages)),
            WorkEvent::Checkpoint { step } => {
                let path = work.checkpoints.as_ref().map(|dir| match step {
                    Some(step) => format!("{dir}/step-{step}"),
                    None => dir.clone(),
                });
                // With a fast clock there are many; only the latest counts.
                work.progress_reports.clear();
                work.progress_reports.push(ProgressReport::Checkpoint {
                    state: "done".into(),
                    step,
                    path,
                    bytes: None,
                    blocked_s: None,
                });
            }
            WorkEvent::Ended { code: 0 } => work.end = Some(SlotEnd::Ok),
            WorkEvent::Ended { code } => work.end = Some(exit(Some(i32::from(code)), None)),
            WorkEvent::Stopped => work.end = Some(SlotEnd::Stopped),
            WorkEvent::Killed => work.end = Some(exit(None, Some(9))),
        }
        if work.end.is_some() {
            self.gangs.set_share_needs(event.key, work.rank, None);
        }
    }

    /// Takes over what the kernel's log shows, with whose it is.
    fn read_kernel_log(&mut self, at: Time) {
        if self.log.due().is_none_or(|due| due > at) {
            return;
        }
        for seen in self.log.take_reports(at) {
            let gpu = seen.pci.and_then(|p| self.node.gpu_on_bus(u32::from(p.bus)));
            let hit = gpu.and_then(|g| self.holder(g));
            let fault = seen.into_fault(gpu, hit.map(|h| h.0), hit.and_then(|h| h.1));
            if fault.class != FaultClass::Notice
                && let Some(w) = fault.attempt.and_then(|key| self.work.get_mut(&key))
            {
                w.why.get_or_insert_with(|| log::fault_summary(&fault));
            }
            self.log.keep(fault);
        }
    }

    /// Who works on a GPU.
    fn holder(&self, gpu: u32) -> Option<(AttemptKey, Option<u32>)> {
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        let simulated = self.work.iter().filter(|(_, w)| w.end.is_none());
        let simulated = simulated.map(|(k, w)| (*k, w.gpus, Some(w.rank)));
        let real = self.loads.iter().map(|(k, gpus)| (*k, *gpus, None));
        let hit = simulated.chain(real).find(|(_, gpus, _)| gpus & bit != 0);
        hit.map(|(key, _, rank)| (key, rank))
    }

    /// Reports to the other nodes of this process how its shares do, and hears of theirs.
    fn meet(&mut self, at: Time) {
        if self.gangs_seen == Some(self.gangs.version()) {
            return;
        }
        for (key, w) in &self.work {
            let needs = self.node.share_needs(*key).filter(|_| w.end.is_none());
            self.gangs.set_share_needs(*key, w.rank, needs);
        }
        self.gangs_seen = Some(self.gangs.version());
        for (key, w) in self.work.iter_mut().filter(|(_, w)| w.end.is_none()) {
            let slowest = self.gangs.slowest(*key);
            if slowest != w.gang {
                w.gang = slowest;
                self.node.set_gang(*key, slowest, at);
            }
        }
    }

    fn show_load(&mut self, at: Time) {
        let busy = self.loads.values().fold(0, |a, b| a | b);
        self.node.set_load(busy, at);
    }
}

/// A step as a rank reports it.
fn report_step(step: u64, stages: &Stages) -> ProgressReport {
    #[expect(clippy::cast_precision_loss, reason = "reports are approximate")]
    let secs = |us: u64| us as f64 / 1e6;
    let named = [
        ("read", stages.read),
        ("h2d", stages.h2d),
        ("compute", stages.compute),
        ("comm", stages.comm),
    ];
    ProgressReport::Step {
        step,
        t: Some(secs(stages.total())),
        stages: named.into_iter().map(|(name, us)| (name.to_owned(), secs(us))).collect(),
        loss: None,
    }
}
