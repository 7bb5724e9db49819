//! What a policy would have done with a stretch of the log: the engine itself, on a copy of the
//! state that nobody keeps, fed the inputs of the log. Nothing is decided here.
//!
//! What the log cannot know is answered by a world that is kind: an operator approves what waits
//! for approval; acts succeed and tests pass after half an hour, or within the time that the engine
//! gives them if that is less (a result that the log has for the node by then counts instead);
//! people repair in three days; and automation that stopped itself is resumed after an hour. No job
//! runs on the copy.

use crate::node_actions::CAN;
use crate::state::State;
use crate::state::index::Index;
use crate::{Engine, Policy};
use muster_model::FailureMode;
use muster_model::command::{Actor, Command, Request};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::ObservedFinding;
use muster_model::names::NodeName;
use muster_model::node::{Inventory, Node, Stage};
use muster_model::placement::GpuSet;
use muster_model::policy::SitePolicy;
use muster_model::qualification::{Level, Outcome, Qualification};
use muster_model::remediation::{
    Act, Action, Mode, Remediation, RemediationOutcome, RemediationStep, Remediations,
};
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Remediations that are listed one by one.
const LISTED: usize = 1000;
/// How long a test takes.
const TEST: Span = Span::mins(30);
/// How long a reset, a reboot or a power cycle takes.
const ACT: Span = Span::mins(30);
/// How long people take to repair a node.
const REPAIR: Span = Span::hours(72);
/// Automation that stopped itself is resumed after this.
const RESUMED: Span = Span::hours(1);
/// While nothing comes of it, time passes in ever longer steps: from this to that.
const STEP: (Span, Span) = (Span(1), Span::hours(1));
/// So often at most the engine is asked to go on at one moment.
const TICKS: usize = 100;

/// A remediation that the engine chose in a rehearsal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RehearsedRemediation {
    /// When it was chosen.
    pub at: Time,
    /// The number that its finding has in the log; where the log has none for it, that of the record
    /// it came from.
    pub finding: u64,
    /// The failure mode.
    pub kind: String,
    /// The node it is for.
    pub node: NodeName,
    /// The GPU, where one is meant.
    pub gpu: Option<u32>,
    /// What is done in the end.
    pub action: Action,
    /// Who decides on it.
    pub mode: Mode,
    /// What held it back first, if it was not carried out later.
    pub held: Option<String>,
}

/// What the engine did in a rehearsal.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RehearsedRemediations {
    /// Findings that were opened.
    pub findings: u64,
    /// Remediations that were carried out, or begun, by action.
    pub by_action: BTreeMap<Action, u64>,
    /// All others: they were held back to the end. By what held them first.
    pub held: BTreeMap<String, u64>,
    /// Most nodes that were out at a time.
    pub out_at_once: u32,
    /// How often automation stopped itself.
    pub storms: u32,
    /// The remediations, oldest first (at most 1000).
    pub items: Vec<RehearsedRemediation>,
}

/// What the world does at its time.
#[derive(Debug)]
enum Answer {
    /// An act is done.
    Act(u64),
    /// A test passes.
    Test(NodeName, u64),
    /// An operator approves.
    Approve(u64),
    /// A node that cannot be tested returns by an operator's word.
    Return(NodeName),
    /// People repaired a node.
    Repair(NodeName),
    /// An operator lets automation go on.
    Resume,
}

/// The engine on a copy of the state, under other rules.
#[derive(Debug)]
pub struct RemediationRehearsal {
    engine: Engine,
    now: Time,
    /// When time alone was last looked at, and how long it rests before the next look.
    looked: Time,
    pause: Span,
    answers: BTreeMap<(Time, u64), Answer>,
    asked: u64,
    /// The record that is being read.
    reading: u64,
    /// Findings of the log: what they are about, when they were opened and under which number.
    logged: BTreeMap<(Entity, String), Vec<(Time, u64)>>,
    by_id: BTreeMap<u64, (Entity, String)>,
    /// Remediations of the copy: where they are listed, and what holds them.
    chosen: BTreeMap<u64, Chosen>,
    out: BTreeMap<NodeName, BTreeSet<u64>>,
    /// For which finding each of the listed is: what it is about, when it was opened, and the record
    /// that was read then.
    found: Vec<((Entity, String), Time, u64)>,
    report: RehearsedRemediations,
}

#[derive(Debug)]
struct Chosen {
    node: NodeName,
    action: Action,
    listed: Option<usize>,
    held: Option<String>,
}

