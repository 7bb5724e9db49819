//! Is this machine fit for work? Judged from one look, without a server: pure, so that every case
//! can be tried on paper.

mod gpus;
mod host;
mod log;

#[cfg(test)]
mod tests;

use crate::host::HostSample;
use crate::kmsg::PastLogSummary;
use muster_gpu::device::{BusNow, DeviceError, Recovery};
use muster_gpu::sample::{Field, Sample};
use muster_model::fault::ObservedFault;
use muster_model::node::Gpu;
use muster_model::units::Time;
use serde::Serialize;
use std::collections::BTreeMap;

/// What was seen.
#[derive(Debug, Clone, Default)]
pub struct NodeObservation {
    /// When it was looked at.
    pub at: Time,
    /// Name of the host.
    pub hostname: String,
    /// Why the driver does not answer; none when it does.
    pub no_driver: Option<DeviceError>,
    /// The driver's name and versions.
    pub driver: String,
    /// Versions that it reports.
    pub versions: BTreeMap<String, String>,
    /// Devices of the driver, in index order.
    pub gpus: Vec<GpuObservation>,
    /// So many GPUs there should be, where somebody said.
    pub expect: Option<u32>,
    /// Host and log were left out.
    pub gpus_only: bool,
    /// The host at the beginning of the look.
    pub before: HostSample,
    /// The host at its end, a few seconds later.
    pub host: HostSample,
    /// How the kernel's log was read.
    pub past: PastLogSummary,
    /// Faults in it.
    pub faults: Vec<ObservedFault>,
}

/// One device as it was seen.
#[derive(Debug, Clone, Default)]
pub struct GpuObservation {
    /// Index on the node.
    pub index: u32,
    /// PCI address.
    pub pci: Option<String>,
    /// What it is; none when it did not say.
    pub gpu: Option<Gpu>,
    /// Why it did not answer.
    pub error: Option<DeviceSilence>,
    /// Figures at the beginning of the look.
    pub first: Option<Sample>,
    /// Figures at its end.
    pub last: Option<Sample>,
    /// How it is wired at present.
    pub bus: BusNow,
    /// What the driver recommends.
    pub recovery: Option<Recovery>,
}

/// Why a device did not answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DeviceSilence {
    /// It is gone from the bus.
    Lost,
    /// A call to it did not come back.
    Hung,
    /// It said something else.
    Other(String),
}

/// How fit a thing is. Ordered: a later one is worse.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Nothing is wrong.
    #[default]
    Healthy,
    /// It works, and less well than it should, or not for long.
    Degraded,
    /// No work should be put on it.
    Failed,
}

impl Verdict {
    /// Exit code of the command.
    #[must_use]
    pub fn exit_code(self) -> u8 {
        match self {
            Verdict::Healthy => 0,
            Verdict::Degraded => 20,
            Verdict::Failed => 21,
        }
    }

    /// As one word.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Verdict::Healthy => "healthy",
            Verdict::Degraded => "degraded",
            Verdict::Failed => "failed",
        }
    }
}

/// Something worth saying.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// How bad; `healthy` is a remark.
    pub verdict: Verdict,
    /// Stable name.
    pub code: String,
    /// The GPU, where one is meant.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub gpu: Option<u32>,
    /// What is wrong.
    pub what: String,
    /// What to do.
    pub todo: String,
}

/// A GPU in a few figures.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct GpuReport {
    /// Index on the node.
    pub index: u32,
    /// Its worst finding.
    pub verdict: Verdict,
    /// SKU.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub sku: Option<String>,
    /// Unique id.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// PCI address.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub pci: Option<String>,
    /// Core temperature, Celsius.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub temp: Option<f64>,
    /// Power it draws, in watts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub power: Option<f64>,
    /// Percent of the time with a kernel running.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub util: Option<f64>,
    /// MiB in use.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_used: Option<f64>,
    /// MiB in all.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_total: Option<f64>,
}

