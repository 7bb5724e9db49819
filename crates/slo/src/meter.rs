//! The burn rate of an error budget, by what was counted.

use crate::ledger::{Count, Ledger, Series, TimeRange};
use crate::ratio::Ratio;
use muster_model::slo::{Cause, Objective, Ppm, Unit};
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// Counts of the same things in several places: the book's, and what is only so at the moment.
#[derive(Debug, Clone, Copy)]
pub struct Counts<'a>(pub &'a [&'a Ledger]);

impl Counts<'_> {
    /// What was counted in a time that ends at `now`.
    #[must_use]
    pub fn count(&self, series: &Series, reach: TimeRange, now: Time) -> Count {
        let parts = self.0.iter().map(|l| l.count(series, reach, now));
        parts.fold(Count::default(), |sum, c| Count {
            good: sum.good.saturating_add(c.good),
            total: sum.total.saturating_add(c.total),
        })
    }

    /// Since when something is counted.
    fn since(&self, series: &Series) -> Option<Time> {
        self.0.iter().filter_map(|l| l.since(series)).min()
    }

    /// Why those that were bad were bad.
    #[must_use]
    pub fn causes(&self, series: &Series, reach: TimeRange, now: Time) -> BTreeMap<Cause, u64> {
        let mut out = BTreeMap::new();
        for (cause, n) in self.0.iter().flat_map(|l| l.causes(series, reach, now)) {
            let sum: &mut u64 = out.entry(cause).or_default();
            *sum = sum.saturating_add(n);
        }
        out
    }
}

/// The burn rate of an objective's error budget, for whoever asks: rules, tables, charts, alerts.
///
/// Time of a window that was not counted is taken as good at the same pace: a minute of trouble on
/// a site of a minute is no hour of it. Where time itself is counted, there is at least one thing
/// all the time: ten lost seconds are not much because nobody else used a GPU that day.
#[derive(Debug, Clone)]
pub struct Meter<'a> {
    objective: &'a Objective,
    counts: Counts<'a>,
    pub(crate) series: Series,
    since: Option<Time>,
}

/// An hour of a chart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChartHour {
    /// Where it ends.
    pub at: Time,
    /// What was counted in it.
    pub count: Count,
    /// The burn rate of the error budget in it; in the last 60 minutes where it is not over.
    pub rate: Option<Ratio>,
}

impl<'a> Meter<'a> {
    /// Of an objective, by what was counted.
    #[must_use]
    pub fn new(objective: &'a Objective, counts: Counts<'a>) -> Meter<'a> {
        let series = Series { sli: objective.sli, scope: objective.scope.clone() };
        let since = counts.since(&series);
        Meter { objective, counts, series, since }
    }

    /// What was counted in a time that ends at `now`.
    #[must_use]
    pub fn count(&self, reach: TimeRange, now: Time) -> Count {
        self.counts.count(&self.series, reach, now)
    }

    /// How much of a time that ends at `now` was counted.
    #[must_use]
    pub fn counted(&self, reach: TimeRange, now: Time) -> Span {
        let start = match reach {
            TimeRange::Last(w) => now - w,
            TimeRange::From(t) | TimeRange::Between(t, _) => t,
        };
        self.since.map_or(Span(0), |since| now.since(since.max(start)))
    }

    /// The burn rate of the error budget over a window that ends at `now`. None where nothing was
    /// counted.
    #[must_use]
    pub fn rate(&self, window: Span, now: Time) -> Option<Ratio> {
        let reach = TimeRange::Last(window);
        self.consumed(self.count(reach, now), self.counted(reach, now), window)
    }

    /// The hours of the last so long.
    #[must_use]
    pub fn chart(&self, last: Span, now: Time) -> Vec<ChartHour> {
        let hour = Span::hours(1);
        let hours = self.counts.0.iter().flat_map(|l| l.chart(&self.series, last, now));
        let mut hours: Vec<(Time, Count)> = hours.collect();
        hours.sort_by_key(|(at, _)| *at);
        hours.dedup_by(|next, kept| {
            let same = next.0 == kept.0;
            if same {
                kept.1.add(next.1);
            }
            same
        });
        let of = |(at, count): (Time, Count)| {
            let over = || self.consumed(count, self.counted(TimeRange::Last(hour), at), hour);
            let rate = if at > now { self.rate(hour, now) } else { over() };
            ChartHour { at, count, rate }
        };
        hours.into_iter().map(of).collect()
    }

    /// All that there would be in a whole window, of which so long was counted.
    fn whole(&self, count: Count, counted: Span, window: Span) -> Ratio {
        let (window, wide) = (u128::from(window.0), u128::from);
        let counted = wide(counted.0).clamp(1, window.max(1));
        let all = Ratio::new(wide(count.total) * window, counted);
        match self.objective.sli.unit() {
            Unit::Time => all.max(Ratio::new(window, 1)),
            Unit::Events => all,
        }
    }

    /// What so many cost of the budget of a window.
    pub(crate) fn consumed(&self, count: Count, counted: Span, window: Span) -> Option<Ratio> {
        let bad = u128::from(count.bad()) * u128::from(Ppm::ONE.0);
        let bad = Ratio::new(bad, u128::from(self.objective.target.rest().0));
        (count.total > 0).then(|| bad.over(self.whole(count, counted, window)))
    }

    /// Bad ones that the budget of a window allows, rounded down.
    pub(crate) fn allowed(&self, count: Count, counted: Span, window: Span) -> u64 {
        let rest = u128::from(self.objective.target.rest().0);
        let share = Ratio::new(rest, u128::from(Ppm::ONE.0));
        share.times(self.whole(count, counted, window)).of(1)
    }
}
