//! The map of failure modes: what can go wrong, how it is found, what is done about it and
//! how that is practised. Everything that names a failure mode names it by the code given here.

use muster_model::FailureMode;
use muster_model::fault::FaultClass;
use muster_model::finding::Severity;
use muster_model::remediation::{Action, Leave};

/// One way of failing, and what is known of it.
#[derive(Debug, Clone, Copy)]
pub struct ModeEntry {
    /// Stable code.
    pub code: &'static str,
    /// In a few words.
    pub title: &'static str,
    /// The component it is attributed to.
    pub class: FaultClass,
    /// How bad it usually is.
    pub severity: Severity,
    /// How it is found.
    pub detector: &'static str,
    /// What is done, from the lightest to the heaviest, unless the policy says otherwise.
    pub steps: &'static [Action],
    /// How work leaves.
    pub leave: Leave,
    /// The drill for it, or `none: ` and why there is none.
    pub drill: &'static str,
    /// What a false alarm costs.
    pub false_alarm: &'static str,
    /// What people do about it.
    pub runbook: &'static str,
}

/// The mode with this code.
#[must_use]
pub fn mode(code: &str) -> Option<&'static ModeEntry> {
    MODES.iter().find(|m| m.code == code)
}

/// What a finding is called. One that is a remark asks for nothing, whatever others of its mode do.
#[must_use]
pub fn title(kind: &str, severity: Severity) -> &'static str {
    match mode(kind) {
        Some(m) if m.code == FailureMode::GPU_FAULT.code() && is_remark(m, severity) => {
            "A GPU reported an error that asks for nothing"
        }
        Some(m) => m.title,
        None => "",
    }
}

/// Whether a finding is less than its mode: it was reported and is watched.
#[must_use]
pub fn is_remark(mode: &ModeEntry, severity: Severity) -> bool {
    severity == Severity::Info && mode.severity > Severity::Info
}

use Action::{Drain, PowerCycle, Reboot, Replace, ResetGpu, RestartJob, Watch};
use FaultClass::{
    Application, Bus, Driver, Gpu, Host, Link, Memory, Network, Notice, Power, Storage, Thermal,
};
use Leave::{Checkpoint, Finish, Now};
use Severity::{Critical, Degraded, Info, Warning};

