//! Our side: a fresh site with four simulated nodes, whose ranks are real processes.

use super::{CLIENTS, HOLD, PER_SECOND, PROCESSES, Size, api_case, cli_case, first_line};
use crate::Options;
use crate::http::{Client, Target};
use crate::load::{Load, processes, runtime};
use crate::report::Report;
use crate::stats::{ms, percentile};
use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use http_body_util::BodyExt;
use hyper::Method;
use serde_json::{Value, json};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::site::Site;

/// A line that nothing else prints.
const LINE: &str = "the-first-line-of-the-job";

/// A trivial job.
pub(super) fn job(hold: bool) -> Value {
    json!({"kind": "Job", "name": "bench", "run": {"script": "true"}, "hold": hold})
}

/// As many nodes as the peer has.
const NODES: u64 = 4;

fn start(options: &Options) -> Result<Site> {
    let nodes = NODES.to_string();
    let args = ["up", "--nodes", &nodes, "--no-local-node", "--no-context"];
    let mut site = Site::start(&options.muster(), &options.scratch(), &args, &[])?;
    // It serves before its nodes have joined; the peer is idle when it is measured, too.
    let until = Instant::now() + Duration::from_secs(60);
    while crate::agents::connected(&site)? < NODES || !would_take(&site)? {
        site.must_be_running()?;
        ensure!(Instant::now() < until, "the nodes did not join within a minute");
        std::thread::sleep(Duration::from_millis(50));
    }
    Ok(site)
}

/// Whether a job would be accepted now.
fn would_take(site: &Site) -> Result<bool> {
    let target = target(site)?;
    runtime()?.block_on(async {
        let body = Bytes::from(job(true).to_string());
        let path = "/v1/jobs?dry_run=true";
        Ok(Client::new(target).call(&Method::POST, path, body).await?.0 == 200)
    })
}

fn target(site: &Site) -> Result<Target> {
    Target::new(site.port(), &[("Authorization", &format!("Bearer {}", site.token()))])
}

/// Measures; gives the held submissions per second for each number of clients.
pub(super) fn measure(options: &Options, size: Size, report: &mut Report) -> Result<Vec<f64>> {
    eprintln!("Muster: start");
    let mut submits = Vec::new();
    for hold in HOLD {
        // A fresh one each time, as for the peer.
        for clients in CLIENTS {
            let site = start(options)?;
            let load = Load {
                target: target(&site)?,
                path: "/v1/jobs".into(),
                body: job(hold).to_string().into(),
                accepted,
            };
            let outcome = load.run(clients, size.load)?;
            report.ours(&api_case(clients, hold), PER_SECOND, outcome.per_s);
            eprintln!(
                "    p50 {:.1} ms, p99 {:.1} ms, {} accepted, {} connections",
                outcome.p50_ms, outcome.p99_ms, outcome.accepted, outcome.connects
            );
            if hold {
                submits.push(outcome.per_s);
            }
        }
        for parallel in PROCESSES {
            let site = start(options)?;
            let outcome = processes(|| submit(&site, hold), parallel, size.load, u64::MAX)?;
            report.ours(&cli_case(parallel, hold), PER_SECOND, outcome.per_s);
        }
    }
    let site = start(options)?;
    start_latency(&site, size, report)?;
    jobs(&site, size, report)?;
    Ok(submits)
}

fn submit(site: &Site, hold: bool) -> Command {
    let mut command = site.cli();
    command.arg("submit");
    if hold {
        command.arg("--hold");
    }
    command.args(["--", "true"]);
    command
}

fn accepted(status: u16, body: &[u8]) -> bool {
    status == 201 && serde_json::from_slice::<Value>(body).is_ok_and(|v| !v["id"].is_null())
}

