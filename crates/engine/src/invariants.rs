//! What must be true of the state after every round, whatever happens: one list, checked after
//! every event of the simulated lives in the tests, and now and then by a server about itself.
//!
//! A check says what is wrong in words; silence means that all is well.

use crate::state::State;
use crate::state::dependencies::Depends;
use crate::state::index::{block, live};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::{Attempt, Job, JobState, PastAttempt, SlotState};
use muster_model::names::NodeName;
use muster_model::node::{NodeRole, Stage};
use muster_model::placement::AllocatedPart;
use std::collections::BTreeSet;

/// How a check looks.
#[derive(Debug, Clone, Copy)]
pub enum Check {
    /// At one state, at the cost of reading it once: a server can afford it.
    Cheap(fn(&State) -> Vec<String>),
    /// At one state, at the cost of building all that is derived from it anew.
    Costly(fn(&State) -> Vec<String>),
    /// At a record and the state that it will be applied to.
    Step(fn(&State, &Record) -> Option<String>),
}

/// Something that must always be true.
#[derive(Debug, Clone, Copy)]
pub struct Invariant {
    /// Its name, as metrics show it.
    pub name: &'static str,
    /// What it says.
    pub means: &'static str,
    /// How it is checked.
    pub check: Check,
}

/// Everything that must hold after every record.
pub const INVARIANTS: &[Invariant] = &[
    cheap("gpu_held_once", "no GPU or slice of one is allocated twice", gpu_held_once),
    cheap("gang_whole", "an attempt has all that its job asks for, on known nodes", gang_whole),
    cheap("none_on_retired", "nothing runs on a retired node", none_on_retired),
    cheap(
        "reserved_start_on_nodes",
        "reserved starts rest on nodes that exist",
        reserved_start_on_nodes,
    ),
    cheap("queue_is_who_waits", "the queue holds those who wait, and nobody else", queue),
    cheap("ledger_adds_up", "quotas are charged with the sum of what runs", ledger),
    cheap("ended_is_over", "a job that ended holds nothing", ended_is_over),
    cheap("ends_in_time", "ranks end after their start, and before that is reported", ends_in_time),
    cheap("attempts_in_order", "attempts are numbered in order", attempts_in_order),
    cheap("checkpoint_is_own", "a checkpoint is of an attempt that was made", checkpoint_is_own),
    Invariant {
        name: "index_is_fresh",
        means: "what is derived equals a fresh build",
        check: Check::Costly(|s| s.index.problems(s)),
    },
    step("ended_stays_ended", "only a caller takes a job out of its end", ended_stays_ended),
    step("ends_once", "a job ends once, and an attempt too", ends_once),
    step("attempt_is_new", "the number of an attempt is never used again", attempt_is_new),
    step("checkpoint_never_back", "a checkpoint never goes back", checkpoint_never_back),
    step("one_slot_a_node", "an attempt has one slot on each of its nodes", one_slot_a_node),
    step("none_where_blocked", "a node that gets no new work is given none", none_where_blocked),
    step("spare_for_swap", "spares hold nothing but what is reserved on them", spare_for_swap),
];

const fn cheap(
    name: &'static str,
    means: &'static str,
    check: fn(&State) -> Vec<String>,
) -> Invariant {
    Invariant { name, means, check: Check::Cheap(check) }
}

const fn step(
    name: &'static str,
    means: &'static str,
    check: fn(&State, &Record) -> Option<String>,
) -> Invariant {
    Invariant { name, means, check: Check::Step(check) }
}

/// How often each invariant that can be seen at one state without building anything anew is
/// violated, by name. Reads the state once; meant for a copy, beside the loop.
#[must_use]
pub fn violations(state: &State) -> Vec<(&'static str, Vec<String>)> {
    let look = |i: &Invariant| match i.check {
        Check::Cheap(check) => Some((i.name, check(state))),
        Check::Costly(_) | Check::Step(_) => None,
    };
    INVARIANTS.iter().filter_map(look).collect()
}

/// What is wrong with one more record on top of a state, with the name of the invariant.
#[must_use]
pub fn step_problems(before: &State, record: &Record) -> Vec<String> {
    let look = |i: &Invariant| match i.check {
        Check::Step(check) => check(before, record).map(|why| format!("{}: {why}", i.name)),
        Check::Cheap(_) | Check::Costly(_) => None,
    };
    INVARIANTS.iter().filter_map(look).collect()
}

