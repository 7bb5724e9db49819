//! The last minutes of a gang, side by side: lengths of steps by rank, and anybody's figures put
//! into the same stretches of time. Bounded, however large the gang is.

use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Length of one stretch.
pub const WIDTH: Span = Span::secs(10);
/// Stretches that are kept: ten minutes.
pub const BINS: usize = 60;
/// Ranks of one gang that are distinguished.
const RANKS: usize = 65_536;

/// Which stretch a moment lies in, counted from the beginning of time.
fn number(at: Time) -> i64 {
    at.0.div_euclid(i64::try_from(WIDTH.0).unwrap_or(i64::MAX))
}

/// Consecutive stretches of time, all of one length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Bins {
    first: i64,
}

impl Bins {
    /// Those that end with the stretch of this moment.
    #[must_use]
    pub fn until(at: Time) -> Bins {
        let before = i64::try_from(BINS).unwrap_or(i64::MAX) - 1;
        Bins { first: number(at) - before }
    }

    /// Where a moment belongs.
    #[must_use]
    pub fn of(self, at: Time) -> Option<usize> {
        usize::try_from(number(at) - self.first).ok().filter(|i| *i < BINS)
    }

    /// When each begins.
    pub fn starts(self) -> impl Iterator<Item = Time> {
        let width = i64::try_from(WIDTH.0).unwrap_or(i64::MAX);
        (0..i64::try_from(BINS).unwrap_or(0)).map(move |i| Time((self.first + i) * width))
    }

    /// The first moment.
    #[must_use]
    pub fn from(self) -> Time {
        self.starts().next().unwrap_or(Time(0))
    }
}

/// Means of one figure, by stretch.
#[derive(Debug, Clone)]
pub struct Means {
    sums: [f64; BINS],
    counts: [u32; BINS],
}

impl Default for Means {
    fn default() -> Means {
        Means { sums: [0.0; BINS], counts: [0; BINS] }
    }
}

impl Means {
    /// Takes a figure in; one that is none is left out.
    pub fn add(&mut self, bin: usize, value: f32) {
        let (Some(sum), Some(n)) = (self.sums.get_mut(bin), self.counts.get_mut(bin)) else {
            return;
        };
        if value.is_finite() {
            *sum += f64::from(value);
            *n = n.saturating_add(1);
        }
    }

    /// The means; nothing where nothing was reported.
    #[must_use]
    pub fn line(&self) -> Vec<Option<f32>> {
        let mean = |(sum, n): (&f64, &u32)| {
            // A figure for people: the last digits are of no matter.
            #[allow(clippy::cast_possible_truncation)]
            (*n > 0).then(|| (sum / f64::from(*n)) as f32)
        };
        self.sums.iter().zip(&self.counts).map(mean).collect()
    }
}

/// The least, the median and the most of many lines, by stretch.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Band {
    /// The least value of each stretch.
    pub low: Vec<Option<f32>>,
    /// As many are above as below.
    pub median: Vec<Option<f32>>,
    /// The greatest value of each stretch.
    pub high: Vec<Option<f32>>,
}

/// Gathers lines for a [`Band`].
#[derive(Debug, Clone)]
pub struct BandBuilder(Vec<Vec<f32>>);

impl Default for BandBuilder {
    fn default() -> BandBuilder {
        BandBuilder(vec![Vec::new(); BINS])
    }
}

impl BandBuilder {
    /// One more line.
    pub fn add(&mut self, line: &[Option<f32>]) {
        for (all, v) in self.0.iter_mut().zip(line) {
            all.extend(v.filter(|v| v.is_finite()));
        }
    }

    /// What they have in common.
    #[must_use]
    pub fn band(mut self) -> Band {
        let mut out = Band::default();
        for all in &mut self.0 {
            let middle = all.len() / 2;
            let (low, mid, high) = if all.is_empty() {
                (None, None, None)
            } else {
                let (below, mid, above) = all.select_nth_unstable_by(middle, f32::total_cmp);
                let least = below.iter().copied().fold(*mid, f32::min);
                let most = above.iter().copied().fold(*mid, f32::max);
                (Some(least), Some(*mid), Some(most))
            };
            out.low.push(low);
            out.median.push(mid);
            out.high.push(high);
        }
        out
    }
}

/// One rank: the mean of each stretch, in a ring.
#[derive(Debug, Clone)]
struct Ring {
    /// The newest stretch, and how many steps its mean is made of.
    newest: i64,
    count: u32,
    means: [f32; BINS],
}

fn place(number: i64) -> usize {
    let bins = i64::try_from(BINS).unwrap_or(1);
    usize::try_from(number.rem_euclid(bins)).unwrap_or(0)
}

impl Ring {
    fn new(newest: i64) -> Ring {
        Ring { newest, count: 0, means: [f32::NAN; BINS] }
    }

    fn note(&mut self, number: i64, ms: f32) {
        if number > self.newest {
            let gone = usize::try_from(number - self.newest).unwrap_or(BINS).min(BINS);
            for i in 0..gone {
                self.means[place(number - i64::try_from(i).unwrap_or(0))] = f32::NAN;
            }
            (self.newest, self.count) = (number, 0);
        }
        // What comes late is counted with the newest: reports come in order, or almost.
        let at = place(self.newest);
        let before = if self.count == 0 { 0.0 } else { self.means[at] };
        self.count = self.count.saturating_add(1);
        #[allow(clippy::cast_precision_loss)]
        let share = (self.count as f32).recip();
        self.means[at] = before + (ms - before) * share;
    }

