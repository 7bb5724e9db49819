//! When demand meets what is there: a straight line through the days, with how far they lie off it.

use crate::days::{DAY, Step};
use crate::fleet::Fleet;
use crate::fleet::Row;
use muster_model::units::Time;

/// Whole days that a forecast needs.
pub const DAYS_LEAST: usize = 3;
/// Days that it looks at.
pub const DAYS_MOST: usize = 60;
/// Days that it looks ahead.
pub const AHEAD: i64 = 365;

/// What is to come. GPUs in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Forecast {
    /// Whole days that it rests on.
    pub days: usize,
    /// GPUs in service, as the mean of the last whole day.
    pub capacity: u64,
    /// The line; none with too few days.
    pub trend: Option<Trend>,
    /// The day of now, as far as it is known.
    pub newest: Option<NewestDay>,
}

/// Means of the newest day, from its midnight UTC on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewestDay {
    /// GPUs that were wanted.
    pub wanted: u64,
    /// GPUs in service.
    pub in_service: u64,
}

impl NewestDay {
    /// Is as much wanted as is in service?
    #[must_use]
    pub fn met(self) -> bool {
        self.wanted > 0 && self.wanted >= self.in_service
    }
}

/// A straight line through the days.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Trend {
    /// GPUs that are wanted at the end of the last whole day, by the line.
    pub level: i64,
    /// More of them every day.
    pub slope: i64,
    /// How far days lie off the line: their standard deviation.
    pub spread: u64,
    /// When the line meets the capacity.
    pub meets: CapacityReached,
    /// The same when days lie above the line by their spread: as soon as that.
    pub earliest: CapacityReached,
    /// And below it: as late as that.
    pub latest: CapacityReached,
}

/// When demand meets capacity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CapacityReached {
    /// It does already.
    Already,
    /// At this time.
    At(Time),
    /// Not within a year.
    NotWithinAYear,
}

/// One whole day: when it ended, and the mean of GPUs that were wanted, in thousandths.
pub type DayWanted = (Time, u64);

fn meets(level: i64, slope: i64, capacity: i64, end: Time) -> CapacityReached {
    if level >= capacity {
        return CapacityReached::Already;
    }
    if slope <= 0 {
        return CapacityReached::NotWithinAYear;
    }
    let ms = i128::from(capacity - level) * i128::from(DAY) / i128::from(slope);
    match i64::try_from(ms) {
        Ok(ms) if ms <= AHEAD * DAY => CapacityReached::At(Time(end.0.saturating_add(ms))),
        _ => CapacityReached::NotWithinAYear,
    }
}

/// The line through whole days, oldest first.
#[must_use]
pub fn forecast(days: &[DayWanted], capacity: u64) -> Forecast {
    let days = &days[days.len().saturating_sub(DAYS_MOST)..];
    let trend = (days.len() >= DAYS_LEAST).then(|| trend(days, capacity));
    Forecast { days: days.len(), capacity, trend, newest: None }
}

fn trend(days: &[DayWanted], capacity: u64) -> Trend {
    let end = days.last().map_or(Time(0), |d| d.0);
    // Days before the end; there may be gaps.
    let x = |t: Time| -i128::from((end.0 - t.0).div_euclid(DAY));
    let n = days.len() as i128;
    let (mut sx, mut sy, mut sxx, mut sxy) = (0i128, 0i128, 0i128, 0i128);
    for (t, y) in days {
        let (x, y) = (x(*t), i128::from(*y));
        (sx, sy, sxx, sxy) = (sx + x, sy + y, sxx + x * x, sxy + x * y);
    }
    let below = n * sxx - sx * sx;
    let rise = n * sxy - sx * sy;
    // y = (sy + rise/below * (n*x - sx)) / n, in whole thousandths of a GPU.
    let at = |x: i128| match below {
        0 => sy / n,
        _ => (sy * below + rise * (n * x - sx)) / (n * below),
    };
    let squares: i128 = days.iter().map(|(t, y)| (i128::from(*y) - at(x(*t))).pow(2)).sum();
    let mean = u128::try_from(squares / (n - 2).max(1)).unwrap_or(u128::MAX);
    let spread = u64::try_from(mean.isqrt()).unwrap_or(u64::MAX);
    let fit = |v: i128| i64::try_from(v).unwrap_or(i64::MAX);
    let (level, slope) = (fit(at(0)), fit(rise.checked_div(below).unwrap_or(0)));
    let most = i64::try_from(capacity).unwrap_or(i64::MAX);
    let off = i64::try_from(spread).unwrap_or(i64::MAX);
    let meets = |level| meets(level, slope, most, end);
    Trend {
        level,
        slope,
        spread,
        meets: meets(level),
        earliest: meets(level.saturating_add(off)),
        latest: meets(level.saturating_sub(off)),
    }
}

/// Of days that lie wholly within what is known, what was wanted, and the capacity of the last.
#[must_use]
pub fn wanted_by_day(rows: &[Row], since: Time) -> (Vec<DayWanted>, u64) {
    let whole = |r: &&Row| r.to.0 - r.from.0 == DAY && r.from >= since;
    let per = |v: u128| u64::try_from(v / u128::from(DAY.unsigned_abs())).unwrap_or(u64::MAX);
    let days: Vec<&Row> = rows.iter().filter(whole).collect();
    let capacity = days.last().map_or(0, |r| r.supply.values().map(|s| s.in_service).sum());
    (days.iter().map(|r| (r.to, per(r.work.wanted()))).collect(), per(capacity))
}

