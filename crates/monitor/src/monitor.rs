//! The monitor: all of it together, on threads of its own.

use crate::config::{Config, FASTEST, SLOWEST};
use crate::faults::Outbox;
use crate::host::watch::HostWatch;
use crate::host::{HostReader, HostSample};
use crate::kmsg::{self, Hub, KernelLog};
use crate::parts::{NoDriver, OnBus, driver_fault, linked, metrics, ports};
use crate::probe::{self, Probes};
use crate::ring::Row;
use crate::sampler::{Pace, Sampler, Shared};
use crate::snapshot::Snapshot;
use muster_gpu::device::{DeviceError, Driver, DriverEvent};
use muster_model::fault::ObservedFault;
use muster_model::node::Gpu;
use muster_supervise::SupervisedThread;
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a thread waits for the driver to report something before it looks whether to stop.
const EVENT_WAIT: Duration = Duration::from_millis(250);

/// What the devices are: everything that does not change while they work.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Described {
    /// Name of the driver; `none` where there is none.
    pub driver: String,
    /// Why there is none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub no_driver: Option<String>,
    /// Versions that it reports.
    pub versions: BTreeMap<String, String>,
    /// Devices that said what they are, in index order.
    pub gpus: Vec<Gpu>,
    /// Generation and lanes of the bus that are in use now, by index; they fall at rest.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bus_now: BTreeMap<u32, (u32, u32)>,
    /// Those that did not: index and why.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub silent: Vec<(u32, String)>,
}

/// Why the monitor cannot run.
#[derive(Debug, thiserror::Error)]
#[error("cannot start a thread for the monitor")]
pub struct MonitorError(#[source] std::io::Error);

/// Watches devices, host and kernel's log until it is stopped.
pub struct Monitor {
    board: Arc<MonitorState>,
    sampler: Mutex<Sampler>,
    shared: Arc<Shared>,
    row_every: Duration,
    probes: Probes,
    stop: Arc<AtomicBool>,
    threads: Mutex<Vec<SupervisedThread>>,
}

impl std::fmt::Debug for Monitor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Monitor")
            .field("driver", &self.shared.driver_name())
            .finish_non_exhaustive()
    }
}

/// What the threads write and everybody reads.
struct MonitorState {
    latest: Mutex<Arc<Snapshot>>,
    host: Mutex<Option<Arc<HostSample>>>,
    hub: Hub,
    outbox: Outbox,
    no_driver: Option<String>,
    ready: AtomicBool,
    /// Ports that had a link at some time.
    linked: Mutex<BTreeSet<String>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl MonitorState {
    fn publish(&self, shared: &Shared) {
        let (gpus, stuck) = shared.devices();
        let snapshot = Snapshot {
            at: (shared.wall)(),
            driver: shared.driver_name(),
            versions: shared.versions(),
            gpus,
            no_driver: self.no_driver.clone(),
            stuck,
            host: lock(&self.host).clone(),
            log: self.hub.log_now(),
            faults: self.outbox.counts(),
        };
        *lock(&self.latest) = Arc::new(snapshot);
        self.ready.store(true, Ordering::Release);
    }
}

impl Monitor {
    /// Starts watching.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub fn start(config: Config, driver: Box<dyn Driver>) -> Result<Monitor, MonitorError> {
        Monitor::begin(config, Arc::from(driver), None)
    }

    /// Starts watching a machine whose driver does not answer: host and log are there all the same.
    ///
    /// # Errors
    /// When the machine gives no threads.
    pub fn start_without(config: Config, why: &DeviceError) -> Result<Monitor, MonitorError> {
        Monitor::begin(config, Arc::new(NoDriver), Some(why))
    }

    fn begin(
        config: Config,
        driver: Arc<dyn Driver>,
        why: Option<&DeviceError>,
    ) -> Result<Monitor, MonitorError> {
        let outbox = Outbox::new(config.wakeup).judging(config.verdicts);
        let wall = config.wall;
        let board = Arc::new(MonitorState {
            latest: Mutex::default(),
            host: Mutex::new(None),
            hub: Hub::new(config.parser, config.owner_of, outbox.clone(), wall.clone()),
            outbox: outbox.clone(),
            no_driver: why.map(ToString::to_string),
            ready: AtomicBool::new(false),
            linked: Mutex::default(),
        });
        let pace = Pace {
            every: config.every.clamp(FASTEST, SLOWEST),
            keep: config.keep,
            hang_after: config.hang_after,
            retry_lost: config.retry_lost,
        };
        if let Some(why) = why
            && let Some(fault) = driver_fault(why, &config.root, wall())
        {
            outbox.put([fault]);
        }
        let published = board.clone();
        let publish = Box::new(move |shared: &Shared| published.publish(shared));
        let clocks = (config.steady, wall.clone());
        let sampler =
            Sampler::start(driver.clone(), pace, clocks, outbox, publish).map_err(MonitorError)?;
        let shared = sampler.shared.clone();
        board.hub.devices(Arc::new(OnBus(shared.clone())));
        let monitor = Monitor {
            board,
            sampler: Mutex::new(sampler),
            shared,
            row_every: config.row_every,
            probes: Probes::start(&config.probe, probe::EVERY).map_err(MonitorError)?,
            stop: Arc::new(AtomicBool::new(false)),
            threads: Mutex::default(),
        };
        monitor.watch_host(config.root, config.dirs, config.host_every)?;
        monitor.start_readers(config.kernel_log, driver, why.is_none())?;
        Ok(monitor)
    }

    /// Runs it on a thread of its own, and again when it panics.
    fn spawn(
        &self,
        name: &'static str,
        joined: bool,
        f: impl FnMut() + Send + 'static,
    ) -> Result<(), MonitorError> {
        let thread = muster_supervise::thread(name, f).map_err(MonitorError)?;
        if joined {
            lock(&self.threads).push(thread);
        }
        Ok(())
    }

