//! A site for the generator's fleet: where nodes stand, the policy, and the work.

use crate::http::{Client, Target};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hyper::Method;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use xtask::proc::Daemon;
use xtask::site::Site;

/// A node and where it stands.
#[derive(Debug, Clone)]
pub(super) struct NodeLocation {
    pub(super) name: String,
    leaf: String,
    rack: String,
    feed: String,
}

/// Leaves of 16 nodes, racks of 4, feeds of 32.
pub(super) fn places(nodes: u32) -> Vec<NodeLocation> {
    (0..nodes)
        .map(|i| NodeLocation {
            name: format!("n{i:05}"),
            leaf: format!("l{:03}", i / 16),
            rack: format!("r{:04}", i / 4),
            feed: format!("f{:03}", i / 32),
        })
        .collect()
}

/// Nodes of each leaf, rack and feed.
pub(super) fn groups(places: &[NodeLocation]) -> BTreeMap<(String, String), Vec<String>> {
    let mut all: BTreeMap<(String, String), Vec<String>> = BTreeMap::new();
    for p in places {
        for (word, name) in [("leaf", &p.leaf), ("rack", &p.rack), ("feed", &p.feed)] {
            all.entry((word.to_string(), name.clone())).or_default().push(p.name.clone());
        }
    }
    all
}

/// Calls the API; what is refused is an error.
pub(super) struct Api(Client);

impl Api {
    pub(super) fn new(site: &Site) -> Result<Api> {
        let auth = format!("Bearer {}", site.token());
        Ok(Api(Client::new(Target::new(site.port(), &[("Authorization", &auth)])?)))
    }

    pub(super) async fn raw(
        &mut self,
        method: Method,
        path: &str,
        body: &Value,
    ) -> Result<(u16, Bytes)> {
        let body = if body.is_null() { Bytes::new() } else { Bytes::from(body.to_string()) };
        self.0.call(&method, path, body).await
    }

    pub(super) async fn call(&mut self, method: Method, path: &str, body: &Value) -> Result<Value> {
        let (status, bytes) = self.raw(method.clone(), path, body).await?;
        if status >= 300 {
            let words: String = String::from_utf8_lossy(&bytes).chars().take(600).collect();
            bail!("{method} {path}: {status} {words}");
        }
        Ok(serde_json::from_slice(&bytes).unwrap_or(Value::Null))
    }
}

/// Reports to the site where the nodes stand.
pub(super) async fn set_topology(api: &mut Api, places: &[NodeLocation]) -> Result<()> {
    let nodes: serde_json::Map<String, Value> = places
        .iter()
        .map(|p| {
            let at = json!({
                "region": "made-up", "cluster": "c1", "spine": "s1", "leaf": p.leaf,
                "rack": p.rack, "nvlink": p.name, "feed": p.feed,
            });
            (p.name.clone(), at)
        })
        .collect();
    api.call(Method::PUT, "/v1/topology", &json!({ "nodes": nodes })).await?;
    Ok(())
}

/// Everything that is found may be acted on at once: the score is about detection.
pub(super) async fn open_limits(api: &mut Api) -> Result<()> {
    let all = json!({"total": 100, "per_hour": 100, "at_least": 1_000_000});
    let modes: serde_json::Map<String, Value> = [
        "watch",
        "restart_job",
        "isolate_gpu",
        "drain",
        "reset_gpu",
        "reboot",
        "power_cycle",
        "replace",
    ]
    .iter()
    .map(|a| (a.to_string(), json!("automatic")))
    .collect();
    let policy = json!({"remediations": {
        "modes": modes,
        "finish_within": "5s",
        "probation": "1s",
        "limits": {
            "fleet": all, "pool": all, "leaf": all, "feed": all,
            "storm_percent": 100, "storm_nodes": 1_000_000, "storm_window": "1s",
        },
    }});
    api.call(Method::PUT, "/v1/policy", &json!({ "policy": policy })).await?;
    Ok(())
}

/// A job that pretends; `n` distinguishes jobs.
pub(super) async fn submit(api: &mut Api, n: u64, nodes: u32, run_s: u64) -> Result<u64> {
    // Small gangs have one rank for each GPU, large ones one for each node.
    let ranks = if nodes <= 3 { 8 } else { 1 };
    let spec = json!({
        "kind": "Job",
        "name": format!("train-{n}"),
        "gang": {"nodes": nodes, "gpus_per_node": 8, "ranks_per_node": ranks},
        "simulate": {"run": format!("{run_s}s")},
        "retries": {"infrastructure": 1000, "application": 0},
    });
    let made = api.call(Method::POST, "/v1/jobs", &spec).await?;
    let id = &made["id"];
    id.as_u64()
        .or_else(|| id.as_str()?.parse().ok())
        .with_context(|| format!("a job without a number: {made}"))
}

/// Where the generator is: built beside this program.
fn generator() -> Result<PathBuf> {
    let own = std::env::current_exe().context("cannot find where this program is")?;
    let path = own.with_file_name("muster-faultgen");
    ensure!(path.is_file(), "{} is not there: build muster-faultgen", path.display());
    Ok(path)
}

/// Starts the generator's fleet with this life.
pub(super) fn start(
    site: &Site,
    places: &[NodeLocation],
    seed: u64,
    life: &Value,
    log: &Path,
) -> Result<Daemon> {
    let join = xtask::proc::check(
        site.cli().args(["token", "create", "bench", "--join", "--ttl", "4h", "-o", "json"]),
    )?;
    let join: Value = serde_json::from_str(&join).context("the join token cannot be read")?;
    let nodes: Vec<Value> = places
        .iter()
        .map(|p| json!({"name": p.name, "leaf": p.leaf, "rack": p.rack, "feed": p.feed}))
        .collect();
    let settings = json!({
        "link": format!("127.0.0.1:{}", site.link_port()),
        "join": join["secret"].as_str().context("the answer has no join token")?,
        "seed": seed,
        "nodes": nodes,
        "life": life,
    });
    let mut command = Command::new(generator()?);
    command.current_dir(site.scratch());
    Daemon::spawn_with_input("the generator", command, log, &format!("{settings}\n"))
}