    fn get(&self, number: i64) -> Option<f32> {
        let bins = i64::try_from(BINS).unwrap_or(0);
        let kept = number <= self.newest && number > self.newest - bins;
        Some(self.means[place(number)]).filter(|v| kept && v.is_finite())
    }
}

/// Lengths of steps of a gang, by rank.
#[derive(Debug, Clone, Default)]
pub struct Track(BTreeMap<u32, Box<Ring>>);

impl Track {
    /// A rank made a step that took so long, in microseconds.
    pub fn step(&mut self, rank: u32, at: Time, took: u64) {
        if self.0.len() >= RANKS && !self.0.contains_key(&rank) {
            return;
        }
        // Milliseconds for people; a step of hours keeps seven digits.
        #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)]
        let ms = (took as f64 / 1e3) as f32;
        let number = number(at);
        let ring = self.0.entry(rank).or_insert_with(|| Box::new(Ring::new(number)));
        ring.note(number, ms);
    }

    /// When something was last reported, at most a stretch too late.
    #[must_use]
    pub fn newest(&self) -> Option<Time> {
        let newest = self.0.values().map(|r| r.newest).max()?;
        let width = i64::try_from(WIDTH.0).unwrap_or(i64::MAX);
        Some(Time(newest.saturating_add(1).saturating_mul(width)))
    }

    /// Mean lengths of a rank's steps in milliseconds.
    #[must_use]
    pub fn line(&self, rank: u32, bins: Bins) -> Option<Vec<Option<f32>>> {
        let ring = self.0.get(&rank)?;
        let line = (0..BINS).map(|i| ring.get(bins.first + i64::try_from(i).unwrap_or(0)));
        Some(line.collect())
    }

    /// Ranks that reported steps, in order.
    pub fn ranks(&self) -> impl Iterator<Item = u32> {
        self.0.keys().copied()
    }
}

/// The mean of a line.
#[must_use]
pub fn mean(line: &[Option<f32>]) -> Option<f32> {
    let reported = line.iter().flatten();
    let (n, sum) = reported.fold((0u32, 0.0f64), |(n, sum), v| (n + 1, sum + f64::from(*v)));
    #[allow(clippy::cast_possible_truncation)]
    (n > 0).then(|| (sum / f64::from(n)) as f32)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Time {
        Time(1_000_000_000_000 + seconds * 1000)
    }

    #[test]
    fn a_moment_belongs_to_one_of_the_last_stretches_or_to_none() {
        let bins = Bins::until(at(0));
        assert_eq!(bins.of(at(0)), Some(BINS - 1));
        assert_eq!(bins.of(at(-10)), Some(BINS - 2));
        assert_eq!(bins.of(bins.from()), Some(0));
        assert_eq!(bins.of(Time(bins.from().0 - 1)), None, "before the first");
        assert_eq!(bins.of(at(10)), None, "not yet");
        assert_eq!(bins.starts().count(), BINS);
    }

    #[test]
    fn steps_are_averaged_by_stretch_and_old_ones_go() {
        let mut t = Track::default();
        t.step(3, at(0), 400_000);
        t.step(3, at(1), 600_000);
        t.step(3, at(20), 900_000);
        let line = t.line(3, Bins::until(at(20))).unwrap();
        assert_eq!(line[BINS - 3..], [Some(500.0), None, Some(900.0)]);
        assert!(t.line(4, Bins::until(at(20))).is_none(), "nobody heard of rank 4");
        // An hour later nothing of it is left in sight, and nothing old shines through.
        t.step(3, at(3600), 100_000);
        let line = t.line(3, Bins::until(at(3600))).unwrap();
        assert_eq!(line.iter().flatten().collect::<Vec<_>>(), [&100.0]);
        assert_eq!(t.line(3, Bins::until(at(20))).unwrap().iter().flatten().count(), 0);
    }

    #[test]
    fn a_clock_that_goes_back_breaks_nothing() {
        let mut t = Track::default();
        t.step(0, at(100), 200_000);
        t.step(0, at(0), 400_000);
        t.step(0, Time(-5), 600_000);
        let line = t.line(0, Bins::until(at(100))).unwrap();
        assert_eq!(mean(&line), Some(400.0));
    }

    #[test]
    fn figures_that_are_none_do_not_count() {
        let mut m = Means::default();
        m.add(5, 1.0);
        m.add(5, f32::NAN);
        m.add(5, 3.0);
        m.add(BINS, 7.0);
        let line = m.line();
        assert_eq!((line[5], line[6]), (Some(2.0), None));
        assert_eq!(mean(&[]), None);
    }

    #[test]
    fn a_crowd_is_reported_by_its_least_middle_and_most() {
        let mut c = BandBuilder::default();
        for v in [5.0f32, 1.0, 9.0, 3.0, 7.0] {
            let mut line = vec![None; BINS];
            line[0] = Some(v);
            line[1] = Some(2.0).filter(|_| v > 8.0);
            c.add(&line);
        }
        let band = c.band();
        assert_eq!((band.low[0], band.median[0], band.high[0]), (Some(1.0), Some(5.0), Some(9.0)));
        assert_eq!((band.low[1], band.high[1], band.median[2]), (Some(2.0), Some(2.0), None));
    }
}
