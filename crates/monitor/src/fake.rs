//! A driver for tests whose devices do as they are asked.

use crate::kmsg::{FaultParser, ParsedFault};
use muster_gpu::device::{BusNow, Device, DeviceError, Driver, DriverEvent, Process, Recovery};
use muster_gpu::sample::{Field, Sample};
use muster_model::fault::{FaultAction, FaultClass, FaultSource};
use muster_model::node::Gpu;
use muster_model::units::{Bytes, Time};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

/// The event over which the driver panics.
pub(crate) const FALLS_OVER: u32 = 9999;

/// What one device does when it is asked.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum FakeDeviceMode {
    Well,
    Err(DeviceError),
    Hang,
    /// Panics once, and is well afterwards.
    Panic,
}

#[derive(Default)]
struct FakeState {
    moods: Vec<FakeDeviceMode>,
    asked: Vec<u64>,
    inside: usize,
    events: VecDeque<DriverEvent>,
}

/// Devices that do as they are asked.
#[derive(Clone, Default)]
pub(crate) struct Fake {
    state: Arc<(Mutex<FakeState>, Condvar)>,
}

impl Fake {
    pub(crate) fn new(n: usize) -> Fake {
        let fake = Fake::default();
        let mut w = fake.state.0.lock().expect("whole");
        w.moods = vec![FakeDeviceMode::Well; n];
        w.asked = vec![0; n];
        drop(w);
        fake
    }

    pub(crate) fn set(&self, gpu: usize, mood: FakeDeviceMode) {
        self.state.0.lock().expect("whole").moods[gpu] = mood;
        self.state.1.notify_all();
    }

    pub(crate) fn asked(&self, gpu: usize) -> u64 {
        self.state.0.lock().expect("whole").asked[gpu]
    }

    /// Threads inside a call that hangs.
    pub(crate) fn inside(&self) -> usize {
        self.state.0.lock().expect("whole").inside
    }

    pub(crate) fn event(&self, gpu: u32, xid: u32) {
        let event = DriverEvent { gpu: Some(gpu), xid };
        self.state.0.lock().expect("whole").events.push_back(event);
        self.state.1.notify_all();
    }
}

pub(crate) struct FakeDevice {
    index: u32,
    uuid: String,
    pci: String,
    fake: Fake,
}

impl Device for FakeDevice {
    fn index(&self) -> u32 {
        self.index
    }
    fn uuid(&self) -> &str {
        &self.uuid
    }
    fn pci(&self) -> Option<&str> {
        Some(&self.pci)
    }
    fn describe(&self) -> Result<Gpu, DeviceError> {
        Ok(Gpu {
            index: self.index,
            sku: "h100-sxm".into(),
            uuid: self.uuid.clone(),
            memory: Bytes::gib(80),
            pci: Some(self.pci.clone()),
            ..Gpu::default()
        })
    }
    fn bus(&self) -> BusNow {
        BusNow::default()
    }
    fn sample(&self, sample: &mut Sample) -> Result<(), DeviceError> {
        let i = self.index as usize;
        let (lock, wakeup) = &*self.fake.state;
        let mut w = lock.lock().expect("whole");
        w.asked[i] += 1;
        if w.moods[i] == FakeDeviceMode::Hang {
            w.inside += 1;
            while w.moods[i] == FakeDeviceMode::Hang {
                w = wakeup.wait(w).expect("whole");
            }
            w.inside -= 1;
        }
        if w.moods[i] == FakeDeviceMode::Panic {
            w.moods[i] = FakeDeviceMode::Well;
            // Not under the lock: the others go on.
            drop(w);
            panic!("a device that fails");
        }
        sample.clear();
        match &w.moods[i] {
            FakeDeviceMode::Err(e) => Err(e.clone()),
            _ => {
                sample.set(Field::Temp, 40.0 + f64::from(self.index));
                sample.set(Field::Util, 50.0);
                sample.set(Field::Xid, 0.0);
                Ok(())
            }
        }
    }
    fn sample_slices(&self) -> Result<Vec<(u32, u32, Sample)>, DeviceError> {
        Ok(Vec::new())
    }
    fn processes(&self) -> Result<Vec<Process>, DeviceError> {
        Ok(Vec::new())
    }
    fn recovery(&self) -> Option<Recovery> {
        None
    }
}

impl Driver for Fake {
    fn name(&self) -> &'static str {
        "fake"
    }
    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::from([("driver".to_string(), "580.1".to_string())])
    }
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        let n = self.state.0.lock().expect("whole").moods.len();
        (0..n)
            .map(|i| {
                let index = u32::try_from(i).expect("few");
                let device = FakeDevice {
                    index,
                    uuid: format!("GPU-{i}"),
                    pci: format!("00000000:{:02X}:00.0", 0x10 + i),
                    fake: self.clone(),
                };
                Ok(Box::new(device) as Box<dyn Device>)
            })
            .collect()
    }
    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        let (lock, wakeup) = &*self.state;
        let mut w = lock.lock().expect("whole");
        if w.events.is_empty() {
            w = wakeup.wait_timeout(w, most).expect("whole").0;
        }
        let event = w.events.pop_front();
        drop(w);
        assert!(event.as_ref().is_none_or(|e| e.xid != FALLS_OVER), "a driver that fails");
        Ok(event)
    }
}

/// Understands `FAULT code pci pid` and nothing else.
#[derive(Debug, Default)]
pub(crate) struct FakeFaultParser {
    heard: Vec<ParsedFault>,
}

impl FaultParser for FakeFaultParser {
    fn line(&mut self, at: Time, line: &[u8]) {
        let text = String::from_utf8_lossy(line).into_owned();
        let words: Vec<&str> = text.split(' ').collect();
        if let ["FAULT", code, pci, pid] = words[..] {
            self.heard.push(ParsedFault {
                code: code.into(),
                at,
                count: 1,
                source: FaultSource::Kernel,
                class: FaultClass::Application,
                action: FaultAction::RestartJob,
                pci: Some(pci.into()),
                pid: pid.parse().ok(),
                text: text.clone(),
            });
        }
    }
    fn driver_event(&mut self, at: Time, pci: Option<&str>, xid: u32) {
        self.heard.push(ParsedFault {
            code: format!("xid-{xid}"),
            at,
            count: 1,
            source: FaultSource::Driver,
            class: FaultClass::Gpu,
            action: FaultAction::Watch,
            pci: pci.map(str::to_owned),
            pid: None,
            text: String::new(),
        });
    }
    fn take(&mut self, _: Time) -> Vec<ParsedFault> {
        std::mem::take(&mut self.heard)
    }
    fn next_due(&self) -> Option<Time> {
        None
    }
}
