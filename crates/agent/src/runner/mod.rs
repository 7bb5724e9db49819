//! Running ranks: starts supervisors, watches them, stops them, ships their output and their
//! voice. Knows nothing of the server; the session drives it and can be away for as long as it
//! likes.

mod signals;
mod slot;
mod start;

use crate::cgroup::Cgroups;
use crate::env::{self, Env};
use crate::run_dir::{RunDir, Why};
use crate::watch::Watcher;
use muster_link::messages::{LogChunk, LogMark, RunDetail, Stream, VoiceReport};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::spec::OnPartition;
use muster_model::units::Span;
use slot::Slot;
use std::collections::BTreeMap;
use std::io;
use std::path::PathBuf;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// Between SIGTERM and SIGKILL when nobody said otherwise.
pub const GRACE: Span = Span::secs(10);
/// Everything is looked at this often even when nothing wakes us.
const LOOK: Duration = Duration::from_secs(1);

/// How supervisors are started: an executable that calls [`crate::shim::main`].
#[derive(Debug, Clone)]
pub struct ShimCommand {
    /// The executable.
    pub program: PathBuf,
    /// Its arguments.
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
}

impl RankBudget {
    /// So many.
    #[must_use]
    pub fn new(most: u32) -> Arc<RankBudget> {
        Arc::new(RankBudget { most, used: AtomicU32::new(0) })
    }

