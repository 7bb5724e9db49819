//! Jobs and unhealthy hardware: what caused an attempt's end, and how long recovery took.

use super::findings::CLOCK;
use super::work::LateEndReport;
use crate::Engine;
use crate::state::PAST_NODES;
use muster_health::attribute::{
    AFTER, Attribution, BEFORE, EndedAttempt, FINDINGS_MAX, NumberedFinding, attribute,
    cause_order, explained_late, names_cause,
};
use muster_health::modes;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::fault::FaultClass;
use muster_model::finding::{Finding, ObservedFinding};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{
    Attempt, CAUSE_WINDOW, Exit, Job, PastAttempt, SlotEnd, StopReason, Verdict,
};
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::topology::Level;
use muster_model::units::{Span, Time};
use std::borrow::Cow;
use std::collections::BTreeSet;
use std::sync::Arc;

/// What a detector reports is so until it says that it is over. It repeats itself every ten
/// minutes; one that is silent for longer than this is not believed any more.
const STANDS: Span = Span::mins(15);

impl Engine {
    /// Whose doing the end of an attempt was, from what is known of its nodes.
    pub(crate) fn attributed(
        &self,
        job: &Job,
        nodes: &[NodeName],
        why: &StopReason,
        first: Verdict,
    ) -> Attribution {
        // It is known what ended it, whatever else is wrong with its nodes.
        if matches!(why, StopReason::SlotFailed { end, .. } if end.is_agent_anew() || end.was_restored())
        {
            return Attribution { verdict: first, findings: Vec::new(), reason: why.to_string() };
        }
        let key = job.attempt_key().unwrap_or(AttemptKey { job: job.id, attempt: job.attempts });
        let attempt = job.attempt.as_ref();
        let freed_at = attempt.and_then(|a| a.freed_at);
        let at = freed_at.unwrap_or(self.state.now);
        let ended = EndedAttempt {
            // With its last rank, however long its cause is looked for.
            at,
            began_at: attempt.map_or(at, |a| a.started_at.unwrap_or(a.placed_at)),
            verdict: first,
            nodes,
            reported_at: freed_at,
            by_clock: by_clock(why),
            as_before: self.ended_as_before(key, Some(why)),
        };
        let placement = job.attempt.as_ref().map(|a| &*a.placement);
        self.evaluate(key, &ended, placement, Some(why))
    }

