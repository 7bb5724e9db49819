//! `muster gameday`: practise failures, and see whether what must follow does.

mod drills;
mod net;
mod play;
mod processes;
mod real;
mod result;
mod scene;
mod site;
mod stage;
mod xid;

use clap::{Args, Subcommand};
use muster_health::modes::MODES;
use muster_specs::error::closest;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{FAILED, Fail, NOT_FOUND};
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number};
use result::Outcome;
use scene::{Drill, Play, RealDrill, Setting};
use site::{Site, Start};

/// Run failure drills: inject a failure, and score its detection and recovery
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster gameday list\n  muster gameday run gpu-off-bus\n  \
muster gameday run slow-rank slow-job -o json\n  muster gameday run --all\n  \
muster gameday run storage-stall --live --yes    on the current server\n\n\
Each drill starts a cluster of its own in a temporary directory and stops it afterwards. With\n\
--live it runs on the server of the context, with simulated nodes only.")]
pub struct Gameday {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List the drills and the failure modes they exercise
    List,
    /// Run drills; the exit code is 1 when one of them failed
    Run(Run),
}

#[derive(Debug, Args)]
struct Run {
    /// Names of drills
    #[arg(value_name = "NAME", required_unless_present = "all")]
    names: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "names")]
    all: bool,
    /// On the server that is there, with its simulated nodes; slow, because its clocks are real
    #[arg(long, conflicts_with_all = ["nodes", "seed"])]
    live: bool,
    /// Confirm that failures are injected on that server; --live needs it
    #[arg(long, requires = "live")]
    yes: bool,
    /// At least so many simulated nodes
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=512))]
    nodes: Option<u32>,
    /// Makes the simulated nodes repeatable
    #[arg(long, default_value_t = 1, value_name = "N")]
    seed: u64,
}

/// Is there a drill of this name?
#[must_use]
pub fn knows(name: &str) -> bool {
    drills::all().iter().any(|d| d.name == name)
}

impl Gameday {
    /// Does it run on the server of the context? Other drills start a cluster of their own.
    #[must_use]
    pub fn is_live(&self) -> bool {
        matches!(&self.verb, Verb::Run(r) if r.live)
    }

    /// Does what was typed.
    ///
    /// # Errors
    /// What kept a drill from being played.
    pub async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            Verb::List => list(ctx),
            Verb::Run(r) => r.run(ctx).await,
        }
    }
}

#[derive(Debug, serde::Serialize)]
struct Listed {
    name: &'static str,
    about: &'static str,
    modes: Vec<&'static str>,
    real: bool,
}

fn list(ctx: &Ctx) -> Result<u8, Fail> {
    let modes = |name: &str| MODES.iter().filter(|m| m.drill == name).map(|m| m.code).collect();
    let items: Vec<Listed> = drills::all()
        .iter()
        .map(|d| Listed {
            name: d.name,
            about: d.about,
            modes: modes(d.name),
            real: matches!(d.play, Play::Real(_)),
        })
        .collect();
    ctx.show(&items, |items| {
        let mut table = Table::new(&["NAME", "MODES", "WHAT"]);
        for i in items {
            table.row(vec![cell(i.name), cell(i.modes.join(", ")), cell(i.about)]);
        }
        table.render()
    })?;
    Ok(0)
}

