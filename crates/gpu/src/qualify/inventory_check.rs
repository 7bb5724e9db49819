//! What is looked at rather than measured: is everything there, and in order.

use super::Options;
use crate::device::{Device, Recovery};
use crate::sample::{Field, Sample};
use muster_model::node::Gpu;
use muster_model::qualification::{Check, Outcome};

/// What the node must have.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ExpectedGpus {
    /// So many GPUs.
    pub gpus: Option<u32>,
    /// Of this kind.
    pub sku: Option<String>,
}

/// The node as a whole.
pub(super) fn node(devices: &[Box<dyn Device>], o: &Options) -> Vec<Check> {
    let mut out = Vec::new();
    let found: Vec<Gpu> = devices.iter().filter_map(|d| d.describe().ok()).collect();
    let wanted = o.want.gpus.filter(|_| o.gpus.is_none());
    let n = u32::try_from(found.len()).unwrap_or(u32::MAX);
    let (outcome, note) = match wanted {
        Some(w) if w != n => (Outcome::Failed, format!("{n} GPUs answer where {w} should be")),
        _ if n == 0 => (Outcome::Failed, "no GPU answers on this machine".into()),
        _ => (Outcome::Passed, format!("{n} GPUs answer")),
    };
    out.push(Check::plain("inventory", None, outcome, note));
    let first = found.first().map(|g| g.sku.clone());
    for g in &found {
        let want = o.want.sku.as_ref().or(first.as_ref());
        if want.is_some_and(|w| *w != g.sku) {
            let note = format!("it is a {} where {} should be", g.sku, want.map_or("", |w| w));
            out.push(Check::plain("sku", Some(g.index), Outcome::Failed, note));
        }
        if let Some(f) = &g.facts {
            if f.ecc == Some(false) {
                let note = "error correction is off: `nvidia-smi -e 1`, then restart";
                out.push(Check::plain("ecc", Some(g.index), Outcome::Failed, note));
            }
            let down: Vec<String> =
                f.links.iter().filter(|l| !l.active).map(|l| l.link.to_string()).collect();
            // A GPU without any link that works has none that are wired up.
            if !down.is_empty() && down.len() < f.links.len() {
                let note = format!("NVLink {} is down", down.join(", "));
                out.push(Check::plain("nvlink", Some(g.index), Outcome::Failed, note));
            }
        }
    }
    for d in devices {
        let others = d.processes().unwrap_or_default();
        let me = std::process::id().cast_signed();
        let pids: Vec<String> =
            others.iter().filter(|p| p.pid != me).map(|p| p.pid.to_string()).collect();
        if !pids.is_empty() {
            let note = format!("in use by process {}: numbers will be low", pids.join(", "));
            out.push(Check::plain("unused", Some(d.index()), Outcome::Degraded, note));
        }
        out.extend(state(d.as_ref()));
    }
    out
}

/// Errors that a device remembers.
fn state(d: &dyn Device) -> Vec<Check> {
    let mut s = Sample::default();
    let gpu = Some(d.index());
    if let Err(e) = d.sample(&mut s) {
        return vec![Check::plain("gpu-answers", gpu, Outcome::Failed, e.to_string())];
    }
    let mut out = Vec::new();
    let set = |f: Field| s.get(f).is_some_and(|v| v > 0.0);
    let rules = [
        (
            Field::RemapFailure,
            Outcome::Failed,
            "a row of its memory could not be remapped: replace it",
        ),
        (Field::RemapPending, Outcome::Failed, "a row remap waits for a reset: reset the GPU"),
        (
            Field::SramThreshold,
            Outcome::Failed,
            "too many errors in the chip's own memory: replace it",
        ),
        (Field::RetiredPending, Outcome::Failed, "pages wait to be retired: reset the GPU"),
        (
            Field::EccDbeVol,
            Outcome::Failed,
            "uncorrectable memory errors since the driver was loaded",
        ),
    ];
    for (field, outcome, words) in rules {
        if set(field) {
            out.push(Check::plain("memory-health", gpu, outcome, words));
        }
    }
    let asks = match d.recovery() {
        None | Some(Recovery::None) => None,
        Some(Recovery::ResetGpu) => Some("the driver asks for a reset of the GPU"),
        Some(Recovery::Reboot) => Some("the driver asks for a restart of the node"),
        Some(Recovery::DrainPeers | Recovery::DrainAndReset) => {
            Some("the driver asks for a drain and a reset")
        }
    };
    if let Some(words) = asks {
        out.push(Check::plain("recovery", gpu, Outcome::Failed, words));
    }
    if out.is_empty() {
        out.push(Check::plain(
            "memory-health",
            gpu,
            Outcome::Passed,
            "no row or page waits or failed",
        ));
    }
    out
}

/// The link to the host, right after it was used.
pub(super) fn bus(d: &dyn Device) -> Option<Check> {
    let facts = d.describe().ok()?.facts?;
    let now = d.bus();
    let (generation, width) = (now.pcie_gen?, now.pcie_width?);
    let short = facts.pcie_gen.is_some_and(|m| generation < m)
        || facts.pcie_width.is_some_and(|m| width < m);
    let note = format!("gen {generation} x{width}");
    let most = format!("{}", facts.pcie_gen.unwrap_or(generation));
    let wide = facts.pcie_width.unwrap_or(width);
    Some(if short {
        let note = format!("{note} where gen {most} x{wide} could be: reseat it, look at the slot");
        Check::plain("pcie-link", Some(d.index()), Outcome::Failed, note)
    } else {
        Check::plain("pcie-link", Some(d.index()), Outcome::Passed, note)
    })
}

/// Errors that the tests brought to light.
pub(super) fn after(d: &dyn Device) -> Vec<Check> {
    let bad = |c: &Check| c.outcome != Outcome::Passed;
    state(d).into_iter().filter(bad).collect()
}
