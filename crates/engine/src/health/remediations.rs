//! Remediations: chosen for findings, and carried through their steps. Everything that is decided is a
//! record first, so that a server that starts anew goes on where the last one stopped.

use super::findings::can_be_over;
use super::witness::FindingEvidence;
use crate::Engine;
use crate::node_actions::CAN;
use crate::qualify;
use muster_lifecycle::remediation::{Next, View, next};
use muster_lifecycle::steps::{self, ActionableFinding, PastAction};
use muster_lifecycle::{Step, step, time_limit};
use muster_model::FailureMode;
use muster_model::cordon::CordonedBy;
use muster_model::event::Event;
use muster_model::finding::{Finding, Severity};
use muster_model::job::{Job, StopReason};
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::qualification::Qualified;
use muster_model::remediation::{
    Act, Action, AskedAct, Leave, Mode, Remediation, RemediationOutcome, RemediationStep,
};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// What is watched is looked at again after this.
const WATCH: Span = Span::mins(15);

impl Engine {
    /// Chooses what is done about a finding.
    pub(super) fn choose_remediation(&mut self, f: &Finding) {
        if !self.state.policy.remediations.enabled || f.closed.is_some() || self.explained(f) {
            return;
        }
        let Some(node) = self.node_of(f) else { return };
        let Some(n) = self.state.nodes.get(&node).cloned() else { return };
        // On a node that is protected nothing is done before it is reconciled.
        if matches!(n.stage, Stage::Retired | Stage::Enrolled) || n.protected {
            return;
        }
        let proof = self.proof(f);
        let choice = self.choice(f, &n, proof);
        self.attribute_to_job(f, proof);
        // Of a node that failed its test the part is what the test names.
        let of_test = f.seen.kind == FailureMode::FAILED_QUALIFICATION;
        let failed = n.qualified.as_ref().filter(|_| of_test);
        let gpu = f.seen.entity.gpu().or_else(|| failed.and_then(|q| q.report.failed_gpu()));
        // Something at least as heavy is under way already.
        let covered = |r: &&Arc<Remediation>| {
            let same = r.gpu == gpu || r.action.takes_node();
            let live = r.step != RemediationStep::Probation && r.action > Action::RestartJob;
            same && live && r.action >= choice.action
        };
        // The same restart waits for an operator, or for automation.
        let restarts = |r: &&Arc<Remediation>| {
            let waits = r.step == RemediationStep::Proposed && r.action == Action::RestartJob;
            waits && r.finding == f.id && choice.action == Action::RestartJob
        };
        if self.state.health.remediations_of(&node).any(|r| restarts(&r)) {
            return;
        }
        if choice.action > Action::RestartJob
            && self.state.health.remediations_of(&node).any(|r| covered(&r))
        {
            // It may be the first that is critical.
            self.settle_allocation(&node, "nothing critical is left", false);
            // Work was let finish while this was a guess.
            let lets = |r: &&Arc<Remediation>| {
                r.finding == f.id && r.step == RemediationStep::Moving && r.until.is_some()
            };
            let lets = self.state.health.remediations_of(&node).find(lets).cloned();
            if let Some(r) = lets.filter(|_| choice.leave != Leave::Finish) {
                self.hurry(&r, "its severity or its confidence rose", choice.leave);
            }
            return;
        }
        let id = self.state.seq.next().0;
        let now = self.state.now;
        let remediation = Remediation {
            id,
            finding: f.id,
            kind: f.seen.kind.clone(),
            node: node.clone(),
            gpu,
            action: choice.action,
            step_index: choice.step_index,
            mode: choice.mode,
            leave: choice.leave,
            step: RemediationStep::Proposed,
            why: choice.why,
            chosen_why: None,
            at: now,
            since: now,
            until: (choice.action == Action::Watch).then_some(now + WATCH),
            approved: None,
            begun_by_operator: false,
            act: None,
            taken: Vec::new(),
            outcome: None,
        };
        // What a heavier one covers is not done beside it. One of a GPU covers no other GPU.
        let covers =
            |r: &&Arc<Remediation>| choice.action.takes_node() || (r.gpu == gpu && gpu.is_some());
        let lighter: Vec<u64> = self
            .state
            .health
            .remediations_of(&node)
            .filter(|r| choice.action > Action::RestartJob && r.action <= choice.action)
            .filter(covers)
            .map(|r| r.id)
            .collect();
        self.emit(None, Event::RemediationChosen { remediation: Box::new(remediation) });
        for old in lighter {
            self.end_remediation(
                old,
                RemediationOutcome::Superseded,
                "a heavier remediation follows",
                false,
            );
        }
        if choice.action.takes_node() {
            self.watch_for_storm();
        }
        if choice.mode == Mode::DetectOnly || self.passive(choice.action) {
            let why = format!("detect only: would {}", choice.action.words());
            self.end_remediation(id, RemediationOutcome::Noted, &why, false);
        }
        self.work.due.insert(node);
        self.advance_remediations();
    }

