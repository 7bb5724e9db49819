//! From records of the log to counts.
//!
//! Each record is shown twice: [`SliCounter::before`] it is applied, when a job still is what it
//! was, and [`SliCounter::after`], when a node is what it became. Both only read. What is bad
//! because it took too long counts at the moment its time was up, not when it was over at last: so
//! a job that waits for a day does not look good until then ([`SliCounter::tail`]), and counts once.

use crate::fleet::Fleet;
use crate::ledger::{Count, Ledger, SERIES_MAX, Series};
use muster_model::FailureMode;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::hold::HeldBy;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{
    Attempt, CRASHED_WITHIN, Job, JobState, PastAttempt, Recovery, SlotEnd, SlotState, StopReason,
    Verdict,
};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::placement::Placement;
use muster_model::slo::{
    Attribution, Cause, IndicatorCount, Objective, Sli, all_work_counts, final_before,
};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What has to be looked up.
pub trait Facts {
    /// A job, if it is still known.
    fn job(&self, id: JobId) -> Option<&Job>;
    /// A node, if it is still known.
    fn node(&self, name: &NodeName) -> Option<&Node>;
    /// Is it known of a job that it crashes again and again?
    fn crash_loops(&self, id: JobId) -> bool;
    /// All jobs that have not ended.
    fn open_jobs(&self) -> Box<dyn Iterator<Item = &Job> + '_>;
}

/// What is counted, and what has to be remembered to count it.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct SliCounter {
    /// Good and all, by indicator and time.
    pub ledger: Ledger,
    /// What objectives ask for, each once.
    watch: Vec<Series>,
    /// When held jobs that wait were let go.
    released: BTreeMap<JobId, Time>,
    /// How long breakers of their own templates held jobs that come back from a failure.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    behind_breaker: BTreeMap<JobId, Span>,
    /// Attempts that nothing explained but that their job crashes again and again, and when they ended:
    /// they count as no interruption.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    crashed: BTreeMap<JobId, BTreeMap<u32, Time>>,
    fleet: Fleet,
}

/// When jobs that others wait for have ended; none while one has not.
type Ends = BTreeMap<(JobId, u32), Option<Time>>;

/// How an end counts: not at all, as good, or as bad and why.
fn judged(verdict: Verdict, attribution: Attribution) -> Option<Result<(), Cause>> {
    let any = attribution == Attribution::Any;
    match verdict {
        Verdict::Success => Some(Ok(())),
        Verdict::Infrastructure => Some(Err(Cause::Hardware)),
        Verdict::Platform => Some(Err(Cause::Platform)),
        // What nobody can explain is held against the platform, until it is explained.
        Verdict::Unknown => Some(Err(Cause::Unknown)),
        Verdict::Application if any => Some(Err(Cause::Application)),
        Verdict::Application => Some(Ok(())),
        Verdict::Operator | Verdict::Scheduler => None,
    }
}

/// Did Muster interrupt an attempt that ended so? The crashes of its own job explain it as long as nothing
/// better does.
fn is_interrupted(verdict: Verdict, crashed: bool) -> bool {
    verdict.is_interruption() && !(crashed && verdict == Verdict::Unknown)
}

/// What work was lost to.
fn lost_to(verdict: Verdict) -> Cause {
    match verdict {
        Verdict::Success | Verdict::Operator => Cause::Lost,
        Verdict::Infrastructure => Cause::Hardware,
        Verdict::Platform => Cause::Platform,
        Verdict::Application => Cause::Application,
        Verdict::Scheduler => Cause::Scheduler,
        Verdict::Unknown => Cause::Unknown,
    }
}

/// Did simulated work end only because its site did, so that it starts again with it? Simulated work
/// lives in the process of its nodes: that nothing outlives it is no failure.
fn ended_with_site(job: &Job, why: Option<&StopReason>) -> bool {
    job.spec.simulate.is_some()
        && matches!(why, Some(StopReason::SlotFailed { end, .. }) if end.is_agent_anew())
}

fn stopped_for(a: &Attempt) -> Option<&StopReason> {
    a.stop.as_ref().map(|s| &s.reason)
}

