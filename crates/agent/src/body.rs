//! What a session acts upon: ranks that really run, and, on a simulated node, pretended work.

use crate::acts::Acts;
use crate::cgroup::Cgroups;
use crate::clock::wall;
use crate::hooks::{Actor, Hooks};
use crate::inventory::{self, GpuSource};
use crate::lease::BootTime;
use crate::process;
use crate::runner::{Hands, Runner, RunnerConfig};
use crate::simulated::{Away, SIM_CAN, Simulated};
use crate::tester::Tester;
use crate::watch::Watcher;
use muster_link::messages::{FromAgent, LogChunk, LogMark, RunDetail, Telemetry};
use muster_model::command::Observed;
use muster_model::fault::SeenFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::job::SlotEnd;
use muster_model::node::Inventory;
use muster_model::placement::HeldPart;
use muster_model::qualification::Level;
use muster_model::remedy::Act;
use muster_model::units::Span;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;
use tokio::sync::Notify;

/// Where the devices come from.
pub(crate) enum Devices {
    Real { gpus: Arc<dyn GpuSource>, cgroups: Arc<Cgroups> },
    Simulated(Box<Simulated>),
}

pub(crate) struct Body {
    devices: Devices,
    config: RunnerConfig,
    /// Opened when the first real rank is wanted, so that a fleet that only pretends writes
    /// nothing.
    runner: Option<Runner>,
    /// When the server was last certain to hear this node.
    renewed: Option<BootTime>,
    watcher: Watcher,
    idle: Arc<Notify>,
    hooks: Hooks,
    tester: Option<Tester>,
    /// Notified when a hook has something to tell.
    news: Arc<Notify>,
    faults: Told,
    acts: Acts,
    /// How acts that were carried out on other threads ended.
    ended: Arc<Mutex<Vec<Ended>>>,
    /// Held while an act is carried out: they are done one after another.
    acting: Arc<Mutex<()>>,
}

/// An act and what came of it.
type Ended = (u64, Result<String, String>);

/// Faults that were told and may not have arrived.
#[derive(Default)]
struct Told {
    faults: Vec<SeenFault>,
    /// How many of them were told before the last heartbeat.
    before_beat: usize,
    again: bool,
}

/// Faults kept until the server answered; the newest count.
const TOLD_MAX: usize = 256;

fn boot(devices: &Devices) -> String {
    match devices {
        Devices::Real { .. } => process::boot_id(),
        Devices::Simulated(s) => s.boot(),
    }
}

impl Body {
    pub(crate) fn new(
        devices: Devices,
        config: RunnerConfig,
        watcher: Watcher,
        lazy: bool,
    ) -> io::Result<Body> {
        let dir = (!lazy).then(|| config.state.clone());
        let acts = Acts::open(dir, &boot(&devices));
        let mut body = Body {
            devices,
            config,
            runner: None,
            renewed: None,
            watcher,
            idle: Arc::default(),
            hooks: Hooks::default(),
            tester: None,
            news: Arc::default(),
            faults: Told::default(),
            acts,
            ended: Arc::default(),
            acting: Arc::default(),
        };
        if !lazy {
            body.runner()?;
        }
        Ok(body)
    }

    /// Plugs in who tests, watches and measures this machine.
    pub(crate) fn with(mut self, hooks: Hooks) -> Body {
        if let Some(source) = &hooks.faults {
            self.news = source.waker();
        }
        self.tester = hooks.qualifier.clone().map(|q| Tester::new(q, self.news.clone()));
        self.runner = self.runner.take().map(|r| r.with_hands(hooks.hands.clone()));
        self.hooks = hooks;
        self
    }

    /// Notified when a hook has something to tell.
    pub(crate) fn news(&self) -> Arc<Notify> {
        self.news.clone()
    }

    /// The test that goes on here, or whose end nobody has taken in.
    pub(crate) fn testing(&self) -> Option<u64> {
        match &self.devices {
            Devices::Simulated(s) => s.testing(),
            Devices::Real { .. } => self.tester.as_ref().and_then(Tester::id),
        }
    }

