//! Waiting jobs in their order, grouped by what they ask for and by whom, so that a cycle asks
//! once for each different question and not once for each job.

#[path = "queue_cut.rs"]
mod cut;

use crate::history::RuntimeEstimate;
use crate::work::{Demand, Work};
use muster_model::ids::JobId;
use muster_model::names::ProjectName;
use muster_model::spec::{Priority, Tier};
use muster_model::units::{Span, Time};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// Jobs that fit or fail alike: the same demand, by the same user, in the same class.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    priority: Reverse<Priority>,
    project: ProjectName,
    user: Arc<str>,
    tier: Tier,
    limit: Option<Span>,
    checkpoints: bool,
    elastic: Option<(u32, u32)>,
    demand: Arc<Demand>,
}

/// A job's age, then its number.
pub(crate) type Ticket = (Time, JobId);

/// Why a bucket was not asked again, and what must change for it to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Failed {
    /// Value of [`Fleet::freed`](crate::Fleet::freed) then.
    pub(crate) freed: u64,
    /// Number of changes of what users and quotas hold then.
    pub(crate) charged: u64,
    /// SKUs that its quota left it then.
    pub(crate) skus: u64,
    /// A limit of the site stopped it then, before anybody looked for room.
    pub(crate) gated: bool,
}

#[derive(Debug, Clone)]
pub(crate) struct Bucket {
    key: Key,
    /// The first of them; all are like it.
    pub(crate) work: Arc<Work>,
    pub(crate) account: usize,
    /// Number of its demand: the same for all that ask for the same.
    pub(crate) shape: u32,
    /// How long they are believed to run.
    pub(crate) belief: RuntimeEstimate,
    pub(crate) tickets: BTreeSet<Ticket>,
    pub(crate) failed: Option<Failed>,
    /// No start could be reserved: what runs has no time limit.
    pub(crate) hopeless: bool,
    /// What was free and held when nobody could make room for it.
    /// Somebody has run long enough to make room from the given moment on.
    pub(crate) claimed: Option<((u64, u64), Time)>,
}

/// A place in the order of the queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct QueuePosition {
    priority: Reverse<Priority>,
    rank: u32,
    since: Time,
    /// The job whose turn it is.
    pub job: JobId,
    bucket: usize,
}

impl QueuePosition {
    pub(crate) fn bucket(&self) -> usize {
        self.bucket
    }
    pub(crate) fn ticket(&self) -> Ticket {
        (self.since, self.job)
    }
}

/// Jobs that wait for room.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    ids: BTreeMap<Key, usize>,
    buckets: Vec<Option<Bucket>>,
    vacant: BTreeSet<usize>,
    /// Numbers of demands, and how many buckets have each.
    shapes: BTreeMap<Arc<Demand>, (u32, usize)>,
    next_shape: u32,
    /// The first of each bucket.
    heads: BTreeSet<QueuePosition>,
    jobs: BTreeMap<JobId, (usize, Arc<Work>)>,
    accounts: BTreeMap<(ProjectName, Arc<str>), usize>,
    /// The buckets of each account, by its number.
    of_account: Vec<BTreeSet<usize>>,
    /// Each account's place in fair share; lower goes first.
    ranks: Vec<u32>,
    /// Set in copies that have only the beginning of a queue.
    cut: Option<cut::QueueCut>,
}

impl Queue {
    /// A job waits.
    pub fn insert(&mut self, work: Arc<Work>) {
        let key = Key {
            priority: Reverse(work.priority),
            project: work.project.clone(),
            user: work.user.clone(),
            tier: work.tier,
            limit: work.limit,
            checkpoints: work.checkpoints,
            elastic: work.elastic,
            demand: work.demand.clone(),
        };
        let account = self.account(&work.project, &work.user);
        let id = match self.ids.get(&key) {
            Some(id) => *id,
            None => {
                let id = self.vacant.pop_first().unwrap_or(self.buckets.len());
                let shape = self.shape(&work.demand);
                let fresh = Bucket {
                    key: key.clone(),
                    work: work.clone(),
                    account,
                    shape,
                    belief: RuntimeEstimate::from_limit(work.limit_ms()),
                    tickets: BTreeSet::new(),
                    failed: None,
                    hopeless: false,
                    claimed: None,
                };
                if id == self.buckets.len() {
                    self.buckets.push(Some(fresh));
                } else {
                    self.buckets[id] = Some(fresh);
                }
                self.ids.insert(key, id);
                if self.of_account.len() <= account {
                    self.of_account.resize_with(account + 1, BTreeSet::new);
                }
                self.of_account[account].insert(id);
                id
            }
        };
        let before = self.head(id);
        if let Some(b) = self.buckets[id].as_mut() {
            b.tickets.insert((work.since, work.job));
        }
        self.head_moved(id, before);
        self.jobs.insert(work.job, (id, work));
    }

