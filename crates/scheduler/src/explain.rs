//! Why a job waits, from the predicates that decided it, and what would start it sooner.

use crate::fleet::{Block, DOMAIN_LEVELS, Entry, Fleet};
use crate::place::{capable, fits, most_nodes, place};
use crate::queue::Demand;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::spec::Group;
use muster_model::topology::Level;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One constraint, and what it leaves.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Constraint {
    /// Short name.
    pub name: String,
    /// In words.
    pub detail: String,
    /// Nodes left after it.
    pub nodes_left: u32,
    /// Free GPUs on them, or all of them before occupancy is looked at.
    pub gpus_left: u64,
    /// This is the one that stops the job.
    pub binding: bool,
}

/// A job that goes first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ahead {
    /// Which.
    pub job: JobId,
    /// Why it is first.
    pub why: String,
}

/// When it may start.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Estimate {
    /// The moment.
    pub at: Time,
    /// What it rests on.
    pub basis: String,
}

/// Why a job waits.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Explanation {
    /// One sentence.
    pub summary: String,
    /// Would start in the next cycle.
    pub starts_now: bool,
    /// Could never start on this fleet, even when empty.
    pub impossible: bool,
    /// Each constraint in the order it was looked at.
    pub constraints: Vec<Constraint>,
    /// The first few jobs ahead.
    pub ahead: Vec<Ahead>,
    /// All of them.
    pub ahead_count: u32,
    /// When it may start.
    pub estimate: Option<Estimate>,
    /// Smallest changes that would start it now.
    pub suggestions: Vec<String>,
}

/// When each busy node will be free, as far as anyone knows: `None` for work without a limit.
pub type FreeAt = BTreeMap<NodeName, Option<Time>>;

fn plural(n: u64, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{n} {word}s") }
}

fn ask(g: &Group) -> String {
    let mut parts = Vec::new();
    if g.gpus > 0 {
        parts.push(plural(g.gpus.into(), "GPU"));
    }
    parts.push(plural(g.cpus.into(), "CPU"));
    if g.memory.0 > 0 {
        parts.push(format!("{} memory", g.memory));
    }
    let sku = g.sku.as_ref().map(|s| format!(" of SKU {s}")).unwrap_or_default();
    format!("{} with {}{sku}", plural(g.nodes.into(), "node"), parts.join(", "))
}

/// Counts nodes that pass for any group of the demand.
fn count(fleet: &Fleet, d: &Demand, test: impl Fn(&Entry, &Group) -> bool) -> (u32, u64) {
    let mut nodes = 0;
    let mut gpus = 0;
    for e in fleet.entries() {
        if d.groups.iter().any(|g| test(e, g)) {
            nodes += 1;
            gpus += u64::from(e.free_gpus().len());
        }
    }
    (nodes, gpus)
}

/// Explains a demand against the fleet as it is. Order in the queue, holds and dependencies are
/// the caller's to add.
#[must_use]
pub fn explain(fleet: &Fleet, d: &Demand, free_at: &FreeAt, now: Time) -> Explanation {
    let mut out = Explanation::default();
    let wanted: Vec<String> = d.groups.iter().map(ask).collect();
    let wanted = wanted.join(" and ");
    let all = (u32::try_from(fleet.len()).unwrap_or(u32::MAX), total_gpus(fleet));
    out.push(
        "fleet",
        format!("the fleet has {} and {}", plural(all.0.into(), "node"), plural(all.1, "GPU")),
        all,
    );

    let has = |e: &Entry, g: &Group| capable(e, g, d.simulated);
    let (n, _) = count(fleet, d, has);
    let gpus = fleet.entries().filter(|e| d.groups.iter().any(|g| has(e, g)));
    let gpus = gpus.map(|e| u64::from(e.facts.gpus.len())).sum();
    let kind = if d.simulated { " on simulated nodes" } else { "" };
    out.push("hardware", format!("{wanted}{kind}"), (n, gpus));
    if short(fleet, d, has) {
        out.impossible = true;
        let most: u32 = most_nodes(fleet, d, has).iter().sum();
        let level = d.required.unwrap_or(Level::Cluster).max(Level::Cluster);
        out.bind(format!(
            "asks for {wanted}, but no {level} of this fleet has more than {} that could carry a share",
            plural(most.into(), "node")
        ));
        out.suggestions.extend(largest(fleet, d, has));
        return out;
    }

    let serving = |e: &Entry, g: &Group| e.usable() && has(e, g);
    let left = count(fleet, d, serving);
    out.push("service", blocked_words(fleet, d), left);
    if short(fleet, d, serving) {
        out.bind(format!(
            "asks for {wanted}; {} could carry a share but only {} in service",
            plural(n.into(), "node"),
            match left.0 {
                1 => "1 is".into(),
                k => format!("{k} are"),
            }
        ));
        return out;
    }

    let room = |e: &Entry, g: &Group| fits(e, g, d.simulated);
    let left = count(fleet, d, room);
    out.push("room", "free now".into(), left);
    if place(fleet, d).is_ok() {
        out.starts_now = true;
        out.summary = "there is room: it starts in the next cycle".into();
        return out;
    }
    let wide = Demand { required: None, ..d.clone() };
    let free_gpus: u64 =
        fleet.entries().filter(|e| e.usable()).map(|e| u64::from(e.free_gpus().len())).sum();
    if short(fleet, &wide, room) {
        let on = fleet.entries().filter(|e| e.usable() && !e.free_gpus().is_empty()).count();
        let mut text = format!("waits for room: {wanted}");
        if d.gpus() > 0 && free_gpus >= d.gpus() {
            text += &format!(
                "; {} free but on {}, and {} with enough free",
                plural(free_gpus, "GPU"),
                plural(on as u64, "node"),
                match left.0 {
                    0 => "no node is".into(),
                    k => format!(
                        "only {} {}",
                        plural(k.into(), "node"),
                        if k == 1 { "is" } else { "are" }
                    ),
                },
            );
        } else {
            text += &format!("; {} could take a share now", plural(left.0.into(), "node"));
        }
        out.bind(text);
        out.suggestions.extend(largest(fleet, d, room));
    } else {
        let level = d.required.unwrap_or(Level::Cluster);
        let best: u32 = most_nodes(fleet, d, room).iter().sum();
        out.push("topology", format!("all in one {level}"), (best, free_gpus));
        out.bind(format!(
            "no {level} has room for {wanted}; the best one has {}",
            plural(best.into(), "node")
        ));
        if let Ok(p) = place(fleet, &wide) {
            out.suggestions.push(format!(
                "drop `topology.required: {level}`: it would start now inside one {}",
                p.level
            ));
        }
    }
    out.estimate = estimate(fleet, d, free_at, now);
    out
}

