//! Commands about nodes, and what agents report.

use crate::Engine;
use crate::apply::fine;
use crate::lookup::{find, find_versioned};
use crate::node_actions::{may_cordon, may_retire, may_undrain, step};
use crate::node_hello::{NodeHello, ReportedAttemptState, standing};
use crate::qualify;
use crate::state::State;
use muster_lifecycle::Step;
use muster_model::command::{Actor, Answer, Command, Observed, Refusal, RefusalCode, Request};
use muster_model::cordon::{Cordon, CordonedBy};
use muster_model::event::Event;
use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::{Attempt, Job, SlotEnd, SlotState, StopReason};
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeRole, Stage};
use muster_model::tenant::TokenUse;
use muster_model::topology::Location;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Bound;
use std::sync::Arc;

pub(super) fn enroll(
    e: &mut Engine,
    node: &NodeName,
    machine: &str,
    token: &str,
    key: Option<&str>,
) -> Result<Answer, Refusal> {
    // The edge has compared the secret; here nothing can come in between.
    let good = e.state.tokens.get(token).is_some_and(|t| {
        t.expires_at.is_none_or(|at| at > e.state.now)
            && matches!(t.usage, TokenUse::Join { uses_left } if uses_left != Some(0))
    });
    if !good {
        return Err(Refusal::new(
            RefusalCode::NotAllowed,
            "the join token is used up, has expired or was revoked",
        )
        .hint("make a new one with `muster token create --join`"));
    }
    let known = e.state.nodes.get(node).cloned();
    // Who is in already keeps its name, also beside one that an older server let in.
    let is_new = known.as_ref().is_none_or(|n| n.stage == Stage::Retired);
    if is_new && let Some(n) = named_alike(&e.state.nodes, &mut String::new(), node.as_str()) {
        let other = &n.name;
        let message =
            format!("the name {node} differs from that of node {other} in capital letters alone");
        let hint = format!("choose another name, or `muster node retire {other}` first");
        return Err(Refusal::new(RefusalCode::Conflict, message).hint(hint));
    }
    if let Some(n) = known {
        may_enroll_again(&n, machine, key)?;
        // An older server left what it knew of the machine before.
        if n.stage == Stage::Retired {
            e.forget_node(node);
        }
    }
    let location =
        e.state.topology.nodes.get(node).cloned().unwrap_or_else(|| Location::unplaced(node));
    let event = Event::NodeEnrolled {
        node: node.clone(),
        machine: machine.into(),
        token: token.into(),
        location,
        key: key.map(str::to_owned),
    };
    e.emit(None, event);
    Ok(Answer::Done)
}

/// A node in use whose name is another one and the same but for capital letters. `begun` is the part
/// of the name that was looked at. Names are in order, so each letter costs two looks and not one at
/// every node: a whole site may join at once.
fn named_alike<'a>(
    nodes: &'a BTreeMap<NodeName, Arc<Node>>,
    begun: &mut String,
    name: &str,
) -> Option<&'a Arc<Node>> {
    let at = begun.len();
    let Some(next) = name.as_bytes().get(at) else {
        let same = nodes.get(begun.as_str());
        return same.filter(|n| n.name.as_str() != name && n.stage != Stage::Retired);
    };
    let cases = [next.to_ascii_lowercase(), next.to_ascii_uppercase()];
    let differ = usize::from(cases[0] != cases[1]);
    for c in &cases[..=differ] {
        begun.push(char::from(*c));
        let from = (Bound::Included(begun.as_str()), Bound::Unbounded);
        let first = nodes.range::<str, _>(from).next();
        let found = match first {
            Some((n, _)) if n.as_str().starts_with(begun.as_str()) => {
                named_alike(nodes, begun, name)
            }
            _ => None,
        };
        begun.truncate(at);
        if found.is_some() {
            return found;
        }
    }
    None
}

