//! `muster alerts`: what somebody is notified of.

use super::bulk::Refusals;
use clap::{Args, Subcommand};
use muster_api::{Alert, AlertsQuery};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::on;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, state};
use muster_terminal::output::time::{full, relative};
use muster_terminal::{output, pick};
use std::collections::BTreeMap;

/// List alerts, worst first; show or acknowledge one
#[derive(Debug, Args)]
#[command(
    visible_alias = "alert",
    after_help = "Examples:\n  muster alerts\n  muster alerts --all\n  muster alerts show 3f9c2b7d1a60e455\n  \
muster alerts ack 3f9c2b7d1a60e455 --note 'the switch is being replaced'\n  muster alerts escalate 3f9c2b7d1a60e455 --reason 'two racks at once'\n  muster alerts -o json | jq '.items[] | select(.urgency == \"page\")'\n\n\
An acknowledged alert is not repeated or passed on, until it becomes more urgent.\n\
`muster silence create` mutes planned work; `muster routing` says who is notified."
)]
pub(crate) struct AlertsCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Resolved ones, too
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show one: its cause, what is affected, what to do, its notifications
    Show {
        /// Its id, or the beginning of it
        id: String,
    },
    /// Acknowledge alerts
    Ack {
        /// Their ids, or the beginnings of them
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// What whoever reads it next should know
        #[arg(long, default_value = "")]
        note: String,
    },
    /// Pass one on to the next escalation step now
    Escalate {
        /// Its id, or the beginning of it
        id: String,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
}

impl AlertsCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if self.all && self.verb.is_some() {
            return Err(Fail::usage("--all is for the list of alerts")
                .hint("leave it out: resolved alerts are found by their ids, too"));
        }
        let client = ctx.client()?;
        match self.verb {
            None => {
                let open = (!self.all).then_some(true);
                let query = AlertsQuery { open, limit: Some(1000), ..AlertsQuery::default() };
                let list = client.alerts(&query).await?;
                if ctx.is_table() && list.items.is_empty() {
                    let own = client.whoami().await?.project;
                    output::note(&none(self.all, own.as_deref()));
                    return Ok(0);
                }
                ctx.show(&list, |l| table(&l.items, now()).render())?;
                ctx.note_more(list.cursor.as_ref(), "only the newest 1000 are shown");
            }
            Some(Verb::Show { id }) => {
                let id = whole(&client, &id).await?;
                let one = client.alert(&id).await?;
                ctx.show(&one, |a| text(a, now(), on()))?;
            }
            Some(Verb::Escalate { id, reason }) => {
                let id = whole(&client, &id).await?;
                let after = client.escalate(&id, &reason).await?;
                ctx.show(&after, |a| {
                    format!("alert {} is at escalation step {}\n", a.id, a.level)
                })?;
            }
            Some(Verb::Ack { ids, note }) => {
                let mut found = Vec::new();
                for id in &ids {
                    let id = whole(&client, id).await?;
                    found.push(client.alert(&id).await?.id);
                }
                let mut done = Vec::new();
                let mut refusals = Refusals::of("alert", found.len());
                for id in &found {
                    match client.acknowledge(id, &note).await {
                        Ok(after) => {
                            if ctx.is_table() {
                                output::print(&format!("alert {} is acknowledged\n", after.id))?;
                            }
                            done.push(after);
                        }
                        Err(e) => refusals.add(id, e),
                    }
                }
                refusals.show(ctx, done)?;
                return refusals.end(0);
            }
        }
        Ok(0)
    }
}

/// Why there is no alert in the list; a token that is bound to a project is not shown those of the site.
fn none(all: bool, own: Option<&str>) -> String {
    let text = if all { "there was no alert" } else { "no alert is open" };
    match own {
        Some(own) => format!(
            "{text} about project {own} alone; those of the site and of other projects are not shown \
             to this token"
        ),
        None if all => text.to_owned(),
        None => format!("{text}; --all shows resolved ones"),
    }
}

/// Ids are sixteen characters; a beginning that fits one alert only will do.
async fn whole(client: &muster_client::Client, id: &str) -> Result<String, Fail> {
    pick::not_empty("id of the alert", id)?;
    if id.len() >= 16 {
        return Ok(id.to_owned());
    }
    let mut query = AlertsQuery { limit: Some(1000), ..AlertsQuery::default() };
    let mut fits: Vec<String> = Vec::new();
    loop {
        let page = client.alerts(&query).await?;
        fits.extend(page.items.into_iter().map(|a| a.id).filter(|a| a.starts_with(id)));
        query.cursor = page.cursor;
        if query.cursor.is_none() {
            break;
        }
    }
    match &fits[..] {
        [one] => Ok(one.clone()),
        [] => Ok(id.to_owned()),
        _ => Err(Fail::usage(format!("{} alerts begin with {id}", fits.len()))
            .hint("write more of its id")),
    }
}

/// The name of a runbook from its place.
fn runbook(a: &Alert) -> &str {
    a.runbook.rsplit('/').next().unwrap_or_default()
}

/// What suffers from it, in a few words: jobs, and where there are none, what else it is about.
fn affected(a: &Alert) -> String {
    let count = |n: u64, word: &str| output::plural(usize::try_from(n).unwrap_or(usize::MAX), word);
    match (a.jobs, a.members.len()) {
        (0, 0) => "-".to_owned(),
        (0, _) => format!("no job; on {}", kinds(&a.members)),
        (jobs, _) => format!("{}, {}", count(jobs, "job"), count(a.gpus, "GPU")),
    }
}