impl State {
    /// Everything that is wrong with this state, in words: every invariant that can be seen at
    /// one state, fresh builds of what is derived included.
    #[must_use]
    pub fn problems(&self) -> Vec<String> {
        let mut out = Vec::new();
        for i in INVARIANTS {
            let found = match i.check {
                Check::Cheap(check) | Check::Costly(check) => check(self),
                Check::Step(_) => Vec::new(),
            };
            out.extend(found.into_iter().map(|why| format!("{}: {why}", i.name)));
        }
        out
    }
}

fn attempts(s: &State) -> impl Iterator<Item = (&Job, &Attempt)> {
    s.jobs.values().filter_map(|j| j.attempt.as_ref().map(|a| (&**j, a)))
}

fn gpu_held_once(s: &State) -> Vec<String> {
    // Each GPU, who holds it, and which part of it.
    let mut held: Vec<((&NodeName, u32), JobId, Option<&AllocatedPart>)> = Vec::new();
    for (job, a) in attempts(s) {
        for (slot, state) in a.placement.slots.iter().zip(&a.slots) {
            if live(state) {
                for g in slot.gpus.iter() {
                    held.push(((&slot.node, g), job.id, slot.part.as_ref()));
                }
            }
        }
    }
    held.sort_by_key(|(gpu, ..)| *gpu);
    held.chunk_by(|a, b| a.0 == b.0)
        .filter(|by| by.len() > 1 && !parts_fit(by.iter().map(|(.., p)| *p)))
        .map(|by| {
            let (node, g) = by[0].0;
            let jobs: Vec<String> = by.iter().map(|(_, j, _)| j.to_string()).collect();
            format!("gpu {g} of {node} is allocated to jobs {}", jobs.join(" and "))
        })
        .collect()
}

/// Do these fit on one GPU together?
fn parts_fit<'a>(parts: impl Iterator<Item = Option<&'a AllocatedPart>>) -> bool {
    let (mut milli, mut slices) = (0, 0u32);
    for p in parts {
        match p {
            None => return false,
            Some(AllocatedPart::Milli(m)) => milli += m,
            Some(AllocatedPart::Mig { start, size, .. }) => {
                let mask = ((1u32 << size) - 1) << start;
                if slices & mask != 0 {
                    return false;
                }
                slices |= mask;
            }
        }
    }
    milli <= 1000 && (milli == 0 || slices == 0)
}

fn gang_whole(s: &State) -> Vec<String> {
    let mut out = Vec::new();
    for (job, a) in attempts(s) {
        let id = job.id;
        let slots = &a.placement.slots;
        if a.slots.len() != slots.len() {
            out.push(format!("job {id}: slots and their states differ in number"));
        }
        let (mut counts, mut rank) = (vec![0u32; job.groups.len()], 0);
        let mut seen: Vec<BTreeSet<NodeName>> = Vec::new();
        seen.resize_with(job.groups.len(), BTreeSet::new);
        for (slot, place) in slots.iter().zip(0u32..) {
            let Some(g) = job.groups.get(slot.group as usize) else {
                out.push(format!("job {id}: a slot of group {}, which it has not", slot.group));
                continue;
            };
            counts[slot.group as usize] += 1;
            if (slot.gpus.len(), slot.ranks) != (g.gpus, g.ranks) {
                out.push(format!("job {id}: its slot on {} is not what it asks for", slot.node));
            }
            if (slot.first_rank, slot.node_rank) != (rank, place) {
                out.push(format!("job {id}: its ranks on {} are out of order", slot.node));
            }
            rank += slot.ranks;
            if !s.nodes.contains_key(&slot.node) {
                out.push(format!("job {id}: runs on {}, which nobody knows", slot.node));
            }
            if !seen[slot.group as usize].insert(slot.node.clone()) {
                out.push(format!("job {id}: two slots of one group on {}", slot.node));
            }
        }
        let asked = |(have, g): (&u32, &muster_model::spec::Group)| match job.spec.elastic {
            Some(e) => (e.min_nodes..=e.max_nodes).contains(have),
            None => *have == g.nodes,
        };
        if !counts.iter().zip(job.groups.iter()).all(asked) {
            out.push(format!("job {id}: has {} slots, not what it asks for", slots.len()));
        }
    }
    out
}

