//! A server and agents, each in a network namespace of its own, joined by a bridge.

use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// What a link carries: little, so that a slow machine has the processors for all of them.
pub(crate) const RATE: &str = "20mbit";
/// What a slow one carries: far less than a busy machine leaves of that.
pub(crate) const SLOW: &str = "5mbit";
/// How each machine sends, the same everywhere: enough in flight that a moment without a
/// processor empties no queue, and too little to overflow one.
const TCP: [(&str, &str); 3] = [
    ("tcp_congestion_control", "reno"),
    ("tcp_wmem", "4096 262144 262144"),
    ("tcp_rmem", "4096 1048576 1048576"),
];
const SERVER: &str = "10.213.77.1";

fn run(words: &[&str]) -> Output {
    let (program, args) = words.split_first().expect("a program");
    Command::new(program).args(args).stdin(Stdio::null()).output().expect("it starts")
}

#[track_caller]
fn must(words: &[&str]) {
    let out = run(words);
    assert!(out.status.success(), "{words:?}: {}", muster_testkit::printed(&out));
}

/// Whether this machine cannot do it; reported loudly.
pub(crate) fn skip() -> bool {
    let there = muster_testkit::program("ip", "iproute2")
        && muster_testkit::program("tc", "iproute2")
        && muster_testkit::program("nft", "nftables");
    if !there {
        return true;
    }
    let probe = format!("mfp{}", std::process::id());
    let ok = |words: &[&str]| {
        let out = Command::new(words[0]).args(&words[1..]).stdin(Stdio::null()).output();
        out.is_ok_and(|o| o.status.success())
    };
    let inside = ["ip", "netns", "exec", &probe];
    let able = ok(&["ip", "netns", "add", &probe])
        && ok(&["ip", "-n", &probe, "link", "add", "one", "type", "veth", "peer", "name", "two"])
        && ok(&[&inside[..], &shaper("one", RATE, "add")].concat())
        && ok(&[&inside[..], &["nft", "add", "table", "inet", "t"]].concat());
    let _ = ok(&["ip", "netns", "del", &probe]);
    !muster_testkit::machine(able, "no root, network namespaces, veth, tc tbf or nft")
}

/// A shaper that is not served for a moment, because the machine's processors do something else or
/// were taken from it, makes up for it out of its bucket. What a moment may be: for a sound link
/// four tenths of a second of its rate, or the machine would be measured in place of the link. A
/// slow one has a small bucket: its speed is its rate or less, and never what it has saved up.
fn shaper<'a>(device: &'a str, rate: &'a str, verb: &'a str) -> [&'a str; 13] {
    let bucket = if rate == RATE { "1mb" } else { "64kb" };
    [
        "tc", "qdisc", verb, "dev", device, "root", "tbf", "rate", rate, "burst", bucket, "limit",
        "2mb",
    ]
}

/// Nothing of it outlives the test.
pub(crate) struct Net {
    id: String,
    dir: tempfile::TempDir,
    nodes: Vec<String>,
    children: RefCell<BTreeMap<String, Child>>,
    token: RefCell<String>,
}