    /// A job waits no more.
    pub fn remove(&mut self, job: JobId) {
        let Some((id, work)) = self.jobs.remove(&job) else { return };
        let before = self.head(id);
        let Some(b) = self.buckets[id].as_mut() else { return };
        b.tickets.remove(&(work.since, job));
        let empty = b.tickets.is_empty();
        self.head_moved(id, before);
        if empty && let Some(b) = self.buckets[id].take() {
            self.ids.remove(&b.key);
            self.vacant.insert(id);
            if let Some(ids) = self.of_account.get_mut(b.account) {
                ids.remove(&id);
            }
            if let Some((_, n)) = self.shapes.get_mut(&b.key.demand) {
                *n -= 1;
                if *n == 0 {
                    self.shapes.remove(&b.key.demand);
                }
            }
        }
    }

    /// The number of a demand, for one more bucket.
    fn shape(&mut self, d: &Arc<Demand>) -> u32 {
        if let Some((number, n)) = self.shapes.get_mut(d) {
            *n += 1;
            return *number;
        }
        self.next_shape = self.next_shape.wrapping_add(1);
        self.shapes.insert(d.clone(), (self.next_shape, 1));
        self.next_shape
    }

    fn head(&self, id: usize) -> Option<QueuePosition> {
        let t = self.bucket(id)?.tickets.first()?;
        self.turn(id, *t)
    }

    fn head_moved(&mut self, id: usize, before: Option<QueuePosition>) {
        let now = self.head(id);
        if now != before {
            if let Some(t) = before {
                self.heads.remove(&t);
            }
            self.heads.extend(now);
        }
    }

    /// What is believed of a waiting job, and of all like it.
    pub fn set_estimate(&mut self, job: JobId, belief: RuntimeEstimate) {
        if let Some((id, _)) = self.jobs.get(&job)
            && let Some(b) = self.buckets[*id].as_mut()
        {
            b.belief = belief;
        }
    }

    /// Something was learnt about a user: what is believed of the waiting jobs changes.
    pub fn update_estimates(
        &mut self,
        project: &ProjectName,
        user: &str,
        f: impl Fn(&Work) -> RuntimeEstimate,
    ) {
        let Some(account) = self.account_of(project, user) else { return };
        for id in self.of_account.get(account).into_iter().flatten() {
            if let Some(b) = self.buckets.get_mut(*id).and_then(Option::as_mut) {
                b.belief = f(&b.work);
            }
        }
    }

    fn account(&mut self, project: &ProjectName, user: &Arc<str>) -> usize {
        let key = (project.clone(), user.clone());
        let next = self.accounts.len();
        *self.accounts.entry(key).or_insert(next)
    }

    /// The number of an account, if it has ever waited.
    fn account_of(&self, project: &ProjectName, user: &str) -> Option<usize> {
        self.accounts.get(&(project.clone(), Arc::from(user))).copied()
    }

    /// The accounts that have ever waited, in the order of projects and users, with their numbers.
    pub fn accounts(&self) -> impl ExactSizeIterator<Item = (&(ProjectName, Arc<str>), usize)> {
        self.accounts.iter().map(|(k, i)| (k, *i))
    }

    /// Each account's place in fair share, by number; lower goes first. Missing ones are even.
    pub fn set_ranks(&mut self, ranks: Vec<u32>) {
        if self.ranks != ranks {
            self.ranks = ranks;
            self.heads = (0..self.buckets.len()).filter_map(|id| self.head(id)).collect();
        }
    }

    pub(crate) fn rank(&self, account: usize) -> u32 {
        self.ranks.get(account).copied().unwrap_or(0)
    }

    pub(crate) fn bucket(&self, id: usize) -> Option<&Bucket> {
        self.buckets.get(id)?.as_ref()
    }

    pub(crate) fn bucket_mut(&mut self, id: usize) -> Option<&mut Bucket> {
        self.buckets.get_mut(id)?.as_mut()
    }

    pub(crate) fn buckets(&self) -> impl Iterator<Item = (usize, &Bucket)> {
        self.buckets.iter().enumerate().filter_map(|(i, b)| b.as_ref().map(|b| (i, b)))
    }

    pub(crate) fn turn(&self, id: usize, t: Ticket) -> Option<QueuePosition> {
        let b = self.bucket(id)?;
        Some(QueuePosition {
            priority: b.key.priority,
            rank: self.rank(b.account),
            since: t.0,
            job: t.1,
            bucket: id,
        })
    }

