//! Orders for Muster's own agents. What runs on a node is desired state: the whole list follows
//! from the durable log, and what is not named is stopped.

use muster_engine::State;
use muster_link::messages::{Action, Limits, RunDetail, Secrets};
use muster_model::ids::AttemptKey;
use muster_model::job::{Job, SlotState};
use muster_model::names::NodeName;
use muster_model::spec::RunSpec;
use std::sync::Arc;

/// Processes a rank may have, its threads included.
pub const PIDS_PER_RANK: u32 = 4096;

/// One attempt that must exist on a node.
#[derive(Debug, Clone)]
pub struct WantedRun {
    /// Attempt.
    pub key: AttemptKey,
    /// Run it, or stop it.
    pub action: Action,
    /// The job as it was when this was worked out.
    pub job: Arc<Job>,
    /// Its slots on the node that are not over: places in the placement.
    pub slots: Vec<usize>,
}

/// Why an order cannot be given. The attempt ends with it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DetailError {
    /// The attempt was replaced meanwhile.
    #[error("attempt {0} is over")]
    Over(AttemptKey),
    /// Two groups of the gang share the node.
    #[error(
        "{count} groups of the gang were placed on node {node}, and a node runs one share of an attempt: ask for whole nodes in each group"
    )]
    SharedNode {
        /// The node.
        node: NodeName,
        /// How many.
        count: usize,
    },
    /// The first rank's node has left.
    #[error("node {0}, which holds rank 0, is not known any more")]
    NoMaster(NodeName),
}

/// Everything that must exist on a node, in the order of the jobs.
///
/// A slot on a lost node is ordered nothing: when the node returns, what still runs of it is an
/// orphan and goes.
#[must_use]
pub fn orders_for(state: &State, node: &NodeName) -> Vec<WantedRun> {
    let wanted = |job: &Arc<Job>| {
        let attempt = job.attempt.as_ref()?;
        let slots: Vec<usize> = attempt
            .placement
            .slots
            .iter()
            .zip(&attempt.slots)
            .enumerate()
            .filter(|(_, (slot, at))| {
                slot.node == *node && matches!(at, SlotState::Pending | SlotState::Running)
            })
            .map(|(i, _)| i)
            .collect();
        if slots.is_empty() {
            return None;
        }
        let action = attempt.stop.as_ref().map_or(Action::Run, |s| Action::Stop { grace: s.grace });
        Some(WantedRun { key: job.attempt_key()?, action, job: job.clone(), slots })
    };
    state.attempts_on(node).filter_map(wanted).collect()
}

/// Everything needed to start an attempt's share of its node, save what runs and the secrets:
/// both are kept beside the log, and the caller puts them in.
///
/// # Errors
/// When the attempt cannot run there as it was placed.
pub fn detail(state: &State, wanted: &WantedRun) -> Result<RunDetail, DetailError> {
    let job = &wanted.job;
    let attempt = job.attempt.as_ref().ok_or(DetailError::Over(wanted.key))?;
    let slots = &attempt.placement.slots;
    let mine = wanted.slots.first().and_then(|i| slots.get(*i));
    let (Some(slot), Some(first)) = (mine, slots.first()) else {
        return Err(DetailError::Over(wanted.key));
    };
    if wanted.slots.len() > 1 {
        return Err(DetailError::SharedNode { node: slot.node.clone(), count: wanted.slots.len() });
    }
    let master =
        state.nodes.get(&first.node).ok_or_else(|| DetailError::NoMaster(first.node.clone()))?;
    let spec = &job.spec;
    Ok(RunDetail {
        name: job.name.to_string(),
        project: job.project.clone(),
        user: job.user.clone(),
        run: RunSpec::default(),
        slot: slot.clone(),
        nodes: slots.iter().map(|s| s.node.clone()).collect(),
        world_size: attempt.placement.world_size(),
        master_addr: master.address.clone(),
        master_port: attempt.placement.port,
        array: job.array,
        limits: Limits {
            cpus: asked_for_cpus(job, slot.group).then_some(slot.cpus),
            memory: Some(slot.memory).filter(|m| m.0 > 0),
            pids: Some(PIDS_PER_RANK.saturating_mul(slot.ranks)),
        },
        volumes: spec.volumes.clone(),
        secrets: Secrets::default(),
        checkpoint: spec.checkpoint.clone(),
        resume: job.checkpoint.as_ref().and_then(|c| c.path.clone()),
        on_partition: spec.on_partition,
        simulate: spec.simulate.clone(),
    })
}

/// Did the author say how many processors? Those given by default are a share to plan with, not
/// a wall to run into.
fn asked_for_cpus(job: &Job, group: u32) -> bool {
    let gang = &job.spec.gang;
    if gang.groups.is_empty() {
        return gang.cpus_per_node.is_some();
    }
    gang.groups.get(group as usize).is_some_and(|g| g.cpus_per_node.is_some())
}
