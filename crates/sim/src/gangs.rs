//! Attempts as the world sees them: ranks that come up, work, stand still and go.

use crate::accounting::InterruptionCause;
use crate::faults::FaultEvent;
use crate::simulation::{ByKey, Ev, Simulation};
use muster_model::command::{Command, Observed};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Exit, SlotEnd, StopReason, Verdict};
use muster_model::placement::Placement;
use muster_model::spec::Simulate;
use muster_model::units::{Span, Time};
use muster_simnode::{Account, SimEvent, WorkEvent};
use std::collections::BTreeMap;
use std::sync::Arc;

/// One attempt.
#[derive(Debug, Clone)]
pub(crate) struct Gang {
    pub(crate) placement: Arc<Placement>,
    pub(crate) nodes: Vec<u32>,
    pub(crate) up: Option<Time>,
    /// It stands still since then, because of this.
    pub(crate) broken: Option<Broken>,
    /// Share of its speed that it has, by size and unhealthy nodes.
    pub(crate) rate: u32,
    /// Its results are wrong beyond so much useful time.
    pub(crate) wrong_after: Option<Span>,
    /// The newest checkpoint was reported to the engine then.
    reported: Time,
    unreported: bool,
    end: Option<Account>,
    /// Its last rank was gone then, and with it what it held.
    freed: Option<Time>,
    pub(crate) leaving: bool,
    /// Drain this node once the checkpoint that was asked for is there.
    pub(crate) then_drain: Option<(u32, InterruptionCause)>,
}

/// Why and since when an attempt stands still.
#[derive(Debug, Clone)]
pub(crate) struct Broken {
    pub(crate) why: InterruptionCause,
    /// Time it had been slowed by then.
    slowed: Span,
}

/// All attempts, and what is saved of each job.
#[derive(Debug, Default)]
pub(crate) struct Gangs {
    pub(crate) by_key: ByKey<Gang>,
    /// Attempts on each node.
    pub(crate) on: Vec<Vec<AttemptKey>>,
    /// Useful time in the newest checkpoint of a job.
    pub(crate) saved: BTreeMap<JobId, Span>,
    /// Gangs that lost a node, since when; to see how soon they are placed again.
    pub(crate) replacing: BTreeMap<JobId, Time>,
    /// Node failures under gangs, and those that were replaced within two minutes.
    pub(crate) needed: u64,
    pub(crate) found: u64,
    /// The newest interval that the engine chose, with the nodes of the gang.
    pub(crate) chosen: BTreeMap<u32, Span>,
}

/// Within this a spare counts as found at once.
const AT_ONCE: Span = Span::mins(2);

impl Gangs {
    pub(crate) fn new(nodes: usize) -> Gangs {
        Gangs { on: vec![Vec::new(); nodes], ..Gangs::default() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.by_key.is_empty()
    }
}

impl Simulation<'_> {
    /// The engine has placed a gang.
    pub(crate) fn placed(&mut self, key: AttemptKey, placement: &Arc<Placement>) {
        let slots = &placement.slots;
        let nodes: Vec<u32> =
            slots.iter().filter_map(|s| self.fleet.by_name.get(&s.node).copied()).collect();
        let mut gpus = 0;
        for (ix, s) in nodes.iter().zip(slots) {
            let milli = u64::from(s.gpus.len()) * 1000;
            gpus += milli;
            self.hold(*ix, milli, true);
            self.gangs.on[*ix as usize].push(key);
        }
        self.accounting.placed(key.job, gpus / 1000, self.now);
        if let Some(since) = self.gangs.replacing.remove(&key.job)
            && self.now.since(since) <= AT_ONCE
        {
            self.gangs.found += 1;
        }
        let rate = self.size_rate(key, nodes.len());
        let gang = Gang {
            placement: placement.clone(),
            nodes,
            up: None,
            broken: None,
            rate,
            wrong_after: None,
            reported: self.now,
            unreported: false,
            end: None,
            freed: None,
            leaving: false,
            then_drain: None,
        };
        self.gangs.by_key.insert(key, gang);
        let at = self.now + self.s.operations.decide;
        self.at(at, Ev::Up(key));
    }

