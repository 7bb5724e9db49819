//! `muster fabric`: tests of the network between nodes.

use clap::{Args, Subcommand};
use muster_api::{
    FabricNodeHealth, FabricPair, FabricRequest, FabricState, FabricTest, FabricTestList,
    FabricVerdict,
};
use muster_specs::hostlist;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::{FAILED, Fail};
use muster_terminal::output;
use muster_terminal::output::table::{Table, cell, number, state};
use muster_terminal::output::time::relative;
use std::time::Duration;

/// How often the server is asked how far a test is.
const LOOK: Duration = Duration::from_millis(300);

/// Test the network between nodes
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster fabric test                            all idle nodes, one round\n  \
muster fabric test --nodes 'hgx-[0001-0016]'  before a large job\n  \
muster fabric test --domain leaf:eu/c1/s1/l2 --rounds all\n  muster fabric show 7 -o json\n\n\
Nodes are paired; those of slow pairs are paired again with good ones, so that the bad one is\n\
named. Exit code 1 when one is slow."
)]
pub(crate) struct FabricCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Test(Test),
    Show(Show),
}

/// Test the network between nodes and find the slow ones
#[derive(Debug, Args)]
struct Test {
    /// These nodes, such as 'n[1-8],n12' [default: all that are idle]
    #[arg(long, value_name = "NODES")]
    nodes: Option<String>,
    /// All idle nodes of a part of the site: leaf:PATH, rack:PATH, pool:NAME, feed:NAME
    #[arg(long, value_name = "KIND:NAME")]
    domain: Option<String>,
    /// Rounds in which every node is paired once, or `all`: each node with every other
    #[arg(long, default_value = "1", value_name = "N", value_parser = rounds)]
    rounds: u32,
    /// Seconds that the test of one pair takes
    #[arg(long, default_value_t = 3, value_name = "S", value_parser = clap::value_parser!(u32).range(1..=60))]
    seconds: u32,
    /// Connections of a pair at the same time
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=32))]
    streams: Option<u32>,
    /// Also nodes that have work; it is disturbed
    #[arg(long)]
    busy: bool,
    /// Decides which nodes are paired; the same number gives the same pairs
    #[arg(long, value_name = "N")]
    seed: Option<u32>,
    /// Do not compare with the past of these paths: the network was changed on purpose
    #[arg(long)]
    forget: bool,
    /// All at once, each node sending to the next as in a collective; a slow group is halved
    #[arg(long, conflicts_with = "rounds")]
    group: bool,
    /// Do not wait for the result
    #[arg(long)]
    no_wait: bool,
}

/// Show tests of the network: one, or the last ones
#[derive(Debug, Args)]
struct Show {
    /// The test's number
    id: Option<String>,
}

fn rounds(text: &str) -> Result<u32, String> {
    match text {
        "all" => Ok(0),
        n => match n.parse() {
            Ok(n @ 1..=4096) => Ok(n),
            _ => Err("a number from 1 to 4096, or `all`".into()),
        },
    }
}

impl FabricCmd {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        match self.verb {
            Verb::Test(t) => t.run(ctx).await,
            Verb::Show(Show { id: Some(id) }) => shown(ctx, &ctx.client()?.fabric(&id).await?),
            Verb::Show(Show { id: None }) => {
                let list = ctx.client()?.fabric_tests().await?;
                if ctx.is_table() && list.items.is_empty() {
                    output::note("the network was not tested since the server started");
                    return Ok(0);
                }
                ctx.show(&list, tests)?;
                Ok(0)
            }
        }
    }
}

