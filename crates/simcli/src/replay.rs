//! `muster sim replay`: a public trace, or the log of a site, lived again.

use super::live::{fail, peak_rss};
use super::log::Log;
use super::progress::Progress;
use super::{formatting, pool, report, run};
use clap::{Args, ValueEnum};
use muster_model::policy::{BackfillMode, SitePolicy};
use muster_model::units::Span;
use muster_sim::replay::{self, LogReplay, Mix, OpenbReplay, Setting};
use muster_sim::scenario::{FleetSpec, Spares};
use muster_sim::traces::{self, OnBadRow, Read, TraceError, TraceJob};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{Fail, USAGE};
use muster_terminal::output;
use serde_json::Value;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Replay a public trace, or the log of a site, with the engine that runs the real one
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
muster sim replay --format swf --jobs KTH-SP2.swf.gz --policy easy\n  \
muster sim replay --format philly --jobs philly.csv.gz --nodes 64x8 --report philly.html\n  \
muster sim replay --format openb --nodes nodes.csv --jobs pods.csv.gz --order order.csv.gz \\\n    \
--seeds 42-51\n  \
muster sim replay --format muster --jobs site.jsonl --policy new.yaml -o json | jq .wait_s\n\n\
Formats:\n  \
openb   Alibaba's pods, offered one at a time as in FGD's experiment (no time, nothing ends)\n  \
swf     logs of the Parallel Workloads Archive; each processor is a node with one GPU\n  \
philly  timestamp,duration,num_gpus,…,cluster; the cluster's size is --nodes\n  \
gavel   steps of known models; run times are those of one V100\n  \
muster  the log of a site (`muster store export`)\n\n\
Files may be packed with gzip. What a file does not say is assumed, and listed in `assumptions`.")]
pub(crate) struct ReplayArgs {
    /// What the trace is
    #[arg(long, value_enum)]
    format: Format,
    /// The jobs
    #[arg(long, value_name = "FILE")]
    jobs: PathBuf,
    /// The machines: a list, a topology, or like 64x8 (nodes x GPUs)
    #[arg(long, value_name = "FILE|NxG")]
    nodes: Option<String>,
    /// In which order openb's pods come, for each seed
    #[arg(long, value_name = "FILE")]
    order: Option<PathBuf>,
    /// The orders to replay, or the seeds of a site's log [default: all; 1]
    #[arg(long, value_name = "A-B")]
    seeds: Option<String>,
    /// The site's policy: default, easy, aggressive (both without fair share), or a file
    #[arg(long, value_name = "NAME|FILE")]
    policy: Option<String>,
    /// Processors of the machine [default: as the log says]
    #[arg(long, value_name = "N")]
    procs: Option<u32>,
    /// What to do with a row that cannot be read
    #[arg(long, value_enum, default_value_t = BadRow::Stop, value_name = "WHAT")]
    on_bad_row: BadRow,
    /// Write a page with its course over time
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
    /// Write the log of the run, for `muster store import`
    #[arg(long, value_name = "FILE.jsonl")]
    log: Option<PathBuf>,
    /// Threads to use [default: one a core]
    #[arg(long, value_name = "N")]
    threads: Option<NonZeroUsize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Format {
    Openb,
    Swf,
    Philly,
    Gavel,
    Muster,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum BadRow {
    /// It is an error.
    Stop,
    /// It is left out and named.
    Skip,
}

/// Nodes and GPUs of each where the trace does not say: Gavel's authors give the same virtual
/// clusters 500 GPUs.
const ASSUMED: (u32, u32) = (64, 8);

/// Rows left out that are named one by one.
const NAMED: usize = 10;

impl ReplayArgs {
    pub(crate) fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        self.makes_sense()?;
        report::can_write(self.report.as_deref())?;
        match self.format {
            Format::Openb => self.openb(ctx),
            Format::Muster => self.site(ctx),
            Format::Swf | Format::Philly | Format::Gavel => self.log(ctx),
        }
    }

    /// Flags that mean nothing for a format are no slip to pass over.
    fn makes_sense(&self) -> Result<(), Fail> {
        let f = self.format;
        let without = |flag: &str, why: &str| {
            let name = f.to_possible_value().map(|v| v.get_name().to_owned()).unwrap_or_default();
            Err(Fail::usage(format!("{flag} means nothing for --format {name}: {why}")))
        };
        match f {
            Format::Openb if self.policy.is_some() => without("--policy", "nothing waits there"),
            Format::Openb if self.log.is_some() => without("--log", "no site runs there"),
            Format::Openb if self.report.is_some() => without("--report", "there is no time there"),
            Format::Openb | Format::Philly | Format::Gavel | Format::Muster
                if self.procs.is_some() =>
            {
                without("--procs", "its machines have GPUs; see --nodes")
            }
            Format::Muster if self.nodes.is_some() => {
                without("--nodes", "its machines are in the log; see `muster whatif`")
            }
            Format::Muster if self.log.is_some() => without("--log", "the log is what is read"),
            Format::Swf | Format::Philly | Format::Gavel if self.seeds.is_some() => {
                without("--seeds", "there is no chance in it")
            }
            Format::Openb => Ok(()),
            _ if self.order.is_some() => without("--order", "its jobs say when they came"),
            _ => Ok(()),
        }
    }

    fn on_bad(&self) -> OnBadRow {
        match self.on_bad_row {
            BadRow::Stop => OnBadRow::Stop,
            BadRow::Skip => OnBadRow::Skip,
        }
    }

    /// Reads a file; rows left out are reported on stderr and counted.
    fn read<T>(
        &self,
        file: &Path,
        skipped: &mut u64,
        parse: impl FnOnce(&str, &[u8], OnBadRow) -> Result<Read<T>, TraceError>,
    ) -> Result<Vec<T>, Fail> {
        let bytes = std::fs::read(file)
            .map_err(|e| Fail::usage(format!("cannot read {}: {e}", file.display())))?;
        let read = parse(&file.display().to_string(), &bytes, self.on_bad()).map_err(bad_trace)?;
        *skipped += read.skipped.len() as u64;
        for problem in read.skipped.iter().take(NAMED) {
            output::note(&format!("{}: left out: {problem}", file.display()));
        }
        if let Some(more) = read.skipped.len().checked_sub(NAMED).filter(|n| *n > 0) {
            output::note(&format!("{}: {more} more rows were left out", file.display()));
        }
        Ok(read.items)
    }

    fn openb(&self, ctx: &Ctx) -> Result<u8, Fail> {
        let started = Instant::now();
        let nodes = self.nodes.as_deref().ok_or_else(|| missing("--nodes", "the list of nodes"))?;
        let order =
            self.order.as_deref().ok_or_else(|| missing("--order", "the orders of arrival"))?;
        let mut skipped = 0;
        let nodes = self.read(Path::new(nodes), &mut skipped, traces::openb::nodes)?;
        let pods = self.read(&self.jobs, &mut skipped, traces::openb::pods)?;
        let mix = Mix::new(&pods);
        let mut orders = self.read(order, &mut skipped, |file, bytes, on_bad| {
            traces::openb::orders(file, bytes, on_bad, mix.rows())
        })?;
        if let Some(seeds) = &self.seeds {
            orders = picked(orders, &range(seeds)?, order)?;
        }
        let threads = pool::threads(self.threads).get();
        let mut found = replay::seeds(&nodes, &mix, &orders, threads).map_err(fail)?;
        found.scenario = name(&self.jobs);
        found.rows_skipped = skipped;
        found.wall_s = started.elapsed().as_secs_f64();
        found.peak_rss_bytes = peak_rss();
        let unknown: u64 = found.runs.iter().map(|r| r.unknown).sum();
        if unknown > 0 {
            output::note(&format!("{unknown} arrivals were of pods that could not be read"));
        }
        ctx.show(&found, openb_text)?;
        Ok(0)
    }

    fn log(&self, ctx: &Ctx) -> Result<u8, Fail> {
        let started = Instant::now();
        let mut skipped = 0;
        let mut assumptions = Vec::new();
        let reader = match self.format {
            Format::Swf => traces::swf::jobs,
            Format::Gavel => traces::gavel::jobs,
            _ => traces::philly::jobs,
        };
        let mut jobs = self.read(&self.jobs, &mut skipped, reader)?;
        if self.format == Format::Gavel {
            jobs = self.timed(jobs, &mut assumptions);
        }
        let (fleet, procs) = self.machines(&mut assumptions)?;
        let policy = self.policy(&mut assumptions)?.unwrap_or_default();
        if self.format == Format::Philly || self.format == Format::Gavel {
            assumptions.push("jobs have no time limits".into());
        }
        let jobs = replay::prepared(jobs, procs);
        let setting = Setting { name: name(&self.jobs), fleet, flat: procs.is_some(), policy };
        let mut log = self.log.as_deref().map(Log::create).transpose()?;
        let (mut found, history) = {
            let progress = Progress::new(1);
            let last = jobs.last().map(|j| Span(j.submit.0 + j.run.unwrap_or_default().0));
            let mut part = progress.begin(last.unwrap_or_default());
            replay::simulate_log(&setting, &jobs, |line| {
                part.record(line);
                if let Some(log) = &mut log {
                    log.record(line);
                }
            })
            .map_err(fail)?
        };
        if let Some(log) = log {
            log.finish()?;
        }
        found.format =
            self.format.to_possible_value().map(|v| v.get_name().into()).unwrap_or_default();
        found.rows_skipped = skipped;
        found.assumptions = assumptions;
        found.outcome.wall_s = started.elapsed().as_secs_f64();
        found.outcome.peak_rss_bytes = peak_rss();
        self.print_notes(&found);
        self.page(&found, &history)?;
        ctx.show(&found, log_text)?;
        Ok(0)
    }

    fn print_notes(&self, found: &LogReplay) {
        for a in found.assumptions.iter() {
            output::note(&format!("assumed: {a}"));
        }
        if found.jobs_left_out > 0 {
            let jobs = formatting::counted(found.jobs_left_out, "job");
            output::note(&format!("{jobs} left out: the machine is too small for them"));
        }
        if found.jobs_refused > 0 {
            output::note(&format!("{} refused", formatting::counted(found.jobs_refused, "job")));
        }
        let open = found.outcome.jobs - found.outcome.jobs_completed;
        if open > 0 {
            output::note(&format!("{} did not complete", formatting::counted(open, "job")));
        }
    }

    fn page(&self, found: &LogReplay, history: &muster_sim::outcome::History) -> Result<(), Fail> {
        let Some(file) = &self.report else { return Ok(()) };
        let about = found.assumptions.iter().map(|a| format!("Assumed: {a}."));
        let about = std::iter::once(format!("A replay of {}.", self.jobs.display()))
            .chain(about)
            .collect::<Vec<_>>()
            .join(" ");
        let run = muster_sim::report::Run {
            label: &found.outcome.scenario,
            about: &about,
            outcome: &found.outcome,
            history,
        };
        report::write(file, &muster_sim::report::page(&[run], &report::command()))
    }

    /// Gavel's jobs say how many steps they make.
    fn timed(&self, jobs: Vec<TraceJob>, assumptions: &mut Vec<String>) -> Vec<TraceJob> {
        let (jobs, unknown) = replay::timed(jobs);
        for (model, n) in unknown {
            output::note(&format!(
                "{}: {} of `{model}` left out: how fast it trains is not known",
                self.jobs.display(),
                formatting::counted(n, "job")
            ));
        }
        assumptions.push(replay::ASSUMED.into());
        jobs
    }

    /// The machines, and the processors of a parallel machine.
    fn machines(&self, assumptions: &mut Vec<String>) -> Result<(FleetSpec, Option<u32>), Fail> {
        if let Some(nodes) = &self.nodes {
            if self.procs.is_some() {
                return Err(Fail::usage("--nodes and --procs both say how large the machine is"));
            }
            return Ok((fleet(nodes)?, None));
        }
        if self.format != Format::Swf {
            let (nodes, gpus) = ASSUMED;
            assumptions.push(format!(
                "{nodes} nodes of {gpus} GPUs (the trace does not say; --nodes {nodes}x{gpus})"
            ));
            return Ok((replay::alike(nodes, gpus), None));
        }
        let procs = match self.procs {
            Some(n) => n,
            None => {
                let text = traces::read_file(&self.jobs).map_err(bad_trace)?;
                traces::swf::machine(&text).ok_or_else(|| {
                    let file = self.jobs.display();
                    Fail::usage(format!(
                        "{file}: no remark `MaxProcs` says how large the machine is"
                    ))
                    .hint("pass --procs N")
                })?
            }
        };
        if procs == 0 {
            return Err(Fail::usage("a machine has processors").hint("pass --procs N"));
        }
        Ok((replay::alike(procs, 1), Some(procs)))
    }

    fn policy(&self, assumptions: &mut Vec<String>) -> Result<Option<SitePolicy>, Fail> {
        let mut policy = SitePolicy::default();
        let mode = match self.policy.as_deref() {
            None => return Ok(None),
            Some("default") => return Ok(Some(policy)),
            Some("easy") => BackfillMode::Easy,
            Some("aggressive") => BackfillMode::Aggressive,
            Some(file) => {
                if !Path::new(file).exists() {
                    return Err(Fail::usage(format!("there is no policy and no file `{file}`"))
                        .hint("default, easy, aggressive, or a file like `muster policy -o yaml` writes"));
                }
                let text = output::read_text(Path::new(file))?;
                return Ok(Some(muster_specs::document::policy(&text, file)?));
            }
        };
        // A log has one order for the whole machine.
        policy.fair_share.enabled = false;
        policy.backfill.mode = mode;
        policy.backfill.predict = mode != BackfillMode::Easy;
        assumptions.push("no fair share between users (part of this policy)".into());
        Ok(Some(policy))
    }

    fn site(&self, ctx: &Ctx) -> Result<u8, Fail> {
        let started = Instant::now();
        let bytes = std::fs::read(&self.jobs)
            .map_err(|e| Fail::usage(format!("cannot read {}: {e}", self.jobs.display())))?;
        let origin = self.jobs.display().to_string();
        let text = traces::unpack(bytes)
            .map_err(|e| bad_trace(TraceError { file: origin.clone(), ..e }))?;
        let records = muster_sim::site::records(&origin, &mut text.as_bytes()).map_err(fail)?;
        let policy = self.policy(&mut Vec::new())?;
        let seeds = self.seeds.as_deref().map_or(Ok(vec![1]), range)?;
        let one = |seed: &u64| {
            let from = Instant::now();
            let lived = muster_sim::site::replay(records.iter().cloned(), policy.clone(), *seed);
            lived.map_err(fail).map(|(mut o, h)| {
                o.wall_s = from.elapsed().as_secs_f64();
                (o, h)
            })
        };
        let lived = pool::each(&seeds, pool::threads(self.threads), one)?;
        let Some((outcome, history)) = lived.first() else {
            return Err(Fail::usage("there is no seed to replay"));
        };
        let mut found =
            LogReplay { format: "muster".into(), outcome: outcome.clone(), ..LogReplay::default() };
        found.outcome.wall_s = started.elapsed().as_secs_f64();
        found.outcome.peak_rss_bytes = peak_rss();
        self.page(&found, history)?;
        let runs: Vec<Value> =
            lived.iter().filter_map(|(o, _)| serde_json::to_value(o).ok()).collect();
        let mut all = serde_json::to_value(&found)
            .map_err(|e| Fail::failed(format!("cannot write JSON: {e}")))?;
        if let (Value::Object(all), [_, _, ..]) = (&mut all, &runs[..]) {
            if let Value::Object(means) = mean(&runs) {
                let own = ["wall_s", "peak_rss_bytes", "seed", "log_digest"];
                all.extend(means.into_iter().filter(|(k, _)| !own.contains(&k.as_str())));
            }
            all.insert("runs".into(), Value::Array(runs));
        }
        ctx.show(&all, |_| log_text(&found))?;
        Ok(0)
    }
}

/// The mean of each number; what is no number is as in the first.
fn mean(runs: &[Value]) -> Value {
    match runs.first() {
        Some(Value::Object(first)) => first
            .keys()
            .map(|k| {
                let of: Vec<Value> = runs.iter().filter_map(|r| r.get(k).cloned()).collect();
                (k.clone(), mean(&of))
            })
            .collect(),
        Some(Value::Number(_) | Value::Null) => {
            let all: Vec<f64> = runs.iter().filter_map(Value::as_f64).collect();
            match all.len() {
                0 => Value::Null,
                n => Value::from(all.iter().sum::<f64>() / n as f64),
            }
        }
        Some(other) => other.clone(),
        None => Value::Null,
    }
}

fn missing(flag: &str, what: &str) -> Fail {
    Fail::usage(format!("{flag} is missing: {what}"))
        .hint("openb needs --nodes, --jobs and --order; `muster sim replay --help` has an example")
}

/// A trace's hint becomes the command's.
fn bad_trace(mut e: TraceError) -> Fail {
    let hint = e
        .hint
        .take()
        .unwrap_or_else(|| "fix the file, or leave such rows out with --on-bad-row skip".into());
    Fail::new(USAGE, e).hint(hint)
}

/// What a trace is called: its file without what shows its form.
fn name(file: &Path) -> String {
    let whole = file.file_name().unwrap_or(file.as_os_str()).to_string_lossy();
    let bare = whole.strip_suffix(".gz").unwrap_or(&whole);
    bare.rsplit_once('.').map_or(bare, |(stem, _)| stem).to_owned()
}

fn fleet(text: &str) -> Result<FleetSpec, Fail> {
    if let Some(fleet) = replay::machine(text) {
        return Ok(fleet);
    }
    let file = Path::new(text);
    if !file.exists() {
        return Err(Fail::usage(format!("`{text}` is neither a file nor like 64x8"))
            .hint("--nodes 64x8 is 64 nodes with 8 GPUs each"));
    }
    let head = traces::read_file(file).map_err(bad_trace)?;
    let head = head.lines().next().unwrap_or_default();
    let file = text.to_owned();
    Ok(if head.split(',').any(|c| c.trim() == "gpu") {
        FleetSpec::Openb { file }
    } else {
        FleetSpec::Topology {
            file,
            sku: "h100-sxm".into(),
            gpus_per_node: ASSUMED.1,
            spares: Spares::default(),
        }
    })
}

/// `42-51`, or one number.
fn range(text: &str) -> Result<Vec<u64>, Fail> {
    let (a, b) = text.split_once('-').unwrap_or((text, text));
    match (a.trim().parse::<u64>(), b.trim().parse::<u64>()) {
        (Ok(a), Ok(b)) if a <= b && b - a < 10_000 => Ok((a..=b).collect()),
        _ => Err(Fail::usage(format!("`{text}` names no seeds")).hint("write --seeds 42-51")),
    }
}

/// The orders of the seeds that were asked for, in that order.
fn picked(
    orders: Vec<(u64, Vec<u32>)>,
    seeds: &[u64],
    file: &Path,
) -> Result<Vec<(u64, Vec<u32>)>, Fail> {
    let mut all: std::collections::BTreeMap<u64, Vec<u32>> = orders.into_iter().collect();
    let there: Vec<String> = all.keys().map(ToString::to_string).collect();
    seeds
        .iter()
        .map(|s| {
            all.remove(s).map(|o| (*s, o)).ok_or_else(|| {
                Fail::usage(format!("{} has no order of seed {s}", file.display()))
                    .hint(format!("it has {}", there.join(", ")))
            })
        })
        .collect()
}

fn openb_text(o: &OpenbReplay) -> String {
    let mut t = format!(
        "{}: {}, {}, {} of arrival\n\n",
        o.scenario,
        formatting::counted(o.nodes.into(), "node"),
        formatting::counted(o.gpus, "GPU"),
        formatting::counted(o.runs.len() as u64, "order"),
    );
    t.push_str(&format!(
        "GPU allocation  {:.2}% when 130% were requested\n",
        o.gpu_allocation_ratio * 100.0
    ));
    t.push_str(&format!(
        "fragmentation   {} of what is left\n",
        formatting::percent(o.fragmentation)
    ));
    t.push_str(&format!("pods            {:.0}, {:.0} were placed\n\n", o.jobs, o.jobs_completed));
    let mut table =
        output::table::Table::new(&["SEED", "PODS", "PLACED", "ALLOCATION", "FRAGMENTATION"]);
    for r in &o.runs {
        table.row(vec![
            output::table::number(r.seed),
            output::table::number(formatting::group_digits(r.jobs)),
            output::table::number(formatting::group_digits(r.jobs_completed)),
            output::table::number(format!("{:.2}%", r.gpu_allocation_ratio * 100.0)),
            output::table::number(formatting::percent(r.fragmentation)),
        ]);
    }
    t.push_str(&table.render());
    t.push_str(&format!("\nlog {} ({:.1} s)\n", o.log_digest, o.wall_s));
    t
}

fn log_text(r: &LogReplay) -> String {
    let page = run::text(&r.outcome, 0, &[]);
    let Some(s) = r.bounded_slowdown else { return page };
    format!(
        "bounded slowdown (10 s): mean {:.2}, p50 {:.2}, p95 {:.2}, p99 {:.2}, max {:.1}\n\n{page}",
        s.mean, s.p50, s.p95, s.p99, s.max
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use serde_json::json;

    #[derive(Debug, Parser)]
    struct Only {
        #[command(flatten)]
        args: ReplayArgs,
    }

    fn checked(more: &str) -> Result<(), String> {
        let words = "replay --jobs j".split(' ').chain(more.split(' '));
        let only = Only::try_parse_from(words).map_err(|e| e.to_string())?;
        only.args.makes_sense().map_err(|f| f.message)
    }

    #[test]
    fn flags_that_mean_nothing_are_refused() {
        assert_eq!(checked("--format swf --procs 100 --policy easy"), Ok(()));
        assert_eq!(checked("--format openb --nodes n --order o --seeds 42-51"), Ok(()));
        assert_eq!(checked("--format muster --seeds 1-3 --policy new.yaml"), Ok(()));
        for bad in [
            "--format openb --policy easy",
            "--format openb --log l",
            "--format philly --procs 4",
            "--format swf --seeds 1-2",
            "--format muster --nodes 64x8",
            "--format philly --order o",
        ] {
            let said = checked(bad).expect_err(bad);
            assert!(said.contains("means nothing for --format"), "{bad}: {said}");
        }
        assert!(checked("--format csv").is_err());
    }

    #[test]
    fn seeds_are_a_range_and_must_be_there() {
        assert_eq!(range("42-44").ok(), Some(vec![42, 43, 44]));
        assert_eq!(range("7").ok(), Some(vec![7]));
        assert!(range("9-2").is_err() && range("x").is_err() && range("1-").is_err());
        let orders = vec![(42, vec![1]), (43, vec![2])];
        let found = picked(orders.clone(), &[43], Path::new("o")).expect("it is there");
        assert_eq!(found, [(43, vec![2])]);
        let f = picked(orders, &[44], Path::new("o.csv")).expect_err("it is not");
        assert_eq!(f.message, "o.csv has no order of seed 44");
        assert_eq!(f.hint.as_deref(), Some("it has 42, 43"));
    }

    #[test]
    fn a_trace_is_called_like_its_file() {
        assert_eq!(name(Path::new("a/KTH-SP2.swf.gz")), "KTH-SP2");
        assert_eq!(name(Path::new("philly.csv")), "philly");
        assert_eq!(name(Path::new("jobs")), "jobs");
    }

    #[test]
    fn means_are_taken_of_numbers_only() {
        let runs = [
            json!({"ettr": 0.5, "wait_s": {"mean": 1.0}, "mtbi_s": null, "log_digest": "a"}),
            json!({"ettr": 0.7, "wait_s": {"mean": 3.0}, "mtbi_s": 4.0, "log_digest": "b"}),
        ];
        let want = json!({"ettr": 0.6, "wait_s": {"mean": 2.0}, "mtbi_s": 4.0, "log_digest": "a"});
        assert_eq!(mean(&runs), want);
    }

    #[test]
    fn a_hint_says_how_to_go_on() {
        let text = "timestamp,duration,gpus,cluster\n";
        let e = traces::philly::jobs("p.csv", text.as_bytes(), OnBadRow::Stop).expect_err("bad");
        let f = bad_trace(e);
        assert_eq!(f.code, USAGE);
        assert!(f.message.contains("there is no column `num_gpus`"), "{}", f.message);
        assert!(f.hint.is_some() && !f.message.contains("hint"));
        let f = fleet("64 nodes").expect_err("neither");
        assert!(f.message.contains("neither a file nor like 64x8"), "{}", f.message);
    }
}
