//! One attempt on this node, from its start to its last byte.

mod watch;

use super::finish::Finishing;
use super::pids::PidMap;
use super::{GRACE, RankPermit, RunnerConfig, start};
use crate::cgroup::Group;
use crate::clock::wall;
use crate::isolation::slot_dir;
use crate::lease::BootTime;
use crate::logs::Tail;
use crate::process::{self, ProcessId};
use crate::progress::{self, ProgressReader};
use crate::run_dir::{KillBy, MetaFile, RankStopCause, RunDir, StateFile, sanitised};
use crate::signals::SignalTargets;
use muster_link::messages::RunDetail;
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::spec::{OnPartition, lease_grace};
use muster_model::units::Span;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// Progress is written down at most this often.
const SAVE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The supervisor is on its way.
    Starting,
    Running,
    /// Every rank is gone; output is still to be shipped.
    Draining(SlotEnd),
    /// Reported to the server.
    Ended(SlotEnd),
}

/// Who is asked after the last process is gone, before the end is reported.
#[derive(Debug)]
enum FinishCheck {
    /// Somebody may have to be.
    Due,
    Asked(Finishing),
    Done,
}

#[derive(Debug)]
struct Stopping {
    termed: bool,
    /// An earlier agent began it, and may have sent signals already.
    adopted: bool,
    kill_at: Instant,
    kills: u32,
}

#[derive(Debug)]
pub(super) struct Slot {
    key: AttemptKey,
    dir: RunDir,
    detail: RunDetail,
    group: Option<Group>,
    /// Its supervisor stops the ranks when their lease runs out.
    leased: bool,
    since: Instant,
    /// It was started since the machine was: what its supervisor says of moments can be compared.
    this_boot: bool,
    shim: Option<ProcessId>,
    /// This agent started its supervisor, or saw it alive.
    met: bool,
    child: Option<Child>,
    ranks: Vec<i32>,
    phase: Phase,
    after: FinishCheck,
    /// Something is left, and that has not been reported yet.
    leftover: Option<String>,
    /// Its supervisor died and cannot have cleaned up.
    orphaned: bool,
    stop: Option<Stopping>,
    tails: Vec<[Tail; 2]>,
    progress_readers: Vec<ProgressReader>,
    /// How much of the reports may still be read now that the ranks are gone.
    hears: usize,
    state: StateFile,
    dirty: bool,
    saved: Instant,
    permit: Option<RankPermit>,
    /// Changes in the directory are reported to us.
    watched: bool,
    /// Its reports are elsewhere, where changes are not reported.
    elsewhere: bool,
    /// Something changed since the last look.
    look: bool,
    /// There may be output to ship.
    output: bool,
}

impl Slot {
    fn new(
        key: AttemptKey,
        dir: RunDir,
        detail: RunDetail,
        config: &RunnerConfig,
        state: StateFile,
        now: Instant,
    ) -> Slot {
        let ranks = || detail.slot.first_rank..detail.slot.first_rank + detail.slot.ranks.min(4096);
        let kept = |i: usize, s: usize| state.kept.get(i).map_or(0, |k| k[s]);
        let tail = |i: usize, s: usize, rank: u32, suffix: &str| {
            Tail::new(&dir.path(&format!("{rank}.{suffix}")), kept(i, s), config.log_cap)
        };
        let tails = ranks()
            .enumerate()
            .map(|(i, r)| [tail(i, 0, r, "out"), tail(i, 1, r, "err")])
            .collect();
        let handed = slot_dir::of(&dir.0);
        let progress_readers = ranks().enumerate().map(|(i, r)| {
            let from = state.progress.get(i).copied().unwrap_or(0);
            let done = state.done.get(i).cloned().flatten();
            let reports = handed.as_ref().unwrap_or(&dir.0);
            ProgressReader::new(&reports.join(format!("{r}.report")), from, done)
        });
        let progress_readers = progress_readers.collect();
        Slot {
            key,
            dir,
            detail,
            group: None,
            leased: false,
            since: now,
            this_boot: true,
            shim: None,
            met: false,
            child: None,
            ranks: Vec::new(),
            phase: Phase::Starting,
            after: if state.finished { FinishCheck::Done } else { FinishCheck::Due },
            leftover: state.leftover.clone(),
            orphaned: false,
            stop: None,
            tails,
            progress_readers,
            hears: progress::LAST,
            state,
            dirty: false,
            saved: now,
            permit: None,
            watched: false,
            elsewhere: handed.is_some(),
            look: true,
            output: true,
        }
    }

