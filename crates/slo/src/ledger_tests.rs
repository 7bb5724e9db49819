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
    assert!(track.minutes.len() <= usize::try_from(MINUTES_KEPT).unwrap());
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
