//! One job that goes on, and the time of it that is already reported. Its time is given to hours
//! and days as soon as it is known what it went into: whether work counts is known with the next
//! checkpoint or with the end of its attempt. The parts are those of [`crate::goodput`].

use crate::allocated::Allocated;
use crate::days::Calendar;
use crate::goodput::{AttemptObservation, failed, is_whole, work_began};
use crate::history::{gang_milli, wanted_milli};
use crate::parts::Part;
use muster_model::hold::HeldBy;
use muster_model::job::{Checkpoint, Job, Verdict};
use muster_model::names::NodeName;
use muster_model::slo::all_work_counts;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Waits on the way back from one attempt that are kept apart.
const WAITS: usize = 256;

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// What a stretch of time without GPUs is given to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum WaitKind {
    Waits { barred: bool },
    OnHold,
    Back,
}

/// An active attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Attempt {
    pub(crate) no: u32,
    #[serde(flatten)]
    held: Allocated,
    placed_at: Time,
    started_at: Option<Time>,
    /// Its work is under way, and reported up to some moment.
    works: bool,
    /// When it made its first step by the log, where that came after the order to stop.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    stepped_at: Option<Time>,
    saved_at: Option<Time>,
    /// Time that checkpoints took and that found no room yet.
    owed: u64,
    /// Work in no checkpoint yet that was reported for days that are final.
    #[serde(default)]
    settled: u128,
    /// The first sign of what it is stopped for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    sign_at: Option<Time>,
    stop_at: Option<Time>,
    /// The last heartbeat of the lost node that it is stopped for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost_at: Option<Time>,
    stops_job: bool,
}

/// The stretch between the order to stop and the end of the attempt: what it was is known when it
/// is known whether the job goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Leaving {
    until: Time,
    #[serde(flatten)]
    held: Allocated,
    stops_job: bool,
}

/// How an attempt was counted that may turn out to have done its whole work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct LostWork {
    /// Stretches of lost work, with what it had then.
    pieces: Vec<(Time, Time, u64)>,
    /// What had been reported as work for days that are final, and when it was counted as lost.
    before: (Time, u128),
    /// The same of the stretch in which its ranks left, with what that was if nothing was stopped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    left: Vec<(Time, Time, u64, Part)>,
    /// A stretch of which it was not known that all its ranks were up.
    #[serde(default)]
    up: (Time, Time),
    /// Its work was taken to begin with the order to stop: when that was, how long the way back took, and
    /// when it began if nothing was stopped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    back: Option<(Time, u64, Time)>,
    /// Waits since then for its way back, with what it waited for, and was it barred.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waited: Vec<(Time, Time, u64, bool)>,
}

/// A job that has not ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ActiveJob {
    pub(crate) project: String,
    /// GPUs it waits for, in thousandths.
    pub(crate) wanted: u64,
    /// The same as it is written: what it wants after each placement, until it is resized.
    #[serde(default, skip_serializing_if = "is_zero")]
    written: u64,
    /// The same of one node, for a gang of one kind of node.
    pub(crate) unit: Option<u64>,
    /// Reported up to here.
    at: Time,
    /// The failure that it comes back from.
    hit: Option<Time>,
    held: bool,
    /// A person holds it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    on_hold: bool,
    /// For so many milliseconds since that failure.
    #[serde(default, skip_serializing_if = "is_zero")]
    paused: u64,
    /// It waits for other jobs.
    depends: bool,
    pub(crate) attempts: u32,
    /// How its last attempt ended, and when.
    pub(crate) last: Option<(u32, Verdict, Time)>,
    /// When that was placed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_placed: Option<Time>,
    /// The failure that it comes back from, should that end be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    last_hit: Option<Time>,
    pub(crate) attempt: Option<Attempt>,
    leaving: Option<Leaving>,
    /// Stretches of its wait, what for and was it barred, which are counted when it is known for how much.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    waited: Vec<(Time, Time, WaitKind, bool)>,
    /// It had ended, and waits since somebody had it run again: no failure brings it back.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    anew: bool,
    /// It is a service: what it did counts, however an attempt ends.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    serves: bool,
    /// How its last attempt was counted, while it may turn out that its work was whole.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    lost: Option<LostWork>,
}

