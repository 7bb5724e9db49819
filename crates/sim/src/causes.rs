//! Why things fail: published causes and rates.

use crate::scenario::{Cause, Delay, Failures, Mode, Precursor, Preset, Scope};
use muster_model::units::Span;

const fn minutes(median: u64, p95: u64) -> Delay {
    Delay { median: Span::mins(median), p95: Some(Span::mins(p95)) }
}

/// Swap or reseat by hands; repair times of SemiAnalysis (tray 1 to 4 h) and Acme (about 1.5 h).
const HANDS: Delay = minutes(180, 1440);
/// A reset or a reboot with a burn-in after it.
const RESET: Delay = minutes(30, 120);

fn cause(name: &str, count: f64, mode: Mode, repair: Delay, sign: f64) -> Cause {
    let precursor = (sign > 0.0).then(|| Precursor {
        share: sign,
        lead: minutes(240, 2880),
        false_per_1000_node_days: 0.0,
    });
    Cause {
        name: name.into(),
        per_1000_node_days: count,
        mode,
        scope: Scope::Node,
        repair: Some(repair),
        precursor,
    }
}

/// The 419 unexpected interruptions of Llama 3 405B (arXiv:2407.21783, table 5): 2,048 nodes,
/// 54 days. What shows beforehand is our assumption: memory errors and heat do, often.
fn llama3() -> Vec<Cause> {
    let stop = Mode::FailStop;
    let rows = [
        ("faulty gpu", 148.0, stop, HANDS, 0.3),
        ("gpu hbm3", 72.0, stop, HANDS, 0.5),
        ("software bug", 54.0, Mode::Software, RESET, 0.0),
        ("network switch/cable", 35.0, stop, HANDS, 0.3),
        ("unplanned host maintenance", 32.0, stop, RESET, 0.0),
        ("gpu sram", 19.0, stop, HANDS, 0.2),
        ("gpu system processor", 17.0, stop, RESET, 0.0),
        ("nic", 7.0, stop, HANDS, 0.2),
        ("nccl watchdog timeout", 7.0, Mode::Software, RESET, 0.0),
        ("silent data corruption", 6.0, stop, HANDS, 0.0),
        ("gpu thermal interface", 6.0, stop, HANDS, 0.6),
        ("ssd", 3.0, stop, HANDS, 0.4),
        ("power supply", 3.0, stop, HANDS, 0.2),
        ("server chassis", 2.0, stop, HANDS, 0.0),
        ("io expansion board", 2.0, stop, HANDS, 0.0),
        ("dependency", 2.0, Mode::Software, RESET, 0.0),
        ("cpu", 2.0, stop, HANDS, 0.0),
        ("system memory", 2.0, stop, HANDS, 0.4),
    ];
    // Counts in 2,048 x 54 node-days.
    let node_days = 2048.0 * 54.0;
    let rate = |n: f64| n / node_days * 1000.0;
    rows.into_iter().map(|(n, count, m, r, p)| cause(n, rate(count), m, r, p)).collect()
}

/// Shares by cause are not published as numbers for RSC; the order is: links, file systems, GPU
/// memory, PCIe. The whole is what was measured.
fn rsc(per_1000: f64) -> Vec<Cause> {
    let stop = Mode::FailStop;
    let rows = [
        ("infiniband link", 0.26, stop, RESET, 0.2),
        ("file system mount", 0.20, stop, RESET, 0.0),
        ("gpu memory", 0.18, stop, HANDS, 0.5),
        ("pcie", 0.14, stop, HANDS, 0.3),
        ("gpu off the bus", 0.10, stop, HANDS, 0.2),
        ("host", 0.08, stop, HANDS, 0.1),
        ("power", 0.04, stop, HANDS, 0.1),
    ];
    rows.into_iter().map(|(n, s, m, r, p)| cause(n, s * per_1000, m, r, p)).collect()
}

/// Delta's GH200 part (arXiv:2503.11901): memory errors per GPU times eight, failed remaps, GSP.
fn delta_h100() -> Vec<Cause> {
    vec![
        cause("uncorrectable ecc", 2.163, Mode::FailStop, RESET, 0.4),
        cause("row remap failure", 0.731, Mode::FailStop, HANDS, 0.6),
        cause("gsp", 0.274, Mode::FailStop, RESET, 0.0),
    ]
}

/// Every cause of a scenario with its rate.
#[must_use]
pub fn causes(f: &Failures) -> Vec<Cause> {
    let mut all = match f.preset {
        None => Vec::new(),
        Some(Preset::Llama3) => llama3(),
        Some(Preset::Rsc1) => rsc(6.5),
        Some(Preset::Rsc2) => rsc(2.34),
        Some(Preset::DeltaH100) => delta_h100(),
    };
    all.extend(f.causes.iter().cloned());
    let scale = f.scale.unwrap_or(1.0);
    for c in &mut all {
        c.per_1000_node_days *= scale;
    }
    all
}

/// Does it take the node out until it is repaired?
pub(crate) fn takes_out(mode: Mode) -> bool {
    matches!(mode, Mode::FailStop | Mode::Corruption | Mode::FailSlow(_))
}

fn sum(f: &Failures, of: impl Fn(Mode) -> bool) -> muster_health::Rate {
    let per_1000: f64 = causes(f).iter().filter(|c| of(c.mode)).map(|c| c.per_1000_node_days).sum();
    muster_health::Rate((per_1000 * 1000.0).round() as u64)
}

/// Failures that take a node out.
#[must_use]
pub fn node_rate(f: &Failures) -> muster_health::Rate {
    sum(f, takes_out)
}

/// Failures that end what runs.
#[must_use]
pub fn rate(f: &Failures) -> muster_health::Rate {
    sum(f, |m| takes_out(m) || m == Mode::Software)
}
