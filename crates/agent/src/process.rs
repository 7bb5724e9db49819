//! Processes: who they are beyond their number, and how they are signalled.

use rustix::process::{Pid, Signal};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::OnceLock;

/// A process for certain: numbers are used again, start times within one boot are not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct ProcessId {
    pub(crate) pid: i32,
    pub(crate) start: u64,
    pub(crate) boot: String,
}

/// Whether a process is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Presence {
    Alive,
    /// For certain: there is none of that number, another one has it, or it is a zombie.
    Gone,
    /// It could not be looked up. Whoever asks looks again.
    Unknown,
}

impl ProcessId {
    /// This process.
    ///
    /// # Errors
    /// It cannot be looked up now.
    pub(crate) fn me() -> io::Result<ProcessId> {
        let pid = rustix::process::getpid().as_raw_nonzero().get();
        ProcessId::of(pid)?.ok_or_else(|| io::Error::other("/proc does not show this process"))
    }

    /// The process that has this number now; none when nobody has it.
    ///
    /// # Errors
    /// It cannot be looked up now.
    pub(crate) fn of(pid: i32) -> io::Result<Option<ProcessId>> {
        let boot = boot()?;
        Ok(stat(PROC.as_ref(), pid)?.map(|s| ProcessId { pid, start: s.start, boot: boot.into() }))
    }

    /// Whether this very process runs for certain: it may be sent a signal. A zombie does not run.
    pub(crate) fn alive(&self) -> bool {
        self.presence() == Presence::Alive
    }

    /// Whether this very process runs no more, for certain.
    pub(crate) fn gone(&self) -> bool {
        self.presence() == Presence::Gone
    }

    fn presence(&self) -> Presence {
        match boot() {
            Ok(boot) if boot == self.boot => self.presence_in(PROC.as_ref()),
            Ok(_) => Presence::Gone,
            Err(_) => Presence::Unknown,
        }
    }

    fn presence_in(&self, proc: &Path) -> Presence {
        match stat(proc, self.pid) {
            Ok(Some(s)) if s.start == self.start && !s.dead => Presence::Alive,
            Ok(_) => Presence::Gone,
            Err(_) => Presence::Unknown,
        }
    }
}

/// Where the kernel shows processes.
const PROC: &str = "/proc";

struct Stat {
    parent: i32,
    start: u64,
    dead: bool,
}

impl Stat {
    fn parse(text: &[u8]) -> Option<Stat> {
        // The name in brackets may hold any bytes, even brackets: count from the last one.
        let name_ends = text.iter().rposition(|b| *b == b')')?;
        let rest = std::str::from_utf8(text.get(name_ends + 2..)?).ok()?;
        let fields: Vec<&str> = rest.split(' ').collect();
        Some(Stat {
            dead: matches!(*fields.first()?, "Z" | "X"),
            parent: fields.get(1)?.parse().ok()?,
            start: fields.get(19)?.parse().ok()?,
        })
    }
}

/// None when nobody has this number.
fn stat(proc: &Path, pid: i32) -> io::Result<Option<Stat>> {
    match fs::read(proc.join(pid.to_string()).join("stat")) {
        Ok(text) => Stat::parse(&text).map(Some).ok_or_else(|| {
            io::Error::new(io::ErrorKind::InvalidData, format!("/proc/{pid}/stat cannot be read"))
        }),
        Err(e) if is_absence(&e) => Ok(None),
        Err(e) => Err(e),
    }
}

