//! Which findings have one cause: many nodes that share a switch, a rack, a feed, a version, a
//! file system or a job, and fail together, are one incident and not many.
//!
//! Errors of the application's kind are never attributed to hardware. On three or more nodes of a job they are
//! a spray: the job's own doing, or the consequence of a hardware finding of the same attempt.
//! Findings about a file system from several nodes, or one that processes of several nodes hang on,
//! are attributed to the file system. All others of weight (degraded or worse) are explained by groups of nodes,
//! the best first, until none explains what is left:
//!
//! - A *place* (leaf, rack, NVLink domain, feed, spine): findings of related kinds within
//!   [`WINDOW`]: of what nodes are connected to, or of their GPUs. One that holds nearly the whole
//!   fleet explains nothing, unless nearly all of it fails.
//! - What is *managed* alike (version, SKU, pool): findings of one kind within [`LONG`], and far
//!   more often than among all other nodes, so that what everybody has explains nothing.
//! - *Work* (job, template, image): findings that work can bring about, within [`LONG`].
//!
//! A group needs three nodes, and chance must not explain them: neither at the rate at which nodes
//! fail by themselves, nor by how the same number of hits would fall on the fleet at random. Of the
//! groups that pass, the one that fits best is taken: most hits inside, fewest nodes without one
//! (the coefficient of Dice), so a leaf explains its racks, and a rack is not called a feed.

mod groups;
mod others;
pub(crate) mod tail;
#[cfg(test)]
mod tests;

use crate::modes::mode;
use muster_model::FailureMode;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::fault::FaultClass;
use muster_model::finding::Severity;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::topology::Location;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Findings this close together can come from one event.
pub const WINDOW: Span = Span::mins(5);
/// Findings this close together can come from one version or one job. Older ones are not looked at.
pub const LONG: Span = Span::hours(6);
/// Nodes that make a group.
pub const NODES_MIN: usize = 3;

/// What a node shares with others.
#[derive(Debug, Clone, Copy)]
pub struct NodeTraits<'a> {
    /// The node's name.
    pub node: &'a NodeName,
    /// Where it is.
    pub location: &'a Location,
    /// The pool it is managed in.
    pub pool: &'a str,
    /// Its kind of GPU.
    pub sku: &'a str,
    /// Versions of its components, like `driver`.
    pub versions: &'a BTreeMap<String, String>,
}

/// A finding, with what is needed to see what it has in common with others.
#[derive(Debug, Clone)]
pub struct CorrelationInput<'a> {
    /// The finding's number.
    pub id: u64,
    /// Its failure mode.
    pub kind: &'a str,
    /// How bad it is.
    pub severity: Severity,
    /// What it is about.
    pub entity: &'a Entity,
    /// When it was first seen.
    pub at: Time,
    /// The node it was seen on, if it is known.
    pub place: Option<NodeTraits<'a>>,
    /// The attempt that ran there.
    pub attempt: Option<AttemptKey>,
    /// The template of its job.
    pub template: Option<Entity>,
    /// The image of its job.
    pub image: Option<Entity>,
}

/// Findings with one cause.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Common {
    /// What they have in common.
    pub cause: Entity,
    /// What happened there, a failure mode.
    pub kind: String,
    /// The findings, in order.
    pub findings: Vec<u64>,
    /// How bad it is.
    pub severity: Severity,
    /// In a sentence.
    pub summary: String,
}

/// A hit whose node and class are known.
#[derive(Clone, Copy)]
struct LocatedFinding<'a> {
    hit: &'a CorrelationInput<'a>,
    node: &'a NodeName,
    /// The node's number among those hit: quicker to compare than its name.
    no: u32,
    class: FaultClass,
}

/// Kinds that are conclusions from other findings, not events.
const DERIVED: [FailureMode; 2] = [FailureMode::LEMON, FailureMode::HAZARD];

