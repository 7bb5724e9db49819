//! Asks each device for its figures, on threads of its own. A device that answers slowly, not at
//! all, or never again must not stop the others, nor the agent.
//!
//! One worker asks device after device. A watchdog looks whether a call takes too long; then the
//! worker is left behind in it, the device is `hung`, and a second worker goes on with the others.
//! When that one gets stuck too, the driver itself is taken for hung and nothing more is started:
//! so no more than [`MOST_LEFT_BEHIND`] threads are ever lost to a driver. A worker whose call
//! comes back after all takes up the work again, or ends if somebody else does it.

mod slot;
mod worker;

#[cfg(test)]
mod tests;

pub(crate) use slot::Slot;

use crate::clock::{Steady, Wall};
use crate::faults::{Outbox, agent_fault};
use crate::ring::Row;
use crate::snapshot::GpuNow;
use muster_gpu::device::Driver;
use muster_supervise::SupervisedThread;
use std::collections::BTreeMap;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Threads that may be stuck in a driver at once: the first one, and the one that replaced it.
pub const MOST_LEFT_BEHIND: usize = 2;
/// A replacement starts so long after the first hang, twice as long after the next, and so on.
const BACK_OFF: Duration = Duration::from_secs(1);
const LONGEST_BACK_OFF: Duration = Duration::from_secs(60);
/// So many rounds without trouble, and the back-off begins anew.
const CALM_ROUNDS: u32 = 60;

/// How devices are asked.
#[derive(Debug, Clone)]
pub(crate) struct Pace {
    pub(crate) every: Duration,
    pub(crate) keep: Duration,
    pub(crate) hang_after: Duration,
    pub(crate) retry_lost: Duration,
}

/// What a worker is inside of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A call to the driver as a whole.
    Driver,
    /// A call to the device in this place.
    Device(usize),
}

/// Who works, and who is stuck.
#[derive(Debug, Default)]
struct WorkerState {
    /// Counts workers; one that is not of the present generation has been given up.
    generation: u64,
    /// A worker of the present generation is there.
    alive: bool,
    /// What it is inside of, and since when.
    busy: Option<(Call, u64)>,
    /// Calls that have not come back.
    stuck: Vec<Call>,
    /// Replacements so far, for the back-off.
    tries: u32,
    /// When the next one may start.
    replace_at: Option<u64>,
    /// Rounds since the last trouble.
    calm: u32,
    stop: bool,
}

/// How evenly rounds follow each other, in milliseconds of the steady clock.
#[derive(Debug, Default)]
struct Gap {
    last: u64,
    longest: u64,
}

/// Everything the threads share.
pub(crate) struct Shared {
    pub(crate) steady: Steady,
    pub(crate) wall: Wall,
    pub(crate) pace: Pace,
    pub(crate) outbox: Outbox,
    driver: Arc<dyn Driver>,
    versions: OnceLock<Arc<BTreeMap<String, String>>>,
    slots: OnceLock<Vec<Slot>>,
    turn: Mutex<WorkerState>,
    gap: Mutex<Gap>,
    wakeup: Condvar,
    /// Called after every round.
    publish: Box<dyn Fn(&Shared) + Send + Sync>,
}

impl Shared {
    fn turn(&self) -> MutexGuard<'_, WorkerState> {
        self.turn.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A round is done.
    fn rounded(&self) {
        let now = self.steady.ms();
        let mut gap = self.gap.lock().unwrap_or_else(PoisonError::into_inner);
        gap.longest = gap.longest.max(now.saturating_sub(gap.last));
        gap.last = now;
    }

    /// The longest time between two rounds since the last call, the one that goes on included.
    pub(crate) fn take_gap(&self) -> u64 {
        let now = self.steady.ms();
        let mut gap = self.gap.lock().unwrap_or_else(PoisonError::into_inner);
        let open = now.saturating_sub(gap.last);
        std::mem::take(&mut gap.longest).max(open)
    }

    /// Devices, once they were found.
    pub(crate) fn slots(&self) -> &[Slot] {
        self.slots.get().map_or(&[], Vec::as_slice)
    }

    /// Versions, once they were asked for.
    pub(crate) fn versions(&self) -> Arc<BTreeMap<String, String>> {
        self.versions.get().cloned().unwrap_or_default()
    }

