//! `cargo xtask soak`: the long versions of tests.

use crate::{cargo, postgres, proc, props};
use anyhow::{Context, Result};
use clap::ValueEnum;
use std::process::ExitCode;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What `cargo xtask soak` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which test; all of them, one after the other, when none is named.
    #[arg(value_enum)]
    which: Option<Which>,
    /// Begin no further round after this long; what is done by then counts.
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
    /// Live fresh random lives of a whole site, every invariant checked after every event.
    Sim,
    /// Run the property tests with fresh seeds.
    Props,
    /// Live the scenarios that take minutes, and hold them to what they expect.
    Year,
}

/// Runs it.
pub fn run(options: &Options) -> Result<ExitCode> {
    let which = match options.which {
        Some(one) => vec![one],
        None => vec![Which::Sim, Which::Crash, Which::Props, Which::Year],
    };
    for test in which {
        let code = match test {
            Which::Crash => crash(options)?,
            Which::Sim => sim(options)?,
            Which::Props => props::run(first_seed(options)?, options.minutes)?,
            Which::Year => year()?,
        };
        if code != ExitCode::SUCCESS {
            return Ok(code);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// Kills of one round: long enough for several snapshots, short enough to stop in time.
const ROUND: u32 = 100;

/// Rounds, each with its own seed, until there were enough kills or time is over.
fn crash(options: &Options) -> Result<ExitCode> {
    let first_seed = first_seed(options)?;
    let database = postgres::ForTests::get()?;
    let until = Instant::now() + Duration::from_secs(options.minutes * 60);
    let mut done = 0;
    let mut seed = first_seed;
    while done < options.kills && Instant::now() < until {
        let kills = ROUND.min(options.kills - done);
        eprintln!("\n=== {kills} kills per store, seed {seed}");
        let mut command = cargo();
        command
            .env("MUSTER_TEST_POSTGRES", database.url())
            .env("MUSTER_CRASH_KILLS", kills.to_string())
            .env("MUSTER_CRASH_SEED", seed.to_string())
            .args(["test", "-p", "muster-cli", "--test", "crash"])
            .args(["--", "--nocapture", "--test-threads=1"]);
        let repeat = format!("repeat with: cargo xtask soak crash --seed {seed} --kills {kills}");
        // A round that hangs is a failure, not a long round.
        let (status, _) =
            proc::tee(&mut command, Duration::from_secs(3600)).with_context(|| repeat.clone())?;
        if !status.success() {
            println!("crash test failed after {done} kills per store; {repeat}");
            return Ok(ExitCode::FAILURE);
        }
        done += kills;
        seed = seed.wrapping_add(1);
    }
    let short = if done < options.kills {
        format!(" ({} were asked for; the {} minutes are over)", options.kills, options.minutes)
    } else {
        String::new()
    };
    println!("crash test passed: {done} kills per store{short}, seeds from {first_seed}");
    Ok(ExitCode::SUCCESS)
}

/// The seed that was asked for, or a fresh one.
fn first_seed(options: &Options) -> Result<u64> {
    match options.seed {
        Some(seed) => Ok(seed),
        // Only has to differ from run to run, and is printed so that a run can be repeated.
        None => Ok(SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .context("the clock stands before 1970")?
            .as_secs()),
    }
}

/// Random lives of a whole site with fresh seeds. One that ends badly is shrunk and printed by
/// the test itself, ready to be kept.
fn sim(options: &Options) -> Result<ExitCode> {
    let first = first_seed(options)?;
    let minutes = options.minutes;
    eprintln!("\n=== fresh lives for {minutes} minutes, seeds from {first}");
    let mut command = cargo();
    command
        .env("MUSTER_SIM_MINUTES", minutes.to_string())
        .env("MUSTER_SIM_SEED", first.to_string())
        .env("RUST_BACKTRACE", "0")
        .args(["test", "--release", "-p", "muster-sim", "--test", "system"])
        .args(["--", "--nocapture", "--exact", "fresh_lives_for_as_long_as_was_asked_for"]);
    // The build, the time asked for, and shrinking; what takes longer hangs.
    let limit = Duration::from_secs(minutes * 60 + 3600);
    let (status, _) = proc::tee(&mut command, limit)?;
    if !status.success() {
        println!("a life ended badly: its seed and its shortest form are above");
        return Ok(ExitCode::FAILURE);
    }
    println!("simulated lives passed: {minutes} minutes, seeds from {first}");
    Ok(ExitCode::SUCCESS)
}

/// The scenarios of the library that are too long for every change.
fn year() -> Result<ExitCode> {
    let mut command = cargo();
    command.args(["test", "--release", "-p", "muster-sim", "--test", "library"]).args([
        "--",
        "--ignored",
        "--nocapture",
        "--test-threads=1",
    ]);
    let (status, _) = proc::tee(&mut command, Duration::from_secs(3 * 3600))?;
    if !status.success() {
        println!("a long scenario did not live up to what it expects");
        return Ok(ExitCode::FAILURE);
    }
    println!("the long scenarios passed");
    Ok(ExitCode::SUCCESS)
}
