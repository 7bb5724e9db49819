//! A whole site in one thread: the engine, its log, a server that forgets, connections that fail,
//! and machines. After every event everything that must be true is checked.

use super::acts::SiteScript;
use super::agent::{Agent, AgentMessage, Order, ServerMessage};
use super::metered::contradictions;
use super::spec;
use muster_engine::invariants::step_problems;
use muster_engine::{Engine, Policy, State};
use muster_metering::JobHistories;
use muster_model::command::{Actor, Answer, Command, Observed, Refusal, RefusalCode, Request};
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Dependency, Job, JobState, SlotState};
use muster_model::node::{NodeRole, Stage};
use muster_model::preflight::PreflightOutcome;
use muster_model::spec::JobSpec;
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use muster_simnode::Random;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::Arc;

/// What will happen at its time.
#[derive(Debug, Clone)]
pub(crate) enum Ev {
    /// The next act.
    Act(usize),
    ToServer(usize, u64, AgentMessage),
    ToAgent(usize, u64, ServerMessage),
    /// Something is due on a machine.
    Machine(usize),
    /// Is this node still silent?
    Sweep(usize),
    /// A machine is switched on, or reached again.
    PowerOn(usize),
    Repaired(usize),
}

/// An event in the queue: its time and its place among those of the same time.
struct QueuedEvent(Time, u64, Ev);

impl PartialEq for QueuedEvent {
    fn eq(&self, o: &QueuedEvent) -> bool {
        (self.0, self.1) == (o.0, o.1)
    }
}
impl Eq for QueuedEvent {}
impl PartialOrd for QueuedEvent {
    fn partial_cmp(&self, o: &QueuedEvent) -> Option<std::cmp::Ordering> {
        Some(self.cmp(o))
    }
}
impl Ord for QueuedEvent {
    fn cmp(&self, o: &QueuedEvent) -> std::cmp::Ordering {
        (self.0, self.1).cmp(&(o.0, o.1))
    }
}

/// What the server knows of a node beside the log.
#[derive(Debug, Clone, Default)]
struct ServerNodeView {
    /// The connection; 0 is none.
    session: u64,
    heard: Time,
    sent: Option<Vec<Order>>,
}

pub(crate) struct TestSite {
    pub(crate) life: SiteScript,
    pub(crate) engine: Engine,
    pub(crate) now: Time,
    /// When the life began.
    began: Time,
    pub(crate) log: Vec<Record>,
    /// What metering makes of the log.
    meter: JobHistories,
    /// What the log adds up to: all that anybody outside the engine may see.
    pub(crate) view: State,
    snapshot: (usize, Vec<u8>),
    queue: BinaryHeap<Reverse<QueuedEvent>>,
    order: u64,
    pub(crate) agents: Vec<Agent>,
    seats: Vec<ServerNodeView>,
    sessions: u64,
    since: Time,
    /// The next decision is lost.
    pub(crate) stop_short: bool,
    chance: Random,
    pub(crate) calm: bool,
    /// What went wrong first.
    pub(crate) wrong: Option<String>,
    pub(crate) events: u64,
    /// Looks whether a cycle was left out that would have decided something.
    pub(crate) compares_plans: bool,
    /// How often that could be reported.
    pub(crate) compared: usize,
    /// Prints every record.
    trace: bool,
}

const LOST_AFTER: Span = Span::secs(30);

impl TestSite {
    pub(crate) fn new(life: SiteScript) -> TestSite {
        TestSite::begun(life, Time(1_000_000_000))
    }

    /// A life that begins then.
    pub(crate) fn begun(life: SiteScript, now: Time) -> TestSite {
        let (n, seed) = (usize::from(life.nodes), life.seed);
        let mut w = TestSite {
            engine: Engine::new(State::default(), Policy::default()),
            now,
            began: now,
            log: Vec::new(),
            meter: JobHistories::default(),
            view: State::default(),
            snapshot: (0, State::default().to_bytes().expect("a state as bytes")),
            queue: BinaryHeap::new(),
            order: 0,
            agents: (0..n).map(|i| Agent::new(seed, spec::name(i).to_string(), now)).collect(),
            seats: vec![ServerNodeView::default(); n],
            sessions: 0,
            since: now,
            stop_short: false,
            chance: Random::new(seed, &["messages"]),
            calm: false,
            wrong: None,
            events: 0,
            compares_plans: false,
            compared: 0,
            trace: std::env::var_os("MUSTER_SIM_TRACE").is_some(),
            life,
        };
        w.found();
        w
    }

