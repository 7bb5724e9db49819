//! The look that [`crate::check`] judges: everything is asked once, a few seconds pass, and what
//! moves is asked again. Nothing that hangs holds it up.

use crate::check::{DeviceSilence, GpuObservation, NodeObservation};
use crate::host::HostReader;
use crate::kmsg::{FaultParser, ParsedFault, PastLogSummary, past};
use crate::snapshot::pci_key;
use muster_gpu::device::{Device, DeviceError, Driver};
use muster_gpu::sample::Sample;
use muster_health::faults::{Catalogue, Context, Reader};
use muster_model::fault::ObservedFault;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// How to look.
#[derive(Debug, Clone)]
pub struct Gather {
    /// Between the first and the second look.
    pub during: Duration,
    /// A call that takes longer has hung.
    pub patience: Duration,
    /// Where `/proc` and `/sys` are.
    pub root: PathBuf,
    /// Look at the host and its log too.
    pub host: bool,
    /// Another kernel log than this machine's.
    pub log: Option<PathBuf>,
    /// Faults older than this do not count; none for everything since boot.
    pub since: Option<Span>,
    /// So many GPUs there should be.
    pub expect: Option<u32>,
    /// Name of the host.
    pub hostname: String,
    /// How faults are judged.
    pub catalogue: Arc<Catalogue>,
    /// The node's pool, for verdicts that are made by pool.
    pub pool: String,
}

impl Gather {
    /// The usual look.
    #[must_use]
    pub fn new(hostname: impl Into<String>) -> Gather {
        Gather {
            during: Duration::from_secs(2),
            patience: Duration::from_secs(5),
            root: "/".into(),
            host: true,
            log: None,
            since: None,
            expect: None,
            hostname: hostname.into(),
            catalogue: Arc::new(Catalogue::builtin().clone()),
            pool: String::new(),
        }
    }

    /// Looks. `open` finds the driver, on a thread of its own: even that may hang.
    #[must_use]
    pub fn observe_node<F>(&self, now: Time, open: F) -> NodeObservation
    where
        F: FnOnce() -> Result<Box<dyn Driver>, DeviceError> + Send + 'static,
    {
        let mut look = NodeObservation {
            at: now,
            hostname: self.hostname.clone(),
            expect: self.expect,
            gpus_only: !self.host,
            driver: "none".into(),
            ..NodeObservation::default()
        };
        let mut host = self.host.then(|| HostReader::new(&self.root));
        if let Some(host) = &mut host {
            look.before = host.sample_host(now);
        }
        let began = Instant::now();
        self.devices(&mut look, open);
        let Some(host) = &mut host else { return look };
        // Two looks at the host need time between them, GPUs or not.
        std::thread::sleep(self.during.saturating_sub(began.elapsed()));
        look.host = host.sample_host(now);
        (look.past, look.faults) = self.log(now, &look);
        look
    }

