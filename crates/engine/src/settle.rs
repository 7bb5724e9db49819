//! Consequences: what follows for a job when something about its attempt has changed.

use crate::Engine;
use crate::apply::fine;
use crate::state::dependencies::Depends;
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{
    Attempt, Exit, Job, JobState, SlotEnd, SlotState, Stop, StopReason, Verdict,
};
use muster_model::names::NodeName;
use muster_model::spec::OnPartition;
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Why a job that waited for ranks of its own waits for a later time than it did.
const WAIT_RENEWED: &str = "its wait continues with another server";

impl Engine {
    /// Draws every conclusion that is due for a job.
    pub(crate) fn conclude_job(&mut self, id: JobId) {
        self.settle(id, true);
    }

    /// The same for a job whose end is held back while its cause is looked for, without looking any
    /// longer: somebody has something to say about it, and what happened stays as it is.
    pub(crate) fn conclude_job_now(&mut self, id: JobId) {
        self.settle(id, false);
    }

    fn settle(&mut self, id: JobId, look: bool) {
        let Some(job) = self.state.jobs.get(&id).cloned() else { return };
        let Some(a) = &job.attempt else { return };
        let key = AttemptKey { job: id, attempt: a.no };
        match &a.stop {
            None => self.settle_going(job, key),
            Some(stop) => self.settle_stopping(&job, a, stop, key, look),
        }
    }

    fn settle_going(&mut self, job: Arc<Job>, key: AttemptKey) {
        let Some(a) = &job.attempt else { return };
        let bad = a.placement.slots.iter().zip(&a.slots).find_map(|(slot, st)| match st {
            SlotState::Ended { end } if !fine(end) => Some((slot.node.clone(), end.clone())),
            _ => None,
        });
        if let Some((node, end)) = bad {
            self.order_stop(&job, StopReason::SlotFailed { node, end }, None);
            self.conclude_job(job.id);
            return;
        }
        let up = |s: &SlotState| matches!(s, SlotState::Running | SlotState::Ended { .. });
        let starts = a.started_at.is_none() && a.slots.iter().all(up);
        let over = a.slots.iter().all(|s| matches!(s, SlotState::Ended { .. }));
        let deadline = job.spec.time_limit.map(|l| self.state.now + l);
        if over {
            self.succeed(&job, a, key);
        } else if starts {
            let project = job.project.clone();
            // Shared, the job would be copied to be changed.
            drop(job);
            self.emit(Some(&project), Event::AttemptStarted { key, deadline });
        }
    }

    fn succeed(&mut self, job: &Arc<Job>, a: &Attempt, key: AttemptKey) {
        let reason = "every rank ended with code 0".to_string();
        let verdict = Verdict::Success;
        // Ranks may have ended well before a report of their start came.
        if a.started_at.is_none() {
            let deadline = job.spec.time_limit.map(|l| self.state.now + l);
            self.emit(Some(&job.project), Event::AttemptStarted { key, deadline });
        }
        self.emit(Some(&job.project), Event::AttemptEnded { key, verdict, reason });
        self.emit(Some(&job.project), Event::JobSucceeded { job: job.id });
        // Who was to make room for its next attempt goes on.
        if job.reserved_start.is_some() {
            self.withdraw_notices(job.id);
        }
        self.work_ended(job, Verdict::Success, "it succeeded");
        self.after_end(a);
    }

