//! What lists and `top` say of a job in one line.

use crate::output::time;
use jiff::tz::TimeZone;
use muster_api::job::PastAttempt;
use muster_api::{AttemptPreflight, Job, Notice, ReservedStart, Timestamp};
use muster_model::job::{FenceEnd, JobState, Verdict};
use muster_model::spec::{JobSpec, OnPartition};
use muster_model::units::{Span, Time};

/// How it stands: the word of its state, but one that waits may be held.
#[must_use]
pub fn job_state_label(job: &Job) -> &'static str {
    match job.state {
        JobState::Queued if job.held.is_some() => "held",
        state => state.word(),
    }
}

/// How long the attempt that goes on has all its ranks up, or how long the last one of a job that
/// ended had: until its last rank ended, or its lost node was last heard. Waiting, and time in which
/// the job had ended, are none of it.
#[must_use]
pub fn ran(job: &Job, now: Time) -> Option<Span> {
    let (start, end) = match (&job.attempt, job.past.last()) {
        (Some(a), _) => (a.started_at, a.stopped_at.or(a.freed_at).map_or(now, |t| t.0)),
        (None, Some(p)) => (p.started_at, p.stopped_at.unwrap_or(p.ended_at).0),
        (None, None) => (job.started_at, job.ended_at.map_or(now, |t| t.0)),
    };
    let runs = job.attempt.is_some() || job.state.is_final();
    start.filter(|_| runs).map(|s| end.since(s.0))
}

/// How long all ranks of an attempt that ended were up, for people; none where they never were.
#[must_use]
pub fn up_for(p: &PastAttempt) -> Option<String> {
    let exited = p.verdict == Verdict::Success || p.reason.starts_with("rank ");
    match p.started_at {
        Some(s) => Some(time::length(p.stopped_at.unwrap_or(p.ended_at).0.since(s.0))),
        // They ended before it was heard that they were up: somewhen after the placement.
        None if exited => {
            let most = p.ended_at.0.since(p.placed_at.0).max(Span::secs(1));
            Some(format!("<{}", time::length(most)))
        }
        None => None,
    }
}

/// How long it [`ran`], for lists; empty where that cannot be said.
#[must_use]
pub fn ran_words(job: &Job, now: Time) -> String {
    let last = job.past.last().filter(|_| job.attempt.is_none() && job.state.is_final());
    let known = ran(job, now).map(time::length);
    known.or_else(|| last.and_then(up_for)).unwrap_or_default()
}

/// When a job with a reserved start starts.
fn starts(p: &ReservedStart, now: Time, zone: &TimeZone) -> String {
    if p.at.0 <= now {
        return "starts any moment".into();
    }
    format!("starts by {}", time::clock(now, p.at, zone))
}

/// Why a running job will be stopped.
#[must_use]
pub fn notice(n: &Notice, now: Time, zone: &TimeZone) -> String {
    format!("stops by {}: {}", time::clock(now, n.until, zone), n.message)
}

/// Why the ranks of a gang that has its nodes are not started yet.
#[must_use]
pub fn preflight(p: &AttemptPreflight, now: Time) -> String {
    let (since, until) = (time::relative(now, p.since), time::relative(now, p.until));
    format!("preflight: {} since {since}; starts {until} at the latest", p.message)
}

/// What keeps the next attempt of a job from starting, or the job from being over: its ranks on lost
/// nodes may still run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Fence {
    /// No other attempt follows: the job is over then.
    pub ends: bool,
    /// The lost nodes, as a host list.
    pub nodes: String,
    /// When their ranks have certainly stopped; none where they may go on until the nodes connect
    /// again or are retired.
    pub until: Option<Timestamp>,
}

/// The fence that a job waits for; none where nothing of it is lost, or where it ends, its ranks do
/// so by themselves, and it has no checkpoint directory to which they could still write.
#[must_use]
pub fn fence(job: &Job, now: Time) -> Option<Fence> {
    let a = job.attempt.as_ref()?;
    let stop = a.stop.as_ref()?;
    let lost = a.slots.iter().filter(|s| s.state == "lost");
    let lost: Vec<&str> = lost.map(|s| s.node.as_str()).collect();
    if lost.is_empty() {
        return None;
    }
    let ends = stop.reason.ends_job(&job.spec, job.infrastructure_failures);
    let until = match FenceEnd::of(&job.spec, ends, stop.fence_until.map(|t| t.0), now)? {
        FenceEnd::At(t) => Some(t.into()),
        FenceEnd::Connected => None,
    };
    Some(Fence { ends, nodes: muster_specs::hostlist::compress(lost), until })
}

/// When a job starts again after one of its nodes was lost, and how to shorten that; none where it
/// waits for nothing but free capacity.
#[must_use]
pub fn after_loss(spec: &JobSpec) -> Option<String> {
    if !spec.fenced() {
        return None;
    }
    Some(match (spec.partition(), spec.restart_delay()) {
        (OnPartition::StopAfter(lease), Some(delay)) => format!(
            "starts again {} after the lost node's last heartbeat at the earliest; submit with \
             `--on-partition` below {lease} to shorten that",
            time::length(delay)
        ),
        _ => "starts again when the lost node connects again or is retired; submit with \
              `--on-partition TIME` to limit that"
            .into(),
    })
}

/// Why it waits, or why it ended; where it runs otherwise.
#[must_use]
pub fn reason(job: &Job, now: Time, zone: &TimeZone) -> String {
    if let Some(by) = &job.held
        && !job.state.is_final()
    {
        return format!("held by {by}");
    }
    if let Some(p) = job.reserved_start.as_ref().filter(|_| job.state == JobState::Queued) {
        return starts(p, now, zone);
    }
    if let Some(waiting) = &job.waiting {
        return waiting.clone();
    }
    match &job.attempt {
        Some(a) => match &a.stop {
            Some(stop) => match fence(job, now) {
                Some(Fence { ends, nodes, until: Some(until) }) => {
                    let wait = time::length(until.0.since(now));
                    let then = match ends {
                        true => format!("ends in {wait}: its ranks on {nodes} may still write"),
                        false => format!("next attempt in {wait} at the earliest"),
                    };
                    format!("{}; {then}", stop.message)
                }
                Some(Fence { ends, nodes, until: None }) => {
                    let then = if ends { "ends" } else { "next attempt" };
                    let back = "connects again or is retired";
                    format!("{}; {then} when {nodes} {back}", stop.message)
                }
                None => stop.message.clone(),
            },
            None if a.notice.is_some() => {
                a.notice.as_ref().map(|n| notice(n, now, zone)).unwrap_or_default()
            }
            None if a.in_preflight().is_some() => {
                a.in_preflight().map(|p| preflight(p, now)).unwrap_or_default()
            }
            None => {
                let names: Vec<&str> = a.slots.iter().map(|s| s.node.as_str()).collect();
                muster_specs::hostlist::compress(names)
            }
        },
        None => {
            let reason = job.reason.clone().unwrap_or_default();
            match job.hint() {
                Some(hint) => format!("{reason}; {hint}"),
                None => reason,
            }
        }
    }
}