fn none_on_retired(s: &State) -> Vec<String> {
    let retired = |n: &NodeName| s.nodes.get(n).is_some_and(|n| n.stage == Stage::Retired);
    let mut out = Vec::new();
    for (job, a) in attempts(s) {
        for (slot, state) in a.placement.slots.iter().zip(&a.slots) {
            if !matches!(state, SlotState::Ended { .. }) && retired(&slot.node) {
                out.push(format!("job {} is on {}, which is retired", job.id, slot.node));
            }
        }
    }
    out
}

fn reserved_start_on_nodes(s: &State) -> Vec<String> {
    let mut out = Vec::new();
    for job in s.jobs.values() {
        let Some(p) = &job.reserved_start else { continue };
        if job.state.is_final() {
            out.push(format!("job {} ended and has a reserved start", job.id));
        }
        // What is being stopped for its next attempt asks again once it waits.
        let waits = job.state == JobState::Queued;
        let gone =
            |n: &&NodeName| s.nodes.get(*n).is_none_or(|n| waits && n.stage == Stage::Retired);
        if let Some(n) = p.nodes.iter().find(gone) {
            out.push(format!("job {} has a reserved start on {n}, which is not there", job.id));
        }
    }
    out
}

fn queue(s: &State) -> Vec<String> {
    let queue: BTreeSet<JobId> = s.index.cluster.queue.jobs().collect();
    let mut out = Vec::new();
    for job in s.jobs.values() {
        let waits = job.state == JobState::Queued
            && job.held.is_none()
            && s.index.waits.evaluate(s, job) == Depends::Met;
        // Who waits for a time is in the queue once a tick has seen it pass.
        let later = s.index.wakes.contains(&(job.not_before, job.id));
        match (queue.contains(&job.id), waits) {
            (true, false) => out.push(format!("job {} is in the queue and does not wait", job.id)),
            (false, true) if !later => out.push(format!("job {} waits outside the queue", job.id)),
            _ => {}
        }
    }
    let unknown = queue.iter().filter(|id| !s.jobs.contains_key(id));
    out.extend(unknown.map(|id| format!("job {id} is in the queue and unknown")));
    out
}

fn ledger(s: &State) -> Vec<String> {
    let c = &s.index.cluster;
    let mut fresh = c.ledger.emptied();
    for r in c.running.values() {
        fresh.charge(&r.work.project, &r.sku, r.work.tier, r.milli(), true);
    }
    let mut out = Vec::new();
    if fresh != c.ledger {
        out.push("what quotas are charged with differs from what runs".to_string());
    }
    let runs: BTreeSet<JobId> = c.running.keys().copied().collect();
    let holds = |(_, a): &(&Job, &Attempt)| a.freed_at.is_none();
    let hold: BTreeSet<JobId> = attempts(s).filter(holds).map(|(j, _)| j.id).collect();
    out.extend(runs.symmetric_difference(&hold).map(|id| format!("job {id} is charged wrongly")));
    out
}

fn ended_is_over(s: &State) -> Vec<String> {
    let wrong = |j: &Job| {
        let a = j.attempt.as_ref();
        let active = j.state.is_active();
        a.is_some() != active
            || j.ended_at.is_some() != j.state.is_final()
            || a.is_some_and(|a| a.stop.is_some() != (j.state == JobState::Stopping))
    };
    let odd = s.jobs.values().filter(|j| wrong(j));
    odd.map(|j| format!("job {} is {} and its attempt says otherwise", j.id, j.state)).collect()
}

fn ends_in_time(s: &State) -> Vec<String> {
    let wrong = |j: &Job| {
        let past =
            |p: &PastAttempt| p.freed() > p.ended_at || p.started_at.is_some_and(|t| t > p.freed());
        let freed = j.attempt.as_ref().and_then(|a| a.freed_at);
        j.past.iter().any(past) || freed.is_some_and(|t| t > s.now)
    };
    let odd = s.jobs.values().filter(|j| wrong(j));
    odd.map(|j| format!("ranks of job {} ended before they started, or later", j.id)).collect()
}

fn attempts_in_order(s: &State) -> Vec<String> {
    let wrong = |j: &Job| {
        let past = j.past.iter().map(|p| p.no);
        let all: Vec<u32> = past.chain(j.attempt.iter().map(|a| a.no)).collect();
        all.windows(2).any(|w| w[0] >= w[1]) || all.last().is_some_and(|n| *n != j.attempts)
    };
    let odd = s.jobs.values().filter(|j| wrong(j));
    odd.map(|j| format!("the attempts of job {} are out of order", j.id)).collect()
}

