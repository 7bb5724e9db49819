//! Operators' words about health, and what detectors and hands report.

use crate::Engine;
use crate::lookup::{find, find_versioned, with_reason};
use crate::node_actions::{
    failed_its_test, holds, may_exclude, may_repair, may_return, nothing_under_way, taking,
};
use crate::qualify;
use muster_health::breaker;
use muster_model::FailureMode;
use muster_model::breaker::BreakerState;
use muster_model::command::{Answer, Command, Refusal, RefusalCode, Request};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{Incident, NOTE_MAX};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::placement::GpuSet;
use muster_model::remediation::{
    Act, Action, Mode, Remediation, RemediationOutcome, RemediationStep,
};
use muster_model::resolve::{one_line, some_lines};
use std::collections::BTreeSet;
use std::sync::Arc;

pub(crate) fn decide(e: &mut Engine, req: &Request) -> Result<Answer, Refusal> {
    let by = req.actor.name.clone();
    match &req.command {
        Command::FindingsSeen { findings } => {
            for f in findings {
                let mut f = f.clone();
                f.first_seen = f.first_seen.min(e.state.now);
                f.last_seen = f.last_seen.min(e.state.now);
                e.found(f, false);
            }
        }
        Command::CloseFinding { id, reason } => {
            let f = e.state.health.findings.get(id).ok_or_else(|| none("finding", *id))?;
            if f.closed.is_none() {
                let why = format!("{by}: {reason}");
                let end = format!("its last open finding, {id}, was closed by {why}");
                e.close_finding_and(*id, &why, false, &end);
            }
        }
        Command::ApproveRemediation { id } => approve(e, *id, by)?,
        Command::DenyRemediation { id, reason } => {
            let r = live(e, *id)?;
            if !matches!(r.step, RemediationStep::Proposed | RemediationStep::Approval) {
                let hint = format!("`muster remediations undo {id}` undoes what was done");
                return Err(conflict(
                    format!("remediation {id} is {} already", r.step.words()),
                    hint,
                ));
            }
            let why = with_reason(&by, reason);
            e.end_remediation(*id, RemediationOutcome::Denied, &why, true);
            e.settle_denied(&r, &why);
            e.consider_other_gpus(&r);
        }
        Command::UndoRemediation { id, reason } => {
            let r = live(e, *id)?;
            // Taken back in the middle of its own act, a remediation waits for that: `take_back`.
            if holds(&r) && (r.action == Action::Drain || disruption(&r).is_none()) {
                nothing_under_way(&e.state, &r.node, e.state.now)?;
            }
            if r.action == Action::Drain && disruption(&r).is_some() {
                let message =
                    format!("node {} is being tested after what was begun with it", r.node);
                let hint = format!(
                    "it returns when its test passed; `muster node return {} --reason WHY` returns \
                     it without a test",
                    r.node
                );
                return Err(conflict(message, hint));
            }
            e.take_back(*id, RemediationOutcome::Undone, &format!("{by}: {reason}"), true);
        }
        Command::Repaired { node, note } => repaired(e, req, node, note)?,
        Command::ReturnUntested { node, reason } => {
            let before = e.out.len();
            returned(e, req, node, &format!("{by}: {reason}"))?;
            e.advance_remediations();
            return Ok(Answer::Closed { findings: closed_since(e, before, node) });
        }
        Command::ExcludeGpus { node, gpus, reason } => exclude(e, req, node, *gpus, reason)?,
        Command::ForceBreaker { entity, state, reason } => force(e, entity, *state, &by, reason)?,
        Command::StopAutomation { .. } | Command::ResumeAutomation => {
            automation(e, &req.command, by);
        }
        Command::NoteIncident { id, text } => {
            known(e, *id)?;
            let text = text.trim();
            some_lines("text", text)?;
            if text.is_empty() || text.chars().count() > NOTE_MAX {
                let message = format!("a note has 1 to {NOTE_MAX} characters");
                return Err(Refusal::new(RefusalCode::Invalid, message).field("text"));
            }
            e.emit(None, Event::IncidentNoted { id: *id, text: text.to_owned() });
        }
        Command::OwnIncident { id, owner } => {
            let old = known(e, *id)?.owner.as_ref().map(|o| o.who.clone());
            one_line("owner", owner.as_deref().unwrap_or_default())?;
            if owner.as_ref().is_some_and(|o| o.trim().is_empty() || o.chars().count() > 128) {
                let message = "an owner has 1 to 128 characters";
                return Err(Refusal::new(RefusalCode::Invalid, message).field("owner"));
            }
            if old != *owner {
                e.emit(None, Event::IncidentOwned { id: *id, owner: owner.clone() });
            }
        }
        Command::CloseIncident { id, reason } => close_incident(e, *id, &by, reason)?,
        Command::ActDone { id, ok, message } => e.act_done(*id, *ok, message),
        Command::FirstStep { key } => e.first_step(*key),
        _ => {}
    }
    e.advance_remediations();
    Ok(Answer::Done)
}

