//! Good and all, by indicator and time.
//!
//! For each series the last 15 hours are kept by the minute and the last 90 days by the hour; a
//! bucket is made when something is counted in it. A series thus holds at most 901 minutes and
//! 2,161 hours: about 150 KiB when something happened in every one of them, and [`SERIES_MAX`]
//! series are kept.
//!
//! A bucket holds what happened after its beginning and not after its end, as a counter that is
//! read at both: a window that ends on a whole minute holds what a series database says about the
//! same two moments.

pub use crate::count::Count;
use crate::count::MINUTES_KEPT;
use crate::minutes::MinuteRing;
use muster_model::slo::{Cause, FINE_MAX, Scope, Sli, WINDOW_MAX};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 3_600_000;
const HOURS_KEPT: i64 = 90 * 24 + 1;
/// Series at most; more are not counted.
pub const SERIES_MAX: usize = 400;

/// What is counted: an indicator, for whom.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Series {
    /// What is measured, with its limit.
    pub sli: Sli,
    /// What it is counted for: the whole site, a project or a pool.
    #[serde(default, skip_serializing_if = "Scope::is_site")]
    pub scope: Scope,
}

/// Which time is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimeRange {
    /// The last so long. Up to 8 hours whole minutes, beyond that whole hours; the newest one
    /// counts as whole.
    Last(Span),
    /// From a moment on, in whole hours.
    From(Time),
    /// From a moment to another, in whole hours.
    Between(Time, Time),
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Hour {
    count: Count,
    causes: BTreeMap<Cause, u64>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Track {
    ever: Count,
    minutes: MinuteRing,
    hours: BTreeMap<i64, Hour>,
}

/// The bucket that a moment is in, named by where it ends.
fn bucket(t: Time, size: i64) -> i64 {
    t.0.div_euclid(size).saturating_add(i64::from(t.0.rem_euclid(size) != 0))
}

impl Track {
    fn add(&mut self, at: Time, newest: Time, count: Count, cause: Option<Cause>) {
        self.ever.add(count);
        let minute = bucket(at, MINUTE);
        if minute > bucket(newest, MINUTE) - MINUTES_KEPT {
            self.minutes.add(minute, count);
        }
        let hour = bucket(at, HOUR);
        if hour > bucket(newest, HOUR) - HOURS_KEPT {
            self.hours.entry(hour).or_default().note(count, cause);
        }
    }

    /// Time from one moment to another, of so many things at once.
    fn spread(&mut self, from: Time, to: Time, newest: Time, weight: u64, how: Result<(), Cause>) {
        let of = |ms: u64| match how {
            Ok(()) => (Count::good(ms.saturating_mul(weight)), None),
            Err(cause) => (Count::bad_ones(ms.saturating_mul(weight)), Some(cause)),
        };
        self.ever.add(of(to.since(from).0).0);
        let within = |b: i64, size: i64| {
            let (start, end) = (Time((b - 1).saturating_mul(size)), Time(b.saturating_mul(size)));
            end.min(to).since(start.max(from)).0
        };
        let buckets = |size: i64, kept: i64| {
            let first = bucket(from, size).max(bucket(newest, size) - kept + 1);
            // Nothing of it is in the first when it began at the end of that.
            (first + i64::from(within(first, size) == 0), bucket(to, size))
        };
        self.minutes.add_each(buckets(MINUTE, MINUTES_KEPT), |b| of(within(b, MINUTE)).0);
        let (first, last) = buckets(HOUR, HOURS_KEPT);
        for b in first..=last {
            let (count, cause) = of(within(b, HOUR));
            self.hours.entry(b).or_default().note(count, cause);
        }
    }

    fn prune(&mut self, newest: Time) {
        let (minute, hour) = (bucket(newest, MINUTE), bucket(newest, HOUR));
        self.minutes.forget_before(minute - MINUTES_KEPT + 1);
        self.hours = self.hours.split_off(&(hour - HOURS_KEPT + 1));
    }
}

impl Hour {
    fn note(&mut self, count: Count, cause: Option<Cause>) {
        self.count.add(count);
        if count.bad() > 0 {
            let n = self.causes.entry(cause.unwrap_or(Cause::Unknown)).or_default();
            *n = n.saturating_add(count.bad());
        }
    }
}

/// The counts of every series.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(into = "Vec<StoredSeries>", from = "Vec<StoredSeries>")]
pub struct Ledger {
    tracks: BTreeMap<Series, Track>,
    newest: Time,
}

impl Ledger {
    /// Counts what happened at a moment; what is older than is kept only adds to what ever was.
    pub fn note(&mut self, at: Time, series: &Series, count: Count, cause: Option<Cause>) {
        if count.total == 0 {
            return;
        }
        let newest = self.advance(at);
        if let Some(track) = self.track(series) {
            track.add(at, newest, count, cause);
        }
    }

    /// Counts time: so many things were good from one moment to another, or bad and why.
    pub fn spread(
        &mut self,
        (from, to): (Time, Time),
        series: &Series,
        weight: u64,
        how: Result<(), Cause>,
    ) {
        if from >= to || weight == 0 {
            return;
        }
        let newest = self.advance(to);
        if let Some(track) = self.track(series) {
            track.spread(from, to, newest, weight, how);
        }
    }

    /// One that was counted at a moment turned out to be the other way round.
    pub fn amend(&mut self, at: Time, series: &Series, was: Option<Cause>, is: Option<Cause>) {
        let Some(track) = self.tracks.get_mut(series) else { return };
        let turn = |c: &mut Count| match (was, is) {
            (Some(_), None) => c.good = c.good.saturating_add(1).min(c.total),
            (None, Some(_)) => c.good = c.good.saturating_sub(1),
            _ => {}
        };
        if let Some(c) = track.minutes.get_mut(bucket(at, MINUTE)) {
            turn(c);
        }
        if let Some(h) = track.hours.get_mut(&bucket(at, HOUR)) {
            turn(&mut h.count);
            if let Some(n) = was.and_then(|c| h.causes.get_mut(&c)) {
                *n = n.saturating_sub(1);
            }
            if let Some(cause) = is {
                *h.causes.entry(cause).or_default() += 1;
            }
            h.causes.retain(|_, n| *n > 0);
        }
    }

    /// So many that were counted as bad at a moment, or not at all, are bad for another cause, or
    /// should not have been counted.
    pub fn recount(
        &mut self,
        at: Time,
        series: &Series,
        n: u64,
        was: Option<Cause>,
        is: Option<Cause>,
    ) {
        if let Some(was) = was
            && let Some(track) = self.tracks.get_mut(series)
        {
            let less = |c: &mut Count| c.total = c.total.saturating_sub(n).max(c.good);
            less(&mut track.ever);
            track.minutes.get_mut(bucket(at, MINUTE)).into_iter().for_each(less);
            if let Some(h) = track.hours.get_mut(&bucket(at, HOUR)) {
                less(&mut h.count);
                if let Some(left) = h.causes.get_mut(&was) {
                    *left = left.saturating_sub(n);
                }
                h.causes.retain(|_, left| *left > 0);
            }
        }
        if is.is_some() {
            self.note(at, series, Count::bad_ones(n), is);
        }
    }

    fn advance(&mut self, at: Time) -> Time {
        // Buckets are dropped when an hour is full, not at every count.
        if bucket(at, HOUR) > bucket(self.newest, HOUR) {
            self.tracks.values_mut().for_each(|t| t.prune(at));
        }
        self.newest = self.newest.max(at);
        self.newest
    }

    fn track(&mut self, series: &Series) -> Option<&mut Track> {
        if !self.tracks.contains_key(series) {
            if self.tracks.len() >= SERIES_MAX {
                return None;
            }
            self.tracks.insert(series.clone(), Track::default());
        }
        self.tracks.get_mut(series)
    }

    /// What was counted in a time that ends at `now`.
    #[must_use]
    pub fn count(&self, series: &Series, reach: TimeRange, now: Time) -> Count {
        let mut sum = Count::default();
        let Some(track) = self.tracks.get(series) else { return sum };
        match reach {
            TimeRange::Last(w) if w <= FINE_MAX => {
                let end = bucket(now, MINUTE);
                let n = i64::try_from(w.0).unwrap_or(i64::MAX) / MINUTE;
                track.minutes.range(end - n + 1, end).for_each(|c| sum.add(c));
            }
            _ => {
                let (first, end) = hours(reach, now);
                if first <= end {
                    track.hours.range(first..=end).for_each(|(_, h)| sum.add(h.count));
                }
            }
        }
        sum
    }

    /// Why those that were bad in a time were bad; in whole hours.
    #[must_use]
    pub fn causes(&self, series: &Series, reach: TimeRange, now: Time) -> BTreeMap<Cause, u64> {
        let mut out = BTreeMap::new();
        let Some(track) = self.tracks.get(series) else { return out };
        let (first, end) = hours(reach, now);
        if first > end {
            return out;
        }
        for (cause, n) in track.hours.range(first..=end).flat_map(|(_, h)| &h.causes) {
            let sum: &mut u64 = out.entry(*cause).or_default();
            *sum = sum.saturating_add(*n);
        }
        out
    }

    /// Since when a series is counted, as far as is kept: the beginning of its first minute, or of
    /// its first hour where the minutes of that are gone.
    #[must_use]
    pub fn since(&self, series: &Series) -> Option<Time> {
        let track = self.tracks.get(series)?;
        let (hour, _) = track.hours.first_key_value()?;
        let starts = |b: i64, size: i64| Time(b.saturating_sub(1).saturating_mul(size));
        let within = |b: &i64| bucket(Time(b.saturating_mul(MINUTE)), HOUR) == *hour;
        let minute = track.minutes.first().filter(within);
        Some(minute.map_or(starts(*hour, HOUR), |b| starts(b, MINUTE)))
    }

    /// What was ever counted: only grows, so it can be shown as a counter.
    #[must_use]
    pub fn ever(&self, series: &Series) -> Count {
        self.tracks.get(series).map(|t| t.ever).unwrap_or_default()
    }

    /// The buckets of a series for a chart: the hours of the last so long, by where each ends.
    #[must_use]
    pub fn chart(&self, series: &Series, last: Span, now: Time) -> Vec<(Time, Count)> {
        let (first, end) = hours(TimeRange::Last(last.min(WINDOW_MAX)), now);
        let Some(track) = self.tracks.get(series).filter(|_| first <= end) else {
            return Vec::new();
        };
        track
            .hours
            .range(first..=end)
            .map(|(b, h)| (Time(b.saturating_mul(HOUR)), h.count))
            .collect()
    }

    /// Keeps only these series.
    pub fn retain(&mut self, keep: impl Fn(&Series) -> bool) {
        self.tracks.retain(|s, _| keep(s));
    }
}

fn hours(reach: TimeRange, now: Time) -> (i64, i64) {
    let end = bucket(now, HOUR);
    match reach {
        // A shorter one is looked at as the hours it touches.
        TimeRange::Last(w) => {
            let n = i64::try_from(w.0).unwrap_or(i64::MAX);
            (end - (n / HOUR + i64::from(n % HOUR != 0)) + 1, end)
        }
        TimeRange::From(t) => (t.0.div_euclid(HOUR).saturating_add(1), end),
        TimeRange::Between(from, to) => {
            (from.0.div_euclid(HOUR).saturating_add(1), bucket(to, HOUR).min(end))
        }
    }
}

/// A series as it is kept in a snapshot.
#[derive(Clone, Serialize, Deserialize)]
struct StoredSeries {
    #[serde(flatten)]
    series: Series,
    ever: Count,
    newest: Time,
    minutes: Vec<(i64, u64, u64)>,
    hours: Vec<WrittenHour>,
}

/// Where it ends, good, all, and why the rest was bad.
type WrittenHour = (i64, u64, u64, Vec<(Cause, u64)>);

impl From<Ledger> for Vec<StoredSeries> {
    fn from(ledger: Ledger) -> Vec<StoredSeries> {
        let newest = ledger.newest;
        let one = |(series, t): (Series, Track)| StoredSeries {
            series,
            ever: t.ever,
            newest,
            minutes: t.minutes.iter().map(|(b, c)| (b, c.good, c.total)).collect(),
            hours: t
                .hours
                .into_iter()
                .map(|(b, h)| (b, h.count.good, h.count.total, h.causes.into_iter().collect()))
                .collect(),
        };
        ledger.tracks.into_iter().map(one).collect()
    }
}

impl From<Vec<StoredSeries>> for Ledger {
    fn from(written: Vec<StoredSeries>) -> Ledger {
        let mut out = Ledger::default();
        for w in written.into_iter().take(SERIES_MAX) {
            out.newest = out.newest.max(w.newest);
            let count = |good: u64, total: u64| Count { good: good.min(total), total };
            let hours = w.hours.into_iter().map(|(b, good, total, causes)| {
                (b, Hour { count: count(good, total), causes: causes.into_iter().collect() })
            });
            let track = Track {
                ever: w.ever,
                minutes: w.minutes.into_iter().map(|(b, g, t)| (b, count(g, t))).collect(),
                hours: hours.collect(),
            };
            out.tracks.insert(w.series, track);
        }
        out
    }
}

#[cfg(test)]
#[path = "ledger_tests.rs"]
mod tests;
