//! Waiting jobs in their order, grouped by what they ask for, so that a cycle asks once for
//! each different demand and not once for each job.

use muster_model::ids::JobId;
use muster_model::spec::{Group, Priority};
use muster_model::topology::Level;
use muster_model::units::Time;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What a gang asks for. Equal demands fit or fail alike.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Demand {
    /// Groups of the gang.
    pub groups: Arc<[Group]>,
    /// The whole gang in one domain of this level, or not at all.
    pub required: Option<Level>,
    /// The same as a wish.
    pub preferred: Option<Level>,
    /// Only on nodes that can pretend.
    pub simulated: bool,
}

impl Demand {
    /// Nodes in all.
    #[must_use]
    pub fn nodes(&self) -> u32 {
        self.groups.iter().map(|g| g.nodes).sum()
    }
    /// GPUs in all.
    #[must_use]
    pub fn gpus(&self) -> u64 {
        self.groups.iter().map(|g| u64::from(g.nodes) * u64::from(g.gpus)).sum()
    }
}

/// A job's place in the queue: priority class, then age, then number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Ticket {
    priority: Reverse<Priority>,
    /// When it was submitted.
    pub since: Time,
    /// The job.
    pub job: JobId,
}

impl Ticket {
    /// A place in the queue.
    #[must_use]
    pub fn new(priority: Priority, since: Time, job: JobId) -> Ticket {
        Ticket { priority: Reverse(priority), since, job }
    }
}

#[derive(Debug, Clone, Default)]
pub(crate) struct Bucket {
    pub(crate) tickets: BTreeSet<Ticket>,
    /// Value of [`Fleet::freed`](crate::Fleet::freed) at which this demand last did not fit.
    pub(crate) failed_at: Option<u64>,
    /// Whether it would fit on an empty fleet, and the [`Fleet::shape`](crate::Fleet::shape)
    /// this was found for.
    pub(crate) possible: Option<(u64, bool)>,
}

/// Jobs that wait for room.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    pub(crate) buckets: BTreeMap<Demand, Bucket>,
    all: BTreeMap<Ticket, Demand>,
}

impl Queue {
    /// A job waits.
    pub fn insert(&mut self, ticket: Ticket, demand: Demand) {
        self.buckets.entry(demand.clone()).or_default().tickets.insert(ticket);
        self.all.insert(ticket, demand);
    }

    /// A job waits no more.
    pub fn remove(&mut self, ticket: &Ticket) {
        let Some(demand) = self.all.remove(ticket) else { return };
        if let Some(b) = self.buckets.get_mut(&demand) {
            b.tickets.remove(ticket);
            if b.tickets.is_empty() {
                self.buckets.remove(&demand);
            }
        }
    }

    /// Jobs that wait, in order.
    pub fn iter(&self) -> impl Iterator<Item = (&Ticket, &Demand)> {
        self.all.iter()
    }

    /// Jobs before this one, in order.
    pub fn before(&self, ticket: &Ticket) -> impl Iterator<Item = (&Ticket, &Demand)> {
        self.all.range(..*ticket)
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Does nobody wait?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.all.is_empty()
    }
}
