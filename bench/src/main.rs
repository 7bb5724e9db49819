//! Side-by-side benchmarks: ours and a peer's on the same machine, one after the other.
//! `cargo xtask bench NAME` builds and runs them.

mod agent;
mod agents;
mod alike;
mod backfill;
mod forecast;
mod forecast_explain;
mod growth;
mod health;
mod history;
mod http;
mod kmsg;
mod load;
mod machine;
mod openb;
mod pressure;
mod report;
mod scheduler;
mod simulator;
mod slurm;
mod slurm_place;
mod stats;
mod submit;
mod topology;
mod ui;

use anyhow::{Context, Result, bail};
use clap::Parser;
use std::path::PathBuf;
use std::process::ExitCode;

/// Runs one benchmark and its peers.
#[derive(Debug, Parser)]
#[command(name = "muster-bench")]
struct Options {
    /// The benchmark's name.
    name: String,
    /// `table` or `json`.
    #[arg(short, long, default_value = "table", value_parser = ["table", "json"])]
    output: String,
    /// A short run of the same thing.
    #[arg(long)]
    quick: bool,
    /// Install the peers that are missing.
    #[arg(long)]
    install: bool,
    /// Also write the result to bench/results/.
    #[arg(long)]
    save: bool,
    /// With --save: the directory to write to, where there is no repository.
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
    /// Simulated nodes (agents: 10,000 unless given, a tenth of it with --quick, `--nodes 18000` for
    /// 144,000 GPUs; slurm and scheduler: this size alone instead of all).
    #[arg(long)]
    nodes: Option<u32>,
    /// Measure only this side.
    #[arg(long, value_parser = ["ours", "theirs"])]
    side: Option<String>,
    /// The binary that is measured; MUSTER_BIN when absent, or else what was built.
    #[arg(long, value_name = "FILE")]
    muster: Option<PathBuf>,
    /// openb: also so many orders of arrival of our own for each trace.
    #[arg(long, default_value_t = 0)]
    shuffle: u64,
    /// health: everything random follows from it.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// health: only this part of it.
    #[arg(long, value_parser = ["score", "limits", "scale"])]
    part: Option<String>,
    /// health: only these kinds of faults and look-alikes.
    #[arg(long, value_name = "KIND", value_delimiter = ',')]
    only: Vec<String>,
    /// health: seconds of the fleet's clock in a second.
    #[arg(long)]
    speed: Option<f64>,
    /// health: so many faults and as many look-alikes, in a run of that length.
    #[arg(long)]
    faults: Option<u32>,
    /// health: keep the ground truth and what was found in this directory.
    #[arg(long, value_name = "DIR")]
    keep: Option<PathBuf>,
    /// pressure: seconds under load.
    #[arg(long)]
    seconds: Option<u64>,
    /// pressure: the attacking tenant's arrays of 10,000 tasks are not held, and it submits and cancels
    /// another one every 10 s.
    #[arg(long)]
    arrays: bool,
    /// pressure: leave these parts of the load out; `worst` are all of the attacking tenant's.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = pressure::PARTS)]
    without: Vec<String>,
    /// pressure: only these parts of the load.
    #[arg(long, value_name = "PART", value_delimiter = ',', value_parser = pressure::PARTS)]
    parts: Vec<String>,
    /// growth: records of the log (10,000,000 unless given, 200,000 with --quick), and a tenth as many
    /// jobs.
    #[arg(long)]
    records: Option<u64>,
    /// Where data directories are made: the disk matters.
    #[arg(long, value_name = "DIR")]
    scratch: Option<PathBuf>,
}

impl Options {
    fn muster(&self) -> PathBuf {
        let file = self
            .muster
            .clone()
            .or_else(|| std::env::var_os("MUSTER_BIN").map(PathBuf::from))
            .unwrap_or_else(|| xtask::target_dir().join("release/muster"));
        // It is started in directories of its own.
        std::path::absolute(&file).unwrap_or(file)
    }

    /// Beside the build by default: a temporary directory may be memory, where syncing is free.
    fn scratch(&self) -> PathBuf {
        self.scratch.clone().unwrap_or_else(|| xtask::target_dir().join("bench"))
    }

    fn measures(&self, side: &str) -> bool {
        self.side.as_deref().is_none_or(|s| s == side)
    }
}

fn run(options: &Options) -> Result<()> {
    let mut report = match options.name.as_str() {
        "submit" => submit::run(options)?,
        "agent" => agent::run(options)?,
        "agents" => agents::run(options)?,
        "slurm" => slurm_place::run(options)?,
        "scheduler" => scheduler::run(options)?,
        "topology" => topology::run(options)?,
        "openb" => openb::run(options)?,
        "backfill" => backfill::run(options)?,
        "forecast" => forecast::run(options)?,
        "sim" => simulator::run(options)?,
        "health" => health::run(options)?,
        "history" => history::run(options)?,
        "ui" => ui::run(options)?,
        "pressure" => pressure::run(options)?,
        "growth" => growth::run(options)?,
        other => {
            bail!(
                "there is no benchmark {other:?}; there are:\n{}",
                xtask::bench::list().trim_end()
            )
        }
    };
    if options.save {
        let file = report.save(options.results.as_deref())?;
        eprintln!("written to {}", file.display());
    }
    if options.output == "json" {
        println!("{}", serde_json::to_string_pretty(&report).context("cannot write the result")?);
    } else {
        print!("{}", report.table());
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = Options::parse();
    match xtask::proc::stop_everything_on_signals().and_then(|()| run(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}
