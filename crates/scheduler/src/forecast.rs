//! When a waiting job starts, as a range. The late end are the time limits as written. The early end are the durations
//! seen: the scheduler itself, on copies of the cluster in which jobs end when past ones of their user did.
//!
//! All arithmetic is on integers and depends on nothing but what is given, so the same state gives the same answer.
//! Work is bounded: a course that was followed long enough without a start says that the job starts no earlier.

use crate::cluster::{Cluster, Running};
use crate::history::History;
use crate::plan::{Start, Victim, plan};
use crate::preempt::preemptible_at;
use crate::work::{ENDLESS_MS, FAR, Work};
use muster_model::distinct;
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};
use std::sync::Arc;

/// So many jobs must have ended before anything is said of how long their like last.
pub const ENOUGH: usize = 8;
/// Parts of its limit that a duration is counted in.
const WHOLE: u32 = 1_000_000;
/// Plans at one moment of a course.
const ROUNDS: usize = 8;
/// Waiting jobs that are looked at, the first in their order; see [`Cluster::copy_for`].
pub const LOOKED_AT: usize = 2000;
/// Most plans that are made to find the first moment of a later preemption; what is found is not too early.
const HALVES: usize = 6;
/// The one course by limits may be so many times as long as one by durations, and twice as long as all of them.
const LONGER: usize = 8;

/// How long past jobs ran, as parts of their limits in order of size: by user, by group of users (their project), and
/// in all. Those without a limit are kept apart (`true`).
#[derive(Debug, Clone)]
pub struct Durations<U, G> {
    users: Vec<((U, bool), Vec<u32>)>,
    groups: Vec<((G, bool), Vec<u32>)>,
    all: Vec<(bool, Vec<u32>)>,
}

/// The parts of each key, in order.
fn lists<K: Ord + Clone>(mut parts: Vec<(K, u32)>) -> Vec<(K, Vec<u32>)> {
    parts.sort_unstable();
    let of_one = parts.chunk_by(|a, b| a.0 == b.0);
    of_one.map(|of| (of[0].0.clone(), of.iter().map(|(_, part)| *part).collect())).collect()
}

fn list<'a, K: Ord>(lists: &'a [(K, Vec<u32>)], key: &K) -> Option<&'a Vec<u32>> {
    let at = lists.binary_search_by(|(k, _)| k.cmp(key)).ok()?;
    Some(&lists[at].1)
}

fn parts(ms: u64, of: u64) -> u32 {
    let parts = u128::from(ms) * u128::from(WHOLE) / u128::from(of.max(1));
    u32::try_from(parts).unwrap_or(WHOLE).min(WHOLE)
}

impl<U: Ord + Clone, G: Ord + Clone> Durations<U, G> {
    /// All that is remembered; `group` says whose jobs speak for a user who has too few.
    #[must_use]
    pub fn new(history: &History<U>, group: impl Fn(&U) -> G) -> Self {
        let (mut users, mut groups, mut all) = (Vec::new(), Vec::new(), Vec::new());
        for (user, limit, run) in history.past() {
            let (part, endless) = (parts(run, limit), limit == ENDLESS_MS);
            users.push(((user.clone(), endless), part));
            groups.push(((group(user), endless), part));
            all.push((endless, part));
        }
        Durations { users: lists(users), groups: lists(groups), all: lists(all) }
    }

    /// How many jobs with a time limit are remembered.
    #[must_use]
    pub fn seen(&self) -> usize {
        list(&self.all, &false).map_or(0, Vec::len)
    }

