//! Real processes, and what can be done to them.

use muster_terminal::fail::Fail;
use rustix::process::{Pid, Signal, kill_process};
use std::net::{TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// A process by its number.
pub(crate) fn pid(id: u32) -> Option<Pid> {
    i32::try_from(id).ok().and_then(Pid::from_raw)
}

/// Ranks whose command line holds this word: rank and process. A rank's children come after it.
pub(crate) fn ranks(mark: &str) -> Vec<(u32, u32)> {
    let mut found: Vec<(u32, u32)> = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(id) = entry.file_name().to_str().and_then(|n| n.parse::<u32>().ok()) else {
            continue;
        };
        let holds = |file: &str, text: &[u8]| {
            let all = std::fs::read(entry.path().join(file)).unwrap_or_default();
            all.split(|b| *b == 0).find(|part| part.starts_with(text)).map(<[u8]>::to_vec)
        };
        // The shim has the words of the rank on its command line too, but not its environment.
        let Some(rank) =
            holds("environ", b"RANK=").filter(|_| holds("cmdline", mark.as_bytes()).is_some())
        else {
            continue;
        };
        let rank = std::str::from_utf8(&rank[b"RANK=".len()..]).ok().and_then(|r| r.parse().ok());
        if let Some(rank) = rank {
            found.push((rank, id));
        }
    }
    found.sort_unstable();
    found.dedup_by_key(|(rank, _)| *rank);
    found
}