    pub(crate) fn qualify(&mut self, id: u64, level: Level, now: Instant) {
        if let Some(sim) = self.simulated() {
            sim.qualify(id, level, now);
        } else if let Some(tester) = &mut self.tester {
            tester.begin(id, level);
        }
    }

    pub(crate) fn qualify_over(&mut self, id: u64) {
        if let Some(sim) = self.simulated() {
            sim.qualify_over(id);
        }
        if let Some(tester) = &mut self.tester {
            tester.over(id);
        }
    }

    /// A heartbeat goes out: its answer means that all before it arrived.
    pub(crate) fn beat(&mut self) {
        self.faults.before_beat = self.faults.faults.len();
    }

    /// The server answered a heartbeat.
    pub(crate) fn acked(&mut self) {
        let n = std::mem::take(&mut self.faults.before_beat).min(self.faults.faults.len());
        self.faults.faults.drain(..n);
    }

    fn tell_faults(&mut self, out: &mut Vec<FromAgent>) {
        let mut new = self.hooks.faults.as_ref().map_or_else(Vec::new, |s| s.take());
        if let Some(sim) = self.simulated() {
            new.extend(sim.take_faults());
        }
        let told = &mut self.faults;
        let mut faults =
            if std::mem::take(&mut told.again) { told.faults.clone() } else { Vec::new() };
        faults.extend(new.iter().cloned());
        told.faults.extend(new);
        let over = told.faults.len().saturating_sub(TOLD_MAX);
        told.faults.drain(..over);
        told.before_beat = told.before_beat.saturating_sub(over);
        if !faults.is_empty() {
            out.push(FromAgent::Faults { faults });
        }
    }

    fn runner(&mut self) -> io::Result<&mut Runner> {
        let runner = match self.runner.take() {
            Some(runner) => runner,
            None => {
                let hands = match &self.devices {
                    Devices::Simulated(_) => Hands::simulated(),
                    Devices::Real { .. } => self.hooks.hands.clone(),
                };
                let mut runner = Runner::open(self.config.clone())?.with_hands(hands);
                runner.watch(&self.watcher);
                self.renewed.into_iter().for_each(|at| runner.renewed(at));
                runner
            }
        };
        Ok(self.runner.insert(runner))
    }

    fn simulated(&mut self) -> Option<&mut Simulated> {
        match &mut self.devices {
            Devices::Simulated(s) => Some(s),
            Devices::Real { .. } => None,
        }
    }

    pub(crate) fn inventory(&self) -> Inventory {
        match &self.devices {
            Devices::Real { gpus, cgroups } => {
                let mut all = inventory::collect(gpus.as_ref(), cgroups);
                if self.tester.is_some() && !all.gpus.is_empty() {
                    all.can.insert("qualify".into());
                }
                all.can.extend(self.hooks.actor.iter().flat_map(|a| a.can()));
                all.pool.clone_from(&self.hooks.pool);
                all
            }
            Devices::Simulated(s) => {
                let isolation = self.config.cgroups.isolation().to_owned();
                let can = SIM_CAN.map(str::to_owned).into();
                Inventory { isolation, can, ..s.inventory() }
            }
        }
    }

    pub(crate) fn boot(&self) -> String {
        boot(&self.devices)
    }

    /// How long a simulated node is not there yet, that was down when its last process ended.
    pub(crate) fn away(&self) -> Option<Away> {
        match &self.devices {
            Devices::Simulated(s) => s.away(),
            Devices::Real { .. } => None,
        }
    }