    /// How long a job lasts in all that has run for `ran`: as long as one of those that ran longer, or somewhere
    /// between two of them. `draw`, anywhere in its range, says which. None when too few were seen.
    #[must_use]
    pub fn length(&self, (user, group): (U, G), w: &Work, ran: Span, draw: u64) -> Option<Span> {
        let limit = w.limit_ms();
        let endless = limit == ENDLESS_MS;
        let enough = |l: &&Vec<u32>| l.len() >= ENOUGH;
        let of_user = list(&self.users, &(user, endless)).filter(enough);
        let of_group = || list(&self.groups, &(group, endless)).filter(enough);
        let of_all = || list(&self.all, &endless).filter(enough);
        let past = of_user.or_else(of_group).or_else(of_all)?;
        let so_far = parts(ran.0, limit);
        let longer = &past[past.partition_point(|p| *p <= so_far)..];
        // One more runs to its limit: that it ran longer than all before it says nothing else.
        let place = u128::from(draw) * (longer.len() as u128 + 1);
        let i = usize::try_from(place >> 64).unwrap_or(usize::MAX);
        let within = (place >> 32) & u128::from(u32::MAX);
        let low = i.checked_sub(1).and_then(|i| longer.get(i)).copied().unwrap_or(so_far);
        let high = longer.get(i).copied().unwrap_or(WHOLE);
        let part = u128::from(low) + ((u128::from(high.saturating_sub(low)) * within) >> 32);
        let ms = u128::from(limit) * part / u128::from(WHOLE);
        Some(Span(u64::try_from(ms).unwrap_or(u64::MAX)))
    }
}

/// When a job starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Range {
    /// Not before this by durations seen; at most `latest`. None when too few were seen.
    pub earliest: Option<Time>,
    /// Not after this by limits as written.
    pub latest: Time,
    /// Whether that counts with every job ahead: it is reserved, or the plan by limits got as far and none of them was
    /// left out of it.
    pub whole: bool,
}

/// How long a job lasts in all that has run so long already; the number chooses among what is possible. None: to its
/// limit.
pub type RunLength<'a> = dyn Fn(&Work, Span, u64) -> Option<Span> + 'a;

/// Nodes and waiting jobs, those that were left out of a copy included: what copies and cycles cost goes by it.
fn size(c: &Cluster) -> usize {
    (c.fleet.len() + c.queue.len_in_all()).max(1)
}

/// Courses by durations, and moments in each: the larger the site, the fewer.
fn effort(size: usize) -> (usize, usize) {
    ((32_000 / size).clamp(1, 16), (256_000 / size).clamp(2, 128))
}

/// Plans for the first moment of a later preemption: the larger the site, the fewer.
fn halves(size: usize) -> usize {
    (48_000 / size).clamp(1, HALVES)
}

/// When a job starts that waits in the queue of this cluster. `at`: its reserved start, or when the limits of what runs
/// leave it enough. Without `lasts` only the late end is looked for.
#[must_use]
pub fn range(
    c: Cluster,
    job: JobId,
    policy: &SitePolicy,
    now: Time,
    (at, reserved): (Time, bool),
    lasts: Option<&RunLength<'_>>,
) -> Range {
    let mut out = Range { earliest: lasts.map(|_| at), latest: at, whole: reserved };
    if at <= now || (reserved && lasts.is_none()) {
        return out;
    }
    let (courses, cycles) = effort(size(&c));
    let all_ahead = c.queue.has_all_before(job);
    let due = c.fleet.kept.values().map(|k| k.start).collect();
    let mut here = Course { c, job, policy, due, at: now };
    let starts = here.step().is_none();
    if !reserved && !starts {
        let by_limits = here.clone().follow(cycles * LONGER.min(2 * courses), FAR, |_, _| None);
        if let CourseOutcome::Start(t) = by_limits {
            (out.latest, out.whole) = (at.max(t), all_ahead);
        }
    }
    if let Some(lasts) = lasts {
        let mut best = if starts { now } else { out.latest };
        for n in 0..courses as u64 {
            if best <= now {
                break;
            }
            let drawn = |w: &Work, ran: Span| lasts(w, ran, draw(w.job, n));
            match here.clone().follow(cycles, best, drawn) {
                CourseOutcome::Start(t) | CourseOutcome::NotBefore(t) => best = best.min(t),
                CourseOutcome::Never => {}
            }
        }
        out.earliest = Some(best);
    }
    out
}

