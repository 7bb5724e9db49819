//! GPUs that are allocated and do nothing: seen in the telemetry, by `muster_health::idle`, and reported to
//! the log, where the policy acts on it.

use super::Inner;
use crate::brain::Attach;
use futures::stream::{self, StreamExt};
use muster_health::idle::{AttemptGpus, IdleReports, candidates};
use muster_model::command::Command;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// How often the policy is looked at while it asks for nothing.
const ASLEEP: Duration = Duration::from_secs(1);
/// Nothing is known of a node that was silent for longer than this.
const GAP: Span = Span::secs(30);
/// Reports under way at a time.
const UNDER_WAY: usize = 16;

/// Longest time between two rows that still counts for the time between them.
pub(super) fn gap(inner: &Inner) -> Span {
    Span(inner.config.telemetry.0.saturating_mul(3)).max(GAP)
}

/// Reports attempts whose GPUs have been idle for as long as the policy allows, and again while it
/// lasts. Without such a policy nothing is looked at.
pub(super) async fn watch(inner: Arc<Inner>) {
    let mut reported = IdleReports::default();
    loop {
        let warn = inner.brain.read(|s| s.policy.idle.warn_after);
        let pause = warn.map_or(ASLEEP, |w| (w.to_std() / 4).clamp(ASLEEP / 20, ASLEEP * 5));
        if inner.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        let Some(warn) = warn else {
            reported.clear();
            continue;
        };
        let now = inner.clock();
        let idle = idle_attempts(&inner, now, warn);
        let due = reported.due(idle, (now, inner.brain.now()), warn);
        stream::iter(due)
            .for_each_concurrent(UNDER_WAY, |(key, node, since)| report(&inner, node, key, since))
            .await;
    }
}

async fn report(inner: &Inner, node: NodeName, key: AttemptKey, since: Time) {
    let since = Some(since);
    let request = inner.request(&node, Command::IdleReport { node: node.clone(), key, since });
    if let Err(e) = inner.brain.call(request, Attach::default()).await {
        // It is said again soon.
        tracing::debug!(attempt = %key, error = %e, "a report of idle GPUs was not accepted");
    }
}

/// Attempts all of whose GPUs have been idle for at least `warn`: the node that speaks for the
/// gang, and since when.
fn idle_attempts(inner: &Inner, now: Time, warn: Span) -> BTreeMap<AttemptKey, (NodeName, Time)> {
    let gap = gap(inner);
    let nodes: Vec<NodeName> = {
        let node_entries = inner.node_entries.read().unwrap_or_else(PoisonError::into_inner);
        let idle = node_entries.iter().filter(|(_, s)| s.idle().any_since(now - warn));
        idle.map(|(n, _)| n.clone()).collect()
    };
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    // Not while the entries are held: who reads the state may ask for an entry then, and two who
    // take the two in turn can wait for each other.
    let candidates = inner.brain.read(|s| {
        // A node that is ahead of this server's log is none of its business.
        let ours = |n: &&NodeName| s.nodes.get(*n).is_some_and(|n| !n.protected);
        let jobs = nodes.iter().filter(ours).flat_map(|n| s.attempts_on(n));
        candidates(jobs.map(|job| &**job))
    });
    let node_entries = inner.node_entries.read().unwrap_or_else(PoisonError::into_inner);
    let idle = |(key, held): (AttemptKey, AttemptGpus)| {
        let of = |node: &NodeName, gpus: GpuSet| {
            node_entries.get(node)?.idle().since(gpus.iter(), now, gap)
        };
        let since = held.idle_since(now, warn, of)?;
        Some((key, (held.speaker, since)))
    };
    candidates.into_iter().filter_map(idle).collect()
}
