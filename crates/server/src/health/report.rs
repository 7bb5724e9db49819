//! Reports to the log what the watch found. Whatever it cannot take now is reported again.

use super::Shared;
use futures::stream::StreamExt;
use muster_model::command::Command;
use muster_model::finding::ObservedFinding;
use muster_model::ids::AttemptKey;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::mpsc;

/// First steps that are reported at a time: a thousand jobs may start at once.
const UNDER_WAY: usize = 64;

/// Reports findings in the order in which they were found: what begins comes before its end.
pub(super) async fn findings(
    shared: Arc<Shared>,
    inbox: &mut mpsc::Receiver<Vec<ObservedFinding>>,
) {
    while let Some(findings) = inbox.recv().await {
        let n = findings.len() as u64;
        if record_command(&shared, Command::FindingsSeen { findings }).await {
            shared.figures.reported.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// Reports which attempts made their first step.
pub(super) async fn first_steps(shared: Arc<Shared>, inbox: &mut mpsc::Receiver<AttemptKey>) {
    futures::stream::poll_fn(|cx| inbox.poll_recv(cx))
        .for_each_concurrent(UNDER_WAY, |key| {
            let shared = &shared;
            async move {
                record_command(shared, Command::FirstStep { key }).await;
            }
        })
        .await;
}

async fn record_command(shared: &Shared, command: Command) -> bool {
    shared.brain.record_command(command, || !shared.stop.is_cancelled()).await
}
