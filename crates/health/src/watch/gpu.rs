//! What is remembered of one GPU: a few hundred bytes.

use super::layout::{COLS, Col};
use crate::config::{WatchConfig, ms};
use crate::detect::bus::BusLink;
use crate::detect::heat::{SteadyPower, mask, reason};
use crate::detect::meter::{Meter, Streak, Tick};
use crate::detect::robust::FadingAverage;
use crate::hazard::Precursors;
use muster_model::units::Time;

/// Figures of now are averaged over about so many seconds.
const NOW: f32 = 15.0;
/// Its own past over so many.
const PAST: f32 = 1800.0;
/// A past of so many seconds under load can be compared with.
const MATURE: f32 = 600.0;
/// Windows of counters, in milliseconds.
const MINUTE: i64 = 60_000;
const TEN_MINUTES: i64 = 600_000;
const HOUR: i64 = 3_600_000;
const DAY: i64 = 86_400_000;

/// One GPU.
#[derive(Debug)]
pub(super) struct Gpu {
    /// The newest row.
    pub(super) row: [f32; COLS],
    pub(super) reported: bool,
    pub(super) busy: bool,
    pub(super) without: u16,
    pub(super) dbe: Tick,
    dbe_meter: Meter,
    pub(super) sbe: Meter,
    pub(super) replay: Meter,
    pub(super) nvlink: Meter,
    pub(super) nvlink_long: Meter,
    sbe_day: Meter,
    replay_hour: Meter,
    nvlink_hour: Meter,
    margin: FadingAverage,
    pub(super) pending: Streak,
    pub(super) failed: Streak,
    hot: FadingAverage,
    braked: FadingAverage,
    pub(super) throttled: Streak,
    pub(super) no_margin: Streak,
    pub(super) brake: Streak,
    pub(super) narrow: Streak,
    pub(super) low_clock: Streak,
    pub(super) low_past: Streak,
    pub(super) warm: Streak,
    pub(super) clock: FadingAverage,
    pub(super) temp: FadingAverage,
    pub(super) power: FadingAverage,
    pub(super) sm: FadingAverage,
    pub(super) util: FadingAverage,
    past_clock: FadingAverage,
    past_temp: FadingAverage,
    past_power: FadingAverage,
    steady: SteadyPower,
    load_secs: f32,
    warm_secs: f32,
    best: BusLink,
    link_before: BusLink,
}

impl Default for Gpu {
    fn default() -> Gpu {
        let none = BusLink { width: f32::NAN, generation: f32::NAN };
        Gpu {
            row: [f32::NAN; COLS],
            reported: false,
            busy: false,
            without: 0,
            dbe: Tick::Absent,
            dbe_meter: Meter::default(),
            sbe: Meter::default(),
            replay: Meter::default(),
            nvlink: Meter::default(),
            nvlink_long: Meter::default(),
            sbe_day: Meter::default(),
            replay_hour: Meter::default(),
            nvlink_hour: Meter::default(),
            margin: FadingAverage::default(),
            pending: Streak::default(),
            failed: Streak::default(),
            hot: FadingAverage::default(),
            braked: FadingAverage::default(),
            throttled: Streak::default(),
            no_margin: Streak::default(),
            brake: Streak::default(),
            narrow: Streak::default(),
            low_clock: Streak::default(),
            low_past: Streak::default(),
            warm: Streak::default(),
            clock: FadingAverage::default(),
            temp: FadingAverage::default(),
            power: FadingAverage::default(),
            sm: FadingAverage::default(),
            util: FadingAverage::default(),
            past_clock: FadingAverage::default(),
            past_temp: FadingAverage::default(),
            past_power: FadingAverage::default(),
            steady: SteadyPower::default(),
            load_secs: 0.0,
            warm_secs: 0.0,
            best: none,
            link_before: none,
        }
    }
}

/// A figure that can be: neither absurd nor absent.
fn sane(x: f32, most: f32) -> f32 {
    if (0.0..=most).contains(&x) { x } else { f32::NAN }
}