fn checkpoint_is_own(s: &State) -> Vec<String> {
    let wrong = |j: &Job| {
        j.checkpoint
            .as_ref()
            .is_some_and(|c| c.attempt > j.attempts || c.attempt == 0 || c.at > s.now)
    };
    let odd = s.jobs.values().filter(|j| wrong(j));
    odd.map(|j| format!("job {} has a checkpoint of an attempt it never made", j.id)).collect()
}

fn ends_once(s: &State, r: &Record) -> Option<String> {
    match &r.event {
        Event::JobSucceeded { job }
        | Event::JobFailed { job, .. }
        | Event::JobCancelled { job, .. } => {
            let j = s.jobs.get(job)?;
            let again = j.state.is_final();
            (again || j.attempt.is_some()).then(|| format!("job {job} ends as it is {}", j.state))
        }
        Event::AttemptEnded { key, .. } => {
            let now = s.jobs.get(&key.job)?.attempt_key();
            (now != Some(*key)).then(|| format!("attempt {key} ends, which does not go on"))
        }
        _ => None,
    }
}

fn ended_stays_ended(s: &State, r: &Record) -> Option<String> {
    let job = match &r.event {
        Event::JobRequeued { job, by: None, .. } => *job,
        Event::JobPlaced { key, .. }
        | Event::AttemptStarted { key, .. }
        | Event::StopOrdered { key, .. } => key.job,
        _ => return None,
    };
    let j = s.jobs.get(&job)?;
    j.state.is_final().then(|| format!("job {job} is {} and continues, unasked", j.state))
}

fn attempt_is_new(s: &State, r: &Record) -> Option<String> {
    let Event::JobPlaced { key, .. } = &r.event else { return None };
    let j = s.jobs.get(&key.job)?;
    let new = j.state == JobState::Queued && j.attempt.is_none() && key.attempt == j.attempts + 1;
    (!new).then(|| format!("attempt {key} is placed after {} of them", j.attempts))
}

fn checkpoint_never_back(s: &State, r: &Record) -> Option<String> {
    let Event::CheckpointDone { job, checkpoint: c } = &r.event else { return None };
    let known = s.jobs.get(job)?.checkpoint.as_ref()?;
    let back = (c.attempt, c.step) < (known.attempt, known.step) || c.at < known.at;
    back.then(|| format!("job {job} goes back to step {:?} of attempt {}", c.step, c.attempt))
}

/// An agent runs one slot of an attempt.
fn one_slot_a_node(_: &State, r: &Record) -> Option<String> {
    let Event::JobPlaced { key, placement } = &r.event else { return None };
    let mut seen = BTreeSet::new();
    let twice = placement.slots.iter().find(|p| !seen.insert(p.node.clone()))?;
    Some(format!("attempt {key} is placed on {} twice", twice.node))
}

/// Tested, unhealthy, drained, cordoned, not heard: whatever keeps new work away.
fn none_where_blocked(s: &State, r: &Record) -> Option<String> {
    let Event::JobPlaced { key, placement } = &r.event else { return None };
    let blocked = |n: &NodeName| s.nodes.get(n).and_then(|n| block(n));
    let mut nodes = placement.slots.iter().map(|p| &p.node);
    let (node, why) = nodes.find_map(|n| Some((n, blocked(n)?)))?;
    Some(format!("attempt {key} is placed on {node}: {}", why.words()))
}

fn spare_for_swap(s: &State, r: &Record) -> Option<String> {
    let Event::JobPlaced { key, placement } = &r.event else { return None };
    // Swaps are reserved starts too, and what was reserved before the node became a spare is kept.
    let reserved_start = s.jobs.get(&key.job)?.reserved_start.as_ref();
    let reserved_starts = |n: &NodeName| reserved_start.is_some_and(|p| p.nodes.contains(n));
    let spare = |n: &NodeName| s.nodes.get(n).is_some_and(|n| n.role == NodeRole::Spare);
    let odd = placement.slots.iter().find(|p| spare(&p.node) && !reserved_starts(&p.node))?;
    Some(format!("attempt {key} is placed on {}, which is reserved as a spare", odd.node))
}