    /// An elastic gang makes progress by its size.
    pub(crate) fn size_rate(&self, key: AttemptKey, nodes: usize) -> u32 {
        let job = self.engine.state().jobs.get(&key.job);
        let most = job.and_then(|j| j.spec.elastic).map(|e| u64::from(e.max_nodes.max(1)));
        let n = u64::try_from(nodes).unwrap_or(u64::MAX);
        most.map_or(1000, |m| u32::try_from(n * 1000 / m).unwrap_or(1000).clamp(1, 1000))
    }

    /// The ranks are up: work begins, or goes on.
    pub(crate) fn up(&mut self, key: AttemptKey) {
        let Some(g) = self.gangs.by_key.get_mut(&key) else { return };
        if g.leaving {
            return;
        }
        g.up = Some(self.now);
        let (placement, lead, rate) = (g.placement.clone(), g.nodes[0], g.rate);
        let size = u32::try_from(g.nodes.len()).unwrap_or(u32::MAX);
        let Some(work) = self.work_of(key, &placement) else { return };
        if let Some(every) = work.checkpoint {
            self.gangs.chosen.insert(size, every);
        }
        let resume = self.gangs.saved.get(&key.job).copied().unwrap_or_default();
        // Ranks that come up on a node that just broke never get on.
        let unhealthy = self.first_broken(key);
        let node = &mut self.nodes[lead as usize];
        let now = self.now;
        let events = node.advance_briefly(now);
        node.resume(key, &work, placement.slots[0].gpus.0, resume, now);
        node.set_rate(key, rate);
        self.apply_events(lead, events);
        for s in &placement.slots {
            let node = s.node.clone();
            self.submit_command(Command::SlotReport {
                node,
                key,
                observed: Observed::Running,
                ago: None,
            });
        }
        self.look_at(lead);
        if let Some(why) = unhealthy {
            self.break_gang(key, &why);
        }
        self.job_hazard(key);
        if self.script.is_some() {
            self.first_step_after(key, work.startup);
        }
    }

    fn first_broken(&self, key: AttemptKey) -> Option<InterruptionCause> {
        let g = self.gangs.by_key.get(&key)?;
        g.nodes.iter().find_map(|n| self.faults.unhealthy.get(n).cloned())
    }

    /// What the ranks do: as the job says, saving as often as the engine chose.
    fn work_of(&self, key: AttemptKey, placement: &Placement) -> Option<Simulate> {
        let job = self.engine.state().jobs.get(&key.job)?;
        let mut work = job.spec.simulate.clone()?;
        if work.checkpoint.is_none() && job.spec.checkpoint.is_some() {
            work.checkpoint = placement.checkpoint_every;
        }
        // Single steps are nobody's business here.
        work.step = None;
        Some(work)
    }

    /// Queues the next moment at which something happens on a node.
    pub(crate) fn look_at(&mut self, ix: u32) {
        let records = self.s.operations.checkpoint_records;
        let next = if records.0 == 0 {
            self.nodes[ix as usize].next_wake()
        } else {
            let end = self.nodes[ix as usize].next_end();
            // Checkpoints are looked for now and then, where the speaker of a gang is.
            let mut due = None;
            for key in &self.gangs.on[ix as usize] {
                let Some(g) = self.gangs.by_key.get_mut(key) else { continue };
                if g.nodes[0] == ix && g.up.is_some() && !g.leaving && g.broken.is_none() {
                    if g.reported + records <= self.now {
                        g.reported = self.now;
                    }
                    let t = g.reported + records;
                    due = Some(due.map_or(t, |d: Time| d.min(t)));
                }
            }
            [end.map(|t| t.max(self.now + Span(1))), due].into_iter().flatten().min()
        };
        let Some(t) = next.map(|t| t.max(self.now)) else { return };
        let queued = self.wakes[ix as usize];
        if t < queued || queued < self.now {
            self.wakes[ix as usize] = t;
            self.at(t, Ev::Node(ix));
        }
    }

