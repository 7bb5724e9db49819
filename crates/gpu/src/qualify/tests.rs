use super::*;
use crate::device::{BusNow, DeviceError, Driver, DriverEvent, Process, Recovery};
use crate::sample::Field;
use muster_model::node::{Gpu, GpuFacts};
use muster_model::units::Bytes;
use std::collections::BTreeMap;

/// A device with just what the tests need; its figures are set by hand.
#[derive(Clone)]
struct Fixed {
    index: u32,
    sample: Sample,
    width: u32,
    ecc: bool,
    recovery: Recovery,
}

impl Device for Fixed {
    fn index(&self) -> u32 {
        self.index
    }
    fn uuid(&self) -> &str {
        "GPU-1"
    }
    fn pci(&self) -> Option<&str> {
        None
    }
    fn describe(&self) -> Result<Gpu, DeviceError> {
        Ok(Gpu {
            index: self.index,
            sku: "h200-sxm".into(),
            uuid: "GPU-1".into(),
            serial: None,
            memory: Bytes::gib(140),
            pci: None,
            numa: None,
            mig: None,
            facts: Some(Box::new(GpuFacts {
                pcie_gen: Some(5),
                pcie_width: Some(16),
                ecc: Some(self.ecc),
                ..GpuFacts::default()
            })),
        })
    }
    fn bus(&self) -> BusNow {
        BusNow { pcie_gen: Some(5), pcie_width: Some(self.width) }
    }
    fn sample(&self, s: &mut Sample) -> Result<(), DeviceError> {
        *s = self.sample.clone();
        Ok(())
    }
    fn sample_slices(&self) -> Result<Vec<(u32, u32, Sample)>, DeviceError> {
        Ok(Vec::new())
    }
    fn processes(&self) -> Result<Vec<Process>, DeviceError> {
        Ok(Vec::new())
    }
    fn recovery(&self) -> Option<Recovery> {
        Some(self.recovery)
    }
}

struct Fleet(Vec<Fixed>, Option<u32>);

impl Driver for Fleet {
    fn name(&self) -> &'static str {
        "simulated"
    }
    fn versions(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }
    fn devices(&self) -> Vec<Result<Box<dyn Device>, DeviceError>> {
        self.0.iter().map(|d| Ok(Box::new(d.clone()) as Box<dyn Device>)).collect()
    }
    fn wait_event(&self, most: Duration) -> Result<Option<DriverEvent>, DeviceError> {
        std::thread::sleep(most.min(Duration::from_millis(5)));
        Ok(self.1.map(|xid| DriverEvent { gpu: Some(0), xid }))
    }
}

fn healthy(index: u32) -> Fixed {
    let mut sample = Sample::default();
    sample.set(Field::PowerNow, 690.0);
    sample.set(Field::ClockReasons, 4.0);
    sample.set(Field::TempMargin, 25.0);
    Fixed { index, sample, width: 16, ecc: true, recovery: Recovery::None }
}

fn bench(devices: Vec<Fixed>) -> SimBench {
    SimBench {
        driver: Box::new(Fleet(devices, None)),
        sku: "h200-sxm".into(),
        slow: BTreeMap::new(),
        wrong: Vec::new(),
        speed: 10_000.0,
    }
}

fn pass(b: &SimBench, o: &Options) -> Qualification {
    run(b, o, &|_| {}, &AtomicBool::new(false))
}

fn named<'a>(q: &'a Qualification, name: &str) -> Vec<&'a Check> {
    q.checks.iter().filter(|c| c.name == name).collect()
}

#[test]
fn good_gpus_pass_every_level_with_figures() {
    let b = bench(vec![healthy(0), healthy(1)]);
    for level in [Level::Quick, Level::Full] {
        let mut o = Options::of(level);
        o.length = Duration::from_secs(2 * 1570);
        let q = pass(&b, &o);
        assert_eq!(q.outcome, Outcome::Passed, "{q:?}");
        let gemm = named(&q, "gemm-bf16");
        assert_eq!(gemm.len(), 2);
        assert!(gemm.iter().all(|c| c.value.is_some() && c.floor.is_some()));
        let repeated = gemm[0].note.contains("worst of");
        assert_eq!(repeated, level == Level::Full, "{:?}", gemm[0]);
    }
}

#[test]
fn a_slow_gpu_and_one_that_computes_wrongly_fail_by_name() {
    let mut b = bench(vec![healthy(0), healthy(1)]);
    b.slow.insert(1, 25.0);
    b.wrong.push(0);
    let q = pass(&b, &Options::of(Level::Quick));
    assert_eq!(q.outcome, Outcome::Failed);
    let slow = named(&q, "gemm-bf16");
    assert_eq!((slow[0].outcome, slow[1].outcome), (Outcome::Passed, Outcome::Failed));
    let wrong = named(&q, "sm-agree");
    assert_eq!((wrong[0].outcome, wrong[1].outcome), (Outcome::Failed, Outcome::Passed));
    assert!(wrong[0].note.contains("multiprocessor 17"));
}

#[test]
fn what_is_out_of_order_is_seen_before_anything_is_measured() {
    let mut bad = healthy(0);
    bad.width = 8;
    bad.ecc = false;
    bad.recovery = Recovery::Reboot;
    bad.sample.set(Field::RemapPending, 1.0);
    let mut o = Options::of(Level::Quick);
    o.want.gpus = Some(8);
    let q = pass(&bench(vec![bad]), &o);
    for name in ["inventory", "ecc", "pcie-link", "recovery", "memory-health"] {
        assert!(named(&q, name).iter().any(|c| c.outcome == Outcome::Failed), "{name}: {q:?}");
    }
}

#[test]
fn an_xid_during_the_test_fails_it() {
    let b = SimBench { driver: Box::new(Fleet(vec![healthy(0)], Some(48))), ..bench(Vec::new()) };
    let q = pass(&b, &Options::of(Level::Quick));
    assert!(named(&q, "driver-events")[0].note.contains("XID 48"));
    assert_eq!(q.outcome, Outcome::Failed);
}

#[test]
fn no_gpu_or_a_stop_is_a_failure_that_says_so() {
    let q = pass(&bench(Vec::new()), &Options::of(Level::Quick));
    assert_eq!(q.outcome, Outcome::Failed);
    assert!(named(&q, "inventory")[0].note.contains("no GPU"));
    let q =
        run(&bench(vec![healthy(0)]), &Options::of(Level::Quick), &|_| {}, &AtomicBool::new(true));
    assert_eq!((q.outcome, named(&q, "stopped").len()), (Outcome::Failed, 1));
    let mut o = Options::of(Level::Quick);
    o.gpus = Some(vec![5]);
    let q = pass(&bench(vec![healthy(0)]), &o);
    assert!(named(&q, "gpu-answers")[0].note.contains("no GPU 5"), "{q:?}");
}

#[test]
fn progress_goes_forward_and_says_what_is_done() {
    let seen = Mutex::new(Vec::new());
    let o = Options::of(Level::Quick);
    run(&bench(vec![healthy(0)]), &o, &|p| seen.lock().unwrap().push(p), &AtomicBool::new(false));
    let seen = seen.into_inner().unwrap();
    assert!(seen.windows(2).all(|w| w[0].done <= w[1].done), "{seen:?}");
    assert!(seen.iter().any(|p| p.doing.contains("matrix")));
    assert!(seen.iter().all(|p| p.done <= p.of));
}