    fn evaluate(
        &self,
        key: AttemptKey,
        ended: &EndedAttempt<'_>,
        placement: Option<&Placement>,
        why: Option<&StopReason>,
    ) -> Attribution {
        // What was asked for is not there or cannot be run: of hardware only disks and file systems
        // can be the cause of that.
        let not_run = why.is_some_and(not_run);
        let places: BTreeSet<Entity> = ended
            .nodes
            .iter()
            .filter_map(|n| self.state.nodes.get(n))
            .flat_map(|n| {
                let at = &n.location;
                [
                    Entity::domain(Level::Leaf, &n.name, at),
                    Entity::domain(Level::Rack, &n.name, at),
                    Entity::Feed(at.feed.clone()),
                ]
            })
            .collect();
        let here: BTreeSet<NodeName> = ended.nodes.iter().cloned().collect();
        let about = |f: &Finding| match &f.seen.entity {
            Entity::Job(j) => *j == key.job,
            Entity::Storage(_) => true,
            e => e.node().map_or_else(|| places.contains(e), |n| here.contains(n)),
        };
        // A GPU that the attempt did not hold did not end it, unless it was stopped for that.
        let beside = |f: &Finding| match &f.seen.entity {
            Entity::Gpu(node, gpu) => !self.allocated_gpu(key, placement, node, *gpu),
            _ => false,
        };
        let named = |f: &Finding| why.and_then(finding_behind) == Some(f.id);
        let can = |f: &Finding, seen: &ObservedFinding| {
            let its = named(f) || seen.attempt == Some(key);
            (!not_run || of_storage(seen))
                && (its || !(beside(f) || self.after_return(seen, ended)))
        };
        // However old it is, what is open counts. What was closed earlier was last seen earlier.
        let book = &self.state.health;
        let closed = book.index.closed_findings.range((ended.at - BEFORE, 0)..);
        let closed = closed.filter_map(|(_, id)| book.findings.get(id));
        let known: Vec<(&Finding, Cow<'_, ObservedFinding>)> = book
            .open()
            .chain(closed)
            .map(|f| &**f)
            .filter(|f| about(f))
            .map(|f| (f, self.seen_by(f, ended)))
            .filter(|(f, seen)| can(f, seen))
            .collect();
        let known: Vec<NumberedFinding<'_>> = known
            .iter()
            .map(|(f, seen)| NumberedFinding { id: f.id, seen, opened_at: f.opened_at })
            .collect();
        attribute(ended, key, &known)
    }

    /// Was it found on a node that was lost, or restarted, after an attempt had ended there? What
    /// begins on it afterwards has nothing to do with that end.
    fn after_return(&self, seen: &ObservedFinding, ended: &EndedAttempt<'_>) -> bool {
        let Some(n) = seen.entity.node().and_then(|n| self.state.nodes.get(n)) else {
            return false;
        };
        n.changed_at > ended.at && seen.first_seen >= n.changed_at
    }

    /// Did an attempt hold a GPU? Where its placement is not known any more, one that wanted every
    /// GPU of its nodes did.
    fn allocated_gpu(
        &self,
        key: AttemptKey,
        placement: Option<&Placement>,
        node: &NodeName,
        gpu: u32,
    ) -> bool {
        if let Some(p) = placement {
            let mut here = p.slots.iter().filter(|s| s.node == *node);
            return here.any(|s| s.gpus.iter().any(|held| held == gpu));
        }
        let there = self.state.nodes.get(node).map_or(0, |n| n.gpu_set().len());
        let job = self.state.jobs.get(&key.job);
        job.is_some_and(|j| j.groups.iter().all(|g| g.part.is_none() && g.gpus >= there))
    }

    /// What is known of a finding around an end, with repeats that are not written down yet.
    fn seen_by<'a>(&'a self, f: &'a Finding, ended: &EndedAttempt<'_>) -> Cow<'a, ObservedFinding> {
        let seen = self.work.repeats.get(&f.id).map_or(&f.seen, |r| &r.seen);
        if self.may_be_as_old(f, seen, ended) {
            return Cow::Owned(ObservedFinding { first_seen: ended.at, ..seen.clone() });
        }
        // A lost node is silent until it is heard again, which closes the finding.
        let silent = seen.kind == FailureMode::NODE_LOST;
        let repeated = !f.inferred && seen.last_seen + STANDS >= ended.at;
        let stands = f.closed.is_none() && (silent || repeated);
        if !stands || seen.last_seen >= ended.at {
            return Cow::Borrowed(seen);
        }
        Cow::Owned(ObservedFinding { last_seen: ended.at, ..seen.clone() })
    }

    /// May what a node reported have begun before an end, although it is dated later? Only where
    /// the node reported that end as late, and where nobody knows when it began.
    fn may_be_as_old(&self, f: &Finding, seen: &ObservedFinding, ended: &EndedAttempt<'_>) -> bool {
        if ended.by_clock || !f.inferred || seen.first_seen <= ended.at {
            return false;
        }
        let late = seen.entity.node().and_then(|n| self.work.reported_late.get(n));
        let as_late = late.is_some_and(|l| l.ended_at <= ended.at && f.opened_at <= l.heard_at);
        let missing = FailureMode::is_one_of(
            &seen.kind,
            &[FailureMode::GPU_MISSING, FailureMode::NIC_MISSING],
        );
        // An inventory says what is not there now; an older fault is dated so much before its word.
        let undated =
            (missing && seen.first_seen == f.opened_at) || seen.first_seen + CLOCK == f.opened_at;
        as_late && undated
    }

    /// A node reports ranks that ended a while ago, because no server heard it. What else it
    /// reports around now may be as old.
    pub(crate) fn note_late_end(&mut self, node: &NodeName, ended_at: Time) {
        let now = self.state.now;
        if now.since(ended_at) <= CLOCK {
            return;
        }
        let first = self.late_since(node).map_or(ended_at, |t| t.min(ended_at));
        let late = LateEndReport { ended_at: first, heard_at: now };
        self.work.reported_late.insert(node.clone(), late);
    }

    /// When the first of those ranks ended whose end a node reported late within the last minutes.
    pub(super) fn late_since(&self, node: &NodeName) -> Option<Time> {
        let late = self.work.reported_late.get(node)?;
        (self.state.now.since(late.heard_at) <= AFTER).then_some(late.ended_at)
    }

    /// Something was found, or seen again. Where it explains the end of an attempt, a job that is
    /// ending is settled; of one that has ended only the verdict changes: nothing starts it again
    /// but somebody's word. What is seen again comes often: then only attempts count that are
    /// remembered as having failed, and not all that ended lately.
    pub(super) fn attribute_late(&mut self, seen: &ObservedFinding, again: bool) {
        if !names_cause(seen) {
            return;
        }
        self.settle_ending(seen.entity.node());
        let Some(node) = seen.entity.node() else { return };
        let now = self.state.now;
        let lately = |job: JobId, p: &PastAttempt| {
            let key = AttemptKey { job, attempt: p.no };
            now.since(p.ended_at) <= AFTER
                && matches!(p.verdict, Verdict::Application | Verdict::Unknown)
                && (p.nodes.contains(node) || self.ended_there(key, p, seen, node))
        };
        let tried: BTreeSet<JobId> = if again {
            self.work.failed.keys().map(|k| k.job).collect()
        } else {
            self.state.index.jobs_attempted_since(now - AFTER).collect()
        };
        for job in self.whose_last_attempt(&tried, lately) {
            let Some(p) = job.past.last().cloned() else { continue };
            let key = AttemptKey { job: job.id, attempt: p.no };
            let placement = self.work.failed.get(&key).map(|(_, p)| &**p);
            let nodes: Vec<NodeName> = match placement {
                Some(all) => all.slots.iter().map(|s| s.node.clone()).collect(),
                None if p.nodes.contains(node) => p.nodes.clone(),
                None => p.nodes.iter().chain([node]).cloned().collect(),
            };
            let ended = EndedAttempt {
                at: p.freed(),
                began_at: p.started_at.unwrap_or(p.placed_at),
                verdict: p.verdict,
                nodes: &nodes,
                reported_at: p.freed_at,
                by_clock: p.stopped_for.as_ref().is_some_and(by_clock),
                as_before: self.ended_as_before(key, p.stopped_for.as_ref()),
            };
            let found = self.evaluate(key, &ended, placement, p.stopped_for.as_ref());
            let better = match found.verdict {
                Verdict::Infrastructure => true,
                // Nobody knew why it ended; now somebody does.
                Verdict::Application | Verdict::Platform => p.verdict == Verdict::Unknown,
                _ => false,
            };
            if !better || found.findings.is_empty() {
                continue;
            }
            let Attribution { verdict, findings, reason } = found;
            self.write_repeats(&findings);
            let reason = explained_late(&p.reason, &reason);
            let event = Event::AttemptAttributed { key, verdict, findings, reason };
            self.emit(Some(&job.project), event);
        }
    }

    /// A node is lost, and the finding of that was opened after these jobs were settled: an attempt that
    /// ended with the loss rests on that finding, too. So does one that ended shortly before by the loss
    /// of another of its nodes, when this one was silent already.
    pub(crate) fn attribute_to_loss(&mut self, node: &NodeName, jobs: &[JobId]) {
        let (now, book) = (self.state.now, &self.state.health);
        let entity = Entity::Node(node.clone());
        let Some(loss) = book.open_of(&entity, FailureMode::NODE_LOST.code()).cloned() else {
            return;
        };
        let rests = |job: JobId, p: &PastAttempt| {
            let key = AttemptKey { job, attempt: p.no };
            let at_once = p.ended_at >= now && jobs.contains(&job);
            let shortly_before = now.since(p.ended_at) <= AFTER
                && loss.seen.first_seen <= p.freed()
                && (p.nodes.contains(node) || self.ended_there(key, p, &loss.seen, node));
            p.verdict == Verdict::Infrastructure
                && matches!(p.stopped_for, Some(StopReason::NodeLost { .. }))
                && !p.findings.contains(&loss.id)
                && (at_once || shortly_before)
        };
        let lately = self.state.index.jobs_attempted_since(now - AFTER);
        let tried: BTreeSet<JobId> = jobs.iter().copied().chain(lately).collect();
        for job in self.whose_last_attempt(&tried, rests) {
            let Some(p) = job.past.last() else { continue };
            let book = &self.state.health;
            let before = p.findings.iter().filter_map(|id| book.findings.get(id));
            let mut known: Vec<NumberedFinding<'_>> = before
                .chain([&loss])
                .map(|f| NumberedFinding { id: f.id, seen: &f.seen, opened_at: f.opened_at })
                .collect();
            known.sort_by_key(cause_order);
            let findings: Vec<u64> = known.iter().take(FINDINGS_MAX).map(|k| k.id).collect();
            // There are more than are kept, and this one is not among the first.
            if findings == p.findings {
                continue;
            }
            let key = AttemptKey { job: job.id, attempt: p.no };
            let (verdict, reason) = (p.verdict, p.reason.clone());
            let event = Event::AttemptAttributed { key, verdict, findings, reason };
            self.emit(Some(&job.project), event);
        }
    }

    /// Those of these jobs of which this is so of the last attempt that ended.
    fn whose_last_attempt(
        &self,
        jobs: &BTreeSet<JobId>,
        is: impl Fn(JobId, &PastAttempt) -> bool,
    ) -> Vec<Arc<Job>> {
        let known = jobs.iter().filter_map(|id| self.state.jobs.get(id));
        known.filter(|j| j.past.last().is_some_and(|p| is(j.id, p))).cloned().collect()
    }

    /// Did the attempt before this one end with the same exit code, by itself and with nothing found
    /// around its end?
    fn ended_as_before(&self, key: AttemptKey, why: Option<&StopReason>) -> bool {
        let Some(code) = why.and_then(exit_code) else { return false };
        let job = self.state.jobs.get(&key.job);
        let before = job.and_then(|j| j.past.iter().rev().find(|p| p.no < key.attempt));
        before.is_some_and(|p| {
            p.verdict == Verdict::Application
                && p.findings.is_empty()
                && p.stopped_for.as_ref().and_then(exit_code) == Some(code)
        })
    }

    /// Had an attempt that ended this node, although it is not among the first that are kept of it? All
    /// are known for as long as its cause may change, and after a restart of the server the node where
    /// a finding names the attempt.
    fn ended_there(
        &self,
        key: AttemptKey,
        p: &PastAttempt,
        seen: &ObservedFinding,
        node: &NodeName,
    ) -> bool {
        p.nodes.len() >= PAST_NODES
            && match self.work.failed.get(&key) {
                Some((_, all)) => all.slots.iter().any(|s| s.node == *node),
                None => seen.attempt == Some(key),
            }
    }

    /// An attempt failed: what it held is remembered for as long as its cause may change.
    pub(crate) fn remember_failed(&mut self, key: AttemptKey, a: &Attempt) {
        let now = self.state.now;
        self.work.failed.retain(|_, (at, _)| now.since(*at) <= AFTER);
        self.work.failed.insert(key, (now, a.placement.clone()));
    }

    /// Jobs whose end is held back may have their cause now: those that ran on a node, or all.
    fn settle_ending(&mut self, node: Option<&NodeName>) {
        let now = self.state.now;
        let here = |j: &Job| {
            let mut slots = j.attempt.iter().flat_map(|a| &a.placement.slots);
            node.is_none_or(|n| slots.any(|s| s.node == *n))
        };
        let ending: BTreeSet<JobId> = self
            .state
            .index
            .wake_between(now, now + CAUSE_WINDOW)
            .filter_map(|id| self.state.jobs.get(&id))
            .filter(|j| j.ending_until().is_some() && here(j))
            .map(|j| j.id)
            .collect();
        for id in ending {
            self.conclude_job(id);
        }
    }

    /// An attempt made its first step.
    pub(super) fn first_step(&mut self, key: AttemptKey) {
        let Some(job) = self.state.jobs.get(&key.job).cloned() else { return };
        // It ended with the attempt that came up then; the first step of a later one says nothing.
        let up = job.attempt.as_ref().and_then(|a| a.started_at);
        let waits = |r: &muster_model::job::Recovery| {
            let back = r.started_at.is_some() && r.started_at == up;
            r.attempt < key.attempt && r.working_at.is_none() && back
        };
        // Only the way back from a failure is measured.
        if job.attempt_key() == Some(key) && job.recovery.as_ref().is_some_and(waits) {
            self.emit(Some(&job.project), Event::AttemptProgressed { key });
        }
    }
}

