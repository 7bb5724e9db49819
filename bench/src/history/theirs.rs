//! VictoriaMetrics with the same data: Debian's package `victoria-metrics`.

use super::data::{GPUS, METRICS, value};
use super::{HOUR, STEP, size};
use crate::Options;
use crate::http::{Client, Target};
use crate::load::runtime;
use crate::stats::{cpu_time, percentile};
use anyhow::{Context, Result, ensure};
use bytes::Bytes;
use hyper::Method;
use std::fmt::Write as _;
use std::net::TcpStream;
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::proc::{Daemon, TempDir, free_port, which};

const PROGRAM: &str = "victoria-metrics";

/// What it took.
pub(super) struct PrometheusCost {
    pub(super) cpu: Duration,
    pub(super) bytes: u64,
    pub(super) query_ms: f64,
}

/// The rows of a node as it imports them: one line for each series.
fn lines(node: u32, start: i64, steps: u64) -> String {
    let mut out = String::new();
    for gpu in 0..GPUS {
        for (m, metric) in METRICS.iter().enumerate() {
            let _ = write!(
                out,
                "{{\"metric\":{{\"__name__\":\"{metric}\",\"node\":\"n{node}\",\"gpu\":\"{gpu}\"}},\"values\":["
            );
            let number = u64::from(node) * u64::from(GPUS) + u64::from(gpu);
            for n in 0..steps {
                let comma = if n == 0 { "" } else { "," };
                let _ = write!(out, "{comma}{}", value(number, m, n));
            }
            out.push_str("],\"timestamps\":[");
            for n in 0..steps {
                let comma = if n == 0 { "" } else { "," };
                let at = start + STEP * i64::try_from(n).unwrap_or(0);
                let _ = write!(out, "{comma}{at}");
            }
            out.push_str("]}\n");
        }
    }
    out
}

/// Imports and asks; none where it is not installed.
pub(super) fn measure(
    options: &Options,
    scratch: &TempDir,
    nodes: u32,
    start: i64,
    steps: u64,
) -> Result<Option<PrometheusCost>> {
    if which(PROGRAM).is_none() && options.install {
        xtask::install::apt(&[PROGRAM])?;
    }
    let Some(program) = which(PROGRAM) else { return Ok(None) };
    let (dir, port) = (scratch.sub("theirs")?, free_port()?);
    let mut command = Command::new(program);
    command
        .arg(format!("-storageDataPath={}", dir.join("data").display()))
        .arg(format!("-httpListenAddr=127.0.0.1:{port}"))
        .arg("-retentionPeriod=100d")
        .current_dir(&dir);
    let mut daemon = Daemon::spawn(PROGRAM, command, &dir.join("log"))?;
    daemon.wait_ready(Duration::from_secs(30), |_| TcpStream::connect(("127.0.0.1", port)).ok())?;
    let pid = daemon.pid().as_raw_nonzero().get();
    let before = cpu_time(pid)?;
    let (cpu, bytes, query_ms) = runtime()?.block_on(async {
        let mut client = Client::new(Target::new(port, &[])?);
        for node in 0..nodes {
            let body = Bytes::from(lines(node, start, steps));
            let (status, said) = client.call(&Method::POST, "/api/v1/import", body).await?;
            ensure!(status < 300, "it does not import: {}", String::from_utf8_lossy(&said));
        }
        let none = Bytes::new;
        client.call(&Method::GET, "/internal/force_flush", none()).await?;
        client.call(&Method::GET, "/internal/force_merge", none()).await?;
        // It merges in the background.
        tokio::time::sleep(Duration::from_secs(5)).await;
        let cpu = cpu_time(pid)?.saturating_sub(before);
        let bytes = size(&dir.join("data"))?;
        let (from, to) = (start / 1000, (start + HOUR) / 1000);
        let path = format!(
            "/api/v1/query_range?query=%7Bnode%3D%22n3%22%7D&start={from}&end={to}&step=10s&nocache=1"
        );
        let mut all = Vec::new();
        for _ in 0..super::ASKED {
            let began = Instant::now();
            let (status, said) = client.call(&Method::GET, &path, none()).await?;
            ensure!(status == 200 && said.len() > 10_000, "{}", String::from_utf8_lossy(&said));
            all.push(began.elapsed().as_secs_f64() * 1000.0);
        }
        let query_ms = percentile(&mut all, 50.0).context("nothing was asked")?;
        anyhow::Ok((cpu, bytes, query_ms))
    })?;
    Ok(Some(PrometheusCost { cpu, bytes, query_ms }))
}
