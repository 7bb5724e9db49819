//! What must go on when a machine has a bad day: simulated GPUs, a real reader of the log, a disk
//! that is really full.

use muster_gpu::sample::Field;
use muster_gpu::simulated::SimFault;
use muster_health::faults::{Catalogue, Context};
use muster_model::fault::{FaultClass, ObservedFault};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::units::Time;
use muster_monitor::exporter::{Page, PageConfig};
use muster_monitor::kmsg::KernelLog;
use muster_monitor::simulated_gpus::SimulatedGpus;
use muster_monitor::{Config, Monitor, clock};
use muster_testkit::until;
use std::io::Write;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

/// Calls that take this long have hung. Longer than any machine keeps a thread waiting: for a call
/// that is to hang the clock is put forward.
const HANG: Duration = Duration::from_secs(3600);

fn config() -> Config {
    let context = Context { driver_major: Some(580), sku: "h100-sxm".into(), pool: String::new() };
    let mut c = Config::reading(Arc::new(Catalogue::builtin().clone()), context);
    c.every = Duration::from_millis(100);
    c.host_every = Duration::from_millis(100);
    c.hang_after = HANG;
    c.kernel_log = KernelLog::Off;
    c
}

fn pretend(n: u32) -> SimulatedGpus {
    let spec = format!("h100-sxm:{n}").parse().expect("a kind");
    SimulatedGpus::start(&spec).expect("started")
}

/// Collects faults until one with this code is there.
fn fault(m: &Monitor, code: &str) -> ObservedFault {
    let mut all = Vec::new();
    until(code, || {
        all.extend(m.take_faults());
        all.iter().any(|f: &ObservedFault| f.code == code)
    });
    all.into_iter().find(|f| f.code == code).expect("it came")
}

#[test]
fn a_gpu_that_falls_off_the_bus_leaves_the_page() {
    let world = pretend(4);
    let m = Monitor::start(config(), world.driver()).expect("started");
    until("all four", || m.latest().gpus.iter().filter(|g| g.up).count() == 4);
    let mut page = Page::new(PageConfig::new("n"));
    let series = |text: &str, gpu: u32| {
        let gpu = format!("gpu=\"{gpu}\"");
        text.lines().filter(|l| l.starts_with("DCGM_FI_") && l.contains(&gpu)).count()
    };
    let before = page.render(&m.latest()).to_owned();
    assert!(series(&before, 2) > 40, "{} series", series(&before, 2));
    world.world().inject(2, SimFault::Lost);
    let reported = fault(&m, "gpu-lost");
    assert_eq!((reported.gpu, reported.class), (Some(2), FaultClass::Bus));
    until("its silence", || !m.latest().gpus[2].up);
    let after = page.render(&m.latest()).to_owned();
    assert_eq!((series(&after, 2), series(&after, 1)), (0, series(&before, 1)));
    let up = |gpu: u32, v: u32| {
        let start = format!("muster_gpu_up{{gpu=\"{gpu}\"");
        after.lines().any(|l| l.starts_with(&start) && l.ends_with(&format!(" {v}")))
    };
    assert!(up(2, 0) && up(1, 1), "{after}");
    let row = |gpu: usize| m.table(&["temp", "power"])[gpu].clone();
    assert_eq!(row(2), vec![None, None]);
    assert!(row(1).iter().all(Option::is_some));
}

#[test]
fn a_call_that_hangs_is_reported_and_the_page_goes_on() {
    let world = pretend(2);
    let c = config();
    let clock = c.steady.clone();
    let m = Monitor::start(c, world.driver()).expect("started");
    until("both", || m.latest().gpus.iter().filter(|g| g.up).count() == 2);
    world.world().inject(0, SimFault::Hang);
    until("a call", || world.world().waiting() == 1);
    clock.skip(HANG * 2);
    assert_eq!(fault(&m, "nvml-hang").gpu, Some(0));
    until("the other", || {
        let s = m.latest();
        s.stuck == 1 && s.gpus[1].up && !s.gpus[0].up
    });
    let mut page = Page::new(PageConfig::new("n"));
    assert!(page.render(&m.latest()).contains("muster_driver_stuck_calls 1\n"));
    world.world().repair(0, SimFault::Hang);
    until("its return", || m.latest().gpus[0].up);
}

