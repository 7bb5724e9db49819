//! Random numbers whose values never change: each thing has its own stream, named by what it
//! is, so that adding a node or a draw renumbers nothing else.

/// One stream (splitmix64 over a hash of its name).
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The stream of this name.
    #[must_use]
    pub fn new(seed: u64, name: &[&str]) -> Random {
        let mut h = 0xcbf2_9ce4_8422_2325u64 ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
        for part in name {
            for b in part.bytes().chain([0xff]) {
                h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
            }
        }
        Random(h)
    }

    /// The stream of a numbered thing under a seed that is itself drawn from a stream.
    pub(crate) fn at(seed: u64, number: u64) -> Random {
        Random(seed ^ number.wrapping_mul(0xd1b5_4a32_d192_ed03))
    }

    /// The next 64 bits.
    #[allow(clippy::should_implement_trait, reason = "it never ends")]
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Below `n`.
    pub fn below(&mut self, n: u64) -> u64 {
        if n == 0 { 0 } else { self.next() % n }
    }

    /// In the form of a UUID.
    pub fn uuid(&mut self) -> String {
        let (a, b) = (self.next(), self.next());
        format!(
            "{:08x}-{:04x}-4{:03x}-a{:03x}-{:012x}",
            a >> 32,
            (a >> 16) & 0xffff,
            a & 0xfff,
            b >> 52,
            b & 0xffff_ffff_ffff
        )
    }
}
