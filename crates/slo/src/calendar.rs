//! Months, in UTC.

use muster_model::units::{Span, Time};

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

/// When the month of a moment began, and how long it is.
#[must_use]
pub fn month(t: Time) -> (Time, Span) {
    let day = t.0.div_euclid(DAY);
    // 1970 is as good a year to begin a cycle with as any: what repeats is the whole of it.
    let (cycle, mut left) = (day.div_euclid(CYCLE), day.rem_euclid(CYCLE));
    let first_of_cycle = day - left;
    let mut year = 1970 + cycle.saturating_mul(400);
    let mut passed = 0;
    loop {
        let length = if leap(year) { 366 } else { 365 };
        if left < length {
            break;
        }
        (left, passed, year) = (left - length, passed + length, year + 1);
    }
    for m in 0..12 {
        let length = days(year, m);
        if left < length {
            let start = (first_of_cycle + passed).saturating_mul(DAY);
            return (Time(start), Span::hours(24 * length.unsigned_abs()));
        }
        (left, passed) = (left - length, passed + length);
    }
    // Twelve months are a year.
    (t, Span::hours(24 * 30))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

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

    proptest! {
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
