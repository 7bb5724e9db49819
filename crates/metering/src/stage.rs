//! The stages of a step: which one a job's own word means, and what helps when it is the slowest.

/// A stage of a step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stage {
    /// Reading data.
    Read,
    /// Decoding and preparing it.
    Decode,
    /// Copying it to the device.
    H2d,
    /// Work on the device.
    Compute,
    /// Exchange with other ranks, and waiting for them.
    Comm,
    /// Copying results back.
    D2h,
    /// Writing results.
    Write,
    /// Something else.
    Other,
}

/// Words of each stage, the more particular ones first: `h2d_copy` is no `read`.
const WORDS: [(Stage, &[&str]); 7] = [
    (Stage::H2d, &["h2d", "to_device", "host_to_device", "upload"]),
    (Stage::D2h, &["d2h", "to_host", "device_to_host", "download"]),
    (
        Stage::Comm,
        &[
            "comm",
            "reduce",
            "gather",
            "scatter",
            "nccl",
            "collective",
            "wait",
            "sync",
            "barrier",
            "bubble",
            "broadcast",
            "p2p",
            "alltoall",
        ],
    ),
    (Stage::Decode, &["decode", "preproc", "augment", "tokeni", "transform", "collate"]),
    (Stage::Write, &["write", "save", "output", "checkpoint", "flush"]),
    (Stage::Read, &["read", "load", "data", "fetch", "input", "io"]),
    (
        Stage::Compute,
        &["compute", "kernel", "forward", "backward", "fwd", "bwd", "optim", "step", "matmul"],
    ),
];

impl Stage {
    /// The stage that a job's word means.
    #[must_use]
    pub fn of(name: &str) -> Stage {
        let name = name.to_ascii_lowercase();
        let means = |words: &[&str]| words.iter().any(|w| name.contains(w));
        WORDS.iter().find(|(_, words)| means(words)).map_or(Stage::Other, |(s, _)| *s)
    }

    /// What helps when it is the slowest.
    #[must_use]
    pub fn advice(self) -> &'static str {
        match self {
            Stage::Read => {
                "the GPUs wait for reading: more loader workers, prefetch, larger files, or the \
                 data on local disks"
            }
            Stage::Decode => {
                "the GPUs wait for decoding: ask for more CPUs a GPU, decode on the GPU, or prepare \
                 the data once beforehand"
            }
            Stage::H2d => {
                "it waits for copies to the device: pinned memory, copies while the last batch is \
                 computed, fewer and larger ones"
            }
            Stage::Compute => {
                "it computes most of the time, as it should: lower precision, fused kernels or a \
                 larger batch if tensor cores are little used"
            }
            Stage::Comm => {
                "ranks wait for each other or the network: overlap exchange with computing, fewer \
                 and larger exchanges, a gang within one leaf"
            }
            Stage::D2h => {
                "it waits for copies from the device: keep results there, copy less often, or while \
                 the next batch is computed"
            }
            Stage::Write => {
                "it waits for writing: write in the background, less often, or to local disks first"
            }
            Stage::Other => "no more is known of this stage than its name",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_jobs_are_understood() {
        for (word, stage) in [
            ("read", Stage::Read),
            ("dataloader", Stage::Read),
            ("decode", Stage::Decode),
            ("h2d", Stage::H2d),
            ("compute", Stage::Compute),
            ("kernel", Stage::Compute),
            ("Backward", Stage::Compute),
            ("comm", Stage::Comm),
            ("all_reduce", Stage::Comm),
            ("d2h", Stage::D2h),
            ("write", Stage::Write),
            ("xyz", Stage::Other),
            ("", Stage::Other),
        ] {
            assert_eq!(Stage::of(word), stage, "{word}");
        }
    }
}
