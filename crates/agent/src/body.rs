//! What a session acts upon: ranks that really run, and, on a simulated node, pretended work.

use crate::cgroup::Cgroups;
use crate::inventory::{self, GpuSource};
use crate::process;
use crate::runner::{Runner, RunnerConfig};
use crate::simulated::Simulated;
use crate::watch::Watcher;
use muster_link::messages::{Fault, FromAgent, LogChunk, LogMark, RunDetail, Telemetry};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::node::Inventory;
use muster_model::placement::HeldPart;
use muster_model::units::{Span, Time};
use std::io;
use std::sync::Arc;
use std::time::{Instant, SystemTime};
use tokio::sync::Notify;

/// The wall clock.
pub(crate) fn wall() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

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
    watcher: Watcher,
    idle: Arc<Notify>,
}

/// A while in which a simulated node is not there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Away {
    pub(crate) until: Instant,
}

impl Body {
    pub(crate) fn new(
        devices: Devices,
        config: RunnerConfig,
        watcher: Watcher,
        lazy: bool,
    ) -> io::Result<Body> {
        let mut body = Body { devices, config, runner: None, watcher, idle: Arc::default() };
        if !lazy {
            body.runner()?;
        }
        Ok(body)
    }

    fn runner(&mut self) -> io::Result<&mut Runner> {
        let runner = match self.runner.take() {
            Some(runner) => runner,
            None => {
                let mut runner = Runner::open(self.config.clone())?;
                runner.watch(&self.watcher);
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
            Devices::Real { gpus, cgroups } => inventory::collect(gpus.as_ref(), cgroups),
            Devices::Simulated(s) => {
                Inventory { isolation: self.config.cgroups.isolation().to_owned(), ..s.inventory() }
            }
        }
    }

    pub(crate) fn boot(&self) -> String {
        match &self.devices {
            Devices::Real { .. } => process::boot_id(),
            Devices::Simulated(s) => s.boot(),
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
            Ok(runner) if sliced && real => {
                let reason = "this agent cannot cut GPUs into MIG slices yet; ask for whole GPUs \
                              or a share in thousandths, or for a simulated node"
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
                out.push(FromAgent::Report { key, observed });
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

    /// Stops what may not go on without a server.
    pub(crate) fn unheard(&mut self, heard: Instant, now: Instant) {
        if let Some(sim) = self.simulated() {
            sim.unheard(heard, now);
        }
        if let Some(runner) = &mut self.runner {
            runner.unheard(heard, now);
        }
    }

    /// When there is something to do by the clock alone.
    pub(crate) fn due(&self, heard: Instant) -> Option<Instant> {
        let runner = self.runner.as_ref();
        let mut due =
            [runner.and_then(Runner::due), runner.and_then(|r| r.unheard_due(heard)), None];
        if let Devices::Simulated(s) = &self.devices {
            due[2] = s.due(heard);
        }
        due.into_iter().flatten().min()
    }

    /// The last seconds in numbers; names of columns only with `columns`.
    pub(crate) fn telemetry(&mut self, now: Instant, columns: bool) -> Telemetry {
        let host = match &self.devices {
            Devices::Real { .. } => inventory::host_figures(),
            Devices::Simulated(_) => Default::default(),
        };
        let (gpus, names) = match self.simulated() {
            Some(sim) => (sim.telemetry(now), sim.columns()),
            None => (Vec::new(), Vec::new()),
        };
        Telemetry { at: wall(), columns: if columns { names } else { Vec::new() }, gpus, host }
    }

    /// Has a fault, if this node can: what it did in words, or why not; how long the node is
    /// away; and whether its inventory changed.
    pub(crate) fn inject(
        &mut self,
        fault: &Fault,
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
