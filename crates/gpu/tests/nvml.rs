//! The real driver's code against a library that is not real: drivers that are missing, old, do
//! not fit, hang or lose their GPU.

use muster_gpu::NvmlDriver;
use muster_gpu::device::{Device, DeviceError, Driver, DriverEvent, Recovery};
use muster_gpu::mig::{Present, Start, plan};
use muster_gpu::sample::{Field, Sample};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// A compiled library, and where it lies.
struct Fake {
    /// Goes with it.
    _dir: tempfile::TempDir,
    library: PathBuf,
}

impl Fake {
    /// Compiles the library with these choices. None, loudly, where nothing compiles C.
    fn new(choices: &[String]) -> Option<Fake> {
        if !muster_testkit::program("cc", "gcc libc6-dev") {
            return None;
        }
        let dir = tempfile::tempdir().expect("a directory");
        let library = dir.path().join("libfake.so");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fake_nvml.c");
        let mut compile = Command::new("cc");
        compile.args(["-shared", "-fPIC", "-O1", "-w", "-o"]).arg(&library);
        compile.args(choices.iter().map(|c| format!("-D{c}"))).arg(source);
        muster_testkit::succeeds(&mut compile);
        Some(Fake { _dir: dir, library })
    }

    fn plain() -> Option<Fake> {
        Fake::new(&[])
    }

    fn open(&self) -> Result<NvmlDriver, DeviceError> {
        NvmlDriver::load(Some(self.library.as_os_str()))
    }
}

fn text(name: &str, path: &Path) -> String {
    format!("{name}=\"{}\"", path.display())
}

fn devices(driver: &NvmlDriver) -> Vec<Box<dyn Device>> {
    driver.devices().into_iter().map(|d| d.expect("answers")).collect()
}

#[test]
fn no_library_is_no_driver() {
    let missing = Path::new("/nonexistent/libnvidia-ml.so.1");
    let opened = NvmlDriver::load(Some(missing.as_os_str()));
    assert!(matches!(opened.err(), Some(DeviceError::NoDriver(_))));
}

#[test]
fn parts_that_do_not_fit_are_reported_as_such() {
    let Some(fake) = Fake::new(&["MISMATCH".into()]) else { return };
    assert!(matches!(fake.open().err(), Some(DeviceError::Mismatch(_))));
}

#[test]
fn a_library_that_cannot_be_shut_down_is_left_open() {
    let Some(fake) = Fake::new(&["NO_SHUTDOWN".into()]) else { return };
    drop(fake.open().expect("opens"));
}

#[test]
fn a_driver_reports_everything_it_has() {
    let Some(fake) = Fake::plain() else { return };
    let driver = fake.open().expect("opens");
    assert_eq!(driver.versions()["driver"], "580.1.2");
    assert_eq!(driver.versions()["cuda"], "13.0");
    let gpus = devices(&driver);
    assert_eq!(gpus.len(), 2);
    let gpu = gpus[0].describe().expect("answers");
    assert_eq!((gpu.sku.as_str(), gpu.uuid.as_str()), ("h200-sxm", "GPU-fake-0"));
    assert_eq!(gpu.mig, Some(true));
    let facts = gpu.facts.expect("there");
    assert_eq!(facts.fabric.as_deref(), Some("abababab-abab-abab-abab-abababababab"));
    assert_eq!((facts.clique, facts.module), (Some(7), Some(3)));
    assert_eq!(facts.vbios, None, "what it does not report is absent");
    let links: Vec<bool> = facts.links.iter().map(|l| l.active).collect();
    assert_eq!(links, [true, false, true]);
    let names: Vec<&str> = facts.mig_profiles.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(names, ["1g.18gb", "3g.71gb"]);
    assert_eq!(facts.mig_profiles[1].starts, [0, 4]);

    let mut s = Sample::default();
    gpus[0].sample(&mut s).expect("answers");
    for (field, value) in [
        (Field::Util, 87.0),
        (Field::Temp, 61.0),
        (Field::MemTemp, 55.0),
        (Field::SmClock, 1755.0),
        (Field::MemClock, 3201.0),
        (Field::Power, 500.0),
        (Field::PowerNow, 510.5),
        (Field::Energy, 123_456_789.0),
        (Field::ClockReasons, 4.0),
        (Field::FbReserved, 600.0),
        (Field::EccSbeVol, 4.0),
        (Field::PcieGen, 5.0),
        (Field::NvlinkActive, 2.0),
        // Three links, each reporting ten more than its number.
        (Field::NvlinkReplay, 33.0),
        // Reported for all links at once, so the links' own are left out.
        (Field::NvlinkBytes, 2000.0),
        (Field::Xid, 0.0),
    ] {
        assert_eq!(s.get(field), Some(value), "{field:?}");
    }
    assert_eq!(s.get(Field::SmActive), None, "there is nothing before the first look");
    assert_eq!(s.get(Field::Fan), None);
    gpus[0].sample(&mut s).expect("answers");
    assert_eq!(s.get(Field::SmActive), Some(0.5));
    assert_eq!(s.get(Field::PcieTx), Some(2.0 * 1_048_576.0));
    assert_eq!(s.get(Field::Fp64Active), None);
    assert_eq!(s.get(Field::NvlinkReplay), Some(33.0), "carried over, not counted again");

    let who = gpus[0].processes().expect("answers");
    assert_eq!((who[0].pid, who[0].memory, who[0].slice), (4242, Some(7 << 30), None));
    assert_eq!((who[1].pid, who[1].memory, who[1].slice), (4243, None, Some((1, 0))));
    assert_eq!(gpus[0].recovery(), Some(Recovery::ResetGpu));
    assert_eq!(gpus[0].bus().pcie_gen, Some(5));
    assert_eq!(gpus[0].bus().pcie_width, None);
}