    /// Starts the ranks; a failure shows as the slot's end.
    pub(super) fn start(
        key: AttemptKey,
        dir: RunDir,
        detail: &RunDetail,
        tools: &start::Tools<'_>,
        now: Instant,
        made: impl FnOnce(&Path),
    ) -> Slot {
        let config = tools.config;
        let permit = match config.budget.take(detail.slot.ranks) {
            Ok(permit) => permit,
            Err(used) => {
                let reason = format!(
                    "this machine runs {used} ranks already; {} more do not fit (limit {})",
                    detail.slot.ranks, config.budget.most
                );
                return Slot::refused(key, dir, detail, config, SlotEnd::fault(reason));
            }
        };
        let started = start::start(key, &dir, detail, tools, made);
        let mut slot = Slot::new(key, dir, sanitised(detail), config, StateFile::default(), now);
        slot.leased = tools.lease.is_some();
        match started.child {
            Ok(child) => {
                slot.group = started.group;
                slot.child = Some(child);
                slot.met = true;
                slot.permit = Some(permit);
            }
            Err(end) => slot.finish_unstarted(end),
        }
        slot
    }

    /// An attempt that ended before it began.
    pub(super) fn refused(
        key: AttemptKey,
        dir: RunDir,
        detail: &RunDetail,
        config: &RunnerConfig,
        end: SlotEnd,
    ) -> Slot {
        let now = Instant::now();
        let mut slot = Slot::new(key, dir, sanitised(detail), config, StateFile::default(), now);
        let (detail, boot) = (slot.detail.clone(), process::boot_id());
        let meta = MetaFile { detail, group: None, boot, lease: false, place: None };
        // Kept, so that it is not tried again after a restart of the agent.
        let _ = slot.dir.create().and_then(|()| slot.dir.write("meta.json", &meta));
        slot.finish_unstarted(end);
        slot
    }

    /// Finds an attempt of an earlier agent again. None when it never began, or its file is lost.
    pub(super) fn adopt(
        key: AttemptKey,
        dir: RunDir,
        config: &RunnerConfig,
        now: Instant,
    ) -> std::io::Result<Option<Slot>> {
        let Some(meta) = dir.find::<MetaFile>("meta.json")? else { return Ok(None) };
        let state: StateFile = dir.find("state.json")?.unwrap_or_default();
        let mut slot = Slot::new(key, dir, meta.detail, config, state, now);
        slot.tails.iter_mut().flatten().for_each(Tail::found_again);
        slot.this_boot = meta.boot == process::boot()?;
        if meta.place.is_some_and(|p| !p.is(slot.dir())) {
            // Whoever supervises these ranks belongs to the agent of the directory that this one was
            // copied from: they are not ours to watch or to stop.
            let record = slot.dir.find_record()?;
            let reported = slot.state.end.clone().or_else(|| record.end.map(|e| slot.verdict(&e)));
            let copy = || SlotEnd::unproven("the agent's directory is a copy");
            slot.finish_unstarted(reported.unwrap_or_else(copy));
            return Ok(Some(slot));
        }
        slot.group = meta.group;
        slot.leased = meta.lease;
        if let Some(end) = slot.state.end.clone() {
            slot.phase = Phase::Draining(end);
            return Ok(Some(slot));
        }
        if !slot.this_boot && slot.dir.find_record()?.end.is_none() {
            slot.finish_slot(SlotEnd::fault("the node was restarted"));
            return Ok(Some(slot));
        }
        // Ranks of an earlier agent run whether or not they fit the budget of this one.
        slot.permit = config.budget.take(slot.detail.slot.ranks).ok();
        if slot.state.stop.is_some() {
            // What is left of the grace goes on. Whether SIGTERM was sent is not known, and a
            // second one does no harm.
            let left = slot.state.kill.map_or(GRACE, |k| k.remaining(wall()));
            let kill_at = now.checked_add(left.to_std()).unwrap_or(now + GRACE.to_std());
            slot.stop = Some(Stopping { termed: false, adopted: true, kill_at, kills: 0 });
        }
        Ok(Some(slot))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// Whether changes in the directory will be reported by [`Slot::changed`].
    pub(super) fn set_watched(&mut self, watched: bool) {
        self.watched = watched && !self.elsewhere;
    }

    /// Something in the directory changed.
    pub(super) fn changed(&mut self) {
        self.look = true;
    }

    /// Whether a look may find anything.
    pub(super) fn may_have_news(&self, now: Instant, connected: bool) -> bool {
        self.look
            || (connected && matches!(self.phase, Phase::Draining(_)))
            || matches!(self.after, FinishCheck::Asked(_))
            || (!self.watched && !self.settled())
            || self.stop.as_ref().is_some_and(|s| self.active() && s.kill_at <= now)
    }

    /// Whether there is more to do at once, whatever wakes us.
    pub(super) fn unfinished(&self) -> bool {
        self.look
    }

    pub(super) fn phase_name(&self) -> &'static str {
        match self.phase {
            Phase::Starting => "starting",
            Phase::Running => "running",
            Phase::Draining(_) | Phase::Ended(_) => "ended",
        }
    }