    pub(crate) fn node_wakes(&mut self, ix: u32) {
        if self.wakes[ix as usize] != self.now {
            return;
        }
        self.wakes[ix as usize] = Time(i64::MAX);
        let events = self.advance(ix);
        self.apply_events(ix, events);
        self.look_at(ix);
    }

    fn advance(&mut self, ix: u32) -> Vec<SimEvent> {
        let node = &mut self.nodes[ix as usize];
        if self.s.operations.checkpoint_records.0 == 0 {
            node.advance(self.now)
        } else {
            node.advance_briefly(self.now)
        }
    }

    fn apply_events(&mut self, ix: u32, events: Vec<SimEvent>) {
        for e in events {
            match e.what {
                WorkEvent::Checkpoint { .. } => {
                    let records = self.s.operations.checkpoint_records;
                    let account = self.nodes[ix as usize].account(e.key);
                    let Some(g) = self.gangs.by_key.get_mut(&e.key) else { continue };
                    if let Some(a) = account {
                        self.gangs.saved.insert(e.key.job, a.saved);
                    }
                    g.unreported = true;
                    let due = e.at.since(g.reported) >= records || g.then_drain.is_some();
                    let asked = self.asked(e.key);
                    if due || asked {
                        self.report_checkpoint(e.key);
                    }
                }
                WorkEvent::Ended { code } => self.work_ended(ix, e.key, code),
                WorkEvent::Step { .. } | WorkEvent::Stopped | WorkEvent::Killed => {}
            }
        }
    }

    fn asked(&self, key: AttemptKey) -> bool {
        let job = self.engine.state().jobs.get(&key.job);
        job.is_some_and(|j| j.checkpoint_asked.is_some())
    }

    fn report_checkpoint(&mut self, key: AttemptKey) {
        let Some(g) = self.gangs.by_key.get_mut(&key) else { return };
        if !std::mem::take(&mut g.unreported) {
            return;
        }
        g.reported = self.now;
        let drain = g.then_drain.take();
        let saved = self.gangs.saved.get(&key.job).copied().unwrap_or_default();
        let job = self.engine.state().jobs.get(&key.job);
        let work = job.and_then(|j| j.spec.simulate.as_ref());
        let cost = work.map(|s| s.checkpoint_cost.0);
        let step = work.and_then(|s| s.step).map_or(1000, |s| s.0.max(1));
        let dir = job.and_then(|j| j.spec.checkpoint.as_ref()).map(|c| c.dir.clone());
        let reported = self.script.as_ref().and(dir);
        let path = reported.map(|dir| format!("{dir}/step-{}", saved.0 / step));
        self.submit_command(Command::CheckpointDone {
            key,
            step: Some(saved.0 / step),
            path,
            bytes: None,
            blocked_ms: cost,
        });
        if let Some((node, why)) = drain {
            self.drain_unhealthy(node, &why, true);
        }
    }

    /// It has done all it had to.
    fn work_ended(&mut self, ix: u32, key: AttemptKey, code: u8) {
        let account = self.nodes[ix as usize].account(key);
        let Some(g) = self.gangs.by_key.get_mut(&key) else { return };
        g.end = account;
        g.leaving = true;
        let placement = g.placement.clone();
        if let Some(p) = self.accounting.pages.get_mut(&key.job)
            && let Some(a) = account
        {
            p.saved = Span(a.saved.0 + a.unsaved.0);
        }
        for (i, s) in placement.slots.iter().enumerate() {
            let end = if code == 0 || i > 0 {
                SlotEnd::Ok
            } else {
                let exit = Exit { rank: 0, code: Some(1), signal: None, note: String::new() };
                SlotEnd::Failed { exit }
            };
            let observed = Observed::Ended(end);
            self.submit_command(Command::SlotReport {
                node: s.node.clone(),
                key,
                observed,
                ago: None,
            });
        }
    }

