//! `muster incident`: findings with one cause.

use clap::{Args, Subcommand};
use muster_api::{Incident, IncidentRecord, IncidentsQuery, OwnRequest};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::colour::on;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::{full, relative};

/// List incidents, show one, add a note, or draft its report
#[derive(Debug, Args)]
#[command(
    visible_alias = "incidents",
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  muster incident\n  muster incident --all\n  muster incident 1210\n  muster incident 1210 -o json | jq '.changes'\n  muster incident own 1210\n  muster incident note 1210 'the uplink was changed at nine'\n  muster incident close 1210 --reason 'the uplink is back'\n  muster incident record 1210\n  muster incident report 1210 > incident-1210.md"
)]
pub(crate) struct IncidentCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Show this one
    #[arg(conflicts_with = "all")]
    id: Option<String>,
    /// Closed ones too
    #[arg(short, long)]
    all: bool,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Add a note to an incident
    Note {
        /// Its number
        id: String,
        /// The note
        text: String,
    },
    /// Take ownership of an incident, or release it
    Own {
        /// Its number
        id: String,
        /// Assign it to somebody else
        #[arg(long, value_name = "WHO")]
        by: Option<String>,
        /// Remove its owner
        #[arg(long, conflicts_with = "by")]
        release: bool,
    },
    /// Close an incident, and with it every finding of it that is open
    Close {
        /// Its number
        id: String,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Show the timeline, the impact and the notes of an incident
    Record {
        /// Its number
        id: String,
    },
    /// A draft of the report that is written afterwards, as Markdown
    Report {
        /// Its number
        id: String,
    },
}

async fn spoken(ctx: &Ctx, verb: Verb) -> Result<u8, Fail> {
    let client = ctx.client()?;
    let changed = match verb {
        Verb::Note { id, text } => client.note_incident(&id, &text).await?,
        Verb::Own { id, by, release } => {
            client.own_incident(&id, &OwnRequest { owner: by, release }).await?
        }
        Verb::Close { id, reason } => client.close_incident(&id, &reason).await?,
        Verb::Record { id } => {
            let record = client.incident_record(&id).await?;
            ctx.show(&record, |r| record_text(r, now(), on()))?;
            return Ok(0);
        }
        Verb::Report { id } => {
            ctx.only_text("`incident report`", "`muster incident record ID -o json` has the same")?;
            output::print(&String::from_utf8_lossy(&client.incident_report(&id).await?))?;
            return Ok(0);
        }
    };
    ctx.show(&changed, |i| text(i, now(), on()))?;
    Ok(0)
}

/// The record of an incident for people.
fn record_text(r: &IncidentRecord, now: Time, on: bool) -> String {
    let mut f = Facts(text(&r.incident, now, on));
    let m = &r.impact;
    f.section("Impact", on);
    f.line("Lasted", output::time::length(muster_model::units::Span(m.seconds * 1000)));
    f.line("Opened after", format!("{} s", m.seconds_to_detect));
    let (whole, part) = (m.gpu_milli_hours / 1000, m.gpu_milli_hours % 1000);
    f.line("GPU-hours out of service", format!("{whole}.{part:03}"));
    let (whole, part) = (m.lost_gpu_milli_hours / 1000, m.lost_gpu_milli_hours % 1000);
    f.line("GPU-hours of work lost", format!("{whole}.{part:03}"));
    f.line("Nodes", m.nodes.join(", "));
    f.line("Jobs", m.job_words().join(", "));
    f.line("Projects", m.projects.join(", "));
    f.line("Pages sent", m.pages);
    f.line("Runbooks", r.runbooks.join(", "));
    f.section("Timeline", on);
    let mut t = Table::new(&["WHEN", "WHAT", "NODE", "BY", ""]);
    for e in &r.timeline {
        let zone = jiff::tz::TimeZone::system();
        t.row(vec![
            cell(output::time::moment(now, e.at, &zone)),
            cell(&e.what),
            cell(e.node.as_deref().unwrap_or("")),
            cell(&e.actor),
            cell(&e.text),
        ]);
    }
    f.table(&t, on);
    if r.cut {
        f.text("there was more than is shown, or a part of the log is archived");
    }
    f.0
}

