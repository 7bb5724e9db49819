use super::*;
use proptest::prelude::*;

fn series(under: u64) -> Series {
    Series { sli: Sli::Start { under: Span::secs(under) }, scope: Scope::default() }
}

const M: i64 = MINUTE;
const H: i64 = HOUR;

#[test]
fn a_window_holds_what_happened_after_its_beginning_and_not_after_its_end() {
    let (mut l, s) = (Ledger::default(), series(1));
    let base = 1_000 * H;
    for (at, n) in [(base, 1), (base + 1, 10), (base + 60 * M, 100), (base + 60 * M + 1, 1000)] {
        l.note(Time(at), &s, Count::good(n), None);
    }
    let hour = |now: i64| l.count(&s, TimeRange::Last(Span::hours(1)), Time(now)).total;
    assert_eq!(hour(base), 1);
    assert_eq!(hour(base + 60 * M), 110);
    assert_eq!(hour(base + 60 * M + 1), 1100);
    assert_eq!(hour(base + 120 * M), 1000);
    assert_eq!(l.count(&s, TimeRange::Last(Span::hours(9)), Time(base + 120 * M)).total, 1111);
    assert_eq!(l.count(&s, TimeRange::From(Time(base)), Time(base + 120 * M)).total, 1110);
    assert_eq!(l.count(&series(2), TimeRange::Last(Span::hours(1)), Time(base)), Count::default());
    assert_eq!(l.ever(&s), Count::good(1111));
}

#[test]
fn time_is_spread_over_the_buckets_it_lasts() {
    let s = Series { sli: Sli::NodeAvailability, scope: Scope::default() };
    let mut l = Ledger::default();
    let from = 100 * H + 30 * M + 15_000;
    // Three nodes for two hours, then two of them broken for half an hour.
    l.spread((Time(from), Time(from + 2 * H)), &s, 3, Ok(()));
    l.spread((Time(from + 2 * H), Time(from + 2 * H + 30 * M)), &s, 2, Err(Cause::Repair));
    let now = Time(from + 2 * H + 30 * M);
    let last = |w: Span| l.count(&s, TimeRange::Last(w), now);
    // The newest minute counts as a whole one: 15 s of it are there.
    let (a, b) = (30 * M as u64 - 45_000, 30 * M as u64);
    assert_eq!(last(Span::mins(30)), Count::bad_ones(2 * a));
    assert_eq!(last(Span::mins(31)), Count { good: 3 * 15_000, total: 3 * 15_000 + 2 * b });
    assert_eq!(last(Span::hours(24)).good, 3 * 2 * H as u64);
    assert_eq!(l.causes(&s, TimeRange::Last(Span::hours(24)), now)[&Cause::Repair], 2 * b);
}

#[test]
fn old_buckets_go_and_the_sum_of_all_stays() {
    let (mut l, s) = (Ledger::default(), series(1));
    for h in 0..5000 {
        for m in 0..4 {
            l.note(Time(h * H + m * 15 * M + 1), &s, Count::good(1), None);
        }
    }
    let track = &l.tracks[&s];
    assert!(track.minutes.iter().count() <= usize::try_from(MINUTES_KEPT).unwrap());
    assert!(track.hours.len() <= usize::try_from(HOURS_KEPT).unwrap());
    assert_eq!(l.ever(&s).total, 20_000);
    let now = Time(5000 * H);
    assert_eq!(l.count(&s, TimeRange::Last(WINDOW_MAX), now).total, 90 * 24 * 4);
    assert_eq!(l.count(&s, TimeRange::Last(Span::hours(8)), now).total, 32);
    // What comes too late is only in the sum of all.
    l.note(Time(10), &s, Count::good(1), None);
    assert_eq!(l.count(&s, TimeRange::Last(WINDOW_MAX), now).total, 90 * 24 * 4);
    assert_eq!(l.ever(&s).total, 20_001);
}

#[test]
fn what_turned_out_otherwise_is_amended_where_it_was_counted() {
    let (mut l, s, at) = (Ledger::default(), series(1), Time(50 * H + 7));
    l.note(at, &s, Count::bad_ones(1), Some(Cause::Unknown));
    l.note(Time(51 * H), &s, Count::good(1), None);
    let now = Time(52 * H);
    let count = |l: &Ledger| l.count(&s, TimeRange::Last(Span::hours(4)), now);
    l.amend(at, &s, Some(Cause::Unknown), None);
    assert_eq!(count(&l), Count::good(2));
    assert!(l.causes(&s, TimeRange::Last(Span::hours(4)), now).is_empty());
    l.amend(at, &s, None, Some(Cause::Hardware));
    assert_eq!(count(&l), Count { good: 1, total: 2 });
    l.amend(at, &s, Some(Cause::Hardware), Some(Cause::Platform));
    assert_eq!(count(&l), Count { good: 1, total: 2 });
    assert_eq!(
        l.causes(&s, TimeRange::Last(Span::hours(4)), now),
        BTreeMap::from([(Cause::Platform, 1)])
    );
}

