//! What is kept of one step of time.

/// The samples of one step: the least, the sum, the greatest, and how many. None of them is a gap.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Cell {
    /// The least value.
    pub min: f32,
    /// The greatest value.
    pub max: f32,
    /// All values together.
    pub sum: f64,
    /// How many samples there were.
    pub count: u32,
}

impl Cell {
    /// No sample.
    pub const GAP: Cell = Cell { min: f32::INFINITY, max: f32::NEG_INFINITY, sum: 0.0, count: 0 };

    /// One sample.
    #[must_use]
    pub fn of(value: f32) -> Cell {
        Cell { min: value, max: value, sum: f64::from(value), count: 1 }
    }

    /// Whether there was no sample.
    #[must_use]
    pub fn is_gap(&self) -> bool {
        self.count == 0
    }

    /// Takes the samples of another cell in.
    pub fn merge(&mut self, other: &Cell) {
        if other.is_gap() {
            return;
        }
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        self.count = self.count.saturating_add(other.count);
    }

    /// The mean, never outside of the least and the greatest; none of a gap.
    #[must_use]
    #[allow(clippy::cast_possible_truncation)] // the samples are `f32`
    pub fn mean(&self) -> Option<f32> {
        let mean = || (self.sum / f64::from(self.count)) as f32;
        (!self.is_gap()).then(|| mean().max(self.min).min(self.max))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cell_knows_its_least_its_mean_and_its_greatest() {
        let mut cell = Cell::GAP;
        assert_eq!(cell.mean(), None);
        for v in [4.0, 1.0, 1.0] {
            cell.merge(&Cell::of(v));
        }
        cell.merge(&Cell::GAP);
        assert_eq!((cell.min, cell.mean(), cell.max, cell.count), (1.0, Some(2.0), 4.0, 3));
    }
}