    fn settle_stopping(
        &mut self,
        job: &Arc<Job>,
        a: &Attempt,
        stop: &Stop,
        key: AttemptKey,
        look: bool,
    ) {
        if a.slots.iter().any(|s| matches!(s, SlotState::Pending | SlotState::Running)) {
            return;
        }
        // Every rank had ended well before the order reached it: the order ended nothing.
        let well = |s: &SlotState| matches!(s, SlotState::Ended { end } if fine(end));
        if !is_by_person(&stop.reason) && a.slots.iter().all(well) {
            self.succeed(job, a, key);
            return;
        }
        let lost = a.slots.contains(&SlotState::Lost);
        if lost && stop.fence_until.is_none() && job.spec.fenced() && self.all_can_report(a, key) {
            self.fence_by_clock(job, stop, key);
            return;
        }
        let nodes: Vec<NodeName> = a.placement.slots.iter().map(|s| s.node.clone()).collect();
        let found = self.attributed(job, &nodes, &stop.reason, verdict(&stop.reason));
        let again = self.next_step(job, &stop.reason, found.verdict);
        // What its nodes have to say may come a moment after its ranks. Until then it is not
        // called ended: afterwards nothing would start it again.
        if look
            && matches!(again, Next::Failed(_) | Next::Exhausted(_))
            && found.verdict == Verdict::Application
            && found.findings.is_empty()
            && job.ending_until().is_some_and(|t| self.state.now < t)
        {
            if self.may_follow_at_once(job, &stop.reason) {
                self.keep_nodes(job.id);
            }
            return;
        }
        // A new attempt never writes where the old one still can: it waits until the ranks on the
        // lost node have certainly stopped, or, where they may go on, until the node is heard. Nor
        // is a job over, whatever ended it, whose ranks may still write to its checkpoint
        // directory: whoever hears that it is over may start another job there. And where it was
        // not seen that ranks ended, nobody would know afterwards what whoever queues it anew must
        // wait for.
        let waits = matches!(again, Next::Again(..))
            || job.spec.checkpoint.is_some()
            || self.is_unseen(a, key);
        let closed = stop.fence_until.is_none_or(|t| self.state.now < t);
        if lost && waits && closed && job.spec.fenced() {
            return;
        }
        self.write_repeats(&found.findings);
        if matches!(found.verdict, Verdict::Application | Verdict::Unknown) {
            self.remember_failed(key, a);
        }
        let first = verdict(&stop.reason);
        let mut reason = self.state.reason_words(&stop.reason, &job.project);
        if found.verdict == Verdict::Unknown {
            reason = format!("{reason}; {}", found.reason);
        }
        let project = Some(&job.project);
        self.emit(project, Event::AttemptEnded { key, verdict: first, reason: reason.clone() });
        let verdict = found.verdict;
        if verdict != first || !found.findings.is_empty() {
            if verdict != first {
                reason = format!("{reason}; {}", found.reason);
            }
            let (findings, reason) = (found.findings, reason.clone());
            self.emit(project, Event::AttemptAttributed { key, verdict, findings, reason });
        }
        self.work_ended(job, verdict, &reason);
        let lost_life_until = self.lost_generation_until(job);
        let job = job.id;
        match again {
            Next::Cancelled => self.emit(project, Event::JobCancelled { job, reason }),
            Next::Failed(exit_code) => {
                self.emit(project, Event::JobFailed { job, reason, exit_code });
            }
            Next::Exhausted(exit_code) => {
                let reason = format!("{reason}; no retry is left");
                self.emit(project, Event::JobFailed { job, reason, exit_code });
            }
            Next::Again(not_before) => {
                let not_before = not_before.max(lost_life_until);
                let unreported =
                    if is_by_person(&stop.reason) { Vec::new() } else { unreported_nodes(a) };
                let event = Event::JobRequeued { job, reason, not_before, by: None, unreported };
                self.emit(project, event);
                if not_before > self.state.now && stops_by_itself(&stop.reason) {
                    self.release_kept_nodes(job);
                }
                self.held_by_lost_ranks(job);
                self.held_by_breaker(job);
            }
        }
        self.after_end(a);
    }

