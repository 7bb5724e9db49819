//! Who understands the lines, and the way of what was understood.

use crate::clock::{Steady, Wall};
use crate::faults::Outbox;
use crate::snapshot::{LogNow, pci_key};
use muster_health::faults::{FaultReport, Reader};
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

/// Codes counted at most; there are a few hundred.
const MOST_CODES: usize = 512;

/// Whose process this is: attempt and rank.
pub type OwnerOf = Arc<dyn Fn(i32) -> Option<(AttemptKey, u32)> + Send + Sync>;

/// A fault as it was understood, before it is known whose it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParsedFault {
    /// Stable code.
    pub code: String,
    /// First seen.
    pub at: Time,
    /// How often it was seen since it was reported before.
    pub count: u64,
    /// Where it was read: the kernel's log or the driver.
    pub source: FaultSource,
    /// What is at fault.
    pub class: FaultClass,
    /// What it asks for.
    pub action: FaultAction,
    /// PCI address of the device, where one is named.
    pub pci: Option<String>,
    /// The process, where one is named.
    pub pid: Option<i32>,
    /// The line as it was read, cut short.
    pub text: String,
}

/// Makes faults of lines and of what the driver reports. Never waits, never fails.
pub trait FaultParser: Send {
    /// A line of the kernel's log.
    fn line(&mut self, at: Time, line: &[u8]);
    /// The driver reported an XID.
    fn driver_event(&mut self, at: Time, pci: Option<&str>, xid: u32);
    /// What is to be reported now.
    fn take(&mut self, now: Time) -> Vec<ParsedFault>;
    /// When there will be something to report without another line.
    fn next_due(&self) -> Option<Time>;
}

impl FaultParser for Reader {
    fn line(&mut self, at: Time, line: &[u8]) {
        Reader::line(self, at, line);
    }

    fn driver_event(&mut self, at: Time, pci: Option<&str>, xid: u32) {
        Reader::driver_event(self, at, pci, xid);
    }

    fn take(&mut self, now: Time) -> Vec<ParsedFault> {
        Reader::take(self, now).into_iter().map(ParsedFault::from).collect()
    }

    fn next_due(&self) -> Option<Time> {
        Reader::next_due(self)
    }
}

impl From<FaultReport> for ParsedFault {
    fn from(seen: FaultReport) -> ParsedFault {
        let pci = seen.pci.map(|p| p.to_string());
        // Whose it is is found out later, from address and process.
        let f = seen.into_fault(None, None, None);
        ParsedFault {
            code: f.code,
            at: f.at,
            count: f.count,
            source: f.source,
            class: f.class,
            action: f.action,
            pci,
            pid: f.pid,
            text: f.text,
        }
    }
}

/// Where a device is found by its PCI address, and where its XIDs are reported.
pub(crate) trait Devices: Send + Sync {
    fn at(&self, pci: (u32, u8, u8)) -> Option<u32>;
    fn pci_of(&self, gpu: u32) -> Option<String>;
    fn xid(&self, gpu: u32, xid: u32, count: u64);
}

/// Ears, devices and owners together: from lines to faults that name a GPU and a rank.
pub(crate) struct Hub {
    parser: Mutex<Box<dyn FaultParser>>,
    devices: OnceLock<Arc<dyn Devices>>,
    owner_of: OwnerOf,
    outbox: Outbox,
    wall: Wall,
    log: Mutex<LogNow>,
    due: Mutex<Option<(Steady, Duration)>>,
}

impl Hub {
    pub(crate) fn new(
        parser: Box<dyn FaultParser>,
        owner_of: OwnerOf,
        outbox: Outbox,
        wall: Wall,
    ) -> Hub {
        Hub {
            parser: Mutex::new(parser),
            devices: OnceLock::new(),
            owner_of,
            outbox,
            wall,
            log: Mutex::default(),
            due: Mutex::new(None),
        }
    }

    /// Whom PCI addresses are looked up with; once.
    pub(crate) fn devices(&self, devices: Arc<dyn Devices>) {
        let _ = self.devices.set(devices);
    }

    fn parser(&self) -> MutexGuard<'_, Box<dyn FaultParser>> {
        self.parser.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn now(&self) -> Time {
        (self.wall)()
    }

    pub(crate) fn put(&self, fault: ObservedFault) {
        self.outbox.put([fault]);
    }

    /// Changes what is known of the log itself.
    pub(crate) fn log(&self, change: impl FnOnce(&mut LogNow)) {
        change(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// What is known of the log itself.
    pub(crate) fn log_now(&self) -> LogNow {
        self.log.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn line(&self, text: &[u8]) {
        let now = self.now();
        self.parser().line(now, text);
    }

    pub(crate) fn driver_event(&self, gpu: Option<u32>, xid: u32) {
        let pci = gpu.and_then(|g| self.devices.get()?.pci_of(g));
        let now = self.now();
        self.parser().driver_event(now, pci.as_deref(), xid);
        self.publish_faults();
    }

    /// Puts what was understood so far into the outbox.
    pub(crate) fn publish_faults(&self) {
        let now = self.now();
        let (heard, due) = {
            let mut parser = self.parser();
            (parser.take(now), parser.next_due())
        };
        let mut next = self.due.lock().unwrap_or_else(PoisonError::into_inner);
        *next = due.map(|d| (Steady::start(), Duration::from_millis(d.since(now).0)));
        drop(next);
        if heard.is_empty() {
            return;
        }
        self.log(|l| count(&mut l.codes, &heard));
        self.outbox.put(heard.into_iter().map(|h| self.attributed(h)));
    }

    /// How long to sleep at most, so that nothing is reported late.
    pub(crate) fn nap(&self, most: Duration) -> Duration {
        let due = self.due.lock().unwrap_or_else(PoisonError::into_inner).clone();
        due.map_or(most, |(since, left)| left.saturating_sub(since.elapsed()).min(most))
            .max(Duration::from_millis(1))
    }

    fn attributed(&self, h: ParsedFault) -> ObservedFault {
        let devices = self.devices.get();
        let gpu = h.pci.as_deref().and_then(pci_key).and_then(|key| devices?.at(key));
        if let (Some(gpu), Some(devices)) = (gpu, devices)
            && let Some(xid) = h.code.strip_prefix("xid-").and_then(|x| x.parse().ok())
        {
            devices.xid(gpu, xid, h.count);
        }
        let owner = h.pid.and_then(|pid| (self.owner_of)(pid));
        ObservedFault {
            code: h.code,
            at: h.at,
            count: h.count,
            source: h.source,
            class: h.class,
            action: h.action,
            gpu,
            pid: h.pid,
            attempt: owner.map(|(attempt, _)| attempt),
            rank: owner.map(|(_, rank)| rank),
            text: h.text,
        }
    }
}

fn count(codes: &mut BTreeMap<String, u64>, heard: &[ParsedFault]) {
    for h in heard {
        if let Some(n) = codes.get_mut(&h.code) {
            *n = n.saturating_add(h.count);
        } else if codes.len() < MOST_CODES {
            codes.insert(h.code.clone(), h.count);
        }
    }
}
