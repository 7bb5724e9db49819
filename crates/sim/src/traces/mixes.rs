//! Mixes of jobs for generators, so that they need no file: how they are taken from a trace, and
//! what came of Philly, Kalos and Acme.

use super::acme::ClusterSummary;
use super::job::TraceJob;
use muster_model::units::Span;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// Shares, in ten-thousandths, below which the run times of a [`Quantiles`] lie. Most points are in
/// the tail, which holds most of the time.
pub const POINTS: [u32; 16] =
    [0, 100, 500, 1000, 2500, 5000, 7500, 9000, 9500, 9800, 9900, 9950, 9980, 9990, 9998, 10_000];

/// Run times in seconds at each of [`POINTS`].
pub type Quantiles = [u32; POINTS.len()];

/// GPUs of the jobs and how many ask for so many, the smallest first. Jobs without GPUs count as 0.
#[must_use]
pub fn philly_sizes(jobs: &[TraceJob]) -> Vec<(u32, u32)> {
    let mut sizes: BTreeMap<u32, u32> = BTreeMap::new();
    for job in jobs {
        *sizes.entry(job.ask.gpus()).or_default() += 1;
    }
    sizes.into_iter().collect()
}

/// The same, with odd sizes counted to the next power of two: 12 as 16, 24 as 32.
#[must_use]
pub fn size_classes(jobs: &[TraceJob]) -> Vec<(u32, u32)> {
    let mut classes: BTreeMap<u32, u32> = BTreeMap::new();
    for (gpus, count) in philly_sizes(jobs) {
        *classes.entry(size_class(gpus)).or_default() += count;
    }
    classes.into_iter().collect()
}

/// The power of two that a size counts to.
#[must_use]
pub fn size_class(gpus: u32) -> u32 {
    gpus.checked_next_power_of_two().unwrap_or(u32::MAX)
}

/// Run times at [`POINTS`] (nearest rank, whole seconds); none when no job has one.
#[must_use]
pub fn run_quantiles<'a>(jobs: impl IntoIterator<Item = &'a TraceJob>) -> Option<Quantiles> {
    let mut runs: Vec<u64> = jobs.into_iter().filter_map(|j| Some(j.run?.0 / 1000)).collect();
    runs.sort_unstable();
    let last = runs.len().checked_sub(1)?;
    Some(POINTS.map(|p| {
        let rank = (runs.len() as u64 * u64::from(p)).div_ceil(10_000);
        let at = usize::try_from(rank).unwrap_or(last).saturating_sub(1).min(last);
        u32::try_from(runs[at]).unwrap_or(u32::MAX)
    }))
}

/// The run time below which `part` of a million jobs stay, by a straight line between the points.
/// With `part` drawn evenly, run times come out as in the trace.
#[must_use]
pub fn run_at(quantiles: &Quantiles, part: u32) -> Span {
    let part = u64::from(part.min(1_000_000));
    let upper = POINTS.iter().position(|p| u64::from(*p) * 100 >= part).unwrap_or(0).max(1);
    let (from, to) = (u64::from(POINTS[upper - 1]) * 100, u64::from(POINTS[upper]) * 100);
    let (low, high) = (u64::from(quantiles[upper - 1]) * 1000, u64::from(quantiles[upper]) * 1000);
    Span(low + high.saturating_sub(low) * (part - from) / (to - from))
}

/// The run times of the size class that `gpus` count to; of the largest for more.
#[must_use]
pub fn philly_runs(gpus: u32) -> &'static Quantiles {
    let mut classes = PHILLY_RUN_QUANTILES.iter();
    let fits = classes.find(|(class, _)| gpus <= *class);
    &fits.unwrap_or(&PHILLY_RUN_QUANTILES[PHILLY_RUN_QUANTILES.len() - 1]).1
}

/// Philly: GPUs of a job, and how many of its 82,247 jobs ask for so many. 7 jobs of 12 GPUs count
/// as 16, 7 of 24 as 32.
pub const PHILLY_GPUS: [(u32, u32); 8] =
    [(1, 76_627), (2, 1818), (4, 1870), (8, 1643), (16, 206), (32, 74), (64, 6), (128, 3)];

/// Philly: from the first submit to the last.
pub const PHILLY_SPAN: Span = Span::secs(9_408_690);

/// Philly: jobs of its 15 virtual clusters, the largest first.
pub const PHILLY_CLUSTERS: [u32; 15] =
    [41_226, 16_091, 9953, 7423, 1934, 1511, 1435, 1137, 723, 422, 374, 8, 4, 3, 3];

