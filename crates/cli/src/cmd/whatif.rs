//! `muster whatif`: answers without side effects.

use super::job_args::JobArgs;
use clap::{Args, Subcommand};
use muster_api::{EventsQuery, WhatIf, WhatIfAnswer};
use muster_model::event::{Record, SCHEMA};
use muster_model::names::ProjectName;
use muster_model::units::{Span, Time};
use muster_sim::report::Run;
use muster_sim::site::{Ask, CHANGES, Change, Plan, SimulatedPair, Site};
use muster_sim::{SimError, site};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number};
use std::path::{Path, PathBuf};
use std::time::Instant;

/// Predict what a job or a change would do; changes nothing
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    subcommand_negates_reqs = true,
    after_help = "Examples:\n  muster whatif submit train.yaml\n  \
muster whatif submit --nodes 16 --gpus 8 --topology leaf -- true\n  \
muster whatif submit train.yaml --time 4h -o json | jq .estimated_start\n  \
muster whatif --from live --change nodes=+64\n  \
muster whatif --from server --change policy.backfill.mode=aggressive\n  \
muster whatif --from site.jsonl --change spares=4 --change checkpoint=10m\n\n\
Changes: nodes=+64, nodes=-8, nodes=+64:h200-sxm, spares=4,\n\
policy=FILE (not with --from server), policy.backfill.mode=aggressive, checkpoint=10m, failure_rate=x2, sku=h200-sxm"
)]
pub(crate) struct Whatif {
    #[command(subcommand)]
    verb: Option<Verb>,
    #[command(flatten)]
    simulator: SimulatorArgs,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Would this job start now, and where; else when, why not, and what would change that
    Submit(Box<Submit>),
}

#[derive(Debug, Args)]
struct Submit {
    /// The spec or script; `-` reads it from stdin
    #[arg(value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    file: Option<String>,
    #[command(flatten)]
    job: JobArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

#[derive(Debug, Args)]
struct SimulatorArgs {
    /// The site: `live` reads the server's log and simulates here, `server` lets the server simulate,
    /// otherwise a log (`muster store export`)
    #[arg(long, value_name = "live|server|LOG", required = true)]
    from: Option<String>,
    /// What is changed; several are made one after the other
    #[arg(long, value_name = "KEY=VALUE", required = true)]
    change: Vec<String>,
    /// Pairs of simulated runs
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1000))]
    seeds: u64,
    /// How far ahead [default: 7d, or as long as the queue lasts]
    #[arg(long, value_name = "TIME")]
    horizon: Option<Span>,
    /// About how long it may take; fewer seeds and a shorter horizon keep to it
    #[arg(long, default_value = "10s", value_name = "TIME")]
    budget: Span,
    /// Also write a page with charts of the first pair
    #[arg(long, value_name = "FILE.html")]
    report: Option<PathBuf>,
}

impl Whatif {
    /// Is the site read from a file? That asks no server.
    pub(crate) fn reads_file(&self) -> bool {
        let from = self.simulator.from.as_deref();
        self.verb.is_none() && !matches!(from, None | Some("live" | "server"))
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let Some(Verb::Submit(submit)) = self.verb else { return self.simulator.run(ctx).await };
        let Submit { file, job, command } = *submit;
        let spec = super::submit::spec(ctx, file, job, command).await?;
        // A question: "never" is an answer to it.
        super::submit::dry_run(ctx, &ctx.client()?, &spec).await?;
        Ok(0)
    }
}

fn wrong(e: SimError) -> Fail {
    Fail::usage(e)
}

