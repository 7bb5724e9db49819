//! What a test of a simulated node measures: the figures of its kind, a little off for each device
//! and each run, and badly off where it was asked to be.

use crate::SimNode;
use crate::condition::Condition;
use crate::devices::{Device, Sku};
use crate::random::Random;
use muster_model::qualification::{Check, Level, Milli, Outcome, Qualification};
use muster_model::units::{Span, Time};

/// Devices of one kind differ by so many thousandths at most.
const DEVICE_OFF: u64 = 15;
/// Two runs on one device differ by so many thousandths at most.
const RUN_OFF: u64 = 3;
/// Thousandths of what is expected that a device must reach.
const FLOOR: i64 = 920;

/// What is expected of one kind: GB/s, and TFLOP/s of dense BF16. Nine tenths of the published
/// memory bandwidth, seven tenths of the published arithmetic, seven eighths of the links.
struct Expect {
    hbm_copy: i64,
    gemm: i64,
    host: i64,
    nvlink: i64,
}

fn expect(sku: Sku) -> Expect {
    match sku {
        Sku::H100Sxm => Expect { hbm_copy: 3_000, gemm: 690, host: 55, nvlink: 390 },
        Sku::H200Sxm => Expect { hbm_copy: 4_300, gemm: 690, host: 55, nvlink: 390 },
        Sku::B200Sxm => Expect { hbm_copy: 7_200, gemm: 1_570, host: 55, nvlink: 785 },
        Sku::Gb200 => Expect { hbm_copy: 7_200, gemm: 1_750, host: 390, nvlink: 785 },
    }
}

/// One step of a test, done on all GPUs at once.
struct Step {
    name: &'static str,
    secs: u64,
    what: TestExpectation,
}

enum TestExpectation {
    /// Are all devices there?
    Devices,
    /// A rate each GPU must reach.
    Rate { unit: &'static str, expected: i64, by: Part },
    /// Something each GPU must have none of.
    None { unit: &'static str, of: WearCheck },
}

/// The part of a GPU that a rate depends on.
#[derive(Clone, Copy)]
enum Part {
    Memory,
    Arithmetic,
    Bus,
    Links,
}

/// What there must be none of.
#[derive(Clone, Copy)]
enum WearCheck {
    /// Uncorrectable errors, and rows that wait or cannot be replaced.
    Uncorrectable,
    /// Errors while patterns are written and read.
    Patterns,
}

fn steps(sku: Sku, level: Level) -> Vec<Step> {
    let e = expect(sku);
    let rate = |name, secs, unit, expected, by| Step {
        name,
        secs,
        what: TestExpectation::Rate { unit, expected, by },
    };
    let none =
        |name, secs, of| Step { name, secs, what: TestExpectation::None { unit: "errors", of } };
    let mut out = vec![
        Step { name: "devices", secs: 1, what: TestExpectation::Devices },
        none("ecc", 1, WearCheck::Uncorrectable),
        rate("hbm-copy", 8, "GB/s", e.hbm_copy, Part::Memory),
        rate("gemm-bf16", 12, "TFLOP/s", e.gemm, Part::Arithmetic),
        rate("pcie-h2d", 4, "GB/s", e.host, Part::Bus),
        rate("pcie-d2h", 4, "GB/s", e.host, Part::Bus),
    ];
    if level >= Level::Standard {
        out.push(rate("nvlink-p2p", 30, "GB/s", e.nvlink, Part::Links));
        out.push(none("hbm-pattern", 150, WearCheck::Patterns));
        out.push(rate("gemm-soak", 150, "TFLOP/s", e.gemm * 96 / 100, Part::Arithmetic));
    }
    if level >= Level::Full {
        out.push(none("hbm-pattern-rounds", 5_400, WearCheck::Patterns));
        out.push(rate("gemm-soak-rounds", 8_640, "TFLOP/s", e.gemm * 96 / 100, Part::Arithmetic));
    }
    out
}

/// How far a test is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TestStep {
    /// Steps done.
    pub done: u32,
    /// Steps in all.
    pub of: u32,
    /// The one that is being done.
    pub doing: &'static str,
    /// How long the whole will still take.
    pub left: Span,
}

impl SimNode {
    /// How long a test takes.
    #[must_use]
    pub fn test_length(&self, level: Level) -> Span {
        Span::secs(steps(self.config.sku, level).iter().map(|s| s.secs).sum())
    }

