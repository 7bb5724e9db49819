//! How far an objective is met and how much of its error budget is left.

use crate::burn::{self, Firing, Unfired};
use crate::ledger::{Count, TimeRange};
pub use crate::meter::{ChartHour, Counts, Meter};
use crate::ratio::Ratio;
use muster_model::calendar::month;
use muster_model::distinct;
use muster_model::slo::{Cause, Gate, Objective, Ppm, Window};
use muster_model::units::{Span, Time};

/// The share of good ones; none where nothing was counted.
#[must_use]
pub fn sli(count: Count) -> Option<Ratio> {
    (count.total > 0).then(|| Ratio::new(u128::from(count.good), u128::from(count.total)))
}

/// The burn rate of the error budget by those that were counted: one for a speed that spends it exactly
/// over its window. None where nothing was counted.
#[must_use]
pub fn burn(count: Count, target: Ppm) -> Option<Ratio> {
    let bad = u128::from(count.bad()) * u128::from(Ppm::ONE.0);
    let allowed = u128::from(count.total) * u128::from(target.rest().0);
    (count.total > 0).then(|| Ratio::new(bad, allowed))
}

/// Is the share of good ones at least the target? None where nothing was counted.
#[must_use]
pub fn meets(count: Count, target: Ppm) -> Option<bool> {
    burn(count, target).map(|consumed| consumed <= Ratio::ONE)
}

/// The mean time between interruptions, from the counts of that indicator; none where there was no
/// interruption.
#[must_use]
pub fn mean_time(count: Count, cost: Span) -> Option<Span> {
    let times = Ratio::new(u128::from(count.good), u128::from(count.bad()));
    (count.bad() > 0).then(|| Span(times.of(cost.0)))
}

/// How long until the budget is exhausted, if it goes on being spent as fast. Zero when it is spent
/// already. None when nothing is being spent, or so little that a whole window goes by before: what
/// is spent that slowly leaves a rolling window as fast as it comes in.
#[must_use]
pub fn forecast(consumed: Ratio, speed: Ratio, window: Span) -> Option<Span> {
    if consumed >= Ratio::ONE {
        return Some(Span(0));
    }
    let left = (speed > Ratio::ZERO).then(|| Span(consumed.rest().over(speed).of(window.0)));
    left.filter(|left| *left <= window)
}

/// How an objective stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// What was counted over its window.
    pub count: Count,
    /// How much of its window was counted.
    pub counted: Span,
    /// The share of good ones; none: no data.
    pub sli: Option<Ratio>,
    /// The share of the budget that is consumed; more than one when the objective is not met. What was
    /// not counted yet is taken as good: an hour of trouble on a new site is no month of it.
    pub consumed: Option<Ratio>,
    /// Bad ones that the budget of the whole window allows, at the rate until now.
    pub allowed: u64,
    /// Why the bad ones were bad, most first.
    pub causes: Vec<(Cause, u64)>,
    /// The same over the long window of the worst rule that holds: why it burns now. Where none
    /// holds, over its whole window.
    pub lately: Vec<(Cause, u64)>,
    /// The burn rate, over the last hour and each window that its rules look at.
    pub burn: Vec<(Span, Option<Ratio>)>,
    /// Rules that are firing now.
    pub firing: Vec<Firing>,
    /// Where none fires although a burn rate is above the factor of one: that rule, and why.
    pub unfired: Option<Unfired>,
    /// When it is exhausted, at the burn rate of the last hour.
    pub exhausted_in: Option<Span>,
}

impl Status {
    /// Is the whole budget exhausted?
    #[must_use]
    pub fn is_exhausted(&self) -> bool {
        self.consumed.is_some_and(|s| s >= Ratio::ONE)
    }

