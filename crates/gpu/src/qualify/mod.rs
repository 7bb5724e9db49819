//! Passing muster: a node's GPUs are put to work, what they do is measured, and each figure is
//! held against what its kind must reach. A verdict always comes with its numbers.

mod bench;
mod expect;
pub mod host;
mod inventory_check;
mod probe;
mod simulated;
pub mod trace;

pub use bench::{Bench, RealBench};
pub use expect::{Bar, ExpectError, Expectations};
pub use inventory_check::ExpectedGpus;
pub use probe::{Bus, ContinueCheck, CudaProbe, Probe};
pub use simulated::{SimBench, SimProbe};

use crate::cuda::{CudaError, EVERY_SM, Kind};
use crate::device::Device;
use crate::sample::Sample;
use muster_model::qualification::{Check, Level, Milli, Outcome, Qualification};
use muster_model::units::{Span, Time};
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant, SystemTime};

/// What is to be done.
#[derive(Debug, Clone)]
pub struct Options {
    /// How much is tested: quick, standard or full.
    pub level: Level,
    /// Only these GPUs; all when absent.
    pub gpus: Option<Vec<u32>>,
    /// How long a full one goes on.
    pub length: Duration,
    /// What the figures are held against.
    pub expect: Expectations,
    /// What the node must have.
    pub want: ExpectedGpus,
    /// Where the disk is tried.
    pub dir: PathBuf,
    /// Try disk and network too, where the level asks for it.
    pub host: bool,
}

impl Options {
    /// The usual ones for a level.
    #[must_use]
    pub fn of(level: Level) -> Options {
        Options {
            level,
            gpus: None,
            length: Duration::from_secs(4 * 3600),
            expect: Expectations::builtin(),
            want: ExpectedGpus::default(),
            dir: std::env::temp_dir(),
            host: true,
        }
    }
}

/// How far it is.
#[derive(Debug, Clone, PartialEq)]
pub struct Progress {
    /// Seconds of work done.
    pub done: u64,
    /// Seconds of work in all, as far as can be known.
    pub of: u64,
    /// What is being done.
    pub doing: String,
}

/// One piece of the work on each GPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    Bus,
    Hbm,
    Gemm,
    MemorySample,
    Agree(u64),
    MemoryAll(u64),
    Sustain(u64),
    Repeat(u64),
}

impl Step {
    fn seconds(self) -> u64 {
        match self {
            Step::Bus | Step::Hbm | Step::MemorySample => 2,
            Step::Gemm => 3,
            Step::Agree(s) | Step::MemoryAll(s) | Step::Sustain(s) | Step::Repeat(s) => s,
        }
    }

    fn words(self) -> &'static str {
        match self {
            Step::Bus => "copying between host and device",
            Step::Hbm => "measuring the memory's bandwidth",
            Step::Gemm => "measuring matrix products",
            Step::MemorySample => "testing a sample of the memory",
            Step::Agree(_) => "comparing the multiprocessors",
            Step::MemoryAll(_) => "testing all memory",
            Step::Sustain(_) => "working at full power",
            Step::Repeat(_) => "repeating one product, bit by bit",
        }
    }
}

const QUICK: [Step; 5] = [Step::Bus, Step::Hbm, Step::Gemm, Step::MemorySample, Step::Agree(2)];
const LONG: [Step; 4] =
    [Step::MemoryAll(75), Step::Sustain(180), Step::Repeat(60), Step::Agree(15)];
/// A round of a full one.
const ROUND: [Step; 7] = [
    Step::MemoryAll(300),
    Step::Sustain(900),
    Step::Repeat(300),
    Step::Agree(60),
    Step::Bus,
    Step::Hbm,
    Step::Gemm,
];

fn steps(o: &Options) -> Vec<Step> {
    let round: u64 = ROUND.iter().map(|s| s.seconds()).sum();
    let rounds = (o.length.as_secs() / round).max(1);
    match o.level {
        Level::Quick => QUICK.to_vec(),
        Level::Standard => [&QUICK[..], &LONG].concat(),
        Level::Full => {
            let rounds = (0..rounds).flat_map(|_| ROUND);
            QUICK.into_iter().chain(LONG).chain(rounds).collect()
        }
    }
}