/// Findings about a node that the records from this one on have closed.
fn closed_since(e: &Engine, before: usize, node: &NodeName) -> Vec<u64> {
    let closed = e.out.iter().skip(before).filter_map(|r| match &r.event {
        Event::FindingClosed { id, .. } => e.state.health.findings.get(id),
        _ => None,
    });
    closed.filter(|f| f.seen.entity.node() == Some(node)).map(|f| f.id).collect()
}

/// An operator's word about automation itself.
fn automation(e: &mut Engine, c: &Command, by: String) {
    match (c, e.state.health.automation.stopped.is_some()) {
        (Command::StopAutomation { reason }, false) => {
            let reason = with_reason(&by, reason);
            e.emit(None, Event::AutomationStopped { reason, by_operator: true });
        }
        (Command::ResumeAutomation, true) => {
            e.emit(None, Event::AutomationResumed { by });
            let storm = e
                .state
                .health
                .open_of(&Entity::Site, FailureMode::DETECTOR_STORM.code())
                .map(|f| f.id);
            if let Some(id) = storm {
                e.close_finding(id, "automation was resumed", false);
            }
            e.work.all = true;
        }
        _ => {}
    }
}

/// Everything that is open of an incident is closed, which ends the incident. What is still seen is
/// found anew. It is refused while something is done, or is to be decided, about a finding of it:
/// nothing would say any more why a node is out of service.
fn close_incident(e: &mut Engine, id: u64, by: &str, reason: &str) -> Result<(), Refusal> {
    if known(e, id)?.closed.is_some() {
        return Ok(());
    }
    refuse_unheard(e, id)?;
    refuse_pending(e, id)?;
    let why = format!("closed with incident {id} by {by}: {reason}");
    let end = format!("by {by}: {reason}");
    let open = e.state.health.open().filter(|f| f.incident == Some(id));
    let open: Vec<u64> = open.map(|f| f.id).collect();
    e.emit(None, Event::IncidentNoted { id, text: format!("closed: {reason}") });
    for finding in open {
        e.close_finding_and(finding, &why, false, &end);
    }
    if known(e, id)?.closed.is_none() {
        e.emit(None, Event::IncidentClosed { id, why: end, part_of: None });
        e.incident_over(id);
    }
    Ok(())
}

/// Refuses to close what has an active remediation, or is why a node is out of service, and
/// names it. Many causes, as a fault that the driver reports once, are not found a second time.
fn refuse_pending(e: &Engine, id: u64) -> Result<(), Refusal> {
    let open = e.state.health.open().filter(|f| f.incident == Some(id));
    let pending: BTreeSet<String> = open.filter_map(|f| e.pending(f)).collect();
    let Some(first) = pending.first() else { return Ok(()) };
    let what = match pending.len() - 1 {
        0 => first.clone(),
        more => format!("{first}, and {more} more"),
    };
    Err(conflict(
        format!("{what}: incident {id} is not over"),
        "`muster remediations` shows what is active; approve or deny it, or return the node (`muster \
         node return NODE --reason WHY`); a false finding can be closed alone (`muster findings \
         close`)",
    ))
}

