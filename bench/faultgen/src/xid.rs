//! What an agent would say of the lines that drivers and kernels write. Read from the published
//! catalogues of XIDs by hand, independently of any other reading of them.

use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;

use FaultAction as A;
use FaultClass as C;

/// Code, what is at fault, what it asks for, and words.
pub(crate) type Line = (&'static str, C, A, &'static str);

/// What programs do to GPUs; never the hardware.
pub(crate) const APP: &[Line] = &[
    ("xid-13", C::Application, A::RestartJob, "Graphics Exception: MISALIGNED_ADDRESS"),
    ("xid-31", C::Application, A::RestartJob, "MMU Fault: ENGINE GRAPHICS faulted @ 0x7f22"),
    ("xid-43", C::Application, A::None, "GPU stopped processing"),
    ("xid-45", C::Notice, A::None, "Preemptive Channel Removal"),
];
/// A GPU that must be reset.
pub(crate) const RESET: &[Line] = &[
    ("xid-46", C::Gpu, A::ResetGpu, "GPU stopped processing; engine timeout"),
    ("xid-62", C::Driver, A::ResetGpu, "Internal micro-controller halt"),
    ("xid-109", C::Gpu, A::ResetGpu, "Context switch timeout"),
    ("xid-110", C::Gpu, A::ResetGpu, "Security fault"),
    ("xid-143", C::Driver, A::ResetGpu, "GPU initialization error"),
    ("xid-158", C::Gpu, A::ResetGpu, "GPU fatal timeout"),
];
/// The driver's own verdict.
pub(crate) const VERDICT: &[Line] = &[
    (
        "xid-154",
        C::Gpu,
        A::ResetGpu,
        "GPU recovery action changed from 0x0 (None) to 0x1 (GPU Reset Required)",
    ),
    (
        "xid-154",
        C::Gpu,
        A::Reboot,
        "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
    ),
];
pub(crate) const HANG: &[Line] = &[
    ("xid-119", C::Driver, A::ResetGpu, "Timeout after 6s of waiting for RPC response from GSP"),
    ("xid-120", C::Driver, A::ResetGpu, "GSP task exception"),
];
pub(crate) const OFF_BUS: Line = ("xid-79", C::Bus, A::Reboot, "GPU has fallen off the bus.");
pub(crate) const ECC: &[Line] = &[
    ("xid-48", C::Memory, A::ResetGpu, "An uncorrectable double bit error (DBE) has been detected"),
    ("xid-95", C::Memory, A::ResetGpu, "Uncontained memory error"),
    ("xid-94", C::Memory, A::RestartJob, "Contained memory error"),
    ("xid-140", C::Memory, A::ResetGpu, "Unrecovered ECC error"),
];
pub(crate) const REMAP_PENDING: Line = (
    "xid-63",
    C::Memory,
    A::ResetWhenIdle,
    "Row remapper: new row marked for remapping, reset gpu to activate",
);
pub(crate) const REMAP_FAILURE: Line =
    ("xid-64", C::Memory, A::Replace, "Row remapper: error recording a row");
pub(crate) const NVLINK: &[Line] = &[
    (
        "xid-74",
        C::Link,
        A::ResetGpu,
        "NVLink: fatal error detected on link 7(0x10000, 0x0, 0x0, 0x0, 0x0, 0x0, 0x0)",
    ),
    ("xid-145", C::Link, A::ResetGpu, "NVLINK: RLW error, fatal"),
    ("xid-149", C::Link, A::ResetGpu, "NVLINK: NETIR_LINK_DOWN, fatal"),
    ("xid-150", C::Link, A::ResetGpu, "NVLINK: MSE error, fatal"),
    ("xid-136", C::Link, A::ResetGpu, "NVLINK: link training failed"),
];
pub(crate) const SWITCH: &[Line] = &[
    ("sxid-20034", C::Link, A::Reboot, "Fatal, Link 28 LTSSM Fault Up"),
    ("sxid-12028", C::Link, A::Reboot, "Fatal, egress non-posted PRIV error"),
    ("sxid-14017", C::Link, A::Reboot, "Fatal, TS timestamp FSM error"),
];
pub(crate) const MACHINE: &[Line] = &[
    (
        "mce-fatal",
        C::Host,
        A::Reboot,
        "mce: [Hardware Error]: CPU 12: Machine Check Exception: 5 Bank 4",
    ),
    (
        "edac-ue",
        C::Host,
        A::Inspect,
        "EDAC MC1: 1 UE memory read error on CPU_SrcID#1_MC#1_Chan#0_DIMM#1",
    ),
    (
        "aer-fatal",
        C::Bus,
        A::Reboot,
        "pcieport 0000:40:01.1: AER: Uncorrected (Fatal) error received",
    ),
];
pub(crate) const STUCK: &[Line] = &[
    (
        "soft-lockup",
        C::Host,
        A::Reboot,
        "watchdog: BUG: soft lockup - CPU#31 stuck for 26s! [kworker/31:1]",
    ),
    ("hard-lockup", C::Host, A::Reboot, "NMI watchdog: Watchdog detected hard LOCKUP on cpu 7"),
];
pub(crate) const DISK: &[Line] = &[
    (
        "io-error",
        C::Storage,
        A::Inspect,
        "blk_update_request: I/O error, dev nvme1n1, sector 5511232",
    ),
    ("ro-remount", C::Storage, A::Inspect, "EXT4-fs (nvme0n1p2): Remounting filesystem read-only"),
];
pub(crate) const OOM: Line = (
    "oom",
    C::Application,
    A::RestartJob,
    "Memory cgroup out of memory: Killed process 4711 (python3)",
);

/// The line as a node reports it.
pub(crate) fn fault_line(
    line: Line,
    at: Time,
    count: u64,
    gpu: Option<u32>,
    whose: Option<(AttemptKey, u32)>,
) -> ObservedFault {
    let (code, class, action, words) = line;
    let text = match (code.strip_prefix("xid-"), gpu) {
        (Some(n), Some(g)) => {
            format!("NVRM: Xid (PCI:0000:{:02x}:00): {n}, {words}", 0x1b + g * 0x10)
        }
        _ => words.to_owned(),
    };
    ObservedFault {
        code: code.to_owned(),
        at,
        count,
        source: FaultSource::Kernel,
        class,
        action,
        gpu,
        pid: whose.map(|(_, r)| 40_000 + i32::try_from(r).unwrap_or(0)),
        attempt: whose.map(|(k, _)| k),
        rank: whose.map(|(_, r)| r),
        text,
    }
}
