//! Detection, scored: a fleet that fails in every way and knows which, beside what the server
//! makes of it; then how fast it decides when very many nodes signal.

mod families;
mod fleet;
mod found;
mod operate;
mod scale;
mod score;
mod truth;

use crate::Options;
use crate::load::runtime;
use crate::report::Report;
use anyhow::{Context, Result};
use fleet::{Api, open_limits, places, set_topology};
use operate::Operator;
use score::{Score, score};
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};
use truth::GroundTruth;
use xtask::site::Site;

/// What one run is made of.
struct Plan {
    nodes: u32,
    speed: f64,
    calm_s: f64,
    busy_s: f64,
    tail_s: f64,
    faults: u32,
    alikes: u32,
    drain_every: Duration,
}

impl Plan {
    fn of(options: &Options) -> Plan {
        let speed = options.speed.unwrap_or(30.0);
        let mut plan = if options.quick {
            Plan {
                nodes: options.nodes.unwrap_or(128),
                speed,
                calm_s: 420.0,
                busy_s: 2400.0,
                tail_s: 600.0,
                faults: 80,
                alikes: 80,
                drain_every: Duration::from_secs(12),
            }
        } else {
            Plan {
                nodes: options.nodes.unwrap_or(256),
                speed,
                calm_s: 600.0,
                busy_s: 39_000.0,
                tail_s: 600.0,
                // Some are cut short by others and do not count: a thousand are to be left.
                faults: 1100,
                alikes: 1100,
                drain_every: Duration::from_secs(20),
            }
        };
        if let Some(n) = options.faults {
            plan.busy_s *= f64::from(n) / f64::from(plan.faults);
            (plan.faults, plan.alikes) = (n, n);
        }
        plan
    }
}

/// `--muster`, else `MUSTER_BIN`, else what was built.
fn binary(options: &Options) -> PathBuf {
    let built = |kind: &str| xtask::target_dir().join(kind).join("muster");
    options
        .muster
        .clone()
        .or_else(|| std::env::var_os("MUSTER_BIN").map(PathBuf::from))
        .unwrap_or_else(|| Some(built("release")).filter(|p| p.is_file()).unwrap_or(built("debug")))
}

/// The fleet's clock runs fast, so the server's patience with silent nodes is short.
const PACE: [(&str, &str); 3] =
    [("MUSTER_HEARTBEAT", "1s"), ("MUSTER_TELEMETRY", "1s"), ("MUSTER_LOST_AFTER", "4s")];

pub(crate) fn run(options: &Options) -> Result<Report> {
    let mut report = Report::new("health");
    let parts: Vec<&str> =
        options.part.as_deref().map_or(vec!["score", "limits", "scale"], |p| vec![p]);
    if parts.contains(&"score") {
        scored(options, &mut report)?;
    }
    if parts.contains(&"limits") {
        limits(options, &mut report)?;
    }
    if parts.contains(&"scale") {
        scale::run(options, &binary(options), &mut report)?;
    }
    Ok(report)
}

fn scored(options: &Options, report: &mut Report) -> Result<()> {
    let plan = Plan::of(options);
    let site = Site::start(&binary(options), &options.scratch(), &["server"], &PACE)?;
    let truth = site.scratch().join("truth.jsonl");
    let life = json!({
        "kind": "scored", "speed": plan.speed, "calm_s": plan.calm_s, "busy_s": plan.busy_s,
        "tail_s": plan.tail_s, "faults": plan.faults, "alikes": plan.alikes,
        "only": options.only, "truth": truth,
    });
    let drain = options.only.is_empty().then_some(plan.drain_every);
    let operator = live(&site, &plan, options.seed, &life, drain, true)?;
    let mut life = GroundTruth::read(&truth)?;
    life.truths.extend(operator.planned.clone());
    keep(options, &truth, &operator)?;
    let mut s = score(&life, &operator.story, true);
    drop(site);
    if options.only.is_empty() {
        for n in 0..if options.quick || options.faults.is_some() { 2 } else { 8 } {
            s.add(group(options, n)?);
        }
    }
    report_score(&s, report);
    report.note(format!(
        "{} nodes of 8 GPUs, {} gangs, time {}x as fast, seed {}: {} faults and {} look-alikes ({} \
         faults cut short by others are left out). A finding is right when it names what failed, \
         in time, as itself or by an effect that it must have; precision is faults found / (faults \
         found + wrong findings). Detection time is by the fleet's clock for what rows show, by \
         the machine's for what a line of the log says. Causes that are concluded from many \
         findings are scored in runs of their own (leaf-loss, feed-loss): in the dense one, where \
         faults come {}x as fast as the server's clock expects, wrong ones are counted apart.",
        plan.nodes,
        operator.gangs(),
        plan.speed,
        options.seed,
        s.faults,
        s.alikes,
        s.cut,
        plan.speed
    ));
    let mut words = worst(&s);
    for (what, n) in &operator.refused {
        words += &format!("refused {n} times: {what}\n");
    }
    eprintln!("{words}");
    report.note(words);
    Ok(())
}