    /// The next ticket of the same bucket.
    pub(crate) fn after(&self, turn: &QueuePosition) -> Option<QueuePosition> {
        use std::ops::Bound::{Excluded, Unbounded};
        let b = self.bucket(turn.bucket)?;
        let t = b.tickets.range((Excluded(turn.ticket()), Unbounded)).next()?;
        self.turn(turn.bucket, *t)
    }

    /// Heads of all buckets, in their order.
    pub(crate) fn heads(&self) -> impl Iterator<Item = QueuePosition> + '_ {
        self.heads.iter().copied()
    }

    /// A waiting job.
    #[must_use]
    pub fn get(&self, job: JobId) -> Option<&Arc<Work>> {
        self.jobs.get(&job).map(|(_, w)| w)
    }

    /// Its place in the order.
    #[must_use]
    pub fn place(&self, job: JobId) -> Option<QueuePosition> {
        let (id, w) = self.jobs.get(&job)?;
        self.turn(*id, (w.since, job))
    }

    /// Waiting jobs in their order. The first of each group is found at once, the rest as they
    /// are asked for.
    pub fn iter(&self) -> impl Iterator<Item = QueuePosition> + '_ {
        let mut heads = self.heads.iter().copied().peekable();
        let mut rest: BTreeSet<QueuePosition> = BTreeSet::new();
        std::iter::from_fn(move || {
            let t = match (heads.peek(), rest.first()) {
                (Some(h), Some(r)) if r < h => rest.pop_first(),
                (Some(_), _) => heads.next(),
                (None, _) => rest.pop_first(),
            }?;
            rest.extend(self.after(&t));
            Some(t)
        })
    }

    /// How many wait before a job under these places in fair share, and the first few of them.
    #[must_use]
    pub fn ahead(&self, job: JobId, ranks: &[u32], few: usize) -> (usize, Vec<JobId>) {
        let Some((id, w)) = self.jobs.get(&job) else { return (0, Vec::new()) };
        let of = |b: &Bucket| (b.key.priority, ranks.get(b.account).copied().unwrap_or(0));
        let Some(own) = self.bucket(*id).map(of) else { return (0, Vec::new()) };
        let mine = (w.since, job);
        let mut count = 0;
        let mut first: BinaryHeap<(Reverse<Priority>, u32, Ticket)> = BinaryHeap::new();
        for (_, b) in self.buckets() {
            let class = of(b);
            let before: Vec<Ticket> = match class.cmp(&own) {
                std::cmp::Ordering::Less => {
                    count += b.tickets.len();
                    b.tickets.iter().take(few).copied().collect()
                }
                std::cmp::Ordering::Equal => {
                    count += b.tickets.range(..mine).count();
                    b.tickets.range(..mine).take(few).copied().collect()
                }
                std::cmp::Ordering::Greater => Vec::new(),
            };
            first.extend(before.into_iter().map(|t| (class.0, class.1, t)));
            while first.len() > few {
                first.pop();
            }
        }
        (count, first.into_sorted_vec().into_iter().map(|(_, _, t)| t.1).collect())
    }

    /// Does the first of two waiting jobs come before the second under these places in fair share?
    #[must_use]
    pub fn is_ahead(&self, first: JobId, second: JobId, ranks: &[u32]) -> bool {
        let turn = |job: JobId| {
            let (id, w) = self.jobs.get(&job)?;
            let b = self.bucket(*id)?;
            Some((b.key.priority, ranks.get(b.account).copied().unwrap_or(0), w.since, job))
        };
        turn(first).zip(turn(second)).is_some_and(|(a, b)| a < b)
    }

    /// Waiting jobs by number.
    pub fn jobs(&self) -> impl Iterator<Item = JobId> + '_ {
        self.jobs.keys().copied()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.jobs.len()
    }

    /// Does nobody wait?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    /// How many of a user wait.
    #[must_use]
    pub fn waiting(&self, project: &ProjectName, user: &str) -> usize {
        let account = self.account_of(project, user);
        let ids = account.and_then(|a| self.of_account.get(a)).into_iter().flatten();
        ids.filter_map(|id| self.bucket(*id)).map(|b| b.tickets.len()).sum()
    }

    /// Every bucket is asked again.
    pub fn forget_failures(&mut self) {
        for b in self.buckets.iter_mut().flatten() {
            b.failed = None;
        }
    }
}

#[cfg(test)]
#[path = "queue_tests.rs"]
mod tests;