/// The recovery that a job is in, where hardware failed it: what the job did itself, what Muster ended
/// and what nothing explains says nothing of hardware.
fn recovery(job: &Job) -> Option<Recovery> {
    job.recovery.filter(|r| r.started_at.is_none() && r.is_from_hardware(job))
}

/// Since when a person, or the breaker of its own template, keeps a job from starting.
fn kept_since(job: &Job) -> Option<Time> {
    let own = |by: &HeldBy| match by {
        HeldBy::Somebody => true,
        HeldBy::Breaker { entity } => matches!(entity, Entity::Template(..)),
        HeldBy::LostRanks | HeldBy::Suspicion => false,
    };
    job.held.as_ref().filter(|h| own(&h.by))?.since
}

fn pool_of<'a>(facts: &'a dyn Facts, placement: &Placement) -> Option<&'a str> {
    facts.node(&placement.slots.first()?.node).map(Node::pool)
}

fn gpus(placement: &Placement) -> u64 {
    placement.slots.iter().map(|s| u64::from(s.gpus.len())).sum()
}

impl SliCounter {
    /// Counts for these objectives from now on. What was counted for others is dropped.
    pub fn follow<'a>(&mut self, objectives: impl IntoIterator<Item = &'a Objective>) {
        let of = |o: &Objective| Series { sli: o.sli, scope: o.scope.clone() };
        let watch: Vec<Series> = distinct(objectives.into_iter().map(of).take(SERIES_MAX));
        self.ledger.retain(|s| watch.binary_search(s).is_ok());
        self.watch = watch;
    }

    /// Takes up nodes that were there before anything was counted: after a snapshot of a version
    /// that did not count.
    pub fn seed<'a>(&mut self, at: Time, nodes: impl IntoIterator<Item = &'a Node>) {
        self.settle(at);
        nodes.into_iter().for_each(|n| self.fleet.set(n));
    }

    /// All nodes, as they count.
    #[must_use]
    pub fn fleet(&self) -> &Fleet {
        &self.fleet
    }

    /// What is counted.
    #[must_use]
    pub fn watched(&self) -> &[Series] {
        &self.watch
    }

    /// Reported from outside of the log, by the server or a service, at a moment. Only what an
    /// objective asks for is kept.
    pub fn counted(&mut self, reported: Time, c: &IndicatorCount) {
        let series = Series { sli: c.sli, scope: c.scope.clone() };
        if self.watch.contains(&series) {
            // A clock that was ahead does not make what was counted later than what reports it.
            let at = c.at.map_or(reported, |at| at.min(reported));
            let count = Count { good: c.good.min(c.total), total: c.total };
            self.ledger.note(at, &series, count, c.cause);
        }
    }

    /// A record, before it is applied.
    pub fn before(&mut self, r: &Record, facts: &dyn Facts) {
        if r.at.since(self.fleet.at()) >= Span::mins(1) {
            self.settle(r.at);
        }
        match &r.event {
            Event::JobReleased { job, .. } => {
                self.released.insert(*job, r.at);
                if let Some(job) = facts.job(*job) {
                    self.let_go(job, r.at);
                }
            }
            Event::FindingOpened { finding, .. }
                if finding.seen.kind == FailureMode::CRASH_LOOP =>
            {
                if let Entity::Job(id) = &finding.seen.entity {
                    self.crashes(*id, r.at, facts);
                }
            }
            Event::JobPlaced { key, placement } if key.attempt == 1 => {
                if let Some(job) = facts.job(key.job) {
                    let pool = pool_of(facts, placement);
                    let from = self.eligible(job, facts, &mut Ends::new()).unwrap_or(r.at);
                    note_wait(&mut self.ledger, &self.watch, job, pool, (from, r.at), true);
                }
                self.released.remove(&key.job);
            }
            Event::AttemptStarted { key, .. } => self.started(*key, r.at, facts),
            Event::AttemptEnded { key, verdict, .. } => self.ended(*key, *verdict, r.at, facts),
            Event::JobSucceeded { job } => self.over(*job, Some(Verdict::Success), r.at, facts),
            Event::JobFailed { job, .. } => {
                let last = facts.job(*job).and_then(|j| j.past.last()).map(|p| p.verdict);
                // A job that failed before it ran was the user's: what it waits for cannot come.
                self.over(*job, Some(last.unwrap_or(Verdict::Application)), r.at, facts);
            }
            Event::JobCancelled { job, .. } => self.over(*job, None, r.at, facts),
            Event::AttemptAttributed { key, verdict, .. } => {
                self.attributed(*key, *verdict, r.at, facts);
            }
            _ => {}
        }
    }

    /// A record, after it was applied.
    pub fn after(&mut self, r: &Record, facts: &dyn Facts) {
        let node = match &r.event {
            Event::NodeEnrolled { node, .. }
            | Event::NodeBack { node, .. }
            | Event::NodeInventoried { node, .. }
            | Event::NodeLost { node, .. }
            | Event::NodeCordoned { node, .. }
            | Event::NodeUncordoned { node, .. }
            | Event::DrainStarted { node, .. }
            | Event::NodeDrained { node }
            | Event::NodeReady { node, .. }
            | Event::NodeRetired { node }
            | Event::NodeReconciled { node }
            | Event::NodeStaged { node, .. }
            | Event::NodeMarked { node, .. }
            | Event::QualificationAsked { node, .. }
            | Event::QualificationEnded { node, .. }
            | Event::QualificationCancelled { node, .. } => node,
            _ => return,
        };
        if let Some(node) = facts.node(node) {
            self.settle(r.at);
            self.fleet.set(node);
        }
    }

    fn settle(&mut self, now: Time) {
        self.fleet.settle(&mut self.ledger, &self.watch, now);
    }

    /// What the log does not show the end of, but what counts already: nodes' time up to now, work
    /// that runs, and what has taken too long. To be looked at together with the ledger.
    #[must_use]
    pub fn tail(&self, now: Time, facts: &dyn Facts) -> Ledger {
        let mut out = Ledger::default();
        self.fleet.spread(&mut out, &self.watch, now);
        let (patience, mut known) = (self.patience(), Ends::new());
        for job in facts.open_jobs() {
            let placement = job.attempt.as_ref().map(|a| &a.placement);
            let pool = placement.and_then(|p| pool_of(facts, p));
            let long = patience.is_some_and(|p| now.since(job.submitted_at) > p);
            if long
                && job.attempts == 0
                && let Some(from) = self.eligible(job, facts, &mut known)
            {
                note_wait(&mut out, &self.watch, job, None, (from, now), false);
            }
            if let Some(rec) = recovery(job) {
                let span = (self.counts_from(job, &rec), kept_since(job).unwrap_or(now));
                note_time(&mut out, &self.watch, job, pool, span, false, RECOVERY);
            }
            if let Some(a) = &job.attempt {
                if a.started_at.is_none() {
                    note_time(&mut out, &self.watch, job, pool, (a.placed_at, now), false, START);
                }
                // As good as it looks so far.
                let good = (Verdict::Success, false);
                work(&mut out, &self.watch, job, a, pool, good, (now, now));
            }
        }
        out
    }

    /// From when on a job can be given its nodes; none while it is held or waits for others.
    fn eligible(&self, job: &Job, facts: &dyn Facts, known: &mut Ends) -> Option<Time> {
        if job.held.is_some() {
            return None;
        }
        let mut from = job.submitted_at.max(job.not_before);
        if let Some(at) = self.released.get(&job.id) {
            from = from.max(*at);
        }
        for d in job.depends.iter() {
            let end = known.entry((d.job, d.count)).or_insert_with(|| {
                let others =
                    (0..u64::from(d.count)).map(|n| facts.job(JobId(d.job.0.saturating_add(n))));
                // Whoever is forgotten ended long ago.
                let mut ends = others.flatten().map(|j| j.ended_at);
                ends.try_fold(Time(0), |last, end| end.map(|t| last.max(t)))
            });
            from = from.max((*end)?);
        }
        Some(from)
    }

    /// The shortest limit of what is counted about waiting.
    fn patience(&self) -> Option<Span> {
        let limits = self.watch.iter().filter_map(|s| match s.sli {
            Sli::QueueWait { under, .. } => Some(under),
            _ => None,
        });
        limits.min()
    }

    fn started(&mut self, key: AttemptKey, at: Time, facts: &dyn Facts) {
        let Some(job) = facts.job(key.job) else { return };
        let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) else { return };
        let pool = pool_of(facts, &a.placement);
        note_time(&mut self.ledger, &self.watch, job, pool, (a.placed_at, at), true, START);
        if let Some(r) = recovery(job).filter(|r| r.attempt < key.attempt) {
            let span = (self.counts_from(job, &r), at);
            note_time(&mut self.ledger, &self.watch, job, pool, span, true, RECOVERY);
        }
        self.behind_breaker.remove(&key.job);
    }

    /// From when on a recovery counts: without the time in which a person or the breaker of its own
    /// template held the job.
    fn counts_from(&self, job: &Job, rec: &Recovery) -> Time {
        rec.counts_from() + self.behind_breaker.get(&job.id).copied().unwrap_or_default()
    }

    /// A hold of a job ends. The recovery itself knows of those by a person.
    fn let_go(&mut self, job: &Job, at: Time) {
        let (Some(since), None) = (kept_since(job), job.held_since()) else { return };
        let Some(rec) = job.recovery.filter(|r| r.started_at.is_none()) else { return };
        let from = since.max(rec.drained_at.unwrap_or(rec.decided_at));
        let held = self.behind_breaker.entry(job.id).or_default();
        *held = Span(held.0.saturating_add(at.since(from).0));
    }

    /// It is found that a job crashes again and again: that explains its last attempts as far as nothing
    /// else does, and Muster did not interrupt them.
    fn crashes(&mut self, id: JobId, at: Time, facts: &dyn Facts) {
        let Some(job) = facts.job(id) else { return };
        let oldest = final_before(at);
        self.crashed.retain(|_, all| {
            all.retain(|_, ended| *ended >= oldest);
            !all.is_empty()
        });
        let quick = |p: &&PastAttempt| {
            p.verdict.is_interruption()
                && p.freed().since(p.started_at.unwrap_or(p.placed_at)) < CRASHED_WITHIN
        };
        for p in job.past.iter().rev().take_while(quick) {
            let known = self.crashed.get(&id).is_some_and(|all| all.contains_key(&p.no));
            let (Some(_), false) = (p.started_at, known) else { continue };
            if p.verdict != Verdict::Unknown || p.freed() < oldest {
                continue;
            }
            let pool = p.nodes.first().and_then(|n| facts.node(n)).map(Node::pool);
            if !ended_with_site(job, p.stopped_for.as_ref()) {
                for s in self.watch.iter().filter(|s| s.scope.admits(Some(&job.project), pool)) {
                    let Sli::Interruptions { cost } = s.sli else { continue };
                    self.ledger.recount(p.freed(), s, cost.0, Some(Cause::Unknown), None);
                }
            }
            self.crashed.entry(id).or_default().insert(p.no, p.freed());
        }
    }

    fn ended(&mut self, key: AttemptKey, verdict: Verdict, at: Time, facts: &dyn Facts) {
        let Some(job) = facts.job(key.job) else { return };
        let Some(a) = job.attempt.as_ref().filter(|a| a.no == key.attempt) else { return };
        let pool = pool_of(facts, &a.placement);
        if key.attempt == 1 && !ended_with_site(job, stopped_for(a)) {
            self.success(job, pool, true, verdict, at);
        }
        // What it held it held until its last rank ended, however late its end was settled.
        let to = a.freed_at.unwrap_or(at);
        // Another recovery began with this end.
        if job.recovery.is_some_and(|r| r.attempt == key.attempt) {
            self.behind_breaker.remove(&key.job);
        }
        let quick = to.since(a.started_at.unwrap_or(a.placed_at)) < CRASHED_WITHIN;
        let crashed = quick && facts.crash_loops(key.job);
        if crashed && verdict == Verdict::Unknown {
            self.crashed.entry(key.job).or_default().insert(key.attempt, to);
        }
        work(&mut self.ledger, &self.watch, job, a, pool, (verdict, crashed), (to, at));
    }

    /// A job is over; with no verdict, because somebody wanted it so.
    fn over(&mut self, id: JobId, verdict: Option<Verdict>, at: Time, facts: &dyn Facts) {
        let Some(job) = facts.job(id) else { return };
        let pool = job.past.last().and_then(|p| p.nodes.first());
        let pool = pool.and_then(|n| facts.node(n)).map(Node::pool);
        let with_site =
            job.past.last().is_some_and(|p| ended_with_site(job, p.stopped_for.as_ref()));
        if let Some(verdict) = verdict.filter(|_| !with_site) {
            self.success(job, pool, false, verdict, at);
        }
        // What it waited for did not come in time, if its time was up before it went.
        if job.attempts == 0
            && let Some(from) = self.eligible(job, facts, &mut Ends::new())
        {
            note_wait(&mut self.ledger, &self.watch, job, None, (from, at), false);
        }
        if let Some(rec) = recovery(job) {
            let span = (self.counts_from(job, &rec), kept_since(job).unwrap_or(at));
            note_time(&mut self.ledger, &self.watch, job, pool, span, false, RECOVERY);
        }
        self.released.remove(&id);
        self.behind_breaker.remove(&id);
    }

    fn success(&mut self, job: &Job, pool: Option<&str>, first: bool, verdict: Verdict, at: Time) {
        for s in &self.watch {
            let Sli::JobSuccess { attribution, first: f } = s.sli else { continue };
            if f != first || !s.scope.admits(Some(&job.project), pool) {
                continue;
            }
            match judged(verdict, attribution) {
                Some(Ok(())) => self.ledger.note(at, s, Count::good(1), None),
                Some(Err(cause)) => self.ledger.note(at, s, Count::bad_ones(1), Some(cause)),
                None => {}
            }
        }
    }

    /// Hardware turns out to have failed an attempt from which its job is back already: its recovery
    /// was not counted when it was over.
    fn recovered_late(&mut self, job: &Job, no: u32, pool: Option<&str>, reported: Time) {
        let Some(rec) = job.recovery_from(no) else { return };
        let Some(back) = rec.started_at.filter(|t| *t >= final_before(reported)) else { return };
        let span = (rec.counts_from(), back);
        note_time(&mut self.ledger, &self.watch, job, pool, span, true, RECOVERY);
    }

    /// More is known of whose doing an end was.
    fn attributed(&mut self, key: AttemptKey, verdict: Verdict, reported: Time, facts: &dyn Facts) {
        let Some(job) = facts.job(key.job) else { return };
        let Some(past) = job.past.iter().find(|p| p.no == key.attempt) else { return };
        if ended_with_site(job, past.stopped_for.as_ref()) {
            return;
        }
        let pool = past.nodes.first().and_then(|n| facts.node(n)).map(Node::pool);
        let last = job.past.last().is_some_and(|p| p.no == key.attempt);
        if verdict == Verdict::Infrastructure && past.verdict != verdict {
            self.recovered_late(job, key.attempt, pool, reported);
        }
        for s in self.watch.iter().filter(|s| s.scope.admits(Some(&job.project), pool)) {
            let at = match s.sli {
                Sli::JobSuccess { first: true, .. } => (key.attempt == 1).then_some(past.ended_at),
                Sli::JobSuccess { .. } => {
                    job.ended_at.filter(|_| last && job.state == JobState::Failed)
                }
                Sli::Interruptions { .. } => past.started_at.map(|_| past.freed()),
                _ => None,
            };
            // What is found out about a day that is final changes nothing of it.
            let Some(at) = at.filter(|at| *at >= final_before(reported)) else { continue };
            if let Sli::Interruptions { cost } = s.sli {
                let crashed = self.crashed.get(&key.job);
                let crashed = crashed.is_some_and(|all| all.contains_key(&key.attempt));
                let why = |v: Verdict| is_interrupted(v, crashed).then(|| lost_to(v));
                self.ledger.recount(at, s, cost.0, why(past.verdict), why(verdict));
            }
            let Sli::JobSuccess { attribution, .. } = s.sli else { continue };
            if let (Some(was), Some(is)) =
                (judged(past.verdict, attribution), judged(verdict, attribution))
            {
                self.ledger.amend(at, s, was.err(), is.err());
            }
        }
    }
}

