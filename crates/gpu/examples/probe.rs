//! Opens the driver of this machine and prints everything it reports: the inventory, three looks a
//! second apart, who uses the GPUs, and what a look costs.
//!
//! `cargo run -p muster-gpu --example probe [-- --looks 1000] [--simulated SKU]`

use muster_gpu::dcgm;
use muster_gpu::device::{Device, Driver};
use muster_gpu::sample::Sample;
use muster_gpu::simulated::{Phase, SimDriver, SimGpus, SimSku, Workload};
use std::process::ExitCode;
use std::time::{Duration, Instant};

const USAGE: &str = "usage: probe [--looks N] [--simulated SKU]";

fn main() -> ExitCode {
    let (mut looks, mut simulated) = (1000u32, None);
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        match (arg.as_str(), args.next()) {
            ("--looks", Some(n)) if n.parse::<u32>().is_ok() => {
                looks = n.parse().unwrap_or(looks);
            }
            ("--simulated", Some(sku)) => simulated = Some(sku),
            _ => return fail(USAGE),
        }
    }
    let driver: Box<dyn Driver> = match simulated {
        None => match muster_gpu::open() {
            Ok(driver) => driver,
            Err(e) => return fail(&e.to_string()),
        },
        Some(name) => match name.parse::<SimSku>() {
            Ok(sku) => {
                let world = SimDriver::new(&SimGpus::of(sku, "probe", 1));
                world.set_load(0, Some(Workload::steady(Phase::Compute)));
                world.advance(muster_model::units::Span::mins(5));
                Box::new(world)
            }
            Err(e) => return fail(&e.to_string()),
        },
    };
    println!("driver {} {:#?}", driver.name(), driver.versions());
    for device in driver.devices() {
        match device {
            Ok(device) => probe(device.as_ref(), looks),
            Err(e) => println!("a GPU does not answer: {e}"),
        }
    }
    println!("an event within 100 ms: {:?}", driver.wait_event(Duration::from_millis(100)));
    ExitCode::SUCCESS
}

fn fail(why: &str) -> ExitCode {
    eprintln!("probe: {why}");
    ExitCode::FAILURE
}

fn probe(device: &dyn Device, looks: u32) {
    println!("\n== GPU {} {} at {:?}", device.index(), device.uuid(), device.pci());
    let began = Instant::now();
    let described = device.describe();
    println!("{described:#?}");
    println!("describing took {} us", began.elapsed().as_micros());
    println!("bus {:?}, recovery {:?}", device.bus(), device.recovery());
    println!("processes {:?}", device.processes());
    let mut sample = Sample::default();
    for look in 1..=3 {
        if look > 1 {
            std::thread::sleep(Duration::from_secs(1));
        }
        println!(
            "-- look {look}: {:?}, {} figures",
            device.sample(&mut sample),
            sample.iter().count()
        );
        for (field, value) in sample.iter() {
            let name = dcgm::metric(field).map_or("", |m| m.classic);
            println!("{:>6} {:<22} {:>18.3}  {name}", field as u16, format!("{field:?}"), value);
        }
    }
    println!("slices {:?}", device.sample_slices().map(|s| s.len()));
    cost(device, looks);
}

/// What a look costs: wall time and processor time, user and system together.
fn cost(device: &dyn Device, looks: u32) {
    let mut sample = Sample::default();
    let mut took = Vec::new();
    let (began, cpu) = (Instant::now(), cpu_ns());
    for _ in 0..looks.max(1) {
        let one = Instant::now();
        if let Err(e) = device.sample(&mut sample) {
            println!("a look failed: {e}");
            return;
        }
        took.push(one.elapsed());
    }
    let (wall, cpu) = (began.elapsed(), cpu_ns().zip(cpu));
    took.sort_unstable();
    let at = |percent: usize| took[(took.len() - 1) * percent / 100].as_micros();
    println!("-- {} looks: {} us each", took.len(), wall.as_micros() / took.len() as u128);
    println!("   median {} us, 90% {} us, 99% {} us, most {} us", at(50), at(90), at(99), at(100));
    match cpu {
        Some((after, before)) => {
            let each = (after - before) / 1000 / took.len() as u64;
            // At one look a second, a core has a million microseconds.
            println!(
                "   processor {each} us each: {:.3}% of a core at 1 Hz",
                each as f64 / 10_000.0
            );
        }
        None => println!("   processor time is not reported here"),
    }
}

/// Nanoseconds this thread has run, as the scheduler counts them.
fn cpu_ns() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").ok()?;
    text.split_whitespace().next()?.parse().ok()
}
