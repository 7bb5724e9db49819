//! From a fault that a node read and classified to a finding.
//!
//! The node's reader has applied the rules that need memory (repeats, the driver's verdict); here
//! only the failure mode, how bad it is and how sure that is are chosen.

use crate::faults::{Catalogue, Code, Entry, FaultAttribution};
use crate::modes::{ModeEntry, mode};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::remediation::Action;
use muster_model::units::Time;

/// The driver's own word on a GPU.
const VERDICT: Code = Code::Xid(154);
/// A trace of other faults: it never drives anything. Acting on it took 77 healthy nodes out of
/// service after one job's crash elsewhere.
const TRACE: Code = Code::Xid(45);

/// What a fault of a node means. `before` is how often the same code was seen on the same GPU
/// within the last day. None where nothing follows from it.
///
/// A false alarm costs what the mode's `false_alarm` says; faults of the application's class
/// never cost a node anything.
#[must_use]
pub fn evaluate(node: &NodeName, fault: &ObservedFault, before: u64) -> Option<ObservedFinding> {
    evaluate_by(Catalogue::builtin(), ("", ""), node, fault, before)
}

/// The same by a site's own catalogue, for a node with GPUs of a SKU in a pool.
#[must_use]
pub fn evaluate_by(
    catalogue: &Catalogue,
    place: (&str, &str),
    node: &NodeName,
    fault: &ObservedFault,
    before: u64,
) -> Option<ObservedFinding> {
    let (mode, severity) = classify(catalogue, place, fault)?;
    let code = catalogue.code(&fault.code);
    let entry = code.and_then(|c| catalogue.entry(c));
    let entity = match fault.gpu {
        Some(gpu) => Entity::Gpu(node.clone(), gpu),
        None => Entity::Node(node.clone()),
    };
    let mut finding = ObservedFinding::new(mode.code(), entity, severity, fault.at)
        .with_confidence(confidence(code, entry, fault, before))
        .because(format!("{}: {}", fault.code, fault.text));
    if let Some(entry) = entry {
        finding = finding.because(entry.text);
    }
    finding = finding.because(format!("action: {}", fault.action.words()));
    if before > 0 {
        finding = finding.because(format!("seen {before} times before within a day"));
    }
    finding.count = fault.count.max(1);
    finding.attempt = fault.attempt;
    finding.rank = fault.rank;
    Some(finding.bounded())
}

/// The failure mode that something is done about when a fault is reported, and how bad the finding
/// is. None where nothing follows from the fault, or only a remark.
#[must_use]
pub fn remediated(
    code: &str,
    (class, action): (FaultClass, FaultAction),
    gpu: Option<u32>,
) -> Option<(&'static ModeEntry, Severity)> {
    let fault = ObservedFault {
        code: code.to_owned(),
        at: Time(0),
        count: 1,
        source: FaultSource::Kernel,
        class,
        action,
        gpu,
        pid: None,
        attempt: None,
        rank: None,
        text: String::new(),
    };
    let (kind, severity) = classify(Catalogue::builtin(), ("", ""), &fault)?;
    let entry = mode(kind.code()).filter(|_| severity > Severity::Info)?;
    Some((entry, severity))
}

fn classify(
    catalogue: &Catalogue,
    (sku, pool): (&str, &str),
    fault: &ObservedFault,
) -> Option<(FailureMode, Severity)> {
    if fault.action == FaultAction::None || fault.class == FaultClass::Notice {
        return None;
    }
    let code = catalogue.code(&fault.code);
    let usual = code.map(|c| catalogue.evaluate(c, sku, pool).action);
    let mode = kind(code, fault);
    Some((mode, severity(mode.code(), code, usual, fault)))
}

/// Is it the program's doing? The reader leaves the class as it is when repeats on one place of
/// one GPU speak for the hardware, and raises the action alone.
fn of_application(code: Option<Code>, fault: &ObservedFault) -> bool {
    code == Some(TRACE)
        || (fault.class == FaultClass::Application && fault.action <= FaultAction::RestartJob)
}

fn kind(code: Option<Code>, fault: &ObservedFault) -> FailureMode {
    if of_application(code, fault) {
        let oom = fault.code == "oom";
        return if oom { FailureMode::OOM } else { FailureMode::APP_FAULT };
    }
    match code {
        Some(VERDICT) => by_action(fault.action),
        Some(Code::Xid(n)) => xid(n, fault),
        Some(Code::Sxid(_)) => match fault.class {
            FaultClass::Thermal => FailureMode::THERMAL,
            _ if fault.action >= FaultAction::Reboot => FailureMode::NVSWITCH_FAULT,
            _ => FailureMode::NVLINK_ERRORS,
        },
        Some(Code::Other(name)) => other(name, fault),
        None => by_class(fault),
    }
}

fn xid(n: u32, fault: &ObservedFault) -> FailureMode {
    match n {
        79 => FailureMode::GPU_OFF_BUS,
        119 | 120 => FailureMode::DRIVER_HANG,
        48 | 94 | 95 | 140 | 171 | 172 => FailureMode::ECC_UNCORRECTABLE,
        63 => FailureMode::ROW_REMAP_PENDING,
        64 => FailureMode::ROW_REMAP_FAILURE,
        54 | 165 => FailureMode::POWER_BRAKE,
        173 => by_action(fault.action),
        57 | 58 | 90 | 92 | 160 | 161 if fault.action <= FaultAction::RestartJob => {
            FailureMode::ECC_RATE
        }
        _ => by_class(fault),
    }
}

