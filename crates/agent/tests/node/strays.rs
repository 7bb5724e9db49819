//! Ranks whose record was lost are found by the next agent, and stopped before it says anything.

use crate::support::{Bench, LONG, alive, key, long_sleep, shim, with_word};
use muster_agent::cgroup::Cgroups;
use muster_agent::isolation::Isolation;
use muster_agent::runner::{RankBudget, Runner, RunnerConfig, RunnerTools};
use muster_model::command::Observed;
use muster_model::ids::AttemptKey;
use muster_model::job::SlotEnd;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

pub(crate) fn all() -> Vec<crate::Test> {
    crate::tests![strays:
        ranks_without_a_readable_record_are_stopped_and_others_are_left_alone,
        ranks_whose_directory_was_removed_are_stopped,
        ranks_whose_supervisor_is_not_recorded_are_stopped,
        ranks_whose_record_cannot_be_read_now_go_on,
        what_is_left_in_a_control_group_is_stopped_without_a_supervisor,
    ]
}

/// Starts a rank and somebody who left its session, and waits until both are up.
fn sleeps(b: &mut Bench, k: AttemptKey) -> String {
    let word = long_sleep(k);
    let script = format!("setsid sleep {word} & exec sleep {word}");
    b.runner.start(k, &b.detail(&script), Instant::now());
    b.running(k);
    b.until("both", |_| with_word(&word).len() == 2);
    word
}

/// Nobody else can report that they are gone: the agent that ended them does.
fn ended(k: AttemptKey) -> (AttemptKey, Observed) {
    (k, Observed::Ended(SlotEnd::agent_anew()))
}

fn is_stopped(b: &Bench, k: AttemptKey, word: &str) {
    assert_eq!(with_word(word), Vec::<i32>::new(), "they run, and nobody knows of them");
    assert_eq!(b.runner.observed(), vec![ended(k)]);
    assert!(b.runner.leftovers().is_empty(), "{:?}", b.runner.leftovers());
}

pub(crate) fn ranks_without_a_readable_record_are_stopped_and_others_are_left_alone() {
    let damages: [fn(&Path); 3] = [
        |meta| fs::remove_file(meta).unwrap(),
        |meta| fs::write(meta, "").unwrap(),
        |meta| fs::write(meta, &fs::read(meta).unwrap()[..60]).unwrap(),
    ];
    for damage in damages {
        let mut b = Bench::new();
        let (k, other) = (key(), key());
        let word = sleeps(&mut b, k);
        b.runner.start(other, &b.detail("until [ -e go ]; do sleep 0.02; done"), Instant::now());
        b.running(other);
        let rank = b.rank_pid(other);
        damage(&b.run_dir(k).join("meta.json"));
        let mut b = b.restarted();
        assert_eq!(with_word(&word), Vec::<i32>::new(), "they run, and nobody knows of them");
        assert_eq!(b.runner.observed(), vec![(other, Observed::Running), ended(k)]);
        assert!(!b.run_dir(k).exists());
        assert!(alive(rank), "it has a record");
        fs::write(b.files.path().join("go"), "").unwrap();
        b.end(other);
    }
}

pub(crate) fn ranks_whose_directory_was_removed_are_stopped() {
    for mut b in [Bench::new(), Bench::handy(RunnerTools::default())] {
        let k = key();
        let word = sleeps(&mut b, k);
        fs::remove_dir_all(b.dir.path().join("runs")).unwrap();
        is_stopped(&b.restarted(), k, &word);
    }
}

pub(crate) fn ranks_whose_supervisor_is_not_recorded_are_stopped() {
    let mut b = Bench::new();
    let k = key();
    let word = sleeps(&mut b, k);
    fs::write(b.run_dir(k).join("record"), "").unwrap();
    let mut b = b.restarted();
    assert_eq!(with_word(&word), Vec::<i32>::new(), "they run, and nobody knows of them");
    let end = b.end(k);
    assert!(matches!(end, SlotEnd::NodeFault { .. }), "{end:?}");
}

pub(crate) fn ranks_whose_record_cannot_be_read_now_go_on() {
    let mut b = Bench::new();
    let k = key();
    b.runner.start(k, &b.detail("until [ -e go ]; do sleep 0.02; done"), Instant::now());
    b.running(k);
    let rank = b.rank_pid(k);
    // The kernel refuses the name that this leads to, as an unhealthy disk would refuse to read.
    let (dir, aside) = (b.run_dir(k), b.dir.path().join("aside"));
    fs::rename(&dir, &aside).unwrap();
    std::os::unix::fs::symlink("x".repeat(300), &dir).unwrap();
    let config = RunnerConfig {
        state: b.dir.path().to_path_buf(),
        node: "node-1".parse().unwrap(),
        shim: shim(),
        cgroups: b.cgroups.clone(),
        log_cap: 256 << 20,
        budget: RankBudget::unlimited(),
    };
    let refused = Runner::open(config).unwrap_err().to_string();
    assert!(refused.contains("meta.json"), "{refused}");
    assert!(alive(rank), "nobody knows that its record is lost");
    fs::remove_file(&dir).unwrap();
    fs::rename(&aside, &dir).unwrap();
    let mut b = b.restarted();
    assert_eq!(b.runner.observed(), vec![(k, Observed::Running)]);
    fs::write(b.files.path().join("go"), "").unwrap();
    assert_eq!(b.end(k), SlotEnd::Ok);
}

pub(crate) fn what_is_left_in_a_control_group_is_stopped_without_a_supervisor() {
    let groups = Cgroups::detect();
    let lacks = format!("no control group for pids ({:?})", groups.warning());
    if !muster_testkit::machine(groups.has("pids"), lacks) {
        return;
    }
    let mut b = Bench::handy(RunnerTools { isolation: Isolation::Off, ..RunnerTools::default() });
    let k = key();
    let word = sleeps(&mut b, k);
    let shim = b.recorded(k, "supervisor").unwrap();
    let shim = i32::try_from(shim["pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(shim).unwrap(), Signal::KILL).unwrap();
    let from = Instant::now();
    // Its rank dies with it, who left the rank does not.
    while with_word(&word).len() > 1 {
        assert!(from.elapsed() < LONG, "the rank goes on");
        std::thread::sleep(Duration::from_millis(5));
    }
    fs::remove_dir_all(b.run_dir(k)).unwrap();
    is_stopped(&b.restarted(), k, &word);
}
