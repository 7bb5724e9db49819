//! `muster up`, or a server alone, in a directory of its own, and the commands a user types at it.

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU16, Ordering};
use std::time::{Duration, Instant};

/// Every process of a cluster carries its directory in this variable, ranks included.
const MARK: &str = "MUSTER_FIRST_MINUTES_DIR";

const DEMO: &str = "--demo";

/// How long a test waits for anything; it only keeps a broken one from hanging.
const PATIENCE: Duration = Duration::from_secs(300);

/// What a command said.
#[derive(Debug)]
pub(crate) struct CommandOutput {
    pub(crate) stdout: String,
    pub(crate) stderr: String,
    status: Option<i32>,
    what: String,
}

impl CommandOutput {
    /// It ended with this exit code.
    #[track_caller]
    pub(crate) fn code(&self, want: i32) {
        assert_eq!(self.status, Some(want), "`muster {}` said {self:#?}", self.what);
    }
}

/// A cluster on this machine; nothing of it outlives the test.
pub(crate) struct Cluster {
    dir: tempfile::TempDir,
    /// Its addresses are nobody else's, also while its server is away.
    _held: [UdpSocket; 2],
    listen: SocketAddr,
    link: SocketAddr,
    /// What is started: `up` or `server`, and with what.
    verb: Vec<String>,
    /// The program and its arguments that start it; by itself when empty.
    through: &'static [&'static str],
    /// `MUSTER_FAILPOINT` of the next start.
    failpoint: String,
    /// `MUSTER_LOST_AFTER`.
    lost_after: &'static str,
    /// `MUSTER_TELEMETRY`.
    telemetry: &'static str,
    up: Option<Child>,
    pub(crate) token: String,
}

impl Cluster {
    /// `muster up`, until every node is there.
    pub(crate) fn start(nodes: u32) -> Cluster {
        Cluster::start_with(nodes, &[])
    }

    /// The same with more arguments.
    pub(crate) fn start_with(nodes: u32, more: &[&str]) -> Cluster {
        let count = nodes.to_string();
        let mut verb = vec!["up", "--no-context", "--no-local-node"];
        if !more.contains(&DEMO) {
            verb.extend(["--nodes", &count]);
        }
        verb.extend(more);
        Cluster::stopped(&verb).with_nodes(nodes)
    }

    /// The same, with how to reach it written into this file of its directory.
    pub(crate) fn start_known(nodes: u32, config: &str) -> Cluster {
        let count = nodes.to_string();
        let verb = ["up", "--config", config, "--no-local-node", "--nodes", &count];
        Cluster::stopped(&verb).with_nodes(nodes)
    }

    /// The same for a test that crashes nodes: they are missed soon.
    pub(crate) fn start_to_crash(nodes: u32) -> Cluster {
        let count = nodes.to_string();
        let verb = ["up", "--no-context", "--no-local-node", "--nodes", &count];
        let mut cluster = Cluster::stopped(&verb);
        cluster.lost_after = "10s";
        cluster.with_nodes(nodes)
    }

    /// The same with samples, and steps of what is stored of them, of a second instead of ten.
    pub(crate) fn start_sampled(nodes: u32) -> Cluster {
        let count = nodes.to_string();
        let verb = ["up", "--no-context", "--no-local-node", "--nodes", &count];
        let mut cluster = Cluster::stopped(&verb);
        cluster.telemetry = "1s";
        cluster.with_nodes(nodes)
    }

    /// Starts it and waits for its nodes.
    fn with_nodes(mut self, nodes: u32) -> Cluster {
        self.restart();
        if nodes > 0 {
            until("every node is ready", || self.nodes_in("ready") == nodes as usize);
        }
        self
    }

    /// `muster up --demo`, which has nodes of its own, not all of them well.
    pub(crate) fn demo(more: &[&str]) -> Cluster {
        let mut all = vec![DEMO];
        all.extend(more);
        Cluster::start_with(0, &all)
    }

