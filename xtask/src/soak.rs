//! `cargo xtask soak`: the long versions of tests.

mod deny;
#[cfg(test)]
mod ignored;
mod log;
mod props;

use crate::built::{self, SELECTION};
use crate::{cargo, fuzz, install, machine, postgres, proc, root, skips};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::process::{Command, ExitCode};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// What `cargo xtask soak` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Which test; all of them, one after the other, when none is named.
    #[arg(value_enum)]
    which: Option<SoakKind>,
    /// Say when each last ran and passed; run nothing.
    #[arg(long, conflicts_with = "which")]
    list: bool,
    /// Begin no further round after this long; what is done by then counts.
    #[arg(long, value_name = "N", default_value_t = 120, value_parser = clap::value_parser!(u64).range(1..=10_080))]
    minutes: u64,
    /// Kills per store.
    #[arg(long, default_value_t = 1000)]
    kills: u32,
    /// Random cases of each property in a round.
    #[arg(long, default_value_t = 4000)]
    cases: u32,
    /// Repeat an earlier run; a fresh one otherwise.
    #[arg(long)]
    seed: Option<u64>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum SoakKind {
    /// Kill a loaded server at random moments and at failpoints, restart, compare.
    Crash,
    /// Simulate fresh random histories of a whole site, every invariant checked after every event.
    Sim,
    /// Simulate fresh random histories, and compare what every reading endpoint answers.
    Truth,
    /// Simulate in full what every change only begins, and score many fleets.
    Year,
    /// Hold every property to many fresh random cases.
    Props,
    /// Run the tests of the benchmarks themselves.
    Benches,
    /// Send many fresh random requests to every operation of the API.
    Fuzz,
    /// Measure real links and the steps of real ranks, all there is of it.
    Fabric,
    /// Check what others wrote with cargo-deny, its advisories too where their database is at hand.
    Deny,
    /// Lint the tests too: every change lints what is shipped, the tools and the benchmarks.
    Lint,
}

impl SoakKind {
    fn name(self) -> &'static str {
        match self {
            SoakKind::Crash => "crash",
            SoakKind::Sim => "sim",
            SoakKind::Truth => "truth",
            SoakKind::Year => "year",
            SoakKind::Props => "props",
            SoakKind::Benches => "benches",
            SoakKind::Fuzz => "fuzz",
            SoakKind::Fabric => "fabric",
            SoakKind::Deny => "deny",
            SoakKind::Lint => "lint",
        }
    }

    /// Whether anything in it follows from a seed.
    fn is_random(self) -> bool {
        matches!(
            self,
            SoakKind::Crash | SoakKind::Sim | SoakKind::Truth | SoakKind::Props | SoakKind::Fuzz
        )
    }
}

/// How a soak ended, in words.
type Outcome = std::result::Result<String, String>;

/// Runs it, and keeps what became of it.
pub fn run(options: &Options) -> Result<ExitCode> {
    let file = log::file();
    if options.list {
        print!("{}", log::table(&log::read(&file)?));
        return Ok(ExitCode::SUCCESS);
    }
    let which = match options.which {
        Some(one) => vec![one],
        // The short ones first.
        None => {
            use SoakKind::{Benches, Crash, Deny, Fabric, Fuzz, Lint, Props, Sim, Truth, Year};
            vec![Deny, Lint, Fabric, Benches, Fuzz, Props, Sim, Truth, Crash, Year]
        }
    };
    for test in which {
        let seed = first_seed(options)?;
        let (date, commit, began) = (machine::now(), machine::commit(), Instant::now());
        let outcome = match test {
            SoakKind::Crash => crash(options, seed),
            SoakKind::Sim => sim(options, seed),
            SoakKind::Truth => truth(options, seed),
            SoakKind::Year => year(),
            SoakKind::Props => hold(options, seed),
            SoakKind::Benches => benches(),
            SoakKind::Fuzz => requests(seed),
            SoakKind::Fabric => fabric(),
            SoakKind::Deny => deny::check(),
            SoakKind::Lint => lint(),
        };
        // What could not be run to its end has not passed.
        let outcome = outcome.unwrap_or_else(|error| Err(format!("{error:#}")));
        let (word, what) = match &outcome {
            Ok(what) => ("passed", what),
            Err(what) => ("failed", what),
        };
        let record = log::Record {
            soak: test.name().into(),
            date,
            commit,
            seed: test.is_random().then_some(seed),
            seconds: began.elapsed().as_secs(),
            outcome: word.into(),
            what: what.clone(),
        };
        log::append(&file, &record)?;
        println!("{} {word}: {what}", test.name());
        if outcome.is_err() {
            return Ok(ExitCode::FAILURE);
        }
    }
    print!("\n{}", log::table(&log::read(&file)?));
    Ok(ExitCode::SUCCESS)
}

