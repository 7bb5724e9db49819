//! The cells of one series in bytes.
//!
//! Values become whole numbers first: multiples of 1, 0.1, 0.01 or 0.001 where all of them are such,
//! which loses nothing; else of 1/32,767 of the greatest of them. The least and the greatest are
//! kept as distances from the mean, so that a step with one sample costs no more than its value.

use crate::bits::{Reader, column, put_column, put_varint};
use crate::cell::Cell;

/// Low bits of the first byte: how many decimals, or this.
const SCALED: u8 = 4;
const SCALE: u8 = 0x07;
/// Every step has the same number of samples.
const FULL: u8 = 0x08;
/// Every step has one value.
const FLAT: u8 = 0x10;
/// Whole numbers up to this are exact in an `f32`.
const EXACT: f64 = 16_777_216.0;
const LEVELS: f32 = 32_767.0;

/// What a whole number stands for.
#[derive(Debug, Clone, Copy)]
enum Scale {
    Decimals(u8),
    Step(f32),
}

fn power(decimals: u8) -> f64 {
    match decimals {
        0 => 1.0,
        1 => 10.0,
        2 => 100.0,
        _ => 1000.0,
    }
}

#[allow(clippy::cast_possible_truncation)] // within `EXACT` or `LEVELS`
impl Scale {
    fn of(values: &[[f32; 3]]) -> Scale {
        let all = || values.iter().flatten();
        let fits = |d: u8| {
            let p = power(d);
            all().all(|v| {
                let scaled = (f64::from(*v) * p).round();
                scaled.abs() <= EXACT && (scaled / p) as f32 == *v
            })
        };
        if let Some(d) = (0..SCALED).find(|d| fits(*d)) {
            return Scale::Decimals(d);
        }
        let most = all().fold(0.0f32, |m, v| m.max(v.abs()));
        Scale::Step((most / LEVELS).max(f32::MIN_POSITIVE))
    }

    fn whole(self, v: f32) -> i64 {
        match self {
            Scale::Decimals(d) => (f64::from(v) * power(d)).round() as i64,
            Scale::Step(step) => (f64::from(v) / f64::from(step)).round() as i64,
        }
    }

    fn value(self, whole: i64) -> f32 {
        let v = match self {
            Scale::Decimals(d) => whole as f64 / power(d),
            Scale::Step(step) => whole as f64 * f64::from(step),
        };
        v.clamp(f64::from(f32::MIN), f64::from(f32::MAX)) as f32
    }
}

/// Writes the cells of a series; nothing at all where every one is a gap.
pub(crate) fn encode(cells: &[Cell], out: &mut Vec<u8>) {
    let three = |c: &Cell| c.mean().map(|mean| [c.min, mean, c.max]);
    let values: Vec<[f32; 3]> = cells.iter().filter_map(three).collect();
    let Some(count) = cells.first().map(|c| c.count).filter(|_| !values.is_empty()) else {
        return;
    };
    let full = count > 0 && cells.iter().all(|c| c.count == count);
    let scale = Scale::of(&values);
    let whole: Vec<[i64; 3]> = values.iter().map(|v| v.map(|v| scale.whole(v))).collect();
    let flat = whole.iter().all(|[low, mean, high]| low == mean && mean == high);
    let tag = match scale {
        Scale::Decimals(d) => d,
        Scale::Step(_) => SCALED,
    };
    out.push(tag | if full { FULL } else { 0 } | if flat { FLAT } else { 0 });
    if let Scale::Step(step) = scale {
        out.extend(step.to_le_bytes());
    }
    if full {
        put_varint(out, u64::from(count));
    } else {
        put_column(out, &cells.iter().map(|c| i64::from(c.count)).collect::<Vec<_>>());
    }
    put_column(out, &whole.iter().map(|w| w[1]).collect::<Vec<_>>());
    if !flat {
        put_column(out, &whole.iter().map(|w| w[1] - w[0]).collect::<Vec<_>>());
        put_column(out, &whole.iter().map(|w| w[2] - w[1]).collect::<Vec<_>>());
    }
}