impl RemediationRehearsal {
    /// Begins at a moment, under these rules, with the nodes as they are in the state now: all of
    /// them in service, and nothing found yet. `site` is what the site's own engine goes by: its
    /// verdicts on faults count here, too.
    #[must_use]
    pub fn new(
        state: &State,
        site: &Policy,
        policy: Remediations,
        from: Time,
    ) -> RemediationRehearsal {
        // Nobody is notified of what is only rehearsed.
        let engine = Policy { objectives: false, ..site.clone() };
        let nodes = state.nodes.values().map(|n| (n.name.clone(), Arc::new(begins(n, from))));
        let rules = SitePolicy { remediations: policy, ..(*state.policy).clone() };
        let mut copy = State {
            site: state.site.clone(),
            epoch: state.epoch,
            seq: state.seq,
            at: from,
            now: from,
            nodes: nodes.collect(),
            topology: state.topology.clone(),
            policy: Arc::new(rules),
            reservations: state.reservations.clone(),
            ..State::default()
        };
        copy.index = Box::new(Index::build(&copy));
        let mut engine = Engine::new(copy, engine);
        engine.work.assumes_repairs = true;
        RemediationRehearsal {
            engine,
            now: from,
            looked: from,
            pause: STEP.0,
            answers: BTreeMap::new(),
            asked: 0,
            reading: 0,
            logged: BTreeMap::new(),
            by_id: BTreeMap::new(),
            chosen: BTreeMap::new(),
            out: BTreeMap::new(),
            found: Vec::new(),
            report: RehearsedRemediations::default(),
        }
    }

    /// The next record of the log: time passes up to it, and an input is fed.
    pub fn read(&mut self, r: &Record) {
        self.reading = r.seq.0;
        if let Event::FindingOpened { finding, .. } = &r.event {
            let key = (finding.seen.entity.clone(), finding.seen.kind.clone());
            self.by_id.insert(finding.id, key.clone());
            self.logged.entry(key).or_default().push((r.at, finding.id));
        }
        let Some(command) = self.input(&r.event) else { return };
        self.pass(r.at);
        self.apply_command(command);
        self.do_due_work();
    }

    /// Time passes up to the end, and this is what came of it.
    #[must_use]
    pub fn end(mut self, to: Time) -> RehearsedRemediations {
        self.pass(to);
        // A finding that follows from an input is written after it: only now all numbers are known.
        for (item, (key, opened_at, read)) in self.report.items.iter_mut().zip(&self.found) {
            let mut newest = self.logged.get(key).into_iter().flatten().rev();
            let of_it = newest.find(|(at, _)| at <= opened_at);
            item.finding = of_it.map_or(*read, |(_, id)| *id);
        }
        self.report
    }

    /// An input of the log as the command that it came from. Jobs, and what operators did to
    /// remediations that there are not here, are none.
    fn input(&self, event: &Event) -> Option<Command> {
        let seen = |s: &ObservedFinding| Command::FindingsSeen { findings: vec![s.clone()] };
        match event {
            Event::FaultSeen { node, fault } => {
                let faults = vec![(**fault).clone()];
                Some(Command::FaultsSeen { node: node.clone(), faults })
            }
            Event::FindingOpened { finding, decided } => {
                // Lemons follow from jobs, which do not run here.
                (!decided || finding.seen.kind == FailureMode::LEMON).then(|| seen(&finding.seen))
            }
            Event::FindingChanged { seen: s, decided: false, .. } => Some(seen(s)),
            Event::FindingClosed { id, why, decided: false } => {
                let (entity, kind) = self.by_id.get(id)?;
                let own = self.engine.state().health.open_of(entity, kind)?;
                Some(Command::CloseFinding { id: own.id, reason: why.clone() })
            }
            Event::NodeLost { node, last_seen } => {
                Some(Command::NodeLost { node: node.clone(), last_seen: *last_seen })
            }
            Event::NodeBack { node, boot, .. } => self.connects(node, Some(boot), None),
            Event::NodeInventoried { node, inventory } => {
                self.connects(node, None, Some(inventory))
            }
            Event::QualificationEnded { node, report, expired: false, .. } => {
                let n = self.engine.state().nodes.get(node)?;
                let (id, report) = (n.qualifying?.id, report.clone());
                Some(Command::QualificationDone { node: node.clone(), id, report })
            }
            Event::AutomationStopped { reason, by_operator: true } => {
                Some(Command::StopAutomation { reason: reason.clone() })
            }
            Event::AutomationResumed { .. } => Some(Command::ResumeAutomation),
            _ => None,
        }
    }

    fn connects(
        &self,
        node: &NodeName,
        boot: Option<&String>,
        inventory: Option<&Inventory>,
    ) -> Option<Command> {
        let n = self.engine.state().nodes.get(node)?;
        Some(Command::NodeConnected {
            node: node.clone(),
            machine: n.machine.clone(),
            boot: boot.unwrap_or(&n.boot).clone(),
            address: n.address.clone(),
            host: n.host.clone(),
            inventory: Box::new(inventory.unwrap_or(&n.inventory).clone()),
            observed: Vec::new(),
            ended_ago: Vec::new(),
            place: n.place.clone(),
            ahead: false,
            silent_for: None,
        })
    }

