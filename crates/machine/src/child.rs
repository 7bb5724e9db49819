//! The child's side: does one order and ends.

use crate::order::{Answer, Order, Simulated, TestOrder};
use muster_gpu::cuda::Cuda;
use muster_gpu::qualify::{self, Bench, RealBench, SimBench};
use muster_gpu::simulated::{SimDriver, SimFault, SimGpus, SimSku, SimSkuError};
use std::io::{Read, Write};
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// First argument with which an executable is to call [`main`].
pub const ARG: &str = "__gpu";

fn write_answer(answer: &Answer) {
    let Ok(mut line) = serde_json::to_vec(answer) else { return };
    line.push(b'\n');
    // Nobody listens any more: the parent is gone, and so is the reason to go on.
    if std::io::stdout().lock().write_all(&line).is_err() {
        std::process::exit(1);
    }
}

/// Reads its order from standard input, does it, and says what came of it on standard output. An
/// executable whose first argument is [`ARG`] must call this before anything else.
pub fn main() -> ! {
    // Nobody may be left working on a GPU that is given to somebody else.
    let _ = rustix::process::set_parent_process_death_signal(Some(rustix::process::Signal::KILL));
    let mut text = Vec::new();
    let read = std::io::stdin().lock().read_to_end(&mut text);
    let order = read.ok().and_then(|_| serde_json::from_slice::<Order>(&text).ok());
    let done = match order {
        None => Err("no whole order on standard input; this is an internal command".to_owned()),
        Some(Order::Test(test)) => run_test(&test),
        Some(Order::Scrub { gpus }) => scrub(&gpus),
        Some(Order::Fault { gpu, xid }) => fault(gpu, xid),
    };
    if let Err(why) = &done {
        write_answer(&Answer::Failed(why.clone()));
    }
    std::process::exit(i32::from(done.is_err()))
}

fn run_test(test: &TestOrder) -> Result<(), String> {
    let options = test.options()?;
    let bench: Box<dyn Bench> = match &test.simulated {
        Some(simulated) => Box::new(sim_bench(simulated)?),
        None => Box::new(RealBench(muster_gpu::open().map_err(|e| e.to_string())?)),
    };
    let last = Mutex::new((u64::MAX, String::new()));
    let send = |p: qualify::Progress| {
        // A test asks thousands of times a second whether to go on; who listens wants to know what
        // is new, and pays for every line.
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if (last.0, last.1.as_str()) != (p.done, p.doing.as_str()) {
            *last = (p.done, p.doing.clone());
            write_answer(&Answer::Progress { done: p.done, of: p.of, doing: p.doing });
        }
    };
    // Whoever wants it to stop ends this process.
    let report = qualify::run(bench.as_ref(), &options, &send, &AtomicBool::new(false));
    write_answer(&Answer::Report(Box::new(report)));
    Ok(())
}

fn sim_bench(s: &Simulated) -> Result<SimBench, String> {
    let sku: SimSku = s.sku.parse().map_err(|e: SimSkuError| e.to_string())?;
    let driver = SimDriver::new(&SimGpus { gpus: s.gpus, ..SimGpus::of(sku, "local", 1) });
    for (gpu, percent) in &s.slow {
        driver.inject(*gpu, SimFault::SlowClock(100u8.saturating_sub(*percent)));
    }
    for gpu in &s.wrong {
        driver.inject(*gpu, SimFault::WrongResult);
    }
    Ok(SimBench::new(driver, &s.sku, s.speed))
}

fn scrub(gpus: &[u32]) -> Result<(), String> {
    let mut bytes = 0;
    for gpu in gpus {
        let cuda = Cuda::open(*gpu as usize).map_err(|e| e.to_string())?;
        bytes += cuda.scrub().map_err(|e| format!("GPU {gpu}: {e}"))?;
    }
    write_answer(&Answer::Scrubbed(bytes));
    Ok(())
}

fn fault(gpu: u32, xid: u32) -> Result<(), String> {
    if ![31, 43].contains(&xid) {
        return Err(format!("XID {xid} cannot be made on purpose; 31 and 43 can"));
    }
    let cuda = Cuda::open(gpu as usize).map_err(|e| e.to_string())?;
    match cuda.fault(xid == 31) {
        Ok(()) => Err("the device did not mind".into()),
        Err(e) => Err(e.to_string()),
    }
}
