//! One task informs sessions that their orders changed; one looks for nodes that fell silent.

use super::{Inner, identity};
use muster_model::command::{Actor, Command, Request};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::units::Time;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast::error::RecvError;

/// Pokes the sessions of nodes whose orders may have changed.
pub(super) async fn dispatch(inner: Arc<Inner>) {
    let mut touched = inner.brain.touched();
    // What was reported before this listened, or between two runs of it, nobody passed on.
    inner.live().iter().for_each(|(_, s)| s.touch());
    loop {
        let news = tokio::select! {
            news = touched.recv() => news,
            () = inner.stop.cancelled() => return,
        };
        match news {
            Ok(nodes) => {
                for node in nodes.iter() {
                    if let Some(session) = inner.node_entry(node).and_then(|s| s.session()) {
                        session.touch();
                    }
                }
            }
            Err(RecvError::Lagged(_)) => inner.live().iter().for_each(|(_, s)| s.touch()),
            Err(RecvError::Closed) => return,
        }
    }
}

/// Declares nodes lost that were not heard for too long.
pub(super) async fn watch(inner: Arc<Inner>) {
    let lost_after = inner.config.lost_after;
    let every = Duration::from_millis((lost_after.0 / 10).clamp(50, 3000));
    let mut last = inner.clock();
    let mut looked = last;
    while inner.stop.run_until_cancelled(tokio::time::sleep(every)).await.is_some() {
        let now = inner.clock();
        // We were away ourselves (stopped, suspended, starved): the silence is ours.
        if now.since(last).to_std() > every * 2 + Duration::from_secs(1) {
            tracing::warn!(
                away_ms = now.since(last).0,
                "this server was not running for a while; nodes get their time anew"
            );
            *inner.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
        }
        last = now;
        if !inner.brain.is_certain_leader() {
            // Agents are not let in meanwhile, and may look for another leader.
            *inner.since.lock().unwrap_or_else(PoisonError::into_inner) = now;
            continue;
        }
        if sweep_nodes(&inner, &|| inner.clock()).await {
            last = inner.clock();
        }
        if now.since(looked) >= identity::LOOK {
            looked = now;
            identity::close_old(&inner, inner.brain.now()).await;
        }
    }
}

/// One look by a clock: declares nodes lost that were not heard for too long, and says whether
/// there were any.
pub(super) async fn sweep_nodes(inner: &Inner, clock: &(dyn Fn() -> Time + Send + Sync)) -> bool {
    let silent = silent(inner, clock());
    let any = !silent.is_empty();
    for (node, heard) in silent {
        lose(inner, node, heard, clock).await;
    }
    tidy(inner);
    any
}

/// Nodes the log believes reachable that were not heard for too long, and since when.
fn silent(inner: &Inner, now: Time) -> Vec<(NodeName, Time)> {
    let since = *inner.since.lock().unwrap_or_else(PoisonError::into_inner);
    let believed: Vec<NodeName> = inner.brain.read(|s| {
        s.nodes
            .values()
            .filter(|n| n.reachable && n.stage != Stage::Retired)
            .map(|n| n.name.clone())
            .collect()
    });
    let node_entries = inner.node_entries.read().unwrap_or_else(PoisonError::into_inner);
    believed
        .into_iter()
        .filter_map(|node| {
            let node_entry = node_entries.get(&node);
            let heard = node_entry.and_then(|s| s.last_heartbeat()).map_or(since, |h| h.max(since));
            if now.since(heard) < inner.config.lost_after {
                return None;
            }
            let busy = node_entry
                .and_then(|s| s.session())
                .is_some_and(|s| s.busy.load(Ordering::Relaxed) > 0);
            (!busy).then_some((node, heard))
        })
        .collect()
}

async fn lose(
    inner: &Inner,
    node: NodeName,
    heard: Time,
    clock: &(dyn Fn() -> Time + Send + Sync),
) {
    // Looked at again: it may have spoken while others were being declared lost.
    let node_entry = inner.node_entry(&node);
    if node_entry.as_ref().and_then(|s| s.last_heartbeat()).is_some_and(|h| h > heard) {
        return;
    }
    tracing::warn!(%node, silent_ms = clock().since(heard).0, "the node is lost");
    if let Some(session) = node_entry.and_then(|s| s.session()) {
        // It must report everything again before it counts.
        session.close();
    }
    let now = inner.brain.now();
    let last_seen = now - clock().since(heard);
    let request = Request {
        actor: Actor::system(),
        at: now,
        key: None,
        if_version: None,
        command: Command::NodeLost { node: node.clone(), last_seen },
    };
    if let Err(e) = inner.brain.call(request, crate::brain::Attach::default()).await {
        tracing::warn!(%node, error = %e, "the loss of a node is not in the log yet");
    }
}

/// Drops what is not needed: steps of attempts that are over, sessions and entries of retired
/// nodes.
fn tidy(inner: &Inner) {
    inner.beside.clear();
    let keys = inner.steps.lock().unwrap_or_else(PoisonError::into_inner).keys();
    if !keys.is_empty() {
        let over: Vec<_> = inner.brain.read(|s| {
            let current = |k: &muster_model::ids::AttemptKey| {
                s.jobs.get(&k.job).is_some_and(|j| j.attempt_key() == Some(*k))
            };
            keys.into_iter().filter(|k| !current(k)).collect()
        });
        let mut steps = inner.steps.lock().unwrap_or_else(PoisonError::into_inner);
        over.into_iter().for_each(|k| steps.remove(k));
    }
    let live = inner.live();
    let ended: Vec<_> = inner
        .brain
        .read(|s| live.into_iter().filter(|(_, session)| !session.is_enrolled(s)).collect());
    ended.iter().for_each(|(_, session)| session.close());
    forget_retired(inner);
}

/// An entry outlasts its connections, but not its node: it holds recent telemetry, and names
/// of nodes come and go.
fn forget_retired(inner: &Inner) {
    let away: Vec<NodeName> = {
        let node_entries = inner.node_entries.read().unwrap_or_else(PoisonError::into_inner);
        node_entries.iter().filter(|(_, s)| s.session().is_none()).map(|(n, _)| n.clone()).collect()
    };
    // Not while the entries are held: who reads the state may ask for an entry meanwhile.
    let retired: Vec<NodeName> = inner.brain.read(|s| {
        let is_retired = |n: &NodeName| s.nodes.get(n).is_some_and(|n| n.stage == Stage::Retired);
        away.into_iter().filter(is_retired).collect()
    });
    if retired.is_empty() {
        return;
    }
    let mut node_entries = inner.node_entries.write().unwrap_or_else(PoisonError::into_inner);
    for node in &retired {
        // Whoever sits down there just now has it in hand.
        if node_entries.get(node).is_some_and(|s| Arc::strong_count(s) == 1) {
            node_entries.remove(node);
            inner.newcomers.forget(node);
        }
    }
}