#[test]
fn an_xid_is_reported_and_remembered() {
    let Some(fake) = Fake::plain() else { return };
    let driver = fake.open().expect("opens");
    let gpus = devices(&driver);
    let reported = driver.wait_event(Duration::from_millis(1));
    assert_eq!(reported, Ok(Some(DriverEvent { gpu: Some(1), xid: 31 })));
    assert_eq!(driver.wait_event(Duration::from_millis(1)), Ok(None));
    let mut s = Sample::default();
    gpus[1].sample(&mut s).expect("answers");
    assert_eq!(s.get(Field::Xid), Some(31.0));
    gpus[0].sample(&mut s).expect("answers");
    assert_eq!(s.get(Field::Xid), Some(0.0));
}

#[test]
fn a_gpu_that_falls_off_the_bus_is_lost_and_the_others_go_on() {
    let Some(fake) = Fake::new(&["LOST_AT=3".into()]) else { return };
    let driver = fake.open().expect("opens");
    let gpus = devices(&driver);
    let mut s = Sample::default();
    for _ in 0..2 {
        gpus[0].sample(&mut s).expect("answers");
    }
    assert_eq!(gpus[0].sample(&mut s), Err(DeviceError::Lost));
    assert_eq!(s.iter().count(), 0, "half a look is no look");
    assert_eq!(gpus[0].describe(), Err(DeviceError::Lost));
    assert_eq!(gpus[0].processes(), Err(DeviceError::Lost));
    assert_eq!(gpus[0].recovery(), None);
    assert!(gpus[1].sample(&mut s).is_ok());
    let again = driver.devices();
    assert!(matches!(again[0], Err(DeviceError::Lost)) && again[1].is_ok());
    // Events of the others still come.
    assert!(driver.wait_event(Duration::from_millis(1)).is_ok_and(|e| e.is_some()));
    for _ in 0..3 {
        assert_eq!(driver.wait_event(Duration::from_millis(1)), Ok(None));
    }
}

#[test]
fn an_old_driver_answers_what_it_can() {
    let Some(fake) = Fake::new(&["OLD".into()]) else { return };
    let driver = fake.open().expect("opens");
    let gpus = devices(&driver);
    let gpu = gpus[0].describe().expect("answers");
    assert_eq!(gpu.mig, None);
    let facts = gpu.facts.expect("there");
    assert!(facts.mig_profiles.is_empty() && facts.links.is_empty() && facts.fabric.is_none());
    let mut s = Sample::default();
    for _ in 0..12 {
        gpus[0].sample(&mut s).expect("answers");
        let there: Vec<Field> = s.iter().map(|(f, _)| f).collect();
        let want = [
            Field::ClockReasons,
            Field::Temp,
            Field::Power,
            Field::Util,
            Field::MemUtil,
            Field::FbTotal,
            Field::FbFree,
            Field::FbUsed,
        ];
        assert_eq!(there, want);
        assert_eq!(s.get(Field::Power), Some(512.345));
    }
    assert_eq!(gpus[0].sample_slices(), Ok(Vec::new()));
    assert_eq!(gpus[0].processes(), Ok(Vec::new()));
    assert!(driver.wait_event(Duration::from_millis(1)).is_err());
}

