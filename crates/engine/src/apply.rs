//! Folds one record into the state. No policy here: only what the record says.

mod jobs;
mod nodes;

use crate::state::index::Index;
use crate::state::{ApplyError, BookedReservation, LogGeneration, PAST_NODES, State};
use muster_model::event::{Event, Record};
use muster_model::hold::Hold;
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::job::{
    ArrayTask, Attempt, Basis, Job, JobState, Notice, PastAttempt, SlotEnd, SlotState, Stop,
    StopReason, Verdict,
};
use muster_model::names::NodeName;
use muster_model::node::Node;
use muster_model::placement::Placement;
use muster_model::tenant::{Project, Token, TokenUse};
use muster_model::topology::Location;
use muster_model::units::Time;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Changes of leadership remembered.
const LEADS_MAX: usize = 1000;
/// Past attempts kept with a job.
const PAST_MAX: usize = 16;

/// Nodes whose orders an event may change, in any order; a node may be there more than once.
pub(crate) fn touched_by(state: &State, event: &Event, out: &mut Vec<NodeName>) {
    match event {
        Event::JobPlaced { placement, .. } => {
            out.extend(placement.slots.iter().map(|s| s.node.clone()));
        }
        Event::StopOrdered { key, .. }
        | Event::AttemptEnded { key, .. }
        | Event::CheckpointAsked { key } => {
            if let Some(a) = state.jobs.get(&key.job).and_then(|j| j.attempt.as_ref()) {
                out.extend(a.placement.slots.iter().map(|s| s.node.clone()));
            }
        }
        Event::PreflightSet(p) => {
            if let Some(a) = state.jobs.get(&p.key.job).and_then(|j| j.attempt.as_ref()) {
                out.extend(a.placement.slots.iter().map(|s| s.node.clone()));
            }
        }
        Event::NodeBack { node, .. }
        | Event::OrphanGone { node, .. }
        | Event::NodeRetired { node }
        | Event::NodeReconciled { node }
        | Event::QualificationAsked { node, .. }
        | Event::QualificationEnded { node, .. }
        | Event::QualificationCancelled { node, .. } => {
            out.push(node.clone());
        }
        _ => {}
    }
}

impl State {
    /// Folds one record in.
    ///
    /// # Errors
    /// [`ApplyError`] when the record does not follow; then the state must be thrown away.
    pub fn apply(&mut self, r: &Record) -> Result<(), ApplyError> {
        if r.seq != self.seq.next() {
            return Err(ApplyError::NotDense { after: self.seq, got: r.seq });
        }
        self.seq = r.seq;
        self.at = r.at;
        self.now = self.now.max(r.at);
        self.note_history(r);
        self.count_before(r);
        self.apply_event(r)?;
        self.count_after(r);
        self.remember_key(r);
        Ok(())
    }

