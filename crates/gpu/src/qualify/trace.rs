//! The sustained run: what the device did while it worked as hard as it can.

use super::expect::Expectations;
use crate::sample::{Field, Sample};
use muster_model::qualification::{Check, Milli, Outcome};

/// Clock event reasons that say the device protects itself; the power cap is not among them,
/// since a healthy device under full load sits at it.
const HW_SLOWDOWN: u64 = 0x8;
const SW_THERMAL: u64 = 0x20;
const HW_THERMAL: u64 = 0x40;
const POWER_BRAKE: u64 = 0x80;

/// About a second of it.
#[derive(Debug, Clone, Default)]
pub struct Second {
    /// TFLOP/s.
    pub rate: f64,
    /// What the device said meanwhile.
    pub sample: Sample,
}

fn mean(values: impl Iterator<Item = f64>) -> Option<f64> {
    let (sum, n) = values.fold((0.0, 0u32), |(s, n), v| (s + v, n + 1));
    (n > 0).then(|| sum / f64::from(n))
}

/// Judges the whole run. The beginning, in which the device warms up, does not count.
#[must_use]
pub fn evaluate(seconds: &[Second], sku: &str, gpu: u32, expect: &Expectations) -> Vec<Check> {
    let warm = &seconds[seconds.len() / 10..];
    let mut out = Vec::new();
    let rates = || warm.iter().map(|s| s.rate);
    let Some(rate) = mean(rates()) else { return out };
    out.push(expect.evaluate(sku, "sustained-bf16", Some(gpu), rate, "TFLOP/s"));
    let quarter = (warm.len() / 4).max(1);
    let ends = (mean(warm.iter().take(quarter).map(|s| s.rate)), mean(rates().rev().take(quarter)));
    if let (Some(first), Some(last)) = ends {
        // A device that gets slower while it works has a problem with heat or power.
        let drop = (1.0 - last / first.max(f64::MIN_POSITIVE)) * 100.0;
        let note = if drop > 5.0 { "slower at the end than at the beginning" } else { "" };
        out.push(Check {
            name: "sustained-steady".into(),
            gpu: Some(gpu),
            outcome: if drop > 5.0 { Outcome::Failed } else { Outcome::Passed },
            value: Some(Milli::from_f64(drop)),
            unit: "% drop".into(),
            expected: Some(Milli(1_000)),
            floor: Some(Milli(5_000)),
            note: note.into(),
        });
    }
    let field = |f: Field| warm.iter().filter_map(move |s| s.sample.get(f));
    if let Some(power) = mean(field(Field::PowerNow)).or_else(|| mean(field(Field::Power))) {
        out.push(expect.evaluate(sku, "sustained-power", Some(gpu), power, "W"));
    }
    let reported = |name: &str, value: f64, unit: &str| Check {
        value: Some(Milli::from_f64(value)),
        unit: unit.into(),
        ..Check::plain(name, Some(gpu), Outcome::Passed, "")
    };
    if let Some(clock) = mean(field(Field::SmClock)) {
        out.push(reported("sustained-clock", clock, "MHz"));
    }
    if let Some(hottest) = field(Field::Temp).max_by(f64::total_cmp) {
        out.push(reported("sustained-temp", hottest, "C"));
    }
    if let Some(least) = field(Field::TempMargin).min_by(f64::total_cmp) {
        let mut c = reported("thermal-margin", least, "C left");
        if least <= 0.0 {
            c.outcome = Outcome::Failed;
            c.note = "no margin is left before it slows down: look at cooling and paste".into();
        }
        out.push(c);
    }
    out.push(throttle(warm, gpu));
    out
}

fn throttle(warm: &[Second], gpu: u32) -> Check {
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a mask of few bits"
    )]
    let masks: Vec<u64> =
        warm.iter().filter_map(|s| s.sample.get(Field::ClockReasons)).map(|m| m as u64).collect();
    let share = |bit: u64| masks.iter().filter(|m| **m & bit != 0).count();
    let reasons = [
        (HW_SLOWDOWN, Outcome::Failed, "hardware slowdown"),
        (HW_THERMAL, Outcome::Failed, "hardware thermal slowdown"),
        (POWER_BRAKE, Outcome::Failed, "power brake from outside"),
        (SW_THERMAL, Outcome::Degraded, "thermal slowdown by the driver"),
    ];
    let (mut outcome, mut notes) = (Outcome::Passed, Vec::new());
    for (bit, how_bad, words) in reasons {
        let n = share(bit);
        if n > 0 {
            outcome = outcome.max(how_bad);
            notes.push(format!("{words} in {n} of {} seconds", masks.len()));
        }
    }
    let capped = share(0x4);
    if capped > 0 {
        notes.push(format!(
            "at its power limit in {capped} of {} seconds, as it should be",
            masks.len()
        ));
    }
    if masks.is_empty() {
        (outcome, notes) = (Outcome::Skipped, vec!["the device does not say".into()]);
    }
    Check::plain("throttling", Some(gpu), outcome, notes.join("; "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(rate: f64, reasons: f64, margin: f64) -> Second {
        let mut sample = Sample::default();
        sample.set(Field::PowerNow, 695.0);
        sample.set(Field::Temp, 61.0);
        sample.set(Field::TempMargin, margin);
        sample.set(Field::SmClock, 1500.0);
        sample.set(Field::ClockReasons, reasons);
        Second { rate, sample }
    }

    fn outcome(checks: &[Check], name: &str) -> Outcome {
        checks.iter().find(|c| c.name == name).unwrap().outcome
    }

    #[test]
    fn a_healthy_run_at_the_power_limit_passes() {
        let run: Vec<Second> = (0..100).map(|_| second(700.0, 4.0, 20.0)).collect();
        let checks = evaluate(&run, "h200-sxm", 0, &Expectations::builtin());
        assert!(checks.iter().all(|c| c.outcome == Outcome::Passed), "{checks:?}");
    }

    #[test]
    fn heat_brakes_and_decline_are_found() {
        let e = Expectations::builtin();
        let hot: Vec<Second> = (0..100).map(|_| second(700.0, 64.0, -1.0)).collect();
        let checks = evaluate(&hot, "h200-sxm", 0, &e);
        assert_eq!(outcome(&checks, "throttling"), Outcome::Failed);
        assert_eq!(outcome(&checks, "thermal-margin"), Outcome::Failed);
        let fading: Vec<Second> =
            (0..100).map(|i| second(720.0 - f64::from(i), 4.0, 20.0)).collect();
        assert_eq!(
            outcome(&evaluate(&fading, "h200-sxm", 0, &e), "sustained-steady"),
            Outcome::Failed
        );
        let soft: Vec<Second> = (0..100).map(|_| second(700.0, 32.0, 20.0)).collect();
        assert_eq!(outcome(&evaluate(&soft, "h200-sxm", 0, &e), "throttling"), Outcome::Degraded);
    }

    #[test]
    fn nothing_measured_is_nothing_judged() {
        assert!(evaluate(&[], "h200-sxm", 0, &Expectations::builtin()).is_empty());
    }
}