    fn devices<F>(&self, look: &mut NodeObservation, open: F)
    where
        F: FnOnce() -> Result<Box<dyn Driver>, DeviceError> + Send + 'static,
    {
        let opened = within(self.patience, move || {
            open().map(|driver| {
                let devices: Vec<Result<Arc<dyn Device>, DeviceError>> =
                    driver.devices().into_iter().map(|d| d.map(Arc::from)).collect();
                (driver.name(), driver.versions(), devices, Arc::from(driver))
            })
        });
        let (name, versions, devices, driver): (_, BTreeMap<_, _>, Vec<_>, Arc<dyn Driver>) =
            match opened {
                Some(Ok(found)) => found,
                Some(Err(e)) => {
                    look.no_driver = Some(e);
                    return;
                }
                None => {
                    let what = "a call into it does not return".to_string();
                    look.no_driver = Some(DeviceError::Failed(what));
                    return;
                }
            };
        look.driver = name.into();
        look.versions = versions;
        let (send, receive) = channel();
        let mut waiting: BTreeMap<usize, GpuObservation> = BTreeMap::new();
        for (place, device) in devices.into_iter().enumerate() {
            let index = u32::try_from(place).unwrap_or(u32::MAX);
            match device {
                Err(e) => {
                    let error = Some(silence(&e));
                    look.gpus.push(GpuObservation { index, error, ..GpuObservation::default() });
                }
                Ok(device) => {
                    let blank = GpuObservation {
                        index: device.index(),
                        pci: device.pci().map(str::to_owned),
                        ..GpuObservation::default()
                    };
                    let (send, during, mut seen) = (send.clone(), self.during, blank.clone());
                    let spawned =
                        std::thread::Builder::new().name("gpu-look".into()).spawn(move || {
                            if let Err(e) = one(device.as_ref(), during, &mut seen) {
                                seen.error = Some(silence(&e));
                            }
                            // Nobody waits for a look that came too late.
                            let _ = send.send((place, seen));
                        });
                    if spawned.is_ok() {
                        waiting.insert(place, blank);
                    }
                }
            }
        }
        drop(send);
        let until = Instant::now() + self.during + self.patience;
        while !waiting.is_empty() {
            match receive.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok((place, seen)) => {
                    waiting.remove(&place);
                    look.gpus.push(seen);
                }
                Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => break,
            }
        }
        for (_, blank) in waiting {
            look.gpus.push(GpuObservation { error: Some(DeviceSilence::Hung), ..blank });
        }
        look.gpus.sort_by_key(|g| g.index);
        if look.gpus.iter().any(|g| g.error == Some(DeviceSilence::Hung)) {
            // Unloading a library that is stuck would be stuck too.
            std::mem::forget(driver);
        }
    }

    fn log(&self, now: Time, look: &NodeObservation) -> (PastLogSummary, Vec<ObservedFault>) {
        let sku = look.gpus.iter().find_map(|g| Some(g.gpu.as_ref()?.sku.clone()));
        let driver_major = look
            .versions
            .get("driver")
            .and_then(|v| v.split('.').next())
            .and_then(|v| v.parse().ok());
        let context =
            Context { driver_major, sku: sku.unwrap_or_default(), pool: self.pool.clone() };
        let mut reader = Reader::new(self.catalogue.clone(), context);
        let oldest = self.since.map(|s| now - s);
        let mut heard: Vec<ParsedFault> = Vec::new();
        let read = past(self.log.as_deref(), now, &self.root, &mut |at, line| {
            if oldest.is_none_or(|o| at >= o) {
                FaultParser::line(&mut reader, at, line);
                // What it holds back for a summary is bounded; taking keeps it small.
                if FaultParser::next_due(&reader).is_some_and(|due| due <= at) {
                    heard.extend(FaultParser::take(&mut reader, at));
                }
            }
        });
        // Summaries are reported up to a minute late; nothing more comes, so they are asked for
        // now.
        for late in [0, 10, 120] {
            heard.extend(FaultParser::take(&mut reader, now + Span::secs(late)));
        }
        let gpu = |pci: &str| {
            let key = pci_key(pci);
            let is =
                |g: &&GpuObservation| g.pci.as_deref().and_then(pci_key) == key && key.is_some();
            look.gpus.iter().find(is).map(|g| g.index)
        };
        let faults = heard
            .into_iter()
            .map(|h| ObservedFault {
                gpu: h.pci.as_deref().and_then(gpu),
                code: h.code,
                at: h.at,
                count: h.count,
                source: h.source,
                class: h.class,
                action: h.action,
                pid: h.pid,
                attempt: None,
                rank: None,
                text: h.text,
            })
            .collect();
        (read, faults)
    }
}

fn silence(e: &DeviceError) -> DeviceSilence {
    match e {
        DeviceError::Lost => DeviceSilence::Lost,
        other => DeviceSilence::Other(other.to_string()),
    }
}

fn one(
    device: &dyn Device,
    during: Duration,
    seen: &mut GpuObservation,
) -> Result<(), DeviceError> {
    let mut sample = Sample::default();
    device.sample(&mut sample)?;
    seen.first = Some(sample.clone());
    seen.gpu = Some(device.describe()?);
    std::thread::sleep(during);
    device.sample(&mut sample)?;
    seen.last = Some(sample);
    seen.bus = device.bus();
    seen.recovery = device.recovery();
    Ok(())
}

