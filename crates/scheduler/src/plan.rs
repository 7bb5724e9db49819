//! One cycle: who starts now, who is promised a start, who must make room.

use crate::cluster::{Cluster, Running};
use crate::fleet::Kept;
use crate::place::{Placed, Query, may_fit, place, place_on};
use crate::queue::{Failed, Turn};
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::{Basis, Rank};
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::spec::Priority;
use muster_model::topology::Level;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Most starts in one cycle: a few milliseconds of planning and one group commit.
pub const MAX_STARTS: usize = 1000;
/// Jobs that nodes are gathered for at once when nothing that runs has a time limit.
const GATHERING: usize = 4;

/// A gang that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Which.
    pub job: JobId,
    /// What it gets.
    pub placed: Placed,
}

/// A start that is promised.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Promised {
    /// To whom.
    pub job: JobId,
    /// Not later than this.
    pub at: Time,
    /// Nodes that are kept for it, in the order of its groups.
    pub nodes: Vec<NodeName>,
    /// What it rests on.
    pub basis: Basis,
    /// Why it is later than was promised before, if it is.
    pub moved: Option<String>,
}

/// A job that makes room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Victim {
    /// Which.
    pub job: JobId,
    /// For whom.
    pub by: JobId,
    /// What ranks the other one higher.
    pub rank: Rank,
}

/// An elastic gang that gets another size.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Resize {
    /// Which.
    pub job: JobId,
    /// Nodes.
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
    /// Starts that are promised.
    pub promises: Vec<Promised>,
    /// Jobs that make room.
    pub victims: Vec<Victim>,
    /// Elastic gangs that get another size.
    pub resizes: Vec<Resize>,
    /// The cycle stopped at its limit; another one has more to do.
    pub more: bool,
    /// Time alone may change the plan: look again then.
    pub look_again: Option<Time>,
}

/// What came of asking for one job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Asked {
    Started,
    /// A quota or a limit stops it; room is not the matter.
    Gated,
    NoRoom,
}

pub(crate) struct Cycle<'c> {
    pub(crate) c: &'c mut Cluster,
    pub(crate) policy: &'c SitePolicy,
    pub(crate) now: Time,
    pub(crate) out: Plan,
    pub(crate) started: BTreeSet<JobId>,
    /// Jobs that are being started, stopped or resized by this cycle.
    pub(crate) busy: BTreeSet<JobId>,
    /// What was kept for jobs before this cycle, to be put back.
    before: BTreeMap<JobId, Option<Kept>>,
    /// GPUs that started lately, in thousandths, when starts are staggered.
    recent: Option<u64>,
    /// Jobs that wait for nothing but the next window of starts.
    pub(crate) late: BTreeSet<JobId>,
}

/// Who is asked first: by class, then by what is gained for the room taken.
type Preference = (std::cmp::Reverse<Priority>, std::cmp::Reverse<u128>);

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
    };
    if let Some(edge) = cycle.c.fleet.pass_edges(now)
        && !cycle.c.queue.is_empty()
    {
        cycle.again(edge);
    }
    cycle.gather();
    cycle.starts();
    if !cycle.out.more {
        cycle.preempt();
        cycle.grow();
    }
    let started = &cycle.started;
    cycle.out.promises.retain(|p| !started.contains(&p.job));
    cycle.undo();
    cycle.out
}

