//! Chance: one stream for each thing, named by what it is, so that adding a node or a job
//! renumbers nothing else. Only additions, multiplications, divisions and square roots, which
//! every machine rounds alike: the logarithm of a system's library differs in its last bit from
//! one version to the next, and a digest with it.

use crate::scenario::Delay;
use muster_model::units::Span;
use muster_simnode::Random;

/// A stream of chance.
#[derive(Debug, Clone)]
pub(crate) struct Chance(Random);

impl Chance {
    pub(crate) fn new(seed: u64, name: &[&str]) -> Chance {
        Chance(Random::new(seed, name))
    }

    /// Evenly in 0..1, without the ends.
    pub(crate) fn even(&mut self) -> f64 {
        let bits = self.0.next() >> 11;
        (bits as f64 + 0.5) / 9_007_199_254_740_992.0
    }

    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.0.below(n)
    }

    pub(crate) fn happens(&mut self, share: f64) -> bool {
        self.even() < share
    }

    /// Exponential with mean 1.
    pub(crate) fn exponential(&mut self) -> f64 {
        -ln(self.even())
    }

    /// Standard normal.
    pub(crate) fn normal(&mut self) -> f64 {
        normal_quantile(self.even())
    }

    /// A length of time by its median and its 95th percentile.
    pub(crate) fn delay(&mut self, d: &Delay) -> Span {
        let z = self.normal();
        let Some(p95) = d.p95.filter(|p| *p > d.median && d.median.0 > 0) else { return d.median };
        // The 95th percentile of a standard normal.
        let sigma = ln(p95.0 as f64 / d.median.0 as f64) / 1.644_853_626_951_472_2;
        millis(d.median.0 as f64 * exp(sigma * z))
    }

    /// One of these by their weights.
    pub(crate) fn pick<'a, T>(&mut self, of: &'a [(T, f64)]) -> Option<&'a T> {
        let all: f64 = of.iter().map(|(_, w)| w).sum();
        let mut left = self.even() * all;
        for (t, w) in of {
            left -= w;
            if left < 0.0 {
                return Some(t);
            }
        }
        of.last().map(|(t, _)| t)
    }
}

/// A number of milliseconds as a span; nonsense is zero, and nothing is longer than a century.
pub(crate) fn millis(ms: f64) -> Span {
    const CENTURY: f64 = 3.2e12;
    Span(if ms > 0.0 { ms.min(CENTURY) as u64 } else { 0 })
}

/// The mean of a log-normal delay.
pub(crate) fn mean(d: &Delay) -> Span {
    let Some(p95) = d.p95.filter(|p| *p > d.median && d.median.0 > 0) else { return d.median };
    let sigma = ln(p95.0 as f64 / d.median.0 as f64) / 1.644_853_626_951_472_2;
    millis(d.median.0 as f64 * exp(sigma * sigma / 2.0))
}

/// The natural logarithm of a positive, normal number, the same on every machine.
pub(crate) fn ln(x: f64) -> f64 {
    let bits = x.to_bits();
    let mut exponent = i32::try_from((bits >> 52) & 0x7ff).unwrap_or(0) - 1023;
    let mut m = f64::from_bits((bits & 0x000f_ffff_ffff_ffff) | (1023 << 52));
    if m > std::f64::consts::SQRT_2 {
        m /= 2.0;
        exponent += 1;
    }
    // 2 artanh((m-1)/(m+1)); |s| < 0.172, so that the rest after s^23 is below 1e-18.
    let s = (m - 1.0) / (m + 1.0);
    let square = s * s;
    let mut sum = 0.0;
    for k in (0..12).rev() {
        sum = sum * square + 1.0 / f64::from(2 * k + 1);
    }
    2.0 * s * sum + f64::from(exponent) * std::f64::consts::LN_2
}

