//! Leaving a GPU as the next tenant wants to find it: nobody on it, nothing in its memory.

use crate::order::{Answer, Order, TestOrder};
use crate::qualify::Spawned;
use muster_agent::runner::SlotGpus;
use muster_gpu::device::Driver;
use muster_model::qualification::Level;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

/// What is done between two tenants of a GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Scrub {
    /// Only look that nobody is left on it. The driver itself hands memory out cleared.
    #[default]
    Look,
    /// Overwrite its memory too.
    Overwrite,
}

/// The driver lets go of a dead process's memory after a moment.
const PATIENCE: Duration = Duration::from_secs(5);
const SCRUB: Duration = Duration::from_secs(60);

/// Makes sure of it; an error says what is left.
///
/// # Errors
/// When somebody still uses the GPU, or its memory could not be overwritten.
pub(crate) fn clean(driver: &Arc<dyn Driver>, scrub: Scrub, slot: &SlotGpus) -> Result<(), String> {
    // A part of a GPU is shared: others are on it, and may be.
    if slot.part.is_some() {
        return Ok(());
    }
    let gpus: Vec<u32> = slot.gpus.iter().collect();
    let until = Instant::now() + PATIENCE;
    loop {
        let left = left_on(driver, &gpus);
        if left.is_empty() {
            break;
        }
        if Instant::now() >= until {
            return Err(left.join("; "));
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    if scrub == Scrub::Look {
        return Ok(());
    }
    let child = Spawned::here(TestOrder::of(Level::Quick)).map_err(|e| e.to_string())?;
    let mut bytes = 0;
    let done = child.execute(
        &Order::Scrub { gpus: gpus.clone() },
        SCRUB,
        &AtomicBool::new(false),
        &mut |a| {
            if let Answer::Scrubbed(n) = a {
                bytes = n;
            }
        },
    );
    done.map_err(|e| format!("memory was not overwritten: {e}"))?;
    tracing::info!(?gpus, bytes, "GPU memory overwritten");
    Ok(())
}

fn left_on(driver: &Arc<dyn Driver>, gpus: &[u32]) -> Vec<String> {
    let mut left = Vec::new();
    for device in driver.devices().into_iter().flatten() {
        if !gpus.contains(&device.index()) {
            continue;
        }
        // A device that does not answer is reported by those who watch it.
        for p in device.processes().unwrap_or_default() {
            let mib = p.memory.map_or_else(|| "unknown".into(), |m| (m >> 20).to_string());
            left.push(format!("process {} uses {mib} MiB of GPU {}", p.pid, device.index()));
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_gpu::device::{Device, DeviceError, DriverEvent, Process};
    use muster_gpu::simulated::{SimDriver, SimGpus, SimSku};
    use muster_model::ids::{AttemptKey, JobId};
    use muster_model::placement::GpuSet;
    use std::collections::BTreeMap;
    use std::sync::atomic::{AtomicU32, Ordering};

    /// GPUs whose process is gone when they are looked at a second time.
    struct Leaves {
        world: SimDriver,
        looks: AtomicU32,
    }

    impl Driver for Leaves {
        fn name(&self) -> &'static str {
            self.world.name()
        }

        fn versions(&self) -> BTreeMap<String, String> {
            self.world.versions()
        }

        fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
            if self.looks.fetch_add(1, Ordering::Relaxed) == 1 {
                self.world.set_processes(1, Vec::new());
            }
            self.world.devices()
        }

        fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
            self.world.wait_event(most)
        }
    }

    #[test]
    fn a_process_that_stays_is_reported_and_one_that_leaves_is_waited_for() {
        let world = SimDriver::new(&SimGpus::of(SimSku::H200Sxm, "n1", 1));
        let slot = SlotGpus {
            key: AttemptKey { job: JobId(1), attempt: 1 },
            gpus: GpuSet::first(2),
            part: None,
            pids: Vec::new(),
        };
        let driver: Arc<dyn Driver> = Arc::new(world.clone());
        assert_eq!(clean(&driver, Scrub::Look, &slot), Ok(()));
        let stays = Process { pid: 7, memory: Some(3 << 20), slice: None };
        world.set_processes(1, vec![stays]);
        let leaves = Arc::new(Leaves { world: world.clone(), looks: AtomicU32::new(0) });
        let late: Arc<dyn Driver> = leaves.clone();
        assert_eq!(clean(&late, Scrub::Look, &slot), Ok(()));
        assert_eq!(leaves.looks.load(Ordering::Relaxed), 2, "the first look found it");
        assert_eq!(left_on(&driver, &[1]), Vec::<String>::new());
        world.set_processes(1, vec![Process { pid: 8, memory: Some(3 << 20), slice: None }]);
        assert_eq!(left_on(&driver, &[0, 1]), ["process 8 uses 3 MiB of GPU 1"]);
    }
}
