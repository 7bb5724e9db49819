//! What caused the end of an attempt (job, node or something shared), by what was found near it.
//!
//! A finding counts from ten minutes before the end to five minutes after it: the window that Meta
//! uses for its fleets (arXiv:2410.21680), and never where it was over before the attempt. It must be about the attempt itself, or about something
//! the attempt stood on. Findings that the end may itself have brought about (a rank that hangs
//! because another one died) name no cause.

use crate::correlate::is_hardware;
use crate::modes::mode;
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::fault::FaultClass;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::ids::AttemptKey;
use muster_model::job::Verdict;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::cmp::Reverse;

/// How long before the end a cause can have been seen.
pub const BEFORE: Span = Span::mins(10);
/// How long after the end a cause can be seen.
pub const AFTER: Span = Span::mins(5);
/// How sure a detector must be for its finding to excuse a job, in thousandths.
pub const CONFIDENCE_MIN: u16 = 500;
/// Findings that are kept with a verdict.
pub const FINDINGS_MAX: usize = 8;

/// An attempt that ended.
#[derive(Debug, Clone, Copy)]
pub struct EndedAttempt<'a> {
    /// When it ended.
    pub at: Time,
    /// When every rank was up; where that was never reported, when it was placed.
    pub began_at: Time,
    /// The first guess, from how it ended.
    pub verdict: Verdict,
    /// The nodes it ran on.
    pub nodes: &'a [NodeName],
    /// When its last rank had ended, where every node reported the end of its own ranks.
    pub reported_at: Option<Time>,
    /// A clock ended it (its time limit): nothing that began later has to do with that.
    pub by_clock: bool,
    /// The attempt before it ended with the same exit code, by itself: what began only after the
    /// end is no cause of this one either, unless it names the attempt.
    pub as_before: bool,
}

/// A finding and its number.
#[derive(Debug, Clone, Copy)]
pub struct NumberedFinding<'a> {
    /// The finding's number.
    pub id: u64,
    /// What was found. Those about a file system or a domain count for every attempt that is asked
    /// about: pass only what the attempt uses and stands in.
    pub seen: &'a ObservedFinding,
    /// When it was written down.
    pub opened_at: Time,
}

/// Whose doing it was, and what that rests on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attribution {
    /// What caused the end.
    pub verdict: Verdict,
    /// The findings it rests on, the cause first.
    pub findings: Vec<u64>,
    /// In a sentence.
    pub reason: String,
}

/// What a finding says about an end near it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Component {
    Hardware,
    Platform,
    Application,
}

/// The control plane's own parts, not the machine's.
const PLATFORM: [FailureMode; 1] = [FailureMode::AGENT_HANG];
/// What follows from an end, or only compares speeds: it explains no death.
const NO_CAUSE: [FailureMode; 8] = [
    FailureMode::HANG,
    FailureMode::STRAGGLER,
    FailureMode::LEMON,
    FailureMode::HAZARD,
    FailureMode::FAILED_QUALIFICATION,
    FailureMode::CRASH_LOOP,
    FailureMode::APP_CRASH,
    FailureMode::APP_SPRAY,
];
/// What slows work down. It explains a death only when it began shortly before.
const SLOW: [FailureMode; 6] = [
    FailureMode::THERMAL,
    FailureMode::POWER_BRAKE,
    FailureMode::CLOCKS_LOW,
    FailureMode::PCIE_DOWNGRADE,
    FailureMode::LINK_SLOW,
    FailureMode::STORAGE_SLOW,
];

/// What is said of an end that nothing explains.
const UNEXPLAINED: &str =
    "nothing explains it: no lack of memory, and no fault of its nodes around its end";

/// What is concluded from silence.
const SILENCE: [FailureMode; 4] = [
    FailureMode::NODE_LOST,
    FailureMode::LEAF_LOSS,
    FailureMode::RACK_LOSS,
    FailureMode::FEED_LOSS,
];

/// Can a finding be the cause of an end at all?
#[must_use]
pub fn names_cause(seen: &ObservedFinding) -> bool {
    component(seen).is_some()
}

fn component(seen: &ObservedFinding) -> Option<Component> {
    let kind = seen.kind.as_str();
    if seen.confidence < CONFIDENCE_MIN || FailureMode::is_one_of(kind, &NO_CAUSE) {
        return None;
    }
    if FailureMode::is_one_of(kind, &PLATFORM) {
        return Some(Component::Platform);
    }
    match mode(kind)?.class {
        FaultClass::Application => Some(Component::Application),
        c if is_hardware(c) && seen.severity >= Severity::Degraded => Some(Component::Hardware),
        _ => None,
    }
}

/// Whether a finding is about this attempt or what it stood on.
fn concerns(
    seen: &ObservedFinding,
    component: Component,
    key: AttemptKey,
    nodes: &[NodeName],
) -> bool {
    if let Some(a) = seen.attempt {
        // Another attempt's misuse of a shared node says nothing about this one, its broken GPU
        // does.
        if a != key && component == Component::Application {
            return false;
        }
        if a == key {
            return true;
        }
    }
    match &seen.entity {
        Entity::Job(j) => *j == key.job,
        Entity::Site | Entity::Storage(_) | Entity::Domain(..) | Entity::Feed(_) => true,
        // Without an attempt it is not known whose program that was.
        e => component != Component::Application && e.node().is_some_and(|n| nodes.contains(n)),
    }
}

