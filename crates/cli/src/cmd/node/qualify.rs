//! `muster node qualify`: tests nodes before they take work.

use crate::cmd::bulk::Refusals;
use clap::{Args, ValueEnum};
use muster_api::{DrainRequest, Node, Qualified, QualifyRequest, Qualifying};
use muster_client::{Client, ClientError};
use muster_model::qualification::{self as q, Check, Outcome};
use muster_model::units::{Span, Time};
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{FAILED, Fail};
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::{length, relative};
use muster_terminal::{output, pick};
use std::collections::BTreeMap;
use std::time::Duration;

/// How often a node is asked how far it is.
const LOOK: Duration = Duration::from_millis(500);

/// Test nodes before they take work
#[derive(Debug, Args)]
pub(super) struct Qualify {
    /// The nodes
    #[arg(required = true, value_name = "NODE")]
    nodes: Vec<String>,
    /// How thoroughly
    #[arg(long, value_enum, default_value_t = Level::Quick)]
    level: Level,
    /// Wait for the result; exit code 1 when a node fails
    #[arg(long)]
    wait: bool,
    /// Stop and requeue what runs there first
    #[arg(long)]
    force: bool,
    /// Cancel the running test
    #[arg(long, conflicts_with_all = ["level", "wait", "force"])]
    cancel: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Level {
    /// Under a minute
    Quick,
    /// About six minutes
    Standard,
    /// Hours, in rounds
    Full,
}

impl From<Level> for q::Level {
    fn from(l: Level) -> q::Level {
        match l {
            Level::Quick => q::Level::Quick,
            Level::Standard => q::Level::Standard,
            Level::Full => q::Level::Full,
        }
    }
}

impl Qualify {
    pub(super) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        pick::known_nodes(&client, &self.nodes).await?;
        let mut asked = Vec::new();
        let mut refusals = Refusals::of("node", self.nodes.len());
        for name in &self.nodes {
            let node = if self.cancel {
                client.cancel_qualification(name).await
            } else {
                self.ask(&client, name).await
            };
            match node {
                Ok(node) => asked.push(node),
                Err(e) => refusals.add(name, pick::with_node_hint(&client, name, e).await),
            }
        }
        if !self.wait {
            if ctx.is_table() {
                for node in &asked {
                    output::print(&super::describe_node(node, false))?;
                }
            }
            refusals.show(ctx, asked)?;
            return refusals.end(0);
        }
        let mut bad = false;
        let mut ended = Vec::new();
        for node in asked {
            let id = node.qualifying.as_ref().map(|q| q.id.clone()).unwrap_or_default();
            let node = until_over(ctx, &client, &node.name, &id).await?;
            let mine = node.qualified.as_ref().filter(|q| q.id == id);
            bad |= mine.is_none_or(|q| q.outcome == Outcome::Failed);
            if ctx.is_table() {
                output::print(&describe_result(&node, mine))?;
            }
            ended.push(node);
        }
        refusals.show(ctx, ended)?;
        refusals.end(if bad { FAILED } else { 0 })
    }

    async fn ask(&self, client: &Client, name: &str) -> Result<Node, ClientError> {
        let body = QualifyRequest { level: self.level.into() };
        if !self.force {
            return client.qualify(name, &body).await;
        }
        let before = client.node(name).await?;
        if before.jobs.is_empty() && before.orphans.is_empty() {
            return client.qualify(name, &body).await;
        }
        let reason = "to be qualified".into();
        let mut node = client.drain(name, &DrainRequest { reason, stop: true }).await?;
        output::note(&format!("node {name}: stopping what runs there"));
        while !(node.jobs.is_empty() && node.orphans.is_empty()) {
            tokio::time::sleep(LOOK).await;
            node = client.node(name).await?;
        }
        let asked = client.qualify(name, &body).await;
        // While it is tested it takes no work anyway; whoever drained it before finds it drained.
        if matches!(before.stage, muster_model::node::Stage::Ready) {
            client.undrain(name).await?;
        }
        asked
    }
}

