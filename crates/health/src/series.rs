//! The exponential function from plain sums, so that every machine gets the same bits.

/// `e^x - 1` for `x >= 0`, to about fifteen digits. Zero for what is not a positive number.
pub(crate) fn exp_m1(x: f64) -> f64 {
    if x.is_nan() || x <= 0.0 {
        return 0.0;
    }
    // The largest power of e that a double holds is just above this.
    if x > 709.0 {
        return f64::INFINITY;
    }
    let (mut small, mut doublings) = (x, 0);
    while small > 0.5 {
        small /= 2.0;
        doublings += 1;
    }
    // 0.5^18/18! is below the last bit of the sum.
    let (mut term, mut sum) = (1.0, 0.0);
    for k in 1..=18 {
        term *= small / f64::from(k);
        sum += term;
    }
    for _ in 0..doublings {
        // (1 + s)^2 - 1, written so that a small s keeps its digits.
        sum *= 2.0 + sum;
    }
    sum
}

/// `e^-x` for `x >= 0`. One for what is not a positive number.
pub(crate) fn exp_neg(x: f64) -> f64 {
    1.0 / (1.0 + exp_m1(x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn edges_are_plain() {
        assert_eq!(exp_m1(0.0), 0.0);
        assert_eq!(exp_m1(-1.0), 0.0);
        assert_eq!(exp_m1(f64::NAN), 0.0);
        assert_eq!(exp_m1(f64::INFINITY), f64::INFINITY);
        assert_eq!(exp_neg(0.0), 1.0);
        assert_eq!(exp_neg(1e9), 0.0);
    }

    proptest! {
        #[test]
        fn agrees_with_the_standard_library(x in prop_oneof![0.0..1e-3, 0.0..2.0, 0.0..709.0]) {
            let want = f64::exp_m1(x);
            prop_assert!((exp_m1(x) - want).abs() <= want * 1e-12, "{x}");
            prop_assert!((exp_neg(x) - (-x).exp()).abs() <= (-x).exp() * 1e-12, "{x}");
        }
    }
}