#[test]
fn what_a_gpu_does_not_have_is_asked_for_once() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("log");
    let Some(fake) = Fake::new(&[text("LOG", &log)]) else { return };
    let driver = fake.open().expect("opens");
    let gpus = devices(&driver);
    let asked = || std::fs::read_to_string(&log).unwrap_or_default().lines().count();
    let mut s = Sample::default();
    gpus[0].sample(&mut s).expect("answers");
    let first = asked();
    assert!(first > 5, "{first}");
    for _ in 0..45 {
        gpus[0].sample(&mut s).expect("answers");
    }
    assert_eq!(asked(), first);
}

#[test]
fn a_call_that_hangs_holds_only_who_made_it() {
    let dir = tempfile::tempdir().expect("a directory");
    let go = dir.path().join("go");
    let Some(fake) = Fake::new(&[text("HANG", &go)]) else { return };
    let driver = fake.open().expect("opens");
    let mut gpus = devices(&driver);
    let other = gpus.pop().expect("two");
    let hung = gpus.pop().expect("two");
    let (sender, receiver) = std::sync::mpsc::channel();
    let asks = std::thread::spawn(move || {
        let mut s = Sample::default();
        let answer = hung.sample(&mut s);
        sender.send(answer).expect("heard");
    });
    let mut s = Sample::default();
    for _ in 0..20 {
        other.sample(&mut s).expect("answers");
    }
    assert!(driver.wait_event(Duration::from_millis(1)).is_ok());
    assert!(receiver.try_recv().is_err());
    std::fs::write(&go, "").expect("written");
    assert_eq!(receiver.recv(), Ok(Ok(())));
    asks.join().expect("ends");
}

#[test]
fn a_gpu_is_cut_as_planned() {
    let Some(fake) = Fake::plain() else { return };
    let driver = fake.open().expect("opens");
    let gpu = || devices(&driver)[0].describe().expect("answers").facts.expect("there");
    let profiles = gpu().mig_profiles;
    let start = Start { profiles: &profiles, present: &[], on: true, may_switch: false };
    let cut = plan(&start, &["3g.71gb", "1g.18gb"]).expect("fits");
    driver.apply_mig(0, &cut).expect("works");
    let slices = gpu().mig_slices;
    let names: Vec<&str> = slices.iter().map(|s| s.profile.as_str()).collect();
    assert_eq!(names, ["3g.71gb", "1g.18gb"]);
    assert_eq!(devices(&driver)[0].sample_slices().expect("answers").len(), 2);

    let present: Vec<Present> =
        slices.into_iter().map(|slice| Present { slice, user: None }).collect();
    let start = Start { present: &present, ..start };
    let again = plan(&start, &["3g.71gb", "3g.71gb"]).expect("fits");
    assert_eq!((again.destroy.len(), again.create.len()), (1, 1));
    driver.apply_mig(0, &again).expect("works");
    assert_eq!(gpu().mig_slices.len(), 2);
    // The same plan again was made for slices that are gone.
    assert!(matches!(driver.apply_mig(0, &again), Err(DeviceError::Failed(_))));
    assert_eq!(gpu().mig_slices.len(), 2);
    assert!(driver.apply_mig(9, &again).is_err());
}

/// Runs itself again with the library named in the environment.
#[test]
fn the_library_can_be_named_in_the_environment() {
    if std::env::var_os("MUSTER_NVML").is_some() {
        let found = muster_gpu::nvidia();
        assert_eq!(found.gpus.len(), 2);
        assert!(found.gpus[0].facts.is_some());
        return;
    }
    let Some(fake) = Fake::plain() else { return };
    let me = std::env::current_exe().expect("known");
    let mut again = Command::new(me);
    again.args(["--exact", "nvml::the_library_can_be_named_in_the_environment"]);
    let ran = muster_testkit::succeeds(again.env("MUSTER_NVML", &fake.library));
    let reported = String::from_utf8_lossy(&ran.stdout);
    assert!(reported.contains("1 passed"), "{reported}");
}
