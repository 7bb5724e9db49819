//! The thread that indexes kept output.

use super::{Inner, NoOutputSearch, OutputSearchConfig, OutputSearchStatus, State, with_source};
use crate::brain::{Brain, clock};
use crate::logs::{LogError, LogKeeper, StreamId};
use muster_link::messages::Stream;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::ProjectName;
use muster_outsearch::{AttemptRef, IndexError, OutputIndex, Position, StreamKey, cut_lines};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::time::{Duration, Instant};
use tokio_util::sync::CancellationToken;

/// Bytes that are read and indexed in one step: what a crash costs, and what is in memory.
const STEP: usize = 256 << 10;
/// Steps of one stream before the others get their turn.
const STEPS: usize = 16;
/// How long streams that wait are indexed before changes are looked at again.
const TURN: Duration = Duration::from_secs(2);
/// How long a change is waited for.
const TICK: Duration = Duration::from_secs(1);
/// Changes are collected for so long.
const PAUSE: Duration = Duration::from_millis(250);
/// How often lines without an end are looked at: their attempt may be over.
const LOOK_AT_ENDS: Duration = Duration::from_secs(2);
/// Until a failure is tried again.
const TRY_AGAIN: Duration = Duration::from_secs(30);
/// Until a project whose index readers keep from taking lines is tried again.
const TRY_READERS_AGAIN: Duration = Duration::from_secs(2);
/// Streams that wait for their turn, after which output that is there already is looked at later.
const PENDING: usize = 10_000;
/// Streams whose last line has no end yet that are remembered.
const UNENDED: usize = 65_536;

/// Where looking at all kept output has come to.
enum Walk {
    /// From this attempt on.
    From(Option<AttemptKey>),
    Done,
}

/// A stream and its project, by which they are ordered: those of one file have their turns in a row.
type ProjectStream = (ProjectName, StreamId);

pub(super) struct Indexer<'a> {
    config: &'a OutputSearchConfig,
    keeper: &'a LogKeeper,
    brain: &'a Brain,
    shared: &'a Inner,
    stop: &'a CancellationToken,
    walk: Walk,
    pending: BTreeSet<ProjectStream>,
    unended: BTreeSet<ProjectStream>,
    /// The stream that had its turn last.
    served: Option<ProjectStream>,
    /// Projects whose files cannot be used now, until then.
    paused: BTreeMap<String, Instant>,
    /// Projects whose files readers keep from taking lines, until then.
    blocked: BTreeMap<String, Instant>,
}

/// Why a step was not made.
enum IndexerError {
    /// With the index of a project.
    Index(String, IndexError),
    Output(LogError),
}

/// What came of a stream's turn.
enum TurnOutcome {
    /// Everything that has come is indexed.
    Done,
    /// There is more.
    More,
    /// Its project's file takes nothing now.
    Blocked,
}

