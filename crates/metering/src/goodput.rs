//! Where a job's time went. The parts of a life cover it exactly: every millisecond from its
//! submission to its end is one part, whatever the log, clocks and ranks reported. Time in which
//! the job had ended, before somebody had it run again, is no part of its life. It ends with its
//! last rank, however long its end takes to be settled.

use crate::allocated::Allocated;
use crate::history::{AttemptHistory, JobHistory, wanted_milli};
use crate::parts::{Part, Parts, millionths};
use muster_model::job::{Job, Verdict};
use muster_model::slo::all_work_counts;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// One attempt, with the wait before it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptParts {
    /// Counts from 1; one more than there were for a job that waits.
    pub no: u32,
    /// When the wait before it began.
    pub from: Time,
    /// When it ended, or now.
    pub until: Time,
    /// GPUs it held or waits for, in thousandths.
    pub milli: u64,
    /// Where its time went, in milliseconds.
    pub time: Parts,
    /// The same in GPU-microseconds, as far as GPUs were held or waited for.
    pub gpu: Parts,
    /// GPU-microseconds from its placement to the end of its ranks.
    pub allocated_gpu: u128,
    /// What its end is attributed to.
    pub verdict: Option<Verdict>,
    /// Checkpoints it wrote.
    pub checkpoints: u32,
    /// Its lost work is an estimate: it reported no checkpoint, or not all it reported is known.
    pub estimated: bool,
}

impl AttemptParts {
    /// Productive time of all while its GPUs were held, in millionths: its part in that of the job.
    #[must_use]
    pub fn goodput(&self) -> Option<u32> {
        productive(&self.time, &self.gpu, self.allocated_gpu).of_held
    }
}

/// Where the time of a job went.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Goodput {
    /// The figures begin here: its submission, or later when its first attempts are not known
    /// any more.
    pub since: Time,
    /// Its end, or now.
    pub until: Time,
    /// They begin with its submission.
    pub complete: bool,
    /// From the one to the other, but for the time in which it had ended.
    pub wall: Span,
    /// Where the time went, in milliseconds; together the whole.
    pub time: Parts,
    /// The same in GPU-microseconds.
    pub gpu: Parts,
    /// GPU-microseconds from placements to the ends of ranks.
    pub allocated_gpu: u128,
    /// Time with all ranks up.
    pub up: Span,
    /// Work of the attempt that goes on which is in no checkpoint yet.
    pub unsaved: Span,
    /// Productive time of all, waiting included: effective training time ratio, in millionths.
    pub ettr: Option<u32>,
    /// Productive time of all while GPUs were held, in millionths.
    pub goodput: Option<u32>,
    /// Attempts that were interrupted ([`Verdict::is_interruption`]): what the job did itself is none.
    pub interruptions: u32,
    /// Mean time between them, with all ranks up.
    pub mtbi: Option<Span>,
    /// Mean time from the first sign of a failure, but the job's own, until the work went on again.
    pub recover: Option<Span>,
    /// Attempts by whose doing their end was.
    pub verdicts: BTreeMap<&'static str, u32>,
    /// Lost work of some attempt is an estimate.
    pub estimated: bool,
    /// Each attempt.
    pub attempts: Vec<AttemptParts>,
}

impl Goodput {
    /// Work of some attempts that was thrown away, in GPU-microseconds: what the report of the job
    /// shows as lost for each of them.
    #[must_use]
    pub fn lost_by(&self, attempts: &BTreeSet<u32>) -> u128 {
        let theirs = self.attempts.iter().filter(|a| attempts.contains(&a.no));
        theirs.map(|a| a.gpu.get(Part::Lost)).sum()
    }
}

/// What was heard of an attempt beside the log.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct AttemptObservation {
    /// When its first step began, where that is known.
    pub working_at: Option<Time>,
    /// Stretches in which all its ranks were up and did nothing: in order, and none within
    /// another.
    pub idle: Vec<(Time, Time)>,
}

/// When the work of an attempt began: with its first step, by the log where that has it, else as it was
/// heard. A first step that comes after a checkpoint is not waited for: then, and where none is known, when
/// all ranks were up.
pub(crate) fn work_began(
    started: Time,
    logged: Option<Time>,
    heard: Option<&AttemptObservation>,
    saved: Option<Time>,
) -> Time {
    let heard = heard.and_then(|h| h.working_at).filter(|first| saved.is_none_or(|s| *first <= s));
    logged.or(heard).map_or(started, |first| first.max(started))
}

