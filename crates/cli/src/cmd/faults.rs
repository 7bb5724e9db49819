//! `muster faults`.

use super::failure_modes::action_list;
use clap::Args;
use muster_api::{Fault, FaultList, FaultsQuery};
use muster_client::Client;
use muster_health::detect::fault::remediated;
use muster_health::faults::Catalogue;
use muster_model::units::Time;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell, number};
use muster_terminal::output::time::relative;
use muster_terminal::{output, pick};

/// List faults that nodes reported, newest first
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster faults\n  muster faults --node hgx-0003\n  muster faults --job 42\n  \
muster faults --code xid-79 -o json\n\nThe last 32 faults of each node are stored; `muster events` has all of them."
)]
pub(crate) struct Faults {
    /// Only this node's
    #[arg(long, value_name = "NODE")]
    node: Option<String>,
    /// Only those that affected this job: its id or name
    #[arg(long, value_name = "JOB")]
    job: Option<String>,
    /// Only faults of this code
    #[arg(long, value_name = "CODE")]
    code: Option<String>,
    /// At most so many
    #[arg(long, default_value_t = 100, value_name = "N")]
    limit: usize,
}

impl Faults {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let job = match &self.job {
            Some(given) => Some(pick::job(&client, given).await?.number),
            None => None,
        };
        let (node, code) = (self.node.clone(), self.code.clone());
        let query = FaultsQuery { node, code: code.clone(), job, ..FaultsQuery::default() };
        let list = pages(&client, query, self.limit.max(1)).await?;
        if list.items.is_empty() {
            pick::known_node(&client, self.node.as_deref()).await?;
            known_code(code.as_deref())?;
        }
        if ctx.is_table() && list.items.is_empty() {
            output::note(&match client.whoami().await?.project {
                Some(own) => format!(
                    "no faults were reported that affected jobs of project {own}; others are not \
                     shown to this token"
                ),
                None => "no faults were reported".into(),
            });
            return Ok(0);
        }
        if list.cursor.is_some() && ctx.is_table() {
            output::note("note: there are more; --limit shows them");
        }
        ctx.show(&list, |l| table(&l.items, now(), true).render())?;
        Ok(0)
    }
}

/// No faults of a code say nothing when there is no such code: then that is the answer.
fn known_code(given: Option<&str>) -> Result<(), Fail> {
    match given {
        Some(code) if Catalogue::builtin().code(code).is_none() => {
            Err(Fail::usage(format!("--code: there is no fault `{code}`"))
                .hint("write it like xid-79, sxid-12028 or oom"))
        }
        _ => Ok(()),
    }
}

/// Pages until there are no more, or `most`.
pub(crate) async fn pages(
    client: &Client,
    mut query: FaultsQuery,
    most: usize,
) -> Result<FaultList, Fail> {
    let mut items = Vec::new();
    loop {
        query.limit = Some(u32::try_from((most - items.len()).min(1000)).unwrap_or(1000));
        let page = client.faults(&query).await?;
        let none = page.items.is_empty();
        items.extend(page.items);
        if page.cursor.is_none() || none || items.len() >= most {
            return Ok(FaultList { items, cursor: page.cursor });
        }
        query.cursor = page.cursor;
    }
}

/// The faults as a table; without the nodes where there is only one.
pub(crate) fn table(faults: &[Fault], now: Time, nodes: bool) -> Table {
    let mut head = vec![
        "WHEN",
        "NODE",
        "GPU",
        "CODE",
        "CLASS",
        "COUNT",
        "JOB",
        "ASKS FOR",
        "REMEDIATION",
        "TEXT",
    ];
    if !nodes {
        head.remove(1);
    }
    let mut table = Table::new(&head);
    for f in faults {
        let mut row = vec![
            cell(relative(now, f.at)),
            cell(&f.node),
            number(f.gpu.map(|g| g.to_string()).unwrap_or_default()),
            cell(&f.code),
            cell(f.class.word()),
            number(f.count),
            cell(f.attempt.as_deref().unwrap_or_default()),
            cell(f.action.words()),
            cell(remediation(f)),
            cell(&f.text),
        ];
        if !nodes {
            row.remove(1);
        }
        table.row(row);
    }
    table
}

/// The remediation steps of its failure mode, by the map of failure modes; none where nothing is
/// done about it.
fn remediation(f: &Fault) -> String {
    let found = remediated(&f.code, (f.class, f.action), f.gpu);
    found.map(|(mode, _)| action_list(mode.steps)).unwrap_or_default()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_model::fault::{FaultAction, FaultClass, FaultSource};

    pub(crate) fn fault(code: &str) -> Fault {
        Fault {
            node: "hgx-01".into(),
            at: Time(60_000).into(),
            seen_at: Time(59_000).into(),
            code: code.into(),
            class: FaultClass::Bus,
            action: FaultAction::Reboot,
            source: FaultSource::Kernel,
            count: 3,
            gpu: Some(2),
            attempt: Some("42.1".into()),
            rank: Some(2),
            pid: None,
            text: "NVRM: Xid 79\u{7}, GPU has fallen off the bus.".into(),
        }
    }

    #[test]
    fn faults_are_reported_with_whom_they_hit_and_what_to_do() {
        let text = table(&[fault("xid-79")], Time(120_000), true).render_for(None, false);
        for part in ["1m ago", "hgx-01", "xid-79", "bus", "42.1", "reboot the node"] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains('\u{7}'), "{text:?}");
        assert!(text.contains("reboot, power_cycle, replace"), "{text}");
        // What the job is to do is not all that is done.
        let mut contained = fault("xid-94");
        (contained.class, contained.action) = (FaultClass::Memory, FaultAction::RestartJob);
        let text = table(&[contained], Time(120_000), true).render_for(None, false);
        assert!(text.contains("reset_gpu, replace"), "{text}");
        let mut own = fault("xid-31");
        (own.class, own.action) = (FaultClass::Application, FaultAction::RestartJob);
        assert_eq!(remediation(&own), "");
    }
}
