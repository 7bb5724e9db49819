//! How far simulated lives have come, on a terminal's stderr.

use indicatif::{ProgressBar, ProgressStyle};
use muster_model::units::{Span, Time};
use serde::Deserialize;
use std::time::Duration;

/// Parts that a run is counted in.
const PARTS: u64 = 1000;
/// Records between two looks at the clock.
const EVERY: u32 = 64;

/// The bar; hidden where stderr is no terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    runs: u64,
}

/// When a record was written.
#[derive(Deserialize)]
struct Moment {
    at: Time,
}

impl Progress {
    /// For so many runs.
    pub(crate) fn new(runs: usize) -> Progress {
        let runs = u64::try_from(runs).unwrap_or(u64::MAX);
        let bar = ProgressBar::new(runs.saturating_mul(PARTS));
        let style = ProgressStyle::with_template("{bar:32} {percent:>3}%  {msg}  {eta} left");
        if let Ok(style) = style {
            bar.set_style(style);
        }
        if runs > 1 {
            bar.set_message(format!("0 of {runs} runs"));
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Progress { bar, runs }
    }

    /// One of the runs begins.
    pub(crate) fn begin(&self, length: Span) -> Run<'_> {
        Run { all: self, length, records: 0, shown: 0 }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// How far one run has come.
pub(crate) struct Run<'a> {
    all: &'a Progress,
    length: Span,
    records: u32,
    shown: u64,
}

impl Run<'_> {
    /// A record of its log was written.
    pub(crate) fn record(&mut self, line: &[u8]) {
        self.records += 1;
        if !self.records.is_multiple_of(EVERY) || self.all.bar.is_hidden() {
            return;
        }
        let Ok(Moment { at }) = serde_json::from_slice(line) else { return };
        let lived = at.since(muster_sim::START);
        let part = u128::from(lived.0) * u128::from(PARTS) / u128::from(self.length.0.max(1));
        self.show(u64::try_from(part).unwrap_or(PARTS));
        if self.all.runs == 1 {
            let (day, days) = (lived.0 / 86_400_000, self.length.0.div_ceil(86_400_000));
            self.all.bar.set_message(format!("day {day} of {days}"));
        }
    }

    fn show(&mut self, part: u64) {
        let part = part.min(PARTS);
        self.all.bar.inc(part.saturating_sub(self.shown));
        self.shown = self.shown.max(part);
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        self.show(PARTS);
        if self.all.runs > 1 {
            let done = self.all.bar.position() / PARTS;
            self.all.bar.set_message(format!("{done} of {} runs", self.all.runs));
        }
    }
}
