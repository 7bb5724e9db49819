//! What is written is read back by the rules of each tier, within the bound, after any end.

use muster_history::{Cell, Limits, SeriesId, SeriesQuery, Store};
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

const MINUTE: i64 = 60_000;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;
/// Some day, at midnight.
const START: i64 = 20_000 * DAY;

fn limits(sample_ms: i64) -> Limits {
    Limits { sample_ms, ..Limits::default() }
}

fn open(dir: &Path, limits: Limits) -> Store {
    Store::open(dir, limits).expect("a store")
}

/// The cells of a series by number of the step.
fn model(samples: &[(i64, f32)], step: i64) -> BTreeMap<i64, Cell> {
    let mut out: BTreeMap<i64, Cell> = BTreeMap::new();
    for (at, v) in samples {
        out.entry(at.div_euclid(step)).or_insert(Cell::GAP).merge(&Cell::of(*v));
    }
    out
}

/// Compares a line with the model; a gap next to a step with two samples may be filled.
fn same(line: &[Cell], from: i64, step: i64, model: &BTreeMap<i64, Cell>, near: f32) {
    let mut found = 0;
    for (slot, cell) in (from.div_euclid(step)..).zip(line) {
        let Some(want) = model.get(&slot) else {
            let two = |s: i64| model.get(&s).is_some_and(|c| c.count == 2);
            assert!(cell.is_gap() || two(slot - 1) || two(slot + 1), "step {slot}: {cell:?}");
            continue;
        };
        found += 1;
        assert_eq!(cell.count, want.count, "step {slot}");
        let (got_mean, mean) = (cell.mean().unwrap(), want.mean().unwrap());
        for (a, b) in [(cell.min, want.min), (got_mean, mean), (cell.max, want.max)] {
            assert!((a - b).abs() <= near, "step {slot}: {cell:?} for {want:?}");
        }
        assert!(cell.min <= got_mean && got_mean <= cell.max);
    }
    assert_eq!(found, model.len(), "every step is there");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn what_is_written_is_read_back(
        gaps in prop::collection::vec((1i64..20_000, 0u8..3, -500.0f32..2000.0), 1..150),
        ends in prop::collection::vec(0usize..150, 0..3),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), limits(1000));
        let mut written: Vec<Vec<(i64, f32)>> = vec![Vec::new(); 3];
        let mut now = START;
        for (i, (gap, which, value)) in gaps.iter().enumerate() {
            now += gap;
            let id = store.series("n1", Some(u32::from(*which)), "util").unwrap();
            store.append(now, &[(id, *value), (id, f32::NAN)]).unwrap();
            written[usize::from(*which)].push((now, *value));
            if ends.contains(&i) {
                store.flush(now).unwrap();
                drop(store);
                store = open(dir.path(), limits(1000));
                store.advance(now).unwrap();
            }
        }
        let series = store.series_of("n1");
        let to = (now / MINUTE + 1) * MINUTE;
        for (id, key) in series {
            let samples = &written[key.gpu.unwrap() as usize];
            let near = samples.iter().fold(0.0f32, |m, (_, v)| m.max(v.abs())) / 30_000.0;
            let fine = store.query(&[id], START, to, 1_000_000);
            prop_assert_eq!((fine.step_ms, fine.damaged_blocks), (1000, 0));
            same(&fine.lines[0], fine.from, 1000, &model(samples, 1000), near);
            let minutes = usize::try_from((to - START) / MINUTE).unwrap();
            if minutes >= 2 {
                let coarse = store.query(&[id], START, to, minutes);
                prop_assert_eq!((coarse.step_ms, coarse.lines[0].len()), (MINUTE, minutes));
                same(&coarse.lines[0], coarse.from, MINUTE, &model(samples, MINUTE), near);
            }
        }
    }

    #[test]
    fn damaged_files_never_panic_and_give_no_wrong_series(
        at in any::<prop::sample::Index>(), bit in 0u8..8, cut in any::<bool>(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut store = open(dir.path(), limits(10_000));
        let ids: Vec<SeriesId> =
            (0..4).map(|g| store.series("n1", Some(g), "temp").unwrap()).collect();
        for i in 0..200 {
            let all: Vec<_> = ids.iter().map(|id| (*id, 40.0 + id.0 as f32)).collect();
            store.append(START + i * 10_000, &all).unwrap();
        }
        store.flush(START + 2_000_000).unwrap();
        drop(store);
        let mut files = Vec::new();
        for tier in std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().path()) {
            if tier.is_dir() {
                files.extend(std::fs::read_dir(tier).unwrap().map(|e| e.unwrap().path()));
            } else {
                files.push(tier);
            }
        }
        files.sort();
        let file = at.get(&files);
        let mut bytes = std::fs::read(file).unwrap();
        let place = at.index(bytes.len());
        if cut {
            bytes.truncate(place);
        } else {
            bytes[place] ^= 1 << bit;
        }
        std::fs::write(file, bytes).unwrap();
        let mut store = open(dir.path(), limits(10_000));
        store.advance(START + 2_000_000).unwrap();
        // A new series has no past, whatever names were lost.
        let new = store.series("n9", None, "load").unwrap();
        let got = store.query(&[new], START, START + HOUR, 10_000);
        prop_assert!(got.lines[0].iter().all(Cell::is_gap));
        for (id, key) in store.series_of("n1") {
            let want = 40.0 + key.gpu.unwrap() as f32;
            let got = store.query(&[id], START, START + HOUR, 10_000);
            prop_assert!(got.lines[0].iter().filter_map(Cell::mean).all(|v| v == want));
        }
    }
}

