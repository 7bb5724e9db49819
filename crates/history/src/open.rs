//! The block of a shard that is being filled, in memory.

use crate::block::{self, SHARD};
use crate::cell::Cell;
use crate::tier::Tier;
use std::collections::HashMap;

/// A cell in sixteen bytes: there are millions of them.
#[derive(Debug, Clone, Copy)]
struct Small {
    min: f32,
    max: f32,
    sum: f32,
    count: u32,
}

const EMPTY: Small = Small { min: f32::INFINITY, max: f32::NEG_INFINITY, sum: 0.0, count: 0 };

impl Small {
    fn cell(self) -> Cell {
        Cell { min: self.min, max: self.max, sum: f64::from(self.sum), count: self.count }
    }
}

/// Cells of all series, series after series.
#[derive(Debug)]
enum Cells {
    /// Most steps have one sample: its value, NaN for none. Those with more are in `more`.
    Single { values: Vec<f32>, more: HashMap<usize, Cell> },
    /// Most steps have several.
    Several(Vec<Small>),
}

/// What became of a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SampleFit {
    /// It is in.
    In,
    /// It is of a step before the first of this block.
    Before,
    /// It is of a step after the last of this block.
    After,
}

/// A block that is being filled.
#[derive(Debug)]
pub(crate) struct Open {
    shard: u32,
    start: i64,
    steps: u16,
    cells: Cells,
    any: bool,
}

impl Open {
    /// A block from this step on. Blocks of different shards end at different steps, so that they
    /// are not all written at once.
    pub(crate) fn new(tier: &Tier, shard: u32, slot: i64, several: bool) -> Open {
        let block = i64::from(tier.block.max(1));
        let steps = block - slot.saturating_sub(i64::from(shard)).rem_euclid(block);
        let steps = u16::try_from(steps).unwrap_or(1);
        let n = usize::from(steps) * SHARD as usize;
        let cells = match several {
            true => Cells::Several(vec![EMPTY; n]),
            false => Cells::Single { values: vec![f32::NAN; n], more: HashMap::new() },
        };
        Open { shard, start: slot, steps, cells, any: false }
    }

    /// The step after its last.
    pub(crate) fn end(&self) -> i64 {
        self.start.saturating_add(i64::from(self.steps))
    }

    pub(crate) fn start(&self) -> i64 {
        self.start
    }

    /// Takes the samples of a cell in, which has some.
    pub(crate) fn merge(&mut self, index: u32, slot: i64, cell: &Cell) -> SampleFit {
        if slot < self.start {
            return SampleFit::Before;
        }
        let step = match usize::try_from(slot - self.start) {
            Ok(step) if step < usize::from(self.steps) => step,
            _ => return SampleFit::After,
        };
        self.any = true;
        let at = index as usize * usize::from(self.steps) + step;
        match &mut self.cells {
            Cells::Single { values, more } => {
                let Some(first) = values.get_mut(at) else { return SampleFit::After };
                let before = if first.is_nan() { Cell::GAP } else { Cell::of(*first) };
                if first.is_nan() {
                    *first = cell.min;
                }
                if cell.count > 1 || !before.is_gap() {
                    more.entry(at).or_insert(before).merge(cell);
                }
            }
            Cells::Several(all) => {
                let Some(c) = all.get_mut(at) else { return SampleFit::After };
                c.min = c.min.min(cell.min);
                c.max = c.max.max(cell.max);
                #[allow(clippy::cast_possible_truncation)] // the samples are `f32`
                let sum = cell.sum as f32;
                c.sum += sum;
                c.count = c.count.saturating_add(cell.count);
            }
        }
        SampleFit::In
    }

    fn cell(&self, at: usize) -> Cell {
        match &self.cells {
            Cells::Single { values, more } => match values.get(at) {
                Some(v) if !v.is_nan() => more.get(&at).copied().unwrap_or_else(|| Cell::of(*v)),
                _ => Cell::GAP,
            },
            Cells::Several(all) => all.get(at).map_or(Cell::GAP, |c| c.cell()),
        }
    }

    /// The cells of a series, with their steps.
    pub(crate) fn series(&self, index: u32) -> impl Iterator<Item = (i64, Cell)> {
        let steps = usize::from(self.steps);
        let from = index as usize * steps;
        (0..steps).map(move |i| (self.start.saturating_add(i as i64), self.cell(from + i)))
    }

    /// As it is written until this step, which is not in it; empty where nothing was sampled.
    pub(crate) fn encode(&self, until: i64) -> Vec<u8> {
        let steps = until.saturating_sub(self.start).clamp(1, i64::from(self.steps));
        let steps = u16::try_from(steps).unwrap_or(self.steps);
        if !self.any {
            return Vec::new();
        }
        let cells = |index: u32| -> Vec<Cell> {
            self.series(index).take(usize::from(steps)).map(|(_, c)| c).collect()
        };
        block::encode(self.shard, self.start, steps, (0..SHARD).map(|i| (i, cells(i))))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tier::Limits;

    #[test]
    fn samples_land_in_their_steps() {
        let tier = Limits::default().tiers()[0];
        for several in [false, true] {
            let mut open = Open::new(&tier, 3, 40, several);
            assert_eq!((open.start(), open.end()), (40, 63), "blocks of shard 3 end so");
            assert_eq!(open.merge(5, 39, &Cell::of(1.0)), SampleFit::Before);
            assert_eq!(open.merge(5, 63, &Cell::of(1.0)), SampleFit::After);
            assert!(open.encode(63).is_empty(), "nothing was sampled");
            for v in [1.0, 4.0, 1.0] {
                assert_eq!(open.merge(5, 41, &Cell::of(v)), SampleFit::In);
            }
            assert_eq!(open.merge(5, 43, &Cell::of(7.0)), SampleFit::In);
            let cells: Vec<_> = open.series(5).filter(|(_, c)| !c.is_gap()).collect();
            assert_eq!(cells.len(), 2);
            assert_eq!((cells[0].0, cells[0].1.mean(), cells[0].1.max), (41, Some(2.0), 4.0));
            let mut two = Cell::of(2.0);
            two.merge(&Cell::of(6.0));
            for _ in 0..2 {
                assert_eq!(open.merge(6, 42, &two), SampleFit::In);
            }
            assert_eq!(open.merge(6, 63, &two), SampleFit::After);
            let all = open.series(6).find(|(_, c)| !c.is_gap()).unwrap();
            assert_eq!((all.0, all.1.count, all.1.mean()), (42, 4, Some(4.0)));
            assert_eq!((all.1.min, all.1.max), (2.0, 6.0));
            let bytes = open.encode(44);
            let mut read = Vec::new();
            block::read(&bytes, &[4, 5], |i, c| read.push((i, c.len(), c[3].max))).unwrap();
            assert_eq!(read, [(5, 4, 7.0)]);
        }
    }
}
