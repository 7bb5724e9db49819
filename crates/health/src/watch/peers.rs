//! A GPU beside the others of its node.

use super::gpu::Gpu;
use super::layout::Col;
use crate::config::{WatchConfig, ms};
use crate::detect::heat::{self, Heat};
use crate::detect::meter::Rise;
use crate::detect::robust::{PeerBaseline, median};
use crate::detect::{DetectorVerdict, bus};
use muster_model::units::Time;

/// What is usual among the GPUs of a node.
pub(super) struct Peers {
    temp: Option<PeerBaseline>,
    power: Option<PeerBaseline>,
    clock: Option<PeerBaseline>,
    clock_ratio: Option<f64>,
    warmth: Option<f64>,
    pub(super) sbe: f64,
    pub(super) nvlink: f64,
    width: Option<f64>,
    generation: Option<f64>,
}

/// Fewer peers say nothing.
const PEERS_MIN: usize = 4;

impl Peers {
    pub(super) fn of(gpus: &[Gpu]) -> Peers {
        let busy = || gpus.iter().filter(|g| g.busy && g.without == 0);
        let enough = |u: Option<PeerBaseline>| u.filter(|u| u.count >= PEERS_MIN);
        let rate = |f: &dyn Fn(&Gpu) -> Rise| {
            let mut all: Vec<f64> = gpus.iter().map(|g| f(g).per_sec()).collect();
            if all.len() < 3 { 0.0 } else { median(&mut all).unwrap_or(0.0) }
        };
        let best = |f: &dyn Fn(&Gpu) -> f32| {
            PeerBaseline::of(gpus.iter().map(|g| f64::from(f(g))))
                .filter(|u| u.count >= PEERS_MIN)
                .map(|u| u.median)
        };
        let some = |all: Vec<f64>| {
            let mut all = all;
            if all.len() < PEERS_MIN { None } else { median(&mut all) }
        };
        Peers {
            temp: enough(PeerBaseline::of(busy().filter_map(|g| g.temp.get()))),
            power: enough(PeerBaseline::of(busy().filter_map(|g| g.power.get()))),
            clock: enough(PeerBaseline::of(busy().filter_map(|g| g.clock.get()))),
            clock_ratio: some(busy().filter_map(Gpu::clock_ratio).collect()),
            warmth: some(busy().filter_map(|g| g.warmth().map(|w| w.0)).collect()),
            sbe: rate(&|g| g.sbe.rise()),
            nvlink: rate(&|g| g.nvlink.rise()),
            width: best(&|g| g.best().width),
            generation: best(&|g| g.best().generation),
        }
    }

    /// What a link could be: the best of its own past and of its peers.
    pub(super) fn best(&self, own: bus::BusLink) -> bus::BusLink {
        let better = |own: f32, peers: Option<f64>| match peers {
            Some(p) if own.is_nan() || f64::from(own) < p => p as f32,
            _ => own,
        };
        bus::BusLink {
            width: better(own.width, self.width),
            generation: better(own.generation, self.generation),
        }
    }
}

impl Gpu {
    pub(super) fn thermal(&mut self, c: &WatchConfig, peers: &Peers, at: Time) -> DetectorVerdict {
        if !self.reported || self.without > 0 {
            return DetectorVerdict::Unknown;
        }
        let nan = f64::NAN;
        let heat = Heat {
            temp: self.temp.get().unwrap_or(nan),
            margin: f64::from(self.get(Col::Margin)),
            power: self.power.get().unwrap_or(nan),
            peers_temp: peers.temp.map(|u| u.median),
            peers_power: peers.power.map(|u| u.median),
        };
        let no_margin = self.no_margin.lasts(2, ms(c.throttle_for));
        let throttled = self.is_throttled(c);
        let say = heat::thermal(c, throttled, no_margin, heat);
        if say.is_bad() {
            let since = if throttled { self.throttled.since() } else { self.no_margin.since() };
            return say.since(since);
        }
        let warm = self.warmth().zip(peers.warmth);
        let warmer = warm.map_or(DetectorVerdict::Unknown, |((rise, power), others)| {
            heat::warmer(c, rise, others, power)
        });
        self.warm.add(warm.map(|_| warmer.is_bad()), at);
        let lasts = self.warm.lasts(3, 5 * ms(c.load_for));
        if warmer.is_bad() && lasts {
            return warmer.since(self.warm.since());
        }
        let bits = heat::mask(self.get(Col::Throttle)) & heat::reason::THERMAL;
        let room = heat.margin.is_nan() || heat.margin >= c.margin + 3.0;
        // What was warmer than its past is so until it can be compared again.
        let compared = warm.is_some() || !lasts;
        DetectorVerdict::good_if(self.busy && bits == 0 && room && compared && !warmer.is_bad())
    }

