//! VictoriaMetrics with the same data: Debian's package `victoria-metrics`.

use super::data::{GPUS, METRICS, value};
use super::{STEP, size};
use crate::Options;
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::stats::{cpu_time, percentile};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use serde_json::Value;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};
use tokio::runtime::Runtime;
use xtask::proc::{Daemon, TempDir, free_port, which};

/// Its name in results.
pub(super) const NAME: &str = "VictoriaMetrics";
const PROGRAM: &str = "victoria-metrics";
/// So long its merges may take.
const MERGES: u32 = 300;

/// What is imported: all metrics of the GPUs of so many nodes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rows {
    pub(super) nodes: u32,
    /// The first sample, in milliseconds.
    pub(super) start: i64,
    /// From one sample to the next, in milliseconds.
    pub(super) step: i64,
    pub(super) steps: u64,
}

/// What the import took.
pub(super) struct PeerCost {
    pub(super) cpu: Duration,
    pub(super) bytes: u64,
}

/// A question about a range of time, answered in so many points.
pub(super) struct RangeQuery<'a> {
    pub(super) query: &'a str,
    /// In milliseconds.
    pub(super) from: i64,
    pub(super) to: i64,
    /// From one point to the next, in milliseconds.
    pub(super) step: i64,
    /// So many series the answer has.
    pub(super) series: usize,
}

/// One that runs.
pub(super) struct Peer {
    daemon: Daemon,
    client: Client,
    data: PathBuf,
    runtime: Runtime,
}

impl Rows {
    /// Those of a GPU as they are imported: one line for each series.
    fn lines(&self, node: u32, gpu: u32) -> Result<String> {
        let of_10_s = u64::try_from(self.step / STEP)?;
        let number = u64::from(node) * u64::from(GPUS) + u64::from(gpu);
        let mut out = String::new();
        for (m, metric) in METRICS.iter().enumerate() {
            write!(
                out,
                "{{\"metric\":{{\"__name__\":\"{metric}\",\"node\":\"n{node}\",\"gpu\":\"{gpu}\"}},\"values\":["
            )?;
            for n in 0..self.steps {
                let comma = if n == 0 { "" } else { "," };
                write!(out, "{comma}{}", value(number, m, n * of_10_s))?;
            }
            out.push_str("],\"timestamps\":[");
            for n in 0..self.steps {
                let comma = if n == 0 { "" } else { "," };
                write!(out, "{comma}{}", self.start + self.step * i64::try_from(n)?)?;
            }
            out.push_str("]}\n");
        }
        Ok(out)
    }
}

impl Peer {
    /// Starts one with nothing in it; none where it is not installed.
    pub(super) fn start(options: &Options, scratch: &TempDir, what: &str) -> Result<Option<Peer>> {
        if which(PROGRAM).is_none() && options.install {
            xtask::install::apt(&[PROGRAM])?;
        }
        let Some(program) = which(PROGRAM) else { return Ok(None) };
        let (dir, port) = (scratch.sub(&format!("theirs-{what}"))?, free_port()?);
        let data = dir.join("data");
        let mut command = Command::new(program);
        command
            .arg(format!("-storageDataPath={}", data.display()))
            .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
            .arg("-retentionPeriod=100d")
            .current_dir(&dir);
        let mut daemon = Daemon::spawn(PROGRAM, command, &dir.join("log"))?;
        daemon.wait_ready(Duration::from_secs(30), |_| {
            TcpStream::connect(("127.0.0.1", port)).ok()
        })?;
        let client = Client::new(Target::new(port, &[])?);
        Ok(Some(Peer { daemon, client, data, runtime: runtime()? }))
    }

    fn cpu(&self) -> Result<Duration> {
        cpu_time(self.daemon.pid().as_raw_nonzero().get())
    }