/// Whether an agent may join under a name that is known. A join token is not enough to take a
/// node's name: a retired node's name is free; one that was heard is its key's, since whoever
/// reads the log knows the rest. One whose agent never connected may have lost the answer.
fn may_enroll_again(n: &Node, machine: &str, key: Option<&str>) -> Result<(), Refusal> {
    let name = &n.name;
    let noted = n.enrolment.as_deref();
    let free = n.stage == Stage::Retired;
    let same_key = noted.is_some() && noted == key;
    let never_heard = n.stage == Stage::Enrolled || noted.is_none();
    if free || (n.machine == machine && (same_key || never_heard)) {
        return Ok(());
    }
    let message = if n.machine == machine {
        format!("node {name} is enrolled with another key")
    } else {
        format!("node {name} is enrolled on another machine")
    };
    let hint = format!("choose another name, or `muster node retire {name}` first");
    Err(Refusal::new(RefusalCode::Conflict, message).hint(hint))
}

/// Notes the key of a node that was let in before keys were noted.
pub(super) fn note_key(e: &mut Engine, node: &NodeName, key: &str) -> Result<Answer, Refusal> {
    let n = find(e, node)?;
    if n.enrolment.is_none() && n.stage != Stage::Retired {
        let event = Event::NodeEnrolled {
            node: node.clone(),
            machine: n.machine.clone(),
            token: String::new(),
            location: n.location.clone(),
            key: Some(key.to_owned()),
        };
        e.emit(None, event);
    }
    Ok(Answer::Done)
}

/// Lets a node in again whose enrolment was lost with the end of the log. Whoever connects next
/// under its name must have the same key.
pub(super) fn readmit(
    e: &mut Engine,
    node: &NodeName,
    machine: &str,
    key: &str,
) -> Result<Answer, Refusal> {
    if !e.state.lost_enrolment(node) {
        let message = format!("the enrolment of node {node} is not lost");
        return Err(Refusal::new(RefusalCode::Conflict, message)
            .hint("connect again; if that is refused, join again with a token"));
    }
    let location =
        e.state.topology.nodes.get(node).cloned().unwrap_or_else(|| Location::unplaced(node));
    let (machine, key) = (machine.to_owned(), Some(key.to_owned()));
    let token = String::new();
    e.emit(None, Event::NodeEnrolled { node: node.clone(), machine, token, location, key });
    Ok(Answer::Done)
}