    /// How far a test is after so long.
    #[must_use]
    pub fn test_step(&self, level: Level, after: Span) -> TestStep {
        let steps = steps(self.config.sku, level);
        let of = u32::try_from(steps.len()).unwrap_or(u32::MAX);
        let left = Span(self.test_length(level).0.saturating_sub(after.0));
        let mut end = 0;
        for (done, s) in (0..).zip(&steps) {
            end += s.secs * 1000;
            if after.0 < end {
                return TestStep { done, of, doing: s.name, left };
            }
        }
        TestStep { done: of, of, doing: "", left }
    }

    /// What the `run`th test of this node measures, as the node is now.
    #[must_use]
    pub fn test(&self, level: Level, run: u64, started_at: Time) -> Qualification {
        let mut checks = Vec::new();
        for step in steps(self.config.sku, level) {
            match step.what {
                TestExpectation::Devices => {
                    checks.push(self.all_there());
                    checks.extend(self.ports_up());
                    checks.extend(self.disagree());
                }
                TestExpectation::None { unit, of } => checks.extend(self.present().map(|d| {
                    let found = found(&d.condition, of);
                    let outcome = if found == 0 { Outcome::Passed } else { Outcome::Failed };
                    Check {
                        value: Some(Milli(i64::try_from(found).unwrap_or(0) * 1000)),
                        unit: unit.into(),
                        floor: Some(Milli(0)),
                        ..Check::plain(step.name, Some(d.index), outcome, "")
                    }
                })),
                TestExpectation::Rate { unit, expected, by } => {
                    for d in self.present() {
                        let left = rate_percent(&d.condition, by, self.host.brake);
                        let got = self.measured(step.name, d.index, run, expected) * left / 100;
                        checks.push(rated(step.name, d.index, unit, expected, got));
                    }
                }
            }
        }
        let outcome = checks.iter().map(|c| c.outcome).max().unwrap_or(Outcome::Skipped);
        Qualification { level, started_at, took: self.test_length(level), outcome, checks }
    }

    fn present(&self) -> impl Iterator<Item = &Device> {
        self.devices.iter().filter(|d| !d.condition.lost)
    }

    /// Ports that are gone or have no link; nothing when all is well.
    fn ports_up(&self) -> Option<Check> {
        let bad = self.host.ports.iter().filter(|p| p.lost || !p.up(self.now));
        let bad: Vec<&str> = bad.map(|p| p.name.as_str()).collect();
        let note = format!("{} has no link", bad.join(", "));
        (!bad.is_empty()).then(|| Check::plain("ports", None, Outcome::Failed, &note))
    }

    /// GPUs whose products differ from those of the others; nothing when all is well.
    fn disagree(&self) -> impl Iterator<Item = Check> {
        self.present().filter(|d| d.condition.wrong).map(|d| {
            let note = "the same product twice, and two results";
            Check::plain(Check::SM_AGREE, Some(d.index), Outcome::Failed, note)
        })
    }

    fn all_there(&self) -> Check {
        let count = |n: usize| Some(Milli(i64::try_from(n).unwrap_or(0) * 1000));
        let lost = self.devices.iter().filter(|d| d.condition.lost).map(|d| d.index.to_string());
        let lost: Vec<String> = lost.collect();
        let outcome = if lost.is_empty() { Outcome::Passed } else { Outcome::Failed };
        Check {
            value: count(self.devices.len() - lost.len()),
            unit: "GPUs".into(),
            expected: count(self.devices.len()),
            floor: count(self.devices.len()),
            note: match lost.len() {
                0 => String::new(),
                _ => format!("GPU {} is not on the bus", lost.join(", ")),
            },
            ..Check::plain("devices", None, outcome, "")
        }
    }

