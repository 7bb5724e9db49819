//! Reads what callgrind writes.

use anyhow::{Context, Result};
use std::collections::BTreeMap;

/// What was counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Counts {
    pub(super) instructions: u64,
    /// Calls of the C library's functions that allocate: Rust's own allocator calls these.
    pub(super) allocations: u64,
}

const ALLOCATE: [&str; 5] = ["malloc", "calloc", "realloc", "posix_memalign", "aligned_alloc"];

/// Reads a file of callgrind's format: `fn=(12) name` or `cfn=(12) name` names a function the first
/// time, later only its number stands there; `calls=N …` says how often the function of the last
/// `cfn=` was called from one place; `summary: N` is everything.
pub(super) fn read(text: &str) -> Result<Counts> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut called = "";
    let mut allocations = 0;
    let mut instructions = None;
    for line in text.lines() {
        if let Some(function) = line.strip_prefix("cfn=") {
            called = named(function, &mut names);
        } else if let Some(function) = line.strip_prefix("fn=") {
            named(function, &mut names);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            if ALLOCATE.contains(&called) {
                let times = calls.split_whitespace().next().and_then(|n| n.parse::<u64>().ok());
                allocations += times.with_context(|| format!("callgrind wrote {line:?}"))?;
            }
        } else if let Some(all) = line.strip_prefix("summary:") {
            instructions = all.split_whitespace().next().and_then(|n| n.parse().ok());
        }
    }
    let instructions = instructions.context("callgrind wrote no summary")?;
    Ok(Counts { instructions, allocations })
}

/// The name behind `(12) name` or `(12)`.
fn named<'a>(function: &'a str, names: &mut BTreeMap<&'a str, &'a str>) -> &'a str {
    match function.split_once(' ') {
        Some((number, name)) => {
            names.insert(number, name);
            name
        }
        None => names.get(function).copied().unwrap_or(function),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instructions_and_calls_that_allocate_are_read() {
        let text = "version: 1\nevents: Ir\nsummary: 56287\n\nfn=(2) work\n16 12\ncfi=(4) malloc.c\n\
                    cfn=(6) malloc\ncalls=1 3281 \n0 189\ncfn=(8) free\ncalls=100 3350 \n0 16798\n\
                    cfn=(6)\ncalls=99 3281 \n0 18711\n\nfn=(10) realloc\n5 5\n\nfn=(12) more\n\
                    cfn=(10)\ncalls=7 3394 \n0 14100\ncfn=(14) _int_malloc\ncalls=9 1 \n\
                    totals: 56287\n";
        assert_eq!(read(text).unwrap(), Counts { instructions: 56_287, allocations: 107 });
    }

    #[test]
    fn a_file_that_is_cut_off_is_an_error() {
        assert!(read("version: 1\nevents: Ir\n").unwrap_err().to_string().contains("summary"));
        assert!(read("summary: many\n").is_err());
        assert!(read("summary: 1\ncfn=(1) malloc\ncalls=\n").is_err());
    }
}