fn other(name: &str, fault: &ObservedFault) -> FailureMode {
    match name {
        "gpu-lost" => FailureMode::GPU_OFF_BUS,
        "nvrm-no-gpu" => FailureMode::GPU_MISSING,
        "nvrm-init-failed" | "nvrm-probe-failed" | "nvrm-gsp" | "nvrm-uvm-fatal" | "nvml-hang"
        | "gpu-silent" | "driver-missing" | "driver-mismatch" => FailureMode::DRIVER_HANG,
        "nvrm-api-mismatch" | "nvrm-unsupported" => FailureMode::CONFIG_DRIFT,
        // Whatever it was that filled the machine, its hardware is not at fault.
        "oom" | "oom-host" => FailureMode::OOM,
        "hung-task" | "soft-lockup" | "hard-lockup" | "rcu-stall" | "kernel-oops"
        | "kernel-panic" => FailureMode::KERNEL_STUCK,
        "aer-correctable" | "aer-nonfatal" if fault.gpu.is_some() => FailureMode::PCIE_REPLAY,
        "aer-correctable" | "aer-nonfatal" | "aer-fatal" if fault.gpu.is_none() => {
            FailureMode::HOST_FAULT
        }
        "mlx5-health" | "mlx5-cmd-timeout" | "mlx5-tx-timeout" => FailureMode::NIC_MISSING,
        "mlx5-link-down" if fault.action >= FaultAction::Inspect => FailureMode::LINK_FLAP,
        "mlx5-power" => FailureMode::HOST_FAULT,
        // A file server that does not answer says nothing of the node that waits for it.
        "nfs-stall" => FailureMode::STORAGE_STALL,
        _ => by_class(fault),
    }
}

fn by_class(fault: &ObservedFault) -> FailureMode {
    match fault.class {
        FaultClass::Link => FailureMode::NVLINK_ERRORS,
        FaultClass::Thermal => FailureMode::THERMAL,
        FaultClass::Network => FailureMode::LINK_DOWN,
        FaultClass::Host => FailureMode::HOST_FAULT,
        FaultClass::Storage => FailureMode::DISK_FAULT,
        FaultClass::Application
        | FaultClass::Driver
        | FaultClass::Gpu
        | FaultClass::Memory
        | FaultClass::Bus
        | FaultClass::Power
        | FaultClass::Notice
        | FaultClass::Unknown => by_action(fault.action),
    }
}

fn by_action(action: FaultAction) -> FailureMode {
    match action {
        FaultAction::ResetWhenIdle | FaultAction::ResetGpu => FailureMode::GPU_RESET_NEEDED,
        _ => FailureMode::GPU_FAULT,
    }
}

fn severity(
    kind: &str,
    code: Option<Code>,
    asked: Option<FaultAction>,
    fault: &ObservedFault,
) -> Severity {
    if of_application(code, fault) {
        return Severity::Info;
    }
    let usual = mode(kind).map_or(Severity::Warning, |m| m.severity);
    match fault.action {
        FaultAction::RestartJob if fault.class == FaultClass::Memory => Severity::Degraded,
        // To be watched is not to be acted on: a warning where the mode's own first step is to
        // watch, else a remark, from which nothing follows.
        FaultAction::None | FaultAction::Watch | FaultAction::RestartJob => {
            let watched = mode(kind).is_some_and(|m| m.steps.first() == Some(&Action::Watch));
            if watched { Severity::Warning.min(usual) } else { Severity::Info }
        }
        FaultAction::ResetWhenIdle => match code {
            Some(VERDICT) => Severity::Degraded,
            // What ran there is lost; only the reset can wait.
            Some(Code::Xid(48 | 95 | 140 | 171 | 172)) => Severity::Critical,
            _ => Severity::Warning,
        },
        FaultAction::ResetGpu | FaultAction::Reboot | FaultAction::Replace => Severity::Critical,
        FaultAction::Inspect => match asked {
            Some(a) if a >= FaultAction::ResetGpu && a != FaultAction::Inspect => {
                Severity::Critical
            }
            Some(FaultAction::Inspect) => usual,
            // Repeats alone asked for it.
            _ => Severity::Degraded,
        },
    }
}

/// In thousandths: how sure it is that the mode is the right one.
fn confidence(
    code: Option<Code>,
    entry: Option<&Entry>,
    fault: &ObservedFault,
    before: u64,
) -> u16 {
    if code == Some(VERDICT) {
        return 1000;
    }
    let Some(entry) = entry else { return 400 };
    if of_application(code, fault) {
        return if entry.attribution == FaultAttribution::Unclear { 700 } else { 900 };
    }
    let base = match (entry.attribution, entry.disputed) {
        (FaultAttribution::Platform, false) => 950,
        (FaultAttribution::Platform, true) => 850,
        (FaultAttribution::Unclear, _) => 650,
        // The job's usual fault, on one GPU again and again.
        (FaultAttribution::Job, _) => 700,
        (FaultAttribution::Nobody, _) => 400,
    };
    let base = if fault.action <= FaultAction::Watch { base.min(600) } else { base };
    let again = match before {
        0 => 0,
        1..=2 => 20,
        _ => 40,
    };
    (base + again).min(990)
}

#[cfg(test)]
mod tests;