    fn watch_host(
        &self,
        root: PathBuf,
        dirs: Vec<PathBuf>,
        every: Duration,
    ) -> Result<(), MonitorError> {
        let (board, shared, stop) = (self.board.clone(), self.shared.clone(), self.stop.clone());
        // Not joined: a look at a disk may hang like a call into a driver.
        self.spawn("host-sampler", false, move || {
            let mut reader = HostReader::new(root.clone());
            let mut watch = HostWatch::new(dirs.clone());
            while !stop.load(Ordering::Relaxed) {
                let host = reader.sample_host((shared.wall)());
                let log = board.hub.log_now().from.is_some();
                board.outbox.put(watch.find_faults(&host, log));
                lock(&board.linked).extend(linked(&host));
                *lock(&board.host) = Some(Arc::new(host));
                let until = Instant::now() + every;
                while !stop.load(Ordering::Relaxed) && Instant::now() < until {
                    std::thread::park_timeout(
                        until
                            .saturating_duration_since(Instant::now())
                            .min(Duration::from_millis(500)),
                    );
                }
            }
        })
    }

    fn start_readers(
        &self,
        log: KernelLog,
        driver: Arc<dyn Driver>,
        events: bool,
    ) -> Result<(), MonitorError> {
        if log == KernelLog::Off {
            self.board.hub.log(|l| l.why_not = Some("it is switched off".into()));
        } else {
            let (board, stop) = (self.board.clone(), self.stop.clone());
            self.spawn("kernel-log", true, move || kmsg::read(&log, &board.hub, &stop))?;
        }
        if events {
            let (board, stop) = (self.board.clone(), self.stop.clone());
            // Not joined: it waits inside the driver.
            self.spawn("gpu-events", false, move || {
                while !stop.load(Ordering::Relaxed) {
                    match driver.wait_event(EVENT_WAIT) {
                        Ok(Some(DriverEvent { gpu, xid })) => board.hub.driver_event(gpu, xid),
                        Ok(None) => board.hub.publish_faults(),
                        Err(e) => {
                            tracing::debug!(error = %e, "the driver reports nothing by itself");
                            return;
                        }
                    }
                }
            })?;
        }
        Ok(())
    }

    /// What is known now.
    #[must_use]
    pub fn latest(&self) -> Arc<Snapshot> {
        lock(&self.board.latest).clone()
    }

    /// Faults that were not taken yet, oldest first.
    #[must_use]
    pub fn take_faults(&self) -> Vec<ObservedFault> {
        self.board.outbox.take()
    }

    /// Summaries of the last `row_every`, one for each device that answers.
    #[must_use]
    pub fn rows(&self) -> Vec<Row> {
        let span = u64::try_from(self.row_every.as_millis()).unwrap_or(u64::MAX);
        self.shared.rows(self.shared.steady.ms().saturating_sub(span).saturating_sub(1))
    }

    /// Figures of the last `row_every` by the names of these columns: one row for each device in
    /// index order, whether it answers or not.
    #[must_use]
    pub fn table(&self, columns: &[&str]) -> Vec<Vec<Option<f32>>> {
        let rows = self.rows();
        let of = |index: u32| rows.iter().find(|r| r.gpu == index);
        self.shared
            .slots()
            .iter()
            .map(|slot| {
                let row = of(slot.index);
                columns.iter().map(|c| row.and_then(|r| r.column(c)).map(|v| v as f32)).collect()
            })
            .collect()
    }

    /// Host figures for the server, by name.
    #[must_use]
    pub fn host_metrics(&self) -> BTreeMap<String, f64> {
        let host = lock(&self.board.host).clone();
        host.map(|h| metrics(&h)).unwrap_or_default()
    }

    /// The same with network ports, file systems and the agent's own pace, for a row that goes to
    /// the server: the longest gap between two looks at the devices since the last such row.
    #[must_use]
    pub fn row_metrics(&self) -> BTreeMap<String, f64> {
        let mut all = self.host_metrics();
        if let Some(host) = lock(&self.board.host).clone() {
            all.extend(ports(&host, &lock(&self.board.linked)));
        }
        all.extend(self.probes.metrics());
        all.insert("agent.gap_ms".into(), self.shared.take_gap() as f64);
        all
    }

    /// What the devices are.
    #[must_use]
    pub fn describe(&self) -> Described {
        let mut all = Described {
            driver: self.shared.driver_name().into(),
            no_driver: self.board.no_driver.clone(),
            versions: self.shared.versions().as_ref().clone(),
            ..Described::default()
        };
        let (now, _) = self.shared.devices();
        for (slot, now) in self.shared.slots().iter().zip(now) {
            match slot.gpu() {
                Some(gpu) => all.gpus.push(gpu.as_ref().clone()),
                None => all.silent.push((
                    slot.index,
                    now.why.unwrap_or_else(|| "it has not answered yet".into()),
                )),
            }
        }
        all
    }

    /// Waits until every device was asked once, at most so long. False when that was too short.
    #[must_use]
    pub fn wait_ready(&self, most: Duration) -> bool {
        let until = Instant::now() + most;
        loop {
            let host = lock(&self.board.host).is_some();
            if host && self.board.ready.load(Ordering::Acquire) {
                self.board.publish(&self.shared);
                return true;
            }
            if Instant::now() >= until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    /// Ends its threads; one that is stuck in a driver is left behind.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
        lock(&self.sampler).stop();
        SupervisedThread::end_all(lock(&self.threads).drain(..));
    }
}

impl Drop for Monitor {
    fn drop(&mut self) {
        self.stop();
    }
}
