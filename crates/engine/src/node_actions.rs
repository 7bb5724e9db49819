//! What an operator may do with a node: the checks of the commands, and what they make of each action now.

use crate::node_hello::{ReportedAttemptState, standing};
use crate::state::State;
use muster_lifecycle::Step;
use muster_model::command::{Refusal, RefusalCode};
use muster_model::cordon::CordonedBy;
use muster_model::finding::Severity;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::{Node, NodeAction, Stage};
use muster_model::placement::GpuSet;
use muster_model::remediation::{Act, Remediation, RemediationStep};
use muster_model::units::{Span, Time};
use std::sync::Arc;

/// Word of what an agent can that tests its node.
pub(crate) const CAN: &str = "qualify";

/// An action, and whether a node takes it now.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeActionOffer {
    /// What may be done.
    pub action: NodeAction,
    /// Why it would be refused, or would change nothing; none: the node takes it.
    pub refusal: Option<Refusal>,
    /// GPUs that it may be asked for, one at a time; of those that are about one GPU.
    pub gpus: GpuSet,
}

impl State {
    /// Every action, and whether this node takes it at that moment: what the commands decide, and with an effect.
    #[must_use]
    pub fn node_actions(&self, n: &Node, now: Time) -> Vec<NodeActionOffer> {
        NodeAction::ALL.into_iter().map(|a| self.node_action(n, a, now)).collect()
    }

    /// Does this remediation keep its node out of service, and may an operator return that without a test?
    #[must_use]
    pub fn returns_node(&self, r: &Remediation) -> bool {
        let may = |n: &Arc<Node>| may_return(self, n, self.now).is_ok();
        r.outcome.is_none() && holds(r) && self.nodes.get(&r.node).is_some_and(may)
    }

    fn node_action(&self, n: &Node, action: NodeAction, now: Time) -> NodeActionOffer {
        let name = &n.name;
        let effect = |changes: bool, message: String| match changes {
            true => Ok(()),
            false => Err(Refusal::new(RefusalCode::Conflict, message)),
        };
        let stage = muster_lifecycle::stage_label(n.stage);
        let (mut gpus, mut none) = (GpuSet(0), None);
        let taken = match action {
            NodeAction::Cordon => may_cordon(n).and_then(|()| {
                let own = n.cordon.as_ref().is_some_and(|c| c.by == CordonedBy::Operator);
                effect(!own, format!("node {name} is cordoned already"))
            }),
            NodeAction::Uncordon => may_cordon(n)
                .and_then(|()| effect(n.cordon.is_some(), format!("node {name} is not cordoned"))),
            NodeAction::Drain => step(n, Step::Drain)
                .and_then(|moves| effect(moves, format!("node {name} is {stage} already"))),
            NodeAction::Undrain => may_undrain(self, n, now)
                .and_then(|moves| effect(moves, format!("node {name} is {stage}, not drained"))),
            NodeAction::Qualify => may_qualify(self, n, now),
            NodeAction::CancelQualification => {
                effect(n.qualifying.is_some(), format!("no test of node {name} runs"))
            }
            NodeAction::Repaired => may_repair(self, n, now).and_then(|r| {
                let untested = r.step != RemediationStep::Testing;
                effect(untested, format!("node {name} is being tested already"))
            }),
            NodeAction::Return => may_return(self, n, now),
            NodeAction::Exclude | NodeAction::Include => {
                let out = action == NodeAction::Exclude;
                let all = n.gpu_set().or(n.missing_set()).or(n.excluded_gpus);
                let asked = if out { all.minus(n.excluded_gpus) } else { n.excluded_gpus };
                for g in asked.iter() {
                    let one = GpuSet(1 << g);
                    let after =
                        if out { n.excluded_gpus.or(one) } else { n.excluded_gpus.minus(one) };
                    match may_exclude(self, n, after) {
                        Ok(()) => gpus = gpus.or(one),
                        Err(refusal) => none = none.or(Some(refusal)),
                    }
                }
                let word = if out { "to be excluded" } else { "that is excluded" };
                match none {
                    Some(refusal) if gpus.is_empty() => Err(refusal),
                    _ => effect(!gpus.is_empty(), format!("node {name} has no GPU {word}")),
                }
            }
            NodeAction::Retire => may_retire(self, n, now),
        };
        NodeActionOffer { action, refusal: taken.err(), gpus }
    }
}

fn conflict(message: String, hint: impl Into<String>) -> Refusal {
    Refusal::new(RefusalCode::Conflict, message).hint(hint)
}

