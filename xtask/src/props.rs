//! The property tests with fresh seeds: every change is judged by the same cases
//! (`.cargo/config.toml`), so other cases are looked at here.

use crate::{cargo, postgres, proc, root};
use anyhow::{Context, Result, bail};
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The variable that proptest takes its seed from.
const SEED: &str = "PROPTEST_RNG_SEED";

/// A package, and those of its targets that hold property tests, as cargo is asked for them.
type Targets = (String, Vec<String>);

/// Rounds over all property tests, each with its own seed, until the time is over; at least one.
pub fn run(first_seed: u64, minutes: u64) -> Result<ExitCode> {
    let all = targets(&root().join("crates"))?;
    // Some of them are about stores.
    let database = postgres::ForTests::get()?;
    let until = Instant::now() + Duration::from_secs(minutes * 60);
    let (mut seed, mut rounds) = (first_seed, 0);
    while rounds == 0 || Instant::now() < until {
        eprintln!("\n=== property tests, {SEED}={seed}");
        for (package, which) in &all {
            let mut command = cargo();
            command.env(SEED, seed.to_string()).env("MUSTER_TEST_POSTGRES", database.url());
            command.args(["test", "-p", package]).args(which);
            // One that hangs is a failure, not a long round.
            let (status, _) = proc::tee(&mut command, Duration::from_secs(3600))?;
            if !status.success() {
                println!("a property of {package} does not hold with {SEED}={seed}; repeat with:");
                println!("{SEED}={seed} cargo test -p {package} {}", which.join(" "));
                return Ok(ExitCode::FAILURE);
            }
        }
        seed = seed.wrapping_add(1);
        rounds += 1;
    }
    println!("property tests passed: {rounds} rounds, seeds from {first_seed}");
    Ok(ExitCode::SUCCESS)
}

/// Every package with property tests.
fn targets(crates: &Path) -> Result<Vec<Targets>> {
    let mut all = Vec::new();
    for dir in entries(crates)? {
        let dir = crates.join(dir);
        let mut which = BTreeSet::new();
        if holds_any(&dir.join("src"))? {
            which.insert("--lib".to_owned());
        }
        let tests = dir.join("tests");
        for name in if tests.is_dir() { entries(&tests)? } else { Vec::new() } {
            if holds_any(&tests.join(&name))? {
                which.insert(format!("--test={}", target(&tests, &name)?));
            }
        }
        if !which.is_empty() {
            let name = dir.file_name().unwrap_or_default().to_string_lossy();
            all.push((format!("muster-{name}"), which.into_iter().collect()));
        }
    }
    Ok(all)
}

/// The test program that a file or folder of `tests` is part of. What belongs to none would never
/// be run, so that is an error.
fn target(tests: &Path, name: &str) -> Result<String> {
    let stem = name.strip_suffix(".rs").unwrap_or(name);
    let whole = [format!("{stem}.rs"), format!("{stem}/main.rs")];
    if !whole.iter().any(|p| tests.join(p).is_file()) {
        bail!("{}: its property tests belong to no test program", tests.join(name).display());
    }
    Ok(stem.to_owned())
}

/// Whether a file, or one of a folder's, holds property tests.
fn holds_any(path: &Path) -> Result<bool> {
    if path.is_dir() {
        for name in entries(path)? {
            if holds_any(&path.join(name))? {
                return Ok(true);
            }
        }
        return Ok(false);
    }
    if path.extension().is_none_or(|e| e != "rs") {
        return Ok(false);
    }
    let text =
        fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
    Ok(["proptest! {", "TestRunner::new("].iter().any(|mark| text.contains(mark)))
}

/// Names in a folder, in order.
fn entries(dir: &Path) -> Result<Vec<String>> {
    let list = fs::read_dir(dir).with_context(|| format!("cannot list {}", dir.display()))?;
    let mut names = Vec::new();
    for entry in list {
        names.push(entry?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn property_tests_are_found_where_they_are() {
        let all = targets(&root().join("crates")).unwrap();
        let of = |package: &str| all.iter().find(|(p, _)| p == package).map(|(_, w)| w.as_slice());
        assert_eq!(of("muster-model"), Some(&["--lib".to_owned()][..]));
        let health = of("muster-health").unwrap();
        for which in ["--lib", "--test=corpus", "--test=detect"] {
            assert!(health.iter().any(|w| w == which), "{which} in {health:?}");
        }
        assert_eq!(of("muster-testkit"), None);
    }

    #[test]
    fn every_change_is_judged_by_the_same_cases() {
        // Cargo gives it to whatever it runs, this test too.
        let set = std::env::var(SEED).expect("set in .cargo/config.toml");
        assert!(set.parse::<u64>().is_ok(), "{set}");
    }
}
