//! One attempt on this node, from its start to its last byte.

use super::finish::Finishing;
use super::hands::SlotGpus;
use super::pids::{About, PidMap};
use super::{Desk, GRACE, RankPermit, RunnerConfig, start};
use crate::cgroup::Group;
use crate::clock::wall;
use crate::isolation::SCRATCH;
use crate::lease::BootTime;
use crate::logs::Tail;
use crate::process::{self, ProcessId};
use crate::run_dir::{
    EndFile, FirstFailure, KillBy, MetaFile, Record, RunDir, StateFile, Why, sanitised,
};
use crate::secrets;
use crate::signals::Reach;
use crate::trash;
use crate::voice::{self, Voice};
use muster_link::messages::{LogChunk, RunDetail, Stream, VoiceReport};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use muster_model::spec::{OnPartition, lease_grace};
use muster_model::units::Span;
use std::path::Path;
use std::process::Child;
use std::time::{Duration, Instant};

/// How long a supervisor that nobody saw start may take to show itself.
const APPEAR: Duration = Duration::from_secs(2);
/// Progress is written down at most this often.
const SAVE: Duration = Duration::from_secs(3);

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    /// The supervisor is on its way.
    Starting,
    Running,
    /// Every rank is gone; output is still to be shipped.
    Draining(SlotEnd),
    /// Told to the server.
    Ended(SlotEnd),
}