    #[expect(
        clippy::too_many_lines,
        reason = "one arm per kind of event, each short; splitting hides that all are there"
    )]
    fn apply_event(&mut self, r: &Record) -> Result<(), ApplyError> {
        match &r.event {
            Event::SiteCreated { site } => self.site = Some(site.clone()),
            Event::LeaderChanged { epoch, first_job, .. } => {
                self.epoch = *epoch;
                if let Some(first) = first_job {
                    self.next_job = self.next_job.max(first.0);
                    self.lives.push(LogGeneration { seq: r.seq, at: r.at, epoch: *epoch });
                }
                self.leads.push((r.seq, *epoch));
                if self.leads.len() > LEADS_MAX {
                    self.leads.remove(0);
                }
            }
            Event::JobSubmitted { .. } => self.submitted(r),
            Event::JobHeld { job, by, held_by, .. } => {
                let hold = Hold::from_record(by, held_by.as_ref()).at(r.at);
                self.job(r.seq, *job, |j| j.held = Some(hold))?;
            }
            Event::JobReleased { job, .. } => self.job(r.seq, *job, |j| {
                crate::health::recovery_released(j, r.at);
                j.held = None;
            })?,
            Event::JobPlaced { key, placement } => {
                self.placed(r, *key, placement)?;
            }
            Event::PreflightSet(p) => self.job_in_place(r.seq, p.key.job, |j| {
                if let Some(a) = j.attempt.as_mut().filter(|a| a.no == p.key.attempt) {
                    a.preflight = Some(p.preflight.clone());
                }
            })?,
            Event::SlotStarted { key, node } => {
                self.slot(r, key, node, r.at, |s| {
                    if *s == SlotState::Pending {
                        *s = SlotState::Running;
                    }
                })?;
                // The agent that is heard now runs them.
                let job = self.jobs.get_mut(&key.job).map(Arc::make_mut);
                if let Some(a) = job.and_then(|j| j.attempt.as_mut()) {
                    a.started_from.remove(node);
                }
            }
            Event::SlotEnded { key, node, .. } if self.is_unreported(*key, node) => {
                self.job(r.seq, key.job, |j| {
                    j.unreported.remove(node);
                })?;
            }
            Event::SlotEnded { key, node, end, ended_at } => {
                let at = ended_at.unwrap_or(r.at);
                self.slot(r, key, node, at, |s| {
                    if !matches!(s, SlotState::Ended { .. }) {
                        *s = SlotState::Ended { end: end.clone() };
                    }
                })?;
            }
            Event::SlotLost { key, node } => {
                self.slot(r, key, node, r.at, |s| {
                    if !matches!(s, SlotState::Ended { .. }) {
                        *s = SlotState::Lost;
                    }
                })?;
                // Where its node was not lost it was heard just now.
                let heard = self.nodes.get(node).is_some_and(|n| n.reachable);
                if let Some(job) = self.jobs.get_mut(&key.job)
                    && let Some(a) = &mut Arc::make_mut(job).attempt
                {
                    let now = Some(r.at);
                    a.lost_at = if heard { a.lost_at.max(now) } else { a.lost_at.or(now) };
                }
            }
            Event::AttemptStarted { key, deadline } => self.job_in_place(r.seq, key.job, |j| {
                // One that is being stopped had ended well before that, and this is heard now.
                if j.attempt.as_ref().is_none_or(|a| a.stop.is_none()) {
                    j.state = JobState::Running;
                }
                j.started_at = j.started_at.or(Some(r.at));
                if let Some(a) = &mut j.attempt {
                    a.started_at = Some(r.at);
                    a.deadline = *deadline;
                }
                // What begins with this attempt's own loss is not over with its start.
                if let Some(rec) = j.recovery.as_mut().filter(|rec| rec.attempt != key.attempt) {
                    rec.started_at.get_or_insert(r.at);
                }
            })?,
            // The order that stands, with another fence: it was counted the first time.
            Event::StopOrdered { key, reason, grace, fence_until }
                if self.stops_for(*key, reason) =>
            {
                self.job_in_place(r.seq, key.job, |j| {
                    if let Some(stop) = j.attempt.as_mut().and_then(|a| a.stop.as_mut()) {
                        (stop.grace, stop.fence_until) = (*grace, *fence_until);
                    }
                })?;
            }
            Event::StopOrdered { key, reason, grace, fence_until } => {
                if matches!(reason, StopReason::Moved { .. }) {
                    self.moves.retain(|t| r.at.since(*t) < muster_model::units::Span::hours(1));
                    self.moves.push(r.at);
                }
                let fault = self.health.fault_behind(reason);
                self.job_in_place(r.seq, key.job, |j| {
                    crate::health::recovery_begins(j, key.attempt, reason, fault, r.at);
                    j.state = JobState::Stopping;
                    if let Some(a) = &mut j.attempt {
                        a.stop = Some(Stop {
                            reason: reason.clone(),
                            at: r.at,
                            grace: *grace,
                            fence_until: *fence_until,
                        });
                    }
                })?;
            }
            Event::AttemptEnded { key, verdict, reason } => {
                self.attempt_ended(r, key, *verdict, reason)?;
            }
            Event::JobRequeued { job, reason, not_before, unreported, .. } => {
                self.job(r.seq, *job, |j| {
                    // Whoever is run again after its end comes back from no fault.
                    if j.state.is_final() {
                        crate::health::recovery_given_up(j);
                    }
                    j.state = JobState::Queued;
                    j.reason = Some(reason.clone());
                    j.not_before = *not_before;
                    j.ended_at = None;
                    j.exit_code = None;
                    j.unreported = unreported.iter().cloned().collect();
                })?;
            }
            Event::JobSucceeded { job } => self.job(r.seq, *job, |j| {
                j.state = JobState::Succeeded;
                j.held = None;
                j.reserved_start = None;
                j.ended_at = Some(r.at);
                j.reason = None;
                j.exit_code = Some(0);
            })?,
            Event::JobFailed { job, reason, exit_code } => self.job(r.seq, *job, |j| {
                j.state = JobState::Failed;
                j.held = None;
                j.reserved_start = None;
                j.ended_at = Some(r.at);
                j.reason = Some(reason.clone());
                j.exit_code = Some(*exit_code);
            })?,
            Event::JobCancelled { job, reason } => self.job(r.seq, *job, |j| {
                j.state = JobState::Cancelled;
                j.held = None;
                j.reserved_start = None;
                j.unreported.clear();
                j.ended_at = Some(r.at);
                j.reason = Some(reason.clone());
            })?,
            Event::JobsForgotten { jobs } => {
                for id in jobs {
                    if let Some(job) = self.jobs.remove(id) {
                        self.with_index(|ix, s| {
                            ix.remove(s, &job);
                            ix.waits.forget(&job);
                            ix.payloads.remove(&job);
                        });
                    }
                }
            }
            Event::CheckpointAsked { key } => {
                self.job_in_place(r.seq, key.job, |j| j.checkpoint_asked = Some(r.at))?;
            }
            Event::CheckpointDone { job, checkpoint } => self.job_in_place(r.seq, *job, |j| {
                j.checkpoint = Some(checkpoint.clone());
                j.checkpoint_asked = None;
            })?,
            Event::NodeEnrolled { .. }
            | Event::NodeBack { .. }
            | Event::NodeInventoried { .. }
            | Event::NodeLost { .. }
            | Event::OrphanGone { .. }
            | Event::NodeCordoned { .. }
            | Event::NodeUncordoned { .. }
            | Event::DrainStarted { .. }
            | Event::NodeDrained { .. }
            | Event::NodeReady { .. }
            | Event::NodeRetired { .. }
            | Event::NodeMarked { .. }
            | Event::NodeReconciled { .. }
            | Event::NodeStaged { .. } => self.apply_node(r)?,
            Event::FaultSeen { .. }
            | Event::QualificationAsked { .. }
            | Event::QualificationEnded { .. }
            | Event::QualificationCancelled { .. } => self.apply_hardware(r)?,
            Event::FindingOpened { .. }
            | Event::FindingChanged { .. }
            | Event::FindingClosed { .. }
            | Event::IncidentOpened { .. }
            | Event::IncidentGrew { .. }
            | Event::IncidentClosed { .. }
            | Event::BreakerSet { .. }
            | Event::RemediationChosen { .. }
            | Event::RemediationStepped { .. }
            | Event::RemediationApproved { .. }
            | Event::RemediationEnded { .. }
            | Event::ActAsked { .. }
            | Event::ActEnded { .. }
            | Event::GpusExcluded { .. }
            | Event::ProbationSet { .. }
            | Event::AutomationStopped { .. }
            | Event::AutomationResumed { .. }
            | Event::AttemptAttributed { .. }
            | Event::AttemptProgressed { .. } => self.apply_health(r)?,
            Event::IncidentNoted { .. } | Event::IncidentOwned { .. } => self.apply_health(r)?,
            Event::RunbookSet { .. }
            | Event::RunbookDeleted { .. }
            | Event::RunbookStarted { .. }
            | Event::RunbookStepDone { .. }
            | Event::RunbookWaits { .. }
            | Event::RunbookEnded { .. } => self.apply_runbook(r),
            Event::ObjectivesSet { .. }
            | Event::RoutingSet { .. }
            | Event::SilenceSet { .. }
            | Event::SilenceEnded { .. }
            | Event::CountsReported { .. }
            | Event::ConditionReported { .. }
            | Event::ConditionOver { .. }
            | Event::CertificateSeen { .. }
            | Event::AlertOpened { .. }
            | Event::AlertChanged { .. }
            | Event::AlertClosed { .. }
            | Event::AlertAcknowledged { .. }
            | Event::AlertEscalated { .. }
            | Event::AlertsNotified { .. }
            | Event::ReceiverFailed { .. }
            | Event::AlertsForgotten { .. } => self.apply_slo(r),
            Event::TopologySet { topology } => {
                self.topology = topology.clone();
                let names: Vec<NodeName> = self.nodes.keys().cloned().collect();
                for name in names {
                    let location = topology
                        .nodes
                        .get(&name)
                        .cloned()
                        .unwrap_or_else(|| Location::unplaced(&name));
                    self.node(r.seq, &name, |n| n.location = location)?;
                }
                self.follow_domains();
                self.follow_all_breakers(r)?;
            }
            Event::ProjectCreated { name, description } => {
                let p = Project {
                    name: name.clone(),
                    description: description.clone(),
                    version: r.seq,
                };
                self.projects.insert(name.clone(), p);
                self.index.accounts.add(name);
            }
            Event::TokenCreated { id, name, hash, usage, expires_at } => {
                let token = Token {
                    id: id.clone(),
                    name: name.clone(),
                    hash: hash.clone(),
                    usage: usage.clone(),
                    created_at: r.at,
                    expires_at: *expires_at,
                    version: r.seq,
                };
                self.drop_expired_tokens(r.at);
                self.tokens.insert(id.clone(), token);
            }
            // For people to read; what follows from it is reported by whoever goes by a clock.
            Event::ClockStepped(_) => {}
            Event::TokenRevoked { id } => {
                self.end_token(id);
            }
            Event::StartReserved { job, reserved_start } => {
                self.job(r.seq, *job, |j| {
                    j.reserved_start = Some(reserved_start.clone());
                    j.start_withdrawn = None;
                })?;
            }
            Event::ReservedStartDropped { job, reason } => {
                self.job(r.seq, *job, |j| {
                    // What others made or kept for it was no moment that anybody relies on.
                    let had = j.reserved_start.take();
                    if had.is_some_and(|p| p.basis == Basis::Limits) {
                        j.start_withdrawn = Some(reason.clone());
                    }
                })?;
            }
            Event::NoticeGiven { key, reason, until } => {
                let notice = Notice { reason: reason.clone(), at: r.at, until: *until };
                self.job_in_place(r.seq, key.job, |j| {
                    if let Some(a) = &mut j.attempt {
                        a.notice = Some(notice);
                    }
                })?;
            }
            Event::NoticeWithdrawn { key, .. } => self.job_in_place(r.seq, key.job, |j| {
                if let Some(a) = &mut j.attempt {
                    a.notice = None;
                }
            })?,
            Event::JobResized { job, nodes } => {
                self.job(r.seq, *job, |j| j.size = Some(*nodes))?;
            }
            Event::JobUpdated(u) => {
                self.job(r.seq, u.job, |j| {
                    u.apply(&mut j.spec);
                    if let (Some(a), Some(_)) = (&mut j.attempt, u.deadline) {
                        a.deadline = u.deadline;
                    }
                })?;
            }
            Event::IdleWarned { job, .. } => {
                self.job_in_place(r.seq, *job, |j| j.idle_warned = Some(r.at))?;
            }
            Event::PolicySet { policy } => {
                self.policy = policy.clone();
                self.with_index(Index::policy_changed);
            }
            Event::QuotasSet { quotas } => {
                self.quotas = quotas.clone();
                self.with_index(Index::policy_changed);
            }
            Event::ReservationSet { reservation, nodes } => {
                let booked = BookedReservation {
                    reservation: reservation.clone(),
                    nodes: nodes.clone(),
                    version: r.seq,
                };
                self.reservations.insert(reservation.name.clone(), booked);
                self.with_index(Index::reservations_changed);
            }
            Event::ReservationDeleted { name } => {
                self.reservations.remove(name);
                self.with_index(Index::reservations_changed);
            }
            Event::SecretSet { project, name } => {
                self.secrets.insert((project.clone(), name.clone()));
            }
            Event::SecretDeleted { project, name } => {
                self.secrets.remove(&(project.clone(), name.clone()));
            }
        }
        Ok(())
    }

    fn placed(
        &mut self,
        r: &Record,
        key: AttemptKey,
        placement: &Arc<Placement>,
    ) -> Result<(), ApplyError> {
        let reserved_start = self.jobs.get(&key.job).and_then(|j| j.reserved_start.as_ref());
        if let Some(p) = reserved_start.filter(|p| p.basis == Basis::Limits) {
            if r.at <= p.at {
                self.reserved_starts.on_time += 1;
                self.reserved_starts.early_ms += p.at.since(r.at).0;
            } else {
                self.reserved_starts.late += 1;
                self.reserved_starts.late_ms += r.at.since(p.at).0;
            }
        }
        self.job(r.seq, key.job, |j| {
            j.state = JobState::Starting;
            j.attempts = key.attempt;
            j.attempt = Some(Attempt {
                no: key.attempt,
                slots: vec![SlotState::Pending; placement.slots.len()],
                placement: placement.clone(),
                placed_at: r.at,
                started_at: None,
                deadline: None,
                stop: None,
                notice: None,
                preflight: None,
                freed_at: None,
                last_end: None,
                started_from: BTreeMap::new(),
                lost_at: None,
            });
            j.reserved_start = None;
            j.start_withdrawn = None;
            j.size = None;
            j.idle_warned = None;
            j.unreported.clear();
            crate::health::recovery_placed(j, r.at);
        })?;
        self.use_changes(r, key.job, placement, None);
        Ok(())
    }

    fn submitted(&mut self, r: &Record) {
        let Event::JobSubmitted {
            id,
            name,
            project,
            user,
            spec,
            groups,
            depends,
            array,
            held,
            payload_bytes,
        } = &r.event
        else {
            return;
        };
        let count = u32::try_from(array.len().max(1)).unwrap_or(u32::MAX);
        for n in 0..count {
            let job_id = JobId(id.0 + u64::from(n));
            let task = array.get(n as usize);
            let job = Job {
                id: job_id,
                name: name.clone(),
                project: project.clone(),
                user: user.clone(),
                spec: spec.clone().into(),
                groups: groups.clone(),
                payload: *id,
                payload_bytes: *payload_bytes,
                array: task.map(|&index| ArrayTask { parent: *id, index, count }),
                depends: depends.clone(),
                state: JobState::Queued,
                held: held.then(|| Hold::asked(&r.actor).at(r.at)),
                submitted_at: r.at,
                not_before: muster_model::units::Time(0),
                started_at: None,
                ended_at: None,
                reason: None,
                exit_code: None,
                attempt: None,
                past: Vec::new(),
                attempts: 0,
                infrastructure_failures: 0,
                application_failures: 0,
                checkpoint: None,
                checkpoint_asked: None,
                reserved_start: None,
                start_withdrawn: None,
                size: None,
                preemptions: 0,
                idle_warned: None,
                recovery: None,
                unhealthy_nodes: Vec::new(),
                recovered: None,
                unreported: BTreeSet::new(),
                version: r.seq,
            };
            self.with_index(|ix, s| {
                ix.arrived(&job);
                ix.add(s, &job);
            });
            self.jobs.insert(job_id, Arc::new(job));
        }
        self.next_job = self.next_job.max(id.0 + u64::from(count));
    }

    /// Runs `f` on the index while it looks at the state. The empty one that stands in its place
    /// meanwhile is used again: to make and to drop one takes longer than most changes.
    pub(crate) fn with_index(&mut self, f: impl FnOnce(&mut Index, &State)) {
        let empty = self.spare.take().unwrap_or_default();
        let mut ix = std::mem::replace(&mut self.index, empty);
        f(&mut ix, self);
        self.spare = Some(std::mem::replace(&mut self.index, ix));
    }

    /// Does a job that waits want to know how the ranks of its last attempt ended on a node?
    fn is_unreported(&self, key: AttemptKey, node: &NodeName) -> bool {
        let waits = |j: &&Arc<Job>| j.attempt.is_none() && j.attempts == key.attempt;
        let job = self.jobs.get(&key.job).filter(waits);
        job.is_some_and(|j| j.unreported.contains(node))
    }

    /// Is the attempt being stopped for this very reason already?
    fn stops_for(&self, key: AttemptKey, reason: &StopReason) -> bool {
        let job = self.jobs.get(&key.job).filter(|j| j.state == JobState::Stopping);
        let attempt = job.and_then(|j| j.attempt.as_ref()).filter(|a| a.no == key.attempt);
        attempt.and_then(|a| a.stop.as_ref()).is_some_and(|s| s.reason == *reason)
    }

    /// Changes the slots of an attempt on one node. Costs what changes: a gang of thousands
    /// reports one node at a time.
    fn slot(
        &mut self,
        r: &Record,
        key: &AttemptKey,
        node: &NodeName,
        at: Time,
        f: impl Fn(&mut SlotState),
    ) -> Result<(), ApplyError> {
        let seq = r.seq;
        let what = || format!("attempt {key} on {node}");
        let mine = self.slots_on(key.job, node).to_vec();
        let arc = self.jobs.get_mut(&key.job).ok_or_else(|| unknown(seq, what()))?;
        let there = |a: &&Attempt| {
            let all = &a.placement.slots;
            a.no == key.attempt && (!mine.is_empty() || all.iter().any(|s| s.node == *node))
        };
        if arc.attempt.as_ref().filter(there).is_none() {
            return Err(unknown(seq, what()));
        }
        let job = Arc::make_mut(arc);
        job.version = seq;
        let gone = |s: &SlotState| matches!(s, SlotState::Ended { .. });
        let mut last = false;
        for i in mine {
            let Some(a) = &mut job.attempt else { break };
            let before = a.slots[i].clone();
            last |= before == SlotState::Lost;
            let mut after = before.clone();
            f(&mut after);
            if crate::state::index::live(&before) && !crate::state::index::live(&after) {
                self.index.slot_gone(job, i);
            }
            last |= self.index.slot_changed(key.job, node, i, (&before, &after));
            if let Some(a) = &mut job.attempt {
                if gone(&after) && !gone(&before) {
                    a.last_end = a.last_end.max(Some(at));
                }
                a.slots[i] = after;
            }
        }
        // Nothing is allocated to it from here on, however long its end takes to be settled.
        let mut freed = None;
        if last
            && let Some(a) = &mut job.attempt
            && a.freed_at.is_none()
            && a.slots.iter().all(gone)
        {
            a.freed_at = a.last_end.or(Some(r.at));
            freed = Some((a.placement.clone(), a.last_end.unwrap_or(r.at)));
        }
        if last && job.attempt.as_ref().is_some_and(|a| a.stop.is_some()) {
            self.index.last_slot_gone(job);
        }
        if let Some((placement, at)) = freed {
            self.index.cluster.end(key.job, |_| false);
            self.use_changes(r, key.job, &placement, Some(at));
        }
        Ok(())
    }

    fn attempt_ended(
        &mut self,
        r: &Record,
        key: &AttemptKey,
        verdict: Verdict,
        reason: &str,
    ) -> Result<(), ApplyError> {
        let ends = self.jobs.get(&key.job).and_then(|j| j.attempt.as_ref());
        let freed_at = ends.and_then(|a| a.freed_at);
        if let Some(p) = ends.filter(|_| freed_at.is_none()).map(|a| a.placement.clone()) {
            self.use_changes(r, key.job, &p, Some(r.at));
        }
        let freed = freed_at.unwrap_or(r.at);
        self.exposed(key, verdict, freed);
        // Work that was cancelled or lost says nothing about how long its like will run.
        if matches!(verdict, Verdict::Success | Verdict::Application) {
            self.learn(freed, key.job);
        }
        self.job_anew(r.seq, key.job, |j| {
            let Some(a) = j.attempt.take() else { return };
            let own = j.recovery.is_some_and(|rec| rec.attempt == key.attempt);
            if own && verdict == Verdict::Success {
                // Its work was whole when it was given up: there is nothing to come back from.
                crate::health::recovery_given_up(j);
            } else if let Some(rec) = j.recovery.as_mut().filter(|_| own) {
                rec.drained_at = Some(freed.max(rec.decided_at));
            }
            j.past.push(PastAttempt {
                no: a.no,
                nodes: a.placement.slots.iter().take(PAST_NODES).map(|s| s.node.clone()).collect(),
                placed_at: a.placed_at,
                started_at: a.started_at,
                ended_at: r.at,
                freed_at,
                stopped_at: a
                    .up_until()
                    .filter(|t| verdict != Verdict::Success && freed_at.is_none_or(|f| *t < f)),
                verdict,
                findings: Vec::new(),
                reason: reason.to_string(),
                // One whose ranks had all ended well before the order reached them was not stopped.
                stopped_for: a
                    .stop
                    .as_ref()
                    .filter(|_| verdict != Verdict::Success)
                    .map(|s| s.reason.clone()),
            });
            if j.past.len() > PAST_MAX {
                j.past.remove(0);
            }
            j.checkpoint_asked = None;
            // A drained node is the operator's doing, in logs of earlier versions too, and a rank's
            // own failure is the job's.
            match (verdict, a.stop.map(|s| s.reason)) {
                (Verdict::Infrastructure, Some(StopReason::Drain { .. })) => {}
                (Verdict::Infrastructure | Verdict::Platform | Verdict::Unknown, _) => {
                    j.infrastructure_failures += 1;
                }
                (Verdict::Application, _) => j.application_failures += 1,
                (Verdict::Scheduler, Some(StopReason::Preempted { .. })) => {
                    j.preemptions += 1;
                }
                (Verdict::Success | Verdict::Operator | Verdict::Scheduler, _) => {}
            }
        })
    }

    /// Changes a node and keeps the index in step.
    pub(crate) fn node(
        &mut self,
        seq: Seq,
        name: &NodeName,
        f: impl FnOnce(&mut Node),
    ) -> Result<(), ApplyError> {
        let arc = self.nodes.get_mut(name).ok_or_else(|| unknown(seq, format!("node {name}")))?;
        let node = Arc::make_mut(arc);
        f(node);
        node.version = seq;
        let (node, avoided) = (arc.clone(), self.avoids(name));
        self.index.node_changed(&node, avoided);
        Ok(())
    }

    /// A job ran to its end, or to its limit: its user's waiting jobs may run as long.
    fn learn(&mut self, at: Time, job: JobId) {
        let Some(j) = self.jobs.get(&job).cloned() else { return };
        let Some(started) = j.attempt.as_ref().and_then(|a| a.started_at) else { return };
        let w = crate::state::index::work(&j);
        let user = (j.project.clone(), j.user.clone());
        self.history.observe(user, w.width(), w.limit_ms(), at.since(started).0);
        self.with_index(|ix, s| {
            ix.cluster.queue.update_estimates(&j.project, &j.user, |w| s.runtime_estimate(w));
        });
    }

    /// A user's use of GPUs changes from now on: more is used, or what ended at a moment is not
    /// any more. What was counted since that moment is taken back.
    fn use_changes(&mut self, r: &Record, job: JobId, placement: &Placement, end: Option<Time>) {
        let Some(j) = self.jobs.get(&job) else { return };
        let milli: u64 = placement
            .slots
            .iter()
            .filter_map(|s| j.groups.get(s.group as usize).map(|g| (s, g)))
            .map(|(s, g)| {
                let sku = self.nodes.get(&s.node).map_or("", |n| n.sku());
                muster_scheduler::work::group_milli(g, sku)
            })
            .sum();
        let half = self.policy.fair_share.half_life;
        let key = (j.project.clone(), j.user.clone());
        let usage = self.usage.entry(key).or_default();
        usage.change(r.at, half, milli, end.is_none());
        if let Some(end) = end.filter(|t| *t < r.at) {
            usage.take_back(end, half, milli);
        }
    }

    fn use_token(&mut self, id: &str) {
        if let Some(t) = self.tokens.get_mut(id)
            && let TokenUse::Join { uses_left: Some(n) } = &mut t.usage
        {
            *n = n.saturating_sub(1);
        }
    }
}

fn unknown(seq: Seq, what: String) -> ApplyError {
    ApplyError::Unknown { seq, what }
}

/// A slot's end that the gang survives.
pub(crate) fn fine(end: &SlotEnd) -> bool {
    matches!(end, SlotEnd::Ok)
}