    pub(super) fn clocks(&mut self, c: &WatchConfig, peers: &Peers, at: Time) -> DetectorVerdict {
        let now = self.clock.get().filter(|_| self.busy && self.without == 0);
        let Some(own) = now.filter(|_| !self.explained()) else {
            self.low_clock.add(now.map(|_| false), at);
            self.low_past.add(now.map(|_| false), at);
            return DetectorVerdict::Unknown;
        };
        // Both now and on average: a GPU that just woke up is slow on average only.
        let now = f64::from(self.get(Col::Clock));
        let low = peers.clock.map(|u| {
            u.below(own, c.deviations, c.clocks_share) && now < u.median * (1.0 - c.clocks_share)
        });
        self.low_clock.add(low, at);
        if self.low_clock.lasts(3, ms(c.load_for)) {
            let usual = peers.clock.map_or(f64::NAN, |u| u.median);
            return heat::clocks_low(own, usual, true, true).since(self.low_clock.since());
        }
        let past = self.clock_ratio().zip(peers.clock_ratio);
        let low_past = past.map(|(own, others)| own < 1.0 - c.clocks_share && others > 0.95);
        self.low_past.add(low_past, at);
        if self.low_past.lasts(3, 3 * ms(c.load_for)) {
            let usual = self.past_clock().unwrap_or(f64::NAN);
            return heat::clocks_low(own, usual, false, true).since(self.low_past.since());
        }
        let fine = peers.clock.is_some_and(|u| own > u.median * (1.0 - c.clocks_share / 2.0));
        DetectorVerdict::good_if(fine && low_past != Some(true))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::watch::layout::COLS;

    /// Seconds between two rows.
    const ROW: i64 = 5;

    /// The eight GPUs of a node, with temperatures that follow power as those of real ones do.
    struct Board {
        gpus: Vec<Gpu>,
        temps: [f32; 8],
        secs: i64,
    }

    impl Board {
        fn new() -> Board {
            let gpus = (0..8).map(|_| Gpu::default()).collect();
            Board { gpus, temps: [31.0; 8], secs: 0 }
        }

        /// So many seconds, in which all but the first work, and the first works where `busy` and
        /// is hotter by so much. What was found of the first, in words.
        fn pass(&mut self, secs: i64, busy: bool, hotter: f32) -> Option<String> {
            let c = WatchConfig::default();
            let mut found = None;
            for _ in 0..secs / ROW {
                self.secs += ROW;
                let at = Time(self.secs * 1000);
                for (i, (gpu, temp)) in self.gpus.iter_mut().zip(&mut self.temps).enumerate() {
                    let works = busy || i > 0;
                    let power = if works { 700.0 } else { 70.0 };
                    let goal = 27.0 + power * 0.055 + if i == 0 { hotter } else { 0.0 };
                    *temp += (goal - *temp) * 0.125;
                    let mut row = [f32::NAN; COLS];
                    row[Col::Util as usize] = if works { 98.0 } else { 0.0 };
                    row[Col::Temp as usize] = *temp;
                    row[Col::Power as usize] = power;
                    row[Col::Throttle as usize] = 0.0;
                    gpu.take(&c, Some(row), at, ROW as f32);
                }
                let peers = Peers::of(&self.gpus);
                if let DetectorVerdict::Bad(b) = self.gpus[0].thermal(&c, &peers, at) {
                    found = Some(b.why);
                }
            }
            found
        }
    }

    #[test]
    fn a_gpu_that_only_had_short_jobs_is_not_too_hot_in_a_long_one() {
        let mut b = Board::new();
        for _ in 0..30 {
            assert_eq!(b.pass(60, true, 0.0), None);
            assert_eq!(b.pass(120, false, 0.0), None);
        }
        assert_eq!(b.pass(3600, true, 0.0), None);
        // And one that was switched off in between warms up again.
        assert_eq!(b.pass(3600, false, 0.0), None);
        assert_eq!(b.pass(1800, true, 0.0), None);
    }

    #[test]
    fn a_gpu_that_became_hotter_at_the_same_power_is_found() {
        let mut b = Board::new();
        assert_eq!(b.pass(1800, true, 0.0), None);
        let found = b.pass(900, true, 16.0).expect("a warning");
        assert!(found.contains("above its own past at the same power"), "{found}");
    }
}