pub(super) fn connected(e: &mut Engine, c: &Command) -> Result<Answer, Refusal> {
    let Command::NodeConnected {
        node,
        machine,
        boot,
        address,
        host,
        inventory,
        observed,
        ended_ago,
        place,
        ahead,
        silent_for,
    } = c
    else {
        return Ok(Answer::Done);
    };
    let n = find(e, node)?;
    if n.machine != *machine {
        return Err(Refusal::new(
            RefusalCode::Conflict,
            format!("node {node} is enrolled on another machine"),
        )
        .hint("two agents use one identity; enrol this one under its own name"));
    }
    if n.stage == Stage::Retired {
        return Err(Refusal::new(RefusalCode::Conflict, format!("node {node} is retired"))
            .hint("enrol it anew with a join token: `muster token create --join NAME`"));
    }
    e.state.note_connection(node, true);
    let away = e.away_since(node);
    let limited = |(key, o): &(AttemptKey, Observed)| {
        let job = e.state.jobs.get(&key.job).filter(|j| j.attempt_key() == Some(*key));
        let a = job.and_then(|j| j.attempt.as_ref());
        matches!(o, Observed::Running) && a.is_some_and(|a| a.deadline.is_some())
    };
    if observed.iter().any(limited) {
        e.start_awaiting_node(node);
    } else {
        e.stop_awaiting_node(node);
    }
    // Once held after a restored backup, only an operator's word lets it go.
    let protected = *ahead || n.protected;
    let seen = by_attempt(observed);
    let greeting = NodeHello { node, boot, address, host, place, inventory, observed };
    let orphans = greeting.orphans(&e.state, protected);
    let same = n.reachable && n.protected == protected && greeting.is_known(&n, &orphans);
    if !same {
        let ranks: BTreeSet<JobId> = n.orphans.union(&orphans).map(|k| k.job).collect();
        let event = Event::NodeBack {
            node: node.clone(),
            boot: boot.clone(),
            address: address.clone(),
            host: host.clone(),
            orphans,
            protected,
            place: place.clone(),
        };
        e.emit(None, event);
        for key in n.orphans.iter().filter(|k| last_of(&seen, **k).is_some_and(is_unproven)) {
            e.outlast_lost_ranks(node, *key);
        }
        e.follow_lost_ranks(ranks);
    }
    if n.inventory != **inventory {
        let event = Event::NodeInventoried { node: node.clone(), inventory: inventory.clone() };
        e.emit(None, event);
        // The first inventory has nothing to be compared with.
        if n.stage != Stage::Enrolled {
            e.inventory_found(node, &n.inventory, inventory);
        }
    }
    e.booted(node, boot);
    e.node_back_found(node);
    if n.stage == Stage::Enrolled {
        if !protected {
            qualify::on_join(e, node);
        }
        let reason = "joined and reported its inventory".to_string();
        e.emit(None, Event::NodeReady { node: node.clone(), reason });
    }
    // A server that is behind the node draws no conclusions from what it sees there.
    if protected {
        return Ok(Answer::Done);
    }
    let ago = by_attempt(ended_ago);
    let gone = match n.boot == *boot {
        true => LostAttemptEnd {
            end: SlotEnd::agent_anew(),
            away: away.map(|t| e.state.now.since(t)),
            silent_for: *silent_for,
        },
        false => LostAttemptEnd { end: SlotEnd::ranks_gone(), away: None, silent_for: *silent_for },
    };
    let here: Vec<Arc<Job>> = e.state.attempts_on(node).cloned().collect();
    for job in here {
        let Some(key) = job.attempt_key() else { continue };
        let seen = last_of(&seen, key);
        let a = job.attempt.as_ref();
        let elsewhere = n.boot == *boot && a.is_some_and(|a| a.started_elsewhere(node, place));
        if elsewhere && seen.is_none() {
            keep_started_elsewhere(e, node, &job, key);
        } else {
            reconcile_attempt(e, node, key, seen, last_of(&ago, key).copied(), &gone);
        }
    }
    given_up_attempts_ended(e, node, observed, &ago);
    Ok(Answer::Done)
}

/// What a node says of its attempts, in their order; as it said it where it names one twice.
fn by_attempt<T>(all: &[(AttemptKey, T)]) -> Vec<(AttemptKey, &T)> {
    let mut all: Vec<(AttemptKey, &T)> = all.iter().map(|(key, of)| (*key, of)).collect();
    all.sort_by_key(|(key, _)| *key);
    all
}

/// What it says of one of them: the last word.
fn last_of<'a, T>(all: &[(AttemptKey, &'a T)], key: AttemptKey) -> Option<&'a T> {
    let last = all[..all.partition_point(|of| of.0 <= key)].last();
    last.filter(|of| of.0 == key).map(|of| of.1)
}

/// A node that connects names ends of attempts that were given up. They are heard before the next
/// attempt is placed, perhaps on this very node.
fn given_up_attempts_ended(
    e: &mut Engine,
    node: &NodeName,
    observed: &[(AttemptKey, Observed)],
    ago: &[(AttemptKey, &Span)],
) {
    for (key, o) in observed {
        if matches!(o, Observed::Ended(end) if fine(end)) {
            e.ended_well_reported_late(node, *key, last_of(ago, *key).copied());
        }
    }
}

/// An agent does not know ranks that were started from another directory of its machine: a copy, or
/// one that was restored elsewhere. That proves nothing, and they may write on: it is waited for
/// them as for those of a lost node.
fn keep_started_elsewhere(e: &mut Engine, node: &NodeName, job: &Job, key: AttemptKey) {
    let in_preflight = job.attempt.as_ref().is_some_and(|a| a.in_preflight().is_some());
    match standing(&e.state, node, key) {
        ReportedAttemptState::Lost | ReportedAttemptState::Orphan => {}
        // Not ordered yet; or it does no harm twice, and the order goes out again.
        ReportedAttemptState::Live(SlotState::Pending) if in_preflight || !job.spec.fenced() => {}
        // The order may have reached the other agent, although that did not report it any more.
        ReportedAttemptState::Live(_) => {
            let end = from_another_directory();
            let (reason, now) = (StopReason::SlotFailed { node: node.clone(), end }, e.state.now);
            if lose_slot(e, key.job, node, reason, now) {
                e.conclude_job(key.job);
            }
        }
    }
}

