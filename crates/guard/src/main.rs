//! Fixed pieces of work whose cost is guarded, one to a process: `cargo xtask guard` runs each
//! under callgrind, which counts what is done inside [`guard_measured`] and nothing else.
//!
//! A case does the same every time: no clock, no randomness, one thread. What a case needs first
//! (a fleet, a queue) is made outside of what is counted. `muster-guard --list` names them.

mod api;
mod cluster;
mod node_reports;
mod simulator;
mod site;

use std::process::ExitCode;

/// What a case wrote, where it writes.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq, serde::Serialize)]
struct WriteCounts {
    records: u64,
    bytes: u64,
}

/// What of a case is counted.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Counted {
    /// Instructions and allocations as well.
    All,
    /// Only what it writes: several threads work on it, and each run takes other turns.
    Written,
}

struct Case {
    name: &'static str,
    counted: Counted,
    work: fn() -> WriteCounts,
}

/// What takes longest comes first: cases run beside each other.
static CASES: &[Case] = &[
    Case { name: "cycle-12500", counted: Counted::All, work: || cluster::cycles(12_500) },
    Case { name: "sim-quarter", counted: Counted::All, work: simulator::quarter },
    Case { name: "records-10000", counted: Counted::All, work: site::records },
    Case { name: "console-frame", counted: Counted::All, work: site::console_frame },
    Case { name: "cycle-1000", counted: Counted::All, work: || cluster::cycles(1000) },
    Case { name: "submit", counted: Counted::All, work: site::submit },
    Case { name: "telemetry-row", counted: Counted::All, work: node_reports::telemetry_rows },
    Case { name: "heartbeat", counted: Counted::All, work: || node_reports::heartbeats(false) },
    Case { name: "submit-http", counted: Counted::Written, work: api::submit },
];

/// Not listed: a heartbeat that costs more on purpose, which the guard must notice.
static SLOW: Case =
    Case { name: "heartbeat-slow", counted: Counted::All, work: || node_reports::heartbeats(true) };

/// Callgrind begins to count when this is entered, and stops when it is left. It is found by its
/// name, which no other function may contain.
#[inline(never)]
fn guard_measured(work: &mut dyn FnMut()) {
    work();
}

/// Does the work where it is counted.
fn measured<T>(work: impl FnOnce() -> T) -> T {
    let mut work = Some(work);
    let mut out = None;
    guard_measured(&mut || out = work.take().map(|w| w()));
    out.expect("it was done")
}

fn main() -> ExitCode {
    let asked = std::env::args().nth(1).unwrap_or_default();
    if asked == "--list" {
        for case in CASES {
            let counted = if case.counted == Counted::All { "all" } else { "written" };
            println!("{} {counted}", case.name);
        }
        return ExitCode::SUCCESS;
    }
    let Some(case) = CASES.iter().chain([&SLOW]).find(|c| c.name == asked) else {
        eprintln!("error: there is no case {asked:?}; `muster-guard --list` names them");
        return ExitCode::FAILURE;
    };
    match serde_json::to_string(&(case.work)()) {
        Ok(line) => {
            println!("{line}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
