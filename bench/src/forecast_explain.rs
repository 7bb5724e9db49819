//! What `muster explain` costs a server while many wait: a fleet that is full, a long queue, and jobs from all of it that
//! are asked one after the other. The state is one that was read from the log, as it is where requests are answered: no
//! plan was made on it before.

use crate::report::Report;
use crate::stats::{ms, percentile};
use anyhow::{Context, Result, bail, ensure};
use muster_engine::{Engine, Policy, State};
use muster_model::command::{Actor, Answer, Command, Observed, Request};
use muster_model::ids::JobId;
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::node::{Gpu, Inventory};
use muster_model::spec::JobSpec;
use muster_model::tenant::{Role, TokenUse};
use muster_model::topology::{Location, Topology};
use muster_model::units::{Bytes, Span, Time};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

const NODES: u32 = 2000;
const GPUS: u32 = 8;
/// Tasks of each array that waits.
const TASKS: u32 = 500;
/// Users whose arrays wait, one after the other.
const USERS: u32 = 40;
/// Jobs that ended before: enough for an early end.
const ENDED: u32 = 16;

struct Site {
    engine: Engine,
    now: Time,
}

fn node(i: u32) -> Result<NodeName> {
    Ok(format!("n{i:05}").parse()?)
}

fn inventory() -> Inventory {
    let gpu = |index| Gpu {
        index,
        sku: "h100-sxm".into(),
        uuid: format!("GPU-{index}"),
        memory: Bytes::gib(80),
        ..Gpu::default()
    };
    Inventory {
        cpu_model: "bench".into(),
        cpus: 128,
        memory: Bytes::gib(2048),
        gpus: (0..GPUS).map(gpu).collect(),
        kernel: "bench".into(),
        simulated: true,
        ..Inventory::default()
    }
}

/// Racks of 4, leaves of 32, spines of 16 leaves.
fn location(i: u32) -> Result<Location> {
    Ok(Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: format!("s{}", i / 512),
        leaf: format!("l{}", i / 32),
        rack: format!("k{}", i / 4),
        nvlink: node(i)?.to_string(),
        feed: format!("f{}", i / 4 % 2),
        rails: Vec::new(),
    })
}

/// An array of so many tasks, of so many nodes each, with a limit.
fn array(tasks: u32, nodes: u32, limit: Span) -> JobSpec {
    let array = Some(format!("1-{tasks}"));
    let mut spec = JobSpec { array, time_limit: Some(limit), ..JobSpec::default() };
    spec.gang.nodes = Some(nodes);
    spec.gang.gpus_per_node = Some(GPUS);
    spec
}

impl Site {
    fn new() -> Result<Site> {
        let engine = Engine::new(State::default(), Policy::default());
        let mut site = Site { engine, now: Time(1_700_000_000_000) };
        site.system(Command::CreateSite { site: "bench".into() })?;
        site.system(Command::CreateToken {
            id: "t".into(),
            name: "join".parse()?,
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: None,
        })?;
        let (name, description) = ("default".parse()?, String::new());
        site.system(Command::CreateProject { name, description })?;
        let place = |i| -> Result<(NodeName, Location)> { Ok((node(i)?, location(i)?)) };
        let topology = Topology { nodes: (0..NODES).map(place).collect::<Result<_>>()? };
        site.system(Command::SetTopology { topology: Arc::new(topology) })?;
        for i in 0..NODES {
            let (name, machine) = (node(i)?, format!("m{i}"));
            let token = "t".into();
            let (n, m) = (name.clone(), machine.clone());
            site.system(Command::Enroll { node: n, machine: m, token, key: None })?;
            site.system(Command::NodeConnected {
                node: name,
                machine,
                boot: "boot".into(),
                address: format!("10.0.{}.{}", i / 256, i % 256),
                host: format!("h{i}"),
                inventory: Box::new(inventory()),
                observed: Vec::new(),
                ended_ago: Vec::new(),
                place: String::new(),
                ahead: false,
                silent_for: None,
            })?;
        }
        site.settle();
        Ok(site)
    }