impl<'a> Indexer<'a> {
    pub(super) fn new(
        config: &'a OutputSearchConfig,
        keeper: &'a LogKeeper,
        brain: &'a Brain,
        shared: &'a Inner,
        stop: &'a CancellationToken,
    ) -> Indexer<'a> {
        let (pending, unended) = (BTreeSet::new(), BTreeSet::new());
        let (paused, blocked) = (BTreeMap::new(), BTreeMap::new());
        let (walk, served) = (Walk::From(None), None);
        Indexer {
            config,
            keeper,
            brain,
            shared,
            stop,
            walk,
            pending,
            unended,
            served,
            paused,
            blocked,
        }
    }

    /// Runs until the server stops.
    pub(super) fn run(mut self) {
        while !self.stop.is_cancelled() {
            match OutputIndex::open(&self.config.dir, self.config.bytes.0) {
                Ok(index) => {
                    if let Err(why) = self.follow_output(index) {
                        self.report_failure(&why);
                    }
                }
                Err(e) => self.report_failure(&with_source(&e)),
            }
        }
    }

    /// Says why there is no index now, and waits.
    fn report_failure(&mut self, why: &str) {
        let dir = self.config.dir.display();
        tracing::error!(%dir, error = why, "output is not indexed; trying again");
        *self.shared.state() = State::None(NoOutputSearch::Failed);
        (self.walk, self.pending, self.unended) =
            (Walk::From(None), BTreeSet::new(), BTreeSet::new());
        (self.served, self.paused, self.blocked) = (None, BTreeMap::new(), BTreeMap::new());
        let since = Instant::now();
        while since.elapsed() < TRY_AGAIN && !self.stop.is_cancelled() {
            std::thread::sleep(PAUSE);
        }
    }

    /// Indexes what comes, until the server stops or the index cannot be used.
    fn follow_output(&mut self, mut index: OutputIndex) -> Result<(), String> {
        let mut looked_at_ends = Instant::now();
        while !self.stop.is_cancelled() {
            let is_behind = !self.pending.is_empty()
                || !self.paused.is_empty()
                || matches!(self.walk, Walk::From(_));
            let status = OutputSearchStatus { is_behind, files: index.stats() };
            *self.shared.state() = State::Open(status);
            let changes = self.keeper.changes(if is_behind { Duration::ZERO } else { TICK });
            for id in changes.grown {
                // Nobody can read the output of a job that is not known.
                let Some(project) = self.project_of(id.0.job) else { continue };
                let of = (project, id);
                self.unended.remove(&of);
                // What grows until the end of its pause is found then.
                if !self.paused.contains_key(of.0.as_str()) {
                    self.pending.insert(of);
                }
            }
            let damaged = std::mem::take(&mut *self.shared.damaged());
            for project in &damaged {
                index.discard(project).map_err(|e| with_source(&e))?;
            }
            if changes.everything || !damaged.is_empty() || self.end_pauses() {
                self.walk = Walk::From(None);
            }
            if looked_at_ends.elapsed() >= LOOK_AT_ENDS {
                self.take_ended();
                looked_at_ends = Instant::now();
            }
            let done = self.walk_output(&mut index).and_then(|()| self.index_pending(&mut index));
            match done {
                Ok(()) => std::thread::sleep(PAUSE),
                Err(IndexerError::Index(project, e)) if e.is_damaged() => {
                    tracing::warn!(%project, error = with_source(&e), "a damaged index of output is made again");
                    index.discard(&project).map_err(|e| with_source(&e))?;
                    self.walk = Walk::From(None);
                }
                Err(IndexerError::Index(project, e)) => {
                    tracing::error!(%project, error = with_source(&e), "output of a project is not indexed; trying again");
                    // The others must not wait behind its streams: these are found when it is tried again.
                    self.pending.retain(|of| of.0.as_str() != project);
                    self.paused.insert(project, Instant::now() + TRY_AGAIN);
                }
                Err(IndexerError::Output(e)) => return Err(with_source(&e)),
            }
        }
        Ok(())
    }

    /// Projects whose pause is over are tried again. True when there are some that could not be used:
    /// what was left out of them has to be looked at.
    fn end_pauses(&mut self) -> bool {
        let (before, now) = (self.paused.len(), Instant::now());
        self.paused.retain(|_, until| *until > now);
        self.blocked.retain(|_, until| *until > now);
        self.paused.len() < before
    }

    fn takes_lines(&self, project: &str) -> bool {
        !self.paused.contains_key(project) && !self.blocked.contains_key(project)
    }

    /// Streams whose attempts are over: nothing follows their last line.
    fn take_ended(&mut self) {
        let (keeper, pending) = (self.keeper, &mut self.pending);
        self.unended.retain(|of| {
            let is_live = keeper.is_live(of.1.0);
            if !is_live {
                pending.insert(of.clone());
            }
            is_live
        });
    }

    /// Looks at all kept output, and at all that is indexed: what is new waits for its turn, what is
    /// gone leaves the index.
    fn walk_output(&mut self, index: &mut OutputIndex) -> Result<(), IndexerError> {
        let Walk::From(from) = self.walk else { return Ok(()) };
        // Every look lists all kept output: most of what was found goes first. Not all of it, since at
        // a busy site something always waits.
        let most = if from.is_some() { PENDING / 10 } else { PENDING };
        if self.pending.len() >= most {
            return Ok(());
        }
        let kept = self.keeper.attempts_here();
        if from.is_none() {
            self.remove_gone(index, &kept)?;
        }
        for key in kept.into_iter().filter(|key| from.is_none_or(|from| *key >= from)) {
            if self.pending.len() >= PENDING {
                self.walk = Walk::From(Some(key));
                return Ok(());
            }
            if self.stop.is_cancelled() {
                return Ok(());
            }
            self.compare_attempt(index, key)?;
        }
        self.walk = Walk::Done;
        Ok(())
    }

    /// What of an attempt is not indexed waits for its turn.
    fn compare_attempt(
        &mut self,
        index: &mut OutputIndex,
        key: AttemptKey,
    ) -> Result<(), IndexerError> {
        let Some(project) = self.project_of(key.job) else { return Ok(()) };
        if self.paused.contains_key(project.as_str()) {
            return Ok(());
        }
        let streams = match self.keeper.ranks_here(key) {
            Ok(streams) => streams,
            Err(e) => {
                report_unreadable(key, &e);
                return Ok(());
            }
        };
        for s in streams {
            let id = (key, s.rank, s.stream);
            let at = index
                .position(project.as_str(), &self.key_of(id))
                .map_err(|e| IndexerError::Index(project.to_string(), e))?;
            let of = (project.clone(), id);
            if at.map_or(0, |p| p.next) != s.end && !self.unended.contains(&of) {
                self.pending.insert(of);
            }
        }
        Ok(())
    }

    /// Takes out attempts whose output or whose job is gone, or of another life of the log.
    fn remove_gone(
        &self,
        index: &mut OutputIndex,
        kept: &[AttemptKey],
    ) -> Result<(), IndexerError> {
        let kept: BTreeSet<(Option<ProjectName>, AttemptRef)> =
            kept.iter().map(|k| (self.project_of(k.job), self.attempt_of(*k))).collect();
        for project in index.projects() {
            if self.paused.contains_key(&project) {
                continue;
            }
            let name: Option<ProjectName> = project.parse().ok();
            let is_gone =
                |attempt: &AttemptRef| name.is_none() || !kept.contains(&(name.clone(), *attempt));
            let removed = index.attempts(&project).and_then(|all| {
                let mut gone = all.into_iter().filter(is_gone);
                gone.try_for_each(|attempt| index.remove_attempt(&project, attempt))
            });
            removed.map_err(|e| IndexerError::Index(project.clone(), e))?;
        }
        Ok(())
    }

    /// Gives streams that wait their turn, one after the other, for a while.
    fn index_pending(&mut self, index: &mut OutputIndex) -> Result<(), IndexerError> {
        let until = Instant::now() + TURN;
        loop {
            let takes_lines = |project: &str| self.takes_lines(project);
            let next = next_turn(&self.pending, self.served.as_ref(), takes_lines);
            let Some(of) = next else { return Ok(()) };
            self.pending.remove(&of);
            self.served = Some(of.clone());
            let began = Instant::now();
            match self.index_stream(index, &of) {
                Ok(TurnOutcome::Done) => {}
                Ok(TurnOutcome::More) => {
                    self.pending.insert(of);
                }
                Ok(TurnOutcome::Blocked) => {
                    self.blocked.insert(of.0.to_string(), Instant::now() + TRY_READERS_AGAIN);
                    self.pending.insert(of);
                }
                Err(IndexerError::Output(e)) => report_unreadable(of.1.0, &e),
                Err(trouble) => {
                    self.pending.insert(of);
                    return Err(trouble);
                }
            }
            // At most half of one core's time.
            std::thread::sleep(began.elapsed().min(PAUSE));
            if Instant::now() >= until || self.stop.is_cancelled() {
                break;
            }
        }
        Ok(())
    }

    /// Indexes what has come of a stream.
    fn index_stream(
        &mut self,
        index: &mut OutputIndex,
        of: &ProjectStream,
    ) -> Result<TurnOutcome, IndexerError> {
        let (project, id) = (of.0.as_str(), of.1);
        let key = self.key_of(id);
        let failed = |e| IndexerError::Index(project.to_owned(), e);
        // Asked first: every byte of an attempt is kept before its end is in the log.
        let is_live = self.keeper.is_live(id.0);
        let end = self.keeper.end_here(id).map_err(IndexerError::Output)?;
        let mut at = index.position(project, &key).map_err(failed)?.unwrap_or_default();
        if at.next > end {
            // A file that was cut: what was indexed of it is not what is there.
            index.remove_stream(project, &key).map_err(failed)?;
            at = Position::default();
        }
        for _ in 0..STEPS {
            if self.stop.is_cancelled() {
                return Ok(TurnOutcome::More);
            }
            if !index.can_add(project).map_err(failed)? {
                return Ok(TurnOutcome::Blocked);
            }
            let gathered = self.read_from(id, at).map_err(IndexerError::Output)?;
            let Gathered { start, data, times, before_hole, at_end } = gathered;
            let is_last = before_hole || (at_end && !is_live);
            let (lines, next) = cut_lines(start, &data, &times, is_last);
            if next == at {
                // Nothing has come, or not yet the end of the line.
                if !data.is_empty() && self.unended.len() < UNENDED {
                    self.unended.insert(of.clone());
                }
                return Ok(TurnOutcome::Done);
            }
            index.add(project, &key, next, &lines, clock().0).map_err(failed)?;
            at = next;
        }
        Ok(TurnOutcome::More)
    }

    /// Reads what follows a position, up to the next hole.
    fn read_from(&self, id: StreamId, at: Position) -> Result<Gathered, LogError> {
        let (data, times) = (Vec::new(), Vec::new());
        let mut all = Gathered { start: at, data, times, before_hole: false, at_end: false };
        let mut next = at.next;
        while all.data.len() < STEP {
            let piece = self.keeper.read_here(id, next, STEP - all.data.len())?;
            if piece.dropped > 0 {
                if !all.data.is_empty() {
                    all.before_hole = true;
                    return Ok(all);
                }
                all.start.skip_to(piece.offset);
            }
            if piece.data.is_empty() {
                all.at_end = true;
                return Ok(all);
            }
            next = piece.next();
            all.data.extend_from_slice(&piece.data);
            all.times.extend(piece.times.iter().map(|(from, at)| (*from, at.map(|at| at.0))));
        }
        Ok(all)
    }

    fn project_of(&self, job: JobId) -> Option<ProjectName> {
        self.brain.read(|s| s.jobs.get(&job).map(|j| j.project.clone()))
    }

    fn attempt_of(&self, key: AttemptKey) -> AttemptRef {
        AttemptRef { life: self.keeper.generation_of(key), job: key.job.0, attempt: key.attempt }
    }

    fn key_of(&self, (key, rank, stream): StreamId) -> StreamKey {
        StreamKey { attempt: self.attempt_of(key), rank, is_stderr: stream == Stream::Stderr }
    }
}

