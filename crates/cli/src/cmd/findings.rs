//! `muster findings`: what was found to be wrong.

use super::bulk::Refusals;
use clap::{Args, Subcommand};
use muster_api::{Finding, FindingsQuery, Remediation};
use muster_health::modes;
use muster_model::finding::Severity;
use muster_model::remediation::{RemediationOutcome, RemediationStep};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::colour::{Style, on};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Cell, Table, cell, number};
use muster_terminal::output::time::{full, relative};
use muster_terminal::{output, pick};

/// List findings: what is wrong, with its evidence; or show one
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  muster findings\n  muster findings --all --node hgx-0003\n  muster findings --kind gpu-off-bus -o json\n  \
muster findings 1207\n  muster findings close 1207 --reason 'the fan was off for cleaning'\n\n\
Only open findings are listed unless --all is given. `muster failure-modes` explains the kinds."
)]
pub(crate) struct Findings {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Show this one
    #[arg(conflicts_with_all = ["open", "all", "node", "kind", "severity", "job", "limit"])]
    id: Option<String>,
    /// Only open ones (this is what is shown anyway)
    #[arg(long, conflicts_with = "all")]
    open: bool,
    /// Closed ones too
    #[arg(short, long)]
    all: bool,
    /// Only findings on this node
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only findings of this failure mode
    #[arg(long, value_name = "KIND")]
    kind: Option<String>,
    /// Only findings at least so bad
    #[arg(long, value_name = "SEVERITY")]
    #[arg(value_parser = ["info", "warning", "degraded", "critical"])]
    severity: Option<String>,
    /// Only findings that affected this job: its id or name
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Close findings
    Close {
        /// Their numbers
        #[arg(required = true, value_name = "ID")]
        ids: Vec<String>,
        /// Why
        #[arg(long)]
        reason: String,
    },
}

impl Findings {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        if let Some(Verb::Close { ids, reason }) = self.verb {
            if ids.len() > 1 {
                for id in &ids {
                    client.finding(id).await?;
                }
            }
            let mut done = Vec::new();
            let mut refusals = Refusals::of("finding", ids.len());
            for id in &ids {
                match client.close_finding(id, &reason).await {
                    Ok(f) => {
                        if ctx.is_table() {
                            output::print(&format!("finding {} ({}) is closed\n", f.id, f.kind))?;
                        }
                        done.push(f);
                    }
                    Err(e) => refusals.add(id, e),
                }
            }
            refusals.show(ctx, done)?;
            return refusals.end(0);
        }
        if let Some(id) = &self.id {
            let one = client.finding(id).await?;
            // Tenants see findings of theirs, and no remediations.
            let chosen = match &one.remediation {
                Some(id) if ctx.is_table() => client.remediation(id).await.ok(),
                _ => None,
            };
            ctx.show(&one, |f| text(f, chosen.as_ref(), now(), on()))?;
            return Ok(0);
        }
        let job = match &self.job {
            Some(given) => Some(pick::job(&client, given).await?.number),
            None => None,
        };
        let query = FindingsQuery {
            open: (!self.all).then_some(true),
            node: self.node.clone(),
            kind: self.kind,
            severity: self.severity,
            job,
            ..FindingsQuery::default()
        };
        let list = client.findings_up_to(&query, self.limit.max(1)).await?;
        if list.items.is_empty() {
            pick::known_node(&client, self.node.as_deref()).await?;
        }
        if ctx.is_table() && list.items.is_empty() {
            let own = client.whoami().await?.project;
            output::note(&none(self.all, own.as_deref()));
            return Ok(0);
        }
        if list.cursor.is_some() && ctx.is_table() {
            output::note("note: there are more; --limit shows them");
        }
        ctx.show(&list, |l| table(&l.items, now(), true).render())?;
        Ok(0)
    }
}

/// Why there is no finding in the list; a token that is bound to a project is shown those of its jobs.
fn none(all: bool, own: Option<&str>) -> String {
    let text = if all { "there was no finding" } else { "no finding is open" };
    match own {
        Some(own) => {
            format!("{text} about jobs of project {own}; others are not shown to this token")
        }
        None if all => text.to_owned(),
        None => format!("{text}; --all shows closed ones"),
    }
}

/// A severity in its colour.
pub(crate) fn severity(s: Severity) -> Cell {
    cell(s.word()).style(match s {
        Severity::Critical => Style::Bad,
        Severity::Degraded | Severity::Warning => Style::Warn,
        Severity::Info => Style::Faint,
    })
}

