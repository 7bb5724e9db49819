//! GPUs that are not there and answer as if they were. One world of them has its own time, which
//! is handed in: the same seed and the same hands make the same life.

mod body;
mod device;
mod fault;
mod load;
mod memory;
mod specs;
#[cfg(test)]
mod tests;
mod wear;

pub use body::Rates;
pub use device::SimDevice;
pub use fault::{SimFault, Throttle};
pub use load::{Phase, Workload};
pub use specs::{SimSku, SimSkuError};

use crate::device::{Device, DeviceError, Driver, DriverEvent, Process};
use crate::mig::{Creation, MigPlan};
use body::{STEP_MS, SimulatedGpu};
use muster_model::node::{MigProfile, MigSlice};
use muster_model::units::Span;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// What is simulated.
#[derive(Debug, Clone, PartialEq)]
pub struct SimGpus {
    /// Everything random follows from it.
    pub seed: u64,
    /// Name of the node; it names its parts.
    pub node: String,
    /// The kind of GPU.
    pub sku: SimSku,
    /// How many GPUs the node has.
    pub gpus: u32,
    /// How often things break by themselves.
    pub rates: Rates,
}

impl SimGpus {
    /// Eight sound ones of a kind.
    #[must_use]
    pub fn of(sku: SimSku, node: &str, seed: u64) -> SimGpus {
        SimGpus { seed, node: node.into(), sku, gpus: 8, rates: Rates::default() }
    }
}

/// All simulated GPUs of a node. Clones are the same world: keep one to move time and to break
/// things, and give the other away as the driver.
#[derive(Clone)]
pub struct SimDriver {
    host: Arc<SimulatedHost>,
}

struct SimulatedHost {
    state: Mutex<State>,
    /// Notified when an event came, or a GPU was released.
    wakeup: Condvar,
}

struct State {
    gpus: Vec<SimulatedGpu>,
    events: VecDeque<DriverEvent>,
    now: Span,
    /// Milliseconds that were handed in and do not make a step yet.
    rest: u64,
    made: u32,
    /// Calls that have not come back, because their GPU hangs.
    waiting: usize,
}

impl State {
    fn life(&mut self, gpu: u32) -> Result<&mut SimulatedGpu, DeviceError> {
        let place = usize::try_from(gpu).unwrap_or(usize::MAX);
        let none = || DeviceError::Failed(format!("there is no GPU {gpu} on this host"));
        self.gpus.get_mut(place).ok_or_else(none)
    }
}

impl SimulatedHost {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks a GPU. A lost one does not answer; one that hangs answers when it is released.
    fn ask<T>(&self, gpu: u32, f: impl FnOnce(&SimulatedGpu) -> T) -> Result<T, DeviceError> {
        let mut state = self.lock();
        while state.life(gpu)?.has(SimFault::Hang) {
            state.waiting += 1;
            state = self.wakeup.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
        let life = state.life(gpu)?;
        if life.has(SimFault::Lost) { Err(DeviceError::Lost) } else { Ok(f(life)) }
    }
}

impl SimDriver {
    /// A new world, at its beginning.
    #[must_use]
    pub fn new(config: &SimGpus) -> SimDriver {
        let specs = config.sku.specs();
        let count = config.gpus.min(64);
        let life = |i| {
            let mut life = SimulatedGpu::new(config.seed, &config.node, i, specs, config.rates);
            life.numa = u32::from(i >= count.div_ceil(2));
            life
        };
        let state = State {
            gpus: (0..count).map(life).collect(),
            events: VecDeque::new(),
            now: Span(0),
            rest: 0,
            made: 0,
            waiting: 0,
        };
        SimDriver {
            host: Arc::new(SimulatedHost { state: Mutex::new(state), wakeup: Condvar::new() }),
        }
    }

    /// Lets time pass.
    pub fn advance(&self, span: Span) {
        let mut state = self.host.lock();
        state.now = Span(state.now.0.saturating_add(span.0));
        state.rest = state.rest.saturating_add(span.0);
        let steps = state.rest / STEP_MS;
        state.rest %= STEP_MS;
        let State { gpus, events, .. } = &mut *state;
        for _ in 0..steps {
            for life in gpus.iter_mut().filter(|l| !l.has(SimFault::Lost)) {
                let xids = life.step();
                report_xids(life, &xids, events);
            }
        }
        drop(state);
        self.host.wakeup.notify_all();
    }

    /// How long the world has lived.
    #[must_use]
    pub fn now(&self) -> Span {
        self.host.lock().now
    }

    /// Gives a GPU something to do, or takes it away.
    pub fn set_load(&self, gpu: u32, work: Option<Workload>) {
        self.change(gpu, |life| life.set_load(work));
    }

    /// Says who uses a GPU.
    pub fn set_processes(&self, gpu: u32, processes: Vec<Process>) {
        self.change(gpu, |life| life.processes = processes);
    }

    /// Breaks a GPU.
    pub fn inject(&self, gpu: u32, fault: SimFault) {
        let mut state = self.host.lock();
        let State { gpus, events, .. } = &mut *state;
        if let Some(life) = gpus.iter_mut().find(|l| l.index == gpu) {
            let xids = life.inject(fault);
            report_xids(life, &xids, events);
        }
        drop(state);
        self.host.wakeup.notify_all();
    }