/// Room that the next plan has others make for a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedPreemption {
    /// It starts not later than this.
    pub at: Time,
    /// Who is stopped for it.
    pub victims: Vec<Victim>,
    /// Elastic gangs that shrink for it.
    pub shrinks: Vec<JobId>,
}

/// What the next plan does for a job that waits in the queue of this cluster, where others make room
/// for it; none where nobody does.
#[must_use]
pub fn planned_preemption(
    mut c: Cluster,
    job: JobId,
    policy: &SitePolicy,
    now: Time,
) -> Option<PlannedPreemption> {
    let p = plan(&mut c, policy, now);
    let reserved_start =
        p.reserved_starts.iter().find(|p| p.job == job && p.basis == Basis::Preemption)?;
    Some(PlannedPreemption {
        at: reserved_start.at,
        victims: p.victims.iter().filter(|v| v.by == job).copied().collect(),
        shrinks: p.resizes.iter().filter(|r| r.by == Some(job)).map(|r| r.job).collect(),
    })
}

/// What a later plan does for a job that waits in the queue of this cluster, once those that rank
/// below it have run long enough: from when on they may be stopped or shrunk, and who. None where
/// nobody is.
#[must_use]
pub fn later_preemption(
    c: &Cluster,
    job: JobId,
    policy: &SitePolicy,
    now: Time,
) -> Option<(Time, PlannedPreemption)> {
    let w = c.queue.get(job)?.clone();
    let times: Vec<Time> = distinct(preemptible_at(c, &w, policy, now));
    let planned = |at: Time| Some((at, planned_preemption(c.clone(), job, policy, at)?));
    // The more have run long enough, the more can be stopped: the first moment is found by halves.
    let mut found = planned(*times.last()?)?;
    let (mut low, mut high) = (0, times.len() - 1);
    for _ in 0..halves(size(c)) {
        if low >= high {
            break;
        }
        let middle = low + (high - low) / 2;
        match planned(times[middle]) {
            Some(earlier) => (found, high) = (earlier, middle),
            None => low = middle + 1,
        }
    }
    Some(found)
}