/// Who is asked after the last process is gone, before the end is told.
#[derive(Debug)]
enum After {
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
    child: Option<Child>,
    ranks: Vec<i32>,
    phase: Phase,
    after: After,
    /// Something is left, and nobody has been told yet.
    leftover: Option<String>,
    /// Its supervisor died and cannot have cleaned up.
    orphaned: bool,
    stop: Option<Stopping>,
    tails: Vec<[Tail; 2]>,
    voices: Vec<Voice>,
    /// How much of the reports may still be read now that the ranks are gone.
    hears: usize,
    state: StateFile,
    dirty: bool,
    saved: Instant,
    permit: Option<RankPermit>,
    /// Changes in the directory are told to us.
    watched: bool,
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
        let voices = ranks().enumerate().map(|(i, r)| {
            let from = state.voice.get(i).copied().unwrap_or(0);
            let done = state.done.get(i).cloned().flatten();
            Voice::new(&dir.path(&format!("{r}.report")), from, done)
        });
        let voices = voices.collect();
        Slot {
            key,
            dir,
            detail,
            group: None,
            leased: false,
            since: now,
            this_boot: true,
            shim: None,
            child: None,
            ranks: Vec::new(),
            phase: Phase::Starting,
            after: if state.finished { After::Done } else { After::Due },
            leftover: state.leftover.clone(),
            orphaned: false,
            stop: None,
            tails,
            voices,
            hears: voice::LAST,
            state,
            dirty: false,
            saved: now,
            permit: None,
            watched: false,
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
                slot.permit = Some(permit);
            }
            Err(end) => slot.conclude_unstarted(end),
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
        slot.conclude_unstarted(end);
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
        slot.this_boot = meta.boot == process::boot_id();
        if meta.place.is_some_and(|p| !p.is(slot.dir())) {
            // Whoever supervises these ranks belongs to the agent of the directory that this one was
            // copied from: they are not ours to watch or to stop.
            let record = slot.dir.find_record()?;
            let told = slot.state.end.clone().or_else(|| record.end.map(|e| slot.verdict(&e)));
            let copy = || SlotEnd::unproven("the agent's directory is a copy");
            slot.conclude_unstarted(told.unwrap_or_else(copy));
            return Ok(Some(slot));
        }
        slot.group = meta.group;
        slot.leased = meta.lease;
        if let Some(end) = slot.state.end.clone() {
            slot.phase = Phase::Draining(end);
            return Ok(Some(slot));
        }
        if !slot.this_boot && slot.dir.find_record()?.end.is_none() {
            slot.conclude(SlotEnd::fault("the node was restarted"));
            return Ok(Some(slot));
        }
        // Ranks of an earlier agent run whether or not they fit the budget of this one.
        slot.permit = config.budget.take(slot.detail.slot.ranks).ok();
        if slot.state.stop.is_some() {
            // What is left of the grace goes on. Whether SIGTERM was sent is not known, and a
            // second one does no harm.
            let left = slot.state.kill.map_or(GRACE, |k| k.left(wall()));
            let kill_at = now.checked_add(left.to_std()).unwrap_or(now + GRACE.to_std());
            slot.stop = Some(Stopping { termed: false, adopted: true, kill_at, kills: 0 });
        }
        Ok(Some(slot))
    }

    pub(super) fn dir(&self) -> &Path {
        &self.dir.0
    }

    /// Whether changes in the directory will be told by [`Slot::changed`].
    pub(super) fn set_watched(&mut self, watched: bool) {
        self.watched = watched;
    }

    /// Something in the directory changed.
    pub(super) fn changed(&mut self) {
        self.look = true;
    }

    /// Whether a look may find anything.
    pub(super) fn worth_a_look(&self, now: Instant, connected: bool) -> bool {
        self.look
            || (connected && matches!(self.phase, Phase::Draining(_)))
            || matches!(self.after, After::Asked(_))
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
        self.voices.iter().filter_map(Voice::due).chain(kill).min()
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

    fn reach(&self) -> Reach<'_> {
        Reach {
            group: self.group.as_ref(),
            shim: self.shim.as_ref(),
            ranks: &self.ranks,
            contained: self.detail.run.image.is_some(),
        }
    }

    pub(super) fn stop(&mut self, why: Why, grace: Span, now: Instant) {
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
    pub(super) fn look_who_is_there(&self, pids: &PidMap) {
        if self.active() && !self.detail.slot.gpus.is_empty() {
            pids.learn_all(self.reach().everybody());
        }
    }

    /// What is left of the slot, told once.
    pub(super) fn take_leftover(&mut self) -> Option<String> {
        self.leftover.take_if(|_| matches!(self.after, After::Done))
    }

    pub(super) fn poll(&mut self, now: Instant, connected: bool, desk: &Desk) -> Option<Observed> {
        let changed = std::mem::take(&mut self.look);
        self.output |= changed || !self.watched;
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            self.child = None;
        }
        self.hear(now);
        let seen = if self.active() { self.watch_ranks(now, &desk.pids) } else { None };
        if matches!(self.phase, Phase::Draining(_)) {
            self.finish(desk, now);
        }
        self.save(false, now);
        self.look = self.voices.iter().any(Voice::behind);
        if let Phase::Draining(end) = &self.phase
            && connected
            && matches!(self.after, After::Done)
            && !self.voices.iter().any(Voice::owes)
            && self.tails.iter_mut().flatten().all(Tail::drained)
        {
            let end = end.clone();
            self.phase = Phase::Ended(end.clone());
            return Some(Observed::Ended(end));
        }
        seen
    }

    /// Reads what ranks report, a little at a look. Their end waits for what they said last, but for
    /// no more than so much of it.
    fn hear(&mut self, now: Instant) {
        let last = !self.active();
        let most = if last { voice::LOOK.min(self.hears) } else { voice::LOOK };
        let mut left = most;
        for voice in &mut self.voices {
            if let Err(e) = voice.read(now, last, &mut left) {
                tracing::warn!(attempt = %self.key, error = %e, "cannot read a report file");
            }
        }
        if last {
            self.hears -= most - left;
            if self.hears == 0 {
                self.voices.iter_mut().for_each(Voice::give_up);
            }
        }
    }

    /// Looks after ranks that may be up.
    fn watch_ranks(&mut self, now: Instant, pids: &PidMap) -> Option<Observed> {
        let mut record = self.dir.record();
        let mut gone = false;
        if record.end.is_none() && !self.supervised(&record, now) {
            // A supervisor writes before it goes, and it may have gone after our look.
            record = self.dir.record();
            gone = true;
        }
        if self.ranks.is_empty() && !record.ranks.is_empty() {
            let supervisor = record.supervisor.clone().flatten().map(|s| s.pid);
            let about = About {
                name: self.detail.name.clone(),
                project: self.detail.project.to_string(),
                gpus: self.detail.slot.gpus,
            };
            pids.add(self.key, supervisor, self.detail.slot.first_rank, &record.ranks, about);
            if let Some(why) = &record.open {
                tracing::warn!(attempt = %self.key, "the ranks are not isolated: {why}");
            }
        }
        if let Some(end) = record.end {
            self.ranks = record.ranks;
            self.add_leftover(end.cleanup.remains());
            if end.cleanup.killed > 0 {
                tracing::info!(attempt = %self.key, killed = end.cleanup.killed,
                    "processes outlived their ranks and were killed");
            }
            self.state.ended = end.at;
            let end = self.verdict(&end);
            self.close(end, true);
            // What a rank said last was written before this record, perhaps after our last look.
            self.hear(now);
            return None;
        }
        if gone {
            self.reach().kill();
            self.orphaned = true;
            let end = match (&self.state.stop, record.lease) {
                (Some(Why::Asked), _) => SlotEnd::Stopped,
                (Some(Why::Fault(reason)), _) => SlotEnd::told_fault(reason.clone()),
                (Some(Why::NoServer(most)), _) => SlotEnd::no_server(*most),
                // What a rank did before is why the others ended.
                _ if record.first.is_some() => {
                    self.verdict(&EndFile { first: record.first, ..EndFile::default() })
                }
                (_, Some(most)) => SlotEnd::no_server(most),
                _ => SlotEnd::fault("the supervisor of the ranks died"),
            };
            self.conclude(end);
            return None;
        }
        let mut seen = None;
        if self.ranks.is_empty() && !record.ranks.is_empty() {
            self.ranks = record.ranks;
            if self.phase == Phase::Starting {
                self.phase = Phase::Running;
                seen = Some(Observed::Running);
            }
        }
        if self.stop.is_none() && record.first.is_some() {
            let grace = self.detail.checkpoint.as_ref().and_then(|c| c.grace).unwrap_or(GRACE);
            self.stop(Why::RankFailed, grace, now);
        }
        self.drive_stop(now);
        seen
    }

    /// Whether somebody looks after the ranks.
    fn supervised(&mut self, record: &Record, now: Instant) -> bool {
        if self.shim.is_none() {
            match &record.supervisor {
                Some(Some(p)) => self.shim = Some(p.clone()),
                Some(None) => return false,
                None if self.child.is_some() => return true,
                None if now.saturating_duration_since(self.since) < APPEAR => return true,
                // Nobody came. Whoever writes the first line decides, so a supervisor that comes
                // later finds the attempt given up and starts nothing.
                None => {
                    let given_up = self.dir.claim(None);
                    return given_up.is_ok_and(|won| won.is_none());
                }
            }
        }
        // Processes without a control group are found by its guard alone, which is done in seconds.
        // Everything else is ended and removed here as well.
        let lost = self.group.is_none() && self.detail.run.image.is_none();
        (lost && self.child.is_some()) || self.shim.as_ref().is_some_and(ProcessId::alive)
    }

    /// What the supervisor's record means.
    fn verdict(&self, end: &EndFile) -> SlotEnd {
        if let Some(reason) = &end.unstartable {
            return SlotEnd::Unstartable { reason: reason.clone() };
        }
        if let Some(reason) = &end.fault {
            return SlotEnd::told_fault(reason.clone());
        }
        let failed = |f: &FirstFailure| {
            let note = match self.detail.limits.memory.filter(|_| f.oom) {
                Some(limit) => format!("out of memory: limit {limit}"),
                None if f.oom => "out of memory".into(),
                None => self.runtime_failure(f.end.code).unwrap_or_default(),
            };
            SlotEnd::Failed { exit: f.end.exit(note) }
        };
        // What ended before the order came ended by itself, whenever an agent looks.
        let both = end.at.zip(self.state.stopped).filter(|_| self.this_boot);
        let early = both.is_some_and(|(ended, stopped)| ended < stopped);
        match (&self.state.stop, &end.first) {
            // A failure that the stop did not cause still counts as one.
            (Some(Why::Asked), Some(f)) if early || self.before_stop(f) => failed(f),
            (Some(Why::Asked), None) if early && end.lease.is_none() => SlotEnd::Ok,
            (Some(Why::Asked), _) => SlotEnd::Stopped,
            (Some(Why::Fault(reason)), _) => SlotEnd::told_fault(reason.clone()),
            (Some(Why::NoServer(most)), _) => SlotEnd::no_server(*most),
            (_, Some(f)) => failed(f),
            (_, None) => match end.lease {
                Some(most) => SlotEnd::no_server(most),
                None => SlotEnd::Ok,
            },
        }
    }

    /// What a container runtime means by its exit codes. A program may use them as well.
    fn runtime_failure(&self, code: Option<i32>) -> Option<String> {
        let image = self.detail.run.image.as_ref()?;
        let what = match code? {
            125 => "podman could not run the container",
            126 => "the program in the container may not be run, or `workdir` is not there",
            127 => "the program was not found in the container",
            _ => return None,
        };
        Some(format!("perhaps {what} (image {image}); its error stream says more"))
    }

    /// Whether a rank had failed before the stop reached it: it did not die of our signals, and
    /// left its mark while others still ran and nothing had been sent.
    fn before_stop(&self, first: &FirstFailure) -> bool {
        let sent = self.stop.as_ref().is_some_and(|s| s.adopted || s.termed || s.kills > 0);
        !sent && first.end.signal.is_none()
    }

    /// An end of what never began: there is nobody to ask.
    fn conclude_unstarted(&mut self, end: SlotEnd) {
        self.after = After::Done;
        self.state.finished = true;
        self.conclude(end);
    }

    fn add_leftover(&mut self, more: Option<String>) {
        self.state.leftover = match (self.state.leftover.take(), more) {
            (Some(a), Some(b)) if a != b => Some(format!("{a}; {b}")),
            (a, b) => a.or(b),
        };
        self.leftover.clone_from(&self.state.leftover);
    }

    /// Asks those who have something to do or to say after the last process, and takes their
    /// answers into the end.
    fn finish(&mut self, desk: &Desk, now: Instant) {
        if matches!(self.after, After::Due) {
            desk.pids.end(self.key, now);
            let failed = matches!(self.state.end, Some(SlotEnd::Failed { .. }));
            let slot = SlotGpus {
                key: self.key,
                gpus: self.detail.slot.gpus,
                part: self.detail.slot.part.clone(),
                pids: desk.pids.of_attempt(self.key),
            };
            let bell = desk.bell.clone();
            let containers = if self.orphaned { self.dir.containers() } else { Vec::new() };
            let asked =
                Finishing::begin(&desk.hands, slot, failed, containers, move || bell.nudge());
            match asked {
                Some(finishing) => self.after = After::Asked(finishing),
                None => {
                    self.after = After::Done;
                    self.state.finished = true;
                    self.dirty = true;
                }
            }
        }
        let After::Asked(finishing) = &self.after else { return };
        let Some(finished) = finishing.over() else { return };
        self.after = After::Done;
        self.state.finished = true;
        self.add_leftover(finished.leftover);
        if let (Phase::Draining(SlotEnd::Failed { exit }), Some(note)) =
            (&mut self.phase, finished.note)
        {
            exit.note = if exit.note.is_empty() { note } else { format!("{}; {note}", exit.note) };
        }
        if let Phase::Draining(end) = &self.phase {
            self.state.end = Some(end.clone());
        }
        self.save(true, now);
    }

    /// Every rank is gone: gives everything back and remembers how it ended.
    fn conclude(&mut self, end: SlotEnd) {
        self.close(end, false);
    }

    fn close(&mut self, end: SlotEnd, recorded: bool) {
        if let Some(group) = self.group.take() {
            group.kill_and_wait(Duration::from_secs(2));
            group.remove();
        }
        secrets::remove(&self.dir.secrets());
        let scratch = self.dir.path(SCRATCH);
        let left = trash::discard(&self.dir.trash(), &scratch).err();
        self.add_leftover(
            left.map(|e| format!("scratch space {} could not be removed: {e}", scratch.display())),
        );
        self.permit = None;
        // A supervisor's record is found again after a restart and means the same, unless we
        // interfered; then, as when there is none, the end is written down at once.
        let again = recorded && self.state.stop.is_none();
        self.state.end = Some(end.clone());
        self.state.ended.get_or_insert_with(BootTime::now);
        self.phase = Phase::Draining(end);
        self.output = true;
        self.dirty = true;
        self.save(!again, Instant::now());
    }

    pub(super) fn logs(&mut self, left: &mut usize, out: &mut Vec<LogChunk>) {
        if !self.output {
            return;
        }
        let before = out.len();
        let first = self.detail.slot.first_rank;
        for (rank, pair) in (first..).zip(&mut self.tails) {
            for (tail, stream) in pair.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
                if *left == 0 {
                    return;
                }
                match tail.read() {
                    Ok(Some((offset, data))) => {
                        *left = left.saturating_sub(data.len());
                        out.push(LogChunk { key: self.key, rank, stream, offset, data });
                    }
                    Ok(None) => {}
                    Err(e) => {
                        tracing::warn!(attempt = %self.key, rank, error = %e, "cannot read output");
                    }
                }
            }
        }
        self.output = out.len() > before;
    }

    pub(super) fn voices(&mut self, now: Instant, mut tell: impl FnMut(u32, VoiceReport)) {
        let last = !self.active();
        let first = self.detail.slot.first_rank;
        for (rank, voice) in (first..).zip(&mut self.voices) {
            for report in voice.tell(now, last) {
                self.dirty = true;
                tell(rank, report);
            }
        }
    }

    pub(super) fn kept(&mut self, rank: u32, stream: usize, offset: u64) {
        let local =
            rank.checked_sub(self.detail.slot.first_rank).and_then(|r| usize::try_from(r).ok());
        if let Some(pair) = local.and_then(|l| self.tails.get_mut(l)) {
            pair[stream].keep(offset);
            self.dirty = true;
        }
    }

    pub(super) fn rewind(&mut self) {
        (self.look, self.output) = (true, true);
        self.tails.iter_mut().flatten().for_each(Tail::rewind);
        self.voices.iter_mut().for_each(Voice::rewind);
        if let Phase::Ended(end) = &self.phase
            && (self.voices.iter().any(Voice::owes)
                || !self.tails.iter_mut().flatten().all(Tail::drained))
        {
            // The end may not have arrived, and output and checkpoints belong before it.
            self.phase = Phase::Draining(end.clone());
        }
    }

    pub(super) fn save(&mut self, now_please: bool, now: Instant) {
        let due = self.dirty && now.saturating_duration_since(self.saved) >= SAVE;
        if !(now_please || due) {
            return;
        }
        self.state.kept = self.tails.iter().map(|p| [p[0].kept(), p[1].kept()]).collect();
        self.state.voice = self.voices.iter().map(Voice::position).collect();
        self.state.done = self.voices.iter().map(Voice::newest_done).collect();
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
