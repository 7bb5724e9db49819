//! The measures of one size.

use super::mix::{CandidateJob, Draw, Mix, SKU, name};
use super::site::{CLAIMANT, GPUS, Site};
use super::traces;
use crate::report::Report;
use crate::stats::{memory_mib, ms, percentile};
use anyhow::{Context, Result, ensure};
use muster_model::spec::{Group, Priority, Tier};
use muster_model::units::{Bytes, Span};
use muster_scheduler::{Demand, Work};
use std::sync::Arc;
use std::time::{Duration, Instant};

const WAITING: usize = 10_000;

/// Processor time of this thread, shown beside the wall clock: a busy machine shows only there.
struct Cpu(Duration);

impl Cpu {
    fn read() -> Duration {
        let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let secs = Duration::from_secs(u64::try_from(t.tv_sec).unwrap_or(0));
        secs + Duration::from_nanos(u64::try_from(t.tv_nsec).unwrap_or(0))
    }
    fn now() -> Cpu {
        Cpu(Cpu::read())
    }
    fn elapsed(&self) -> Duration {
        Cpu::read().saturating_sub(self.0)
    }
}

/// Everything for one size.
pub(crate) fn size(report: &mut Report, nodes: u32, quick: bool) -> Result<()> {
    let (philly, openb, _) = traces::both()?;
    let mut mix = Mix::new(philly, openb);
    busy(report, &mut mix, nodes, quick)?;
    bulk(report, &mut mix, nodes, quick);
    Ok(())
}

/// A full fleet and a long queue: the first plan, a cycle for each job that ends, a plan without
/// any memory of plans before, and a claim.
fn busy(report: &mut Report, mix: &mut Mix, nodes: u32, quick: bool) -> Result<()> {
    let mut site = Site::new(nodes);
    site.set_quotas(mix);
    site.fill(mix, 960, 900);
    eprintln!(
        "  {} running jobs hold {:.1}% of the GPUs",
        site.cluster.running.len(),
        site.full() as f64 / 10.0
    );
    for _ in 0..WAITING {
        let d = mix.draw(Draw::Arriving, site.now);
        site.submit(d);
    }
    let cpu = Cpu::now();
    let timed = Instant::now();
    let plan = site.plan();
    let first = timed.elapsed();
    eprintln!("  cpu {:.1} ms", ms(cpu.elapsed()));
    eprintln!(
        "  first plan: {} starts, {} reserved starts",
        plan.starts.len(),
        plan.reserved_starts.len()
    );
    report.ours(&format!("first_plan_ms_{nodes}"), "ms", ms(first));
    drop((site, plan));

    // Nearly full from the start: a hundred thousand starts until nothing more fits are another
    // measure.
    let mut site = Site::new(nodes);
    site.set_quotas(mix);
    site.fill(mix, 1000, 985);
    settle(&mut site, mix);
    eprintln!(
        "  settled: {:.1}% held, {} wait",
        site.full() as f64 / 10.0,
        site.cluster.queue.len()
    );

    let cycles = if quick { 300 } else { 3000 };
    let mut took = Vec::with_capacity(cycles);
    let mut worked = Vec::with_capacity(cycles);
    let (mut starts, mut reserved_starts, mut victims) = (0, 0, 0);
    let mut ended = 0;
    for _ in 0..cycles {
        let Some(mut end) = site.end_next() else { break };
        ended += 1;
        // A cycle that stops at its bounds is followed by another at once: each is counted.
        loop {
            let (timed, cpu) = (Instant::now(), Cpu::now());
            let plan = site.plan();
            starts += plan.starts.len();
            reserved_starts += plan.reserved_starts.len();
            victims += plan.victims.len();
            let more = plan.more;
            site.execute(plan);
            took.push(ms(end + timed.elapsed()));
            worked.push(ms(cpu.elapsed()));
            if !more {
                break;
            }
            end = std::time::Duration::ZERO;
        }
        while site.cluster.queue.len() < WAITING {
            let d = mix.draw(Draw::Arriving, site.now);
            site.submit(d);
        }
    }
    let each = took.iter().sum::<f64>() / f64::from(ended.max(1));
    report.ours(&format!("ms_per_end_{nodes}"), "ms", each);
    let mean = took.iter().sum::<f64>() / took.len() as f64;
    eprintln!(
        "  {} cycles: {starts} starts, {reserved_starts} reserved starts, {victims} victims, mean {mean:.3} ms",
        took.len()
    );
    let p = |v: &mut Vec<f64>, q| percentile(v, q).unwrap_or(f64::NAN);
    eprintln!(
        "  cpu of a cycle: p50 {:.3}, p99 {:.3}, max {:.3} ms",
        p(&mut worked, 50.0),
        p(&mut worked, 99.0),
        p(&mut worked, 100.0)
    );
    report.ours(&format!("cycle_p50_ms_{nodes}"), "ms", p(&mut took, 50.0));
    report.ours(&format!("cycle_p99_ms_{nodes}"), "ms", p(&mut took, 99.0));
    report.ours(&format!("cycle_max_ms_{nodes}"), "ms", p(&mut took, 100.0));
    let me = i32::try_from(std::process::id()).context("a process number is small")?;
    report.ours(&format!("rss_mib_{nodes}"), "MiB", memory_mib(me)?.0);

    forget(&mut site);
    let cold = whole(&mut site);
    eprintln!(
        "  cold plan: cpu {:.1} ms, {} starts, {} reserved starts, {} victims",
        cold.cpu_ms,
        cold.starts,
        cold.reserved_starts,
        cold.victims.len()
    );
    report.ours(&format!("cold_plan_ms_{nodes}"), "ms", cold.wall_ms);

    // A claim of an idle project on what it lent.
    let gang = (nodes * 2 / 25).min(1000);
    let work = claim(mix, &site, gang);
    let by = work.job;
    site.submit(CandidateJob { work: Arc::new(work), run: Span::hours(1) });
    let claimed = whole(&mut site);
    let took = claimed.wall_ms;
    let stopped = claimed.victims.iter().filter(|v| v.by == by).count();
    eprintln!("  reclaim of {gang} nodes: cpu {:.1} ms, {stopped} victims", claimed.cpu_ms);
    ensure!(stopped > 0, "nothing was preempted for the claim");
    report.ours(&format!("reclaim_ms_{nodes}"), "ms", took);
    Ok(())
}