/// Whether an error of looking a process up means that there is none.
pub(crate) fn is_absence(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Whether an error says nothing of what was looked up, only that this process or the machine is
/// short of something.
pub(crate) fn is_shortage(e: &io::Error) -> bool {
    let short = [libc::EMFILE, libc::ENFILE, libc::ENOMEM, libc::EAGAIN, libc::EINTR];
    e.raw_os_error().is_some_and(|code| short.contains(&code))
}

/// Random for each boot of the kernel. Empty while it cannot be read.
pub(crate) fn boot_id() -> String {
    boot().map(str::to_owned).unwrap_or_default()
}

/// It cannot change while this process lives, so it is read once.
///
/// # Errors
/// It cannot be read now.
pub(crate) fn boot() -> io::Result<&'static str> {
    static BOOT: OnceLock<String> = OnceLock::new();
    if let Some(boot) = BOOT.get() {
        return Ok(boot);
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")?;
    Ok(BOOT.get_or_init(|| boot.trim().to_owned()))
}

/// A fresh random id, from the kernel.
pub(crate) fn random_id() -> String {
    match fs::read_to_string("/proc/sys/kernel/random/uuid") {
        Ok(id) => id.trim().to_owned(),
        // Without /proc nothing else here works either; still, two agents must differ.
        Err(_) => format!("{:x}-{:p}", std::process::id(), &raw const UNIQUE),
    }
}
static UNIQUE: u8 = 0;

/// The parent of a process, where that is known.
pub(crate) fn parent(of: i32) -> Option<i32> {
    stat(PROC.as_ref(), of).ok().flatten().map(|s| s.parent)
}

/// Whether nobody has this number, for certain.
pub(crate) fn is_free(pid: i32) -> bool {
    matches!(stat(PROC.as_ref(), pid), Ok(None))
}

/// What the kernel shows of a process in lines, whatever bytes its name has.
pub(crate) fn status(pid: i32) -> String {
    let text = fs::read(format!("/proc/{pid}/status")).unwrap_or_default();
    String::from_utf8_lossy(&text).into_owned()
}

/// Everything below a process, children before grandchildren.
///
/// # Errors
/// Not everything can be looked up now.
pub(crate) fn descendants(of: i32) -> io::Result<Vec<i32>> {
    descendants_in(PROC.as_ref(), of)
}

fn descendants_in(proc: &Path, of: i32) -> io::Result<Vec<i32>> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for entry in fs::read_dir(proc)? {
        let Some(pid) = entry?.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else {
            continue;
        };
        match stat(proc, pid) {
            Ok(Some(s)) if !s.dead => children.entry(s.parent).or_default().push(pid),
            Ok(_) => {}
            // A machine may hide the processes of others; those are not below any of ours.
            Err(e) if e.kind() == io::ErrorKind::PermissionDenied => {}
            Err(e) => return Err(e),
        }
    }
    let mut found = Vec::new();
    let mut next = vec![of];
    while let Some(pid) = next.pop() {
        let below = children.remove(&pid).unwrap_or_default();
        found.extend(&below);
        next.extend(below);
    }
    Ok(found)
}

/// The highest number of a signal. The C library has some of them for itself, and its calls skip these.
const LAST_SIGNAL: libc::c_int = 64;

/// Gives every signal its default effect and lets it through to the calling process; the program that it
/// becomes would keep what is ignored or blocked: a shell ignores SIGINT and SIGQUIT for what it starts
/// in the background. For between fork and exec: nothing is allocated.
pub(crate) fn reset_signals() -> io::Result<()> {
    #[expect(unsafe_code, reason = "dispositions and signal sets have no safe interface")]
    // SAFETY: four words of zeros are the kernel's `struct sigaction` with the default effect, no flags and
    // nothing blocked, on every architecture of 64 bits; the kernel reads no more. The set is initialised by
    // sigemptyset before it is used. Both outlive the calls. What is refused (SIGKILL, SIGSTOP) has its default
    // effect anyway.
    let result = unsafe {
        let default = [0_u64; 4];
        let (none, bytes) = (std::ptr::null_mut::<u64>(), size_of::<u64>());
        for signal in 1..=LAST_SIGNAL {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), none, bytes);
        }
        let mut set = MaybeUninit::<libc::sigset_t>::uninit();
        libc::sigemptyset(set.as_mut_ptr());
        libc::sigprocmask(libc::SIG_SETMASK, set.as_ptr(), std::ptr::null_mut())
    };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

/// What ranks have as `oom_score_adj`: when memory is short the kernel ends them before the agent, the
/// server and what watches them.
pub(crate) const RANK_OOM_SCORE: i32 = 500;

fn own_oom_score() -> Option<i32> {
    fs::read_to_string("/proc/self/oom_score_adj").ok()?.trim().parse().ok()
}

/// Whether what this process starts has a lower score than ranks are to have.
pub(crate) fn has_lower_oom_score() -> bool {
    own_oom_score().is_some_and(|own| own < RANK_OOM_SCORE)
}

/// The score of a rank that this process starts, as the kernel reads it: never lower than its own.
pub(crate) fn rank_oom_score() -> String {
    own_oom_score().map_or(RANK_OOM_SCORE, |own| own.max(RANK_OOM_SCORE)).to_string()
}

/// Gives the calling process this score. Written also where it has it already: what is written with
/// `CAP_SYS_RESOURCE` is the least that programs without it can have from then on. Everybody may
/// raise it; where it cannot be done it stays as it is. For between fork and exec: nothing is
/// allocated.
pub(crate) fn set_oom_score(score: &str) {
    #[expect(unsafe_code, reason = "files that are opened otherwise may allocate")]
    // SAFETY: the path ends with a NUL, the text is as long as is said, both live past the calls, and
    // the descriptor is nobody else's.
    unsafe {
        let flags = libc::O_WRONLY | libc::O_CLOEXEC;
        let fd = libc::open(c"/proc/self/oom_score_adj".as_ptr(), flags);
        if fd >= 0 {
            libc::write(fd, score.as_ptr().cast(), score.len());
            libc::close(fd);
        }
    }
}

