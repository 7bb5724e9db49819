//! A small world to drive the engine in: nodes that join, jobs that come, reports that arrive.

#![allow(dead_code, reason = "each test binary uses its own part of it")]

use muster_engine::{Engine, Policy, State};
use muster_model::command::{Actor, Answer, Command, Observed, Refusal, Request};
use muster_model::event::{Event, Record};
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Exit, Job, SlotEnd};
use muster_model::names::NodeName;
use muster_model::node::{Gpu, Inventory};
use muster_model::policy::SitePolicy;
use muster_model::qualification::{Check, Level, Milli, Outcome, Qualification};
use muster_model::quota::Quotas;
use muster_model::reservation::Reservation;
use muster_model::spec::{CheckpointRequest, CheckpointSpec, JobSpec};
use muster_model::tenant::Role;
use muster_model::topology::{Location, Topology};
use muster_model::units::{Bytes, Span, Time};
use std::sync::Arc;

// What reads bytes as one of these is compiled with the engine and the records. Whoever reads them from a
// `str` or from a `Value` has another copy of it compiled, each time a rule has changed.

/// Quotas, written as JSON.
pub(crate) fn read_quotas(json: &serde_json::Value) -> Quotas {
    serde_json::from_slice(json.to_string().as_bytes()).unwrap()
}

/// A reservation, written as JSON.
pub(crate) fn read_reservation(json: &serde_json::Value) -> Reservation {
    serde_json::from_slice(json.to_string().as_bytes()).unwrap()
}

pub(crate) struct TestSite {
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    pub(crate) log: Vec<Record>,
}

pub(crate) fn node(i: usize) -> NodeName {
    format!("n{i:03}").parse().unwrap()
}

pub(crate) fn inventory(gpus: u32) -> Inventory {
    Inventory {
        cpu_model: "test".into(),
        cpus: 64,
        memory: Bytes::gib(512),
        gpus: (0..gpus)
            .map(|index| Gpu {
                index,
                sku: "h100-sxm".into(),
                uuid: format!("GPU-{index}"),
                memory: Bytes::gib(80),
                ..Gpu::default()
            })
            .collect(),
        kernel: "test".into(),
        simulated: true,
        ..Inventory::default()
    }
}

/// Four nodes a rack, two racks a leaf, two leaves a spine.
pub(crate) fn topology(nodes: usize) -> Topology {
    let place = |i: usize| Location {
        region: "r".into(),
        cluster: "c".into(),
        spine: format!("s{}", i / 16),
        leaf: format!("l{}", i / 8),
        rack: format!("k{}", i / 4),
        nvlink: node(i).to_string(),
        feed: if (i / 4).is_multiple_of(2) { "A" } else { "B" }.into(),
        rails: Vec::new(),
    };
    Topology { nodes: (0..nodes).map(|i| (node(i), place(i))).collect() }
}

impl TestSite {
    pub(crate) fn new(nodes: usize, gpus: u32) -> TestSite {
        TestSite::empty().with_nodes(nodes, gpus)
    }

    pub(crate) fn with_nodes(self, nodes: usize, gpus: u32) -> TestSite {
        let mut w = self;
        w.ok(Command::SetTopology { topology: Arc::new(topology(nodes)) });
        for i in 0..nodes {
            let (node, machine) = (node(i), format!("m{i}"));
            let enroll = Command::Enroll { node, machine, token: "t".into(), key: None };
            for command in [enroll, connected(i, "boot", inventory(gpus), Vec::new())] {
                let (actor, at) = (Actor::system(), w.now);
                let req = Request { actor, at, key: None, if_version: None, command };
                w.engine.handle(&req).unwrap();
                w.settle();
            }
        }
        // Every test begins like this: that all is well so far is looked at once.
        w.check();
        w
    }

    pub(crate) fn empty() -> TestSite {
        TestSite::begun(Time(1_000_000))
    }