    /// Stopping allocation is switched off: everything that begins with it is only written down.
    fn passive(&self, action: Action) -> bool {
        action > Action::Watch
            && self.state.policy.remediations.mode(action.min(Action::Drain)) == Mode::DetectOnly
    }

    pub(super) fn choice(&self, f: &Finding, n: &Node, proof: FindingEvidence) -> steps::Choice {
        let most = proof.most();
        let asked = ActionableFinding {
            kind: &f.seen.kind,
            severity: f.seen.severity,
            confidence: f.seen.confidence,
            pool: n.pool(),
            sku: n.sku(),
            gpu: f.seen.entity.gpu(),
            most: most.as_ref().map(|(action, why)| (*action, why.as_str())),
        };
        let before: Vec<PastAction<'_>> = self
            .state
            .health
            .remediations_ever(&n.name)
            .map(|r| PastAction {
                kind: &r.kind,
                gpu: r.gpu,
                action: r.action,
                at: r.at,
                done: r.step == RemediationStep::Probation
                    || matches!(
                        r.outcome,
                        Some(RemediationOutcome::Resolved | RemediationOutcome::Escalated)
                    )
                    || r.outcome == Some(RemediationOutcome::Noted) && r.action == Action::Watch,
            })
            .collect();
        steps::choose(&self.state.policy.remediations, &asked, &before, self.state.now)
    }

    /// The node that a finding asks for: its own, or that of the rank it names.
    pub(super) fn node_of(&self, f: &Finding) -> Option<NodeName> {
        if let Some(n) = f.seen.entity.node() {
            return Some(n.clone());
        }
        let key = f.seen.attempt?;
        let a = self.state.jobs.get(&key.job)?.attempt.as_ref().filter(|a| a.no == key.attempt)?;
        let mut first = 0u32;
        for s in &a.placement.slots {
            let ranks = s.ranks;
            if f.seen.rank.is_none_or(|r| r < first + ranks) {
                return Some(s.node.clone());
            }
            first += ranks;
        }
        a.placement.slots.first().map(|s| s.node.clone())
    }