    fn call(&mut self, method: &Method, path: &str, body: Bytes) -> Result<Bytes> {
        let (status, said) = self.runtime.block_on(self.client.call(method, path, body))?;
        ensure!(status < 300, "{path}: {status}: {}", String::from_utf8_lossy(&said));
        Ok(said)
    }

    /// Imports rows, and waits until it has merged them.
    pub(super) fn import(&mut self, rows: Rows) -> Result<PeerCost> {
        let before = self.cpu()?;
        for node in 0..rows.nodes {
            for gpu in 0..GPUS {
                let body = Bytes::from(rows.lines(node, gpu)?);
                self.call(&Method::POST, "/api/v1/import", body)?;
            }
        }
        for path in ["/internal/force_flush", "/internal/force_merge"] {
            self.call(&Method::GET, path, Bytes::new())?;
        }
        // It merges in the background.
        std::thread::sleep(Duration::from_secs(4));
        for _ in 0..MERGES {
            let used = self.cpu()?;
            std::thread::sleep(Duration::from_secs(1));
            if self.cpu()?.saturating_sub(used) < Duration::from_millis(50) {
                break;
            }
        }
        let cpu = self.cpu()?.saturating_sub(before);
        Ok(PeerCost { cpu, bytes: size(&self.data)? })
    }

    /// The median time of an answer, in milliseconds.
    pub(super) fn ask(&mut self, asked: &RangeQuery<'_>) -> Result<f64> {
        let path = asked.path();
        let mut all = Vec::new();
        for _ in 0..super::ASKED {
            let began = Instant::now();
            let said = self.call(&Method::GET, &path, Bytes::new())?;
            all.push(began.elapsed().as_secs_f64() * 1000.0);
            let answer: Value = serde_json::from_slice(&said).context("its answer is no JSON")?;
            let series = answer["data"]["result"].as_array().map_or(0, Vec::len);
            ensure!(series == asked.series, "{series} series, not {}: {path}", asked.series);
        }
        percentile(&mut all, 50.0).context("nothing was asked")
    }
}

impl RangeQuery<'_> {
    /// Without its cache of answers: each one is computed.
    fn path(&self) -> String {
        let query = encoded(self.query);
        let seconds = |ms: i64| ms / 1000;
        format!(
            "/api/v1/query_range?query={query}&start={}&end={}&step={}s&nocache=1",
            seconds(self.from),
            seconds(self.to),
            seconds(self.step)
        )
    }
}

/// A text as it may be in a path.
fn encoded(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || byte == b'_' {
            out.push(char::from(byte));
        } else {
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_is_written_as_a_path_has_it() {
        let asked = RangeQuery {
            query: "avg(util{node=\"n3\"}[144s])",
            from: 3_600_000,
            to: 7_200_000,
            step: 144_000,
            series: 1,
        };
        let query = "avg%28util%7Bnode%3D%22n3%22%7D%5B144s%5D%29";
        let rest = "&start=3600&end=7200&step=144s&nocache=1";
        assert_eq!(asked.path(), format!("/api/v1/query_range?query={query}{rest}"));
    }

    #[test]
    fn rows_are_imported_with_the_values_and_times_that_ours_gets() {
        let rows = Rows { nodes: 1, start: 60_000, step: 6 * STEP, steps: 2 };
        let text = rows.lines(3, 5).unwrap();
        assert_eq!(text.lines().count(), METRICS.len());
        let first: Value = serde_json::from_str(text.lines().next().unwrap()).unwrap();
        assert_eq!(first["metric"]["__name__"], METRICS[0]);
        assert_eq!(
            (&first["metric"]["node"], &first["metric"]["gpu"]),
            (&"n3".into(), &"5".into())
        );
        assert_eq!(first["timestamps"], serde_json::json!([60_000, 120_000]));
        let of = |n: u64| f64::from(value(29, 0, n));
        let values: Vec<f64> = serde_json::from_value(first["values"].clone()).unwrap();
        assert_eq!(values, [of(0), of(6)]);
    }
}
