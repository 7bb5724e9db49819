//! Running ranks: starts supervisors, watches them, stops them, ships their output and their
//! progress reports. Knows nothing of the server; the session drives it and can be away for as long as it
//! likes.

mod finish;
mod pids;
mod slot;
mod start;
mod strays;
mod tools;
mod unproven;
mod waiting;

pub use pids::{Holder, PidMap};
pub use tools::{AfterSlot, DeviceNodes, Explain, RunnerTools, Slice, Slices, SlotGpus};

use crate::cgroup::Cgroups;
use crate::env::{self, Env};
use crate::lease::{BootTime, LeaseOrder, Renewals};
use crate::run_dir::{RankStopCause, RunDir, TRASH};
use crate::trash;
use crate::watch::{RunnerWakeup, Watcher};
use muster_link::messages::{LogChunk, LogMark, ProgressReport, RunDetail, Stream};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::spec::{OnPartition, lease_grace};
use muster_model::units::Span;
use slot::Slot;
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;
use unproven::UnprovenEnd;
use waiting::{Waiting, ask_machine};

/// Between SIGTERM and SIGKILL when nobody said otherwise.
pub const GRACE: Span = Span::secs(10);
/// Everything is looked at this often even when nothing wakes us.
const LOOK: Duration = Duration::from_secs(1);
/// How long a start waits for other ranks of this machine to end before it is refused. Short
/// enough that two gangs which each hold half of the budget do not hold each other up for long.
const PATIENCE: Duration = Duration::from_secs(20);
/// How often a waiting start looks for room.
const RETRY: Duration = Duration::from_millis(10);

/// How supervisors are started: an executable that calls [`crate::shim::main`].
#[derive(Debug, Clone)]
pub struct ShimCommand {
    /// Path of the executable.
    pub program: PathBuf,
    /// What it is started with.
    pub args: Vec<String>,
}

impl ShimCommand {
    /// This very executable, called with [`crate::shim::SHIM_ARG`], also when its file has
    /// been replaced meanwhile.
    #[must_use]
    pub fn this_executable() -> ShimCommand {
        ShimCommand { program: "/proc/self/exe".into(), args: vec![crate::shim::SHIM_ARG.into()] }
    }
}

/// How many ranks may run at a time, shared by all nodes of one process.
#[derive(Debug)]
pub struct RankBudget {
    most: u32,
    used: AtomicU32,
    patience: Duration,
}

impl RankBudget {
    /// At most so many ranks at a time, with the usual patience.
    #[must_use]
    pub fn new(most: u32) -> Arc<RankBudget> {
        RankBudget::patient(most, PATIENCE)
    }

    /// So many; a start that finds no room waits for it at most so long.
    #[must_use]
    pub fn patient(most: u32, patience: Duration) -> Arc<RankBudget> {
        Arc::new(RankBudget { most, used: AtomicU32::new(0), patience })
    }

    /// As many as anybody likes.
    #[must_use]
    pub fn unlimited() -> Arc<RankBudget> {
        RankBudget::new(u32::MAX)
    }

    /// Would so many fit now? More than the budget as a whole never will, so waiting is no use.
    fn worth_trying(&self, n: u32) -> bool {
        n > self.most || self.used.load(Ordering::Relaxed).saturating_add(n) <= self.most
    }

    fn take(self: &Arc<Self>, n: u32) -> Result<RankPermit, u32> {
        let take = |used: u32| used.checked_add(n).filter(|v| *v <= self.most);
        match self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take) {
            Ok(_) => Ok(RankPermit { budget: self.clone(), n }),
            Err(used) => Err(used),
        }
    }
}

/// A share of the budget; given back when dropped.
#[derive(Debug)]
struct RankPermit {
    budget: Arc<RankBudget>,
    n: u32,
}

impl Drop for RankPermit {
    fn drop(&mut self) {
        self.budget.used.fetch_sub(self.n, Ordering::Relaxed);
    }
}