    /// One step of one remediation. Says whether it took one.
    pub(super) fn step_remediation(&mut self, id: u64) -> bool {
        let Some(r) = self.state.health.remediations.get(&id).cloned() else { return false };
        let Some(n) = self.state.nodes.get(&r.node).cloned() else { return false };
        if r.outcome.is_some() || n.protected {
            return false;
        }
        let held = match r.step {
            RemediationStep::Proposed if r.action > Action::Watch => self.held(&r, &n),
            // Its node was taken before automation was stopped: its act waits all the same.
            RemediationStep::Moving | RemediationStep::Approval if r.approved.is_none() => {
                self.stop_in_force()
            }
            _ => None,
        };
        let book = &self.state.health;
        let finding = book.findings.get(&r.finding);
        let act = r.act.and_then(|a| book.acts.get(&a)).and_then(|a| a.ended.as_ref());
        // A test that was asked for after this remediation was chosen, or after the act that it took
        // over, and ended after this step.
        let own = |q: &&Arc<Qualified>| q.id > r.act.unwrap_or(r.id) && q.ended_at >= r.since;
        let waits = matches!(r.step, RemediationStep::Approval | RemediationStep::Repairing);
        let test = n.qualified.as_ref().filter(own).filter(|q| !waits || self.test_ends(&r, q));
        let test = test.map(|q| q.report.outcome);
        let answer = next(&View {
            action: r.action,
            mode: r.mode,
            step: r.step,
            until: r.until,
            approved: r.approved.is_some(),
            open: finding.is_some_and(|f| f.closed.is_none()),
            grave: finding.is_some_and(|f| self.is_grave(f)),
            held,
            begun: r.act.is_some(),
            busy: self.busy(&r, &n),
            reachable: n.reachable,
            act,
            test,
            testing: n.qualifying.is_some(),
            testable: n.inventory.can.contains(CAN),
            now: self.state.now,
        });
        self.apply_next_step(&r, &n, answer)
    }

    /// Is a finding bad enough, and proven enough, to go on when watching did not help?
    fn is_grave(&self, f: &Finding) -> bool {
        let may_test = self.proof(f).most().is_none_or(|(most, _)| most >= Action::Drain);
        f.seen.severity >= Severity::Degraded && may_test
    }

    fn busy(&self, r: &Remediation, n: &Node) -> bool {
        match r.action {
            Action::RestartJob => {
                let f = self.state.health.findings.get(&r.finding);
                f.and_then(|f| f.seen.attempt).is_some_and(|k| {
                    self.state.jobs.get(&k.job).and_then(|j| j.attempt_key()) == Some(k)
                })
            }
            Action::IsolateGpu => self.work_on(&n.name, r.gpu).next().is_some(),
            _ => self.state.attempts_on(&n.name).next().is_some() || !n.orphans.is_empty(),
        }
    }

