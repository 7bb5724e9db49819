use crate::clock::Steady;
use crate::fake::{FALLS_OVER, Fake, FakeDeviceMode, FakeFaultParser};
use crate::kmsg::KernelLog;
use crate::{Config, Monitor};
use muster_gpu::device::DeviceError;
use muster_gpu::sample::Field;
use muster_model::units::Time;
use muster_testkit::until;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Calls that take this long have hung. Longer than any machine keeps a thread waiting: for a call
/// that is to hang the clock is put forward.
const HANG: Duration = Duration::from_secs(3600);

fn config() -> Config {
    let mut c = Config::new(Box::<FakeFaultParser>::default());
    c.every = Duration::from_millis(100);
    c.retry_lost = Duration::from_millis(200);
    c.hang_after = HANG;
    c.kernel_log = KernelLog::Off;
    c.root = "/nowhere".into();
    c
}

/// The same, and the clock by which calls hang.
fn with_clock() -> (Config, Steady) {
    let c = config();
    let clock = c.steady.clone();
    (c, clock)
}

#[test]
fn every_device_is_sampled_and_described() {
    let fake = Fake::new(3);
    let m = Monitor::start(config(), Box::new(fake.clone())).expect("started");
    assert!(m.wait_ready(Duration::from_secs(30)));
    let s = m.latest();
    assert_eq!((s.driver, s.gpus.len(), s.stuck), ("fake", 3, 0));
    assert!(s.gpus.iter().all(|g| g.up && !g.hung && g.why.is_none()));
    let temp = |i: usize| s.gpus[i].sample.as_ref().and_then(|x| x.get(Field::Temp));
    assert_eq!((temp(0), temp(2)), (Some(40.0), Some(42.0)));
    let d = m.describe();
    assert_eq!((d.gpus.len(), d.silent.len()), (3, 0));
    assert_eq!(d.versions["driver"], "580.1");
    until("rows", || m.rows().len() == 3);
    assert!(m.take_faults().is_empty());
    m.stop();
}

#[test]
fn a_device_lost_in_the_middle_is_reported_once_and_falls_silent() {
    let fake = Fake::new(2);
    let m = Monitor::start(config(), Box::new(fake.clone())).expect("started");
    until("three samples", || fake.asked(1) >= 3);
    fake.set(1, FakeDeviceMode::Err(DeviceError::Lost));
    until("the loss", || !m.latest().gpus[1].up);
    let s = m.latest();
    assert!(s.gpus[0].up && s.gpus[1].lost && s.gpus[1].sample.is_none());
    assert!(s.gpus[1].why.as_deref().is_some_and(|w| w.contains("lost")));
    // It is asked again now and then, and not reported again.
    let asked = fake.asked(1);
    until("another try", || fake.asked(1) > asked + 1);
    let faults = m.take_faults();
    assert_eq!(faults.len(), 1);
    assert_eq!((faults[0].code.as_str(), faults[0].gpu, faults[0].count), ("gpu-lost", Some(1), 1));
    // A reset brought it back; a second loss is news.
    fake.set(1, FakeDeviceMode::Well);
    until("its return", || m.latest().gpus[1].up);
    fake.set(1, FakeDeviceMode::Err(DeviceError::Lost));
    until("the second loss", || !m.latest().gpus[1].up);
    assert_eq!(m.take_faults().len(), 1);
}

#[test]
fn a_device_that_refuses_now_and_then_is_not_silent_and_one_that_always_does_is() {
    let fake = Fake::new(1);
    fake.set(0, FakeDeviceMode::Err(DeviceError::Failed("timeout".into())));
    let m = Monitor::start(config(), Box::new(fake.clone())).expect("started");
    until("the silence", || !m.take_faults().is_empty());
    let s = m.latest();
    assert!(!s.gpus[0].up && !s.gpus[0].lost);
    assert_eq!(s.gpus[0].why.as_deref(), Some("timeout"));
    assert!(m.rows().is_empty());
}

#[test]
fn a_call_that_hangs_stops_neither_the_other_devices_nor_the_agent() {
    let fake = Fake::new(3);
    let (c, clock) = with_clock();
    let m = Monitor::start(c, Box::new(fake.clone())).expect("started");
    until("samples", || fake.asked(2) >= 2);
    fake.set(1, FakeDeviceMode::Hang);
    until("the call", || fake.inside() == 1);
    clock.skip(HANG * 2);
    until("the hang", || m.latest().gpus[1].hung);
    let mut faults = Vec::new();
    until("its fault", || {
        faults.extend(m.take_faults());
        faults.iter().any(|f| (f.code.as_str(), f.gpu) == ("nvml-hang", Some(1)))
    });
    // The replacement goes on with the others and leaves the hung one alone.
    let asked = (fake.asked(0), fake.asked(1));
    until("more samples", || fake.asked(0) > asked.0 + 3 && fake.asked(2) > 3);
    assert_eq!(fake.asked(1), asked.1);
    let s = m.latest();
    assert!(s.gpus[0].up && s.gpus[2].up && !s.gpus[1].up);
    assert_eq!((s.stuck, fake.inside()), (1, 1));
    // The call comes back: the device is asked again, by one worker.
    fake.set(1, FakeDeviceMode::Well);
    until("its return", || m.latest().gpus[1].up);
    assert_eq!(m.latest().stuck, 0);
    m.stop();
}

