//! Jobs as they were: public traces where they are found, else a small table of the same
//! distribution.

use anyhow::{Context, Result};
use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

/// A job of a trace.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct TraceJob {
    /// Seconds since the first one.
    pub(crate) at: f64,
    /// How long it runs, in seconds.
    pub(crate) run: f64,
    pub(crate) nodes: u32,
    /// On each node.
    pub(crate) gpus: u32,
    /// Only so much of one GPU.
    pub(crate) milli: Option<u32>,
    pub(crate) cpus: u32,
    pub(crate) memory_gib: u32,
    /// The project it belongs to, as an index.
    pub(crate) project: usize,
}

/// Where the traces lie, if they do.
pub(crate) fn folder() -> Option<PathBuf> {
    let dir = std::env::var_os("MUSTER_TRACES")
        .map_or_else(|| xtask::root().join("../shared/traces"), PathBuf::from);
    dir.is_dir().then_some(dir)
}

fn lines(file: &Path) -> Result<Vec<String>> {
    let open = File::open(file).with_context(|| format!("cannot open {}", file.display()))?;
    let reader: Box<dyn Read> = if file.extension().is_some_and(|e| e == "gz") {
        Box::new(flate2::read::GzDecoder::new(open))
    } else {
        Box::new(open)
    };
    let all: std::io::Result<Vec<String>> = BufReader::new(reader).lines().skip(1).collect();
    all.with_context(|| format!("cannot read {}", file.display()))
}

/// Microsoft's Philly: virtual clusters are projects; more than 8 GPUs are nodes of 8. The trace
/// names no processors and no memory: an even part of the node for each GPU.
pub(crate) fn philly(dir: &Path) -> Result<Vec<TraceJob>> {
    let mut projects: Vec<String> = Vec::new();
    let mut out = Vec::new();
    for line in lines(&dir.join("philly/philly_sia.csv.gz"))? {
        let f: Vec<&str> = line.split(',').collect();
        let [at, run, gpus, _, cluster] = f[..] else { continue };
        let at: jiff::civil::DateTime = at.parse().with_context(|| format!("not a time: {at}"))?;
        let at = at.to_zoned(jiff::tz::TimeZone::UTC)?.timestamp().as_second();
        let gpus: u32 = gpus.parse().context("not a number of GPUs")?;
        let project = projects.iter().position(|p| p == cluster).unwrap_or_else(|| {
            projects.push(cluster.into());
            projects.len() - 1
        });
        out.push(whole(at as f64, run.parse().context("not a run time")?, gpus, project));
    }
    out.sort_by(|a, b| a.at.total_cmp(&b.at));
    let first = out.first().map_or(0.0, |j| j.at);
    for j in &mut out {
        j.at -= first;
    }
    Ok(out)
}

fn whole(at: f64, run: f64, gpus: u32, project: usize) -> TraceJob {
    let (nodes, gpus) = if gpus > 8 { (gpus.div_ceil(8), 8) } else { (1, gpus) };
    let (cpus, memory_gib) = (gpus * 14, gpus * 200);
    TraceJob { at, run, nodes, gpus, milli: None, cpus, memory_gib, project }
}

/// Alibaba's openb: shares of GPUs and work without GPUs.
pub(crate) fn openb(dir: &Path) -> Result<Vec<TraceJob>> {
    let mut out = Vec::new();
    for (i, line) in
        lines(&dir.join("fgd-openb/csv/openb_pod_list_default.csv.gz"))?.iter().enumerate()
    {
        let f: Vec<&str> = line.split(',').collect();
        let n = |i: usize| f.get(i).and_then(|s| s.parse::<f64>().ok());
        let (Some(cpu), Some(mem), Some(gpus), Some(milli)) = (n(1), n(2), n(3), n(4)) else {
            continue;
        };
        let run = n(9).zip(n(10)).map_or(3600.0, |(end, start)| end - start);
        let gpus = gpus as u32;
        out.push(TraceJob {
            at: 0.0,
            run: run.max(1.0),
            nodes: 1,
            gpus,
            milli: (gpus == 1 && milli < 1000.0).then_some(milli as u32),
            cpus: (cpu / 1000.0).ceil() as u32,
            memory_gib: (mem / 1024.0).ceil() as u32,
            project: i % 15,
        });
    }
    Ok(out)
}

