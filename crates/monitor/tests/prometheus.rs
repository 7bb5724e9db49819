//! A real Prometheus scrapes the page, and the queries of dashboards made for dcgm-exporter find
//! what they look for.

use muster_gpu::dcgm;
use muster_health::faults::{Catalogue, Context};
use muster_monitor::exporter::{Exporter, JobLabels, PageConfig};
use muster_monitor::kmsg::KernelLog;
use muster_monitor::simulated_gpus::SimulatedGpus;
use muster_monitor::{Config, Monitor};
use serde_json::Value;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// What the panels of the dashboard 12239 of Grafana's collection ask, its variables filled in.
const PANELS: [&str; 8] = [
    "DCGM_FI_DEV_GPU_TEMP{instance=~\".+\", gpu=~\".+\"}",
    "avg(DCGM_FI_DEV_GPU_TEMP{instance=~\".+\", gpu=~\".+\"})",
    "DCGM_FI_DEV_POWER_USAGE{instance=~\".+\", gpu=~\".+\"}",
    "sum(DCGM_FI_DEV_POWER_USAGE{instance=~\".+\", gpu=~\".+\"})",
    "DCGM_FI_DEV_SM_CLOCK{instance=~\".+\", gpu=~\".+\"} * 1000000",
    "DCGM_FI_DEV_GPU_UTIL{instance=~\".+\", gpu=~\".+\"}",
    "DCGM_FI_DEV_FB_USED{instance=~\".+\", gpu=~\".+\"}",
    "DCGM_FI_PROF_PIPE_TENSOR_ACTIVE{instance=~\".+\", gpu=~\".+\"}",
];
const GPUS: u32 = 8;

struct Site {
    monitor: Arc<Monitor>,
    exporter: Exporter,
    _world: SimulatedGpus,
}

fn site() -> Site {
    let world =
        SimulatedGpus::start(&format!("h100-sxm:{GPUS}").parse().expect("a kind")).expect("made");
    let catalogue = Arc::new(Catalogue::builtin().clone());
    let mut config = Config::reading(catalogue, Context::default());
    config.every = Duration::from_millis(200);
    config.kernel_log = KernelLog::Off;
    let monitor = Arc::new(Monitor::start(config, world.driver()).expect("started"));
    assert!(monitor.wait_ready(Duration::from_secs(30)));
    let mut page = PageConfig::new("node-1");
    page.labels_of = Arc::new(|gpu| {
        (gpu == 3).then(|| JobLabels {
            job: "42".into(),
            attempt: 1,
            rank: Some(3),
            project: "team \"a\"\\\n".into(),
            pool: "h100".into(),
        })
    });
    let source = monitor.clone();
    let any: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    let exporter = Exporter::start(any, page, Arc::new(move || source.latest())).expect("started");
    Site { monitor, exporter, _world: world }
}

/// An answer's body. HTTP/1.0, so that nobody sends it in chunks.
fn get(addr: SocketAddr, path: &str) -> Option<String> {
    let mut stream = TcpStream::connect(addr).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(30))).ok()?;
    stream.write_all(format!("GET {path} HTTP/1.0\r\nHost: x\r\n\r\n").as_bytes()).ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split(' ').nth(1).filter(|s| *s == "200").map(|_| body.to_owned())
}

fn until<T>(what: &str, mut get: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + Duration::from_secs(90);
    loop {
        if let Some(v) = get() {
            return v;
        }
        assert!(Instant::now() < end, "{what} did not come");
        std::thread::sleep(Duration::from_millis(100));
    }
}

fn has(program: &str) -> bool {
    muster_testkit::program(program, "prometheus")
}

/// An address that nobody uses, and what keeps other tests from it until this one ends.
///
/// Below the range of ephemeral ports, so that no outgoing connection takes it. Whoever has the
/// port of the same number for datagrams has it, across processes: that nobody listens may only
/// mean that another test's server has not come up yet.
fn free_address() -> (SocketAddr, UdpSocket) {
    let first = std::process::id() % 10_000;
    let ports = (0..10_000).map(|step| 10_000 + (first + step * 7) % 10_000);
    let mut ports = ports.map(|p| u16::try_from(p).expect("in range"));
    let free = ports.find_map(|port| {
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let held = UdpSocket::bind(address).ok()?;
        TcpListener::bind(address).is_ok().then_some((address, held))
    });
    free.expect("a free address")
}

struct Prometheus {
    child: Child,
    addr: SocketAddr,
    _held: UdpSocket,
    _dir: tempfile::TempDir,
}

