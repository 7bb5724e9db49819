//! Lives of simulated GPUs.

use super::body::reason;
use super::*;
use crate::mig::{Present, Start, plan};
use crate::sample::{FIELDS, Field, Sample};
use muster_model::node::Gpu;
use proptest::prelude::*;

const KINDS: [SimSku; 5] =
    [SimSku::A100Sxm, SimSku::H100Sxm, SimSku::H200Sxm, SimSku::B200Sxm, SimSku::Gb200];

/// Counters that never go back while a GPU is not reset.
const COUNTERS: [Field; 17] = [
    Field::Energy,
    Field::PcieReplay,
    Field::PowerViolation,
    Field::ThermalViolation,
    Field::BoardLimitViolation,
    Field::LowUtilViolation,
    Field::EccSbeVol,
    Field::EccDbeVol,
    Field::EccSbeAgg,
    Field::EccDbeAgg,
    Field::RemappedUncorrectable,
    Field::RemappedCorrectable,
    Field::RemapFailure,
    Field::NvlinkCrcFlit,
    Field::NvlinkReplay,
    Field::NvlinkRecovery,
    Field::NvlinkBytes,
];

fn driver(sku: SimSku, seed: u64) -> SimDriver {
    SimDriver::new(&SimGpus { gpus: 2, ..SimGpus::of(sku, "n1", seed) })
}

fn first(driver: &SimDriver) -> Box<dyn Device> {
    driver.devices().into_iter().next().expect("one").expect("alive")
}

fn look(driver: &SimDriver) -> Sample {
    let mut s = Sample::default();
    first(driver).sample(&mut s).expect("answers");
    s
}

fn figure(driver: &SimDriver, field: Field) -> f64 {
    look(driver).get(field).unwrap_or_else(|| panic!("{field:?} is absent"))
}

fn reasons(driver: &SimDriver) -> u64 {
    figure(driver, Field::ClockReasons) as u64
}

fn xids(driver: &SimDriver) -> Vec<u32> {
    let mut out = Vec::new();
    while let Ok(Some(e)) = driver.wait_event(Duration::ZERO) {
        out.push(e.xid);
    }
    out
}

fn describe(driver: &SimDriver) -> Gpu {
    first(driver).describe().expect("answers")
}

#[test]
fn idle_and_busy_read_like_the_real_ones() {
    for sku in KINDS {
        let d = driver(sku, 1);
        let f = sku.specs();
        d.advance(Span::mins(5));
        assert!(figure(&d, Field::Temp) < 45.0, "{sku:?} idles cool");
        assert_eq!(figure(&d, Field::SmClock), f.idle_mhz);
        assert_eq!(reasons(&d), reason::IDLE);
        assert!(figure(&d, Field::Power) < f.idle_w * 1.05);
        d.set_load(0, Some(Workload::steady(Phase::Compute)));
        d.advance(Span::mins(10));
        let s = look(&d);
        let temp = s.get(Field::Temp).expect("there");
        assert!((55.0..75.0).contains(&temp), "{sku:?} {temp}");
        let power = s.get(Field::Power).expect("there");
        assert!(power > f.busy_w * 0.9 && power <= f.limit_w, "{sku:?} {power}");
        assert_eq!(s.get(Field::Util), Some(100.0));
        assert!(s.get(Field::TensorActive) > Some(0.5));
        assert!(s.get(Field::MemTemp) > s.get(Field::Temp));
    }
}

#[test]
fn memory_follows_more_slowly_than_the_core() {
    let d = driver(SimSku::H100Sxm, 3);
    d.advance(Span::mins(20));
    let (core, memory) = (figure(&d, Field::Temp), figure(&d, Field::MemTemp));
    d.set_load(0, Some(Workload::steady(Phase::Compute)));
    d.advance(Span::secs(12));
    let core = figure(&d, Field::Temp) - core;
    let memory = figure(&d, Field::MemTemp) - memory;
    assert!(core > 15.0 && memory < core / 1.5, "core {core}, memory {memory}");
}

#[test]
fn every_kind_has_every_figure_but_those_of_old_gpus() {
    let absent = [Field::RetiredSbe, Field::RetiredDbe, Field::RetiredPending, Field::Fan];
    let s = look(&driver(SimSku::Gb200, 1));
    for f in FIELDS {
        assert_eq!(s.get(f).is_none(), absent.contains(&f), "{f:?}");
    }
}

