//! What is so, as far as the log knows.

use crate::state::State;
use muster_model::entity::Entity;
use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::{Node, Stage};
use muster_model::qualification::Outcome;
use muster_model::remediation::{Action, Remediation, RemediationStep};
use muster_model::topology::Level;
use muster_model::units::Time;
use muster_runbook::{Observable, Test, Value};
use std::collections::BTreeMap;
use std::sync::Arc;

type Vars = BTreeMap<String, String>;

fn unknown(why: impl Into<String>) -> Value {
    Value::Unknown(why.into())
}

fn number(n: usize) -> Value {
    Value::Number(i64::try_from(n).unwrap_or(i64::MAX))
}

/// Looks at one thing.
pub(super) fn observe(s: &State, test: &Test, vars: &Vars) -> Value {
    match test.look.needs() {
        Some("node") => match node(s, vars) {
            Ok(n) => of_node(s, test, n),
            Err(v) => v,
        },
        Some("job") => match job(s, vars) {
            Ok(j) => of_job(s, &test.look, j),
            Err(v) => v,
        },
        Some(what) => of_thing(s, &test.look, what, vars),
        None => of_fleet(s, &test.look),
    }
}

fn node<'a>(s: &'a State, vars: &Vars) -> Result<&'a Arc<Node>, Value> {
    let name = vars.get("node").map_or("", String::as_str);
    let parsed = name.parse::<NodeName>().ok();
    parsed.and_then(|n| s.nodes.get(&n)).ok_or_else(|| unknown(format!("there is no node {name}")))
}

fn job<'a>(s: &'a State, vars: &Vars) -> Result<&'a Arc<Job>, Value> {
    let id = vars.get("job").map_or("", String::as_str);
    let parsed = id.parse::<JobId>().ok();
    parsed.and_then(|j| s.jobs.get(&j)).ok_or_else(|| unknown(format!("there is no job {id}")))
}

/// The heaviest remediation of a node that goes on.
pub(super) fn remediation<'a>(s: &'a State, n: &NodeName) -> Option<&'a Arc<Remediation>> {
    s.health
        .remediations_of(n)
        .filter(|r| r.step != RemediationStep::Probation)
        .max_by_key(|r| (r.action, r.id))
}

fn is_approval_pending(s: &State, n: &NodeName) -> bool {
    s.health.remediations_of(n).any(|r| s.awaits_approval(r))
}

/// How far the heaviest remediation of a node is: one that nobody has to decide about and that has
/// not begun is delayed, unless it is only to watch.
fn remediation_step(s: &State, n: &NodeName) -> &'static str {
    if is_approval_pending(s, n) {
        return "approval";
    }
    let Some(r) = remediation(s, n) else { return "none" };
    match r.step {
        RemediationStep::Probation | RemediationStep::Ended => "none",
        // Nothing more than that is to be done.
        RemediationStep::Proposed if r.action == Action::Watch => "watched",
        RemediationStep::Proposed => "delayed",
        RemediationStep::Moving => "moving",
        RemediationStep::Approval => "approval",
        RemediationStep::Acting => "acting",
        RemediationStep::Repairing => "repairing",
        RemediationStep::Testing => "testing",
    }
}

fn of_node(s: &State, test: &Test, n: &Arc<Node>) -> Value {
    let of_kind =
        |k: &str| test.kind.as_deref().is_none_or(|want| want.split('|').any(|w| w.trim() == k));
    let lost_beside = |level: Level| {
        let here = n.location.path(&n.name, level);
        let near = s.nodes.values().filter(|m| m.location.path(&m.name, level) == here);
        let lost = near.filter(|m| m.name != n.name && m.stage != Stage::Retired && !m.reachable);
        number(lost.count())
    };
    match &test.look {
        Observable::NodeState => Value::Word(muster_lifecycle::state(n).into()),
        Observable::NodeReachable => Value::yes(n.reachable),
        Observable::NodeCordoned => Value::yes(n.cordon.is_some()),
        Observable::NodeJobs => number(s.attempts_on(&n.name).count()),
        Observable::NodeGpus => Value::Number(i64::from(n.gpu_set().len())),
        Observable::NodeMissingGpus => number(n.missing_gpus.len()),
        Observable::NodeFindings => {
            number(s.health.open_on(&n.name).filter(|f| of_kind(&f.seen.kind)).count())
        }
        Observable::NodeSeverity => {
            let worst = s.health.open_on(&n.name).map(|f| f.seen.severity).max();
            Value::Word(worst.map_or("none", |w| w.word()).into())
        }
        Observable::NodeRemediation => {
            Value::Word(remediation(s, &n.name).map_or("none", |r| r.action.word()).into())
        }
        Observable::NodeRemediationStep => Value::Word(remediation_step(s, &n.name).into()),
        Observable::NodeApproval => Value::yes(is_approval_pending(s, &n.name)),
        Observable::NodeTest => Value::Word(
            match (&n.qualifying, &n.qualified) {
                (Some(_), _) => "running",
                (None, None) => "none",
                (None, Some(q)) if q.report.outcome == Outcome::Failed => "failed",
                (None, Some(_)) => "passed",
            }
            .into(),
        ),
        Observable::NodeProbation => Value::yes(n.probation.is_some()),
        Observable::NodeBreaker => Value::yes(n.breaker.is_some()),
        Observable::LeafLost => lost_beside(Level::Leaf),
        Observable::RackLost => lost_beside(Level::Rack),
        _ => unknown("it is not in the log"),
    }
}

