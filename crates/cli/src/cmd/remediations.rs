//! `muster remediations`: what is done about findings.

use super::bulk::Refusals;
use clap::{Args, Subcommand};
use muster_api::{
    Finding, FindingsQuery, Remediation, RemediationDryRun, RemediationDryRunReport,
    RemediationsQuery,
};
use muster_client::RemediationDecision;
use muster_health::modes::mode as mode_of;
use muster_model::fault::FaultClass;
use muster_model::remediation::{Action, Mode};
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::colour::{Style, on};
use muster_terminal::output::facts::Facts;
use muster_terminal::output::plural;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::{full, relative};
use muster_terminal::pick;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// List remediations of findings; approve, deny or undo one
#[derive(Debug, Args)]
#[command(
    args_conflicts_with_subcommands = true,
    after_help = "Examples:\n  muster remediations\n  muster remediations --all --node hgx-0003\n  muster remediations 1215\n  \
muster remediations approve 1215\n  muster remediations deny 1215 --reason 'a customer is on it until six'\n  \
muster remediations undo 1215 --reason 'the alarm was false'\n  muster remediations dry-run --days 30 -f policy.yaml\n\n\
Only active remediations are listed unless --all is given; those that only watch what one job\n\
caused in many places are one line."
)]
pub(crate) struct RemediationsCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
    /// Show this one
    #[arg(conflicts_with_all = ["all", "node", "limit"])]
    id: Option<String>,
    /// Ended ones too, each on a line of its own
    #[arg(short, long)]
    all: bool,
    /// Only this node's
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_name = "N",
        value_parser = clap::value_parser!(u32).range(1..=1000))]
    limit: u32,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Approve pending remediations: they run
    Approve {
        #[command(flatten)]
        ids: Ids,
    },
    /// Deny pending remediations: they do not run, and their nodes stay as they are
    Deny {
        #[command(flatten)]
        ids: Ids,
        /// Why
        #[arg(long, default_value = "")]
        reason: String,
    },
    /// Undo remediations: their nodes return to service
    Undo {
        #[command(flatten)]
        ids: Ids,
        /// Why
        #[arg(long)]
        reason: String,
    },
    /// Show what a policy would have done over the last days; changes nothing
    DryRun {
        /// Over so many days of the log
        #[arg(long, default_value_t = 7, value_name = "N",
            value_parser = clap::value_parser!(u32).range(1..=366))]
        days: u32,
        /// With the `remediations` of this policy; with the site's own when absent
        #[arg(short, long, value_name = "FILE")]
        file: Option<PathBuf>,
    },
}

#[derive(Debug, Args)]
struct Ids {
    /// Their numbers
    #[arg(required = true, value_name = "ID")]
    ids: Vec<String>,
}

