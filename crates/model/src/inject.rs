//! Faults that a simulated node can be asked to have.

use crate::ids::AttemptKey;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// A fault for a simulated node: what a site is asked for, what its agent receives, and what the
/// node suffers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Inject {
    /// Everything on it dies; it is back (with a new boot) after so long.
    Crash {
        /// How long it is away.
        down: Span,
    },
    /// It continues to work but receives and sends nothing for so long.
    Partition {
        /// How long it is cut off.
        length: Span,
    },
    /// The ranks of one attempt are killed.
    KillRanks {
        /// The attempt whose ranks on this node are killed.
        key: AttemptKey,
    },
    /// A GPU falls off the bus, and nothing is reported.
    LoseGpu {
        /// The GPU's index on the node.
        gpu: u32,
    },
    /// A GPU computes more slowly than it should and reports nothing; zero ends it.
    SlowGpu {
        /// The GPU's index on the node.
        gpu: u32,
        /// By so many percent.
        #[cfg_attr(feature = "openapi", schema(maximum = 99))]
        percent: u32,
    },
    /// A GPU's driver reports an error. 79 also takes the GPU off the bus, 48, 94 and 95 end the
    /// work on it.
    Xid {
        /// The GPU's index on the node.
        gpu: u32,
        /// The driver's number for it.
        code: u32,
    },
    /// A GPU is cooled badly: under load it gets hot and slows down.
    Thermal {
        /// The GPU's index on the node.
        gpu: u32,
    },
    /// The power supply asks all GPUs to slow down.
    PowerBrake,
    /// A GPU's clocks stay low under load for no reason that it names; zero ends it.
    LowClocks {
        /// The GPU's index on the node.
        gpu: u32,
        /// By so many percent.
        #[cfg_attr(feature = "openapi", schema(maximum = 99))]
        percent: u32,
    },
    /// Correctable memory errors; zero ends them.
    EccRate {
        /// The GPU's index on the node.
        gpu: u32,
        /// So many a second.
        per_s: u32,
    },
    /// One uncorrectable memory error; the work on the GPU dies of it.
    EccUncorrectable {
        /// The GPU's index on the node.
        gpu: u32,
    },
    /// Memory rows wait for a reset to be replaced, or can no longer be.
    Remap {
        /// The GPU's index on the node.
        gpu: u32,
        /// Rows wait for a reset.
        #[serde(default)]
        pending: bool,
        /// They cannot be replaced.
        #[serde(default)]
        failed: bool,
    },
    /// The bus of a GPU repeats packets; zero ends it.
    Replay {
        /// The GPU's index on the node.
        gpu: u32,
        /// So many a minute.
        per_min: u32,
    },
    /// The bus of a GPU has fewer lanes than it should.
    PcieDowngrade {
        /// The GPU's index on the node.
        gpu: u32,
    },
    /// Errors on the links of a GPU to its peers; zero ends them.
    NvlinkErrors {
        /// The GPU's index on the node.
        gpu: u32,
        /// So many a second.
        per_s: u32,
    },
    /// A network port has no link for so long.
    PortDown {
        /// Name, such as `mlx5_3`, or the number at its end.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        port: String,
        /// How long the link is down.
        length: Span,
    },
    /// A network port loses its link for five seconds of every minute.
    PortFlap {
        /// Name or number.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        port: String,
    },
    /// Symbol errors on a network port; zero ends them.
    SymbolErrors {
        /// Name or number.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        port: String,
        /// So many a second.
        per_s: u32,
    },
    /// A network card is gone.
    LosePort {
        /// Name or number.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        port: String,
    },
    /// A file system answers nobody for so long.
    StorageStall {
        /// Where it is mounted.
        #[cfg_attr(feature = "openapi", schema(max_length = 256))]
        mount: String,
        /// How long it stalls.
        length: Span,
    },
    /// A file system is slower; one ends it.
    StorageSlow {
        /// Where it is mounted.
        #[cfg_attr(feature = "openapi", schema(max_length = 256))]
        mount: String,
        /// So many times.
        factor: u32,
    },
    /// Processes hang in the kernel; zero ends it.
    StuckProcesses {
        /// How many processes hang.
        count: u32,
    },
    /// The agent answers and reports no metrics for so long.
    AgentHang {
        /// How long the agent reports nothing.
        length: Span,
    },
    /// This node's share of an attempt computes more slowly. Given to every node of a gang it is
    /// the job that is slow. Zero ends it.
    SlowWork {
        /// The attempt that slows down.
        key: AttemptKey,
        /// By so many percent.
        percent: u32,
    },
    /// This node's share of an attempt waits for its data.
    StarveLoader {
        /// The attempt that waits.
        key: AttemptKey,
    },
    /// This node's share of an attempt stops in a collective.
    HangWork {
        /// The attempt that stops.
        key: AttemptKey,
    },
    /// A line of the kernel's log.
    KernelLine {
        /// The line as the kernel would write it, without its time.
        #[cfg_attr(feature = "openapi", schema(max_length = 1000))]
        text: String,
    },
    /// A GPU computes wrong results, and nothing but a test shows it.
    WrongResults {
        /// The GPU's index on the node.
        gpu: u32,
    },
    /// The node comes up with another version of something it has.
    Version {
        /// Of what: `driver`, `cuda`, `nccl`.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        component: String,
        /// The version it has after the restart.
        #[cfg_attr(feature = "openapi", schema(max_length = 64))]
        version: String,
    },
    /// Everything is repaired; what was lost is back.
    Repair,
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_fault_is_written_as_it_is_read() {
        let key = json!({"job": 4, "attempt": 1});
        for given in [
            json!({"fault": "crash", "down": "30s"}),
            json!({"fault": "partition", "length": "30s"}),
            json!({"fault": "kill_ranks", "key": key}),
            json!({"fault": "lose_gpu", "gpu": 1}),
            json!({"fault": "slow_gpu", "gpu": 1, "percent": 20}),
            json!({"fault": "xid", "gpu": 1, "code": 79}),
            json!({"fault": "thermal", "gpu": 1}),
            json!({"fault": "power_brake"}),
            json!({"fault": "low_clocks", "gpu": 1, "percent": 30}),
            json!({"fault": "ecc_rate", "gpu": 1, "per_s": 5}),
            json!({"fault": "ecc_uncorrectable", "gpu": 1}),
            json!({"fault": "remap", "gpu": 1, "pending": true, "failed": false}),
            json!({"fault": "replay", "gpu": 1, "per_min": 5}),
            json!({"fault": "pcie_downgrade", "gpu": 1}),
            json!({"fault": "nvlink_errors", "gpu": 1, "per_s": 5}),
            json!({"fault": "port_down", "port": "mlx5_1", "length": "1m"}),
            json!({"fault": "port_flap", "port": "1"}),
            json!({"fault": "symbol_errors", "port": "1", "per_s": 5}),
            json!({"fault": "lose_port", "port": "1"}),
            json!({"fault": "storage_stall", "mount": "/data", "length": "1m"}),
            json!({"fault": "storage_slow", "mount": "/data", "factor": 8}),
            json!({"fault": "stuck_processes", "count": 3}),
            json!({"fault": "agent_hang", "length": "1m"}),
            json!({"fault": "slow_work", "key": key, "percent": 20}),
            json!({"fault": "starve_loader", "key": key}),
            json!({"fault": "hang_work", "key": key}),
            json!({"fault": "kernel_line", "text": "x"}),
            json!({"fault": "wrong_results", "gpu": 1}),
            json!({"fault": "version", "component": "driver", "version": "590.1"}),
            json!({"fault": "repair"}),
        ] {
            let asked: Inject = serde_json::from_value(given.clone()).unwrap();
            assert_eq!(serde_json::to_value(&asked).unwrap(), given);
        }
    }
}
