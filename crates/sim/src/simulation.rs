//! The loop: a virtual clock, the engine of production, and a world that answers it.

use crate::SimError;
use crate::accounting::{Free, InterruptionCause, JobAccounting};
use crate::arrivals::{Arrival, Source};
use crate::chance::Chance;
use crate::faults::{FaultEvent, Faults};
use crate::fleet::Fleet;
use crate::gangs::Gangs;
use crate::outcome::{FaultMark, Sample};
use crate::scenario::Scenario;
use muster_engine::{Engine, Policy, State};
use muster_model::command::{Actor, Answer, Command, Refusal, Request};
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::NodeName;
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use muster_simnode::SimNode;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap};
use std::sync::Arc;

/// When every simulated life begins that says nothing else: the first moment of 2026.
pub const START: Time = Time(1_767_225_600_000);

/// Something that will happen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Ev {
    /// The ranks of an attempt come up.
    Up(AttemptKey),
    /// The ranks of an attempt are gone.
    Gone(AttemptKey),
    /// Work on a node goes on.
    Node(u32),
    /// Trouble in the fleet.
    Trouble(FaultEvent),
    /// The next job of a workload.
    Arrive(usize),
    /// Look at everything.
    Sample,
    /// A beat of the story that is reported.
    Story(usize),
}

/// Who the simulated machines say they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Hosted {
    /// What comes before a node's name in the identity of its machine, with its dash.
    pub machine: String,
    /// The operating-system instance and the address of all of them; each its own when absent.
    pub shared: Option<(String, String)>,
    /// How ranks are kept apart there.
    pub isolation: String,
    /// What their agents can be asked for.
    pub can: BTreeSet<String>,
}

impl Default for Hosted {
    fn default() -> Hosted {
        Hosted {
            machine: "sim-".into(),
            shared: None,
            isolation: String::new(),
            can: BTreeSet::new(),
        }
    }
}

/// When a life begins, where, and what is reported of it.
#[derive(Debug)]
pub(crate) struct Setting {
    pub(crate) start: Time,
    pub(crate) hosted: Hosted,
    pub(crate) until_done: bool,
    pub(crate) script: Option<Box<crate::demo::DemoScript>>,
}

impl Setting {
    pub(crate) fn usual(until_done: bool) -> Setting {
        Setting { start: START, hosted: Hosted::default(), until_done, script: None }
    }
}

/// What happens to each line of the log.
pub(crate) type Sink<'a> = &'a mut dyn FnMut(&Record);

pub(crate) struct Simulation<'a> {
    pub(crate) s: &'a Scenario,
    pub(crate) engine: Engine,
    pub(crate) start: Time,
    pub(crate) now: Time,
    pub(crate) end: Time,
    hosted: Hosted,
    pub(crate) script: Option<Box<crate::demo::DemoScript>>,
    queue: BinaryHeap<Reverse<(Time, u64, Ev)>>,
    order: u64,
    pub(crate) fleet: &'a Fleet,
    pub(crate) nodes: Vec<SimNode>,
    /// When each node is to be looked at next, as far as it is queued.
    pub(crate) wakes: Vec<Time>,
    pub(crate) gangs: Gangs,
    pub(crate) faults: Faults,
    sources: Vec<Source>,
    next: Vec<Option<Arrival>>,
    pub(crate) accounting: JobAccounting,
    pub(crate) free: Free,
    pub(crate) samples: Vec<Sample>,
    pub(crate) marks: Vec<FaultMark>,
    every: Span,
    pub(crate) ticks: u64,
    pub(crate) records: u64,
    /// GPUs of each node that are held, in thousandths.
    held: Vec<u64>,
    /// Nodes that are out of service.
    pub(crate) out: BTreeSet<u32>,
    pub(crate) spares: BTreeSet<u32>,
    counts: Counts,
    sink: Sink<'a>,
    until_done: bool,
    pub(crate) refusals: u64,
    pub(crate) refused: Vec<String>,
}

