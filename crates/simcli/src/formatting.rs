//! Figures as people read them in a terminal.

use muster_model::units::Span;
use muster_sim::compare::{Interval, Unit};
use muster_terminal::output::time::length;

/// What stands where there is no figure.
pub(crate) const NONE: &str = "-";

/// A share: `0.9764`.
pub(crate) fn share(v: f64) -> String {
    format!("{v:.4}")
}

/// `97.6%`.
pub(crate) fn percent(v: f64) -> String {
    format!("{:.1}%", v * 100.0)
}

/// `16,384`.
pub(crate) fn group_digits(n: u64) -> String {
    let digits = n.to_string();
    let mut text = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            text.push(',');
        }
        text.push(c);
    }
    text
}

/// `1 node`, `2,048 nodes`.
pub(crate) fn counted(n: u64, word: &str) -> String {
    format!("{} {word}{}", group_digits(n), if n == 1 { "" } else { "s" })
}

/// A length of time: `0.4s`, `3m20s`, `3d4h`.
pub(crate) fn seconds(v: f64) -> String {
    if v > 0.0 && v < 9.95 {
        return format!("{v:.1}s");
    }
    length(Span::secs(rounded(v)))
}

/// GPU time: `1,234 GPU-h`.
pub(crate) fn gpu_hours(gpu_seconds: f64) -> String {
    let hours = gpu_seconds / 3600.0;
    if hours > 0.0 && hours < 99.95 {
        return format!("{hours:.1} GPU-h");
    }
    format!("{} GPU-h", group_digits(rounded(hours)))
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "casts saturate")]
fn rounded(v: f64) -> u64 {
    v.max(0.0).round() as u64
}

/// A figure in its unit.
pub(crate) fn figure(unit: Unit, v: f64) -> String {
    if v < 0.0 {
        return format!("-{}", figure(unit, -v));
    }
    match unit {
        Unit::Share => share(v),
        Unit::Seconds => seconds(v),
        Unit::GpuSeconds => gpu_hours(v),
        Unit::Count if v < 99.95 && v.fract() != 0.0 => format!("{v:.1}"),
        Unit::Count => group_digits(rounded(v)),
    }
}

/// A difference in its unit: `+0.0041`, `-3m20s`.
pub(crate) fn change(unit: Unit, v: f64) -> String {
    let text = figure(unit, v.abs());
    let nothing = text == figure(unit, 0.0);
    match (nothing, v < 0.0) {
        (true, _) => text,
        (false, true) => format!("-{text}"),
        (false, false) => format!("+{text}"),
    }
}

/// A mean with half of its interval: `0.9764 ± 0.0012`.
pub(crate) fn with_half(unit: Unit, i: &Interval) -> String {
    let mean = figure(unit, i.mean);
    match i.half() {
        Some(half) => format!("{mean} ± {}", figure(unit, half)),
        None => mean,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_read_as_people_say_them() {
        for (unit, v, text) in [
            (Unit::Share, 0.976_44, "0.9764"),
            (Unit::Seconds, 0.44, "0.4s"),
            (Unit::Seconds, 200.4, "3m20s"),
            (Unit::Seconds, 0.0, "0s"),
            (Unit::GpuSeconds, 36_000.0, "10.0 GPU-h"),
            (Unit::GpuSeconds, 8_640_000.0, "2,400 GPU-h"),
            (Unit::Count, 419.0, "419"),
            (Unit::Count, 41.3, "41.3"),
            (Unit::Count, 12_345.6, "12,346"),
        ] {
            assert_eq!(figure(unit, v), text);
        }
        assert_eq!(figure(Unit::Seconds, -200.0), "-3m20s");
    }

    #[test]
    fn differences_carry_their_sign() {
        assert_eq!(change(Unit::Share, 0.004_1), "+0.0041");
        assert_eq!(change(Unit::Seconds, -200.0), "-3m20s");
        assert_eq!(change(Unit::Share, -0.000_01), "0.0000");
        assert_eq!(change(Unit::Count, 0.0), "0");
    }

    #[test]
    fn a_mean_of_one_run_has_no_interval() {
        let i = muster_sim::compare::interval(&[0.5]).expect("a value");
        assert_eq!(with_half(Unit::Share, &i), "0.5000");
        let i = muster_sim::compare::interval(&[0.5, 0.5]).expect("values");
        assert_eq!(with_half(Unit::Share, &i), "0.5000 ± 0.0000");
    }
}