    /// Does something to this machine, unless it was done or is being done. A simulated node may
    /// be away for a while.
    pub(crate) fn act(&mut self, id: u64, act: &Act, now: Instant) -> Option<Away> {
        let boot = self.boot();
        if !self.acts.begin(id, act, &boot) {
            return None;
        }
        tracing::info!(id, act = act.word(), "asked to do something to this machine");
        match (&mut self.devices, act) {
            (Devices::Simulated(sim), Act::ResetGpu { gpu, .. }) => sim.reset_gpu(id, *gpu, now),
            (Devices::Simulated(sim), Act::Reboot { .. } | Act::PowerCycle { .. }) => {
                let done = sim.reboot(now);
                if let Some(runner) = &mut self.runner {
                    runner.crash();
                }
                return done.away;
            }
            (Devices::Real { .. }, Act::ResetGpu { gpu, .. }) => {
                let gpu = *gpu;
                self.with_actor(id, "reset", move |a| a.reset_gpu(gpu).map(Some));
            }
            (Devices::Real { .. }, Act::Reboot { .. }) => {
                self.with_actor(id, "reboot", |a| a.reboot().map(|()| None));
            }
            (_, other) => {
                let why = format!("an agent cannot do that: {}", other.word());
                self.acts.ended(id, Err(why));
            }
        }
        None
    }