    pub(crate) fn stop_ordered(&mut self, key: AttemptKey, reason: &StopReason) {
        let Some(g) = self.gangs.by_key.get_mut(&key) else { return };
        if std::mem::replace(&mut g.leaving, true) {
            return;
        }
        match reason {
            StopReason::Preempted { .. } => self.accounting.preemptions += 1,
            StopReason::Moved { .. } => self.accounting.migrations += 1,
            _ => {}
        }
        self.at(self.now, Ev::Gone(key));
    }

    /// The ranks are gone: what was not saved is lost.
    pub(crate) fn gone(&mut self, key: AttemptKey) {
        let Some(g) = self.gangs.by_key.get(&key) else { return };
        let (lead, placement, up) = (g.nodes[0], g.placement.clone(), g.up);
        if up.is_some() {
            let events = self.advance(lead);
            self.apply_events(lead, events);
            let account = self.nodes[lead as usize].account(key);
            self.nodes[lead as usize].stop(key, self.now);
            if let Some(g) = self.gangs.by_key.get_mut(&key) {
                g.end = g.end.or(account);
                // What was computed with wrong numbers is not saved.
                if let (Some(right), Some(saved)) =
                    (g.wrong_after, self.gangs.saved.get_mut(&key.job))
                {
                    *saved = (*saved).min(right);
                }
            }
            self.report_checkpoint(key);
            self.look_at(lead);
        }
        for s in &placement.slots {
            let observed = Observed::Ended(SlotEnd::Stopped);
            self.submit_command(Command::SlotReport {
                node: s.node.clone(),
                key,
                observed,
                ago: None,
            });
        }
    }

    pub(crate) fn checkpoint_asked(&mut self, key: AttemptKey) {
        let Some(g) = self.gangs.by_key.get(&key).filter(|g| g.up.is_some() && !g.leaving) else {
            return;
        };
        let lead = g.nodes[0];
        let event = self.nodes[lead as usize].ask_checkpoint(key, self.now);
        if let Some(e) = event {
            self.apply_events(lead, vec![e]);
        }
        let late = self.advance(lead);
        self.apply_events(lead, late);
        // It is reported when it is written, however rarely others are.
        let next = self.nodes[lead as usize].next_wake();
        if let Some(t) = next.filter(|t| *t < self.wakes[lead as usize]) {
            self.wakes[lead as usize] = t.max(self.now);
            self.at(t.max(self.now), Ev::Node(lead));
        }
    }

    /// One of its nodes is done. What a gang held is free with the last of them, although why it
    /// ended may be looked for a while longer.
    pub(crate) fn slot_ended(&mut self, key: AttemptKey) {
        let job = self.engine.state().jobs.get(&key.job);
        let attempt = job.and_then(|j| j.attempt.as_ref()).filter(|a| a.no == key.attempt);
        if attempt.is_some_and(|a| a.freed_at.is_some()) {
            self.free_gang(key);
        }
    }

    fn free_gang(&mut self, key: AttemptKey) {
        let now = self.now;
        let Some(g) = self.gangs.by_key.get_mut(&key).filter(|g| g.freed.is_none()) else { return };
        g.freed = Some(now);
        let slots = g.placement.slots.iter().map(|s| u64::from(s.gpus.len()) * 1000);
        let held: Vec<(u32, u64)> = g.nodes.iter().copied().zip(slots).collect();
        for (ix, milli) in held {
            self.hold(ix, milli, false);
        }
    }

    pub(crate) fn attempt_ended(&mut self, key: AttemptKey, verdict: Verdict) {
        self.free_gang(key);
        let Some(g) = self.gangs.by_key.remove(&key) else { return };
        for ix in &g.nodes {
            self.gangs.on[*ix as usize].retain(|k| *k != key);
        }
        let stalled = match (&g.broken, &g.end) {
            (Some(b), Some(a)) => Span(a.slowed.0.saturating_sub(b.slowed.0)),
            _ => Span(0),
        };
        self.accounting.attempt_over(key.job, g.end, stalled, g.up, g.freed.unwrap_or(self.now));
        let failed = matches!(verdict, Verdict::Infrastructure | Verdict::Application);
        if let Some(b) = g.broken.as_ref().filter(|_| failed) {
            self.accounting.interrupted(key.job, &b.why);
        }
    }

