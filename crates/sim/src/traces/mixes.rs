//! Mixes of jobs for generators, so that they need no file: the sizes of Philly and Kalos.

/// Philly: GPUs of a job, and how many of its 82,247 jobs ask for so many. 7 jobs of 12 GPUs count
/// as 16, 7 of 24 as 32.
pub const PHILLY_GPUS: [(u32, u32); 8] =
    [(1, 76_627), (2, 1818), (4, 1870), (8, 1643), (16, 206), (32, 74), (64, 6), (128, 3)];

/// Kalos: GPUs of a job, and how many of 319 ask for so many, counted to the next power of two.
/// A choice of large ones: of all its 19,907 GPU jobs half ask for one GPU.
pub const KALOS_GPUS: [(u32, u32); 10] = [
    (1, 29),
    (2, 41),
    (8, 19),
    (16, 11),
    (32, 14),
    (64, 22),
    (128, 6),
    (256, 52),
    (512, 86),
    (1024, 39),
];
