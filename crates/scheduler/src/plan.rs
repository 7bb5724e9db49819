//! One cycle: which waiting gangs start now.

use crate::fleet::Fleet;
use crate::place::{Placed, place, possible};
use crate::queue::{Queue, Ticket};
use muster_model::units::{Span, Time};

/// What operators may choose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// Smaller work may pass a gang that does not fit until the gang has waited this long; then
    /// the room that becomes free is kept for it.
    pub patience: Span,
    /// Most starts in one cycle, so that a cycle stays short.
    pub max_starts: usize,
}

impl Default for Policy {
    fn default() -> Self {
        // Ten minutes is longer than most small jobs and shorter than a person's patience. A
        // thousand starts are a few milliseconds of planning and one group commit.
        Policy { patience: Span::mins(10), max_starts: 1000 }
    }
}

/// A gang that starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Start {
    /// Whose turn it was.
    pub ticket: Ticket,
    /// What it gets.
    pub placed: Placed,
}

/// The difference that a cycle makes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Plan {
    /// Gangs that start, in order.
    pub starts: Vec<Start>,
    /// The cycle stopped at its limit; another one has more to do.
    pub more: bool,
}

/// Plans one cycle. The fleet is left as it was; `queue` only remembers which demands did not
/// fit, so that they are asked again when something has become free.
pub fn plan(fleet: &mut Fleet, queue: &mut Queue, policy: &Policy, now: Time) -> Plan {
    let mut out = Plan::default();
    let freed = fleet.freed();
    let mut barrier = barrier(fleet, queue, policy, now);
    // Heads of the demands worth asking, in queue order.
    let mut heads: std::collections::BTreeMap<Ticket, crate::queue::Demand> = queue
        .buckets
        .iter()
        .filter(|(_, b)| b.failed_at != Some(freed))
        .filter_map(|(d, b)| b.tickets.first().map(|t| (*t, d.clone())))
        .collect();
    while let Some((ticket, demand)) = heads.pop_first() {
        if barrier.is_some_and(|b| ticket > b) {
            break;
        }
        if out.starts.len() >= policy.max_starts {
            out.more = true;
            break;
        }
        if let Ok(placed) = place(fleet, &demand) {
            for s in &placed.slots {
                fleet.take(s);
            }
            out.starts.push(Start { ticket, placed });
            let next = queue.buckets.get(&demand).and_then(|b| {
                b.tickets
                    .range((std::ops::Bound::Excluded(ticket), std::ops::Bound::Unbounded))
                    .next()
            });
            if let Some(next) = next {
                heads.insert(*next, demand);
            }
        } else {
            if let Some(b) = queue.buckets.get_mut(&demand) {
                b.failed_at = Some(freed);
            }
            if now.since(ticket.since) >= policy.patience && possible(fleet, &demand) {
                barrier = Some(barrier.map_or(ticket, |b| b.min(ticket)));
            }
        }
    }
    for start in &out.starts {
        for s in &start.placed.slots {
            fleet.untake(s);
        }
    }
    out
}

/// The first job that has waited past patience and does not fit: nobody passes it. A gang that
/// could not start on an empty fleet stops nobody.
fn barrier(fleet: &Fleet, queue: &mut Queue, policy: &Policy, now: Time) -> Option<Ticket> {
    let (freed, shape) = (fleet.freed(), fleet.shape());
    let mut first: Option<Ticket> = None;
    for (demand, b) in &mut queue.buckets {
        if b.failed_at != Some(freed) {
            continue;
        }
        let Some(t) = b.tickets.iter().find(|t| now.since(t.since) >= policy.patience) else {
            continue;
        };
        if first.is_some_and(|f| f < *t) {
            continue;
        }
        if b.possible.is_none_or(|(at, _)| at != shape) {
            b.possible = Some((shape, possible(fleet, demand)));
        }
        if b.possible.is_some_and(|(_, yes)| yes) {
            first = Some(*t);
        }
    }
    first
}
