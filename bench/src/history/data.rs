//! Metrics of GPUs that are made up: steady ones, noisy ones, counters; the same for the same seed.

/// The metrics of a GPU.
pub(super) const METRICS: [&str; 20] = [
    "util",
    "mem_used",
    "sm_clock",
    "mem_clock",
    "temp",
    "mem_temp",
    "power",
    "energy",
    "pcie_rx",
    "pcie_tx",
    "nvlink_rx",
    "nvlink_tx",
    "ecc_sbe",
    "ecc_dbe",
    "remapped_rows",
    "replay",
    "sm_active",
    "tensor_active",
    "dram_active",
    "thermal_margin",
];

/// GPUs of a node.
pub(super) const GPUS: u32 = 8;

/// A number from 0 to 1 that looks random, always the same for the same place.
fn noise(a: u64, b: u64) -> f32 {
    let mut x = a.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ b.wrapping_mul(0xd1b5_4a32_d192_ed03);
    x ^= x >> 32;
    x = x.wrapping_mul(0xd6e8_feb8_6659_fd93);
    x ^= x >> 29;
    (x >> 40) as f32 / (1u64 << 24) as f32
}

fn rounded(v: f32, steps: f32) -> f32 {
    (v * steps).round() / steps
}

/// The value of a metric of a GPU at a step of 10 s. Work comes and goes by the half hour.
pub(super) fn value(gpu: u64, metric: usize, step: u64) -> f32 {
    let n = |what: u64| noise(gpu * 64 + metric as u64, step * 8 + what);
    let slow = |every: u64| noise(gpu * 64 + 63, step / every);
    let busy = slow(180) > 0.15;
    let load = if busy { 0.9 + 0.1 * n(0) } else { 0.0 };
    match METRICS[metric] {
        "util" => (load * 100.0).round(),
        "mem_used" if busy => 60_000.0 + (slow(180) * 16_000.0).round(),
        "mem_used" => 512.0,
        "sm_clock" => {
            if busy {
                1830.0 + 15.0 * (n(1) * 10.0).floor()
            } else {
                345.0
            }
        }
        "mem_clock" => 2619.0,
        "temp" => (34.0 + 36.0 * load + 2.0 * slow(30)).round(),
        "mem_temp" => (38.0 + 44.0 * load + 2.0 * slow(30)).round(),
        "power" => rounded(78.0 + 580.0 * load * (0.97 + 0.03 * n(2)), 10.0),
        "energy" => (step * 5000) as f32,
        "pcie_rx" | "pcie_tx" => rounded(load * 900.0 * n(3), 10.0),
        "nvlink_rx" | "nvlink_tx" => rounded(load * 250_000.0 * (0.8 + 0.2 * n(4)), 1.0),
        "sm_active" => rounded(load * (70.0 + 20.0 * n(5)), 10.0),
        "tensor_active" => rounded(load * (40.0 + 20.0 * n(6)), 10.0),
        "dram_active" => rounded(load * (30.0 + 20.0 * n(7)), 10.0),
        "thermal_margin" => (50.0 - 36.0 * load).round(),
        _ => (slow(8640) * 3.0).floor(),
    }
}
