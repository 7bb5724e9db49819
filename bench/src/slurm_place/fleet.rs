//! A server with thousands of simulated nodes that stand where a file says.

use super::{LEAF, LEAVES_OF_SPINE};
use crate::Options;
use crate::agents;
use crate::http::{Client, Target};
use crate::load::runtime;
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hyper::Method;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use xtask::proc::{Daemon, TempDir};
use xtask::site::Site;

/// Clients of the API at once.
const CLIENTS: usize = 64;

/// The server and its nodes; stopped in the order of the fields.
pub(super) struct Fleet {
    nodes: Daemon,
    site: Site,
    _topology: TempDir,
}

/// A tree like the peer's: leaves of 32 nodes, spines of 8 leaves.
pub(super) fn tree(nodes: u32) -> String {
    let mut text = String::from("region:\n- name: r\n  cluster:\n  - name: c\n    spine:\n");
    for leaf in 0..nodes.div_ceil(LEAF) {
        if leaf % LEAVES_OF_SPINE == 0 {
            let _ = writeln!(text, "    - name: s{}\n      leaf:", leaf / LEAVES_OF_SPINE + 1);
        }
        let (first, last) = (leaf * LEAF + 1, ((leaf + 1) * LEAF).min(nodes));
        let _ = writeln!(
            text,
            "      - {{name: l{}, nodes: \"sim-[{first:05}-{last:05}]\"}}",
            leaf + 1
        );
    }
    text
}

/// One block of racks of 64 nodes.
pub(super) fn racks(racks: u32) -> String {
    let mut text =
        String::from("region:\n- name: r\n  cluster:\n  - name: c\n    leaf:\n    - name: block\n");
    text.push_str("      rack:\n");
    for rack in 0..racks {
        let (first, last) = (rack * 64 + 1, (rack + 1) * 64);
        let _ = writeln!(
            text,
            "      - {{name: r{}, nodes: \"sim-[{first:05}-{last:05}]\"}}",
            rack + 1
        );
    }
    text
}

impl Fleet {
    /// Starts both and waits until every node takes work.
    pub(super) fn start(options: &Options, nodes: u32, topology: &str) -> Result<Fleet> {
        agents::raise_file_limit(u64::from(nodes) + 1000)?;
        let dir = TempDir::in_dir(&options.scratch(), "topology")?;
        let file = dir.path().join("site.yaml");
        fs::write(&file, topology)?;
        let file = file.to_str().context("the scratch directory has an odd name")?;
        let mut site = agents::start_server(options, &["--topology", file])?;
        let mut nodes_process = agents::start_fleet(options, &site, nodes)?;
        let until = Instant::now() + Duration::from_secs(300);
        while figure(&site, "muster_nodes{state=\"ready\"}")? < u64::from(nodes) {
            site.must_be_running()?;
            nodes_process.must_be_running()?;
            ensure!(Instant::now() < until, "the nodes did not join within five minutes");
            std::thread::sleep(Duration::from_millis(200));
        }
        // Joining leaves work behind: inventories, first telemetry, a snapshot.
        std::thread::sleep(Duration::from_secs(if options.quick { 3 } else { 10 }));
        Ok(Fleet { nodes: nodes_process, site, _topology: dir })
    }

    /// Where its API is.
    pub(super) fn target(&self) -> Result<Target> {
        target(&self.site)
    }

    /// Fails with their last words when the server or the nodes have ended.
    pub(super) fn must_be_running(&mut self) -> Result<()> {
        self.site.must_be_running()?;
        self.nodes.must_be_running()
    }

    /// The server's process id.
    pub(super) fn server_pid(&self) -> Result<i32> {
        self.site.pid().context("the server is not running")
    }

    /// The process id of the nodes.
    pub(super) fn nodes_pid(&self) -> i32 {
        self.nodes.pid().as_raw_nonzero().get()
    }
}

fn target(site: &Site) -> Result<Target> {
    Target::new(site.port(), &[("Authorization", &format!("Bearer {}", site.token()))])
}

fn figure(site: &Site, name: &str) -> Result<u64> {
    let target = target(site)?;
    runtime()?.block_on(async move { server_metrics(&mut Client::new(target)).await?.get(name) })
}