impl ActiveJob {
    pub(crate) fn new(project: String, wanted: u64, unit: Option<u64>, at: Time) -> ActiveJob {
        ActiveJob {
            project,
            wanted,
            written: wanted,
            unit,
            at,
            hit: None,
            held: false,
            on_hold: false,
            paused: 0,
            depends: false,
            attempts: 0,
            last: None,
            last_placed: None,
            last_hit: None,
            attempt: None,
            leaving: None,
            waited: Vec::new(),
            anew: false,
            serves: false,
            lost: None,
        }
    }

    pub(crate) fn serving(mut self, serves: bool) -> ActiveJob {
        self.serves = serves;
        self
    }

    /// Held, by a person or not, and waiting for other jobs.
    pub(crate) fn barred(mut self, held: bool, on_hold: bool, depends: bool) -> ActiveJob {
        (self.held, self.on_hold, self.depends) = (held, on_hold, depends);
        self
    }

    /// A job as it stands when the reporting begins.
    pub(crate) fn of(job: &Job, at: Time) -> ActiveJob {
        let unit = match &*job.groups {
            [g] => Some(crate::history::node_milli(g)),
            _ => None,
        };
        let by_person = job.held.as_ref().is_some_and(|h| h.by == HeldBy::Somebody);
        let mut out = ActiveJob::new(job.project.to_string(), wanted_milli(job), unit, at)
            .barred(job.held.is_some(), by_person, !job.depends.is_empty())
            .serving(job.spec.is_service());
        out.written = gang_milli(&job.groups);
        out.attempts = job.attempts;
        let last = job.past.last();
        out.last = last.map(|p| (p.no, p.verdict, p.ended_at));
        out.last_placed = last.map(|p| p.placed_at);
        let sign = |no: u32| job.recovery.filter(|r| r.attempt == no).map(|r| r.fault_at);
        let hit = last.filter(|p| failed(Some(p.verdict)));
        out.hit = hit.map(|p| sign(p.no).unwrap_or_else(|| p.freed()));
        out.attempt = job.attempt.as_ref().map(|a| Attempt {
            no: a.no,
            held: Allocated::of_attempt(a),
            placed_at: a.placed_at,
            started_at: a.started_at,
            works: a.started_at.is_some(),
            stepped_at: None,
            saved_at: job.checkpoint.as_ref().filter(|c| c.attempt == a.no).map(|c| c.at),
            owed: 0,
            settled: 0,
            sign_at: sign(a.no),
            stop_at: a.stop.as_ref().map(|s| s.at),
            lost_at: crate::history::lost_at(a),
            stops_job: a.stop.as_ref().is_some_and(|s| crate::history::ends_job(&s.reason)),
        });
        if out.attempt.as_ref().is_some_and(|a| a.works) {
            out.hit = None;
        }
        out
    }

    /// Everything up to a moment went into this part of what it held.
    fn give(&mut self, c: &mut Calendar, to: Time, held: &Allocated, part: Part) {
        let to = to.max(self.at);
        for (from, until, milli) in held.pieces(self.at, to) {
            c.spread(from, until, |b, ms| {
                let amount = u128::from(ms) * u128::from(milli);
                b.work(&self.project).held.add(part, amount);
            });
        }
        self.at = to;
    }

    /// A stretch of its wait is this, without GPUs.
    fn give_wait(&self, c: &mut Calendar, (from, to): (Time, Time), milli: u64, what: WaitKind) {
        c.spread(from, to, |b, ms| {
            let w = b.work(&self.project);
            let amount = u128::from(ms) * u128::from(milli);
            match what {
                WaitKind::Back => w.back += amount,
                WaitKind::OnHold => w.on_hold += amount,
                WaitKind::Waits { barred } => {
                    w.queued += amount;
                    w.barred += if barred { amount } else { 0 };
                }
            }
        });
    }

