//! Folds records about health in. No policy here: only what the record says.

use crate::state::health_state::{ACTS_KEPT, FINDINGS_KEPT, INCIDENTS_KEPT, REMEDIATIONS_KEPT};
use crate::state::{ApplyError, AutomationStop, State};
use muster_model::breaker::{Breaker, BreakerState};
use muster_model::entity::Entity;
use muster_model::event::{Event, Record};
use muster_model::finding::{Closed, INCIDENT_FINDINGS, NOTES_KEPT, Note, Owner};
use muster_model::job::Verdict;
use muster_model::names::NodeName;
use muster_model::node::{Node, excluded_by_operator};
use muster_model::remediation::{ActEnd, RemediationOutcome, RemediationStep};
use muster_model::topology::Level;
use muster_model::units::Span;
use std::sync::Arc;

/// Steps of a remediation that are remembered.
const STEPS_KEPT: usize = 32;
/// Nodes that findings asked for, remembered to recognize a storm.
const ASKED_KEPT: usize = 50_000;

impl State {
    pub(crate) fn apply_health(&mut self, r: &Record) -> Result<(), ApplyError> {
        match &r.event {
            Event::FindingOpened { .. }
            | Event::FindingChanged { .. }
            | Event::FindingClosed { .. } => {
                self.apply_finding(r);
                Ok(())
            }
            Event::IncidentOpened { .. }
            | Event::IncidentGrew { .. }
            | Event::IncidentNoted { .. }
            | Event::IncidentOwned { .. }
            | Event::IncidentClosed { .. } => {
                self.apply_incident(r);
                Ok(())
            }
            Event::BreakerSet { breaker, .. } => self.breaker_set(r, breaker),
            Event::RemediationChosen { .. }
            | Event::RemediationStepped { .. }
            | Event::RemediationApproved { .. }
            | Event::RemediationEnded { .. } => self.apply_remediation(r),
            Event::ActAsked { act } => {
                self.health.acts.insert(act.id, Arc::new((**act).clone()));
                self.health.index.act(act);
                Ok(())
            }
            Event::ActEnded { id, ok, message, .. } => {
                self.act_ended(*id, ActEnd { at: r.at, ok: *ok, message: message.clone() });
                Ok(())
            }
            Event::GpusExcluded { node, gpus, by_operator, .. } => self.node(r.seq, node, |n| {
                let was = (n.excluded_gpus, n.excluded_by_operator);
                n.excluded_by_operator = excluded_by_operator(was, *gpus, *by_operator);
                n.excluded_gpus = *gpus;
            }),
            Event::ProbationSet { node, until } => self.node(r.seq, node, |n| n.probation = *until),
            Event::AutomationStopped { reason, by_operator } => {
                let stopped =
                    AutomationStop { at: r.at, reason: reason.clone(), by_operator: *by_operator };
                self.health.automation.stopped = Some(stopped);
                Ok(())
            }
            Event::AutomationResumed { .. } => {
                let a = &mut self.health.automation;
                a.stopped = None;
                a.asked.clear();
                a.resumed_at = Some(r.at);
                Ok(())
            }
            Event::AttemptAttributed { key, verdict, findings, reason } => {
                let (no, verdict) = (key.attempt, *verdict);
                // The cause is the first of them.
                let cause = findings.first().filter(|_| verdict.exonerates_job());
                let fault = cause.and_then(|id| self.health.fault_of(*id));
                self.job(r.seq, key.job, |j| {
                    let mut counts = (j.application_failures, j.infrastructure_failures);
                    if let Some(p) = j.past.iter_mut().find(|p| p.no == no) {
                        recount(&mut counts, p.verdict, verdict);
                        p.verdict = verdict;
                        p.findings.clone_from(findings);
                        p.reason.clone_from(reason);
                    }
                    (j.application_failures, j.infrastructure_failures) = counts;
                    super::recovery_explained(j, no, fault);
                    // Its work turned out to be whole: the job comes back from nothing.
                    if verdict == Verdict::Success
                        && j.recovery.is_some_and(|rec| rec.attempt == no)
                    {
                        super::recovery_given_up(j);
                    }
                })
            }
            Event::AttemptProgressed { key } => self.job(r.seq, key.job, |j| {
                if let Some(rec) = &mut j.recovery
                    && rec.attempt < key.attempt
                    && rec.started_at.is_some()
                {
                    rec.working_at.get_or_insert(r.at);
                }
            }),
            _ => Ok(()),
        }
    }