/// What a runner needs to know.
#[derive(Debug, Clone)]
pub struct RunnerConfig {
    /// Directory of everything kept; attempts are under `runs` in it.
    pub state: PathBuf,
    /// The node that the attempts run on.
    pub node: NodeName,
    /// How supervisors are started.
    pub shim: ShimCommand,
    /// Control groups to fence ranks in.
    pub cgroups: Arc<Cgroups>,
    /// Most output of one stream that may wait to be shipped.
    pub log_cap: u64,
    /// Shared limit on ranks.
    pub budget: Arc<RankBudget>,
}

/// What is left of ended slots is remembered for so many.
const LEFTOVERS: usize = 64;

/// What the slots of a runner share.
#[derive(Debug, Default)]
struct RunnerShared {
    runner_tools: RunnerTools,
    pids: PidMap,
    wakeup: RunnerWakeup,
}

/// All attempts of one node.
#[derive(Debug)]
pub struct Runner {
    config: RunnerConfig,
    base_env: Env,
    slots: BTreeMap<AttemptKey, Slot>,
    /// In the order of their attempts, which is about the order they came in.
    waiting: BTreeMap<AttemptKey, Waiting>,
    watcher: Watcher,
    shared: RunnerShared,
    leftovers: Vec<(AttemptKey, String)>,
    /// Attempts of which nothing is known but whether their processes could be ended.
    unproven: BTreeMap<AttemptKey, UnprovenEnd>,
    renewals: Renewals,
    /// Supervisors of forgotten attempts that have not been reaped yet.
    ending: Vec<Child>,
    looked: Option<Instant>,
    /// When every attempt was last looked at, changed or not.
    looked_at_all: Option<Instant>,
}

impl Runner {
    /// Opens the directory and finds again what ran before. An attempt whose files are lost is
    /// stopped and removed with a warning.
    ///
    /// # Errors
    /// The directory, or what it holds of an attempt, cannot be read now. Then nothing was stopped.
    pub fn open(config: RunnerConfig) -> io::Result<Runner> {
        let mut runner = Runner {
            base_env: env::inherited(),
            slots: BTreeMap::new(),
            waiting: BTreeMap::new(),
            watcher: Watcher::default(),
            shared: RunnerShared::default(),
            leftovers: Vec::new(),
            unproven: BTreeMap::new(),
            renewals: Renewals::open(&config.state),
            ending: Vec::new(),
            looked: None,
            looked_at_all: None,
            config,
        };
        let runs = runner.runs();
        // A directory in which nothing ever ran has nobody to look for.
        let used = runs.exists() || runner.config.state.join(start::LOG).exists();
        let first = strays::first(&runner.config.state);
        RunDir(runs.clone()).create()?;
        trash::sweep(&runner.config.state.join(TRASH));
        let now = Instant::now();
        let mut unread = Vec::new();
        for entry in std::fs::read_dir(&runs)? {
            let entry = entry?;
            let key = entry.file_name().to_str().and_then(|n| n.parse::<AttemptKey>().ok());
            let Some(key) = key else { continue };
            match Slot::adopt(key, RunDir(entry.path()), &runner.config, now)? {
                Some(slot) => {
                    tracing::info!(attempt = %key, state = slot.phase_name(), "adopted");
                    runner.slots.insert(key, slot);
                }
                None => {
                    tracing::warn!(attempt = %key, path = %entry.path().display(),
                        "an attempt without a readable meta.json is stopped and removed");
                    // A supervisor that is still on its way finds it given up.
                    let _ = RunDir(entry.path()).claim(None);
                    unread.push((key, RunDir(entry.path())));
                }
            }
        }
        if used {
            runner.stop_strays(&runs, first)?;
        }
        // Whoever could not be ended still works in his; the next agent finds him by it.
        let stays = |key: &AttemptKey| runner.unproven.get(key).is_some_and(|left| !left.gone());
        let gone = unread.iter().filter(|(key, _)| !stays(key));
        gone.for_each(|(_, dir)| dir.remove());
        Ok(runner)
    }