    /// A lost node says of an attempt that was given up that its ranks there had ended well before
    /// anybody stopped them. Its job waits for the next attempt: where that was the last word that was
    /// missing, the work is whole, and none follows.
    pub(crate) fn ended_well_reported_late(
        &mut self,
        node: &NodeName,
        key: AttemptKey,
        ago: Option<Span>,
    ) {
        let waits = |j: &Arc<Job>| {
            j.state == JobState::Queued && j.attempts == key.attempt && j.unreported.contains(node)
        };
        let Some(job) = self.state.jobs.get(&key.job).cloned().filter(waits) else { return };
        // Attempts of a lost life may have had the same numbers, and a server that is behind the node
        // draws no conclusions.
        let behind = self.state.nodes.get(node).is_none_or(|n| n.protected);
        if behind || self.state.lives.last().is_some_and(|l| job.submitted_at < l.at) {
            return;
        }
        let now = self.state.now;
        let began = job.past.last().map(|p| p.started_at.unwrap_or(p.placed_at));
        let ended_at = ago.zip(began).map(|(ago, t)| (now - ago).max(t)).filter(|t| *t < now);
        let (project, id) = (Some(&job.project), job.id);
        let (node, end) = (node.clone(), SlotEnd::Ok);
        self.emit(project, Event::SlotEnded { key, node, end, ended_at });
        if self.state.jobs.get(&id).is_none_or(|j| !j.unreported.is_empty()) {
            return;
        }
        let reason = "every rank ended with code 0, which was reported late".to_string();
        let (verdict, findings) = (Verdict::Success, Vec::new());
        self.emit(project, Event::AttemptAttributed { key, verdict, findings, reason });
        self.emit(project, Event::JobSucceeded { job: id });
        // Who was to make room for the next attempt goes on.
        self.withdraw_notices(id);
    }

    /// Does a node that is heard not know whether ranks of an attempt still run there?
    fn is_unseen(&self, a: &Attempt, key: AttemptKey) -> bool {
        let mut slots = a.placement.slots.iter().zip(&a.slots);
        slots.any(|(slot, s)| *s == SlotState::Lost && self.can_report(&slot.node, key))
    }

    /// Is none of the nodes with lost ranks still to be heard of them? An agent in another directory
    /// than the one that they were started from has nothing to report of them.
    fn all_can_report(&self, a: &Attempt, key: AttemptKey) -> bool {
        let elsewhere = |node: &NodeName| {
            let n = self.state.nodes.get(node);
            n.is_some_and(|n| a.started_elsewhere(node, &n.place))
        };
        let heard = |node: &NodeName| self.can_report(node, key) && !elsewhere(node);
        let mut slots = a.placement.slots.iter().zip(&a.slots);
        slots.all(|(slot, s)| *s != SlotState::Lost || heard(&slot.node))
    }

    fn can_report(&self, node: &NodeName, key: AttemptKey) -> bool {
        let n = self.state.nodes.get(node);
        n.is_some_and(|n| n.reachable && !n.orphans.contains(&key))
    }

    /// Ranks that no lease ends were given up unseen by every agent that could report them: nobody
    /// will say more, so that only time is left to wait for.
    fn fence_by_clock(&mut self, job: &Arc<Job>, stop: &Stop, key: AttemptKey) {
        let Stop { reason, grace, .. } = stop.clone();
        let length = job.spec.stopped_after(job.spec.partition().lease(), grace);
        let fence_until = Some(self.state.now + length);
        self.emit(Some(&job.project), Event::StopOrdered { key, reason, grace, fence_until });
    }

