//! Reserved starts: when the first waiting gangs start at the latest, and who makes room for
//! them if nothing else does.

use crate::claims::Claims;
use crate::explain::smallest;
use crate::fleet::{CapacityReservation, Fleet};
use crate::node::Entry;
use crate::place::{Query, place};
use crate::plan::{Cycle, Resize, StartReservation, Victim};
use crate::preempt::{PreemptionPlan, find_preemption, next_preemptible_at};
use crate::queue::QueuePosition;
use crate::timeline::FutureStart;
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::names::NodeName;
use muster_model::policy::BackfillMode;
use muster_model::spec::Tier;
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Jobs looked at in one cycle for which others may have to make room.
const CLAIMS: usize = 4;
/// An aggressive reserved start moves earlier whenever it can once its job has waited so long.
const PATIENT: Span = Span::hours(12);
/// Why a job has a later reserved start than when room was made for it.
const GAVE_WAY: &str =
    "another job's reserved start on the same nodes comes before this one would end";
/// Jobs at the head of the queue whose reserved starts move earlier once they have waited long.
const HASTENED: usize = 8;

impl Cycle<'_> {
    /// Reserves the earliest start for a job that the limits of what runs and the reserved starts before it
    /// allow. False when there is none.
    pub(crate) fn reserve_start(
        &mut self,
        t: QueuePosition,
        hopeless: &mut BTreeSet<usize>,
    ) -> bool {
        if hopeless.contains(&t.bucket()) {
            return false;
        }
        let Some(w) = self.c.queue.get(t.job).cloned() else { return false };
        let skus = self.c.quota_skus(&w);
        if self.gated(&w) || (skus == 0 && w.demand.gpus() > 0) {
            return false;
        }
        let q = Query::new(&self.c.fleet, &w, self.now, u32::MAX, skus);
        if self.unpowered(&w, &q) {
            return false;
        }
        let (later, overrules) = self.earliest_start(&w, &q, true);
        if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
            b.hopeless = later.is_none();
        }
        let broken = self.c.fleet.is_broken(t.job);
        let Some(later) = later else {
            hopeless.insert(t.bucket());
            if broken {
                self.drop_reservation(t.job);
            }
            return false;
        };
        // There is room, and yet it did not start: power is what it waits for, and nobody can
        // reserved start when a budget has some left.
        let patient = self.policy.backfill.mode == BackfillMode::Aggressive;
        if self.c.fleet.meter.on() && later.at <= self.now && !patient {
            return false;
        }
        let had = self.c.fleet.kept.get(&t.job);
        let moves = broken && had.is_some_and(|k| later.at > k.start);
        let moved = moves.then(|| self.c.fleet.why_broken(t.job));
        self.set_reserved_start(&w, later, moved, overrules);
        true
    }

    /// Do power budgets not carry a job on the nodes in service, or never?
    fn unpowered(&self, w: &Work, q: &Query<'_>) -> bool {
        self.c.fleet.unpowered(q, Entry::takes).is_some() || self.never_powered(w)
    }

    /// Does no power budget ever carry a job, not even at its smallest size? The same that an
    /// explanation says.
    fn never_powered(&self, w: &Work) -> bool {
        let f = &self.c.fleet;
        if !f.meter.on() {
            return false;
        }
        let small = smallest(w);
        let q = Query::new(f, small.as_ref().unwrap_or(w), self.now, u32::MAX, u64::MAX);
        f.never_powered(&q).is_some()
    }

    fn set_reserved_start(
        &mut self,
        w: &Work,
        later: FutureStart,
        moved: Option<String>,
        overrules: bool,
    ) {
        let taken = if overrules { later.nodes.clone() } else { Vec::new() };
        let nodes = self.names(&later.nodes);
        let (job, at, basis) = (w.job, later.at, Basis::Limits);
        let (end, class) = (w.ends(at), w.priority);
        self.keep(w, CapacityReservation { start: at, end, nodes: later.nodes, basis, class });
        self.overrule(w, &taken);
        let gave_way = self.gave_way.contains(&job).then(|| GAVE_WAY.to_string());
        let moved = gave_way.or(moved).or_else(|| self.why_overruled(job, at));
        self.out.reserved_starts.retain(|p| p.job != job);
        self.out.reserved_starts.push(StartReservation { job, at, nodes, basis, moved });
    }

    /// The first of the queue has waited so long that what becomes free goes to it: its reserved start
    /// moves earlier whenever it can.
    pub(crate) fn move_reservation_earlier(&mut self, first: &[QueuePosition]) {
        let after = match self.policy.backfill.mode {
            BackfillMode::Aggressive => self.policy.backfill.hasten_after.min(PATIENT),
            _ => self.policy.backfill.hasten_after,
        };
        for t in first.iter().take(HASTENED).copied() {
            let old = self.c.queue.get(t.job).is_some_and(|w| self.now.since(w.since) >= after);
            if !old {
                break;
            }
            self.reserve_anew(t);
        }
    }

    /// Finds the earliest start anew, and keeps it if it is earlier than what was reserved.
    pub(crate) fn reserve_anew(&mut self, t: QueuePosition) {
        let Some(w) = self.c.queue.get(t.job).cloned() else { return };
        let had = self.c.fleet.kept.get(&t.job);
        if self.c.fleet.is_broken(t.job) || had.is_some_and(|k| k.basis != Basis::Limits) {
            return;
        }
        let q = Query::new(&self.c.fleet, &w, self.now, u32::MAX, self.c.quota_skus(&w));
        // No moment is the first one at which it can start.
        if self.gated(&w) || self.unpowered(&w, &q) {
            return;
        }
        let (later, overrules) = self.earliest_start(&w, &q, false);
        let Some(later) = later else {
            if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
                b.hopeless = true;
            }
            return;
        };
        // As early as before, but on other nodes: those that become free last, so that more can
        // pass. Worth reporting only where a single reserved start stands in everybody's way.
        let easy = self.policy.backfill.mode == BackfillMode::Easy;
        let as_early =
            |k: &CapacityReservation| easy && later.at == k.start && later.nodes != k.nodes;
        let better = match self.c.fleet.kept.get(&t.job) {
            None => true,
            Some(k) => later.at < k.start || as_early(k),
        };
        if better {
            self.set_reserved_start(&w, later, None, overrules);
        }
    }

    /// Lets others make room for the first jobs that rank above them.
    pub(crate) fn preempt(&mut self) {
        let turns: Vec<QueuePosition> =
            self.c.queue.iter().filter(|t| !self.started.contains(&t.job)).take(32).collect();
        let mut claims = 0;
        let mut strict: BTreeSet<usize> = BTreeSet::new();
        for t in turns {
            // Who may not pass the one ahead could not use the room either.
            if self.strict_quota(t).is_some_and(|q| !strict.insert(q)) {
                continue;
            }
            let Some(w) = self.c.queue.get(t.job).cloned() else { continue };
            let made = self.c.fleet.kept.get(&t.job).is_some_and(|k| k.basis != Basis::Limits);
            // Room that was made is of no use without the quota: it may claim again then.
            let made =
                made && !self.c.claims.as_ref().is_some_and(|c| c.has_preempted_in_vain(t.job));
            if made || self.gated(&w) || self.late.contains(&w.job) || !self.may_claim(t, &w) {
                continue;
            }
            // Nobody is stopped in vain.
            if self.never_powered(&w) {
                continue;
            }
            claims += 1;
            if claims > CLAIMS {
                break;
            }
            if self.c.claims.is_none() {
                self.c.claims = Claims::of(self.c, self.now);
            }
            let mut q =
                Query::new(&self.c.fleet, &w, self.now, self.policy.hazard.large_gang, u64::MAX);
            // It begins when the others are gone.
            let gone = self.now + self.policy.preemption.notice;
            q.end = w.ends(gone);
            let mut found = self.cheapest_way(&w, &mut q);
            // Some of what it needs comes later than that: it is booked for longer, so that it has
            // to fit for longer.
            let late =
                found.as_ref().filter(|room| room.needs_preemption() && room.coming_by > gone);
            if let Some(by) = late.map(|room| room.coming_by) {
                q.end = w.ends(by);
                q.who.above = None;
                found = self.cheapest_way(&w, &mut q).filter(|room| room.coming_by <= by);
            }
            match found {
                Some(room) if room.needs_preemption() => self.claim(&w, room, &q),
                found => {
                    let mark = (self.c.fleet.freed(), self.c.charged());
                    // What others give up already is waited for, no longer than they may take.
                    let rested = found.map_or_else(
                        || next_preemptible_at(self.c, &w, self.policy, self.now),
                        |room| room.coming_by,
                    );
                    if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
                        b.claimed = Some((mark, rested));
                    }
                    if rested < FAR {
                        self.again(rested);
                    }
                }
            }
        }
    }

    /// Who leaves for a job: beside the reserved starts of lower classes, or without them where
    /// less is lost then.
    fn cheapest_way(&self, w: &Work, q: &mut Query<'_>) -> Option<PreemptionPlan> {
        let going: Vec<JobId> = self.out.victims.iter().map(|v| v.job).collect();
        let out = (&self.busy, &going[..]);
        let beside = find_preemption(self.c, w, q, self.policy, out);
        let Some(above) = self.c.fleet.overruled_by(w.priority) else { return beside };
        // Less than nothing is not lost, and without such a start on a node that would do there is
        // no other way.
        let free = beside.as_ref().is_some_and(|b| b.cost == 0);
        if free || !self.c.fleet.any_booked_below(above, &q.asks) {
            return beside;
        }
        q.who.above = Some(above);
        let alone = find_preemption(self.c, w, q, self.policy, out);
        let less = |a: &PreemptionPlan| beside.as_ref().is_none_or(|b| a.cost < b.cost);
        if let Some(alone) = alone.filter(less) {
            return Some(alone);
        }
        q.who.above = None;
        beside
    }

    /// Is it worth asking who could make room?
    fn may_claim(&mut self, t: QueuePosition, w: &Work) -> bool {
        let Some(b) = self.c.queue.bucket(t.bucket()) else { return false };
        let seen = (self.c.fleet.freed(), self.c.charged());
        let elastic = self.policy.elastic.enabled && self.c.has_elastic_jobs();
        if let Some((_, rested)) = b.claimed.filter(|(c, t)| *c == seen && *t > self.now) {
            if rested < FAR {
                self.again(rested);
            }
            return false;
        }
        (self.policy.preemption.enabled && self.c.has_lower_ranked_jobs(w)) || elastic
    }

    fn claim(&mut self, w: &Arc<Work>, room: PreemptionPlan, q: &Query<'_>) {
        let by = w.job;
        for (job, rank) in &room.victims {
            self.busy.insert(*job);
            self.out.victims.push(Victim { job: *job, by, rank: *rank });
        }
        for (job, given) in &room.shrinks {
            self.busy.insert(*job);
            let on: Vec<NodeName> = self.c.running.get(job).map_or_else(Vec::new, |r| {
                let given: BTreeSet<NodeName> = self.names(given).into_iter().collect();
                let stay = r.slots().iter().map(|s| s.node.clone());
                stay.filter(|n| !given.contains(n)).collect()
            });
            let nodes = u32::try_from(on.len()).unwrap_or(u32::MAX);
            self.out.resizes.push(Resize { job: *job, nodes, by: Some(by), on });
        }
        self.keep_quota(w, &room);
        let at = (self.now + self.policy.preemption.notice).max(room.coming_by);
        let nodes = self.names(&room.nodes);
        let taken = if q.who.above.is_some() { room.nodes.clone() } else { Vec::new() };
        let (start, basis, class) = (self.now, Basis::Preemption, w.priority);
        self.keep(
            w,
            CapacityReservation { start, end: w.ends(at), nodes: room.nodes, basis, class },
        );
        self.overrule(w, &taken);
        self.reopen_overruled();
        self.out.reserved_starts.retain(|p| p.job != by);
        self.out.reserved_starts.push(StartReservation { job: by, at, nodes, basis, moved: None });
    }

    /// What others give back for a job is its own from now on.
    fn keep_quota(&mut self, w: &Work, room: &PreemptionPlan) {
        let Some(claims) = &mut self.c.claims else { return };
        let running = &self.c.running;
        for r in room.victims.iter().filter_map(|(job, _)| running.get(job)) {
            claims.charge(r, r.milli(), false);
        }
        for (job, given) in &room.shrinks {
            if let Some(r) = running.get(job) {
                claims.charge(r, r.milli_on(given.len()), false);
            }
        }
        let first = room.nodes.first().and_then(|ix| self.c.fleet.present(*ix));
        if let Some(e) = first.filter(|_| w.tier != Tier::Reserved) {
            claims.hold(w, &e.facts.sku);
        }
    }

    /// Elastic gangs grow into what nobody waits for.
    pub(crate) fn grow(&mut self) {
        if !self.policy.elastic.enabled || self.started.len() < self.c.queue.len() {
            return;
        }
        let settle = self.policy.elastic.settle;
        let able: Vec<JobId> = self
            .c
            .running
            .iter()
            .filter(|(id, r)| {
                let room =
                    r.work.elastic.is_some_and(|(_, max)| (r.slots().len() as u64) < max.into());
                room && !r.stopping && !self.started.contains(id) && !self.busy.contains(id)
            })
            .map(|(id, _)| *id)
            .collect();
        for id in able {
            let Some(r) = self.c.running.get(&id).cloned() else { continue };
            let settled = r.placed + settle;
            if settled > self.now {
                self.again(settled);
                continue;
            }
            let Some((_, max)) = r.work.elastic else { continue };
            if let Some((nodes, on)) = self.larger(&r, max) {
                self.busy.insert(id);
                self.out.resizes.push(Resize { job: id, nodes, by: None, on });
                // One at a time: the next cycle sees what this one took.
                return;
            }
        }
    }

    /// The largest size that fits if the gang gave up its nodes and took others, or the same.
    fn larger(&mut self, r: &crate::Running, max: u32) -> Option<(u32, Vec<NodeName>)> {
        let have = u32::try_from(r.slots().len()).ok()?;
        let f = &mut self.c.fleet;
        let held: Vec<_> = r.slots().iter().filter(|s| f.undo_take(r.work.job, s)).collect();
        self.c.charge(r, false);
        let mut best = None;
        let (mut low, mut high) = (have, max + 1);
        while high - low > 1 {
            let mid = low.midpoint(high);
            let w = Work { demand: Arc::new(r.work.demand.resized(mid)), ..(*r.work).clone() };
            let skus = self.c.quota_skus(&w);
            let q = Query::new(&self.c.fleet, &w, self.now, self.policy.hazard.large_gang, skus);
            match place(&self.c.fleet, &q) {
                Ok(p) if skus != 0 => {
                    best = Some((mid, p.slots.into_iter().map(|s| s.node).collect()));
                    low = mid;
                }
                _ => high = mid,
            }
        }
        self.c.charge(r, true);
        for s in &held {
            self.c.fleet.take(r.work.job, s, r.until);
        }
        // A gang that has begun to end goes on as it is.
        best.filter(|_| held.len() == r.slots().len())
    }
}