    /// The site comes to be.
    fn found(&mut self) {
        self.ok(Command::CreateSite { site: "test".into() });
        self.ok(Command::CreateToken {
            id: "t".into(),
            name: "join".parse().expect("a name"),
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: None,
        });
        for name in ["default", "blue", "red"] {
            let name = name.parse().expect("a name");
            self.ok(Command::CreateProject { name, description: String::new() });
        }
        let n = self.agents.len();
        self.ok(Command::SetTopology { topology: Arc::new(spec::topology(n, 2)) });
        for i in 0..n {
            self.enrol(i);
            if i < usize::from(self.life.spares) {
                let (node, role) = (spec::name(i), Some(NodeRole::Spare));
                self.ok(Command::MarkNode { node, role, hazard: None });
            }
            self.poll(i);
        }
    }

    pub(crate) fn enrol(&mut self, i: usize) {
        let (node, machine) = (spec::name(i), self.machine(i));
        let asked = self
            .ask(Actor::system(), Command::Enroll { node, machine, token: "t".into(), key: None });
        if asked.is_ok() {
            self.agents[i].enrolled = true;
        }
    }

    fn machine(&self, i: usize) -> String {
        format!("m{i}-{}", self.agents[i].machine)
    }

    pub(crate) fn fail(&mut self, why: String) {
        let at = self.now.since(self.began);
        self.wrong.get_or_insert_with(|| format!("after {at}, at {}: {why}", self.view.seq));
    }

    /// Something will happen.
    pub(crate) fn at(&mut self, t: Time, ev: Ev) {
        self.order += 1;
        self.queue.push(Reverse(QueuedEvent(t.max(self.now), self.order, ev)));
    }

    fn ok(&mut self, command: Command) {
        if let Err(r) = self.ask(Actor::system(), command) {
            self.fail(format!("refused: {r}"));
        }
    }

    /// Somebody asks; the answer, and what follows, once it is in the log.
    pub(crate) fn ask(&mut self, actor: Actor, command: Command) -> Result<Answer, Refusal> {
        let at = self.now;
        let req = Request { actor, at, key: None, if_version: None, command };
        let before = self.compares_plans.then(|| self.engine.clone());
        let answer = self.engine.handle(&req);
        if std::mem::take(&mut self.stop_short) {
            self.engine.tick(self.now);
            self.restart(false);
            return Err(Refusal::new(RefusalCode::Conflict, "the server is gone"));
        }
        self.commit();
        if let Some(left) = before.and_then(|b| self.engine.undecided_since(&b, self.now)) {
            self.compared += 1;
            if !left.is_empty() {
                self.fail(format!("no cycle followed {:?}, and it leaves {left:?}", req.command));
            }
        }
        answer
    }

    /// A user of the site asks.
    pub(crate) fn submit(&mut self, ask: &spec::Ask) {
        let jobs = &self.view.jobs;
        let after = ask
            .after
            .and_then(|n| jobs.values().nth(usize::from(n) % jobs.len().max(1)))
            .filter(|j| j.project.as_str() == ask.project())
            .map(|j| {
                format!("{}:{}", j.id, ["any", "any", "ok", "fail"][usize::from(ask.class) % 4])
            });
        let name = format!("user:{}", ask.user());
        let actor = Actor { name, role: Role::User, project: None };
        let spec = Arc::new(ask.spec(after));
        let _ = self.ask(actor, Command::Submit { spec });
    }

    /// The engine decides until it has nothing more to say; what it decided becomes durable, and
    /// only then is anybody notified.
    pub(crate) fn commit(&mut self) {
        let mut ticks = 0;
        while self.engine.tick(self.now) {
            ticks += 1;
            if ticks > 100 {
                self.fail("one cycle follows the other".into());
                break;
            }
        }
        let records = self.engine.take();
        let news = !records.is_empty();
        for r in records {
            if self.trace {
                println!("{:>9} {} {:?}", self.now.since(self.began).0, r.seq, r.event);
            }
            let odd = step_problems(&self.view, &r);
            if !odd.is_empty() {
                self.fail(odd.join("; "));
            }
            // Nobody measures here: only ranks that are up can be the reason.
            if let Event::PreflightSet(p) = &r.event
                && matches!(p.preflight.outcome, Some(PreflightOutcome::NotMeasured { .. }))
            {
                self.fail(format!("ranks of attempt {} are up in its preflight", p.key));
            }
            if let Err(e) = self.view.apply(&r) {
                self.fail(format!("the view does not follow: {e}"));
            }
            self.meter.apply(&r);
            self.log.push(r);
        }
        if news {
            let mut odd = self.engine.state().problems();
            odd.extend(self.metered_twice());
            if !odd.is_empty() {
                self.fail(odd.join("; "));
            }
        }
        if let Some(t) = self.engine.next_wake().filter(|t| *t <= self.now) {
            self.fail(format!("wakes at {t:?} although it is {:?}", self.now));
        }
        self.give_orders();
    }

