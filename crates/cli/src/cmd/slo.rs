//! `muster slo`: objectives and their error budgets.

mod no_alert;

use super::bulk::Refusals;
use clap::{Args, Subcommand};
use muster_api::{BurnRate, FiringRule, Slo, SloList};
use muster_model::units::Span;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::bar;
use muster_terminal::output::colour::on;
use muster_terminal::output::facts::Facts;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::short;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show SLOs and their error budgets, or set objectives
#[derive(Debug, Args)]
#[command(
    visible_alias = "slos",
    after_help = "Examples:\n  muster slo\n  muster slo show job-success\n  muster slo apply objectives.yaml\n  \
muster slo apply openslo.yaml\n  muster slo delete goodput\n  muster slo rules > prometheus-rules.yaml\n  \
muster slo -o json | jq '.items[] | select(.budget_left < 0.25) | .name'"
)]
pub(crate) struct SloCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// List them: error budget left and burn rate
    List,
    /// Show one: what was counted, why it was bad, its burn rates
    Show {
        /// Its name
        name: String,
    },
    /// Make a file's objectives the site's; OpenSLO files are added to what there is
    Apply {
        /// YAML or JSON of `kind: Objectives`, or OpenSLO
        file: PathBuf,
    },
    /// Delete objectives
    Delete {
        /// Their names
        #[arg(required = true, value_name = "NAME")]
        names: Vec<String>,
    },
    /// Print the same objectives as a file of rules for Prometheus
    Rules,
}

impl SloCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.verb {
            None | Some(Verb::List) => {
                let list = client.slos().await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note(
                        "no objective concerns what this token sees; one is set for a project with \
                         `scope: {project: NAME}` and `muster slo apply FILE`",
                    );
                    return Ok(0);
                }
                ctx.show(&list, |l| table(l).render())?;
                if ctx.is_table() {
                    for s in list.items.iter().filter(|s| s.state == "below_target") {
                        output::note(&below(s));
                    }
                }
            }
            Some(Verb::Show { name }) => {
                let one = client.slo(&name).await?;
                let alert = match ctx.is_table() {
                    true => no_alert::line(&client, &one).await,
                    false => String::new(),
                };
                ctx.show(&one, |s| text(s, &alert, on()))?;
            }
            Some(Verb::Apply { file }) => apply(ctx, &client, &file).await?,
            Some(Verb::Delete { names }) => {
                if names.len() > 1 {
                    for name in &names {
                        client.slo(name).await?;
                    }
                }
                let mut refusals = Refusals::of("objective", names.len());
                for name in &names {
                    match client.delete_objective(name).await {
                        Ok(()) if ctx.is_table() => {
                            output::print(&format!("objective {name} is deleted\n"))?;
                        }
                        Ok(()) => {}
                        Err(e) => refusals.add(name, e),
                    }
                }
                return refusals.end(0);
            }
            Some(Verb::Rules) => {
                ctx.only_text("`slo rules`", "it is YAML for Prometheus without -o")?;
                let site = client.objectives().await?;
                let all = muster_slo::defaults::in_force(&site.objectives);
                let groups = muster_slo::rules::groups(&all);
                output::print(&muster_slo::rules::yaml(&groups))?;
            }
        }
        Ok(0)
    }
}

async fn apply(ctx: &Ctx, client: &muster_client::Client, file: &Path) -> Result<(), Fail> {
    let origin = file.display().to_string();
    let text = output::read_text(file)?;
    let wanted = muster_specs::objectives::objectives(&text, &origin)?;
    if muster_specs::openslo::is_openslo(&text) {
        for o in &wanted.objectives {
            client.set_objective(o).await?;
        }
    } else {
        let before = client.objectives().await?;
        client.set_objectives(&Arc::new(wanted), Some(before.version)).await?;
    }
    let after = client.slos().await?;
    ctx.show(&after, |l| format!("{} in force now\n", output::plural(l.items.len(), "objective")))
}

fn rate(r: Option<f64>) -> String {
    r.map(|r| format!("{r:.1}x")).unwrap_or_else(|| "-".into())
}

/// The burn rate, and over what: the long window of the worst rule that fires,
/// or the last hour, which is what the forecast takes.
fn burns(firing: &[FiringRule], burn: &[BurnRate]) -> String {
    let worst = |a: &&FiringRule, b: &&FiringRule| {
        a.urgency.cmp(&b.urgency).then(a.factor.total_cmp(&b.factor))
    };
    let hour = || {
        let one = burn.iter().find(|b| b.window == Span::hours(1))?;
        Some((one.rate?, one.window))
    };
    let shown = firing.iter().max_by(worst).map(|f| (f.long_rate, f.long)).or_else(hour);
    shown.map_or_else(|| "-".into(), |(r, over)| format!("{}/{over}", rate(Some(r))))
}

/// When the budget is exhausted, at the burn rate of the last hour.
fn exhausted_in(s: &Slo) -> String {
    s.exhausted_in.map(short).unwrap_or_default()
}

/// The state in the words of error budgets.
fn shown_state(state: &str) -> &str {
    match state {
        "below_target" => "not met",
        "no_data" => "no data",
        other => other,
    }
}

/// Why one that is not met has budget left.
fn below(s: &Slo) -> String {
    format!(
        "{} is not met by what was counted for {} of {}; the rest counts as good, so that budget is \
         left: `muster slo show {}`",
        s.name,
        short(s.counted_for),
        s.window,
        s.name
    )
}

/// Whole percents, and no more than is left: all of it is left only where nothing was used.
fn percent_left(share: f64) -> f64 {
    (share * 100.0 + 1e-9).floor()
}