/// The `n` cells of a series; none where the bytes make no sense.
pub(crate) fn decode(bytes: &[u8], n: usize) -> Option<Vec<Cell>> {
    let mut r = Reader::new(bytes);
    let flags = r.byte()?;
    let scale = match flags & SCALE {
        d if d < SCALED => Scale::Decimals(d),
        SCALED => {
            let step = f32::from_le_bytes(r.bytes(4)?.try_into().ok()?);
            Scale::Step(Some(step).filter(|s| s.is_finite() && *s > 0.0)?)
        }
        _ => return None,
    };
    let counts: Vec<u32> = if flags & FULL == 0 {
        column(&mut r, n)?.into_iter().map(u32::try_from).collect::<Result<_, _>>().ok()?
    } else {
        vec![u32::try_from(r.varint()?).ok()?; n]
    };
    let sampled = counts.iter().filter(|c| **c > 0).count();
    let means = column(&mut r, sampled)?;
    let (lows, highs) = if flags & FLAT == 0 {
        (column(&mut r, sampled)?, column(&mut r, sampled)?)
    } else {
        (vec![0; sampled], vec![0; sampled])
    };
    let mut wholes = means.iter().zip(lows.iter().zip(&highs));
    let mut out = Vec::with_capacity(n);
    for count in counts {
        if count == 0 {
            out.push(Cell::GAP);
            continue;
        }
        let (mean, (low, high)) = wholes.next()?;
        let min = scale.value(mean.checked_sub(*low)?);
        let max = scale.value(mean.checked_add(*high)?);
        let sum = f64::from(scale.value(*mean)) * f64::from(count);
        out.push(Cell { min, max, sum, count });
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn there_and_back(cells: &[Cell]) -> (Vec<Cell>, usize) {
        let mut bytes = Vec::new();
        encode(cells, &mut bytes);
        (decode(&bytes, cells.len()).expect("it was just written"), bytes.len())
    }

    #[test]
    fn steps_with_one_decimal_value_come_back_as_they_were() {
        let cells: Vec<Cell> =
            [70.5, 70.25, -3.0, 0.0, 1999.125].into_iter().map(Cell::of).collect();
        assert_eq!(there_and_back(&cells).0, cells);
        let (_, bytes) = there_and_back(&[Cell::of(45.0); 30]);
        assert_eq!(bytes, 4, "flags, count, width, value");
    }

    #[test]
    fn gaps_stay_gaps_and_nothing_is_written_of_gaps_alone() {
        let mut twice = Cell::of(1.0);
        twice.merge(&Cell::of(2.0));
        let cells = [Cell::GAP, Cell::of(1.0), Cell::GAP, twice, Cell::GAP];
        assert_eq!(there_and_back(&cells).0, cells);
        let mut bytes = Vec::new();
        encode(&[Cell::GAP; 9], &mut bytes);
        encode(&[], &mut bytes);
        assert!(bytes.is_empty());
    }

    #[test]
    fn any_value_is_near_and_the_order_of_the_three_is_kept() {
        let cells: Vec<Cell> = [1.0e-3f32, 0.333_33, f32::MAX, -1.0e20, f32::MIN_POSITIVE / 8.0]
            .windows(2)
            .map(|w| {
                let mut c = Cell::of(w[0]);
                c.merge(&Cell::of(w[1]));
                c
            })
            .collect();
        for (a, b) in cells.iter().zip(there_and_back(&cells).0) {
            let near = |a: f32, b: f32| (f64::from(a) - f64::from(b)).abs() <= 3.5e38 / 32_767.0;
            assert!(near(a.min, b.min) && near(a.max, b.max), "{a:?} {b:?}");
            let mean = b.mean().expect("samples");
            assert!(b.min <= mean && mean <= b.max && b.max.is_finite());
        }
        let tiny = [Cell::of(f32::MIN_POSITIVE / 8.0), Cell::of(1.0e-30)];
        assert_eq!(there_and_back(&tiny).0.len(), 2);
    }

    #[test]
    fn damaged_bytes_are_not_read() {
        let mut bytes = Vec::new();
        encode(&[Cell::of(1.5), Cell::GAP, Cell::of(1.0e9)], &mut bytes);
        for n in 0..bytes.len() {
            assert!(decode(&bytes[..n], 3).is_none());
        }
        assert!(decode(&[7], 3).is_none());
    }
}
