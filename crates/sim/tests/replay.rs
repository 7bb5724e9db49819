//! Public traces, replayed: samples of them always, the whole files where they are found.

use muster_model::policy::{BackfillMode, SitePolicy};
use muster_sim::replay::{self, LogReplay, Mix, OpenbReplay, Setting};
use muster_sim::traces::{self, OnBadRow, TraceJob};
use std::path::{Path, PathBuf};

fn data(name: &str) -> Vec<u8> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data").join(name);
    std::fs::read(&file).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

/// The folder of the whole traces.
fn whole() -> Option<PathBuf> {
    let set = std::env::var_os("MUSTER_TRACES").map(PathBuf::from);
    let near = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces");
    let found = set.or_else(|| near.is_dir().then_some(near));
    let lacks = "no whole traces: name their folder in MUSTER_TRACES";
    let there = muster_testkit::data(found.is_some(), lacks);
    found.filter(|_| there)
}

fn policy(mode: BackfillMode) -> SitePolicy {
    let mut p = SitePolicy::default();
    p.fair_share.enabled = false;
    p.backfill.mode = mode;
    p.backfill.predict = mode != BackfillMode::Easy;
    p
}

fn lived(jobs: Vec<TraceJob>, fleet: &str, flat: bool, policy: SitePolicy) -> LogReplay {
    let fleet = replay::machine(fleet).expect("nodes x GPUs");
    let procs = flat.then_some(100);
    let jobs = replay::prepared(jobs, procs);
    let setting = Setting { name: "sample".into(), fleet, flat, policy };
    let (found, _) = replay::simulate_log(&setting, &jobs, |_| {}).expect("it can be simulated");
    found
}

fn kth(mode: BackfillMode, first: usize) -> LogReplay {
    let bytes = data("kth-300.swf");
    let text = String::from_utf8(bytes.clone()).expect("text");
    assert_eq!(traces::swf::machine(&text), Some(100));
    let jobs = traces::swf::jobs("kth-300.swf", &bytes, OnBadRow::Stop).expect("a good log");
    let jobs = jobs.items.into_iter().take(first).collect();
    lived(jobs, "100x1", true, policy(mode))
}

#[test]
fn a_log_of_a_parallel_machine() {
    let easy = kth(BackfillMode::Easy, 300);
    assert_eq!((easy.outcome.jobs, easy.outcome.jobs_completed), (300, 300));
    assert_eq!((easy.jobs_left_out, easy.jobs_refused), (0, 0));
    assert_eq!(easy.outcome.gpus, 100);
    let s = easy.bounded_slowdown.expect("it was looked at");
    assert!(s.mean >= 1.0 && s.p50 <= s.p95 && s.p95 <= s.p99 && s.p99 <= s.max, "{s:?}");
    // As measured; only a change of the scheduler may change them.
    assert!((s.mean - EASY_300).abs() < 0.005, "{s:?}");
}

#[test]
fn the_same_log_is_lived_the_same() {
    let digest = |mode| kth(mode, 80).outcome.log_digest;
    let easy = digest(BackfillMode::Easy);
    assert_eq!(easy, digest(BackfillMode::Easy));
    assert_ne!(easy, digest(BackfillMode::Aggressive));
}

const EASY_300: f64 = 41.699;

#[test]
fn gangs_of_gpus_on_an_assumed_cluster() {
    let read = traces::philly::jobs("philly-300.csv", &data("philly-300.csv"), OnBadRow::Stop)
        .expect("good");
    let all = lived(read.items.clone(), "64x8", false, SitePolicy::default());
    assert_eq!((all.outcome.jobs, all.outcome.jobs_completed), (300, 300));
    assert_eq!(all.outcome.preemptions, 0);
    // All of its work was done, and nothing else.
    let work: f64 = read
        .items
        .iter()
        .map(|j| j.run.unwrap_or_default().0.max(1000) as f64 / 1000.0 * f64::from(j.ask.gpus()))
        .sum();
    let productive = all.outcome.waterfall.productive;
    assert!((productive - work).abs() <= work * 0.001, "{productive} of {work}");
    // On a machine that is too small for some, they are left out and counted.
    let small = lived(read.items, "1x4", false, SitePolicy::default());
    assert!(small.jobs_left_out > 0);
    assert_eq!(small.outcome.jobs + small.jobs_left_out, 300);
}