/// How an agent gives up ranks that it cannot know of.
fn from_another_directory() -> SlotEnd {
    SlotEnd::unproven("they were started from another data directory of the node's agent")
}

/// Were ranks of an attempt on a node started from another directory than the one that its agent
/// runs in? Those that were not started yet are nobody's.
fn is_started_elsewhere(state: &State, node: &NodeName, key: AttemptKey) -> bool {
    let up = !matches!(
        standing(state, node, key),
        ReportedAttemptState::Live(SlotState::Pending) | ReportedAttemptState::Orphan
    );
    let a = state.jobs.get(&key.job).and_then(|j| j.attempt.as_ref());
    let n = state.nodes.get(node);
    up && a.zip(n).is_some_and(|(a, n)| a.started_elsewhere(node, &n.place))
}

/// Does an agent say of an end what it can only have from the records of the ranks, or from having
/// ended them itself? One that knows nothing of an attempt calls it stopped when it shall stop it.
fn is_recorded(end: &SlotEnd) -> bool {
    matches!(end, SlotEnd::Ok | SlotEnd::Failed { .. })
        || end.had_no_server()
        || end.is_agent_anew()
        || end.is_unproven()
}

/// How attempts ended of which their node knows nothing, and since when that may be.
struct LostAttemptEnd {
    end: SlotEnd,
    /// How long no server heard the node, where it comes back to one that started anew.
    away: Option<Span>,
    /// How long this server did not hear it.
    silent_for: Option<Span>,
}

fn reconcile_attempt(
    e: &mut Engine,
    node: &NodeName,
    key: AttemptKey,
    seen: Option<&Observed>,
    ago: Option<Span>,
    gone: &LostAttemptEnd,
) {
    match (standing(&e.state, node, key), seen) {
        (_, Some(o)) => {
            report(e, node, key, o, ago);
        }
        // Never started there: the order goes out again.
        (ReportedAttemptState::Live(SlotState::Pending) | ReportedAttemptState::Orphan, None) => {}
        // The node came back before it was called lost: as for a lost one, the trouble began when it
        // was last heard.
        (ReportedAttemptState::Live(_), None) => {
            end_slot(e, key, node, gone.end.clone(), gone.away.or(gone.silent_for));
        }
        (ReportedAttemptState::Lost, None) => end_slot(e, key, node, gone.end.clone(), gone.away),
    }
}