impl Net {
    /// A server and so many agents, all ready.
    pub(crate) fn start(nodes: u32) -> Net {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let id = format!("mf{}x{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let dir = tempfile::Builder::new().prefix("muster-fabric-").tempdir().expect("a directory");
        let net = Net {
            id,
            dir,
            nodes: (1..=nodes).map(|n| format!("n{n}")).collect(),
            children: RefCell::default(),
            token: RefCell::default(),
        };
        net.lay();
        net.serve();
        let join = net.muster(&["token", "create", "--join", "nodes", "-o", "json"]);
        let join: Value = serde_json::from_str(&join).expect("a token");
        let join = join["token"].as_str().or(join["secret"].as_str()).expect("a token").to_owned();
        for n in &net.nodes {
            net.join(n, &join);
        }
        net.until("every node is ready", || {
            let all: Value = serde_json::from_str(&net.muster(&["nodes", "-o", "json"])).ok()?;
            let items = all["items"].as_array()?;
            let ready = items.iter().filter(|n| n["state"] == "ready" && n["agent"].is_object());
            (ready.count() == net.nodes.len()).then_some(())
        });
        net
    }

    fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.id)
    }

    fn lay(&self) {
        let hub = self.space("hub");
        must(&["ip", "netns", "add", &hub]);
        must(&["ip", "-n", &hub, "link", "set", "lo", "up"]);
        must(&["ip", "-n", &hub, "link", "add", "br0", "type", "bridge"]);
        must(&["ip", "-n", &hub, "addr", "add", &format!("{SERVER}/24"), "dev", "br0"]);
        must(&["ip", "-n", &hub, "link", "set", "br0", "up"]);
        for (i, n) in self.nodes.iter().enumerate() {
            let space = self.space(n);
            let address = format!("10.213.77.{}/24", i + 10);
            must(&["ip", "netns", "add", &space]);
            must(&[
                "ip", "-n", &space, "link", "add", "eth0", "type", "veth", "peer", "name", n,
                "netns", &hub,
            ]);
            must(&["ip", "-n", &hub, "link", "set", n, "master", "br0", "up"]);
            must(&["ip", "-n", &space, "addr", "add", &address, "dev", "eth0"]);
            must(&["ip", "-n", &space, "link", "set", "lo", "up"]);
            must(&["ip", "-n", &space, "link", "set", "eth0", "up"]);
            self.rate(n, RATE);
            self.tune(&space);
        }
    }

    /// Where a container may not change these, what its kernel does otherwise is good enough.
    fn tune(&self, space: &str) {
        for (name, value) in TCP {
            let set = format!("echo '{value}' > /proc/sys/net/ipv4/{name}");
            let _ = run(&["ip", "netns", "exec", space, "sh", "-c", &set]);
        }
        // In pieces that are small beside what is counted.
        let _ = run(&["ip", "-n", space, "link", "set", "eth0", "gso_max_size", "16384"]);
    }

    /// What a node's link carries, both ways.
    pub(crate) fn rate(&self, node: &str, rate: &str) {
        for (space, device) in [(self.space(node), "eth0"), (self.space("hub"), node)] {
            let inside = ["ip", "netns", "exec", &space];
            must(&[&inside[..], &shaper(device, rate, "replace")].concat());
        }
    }

    /// A node's link loses so many packets of a hundred, but none of those to and from the server.
    pub(crate) fn lose(&self, node: &str, percent: u32) {
        let rules = format!(
            "table inet loss {{\nchain into {{\ntype filter hook input priority 0\n\
             ip saddr {SERVER} accept\n\
             meta l4proto tcp numgen random mod 100 < {percent} drop\n}}\n}}\n"
        );
        let file = self.dir.path().join("loss.nft");
        std::fs::write(&file, rules).expect("written");
        let file = file.display().to_string();
        must(&["ip", "netns", "exec", &self.space(node), "nft", "-f", &file]);
    }

    fn command(&self, space: &str) -> Command {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.space(space)])
            // Before whatever else the machine does, where that is allowed.
            .args(["nice", "-n", "-19", env!("CARGO_BIN_EXE_muster")])
            .env("HOME", self.dir.path())
            .env("MUSTER_SERVER", format!("http://{SERVER}:7070"))
            .env("MUSTER_TOKEN", &*self.token.borrow())
            .env("MUSTER_HEARTBEAT", "1s")
            .env("MUSTER_LOST_AFTER", "60s")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("MUSTER_LOG")
            .stdin(Stdio::null());
        command
    }

    fn spawn(&self, name: &str, command: &mut Command) {
        let log = std::fs::File::create(self.log(name)).expect("a log");
        command.stdout(log.try_clone().expect("a second handle")).stderr(log);
        let child = command.spawn().expect("it starts");
        self.children.borrow_mut().insert(name.to_owned(), child);
    }

    fn log(&self, name: &str) -> PathBuf {
        self.dir.path().join(format!("{name}.log"))
    }

    fn serve(&self) {
        let data = self.dir.path().join("server");
        let mut command = self.command("hub");
        command
            .args(["server", "--listen", &format!("{SERVER}:7070")])
            .args(["--link-listen", &format!("{SERVER}:7071"), "--data-dir"])
            .arg(&data);
        self.spawn("server", &mut command);
        let token = self.until("the server has a token", || {
            std::fs::read_to_string(data.join("admin.token")).ok().filter(|t| !t.trim().is_empty())
        });
        *self.token.borrow_mut() = token.trim().to_owned();
        self.until("the server answers", || {
            let out = self.command("hub").arg("whoami").output().ok()?;
            out.status.success().then_some(())
        });
    }

    fn join(&self, node: &str, token: &str) {
        let mut command = self.command(node);
        command
            .args(["agent", "--link", &format!("{SERVER}:7071"), "--join", token, "--name", node])
            .args(["--exporter", "off", "--data-dir"])
            .arg(self.dir.path().join(node));
        self.spawn(node, &mut command);
    }

    /// Ends a node's agent, and waits until the server has noticed.
    pub(crate) fn stop(&self, node: &str) {
        if let Some(mut child) = self.children.borrow_mut().remove(node) {
            let _ = child.kill();
            let _ = child.wait();
        }
        self.until("the server misses it", || {
            let n: Value =
                serde_json::from_str(&self.muster(&["get", "node", node, "-o", "json"])).ok()?;
            n["agent"].is_null().then_some(())
        });
    }

    /// A command that succeeds: what it prints.
    #[track_caller]
    pub(crate) fn muster(&self, args: &[&str]) -> String {
        let out = self.command("hub").args(args).output().expect("it starts");
        assert!(out.status.success(), "`muster {}`: {out:?}", args.join(" "));
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// `muster fabric test`: its exit code and what came of it. It is asked again where it says
    /// itself that this machine did too much else to know.
    #[track_caller]
    pub(crate) fn test(&self, args: &[&str]) -> (i32, Value) {
        let busy = |n: &Value| n["why"].to_string().contains("too busy to measure");
        let all = format!("n[1-{}]", self.nodes.len());
        let mut args = args.to_vec();
        for _ in 0..10 {
            let (code, test) = self.test_once(&args);
            if !test["nodes"].as_array().into_iter().flatten().any(busy) {
                return (code, test);
            }
            // By name: whoever was found slow may be out of service by now.
            if !args.contains(&"--nodes") {
                args.extend(["--nodes", &all]);
            }
        }
        panic!("this machine is too busy for any test of the network");
    }

    #[track_caller]
    fn test_once(&self, args: &[&str]) -> (i32, Value) {
        let all = [&["fabric", "test", "-o", "json"], args].concat();
        let out = self.command("hub").args(&all).output().expect("it starts");
        let text = String::from_utf8_lossy(&out.stdout);
        let test: Value =
            serde_json::from_str(&text).unwrap_or_else(|e| panic!("one document ({e}): {out:?}"));
        // For whoever wants to see figures: `--nocapture`.
        eprintln!("{}", self.table(&test));
        (out.status.code().unwrap_or(-1), test)
    }

    fn table(&self, test: &Value) -> String {
        let id = test["id"].as_str().unwrap_or_default();
        let out = self.command("hub").args(["fabric", "show", id]).output().expect("it starts");
        String::from_utf8_lossy(&out.stdout).into_owned()
    }

    /// A file that all nodes see.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Findings of slow links that are open.
    pub(crate) fn findings(&self) -> Vec<Value> {
        let all: Value =
            serde_json::from_str(&self.muster(&["findings", "-o", "json"])).expect("a list");
        let items = all["items"].as_array().cloned().unwrap_or_default();
        let open = |f: &Value| f["kind"] == "link-slow" && f["closed_at"].is_null();
        items.into_iter().filter(open).collect()
    }

    /// Waits until there is something; the bound only keeps a broken test from hanging.
    #[track_caller]
    pub(crate) fn until<T>(&self, what: &str, mut so: impl FnMut() -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            if let Some(found) = so() {
                return found;
            }
            assert!(start.elapsed() < Duration::from_secs(300), "never happened: {what}");
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for (name, mut child) in std::mem::take(&mut *self.children.borrow_mut()) {
            // `ip netns exec` and `nice` become the program, so this is the agent itself.
            let _ = child.kill();
            let _ = child.wait();
            if std::thread::panicking() {
                let log = std::fs::read_to_string(self.log(&name)).unwrap_or_default();
                let lines: Vec<&str> = log.lines().collect();
                let last = &lines[lines.len().saturating_sub(15)..];
                eprintln!("=== end of {name}.log\n{}", last.join("\n"));
            }
        }
        for name in self.nodes.iter().map(String::as_str).chain(["hub"]) {
            let _ = run(&["ip", "netns", "del", &self.space(name)]);
        }
    }
}
