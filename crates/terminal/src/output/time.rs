//! Times as people say them.

use muster_api::Timestamp;
use muster_model::units::{Span, Time};

/// To the nearest second: what slept for five took 4.98 as often as 5.02.
fn seconds(span: Span) -> u64 {
    span.0.saturating_add(500) / 1000
}

/// `45s`, `3m20s`, `2h05m`, `3d4h`: at most two units.
pub fn length(span: Span) -> String {
    let s = seconds(span);
    match s {
        0..60 => format!("{s}s"),
        60..3600 => format!("{}m{:02}s", s / 60, s % 60),
        3600..86_400 => format!("{}h{:02}m", s / 3600, s % 3600 / 60),
        _ => format!("{}d{}h", s / 86_400, s % 86_400 / 3600),
    }
}

/// `45s`, `3m`, `2h`, `3d`: one unit, for narrow columns. The nearest one: a wait of 1 h 59 min that
/// reads as an hour is planned for as half of what it is.
pub fn short(span: Span) -> String {
    let s = seconds(span);
    let near = |unit: u64| (s + unit / 2) / unit;
    match s {
        0..60 => format!("{s}s"),
        _ if near(60) < 60 => format!("{}m", near(60)),
        _ if near(3600) < 24 => format!("{}h", near(3600)),
        _ => format!("{}d", near(86_400)),
    }
}

/// One unit, or two where one would be wrong by more than a tenth: `2h`, but `1h30m`. What somebody waits
/// for is planned by it.
fn ahead(span: Span) -> String {
    let s = seconds(span);
    let unit = [86_400, 3600, 60].into_iter().find(|unit| s >= *unit).unwrap_or(1);
    let near = (s + unit / 2) / unit * unit;
    if near.abs_diff(s) * 10 > s { length(span) } else { short(span) }
}

/// `3m ago`, `just now`, `in 2h`.
pub fn relative(now: Time, at: Timestamp) -> String {
    let at = at.0;
    if at > now {
        let span = at.since(now);
        return if span.0 < 1000 { "just now".into() } else { format!("in {}", ahead(span)) };
    }
    let past = now.since(at);
    if past.0 < 1000 { "just now".into() } else { format!("{} ago", short(past)) }
}

/// `2026-01-31T12:00:00Z (3m ago)`.
pub fn full(now: Time, at: Timestamp) -> String {
    let text = at.to_string();
    let text = text.split_once('.').map_or(text.as_str(), |(seconds, _)| seconds);
    format!("{text}Z ({})", relative(now, at))
}

/// By when, on the reader's own clock: `14:05`, or with its date on another day.
pub fn clock(now: Time, by: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    // A minute that has begun has not been reached: what starts by 14:05:30 starts by 14:06. Less
    // than a second is nobody's minute.
    let minute = 60_000;
    let whole = Time(by.0.0.div_euclid(minute).saturating_mul(minute));
    let near = by.0.since(whole) < Span::secs(1);
    let by = if near { whole } else { whole + Span::mins(1) };
    shown(now, by, zone, "%H:%M")
}

/// When something was, on the reader's own clock: `14:05:30`, or with its date on another day.
pub fn moment(now: Time, at: Timestamp, zone: &jiff::tz::TimeZone) -> String {
    shown(now, at.0, zone, "%H:%M:%S")
}

fn shown(now: Time, at: Time, zone: &jiff::tz::TimeZone, time: &str) -> String {
    let local =
        |t: Time| jiff::Timestamp::from_millisecond(t.0).unwrap_or_default().to_zoned(zone.clone());
    let (now, at) = (local(now), local(at));
    if now.date() == at.date() {
        at.strftime(time).to_string()
    } else {
        at.strftime(&format!("%Y-%m-%d {time}")).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_have_at_most_two_units() {
        for (ms, long, brief) in [
            (0, "0s", "0s"),
            (499, "0s", "0s"),
            (4_600, "5s", "5s"),
            (5_400, "5s", "5s"),
            (59_400, "59s", "59s"),
            (59_999, "1m00s", "1m"),
            (200_000, "3m20s", "3m"),
            (7_500_000, "2h05m", "2h"),
            (273_600_000, "3d4h", "3d"),
            (7_198_000, "1h59m", "2h"),
            (3_598_000, "59m58s", "1h"),
            (86_300_000, "23h58m", "1d"),
        ] {
            assert_eq!(length(Span(ms)), long);
            assert_eq!(short(Span(ms)), brief);
        }
    }

    #[test]
    fn what_was_is_not_later_than_it_was_and_a_bound_not_earlier() {
        let zone = jiff::tz::TimeZone::UTC;
        let day = Time(0);
        // 09:25:15, and 300 ms after 10:16.
        let (past, due) = (Timestamp(Time(33_915_000)), Timestamp(Time(36_960_300)));
        assert_eq!(
            (moment(day, past, &zone), clock(day, past, &zone)),
            ("09:25:15".into(), "09:26".into())
        );
        assert_eq!(
            (moment(day, due, &zone), clock(day, due, &zone)),
            ("10:16:00".into(), "10:16".into())
        );
    }

    #[test]
    fn the_clock_shows_the_date_of_other_days() {
        let zone = jiff::tz::TimeZone::UTC;
        let now = Time(1_000_000_000);
        assert_eq!(clock(now, Timestamp(now + Span::mins(18)), &zone), "14:05");
        assert_eq!(clock(now, Timestamp(now + Span::hours(24)), &zone), "1970-01-13 13:47");
        let east = jiff::tz::TimeZone::fixed(jiff::tz::offset(2));
        assert_eq!(clock(now, Timestamp(now), &east), "15:47");
        assert_eq!(moment(now, Timestamp(now + Span::hours(24)), &zone), "1970-01-13 13:46:40");
    }

    #[test]
    fn moments_are_reported_from_now() {
        let now = Time(1_000_000_000);
        assert_eq!(relative(now, Timestamp(now)), "just now");
        assert_eq!(relative(now, Timestamp(now - Span::mins(3))), "3m ago");
        assert_eq!(relative(now, Timestamp(now + Span::mins(130))), "in 2h");
        assert_eq!(relative(now, Timestamp(now + Span::secs(7198))), "in 2h");
        assert_eq!(relative(now, Timestamp(now + Span::mins(90))), "in 1h30m");
        assert_eq!(relative(now, Timestamp(now + Span::mins(90) - Span(300))), "in 1h30m");
        assert_eq!(relative(now, Timestamp(now + Span::hours(36))), "in 1d12h");
        assert_eq!(relative(now, Timestamp(now + Span::secs(80))), "in 1m20s");
        assert_eq!(full(now, Timestamp(now - Span::secs(5))), "1970-01-12T13:46:35Z (5s ago)");
    }
}
