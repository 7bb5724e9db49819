//! What happens between the last process of a slot and the word that it is over.

use super::tools::{RunnerTools, SlotGpus};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the node may look for what made a rank fail.
const EXPLAIN: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(50);

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Finished {
    /// What the node knows of the failure.
    pub(super) note: Option<String>,
    /// What is left on the node, in words.
    pub(super) leftover: Option<String>,
}

/// Asks everybody who has something to do or to say, without holding up the others.
#[derive(Debug)]
pub(super) struct Finishing(Receiver<Finished>);

impl Finishing {
    /// Begins; none when there is nobody to ask. `wake` is called at the end.
    pub(super) fn begin(
        runner_tools: &RunnerTools,
        slot: SlotGpus,
        failed: bool,
        container: Vec<String>,
        wake: impl FnOnce() + Send + 'static,
    ) -> Option<Finishing> {
        let has_gpus = !slot.gpus.is_empty();
        let explain = runner_tools.explain.clone().filter(|_| failed && has_gpus);
        let after = runner_tools.after_slot.clone().filter(|_| has_gpus);
        if explain.is_none() && after.is_none() && container.is_empty() {
            return None;
        }
        let containers = runner_tools.containers.clone();
        let (tell, told) = channel();
        let work = move || {
            let mut done = Finished::default();
            for name in &container {
                done.leftover = containers.remove(name).err().or(done.leftover);
            }
            if let Some(explain) = explain {
                let from = Instant::now();
                done.note = loop {
                    match explain(slot.key, &slot.pids) {
                        None if from.elapsed() < EXPLAIN => thread::sleep(AGAIN),
                        answer => break answer,
                    }
                };
            }
            if let Some(Err(what)) = after.map(|after| after(&slot)) {
                done.leftover = Some(what);
            }
            let _ = tell.send(done);
        };
        let work = move || {
            if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
                let said = muster_supervise::words(&*panic);
                tracing::error!(
                    part = "after-slot",
                    said,
                    "what follows the end of a slot panicked"
                );
            }
            wake();
        };
        let spawned = thread::Builder::new().name("after-slot".into()).spawn(work);
        if let Err(e) = spawned {
            tracing::warn!(error = %e, "nobody can be asked about a slot that ended");
            return None;
        }
        Some(Finishing(told))
    }

    /// What came of it, once it is over.
    pub(super) fn over(&self) -> Option<Finished> {
        match self.0.try_recv() {
            Ok(finished) => Some(finished),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Finished {
                leftover: Some("what was to be done after the slot failed".into()),
                ..Finished::default()
            }),
        }
    }
}
