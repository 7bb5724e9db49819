//! `cargo xtask test`: everything that must pass, in one run, counted.

use crate::{cargo, fuzz, install, postgres, proc, root, web};
use anyhow::{Context, Result, bail};
use clap::ValueEnum;
use std::fmt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// What `cargo xtask test` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Run this part only (may be given several times).
    #[arg(long, value_enum, value_name = "NAME")]
    only: Vec<Part>,
}

/// A part of the run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Part {
    /// Compile everything, tests and benchmarks too.
    Build,
    /// All tests, those against PostgreSQL included.
    Unit,
    /// The examples in the documentation.
    Doc,
    /// Random requests against the API of a running site.
    Fuzz,
    /// The web console, in a real browser too.
    Web,
}

/// How many tests did what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// They passed.
    pub passed: u64,
    /// They failed.
    pub failed: u64,
    /// They were not run.
    pub skipped: u64,
}

impl std::ops::AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} skipped", self.passed, self.failed, self.skipped)
    }
}

/// Runs the parts one after the other; later parts run even when an earlier one failed, except
/// that nothing runs when it does not compile.
pub fn run(options: &Options) -> Result<ExitCode> {
    let began = Instant::now();
    let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
    let mut total = Counts::default();
    if wanted(Part::Build) {
        heading("build");
        build()?;
    }
    if wanted(Part::Unit) || wanted(Part::Doc) {
        heading("PostgreSQL for the tests");
        let database = postgres::ForTests::get()?;
        eprintln!("at {}", database.url());
        if wanted(Part::Unit) {
            install::parts();
            heading("tests");
            total += unit(&database.url())?;
        }
        if wanted(Part::Doc) {
            heading("examples in the documentation");
            total += doc(&database.url())?;
        }
    }
    if wanted(Part::Fuzz) {
        heading("API fuzz");
        total += match fuzz::run() {
            Ok(counts) => counts,
            Err(error) => {
                eprintln!("error: API fuzz: {error:#}");
                Counts { failed: 1, ..Counts::default() }
            }
        };
    }
    if wanted(Part::Web) {
        heading("web console");
        total += match web::test() {
            Ok(counts) => counts,
            Err(error) => {
                eprintln!("error: web console: {error:#}");
                Counts { failed: 1, ..Counts::default() }
            }
        };
    }
    eprintln!("\ntook {} s", began.elapsed().as_secs());
    println!("{total}");
    Ok(if total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn heading(what: &str) {
    eprintln!("\n=== {what}");
}

fn build() -> Result<()> {
    let (status, _) = proc::tee_within(
        cargo().args(["build", "--workspace", "--all-targets"]),
        Duration::from_secs(30 * 60),
    )?;
    if !status.success() {
        bail!("it does not compile");
    }
    Ok(())
}

fn unit(database: &str) -> Result<Counts> {
    let cap = Duration::from_secs(30 * 60);
    let mut command = cargo();
    command.env("MUSTER_TEST_POSTGRES", database);
    let nextest = proc::which("cargo-nextest").is_some();
    if nextest {
        command.args(["nextest", "run", "--workspace", "--no-fail-fast", "--no-tests=pass"]);
        // Colours would be in the way of reading the counts.
        command.args(["--color", "never"]);
    } else {
        command.args([
            "test",
            "--workspace",
            "--all-targets",
            "--no-fail-fast",
            "--color",
            "never",
        ]);
    }
    let (status, output) = proc::tee_within(&mut command, cap)?;
    let counts = if nextest { nextest_counts(&output) } else { libtest_counts(&output) };
    judge("the tests", status, counts)
}

fn doc(database: &str) -> Result<Counts> {
    let packages = packages_with_examples(&root().join("crates"))?;
    if packages.is_empty() {
        eprintln!("none");
        return Ok(Counts::default());
    }
    let mut command = cargo();
    command.env("MUSTER_TEST_POSTGRES", database).args(["test", "--doc", "--color", "never"]);
    for package in packages {
        command.args(["-p", &package]);
    }
    let (status, output) = proc::tee_within(&mut command, Duration::from_secs(15 * 60))?;
    judge("the examples", status, libtest_counts(&output))
}

/// A run that failed without saying which test did still counts as one failure.
fn judge(what: &str, status: std::process::ExitStatus, counts: Option<Counts>) -> Result<Counts> {
    let mut counts = counts.unwrap_or_default();
    if !status.success() && counts.failed == 0 {
        eprintln!("error: {what} ended with {status}");
        counts.failed = 1;
    }
    Ok(counts)
}

/// Library packages whose documentation has fenced code.
fn packages_with_examples(crates: &Path) -> Result<Vec<String>> {
    let mut packages = Vec::new();
    for entry in std::fs::read_dir(crates).context("cannot list the crates")? {
        let dir = entry?.path();
        if dir.join("src/lib.rs").is_file() && has_examples(&dir.join("src"))? {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            packages.push(format!("muster-{name}"));
        }
    }
    packages.sort();
    Ok(packages)
}

fn has_examples(src: &Path) -> Result<bool> {
    let mut todo: Vec<PathBuf> = vec![src.to_path_buf()];
    while let Some(dir) = todo.pop() {
        for entry in std::fs::read_dir(&dir)? {
            let path = entry?.path();
            if path.is_dir() {
                todo.push(path);
            } else if path.extension().is_some_and(|e| e == "rs")
                && std::fs::read_to_string(&path)?.lines().any(|line| {
                    let line = line.trim_start();
                    ["/// ```", "//! ```"].iter().any(|fence| {
                        line.strip_prefix(fence).is_some_and(|kind| {
                            // The closing fence looks like an opening one without a kind; text
                            // and data are no examples.
                            kind.is_empty()
                                || kind.starts_with("rust")
                                || kind.starts_with("no_run")
                        })
                    })
                })
            {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Reads `Summary [1.2s] 7 tests run: 5 passed (1 slow), 2 failed, 3 skipped`.
fn nextest_counts(output: &str) -> Option<Counts> {
    let line = output.lines().rfind(|l| l.trim_start().starts_with("Summary ["))?;
    let mut counts = Counts::default();
    // Remarks in brackets have commas of their own: `5 passed (2 slow, 1 leaky)`.
    let mut plain = String::new();
    let mut depth = 0;
    for c in line.split_once("run:")?.1.chars() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            c if depth == 0 => plain.push(c),
            _ => {}
        }
    }
    for part in plain.split(',') {
        let mut words = part.split_whitespace();
        let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
        match words.next() {
            Some("passed") => counts.passed += number,
            Some("skipped") => counts.skipped += number,
            // failed, timed out, exec failed
            _ => counts.failed += number,
        }
    }
    Some(counts)
}

/// Adds up `test result: ok. 3 passed; 0 failed; 1 ignored; …`.
fn libtest_counts(output: &str) -> Option<Counts> {
    let mut counts = Counts::default();
    let mut any = false;
    for line in output.lines().filter_map(|l| l.trim().strip_prefix("test result:")) {
        any = true;
        for part in line.split([';', '.']) {
            let mut words = part.split_whitespace();
            let Some(number) = words.next().and_then(|n| n.parse::<u64>().ok()) else { continue };
            match words.next() {
                Some("passed") => counts.passed += number,
                Some("failed") => counts.failed += number,
                Some("ignored") => counts.skipped += number,
                _ => {}
            }
        }
    }
    any.then_some(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_counts_of_nextest_are_read() {
        let text = "    Starting 7 tests\n     Summary [  12.060s] 9 tests run: 5 passed (1 slow, 1 leaky), \
                    2 failed, 1 timed out, 1 exec failed, 3 skipped\n";
        let counts = nextest_counts(text).unwrap();
        assert_eq!(counts, Counts { passed: 5, failed: 4, skipped: 3 });
        assert_eq!(nextest_counts("error: could not compile"), None);
    }

    #[test]
    fn the_counts_of_several_test_programs_are_added() {
        let text = "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured; 0 filtered out; \
                    finished in 0.01s\ntest result: FAILED. 2 passed; 1 failed; 0 ignored; 0 \
                    measured; 0 filtered out; finished in 0.00s\n";
        let counts = libtest_counts(text).unwrap();
        assert_eq!(counts, Counts { passed: 5, failed: 1, skipped: 1 });
    }
}
