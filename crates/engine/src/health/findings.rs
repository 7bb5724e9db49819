//! From signals to findings: one for each thing and failure mode, however often it is seen.

use super::drift::is_difference;
use super::work::Repeat;
use crate::Engine;
use muster_health::faults::Catalogue;
use muster_health::modes;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::fault::{FaultClass, ObservedFault};
use muster_model::finding::{EVIDENCE_MAX, Finding, ObservedFinding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::{Inventory, Node, NodeRole, Stage};
use muster_model::qualification::{Qualified, Qualifying};
use muster_model::remediation::{Action, Remediation, RemediationStep};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Findings of one node that may be open at a time.
const OPEN_PER_NODE: usize = 64;
/// Findings that may be open at a time.
const OPEN_MAX: usize = 20_000;
/// The same fault is counted over so long.
const FAULT_MEMORY: Span = Span::hours(24);
/// A finding is young for so long; people look at it then.
const YOUNG: Span = Span::mins(10);
/// What only repeats is written down so often while the finding is young, and later.
const EVERY_YOUNG: Span = Span::mins(1);
const EVERY: Span = Span::mins(5);
/// A node's clock is not believed to be further behind than this.
pub(super) const CLOCK: Span = Span::mins(5);

impl Engine {
    /// A node reported a fault that was just written down.
    pub(crate) fn fault_found(&mut self, node: &NodeName, fault: &ObservedFault) {
        let now = self.state.now;
        // What is reported late of the time before it was repaired was dealt with then.
        let repaired = |n: &std::sync::Arc<muster_model::node::Node>| {
            n.generation > 1 && n.stage == Stage::Ready && fault.at < n.stage_since
        };
        if self.state.nodes.get(node).is_some_and(repaired) {
            return;
        }
        let same = self.state.faults_of(node).filter(|k| {
            k.fault.code == fault.code && k.fault.gpu == fault.gpu && now.since(k.at) < FAULT_MEMORY
        });
        let before = same.map(|k| k.fault.count).sum::<u64>().saturating_sub(fault.count);
        let catalogue = self.policy.faults.as_deref().unwrap_or(Catalogue::builtin());
        let n = self.state.nodes.get(node);
        let place = n.map_or(("", ""), |n| (n.sku(), n.inventory.pool.as_str()));
        let judged =
            muster_health::detect::fault::evaluate_by(catalogue, place, node, fault, before);
        let Some(mut seen) = judged else { return };
        // The node's clock is its own; what is compared with it is the site's. What is reported
        // late may be as old as the ends that were reported late.
        let from = self.late_since(node).map_or(now - CLOCK, |t| t.min(now - CLOCK));
        seen.first_seen = seen.first_seen.max(from).min(now);
        seen.last_seen = seen.last_seen.max(seen.first_seen).min(now);
        let (entity, kind) = (seen.entity.clone(), seen.kind.clone());
        let critical = seen.severity == Severity::Critical;
        self.found(seen, true);
        if critical {
            self.propose_again(&entity, &kind, fault.at);
        }
    }

    /// What a node reported, as this site judges it: the operator's verdicts count whatever the
    /// agent was started with.
    pub(crate) fn apply_site_verdicts(
        &self,
        node: &NodeName,
        fault: ObservedFault,
    ) -> ObservedFault {
        match (&self.policy.faults, self.state.nodes.get(node)) {
            (Some(c), Some(n)) => c.reevaluate(fault, n.sku(), &n.inventory.pool),
            _ => fault,
        }
    }

    /// A conclusion: a detector's, or one that follows from what the log holds.
    pub(crate) fn found(&mut self, seen: ObservedFinding, decided: bool) {
        let seen = self.as_evidence(seen.bounded());
        if seen.entity.node().is_some_and(|n| !self.state.nodes.contains_key(n)) {
            return;
        }
        let known = match own_attempt(&seen) {
            Some(key) => self.own_finding(&seen, key),
            None => {
                let same = self.state.health.open_of(&seen.entity, &seen.kind).cloned();
                same.or_else(|| self.weaker_finding(&seen))
            }
        };
        match known {
            // What the driver said is not taken back by figures that look well again.
            Some(f) if seen.over && f.inferred && !decided => {}
            Some(f) if seen.over => self.close_finding(f.id, "not seen any more", decided),
            None if seen.over => {}
            Some(f) if self.is_confirmed_by_another_project(&f, &seen) => {
                self.confirm_straggler(&f, seen, decided);
            }
            Some(f) => self.update_open_finding(&f, seen, decided),
            None => {
                self.close_earlier_attempts(&seen);
                self.open_finding(seen, decided);
            }
        }
    }

    /// Open findings of the same thing and failure mode.
    fn open_alike(&self, seen: &ObservedFinding) -> impl Iterator<Item = &Arc<Finding>> {
        let here = seen.entity.node().into_iter().flat_map(move |n| self.state.health.open_on(n));
        here.filter(move |f| f.seen.entity == seen.entity && f.seen.kind == seen.kind)
    }

    /// The open finding of this attempt, or the one of which nobody knows whose it is.
    fn own_finding(&self, seen: &ObservedFinding, key: AttemptKey) -> Option<Arc<Finding>> {
        let of = |whose: Option<AttemptKey>| {
            self.open_alike(seen).find(|f| f.seen.attempt == whose).cloned()
        };
        of(Some(key)).or_else(|| of(None))
    }

    /// What attempts that have ended did is over when another does it: its evidence stays theirs, and
    /// the node does not fill with it.
    fn close_earlier_attempts(&mut self, seen: &ObservedFinding) {
        if own_attempt(seen).is_none() {
            return;
        }
        let runs =
            |k: AttemptKey| self.state.jobs.get(&k.job).is_some_and(|j| j.attempt_key() == Some(k));
        let ended = self.open_alike(seen).filter(|f| f.seen.attempt.is_some_and(|k| !runs(k)));
        let ids: Vec<u64> = ended.map(|f| f.id).collect();
        for id in ids {
            self.close_finding(id, "its attempt has ended", true);
        }
    }

    /// A GPU that fell off the bus is missing, too, and one cause is one finding: that it is missing
    /// is then evidence of what the driver said.
    fn as_evidence(&self, mut seen: ObservedFinding) -> ObservedFinding {
        let open = |mode: FailureMode| self.state.health.open_of(&seen.entity, mode.code());
        if seen.kind == FailureMode::GPU_MISSING
            && !seen.over
            && open(FailureMode::GPU_MISSING).is_none()
            && open(FailureMode::GPU_OFF_BUS).is_some()
        {
            FailureMode::GPU_OFF_BUS.code().clone_into(&mut seen.kind);
            // How often the other one was seen is not how often this one was.
            seen.count = 0;
        }
        seen
    }

    /// The finding that a GPU is missing, where the driver says now that it fell off the bus. What the
    /// driver said takes over: it is not over because the GPU is seen again.
    fn weaker_finding(&self, seen: &ObservedFinding) -> Option<Arc<Finding>> {
        let weaker = seen.kind == FailureMode::GPU_OFF_BUS && !seen.over;
        let kind = FailureMode::GPU_MISSING.code();
        weaker.then(|| self.state.health.open_of(&seen.entity, kind).cloned()).flatten()
    }

    pub(super) fn open_finding(&mut self, seen: ObservedFinding, decided: bool) {
        let crowded = |n: &NodeName| self.state.health.open_on(n).count() >= OPEN_PER_NODE;
        if self.state.health.open_count() >= OPEN_MAX || seen.entity.node().is_some_and(crowded) {
            return;
        }
        let id = self.state.seq.next().0;
        let project = self.project_of(seen.attempt);
        let finding = Finding {
            id,
            seen,
            opened_at: self.state.now,
            inferred: decided,
            incident: None,
            remediation: None,
            closed: None,
        };
        let event = Event::FindingOpened { finding: Box::new(finding), decided };
        self.emit(project.as_ref(), event);
        self.work.correlate = true;
        self.follow(id);
    }

    /// A finding that is open was seen again. What changes something is written down at once; what
    /// only repeats is added up, and written down when its time has come or something rests on it.
    pub(super) fn update_open_finding(
        &mut self,
        f: &Finding,
        mut seen: ObservedFinding,
        decided: bool,
    ) {
        let was = &f.seen;
        let mut known = self.work.repeats.get(&f.id).map_or(was, |r| &r.seen).clone();
        // What was said about one tenant's program is not for the next one to read.
        let owner = self.project_of(known.attempt);
        if seen.attempt.is_some() && owner.is_some() && owner != self.project_of(seen.attempt) {
            known.evidence.clear();
        }
        // Nor is what one program did evidence of what another did beside it.
        if !of_hardware(&seen) && seen.attempt != known.attempt {
            let other = if seen.attempt.is_some() { &mut known } else { &mut seen };
            other.evidence.clear();
        }
        // How many nodes differ from how many is true until they are compared again.
        let differences = |seen: &ObservedFinding| -> Vec<String> {
            seen.evidence.iter().filter(|l| is_difference(l)).cloned().collect()
        };
        let differ = differences(&seen);
        let anew = !differ.is_empty() && differ != differences(&known);
        if anew {
            known.evidence.retain(|l| !is_difference(l));
        }
        let (kind, count) = (seen.kind.clone(), seen.count);
        let mut merged = merge(known, seen, decided);
        // It says now what is wrong, and was seen as that so often.
        let renamed = merged.kind != kind;
        if renamed {
            (merged.kind, merged.count) = (kind, count);
        }
        let worse = merged.severity > was.severity;
        let surer = merged.confidence >= was.confidence.saturating_add(200);
        let much = merged.count >= was.count.saturating_mul(10);
        // Two attempts that share a node may take turns: these are no news each time.
        let runs =
            |k: AttemptKey| self.state.jobs.get(&k.job).is_some_and(|j| j.attempt_key() == Some(k));
        let turns = was.attempt.is_some_and(runs) && merged.attempt.is_some_and(runs);
        let other = merged.attempt != was.attempt && !turns;
        let latest = merged.clone();
        if worse || surer || much || other || renamed || anew {
            self.write_seen(f.id, merged, decided);
        } else {
            let due = self.work.repeats.get(&f.id).map(|r| r.due);
            let due = due.unwrap_or_else(|| self.state.now + every(self.state.now, f));
            self.work.repeats.insert(f.id, Repeat { seen: merged, decided, due });
            self.work.repeats_at.set(&f.id, Some(due));
        }
        if worse || surer || renamed {
            self.work.correlate = true;
            self.follow(f.id);
        } else {
            self.attribute_late(&latest, true);
            self.proven_since(f.id);
        }
    }

    /// Writes down what is known of a finding now.
    fn write_seen(&mut self, id: u64, seen: ObservedFinding, decided: bool) {
        self.work.repeats.remove(&id);
        self.work.repeats_at.set(&id, None);
        let project = self.project_of(seen.attempt);
        let event = Event::FindingChanged { id, seen: Box::new(seen), decided };
        self.emit(project.as_ref(), event);
    }

    /// Writes down repeats of findings that something rests on.
    pub(crate) fn write_repeats(&mut self, findings: &[u64]) {
        for id in findings {
            let open = |f: &std::sync::Arc<Finding>| f.closed.is_none();
            let Some(r) = self.work.repeats.remove(id) else { continue };
            self.work.repeats_at.set(id, None);
            if self.state.health.findings.get(id).is_some_and(open) {
                self.write_seen(*id, r.seen, r.decided);
            }
        }
    }

    /// Repeats whose time has come are written down.
    pub(super) fn record_due_repeats(&mut self) {
        while let Some(id) = self.work.repeats_at.pop(self.state.now) {
            self.write_repeats(&[id]);
        }
    }

    /// A finding is over; so is its incident when it was the last of it.
    pub(crate) fn close_finding(&mut self, id: u64, why: &str, decided: bool) {
        self.close_finding_and(id, why, decided, "all its findings are over");
    }

    /// The same. `end`: why its incident is over, when it was the last of it.
    pub(super) fn close_finding_and(&mut self, id: u64, why: &str, decided: bool, end: &str) {
        let Some(f) = self.state.health.findings.get(&id).cloned() else { return };
        if f.closed.is_some() {
            return;
        }
        self.write_repeats(&[id]);
        let project = self.project_of(f.seen.attempt);
        self.emit(project.as_ref(), Event::FindingClosed { id, why: why.to_owned(), decided });
        self.close_straggler(&f.seen);
        // A restart of its job may wait, at the job's node.
        let own = f.remediation.and_then(|r| self.state.health.remediations.get(&r));
        let restart = own.filter(|r| r.outcome.is_none() && r.action == Action::RestartJob);
        if let Some(node) = restart.map(|r| r.node.clone()) {
            self.work.due.insert(node);
        }
        if let Some(node) = f.seen.entity.node() {
            self.work.due.insert(node.clone());
            if f.seen.entity.gpu().is_some() {
                self.look_for_absent(node);
            }
            if f.seen.kind == FailureMode::LEMON {
                self.allow_all_work(node);
            }
        }
        let Some(i) = f.incident.and_then(|i| self.state.health.incidents.get(&i)).cloned() else {
            return;
        };
        if i.closed.is_none() && !self.state.health.is_live(&i) {
            self.emit(None, Event::IncidentClosed { id: i.id, why: end.to_owned(), part_of: None });
            self.incident_over(i.id);
        }
    }

    /// What follows from a finding that is new or became worse.
    fn follow(&mut self, id: u64) {
        let Some(f) = self.state.health.findings.get(&id).cloned() else { return };
        match f.seen.entity.node() {
            Some(node) if f.seen.kind == FailureMode::HAZARD => {
                self.mark(node, None, u32::from(f.seen.confidence));
            }
            Some(node) if f.seen.kind == FailureMode::LEMON => self.restrict_to_small_work(node),
            _ => {}
        }
        self.attribute_late(&f.seen, false);
        self.choose_remediation(&f);
    }

    /// What a node is kept for, and how likely it is to fail, by our own conclusion.
    pub(super) fn mark(&mut self, node: &NodeName, role: Option<NodeRole>, hazard: u32) {
        let Some(n) = self.state.nodes.get(node) else { return };
        // An operator's choice, and a spare's, stays.
        let role = role.filter(|_| n.role == NodeRole::Normal).unwrap_or(n.role);
        let hazard = hazard.max(n.hazard);
        if (role, hazard) != (n.role, n.hazard) {
            let event = Event::NodeMarked { node: node.clone(), role, hazard, decided: true };
            self.emit(None, event);
        }
    }

    /// The project that may see a finding.
    pub(super) fn project_of(&self, attempt: Option<AttemptKey>) -> Option<ProjectName> {
        attempt.and_then(|k| self.state.jobs.get(&k.job)).map(|j| j.project.clone())
    }

    /// A node is heard no more.
    pub(crate) fn node_lost_found(&mut self, node: &NodeName, last_seen: Time) {
        let seen = ObservedFinding::new(
            FailureMode::NODE_LOST.code(),
            Entity::Node(node.clone()),
            Severity::Critical,
            last_seen,
        )
        .because("heartbeat lost");
        self.found(seen, true);
    }

    /// A node is heard again.
    pub(crate) fn node_back_found(&mut self, node: &NodeName) {
        let entity = Entity::Node(node.clone());
        let Some(f) = self.state.health.open_of(&entity, FailureMode::NODE_LOST.code()).cloned()
        else {
            return;
        };
        self.close_finding(f.id, "its agent connected again", true);
    }

    /// What a node had before and has not any more, and what came back.
    pub(crate) fn inventory_found(&mut self, node: &NodeName, was: &Inventory, now: &Inventory) {
        let at = self.state.now;
        for g in &was.gpus {
            let entity = Entity::Gpu(node.clone(), g.index);
            let there = now.gpus.iter().any(|n| n.index == g.index);
            if !there
                && self.state.health.open_of(&entity, FailureMode::GPU_OFF_BUS.code()).is_none()
            {
                let line = format!("GPU {} ({}) is not there any more", g.index, g.uuid);
                let seen = ObservedFinding::new(
                    FailureMode::GPU_MISSING.code(),
                    entity,
                    Severity::Critical,
                    at,
                );
                self.found(seen.because(line), true);
            }
        }
        for p in &was.nics {
            let entity = Entity::Port(node.clone(), p.name.clone());
            if !now.nics.iter().any(|n| n.name == p.name) {
                let line = format!("{} is not there any more", p.name);
                let seen = ObservedFinding::new(
                    FailureMode::NIC_MISSING.code(),
                    entity,
                    Severity::Critical,
                    at,
                );
                self.found(seen.because(line), true);
            }
        }
    }

    /// A test that nobody's remediation asked for failed.
    pub(crate) fn test_found(&mut self, node: &NodeName, why: &str, wrong: bool) {
        let kind =
            if wrong { FailureMode::WRONG_RESULTS } else { FailureMode::FAILED_QUALIFICATION };
        let entity = Entity::Node(node.clone());
        let seen = ObservedFinding::new(kind.code(), entity, Severity::Critical, self.state.now);
        self.found(seen.because(why), true);
    }

    /// A test that no remediation asked for passed, and was as thorough as the one after a remediation: what
    /// it disproves is over.
    pub(crate) fn test_passed(&mut self, node: &NodeName, test: Qualifying) {
        let Some(n) = self.state.nodes.get(node) else { return };
        if test.level < self.state.policy.remediations.requalify {
            return;
        }
        let open = self.state.health.open_on(node);
        let all = open.filter(|f| can_be_over(f) && self.is_disproved(f, n, test.asked_at));
        let ids: Vec<u64> = all.map(|f| f.id).collect();
        for id in ids {
            self.close_finding(id, "the node passed its test", true);
        }
        self.return_denied(node);
    }

    /// Was it last seen before a test was asked for that its node passed? A GPU or a card that is
    /// not there was not tested.
    pub(super) fn is_disproved(&self, f: &Finding, n: &Node, asked_at: Time) -> bool {
        let seen = self.work.repeats.get(&f.id).map_or(&f.seen, |r| &r.seen);
        let there = match &f.seen.entity {
            Entity::Gpu(_, g) => n.inventory.gpus.iter().any(|has| has.index == *g),
            Entity::Port(_, p) if f.seen.kind == FailureMode::NIC_MISSING => {
                n.inventory.nics.iter().any(|has| has.name == *p)
            }
            _ => true,
        };
        there && seen.last_seen <= asked_at
    }

    /// Does a test that a person asked for end a remediation that waits for people? What it disproved
    /// was closed when it passed; what is critical and still open keeps the node out.
    pub(super) fn test_ends(&self, r: &Remediation, test: &Qualified) -> bool {
        let book = &self.state.health;
        let over = book.findings.get(&r.finding).is_none_or(|f| match &f.closed {
            Some(c) => c.at <= test.ended_at,
            // A test says nothing of a lemon, or of what is found about a job. Who repaired the
            // node does.
            None => {
                let of_test = can_be_over(f) && f.seen.entity.node().is_some();
                r.step == RemediationStep::Repairing && !of_test
            }
        });
        let thorough = test.report.level >= self.state.policy.remediations.requalify;
        thorough && over && !self.is_kept_out(&r.node)
    }

    /// Is something critical still open that a test could disprove?
    pub(super) fn is_kept_out(&self, node: &NodeName) -> bool {
        let critical = |f: &Arc<Finding>| {
            can_be_over(f) && f.seen.severity == Severity::Critical && self.is_in_use(f)
        };
        self.state.health.open_on(node).any(critical)
    }

    /// May work use what a finding is about? A GPU that no work is given any more keeps nobody out.
    pub(super) fn is_in_use(&self, f: &Finding) -> bool {
        let excluded = f.seen.entity.node().and_then(|n| self.state.nodes.get(n));
        let excluded = excluded.map(|n| n.excluded_gpus);
        let out = |g: u32| excluded.is_some_and(|x| x.iter().any(|e| e == g));
        f.seen.entity.gpu().is_none_or(|g| !out(g))
    }

    /// What is still to be done, or decided, about an open finding, in words; none: nothing.
    pub(super) fn pending(&self, f: &Finding) -> Option<String> {
        let node = self.node_of(f)?;
        let n = self.state.nodes.get(&node)?;
        let of_it = |r: &&Arc<Remediation>| {
            r.finding == f.id || r.kind == f.seen.kind && r.gpu == f.seen.entity.gpu()
        };
        // What is only watched, and a restart of a job, keep no hardware from work.
        let goes_on = |r: &&Arc<Remediation>| {
            r.action >= Action::IsolateGpu && r.step != RemediationStep::Probation
        };
        let own = self.state.health.remediations_of(&node).filter(of_it).find(goes_on);
        if let Some(r) = own {
            return Some(format!("remediation {} of node {node} is {}", r.id, phrase(r.step)));
        }
        // What was to be done about it was denied, or another remediation of the node covers it.
        let out = matches!(n.stage, Stage::Quarantined | Stage::Repairing);
        let why = can_be_over(f) && f.seen.severity == Severity::Critical && self.is_in_use(f);
        (out && why).then(|| format!("node {node} is out of service for {}", f.seen.kind))
    }

    /// What was found on a node before its test is over.
    pub(super) fn close_all(&mut self, node: &NodeName, why: &str) {
        let all = self.state.health.open_on(node).filter(|f| can_be_over(f));
        let ids: Vec<u64> = all.map(|f| f.id).collect();
        for id in ids {
            self.close_finding(id, why, true);
        }
    }
}

/// A step of a remediation, as what follows "is".
fn phrase(step: RemediationStep) -> &'static str {
    match step {
        RemediationStep::Moving => "waiting for work to leave",
        step => step.words(),
    }
}

