//! `cargo xtask test`: everything that must pass, in one run, counted.

use crate::built::{self, Runner};
use crate::{fuzz, guard, install, junit, postgres, proc, root, skips, tee, web};
use anyhow::{Result, anyhow};
use clap::ValueEnum;
use std::fmt;
use std::fs;
use std::process::ExitCode;
use std::thread::{self, JoinHandle};
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
    /// Compile all tests, and with them the binary.
    Build,
    /// All tests, those against PostgreSQL included.
    Unit,
    /// What fixed pieces of work cost, compared with the baselines.
    Guard,
    /// Random requests against the API of a running site.
    Fuzz,
    /// The web console, in a real browser too.
    Web,
}

/// How many tests did what.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Tests that passed.
    pub passed: u64,
    /// Tests that failed.
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

/// How many of the slowest tests are named at the end.
const SLOWEST: usize = 20;

/// Runs the parts, the console's with the tests, the others after them at the same time; later parts run even when an earlier one
/// failed, except that nothing runs when it does not compile.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut run = Run::default();
    run.parts(options);
    eprint!("{}", run.closing());
    println!("{}", run.total);
    Ok(if run.total.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A part that counts, with its name.
type Work = (&'static str, Box<dyn FnOnce() -> Result<Counts> + Send>);

fn work(name: &'static str, what: impl FnOnce() -> Result<Counts> + Send + 'static) -> Work {
    (name, Box::new(what))
}

/// A part that runs while others do.
struct Started {
    name: &'static str,
    began: Instant,
    thread: JoinHandle<(Result<Counts>, Duration)>,
}

impl Started {
    fn new((name, what): Work) -> Started {
        eprintln!("\n=== {name}");
        let began = Instant::now();
        let thread = thread::spawn(move || (tee::named(name, what), began.elapsed()));
        Started { name, began, thread }
    }

    /// Waits for it: its name, how long it took and what came of it.
    fn join(self) -> (&'static str, Duration, Result<Counts>) {
        let began = self.began;
        let panicked = |_| (Err(anyhow!("it panicked")), began.elapsed());
        let (outcome, took) = self.thread.join().unwrap_or_else(panicked);
        (self.name, took, outcome)
    }
}

/// What has been done so far.
#[derive(Debug, Default)]
struct Run {
    total: Counts,
    steps: Vec<(&'static str, Duration)>,
    /// How long each took of what ran beside others.
    parallel: Vec<(&'static str, Duration)>,
    slowest: Vec<junit::Case>,
    /// Tests that could not run here, in their own words.
    skips: Vec<String>,
}

impl Run {
    fn parts(&mut self, options: &Options) {
        let wanted = |part: Part| options.only.is_empty() || options.only.contains(&part);
        if wanted(Part::Build) && self.step("build", built::tests).is_none() {
            return;
        }
        let mut tests_against = None;
        if wanted(Part::Unit) {
            if self.step("what the tests run against", install::components).is_none() {
                return;
            }
            tests_against = self.database(muster_testkit::required(), postgres::ForTests::get);
        }
        // It takes the longest and waits for most of its time, so the tests run meanwhile. It begins
        // after the components are there: two installations at a time would be in each other's way.
        let web = wanted(Part::Web).then(|| Started::new(work("web console", web::test)));
        if let Some(database) = tests_against {
            let url = database.as_ref().map(postgres::ForTests::url);
            self.counted("tests", || unit(url.as_deref()));
            self.reported_by_tests();
        }
        // None of these measures how long anything takes.
        let mut rest = Vec::new();
        if wanted(Part::Guard)
            && let Some(program) = self.step("what the cost guard counts", guard::prepare)
        {
            rest.push(Started::new(work("cost guard", move || guard::test(program.as_ref()))));
        }
        if wanted(Part::Fuzz) {
            rest.push(Started::new(work("API fuzz", fuzz::run)));
        }
        rest.extend(web);
        self.join(rest);
    }

    /// Waits for what runs at the same time, and counts it: all of it is one step.
    fn join(&mut self, started: Vec<Started>) {
        if started.is_empty() {
            return;
        }
        let began = Instant::now();
        let ended: Vec<_> = started.into_iter().map(Started::join).collect();
        self.steps.push(("what runs in parallel", began.elapsed()));
        for (name, took, outcome) in ended {
            self.parallel.push((name, took));
            match outcome {
                Ok(counts) => {
                    eprintln!("=== {name}: {counts}");
                    self.total += counts;
                }
                Err(error) => {
                    eprintln!("error: {name}: {error:#}");
                    self.total.failed += 1;
                }
            }
        }
    }

    /// What the tests of the stores run against. Where not everything is required, a machine without
    /// one runs the others: those that need it skip themselves, and are counted.
    fn database<T>(
        &mut self,
        required: bool,
        get: impl FnOnce() -> Result<T>,
    ) -> Option<Option<T>> {
        self.step("PostgreSQL", || match get() {
            Err(error) if !required => {
                eprintln!("warning: {error:#}; tests that need PostgreSQL are skipped");
                Ok(None)
            }
            other => other.map(Some),
        })
    }

    /// Does one thing and keeps how long it took; an error is a failure.
    fn step<T>(&mut self, name: &'static str, what: impl FnOnce() -> Result<T>) -> Option<T> {
        eprintln!("\n=== {name}");
        let began = Instant::now();
        let outcome = what();
        self.steps.push((name, began.elapsed()));
        outcome
            .inspect_err(|error| {
                eprintln!("error: {name}: {error:#}");
                self.total.failed += 1;
            })
            .ok()
    }

    fn counted(&mut self, name: &'static str, what: impl FnOnce() -> Result<Counts>) {
        if let Some(counts) = self.step(name, what) {
            self.total += counts;
        }
    }

    /// What the tests wrote beside their output: how long each took, and which could not run.
    fn reported_by_tests(&mut self) {
        let text = fs::read_to_string(junit::file(&root())).unwrap_or_default();
        self.slowest = junit::slowest(&text, SLOWEST);
        self.skips = skips::read().iter().map(ToString::to_string).collect();
        // For who ran it, a test that gave up at its beginning has passed. Nobody is counted twice.
        let skipped = self.skips.len() as u64;
        self.total.skipped += skipped;
        self.total.passed = self.total.passed.saturating_sub(skipped);
    }

    /// All that is worth knowing at the end, but for the counts.
    fn closing(&self) -> String {
        let mut text = String::new();
        let mut list = |title: &str, lines: Vec<String>| {
            if !lines.is_empty() {
                text += &format!("\n=== {title}\n{}\n", lines.join("\n"));
            }
        };
        list("the slowest tests", self.slowest.iter().map(ToString::to_string).collect());
        list("skipped by the tests themselves", self.skips.clone());
        let all: Duration = self.steps.iter().map(|(_, took)| *took).sum();
        let steps = self.steps.iter().copied().chain([("altogether", all)]);
        let line =
            |(name, took): (&str, Duration)| format!("{:>8.1} s  {name}", took.as_secs_f64());
        list("in parallel", self.parallel.iter().copied().map(line).collect());
        list("steps", steps.map(line).collect());
        text
    }
}

fn unit(database: Option<&str>) -> Result<Counts> {
    let (mut command, runner) = built::test_command()?;
    if let Some(url) = database {
        eprintln!("at {url}");
        command.env("MUSTER_TEST_POSTGRES", url);
    }
    skips::clear()?;
    command.env("MUSTER_TEST_SKIPS", skips::file());
    // What an earlier run wrote is not about this one.
    let _ = fs::remove_file(junit::file(&root()));
    if runner == Runner::Nextest {
        command.args(["--profile", "ci", "--no-tests=pass"]);
        // For each processor one of each of four kinds: see `.config/nextest.toml`.
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        command.args(["--test-threads", &(4 * processors).to_string()]);
    }
    let (status, output) = proc::tee(&mut command)?;
    let counts = match runner {
        Runner::Nextest => nextest_counts(&output),
        Runner::Libtest => libtest_counts(&output),
    };
    // A run that failed without saying which test did still counts as one failure.
    let mut counts = counts.unwrap_or_default();
    if !status.success() && counts.failed == 0 {
        eprintln!("error: the tests ended with {status}");
        counts.failed = 1;
    }
    Ok(counts)
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

    #[test]
    fn without_a_database_the_other_tests_run_unless_everything_is_required() {
        let mut run = Run::default();
        assert_eq!(run.database::<u8>(false, || Err(anyhow!("no PostgreSQL"))), Some(None));
        assert_eq!(run.total.failed, 0);
        assert_eq!(run.database::<u8>(true, || Err(anyhow!("no PostgreSQL"))), None);
        assert_eq!(run.total.failed, 1);
        assert_eq!(run.database(true, || Ok(7)), Some(Some(7)));
    }

    #[test]
    fn a_step_that_fails_is_counted_and_timed_and_the_next_one_runs() {
        let mut run = Run::default();
        run.counted("one", || Ok(Counts { passed: 3, failed: 1, skipped: 0 }));
        run.counted("two", || anyhow::bail!("no such thing"));
        run.counted("three", || Ok(Counts { passed: 4, failed: 0, skipped: 2 }));
        assert_eq!(run.total, Counts { passed: 7, failed: 2, skipped: 2 });
        assert_eq!(run.total.to_string(), "7 passed, 2 failed, 2 skipped");
        let text = run.closing();
        assert!(!text.contains("slowest") && !text.contains("skipped"), "{text}");
        let names: Vec<&str> =
            text.lines().filter_map(|line| line.split_once(" s  ")).map(|(_, name)| name).collect();
        assert_eq!(names, ["one", "two", "three", "altogether"]);
    }

    #[test]
    fn what_runs_beside_others_is_counted_each_and_is_one_step() {
        let mut run = Run::default();
        let passed = || Ok(Counts { passed: 2, failed: 0, skipped: 1 });
        run.join(Vec::new());
        run.join(vec![
            Started::new(work("one", passed)),
            Started::new(work("two", || anyhow::bail!("no such thing"))),
            Started::new(work("three", || panic!("a bug of ours"))),
        ]);
        assert_eq!(run.total, Counts { passed: 2, failed: 2, skipped: 1 });
        let names =
            |of: &[(&'static str, Duration)]| of.iter().map(|(n, _)| *n).collect::<Vec<_>>();
        assert_eq!(names(&run.steps), ["what runs in parallel"]);
        assert_eq!(names(&run.parallel), ["one", "two", "three"]);
        assert!(run.closing().contains("=== in parallel"));
    }

    #[test]
    fn what_the_tests_reported_stands_before_the_steps() {
        let case = junit::Case { program: "p".into(), name: "t".into(), seconds: 61.25 };
        let run = Run {
            steps: vec![("build", Duration::from_millis(312_440))],
            slowest: vec![case],
            skips: vec!["p::u: no GPU here".into()],
            ..Run::default()
        };
        let expected = "
=== the slowest tests
    61.2 s  p t

=== skipped by the tests themselves
p::u: no GPU here

=== steps
   312.4 s  build
   312.4 s  altogether
";
        assert_eq!(run.closing(), expected);
    }
}