fn start_latency(site: &Site, size: Size, report: &mut Report) -> Result<()> {
    let run = || {
        let mut command = site.cli();
        command.args(["run", "--", "echo", "here"]);
        command
    };
    first_line(run())?;
    let mut samples = (0..size.starts).map(|_| first_line(run())).collect::<Result<Vec<f64>>>()?;
    let p50 = percentile(&mut samples, 50.0).context("nothing was started")?;
    report.ours("start_ms_p50", "ms", p50);
    let mut samples = runtime()?.block_on(async {
        let mut samples = Vec::new();
        for _ in 0..=size.starts {
            samples.push(api_first_line(&target(site)?).await?);
        }
        // The first one warmed up.
        samples.remove(0);
        Ok::<_, anyhow::Error>(samples)
    })?;
    let p50 = percentile(&mut samples, 50.0).context("nothing was started")?;
    report.ours("start_api_ms_p50", "ms", p50);
    Ok(())
}

/// From sending the submission to seeing the job's first line in a followed log.
async fn api_first_line(target: &Target) -> Result<f64> {
    let mut client = Client::new(target.clone());
    let mut spec = job(false);
    spec["run"] = json!({"script": format!("echo {LINE}")});
    let began = Instant::now();
    let made = post(&mut client, &spec).await?;
    let id = made["id"].as_str().context("the answer has no id")?;
    let path = format!("/v1/jobs/{id}/logs?follow=true");
    let answer = client.open(&Method::GET, &path, Bytes::new()).await?;
    ensure!(answer.status() == 200, "GET {path}: {}", answer.status());
    let mut body = answer.into_body();
    let mut seen = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Some(data) = frame?.data_ref() {
            seen.extend_from_slice(data);
            if seen.windows(LINE.len()).any(|w| w == LINE.as_bytes()) {
                return Ok(ms(began.elapsed()));
            }
        }
    }
    bail!("the job ended without its line: {}", String::from_utf8_lossy(&seen))
}

async fn post(client: &mut Client, spec: &Value) -> Result<Value> {
    let body = Bytes::from(spec.to_string());
    let (status, body) = client.call(&Method::POST, "/v1/jobs", body).await?;
    ensure!(status == 201, "POST /v1/jobs: {status} {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

async fn get(client: &mut Client, path: &str) -> Result<Value> {
    let (status, body) = client.call(&Method::GET, path, Bytes::new()).await?;
    ensure!(status == 200, "GET {path}: {status} {}", String::from_utf8_lossy(&body));
    Ok(serde_json::from_slice(&body)?)
}

fn jobs(site: &Site, size: Size, report: &mut Report) -> Result<()> {
    let mut case = |name: &str, began: Instant, best: &mut f64| {
        let rate = size.jobs as f64 / began.elapsed().as_secs_f64();
        report.ours(name, PER_SECOND, rate);
        *best = rate.max(*best);
    };
    let mut best = 0.0;
    let began = Instant::now();
    runtime()?.block_on(async {
        let mut spec = job(false);
        spec["array"] = format!("0-{}", size.jobs - 1).into();
        post(&mut Client::new(target(site)?), &spec).await
    })?;
    wait_ended(site)?;
    case("jobs_per_s_array", began, &mut best);

    let began = Instant::now();
    processes(|| submit(site, false), 4, Duration::from_secs(600), size.jobs)?;
    wait_ended(site)?;
    case("jobs_per_s_loop", began, &mut best);
    report.ours("jobs_per_s", PER_SECOND, best);
    Ok(())
}

/// Waits until no job is left, and sees that none failed.
fn wait_ended(site: &Site) -> Result<()> {
    runtime()?.block_on(async {
        let mut client = Client::new(target(site)?);
        let until = Instant::now() + Duration::from_secs(600);
        loop {
            let active = get(&mut client, "/v1/server").await?["jobs_active"].as_u64();
            if active == Some(0) {
                break;
            }
            ensure!(Instant::now() < until, "{active:?} jobs have not ended within 600 s");
            // As often as the peer is asked.
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let failed = get(&mut client, "/v1/jobs?state=failed,cancelled&limit=1").await?;
        ensure!(
            failed["items"].as_array().is_some_and(Vec::is_empty),
            "a trivial job failed: {}",
            failed["items"][0]
        );
        Ok(())
    })
}