    /// GPUs that metering counts for more than one attempt at this moment. Where there are none at
    /// any moment, GPU time of all attempts on a node never exceeds its GPUs times the time.
    fn metered_twice(&self) -> Vec<String> {
        let mut out = Vec::new();
        for (node, milli) in self.meter.allocated() {
            let Some(n) = self.view.nodes.get(node) else { continue };
            let gpus = n.inventory.gpus.len() + n.missing_gpus.len();
            // A slice counts as the larger of its parts: together they can be more than their GPU.
            let whole = n.inventory.gpus.iter().all(|g| g.mig != Some(true));
            if gpus > 0 && whole && milli > gpus as u64 * 1000 {
                out.push(format!(
                    "metered_once: {milli} thousandths of the {gpus} GPUs of {node} are counted"
                ));
            }
        }
        out
    }

    /// The server is gone and another begins with what is in the log.
    pub(crate) fn restart(&mut self, whole: bool) {
        let text = |r: &Record| r.to_json().expect("a record as text");
        let back = |t: Vec<u8>| muster_records::read(&t).expect("a record from text");
        let (from, mut state) = if whole {
            (0, State::default())
        } else {
            let bytes = &self.snapshot.1;
            let format = muster_engine::SNAPSHOT_FORMAT;
            (self.snapshot.0, State::from_bytes(format, bytes).expect("a state from bytes"))
        };
        for r in &self.log[from..] {
            if let Err(e) = state.apply(&back(text(r))) {
                self.wrong.get_or_insert(format!("the log does not replay: {e}"));
                return;
            }
        }
        if state.digest() != self.view.digest() {
            self.fail("a restart gives another state".into());
        }
        let odd = state.problems();
        if !odd.is_empty() {
            self.fail(format!("after a restart: {}", odd.join("; ")));
        }
        self.engine = Engine::new(state, Policy::default());
        self.since = self.now;
        for i in 0..self.agents.len() {
            self.hang_up(i);
        }
        self.commit();
    }

    pub(crate) fn take_snapshot(&mut self) {
        self.snapshot = (self.log.len(), self.view.to_bytes().expect("a state as bytes"));
    }

    /// A connection ends, on both sides.
    pub(crate) fn hang_up(&mut self, i: usize) {
        if self.seats[i].session != 0 {
            self.seats[i].heard = self.now;
        }
        let heard = self.seats[i].heard.max(self.since);
        self.seats[i] = ServerNodeView { session: 0, heard, sent: None };
        let again = self.now + Span(500 + self.chance.below(4000));
        self.agents[i].cut(self.now, again);
        self.at(heard + LOST_AFTER, Ev::Sweep(i));
        self.poll(i);
    }

    /// What must exist on a node follows from the log.
    fn orders(&self, i: usize) -> Vec<Order> {
        let node = spec::name(i);
        let mut out = Vec::new();
        for job in self.view.attempts_on(&node) {
            let (Some(a), Some(key)) = (&job.attempt, job.attempt_key()) else { continue };
            if a.in_preflight().is_some() {
                continue;
            }
            let here = a.placement.slots.iter().zip(&a.slots).find(|(slot, at)| {
                slot.node == node && matches!(at, SlotState::Pending | SlotState::Running)
            });
            let Some((slot, _)) = here else { continue };
            out.push(Order {
                key,
                stop: a.stop.as_ref().map(|s| s.grace),
                slot: slot.clone(),
                partition: job.spec.partition(),
                saves: job.spec.checkpoint.is_some(),
                asked: job.checkpoint_asked,
            });
        }
        out
    }

    fn give_orders(&mut self) {
        for i in 0..self.agents.len() {
            let session = self.seats[i].session;
            if session == 0 {
                continue;
            }
            let list = self.orders(i);
            if self.seats[i].sent.as_ref() != Some(&list) {
                self.seats[i].sent = Some(list.clone());
                let seq = self.view.seq.0;
                self.send(|w, t| {
                    w.at(
                        t,
                        Ev::ToAgent(i, session, ServerMessage::Orders { seq, list: list.clone() }),
                    )
                });
            }
        }
    }

    /// A message is under way: late, and at times twice.
    fn send(&mut self, arrive: impl Fn(&mut TestSite, Time)) {
        let late = if self.calm { 20 } else { u64::from(self.life.late) };
        let t = self.now + Span(1 + self.chance.below(late.max(1)));
        arrive(self, t);
        let twice = u64::from(self.life.twice);
        if twice > 0 && !self.calm && self.chance.below(twice) == 0 {
            let t = self.now + Span(1 + self.chance.below(late * 3));
            arrive(self, t);
        }
    }