/// The newest day of which something is known.
#[must_use]
pub fn newest_day(rows: &[Row], since: Time) -> Option<NewestDay> {
    let of = |r: &Row| {
        let ms = u128::try_from(r.to.0 - r.from.max(since).0).ok().filter(|ms| *ms > 0)?;
        let per = |v: u128| u64::try_from(v / ms).unwrap_or(u64::MAX);
        let in_service = r.supply.values().map(|s| s.in_service).sum();
        Some(NewestDay { wanted: per(r.work.wanted()), in_service: per(in_service) })
    };
    rows.iter().rev().find_map(of)
}

impl Fleet {
    /// When the demand of all projects meets what is in service.
    #[must_use]
    pub fn forecast(&self, now: Time) -> Forecast {
        let from = Time(now.0.saturating_sub((DAYS_MOST as i64 + 1) * DAY));
        let report = self.report(now, (from, now), Step::Day, None, &crate::fleet::no_observation);
        let (days, capacity) = wanted_by_day(&report.rows, self.since());
        Forecast { newest: newest_day(&report.rows, self.since()), ..forecast(&days, capacity) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Supply, Work};

    fn days(wanted: &[u64]) -> Vec<DayWanted> {
        let of = |(n, gpus): (usize, &u64)| (Time((n as i64 + 1) * DAY), gpus * 1000);
        wanted.iter().enumerate().map(of).collect()
    }

    #[test]
    fn a_line_that_rises_meets_the_capacity_on_its_day() {
        let f = forecast(&days(&[100, 110, 120, 130, 140]), 200_000);
        let t = f.trend.unwrap();
        assert_eq!((t.level, t.slope, t.spread), (140_000, 10_000, 0));
        // 60 GPUs are left at 10 a day.
        assert_eq!(t.meets, CapacityReached::At(Time(11 * DAY)));
        assert_eq!((t.earliest, t.latest), (t.meets, t.meets));
    }

    #[test]
    fn days_off_the_line_make_the_day_uncertain() {
        let t = forecast(&days(&[100, 120, 110, 130, 140, 130]), 200_000).trend.unwrap();
        let (CapacityReached::At(first), CapacityReached::At(mid), CapacityReached::At(last)) =
            (t.earliest, t.meets, t.latest)
        else {
            panic!("{t:?}");
        };
        assert!(t.spread > 5_000 && t.spread < 15_000, "{t:?}");
        assert!(first < mid && mid < last, "{t:?}");
    }

    #[test]
    fn too_few_days_say_nothing_and_flat_or_full_ones_are_said_to_be() {
        assert_eq!(forecast(&days(&[1, 2]), 10).trend, None);
        assert_eq!(forecast(&[], 0).trend, None);
        let of = |wanted: &[u64], capacity| forecast(&days(wanted), capacity).trend.unwrap().meets;
        assert_eq!(of(&[50, 50, 50], 100_000), CapacityReached::NotWithinAYear);
        assert_eq!(of(&[50, 40, 30], 100_000), CapacityReached::NotWithinAYear);
        assert_eq!(of(&[10, 11, 12], 100_000_000), CapacityReached::NotWithinAYear);
        assert_eq!(of(&[100, 120, 140], 130_000), CapacityReached::Already);
    }

    #[test]
    fn only_the_newest_days_count_and_gaps_are_gaps() {
        let mut all = days(&[5; 100]);
        all.extend([(Time(120 * DAY), 5_000), (Time(121 * DAY), 5_000)]);
        let f = forecast(&all, 9_000);
        assert_eq!(f.days, DAYS_MOST);
        assert_eq!(f.trend.unwrap().slope, 0);
    }

    #[test]
    fn the_newest_day_counts_as_far_as_it_went_and_is_known() {
        let supply = |v: u128| Supply { in_service: v, ..Supply::default() };
        let row = |from: i64, to: i64, v: u128| Row {
            from: Time(from),
            to: Time(to),
            work: Work::default(),
            supply: [("h100-sxm".to_owned(), supply(v))].into(),
            seen: crate::TelemetryTotals::default(),
        };
        let rows = [row(0, DAY, 8_000 * 86_400_000), row(DAY, DAY + 1_000, 16_000 * 1_000)];
        let of = |rows: &[Row], since: i64| newest_day(rows, Time(since)).map(|n| n.in_service);
        assert_eq!(of(&rows, 0), Some(16_000));
        assert_eq!(of(&rows, DAY + 500), Some(32_000), "what is before is not known");
        assert_eq!(of(&rows, DAY + 1_000), None);
        // A day that has not gone on yet says nothing: the one before does.
        assert_eq!(of(&[rows[0].clone(), row(DAY, DAY, 0)], 0), Some(8_000));
        assert!(newest_day(&rows, Time(0)).is_some_and(|n| !n.met()), "nothing is wanted");
    }
}