/// The findings as a table; without what they are about where that is known.
pub(crate) fn table(findings: &[Finding], now: Time, about: bool) -> Table {
    // A closed one among others is reported as such; a list of open ones needs no column for it.
    let closed = findings.iter().any(|f| !f.is_open());
    let mut head = vec!["ID", "OPENED", "SEVERITY", "KIND"];
    if closed {
        head.push("STATE");
    }
    if about {
        head.push("ABOUT");
    }
    head.extend(["JOB", "EVIDENCE"]);
    let mut table = Table::new(&head);
    for f in findings {
        let mut row = vec![
            number(&f.id),
            cell(relative(now, f.opened_at)),
            severity(f.severity),
            cell(&f.kind),
        ];
        if closed {
            row.push(cell(&f.state));
        }
        if about {
            row.push(cell(&f.entity));
        }
        row.push(cell(f.attempt.clone().or(f.job.map(|j| j.to_string())).unwrap_or_default()));
        row.push(cell(f.evidence.first().unwrap_or(&f.title)));
        table.row(row);
    }
    table
}

/// What is left for people while a remediation is active, or once it was denied; none where it does
/// nothing by itself.
fn to_do(r: &Remediation, now: Time) -> Option<String> {
    let (id, node, what) = (&r.id, &r.node, &r.action_text);
    Some(match r.step {
        _ if r.waits() => {
            format!("Approve or deny remediation {id} ({what}): `muster remediations approve {id}`")
        }
        RemediationStep::Ended if r.outcome == Some(RemediationOutcome::Denied) => format!(
            "Remediation {id} ({what}) was denied {} by {}: `muster node qualify {node}` closes \
             this when the test passes, `muster findings close {}` without a test",
            relative(now, r.since),
            r.why.strip_prefix("by ").unwrap_or(&r.why),
            r.finding
        ),
        RemediationStep::Proposed | RemediationStep::Ended => return None,
        RemediationStep::Repairing => {
            format!("Repair {node} ({what}), then `muster node repaired {node}`")
        }
        RemediationStep::Probation => {
            format!("Nothing now: {node} passed its test and is on probation")
        }
        step => format!("Nothing now: remediation {id} ({what}) is active: {}", step.words()),
    })
}