    /// Ends what an earlier agent started and no record claims.
    fn stop_strays(&mut self, runs: &Path, first: bool) -> io::Result<()> {
        let left = strays::stop(&self.config, runs, first, |key, supervised| {
            let Some(slot) = self.slots.get(&key) else { return Ok(false) };
            if !supervised || !slot.active() {
                return Ok(true);
            }
            // A supervisor that its record does not name would never be looked at again.
            let record = RunDir(slot.dir().to_owned()).find_record()?;
            Ok(record.supervisor.flatten().is_some())
        })?;
        for (key, left) in left {
            if left.gone() {
                // The end of one that has a record is reported from that. Otherwise only this agent,
                // which ended its ranks, knows that they are gone.
                if !self.slots.contains_key(&key) {
                    self.unproven.insert(key, left);
                }
                continue;
            }
            let what = left.describe_leftovers();
            tracing::warn!(attempt = %key, "left behind: {what}");
            self.slots.remove(&key);
            self.unproven.insert(key, left);
            self.leftovers.push((key, what));
        }
        Ok(())
    }

    /// With other tools than the default ones; for before the first start.
    #[must_use]
    pub fn with_tools(mut self, runner_tools: RunnerTools) -> Runner {
        self.shared.pids = runner_tools.pids.clone();
        self.shared.runner_tools = runner_tools;
        self
    }

    /// Whose process is it? See [`PidMap::owner_of`].
    #[must_use]
    pub fn owner_of(&self, pid: i32) -> Option<(AttemptKey, u32)> {
        self.shared.pids.owner_of(pid)
    }

    /// The same for other threads.
    #[must_use]
    pub fn pid_map(&self) -> PidMap {
        self.shared.pids.clone()
    }

    /// What slots that ended left on this node although it should not be there, newest last:
    /// processes that cannot be killed, scratch space, or what the one who looks after GPUs says.
    #[must_use]
    pub fn leftovers(&self) -> Vec<(AttemptKey, String)> {
        self.leftovers.clone()
    }

    /// Lets changes notify the [`Runner::waker`].
    pub(crate) fn watch(&mut self, watcher: &Watcher) {
        self.watcher = watcher.clone();
        for (key, slot) in &mut self.slots {
            let watched = self.watcher.watch(slot.dir(), &self.shared.wakeup, *key);
            slot.set_watched(watched);
            // What changed before is not reported.
            slot.changed();
        }
    }

    /// Watches with a watcher of its own; must be called within a runtime. Without any, every
    /// [`Runner::poll`] looks at everything.
    pub fn watch_changes(&mut self) {
        self.watch(&Watcher::start());
    }

    /// Completes when there may be something to look at.
    #[must_use]
    pub fn waker(&self) -> Arc<Notify> {
        self.shared.wakeup.waker()
    }

    fn runs(&self) -> PathBuf {
        self.config.state.join("runs")
    }

    /// Starts an attempt, once: one that is known, whatever became of it, is left as it is.
    /// When the machine is full it waits a while for room.
    pub fn start(&mut self, key: AttemptKey, detail: &RunDetail, now: Instant) {
        if self.knows(key) {
            return;
        }
        let wakeup = self.shared.wakeup.clone();
        let asked = ask_machine(&self.shared.runner_tools, detail, move || wakeup.nudge());
        if asked.is_none() && self.config.budget.worth_trying(detail.slot.ranks) {
            self.begin(key, detail, None, now);
        } else {
            self.waiting.insert(key, Waiting::new(detail, asked, now));
        }
    }

