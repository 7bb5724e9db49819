//! What became of every soak: one line of JSON each, kept with the sources, so that a test that
//! has not run for long is seen.

use super::SoakKind;
use anyhow::{Context, Result};
use clap::ValueEnum;
use serde::{Deserialize, Serialize};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};

/// One run of one soak.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Record {
    /// The name of the soak, as the command takes it.
    pub(super) soak: String,
    /// When it began, in UTC.
    pub(super) date: String,
    /// Of which sources; with `+` when they differed from it.
    pub(super) commit: String,
    /// Its first seed, where anything is random.
    pub(super) seed: Option<u64>,
    /// How long it took.
    pub(super) seconds: u64,
    /// `passed` or `failed`.
    pub(super) outcome: String,
    /// The same in words.
    pub(super) what: String,
}

impl Record {
    fn passed(&self) -> bool {
        self.outcome == "passed"
    }
}

/// Where they are kept.
pub(super) fn file() -> PathBuf {
    crate::root().join("bench/results/soak.jsonl")
}

/// Adds one.
pub(super) fn append(file: &Path, record: &Record) -> Result<()> {
    let mut line = serde_json::to_string(record)?;
    line.push('\n');
    File::options()
        .create(true)
        .append(true)
        .open(file)
        .and_then(|mut file| file.write_all(line.as_bytes()))
        .with_context(|| format!("cannot write {}", file.display()))
}

/// All there are, oldest first.
pub(super) fn read(file: &Path) -> Result<Vec<Record>> {
    let text = match fs::read_to_string(file) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => String::new(),
        other => other.with_context(|| format!("cannot read {}", file.display()))?,
    };
    let lines = text.lines().enumerate().filter(|(_, line)| !line.trim().is_empty());
    lines
        .map(|(i, line)| {
            serde_json::from_str(line)
                .with_context(|| format!("{}:{}: no record of a soak", file.display(), i + 1))
        })
        .collect()
}

/// For each soak when it last ran, how that ended, and when it last passed.
pub(super) fn table(records: &[Record]) -> String {
    let mut text = String::new();
    for which in SoakKind::value_variants() {
        let name = which.name();
        let runs = || records.iter().rev().filter(|record| record.soak == name);
        let _ = match runs().next() {
            None => writeln!(text, "{name:<8} never ran"),
            Some(last) => writeln!(
                text,
                "{name:<8} {} {} ({}, {} s): {}",
                last.outcome, last.date, last.commit, last.seconds, last.what
            ),
        };
        if runs().next().is_some_and(|last| !last.passed()) {
            let _ = match runs().find(|record| record.passed()) {
                None => writeln!(text, "{:<8} never passed", ""),
                Some(good) => {
                    writeln!(text, "{:<8} last passed {} ({})", "", good.date, good.commit)
                }
            };
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(soak: &str, date: &str, outcome: &str) -> Record {
        Record {
            soak: soak.into(),
            date: date.into(),
            commit: "0123abcd".into(),
            seed: Some(7),
            seconds: 60,
            outcome: outcome.into(),
            what: "so many kills".into(),
        }
    }

    #[test]
    fn what_is_written_is_read_back_in_order() {
        let dir = crate::proc::TempDir::new("soak-test").unwrap();
        let file = dir.path().join("soak.jsonl");
        assert_eq!(read(&file).unwrap(), []);
        let runs = [record("crash", "2026-01-01", "passed"), record("sim", "2026-01-02", "failed")];
        for run in &runs {
            append(&file, run).unwrap();
        }
        assert_eq!(read(&file).unwrap(), runs);
        assert_eq!(fs::read_to_string(&file).unwrap().lines().count(), 2);
        fs::write(&file, "\n{\"soak\": 1}\n").unwrap();
        assert!(read(&file).unwrap_err().to_string().contains("soak.jsonl:2"));
    }

    #[test]
    fn a_soak_that_failed_says_when_it_last_passed() {
        let table = table(&[
            record("crash", "2026-01-01", "passed"),
            record("crash", "2026-01-02", "failed"),
            record("sim", "2026-01-03", "failed"),
            record("sim", "2026-01-04", "passed"),
            record("year", "2026-01-05", "failed"),
        ]);
        let lines: Vec<&str> = table.lines().collect();
        assert_eq!(
            lines,
            [
                "crash    failed 2026-01-02 (0123abcd, 60 s): so many kills",
                "         last passed 2026-01-01 (0123abcd)",
                "sim      passed 2026-01-04 (0123abcd, 60 s): so many kills",
                "truth    never ran",
                "year     failed 2026-01-05 (0123abcd, 60 s): so many kills",
                "         never passed",
                "props    never ran",
                "benches  never ran",
                "fuzz     never ran",
                "fabric   never ran",
                "deny     never ran",
                "lint     never ran",
            ]
        );
    }

    #[test]
    fn what_is_kept_can_be_read() {
        read(&file()).unwrap();
    }
}