impl Gpu {
    pub(super) fn get(&self, col: Col) -> f32 {
        self.row[col as usize]
    }

    /// Takes in a row; `dt` is the time since the last one in seconds.
    pub(super) fn take(&mut self, c: &WatchConfig, row: Option<[f32; COLS]>, at: Time, dt: f32) {
        let row = row.filter(|r| r.iter().any(|v| v.is_finite()));
        let Some(row) = row else {
            self.row = [f32::NAN; COLS];
            (self.busy, self.dbe, self.steady) = (false, Tick::Absent, SteadyPower::default());
            if self.reported {
                self.without = self.without.saturating_add(1);
            }
            return;
        };
        self.row = row;
        (self.reported, self.without) = (true, 0);
        let util = sane(self.get(Col::Util), 100.5);
        let sm = sane(self.get(Col::Sm), 1.05);
        self.busy = f64::from(util) >= c.busy_util || f64::from(sm) >= c.busy_sm;
        self.dbe = self.dbe_meter.add(at, self.get(Col::Dbe), MINUTE);
        self.sbe.add(at, self.get(Col::Sbe), TEN_MINUTES);
        self.replay.add(at, self.get(Col::Replay), MINUTE);
        self.nvlink.add(at, self.get(Col::Nvlink), MINUTE);
        self.nvlink_long.add(at, self.get(Col::Nvlink), TEN_MINUTES);
        self.sbe_day.add(at, self.get(Col::Sbe), DAY);
        self.replay_hour.add(at, self.get(Col::Replay), HOUR);
        self.nvlink_hour.add(at, self.get(Col::Nvlink), HOUR);
        self.averages(util, sm, dt);
        self.links();
        self.streaks(c, at, dt);
    }

    fn averages(&mut self, util: f32, sm: f32, dt: f32) {
        let clock = sane(self.get(Col::Clock), 10_000.0);
        let temp = sane(self.get(Col::Temp), 150.0);
        let power = sane(self.get(Col::Power), 10_000.0);
        for (average, x) in [
            (&mut self.util, util),
            (&mut self.sm, sm),
            (&mut self.clock, clock),
            (&mut self.temp, temp),
            (&mut self.power, power),
        ] {
            average.add(x, dt, NOW);
        }
        if !self.busy {
            self.steady = SteadyPower::default();
            return;
        }
        self.load_secs += dt.clamp(0.0, 60.0);
        self.margin.add(sane(self.get(Col::Margin), 150.0), dt, PAST);
        self.steady.add(self.power.get().map_or(f32::NAN, |w| w as f32), dt);
        // One that still warms up is cooler than it will be at this power.
        if self.steady.is_warm() {
            self.warm_secs += dt.clamp(0.0, 60.0);
            self.past_temp.add(temp, dt, PAST);
            self.past_power.add(power, dt, PAST);
        }
        // What a reason explains is no part of how fast it can be; what is low already neither.
        let low = self.past_clock.get().is_some_and(|p| f64::from(clock) < p * 0.95);
        let excluded = self.explained() || (low && self.mature());
        if !excluded {
            self.past_clock.add(clock, dt, PAST);
        }
    }

    fn mature(&self) -> bool {
        self.load_secs >= MATURE
    }

    /// The best that was seen twice in a row: one garbled row is not believed.
    fn links(&mut self) {
        let now = self.link();
        let keep = |best: f32, now: f32, before: f32| {
            if now == before && (best.is_nan() || now > best) { now } else { best }
        };
        self.best.width = keep(self.best.width, now.width, self.link_before.width);
        self.best.generation =
            keep(self.best.generation, now.generation, self.link_before.generation);
        self.link_before = now;
    }

