//! Days, weeks and months, in UTC.

use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};

const DAY: i64 = 86_400_000;
/// Days in 400 years, after which the calendar repeats.
const CYCLE: i64 = 146_097;

fn leap(year: i64) -> bool {
    (year % 4 == 0 && year % 100 != 0) || year % 400 == 0
}

fn days(year: i64, month: usize) -> i64 {
    const DAYS: [i64; 12] = [31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    DAYS[month] + i64::from(month == 1 && leap(year))
}

/// Year, month from 0, day from 0, and days from 1970 to the first of the month.
fn date(t: Time) -> (i64, usize, i64, i64) {
    let day = t.0.div_euclid(DAY);
    // 1970 is as good a year to begin a cycle with as any: what repeats is the whole of it.
    let (cycle, mut left) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE));
    let mut year = 1970 + cycle * 400;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        (left, year) = (left - length, year + 1);
    }
    let mut month = 0;
    while month < 11 && left >= days(year, month) {
        (left, month) = (left - days(year, month), month + 1);
    }
    (year, month, left, day - left)
}

/// When a day began, by its year, and by its month and day from 1; none when there is no such day.
#[must_use]
pub fn day(year: i64, month: i64, day: i64) -> Option<Time> {
    let month = usize::try_from(month.checked_sub(1)?).ok().filter(|m| *m < 12)?;
    if !(0..10_000).contains(&year) || !(1..=days(year, month)).contains(&day) {
        return None;
    }
    let leaps = |y: i64| y.div_euclid(4) - y.div_euclid(100) + y.div_euclid(400);
    let years = (year - 1970) * 365 + leaps(year - 1) - leaps(1969);
    let months: i64 = (0..month).map(|m| days(year, m)).sum();
    Some(Time((years + months + day - 1) * DAY))
}

/// When the month of a moment began, and how long it is.
#[must_use]
pub fn month(t: Time) -> (Time, Span) {
    let (year, month, _, first) = date(t);
    (Time(first.saturating_mul(DAY)), Span::hours(24 * days(year, month).unsigned_abs()))
}

/// How long a report's time is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = PeriodKind))]
#[serde(rename_all = "snake_case")]
pub enum Period {
    /// From Monday to Monday, in UTC.
    #[default]
    Week,
    /// A month, in UTC.
    Month,
}

impl Period {
    /// Where the one that a moment is in begins and ends.
    #[must_use]
    pub fn around(self, t: Time) -> (Time, Time) {
        match self {
            Period::Week => {
                // 1970 began on a Thursday.
                let day = t.0.div_euclid(DAY);
                let monday = day - (day + 3).rem_euclid(7);
                (Time(monday.saturating_mul(DAY)), Time((monday + 7).saturating_mul(DAY)))
            }
            Period::Month => {
                let (start, length) = month(t);
                (start, start + length)
            }
        }
    }

    /// The one so many before that of a moment.
    #[must_use]
    pub fn back(self, t: Time, n: u32) -> (Time, Time) {
        let mut at = self.around(t);
        for _ in 0..n {
            at = self.around(Time(at.0.0.saturating_sub(1)));
        }
        at
    }

    /// What people call the one that begins here: `2026-W46`, `2026-11`.
    #[must_use]
    pub fn name(self, start: Time) -> String {
        match self {
            Period::Week => {
                // A week belongs to the year that its Thursday is in.
                let thursday = Time(start.0.saturating_add(3 * DAY));
                let (year, month, day, _) = date(thursday);
                let before: i64 = (0..month).map(|m| days(year, m)).sum();
                format!("{year:04}-W{:02}", (before + day) / 7 + 1)
            }
            Period::Month => {
                let (year, month, _, _) = date(start);
                format!("{year:04}-{:02}", month + 1)
            }
        }
    }
}