    fn next_step(&self, job: &Job, why: &StopReason, verdict: Verdict) -> Next {
        // What ran for a while is no crash loop.
        let ran = job.attempt.as_ref().and_then(|a| {
            let until = a.freed_at.unwrap_or(self.state.now);
            a.started_at.map(|t| until.since(t))
        });
        let back_off = |n: u32| if ran >= Some(NO_LOOP) { Span(0) } else { back_off(n) };
        let infrastructure_left = job.infrastructure_failures < job.spec.retries.infrastructure;
        let infrastructure = |code: i32| {
            if infrastructure_left {
                Next::Again(self.state.now + back_off(job.infrastructure_failures))
            } else {
                Next::Exhausted(code)
            }
        };
        match why {
            StopReason::Cancelled { .. } => Next::Cancelled,
            StopReason::Requeued { .. } | StopReason::Drain { .. } => Next::Again(Time(0)),
            StopReason::TimeLimit { .. } => Next::Failed(Exit::TIME_IS_UP),
            StopReason::NodeLost { .. }
            | StopReason::Unhealthy { .. }
            | StopReason::Hung { .. } => infrastructure(1),
            StopReason::Preempted { .. }
            | StopReason::Resized { .. }
            | StopReason::Moved { .. }
            | StopReason::ReservationBegins { .. } => Next::Again(self.state.now),
            StopReason::Idle { .. } => Next::Failed(1),
            StopReason::SlotFailed { end, .. } => match end {
                // The rank died because its hardware did, or nobody knows why: the job is not held
                // to it.
                SlotEnd::Failed { exit } if verdict == Verdict::Unknown => {
                    infrastructure(exit.shell_code())
                }
                SlotEnd::Failed { .. }
                    if matches!(verdict, Verdict::Infrastructure | Verdict::Platform) =>
                {
                    infrastructure(1)
                }
                SlotEnd::Failed { exit } => {
                    if job.application_failures < job.spec.retries.application {
                        Next::Again(self.state.now + back_off(job.application_failures))
                    } else if job.spec.retries.application > 0 {
                        Next::Exhausted(exit.shell_code())
                    } else {
                        Next::Failed(exit.shell_code())
                    }
                }
                // The code that shells use for a command that cannot be run.
                SlotEnd::Unstartable { .. } => Next::Failed(127),
                // Nothing is wrong with the job or its node: it keeps its place in the queue.
                end if end.is_agent_anew() && infrastructure_left => Next::Again(self.state.now),
                SlotEnd::NodeFault { .. } | SlotEnd::Ok | SlotEnd::Stopped => infrastructure(1),
            },
        }
    }

    /// May the next attempt of a job that stops by itself follow at once, as far as is known now? One
    /// that would not be tried again may still turn out to be interrupted by its hardware. What makes
    /// way for others is no such case, nor is a retry that has to wait.
    fn may_follow_at_once(&self, job: &Job, why: &StopReason) -> bool {
        let Some(a) = job.attempt.as_ref().filter(|_| stops_by_itself(why)) else { return false };
        let nodes: Vec<NodeName> = a.placement.slots.iter().map(|s| s.node.clone()).collect();
        let known = self.attributed(job, &nodes, why, verdict(why)).verdict;
        let next = match self.next_step(job, why, known) {
            Next::Failed(_) | Next::Exhausted(_) => {
                self.next_step(job, why, Verdict::Infrastructure)
            }
            next => next,
        };
        matches!(next, Next::Again(t) if t <= self.state.now)
    }

    /// Orders an attempt to stop. A later order replaces the reason and keeps the fence. One whose
    /// ranks have all ended has nothing to stop: why it ended is not rewritten.
    pub(crate) fn order_stop(
        &mut self,
        job: &Arc<Job>,
        reason: StopReason,
        lost_since: Option<Time>,
    ) {
        let Some(a) = &job.attempt else { return };
        if a.stop.is_some() && a.freed_at.is_some() {
            return;
        }
        let grace = job
            .spec
            .checkpoint
            .as_ref()
            .and_then(|c| c.grace)
            .filter(|_| !matches!(reason, StopReason::SlotFailed { .. }))
            .unwrap_or(self.policy.grace);
        let fence = match (lost_since, job.spec.partition()) {
            (Some(t), OnPartition::StopAfter(after)) => {
                Some(t + job.spec.stopped_after(after, grace))
            }
            _ => None,
        };
        // Where ranks go on for good, one more that is lost is not waited for by the clock.
        let goes_on = lost_since.is_some() && job.spec.partition() == OnPartition::Continue;
        let old = a.stop.as_ref().and_then(|s| s.fence_until).filter(|_| !goes_on);
        let key = AttemptKey { job: job.id, attempt: a.no };
        let fence_until = fence.max(old);
        let unhealthy =
            matches!(reason, StopReason::Unhealthy { .. } | StopReason::NodeLost { .. });
        let moves = matches!(reason, StopReason::Unhealthy { .. });
        let stays = lost_since.is_none() && self.may_follow_at_once(job, &reason);
        self.emit(Some(&job.project), Event::StopOrdered { key, reason, grace, fence_until });
        if moves {
            self.swap(job.id);
        } else if stays && self.state.allocated_slots(job.id).any() {
            self.keep_nodes(job.id);
        }
        if unhealthy {
            self.maybe_killer(job.id);
        }
    }