/// The limit of an indicator, if it is the one that is meant.
type LimitSelector = fn(&Sli) -> Option<Span>;

const START: LimitSelector = |sli| match sli {
    Sli::Start { under } => Some(*under),
    _ => None,
};

const RECOVERY: LimitSelector = |sli| match sli {
    Sli::Recovery { under } => Some(*under),
    _ => None,
};

/// Something took from one moment to another. While it goes on it counts only once it is too late.
fn note_time(
    ledger: &mut Ledger,
    watch: &[Series],
    job: &Job,
    pool: Option<&str>,
    (from, to): (Time, Time),
    done: bool,
    which: LimitSelector,
) {
    for s in watch.iter().filter(|s| s.scope.admits(Some(&job.project), pool)) {
        let Some(under) = which(&s.sli) else { continue };
        if to.since(from) > under {
            ledger.note(from + under, s, Count::bad_ones(1), Some(Cause::Slow));
        } else if done {
            ledger.note(to, s, Count::good(1), None);
        }
    }
}

fn note_wait(
    ledger: &mut Ledger,
    watch: &[Series],
    job: &Job,
    pool: Option<&str>,
    (from, to): (Time, Time),
    placed: bool,
) {
    for s in watch.iter().filter(|s| s.scope.admits(Some(&job.project), pool)) {
        let Sli::QueueWait { under, class, tier } = s.sli else { continue };
        if class.is_some_and(|c| c != job.spec.priority) || tier.is_some_and(|t| t != job.spec.tier)
        {
            continue;
        }
        if to.since(from) > under {
            ledger.note(from + under, s, Count::bad_ones(1), Some(Cause::Room));
        } else if placed {
            ledger.note(to, s, Count::good(1), None);
        }
    }
}

