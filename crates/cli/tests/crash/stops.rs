//! Agents are stopped or killed for longer than the lease of their ranks, while jobs with
//! checkpoint directories run there, while the server's clock is set and the server is killed. No
//! two attempts write to one directory, and no step is lost.

use super::api::{Answer, Api};
use super::clock::{self, DAY, HOUR};
use super::run::Test;
use super::sleepers::Sleepers;
use super::work::Kind;
use super::writers::Writer;
use super::{audit, load, ranks};
use rustix::process::Signal;
use serde_json::{Value, json};
use std::time::{Duration, Instant};

/// Hosts that are stopped, in turn: a node that is lost again and again is given no more work.
pub(crate) const HOSTS: usize = 3;

/// Longer than a fence takes on a machine that does other things too.
const LONG: Duration = Duration::from_secs(600);

/// What happens while an agent is away.
#[derive(Debug, Clone, Copy)]
struct Case {
    /// The agent is killed and another one started; otherwise it is stopped and goes on.
    killed: bool,
    /// The server's clock is set so many seconds ahead.
    step: i64,
    /// The server is killed after that, and another one starts.
    server_too: bool,
    /// The agent is there again as soon as the lease is over, before another attempt may start.
    soon: bool,
}

/// The first one is what every change is tried with.
const CASES: [Case; 6] = [
    Case { killed: false, step: HOUR, server_too: true, soon: false },
    Case { killed: true, step: DAY, server_too: true, soon: false },
    Case { killed: false, step: -DAY, server_too: true, soon: true },
    Case { killed: false, step: DAY, server_too: false, soon: false },
    Case { killed: true, step: -DAY, server_too: false, soon: true },
    Case { killed: false, step: 0, server_too: true, soon: false },
];

impl Test {
    /// From here on the server misses nodes after seconds.
    pub(super) async fn lose_soon(&mut self, api: &Api) -> Result<(), String> {
        self.doing = "the start of a server that misses nodes soon".into();
        self.end_server(false)?;
        self.site.lost_soon = true;
        self.site.set_clock(0);
        self.site.start_server(None);
        self.up().await?;
        self.fleet_up(api).await
    }

    /// One agent is away for longer than the lease of its ranks.
    pub(super) async fn stop_agents(
        &mut self,
        n: u64,
        api: &Api,
        sleepers: &Sleepers,
    ) -> Result<(), String> {
        // Another seed begins with another one.
        let turn = n.wrapping_add(self.seed).wrapping_sub(2) % CASES.len() as u64;
        let case = CASES[usize::try_from(turn).unwrap_or(0)];
        let others = u64::try_from(self.site.hosts.len() - 1).unwrap_or(1).max(1);
        let host = 1 + usize::try_from((n - 1) % others).unwrap_or(0);
        let what = format!("stop {n} of agents ({case:?})");
        let begins = |part: &str| format!("{what}: {part}");

        self.doing = begins("jobs with checkpoints start");
        self.fleet_up(api).await?;
        let writers = self.write_on(host, n, api).await?;

        self.doing = begins("the agent goes away");
        if case.killed {
            self.site.kill_host(host);
        } else if let Some(agent) = &self.site.hosts[host] {
            agent.signal(Signal::STOP);
        }
        let away = self.site.nodes_of(host);
        lost(api, &away).await?;

        self.doing = begins(&format!("the server's clock is set {}", clock::words(case.step)));
        self.site.set_clock(case.step);
        if case.server_too {
            self.end_server(false)?;
            self.site.start_server(None);
            self.up().await?;
            audit::acknowledged(api, &self.board, true).await?;
        }
        let file = self.site.rank_file();
        if case.soon {
            self.doing = begins("the lease of the ranks ends");
            until(api, "no rank runs there", || {
                let up = ranks::running(&ranks::read(&file)?);
                Ok(!up.values().any(|line| away.contains(&line.node)))
            })
            .await?;
        } else {
            self.doing = begins("other attempts start");
            for writer in &writers {
                let what = format!("a second attempt of {}", writer.name);
                until(api, &what, || Ok(writer.attempt()? > 1)).await?;
            }
        }

        self.doing = begins("the agent is there again");
        if case.killed {
            self.site.start_host(host, &self.join);
        } else if let Some(agent) = &self.site.hosts[host] {
            agent.signal(Signal::CONT);
        }
        self.fleet_up(api).await?;
        self.site.set_clock(0);

        self.doing = begins("everything ends");
        let jobs = audit::settled(api, &self.board).await?;
        let acked = self.board.acked();
        audit::none_of(&audit::outcomes(&acked, &jobs, false))?;
        let mut problems = Vec::new();
        for writer in &writers {
            problems.extend(writer.problems(true)?);
        }
        audit::none_of(&problems)?;
        audit::witnesses(&file, &acked, &jobs)?;
        sleepers.known(api).await
    }

    /// Jobs with checkpoint directories on the nodes of one host, each rank at work.
    async fn write_on(&self, host: usize, n: u64, api: &Api) -> Result<Vec<Writer>, String> {
        let file = self.site.rank_file();
        let others = (0..self.site.hosts.len()).filter(|h| *h != host);
        let others: Vec<String> = others.flat_map(|h| self.site.nodes_of(h)).collect();
        for node in &others {
            steer(api, node, "cordon", n, Some(&json!({ "reason": "the crash test" }))).await?;
        }
        let mut writers = Vec::new();
        for nodes in [1, 2] {
            let writer = Writer::new(format!("writer-{n}-{nodes}"), nodes, &file)?;
            let spec = writer.spec(&file);
            load::submit(&self.board, api, &writer.name, Kind::Writer, &spec).await?;
            writers.push(writer);
        }
        for writer in &writers {
            let what = format!("the first steps of {}", writer.name);
            until(api, &what, || Ok(writer.attempt()? > 0)).await?;
        }
        for node in &others {
            steer(api, node, "uncordon", n, None).await?;
        }
        Ok(writers)
    }
}

async fn steer(
    api: &Api,
    node: &str,
    verb: &str,
    n: u64,
    body: Option<&Value>,
) -> Result<(), String> {
    let (path, key) = (format!("/v1/nodes/{node}/{verb}"), format!("{verb}-{node}-{n}"));
    match api.insist(&path, &key, body).await {
        Answer::Done(_) => Ok(()),
        other => Err(format!("{verb} of {node} gave {other:?}")),
    }
}

/// Waits until the server misses these nodes.
async fn lost(api: &Api, names: &[String]) -> Result<(), String> {
    let start = Instant::now();
    loop {
        let nodes = api.all("/v1/nodes", "cursor").await?;
        let named = |n: &&Value| names.iter().any(|name| n["name"] == name.as_str());
        if nodes.iter().filter(named).all(|n| n["reachable"] == false) {
            return Ok(());
        }
        if start.elapsed() > LONG {
            return Err(format!("{names:?} are not missed: {nodes:?}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Waits until something is so. What the server says about jobs goes into the message.
async fn until(api: &Api, what: &str, so: impl Fn() -> Result<bool, String>) -> Result<(), String> {
    let start = Instant::now();
    while !so()? {
        if start.elapsed() > LONG {
            let newest = api.read("/v1/jobs?limit=10").await?;
            return Err(format!("never happened: {what}; the newest jobs: {newest}"));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    Ok(())
}
