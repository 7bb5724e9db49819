//! Exact fractions: what is compared with a limit is never rounded before.

use std::cmp::Ordering;
use std::fmt;

/// A fraction of two whole numbers. Below zero is not needed; nothing below the line is more than
/// any number.
#[derive(Debug, Clone, Copy)]
pub struct Ratio {
    above: u128,
    below: u128,
}

fn gcd(mut a: u128, mut b: u128) -> u128 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Ratio {
    /// None of it.
    pub const ZERO: Ratio = Ratio { above: 0, below: 1 };
    /// One: the whole of something.
    pub const ONE: Ratio = Ratio { above: 1, below: 1 };

    /// So many of so many. Nothing of nothing is nothing.
    #[must_use]
    pub fn new(above: u128, below: u128) -> Ratio {
        match (above, below) {
            (0, _) => Ratio::ZERO,
            (_, 0) => Ratio { above: 1, below: 0 },
            _ => {
                let g = gcd(above, below);
                Ratio { above: above / g, below: below / g }
            }
        }
    }

    /// So many thousandths.
    #[must_use]
    pub fn thousandths(n: u32) -> Ratio {
        Ratio::new(u128::from(n), 1000)
    }

    /// What is left to one; zero when it is more than one.
    #[must_use]
    pub fn rest(self) -> Ratio {
        Ratio::new(self.below.saturating_sub(self.above), self.below)
    }

    /// The one divided by the other.
    #[must_use]
    pub fn over(self, other: Ratio) -> Ratio {
        self.times(Ratio { above: other.below, below: other.above })
    }

    /// Both multiplied. Exact as long as the result fits; beyond, its last digits are dropped.
    #[must_use]
    pub fn times(self, other: Ratio) -> Ratio {
        if self.above == 0 || other.above == 0 {
            return Ratio::ZERO;
        }
        let (g, h) = (gcd(self.above, other.below.max(1)), gcd(other.above, self.below.max(1)));
        let (mut a, mut b) = (self.above / g, other.above / h);
        let (mut c, mut d) = (self.below / h, other.below / g);
        loop {
            if let (Some(above), Some(below)) = (a.checked_mul(b), c.checked_mul(d)) {
                return Ratio::new(above, below);
            }
            // The longest factor of each side loses a digit.
            let half = |x: &mut u128, y: &mut u128| if *x > *y { *x >>= 1 } else { *y >>= 1 };
            half(&mut a, &mut b);
            half(&mut c, &mut d);
        }
    }

    /// Times a whole number, rounded down; the largest number when it does not fit.
    #[must_use]
    pub fn of(self, n: u64) -> u64 {
        let product = self.times(Ratio::new(u128::from(n), 1));
        let whole = product.above.checked_div(product.below).unwrap_or(u128::MAX);
        u64::try_from(whole).unwrap_or(u64::MAX)
    }

    /// As text with so many decimals, rounded to the nearest; `inf` when nothing is below the line.
    #[must_use]
    pub fn decimals(self, places: u32) -> String {
        if self.below == 0 {
            return "inf".to_owned();
        }
        let scale = 10u128.pow(places.min(12));
        let scaled = self.times(Ratio::new(scale, 1));
        let round = scaled.above / scaled.below.max(1);
        let up = (scaled.above % scaled.below.max(1)) >= scaled.below.div_ceil(2);
        let round = round + u128::from(up);
        match places {
            0 => round.to_string(),
            n => format!("{}.{:0w$}", round / scale, round % scale, w = n.min(12) as usize),
        }
    }

    /// As percent with so many decimals.
    #[must_use]
    pub fn percent(self, places: u32) -> String {
        format!("{}%", self.times(Ratio::new(100, 1)).decimals(places))
    }

    /// For pages and series; nothing is decided from it.
    #[must_use]
    pub fn to_f64(self) -> f64 {
        self.above as f64 / self.below as f64
    }
}

impl PartialEq for Ratio {
    fn eq(&self, other: &Ratio) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Ratio {}

impl PartialOrd for Ratio {
    fn partial_cmp(&self, other: &Ratio) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Ratio {
    /// Whole parts first, then what is left turned over: no product that could be too large.
    fn cmp(&self, other: &Ratio) -> Ordering {
        let (mut a, mut b) = ((self.above, self.below), (other.above, other.below));
        loop {
            match (a.1, b.1) {
                (0, 0) => return Ordering::Equal,
                (0, _) => return Ordering::Greater,
                (_, 0) => return Ordering::Less,
                _ => {}
            }
            let whole = (a.0 / a.1).cmp(&(b.0 / b.1));
            if whole != Ordering::Equal {
                return whole;
            }
            (a, b) = ((b.1, b.0 % b.1), (a.1, a.0 % a.1));
        }
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.above, self.below)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn fractions_are_exact() {
        assert_eq!(Ratio::new(6, 4), Ratio::new(3, 2));
        assert_eq!(Ratio::new(1, 3).times(Ratio::new(3, 1)), Ratio::ONE);
        assert_eq!(Ratio::new(1, 3).rest(), Ratio::new(2, 3));
        assert_eq!(Ratio::new(5, 3).rest(), Ratio::ZERO);
        assert!(Ratio::new(1, 0) > Ratio::new(u128::MAX, 1));
        assert_eq!(Ratio::new(0, 0), Ratio::ZERO);
        assert_eq!(Ratio::new(2, 3).of(10), 6);
        assert_eq!(Ratio::new(1, 0).of(10), u64::MAX);
    }

    #[test]
    fn text_is_rounded_at_the_end_only() {
        assert_eq!(Ratio::new(2, 3).decimals(2), "0.67");
        assert_eq!(Ratio::new(1, 8).decimals(2), "0.13");
        assert_eq!(Ratio::new(999, 1000).percent(1), "99.9%");
        assert_eq!(Ratio::new(144, 10).decimals(0), "14");
        assert_eq!(Ratio::new(1, 0).decimals(1), "inf");
    }

    proptest! {
        #[test]
        fn order_is_that_of_the_cross_products(a in 0u64.., b in 1u64.., c in 0u64.., d in 1u64..) {
            let wide = u128::from;
            let (x, y) = (Ratio::new(wide(a), wide(b)), Ratio::new(wide(c), wide(d)));
            prop_assert_eq!(x.cmp(&y), (wide(a) * wide(d)).cmp(&(wide(c) * wide(b))));
        }

        #[test]
        fn products_never_overflow(a: u128, b: u128, c: u128, d: u128) {
            let _ = Ratio::new(a, b).times(Ratio::new(c, d)).decimals(3);
            let _ = Ratio::new(a, b).over(Ratio::new(c, d)).of(u64::MAX);
        }
    }
}