/// What became of the time that an attempt held its nodes up to a moment, as reported at another.
fn work(
    ledger: &mut Ledger,
    watch: &[Series],
    job: &Job,
    a: &Attempt,
    pool: Option<&str>,
    (verdict, crashed): (Verdict, bool),
    (to, reported): (Time, Time),
) {
    let began = a.started_at.unwrap_or(to).min(to);
    let saved = job.checkpoint.as_ref().filter(|c| c.attempt == a.no).map(|c| c.at);
    // What is lost only because its site ended counts neither way.
    let lost = (!ended_with_site(job, stopped_for(a))).then(|| lost_to(verdict));
    let well = |s: &SlotState| matches!(s, SlotState::Ended { end: SlotEnd::Ok });
    let whole = a.freed_at.is_some() && a.slots.iter().all(well);
    let kept = if verdict == Verdict::Success && whole {
        // Where it was ordered to stop, its ranks had ended before.
        to
    } else if all_work_counts(Some(verdict), job.spec.is_service()) {
        // What comes after the order to stop is no work.
        a.stop.as_ref().map_or(to, |s| s.at).clamp(began, to)
    } else {
        // Days that are final stay as they were reported: the loss is one of those that are not.
        saved.unwrap_or(began).max(final_before(reported)).clamp(began, to)
    };
    let held = gpus(&a.placement);
    for s in watch.iter().filter(|s| s.scope.admits(Some(&job.project), pool)) {
        match s.sli {
            Sli::Goodput => {
                ledger.spread((a.placed_at, began), s, held, Err(Cause::Starting));
                ledger.spread((began, kept), s, held, Ok(()));
                if let Some(lost) = lost {
                    ledger.spread((kept, to), s, held, Err(lost));
                }
            }
            Sli::Interruptions { cost } => {
                ledger.spread((began, to), s, 1, Ok(()));
                let interrupted = is_interrupted(verdict, crashed) && a.started_at.is_some();
                if let Some(lost) = lost.filter(|_| interrupted) {
                    ledger.note(to, s, Count::bad_ones(cost.0), Some(lost));
                }
            }
            _ => {}
        }
    }
}

#[cfg(test)]
#[path = "sli_counter_tests.rs"]
mod tests;