/// Philly: run times by size class; 64 holds the 9 jobs of 64 and 128. Mean of the trace and mean
/// of what [`run_at`] draws, in seconds: 8301 and 9118 for 1 GPU, 30,942 and 35,064 for 2, 78,762
/// and 82,357 for 4, 129,774 and 139,082 for 8, 122,725 and 128,238 for 16, 30,004 and 28,389 for
/// 32, 5264 and 6615 for 64.
#[rustfmt::skip]
pub const PHILLY_RUN_QUANTILES: [(u32, Quantiles); 7] = [
    (1, [1, 30, 52, 62, 122, 1117, 2716, 8512, 19_137, 68_259, 135_404, 266_986, 503_281, 868_927,
        2_167_531, 3_256_045]),
    (2, [2, 5, 9, 11, 16, 21, 76, 73_625, 197_392, 343_945, 526_030, 810_065, 1_399_002, 1_521_148,
        2_582_803, 2_582_803]),
    (4, [3, 35, 75, 136, 772, 17_388, 89_422, 184_426, 274_339, 536_225, 908_661, 1_213_031,
        2_059_338, 2_641_566, 2_750_674, 2_750_674]),
    (8, [1, 33, 125, 216, 1871, 23_683, 173_288, 352_409, 525_631, 807_057, 1_066_894, 2_010_727,
        2_240_194, 2_658_784, 4_628_226, 4_628_226]),
    (16, [2, 20, 40, 55, 387, 32_662, 162_030, 340_881, 505_681, 657_879, 1_152_387, 1_369_876,
        1_710_643, 1_710_643, 1_710_643, 1_710_643]),
    (32, [2, 2, 265, 345, 924, 4619, 53_117, 64_338, 104_218, 128_924, 213_302, 213_302, 213_302,
        213_302, 213_302, 213_302]),
    (64, [1, 1, 1, 1, 4, 3071, 4322, 28_475, 28_475, 28_475, 28_475, 28_475, 28_475, 28_475, 28_475,
        28_475]),
];

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

/// Kalos: run times of the same 319 jobs, whatever their size.
pub const KALOS_RUN_QUANTILES: Quantiles = [
    14, 16, 20, 24, 41, 310, 2178, 39_059, 96_162, 175_094, 222_290, 275_690, 625_740, 625_740,
    625_740, 625_740,
];

/// Acme's published figures of five clusters: Seren and Kalos are its own, the others are given for
/// comparison.
pub const ACME: [ClusterSummary; 5] = [
    ClusterSummary {
        name: Cow::Borrowed("Seren"),
        jobs: 663_813,
        run_mean: Span(1_414_335),
        run_median: Span::secs(122),
        run_max: Span::secs(1_209_604),
        wait_mean: Span(445_984),
        wait_median: Span::secs(1),
        gpus_mean_milli: 5680,
        gpus_max: 1024,
        ends: Some([497, 75, 429]),
        ends_by_time: Some([212, 664, 124]),
    },
    ClusterSummary {
        name: Cow::Borrowed("Kalos"),
        jobs: 19_907,
        run_mean: Span(1_259_689),
        run_median: Span::secs(124),
        run_max: Span::secs(625_740),
        wait_mean: Span(214_179),
        wait_median: Span::secs(17),
        gpus_mean_milli: 26_770,
        gpus_max: 1024,
        ends: Some([541, 62, 397]),
        ends_by_time: Some([313, 607, 80]),
    },
    ClusterSummary {
        name: Cow::Borrowed("Philly"),
        jobs: 112_956,
        run_mean: Span(18_006_055),
        run_median: Span::secs(874),
        run_max: Span::secs(4_240_676),
        wait_mean: Span(3_760_604),
        wait_median: Span::secs(189),
        gpus_mean_milli: 1928,
        gpus_max: 128,
        ends: Some([604, 90, 305]),
        ends_by_time: Some([321, 294, 386]),
    },
    ClusterSummary {
        name: Cow::Borrowed("Helios"),
        jobs: 1_580_464,
        run_mean: Span(6_651_681),
        run_median: Span::secs(206),
        run_max: Span::secs(4_320_009),
        wait_mean: Span(862_047),
        wait_median: Span::secs(0),
        gpus_mean_milli: 3716,
        gpus_max: 2048,
        ends: Some([624, 221, 155]),
        ends_by_time: Some([513, 394, 93]),
    },
    ClusterSummary {
        name: Cow::Borrowed("PAI"),
        jobs: 1_037_085,
        run_mean: Span(4_787_109),
        run_median: Span(480_667),
        run_max: Span::secs(626_371),
        wait_mean: Span(401_742),
        wait_median: Span::secs(9),
        gpus_mean_milli: 683,
        gpus_max: 8,
        ends: None,
        ends_by_time: None,
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_between_the_points() {
        let (_, one) = PHILLY_RUN_QUANTILES[0];
        assert_eq!(run_at(&one, 0), Span::secs(1));
        assert_eq!(run_at(&one, 500_000), Span::secs(1117));
        assert_eq!(run_at(&one, 375_000), Span(619_500));
        assert_eq!(run_at(&one, 1_000_000), Span::secs(3_256_045));
        assert_eq!(run_at(&one, u32::MAX), Span::secs(3_256_045));
        assert_eq!(run_at(&[u32::MAX; 16], 999_999), Span::secs(u64::from(u32::MAX)));
    }

    #[test]
    fn every_size_has_run_times() {
        assert_eq!(philly_runs(0), &PHILLY_RUN_QUANTILES[0].1);
        assert_eq!(philly_runs(12), &PHILLY_RUN_QUANTILES[4].1);
        assert_eq!(philly_runs(128), &PHILLY_RUN_QUANTILES[6].1);
        assert_eq!(PHILLY_GPUS.iter().map(|(_, n)| n).sum::<u32>(), 82_247);
        assert_eq!(PHILLY_CLUSTERS.iter().sum::<u32>(), 82_247);
        for (_, runs) in PHILLY_RUN_QUANTILES {
            assert!(runs.is_sorted());
        }
    }
}
