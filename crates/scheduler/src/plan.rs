//! One cycle: who starts now, who has a reserved start, who must make room.

use crate::broken::Loss;
use crate::claims::Claims;
use crate::cluster::{Cluster, Running};
use crate::cycle_cache::{CycleCache, alike};
use crate::fleet::CapacityReservation;
use crate::place::{Placed, Query, find_capacity_on, may_fit, place, place_on_kept};
use crate::queue::{Failed, QueuePosition};
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::{Basis, Rank};
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::spec::Priority;
use muster_model::topology::Level;
use muster_model::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Most starts in one cycle: a few milliseconds of planning and one group commit.
pub const MAX_STARTS: usize = 1000;
/// Most groups of jobs asked in one cycle behind the first of the queue; what is left is asked in
/// the next, which follows at once, so that requests wait a few milliseconds at most.
const MAX_ASKS: usize = 1000;
/// Jobs that nodes are gathered for at once when nothing that runs has a time limit.
const GATHERING: usize = 4;

/// A gang that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// The job that starts.
    pub job: JobId,
    /// What it gets.
    pub placed: Placed,
}

/// A start that is reserved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReservation {
    /// The waiting job.
    pub job: JobId,
    /// Not later than this.
    pub at: Time,
    /// Nodes that are kept for it, in the order of its groups.
    pub nodes: Vec<NodeName>,
    /// What it rests on.
    pub basis: Basis,
    /// Why it is later than was reserved before, if it is.
    pub moved: Option<String>,
}

/// A job that makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// The job that is stopped.
    pub job: JobId,
    /// The job that gets its nodes.
    pub by: JobId,
    /// What ranks the other one higher.
    pub rank: Rank,
}

/// An elastic gang that gets another size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    /// The job whose size changes.
    pub job: JobId,
    /// How many nodes it gets.
    pub nodes: u32,
    /// For whom it shrinks; none when it grows.
    pub by: Option<JobId>,
    /// Where it goes on: nodes it keeps, and new ones.
    pub on: Vec<NodeName>,
}

/// The difference that a cycle makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Gangs that start, in order.
    pub starts: Vec<Start>,
    /// Starts that are reserved.
    pub reserved_starts: Vec<StartReservation>,
    /// Jobs that make room.
    pub victims: Vec<Victim>,
    /// Elastic gangs that get another size.
    pub resizes: Vec<Resize>,
    /// Reserved starts that are taken back without another, and why.
    pub dropped: Vec<(JobId, String)>,
    /// The cycle stopped at its limit; another one has more to do.
    pub more: bool,
    /// Time alone may change the plan: look again then.
    pub look_again: Option<Time>,
}

/// What came of asking for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AskResult {
    Started,
    /// A quota or a limit stops it; room is not the matter.
    Gated,
    NoFreeCapacity,
}

pub(crate) struct Cycle<'c> {
    pub(crate) c: &'c mut Cluster,
    pub(crate) policy: &'c SitePolicy,
    pub(crate) now: Time,
    pub(crate) out: Plan,
    pub(crate) started: BTreeSet<JobId>,
    /// Jobs that are being started, stopped or resized by this cycle.
    pub(crate) busy: BTreeSet<JobId>,
    /// What was kept for jobs before this cycle and what broke it, to be put back.
    pub(crate) before: BTreeMap<JobId, Option<(CapacityReservation, Option<Loss>)>>,
    /// GPUs that started lately, in thousandths, when starts are staggered.
    recent: Option<u64>,
    /// Jobs that wait for nothing but the next window of starts.
    pub(crate) late: BTreeSet<JobId>,
    /// A job started before or elsewhere than room was kept for it: others may have that now.
    let_go: bool,
    /// Jobs that nodes are gathered for in this cycle.
    gathered: Vec<JobId>,
    /// Jobs that give up room that was made for them.
    pub(crate) gave_way: BTreeSet<JobId>,
    /// Jobs whose reserved start work of a higher class took.
    pub(crate) overruled: BTreeSet<JobId>,
    /// The jobs that took it.
    pub(crate) overruling: BTreeSet<JobId>,
    memo: CycleCache,
}

