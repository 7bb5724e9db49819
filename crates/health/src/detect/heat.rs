//! Heat, power and clocks: what makes a GPU slower than it should be.

use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// Bits of the driver's mask of throttle reasons.
pub mod reason {
    /// Held back by the power limit: as configured, never a fault.
    pub const POWER_CAP: u32 = 0x4;
    /// Held back by hardware, for whatever reason.
    pub const HW_SLOWDOWN: u32 = 0x8;
    /// Held back by software for heat.
    pub const SW_THERMAL: u32 = 0x20;
    /// Held back by hardware for heat.
    pub const HW_THERMAL: u32 = 0x40;
    /// Held back by the server's power supply.
    pub const POWER_BRAKE: u32 = 0x80;
    /// Any of heat.
    pub const THERMAL: u32 = SW_THERMAL | HW_THERMAL;
    /// Any that explains low clocks.
    pub const EXPLAINS: u32 = POWER_CAP | HW_SLOWDOWN | THERMAL | POWER_BRAKE;
}

/// The mask as it came in a row; zero where there is none.
#[must_use]
pub fn mask(throttle: f32) -> u32 {
    if (0.0..=65_535.0).contains(&throttle) { throttle as u32 } else { 0 }
}

/// A GPU's heat now, beside its peers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Heat {
    /// Temperature in degrees Celsius.
    pub temp: f64,
    /// Degrees left before it slows down.
    pub margin: f64,
    /// Power it draws, in watts.
    pub power: f64,
    /// The median of the node's other GPUs, degrees; none where fewer than three report.
    pub peers_temp: Option<f64>,
    /// And their power.
    pub peers_power: Option<f64>,
}

impl Heat {
    /// Degrees above its peers, where they draw about as much or more.
    #[must_use]
    pub fn above_peers(&self) -> Option<f64> {
        let (temp, power) = (self.peers_temp?, self.peers_power?);
        (power.is_finite() && self.power <= power * 1.15).then_some(self.temp - temp)
    }
}

/// Too hot: throttled for heat for a while, or nearly without margin and hotter than its peers at
/// similar power. To be held back by the power limit is not to be hot.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn thermal(c: &WatchConfig, throttled: bool, no_margin: bool, heat: Heat) -> DetectorVerdict {
    let above = heat.above_peers();
    if throttled {
        let sure = if above.is_some_and(|d| d >= c.hotter) { 950 } else { 800 };
        let beside =
            above.map_or(String::new(), |d| format!(", {d:+.0} degrees compared with its peers"));
        let why = format!("throttled for heat at {:.0} degrees{beside}", heat.temp);
        return DetectorVerdict::bad(Severity::Degraded, sure, why);
    }
    if no_margin && above.is_some_and(|d| d >= c.hotter) {
        let why = format!("{:.0} degrees of margin, hotter than its peers", heat.margin);
        return DetectorVerdict::bad(Severity::Degraded, 800, why);
    }
    DetectorVerdict::Unknown
}

/// Power within this share of what it was is the same power.
const SAME_POWER: f32 = 0.15;
/// Seconds at the same power after which a GPU is warm: heat sinks take one to two minutes.
const WARM_AFTER: f32 = 180.0;

/// How long a GPU has drawn about the same power. Heat follows power slowly, so until then its
/// temperature belongs to what it did before.
#[derive(Debug, Clone, Copy)]
pub struct SteadyPower {
    watts: f32,
    secs: f32,
}

impl Default for SteadyPower {
    fn default() -> SteadyPower {
        SteadyPower { watts: f32::NAN, secs: 0.0 }
    }
}

impl SteadyPower {
    /// Takes in the power of a row that came `dt` seconds after the last one.
    pub fn add(&mut self, watts: f32, dt: f32) {
        if (watts - self.watts).abs() <= self.watts * SAME_POWER {
            self.secs += dt.clamp(0.0, 60.0);
        } else {
            *self = SteadyPower { watts, secs: 0.0 };
        }
    }

    /// Long enough that the temperature belongs to the power?
    #[must_use]
    pub fn is_warm(self) -> bool {
        self.secs >= WARM_AFTER
    }
}