/// Nodes to gather for a gang: in the domain where most can carry a share now, those first, then
/// those that hold least.
pub(crate) fn gathered(f: &Fleet, q: &Query<'_>) -> Option<Vec<u32>> {
    let [a] = &q.asks[..] else { return None };
    let need = a.nodes as usize;
    let key = |e: &Entry| {
        let busy = !f.free_until(e, a, q.who, q.now, q.end);
        (busy, std::cmp::Reverse(e.free_gpus()), e.pos)
    };
    let mut best: Option<(usize, Vec<u32>)> = None;
    let mut consider = |nodes: &mut dyn Iterator<Item = &Entry>| {
        let closed = |e: &Entry| {
            let times = f.closed_times(e, q.who, q.now);
            times.iter().any(|(s, t)| *s < q.end && *t > q.now)
        };
        let mut able: Vec<&Entry> =
            nodes.filter(|e| e.takes(a) && e.book.is_empty() && !closed(e)).collect();
        if able.len() < need {
            return;
        }
        able.sort_by_cached_key(|e| (e.facts.avoided, key(e)));
        if let Some(size) = q.demand.segment {
            let ready = |p: &Vec<&Entry>| p.iter().filter(|e| key(e).0).count();
            able.sort_by_key(|e| e.domains[0]);
            let size = size.max(1) as usize;
            let by = able.chunk_by(|a, b| a.domains[0] == b.domains[0]);
            let whole = by.flat_map(|d| d.chunks_exact(size).map(<[&Entry]>::to_vec));
            let mut pieces: Vec<Vec<&Entry>> = whole.collect();
            pieces.sort_by_key(ready);
            able = pieces.into_iter().take(need / size).flatten().collect();
            if able.len() < need {
                return;
            }
        }
        able.truncate(need);
        let ready = able.iter().filter(|e| !key(e).0).count();
        if best.as_ref().is_none_or(|(n, _)| ready > *n) {
            best = Some((ready, able.iter().map(|e| e.pos.ix).collect()));
        }
    };
    match q.demand.widest() {
        Level::Node => consider(&mut f.entries()),
        level => {
            for d in f.level(level) {
                consider(&mut d.nodes.iter().map(|p| f.entry(p.ix)));
            }
        }
    }
    best.map(|(_, nodes)| nodes)
}