    /// A request. What is refused (a node that is not there any more, an act that is over) would
    /// have been refused in earnest.
    fn apply_command(&mut self, command: Command) {
        let (actor, at) = (Actor::system(), self.now);
        let request = Request { actor, at, key: None, if_version: None, command };
        let _refused = self.engine.handle(&request).is_err();
    }

    /// Lets time pass, with what the engine and the world have to do in it.
    fn pass(&mut self, to: Time) {
        loop {
            let wake = self.engine.next_wake().map(|t| t.max(self.looked + self.pause));
            let answer = self.answers.first_key_value().map(|((at, _), _)| *at);
            let next = [wake, answer].into_iter().flatten().min();
            let Some(next) = next.filter(|t| *t <= to) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.answers.first_entry()
                && entry.key().0 <= self.now
            {
                let answer = entry.remove();
                self.answer(answer);
            }
            self.do_due_work();
        }
        self.now = self.now.max(to);
    }

    fn do_due_work(&mut self) {
        for _ in 0..TICKS {
            if !self.engine.tick(self.now) {
                break;
            }
        }
        let records = self.engine.take();
        self.looked = self.now;
        let twice = Span(self.pause.0.saturating_mul(2)).min(STEP.1);
        self.pause = if records.is_empty() { twice } else { STEP.0 };
        for r in &records {
            self.note(r);
        }
    }

    fn ask(&mut self, after: Span, answer: Answer) {
        self.asked += 1;
        self.answers.insert((self.now + after, self.asked), answer);
    }

    fn answer(&mut self, answer: Answer) {
        let command = match answer {
            Answer::Act(id) => Command::ActDone { id, ok: true, message: "rehearsed".into() },
            Answer::Test(node, id) => {
                let report = Box::new(Qualification {
                    level: Level::Quick,
                    started_at: self.now - TEST,
                    took: TEST,
                    outcome: Outcome::Passed,
                    checks: Vec::new(),
                });
                Command::QualificationDone { node, id, report }
            }
            Answer::Approve(id) => Command::ApproveRemediation { id },
            Answer::Return(node) => Command::ReturnUntested { node, reason: "rehearsed".into() },
            Answer::Repair(node) => Command::Repaired { node, note: "rehearsed".into() },
            Answer::Resume => Command::ResumeAutomation,
        };
        self.apply_command(command);
    }

    /// What the engine decided: it is counted, and answered where it asks the world.
    fn note(&mut self, r: &Record) {
        match &r.event {
            // That automation stopped itself is a finding about the site.
            Event::FindingOpened { finding, .. } if finding.seen.entity != Entity::Site => {
                self.report.findings += 1;
            }
            Event::RemediationChosen { remediation } => self.chose(remediation),
            Event::RemediationStepped { id, why, held: true, .. } => self.was_held(*id, why),
            Event::RemediationStepped { id, step, .. } => self.stepped(*id, *step),
            Event::RemediationEnded { id, outcome, why, .. } => {
                let watched = |c: &Chosen| c.action == Action::Watch;
                if *outcome == RemediationOutcome::Noted
                    && !self.chosen.get(id).is_some_and(watched)
                {
                    self.was_held(*id, why);
                }
                self.is_back(*id);
            }
            Event::AutomationStopped { by_operator: false, .. } => {
                self.report.storms += 1;
                self.ask(RESUMED, Answer::Resume);
            }
            Event::ActAsked { act } => {
                let takes = match &act.act {
                    Act::Ticket { .. } | Act::Page { .. } => Span(0),
                    Act::ResetGpu { .. } | Act::Reboot { .. } | Act::PowerCycle { .. } => {
                        ACT.min(just_before(act.until.since(act.at)))
                    }
                };
                self.ask(takes, Answer::Act(act.id));
            }
            Event::QualificationAsked { node, id, until, .. } => {
                let takes = TEST.min(just_before(until.since(self.now)));
                self.ask(takes, Answer::Test(node.clone(), *id));
            }
            _ => {}
        }
    }

    fn chose(&mut self, r: &Remediation) {
        *self.report.by_action.entry(r.action).or_default() += 1;
        let mut listed = None;
        if self.report.items.len() < LISTED {
            listed = Some(self.report.items.len());
            let finding = self.engine.state().health.findings.get(&r.finding);
            let key = finding.map(|f| (f.seen.entity.clone(), f.seen.kind.clone()));
            let opened_at = finding.map_or(r.at, |f| f.opened_at);
            let key = key.unwrap_or_else(|| (Entity::Node(r.node.clone()), r.kind.clone()));
            self.found.push((key, opened_at, self.reading));
            self.report.items.push(RehearsedRemediation {
                at: r.at,
                finding: self.reading,
                kind: r.kind.clone(),
                node: r.node.clone(),
                gpu: r.gpu,
                action: r.action,
                mode: r.mode,
                held: None,
            });
        }
        let (node, action) = (r.node.clone(), r.action);
        self.chosen.insert(r.id, Chosen { node, action, listed, held: None });
    }