/// What `f` answers, if it does so in time; otherwise its thread is left behind.
fn within<T: Send + 'static>(
    patience: Duration,
    f: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (send, receive) = channel();
    let spawned = std::thread::Builder::new().name("driver-look".into()).spawn(move || {
        let _ = send.send(f());
    });
    spawned.ok()?;
    receive.recv_timeout(patience).ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::{Verdict, evaluate};
    use crate::fake::{Fake, FakeDeviceMode};
    use crate::simulated_gpus::SimulatedGpus;
    use muster_gpu::simulated::{SimFault, Throttle};

    fn quick() -> Gather {
        let mut g = Gather::new("n");
        g.during = Duration::from_millis(50);
        g.patience = Duration::from_secs(60);
        g.host = false;
        g
    }

    /// One of the calls never comes back, so this is how long the look takes; it is also how long
    /// the others have for theirs.
    fn impatient() -> Gather {
        Gather { patience: Duration::from_secs(10), ..quick() }
    }

    fn codes(look: &NodeObservation) -> Vec<(String, Option<u32>)> {
        evaluate(look).findings.into_iter().map(|f| (f.code, f.gpu)).collect()
    }

    fn observe_simulated(n: u32, spoil: impl FnOnce(&SimulatedGpus)) -> NodeObservation {
        let world = SimulatedGpus::start(&format!("h100-sxm:{n}").parse().expect("a kind"))
            .expect("started");
        spoil(&world);
        let driver = world.driver();
        quick().observe_node(Time(0), move || Ok(driver))
    }

    #[test]
    fn sound_gpus_are_found_sound() {
        let look = observe_simulated(4, |_| {});
        assert_eq!((look.gpus.len(), look.driver.as_str()), (4, "simulated"));
        assert_eq!(codes(&look), vec![]);
    }

    #[test]
    fn broken_ones_are_found_broken() {
        let look = observe_simulated(4, |w| {
            w.world().inject(1, SimFault::Lost);
            w.world().inject(2, SimFault::RemapFailed);
            w.world().inject(3, SimFault::Throttle(Throttle::Hardware));
            w.world().advance(Span::secs(30));
        });
        let report = evaluate(&look);
        assert_eq!(report.verdict, Verdict::Failed);
        let found: Vec<_> =
            report.findings.iter().filter(|f| f.verdict > Verdict::Healthy).collect();
        let has = |code: &str, gpu| found.iter().any(|f| f.code == code && f.gpu == Some(gpu));
        assert!(has("gpu-lost", 1) && has("remap-failed", 2), "{found:#?}");
        assert!(has("throttled", 3), "{found:#?}");
        assert!(found.iter().all(|f| f.gpu != Some(0)), "{found:#?}");
    }

    #[test]
    fn a_gpu_that_hangs_does_not_hold_up_the_look() {
        let fake = Fake::new(3);
        fake.set(1, FakeDeviceMode::Hang);
        let driver = fake.clone();
        let look =
            impatient().observe_node(Time(0), move || Ok(Box::new(driver) as Box<dyn Driver>));
        assert_eq!(codes(&look), vec![("nvml-hang".to_string(), Some(1))]);
        fake.set(1, FakeDeviceMode::Well);
    }

    #[test]
    fn a_driver_that_hangs_or_is_not_there_is_said() {
        let (go, wait) = channel::<()>();
        let hasty = Gather { patience: Duration::from_millis(100), ..quick() };
        let look = hasty.observe_node(Time(0), move || {
            let _ = wait.recv();
            Err(DeviceError::NotAllowed)
        });
        assert_eq!(codes(&look), vec![("driver-error".to_string(), None)]);
        drop(go);
        let look = quick().observe_node(Time(0), || Err(DeviceError::NoDriver("none".into())));
        assert_eq!(codes(&look), vec![]);
    }

    #[test]
    fn the_log_of_the_past_is_read_by_the_same_reader() {
        let dir = tempfile::tempdir().expect("a directory");
        std::fs::create_dir_all(dir.path().join("proc")).expect("made");
        std::fs::write(dir.path().join("proc/uptime"), "10000.00 1.00\n").expect("written");
        let log = dir.path().join("kmsg");
        let xid =
            |usec: u64, what: &str| format!("4,{usec},{usec}000000,-;NVRM: Xid (PCI:{what}\n");
        let mut text = String::from("6,1,1,-;Linux version 6.18\n");
        text += &xid(100, "0000:19:00): 79, pid=1, name=x, GPU has fallen off the bus.");
        for i in 0..500 {
            text += &xid(
                5000 + i,
                "0000:18:00): 31, pid=423, name=bad, channel 0x0000000a, intr 00000000. MMU Fault",
            );
        }
        std::fs::write(&log, text).expect("written");
        let look = |since: Option<Span>| {
            let mut g = quick();
            g.host = true;
            g.root = dir.path().into();
            g.log = Some(log.clone());
            g.since = since;
            let fake = Fake::new(2);
            // The fake's devices sit at 10 and 11; those of the log are elsewhere or theirs.
            g.observe_node(Time(1_000_000_000_000), move || Ok(Box::new(fake) as Box<dyn Driver>))
        };
        let all = look(None);
        assert_eq!(all.past.lines, 502);
        let total: u64 = all.faults.iter().filter(|f| f.code == "xid-31").map(|f| f.count).sum();
        assert_eq!(total, 500, "{:#?}", all.faults);
        let found = evaluate(&all);
        assert!(found.findings.iter().any(|f| f.code == "xid-79" && f.verdict == Verdict::Failed));
        let recent = evaluate(&look(Some(Span::hours(2))));
        assert!(recent.findings.iter().all(|f| f.code != "xid-79"), "{:#?}", recent.findings);
        assert!(recent.findings.iter().any(|f| f.code == "xid-31"));
    }
}
