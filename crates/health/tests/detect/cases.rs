//! One thing at a time: what is found, what is not, and that it is over again.

use super::fleet::{FaultEffect, FaultInjection, Fleet, Job};
use muster_health::watch::{Signals, Watch, WatchConfig};
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::Time;
use std::collections::BTreeSet;

const MIN: i64 = 60_000;

fn fleet(job: Job, seed: u64) -> Fleet {
    Fleet::new(Watch::new(WatchConfig::default()), 4, vec![job], seed)
}

fn one(what: FaultEffect) -> Vec<ObservedFinding> {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 7);
    f.troubles.push(FaultInjection { what, node: 1, gpu: 5, from: 12 * MIN });
    f.run(40 * MIN)
}

fn kinds(found: &[ObservedFinding]) -> Vec<(String, String)> {
    let open = found.iter().filter(|f| !f.over);
    let mut out: Vec<_> = open.map(|f| (f.kind.clone(), f.entity.to_string())).collect();
    // What became worse is reported again.
    out.dedup();
    out
}

#[test]
fn each_trouble_is_found_where_it_is_and_nothing_else() {
    for (what, kind, entity) in [
        (FaultEffect::Dbe, "ecc-uncorrectable", "gpu:n1/5"),
        (FaultEffect::Sbe(15.0), "ecc-rate", "gpu:n1/5"),
        (FaultEffect::Sbe(0.5), "ecc-rate", "gpu:n1/5"),
        (FaultEffect::RemapPending, "row-remap-pending", "gpu:n1/5"),
        (FaultEffect::RemapFailed, "row-remap-failure", "gpu:n1/5"),
        (FaultEffect::Replay(60.0), "pcie-replay", "gpu:n1/5"),
        (FaultEffect::Narrow, "pcie-downgrade", "gpu:n1/5"),
        (FaultEffect::Nvlink(5.0), "nvlink-errors", "gpu:n1/5"),
        (FaultEffect::Nvlink(500.0), "nvlink-errors", "gpu:n1/5"),
        (FaultEffect::Missing, "gpu-missing", "gpu:n1/5"),
        (FaultEffect::PortDown, "link-down", "port:n1/p0"),
        (FaultEffect::Flap, "link-flap", "port:n1/p0"),
        (FaultEffect::Symbols(30.0), "symbol-errors", "port:n1/p0"),
        (FaultEffect::Symbols(0.4), "symbol-errors", "port:n1/p0"),
        (FaultEffect::Stuck, "kernel-stuck", "node:n1"),
        (FaultEffect::Slow(1.2), "straggler", "gpu:n1/5"),
        (FaultEffect::Slow(1.12), "straggler", "gpu:n1/5"),
    ] {
        let found = kinds(&one(what));
        assert_eq!(found, [(kind.to_owned(), entity.to_owned())], "{what:?}");
    }
}

#[test]
fn what_slows_a_gpu_down_is_found_with_its_cause() {
    for (what, kind) in [
        (FaultEffect::Hot, "thermal"),
        (FaultEffect::Brake, "power-brake"),
        (FaultEffect::LowClock(0.2), "clocks-low"),
    ] {
        let found = kinds(&one(what));
        assert!(found.contains(&(kind.to_owned(), "gpu:n1/5".to_owned())), "{what:?}: {found:?}");
        assert!(found.iter().all(|(k, e)| e == "gpu:n1/5" && (k == kind || k == "straggler")));
    }
}

#[test]
fn what_only_looks_like_it_is_nothing() {
    for what in [
        FaultEffect::PowerCap,
        FaultEffect::StraySbe,
        FaultEffect::StraySymbols,
        FaultEffect::BurstReplay,
        FaultEffect::BurstLink,
        FaultEffect::OneFlap,
        FaultEffect::Slow(1.03),
    ] {
        assert_eq!(kinds(&one(what)), [], "{what:?}");
    }
}

#[test]
fn what_ends_is_over_and_reported_once() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 3);
    f.run(10 * MIN);
    f.troubles.push(FaultInjection {
        what: FaultEffect::Slow(1.4),
        node: 2,
        gpu: 0,
        from: 10 * MIN,
    });
    let began = f.run(20 * MIN);
    assert_eq!(kinds(&began), [("straggler".to_owned(), "gpu:n2/0".to_owned())]);
    let s = &began[0];
    assert_eq!((s.attempt, s.rank), (Some(Fleet::key(0)), Some(16)));
    f.troubles.clear();
    let ended = f.run(30 * MIN);
    assert_eq!(ended.len(), 1, "{ended:?}");
    assert!(ended[0].over && ended[0].kind == "straggler");
}