    /// Takes a fault away; what it did stays done. `Hang` is released by this.
    pub fn repair(&self, gpu: u32, fault: SimFault) {
        self.change(gpu, |life| {
            life.faults.remove(&fault);
            life.set_clock();
        });
    }

    /// How many calls wait for a GPU that hangs.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.host.lock().waiting
    }

    /// How many XIDs the driver has to report that nobody took yet.
    #[must_use]
    pub fn unreported(&self) -> usize {
        self.host.lock().events.len()
    }

    /// Resets a GPU, as a restart of the node does: what only a reset repairs is repaired.
    pub fn reset(&self, gpu: u32) {
        self.change(gpu, SimulatedGpu::reset);
    }

    /// Whether what a GPU computes now is wrong. It does not report that by itself.
    #[must_use]
    pub fn computes_wrong(&self, gpu: u32) -> bool {
        self.host.lock().life(gpu).is_ok_and(|l| l.has(SimFault::WrongResult))
    }

    /// How fast a GPU computes, or would with work to do, as a fraction of a sound one at full
    /// clock.
    #[must_use]
    pub fn speed(&self, gpu: u32) -> Option<f64> {
        let mut state = self.host.lock();
        let life = state.life(gpu).ok()?;
        let alive = !life.has(SimFault::Lost) && !life.has(SimFault::Hang);
        alive.then_some(life.able / life.specs.sm_mhz)
    }

    fn change(&self, gpu: u32, f: impl FnOnce(&mut SimulatedGpu)) {
        if let Ok(life) = self.host.lock().life(gpu) {
            f(life);
        }
        self.host.wakeup.notify_all();
    }
}

fn report_xids(life: &mut SimulatedGpu, xids: &[u32], events: &mut VecDeque<DriverEvent>) {
    life.note_xids(xids);
    events.extend(xids.iter().map(|xid| DriverEvent { gpu: Some(life.index), xid: *xid }));
}

impl Driver for SimDriver {
    fn name(&self) -> &'static str {
        "simulated"
    }

    fn versions(&self) -> BTreeMap<String, String> {
        let versions = [("driver", "580.95.05"), ("cuda", "13.0"), ("nvml", "13.580.95.05")];
        BTreeMap::from(versions.map(|(k, v)| (k.to_owned(), v.to_owned())))
    }

    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        let state = self.host.lock();
        let one = |life: &SimulatedGpu| {
            if life.has(SimFault::Lost) {
                return Err(DeviceError::Lost);
            }
            Ok(Box::new(SimDevice::new(&self.host, life)) as Box<dyn Device>)
        };
        state.gpus.iter().map(one).collect()
    }

    /// Waits by the machine's own clock, as a caller expects; the world's time does not move.
    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        let state = self.host.lock();
        let quiet = |s: &mut State| s.events.is_empty();
        let waited = self.host.wakeup.wait_timeout_while(state, most, quiet);
        let (mut state, _) = waited.unwrap_or_else(PoisonError::into_inner);
        Ok(state.events.pop_front())
    }

    fn apply_mig(&self, gpu: u32, plan: &MigPlan) -> Result<(), DeviceError> {
        let mut state = self.host.lock();
        let mut made = state.made;
        let life = state.life(gpu)?;
        if life.has(SimFault::Lost) {
            return Err(DeviceError::Lost);
        }
        if !plan.must_leave.is_empty() {
            return Err(DeviceError::Failed("slices that have to go are in use".into()));
        }
        plan.fits(&life.slices).map_err(|e| DeviceError::Failed(e.to_string()))?;
        if let Some(on) = plan.switch {
            if !life.processes.is_empty() || !life.slices.is_empty() {
                return Err(DeviceError::Failed("the GPU is in use".into()));
            }
            life.mig = on;
        }
        if !life.mig && !plan.is_empty() && plan.switch.is_none() {
            return Err(DeviceError::Failed("MIG is off on this GPU".into()));
        }
        let goes = |s: &MigSlice| plan.destroy.iter().any(|d| d.gpu_instance == s.gpu_instance);
        life.slices.retain(|s| !goes(s));
        let profiles = life.specs.profiles();
        for c in &plan.create {
            made += 1;
            let slice = cut(life, &profiles, c, made)?;
            life.slices.push(slice);
        }
        state.made = made;
        Ok(())
    }
}

/// Makes one slice where it fits.
fn cut(
    life: &SimulatedGpu,
    profiles: &[MigProfile],
    c: &Creation,
    made: u32,
) -> Result<MigSlice, DeviceError> {
    let known = profiles.iter().any(|p| p.name == c.profile && p.starts.contains(&c.start));
    let overlaps = |s: &MigSlice| {
        let size = profiles.iter().find(|p| p.name == s.profile).map_or(8, |p| p.size);
        s.start < c.start + c.size && c.start < s.start + size
    };
    if !known || life.slices.iter().any(overlaps) {
        let what = format!("making {} at {}: it does not fit there", c.profile, c.start);
        return Err(DeviceError::Failed(what));
    }
    let free = |id: &u32| life.slices.iter().all(|s| s.gpu_instance != *id);
    Ok(MigSlice {
        uuid: format!("MIG-{}-{made}", life.uuid.trim_start_matches("GPU-")),
        profile: c.profile.clone(),
        gpu_instance: (1..).find(free).unwrap_or(made),
        compute_instance: 0,
        start: c.start,
    })
}
