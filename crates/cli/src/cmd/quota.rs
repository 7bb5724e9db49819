//! `muster quota`: who is entitled to what, and has had how much.

use clap::{Args, Subcommand};
use muster_api::{AccountRow, LimitRow, QuotaRow, Quotas};
use muster_scheduler::quota::Ledger;
use muster_terminal::clean::line;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::{self, gpus, percent};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show or set quotas of GPUs, and who uses how many
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster quota\n  muster quota -o json | jq '.report.accounts'\n  \
muster quota check quotas.yaml    without a server\n  muster quota apply quotas.yaml --dry-run\n  \
muster quota apply quotas.yaml"
)]
pub(crate) struct QuotaCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Make a file's tree the site's
    Apply {
        /// YAML or JSON of `kind: Quotas`
        file: PathBuf,
        /// Only let the server check it
        #[arg(long)]
        dry_run: bool,
    },
    /// Check a file, without a server
    Check {
        /// YAML or JSON of `kind: Quotas`
        file: PathBuf,
    },
}

impl QuotaCmd {
    /// Is only a file checked? That asks no server.
    pub(crate) fn is_check(&self) -> bool {
        matches!(self.verb, Some(Verb::Check { .. }))
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            None => {
                let quotas = ctx.client()?.quotas().await?;
                ctx.show(&quotas, text)?;
                if ctx.is_table() && quotas.quotas.tree.is_empty() {
                    // Whoever is bound to a project is not shown the quotas of others.
                    match ctx.client()?.whoami().await?.project {
                        Some(own) => output::note(&format!("no quota applies to project {own}")),
                        None => output::note(
                            "no quotas are set: everybody may use everything; `muster quota apply FILE` sets them",
                        ),
                    }
                }
            }
            Some(Verb::Check { file }) => {
                let tree = read(&file)?;
                let idle = Ledger::idle_borrows(&tree);
                warn(&idle.iter().map(ToString::to_string).collect::<Vec<_>>());
                ctx.show(&tree, |t| {
                    let quotas = output::plural(t.tree.len(), "quota");
                    let found = match idle.len() {
                        0 => "no problem found".into(),
                        n => output::plural(n, "warning"),
                    };
                    format!("{}: {quotas}, {found}\n", file.display())
                })?;
            }
            Some(Verb::Apply { file, dry_run }) => {
                let tree = Arc::new(read(&file)?);
                let client = ctx.client()?;
                let seen = Some(client.quotas().await?.version);
                let (after, how) = if dry_run {
                    (client.check_quotas(&tree, seen).await?, "would have")
                } else {
                    (client.set_quotas(&tree, seen).await?, "now has")
                };
                warn(&after.warnings);
                ctx.show(&after, |q| {
                    let projects: usize = q.quotas.tree.iter().map(|n| n.projects.len()).sum();
                    format!(
                        "the site {how} {} over {}\n",
                        output::plural(q.quotas.tree.len(), "quota"),
                        output::plural(projects, "project")
                    )
                })?;
            }
        }
        Ok(0)
    }
}

/// Says which limits are without effect. They are set all the same.
fn warn(warnings: &[String]) {
    for text in warnings {
        output::note(&format!("warning: {}", line(text)));
    }
}

fn read(file: &Path) -> Result<muster_model::quota::Quotas, Fail> {
    Ok(muster_specs::document::quotas(&output::read_text(file)?, &file.display().to_string())?)
}

/// The tree as text, for people.
pub(crate) fn text(q: &Quotas) -> String {
    let mut text = String::new();
    if !q.report.quotas.is_empty() {
        text.push_str(&tree(&q.report.quotas).render());
    }
    if !q.report.accounts.is_empty() {
        if !text.is_empty() {
            text.push('\n');
        }
        text.push_str(&accounts(&q.report.accounts).render());
        text.push_str(COUNTED);
    }
    text
}

/// What the last columns are of, in the words of the console.
const COUNTED: &str = "\nRECEIVED and GPU-HOURS: all that was ever used, the older the less it counts \
                       (`fair_share.half_life` of `muster policy`);\n\
                       `muster report fleet` counts each GPU-hour of its days in full\n";

/// The tree as a table.
pub(crate) fn tree(rows: &[QuotaRow]) -> Table {
    let mut table = Table::new(&[
        "QUOTA",
        "GPUS",
        "NOMINAL",
        "USED",
        "BORROWED",
        "LEFT",
        "MAY BORROW",
        "MAY LEND",
        "SHARES",
        "ENTITLED",
        "RECEIVED",
        "PROJECTS",
    ]);
    for q in rows {
        let name = format!("{}{}", "  ".repeat(q.depth as usize), q.name);
        let row = |name: String, limit: Option<&LimitRow>, first: bool| {
            let only = |text: String| if first { text } else { String::new() };
            let used = limit.map_or(q.used_milli, |l| Some(l.used_milli));
            vec![
                cell(name),
                cell(limit.map_or_else(|| "no limit".into(), kind)),
                number(limit.map(|l| gpus(l.nominal_milli)).unwrap_or_default()),
                number(used.map(gpus).unwrap_or_default()),
                number(limit.map(|l| gpus(l.borrowed_milli)).unwrap_or_default()),
                number(limit.map(|l| gpus(l.left_milli)).unwrap_or_default()),
                number(limit.map(|l| most(l.borrow_milli, "any")).unwrap_or_default()),
                number(limit.map(|l| most(l.lend_milli, "all")).unwrap_or_default()),
                number(only(q.shares.to_string())),
                number(only(percent(q.entitled_milli))),
                number(only(q.received_milli.map(percent).unwrap_or_default())),
                cell(only(q.projects.join(","))),
            ]
        };
        match q.limits.split_first() {
            None => table.row(row(name, None, true)),
            Some((first, rest)) => {
                table.row(row(name, Some(first), true));
                for l in rest {
                    table.row(row(String::new(), Some(l), false));
                }
            }
        }
    }
    table
}