impl RemediationsCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let (ids, word, reason) = match self.verb {
            Some(Verb::Approve { ids }) => (ids.ids, RemediationDecision::Approve, String::new()),
            Some(Verb::Deny { ids, reason }) => (ids.ids, RemediationDecision::Deny, reason),
            Some(Verb::Undo { ids, reason }) => (ids.ids, RemediationDecision::Undo, reason),
            Some(Verb::DryRun { days, file }) => return dry_run(ctx, days, file).await,
            None => return self.show(ctx).await,
        };
        let client = ctx.client()?;
        if ids.len() > 1 {
            for id in &ids {
                client.remediation(id).await?;
            }
        }
        let mut done = Vec::new();
        let mut refusals = Refusals::of("remediation", ids.len());
        for id in &ids {
            match client.decide_remediation(id, word, &reason).await {
                Ok(after) => {
                    if ctx.is_table() {
                        output::print(&describe_remediation(&after))?;
                    }
                    done.push(after);
                }
                Err(e) => refusals.add(id, e),
            }
        }
        refusals.show(ctx, done)?;
        refusals.end(0)
    }

    async fn show(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        if let Some(id) = &self.id {
            let one = client.remediation(id).await?;
            ctx.show(&one, |r| text(r, now(), on()))?;
            return Ok(0);
        }
        let folds = ctx.is_table() && !self.all;
        let query = RemediationsQuery {
            open: (!self.all).then_some(true),
            node: self.node.clone(),
            limit: Some(if folds { FOLDED_FROM } else { self.limit }),
            cursor: None,
        };
        let list = client.remediations(&query).await?;
        if list.items.is_empty() {
            pick::known_node(&client, self.node.as_deref()).await?;
        }
        if ctx.is_table() && list.items.is_empty() {
            output::note(if self.all {
                "no finding was ever remediated"
            } else {
                "no remediation is active; --all shows ended ones"
            });
            return Ok(0);
        }
        if folds {
            let watched = list.items.iter().any(|r| r.action == Action::Watch);
            let findings = match watched {
                true => client.findings(&open_findings()).await?.items,
                false => Vec::new(),
            };
            let mut lines = folded(&list.items, &findings);
            let more = lines.len() > self.limit as usize || list.cursor.is_some();
            lines.truncate(self.limit as usize);
            if more {
                output::note("note: there are more; --limit shows them");
            }
            ctx.show(&list, |_| lines_table(&lines, now()).render())?;
            return Ok(0);
        }
        if list.cursor.is_some() && ctx.is_table() {
            output::note("note: there are more; --limit shows them");
        }
        ctx.show(&list, |l| table(&l.items, now()).render())?;
        Ok(0)
    }
}

fn describe_remediation(r: &Remediation) -> String {
    let on = place(r);
    format!("remediation {} ({} on {on}): {}; {}\n", r.id, r.action.word(), r.state, r.why)
}

/// `hgx-01`, or `hgx-01/3` for a GPU of it.
fn place(r: &Remediation) -> String {
    r.gpu.map_or_else(|| r.node.clone(), |g| format!("{}/{g}", r.node))
}

async fn dry_run(ctx: &Ctx, days: u32, file: Option<PathBuf>) -> Result<u8, Fail> {
    let policy = match &file {
        None => None,
        Some(f) => {
            let text = output::read_text(f)?;
            let whole = muster_specs::document::policy(&text, &f.display().to_string())?;
            Some(whole.remediations)
        }
    };
    let report = ctx.client()?.remediations_dry_run(&RemediationDryRun { days, policy }).await?;
    ctx.show(&report, |r| dry_text(r, now(), on()))?;
    Ok(0)
}

/// Remediations that are looked at to be folded: as many as a page holds.
const FOLDED_FROM: u32 = 1000;

fn open_findings() -> FindingsQuery {
    FindingsQuery { open: Some(true), limit: Some(1000), ..FindingsQuery::default() }
}

/// A line of the list.
#[derive(Debug, PartialEq)]
enum Line<'a> {
    One(&'a Remediation),
    /// What one job did, watched in many places: nothing is done in any of them.
    Watched {
        of: Vec<&'a Remediation>,
        job: u64,
        title: &'a str,
    },
}

/// Watches of what one job did are one line each. The first of them says where it stands.
fn folded<'a>(remediations: &'a [Remediation], findings: &'a [Finding]) -> Vec<Line<'a>> {
    let by_id: BTreeMap<&str, &Finding> = findings.iter().map(|f| (f.id.as_str(), f)).collect();
    let mut places: BTreeMap<(&str, u64), usize> = BTreeMap::new();
    let mut lines: Vec<Line<'_>> = Vec::new();
    for r in remediations {
        let own = mode_of(&r.kind).is_some_and(|m| m.class == FaultClass::Application);
        let f = by_id.get(r.finding.as_str()).filter(|_| own && r.action == Action::Watch);
        let Some((job, title)) = f.and_then(|f| Some((f.job?, f.title.as_str()))) else {
            lines.push(Line::One(r));
            continue;
        };
        let at = *places.entry((r.kind.as_str(), job)).or_insert(lines.len());
        match lines.get_mut(at) {
            Some(Line::Watched { of, .. }) => of.push(r),
            _ => lines.push(Line::Watched { of: vec![r], job, title }),
        }
    }
    for line in &mut lines {
        if let Line::Watched { of, .. } = line
            && let [one] = of[..]
        {
            *line = Line::One(one);
        }
    }
    lines
}

