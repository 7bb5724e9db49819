use super::*;
use muster_model::ids::JobId;
use proptest::prelude::*;

mod faults;

const START: Time = Time(1_000_000);

fn key(n: u64) -> AttemptKey {
    AttemptKey { job: JobId(n), attempt: 1 }
}

fn node(seed: u64, name: &str) -> SimNode {
    SimNode::new(seed, SimConfig::default(), name, START)
}

fn work(run: u64, step: Option<u64>, checkpoint: Option<u64>) -> Simulate {
    Simulate {
        run: Span(run),
        step: step.map(Span),
        checkpoint: checkpoint.map(Span),
        exit_code: 3,
        idle: false,
        ..Simulate::default()
    }
}

#[test]
fn a_node_is_itself_whichever_others_exist() {
    let a = node(1, "hgx-0001").inventory();
    assert_eq!(a, node(1, "hgx-0001").inventory());
    let b = node(1, "hgx-0002").inventory();
    assert_ne!(a.gpus[0].uuid, b.gpus[0].uuid);
    assert_eq!((a.gpus.len(), a.gpus[0].sku.as_str(), a.simulated), (8, "h100-sxm", true));
}

#[test]
fn work_steps_checkpoints_and_ends() {
    let mut n = node(1, "n");
    n.start(key(1), &work(3500, Some(500), Some(1500)), 0xff, START);
    assert_eq!(n.next_wake(), Some(START + Span(1000)));
    let events = n.advance(START + Span(10_000));
    let stages = Stages::default();
    let plain = |what: &WorkEvent| match what {
        WorkEvent::Step { step, took, .. } => WorkEvent::Step { step: *step, took: *took, stages },
        other => other.clone(),
    };
    let times: Vec<(u64, WorkEvent)> =
        events.iter().map(|e| (e.at.since(START).0, plain(&e.what))).collect();
    let took = Span(500);
    assert_eq!(
        times,
        vec![
            (1000, WorkEvent::Step { step: 2, took, stages }),
            (1500, WorkEvent::Checkpoint { step: Some(3) }),
            (2000, WorkEvent::Step { step: 4, took, stages }),
            (3000, WorkEvent::Step { step: 6, took, stages }),
            (3000, WorkEvent::Checkpoint { step: Some(6) }),
            (3500, WorkEvent::Ended { code: 3 }),
        ]
    );
    assert_eq!(n.next_wake(), None);
    assert!(!n.works_on(key(1)));
}

#[test]
fn a_crash_ends_everything_and_gives_a_new_boot() {
    let mut n = node(1, "n");
    let boot = n.boot();
    n.start(key(1), &work(60_000, None, None), 1, START);
    let down = n.apply(&Fault::Crash { down: Span::secs(9) }, START);
    assert_eq!(down, vec![Effect::Down { until: START + Span::secs(9) }]);
    assert_ne!(n.boot(), boot);
    assert!(n.advance(START + Span::mins(9)).is_empty());
}

#[test]
fn a_lost_gpu_is_gone_from_inventory_and_silent_in_telemetry() {
    let mut n = node(1, "n");
    assert_eq!(n.apply(&Fault::LoseGpu { gpu: 3 }, START), vec![Effect::Inventory]);
    assert_eq!(n.inventory().gpus.len(), 7);
    assert!(n.telemetry()[3].iter().all(Option::is_none));
    assert!(matches!(n.apply(&Fault::LoseGpu { gpu: 3 }, START)[..], [Effect::Impossible(_)]));
}

#[test]
fn killed_work_is_reported_and_unknown_work_is_left_to_real_ranks() {
    let mut n = node(1, "n");
    n.start(key(1), &work(60_000, None, None), 1, START);
    let k = key(1);
    assert!(matches!(
        &n.apply(&Fault::KillRanks { key: k }, START)[..],
        [Effect::Event(SimEvent { what: WorkEvent::Killed, .. })]
    ));
    assert_eq!(n.apply(&Fault::KillRanks { key: k }, START), vec![Effect::KillRanks(k)]);
}

#[test]
fn gpus_warm_up_under_load_and_cool_down_after_it() {
    let mut n = node(1, "n");
    let temp = |n: &SimNode| n.telemetry()[0][4].unwrap();
    let cold = temp(&n);
    n.start(key(1), &work(120_000, None, None), 1, START);
    n.advance(START + Span::secs(10));
    let warm = temp(&n);
    n.advance(START + Span::secs(100));
    let hot = temp(&n);
    n.advance(START + Span::mins(10));
    assert!(cold < warm && warm < hot && temp(&n) < warm, "{cold} {warm} {hot} {}", temp(&n));
    assert_eq!(n.telemetry()[1].len(), COLUMNS.len());
}

#[test]
fn the_last_gpus_are_in_mig_mode() {
    let migs = |gpus, mig_gpus| {
        let config = SimConfig { mig_gpus, ..SimConfig::of(Sku::H100Sxm, gpus) };
        let inventory = SimNode::new(1, config, "n", START).inventory();
        inventory.gpus.iter().map(|g| g.mig.unwrap()).collect::<Vec<bool>>()
    };
    assert_eq!(migs(4, 0), [false; 4]);
    assert_eq!(migs(4, 1), [false, false, false, true]);
    assert_eq!(migs(4, 9), [true; 4]);
}

