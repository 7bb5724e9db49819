//! One device: its samples, and whether it answers.

use crate::faults::{Outbox, agent_fault};
use crate::ring::{Ring, Row, TimedSample};
use crate::snapshot::{GpuNow, XID_WINDOW_MS};
use muster_gpu::device::{Device, DeviceError, Process};
use muster_gpu::sample::Sample;
use muster_model::node::Gpu;
use muster_model::units::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// After so many refusals in a row a device counts as silent.
const SILENT_AFTER: u32 = 3;
/// Who uses a device is asked again after so long.
const LISTED_MS: u64 = 5_000;
/// What a device is, is asked again after so long: slices come and go, settings change.
const DESCRIBED_MS: u64 = 300_000;
/// The same for one that is cut into slices.
const SLICED_MS: u64 = 30_000;
/// Recent XIDs kept for one device; a flood is counted in its last entry.
const MOST_XIDS: usize = 64;

/// One device, whether it answers or not.
pub(crate) struct Slot {
    pub(crate) index: u32,
    uuid: Arc<str>,
    pub(crate) pci: Option<Arc<str>>,
    device: Option<Arc<dyn Device>>,
    state: Mutex<State>,
}

struct State {
    ring: Ring,
    gpu: Option<Arc<Gpu>>,
    described_at: u64,
    last: Option<Arc<Sample>>,
    slices: Arc<Vec<(u32, u32, Sample)>>,
    processes: Arc<Vec<Process>>,
    listed_at: u64,
    up: bool,
    lost: bool,
    why: Option<String>,
    refusals: u32,
    next_try: u64,
    xid: Option<u32>,
    xids: VecDeque<(u64, u32, u64)>,
}

