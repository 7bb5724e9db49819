//! Random numbers that are the same for the same seed.

/// `xoshiro256**` by Blackman and Vigna (public domain), seeded through `splitmix64`.
#[derive(Debug, Clone)]
pub(crate) struct Rng([u64; 4]);

impl Rng {
    pub(crate) fn new(seed: u64) -> Rng {
        let mut x = seed;
        let mut next = || {
            x = x.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        };
        Rng([next(), next(), next(), next()])
    }

    pub(crate) fn bits(&mut self) -> u64 {
        let s = &mut self.0;
        let out = s[1].wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let t = s[1] << 17;
        s[2] ^= s[0];
        s[3] ^= s[1];
        s[1] ^= s[2];
        s[0] ^= s[3];
        s[2] ^= t;
        s[3] = s[3].rotate_left(45);
        out
    }

    /// From 0 up to 1.
    pub(crate) fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub(crate) fn range(&mut self, from: f64, to: f64) -> f64 {
        from + (to - from) * self.unit()
    }

    /// Between the two, every factor as likely as any other.
    pub(crate) fn scale(&mut self, from: f64, to: f64) -> f64 {
        from * (to / from).powf(self.unit())
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        if n == 0 { 0 } else { (self.bits() % n as u64) as usize }
    }

    pub(crate) fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }

    /// About normal: mean 0, deviation 1, never beyond 6.
    pub(crate) fn normal(&mut self) -> f64 {
        let four: f64 = (0..4).map(|_| self.unit()).sum();
        (four - 2.0) * 1.732
    }

    /// Time to the next of events that come at random, `mean` apart.
    pub(crate) fn wait(&mut self, mean: f64) -> f64 {
        -mean * (1.0 - self.unit()).ln()
    }

    pub(crate) fn pick<'a, T>(&mut self, of: &'a [T]) -> Option<&'a T> {
        if of.is_empty() { None } else { of.get(self.below(of.len())) }
    }

    pub(crate) fn shuffle<T>(&mut self, of: &mut [T]) {
        for i in (1..of.len()).rev() {
            of.swap(i, self.below(i + 1));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seed_gives_the_same_numbers_and_they_are_where_they_should_be() {
        let (mut a, mut b) = (Rng::new(7), Rng::new(7));
        let mut sum = 0.0;
        for _ in 0..10_000 {
            let x = a.unit();
            assert_eq!(x, b.unit());
            assert!((0.0..1.0).contains(&x));
            sum += a.normal();
            b.normal();
        }
        assert!((sum / 10_000.0).abs() < 0.05);
        assert_ne!(Rng::new(8).bits(), Rng::new(7).bits());
    }
}
