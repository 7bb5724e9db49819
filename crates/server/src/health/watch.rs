//! The thread that owns the watch: takes in what is reported, looks once a second, and hands on
//! what it found. It waits for nothing but news.

use super::Shared;
use super::clock::Clock;
use super::feed::{FeedItem, HealthObservation};
use super::inherit::Inherited;
use super::running::{Changes, View};
use crate::brain::clock;
use muster_health::watch::{Running, Signals, StepObservation, Watch, WatchConfig};
use muster_model::finding::ObservedFinding;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::collections::{BTreeMap, HashSet, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// Findings of one command.
pub(super) const BATCH: usize = 256;
/// Findings that wait while the log takes none; older ones are dropped and counted.
const PENDING: usize = 16_384;
/// News taken in before the clock is looked at again.
const GULP: usize = 4096;
/// First steps reported and not yet taken in.
const FIRST: usize = 65_536;

/// What looks at one kind of node. Simulated ones have clocks of their own, which may run faster.
struct NodeKindWatch {
    watch: Watch,
    running: Vec<Arc<Running>>,
    clock: Clock,
}

impl NodeKindWatch {
    fn new(config: &WatchConfig) -> NodeKindWatch {
        NodeKindWatch {
            watch: Watch::new(config.clone()),
            running: Vec::new(),
            clock: Clock::default(),
        }
    }
}

pub(super) struct Watcher {
    shared: Arc<Shared>,
    config: WatchConfig,
    /// Of real nodes, and of simulated ones.
    kinds: [NodeKindWatch; 2],
    /// What runs, by job.
    attempts: BTreeMap<JobId, View>,
    /// What the eyes were shown of it is old.
    stale: bool,
    /// Attempts that made a step before all their ranks were up.
    early: HashSet<AttemptKey>,
    /// First steps on their way to the log.
    first: VecDeque<AttemptKey>,
    pending: VecDeque<ObservedFinding>,
    inherited: Inherited,
    findings: mpsc::Sender<Vec<ObservedFinding>>,
    steps: mpsc::Sender<AttemptKey>,
}

impl Watcher {
    pub(super) fn new(
        shared: Arc<Shared>,
        config: WatchConfig,
        findings: mpsc::Sender<Vec<ObservedFinding>>,
        steps: mpsc::Sender<AttemptKey>,
    ) -> Watcher {
        let inherited = shared.brain.read(|s| Inherited::of(s, Instant::now()));
        Watcher {
            shared,
            inherited,
            kinds: [NodeKindWatch::new(&config), NodeKindWatch::new(&config)],
            config,
            attempts: BTreeMap::new(),
            stale: false,
            early: HashSet::new(),
            first: VecDeque::new(),
            pending: VecDeque::new(),
            findings,
            steps,
        }
    }

    /// Until the last sender is gone or the server stops.
    pub(super) fn run(mut self, inbox: &Receiver<FeedItem>, every: Duration) {
        let mut due = Instant::now() + every;
        while !self.shared.stop.is_cancelled() {
            let wait = due.saturating_duration_since(Instant::now());
            let first = match inbox.recv_timeout(wait) {
                Ok(news) => Some(news),
                Err(RecvTimeoutError::Timeout) => None,
                Err(RecvTimeoutError::Disconnected) => return,
            };
            let started = Instant::now();
            if first.is_some() {
                self.guarded(|w| {
                    w.follow();
                    for news in first.into_iter().chain(inbox.try_iter()).take(GULP) {
                        w.take(news);
                    }
                });
                self.flush();
            }
            self.shared.figures.rows_busy.add(started.elapsed());
            if Instant::now() >= due {
                let started = Instant::now();
                self.guarded(|w| w.collect_findings(clock()));
                self.flush();
                self.shared.figures.look.observe(started.elapsed());
                due = Instant::now() + every;
            }
        }
    }

    /// A detector that falls over must not end all detection: it begins anew.
    fn guarded(&mut self, f: impl FnOnce(&mut Watcher)) {
        if catch_unwind(AssertUnwindSafe(|| f(self))).is_err() {
            tracing::error!("a detector failed; all of them begin anew");
            self.shared.figures.failures.fetch_add(1, Ordering::Relaxed);
            self.kinds = [NodeKindWatch::new(&self.config), NodeKindWatch::new(&self.config)];
            self.stale = true;
        }
    }

    fn take(&mut self, news: FeedItem) {
        let kind = &mut self.kinds[usize::from(news.simulated)];
        match news.reported {
            HealthObservation::Row { node, at, columns, gpus, host_columns, host } => {
                kind.clock.note_time(at, Instant::now());
                kind.watch.signals(&Signals {
                    node: &node,
                    at,
                    columns: &columns,
                    gpus: &gpus,
                    host_columns: &host_columns,
                    host: &host,
                });
            }
            HealthObservation::Step { key, rank, at, step, t, stages } => {
                kind.watch.step(&StepObservation { key, rank, at, step, t, stages: &stages });
                self.stepped(key);
            }
            HealthObservation::Output { key, rank, at } => kind.watch.output(key, rank, at),
            HealthObservation::Contact { node, at } => kind.watch.note_contact(&node, at),
            HealthObservation::Checkpointing { key, going } => kind.watch.checkpointing(key, going),
        }
    }

    /// Takes in what the log says of attempts and nodes.
    fn follow(&mut self) {
        let Changes { anew, jobs, gone, repaired } = self.shared.attempts.take();
        for kind in &mut self.kinds {
            gone.iter().for_each(|n| kind.watch.gone(n));
            repaired.iter().for_each(|n| kind.watch.repaired(n));
        }
        self.stale |= anew || !jobs.is_empty();
        if anew {
            self.attempts.clear();
        }
        for (id, view) in jobs {
            let Some(view) = view else {
                self.attempts.remove(&id);
                continue;
            };
            let key = view.running.key;
            self.attempts.insert(id, view);
            if self.early.remove(&key) {
                self.stepped(key);
            }
        }
    }

    /// An attempt made a step. The log hears of the first one after a failure, once all ranks are
    /// up: that is when the work goes on.
    fn stepped(&mut self, key: AttemptKey) {
        let of = |v: &&mut View| v.running.key == key;
        match self.attempts.get_mut(&key.job).filter(of) {
            Some(v) if !v.recovering => {}
            Some(v) if v.running.started_at.is_some() => {
                if self.first.len() < FIRST {
                    v.recovering = false;
                    self.first.push_back(key);
                }
            }
            _ => {
                self.early.insert(key);
            }
        }
    }

    fn show(&mut self) {
        let of = |simulated: bool| {
            let these = self.attempts.values().filter(move |v| v.simulated == simulated);
            these.map(|v| v.running.clone()).collect()
        };
        let (real, simulated) = (of(false), of(true));
        self.kinds[0].running = real;
        self.kinds[1].running = simulated;
    }

    fn collect_findings(&mut self, server: Time) {
        self.follow();
        if std::mem::take(&mut self.stale) {
            self.show();
        }
        // What is not known of by now is over.
        let known = |k: &AttemptKey| self.attempts.get(&k.job).is_some_and(|v| v.running.key == *k);
        self.early.retain(known);
        for kind in &mut self.kinds {
            let now = kind.clock.now(server, Instant::now());
            let found = kind.watch.collect_findings(now, &kind.running);
            found.iter().for_each(|f| self.inherited.seen(f));
            // The log knows this server's clock only.
            let reported = Instant::now();
            self.pending.extend(found.into_iter().map(|mut f| {
                f.first_seen = kind.clock.to_server_time(f.first_seen, server, reported);
                f.last_seen = kind.clock.to_server_time(f.last_seen, server, reported);
                f.bounded()
            }));
        }
        let brain = &self.shared.brain;
        let heard = |n: &NodeName| brain.read(|s| s.nodes.get(n).is_none_or(|n| n.reachable));
        self.pending.extend(self.inherited.over(Instant::now(), server, heard));
        let over = self.pending.len().saturating_sub(PENDING);
        if over > 0 {
            self.pending.drain(..over);
            self.shared.figures.lost.fetch_add(over as u64, Ordering::Relaxed);
        }
    }

    /// Hands on as much as is taken at once.
    fn flush(&mut self) {
        while let Some(key) = self.first.front() {
            if self.steps.try_send(*key).is_err() {
                break;
            }
            self.first.pop_front();
        }
        while !self.pending.is_empty() {
            let Ok(place) = self.findings.try_reserve() else { return };
            let n = self.pending.len().min(BATCH);
            place.send(self.pending.drain(..n).collect());
        }
    }
}
