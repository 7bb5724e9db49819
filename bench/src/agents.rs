//! Many connected nodes: what they cost the server, what the API feels of it, and how fast they
//! are back after the server was killed. The nodes' own processes are not counted.

use crate::Options;
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::report::Report;
use crate::stats::{Meter, memory_mib, ms, percentile};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use hyper::Method;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::proc::Daemon;
use xtask::site::Site;

const HEARTBEAT: &str = "10s";
const TELEMETRY: &str = "10s";

/// The server alone, without nodes of its own.
pub(crate) fn start_server(options: &Options, flags: &[&str]) -> Result<Site> {
    // Metrics are read to measure: each page is made anew.
    let pace = [
        ("MUSTER_HEARTBEAT", HEARTBEAT),
        ("MUSTER_TELEMETRY", TELEMETRY),
        ("MUSTER_METRICS_EVERY", "0s"),
    ];
    let args: Vec<&str> = ["server"].iter().chain(flags).copied().collect();
    Site::start(&options.muster(), &options.scratch(), &args, &pace)
}

/// The simulated nodes: light ones, in their own process, over mutual TLS. The one place that
/// knows how the hidden command is called: it reads its settings as one line of JSON, ends when
/// its input does, and insists on being the child of the thread that it names.
pub(crate) fn start_fleet(options: &Options, site: &Site, nodes: u32) -> Result<Daemon> {
    let join = xtask::proc::check(
        site.cli().args(["token", "create", "bench", "--join", "--ttl", "2h", "-o", "json"]),
    )?;
    let join: Value = serde_json::from_str(&join).context("the join token cannot be read")?;
    let names: Vec<String> = (1..=nodes).map(|n| format!("sim-{n:05}")).collect();
    let settings = json!({
        "parent": std::process::id(),
        "link": format!("127.0.0.1:{}", site.link_port()),
        "join": join["secret"].as_str().context("the answer has no join token")?,
        "names": names,
        "gpus_per_node": 8,
        "sku": "h100-sxm",
        "seed": 1,
        "speed": 1.0,
        "local_node": false,
        "light": true,
        "data_dir": site.scratch().join("fleet"),
    });
    let mut command = Command::new(options.muster());
    command.arg("__fleet").current_dir(site.scratch());
    let log = site.scratch().join("fleet.log");
    Daemon::spawn_with_input("the fleet", command, &log, &format!("{settings}\n"))
}

pub(crate) fn run(options: &Options) -> Result<Report> {
    let nodes = options.nodes.unwrap_or(if options.quick { 1000 } else { 10_000 });
    let steady = Duration::from_secs(if options.quick { 20 } else { 60 });
    raise_file_limit(u64::from(nodes) + 1000)?;
    let mut report = Report::new("agents");
    let mut site = start_server(options, &[])?;
    let mut fleet = start_fleet(options, &site, nodes)?;

    let began = Instant::now();
    wait_connected(&site, &mut fleet, nodes, Duration::from_secs(600))?;
    eprintln!("{nodes} agents connected after {:.1} s", began.elapsed().as_secs_f64());
    // Joining is over when heartbeats and telemetry have settled into their rhythm.
    std::thread::sleep(Duration::from_secs(if options.quick { 10 } else { 20 }));

    let pid = site.pid().context("the server is not running")?;
    let meter = Meter::start(pid)?;
    let mut latencies = probe(&site, steady)?;
    let cores = meter.cores()?;
    let (rss, highest) = memory_mib(pid)?;
    fleet.must_be_running()?;
    let connected = connected(&site)?;
    ensure!(connected == u64::from(nodes), "only {connected} of {nodes} agents stayed connected");
    report.ours("agents", "agents", connected as f64);
    report.ours("server_cpu_cores", "cores", cores);
    report.ours("server_rss_mib", "MiB", rss.max(highest));
    let p50 = percentile(&mut latencies, 50.0).context("no request was made")?;
    let p99 = percentile(&mut latencies, 99.0).context("no request was made")?;
    report.ours("api_p50_ms", "ms", p50);
    report.ours("api_p99_ms", "ms", p99);

    site.kill_9()?;
    let began = Instant::now();
    site.start_again()?;
    let serves = began.elapsed();
    wait_connected(&site, &mut fleet, nodes, Duration::from_secs(600))?;
    report.ours("restart_s", "s", serves.as_secs_f64());
    report.ours("rejoin_s", "s", began.elapsed().as_secs_f64());
    report.note(format!(
        "{nodes} simulated agents over mutual TLS, heartbeat {HEARTBEAT}, telemetry {TELEMETRY} (8 \
         GPUs, 20 metrics each); server process only, over {} s.",
        steady.as_secs()
    ));
    Ok(report)
}