fn budget_left(s: &Slo) -> String {
    match s.budget_left {
        None => "no data".into(),
        Some(l) => format!("{} {:>3.0}%", bar::part(l.clamp(0.0, 1.0), 10), percent_left(l)),
    }
}

/// The objectives as a table.
pub(crate) fn table(list: &SloList) -> Table {
    let mut table = Table::new(&[
        "NAME",
        "STATE",
        "TARGET",
        "NOW",
        "WINDOW",
        "BUDGET LEFT",
        "BURN RATE",
        "EXHAUSTED IN",
        "OWNER",
    ]);
    for s in &list.items {
        table.row(vec![
            cell(&s.name),
            state(shown_state(&s.state)),
            number(&s.target),
            number(s.good_text.as_deref().unwrap_or("-")),
            cell(&s.window),
            cell(budget_left(s)),
            number(burns(&s.firing, &s.burn)),
            cell(exhausted_in(s)),
            cell(&s.owner),
        ]);
    }
    table
}

fn counted(s: &Slo, n: u64) -> String {
    if s.unit == "time" { hours(n) } else { n.to_string() }
}

/// To the hour: 15 bad hours of 448 days are to be seen in what is good.
fn hours(n: u64) -> String {
    output::time::length(Span(n))
}

fn scope(s: &Slo) -> String {
    let project = s.scope.project.as_ref().map(|p| format!("project {p}"));
    let pool = s.scope.pool.as_ref().map(|p| format!("pool {p}"));
    let all: Vec<String> = project.into_iter().chain(pool).collect();
    if all.is_empty() { "the whole site".into() } else { all.join(", ") }
}

fn text(s: &Slo, alert: &str, on: bool) -> String {
    let mut f = Facts::new();
    f.line("Objective", &s.name);
    f.line("State", shown_state(&s.state));
    f.line("For", &s.description);
    f.line("Owner", &s.owner);
    f.line("Indicator", s.sli.word());
    f.line("Scope", scope(s));
    f.line("Target", format!("{} over {}", s.target, s.window));
    f.line("Now", s.good_text.as_deref().unwrap_or("no data"));
    let bad = s.total.saturating_sub(s.good);
    f.line("Counted", format!("{} of {} good", counted(s, s.good), counted(s, s.total)));
    let allowed =
        format!("{}, {} are allowed in {}", counted(s, bad), counted(s, s.allowed), s.window);
    f.line("Bad", allowed);
    f.line(
        "Counted for",
        format!("{} of {}; the rest counts as good", short(s.counted_for), s.window),
    );
    f.line("Budget left", budget_left(s));
    f.line("Exhausted in", exhausted_in(s));
    f.line("Mean time", s.mean_time.map(short).unwrap_or_default());
    let gates: Vec<&str> = s.gates.iter().map(|g| g.word()).collect();
    if !gates.is_empty() {
        let how =
            if s.gating { "blocked now" } else { "blocked when the error budget is exhausted" };
        f.line("Gates", format!("{}: {how}", gates.join(", ")));
    }
    f.line("Alert", alert);
    f.section("Burn rates", on);
    let mut burn = Table::new(&["OVER", "RATE"]);
    for b in &s.burn {
        burn.row(vec![cell(b.window), number(rate(b.rate))]);
    }
    f.table(&burn, on);
    if !s.firing.is_empty() {
        f.section("Firing rules", on);
        for r in &s.firing {
            let (factor, long, short) = (r.factor, r.long, r.short);
            f.text(&format!(
                "{}: burn rate above {factor}x over {long} ({:.1}x) and over {short} ({:.1}x)",
                r.urgency.word(),
                r.long_rate,
                r.short_rate
            ));
        }
    }
    if !s.causes.is_empty() {
        f.section("Why", on);
        let mut why = Table::new(&["CAUSE", "BAD"]);
        for c in &s.causes {
            why.row(vec![cell(c.cause.word()), number(counted(s, c.count))]);
        }
        f.table(&why, on);
    }
    f.0
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::alert::Urgency;

    #[test]
    fn every_state_has_one_word_for_people() {
        let all = ["met", "below_target", "burning", "exhausted", "no_data"];
        let words = ["met", "not met", "burning", "exhausted", "no data"];
        assert_eq!(all.map(shown_state), words);
    }

    #[test]
    fn a_budget_that_was_used_is_not_reported_as_whole() {
        let reported = [1.0, 0.9999, 0.29, 0.0].map(|l| format!("{:.0}", percent_left(l)));
        assert_eq!(reported, ["100", "99", "29", "0"]);
    }

    #[test]
    fn what_was_bad_is_missing_from_what_was_good() {
        let hour = 3_600_000;
        assert_eq!((hours(448 * 24 * hour), hours(15 * hour)), ("448d0h".into(), "15h00m".into()));
        assert_eq!(hours((448 * 24 - 15) * hour), "447d9h");
    }

    #[test]
    fn the_burn_rate_beside_a_state_is_the_one_that_decides_it() {
        let burn = |window, rate| BurnRate { window, rate: Some(rate) };
        let all = [burn(Span::mins(5), 0.0), burn(Span::hours(1), 0.4), burn(Span::hours(24), 3.5)];
        assert_eq!(burns(&[], &all), "0.4x/1h");
        assert_eq!(burns(&[], &[]), "-");
        let rule = |factor, long, long_rate, urgency| FiringRule {
            factor,
            long,
            short: Span::mins(5),
            urgency,
            long_rate,
            short_rate: long_rate,
        };
        let firing = [
            rule(6.0, Span::hours(6), 7.0, Urgency::Ticket),
            rule(2.0, Span::mins(20), 2.5, Urgency::Page),
        ];
        assert_eq!(burns(&firing, &all), "2.5x/20m", "the page's");
        assert_eq!(burns(&firing[..1], &all), "7.0x/6h");
    }
}