/// Nothing finds a node lost a second time while it stays away: of one that is closed nobody would
/// hear any more.
fn refuse_unheard(e: &Engine, id: u64) -> Result<(), Refusal> {
    let lost = FailureMode::NODE_LOST.code();
    let open = e.state.health.open().filter(|f| f.incident == Some(id) && f.seen.kind == lost);
    let away: Vec<&NodeName> = open
        .filter_map(|f| f.seen.entity.node())
        .filter(|n| e.state.nodes.get(*n).is_some_and(|n| !n.reachable))
        .collect();
    let Some(first) = away.first() else { return Ok(()) };
    let nodes = match away.len() - 1 {
        0 => format!("node {first}"),
        more => format!("node {first} and {more} more"),
    };
    Err(conflict(
        format!("the heartbeat of {nodes} is still lost: incident {id} is not over"),
        "it is closed when they connect again or are retired; a silence mutes its alert until \
         then",
    ))
}

fn known(e: &Engine, id: u64) -> Result<&Arc<Incident>, Refusal> {
    e.state.health.incidents.get(&id).ok_or_else(|| none("incident", id))
}

fn none(what: &str, id: u64) -> Refusal {
    Refusal::new(RefusalCode::NotFound, format!("there is no {what} {id}"))
        .hint("the log has what is long over; `muster events` shows it")
}

fn conflict(message: String, hint: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Conflict, message).hint(hint)
}

fn live(e: &Engine, id: u64) -> Result<Arc<Remediation>, Refusal> {
    let r = e.state.health.remediations.get(&id).cloned().ok_or_else(|| none("remediation", id))?;
    match r.outcome {
        None => Ok(r),
        Some(how) => Err(conflict(
            format!("remediation {id} has ended ({}): {}", how.words(), r.why),
            "`muster remediations` lists active ones",
        )),
    }
}

fn approve(e: &mut Engine, id: u64, by: String) -> Result<(), Refusal> {
    let r = live(e, id)?;
    if !matches!(
        r.step,
        RemediationStep::Proposed | RemediationStep::Moving | RemediationStep::Approval
    ) {
        return Err(conflict(
            format!("remediation {id} is {}", r.step.words()),
            "it is not pending approval",
        ));
    }
    if e.state.nodes.get(&r.node).is_some_and(|n| n.protected) {
        return Err(conflict(
            format!("node {} is protected after a restored backup: nothing is done there", r.node),
            format!("`muster node reconcile {}` first", r.node),
        ));
    }
    if r.step == RemediationStep::Approval && r.action == Action::Drain {
        let hint = format!("`muster node return {} --reason WHY` says so explicitly", r.node);
        return Err(conflict(format!("node {} cannot be tested", r.node), hint));
    }
    if r.approved.is_none() {
        e.emit(None, Event::RemediationApproved { id, by });
    }
    e.work.due.insert(r.node.clone());
    Ok(())
}

/// The reset, reboot or power cycle after which a remediation's node has not passed a test yet.
fn disruption(r: &Remediation) -> Option<u64> {
    r.act.filter(|_| matches!(r.step, RemediationStep::Acting | RemediationStep::Testing))
}

fn repaired(e: &mut Engine, req: &Request, node: &NodeName, note: &str) -> Result<(), Refusal> {
    let n = find_versioned(e, req, node)?;
    let r = may_repair(&e.state, &n, e.state.now)?;
    let why = format!("{}: {note}", req.actor.name);
    if r.step != RemediationStep::Testing {
        let (id, step) = (r.id, RemediationStep::Testing);
        e.emit(
            None,
            Event::RemediationStepped { id, step, why, until: None, act: None, held: false },
        );
    }
    e.work.due.insert(node.clone());
    Ok(())
}

fn returned(e: &mut Engine, req: &Request, node: &NodeName, why: &str) -> Result<(), Refusal> {
    let n = find_versioned(e, req, node)?;
    may_return(&e.state, &n, e.state.now)?;
    let ids: Vec<u64> = e.state.health.remediations_of(node).map(|r| r.id).collect();
    for id in ids {
        e.end_remediation(id, RemediationOutcome::Undone, "returned without a test", true);
    }
    e.ready_again(&n, &format!("returned without a test by {why}"), true);
    if failed_its_test(&n) {
        e.emit(None, Event::NodeUncordoned { node: node.clone(), decided: true });
    }
    let until = Some(e.state.now + e.state.policy.remediations.probation);
    e.emit(None, Event::ProbationSet { node: node.clone(), until });
    e.close_all(node, "returned without a test");
    Ok(())
}

