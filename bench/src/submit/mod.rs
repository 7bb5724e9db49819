//! Submissions per second, start latency and trivial jobs per second: ours beside a real Slurm
//! and a bare PostgreSQL insert loop, one after the other on the same disk.

mod inserts;
mod ours;
mod theirs;

use crate::Options;
use crate::report::Report;
use crate::slurm;
use anyhow::Result;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How much is done.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    /// Length of one load.
    load: Duration,
    /// Programs started for one latency.
    starts: usize,
    /// Trivial jobs run to their end.
    jobs: u64,
}

/// Clients of the API at once.
const CLIENTS: [usize; 2] = [1, 64];
/// Submitting processes at once.
const PROCESSES: [usize; 2] = [1, 4];
/// With work that waits, and with work that runs meanwhile.
const HOLD: [bool; 2] = [true, false];

const PER_SECOND: &str = "1/s";

pub(crate) fn run(options: &Options) -> Result<Report> {
    let size = if options.quick {
        Size { load: Duration::from_secs(3), starts: 7, jobs: 500 }
    } else {
        Size { load: Duration::from_secs(10), starts: 30, jobs: 2000 }
    };
    let mut report = Report::new("submit");
    if options.measures("theirs") {
        if slurm::available(options.install)? {
            theirs::measure(options, size, &mut report)?;
        } else {
            eprintln!(
                "Slurm is not installed, or we are not root: no peer (--install installs it)"
            );
        }
    }
    let submits = if options.measures("ours") {
        Some(ours::measure(options, size, &mut report)?)
    } else {
        None
    };
    if options.measures("theirs") {
        inserts::measure(options, size, submits.as_deref(), &mut report)?;
    }
    report.note("ratio: ours divided by theirs; for times (ms), smaller is better.");
    report.note(
        "Ours answers after the event is synced to disk (SQLite, synchronous=FULL). Slurm answers \
         after writing the script, without a sync, and saves its state in the background.",
    );
    Ok(report)
}

/// The name of a case: `_1` and `_64` say how many at once, `_unheld` that the work may start.
fn api_case(clients: usize, hold: bool) -> String {
    format!("submits_per_s_{clients}{}", if hold { "" } else { "_unheld" })
}

fn cli_case(parallel: usize, hold: bool) -> String {
    let parallel = if parallel == 1 { String::new() } else { format!("_{parallel}") };
    format!("cli_submits_per_s{parallel}{}", if hold { "" } else { "_unheld" })
}

/// Milliseconds from starting the program to the first line it prints, once.
fn first_line(mut command: Command) -> Result<f64> {
    let began = Instant::now();
    let mut child =
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
    let mut line = String::new();
    if let Some(out) = child.stdout.take() {
        BufReader::new(out).read_line(&mut line)?;
    }
    let took = crate::stats::ms(began.elapsed());
    let status = child.wait()?;
    anyhow::ensure!(
        status.success() && !line.is_empty(),
        "{} ended with {status} and printed {line:?}",
        xtask::proc::describe(&command)
    );
    Ok(took)
}
