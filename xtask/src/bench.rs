//! `cargo xtask bench`: builds for release and runs one benchmark of `bench/`.

use crate::bench_stale::{self, SavedResult};
use crate::{bench_build, cargo, proc, root, target_dir};
use anyhow::{Context, Result, bail};
use std::fmt::Write as _;
use std::fs;
use std::process::{Command, ExitCode};

/// The benchmarks there are, and what each measures.
pub const BENCHMARKS: &[(&str, &str)] = &[
    ("submit", "submissions, start latency and trivial jobs per second, compared with Slurm"),
    ("agent", "what watching a node costs it: processor time, memory, lines of the kernel's log"),
    ("agents", "cost of many connected nodes to the server, and how fast they come back"),
    ("slurm", "jobs placed per second on 1,024 and 4,096 nodes, compared with Slurm"),
    (
        "scheduler",
        "cost of a plan, a cycle and a claim on up to 125,000 nodes, and starts per second",
    ),
    ("topology", "gangs inside one leaf, compared with best fit and Slurm's tree rule"),
    ("openb", "GPUs in use when 130% is asked for, on 13 mixes, compared with FGD"),
    ("backfill", "mean bounded slowdown on logs of real machines, and as published"),
    (
        "forecast",
        "share of jobs that start inside the forecast range, compared with Slurm; cost of explain",
    ),
    ("sim", "speed of the simulator, and its results compared with formulas"),
    ("ui", "the web console before 100,000 GPUs: first paint, frames, memory, open consoles"),
    ("health", "share of faults that are detected, and how soon, and as published"),
    (
        "history",
        "metrics over time of 100,000 GPUs: cores, bytes, answers, compared with VictoriaMetrics",
    ),
    ("pressure", "a tenant's submits and the probes while others take all that they can get"),
    (
        "growth",
        "a server with a log of 10,000,000 records: its start, memory, pages, submits, bytes on disk",
    ),
    ("build", "the first build of a fresh clone, unit by unit; with --ci all that must pass"),
];

/// What `cargo xtask bench` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// The benchmark's name.
    #[arg(required_unless_present = "list")]
    name: Option<String>,
    /// Name the benchmarks, and say whether their newest saved results are stale.
    #[arg(long)]
    list: bool,
    /// How the result is printed.
    #[arg(short, long, value_name = "FORMAT", default_value = "table", value_parser = ["table", "json"])]
    pub(crate) output: String,
    /// A short run of the same thing.
    #[arg(long)]
    pub(crate) quick: bool,
    /// build: also what a change must pass, in a fresh clone and once more.
    #[arg(long)]
    pub(crate) ci: bool,
    /// Install the peers that are missing.
    #[arg(long)]
    install: bool,
    /// Also write the result to bench/results/.
    #[arg(long)]
    pub(crate) save: bool,
    /// Everything random follows from it, where the benchmark has anything random.
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Passed on to the benchmark (see `-- --help`).
    #[arg(last = true)]
    rest: Vec<String>,
    /// Number of simulated nodes, where the benchmark has any.
    #[arg(long, value_name = "N")]
    nodes: Option<u32>,
}

/// The names, one a line, with what they measure.
#[must_use]
pub fn list() -> String {
    BENCHMARKS.iter().map(|(name, what)| format!("{name:<10} {what}\n")).collect()
}

/// The names as in [`list`], each with its newest saved result below it.
fn list_with_results() -> Result<String> {
    let dir = root().join("bench/results");
    let mut files = Vec::new();
    for entry in fs::read_dir(&dir).with_context(|| format!("cannot read {}", dir.display()))? {
        files.extend(entry?.file_name().into_string());
    }
    let mut text = String::new();
    for (name, what) in BENCHMARKS {
        let saved = match bench_stale::newest(name, &files) {
            None => None,
            Some((file, date)) => {
                let file = dir.join(file);
                let result = fs::read_to_string(&file)
                    .with_context(|| format!("cannot read {}", file.display()))?;
                let commit = bench_stale::commit_of(&result);
                let changes = commit.as_ref().and_then(|c| changes_since(&c.hash, name));
                Some(SavedResult { date: date.into(), commit, changes })
            }
        };
        let mark = bench_stale::mark(saved.as_ref());
        let _ = writeln!(text, "{name:<10} {what}\n{:<10} {mark}", "");
    }
    Ok(text)
}

/// How many commits have changed what a benchmark measures; none if git does not know the commit.
fn changes_since(commit: &str, benchmark: &str) -> Option<u64> {
    let counted = Command::new("git")
        .args(["rev-list", "--count", &format!("{commit}..HEAD"), "--"])
        .args(bench_stale::measured(benchmark))
        .current_dir(root())
        .output()
        .ok()?;
    let count = String::from_utf8(counted.stdout).ok()?;
    counted.status.success().then(|| count.trim().parse().ok()).flatten()
}

/// Runs it.
pub fn run(options: &Options) -> Result<ExitCode> {
    if options.list {
        print!("{}", list_with_results()?);
        return Ok(ExitCode::SUCCESS);
    }
    let name = options.name.as_deref().context("which benchmark? (--list names them)")?;
    if !BENCHMARKS.iter().any(|(known, _)| *known == name) {
        bail!("there is no benchmark {name:?}; there are:\n{}", list().trim_end());
    }
    // Needs nothing of what the others are built with.
    if name == "build" {
        return bench_build::run(options);
    }
    let built = cargo()
        .args(["build", "--release", "-p", "muster-bench", "-p", "muster-cli"])
        .args(if name == "health" { &["-p", "muster-faultgen"][..] } else { &[] })
        .status()
        .context("cannot start cargo")?;
    if !built.success() {
        bail!("it does not compile");
    }
    let mut command = Command::new(target_dir().join("release/muster-bench"));
    command.arg(name).args(["--output", &options.output]);
    for (flag, given) in
        [("--quick", options.quick), ("--install", options.install), ("--save", options.save)]
    {
        if given {
            command.arg(flag);
        }
    }
    if let Some(nodes) = options.nodes {
        command.args(["--nodes", &nodes.to_string()]);
    }
    if let Some(seed) = options.seed {
        command.args(["--seed", &seed.to_string()]);
    }
    command.args(&options.rest);
    let status = proc::foreground(&mut command)?;
    Ok(if status.success() { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_marks_every_benchmark() {
        let text = list_with_results().unwrap();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), 2 * BENCHMARKS.len(), "{text}");
        for (pair, (name, _)) in lines.chunks(2).zip(BENCHMARKS) {
            assert!(pair[0].starts_with(name), "{text}");
            let marks = ["current: ", "stale: ", "commit unknown: ", "never: "];
            assert!(marks.iter().any(|m| pair[1].trim_start().starts_with(m)), "{text}");
        }
    }

    #[test]
    fn a_commit_that_git_does_not_know_has_no_count() {
        assert_eq!(changes_since("0000000000000000000000000000000000000000", "submit"), None);
    }
}
