//! Control groups of this machine, when we may use them.

use crate::support::{Bench, key, long_sleep, with_word};
use muster_agent::cgroup::Cgroups;
use muster_agent::runner::RankBudget;
use muster_agent::testing::detail;
use muster_link::messages::Stream;
use muster_model::job::SlotEnd;
use muster_model::units::{Bytes, Span};
use std::sync::Arc;
use std::time::Instant;

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![groups:
        a_memory_hog_dies_at_its_limit_and_its_neighbour_lives,
        processes_are_limited_in_number,
        a_kill_reaches_grandchildren_that_left_the_session,
        a_group_is_gone_after_the_end,
    ]
}

/// A bench on real groups; none, with a word, where the machine does not let us.
fn bench(needs: &str) -> Option<Bench> {
    let groups = Cgroups::detect();
    let lacks = format!("no control group for {needs} ({:?})", groups.warning());
    if !muster_testkit::machine(groups.has(needs), lacks) {
        return None;
    }
    Some(Bench::with(Arc::new(groups), RankBudget::unlimited()))
}

pub(crate) fn a_memory_hog_dies_at_its_limit_and_its_neighbour_lives() {
    let Some(mut b) = bench("memory") else { return };
    let (hog, neighbour) = (key(), key());
    b.runner.start(neighbour, &detail("exec sleep 1000"), Instant::now());
    let mut d = detail("x=aaaaaaaaaaaaaaaa; while :; do x=$x$x; done");
    d.limits.memory = Some(Bytes::mib(64));
    b.runner.start(hog, &d, Instant::now());
    match b.end(hog) {
        SlotEnd::Failed { exit } => {
            assert_eq!(exit.note, "out of memory: limit 64MiB", "{exit:?}");
            assert_eq!(exit.signal, Some(9));
        }
        other => panic!("{other:?}"),
    }
    b.running(neighbour);
    assert_eq!(b.runner.active().collect::<Vec<_>>(), vec![neighbour]);
    b.runner.stop(neighbour, Span(0), Instant::now());
    assert_eq!(b.end(neighbour), SlotEnd::Stopped);
}

pub(crate) fn processes_are_limited_in_number() {
    let Some(mut b) = bench("pids") else { return };
    let k = key();
    let mut d = detail("for i in 1 2 3 4 5 6 7 8 9; do sleep 1000 & done; wait");
    d.limits.pids = Some(5);
    b.runner.start(k, &d, Instant::now());
    b.until("a refused fork", |b| b.text(k, 0, Stream::Stderr).contains("fork"));
    b.runner.stop(k, Span(0), Instant::now());
    b.end(k);
}

pub(crate) fn a_kill_reaches_grandchildren_that_left_the_session() {
    let Some(mut b) = bench("pids") else { return };
    let k = key();
    let word = long_sleep(k);
    let script =
        format!("setsid setsid sh -c 'trap \"\" TERM; touch up; sleep {word}' & sleep 1000");
    b.runner.start(k, &b.detail(&script), Instant::now());
    b.until("the grandchild", |_| !with_word(&word).is_empty());
    b.runner.stop(k, Span(50), Instant::now());
    assert_eq!(b.end(k), SlotEnd::Stopped);
    assert!(with_word(&word).is_empty());
}

pub(crate) fn a_group_is_gone_after_the_end() {
    let Some(mut b) = bench("pids") else { return };
    let k = key();
    b.runner.start(k, &detail("exec sleep 1000"), Instant::now());
    b.running(k);
    let out = std::fs::read_to_string(format!("/proc/{}/cgroup", b.rank_pid(k))).unwrap();
    b.runner.stop(k, Span(50), Instant::now());
    b.end(k);
    let path = out.lines().find_map(|l| Some(l.split_once("/muster/")?.1)).expect("a group");
    assert!(path.starts_with("node-1-") && path.ends_with(&format!("/{k}")), "{out}");
    let mut trees = vec![std::path::PathBuf::from("/sys/fs/cgroup")];
    trees.extend(std::fs::read_dir("/sys/fs/cgroup").unwrap().flatten().map(|e| e.path()));
    for tree in trees {
        assert!(!tree.join("muster").join(path).exists());
    }
}