/// The seed that was asked for, or a fresh one.
fn first_seed(options: &Options) -> Result<u64> {
    match options.seed {
        Some(seed) => Ok(seed),
        // Only has to differ from run to run, and is kept so that a run can be repeated.
        None => Ok(SystemTime::now()
            .duration_since(UNIX_EPOCH)
            .context("the clock stands before 1970")?
            .as_secs()),
    }
}

/// Compiles before the clock of a round begins to run: how long that takes is up to the machine.
fn build(command: &mut Command) -> Result<()> {
    let (status, _) = proc::tee(command.arg("--no-run"))?;
    if !status.success() {
        bail!("it does not compile");
    }
    Ok(())
}

/// Kills of one round: long enough for several snapshots, short enough to stop in time.
const ROUND: u32 = 100;

/// Rounds, each with its own seed, until there were enough kills or time is over.
fn crash(options: &Options, first_seed: u64) -> Result<Outcome> {
    let database = postgres::ForTests::get()?;
    built::muster()?;
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
            .arg("test")
            .args(SELECTION)
            .args(["--test", "it", "--", "crash::", "--nocapture", "--test-threads=1"]);
        let repeat = format!("repeat with: cargo xtask soak crash --seed {seed} --kills {kills}");
        // A round that hangs is a failure, not a long round; its server is never quite idle.
        let (status, _) = proc::tee_within(&mut command, Duration::from_secs(2 * 3600))
            .with_context(|| repeat.clone())?;
        if !status.success() {
            return Ok(Err(format!("after {done} kills per store; {repeat}")));
        }
        done += kills;
        seed = seed.wrapping_add(1);
    }
    let short = if done < options.kills {
        format!(" ({} were asked for; the {} minutes are over)", options.kills, options.minutes)
    } else {
        String::new()
    };
    Ok(Ok(format!("{done} kills per store{short}, seeds from {first_seed}")))
}

/// Random histories of a whole site with fresh seeds. One that ends badly is shrunk and printed by
/// the test itself, ready to be kept.
fn sim(options: &Options, first: u64) -> Result<Outcome> {
    let minutes = options.minutes;
    eprintln!("\n=== fresh histories for {minutes} minutes, seeds from {first}");
    let test = || {
        let mut command = cargo();
        command.args(["test", "--release", "-p", "muster-sim", "--test", "it"]);
        command
    };
    build(&mut test())?;
    let mut command = test();
    command
        .env("MUSTER_SIM_MINUTES", minutes.to_string())
        .env("MUSTER_SIM_SEED", first.to_string())
        .env("RUST_BACKTRACE", "0")
        .args(["--", "--nocapture", "--exact", "system::fresh_histories_until_time_is_over"]);
    // The time asked for, and shrinking; what takes longer hangs.
    let limit = Duration::from_secs(minutes * 60 + 3600);
    let (status, _) = proc::tee_within(&mut command, limit)?;
    if !status.success() {
        return Ok(Err("a history failed: the run printed its seed and its shortest form".into()));
    }
    Ok(Ok(format!("{minutes} minutes of histories, seeds from {first}")))
}

/// Answers of every reading endpoint at moments of random histories. A contradiction is printed by
/// the test itself, with its seed.
fn truth(options: &Options, first: u64) -> Result<Outcome> {
    let minutes = options.minutes;
    eprintln!("\n=== answers about fresh histories for {minutes} minutes, seeds from {first}");
    let test = || {
        let mut command = cargo();
        command.args(["test", "-p", "muster-http", "--test", "it"]);
        command
    };
    build(&mut test())?;
    let mut command = test();
    command
        .env("MUSTER_TRUTH_MINUTES", minutes.to_string())
        .env("MUSTER_TRUTH_SEED", first.to_string())
        .env("RUST_BACKTRACE", "0")
        .args(["--", "--nocapture", "--exact", "truth::fresh_histories_until_time_is_over"]);
    // The time asked for, and the last history; what takes longer hangs.
    let limit = Duration::from_secs(minutes * 60 + 600);
    let (status, _) = proc::tee_within(&mut command, limit)?;
    if !status.success() {
        return Ok(Err("two answers contradict each other: the run printed them and the seed, \
                       which MUSTER_TRUTH_SEED repeats"
            .into()));
    }
    Ok(Ok(format!("{minutes} minutes of answers about histories, seeds from {first}")))
}