/// What kinds of things these are, and how many of each: `2 nodes, 1 GPU`.
fn kinds(members: &[String]) -> String {
    let mut all: BTreeMap<&str, usize> = BTreeMap::new();
    for m in members {
        *all.entry(m.split(':').next().unwrap_or(m)).or_default() += 1;
    }
    let words = all.into_iter().map(|(kind, n)| match kind {
        "gpu" => output::plural(n, "GPU"),
        "sku" => output::plural(n, "SKU"),
        "leaf" if n > 1 => format!("{n} leaves"),
        "storage" => output::plural(n, "file system"),
        other => output::plural(n, other),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// The state of an alert, in one word for all commands: an open one that is silenced notifies nobody.
fn state_word(a: &Alert) -> &str {
    let open = a.resolved_at.is_none();
    if a.silenced.is_some() && open { "silenced" } else { a.state.as_str() }
}

/// The alerts as a table.
pub(crate) fn table(alerts: &[Alert], now: Time) -> Table {
    let mut table =
        Table::new(&["ID", "URGENCY", "STATE", "SINCE", "CAUSE", "WHAT", "AFFECTED", "RUNBOOK"]);
    for a in alerts {
        let shown = state_word(a);
        table.row(vec![
            cell(&a.id),
            state(a.urgency.word()),
            state(shown),
            cell(relative(now, a.since)),
            cell(&a.cause),
            cell(&a.summary),
            cell(affected(a)),
            cell(runbook(a)),
        ]);
    }
    table
}

fn text(a: &Alert, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Alert", &a.id);
    f.line("Urgency", a.urgency.word());
    f.line("State", state_word(a));
    f.line("What", &a.summary);
    f.line("Kind", format!("{} ({})", a.kind, a.topic.word()));
    f.line("Cause", &a.cause);
    f.line("Part of", a.above.join(", "));
    f.line("Owner", &a.owner);
    f.line("Project", a.project.as_deref().unwrap_or_default());
    f.line("Since", full(now, a.since));
    f.line("Resolved", a.resolved_at.map(|t| full(now, t)).unwrap_or_default());
    f.line("Became part of", a.merged_into.as_deref().unwrap_or_default());
    f.line("Silenced by", a.silenced.as_deref().unwrap_or_default());
    if let Some(k) = &a.acknowledged {
        let note = if k.note.is_empty() { String::new() } else { format!(": {}", k.note) };
        f.line("Acknowledged", format!("by {} {}{note}", k.by, relative(now, k.at)));
    }
    f.line("Runbook", runbook(a));
    f.line("Evidence", &a.evidence);
    if a.jobs > 0 {
        f.line("Jobs", affected(a));
    }
    if !a.members.is_empty() {
        f.section("Affected", on);
        f.text(&a.members.join(" "));
        let more = a.count.saturating_sub(a.members.len() as u64 + 1);
        if more > 0 {
            f.text(&format!("{} conditions in all", a.count));
        }
    }
    f.section("Notifications", on);
    if a.notifications.is_empty() {
        f.text("none; `muster routing` shows the receivers");
    }
    for t in &a.notifications {
        let what = if t.over { "resolved" } else { "firing" };
        f.text(&format!("{}: {what}, {}", t.receiver, relative(now, t.at)));
    }
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_affected_is_named() {
        let of = |all: &[&str]| kinds(&all.iter().map(|m| (*m).to_owned()).collect::<Vec<_>>());
        assert_eq!(of(&["node:n1"]), "1 node");
        assert_eq!(of(&["gpu:n1/3"]), "1 GPU");
        assert_eq!(of(&["node:n1", "gpu:n1/3", "node:n2"]), "1 GPU, 2 nodes");
        assert_eq!(of(&["leaf:a/b", "leaf:a/c", "site"]), "2 leaves, 1 site");
    }

    #[test]
    fn a_list_and_a_page_of_an_alert_say_the_same_state() {
        let json = serde_json::json!({
            "id": "3f9c", "kind": "thermal", "state": "firing", "topic": "finding",
            "urgency": "ticket", "summary": "gpu:n1/3: thermal", "cause": "gpu:n1/3", "count": 1,
            "above": [], "members": [], "jobs": 0, "gpus": 0, "owner": "", "notifications": [],
            "runbook": "/runbooks/thermal", "evidence": "/findings/12",
            "since": "2030-01-31T12:00:00Z", "raised_at": "2030-01-31T12:00:00Z",
            "changed_at": "2030-01-31T12:00:00Z", "level": 0, "silenced": "night",
        });
        let mut a: Alert = serde_json::from_value(json).expect("an alert");
        assert_eq!(state_word(&a), "silenced");
        let now = a.since.0;
        assert!(text(&a, now, false).contains("silenced\n"));
        let listed = table(std::slice::from_ref(&a), now).render_for(None, false);
        assert!(listed.contains("silenced") && !listed.contains("firing"), "{listed}");
        a.members = vec!["gpu:n1/3".into()];
        assert_eq!(affected(&a), "no job; on 1 GPU", "its cause affects no job");
        a.members.clear();
        (a.state, a.resolved_at) = ("resolved".into(), Some(a.since));
        assert_eq!(state_word(&a), "resolved", "whatever silenced it until then");
        (a.state, a.resolved_at, a.silenced) = ("firing".into(), None, None);
        assert_eq!(state_word(&a), "firing");
    }
}