#[test]
fn no_more_than_two_threads_are_left_behind_in_a_driver() {
    let fake = Fake::new(4);
    let (c, clock) = with_clock();
    let m = Monitor::start(c, Box::new(fake.clone())).expect("started");
    until("samples", || fake.asked(3) >= 1);
    for i in 0..4 {
        fake.set(i, FakeDeviceMode::Hang);
    }
    for hung in 1..=2 {
        until("a call that hangs", || fake.inside() == hung);
        clock.skip(HANG * 2);
        until("a hang", || m.latest().stuck == hung);
    }
    until("all silent", || m.latest().gpus.iter().all(|g| g.hung && !g.up));
    // Nobody else goes in, however long it lasts. The watchdog publishes after each look while nobody
    // asks the devices; the second look from here began after the clock was put forward.
    clock.skip(HANG * 24);
    for _ in 0..2 {
        let before = m.latest();
        until("another look", || !Arc::ptr_eq(&m.latest(), &before));
    }
    assert_eq!((fake.inside(), m.latest().stuck), (2, 2));
    assert!(m.take_faults().len() >= 2);
    for i in 0..4 {
        fake.set(i, FakeDeviceMode::Well);
    }
    until("all well", || m.latest().gpus.iter().all(|g| g.up));
    assert_eq!(m.latest().stuck, 0);
}

#[test]
fn stopping_does_not_wait_for_a_call_that_hangs() {
    let fake = Fake::new(1);
    fake.set(0, FakeDeviceMode::Hang);
    let m = Monitor::start(config(), Box::new(fake.clone())).expect("started");
    until("the hang", || fake.inside() == 1);
    m.stop();
    drop(m);
    assert_eq!(fake.inside(), 1);
    fake.set(0, FakeDeviceMode::Well);
}

/// A watchdog would come after an hour; nobody else is there to replace what panicked.
#[test]
fn samplers_that_panic_are_started_again() {
    let fake = Fake::new(2);
    let m = Monitor::start(config(), Box::new(fake.clone())).expect("started");
    until("samples", || fake.asked(1) >= 1);
    fake.set(0, FakeDeviceMode::Panic);
    let before = fake.asked(1);
    until("samples of all", || fake.asked(0) > before + 2 && fake.asked(1) > before + 2);
    fake.event(0, FALLS_OVER);
    fake.event(0, 79);
    until("what came after", || m.take_faults().iter().any(|f| f.code == "xid-79"));
    let counted = |part: &str| muster_supervise::failed().iter().any(|f| f.part == part);
    assert!(counted("gpu-sampler") && counted("gpu-events"));
    m.stop();
}

#[test]
fn a_wall_clock_that_goes_backwards_breaks_nothing() {
    let wall = Arc::new(AtomicI64::new(1_000_000_000));
    let mut c = config();
    let read = wall.clone();
    c.wall = Arc::new(move || Time(read.fetch_sub(60_000, Ordering::Relaxed)));
    let fake = Fake::new(1);
    let m = Monitor::start(c, Box::new(fake.clone())).expect("started");
    until("samples", || fake.asked(0) >= 5);
    until("a row of several", || m.rows().first().is_some_and(|r| r.samples >= 4));
    assert!(m.latest().gpus[0].up);
    fake.event(0, 31);
    until("the event", || !m.take_faults().is_empty());
    until("its count", || m.latest().gpus[0].xids == vec![(31, 1)]);
}

#[test]
fn a_machine_without_a_driver_is_watched_all_the_same() {
    let none = DeviceError::NoDriver("libnvidia-ml.so.1 is not there".into());
    let m = Monitor::start_without(config(), &none).expect("started");
    assert!(m.wait_ready(Duration::from_secs(30)));
    let s = m.latest();
    assert!(s.gpus.is_empty() && s.no_driver.is_some() && s.host.is_some());
    // No GPU on the bus: nothing is wrong.
    assert!(m.take_faults().is_empty());
}

#[test]
fn a_driver_that_is_missing_or_of_two_versions_is_a_fault() {
    let dir = tempfile::tempdir().expect("a directory");
    let gpu = dir.path().join("sys/bus/pci/devices/0000:18:00.0");
    std::fs::create_dir_all(&gpu).expect("made");
    std::fs::write(gpu.join("vendor"), "0x10de\n").expect("written");
    std::fs::write(gpu.join("class"), "0x030200\n").expect("written");
    for (why, code) in [
        (DeviceError::NoDriver("no library".into()), "driver-missing"),
        (DeviceError::Mismatch("580 and 575".into()), "driver-mismatch"),
    ] {
        let mut c = config();
        c.root = dir.path().into();
        let m = Monitor::start_without(c, &why).expect("started");
        let faults = m.take_faults();
        assert_eq!((faults.len(), faults[0].code.as_str()), (1, code));
        assert!(m.wait_ready(Duration::from_secs(30)));
        assert_eq!(m.latest().no_driver, Some(why.to_string()));
    }
}