impl SimulatorArgs {
    async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.from.as_deref() == Some("server") {
            return self.on_server(ctx).await;
        }
        let changes: Vec<Change> =
            self.change.iter().map(|c| change(c)).collect::<Result<_, _>>()?;
        muster_simcli::report::can_write(self.report.as_deref())?;
        let site = match self.from.as_deref() {
            Some("live") => live(ctx).await?,
            Some(file) => read(Path::new(file))?,
            None => {
                return Err(Fail::usage("--from is missing").hint("--from live, server, or a log"));
            }
        };
        let mut base = site.plan(&[], self.horizon).map_err(wrong)?;
        let mut other = site.plan(&changes, self.horizon).map_err(wrong)?;
        let threads = muster_simcli::pool::threads(None);
        let (seeds, less) = self.fit(&mut base, &mut other, threads.get())?;
        // Both lives of a seed are work of their own, so that all cores have some.
        let work: Vec<(u64, bool)> = (1..=seeds).flat_map(|s| [(s, false), (s, true)]).collect();
        let live = |(seed, changed): &(u64, bool)| {
            let plan = if *changed { &other } else { &base };
            plan.live(*seed).map_err(wrong)
        };
        let lives = muster_simcli::pool::each(&work, threads, live)?;
        let mut lives = lives.into_iter();
        let mut pairs: Vec<SimulatedPair> = Vec::new();
        while let (Some(b), Some(c)) = (lives.next(), lives.next()) {
            pairs.push(SimulatedPair::of(b, c));
        }
        let mut answer = site::answer(&site, &base, &other, &changes, &pairs);
        if let Some(less) = less {
            answer.notes.insert(0, less);
        }
        if let (Some(file), Some(SimulatedPair { base: b, changed: c })) =
            (&self.report, pairs.first())
        {
            let now = Run {
                label: "as it is",
                about: "The site from its log, simulated from now on.",
                outcome: &b.outcome,
                history: &b.history,
            };
            let then = Run {
                label: "changed",
                about: &answer.summary,
                outcome: &c.outcome,
                history: &c.history,
            };
            let page = muster_sim::report::page(&[now, then], &muster_simcli::report::command());
            muster_simcli::report::write(file, &page)?;
        }
        ctx.show(&answer, text)?;
        Ok(0)
    }

    /// The server simulates, and answers within seconds.
    async fn on_server(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.report.is_some() {
            return Err(Fail::usage("the server makes no page for --report")
                .hint("--from live simulates here and writes it"));
        }
        let body = WhatIf {
            changes: self.change,
            seeds: u32::try_from(self.seeds).unwrap_or(u32::MAX),
            horizon: self.horizon,
            budget: Some(self.budget),
        };
        ctx.show(&ctx.client()?.whatif(&body).await?, text)?;
        Ok(0)
    }

    /// One short life shows what the others will take; says what is chosen, and why it is less than
    /// was asked for.
    fn fit(
        &self,
        base: &mut Plan<'_>,
        other: &mut Plan<'_>,
        threads: usize,
    ) -> Result<(u64, Option<String>), Fail> {
        let asked = base.horizon();
        let began = Instant::now();
        base.pilot().live(1).map_err(wrong)?;
        let ask = Ask {
            changes: Vec::new(),
            seeds: self.seeds,
            horizon: self.horizon,
            budget_s: self.budget.0 as f64 / 1000.0,
            most_nodes: usize::MAX,
        };
        let effort = base.effort(&ask, began.elapsed().as_secs_f64(), threads as u64);
        base.shorten(effort.horizon);
        other.shorten(effort.horizon);
        let seeds = effort.seeds;
        let looks = if base.goes_on() {
            format!("{} ahead", base.horizon())
        } else {
            "until the jobs that are there are over".into()
        };
        let less = ask.shortfall(seeds, asked, base.horizon());
        let fewer = match less {
            Some(_) => format!(" (to keep to --budget {})", self.budget),
            None => String::new(),
        };
        output::note(&format!("simulating {} pairs, {looks}{fewer}", seeds));
        Ok((seeds, less))
    }
}

fn change(text: &str) -> Result<Change, Fail> {
    let read = text.parse::<Change>().map_err(wrong)?;
    let Change::PolicyFile(file) = read else { return Ok(read) };
    let content = output::read_text(Path::new(&file)).map_err(|f| f.hint(CHANGES))?;
    Ok(Change::Policy(Box::new(muster_specs::document::policy(&content, &file)?)))
}

