//! Moves that would let a waiting gang start: checkpointable work goes elsewhere, if the gang
//! gains more by it than the moves lose.

use crate::cluster::{Cluster, Running};
use crate::fleet::CapacityReservation;
use crate::place::{Query, place};
use crate::preempt::find_capacity_by_leaving;
use crate::work::{FAR, Work};
use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::units::{Span, Time};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Waiting gangs that are looked at.
const GANGS: usize = 8;
/// A wait of which nobody knows the end counts as this long.
const UNKNOWN: Span = Span::hours(24);

/// Work that would move, and the gang that would start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Moves {
    /// The waiting gang that would start.
    pub gang: JobId,
    /// Nodes it would get, in the order of its groups.
    pub nodes: Vec<NodeName>,
    /// Who moves, and to which nodes.
    pub moves: Vec<(JobId, Vec<NodeName>)>,
    /// GPU-milliseconds that the moves lose, in thousandths of a GPU.
    pub cost: u128,
    /// GPU-milliseconds that the gang gains.
    pub gain: u128,
}

/// Moves that are worth it, the best gain for its cost first.
#[must_use]
pub fn moves(c: &Cluster, policy: &SitePolicy, now: Time) -> Vec<Moves> {
    let may_leave: BTreeSet<JobId> = c
        .running
        .iter()
        .filter(|(_, r)| r.work.checkpoints && !r.stopping)
        .filter(|(_, r)| now.since(r.placed) >= policy.preemption.min_run)
        .map(|(id, _)| *id)
        .collect();
    if may_leave.is_empty() {
        return Vec::new();
    }
    let gangs = c.queue.iter().take(GANGS).filter_map(|t| c.queue.get(t.job));
    let mut out: Vec<Moves> = gangs
        .filter(|w| c.fleet.kept.get(&w.job).is_none_or(|k| k.basis == Basis::Limits))
        .filter_map(|w| for_gang(c, w, policy, now, &may_leave))
        .collect();
    out.sort_by_key(|m| (std::cmp::Reverse(m.gain.saturating_sub(m.cost)), m.gang));
    out
}

fn for_gang(
    c: &Cluster,
    w: &Arc<Work>,
    policy: &SitePolicy,
    now: Time,
    may_leave: &BTreeSet<JobId>,
) -> Option<Moves> {
    let skus = c.quota_skus(w);
    if skus == 0 || c.user_limit(w, &policy.limits).is_some() {
        return None;
    }
    let q = Query::new(&c.fleet, w, now, policy.hazard.large_gang, skus);
    if place(&c.fleet, &q).is_ok() {
        return None;
    }
    let room = find_capacity_by_leaving(c, w, &q, policy, may_leave)?;
    let wait = c.fleet.kept.get(&w.job).map_or(UNKNOWN, |k| k.start.since(now).min(UNKNOWN));
    let gain = u128::from(w.demand.gpus() * 1000) * u128::from(wait.0);
    if gain <= room.cost || room.victims.is_empty() {
        return None;
    }
    // Everybody who leaves must find room elsewhere, beside what the gang gets.
    let mut after = c.clone();
    let leaving: Vec<Running> =
        room.victims.iter().filter_map(|(j, _)| c.running.get(j).cloned()).collect();
    for r in &leaving {
        after.end(r.work.job, |_| true);
    }
    let (nodes, basis) = (room.nodes.clone(), Basis::Move);
    let kept = CapacityReservation { start: now, end: FAR, nodes, basis, class: w.priority };
    after.fleet.reserve_nodes(w, kept);
    let mut moves = Vec::new();
    for r in leaving {
        let skus = after.quota_skus(&r.work);
        let q = Query::new(&after.fleet, &r.work, now, policy.hazard.large_gang, skus);
        let p = place(&after.fleet, &q).ok()?;
        let to = p.slots.iter().map(|s| s.node.clone()).collect();
        let placement = Placement { slots: p.slots, ..(*r.placement).clone() };
        moves.push((r.work.job, to));
        after.run(Running { placement: Arc::new(placement), ..r }, |_| true);
    }
    let name = |ix: &u32| c.fleet.entry(*ix).facts.name.clone();
    let nodes = room.nodes.iter().map(name).collect();
    Some(Moves { gang: w.job, nodes, moves, cost: room.cost, gain })
}