/// Thousandths of GPUs, kept in step with `held`, `out` and `spares`.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    held: u64,
    spare: u64,
    out: u64,
    broken_up: u64,
}

/// Most faults that are drawn.
const MARKS: usize = 20_000;

impl<'a> Simulation<'a> {
    pub(crate) fn new(
        s: &'a Scenario,
        fleet: &'a Fleet,
        sources: Vec<Source>,
        faults: Faults,
        setting: Setting,
        sink: Sink<'a>,
        goes_on: &dyn Fn() -> bool,
    ) -> Result<Simulation<'a>, SimError> {
        let Setting { start, hosted, until_done, script } = setting;
        let policy = if script.is_some() {
            // The log goes on in a real server, which judges objectives. Judging them is what takes
            // most of the time here.
            Policy { objectives: true, judged_every: Span::mins(15), ..Policy::default() }
        } else {
            // Ended jobs are on our own pages; the engine keeps a few for those that wait for them.
            Policy { keep_ended: 1000, ..Policy::default() }
        };
        let n = fleet.machines.len();
        let mut twin = Simulation {
            s,
            engine: Engine::new(State::default(), policy),
            start,
            now: start,
            end: start + s.length,
            hosted,
            script,
            queue: BinaryHeap::new(),
            order: 0,
            fleet,
            nodes: Vec::with_capacity(n),
            wakes: vec![Time(i64::MAX); n],
            gangs: Gangs::new(n),
            faults,
            next: sources.iter().map(|_| None).collect(),
            sources,
            accounting: JobAccounting::default(),
            free: Free::default(),
            samples: Vec::new(),
            marks: Vec::new(),
            every: Span((s.length.0 / 1000).max(1000)),
            ticks: 0,
            records: 0,
            held: vec![0; n],
            out: BTreeSet::new(),
            spares: BTreeSet::new(),
            counts: Counts::default(),
            sink,
            until_done,
            refusals: 0,
            refused: Vec::new(),
        };
        twin.found(goes_on)?;
        Ok(twin)
    }

    /// The site comes to be: projects, quotas, policy, machines.
    fn found(&mut self, goes_on: &dyn Fn() -> bool) -> Result<(), SimError> {
        let s = self.s;
        self.must(Command::CreateSite { site: format!("sim-{}", s.name) })?;
        self.must(Command::CreateToken {
            id: "sim".into(),
            name: "join".parse().map_err(|e| SimError::new(format!("{e}")))?,
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: None,
        })?;
        for name in s.projects() {
            let about = self.script.as_ref().map_or("", |_| crate::demo::about(&name));
            let name = name.parse().map_err(|e| SimError::new(format!("{e}")))?;
            self.must(Command::CreateProject { name, description: about.to_owned() })?;
        }
        self.must(Command::SetTopology { topology: Arc::new(self.fleet.topology.clone()) })?;
        self.must(Command::SetPolicy { policy: Arc::new(s.policy.clone()) })?;
        if let Some(q) = &s.quotas {
            self.must(Command::SetQuotas { quotas: Arc::new(q.clone()) })?;
        }
        let fleet = self.fleet;
        for (i, m) in (0u32..).zip(&fleet.machines) {
            // Thousands of them take seconds.
            if !goes_on() {
                return Err(SimError::Stopped);
            }
            let node = SimNode::new(s.seed, m.config.clone(), m.name.as_str(), self.start);
            let machine = format!("{}{}", self.hosted.machine, m.name);
            let node_name = m.name.clone();
            self.must(Command::Enroll {
                node: node_name,
                machine,
                token: "sim".into(),
                key: None,
            })?;
            self.nodes.push(node);
            let connected = self.connected(i, Vec::new());
            self.must(connected)?;
            if m.spare {
                self.mark_spare(i)?;
            }
        }
        for r in &s.reservations {
            // In a file, starts are reported from the beginning of the scenario.
            let mut r = r.clone();
            r.start = self.start + Span(u64::try_from(r.start.0).unwrap_or(0));
            self.must(Command::SetReservation { reservation: Arc::new(r) })?;
        }
        Ok(())
    }

    /// What the agent of a node says when it connects.
    pub(crate) fn connected(
        &self,
        ix: u32,
        observed: Vec<(AttemptKey, muster_model::command::Observed)>,
    ) -> Command {
        let (name, node) = (self.name(ix), &self.nodes[ix as usize]);
        let own = || (name.to_string(), name.to_string());
        let (host, address) = self.hosted.shared.clone().unwrap_or_else(own);
        let mut inventory = node.inventory();
        inventory.isolation.clone_from(&self.hosted.isolation);
        inventory.can.clone_from(&self.hosted.can);
        Command::NodeConnected {
            node: name.clone(),
            machine: format!("{}{name}", self.hosted.machine),
            boot: node.boot(),
            address,
            host,
            inventory: Box::new(inventory),
            observed,
            ended_ago: Vec::new(),
            place: String::new(),
            ahead: false,
            silent_for: None,
        }
    }

    fn mark_spare(&mut self, node: u32) -> Result<(), SimError> {
        let role = Some(muster_model::node::NodeRole::Spare);
        let name = self.name(node).clone();
        self.must(Command::MarkNode { node: name, role, hazard: None })?;
        Ok(())
    }

    pub(crate) fn name(&self, node: u32) -> &'a NodeName {
        &self.fleet.machines[node as usize].name
    }

    fn gpus_of(&self, node: u32) -> u64 {
        u64::from(self.fleet.machines[node as usize].config.gpus) * 1000
    }

    /// Something will happen.
    pub(crate) fn at(&mut self, t: Time, ev: Ev) {
        if t > self.end {
            return;
        }
        self.order += 1;
        self.queue.push(Reverse((t, self.order, ev)));
    }

    pub(crate) fn ask(&mut self, actor: Actor, command: Command) -> Result<Answer, Refusal> {
        self.engine.handle(&Request { actor, at: self.now, key: None, if_version: None, command })
    }

    /// A request of the site itself. A refusal is remembered and changes nothing.
    pub(crate) fn submit_command(&mut self, command: Command) {
        if let Err(r) = self.ask(Actor::system(), command) {
            self.note_refusal(&r);
        }
    }

    /// The first few refusals are reported with the figures: a scenario that asks for what the site
    /// refuses does not do so in silence.
    pub(crate) fn note_refusal(&mut self, r: &Refusal) {
        self.refusals += 1;
        if self.refused.len() < 20 {
            self.refused.push(r.to_string());
        }
    }

    pub(crate) fn must(&mut self, command: Command) -> Result<Answer, SimError> {
        let done = self.ask(Actor::system(), command).map_err(SimError::from);
        self.drain();
        done
    }

    /// Lives to the end.
    pub(crate) fn live(&mut self) {
        self.live_while(&|| true);
    }

    /// Lives as long as it is to go on. False when it was stopped before its end.
    pub(crate) fn live_while(&mut self, goes_on: &dyn Fn() -> bool) -> bool {
        for i in 0..self.sources.len() {
            self.coming(i);
        }
        self.start_faults();
        self.at(self.start, Ev::Sample);
        loop {
            if !goes_on() {
                return false;
            }
            if !self.settle(goes_on) {
                return false;
            }
            let queued = self.queue.peek().map(|Reverse((t, ..))| *t);
            let wake = self.engine.next_wake();
            let Some(next) = [queued, wake].into_iter().flatten().min() else { break };
            if next > self.end || self.finished() {
                break;
            }
            self.pass(next);
            while self.queue.peek().is_some_and(|Reverse((t, ..))| *t <= next) {
                let Some(Reverse((_, _, ev))) = self.queue.pop() else { break };
                self.happens(ev);
            }
        }
        if !self.until_done {
            self.pass(self.end);
        }
        self.end = self.now;
        self.close();
        true
    }

    /// Nothing more will come and nothing is left, where only the work matters.
    fn finished(&self) -> bool {
        self.until_done
            && self.next.iter().all(Option::is_none)
            && self.gangs.is_empty()
            && self.engine.state().queue_len() == 0
    }

    /// The engine decides until it has nothing more to say. False when it was not to go on so long.
    fn settle(&mut self, goes_on: &dyn Fn() -> bool) -> bool {
        loop {
            let more = self.engine.tick(self.now);
            self.ticks += 1;
            let answered = self.drain();
            if !more && !answered {
                return true;
            }
            if !goes_on() {
                return false;
            }
        }
    }

    /// Takes the records, and lets the world answer them. True when there were any.
    fn drain(&mut self) -> bool {
        let records = self.engine.take();
        self.engine.discard_touched();
        let any = !records.is_empty();
        for r in records {
            self.records += 1;
            (self.sink)(&r);
            if self.script.is_some() {
                self.apply_record(&r);
            }
            self.answer(r.event);
        }
        any
    }

    fn pass(&mut self, to: Time) {
        let span = u128::from(to.since(self.now).0);
        if span > 0 {
            let c = self.counts;
            let all: u64 = self.faults.total_milli;
            let free = all.saturating_sub(c.held + c.spare + c.out);
            let waiting = self.engine.state().queue_len() > 0;
            *(if waiting { &mut self.free.queued } else { &mut self.free.idle }) +=
                span * u128::from(free);
            self.free.spare += span * u128::from(c.spare);
            self.free.broken += span * u128::from(c.out);
            self.free.held += span * u128::from(c.held);
            self.free.broken_up += span * u128::from(c.broken_up);
        }
        self.now = self.now.max(to);
    }

    fn happens(&mut self, ev: Ev) {
        match ev {
            Ev::Arrive(i) => self.arrive(i),
            Ev::Up(key) => self.up(key),
            Ev::Gone(key) => self.gone(key),
            Ev::Node(ix) => self.node_wakes(ix),
            Ev::Trouble(t) => self.trouble(t),
            Ev::Sample => self.sample(),
            Ev::Story(i) => self.beat(i),
        }
    }

    /// The next job of a workload is on its way.
    fn coming(&mut self, i: usize) {
        self.next[i] = self.sources[i].next();
        if let Some(a) = &self.next[i] {
            let at = self.start + a.at;
            if at > self.end {
                self.next[i] = None;
            } else {
                self.at(at, Ev::Arrive(i));
            }
        }
    }

    fn arrive(&mut self, i: usize) {
        let Some(mut a) = self.next[i].take() else { return };
        if self.script.is_some() {
            crate::demo::complete_demo_spec(&mut a.spec);
        }
        let actor = Actor { name: format!("user:{}", a.user), role: Role::User, project: None };
        let class = class(&a);
        let gpus = gang_gpus(&a);
        match self.ask(actor, Command::Submit { spec: Arc::new(a.spec) }) {
            Ok(Answer::Submitted { first, .. }) => {
                self.accounting.submitted(first, gpus, class, a.load, self.now);
            }
            Ok(_) => {}
            Err(r) => self.note_refusal(&r),
        }
        self.coming(i);
    }

    /// A GPU count changes on a node, in thousandths.
    pub(crate) fn hold(&mut self, node: u32, milli: u64, take: bool) {
        self.count(node, false);
        let h = &mut self.held[node as usize];
        *h = if take { *h + milli } else { h.saturating_sub(milli) };
        self.count(node, true);
    }

    pub(crate) fn set_out(&mut self, node: u32, out: bool) {
        self.count(node, false);
        if out {
            self.out.insert(node);
        } else {
            self.out.remove(&node);
        }
        self.count(node, true);
    }

    fn set_spare(&mut self, node: u32, spare: bool) {
        self.count(node, false);
        if spare {
            self.spares.insert(node);
        } else {
            self.spares.remove(&node);
        }
        self.count(node, true);
    }

    fn count(&mut self, node: u32, add: bool) {
        let (all, held) = (self.gpus_of(node), self.held[node as usize]);
        let free = all.saturating_sub(held);
        let c = &mut self.counts;
        let change = |x: &mut u64, by: u64| *x = if add { *x + by } else { x.saturating_sub(by) };
        change(&mut c.held, held);
        if self.out.contains(&node) {
            change(&mut c.out, free);
        } else if self.spares.contains(&node) {
            change(&mut c.spare, free);
        } else if held > 0 {
            change(&mut c.broken_up, free);
        }
    }

    fn sample(&mut self) {
        let state = self.engine.state();
        let waiting_gpus = state
            .queue()
            .filter_map(|j| self.accounting.pages.get(&j))
            .map(|p| p.gpus)
            .take(100_000)
            .sum();
        let c = self.counts;
        self.samples.push(Sample {
            at_s: seconds(self.now.since(self.start)),
            allocated: c.held / 1000,
            in_service: (self.faults.total_milli - c.out.min(self.faults.total_milli)) / 1000,
            waiting: u64::try_from(state.queue_len()).unwrap_or(u64::MAX),
            waiting_gpus,
            broken_nodes: u32::try_from(self.out.len()).unwrap_or(u32::MAX),
            spares_ready: u32::try_from(
                self.spares
                    .iter()
                    .filter(|n| self.held[**n as usize] == 0 && !self.out.contains(n))
                    .count(),
            )
            .unwrap_or(u32::MAX),
        });
        let next = self.now + self.every;
        self.at(next, Ev::Sample);
    }

    pub(crate) fn mark_fault(&mut self, node: u32, cause: &InterruptionCause, hit: bool) {
        if self.marks.len() < MARKS {
            self.marks.push(FaultMark {
                at_s: seconds(self.now.since(self.start)),
                node,
                name: self.name(node).to_string(),
                cause: cause.to_string(),
                hit,
            });
        }
    }

    /// What the world does about a record.
    fn answer(&mut self, event: Event) {
        match event {
            Event::JobPlaced { key, placement } => self.placed(key, &placement),
            Event::StopOrdered { key, reason, .. } => self.stop_ordered(key, &reason),
            Event::CheckpointAsked { key } => self.checkpoint_asked(key),
            Event::SlotEnded { key, .. } => self.slot_ended(key),
            Event::AttemptEnded { key, verdict, .. } => self.attempt_ended(key, verdict),
            Event::JobSucceeded { job } => self.job_over(job, true),
            Event::JobFailed { job, .. } | Event::JobCancelled { job, .. } => {
                self.job_over(job, false);
            }
            Event::NodeMarked { node, role, .. } => {
                if let Some(ix) = self.fleet.by_name.get(&node) {
                    self.set_spare(*ix, role == muster_model::node::NodeRole::Spare);
                }
            }
            _ => {}
        }
    }

    fn job_over(&mut self, job: JobId, well: bool) {
        self.accounting.ended(job, well, self.now);
        self.gangs.saved.remove(&job);
    }

    pub(crate) fn chance(&self, name: &[&str]) -> Chance {
        Chance::new(self.s.seed, name)
    }
}

pub(crate) fn seconds(s: Span) -> f64 {
    s.0 as f64 / 1000.0
}

fn gang_gpus(a: &Arrival) -> u64 {
    let g = &a.spec.gang;
    u64::from(g.nodes.unwrap_or(1)) * u64::from(g.gpus_per_node.or(g.gpus).unwrap_or(0))
}

/// What waits are distinguished by.
fn class(a: &Arrival) -> &'static str {
    use muster_model::spec::{Priority, Tier};
    match (a.spec.tier, a.spec.priority) {
        (Tier::Spot, _) => "spot",
        (Tier::Reserved, _) => "reserved",
        (Tier::OnDemand, Priority::Low) => "on-demand, low",
        (Tier::OnDemand, Priority::Normal) => "on-demand",
        (Tier::OnDemand, Priority::High | Priority::Critical) => "on-demand, high",
    }
}

/// Attempts by what they do.
pub(crate) type ByKey<T> = BTreeMap<AttemptKey, T>;
