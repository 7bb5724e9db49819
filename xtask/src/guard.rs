//! `cargo xtask guard`: what fixed pieces of work cost, counted and compared with what is kept in
//! the repository. Instructions and allocations are counted by callgrind, records and bytes by the
//! work itself (`crates/guard`): a busy machine changes none of them.

mod callgrind;
mod cost;

pub use cost::{Baselines, Cost, Verdict, compare};

use crate::proc::{TempDir, check, which};
use crate::{built, install, root, suite};
use anyhow::{Context, Result, bail, ensure};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// What `cargo xtask guard` takes.
#[derive(Debug, clap::Args)]
pub struct Options {
    /// Keep what is counted as the new baselines; the commit says why a count grew.
    #[arg(long)]
    write: bool,
}

/// The program that does the work.
pub(crate) const PROGRAM: &str = "muster-guard";
/// Its function that is counted.
const MEASURED: &str = "*guard_measured*";
/// A case, and the same with a tenth of its work done twice, which must be noticed.
const SLOWED: (&str, &str) = ("heartbeat", "heartbeat-slow");

fn baselines_file() -> PathBuf {
    root().join("crates/guard/baselines.toml")
}

/// Counts, and compares or keeps.
pub fn run(options: &Options) -> Result<ExitCode> {
    if !install::program("valgrind", "valgrind")? {
        bail!("callgrind counts the instructions: install valgrind");
    }
    let program = Program::build()?;
    if options.write {
        write(&count(&program)?)?;
        return Ok(ExitCode::SUCCESS);
    }
    let counts = judged(&program)?;
    println!("{counts}");
    Ok(if counts.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// A copy of `muster-guard` in a directory of its own. It is built without what is kept between
/// compilations; another build, which runs beside it, may put its own in the same place.
#[derive(Debug)]
pub struct Program(TempDir);

impl Program {
    fn build() -> Result<Program> {
        let (built, dir) = (built::guard()?, TempDir::new("guard")?);
        let copy = Program(dir);
        fs::copy(&built, copy.file())
            .with_context(|| format!("cannot copy {}", built.display()))?;
        Ok(copy)
    }

    fn file(&self) -> PathBuf {
        self.0.path().join(PROGRAM)
    }
}

/// What `cargo xtask test` needs before it counts; none where valgrind is missing and need not be
/// there.
pub fn prepare() -> Result<Option<Program>> {
    if install::program("valgrind", "valgrind")? { Program::build().map(Some) } else { Ok(None) }
}

/// As a part of `cargo xtask test`: every case is a test.
pub fn test(program: Option<&Program>) -> Result<suite::Counts> {
    match program {
        Some(program) => judged(program),
        None => Ok(suite::Counts { skipped: 1, ..suite::Counts::default() }),
    }
}

fn judged(program: &Program) -> Result<suite::Counts> {
    let file = baselines_file();
    let kept = fs::read_to_string(&file).with_context(|| {
        format!("cannot read {} (`cargo xtask guard --write` makes it)", file.display())
    })?;
    let kept: Baselines =
        toml::from_str(&kept).with_context(|| format!("cannot parse {}", file.display()))?;
    let verdict = compare(&kept, &count(program)?);
    for line in &verdict.lines {
        eprintln!("{line}");
    }
    if verdict.failed > 0 {
        eprintln!(
            "what must cost more is kept with `cargo xtask guard --write`; the same commit says why"
        );
    }
    Ok(suite::Counts { passed: verdict.passed, failed: verdict.failed, skipped: 0 })
}

fn write(found: &Baselines) -> Result<()> {
    let file = baselines_file();
    let before = fs::read_to_string(&file).ok().and_then(|text| toml::from_str(&text).ok());
    if let Some(before) = before {
        for line in compare(&before, found).lines {
            eprintln!("{line}");
        }
    }
    let text = format!(
        "# Written by `cargo xtask guard --write`. The commit that makes a count grow says why.\n{}",
        toml::to_string(found)?
    );
    fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))?;
    println!("{} cases kept in {}", found.cases.len(), file.display());
    Ok(())
}

/// One line of `muster-guard --list`.
struct Case {
    name: String,
    /// Instructions and allocations as well as what it writes.
    instructions: bool,
}