impl Test {
    async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let nodes = match &self.nodes {
            Some(list) => hostlist::expand(list).map_err(|e| Fail::usage(e.to_string()))?,
            None => Vec::new(),
        };
        let body = FabricRequest {
            nodes,
            domain: self.domain,
            rounds: Some(self.rounds),
            seconds: Some(self.seconds),
            streams: self.streams,
            busy: self.busy,
            seed: self.seed,
            forget: self.forget,
            group: self.group,
        };
        let mut test = client.fabric_test(&body).await?;
        if self.no_wait {
            if ctx.is_table() {
                output::print(&format!("test {} of the network was begun\n", test.id))?;
                return Ok(0);
            }
            return ctx.show(&test, |_| String::new()).map(|()| 0);
        }
        let mut printed = 0;
        while matches!(test.state, FabricState::Waiting | FabricState::Running) {
            if ctx.is_table() && test.rounds > printed {
                printed = test.rounds;
                output::note(&format!("test {}: round {printed}", test.id));
            }
            tokio::time::sleep(LOOK).await;
            test = client.fabric(&test.id).await?;
        }
        shown(ctx, &test)
    }
}

fn shown(ctx: &Ctx, test: &FabricTest) -> Result<u8, Fail> {
    ctx.show(test, render)?;
    let bad = test.nodes.iter().any(|n| n.health == FabricNodeHealth::Slow);
    Ok(if bad || test.state == FabricState::Failed { FAILED } else { 0 })
}

fn word(v: FabricVerdict) -> &'static str {
    match v {
        FabricVerdict::Ok => "ok",
        FabricVerdict::Slow => "slow",
        FabricVerdict::Failed => "failed",
        FabricVerdict::Skipped => "skipped",
    }
}

fn state_word(s: FabricState) -> &'static str {
    match s {
        FabricState::Waiting => "waiting",
        FabricState::Running => "running",
        FabricState::Done => "done",
        FabricState::Failed => "failed",
    }
}

fn mbps(v: Option<f64>) -> String {
    v.map_or_else(|| "-".into(), |v| format!("{v:.0}"))
}

fn row(table: &mut Table, p: &FabricPair) {
    let whole = |v: Option<u64>| v.map_or_else(|| "-".into(), |v| v.to_string());
    let share = p.mbps.zip(p.baseline_mbps).filter(|(_, b)| *b > 0.0);
    let share = share.map_or_else(|| "-".into(), |(m, b)| format!("{:.0} %", m * 100.0 / b));
    table.row(vec![
        number(p.round),
        cell(&p.a),
        cell(&p.b),
        cell(&p.class),
        number(mbps(p.mbps)),
        number(mbps(p.baseline_mbps)),
        number(share),
        number(whole(p.rtt_us)),
        number(whole(p.rtt_p99_us)),
        number(whole(p.resent)),
        state(word(p.verdict)),
        cell(remark(p)),
    ]);
}

/// What went wrong, or how much a figure is worth.
fn remark(p: &FabricPair) -> String {
    let mut words: Vec<String> = p.error.iter().cloned().collect();
    if p.times > 1 {
        words.push(format!("best of {}", p.times));
    }
    if let Some(held @ 50..) = p.held {
        words.push(format!("machines delayed {} %", held / 10));
    }
    words.join("; ")
}

fn render(t: &FabricTest) -> String {
    let mut out = String::new();
    if !t.pairs.is_empty() {
        let mut table = Table::new(&[
            "ROUND", "NODE", "NODE", "WITHIN", "MBIT/S", "BASELINE", "SHARE", "RTT US", "P99 US",
            "RESENT", "VERDICT", "",
        ]);
        t.pairs.iter().for_each(|p| row(&mut table, p));
        out += &table.render();
        out.push('\n');
    }
    if let Some(e) = &t.error {
        out += &format!("test {}: {e}\n", t.id);
        return out;
    }
    if matches!(t.state, FabricState::Waiting | FabricState::Running) {
        out += &format!("test {} is {}\n", t.id, state_word(t.state));
        return out;
    }
    for n in &t.nodes {
        match n.health {
            FabricNodeHealth::Good => {}
            FabricNodeHealth::Slow => {
                let sure = n.confidence.map_or(0, |c| c / 10);
                out += &format!("{} is slow ({sure} % sure)\n", n.name);
                n.why.iter().for_each(|w| out += &format!("  {w}\n"));
            }
            FabricNodeHealth::Undecided => {
                out += &format!("{} is undecided: {}\n", n.name, n.why.join("; "));
            }
            FabricNodeHealth::Skipped => {
                out += &format!("{} was not tested: {}\n", n.name, n.why.join("; "));
            }
        }
    }
    for [a, b] in &t.paths {
        out += &format!(
            "{a} and {b} were slow with each other only: the path between, or something that passed\n"
        );
    }
    for group in &t.together {
        let (all, half) = (group.len(), group.len().div_ceil(2));
        out += &format!(
            "slow only together, {all} nodes at once: {} and {}; attributed to what lies between them\n",
            hostlist::compress(group[..half].iter().map(String::as_str)),
            hostlist::compress(group[half..].iter().map(String::as_str)),
        );
    }
    let count = |s: FabricNodeHealth| t.nodes.iter().filter(|n| n.health == s).count();
    out += &format!(
        "test {}: {} good, {} slow, {} undecided; {} in {}\n",
        t.id,
        count(FabricNodeHealth::Good),
        count(FabricNodeHealth::Slow),
        count(FabricNodeHealth::Undecided),
        output::plural(t.pairs.len(), "pair"),
        output::plural(t.rounds as usize, "round"),
    );
    out
}