/// A number that looks drawn and is always the same for the same job and course (splitmix64).
fn draw(job: JobId, course: u64) -> u64 {
    let x = job.0.wrapping_mul(64).wrapping_add(course + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    let x = (x ^ (x >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let x = (x ^ (x >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    x ^ (x >> 31)
}

/// What a course shows.
enum CourseOutcome {
    Start(Time),
    /// It was not followed further.
    NotBefore(Time),
    /// Nothing happens any more.
    Never,
}

/// One possible course of things: nobody comes, nothing fails.
#[derive(Clone)]
struct Course<'a> {
    c: Cluster,
    job: JobId,
    policy: &'a SitePolicy,
    /// Moments at which a plan may differ though nothing ended.
    due: BTreeSet<Time>,
    at: Time,
}

impl Course<'_> {
    /// Goes on until the job starts, it is `until`, or so many moments have passed.
    fn follow(
        mut self,
        moments: usize,
        until: Time,
        lasts: impl Fn(&Work, Span) -> Option<Span>,
    ) -> CourseOutcome {
        let end = |r: &Running, at: Time| {
            let drawn = lasts(&r.work, at.since(r.placed)).filter(|_| !r.stopping);
            drawn.map_or(r.until, |l| r.until.min(r.placed + l)).max(at + Span(1))
        };
        let mut ends: BTreeSet<(Time, JobId)> =
            self.c.running.iter().map(|(id, r)| (end(r, self.at), *id)).collect();
        for _ in 0..moments {
            let due = self.due.range((Excluded(self.at), Unbounded)).next().copied();
            let ended = ends.first().map(|(t, _)| *t);
            let Some(next) = ended.into_iter().chain(due).min().filter(|t| *t < FAR) else {
                return CourseOutcome::Never;
            };
            if next >= until {
                return CourseOutcome::NotBefore(until);
            }
            self.at = next;
            while let Some((_, id)) = ends.first().copied().filter(|(t, _)| *t <= next) {
                ends.pop_first();
                self.c.end(id, |_| true);
                self.c.fleet.release_reservation(id);
            }
            let Some(changed) = self.step() else { return CourseOutcome::Start(next) };
            for id in changed {
                if let Some(r) = self.c.running.get(&id) {
                    ends.insert((end(r, next), id));
                }
            }
        }
        CourseOutcome::NotBefore(self.at)
    }

    /// Plans and carries out what is to be done at this moment. Jobs that began or are being stopped; none when the job
    /// itself starts.
    fn step(&mut self) -> Option<Vec<JobId>> {
        let mut changed = Vec::new();
        for _ in 0..ROUNDS {
            let p = plan(&mut self.c, self.policy, self.at);
            if p.starts.iter().any(|s| s.job == self.job) {
                return None;
            }
            for s in p.starts {
                changed.push(s.job);
                self.begin(s);
            }
            for (job, _) in p.dropped {
                self.c.fleet.release_reservation(job);
            }
            for k in p.reserved_starts {
                let Some(w) = self.c.queue.get(k.job).cloned() else { continue };
                // Room that others make is its own at once.
                let from = if k.basis == Basis::Limits { k.at } else { self.at };
                self.c.fleet.keep(&w, &k.nodes, (from, w.ends(k.at)), k.basis);
                self.due.insert(k.at);
            }
            for v in p.victims {
                changed.push(v.job);
                self.stop(v.job);
            }
            self.due.extend(p.look_again);
            if !p.more {
                break;
            }
        }
        Some(changed)
    }

    fn begin(&mut self, s: Start) {
        let (c, at) = (&mut self.c, self.at);
        let Some(work) = c.queue.get(s.job).cloned() else { return };
        c.queue.remove(s.job);
        c.fleet.release_reservation(s.job);
        let n = u32::try_from(s.placed.slots.len()).unwrap_or(u32::MAX);
        // An elastic gang may begin with fewer nodes.
        let work = if n == work.demand.nodes() {
            work
        } else {
            Arc::new(Work { demand: Arc::new(work.demand.resized(n)), ..(*work).clone() })
        };
        let sku = c.fleet.sku_on(&s.placed);
        let placement = Placement {
            slots: s.placed.slots,
            port: 0,
            domain: s.placed.domain,
            level: s.placed.level,
            fabric: s.placed.fabric,
            cap_watts: s.placed.cap_watts,
            checkpoint_every: None,
        };
        let r = Running {
            until: work.ends(at),
            work,
            placement: Arc::new(placement),
            placed: at,
            saved: at,
            stopping: false,
            sku,
        };
        c.run(r, |_| true);
    }

    /// A job makes room for another, and does not come back.
    fn stop(&mut self, job: JobId) {
        let by = self.at + self.policy.preemption.notice;
        let Some(r) = self.c.running.get_mut(&job) else { return };
        r.stopping = true;
        r.until = r.until.min(by);
        let (until, placement) = (r.until, r.placement.clone());
        for s in &placement.slots {
            self.c.fleet.set_until(job, &s.node, until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_larger_the_site_the_less_is_looked_at() {
        assert_eq!((effort(1), halves(1)), ((16, 128), HALVES));
        assert_eq!((effort(2000), halves(8000)), ((16, 128), HALVES));
        assert_eq!((effort(4000), halves(22_000)), ((8, 64), 2));
        assert_eq!((effort(22_000), halves(102_000)), ((1, 11), 1));
        assert_eq!(effort(102_000), (1, 2));
    }
}
