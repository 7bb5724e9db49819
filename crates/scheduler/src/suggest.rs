//! The smallest changes to what a job asks for that would start it now: each is tried, none is
//! guessed.

use crate::cluster::Cluster;
use crate::place::{Placed, Query, place};
use crate::words::plural;
use crate::work::{Demand, Work};
use muster_model::policy::SitePolicy;
use muster_model::spec::Group;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Suggestions shown.
const SHOWN: usize = 4;

/// Fewer nodes of the same kind.
pub(crate) fn fewer_nodes(d: &Demand, have: u32) -> Option<String> {
    let [g] = &d.groups[..] else { return None };
    (have > 0 && have < g.nodes)
        .then(|| format!("ask for at most {} of this kind", plural(have.into(), "node")))
}

/// Changes that would start the job now, on the SKUs that its quota leaves it.
pub(crate) fn smaller(
    c: &Cluster,
    w: &Work,
    policy: &SitePolicy,
    now: Time,
    skus: u64,
) -> Vec<String> {
    let try_it = |w: &Work| -> Option<Placed> {
        let q = Query::new(&c.fleet, w, now, policy.hazard.large_gang, skus);
        place(&c.fleet, &q).ok()
    };
    let with = |d: Demand| Work { demand: Arc::new(d), ..w.clone() };
    let mut out = Vec::new();
    if let Some(level) = w.demand.required
        && let Some(p) = try_it(&with(Demand { required: None, ..(*w.demand).clone() }))
    {
        let leaves = spans(c, &p);
        out.push(format!(
            "drop `topology.required: {level}`: it would start now inside one {}{leaves}",
            p.level
        ));
    }
    if w.demand.segment.is_some()
        && try_it(&with(Demand { segment: None, ..(*w.demand).clone() })).is_some()
    {
        out.push("drop `topology.segment`: it would start now".into());
    }
    if let Some(limit) = shorter(w, &try_it) {
        out.push(format!("set a time limit of at most {limit}: it would start now and be over before what is reserved for others begins"));
    }
    if let [g] = &w.demand.groups[..] {
        out.extend(fewer(w, g, &try_it));
        if g.sku.is_some() {
            let groups: Arc<[Group]> = [Group { sku: None, ..g.clone() }].into();
            if try_it(&with(Demand { groups, ..(*w.demand).clone() })).is_some() {
                out.push("leave `sku` out: another kind of GPU is free now".into());
            }
        }
    }
    out.truncate(SHOWN);
    out
}

/// Over how many leaves a placement goes.
fn spans(c: &Cluster, p: &Placed) -> String {
    let mut leaves: Vec<u32> = p
        .slots
        .iter()
        .filter_map(|s| c.fleet.find(&s.node))
        .map(|ix| c.fleet.entry(ix).domains[2])
        .collect();
    leaves.sort_unstable();
    leaves.dedup();
    if leaves.len() > 1 { format!(" on {} leaves", leaves.len()) } else { String::new() }
}

/// The longest time limit in whole minutes with which it would fit before what is kept begins.
fn shorter(w: &Work, try_it: &impl Fn(&Work) -> Option<Placed>) -> Option<Span> {
    // Less is of no use to anybody; more is as good as none.
    const MINUTES: (u64, u64) = (5, 30 * 24 * 60);
    let fits = |m: u64| try_it(&Work { limit: Some(Span::mins(m)), ..w.clone() }).is_some();
    let most = w.limit.map_or(MINUTES.1, |l| (l.0.saturating_sub(1) / 60_000).min(MINUTES.1));
    if most < MINUTES.0 || !fits(MINUTES.0) {
        return None;
    }
    // What fits for some time fits for less.
    let (mut low, mut high) = (MINUTES.0, most + 1);
    while high - low > 1 {
        let mid = low.midpoint(high);
        if fits(mid) { low = mid } else { high = mid }
    }
    Some(Span::mins(low))
}

/// Fewer nodes, or fewer GPUs on each.
fn fewer(w: &Work, g: &Group, try_it: &impl Fn(&Work) -> Option<Placed>) -> Option<String> {
    let fits =
        |n: u32| try_it(&Work { demand: Arc::new(w.demand.resized(n)), ..w.clone() }).is_some();
    if g.nodes > 1 && w.demand.segment.is_none() && fits(1) {
        let (mut low, mut high) = (1, g.nodes);
        while high - low > 1 {
            let mid = low.midpoint(high);
            if fits(mid) { low = mid } else { high = mid }
        }
        return Some(format!(
            "ask for {} instead of {}: that would start now",
            plural(low.into(), "node"),
            g.nodes
        ));
    }
    let most = (1..g.gpus).rev().find(|&n| {
        let one = Group { gpus: n, ranks: g.ranks.min(n), ..g.clone() };
        let groups: Arc<[Group]> = [one].into();
        try_it(&Work { demand: Arc::new(Demand { groups, ..(*w.demand).clone() }), ..w.clone() })
            .is_some()
    })?;
    Some(format!(
        "ask for {} a node instead of {}: that would start now",
        plural(most.into(), "GPU"),
        g.gpus
    ))
}