fn read(file: &Path) -> Result<Site, Fail> {
    let name = file.display().to_string();
    let opened = std::fs::File::open(file).map_err(|e| {
        Fail::usage(format!("cannot read {name}: {e}")).hint("--from live, server, or a log")
    })?;
    let all = site::records(&name, &mut std::io::BufReader::new(opened)).map_err(wrong)?;
    Site::from_records(all.into_iter()).map_err(wrong)
}

/// The log of the server, from its first record to now.
async fn live(ctx: &Ctx) -> Result<Site, Fail> {
    let client = ctx.client()?;
    let mut records: Vec<Record> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let query =
            EventsQuery { after: after.clone(), limit: Some(1000), ..EventsQuery::default() };
        let page = client.events(&query).await?;
        for e in page.items {
            records.push(record(e)?);
        }
        if page.cursor.is_none() || page.cursor == after {
            break;
        }
        after = page.cursor;
    }
    let site = Site::from_records(records.into_iter()).map_err(|e| {
        Fail::failed(e).hint("`muster store export LOG` writes a log that is whole")
    })?;
    Ok(site.at(now()))
}

/// An event of the API as the record it was.
fn record(e: muster_api::Event) -> Result<Record, Fail> {
    let seq = e.seq;
    if seq == 0 {
        return Err(Fail::new(
            muster_terminal::fail::REFUSED,
            "this token sees one project, not the site",
        )
        .hint("use a token that is not bound to a project, or a log with --from LOG"));
    }
    let mut data = e.data;
    // Hashes of tokens are not reported; nothing of what follows rests on them.
    if e.kind == "token_created"
        && let Some(fields) = data.as_object_mut()
    {
        fields.insert("hash".into(), "".into());
    }
    // Nor are receivers and routes, to a token that may not read them.
    if e.kind == "routing_set"
        && let Some(fields) = data.as_object_mut()
    {
        fields.entry("routing").or_insert_with(|| serde_json::json!({}));
    }
    let project = e.project.and_then(|p| p.parse::<ProjectName>().ok());
    let at: Time = e.at.into();
    let line = serde_json::json!({
        "seq": seq, "at": at, "v": SCHEMA, "org": "", "project": project, "actor": e.actor,
        "kind": e.kind, "data": data,
    });
    muster_records::read(line.to_string().as_bytes()).map_err(|_| {
        let what = format!("event {seq} ({}) is not known to this version", e.kind);
        Fail::failed(what).hint("use the version of the server")
    })
}

fn text(a: &WhatIfAnswer) -> String {
    let mut out = format!("{}\n\n", a.summary);
    let mut table = Table::new(&["METRIC", "NOW", "CHANGED", "CHANGE", "95% OF THE CHANGE"]);
    for f in &a.metrics {
        let [base, changed, change, interval] = site::cells(f);
        table.row(vec![
            cell(site::label(f)),
            number(base),
            number(changed),
            number(change),
            number(interval),
        ]);
    }
    out.push_str(&table.render());
    out.push_str(&format!(
        "\nNow: {} with {}; {} run, {} wait. Changed: {} with {}.\n",
        plural(a.base_size[0], "node"),
        plural(a.base_size[1], "GPU"),
        plural(a.running, "job"),
        a.waiting,
        plural(a.changed_size[0], "node"),
        plural(a.changed_size[1], "GPU"),
    ));
    if a.waiting > 0 {
        let never = match a.starts_never {
            0 => String::new(),
            n => format!(", {n} never"),
        };
        out.push_str(&format!(
            "Of the jobs that wait, {} would start earlier, {} later, {} at about the same \
             time{never}.\n",
            a.starts_earlier, a.starts_later, a.starts_same
        ));
    }
    let coming =
        a.arrivals_per_hour.map(|r| format!("{r:.1} new jobs an hour, ")).unwrap_or_default();
    out.push_str(&format!(
        "Assumed: {coming}{:.1} failures in a thousand node-days.\n",
        a.failures_per_1000_node_days
    ));
    out.push_str(&format!("What binds as it is, in the runs: {}.\n", a.limit_base));
    out.push_str(&format!("What binds when changed, in the runs: {}.\n", a.limit));
    for n in &a.notes {
        out.push_str(&format!("Note: {n}.\n"));
    }
    out
}