impl IncidentCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        if let Some(verb) = self.verb {
            return spoken(ctx, verb).await;
        }
        let client = ctx.client()?;
        if let Some(id) = &self.id {
            let one = client.incident(id).await?;
            ctx.show(&one, |i| text(i, now(), on()))?;
            return Ok(0);
        }
        let open = (!self.all).then_some(true);
        let query = IncidentsQuery { open, limit: Some(1000), cursor: None };
        let list = client.incidents(&query).await?;
        if ctx.is_table() && list.items.is_empty() {
            output::note(if self.all {
                "there was no incident"
            } else {
                "no incident is open; --all shows those that were"
            });
            return Ok(0);
        }
        ctx.show(&list, |l| table(&l.items, now()).render())?;
        ctx.note_more(list.cursor.as_ref(), "only the newest 1000 are shown");
        Ok(0)
    }
}

/// The incidents as a table.
pub(crate) fn table(incidents: &[Incident], now: Time) -> Table {
    let mut table = Table::new(&["ID", "BEGAN", "SEVERITY", "STATE", "CAUSE", "FINDINGS", "WHAT"]);
    for i in incidents {
        table.row(vec![
            number(&i.id),
            cell(relative(now, i.began_at)),
            super::findings::severity(i.severity),
            cell(&i.state),
            cell(&i.cause),
            number(i.count),
            cell(&i.summary),
        ]);
    }
    table
}

/// One incident for people.
fn text(i: &Incident, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Incident", format!("{} ({})", i.id, i.kind));
    f.line("What", &i.summary);
    f.line("State", &i.state);
    f.line("Cause", &i.cause);
    f.line("Severity", i.severity.word());
    f.line("Owner", i.owner.as_deref().unwrap_or_default());
    f.line("Began", full(now, i.began_at));
    f.line("Opened", full(now, i.opened_at));
    f.line("Closed", i.closed_at.map(|t| full(now, t)).unwrap_or_default());
    f.line("Because", i.closed_why.as_deref().unwrap_or_default());
    if !i.findings.is_empty() {
        f.section("Findings", on);
        f.table(&super::findings::table(&i.findings, now, true), on);
        let kept = i.findings.len() as u64;
        if i.count > kept {
            f.text(&format!("{kept} of {} are shown", i.count));
        }
    }
    if !i.changes.is_empty() {
        f.section("Changed shortly before", on);
        let mut t = Table::new(&["WHEN", "WHAT", "BY"]);
        for c in &i.changes {
            let when = format!("{} before", output::time::length(i.began_at.0.since(c.at.0)));
            t.row(vec![cell(when), cell(&c.text), cell(&c.actor)]);
        }
        f.table(&t, on);
    }
    if !i.notes.is_empty() {
        f.section("Notes", on);
        for n in &i.notes {
            f.text(&format!("{} {}: {}", relative(now, n.at), n.by, n.text));
        }
    }
    if let Some(m) = muster_health::modes::mode(&i.kind) {
        f.section("What to do", on);
        f.text(m.runbook);
        if let Some(book) = muster_runbook::builtin::for_mode(m.code) {
            f.text(&format!("`muster runbook show {}` says it step by step", book.name));
        }
    }
    f.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_api::samples::incident;
    use muster_api::{Change, IncidentImpact};

    #[test]
    fn incidents_fit_eighty_columns() {
        let text = table(&[incident()], Time(120_000)).render_for(Some(80), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("leaf:eu/c1/s1/l2"), "{text}");
    }

    #[test]
    fn jobs_of_a_record_are_named_and_do_not_read_as_a_count() {
        let impact = IncidentImpact {
            seconds: 60,
            seconds_to_detect: 2,
            nodes: vec!["n1".into(), "n2".into()],
            gpu_milli_hours: 1500,
            lost_gpu_milli_hours: 0,
            jobs: vec![3, 12],
            projects: vec!["nlp".into()],
            pages: 0,
        };
        let (runbooks, timeline) = (Vec::new(), Vec::new());
        let record =
            IncidentRecord { incident: incident(), runbooks, impact, timeline, cut: false };
        let text = record_text(&record, Time(120_000), false);
        let line = text.lines().find(|l| l.starts_with("Jobs:")).expect("its jobs");
        assert!(line.ends_with("  job 3, job 12"), "{line:?}");
    }

    #[test]
    fn an_incident_is_reported_with_what_was_changed_before() {
        let mut i = incident();
        i.findings = vec![muster_api::samples::finding(12)];
        i.changes = vec![Change {
            at: Time(0).into(),
            event: "policy_set".into(),
            text: "the scheduling policy was set".into(),
            actor: "user:ops".into(),
        }];
        let text = text(&i, Time(120_000), false);
        for part in [
            "Cause:        leaf:eu/c1/s1/l2",
            "gpu-off-bus",
            "1 of 6 are shown",
            "1m00s before  the scheduling policy was set  user:ops",
            "Look at the switch, not at the nodes.",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }
}