    /// A site that is made then.
    pub(crate) fn begun(now: Time) -> TestSite {
        let engine = Engine::new(State::default(), Policy::default());
        let mut w = TestSite { engine, now, log: Vec::new() };
        w.ok(Command::CreateSite { site: "test".into() });
        w.ok(Command::CreateToken {
            id: "t".into(),
            name: "join".parse().unwrap(),
            hash: String::new(),
            usage: muster_model::tenant::TokenUse::Join { uses_left: None },
            ttl: None,
        });
        w.ok(Command::CreateProject {
            name: "default".parse().unwrap(),
            description: String::new(),
        });
        w
    }

    pub(crate) fn connect(
        &mut self,
        i: usize,
        gpus: u32,
        boot: &str,
        observed: Vec<(AttemptKey, Observed)>,
    ) {
        self.ok(connected(i, boot, inventory(gpus), observed));
    }

    pub(crate) fn request(&mut self, req: &Request) -> Result<Answer, Refusal> {
        // A sample: each is a copy of the engine.
        let before = self.log.len().is_multiple_of(3).then(|| self.engine.clone());
        let r = self.engine.handle(req);
        self.tick();
        let left = before.and_then(|b| self.engine.undecided_since(&b, self.now));
        assert!(left.is_none_or(|l| l.is_empty()), "no cycle followed {:?}", req.command);
        r
    }

    pub(crate) fn send(&mut self, command: Command) -> Result<Answer, Refusal> {
        let (actor, at) = (Actor::system(), self.now);
        self.request(&Request { actor, at, key: None, if_version: None, command })
    }

    pub(crate) fn ok(&mut self, command: Command) -> Answer {
        self.send(command).unwrap()
    }

    /// A server before this one wrote an event that none writes any more, and this one starts from
    /// its log.
    pub(crate) fn wrote(&mut self, event: Event, policy: Policy) {
        let mut state = self.engine.state().clone();
        let (seq, at) = (state.seq.next(), self.now);
        let last = self.log.last().expect("a site").clone();
        let record = Record { seq, at, key: None, project: None, event, ..last };
        state.apply(&record).unwrap();
        self.log.push(record);
        self.engine = Engine::new(state, policy);
        self.tick();
    }

    /// A person asks for it.
    pub(crate) fn person(&mut self, command: Command) -> Answer {
        let (name, at) = ("user:olga".into(), self.now);
        let actor = Actor { name, role: Role::Admin, project: None };
        self.request(&Request { actor, at, key: None, if_version: None, command }).unwrap()
    }

    /// The engine decides until it has nothing more to say. Says whether it wrote anything.
    fn settle(&mut self) -> bool {
        let mut ticks = 0;
        while self.engine.tick(self.now) {
            ticks += 1;
            assert!(ticks < 100, "one tick after the other at {:?}", self.now);
        }
        let records = self.engine.take();
        let news = !records.is_empty();
        self.log.extend(records);
        news
    }

    /// Every invariant holds. This builds all that is derived from the state anew.
    fn check(&self) {
        let problems = self.engine.state().problems();
        assert!(problems.is_empty(), "{problems:#?}");
    }

    pub(crate) fn tick(&mut self) {
        // Without a record only time has passed since the last look.
        if self.settle() {
            self.check();
        }
        let wake = self.engine.next_wake();
        let now = self.now;
        assert!(wake.is_none_or(|t| t > now), "wakes at {wake:?} although it is {now:?}");
    }

    /// Time passes in the steps that the engine itself asks for.
    pub(crate) fn sleep(&mut self, span: Span) {
        let end = self.now + span;
        let mut steps = 0;
        while let Some(t) = self.engine.next_wake().filter(|t| *t < end) {
            self.now = t;
            self.tick();
            steps += 1;
            assert!(steps < 10_000, "it wakes again and again at {t:?}");
        }
        self.now = end;
        self.tick();
    }

    /// Changes the policy and sends it.
    pub(crate) fn policy(&mut self, change: impl FnOnce(&mut SitePolicy)) {
        let mut p = (*self.engine.state().policy).clone();
        change(&mut p);
        self.ok(Command::SetPolicy { policy: Arc::new(p) });
    }