impl Slot {
    /// A device as the driver gave it out; one that does not answer keeps its place.
    pub(crate) fn new(
        place: usize,
        device: Result<Box<dyn Device>, DeviceError>,
        keep: Duration,
        most: usize,
    ) -> Slot {
        let mut state = State {
            ring: Ring::new(keep, most),
            gpu: None,
            described_at: 0,
            last: None,
            slices: Arc::default(),
            processes: Arc::default(),
            listed_at: 0,
            up: false,
            lost: false,
            why: None,
            refusals: 0,
            next_try: 0,
            xid: None,
            xids: VecDeque::new(),
        };
        let place = u32::try_from(place).unwrap_or(u32::MAX);
        let (index, uuid, pci, device) = match device {
            Ok(d) => {
                let (index, uuid, pci) = (d.index(), d.uuid().into(), d.pci().map(Arc::from));
                (index, uuid, pci, Some(Arc::from(d)))
            }
            Err(e) => {
                state.lost = e == DeviceError::Lost;
                state.why = Some(e.to_string());
                (place, Arc::from(""), None, None)
            }
        };
        Slot { index, uuid, pci, device, state: Mutex::new(state) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The device, if it is one that can be asked at this time.
    pub(crate) fn to_ask(&self, now: u64) -> Option<Arc<dyn Device>> {
        let device = self.device.as_ref()?;
        (self.state().next_try <= now).then(|| device.clone())
    }

    /// What is to be said of a device that was dead when it was found.
    pub(crate) fn dead_from_the_start(&self) -> Option<(bool, String)> {
        let state = self.state();
        self.device.is_none().then(|| (state.lost, state.why.clone().unwrap_or_default()))
    }

    /// It has not said yet what it is.
    pub(crate) fn is_unknown(&self) -> bool {
        self.state().gpu.is_none()
    }

    /// It is time to ask it what it is, for the first time or again.
    pub(crate) fn to_describe(&self, now: u64) -> bool {
        let state = self.state();
        let age = now.saturating_sub(state.described_at);
        match &state.gpu {
            None => true,
            Some(g) if g.mig == Some(true) => age > SLICED_MS,
            Some(_) => age > DESCRIBED_MS,
        }
    }

    /// It can be cut into slices.
    pub(crate) fn is_cut(&self) -> bool {
        self.state().gpu.as_ref().is_some_and(|g| g.mig == Some(true))
    }

    /// What it is.
    pub(crate) fn described(&self, now: u64, gpu: Gpu) {
        let mut state = self.state();
        state.described_at = now;
        if state.gpu.as_deref() != Some(&gpu) {
            state.gpu = Some(Arc::new(gpu));
        }
    }

    /// What it is, if it said so.
    pub(crate) fn gpu(&self) -> Option<Arc<Gpu>> {
        self.state().gpu.clone()
    }

    /// Its slices' figures.
    pub(crate) fn sliced(&self, slices: Vec<(u32, u32, Sample)>) {
        let mut state = self.state();
        if !(slices.is_empty() && state.slices.is_empty()) {
            state.slices = Arc::new(slices);
        }
    }

    /// Whether it is time to ask who uses it.
    pub(crate) fn to_list(&self, now: u64) -> bool {
        let mut state = self.state();
        let due = state.listed_at == 0 || now.saturating_sub(state.listed_at) >= LISTED_MS;
        if due {
            state.listed_at = now.max(1);
        }
        due
    }

    /// Who uses it.
    pub(crate) fn used_by(&self, processes: Vec<Process>) {
        let mut state = self.state();
        if *state.processes != processes {
            state.processes = Arc::new(processes);
        }
    }

    /// It answered.
    pub(crate) fn answered(&self, steady: u64, at: Time, sample: &Sample) {
        let mut state = self.state();
        state.ring.push(TimedSample { steady, at, sample: sample.clone() });
        state.last = Some(Arc::new(sample.clone()));
        state.up = true;
        state.lost = false;
        state.refusals = 0;
        state.next_try = 0;
        state.why = None;
    }

    /// It did not answer. Reported once, until it has answered again.
    pub(crate) fn refused(
        &self,
        now: u64,
        at: Time,
        error: &DeviceError,
        retry: Duration,
        out: &Outbox,
    ) {
        let mut state = self.state();
        state.refusals = state.refusals.saturating_add(1);
        state.why = Some(error.to_string());
        let lost = *error == DeviceError::Lost;
        if lost || state.refusals >= SILENT_AFTER {
            state.last = None;
            state.slices = Arc::default();
            state.processes = Arc::default();
            state.up = false;
            state.next_try = now + u64::try_from(retry.as_millis()).unwrap_or(u64::MAX);
        }
        let newly_lost = lost && !state.lost;
        let newly_silent = !lost && state.refusals == SILENT_AFTER;
        state.lost = lost;
        drop(state);
        if newly_lost {
            out.put([agent_fault(
                "gpu-lost",
                at,
                Some(self.index),
                format!("GPU {}: {error}", self.index),
            )]);
        } else if newly_silent {
            let text = format!("GPU {} does not answer: {error}", self.index);
            out.put([agent_fault("gpu-silent", at, Some(self.index), text)]);
        }
    }

    /// Something was reported of it.
    pub(crate) fn xid(&self, now: u64, xid: u32, count: u64) {
        let mut state = self.state();
        state.xid = Some(xid);
        forget(&mut state.xids, now);
        if let Some(same) = state.xids.iter_mut().find(|(at, x, _)| *x == xid && now - *at < 1000) {
            same.2 = same.2.saturating_add(count);
        } else if state.xids.len() < MOST_XIDS {
            state.xids.push_back((now, xid, count));
        } else if let Some(same) = state.xids.iter_mut().rev().find(|(_, x, _)| *x == xid) {
            same.2 = same.2.saturating_add(count);
        }
    }

    /// A summary of what was sampled after `steady`; none when it is silent.
    pub(crate) fn summary(&self, after: u64) -> Option<Row> {
        let state = self.state();
        state.up.then(|| state.ring.summary(self.index, after)).flatten()
    }

    /// As it is now.
    pub(crate) fn now(&self, now: u64, hung: bool, stale: u64) -> GpuNow {
        let mut state = self.state();
        forget(&mut state.xids, now);
        let last = state.ring.last().map(|t| (t.steady, t.at));
        let fresh = last.is_some_and(|(steady, _)| now.saturating_sub(steady) <= stale);
        let up = state.up && fresh && !hung;
        let mut xids: Vec<(u32, u64)> = Vec::new();
        for (_, xid, n) in &state.xids {
            match xids.iter_mut().find(|(x, _)| x == xid) {
                Some(e) => e.1 = e.1.saturating_add(*n),
                None => xids.push((*xid, *n)),
            }
        }
        xids.sort_unstable();
        GpuNow {
            index: self.index,
            uuid: self.uuid.clone(),
            pci: self.pci.clone(),
            gpu: state.gpu.clone(),
            up,
            hung,
            lost: state.lost,
            why: match hung {
                true => Some("a call into the driver has not come back".into()),
                false => state.why.clone(),
            },
            at: last.map_or(Time(0), |(_, at)| at),
            sample: if up { state.last.clone() } else { None },
            slices: if up { state.slices.clone() } else { Arc::default() },
            processes: if up { state.processes.clone() } else { Arc::default() },
            xid: state.xid,
            xids,
        }
    }
}

fn forget(xids: &mut VecDeque<(u64, u32, u64)>, now: u64) {
    while xids.front().is_some_and(|(at, ..)| now.saturating_sub(*at) > XID_WINDOW_MS) {
        xids.pop_front();
    }
}
