//! The thread that asks device after device.

use super::{CALM_ROUNDS, Call, Shared, Slot};
use muster_gpu::device::DeviceError;
use muster_gpu::sample::Sample;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Samples kept for one device at most, however often it is asked.
const MOST_SAMPLES: usize = 1200;

pub(super) fn spawn(shared: Arc<Shared>, mut generation: u64) -> std::io::Result<()> {
    // Not joined: it may be inside a call that never returns.
    muster_supervise::thread("gpu-sampler", move || work(&shared, &mut generation)).map(drop)
}

/// A worker that is no longer wanted ends.
struct NotWanted;

/// Whether this worker is the one that works.
struct WorkerGeneration<'a> {
    shared: &'a Shared,
    /// Kept outside: a worker that panicked goes on as the one that it was.
    generation: &'a mut u64,
}

/// A call that has been made. However it ends, nobody is inside of it afterwards.
struct DeviceCallGuard<'a> {
    shared: &'a Shared,
    generation: u64,
    call: Call,
}

impl Drop for DeviceCallGuard<'_> {
    fn drop(&mut self) {
        let mut turn = self.shared.turn();
        if turn.generation == self.generation {
            turn.busy = None;
            return;
        }
        if let Some(i) = turn.stuck.iter().position(|c| *c == self.call) {
            turn.stuck.swap_remove(i);
        }
        // After a panic this worker is not there to take up the work again.
        if !turn.alive && turn.replace_at.is_none() {
            turn.replace_at = Some(self.shared.steady.ms());
        }
    }
}

impl WorkerGeneration<'_> {
    /// Makes a call under the watchdog's eyes. A call that came back after it was given up ends
    /// the worker, unless nobody works now: then it takes up the work again.
    fn call<T>(&mut self, call: Call, f: impl FnOnce() -> T) -> Result<T, NotWanted> {
        {
            let mut turn = self.shared.turn();
            if turn.stop || turn.generation != *self.generation {
                return Err(NotWanted);
            }
            turn.busy = Some((call, self.shared.steady.ms()));
        }
        let inside = DeviceCallGuard { shared: self.shared, generation: *self.generation, call };
        let answer = f();
        drop(inside);
        let mut turn = self.shared.turn();
        if turn.generation != *self.generation {
            if turn.alive {
                return Err(NotWanted);
            }
            turn.alive = true;
            turn.replace_at = None;
            *self.generation = turn.generation;
        }
        if turn.stop { Err(NotWanted) } else { Ok(answer) }
    }
}

fn work(shared: &Arc<Shared>, generation: &mut u64) {
    let mut place = WorkerGeneration { shared, generation };
    let mut sample = Sample::default();
    let mut next = Instant::now();
    loop {
        if round(shared, &mut place, &mut sample).is_err() {
            return;
        }
        shared.rounded();
        (shared.publish)(shared);
        next += shared.pace.every;
        let now = Instant::now();
        if next < now {
            // Rounds that were missed are missed: catching up would only ask in a burst.
            next = now + shared.pace.every;
        }
        if rest(shared, *place.generation, next).is_err() {
            return;
        }
    }
}

/// Sleeps until it is time.
fn rest(shared: &Shared, generation: u64, until: Instant) -> Result<(), NotWanted> {
    let mut turn = shared.turn();
    turn.calm = turn.calm.saturating_add(1);
    if turn.calm >= CALM_ROUNDS {
        turn.tries = 0;
    }
    loop {
        if turn.stop || turn.generation != generation {
            return Err(NotWanted);
        }
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Ok(());
        }
        turn = match shared.wakeup.wait_timeout(turn, left) {
            Ok((turn, _)) => turn,
            Err(e) => e.into_inner().0,
        };
    }
}