/// Every failure mode, in the order in which they are listed.
#[rustfmt::skip]
pub const MODES: &[ModeEntry] = &[
    ModeEntry { code: FailureMode::GPU_OFF_BUS.code(), title: "A GPU fell off the bus", class: Bus, severity: Critical,
        detector: "XID 79, or a GPU that the driver calls lost",
        steps: &[Reboot, PowerCycle, Replace], leave: Now, drill: "gpu-off-bus",
        false_alarm: "a node is out for one reboot and a quick test",
        runbook: "Reboot the node. If the GPU is not back, cut its power; then reseat or replace it." },
    ModeEntry { code: FailureMode::GPU_MISSING.code(), title: "Fewer GPUs than the node had", class: Bus, severity: Critical,
        detector: "the inventory compared with the one before",
        steps: &[Reboot, PowerCycle, Replace], leave: Checkpoint, drill: "gpu-missing",
        false_alarm: "a node is out for one reboot and a quick test",
        runbook: "Compare `muster describe node` with the rack. Reboot, then reseat." },
    ModeEntry { code: FailureMode::GPU_RESET_NEEDED.code(), title: "The driver asks for a reset of a GPU", class: Gpu, severity: Critical,
        detector: "XID 154, or an XID whose action is a reset",
        steps: &[ResetGpu, Reboot, Replace], leave: Now, drill: "driver-verdict",
        false_alarm: "a GPU is out for a reset",
        runbook: "Reset the GPU once nothing runs on it; reboot when that does not help." },
    ModeEntry { code: FailureMode::GPU_FAULT.code(), title: "A GPU failed so that its node must be restarted", class: Gpu, severity: Critical,
        detector: "an XID or SXid whose action is a reboot, an inspection or a replacement",
        steps: &[Reboot, Replace], leave: Now, drill: "gpu-fault",
        false_alarm: "a node is out for one reboot and a quick test",
        runbook: "Reboot, qualify, and replace the GPU when it comes back." },
    ModeEntry { code: FailureMode::DRIVER_HANG.code(), title: "The driver or its firmware does not answer", class: Driver, severity: Critical,
        detector: "XID 119 and 120, or a device that does not answer the agent's watchdog",
        steps: &[ResetGpu, Reboot, Replace], leave: Now, drill: "driver-hang",
        false_alarm: "a GPU is out for a reset",
        runbook: "Reset the GPU; update the driver's firmware when it comes back on several nodes." },
    ModeEntry { code: FailureMode::ECC_UNCORRECTABLE.code(), title: "Uncorrectable memory errors", class: Memory, severity: Critical,
        detector: "XID 48, 94, 95, 171, 172, or the counter of double-bit errors",
        steps: &[ResetGpu, Replace], leave: Now, drill: "ecc-storm",
        false_alarm: "a GPU is out for a reset",
        runbook: "Reset to remap the rows; replace after a second time within a week." },
    ModeEntry { code: FailureMode::ECC_RATE.code(), title: "Correctable memory errors come faster than they should", class: Memory, severity: Warning,
        detector: "the slope of single-bit errors against peers",
        steps: &[Watch, Drain, Replace], leave: Checkpoint, drill: "ecc-rate",
        false_alarm: "nothing, then one quick test",
        runbook: "Watch; drain and test when the slope keeps rising." },
    ModeEntry { code: FailureMode::ROW_REMAP_PENDING.code(), title: "Memory rows wait for a reset to be replaced", class: Memory, severity: Warning,
        detector: "XID 63, or the pending flag",
        steps: &[ResetGpu], leave: Finish, drill: "remap-pending",
        false_alarm: "a reset between two jobs",
        runbook: "Reset the GPU when it is idle." },
    ModeEntry { code: FailureMode::ROW_REMAP_FAILURE.code(), title: "Memory rows can no longer be replaced", class: Memory, severity: Critical,
        detector: "XID 64, or the failure flag",
        steps: &[Replace], leave: Checkpoint, drill: "remap-failure",
        false_alarm: "a technician's visit",
        runbook: "Return the GPU: the maker accepts this as a criterion." },
    ModeEntry { code: FailureMode::PCIE_REPLAY.code(), title: "The bus repeats too many packets", class: Bus, severity: Warning,
        detector: "replays per minute against the line rate's limit",
        steps: &[Watch, Drain, Replace], leave: Checkpoint, drill: "pcie-replay",
        false_alarm: "nothing, then one quick test",
        runbook: "Reseat; swap the riser; replace." },
    ModeEntry { code: FailureMode::PCIE_DOWNGRADE.code(), title: "The bus runs narrower or slower than it could under load", class: Bus, severity: Degraded,
        detector: "link width and generation under load against what both ends can",
        steps: &[Drain, Reboot, Replace], leave: Checkpoint, drill: "pcie-downgrade",
        false_alarm: "one quick test",
        runbook: "Reseat; check the retimer's firmware." },
    ModeEntry { code: FailureMode::NVLINK_ERRORS.code(), title: "Links between GPUs fail or recover too often", class: Link, severity: Critical,
        detector: "XID 74 and 144 to 150, or CRC and recovery counters",
        steps: &[ResetGpu, Reboot, Replace], leave: Checkpoint, drill: "nvlink-errors",
        false_alarm: "a GPU is out for a reset",
        runbook: "Reset; then reseat or replace the part that the decoded registers name." },
    ModeEntry { code: FailureMode::NVSWITCH_FAULT.code(), title: "A switch between GPUs failed", class: Link, severity: Critical,
        detector: "an SXid that is always fatal",
        steps: &[Reboot, Replace], leave: Now, drill: "nvswitch-fault",
        false_alarm: "a node is out for one reboot",
        runbook: "Reset all GPUs and switches or reboot; replace the baseboard after a second time." },
    ModeEntry { code: FailureMode::THERMAL.code(), title: "A GPU is hotter than it should be", class: Thermal, severity: Degraded,
        detector: "thermal throttling; too little margin and hotter than its peers; or hotter than its own past, both once warm and at the same power",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "thermal",
        false_alarm: "one quick test",
        runbook: "Look at fans, filters, coolant and seating of the cold plate." },
    ModeEntry { code: FailureMode::POWER_BRAKE.code(), title: "The server's power supply slows the GPUs", class: Power, severity: Degraded,
        detector: "the power-brake throttle reason",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "power-brake",
        false_alarm: "one quick test",
        runbook: "Look at the power supplies and the feed." },
    ModeEntry { code: FailureMode::CLOCKS_LOW.code(), title: "A GPU runs slower than its peers for no reason it names", class: Gpu, severity: Degraded,
        detector: "clocks under load against the other GPUs of the same work, without a power cap",
        steps: &[Drain, ResetGpu, Replace], leave: Checkpoint, drill: "clocks-low",
        false_alarm: "one quick test",
        runbook: "Check application clocks and limits, then test." },
    ModeEntry { code: FailureMode::NIC_MISSING.code(), title: "A network card is gone", class: Network, severity: Critical,
        detector: "the inventory compared with the one before",
        steps: &[Reboot, Replace], leave: Checkpoint, drill: "nic-missing",
        false_alarm: "a node is out for one reboot",
        runbook: "Reboot; reseat; replace." },
    ModeEntry { code: FailureMode::LINK_DOWN.code(), title: "A network port has no link", class: Network, severity: Critical,
        detector: "the port's state for several looks in a row",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "link-down",
        false_alarm: "one quick test",
        runbook: "Look at cable and optics at both ends." },
    ModeEntry { code: FailureMode::LINK_FLAP.code(), title: "A network port loses its link again and again", class: Network, severity: Degraded,
        detector: "three times down and up within an hour",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "link-flap",
        false_alarm: "one quick test",
        runbook: "Clean or swap the optics; then the cable." },
    ModeEntry { code: FailureMode::SYMBOL_ERRORS.code(), title: "A network port has too many errors", class: Network, severity: Warning,
        detector: "the rate of symbol errors and recoveries, never the count",
        steps: &[Watch, Drain, Replace], leave: Checkpoint, drill: "symbol-errors",
        false_alarm: "nothing, then one quick test",
        runbook: "Clean or swap the optics." },
    ModeEntry { code: FailureMode::LINK_SLOW.code(), title: "A path of the network is slower than it was", class: Network, severity: Degraded,
        detector: "tests between nodes against the path's own past, narrowed down by re-pairing",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "link-slow",
        false_alarm: "one test between nodes",
        runbook: "Compare the rails; look at the port's counters and the switch." },
    ModeEntry { code: FailureMode::NODE_LOST.code(), title: "The heartbeat of a node is lost", class: Host, severity: Critical,
        detector: "no heartbeat from its agent",
        steps: &[Watch], leave: Now, drill: "node-loss",
        false_alarm: "nothing: its work moves when its time is up",
        runbook: "Look at the console and the BMC; cut its power; then inspect." },
    ModeEntry { code: FailureMode::AGENT_HANG.code(), title: "An agent is connected and does nothing", class: Host, severity: Degraded,
        detector: "heartbeats without telemetry",
        steps: &[Watch, Drain], leave: Finish, drill: "agent-hang",
        false_alarm: "nothing",
        runbook: "Restart the agent: ranks continue meanwhile." },
    ModeEntry { code: FailureMode::HOST_FAULT.code(), title: "Processor, memory or board of a host failed", class: Host, severity: Critical,
        detector: "machine checks, memory errors and bus errors in the kernel's log",
        steps: &[Reboot, Replace], leave: Checkpoint, drill: "host-fault",
        false_alarm: "a node is out for one reboot",
        runbook: "Read the BMC's log; replace the part it names." },
    ModeEntry { code: FailureMode::KERNEL_STUCK.code(), title: "Processes of a host hang in the kernel", class: Host, severity: Degraded,
        detector: "lockups and blocked tasks in the kernel's log, processes in uninterruptible sleep",
        steps: &[Reboot, Replace], leave: Checkpoint, drill: "kernel-stuck",
        false_alarm: "a node is out for one reboot",
        runbook: "Find what they wait for; reboot." },
    ModeEntry { code: FailureMode::DISK_FAULT.code(), title: "A disk of a host failed", class: Storage, severity: Degraded,
        detector: "I/O errors, and file systems that became read-only",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "disk-fault",
        false_alarm: "one quick test",
        runbook: "Replace the disk." },
    ModeEntry { code: FailureMode::LEAF_LOSS.code(), title: "Many nodes of one leaf fail at once", class: Network, severity: Critical,
        detector: "findings of several nodes that share the leaf, within minutes",
        steps: &[Watch], leave: Now, drill: "leaf-loss",
        false_alarm: "the leaf gets no work until a probe passes",
        runbook: "Look at the switch, not at the nodes." },
    ModeEntry { code: FailureMode::RACK_LOSS.code(), title: "Many nodes of one rack fail at once", class: Power, severity: Critical,
        detector: "findings of several nodes that share the rack, within minutes",
        steps: &[Watch], leave: Now, drill: "rack-loss",
        false_alarm: "the rack gets no work until a probe passes",
        runbook: "Look at power, coolant and the rack's switch." },
    ModeEntry { code: FailureMode::FEED_LOSS.code(), title: "Many nodes of one power feed fail at once", class: Power, severity: Critical,
        detector: "findings of several nodes that share the feed, within minutes",
        steps: &[Watch], leave: Now, drill: "feed-loss",
        false_alarm: "the feed's nodes get no work until a probe passes",
        runbook: "Look at the feed." },
    ModeEntry { code: FailureMode::BAD_VERSION.code(), title: "Nodes with one version of something fail more than others", class: Driver, severity: Degraded,
        detector: "the same failure on several nodes that share a version and little else",
        steps: &[Watch], leave: Finish, drill: "bad-version",
        false_alarm: "nodes with that version get no work until a probe passes",
        runbook: "Roll the version back." },
    ModeEntry { code: FailureMode::STORAGE_STALL.code(), title: "A file system answers nobody", class: Storage, severity: Critical,
        detector: "probes of the file system that do not come back, on several nodes",
        steps: &[Watch], leave: Finish, drill: "storage-stall",
        false_alarm: "nothing: nodes are left alone",
        runbook: "Look at the storage, not at the nodes." },
    ModeEntry { code: FailureMode::STORAGE_SLOW.code(), title: "A file system is slower than it was", class: Storage, severity: Warning,
        detector: "latency, throughput and metadata of probes against their past",
        steps: &[Watch], leave: Finish, drill: "storage-slow",
        false_alarm: "nothing",
        runbook: "Look at who writes most; stagger checkpoints." },
    ModeEntry { code: FailureMode::STRAGGLER.code(), title: "One rank delays its gang", class: Gpu, severity: Degraded,
        detector: "step and stage times that the ranks report, against the other ranks of the same work, for minutes",
        steps: &[Drain, Replace], leave: Checkpoint, drill: "slow-rank",
        false_alarm: "nothing where others work on the node; else one quick test, and the gang restarts once",
        runbook: "Qualify the node; compare with its own past." },
    ModeEntry { code: FailureMode::JOB_SLOW.code(), title: "A job became slower everywhere at once", class: Application, severity: Info,
        detector: "the step time of all ranks against the job's own past",
        steps: &[Watch], leave: Finish, drill: "slow-job",
        false_alarm: "nothing",
        runbook: "Notify the owner: it is the job, not a node." },
    ModeEntry { code: FailureMode::LOADER_STARVED.code(), title: "A job waits for its data", class: Application, severity: Info,
        detector: "the share of reading in its steps, or GPUs that pause together",
        steps: &[Watch], leave: Finish, drill: "loader-starved",
        false_alarm: "nothing",
        runbook: "More loader workers, faster storage, or data stored closer." },
    ModeEntry { code: FailureMode::HANG.code(), title: "A job makes no progress", class: Application, severity: Critical,
        detector: "no step, no output and no activity within a bound learnt from the job, or busy GPUs that draw little power",
        steps: &[RestartJob], leave: Now, drill: "hang",
        false_alarm: "the job restarts once from its checkpoint",
        runbook: "Look at the rank that stopped first." },
    ModeEntry { code: FailureMode::APP_CRASH.code(), title: "A job failed by itself", class: Application, severity: Info,
        detector: "an exit without a finding about its nodes",
        steps: &[Watch], leave: Finish, drill: "rank-killed",
        false_alarm: "nothing",
        runbook: "Read its output." },
    ModeEntry { code: FailureMode::APP_SPRAY.code(), title: "A job that crashed sprayed errors over its nodes", class: Application, severity: Info,
        detector: "errors of the application's kind on many nodes of one job at its end",
        steps: &[Watch], leave: Finish, drill: "app-crash-spray",
        false_alarm: "nothing: nodes are left alone",
        runbook: "Read its output." },
    ModeEntry { code: FailureMode::APP_FAULT.code(), title: "A program misused a GPU", class: Application, severity: Info,
        detector: "XIDs of the application's class",
        steps: &[Watch], leave: Finish, drill: "app-fault",
        false_alarm: "nothing",
        runbook: "Notify the owner." },
    ModeEntry { code: FailureMode::CRASH_LOOP.code(), title: "A job crashes again and again", class: Application, severity: Warning,
        detector: "attempts that end soon after their start",
        steps: &[Watch], leave: Finish, drill: "crash-loop",
        false_alarm: "the job waits longer between attempts",
        runbook: "Read its output, then fix or cancel it: after five crashes in a row a breaker holds it, and it fails when no retry is left." },
    ModeEntry { code: FailureMode::NODE_KILLER.code(), title: "A job takes healthy nodes down one after another", class: Application, severity: Critical,
        detector: "several nodes that failed under the same job and have no other cause",
        steps: &[Watch], leave: Now, drill: "node-killer",
        false_alarm: "the job is held until somebody inspects it",
        runbook: "Run it on one node that nothing else needs." },
    ModeEntry { code: FailureMode::OOM.code(), title: "A program ran out of memory", class: Application, severity: Info,
        detector: "the error that the kernel or the driver reports",
        steps: &[Watch], leave: Finish, drill: "oom",
        false_alarm: "nothing",
        runbook: "Ask for more memory, or use less." },
    ModeEntry { code: FailureMode::LEMON.code(), title: "A node fails more often than its exposure explains", class: Host, severity: Warning,
        detector: "failures of four weeks against what was to be expected",
        steps: &[Watch], leave: Finish, drill: "none: it takes failures under several jobs and over days, longer than a drill; tests of the engine play the weeks",
        false_alarm: "the node only takes small preemptible work",
        runbook: "Test it thoroughly; swap parts." },
    ModeEntry { code: FailureMode::HAZARD.code(), title: "A GPU is likely to fail soon", class: Gpu, severity: Warning,
        detector: "precursors weighed by a model that is measured",
        steps: &[Watch], leave: Finish, drill: "hazard",
        false_alarm: "large gangs keep away from the node",
        runbook: "Plan its test for an hour with little work." },
    ModeEntry { code: FailureMode::FAILED_QUALIFICATION.code(), title: "A node failed its test", class: Gpu, severity: Critical,
        detector: "the test",
        steps: &[Replace], leave: Finish, drill: "failed-qualification",
        false_alarm: "a second test",
        runbook: "Read which check failed and by how much." },
    ModeEntry { code: FailureMode::WRONG_RESULTS.code(), title: "A GPU computes wrong results", class: Gpu, severity: Critical,
        detector: "the same products twice, compared bit by bit",
        steps: &[Replace], leave: Now, drill: "wrong-results",
        false_alarm: "a second test",
        runbook: "Drain it at once; notify whoever ran there." },
    ModeEntry { code: FailureMode::CONFIG_DRIFT.code(), title: "A node is set up differently from its peers", class: Notice, severity: Warning,
        detector: "versions against the majority of nodes with the same GPUs in its pool; the driver's own report",
        steps: &[Watch], leave: Finish, drill: "config-drift",
        false_alarm: "nothing",
        runbook: "Fix the configuration: it is not the hardware." },
    ModeEntry { code: FailureMode::COPIED_IDENTITY.code(), title: "Another machine uses the identity of a node", class: Notice, severity: Warning,
        detector: "an agent with the node's certificate from another machine than it is enrolled with, or agents of two boots in turn",
        steps: &[Watch], leave: Finish, drill: "none: it takes a second machine with a copy of the directory; tests of the server play both",
        false_alarm: "nothing",
        runbook: "Find the machine that the evidence names, stop its agent, and join it under a name of its own." },
    ModeEntry { code: FailureMode::DETECTOR_STORM.code(), title: "Findings come faster than hardware can fail", class: Notice, severity: Critical,
        detector: "many nodes with findings within minutes",
        steps: &[Watch], leave: Finish, drill: "poisoned-detector",
        false_alarm: "automation waits for an operator",
        runbook: "Decide whether it is real; then `muster automation resume`." },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_mode_is_whole_and_its_steps_get_heavier() {
        for (i, m) in MODES.iter().enumerate() {
            assert!(MODES[..i].iter().all(|o| o.code != m.code), "{} is there twice", m.code);
            for text in [m.title, m.detector, m.drill, m.false_alarm, m.runbook] {
                assert!(!text.is_empty(), "{}", m.code);
            }
            assert!(!m.steps.is_empty(), "{}", m.code);
            assert!(m.steps.windows(2).all(|w| w[0] < w[1]), "{}", m.code);
        }
    }

    #[test]
    fn every_mode_that_the_code_names_is_in_the_map_and_no_other() {
        let listed: Vec<&str> = MODES.iter().map(|m| m.code).collect();
        let named: Vec<&str> = FailureMode::ALL.iter().map(|m| m.code()).collect();
        assert_eq!(named, listed);
    }

    #[test]
    fn what_a_job_did_touches_no_node() {
        for m in MODES.iter().filter(|m| m.class == Application) {
            assert!(m.steps.iter().all(|a| *a <= RestartJob), "{}", m.code);
        }
    }
}