/// Did an attempt that ended so fail? What people and the scheduler stop has not.
pub(crate) fn failed(v: Option<Verdict>) -> bool {
    let failures =
        [Verdict::Application, Verdict::Infrastructure, Verdict::Platform, Verdict::Unknown];
    v.is_some_and(|v| failures.contains(&v))
}

/// Is the whole work of an attempt done? Then nothing was stopped or lost, whatever was ordered: its
/// ranks had ended well before the order reached them. Where that was heard when it was over, it
/// worked for as long as is known.
pub(crate) fn is_whole(v: Option<Verdict>) -> bool {
    v == Some(Verdict::Success)
}

/// Hands out the time from a moment on, each millisecond once.
struct TimeLedger {
    at: Time,
    end: Time,
    now: AttemptParts,
    held: Option<Allocated>,
    allocated_gpu: u128,
    /// Time that is nobody's.
    skipped: u64,
    /// Stretches in which a person kept it from starting.
    holds: Vec<(Time, Time)>,
}

impl TimeLedger {
    fn new(at: Time, end: Time, holds: Vec<(Time, Time)>) -> TimeLedger {
        let now = blank(0, at, 0);
        TimeLedger { at, end, now, held: None, allocated_gpu: 0, skipped: 0, holds }
    }

    /// Everything up to a moment is waiting, on the way back or for its turn, but for holds.
    fn wait(&mut self, to: Time, back: bool) {
        let holds = std::mem::take(&mut self.holds);
        for (from, until) in holds.iter().filter(|(from, _)| *from < to) {
            if *until > self.at {
                self.cut(*from, waits(back));
                self.cut((*until).min(to), Part::Held);
            }
        }
        self.holds = holds;
        self.cut(to, waits(back));
    }

    /// Everything up to a moment is no part at all.
    fn skip(&mut self, to: Time) {
        let to = to.min(self.end).max(self.at);
        self.skipped += to.since(self.at).0;
        self.at = to;
    }

    /// The job had ended in these stretches. What was waited before one is a part; whoever is run
    /// again by a person comes back from no failure.
    fn gaps(&mut self, gaps: &[(Time, Time)], hit: &mut Option<Time>) {
        for (from, to) in gaps {
            self.wait(*from, hit.is_some());
            self.skip(*to);
            *hit = None;
            if self.now.time.total() == 0 {
                self.now.from = self.at;
            }
        }
    }

    fn give(&mut self, part: Part, ms: u64) {
        let to = self.at + Span(ms);
        let gpu = match &self.held {
            Some(held) => held.gpu_time(self.at, to),
            None => u128::from(ms) * u128::from(self.now.milli),
        };
        if self.held.is_some() {
            self.allocated_gpu += gpu;
            self.now.allocated_gpu += gpu;
        }
        self.now.time.add(part, u128::from(ms));
        self.now.gpu.add(part, gpu);
        self.at = to;
    }

    /// Everything up to a moment is one part.
    fn cut(&mut self, to: Time, part: Part) {
        self.spend(to, &[], part);
    }

    /// Of the time up to a moment so much is this and that, in this order as far as there is
    /// any, and the rest is one part. Says how much that was.
    fn spend(&mut self, to: Time, some: &[(Part, Span)], rest: Part) -> Span {
        let to = to.min(self.end).max(self.at);
        let mut left = to.since(self.at).0;
        for (part, most) in some {
            let ms = left.min(most.0);
            self.give(*part, ms);
            left -= ms;
        }
        self.give(rest, left);
        Span(left)
    }
}

fn blank(no: u32, from: Time, milli: u64) -> AttemptParts {
    AttemptParts {
        no,
        from,
        until: from,
        milli,
        time: Parts::default(),
        gpu: Parts::default(),
        allocated_gpu: 0,
        verdict: None,
        checkpoints: 0,
        estimated: false,
    }
}

/// What a wait is: for the way back from a failure, or for its turn.
fn waits(back: bool) -> Part {
    if back { Part::Restarting } else { Part::Queued }
}

/// How much of a stretch these take.
fn overlap(idle: &[(Time, Time)], from: Time, to: Time) -> Span {
    Span(idle.iter().map(|(a, b)| (*b).min(to).since((*a).max(from)).0).sum())
}