#[test]
fn each_cause_lowers_the_clock_and_names_itself() {
    let cases = [
        (Throttle::PowerCap, reason::SW_POWER, Field::PowerViolation),
        (Throttle::Warm, reason::SW_THERMAL, Field::ThermalViolation),
        (Throttle::Hot, reason::HW_THERMAL | reason::HW_SLOWDOWN, Field::ThermalViolation),
        (
            Throttle::PowerBrake,
            reason::POWER_BRAKE | reason::HW_SLOWDOWN,
            Field::BoardLimitViolation,
        ),
        (Throttle::Hardware, reason::HW_SLOWDOWN, Field::Energy),
    ];
    for (kind, bits, counter) in cases {
        let d = driver(SimSku::H200Sxm, 5);
        d.set_load(0, Some(Workload::steady(Phase::Compute)));
        d.advance(Span::mins(5));
        let (clock, before) = (figure(&d, Field::SmClock), figure(&d, counter));
        assert_eq!(reasons(&d) & bits, 0, "{kind:?} is not there yet");
        d.inject(0, SimFault::Throttle(kind));
        let mut seen = 0;
        let mut least = f64::MAX;
        for _ in 0..600 {
            d.advance(Span::secs(1));
            seen |= reasons(&d);
            least = least.min(figure(&d, Field::SmClock));
        }
        assert_eq!(seen & bits, bits, "{kind:?} {seen:#x}");
        assert!(least < clock * 0.95, "{kind:?}: {least} of {clock}");
        assert!(figure(&d, counter) > before, "{kind:?}");
        d.repair(0, SimFault::Throttle(kind));
        d.advance(Span::mins(20));
        assert_eq!(reasons(&d) & bits, 0, "{kind:?} is over");
        assert!(figure(&d, Field::SmClock) > clock * 0.98);
    }
}

#[test]
fn a_hungry_load_meets_the_power_limit() {
    let d = driver(SimSku::H100Sxm, 2);
    d.set_load(0, Some(Workload { intensity: 1.3, ..Workload::steady(Phase::Compute) }));
    d.advance(Span::mins(2));
    let s = look(&d);
    assert!(s.get(Field::PowerNow) <= s.get(Field::PowerLimit));
    assert_eq!(reasons(&d) & reason::SW_POWER, reason::SW_POWER);
}

#[test]
fn a_slow_clock_is_slow_and_silent() {
    let d = driver(SimSku::H100Sxm, 2);
    d.set_load(0, Some(Workload::steady(Phase::Compute)));
    d.inject(0, SimFault::SlowClock(70));
    d.advance(Span::mins(2));
    assert_eq!(reasons(&d), 0);
    assert!((d.speed(0).expect("alive") - 0.7).abs() < 0.01);
    assert!(xids(&d).is_empty());
}

#[test]
fn an_idle_gpu_is_not_a_slow_one() {
    let d = driver(SimSku::H100Sxm, 2);
    assert_eq!(d.speed(0), Some(1.0));
    d.advance(Span::mins(10));
    assert_eq!(d.speed(0), Some(1.0));
    d.inject(0, SimFault::SlowClock(70));
    assert!((d.speed(0).expect("alive") - 0.7).abs() < 0.01);
}

#[test]
fn a_double_bit_waits_for_a_reset() {
    let d = driver(SimSku::H100Sxm, 2);
    let banks = figure(&d, Field::RemapBanksMax);
    d.inject(0, SimFault::RemapPending);
    assert_eq!(xids(&d), vec![48, 94, 63]);
    assert_eq!(figure(&d, Field::RemapPending), 1.0);
    assert_eq!(figure(&d, Field::RemappedUncorrectable), 1.0);
    assert_eq!(figure(&d, Field::RemapBanksMax), banks - 1.0);
    assert_eq!(figure(&d, Field::RemapBanksHigh), 1.0);
    assert_eq!(figure(&d, Field::Xid), 63.0);
    assert_eq!(first(&d).recovery(), Some(crate::device::Recovery::DrainAndReset));
    d.reset(0);
    let s = look(&d);
    assert_eq!(s.get(Field::RemapPending), Some(0.0));
    assert_eq!((s.get(Field::EccDbeVol), s.get(Field::EccDbeAgg)), (Some(0.0), Some(1.0)));
    d.inject(0, SimFault::RemapFailed);
    assert_eq!(xids(&d), vec![48, 94, 64]);
    d.reset(0);
    assert_eq!(figure(&d, Field::RemapFailure), 1.0, "a reset does not repair that");
    assert_eq!(figure(&d, Field::RemapBanksNone), 1.0);
}