    fn apply_finding(&mut self, r: &Record) {
        let book = &mut self.health;
        let id = match &r.event {
            Event::FindingOpened { finding, .. } => {
                book.findings.insert(finding.id, Arc::new((**finding).clone()));
                finding.id
            }
            Event::FindingChanged { id, seen, .. } => {
                let Some(f) = book.findings.get_mut(id) else { return };
                Arc::make_mut(f).seen = (**seen).clone();
                *id
            }
            Event::FindingClosed { id, why, .. } => {
                let Some(f) = book.findings.get_mut(id) else { return };
                Arc::make_mut(f).closed = Some(Closed { at: r.at, why: why.clone() });
                *id
            }
            _ => return,
        };
        if let Some(f) = book.findings.get(&id) {
            book.index.finding(f);
        }
        while book.index.closed_findings.len() > FINDINGS_KEPT {
            if let Some((_, old)) = book.index.closed_findings.pop_first() {
                book.findings.remove(&old);
            }
        }
    }

    fn apply_incident(&mut self, r: &Record) {
        let book = &mut self.health;
        match &r.event {
            Event::IncidentOpened { incident } => {
                for id in &incident.findings {
                    if let Some(f) = book.findings.get_mut(id) {
                        Arc::make_mut(f).incident = Some(incident.id);
                    }
                }
                book.index.incidents.insert(incident.id);
                book.incidents.insert(incident.id, Arc::new((**incident).clone()));
            }
            Event::IncidentGrew { id, findings, severity, summary } => {
                for f in findings {
                    if let Some(f) = book.findings.get_mut(f) {
                        Arc::make_mut(f).incident = Some(*id);
                    }
                }
                let Some(i) = book.incidents.get_mut(id) else { return };
                let i = Arc::make_mut(i);
                let room = INCIDENT_FINDINGS.saturating_sub(i.findings.len());
                i.findings.extend(findings.iter().take(room));
                i.count = i.count.saturating_add(findings.len() as u64);
                i.severity = *severity;
                i.summary.clone_from(summary);
            }
            Event::IncidentNoted { id, text } => {
                let Some(i) = book.incidents.get_mut(id) else { return };
                let i = Arc::make_mut(i);
                if i.notes.len() >= NOTES_KEPT {
                    i.notes.remove(0);
                }
                i.notes.push(Note { at: r.at, by: r.actor.clone(), text: text.clone() });
            }
            Event::IncidentOwned { id, owner } => {
                let Some(i) = book.incidents.get_mut(id) else { return };
                let at = r.at;
                Arc::make_mut(i).owner = owner.clone().map(|who| Owner { who, at });
            }
            Event::IncidentClosed { id, why, part_of } => {
                let Some(i) = book.incidents.get_mut(id).map(Arc::make_mut) else { return };
                i.closed = Some(Closed { at: r.at, why: why.clone() });
                i.part_of = *part_of;
                book.index.incidents.remove(id);
                book.index.closed_incidents.insert((r.at, *id));
            }
            _ => {}
        }
        while book.index.closed_incidents.len() > INCIDENTS_KEPT {
            if let Some((_, old)) = book.index.closed_incidents.pop_first() {
                book.incidents.remove(&old);
            }
        }
    }

    fn apply_remediation(&mut self, r: &Record) -> Result<(), ApplyError> {
        let book = &mut self.health;
        let id = match &r.event {
            Event::RemediationChosen { remediation } => {
                if let Some(f) = book.findings.get_mut(&remediation.finding) {
                    Arc::make_mut(f).remediation = Some(remediation.id);
                }
                book.remediations.insert(remediation.id, Arc::new((**remediation).clone()));
                if remediation.action.takes_node() {
                    let asked = &mut book.automation.asked;
                    asked.push_back((r.at, remediation.node.clone()));
                    // Enough to recognize a storm in any fleet.
                    while asked.len() > ASKED_KEPT
                        || asked.front().is_some_and(|(t, _)| r.at.since(*t) >= Span::hours(1))
                    {
                        asked.pop_front();
                    }
                }
                remediation.id
            }
            Event::RemediationStepped { id, step, why, until, act, held } => {
                let Some(m) = book.remediations.get_mut(id) else { return Ok(()) };
                let m = Arc::make_mut(m);
                let from = m.step;
                m.step = *step;
                let was = std::mem::replace(&mut m.why, why.clone());
                m.chosen_why = held.then(|| m.chosen_why.take().unwrap_or(was));
                // It waits for as long as it did before: only the reason in words is another.
                if from != *step || !held {
                    m.since = r.at;
                }
                m.until = *until;
                m.act = act.or(m.act);
                if m.taken.len() < STEPS_KEPT && !held {
                    m.taken.push((r.at, *step));
                }
                if from == RemediationStep::Proposed && m.action.takes_node() && !held {
                    let taken = &mut book.automation.taken;
                    taken.push_back((r.at, m.node.clone()));
                    while taken.front().is_some_and(|(t, _)| r.at.since(*t) >= Span::hours(1)) {
                        taken.pop_front();
                    }
                }
                *id
            }
            Event::RemediationApproved { id, by } => {
                let Some(m) = book.remediations.get_mut(id) else { return Ok(()) };
                let m = Arc::make_mut(m);
                m.approved = Some(by.clone());
                m.begun_by_operator |= m.step == RemediationStep::Proposed;
                *id
            }
            Event::RemediationEnded { id, outcome, why, .. } => {
                let Some(m) = book.remediations.get_mut(id) else { return Ok(()) };
                let m = Arc::make_mut(m);
                m.step = RemediationStep::Ended;
                m.outcome = Some(*outcome);
                m.why.clone_from(why);
                m.since = r.at;
                m.until = None;
                *id
            }
            _ => return Ok(()),
        };
        let Some(m) = book.remediations.get(&id).cloned() else { return Ok(()) };
        book.index.remediation(&m);
        while book.index.ended_remediations.len() > REMEDIATIONS_KEPT {
            if let Some((_, old)) = book.index.ended_remediations.pop_first()
                && let Some(old) = book.remediations.remove(&old)
            {
                book.index.forget_remediation(&old);
            }
        }
        // The heaviest that goes on is the node's.
        let live = book.remediations_of(&m.node).max_by_key(|m| (m.action, m.id)).map(|m| m.id);
        let noted = m.outcome == Some(RemediationOutcome::Noted);
        if noted || self.nodes.get(&m.node).is_none_or(|n| n.remediation == live) {
            // Whether new work avoids a node follows from its remediations, too.
            self.follow_avoidance(&m.node);
            return Ok(());
        }
        self.node(r.seq, &m.node, |n| n.remediation = live)
    }

