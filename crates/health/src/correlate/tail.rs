//! Tails of distributions from `+ * /` alone.

use crate::series::exp_neg;

/// The chance of `x` or more of a Poisson number with this mean. One where `x` is not above it.
pub(crate) fn poisson(x: u32, mean: f64) -> f64 {
    let k = f64::from(x);
    if x == 0 || k <= mean || mean.is_nan() {
        return 1.0;
    }
    if mean <= 0.0 {
        return 0.0;
    }
    let mut term = (1..=x).fold(exp_neg(mean), |t, i| t * mean / f64::from(i));
    let (mut sum, mut k) = (0.0, k);
    // Above the mean every term is smaller than the one before.
    while term > sum * 1e-17 {
        sum += term;
        k += 1.0;
        term *= mean / k;
    }
    sum.min(1.0)
}

/// The chance that `drawn` of `all` things, taken at random, have `x` or more among the `marked`
/// ones (hypergeometric). One where `x` is not above what is to be expected.
pub(crate) fn drawn(x: u32, drawn: u32, marked: u32, all: u32) -> f64 {
    let (drawn, marked) = (drawn.min(all), marked.min(all));
    if u64::from(x) * u64::from(all) <= u64::from(drawn) * u64::from(marked) {
        return 1.0;
    }
    if x > drawn.min(marked) {
        return 0.0;
    }
    let f = f64::from;
    let others = drawn - x;
    if others > all - marked {
        return 1.0;
    }
    // C(marked,x) C(all-marked,drawn-x) / C(all,drawn), in units of 10^200 for each of `high`: on
    // the way the product may be too large for a double.
    let (mut p, mut high) = (1.0, 0u32);
    let inside = (0..x).map(|i| f(marked - i) / f(all - i) * f(drawn - i) / f(i + 1));
    let outside = (0..others).map(|j| f(all - marked - j) / f(all - x - j));
    for factor in inside.chain(outside) {
        p *= factor;
        if p > 1e200 {
            (p, high) = (p * 1e-200, high + 1);
        } else if p < 1.0 && high > 0 {
            (p, high) = (p * 1e200, high - 1);
        }
    }
    if high > 0 {
        return 1.0;
    }
    let (mut term, mut sum, mut k) = (p, p, x);
    while k < drawn.min(marked) && term > sum * 1e-17 {
        // What is left outside grows by one with every one more inside.
        let outside = all - marked - (drawn - k) + 1;
        term *= f(marked - k) * f(drawn - k) / (f(k + 1) * f(outside));
        sum += term;
        k += 1;
    }
    sum.min(1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn near(a: f64, b: f64) -> bool {
        (a - b).abs() <= b * 1e-9
    }

    #[test]
    fn known_values() {
        assert!(near(poisson(1, 0.5), 1.0 - (-0.5_f64).exp()));
        assert!(near(poisson(3, 1.0), 1.0 - 2.5 * (-1.0_f64).exp()));
        assert!(near(drawn(4, 4, 4, 16), 1.0 / 1820.0));
        assert!(near(drawn(8, 8, 8, 16), 1.0 / 12870.0));
        assert!(near(drawn(3, 4, 4, 16), (4.0 * 12.0 + 1.0) / 1820.0));
        assert_eq!(drawn(3, 40, 300, 512), 1.0);
        assert_eq!(drawn(5, 4, 4, 16), 0.0);
    }

    proptest! {
        #[test]
        fn tails_fall_and_are_chances(
            all in 4u32..6000, marked in 1u32..6000, n in 1u32..6000, mean in 0.0..40.0f64,
        ) {
            let (marked, n) = (marked.min(all), n.min(all));
            let mut last = (1.0, 1.0);
            for x in (0..=n.min(marked)).step_by(usize::try_from(n / 16 + 1).unwrap()) {
                let next = (drawn(x, n, marked, all), poisson(x, mean));
                for p in [next.0, next.1] {
                    prop_assert!((0.0..=1.0).contains(&p));
                }
                prop_assert!(next.0 <= last.0 + 1e-12 && next.1 <= last.1 + 1e-12, "{x}");
                last = next;
            }
        }
    }
}