#[test]
fn storms_are_counted() {
    let d = driver(SimSku::H100Sxm, 2);
    for fault in [SimFault::EccStorm, SimFault::ReplayStorm, SimFault::LinkErrors] {
        d.inject(0, fault);
    }
    d.advance(Span::mins(5));
    let s = look(&d);
    assert!(s.get(Field::EccSbeVol) > Some(10_000.0));
    assert!(s.get(Field::RemappedCorrectable) > Some(10.0));
    assert!(s.get(Field::PcieReplay) > Some(25_000.0));
    assert!(s.get(Field::NvlinkCrcFlit) > Some(50_000.0));
    let reported = xids(&d);
    for xid in [63, 74, 92] {
        assert!(reported.contains(&xid), "{xid} in {reported:?}");
    }
}

#[test]
fn a_lost_gpu_answers_nothing_and_the_others_go_on() {
    let d = driver(SimSku::H100Sxm, 2);
    let gpu = first(&d);
    let mut s = look(&d);
    d.inject(0, SimFault::Lost);
    assert_eq!(gpu.sample(&mut s), Err(DeviceError::Lost));
    assert_eq!(s.iter().count(), 0);
    assert_eq!(gpu.describe(), Err(DeviceError::Lost));
    assert_eq!(gpu.processes(), Err(DeviceError::Lost));
    assert_eq!(gpu.bus(), crate::device::BusNow::default());
    assert_eq!(gpu.recovery(), None);
    assert_eq!(d.wait_event(Duration::ZERO), Ok(Some(DriverEvent { gpu: Some(0), xid: 79 })));
    let all = d.devices();
    assert_eq!(all.len(), 2);
    assert!(matches!(all[0], Err(DeviceError::Lost)) && all[1].is_ok());
    d.reset(0);
    assert!(gpu.sample(&mut s).is_ok());
}

#[test]
fn a_hang_ends_when_it_is_released() {
    let d = driver(SimSku::H100Sxm, 2);
    d.inject(0, SimFault::Hang);
    let gpu = first(&d);
    let (sender, receiver) = std::sync::mpsc::channel();
    let asks = std::thread::spawn(move || {
        let mut s = Sample::default();
        sender.send(gpu.sample(&mut s)).expect("heard");
    });
    while d.waiting() == 0 {
        std::thread::yield_now();
    }
    // The other GPUs, the driver and time itself go on.
    d.advance(Span::secs(10));
    assert!(d.devices()[1].as_ref().expect("alive").sample(&mut Sample::default()).is_ok());
    assert!(receiver.try_recv().is_err());
    d.repair(0, SimFault::Hang);
    assert_eq!(receiver.recv(), Ok(Ok(())));
    asks.join().expect("ends");
    assert_eq!(d.waiting(), 0);
}

#[test]
fn a_plan_is_carried_out() {
    let d = driver(SimSku::H200Sxm, 2);
    let gpu = describe(&d);
    let facts = gpu.facts.expect("there");
    let profiles = &facts.mig_profiles;
    let start = Start { profiles, present: &[], on: false, may_switch: true };
    let p = plan(&start, &["3g.71gb", "1g.18gb"]).expect("fits");
    d.apply_mig(0, &p).expect("works");
    let gpu = describe(&d);
    assert_eq!(gpu.mig, Some(true));
    let slices = gpu.facts.expect("there").mig_slices;
    let mut names: Vec<&str> = slices.iter().map(|s| s.profile.as_str()).collect();
    names.sort_unstable();
    assert_eq!(names, ["1g.18gb", "3g.71gb"]);
    assert_eq!(look(&d).get(Field::Util), None, "its slices have that");
    let samples = first(&d).sample_slices().expect("answers");
    assert_eq!(samples.len(), 2);
    assert!(samples.iter().all(|(_, _, s)| s.get(Field::FbTotal) > Some(1000.0)));
    // Now another cut.
    let present: Vec<Present> =
        slices.into_iter().map(|slice| Present { slice, user: None }).collect();
    let start = Start { profiles, present: &present, on: true, may_switch: false };
    let p = plan(&start, &["7g.141gb"]).expect("fits");
    d.apply_mig(0, &p).expect("works");
    assert_eq!(first(&d).sample_slices().expect("answers").len(), 1);
    // The same again does not fit.
    assert!(matches!(d.apply_mig(0, &p), Err(DeviceError::Failed(_))));
}

#[test]
fn a_slow_gpu_takes_longer_for_its_steps() {
    let exchanged = |fault: Option<SimFault>| {
        let d = driver(SimSku::H100Sxm, 2);
        if let Some(f) = fault {
            d.inject(0, f);
        }
        d.set_load(0, Some(Workload::training(Span::secs(5))));
        d.advance(Span::mins(5));
        figure(&d, Field::NvlinkBytes)
    };
    assert!(exchanged(Some(SimFault::SlowClock(50))) < exchanged(None) * 0.75);
}