/// Where the time of a job went until now. `life` is what was read of it in the log; what the
/// state knows beside it is added. `heard` is what is known of attempts beside the log.
#[must_use]
pub fn goodput(
    job: &Job,
    life: Option<&JobHistory>,
    heard: &BTreeMap<u32, AttemptObservation>,
    now: Time,
) -> Goodput {
    let life = life.cloned().unwrap_or_default().with(job);
    let all = &life.attempts;
    let complete = all.first().is_none_or(|a| a.no <= 1);
    let since = all.first().filter(|_| !complete).map_or(job.submitted_at, |a| a.placed_at);
    let settled = job.ended_at.filter(|_| job.state.is_final());
    let end = settled.unwrap_or(now);
    // With its last rank, however long its cause is looked for.
    let last = all.last().filter(|a| a.ended_at == settled).and_then(|a| a.freed_at);
    let end = last.map_or(end, |t| t.min(end)).max(since);
    let mut gaps = &life.gaps[..];
    let mut holds = life.holds.clone();
    holds.extend(life.held_at.map(|from| (from, end)));
    let mut purse = TimeLedger::new(since, end, holds);
    let mut out = Vec::new();
    let mut recovered = (0, 0u128);
    let (mut up, mut unsaved) = (Span(0), Span(0));
    let reports = all.iter().any(|a| a.checkpoints > 0);
    let serves = job.spec.is_service();
    // When the failure was that it comes back from, and whether that is called a recovery.
    let mut hit: Option<Time> = None;
    let mut recovers = false;
    for (n, a) in all.iter().enumerate() {
        let last = n + 1 == all.len();
        purse.now = blank(a.no, purse.at, a.held.milli());
        let before = gaps.partition_point(|(_, to)| *to <= a.placed_at);
        let (passed, left) = gaps.split_at(before);
        gaps = left;
        purse.gaps(passed, &mut hit);
        let fate = AttemptContext {
            back: hit.is_some(),
            over: over_with(a, last, job, &life),
            serves,
            heard: heard.get(&a.no),
        };
        let ran = lived(&mut purse, a, &fate);
        up = Span(up.0.saturating_add(ran.up.0));
        unsaved = ran.unsaved;
        if let (Some(at), Some(works)) = (hit.filter(|_| recovers), ran.works) {
            let held = overlap(&purse.holds, at, works);
            recovered.0 += u128::from(works.since(at).0.saturating_sub(held.0));
            recovered.1 += 1;
        }
        purse.now.verdict = a.verdict;
        purse.now.checkpoints = a.checkpoints;
        let lost = purse.now.time.get(Part::Lost) > 0;
        purse.now.estimated = lost && !serves && (!reports || a.partial);
        out.push(purse.now.clone());
        // One that never came up is part of the way back from what was before it.
        hit = match failed(a.verdict) {
            true => hit.filter(|_| ran.works.is_none()).or(a.hit_at()),
            false => None,
        };
        recovers = a.verdict.is_some_and(Verdict::is_interruption);
    }
    if purse.at < end {
        // It waits again, or never had an attempt.
        let no = all.last().map_or(1, |a| a.no.saturating_add(1));
        purse.now = blank(no, purse.at, wanted_milli(job));
        purse.gaps(gaps, &mut hit);
        purse.wait(end, hit.is_some());
        purse.now.until = end;
        out.push(purse.now.clone());
    }
    let mut g = summed(since, end, complete, purse.allocated_gpu, (up, unsaved), recovered, out);
    g.wall = Span(g.wall.0.saturating_sub(purse.skipped));
    g
}

/// Was the job over with this attempt, although it may have been run again later? It was not where it
/// went back to the queue and ended there.
fn over_with(a: &AttemptHistory, last: bool, job: &Job, life: &JobHistory) -> bool {
    if a.requeued {
        return false;
    }
    let gap = a.ended_at.is_some_and(|at| life.gaps.iter().any(|(from, _)| *from == at));
    // The state alone does not say what came after it, but when.
    let ended = job.state.is_final() && (!a.partial || a.ended_at == job.ended_at);
    gap || last && (ended || a.stops_job)
}

/// What stands around an attempt.
struct AttemptContext<'a> {
    /// It is the way back from a failure.
    back: bool,
    /// The job is over with it.
    over: bool,
    /// What it did counts, however it ended.
    serves: bool,
    heard: Option<&'a AttemptObservation>,
}

/// What an attempt adds to the sums.
struct AttemptSums {
    up: Span,
    /// When its work went on, if it did.
    works: Option<Time>,
    unsaved: Span,
}

