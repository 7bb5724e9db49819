//! Follows the log: which attempts run, which nodes are gone, what was found and how long it took
//! to recover.

use super::Shared;
use crate::brain::BrainError;
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::units::Time;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Records read at a time.
const PAGE: usize = 4096;
/// Between two looks at a log that keeps growing; what is gathered meanwhile is one look.
const PAUSE: Duration = Duration::from_millis(50);

/// Since when each node has been in service without interruption.
type Service = HashMap<NodeName, Time>;

pub(super) async fn run(shared: Arc<Shared>) {
    let mut durable = shared.brain.watch();
    let (mut after, mut service) = begin(&shared);
    loop {
        match shared.brain.records(after, PAGE).await {
            Ok(page) if page.is_empty() => {
                tokio::select! {
                    changed = durable.changed() => {
                        if changed.is_err() {
                            return;
                        }
                    }
                    () = shared.stop.cancelled() => return,
                }
                tokio::time::sleep(PAUSE).await;
            }
            Ok(page) => {
                after = page.last().map_or(after, |r| r.seq);
                take(&shared, &page, &mut service);
            }
            // Too far behind: everything is looked at once instead.
            Err(BrainError::Archived { .. }) => (after, service) = begin(&shared),
            Err(e) => {
                tracing::debug!(error = %e, "the log cannot be followed now");
                tokio::select! {
                    () = tokio::time::sleep(Duration::from_millis(500)) => {}
                    () = shared.stop.cancelled() => return,
                }
            }
        }
    }
}

fn begin(shared: &Shared) -> (Seq, Service) {
    shared.brain.read(|s| {
        shared.attempts.rebuild(s);
        let ready = s.nodes.values().filter(|n| n.stage == Stage::Ready);
        (s.seq, ready.map(|n| (n.name.clone(), n.stage_since)).collect())
    })
}

fn take(shared: &Shared, page: &[Arc<Record>], service: &mut Service) {
    let mut jobs: BTreeSet<JobId> = BTreeSet::new();
    let mut recovered: Vec<(AttemptKey, Time, bool)> = Vec::new();
    for r in page {
        match &r.event {
            Event::JobPlaced { key, .. }
            | Event::StopOrdered { key, .. }
            | Event::AttemptEnded { key, .. } => {
                jobs.insert(key.job);
            }
            Event::AttemptStarted { key, .. } => {
                jobs.insert(key.job);
                recovered.push((*key, r.at, false));
            }
            Event::AttemptProgressed { key } => recovered.push((*key, r.at, true)),
            Event::NodeLost { node, .. } | Event::NodeRetired { node } => {
                shared.attempts.gone(node);
            }
            Event::NodeReady { node, .. } => {
                shared.attempts.mended(node);
                service.entry(node.clone()).or_insert(r.at);
            }
            Event::NodeStaged { node, stage, .. } => match stage {
                Stage::Ready => {
                    service.entry(node.clone()).or_insert(r.at);
                }
                Stage::Quarantined => {
                    if let Some(since) = service.remove(node) {
                        shared.figures.between.observe(r.at.since(since).to_std());
                    }
                }
                _ => {}
            },
            Event::FindingOpened { finding, .. } => shared.figures.finding(&finding.seen.kind),
            _ => {}
        }
    }
    if jobs.is_empty() && recovered.is_empty() {
        return;
    }
    shared.brain.read(|s| {
        if !jobs.is_empty() {
            shared.attempts.refresh(s, &jobs);
        }
        for (key, at, working) in recovered {
            let Some(rec) = s.jobs.get(&key.job).and_then(|j| j.recovery) else { continue };
            // Only the attempt that the recovery ended with.
            if working && rec.working_at == Some(at) {
                shared.figures.loaded(&rec);
            } else if !working && rec.started_at == Some(at) {
                shared.figures.recovered(&rec);
            }
        }
    });
}
