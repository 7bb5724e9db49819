//! Medians and median deviations: a few unhealthy ones among the peers must not move what is usual.

/// The median of the finite figures; none where there is none. The order of `values` changes.
#[must_use]
pub fn median(values: &mut Vec<f64>) -> Option<f64> {
    values.retain(|v| v.is_finite());
    if values.is_empty() {
        return None;
    }
    let middle = values.len() / 2;
    let (below, upper, _) = values.select_nth_unstable_by(middle, f64::total_cmp);
    let upper = *upper;
    if below.len() < middle || values.len() % 2 == 1 {
        return Some(upper);
    }
    let lower = values[..middle].iter().copied().max_by(f64::total_cmp)?;
    Some(lower / 2.0 + upper / 2.0)
}

/// What is usual among peers, and how far they are from it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PeerBaseline {
    /// The middle value of the peers.
    pub median: f64,
    /// The median absolute deviation from it.
    pub mad: f64,
    /// How many figures that is from.
    pub count: usize,
}

impl PeerBaseline {
    /// Of the finite figures.
    #[must_use]
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<PeerBaseline> {
        let mut all: Vec<f64> = values.into_iter().collect();
        let median = median(&mut all)?;
        let count = all.len();
        all.iter_mut().for_each(|v| *v = (*v - median).abs());
        let mad = self::median(&mut all)?;
        Some(PeerBaseline { median, mad, count })
    }

    /// Above it by more than `deviations` median deviations and by more than `share` of it?
    #[must_use]
    pub fn above(&self, x: f64, deviations: f64, share: f64) -> bool {
        let gap = x - self.median;
        gap.is_finite() && gap > self.mad * deviations && gap > self.median.abs() * share
    }

    /// Below it by more than that?
    #[must_use]
    pub fn below(&self, x: f64, deviations: f64, share: f64) -> bool {
        let gap = self.median - x;
        gap.is_finite() && gap > self.mad * deviations && gap > self.median.abs() * share
    }
}

/// An average that forgets: after `tau` of time, a new figure counts for half. Made of a division
/// instead of a power, so that it is the same on every machine.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct FadingAverage(f32);

impl Default for FadingAverage {
    fn default() -> FadingAverage {
        FadingAverage(f32::NAN)
    }
}

impl FadingAverage {
    /// Takes in a figure that came `dt` after the last one. What is not finite is left out.
    pub fn add(&mut self, x: f32, dt: f32, tau: f32) {
        if !x.is_finite() {
            return;
        }
        if self.0.is_nan() {
            self.0 = x;
        } else {
            let dt = dt.max(0.0);
            let next = self.0 + (x - self.0) * (dt / (dt + tau));
            if next.is_finite() {
                self.0 = next;
            }
        }
    }

    /// The average; none before the first figure.
    #[must_use]
    pub fn get(self) -> Option<f64> {
        self.0.is_finite().then_some(f64::from(self.0))
    }

    /// Forgets what it has seen.
    pub fn clear(&mut self) {
        self.0 = f32::NAN;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_middle_is_found_and_what_is_no_number_is_left_out() {
        assert_eq!(median(&mut vec![]), None);
        assert_eq!(median(&mut vec![f64::NAN, f64::INFINITY]), None);
        assert_eq!(median(&mut vec![3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&mut vec![4.0, 1.0, f64::NAN, 2.0, 3.0]), Some(2.5));
        assert_eq!(median(&mut vec![f64::MAX, f64::MAX]), Some(f64::MAX));
    }

    #[test]
    fn one_of_many_stands_out_and_a_hairs_breadth_does_not() {
        let usual = PeerBaseline::of([1.0, 1.01, 0.99, 1.0, 1.02, 1.3]).expect("figures");
        assert!(usual.above(1.3, 5.0, 0.07) && !usual.above(1.02, 5.0, 0.07));
        let alike = PeerBaseline::of([1.0; 8]).expect("figures");
        assert!(!alike.above(1.01, 5.0, 0.07), "a floor below which nothing is seen");
        assert!(alike.below(0.8, 5.0, 0.07));
        let wide = PeerBaseline::of([1.0, 1.4, 0.7, 1.2, 0.8, 1.3]).expect("figures");
        assert!(!wide.above(1.4, 5.0, 0.07), "peers that differ this much hide it");
    }

    #[test]
    fn a_fading_average_follows_and_cannot_be_poisoned() {
        let mut f = FadingAverage::default();
        f.add(f32::NAN, 1.0, 20.0);
        assert_eq!(f.get(), None);
        f.add(10.0, 1.0, 20.0);
        f.add(f32::INFINITY, 1.0, 20.0);
        f.add(20.0, 20.0, 20.0);
        assert_eq!(f.get(), Some(15.0));
        f.add(20.0, -5.0, 20.0);
        assert_eq!(f.get(), Some(15.0), "time that goes back counts for nothing");
    }
}
