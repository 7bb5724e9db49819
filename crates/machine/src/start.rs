//! Everything that makes this machine a node, put together.

use crate::act::{ActExecutor, Allowed};
use crate::clean::{self, Scrub};
use crate::mig;
use crate::order::TestOrder;
use crate::qualify::Spawned;
use crate::watch::Watch;
use muster_agent::hooks::Hooks;
use muster_agent::runner::{PidMap, RunnerTools};
use muster_gpu::device::{DeviceError, Driver};
use muster_health::faults::{Catalogue, Context, FaultFileError};
use muster_monitor::exporter::{Exporter, ExporterError, JobLabels, PageConfig};
use muster_monitor::{Config, Monitor, MonitorError};
use muster_supervise::within;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;

/// How this machine is watched, tested and cleaned.
pub struct Options {
    /// GPUs are looked at this often.
    pub every: Duration,
    /// Where Prometheus finds the figures; nowhere when absent.
    pub exporter: Option<(SocketAddr, PageConfig)>,
    /// The node's pool: overrides of the catalogue may name it.
    pub pool: String,
    /// The operator's own verdicts on faults, as a file's text.
    pub faults: Option<String>,
    /// Directories that must not fill up.
    pub dirs: Vec<PathBuf>,
    /// What is done between two tenants of a GPU.
    pub scrub: Scrub,
    /// Cut GPUs in MIG mode into the slices that jobs are given.
    pub cut: bool,
    /// How a test is done.
    pub test: TestOrder,
    /// What ranks are run with.
    pub runner_tools: RunnerTools,
}

/// What a machine does only when it is asked to.
#[derive(Debug, Clone, Default)]
pub struct OptionalDuties {
    /// File systems that are read, written and looked up every half minute.
    pub watch_fs: Vec<PathBuf>,
    /// What the server may have done to this machine.
    pub allowed: Allowed,
}

