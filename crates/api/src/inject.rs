//! Faults for simulated nodes.

use crate::schema;
use muster_model::ids::AttemptKey;
use muster_model::units::Span;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// `POST /v1/nodes/{name}/inject`: a fault for a simulated node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(tag = "fault", rename_all = "snake_case")]
pub enum Inject {
    /// Everything on it dies; it is back (with a new boot) after so long.
    Crash {
        /// How long it is away.
        #[schema(value_type = schema::Span)]
        down: Span,
    },
    /// It goes on working but hears and says nothing for so long.
    Partition {
        /// How long.
        #[schema(value_type = schema::Span)]
        length: Span,
    },
    /// The ranks of one attempt are killed.
    KillRanks {
        /// Which.
        #[schema(value_type = schema::AttemptKey)]
        key: AttemptKey,
    },
    /// A GPU falls off the bus.
    LoseGpu {
        /// Index.
        gpu: u32,
    },
    /// A GPU computes more slowly than it should; zero makes it well again.
    SlowGpu {
        /// Index.
        gpu: u32,
        /// By so many percent.
        #[schema(maximum = 99)]
        percent: u32,
    },
    /// A GPU's driver tells of an error.
    Xid {
        /// Index.
        gpu: u32,
        /// The driver's number for it.
        code: u32,
    },
    /// A GPU is cooled badly: under load it gets hot and slows down.
    Thermal {
        /// Index.
        gpu: u32,
    },
    /// The power supply asks all GPUs to slow down.
    PowerBrake,
    /// A GPU's clocks stay low under load; zero makes it well again.
    LowClocks {
        /// Index.
        gpu: u32,
        /// By so many percent.
        #[schema(maximum = 99)]
        percent: u32,
    },
    /// Correctable memory errors; zero ends them.
    EccRate {
        /// Index.
        gpu: u32,
        /// So many a second.
        per_s: u32,
    },
    /// One uncorrectable memory error; the work on the GPU dies of it.
    EccUncorrectable {
        /// Index.
        gpu: u32,
    },
    /// Memory rows wait for a reset to be replaced, or can no longer be.
    Remap {
        /// Index.
        gpu: u32,
        /// They wait.
        #[serde(default)]
        pending: bool,
        /// They cannot be replaced.
        #[serde(default)]
        failed: bool,
    },
    /// The bus of a GPU repeats packets; zero ends it.
    Replay {
        /// Index.
        gpu: u32,
        /// So many a minute.
        per_min: u32,
    },
    /// The bus of a GPU has fewer lanes than it should.
    PcieDowngrade {
        /// Index.
        gpu: u32,
    },
    /// Errors on the links of a GPU to its peers; zero ends them.
    NvlinkErrors {
        /// Index.
        gpu: u32,
        /// So many a second.
        per_s: u32,
    },
    /// A network port has no link for so long.
    PortDown {
        /// Name, such as `mlx5_3`, or the number at its end.
        #[schema(max_length = 64)]
        port: String,
        /// How long.
        #[schema(value_type = schema::Span)]
        length: Span,
    },
    /// A network port loses its link again and again.
    PortFlap {
        /// Name or number.
        #[schema(max_length = 64)]
        port: String,
    },
    /// Symbol errors on a network port; zero ends them.
    SymbolErrors {
        /// Name or number.
        #[schema(max_length = 64)]
        port: String,
        /// So many a second.
        per_s: u32,
    },
    /// A network card is gone.
    LosePort {
        /// Name or number.
        #[schema(max_length = 64)]
        port: String,
    },
    /// A file system answers nobody for so long.
    StorageStall {
        /// Where it is mounted.
        #[schema(max_length = 256)]
        mount: String,
        /// How long.
        #[schema(value_type = schema::Span)]
        length: Span,
    },
    /// A file system is slower; one makes it well again.
    StorageSlow {
        /// Where it is mounted.
        #[schema(max_length = 256)]
        mount: String,
        /// So many times.
        factor: u32,
    },
    /// Processes hang in the kernel; zero ends it.
    StuckProcesses {
        /// How many.
        count: u32,
    },
    /// The agent answers and tells no figures for so long.
    AgentHang {
        /// How long.
        #[schema(value_type = schema::Span)]
        length: Span,
    },
    /// This node's share of an attempt computes more slowly; zero ends it.
    SlowWork {
        /// Which.
        #[schema(value_type = schema::AttemptKey)]
        key: AttemptKey,
        /// By so many percent.
        percent: u32,
    },
    /// This node's share of an attempt waits for its data.
    StarveLoader {
        /// Which.
        #[schema(value_type = schema::AttemptKey)]
        key: AttemptKey,
    },
    /// This node's share of an attempt stops in a collective.
    HangWork {
        /// Which.
        #[schema(value_type = schema::AttemptKey)]
        key: AttemptKey,
    },
    /// A line of the kernel's log.
    KernelLine {
        /// The line.
        #[schema(max_length = 1000)]
        text: String,
    },
    /// Everything is well again; what was lost is back.
    Mend,
}

/// Answer to an injected fault.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Injected {
    /// The node.
    pub node: String,
    /// Whether it was handed on.
    pub ok: bool,
    /// In words.
    pub message: String,
}
