//! How fast the simulator is, and how near it comes to formulas: the binary as a user runs it.

use crate::Options;
use crate::report::Report;
use crate::scheduler::traces;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

/// Runs `muster sim …` and reads its numbers.
fn sim(options: &Options, args: &[&str]) -> Result<Value> {
    eprintln!("  muster sim {}", args.join(" "));
    let out = Command::new(options.muster())
        .args(["sim"])
        .args(args)
        .args(["-o", "json"])
        .current_dir(xtask::root())
        .output()
        .context("cannot start the binary")?;
    ensure!(
        out.status.success(),
        "muster sim {} failed: {}",
        args.join(" "),
        String::from_utf8_lossy(&out.stderr)
    );
    serde_json::from_slice(&out.stdout).context("the numbers cannot be read")
}

fn number(v: &Value, key: &str) -> f64 {
    v[key].as_f64().unwrap_or(f64::NAN)
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("sim");
    let mib = |v: &Value| number(v, "peak_rss_bytes") / f64::from(1 << 20);
    let tuned = sim(options, &["run", "scenarios/llama3-54d.toml"])?;
    report.ours("llama3_54d_wall", "s", number(&tuned, "wall_s"));
    report.ours("llama3_54d_memory", "MiB", mib(&tuned));
    report.ours("llama3_54d_interruptions", "interruptions", number(&tuned, "interruptions"));
    report.theirs("llama3_54d_interruptions", "interruptions", "as published", 419.0, true);
    report.ours("llama3_54d_ettr", "share of time", number(&tuned, "ettr"));
    let formula = number(&tuned, "ettr_expected");
    report.theirs("llama3_54d_ettr", "share of time", "the formula", formula, true);
    let naive = sim(options, &["run", "scenarios/llama3-54d-naive.toml"])?;
    report.ours("llama3_54d_naive_ettr", "share of time", number(&naive, "ettr"));
    let spares = sim(options, &["run", "scenarios/spares.toml"])?;
    report.ours("spares_computed", "nodes of 1,000", number(&spares, "spares"));
    report.ours("spares_target_met", "share", number(&spares["spares_found"], "share"));
    if let Some(dir) = traces::folder() {
        replays(options, &dir, &mut report)?;
    } else {
        eprintln!("SKIPPED: no traces (MUSTER_TRACES): no replay was measured");
        report.note("SKIPPED: no traces found, no replay was measured.");
    }
    if options.quick {
        report.note("Quick: the year of 12,500 nodes was not simulated.");
    } else {
        let year = sim(options, &["run", "scenarios/soak-year.toml"])?;
        report.ours("year_of_12500_nodes_wall", "s", number(&year, "wall_s"));
        report.ours("year_of_12500_nodes_memory", "MiB", mib(&year));
        report.ours("year_of_12500_nodes_jobs", "jobs", number(&year, "jobs"));
    }
    report.note(
        "Bars: llama3-54d under 20 s and 2 GiB, ETTR at least 0.97 and within a point of the \
         formula; ten orders of one openb trace under 10 s in all; Philly under 60 s; the year \
         under 600 s and 4 GiB.",
    );
    Ok(report)
}

fn replays(options: &Options, dir: &Path, report: &mut Report) -> Result<()> {
    let at = |p: &str| dir.join(p).display().to_string();
    let (nodes, pods, order) = (
        at("fgd-openb/csv/openb_node_list_gpu_node.csv"),
        pods(dir)?,
        at("fgd-openb/arrival_orders/default.csv.gz"),
    );
    let openb = sim(
        options,
        &[
            "replay", "--format", "openb", "--nodes", &nodes, "--jobs", &pods, "--order", &order,
            "--seeds", "42-51",
        ],
    )?;
    report.ours("openb_default_wall", "s", number(&openb, "wall_s"));
    let philly = at("philly/philly_sia.csv.gz");
    let philly = sim(options, &["replay", "--format", "philly", "--jobs", &philly])?;
    report.ours("philly_82247_jobs_wall", "s", number(&philly, "wall_s"));
    let kth = at("swf/KTH-SP2-filtered-28481.swf.gz");
    let easy = sim(options, &["replay", "--format", "swf", "--jobs", &kth, "--policy", "easy"])?;
    report.ours("kth_easy_wall", "s", number(&easy, "wall_s"));
    report.ours("kth_easy", "bounded slowdown", number(&easy["bounded_slowdown"], "mean"));
    report.theirs("kth_easy", "bounded slowdown", "EASY as published", 92.577, false);
    Ok(())
}

/// The list of pods of the default trace, whatever its ending.
fn pods(dir: &Path) -> Result<String> {
    let folder = dir.join("fgd-openb/csv");
    let names = ["openb_pod_list_default.csv", "openb_pod_list_default.csv.gz"];
    let found = names.iter().map(|n| folder.join(n)).find(|p| p.exists());
    Ok(found.context("there is no openb_pod_list_default.csv")?.display().to_string())
}
