//! Orders for Muster's own agents. What runs on a node is desired state: the whole list follows
//! from the durable log, and what is not named is stopped.

use muster_engine::State;
use muster_link::messages::{Action, Limits, RunDetail, Secrets};
use muster_model::ids::AttemptKey;
use muster_model::job::{Job, SlotState};
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::spec::{CheckpointSpec, RunSpec};
use std::sync::Arc;

/// Processes a rank may have, its threads included.
pub const PIDS_PER_RANK: u32 = 4096;

/// One attempt that must exist on a node.
#[derive(Debug, Clone)]
pub struct WantedRun {
    /// Job and number of the attempt.
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
        "{count} groups of the gang were placed on node {node}, and a node runs one of them only: the job is placed anew"
    )]
    SharedNode {
        /// The node that got several groups.
        node: NodeName,
        /// How many groups it got.
        count: usize,
    },
    /// The first rank's node has left.
    #[error("node {0}, which has rank 0, is not known any more")]
    NoMaster(NodeName),
}

/// Everything that must exist on a node, in the order of the jobs.
///
/// A slot on a lost node is ordered nothing: when the node returns, what still runs of it is an
/// orphan and goes. An attempt in preflight is ordered nowhere yet.
#[must_use]
pub fn orders_for(state: &State, node: &NodeName) -> Vec<WantedRun> {
    let wanted = |job: &Arc<Job>| {
        let attempt = job.attempt.as_ref().filter(|a| a.in_preflight().is_none())?;
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
        checkpoint: checkpoint(job, &attempt.placement),
        resume: job.checkpoint.as_ref().and_then(|c| c.path.clone()),
        resume_step: job.checkpoint.as_ref().and_then(|c| c.step),
        on_partition: spec.partition(),
        simulate: spec.simulate.clone(),
        fabric: Some(attempt.placement.fabric),
        cap_watts: attempt.placement.cap_watts,
        account: state.account_of(&job.project),
    })
}

