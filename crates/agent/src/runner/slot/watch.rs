//! Looks after the ranks of a slot: what they say and write, how they end, and what is given back
//! then.

use super::{FinishCheck, Phase, Slot};
use crate::isolation::scratch_of;
use crate::lease::BootTime;
use crate::logs::{Tail, cost};
use crate::process::{ProcessId, is_shortage};
use crate::progress::{self, ProgressReader};
use crate::rank_file;
use crate::run_dir::{EndFile, FirstFailure, RankStopCause, Record};
use crate::runner::finish::Finishing;
use crate::runner::pids::{PidMap, SlotLabels};
use crate::runner::tools::SlotGpus;
use crate::runner::{GRACE, RunnerShared};
use crate::secrets;
use crate::trash;
use muster_link::messages::{LogChunk, ProgressReport, Stream};
use muster_model::command::Observed;
use muster_model::job::SlotEnd;
use std::io;
use std::time::{Duration, Instant};

/// How long a supervisor that nobody saw start may take to show itself.
const APPEAR: Duration = Duration::from_secs(2);

impl Slot {
    pub(in crate::runner) fn poll(
        &mut self,
        now: Instant,
        connected: bool,
        shared: &RunnerShared,
    ) -> Option<Observed> {
        let changed = std::mem::take(&mut self.look);
        let news = changed || !self.watched;
        self.output |= news;
        if news {
            // What is shipped later still says when it was written, and does not fill the disk.
            self.tails.iter_mut().flatten().for_each(|tail| tail.look(now));
        }
        if let Some(child) = &mut self.child
            && !matches!(child.try_wait(), Ok(None))
        {
            self.child = None;
        }
        self.read_progress(now);
        let seen = if self.active() { self.watch_ranks(now, &shared.pids) } else { None };
        if matches!(self.phase, Phase::Draining(_)) {
            self.finish(shared, now);
        }
        self.save(false, now);
        self.look = self.progress_readers.iter().any(ProgressReader::behind);
        if let Phase::Draining(end) = &self.phase
            && connected
            && matches!(self.after, FinishCheck::Done)
            && !self.progress_readers.iter().any(ProgressReader::owes)
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
    fn read_progress(&mut self, now: Instant) {
        let last = !self.active();
        let most = if last { progress::LOOK.min(self.hears) } else { progress::LOOK };
        let mut left = most;
        let ended = matches!(self.phase, Phase::Ended(_));
        for (rank, progress) in (self.detail.slot.first_rank..).zip(&mut self.progress_readers) {
            if let Err(e) = progress.read(now, last, &mut left) {
                tracing::warn!(attempt = %self.key, error = %e, "cannot read a report file");
            }
            // How far it was read must be on the disk soon: what is before that may be gone.
            self.dirty |= progress.free();
            if let Some(note) = progress.take_note().filter(|_| !ended) {
                let output = self.dir.path(&format!("{rank}.err"));
                if let Err(e) = rank_file::append_line(&output, note) {
                    tracing::warn!(attempt = %self.key, error = %e, "cannot note what was not read");
                }
            }
        }
        if last {
            self.hears -= most - left;
            if self.hears == 0 {
                self.progress_readers.iter_mut().for_each(ProgressReader::give_up);
            }
        }
    }

    /// Looks after ranks that may be up.
    fn watch_ranks(&mut self, now: Instant, pids: &PidMap) -> Option<Observed> {
        let (record, gone) = match self.look_up(now) {
            Ok(found) => found,
            Err(e) => {
                tracing::warn!(attempt = %self.key, error = %e, "cannot look up the ranks now");
                self.drive_stop(now);
                return None;
            }
        };
        if self.ranks.is_empty() && !record.ranks.is_empty() {
            let supervisor = record.supervisor.clone().flatten().map(|s| s.pid);
            let about = SlotLabels {
                name: self.detail.name.clone(),
                project: self.detail.project.to_string(),
                gpus: self.detail.slot.gpus,
            };
            pids.add(self.key, supervisor, self.detail.slot.first_rank, &record.ranks, about);
            if let Some(why) = &record.open {
                tracing::warn!(attempt = %self.key, "only their user separates the ranks: {why}");
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
            self.read_progress(now);
            return None;
        }
        if gone {
            self.reach().kill();
            self.orphaned = true;
            let end = match (&self.state.stop, record.lease) {
                (Some(RankStopCause::Asked), _) => SlotEnd::Stopped,
                (Some(RankStopCause::Fault(reason)), _) => SlotEnd::reported_fault(reason.clone()),
                (Some(RankStopCause::NoServer(most)), _) => SlotEnd::no_server(*most),
                // What a rank did before is why the others ended.
                _ if record.first.is_some() => {
                    self.verdict(&EndFile { first: record.first, ..EndFile::default() })
                }
                (_, Some(most)) => SlotEnd::no_server(most),
                // It went with the agent that started it, or never had its order: that is not the
                // node's failure.
                _ if !self.met => SlotEnd::agent_anew(),
                _ => SlotEnd::fault("the supervisor of the ranks died"),
            };
            self.finish_slot(end);
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
            self.stop(RankStopCause::RankFailed, grace, now);
        }
        self.drive_stop(now);
        seen
    }

    /// What the supervisor's record says, and whether nobody will add to it.
    ///
    /// # Errors
    /// That cannot be read now: a later look sees it.
    fn look_up(&mut self, now: Instant) -> io::Result<(Record, bool)> {
        let record = self.record()?;
        if record.end.is_some() || self.supervised(&record, now) {
            return Ok((record, false));
        }
        // A supervisor writes before it goes, and it may have gone after our look.
        Ok((self.record()?, true))
    }

    fn record(&self) -> io::Result<Record> {
        match self.dir.find_record() {
            Err(e) if is_shortage(&e) => Err(e),
            found => Ok(found.unwrap_or_default()),
        }
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
                    return match self.dir.claim(None) {
                        Ok(won) => won.is_none(),
                        // Somebody may have come.
                        Err(e) => is_shortage(&e),
                    };
                }
            }
        }
        // Processes without a control group are found by its guard alone, which is done in seconds.
        // Everything else is ended and removed here as well.
        let lost = self.group.is_none() && self.detail.run.image.is_none();
        self.met |= self.shim.as_ref().is_some_and(ProcessId::alive);
        // One that cannot be looked up may well be there: its ranks are.
        let gone = self.shim.as_ref().is_none_or(ProcessId::gone);
        (lost && self.child.is_some()) || !gone
    }

    /// What the supervisor's record means.
    pub(super) fn verdict(&self, end: &EndFile) -> SlotEnd {
        if let Some(reason) = &end.unstartable {
            return SlotEnd::Unstartable { reason: reason.clone() };
        }
        if let Some(reason) = &end.fault {
            return SlotEnd::reported_fault(reason.clone());
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
            (Some(RankStopCause::Asked), Some(f)) if early || self.before_stop(f) => failed(f),
            (Some(RankStopCause::Asked), None) if early && end.lease.is_none() => SlotEnd::Ok,
            (Some(RankStopCause::Asked), _) => SlotEnd::Stopped,
            (Some(RankStopCause::Fault(reason)), _) => SlotEnd::reported_fault(reason.clone()),
            (Some(RankStopCause::NoServer(most)), _) => SlotEnd::no_server(*most),
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
        Some(format!("perhaps {what} (image {image}); its error stream has more"))
    }

    /// Whether a rank had failed before the stop reached it: it did not die of our signals, and
    /// left its mark while others still ran and nothing had been sent.
    fn before_stop(&self, first: &FirstFailure) -> bool {
        let sent = self.stop.as_ref().is_some_and(|s| s.adopted || s.termed || s.kills > 0);
        !sent && first.end.signal.is_none()
    }

    /// An end of what never began: there is nobody to ask.
    pub(super) fn finish_unstarted(&mut self, end: SlotEnd) {
        self.after = FinishCheck::Done;
        self.state.finished = true;
        self.finish_slot(end);
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
    fn finish(&mut self, shared: &RunnerShared, now: Instant) {
        if matches!(self.after, FinishCheck::Due) {
            shared.pids.end(self.key, now);
            let failed = matches!(self.state.end, Some(SlotEnd::Failed { .. }));
            let slot = SlotGpus {
                key: self.key,
                gpus: self.detail.slot.gpus,
                part: self.detail.slot.part.clone(),
                pids: shared.pids.of_attempt(self.key),
            };
            let wakeup = shared.wakeup.clone();
            let containers = if self.orphaned { self.dir.containers() } else { Vec::new() };
            let asked =
                Finishing::begin(&shared.runner_tools, slot, failed, containers, now, move || {
                    wakeup.nudge();
                });
            match asked {
                Some(finishing) => self.after = FinishCheck::Asked(finishing),
                None => {
                    self.after = FinishCheck::Done;
                    self.state.finished = true;
                    self.dirty = true;
                }
            }
        }
        let FinishCheck::Asked(finishing) = &self.after else { return };
        let Some(finished) = finishing.over(now) else { return };
        self.after = FinishCheck::Done;
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
    pub(super) fn finish_slot(&mut self, end: SlotEnd) {
        self.close(end, false);
    }

    fn close(&mut self, end: SlotEnd, recorded: bool) {
        if let Some(group) = self.group.take() {
            group.kill_and_wait(Duration::from_secs(2));
            group.remove();
        }
        secrets::remove(&self.dir.secrets());
        for scratch in scratch_of(&self.dir.0) {
            let left = trash::discard(&self.dir.trash(), &scratch).err();
            self.add_leftover(
                left.map(|e| {
                    format!("scratch space {} could not be removed: {e}", scratch.display())
                }),
            );
        }
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

    pub(in crate::runner) fn logs(
        &mut self,
        now: Instant,
        left: &mut usize,
        out: &mut Vec<LogChunk>,
    ) {
        if !self.output {
            return;
        }
        let mut more = false;
        let first = self.detail.slot.first_rank;
        for (rank, pair) in (first..).zip(&mut self.tails) {
            for (tail, stream) in pair.iter_mut().zip([Stream::Stdout, Stream::Stderr]) {
                if *left == 0 {
                    return;
                }
                match tail.read(now) {
                    Ok(Some((offset, data, age))) => {
                        more = true;
                        *left = left.saturating_sub(cost(&data));
                        out.push(LogChunk { key: self.key, rank, stream, offset, age, data });
                    }
                    Ok(None) => {}
                    Err(e) => {
                        tracing::warn!(attempt = %self.key, rank, error = %e, "cannot read output");
                        // What was passed over is still to be shipped as a gap.
                        more |= !tail.drained();
                    }
                }
            }
        }
        self.output = more;
    }

    pub(in crate::runner) fn progress_reports(
        &mut self,
        now: Instant,
        mut send: impl FnMut(u32, ProgressReport),
    ) {
        let last = !self.active();
        let first = self.detail.slot.first_rank;
        for (rank, progress) in (first..).zip(&mut self.progress_readers) {
            for report in progress.take_reports(now, last) {
                self.dirty = true;
                send(rank, report);
            }
        }
    }

    pub(in crate::runner) fn kept(&mut self, rank: u32, stream: usize, offset: u64) {
        let local =
            rank.checked_sub(self.detail.slot.first_rank).and_then(|r| usize::try_from(r).ok());
        if let Some(pair) = local.and_then(|l| self.tails.get_mut(l)) {
            pair[stream].keep(offset);
            self.dirty = true;
        }
    }

    pub(in crate::runner) fn rewind(&mut self) {
        (self.look, self.output) = (true, true);
        self.tails.iter_mut().flatten().for_each(Tail::rewind);
        self.progress_readers.iter_mut().for_each(ProgressReader::rewind);
        if let Phase::Ended(end) = &self.phase
            && (self.progress_readers.iter().any(ProgressReader::owes)
                || !self.tails.iter_mut().flatten().all(Tail::drained))
        {
            // The end may not have arrived, and output and checkpoints belong before it.
            self.phase = Phase::Draining(end.clone());
        }
    }
}
