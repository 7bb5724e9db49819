//! A scored life of a fleet: faults and look-alikes at random. Printed with `--nocapture`.

use super::fleet::{FaultEffect, FaultInjection, Fleet, Job, Rng};
use muster_health::watch::{Watch, WatchConfig};
use muster_model::entity::Entity;
use muster_model::finding::Severity;
use std::collections::BTreeMap;

/// The modes that are right for a trouble; none where it is nothing.
fn right(what: FaultEffect) -> &'static [&'static str] {
    match what {
        FaultEffect::Dbe => &["ecc-uncorrectable"],
        FaultEffect::Sbe(_) => &["ecc-rate"],
        FaultEffect::RemapPending => &["row-remap-pending"],
        FaultEffect::RemapFailed => &["row-remap-failure"],
        FaultEffect::Replay(_) => &["pcie-replay"],
        FaultEffect::Narrow => &["pcie-downgrade"],
        FaultEffect::Nvlink(_) => &["nvlink-errors"],
        FaultEffect::Hot => &["thermal", "straggler", "clocks-low"],
        FaultEffect::Brake => &["power-brake", "straggler", "clocks-low"],
        FaultEffect::LowClock(_) => &["clocks-low", "straggler"],
        FaultEffect::Missing => &["gpu-missing"],
        FaultEffect::PortDown => &["link-down"],
        FaultEffect::Flap => &["link-flap", "link-down"],
        FaultEffect::Symbols(_) => &["symbol-errors"],
        FaultEffect::Stuck => &["kernel-stuck"],
        FaultEffect::Slow(_) => &["straggler"],
        _ => &[],
    }
}

fn draw(rng: &mut Rng) -> FaultEffect {
    match rng.below(22) {
        0 => FaultEffect::Dbe,
        1 => FaultEffect::Sbe(rng.range(0.2, 40.0)),
        2 => FaultEffect::RemapPending,
        3 => FaultEffect::RemapFailed,
        4 => FaultEffect::Replay(rng.range(40.0, 800.0)),
        5 => FaultEffect::Narrow,
        6 => FaultEffect::Nvlink(rng.range(1.5, 900.0)),
        7 => FaultEffect::Hot,
        8 => FaultEffect::Brake,
        9 => FaultEffect::LowClock(rng.range(0.12, 0.5)),
        10 => FaultEffect::Missing,
        11 => FaultEffect::PortDown,
        12 => FaultEffect::Flap,
        13 => FaultEffect::Symbols(rng.range(0.2, 100.0)),
        14 => FaultEffect::Stuck,
        15 => FaultEffect::Slow(rng.range(1.1, 2.0)),
        16 => FaultEffect::PowerCap,
        17 => FaultEffect::StraySbe,
        18 => FaultEffect::StraySymbols,
        19 => FaultEffect::BurstReplay,
        20 => FaultEffect::BurstLink,
        _ => FaultEffect::OneFlap,
    }
}

#[derive(Default)]
struct Score {
    found: u32,
    missed: u32,
    wrong: u32,
    secs: Vec<i64>,
}

/// How rows and steps come.
#[derive(Debug, Clone, Copy)]
struct FeedSettings {
    row_ms: i64,
    look_every: i64,
    coarse: bool,
    stages: bool,
    noise: f64,
}

