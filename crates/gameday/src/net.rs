//! The drill for slow links: real agents, each in a network namespace of its own, joined by a
//! bridge; the link of one of them is made slow. It takes root, `ip` and `tc`.

use super::result::{DrillObservation, Outcome};
use super::scene::{Expect, ExpectedJobOutcome, ExpectedRemediation};
use super::site::Site;
use muster_terminal::ctx::now;
use muster_terminal::fail::Fail;
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::{Duration, Instant};
use tokio::process::{Child, Command};

const NODES: usize = 5;
/// The node whose link becomes slow.
const SLOW: &str = "n4";
const SERVER: &str = "10.213.79.1";
/// What a sound link carries, and a slow one.
const RATES: [&str; 2] = ["100mbit", "25mbit"];
const PATIENCE: Duration = Duration::from_secs(60);

struct Net {
    id: String,
    dir: PathBuf,
    children: Vec<Child>,
    token: String,
}

async fn must(words: &[&str]) -> Result<(), Fail> {
    let cannot = |e: String| Fail::failed(format!("`{}`: {e}", words.join(" ")));
    let (program, args) = words.split_first().ok_or_else(|| Fail::failed("no program"))?;
    let out = Command::new(program).args(args).stdin(Stdio::null()).output().await;
    let out = out.map_err(|e| cannot(e.to_string()))?;
    if out.status.success() {
        return Ok(());
    }
    Err(cannot(String::from_utf8_lossy(&out.stderr).trim().to_owned())
        .hint("this drill takes root, ip netns, veth and tc tbf"))
}

/// Plays it in this directory.
pub(super) async fn link_slow(dir: &Path, name: &str) -> Result<Outcome, Fail> {
    let id = format!("mg{}", std::process::id());
    let mut net = Net { id, dir: dir.to_owned(), children: Vec::new(), token: String::new() };
    let outcome = net.play(name).await;
    net.end().await;
    outcome
}

impl Net {
    fn space(&self, name: &str) -> String {
        format!("{}-{name}", self.id)
    }

    async fn play(&mut self, name: &str) -> Result<Outcome, Fail> {
        self.lay().await?;
        self.start().await?;
        let before = self.test(&["--rounds", "all", "--seconds", "1"]).await?;
        let good = |n: &&Value| n["health"] == "good";
        let well = before["nodes"].as_array().map_or(0, |n| n.iter().filter(good).count());
        if well != NODES {
            return Err(Fail::failed(format!("{well} of {NODES} links were healthy at the start")));
        }
        let began = now();
        self.rate(SLOW, RATES[1]).await?;
        self.test(&["--seconds", "2"]).await?;
        let detected = now().since(began).0;
        let mut sight = DrillObservation::default();
        let open = self.json(&["findings", "--kind", "link-slow"]).await?;
        for f in open["items"].as_array().into_iter().flatten() {
            let about = f["entity"].as_str().unwrap_or_default();
            if about == format!("node:{SLOW}") || about.starts_with(&format!("port:{SLOW}/")) {
                sight.detected_ms = Some(detected);
                sight.attributed_to = about.split(':').next().map(str::to_owned);
            } else {
                sight.elsewhere = Some(about.to_owned());
                sight.drained.extend(f["node"].as_str().map(str::to_owned));
            }
        }
        tokio::time::sleep(Duration::from_secs(2)).await;
        let remediations = self.json(&["remediations", "--all"]).await?;
        let own = remediations["items"].as_array().into_iter().flatten();
        for r in own.filter(|r| r["action"] == "drain") {
            sight.remediation = Some(format!("drain: {}", r["state"].as_str().unwrap_or_default()));
            sight.remediated |= r["node"] == SLOW && r["step"] != "proposed";
        }
        let nodes = self.json(&["nodes"]).await?;
        for n in nodes["items"].as_array().into_iter().flatten() {
            if n["state"] != "ready" && n["name"] != SLOW {
                sight.drained.extend(n["name"].as_str().map(str::to_owned));
            }
        }
        let verdict = if sight.attributed_to.as_deref() == Some("port") { "port" } else { "node" };
        let expect = Expect {
            kind: Some("link-slow"),
            about: |_| String::new(),
            verdict,
            remediation: ExpectedRemediation::Reaches(
                muster_model::remediation::Action::Drain,
                muster_model::remediation::RemediationStep::Moving,
            ),
            job: ExpectedJobOutcome::Any,
        };
        Ok(sight.outcome(name, &expect))
    }

    /// A bridge, and a namespace with a link to it for each node.
    async fn lay(&self) -> Result<(), Fail> {
        let hub = self.space("hub");
        must(&["ip", "netns", "add", &hub]).await?;
        must(&["ip", "-n", &hub, "link", "set", "lo", "up"]).await?;
        must(&["ip", "-n", &hub, "link", "add", "br0", "type", "bridge"]).await?;
        must(&["ip", "-n", &hub, "addr", "add", &format!("{SERVER}/24"), "dev", "br0"]).await?;
        must(&["ip", "-n", &hub, "link", "set", "br0", "up"]).await?;
        for i in 1..=NODES {
            let n = format!("n{i}");
            let space = self.space(&n);
            let address = format!("10.213.79.{}/24", i + 9);
            must(&["ip", "netns", "add", &space]).await?;
            let pair = ["link", "add", "eth0", "type", "veth", "peer", "name", &n, "netns", &hub];
            must(&[&["ip", "-n", space.as_str()][..], &pair[..]].concat()).await?;
            must(&["ip", "-n", &hub, "link", "set", &n, "master", "br0", "up"]).await?;
            must(&["ip", "-n", &space, "addr", "add", &address, "dev", "eth0"]).await?;
            must(&["ip", "-n", &space, "link", "set", "lo", "up"]).await?;
            must(&["ip", "-n", &space, "link", "set", "eth0", "up"]).await?;
            self.rate(&n, RATES[0]).await?;
        }
        Ok(())
    }