    /// In thousandths of the unit.
    fn measured(&self, name: &str, gpu: u32, run: u64, expected: i64) -> i64 {
        let gpu = gpu.to_string();
        let off = |most: u64, parts: &[&str]| {
            let mut r = Random::new(self.seed, parts);
            i64::try_from(r.below(2 * most + 1)).unwrap_or(0) - i64::try_from(most).unwrap_or(0)
        };
        let run = run.to_string();
        let off = off(DEVICE_OFF, &[&self.name, "figure", name, &gpu])
            + off(RUN_OFF, &[&self.name, "run", name, &gpu, &run]);
        expected * (1000 + off)
    }
}

/// Percent of a rate that is left.
fn rate_percent(c: &Condition, by: Part, brake: bool) -> i64 {
    match by {
        Part::Memory => 100,
        Part::Arithmetic => i64::try_from(c.speed_percent(brake)).unwrap_or(100),
        Part::Bus if c.narrow => 25,
        Part::Links if c.links_bad => 70,
        Part::Bus | Part::Links => 100,
    }
}

/// How much there is of what must not be there.
fn found(c: &Condition, of: WearCheck) -> u64 {
    match of {
        WearCheck::Uncorrectable => c.dbe + u64::from(c.pending) + u64::from(c.failed),
        WearCheck::Patterns => c.sbe.per_hour() / 60 + u64::from(c.failed),
    }
}

fn rated(name: &str, gpu: u32, unit: &str, expected: i64, got: i64) -> Check {
    let floor = expected * FLOOR;
    let outcome = if got < floor { Outcome::Failed } else { Outcome::Passed };
    Check {
        value: Some(Milli(got)),
        unit: unit.into(),
        expected: Some(Milli(expected * 1000)),
        floor: Some(Milli(floor)),
        ..Check::plain(name, Some(gpu), outcome, "")
    }
}

#[cfg(test)]
mod tests {
    use crate::{Effect, Fault, SimConfig, SimNode};
    use muster_model::qualification::{Level, Outcome, Qualification};
    use muster_model::units::{Span, Time};

    fn node() -> SimNode {
        SimNode::new(1, SimConfig::default(), "n1", Time(0))
    }

    fn failed(q: &Qualification) -> Vec<(String, Option<u32>)> {
        let bad = q.checks.iter().filter(|c| c.outcome == Outcome::Failed);
        bad.map(|c| (c.name.clone(), c.gpu)).collect()
    }

    #[test]
    fn a_node_passes_and_two_runs_differ_a_little() {
        let n = node();
        let (a, b) = (n.test(Level::Quick, 1, Time(5)), n.test(Level::Quick, 2, Time(9)));
        assert_eq!((a.outcome, b.outcome), (Outcome::Passed, Outcome::Passed));
        assert_eq!(a, n.test(Level::Quick, 1, Time(5)), "the same run is the same");
        assert_ne!(a.checks, b.checks);
        assert!(n.test_length(Level::Quick) < Span::mins(1));
        assert!(n.test_length(Level::Standard) < Span::mins(7));
        assert!(n.test(Level::Full, 1, Time(0)).checks.len() > a.checks.len());
    }

    #[test]
    fn a_slow_gpu_fails_and_is_well_again() {
        let mut n = node();
        assert!(n.apply(&Fault::SlowGpu { gpu: 3, percent: 20 }, Time(0)).is_empty());
        let q = n.test(Level::Quick, 1, Time(0));
        assert_eq!((q.outcome, failed(&q)), (Outcome::Failed, vec![("gemm-bf16".into(), Some(3))]));
        n.apply(&Fault::SlowGpu { gpu: 3, percent: 0 }, Time(0));
        assert_eq!(n.test(Level::Quick, 1, Time(0)).outcome, Outcome::Passed);
        let no = n.apply(&Fault::SlowGpu { gpu: 9, percent: 20 }, Time(0));
        assert!(matches!(&no[..], [Effect::Impossible(why)] if why.contains("no GPU 9")), "{no:?}");
    }

    #[test]
    fn a_gpu_that_is_gone_is_missed() {
        let mut n = node();
        n.apply(&Fault::LoseGpu { gpu: 5 }, Time(0));
        let q = n.test(Level::Quick, 1, Time(0));
        assert_eq!(failed(&q), vec![("devices".into(), None)]);
        assert!(q.checks[0].note.contains("GPU 5"), "{:?}", q.checks[0]);
    }

    #[test]
    fn it_reports_how_far_it_is() {
        let n = node();
        let first = n.test_step(Level::Quick, Span(0));
        assert_eq!((first.done, first.of, first.doing), (0, 6, "devices"));
        let mid = n.test_step(Level::Quick, Span::secs(11));
        assert_eq!((mid.done, mid.doing, mid.left), (3, "gemm-bf16", Span::secs(19)));
        assert_eq!(n.test_step(Level::Quick, Span::hours(1)).done, 6);
    }
}