fn wall() -> Time {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    Time(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
}

/// Does it all; `report` hears how far it is, `stop` ends it early (what was not done is then
/// skipped, and the whole has failed).
pub fn run(
    bench: &dyn Bench,
    o: &Options,
    report: &(dyn Fn(Progress) + Sync),
    stop: &AtomicBool,
) -> Qualification {
    let (started_at, start) = (wall(), Instant::now());
    let steps = steps(o);
    let of: u64 = steps.iter().map(|s| s.seconds()).sum::<u64>() + 15;
    let mut checks = Vec::new();
    let mut devices: Vec<Box<dyn Device>> = Vec::new();
    for (place, found) in bench.devices().into_iter().enumerate() {
        match found {
            Ok(d) => devices.push(d),
            Err(e) => {
                let gpu = u32::try_from(place).ok();
                checks.push(Check::plain("gpu-answers", gpu, Outcome::Failed, e.to_string()));
            }
        }
    }
    if let Some(only) = &o.gpus {
        devices.retain(|d| only.contains(&d.index()));
        for g in only.iter().filter(|g| !devices.iter().any(|d| d.index() == **g)) {
            let note = format!("there is no GPU {g} here");
            checks.push(Check::plain("gpu-answers", Some(*g), Outcome::Failed, note));
        }
    }
    checks.extend(inventory_check::node(&devices, o));
    let heard = DriverEvents::default();
    let done = AtomicBool::new(false);
    std::thread::scope(|s| {
        s.spawn(|| heard.listen(bench, &done));
        checks.extend(gpus(
            bench,
            &devices,
            o,
            &steps,
            &|seconds, doing| {
                report(Progress { done: seconds, of, doing: doing.into() });
            },
            stop,
        ));
        report(Progress { done: of - 15, of, doing: "trying links, disk and network".into() });
        if !stop.load(Ordering::Relaxed) && o.level != Level::Quick {
            checks.push(collectives(bench, &devices, o));
            if o.host {
                checks.extend(host::disk(&o.dir));
                checks.push(host::loopback());
            }
        }
        done.store(true, Ordering::Relaxed);
    });
    checks.extend(heard.check());
    if stop.load(Ordering::Relaxed) {
        checks.push(Check::plain(
            "stopped",
            None,
            Outcome::Failed,
            "it was stopped before its end",
        ));
    }
    let outcome = checks.iter().map(|c| c.outcome).max().unwrap_or(Outcome::Skipped);
    let took = Span(u64::try_from(start.elapsed().as_millis()).unwrap_or(u64::MAX));
    Qualification { level: o.level, started_at, took, outcome, checks: worst_of(checks) }
}

/// Errors counted: none, or failed.
fn counted(name: &str, gpu: u32, errors: u64, unit: &str, note: String) -> Check {
    Check {
        value: Some(Milli(i64::try_from(errors).unwrap_or(i64::MAX / 1000).saturating_mul(1000))),
        unit: unit.into(),
        expected: Some(Milli(0)),
        floor: Some(Milli(0)),
        ..Check::plain(
            name,
            Some(gpu),
            if errors == 0 { Outcome::Passed } else { Outcome::Failed },
            note,
        )
    }
}

/// What a driver reported while the GPUs worked: a healthy one says nothing.
#[derive(Default)]
struct DriverEvents(Mutex<Vec<(Option<u32>, u32)>>);

impl DriverEvents {
    fn listen(&self, bench: &dyn Bench, done: &AtomicBool) {
        loop {
            // Looked at first: what was reported before the end is still heard after it.
            let last = done.load(Ordering::Relaxed);
            match bench.wait_event(Duration::from_millis(if last { 1 } else { 200 })) {
                Ok(Some(e)) => {
                    if let Ok(mut all) = self.0.lock()
                        && all.len() < 64
                    {
                        all.push((e.gpu, e.xid));
                    }
                }
                Ok(None) if last => return,
                Ok(None) => {}
                Err(_) => return,
            }
        }
    }

    fn check(&self) -> Vec<Check> {
        let all = self.0.lock().map(|a| a.clone()).unwrap_or_default();
        let one = |(gpu, xid): (Option<u32>, u32)| {
            let note = format!("XID {xid} while it was tested (`muster explain xid {xid}`)");
            Check::plain("driver-events", gpu, Outcome::Failed, note)
        };
        all.into_iter().map(one).collect()
    }
}

/// Every GPU in a thread of its own; the host's memory is not shared out, so the bus is tried by
/// one at a time.
fn gpus(
    bench: &dyn Bench,
    devices: &[Box<dyn Device>],
    o: &Options,
    steps: &[Step],
    report: &(dyn Fn(u64, &str) + Sync),
    stop: &AtomicBool,
) -> Vec<Check> {
    let bus = Mutex::new(());
    std::thread::scope(|s| {
        let mut threads = Vec::new();
        for (place, d) in devices.iter().enumerate() {
            let (bus, device) = (&bus, d.as_ref());
            threads.push(s.spawn(move || {
                let mut quiet = |_: u64, _: &str| {};
                let mut loud = |seconds: u64, doing: &str| report(seconds, doing);
                // One speaks for all: they do the same at the same time.
                let report: &mut dyn FnMut(u64, &str) =
                    if place == 0 { &mut loud } else { &mut quiet };
                one_gpu(bench, device, o, steps, bus, report, stop)
            }));
        }
        threads
            .into_iter()
            .flat_map(|t| {
                t.join().unwrap_or_else(|_| {
                    vec![Check::plain("test-ran", None, Outcome::Failed, "the test itself failed")]
                })
            })
            .collect()
    })
}

fn one_gpu(
    bench: &dyn Bench,
    device: &dyn Device,
    o: &Options,
    steps: &[Step],
    bus: &Mutex<()>,
    report: &mut dyn FnMut(u64, &str),
    stop: &AtomicBool,
) -> Vec<Check> {
    let gpu = device.index();
    let refused =
        |e: &CudaError| Check::plain("gpu-works", Some(gpu), Outcome::Failed, e.to_string());
    let mut probe = match bench.probe(gpu) {
        Ok(p) => p,
        Err(e) => return vec![refused(&e)],
    };
    let sku = device.describe().map(|g| g.sku).unwrap_or_default();
    let mut out = Vec::new();
    let mut passed = 0;
    for step in steps {
        report(passed, step.words());
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let start = Instant::now();
        let mut go = || {
            report(passed + start.elapsed().as_secs().min(step.seconds()), step.words());
            !stop.load(Ordering::Relaxed)
        };
        let turn = (*step == Step::Bus).then(|| bus.lock());
        match work(*step, probe.as_mut(), device, &sku, o, &mut go) {
            Ok(checks) => out.extend(checks),
            // A device that refuses once is in no state to be asked for more.
            Err(e) => {
                out.push(Check {
                    name: format!("{} ({})", "gpu-works", step.words()),
                    ..refused(&e)
                });
                break;
            }
        }
        drop(turn);
        passed += step.seconds();
    }
    out.extend(inventory_check::after(device));
    out
}

fn work(
    step: Step,
    probe: &mut dyn Probe,
    device: &dyn Device,
    sku: &str,
    o: &Options,
    go: &mut dyn FnMut() -> bool,
) -> Result<Vec<Check>, CudaError> {
    let gpu = device.index();
    let rate = |name: &str, v: f64, unit: &str| o.expect.evaluate(sku, name, Some(gpu), v, unit);
    let length = Duration::from_secs(step.seconds());
    Ok(match step {
        Step::Bus => {
            let b = probe.bus()?;
            let mut out = vec![
                rate("pcie-h2d", b.h2d, "GB/s"),
                rate("pcie-d2h", b.d2h, "GB/s"),
                rate("pcie-both", b.both, "GB/s"),
            ];
            // Right after a load the link runs as fast as it can; at rest it is allowed to be slow.
            out.extend(inventory_check::bus(device));
            out
        }
        Step::Hbm => {
            let (copy, read) = probe.hbm()?;
            vec![rate("hbm-copy", copy, "GB/s"), rate("hbm-read", read, "GB/s")]
        }
        Step::Gemm => {
            let mut out = Vec::new();
            for (kind, name) in [(Kind::Bf16, "gemm-bf16"), (Kind::Fp8, "gemm-fp8")] {
                out.push(match probe.gemm(kind)? {
                    Some(v) => rate(name, v, "TFLOP/s"),
                    None => {
                        let note = "this kind of GPU has no such arithmetic";
                        Check::plain(name, Some(gpu), Outcome::Skipped, note)
                    }
                });
            }
            out
        }
        Step::MemorySample | Step::MemoryAll(_) => {
            let all = step != Step::MemorySample;
            let t = probe.memory(all.then_some(length), go)?;
            let name = if all { "memory-all" } else { "memory-sample" };
            let mut note = format!("{} GiB, {} passes", t.bytes >> 30, t.passes);
            for b in t.first.iter().take(2) {
                note += &format!("; {:#x} held {:#018x} and not {:#018x}", b.at, b.got, b.want);
            }
            vec![counted(name, gpu, t.errors, "wrong words", note)]
        }
        Step::Agree(_) => {
            let a = probe.agree(length, go)?;
            let wrong: u64 = a.dissent.values().map(|n| u64::from(*n)).sum();
            let mut note = format!("{} multiprocessors", a.took_part);
            for (sm, n) in a.dissent.iter().take(4) {
                note += &match *sm {
                    EVERY_SM => format!("; all gave another answer than before {n} times"),
                    sm => format!("; multiprocessor {sm} was wrong {n} times"),
                };
            }
            vec![counted(Check::SM_AGREE, gpu, wrong, "wrong answers", note)]
        }
        Step::Sustain(_) => {
            let mut seconds = Vec::new();
            probe.sustain(length, &mut |rate| {
                let mut sample = Sample::default();
                // A device that does not answer now is found by what it does not say.
                let _ = device.sample(&mut sample);
                seconds.push(trace::Second { rate, sample });
                go()
            })?;
            trace::evaluate(&seconds, sku, gpu, &o.expect)
        }
        Step::Repeat(_) => {
            let (times, errors, first) = probe.repeat(length, go)?;
            let mut note = format!("{times} products of 8192 by 8192");
            for b in first.iter().take(2) {
                note += &format!("; byte {:#x}: {:#018x} became {:#018x}", b.at, b.want, b.got);
            }
            vec![counted(Check::GEMM_REPEAT, gpu, errors, "words that differ", note)]
        }
    })
}

fn collectives(bench: &dyn Bench, devices: &[Box<dyn Device>], o: &Options) -> Check {
    let all: Vec<u32> = devices.iter().map(|d| d.index()).collect();
    if all.len() < 2 {
        let note = "one GPU has no peer";
        return Check::plain("nccl-all-reduce", None, Outcome::Skipped, note);
    }
    let sku = devices.first().and_then(|d| d.describe().ok()).map(|g| g.sku).unwrap_or_default();
    match bench.all_reduce(&all) {
        Ok(v) => o.expect.evaluate(&sku, "nccl-all-reduce", None, v, "GB/s"),
        Err(e) => Check::plain("nccl-all-reduce", None, Outcome::Failed, e.to_string()),
    }
}

/// Of a check that was made several times, the worst counts, and says so.
fn worst_of(checks: Vec<Check>) -> Vec<Check> {
    let mut out: Vec<(Check, u32)> = Vec::new();
    for c in checks {
        match out
            .iter_mut()
            .find(|(o, _)| o.name == c.name && o.gpu == c.gpu && o.name != "driver-events")
        {
            Some((kept, n)) => {
                *n += 1;
                let less = matches!((kept.expected, kept.floor), (Some(e), Some(f)) if e <= f);
                let worse = if less { c.value > kept.value } else { c.value < kept.value };
                if c.outcome > kept.outcome || (c.outcome == kept.outcome && worse) {
                    *kept = c;
                }
            }
            None => out.push((c, 1)),
        }
    }
    out.into_iter()
        .map(|(mut c, n)| {
            if n > 1 {
                let sep = if c.note.is_empty() { "" } else { "; " };
                c.note += &format!("{sep}worst of {n}");
            }
            c
        })
        .collect()
}

#[cfg(test)]
mod tests;
