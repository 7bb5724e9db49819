//! `muster agent metrics`: this machine's metrics for Prometheus, without a server.

use super::gpus::{Gpus, hostname};
use clap::Args;
use muster_gpu::device::Driver;
use muster_health::faults::{Catalogue, Context};
use muster_monitor::exporter::{Exporter, HostnameLabel, Names, Page, PageConfig};
use muster_monitor::{Config, Monitor};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

/// Export this machine's metrics to Prometheus as dcgm-exporter does; needs no server
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster agent metrics                      serve them on port 9400\n  \
muster agent metrics --once               print them\n  \
muster agent metrics --once --simulated h200-sxm:8\n\n\
The agent of a node serves them by itself (`muster agent --exporter`)."
)]
pub(crate) struct Metrics {
    /// Print the page and end
    #[arg(long)]
    once: bool,
    /// Where Prometheus finds them
    #[arg(long, default_value = "0.0.0.0:9400", value_name = "ADDR", conflicts_with = "once")]
    listen: SocketAddr,
    /// What the label with the host's name is called: Hostname or hostname
    #[arg(long, default_value = "Hostname", value_name = "LABEL")]
    hostname_label: HostnameLabel,
    /// Whose names the metrics have: dcgm4 or dcgm46
    #[arg(long, default_value = "dcgm4", value_name = "NAMES")]
    metric_names: Names,
    /// How many times a second GPUs are sampled
    #[arg(long, default_value_t = 1.0, value_name = "HZ", value_parser = super::join::hertz)]
    sample_hz: f64,
    #[command(flatten)]
    gpus: Gpus,
}

/// How long the first look may take.
const PATIENCE: Duration = Duration::from_secs(15);

impl Metrics {
    pub(crate) async fn run(self, _: &Ctx) -> Result<u8, Fail> {
        let opened = self.gpus.prepare()?;
        let driver = opened.opener()();
        let context = driver.as_ref().map(|d| context(d.as_ref())).unwrap_or_default();
        let mut config = Config::reading(Arc::new(Catalogue::builtin().clone()), context);
        config.every = Duration::from_secs_f64(1.0 / self.sample_hz);
        let monitor = match driver {
            Ok(driver) => Monitor::start(config, driver),
            Err(e) => Monitor::start_without(config, &e),
        };
        let monitor = Arc::new(monitor.map_err(|e| Fail::failed(chain(&e)))?);
        let mut page = PageConfig::new(hostname());
        page.hostname_label = self.hostname_label;
        page.names = self.metric_names;
        if self.once {
            if !monitor.wait_ready(PATIENCE) {
                output::note("note: not every GPU has answered; those that did are shown");
            }
            return output::print(Page::new(page).render(&monitor.latest())).map(|()| 0);
        }
        let source = monitor.clone();
        let exporter = Exporter::start(self.listen, page, Arc::new(move || source.latest()))
            .map_err(|e| {
                Fail::failed(chain(&e)).hint("another exporter may be there; choose with --listen")
            })?;
        output::print(&format!("metrics at http://{}/metrics\n", exporter.addr()))?;
        let stopped = muster_terminal::shutdown_signal();
        tokio::pin!(stopped);
        let mut every = tokio::time::interval(Duration::from_secs(1));
        loop {
            tokio::select! {
                () = &mut stopped => break,
                _ = every.tick() => log_faults(&monitor),
            }
        }
        drop(exporter);
        monitor.stop();
        Ok(0)
    }
}

/// There is no server to report to: the log has to do.
fn log_faults(monitor: &Monitor) {
    for f in monitor.take_faults() {
        tracing::warn!(code = %f.code, gpu = ?f.gpu, count = f.count, "{}", f.text);
    }
}

/// Asked on no thread of its own: a driver that hangs here is one that cannot be watched.
fn context(driver: &dyn Driver) -> Context {
    let versions = driver.versions();
    let driver_major =
        versions.get("driver").and_then(|v| v.split('.').next()).and_then(|v| v.parse().ok());
    let sku = driver.devices().into_iter().find_map(|d| Some(d.ok()?.describe().ok()?.sku));
    Context { driver_major, sku: sku.unwrap_or_default(), pool: String::new() }
}

fn chain(e: &dyn std::error::Error) -> String {
    match e.source() {
        Some(source) => format!("{e}: {source}"),
        None => e.to_string(),
    }
}