#[test]
fn since_when_is_known_to_the_minute_as_long_as_minutes_are() {
    let (mut l, s) = (Ledger::default(), series(1));
    assert_eq!(l.since(&s), None);
    let first = 50 * H + 17 * M;
    l.note(Time(first + 5), &s, Count::good(1), None);
    assert_eq!(l.since(&s), Some(Time(first)));
    l.note(Time(first + 3 * H), &s, Count::good(1), None);
    assert_eq!(l.since(&s), Some(Time(first)));
    l.note(Time(first + 30 * H), &s, Count::good(1), None);
    assert_eq!(l.since(&s), Some(Time(50 * H)), "its minutes are gone");
    let empty = Ledger::default();
    assert_eq!(empty.since(&s), None);
}

#[test]
fn no_more_series_than_are_kept() {
    let mut l = Ledger::default();
    for n in 0..SERIES_MAX as u64 + 50 {
        l.note(Time(1), &series(n + 1), Count::good(1), None);
    }
    assert_eq!(l.tracks.len(), SERIES_MAX);
}

#[test]
fn a_minute_of_which_nothing_is_left_is_stored_and_reports_since_when() {
    let (mut l, s, at) = (Ledger::default(), series(1), Time(50 * H + 7));
    l.note(at, &s, Count::bad_ones(3), Some(Cause::Unknown));
    l.note(at + Span::mins(2), &s, Count::good(1), None);
    l.recount(at, &s, 3, Some(Cause::Unknown), None);
    let stored = serde_json::to_value(&l).unwrap();
    assert_eq!(stored[0]["minutes"], serde_json::json!([[3001, 0, 0], [3003, 1, 1]]));
    assert_eq!(l.since(&s), Some(Time(50 * H)));
    let back: Ledger = serde_json::from_value(stored).unwrap();
    assert_eq!(back, l);
}

/// What a ledger says of the minutes of one series, with a map of them.
#[derive(Default)]
struct Minutes {
    counts: BTreeMap<i64, Count>,
    newest: Time,
}

impl Minutes {
    fn advance(&mut self, at: Time) {
        if bucket(at, HOUR) > bucket(self.newest, HOUR) {
            self.counts = self.counts.split_off(&(bucket(at, MINUTE) - MINUTES_KEPT + 1));
        }
        self.newest = self.newest.max(at);
    }

    fn add(&mut self, minute: i64, count: Count) {
        if minute > bucket(self.newest, MINUTE) - MINUTES_KEPT {
            self.counts.entry(minute).or_default().add(count);
        }
    }

    fn note(&mut self, at: Time, count: Count) {
        if count.total > 0 {
            self.advance(at);
            self.add(bucket(at, MINUTE), count);
        }
    }

    fn spread(&mut self, from: Time, to: Time, weight: u64, good: bool) {
        if from >= to || weight == 0 {
            return;
        }
        self.advance(to);
        for b in bucket(from, MINUTE)..=bucket(to, MINUTE) {
            let ms = Time(b * M).min(to).since(Time((b - 1) * M).max(from)).0 * weight;
            if ms > 0 {
                self.add(b, if good { Count::good(ms) } else { Count::bad_ones(ms) });
            }
        }
    }

    fn recount(&mut self, at: Time, n: u64) {
        if let Some(c) = self.counts.get_mut(&bucket(at, MINUTE)) {
            c.total = c.total.saturating_sub(n).max(c.good);
        }
    }

    fn amend(&mut self, at: Time) {
        if let Some(c) = self.counts.get_mut(&bucket(at, MINUTE)) {
            c.good = c.good.saturating_add(1).min(c.total);
        }
    }

    fn count(&self, minutes: i64, now: Time) -> Count {
        let (mut sum, end) = (Count::default(), bucket(now, MINUTE));
        self.counts.range(end - minutes + 1..=end).for_each(|(_, c)| sum.add(*c));
        sum
    }

    fn stored(&self) -> Vec<(i64, u64, u64)> {
        self.counts.iter().map(|(b, c)| (*b, c.good, c.total)).collect()
    }
}

/// What happens to a series: when, counted back from where time has come to, and what.
#[derive(Debug, Clone)]
enum Step {
    Pass(i64),
    Note(i64, u64, u64),
    Spread(i64, i64, u64, bool),
    Recount(i64, u64),
    Amend(i64),
    Restart,
}