/// Counts every case, as many at a time as there are processors: none can disturb another.
fn count(program: &Program) -> Result<Baselines> {
    let (program, dir) = (program.file(), program.0.path());
    let list = check(Command::new(&program).arg("--list"))?;
    let mut cases: Vec<Case> = list
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(name, what)| Case { name: name.into(), instructions: what == "all" })
        .collect();
    ensure!(cases.iter().any(|c| c.name == SLOWED.0), "{PROGRAM} has no case {}", SLOWED.0);
    cases.push(Case { name: SLOWED.1.into(), instructions: true });

    let todo = Mutex::new(cases.iter());
    let done = Mutex::new(BTreeMap::new());
    let next = || todo.lock().unwrap_or_else(PoisonError::into_inner).next();
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                while let Some(case) = next() {
                    let began = Instant::now();
                    let cost = cost_of(case, &program, dir);
                    eprintln!("{:>8.1} s  {}", began.elapsed().as_secs_f64(), case.name);
                    let mut done = done.lock().unwrap_or_else(PoisonError::into_inner);
                    done.insert(case.name.clone(), cost);
                }
            });
        }
    });
    let done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
    let mut costs = BTreeMap::new();
    for (name, cost) in done {
        let cost = cost.with_context(|| format!("cannot count {name}"))?;
        costs.insert(name, cost);
    }
    let mut found = Baselines { made_by: made_by()?, cases: costs };
    ensure!(
        notices_a_slow_down(&mut found),
        "{} does a tenth more than {} and was not noticed: the guard is blind",
        SLOWED.1,
        SLOWED.0
    );
    Ok(found)
}

/// Takes the slowed case out, and compares its instructions with those of the other, as if it were
/// the same case after a change.
fn notices_a_slow_down(found: &mut Baselines) -> bool {
    let Some(slow) = found.cases.remove(SLOWED.1) else { return false };
    let Some(fast) = found.cases.get(SLOWED.0) else { return false };
    let only = |cost: &Cost| Baselines {
        made_by: found.made_by.clone(),
        cases: BTreeMap::from([(
            SLOWED.0.to_owned(),
            Cost { instructions: cost.instructions, ..Cost::default() },
        )]),
    };
    compare(&only(fast), &only(&slow)).failed > 0
}

/// What a case says it wrote.
#[derive(Deserialize)]
struct WriteCounts {
    records: u64,
    bytes: u64,
}

fn cost_of(case: &Case, program: &Path, dir: &Path) -> Result<Cost> {
    let out = dir.join(format!("{}.out", case.name));
    let mut command = if case.instructions {
        let valgrind = which("valgrind").context("valgrind is not here any more")?;
        let mut command = Command::new(valgrind);
        command
            .args(["--tool=callgrind", "--demangle=no"])
            .arg(format!("--toggle-collect={MEASURED}"))
            .arg(format!("--callgrind-out-file={}", out.display()))
            .arg(program);
        command
    } else {
        Command::new(program)
    };
    // Whatever is set here moves the stack, and may make a case say more.
    let said = check(command.arg(&case.name).env_clear().current_dir(dir))?;
    let WriteCounts { records, bytes } = serde_json::from_str(said.trim())
        .with_context(|| format!("{PROGRAM} {} said {said:?}", case.name))?;
    let mut cost = Cost { instructions: None, allocations: None, records, bytes };
    if case.instructions {
        let text =
            fs::read(&out).with_context(|| format!("callgrind wrote no {}", out.display()))?;
        let counts = callgrind::read(&String::from_utf8_lossy(&text))?;
        ensure!(counts.instructions > 0, "nothing was counted: no function is like {MEASURED}");
        cost.instructions = Some(counts.instructions);
        cost.allocations = Some(counts.allocations);
    }
    Ok(cost)
}

/// What instructions depend on, beside the code.
fn made_by() -> Result<String> {
    let rustc = std::env::var_os("RUSTC").unwrap_or_else(|| "rustc".into());
    let rustc = check(Command::new(rustc).arg("-V").current_dir(root()))?;
    let valgrind = check(Command::new("valgrind").arg("--version"))?;
    let libc = check(Command::new("getconf").arg("GNU_LIBC_VERSION")).unwrap_or_default();
    let processor = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let wide = processor.lines().any(|l| l.starts_with("flags") && l.contains(" avx2 "));
    let parts = [rustc.trim(), valgrind.trim(), libc.trim(), if wide { "AVX2" } else { "no AVX2" }];
    Ok(parts.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(fast: u64, slow: u64) -> Baselines {
        let cost = |n| Cost { instructions: Some(n), ..Cost::default() };
        let cases = [(SLOWED.0.to_owned(), cost(fast)), (SLOWED.1.to_owned(), cost(slow))];
        Baselines { made_by: "a".into(), cases: BTreeMap::from(cases) }
    }

    #[test]
    fn a_guard_that_does_not_notice_a_slow_down_is_blind() {
        let mut seen = found(1_000_000, 1_100_000);
        assert!(notices_a_slow_down(&mut seen));
        assert_eq!(seen.cases.keys().collect::<Vec<_>>(), [SLOWED.0], "it is no case to keep");
        assert!(!notices_a_slow_down(&mut found(1_000_000, 1_010_000)));
        assert!(!notices_a_slow_down(&mut seen), "nothing to compare with");
    }
}
