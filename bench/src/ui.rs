//! The web console before a large fleet: how soon the map stands, how smoothly it moves, what a tab
//! holds, what the on-call page asks for while nothing happens, and what a hundred open consoles
//! cost the server. A real Chromium at 1366 x 768.

use crate::Options;
use crate::agents::{raise_file_limit, start_fleet, start_server, wait_connected};
use crate::report::Report;
use anyhow::{Context, Result, ensure};
use serde::Deserialize;
use std::time::Duration;
use xtask::proc::{self, check};
use xtask::site::Site;

/// Open consoles.
const CONSOLES: u32 = 100;
/// Nodes of each job that keeps GPUs busy, so that their figures move.
const GANG: u32 = 50;

/// What `perf.mjs` measured.
#[derive(Debug, Deserialize, PartialEq)]
struct Tab {
    gpus: f64,
    first_paint_ms: f64,
    frame_p95_ms: f64,
    tab_mib: f64,
    heap_mib: f64,
}

/// What `quiet.mjs` measured.
#[derive(Debug, Deserialize, PartialEq)]
struct Quiet {
    requests_per_minute: f64,
}

/// What `consoles.mjs` measured.
#[derive(Debug, Deserialize, PartialEq)]
struct Consoles {
    cores: f64,
    kb_per_s: f64,
    changes_per_s: f64,
}

pub(crate) fn run(options: &Options) -> Result<Report> {
    let nodes = options.nodes.unwrap_or(if options.quick { 1250 } else { 12_500 });
    let seconds = if options.quick { 10 } else { 30 };
    xtask::web::ready()?;
    raise_file_limit(u64::from(nodes) + 1000)?;
    let mut report = Report::new("ui");
    let site = start_server(options, &[])?;
    let mut fleet = start_fleet(options, &site, nodes)?;
    wait_connected(&site, &mut fleet, nodes, Duration::from_secs(900))?;
    occupy(&site, nodes)?;
    // Work has begun everywhere, and every node has reported about itself once.
    std::thread::sleep(Duration::from_secs(if options.quick { 15 } else { 30 }));
    let tab: Tab = ask(&site, "e2e/perf.mjs", &["--json".into()])?;
    ensure!(
        tab.gpus >= f64::from(nodes) * 8.0 * 0.99,
        "the map shows {} GPUs of {}",
        tab.gpus,
        nodes * 8
    );
    report.ours("first_paint_ms", "ms", tab.first_paint_ms);
    report.ours("frame_p95_ms", "ms", tab.frame_p95_ms);
    report.ours("tab_mib", "MiB", tab.tab_mib);
    report.ours("heap_mib", "MiB", tab.heap_mib);
    // A budget by the minute: less than one says little.
    let watched = if options.quick { 60 } else { 300 };
    let quiet: Quiet = ask(&site, "e2e/quiet.mjs", &[watched.to_string(), "--json".into()])?;
    fleet.must_be_running()?;
    report.ours("oncall_requests_per_minute", "requests/min", quiet.requests_per_minute);
    let pid = site.pid().context("the server is not running")?;
    let args = [CONSOLES.to_string(), seconds.to_string(), pid.to_string(), "--json".into()];
    let all: Consoles = ask(&site, "e2e/consoles.mjs", &args)?;
    fleet.must_be_running()?;
    report.ours("server_cores_100_consoles", "cores", all.cores);
    report.ours("console_kb_per_s", "kB/s", all.kb_per_s);
    let changing = 100.0 * all.changes_per_s / f64::from(nodes * 8).max(1.0);
    report.ours("changing_percent_per_s", "%", changing);
    report.note(
        "Targets: first paint under 2 s, 95th percentile of frames under 50 ms, heap under 200 MB, the on-call page \
         under 10 requests a minute while jobs run and nothing else happens.",
    );
    report.note(format!(
        "{} GPUs on {nodes} simulated nodes over mutual TLS, {changing:.1}% of them changing a second; headless \
         Chromium, 1366 x 768, without a graphics card. Frames: the worst of three movements. The \
         tab is its renderer's share of memory (PSS), the server's cores are what {CONSOLES} consoles add.",
        nodes * 8
    ));
    Ok(report)
}

/// Gives half the fleet work that lasts.
fn occupy(site: &Site, nodes: u32) -> Result<()> {
    let gang = GANG.min(nodes.div_ceil(4)).max(1);
    let jobs = (nodes / 2).div_ceil(gang).max(1);
    for n in 0..jobs {
        let spec = site.scratch().join("busy.yaml");
        let text = format!(
            "kind: Job\nname: busy-{n}\ngang: {{nodes: {gang}, gpus_per_node: 8}}\n\
             simulate: {{run: 8h, step: 1s}}\n"
        );
        std::fs::write(&spec, text)?;
        check(site.cli().arg("submit").arg(&spec))?;
    }
    Ok(())
}

/// Runs a script of the console's and reads the JSON of its last line.
fn ask<T: for<'a> Deserialize<'a>>(site: &Site, script: &str, args: &[String]) -> Result<T> {
    let mut command = xtask::web::node(script, site);
    command.args(args);
    let (status, output) = proc::tee_within(&mut command, Duration::from_secs(15 * 60))?;
    ensure!(status.success(), "{script} failed");
    last_json(&output).with_context(|| format!("{script} printed no result"))
}

fn last_json<T: for<'a> Deserialize<'a>>(output: &str) -> Result<T> {
    let line = output.lines().rev().find(|l| l.starts_with('{')).context("no line of JSON")?;
    serde_json::from_str(line).context("the result cannot be read")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_result_is_the_last_line_of_json() {
        let output = "panning: 200 frames\n{\"old\":1}\n\
            {\"cores\":0.07,\"kb_per_s\":71.5,\"changes_per_s\":3500.0}\n\n";
        let got: Consoles = last_json(output).unwrap();
        assert_eq!(got, Consoles { cores: 0.07, kb_per_s: 71.5, changes_per_s: 3500.0 });
        assert!(last_json::<Consoles>("nothing\n").is_err());
        assert!(last_json::<Consoles>("{\"cores\":1}\n").is_err());
    }
}