#[test]
fn what_was_repaired_is_not_held_against_a_node() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 7);
    let flap = [("link-flap".to_owned(), "port:n1/p0".to_owned())];
    let trouble = |from| FaultInjection { what: FaultEffect::Flap, node: 1, gpu: 5, from };
    f.troubles.push(trouble(12 * MIN));
    assert_eq!(kinds(&f.run(40 * MIN)), flap);
    f.troubles.clear();
    f.watch.repaired(&"n1".parse().unwrap());
    // The hour in which it lost its link is not over.
    assert_eq!(kinds(&f.run(65 * MIN)), []);
    f.troubles.push(trouble(65 * MIN));
    assert_eq!(kinds(&f.run(93 * MIN)), flap, "and again is found again");
}

#[test]
fn what_was_found_before_a_node_went_back_into_service_is_called_over() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 7);
    let lost = |found: Vec<ObservedFinding>| {
        let mut lost = found;
        lost.retain(|s| s.kind == "gpu-missing");
        lost
    };
    let missing = |from| FaultInjection { what: FaultEffect::Missing, node: 1, gpu: 5, from };
    f.troubles.push(missing(12 * MIN));
    assert!(!lost(f.run(20 * MIN)).is_empty());
    // In service again before it was well for long enough: nobody else closes it.
    f.watch.repaired(&"n1".parse().unwrap());
    f.troubles.clear();
    let after = lost(f.run(30 * MIN));
    assert!(after.len() == 1 && after[0].over, "{after:?}");
    // What is still so is found anew, and began then.
    f.troubles.push(missing(30 * MIN));
    assert!(!lost(f.run(40 * MIN)).is_empty());
    f.watch.repaired(&"n1".parse().unwrap());
    let anew = lost(f.run(45 * MIN));
    assert!(!anew[0].over && anew[0].first_seen > Time(40 * MIN), "{anew:?}");
}

#[test]
fn a_whole_node_is_one_finding() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 5);
    for gpu in 0..8 {
        f.troubles.push(FaultInjection {
            what: FaultEffect::Slow(1.25),
            node: 3,
            gpu,
            from: 12 * MIN,
        });
    }
    assert_eq!(kinds(&f.run(30 * MIN)), [("straggler".to_owned(), "node:n3".to_owned())]);
}

#[test]
fn a_gang_without_gpus_says_nothing_of_a_nodes_gpus() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 7);
    for r in &mut std::sync::Arc::get_mut(&mut f.running[0]).unwrap().ranks {
        r.gpus = GpuSet(0);
    }
    f.troubles.push(FaultInjection {
        what: FaultEffect::Slow(1.4),
        node: 1,
        gpu: 5,
        from: 12 * MIN,
    });
    let mut found = f.run(40 * MIN);
    found.retain(|f| f.kind == "straggler");
    assert_eq!(kinds(&found), [("straggler".to_owned(), "node:n1".to_owned())]);
    assert!(found.iter().all(|f| f.severity == Severity::Info), "{found:?}");
}

#[test]
fn a_straggler_that_is_quick_for_a_moment_is_found_all_the_same() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 7);
    let slow = || FaultInjection { what: FaultEffect::Slow(1.3), node: 1, gpu: 5, from: 0 };
    f.run(12 * MIN);
    for i in 0..6 {
        f.troubles.push(slow());
        f.run(12 * MIN + i * MIN + 40_000);
        f.troubles.clear();
        f.run(13 * MIN + i * MIN);
    }
    f.troubles.push(slow());
    let found = kinds(&f.run(25 * MIN));
    assert_eq!(found, [("straggler".to_owned(), "gpu:n1/5".to_owned())]);
}

#[test]
fn half_of_the_ranks_are_the_job_and_all_of_them_too() {
    let job = Job { slower: Some((1.3, 15 * MIN)), ..Job::on(vec![0, 1, 2, 3]) };
    let found = fleet(job, 11).run(40 * MIN);
    assert_eq!(kinds(&found), [("job-slow".to_owned(), "job:1".to_owned())]);
    assert_eq!(found[0].severity, Severity::Info);
}