#[test]
fn idle_work_holds_memory_and_nothing_else() {
    let column = |name| COLUMNS.iter().position(|c| *c == name).unwrap();
    let mut n = node(1, "n");
    let free = n.telemetry()[0].clone();
    n.start(key(1), &Simulate { idle: true, ..work(120_000, None, None) }, 1, START);
    n.advance(START + Span::secs(10));
    let held = n.telemetry()[0].clone();
    assert_eq!(held[column("util")], Some(0.0));
    assert!(held[column("mem_used")].unwrap() > 1000.0);
    assert!(held[column("power")].unwrap() < free[column("power")].unwrap() + 20.0);
    // Somebody else works on the same GPU.
    n.start(key(2), &work(60_000, None, None), 1, START + Span::secs(10));
    assert!(n.telemetry()[0][column("util")].unwrap() > 50.0);
    assert_eq!(n.telemetry()[1][column("mem_used")], free[column("mem_used")]);
}

#[test]
fn work_starts_up_stands_still_for_checkpoints_and_goes_on_from_them() {
    let spec = Simulate {
        startup: Span::secs(10),
        checkpoint_cost: Span::secs(2),
        ..work(100_000, None, Some(30_000))
    };
    let mut n = node(1, "n");
    n.start(key(1), &spec, 1, START);
    assert_eq!(n.next_end(), Some(START + Span::secs(10 + 100 + 3 * 2)));
    let events = n.advance(START + Span::secs(75));
    let times: Vec<u64> = events.iter().map(|e| e.at.since(START).0 / 1000).collect();
    assert_eq!(times, [42, 74], "30 s of work and 2 s of saving, after 10 s");
    let a = n.account(key(1)).unwrap();
    let secs = |s: Span| s.0 / 1000;
    assert_eq!((secs(a.startup), secs(a.useful), secs(a.unsaved)), (10, 61, 1));
    assert_eq!((secs(a.saving), secs(a.saved)), (4, 60));
    n.apply(&Fault::Crash { down: Span(0) }, START + Span::secs(75));
    // The next attempt begins where the checkpoint is.
    let again = AttemptKey { attempt: 2, ..key(1) };
    n.resume(again, &spec, 1, a.saved, START + Span::secs(100));
    assert_eq!(n.next_end(), Some(START + Span::secs(100 + 10 + 40 + 2)));
    let events = n.advance_briefly(START + Span::secs(300));
    assert_eq!(events.len(), 2);
    assert_eq!(events[1].at, START + Span::secs(152));
    assert_eq!(n.account(again).unwrap().useful, Span::secs(40));
    assert!(!n.works_on(again));
}

#[test]
fn slow_work_takes_longer_and_a_checkpoint_that_is_asked_for_is_written() {
    let spec = Simulate { checkpoint_cost: Span::secs(1), ..work(10_000, None, None) };
    let mut n = node(1, "n");
    n.start(key(1), &spec, 1, START);
    n.advance(START + Span::secs(2));
    n.set_rate(key(1), 500);
    n.advance(START + Span::secs(6));
    assert_eq!(n.account(key(1)).unwrap().useful, Span::secs(4));
    assert_eq!(n.account(key(1)).unwrap().slowed, Span::secs(2));
    n.set_rate(key(1), 1000);
    assert_eq!(n.ask_checkpoint(key(1), START + Span::secs(7)), None, "it takes a second");
    let events = n.advance(START + Span::secs(8));
    assert_eq!(events[0].what, WorkEvent::Checkpoint { step: None });
    assert_eq!(n.account(key(1)).unwrap().saved, Span::secs(5));
    assert_eq!(n.next_wake(), Some(START + Span::secs(13)));
}

proptest! {
    #[test]
    fn advancing_in_one_or_many_steps_gives_the_same(
        jobs in prop::collection::vec(
            (1u64..20_000, prop::option::of(1u64..3000), prop::option::of(1u64..5000)), 1..4),
        mut stops in prop::collection::vec(0u64..25_000, 0..40),
        seed in any::<u64>(),
    ) {
        let mut one = node(seed, "n");
        let mut many = node(seed, "n");
        for (i, (run, step, checkpoint)) in jobs.iter().enumerate() {
            let w = work(*run, *step, *checkpoint);
            one.start(key(i as u64), &w, 1 << i, START);
            many.start(key(i as u64), &w, 1 << i, START);
        }
        stops.sort_unstable();
        stops.push(25_000);
        let mut events = Vec::new();
        for s in stops {
            events.extend(many.advance(START + Span(s)));
        }
        prop_assert_eq!(one.advance(START + Span(25_000)), events);
        prop_assert_eq!(one.boot(), many.boot());
    }

    #[test]
    fn waking_when_due_misses_nothing(run in 1u64..20_000, step in 1u64..3000) {
        let mut n = node(7, "n");
        n.start(key(1), &work(run, Some(step), None), 1, START);
        while let Some(at) = n.next_wake() {
            let events = n.advance(at);
            prop_assert!(!events.is_empty() && events.iter().all(|e| e.at == at));
        }
        prop_assert!(!n.works_on(key(1)));
    }
}