    /// Sets the quotas, written as JSON.
    pub(crate) fn quotas(&mut self, tree: &serde_json::Value) {
        let quotas = read_quotas(&serde_json::json!({ "tree": tree }));
        self.ok(Command::SetQuotas { quotas: Arc::new(quotas) });
    }

    /// Makes a reservation, written as JSON.
    pub(crate) fn reserve(&mut self, r: serde_json::Value) {
        let reservation = read_reservation(&r);
        self.ok(Command::SetReservation { reservation: Arc::new(reservation) });
    }

    pub(crate) fn project(&mut self, name: &str) {
        let name = name.parse().unwrap();
        self.ok(Command::CreateProject { name, description: String::new() });
    }

    /// Submits as somebody.
    pub(crate) fn try_as(&mut self, user: &str, spec: JobSpec) -> Result<JobId, Refusal> {
        let name = format!("user:{user}");
        let actor = Actor { name, role: Role::User, project: None };
        let command = Command::Submit { spec: Arc::new(spec) };
        let at = self.now;
        let req = Request { actor, at, key: None, if_version: None, command };
        self.request(&req).map(|a| match a {
            Answer::Submitted { first, .. } => first,
            _ => panic!("a submission is answered with a number"),
        })
    }

    pub(crate) fn submit_as(&mut self, user: &str, spec: JobSpec) -> JobId {
        self.try_as(user, spec).unwrap()
    }

    /// What was written since the log had so many records.
    pub(crate) fn since(&self, from: usize) -> impl Iterator<Item = &Event> {
        self.log[from..].iter().map(|r| &r.event)
    }

    /// Submits, and every rank of it is up.
    pub(crate) fn run(&mut self, spec: JobSpec) -> JobId {
        let id = self.submit(spec);
        self.start(id);
        id
    }

    pub(crate) fn checkpoint(&mut self, id: JobId, step: u64) {
        let key = self.key(id);
        let step = Some(step);
        self.ok(Command::CheckpointDone { key, step, path: None, bytes: None, blocked_ms: None });
    }

    pub(crate) fn lose(&mut self, node: &NodeName) {
        self.ok(Command::NodeLost { node: node.clone(), last_seen: self.now });
    }

    pub(crate) fn explain(&self, id: JobId) -> muster_scheduler::Explanation {
        self.engine.state().explain(id, self.now).unwrap()
    }

    /// The test of a node that goes on.
    pub(crate) fn testing(&self, i: usize) -> Option<u64> {
        self.engine.state().nodes[&node(i)].qualifying.map(|q| q.id)
    }

    pub(crate) fn pass(&mut self, span: Span) {
        self.now = self.now + span;
        self.tick();
    }

    pub(crate) fn submit(&mut self, yaml_like: JobSpec) -> JobId {
        match self.ok(Command::Submit { spec: Arc::new(yaml_like) }) {
            Answer::Submitted { first, .. } => first,
            other => panic!("{other:?}"),
        }
    }

    pub(crate) fn gang(&mut self, nodes: u32, gpus: u32) -> JobId {
        self.submit(gang(nodes, gpus))
    }

    pub(crate) fn job(&self, id: JobId) -> &Job {
        &self.engine.state().jobs[&id]
    }

    pub(crate) fn key(&self, id: JobId) -> AttemptKey {
        self.job(id).attempt_key().unwrap()
    }

    pub(crate) fn nodes_of(&self, id: JobId) -> Vec<NodeName> {
        let a = self.job(id).attempt.as_ref().unwrap();
        a.placement.slots.iter().map(|s| s.node.clone()).collect()
    }

    pub(crate) fn report(&mut self, id: JobId, node: &NodeName, observed: Observed) {
        let key = self.key(id);
        self.ok(Command::SlotReport { node: node.clone(), key, observed, ago: None });
    }

    pub(crate) fn start(&mut self, id: JobId) {
        for n in self.nodes_of(id) {
            self.report(id, &n, Observed::Running);
        }
    }