fn tests(list: &FabricTestList) -> String {
    let mut table = Table::new(&["TEST", "STATE", "ROUNDS", "ASKED", "BY"]);
    for t in &list.items {
        table.row(vec![
            number(&t.id),
            state(state_word(t.state)),
            number(t.rounds),
            cell(relative(now(), t.asked_at)),
            cell(&t.by),
        ]);
    }
    table.render()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_api::{FabricNode, Kind};
    use muster_model::units::Time;

    fn test() -> FabricTest {
        let pair = |a: &str, b: &str, mbps, verdict| FabricPair {
            round: 1,
            a: a.into(),
            b: b.into(),
            class: "leaf".into(),
            mbps: Some(mbps),
            baseline_mbps: Some(100.0),
            past_mbps: None,
            peers_mbps: Some(100.0),
            rtt_us: Some(120),
            rtt_p99_us: Some(900),
            resent: Some(3),
            held: Some(120),
            times: 2,
            verdict,
            error: None,
        };
        let node = |name: &str, health| FabricNode {
            name: name.into(),
            health,
            why: vec!["slow with 2 of 2 partners".into()],
            entity: None,
            confidence: Some(850),
        };
        FabricTest {
            id: "7".into(),
            kind: Kind::FabricTest,
            state: FabricState::Done,
            by: "user:admin".into(),
            asked_at: Time(0).into(),
            ended_at: Some(Time(1).into()),
            seconds: 3,
            seed: 7,
            rounds: 2,
            pairs: vec![
                pair("n1", "n2", 99.6, FabricVerdict::Ok),
                pair("n3", "n4", 30.0, FabricVerdict::Slow),
            ],
            nodes: vec![
                node("n1", FabricNodeHealth::Good),
                node("n3", FabricNodeHealth::Slow),
                node("n9", FabricNodeHealth::Skipped),
            ],
            paths: vec![["n1".into(), "n4".into()]],
            group: true,
            together: vec![["n1", "n2", "n3", "n4"].map(String::from).to_vec()],
            error: None,
        }
    }

    #[test]
    fn a_test_is_reported_with_who_is_slow_and_why() {
        let text = render(&test());
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[0].contains("MBIT/S") && lines[0].contains("BASELINE"), "{text}");
        assert!(lines[2].contains("30 %") && lines[2].contains("slow"), "{text}");
        assert!(lines[2].ends_with("best of 2; machines delayed 12 %"), "{text}");
        assert!(lines.contains(&"n3 is slow (85 % sure)"), "{text}");
        assert!(lines.contains(&"  slow with 2 of 2 partners"), "{text}");
        assert!(text.contains("slow only together, 4 nodes at once: "), "{text}");
        assert!(lines.contains(&"test 7: 1 good, 1 slow, 0 undecided; 2 pairs in 2 rounds"));
        assert!(!text.contains("n1 is"), "{text}");
    }

    #[test]
    fn rounds_are_a_number_or_all() {
        assert_eq!((rounds("3"), rounds("all")), (Ok(3), Ok(0)));
        assert!(rounds("0").is_err() && rounds("many").is_err());
    }
}
