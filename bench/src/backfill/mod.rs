//! How long jobs wait: logs of the Parallel Workloads Archive, lived through by the scheduler of
//! the product, beside what was published for the same log with SC'15 "Improving backfilling by
//! using machine learning to predict running times". The measure is the mean bounded slowdown
//! (runs below 10 s count as 10 s) over all jobs.

pub(crate) mod drive;
mod swf;

use crate::Options;
use crate::report::Report;
use crate::scheduler::traces;
use anyhow::{Context, Result, ensure};
use drive::{Outcome, run_log};
use muster_model::policy::{BackfillMode, SitePolicy};
use std::path::Path;
use swf::{Job, Rules};

/// EASY's published figures on KTH-SP2.
const EASY_MEAN: f64 = 92.577;
const EASY_MAX: f64 = 14_805.2;
/// Shifted copies of a log.
const JITTERS: u64 = 5;

/// A log, and how it is read.
pub(crate) struct Log {
    pub(crate) name: &'static str,
    file: &'static str,
    pub(crate) rules: Rules,
}

pub(crate) const KTH: Log = Log {
    name: "kth",
    file: "KTH-SP2-filtered-28481.swf.gz",
    rules: Rules { machine: 100, node: 1, widest: false, factor: 0 },
};

pub(crate) const WAGAP: Log = Log {
    name: "wagap",
    file: "wagap-2013.swf.gz",
    rules: Rules { machine: 1531, node: 1, widest: false, factor: 0 },
};

/// Jobs there take whole nodes of 16 processors.
pub(crate) const CURIE: Log = Log {
    name: "curie",
    file: "CEA-Curie-sample.swf.gz",
    rules: Rules { machine: 93_312, node: 16, widest: true, factor: 0 },
};

/// Whether what holds on one log holds elsewhere.
const OTHERS: [Log; 3] = [
    WAGAP,
    CURIE,
    // The log has no limits: one to five times the run time.
    Log {
        name: "lublin",
        file: "lublin_256_synthetic.swf.gz",
        rules: Rules { machine: 256, node: 1, widest: false, factor: 5 },
    },
];

pub(crate) fn read(dir: &Path, log: &Log) -> Result<Vec<Job>> {
    let file = dir.join("swf").join(log.file);
    let bytes = std::fs::read(&file).with_context(|| format!("cannot read {}", file.display()))?;
    Ok(swf::read(&file.display().to_string(), &bytes, log.rules)?)
}

/// The modes, by the names of their cases.
const MODES: [(&str, BackfillMode); 3] = [
    ("easy", BackfillMode::Easy),
    ("default", BackfillMode::Conservative),
    ("aggressive", BackfillMode::Aggressive),
];

/// The site's policy as it ships, but for the mode. A log has one order for the whole machine, so
/// fair share between users is off unless it is what is looked at.
pub(crate) fn policy(mode: BackfillMode) -> SitePolicy {
    let mut p = SitePolicy::default();
    p.fair_share.enabled = false;
    p.backfill.mode = mode;
    p.backfill.predict = mode != BackfillMode::Easy;
    p
}

/// One log under one policy. A broken reserved start is a failure, whatever the mean.
fn lived(what: &str, log: &Log, jobs: &[Job], policy: &SitePolicy) -> Result<Outcome> {
    let nodes = log.rules.machine / log.rules.node;
    let o = run_log(jobs, nodes, policy);
    eprintln!(
        "  {what}: mean {:.3}, max {:.1}, longest wait {} s, reserved starts {} made {} met \
         {} not met, {} cycles",
        o.mean, o.max, o.longest_wait_s, o.reserved, o.kept, o.broken, o.cycles
    );
    ensure!(o.broken == 0, "{what}: {} reserved starts were broken", o.broken);
    ensure!(o.kept == o.reserved, "{what}: {} of {} reserved starts met", o.kept, o.reserved);
    Ok(o)
}

fn verdict(met: bool) -> &'static str {
    if met { "met" } else { "MISSED" }
}