    pub(crate) fn finish(&mut self, id: JobId) {
        for n in self.nodes_of(id) {
            self.report(id, &n, Observed::Ended(SlotEnd::Ok));
        }
    }

    /// Every remaining slot of a stopping attempt is gone.
    pub(crate) fn stopped(&mut self, id: JobId) {
        let key = self.key(id);
        for node in self.nodes_of(id) {
            if self.job(id).attempt_key() != Some(key) {
                break;
            }
            let observed = Observed::Ended(SlotEnd::Stopped);
            self.ok(Command::SlotReport { node, key, observed, ago: None });
        }
    }
}

/// A node connects and reports what is in it.
pub(crate) fn connected(
    i: usize,
    boot: &str,
    inventory: Inventory,
    observed: Vec<(AttemptKey, Observed)>,
) -> Command {
    Command::NodeConnected {
        node: node(i),
        machine: format!("m{i}"),
        boot: boot.into(),
        address: format!("10.0.0.{i}"),
        host: format!("h{i}"),
        inventory: Box::new(inventory),
        observed,
        ended_ago: Vec::new(),
        place: String::new(),
        ahead: false,
        silent_for: None,
    }
}

/// The same, with whether the node is ahead of the server's log.
pub(crate) fn said_ahead(mut command: Command, is: bool) -> Command {
    if let Command::NodeConnected { ahead, .. } = &mut command {
        *ahead = is;
    }
    command
}

/// A fault of a GPU.
pub(crate) fn fault(code: &str, gpu: u32) -> ObservedFault {
    ObservedFault {
        code: code.into(),
        at: Time(5),
        count: 1,
        source: FaultSource::Kernel,
        class: if code == "xid-31" { FaultClass::Application } else { FaultClass::Bus },
        action: if code == "xid-31" { FaultAction::RestartJob } else { FaultAction::Reboot },
        gpu: Some(gpu),
        pid: None,
        attempt: None,
        rank: None,
        text: format!("NVRM: {code}"),
    }
}

/// A report of one check on GPU 3, in TFLOP/s.
pub(crate) fn report(outcome: Outcome, value: i64) -> Box<Qualification> {
    let milli = |v: i64| Some(Milli(v * 1000));
    Box::new(Qualification {
        level: Level::Quick,
        started_at: Time(7),
        took: Span::secs(30),
        outcome,
        checks: vec![Check {
            name: "gemm-bf16".into(),
            gpu: Some(3),
            outcome,
            value: milli(value),
            unit: "TFLOP/s".into(),
            expected: milli(700),
            floor: milli(630),
            note: String::new(),
        }],
    })
}

pub(crate) fn gang(nodes: u32, gpus: u32) -> JobSpec {
    let mut spec = JobSpec::default();
    spec.gang.nodes = Some(nodes);
    spec.gang.gpus_per_node = Some(gpus);
    spec
}

/// A gang with a time limit in minutes.
pub(crate) fn limited(nodes: u32, gpus: u32, mins: u64) -> JobSpec {
    JobSpec { time_limit: Some(Span::mins(mins)), ..gang(nodes, gpus) }
}

/// Checkpoints that can be asked for with a signal, or only written by itself.
pub(crate) fn checkpoints(asked: bool) -> Option<CheckpointSpec> {
    let request = CheckpointRequest { signal: asked.then(|| "SIGUSR1".into()) };
    Some(CheckpointSpec { dir: "/ckpt".into(), request, grace: None, interval: None })
}

/// The number of a node made by [`node`].
pub(crate) fn number(n: &NodeName) -> usize {
    n.as_str()[1..].parse().unwrap()
}

pub(crate) fn crash(rank: u32, code: i32) -> Observed {
    let exit = Exit { rank, code: Some(code), signal: None, note: String::new() };
    Observed::Ended(SlotEnd::Failed { exit })
}

/// The state that a log adds up to.
pub(crate) fn replay(log: &[Record]) -> State {
    let mut s = State::default();
    for r in log {
        s.apply(r).unwrap();
    }
    s
}
