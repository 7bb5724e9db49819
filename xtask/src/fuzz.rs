//! Random requests against the API of a running site: no server error, no undocumented answer.

use crate::suite::Counts;
use crate::{install, proc, root, site::Site, target_dir};
use anyhow::{Context, Result};
use std::process::Command;
use std::time::Duration;

/// A fixed seed: the same requests each time, so that a failure is a change of ours.
const SEED: &str = "20260101";
/// Random requests for each operation.
const EXAMPLES: &str = "30";
/// The whole fuzz takes no longer.
const CAP: Duration = Duration::from_secs(9 * 60);
/// What is checked. Left out: that every well-formed request is accepted (an unknown project or
/// an impossible gang is well-formed and refused).
const CHECKS: &str = "not_a_server_error,status_code_conformance,content_type_conformance,\
                      response_headers_conformance,response_schema_conformance,\
                      negative_data_rejection,missing_required_header,unsupported_method,\
                      ignored_auth";

/// Starts a site of two simulated nodes from the development build and fuzzes it.
pub fn run() -> Result<Counts> {
    let st = install::schemathesis()?;
    let binary = target_dir().join("debug/muster");
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
        .args(["--max-examples", EXAMPLES, "--seed", SEED, "--workers", "2"])
        .args(["--request-timeout", "20", "--continue-on-failure", "--no-shrink"])
        .args(["--warnings", "off", "--no-color"])
        // Keeps what it learned between runs otherwise: not the same requests each time.
        .args(["--generation-database", "none"])
        .env("SCHEMATHESIS_HOOKS", root().join("xtask/fuzz/hooks.py"))
        .env("PYTHONDONTWRITEBYTECODE", "1")
        .current_dir(site.scratch());
    let (status, output) = proc::tee(&mut command, CAP)?;
    site.must_be_running().context("the server did not survive the fuzz")?;
    let mut counts = operations(&output);
    if status.success() {
        // The coverage of its output may change; that it passed does not.
        counts.passed = counts.passed.max(1);
        counts.failed = 0;
    } else {
        counts.failed = counts.failed.max(1);
    }
    Ok(counts)
}

/// The fuzzer's words on how many operations it went through: the line of its summary.
fn operations(output: &str) -> Counts {
    let number_before = |word: &str| {
        output
            .lines()
            .rev()
            .find_map(|line| {
                let words: Vec<&str> =
                    line.split(|c: char| !c.is_alphanumeric()).filter(|w| !w.is_empty()).collect();
                let place = words.iter().position(|w| *w == word)?;
                words.get(place.checked_sub(1)?)?.parse::<u64>().ok()
            })
            .unwrap_or(0)
    };
    Counts { passed: number_before("passed"), failed: number_before("failed"), skipped: 0 }
}