/// How the ranks save their work, with the interval that was chosen for them.
fn checkpoint(job: &Job, placement: &Placement) -> Option<CheckpointSpec> {
    let mut c = job.spec.checkpoint.clone()?;
    if let Some(every) = placement.checkpoint_every {
        c.interval = Some(every.to_string());
    }
    Some(c)
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

#[cfg(test)]
mod tests {
    use super::*;
    use muster_engine::{Engine, Policy};
    use muster_model::command::{Actor, Answer, Command, Observed, Request};
    use muster_model::ids::JobId;
    use muster_model::node::{Gpu, Inventory};
    use muster_model::policy::{FabricPolicy, SitePolicy};
    use muster_model::preflight::PreflightReport;
    use muster_model::spec::{GangSpec, JobSpec};
    use muster_model::units::{Bytes, Time};

    fn ask(e: &mut Engine, at: i64, command: Command) -> Answer {
        let req =
            Request { actor: Actor::system(), at: Time(at), key: None, if_version: None, command };
        e.handle(&req).unwrap()
    }

    fn node(name: &str) -> NodeName {
        name.parse().unwrap()
    }

    fn connect(e: &mut Engine, name: &str, observed: Vec<(AttemptKey, Observed)>) {
        let gpu = |index| Gpu {
            index,
            sku: "h100-sxm".into(),
            uuid: format!("{name}-{index}"),
            memory: Bytes::gib(80),
            ..Gpu::default()
        };
        let inventory = Inventory {
            cpus: 64,
            memory: Bytes::gib(512),
            gpus: (0..8).map(gpu).collect(),
            ..Inventory::default()
        };
        let connected = Command::NodeConnected {
            node: node(name),
            machine: name.into(),
            boot: "b".into(),
            address: format!("10.0.0.{}", &name[1..]),
            host: name.into(),
            inventory: Box::new(inventory),
            observed,
            ended_ago: Vec::new(),
            place: String::new(),
            ahead: false,
            silent_for: None,
        };
        ask(e, 1000, connected);
    }

    fn fleet() -> Engine {
        let mut e = Engine::new(State::default(), Policy::default());
        ask(&mut e, 1, Command::CreateSite { site: "s".into() });
        let name = "default".parse().unwrap();
        ask(&mut e, 1, Command::CreateProject { name, description: String::new() });
        let join = Command::CreateToken {
            id: "t".into(),
            name: "join".parse().unwrap(),
            hash: String::new(),
            usage: muster_model::tenant::TokenUse::Join { uses_left: None },
            ttl: None,
        };
        ask(&mut e, 1, join);
        for name in ["n1", "n2"] {
            let (machine, token) = (name.to_string(), "t".to_string());
            ask(&mut e, 1, Command::Enroll { node: node(name), machine, token, key: None });
            connect(&mut e, name, Vec::new());
        }
        e
    }

    fn submit(e: &mut Engine, gang: GangSpec) -> JobId {
        let spec = Arc::new(JobSpec { gang, ..JobSpec::default() });
        let Answer::Submitted { first, .. } = ask(e, 2000, Command::Submit { spec }) else {
            panic!("not submitted")
        };
        while e.tick(Time(2000)) {}
        first
    }

    fn two_nodes() -> GangSpec {
        GangSpec { nodes: Some(2), gpus_per_node: Some(8), ..GangSpec::default() }
    }

    #[test]
    fn each_node_of_a_gang_is_ordered_its_share() {
        let mut e = fleet();
        let job = submit(&mut e, two_nodes());
        let mut first_ranks = Vec::new();
        for n in ["n1", "n2"] {
            let orders = orders_for(e.state(), &node(n));
            assert_eq!(orders.len(), 1);
            assert_eq!((orders[0].key.job, orders[0].action), (job, Action::Run));
            let d = detail(e.state(), &orders[0]).unwrap();
            assert_eq!(d.slot.node, node(n));
            assert_eq!((d.world_size, d.nodes.len()), (16, 2));
            let master = &d.nodes[0];
            assert_eq!(d.master_addr, format!("10.0.0.{}", &master.as_str()[1..]));
            assert_eq!((d.limits.cpus, d.limits.pids), (None, Some(8 * PIDS_PER_RANK)));
            let a = orders[0].job.attempt.as_ref().unwrap();
            assert_eq!((d.fabric, d.cap_watts), (Some(a.placement.fabric), a.placement.cap_watts));
            first_ranks.push(d.slot.first_rank);
        }
        first_ranks.sort_unstable();
        assert_eq!(first_ranks, [0, 8]);
        assert!(orders_for(e.state(), &node("n3")).is_empty());
    }

    #[test]
    fn an_attempt_learns_where_the_one_before_was_saved() {
        let mut e = fleet();
        submit(&mut e, two_nodes());
        let key = orders_for(e.state(), &node("n1"))[0].key;
        let path = Some("/ckpt/40".to_owned());
        let (step, bytes, blocked_ms) = (Some(40), None, None);
        ask(&mut e, 2500, Command::CheckpointDone { key, step, path, bytes, blocked_ms });
        let observed = Observed::Ended(muster_model::job::SlotEnd::fault("x"));
        for n in ["n1", "n2"] {
            let (node, observed) = (node(n), observed.clone());
            ask(&mut e, 3000, Command::SlotReport { node, key, observed, ago: None });
        }
        while e.tick(Time(600_000)) {}
        let orders = orders_for(e.state(), &node("n1"));
        assert_eq!(orders[0].key.attempt, 2);
        let d = detail(e.state(), &orders[0]).unwrap();
        assert_eq!((d.resume.as_deref(), d.resume_step), (Some("/ckpt/40"), Some(40)));
    }

    #[test]
    fn limits_are_what_the_author_asked_for() {
        let mut e = fleet();
        let memory_per_node = Some(Bytes::gib(16));
        let gang = GangSpec { cpus_per_node: Some(4), memory_per_node, ..GangSpec::default() };
        submit(&mut e, gang);
        let orders: Vec<WantedRun> =
            ["n1", "n2"].iter().flat_map(|n| orders_for(e.state(), &node(n))).collect();
        let limits = detail(e.state(), &orders[0]).unwrap().limits;
        assert_eq!((limits.cpus, limits.memory), (Some(4), memory_per_node));
    }

    #[test]
    fn a_stopped_attempt_is_ordered_to_stop_until_it_is_gone() {
        let mut e = fleet();
        let job = submit(&mut e, two_nodes());
        let key = orders_for(e.state(), &node("n1"))[0].key;
        ask(&mut e, 3000, Command::Cancel { job });
        for n in ["n1", "n2"] {
            assert!(matches!(orders_for(e.state(), &node(n))[0].action, Action::Stop { .. }));
        }
        let observed = Observed::Ended(muster_model::job::SlotEnd::Stopped);
        ask(&mut e, 3000, Command::SlotReport { node: node("n1"), key, observed, ago: None });
        assert!(orders_for(e.state(), &node("n1")).is_empty());
        assert_eq!(orders_for(e.state(), &node("n2")).len(), 1);
    }

    #[test]
    fn an_attempt_in_preflight_is_ordered_to_start_only_when_that_is_over() {
        let preflight = || {
            let mut e = fleet();
            let fabric = FabricPolicy { preflight_nodes: 2, ..FabricPolicy::default() };
            let policy = SitePolicy { fabric, ..SitePolicy::default() };
            ask(&mut e, 1500, Command::SetPolicy { policy: Arc::new(policy) });
            let job = submit(&mut e, two_nodes());
            (e, job)
        };
        let orders = |e: &Engine| -> Vec<Action> {
            let of = |n: &&str| orders_for(e.state(), &node(n));
            ["n1", "n2"].iter().flat_map(of).map(|o| o.action).collect()
        };
        let (mut e, job) = preflight();
        assert!(orders(&e).is_empty());
        let key = e.state().preflights().next().unwrap();
        assert_eq!(key.job, job);
        ask(&mut e, 3000, Command::PreflightDone { key, report: PreflightReport::Passed });
        assert_eq!(orders(&e), [Action::Run, Action::Run]);
        // One that is cancelled meanwhile is ordered to stop, so that its nodes say it is gone.
        let (mut e, job) = preflight();
        ask(&mut e, 3000, Command::Cancel { job });
        assert_eq!(e.state().preflights().count(), 0);
        assert!(matches!(orders(&e)[..], [Action::Stop { .. }, Action::Stop { .. }]));
    }

    #[test]
    fn a_lost_slot_is_ordered_nothing_so_that_what_returns_is_stopped() {
        let mut e = fleet();
        submit(&mut e, two_nodes());
        let key = orders_for(e.state(), &node("n1"))[0].key;
        ask(&mut e, 3000, Command::NodeLost { node: node("n1"), last_seen: Time(2500) });
        assert!(orders_for(e.state(), &node("n1")).is_empty());
        let rest = orders_for(e.state(), &node("n2"));
        assert!(matches!(rest[0].action, Action::Stop { .. }), "the gang goes with it");
        connect(&mut e, "n1", vec![(key, Observed::Running)]);
        assert!(orders_for(e.state(), &node("n1")).iter().all(|o| o.key != key));
    }
}