    /// How it stands, in a word; every list and page shows this one. `met` only while the share of
    /// good ones is at least the target; `below_target` while it is not, but too little of the
    /// window was counted for its whole budget to be spent.
    #[must_use]
    pub fn state(&self, target: Ppm) -> &'static str {
        match meets(self.count, target) {
            None => "no_data",
            Some(_) if self.is_exhausted() => "exhausted",
            Some(_) if !self.firing.is_empty() => "burning",
            Some(false) => "below_target",
            Some(true) => "met",
        }
    }

    /// The share of the budget that is left.
    #[must_use]
    pub fn remaining(&self) -> Option<Ratio> {
        self.consumed.map(Ratio::rest)
    }

    /// The share of the budget that was left after each hour of a chart: counted back from now, of the
    /// budget of the whole window as it is now. None before anything was counted.
    #[must_use]
    pub fn left_after(&self, chart: &[ChartHour]) -> Vec<Option<Ppm>> {
        let whole = u64::from(Ppm::ONE.0);
        let first = chart.iter().position(|h| h.count.total > 0).unwrap_or(chart.len());
        let mut left = vec![None; chart.len()];
        let Some(consumed) = self.consumed.filter(|_| self.allowed > 0) else { return left };
        // Bad ones of later hours.
        let mut later = 0u64;
        for (n, hour) in chart.iter().enumerate().skip(first).rev() {
            let since = Ratio::new(u128::from(later), u128::from(self.allowed)).of(whole);
            let used = consumed.of(whole).saturating_sub(since);
            left[n] = u32::try_from(whole.saturating_sub(used)).ok().map(Ppm);
            later = later.saturating_add(hour.count.bad());
        }
        left
    }
}

/// The window of an objective at a moment, and how long it is when it is over.
#[must_use]
pub fn reach(window: Window, now: Time) -> (TimeRange, Span) {
    match window {
        Window::Rolling(w) => (TimeRange::Last(w), w),
        Window::Month => {
            let (start, length) = month(now);
            (TimeRange::From(start), length)
        }
    }
}

/// How an objective stands at a moment.
#[must_use]
pub fn status(objective: &Objective, counts: Counts<'_>, now: Time) -> Status {
    status_judged(objective, counts, now, now)
}

/// The whole minute at which alerts last followed from objectives: they are evaluated once a minute,
/// so whoever looks in between sees the rules that fired then, and the alert with them.
#[must_use]
pub fn last_judged(now: Time) -> Time {
    const MINUTE: i64 = 60_000;
    Time(now.0.div_euclid(MINUTE).saturating_mul(MINUTE))
}

/// How an objective stands at a moment, with the rules that fired at an earlier one.
#[must_use]
pub fn status_judged(objective: &Objective, counts: Counts<'_>, now: Time, judged: Time) -> Status {
    let meter = Meter::new(objective, counts);
    let (window, length) = reach(objective.window, now);
    let (count, counted) = (meter.count(window, now), meter.counted(window, now).min(length));
    let consumed = meter.consumed(count, counted, length);
    let why = |reach: TimeRange| {
        let mut causes: Vec<_> = counts.causes(&meter.series, reach, now).into_iter().collect();
        causes.sort_by_key(|(cause, n)| (std::cmp::Reverse(*n), *cause));
        causes
    };
    let rules = burn::rules(objective);
    let firing = burn::firing(objective, &rules, counts, judged);
    // Causes are kept by the hour: one more, so that the window is all in it.
    let lately = burn::worst(&firing)
        .map_or(window, |f| TimeRange::Last(Span(f.over.0.saturating_add(Span::hours(1).0))));
    // The forecast's own is shown, too.
    let spans = rules.iter().flat_map(|r| [r.short, burn::over(r)]).chain([Span::hours(1)]);
    let spans = distinct(spans);
    let pace = meter.rate(Span::hours(1), now).unwrap_or(Ratio::ZERO);
    let burn: Vec<_> = spans.into_iter().map(|w| (w, meter.rate(w, now))).collect();
    let unfired = if firing.is_empty() { burn::unfired(&meter, &rules, &burn, now) } else { None };
    Status {
        count,
        counted,
        sli: sli(count),
        consumed,
        allowed: meter.allowed(count, counted, length),
        causes: why(window),
        lately: why(lately),
        burn,
        firing,
        unfired,
        exhausted_in: consumed.and_then(|s| forecast(s, pace, length)),
    }
}