    /// Starts that waited and now have room, or have waited too long.
    fn begin_waiting(&mut self, now: Instant) {
        let without = self.waiting.iter_mut().filter_map(|(key, w)| {
            let why = w.take_answers(now).err()?;
            Some((*key, why))
        });
        for (key, why) in without.collect::<Vec<_>>() {
            if let Some(w) = self.waiting.remove(&key) {
                self.refuse(key, w.detail(), SlotEnd::fault(why));
            }
        }
        // Who waits for an answer blocks nobody.
        while let Some((&key, w)) = self.waiting.iter().find(|(_, w)| w.is_answered()) {
            let over = w.waited(self.config.budget.patience, now);
            if !over && !self.config.budget.worth_trying(w.detail().slot.ranks) {
                return;
            }
            if let Some(w) = self.waiting.remove(&key) {
                let (detail, slice) = w.into_start();
                self.begin(key, &detail, slice, now);
            }
        }
    }

    fn begin(&mut self, key: AttemptKey, detail: &RunDetail, slice: Option<Slice>, now: Instant) {
        let dir = RunDir::of(&self.runs(), key);
        let mut watched = false;
        let lease = self.lease(detail);
        let (config, runner_tools, base) =
            (&self.config, &self.shared.runner_tools, &self.base_env);
        let tools = start::Tools { config, runner_tools, base, lease, slice };
        let mut slot = Slot::start(key, dir, detail, &tools, now, |dir| {
            watched = self.watcher.watch(dir, &self.shared.wakeup, key);
        });
        slot.set_watched(watched);
        self.slots.insert(key, slot);
        // A failure to start is seen by the next look.
        self.shared.wakeup.nudge();
    }

    /// What the supervisor of an attempt knows of its lease.
    fn lease(&mut self, detail: &RunDetail) -> Option<LeaseOrder> {
        let OnPartition::StopAfter(most) = detail.on_partition else { return None };
        let renewed = self.renewals.last().unwrap_or_else(BootTime::now);
        self.renewed_at(renewed);
        let grace = lease_grace(detail.checkpoint.as_ref());
        Some(LeaseOrder { most, grace, renewed, renewals: self.renewals.dir().to_owned() })
    }

    /// The server was certain to hear this node then: the leases of its ranks are renewed.
    pub fn renewed(&mut self, at: BootTime) {
        self.renewals.renew(at);
        if self.slots.values().any(|s| s.active() && s.leased()) {
            self.renewed_at(at);
        }
    }

    fn renewed_at(&mut self, at: BootTime) {
        self.renewals.renew(at);
        if let Err(e) = self.renewals.write() {
            tracing::warn!(error = %e, "the leases of ranks cannot be renewed; they will stop");
        }
    }

    /// The least time that ranks which are up may go on without a server.
    #[must_use]
    pub fn shortest_lease(&self) -> Option<Span> {
        let spans = self.slots.values().filter(|s| s.active()).filter_map(Slot::stop_after);
        spans.min()
    }

    /// Notes the end of an attempt that never came to anything here.
    pub fn refuse(&mut self, key: AttemptKey, detail: &RunDetail, end: SlotEnd) {
        if !self.knows(key) {
            let dir = RunDir::of(&self.runs(), key);
            self.slots.insert(key, Slot::refused(key, dir, detail, &self.config, end));
            self.shared.wakeup.nudge();
        }
    }

    /// Whether the attempt is known: waiting, running or ended.
    #[must_use]
    pub fn knows(&self, key: AttemptKey) -> bool {
        self.slots.contains_key(&key)
            || self.waiting.contains_key(&key)
            || self.unproven.contains_key(&key)
    }

    /// Attempts whose ranks may still be up.
    pub fn active(&self) -> impl Iterator<Item = AttemptKey> {
        let running = self.slots.iter().filter(|(_, s)| s.active()).map(|(k, _)| *k);
        running.chain(self.waiting.keys().copied())
    }