/// What came of it.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct Report {
    /// Name of the host.
    pub hostname: String,
    /// When it was looked at.
    pub at: Time,
    /// The worst finding.
    pub verdict: Verdict,
    /// In one line.
    pub summary: String,
    /// The driver's name.
    pub driver: String,
    /// Versions that it reports.
    pub versions: BTreeMap<String, String>,
    /// Each GPU.
    pub gpus: Vec<GpuReport>,
    /// Worst first.
    pub findings: Vec<Finding>,
}

/// Collects findings.
struct Findings(Vec<Finding>);

impl Findings {
    fn add(
        &mut self,
        verdict: Verdict,
        code: &str,
        gpu: Option<u32>,
        what: impl Into<String>,
        todo: impl Into<String>,
    ) {
        let (what, todo) = (what.into(), todo.into());
        self.0.push(Finding { verdict, code: code.into(), gpu, what, todo });
    }
}

/// Judges what was seen.
#[must_use]
pub fn evaluate(look: &NodeObservation) -> Report {
    let mut found = Findings(Vec::new());
    gpus::driver(look, &mut found);
    for g in &look.gpus {
        gpus::one(look, g, &mut found);
    }
    gpus::together(look, &mut found);
    log::faults(look, &mut found);
    host::evaluate(look, &mut found);
    let mut findings = found.0;
    // Stable: within one verdict they stay in the order of the rules.
    findings.sort_by_key(|f| std::cmp::Reverse(f.verdict));
    let verdict = findings.iter().map(|f| f.verdict).max().unwrap_or_default();
    let gpus: Vec<GpuReport> = look.gpus.iter().map(|g| report(g, &findings)).collect();
    let summary = summary(look, verdict, &gpus, &findings);
    Report {
        hostname: look.hostname.clone(),
        at: look.at,
        verdict,
        summary,
        driver: look.driver.clone(),
        versions: look.versions.clone(),
        gpus,
        findings,
    }
}

fn report(g: &GpuObservation, findings: &[Finding]) -> GpuReport {
    let of = |field| g.last.as_ref().and_then(|s| s.get(field));
    let own = findings.iter().filter(|f| f.gpu == Some(g.index));
    GpuReport {
        index: g.index,
        verdict: own.map(|f| f.verdict).max().unwrap_or_default(),
        sku: g.gpu.as_ref().map(|x| x.sku.clone()),
        uuid: g.gpu.as_ref().map(|x| x.uuid.clone()),
        serial: g.gpu.as_ref().and_then(|x| x.serial.clone()),
        pci: g.pci.clone(),
        temp: of(Field::Temp),
        power: of(Field::Power).or_else(|| of(Field::PowerNow)),
        util: of(Field::Util),
        memory_used: of(Field::FbUsed),
        memory_total: of(Field::FbTotal),
    }
}

fn summary(
    look: &NodeObservation,
    verdict: Verdict,
    gpus: &[GpuReport],
    findings: &[Finding],
) -> String {
    let count = match gpus.len() {
        0 => "no GPU".to_string(),
        1 => "1 GPU".to_string(),
        n => format!("{n} GPUs"),
    };
    match findings.first().filter(|f| f.verdict > Verdict::Healthy) {
        None if look.gpus.is_empty() && look.gpus_only => "no GPU on this machine".into(),
        None if look.gpus.is_empty() => "no GPU on this machine; the host is healthy".into(),
        None if look.gpus_only && gpus.len() == 1 => format!("{count} is healthy"),
        None if look.gpus_only => format!("{count} are healthy"),
        None => format!("{count} and the host are healthy"),
        Some(worst) => {
            let more = findings.iter().filter(|f| f.verdict > Verdict::Healthy).count() - 1;
            let more = if more == 0 { String::new() } else { format!(" (and {more} more)") };
            format!("{}: {}{more}", verdict.word(), named(worst))
        }
    }
}

/// A finding with its GPU before it.
#[must_use]
pub fn named(f: &Finding) -> String {
    match f.gpu {
        Some(gpu) => format!("GPU {gpu}: {}", f.what),
        None => f.what.clone(),
    }
}