/// A moment as machines exchange it: `2026-02-14T12:00:00.000Z`.
#[must_use]
pub fn rfc3339(t: Time) -> String {
    // Four digits for the year are all that the form knows.
    let t = Time(t.0.clamp(-62_135_596_800_000, 253_402_300_799_999));
    let (year, month, day, _) = date(t);
    let ms = t.0.rem_euclid(DAY);
    let (h, m, s) = (ms / 3_600_000, ms / 60_000 % 60, ms / 1000 % 60);
    format!("{year:04}-{:02}-{:02}T{h:02}:{m:02}:{s:02}.{:03}Z", month + 1, day + 1, ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn weeks_and_months_have_the_names_of_the_calendar() {
        let at = |s: i64| Time(s * 1000);
        // By `date -u -d … +%s` and `date -u -d … +%G-W%V`.
        for (now, back, week, month) in [
            (1_794_787_200, 0, "2026-W47", "2026-11"), // Monday, 2026-11-16
            (1_794_787_199, 0, "2026-W46", "2026-11"),
            (1_794_787_200, 1, "2026-W46", "2026-10"),
            (1_767_225_600, 0, "2026-W01", "2026-01"), // Thursday, 2026-01-01
            (1_767_225_600, 1, "2025-W52", "2025-12"),
            (1_609_459_200, 0, "2020-W53", "2021-01"), // Friday, 2021-01-01
            (0, 0, "1970-W01", "1970-01"),
        ] {
            let name = |p: Period| p.name(p.back(at(now), back).0);
            assert_eq!((name(Period::Week).as_str(), name(Period::Month).as_str()), (week, month));
        }
        let (from, to) = Period::Week.around(at(1_794_787_199));
        assert_eq!((from, to), (at(1_794_182_400), at(1_794_787_200)));
        assert_eq!(Period::Week.around(to).0, to, "the end is the next one's");
    }

    #[test]
    fn months_begin_when_they_do() {
        // By `date -u -d 2026-02-14T12:00:00Z +%s` and the like.
        for (at, start, length) in [
            (1_771_070_400, 1_769_904_000, 28),
            (1_709_164_800, 1_706_745_600, 29),
            (951_825_600, 949_363_200, 29),
            (4_107_542_399, 4_105_123_200, 28),
            (0, 0, 31),
            (1_798_761_599, 1_796_083_200, 31),
            (1_798_761_600, 1_798_761_600, 31),
        ] {
            let got = month(Time(at * 1000));
            assert_eq!(got, (Time(start * 1000), Span::hours(length * 24)), "{at}");
        }
    }

    #[test]
    fn only_days_of_the_calendar_begin() {
        for (date, began) in [
            ((1970, 1, 1), Some(0)),
            ((2026, 2, 14), Some(1_771_027_200)),
            ((2024, 2, 29), Some(1_709_164_800)),
            ((1900, 3, 1), Some(-2_203_891_200)),
            ((2023, 2, 29), None),
            ((2024, 0, 1), None),
            ((2024, 13, 1), None),
            ((2024, 4, 0), None),
            ((2024, 4, 31), None),
            ((i64::MAX, i64::MIN, i64::MIN), None),
        ] {
            let got = day(date.0, date.1, date.2);
            assert_eq!(got, began.map(|s: i64| Time(s * 1000)), "{date:?}");
        }
    }

    #[test]
    fn moments_are_written_as_everywhere() {
        for (ms, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (1_771_070_400_123, "2026-02-14T12:00:00.123Z"),
            (1_709_251_199_000, "2024-02-29T23:59:59.000Z"),
            (i64::MAX, "9999-12-31T23:59:59.999Z"),
            (i64::MIN, "0001-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(rfc3339(Time(ms)), text);
        }
    }

    proptest! {
        #[test]
        fn a_day_begins_where_its_date_says(t in -60_000_000_000_000_i64..250_000_000_000_000) {
            let (year, month, of_month, _) = date(Time(t));
            let month = i64::try_from(month).unwrap();
            let began = day(year, month + 1, of_month + 1).unwrap();
            prop_assert_eq!(began, Time(t.div_euclid(DAY) * DAY));
        }

        #[test]
        fn a_moment_is_in_its_month(t: i64) {
            let (start, length) = month(Time(t));
            if t.unsigned_abs() < 1 << 60 {
                prop_assert!(start.0 <= t && t < (start + length).0);
                prop_assert_eq!(month(start), (start, length));
            }
        }
    }
}
