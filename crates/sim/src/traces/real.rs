//! The real files, where they are found: they are read whole, and to the last row.

#![allow(clippy::disallowed_macros, clippy::disallowed_methods, reason = "tests of real files")]

use super::mixes;
use super::openb::LISTS;
use super::*;
use muster_model::topology::Level;
use muster_model::units::Span;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The folder of traces, or nothing and a line that says so.
fn folder() -> Option<PathBuf> {
    let dir = std::env::var_os("MUSTER_TRACES").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/traces"),
        PathBuf::from,
    );
    let lacks = "no whole traces: name their folder in MUSTER_TRACES";
    muster_testkit::data(dir.is_dir(), lacks).then_some(dir)
}

type Reader<T> = fn(&str, &[u8], OnBadRow) -> Result<Read<T>, TraceError>;

fn all<T>(dir: &Path, file: &str, reader: Reader<T>) -> Vec<T> {
    let bytes = std::fs::read(dir.join(file)).unwrap();
    let read = reader(file, &bytes, OnBadRow::Stop).unwrap();
    assert!(read.skipped.is_empty());
    read.items
}

#[test]
fn logs_of_parallel_machines() {
    let Some(dir) = folder() else { return };
    let kth_file = "swf/KTH-SP2-filtered-28481.swf.gz";
    for (file, count) in [
        (kth_file, 28_481),
        ("swf/CEA-Curie-sample.swf.gz", 29_998),
        ("swf/lublin_256_synthetic.swf.gz", 10_000),
        ("swf/wagap-2013.swf.gz", 17_900),
    ] {
        let jobs = all(&dir, file, swf::jobs);
        assert_eq!(jobs.len(), count, "{file}");
        assert!(jobs.iter().all(|j| j.ask.procs().is_some_and(|n| n > 0)), "{file}");
        assert!(jobs.iter().any(|j| j.submit == Span(0)), "{file}");
    }
    let kth = read_file(&dir.join(kth_file)).unwrap();
    assert_eq!(swf::machine(&kth), Some(100));
    assert!(all(&dir, kth_file, swf::jobs).iter().all(|j| j.limit.is_some()));
}

#[test]
fn gangs_of_philly() {
    let Some(dir) = folder() else { return };
    let jobs = all(&dir, "philly/philly_sia.csv.gz", philly::jobs);
    assert_eq!(jobs.len(), 82_247);
    let owners: BTreeSet<_> = jobs.iter().filter_map(|j| j.owner.as_deref()).collect();
    assert_eq!(owners.len(), 15);
    assert_eq!(jobs.iter().map(|j| j.ask.gpus()).max(), Some(128));
}

#[test]
fn steps_of_gavel() {
    let Some(dir) = folder() else { return };
    let mut files: Vec<PathBuf> =
        std::fs::read_dir(dir.join("gavel/msr")).unwrap().map(|e| e.unwrap().path()).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "gz"));
    files.sort();
    assert_eq!(files.len(), 15);
    let jobs: usize = files.iter().map(|f| all(&dir, f.to_str().unwrap(), gavel::jobs).len()).sum();
    assert_eq!(jobs, 15_264);
}

#[test]
fn pods_and_nodes_of_openb() {
    let Some(dir) = folder() else { return };
    let nodes = all(&dir, "fgd-openb/csv/openb_node_list_gpu_node.csv", openb::nodes);
    assert_eq!((nodes.len(), nodes.iter().map(|n| n.gpus).sum::<u32>()), (1213, 6212));
    assert_eq!(all(&dir, "fgd-openb/csv/openb_node_list_all_node.csv", openb::nodes).len(), 1523);
    let counts: Vec<usize> = LISTS
        .iter()
        .map(|list| {
            let file = format!("fgd-openb/csv/openb_pod_list_{list}.csv.gz");
            let pods = all(&dir, &file, openb::pods);
            let file = format!("fgd-openb/arrival_orders/{list}.csv.gz");
            let bytes = std::fs::read(dir.join(&file)).unwrap();
            let count = u32::try_from(pods.len()).unwrap();
            let orders = openb::orders(&file, &bytes, OnBadRow::Stop, count).unwrap().items;
            let seeds: Vec<u64> = orders.iter().map(|(seed, _)| *seed).collect();
            assert_eq!(seeds, (42..=51).collect::<Vec<_>>(), "{list}");
            for (seed, rows) in &orders {
                let asked: u64 = rows.iter().map(|r| pods[*r as usize].ask.gpu_milli()).sum();
                let percent = asked * 100 / 6_212_000;
                assert!((129..=131).contains(&percent), "{list} seed {seed}: {percent}%");
            }
            pods.len()
        })
        .collect();
    let want = [8152, 7439, 7853, 9420, 8152, 8152, 8152, 8152, 8152, 8152, 8324, 8508, 9061];
    assert_eq!(counts, want);
}

#[test]
fn fabric_of_alibaba() {
    let Some(dir) = folder() else { return };
    let hosts = all(&dir, "alibaba-lingjun-2023-topo/topo.csv", alibaba::hosts);
    let tree = alibaba::topology(hosts);
    let domains =
        |level| tree.nodes.iter().map(|(n, l)| l.path(n, level)).collect::<BTreeSet<_>>().len();
    assert_eq!(tree.nodes.len(), 847);
    assert_eq!(
        [Level::Cluster, Level::Spine, Level::Leaf, Level::Rack].map(domains),
        [1, 3, 119, 119]
    );
}

#[test]
fn lives_on_titan() {
    let Some(dir) = folder() else { return };
    let lives = all(&dir, "titan-gpu-life/gc_full.csv.gz", titan::lifetimes);
    assert_eq!(lives.len(), 37_343);
    let failures = titan::failures(&lives);
    let count = |event| failures.iter().filter(|f| f.event == event).count();
    assert_eq!(count(titan::TitanEvent::DoubleBit), 4826);
    assert_eq!(count(titan::TitanEvent::OffTheBus), 1541);
}

#[test]
fn the_built_in_mix_of_philly_is_that_of_the_file() {
    let Some(dir) = folder() else { return };
    // Odd sizes are counted to the next power of two.
    let mut classes: BTreeMap<u32, u32> = BTreeMap::new();
    for job in all(&dir, "philly/philly_sia.csv.gz", philly::jobs) {
        *classes.entry(job.ask.gpus().next_power_of_two()).or_default() += 1;
    }
    assert_eq!(classes.into_iter().collect::<Vec<_>>(), mixes::PHILLY_GPUS);
}
