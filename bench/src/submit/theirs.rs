//! Slurm's side.

use super::{CLIENTS, HOLD, PER_SECOND, PROCESSES, Size, api_case, cli_case, first_line};
use crate::Options;
use crate::load::{Load, processes};
use crate::report::Report;
use crate::slurm::Slurm;
use crate::stats::percentile;
use anyhow::{Context, Result, ensure};
use std::process::Command;
use std::time::{Duration, Instant};
use xtask::proc::check;

pub(super) fn measure(options: &Options, size: Size, report: &mut Report) -> Result<()> {
    eprintln!("Slurm: start");
    for hold in HOLD {
        // A fresh one each time: jobs that still wait would slow down what comes after.
        for clients in CLIENTS {
            let slurm = Slurm::start(&options.scratch())?;
            let name = format!("{} slurmrestd", slurm.version());
            let load = Load {
                target: slurm.rest()?,
                path: Slurm::submit_path(),
                body: slurm.job(hold).to_string().into(),
                accepted,
            };
            let outcome = load.run(clients, size.load)?;
            if hold {
                let held = slurm.held()? as u64;
                ensure!(held >= outcome.accepted, "Slurm holds {held} of {}", outcome.accepted);
            }
            report.theirs(&api_case(clients, hold), PER_SECOND, &name, outcome.per_s, true);
            eprintln!(
                "    p50 {:.1} ms, p99 {:.1} ms, {} accepted, {} connections",
                outcome.p50_ms, outcome.p99_ms, outcome.accepted, outcome.connects
            );
        }
        for parallel in PROCESSES {
            let slurm = Slurm::start(&options.scratch())?;
            let name = format!("{} sbatch", slurm.version());
            let outcome = processes(|| sbatch(&slurm, hold), parallel, size.load, u64::MAX)?;
            report.theirs(&cli_case(parallel, hold), PER_SECOND, &name, outcome.per_s, true);
        }
    }
    let slurm = Slurm::start(&options.scratch())?;
    start_latency(&slurm, size, report)?;
    jobs(&slurm, size, report)
}

fn sbatch(slurm: &Slurm, hold: bool) -> Command {
    let mut command = slurm.command("sbatch");
    if hold {
        command.arg("--hold");
    }
    command.args(["-o", "/dev/null", "--wrap", "true"]);
    command
}

/// Not an error, though it stands among them: the job waits on hold, as asked.
const HELD: u64 = 2042;

fn accepted(status: u16, body: &[u8]) -> bool {
    let Ok(answer) = serde_json::from_slice::<serde_json::Value>(body) else { return false };
    status == 200
        && answer["errors"].as_array().into_iter().flatten().all(|e| e["error_code"] == HELD)
        && answer["job_id"].as_u64().is_some_and(|id| id > 0)
}

fn start_latency(slurm: &Slurm, size: Size, report: &mut Report) -> Result<()> {
    let srun = || {
        let mut command = slurm.command("srun");
        command.args(["echo", "here"]);
        command
    };
    first_line(srun())?;
    let mut samples = (0..size.starts).map(|_| first_line(srun())).collect::<Result<Vec<f64>>>()?;
    let p50 = percentile(&mut samples, 50.0).context("nothing was started")?;
    let name = format!("{} srun", slurm.version());
    report.theirs("start_ms_p50", "ms", &name, p50, false);
    report.theirs("start_api_ms_p50", "ms", &name, p50, false);
    Ok(())
}

fn jobs(slurm: &Slurm, size: Size, report: &mut Report) -> Result<()> {
    let patience = Duration::from_secs(600);
    let version = slurm.version();
    let mut case = |name: &str, how: &str, began: Instant| {
        let rate = size.jobs as f64 / began.elapsed().as_secs_f64();
        let peer = format!("{version} {how}");
        report.theirs(name, PER_SECOND, &peer, rate, true);
        report.theirs("jobs_per_s", PER_SECOND, &peer, rate, true);
    };
    let before = slurm.completed()?;
    let began = Instant::now();
    let mut array = sbatch(slurm, false);
    array.arg(format!("--array=0-{}", size.jobs - 1));
    check(&mut array)?;
    slurm.wait_completed(before + size.jobs, patience)?;
    case("jobs_per_s_array", "sbatch --array", began);

    let before = slurm.completed()?;
    let began = Instant::now();
    processes(|| sbatch(slurm, false), 4, patience, size.jobs)?;
    slurm.wait_completed(before + size.jobs, patience)?;
    case("jobs_per_s_loop", "sbatch loop, 4 at once", began);
    Ok(())
}
