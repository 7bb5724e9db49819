//! Processes and directories that are gone when we are, also after a failure or a Ctrl-C.

pub use crate::tee::{tee, tee_within};
use anyhow::{Context, Result, bail};
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use std::fs::{self, File};
use std::io::{ErrorKind, Write};
use std::net::{TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// What a signal handler must still clean up, oldest first.
struct Registry {
    processes: Vec<(Pid, Signal)>,
    dirs: Vec<PathBuf>,
}

static REGISTRY: Mutex<Registry> = Mutex::new(Registry { processes: Vec::new(), dirs: Vec::new() });

fn registry() -> std::sync::MutexGuard<'static, Registry> {
    REGISTRY.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

/// A signal stops this process as well, until it is [`forgotten`].
pub(crate) fn remembered(pid: Pid) {
    registry().processes.push((pid, Signal::TERM));
}

/// It has ended.
pub(crate) fn forgotten(pid: Pid) {
    registry().processes.retain(|(p, _)| *p != pid);
}

/// On SIGINT, SIGTERM and SIGHUP: stops every [`Daemon`], removes every [`TempDir`], exits 130.
pub fn stop_everything_on_signals() -> Result<()> {
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP]).context("cannot handle signals")?;
    let wait = move || {
        if signals.forever().next().is_some() {
            stop_everything();
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(wait)
        .context("cannot start the thread that handles signals")?;
    Ok(())
}

fn stop_everything() -> ! {
    let (processes, dirs) = {
        let mut all = registry();
        (std::mem::take(&mut all.processes), std::mem::take(&mut all.dirs))
    };
    for (pid, signal) in processes.iter().rev() {
        stop_pid(*pid, *signal, Duration::from_secs(5));
    }
    for dir in dirs {
        kill_inhabitants(&dir);
        let _ = fs::remove_dir_all(dir);
    }
    std::process::exit(130);
}

/// Whether the process runs: a zombie does not.
#[must_use]
pub fn is_running(pid: Pid) -> bool {
    let Ok(stat) = fs::read_to_string(format!("/proc/{}/stat", pid.as_raw_nonzero())) else {
        return false;
    };
    // The state is the first field after the command, which is in parentheses.
    !matches!(stat.rsplit(')').next().and_then(|s| s.trim().chars().next()), Some('Z' | 'X'))
}

fn stop_pid(pid: Pid, signal: Signal, patience: Duration) {
    let _ = kill_process(pid, signal);
    let until = Instant::now() + patience;
    while is_running(pid) && Instant::now() < until {
        std::thread::sleep(Duration::from_millis(20));
    }
    // The whole group: whatever it left behind (it was started as the leader of its own).
    let _ = kill_process_group(pid, Signal::KILL);
}

/// Kills every process that works in a directory of ours: what a daemon started and left behind
/// in a session of its own, such as the supervisor of a job.
fn kill_inhabitants(dir: &Path) {
    for _ in 0..10 {
        let inhabitants: Vec<Pid> = fs::read_dir("/proc")
            .into_iter()
            .flatten()
            .flatten()
            .filter_map(|e| e.file_name().to_str()?.parse().ok())
            .filter(|pid| {
                fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd.starts_with(dir))
            })
            .filter_map(Pid::from_raw)
            .filter(|pid| *pid != rustix::process::getpid() && is_running(*pid))
            .collect();
        if inhabitants.is_empty() {
            return;
        }
        for pid in inhabitants {
            let _ = kill_process(pid, Signal::KILL);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A directory that is removed when dropped, with whatever process still works in it.
#[derive(Debug)]
pub struct TempDir(PathBuf);

impl TempDir {
    /// Makes one in the system's temporary directory.
    pub fn new(what: &str) -> Result<TempDir> {
        TempDir::in_dir(&std::env::temp_dir(), what)
    }

    /// Makes one in `parent`, for when the disk matters.
    pub fn in_dir(parent: &Path, what: &str) -> Result<TempDir> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        fs::create_dir_all(parent).with_context(|| format!("cannot make {}", parent.display()))?;
        // As the kernel shows it: working directories are compared with it.
        let parent = parent.canonicalize()?;
        let pid = std::process::id();
        loop {
            let number = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = parent.join(format!("muster-{what}-{pid}-{number}"));
            match fs::create_dir(&path) {
                Ok(()) => {
                    registry().dirs.push(path.clone());
                    return Ok(TempDir(path));
                }
                // Of a process that was killed, and had the number that is ours now.
                Err(e) if e.kind() == ErrorKind::AlreadyExists => {}
                Err(e) => {
                    return Err(e).with_context(|| format!("cannot make {}", path.display()));
                }
            }
        }
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// Makes a directory inside and says where it is.
    pub fn sub(&self, name: &str) -> Result<PathBuf> {
        let path = self.0.join(name);
        fs::create_dir_all(&path).with_context(|| format!("cannot make {}", path.display()))?;
        Ok(path)
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        registry().dirs.retain(|d| d != &self.0);
        kill_inhabitants(&self.0);
        if std::env::var_os("MUSTER_XTASK_KEEP").is_some() {
            eprintln!("kept {}", self.0.display());
        } else if let Err(error) = fs::remove_dir_all(&self.0) {
            eprintln!("warning: cannot remove {}: {error}", self.0.display());
        }
    }
}

/// A background process that is stopped when dropped. Leads its own process group, so that a
/// Ctrl-C on the terminal reaches it through us, in the right order.
#[derive(Debug)]
pub struct Daemon {
    name: String,
    child: Child,
    pid: Pid,
    log: PathBuf,
    stop_with: Signal,
}

impl Daemon {
    /// Starts `command` with both outputs appended to `log`.
    pub fn spawn(name: &str, mut command: Command, log: &Path) -> Result<Daemon> {
        command.stdin(Stdio::null());
        Daemon::start(name, command, log)
    }

    /// Starts it, writes `words` to its input, and keeps that open: it closes with us.
    pub fn spawn_with_input(
        name: &str,
        mut command: Command,
        log: &Path,
        words: &str,
    ) -> Result<Daemon> {
        command.stdin(Stdio::piped());
        let mut daemon = Daemon::start(name, command, log)?;
        if let Some(input) = &mut daemon.child.stdin {
            let written = input.write_all(words.as_bytes()).and_then(|()| input.flush());
            if let Err(error) = written {
                daemon.must_be_running()?;
                return Err(error).with_context(|| format!("cannot speak to {name}"));
            }
        }
        Ok(daemon)
    }

    fn start(name: &str, mut command: Command, log: &Path) -> Result<Daemon> {
        let file = File::options()
            .create(true)
            .append(true)
            .open(log)
            .with_context(|| format!("cannot open {}", log.display()))?;
        command.stdout(file.try_clone()?).stderr(file).process_group(0);
        let child = command
            .spawn()
            .with_context(|| format!("cannot start {name} ({:?})", command.get_program()))?;
        let pid = Pid::from_child(&child);
        registry().processes.push((pid, Signal::TERM));
        Ok(Daemon { name: name.into(), child, pid, log: log.into(), stop_with: Signal::TERM })
    }

    /// Uses another signal than SIGTERM to stop it.
    #[must_use]
    pub fn stopped_with(mut self, signal: Signal) -> Daemon {
        self.stop_with = signal;
        for entry in &mut registry().processes {
            if entry.0 == self.pid {
                entry.1 = signal;
            }
        }
        self
    }

    /// Its process id.
    #[must_use]
    pub fn pid(&self) -> Pid {
        self.pid
    }

    /// What it printed so far.
    #[must_use]
    pub fn output(&self) -> String {
        fs::read(&self.log).map_or_else(|_| String::new(), |b| String::from_utf8_lossy(&b).into())
    }

    /// Fails with the end of its log when it has ended.
    pub fn must_be_running(&mut self) -> Result<()> {
        match self.child.try_wait()? {
            None => Ok(()),
            Some(status) => {
                bail!("{} ended ({status}); its last words:\n{}", self.name, self.last_words())
            }
        }
    }

    /// The last lines of its log, indented.
    #[must_use]
    pub fn last_words(&self) -> String {
        let output = self.output();
        let lines: Vec<&str> = output.lines().collect();
        let from = lines.len().saturating_sub(20);
        lines[from..].iter().map(|l| format!("    {l}\n")).collect()
    }

    /// Waits until `ready` gives something; fails when the process ends or time runs out.
    pub fn wait_ready<T>(
        &mut self,
        within: Duration,
        mut ready: impl FnMut(&Daemon) -> Option<T>,
    ) -> Result<T> {
        let until = Instant::now() + within;
        loop {
            if let Some(value) = ready(self) {
                return Ok(value);
            }
            self.must_be_running()?;
            if Instant::now() > until {
                bail!(
                    "{} was not ready within {within:?}; its last words:\n{}",
                    self.name,
                    self.last_words()
                );
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Kills it with SIGKILL and waits for its end; its children live on.
    pub fn kill_9(&mut self) -> Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        registry().processes.retain(|(pid, _)| *pid != self.pid);
        Ok(())
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        registry().processes.retain(|(pid, _)| *pid != self.pid);
        if matches!(self.child.try_wait(), Ok(None)) {
            stop_pid(self.pid, self.stop_with, Duration::from_secs(15));
        }
        let _ = self.child.wait();
    }
}

/// A TCP port of 127.0.0.1 that nobody uses, and that is ours until this program ends.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it before the server
/// that it is for has come up, or while that is away. Whoever has the port of the same number for
/// datagrams has it, across processes: our tests keep to that too.
pub fn free_port() -> Result<u16> {
    static HELD: Mutex<Vec<UdpSocket>> = Mutex::new(Vec::new());
    let first = std::process::id() % 10_000;
    for step in 0..10_000 {
        let port = u16::try_from(10_000 + (first + step * 7) % 10_000)?;
        let Ok(held) = UdpSocket::bind(("127.0.0.1", port)) else { continue };
        if TcpListener::bind(("127.0.0.1", port)).is_ok() {
            HELD.lock().unwrap_or_else(PoisonError::into_inner).push(held);
            return Ok(port);
        }
    }
    bail!("no port of 127.0.0.1 between 10000 and 19999 is free")
}

/// Whether we are root.
#[must_use]
pub fn is_root() -> bool {
    rustix::process::geteuid().is_root()
}

/// User and group id of an account of this machine.
#[must_use]
pub fn account(name: &str) -> Option<(u32, u32)> {
    let users = fs::read_to_string("/etc/passwd").ok()?;
    users.lines().find_map(|line| {
        let mut fields = line.split(':');
        if fields.next()? != name {
            return None;
        }
        let uid = fields.nth(1)?.parse().ok()?;
        Some((uid, fields.next()?.parse().ok()?))
    })
}

/// Finds a program on the path or in the system's own directories, which are not always on it.
#[must_use]
pub fn which(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .chain(["/usr/sbin".into(), "/sbin".into(), "/usr/local/bin".into()])
        .map(|dir| dir.join(program))
        .find(|p| p.is_file())
}

/// Runs to the end; fails with what it said when it fails.
pub fn check(command: &mut Command) -> Result<String> {
    let words = describe(command);
    let output =
        command.stdin(Stdio::null()).output().with_context(|| format!("cannot start `{words}`"))?;
    if !output.status.success() {
        bail!(
            "`{words}` failed ({}):\n{}{}",
            output.status,
            String::from_utf8_lossy(&output.stdout),
            String::from_utf8_lossy(&output.stderr)
        );
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The command as one would type it.
#[must_use]
pub fn describe(command: &Command) -> String {
    std::iter::once(command.get_program())
        .chain(command.get_args())
        .map(|w| w.to_string_lossy().into_owned())
        .collect::<Vec<_>>()
        .join(" ")
}

/// Runs to the end with our own input and output; stopped when we are.
pub fn foreground(command: &mut Command) -> Result<ExitStatus> {
    let mut child =
        command.spawn().with_context(|| format!("cannot start `{}`", describe(command)))?;
    let pid = Pid::from_child(&child);
    remembered(pid);
    let status = child.wait()?;
    forgotten(pid);
    Ok(status)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Only keeps a broken test from hanging.
    const LONG: Duration = Duration::from_secs(120);

    #[test]
    fn a_dropped_daemon_is_gone_with_its_children() {
        let dir = TempDir::new("proc-test").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "sleep 1000 & echo child $!; wait"]);
        let mut daemon = Daemon::spawn("sh", command, &dir.path().join("log")).unwrap();
        let child: i32 = daemon
            .wait_ready(LONG, |d| d.output().trim().strip_prefix("child ")?.parse().ok())
            .unwrap();
        let pid = daemon.pid();
        drop(daemon);
        assert!(!is_running(pid));
        let child = Pid::from_raw(child).unwrap();
        let until = Instant::now() + LONG;
        while is_running(child) && Instant::now() < until {
            std::thread::sleep(Duration::from_millis(10));
        }
        assert!(!is_running(child));
    }

    #[test]
    fn a_daemon_that_ends_early_says_its_last_words() {
        let dir = TempDir::new("proc-test").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "echo no such disk >&2; exit 3"]);
        let mut daemon = Daemon::spawn("sh", command, &dir.path().join("log")).unwrap();
        let error = daemon.wait_ready(LONG, |_| None::<()>).unwrap_err().to_string();
        assert!(error.contains("no such disk") && error.contains('3'), "{error}");
    }

    #[test]
    fn a_daemon_gets_what_is_sent_and_its_input_stays_open() {
        let dir = TempDir::new("proc-test").unwrap();
        let mut command = Command::new("sh");
        command.args(["-c", "read word; echo heard $word; read more || echo closed"]);
        let log = dir.path().join("log");
        let mut daemon = Daemon::spawn_with_input("sh", command, &log, "this\n").unwrap();
        daemon.wait_ready(LONG, |d| d.output().contains("heard this").then_some(())).unwrap();
        assert!(!daemon.output().contains("closed"));
    }

    #[test]
    fn a_temporary_directory_goes_with_its_owner() {
        let dir = TempDir::new("proc-test").unwrap();
        let path = dir.path().to_path_buf();
        fs::write(dir.sub("a/b").unwrap().join("c"), "x").unwrap();
        drop(dir);
        assert!(!path.exists());
    }

    #[test]
    fn a_process_left_in_a_temporary_directory_goes_with_it() {
        let dir = TempDir::new("proc-test").unwrap();
        let mut left = Command::new("setsid")
            .args(["sleep", "1000"])
            .current_dir(dir.sub("deep").unwrap())
            .spawn()
            .unwrap();
        drop(dir);
        assert!(!left.wait().unwrap().success());
    }
}
