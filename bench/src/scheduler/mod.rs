//! What planning costs: on fleets of 1,000, 12,500 and 125,000 nodes of 8 GPUs, nearly full, with
//! 10,000 jobs waiting. Each size runs in a process of its own, so that its memory is its own.

mod measure;
pub(crate) mod mix;
mod site;
pub(crate) mod traces;

use crate::Options;
use crate::report::Report;
use anyhow::{Context, Result, bail};
use std::process::{Command, Stdio};

/// Sizes of the fleet, in nodes.
const SIZES: [u32; 3] = [1000, 12_500, 125_000];

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("scheduler");
    if let Some(nodes) = options.nodes {
        measure::size(&mut report, nodes, options.quick)?;
        return Ok(report);
    }
    for nodes in SIZES {
        eprintln!("{nodes} nodes");
        one_size(&mut report, nodes, options.quick)?;
    }
    let (_, _, source) = traces::both()?;
    report.note(source + "; three in four from the first, limits as people write them.");
    report.note(curve(&report));
    Ok(report)
}

/// A process for one size, and its figures.
fn one_size(report: &mut Report, nodes: u32, quick: bool) -> Result<()> {
    let me = std::env::current_exe().context("this program has no path")?;
    let mut command = Command::new(me);
    command.args(["scheduler", "--output", "json", "--nodes", &nodes.to_string()]);
    if quick {
        command.arg("--quick");
    }
    let output = command.stderr(Stdio::inherit()).output().context("cannot start a process")?;
    if !output.status.success() {
        bail!("the process for {nodes} nodes failed");
    }
    let json: serde_json::Value =
        serde_json::from_slice(&output.stdout).context("it printed something else than JSON")?;
    let cases = json["results"].as_object().context("it printed no results")?;
    for (case, figures) in cases {
        let unit = figures["unit"].as_str().unwrap_or_default();
        if let Some(value) = figures["value"].as_f64() {
            report.quietly(case, unit, value);
        }
    }
    Ok(())
}

/// How the cost grows: 125 times the nodes.
fn curve(report: &Report) -> String {
    let of = |case: &str| {
        let each: Vec<String> = SIZES
            .iter()
            .map(|n| report.value(&format!("{case}_{n}")).map_or("-".into(), |v| format!("{v:.3}")))
            .collect();
        format!("{case}: {}", each.join(" / "))
    };
    let cases = ["cycle_p50_ms", "cycle_p99_ms", "cold_plan_ms", "reclaim_ms"];
    let lines: Vec<String> = cases.iter().map(|c| of(c)).collect();
    format!("1,000 / 12,500 / 125,000 nodes:\n  {}", lines.join("\n  "))
}