    /// Name of the driver.
    pub(crate) fn driver_name(&self) -> &'static str {
        self.driver.name()
    }

    /// Every device as it is now, and how many calls are stuck.
    pub(crate) fn devices(&self) -> (Vec<GpuNow>, usize) {
        let (stuck, all) = {
            let turn = self.turn();
            (turn.stuck.clone(), driver_hung(&turn))
        };
        let now = self.steady.ms();
        let gpus = self
            .slots()
            .iter()
            .enumerate()
            .map(|(i, s)| s.now(now, all || stuck.contains(&Call::Device(i)), self.stale()))
            .collect();
        (gpus, stuck.len())
    }

    /// A sample older than this says nothing about now.
    fn stale(&self) -> u64 {
        let ms = |d: Duration| u64::try_from(d.as_millis()).unwrap_or(u64::MAX);
        ms(self.pace.every).saturating_mul(5).max(ms(self.pace.hang_after).saturating_mul(3))
    }

    /// Summaries of what was sampled after `steady`.
    pub(crate) fn rows(&self, after: u64) -> Vec<Row> {
        self.slots().iter().filter_map(|s| s.summary(after)).collect()
    }

    fn hung_fault(&self, call: Call) {
        let after = self.pace.hang_after;
        let at = (self.wall)();
        let fault = match call {
            Call::Device(i) => {
                let gpu = self.slots().get(i).map(|s| s.index);
                let name = gpu.map_or_else(|| "a GPU".into(), |g| format!("GPU {g}"));
                agent_fault(
                    "nvml-hang",
                    at,
                    gpu,
                    format!("{name}: a call into the driver has not come back for {after:?}"),
                )
            }
            Call::Driver => agent_fault(
                "nvml-hang",
                at,
                None,
                format!("the driver: a call into it has not come back for {after:?}"),
            ),
        };
        self.outbox.put([fault]);
    }
}

/// With so many stuck nobody asks any device.
fn driver_hung(turn: &WorkerState) -> bool {
    !turn.alive && turn.stuck.len() >= MOST_LEFT_BEHIND
}

/// The threads that look at devices and host, and the watchdog over them.
pub(crate) struct Sampler {
    pub(crate) shared: Arc<Shared>,
    watchdog: Option<SupervisedThread>,
}

impl Sampler {
    /// Starts asking.
    pub(crate) fn start(
        driver: Arc<dyn Driver>,
        pace: Pace,
        (steady, wall): (Steady, Wall),
        outbox: Outbox,
        publish: Box<dyn Fn(&Shared) + Send + Sync>,
    ) -> std::io::Result<Sampler> {
        let shared = Arc::new(Shared {
            steady,
            wall,
            pace,
            outbox,
            driver,
            versions: OnceLock::new(),
            slots: OnceLock::new(),
            turn: Mutex::new(WorkerState { alive: true, ..WorkerState::default() }),
            gap: Mutex::default(),
            wakeup: Condvar::new(),
            publish,
        });
        worker::spawn(shared.clone(), 0)?;
        let watched = shared.clone();
        let watchdog = muster_supervise::thread("gpu-watchdog", move || watch(&watched))?;
        Ok(Sampler { shared, watchdog: Some(watchdog) })
    }

    /// Asks them to end, and waits for those that can.
    pub(crate) fn stop(&mut self) {
        {
            let mut turn = self.shared.turn();
            turn.stop = true;
        }
        self.shared.wakeup.notify_all();
        if let Some(watchdog) = self.watchdog.take() {
            watchdog.end();
        }
    }
}

/// Looks whether the worker is stuck, and replaces it.
fn watch(shared: &Arc<Shared>) {
    let look = (shared.pace.hang_after / 4).clamp(Duration::from_millis(5), Duration::from_secs(1));
    let limit = u64::try_from(shared.pace.hang_after.as_millis()).unwrap_or(u64::MAX);
    loop {
        let mut turn = shared.turn();
        if turn.stop {
            return;
        }
        let now = shared.steady.ms();
        let mut hung = None;
        if let Some((call, since)) = turn.busy
            && now.saturating_sub(since) > limit
        {
            turn.generation += 1;
            turn.alive = false;
            turn.busy = None;
            turn.stuck.push(call);
            turn.calm = 0;
            turn.replace_at = (turn.stuck.len() < MOST_LEFT_BEHIND).then(|| {
                let wait = BACK_OFF.saturating_mul(1 << turn.tries.min(10)).min(LONGEST_BACK_OFF);
                now + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)
            });
            turn.tries += 1;
            hung = Some(call);
        }
        let mut start = None;
        if !turn.alive && turn.replace_at.is_some_and(|at| at <= now) {
            turn.replace_at = None;
            turn.alive = true;
            start = Some(turn.generation);
        }
        let quiet = !turn.alive;
        drop(turn);
        if let Some(call) = hung {
            shared.hung_fault(call);
        }
        if let Some(generation) = start
            && let Err(e) = worker::spawn(shared.clone(), generation)
        {
            tracing::warn!(error = %e, "no thread for asking the GPUs");
            shared.turn().alive = false;
        }
        if quiet {
            // Nobody else says that the devices have fallen silent.
            (shared.publish)(shared);
        }
        let turn = shared.turn();
        if !turn.stop {
            drop(shared.wakeup.wait_timeout(turn, look));
        }
    }
}
