//! The figures of the models. Factors are thousandths; `docs/hazard.md` has their sources.

use super::Model;

/// Fitted to Titan's GPUs (K20X, 2014 to 2019): double-bit errors and GPUs off the bus. Fitted on
/// one half of the serial numbers, measured on the other, by `tests/evaluate_hazard.rs`, which also
/// fails when these figures are not what the fit gives. Nothing else was recorded there, so every
/// other factor is one.
pub const TITAN: Model = Model {
    base_ppm: 8_033,
    age: &[
        (0, 33),
        (180, 15),
        (360, 13),
        (540, 87),
        (720, 350),
        (900, 1000),
        (1080, 1724),
        (1440, 2227),
        (1800, 3205),
    ],
    slot: [356, 1000, 3416],
    failed_lately: 92_233,
    failed_once: 2_706,
    sbe: &[],
    rows: &[],
    pending: 1000,
    xid92: &[],
    replay: &[],
    nvlink: &[],
    heat: &[],
    repairs: &[],
};

/// For fleets of today. The base is what 16,384 H100 saw: 268 stops by GPUs in 54 days
/// (arXiv:2407.21783). Of Titan it takes what may hold elsewhere, and less of it: a warm slot is
/// worse than a cool one, and what failed lately fails again. Titan's age is left out: it is the
/// story of one part that corroded. The other factors are judgement.
pub const FLEET: Model = Model {
    base_ppm: 9_100,
    age: &[],
    slot: [700, 1000, 1500],
    failed_lately: 30_000,
    failed_once: 3_000,
    sbe: &[(10, 1_500), (100, 3_000), (1_000, 6_000), (10_000, 12_000)],
    rows: &[(1, 1_500), (4, 3_000), (16, 6_000), (64, 12_000), (256, 25_000)],
    pending: 8_000,
    xid92: &[(1, 3_000), (3, 8_000)],
    replay: &[(10, 1_500), (100, 3_000), (1_000, 8_000)],
    nvlink: &[(1, 1_500), (10, 3_000), (100, 8_000)],
    heat: &[(5, 1_200), (10, 1_500), (15, 2_500), (18, 4_000)],
    repairs: &[(1, 2_000), (2, 4_000), (3, 8_000)],
};
