use crate::fake::{Fake, FakeFaultParser};
use crate::faults::Outbox;
use crate::kmsg::{Hub, KernelLog, LogSource, follow, past};
use crate::{Config, Monitor, clock};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::units::{Span, Time};
use muster_testkit::until;
use std::collections::VecDeque;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

/// Gives what it was given, then ends.
struct Script(VecDeque<io::Result<Vec<u8>>>);

impl LogSource for Script {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.pop_front() {
            Some(Ok(bytes)) => {
                buffer[..bytes.len()].copy_from_slice(&bytes);
                Ok(bytes.len())
            }
            Some(Err(e)) => Err(e),
            None => Ok(0),
        }
    }
    fn wait(&mut self, _: Duration) {}
    fn ends(&self) -> bool {
        true
    }
}

fn hub() -> (Hub, Outbox) {
    let out = Outbox::new(Arc::new(|| {}));
    let parser = Box::<FakeFaultParser>::default();
    (Hub::new(parser, Arc::new(|_| None), out.clone(), clock::system()), out)
}

#[test]
fn an_overrun_is_counted_and_reported_and_reading_goes_on() {
    let (hub, out) = hub();
    let line = |s: &str| Ok(s.as_bytes().to_vec());
    let mut script = Script(VecDeque::from([
        line("6,10,1,-;boring\n"),
        Err(io::Error::from_raw_os_error(32)),
        line("6,5010,2,-;FAULT xid-79 0000:10:00 7\n"),
        Err(io::ErrorKind::Interrupted.into()),
        line("6,5011,3,-;boring\n"),
    ]));
    follow(&mut script, &hub, &AtomicBool::new(false));
    let faults = out.take();
    let reported: Vec<_> = faults.iter().map(|f| (f.code.as_str(), f.count)).collect();
    assert_eq!(reported, vec![("kmsg-overrun", 4999), ("xid-79", 1)]);
    assert!(faults[0].text.contains("4999 records"), "{}", faults[0].text);
    let log = hub.log_now();
    assert_eq!((log.records, log.missed), (3, 4999));
    assert_eq!(log.codes["xid-79"], 1);
}

#[test]
fn a_fault_of_the_log_names_gpu_and_rank_and_is_signalled() {
    let dir = tempfile::tempdir().expect("a directory");
    let fifo = dir.path().join("kmsg");
    rustix::fs::mknodat(
        rustix::fs::CWD,
        &fifo,
        rustix::fs::FileType::Fifo,
        rustix::fs::Mode::from_raw_mode(0o600),
        0,
    )
    .expect("a pipe");
    let signals = Arc::new(AtomicU32::new(0));
    let wakeup = signals.clone();
    let mut c = Config::new(Box::<FakeFaultParser>::default());
    c.root = "/nowhere".into();
    c.kernel_log = KernelLog::File(fifo.clone());
    c.wakeup = Arc::new(move || {
        wakeup.fetch_add(1, Ordering::SeqCst);
    });
    let key = AttemptKey { job: JobId(42), attempt: 3 };
    c.owner_of = Arc::new(move |pid| (pid == 423).then_some((key, 5)));
    let m = Monitor::start(c, Box::new(Fake::new(2))).expect("started");
    assert!(m.wait_ready(Duration::from_secs(30)));
    until("the reader", || {
        m.latest().log.from.is_some() || {
            std::thread::sleep(Duration::from_millis(20));
            m.wait_ready(Duration::from_secs(1)) && m.latest().log.from.is_some()
        }
    });
    let mut pipe = std::fs::File::options().write(true).open(&fifo).expect("opened");
    pipe.write_all(b"4,1,2,-;FAULT xid-31 PCI:0000:11:00 423\n6,2,3,-;boring\n").expect("written");
    until("the signal", || signals.load(Ordering::SeqCst) > 0);
    let faults = m.take_faults();
    assert_eq!(faults.len(), 1);
    let f = &faults[0];
    assert_eq!((f.code.as_str(), f.gpu, f.pid), ("xid-31", Some(1), Some(423)));
    assert_eq!((f.attempt, f.rank), (Some(key), Some(5)));
    until("the XID of the device", || {
        m.wait_ready(Duration::from_secs(1)) && m.latest().gpus[1].xid == Some(31)
    });
    // The writer goes and another comes: the log goes on.
    drop(pipe);
    let mut pipe = std::fs::File::options().write(true).open(&fifo).expect("opened");
    pipe.write_all(b"4,3,4,-;FAULT xid-43 0000:10:00.0 9\n").expect("written");
    until("another fault", || !m.take_faults().is_empty());
    m.stop();
}

#[test]
fn a_file_is_followed_from_its_end() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("log");
    std::fs::write(&file, "FAULT old 0000:10:00 1\n").expect("written");
    let mut c = Config::new(Box::<FakeFaultParser>::default());
    c.root = "/nowhere".into();
    c.kernel_log = KernelLog::File(file.clone());
    let m = Monitor::start(c, Box::new(Fake::new(1))).expect("started");
    until("the reader", || m.wait_ready(Duration::from_secs(9)) && m.latest().log.from.is_some());
    let mut log = std::fs::File::options().append(true).open(&file).expect("opened");
    log.write_all(b"FAULT new 0000:10:00 1\n").expect("written");
    let mut faults = Vec::new();
    until("the fault", || {
        faults.extend(m.take_faults());
        !faults.is_empty()
    });
    assert_eq!(faults[0].code, "new");
}

#[test]
fn no_log_is_a_note_and_no_end() {
    let mut c = Config::new(Box::<FakeFaultParser>::default());
    c.root = "/nowhere".into();
    c.kernel_log = KernelLog::File("/nowhere/kmsg".into());
    let fake = Fake::new(1);
    let m = Monitor::start(c, Box::new(fake.clone())).expect("started");
    until("the note", || {
        m.wait_ready(Duration::from_secs(9))
            && m.latest().log.why_not.as_deref().is_some_and(|w| w.contains("/nowhere/kmsg"))
    });
    // What the driver reports by itself is heard all the same.
    fake.event(0, 79);
    let mut faults = Vec::new();
    until("the event", || {
        faults.extend(m.take_faults());
        !faults.is_empty()
    });
    assert_eq!((faults[0].code.as_str(), faults[0].gpu), ("xid-79", Some(0)));
    m.stop();
}

#[test]
fn the_past_has_its_own_times() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::create_dir_all(dir.path().join("proc")).expect("made");
    std::fs::write(dir.path().join("proc/uptime"), "100.50 200.00\n").expect("written");
    let file = dir.path().join("kmsg");
    std::fs::write(&file, "6,1,500000,-;first\n6,2,90000000,-;second\n").expect("written");
    let now = Time(1_000_000_000);
    let mut got = Vec::new();
    let read = past(Some(&file), now, dir.path(), &mut |at, line| {
        got.push((at, String::from_utf8_lossy(line).into_owned()));
    });
    assert_eq!(read.lines, 2);
    let boot = now - Span(100_500);
    assert_eq!(
        got,
        vec![(boot + Span(500), "first".into()), (boot + Span(90_000), "second".into())]
    );
    let none = past(Some(&dir.path().join("nothing")), now, dir.path(), &mut |_, _| {});
    assert!(none.why_not.is_some() && none.from.is_none());
}