/// What an agent saw of one attempt, and how long ago, where it ended. Repeats and reports about
/// the past change nothing.
pub(super) fn report(
    e: &mut Engine,
    node: &NodeName,
    key: AttemptKey,
    observed: &Observed,
    ago: Option<Span>,
) -> Answer {
    let orphan = e.state.nodes.get(node).is_some_and(|n| n.orphans.contains(&key));
    let doubted;
    let observed = match observed {
        Observed::Ended(end) if !is_recorded(end) && is_started_elsewhere(&e.state, node, key) => {
            doubted = Observed::Ended(from_another_directory());
            &doubted
        }
        seen => seen,
    };
    let unproven = is_unproven(observed);
    match (observed, standing(&e.state, node, key)) {
        (Observed::Running, ReportedAttemptState::Live(SlotState::Pending)) => {
            e.preflight_overtaken(key);
            let project = e.state.jobs.get(&key.job).map(|j| j.project.clone());
            e.emit(project.as_ref(), Event::SlotStarted { key, node: node.clone() });
            // Until the last is up there is nothing to conclude.
            if e.state.allocated_slots(key.job).pending == 0 {
                e.conclude_job(key.job);
            }
        }
        // The agent of another directory took them over: from now on its word of their end counts.
        (Observed::Running, ReportedAttemptState::Live(SlotState::Running))
            if is_started_elsewhere(&e.state, node, key) =>
        {
            let project = e.state.jobs.get(&key.job).map(|j| j.project.clone());
            e.emit(project.as_ref(), Event::SlotStarted { key, node: node.clone() });
        }
        (Observed::Running, _) => {}
        // What nobody saw end holds its lease, which was renewed just now at the latest.
        (Observed::Ended(end), ReportedAttemptState::Live(_)) if unproven => {
            let reason = StopReason::SlotFailed { node: node.clone(), end: end.clone() };
            let now = e.state.now;
            lose_slot(e, key.job, node, reason, now);
        }
        (Observed::Ended(_), ReportedAttemptState::Lost) if unproven => {}
        (Observed::Ended(end), ReportedAttemptState::Live(_)) => {
            end_slot(e, key, node, end.clone(), ago);
        }
        // Its attempt was given up, and is over only when nothing of it can run any more. Until then
        // it counts that its ranks had ended well before anybody stopped them; nothing else does.
        (Observed::Ended(end), ReportedAttemptState::Lost) => {
            let end = if fine(end) { SlotEnd::Ok } else { SlotEnd::Stopped };
            end_slot(e, key, node, end, ago);
        }
        (Observed::Ended(end), ReportedAttemptState::Orphan) if fine(end) => {
            e.ended_well_reported_late(node, key, ago);
        }
        (Observed::Ended(_), ReportedAttemptState::Orphan) => {}
    }
    if orphan && matches!(observed, Observed::Ended(_)) {
        e.emit(None, Event::OrphanGone { node: node.clone(), key });
        if unproven {
            e.outlast_lost_ranks(node, key);
        }
        e.follow_lost_ranks([key.job]);
    }
    if unproven {
        e.conclude_job(key.job);
    }
    Answer::Done
}

fn is_unproven(o: &Observed) -> bool {
    matches!(o, Observed::Ended(end) if end.is_unproven())
}

/// The last ranks of an attempt that were to start ended well before a report of their start came: the
/// attempt ran, and that is written down before they are gone.
fn start_with_end(e: &mut Engine, key: AttemptKey, node: &NodeName, end: &SlotEnd) {
    let Some(job) = e.state.jobs.get(&key.job) else { return };
    let going = |a: &&Attempt| a.started_at.is_none() && a.stop.is_none();
    let Some(a) = job.attempt.as_ref().filter(going) else { return };
    let mut slots = a.placement.slots.iter().zip(&a.slots);
    let own = slots.any(|(slot, s)| slot.node == *node && *s == SlotState::Pending);
    if !own || !fine(end) || e.state.allocated_slots(key.job).pending != 1 {
        return;
    }
    let deadline = job.spec.time_limit.map(|l| e.state.now + l);
    let project = job.project.clone();
    e.emit(Some(&project), Event::AttemptStarted { key, deadline });
}

fn end_slot(e: &mut Engine, key: AttemptKey, node: &NodeName, end: SlotEnd, ago: Option<Span>) {
    let (Some(job), now) = (e.state.jobs.get(&key.job), e.state.now) else { return };
    let a = job.attempt.as_ref();
    let (started, stopping) =
        a.map_or((false, false), |a| (a.started_at.is_some(), a.stop.is_some()));
    let (project, fails) = (job.project.clone(), !fine(&end) && !stopping);
    let ended_at = a.and_then(|a| ended_before(a, ago, now));
    if a.is_some_and(|a| failed_before_limit(a, &end, ended_at.unwrap_or(now))) {
        let reason = StopReason::SlotFailed { node: node.clone(), end: end.clone() };
        let job = Arc::clone(job);
        e.order_stop(&job, reason, None);
    } else if let Some(limit) = ended_by_limit(job, &end, ago.map(|_| ended_at.unwrap_or(now))) {
        let job = Arc::clone(job);
        e.order_stop(&job, StopReason::TimeLimit { limit }, None);
    }
    if let Some(at) = ended_at {
        e.note_late_end(node, at);
    }
    start_with_end(e, key, node, &end);
    e.emit(Some(&project), Event::SlotEnded { key, node: node.clone(), end, ended_at });
    // A gang of thousands ends one node at a time: most of them conclude nothing.
    let left = e.state.allocated_slots(key.job);
    if fails || !left.any() || (left.pending == 0 && !started) {
        e.conclude_job(key.job);
    }
    e.finish_drain(node);
}