#[test]
fn steps_become_run_times() {
    let read = traces::gavel::jobs("gavel-60.trace", &data("gavel-60.trace"), OnBadRow::Stop)
        .expect("good");
    let mut items = read.items;
    items[0].work = Some("a model of my own".into());
    let (jobs, unknown) = replay::timed(items);
    assert_eq!(jobs.len(), 59);
    assert_eq!(unknown.get("a model of my own"), Some(&1));
    assert!(jobs.iter().all(|j| j.run.is_some_and(|r| r.0 > 0)));
    let found = lived(jobs, "64x8", false, SitePolicy::default());
    assert_eq!(found.outcome.jobs_completed, 59);
}

fn openb(threads: usize) -> OpenbReplay {
    let stop = OnBadRow::Stop;
    let nodes = traces::openb::nodes("n", &data("openb-nodes.csv"), stop).expect("nodes").items;
    let pods = traces::openb::pods("p", &data("openb-pods.csv"), stop).expect("pods").items;
    let mix = Mix::new(&pods);
    assert_eq!(mix.rows(), 300);
    let orders = traces::openb::orders("o", &data("openb-order.csv"), stop, mix.rows());
    replay::seeds(&nodes, &mix, &orders.expect("orders").items, threads).expect("it ends")
}

#[test]
fn pods_are_offered_in_any_number_of_threads() {
    let one = openb(1);
    assert_eq!(one, openb(2));
    assert_eq!(one.runs.iter().map(|r| r.seed).collect::<Vec<_>>(), [42, 43]);
    assert!((one.gpu_allocation_ratio - OPENB_SAMPLE).abs() < 0.000_05, "{one:?}");
    assert!((0.5..=1.0).contains(&one.fragmentation), "{one:?}");
    let json = serde_json::to_value(&one).expect("JSON");
    for absent in ["wait_s", "jct_s", "ettr", "goodput", "makespan_s", "mtbi_s", "gpu_utilization"]
    {
        assert_eq!(json.get(absent), Some(&serde_json::Value::Null), "{absent}");
    }
}

const OPENB_SAMPLE: f64 = 0.960_75;

#[test]
fn rows_that_were_left_out_are_not_offered() {
    let stop = OnBadRow::Stop;
    let nodes = traces::openb::nodes("n", &data("openb-nodes.csv"), stop).expect("nodes").items;
    let text = String::from_utf8(data("openb-pods.csv")).expect("text");
    let broken: String = text
        .lines()
        .enumerate()
        .map(|(i, l)| if i == 5 { "cut,1\n".to_string() } else { format!("{l}\n") })
        .collect();
    let read = traces::openb::pods("p", broken.as_bytes(), OnBadRow::Skip).expect("pods");
    assert_eq!(read.skipped.len(), 1);
    let mix = Mix::new(&read.items);
    let orders = traces::openb::orders("o", &data("openb-order.csv"), stop, mix.rows());
    let found = replay::seeds(&nodes, &mix, &orders.expect("orders").items, 1);
    // Without the row the order may end too early; it is said, and never passed over.
    match found {
        Ok(found) => assert!(found.runs.iter().any(|r| r.unknown > 0)),
        Err(e) => assert!(e.to_string().contains("the order ends"), "{e}"),
    }
}

#[test]
fn an_order_that_ends_early_says_how_far_it_went() {
    let stop = OnBadRow::Stop;
    let nodes = traces::openb::nodes("n", &data("openb-nodes.csv"), stop).expect("nodes").items;
    let pods = traces::openb::pods("p", &data("openb-pods.csv"), stop).expect("pods").items;
    let e = replay::offer(&nodes, &Mix::new(&pods), &[0, 1, 2]).expect_err("too early");
    assert!(e.to_string().contains("130%"), "{e}");
}

#[test]
fn one_seed_of_openb_is_above_what_was_published() {
    let Some(dir) = whole() else { return };
    let read = |name: &str| std::fs::read(dir.join("fgd-openb").join(name)).expect("a file");
    let stop = OnBadRow::Stop;
    let nodes = traces::openb::nodes("n", &read("csv/openb_node_list_gpu_node.csv"), stop);
    let nodes = nodes.expect("nodes").items;
    let pods = traces::openb::pods("p", &read("csv/openb_pod_list_default.csv.gz"), stop);
    let mix = Mix::new(&pods.expect("pods").items);
    let orders =
        traces::openb::orders("o", &read("arrival_orders/default.csv.gz"), stop, mix.rows());
    let orders = orders.expect("orders").items;
    let found = replay::seeds(&nodes, &mix, &orders[..1], 1).expect("it ends");
    assert_eq!((found.nodes, found.gpus), (1213, 6212));
    // FGD's mean over its ten seeds is 95.39%.
    assert!(found.gpu_allocation_ratio >= 0.9539, "{}", found.gpu_allocation_ratio);
}
