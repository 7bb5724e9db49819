//! The simulated node at work: its model, its clock, and pretended work as attempts.

use crate::body::{Away, wall};
use muster_health::faults::{Catalogue, Code};
use muster_link::messages::{Fault, FromAgent, RunDetail, VoiceReport};
use muster_model::command::Observed;
use muster_model::fault::{FaultSource, SeenFault};
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::node::Inventory;
use muster_model::qualification::{Level, Qualification};
use muster_model::spec::OnPartition;
use muster_model::units::{Span, Time};
use muster_simnode::{COLUMNS, Effect, SimConfig, SimEvent, SimNode, What};
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

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
struct Pretended {
    rank: u32,
    gpus: u64,
    speaks: bool,
    checkpoints: Option<String>,
    on_partition: OnPartition,
    running_told: bool,
    end: Option<SlotEnd>,
    end_told: bool,
    step: Option<VoiceReport>,
    step_told: Option<Instant>,
    /// Checkpoints to tell.
    voices: Vec<VoiceReport>,
    /// The newest checkpoint that was told; the next connection hears it again.
    done: Option<VoiceReport>,
}

pub(crate) struct Simulated {
    node: SimNode,
    clock: SimClock,
    work: BTreeMap<AttemptKey, Pretended>,
    loads: BTreeMap<AttemptKey, u64>,
    test: Option<Test>,
    /// Tests begun so far: no two measure quite the same.
    tests: u64,
    faults: Vec<SeenFault>,
}

/// A test of the node.
struct Test {
    id: u64,
    level: Level,
    began: Time,
    report: Option<Qualification>,
    told: bool,
    progress_told: Option<Instant>,
}

/// Faults that wait to be told.
const FAULTS_MAX: usize = 256;

/// What a fault did.
pub(crate) struct Injected {
    pub(crate) outcome: Result<String, String>,
    pub(crate) away: Option<Away>,
    pub(crate) crashed: bool,
    pub(crate) kill: Option<AttemptKey>,
    pub(crate) inventory: bool,
}

impl Default for Injected {
    fn default() -> Injected {
        Injected {
            outcome: Ok("done".into()),
            away: None,
            crashed: false,
            kill: None,
            inventory: false,
        }
    }
}

const PACE: Duration = Duration::from_secs(1);

impl Simulated {
    pub(crate) fn new(seed: u64, config: SimConfig, name: &str, clock: SimClock) -> Simulated {
        let node = SimNode::new(seed, config, name, clock.start);
        Simulated {
            node,
            clock,
            work: BTreeMap::new(),
            loads: BTreeMap::new(),
            test: None,
            tests: 0,
            faults: Vec::new(),
        }
    }

    pub(crate) fn testing(&self) -> Option<u64> {
        self.test.as_ref().map(|t| t.id)
    }

    pub(crate) fn qualify(&mut self, id: u64, level: Level, now: Instant) {
        if let Some(t) = self.test.as_mut().filter(|t| t.id == id) {
            t.told = false;
            return;
        }
        self.tests += 1;
        let began = self.clock.at(now);
        self.test = Some(Test { id, level, began, report: None, told: false, progress_told: None });
    }

    pub(crate) fn qualify_over(&mut self, id: u64) {
        self.test.take_if(|t| t.id == id);
    }

