//! Where gangs land: the multi-GPU jobs of Microsoft's Philly trace on the 847 hosts of a real
//! Clos fabric (Alibaba's Lingjun), placed by our scheduler, by best fit without any topology,
//! and by the rule of Slurm's topology/tree. Same arrivals, same queue, same hosts.

mod peers;
mod replay;

use crate::Options;
use crate::report::Report;
use crate::scheduler::traces::{self, TraceJob};
use anyhow::{Context, Result};
use peers::{BestFit, MusterPlacer, Placer, Tree};
use replay::{Outcome, replay};
use std::fs;
use std::path::Path;

/// GPUs of a host.
pub(crate) const GPUS: u32 = 8;
/// Part of the fleet that the arrivals keep busy on average.
const LOAD: f64 = 0.88;

/// A host's place in the fabric.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Host {
    pub(crate) spine: String,
    pub(crate) leaf: String,
    pub(crate) name: String,
}

/// The hosts in the order of the fabric.
fn hosts(dir: &Path) -> Result<Vec<Host>> {
    let file = dir.join("alibaba-lingjun-2023-topo/topo.csv");
    let text =
        fs::read_to_string(&file).with_context(|| format!("cannot read {}", file.display()))?;
    let mut out: Vec<Host> = text
        .lines()
        .skip(1)
        .filter_map(|l| {
            let f: Vec<&str> = l.split(',').collect();
            let [ip, _, psw, asw] = f[..] else { return None };
            // An ASW's number is its own only under its PSW.
            let name = ip.get(..16)?.to_string();
            Some(Host { spine: psw.into(), leaf: format!("{psw}-{asw}"), name })
        })
        .collect();
    out.sort();
    Ok(out)
}

/// A fabric of the same shape: 119 leaves, mostly of 8, under 3 spines.
fn like_lingjun() -> Vec<Host> {
    let sizes = [(68, 8), (23, 7), (15, 6), (7, 5), (2, 4), (1, 3), (3, 2)];
    let mut out = Vec::new();
    let mut leaf = 0;
    for (count, size) in sizes {
        for _ in 0..count {
            for i in 0..size {
                let spine = format!("P{}", leaf % 3);
                // Names say nothing of the place, as in a real site.
                let mut dice = crate::scheduler::mix::Dice(leaf * 100 + i);
                let name = format!("h{:015x}", dice.next() >> 4);
                out.push(Host { leaf: format!("{spine}-S{leaf}"), spine, name });
            }
            leaf += 1;
        }
    }
    out.sort();
    out
}

/// Several copies of the trace, each begun at another moment of it, so that together they keep
/// the fleet as busy as it should be.
fn arrivals(trace: &[TraceJob], hosts: usize) -> (Vec<TraceJob>, usize) {
    let jobs: Vec<&TraceJob> = trace.iter().filter(|j| j.nodes * j.gpus > 1).collect();
    let span = trace.last().map_or(1.0, |j| j.at) + 1.0;
    let work: f64 = jobs.iter().map(|j| j.run * f64::from(j.nodes * j.gpus)).sum();
    let one = work / (span * hosts as f64 * f64::from(GPUS));
    let copies = ((LOAD / one).floor() as usize).max(1);
    // What whole copies do not reach, a little less time between arrivals does.
    let squeeze = LOAD / (one * copies as f64);
    let mut out: Vec<TraceJob> = (0..copies)
        .flat_map(|c| {
            let shift = span * c as f64 / copies as f64;
            jobs.iter()
                .map(move |j| TraceJob { at: (j.at + shift) % span / squeeze, ..(*j).clone() })
        })
        .collect();
    out.sort_by(|a, b| a.at.total_cmp(&b.at));
    (out, copies)
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("topology");
    let (hosts, philly) = match traces::folder() {
        Some(dir) => (hosts(&dir)?, traces::philly(&dir)?),
        None => {
            eprintln!("no traces (MUSTER_TRACES): made-up ones of the same shape instead");
            report.note("no traces found: a made-up fabric and jobs of the same distribution.");
            (like_lingjun(), traces::philly_table())
        }
    };
    let (mut jobs, copies) = arrivals(&philly, hosts.len());
    if options.quick {
        jobs.truncate(jobs.len() / 4);
    }
    let mut all = Vec::new();
    let mut measure = |name: &str, placer: &mut dyn Placer| -> Result<Outcome> {
        let o = replay(&jobs, hosts.len(), placer)
            .with_context(|| format!("{name} lost track of what is free"))?;
        eprintln!(
            "  {name}: {} gangs, {:.1}% in one leaf, {:.3} crossings, gangs wait {:.0} s, all \
             jobs {:.0} s, {:.1}% busy",
            o.gangs,
            o.in_one_leaf_pct,
            o.leaf_crossings,
            o.gang_wait_s,
            o.wait_s,
            o.busy * 100.0
        );
        all.push((name.to_string(), o.clone()));
        Ok(o)
    };
    let ours = measure("muster", &mut MusterPlacer::new(&hosts))?;
    let peers = [
        ("best fit, no topology", measure("best fit", &mut BestFit::new(&hosts))?),
        ("Slurm's tree rule", measure("tree rule", &mut Tree::new(&hosts))?),
    ];
    report.ours("in_one_leaf_pct", "%", ours.in_one_leaf_pct);
    report.ours("leaf_crossings", "leaves - 1", ours.leaf_crossings);
    report.ours("gang_wait_s", "s", ours.gang_wait_s);
    for (name, o) in peers {
        report.theirs("in_one_leaf_pct", "%", name, o.in_one_leaf_pct, true);
        report.theirs("leaf_crossings", "leaves - 1", name, o.leaf_crossings, false);
        report.theirs("gang_wait_s", "s", name, o.gang_wait_s, false);
    }
    report.note(format!(
        "{} multi-GPU jobs ({copies} shifted copies of the trace) on {} hosts of {GPUS} GPUs; \
         the first quarter warms up. Of several peers the better one is shown.",
        jobs.len(),
        hosts.len()
    ));
    for (name, o) in &all {
        report.note(format!(
            "  {name:<10} {:>5} gangs  {:>5.1}% in one leaf  {:.3} crossings a gang  gangs wait \
             {:.0} s, all jobs {:.0} s  {:.1}% busy",
            o.gangs,
            o.in_one_leaf_pct,
            o.leaf_crossings,
            o.gang_wait_s,
            o.wait_s,
            o.busy * 100.0
        ));
    }
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_places_the_same_jobs_and_loses_nothing() {
        let hosts = like_lingjun();
        assert_eq!(hosts.len(), 847);
        let (jobs, _) = arrivals(&traces::philly_table(), hosts.len());
        let jobs = &jobs[..jobs.len() / 20];
        let placers: [&mut dyn Placer; 3] =
            [&mut MusterPlacer::new(&hosts), &mut BestFit::new(&hosts), &mut Tree::new(&hosts)];
        for p in placers {
            assert!(replay(jobs, hosts.len(), p).is_ok());
        }
    }
}