/// Who is asked first: by class, then by what is gained for the room taken.
type Preference = (Reverse<Priority>, Reverse<u128>);
/// Somebody who may be asked; the greatest is asked first.
type Candidate = Reverse<(Preference, QueuePosition)>;

/// Plans one cycle. The cluster is left as it was, but for notes on what did not fit, so that
/// it is asked again only when something changed.
pub fn plan(c: &mut Cluster, policy: &SitePolicy, now: Time) -> Plan {
    let mut cycle = Cycle {
        c,
        policy,
        now,
        out: Plan::default(),
        started: BTreeSet::new(),
        busy: BTreeSet::new(),
        before: BTreeMap::new(),
        recent: None,
        late: BTreeSet::new(),
        let_go: false,
        gathered: Vec::new(),
        gave_way: BTreeSet::new(),
        overruled: BTreeSet::new(),
        overruling: BTreeSet::new(),
        memo: CycleCache::default(),
    };
    if let Some(edge) = cycle.c.fleet.recheck_at_window_edges(now)
        && !cycle.c.queue.is_empty()
    {
        cycle.again(edge);
    }
    cycle.release_overdue_reservations();
    cycle.c.claims = Claims::if_made(cycle.c, now);
    cycle.gather();
    cycle.starts();
    cycle.start_held();
    if !cycle.out.more {
        cycle.scatter();
        cycle.preempt();
        cycle.grow();
    }
    cycle.replan_overruled();
    let started = &cycle.started;
    cycle.out.reserved_starts.retain(|p| !started.contains(&p.job));
    cycle.c.claims = None;
    cycle.undo();
    // What they gave up is free once their new reserved start is in the log.
    let gave_way = cycle.out.reserved_starts.iter().any(|p| cycle.gave_way.contains(&p.job));
    cycle.out.more |= cycle.let_go || gave_way || cycle.has_overruled();
    cycle.out
}