fn exclude(
    e: &mut Engine,
    req: &Request,
    node: &NodeName,
    gpus: GpuSet,
    reason: &str,
) -> Result<(), Refusal> {
    let n = find_versioned(e, req, node)?;
    may_exclude(&e.state, &n, gpus)?;
    if n.excluded_gpus != gpus {
        let (node, reason) = (node.clone(), reason.to_owned());
        e.emit(None, Event::GpusExcluded { node, gpus, reason, by_operator: true });
    }
    Ok(())
}

fn force(
    e: &mut Engine,
    entity: &Entity,
    state: Option<BreakerState>,
    by: &str,
    reason: &str,
) -> Result<(), Refusal> {
    let old = e.state.health.breakers.get(entity).cloned();
    // One that is known can be released whatever its name is: it was forced when more was allowed.
    if old.is_none() {
        one_line("entity", &entity.to_string())?;
    }
    let fits = match entity {
        Entity::Node(n) => {
            find(e, n)?;
            true
        }
        Entity::Domain(..)
        | Entity::Feed(_)
        | Entity::Pool(_)
        | Entity::Sku(_)
        | Entity::Version(..) => e.state.nodes.values().any(|n| super::apply::in_group(n, entity)),
        Entity::Template(..) | Entity::Image(_) => true,
        _ => {
            return Err(Refusal::new(
                RefusalCode::Unsupported,
                format!("there is no breaker for {entity}"),
            )
            .field("entity")
            .hint(
                "breakers guard node, rack, leaf, spine, nvlink, feed, pool, sku, version, image \
                   and template; `muster node exclude-gpu` takes out one GPU",
            ));
        }
    };
    if !fits && old.is_none() {
        return Err(Refusal::new(RefusalCode::NotFound, format!("no node belongs to {entity}"))
            .field("entity")
            .hint("`muster topology` and `muster nodes` show what there is"));
    }
    if state.is_none() && old.as_ref().is_none_or(|b| b.pinned.is_none()) {
        return Err(conflict(
            format!("breaker {entity} is not forced"),
            "`muster breakers` lists them",
        ));
    }
    let b = breaker::force(old.as_deref(), entity.clone(), state, by, reason, e.state.now);
    e.set_breaker(b, true);
    Ok(())
}

impl Engine {
    /// Ends a remediation and brings its node back to where it was, unless another one holds it, or
    /// something was begun with it that cannot be stopped.
    pub(super) fn take_back(
        &mut self,
        id: u64,
        outcome: RemediationOutcome,
        why: &str,
        by_operator: bool,
    ) {
        let Some(r) =
            self.state.health.remediations.get(&id).filter(|r| r.outcome.is_none()).cloned()
        else {
            return;
        };
        if disruption(&r).is_some() {
            // A cause elsewhere is no reason to use a node in the middle of its reboot.
            if by_operator {
                self.await_test(&r, outcome, why);
            }
            return;
        }
        // Nor is one in the middle of what a remediation before this one began.
        if holds(&r) && self.state.health.act_under_way(&r.node).is_some() {
            return;
        }
        self.end_remediation(id, outcome, why, by_operator);
        let Some(n) = self.state.nodes.get(&r.node).cloned() else { return };
        if r.action == Action::IsolateGpu && r.step != RemediationStep::Proposed {
            let bit = r.gpu.filter(|g| *g < 64).map_or(0, |g| 1u64 << g);
            let gpus = GpuSet(n.excluded_gpus.0 & !bit);
            let (node, reason) = (n.name.clone(), why.to_owned());
            self.emit(None, Event::GpusExcluded { node, gpus, reason, by_operator });
        }
        // What else is open there was covered, and has another cause than this one.
        if !by_operator {
            self.reconsider_findings_on(&r.node);
        }
        let free = match by_operator {
            true => taking(&self.state, &r.node).is_none(),
            false => !self.is_taken(&r.node),
        };
        if holds(&r) && free {
            let n = self.state.nodes.get(&r.node).cloned().unwrap_or_else(|| n.clone());
            self.release(&n, why, by_operator);
        } else if r.step == RemediationStep::Proposed {
            self.settle_allocation(&r.node, why, by_operator);
        }
        if r.step == RemediationStep::Probation {
            self.emit(None, Event::ProbationSet { node: n.name.clone(), until: None });
        }
        if by_operator {
            self.settle_other_gpus(&r);
        }
    }