    /// Work on a node, or on one of its GPUs.
    fn work_on<'a>(
        &'a self,
        node: &'a NodeName,
        gpu: Option<u32>,
    ) -> impl Iterator<Item = &'a Arc<Job>> {
        self.state.attempts_on(node).filter(move |j| {
            let slots = j.attempt.iter().flat_map(|a| a.placement.slots.iter());
            let mut here = slots.filter(|s| s.node == *node);
            here.any(|s| gpu.is_none_or(|g| s.gpus.iter().any(|h| h == g)))
        })
    }

    fn apply_next_step(&mut self, r: &Remediation, n: &Node, answer: Next) -> bool {
        match answer {
            Next::Wait => {
                let moving = r.step == RemediationStep::Moving;
                if moving && r.until.is_some_and(|t| t <= self.state.now) {
                    self.hurry(r, "what ran there did not end in time", Leave::Checkpoint);
                }
                return false;
            }
            Next::Hold(why) => {
                self.work.holds = true;
                if why != r.why {
                    let (id, step) = (r.id, RemediationStep::Proposed);
                    let (until, act, held) = (None, None, true);
                    self.emit(None, Event::RemediationStepped { id, step, why, until, act, held });
                }
                self.settle_allocation(&n.name, "nothing critical is left", false);
                return false;
            }
            Next::Take => self.take_out(r, n),
            Next::Ask => {
                let what = part_words(r, n);
                let reason = format!("{}: {what}", r.kind);
                self.stage(n, Step::Quarantine, &reason);
                // It may be out for its test already: that is over, and people read why it is out.
                if n.stage == Stage::Quarantined && n.stage_why != reason {
                    self.enter_stage(n, Stage::Quarantined, &reason);
                }
                self.write_ticket(r, n);
                let until = self.state.now + time_limit(Stage::Quarantined).unwrap_or(WATCH);
                let automatic = r.mode == Mode::Automatic && r.act.is_none();
                let stopped = self.stop_in_force().filter(|_| automatic);
                let why = match (r.action, stopped) {
                    (Action::Drain, _) => "it cannot be tested; pending approval".to_owned(),
                    (_, Some(stopped)) => stopped,
                    (_, None) => format!("approval to {what}"),
                };
                self.stepped(r, RemediationStep::Approval, &why, Some(until), None);
            }
            Next::Act if r.action == Action::Replace => self.repair(r, n),
            Next::Act => self.act(r, n),
            Next::Repair => self.repair(r, n),
            Next::Test => {
                // A node in service is not taken out by a test alone: it is out already.
                if n.stage != Stage::Repairing {
                    self.stage(n, Step::Quarantine, &format!("{}: being tested", r.kind));
                }
                let able = n.reachable && n.qualifying.is_none() && !self.busy_node(n);
                if r.step == RemediationStep::Testing && !able {
                    return false;
                }
                if r.step != RemediationStep::Testing {
                    self.stepped(
                        r,
                        RemediationStep::Testing,
                        "tested before its return",
                        None,
                        None,
                    );
                }
                if able {
                    let level = self.state.policy.remediations.requalify;
                    qualify::begin(self, &n.name, level, true);
                }
            }
            Next::Return => match self.found_since_test(r, n) {
                found if found.is_empty() => self.give_back(r, n),
                found => self.keep_out(r, n, &found),
            },
            Next::Done(why) => {
                if r.step == RemediationStep::Probation {
                    self.emit(None, Event::ProbationSet { node: n.name.clone(), until: None });
                }
                let noted = r.step == RemediationStep::Proposed;
                let outcome = match (noted, r.action) {
                    (true, Action::Watch) => RemediationOutcome::Noted,
                    (true, _) => RemediationOutcome::Superseded,
                    _ => RemediationOutcome::Resolved,
                };
                self.end_remediation(r.id, outcome, &why, false);
                if noted && r.action >= Action::IsolateGpu {
                    self.reconsider_findings_on(&n.name);
                    self.settle_allocation(&n.name, &why, false);
                }
            }
            Next::Escalate(why) => {
                let test = n.qualified.as_ref().filter(|_| r.step == RemediationStep::Testing);
                let why = match test.and_then(|q| q.report.first_failure()) {
                    Some(check) => format!("{why}: {check}"),
                    None => why,
                };
                if self.another_gpu_failed(r, n, &why) {
                    return true;
                }
                self.end_remediation(r.id, RemediationOutcome::Escalated, &why, false);
                // Whatever was suspected before, now it is proven.
                if r.step == RemediationStep::Testing && r.action == Action::Drain {
                    self.test_found(&r.node, &format!("{why}, after {}", r.kind), false);
                } else if let Some(f) = self.state.health.findings.get(&r.finding).cloned() {
                    self.choose_remediation(&f);
                }
            }
        }
        true
    }

    /// The test after a remediation of one GPU failed at another GPU only, of which something
    /// critical was found: that one gets its own first step, and the part that passed is not
    /// escalated.
    fn another_gpu_failed(&mut self, r: &Remediation, n: &Node, why: &str) -> bool {
        let test = n.qualified.as_ref().filter(|_| r.step == RemediationStep::Testing);
        let Some((failed, own)) = test.and_then(|q| q.report.failed_gpu()).zip(r.gpu) else {
            return false;
        };
        let of_it = |f: &&Arc<Finding>| {
            f.seen.entity.gpu() == Some(failed) && f.seen.severity == Severity::Critical
        };
        let open = self.state.health.open_on(&r.node).find(of_it).cloned();
        let Some(f) = open.filter(|f| failed != own && !self.explained(f)) else { return false };
        let why = format!("GPU {own} passed its test, another did not: {why}");
        self.end_remediation(r.id, RemediationOutcome::Resolved, &why, false);
        let passed =
            self.state.health.open_on(&r.node).filter(|o| o.seen.entity.gpu() == Some(own));
        let passed = passed.filter(|o| can_be_over(o) && self.is_disproved(o, n, r.since));
        for id in passed.map(|o| o.id).collect::<Vec<_>>() {
            self.close_finding(id, "the GPU passed its test", true);
        }
        self.choose_remediation(&f);
        // What failed its test returns where no work uses it any more, and not by a policy that only
        // writes it down.
        let out = self.state.nodes.get(&r.node).is_some_and(|n| n.stage != Stage::Ready);
        if out && !self.is_in_use(&f) {
            self.settle_after_test(&r.node, &why);
        }
        true
    }

    fn busy_node(&self, n: &Node) -> bool {
        self.state.attempts_on(&n.name).next().is_some() || !n.orphans.is_empty()
    }

    /// Work that was let finish is moved, unless automation was stopped meanwhile: then it may finish.
    fn hurry(&mut self, r: &Remediation, why: &str, leave: Leave) {
        if r.approved.is_none() && self.stop_in_force().is_some() {
            return;
        }
        self.stepped(r, RemediationStep::Moving, why, None, None);
        self.move_work(r, leave);
    }

    fn take_out(&mut self, r: &Remediation, n: &Node) {
        let was = self.counted(n);
        let until = (r.leave == Leave::Finish)
            .then(|| self.state.now + self.state.policy.remediations.finish_within);
        // What delayed it before does so no more.
        let why = match &r.approved {
            Some(by) => format!("approved by {by}"),
            None => r.chosen_why.as_ref().unwrap_or(&r.why).clone(),
        };
        self.stepped(r, RemediationStep::Moving, &why, until, None);
        let reason = format!("{} (finding {})", r.kind, r.finding);
        match r.action {
            Action::Watch | Action::RestartJob => {}
            Action::IsolateGpu => {
                let bit = r.gpu.filter(|g| *g < 64).map_or(0, |g| 1u64 << g);
                let gpus = muster_model::placement::GpuSet(n.excluded_gpus.0 | bit);
                let node = n.name.clone();
                self.emit(None, Event::GpusExcluded { node, gpus, reason, by_operator: false });
            }
            _ => {
                self.stage(n, Step::Suspect, &reason);
                if let Some(n) = self.state.nodes.get(&n.name).cloned()
                    && self.busy_node(&n)
                {
                    self.stage(&n, Step::Drain, &reason);
                }
            }
        }
        self.count_again(&n.name, was);
        self.move_work(r, r.leave);
        if r.action == Action::IsolateGpu {
            self.return_without(r);
        }
    }

    /// The last test of a node failed at one GPU alone, which no work is given any more: the node
    /// returns, unless something else takes it. The isolation may have waited since that test.
    fn return_without(&mut self, r: &Remediation) {
        let Some(n) = self.state.nodes.get(&r.node) else { return };
        let failed = n.qualified.as_ref().and_then(|q| q.report.failed_gpu());
        let out = matches!(n.stage, Stage::Quarantined | Stage::Repairing);
        if let Some(gpu) = failed.filter(|_| out && failed == r.gpu) {
            let why = format!("GPU {gpu}, at which alone its test failed, is isolated");
            self.settle_after_test(&r.node, &why);
        }
    }

    /// Work leaves a node. What uses the unhealthy GPU itself is not asked for a checkpoint when it
    /// must leave at once: it could not write one.
    fn move_work(&mut self, r: &Remediation, leave: Leave) {
        if r.action == Action::RestartJob {
            let f = self.state.health.findings.get(&r.finding).cloned();
            // It may have waited until another attempt runs, which does not hang.
            let hung = f
                .and_then(|f| f.seen.attempt)
                .and_then(|k| self.state.jobs.get(&k.job).filter(|j| j.attempt_key() == Some(k)));
            if let Some(job) = hung.cloned() {
                self.order_stop(&job, StopReason::Hung { finding: r.finding }, None);
                self.conclude_job(job.id);
            }
            return;
        }
        let only = (r.action == Action::IsolateGpu).then_some(r.gpu).flatten();
        let all: Vec<Arc<Job>> = self.work_on(&r.node, only).cloned().collect();
        for job in all {
            let unhealthy = self.work_on(&r.node, r.gpu).any(|j| j.id == job.id);
            let reason = StopReason::Unhealthy {
                node: r.node.clone(),
                finding: r.finding,
                mode: r.kind.clone(),
            };
            let stopping = job.attempt.as_ref().is_some_and(|a| a.stop.is_some());
            match leave {
                _ if stopping => {}
                Leave::Finish => {}
                Leave::Now if unhealthy => {
                    self.order_stop(&job, reason, None);
                    self.conclude_job(job.id);
                }
                Leave::Now | Leave::Checkpoint => self.give_notice(&job, reason, None),
            }
        }
        self.finish_drain(&r.node);
    }

    fn act(&mut self, r: &Remediation, n: &Node) {
        let node = n.name.clone();
        let (act, within) = match (r.action, r.gpu) {
            (Action::ResetGpu, Some(gpu)) => (Act::ResetGpu { node, gpu }, Span::mins(5)),
            // A reset that names no GPU is a restart.
            (Action::ResetGpu | Action::Reboot, _) => {
                (Act::Reboot { node, boot: n.boot.clone() }, Span::mins(20))
            }
            _ => (Act::PowerCycle { node, boot: n.boot.clone() }, Span::mins(30)),
        };
        self.stage(n, Step::Quarantine, &r.kind);
        if let Some(n) = self.state.nodes.get(&n.name).cloned() {
            self.stage(&n, Step::Repair, &format!("{}: {}", r.kind, r.action.words()));
        }
        self.end_superseded_acts(r);
        let id = self.ask_act(act, within);
        self.stepped(r, RemediationStep::Acting, r.action.words(), None, Some(id));
    }

    /// Ends what lighter remediations began with a node and no remediation waits for any more: the act that
    /// follows covers it, and nobody is to begin it after that one. Until then it stays open, because
    /// a node takes no work while it may be under way.
    fn end_superseded_acts(&mut self, r: &Remediation) {
        let book = &self.state.health;
        let awaited = |act: u64| book.remediations_of(&r.node).any(|o| o.act == Some(act));
        let left: Vec<u64> =
            book.acts_under_way(&r.node).map(|a| a.id).filter(|id| !awaited(*id)).collect();
        for id in left {
            let message = format!("a heavier remediation follows: {}", r.action.words());
            self.emit(None, Event::ActEnded { id, ok: false, message, expired: true });
        }
    }

    fn repair(&mut self, r: &Remediation, n: &Node) {
        self.stage(n, Step::Quarantine, &r.kind);
        if let Some(n) = self.state.nodes.get(&n.name).cloned() {
            self.stage(&n, Step::Repair, &format!("{}: {}", r.kind, r.action.words()));
        }
        self.write_ticket(r, n);
        let until = time_limit(Stage::Repairing).map(|s| self.state.now + s);
        self.stepped(r, RemediationStep::Repairing, "people repair it", until, None);
    }

    /// One ticket for each remediation.
    fn write_ticket(&mut self, r: &Remediation, n: &Node) {
        let has = |a: &Arc<AskedAct>| matches!(a.act, Act::Ticket { remediation, .. } if remediation == r.id);
        if self.state.health.acts.values().any(has) {
            return;
        }
        let what = r.gpu.map_or_else(|| n.name.to_string(), |g| format!("{} GPU {g}", n.name));
        let title = format!("{what}: {}; {}", r.kind, part_words(r, n));
        self.ask_act(
            Act::Ticket { node: n.name.clone(), title, remediation: r.id },
            Span::hours(24),
        );
    }

    pub(super) fn ask_act(&mut self, act: Act, within: Span) -> u64 {
        let id = self.state.seq.next().0;
        let (at, until) = (self.state.now, self.state.now + within);
        let act = AskedAct { id, act, at, until, ended: None };
        self.emit(None, Event::ActAsked { act: Box::new(act) });
        id
    }

    /// Back into service, and watched.
    fn give_back(&mut self, r: &Remediation, n: &Node) {
        // A person may have had it tested before anything was done: then nothing was tried.
        let done = r.step != RemediationStep::Approval || r.act.is_some();
        let after = if done { format!(" after {}", r.action.noun()) } else { String::new() };
        let reason = format!("passed its test{after} ({})", r.kind);
        let until = self.serve_again(n, reason);
        if done {
            self.stepped(
                r,
                RemediationStep::Probation,
                "watched after its return",
                Some(until),
                None,
            );
        } else {
            self.end_remediation(
                r.id,
                RemediationOutcome::Superseded,
                "the node passed its test",
                false,
            );
        }
        // What a person's test disproved was closed when it passed.
        if r.step == RemediationStep::Testing {
            self.close_all(&n.name, "the node passed its test");
        }
        // Whoever repaired a lemon wants to see it cleared.
        self.work.failures |= r.kind == FailureMode::LEMON;
    }

    /// All that stops new work and was found, or occurred once more, since the test of a remediation
    /// was due: that its node passed says nothing of it. What the remediation is for comes first.
    fn found_since_test(&self, r: &Remediation, n: &Node) -> Vec<Arc<Finding>> {
        let Some(test) = n.qualified.as_ref().filter(|_| r.step == RemediationStep::Testing) else {
            return Vec::new();
        };
        // Detectors look back: what one of them only repeats may be over since the act.
        let news = |f: &&Arc<Finding>| {
            let seen = self.work.repeats.get(&f.id).map_or(&f.seen, |x| &x.seen);
            f.id > test.id || (f.inferred && seen.last_seen > r.since)
        };
        let found = self.stopping(&n.name).filter(|f| can_be_over(f)).filter(news);
        let mut found: Vec<Arc<Finding>> = found.cloned().collect();
        found.sort_by_key(|f| !is_for(r, f));
        found
    }

    /// A node passed its test, and something critical was found meanwhile: each has its own
    /// remediation, and the node is out until it is over.
    fn keep_out(&mut self, r: &Remediation, n: &Node, found: &[Arc<Finding>]) {
        let Some(first) = found.first() else { return };
        let outcome = if is_for(r, first) {
            RemediationOutcome::Escalated
        } else {
            RemediationOutcome::Resolved
        };
        let why = format!("it passed its test, and {} was found meanwhile", first.seen.kind);
        let news: Vec<u64> = found.iter().map(|f| f.id).collect();
        self.write_repeats(&news);
        self.end_remediation(r.id, outcome, &why, false);
        let open = self.state.health.open_on(&n.name);
        let over = open.filter(|o| can_be_over(o) && !news.contains(&o.id));
        let over = over.filter(|o| self.is_disproved(o, n, r.since)).map(|o| o.id);
        for id in over.collect::<Vec<_>>() {
            self.close_finding(id, "the node passed its test", true);
        }
        for id in news {
            if let Some(f) = self.state.health.findings.get(&id).cloned() {
                self.choose_remediation(&f);
            }
        }
        self.settle_after_test(&n.name, &why);
        // It passed: where nothing takes it, it serves again as after any test that passed.
        if let Some(n) = self.state.nodes.get(&n.name).filter(|n| n.stage == Stage::Ready).cloned()
        {
            self.begin_probation(&n);
        }
    }

    /// What followed from a test for single findings was chosen. What else is open there was covered
    /// by what is over now, and the node is out only where something takes it: the policy may write
    /// it down alone, or take the GPU alone.
    fn settle_after_test(&mut self, node: &NodeName, why: &str) {
        self.reconsider_findings_on(node);
        let goes_on =
            |o: &Arc<Remediation>| o.action.takes_node() && o.step != RemediationStep::Probation;
        let out = self.state.health.remediations_of(node).any(goes_on);
        if !out && let Some(n) = self.state.nodes.get(node).cloned() {
            self.release(&n, why, false);
        }
    }

    /// A node that passed its test serves again. Says until when it is watched.
    pub(super) fn serve_again(&mut self, n: &Node, reason: String) -> Time {
        let node = n.name.clone();
        self.emit(None, Event::NodeReady { node, reason });
        self.begin_probation(n)
    }

    /// A node that passed its test is watched for a while. What kept it out for a failed one is over.
    fn begin_probation(&mut self, n: &Node) -> Time {
        let until = self.state.now + self.state.policy.remediations.probation;
        let node = n.name.clone();
        if n.cordon.as_ref().is_some_and(|c| c.by == CordonedBy::FailedTest) {
            self.emit(None, Event::NodeUncordoned { node: node.clone(), decided: true });
        }
        self.emit(None, Event::ProbationSet { node, until: Some(until) });
        until
    }

    /// A node is retired: the next machine of its name inherits neither findings nor remediations.
    pub(crate) fn forget_node(&mut self, node: &NodeName) {
        let why = "the node was retired";
        let remediations: Vec<u64> =
            self.state.health.remediations_of(node).map(|r| r.id).collect();
        for id in remediations {
            self.end_remediation(id, RemediationOutcome::Superseded, why, false);
        }
        let open: Vec<u64> = self.state.health.open_on(node).map(|f| f.id).collect();
        for id in open {
            self.close_finding(id, why, true);
        }
    }

    pub(super) fn stage(&mut self, n: &Node, to: Step, reason: &str) {
        if let Ok(Some(stage)) = step(n, to) {
            self.enter_stage(n, stage, reason);
        }
    }

    fn enter_stage(&mut self, n: &Node, stage: Stage, reason: &str) {
        let until = time_limit(stage).map(|s| self.state.now + s);
        let event = Event::NodeStaged {
            node: n.name.clone(),
            stage,
            reason: reason.to_owned(),
            until,
            by_operator: false,
        };
        self.emit(None, event);
    }

    fn stepped(
        &mut self,
        r: &Remediation,
        step: RemediationStep,
        why: &str,
        until: Option<Time>,
        act: Option<u64>,
    ) {
        let why = why.to_owned();
        self.emit(None, Event::RemediationStepped { id: r.id, step, why, until, act, held: false });
    }

    pub(super) fn end_remediation(
        &mut self,
        id: u64,
        outcome: RemediationOutcome,
        why: &str,
        by_operator: bool,
    ) {
        let live = self.state.health.remediations.get(&id).filter(|r| r.outcome.is_none());
        if live.is_some() {
            let why = why.to_owned();
            self.emit(None, Event::RemediationEnded { id, outcome, why, by_operator });
        }
    }

    /// A node that stands in a stage for too long is reported, and again after as long.
    pub(super) fn report_stuck_stage(&mut self, node: &NodeName) {
        let now = self.state.now;
        let Some(n) = self.state.nodes.get(node).cloned() else { return };
        if n.stage_until.is_none_or(|t| t > now) {
            return;
        }
        let word = muster_lifecycle::stage_label(n.stage);
        let detail = format!("since {}: {}", now.since(n.stage_since), n.stage_why);
        self.page(&format!("node {node} is {word} for too long"), &detail);
        let event = Event::NodeStaged {
            node: node.clone(),
            stage: n.stage,
            reason: n.stage_why.clone(),
            until: time_limit(n.stage).map(|s| now + s),
            by_operator: false,
        };
        self.emit(None, event);
    }
}

/// Is it what a remediation is for: the same failure mode of the same part?
fn is_for(r: &Remediation, f: &Finding) -> bool {
    f.seen.kind == r.kind && f.seen.entity.gpu() == r.gpu
}

/// What is done, as an instruction that names the part where one is to be replaced.
fn part_words(r: &Remediation, n: &Node) -> String {
    let Some(index) = r.gpu.filter(|_| r.action == Action::Replace) else {
        return r.action.words().to_owned();
    };
    let gpu = n.inventory.gpus.iter().find(|g| g.index == index);
    match gpu.and_then(|g| g.serial.as_ref()) {
        Some(serial) => format!("have GPU {index} (serial {serial}) replaced"),
        None => format!("have GPU {index} replaced"),
    }
}