/// A life in which a whole leaf or feed fails, and hardly anything else: by the server's own clock
/// faults come no faster than they could.
fn group(options: &Options, n: u64) -> Result<Score> {
    let plan = Plan {
        nodes: 96,
        speed: 30.0,
        calm_s: 150.0,
        busy_s: 120.0,
        tail_s: 450.0,
        faults: 1,
        alikes: 3,
        drain_every: Duration::from_secs(3600),
    };
    let kind = if n.is_multiple_of(2) { "leaf-loss" } else { "feed-loss" };
    let site = Site::start(&binary(options), &options.scratch(), &["server"], &PACE)?;
    let truth = site.scratch().join("truth.jsonl");
    let only = json!([kind, "clock-skew", "few-symbols", "warm-rack", "few-correctable"]);
    let life = json!({
        "kind": "scored", "speed": plan.speed, "calm_s": plan.calm_s, "busy_s": plan.busy_s,
        "tail_s": plan.tail_s, "faults": plan.faults, "alikes": plan.alikes, "only": only,
        "truth": truth,
    });
    let operator = live(&site, &plan, options.seed.wrapping_add(1000 + n), &life, None, true)?;
    Ok(score(&GroundTruth::read(&truth)?, &operator.story, false))
}

/// Lets the fleet live until its life is over.
fn live(
    site: &Site,
    plan: &Plan,
    seed: u64,
    life: &serde_json::Value,
    drain: Option<Duration>,
    opened: bool,
) -> Result<Operator> {
    let places = places(plan.nodes);
    let names = places.iter().map(|p| p.name.clone()).collect();
    let log = site.scratch().join("faultgen.log");
    runtime()?.block_on(async {
        let mut api = Api::new(site)?;
        set_topology(&mut api, &places).await?;
        if opened {
            open_limits(&mut api).await?;
        }
        let mut fleet = fleet::start(site, &places, seed, life, &log)?;
        let mut operator = Operator::new(api, names, seed, drain);
        operator.story.groups = fleet::groups(&places);
        fleet.wait_ready(Duration::from_secs(180), |d| {
            d.output().contains("nodes joined").then_some(())
        })?;
        operator.fill(plan.nodes).await?;
        let length = (plan.calm_s + plan.busy_s + plan.tail_s) / plan.speed;
        let until = Instant::now() + Duration::from_secs_f64(length * 3.0 + 60.0);
        let mut shown = 0;
        while !fleet.output().contains("the run is over") {
            if let Err(error) = fleet.must_be_running() {
                // It may have ended well between two looks.
                if fleet.output().contains("the run is over") {
                    break;
                }
                return Err(error);
            }
            anyhow::ensure!(
                Instant::now() < until,
                "the fleet takes too long: {}",
                fleet.last_words()
            );
            operator.turn().await?;
            let output = fleet.output();
            for line in output.lines().skip(shown) {
                eprintln!("  {line}");
            }
            shown = output.lines().count();
            tokio::time::sleep(Duration::from_millis(400)).await;
        }
        // What is under way comes to its end.
        tokio::time::sleep(Duration::from_secs(2)).await;
        operator.turn().await?;
        Ok(operator)
    })
}

/// With the limits that every site has, a storm of faults does not take the fleet.
fn limits(options: &Options, report: &mut Report) -> Result<()> {
    let plan = Plan {
        nodes: 96,
        speed: 30.0,
        calm_s: 300.0,
        busy_s: 600.0,
        tail_s: 600.0,
        faults: 60,
        alikes: 0,
        drain_every: Duration::from_secs(3600),
    };
    let site = Site::start(&binary(options), &options.scratch(), &["server"], &PACE)?;
    let truth = site.scratch().join("truth.jsonl");
    let life = json!({
        "kind": "scored", "speed": plan.speed, "calm_s": plan.calm_s, "busy_s": plan.busy_s,
        "tail_s": plan.tail_s, "faults": plan.faults, "alikes": 0, "truth": truth,
        "only": ["gpu-needs-reset", "driver-verdict", "ecc-fatal", "machine-check", "nvlink-fatal"],
    });
    let operator = live(&site, &plan, options.seed, &life, None, false)?;
    let share = 100.0 * operator.story.most_out as f64 / f64::from(plan.nodes);
    report.ours("limits_most_out_percent", "%", share);
    report.ours("limits_stopped", "times", f64::from(operator.story.stopped));
    report.note(format!(
        "Limits: 60 faults within 20 s on {} nodes under the default policy; at most {:.0}% of the \
         nodes were out of service at a time.",
        plan.nodes, share
    ));
    Ok(())
}