    /// How long its ranks may go on without a server, unless that is for ever.
    pub(super) fn stop_after(&self) -> Option<Span> {
        match self.detail.on_partition {
            OnPartition::StopAfter(most) => Some(most),
            OnPartition::Continue => None,
        }
    }

    /// Between SIGTERM and SIGKILL for ranks that have no server.
    pub(super) fn lease_grace(&self) -> Span {
        lease_grace(self.detail.checkpoint.as_ref())
    }

    /// Whether its supervisor stops the ranks when their lease runs out.
    pub(super) fn leased(&self) -> bool {
        self.leased
    }

    /// Whether ranks may still be up.
    pub(super) fn active(&self) -> bool {
        matches!(self.phase, Phase::Starting | Phase::Running)
    }

    pub(super) fn stopping(&self) -> bool {
        self.stop.is_some()
    }

    /// Whether nothing here ever changes again by itself.
    pub(super) fn settled(&self) -> bool {
        matches!(self.phase, Phase::Ended(_)) && self.child.is_none() && !self.dirty
    }

    pub(super) fn due(&self) -> Option<Instant> {
        let kill = self.stop.as_ref().filter(|_| self.active()).map(|s| s.kill_at);
        self.progress_readers.iter().filter_map(ProgressReader::due).chain(kill).min()
    }

    pub(super) fn observed(&self) -> Observed {
        match &self.phase {
            Phase::Ended(end) => Observed::Ended(end.clone()),
            // Its output comes first; then its end is reported.
            _ => Observed::Running,
        }
    }

    /// How long ago its ranks ended, where that is known and its end may be reported.
    pub(super) fn ended_ago(&self) -> Option<Span> {
        let known = self.this_boot && matches!(self.phase, Phase::Ended(_));
        self.state.ended.filter(|_| known).map(|at| BootTime::now().since(at))
    }