/// Healthy nodes of a gang and replacements for those that failed: spares of the same domain
/// first, then others as near as can be. Node names in the order of the gang's slots.
#[must_use]
pub fn replacements(
    f: &Fleet,
    work: &Work,
    slots: &[muster_model::placement::Slot],
    now: Time,
) -> Option<Vec<NodeName>> {
    let asks = f.asks(&work.demand, f.lemon_will_do(work));
    let who = crate::windows::Asker::of(work);
    let end = work.ends(now);
    let gone: Vec<usize> = (0..slots.len())
        .filter(|i| f.find(&slots[*i].node).is_none_or(|ix| !f.entry(ix).serving()))
        .collect();
    let mut used: BTreeSet<NodeName> = slots.iter().map(|s| s.node.clone()).collect();
    let near: Vec<u32> = slots
        .iter()
        .enumerate()
        .filter(|(i, _)| !gone.contains(i))
        .filter_map(|(_, s)| f.find(&s.node))
        .collect();
    let mut out: Vec<NodeName> = slots.iter().map(|s| s.node.clone()).collect();
    for i in gone {
        let a = asks.get(slots[i].group as usize)?;
        let piece = f.find(&slots[i].node).map(|ix| f.entry(ix).domains[0]);
        let best = f
            .entries()
            .filter(|e| e.serving() && !used.contains(&e.facts.name))
            .filter(|e| f.free_until(e, a, who, now, end))
            .filter(|e| {
                work.demand.required.is_none_or(|l| {
                    let mut all = near.clone();
                    all.push(e.pos.ix);
                    f.common_level(&all) >= l
                })
            })
            .filter(|e| {
                // A piece stays inside its NVLink domain.
                work.demand.segment.is_none() || piece.is_some_and(|d| d == e.domains[0])
            })
            .min_by_key(|e| {
                let mut all = near.clone();
                all.push(e.pos.ix);
                let spare = e.facts.role == muster_model::node::NodeRole::Spare;
                let window = f.window_ahead(work, [&e.facts.name], (now, end)).is_some();
                (
                    e.facts.avoided,
                    window,
                    std::cmp::Reverse(f.common_level(&all)),
                    !spare,
                    e.facts.hazard,
                    e.free_gpus(),
                    e.pos,
                )
            })?;
        used.insert(best.facts.name.clone());
        out[i] = best.facts.name.clone();
    }
    Some(out)
}