    /// Fences begin anew with a leader. It goes by the clock of another machine, or by one that was
    /// set since: what an earlier leader reckoned may be over by that clock long before the ranks
    /// have stopped.
    pub(crate) fn renew_fences(&mut self) {
        let fenced = |job: &&Arc<Job>| {
            // Where every rank has ended, nothing is left to wait for.
            let going = job.attempt.as_ref().filter(|a| a.freed_at.is_none());
            let stop = going.and_then(|a| a.stop.as_ref());
            stop.is_some_and(|s| s.fence_until.is_some())
        };
        let jobs: Vec<Arc<Job>> = self.state.jobs.values().filter(fenced).cloned().collect();
        for job in jobs {
            let Some(a) = &job.attempt else { continue };
            let Some(Stop { reason, grace, fence_until, .. }) = a.stop.clone() else { continue };
            let key = AttemptKey { job: job.id, attempt: a.no };
            let lease = job.spec.partition().lease();
            let fence = self.state.now + job.spec.stopped_after(lease, grace);
            // An order that says nothing new would be counted as one more.
            if fence_until >= Some(fence) {
                continue;
            }
            let fence_until = Some(fence);
            self.emit(Some(&job.project), Event::StopOrdered { key, reason, grace, fence_until });
        }
    }

    /// So do waits of queued jobs whose earlier ranks may still write: what was left of one at the last
    /// sign of the server before, `since`, is left of it now. Other waits only spread retries: they end
    /// a little sooner, or last at most as long again, because no clock stands before the log.
    pub(crate) fn renew_waits(&mut self, since: Time) {
        let waits =
            |j: &&Arc<Job>| j.state == JobState::Queued && j.spec.fenced() && j.not_before > since;
        let jobs: Vec<Arc<Job>> = self.state.jobs.values().filter(waits).cloned().collect();
        for job in jobs {
            let not_before = self.state.now + job.not_before.since(since);
            if not_before <= job.not_before {
                continue;
            }
            let before = job.reason.as_deref().unwrap_or_default();
            let before = before.strip_suffix(WAIT_RENEWED).unwrap_or(before).trim_end_matches("; ");
            let reason = match before {
                "" => WAIT_RENEWED.to_owned(),
                why => format!("{why}; {WAIT_RENEWED}"),
            };
            self.drop_reserved_start(&job, &reason);
            let (id, unreported) = (job.id, job.unreported.iter().cloned().collect());
            let event = Event::JobRequeued { job: id, reason, not_before, by: None, unreported };
            self.emit(Some(&job.project), event);
        }
    }

    /// Nodes that were only waiting for this attempt to leave.
    fn after_end(&mut self, a: &Attempt) {
        for slot in &a.placement.slots {
            self.finish_drain(&slot.node);
            if self.state.health.remediations_of(&slot.node).next().is_some() {
                self.work.due.insert(slot.node.clone());
            }
        }
    }

    /// A draining node on which nothing runs is drained.
    pub(crate) fn finish_drain(&mut self, node: &NodeName) {
        let Some(n) = self.state.nodes.get(node) else { return };
        if n.stage == muster_model::node::Stage::Draining
            && self.state.attempts_on(node).next().is_none()
        {
            self.emit(None, Event::NodeDrained { node: node.clone() });
        }
    }