/// Bytes of all files of a directory of a tier, or of all tiers.
fn size(dir: &Path, tier: &str) -> u64 {
    let entries = |p: &Path| std::fs::read_dir(p).unwrap().map(|e| e.unwrap().path());
    let tiers = entries(dir).filter(|p| p.is_dir() && p.to_string_lossy().contains(tier));
    let files = tiers.flat_map(|t| entries(&t).collect::<Vec<_>>());
    files.map(|f| std::fs::metadata(f).unwrap().len()).sum()
}

/// A store after some hours of values that do not compress.
fn noise(dir: &Path, bytes: u64, hours: i64, mut each: impl FnMut(i64)) -> (Store, Vec<SeriesId>) {
    let mut store = open(dir, Limits { bytes, ..limits(10_000) });
    let ids: Vec<SeriesId> =
        (0..64).map(|g| store.series("n1", Some(g), "power").unwrap()).collect();
    let mut noise = 1u32;
    for i in 0..6 * 60 * hours {
        let mut all = Vec::new();
        for id in &ids {
            noise = noise.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            all.push((*id, (noise >> 16) as f32 / 97.0));
        }
        let now = START + i * 10_000;
        store.append(now, &all).unwrap();
        store.advance(now).unwrap();
        each(i);
    }
    (store, ids)
}

#[test]
fn the_bound_holds_and_it_is_known_since_when_there_are_minutes() {
    let dir = tempfile::tempdir().unwrap();
    let most = 300_000;
    let names = || std::fs::metadata(dir.path().join("series")).unwrap().len();
    let (store, ids) = noise(dir.path(), most, 18, |i| {
        if i % 97 == 0 {
            let all = size(dir.path(), "step-") + names();
            assert!(all <= most, "{all}");
        }
    });
    let stats = store.stats();
    assert_eq!(stats.bytes, size(dir.path(), "step-") + names());
    assert!(stats.dropped_files > 0 && stats.bytes <= most && stats.lost_blocks == 0, "{stats:?}");
    let end = START + 18 * HOUR;
    let line = |from: i64, to: i64| store.query(&ids[..1], from, to, 10_000);
    let first = line(START, START + HOUR);
    assert!(first.lines[0].iter().all(Cell::is_gap), "the first hour is gone");
    let last = line(end - HOUR / 4, end);
    assert!(last.lines[0].iter().all(|c| !c.is_gap()), "the last minutes are there");
    // The minutes alone do not fit: an answer says since when there are any.
    let tiers = store.tier_stats();
    let coarse = tiers.last().unwrap();
    assert!(coarse.dropped_files > 0 && coarse.known_from > Some(START), "{coarse:?}");
    assert_eq!((first.step_ms, first.known_from), (MINUTE, coarse.known_from));
    assert_eq!(stats.dropped_files, tiers.iter().map(|t| t.dropped_files).sum::<u64>());
    let since = coarse.known_from.unwrap();
    let all = line(START, end);
    for (at, cell) in (START..).step_by(60_000).zip(&all.lines[0]) {
        // Blocks of a file that went may have reached into the next file.
        if at >= since + 15 * MINUTE || at < since {
            assert_eq!(cell.is_gap(), at < since, "{at} of {since}");
        }
    }
    // After a restart it is known as well.
    drop(store);
    let store = open(dir.path(), Limits { bytes: most, ..limits(10_000) });
    assert_eq!(store.tier_stats().last().unwrap().known_from, Some(since));
}

#[test]
fn fine_steps_give_way_before_the_minutes() {
    // What the minutes take where nothing is in their way.
    let hours = 9;
    let whole = tempfile::tempdir().unwrap();
    drop(noise(whole.path(), 1 << 30, hours, |_| ()));
    let minutes = size(whole.path(), "step-60000ms");
    assert!(size(whole.path(), "step-10000ms") > minutes);
    // They fit into their share: none of them goes, although the fine steps are much younger.
    let dir = tempfile::tempdir().unwrap();
    let (store, ids) = noise(dir.path(), minutes / 4 * 5, hours, |_| ());
    let tiers = store.tier_stats();
    let dropped: Vec<bool> = tiers.iter().map(|t| t.dropped_files > 0).collect();
    assert_eq!(dropped, [true, false], "{tiers:?}");
    assert_eq!(tiers[1].known_from, Some(START));
    let now = START + hours * HOUR;
    assert_eq!([tiers[0].is_short(now), tiers[1].is_short(now)], [true, false]);
    assert!(tiers[0].known_from > Some(START), "{tiers:?}");
    // What the fine steps lost comes from the minutes, without a gap.
    let end = START + hours * HOUR;
    let points = store.query(&ids[..1], START, end, 10_000);
    assert_eq!((points.step_ms, points.known_from), (MINUTE, Some(START)));
    assert!(points.lines[0].iter().all(|c| !c.is_gap()));
}