/// What is simulated in full here, and begins or is smaller with every change: the scenarios of the
/// library, the week of the demo, what was published, the histories of the first seeds; and the
/// scored fleets.
fn year() -> Result<Outcome> {
    const LONG: [(&str, &[&str]); 2] = [
        ("muster-sim", &["library::", "week::", "published::", "system::"]),
        ("muster-health", &["detect::score::"]),
    ];
    for (package, tests) in LONG {
        let test = || {
            let mut command = cargo();
            command.args(["test", "--release", "-p", package, "--test", "it"]);
            command
        };
        build(&mut test())?;
        let mut command = test();
        command.arg("--").args(tests);
        command.args(["--ignored", "--nocapture", "--test-threads=1"]);
        let (status, _) = proc::tee_within(&mut command, Duration::from_secs(6 * 3600))?;
        if !status.success() {
            let tests = tests.join(", ");
            return Ok(Err(format!("{tests} of {package}: one did not meet its expectations")));
        }
    }
    Ok(Ok("the whole scenarios, the week, what was published, many scored fleets".into()))
}

/// Every target, the tests with the rest; what of them is shipped is linted with every change.
fn lint() -> Result<Outcome> {
    let mut command = cargo();
    command.args(["clippy", "--workspace", "--all-targets", "--profile", "dev", "--keep-going"]);
    let (status, _) = proc::tee(command.args(["--", "-D", "warnings"]))?;
    Ok(if status.success() {
        Ok("every target, without a warning".into())
    } else {
        Err("clippy refused something: the run printed it".into())
    })
}

/// Nothing else picks tests out of all programs.
fn needs_nextest() -> Result<()> {
    if proc::which("cargo-nextest").is_none() {
        bail!("cargo-nextest is not installed");
    }
    Ok(())
}

/// Rounds of all properties, each with its own seed, until time is over.
fn hold(options: &Options, first_seed: u64) -> Result<Outcome> {
    needs_nextest()?;
    let filter = props::filter(&root().join("crates"))?;
    built::tests()?;
    let until = Instant::now() + Duration::from_secs(options.minutes * 60);
    let (mut rounds, mut seed) = (0, first_seed);
    let cases = options.cases;
    while rounds == 0 || Instant::now() < until {
        eprintln!("\n=== {cases} cases of every property, seed {seed}");
        let (mut command, _) = built::test_command()?;
        command
            .env("PROPTEST_CASES", cases.to_string())
            .env("PROPTEST_RNG_SEED", seed.to_string())
            // As many cases for each that counts may be thrown away as without being asked.
            .env("PROPTEST_MAX_GLOBAL_REJECTS", cases.saturating_mul(4).to_string())
            .env("PROPTEST_MAX_LOCAL_REJECTS", cases.saturating_mul(256).to_string())
            .args(["--profile", "soak", "-E", &filter]);
        let repeat = format!("repeat with: cargo xtask soak props --seed {seed} --cases {cases}");
        let (status, _) = proc::tee(&mut command).with_context(|| repeat.clone())?;
        if !status.success() {
            return Ok(Err(format!("a property does not hold, round {rounds}; {repeat}")));
        }
        rounds += 1;
        seed = seed.wrapping_add(1);
    }
    Ok(Ok(format!("{rounds} rounds of {cases} cases, seeds from {first_seed}")))
}

/// Requests of each operation in a soak.
const REQUESTS: fuzz::FuzzLimits = fuzz::FuzzLimits { examples: 200, every: 1 };

fn requests(seed: u64) -> Result<Outcome> {
    let counts = fuzz::run_with(seed, REQUESTS)?;
    let examples = REQUESTS.examples;
    let what = format!("{examples} random requests of each operation, seed {seed}: {counts}");
    Ok(if counts.failed == 0 { Ok(what) } else { Err(what) })
}

/// Whatever measures real speeds, one after the other with nothing beside it, as
/// `.config/nextest.toml` says.
fn fabric() -> Result<Outcome> {
    needs_nextest()?;
    install::components()?;
    built::tests()?;
    skips::clear()?;
    let (mut command, _) = built::test_command()?;
    command.env("MUSTER_TEST_SKIPS", skips::file());
    command.args(["--profile", "soak", "--run-ignored", "all", "-E"]);
    command.arg("package(muster-cli) & test(/^(fabric|straggler)::/)");
    let (status, _) = proc::tee(&mut command)?;
    if !status.success() {
        return Ok(Err("a slow link or rank was not found, or a healthy one was".into()));
    }
    // What was not measured has not passed.
    if let Some(skip) = skips::read().first() {
        return Ok(Err(skip.to_string()));
    }
    Ok(Ok("every test of real links and real steps".into()))
}

/// The benchmarks are not built with the tests, and their own tests not run with them.
fn benches() -> Result<Outcome> {
    let mut command = cargo();
    command.args(["test", "-p", "muster-bench"]);
    let (status, _) = proc::tee(&mut command)?;
    if !status.success() {
        return Ok(Err("a test of the benchmarks failed".into()));
    }
    Ok(Ok("the tests of the benchmarks".into()))
}