#[test]
fn an_xid_of_log_and_driver_is_one_fault_of_a_gpu_and_a_rank() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = dir.path().join("kmsg");
    std::fs::write(&log, "").expect("written");
    let world = pretend(2);
    let mut c = config();
    c.kernel_log = KernelLog::File(log.clone());
    let key = AttemptKey { job: JobId(7), attempt: 1 };
    c.owner_of = Arc::new(move |pid| (pid == 423).then_some((key, 3)));
    // The wall's clock stands still: log and driver are at once, whichever is read first and
    // however long the other thread waits for its turn.
    let wall = Arc::new(AtomicI64::new(1_000_000_000));
    let shown = wall.clone();
    c.wall = Arc::new(move || Time(shown.load(Ordering::Relaxed)));
    let m = Monitor::start(c, world.driver()).expect("started");
    until("the log", || m.latest().log.from.is_some() && m.latest().gpus.len() == 2);
    let pci = m.latest().gpus[1].pci.clone().expect("an address");
    let short = pci[4..].trim_end_matches(".0").to_lowercase();
    let mut file = std::fs::File::options().append(true).open(&log).expect("opened");
    let line = format!(
        "4,1,100,-;NVRM: Xid (PCI:{short}): 31, pid=423, name=python3, channel 0x0000000a, \
         intr 00000000. MMU Fault: ENGINE GRAPHICS GPC1 GPCCLIENT_T1_8 faulted @ 0x8314_97e00000. \
         Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_WRITE\n"
    );
    file.write_all(line.as_bytes()).expect("written");
    world.world().inject(1, SimFault::Xid(31));
    let f = fault(&m, "xid-31");
    assert_eq!((f.gpu, f.pid, f.class), (Some(1), Some(423), FaultClass::Application));
    assert_eq!((f.attempt, f.rank), (Some(key), Some(3)));
    until("the count", || m.latest().gpus[1].xids == vec![(31, 1)]);
    // An XID that only the driver reports is reported too. One thread takes what the driver
    // reports, in its order: who took this one has dealt with the other, and the clock may go on.
    world.world().inject(0, SimFault::Xid(79));
    until("the driver's own word for both", || world.world().unreported() == 0);
    let mut reported = Vec::new();
    until("xid-79", || {
        wall.fetch_add(100, Ordering::Relaxed);
        reported.extend(m.take_faults());
        reported.iter().any(|f: &ObservedFault| f.code == "xid-79")
    });
    // The driver's own word for the first came to nothing more: it would have come before this.
    let more: u64 = reported.iter().filter(|f| f.code == "xid-31").map(|f| f.count).sum();
    assert_eq!(more, 0);
    let f = reported.into_iter().find(|f| f.code == "xid-79").expect("it came");
    assert_eq!(f.gpu, Some(0));
}

/// A small file system of its own; unmounted when dropped.
struct Small(tempfile::TempDir);

impl Small {
    fn new() -> Option<Small> {
        let dir = tempfile::tempdir().expect("a directory");
        let mounted = Command::new("mount")
            .args(["-t", "tmpfs", "-o", "size=1m", "tmpfs"])
            .arg(dir.path())
            .output()
            .is_ok_and(|o| o.status.success());
        muster_testkit::machine(mounted, "a tmpfs cannot be mounted: no really full disk")
            .then(|| Small(dir))
    }

    fn path(&self) -> &Path {
        self.0.path()
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn a_full_disk_under_the_logs_is_reported_and_the_agent_goes_on() {
    let Some(small) = Small::new() else { return };
    let world = pretend(1);
    let mut c = config();
    c.dirs = vec![small.path().into()];
    let m = Monitor::start(c, world.driver()).expect("started");
    assert!(m.wait_ready(Duration::from_secs(30)));
    assert!(m.take_faults().is_empty());
    let ballast = small.path().join("ballast");
    let mut file = std::fs::File::create(&ballast).expect("made");
    while file.write_all(&[1; 4096]).is_ok() {}
    drop(file);
    let f = fault(&m, "disk-full");
    assert_eq!(f.class, FaultClass::Storage);
    assert!(f.text.contains(&small.path().display().to_string()), "{}", f.text);
    // It goes on sampling, and reports it once.
    let at = m.latest().at;
    until("more samples", || m.latest().at > at && m.latest().gpus[0].up);
    let temp = m.latest().gpus[0].sample.as_ref().and_then(|s| s.get(Field::Temp));
    assert!(temp.is_some());
    assert!(m.take_faults().is_empty());
    // Room was made and the disk filled again: that is news.
    std::fs::remove_file(&ballast).expect("removed");
    let removed = clock::now();
    until("a look that began later", || m.latest().host.as_ref().is_some_and(|h| h.at > removed));
    let mut file = std::fs::File::create(&ballast).expect("made");
    while file.write_all(&[1; 4096]).is_ok() {}
    assert_eq!(fault(&m, "disk-full").count, 1);
}
