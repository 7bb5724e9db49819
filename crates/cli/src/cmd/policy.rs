//! `muster policy`: what operators choose about scheduling.

use clap::{Args, Subcommand};
use muster_api::{Kind, Node, Policy};
use muster_model::policy::{Idle, Limits, SiteNames, SitePolicy};
use muster_model::units::Span;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Show or set the scheduling policy
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster policy\n  muster policy -o yaml > policy.yaml\n  \
muster policy apply policy.yaml --dry-run\n  muster policy apply policy.yaml")]
pub(crate) struct PolicyCmd {
    #[command(subcommand)]
    verb: Option<Verb>,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Show it: every field, and what differs from the default
    Show,
    /// Make a file's policy the site's; what the file leaves out gets its default
    Apply {
        /// YAML or JSON of `kind: Policy`
        file: PathBuf,
        /// Only show what would change
        #[arg(long)]
        dry_run: bool,
    },
}

impl PolicyCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.verb {
            None | Some(Verb::Show) => {
                let policy = client.policy().await?;
                ctx.show(&policy, |p| table(&p.policy).render())?;
            }
            Some(Verb::Apply { file, dry_run }) => {
                let wanted = Arc::new(read(&file)?);
                let before = client.policy().await?;
                let changes = changes(&before.policy, &wanted);
                // Most policies name nothing of the site: then it need not be asked.
                if !wanted.unmatched(&SiteNames::default()).is_empty() {
                    let nodes = client.all_nodes(None).await?;
                    for line in wanted.unmatched(&names(&nodes)) {
                        output::note(&format!("warning: {line}"));
                    }
                }
                if dry_run {
                    let version = before.version;
                    let would = Policy { kind: Kind::Policy, version, policy: wanted };
                    ctx.show(&would, |_| describe_changes("would change", &changes))?;
                    return Ok(0);
                }
                let after = client.set_policy(&wanted, Some(before.version)).await?;
                ctx.show(&after, |_| describe_changes("changed", &changes))?;
            }
        }
        Ok(0)
    }
}

/// What the site has that a policy can name.
fn names(nodes: &[Node]) -> SiteNames {
    let mut out = SiteNames::default();
    for n in nodes {
        let (at, pool) = (&n.location, &n.inventory.pool);
        out.skus.insert(n.sku.clone());
        out.pools.insert(if pool.is_empty() { "default".to_owned() } else { pool.clone() });
        out.feeds.insert(at.feed.clone());
        let path = [&at.region, &at.cluster, &at.spine, &at.leaf, &at.rack].map(String::as_str);
        out.racks.extend([path.join("/"), at.rack.clone()]);
    }
    out
}

fn read(file: &Path) -> Result<SitePolicy, Fail> {
    Ok(muster_specs::document::policy(&output::read_text(file)?, &file.display().to_string())?)
}

/// Every field by its dotted path.
fn fields(policy: &SitePolicy) -> BTreeMap<String, String> {
    let mut out = BTreeMap::new();
    flatten("", &muster_api::whole_policy(policy), &mut out);
    out
}

fn flatten(path: &str, value: &Value, out: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (k, v) in map {
                let path = if path.is_empty() { k.clone() } else { format!("{path}.{k}") };
                flatten(&path, v, out);
            }
        }
        Value::Object(_) => {}
        Value::String(s) => drop(out.insert(path.into(), s.clone())),
        other => drop(out.insert(path.into(), other.to_string())),
    }
}

/// Field, before, after; what is not set is a dash.
fn changes(before: &SitePolicy, after: &SitePolicy) -> Vec<(String, String, String)> {
    let (old, new) = (fields(before), fields(after));
    let names: std::collections::BTreeSet<&String> = old.keys().chain(new.keys()).collect();
    let text = |m: &BTreeMap<String, String>, k: &str| m.get(k).cloned().unwrap_or("-".into());
    names
        .into_iter()
        .map(|k| (k.clone(), text(&old, k), text(&new, k)))
        .filter(|(_, a, b)| a != b)
        .collect()
}

fn describe_changes(how: &str, changes: &[(String, String, String)]) -> String {
    if changes.is_empty() {
        return "the policy is the same: nothing changes\n".into();
    }
    changes.iter().map(|(k, a, b)| format!("{how} {k}: {a} -> {b}\n")).collect()
}

/// A policy that sets what may be left out, for the names of its fields.
fn everything() -> SitePolicy {
    let limits = Limits {
        running_jobs_per_user: Some(1),
        gpus_per_user: Some(1),
        queued_jobs_per_user: Some(1),
        queued_jobs_per_project: Some(1),
        queued_jobs: Some(1),
        secrets_per_project: Some(1),
        stored_mib_per_project: Some(1),
        max_time: Some(Span(1)),
    };
    let idle = Idle { warn_after: Some(Span(1)), end_after: Some(Span(1)) };
    SitePolicy { limits, idle, ..SitePolicy::default() }
}

/// Every field, and the default where it differs.
pub(crate) fn table(policy: &SitePolicy) -> Table {
    let usual = fields(&SitePolicy::default());
    let mut all = fields(policy);
    for k in fields(&everything()).keys() {
        all.entry(k.clone()).or_insert("-".into());
    }
    let mut table = Table::new(&["FIELD", "VALUE", "DEFAULT"]);
    for (k, v) in &all {
        let default = usual.get(k).map_or("-", String::as_str);
        table.row(vec![cell(k), cell(v), cell(if v == default { "" } else { default })]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_is_named_field_by_field() {
        let before = SitePolicy::default();
        let mut after = before.clone();
        after.defrag.enabled = true;
        after.power.feeds.insert("A".into(), 120_000);
        after.limits.gpus_per_user = Some(64);
        assert_eq!(
            describe_changes("would change", &changes(&before, &after)),
            "would change defrag.enabled: false -> true\n\
             would change limits.gpus_per_user: - -> 64\n\
             would change power.feeds.A: - -> 120000\n"
        );
        assert!(describe_changes("changed", &changes(&after, &after)).contains("nothing changes"));
        let text = table(&after).render_for(None, false);
        let line = |field: &str| text.lines().find(|l| l.starts_with(field)).unwrap_or_default();
        let words = |field: &str| line(field).split_whitespace().collect::<Vec<_>>().join(" ");
        assert_eq!(words("backfill.patience"), "backfill.patience 10m");
        assert_eq!(words("defrag.enabled"), "defrag.enabled true false");
        assert_eq!(words("power.feeds.A"), "power.feeds.A 120000 -");
        assert_eq!(words("limits.max_time"), "limits.max_time -", "what may be set is listed");
    }
}