impl Cycle<'_> {
    /// The first jobs of the queue start or are promised a start, in their order; then everybody
    /// may start who keeps no promise from being kept, those first who gain most for the room
    /// that they take.
    fn starts(&mut self) {
        if self.policy.backfill.mode == BackfillMode::Easy {
            self.in_queue_order();
            return;
        }
        let most = self.policy.backfill.promises as usize;
        let first: Vec<Turn> = self.c.queue.iter().take(most).collect();
        self.hasten(&first);
        let mut promised: BTreeMap<usize, Vec<Turn>> = BTreeMap::new();
        let mut hopeless: BTreeSet<usize> = BTreeSet::new();
        for t in &first {
            if self.full() {
                return;
            }
            let stands =
                self.c.fleet.kept.contains_key(&t.job) && !self.c.fleet.broken.contains(&t.job);
            if !stands && !self.start_or_promise(*t, &mut hopeless) {
                continue;
            }
            if !self.started.contains(&t.job) {
                promised.entry(t.bucket()).or_default().push(*t);
            }
        }
        self.strictly();
        let mut heads: BTreeSet<(Preference, Turn)> = BTreeSet::new();
        let turns: Vec<Turn> = self.c.queue.heads().collect();
        for t in turns {
            let strict = self.strict_quota(t).is_some();
            let due = promised.get(&t.bucket()).is_some_and(|p| p.iter().any(|t| self.due(t.job)));
            if !strict && (due || !self.still_fails(t)) {
                self.push(&mut heads, t);
            }
        }
        while let Some((_, turn)) = heads.pop_first() {
            if self.full() {
                self.out.more = true;
                return;
            }
            let asked =
                if self.started.contains(&turn.job) { Asked::Started } else { self.ask(turn) };
            if asked == Asked::Started {
                if let Some(next) = self.c.queue.after(&turn) {
                    self.push(&mut heads, next);
                }
                continue;
            }
            self.mark(turn);
            // Those behind it may still have the very nodes that are kept for them.
            for t in promised.get(&turn.bucket()).cloned().unwrap_or_default() {
                if t != turn && !self.started.contains(&t.job) {
                    self.start_on_kept(t.job);
                }
            }
        }
    }

    /// One that has no promise yet starts if it can, or is promised a start. False when neither.
    fn start_or_promise(&mut self, t: Turn, hopeless: &mut BTreeSet<usize>) -> bool {
        let patient = self.policy.backfill.mode == BackfillMode::Aggressive;
        if !patient && self.strict_quota(t).is_none() && !self.still_fails(t) {
            match self.ask(t) {
                Asked::Started => return true,
                Asked::Gated => {
                    self.mark(t);
                    return false;
                }
                Asked::NoRoom => self.mark(t),
            }
        }
        self.promise(t, hopeless)
    }

    /// First come, first served: the first that does not fit is promised a start, and those
    /// behind it pass in their order if they do not delay it.
    fn in_queue_order(&mut self) {
        let mut heads: BTreeSet<Turn> = self.c.queue.heads().collect();
        let mut head: Option<JobId> = None;
        while let Some(t) = heads.pop_first() {
            if self.full() {
                self.out.more = true;
                return;
            }
            if head.is_some() && self.still_fails(t) {
                continue;
            }
            match self.ask(t) {
                Asked::Started => {
                    if let Some(next) = self.c.queue.after(&t) {
                        heads.insert(next);
                    }
                }
                asked => {
                    self.mark(t);
                    if asked == Asked::NoRoom && head.is_none() {
                        head = Some(t.job);
                        // What is kept for it is found anew each time.
                        self.promise_anew(t);
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
        let turns: Vec<Turn> = self
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
            if self.still_fails(t) || self.ask(t) != Asked::Started {
                self.mark(t);
                stopped.insert(q);
            }
        }
    }

    fn full(&self) -> bool {
        self.out.starts.len() >= MAX_STARTS
    }

    /// Remembers that jobs like this one did not fit.
    fn mark(&mut self, t: Turn) {
        if self.late.contains(&t.job) {
            return;
        }
        let (freed, charged) = (self.c.fleet.freed(), self.c.charged());
        if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
            b.failed = Some(Failed { freed, charged });
        }
    }

    /// Must it start now for its promise to be kept?
    fn due(&self, job: JobId) -> bool {
        self.c.fleet.kept.get(&job).is_some_and(|k| k.start <= self.now)
    }

    fn push(&self, heads: &mut BTreeSet<(Preference, Turn)>, t: Turn) {
        let Some(b) = self.c.queue.bucket(t.bucket()) else { return };
        let gain = if self.policy.backfill.predict { b.belief.rank(b.work.width()) } else { 0 };
        heads.insert(((std::cmp::Reverse(b.work.priority), std::cmp::Reverse(gain)), t));
    }

    fn start_on_kept(&mut self, job: JobId) {
        let Some(work) = self.c.queue.get(job).cloned() else { return };
        let skus = self.c.quota_skus(&work);
        if self.gated(&work) || (skus == 0 && work.demand.gpus() > 0) || self.staggered(&work) {
            return;
        }
        let f = &self.c.fleet;
        let Some(kept) = f.kept.get(&job) else { return };
        let q = Query::new(f, &work, self.now, self.policy.hazard.large_gang, skus);
        if let Ok(placed) = place_on(f, &q, &kept.nodes) {
            self.start(work, placed);
        }
    }

    fn strict_quota(&self, t: Turn) -> Option<usize> {
        let b = self.c.queue.bucket(t.bucket())?;
        self.c.ledger.strict(&b.work.project)
    }

    /// Has nothing changed that could let this group of jobs start? Remembers what it looked at.
    fn still_fails(&mut self, t: Turn) -> bool {
        let Some(b) = self.c.queue.bucket(t.bucket()) else { return true };
        let Some(failed) = b.failed else { return false };
        if failed.charged != self.c.charged() && !self.c.ledger.is_empty() {
            return false;
        }
        let limits = &self.policy.limits;
        if failed.charged != self.c.charged()
            && (limits.gpus_per_user.is_some() || limits.running_jobs_per_user.is_some())
        {
            return false;
        }
        let f = &self.c.fleet;
        let Some(released) = f.released_since(failed.freed) else { return false };
        let q = Query::new(f, &b.work, self.now, u32::MAX, u64::MAX);
        let level = match (q.demand.nodes(), q.demand.widest()) {
            (1, _) => Level::Node,
            (_, l) => l,
        };
        let smallest = b.work.elastic.is_some();
        let mut asked: BTreeSet<u32> = BTreeSet::new();
        for ix in released {
            if !asked.insert(ix) {
                continue;
            }
            let e = f.entry(ix);
            let helps = match level {
                _ if smallest => true,
                Level::Node => e.open() && q.asks.iter().any(|a| e.fits(a)),
                l => may_fit(f.domain_of(e, l), &q),
            };
            if helps {
                return false;
            }
        }
        let (freed, charged) = (f.freed(), self.c.charged());
        if let Some(b) = self.c.queue.bucket_mut(t.bucket()) {
            b.failed = Some(Failed { freed, charged });
        }
        true
    }

    /// Asks for one job: starts it if it may and if there is room.
    fn ask(&mut self, turn: Turn) -> Asked {
        let Some(work) = self.c.queue.get(turn.job).cloned() else { return Asked::Gated };
        if self.gated(&work) || self.staggered(&work) {
            return Asked::Gated;
        }
        let skus = self.c.quota_skus(&work);
        if skus == 0 && work.demand.gpus() > 0 {
            return Asked::Gated;
        }
        if self.start_as(&work, skus) {
            return Asked::Started;
        }
        if let Some((min, _)) = work.elastic
            && self.start_smaller(&work, min, skus)
        {
            return Asked::Started;
        }
        Asked::NoRoom
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
        let placed = own.and_then(|k| place_on(f, &q, &k.nodes).ok()).or_else(|| place(f, &q).ok());
        let Some(placed) = placed else { return false };
        self.start(work.clone(), placed);
        true
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

    fn start(&mut self, work: Arc<Work>, placed: Placed) {
        let job = work.job;
        self.keep_nothing(job);
        let sku = self.c.fleet.sku_on(&placed);
        let placement = Placement {
            slots: placed.slots.clone(),
            port: 0,
            domain: String::new(),
            level: placed.level,
            fabric: placed.fabric,
            cap_watts: None,
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
        self.recent = self.recent.map(|m| m + r.milli());
        self.c.run(r, |_| true);
        self.started.insert(job);
        self.busy.insert(job);
        self.out.starts.push(Start { job, placed });
    }

    /// Remembers what was kept for a job before this cycle.
    fn remember(&mut self, job: JobId) {
        let was = self.c.fleet.kept.get(&job).cloned();
        self.before.entry(job).or_insert(was);
    }

    pub(crate) fn keep_nothing(&mut self, job: JobId) {
        self.remember(job);
        self.c.fleet.unkeep_silently(job);
    }

    pub(crate) fn keep(&mut self, work: &Work, kept: Kept) {
        self.remember(work.job);
        self.c.fleet.keep_ix(work.job, &work.demand, kept);
    }

    pub(crate) fn names(&self, nodes: &[u32]) -> Vec<NodeName> {
        nodes.iter().map(|ix| self.c.fleet.entry(*ix).facts.name.clone()).collect()
    }

    /// Nodes are gathered for the first jobs that cannot be promised anything because what runs
    /// has no time limit, once they have waited long enough: what is free or becomes free stays
    /// theirs.
    fn gather(&mut self) {
        let patience = self.policy.backfill.patience;
        let waiting: Vec<(JobId, Arc<Work>)> = self
            .c
            .queue
            .iter()
            .take(64)
            .filter(|t| {
                self.c.queue.bucket(t.bucket()).is_some_and(|b| b.hopeless && b.failed.is_some())
            })
            .filter(|t| !self.c.fleet.kept.contains_key(&t.job))
            .filter_map(|t| self.c.queue.get(t.job).map(|w| (t.job, w.clone())))
            .filter(|(_, w)| self.now.since(w.since) >= patience && !self.gated(w))
            .take(GATHERING)
            .collect();
        for (_, w) in waiting {
            let q = Query::new(&self.c.fleet, &w, self.now, u32::MAX, self.c.quota_skus(&w));
            if let Some(nodes) = crate::promise::gathered(&self.c.fleet, &q) {
                let kept = Kept { start: self.now, end: FAR, nodes, basis: Basis::Limits };
                self.keep(&w, kept);
            }
        }
    }

    /// Puts the cluster back as it was: what the plan says happens when it is carried out.
    fn undo(&mut self) {
        for start in &self.out.starts {
            if let Some(r) = self.c.running.remove(&start.job) {
                for s in r.slots() {
                    self.c.fleet.untake(start.job, s);
                }
                self.c.count(&r, false);
            }
        }
        for (job, kept) in std::mem::take(&mut self.before) {
            let demand = self.c.queue.get(job).map(|w| w.demand.clone());
            let broken = self.c.fleet.broken.contains(&job);
            self.c.fleet.unkeep_silently(job);
            if let (Some(k), Some(d)) = (kept, demand) {
                self.c.fleet.keep_ix(job, &d, k);
                if broken {
                    self.c.fleet.broken.insert(job);
                }
            }
        }
    }
}

impl crate::Fleet {
    /// SKU of the first node with GPUs of a placement.
    pub(crate) fn sku_on(&self, p: &Placed) -> String {
        let slot = p.slots.iter().find(|s| !s.gpus.is_empty()).or(p.slots.first());
        slot.and_then(|s| self.find(&s.node))
            .map_or_else(String::new, |ix| self.entry(ix).facts.sku.clone())
    }
}