/// Why it could not be put together.
#[derive(Debug, thiserror::Error)]
pub enum MachineError {
    /// The operator's file of faults is wrong.
    #[error("the file of faults: {0}")]
    Faults(#[from] FaultFileError),
    /// No threads.
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    /// This program does not know where it is.
    #[error("cannot find this program: {0}")]
    Program(#[source] std::io::Error),
}

/// A machine that is watched. Dropped, it is watched no more.
pub struct Machine {
    /// For the agent.
    pub hooks: Hooks,
    /// What is seen.
    pub watch: Arc<Watch>,
    /// Where the figures are served.
    pub exporter: Option<Exporter>,
}

/// Starts watching, and makes what the agent needs.
///
/// # Errors
/// When a file is wrong, or the machine gives no threads.
pub fn start(o: Options) -> Result<Machine, MachineError> {
    start_with(o, OptionalDuties::default())
}

/// The same, with what is done only on demand.
///
/// # Errors
/// When a file is wrong, or the machine gives no threads.
pub fn start_with(o: Options, more: OptionalDuties) -> Result<Machine, MachineError> {
    let catalogue = match &o.faults {
        Some(text) => Arc::new(Catalogue::builtin().with_overrides(text)?),
        None => Arc::new(Catalogue::builtin().clone()),
    };
    let (driver, (sku, driver_major)) = match driver_within(muster_gpu::open, OPEN) {
        Ok((driver, about)) => (Ok(driver), about),
        Err(e) => (Err(e), (String::new(), None)),
    };
    let context = Context { driver_major, sku, pool: o.pool.clone() };
    let pids = o.runner_tools.pids.clone();
    let wakeup = Arc::new(Notify::new());
    let notify = wakeup.clone();
    let mut config = Config::reading(catalogue, context);
    config.every = o.every;
    config.dirs = o.dirs;
    config.probe = more.watch_fs;
    config.wakeup = Arc::new(move || notify.notify_one());
    let owners = pids.clone();
    config.owner_of = Arc::new(move |pid| owners.owner_of(pid));
    let answers = driver.is_ok();
    let monitor = match driver {
        Ok(driver) => Monitor::start(config, driver)?,
        Err(e) => {
            log_no_driver(&e);
            Monitor::start_without(config, &e)?
        }
    };
    let watch = Arc::new(Watch::new(monitor, wakeup));
    let hand = ActExecutor::new(more.allowed, watch.clone(), pids.clone());
    let pool = o.pool.clone();
    let exporter = o.exporter.and_then(|(addr, page)| {
        // Another exporter may have the port; work must not wait for that to be sorted out.
        serve(addr, page, &watch, pids, o.pool)
            .inspect_err(|e| {
                tracing::warn!(error = %chain(e), "no metrics for Prometheus: name another address with --exporter");
            })
            .ok()
    });
    let mut runner_tools = o.runner_tools;
    let explaining = watch.clone();
    runner_tools.explain = Some(Arc::new(move |key, pids| explaining.explain(key, pids)));
    // A second way into the driver: the first belongs to those who watch.
    if answers && let Ok((driver, _)) = driver_within(muster_gpu::open, OPEN) {
        let driver: Arc<dyn Driver> = Arc::from(driver);
        runner_tools.slices = Some(mig::slices(driver.clone(), o.cut));
        let scrub = o.scrub;
        runner_tools.after_slot = Some(Arc::new(move |slot| clean::clean(&driver, scrub, slot)));
    }
    let qualifier = Spawned::here(o.test).map_err(MachineError::Program)?;
    let hooks = Hooks {
        qualifier: Some(Arc::new(qualifier)),
        faults: Some(watch.clone()),
        telemetry: Some(watch.clone()),
        runner_tools,
        actor: Some(Arc::new(hand)),
        pool,
    };
    Ok(Machine { hooks, watch, exporter })
}

fn chain(e: &dyn std::error::Error) -> String {
    match e.source() {
        Some(source) => format!("{e}: {}", chain(source)),
        None => e.to_string(),
    }
}

/// How long the driver may take to answer for the first time. It may have to wake every GPU.
const OPEN: Duration = Duration::from_secs(60);

/// The SKU of the first GPU, and the driver's major version.
type About = (String, Option<u32>);

/// Opens the driver and asks it what is there. Where it hangs, the machine is one whose driver does not
/// answer, and starts all the same.
fn driver_within(
    open: impl FnOnce() -> Result<Box<dyn Driver>, DeviceError> + Send + 'static,
    most: Duration,
) -> Result<(Box<dyn Driver>, About), DeviceError> {
    let ask = move || -> Result<(Box<dyn Driver>, About), DeviceError> {
        let driver = open()?;
        let about = about(driver.as_ref());
        Ok((driver, about))
    };
    let silent = || DeviceError::Failed(format!("it does not answer within {} s", most.as_secs()));
    within("driver-open", most, ask).unwrap_or_else(|| Err(silent()))
}

fn about(driver: &dyn Driver) -> About {
    let versions = driver.versions();
    let major = versions.get("driver").and_then(|v| v.split('.').next()?.parse().ok());
    let first = driver.devices().into_iter().flatten().next();
    let sku = first.and_then(|d| d.describe().ok()).map(|g| g.sku).unwrap_or_default();
    (sku, major)
}

fn log_no_driver(e: &DeviceError) {
    match e {
        // Most machines that run the control plane have none.
        DeviceError::NoDriver(why) => tracing::debug!(why, "no GPU driver on this machine"),
        e => tracing::warn!(error = %e, "the GPU driver does not answer"),
    }
}

fn serve(
    addr: SocketAddr,
    mut page: PageConfig,
    watch: &Arc<Watch>,
    pids: PidMap,
    pool: String,
) -> Result<Exporter, ExporterError> {
    let owners = pids.clone();
    page.owner_of = Arc::new(move |pid| owners.owner_of(pid));
    page.labels_of = Arc::new(move |gpu| {
        let h = pids.holder_of(gpu)?;
        Some(JobLabels {
            job: h.key.job.to_string(),
            attempt: h.key.attempt,
            rank: h.rank,
            project: h.project,
            pool: pool.clone(),
        })
    });
    let source = watch.clone();
    Exporter::start(addr, page, Arc::new(move || source.monitor().latest()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_gpu::simulated::{SimDriver, SimGpus, SimSku};
    use std::sync::mpsc::channel;

    #[test]
    fn a_machine_whose_driver_hangs_starts_all_the_same() {
        let (_open, never) = channel::<Result<Box<dyn Driver>, DeviceError>>();
        let hangs = move || never.recv().unwrap_or_else(|_| Err(DeviceError::Lost));
        let none = driver_within(hangs, Duration::from_millis(1)).err();
        assert!(matches!(none, Some(DeviceError::Failed(_))), "{none:?}");
        let world = || -> Result<Box<dyn Driver>, DeviceError> {
            Ok(Box::new(SimDriver::new(&SimGpus::of(SimSku::H200Sxm, "n1", 1))))
        };
        let (_, (sku, _)) = driver_within(world, OPEN * 10).ok().unwrap();
        assert!(!sku.is_empty());
    }
}