/// Looks at the node until this test is over, and reports how far it is.
async fn until_over(ctx: &Ctx, client: &Client, name: &str, id: &str) -> Result<Node, Fail> {
    let mut said = String::new();
    loop {
        let node = client.node(name).await?;
        let Some(test) = node.qualifying.as_ref().filter(|q| q.id == id) else {
            return Ok(node);
        };
        let doing = test.progress.as_ref().map(|p| p.doing.clone()).unwrap_or_default();
        if ctx.is_table() && doing != said && !doing.is_empty() {
            output::note(&format!("node {name}: {}", progress(test)));
            said = doing;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// How far a test is, in words.
pub(crate) fn progress(test: &Qualifying) -> String {
    let level = test.level.word();
    let Some(p) = &test.progress else { return format!("{level}, nothing reported yet") };
    let left = p.eta_s.map(|s| format!(", about {} left", length(Span::secs(s))));
    format!("{level}, {} of {} done, {}{}", p.done, p.of, p.doing, left.unwrap_or_default())
}

/// What came of a test, in words.
pub(crate) fn outcome(test: &Qualified, now: Time) -> String {
    let (level, took) = (test.level.word(), length(test.took));
    format!("{} ({level}, {}, took {took})", test.outcome.word(), relative(now, test.ended_at))
}

fn describe_result(node: &Node, mine: Option<&Qualified>) -> String {
    let Some(test) = mine else {
        return format!("node {}: the test was cancelled\n", node.name);
    };
    let mut text = format!("node {}: {}\n", node.name, outcome(test, now()));
    text += &checks(&test.checks).render();
    // What `muster nodes` calls it: a failed test leaves a cordon, and may do more.
    let why = match node.state.as_str() {
        "ready" => return text,
        "cordoned" => node.cordon.as_ref(),
        _ => node.stage_why.as_ref().or(node.cordon.as_ref()),
    };
    let why = why.filter(|w| !w.is_empty()).map(|w| format!(": {w}")).unwrap_or_default();
    text += &format!("node {} is {}{why}\n", node.name, node.state);
    text
}

/// The checks as a table: GPUs that passed share a row, the others have one each.
pub(crate) fn checks(checks: &[Check]) -> Table {
    let mut table =
        Table::new(&["CHECK", "GPU", "VALUE", "EXPECTED", "FLOOR", "UNIT", "OUTCOME", "NOTE"]);
    let figure = |v: Option<q::Milli>| number(v.map(plain).unwrap_or_default());
    let mut good: BTreeMap<&str, Vec<&Check>> = BTreeMap::new();
    for c in checks.iter().filter(|c| together(c)) {
        good.entry(&c.name).or_default().push(c);
    }
    for c in checks {
        let (gpus, value) = if together(c) {
            // The first of a name speaks for all.
            let Some(all) = good.remove(c.name.as_str()) else { continue };
            (gpu_list(&all), range(&all))
        } else {
            (c.gpu.map(|g| g.to_string()).unwrap_or_default(), range(&[c]))
        };
        table.row(vec![
            cell(&c.name),
            cell(gpus),
            number(value),
            figure(c.expected),
            figure(c.floor),
            cell(&c.unit),
            state(c.outcome.word()),
            cell(&c.note),
        ]);
    }
    table
}

/// A whole number without a point.
fn plain(v: q::Milli) -> String {
    if v.0 % 1000 == 0 { (v.0 / 1000).to_string() } else { v.to_string() }
}

/// Nothing more to say of it than of its like.
fn together(c: &Check) -> bool {
    c.outcome == Outcome::Passed && c.gpu.is_some() && c.note.is_empty()
}

/// `0-3,5`.
fn gpu_list(checks: &[&Check]) -> String {
    let mut runs: Vec<(u32, u32)> = Vec::new();
    for g in checks.iter().filter_map(|c| c.gpu) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == g => *last = g,
            _ => runs.push((g, g)),
        }
    }
    let one = |(a, b): &(u32, u32)| if a == b { a.to_string() } else { format!("{a}-{b}") };
    runs.iter().map(one).collect::<Vec<_>>().join(",")
}

/// Lowest to highest.
fn range(checks: &[&Check]) -> String {
    let values = || checks.iter().filter_map(|c| c.value);
    match (values().min(), values().max()) {
        (Some(a), Some(b)) if plain(a) == plain(b) => plain(a),
        (Some(a), Some(b)) => format!("{a}-{b}"),
        _ => String::new(),
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use muster_model::qualification::Milli;

    pub(crate) fn check(gpu: u32, value: i64) -> Check {
        Check {
            name: "gemm-bf16".into(),
            gpu: Some(gpu),
            outcome: if value < 630_000 { Outcome::Failed } else { Outcome::Passed },
            value: Some(Milli(value)),
            unit: "TFLOP/s".into(),
            expected: Some(Milli(690_000)),
            floor: Some(Milli(634_800)),
            note: String::new(),
        }
    }

    #[test]
    fn a_node_that_was_tested_is_called_what_the_list_calls_it() {
        let ends = |node: &Node| {
            let test = Qualified {
                id: "7".into(),
                level: q::Level::Quick,
                outcome: Outcome::Failed,
                started_at: Time(0).into(),
                ended_at: Time(0).into(),
                took: Span::secs(9),
                checks: Vec::new(),
            };
            describe_result(node, Some(&test)).lines().last().unwrap_or_default().to_owned()
        };
        let mut node = crate::cmd::nodes::tests::node("n1");
        (node.state, node.cordon) = ("quarantined".into(), Some("its test failed".into()));
        assert_eq!(ends(&node), "node n1 is quarantined: its test failed");
        node.stage_why = Some("gemm-bf16 is below its floor".into());
        assert_eq!(ends(&node), "node n1 is quarantined: gemm-bf16 is below its floor");
        node.state = "cordoned".into();
        assert_eq!(ends(&node), "node n1 is cordoned: its test failed");
        node.state = "ready".into();
        assert!(!ends(&node).contains("n1 is"));
    }

    #[test]
    fn gpus_that_passed_share_a_row() {
        let all = [check(0, 691_000), check(1, 688_000), check(2, 512_000), check(3, 690_000)];
        let text = checks(&all).render_for(None, false);
        let rows: Vec<&str> = text.lines().collect();
        assert_eq!(rows.len(), 3, "{text}");
        assert!(rows[1].contains("0-1,3") && rows[1].contains("688-691"), "{text}");
        assert!(rows[2].contains("512") && rows[2].contains("635"), "{text}");
        assert!(rows[2].contains("failed"), "{text}");
    }
}