/// e to a power, the same on every machine.
pub(crate) fn exp(x: f64) -> f64 {
    let x = x.clamp(-700.0, 700.0);
    let k = (x / std::f64::consts::LN_2).round();
    let r = x - k * std::f64::consts::LN_2;
    let mut sum = 1.0;
    for n in (1..20).rev() {
        sum = 1.0 + sum * r / f64::from(n);
    }
    let power = u64::try_from(1023 + k as i64).unwrap_or(0);
    sum * f64::from_bits(power << 52)
}

/// Quantiles of the standard normal (Acklam's rational approximation, relative error 1e-9).
fn normal_quantile(p: f64) -> f64 {
    const A: [f64; 6] = [
        -3.969_683_028_665_376e1,
        2.209_460_984_245_205e2,
        -2.759_285_104_469_687e2,
        1.383_577_518_672_69e2,
        -3.066_479_806_614_716e1,
        2.506_628_277_459_239,
    ];
    const B: [f64; 5] = [
        -5.447_609_879_822_406e1,
        1.615_858_368_580_409e2,
        -1.556_989_798_598_866e2,
        6.680_131_188_771_972e1,
        -1.328_068_155_288_572e1,
    ];
    const C: [f64; 6] = [
        -7.784_894_002_430_293e-3,
        -3.223_964_580_411_365e-1,
        -2.400_758_277_161_838,
        -2.549_732_539_343_734,
        4.374_664_141_464_968,
        2.938_163_982_698_783,
    ];
    const D: [f64; 4] = [
        7.784_695_709_041_462e-3,
        3.224_671_290_700_398e-1,
        2.445_134_137_142_996,
        3.754_408_661_907_416,
    ];
    let poly = |c: &[f64], x: f64| c.iter().fold(0.0, |s, a| s * x + a);
    let tail = |p: f64| {
        let q = (-2.0 * ln(p)).sqrt();
        poly(&C, q) / (poly(&D, q) * q + 1.0)
    };
    if p < 0.024_25 {
        tail(p)
    } else if p > 0.975_75 {
        -tail(1.0 - p)
    } else {
        let q = p - 0.5;
        let r = q * q;
        poly(&A, r) * q / (poly(&B, r) * r + 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn logarithms_and_powers_are_right() {
        for x in [1e-9, 0.01, 0.5, 0.999, 1.0, 1.7, 2.0, 10.0, 12345.678] {
            assert!((ln(x) - x.ln()).abs() < 1e-14 * (1.0 + x.ln().abs()), "{x}");
        }
        for x in [-30.0, -1.0, -1e-6, 0.0, 0.3, 1.0, 7.5, 40.0] {
            assert!((exp(x) / x.exp() - 1.0).abs() < 1e-13, "{x}");
        }
    }

    #[test]
    fn streams_have_the_means_they_should() {
        let mut c = Chance::new(1, &["test"]);
        let n = 200_000;
        let (mut e, mut z, mut zz) = (0.0, 0.0, 0.0);
        for _ in 0..n {
            e += c.exponential();
            let x = c.normal();
            z += x;
            zz += x * x;
        }
        let n = f64::from(n);
        assert!((e / n - 1.0).abs() < 0.01, "{}", e / n);
        assert!((z / n).abs() < 0.01 && (zz / n - 1.0).abs() < 0.02, "{} {}", z / n, zz / n);
        let d = Delay { median: Span::secs(100), p95: Some(Span::secs(500)) };
        let mut all: Vec<Span> = (0..20_001).map(|_| c.delay(&d)).collect();
        all.sort();
        assert!((95..106).contains(&(all[10_000].0 / 1000)), "{:?}", all[10_000]);
        assert!((460..545).contains(&(all[19_000].0 / 1000)), "{:?}", all[19_000]);
    }

    #[test]
    fn a_stream_does_not_depend_on_the_others() {
        let first = |name: &str| Chance::new(7, &[name, "x"]).below(u64::MAX);
        assert_eq!(first("a"), first("a"));
        assert_ne!(first("a"), first("b"));
    }
}
