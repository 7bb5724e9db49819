//! The processes under test: a server, and beside it hosts of agents. Nothing of them outlives
//! the test, however it ends.

use super::api::Api;
use super::clock::WallClock;
use super::rng::Rng;
use muster_store::StoreUrl;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use serde_json::{Value, json};
use std::fs::OpenOptions;
use std::io::Write;
use std::net::{SocketAddr, TcpListener, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Simulated nodes of the first host, with eight GPUs each.
const NODES: u32 = 6;
/// Simulated nodes of each other host: those are stopped while the first one goes on.
const OTHER_NODES: u32 = 2;

/// Every process of a test carries its directory in this variable, ranks included.
const MARK: &str = "MUSTER_CRASH_DIR";

/// A process that is killed when it is dropped.
#[derive(Debug)]
pub(crate) struct Process {
    child: Child,
}

impl Process {
    /// Starts it in a process group of its own, with its output at the end of `log`.
    ///
    /// Call it from a thread that lives as long as the process shall: a fleet ends with the
    /// thread that started it.
    pub(crate) fn start(mut command: Command, log: &Path) -> Process {
        let log = OpenOptions::new().create(true).append(true).open(log).expect("a log file");
        let child = command
            .process_group(0)
            .stdout(log.try_clone().expect("a second handle"))
            .stderr(log)
            .spawn()
            .expect("the muster binary starts");
        Process { child }
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Stops it in its tracks, or lets it go on.
    pub(crate) fn signal(&self, signal: Signal) {
        let _ = kill_process(Pid::from_child(&self.child), signal);
    }

    /// Whether it has ended by itself.
    pub(crate) fn ended(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_some())
    }

    /// Kills it and waits for its end.
    pub(crate) fn kill(&mut self) {
        if !self.ended() {
            let _ = kill_process_group(Pid::from_child(&self.child), Signal::KILL);
            let _ = self.child.kill();
        }
        let _ = self.child.wait();
    }

    /// Asks it to end, and waits.
    pub(crate) fn stop(&mut self, longest: Duration) -> bool {
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        let start = Instant::now();
        while start.elapsed() < longest {
            if self.ended() {
                return true;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        false
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill();
    }
}

/// One test's directory, addresses and processes.
#[derive(Debug)]
pub(crate) struct Site {
    pub(crate) store: StoreUrl,
    pub(crate) listen: SocketAddr,
    link: SocketAddr,
    pub(crate) server: Option<Process>,
    /// Hosts of agents.
    pub(crate) hosts: Vec<Option<Process>>,
    /// What the server takes for the machine's clock, where that can be set.
    pub(crate) clock: Option<WallClock>,
    /// Nodes are missed after seconds, not after half a minute.
    pub(crate) lost_soon: bool,
    dir: tempfile::TempDir,
    /// Its addresses, while no server listens there too.
    _held: [UdpSocket; 2],
}

impl Site {
    pub(crate) fn new(store: Option<StoreUrl>, others: usize, rng: &mut Rng) -> Site {
        let dir = tempfile::Builder::new().prefix("muster-crash-").tempdir().expect("a directory");
        // Ranks are not who runs the tests, and write here.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o777);
        std::fs::set_permissions(dir.path(), mode).expect("the test's own");
        let store = store.unwrap_or_else(|| StoreUrl::Sqlite(dir.path().join("data/muster.db")));
        let ((listen, one), (link, two)) = (free_address(rng), free_address(rng));
        Site {
            store,
            listen,
            link,
            server: None,
            hosts: std::iter::repeat_with(|| None).take(1 + others).collect(),
            clock: WallClock::new(dir.path()),
            lost_soon: false,
            dir,
            _held: [one, two],
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// What the ranks write down.
    pub(crate) fn rank_file(&self) -> PathBuf {
        self.path("ranks")
    }

    fn command(&self) -> Command {
        let mut command = Command::new(crate::muster_binary());
        for name in ["MUSTER_FAILPOINT", "MUSTER_SERVER", "MUSTER_TOKEN", "MUSTER_STORE"] {
            command.env_remove(name);
        }
        command.env(MARK, self.dir.path()).env("NO_COLOR", "1").stdin(Stdio::null());
        command
    }

    /// Starts the server, to die at a failpoint if one is named. It may not serve yet.
    pub(crate) fn start_server(&mut self, failpoint: Option<&str>) {
        let store = match &self.store {
            StoreUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
            // Shown without its password, so not by its own Display.
            StoreUrl::Postgres(url) => url.clone(),
        };
        let mut command = self.command();
        command
            .args(["server", "--listen", &self.listen.to_string()])
            .args(["--link-listen", &self.link.to_string()])
            .arg("--data-dir")
            .arg(self.path("data"))
            .args(["--store", &store])
            // So that snapshots happen between two kills.
            .env("MUSTER_SNAPSHOT_EVERY", "40");
        if self.lost_soon {
            command.env("MUSTER_LOST_AFTER", "5s").env("MUSTER_HEARTBEAT", "1s");
        }
        if let Some(clock) = &self.clock {
            clock.show(&mut command);
        }
        if let Some(point) = failpoint {
            command.env("MUSTER_FAILPOINT", point);
        }
        let log = self.path("server.log");
        let mut file = OpenOptions::new().create(true).append(true).open(&log).expect("a log file");
        let _ = writeln!(file, "--- start, failpoint {failpoint:?}");
        self.server = Some(Process::start(command, &log));
    }

    /// Waits until the server serves. `false` when it ended before.
    pub(crate) async fn serves(&mut self) -> Result<bool, String> {
        let start = Instant::now();
        muster_link::tls::install();
        let http = reqwest::Client::builder()
            .timeout(Duration::from_secs(2))
            .tls_certs_only([])
            .build()
            .expect("a client without TLS needs nothing");
        while start.elapsed() < Duration::from_secs(300) {
            if self.server.as_mut().is_none_or(Process::ended) {
                return Ok(false);
            }
            let answer = http.get(format!("http://{}/readyz", self.listen)).send().await;
            if answer.is_ok_and(|a| a.status().is_success()) {
                return Ok(true);
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        Err("the server did not serve within five minutes".into())
    }

    /// Does without a clock that can be set when the server does not go by it.
    pub(crate) fn check_clock(&mut self) {
        let Some(pid) = self.server.as_ref().map(Process::pid) else { return };
        if self.clock.as_ref().is_none_or(|c| c.shown_to(pid)) {
            return;
        }
        // Anything else would leave the steps of the clock out for ever, and nobody would see it.
        let is_static = muster_testkit::is_static(&crate::muster_binary());
        assert!(is_static, "the server does not go by the clock that it is shown");
        let why = "the muster binary is linked statically: its clock cannot be set";
        let _ = muster_testkit::machine(false, why);
        self.clock = None;
    }

    /// Sets the clock that the server sees, where that is possible.
    pub(crate) fn set_clock(&mut self, ahead: i64) {
        if let Some(clock) = &mut self.clock {
            clock.set(ahead);
        }
    }

    /// A client with the administrator's token; the server must have served once.
    pub(crate) fn api(&self) -> Result<Api, String> {
        let file = self.path("data/admin.token");
        let token = std::fs::read_to_string(&file)
            .map_err(|e| format!("no administrator's token in {}: {e}", file.display()))?;
        Ok(Api::new(&format!("http://{}", self.listen), token.trim()))
    }

    /// Names of the nodes of a host.
    pub(crate) fn nodes_of(&self, host: usize) -> Vec<String> {
        let port = self.link.port();
        match host {
            0 => (1..=NODES).map(|n| format!("n{port}-{n}")).collect(),
            _ => (1..=OTHER_NODES).map(|n| format!("n{port}-{host}-{n}")).collect(),
        }
    }

    /// How many nodes the hosts have that were started.
    pub(crate) fn nodes(&self) -> usize {
        let started = self.hosts.iter().enumerate().filter(|(_, process)| process.is_some());
        started.map(|(host, _)| self.nodes_of(host).len()).sum()
    }

    /// Starts a host of agents, with a join token that is only needed the first time.
    pub(crate) fn start_host(&mut self, host: usize, join: &str) {
        let settings: Value = json!({
            "parent": std::process::id(),
            "link": self.link,
            "join": join,
            "names": self.nodes_of(host),
            "light": false,
            "gpus_per_node": 8,
            "sku": "h100-sxm",
            "seed": 1 + host,
            "speed": 1.0,
            "local_node": false,
            "data_dir": self.path(&format!("fleet{host}")),
        });
        let mut command = self.command();
        command.arg("__fleet").stdin(Stdio::piped());
        let mut fleet = Process::start(command, &self.path("fleet.log"));
        // Its stdin stays open: when it closes, the fleet ends.
        let stdin = fleet.child.stdin.as_mut().expect("it was asked for");
        writeln!(stdin, "{settings}").expect("the fleet reads its settings");
        self.hosts[host] = Some(fleet);
    }

    /// Kills a host of agents; its ranks are in process groups of their own.
    pub(crate) fn kill_host(&mut self, host: usize) {
        if let Some(mut fleet) = self.hosts[host].take() {
            fleet.kill();
        }
    }

    /// `muster store check` on the store at rest.
    pub(crate) fn check_store(&self) -> Result<(), String> {
        let store = match &self.store {
            StoreUrl::Sqlite(path) => format!("sqlite:{}", path.display()),
            StoreUrl::Postgres(url) => url.clone(),
        };
        let out = self
            .command()
            .args(["store", "check", "--store", &store, "-o", "json"])
            .output()
            .map_err(|e| e.to_string())?;
        let said: Value = serde_json::from_slice(&out.stdout).unwrap_or_default();
        if out.status.success() && said["ok"] == true {
            return Ok(());
        }
        let err = String::from_utf8_lossy(&out.stderr);
        Err(format!("`muster store check` ended with {}: {said} {err}", out.status))
    }

    /// The ends of the logs, for a failure's message.
    pub(crate) fn last_words(&self) -> String {
        let mut text = String::new();
        for name in ["server.log", "fleet.log"] {
            let all = std::fs::read(self.path(name)).unwrap_or_default();
            let all = String::from_utf8_lossy(&all);
            let lines: Vec<&str> = all.lines().collect();
            let last = &lines[lines.len().saturating_sub(30)..];
            text.push_str(&format!("\n=== end of {name}\n{}\n", last.join("\n")));
        }
        text
    }
}

impl Drop for Site {
    fn drop(&mut self) {
        drop(self.server.take());
        self.hosts.clear();
        end_marked(self.dir.path());
        if std::env::var_os("MUSTER_CRASH_KEEP").is_some() {
            eprintln!("kept: {}", self.dir.path().display());
            self.dir.disable_cleanup(true);
        }
    }
}

/// Kills whatever carries the test's directory in its environment, supervisors and ranks too.
fn end_marked(dir: &Path) {
    let mark = dir.as_os_str().as_encoded_bytes();
    let own = std::process::id();
    // Twice nothing: a supervisor may just have started a rank.
    let mut quiet = 0;
    for _ in 0..100 {
        let mut found = false;
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let pid = entry.file_name().to_str().and_then(|n| n.parse::<i32>().ok());
            let Some(pid) = pid.filter(|p| p.unsigned_abs() != own) else { continue };
            let holds = ["environ", "cmdline"].iter().any(|f| {
                std::fs::read(entry.path().join(f))
                    .is_ok_and(|bytes| bytes.windows(mark.len()).any(|w| w == mark))
            });
            if let Some(pid) = Pid::from_raw(pid).filter(|_| holds) {
                let _ = kill_process(pid, Signal::KILL);
                found = true;
            }
        }
        quiet = if found { 0 } else { quiet + 1 };
        if quiet == 2 {
            return;
        }
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// An address that nobody uses, and what keeps other such tests from it while the server is away.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it, and out of the
/// range from which the clusters of other tests take theirs: what looks free to them may only be
/// between two servers. Among tests like this one, whoever has the port of the same number for
/// datagrams has it, across processes, until it ends.
fn free_address(rng: &mut Rng) -> (SocketAddr, UdpSocket) {
    // Several tests run at once, perhaps with the same seed.
    let mut mixed = rng.fork(u64::from(std::process::id()));
    rng.next();
    loop {
        let port = u16::try_from(mixed.between(8_000, 9_999)).expect("in range");
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let Ok(held) = UdpSocket::bind(address) else { continue };
        if TcpListener::bind(address).is_ok() {
            return (address, held);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Rng, free_address};

    #[test]
    fn two_tests_with_one_seed_never_get_the_same_address() {
        let (one, two) = (free_address(&mut Rng::new(3)), free_address(&mut Rng::new(3)));
        assert_ne!(one.0, two.0);
    }
}