    /// Carries an act out on a thread of its own; none for an end that only a new boot shows.
    fn with_actor(
        &mut self,
        id: u64,
        what: &str,
        f: impl FnOnce(&dyn Actor) -> Result<Option<String>, String> + Send + 'static,
    ) {
        let actor = self.hooks.actor.clone().filter(|a| a.can().contains(what));
        let Some(actor) = actor else {
            let why = format!("this agent may not do that; start it with --allow-{what}");
            return self.acts.ended(id, Err(why));
        };
        let (ended, wake, turn) = (self.ended.clone(), self.news.clone(), self.acting.clone());
        let body = move || {
            let _turn = turn.lock().unwrap_or_else(PoisonError::into_inner);
            let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| f(&*actor)));
            let end = match done {
                Ok(Ok(None)) => return,
                Ok(Ok(Some(message))) => Ok(message),
                Ok(Err(why)) => Err(why),
                Err(_) => Err("it broke off".into()),
            };
            ended.lock().unwrap_or_else(PoisonError::into_inner).push((id, end));
            wake.notify_one();
        };
        if let Err(e) = std::thread::Builder::new().name("act".into()).spawn(body) {
            self.acts.ended(id, Err(format!("no thread for it: {e}")));
        }
    }

    pub(crate) fn act_over(&mut self, id: u64) {
        self.acts.over(id);
    }

    fn acts_turn(&mut self, now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        let over = self.simulated().map_or_else(Vec::new, |s| s.resets_over(now));
        let mut ended =
            std::mem::take(&mut *self.ended.lock().unwrap_or_else(PoisonError::into_inner));
        ended.extend(over);
        for (id, end) in ended {
            self.acts.ended(id, end);
        }
        if connected {
            self.acts.turn(out);
        }
    }

    /// Completes when there may be something to do.
    pub(crate) fn waker(&self) -> Arc<Notify> {
        self.runner.as_ref().map_or_else(|| self.idle.clone(), Runner::waker)
    }

    /// Starts an attempt; an end when it cannot even be written down.
    pub(crate) fn start(
        &mut self,
        key: AttemptKey,
        detail: &RunDetail,
        now: Instant,
    ) -> Option<SlotEnd> {
        let pretend = detail.simulate.is_some();
        let sliced = matches!(detail.slot.part, Some(HeldPart::Mig { .. }));
        let real = matches!(self.devices, Devices::Real { .. });
        let cuts = self.hooks.hands.slices.is_some();
        match self.simulated() {
            Some(sim) if pretend => {
                sim.start(key, detail, now);
                return None;
            }
            Some(sim) => sim.set_load(key, detail.slot.gpus.0, now),
            None => {}
        }
        match self.runner() {
            Ok(runner) if pretend => {
                let reason = "`simulate` runs on simulated nodes only, and this is a real one: \
                              leave it out, or ask for a simulated node"
                    .into();
                runner.refuse(key, detail, SlotEnd::Unstartable { reason });
                None
            }
            Ok(runner) if sliced && real && !cuts => {
                let reason = "this agent knows nothing of MIG slices; ask for whole GPUs or a \
                              share in thousandths, or for another node"
                    .into();
                runner.refuse(key, detail, SlotEnd::Unstartable { reason });
                None
            }
            Ok(runner) => {
                runner.start(key, detail, now);
                None
            }
            Err(e) => Some(SlotEnd::NodeFault {
                reason: format!("cannot use the node's state directory: {e}"),
            }),
        }
    }

    pub(crate) fn active(&self) -> Vec<AttemptKey> {
        let mut keys: Vec<AttemptKey> = self.runner.iter().flat_map(Runner::active).collect();
        if let Devices::Simulated(s) = &self.devices {
            keys.extend(s.active());
        }
        keys
    }

    /// Whether ranks that really run are up.
    pub(crate) fn has_ranks(&self) -> bool {
        self.runner.as_ref().is_some_and(|r| r.active().next().is_some())
    }

    pub(crate) fn stop(&mut self, key: AttemptKey, grace: Span, now: Instant) {
        if let Some(sim) = self.simulated() {
            sim.stop(key, now);
        }
        if let Some(runner) = &mut self.runner {
            runner.stop(key, grace, now);
        }
    }

    pub(crate) fn ask_checkpoint(&mut self, key: AttemptKey, now: Instant) {
        if let Some(sim) = self.simulated() {
            sim.ask_checkpoint(key, now);
        }
        if let Some(runner) = &mut self.runner {
            runner.ask_checkpoint(key);
        }
    }

    /// Looks at everything; says what is to be told, in order. Output comes first, through
    /// [`Body::logs`]. Without a connection nothing is told, but everything goes on.
    pub(crate) fn turn(&mut self, now: Instant, connected: bool) -> Vec<FromAgent> {
        let mut out = Vec::new();
        if let Some(sim) = self.simulated() {
            sim.turn(now, connected, &mut out);
        }
        if connected {
            if let Some(tester) = &mut self.tester {
                tester.turn(&mut out);
            }
            self.tell_faults(&mut out);
        }
        self.acts_turn(now, connected, &mut out);
        if let Some(runner) = &mut self.runner {
            let changed = runner.poll(now, connected);
            if connected {
                for (key, rank, report) in runner.voices(now) {
                    out.push(FromAgent::Voice { key, rank, report });
                }
            }
            for (key, observed) in changed {
                if let (Devices::Simulated(sim), Observed::Ended(_)) =
                    (&mut self.devices, &observed)
                {
                    sim.clear_load(key, now);
                }
                out.push(FromAgent::Report { key, observed, ago: runner.ended_ago(key) });
            }
        }
        out
    }

    pub(crate) fn logs(&mut self, budget: usize) -> Vec<LogChunk> {
        self.runner.as_mut().map_or_else(Vec::new, |r| r.logs(budget))
    }

    pub(crate) fn kept(&mut self, mark: LogMark) {
        if let Some(runner) = &mut self.runner {
            runner.kept(mark);
        }
    }

    pub(crate) fn rewind(&mut self) {
        self.faults.again = true;
        self.faults.before_beat = 0;
        self.acts.came_back(&self.boot());
        self.acts.rewind();
        if let Some(tester) = &mut self.tester {
            tester.rewind();
        }
        if let Some(sim) = self.simulated() {
            sim.rewind();
        }
        if let Some(runner) = &mut self.runner {
            runner.rewind();
        }
    }

    pub(crate) fn forget(&mut self, key: AttemptKey) {
        if let Some(sim) = self.simulated() {
            sim.forget(key);
        }
        if let Some(runner) = &mut self.runner {
            runner.forget(key);
        }
    }

    pub(crate) fn observed(&self) -> Vec<(AttemptKey, Observed)> {
        let mut all = self.runner.as_ref().map_or_else(Vec::new, Runner::observed);
        if let Devices::Simulated(s) = &self.devices {
            all.extend(s.observed());
        }
        all
    }

    /// How long ago an attempt ended, where that is known.
    pub(crate) fn ended_ago(&self, key: AttemptKey) -> Option<Span> {
        self.runner.as_ref().and_then(|r| r.ended_ago(key))
    }

    /// Stops what may not go on without a server.
    pub(crate) fn unheard(&mut self, heard: Instant, now: Instant) {
        if let Some(sim) = self.simulated() {
            sim.unheard(heard, now);
        }
        if let Some(runner) = &mut self.runner {
            runner.unheard(heard, now);
        }
    }

    /// The server was certain to hear this node then: what may not go on without it goes on.
    pub(crate) fn renewed(&mut self, at: BootTime) {
        if let Some(runner) = &mut self.runner {
            runner.renewed(at);
        }
        self.renewed = Some(at);
    }

    /// The least time that something which runs here may go on without a server.
    pub(crate) fn shortest_lease(&self) -> Option<Span> {
        let simulated = match &self.devices {
            Devices::Simulated(s) => s.shortest_lease(),
            Devices::Real { .. } => None,
        };
        self.runner.as_ref().and_then(Runner::shortest_lease).into_iter().chain(simulated).min()
    }

    /// When there is something to do by the clock alone.
    pub(crate) fn due(&self, heard: Instant) -> Option<Instant> {
        let runner = self.runner.as_ref();
        let acts = self.acts.waits().then(Instant::now);
        let mut due =
            [runner.and_then(Runner::due), runner.and_then(|r| r.unheard_due(heard)), None, acts];
        if let Devices::Simulated(s) = &self.devices {
            due[2] = s.due(heard);
        }
        due.into_iter().flatten().min()
    }

    /// The last seconds in numbers; names of columns only with `columns`. A simulated node tells
    /// them by its own clock, and nothing while its agent is made to hang.
    pub(crate) fn telemetry(&mut self, now: Instant, columns: bool) -> Option<Telemetry> {
        let source = self.hooks.telemetry.clone();
        let (at, gpus, host, names) = match self.simulated() {
            Some(sim) => {
                let (rows, host) = sim.telemetry(now)?;
                (sim.time(now), rows, host, sim.columns())
            }
            None => {
                let mut host = inventory::host_figures();
                let (rows, names) = match source {
                    Some(source) => {
                        host.extend(source.host());
                        (source.rows(), source.columns())
                    }
                    None => (Vec::new(), Vec::new()),
                };
                (wall(), rows, host, names)
            }
        };
        let columns = if columns { names } else { Vec::new() };
        Some(Telemetry { at, columns, gpus, host })
    }

    /// Has a fault, if this node can: what it did in words, or why not; how long the node is
    /// away; and whether its inventory changed.
    pub(crate) fn inject(
        &mut self,
        fault: &Inject,
        now: Instant,
    ) -> (Result<String, String>, Option<Away>, bool) {
        let Some(sim) = self.simulated() else {
            return (Err("this is a real node; faults are for simulated ones".into()), None, false);
        };
        let done = sim.inject(fault, now);
        if let Some(runner) = &mut self.runner {
            if done.crashed {
                runner.crash();
            }
            if let Some(key) = done.kill {
                let killed = runner.kill_ranks(key);
                if !killed {
                    return (Err(format!("attempt {key} does not run on this node")), None, false);
                }
            }
        }
        (done.outcome, done.away, done.inventory)
    }

    pub(crate) fn save(&mut self) {
        if let Some(runner) = &mut self.runner {
            runner.save();
        }
    }

    /// Ends every rank; for a fleet that goes away for good.
    pub(crate) fn end_all(&mut self, now: Instant) {
        if let Some(runner) = &mut self.runner {
            runner.shut_down(Span::secs(2), now);
        }
    }
}