fn total_gpus(fleet: &Fleet) -> u64 {
    fleet.entries().map(|e| u64::from(e.facts.gpus.len())).sum()
}

/// Too few nodes in every allowed domain?
fn short(fleet: &Fleet, d: &Demand, test: impl Fn(&Entry, &Group) -> bool) -> bool {
    most_nodes(fleet, d, test).iter().zip(d.groups.iter()).any(|(have, g)| *have < g.nodes)
}

fn blocked_words(fleet: &Fleet, d: &Demand) -> String {
    let mut by: BTreeMap<Block, u32> = BTreeMap::new();
    for e in fleet.entries() {
        if let Some(b) = e.facts.block
            && d.groups.iter().any(|g| capable(e, g, d.simulated))
        {
            *by.entry(b).or_default() += 1;
        }
    }
    if by.is_empty() {
        return "every such node is in service".into();
    }
    by.iter().map(|(b, n)| format!("{n} {}", b.words())).collect::<Vec<_>>().join(", ")
}

/// The largest number of nodes that would pass, as a suggestion.
fn largest(fleet: &Fleet, d: &Demand, test: impl Fn(&Entry, &Group) -> bool) -> Option<String> {
    let [g] = &d.groups[..] else { return None };
    let have = *most_nodes(fleet, d, &test).first()?;
    if have > 0 && have < g.nodes {
        return Some(format!("ask for at most {} of this kind", plural(have.into(), "node")));
    }
    // Fewer GPUs on each node may do.
    let most = (1..g.gpus).rev().find(|&n| {
        let groups: Arc<[Group]> = [Group { gpus: n, ranks: g.ranks.min(n), ..g.clone() }].into();
        place(fleet, &Demand { groups, ..d.clone() }).is_ok()
    })?;
    Some(format!(
        "ask for {} a node instead of {}: that would start now",
        plural(most.into(), "GPU"),
        g.gpus
    ))
}

/// The earliest time at which enough nodes will be free by the limits of what runs there.
fn estimate(fleet: &Fleet, d: &Demand, free_at: &FreeAt, now: Time) -> Option<Estimate> {
    let level = d.required.unwrap_or(Level::Cluster).max(Level::Cluster);
    let need = usize::try_from(d.nodes()).ok()?;
    let when = |e: &Entry| -> Option<Time> {
        if d.groups.iter().any(|g| fits(e, g, d.simulated)) {
            return Some(now);
        }
        (e.usable() && d.groups.iter().any(|g| capable(e, g, d.simulated)))
            .then(|| free_at.get(&e.facts.name).copied().flatten())
            .flatten()
    };
    let mut best: Option<Time> = None;
    let mut look = |times: Vec<Option<Time>>| {
        let mut known: Vec<Time> = times.into_iter().flatten().collect();
        known.sort();
        if let Some(t) = known.get(need.saturating_sub(1)) {
            best = Some(best.map_or(*t, |b| b.min(*t)));
        }
    };
    if DOMAIN_LEVELS.contains(&level) {
        for (_, dom) in
            fleet.domains.range((level, String::new())..).take_while(|((l, _), _)| *l == level)
        {
            look(dom.nodes.iter().map(|p| when(fleet.entry(p.ix))).collect());
        }
    } else {
        look(fleet.entries().map(when).collect());
    }
    let at = best.filter(|t| *t > now)?;
    Some(Estimate {
        at,
        basis: "the time limits of what runs there, if nothing ahead takes the room".into(),
    })
}

impl Explanation {
    fn push(&mut self, name: &str, detail: String, (nodes_left, gpus_left): (u32, u64)) {
        self.constraints.push(Constraint {
            name: name.into(),
            detail,
            nodes_left,
            gpus_left,
            binding: false,
        });
    }

    /// The last constraint stops the job.
    fn bind(&mut self, summary: String) {
        if let Some(c) = self.constraints.last_mut() {
            c.binding = true;
        }
        self.summary = summary;
    }
}