/// Cycles until one has nothing more to do, without what carrying them out costs.
#[derive(Default)]
struct CycleMeasurement {
    wall_ms: f64,
    cpu_ms: f64,
    starts: usize,
    reserved_starts: usize,
    victims: Vec<muster_scheduler::Victim>,
}

fn whole(site: &mut Site) -> CycleMeasurement {
    let mut out = CycleMeasurement::default();
    loop {
        let (timed, cpu) = (Instant::now(), Cpu::now());
        let plan = site.plan();
        out.wall_ms += ms(timed.elapsed());
        out.cpu_ms += ms(cpu.elapsed());
        out.starts += plan.starts.len();
        out.reserved_starts += plan.reserved_starts.len();
        out.victims.extend(plan.victims.iter().copied());
        let more = plan.more;
        site.execute(plan);
        if !more {
            return out;
        }
    }
}

fn claim(mix: &mut Mix, site: &Site, nodes: u32) -> Work {
    Work {
        job: mix.number(),
        demand: Arc::new(Demand {
            groups: Arc::from([Group {
                name: "main".into(),
                nodes,
                gpus: GPUS,
                ranks: GPUS,
                cpus: 64,
                memory: Bytes::gib(1024),
                sku: Some(SKU.into()),
                part: None,
            }]),
            required: None,
            preferred: None,
            segment: None,
            spread: None,
            simulated: false,
        }),
        priority: Priority::Normal,
        tier: Tier::OnDemand,
        project: name(CLAIMANT),
        user: Arc::from("claimant"),
        // Within its class the oldest goes first.
        since: muster_model::units::Time(site.now.0 - 86_400_000),
        limit: Some(Span::hours(72)),
        checkpoints: true,
        elastic: None,
    }
}

/// Plans are carried out until one changes nothing; as many wait as before.
fn settle(site: &mut Site, mix: &mut Mix) {
    for _ in 0..1000 {
        while site.cluster.queue.len() < WAITING {
            let d = mix.draw(Draw::Arriving, site.now);
            site.submit(d);
        }
        let plan = site.plan();
        let quiet = plan.starts.is_empty()
            && plan.reserved_starts.is_empty()
            && plan.victims.is_empty()
            && !plan.more;
        site.execute(plan);
        if quiet {
            break;
        }
    }
}

/// As after a restart: nothing is known to fail, nothing is reserved.
fn forget(site: &mut Site) {
    let waiting: Vec<_> = site.cluster.queue.jobs().collect();
    for job in waiting {
        site.cluster.fleet.release_reservation(job);
    }
    site.cluster.queue.forget_failures();
    site.cluster.fleet.forget_failures();
}

/// Many starts on a fleet with room.
fn bulk(report: &mut Report, mix: &mut Mix, nodes: u32, quick: bool) {
    let mut half = Site::new(nodes);
    half.set_quotas(mix);
    half.fill(mix, 600, 500);
    let room = (nodes * GPUS / 4) as usize;
    let most = if quick { 4000 } else { 20_000 };
    let singles = rate(half.clone(), mix, Draw::Single, room.min(most));
    report.ours(&format!("singles_per_s_{nodes}"), "1/s", singles);
    let most = if quick { 300 } else { 2000 };
    let gangs = rate(half, mix, Draw::LeafGang, (nodes as usize / 10).min(most));
    report.ours(&format!("gangs_per_s_{nodes}"), "1/s", gangs);
}

/// Jobs placed in a second: planned and carried out, until all are.
fn rate(mut site: Site, mix: &mut Mix, draw: Draw, jobs: usize) -> f64 {
    for _ in 0..jobs {
        let d = mix.draw(draw, site.now);
        site.submit(d);
    }
    let before = site.cluster.running.len();
    let (timed, cpu) = (Instant::now(), Cpu::now());
    loop {
        let plan = site.plan();
        let over = plan.starts.is_empty();
        site.execute(plan);
        if over || site.cluster.queue.is_empty() {
            break;
        }
    }
    let took = timed.elapsed().as_secs_f64();
    let placed = site.cluster.running.len() - before;
    let per_cpu = placed as f64 / cpu.elapsed().as_secs_f64();
    eprintln!("  {placed} {draw:?}: {per_cpu:.0} a second of processor time");
    if placed < jobs {
        eprintln!("  {} of {jobs} found no free capacity", jobs - placed);
    }
    placed as f64 / took
}