/// Warmer than its own past at similar power, while its peers are as they were. A weak sign.
///
/// A false alarm costs nothing, later one quick test.
#[must_use]
pub fn warmer(c: &WatchConfig, rise: f64, peers_rise: f64, power_ratio: f64) -> DetectorVerdict {
    if rise >= c.warmer_than_past && rise - peers_rise >= c.hotter && power_ratio <= 1.1 {
        let why = format!("{rise:.0} degrees above its own past at the same power");
        return DetectorVerdict::bad(Severity::Warning, 500, why);
    }
    DetectorVerdict::Unknown
}

/// Held back by the server's power supply.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn power_brake(lasts: bool, now: bool) -> DetectorVerdict {
    if lasts {
        return DetectorVerdict::bad(Severity::Degraded, 900, "the driver names the power brake");
    }
    DetectorVerdict::good_if(!now)
}

/// Clocks well below those of the peers, or of its own past, for no reason that the GPU names.
///
/// A false alarm costs one quick test.
#[must_use]
pub fn clocks_low(own: f64, usual: f64, of_peers: bool, lasts: bool) -> DetectorVerdict {
    if !lasts {
        return DetectorVerdict::Unknown;
    }
    let (whose, sure) = if of_peers { ("peers", 850) } else { ("its own past", 600) };
    let why = format!("{own:.0} MHz under load, {whose} {usual:.0} MHz, no reason named");
    DetectorVerdict::bad(Severity::Degraded, sure, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn heat(temp: f64, margin: f64, power: f64) -> Heat {
        Heat { temp, margin, power, peers_temp: Some(60.0), peers_power: Some(600.0) }
    }

    #[test]
    fn heat_counts_and_the_power_limit_does_not() {
        let c = WatchConfig::default();
        assert!(thermal(&c, true, false, heat(86.0, 1.0, 600.0)).is_bad());
        assert!(thermal(&c, false, true, heat(70.0, 1.0, 600.0)).is_bad());
        assert!(!thermal(&c, false, true, heat(62.0, 1.0, 600.0)).is_bad(), "as hot as its peers");
        assert!(!thermal(&c, false, true, heat(70.0, 1.0, 900.0)).is_bad(), "it works harder");
        assert!(!thermal(&c, false, false, heat(80.0, 8.0, 600.0)).is_bad());
        assert_eq!(mask(4.0) & reason::THERMAL, 0);
        assert_eq!((mask(f32::NAN), mask(-1.0), mask(1e30)), (0, 0, 0));
    }

    #[test]
    fn a_past_is_a_weak_sign_and_a_warm_hall_is_none() {
        let c = WatchConfig::default();
        assert!(warmer(&c, 12.0, 1.0, 1.0).is_bad());
        assert!(!warmer(&c, 12.0, 11.0, 1.0).is_bad(), "all of them are warmer");
        assert!(!warmer(&c, 12.0, 1.0, 1.3).is_bad(), "it works harder");
        assert!(!warmer(&c, 9.0, 0.0, 1.0).is_bad(), "nearly");
    }

    #[test]
    fn a_gpu_is_warm_after_minutes_at_one_power() {
        let mut s = SteadyPower::default();
        let mut rows = |watts: f32, n: usize| {
            (0..n).for_each(|_| s.add(watts, 10.0));
            s.is_warm()
        };
        assert!(!rows(700.0, 18) && rows(690.0, 1));
        assert!(!rows(300.0, 18), "other work");
        assert!(rows(310.0, 1) && !rows(f32::NAN, 1) && !rows(310.0, 18));
    }

    #[test]
    fn brakes_and_clocks_have_to_last() {
        assert!(power_brake(true, true).is_bad());
        assert_eq!(power_brake(false, true), DetectorVerdict::Unknown);
        assert_eq!(power_brake(false, false), DetectorVerdict::Good);
        assert!(clocks_low(1200.0, 1900.0, true, true).is_bad());
        assert_eq!(clocks_low(1200.0, 1900.0, true, false), DetectorVerdict::Unknown);
    }
}
