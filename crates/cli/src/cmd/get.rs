//! `muster get KIND [NAME]`.

use clap::{Args, ValueEnum};
use muster_api::{FaultsQuery, JobsQuery, NodeList};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{Fail, NOT_FOUND};
use muster_terminal::pick;

/// Print objects: jobs, nodes, projects, tokens, secrets, events, faults, quotas, …
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster get jobs\n  muster get job 42 -o json\n  muster get node hgx-0003 -o yaml\n  \
muster get policy -o yaml\n  muster get nodes -o json | jq '.items[].state'"
)]
pub(crate) struct Get {
    /// What kind
    kind: Kind,
    /// Which one; all when absent
    name: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Kind {
    #[value(alias = "job", alias = "j")]
    Jobs,
    #[value(alias = "node", alias = "n")]
    Nodes,
    #[value(alias = "project")]
    Projects,
    #[value(alias = "token")]
    Tokens,
    #[value(alias = "secret")]
    Secrets,
    #[value(alias = "event")]
    Events,
    #[value(alias = "fault")]
    Faults,
    #[value(alias = "reservation")]
    Reservations,
    #[value(alias = "quota")]
    Quotas,
    Policy,
}

impl Get {
    /// Is it asked which projects there are?
    pub(crate) fn is_of_projects(&self) -> bool {
        self.kind == Kind::Projects
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let now = now();
        match (self.kind, self.name) {
            (Kind::Jobs, None) => {
                let project = ctx.global.project.clone().filter(|p| !p.is_empty());
                let query = JobsQuery { project, ..JobsQuery::default() };
                let list = client.jobs_up_to(&query, 10_000).await?;
                ctx.show(&list, |l| super::ps::table(&l.items, now).render())?;
                ctx.note_more(list.cursor.as_ref(), "`muster ps --all --limit N` shows them");
            }
            (Kind::Jobs, Some(given)) => {
                let job = pick::job(&client, &given).await?;
                ctx.show(&job, |j| super::ps::table(std::slice::from_ref(j), now).render())?;
            }
            (Kind::Nodes, None) => {
                let list = NodeList { items: client.all_nodes(None).await?, cursor: None };
                ctx.show(&list, |l| super::nodes::table(&l.items).render())?;
            }
            (Kind::Nodes, Some(given)) => {
                let node = match client.node(&given).await {
                    Ok(node) => node,
                    Err(e) => return Err(pick::with_node_hint(&client, &given, e).await),
                };
                ctx.show(&node, |n| super::nodes::table(std::slice::from_ref(n)).render())?;
            }
            (Kind::Projects, None) => {
                let list = client.projects().await?;
                ctx.show(&list, |l| super::project::table(&l.items).render())?;
            }
            (Kind::Projects, Some(given)) => {
                let list = client.projects().await?.items;
                let one = only(list.into_iter().find(|p| p.name == given), "project", &given)?;
                ctx.show(&one, |p| super::project::table(std::slice::from_ref(p)).render())?;
            }
            (Kind::Tokens, None) => {
                let list = client.tokens().await?;
                ctx.show(&list, |l| super::token::table(&l.items, now).render())?;
            }
            (Kind::Tokens, Some(given)) => {
                let list = client.tokens().await?.items;
                let one = super::token::find(&list, &given)?;
                ctx.show(one, |t| super::token::table(std::slice::from_ref(t), now).render())?;
            }
            (Kind::Secrets, None) => {
                let list = client.secrets(ctx.settings()?.project.as_deref()).await?;
                ctx.show(&list, |l| super::secret::table(&l.items).render())?;
            }
            (Kind::Secrets, Some(given)) => {
                let list = client.secrets(ctx.settings()?.project.as_deref()).await?.items;
                let one = only(list.into_iter().find(|s| s.name == given), "secret", &given)?;
                ctx.show(&one, |s| super::secret::table(std::slice::from_ref(s)).render())?;
            }
            (Kind::Events, after) => {
                let list = super::events::page(&client, after, 1000).await?;
                ctx.show(&list, |l| super::events::table(&l.items, now).render())?;
                let after = list.cursor.clone().unwrap_or_default();
                let rest = format!("`muster events --after {after}` continues");
                ctx.note_more(list.cursor.as_ref(), &rest);
            }
            (Kind::Faults, node) => {
                let query = FaultsQuery { node: node.clone(), ..FaultsQuery::default() };
                let list = super::faults::pages(&client, query, 1000).await?;
                if list.items.is_empty() {
                    pick::known_node(&client, node.as_deref()).await?;
                }
                ctx.show(&list, |l| super::faults::table(&l.items, now, true).render())?;
                ctx.note_more(list.cursor.as_ref(), "`muster faults --limit N` shows them");
            }
            (Kind::Reservations, None) => {
                let list = client.reservations().await?;
                ctx.show(&list, |l| super::reservation::table(&l.items, now).render())?;
            }
            (Kind::Reservations, Some(given)) => {
                let one = client.reservation(&given).await?;
                ctx.show(&one, |r| {
                    super::reservation::table(std::slice::from_ref(r), now).render()
                })?;
            }
            (Kind::Quotas, None) => {
                let quotas = client.quotas().await?;
                ctx.show(&quotas, super::quota::text)?;
            }
            (Kind::Quotas, Some(given)) => {
                let rows = client.quotas().await?.report.quotas;
                let one = only(rows.into_iter().find(|q| q.name == given), "quota", &given)?;
                ctx.show(&one, |q| super::quota::tree(std::slice::from_ref(q)).render())?;
            }
            (Kind::Policy, None) => {
                let policy = client.policy().await?;
                ctx.show(&policy, |p| super::policy::table(&p.policy).render())?;
            }
            (Kind::Policy, Some(_)) => {
                return Err(Fail::usage("there is one policy; it has no name"));
            }
        }
        Ok(0)
    }
}

fn only<T>(found: Option<T>, what: &str, given: &str) -> Result<T, Fail> {
    found.ok_or_else(|| {
        Fail::new(NOT_FOUND, format!("there is no {what} `{given}`"))
            .hint(format!("`muster get {what}s` lists them"))
    })
}
