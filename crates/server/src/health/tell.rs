//! Tells the log what the watch found. Whatever it cannot take now is told again.

use super::Shared;
use crate::brain::{Brain, BrainError};
use futures::stream::StreamExt;
use muster_model::command::Command;
use muster_model::finding::SeenFinding;
use muster_model::ids::AttemptKey;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;
use tokio::sync::mpsc;

/// A log that takes nothing is asked again after this.
const AGAIN: Duration = Duration::from_millis(500);
/// First steps that are told at a time: a thousand jobs may start at once.
const UNDER_WAY: usize = 64;

/// Tells findings in the order in which they were found: what begins comes before its end.
pub(super) async fn findings(shared: Arc<Shared>, inbox: &mut mpsc::Receiver<Vec<SeenFinding>>) {
    while let Some(findings) = inbox.recv().await {
        let n = findings.len() as u64;
        if until_taken(&shared, Command::FindingsSeen { findings }).await {
            shared.figures.told.fetch_add(n, Ordering::Relaxed);
        }
    }
}

/// Tells which attempts made their first step.
pub(super) async fn first_steps(shared: Arc<Shared>, inbox: &mut mpsc::Receiver<AttemptKey>) {
    futures::stream::poll_fn(|cx| inbox.poll_recv(cx))
        .for_each_concurrent(UNDER_WAY, |key| {
            let shared = &shared;
            async move {
                until_taken(shared, Command::FirstStep { key }).await;
            }
        })
        .await;
}

async fn until_taken(shared: &Shared, command: Command) -> bool {
    let brain: &Brain = &shared.brain;
    loop {
        match brain.system(command.clone()).await {
            Ok(_) => return true,
            Err(BrainError::Refused(r)) => {
                tracing::debug!(refusal = %r, "the log does not take what was seen");
                return false;
            }
            Err(e) => tracing::warn!(error = %e, "what was seen is not in the log yet"),
        }
        tokio::select! {
            () = tokio::time::sleep(AGAIN) => {}
            () = shared.stop.cancelled() => return false,
        }
    }
}