    fn streaks(&mut self, c: &WatchConfig, at: Time, dt: f32) {
        let flag = |x: f32| x.is_finite().then_some(x >= 0.5);
        self.pending.add(flag(self.get(Col::RemapPending)), at);
        self.failed.add(flag(self.get(Col::RemapFailed)), at);
        let throttle = self.get(Col::Throttle);
        let mask = mask(throttle);
        // A GPU on the edge is throttled in some rows and not in others.
        for (streak, share, bits) in [
            (&mut self.throttled, &mut self.hot, reason::THERMAL),
            (&mut self.brake, &mut self.braked, reason::POWER_BRAKE),
        ] {
            let now = throttle.is_finite().then_some(mask & bits != 0);
            if let Some(now) = now {
                share.add(if now { 1.0 } else { 0.0 }, dt, 30.0);
            }
            let often = share.get().is_some_and(|s| s > 0.4);
            streak.add(now.map(|now| now || often), at);
        }
        let margin = self.get(Col::Margin);
        self.no_margin.add(margin.is_finite().then_some(f64::from(margin) < c.margin), at);
    }

    /// Do the reasons that the GPU names explain low clocks?
    pub(super) fn explained(&self) -> bool {
        mask(self.get(Col::Throttle)) & reason::EXPLAINS != 0
    }

    /// The bus as it is.
    pub(super) fn link(&self) -> BusLink {
        BusLink {
            width: sane(self.get(Col::Width), 64.0),
            generation: sane(self.get(Col::Gen), 8.0),
        }
    }

    /// The bus as it could be.
    pub(super) fn best(&self) -> BusLink {
        self.best
    }

    /// Clock now over its past under load.
    pub(super) fn clock_ratio(&self) -> Option<f64> {
        if !(self.busy && self.mature()) {
            return None;
        }
        Some(self.clock.get()? / self.past_clock.get()?)
    }

    pub(super) fn past_clock(&self) -> Option<f64> {
        self.past_clock.get()
    }

    /// Degrees above its past under load, and power now over that of its past. None before it is
    /// warm: both are of a GPU that has been at one power for minutes.
    pub(super) fn warmth(&self) -> Option<(f64, f64)> {
        if !(self.busy && self.steady.is_warm() && self.warm_secs >= MATURE) {
            return None;
        }
        let rise = self.temp.get()? - self.past_temp.get()?;
        Some((rise, self.power.get()? / self.past_power.get()?))
    }

    /// What its figures say of whether it will fail. What was never reported is not known.
    pub(super) fn precursors(&self) -> Precursors {
        let reported = |col: Col| self.get(col).is_finite();
        let count = |m: &Meter| m.rise().by.min(f64::from(u32::MAX)) as u32;
        let whole = |x: f64| x.clamp(0.0, f64::from(u32::MAX)) as u32;
        Precursors {
            sbe_slope: reported(Col::Sbe).then(|| count(&self.sbe_day)),
            remapped_rows: reported(Col::Remapped)
                .then(|| whole(f64::from(self.get(Col::Remapped)))),
            remap_pending: reported(Col::RemapPending).then(|| self.get(Col::RemapPending) >= 0.5),
            replay_slope: reported(Col::Replay).then(|| count(&self.replay_hour)),
            nvlink_slope: reported(Col::Nvlink).then(|| count(&self.nvlink_hour)),
            thermal_margin: self.margin.get().map(whole),
            ..Precursors::default()
        }
    }

    /// It has been throttled for long enough.
    pub(super) fn is_throttled(&self, c: &WatchConfig) -> bool {
        self.throttled.lasts(3, ms(c.throttle_for))
    }

    /// Windows begin anew, what was learnt stays.
    pub(super) fn forget(&mut self) {
        for m in [&mut self.sbe, &mut self.replay, &mut self.nvlink, &mut self.nvlink_long] {
            m.forget();
        }
        for s in [
            &mut self.pending,
            &mut self.failed,
            &mut self.throttled,
            &mut self.no_margin,
            &mut self.brake,
            &mut self.narrow,
            &mut self.low_clock,
            &mut self.low_past,
            &mut self.warm,
        ] {
            *s = Streak::default();
        }
    }
}