    fn reach(&self) -> SignalTargets<'_> {
        SignalTargets {
            group: self.group.as_ref(),
            shim: self.shim.as_ref(),
            ranks: &self.ranks,
            contained: self.detail.run.image.is_some(),
        }
    }

    pub(super) fn stop(&mut self, why: RankStopCause, grace: Span, now: Instant) {
        if !self.active() {
            return;
        }
        let kill_at = now.checked_add(grace.to_std()).unwrap_or(now + GRACE.to_std());
        match &mut self.stop {
            // Asked again: only a shorter grace changes anything.
            Some(stop) if stop.kill_at <= kill_at => {}
            Some(stop) => {
                stop.kill_at = kill_at;
                self.state.kill = Some(KillBy::after(grace, wall()));
                self.save(true, now);
            }
            None => {
                self.stop = Some(Stopping { termed: false, adopted: false, kill_at, kills: 0 });
                self.state.stop = Some(why);
                self.state.stopped = Some(BootTime::now());
                self.state.kill = Some(KillBy::after(grace, wall()));
                self.save(true, now);
            }
        }
        self.drive_stop(now);
    }

    fn drive_stop(&mut self, now: Instant) {
        let Some(stop) = &mut self.stop else { return };
        let (term, kill) = (!stop.termed && !self.ranks.is_empty(), now >= stop.kill_at);
        if term {
            stop.termed = true;
        }
        if kill {
            stop.kills += 1;
            stop.kill_at = now + Duration::from_millis(500);
        }
        let kills = stop.kills;
        // Ranks that do not come up or go down hang in something; then the supervisor is ended
        // too. One whose ranks are gone may have much to remove, and gets the time for it.
        let up = |shim: &ProcessId| {
            self.ranks.iter().any(|rank| process::parent(*rank) == Some(shim.pid))
        };
        let stuck = || kills > 10 && self.shim.as_ref().is_some_and(up);
        let hangs = kill && (self.ranks.is_empty() || kills > 1200 || stuck());
        if term && !kill {
            self.reach().terminate();
        }
        if kill {
            self.reach().kill();
        }
        if hangs {
            // Its guard, where it has one, is our child: that ends with it, after what is left.
            if let Some(shim) = self.shim.as_ref().filter(|s| s.alive()) {
                process::signal(shim.pid, rustix::process::Signal::KILL);
            } else if let Some(child) = &mut self.child {
                let _ = child.kill();
            }
        }
    }

    pub(super) fn ask_checkpoint(&self) {
        let wanted = self.detail.checkpoint.as_ref().and_then(|c| c.request.signal.as_deref());
        let Some(name) = wanted.filter(|_| self.active()) else { return };
        match process::signal_named(name) {
            Some(signal) => {
                if self.reach().signal_handlers(signal) == 0 {
                    tracing::warn!(attempt = %self.key, signal = name,
                        "no rank handles the signal that asks for a checkpoint; it was not sent");
                }
            }
            None => tracing::warn!(attempt = %self.key, signal = name,
                "a checkpoint cannot be asked for by this signal; use SIGUSR1 or SIGUSR2"),
        }
    }

    pub(super) fn kill_ranks(&self) {
        self.reach().kill();
    }

    /// Remembers the processes of a slot with GPUs: of one that died the driver still talks.
    pub(super) fn remember_processes(&self, pids: &PidMap) {
        if self.active() && !self.detail.slot.gpus.is_empty() {
            pids.learn_all(self.reach().all_pids());
        }
    }

    /// What is left of the slot, reported once.
    pub(super) fn take_leftover(&mut self) -> Option<String> {
        self.leftover.take_if(|_| matches!(self.after, FinishCheck::Done))
    }

    pub(super) fn save(&mut self, now_please: bool, now: Instant) {
        let due = self.dirty && now.saturating_duration_since(self.saved) >= SAVE;
        if !(now_please || due) {
            return;
        }
        self.state.kept = self.tails.iter().map(|p| [p[0].kept(), p[1].kept()]).collect();
        self.state.progress = self.progress_readers.iter().map(ProgressReader::position).collect();
        self.state.done = self.progress_readers.iter().map(ProgressReader::newest_done).collect();
        if let Err(e) = self.dir.write("state.json", &self.state) {
            tracing::warn!(attempt = %self.key, error = %e, "cannot write state.json");
        }
        self.dirty = false;
        self.saved = now;
    }

    /// Removes every trace; hands back a supervisor that has not been reaped.
    pub(super) fn forget(self) -> Option<Child> {
        if let Some(group) = &self.group {
            group.remove();
        }
        self.dir.remove();
        self.child
    }

    pub(super) fn crash(self) -> Option<Child> {
        if self.active() {
            self.reach().kill();
            if let Some(shim) = self.shim.as_ref().filter(|s| s.alive()) {
                process::signal(shim.pid, rustix::process::Signal::KILL);
            }
            if let Some(group) = &self.group {
                group.kill_and_wait(Duration::from_secs(2));
            }
        }
        self.forget()
    }
}