    /// Stops an attempt: SIGTERM, SIGKILL after the grace. Asking again changes nothing.
    pub fn stop(&mut self, key: AttemptKey, grace: Span, now: Instant) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.stop(RankStopCause::Asked, grace, now);
        }
        if let Some(w) = self.waiting.remove(&key) {
            self.refuse(key, w.detail(), SlotEnd::Stopped);
        }
    }

    /// Stops what may not go on without a server, which was last heard at `heard`, where no
    /// supervisor does: those that an older agent started hold no lease.
    pub fn unheard(&mut self, heard: Instant, now: Instant) {
        for slot in self.slots.values_mut().filter(|s| s.active() && !s.leased()) {
            let Some(most) = slot.stop_after() else { continue };
            if now.saturating_duration_since(heard) >= most.to_std() {
                slot.stop(RankStopCause::NoServer(most), slot.lease_grace(), now);
            }
        }
    }

    /// When [`Runner::unheard`] next has something to do.
    #[must_use]
    pub fn next_unheard_deadline(&self, heard: Instant) -> Option<Instant> {
        let spans = self.slots.values().filter(|s| s.active() && !s.stopping() && !s.leased());
        let shortest = spans.filter_map(Slot::stop_after).min();
        shortest.and_then(|most| heard.checked_add(most.to_std()))
    }

    /// Stops everything because this node goes away.
    pub fn shut_down(&mut self, grace: Span, now: Instant) {
        for (key, w) in std::mem::take(&mut self.waiting) {
            self.refuse(key, w.detail(), SlotEnd::fault("the node was shut down"));
        }
        for slot in self.slots.values_mut() {
            slot.stop(RankStopCause::Fault("the node was shut down".into()), grace, now);
        }
    }

    /// Asks the ranks of an attempt for a checkpoint.
    pub fn ask_checkpoint(&mut self, key: AttemptKey) {
        if let Some(slot) = self.slots.get(&key) {
            slot.ask_checkpoint();
        }
    }

    /// Looks at what may have changed and says what did. An end is reported only while `connected`,
    /// and only after all output has been handed out by [`Runner::logs`].
    pub fn poll(&mut self, now: Instant, connected: bool) -> Vec<(AttemptKey, Observed)> {
        self.looked = Some(now);
        self.begin_waiting(now);
        self.ending.retain_mut(|c| matches!(c.try_wait(), Ok(None)));
        let touched = self.shared.wakeup.take();
        // What a missed change or a dead supervisor did is found by looking at everything.
        let all = touched.all
            || self.looked_at_all.is_none_or(|l| now.saturating_duration_since(l) >= LOOK);
        if all {
            self.looked_at_all = Some(now);
            for slot in self.slots.values_mut().filter(|s| !s.settled()) {
                slot.changed();
                slot.remember_processes(&self.shared.pids);
            }
        }
        for key in &touched.keys {
            if let Some(slot) = self.slots.get_mut(key) {
                slot.changed();
            }
        }
        let mut changed = Vec::new();
        for (key, left) in self.unproven.iter_mut().filter(|(_, left)| all && !left.settled()) {
            changed.extend(left.check_processes(connected).map(|end| (*key, Observed::Ended(end))));
        }
        let mut again = false;
        for (key, slot) in &mut self.slots {
            if !slot.may_have_news(now, connected) {
                continue;
            }
            let was_active = slot.active();
            if let Some(observed) = slot.poll(now, connected, &self.shared) {
                changed.push((*key, observed));
            }
            if let Some(what) = slot.take_leftover() {
                tracing::warn!(attempt = %key, "left behind: {what}");
                self.leftovers.push((*key, what));
                let most = self.leftovers.len().saturating_sub(LEFTOVERS);
                self.leftovers.drain(..most);
            }
            // Ended just now, after its output was shipped: the rest of it, then its end.
            again |= slot.unfinished() || (connected && was_active && !slot.active());
        }
        if again {
            self.shared.wakeup.nudge();
        }
        changed
    }

    /// Output that has not been shipped yet, about `budget` bytes of it.
    pub fn logs(&mut self, budget: usize) -> Vec<LogChunk> {
        let mut out = Vec::new();
        let (now, mut left) = (Instant::now(), budget);
        // One piece of each stream in turn, so that a chatty rank does not silence the others.
        loop {
            let before = out.len();
            for slot in self.slots.values_mut() {
                slot.logs(now, &mut left, &mut out);
            }
            if left == 0 || out.len() == before {
                return out;
            }
        }
    }

    /// What ranks have to say now.
    pub fn progress_reports(&mut self, now: Instant) -> Vec<(AttemptKey, u32, ProgressReport)> {
        let mut out = Vec::new();
        for (key, slot) in &mut self.slots {
            slot.progress_reports(now, |rank, report| out.push((*key, rank, report)));
        }
        out
    }

    /// The server keeps output up to a mark.
    pub fn kept(&mut self, mark: LogMark) {
        if let Some(slot) = self.slots.get_mut(&mark.key) {
            slot.kept(mark.rank, usize::from(mark.stream == Stream::Stderr), mark.offset);
        }
    }

    /// A new connection: everything the server may not have is shipped again.
    pub fn rewind(&mut self) {
        for slot in self.slots.values_mut() {
            slot.rewind();
        }
    }

    /// Every attempt and how it stands.
    #[must_use]
    pub fn observed(&self) -> Vec<(AttemptKey, Observed)> {
        // One that waits is under way, too: a stop must find it.
        let waiting = self.waiting.keys().map(|k| (*k, Observed::Running));
        let unproven = self.unproven.iter().map(|(k, u)| (*k, Observed::Ended(u.end().clone())));
        let slots = self.slots.iter().map(|(k, s)| (*k, s.observed()));
        slots.chain(waiting).chain(unproven).collect()
    }

    /// How long ago an attempt ended, where that is known. No clock that somebody sets counts here.
    #[must_use]
    pub fn ended_ago(&self, key: AttemptKey) -> Option<Span> {
        self.slots.get(&key).and_then(Slot::ended_ago)
    }

    /// The server has the end in its log: the attempt's traces go. One that still runs stays.
    pub fn forget(&mut self, key: AttemptKey) {
        if self.unproven.remove(&key).is_some_and(|left| left.gone()) {
            RunDir::of(&self.runs(), key).remove();
        }
        if self.slots.get(&key).is_some_and(|s| !s.active())
            && let Some(slot) = self.slots.remove(&key)
        {
            self.ending.extend(slot.forget());
        }
    }

    /// When to look again at the latest.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        if self.waiting.values().any(Waiting::is_answered) {
            return Some(self.looked.map_or_else(Instant::now, |l| l + RETRY));
        }
        let slice = self.waiting.values().filter_map(Waiting::due).min();
        let settled = self.slots.values().all(Slot::settled)
            && self.unproven.values().all(UnprovenEnd::settled);
        if settled && self.ending.is_empty() {
            return slice;
        }
        let look = self.looked_at_all.map(|l| l + LOOK);
        self.slots.values().filter_map(Slot::due).chain(look).chain(slice).min()
    }

    /// Kills the ranks of one attempt at once, as if they had died by themselves.
    pub fn kill_ranks(&mut self, key: AttemptKey) -> bool {
        let slot = self.slots.get(&key).filter(|s| s.active());
        slot.is_some_and(|s| {
            s.kill_ranks();
            true
        })
    }

    /// What a power failure does: nothing runs any more, and nothing is remembered.
    pub fn crash(&mut self) {
        self.waiting.clear();
        for (_, slot) in std::mem::take(&mut self.slots) {
            self.ending.extend(slot.crash());
        }
    }

    /// Writes down how far things have come; called before the agent ends.
    pub fn save(&mut self) {
        for slot in self.slots.values_mut() {
            slot.save(true, Instant::now());
        }
    }
}
