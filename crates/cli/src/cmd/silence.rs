//! `muster silence`: times in which some alerts are not sent.

use super::bulk::Refusals;
use super::reservation::start;
use crate::known_project::known_project;
use clap::{Args, Subcommand};
use muster_api::{SetSilence, Silence};
use muster_model::alert::{Matcher, Topic, Urgency};
use muster_model::names::Label;
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time;
use muster_terminal::{output, pick};

/// List, create and end silences: times in which some alerts notify nobody
#[derive(Debug, Args)]
#[command(
    visible_alias = "silences",
    after_help = "Examples:\n  muster silence\n  muster silence create fans --under rack:eu/c1/s1/l2/r7 --length 2h --reason 'fans are replaced'\n  \
muster silence create nightly --kind 'thermal*' --start +2h --length 1h --every 24h\n  muster silence end fans\n\n\
Silenced alerts are still shown. What lasts longer than the silence notifies when it ends."
)]
pub(crate) struct SilenceCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them
    List,
    /// Create one, or replace the one of that name
    Create(Create),
    /// End them
    End {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
}

#[derive(Debug, Args)]
struct Create {
    /// Its name
    name: String,
    /// Alerts of this kind, such as gpu-fault or 'gpu-*'
    #[arg(long)]
    kind: Option<String>,
    /// Alerts that were concluded from this, such as finding, objective, certificate or drift
    #[arg(long, value_parser = topic)]
    topic: Option<Topic>,
    /// Alerts about this thing, such as node:hgx-0001
    #[arg(long)]
    entity: Option<String>,
    /// Alerts about this thing and what is part of it, such as rack:rack03 or leaf:eu/c1/s1/l2
    #[arg(long)]
    under: Option<String>,
    /// Only pages or only tickets
    #[arg(long, value_parser = ["page", "ticket"])]
    urgency: Option<String>,
    /// Alerts that this owner answers for
    #[arg(long)]
    owner: Option<String>,
    /// When it begins: now, +2h, or 2026-01-31T12:00:00Z
    #[arg(long, value_name = "TIME", default_value = "now")]
    start: String,
    /// How long it lasts
    #[arg(long, value_name = "TIME")]
    length: Span,
    /// Begins again after so long, until it is ended
    #[arg(long, value_name = "TIME")]
    every: Option<Span>,
    /// Why, for people
    #[arg(long, default_value = "")]
    reason: String,
}

fn topic(word: &str) -> Result<Topic, String> {
    let found = Topic::ALL.into_iter().find(|t| t.word() == word);
    found.ok_or_else(|| format!("use one of {}", Topic::ALL.map(Topic::word).join(", ")))
}

impl Create {
    fn wanted(&self, project: Option<&str>, now: Time) -> Result<(Label, SetSilence), Fail> {
        let name: Label = self.name.parse().map_err(|e| Fail::usage(format!("{e}")))?;
        let at = start(&self.start, now).map_err(|e| Fail::usage(format!("--start: {e}")))?;
        let urgency = self.urgency.as_deref().map(|u| match u {
            "page" => Urgency::Page,
            _ => Urgency::Ticket,
        });
        let matcher = Matcher {
            urgency,
            topic: self.topic,
            kind: self.kind.clone(),
            entity: self.entity.clone(),
            under: self.under.clone(),
            owner: self.owner.clone(),
            project: project.map(str::to_owned),
        };
        let body = SetSilence {
            matcher,
            start: Some(at.into()),
            length: self.length,
            every: self.every,
            why: self.reason.clone(),
        };
        body.clone().into_model(name.clone(), now).check().map_err(|p| {
            let everything = p.field == "match";
            let fail = Fail::from(p);
            // The hint of a file is of no use here.
            if everything {
                fail.hint("name what is meant; --kind '*' if it really is everything")
            } else {
                fail
            }
        })?;
        Ok((name, body))
    }
}

impl SilenceCmd {
    /// Is the project, or a pattern of several, part of what is silenced?
    pub(crate) fn names_project(&self) -> bool {
        matches!(self.verb, Some(Verb::Create(_)))
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            None | Some(Verb::List) => {
                let list = ctx.client()?.silences().await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note("nothing is silenced; `muster silence create --help` does it");
                }
                ctx.show(&list, |l| table(&l.items, now()).render())?;
            }
            Some(Verb::Create(c)) => {
                let (name, body) = c.wanted(ctx.global.project.as_deref(), now())?;
                // A pattern may be about projects that are yet to come.
                if !body.matcher.project.as_ref().is_some_and(|p| p.contains('*')) {
                    known_project(ctx).await?;
                }
                let made = ctx.client()?.set_silence(name.as_str(), &body).await?;
                ctx.show(&made, |s| {
                    let quiet = output::plural(s.silences as usize, "open alert");
                    format!("silence {} is {}; it mutes {quiet}\n", s.name, s.state)
                })?;
            }
            Some(Verb::End { names }) => {
                let client = ctx.client()?;
                let known = client.silences().await?.items;
                names.iter().try_for_each(|n| pick::not_empty("name of the silence", n))?;
                let (meant, over): (Vec<&String>, Vec<&String>) =
                    names.iter().partition(|n| known.iter().any(|s| s.name == **n));
                for name in over {
                    // The server knows those that are over; of others there are none.
                    client.end_silence(name).await?;
                    if ctx.is_table() {
                        output::print(&format!("silence {name} was over already\n"))?;
                    }
                }
                let mut refusals = Refusals::of("silence", names.len());
                for name in meant {
                    match client.end_silence(name).await {
                        Ok(()) if ctx.is_table() => {
                            output::print(&format!("silence {name} is over\n"))?;
                        }
                        Ok(()) => {}
                        Err(e) => refusals.add(name, e),
                    }
                }
                return refusals.end(0);
            }
        }
        Ok(0)
    }
}

fn which(m: &Matcher) -> String {
    let of = |word: &str, v: &Option<String>| v.as_ref().map(|v| format!("{word}={v}"));
    let all = [
        m.urgency.map(|u| format!("urgency={}", u.word())),
        m.topic.map(|t| format!("topic={}", t.word())),
        of("kind", &m.kind),
        of("entity", &m.entity),
        of("under", &m.under),
        of("owner", &m.owner),
        of("project", &m.project),
    ];
    all.into_iter().flatten().collect::<Vec<_>>().join(" ")
}

fn table(items: &[Silence], now: Time) -> Table {
    let head = ["NAME", "STATE", "WHICH", "BEGINS", "LENGTH", "EVERY", "SILENCED", "BY", "WHY"];
    let mut table = Table::new(&head);
    for s in items {
        let begins = s.window.map_or(s.start, |w| w.start);
        table.row(vec![
            cell(&s.name),
            state(&s.state),
            cell(which(&s.matcher)),
            cell(time::full(now, begins)),
            cell(s.length),
            cell(s.every.map(|e| e.to_string()).unwrap_or_default()),
            number(s.silences),
            cell(&s.by),
            cell(&s.why),
        ]);
    }
    table
}