    pub(crate) fn take_faults(&mut self) -> Vec<SeenFault> {
        std::mem::take(&mut self.faults)
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
        let due = t.progress_told.is_none_or(|t| now.saturating_duration_since(t) >= PACE);
        match &t.report {
            Some(report) if !std::mem::replace(&mut t.told, true) => {
                let report = Box::new(report.clone());
                out.push(FromAgent::Qualified { id: t.id, report });
            }
            None if due => {
                t.progress_told = Some(now);
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
            return (!t.told).then(Instant::now);
        }
        let end = self.clock.real(t.began + self.node.test_length(t.level));
        Some(t.progress_told.map_or_else(Instant::now, |told| told + PACE).min(end))
    }

    /// A GPU's driver tells of an error.
    fn xid(&mut self, gpu: u32, code: u32) -> Result<String, String> {
        if !self.node.has_gpu(gpu) {
            return match self.node.no_gpu(gpu) {
                Effect::Impossible(why) => Err(why),
                _ => Err(format!("there is no GPU {gpu}")),
            };
        }
        let bit = 1u64.checked_shl(gpu).unwrap_or(0);
        let pretended = self.work.iter().filter(|(_, w)| w.end.is_none());
        let pretended = pretended.map(|(k, w)| (*k, w.gpus, Some(w.rank)));
        let real = self.loads.iter().map(|(k, gpus)| (*k, *gpus, None));
        let hit = pretended.chain(real).find(|(_, gpus, _)| gpus & bit != 0);
        let catalogue = Catalogue::builtin();
        let Some(known) = Code::xid(code) else {
            return Err(format!("{code} is no number of an Xid"));
        };
        let rule = catalogue.judge(known, &self.node.sku(), "");
        let name = catalogue.entry(known).map_or("unknown", |e| e.name);
        if self.faults.len() < FAULTS_MAX {
            self.faults.push(SeenFault {
                code: format!("xid-{code}"),
                at: wall(),
                count: 1,
                source: FaultSource::Kernel,
                class: rule.class,
                action: rule.action,
                gpu: Some(gpu),
                pid: None,
                attempt: hit.map(|(key, _, _)| key),
                rank: hit.and_then(|(_, _, rank)| rank),
                text: format!("NVRM: Xid (simulated GPU {gpu}): {code}, {name}"),
            });
        }
        Ok(format!("GPU {gpu} told of Xid {code}"))
    }

    pub(crate) fn inventory(&self) -> Inventory {
        self.node.inventory()
    }

    pub(crate) fn boot(&self) -> String {
        self.node.boot()
    }

    pub(crate) fn start(&mut self, key: AttemptKey, detail: &RunDetail, now: Instant) {
        let Some(simulate) = &detail.simulate else { return };
        if self.work.contains_key(&key) {
            return;
        }
        let mut simulate = simulate.clone();
        let chosen = detail.checkpoint.as_ref().and_then(|c| c.interval.as_ref()?.parse().ok());
        simulate.checkpoint = simulate.checkpoint.or(chosen);
        self.node.start(key, &simulate, detail.slot.gpus.0, self.clock.at(now));
        self.work.insert(
            key,
            Pretended {
                rank: detail.slot.first_rank,
                gpus: detail.slot.gpus.0,
                // One rank speaks for the gang; the others would say the same.
                speaks: detail.slot.first_rank == 0,
                checkpoints: detail.checkpoint.as_ref().map(|c| c.dir.clone()),
                on_partition: detail.on_partition,
                running_told: false,
                end: None,
                end_told: false,
                step: None,
                step_told: None,
                voices: Vec::new(),
                done: None,
            },
        );
    }

    pub(crate) fn active(&self) -> impl Iterator<Item = AttemptKey> {
        self.work.iter().filter(|(_, w)| w.end.is_none()).map(|(k, _)| *k)
    }

    pub(crate) fn stop(&mut self, key: AttemptKey, now: Instant) {
        if let Some(event) = self.node.stop(key, self.clock.at(now)) {
            self.take(event);
        }
    }

    pub(crate) fn ask_checkpoint(&mut self, key: AttemptKey, now: Instant) {
        if let Some(event) = self.node.ask_checkpoint(key, self.clock.at(now)) {
            self.take(event);
        }
    }

    fn take(&mut self, event: SimEvent) {
        let Some(work) = self.work.get_mut(&event.key) else { return };
        let exit = |code, signal| SlotEnd::Failed {
            exit: Exit { rank: work.rank, code, signal, note: String::new() },
        };
        match event.what {
            What::Step { step, took } => {
                #[expect(clippy::cast_precision_loss, reason = "reports are approximate")]
                let t = Some(took.0 as f64 / 1000.0);
                work.step =
                    Some(VoiceReport::Step { step, t, stages: BTreeMap::new(), loss: None });
            }
            What::Checkpoint { step } => {
                let path = work.checkpoints.as_ref().map(|dir| match step {
                    Some(step) => format!("{dir}/step-{step}"),
                    None => dir.clone(),
                });
                // With a fast clock there are many; only the latest counts.
                work.voices.clear();
                work.voices.push(VoiceReport::Checkpoint {
                    state: "done".into(),
                    step,
                    path,
                    bytes: None,
                    blocked_s: None,
                });
            }
            What::Ended { code: 0 } => work.end = Some(SlotEnd::Ok),
            What::Ended { code } => work.end = Some(exit(Some(i32::from(code)), None)),
            What::Stopped => work.end = Some(SlotEnd::Stopped),
            What::Killed => work.end = Some(exit(None, Some(9))),
        }
    }

    pub(crate) fn turn(&mut self, now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        let at = self.clock.at(now);
        if self.node.next_wake().is_some_and(|t| t <= at) {
            for event in self.node.advance(at) {
                self.take(event);
            }
        }
        self.test_turn(at, now, connected, out);
        if !connected {
            return;
        }
        for (key, w) in &mut self.work {
            if !std::mem::replace(&mut w.running_told, true) && w.end.is_none() {
                out.push(FromAgent::Report { key: *key, observed: Observed::Running });
            }
            let mut voices = std::mem::take(&mut w.voices);
            if let Some(done) = voices.last() {
                w.done = Some(done.clone());
            }
            let due = w.step_told.is_none_or(|t| now.saturating_duration_since(t) >= PACE);
            if (due || w.end.is_some())
                && let Some(step) = w.step.take()
            {
                w.step_told = Some(now);
                voices.push(step);
            }
            if w.speaks {
                let say = |report| FromAgent::Voice { key: *key, rank: w.rank, report };
                out.extend(voices.into_iter().map(say));
            }
            if let Some(end) = &w.end
                && !std::mem::replace(&mut w.end_told, true)
            {
                let observed = Observed::Ended(end.clone());
                out.push(FromAgent::Report { key: *key, observed });
            }
        }
    }

    /// A new connection: the newest checkpoint of each attempt is told again, before its end.
    pub(crate) fn rewind(&mut self) {
        if let Some(t) = &mut self.test {
            t.told = false;
        }
        for w in self.work.values_mut() {
            if let Some(done) = w.done.take().filter(|_| w.speaks) {
                if w.voices.is_empty() {
                    w.voices.push(done);
                }
                w.end_told = false;
            }
        }
    }

    pub(crate) fn forget(&mut self, key: AttemptKey) {
        if self.work.get(&key).is_some_and(|w| w.end.is_some()) {
            self.work.remove(&key);
        }
    }

    pub(crate) fn observed(&self) -> impl Iterator<Item = (AttemptKey, Observed)> {
        self.work.iter().map(|(k, w)| match &w.end {
            // What it has to say of its checkpoint comes first.
            Some(end) if w.voices.is_empty() || !w.speaks => (*k, Observed::Ended(end.clone())),
            _ => (*k, Observed::Running),
        })
    }

    pub(crate) fn unheard(&mut self, heard: Instant, now: Instant) {
        let silent = now.saturating_duration_since(heard);
        let at = self.clock.at(now);
        for (key, w) in self.work.iter_mut().filter(|(_, w)| w.end.is_none()) {
            if let OnPartition::StopAfter(most) = w.on_partition
                && silent >= most.to_std()
            {
                self.node.stop(*key, at);
                w.end = Some(SlotEnd::NodeFault { reason: format!("no server for {most}") });
            }
        }
    }

    pub(crate) fn due(&self, heard: Instant) -> Option<Instant> {
        let next = self.node.next_wake().map(|t| self.clock.real(t));
        let stops = self.work.values().filter(|w| w.end.is_none());
        let stops = stops.filter_map(|w| match w.on_partition {
            OnPartition::StopAfter(most) => heard.checked_add(most.to_std()),
            OnPartition::Continue => None,
        });
        let untold =
            self.work.values().any(|w| !w.running_told || (w.end.is_some() && !w.end_told));
        let told = (!self.faults.is_empty()).then(Instant::now);
        stops.chain(next).chain(untold.then(Instant::now)).chain(self.test_due()).chain(told).min()
    }

    pub(crate) fn telemetry(&mut self, now: Instant) -> Vec<Vec<Option<f32>>> {
        let busy = self.loads.values().fold(0, |a, b| a | b);
        self.node.set_load(busy, self.clock.at(now));
        self.node.telemetry()
    }

    pub(crate) fn columns(&self) -> Vec<String> {
        COLUMNS.iter().map(|c| (*c).to_owned()).collect()
    }

    pub(crate) fn set_load(&mut self, key: AttemptKey, gpus: u64, now: Instant) {
        self.loads.insert(key, gpus);
        self.telemetry(now);
    }

    pub(crate) fn clear_load(&mut self, key: AttemptKey, now: Instant) {
        self.loads.remove(&key);
        self.telemetry(now);
    }

    pub(crate) fn inject(&mut self, fault: &Fault, now: Instant) -> Injected {
        let fault = match fault.clone() {
            Fault::Crash { down } => muster_simnode::Fault::Crash { down },
            Fault::Partition { length } => muster_simnode::Fault::Partition { length },
            Fault::KillRanks { key } => muster_simnode::Fault::KillRanks { key },
            Fault::LoseGpu { gpu } => muster_simnode::Fault::LoseGpu { gpu },
            Fault::SlowGpu { gpu, percent } => muster_simnode::Fault::SlowGpu { gpu, percent },
            Fault::Xid { gpu, code } => {
                return Injected { outcome: self.xid(gpu, code), ..Injected::default() };
            }
            other => {
                let outcome = Err(format!("this agent cannot do that yet: {other:?}"));
                return Injected { outcome, ..Injected::default() };
            }
        };
        let mut done = Injected::default();
        for effect in self.node.apply(&fault, self.clock.at(now)) {
            match effect {
                Effect::Down { until } => {
                    self.work.clear();
                    self.loads.clear();
                    self.test = None;
                    self.faults.clear();
                    done.crashed = true;
                    done.away = Some(Away { until: self.clock.real(until) });
                    done.outcome = Ok("the node is down".into());
                }
                Effect::Silent { until } => {
                    done.away = Some(Away { until: self.clock.real(until) });
                    done.outcome = Ok("the node is cut off".into());
                }
                Effect::Event(event) => self.take(event),
                Effect::KillRanks(key) => done.kill = Some(key),
                Effect::Inventory => done.inventory = true,
                Effect::Impossible(why) => done.outcome = Err(why),
            }
        }
        done
    }
}
