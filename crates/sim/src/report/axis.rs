//! Axes: where the ticks are, and the frame of a plot around them.

use super::words;

/// Width of every plot's drawing, in its own units; the page stretches it.
pub(super) const WIDE: f64 = 1000.0;
/// Height of every plot's drawing, in its own units.
pub(super) const HIGH: f64 = 100.0;

/// A mark on an axis: where it is (0 to 1) and what it says.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) at: f64,
    pub(super) says: String,
}

/// Ticks of an axis from zero, and the value at its end.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Axis {
    pub(super) end: f64,
    pub(super) ticks: Vec<Tick>,
}

/// An axis of counts from zero that ends on a round number at or above `most`.
pub(super) fn counts(most: f64, about: u32) -> Axis {
    let most = if most.is_finite() && most > 0.0 { most } else { 1.0 };
    let rough = most / f64::from(about.max(1));
    let mut ten = 1.0;
    while ten * 10.0 <= rough {
        ten *= 10.0;
    }
    let step = [1.0, 2.0, 2.5, 5.0, 10.0]
        .into_iter()
        .map(|m| m * ten)
        .find(|s| *s >= rough && s.fract() == 0.0)
        .unwrap_or(10.0 * ten);
    let steps = (most / step).ceil().max(1.0);
    let end = steps * step;
    let ticks = (0..=steps as u32)
        .map(|i| Tick { at: f64::from(i) / steps, says: words::number(f64::from(i) * step) })
        .collect();
    Axis { end, ticks }
}

/// An axis of shares from nothing to all.
pub(super) fn shares() -> Axis {
    let ticks = [0.0, 0.25, 0.5, 0.75, 1.0]
        .map(|at| Tick { at, says: format!("{:.0}%", at * 100.0) })
        .to_vec();
    Axis { end: 1.0, ticks }
}

/// An axis of time that ends exactly with the run, with at most about seven ticks.
pub(super) fn time(length_s: f64) -> Axis {
    const STEPS: [(f64, f64, &str); 23] = [
        (1.0, 1.0, "s"),
        (5.0, 1.0, "s"),
        (10.0, 1.0, "s"),
        (30.0, 1.0, "s"),
        (60.0, 60.0, "min"),
        (300.0, 60.0, "min"),
        (600.0, 60.0, "min"),
        (1_800.0, 60.0, "min"),
        (3_600.0, 3_600.0, "h"),
        (7_200.0, 3_600.0, "h"),
        (10_800.0, 3_600.0, "h"),
        (21_600.0, 3_600.0, "h"),
        (43_200.0, 3_600.0, "h"),
        (86_400.0, 86_400.0, "d"),
        (172_800.0, 86_400.0, "d"),
        (432_000.0, 86_400.0, "d"),
        (604_800.0, 86_400.0, "d"),
        (864_000.0, 86_400.0, "d"),
        (1_209_600.0, 86_400.0, "d"),
        (2_592_000.0, 86_400.0, "d"),
        (5_184_000.0, 86_400.0, "d"),
        (8_640_000.0, 86_400.0, "d"),
        (31_536_000.0, 86_400.0, "d"),
    ];
    let end = if length_s.is_finite() && length_s > 0.0 { length_s } else { 1.0 };
    let (step, unit, name) =
        STEPS.into_iter().find(|(step, ..)| end / step <= 7.0).unwrap_or((end, 86_400.0, "d"));
    let ticks = (0..=(end / step) as u32)
        .map(|i| {
            let at_s = f64::from(i) * step;
            Tick { at: at_s / end, says: format!("{} {name}", words::number(at_s / unit)) }
        })
        .collect();
    Axis { end, ticks }
}

/// The first wait that a logarithmic axis distinguishes.
const LOG_FROM: f64 = 1.0;

/// An axis of waits, logarithmic from one second, that ends on a tick at or above `longest_s`.
pub(super) fn waits(longest_s: f64) -> Axis {
    const MARKS: [(f64, &str); 11] = [
        (LOG_FROM, "1s"),
        (10.0, "10s"),
        (60.0, "1m"),
        (600.0, "10m"),
        (3_600.0, "1h"),
        (21_600.0, "6h"),
        (86_400.0, "1d"),
        (604_800.0, "7d"),
        (2_592_000.0, "30d"),
        (10_368_000.0, "120d"),
        (31_536_000.0, "1y"),
    ];
    // At least to a minute: below that the shape says nothing.
    let last =
        MARKS.iter().skip(2).position(|(s, _)| *s >= longest_s).map_or(MARKS.len(), |i| i + 3);
    let marks = &MARKS[..last];
    let end = marks.last().map_or(60.0, |(s, _)| *s).max(longest_s.min(1e12));
    let ticks =
        marks.iter().map(|(s, says)| Tick { at: log_at(*s, end), says: (*says).into() }).collect();
    Axis { end, ticks }
}

/// Where a wait lies on a logarithmic axis that ends at `end`.
pub(super) fn log_at(seconds: f64, end: f64) -> f64 {
    if seconds <= LOG_FROM { 0.0 } else { (log2(seconds) / log2(end)).min(1.0) }
}

/// Logarithm of a number of at least one, by halving and squaring: with nothing but exact
/// operations the same page comes out on every machine.
fn log2(x: f64) -> f64 {
    let mut x = x.clamp(1.0, 1e15);
    let mut log = 0.0;
    while x >= 2.0 {
        x /= 2.0;
        log += 1.0;
    }
    let mut bit = 0.5;
    for _ in 0..24 {
        x *= x;
        if x >= 2.0 {
            x /= 2.0;
            log += bit;
        }
        bit /= 2.0;
    }
    log
}

