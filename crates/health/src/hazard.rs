//! How likely a GPU is to fail within a month, from what comes before failures.
//!
//! The model is log-linear and made of tables: a base rate times one factor for each thing that is
//! known. What is not known has a factor of one. Signs of the same fault are not multiplied with
//! each other: of those that speak of memory, of the bus and links, and of heat, the strongest counts.
//! `docs/hazard.md` says where each factor is from, how the model was measured and what it is not good
//! for: age, slot and earlier failures are fitted to 30,207 GPUs of Titan; all other factors are
//! judgement, and wait for a fleet to be fitted to.

mod tables;
#[cfg(test)]
mod tests;

use crate::series::exp_neg;
pub use tables::{FLEET, TITAN};

/// How warm a place in its rack or board is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Slot {
    /// Where the air comes in.
    Cool,
    /// In between, or not known to be either.
    Middle,
    /// Where the air is warmest.
    Hot,
}

/// What is known of a GPU. None is not known, which is not the same as zero.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Precursors {
    /// Correctable memory errors a day.
    pub sbe_slope: Option<u32>,
    /// Memory rows that were replaced.
    pub remapped_rows: Option<u32>,
    /// Rows wait for a reset to be replaced.
    pub remap_pending: Option<bool>,
    /// Replays of its bus an hour.
    pub replay_slope: Option<u32>,
    /// Errors of its links an hour.
    pub nvlink_slope: Option<u32>,
    /// Degrees left until it slows down, under load.
    pub thermal_margin: Option<u32>,
    /// XID 92 (many correctable errors) a week.
    pub xid92: Option<u32>,
    /// Days since it last failed, of any kind; none if it never did.
    pub failed_days_ago: Option<u32>,
    /// How often it was repaired: reset for a fault, reseated, moved.
    pub repairs: Option<u32>,
    /// Days since it was first put to work.
    pub age_days: Option<u32>,
    /// Where it sits.
    pub slot: Option<Slot>,
}

/// Steps: from a value on, a factor in thousandths. Below the first it is one.
pub type Table = &'static [(u32, u32)];

/// A base rate and its factors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Model {
    /// Failures a month of a GPU of which nothing is known, in millionths.
    pub base_ppm: u32,
    /// By days of age.
    pub age: Table,
    /// Cool, middle, hot.
    pub slot: [u32; 3],
    /// It failed within the last [`RECENT`] days.
    pub failed_lately: u32,
    /// It failed before that.
    pub failed_once: u32,
    /// By correctable memory errors a day.
    pub sbe: Table,
    /// By replaced rows.
    pub rows: Table,
    /// Rows wait to be replaced.
    pub pending: u32,
    /// By XID 92 a week.
    pub xid92: Table,
    /// By replays an hour.
    pub replay: Table,
    /// By link errors an hour.
    pub nvlink: Table,
    /// By degrees short of [`MARGIN`].
    pub heat: Table,
    /// By repairs it had.
    pub repairs: Table,
}

/// Days for which a failure is recent.
pub const RECENT: u32 = 90;
/// Degrees of thermal margin that are enough.
pub const MARGIN: u32 = 20;
const ONE: u32 = 1000;
/// No more than so many failures a month, whatever the factors say.
const RATE_MAX: u64 = 10_000_000;

fn step(table: Table, value: Option<u32>) -> u32 {
    let Some(value) = value else { return ONE };
    table.iter().rev().find(|(from, _)| value >= *from).map_or(ONE, |(_, factor)| *factor)
}

impl Model {
    /// Failures a month that are to be expected, in millionths. At most ten.
    #[must_use]
    pub fn rate_ppm(&self, p: &Precursors) -> u64 {
        let failed = match p.failed_days_ago {
            None => ONE,
            Some(d) if d <= RECENT => self.failed_lately,
            Some(_) => self.failed_once,
        };
        let pending = if p.remap_pending == Some(true) { self.pending } else { ONE };
        let memory = step(self.sbe, p.sbe_slope)
            .max(step(self.rows, p.remapped_rows))
            .max(step(self.xid92, p.xid92))
            .max(pending);
        let links = step(self.replay, p.replay_slope).max(step(self.nvlink, p.nvlink_slope));
        let heat = step(self.heat, p.thermal_margin.map(|m| MARGIN.saturating_sub(m)));
        // A repair follows a failure: they are one story.
        let past = failed.max(step(self.repairs, p.repairs));
        let age = step(self.age, p.age_days);
        let slot = p.slot.map_or(ONE, |s| self.slot[s as usize]);
        let factors = [memory, links, heat, past, age, slot];
        // Millionths of millionths, so that small factors do not round a small rate away.
        let base = u128::from(self.base_ppm) * 1_000_000;
        let rate = factors.iter().fold(base, |r, f| r.saturating_mul(u128::from(*f)) / 1000);
        u64::try_from(rate / 1_000_000).unwrap_or(u64::MAX).min(RATE_MAX)
    }

    /// The chance of a failure within a month, in millionths.
    #[must_use]
    pub fn chance_ppm(&self, p: &Precursors) -> u32 {
        let rate = self.rate_ppm(p) as f64 / 1e6;
        ((1.0 - exp_neg(rate)) * 1e6 + 0.5) as u32
    }
}

/// The hazard of a GPU in thousandths a month, by the model for fleets of today.
#[must_use]
pub fn hazard(p: &Precursors) -> u32 {
    (FLEET.chance_ppm(p) + 500) / 1000
}

/// The chance that one or more of several GPUs fail within a month, each with its own hazard, all in
/// thousandths: a node's hazard, or a gang's. Failures with a common cause are not in it.
pub fn together(hazards: impl IntoIterator<Item = u32>) -> u32 {
    let none =
        hazards.into_iter().fold(1.0, |left, h| left * (1.0 - f64::from(h.min(1000)) / 1000.0));
    ((1.0 - none) * 1000.0 + 0.5) as u32
}

/// What raises a hazard, the strongest first, in words: at most three.
#[must_use]
pub fn hazard_reasons(p: &Precursors) -> Vec<String> {
    let m = &FLEET;
    let mut parts: Vec<(u32, String)> = Vec::new();
    let mut note = |factor: u32, text: String| {
        if factor > ONE {
            parts.push((factor, text));
        }
    };
    if let Some(d) = p.failed_days_ago {
        let factor = if d <= RECENT { m.failed_lately } else { m.failed_once };
        note(factor, format!("it failed {d} days ago"));
    }
    if p.remap_pending == Some(true) {
        note(m.pending, "rows wait to be replaced".to_owned());
    }
    for (table, value, text) in [
        (m.sbe, p.sbe_slope, "correctable memory errors a day"),
        (m.rows, p.remapped_rows, "replaced memory rows"),
        (m.xid92, p.xid92, "reports of many memory errors a week"),
        (m.replay, p.replay_slope, "replays of its bus an hour"),
        (m.nvlink, p.nvlink_slope, "link errors an hour"),
        (m.repairs, p.repairs, "repairs"),
    ] {
        note(step(table, value), format!("{} {text}", value.unwrap_or(0)));
    }
    if let Some(margin) = p.thermal_margin {
        let factor = step(m.heat, Some(MARGIN.saturating_sub(margin)));
        note(factor, format!("{margin} degrees of thermal margin"));
    }
    if p.slot == Some(Slot::Hot) {
        note(m.slot[2], "a hot slot".to_owned());
    }
    note(step(m.age, p.age_days), format!("{} days of age", p.age_days.unwrap_or(0)));
    parts.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    parts.into_iter().take(3).map(|(_, text)| text).collect()
}