    /// Work up to a moment, but for the stretches in which nothing was done.
    fn work(
        &mut self,
        c: &mut Calendar,
        to: Time,
        held: &Allocated,
        part: Part,
        heard: Option<&AttemptObservation>,
    ) {
        for (from, until) in heard.map_or(&[][..], |h| &h.idle) {
            if *until > self.at && *from < to {
                self.give(c, (*from).min(to), held, part);
                self.give(c, (*until).min(to), held, Part::Idle);
            }
        }
        self.give(c, to, held, part);
    }

    /// It waits up to a moment, for what it waits now.
    fn wait(&mut self, to: Time) {
        let what = match self.hit {
            _ if self.on_hold => WaitKind::OnHold,
            Some(_) => WaitKind::Back,
            None => WaitKind::Waits { barred: self.held || self.depends },
        };
        let to = to.max(self.at);
        if self.on_hold && self.hit.is_some() {
            self.paused += to.since(self.at).0;
        }
        if to > self.at {
            self.waited.push((self.at, to, what, self.held || self.depends));
        }
        self.at = to;
    }

    /// The same, and all of its wait is for so much: what it got, or what it wants.
    fn waits(&mut self, c: &mut Calendar, to: Time, milli: u64) {
        self.wait(to);
        for (from, to, what, barred) in std::mem::take(&mut self.waited) {
            if let (WaitKind::Back, Some(lost)) = (what, &mut self.lost)
                && lost.waited.len() < WAITS
            {
                lost.waited.push((from, to, milli, barred));
            }
            self.give_wait(c, (from, to), milli, what);
        }
    }

    fn starts(&self) -> Part {
        if self.hit.is_some() { Part::Restarting } else { Part::Starting }
    }

    /// It is held, or not any more.
    pub(crate) fn hold(&mut self, c: &mut Calendar, at: Time, held: bool, by_person: bool) {
        if self.attempt.is_none() && self.leaving.is_none() {
            match self.waited.len() {
                0..WAITS => self.wait(at),
                _ => self.waits(c, at, self.wanted),
            }
        }
        // Who holds it as well does not end another's hold.
        (self.held, self.on_hold) = (held, held && (by_person || self.on_hold));
    }

    /// It wants another number of nodes.
    pub(crate) fn resize(&mut self, nodes: u32) {
        if let Some(unit) = self.unit {
            self.wanted = unit * u64::from(nodes);
        }
    }

    pub(crate) fn place(&mut self, c: &mut Calendar, at: Time, no: u32, held: Allocated) {
        self.leave(c, Part::Restarting);
        self.waits(c, at, held.milli());
        (self.held, self.on_hold) = (false, false);
        if self.written > 0 {
            self.wanted = self.written;
        }
        self.lost = None;
        self.attempts = self.attempts.max(no);
        self.anew = false;
        self.attempt = Some(Attempt {
            no,
            held,
            placed_at: at,
            started_at: None,
            works: false,
            stepped_at: None,
            saved_at: None,
            owed: 0,
            settled: 0,
            sign_at: None,
            stop_at: None,
            lost_at: None,
            stops_job: false,
        });
    }

    pub(crate) fn start(&mut self, c: &mut Calendar, at: Time) {
        let starts = self.starts();
        let Some(a) = &mut self.attempt else { return };
        a.started_at = Some(at);
        let held = a.held.clone();
        self.give(c, at, &held, starts);
    }

    /// Its ranks on a node have ended.
    pub(crate) fn free(&mut self, node: &NodeName, at: Time) {
        if let Some(a) = &mut self.attempt {
            a.held.free(node, at);
        }
    }

