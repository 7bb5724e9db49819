//! The beginning of a long queue, as a queue of its own.

use super::{Bucket, Queue, QueuePosition, Ticket};
use muster_model::ids::JobId;
use std::collections::BTreeSet;
use std::ops::Bound::{Excluded, Unbounded};

/// Where a queue was cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct QueueCut {
    /// The last that was taken in its turn.
    edge: Option<QueuePosition>,
    /// How many were left out.
    left_out: usize,
}

impl Queue {
    /// The first so many under these places in fair share, and `also` wherever they wait. Where the places are those
    /// that were set it costs what is taken, not what waits.
    pub(crate) fn cut(
        &self,
        most: usize,
        ranks: Vec<u32>,
        also: impl Iterator<Item = JobId>,
    ) -> Queue {
        let first = self.first(most, &ranks);
        // Accounts and demands have the numbers that they had: places in fair share and what is known of failures go
        // by them.
        let mut out = Queue {
            next_shape: self.next_shape,
            accounts: self.accounts.clone(),
            of_account: vec![BTreeSet::new(); self.of_account.len()],
            ranks,
            ..Queue::default()
        };
        let mut ids: Vec<Option<usize>> = vec![None; self.buckets.len()];
        for job in first.iter().map(|t| t.job).chain(also) {
            let Some((from, work)) = self.jobs.get(&job) else { continue };
            let Some(group) = self.bucket(*from) else { continue };
            let id = *ids[*from].get_or_insert_with(|| out.copy_group(group));
            if let Some(b) = out.bucket_mut(id) {
                b.tickets.insert((work.since, job));
            }
            out.jobs.insert(job, (id, work.clone()));
        }
        out.heads = (0..out.buckets.len()).filter_map(|id| out.head(id)).collect();
        let left_out = self.len().saturating_sub(out.len());
        out.cut = (left_out > 0).then(|| QueueCut { edge: first.last().copied(), left_out });
        out
    }

    /// A group like this one in which nobody waits yet.
    fn copy_group(&mut self, b: &Bucket) -> usize {
        let id = self.buckets.len();
        self.ids.insert(b.key.clone(), id);
        self.shapes.entry(b.key.demand.clone()).or_insert((b.shape, 0)).1 += 1;
        if let Some(ids) = self.of_account.get_mut(b.account) {
            ids.insert(id);
        }
        self.buckets.push(Some(Bucket {
            key: b.key.clone(),
            work: b.work.clone(),
            account: b.account,
            shape: b.shape,
            belief: b.belief,
            tickets: BTreeSet::new(),
            failed: b.failed,
            hopeless: b.hopeless,
            claimed: b.claimed,
        }));
        id
    }

    /// The first so many in their order under these places in fair share.
    fn first(&self, most: usize, ranks: &[u32]) -> Vec<QueuePosition> {
        if self.ranks == ranks {
            return self.iter().take(most).collect();
        }
        let place = |bucket: usize, b: &Bucket, (since, job): Ticket| QueuePosition {
            priority: b.key.priority,
            rank: ranks.get(b.account).copied().unwrap_or(0),
            since,
            job,
            bucket,
        };
        let head = |(id, b): (usize, &Bucket)| b.tickets.first().map(|t| place(id, b, *t));
        let mut heads: Vec<QueuePosition> = self.buckets().filter_map(head).collect();
        // Nobody goes before the first of the own group: groups beyond so many have none of the first.
        if heads.len() > most {
            heads.select_nth_unstable(most);
            heads.truncate(most);
        }
        let mut rest: BTreeSet<QueuePosition> = heads.into_iter().collect();
        let mut out = Vec::new();
        while out.len() < most {
            let Some(t) = rest.pop_first() else { break };
            if let Some(b) = self.bucket(t.bucket) {
                let next = b.tickets.range((Excluded(t.ticket()), Unbounded)).next();
                rest.extend(next.map(|n| place(t.bucket, b, *n)));
            }
            out.push(t);
        }
        out
    }

    /// Were waiting jobs left out of this copy?
    #[must_use]
    pub fn is_cut(&self) -> bool {
        self.cut.is_some()
    }

    /// How many wait, with those that were left out of this copy.
    #[must_use]
    pub fn len_in_all(&self) -> usize {
        self.len() + self.cut.map_or(0, |c| c.left_out)
    }

    /// Does everybody who waits before a job wait in this copy too?
    pub(crate) fn has_all_before(&self, job: JobId) -> bool {
        let Some(cut) = self.cut else { return true };
        let own = cut.edge.zip(self.place(job));
        own.is_some_and(|(edge, own)| own.job == edge.job || own < edge)
    }
}