/// Does a test that passed, or whoever returns a node without one, speak against it?
pub(super) fn can_be_over(f: &Finding) -> bool {
    let kind = &f.seen.kind;
    of_hardware(&f.seen) && *kind != FailureMode::HAZARD && *kind != FailureMode::LEMON
}

/// How long what only repeats is added up before it is written down.
fn every(now: Time, f: &Finding) -> Span {
    if now.since(f.opened_at) < YOUNG { EVERY_YOUNG } else { EVERY }
}

/// One finding out of what was known and what is seen now.
fn merge(was: ObservedFinding, new: ObservedFinding, decided: bool) -> ObservedFinding {
    let mut out = was;
    // A detector reports how often it saw it in all since it began; faults come one by one.
    let in_all = !decided && new.first_seen <= out.first_seen;
    out.count = if in_all { out.count.max(new.count) } else { out.count.saturating_add(new.count) };
    out.severity = out.severity.max(new.severity);
    out.confidence = out.confidence.max(new.confidence);
    out.first_seen = out.first_seen.min(new.first_seen);
    out.last_seen = out.last_seen.max(new.last_seen);
    // A rank belongs to its attempt.
    if new.attempt.is_some() && new.attempt != out.attempt {
        out.rank = None;
    }
    out.attempt = new.attempt.or(out.attempt);
    out.rank = new.rank.or(out.rank);
    for line in new.evidence {
        if !out.evidence.contains(&line) {
            out.evidence.push(line);
        }
    }
    let over = out.evidence.len().saturating_sub(EVIDENCE_MAX);
    // The first line says how it began; of the rest the newest count.
    out.evidence.drain(1.min(out.evidence.len())..(1 + over).min(out.evidence.len()));
    out.evidence.truncate(EVIDENCE_MAX);
    out
}

/// The attempt that it is about, where it is what a program did on a node: the end of each attempt
/// rests on its own.
fn own_attempt(seen: &ObservedFinding) -> Option<AttemptKey> {
    let by_attempt = [FailureMode::OOM, FailureMode::APP_FAULT];
    seen.attempt.filter(|_| by_attempt.iter().any(|m| seen.kind == *m))
}

/// Does a finding speak of hardware?
pub(crate) fn of_hardware(seen: &ObservedFinding) -> bool {
    modes::mode(&seen.kind)
        .is_some_and(|m| !matches!(m.class, FaultClass::Application | FaultClass::Notice))
}

/// Is it what a program did?
pub(crate) fn of_program(seen: &ObservedFinding) -> bool {
    modes::mode(&seen.kind).is_some_and(|m| m.class == FaultClass::Application)
}
