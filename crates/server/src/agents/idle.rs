//! GPUs that are allocated and do nothing: seen here in the telemetry, judged by the policy in the log.

use super::Inner;
use crate::brain::Attach;
use futures::stream::{self, StreamExt};
use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::AttemptKey;
use muster_model::job::{Attempt, SlotState};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

/// An attempt that stays idle is reported again after this.
const AGAIN: Span = Span::secs(30);
/// How often the policy is looked at while it asks for nothing.
const ASLEEP: Duration = Duration::from_secs(1);
/// Nothing is known of a node that was silent for longer than this.
const GAP: Span = Span::secs(30);
/// Reports under way at a time.
const UNDER_WAY: usize = 16;

/// Longest time between two rows that still tells of the time between them.
pub(super) fn gap(inner: &Inner) -> Span {
    Span(inner.config.telemetry.0.saturating_mul(3)).max(GAP)
}

/// What was reported of an attempt.
#[derive(Debug, Clone, Copy)]
struct ReportedIdle {
    /// When, on the clock that never jumps.
    at: Time,
    /// Since when it was idle, on the same clock.
    since: Time,
    /// The same on the wall's clock. It stays as it was first told while the GPUs stay idle: a
    /// beginning that moves, because a thread waited or the clock was set, is another idleness,
    /// and warned of anew.
    wall: Time,
}

/// Reports attempts whose GPUs have been idle for as long as the policy allows, and again while it
/// lasts. Without such a policy nothing is looked at.
pub(super) async fn watch(inner: Arc<Inner>) {
    let mut told: HashMap<AttemptKey, ReportedIdle> = HashMap::new();
    loop {
        let warn = inner.brain.read(|s| s.policy.idle.warn_after);
        let pause = warn.map_or(ASLEEP, |w| (w.to_std() / 4).clamp(ASLEEP / 20, ASLEEP * 5));
        if inner.stop.run_until_cancelled(tokio::time::sleep(pause)).await.is_none() {
            return;
        }
        let Some(warn) = warn else {
            told.clear();
            continue;
        };
        let now = inner.clock();
        let idle = idle_attempts(&inner, now, warn);
        told.retain(|key, _| idle.contains_key(key));
        let again = warn.min(AGAIN);
        let due = idle.into_iter().filter_map(|(key, (node, since))| {
            let before = told.get(&key);
            if before.is_some_and(|t| now.since(t.at) < again) {
                return None;
            }
            let wall = before
                .filter(|t| t.since == since)
                .map_or_else(|| inner.brain.now() - inner.clock().since(since), |t| t.wall);
            told.insert(key, ReportedIdle { at: now, since, wall });
            Some((key, node, wall))
        });
        let due: Vec<_> = due.collect();
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
        let seats = inner.seats.read().unwrap_or_else(PoisonError::into_inner);
        let idle = seats.iter().filter(|(_, s)| s.idle().any_since(now - warn));
        idle.map(|(n, _)| n.clone()).collect()
    };
    if nodes.is_empty() {
        return BTreeMap::new();
    }
    // Not while the seats are held: whoever reads the state may ask for a seat meanwhile, and two who
    // take the two in turn can wait for each other.
    let candidates = inner.brain.read(|s| candidates(s, &nodes));
    let seats = inner.seats.read().unwrap_or_else(PoisonError::into_inner);
    let idle = |(key, held): (AttemptKey, AttemptGpus)| {
        let mut latest = None;
        for (node, gpus) in &held.gpus {
            let since = seats.get(node)?.idle().since(gpus.iter(), now, gap)?;
            latest = latest.max(Some(since));
        }
        let since = latest.filter(|t| now.since(*t) >= warn)?;
        Some((key, (held.speaker, since)))
    };
    candidates.into_iter().filter_map(idle).collect()
}

/// GPUs of an attempt.
struct AttemptGpus {
    speaker: NodeName,
    gpus: Vec<(NodeName, muster_model::placement::GpuSet)>,
}

/// Attempts on these nodes that run with GPUs and are not being stopped.
fn candidates(s: &State, nodes: &[NodeName]) -> BTreeMap<AttemptKey, AttemptGpus> {
    let mut seen = BTreeSet::new();
    let mut out = BTreeMap::new();
    // A node that is ahead of this server's log is none of its business.
    let ours = |n: &NodeName| s.nodes.get(n).is_some_and(|n| !n.protected);
    for node in nodes.iter().filter(|n| ours(n)) {
        for job in s.attempts_on(node) {
            let (Some(key), Some(a)) = (job.attempt_key(), &job.attempt) else { continue };
            if seen.insert(key)
                && let Some(held) = held(a)
            {
                out.insert(key, held);
            }
        }
    }
    out
}

fn held(a: &Attempt) -> Option<AttemptGpus> {
    let runs = a.stop.is_none() && a.slots.iter().all(|s| matches!(s, SlotState::Running));
    let speaker = a.placement.slots.first().filter(|_| runs)?.node.clone();
    let with_gpus = a.placement.slots.iter().filter(|s| !s.gpus.is_empty());
    let gpus: Vec<_> = with_gpus.map(|s| (s.node.clone(), s.gpus)).collect();
    (!gpus.is_empty()).then_some(AttemptGpus { speaker, gpus })
}
