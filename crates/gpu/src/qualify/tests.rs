use super::*;
use crate::simulated::{SimDriver, SimFault, SimGpus, SimSku};

fn driver(gpus: u32) -> SimDriver {
    SimDriver::new(&SimGpus { gpus, ..SimGpus::of(SimSku::H200Sxm, "n1", 7) })
}

fn bench(world: &SimDriver) -> SimBench {
    SimBench::new(world.clone(), "h200-sxm", 10_000.0)
}

fn pass(b: &SimBench, o: &Options) -> Qualification {
    // Disk and network are this machine's own and have nothing to do with it.
    let o = &Options { host: false, ..o.clone() };
    run(b, o, &|_| {}, &AtomicBool::new(false))
}

fn named<'a>(q: &'a Qualification, name: &str) -> Vec<&'a Check> {
    q.checks.iter().filter(|c| c.name == name).collect()
}

#[test]
fn good_gpus_pass_every_level_with_figures() {
    for level in [Level::Quick, Level::Full] {
        let mut o = Options::of(level);
        o.length = Duration::from_secs(2 * 1570);
        let q = pass(&bench(&driver(2)), &o);
        let bad: Vec<_> = q.checks.iter().filter(|c| c.outcome > Outcome::Passed).collect();
        assert!(bad.is_empty(), "{bad:?}");
        let gemm = named(&q, "gemm-bf16");
        assert_eq!(gemm.len(), 2);
        assert!(gemm.iter().all(|c| c.value.is_some() && c.floor.is_some()));
        let repeated = gemm[0].note.contains("worst of");
        assert_eq!(repeated, level == Level::Full, "{:?}", gemm[0]);
    }
}

#[test]
fn a_slow_gpu_and_one_that_computes_wrongly_fail_by_name() {
    let w = driver(2);
    w.inject(1, SimFault::SlowClock(75));
    w.inject(0, SimFault::WrongResult);
    let q = pass(&bench(&w), &Options::of(Level::Quick));
    assert_eq!(q.outcome, Outcome::Failed);
    let slow = named(&q, "gemm-bf16");
    assert_eq!((slow[0].outcome, slow[1].outcome), (Outcome::Passed, Outcome::Failed), "{slow:?}");
    let wrong = named(&q, "sm-agree");
    assert_eq!((wrong[0].outcome, wrong[1].outcome), (Outcome::Failed, Outcome::Passed));
    assert!(wrong[0].note.contains("multiprocessor 17"));
}

#[test]
fn what_is_out_of_order_is_seen_before_anything_is_measured() {
    let w = driver(2);
    w.inject(0, SimFault::RemapPending);
    w.inject(1, SimFault::RemapFailed);
    let mut o = Options::of(Level::Quick);
    o.want.gpus = Some(8);
    o.want.sku = Some("b200-sxm".into());
    let q = pass(&bench(&w), &o);
    for name in ["inventory", "sku", "memory-health"] {
        assert!(named(&q, name).iter().any(|c| c.outcome == Outcome::Failed), "{name}: {q:?}");
    }
}

#[test]
fn heat_shows_in_the_sustained_run() {
    let w = driver(1);
    w.inject(0, SimFault::Throttle(crate::simulated::Throttle::Hot));
    let q = pass(&bench(&w), &Options::of(Level::Standard));
    assert!(named(&q, "throttling")[0].outcome >= Outcome::Degraded, "{q:?}");
}

#[test]
fn an_xid_during_the_test_fails_it() {
    let w = driver(1);
    w.inject(0, SimFault::Xid(48));
    let q = pass(&bench(&w), &Options::of(Level::Quick));
    assert!(named(&q, "driver-events")[0].note.contains("XID 48"), "{q:?}");
    assert_eq!(q.outcome, Outcome::Failed);
}

#[test]
fn a_gpu_that_is_lost_in_the_middle_fails_and_the_other_one_is_measured() {
    let w = driver(2);
    let late = w.clone();
    let seen = AtomicBool::new(false);
    let o = Options::of(Level::Quick);
    // The first GPU reports what it does before it does it, and is lost there and then.
    let report = move |p: Progress| {
        if p.doing.contains("matrix") && !seen.swap(true, Ordering::Relaxed) {
            late.inject(0, SimFault::Lost);
        }
    };
    let q = run(&bench(&w), &o, &report, &AtomicBool::new(false));
    assert_eq!(q.outcome, Outcome::Failed);
    let lost = named(&q, "gpu-works (measuring matrix products)");
    assert_eq!((lost[0].gpu, lost[0].outcome), (Some(0), Outcome::Failed), "{q:?}");
    assert!(q.checks.iter().any(|c| c.gpu == Some(1) && c.name == "gemm-fp8"), "{q:?}");
}

#[test]
fn no_gpu_or_a_stop_is_a_failure_that_says_so() {
    let q = pass(&bench(&driver(0)), &Options::of(Level::Quick));
    assert_eq!(q.outcome, Outcome::Failed);
    assert!(named(&q, "inventory")[0].note.contains("no GPU"));
    let stop = AtomicBool::new(true);
    let q = run(&bench(&driver(1)), &Options::of(Level::Quick), &|_| {}, &stop);
    assert_eq!((q.outcome, named(&q, "stopped").len()), (Outcome::Failed, 1));
    let mut o = Options::of(Level::Quick);
    o.gpus = Some(vec![5]);
    let q = pass(&bench(&driver(1)), &o);
    assert!(named(&q, "gpu-answers")[0].note.contains("no GPU 5"), "{q:?}");
}

#[test]
fn progress_goes_forward_and_says_what_is_done() {
    let seen = Mutex::new(Vec::new());
    let o = Options::of(Level::Quick);
    run(&bench(&driver(1)), &o, &|p| seen.lock().unwrap().push(p), &AtomicBool::new(false));
    let seen = seen.into_inner().unwrap();
    assert!(seen.windows(2).all(|w| w[0].done <= w[1].done), "{seen:?}");
    assert!(seen.iter().any(|p| p.doing.contains("matrix")));
    assert!(seen.iter().all(|p| p.done <= p.of));
}