impl Run {
    async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let all = drills::all();
        let mut chosen: Vec<&Drill> = Vec::new();
        for name in &self.names {
            let Some(d) = all.iter().find(|d| d.name == name) else {
                let names: Vec<&str> = all.iter().map(|d| d.name).collect();
                let near = closest(name, &names).map(|n| format!("did you mean `{n}`? "));
                return Err(Fail::new(NOT_FOUND, format!("there is no drill `{name}`")).hint(
                    format!("{}`muster gameday list` shows them", near.unwrap_or_default()),
                ));
            };
            chosen.push(d);
        }
        if self.all {
            chosen = all
                .iter()
                .filter(|d| !self.live || matches!(d.play, Play::Faults { .. }))
                .collect();
            let gpu = |d: &&Drill| matches!(d.play, Play::Real(RealDrill::Xid(_)));
            if !xid::there() {
                for d in chosen.iter().filter(|d| gpu(d)) {
                    output::note(&format!("left out {}: there is no NVIDIA GPU here", d.name));
                }
                chosen.retain(|d| !gpu(d));
            }
        }
        if self.live {
            self.may_be_live(ctx, &chosen).await?;
        }
        let mut outcomes = Vec::new();
        for d in chosen {
            // Dropped in the middle, a drill takes everything with it that it started.
            let played = tokio::select! {
                played = self.one(ctx, d) => played,
                () = muster_terminal::shutdown_signal() => {
                    return Err(Fail::failed("stopped during a drill"));
                }
            };
            let outcome = played.unwrap_or_else(|e| Outcome::broken(d.name, e.message));
            if !outcome.passed || ctx.is_table() || output::is_terminal_err() {
                let word = if outcome.passed { "passed" } else { "FAILED" };
                let why = if outcome.why.is_empty() {
                    String::new()
                } else {
                    format!(": {}", outcome.why)
                };
                output::note(&format!("{word} {}{why}", d.name));
            }
            outcomes.push(outcome);
        }
        let passed = outcomes.iter().all(|o| o.passed);
        ctx.show(&outcomes, |o| table(o).render())?;
        Ok(if passed { 0 } else { FAILED })
    }

    async fn may_be_live(&self, ctx: &Ctx, chosen: &[&Drill]) -> Result<(), Fail> {
        if let Some(d) = chosen.iter().find(|d| matches!(d.play, Play::Real(_))) {
            return Err(Fail::usage(format!("drill `{}` needs a cluster of its own", d.name))
                .hint("leave out --live"));
        }
        let nodes = ctx.client()?.all_nodes(None).await?;
        if let Some(n) = nodes.iter().find(|n| !n.inventory.simulated) {
            return Err(Fail::usage(format!("node {} is real", n.name))
                .hint("drills are for clusters of simulated nodes only"));
        }
        if !self.yes {
            return Err(Fail::usage(format!(
                "this breaks nodes of {} on purpose",
                ctx.client()?.server()
            ))
            .hint("pass --yes if that is what you want"));
        }
        Ok(())
    }

    async fn one(&self, ctx: &Ctx, d: &Drill) -> Result<Outcome, Fail> {
        if self.live {
            let Play::Faults { inject, expect } = &d.play else {
                return Err(Fail::failed("it needs a cluster of its own"));
            };
            let client = ctx.client()?;
            let (outcome, scene) = play::faults(&client, d, *inject, expect, true).await?;
            play::clean(&client, &scene).await?;
            return Ok(outcome);
        }
        let nodes = self.nodes.map_or(d.set.nodes, |n| n.max(d.set.nodes));
        let Setting { speed, lost_after, .. } = d.set;
        let start = Start { nodes, speed, seed: self.seed, lost_after };
        let mut site = Site::begin(start).await?;
        let outcome = match &d.play {
            Play::Faults { inject, expect } => {
                play::faults(&site.client, d, *inject, expect, false).await.map(|(o, _)| o)
            }
            Play::Real(kind) => stage::play(&mut site, d.name, *kind).await,
        };
        site.end().await;
        outcome
    }
}

fn table(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(&[
        "DRILL",
        "FOUND",
        "VERDICT",
        "REMEDIATION",
        "MTTR",
        "LOST",
        "HEALTHY",
        "RESULT",
    ]);
    let secs = |ms: Option<u64>| match ms {
        Some(ms) => format!("{}.{} s", ms / 1000, ms % 1000 / 100),
        None => "-".into(),
    };
    let marked = |what: &Option<String>, right: bool| {
        let text = what.clone().unwrap_or_else(|| "none".into());
        if right { text } else { format!("{text} (wrong)") }
    };
    for o in outcomes {
        table.row(vec![
            cell(&o.name),
            number(secs(o.detected_ms)),
            cell(marked(&o.verdict, o.verdict_right)),
            cell(marked(&o.remediation, o.remediation_right)),
            number(secs(o.recovered_ms)),
            number(format!("{:.0}", o.lost_gpu_seconds)),
            number(o.healthy_drained),
            cell(if o.passed { "passed" } else { "failed" }),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What nobody can practise; the page of failure modes says why.
    const NOT_YET: [&str; 2] = ["lemon", "copied-identity"];

    #[test]
    fn every_failure_mode_has_a_drill_that_runs_or_is_said_to_have_none() {
        for m in MODES {
            assert_eq!(!knows(m.drill), NOT_YET.contains(&m.code), "{}: {}", m.code, m.drill);
            assert_eq!(!knows(m.drill), m.drill.starts_with("none: "), "{}", m.code);
        }
    }

    #[test]
    fn the_results_fit_eighty_columns() {
        let mut o = Outcome::broken("failed-qualification", String::new());
        (o.detected_ms, o.recovered_ms) = (Some(38_312), Some(17_000));
        o.verdict = Some("infrastructure".into());
        o.remediation = Some("reset_gpu: pending approval".into());
        let text = table(&[o]).render_for(Some(80), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("38.3 s") && text.contains("failed"), "{text}");
    }

    #[test]
    fn no_two_drills_have_one_name() {
        let all = drills::all();
        for (i, d) in all.iter().enumerate() {
            assert!(all[..i].iter().all(|o| o.name != d.name), "{}", d.name);
        }
    }
}
