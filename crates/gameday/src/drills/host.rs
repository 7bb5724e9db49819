//! Drills for hosts, their network ports and their agents.

use super::{at_work, drill, long_at_work, node, noted, second, struck, unhealthy};
use crate::scene::{Drill, ExpectedRemediation, Scene};
use muster_api::Inject;
use muster_model::remediation::{Action, RemediationStep};
use muster_model::units::Span;

/// Longer than any drill, on the nodes' clock.
const LONG: Span = Span::hours(10);

fn port3(s: &Scene) -> String {
    format!("port:{}/mlx5_3", second(s))
}

fn mlx() -> String {
    "mlx5_3".to_owned()
}

pub(super) fn drills() -> Vec<Drill> {
    let tested = ExpectedRemediation::Reaches(Action::Drain, RemediationStep::Testing);
    vec![
        drill(
            "nic-missing",
            "a network card is gone",
            at_work(),
            |s| struck(s, Inject::LosePort { port: mlx() }),
            unhealthy("nic-missing", port3, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "link-down",
            "a network port has no link",
            at_work(),
            |s| struck(s, Inject::PortDown { port: mlx(), length: LONG }),
            unhealthy("link-down", port3, tested),
        ),
        drill(
            "link-flap",
            "a network port loses its link again and again",
            at_work(),
            |s| struck(s, Inject::PortFlap { port: mlx() }),
            unhealthy("link-flap", port3, tested),
        ),
        drill(
            "symbol-errors",
            "a network port has many errors",
            at_work(),
            |s| struck(s, Inject::SymbolErrors { port: mlx(), per_s: 2 }),
            noted("symbol-errors", port3, "port"),
        ),
        drill(
            "node-loss",
            "a node is gone from one moment to the next",
            at_work(),
            |s| struck(s, Inject::Crash { down: LONG }),
            unhealthy("node-lost", node, ExpectedRemediation::Watched),
        ),
        drill(
            "agent-hang",
            "an agent answers and reports nothing",
            at_work(),
            |s| struck(s, Inject::AgentHang { length: LONG }),
            noted("agent-hang", node, "node"),
        ),
        drill(
            "host-fault",
            "a host's memory has an uncorrectable ECC error",
            at_work(),
            |s| {
                let text = "EDAC MC1: 1 UE memory read error on CPU_SrcID#0_MC#1_Chan#0_DIMM#0 (channel:0 slot:0 page:0x8d1 offset:0x0 grain:32)";
                struck(s, Inject::KernelLine { text: text.into() })
            },
            unhealthy("host-fault", node, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "kernel-stuck",
            "processes of a host hang in the kernel",
            long_at_work(),
            |s| struck(s, Inject::StuckProcesses { count: 12 }),
            unhealthy("kernel-stuck", node, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "disk-fault",
            "a disk of a host fails",
            at_work(),
            |s| {
                let text = "EXT4-fs (nvme0n1p2): Remounting filesystem read-only";
                struck(s, Inject::KernelLine { text: text.into() })
            },
            unhealthy("disk-fault", node, tested),
        ),
        drill(
            "config-drift",
            "a driver's library does not fit its module",
            at_work(),
            |s| {
                let text = "NVRM: API mismatch: the client has the version 570.86.15, but this kernel module has the version 580.95.05.";
                struck(s, Inject::KernelLine { text: text.into() })
            },
            noted("config-drift", node, "node"),
        ),
    ]
}