    /// As many as anybody likes.
    #[must_use]
    pub fn unlimited() -> Arc<RankBudget> {
        RankBudget::new(u32::MAX)
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
    /// The node.
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

/// All attempts of one node.
#[derive(Debug)]
pub struct Runner {
    config: RunnerConfig,
    base_env: Env,
    slots: BTreeMap<AttemptKey, Slot>,
    watcher: Watcher,
    wake: Arc<Notify>,
    /// Supervisors of forgotten attempts that have not been reaped yet.
    ending: Vec<Child>,
    looked: Option<Instant>,
}

impl Runner {
    /// Opens the directory and finds again what ran before. Nothing on disk can make this fail
    /// except the directory itself; an attempt that cannot be read is set aside with a warning.
    pub fn open(config: RunnerConfig) -> io::Result<Runner> {
        let wake = Arc::new(Notify::new());
        let mut runner = Runner {
            base_env: env::inherited(),
            slots: BTreeMap::new(),
            watcher: Watcher::default(),
            wake,
            ending: Vec::new(),
            looked: None,
            config,
        };
        let runs = runner.runs();
        RunDir(runs.clone()).create()?;
        let now = Instant::now();
        for entry in std::fs::read_dir(&runs)? {
            let entry = entry?;
            let key = entry.file_name().to_str().and_then(|n| n.parse::<AttemptKey>().ok());
            let Some(key) = key else { continue };
            match Slot::adopt(key, RunDir(entry.path()), &runner.config, now) {
                Some(slot) => {
                    tracing::info!(attempt = %key, state = slot.phase_name(), "adopted");
                    runner.slots.insert(key, slot);
                }
                None => {
                    tracing::warn!(attempt = %key, path = %entry.path().display(),
                        "an attempt without a readable meta.json never started; removed");
                    RunDir(entry.path()).remove();
                }
            }
        }
        Ok(runner)
    }

    /// Lets changes wake [`Runner::woken`].
    pub(crate) fn watch(&mut self, watcher: &Watcher) {
        self.watcher = watcher.clone();
        for slot in self.slots.values() {
            self.watcher.watch(slot.dir(), &self.wake);
        }
    }

    /// Completes when there may be something to look at.
    pub(crate) fn waker(&self) -> Arc<Notify> {
        self.wake.clone()
    }

    fn runs(&self) -> PathBuf {
        self.config.state.join("runs")
    }

    /// Starts an attempt, once: one that is known, whatever became of it, is left as it is.
    pub fn start(&mut self, key: AttemptKey, detail: &RunDetail, now: Instant) {
        if self.slots.contains_key(&key) {
            return;
        }
        let dir = RunDir::of(&self.runs(), key);
        let slot = Slot::start(key, dir, detail, &self.config, &self.base_env, now, |dir| {
            self.watcher.watch(dir, &self.wake);
        });
        self.slots.insert(key, slot);
        // A failure to start is seen by the next look.
        self.wake.notify_one();
    }

    /// Notes the end of an attempt that never came to anything here.
    pub fn refuse(&mut self, key: AttemptKey, detail: &RunDetail, end: SlotEnd) {
        if !self.slots.contains_key(&key) {
            let dir = RunDir::of(&self.runs(), key);
            self.slots.insert(key, Slot::refused(key, dir, detail, &self.config, end));
            self.wake.notify_one();
        }
    }

    /// Whether the attempt is known, running or ended.
    #[must_use]
    pub fn knows(&self, key: AttemptKey) -> bool {
        self.slots.contains_key(&key)
    }

    /// Attempts whose ranks may still be up.
    pub fn active(&self) -> impl Iterator<Item = AttemptKey> {
        self.slots.iter().filter(|(_, s)| s.active()).map(|(k, _)| *k)
    }

    /// Stops an attempt: SIGTERM, SIGKILL after the grace. Asking again changes nothing.
    pub fn stop(&mut self, key: AttemptKey, grace: Span, now: Instant) {
        if let Some(slot) = self.slots.get_mut(&key) {
            slot.stop(Why::Asked, grace, now);
        }
    }

    /// Stops what may not go on without a server, which was last heard at `heard`.
    pub fn unheard(&mut self, heard: Instant, now: Instant) {
        for slot in self.slots.values_mut().filter(|s| s.active()) {
            let OnPartition::StopAfter(most) = slot.on_partition() else { continue };
            if now.saturating_duration_since(heard) >= most.to_std() {
                slot.stop(Why::Fault(format!("no server for {most}")), GRACE, now);
            }
        }
    }

    /// When [`Runner::unheard`] next has something to do.
    #[must_use]
    pub fn unheard_due(&self, heard: Instant) -> Option<Instant> {
        let spans = self.slots.values().filter(|s| s.active() && !s.stopping());
        let spans = spans.filter_map(|s| match s.on_partition() {
            OnPartition::StopAfter(most) => Some(most.to_std()),
            OnPartition::Continue => None,
        });
        spans.min().and_then(|most| heard.checked_add(most))
    }

    /// Stops everything because this node goes away.
    pub fn shut_down(&mut self, grace: Span, now: Instant) {
        for slot in self.slots.values_mut() {
            slot.stop(Why::Fault("the node was shut down".into()), grace, now);
        }
    }

    /// Asks the ranks of an attempt for a checkpoint.
    pub fn ask_checkpoint(&mut self, key: AttemptKey) {
        if let Some(slot) = self.slots.get(&key) {
            slot.ask_checkpoint();
        }
    }

    /// Looks at everything and says what changed. An end is told only while `connected`, and
    /// only after all output has been handed out by [`Runner::logs`].
    pub fn poll(&mut self, now: Instant, connected: bool) -> Vec<(AttemptKey, Observed)> {
        self.looked = Some(now);
        self.ending.retain_mut(|c| matches!(c.try_wait(), Ok(None)));
        let mut changed = Vec::new();
        for (key, slot) in &mut self.slots {
            if let Some(observed) = slot.poll(now, connected) {
                changed.push((*key, observed));
            }
        }
        changed
    }

    /// Output that has not been shipped yet, about `budget` bytes of it.
    pub fn logs(&mut self, budget: usize) -> Vec<LogChunk> {
        let mut out = Vec::new();
        let mut left = budget;
        // One piece of each stream in turn, so that a chatty rank does not silence the others.
        loop {
            let before = out.len();
            for slot in self.slots.values_mut() {
                slot.logs(&mut left, &mut out);
            }
            if left == 0 || out.len() == before {
                return out;
            }
        }
    }

    /// What ranks have to say now.
    pub fn voices(&mut self, now: Instant) -> Vec<(AttemptKey, u32, VoiceReport)> {
        let mut out = Vec::new();
        for (key, slot) in &mut self.slots {
            slot.voices(now, |rank, report| out.push((*key, rank, report)));
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
        self.slots.iter().map(|(k, s)| (*k, s.observed())).collect()
    }

    /// The server has the end in its log: the attempt's traces go. One that still runs stays.
    pub fn forget(&mut self, key: AttemptKey) {
        if self.slots.get(&key).is_some_and(|s| !s.active())
            && let Some(slot) = self.slots.remove(&key)
        {
            self.ending.extend(slot.forget());
        }
    }

    /// When to look again at the latest.
    #[must_use]
    pub fn due(&self) -> Option<Instant> {
        if self.slots.values().all(Slot::settled) && self.ending.is_empty() {
            return None;
        }
        let look = self.looked.map(|l| l + LOOK);
        self.slots.values().filter_map(Slot::due).chain(look).min()
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