    /// A remediation is held back, for the first time: it is not among those that are carried out.
    fn was_held(&mut self, id: u64, why: &str) {
        let Some(c) = self.chosen.get_mut(&id).filter(|c| c.held.is_none()) else { return };
        // The numbers behind it differ from time to time; what holds does not.
        let short = why.split(": ").next().unwrap_or(why).to_owned();
        c.held = Some(short.clone());
        if let Some(i) = c.listed {
            self.report.items[i].held = Some(why.to_owned());
        }
        take(&mut self.report.by_action, &c.action);
        *self.report.held.entry(short).or_default() += 1;
    }

    /// A remediation takes a step: nothing holds it any more.
    fn was_let_go(&mut self, id: u64) {
        let Some(c) = self.chosen.get_mut(&id) else { return };
        let Some(by) = c.held.take() else { return };
        if let Some(i) = c.listed {
            self.report.items[i].held = None;
        }
        take(&mut self.report.held, &by);
        *self.report.by_action.entry(c.action).or_default() += 1;
    }

    fn stepped(&mut self, id: u64, step: RemediationStep) {
        self.was_let_go(id);
        let Some(c) = self.chosen.get(&id) else { return };
        let (node, action) = (c.node.clone(), c.action);
        if matches!(step, RemediationStep::Probation | RemediationStep::Ended) {
            self.is_back(id);
        } else if action.takes_node() {
            self.out.entry(node.clone()).or_default().insert(id);
            let out = u32::try_from(self.out.len()).unwrap_or(u32::MAX);
            self.report.out_at_once = self.report.out_at_once.max(out);
        }
        let nodes = &self.engine.state().nodes;
        let testable = nodes.get(&node).is_some_and(|n| n.inventory.can.contains(CAN));
        match step {
            // Nobody approves a test that cannot be made.
            RemediationStep::Approval if action == Action::Drain => {
                self.ask(TEST, Answer::Return(node));
            }
            RemediationStep::Approval if self.is_done(id) => self.ask(TEST, Answer::Return(node)),
            // It continues by itself when automation does.
            RemediationStep::Approval if self.is_automatic(id) => {}
            RemediationStep::Approval => self.ask(Span(0), Answer::Approve(id)),
            RemediationStep::Repairing => self.ask(REPAIR, Answer::Repair(node)),
            RemediationStep::Testing if !testable => self.ask(TEST, Answer::Return(node)),
            _ => {}
        }
    }

    /// Does automation decide on the act of a remediation?
    fn is_automatic(&self, id: u64) -> bool {
        let r = self.engine.state().health.remediations.get(&id);
        r.is_some_and(|r| r.mode == Mode::Automatic)
    }

    /// Was the act of a remediation carried out?
    fn is_done(&self, id: u64) -> bool {
        let book = &self.engine.state().health;
        let act = book.remediations.get(&id).and_then(|r| r.act).and_then(|a| book.acts.get(&a));
        act.is_some_and(|a| a.ended.as_ref().is_some_and(|e| e.ok))
    }

    fn is_back(&mut self, id: u64) {
        let Some(c) = self.chosen.get(&id) else { return };
        if let Some(of) = self.out.get_mut(&c.node) {
            of.remove(&id);
            if of.is_empty() {
                self.out.remove(&c.node);
            }
        }
    }
}

/// One less of something; what is none is not listed.
fn take<K: Ord>(counts: &mut BTreeMap<K, u64>, key: &K) {
    if let Some(n) = counts.get_mut(key) {
        *n = n.saturating_sub(1);
        if *n == 0 {
            counts.remove(key);
        }
    }
}

fn just_before(s: Span) -> Span {
    Span(s.0.saturating_sub(1))
}

/// A node as a rehearsal begins with it.
fn begins(n: &Node, from: Time) -> Node {
    let joined = !matches!(n.stage, Stage::Enrolled | Stage::Retired);
    Node {
        stage: if joined { Stage::Ready } else { n.stage },
        reachable: joined,
        cordon: None,
        orphans: BTreeSet::new(),
        protected: false,
        missing_gpus: Vec::new(),
        excluded_gpus: GpuSet::EMPTY,
        excluded_by_operator: GpuSet::EMPTY,
        stage_since: from,
        stage_why: String::new(),
        stage_until: None,
        drained_by_remediation: false,
        generation: 1,
        probation: None,
        breaker: None,
        remediation: None,
        qualifying: None,
        qualified: None,
        ..n.clone()
    }
}
