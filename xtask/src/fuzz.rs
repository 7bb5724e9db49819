//! Random requests against the API of a running site: no server error, no undocumented answer.

use crate::suite::Counts;
use crate::{built, install, proc, root, site::Site};
use anyhow::{Context, Result, bail};
use std::process::Command;
use std::time::Duration;

/// A fixed seed: the same requests each time, so that a failure is a change of ours.
const SEED: u64 = 20_260_101;
/// How many requests are sent.
#[derive(Debug, Clone, Copy)]
pub struct FuzzLimits {
    /// Random ones for each operation.
    pub examples: u32,
    /// Of those that go through an operation's description place by place, every so many.
    pub every: u32,
}

/// With every change; `cargo xtask soak fuzz` sends more.
const SMALL: FuzzLimits = FuzzLimits { examples: 5, every: 5 };
/// A server that answers nothing makes every request wait for its own end. A fuzz that gets
/// answers takes minutes, on a busy machine too.
const CAP: Duration = Duration::from_secs(60 * 60);
/// What is checked. Left out: that every well-formed request is accepted (an unknown project or
/// an impossible gang is well-formed and refused).
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,missing_required_header,unsupported_method,\
                      ignored_auth";

/// What every change must pass.
pub fn run() -> Result<Counts> {
    run_with(SEED, SMALL)
}

/// Starts a site of two simulated nodes from the tests' build and fuzzes it.
pub fn run_with(seed: u64, dose: FuzzLimits) -> Result<Counts> {
    let st = install::schemathesis()?;
    let binary = built::muster()?;
    let mut site =
        Site::start(&binary, &std::env::temp_dir(), &["up", "--nodes", "2", "--no-context"], &[])
            .context("cannot start a site to fuzz")?;
    let mut command = Command::new(st);
    command
        .arg("run")
        .arg(format!("{}/openapi.json", site.url()))
        .args(["--url", &site.url()])
        .args(["--header", &format!("Authorization: Bearer {}", site.token())])
        .args(["--phases", "examples,coverage,fuzzing"])
        .args(["--checks", CHECKS])
        .args(["--max-examples", &dose.examples.to_string(), "--seed", &seed.to_string()])
        .args(["--workers", "1"])
        .args(["--request-timeout", "60", "--continue-on-failure", "--no-shrink"])
        .args(["--warnings", "off", "--no-color"])
        // Keeps what it learned between runs otherwise: not the same requests each time.
        .args(["--generation-database", "none"])
        .env("SCHEMATHESIS_HOOKS", root().join("xtask/fuzz/hooks.py"))
        .env("MUSTER_FUZZ_EVERY", dose.every.to_string())
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(site.scratch());
    let (status, output) = proc::tee_within(&mut command, CAP)?;
    site.must_be_running().context("the server did not survive the fuzz")?;
    let mut counts = operations(&output);
    if !status.success() {
        counts.failed = counts.failed.max(1);
    } else if counts.passed == 0 {
        bail!("the fuzz passed without having tested anything");
    }
    Ok(counts)
}

/// Counts operations: tested ones from the fuzzer's summary, failed ones by their headings
/// (`____ GET /v1/jobs ____`).
fn operations(output: &str) -> Counts {
    let tested = output
        .lines()
        .find_map(|l| l.trim().strip_prefix("Tested:")?.trim().parse::<u64>().ok())
        .unwrap_or(0);
    let failed = output
        .lines()
        .filter_map(|l| l.strip_prefix('_')?.strip_suffix('_'))
        .map(|l| l.trim_matches(['_', ' ']))
        .filter(|l| !l.is_empty())
        .collect::<std::collections::BTreeSet<_>>()
        .len() as u64;
    Counts { passed: tested.saturating_sub(failed), failed, skipped: 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_are_counted_from_what_the_fuzzer_says() {
        let good = "API Operations:\n  Selected: 31/31\n  Tested: 31\n";
        assert_eq!(operations(good), Counts { passed: 31, failed: 0, skipped: 0 });
        let bad = "=== FAILURES ===\n_______ GET /v1/jobs _______\n1. Test Case ID: x\n\
                   ____ POST /v1/jobs ____\n  Selected: 9/9\n  Tested: 9\n";
        assert_eq!(operations(bad), Counts { passed: 7, failed: 2, skipped: 0 });
    }
}