    /// Its work went on from a moment, which is that of its first step where the log has one
    /// ([`work_began`]): until then it was starting. Says how long the way back took, where it was one.
    pub(crate) fn begin_work(&mut self, c: &mut Calendar, at: Time) -> Option<u64> {
        let starts = self.starts();
        let a = self.attempt.as_mut().filter(|a| a.started_at.is_some() && !a.works)?;
        a.works = true;
        let held = a.held.clone();
        self.give(c, at, &held, starts);
        // What was the job's own doing is no recovery.
        let recovers = self.last.is_some_and(|l| l.1.is_interruption());
        let hit = self.hit.take().filter(|_| recovers);
        let took = hit.map(|hit| self.at.since(hit).0.saturating_sub(self.paused));
        if let Some(took) = took {
            c.at(self.at, |b| {
                let w = b.work(&self.project);
                w.recovering += took;
                w.returns += 1;
            });
        }
        self.paused = 0;
        took
    }

    /// It made its first step. After the order to stop it leaves, and works no more unless its end says
    /// that nothing was stopped.
    pub(crate) fn progress(&mut self, c: &mut Calendar, at: Time) {
        let Some(a) = self.attempt.as_mut() else { return };
        if a.stop_at.is_some() {
            a.stepped_at.get_or_insert(at);
            return;
        }
        let at = a.held.freed_at().map_or(at, |t| t.min(at));
        self.begin_work(c, at);
    }

    pub(crate) fn save(
        &mut self,
        c: &mut Calendar,
        k: &Checkpoint,
        heard: Option<&AttemptObservation>,
    ) {
        let Some(a) = self.attempt.as_ref().filter(|a| a.no == k.attempt) else { return };
        let Some(started) = a.started_at else { return };
        let began = work_began(started, a.stepped_at, heard, Some(k.at));
        let stop = [a.stop_at, a.held.freed_at()].into_iter().flatten().min();
        self.begin_work(c, stop.map_or(began, |t| t.min(began)));
        let Some(a) = self.attempt.as_mut() else { return };
        // What is reported late, or twice by several ranks, must not count twice.
        let most = k.at.since(a.saved_at.unwrap_or(started)).0;
        a.owed = a.owed.saturating_add(k.blocked_ms.unwrap_or(0).min(most));
        a.saved_at = Some(a.saved_at.map_or(k.at, |t| t.max(k.at)));
        a.settled = 0;
        let blocked = a.owed.min(k.at.since(self.at).0);
        a.owed -= blocked;
        let held = a.held.clone();
        let to = k.at.max(self.at);
        self.work(c, to - Span(blocked), &held, Part::Productive, heard);
        self.give(c, to, &held, Part::Checkpointing);
    }

    /// It is ordered to stop, because of a node that was `lost` or of something else.
    pub(crate) fn stop(&mut self, at: Time, ends_job: bool, lost: bool, sign: Option<Time>) {
        if let Some(a) = &mut self.attempt {
            if a.stop_at.is_none() {
                a.stop_at = Some(at);
                a.lost_at = sign.filter(|_| lost);
                // What was wrong before it was placed did not hit it yet.
                a.sign_at = sign.map(|t| t.max(a.placed_at).min(at));
            }
            a.stops_job = ends_job;
        }
    }

