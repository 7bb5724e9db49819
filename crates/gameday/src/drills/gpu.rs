//! Drills for GPUs.

use super::{
    NEVER_MISSED, at_work, drill, gang, gpu3, long_at_work, node, noted, second, struck, unhealthy,
};
use crate::scene::{
    Drill, Expect, ExpectedJobOutcome, ExpectedRemediation, Scene, SceneEvent, ScheduledEvent,
    Setting, immediate_fault,
};
use muster_api::Inject;
use muster_model::remediation::{Action, RemediationStep};
use std::time::Duration;

fn xid(s: &Scene, code: u32) -> Vec<ScheduledEvent> {
    struck(s, Inject::Xid { gpu: 3, code })
}

fn line(s: &Scene, text: &str) -> Vec<ScheduledEvent> {
    struck(s, Inject::KernelLine { text: text.to_owned() })
}

fn tested_with(s: &Scene, fault: Inject) -> Vec<ScheduledEvent> {
    let mut all = struck(s, fault);
    let (node, what) = (second(s).to_owned(), SceneEvent::Qualify);
    all.push(ScheduledEvent { node, what, wait: Duration::ZERO });
    all
}

/// A GPU of a node that nobody uses.
fn idle(kind: &'static str, remediation: ExpectedRemediation) -> Expect {
    Expect {
        kind: Some(kind),
        about: gpu3,
        verdict: "gpu",
        remediation,
        job: ExpectedJobOutcome::Any,
    }
}

#[expect(clippy::too_many_lines, reason = "one entry after the other")]
pub(super) fn drills() -> Vec<Drill> {
    let tested = ExpectedRemediation::Reaches(Action::Drain, RemediationStep::Testing);
    vec![
        drill(
            "gpu-off-bus",
            "a GPU falls off the bus under a gang; a spare takes over, people repair the node",
            Setting {
                nodes: 6,
                jobs: vec![gang(5)],
                spares: 1,
                saved: true,
                lost_after: NEVER_MISSED,
                ..Setting::default()
            },
            |s| xid(s, 79),
            Expect {
                job: ExpectedJobOutcome::OnSpare,
                ..unhealthy("gpu-off-bus", gpu3, ExpectedRemediation::Repaired(Action::Reboot))
            },
        ),
        drill(
            "gpu-missing",
            "a GPU is gone without an error",
            at_work(),
            |s| struck(s, Inject::LoseGpu { gpu: 3 }),
            unhealthy("gpu-missing", gpu3, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "driver-verdict",
            "the driver itself asks for a reset of a GPU",
            at_work(),
            |s| xid(s, 154),
            unhealthy("gpu-reset-needed", gpu3, ExpectedRemediation::Approved(Action::ResetGpu)),
        ),
        drill(
            "gpu-fault",
            "a GPU fails so that only a restart of its node helps",
            at_work(),
            |s| xid(s, 151),
            unhealthy("gpu-fault", gpu3, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "driver-hang",
            "the firmware of a GPU stops to answer",
            at_work(),
            |s| xid(s, 119),
            unhealthy("driver-hang", gpu3, ExpectedRemediation::Approved(Action::ResetGpu)),
        ),
        drill(
            "ecc-storm",
            "uncorrectable errors in a GPU's memory kill the rank there",
            at_work(),
            |s| struck(s, Inject::EccUncorrectable { gpu: 3 }),
            unhealthy("ecc-uncorrectable", gpu3, ExpectedRemediation::Approved(Action::ResetGpu)),
        ),
        drill(
            "ecc-rate",
            "correctable errors come by the dozen each second",
            at_work(),
            |s| struck(s, Inject::EccRate { gpu: 3, per_s: 30 }),
            noted("ecc-rate", gpu3, "gpu"),
        ),
        drill(
            "remap-pending",
            "rows of an idle GPU wait for a reset",
            Setting::default(),
            |s| struck(s, Inject::Remap { gpu: 3, pending: true, failed: false }),
            idle("row-remap-pending", ExpectedRemediation::Approved(Action::ResetGpu)),
        ),
        drill(
            "remap-failure",
            "rows of a GPU can no longer be replaced; people replace it",
            at_work(),
            |s| struck(s, Inject::Remap { gpu: 3, pending: false, failed: true }),
            unhealthy("row-remap-failure", gpu3, ExpectedRemediation::Repaired(Action::Replace)),
        ),
        drill(
            "pcie-replay",
            "the bus of a GPU repeats packets",
            at_work(),
            |s| struck(s, Inject::Replay { gpu: 3, per_min: 120 }),
            noted("pcie-replay", gpu3, "gpu"),
        ),
        drill(
            "pcie-downgrade",
            "the bus of a GPU has lost lanes",
            at_work(),
            |s| struck(s, Inject::PcieDowngrade { gpu: 3 }),
            unhealthy("pcie-downgrade", gpu3, tested),
        ),
        drill(
            "nvlink-errors",
            "links between GPUs fail",
            at_work(),
            |s| struck(s, Inject::NvlinkErrors { gpu: 3, per_s: 300 }),
            unhealthy("nvlink-errors", gpu3, ExpectedRemediation::Approved(Action::ResetGpu)),
        ),
        drill(
            "nvswitch-fault",
            "a switch between GPUs fails",
            at_work(),
            |s| {
                line(
                    s,
                    "nvidia-nvswitch1: SXid (PCI:0000:84:00.0): 12028, Fatal, Link 32 egress non-posted PRIV error (First)",
                )
            },
            unhealthy("nvswitch-fault", node, ExpectedRemediation::Approved(Action::Reboot)),
        ),
        drill(
            "thermal",
            "a GPU is cooled badly and slows down under load",
            long_at_work(),
            |s| struck(s, Inject::Thermal { gpu: 3 }),
            unhealthy("thermal", gpu3, tested),
        ),
        drill(
            "power-brake",
            "a power supply slows all GPUs of a node",
            long_at_work(),
            |s| struck(s, Inject::PowerBrake),
            unhealthy("power-brake", node, tested),
        ),
        drill(
            "clocks-low",
            "the clocks of a GPU stay low and nothing says why",
            long_at_work(),
            |s| struck(s, Inject::LowClocks { gpu: 3, percent: 30 }),
            unhealthy("clocks-low", gpu3, tested),
        ),
        drill(
            "hazard",
            "memory and bus of a GPU show what comes before a failure",
            at_work(),
            |s| {
                vec![
                    immediate_fault(second(s), Inject::EccRate { gpu: 3, per_s: 30 }),
                    immediate_fault(second(s), Inject::Replay { gpu: 3, per_min: 200 }),
                ]
            },
            noted("hazard", gpu3, "gpu"),
        ),
        drill(
            "wrong-results",
            "a GPU computes wrong results; a test finds it and people replace it",
            Setting::default(),
            |s| tested_with(s, Inject::WrongResults { gpu: 3 }),
            Expect {
                kind: Some("wrong-results"),
                about: node,
                verdict: "node",
                remediation: ExpectedRemediation::Repaired(Action::Replace),
                job: ExpectedJobOutcome::Any,
            },
        ),
        drill(
            "failed-qualification",
            "a slow GPU is found by a test",
            Setting::default(),
            |s| tested_with(s, Inject::SlowGpu { gpu: 3, percent: 40 }),
            Expect {
                kind: Some("failed-qualification"),
                about: node,
                verdict: "node",
                remediation: ExpectedRemediation::Reaches(
                    Action::Replace,
                    RemediationStep::Approval,
                ),
                job: ExpectedJobOutcome::Any,
            },
        ),
    ]
}