/// When ranks ended, where that was before now. Whatever a node says, it is neither before the
/// start of the attempt nor in the future.
fn ended_before(a: &Attempt, ago: Option<Span>, now: Time) -> Option<Time> {
    let at = (now - ago?).max(a.started_at?);
    (at < now).then_some(at)
}

/// Did ranks end badly by themselves although the attempt is being stopped for its time limit?
/// An agent calls them stopped when the order reached them first. What happened before is not the
/// limit's doing, however late the server hears of it.
fn failed_before_limit(a: &Attempt, end: &SlotEnd, at: Time) -> bool {
    let reason = a.stop.as_ref().map(|s| &s.reason);
    matches!(reason, Some(StopReason::TimeLimit { .. }))
        && match end {
            SlotEnd::Failed { .. } => true,
            SlotEnd::NodeFault { .. } | SlotEnd::Unstartable { .. } => {
                a.deadline.is_some_and(|d| at < d)
            }
            SlotEnd::Ok | SlotEnd::Stopped => false,
        }
}

/// The limit after which a node ended ranks of an attempt that nobody had stopped for it yet: it was
/// over before a server could act upon it.
fn ended_by_limit(job: &Job, end: &SlotEnd, at: Option<Time>) -> Option<Span> {
    let a = job.attempt.as_ref().filter(|a| a.stop.is_none())?;
    let late = a.deadline? <= at?;
    let by_node = matches!(end, SlotEnd::NodeFault { .. } | SlotEnd::Stopped);
    job.spec.time_limit.filter(|_| late && by_node)
}

pub(super) fn lost(e: &mut Engine, name: &NodeName, last_seen: Time) -> Result<Answer, Refusal> {
    let n = find(e, name)?;
    if !n.reachable {
        return Ok(Answer::Done);
    }
    e.stop_awaiting_node(name);
    e.emit(None, Event::NodeLost { node: name.clone(), last_seen });
    let here: Vec<JobId> = e.state.attempts_on(name).map(|j| j.id).collect();
    for id in &here {
        let reason = StopReason::NodeLost { node: name.clone() };
        if lose_slot(e, *id, name, reason, last_seen) {
            e.swap(*id);
            e.conclude_job(*id);
        }
    }
    e.finish_drain(name);
    e.node_lost_found(name, last_seen);
    e.attribute_to_loss(name, &here);
    Ok(Answer::Done)
}

/// Nobody knows whether ranks still run on a node that renewed their lease at `since` for the last
/// time. Says whether there was something to lose; then its job is to be settled.
fn lose_slot(e: &mut Engine, id: JobId, node: &NodeName, why: StopReason, since: Time) -> bool {
    let Some(job) = e.state.jobs.get(&id).cloned() else { return false };
    let Some(key) = job.attempt_key() else { return false };
    e.emit(Some(&job.project), Event::SlotLost { key, node: node.clone() });
    let Some(job) = e.state.jobs.get(&id).cloned() else { return false };
    // An order that stands keeps its reason; only the fence is added.
    let stands = job.attempt.as_ref().and_then(|a| a.stop.as_ref());
    let reason = stands.map_or(why, |s| s.reason.clone());
    e.order_stop(&job, reason, Some(since));
    true
}

pub(super) fn cordon(
    e: &mut Engine,
    req: &Request,
    name: &NodeName,
    reason: &str,
) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    may_cordon(&n)?;
    // No reason is not another one.
    let reason = match (reason, &n.cordon) {
        ("", Some(c)) => c.reason.as_str(),
        (given, _) => given,
    };
    // An operator's word takes over a cordon that a failed test set.
    let same = |c: &Cordon| c.reason == reason && c.by == CordonedBy::Operator;
    if !n.cordon.as_ref().is_some_and(same) {
        e.emit(
            None,
            Event::NodeCordoned { node: name.clone(), reason: reason.into(), decided: false },
        );
    }
    Ok(Answer::Done)
}