    fn act_ended(&mut self, id: u64, end: ActEnd) {
        let book = &mut self.health;
        let Some(a) = book.acts.get_mut(&id) else { return };
        let at = end.at;
        Arc::make_mut(a).ended = Some(end);
        book.index.acts.remove(&id);
        book.index.ended_acts.insert((at, id));
        while book.index.ended_acts.len() > ACTS_KEPT {
            if let Some((_, old)) = book.index.ended_acts.pop_first()
                && let Some(old) = book.acts.remove(&old)
            {
                book.index.forget_act(&old);
            }
        }
    }

    fn breaker_set(&mut self, r: &Record, b: &Breaker) -> Result<(), ApplyError> {
        self.health.breakers.insert(b.entity.clone(), Arc::new(b.clone()));
        // Also those that stood behind it before they were moved elsewhere.
        let of_it =
            |n: &&Arc<Node>| in_group(n, &b.entity) || n.breaker.as_ref() == Some(&b.entity);
        let group: Vec<NodeName> =
            self.nodes.values().filter(of_it).map(|n| n.name.clone()).collect();
        for name in group {
            self.follow_breakers(r, &name)?;
        }
        Ok(())
    }

    /// Nodes were moved, or say that they are something else: other breakers may hold them.
    pub(crate) fn follow_all_breakers(&mut self, r: &Record) -> Result<(), ApplyError> {
        if self.health.breakers.is_empty() {
            return Ok(());
        }
        for name in self.nodes.keys().cloned().collect::<Vec<_>>() {
            self.follow_breakers(r, &name)?;
        }
        Ok(())
    }

    /// A node knows which open breaker keeps work away from it.
    pub(crate) fn follow_breakers(
        &mut self,
        r: &Record,
        node: &NodeName,
    ) -> Result<(), ApplyError> {
        let Some(n) = self.nodes.get(node) else { return Ok(()) };
        let open = |b: &&Arc<Breaker>| b.state != BreakerState::Closed && in_group(n, &b.entity);
        let by = self.health.breakers.values().find(open).map(|b| b.entity.clone());
        if n.breaker == by {
            return Ok(());
        }
        self.node(r.seq, node, |n| n.breaker = by)
    }
}

/// Is a node part of what a breaker is about?
pub(crate) fn in_group(n: &Node, entity: &Entity) -> bool {
    match entity {
        Entity::Node(name) => n.name == *name,
        Entity::Domain(level, path) => {
            // Compared part by part: this is asked of every node of the fleet.
            let mut rest = Some(path.as_str());
            for part in n.location.path(&n.name, *level) {
                rest = rest.and_then(|r| r.strip_prefix(part));
                rest = rest.map(|r| r.strip_prefix('/').unwrap_or(r));
            }
            *level != Level::Node && rest == Some("")
        }
        Entity::Feed(f) => n.location.feed == *f,
        Entity::Pool(p) => n.pool() == p,
        Entity::Sku(s) => n.sku() == s,
        Entity::Version(c, v) => n.inventory.versions.get(c) == Some(v),
        _ => false,
    }
}

/// An attempt's verdict changed: the counts of failures follow.
fn recount(counts: &mut (u32, u32), from: Verdict, to: Verdict) {
    match from {
        Verdict::Application => counts.0 = counts.0.saturating_sub(1),
        Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown => {
            counts.1 = counts.1.saturating_sub(1);
        }
        _ => {}
    }
    match to {
        Verdict::Application => counts.0 = counts.0.saturating_add(1),
        Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown => {
            counts.1 = counts.1.saturating_add(1);
        }
        _ => {}
    }
}