fn live(seed: u64, way: FeedSettings, scores: &mut BTreeMap<String, Score>) {
    let mut rng = Rng::new(seed ^ 0x5eed);
    let jobs = (0..8)
        .map(|j| Job {
            step_s: rng.range(0.4, 4.0),
            moe: j == 7,
            stages: way.stages,
            every: if way.coarse { 8 } else { 2 },
            checkpoint: (rng.unit() < 0.5).then_some(420_000),
            ..Job::on((j * 4..j * 4 + 4).collect())
        })
        .collect();
    let mut f = Fleet::new(Watch::new(WatchConfig::default()), 32, jobs, seed);
    (f.row_ms, f.look_every) = (way.row_ms, way.look_every);
    (f.coarse, f.noise) = (way.coarse, way.noise);
    // One for each gang, and not in the one whose experts are uneven.
    for gang in 0..7usize {
        let what = draw(&mut rng);
        let node = gang * 4 + rng.below(4);
        let from = 720_000 + way.row_ms * rng.below(20) as i64;
        f.troubles.push(FaultInjection { what, node, gpu: rng.below(8), from });
    }
    let found = f.run(3_000_000);
    let found: Vec<_> =
        found.into_iter().filter(|s| !s.over && s.severity > Severity::Info).collect();
    let word = |w: FaultEffect| format!("{w:?}").split('(').next().unwrap_or_default().to_owned();
    let on = |e: &Entity, t: &FaultInjection| e.node().is_some_and(|n| *n == f.names[t.node]);
    for t in &f.troubles {
        if right(t.what).is_empty() {
            continue;
        }
        let hit =
            found.iter().find(|s| on(&s.entity, t) && right(t.what).contains(&s.kind.as_str()));
        let score = scores.entry(word(t.what)).or_default();
        match hit {
            Some(s) => {
                score.found += 1;
                score.secs.push((s.last_seen.0 - t.from) / 1000);
            }
            None => score.missed += 1,
        }
    }
    for s in &found {
        let meant = f.troubles.iter().find(|t| on(&s.entity, t));
        let good = meant.is_some_and(|t| right(t.what).contains(&s.kind.as_str()));
        if !good {
            let what = meant.map_or("healthy".to_owned(), |t| word(t.what));
            println!("seed {seed}: {} {} on {what}: {:?}", s.kind, s.entity, s.evidence);
            scores.entry(what).or_default().wrong += 1;
        }
    }
}

fn scored(way: FeedSettings, seeds: u64) -> (f64, f64) {
    let mut scores = BTreeMap::new();
    for seed in 1..=seeds {
        live(seed, way, &mut scores);
    }
    let (mut found, mut missed, mut wrong) = (0, 0, 0);
    for (what, s) in &mut scores {
        s.secs.sort_unstable();
        let middle = s.secs.get(s.secs.len() / 2);
        println!("{what:14} found {} missed {} wrong {} {middle:?} s", s.found, s.missed, s.wrong);
        (found, missed, wrong) = (found + s.found, missed + s.missed, wrong + s.wrong);
    }
    let recall = f64::from(found) / f64::from((found + missed).max(1));
    let precision = f64::from(found) / f64::from((found + wrong).max(1));
    println!("{way:?}: recall {recall:.3} precision {precision:.3} of {} faults", found + missed);
    (recall, precision)
}

const USUAL: FeedSettings =
    FeedSettings { row_ms: 5000, look_every: 1, coarse: false, stages: true, noise: 0.02 };

/// Lives that many fleets in the usual way.
fn usually(seeds: u64) {
    let (recall, precision) = scored(USUAL, seeds);
    assert!(recall >= 0.9 && precision >= 0.95, "recall {recall} precision {precision}");
}

/// The other ways, the costliest last: it has five times as many rows as the usual one.
const OTHERS: [FeedSettings; 6] = [
    FeedSettings { row_ms: 10_000, look_every: 3, ..USUAL },
    FeedSettings { row_ms: 30_000, coarse: true, ..USUAL },
    FeedSettings { row_ms: 10_000, coarse: true, look_every: 4, noise: 0.05, ..USUAL },
    FeedSettings { noise: 0.06, ..USUAL },
    FeedSettings { stages: false, ..USUAL },
    FeedSettings { row_ms: 1000, ..USUAL },
];

/// Lives that many fleets in each of these ways.
fn otherwise(ways: &[FeedSettings], seeds: u64) {
    for way in ways.iter().copied() {
        let (recall, precision) = scored(way, seeds);
        assert!(recall >= 0.8 && precision >= 0.95, "{way:?} recall {recall} {precision}");
    }
}

#[test]
fn a_fleet_that_is_lived_in_is_scored() {
    usually(8);
}

#[test]
fn it_does_not_matter_much_how_rows_and_steps_come() {
    otherwise(&OTHERS[..5], 2);
}

#[test]
#[ignore = "takes minutes: `cargo xtask soak year` runs it"]
fn many_fleets_that_are_lived_in_are_scored() {
    usually(48);
    otherwise(&OTHERS, 16);
}
