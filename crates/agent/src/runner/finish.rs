//! What happens between the last process of a slot and the word that it is over.

use super::tools::{RunnerTools, SlotGpus};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the node may look for what made a rank fail.
const EXPLAIN: Duration = Duration::from_secs(1);
const AGAIN: Duration = Duration::from_millis(50);
/// How long all of it may take. A driver that hangs never answers; more than overwriting the memory
/// of a slot's GPUs and removing its containers take.
const LONGEST: Duration = Duration::from_secs(180);

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
pub(super) struct Finishing {
    receiver: Receiver<Finished>,
    since: Instant,
}

impl Finishing {
    /// Begins; none when there is nobody to ask. `wake` is called at the end.
    pub(super) fn begin(
        runner_tools: &RunnerTools,
        slot: SlotGpus,
        failed: bool,
        container: Vec<String>,
        now: Instant,
        wake: impl FnOnce() + Send + 'static,
    ) -> Option<Finishing> {
        let has_gpus = !slot.gpus.is_empty();
        let explain = runner_tools.explain.clone().filter(|_| failed && has_gpus);
        let after = runner_tools.after_slot.clone().filter(|_| has_gpus);
        if explain.is_none() && after.is_none() && container.is_empty() {
            return None;
        }
        let containers = runner_tools.containers.clone();
        let (sender, receiver) = channel();
        let work = move || {
            let mut done = Finished::default();
            if !container.is_empty() {
                done.leftover = containers.remove_all(&container).err();
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
            let _ = sender.send(done);
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
        Some(Finishing { receiver, since: now })
    }

    /// What came of it, once it is over. The end waits no longer than that: what is left is then not
    /// known.
    pub(super) fn over(&self, now: Instant) -> Option<Finished> {
        let late = now.saturating_duration_since(self.since) >= LONGEST;
        match self.receiver.try_recv() {
            Ok(finished) => Some(finished),
            Err(TryRecvError::Empty) if late => Some(Finished {
                leftover: Some(format!(
                    "what was to be done after the slot did not end within {} s (does the GPU driver \
                     or the container runtime hang?); what is left is unknown",
                    LONGEST.as_secs()
                )),
                ..Finished::default()
            }),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(Finished {
                leftover: Some("what was to be done after the slot failed".into()),
                ..Finished::default()
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::placement::GpuSet;
    use std::sync::{Arc, Mutex, PoisonError};

    #[test]
    fn an_end_does_not_wait_for_ever_for_a_driver_that_hangs() {
        let (_open, never) = channel::<()>();
        let never = Mutex::new(never);
        let hangs = move |_: &SlotGpus| -> Result<(), String> {
            let _ = never.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Ok(())
        };
        let tools = RunnerTools { after_slot: Some(Arc::new(hangs)), ..RunnerTools::simulated() };
        let slot = SlotGpus {
            key: AttemptKey { job: JobId(1), attempt: 1 },
            gpus: GpuSet::first(1),
            part: None,
            pids: Vec::new(),
        };
        let now = Instant::now();
        let asked = Finishing::begin(&tools, slot, false, Vec::new(), now, || ()).unwrap();
        assert_eq!(asked.over(now), None);
        let end = asked.over(now + LONGEST).unwrap();
        assert!(end.leftover.is_some_and(|what| what.contains("unknown")));
    }
}