fn step() -> impl Strategy<Value = Step> {
    // Whole minutes and hours as often as what is between them, and both more and less than is kept.
    let ms = || prop_oneof![0i64..3 * M, (0i64..1000).prop_map(|m| m * M), 0i64..40 * H];
    prop_oneof![
        4 => ms().prop_map(Step::Pass),
        4 => (ms(), 0u64..4, 0u64..4).prop_map(|(back, good, bad)| Step::Note(back, good, bad)),
        4 => (ms(), ms(), 0u64..4, any::<bool>()).prop_map(|(b, n, w, ok)| Step::Spread(b, n, w, ok)),
        2 => (ms(), 0u64..9).prop_map(|(back, n)| Step::Recount(back, n)),
        1 => ms().prop_map(Step::Amend),
        1 => Just(Step::Restart),
    ]
}

type Noted = (i64, u64, u64, u64);

fn ledger(notes: &[Noted]) -> Ledger {
    let mut l = Ledger::default();
    for (at, s, good, bad) in notes {
        let count = Count { good: *good, total: good + bad };
        l.note(Time(*at), &series(*s), count, Some(Cause::Slow));
    }
    l
}

fn notes() -> impl Strategy<Value = Vec<Noted>> {
    prop::collection::vec((0i64..200 * 24 * H, 1u64..3, 0u64..9, 0u64..9), 0..60)
}

proptest! {
    #[test]
    fn a_snapshot_is_read_back(a in notes()) {
        let l = ledger(&a);
        let text = serde_json::to_string(&l).unwrap();
        let back: Ledger = serde_json::from_str(&text).unwrap();
        prop_assert_eq!(&back.tracks, &l.tracks);
    }

    #[test]
    fn minutes_are_what_a_map_of_them_is(
        began in prop_oneof![Just(0i64), Just(5000 * H), 0i64..9000 * H],
        steps in prop::collection::vec(step(), 1..40),
    ) {
        let (mut ledger, mut model, s) = (Ledger::default(), Minutes::default(), series(1));
        let mut now = Time(began);
        for step in steps {
            let ago = move |back: i64| Time(now.0 - back);
            match step {
                Step::Pass(ms) => now = Time(now.0 + ms),
                Step::Note(back, good, bad) => {
                    let count = Count { good, total: good + bad };
                    ledger.note(ago(back), &s, count, None);
                    model.note(ago(back), count);
                }
                Step::Spread(back, long, weight, good) => {
                    let how = if good { Ok(()) } else { Err(Cause::Slow) };
                    let (from, to) = (Time(now.0 - back - long), ago(back));
                    ledger.spread((from, to), &s, weight, how);
                    model.spread(from, to, weight, good);
                }
                Step::Recount(back, n) => {
                    ledger.recount(ago(back), &s, n, Some(Cause::Slow), None);
                    model.recount(ago(back), n);
                }
                Step::Amend(back) => {
                    ledger.amend(ago(back), &s, Some(Cause::Slow), None);
                    model.amend(ago(back));
                }
                Step::Restart => {
                    let text = serde_json::to_string(&ledger).unwrap();
                    let back: Ledger = serde_json::from_str(&text).unwrap();
                    prop_assert_eq!(&back, &ledger);
                    ledger = back;
                }
            }
            let stored: Vec<StoredSeries> = ledger.clone().into();
            let minutes = stored.first().map(|s| s.minutes.clone()).unwrap_or_default();
            prop_assert_eq!(minutes, model.stored());
            for n in [1i64, 5, 60, 480] {
                let last = TimeRange::Last(Span::mins(n.unsigned_abs()));
                prop_assert_eq!(ledger.count(&s, last, now), model.count(n, now));
            }
        }
    }

    #[test]
    fn a_window_counts_what_a_list_of_events_counts(a in notes(), minute in 0i64..1000) {
        // All within what is kept by the minute.
        let a: Vec<Noted> = a.iter().map(|n| (n.0 % (8 * H), n.1, n.2, n.3)).collect();
        let l = ledger(&a);
        let now = minute * M;
        for w in [5i64, 30, 60, 480] {
            let inside = |n: &&Noted| n.1 == 1 && n.0 > now - w * M && n.0 <= now;
            let total: u64 = a.iter().filter(inside).map(|n| n.2 + n.3).sum();
            let got = l.count(&series(1), TimeRange::Last(Span::mins(w.unsigned_abs())), Time(now));
            prop_assert_eq!(got.total, total);
        }
    }

    #[test]
    fn spread_time_is_all_there(from in 0i64..20 * H, len in 1i64..200 * H, weight in 1u64..50) {
        let s = Series { sli: Sli::NodeAvailability, scope: Scope::default() };
        let mut l = Ledger::default();
        l.spread((Time(from), Time(from + len)), &s, weight, Ok(()));
        let all = l.count(&s, TimeRange::Last(WINDOW_MAX), Time(from + len));
        prop_assert_eq!(all, Count::good(len.unsigned_abs() * weight));
    }
}