    /// Lets a machine do what is due, and looks when it next has something to do.
    pub(crate) fn poll(&mut self, i: usize) {
        let a = &mut self.agents[i];
        if a.power && a.link && a.enrolled && a.session == 0 && a.retry <= self.now {
            self.sessions += 1;
            let (session, now) = (self.sessions, self.now);
            let hello = a.hello(session);
            // Whoever is not answered in time tries again.
            let late = self.chance.below(u64::from(self.life.late).max(1));
            self.at(now + Span(1 + late), Ev::ToServer(i, session, hello));
        }
        let said = self.agents[i].poll(self.now);
        let session = self.agents[i].session;
        for s in said {
            let breaks = u64::from(self.life.twice) * 10;
            if breaks > 0 && !self.calm && self.chance.below(breaks) == 0 {
                self.hang_up(i);
                return;
            }
            self.send(|w, t| w.at(t, Ev::ToServer(i, session, s.clone())));
        }
        if let Some(t) = self.agents[i].due() {
            self.at(t, Ev::Machine(i));
        }
    }

    fn hears(&mut self, i: usize, session: u64, said: AgentMessage) {
        if self.agents[i].session != session {
            return;
        }
        let node = spec::name(i);
        if let AgentMessage::Hello { boot, observed } = said {
            self.seats[i] = ServerNodeView { session, heard: self.now, sent: None };
            let ended = observed.iter().filter(|(_, o)| matches!(o, Observed::Ended(_)));
            let ended: Vec<AttemptKey> = ended.map(|(k, _)| *k).collect();
            let inventory = spec::inventory(i, self.agents.len(), self.life.gpus);
            let asked = self.ask(
                Actor::system(),
                Command::NodeConnected {
                    node,
                    machine: self.machine(i),
                    boot,
                    address: format!("10.0.0.{i}"),
                    // Some share a machine, and its ports.
                    host: format!("h{}", i / 2),
                    inventory: Box::new(inventory),
                    observed,
                    ended_ago: Vec::new(),
                    place: String::new(),
                    ahead: false,
                    silent_for: None,
                },
            );
            if let Err(r) = asked
                && self.seats[i].session == session
            {
                self.fail(format!("node {i} is refused: {r}"));
            }
            if self.seats[i].session == session {
                self.at(self.now, Ev::ToAgent(i, session, ServerMessage::Welcome));
                for key in ended {
                    self.at(self.now, Ev::ToAgent(i, session, ServerMessage::Kept { key }));
                }
                self.give_orders();
            }
            return;
        }
        if self.seats[i].session != session {
            return;
        }
        match said {
            AgentMessage::Hello { .. } => {}
            AgentMessage::Report { key, observed } => {
                let over = matches!(observed, Observed::Ended(_));
                let _ = self
                    .ask(Actor::system(), Command::SlotReport { node, key, observed, ago: None });
                if over && self.seats[i].session == session {
                    self.send(|w, t| w.at(t, Ev::ToAgent(i, session, ServerMessage::Kept { key })));
                }
            }
            AgentMessage::Saved { key, step } => {
                let (step, path) = (Some(step), None);
                let _ = self.ask(
                    Actor::system(),
                    Command::CheckpointDone { key, step, path, bytes: None, blocked_ms: None },
                );
            }
        }
    }

    /// A node that was silent for too long is lost.
    fn sweep(&mut self, i: usize) {
        let node = spec::name(i);
        let heard = self.seats[i].heard.max(self.since);
        let believed =
            self.view.nodes.get(&node).is_some_and(|n| n.reachable && n.stage != Stage::Retired);
        if !believed || self.seats[i].session != 0 || self.now.since(heard) < LOST_AFTER {
            return;
        }
        // Heartbeats come every few seconds: it may have been there a little longer.
        let last_seen = heard - Span(self.chance.below(5000));
        let _ = self.ask(Actor::system(), Command::NodeLost { node, last_seen });
    }

    fn happens(&mut self, ev: Ev) {
        match ev {
            Ev::Act(i) => self.act(i),
            Ev::ToServer(i, session, said) => self.hears(i, session, said),
            Ev::ToAgent(i, session, sent) => {
                let a = &mut self.agents[i];
                if a.session == session && a.power && a.link {
                    a.receive(sent, self.now);
                    self.poll(i);
                }
            }
            Ev::Machine(i) => self.poll(i),
            Ev::Sweep(i) => self.sweep(i),
            Ev::PowerOn(i) => {
                self.agents[i].power = true;
                self.poll(i);
            }
            Ev::Repaired(i) => {
                self.agents[i].link = true;
                self.poll(i);
            }
        }
    }