    /// `muster server` with more arguments; nothing is started yet.
    pub(crate) fn server(more: &[&str]) -> Cluster {
        let mut verb = vec!["server"];
        verb.extend(more);
        Cluster::stopped(&verb)
    }

    fn stopped(verb: &[&str]) -> Cluster {
        Cluster::stopped_in(&std::env::temp_dir(), verb)
    }

    /// `muster up` with its things outside of `/tmp`, which every rank has of its own.
    pub(crate) fn start_in(dir: &Path, nodes: u32) -> Cluster {
        let count = nodes.to_string();
        let verb = ["up", "--no-context", "--no-local-node", "--nodes", &count];
        Cluster::stopped_in(dir, &verb).with_nodes(nodes)
    }

    /// The same, started by another program that takes powers from it.
    pub(crate) fn start_weak(dir: &Path, nodes: u32, through: &'static [&'static str]) -> Cluster {
        let count = nodes.to_string();
        let verb = ["up", "--no-context", "--no-local-node", "--nodes", &count];
        let mut cluster = Cluster::stopped_in(dir, &verb);
        cluster.through = through;
        cluster.with_nodes(nodes)
    }

    fn stopped_in(dir: &Path, verb: &[&str]) -> Cluster {
        let dir = tempfile::Builder::new().prefix("muster-up-").tempdir_in(dir);
        let dir = dir.expect("a directory");
        // Ranks are not who runs the tests, and write here.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), mode).expect("the test's own");
        let ((listen, one), (link, two)) = (free_address(), free_address());
        Cluster {
            dir,
            _held: [one, two],
            listen,
            link,
            verb: verb.iter().map(ToString::to_string).collect(),
            through: &[],
            failpoint: String::new(),
            // No node is missed because the machine is busy, or because a server took its time.
            lost_after: "60s",
            telemetry: "10s",
            up: None,
            token: String::new(),
        }
    }

    /// The data directory.
    pub(crate) fn data(&self) -> String {
        self.path("data").display().to_string()
    }

    /// Where the API is.
    pub(crate) fn listen(&self) -> SocketAddr {
        self.listen
    }

    /// Where agents connect.
    pub(crate) fn link(&self) -> SocketAddr {
        self.link
    }

    /// What it said since it was started.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path("up.log")).unwrap_or_default()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// The binary with this cluster's settings.
    pub(crate) fn command(&self) -> Command {
        let mut command = crate::muster();
        command
            .env(MARK, self.dir.path())
            .env("HOME", self.dir.path())
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env("MUSTER_SERVER", format!("http://{}", self.listen))
            .env("MUSTER_TOKEN", &self.token)
            .current_dir(self.dir.path())
            .stdin(Stdio::null());
        command
    }

    /// Starts it and waits for its word that it serves.
    pub(crate) fn restart(&mut self) {
        self.launch();
        self.ready();
    }

    /// Where the next start shall die or panic.
    pub(crate) fn fail_at(&mut self, points: &str) {
        self.failpoint = points.to_owned();
    }

    /// Whether its process ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.up.as_mut().is_none_or(|up| !matches!(up.try_wait(), Ok(None)))
    }

    /// The binary, or what starts it.
    fn starting(&self) -> Command {
        let own = self.command();
        let Some((program, args)) = self.through.split_first() else { return own };
        let mut command = Command::new(program);
        command.args(args).arg(own.get_program()).current_dir(self.dir.path()).stdin(Stdio::null());
        for (name, value) in own.get_envs() {
            match value {
                Some(value) => command.env(name, value),
                None => command.env_remove(name),
            };
        }
        command
    }

    /// Starts it.
    pub(crate) fn launch(&mut self) {
        let file = std::fs::File::create(self.path("up.log")).expect("a log file");
        let up = self
            .starting()
            .env_remove("MUSTER_SERVER")
            .env_remove("MUSTER_TOKEN")
            .env("MUSTER_HEARTBEAT", "1s")
            .env("MUSTER_LOST_AFTER", self.lost_after)
            .env("MUSTER_TELEMETRY", self.telemetry)
            .env("MUSTER_FAILPOINT", &self.failpoint)
            .args(&self.verb)
            .args(["--listen", &self.listen.to_string(), "--link-listen", &self.link.to_string()])
            .arg("--data-dir")
            .arg(self.path("data"))
            .stdout(file.try_clone().expect("a second handle"))
            .stderr(file)
            .spawn()
            .expect("the muster binary starts");
        self.up = Some(up);
    }

    /// Waits for its word that it serves.
    pub(crate) fn ready(&mut self) {
        let ready = format!("muster ready at http://{}", self.listen);
        let start = Instant::now();
        loop {
            let said = self.log();
            if said.contains(&ready) {
                break;
            }
            let ended = self.ended();
            assert!(!ended, "`muster {}` ended: {said}", self.verb[0]);
            assert!(start.elapsed() < PATIENCE, "it never served: {said}");
            std::thread::sleep(Duration::from_millis(20));
        }
        let token = std::fs::read_to_string(self.path("data/admin.token"));
        self.token = token.expect("the administrator's token").trim().to_owned();
    }

    /// `kill -9` for it; waits until its fleet is gone as well.
    pub(crate) fn kill(&mut self) {
        let Some(mut up) = self.up.take() else { return };
        let _ = up.kill();
        let _ = up.wait();
        until("the fleet ends with its parent", || self.fleet().is_empty());
    }

    /// The processes that host its nodes: one, or none for a moment.
    pub(crate) fn fleet(&self) -> Vec<i32> {
        let hosts = |pid: &i32| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|b| *b == 0).any(|a| a == b"__fleet")
        };
        marked(self.dir.path()).into_iter().filter(hosts).collect()
    }

    /// `kill -9` for the process that hosts its nodes, and for nothing else.
    pub(crate) fn kill_fleet(&self) {
        for pid in self.fleet().into_iter().filter_map(Pid::from_raw) {
            let _ = kill_process(pid, Signal::KILL);
        }
    }

    pub(crate) fn muster(&self, args: &[&str]) -> CommandOutput {
        self.muster_with_input(args, "")
    }

    /// A command, with something on its stdin.
    pub(crate) fn muster_with_input(&self, args: &[&str], input: &str) -> CommandOutput {
        let mut child = self
            .command()
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the muster binary starts");
        let mut stdin = child.stdin.take().expect("it was asked for");
        let _ = stdin.write_all(input.as_bytes());
        drop(stdin);
        let pid = Pid::from_child(&child);
        let (done, over) = std::sync::mpsc::channel::<()>();
        // A command that hangs shall not hang the test.
        let guard = std::thread::spawn(move || {
            if over.recv_timeout(PATIENCE).is_err() {
                let _ = kill_process(pid, Signal::KILL);
            }
        });
        let out = child.wait_with_output().expect("it ends");
        let _ = done.send(());
        let _ = guard.join();
        CommandOutput {
            stdout: String::from_utf8_lossy(&out.stdout).into_owned(),
            stderr: String::from_utf8_lossy(&out.stderr).into_owned(),
            status: out.status.code(),
            what: args.join(" "),
        }
    }

    /// The one JSON document that a command prints.
    #[track_caller]
    pub(crate) fn json(&self, args: &[&str]) -> Value {
        let mut args = args.to_vec();
        if !args.contains(&"-o") {
            args.extend(["-o", "json"]);
        }
        let out = self.muster(&args);
        out.code(0);
        serde_json::from_str(&out.stdout).unwrap_or_else(|e| panic!("one document ({e}): {out:#?}"))
    }

    /// `muster submit`: the id that it prints.
    #[track_caller]
    pub(crate) fn submit(&self, args: &[&str]) -> String {
        let mut all = vec!["submit"];
        all.extend(args);
        let out = self.muster(&all);
        out.code(0);
        let id = out.stdout.trim().to_owned();
        assert!(id.parse::<u64>().is_ok(), "just the id: {out:?}");
        id
    }

    pub(crate) fn nodes_in(&self, state: &str) -> usize {
        let list = self.json(&["get", "nodes"]);
        let items = list["items"].as_array().map(Vec::as_slice).unwrap_or_default();
        items.iter().filter(|n| n["state"] == state && n["agent"].is_object()).count()
    }

    /// Files of the cluster that hold these bytes.
    pub(crate) fn files_with(&self, bytes: &[u8]) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut open = vec![self.path("data")];
        while let Some(dir) = open.pop() {
            for entry in std::fs::read_dir(&dir).into_iter().flatten().flatten() {
                let path = entry.path();
                match entry.file_type() {
                    Ok(t) if t.is_dir() => open.push(path),
                    Ok(t) if t.is_file() => {
                        let mut all = Vec::new();
                        let read =
                            std::fs::File::open(&path).and_then(|mut f| f.read_to_end(&mut all));
                        if read.is_ok() && all.windows(bytes.len()).any(|w| w == bytes) {
                            found.push(path);
                        }
                    }
                    _ => {}
                }
            }
        }
        found
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let log = self.log();
            let lines: Vec<&str> = log.lines().collect();
            eprintln!("=== end of up.log\n{}", lines[lines.len().saturating_sub(40)..].join("\n"));
        }
        if let Some(mut up) = self.up.take() {
            let _ = up.kill();
            let _ = up.wait();
        }
        for _ in 0..100 {
            let left = marked(self.dir.path());
            if left.is_empty() {
                return;
            }
            for pid in left.into_iter().filter_map(Pid::from_raw) {
                let _ = kill_process(pid, Signal::KILL);
            }
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

/// Processes that carry the cluster's directory in their environment.
fn marked(dir: &Path) -> Vec<i32> {
    let mark = dir.as_os_str().as_encoded_bytes();
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let pid = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok());
        let Some(pid) = pid.filter(|p| p.unsigned_abs() != std::process::id()) else { continue };
        let holds = ["environ", "cmdline"].iter().any(|f| {
            std::fs::read(entry.path().join(f))
                .is_ok_and(|bytes| bytes.windows(mark.len()).any(|w| w == mark))
        });
        if holds {
            pids.push(pid);
        }
    }
    pids
}