    /// Its attempt is over, or is reported as far as it is.
    pub(crate) fn end(
        &mut self,
        c: &mut Calendar,
        at: Time,
        verdict: Option<Verdict>,
        heard: Option<&AttemptObservation>,
    ) {
        let starts = self.starts();
        let Some(a) = self.attempt.clone() else { return };
        // Its end may be settled later than its last rank was gone.
        let freed = a.held.freed_at().map_or(at, |t| t.min(at));
        let whole = is_whole(verdict);
        let stop = a.stop_at.filter(|_| !whole).map_or(freed, |t| t.min(freed));
        let mut counted = false;
        // If it turns out later that nothing was stopped.
        let mut lost = LostWork {
            pieces: Vec::new(),
            before: (stop, 0),
            left: Vec::new(),
            up: (freed, freed),
            back: None,
            waited: Vec::new(),
        };
        let mut left = (freed, starts);
        if let Some(started) = a.started_at {
            let began = work_began(started, a.stepped_at, heard, None);
            if !a.works {
                left.0 = began.min(freed);
            } else {
                left.0 = stop;
            }
            let took = self.begin_work(c, began.min(stop));
            lost.back = took.map(|took| (self.at, took, left.0.max(self.at)));
            counted = true;
            let runs = verdict.is_none() && a.stop_at.is_none();
            let kept = runs || all_work_counts(verdict, self.serves);
            let part = if kept { Part::Productive } else { Part::Lost };
            if !kept {
                lost.pieces = worked(&a.held, (self.at, stop), heard);
                lost.before.1 = a.settled;
            }
            self.work(c, stop, &a.held, part, heard);
            if !kept && a.settled > 0 {
                c.at(stop, |b| b.work(&self.project).lost_before += a.settled);
            }
            let known = a.lost_at.filter(|_| !whole).map_or(stop, |t| t.min(stop)).max(started);
            c.spread(started, known, |b, ms| b.work(&self.project).up += ms);
            lost.up = (known, freed);
        } else {
            self.give(c, stop, &a.held, starts);
        }
        let began = left.0.max(self.at);
        for (from, until, part) in [(self.at, began, left.1), (began, freed, Part::Productive)] {
            let pieces = a.held.pieces(from, until).into_iter();
            lost.left.extend(pieces.map(|(from, until, milli)| (from, until, milli, part)));
        }
        self.attempt = None;
        self.leaving = Some(Leaving { until: at, held: a.held, stops_job: a.stops_job });
        let Some(verdict) = verdict else { return };
        self.lost = (!whole).then_some(lost);
        self.last = Some((a.no, verdict, at));
        self.last_placed = Some(a.placed_at);
        if counted || self.hit.is_none() {
            self.paused = 0;
        }
        // One that never came up is part of the way back from what was before it.
        self.last_hit = self.hit.filter(|_| !counted).or(a.sign_at).or(Some(stop));
        self.hit = self.last_hit.filter(|_| failed(Some(verdict)));
        c.at(at, |b| {
            if let Some(n) = b.work(&self.project).interrupted.of(verdict) {
                *n += 1;
            }
        });
    }

    /// What came between the order to stop and the end of the attempt.
    fn leave(&mut self, c: &mut Calendar, part: Part) {
        if let Some(l) = self.leaving.take() {
            self.give(c, l.until, &l.held, part);
        }
    }

    /// It goes back to the queue.
    pub(crate) fn requeue(&mut self, c: &mut Calendar) {
        self.leave(c, Part::Restarting);
    }

    /// It is over.
    pub(crate) fn over(&mut self, c: &mut Calendar, at: Time) {
        self.leave(c, Part::Lost);
        self.waits(c, at, self.wanted);
        // With it ends the hold, whoever has it run again.
        (self.held, self.on_hold) = (false, false);
        // Nothing that is heard from now on changes what became of it.
        self.lost = None;
    }

    /// It was over, and somebody has it run again: the time between is nobody's, and it comes back
    /// from no failure.
    pub(crate) fn again(&mut self, at: Time) {
        self.at = self.at.max(at);
        (self.hit, self.paused, self.anew) = (None, 0, true);
    }

    /// Days before a moment are final: what was reported of them as it looked stays so.
    pub(crate) fn finish(
        &mut self,
        c: &mut Calendar,
        before: Time,
        heard: Option<&AttemptObservation>,
    ) {
        if before <= self.at || self.leaving.is_some() {
            return;
        }
        let starts = self.starts();
        let Some(a) = self.attempt.clone() else {
            self.waits(c, before, self.wanted);
            return;
        };
        match (a.started_at, a.stop_at) {
            // It was reported as lost since then, and its end will say the same.
            (_, Some(_)) => {}
            (None, None) => self.give(c, before, &a.held, starts),
            (Some(started), None) => {
                self.begin_work(c, work_began(started, None, heard, None).min(before));
                let from = self.at;
                self.work(c, before, &a.held, Part::Productive, heard);
                let idle = heard.map_or(&[][..], |h| &h.idle);
                let idle =
                    idle.iter().map(|(f, t)| a.held.gpu_time((*f).max(from), (*t).min(before)));
                let worked = a.held.gpu_time(from, before).saturating_sub(idle.sum());
                if let Some(a) = &mut self.attempt {
                    a.settled += worked;
                }
            }
        }
    }