/// Did a clock end it, and not something that happened?
fn by_clock(why: &StopReason) -> bool {
    matches!(why, StopReason::TimeLimit { .. } | StopReason::Idle { .. })
}

/// The code that a program gave itself, which ended its attempt. A signal is no code.
fn exit_code(why: &StopReason) -> Option<i32> {
    match why {
        StopReason::SlotFailed { end: SlotEnd::Failed { exit }, .. } => exit.code,
        _ => None,
    }
}

/// Could what was asked for not be run at all?
fn not_run(why: &StopReason) -> bool {
    match why {
        StopReason::SlotFailed { end: SlotEnd::Unstartable { .. }, .. } => true,
        StopReason::SlotFailed { end: SlotEnd::Failed { exit }, .. } => {
            Exit::means_not_run(exit.shell_code())
        }
        _ => false,
    }
}

/// The finding that an attempt was stopped for.
fn finding_behind(why: &StopReason) -> Option<u64> {
    match why {
        StopReason::Unhealthy { finding, .. } | StopReason::Hung { finding } => Some(*finding),
        _ => None,
    }
}

/// Is it about disks or file systems?
fn of_storage(seen: &ObservedFinding) -> bool {
    matches!(seen.entity, Entity::Storage(_))
        || modes::mode(&seen.kind).is_some_and(|m| m.class == FaultClass::Storage)
}