    /// Ends a remediation whose act is under way or untested: no step of it follows. A drain that waits
    /// for the same act takes its place, so that the node stays out until it has passed a test.
    fn await_test(&mut self, r: &Remediation, outcome: RemediationOutcome, why: &str) {
        let (id, now) = (self.state.seq.next().0, self.state.now);
        let begun = format!("it had begun to {}", r.action.words());
        let rest = Remediation {
            id,
            action: Action::Drain,
            mode: Mode::Automatic,
            why: format!("remediation {} was undone when {begun}", r.id),
            at: now,
            since: now,
            until: None,
            approved: None,
            taken: Vec::new(),
            ..r.clone()
        };
        self.emit(None, Event::RemediationChosen { remediation: Box::new(rest) });
        let why = format!(
            "{why}; no further step, but {begun}: node {} stays out of service until that is over \
             and its test passed (remediation {id})",
            r.node
        );
        self.end_remediation(r.id, outcome, &why, true);
        self.work.due.insert(r.node.clone());
    }

    pub(super) fn ready_again(&mut self, n: &Node, why: &str, by_operator: bool) {
        qualify::drop_test(self, n);
        if let Ok(Some(stage)) = muster_lifecycle::step(n, muster_lifecycle::Step::Return) {
            let (node, reason) = (n.name.clone(), why.to_owned());
            self.emit(None, Event::NodeStaged { node, stage, reason, until: None, by_operator });
        }
        self.keep_reported_work(n, why);
    }

    /// Work that was asked to leave a node and has not left may stay; not what is on a GPU that is
    /// being isolated, while the rest of its node works.
    pub(super) fn keep_reported_work(&mut self, n: &Node, why: &str) {
        let moves = |r: &&Arc<Remediation>| r.step == RemediationStep::Moving;
        let leaves: BTreeSet<u64> =
            self.state.health.remediations_of(&n.name).filter(moves).map(|r| r.finding).collect();
        let affected: Vec<_> = self.state.attempts_on(&n.name).cloned().collect();
        for job in affected {
            let Some(a) = &job.attempt else { continue };
            let unhealthy = a.notice.as_ref().is_some_and(|t| {
                matches!(
                    &t.reason,
                    muster_model::job::StopReason::Unhealthy { node, finding, .. }
                        if *node == n.name && !leaves.contains(finding)
                )
            });
            if unhealthy && a.stop.is_none() {
                let key = muster_model::ids::AttemptKey { job: job.id, attempt: a.no };
                let reason = why.to_owned();
                self.emit(Some(&job.project), Event::NoticeWithdrawn { key, reason });
            }
        }
    }

    pub(super) fn act_done(&mut self, id: u64, ok: bool, message: &str) {
        let Some(a) = self.state.health.acts.get(&id).filter(|a| a.ended.is_none()).cloned() else {
            return;
        };
        let message: String = message.chars().take(500).collect();
        self.emit(None, Event::ActEnded { id, ok, message, expired: false });
        if let Some(n) = a.act.node() {
            self.work.due.insert(n.clone());
        }
    }

    /// A node is back with another boot: it was restarted, whoever did it.
    pub(crate) fn booted(&mut self, node: &NodeName, boot: &str) {
        let done: Vec<u64> = self
            .state
            .health
            .open_acts()
            .filter(|a| match &a.act {
                Act::Reboot { node: n, boot: b } | Act::PowerCycle { node: n, boot: b } => {
                    n == node && b != boot
                }
                _ => false,
            })
            .map(|a| a.id)
            .collect();
        for id in done {
            self.act_done(id, true, "it has restarted");
        }
    }
}