/// The server's own figures.
pub(super) struct ServerMetrics(String);

impl ServerMetrics {
    /// The figure of this name and these labels.
    pub(super) fn get(&self, name: &str) -> Result<u64> {
        let line = self.0.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' '));
        line.and_then(|l| l.trim().parse().ok()).with_context(|| format!("/metrics has no {name}"))
    }

    /// Jobs in one state.
    pub(super) fn jobs(&self, state: &str) -> Result<u64> {
        self.get(&format!("muster_jobs{{state=\"{state}\"}}"))
    }
}

/// Reads them: what is durable, and cheap beside what is measured.
pub(super) async fn server_metrics(client: &mut Client) -> Result<ServerMetrics> {
    let (status, body) = client.call(&Method::GET, "/metrics", Bytes::new()).await?;
    ensure!(status == 200, "GET /metrics: {status}");
    Ok(ServerMetrics(String::from_utf8_lossy(&body).into_owned()))
}

/// POSTs and reads the answer.
pub(super) async fn post(client: &mut Client, path: &str, body: Bytes) -> Result<Value> {
    let (status, answer) = client.call(&Method::POST, path, body).await?;
    if status >= 300 {
        bail!("POST {path}: {status} {}", String::from_utf8_lossy(&answer));
    }
    serde_json::from_slice(&answer).with_context(|| format!("POST {path}: not JSON"))
}

/// The part of the answer to a submission that is needed.
#[derive(Deserialize)]
struct Made {
    number: u64,
}

/// Submits these specs in their order from many clients at once; says when each job was sent.
pub(super) async fn submit_all(
    target: &Target,
    specs: Vec<Bytes>,
) -> Result<BTreeMap<u64, Timestamp>> {
    let specs = Arc::new(specs);
    let next = Arc::new(AtomicUsize::new(0));
    let clients = (0..CLIENTS).map(|_| {
        let (target, specs, next) = (target.clone(), specs.clone(), next.clone());
        tokio::spawn(async move {
            let mut client = Client::new(target);
            let mut sent = Vec::new();
            while let Some(spec) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                let at = Timestamp::now();
                let (status, body) = client.call(&Method::POST, "/v1/jobs", spec.clone()).await?;
                ensure!(
                    status == 201,
                    "a job was refused: {status} {}",
                    String::from_utf8_lossy(&body)
                );
                sent.push((serde_json::from_slice::<Made>(&body)?.number, at));
            }
            Ok(sent)
        })
    });
    let mut sent = BTreeMap::new();
    for client in clients.collect::<Vec<_>>() {
        sent.extend(client.await.context("a client panicked")??);
    }
    Ok(sent)
}

/// Every event of these kinds, oldest first.
pub(super) async fn events(client: &mut Client, kinds: &[&str]) -> Result<Vec<Value>> {
    let mut found = Vec::new();
    let mut after = String::from("0");
    loop {
        let path = format!("/v1/events?after={after}&limit=1000");
        let (status, body) = client.call(&Method::GET, &path, Bytes::new()).await?;
        ensure!(status == 200, "GET {path}: {status}");
        let mut page: Value = serde_json::from_slice(&body)?;
        let cursor = page["cursor"].as_str().map(ToString::to_string);
        if let Some(items) = page["items"].as_array_mut() {
            let wanted = |e: &Value| e["kind"].as_str().is_some_and(|k| kinds.contains(&k));
            found.extend(items.drain(..).filter(wanted));
        }
        match cursor {
            Some(next) => after = next,
            None => return Ok(found),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tree_names_every_node_once() {
        let text = tree(1024);
        assert_eq!(text.matches("- {name: l").count(), 32);
        assert_eq!(text.matches("- name: s").count(), 4);
        assert!(text.contains("sim-[00993-01024]"));
        assert_eq!(racks(10).matches("- {name: r").count(), 10);
    }

    #[test]
    fn a_figure_is_read_with_its_labels() {
        let f = ServerMetrics(
            "muster_jobs{state=\"queued\"} 7\nmuster_jobs{state=\"failed\"} 0\n".into(),
        );
        assert_eq!(f.jobs("queued").unwrap(), 7);
        assert!(f.jobs("odd").is_err());
    }
}
