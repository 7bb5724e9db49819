//! How many trivial attempts one node gets through: `cargo run --release --example throughput`
//! with how many in all and how many at a time. Prints a rate; what is good depends on the
//! machine.

use muster_agent::cgroup::Cgroups;
use muster_agent::runner::{RankBudget, Runner, RunnerConfig, ShimCommand};
use muster_agent::testing::detail;
use muster_model::command::Observed;
use muster_model::ids::{AttemptKey, JobId};
use std::sync::Arc;
use std::time::{Duration, Instant};

fn main() -> std::io::Result<()> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    if args.first().is_some_and(|a| a == muster_agent::shim::SHIM_ARG) {
        muster_agent::shim::main();
    }
    let number =
        |i: usize, default: u64| args.get(i).and_then(|a| a.parse().ok()).unwrap_or(default);
    let (all, at_a_time) = (number(0, 500), number(1, 64));
    let groups =
        if args.iter().any(|a| a == "--no-groups") { Cgroups::none() } else { Cgroups::detect() };
    let dir = tempfile::tempdir()?;
    let mut runner = Runner::open(RunnerConfig {
        state: dir.path().to_path_buf(),
        node: "bench-1".parse().expect("a valid name"),
        shim: ShimCommand::this_executable(),
        cgroups: Arc::new(groups),
        log_cap: 1 << 20,
        budget: RankBudget::unlimited(),
    })?;
    let runtime =
        tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    runtime.block_on(async { runner.watch_changes() });
    let wake = runner.waker();
    let mut order = detail("");
    order.run.script = None;
    order.run.command = vec!["true".into()];
    let (mut next, mut up, mut done) = (0, 0, 0);
    let from = Instant::now();
    while done < all {
        while up < at_a_time && next < all {
            next += 1;
            up += 1;
            runner.start(AttemptKey { job: JobId(next), attempt: 1 }, &order, Instant::now());
        }
        // What a session does at each wake.
        let now = Instant::now();
        runner.poll(now, false);
        runner.logs(1 << 20);
        let changed = runner.poll(now, true);
        runner.progress_reports(now);
        for (key, observed) in changed {
            if let Observed::Ended(end) = observed {
                assert_eq!(end, muster_model::job::SlotEnd::Ok);
                runner.forget(key);
                (up, done) = (up - 1, done + 1);
            }
        }
        runtime.block_on(async {
            tokio::time::sleep(Duration::from_millis(2)).await;
            let _ = tokio::time::timeout(Duration::from_secs(1), wake.notified()).await;
        });
    }
    let took = from.elapsed();
    println!("{all} attempts in {took:.2?}: {:.0} a second", all as f64 / took.as_secs_f64());
    Ok(())
}
