//! What the traces have in common.

use muster_model::units::Span;

/// One job of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceJob {
    /// Row of the file, from 0, as arrival orders count them: bad rows keep their number.
    pub row: u32,
    /// The trace's own name for it; the row where there is none.
    pub id: String,
    /// Since the first submit of those that were read; zero where the trace has no times.
    pub submit: Span,
    /// How long it waited there.
    pub wait: Option<Span>,
    /// How long it ran there; a policy must not see it.
    pub run: Option<Span>,
    /// What its user said it would need at most.
    pub limit: Option<Span>,
    /// User or virtual cluster.
    pub owner: Option<String>,
    /// What it asks for.
    pub ask: Ask,
    /// How it ended there.
    pub outcome: Outcome,
    /// What it computes, where the trace says so.
    pub work: Option<String>,
    /// Steps of training.
    pub steps: Option<u64>,
}

/// What a job asks for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    /// Processors of a parallel machine.
    Procs {
        /// As its user said.
        asked: Option<u32>,
        /// As it got.
        used: Option<u32>,
    },
    /// A gang of whole GPUs.
    Gpus(u32),
    /// One pod.
    Pod {
        /// Thousandths of a processor.
        cpu_milli: u32,
        /// Memory in MiB.
        memory_mib: u64,
        /// GPUs; zero for work without.
        gpus: u32,
        /// Thousandths of each GPU.
        gpu_milli: u32,
        /// Models that will do, in lower case; empty: any.
        models: Vec<String>,
    },
}

impl Ask {
    /// GPUs that it touches; none for a machine of processors.
    #[must_use]
    pub fn gpus(&self) -> u32 {
        match self {
            Ask::Procs { .. } => 0,
            Ask::Gpus(n) | Ask::Pod { gpus: n, .. } => *n,
        }
    }

    /// Thousandths of GPUs in all.
    #[must_use]
    pub fn gpu_milli(&self) -> u64 {
        match self {
            Ask::Procs { .. } => 0,
            Ask::Gpus(n) => u64::from(*n) * 1000,
            Ask::Pod { gpus, gpu_milli, .. } => u64::from(*gpus) * u64::from(*gpu_milli),
        }
    }

    /// Processors of a parallel machine: those asked for, else those used.
    #[must_use]
    pub fn procs(&self) -> Option<u32> {
        match self {
            Ask::Procs { asked, used } => asked.or(*used),
            _ => None,
        }
    }
}

/// How a job ended where the trace was taken.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// It ended well.
    Completed,
    /// It ended badly.
    Failed,
    /// By its user.
    Cancelled,
    /// It still ran when the trace ended, or was taken away while it did.
    Running,
    /// It never started.
    Pending,
    /// The trace does not say.
    Unknown,
}

/// One node of a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TraceNode {
    /// The node's name in the trace.
    pub name: String,
    /// Thousandths of a processor.
    pub cpus_milli: u32,
    /// Memory in MiB.
    pub memory_mib: u64,
    /// GPUs.
    pub gpus: u32,
    /// Model of its GPUs in lower case; none without GPUs.
    pub model: Option<String>,
}

/// Puts jobs in the order of their submit; equal ones stay in the order of the file.
pub fn by_submit(jobs: &mut [TraceJob]) {
    jobs.sort_by_key(|j| j.submit);
}

/// Makes the first submit zero.
pub(super) fn rebase(mut jobs: Vec<TraceJob>) -> Vec<TraceJob> {
    let first = jobs.iter().map(|j| j.submit.0).min().unwrap_or(0);
    for j in &mut jobs {
        j.submit.0 -= first;
    }
    jobs
}