    /// What no log can show: what the machines really do.
    fn check_machines(&mut self) {
        let mut alive: BTreeMap<JobId, u32> = BTreeMap::new();
        let mut odd = None;
        for a in &self.agents {
            let mut used = 0u64;
            for (key, slot) in a.alive() {
                if slot.part.is_none() {
                    if used & slot.gpus.0 != 0 {
                        odd =
                            Some(format!("{} runs two jobs on one GPU, {key} among them", a.name));
                    }
                    used |= slot.gpus.0;
                }
                let fenced = self.view.jobs.get(&key.job).is_some_and(|j| j.spec.fenced());
                let other = alive.insert(key.job, key.attempt).filter(|n| *n != key.attempt);
                if let Some(other) = other.filter(|_| fenced) {
                    odd = Some(format!(
                        "attempts {other} and {} of job {} both run",
                        key.attempt, key.job
                    ));
                }
            }
        }
        if let Some(why) = odd {
            self.fail(why);
        }
    }

    /// Lives until `end`, or until nothing is left to happen.
    fn live(&mut self, end: Time) {
        while self.wrong.is_none() {
            let queued = self.queue.peek().map(|Reverse(QueuedEvent(t, ..))| *t);
            let wake = self.engine.next_wake();
            let Some(next) = [queued, wake].into_iter().flatten().min() else { break };
            if next > end {
                break;
            }
            self.events += 1;
            self.now = self.now.max(next);
            if queued.is_some_and(|t| t <= next)
                && let Some(Reverse(QueuedEvent(_, _, ev))) = self.queue.pop()
            {
                self.happens(ev);
            } else {
                self.commit();
            }
            self.check_machines();
        }
    }

    /// Lives the whole life. What went wrong, if anything did.
    pub(crate) fn run(&mut self) -> Option<String> {
        if !self.life.acts.is_empty() {
            let t = self.now + Span(self.life.acts[0].0.into());
            self.at(t, Ev::Act(0));
        }
        let mut t = self.now;
        for (wait, _) in &self.life.acts {
            t = t + Span(u64::from(*wait));
        }
        self.live(t + Span::secs(1));
        // Days are final later: what was reported of them stays so.
        if self.now.since(self.began) < Span::hours(12) {
            let odd = contradictions(&self.log, &self.view, self.now);
            if !odd.is_empty() {
                self.fail(odd.join("; "));
            }
        }
        self.end_well();
        self.wrong.clone()
    }

    /// Would it be accepted now? A fleet without nodes accepts what no later one may fit.
    fn fits(&self, job: &Job) -> bool {
        let whole = Arc::unwrap_or_clone(job.spec.whole());
        let spec = JobSpec { after: Vec::new(), array: None, hold: false, ..whole };
        let (actor, at) = (Actor::system(), self.now);
        let command = Command::Submit { spec: Arc::new(spec) };
        let req = Request { actor, at, key: None, if_version: None, command };
        self.engine.clone().handle(&req).is_ok()
    }

    /// Can it never start? It does not fit, or it waits for a job that can never start.
    fn hopeless(&self, job: &Job) -> bool {
        let waits = |d: &Dependency| {
            let mut tasks = self.view.jobs.range(d.job..JobId(d.job.0 + u64::from(d.count)));
            tasks.any(|(_, j)| self.hopeless(j))
        };
        job.state == JobState::Queued && (!self.fits(job) || job.depends.iter().any(waits))
    }

    /// Everything is repaired and nothing is forbidden any more: then whatever was submitted ends.
    fn end_well(&mut self) {
        (self.calm, self.stop_short) = (true, false);
        self.set_free();
        let end = self.now + Span::hours(24 * 60);
        // Nodes that were cut off before are missed after that: what is held for it is looked at.
        self.live(self.now + Span::hours(24));
        self.release_all();
        self.live(end);
        if self.wrong.is_some() {
            return;
        }
        let left: Vec<String> = self
            .view
            .jobs
            .values()
            .filter(|j| !j.state.is_final() && !self.hopeless(j))
            .map(|j| {
                let why = self
                    .engine
                    .state()
                    .explain(j.id, self.now)
                    .map_or_else(String::new, |e| e.summary);
                format!("job {} is {} for ever: {why}", j.id, j.state)
            })
            .collect();
        if !left.is_empty() {
            self.fail(left.join("; "));
        }
        self.restart(true);
    }
}