impl Cycle<'_> {
    /// The first jobs of the queue start or have a reserved start, in their order; then everybody
    /// may start who keeps no reserved start from being kept, those first who gain most for the room
    /// that they take.
    fn starts(&mut self) {
        if self.policy.backfill.mode == BackfillMode::Easy {
            self.in_queue_order();
            return;
        }
        let most = match self.policy.backfill.mode {
            BackfillMode::Aggressive => self.policy.backfill.reserved_starts.min(1),
            _ => self.policy.backfill.reserved_starts,
        };
        let mut first: Vec<QueuePosition> = self.c.queue.iter().take(most as usize).collect();
        self.move_reservation_earlier(&first);
        self.add_passed(&mut first);
        let mut reserved: Vec<QueuePosition> = Vec::new();
        let mut hopeless: BTreeSet<usize> = BTreeSet::new();
        let behind = self.behind_strict(&first);
        for t in &first {
            if self.full() {
                return;
            }
            if self.started.contains(&t.job) || behind.contains(&t.job) {
                continue;
            }
            let stands = self.c.fleet.kept.contains_key(&t.job) && !self.c.fleet.is_broken(t.job);
            if !stands && !self.start_or_reserve(*t, &mut hopeless) {
                continue;
            }
            if !self.started.contains(&t.job) {
                reserved.push(*t);
            }
        }
        reserved.sort_by_key(QueuePosition::bucket);
        let reserved_of = |group: usize| {
            let from = reserved.partition_point(|t| t.bucket() < group);
            reserved[from..].iter().take_while(move |t| t.bucket() == group)
        };
        self.strictly();
        let mut able: Vec<Candidate> = Vec::new();
        let turns: Vec<QueuePosition> = self.c.queue.heads().collect();
        let any_strict = self.c.ledger.any_strict();
        for t in turns {
            let strict = any_strict && self.strict_quota(t).is_some();
            // Others of the group may have failed just now; that says nothing of those who have
            // room kept for them.
            let kept = reserved_of(t.bucket()).any(|t| self.due(t.job) || self.ready(t.job));
            if !strict && (kept || !self.still_fails(t)) {
                able.extend(self.candidate(t));
            }
        }
        // Built at once: of thousands who could be helped, few are asked.
        let mut heads = BinaryHeap::from(able);
        let mut asks = 0;
        while let Some(Reverse((_, turn))) = heads.pop() {
            asks += 1;
            if self.full() || asks > MAX_ASKS {
                self.out.more = true;
                return;
            }
            // What helped it may be taken by now.
            let again = !self.out.starts.is_empty() && reserved_of(turn.bucket()).next().is_none();
            if again && !self.started.contains(&turn.job) && self.still_fails(turn) {
                continue;
            }
            let asked =
                if self.started.contains(&turn.job) { AskResult::Started } else { self.ask(turn) };
            if asked == AskResult::Started {
                let next = self.c.queue.after(&turn);
                heads.extend(next.and_then(|t| self.candidate(t)));
                continue;
            }
            self.mark(turn);
            // It and those behind it may still have the very nodes that are kept for them.
            for t in reserved_of(turn.bucket()) {
                if !self.started.contains(&t.job) {
                    self.start_on_kept(t.job);
                }
            }
        }
    }

    /// Where nobody may pass, those behind the first wait for it: nothing is kept for them.
    fn behind_strict(&mut self, turns: &[QueuePosition]) -> BTreeSet<JobId> {
        let mut first: BTreeSet<usize> = BTreeSet::new();
        let behind = |t: &&QueuePosition| self.strict_quota(**t).is_some_and(|q| !first.insert(q));
        let out: BTreeSet<JobId> = turns.iter().filter(behind).map(|t| t.job).collect();
        for job in &out {
            if self.c.fleet.kept.get(job).is_some_and(|k| k.basis == Basis::Limits) {
                self.drop_reservation(*job);
            }
        }
        out
    }

    /// Those who have a reserved start and were passed in the queue since are looked at too, and
    /// those who give it up: they are given another reserved start.
    fn add_passed(&self, first: &mut Vec<QueuePosition>) {
        let kept = &self.c.fleet.kept;
        let gave_way: Vec<JobId> =
            self.gave_way.iter().copied().filter(|j| !kept.contains_key(j)).collect();
        let had = |j: &JobId| kept.contains_key(j) || gave_way.contains(j);
        let known: BTreeSet<JobId> = first.iter().map(|t| t.job).filter(had).collect();
        if known.len() < kept.len() + gave_way.len() {
            let passed = kept.keys().chain(&gave_way).filter(|j| !known.contains(j));
            first.extend(passed.filter_map(|j| self.c.queue.place(*j)));
        }
    }

    /// One that has no reserved start yet starts if it can, or has a reserved start. False when neither.
    fn start_or_reserve(&mut self, t: QueuePosition, hopeless: &mut BTreeSet<usize>) -> bool {
        let patient = self.policy.backfill.mode == BackfillMode::Aggressive;
        if !patient && self.strict_quota(t).is_none() && !self.still_fails(t) {
            match self.ask(t) {
                AskResult::Started => return true,
                AskResult::Gated => {
                    self.mark(t);
                    return false;
                }
                AskResult::NoFreeCapacity => self.mark(t),
            }
        }
        self.reserve_start(t, hopeless)
    }

    /// First come, first served: the first that does not fit has a reserved start, and those
    /// behind it pass in their order if they do not delay it.
    fn in_queue_order(&mut self) {
        let mut heads: BTreeSet<QueuePosition> = self.c.queue.heads().collect();
        let mut head: Option<JobId> = None;
        let mut stopped: BTreeSet<usize> = BTreeSet::new();
        while let Some(t) = heads.pop_first() {
            if self.full() {
                self.out.more = true;
                return;
            }
            let strict = self.strict_quota(t);
            if strict.is_some_and(|q| stopped.contains(&q)) {
                continue;
            }
            if head.is_some() && !self.started.contains(&t.job) && self.still_fails(t) {
                stopped.extend(strict);
                continue;
            }
            match self.ask(t) {
                AskResult::Started => {
                    if let Some(next) = self.c.queue.after(&t) {
                        heads.insert(next);
                    }
                }
                asked => {
                    self.mark(t);
                    stopped.extend(strict);
                    if asked == AskResult::NoFreeCapacity && head.is_none() {
                        head = Some(t.job);
                        // What is kept for it is found anew each time.
                        self.reserve_anew(t);
                        if let Some(next) = self.c.queue.after(&t) {
                            heads.insert(next);
                        }
                    }
                }
            }
        }
    }

    /// Quotas whose jobs may not pass each other: in their order, up to the first that waits.
    fn strictly(&mut self) {
        if !self.c.ledger.any_strict() {
            return;
        }
        let mut stopped: BTreeSet<usize> = BTreeSet::new();
        let turns: Vec<QueuePosition> = self
            .c
            .queue
            .iter()
            .filter(|t| self.strict_quota(*t).is_some())
            .take(MAX_STARTS)
            .collect();
        for t in turns {
            let Some(q) = self.strict_quota(t) else { continue };
            if self.full() || stopped.contains(&q) || self.started.contains(&t.job) {
                continue;
            }
            if (!self.due(t.job) && self.still_fails(t)) || self.ask(t) != AskResult::Started {
                self.mark(t);
                stopped.insert(q);
            }
        }
    }

    pub(crate) fn full(&self) -> bool {
        self.out.starts.len() >= MAX_STARTS
    }

    /// How far what users and quotas hold is known to whoever fails now. What is kept for others may
    /// be given up without a trace: then quotas are looked at again in any case.
    fn charged(&self) -> u64 {
        if self.c.claims.is_some() { u64::MAX } else { self.c.charged() }
    }

    /// Remembers that jobs like this one did not fit.
    fn mark(&mut self, t: QueuePosition) {
        if self.late.contains(&t.job) {
            return;
        }
        let Some(work) = self.c.queue.bucket(t.bucket()).map(|b| b.work.clone()) else { return };
        let (freed, charged) = (self.c.fleet.freed(), self.charged());
        let (skus, gated) = (self.skus_like(t, &work), self.gated(&work));
        if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
            b.failed = Some(Failed { freed, charged, skus, gated });
        }
    }

    /// Must it start now for its reserved start to be kept?
    fn due(&self, job: JobId) -> bool {
        self.c.fleet.kept.get(&job).is_some_and(|k| k.start <= self.now)
    }

    /// Are the nodes that are kept for it free already?
    fn ready(&self, job: JobId) -> bool {
        let f = &self.c.fleet;
        let Some(kept) = f.kept.get(&job) else { return false };
        let busy = |ix: &u32| f.entry(*ix).free_gpus() == 0;
        let Some(work) = self.c.queue.get(job) else { return false };
        if work.demand.gpus() > 0 && kept.nodes.first().is_some_and(busy) {
            return false;
        }
        let q = Query::new(f, work, self.now, self.policy.hazard.large_gang, u64::MAX);
        find_capacity_on(f, &q, &kept.nodes).is_some()
    }

    fn candidate(&self, t: QueuePosition) -> Option<Candidate> {
        let b = self.c.queue.bucket(t.bucket())?;
        let gain = if self.policy.backfill.predict { b.belief.rank(b.work.width()) } else { 0 };
        Some(Reverse(((Reverse(b.work.priority), Reverse(gain)), t)))
    }

    /// SKUs of which the quota leaves enough.
    fn skus_left(&mut self, t: QueuePosition, w: &Work) -> u64 {
        if self.c.claims.as_ref().is_some_and(|c| c.holds(w.job)) {
            return self.c.quota_skus(w);
        }
        self.skus_like(t, w)
    }

    /// The same for all like it for whom nothing is kept, asked once for each user and demand until
    /// somebody starts.
    fn skus_like(&mut self, t: QueuePosition, w: &Work) -> u64 {
        let Some(b) = self.c.queue.bucket(t.bucket()) else { return self.c.quota_skus_like(w) };
        if self.c.ledger.is_empty() {
            return u64::MAX;
        }
        let key = (b.account, b.shape, w.tier);
        let starts = self.out.starts.len();
        self.memo.skus(starts, key).unwrap_or_else(|| {
            let skus = self.c.quota_skus_like(w);
            self.memo.note_skus(key, skus);
            skus
        })
    }

    pub(crate) fn start_on_kept(&mut self, job: JobId) {
        let Some(work) = self.c.queue.get(job).cloned() else { return };
        let skus = self.c.quota_skus(&work);
        if self.gated(&work) || (skus == 0 && work.demand.gpus() > 0) || self.staggered(&work) {
            return;
        }
        let f = &self.c.fleet;
        let Some(kept) = f.kept.get(&job) else { return };
        let q = Query::new(f, &work, self.now, self.policy.hazard.large_gang, skus);
        if let Ok(placed) = place_on_kept(f, &q, &kept.nodes) {
            self.start(work.clone(), placed);
        } else {
            self.overrule_on_kept(&work, q);
        }
    }

    pub(crate) fn strict_quota(&self, t: QueuePosition) -> Option<usize> {
        let b = self.c.queue.bucket(t.bucket())?;
        self.c.ledger.strict(&b.work.project)
    }

    /// Has nothing changed that could let this group of jobs start? Remembers what it looked at.
    fn still_fails(&mut self, t: QueuePosition) -> bool {
        let Some(b) = self.c.queue.bucket(t.bucket()) else { return true };
        let Some(failed) = b.failed else { return false };
        if failed.gated {
            return self.gated(&b.work);
        }
        let all = (1u64 << self.c.fleet.skus.len().min(63)) - 1;
        if all & !failed.skus != 0 && failed.charged != self.c.charged() {
            // The quota kept it from some kinds of GPU then.
            let skus = self.c.quota_skus_like(&b.work);
            if skus & !failed.skus != 0 {
                return false;
            }
            if skus == 0 && b.work.demand.gpus() > 0 {
                return true;
            }
        }
        let f = &self.c.fleet;
        let Some(mut released) = f.released_since(failed.freed) else { return false };
        let helps = if b.work.elastic.is_some() {
            released.next().is_some()
        } else {
            let key = (b.shape, b.work.preemptible(), failed.freed);
            self.memo.helps(self.out.starts.len(), key).unwrap_or_else(|| {
                let helps = one_helps(f, &b.work, self.now, released);
                self.memo.note_helps(key, helps);
                helps
            })
        };
        if helps {
            return false;
        }
        let (freed, charged) = (f.freed(), self.charged());
        if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
            b.failed = Some(Failed { freed, charged, ..failed });
        }
        true
    }

    /// Asks for one job: starts it if it may and if there is room.
    pub(crate) fn ask(&mut self, turn: QueuePosition) -> AskResult {
        if self.started.contains(&turn.job) {
            return AskResult::Started;
        }
        let Some(work) = self.c.queue.get(turn.job).cloned() else { return AskResult::Gated };
        if self.gated(&work) || self.staggered(&work) {
            return AskResult::Gated;
        }
        let skus = self.skus_left(turn, &work);
        if skus == 0 && work.demand.gpus() > 0 {
            return AskResult::Gated;
        }
        let shape = self.c.queue.bucket(turn.bucket()).map_or(0, |b| b.shape);
        let alike = alike(self.c, &work, shape, skus);
        if alike.is_some_and(|a| self.memo.no_capacity(a, &work)) {
            return AskResult::NoFreeCapacity;
        }
        if self.start_as(&work, skus) {
            return AskResult::Started;
        }
        if let Some(a) = alike {
            self.memo.note_no_capacity(a, &work);
        }
        if let Some((min, _)) = work.elastic
            && self.start_smaller(&work, min, skus)
        {
            return AskResult::Started;
        }
        AskResult::NoFreeCapacity
    }

    /// An elastic gang starts with as many nodes as there are, if they are enough.
    fn start_smaller(&mut self, work: &Arc<Work>, min: u32, skus: u64) -> bool {
        let (mut low, mut high) = (min, work.demand.nodes());
        let sized = |n: u32| {
            Arc::new(Work { demand: Arc::new(work.demand.resized(n)), ..(**work).clone() })
        };
        let fits = |s: &Self, n: u32| {
            let w = sized(n);
            let q = Query::new(&s.c.fleet, &w, s.now, s.policy.hazard.large_gang, skus);
            place(&s.c.fleet, &q).is_ok()
        };
        if low >= high || !fits(self, low) {
            return false;
        }
        while high - low > 1 {
            let mid = low.midpoint(high);
            if fits(self, mid) { low = mid } else { high = mid }
        }
        self.start_as(&sized(low), skus)
    }

    fn start_as(&mut self, work: &Arc<Work>, skus: u64) -> bool {
        let f = &self.c.fleet;
        let q = Query::new(f, work, self.now, self.policy.hazard.large_gang, skus);
        let own = f.kept.get(&work.job).filter(|k| k.basis != Basis::Limits);
        let kept = own.and_then(|k| place_on_kept(f, &q, &k.nodes).ok());
        if let Some(placed) = kept.or_else(|| place(f, &q).ok()) {
            self.start(work.clone(), placed);
            return true;
        }
        self.start_overruling(work, q)
    }

    /// Does a limit of the site stop it?
    pub(crate) fn gated(&self, w: &Work) -> bool {
        self.c.user_limit(w, &self.policy.limits).is_some()
    }

    /// Have too many GPUs started just now?
    fn staggered(&mut self, w: &Work) -> bool {
        let p = &self.policy.power;
        if p.stagger_gpus == 0 {
            return false;
        }
        let window = p.stagger_window;
        let recent = *self.recent.get_or_insert_with(|| {
            let late = self.c.running.values().filter(|r| self.now.since(r.placed) < window);
            late.map(Running::milli).sum()
        });
        let milli = w.demand.gpus() * 1000;
        // A gang that is larger than a window's worth starts alone.
        let over = milli > 0 && recent > 0 && recent + milli > u64::from(p.stagger_gpus) * 1000;
        if over {
            self.late.insert(w.job);
            self.again(self.now + window);
        }
        over
    }

    /// Something may change by itself at `t`.
    pub(crate) fn again(&mut self, t: Time) {
        self.out.look_again = Some(self.out.look_again.map_or(t, |a| a.min(t)));
    }

    pub(crate) fn start(&mut self, work: Arc<Work>, placed: Placed) {
        let job = work.job;
        let used: BTreeSet<u32> =
            placed.slots.iter().filter_map(|s| self.c.fleet.find(&s.node)).collect();
        let kept = self.c.fleet.kept.get(&job);
        self.let_go |=
            kept.is_some_and(|k| k.start > self.now || k.nodes.iter().any(|ix| !used.contains(ix)));
        self.drop_reservation(job);
        let sku = self.c.fleet.sku_on(&placed);
        let placement = Placement {
            slots: placed.slots.clone(),
            port: 0,
            domain: String::new(),
            level: placed.level,
            fabric: placed.fabric,
            cap_watts: None,
            checkpoint_every: None,
        };
        let until = work.ends(self.now);
        let r = Running {
            work,
            placement: Arc::new(placement),
            placed: self.now,
            saved: self.now,
            until,
            stopping: false,
            sku,
        };
        // It takes less than was kept for it, or other: others may have that now.
        let held = self.c.claims.as_mut().and_then(|c| c.release(&r.work));
        self.let_go |= held.is_some_and(|(sku, milli)| sku != r.sku || milli != r.milli());
        self.recent = self.recent.map(|m| m + r.milli());
        self.c.run(r, |_| true);
        self.started.insert(job);
        self.busy.insert(job);
        self.out.starts.push(Start { job, placed });
    }

    /// Remembers what was kept for a job before this cycle.
    fn remember(&mut self, job: JobId) {
        let f = &self.c.fleet;
        let was = f.kept.get(&job).map(|k| (k.clone(), f.broken.get(&job).cloned()));
        if was.is_some() {
            self.memo.note_released_reservation();
        }
        self.before.entry(job).or_insert(was);
    }

    pub(crate) fn drop_reservation(&mut self, job: JobId) {
        self.remember(job);
        self.c.fleet.release_reservation_silently(job);
    }

    pub(crate) fn keep(&mut self, work: &Work, kept: CapacityReservation) {
        self.remember(work.job);
        self.c.fleet.reserve_nodes(work, kept);
    }

    pub(crate) fn names(&self, nodes: &[u32]) -> Vec<NodeName> {
        nodes.iter().map(|ix| self.c.fleet.entry(*ix).facts.name.clone()).collect()
    }

    /// Nodes are gathered for the first jobs for which nothing can be reserved because what runs
    /// has no time limit, once they have waited long enough: what is free or becomes free stays
    /// theirs.
    fn gather(&mut self) {
        let patience = self.policy.backfill.patience;
        let turns: Vec<(QueuePosition, Arc<Work>)> = self
            .c
            .queue
            .iter()
            .take(64)
            .filter(|t| !self.c.fleet.kept.contains_key(&t.job))
            .filter_map(|t| self.c.queue.get(t.job).map(|w| (t, w.clone())))
            .filter(|(_, w)| !self.gated(w))
            .collect();
        let gathers = |s: &Self, (t, w): &(QueuePosition, Arc<Work>)| {
            let b = s.c.queue.bucket(t.bucket());
            b.is_some_and(|b| b.hopeless && b.failed.is_some()) && s.now.since(w.since) >= patience
        };
        let Some(last) = turns.iter().rposition(|x| gathers(self, x)) else { return };
        for x in &turns[..=last] {
            if self.gathered.len() >= GATHERING || self.full() {
                return;
            }
            let (t, w) = x;
            if !gathers(self, x) {
                // Whoever is ahead goes first.
                if self.strict_quota(*t).is_none()
                    && !self.still_fails(*t)
                    && self.ask(*t) != AskResult::Started
                {
                    self.mark(*t);
                }
                continue;
            }
            let q = Query::new(&self.c.fleet, w, self.now, u32::MAX, self.c.quota_skus(w));
            if let Some(nodes) = crate::reserve::gathered(&self.c.fleet, &q) {
                let (start, basis, class) = (self.now, Basis::Limits, w.priority);
                let kept = CapacityReservation { start, end: FAR, nodes, basis, class };
                self.keep(w, kept);
                self.gathered.push(t.job);
            }
        }
    }

    /// What is gathered stands against nobody who makes others leave.
    fn scatter(&mut self) {
        for job in std::mem::take(&mut self.gathered) {
            if !self.started.contains(&job) {
                self.drop_reservation(job);
            }
        }
    }

    /// Puts the cluster back as it was: what the plan says happens when it is carried out.
    fn undo(&mut self) {
        for start in &self.out.starts {
            if let Some(r) = self.c.running.remove(&start.job) {
                for s in r.slots() {
                    self.c.fleet.undo_take(start.job, s);
                }
                self.c.count(&r, false);
            }
        }
        for (job, kept) in std::mem::take(&mut self.before) {
            let work = self.c.queue.get(job).cloned();
            self.c.fleet.release_reservation_silently(job);
            if let (Some((k, loss)), Some(w)) = (kept, work) {
                self.c.fleet.reserve_nodes(&w, k);
                self.c.fleet.broken.extend(loss.map(|l| (job, l)));
            }
        }
    }
}

/// Could a job like this have one of these nodes, or one of their domains, as things are?
fn one_helps(f: &crate::Fleet, w: &Work, now: Time, released: impl Iterator<Item = u32>) -> bool {
    let q = Query::new(f, w, now, u32::MAX, u64::MAX);
    let level = match (q.demand.nodes(), q.demand.widest()) {
        (1, _) => Level::Node,
        (_, l) => l,
    };
    let mut asked: BTreeSet<u32> = BTreeSet::new();
    released.filter(|ix| asked.insert(*ix)).filter_map(|ix| f.present(ix)).any(|e| match level {
        Level::Node => e.open() && q.asks.iter().any(|a| e.fits(a)),
        l => may_fit(f.domain_of(e, l), &q),
    })
}

impl crate::Fleet {
    /// SKU of the first node with GPUs of a placement.
    pub(crate) fn sku_on(&self, p: &Placed) -> String {
        let slot = p.slots.iter().find(|s| !s.gpus.is_empty()).or(p.slots.first());
        slot.and_then(|s| self.find(&s.node))
            .map_or_else(String::new, |ix| self.entry(ix).facts.sku.clone())
    }
}