/// In which order findings are named with a verdict: the worst first, then what began first, then the
/// surest.
#[must_use]
pub fn cause_order(k: &NumberedFinding<'_>) -> (Reverse<Severity>, Time, Reverse<u16>, u64) {
    (Reverse(k.seen.severity), k.seen.first_seen, Reverse(k.seen.confidence), k.id)
}

/// Whose doing the end was. The first guess stays where a person, the scheduler or success ended
/// it, and where nothing is known; only a killed rank that nothing explains is nobody's.
#[must_use]
pub fn attribute(
    ended: &EndedAttempt<'_>,
    key: AttemptKey,
    known: &[NumberedFinding<'_>],
) -> Attribution {
    if matches!(ended.verdict, Verdict::Success | Verdict::Operator | Verdict::Scheduler) {
        let reason = match ended.verdict {
            Verdict::Success => "it did what it should",
            Verdict::Operator => "a person ended it",
            _ => "the scheduler ended it",
        };
        return make_attribution(ended.verdict, Vec::new(), reason.to_owned());
    }
    // What was over before it began cannot have ended it.
    let from = ended.began_at.min(ended.at).max(ended.at - BEFORE);
    let mut near: Vec<(Component, NumberedFinding<'_>)> = known
        .iter()
        .filter(|k| {
            let slow = FailureMode::is_one_of(&k.seen.kind, &SLOW);
            let seen = if slow { k.seen.first_seen } else { k.seen.last_seen };
            let own = ended.as_before && k.seen.attempt != Some(key);
            let until = if ended.by_clock || own { ended.at } else { ended.at + AFTER };
            // A node that reported its ranks' end before anybody called it lost fell silent
            // afterwards. One that reported later had been silent and came back.
            let silent = FailureMode::is_one_of(&k.seen.kind, &SILENCE);
            let reported = ended.reported_at.filter(|_| silent);
            seen >= from && k.seen.first_seen <= until && reported.is_none_or(|t| k.opened_at < t)
        })
        .filter_map(|k| Some((component(k.seen)?, *k)))
        .filter(|(b, k)| concerns(k.seen, *b, key, ended.nodes))
        .collect();
    near.sort_by_key(|(b, k)| (*b, cause_order(k)));
    let of = |which: Component| -> Vec<NumberedFinding<'_>> {
        near.iter().filter(|(b, _)| *b == which).map(|(_, k)| *k).collect()
    };
    for (which, verdict) in
        [(Component::Hardware, Verdict::Infrastructure), (Component::Platform, Verdict::Platform)]
    {
        let found = of(which);
        if let Some(cause) = found.first() {
            let reason = because(cause.seen, ended.at, found.len());
            return make_attribution(verdict, found.iter().map(|k| k.id).collect(), reason);
        }
    }
    let own = of(Component::Application);
    let ids = own.iter().map(|k| k.id).collect();
    match (ended.verdict, own.first()) {
        // The server already knows that the machine went, whatever the program said last.
        (Verdict::Infrastructure | Verdict::Platform, _) => {
            let reason = "the attempt lost its nodes; nothing else was found around its end";
            make_attribution(ended.verdict, Vec::new(), reason.to_owned())
        }
        (_, Some(k)) => {
            make_attribution(Verdict::Application, ids, because(k.seen, ended.at, own.len()))
        }
        (Verdict::Unknown, None) => make_attribution(Verdict::Unknown, ids, UNEXPLAINED.to_owned()),
        _ => {
            let reason = "it ended by itself; nothing is wrong with its nodes";
            make_attribution(Verdict::Application, ids, reason.to_owned())
        }
    }
}

/// Why an attempt ended, once that is found out late: how it ended, as was said before, and what explains it.
#[must_use]
pub fn explained_late(before: &str, because: &str) -> String {
    let how = before.strip_suffix(UNEXPLAINED).unwrap_or(before).trim_end_matches("; ");
    if how.is_empty() { because.to_owned() } else { format!("{how}; {because}") }
}

fn make_attribution(verdict: Verdict, mut findings: Vec<u64>, reason: String) -> Attribution {
    findings.truncate(FINDINGS_MAX);
    Attribution { verdict, findings, reason }
}

/// `gpu-off-bus on gpu:n1/3, 12s before the end; 2 more findings`.
fn because(seen: &ObservedFinding, end: Time, of: usize) -> String {
    let whole = |s: Span| Span(s.0.div_ceil(1000) * 1000);
    let when = if seen.first_seen > end {
        format!("{} after the end", whole(seen.first_seen.since(end)))
    } else if end.since(seen.first_seen).0 < 1000 {
        "at the end".to_owned()
    } else {
        format!("{} before the end", whole(end.since(seen.first_seen)))
    };
    let more = match of {
        0 | 1 => String::new(),
        2 => "; 1 more finding".to_owned(),
        n => format!("; {} more findings", n - 1),
    };
    format!("{} on {}, {when}{more}", seen.kind, seen.entity)
}

#[cfg(test)]
mod tests;