/// Common causes of what was found, the best explained first. Every finding is in at most one.
/// `size` says how many nodes of the fleet are in a group; that of [`Entity::Site`] is all of them.
///
/// Asking again with the same and later hits gives the same or wider causes: a leaf that dies rack
/// by rack is a rack first.
#[must_use]
pub fn correlate(
    hits: &[CorrelationInput<'_>],
    size: &dyn Fn(&Entity) -> u32,
    now: Time,
) -> Vec<Common> {
    let mut seen: Vec<LocatedFinding<'_>> = hits
        .iter()
        .filter(|h| h.at >= now - LONG && !FailureMode::is_one_of(h.kind, &DERIVED))
        .filter_map(|hit| {
            let node = hit.place.map(|p| p.node).or_else(|| hit.entity.node())?;
            Some(LocatedFinding { hit, node, no: 0, class: mode(hit.kind)?.class })
        })
        .collect();
    seen.sort_by_key(|s| (s.hit.at, s.hit.id));
    let names: Vec<&NodeName> = distinct(seen.iter().map(|s| s.node));
    for s in &mut seen {
        let at = names.binary_search(&s.node).unwrap_or(0);
        s.no = u32::try_from(at).unwrap_or(u32::MAX);
    }
    let mut taken = BTreeSet::new();
    let mut out = others::storage(hits, now, &mut taken);
    let hardware: Vec<LocatedFinding<'_>> = seen
        .iter()
        .filter(|s| {
            is_hardware(s.class)
                && s.hit.severity >= Severity::Degraded
                && !taken.contains(&s.hit.id)
                && !matches!(s.hit.entity, Entity::Storage(_))
        })
        .copied()
        .collect();
    out.extend(groups::explain(&hardware, size));
    others::attribute_application_errors(&seen, &hardware, &mut out);
    out
}

/// Whether a class speaks of hardware, or of what runs it.
pub(crate) fn is_hardware(class: FaultClass) -> bool {
    !matches!(class, FaultClass::Application | FaultClass::Notice | FaultClass::Unknown)
}

/// The widest stretch of `hits`, which are in order of time, that lies within `span`: the one with
/// the most nodes, the earliest of several.
fn densest<'a>(hits: &[LocatedFinding<'a>], span: Span) -> Vec<LocatedFinding<'a>> {
    let mut nodes: BTreeMap<u32, usize> = BTreeMap::new();
    let (mut from, mut best, mut most) = (0, 0..0, 0);
    for (to, s) in hits.iter().enumerate() {
        *nodes.entry(s.no).or_default() += 1;
        while s.hit.at.since(hits[from].hit.at) > span {
            if let Some(n) = nodes.get_mut(&hits[from].no) {
                *n -= 1;
                if *n == 0 {
                    nodes.remove(&hits[from].no);
                }
            }
            from += 1;
        }
        // More hits of the same nodes belong to it too.
        if nodes.len() > most || (nodes.len() == most && best.start == from) {
            (most, best) = (nodes.len(), from..to + 1);
        }
    }
    hits[best].to_vec()
}

fn nodes_of(hits: &[LocatedFinding<'_>]) -> BTreeSet<u32> {
    hits.iter().map(|s| s.no).collect()
}

fn ids_of(hits: &[LocatedFinding<'_>]) -> Vec<u64> {
    distinct(hits.iter().map(|s| s.hit.id))
}

fn worst(hits: &[LocatedFinding<'_>]) -> Severity {
    hits.iter().map(|s| s.hit.severity).max().unwrap_or(Severity::Info)
}

/// Kinds by how many nodes they were found on, the most frequent first.
fn kinds_of<'a>(hits: &[LocatedFinding<'a>]) -> Vec<(&'a str, usize)> {
    let pairs: Vec<(&str, u32)> = distinct(hits.iter().map(|s| (s.hit.kind, s.no)));
    let count = pairs.chunk_by(|a, b| a.0 == b.0).map(|of| (of[0].0, of.len()));
    let mut kinds: Vec<(&str, usize)> = count.collect();
    kinds.sort_by_key(|(k, n)| (std::cmp::Reverse(*n), *k));
    kinds
}

/// `link-down on 12 nodes, node-lost on 1`, at most three.
fn describe_hits(hits: &[LocatedFinding<'_>]) -> String {
    let parts: Vec<String> = kinds_of(hits)
        .into_iter()
        .take(3)
        .map(|(k, n)| format!("{k} on {n} {}", if n == 1 { "node" } else { "nodes" }))
        .collect();
    parts.join(", ")
}

/// How long from the first to the last, in words.
fn within(hits: &[LocatedFinding<'_>]) -> String {
    let ends = hits.first().zip(hits.last());
    let span = ends.map_or(Span(0), |(a, b)| b.hit.at.since(a.hit.at));
    if span.0 == 0 {
        "at once".to_owned()
    } else {
        format!("within {}", Span(span.0.div_ceil(1000) * 1000))
    }
}