    /// Jobs that wait for one that can never end as they need are over too, and so are those that
    /// wait for these.
    pub(crate) fn end_blocked_dependents(&mut self, mut due: Vec<JobId>) {
        due.reverse();
        while let Some(id) = due.pop() {
            let Some(job) = self.state.jobs.get(&id).cloned() else { continue };
            if job.state != JobState::Queued || job.held.is_some() {
                continue;
            }
            if let Depends::Broken(why) = self.state.index.waits.evaluate(&self.state, &job) {
                let reason = why.words(&self.state);
                let before = self.state.index.waits.outlook(&job);
                self.emit(Some(&job.project), Event::JobCancelled { job: id, reason });
                let waits = &self.state.index.waits;
                due.extend(waits.on(&job, before != waits.outlook(&job)).into_iter().rev());
            }
        }
    }
}

enum Next {
    Cancelled,
    Failed(i32),
    Exhausted(i32),
    Again(Time),
}

fn verdict(why: &StopReason) -> Verdict {
    match why {
        StopReason::Cancelled { .. }
        | StopReason::Requeued { .. }
        | StopReason::Drain { automatic: false, .. } => Verdict::Operator,
        StopReason::TimeLimit { .. } | StopReason::Idle { .. } => Verdict::Application,
        StopReason::Preempted { .. }
        | StopReason::Resized { .. }
        | StopReason::Moved { .. }
        | StopReason::ReservationBegins { .. } => Verdict::Scheduler,
        StopReason::NodeLost { .. } | StopReason::Unhealthy { .. } | StopReason::Drain { .. } => {
            Verdict::Infrastructure
        }
        // Who stopped first is found out afterwards.
        StopReason::Hung { .. } => Verdict::Unknown,
        StopReason::SlotFailed { end, .. } => match end {
            SlotEnd::Failed { exit } if killed(exit) => Verdict::Unknown,
            SlotEnd::Failed { .. } | SlotEnd::Unstartable { .. } => Verdict::Application,
            // A server or an agent was away, or the log was restored: not the hardware.
            end if end.is_by_platform() => Verdict::Platform,
            SlotEnd::NodeFault { .. } | SlotEnd::Ok | SlotEnd::Stopped => Verdict::Infrastructure,
        },
    }
}

/// A program cannot end like this by itself, and whoever ended it left no word: its node knows of
/// no lack of memory and no fault.
fn killed(exit: &Exit) -> bool {
    exit.signal == Some(SIGKILL) && exit.note.is_empty()
}

const SIGKILL: i32 = 9;

/// An attempt that ran so long is tried again at once, however often the job failed before.
const NO_LOOP: Span = Span::mins(10);

/// Lost nodes of an attempt whose other ranks all ended well: none where one of those did not.
fn unreported_nodes(a: &Attempt) -> Vec<NodeName> {
    let mut nodes = Vec::new();
    for (slot, s) in a.placement.slots.iter().zip(&a.slots) {
        match s {
            SlotState::Lost => nodes.push(slot.node.clone()),
            SlotState::Ended { end } if fine(end) => {}
            _ => return Vec::new(),
        }
    }
    nodes
}

/// Did somebody ask for the stop of this one job? What they said counts, also where the job's ranks
/// had just ended well.
fn is_by_person(why: &StopReason) -> bool {
    matches!(why, StopReason::Cancelled { .. } | StopReason::Requeued { .. })
}

/// Does an attempt stop for what happened to itself, such that its nodes may be kept for the next?
fn stops_by_itself(why: &StopReason) -> bool {
    matches!(
        why,
        StopReason::SlotFailed { .. } | StopReason::Hung { .. } | StopReason::Requeued { .. }
    )
}

/// At once the first time, then ever more slowly, up to a minute.
fn back_off(failures: u32) -> Span {
    match failures {
        0 => Span(0),
        n => Span((500u64 << n.min(7)).min(60_000)),
    }
}