/// Each connection is an open file, on both ends.
pub(crate) fn raise_file_limit(wanted: u64) -> Result<()> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|n| n >= wanted) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|m| m.max(wanted));
    let raised = Rlimit { current: Some(wanted), maximum };
    setrlimit(Resource::Nofile, raised)
        .with_context(|| format!("{wanted} open files are needed, the limit is {limit:?}"))
}

fn target(site: &Site) -> Result<Target> {
    Target::new(site.port(), &[("Authorization", &format!("Bearer {}", site.token()))])
}

/// Agents that are connected now, as the server's own figures say.
pub(crate) fn connected(site: &Site) -> Result<u64> {
    let target = target(site)?;
    runtime()?.block_on(async move {
        let mut client = Client::new(target);
        let (status, body) = client.call(&Method::GET, "/metrics", Bytes::new()).await?;
        ensure!(status == 200, "GET /metrics: {status}");
        figure(&String::from_utf8_lossy(&body), "muster_agents_connected")
            .context("/metrics has no muster_agents_connected")
    })
}

/// A figure without labels.
fn figure(metrics: &str, name: &str) -> Option<u64> {
    metrics.lines().find_map(|l| l.strip_prefix(name)?.strip_prefix(' ')?.trim().parse().ok())
}

pub(crate) fn wait_connected(
    site: &Site,
    fleet: &mut Daemon,
    nodes: u32,
    within: Duration,
) -> Result<()> {
    let until = Instant::now() + within;
    loop {
        fleet.must_be_running()?;
        let now = connected(site)?;
        if now >= u64::from(nodes) {
            return Ok(());
        }
        if Instant::now() > until {
            bail!("{now} of {nodes} agents connected within {within:?}");
        }
        std::thread::sleep(Duration::from_millis(200));
    }
}

/// A modest mix of requests, each on time whether or not the last was slow; milliseconds each.
fn probe(site: &Site, length: Duration) -> Result<Vec<f64>> {
    const PER_SECOND: u32 = 20;
    let target = target(site)?;
    runtime()?.block_on(async move {
        let mut client = Client::new(target.clone());
        let (_, body) = client.call(&Method::GET, "/v1/nodes?limit=1000", Bytes::new()).await?;
        let nodes: Value = serde_json::from_slice(&body)?;
        let names: Vec<String> = nodes["items"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|n| Some(n["name"].as_str()?.to_string()))
            .collect();
        ensure!(!names.is_empty(), "the server shows no nodes");
        let spec = json!({"kind": "Job", "name": "probe", "hold": true, "run": {"script": "true"}});
        let mut every = tokio::time::interval(Duration::from_secs(1) / PER_SECOND);
        let until = Instant::now() + length;
        let mut tasks = Vec::new();
        for i in 0.. {
            every.tick().await;
            if Instant::now() > until {
                break;
            }
            let (method, path, body) = match i % 3 {
                0 => (Method::GET, "/v1/jobs?limit=50".to_string(), Bytes::new()),
                1 => (Method::GET, format!("/v1/nodes/{}", names[i % names.len()]), Bytes::new()),
                _ => (Method::POST, "/v1/jobs".to_string(), Bytes::from(spec.to_string())),
            };
            let mut client = Client::new(target.clone());
            tasks.push(tokio::spawn(async move {
                let sent = Instant::now();
                let (status, _) = client.call(&method, &path, body).await?;
                ensure!(status < 300, "{method} {path}: {status}");
                Ok(ms(sent.elapsed()))
            }));
        }
        let mut samples = Vec::new();
        for task in tasks {
            samples.push(task.await.context("a request panicked")??);
        }
        Ok(samples)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_figure_is_read_by_its_whole_name() {
        let text = "# TYPE muster_agents_connected gauge\nmuster_agents_connected_total 9\n\
                    muster_agents_connected 42\n";
        assert_eq!(figure(text, "muster_agents_connected"), Some(42));
        assert_eq!(figure(text, "muster_agents"), None);
    }
}