impl Prometheus {
    fn start(target: SocketAddr) -> Prometheus {
        let dir = tempfile::tempdir().expect("a directory");
        let config = dir.path().join("prometheus.yml");
        let text = format!(
            "global:\n  scrape_interval: 1s\nscrape_configs:\n  - job_name: dcgm\n    \
             static_configs:\n      - targets: ['{target}']\n"
        );
        std::fs::write(&config, text).expect("written");
        let (addr, held) = free_address();
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", dir.path().join("data").display()))
            .arg(format!("--web.listen-address={addr}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("started");
        Prometheus { child, addr, _held: held, _dir: dir }
    }

    fn query(&self, query: &str) -> Option<Vec<Value>> {
        let encoded: String = query
            .bytes()
            .map(|b| match b {
                b if b.is_ascii_alphanumeric() => char::from(b).to_string(),
                b => format!("%{b:02X}"),
            })
            .collect();
        let body = get(self.addr, &format!("/api/v1/query?query={encoded}"))?;
        let answer: Value = serde_json::from_str(&body).ok()?;
        assert_eq!(answer["status"], "success", "{query}: {answer}");
        answer["data"]["result"].as_array().cloned()
    }

    /// So many rows of an answer. Waits for them: a scrape that a busy machine is late with leaves
    /// nothing until the next one.
    fn rows(&self, query: &str, want: usize) -> Vec<Value> {
        until(query, || self.query(query).filter(|rows| rows.len() == want))
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn dashboards_made_for_dcgm_exporter_find_their_figures() {
    if !has("prometheus") {
        return;
    }
    let site = site();
    let p = Prometheus::start(site.exporter.addr());
    until("Prometheus", || get(p.addr, "/-/ready"));
    // Two scrapes, so that there are rates.
    until("the scrapes", || {
        let n = p.query("count_over_time(up{job=\"dcgm\"}[1m])")?;
        let n: f64 = n.first()?["value"][1].as_str()?.parse().ok()?;
        (n >= 3.0).then_some(())
    });
    p.rows("up{job=\"dcgm\"} == 1", 1);
    for panel in PANELS {
        let want = if panel.starts_with("avg(") || panel.starts_with("sum(") { 1 } else { 8 };
        p.rows(panel, want);
    }
    // What fills the dashboard's drop-downs.
    for label in ["instance", "gpu", "Hostname", "modelName"] {
        let rows = until(label, || {
            p.query(&format!("count by ({label}) (DCGM_FI_DEV_GPU_TEMP)")).filter(|r| !r.is_empty())
        });
        assert!(rows.iter().all(|r| r["metric"][label].as_str().is_some_and(|v| !v.is_empty())));
    }
    // Everything that dcgm-exporter reports when nobody chose anything.
    let mut reported = 0;
    for m in dcgm::metrics().filter(|m| m.on_by_default) {
        p.rows(&format!("count({}) == 8", m.classic), 1);
        if m.kind == dcgm::Kind::Counter {
            p.rows(&format!("rate({}[30s])", m.classic), 8);
        }
        reported += 1;
    }
    eprintln!("{} panels and {reported} figures that are on by default: all there", PANELS.len());
    // A job's labels; the target's own `job` wins, ours moves aside.
    let of_job = p.rows("DCGM_FI_DEV_GPU_UTIL{hpc_job=\"42\"}", 1);
    let labels = &of_job[0]["metric"];
    assert_eq!((&labels["exported_job"], &labels["rank"]), (&"42".into(), &"3".into()));
    assert_eq!(labels["project"], "team \"a\"\\\n");
    p.rows("count(muster_gpu_up == 1) == 8", 1);
    p.rows("rate(process_cpu_seconds_total{job=\"dcgm\"}[30s])", 1);
    site.monitor.stop();
}

#[test]
fn the_page_is_what_promtool_takes() {
    if !has("promtool") {
        return;
    }
    let site = site();
    let page = get(site.exporter.addr(), "/metrics").expect("the page");
    let mut child = Command::new("promtool")
        .args(["check", "metrics"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("started");
    child.stdin.take().expect("a pipe").write_all(page.as_bytes()).expect("written");
    let out = child.wait_with_output().expect("ended");
    let said =
        String::from_utf8_lossy(&out.stdout).into_owned() + &String::from_utf8_lossy(&out.stderr);
    // 3: it dislikes names. DCGM's are as they are; ours must please it.
    assert!(matches!(out.status.code(), Some(0 | 3)), "{said}");
    assert!(!said.contains("parsing error"), "{said}");
    // `modelName` is a label of theirs too.
    let theirs = |l: &str| l.starts_with("DCGM_") || l.contains("label names should be written");
    let ours: Vec<&str> = said.lines().filter(|l| !theirs(l) && !l.trim().is_empty()).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}