fn lived(purse: &mut TimeLedger, a: &AttemptHistory, fate: &AttemptContext<'_>) -> AttemptSums {
    let until = a.ended_at.unwrap_or(purse.end);
    let freed = a.freed_at.map_or(until, |t| t.min(until));
    let starts = if fate.back { Part::Restarting } else { Part::Starting };
    purse.wait(a.placed_at, fate.back);
    purse.held = Some(a.held.clone());
    let whole = is_whole(a.verdict);
    let stop = a.stop_at.filter(|_| !whole).map_or(freed, |t| t.min(freed));
    let Some(started) = a.started_at else {
        purse.cut(stop, starts);
        leave(purse, (freed, until), fate.over);
        return AttemptSums { up: Span(0), works: None, unsaved: Span(0) };
    };
    purse.cut(started.min(freed), starts);
    let up = purse.at;
    let work = work_began(started, a.working_at, fate.heard, a.first_saved_at);
    let rest = fate.heard.map_or(&[][..], |h| &h.idle);
    purse.cut(work.min(stop), starts);
    let works = Some(purse.at);
    if let Some(saved) = a.saved_at.map(|s| s.min(freed)) {
        let idle = overlap(rest, purse.at, saved);
        purse.spend(
            saved,
            &[(Part::Checkpointing, a.blocked), (Part::Idle, idle)],
            Part::Productive,
        );
    }
    let runs = a.ended_at.is_none() && a.stop_at.is_none();
    let kept = runs || all_work_counts(a.verdict, fate.serves);
    let idle = overlap(rest, purse.at, stop);
    let part = if kept { Part::Productive } else { Part::Lost };
    let tail = purse.spend(stop, &[(Part::Idle, idle)], part);
    let known = a.lost_at.filter(|_| !whole).map_or(stop, |t| t.min(stop));
    let up = known.min(purse.end).max(up).since(up);
    leave(purse, (freed, until), fate.over);
    AttemptSums { up, works, unsaved: if runs && !fate.serves { tail } else { Span(0) } }
}

/// The ranks leave; then the end is settled, which is part of the way back where there is one.
fn leave(purse: &mut TimeLedger, (freed, settled): (Time, Time), over: bool) {
    let (until, part) = if over { (freed, Part::Lost) } else { (settled, Part::Restarting) };
    purse.cut(until, part);
    purse.now.until = purse.at;
    purse.skip(settled);
    purse.held = None;
}

/// Productive time, in millionths.
struct Productive {
    /// Of everything, waiting included.
    of_all: Option<u32>,
    /// Of the time while GPUs were held.
    of_held: Option<u32>,
}

/// Work without GPUs is weighed by its time.
fn productive(time: &Parts, gpu: &Parts, allocated_gpu: u128) -> Productive {
    let weighed = if gpu.total() > 0 { gpu } else { time };
    let free = weighed.get(Part::Queued) + weighed.get(Part::Held);
    let held = if gpu.total() > 0 { allocated_gpu } else { weighed.total() - free };
    let productive = weighed.get(Part::Productive);
    Productive {
        of_all: millionths(productive, weighed.total()),
        of_held: millionths(productive, held),
    }
}

fn summed(
    since: Time,
    until: Time,
    complete: bool,
    allocated_gpu: u128,
    (up, unsaved): (Span, Span),
    (back, returns): (u128, u128),
    attempts: Vec<AttemptParts>,
) -> Goodput {
    let (mut time, mut gpu) = (Parts::default(), Parts::default());
    let mut verdicts = BTreeMap::new();
    let mut interruptions = 0;
    for a in &attempts {
        time.add_all(&a.time);
        gpu.add_all(&a.gpu);
        if let Some(v) = a.verdict {
            *verdicts.entry(v.word()).or_default() += 1;
        }
        interruptions += u32::from(a.verdict.is_some_and(Verdict::is_interruption));
    }
    let productive = productive(&time, &gpu, allocated_gpu);
    let span = |ms: u128| Span(u64::try_from(ms).unwrap_or(u64::MAX));
    Goodput {
        since,
        until,
        complete,
        wall: until.since(since),
        allocated_gpu,
        up,
        unsaved,
        ettr: productive.of_all,
        goodput: productive.of_held,
        interruptions,
        mtbi: up.0.checked_div(u64::from(interruptions)).map(Span),
        recover: back.checked_div(returns).map(span),
        verdicts,
        estimated: attempts.iter().any(|a| a.estimated),
        time,
        gpu,
        attempts,
    }
}