/// `32 GPUs of 4 nodes`.
fn places(of: &[&Remediation]) -> String {
    let nodes: BTreeSet<&str> = of.iter().map(|r| r.node.as_str()).collect();
    let nodes = plural(nodes.len(), "node");
    let gpus: BTreeSet<_> = of.iter().filter_map(|r| Some((r.node.as_str(), r.gpu?))).collect();
    if gpus.is_empty() { nodes } else { format!("{} of {nodes}", plural(gpus.len(), "GPU")) }
}

const COLUMNS: [&str; 7] = ["ID", "NODE", "FOR", "ACTION", "STATE", "SINCE", "WHY"];

fn lines_table(lines: &[Line<'_>], now: Time) -> Table {
    let mut table = Table::new(&COLUMNS);
    for line in lines {
        let (of, job, title) = match line {
            Line::One(r) => {
                row(&mut table, r, now);
                continue;
            }
            Line::Watched { of, job, title } => (of, job, title),
        };
        let Some(first) = of.first() else { continue };
        table.row(vec![
            number(""),
            cell(places(of)),
            cell(&first.kind),
            cell(first.action.word()),
            cell(&first.state),
            cell(relative(now, first.since)),
            cell(format!("job {job}: {title}; --all lists them")),
        ]);
    }
    table
}

/// The remediations as a table.
pub(crate) fn table(remediations: &[Remediation], now: Time) -> Table {
    let mut table = Table::new(&COLUMNS);
    for r in remediations {
        row(&mut table, r, now);
    }
    table
}

fn row(table: &mut Table, r: &Remediation, now: Time) {
    let late = r.until.is_some_and(|u| u.0 < now) && r.outcome.is_none();
    let style = if r.waits() || late { Style::Warn } else { Style::Plain };
    let state = if late { format!("{}, too long", r.state) } else { r.state.clone() };
    table.row(vec![
        number(&r.id),
        cell(place(r)),
        cell(&r.kind),
        cell(r.action.word()),
        cell(state).style(style),
        cell(relative(now, r.since)),
        cell(&r.why),
    ]);
}

fn mode(m: Mode) -> &'static str {
    match m {
        Mode::DetectOnly => "no action (detect-only)",
        Mode::Approve => "on approval",
        Mode::Automatic => "automatic",
    }
}

/// One remediation for people.
pub(crate) fn text(r: &Remediation, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Remediation", format!("{} ({})", r.id, r.action.word()));
    f.line("Does", &r.action_text);
    f.line("Node", place(r));
    f.line("For", format!("{}, finding {}", r.kind, r.finding));
    f.line("State", &r.state);
    f.line("Why", &r.why);
    f.line("Since", full(now, r.since));
    f.line("Until", r.until.map(|t| full(now, t)).unwrap_or_default());
    f.line("Mode", mode(r.mode));
    f.line("Step", r.step_index + 1);
    f.line("Work leaves", format!("{:?}", r.leave).to_lowercase());
    f.line("Approved by", r.approved.as_deref().unwrap_or_default());
    if let Some(a) = &r.act {
        let what = format!("{} {} {}", a.what, a.state, relative(now, a.ended_at.unwrap_or(a.at)));
        f.line("Act", what);
        f.line("Outcome", a.message.as_deref().unwrap_or_default());
    }
    f.section("Steps", on);
    let mut t = Table::new(&["WHEN", "STEP"]);
    t.row(vec![cell(relative(now, r.at)), cell("chosen")]);
    for s in &r.taken {
        t.row(vec![cell(relative(now, s.at)), cell(s.step.words())]);
    }
    if let Some(how) = r.outcome {
        t.row(vec![cell(relative(now, r.since)), cell(how.words())]);
    }
    f.table(&t, on);
    f.0
}