/// Waits for one child to end.
pub(crate) fn reap(pid: i32) {
    if let Some(pid) = Pid::from_raw(pid) {
        while matches!(
            rustix::process::waitpid(Some(pid), rustix::process::WaitOptions::empty()),
            Err(rustix::io::Errno::INTR)
        ) {}
    }
}

/// Sends a signal to one process; one that is gone is none of our concern.
pub(crate) fn signal(pid: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(pid).filter(|p| p.as_raw_nonzero().get() > 1) {
        let _ = rustix::process::kill_process(pid, signal);
    }
}

/// Sends a signal to a process group.
pub(crate) fn signal_group(group: i32, signal: Signal) {
    if let Some(pid) = Pid::from_raw(group).filter(|p| p.as_raw_nonzero().get() > 1) {
        let _ = rustix::process::kill_process_group(pid, signal);
    }
}

/// The signal of a name such as `SIGUSR1` or `usr1`.
pub(crate) fn signal_named(name: &str) -> Option<Signal> {
    let upper = name.trim().to_ascii_uppercase();
    Some(match upper.strip_prefix("SIG").unwrap_or(&upper) {
        "USR1" => Signal::USR1,
        "USR2" => Signal::USR2,
        "HUP" => Signal::HUP,
        "INT" => Signal::INT,
        "QUIT" => Signal::QUIT,
        "TERM" => Signal::TERM,
        "CONT" => Signal::CONT,
        "URG" => Signal::URG,
        "ALRM" => Signal::ALARM,
        "WINCH" => Signal::WINCH,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::process::{Command, Stdio};

    #[test]
    fn this_process_is_alive_and_an_older_one_with_its_number_is_not() {
        let me = ProcessId::me().unwrap();
        assert!(me.alive() && !me.gone());
        let older = ProcessId { start: me.start + 1, ..me.clone() };
        assert!(older.gone() && !older.alive());
        assert!(ProcessId { boot: "another".into(), ..me }.gone());
    }

    #[test]
    fn only_a_definite_answer_means_that_a_process_is_gone() {
        let tmp = tempfile::tempdir().unwrap();
        let id = ProcessId { pid: 7, start: 42, boot: String::new() };
        let zeros = "0 ".repeat(17);
        let seen = |stat: Option<&[u8]>| {
            let _ = fs::remove_dir_all(tmp.path().join("7"));
            if let Some(stat) = stat {
                fs::create_dir(tmp.path().join("7")).unwrap();
                fs::write(tmp.path().join("7/stat"), stat).unwrap();
            }
            id.presence_in(tmp.path())
        };
        let line = |state: &str, start: u32| {
            let mut line = b"7 (a\xff) (b) ".to_vec();
            line.extend(format!("{state} 1 {zeros}{start} 0\n").bytes());
            line
        };
        assert_eq!(seen(Some(&line("S", 42)[..])), Presence::Alive, "any bytes are a name");
        assert_eq!(seen(Some(&line("S", 43)[..])), Presence::Gone, "another one has its number");
        assert_eq!(seen(Some(&line("Z", 42)[..])), Presence::Gone, "a zombie");
        assert_eq!(seen(None), Presence::Gone, "nobody has its number");
        assert_eq!(seen(Some(&b"7 (a) S"[..])), Presence::Unknown, "half of it");
        // What cannot be read now: this fails as an open file too many would.
        let _ = fs::remove_dir_all(tmp.path().join("7"));
        fs::create_dir_all(tmp.path().join("7/stat")).unwrap();
        assert_eq!(id.presence_in(tmp.path()), Presence::Unknown);
        assert!(descendants_in(tmp.path(), 1).is_err(), "somebody may be missing");
        assert!(descendants_in(&tmp.path().join("none"), 1).is_err());
    }

    #[test]
    fn a_process_is_found_whatever_it_calls_itself() {
        let script = r"printf '\377)x' > /proc/$$/comm; echo up; read line";
        let mut child = Command::new("sh")
            .args(["-c", script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "up\n");
        let pid = child.id().cast_signed();
        let id = ProcessId::of(pid).unwrap().unwrap();
        assert!(id.alive());
        assert!(status(pid).contains("SigCgt:"));
        let me = std::process::id().cast_signed();
        assert_eq!(parent(pid), Some(me));
        assert!(descendants(me).unwrap().contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(id.gone());
    }

    #[test]
    fn signals_are_known_by_name_with_or_without_prefix() {
        assert_eq!(signal_named("SIGUSR1"), Some(Signal::USR1));
        assert_eq!(signal_named("usr2"), Some(Signal::USR2));
        assert_eq!(signal_named("SIGKILLALL"), None);
    }
}