/// Ends whatever holds this word on its command line.
pub(crate) fn end_all(mark: &str) {
    for _ in 0..50 {
        let left = ranks(mark);
        if left.is_empty() {
            return;
        }
        for (_, id) in left {
            signal(id, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

pub(crate) fn signal(id: u32, signal: Signal) {
    if let Some(pid) = pid(id) {
        let _ = kill_process(pid, signal);
    }
}

pub(crate) fn alive(id: u32) -> bool {
    let state = std::fs::read_to_string(format!("/proc/{id}/stat")).unwrap_or_default();
    state.rsplit(')').next().is_some_and(|s| !s.trim_start().starts_with('Z') && !s.is_empty())
}

/// Processes with control groups of their own, that come before whatever else this machine does: how
/// fast they usually are is then their own doing. There are none where groups cannot be made.
#[derive(Debug)]
pub(crate) struct ProcessGroups(Vec<ProcessGroup>);

impl ProcessGroups {
    pub(crate) fn new(ids: &[u32]) -> ProcessGroups {
        ProcessGroups(ids.iter().map_while(|id| seat(*id)).collect())
    }

    fn of(&self, id: u32) -> Option<&ProcessGroup> {
        self.0.iter().find(|s| s.id == id)
    }
}

/// A process's own control group, and where it goes afterwards.
#[derive(Debug)]
struct ProcessGroup {
    id: u32,
    dir: PathBuf,
    back: PathBuf,
    files: &'static Files,
}

impl Drop for ProcessGroup {
    fn drop(&mut self) {
        let all = std::fs::read_to_string(self.dir.join("cgroup.procs")).unwrap_or_default();
        for line in all.lines() {
            let _ = std::fs::write(self.back.join("cgroup.procs"), line);
        }
        let _ = std::fs::remove_dir(&self.dir);
    }
}

/// What the files of a kind of control groups are called, and what is written into them.
#[derive(Debug)]
struct Files {
    weight: (&'static str, &'static str),
    limit: &'static str,
    little: &'static str,
    all: &'static str,
}

/// Six percent of a processor: far less than a busy machine leaves a process.
static V1: Files = Files {
    weight: ("cpu.shares", "262144"),
    limit: "cpu.cfs_quota_us",
    little: "6000",
    all: "-1",
};
static V2: Files = Files {
    weight: ("cpu.weight", "10000"),
    limit: "cpu.max",
    little: "6000 100000",
    all: "max 100000",
};

/// Processes that get little of a processor, until this value goes.
#[derive(Debug)]
pub(crate) struct Slowed<'a> {
    how: SlowdownMethod<'a>,
}

#[derive(Debug)]
enum SlowdownMethod<'a> {
    /// The limit of each one's group: the same for all.
    Groups(Vec<&'a ProcessGroup>),
    /// They are stopped and let go on, many times a second.
    Stopped { over: Arc<AtomicBool>, thread: Option<std::thread::JoinHandle<()>> },
}

/// Percent of a processor that a process gets which is stopped and let go on.
const SHARE: u64 = 6;

impl<'a> Slowed<'a> {
    /// Slows them down, by their control groups where they have them.
    pub(crate) fn new(ids: &[u32], seats: &'a ProcessGroups) -> Slowed<'a> {
        let limited = |id: &u32| {
            let seat = seats.of(*id)?;
            std::fs::write(seat.dir.join(seat.files.limit), seat.files.little).ok()?;
            Some(seat)
        };
        let groups: Option<Vec<&ProcessGroup>> = ids.iter().map(limited).collect();
        let how =
            groups.filter(|g| !g.is_empty()).map(SlowdownMethod::Groups).unwrap_or_else(|| {
                let over = Arc::new(AtomicBool::new(false));
                let stop = over.clone();
                let pids: Vec<Pid> = ids.iter().filter_map(|i| pid(*i)).collect();
                let thread = std::thread::spawn(move || duty(&pids, &stop));
                SlowdownMethod::Stopped { over, thread: Some(thread) }
            });
        Slowed { how }
    }

    /// How it is done, for people.
    pub(crate) fn words(&self) -> &'static str {
        match self.how {
            SlowdownMethod::Groups(_) => "a control group's limit for each",
            SlowdownMethod::Stopped { .. } => "SIGSTOP and SIGCONT in turn",
        }
    }
}

impl Drop for Slowed<'_> {
    fn drop(&mut self) {
        match &mut self.how {
            SlowdownMethod::Groups(all) => {
                for seat in all {
                    let _ = std::fs::write(seat.dir.join(seat.files.limit), seat.files.all);
                }
            }
            SlowdownMethod::Stopped { over, thread } => {
                over.store(true, Ordering::Relaxed);
                if let Some(t) = thread.take() {
                    let _ = t.join();
                }
            }
        }
    }
}

fn duty(pids: &[Pid], over: &AtomicBool) {
    let all = |signal| {
        for p in pids {
            let _ = kill_process(*p, signal);
        }
    };
    while !over.load(Ordering::Relaxed) {
        all(Signal::STOP);
        std::thread::sleep(Duration::from_millis(100 - SHARE));
        all(Signal::CONT);
        std::thread::sleep(Duration::from_millis(SHARE));
    }
}

/// Puts a process into a control group of its own. What it starts from now on is in it too.
fn seat(id: u32) -> Option<ProcessGroup> {
    let (back, files) = place(id)?;
    let dir = back.join(format!("muster-gameday-{id}"));
    std::fs::create_dir(&dir).ok()?;
    let seat = ProcessGroup { id, dir, back, files };
    std::fs::write(seat.dir.join(files.weight.0), files.weight.1).ok()?;
    std::fs::write(seat.dir.join("cgroup.procs"), id.to_string()).ok()?;
    Some(seat)
}

/// A process's group for processors, and how its files are called.
fn place(id: u32) -> Option<(PathBuf, &'static Files)> {
    let text = std::fs::read_to_string(format!("/proc/{id}/cgroup")).ok()?;
    for line in text.lines() {
        let mut parts = line.splitn(3, ':');
        let (Some(_), Some(of), Some(path)) = (parts.next(), parts.next(), parts.next()) else {
            continue;
        };
        if of.split(',').any(|c| c == "cpu") {
            let root = Path::new("/sys/fs/cgroup").join(of);
            let root = if root.is_dir() { root } else { "/sys/fs/cgroup/cpu".into() };
            return Some((root.join(path.trim_start_matches('/')), &V1));
        }
    }
    let path = text.lines().find_map(|l| l.strip_prefix("0::"))?;
    Some((Path::new("/sys/fs/cgroup").join(path.trim_start_matches('/')), &V2))
}

/// A port of this machine that nobody uses, and what keeps it while its server is away.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it between two
/// servers. Whoever has the port of the same number for datagrams has it, across processes.
pub(crate) fn free_port() -> Result<(u16, UdpSocket), Fail> {
    let first = std::process::id() % 10_000;
    for step in 0..10_000 {
        let port = u16::try_from(10_000 + (first + step * 7) % 10_000).unwrap_or(u16::MAX);
        let Ok(held) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            return Ok((port, held));
        }
    }
    Err(Fail::failed("no port of this machine between 10000 and 19999 is free"))
}