/// A plot: grid, drawing and labels. `drawing` is SVG in units of [`WIDE`] by [`HIGH`], downwards.
pub(super) struct Plot<'a> {
    /// What it shows, for those who cannot see it.
    pub(super) says: &'a str,
    /// Height on the page in pixels.
    pub(super) height: u32,
    pub(super) x: &'a Axis,
    /// None draws no marks on the side.
    pub(super) y: Option<&'a Axis>,
    /// Whether the axis below carries labels; panels that share one leave that to the last.
    pub(super) x_labels: bool,
    pub(super) drawing: &'a str,
}

impl Plot<'_> {
    /// Writes it.
    pub(super) fn put(&self, out: &mut String) {
        put!(out, r#"<div class="plot" style="height:{}px">"#, self.height);
        put!(
            out,
            r#"<svg viewBox="0 0 {WIDE} {HIGH}" preserveAspectRatio="none" role="img" aria-label="{}">"#,
            words::escape(self.says)
        );
        out.push_str(r#"<path class="grid" d=""#);
        for tick in &self.x.ticks {
            put!(out, "M{} 0V{HIGH}", place(tick.at * WIDE));
        }
        for tick in self.y.iter().flat_map(|y| &y.ticks) {
            put!(out, "M0 {}H{WIDE}", place((1.0 - tick.at) * HIGH));
        }
        out.push_str(r#""/>"#);
        out.push_str(self.drawing);
        out.push_str("</svg>");
        for tick in self.y.iter().flat_map(|y| &y.ticks) {
            put!(
                out,
                r#"<span class="y" style="bottom:{}%">{}</span>"#,
                place(tick.at * 100.0),
                tick.says
            );
        }
        if self.x_labels {
            put_x(out, self.x);
        }
        out.push_str("</div>");
    }
}

/// Writes the labels under a plot.
pub(super) fn put_x(out: &mut String, x: &Axis) {
    for tick in &x.ticks {
        put!(
            out,
            r#"<span class="x" style="left:{}%">{}</span>"#,
            place(tick.at * 100.0),
            tick.says
        );
    }
}

/// A coordinate with as many digits as the eye can use.
pub(super) fn place(x: f64) -> String {
    let said = format!("{:.1}", if x.is_finite() { x } else { 0.0 });
    match said.strip_suffix(".0") {
        Some("-0") => "0".into(),
        Some(whole) => whole.into(),
        None => said,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn says(axis: &Axis) -> Vec<&str> {
        axis.ticks.iter().map(|t| t.says.as_str()).collect()
    }

    #[test]
    fn counts_end_on_a_round_number() {
        let axis = counts(16_384.0, 4);
        assert_eq!(says(&axis), ["0", "5,000", "10,000", "15,000", "20,000"]);
        assert_eq!(says(&counts(3.0, 4)), ["0", "1", "2", "3"]);
        assert_eq!(says(&counts(0.0, 4)), ["0", "1"]);
        assert_eq!(says(&counts(f64::NAN, 4)), ["0", "1"]);
        assert_eq!(says(&counts(97.0, 4)), ["0", "25", "50", "75", "100"]);
        for most in [1.0, 7.0, 12.0, 99.0, 101.0, 12_345.0, 1e7] {
            for about in [1, 2, 4] {
                let axis = counts(most, about);
                assert!(axis.end >= most && axis.ticks.len() <= 6, "{most} {axis:?}");
                assert_eq!(axis.ticks.last().unwrap().at, 1.0);
            }
        }
    }

    #[test]
    fn time_has_few_ticks_of_one_unit() {
        assert_eq!(says(&time(54.0 * 86_400.0)), ["0 d", "10 d", "20 d", "30 d", "40 d", "50 d"]);
        assert_eq!(
            says(&time(36.0 * 3_600.0)),
            ["0 h", "6 h", "12 h", "18 h", "24 h", "30 h", "36 h"]
        );
        assert_eq!(says(&time(90.0)), ["0 s", "30 s", "60 s", "90 s"]);
        assert_eq!(says(&time(0.0)), ["0 s", "1 s"]);
        for days in [1.0, 3.0, 11.0, 30.0, 100.0, 365.0, 3_650.0] {
            let axis = time(days * 86_400.0);
            assert!((2..=8).contains(&axis.ticks.len()), "{days}: {axis:?}");
            assert!(axis.ticks.iter().all(|t| t.at <= 1.0));
        }
    }

    #[test]
    fn waits_lie_on_a_log_axis() {
        let axis = waits(80_000.0);
        assert_eq!(says(&axis), ["1s", "10s", "1m", "10m", "1h", "6h", "1d"]);
        assert_eq!(axis.ticks[0].at, 0.0);
        assert_eq!(axis.ticks[6].at, 1.0);
        assert_eq!(says(&waits(0.0)), ["1s", "10s", "1m"]);
        assert_eq!(waits(1e9).end, 1e9);
        assert!(waits(f64::NAN).end.is_finite());
        assert_eq!(log_at(0.0, 60.0), 0.0);
        assert_eq!(log_at(900.0, 60.0), 1.0);
    }

    #[test]
    fn the_logarithm_is_one() {
        for x in [1.0, 1.5, 2.0, 3.0, 10.0, 3_600.0, 86_400.0, 1e9] {
            assert!((log2(x) - f64::log2(x)).abs() < 1e-6, "{x}");
        }
    }

    #[test]
    fn places_are_short() {
        assert_eq!(place(12.0), "12");
        assert_eq!(place(12.345), "12.3");
        assert_eq!(place(-0.01), "0");
        assert_eq!(place(f64::NAN), "0");
    }
}