fn dry_text(r: &RemediationDryRunReport, now: Time, on: bool) -> String {
    let mut f = Facts::new();
    f.line("From", full(now, r.from));
    f.line("To", full(now, r.to));
    if r.cut {
        f.line("Note", "the part of the log that can be read at once begins here");
    }
    f.line("Findings", r.findings);
    let counts: Vec<String> = r.by_action.iter().map(|(a, n)| format!("{n} {a}")).collect();
    f.line("Would do", if counts.is_empty() { "nothing".into() } else { counts.join(", ") });
    let held: u64 = r.held.values().sum();
    f.line("Blocked", if held == 0 { "nothing".into() } else { format!("{held} not done") });
    f.line("Out at once", format!("{} at most", plural(r.out_at_once as usize, "node")));
    if r.storms > 0 {
        f.line("Stops itself", plural(r.storms as usize, "time"));
    }
    if !r.held.is_empty() {
        f.section("Blocked by", on);
        let mut t = Table::new(&["TIMES", "BY"]);
        for (why, n) in &r.held {
            t.row(vec![number(n), cell(why)]);
        }
        f.table(&t, on);
    }
    if !r.items.is_empty() {
        f.section("Remediations", on);
        let mut t = Table::new(&["WHEN", "NODE", "FOR", "ACTION", "MODE"]);
        for i in &r.items {
            let place = i.gpu.map_or_else(|| i.node.clone(), |g| format!("{}/{g}", i.node));
            let how = if i.held.is_some() { "blocked" } else { mode(i.mode) };
            t.row(vec![
                cell(relative(now, i.at)),
                cell(place),
                cell(&i.kind),
                cell(i.action.word()),
                cell(how),
            ]);
        }
        f.table(&t, on);
    }
    f.0
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::Parser;
    use muster_api::samples::remediation;
    use muster_api::{Act, DryRemediation};
    use muster_model::remediation::{RemediationOutcome, RemediationStep};

    #[test]
    fn remediations_fit_eighty_columns_and_say_what_is_late() {
        let mut late = remediation(1_000_031);
        late.until = Some(Time(100_000).into());
        late.node = "hgx-0001-rack-17-row-4".into();
        let text = table(&[remediation(31), late], Time(120_000)).render_for(Some(80), false);
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
        assert!(text.contains("hgx-01/3") && text.contains("reboot"), "{text}");
        let late = table(&[remediation(31)], Time(120_000)).render_for(None, false);
        assert!(late.contains("pending approval  30s ago"), "{late}");
    }

    #[test]
    fn what_one_job_did_is_one_line_however_many_gpus_reported_it() {
        let watch = |id: u64| Remediation {
            id: id.to_string(),
            kind: "app-fault".into(),
            state: "noted".into(),
            finding: id.to_string(),
            node: format!("hgx-0{}", id / 8),
            gpu: u32::try_from(id % 8).ok(),
            action: Action::Watch,
            step: RemediationStep::Proposed,
            ..remediation(id)
        };
        let finding = |id: u64, job: u64| Finding {
            id: id.to_string(),
            kind: "app-fault".into(),
            title: "A program misused a GPU".into(),
            job: Some(job),
            ..muster_api::samples::finding(id)
        };
        let mut all: Vec<Remediation> = (8..40).map(watch).collect();
        let mut found: Vec<Finding> = (8..40).map(|id| finding(id, 7)).collect();
        // One more that acts, one of another job, and one of nobody.
        all.insert(3, remediation(100));
        all.extend([watch(50), watch(51)]);
        found.push(finding(50, 9));
        let lines = folded(&all, &found);
        let of = |l: &Line<'_>| match l {
            Line::One(_) => 1,
            Line::Watched { of, .. } => of.len(),
        };
        assert_eq!(lines.iter().map(of).collect::<Vec<_>>(), [32, 1, 1, 1]);
        let text = lines_table(&lines, Time(120_000)).render_for(None, false);
        assert!(text.contains("32 GPUs of 4 nodes") && text.contains("job 7: A prog"), "{text}");
        assert_eq!(text.lines().count(), 5, "{text}");
        let narrow = lines_table(&lines, Time(120_000)).render_for(Some(80), false);
        assert!(narrow.lines().all(|l| l.chars().count() <= 80), "{narrow}");
    }

    #[test]
    fn the_steps_of_one_that_was_undone_end_with_that() {
        let mut r = remediation(31);
        (r.step, r.outcome) = (RemediationStep::Ended, Some(RemediationOutcome::Undone));
        r.since = Time(110_000).into();
        let text = text(&r, Time(120_000), false);
        assert!(text.trim_end().ends_with("10s ago  undone"), "{text}");
    }

    #[test]
    fn one_remediation_is_reported_with_its_steps_and_its_act() {
        let mut r = remediation(31);
        r.act = Some(Act {
            id: "40".into(),
            what: "reboot".into(),
            state: "done".into(),
            node: Some("hgx-01".into()),
            gpu: None,
            title: None,
            at: Time(90_000).into(),
            until: Time(900_000).into(),
            ended_at: Some(Time(100_000).into()),
            message: Some("back with another boot".into()),
        });
        let text = text(&r, Time(120_000), false);
        for part in [
            "Remediation:  31 (reboot)",
            "Node:         hgx-01/3",
            "For:          gpu-off-bus, finding 12",
            "Mode:         on approval",
            "Act:          reboot done 20s ago",
            "Outcome:      back with another boot",
            "59s ago  work is leaving",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_dry_run_says_what_would_have_been_done() {
        let report = RemediationDryRunReport {
            from: Time(0).into(),
            to: Time(100_000).into(),
            cut: false,
            findings: 9,
            by_action: [("reboot".to_owned(), 2)].into(),
            held: [("limit of fleet".to_owned(), 1)].into(),
            out_at_once: 1,
            storms: 0,
            items: vec![DryRemediation {
                at: Time(60_000).into(),
                finding: "12".into(),
                kind: "gpu-off-bus".into(),
                node: "hgx-01".into(),
                gpu: None,
                action: Action::Reboot,
                mode: Mode::Automatic,
                held: None,
            }],
        };
        let text = dry_text(&report, Time(120_000), false);
        for part in [
            "Would do:     2 reboot",
            "Blocked:      1 not done",
            "1 node at most",
            "limit of fleet",
            "1m ago  hgx-01",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
    }

    #[test]
    fn a_number_is_a_remediation_and_the_words_are_verbs() {
        let read = |more: &[&str]| {
            let all = ["muster", "remediations"].iter().chain(more).copied();
            let cli = Cli::try_parse_from(all).map_err(|e| e.to_string())?;
            let crate::args::Command::Remediations(r) = cli.command else { panic!("remediations") };
            Ok::<_, String>(r)
        };
        assert_eq!(read(&["31"]).map(|r| r.id), Ok(Some("31".into())));
        assert!(matches!(
            read(&["approve", "31", "32"]).map(|r| r.verb),
            Ok(Some(Verb::Approve { ids })) if ids.ids == ["31", "32"]
        ));
        assert!(read(&["undo", "31"]).is_err_and(|e| e.contains("--reason")));
        assert!(read(&["deny", "31"]).is_ok());
        assert!(read(&["dry-run", "--days", "30", "-f", "p.yaml"]).is_ok());
        assert!(read(&["dry-run", "--days", "0"]).is_err());
        assert!(read(&["--all", "--node", "n1"]).is_ok());
    }
}