/// GPUs of a job, how many of 82,247 ask for so many, and run times in seconds below which 5, 25,
/// 50, 75, 90 and 99 of a hundred stay.
const PHILLY: [(u32, u32, [u32; 6]); 10] = [
    (1, 76627, [52, 122, 1117, 2716, 8512, 135_404]),
    (2, 1818, [9, 16, 21, 76, 73625, 526_030]),
    (4, 1870, [75, 772, 17431, 89422, 184_519, 908_661]),
    (8, 1643, [125, 1871, 23683, 173_288, 352_409, 1_066_894]),
    (12, 7, [289, 556, 589, 1571, 4196, 4196]),
    (16, 199, [36, 380, 52548, 167_367, 341_346, 1_369_876]),
    (24, 7, [265, 314, 345, 686, 213_302, 213_302]),
    (32, 67, [345, 1182, 14262, 53301, 64338, 128_924]),
    (64, 6, [1, 4, 3071, 3173, 28475, 28475]),
    (128, 3, [4, 4, 4322, 7673, 7673, 7673]),
];
const PARTS: [u32; 6] = [15, 22, 25, 20, 12, 6];
/// Share of jobs of each virtual cluster, in thousandths.
const CLUSTERS: [u32; 11] = [501, 196, 121, 90, 24, 18, 17, 14, 9, 5, 5];
/// GPUs, thousandths of one, processors, memory and how many of openb ask for it.
const OPENB: [(u32, u32, u32, u32, u32); 12] = [
    (1, 810, 4, 6, 1047),
    (1, 1000, 12, 48, 1391),
    (1, 1000, 4, 6, 470),
    (1, 470, 12, 46, 388),
    (0, 0, 13, 56, 364),
    (1, 470, 8, 30, 360),
    (0, 0, 32, 48, 284),
    (1, 1000, 19, 63, 255),
    (1, 650, 12, 46, 237),
    (0, 0, 8, 30, 163),
    (1, 320, 4, 23, 111),
    (1, 230, 4, 30, 84),
];

/// The table instead of Philly: evenly over 109 days.
pub(crate) fn philly_table() -> Vec<TraceJob> {
    let mut out = Vec::new();
    let total = 8_000.0;
    for (gpus, count, runs) in PHILLY {
        let n = (f64::from(count) / 82_247.0 * total).ceil() as usize;
        for i in 0..n {
            let part = (i * 37 % 100) as u32;
            let (mut at, mut upto) = (0, 0);
            for (k, p) in PARTS.iter().enumerate() {
                upto += p;
                at = k;
                if part < upto {
                    break;
                }
            }
            let vc = (i * 613 % 1000) as u32;
            let mut sum = 0;
            let project = CLUSTERS.iter().position(|c| {
                sum += c;
                vc < sum
            });
            out.push(whole(0.0, f64::from(runs[at]), gpus, project.unwrap_or(0)));
        }
    }
    let n = out.len();
    for (i, j) in out.iter_mut().enumerate() {
        j.at = ((i * 2_654_435_761) % n) as f64 / n as f64 * 109.0 * 86_400.0;
    }
    out.sort_by(|a, b| a.at.total_cmp(&b.at));
    out
}

/// The table instead of openb.
pub(crate) fn openb_table() -> Vec<TraceJob> {
    let runs = [50.0, 175.0, 616.0, 2246.0, 7764.0, 114_715.0];
    OPENB
        .iter()
        .flat_map(|(gpus, milli, cpus, memory, count)| {
            (0..*count as usize / 8).map(|i| TraceJob {
                at: 0.0,
                run: runs[i * 7 % runs.len()],
                nodes: 1,
                gpus: *gpus,
                milli: (*gpus == 1 && *milli < 1000).then_some(*milli),
                cpus: *cpus,
                memory_gib: *memory,
                project: i % 15,
            })
        })
        .collect()
}

/// Both, and in words where they come from.
pub(crate) fn both() -> Result<(Vec<TraceJob>, Vec<TraceJob>, String)> {
    match folder() {
        Some(dir) => Ok((
            philly(&dir)?,
            openb(&dir)?,
            "jobs drawn from Microsoft's Philly trace and Alibaba's openb pod list".into(),
        )),
        None => {
            eprintln!("no traces (MUSTER_TRACES): a small table of the same distribution instead");
            Ok((
                philly_table(),
                openb_table(),
                "no traces found: jobs drawn from a small built-in table of their distribution"
                    .into(),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_tables_have_gangs_shares_and_work_without_gpus() {
        let (p, o) = (philly_table(), openb_table());
        assert!(p.iter().any(|j| j.nodes == 16));
        assert!(p.iter().filter(|j| j.nodes == 1 && j.gpus == 1).count() > p.len() * 8 / 10);
        assert!(o.iter().any(|j| j.milli == Some(470)));
        assert!(o.iter().any(|j| j.gpus == 0));
        assert!(p.windows(2).all(|w| w[0].at <= w[1].at));
    }
}