/// The objectives that stop this, because their budgets are exhausted.
pub fn stopped_by<'a>(
    gate: Gate,
    standing: impl IntoIterator<Item = (&'a Objective, &'a Status)>,
) -> impl Iterator<Item = &'a Objective> {
    let stops =
        move |(o, s): &(&'a Objective, &'a Status)| s.is_exhausted() && o.gates.contains(&gate);
    standing.into_iter().filter(stops).map(|(o, _)| o)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ledger::{Ledger, Series};
    use muster_model::slo::{NotFiring, Scope, Sli};

    const HOUR: i64 = 3_600_000;

    fn objective(target: &str) -> Objective {
        let text = format!(
            r#"{{"name":"o","sli":"api_availability","target":"{target}","window":"30d","gates":["rollouts"]}}"#
        );
        serde_json::from_str(&text).unwrap()
    }

    // 99.9% of 1,000,000 requests allows 1,000 errors. 250 of them: a quarter of the budget, and an
    // indicator of 99.975%.
    #[test]
    fn a_quarter_of_a_budget() {
        let count = Count { good: 999_750, total: 1_000_000 };
        let target = Ppm(999_000);
        assert_eq!(sli(count).unwrap(), Ratio::new(39_990, 40_000));
        assert_eq!(burn(count, target).unwrap(), Ratio::new(1, 4));
        // 1.44% errors are 14.4 times what 99.9% allows: the budget of 30 days in 50 hours.
        let fast = Count { good: 98_560, total: 100_000 };
        assert_eq!(burn(fast, target).unwrap(), Ratio::new(144, 10));
        let days = Span::hours(30 * 24);
        assert_eq!(forecast(Ratio::ZERO, Ratio::new(144, 10), days), Some(Span::hours(50)));
        // Three quarters left: 37 and a half hours.
        let left = forecast(Ratio::new(1, 4), Ratio::new(144, 10), days);
        assert_eq!(left, Some(Span::mins(37 * 60 + 30)));
        assert_eq!(forecast(Ratio::new(1, 4), Ratio::ZERO, days), None);
        assert_eq!(forecast(Ratio::ZERO, Ratio::new(1, 24_000), days), None);
        assert_eq!(forecast(Ratio::ONE, Ratio::ZERO, days), Some(Span(0)));
    }

    #[test]
    fn no_data_is_said_and_is_no_hundred_percent() {
        let empty = Ledger::default();
        let s = status(&objective("99.9%"), Counts(&[&empty]), Time(1000 * HOUR));
        assert_eq!((s.sli, s.consumed, s.remaining(), s.exhausted_in), (None, None, None, None));
        assert!(!s.is_exhausted() && s.firing.is_empty());
    }

    // A month of 720 hours with 1,000 requests each; errors in two of them.
    #[test]
    fn a_status_adds_up_by_hand() {
        let o = objective("99.9%");
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let mut l = Ledger::default();
        for h in 0..720 {
            let bad = match h {
                100 => 500,
                719 => 40,
                _ => 0,
            };
            let count = Count { good: 1000 - bad, total: 1000 };
            let cause = if h == 100 { Cause::Platform } else { Cause::Slow };
            l.note(Time(h * HOUR + 1), &series, count, Some(cause));
        }
        let s = status(&o, Counts(&[&l]), Time(720 * HOUR));
        assert_eq!(s.count, Count { good: 719_460, total: 720_000 });
        // 540 of 720 that are allowed.
        assert_eq!((s.allowed, s.consumed), (720, Some(Ratio::new(3, 4))));
        assert_eq!(s.causes, vec![(Cause::Platform, 500), (Cause::Slow, 40)]);
        // 4% in the last hour is 40 times too fast; a quarter of 720 hours at that speed is 4.5.
        let hour = s.burn.iter().find(|(w, _)| *w == Span::hours(1)).unwrap();
        assert_eq!(hour.1, Some(Ratio::new(40, 1)));
        assert_eq!(s.exhausted_in, Some(Span::mins(270)));
        // The 40 of the last hour are 40 of 720, and after the first hundred hours nothing was used.
        let chart = Meter::new(&o, Counts(&[&l])).chart(Span::hours(720), Time(720 * HOUR));
        let left: Vec<u32> = s.left_after(&chart).into_iter().flatten().map(|p| p.0).collect();
        let before_last = left[left.len() - 2];
        assert_eq!((left.len(), left.last()), (chart.len(), Some(&250_000)));
        assert_eq!((left[50], before_last), (1_000_000, 305_555));
        assert_eq!(stopped_by(Gate::Rollouts, [(&o, &s)]).count(), 0);
        // The tail of what is only so at the moment counts, too: 180 more and it is spent.
        let mut tail = Ledger::default();
        let more = Count::bad_ones(180);
        tail.note(Time(720 * HOUR), &series, more, Some(Cause::Slow));
        let s = status(&o, Counts(&[&l, &tail]), Time(720 * HOUR));
        // 720 bad of 720,180: the budget is 720.18, so a hair is left.
        assert!(!s.is_exhausted());
        tail.note(Time(720 * HOUR), &series, Count::bad_ones(1), Some(Cause::Slow));
        let s = status(&o, Counts(&[&l, &tail]), Time(720 * HOUR));
        assert!(s.is_exhausted());
        assert_eq!(s.exhausted_in, Some(Span(0)));
        assert_eq!(stopped_by(Gate::Rollouts, [(&o, &s)]).count(), 1);
    }

    #[test]
    fn a_state_never_contradicts_the_share_beside_it() {
        let o = objective("90%");
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let now = Time(2 * HOUR);
        let state = |good: u64, total: u64| {
            let mut l = Ledger::default();
            l.note(Time(HOUR), &series, Count { good, total }, Some(Cause::Slow));
            let s = status(&o, Counts(&[&l]), now);
            assert!(!s.is_exhausted() && s.firing.is_empty(), "{s:?}");
            assert!(s.burn.iter().any(|(w, _)| *w == Span::hours(1)), "the forecast's is shown");
            (s.state(o.target), meets(s.count, o.target))
        };
        // An hour of a month: its budget is not exhausted by one that is bad, yet 8 of 9 are no 90%.
        assert_eq!(state(8, 9), ("below_target", Some(false)));
        assert_eq!(state(9, 10), ("met", Some(true)));
        let none = status(&o, Counts(&[]), now);
        assert_eq!((none.state(o.target), meets(none.count, o.target)), ("no_data", None));
    }

    #[test]
    fn an_objective_burns_from_the_minute_on_at_which_its_alert_is_raised() {
        let o = objective("99.9%");
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let mut l = Ledger::default();
        for m in 0..600 {
            l.note(Time(m * 60_000), &series, Count::good(1000), None);
        }
        let minute = Time(600 * 60_000);
        l.note(minute + Span::secs(5), &series, Count::bad_ones(5000), Some(Cause::Slow));
        let at = |now: Time| status_judged(&o, Counts(&[&l]), now, last_judged(now));
        // Alerts are decided at whole minutes: until the next one it is not called burning.
        let before = at(minute + Span::secs(30));
        assert!(before.firing.is_empty() && before.count.bad() > 0, "{before:?}");
        assert_eq!(before.unfired.map(|u| u.why), Some(NotFiring::NextMinute));
        let after = at(minute + Span::mins(1));
        assert_eq!(after.firing, status(&o, Counts(&[&l]), minute + Span::mins(1)).firing);
        assert!(!after.firing.is_empty() && after.unfired.is_none(), "{after:?}");
    }

    #[test]
    fn a_chart_and_a_table_say_the_same_of_the_last_hour() {
        let o = objective("99%");
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let (mut l, mut tail) = (Ledger::default(), Ledger::default());
        l.note(Time(HOUR), &series, Count { good: 95, total: 100 }, None);
        l.note(Time(2 * HOUR + HOUR / 2), &series, Count { good: 96, total: 100 }, None);
        tail.note(Time(3 * HOUR + HOUR / 4), &series, Count { good: 98, total: 100 }, None);
        let now = Time(3 * HOUR + HOUR / 4);
        let ledgers = [&l, &tail];
        let meter = Meter::new(&o, Counts(&ledgers));
        let chart = meter.chart(Span::hours(24), now);
        let rates: Vec<_> = chart.iter().map(|h| (h.at, h.count.total, h.rate)).collect();
        // Counting began in the last minute of the first hour.
        assert_eq!(rates[0], (Time(HOUR), 100, Some(Ratio::new(5, 60))));
        assert_eq!(rates[1], (Time(3 * HOUR), 100, Some(Ratio::new(4, 1))));
        let last = status(&o, Counts(&ledgers), now).burn;
        let last = last.iter().find(|(w, _)| *w == Span::hours(1)).unwrap().1;
        // Four of the half hour before and two of this one.
        assert_eq!((rates[2].2, last), (Some(Ratio::new(3, 1)), Some(Ratio::new(3, 1))));
    }

    #[test]
    fn a_month_begins_anew() {
        let mut o = objective("99%");
        o.window = Window::Month;
        let series = Series { sli: Sli::ApiAvailability, scope: Scope::default() };
        let mut l = Ledger::default();
        // 2026-03-01T00:00:00Z.
        let march = 1_772_323_200_000;
        l.note(Time(march), &series, Count::bad_ones(5), None);
        l.note(Time(march + 1), &series, Count::good(100), None);
        let s = status(&o, Counts(&[&l]), Time(march + 10 * HOUR));
        assert_eq!(s.count, Count::good(100));
        let s = status(&o, Counts(&[&l]), Time(march));
        assert_eq!(s.count, Count::default());
    }
}