fn plural(n: u64, what: &str) -> String {
    output::plural(usize::try_from(n).unwrap_or(usize::MAX), what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;
    use std::sync::Arc;

    fn parse(more: &[&str]) -> Result<Whatif, String> {
        let all = ["muster", "whatif"].iter().chain(more).copied();
        match Cli::try_parse_from(all).map(|c| c.command) {
            Ok(Command::Whatif(w)) => Ok(w),
            Ok(_) => Err("another command".into()),
            Err(e) => Err(e.to_string()),
        }
    }

    #[test]
    fn it_takes_what_submit_takes() {
        let read = |more: &[&str]| {
            let all: Vec<&str> = ["submit"].iter().chain(more).copied().collect();
            parse(&all)
        };
        let Ok(Whatif { verb: Some(Verb::Submit(s)), .. }) =
            read(&["--nodes", "4", "--elastic", "2-8", "--", "true"])
        else {
            panic!("good arguments")
        };
        assert_eq!((s.job.nodes.as_deref(), s.job.elastic.as_deref()), (Some("4"), Some("2-8")));
        assert!(read(&["train.yaml", "--time", "4h"]).is_ok());
        assert!(read(&[]).is_err(), "neither a file nor a command");
        assert!(read(&["train.yaml", "--", "true"]).is_err());
    }

    #[test]
    fn a_twin_needs_a_site_and_a_change() {
        let w = parse(&["--from", "live", "--change", "nodes=+64", "--change", "spares=2"])
            .expect("good arguments");
        assert_eq!(w.simulator.change, ["nodes=+64", "spares=2"]);
        assert_eq!((w.simulator.seeds, w.simulator.budget), (8, Span::secs(10)));
        assert!(w.verb.is_none());
        assert!(parse(&["--from", "live"]).is_err(), "no change");
        assert!(parse(&["--change", "nodes=+64"]).is_err(), "no site");
        assert!(parse(&["--from", "live", "--change", "spares=1", "--seeds", "0"]).is_err());
        assert!(parse(&["--from", "live", "--change", "spares=1", "submit", "x"]).is_err());
    }

    #[test]
    fn an_event_is_the_record_it_was() {
        let event = muster_model::Event::TokenCreated {
            id: "ab".into(),
            name: "ci".parse().expect("a valid name"),
            hash: String::new(),
            usage: muster_model::tenant::TokenUse::Join { uses_left: None },
            expires_at: None,
        };
        let of = |seq: u64, event: muster_model::Event| Record {
            seq: muster_model::Seq(seq),
            at: muster_model::units::Time(5000),
            v: SCHEMA,
            org: String::new(),
            project: Some("nlp".parse().expect("a valid name")),
            actor: "system".into(),
            key: None,
            event,
        };
        let was = of(7, event.clone());
        assert_eq!(record(muster_api::Event::of(&was)).expect("it is known"), was);
        // To a viewer, receivers and routes are not shown.
        let set = of(9, muster_model::Event::RoutingSet { routing: Arc::default() });
        let mut seen = muster_api::Event::of(&set);
        seen.data = serde_json::json!({});
        assert_eq!(record(seen).expect("it is known"), set);
        let hidden = record(muster_api::Event::of(&of(0, event.clone()))).expect_err("no place");
        assert!(hidden.message.contains("one project"), "{}", hidden.message);
        let mut newer = muster_api::Event::of(&of(8, event));
        newer.kind = "token_blessed".into();
        let e = record(newer).expect_err("not known");
        assert!(e.message.contains("event 8 (token_blessed)"), "{}", e.message);
    }

    #[test]
    fn a_change_that_is_none_is_answered_with_all() {
        let e = change("speed=2").expect_err("no such change");
        assert!(e.message.contains("policy.backfill.mode=aggressive"), "{}", e.message);
        let e = change("policy=/no/such/file").expect_err("no such file");
        assert!(e.message.contains("/no/such/file"), "{}", e.message);
    }
}