/// An address that nobody uses, and what keeps other tests from it until this one ends.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it. Whoever has the
/// port of the same number for datagrams has it, across processes: that nobody listens may only
/// mean that another test's server has not come up yet.
pub(crate) fn free_address() -> (SocketAddr, UdpSocket) {
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let step = NEXT.fetch_add(1, Ordering::Relaxed);
        let base = u16::try_from(std::process::id() % 8_000).expect("in range");
        let port = 10_000 + (base + step * 7) % 10_000;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let Ok(held) = UdpSocket::bind(address) else { continue };
        if TcpListener::bind(address).is_ok() {
            return (address, held);
        }
    }
}

/// Numbers of the processes of this machine that were started with exactly these words.
pub(crate) fn processes(words: &[&str]) -> Vec<u32> {
    let wanted: String = words.iter().map(|w| format!("{w}\0")).collect();
    let all = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let numbers = all.filter_map(|e| e.file_name().to_str()?.parse::<u32>().ok());
    let so = |pid: &u32| {
        std::fs::read(format!("/proc/{pid}/cmdline")).is_ok_and(|c| c == wanted.as_bytes())
    };
    let mut found: Vec<u32> = numbers.filter(so).collect();
    found.sort_unstable();
    found
}

/// Waits until something is so; the bound only keeps a broken test from hanging.
///
/// Most looks start a `muster`. What takes long is looked at less often, so that a test that waits
/// leaves the processors to others.
#[track_caller]
pub(crate) fn until(what: &str, mut so: impl FnMut() -> bool) {
    let (often, seldom) = (Duration::from_millis(50), Duration::from_millis(200));
    let start = Instant::now();
    while !so() {
        let waited = start.elapsed();
        assert!(waited < PATIENCE, "never happened: {what}");
        std::thread::sleep((waited / 10).clamp(often, seldom));
    }
}