/// Does the step change the stage of the node?
pub(crate) fn step(n: &Node, s: Step) -> Result<bool, Refusal> {
    muster_lifecycle::step(n, s)
        .map(|to| to.is_some())
        .map_err(|x| Refusal::new(RefusalCode::Conflict, x.to_string()))
}

/// A retired node gets no work anyway; as any other step, this takes a node of the site.
pub(crate) fn may_cordon(n: &Node) -> Result<(), Refusal> {
    match n.stage {
        Stage::Retired => step(n, Step::Serve).map(|_| ()),
        _ => Ok(()),
    }
}

/// Does it change the stage of the node?
pub(crate) fn may_undrain(s: &State, n: &Node, now: Time) -> Result<bool, Refusal> {
    let name = &n.name;
    if n.stage == Stage::Enrolled {
        return Err(Refusal::new(
            RefusalCode::Conflict,
            format!("node {name} has not connected yet; it becomes ready when its agent connects"),
        ));
    }
    let taken_by = s.health.remediations_of(name).find(|r| holds(r)).map(|r| r.id);
    // Neither an undo nor a return brings it back in the middle of that.
    if taken_by.is_some() || s.health.is_stopped(n) {
        nothing_under_way(s, name, now)?;
    }
    if let Some(id) = taken_by {
        return Err(conflict(
            format!("remediation {id} took node {name} out of service"),
            format!(
                "`muster remediations undo {id}` undoes it; `muster node return {name} --reason \
                 WHY` returns it without a test"
            ),
        ));
    }
    if s.health.is_stopped(n) {
        return Err(conflict(
            format!("a critical finding blocks new work on node {name}"),
            format!(
                "`muster describe node {name}` shows it; `muster node return {name} --reason WHY` \
                 returns the node without a test"
            ),
        ));
    }
    step(n, Step::Serve)
}

pub(crate) fn may_retire(s: &State, n: &Node, now: Time) -> Result<(), Refusal> {
    let name = &n.name;
    let here: Vec<&Arc<Job>> = s.attempts_on(name).collect();
    let is_lost = |job: &Job| {
        let key = job.attempt_key();
        key.is_some_and(|key| matches!(standing(s, name, key), ReportedAttemptState::Lost))
    };
    // Ranks that its agent cannot know of keep the drain from its end, and nothing else is there.
    let only_lost = !here.is_empty() && here.iter().all(|job| is_lost(job));
    if !(n.stage == Stage::Draining && only_lost) {
        step(n, Step::Retire)?;
    }
    // What was lost with it will not come back: nothing there can write any more, says the
    // operator's word. It is not taken while ranks that nobody hears may go on by their lease.
    let fence = |job: &&Arc<Job>| {
        let until = job.attempt.as_ref()?.stop.as_ref()?.fence_until?;
        (is_lost(job) && until > now).then_some((until, job.id))
    };
    if let Some((until, job)) = here.iter().filter_map(fence).max() {
        let left = Span(until.since(now).0.div_ceil(1000) * 1000);
        let why = match n.reachable {
            true => format!("the agent of node {name} did not see all ranks end"),
            false => format!("the heartbeat of node {name} is lost"),
        };
        return Err(conflict(
            format!("{why}, and ranks of job {job} may write there for {left} more"),
            "retire it then: a second attempt must not write at the same time",
        ));
    }
    Ok(())
}

pub(crate) fn may_qualify(s: &State, n: &Node, now: Time) -> Result<(), Refusal> {
    let name = &n.name;
    if matches!(n.stage, Stage::Retired | Stage::Enrolled) {
        let word = muster_lifecycle::stage_label(n.stage);
        return Err(conflict(
            format!("node {name} is {word}"),
            "only nodes that joined are tested",
        ));
    }
    nothing_under_way(s, name, now)?;
    if !n.reachable {
        let hint = "start its agent first; `muster describe node NODE` says since when it is away";
        return Err(conflict(format!("the heartbeat of node {name} is lost"), hint));
    }
    if n.protected {
        let hint = format!("`muster node reconcile {name}` first");
        return Err(conflict(format!("node {name} is protected after a restored backup"), hint));
    }
    if let Some(q) = n.qualifying {
        return Err(conflict(
            format!("node {name} is being qualified already ({})", q.level.word()),
            format!("`muster node qualify --cancel {name}` ends that"),
        ));
    }
    if s.attempts_on(name).next().is_some() || !n.orphans.is_empty() {
        return Err(conflict(
            format!("work runs on node {name}"),
            format!("`muster node drain {name}` first, and `--stop` to make it leave at once"),
        ));
    }
    if !n.inventory.can.contains(CAN) {
        return Err(conflict(
            format!("node {name} cannot be qualified: its agent does not know how"),
            "it takes an agent of this version, and a GPU that it can test",
        ));
    }
    Ok(())
}

