//! What a large fleet costs. Not run by itself: `cargo test -p muster-health --test detect -- --ignored --nocapture`.

use super::fleet::{COLUMNS, Rng};
use muster_health::watch::{RankAt, Running, Signals, StepObservation, Watch, WatchConfig};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

const NODES: usize = 12_500;
const PORTS: usize = 8;

/// Memory of this process in MiB, where the system tells.
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|p| p.parse().ok()).unwrap_or(0);
    pages * 4096 / (1 << 20)
}

#[test]
#[ignore = "prints what it costs; takes a while and a few hundred MiB"]
fn a_large_fleet_is_measured() {
    let mut rng = Rng::new(1);
    let names: Vec<NodeName> =
        (0..NODES).map(|i| format!("node-{i:05}").parse().expect("a name")).collect();
    let columns: Vec<String> = COLUMNS.iter().map(|c| (*c).to_owned()).collect();
    let mut host_columns = vec!["dstate".to_owned()];
    for mount in ["/data", "/home"] {
        for figure in ["read_ms", "write_ms", "meta_ms", "stalled_s"] {
            host_columns.push(format!("fs.{mount}.{figure}"));
        }
    }
    for p in 0..PORTS {
        for figure in ["up", "downed", "symbol_errors", "recoveries", "rcv_errors", "discards"] {
            host_columns.push(format!("port.mlx5_{p}.{figure}"));
        }
    }
    // Gangs of 25 nodes, a rank for each GPU.
    let running: Vec<Arc<Running>> = (0..NODES / 25)
        .map(|j| {
            let ranks = (0..200u32).map(|r| RankAt {
                rank: r,
                node: names[j * 25 + r as usize / 8].clone(),
                gpus: GpuSet(1 << (r % 8)),
            });
            let key = AttemptKey { job: JobId(j as u64 + 1), attempt: 1 };
            Arc::new(Running { key, started_at: None, ranks: ranks.collect() })
        })
        .collect();
    let before = resident();
    let mut w = Watch::new(WatchConfig::default());
    let stages = BTreeMap::from([("compute".to_owned(), 0.7), ("comm".to_owned(), 0.2)]);
    let (mut rows, mut steps, mut looks) = ((0u64, 0.0), (0u64, 0.0), (0u64, 0.0));
    let mut most = 0f64;
    let mut found = 0;
    for round in 0..30i64 {
        let at = Time(round * 10_000);
        let gpu: Vec<f32> = (0..8)
            .flat_map(|_| {
                let n = rng.noise() as f32;
                [97.0, 1965.0 + n, 60.0, 560.0 + n, 0.0, 0.0, 0.0, 0.0, 0.8, 0.0, 0.0, 0.0, 25.0]
                    .into_iter()
                    .chain([16.0, 5.0, 60_000.0, 0.5])
            })
            .collect();
        let mut host = vec![0.0f32, 3.0, 4.0, 2.0, 0.0, 3.0, 4.0, 2.0, 0.0];
        (0..PORTS).for_each(|_| host.extend([1.0, 0.0, round as f32, 0.0, 0.0, 0.0]));
        let start = Instant::now();
        for node in &names {
            w.signals(&Signals {
                node,
                at,
                columns: &columns,
                gpus: &gpu,
                host_columns: &host_columns,
                host: &host,
            });
        }
        rows = (rows.0 + NODES as u64, rows.1 + start.elapsed().as_secs_f64());
        let start = Instant::now();
        for r in &running {
            for rank in 0..200 {
                let step = round as u64;
                let t = Some(1.0);
                w.step(&StepObservation { key: r.key, rank, at, step, t, stages: &stages });
            }
        }
        steps = (steps.0 + NODES as u64 * 8, steps.1 + start.elapsed().as_secs_f64());
        for second in 0..10i64 {
            let start = Instant::now();
            found += w.collect_findings(Time(at.0 + second * 1000), &running).len();
            let took = start.elapsed().as_secs_f64();
            looks = (looks.0 + 1, looks.1 + took);
            most = most.max(took);
        }
    }
    println!(
        "{NODES} nodes x 8 GPUs x {PORTS} ports, {} ranks: {} MiB, {:.1} us a row, {:.2} us a step, \
         {:.1} ms a look (most {:.1}), {found} findings",
        w.remembered().1,
        resident().saturating_sub(before),
        rows.1 * 1e6 / rows.0 as f64,
        steps.1 * 1e6 / steps.0 as f64,
        looks.1 * 1e3 / looks.0 as f64,
        most * 1e3
    );
}