    /// A gang stands still from now on, and will have to be started again.
    pub(crate) fn break_gang(&mut self, key: AttemptKey, why: &InterruptionCause) {
        let Some(g) = self.gangs.by_key.get(&key).filter(|g| !g.leaving) else { return };
        let lead = g.nodes[0];
        let events = self.advance(lead);
        self.apply_events(lead, events);
        let slowed = self.nodes[lead as usize].account(key).map(|a| a.slowed).unwrap_or_default();
        self.nodes[lead as usize].set_rate(key, 0);
        if let Some(g) = self.gangs.by_key.get_mut(&key)
            && g.broken.is_none()
            && !g.leaving
        {
            g.broken = Some(Broken { why: why.clone(), slowed });
        }
        self.look_at(lead);
    }

    /// A gang goes on at another share of its speed.
    pub(crate) fn set_speed(&mut self, key: AttemptKey, permille: u32) {
        let Some(g) = self.gangs.by_key.get_mut(&key).filter(|g| !g.leaving) else { return };
        if g.broken.is_some() {
            return;
        }
        g.rate = permille;
        let lead = g.nodes[0];
        let events = self.advance(lead);
        self.apply_events(lead, events);
        self.nodes[lead as usize].set_rate(key, permille);
        self.look_at(lead);
    }

    /// A rank of a gang fails by itself, or because its node does.
    pub(crate) fn fail_slot(&mut self, key: AttemptKey, node: u32, end: SlotEnd) {
        let name = self.name(node).clone();
        let observed = Observed::Ended(end);
        self.submit_command(Command::SlotReport { node: name, key, observed, ago: None });
    }

    /// The ranks of a job fail for reasons of its own, some time.
    fn job_hazard(&mut self, key: AttemptKey) {
        let Some(h) = &self.s.failures.jobs else { return };
        let Some(g) = self.gangs.by_key.get(&key) else { return };
        let n =
            u32::try_from(g.nodes.len()).unwrap_or(u32::MAX).min(h.up_to_nodes.unwrap_or(u32::MAX));
        let per_day = h.per_1000_node_days / 1000.0 * f64::from(n);
        if per_day <= 0.0 {
            return;
        }
        let name = [key.job.to_string(), key.attempt.to_string()];
        let mut chance = self.chance(&["job", &name[0], &name[1]]);
        let after = crate::chance::millis(chance.exponential() / per_day * 86_400_000.0);
        self.at(self.now + after, Ev::Trouble(FaultEvent::Job(key)));
    }

    /// All that still runs when the scenario ends.
    pub(crate) fn close(&mut self) {
        let keys: Vec<AttemptKey> = self.gangs.by_key.keys().copied().collect();
        for key in keys {
            let Some(g) = self.gangs.by_key.get(&key) else { continue };
            let (lead, up, broken) = (g.nodes[0], g.up, g.broken.clone());
            let until = g.freed.unwrap_or(self.now);
            let events = self.nodes[lead as usize].advance_briefly(self.now);
            drop(events);
            let account = g.end.or(self.nodes[lead as usize].account(key));
            let stalled = match (&broken, &account) {
                (Some(b), Some(a)) => Span(a.slowed.0.saturating_sub(b.slowed.0)),
                _ => Span(0),
            };
            if let (Some(a), Some(p)) = (&account, self.accounting.pages.get_mut(&key.job)) {
                p.saved = Span(a.saved.0 + a.unsaved.0);
            }
            self.accounting.attempt_over(key.job, account, stalled, up, until);
            if let Some(p) = self.accounting.pages.get_mut(&key.job) {
                p.wants = true;
            }
        }
        for (job, saved) in &self.gangs.saved {
            if let Some(p) = self.accounting.pages.get_mut(job)
                && p.ended.is_none()
            {
                p.saved = p.saved.max(*saved);
            }
        }
        self.accounting.close(self.now);
    }
}