    /// What a node's link carries, both ways.
    async fn rate(&self, node: &str, rate: &str) -> Result<(), Fail> {
        for (space, device) in [(self.space(node), "eth0"), (self.space("hub"), node)] {
            let inside = ["ip", "netns", "exec", &space, "tc", "qdisc", "replace", "dev", device];
            let shape = ["root", "tbf", "rate", rate, "burst", "64kb", "latency", "50ms"];
            must(&[&inside[..], &shape[..]].concat()).await?;
        }
        Ok(())
    }

    fn command(&self, space: &str) -> Result<Command, Fail> {
        let mut command = Command::new("ip");
        command
            .args(["netns", "exec", &self.space(space)])
            .arg(Site::program()?)
            .env("HOME", &self.dir)
            .env("MUSTER_SERVER", format!("http://{SERVER}:7070"))
            .env("MUSTER_TOKEN", &self.token)
            .env("MUSTER_HEARTBEAT", "1s")
            .env("MUSTER_LOST_AFTER", "5s")
            .env_remove("XDG_CONFIG_HOME")
            .env_remove("XDG_DATA_HOME")
            .env_remove("MUSTER_LOG")
            .stdin(Stdio::null())
            .kill_on_drop(true);
        Ok(command)
    }

    async fn start(&mut self) -> Result<(), Fail> {
        let cannot = |e: std::io::Error| Fail::failed(format!("cannot start: {e}"));
        let log = std::fs::File::create(self.dir.join("net.log")).map_err(cannot)?;
        let again = || log.try_clone().map_err(cannot);
        let data = self.dir.join("server");
        let mut server = self.command("hub")?;
        server
            .args(["server", "--listen", &format!("{SERVER}:7070")])
            .args(["--link-listen", &format!("{SERVER}:7071"), "--data-dir"])
            .arg(&data);
        self.children.push(server.stdout(again()?).stderr(again()?).spawn().map_err(cannot)?);
        let started = Instant::now();
        loop {
            let token = std::fs::read_to_string(data.join("admin.token")).unwrap_or_default();
            token.trim().clone_into(&mut self.token);
            if !self.token.is_empty() && self.json(&["whoami"]).await.is_ok() {
                break;
            }
            patient(started, "the server")?;
        }
        let join = self.json(&["token", "create", "--join", "drill"]).await?;
        let join = join["secret"].as_str().unwrap_or_default().to_owned();
        for i in 1..=NODES {
            let n = format!("n{i}");
            let mut agent = self.command(&n)?;
            agent
                .args(["agent", "--link", &format!("{SERVER}:7071"), "--join", &join])
                .args(["--name", &n, "--exporter", "off", "--data-dir"])
                .arg(self.dir.join(&n));
            self.children.push(agent.stdout(again()?).stderr(again()?).spawn().map_err(cannot)?);
        }
        loop {
            let all = self.json(&["nodes"]).await?;
            let ready = |n: &&Value| n["state"] == "ready" && n["agent"].is_object();
            let n = all["items"].as_array().map_or(0, |i| i.iter().filter(ready).count());
            if n == NODES {
                return Ok(());
            }
            patient(started, "the nodes")?;
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    }

    /// The document that a command prints; a test of the network that found something ends with 1.
    async fn json(&self, args: &[&str]) -> Result<Value, Fail> {
        let mut command = self.command("hub")?;
        let out = command.args(args).args(["-o", "json"]).output().await;
        let out = out.map_err(|e| Fail::failed(e.to_string()))?;
        let said = || String::from_utf8_lossy(&out.stderr).trim().to_owned();
        serde_json::from_slice(&out.stdout)
            .map_err(|_| Fail::failed(format!("`muster {}`: {}", args.join(" "), said())))
    }

    async fn test(&self, more: &[&str]) -> Result<Value, Fail> {
        self.json(&[&["fabric", "test"][..], more].concat()).await
    }

    async fn end(mut self) {
        for child in &mut self.children {
            let _ = child.kill().await;
        }
    }
}

impl Drop for Net {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.start_kill();
        }
        let names = (1..=NODES).map(|i| format!("n{i}")).chain(["hub".to_owned()]);
        for name in names {
            let mut del = std::process::Command::new("ip");
            let _ = del.args(["netns", "del", &self.space(&name)]).stderr(Stdio::null()).status();
        }
    }
}

fn patient(started: Instant, whom: &str) -> Result<(), Fail> {
    if started.elapsed() > PATIENCE {
        return Err(Fail::failed(format!("{whom} did not come up")));
    }
    Ok(())
}