/// One finding for people.
fn text(f: &Finding, chosen: Option<&Remediation>, now: Time, on: bool) -> String {
    let mut out = Facts::new();
    out.line("Finding", format!("{} ({})", f.id, f.kind));
    out.line("What", &f.title);
    out.line("State", &f.state);
    out.line("About", &f.entity);
    out.line("Severity", f.severity.word());
    out.line("Confidence", output::percent(u32::from(f.confidence)));
    out.line("Seen", output::plural(usize::try_from(f.count).unwrap_or(usize::MAX), "time"));
    out.line("First seen", full(now, f.first_seen));
    out.line("Last seen", full(now, f.last_seen));
    out.line("Opened", full(now, f.opened_at));
    out.line("Affected", f.attempt.as_deref().unwrap_or_default());
    out.line("Rank", f.rank.map(|r| r.to_string()).unwrap_or_default());
    out.line("Incident", f.incident.as_deref().unwrap_or_default());
    let state = chosen.map(|r| format!(", {}", r.state)).unwrap_or_default();
    let remediation = f.remediation.as_ref().map(|id| format!("{id}{state}"));
    out.line("Remediation", remediation.unwrap_or_default());
    out.line("Closed", f.closed_at.map(|t| full(now, t)).unwrap_or_default());
    out.line("Because", f.closed_why.as_deref().unwrap_or_default());
    if !f.evidence.is_empty() {
        out.section("Evidence", on);
        for line in &f.evidence {
            out.text(line);
        }
    }
    let Some(m) = modes::mode(&f.kind) else { return out.0 };
    out.section("What to do", on);
    if modes::is_remark(m, f.severity) {
        out.text("Nothing: it is watched. Findings follow when more than that is reported");
    } else {
        // What is being done already is not advised again.
        let next = chosen.filter(|_| f.is_open()).and_then(|r| to_do(r, now));
        out.text(next.as_deref().unwrap_or(m.runbook));
        if let Some(book) = muster_runbook::builtin::for_mode(m.code) {
            out.text(&format!("`muster runbook run {}` goes through it step by step", book.name));
        }
    }
    out.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use muster_api::samples::finding;

    #[test]
    fn findings_fit_eighty_columns() {
        let mut closed = finding(1_000_012);
        (closed.state, closed.closed_at) = ("closed".into(), Some(Time(61_000).into()));
        closed.entity = "leaf:region-eu-1/cluster-01/spine-02/leaf-0017".parse().expect("one");
        for list in [vec![finding(12)], vec![finding(12), closed]] {
            let text = table(&list, Time(120_000), true).render_for(Some(80), false);
            assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
            assert!(text.contains("gpu-off-bus") && text.contains("critical"), "{text}");
            assert!(!text.contains('\u{7}'), "{text:?}");
        }
        assert_eq!(
            table(&[finding(12)], Time(120_000), false).render_for(Some(80), false),
            "ID  OPENED  SEVERITY  KIND         JOB   EVIDENCE\n\
             12  1m ago  critical  gpu-off-bus  42.1  xid-79: GPU has fallen off the bus\\u{7}\n"
        );
    }

    #[test]
    fn one_finding_is_reported_with_its_evidence_and_what_to_do() {
        let text = text(&finding(12), None, Time(120_000), false);
        for part in [
            "Finding:      12 (gpu-off-bus)",
            "About:        gpu:hgx-01/3",
            "Confidence:   98%",
            "Remediation:  31",
            "  rank 3 ended",
            "Reboot the node.",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        let mut once = finding(12);
        once.count = 1;
        assert!(super::text(&once, None, Time(120_000), false).contains("Seen:         1 time\n"));
        assert!(!text.contains("Closed:"), "{text}");
    }

    #[test]
    fn a_remark_about_an_unknown_error_advises_no_reboot() {
        let mut remark = finding(12);
        (remark.kind, remark.severity) = ("gpu-fault".into(), Severity::Info);
        remark.title = modes::title(&remark.kind, remark.severity).into();
        let text = text(&remark, None, Time(120_000), false);
        assert!(text.contains("asks for nothing") && text.contains("Nothing: it is"), "{text}");
        assert!(!text.to_lowercase().contains("reboot") && !text.contains("restarted"), "{text}");
        assert!(modes::title("gpu-fault", Severity::Critical).contains("must be restarted"));
    }

    #[test]
    fn how_its_remediation_ended_is_reported() {
        let mut chosen = muster_api::samples::remediation(31);
        chosen.state = "denied".into();
        let text = text(&finding(12), Some(&chosen), Time(120_000), false);
        assert!(text.contains("Remediation:  31, denied\n"), "{text}");
    }

    #[test]
    fn what_is_being_done_is_not_advised_again() {
        let mut chosen = muster_api::samples::remediation(31);
        let advice = |r: &Remediation| {
            let text = text(&finding(12), Some(r), Time(120_000), false);
            text.split("What to do").nth(1).unwrap_or_default().to_owned()
        };
        assert!(advice(&chosen).contains("`muster remediations approve 31`"));
        chosen.step = RemediationStep::Moving;
        let moving = "Nothing now: remediation 31 (reboot the node) is active: work is leaving";
        assert!(advice(&chosen).contains(moving), "{}", advice(&chosen));
        chosen.step = RemediationStep::Probation;
        assert!(advice(&chosen).contains("is on probation"), "{}", advice(&chosen));
        chosen.step = RemediationStep::Ended;
        assert!(advice(&chosen).contains("Reboot the node."), "{}", advice(&chosen));
        chosen.outcome = Some(RemediationOutcome::Denied);
        chosen.why = "user:admin: vendor is coming".into();
        let denied = advice(&chosen);
        assert!(denied.contains("was denied 30s ago by user:admin: vendor is coming"), "{denied}");
        assert!(denied.contains("`muster node qualify hgx-01` closes this"), "{denied}");
    }

    #[test]
    fn a_number_is_a_finding_and_close_is_a_verb() {
        let read = |more: &[&str]| {
            let all = ["muster", "findings"].iter().chain(more).copied();
            let cli = Cli::try_parse_from(all).map_err(|e| e.to_string())?;
            let crate::args::Command::Findings(f) = cli.command else { panic!("findings") };
            Ok::<_, String>(f)
        };
        assert_eq!(read(&["12"]).map(|f| f.id), Ok(Some("12".into())));
        let f = read(&["close", "12", "13", "--reason", "x"]).expect("good arguments");
        assert!(matches!(f.verb, Some(Verb::Close { ids, .. }) if ids == ["12", "13"]));
        assert!(read(&["close", "12"]).is_err_and(|e| e.contains("--reason")));
        assert!(read(&["--open", "--all"]).is_err());
        assert!(
            read(&["--all", "--node", "n1", "--kind", "thermal", "--severity", "warning"]).is_ok()
        );
        assert!(read(&["--severity", "awful"]).is_err_and(|e| e.contains("degraded")));
    }
}