#[test]
fn wrong_results_are_silent() {
    let d = driver(SimSku::H100Sxm, 2);
    d.inject(0, SimFault::WrongResult);
    d.advance(Span::mins(1));
    assert!(d.computes_wrong(0) && !d.computes_wrong(1));
    assert!(xids(&d).is_empty());
}

#[test]
fn names_of_kinds_are_understood() {
    for sku in KINDS {
        assert_eq!(sku.name().parse(), Ok(sku));
        assert_eq!(crate::sku(sku.specs().product), sku.name());
    }
    assert!("tpu".parse::<SimSku>().is_err());
}

fn some_fault() -> impl Strategy<Value = SimFault> {
    use proptest::sample::select;
    select(vec![
        SimFault::Xid(31),
        SimFault::Throttle(Throttle::PowerCap),
        SimFault::Throttle(Throttle::Warm),
        SimFault::Throttle(Throttle::Hot),
        SimFault::Throttle(Throttle::Hardware),
        SimFault::Throttle(Throttle::PowerBrake),
        SimFault::EccStorm,
        SimFault::RemapPending,
        SimFault::RemapFailed,
        SimFault::ReplayStorm,
        SimFault::LinkErrors,
        SimFault::SlowClock(60),
        SimFault::WrongResult,
    ])
}

#[derive(Debug, Clone)]
enum Hand {
    Wait(u64),
    Break(SimFault),
    Repair(SimFault),
    Load(Option<Workload>),
}

fn some_hand() -> impl Strategy<Value = Hand> {
    let loads = vec![
        None,
        Some(Workload::steady(Phase::Compute)),
        Some(Workload { intensity: 2.0, ..Workload::steady(Phase::Compute) }),
        Some(Workload::training(Span(1_300))),
        Some(Workload::starved()),
    ];
    prop_oneof![
        4 => (1u64..200_000).prop_map(Hand::Wait),
        2 => some_fault().prop_map(Hand::Break),
        1 => some_fault().prop_map(Hand::Repair),
        1 => proptest::sample::select(loads).prop_map(Hand::Load),
    ]
}

fn lay(d: &SimDriver, hand: &Hand) {
    match hand {
        Hand::Wait(ms) => d.advance(Span(*ms)),
        Hand::Break(f) => d.inject(0, *f),
        Hand::Repair(f) => d.repair(0, *f),
        Hand::Load(w) => d.set_load(0, w.clone()),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn whatever_happens_figures_stay_possible(
        seed in any::<u64>(),
        kind in 0..KINDS.len(),
        hands in proptest::collection::vec(some_hand(), 1..25),
    ) {
        let d = driver(KINDS[kind], seed);
        let mut before = look(&d);
        for hand in &hands {
            lay(&d, hand);
            let s = look(&d);
            let get = |f| s.get(f).unwrap_or(f64::NAN);
            prop_assert!((20.0..=95.0).contains(&get(Field::Temp)), "{}", get(Field::Temp));
            prop_assert!((20.0..=115.0).contains(&get(Field::MemTemp)));
            prop_assert!(get(Field::SmClock) > 0.0);
            prop_assert!(get(Field::SmClock) <= KINDS[kind].specs().sm_mhz);
            prop_assert!(get(Field::PowerNow) > 0.0);
            prop_assert!(get(Field::FbFree) >= 0.0);
            let banks = [
                Field::RemapBanksMax, Field::RemapBanksHigh, Field::RemapBanksPartial,
                Field::RemapBanksLow, Field::RemapBanksNone,
            ];
            let all: f64 = banks.into_iter().map(get).sum();
            prop_assert_eq!(all, f64::from(KINDS[kind].specs().banks));
            for c in COUNTERS {
                prop_assert!(s.get(c) >= before.get(c), "{:?} went back", c);
            }
            before = s;
        }
    }

    #[test]
    fn the_same_seed_lives_the_same_life(
        seed in any::<u64>(),
        hands in proptest::collection::vec(some_hand(), 1..15),
    ) {
        let (a, b) = (driver(SimSku::H200Sxm, seed), driver(SimSku::H200Sxm, seed));
        for hand in &hands {
            lay(&a, hand);
            // The second one is handed its time in pieces.
            match hand {
                Hand::Wait(ms) => {
                    for piece in [ms / 3, ms / 7, ms - ms / 3 - ms / 7] {
                        b.advance(Span(piece));
                    }
                }
                other => lay(&b, other),
            }
            prop_assert_eq!(format!("{:?}", look(&a)), format!("{:?}", look(&b)));
        }
        prop_assert_eq!(xids(&a), xids(&b));
        prop_assert_eq!(describe(&a), describe(&b));
    }
}