/// The stream whose turn it is: that after the one that had it last, round and round, of the projects
/// that take lines now.
fn next_turn(
    pending: &BTreeSet<ProjectStream>,
    served: Option<&ProjectStream>,
    takes_lines: impl Fn(&str) -> bool,
) -> Option<ProjectStream> {
    let after: (Bound<&ProjectStream>, Bound<&ProjectStream>) =
        (served.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded);
    let mut round = pending.range::<ProjectStream, _>(after).chain(pending);
    round.find(|of| takes_lines(of.0.as_str())).cloned()
}

/// Bytes of a stream in a row.
struct Gathered {
    /// Where they begin.
    start: Position,
    data: Vec<u8>,
    /// From which offset on they came when, in order: milliseconds since 1970.
    times: Vec<(u64, Option<i64>)>,
    /// What follows them is not kept.
    before_hole: bool,
    /// Nothing has followed them yet.
    at_end: bool,
}

/// Output that cannot be read is left out until everything is looked at again.
fn report_unreadable(key: AttemptKey, e: &LogError) {
    tracing::warn!(attempt = %key, error = with_source(e), "stored output cannot be indexed");
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(project: &str, job: u64) -> ProjectStream {
        let key = AttemptKey { job: JobId(job), attempt: 1 };
        (project.parse().unwrap(), (key, 0, Stream::Stdout))
    }

    #[test]
    fn streams_take_turns_project_by_project() {
        let all = [stream("alpha", 1), stream("alpha", 3), stream("beta", 2)];
        // None of them is ever done.
        let pending = all.iter().cloned().collect();
        let mut served = None;
        for of in all.iter().chain(&all) {
            served = next_turn(&pending, served.as_ref(), |_| true);
            assert_eq!(served.as_ref(), Some(of));
        }
        for _ in 0..2 {
            served = next_turn(&pending, served.as_ref(), |project| project == "beta");
            assert_eq!(served, Some(stream("beta", 2)));
        }
        assert_eq!(next_turn(&pending, served.as_ref(), |_| false), None);
    }
}