/// Which GPUs a limit is about.
fn kind(l: &LimitRow) -> String {
    let tier = l.tier.map(|t| format!("{t:?}").to_lowercase().replace("ondemand", "on-demand"));
    match (&l.sku, tier) {
        (None, None) => "all".into(),
        (Some(s), None) => s.clone(),
        (None, Some(t)) => t,
        (Some(s), Some(t)) => format!("{s} {t}"),
    }
}

fn most(milli: Option<u64>, otherwise: &str) -> String {
    milli.map_or_else(|| otherwise.into(), gpus)
}

fn accounts(rows: &[AccountRow]) -> Table {
    let mut table = Table::new(&[
        "RANK",
        "PROJECT",
        "USER",
        "QUOTA",
        "USED",
        "RUNNING",
        "WAITING",
        "ENTITLED",
        "RECEIVED",
        "GPU-HOURS",
    ]);
    for a in rows {
        let user = a.user.as_deref().unwrap_or_default();
        table.row(vec![
            number(a.rank),
            cell(&a.project),
            cell(user.strip_prefix("user:").unwrap_or(user)),
            cell(a.quota.as_deref().unwrap_or_default()),
            number(gpus(a.used_milli)),
            number(a.running),
            number(a.waiting),
            number(percent(a.entitled_milli)),
            number(a.received_milli.map(percent).unwrap_or_default()),
            number(gpus(a.usage_gpu_s.saturating_mul(1000) / 3600)),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::quota::QueueOrder;
    use muster_model::spec::Tier;

    fn row(name: &str, depth: u32, limits: Vec<LimitRow>) -> QuotaRow {
        QuotaRow {
            name: name.into(),
            parent: None,
            depth,
            shares: 2,
            order: QueueOrder::BestEffort,
            projects: vec!["nlp".into()],
            limits,
            used_milli: Some(8250),
            entitled_milli: 667,
            received_milli: Some(1000),
            usage_gpu_s: Some(5400),
        }
    }

    fn limit(sku: Option<&str>, tier: Option<Tier>) -> LimitRow {
        LimitRow {
            sku: sku.map(Into::into),
            tier,
            nominal_milli: 32_000,
            owned_milli: 32_000,
            borrow_milli: Some(8000),
            lend_milli: None,
            used_milli: 40_000,
            borrowed_milli: 8000,
            left_milli: 0,
        }
    }

    #[test]
    fn the_tree_is_drawn_with_a_line_for_each_limit() {
        let rows = [
            row("lab", 0, vec![]),
            row("nlp", 1, vec![limit(None, None), limit(Some("h100-sxm"), Some(Tier::OnDemand))]),
        ];
        assert_eq!(
            tree(&rows).render_for(None, false),
            "QUOTA  GPUS                NOMINAL  USED  BORROWED  LEFT  MAY BORROW  MAY LEND  SHARES  ENTITLED  RECEIVED  PROJECTS\n\
             lab    no limit                     8.25                                             2     66.7%      100%  nlp\n  \
             nlp  all                      32    40         8     0           8       all       2     66.7%      100%  nlp\n       \
             h100-sxm on-demand       32    40         8     0           8       all\n"
        );
    }

    #[test]
    fn what_is_not_shown_of_a_quota_is_no_number() {
        let lab = QuotaRow { used_milli: None, received_milli: None, ..row("lab", 0, vec![]) };
        let text = tree(&[lab]).render_for(None, false);
        let line = text.lines().nth(1).unwrap_or_default();
        let words: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(words, ["lab", "no", "limit", "2", "66.7%", "nlp"]);
    }

    #[test]
    fn accounts_are_listed_with_their_rank() {
        let a = AccountRow {
            project: "nlp".into(),
            user: Some("user:ann".into()),
            quota: Some("lab".into()),
            used_milli: 250,
            running: 1,
            waiting: 3,
            entitled_milli: 500,
            received_milli: Some(125),
            usage_gpu_s: 5400,
            rank: 1,
        };
        let text = accounts(std::slice::from_ref(&a)).render_for(None, false);
        assert!(text.ends_with("   1  nlp      ann   lab    0.25        1        3       50%     12.5%        1.5\n"), "{text}");
        // They are no GPU-hours of a period.
        let all = Quotas {
            kind: muster_api::Kind::Quotas,
            version: 1,
            quotas: Arc::default(),
            report: muster_api::QuotaReport { quotas: Vec::new(), accounts: vec![a] },
            warnings: Vec::new(),
        };
        let text = super::text(&all);
        assert!(text.contains("all that was ever used, the older the less it counts"), "{text}");
    }
}