#[test]
fn the_design_of_a_job_is_no_fault() {
    let moe = Job { moe: true, ..Job::on(vec![0, 1, 2, 3]) };
    assert_eq!(kinds(&fleet(moe, 13).run(40 * MIN)), []);
    let turns = Job { turns: true, ..Job::on(vec![0, 1, 2, 3]) };
    let mut f = fleet(turns, 13);
    let first = kinds(&f.run(12 * MIN));
    assert!(first.len() <= 2, "the first turns look like a straggler each: {first:?}");
    assert_eq!(kinds(&f.run(60 * MIN)), [], "then it is known that they take turns");
    let saves = Job { checkpoint: Some(5 * MIN), ..Job::on(vec![0, 1, 2, 3]) };
    assert_eq!(kinds(&fleet(saves, 13).run(40 * MIN)), []);
    let reads = Job { read: 0.8, ..Job::on(vec![0, 1, 2, 3]) };
    let found = kinds(&fleet(reads, 13).run(40 * MIN));
    assert_eq!(found, [("loader-starved".to_owned(), "job:1".to_owned())]);
}

#[test]
fn a_hang_is_of_the_job() {
    let job = Job { hang: Some((15 * MIN, 3)), ..Job::on(vec![0, 1, 2, 3]) };
    let found = fleet(job, 17).run(25 * MIN);
    assert_eq!(kinds(&found), [("hang".to_owned(), "job:1".to_owned())]);
    assert_eq!((found[0].attempt, found[0].severity), (Some(Fleet::key(0)), Severity::Critical));
    assert!(found[0].last_seen.0 <= 18 * MIN, "{found:?}");
}

#[test]
fn a_gang_that_lost_a_node_does_not_hang_by_itself() {
    let job = Job { hang: Some((15 * MIN, 3)), ..Job::on(vec![0, 1, 2, 3]) };
    let mut f = fleet(job, 17);
    f.run(15 * MIN);
    f.names.pop();
    assert_eq!(kinds(&f.run(20 * MIN)), [], "the lost node is found elsewhere");
}

#[test]
fn a_checkpoint_that_is_reported_is_no_hang() {
    let job = Job { hang: Some((15 * MIN, 3)), ..Job::on(vec![0, 1, 2, 3]) };
    let mut f = fleet(job, 17);
    f.run(15 * MIN - f.row_ms);
    f.watch.checkpointing(Fleet::key(0), true);
    assert_eq!(kinds(&f.run(35 * MIN)), []);
    f.watch.checkpointing(Fleet::key(0), false);
    assert_eq!(kinds(&f.run(45 * MIN)).len(), 1);
}

#[test]
fn a_file_system_that_stalls_is_one_finding_and_nodes_are_left_alone() {
    let mut f = fleet(Job::on(vec![0, 1, 2, 3]), 19);
    f.storage_stall = Some(12 * MIN);
    assert_eq!(kinds(&f.run(25 * MIN)), [("storage-stall".to_owned(), "storage:/data".to_owned())]);
    f.storage_stall = None;
    let after = f.run(35 * MIN);
    assert!(after.iter().all(|s| s.over) && after.len() == 1, "{after:?}");
}

#[test]
fn steps_that_report_only_their_time_still_name_the_one_that_is_waited_for() {
    let job = Job { stages: false, ..Job::on(vec![0, 1, 2, 3]) };
    let mut f = fleet(job, 23);
    f.troubles.push(FaultInjection {
        what: FaultEffect::LowClock(0.25),
        node: 1,
        gpu: 2,
        from: 15 * MIN,
    });
    let found = kinds(&f.run(40 * MIN));
    assert!(found.iter().any(|(k, e)| k == "clocks-low" && e == "gpu:n1/2"), "{found:?}");
    assert!(found.iter().all(|(_, e)| e == "gpu:n1/2" || e == "job:1"), "{found:?}");
}

#[test]
fn an_agent_that_is_heard_and_reports_no_rows_hangs() {
    let mut f = fleet(Job::on(vec![0, 1]), 29);
    f.run(10 * MIN);
    let n3 = f.names.pop().expect("a node");
    let mut found = Vec::new();
    for _ in 0..36 {
        found.extend(f.tick());
        f.watch.note_contact(&n3, Time(f.now));
    }
    found.extend(f.tick());
    assert_eq!(kinds(&found), [("agent-hang".to_owned(), "node:n3".to_owned())]);
    f.names.push(n3);
    let back = f.run(f.now + 2 * MIN);
    assert!(back.len() == 1 && back[0].over, "{back:?}");
}