fn round(
    shared: &Shared,
    place: &mut WorkerGeneration<'_>,
    sample: &mut Sample,
) -> Result<(), NotWanted> {
    if shared.slots.get().is_none() {
        find(shared, place)?;
    }
    for (i, slot) in shared.slots().iter().enumerate() {
        if shared.turn().stuck.contains(&Call::Device(i)) {
            continue;
        }
        let Some(device) = slot.to_ask(shared.steady.ms()) else { continue };
        if slot.to_describe(shared.steady.ms()) {
            let reported = {
                let device = device.clone();
                place.call(Call::Device(i), move || device.describe())?
            };
            match reported {
                Ok(gpu) => slot.described(shared.steady.ms(), gpu),
                // One that is known is sampled all the same; that says more.
                Err(_) if !slot.is_unknown() => {}
                Err(e) => {
                    refuse(shared, slot, &e);
                    continue;
                }
            }
        }
        // The worker's own sample goes in and comes out again; a call that is given up keeps it.
        let mut mine = std::mem::take(sample);
        let asked = device.clone();
        let (mine, answer) = place.call(Call::Device(i), move || {
            let answer = asked.sample(&mut mine);
            (mine, answer)
        })?;
        *sample = mine;
        match answer {
            Ok(()) => slot.answered(shared.steady.ms(), (shared.wall)(), sample),
            Err(e) => {
                refuse(shared, slot, &e);
                continue;
            }
        }
        if slot.to_list(shared.steady.ms()) {
            let asked = device.clone();
            let users = place.call(Call::Device(i), move || asked.processes())?;
            slot.used_by(users.unwrap_or_default());
        }
        if slot.is_cut() {
            let slices = place.call(Call::Device(i), move || device.sample_slices())?;
            slot.sliced(slices.unwrap_or_default());
        }
    }
    Ok(())
}

fn refuse(shared: &Shared, slot: &Slot, error: &DeviceError) {
    let now = shared.steady.ms();
    slot.refused(now, (shared.wall)(), error, shared.pace.retry_lost, &shared.outbox);
}

/// The first thing that is asked: which devices there are.
fn find(shared: &Shared, place: &mut WorkerGeneration<'_>) -> Result<(), NotWanted> {
    let driver = shared.driver.clone();
    let (versions, devices) =
        place.call(Call::Driver, move || (driver.versions(), driver.devices()))?;
    let _ = shared.versions.set(Arc::new(versions));
    let every = shared.pace.every.max(Duration::from_millis(1));
    let fit = shared.pace.keep.as_millis() / every.as_millis().max(1) + 2;
    let most = usize::try_from(fit).unwrap_or(MOST_SAMPLES).min(MOST_SAMPLES);
    let slots: Vec<Slot> = devices
        .into_iter()
        .enumerate()
        .map(|(i, d)| Slot::new(i, d, shared.pace.keep, most))
        .collect();
    for slot in &slots {
        if let Some((lost, why)) = slot.dead_from_the_start() {
            let code = if lost { "gpu-lost" } else { "gpu-silent" };
            let text = format!("GPU {}: {why}", slot.index);
            shared.outbox.put([crate::faults::agent_fault(
                code,
                (shared.wall)(),
                Some(slot.index),
                text,
            )]);
        }
    }
    let _ = shared.slots.set(slots);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::{self, Steady};
    use crate::fake::Fake;
    use crate::faults::Outbox;
    use crate::sampler::{Pace, WorkerState};
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::{Condvar, Mutex, OnceLock};

    fn shared(turn: WorkerState) -> Shared {
        let second = Duration::from_secs(1);
        Shared {
            steady: Steady::start(),
            wall: clock::system(),
            pace: Pace { every: second, keep: second, hang_after: second, retry_lost: second },
            outbox: Outbox::new(Arc::new(|| ())),
            driver: Arc::new(Fake::new(1)),
            versions: OnceLock::new(),
            slots: OnceLock::new(),
            turn: Mutex::new(turn),
            gap: Mutex::default(),
            wakeup: Condvar::new(),
            publish: Box::new(|_: &Shared| ()),
        }
    }

    /// Makes a call that does this and then panics.
    fn falls_over(shared: &Shared, inside: impl FnOnce()) {
        let mut generation = 0;
        let mut place = WorkerGeneration { shared, generation: &mut generation };
        let call = || {
            let _ = place.call::<()>(Call::Device(0), || {
                inside();
                panic!("a device that falls over");
            });
        };
        assert!(catch_unwind(AssertUnwindSafe(call)).is_err(), "it panics");
    }

    #[test]
    fn nobody_is_inside_of_a_call_that_panicked() {
        let shared = shared(WorkerState { alive: true, ..WorkerState::default() });
        falls_over(&shared, || assert!(shared.turn().busy.is_some()));
        assert_eq!(shared.turn().busy, None, "the watchdog would take it for hung");
    }

    #[test]
    fn a_call_that_was_given_up_and_panics_then_leaves_its_work_to_another() {
        let shared = shared(WorkerState { alive: true, ..WorkerState::default() });
        // Two have hung: the watchdog starts nobody while that is so.
        falls_over(&shared, || {
            let mut turn = shared.turn();
            turn.generation = 2;
            turn.alive = false;
            turn.busy = None;
            turn.stuck = vec![Call::Device(0), Call::Device(1)];
        });
        let turn = shared.turn();
        assert_eq!(turn.stuck, [Call::Device(1)]);
        assert!(turn.replace_at.is_some(), "somebody asks the others again");
    }
}
