//! `cargo xtask soak`: the long versions of tests.

use crate::{cargo, postgres, proc};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::process::ExitCode;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// What `cargo xtask soak` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which test.
    #[arg(value_enum, default_value = "crash")]
    which: Which,
    /// Stop after this long; what is done by then counts.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    /// Kills per store.
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Repeat an earlier run; a fresh one otherwise.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Which {
    /// Kill a loaded server at random moments and at failpoints, restart, compare.
    Crash,
    /// Live long scenarios in the simulator.
    Sim,
}

/// Runs it.
pub fn run(options: &Options) -> Result<ExitCode> {
    match options.which {
        Which::Crash => crash(options),
        Which::Sim => {
            eprintln!("error: there is no simulator to soak yet");
            Ok(ExitCode::from(2))
        }
    }
}

fn crash(options: &Options) -> Result<ExitCode> {
    let seed = match options.seed {
        Some(seed) => seed,
        // Only has to differ from run to run, and is printed so that a run can be repeated.
        None => SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .context("the clock stands before 1970")?
            .as_nanos() as u64,
    };
    let database = postgres::ForTests::get()?;
    eprintln!("crash test: {} kills per store, seed {seed}", options.kills);
    let mut command = cargo();
    command
        .env("MUSTER_TEST_POSTGRES", database.url())
        .env("MUSTER_CRASH_KILLS", options.kills.to_string())
        .env("MUSTER_CRASH_SEED", seed.to_string())
        .env("MUSTER_CRASH_MINUTES", options.minutes.to_string())
        .args(["test", "-p", "muster-server", "-p", "muster-cli", "--test", "crash"])
        .args(["--", "--nocapture", "--test-threads=1"]);
    // The test ends by itself when its minutes are over; building and the last round come on top.
    let cap = Duration::from_secs((options.minutes + 20) * 60);
    let (status, output) = proc::tee(&mut command, cap)
        .with_context(|| format!("repeat with --seed {seed} --kills {}", options.kills))?;
    if output.contains("no test target named") {
        bail!("the crash test (tests/crash.rs of the server or the CLI) is not there");
    }
    if !status.success() {
        eprintln!("repeat with: cargo xtask soak crash --seed {seed} --kills {}", options.kills);
        return Ok(ExitCode::FAILURE);
    }
    println!("crash test passed: seed {seed}");
    Ok(ExitCode::SUCCESS)
}