#[test]
fn what_is_found_of_a_node_outlives_the_job_and_what_is_said_of_the_job_does_not() {
    let job = Job { slower: Some((1.3, 15 * MIN)), ..Job::on(vec![0, 1, 2, 3]) };
    let mut f = fleet(job, 31);
    f.troubles.push(FaultInjection {
        what: FaultEffect::RemapPending,
        node: 0,
        gpu: 0,
        from: 20 * MIN,
    });
    f.run(30 * MIN);
    f.running.clear();
    f.jobs.clear();
    let ended = f.run(31 * MIN);
    let over: Vec<&Entity> = ended.iter().filter(|s| s.over).map(|s| &s.entity).collect();
    assert_eq!(over.len(), 1);
    assert!(matches!(over[0], Entity::Job(_)));
}

#[test]
fn precursors_are_kept_and_weighed() {
    let columns: Vec<String> =
        ["util", "nvlink_errors", "remap_pending", "ecc_sbe"].map(str::to_owned).to_vec();
    let node: NodeName = "n1".parse().expect("a name");
    let mut w = Watch::new(WatchConfig::default());
    let mut found = Vec::new();
    for i in 0..240i64 {
        // The second GPU has two signs of different kinds; the first has a stray error.
        let sbe = if i > 100 { 1.0 } else { 0.0 };
        let gpus = [90.0, 0.0, 0.0, sbe, 90.0, (i * 3) as f32, 1.0, 0.0];
        w.signals(&Signals {
            node: &node,
            at: Time(i * 10_000),
            columns: &columns,
            gpus: &gpus,
            host_columns: &[],
            host: &[],
        });
        found.extend(w.collect_findings(Time(i * 10_000), &[]));
    }
    // It stands for 40 minutes: one finding, that is reported again now and then.
    let hazards: BTreeSet<_> = found
        .iter()
        .filter(|f| f.kind == "hazard")
        .map(|f| (f.entity.to_string(), f.first_seen, f.over))
        .collect();
    assert_eq!(hazards.len(), 1, "{found:?}");
    assert_eq!(hazards.first().expect("one").0, "gpu:n1/1");
    // What a node is marked with is the chance that the finding reports.
    let first = found.iter().find(|f| f.kind == "hazard").expect("one");
    let reported = format!("{:.0}% within a month", f64::from(first.confidence) / 10.0);
    assert!(first.evidence.iter().any(|line| line.contains(&reported)), "{first:?}");
    let p = w.precursors(&node, 0).expect("reported");
    assert_eq!((p.sbe_slope, p.nvlink_slope, p.replay_slope), (Some(1), Some(0), None));
    assert_eq!(w.precursors(&node, 7), None);
}

#[test]
fn a_row_that_is_looked_at_again_and_again_is_one_row() {
    let mut w = Watch::new(WatchConfig::default());
    let names: Vec<NodeName> = (0..4).map(|n| format!("n{n}").parse().expect("a name")).collect();
    let job = Job::on(vec![0, 1, 2, 3]);
    let runs = [std::sync::Arc::new(super::fleet::running(0, &job, &names))];
    let columns = ["util".to_owned(), "sm_clock".to_owned()];
    let row = |w: &mut Watch, node: usize, secs: i64, busy: bool| {
        let gpus = if busy { [98.0, 1980.0] } else { [0.0, 345.0] }.repeat(8);
        let at = Time(MIN + secs * 1000);
        let (node, columns) = (&names[node], &columns[..]);
        w.signals(&Signals { node, at, columns, gpus: &gpus, host_columns: &[], host: &[] });
    };
    for secs in -60..=0 {
        (0..4).for_each(|n| row(&mut w, n, secs, false));
    }
    // The work begins and clocks rise. One node's rows come late, and then no more.
    let mut found = Vec::new();
    for secs in 1..100 {
        [0, 2, 3].iter().for_each(|n| row(&mut w, *n, secs, true));
        match secs {
            9 => row(&mut w, 1, 3, true),
            40 => row(&mut w, 1, 25, true),
            _ => {}
        }
        if secs % 5 == 0 {
            found.extend(w.collect_findings(Time(MIN + secs * 1000), &runs));
        }
    }
    assert_eq!(kinds(&found), []);
}
