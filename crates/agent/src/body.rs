//! What a session acts upon: a node's devices, and ranks that really run.

use crate::acts::Acts;
use crate::devices::{Devices, SimulatedAbsence, Start};
use crate::lease::BootTime;
use crate::runner::{Runner, RunnerConfig};
use crate::watch::Watcher;
use muster_link::messages::{FromAgent, LogChunk, LogMark, RunDetail, Telemetry};
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::inject::Inject;
use muster_model::job::SlotEnd;
use muster_model::node::Inventory;
use muster_model::qualification::Level;
use muster_model::remediation::Act;
use muster_model::units::Span;
use std::io;
use std::sync::Arc;
use std::time::Instant;
use tokio::sync::Notify;

pub(crate) struct Body {
    devices: Box<dyn Devices>,
    config: RunnerConfig,
    /// Opened when the first real rank is wanted, so that a fleet that only pretends writes
    /// nothing.
    runner: Option<Runner>,
    /// When the server was last certain to hear this node.
    renewed: Option<BootTime>,
    watcher: Watcher,
    idle: Arc<Notify>,
    /// Notified when the devices have something to report.
    news: Arc<Notify>,
    faults: UnconfirmedFaults,
    acts: Acts,
}

/// Faults that were reported and may not have arrived.
#[derive(Default)]
struct UnconfirmedFaults {
    faults: Vec<ObservedFault>,
    /// How many of them were reported before the last heartbeat.
    before_beat: usize,
    again: bool,
}

/// Faults kept until the server answered; the newest count.
const REPORTED_MAX: usize = 256;

impl Body {
    pub(crate) fn new(
        devices: Box<dyn Devices>,
        config: RunnerConfig,
        watcher: Watcher,
        lazy: bool,
    ) -> io::Result<Body> {
        let dir = (!lazy).then(|| config.state.clone());
        let acts = Acts::open(dir, &devices.boot());
        let news = devices.news();
        let mut body = Body {
            devices,
            config,
            runner: None,
            renewed: None,
            watcher,
            idle: Arc::default(),
            news,
            faults: UnconfirmedFaults::default(),
            acts,
        };
        if !lazy {
            body.runner()?;
        }
        Ok(body)
    }

    /// Notified when the devices have something to report.
    pub(crate) fn news(&self) -> Arc<Notify> {
        self.news.clone()
    }

    /// The test that goes on here, or whose end nobody has taken in.
    pub(crate) fn testing(&self) -> Option<u64> {
        self.devices.testing()
    }

    pub(crate) fn qualify(&mut self, id: u64, level: Level, now: Instant) {
        self.devices.qualify(id, level, now);
    }