    /// The same as far as it is now, with what may still change reported as it looks now.
    pub(crate) fn until_now(
        &self,
        c: &mut Calendar,
        now: Time,
        heard: Option<&AttemptObservation>,
    ) {
        let mut g = self.clone();
        if g.attempt.is_some() {
            g.end(c, now, None, heard);
        }
        let ends = g.leaving.as_ref().is_some_and(|l| l.stops_job);
        g.leave(c, if ends { Part::Lost } else { Part::Restarting });
        g.waits(c, now, g.wanted);
    }

    /// The work of its last attempt turned out to be whole: nothing was lost, its ranks did not leave, and
    /// the job does not come back from it. Days before `open` are final, and keep what was said about them.
    pub(crate) fn was_whole(&mut self, c: &mut Calendar, open: Time) {
        let Some(lost) = self.lost.take() else { return };
        self.leave(c, Part::Restarting);
        let work = lost.pieces.into_iter();
        let work = work.map(|(from, to, milli)| (from, to, milli, Part::Lost, Part::Productive));
        let left = lost.left.into_iter();
        let left = left.map(|(from, to, milli, is)| (from, to, milli, Part::Restarting, is));
        for (from, to, milli, was, is) in work.chain(left) {
            c.spread(from.max(open), to, |b, ms| {
                let amount = u128::from(ms) * u128::from(milli);
                b.work(&self.project).held.shift(was, is, amount);
            });
        }
        let (from, to) = lost.up;
        c.spread(from.max(open), to, |b, ms| b.work(&self.project).up += ms);
        if let Some((at, took, began)) = lost.back.filter(|(at, ..)| *at >= open) {
            c.at(at, |b| {
                let w = b.work(&self.project);
                w.recovering = w.recovering.saturating_sub(took);
                w.returns = w.returns.saturating_sub(1);
            });
            c.at(began, |b| {
                let w = b.work(&self.project);
                w.recovering += took + began.since(at).0;
                w.returns += 1;
            });
        }
        for (from, to, milli, barred) in lost.waited {
            c.spread(from.max(open), to, |b, ms| {
                let amount = u128::from(ms) * u128::from(milli);
                let w = b.work(&self.project);
                w.back = w.back.saturating_sub(amount);
                w.queued += amount;
                w.barred += if barred { amount } else { 0 };
            });
        }
        let (at, settled) = lost.before;
        if settled > 0 && at >= open {
            c.at(at, |b| {
                let w = b.work(&self.project);
                w.lost_before = w.lost_before.saturating_sub(settled);
            });
        }
    }

    /// An attempt was judged anew.
    pub(crate) fn evaluate(&mut self, no: u32, verdict: Verdict, sign: Option<Time>) {
        if let Some(last) = self.last.as_mut().filter(|l| l.0 == no) {
            last.1 = verdict;
            if self.attempt.is_none() && !self.anew {
                let hit = self.hit.or(self.last_hit).unwrap_or(last.2);
                let sign = sign.map_or(hit, |t| self.last_placed.map_or(t, |p| t.max(p)));
                self.hit = failed(Some(verdict)).then(|| hit.min(sign));
            }
        }
    }
}

/// Stretches of work of something that had so much, without those in which nothing was done.
fn worked(
    held: &Allocated,
    (from, to): (Time, Time),
    heard: Option<&AttemptObservation>,
) -> Vec<(Time, Time, u64)> {
    let (mut out, mut at) = (Vec::new(), from);
    for (idle, until) in heard.map_or(&[][..], |h| &h.idle) {
        if *until > at && *idle < to {
            out.extend(held.pieces(at, (*idle).min(to)));
            at = (*until).min(to).max(at);
        }
    }
    out.extend(held.pieces(at, to));
    out
}