fn of_job(s: &State, look: &Observable, j: &Arc<Job>) -> Value {
    match look {
        Observable::JobState => Value::Word(j.state.word().into()),
        Observable::JobAttempts => Value::Number(i64::from(
            j.attempt.as_ref().map(|a| a.no).or(j.past.last().map(|p| p.no)).unwrap_or(0),
        )),
        Observable::JobHeld => Value::yes(j.held.is_some()),
        Observable::JobCheckpointAge => match &j.checkpoint {
            Some(c) => minutes(s.now.since(c.at).0),
            None => Value::Word("none".into()),
        },
        _ => unknown("it is not in the log"),
    }
}

fn minutes(ms: u64) -> Value {
    Value::Number(i64::try_from(ms / 60_000).unwrap_or(i64::MAX))
}

fn of_thing(s: &State, look: &Observable, what: &str, vars: &Vars) -> Value {
    let text = vars.get(what).map_or("", String::as_str);
    let missing = || unknown(format!("there is no {what} {text}"));
    let id = || text.parse::<u64>().ok();
    let word = |open: bool| Value::Word(if open { "open" } else { "closed" }.into());
    match look {
        Observable::FindingState => id()
            .and_then(|i| s.health.findings.get(&i))
            .map_or_else(missing, |f| word(f.closed.is_none())),
        Observable::IncidentState | Observable::IncidentFindings | Observable::IncidentOwned => {
            let Some(i) = id().and_then(|i| s.health.incidents.get(&i)) else { return missing() };
            match look {
                Observable::IncidentState => word(i.closed.is_none()),
                Observable::IncidentOwned => Value::yes(i.owner.is_some()),
                _ => Value::Number(i64::try_from(i.count).unwrap_or(i64::MAX)),
            }
        }
        Observable::BreakerState => match text.parse::<Entity>() {
            Ok(e) => {
                Value::Word(s.health.breakers.get(&e).map_or("closed", |b| b.state.word()).into())
            }
            Err(_) => missing(),
        },
        _ => unknown("it is not in the log"),
    }
}

fn of_fleet(s: &State, look: &Observable) -> Value {
    let nodes = || s.nodes.values().filter(|n| n.stage != Stage::Retired);
    match look {
        Observable::AutomationState => {
            let stopped = s.health.automation.stopped.is_some();
            let word = match (s.policy.remediations.enabled, stopped) {
                (false, _) => "off",
                (true, true) => "stopped",
                (true, false) => "running",
            };
            Value::Word(word.into())
        }
        Observable::AutomationOut => number(nodes().filter(|n| s.health.is_out(n)).count()),
        Observable::AutomationApprovals => {
            number(s.health.live_remediations().filter(|r| s.asks_operator(r)).count())
        }
        Observable::FleetProtected => number(nodes().filter(|n| n.protected).count()),
        Observable::FleetLost => number(nodes().filter(|n| !n.reachable).count()),
        Observable::FleetReady => number(nodes().filter(|n| serves(n)).count()),
        Observable::FleetSpares => number(nodes().filter(|n| s.is_ready_spare(n)).count()),
        Observable::FleetFindings => number(s.health.open_count()),
        Observable::QueueLength => number(s.queue_len()),
        Observable::QueueOldest => {
            let oldest = s.queue().filter_map(|id| s.jobs.get(&id).map(|j| waits_since(j))).min();
            oldest.map_or(Value::Number(0), |t| minutes(s.now.since(t).0))
        }
        _ => unknown("it is not in the log"),
    }
}

/// Since when a queued job waits: one that ran waits since its last attempt ended.
fn waits_since(j: &Job) -> Time {
    let ended = j.past.last().map_or(j.submitted_at, |p| p.ended_at);
    ended.max(j.submitted_at).max(j.not_before)
}

fn serves(n: &Node) -> bool {
    n.stage == Stage::Ready && n.reachable && n.cordon.is_none() && n.breaker.is_none()
}