/// Keeps what the score was made of, for whoever wants to look.
fn keep(options: &Options, truth: &std::path::Path, operator: &Operator) -> Result<()> {
    let Some(dir) = &options.keep else { return Ok(()) };
    std::fs::create_dir_all(dir).with_context(|| format!("cannot make {}", dir.display()))?;
    std::fs::copy(truth, dir.join("truth.jsonl"))?;
    let found: Vec<serde_json::Value> = operator
        .story
        .found
        .iter()
        .map(|(id, f)| {
            json!({"id": id, "kind": f.kind, "entity": f.entity, "severity": f.severity,
                "at": f.at, "attempt": f.attempt, "evidence": f.evidence, "incident": f.incident})
        })
        .collect();
    let left: Vec<serde_json::Value> = operator
        .story
        .left
        .iter()
        .map(|(node, at, why)| json!({"node": node, "at": at, "why": why}))
        .collect();
    let all = json!({"found": found, "left": left, "events": operator.story.events});
    std::fs::write(dir.join("found.json"), serde_json::to_string_pretty(&all)?)?;
    Ok(())
}

fn report_score(s: &Score, report: &mut Report) {
    let minder = "Minder (NSDI 2025, as published)";
    if let Some(v) = s.precision() {
        report.ours("precision", "share", v);
        report.theirs("precision", "share", minder, 0.904, true);
    }
    if let Some(v) = s.recall() {
        report.ours("recall", "share", v);
        report.theirs("recall", "share", minder, 0.883, true);
    }
    for (name, samples, percent) in [
        ("detect_p50_ms", &s.took, 50.0),
        ("detect_p99_ms", &s.took, 99.0),
        ("detect_row_p50_ms", &s.took_row, 50.0),
        ("detect_row_p99_ms", &s.took_row, 99.0),
        ("detect_wall_p50_ms", &s.took_wall, 50.0),
        ("detect_wall_p99_ms", &s.took_wall, 99.0),
        ("detect_line_p50_ms", &s.took_line, 50.0),
        ("detect_line_p99_ms", &s.took_line, 99.0),
    ] {
        if let Some(v) = Score::took(samples, percent) {
            report.ours(name, "ms", v);
        }
    }
    report.ours("healthy_drained", "nodes", f64::from(s.healthy_drained));
    report.ours("faults", "faults", f64::from(s.faults));
    report.ours("look_alikes", "events", f64::from(s.alikes));
    report.ours("wrong_findings", "findings", f64::from(s.wrong));
    report.ours("wrong_conclusions", "findings", f64::from(s.wrong_conclusions));
    report.quietly("beside_findings", "findings", f64::from(s.beside));
    for (kind, tally) in &s.recall {
        if let Some(v) = tally.share() {
            report.ours(&format!("recall_{kind}"), "share", v);
        }
    }
    for (kind, tally) in &s.precision {
        if let Some(v) = tally.share() {
            report.ours(&format!("precision_{kind}"), "share", v);
        }
    }
}

/// What went wrong most, with examples.
fn worst(s: &Score) -> String {
    let mut out = String::from("What went wrong:\n");
    for (kind, t) in s.recall.iter().filter(|(_, t)| t.good < t.of) {
        out +=
            &format!("missed {} of {} {kind}; {}\n", t.of - t.good, t.of, t.examples.join(" | "));
    }
    for (kind, t) in s.precision.iter().filter(|(_, t)| t.good < t.of) {
        out += &format!("wrong {} of {} {kind}; {}\n", t.of - t.good, t.of, t.examples.join(" | "));
    }
    for (alike, n) in &s.fooled {
        out += &format!("{n} wrong findings while there was: {alike}\n");
    }
    for words in &s.drained_examples {
        out += &format!("healthy, and drained: {words}\n");
    }
    out
}