    fn ask(&mut self, actor: Actor, command: Command) -> Result<Answer> {
        let req = Request { actor, at: self.now, key: None, if_version: None, command };
        Ok(self.engine.handle(&req)?)
    }

    fn system(&mut self, command: Command) -> Result<Answer> {
        self.ask(Actor::system(), command)
    }

    fn submit(&mut self, user: u32, spec: JobSpec) -> Result<JobId> {
        let actor = Actor { name: format!("user:u{user}"), role: Role::User, project: None };
        match self.ask(actor, Command::Submit { spec: Arc::new(spec) })? {
            Answer::Submitted { first, .. } => Ok(first),
            other => bail!("a submission was answered with {other:?}"),
        }
    }

    /// The engine decides until it has nothing more to say; nobody reads what it wrote.
    fn settle(&mut self) {
        while self.engine.tick(self.now) {}
        self.engine.take();
    }

    /// Jobs with an hour that ran a quarter of it.
    fn end_some(&mut self) -> Result<()> {
        let first = self.submit(0, array(ENDED, 1, Span::hours(1)))?;
        self.settle();
        for observed in [Observed::Running, Observed::Ended(SlotEnd::Ok)] {
            for id in (first.0..first.0 + u64::from(ENDED)).map(JobId) {
                let job = self.engine.state().jobs.get(&id).context("a job is gone")?;
                let key = job.attempt_key().context("a job has not started")?;
                let slots = job.attempt.iter().flat_map(|a| &a.placement.slots);
                let nodes: Vec<NodeName> = slots.map(|s| s.node.clone()).collect();
                for node in nodes {
                    let observed = observed.clone();
                    self.system(Command::SlotReport { node, key, observed, ago: None })?;
                }
            }
            self.now = self.now + Span::mins(15);
            self.settle();
        }
        Ok(())
    }

    /// Every node is held, to limits from one hour to twenty.
    fn fill(&mut self) -> Result<()> {
        for n in 0..20 {
            let limit = Span::hours(u64::from(n) + 1);
            self.submit(n % USERS, array(NODES / 20, 1, limit))?;
        }
        self.settle();
        Ok(())
    }

    /// Arrays of 1 to 16 nodes a task wait, until so many jobs do.
    fn queue(&mut self, waiting: usize) -> Result<()> {
        let mut n = 0;
        while self.engine.state().queue_len() < waiting {
            ensure!(n < 1000, "the queue does not get as long as {waiting}");
            let limit = Span::hours(1 + u64::from(n % 7));
            self.submit(n % USERS, array(TASKS, 1 << (n % 5), limit))?;
            n += 1;
        }
        self.settle();
        Ok(())
    }
}

/// Times it with so many waiting jobs; so many of them are asked.
fn time(report: &mut Report, site: &Site, name: &str, asked: usize) -> Result<()> {
    let state = site.engine.state().without_index().indexed();
    let waiting: Vec<JobId> = state.queue().collect();
    let mut took = Vec::new();
    for id in waiting.iter().step_by((waiting.len() / asked).max(1)) {
        let began = Instant::now();
        black_box(state.explain(*id, site.now)).context("a waiting job is gone")?;
        took.push(ms(began.elapsed()));
    }
    for (percent, part) in [(50.0, "p50"), (99.0, "p99")] {
        let value = percentile(&mut took, percent).context("nobody waits")?;
        report.ours(&format!("explain_{name}_{part}_ms"), "ms", value);
    }
    Ok(())
}

/// The case `explain`.
pub(crate) fn run(report: &mut Report, quick: bool) -> Result<()> {
    let asked = if quick { 50 } else { 400 };
    let mut site = Site::new()?;
    site.end_some()?;
    site.fill()?;
    for (name, waiting) in [("20k", 20_000), ("100k", 100_000)] {
        site.queue(waiting)?;
        time(report, &site, name, asked)?;
    }
    report.note(
        "explain: one job after the other of 20,000 and of 100,000 that wait for 2,000 nodes that are full, from all of \
         the queue, on a state as it is read from the log.",
    );
    Ok(())
}
