//! Starts that cannot begin yet: the slice of a GPU has to be found or cut first, or other ranks of
//! this machine have to end.

use super::tools::{RunnerTools, Slice};
use muster_link::messages::RunDetail;
use muster_model::placement::{AllocatedPart, Slot};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, TryRecvError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How long the driver may take to find a slice or to cut it, with those that come before.
const SLICE: Duration = Duration::from_secs(60);
/// So many questions for slices may be without an answer: a driver that hangs keeps each thread.
const MOST: usize = 256;
static UNANSWERED: AtomicUsize = AtomicUsize::new(0);

/// A start that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    detail: RunDetail,
    /// Since when it waits for what it waits for now.
    since: Instant,
    slice: SliceState,
}

#[derive(Debug)]
enum SliceState {
    /// It needs none, or has it.
    Settled(Option<Slice>),
    Asked(Receiver<Result<Slice, String>>),
}

impl Waiting {
    pub(super) fn new(
        detail: &RunDetail,
        asked: Option<Receiver<Result<Slice, String>>>,
        now: Instant,
    ) -> Waiting {
        let slice = asked.map_or(SliceState::Settled(None), SliceState::Asked);
        Waiting { detail: detail.clone(), since: now, slice }
    }

    pub(super) fn detail(&self) -> &RunDetail {
        &self.detail
    }

    /// What it is begun with.
    pub(super) fn into_start(self) -> (RunDetail, Option<Slice>) {
        match self.slice {
            SliceState::Settled(slice) => (self.detail, slice),
            SliceState::Asked(_) => (self.detail, None),
        }
    }

    /// Whether it waits for free capacity alone.
    pub(super) fn has_slice(&self) -> bool {
        matches!(self.slice, SliceState::Settled(_))
    }

    /// Whether it has waited for so long.
    pub(super) fn waited(&self, patience: Duration, now: Instant) -> bool {
        now.saturating_duration_since(self.since) >= patience
    }

    /// When the driver must have answered.
    pub(super) fn due(&self) -> Option<Instant> {
        (!self.has_slice()).then(|| self.since + SLICE)
    }

    /// Takes the slice when it was found.
    ///
    /// # Errors
    /// Why there is none: the attempt cannot start here.
    pub(super) fn take_slice(&mut self, now: Instant) -> Result<(), String> {
        let SliceState::Asked(asked) = &self.slice else { return Ok(()) };
        match asked.try_recv() {
            Ok(found) => {
                self.slice = SliceState::Settled(Some(found?));
                self.since = now;
                Ok(())
            }
            Err(TryRecvError::Empty) if !self.waited(SLICE, now) => Ok(()),
            Err(TryRecvError::Empty) => Err(format!(
                "the GPU driver did not answer within {} s: whether the slice is there is unknown",
                SLICE.as_secs()
            )),
            Err(TryRecvError::Disconnected) => Err("looking for the slice broke off".into()),
        }
    }
}

/// Asks for the slice of a slot that has one, on a thread of its own: a call into the driver may take
/// long, and may hang. `wake` is called when there is an answer.
pub(super) fn ask_slice(
    tools: &RunnerTools,
    slot: &Slot,
    wake: impl FnOnce() + Send + 'static,
) -> Option<Receiver<Result<Slice, String>>> {
    let (Some(part @ AllocatedPart::Mig { .. }), Some(slices), Some(gpu)) =
        (&slot.part, &tools.slices, slot.gpus.iter().next())
    else {
        return None;
    };
    let (sender, receiver) = channel();
    let (part, slices, early) = (part.clone(), slices.clone(), sender.clone());
    if UNANSWERED.fetch_add(1, Ordering::Relaxed) >= MOST {
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let _ = early.send(Err("the GPU driver does not answer: it hangs".into()));
        return Some(receiver);
    }
    let work = move || {
        let done = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| slices(gpu, &part)));
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let found = done.unwrap_or_else(|panic| {
            Err(format!("looking for the slice broke off: {}", muster_supervise::words(&*panic)))
        });
        let _ = sender.send(found);
        wake();
    };
    if let Err(e) = thread::Builder::new().name("slice".into()).spawn(work) {
        UNANSWERED.fetch_sub(1, Ordering::Relaxed);
        let _ = early.send(Err(format!("no thread to ask the GPU driver: {e}")));
    }
    Some(receiver)
}

#[cfg(test)]
mod tests {
    use super::super::{RankBudget, Runner, RunnerConfig, ShimCommand};
    use super::*;
    use crate::cgroup::Cgroups;
    use muster_model::command::Observed;
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::job::SlotEnd;
    use muster_model::placement::GpuSet;
    use std::sync::{Arc, Mutex, PoisonError};

    #[test]
    fn a_driver_that_hangs_while_it_cuts_a_gpu_keeps_only_that_attempt_waiting() {
        let tmp = tempfile::tempdir().unwrap();
        let (_open, never) = channel::<()>();
        let never = Mutex::new(never);
        let hangs = move |_: u32, _: &AllocatedPart| -> Result<Slice, String> {
            let _ = never.lock().unwrap_or_else(PoisonError::into_inner).recv();
            Err("it answers too late".into())
        };
        let tools = RunnerTools { slices: Some(Arc::new(hangs)), ..RunnerTools::simulated() };
        let config = RunnerConfig {
            state: tmp.path().to_path_buf(),
            node: "node-1".parse().unwrap(),
            shim: ShimCommand::this_executable(),
            cgroups: Arc::new(Cgroups::none()),
            log_cap: 1 << 20,
            budget: RankBudget::unlimited(),
        };
        let mut runner = Runner::open(config).unwrap().with_tools(tools);
        let key = AttemptKey { job: JobId(7), attempt: 1 };
        let mut detail = crate::testing::detail("true");
        detail.slot.gpus = GpuSet::first(1);
        detail.slot.part =
            Some(AllocatedPart::Mig { profile: "1g.18gb".into(), start: 0, size: 1 });
        let now = Instant::now();
        runner.start(key, &detail, now);
        assert_eq!(runner.poll(now, true), vec![], "everything else continues");
        assert_eq!(runner.observed(), vec![(key, Observed::Running)]);
        assert_eq!(runner.due(), Some(now + SLICE));
        match runner.poll(now + SLICE, true).as_slice() {
            [(k, Observed::Ended(end @ SlotEnd::NodeFault { .. }))] if *k == key => {
                assert!(format!("{end:?}").contains("is unknown"), "{end:?}");
            }
            other => panic!("{other:?}"),
        }
    }
}