pub(super) fn uncordon(e: &mut Engine, req: &Request, name: &NodeName) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    may_cordon(&n)?;
    if n.cordon.is_some() {
        e.emit(None, Event::NodeUncordoned { node: name.clone(), decided: false });
    }
    Ok(Answer::Done)
}

pub(super) fn drain(
    e: &mut Engine,
    req: &Request,
    name: &NodeName,
    reason: &str,
    stop: bool,
) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    // Another reason for a drain of an operator is recorded; one of a remediation has its own.
    let another = !reason.is_empty() && reason != n.stage_why && !n.drained_by_remediation;
    if step(&n, Step::Drain)? || another {
        // Without one, the reason of the stage before would stand there as that of the drain.
        let reason = match reason {
            "" => format!("by {}, no reason given", req.actor.name),
            given => given.to_owned(),
        };
        e.emit(None, Event::DrainStarted { node: name.clone(), reason });
    }
    if stop {
        let automatic = req.actor == Actor::system();
        let here: Vec<Arc<Job>> = e.state.attempts_on(name).cloned().collect();
        for job in here {
            if job.attempt.as_ref().is_some_and(|a| a.stop.is_none()) {
                let why = StopReason::Drain { node: name.clone(), automatic };
                e.order_stop(&job, why, None);
                e.swap(job.id);
                e.conclude_job(job.id);
            }
        }
    }
    e.finish_drain(name);
    Ok(Answer::Done)
}

pub(super) fn undrain(e: &mut Engine, req: &Request, name: &NodeName) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    if may_undrain(&e.state, &n, e.state.now)? {
        let reason = format!("undrained by {}", req.actor.name);
        e.emit(None, Event::NodeReady { node: name.clone(), reason });
        e.settle_undrained(name);
    }
    Ok(Answer::Done)
}

pub(super) fn retire(e: &mut Engine, req: &Request, name: &NodeName) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    may_retire(&e.state, &n, e.state.now)?;
    let here: Vec<Arc<Job>> = e.state.attempts_on(name).cloned().collect();
    for job in here {
        if let Some(key) = job.attempt_key() {
            end_slot(e, key, name, SlotEnd::fault(format!("node {name} was retired")), None);
        }
    }
    qualify::drop_test(e, &n);
    e.forget_node(name);
    e.emit(None, Event::NodeRetired { node: name.clone() });
    e.follow_lost_ranks(n.orphans.iter().map(|k| k.job));
    Ok(Answer::Done)
}

pub(super) fn reconcile(e: &mut Engine, req: &Request, name: &NodeName) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, name)?;
    if n.protected {
        e.emit(None, Event::NodeReconciled { node: name.clone() });
        // One that joined while it was held was not tested, and of one that joined in the lost part
        // of the log nobody knows: it takes no work before.
        let idle = e.state.attempts_on(name).next().is_none();
        if n.stage == Stage::Ready && n.qualified.is_none() && idle {
            qualify::on_join(e, name);
        }
        e.reconsider_findings_on(name);
    }
    Ok(Answer::Done)
}

pub(super) fn mark(
    e: &mut Engine,
    req: &Request,
    node: &NodeName,
    role: Option<NodeRole>,
    hazard: Option<u32>,
) -> Result<Answer, Refusal> {
    let n = find_versioned(e, req, node)?;
    let (role, hazard) = (role.unwrap_or(n.role), hazard.unwrap_or(n.hazard));
    if hazard > 1000 {
        return Err(Refusal::new(RefusalCode::Invalid, format!("{hazard} is more than 1000"))
            .field("hazard")
            .hint("give the chance to fail within a month in thousandths, 0 to 1000"));
    }
    if (role, hazard) != (n.role, n.hazard) {
        e.emit(None, Event::NodeMarked { node: node.clone(), role, hazard, decided: false });
    }
    Ok(Answer::Done)
}