/// The remediation whose test follows.
pub(crate) fn may_repair(s: &State, n: &Node, now: Time) -> Result<Arc<Remediation>, Refusal> {
    let name = &n.name;
    nothing_under_way(s, name, now)?;
    let out = matches!(n.stage, Stage::Quarantined | Stage::Repairing);
    taking(s, name).filter(|_| out).ok_or_else(|| {
        conflict(
            format!("node {name} is {} and not in repair", muster_lifecycle::shown_state(n)),
            "`muster node qualify` tests a node that is reachable and holds no work",
        )
    })
}

/// Who returns a node without a test returns it from the one that failed, too.
pub(crate) fn failed_its_test(n: &Node) -> bool {
    n.cordon.as_ref().is_some_and(|c| c.by == CordonedBy::FailedTest)
}

pub(crate) fn may_return(s: &State, n: &Node, now: Time) -> Result<(), Refusal> {
    let (name, book) = (&n.name, &s.health);
    let cordoned = failed_its_test(n) && n.stage == Stage::Ready;
    let shut = book.is_out(n) || book.is_behind_breaker(n);
    if !(cordoned || shut || book.is_stopped(n)) {
        let hint = match n.stage {
            Stage::Draining | Stage::Drained => {
                format!("`muster node undrain {name}` ends the drain")
            }
            Stage::Ready if n.cordon.is_some() => {
                format!("`muster node uncordon {name}` ends the cordon")
            }
            _ => "only what was taken out of service can be returned".to_owned(),
        };
        let is = muster_lifecycle::shown_state(n);
        return Err(conflict(format!("node {name} is {is}"), hint));
    }
    nothing_under_way(s, name, now)
}

/// May these GPUs, and no others, be left out of use?
pub(crate) fn may_exclude(s: &State, n: &Node, gpus: GpuSet) -> Result<(), Refusal> {
    let name = &n.name;
    may_cordon(n)?;
    if let Some(g) = gpus.minus(n.gpu_set().or(n.missing_set()).or(n.excluded_gpus)).iter().next() {
        return Err(Refusal::new(RefusalCode::Invalid, format!("node {name} has no GPU {g}"))
            .field("gpus")
            .hint(format!("`muster describe node {name}` lists them")));
    }
    // Whoever names other GPUs does not mean to give this one back: that is said with none at all.
    let back = n.excluded_gpus.minus(n.excluded_by_operator).minus(gpus);
    let critical = |g: u32| {
        let mut open = s.health.open_on(name);
        open.any(|f| f.seen.severity == Severity::Critical && f.seen.entity.gpu() == Some(g))
    };
    if !gpus.is_empty()
        && let Some(g) = back.iter().find(|g| critical(*g))
    {
        let all = n.excluded_gpus.or(gpus);
        return Err(conflict(
            format!("GPU {g} of node {name} was isolated for a critical finding that is open"),
            format!(
                "`muster node exclude-gpu {name} {all}` leaves it out; `--none` returns every GPU \
                 to service"
            ),
        ));
    }
    Ok(())
}

/// The remediation of a node that took it out of service.
pub(crate) fn taking(s: &State, node: &NodeName) -> Option<Arc<Remediation>> {
    let all = s.health.remediations_of(node);
    all.filter(|r| r.action.takes_node() && r.step != RemediationStep::Probation)
        .max_by_key(|r| (r.action, r.id))
        .cloned()
}

/// Does this remediation keep its node out of service?
pub(crate) fn holds(r: &Remediation) -> bool {
    r.action.takes_node()
        && !matches!(r.step, RemediationStep::Proposed | RemediationStep::Probation)
}

/// Refuses what would bring a node back, or test it, in the middle of a reset, a reboot or a power
/// cycle.
pub(crate) fn nothing_under_way(s: &State, node: &NodeName, now: Time) -> Result<(), Refusal> {
    let Some(a) = s.health.act_under_way(node) else { return Ok(()) };
    let doing = match &a.act {
        Act::ResetGpu { gpu, .. } => format!("GPU {gpu} of node {node} is being reset"),
        Act::PowerCycle { .. } => format!("node {node} is being power-cycled"),
        _ => format!("node {node} is being rebooted"),
    };
    let left = Span(a.until.since(now).0.div_ceil(1000) * 1000);
    let hint = format!(
        "ask again when that is over, in {left} at the latest; `muster remediations --node {node}` \
         shows it and what follows"
    );
    Err(conflict(format!("{doing}, which cannot be stopped"), hint))
}