    pub(crate) fn qualify_over(&mut self, id: u64) {
        self.devices.qualify_over(id);
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

    fn report_faults(&mut self, out: &mut Vec<FromAgent>) {
        let new = self.devices.take_faults();
        let reported = &mut self.faults;
        let mut faults =
            if std::mem::take(&mut reported.again) { reported.faults.clone() } else { Vec::new() };
        faults.extend(new.iter().cloned());
        reported.faults.extend(new);
        let over = reported.faults.len().saturating_sub(REPORTED_MAX);
        reported.faults.drain(..over);
        reported.before_beat = reported.before_beat.saturating_sub(over);
        if !faults.is_empty() {
            out.push(FromAgent::Faults { faults });
        }
    }

    fn runner(&mut self) -> io::Result<&mut Runner> {
        let runner = match self.runner.take() {
            Some(runner) => runner,
            None => {
                let opened = Runner::open(self.config.clone())?;
                let mut runner = opened.with_tools(self.devices.runner_tools());
                runner.watch(&self.watcher);
                self.renewed.into_iter().for_each(|at| runner.renewed(at));
                runner
            }
        };
        Ok(self.runner.insert(runner))
    }

    pub(crate) fn inventory(&self) -> Inventory {
        self.devices.inventory(&self.config.cgroups)
    }

    pub(crate) fn boot(&self) -> String {
        self.devices.boot()
    }

    /// How long a simulated node is not there yet, that was down when its last process ended.
    pub(crate) fn away(&self) -> Option<SimulatedAbsence> {
        self.devices.away()
    }

    /// Does something to this machine, unless it was done or is being done. A simulated node may
    /// be away for a while.
    pub(crate) fn act(&mut self, id: u64, act: &Act, now: Instant) -> Option<SimulatedAbsence> {
        let boot = self.boot();
        if !self.acts.begin(id, act, &boot) {
            return None;
        }
        tracing::info!(id, act = act.word(), "asked to do something to this machine");
        let away = self.devices.act(id, act, now).unwrap_or_else(|why| {
            self.acts.ended(id, Err(why));
            None
        });
        if away.is_some()
            && let Some(runner) = &mut self.runner
        {
            runner.crash();
        }
        away
    }

    pub(crate) fn act_over(&mut self, id: u64) {
        self.acts.over(id);
    }

    fn acts_turn(&mut self, now: Instant, connected: bool, out: &mut Vec<FromAgent>) {
        for (id, end) in self.devices.acts_over(now) {
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
        let refused = match self.devices.start(key, detail, now) {
            Start::Simulated => return None,
            Start::Run => None,
            Start::Refused(reason) => Some(reason),
        };
        let runner = match self.runner() {
            Ok(runner) => runner,
            Err(e) => {
                let reason = format!("cannot use the node's state directory: {e}");
                return Some(SlotEnd::fault(reason));
            }
        };
        match refused {
            Some(reason) => runner.refuse(key, detail, SlotEnd::Unstartable { reason }),
            None => runner.start(key, detail, now),
        }
        None
    }

    pub(crate) fn active(&self) -> Vec<AttemptKey> {
        let mut keys: Vec<AttemptKey> = self.runner.iter().flat_map(Runner::active).collect();
        keys.extend(self.devices.active());
        keys
    }

    /// Whether ranks that really run are up.
    pub(crate) fn has_ranks(&self) -> bool {
        self.runner.as_ref().is_some_and(|r| r.active().next().is_some())
    }

    pub(crate) fn stop(&mut self, key: AttemptKey, grace: Span, now: Instant) {
        self.devices.stop(key, now);
        if let Some(runner) = &mut self.runner {
            runner.stop(key, grace, now);
        }
    }

    pub(crate) fn ask_checkpoint(&mut self, key: AttemptKey, now: Instant) {
        self.devices.ask_checkpoint(key, now);
        if let Some(runner) = &mut self.runner {
            runner.ask_checkpoint(key);
        }
    }

    /// Looks at everything; says what is to be reported, in order. Output comes first, through
    /// [`Body::logs`]. Without a connection nothing is reported, but everything goes on.
    pub(crate) fn turn(&mut self, now: Instant, connected: bool) -> Vec<FromAgent> {
        let mut out = Vec::new();
        self.devices.turn(now, connected, &mut out);
        if connected {
            self.report_faults(&mut out);
        }
        self.acts_turn(now, connected, &mut out);
        if let Some(runner) = &mut self.runner {
            let changed = runner.poll(now, connected);
            if connected {
                for (key, rank, report) in runner.progress_reports(now) {
                    out.push(FromAgent::Progress { key, rank, report });
                }
            }
            for (key, observed) in changed {
                if let Observed::Ended(_) = &observed {
                    self.devices.ranks_ended(key, now);
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
        self.acts.complete_restarts(&self.boot());
        self.acts.rewind();
        self.devices.rewind();
        if let Some(runner) = &mut self.runner {
            runner.rewind();
        }
    }

    pub(crate) fn forget(&mut self, key: AttemptKey) {
        self.devices.forget(key);
        if let Some(runner) = &mut self.runner {
            runner.forget(key);
        }
    }

    pub(crate) fn observed(&self) -> Vec<(AttemptKey, Observed)> {
        let mut all = self.runner.as_ref().map_or_else(Vec::new, Runner::observed);
        all.extend(self.devices.observed());
        all
    }

    /// How long ago an attempt ended, where that is known.
    pub(crate) fn ended_ago(&self, key: AttemptKey) -> Option<Span> {
        self.runner.as_ref().and_then(|r| r.ended_ago(key))
    }

    /// Stops what may not go on without a server.
    pub(crate) fn unheard(&mut self, heard: Instant, now: Instant) {
        self.devices.unheard(heard, now);
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
        let simulated = self.devices.shortest_lease();
        self.runner.as_ref().and_then(Runner::shortest_lease).into_iter().chain(simulated).min()
    }

    /// When there is something to do by the clock alone.
    pub(crate) fn due(&self, heard: Instant) -> Option<Instant> {
        let runner = self.runner.as_ref();
        let acts = self.acts.waits().then(Instant::now);
        let unheard = runner.and_then(|r| r.next_unheard_deadline(heard));
        let due = [runner.and_then(Runner::due), unheard, self.devices.due(heard), acts];
        due.into_iter().flatten().min()
    }

    /// The last seconds in numbers; names of columns only with `columns`. A simulated node reports
    /// them by its own clock, and nothing while its agent is made to hang.
    pub(crate) fn telemetry(&mut self, now: Instant, columns: bool) -> Option<Telemetry> {
        let mut reported = self.devices.telemetry(now)?;
        if !columns {
            reported.columns.clear();
        }
        Some(reported)
    }

    /// Has a fault, if this node can: what it did in words, or why not; how long the node is
    /// away; and whether its inventory changed.
    pub(crate) fn inject(
        &mut self,
        fault: &Inject,
        now: Instant,
    ) -> (Result<String, String>, Option<SimulatedAbsence>, bool) {
        let done = self.devices.inject(fault, now);
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
