//! What hardware is not the cause of: file systems, and what jobs spray over their nodes.

use super::{
    Common, CorrelationInput, LONG, LocatedFinding, NODES_MIN, WINDOW, densest, describe_hits,
    ids_of, nodes_of, within,
};
use muster_model::FailureMode;
use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::collections::BTreeSet;

/// Kinds that a crash sprays over the nodes of its job.
const SPRAY: [FailureMode; 3] = [FailureMode::APP_FAULT, FailureMode::OOM, FailureMode::APP_CRASH];
/// Kinds that follow from a file system that answers nobody.
const STALLED: [FailureMode; 4] = [
    FailureMode::KERNEL_STUCK,
    FailureMode::HANG,
    FailureMode::LOADER_STARVED,
    FailureMode::JOB_SLOW,
];

/// File systems that several nodes complain about, or that a finding about the file system as such
/// and what hangs on it speak of.
pub(super) fn storage(
    hits: &[CorrelationInput<'_>],
    now: Time,
    taken: &mut BTreeSet<u64>,
) -> Vec<Common> {
    let stored =
        |h: &&CorrelationInput<'_>| h.at >= now - LONG && matches!(h.entity, Entity::Storage(_));
    let mut stored: Vec<&CorrelationInput<'_>> = hits.iter().filter(stored).collect();
    stored.sort_by_key(|h| (h.entity, h.at, h.id));
    let node = |h: &CorrelationInput<'_>| {
        h.place.map(|p| p.node.clone()).or_else(|| h.entity.node().cloned())
    };
    let mut out = Vec::new();
    for own in stored.chunk_by(|a, b| a.entity == b.entity) {
        let cause = own[0].entity;
        // The last that begins a window: earlier ones are an incident of their own by then.
        let Some(began) = own.last().map(|h| h.at - WINDOW) else { continue };
        let own = &own[own.partition_point(|h| h.at < began)..];
        let reporters: BTreeSet<NodeName> = own.iter().filter_map(|h| node(h)).collect();
        let whole = own.iter().any(|h| node(h).is_none());
        let follows: Vec<&CorrelationInput<'_>> = hits
            .iter()
            .filter(|h| {
                FailureMode::is_one_of(h.kind, &STALLED)
                    && !taken.contains(&h.id)
                    && h.at >= began
                    && (whole || node(h).is_some_and(|n| reporters.contains(&n)))
            })
            .collect();
        if reporters.len() < NODES_MIN && (!whole || follows.len() + 1 < NODES_MIN) {
            continue;
        }
        let kind = if own.iter().any(|h| h.kind == FailureMode::STORAGE_STALL) {
            FailureMode::STORAGE_STALL.code()
        } else {
            own[0].kind
        };
        let ids: Vec<u64> = distinct(own.iter().chain(&follows).map(|h| h.id));
        taken.extend(&ids);
        out.push(Common {
            cause: cause.clone(),
            kind: kind.to_owned(),
            severity: own.iter().map(|h| h.severity).max().unwrap_or(Severity::Info),
            summary: format!(
                "{kind} of {cause}, reported by {} nodes; {} more findings follow from it; not \
                 attributed to the nodes",
                reporters.len(),
                follows.len()
            ),
            findings: ids,
        });
    }
    out
}

/// Errors of the application's kind on many nodes of one job: added to the hardware cause that hit
/// the same attempt, or else attributed to the job.
pub(super) fn attribute_application_errors(
    seen: &[LocatedFinding<'_>],
    hardware: &[LocatedFinding<'_>],
    out: &mut Vec<Common>,
) {
    let sprayed = seen.iter().filter(|s| FailureMode::is_one_of(s.hit.kind, &SPRAY));
    let mut sprayed: Vec<LocatedFinding<'_>> = sprayed.copied().collect();
    sprayed.sort_by_key(|s| s.hit.attempt);
    for hits in sprayed.chunk_by(|a, b| a.hit.attempt == b.hit.attempt) {
        let Some(key) = hits[0].hit.attempt else { continue };
        let group = densest(hits, WINDOW);
        let nodes = nodes_of(&group);
        let Some(first) = group.first().filter(|_| nodes.len() >= NODES_MIN) else { continue };
        let began = first.hit.at;
        let mut roots: Vec<LocatedFinding<'_>> = hardware
            .iter()
            .filter(|s| {
                s.hit.attempt == Some(key)
                    && s.hit.severity >= Severity::Degraded
                    && s.hit.at >= began - WINDOW
                    && s.hit.at <= began + WINDOW
            })
            .copied()
            .collect();
        let known = out.iter_mut().find(|c| roots.iter().any(|r| c.findings.contains(&r.hit.id)));
        if let Some(c) = known {
            c.findings.extend(ids_of(&group));
            c.findings.sort_unstable();
            c.findings.dedup();
            continue;
        }
        let sprayed = format!("{} {}", describe_hits(&group), within(&group));
        let one = nodes_of(&roots).len() == 1;
        let root = roots.iter().max_by_key(|r| (r.hit.severity, std::cmp::Reverse(r.hit.at)));
        if let Some(root) = root.copied().filter(|_| one) {
            let same = roots.iter().all(|r| r.hit.entity == root.hit.entity);
            let cause =
                if same { root.hit.entity.clone() } else { Entity::Node(root.node.clone()) };
            roots.extend(&group);
            out.push(Common {
                summary: format!(
                    "{} on {cause} took attempt {key} down: {sprayed} followed from it",
                    root.hit.kind
                ),
                cause,
                kind: root.hit.kind.to_owned(),
                findings: ids_of(&roots),
                severity: root.hit.severity,
            });
        } else {
            out.push(Common {
                cause: Entity::Job(key.job),
                kind: FailureMode::APP_SPRAY.code().to_owned(),
                findings: ids_of(&group),
                severity: Severity::Info,
                summary: format!("attempt {key} crashed: {sprayed}; not attributed to the nodes"),
            });
        }
    }
}