#[test]
fn each_tier_is_kept_for_its_time() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), limits(10_000));
    let id = store.series("n1", None, "load").unwrap();
    for day in 0..100 {
        for i in 0..30 {
            store.append(START + day * DAY + i * 10_000, &[(id, day as f32)]).unwrap();
        }
        store.advance(START + day * DAY + HOUR).unwrap();
    }
    let now = START + 99 * DAY + HOUR;
    assert!(store.stats().expired_files > 0);
    let steps = |from: i64, to: i64| {
        let points = store.query(&[id], from, to, 100_000);
        (points.step_ms, points.lines[0].iter().filter(|c| !c.is_gap()).count())
    };
    assert_eq!(steps(now - 2 * HOUR, now), (10_000, 30));
    assert_eq!(steps(now - 2 * DAY, now), (MINUTE, 5 * 2), "a day back it is by the minute");
    assert_eq!(steps(START, START + 5 * DAY).1, 0, "nothing is older than 90 days");
    assert_eq!(steps(now - 89 * DAY, now - 88 * DAY).1, 5);
}

#[test]
fn only_whole_steps_of_the_time_that_is_allowed_are_reported_and_lines_are_put_together() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), limits(10_000));
    let ids: Vec<SeriesId> = (0..3).map(|g| store.series("n1", Some(g), "util").unwrap()).collect();
    for i in 0..60 {
        let all: Vec<_> = ids.iter().map(|id| (*id, id.0 as f32 * 10.0)).collect();
        store.append(START + i * 10_000, &all).unwrap();
    }
    let want = |id: &SeriesId, line: usize| SeriesQuery {
        series: *id,
        line,
        since: START + 5_000,
        until: START + 300_000,
        regular: true,
    };
    let to = START + 600_000;
    let points = store.plan(vec![want(&ids[1], 0)], START, to, 600, u64::MAX).read();
    let found: Vec<usize> =
        points.lines[0].iter().enumerate().filter(|(_, c)| !c.is_gap()).map(|(i, _)| i).collect();
    assert_eq!((found.first(), found.last()), (Some(&1), Some(&29)));
    let together = ids.iter().map(|id| want(id, 0)).collect();
    let points = store.plan(together, START, to, 600, u64::MAX).read();
    let cell = points.lines[0][10];
    assert_eq!((cell.min, cell.mean(), cell.max, cell.count), (0.0, Some(10.0), 20.0, 3));
}

#[test]
fn samples_that_were_put_together_before_are_read_back_in_every_tier() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), limits(10_000));
    let id = store.series("steps/0", Some(3), "step_time").unwrap();
    let mut cell = Cell::of(100.0);
    cell.merge(&Cell::of(500.0));
    cell.merge(&Cell::of(300.0));
    for i in 0..60 {
        let gap = (id, Cell::GAP);
        store.merge(START + i * 10_000, &[(id, cell), gap]).unwrap();
    }
    assert_eq!(store.stats().samples, 180);
    store.flush(START + 600_000).unwrap();
    drop(store);
    let store = open(dir.path(), limits(10_000));
    for (most, step, count) in [(1000, 10_000, 3), (10, MINUTE, 18)] {
        let points = store.query(&[id], START, START + 600_000, most);
        assert_eq!(points.step_ms, step);
        for cell in &points.lines[0] {
            assert_eq!((cell.min, cell.mean(), cell.max), (100.0, Some(300.0), 500.0));
            assert_eq!(cell.count, count);
        }
    }
}

#[test]
fn what_comes_seldom_leaves_its_gaps() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), limits(10_000));
    let id = store.series("steps/0", Some(0), "step_time").unwrap();
    for i in 0..10 {
        store.append(START + i * 20_000, &[(id, 1.0), (id, 3.0)]).unwrap();
    }
    let to = START + 200_000;
    let gaps = |regular: bool| {
        let want = SeriesQuery { regular, ..SeriesQuery::whole(id, 0) };
        let points = store.plan(vec![want], START, to, 600, u64::MAX).read();
        points.lines[0].iter().filter(|c| c.is_gap()).count()
    };
    assert_eq!((gaps(true), gaps(false)), (0, 10));
}

#[test]
fn a_sample_that_comes_late_is_counted_and_a_clock_set_back_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = open(dir.path(), limits(10_000));
    let id = store.series("n1", None, "load").unwrap();
    store.append(START + HOUR, &[(id, 1.0)]).unwrap();
    store.append(START + HOUR - 20_000, &[(id, 2.0)]).unwrap();
    assert_eq!((store.stats().samples, store.stats().late), (1, 1));
    store.append(START, &[(id, 3.0)]).unwrap();
    let points = store.query(&[id], START, START + 2 * HOUR, 10_000);
    let found: Vec<f32> = points.lines[0].iter().filter_map(Cell::mean).collect();
    assert_eq!(found, [3.0, 1.0], "what was before is on the disk");
}
