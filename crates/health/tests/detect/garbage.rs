//! Whatever is reported, the watch goes on, remembers a bounded amount, and names no healthy node
//! as the cause.

use super::fleet::{COLUMNS, Fleet, Job, Rng};
use muster_health::watch::{RankAt, Running, Signals, StepObservation, Watch, WatchConfig};
use muster_model::entity::Entity;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::sync::Arc;

fn absurd() -> impl Strategy<Value = f32> {
    prop_oneof![
        Just(f32::NAN),
        Just(f32::INFINITY),
        Just(f32::NEG_INFINITY),
        Just(f32::MAX),
        Just(0.0),
        Just(-1.0),
        0f32..3000.0,
        any::<f32>(),
    ]
}

fn time() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(i64::MAX), 0i64..10_000_000, any::<i64>()]
}

#[derive(Debug, Clone)]
enum WatchInput {
    Row { node: u8, at: i64, shift: usize, gpus: Vec<f32>, host: Vec<f32> },
    Step { job: u8, rank: u32, at: i64, step: u64, t: f64, stage: f64 },
    Heard(u8, i64),
    Gone(u8),
    Output(u8, i64),
    Saving(u8, bool),
    Look(i64),
}

fn said() -> impl Strategy<Value = WatchInput> {
    let figures = |n| prop::collection::vec(absurd(), 0..n);
    prop_oneof![
        4 => (0u8..4, time(), 0usize..9, figures(160), figures(10))
            .prop_map(|(node, at, shift, gpus, host)| WatchInput::Row { node, at, shift, gpus, host }),
        4 => (0u8..3, prop_oneof![0u32..40, any::<u32>()], time(), any::<u64>(), any::<f64>(), any::<f64>())
            .prop_map(|(job, rank, at, step, t, stage)| WatchInput::Step { job, rank, at, step, t, stage }),
        1 => (0u8..4, time()).prop_map(|(n, at)| WatchInput::Heard(n, at)),
        1 => (0u8..4).prop_map(WatchInput::Gone),
        1 => (0u8..3, time()).prop_map(|(j, at)| WatchInput::Output(j, at)),
        1 => (0u8..3, any::<bool>()).prop_map(|(j, s)| WatchInput::Saving(j, s)),
        3 => time().prop_map(WatchInput::Look),
    ]
}

fn name(n: u8) -> NodeName {
    format!("n{n}").parse().expect("a name")
}

fn key(j: u8) -> AttemptKey {
    AttemptKey { job: JobId(u64::from(j)), attempt: 1 }
}

const HOST: [&str; 9] = [
    "port.a.up",
    "port.a.downed",
    "port.a.symbol_errors",
    "dstate",
    "fs./d.read_ms",
    "fs./d.stalled_s",
    "port.b.up",
    "fs..x",
    "port.a.recoveries",
];

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn nothing_that_is_reported_stops_it(all in prop::collection::vec(said(), 1..120)) {
        let mut w = Watch::new(WatchConfig { nodes_max: 3, ranks_max: 100, ..WatchConfig::default() });
        let ranks = (0..40u32)
            .map(|r| RankAt { rank: r, node: name((r % 4) as u8), gpus: GpuSet(1 << (r % 64)) })
            .collect();
        let running = [
            Arc::new(Running { key: key(0), started_at: None, ranks }),
            Arc::new(Running { key: key(1), started_at: None, ranks: Vec::new() }),
        ];
        for s in all {
            match s {
                WatchInput::Row { node, at, shift, gpus, host } => {
                    let mut columns: Vec<String> = COLUMNS.iter().map(|c| (*c).to_owned()).collect();
                    columns.rotate_left(shift);
                    columns.truncate(COLUMNS.len() - shift);
                    let host_columns: Vec<String> =
                        HOST.iter().skip(shift).map(|c| (*c).to_owned()).collect();
                    let node = name(node);
                    w.signals(&Signals {
                        node: &node, at: Time(at), columns: &columns, gpus: &gpus,
                        host_columns: &host_columns, host: &host,
                    });
                }
                WatchInput::Step { job, rank, at, step, t, stage } => {
                    let stages = BTreeMap::from([("comm".to_owned(), stage), ("x".to_owned(), t)]);
                    let seen = StepObservation { key: key(job), rank, at: Time(at), step, t: Some(t), stages: &stages };
                    w.step(&seen);
                }
                WatchInput::Heard(n, at) => w.note_contact(&name(n), Time(at)),
                WatchInput::Gone(n) => w.gone(&name(n)),
                WatchInput::Output(j, at) => w.output(key(j), 0, Time(at)),
                WatchInput::Saving(j, under_way) => w.checkpointing(key(j), under_way),
                WatchInput::Look(at) => {
                    for f in w.collect_findings(Time(at), &running) {
                        prop_assert!(muster_health::modes::mode(&f.kind).is_some(), "{}", f.kind);
                        prop_assert!(f.confidence <= 1000 && f.first_seen <= f.last_seen);
                    }
                }
            }
            let (nodes, ranks) = w.remembered();
            prop_assert!(nodes <= 3 && ranks <= 100);
        }
    }
}

#[test]
fn healthy_fleets_of_every_kind_of_job_give_no_finding_about_a_node() {
    for seed in 1..=6u64 {
        let mut rng = Rng::new(seed);
        let jobs = (0..6)
            .map(|j| Job {
                step_s: rng.range(0.3, 6.0),
                stages: rng.unit() < 0.6,
                moe: rng.unit() < 0.3,
                checkpoint: (rng.unit() < 0.6).then(|| 300_000 + 60_000 * rng.below(5) as i64),
                slower: (rng.unit() < 0.3).then(|| (rng.range(1.05, 1.5), 1_200_000)),
                read: rng.range(0.0, 0.6),
                ..Job::on((j * 4..j * 4 + 4).collect())
            })
            .collect();
        let mut f = Fleet::new(Watch::new(WatchConfig::default()), 28, jobs, seed);
        let mut found = Vec::new();
        for minute in 1..=40i64 {
            // The hall becomes warmer in the afternoon, for all of them.
            f.warm = minute as f64 * 0.2;
            found.extend(f.run(minute * 60_000));
        }
        let of_nodes: Vec<_> =
            found.iter().filter(|s| !matches!(s.entity, Entity::Job(_))).collect();
        assert!(of_nodes.is_empty(), "seed {seed}: {of_nodes:?}");
    }
}

#[test]
fn late_rows_and_a_clock_that_is_set_back_do_no_harm() {
    let jobs = vec![Job::on(vec![0, 1, 2, 3])];
    let mut f = Fleet::new(Watch::new(WatchConfig::default()), 4, jobs, 3);
    let mut found = f.run(600_000);
    f.now -= 3_600_000;
    found.extend(f.run(f.now + 1_200_000));
    f.now += 40_000_000;
    found.extend(f.run(f.now + 600_000));
    assert!(found.iter().all(|s| matches!(s.entity, Entity::Job(_))), "{found:?}");
}