/// Runs it.
pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("backfill");
    let Some(dir) = traces::folder() else {
        eprintln!("SKIPPED: no traces (MUSTER_TRACES): nothing was measured");
        report.note("SKIPPED: no traces found, nothing was measured.");
        return Ok(report);
    };
    let jobs = read(&dir, &KTH)?;
    let mut found = Vec::new();
    for (name, mode) in MODES {
        let o = lived(&format!("{name} kth"), &KTH, &jobs, &policy(mode))?;
        report.ours(&format!("{name}_kth"), SLOWDOWN, o.mean);
        report.ours(&format!("max_{name}_kth"), SLOWDOWN, o.max);
        found.push(o);
    }
    published(&mut report);
    for ((name, _), o) in MODES.iter().zip(&found) {
        report.quietly(
            &format!("reserved_starts_made_{name}_kth"),
            "reserved_starts",
            o.reserved as f64,
        );
        report.quietly(
            &format!("reserved_starts_kept_{name}_kth"),
            "reserved_starts",
            o.kept as f64,
        );
        report.quietly(
            &format!("reserved_starts_broken_{name}_kth"),
            "reserved_starts",
            o.broken as f64,
        );
    }
    let mut fair = policy(BackfillMode::Conservative);
    fair.fair_share.enabled = true;
    let o = lived("default with fair share kth", &KTH, &jobs, &fair)?;
    report.ours("default_fair_share_kth", SLOWDOWN, o.mean);
    report.ours("max_default_fair_share_kth", SLOWDOWN, o.max);
    if !options.quick {
        spread(&mut report, &jobs)?;
        elsewhere(&mut report, &dir)?;
    }
    bars(&mut report, &found);
    report.note(
        "Mean bounded slowdown (10 s) of KTH-SP2's 28,481 jobs on 100 processors, each a node. \
         One order for the whole machine: fair share between users is off but where a case names \
         it. A broken reserved start fails the run.",
    );
    Ok(report)
}

const SLOWDOWN: &str = "bounded slowdown";

/// What was published for the same log.
fn published(report: &mut Report) {
    let peers = [
        ("easy", EASY_MEAN, "EASY as published"),
        ("default", 63.50, "EASY++ as published"),
        ("aggressive", 56.14, "best published that keeps EASY's maximum"),
    ];
    for (name, mean, who) in peers {
        report.theirs(&format!("{name}_kth"), SLOWDOWN, who, mean, false);
        let max = format!("max_{name}_kth");
        report.theirs(&max, SLOWDOWN, "EASY as published", EASY_MAX, false);
    }
}

/// The bars that the modes are held to.
fn bars(report: &mut Report, found: &[Outcome]) {
    let [easy, default, aggressive] = found else { return };
    let near = (easy.mean / EASY_MEAN - 1.0).abs() <= 0.01;
    report.note(format!("easy within 1% of {EASY_MEAN}: {}", verdict(near)));
    report.note(format!(
        "default at most 66 with every reserved start met: {}",
        verdict(default.mean <= 66.0 && default.broken == 0)
    ));
    report.note(format!(
        "aggressive at most 56: {}; with a maximum of at most {EASY_MAX}: {}",
        verdict(aggressive.mean <= 56.0),
        verdict(aggressive.max <= EASY_MAX + 0.05)
    ));
}

/// How much of a figure is luck: the same log with every submit moved by up to two minutes.
fn spread(report: &mut Report, jobs: &[Job]) -> Result<()> {
    for (name, mode) in MODES {
        let (mut mean, mut max) = (0.0, 0.0);
        for seed in 1..=JITTERS {
            let log = swf::jittered(jobs, seed);
            let o = lived(&format!("{name} kth moved, seed {seed}"), &KTH, &log, &policy(mode))?;
            mean += o.mean / JITTERS as f64;
            max += o.max / JITTERS as f64;
        }
        report.ours(&format!("{name}_kth_moved"), SLOWDOWN, mean);
        report.ours(&format!("max_{name}_kth_moved"), SLOWDOWN, max);
    }
    report.note(format!(
        "moved: mean over {JITTERS} copies of the log with every submit 0 to 119 s later."
    ));
    Ok(())
}

/// The other logs; the peer is our own EASY.
fn elsewhere(report: &mut Report, dir: &Path) -> Result<()> {
    for log in &OTHERS {
        let jobs = read(dir, log)?;
        let mut easy = None;
        for (name, mode) in MODES {
            let o = lived(&format!("{name} {}", log.name), log, &jobs, &policy(mode))?;
            let (case, max) = (format!("{name}_{}", log.name), format!("max_{name}_{}", log.name));
            report.ours(&case, SLOWDOWN, o.mean);
            report.ours(&max, SLOWDOWN, o.max);
            let (mean, most) = *easy.get_or_insert((o.mean, o.max));
            if mode != BackfillMode::Easy {
                report.theirs(&case, SLOWDOWN, "EASY, ours", mean, false);
                report.theirs(&max, SLOWDOWN, "EASY, ours", most, false);
            }
        }
    }
    Ok(())
}
