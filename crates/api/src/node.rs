//! Nodes and where they stand.

use crate::{Fault, Finding, Kind, Qualified, Qualifying, Remediation, Timestamp};
use muster_model::entity::Entity;
use muster_model::job::JobState;
use muster_model::node as m;
use muster_model::node::{Inventory, NodeAction, NodeRole, Stage};
use muster_model::placement::GpuSet;
use muster_model::slo::NodeServiceFacts;
use muster_model::topology::Location;
use muster_model::units::{Bytes, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A node: a machine that runs work.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Node {
    /// Its name again: nodes are named by it.
    pub id: String,
    /// Always `Node`.
    pub kind: Kind,
    /// Its name, unique in the site.
    pub name: String,
    /// The axes below as one state: `ready` (in service), `cordoned`, `draining`, `drained`, `lost`,
    /// `protected`, `qualifying`, `suspect`, `quarantined`, `repairing`, `enrolled` or `retired`.
    pub state: String,
    /// The version: the last record that changed it; goes into `If-Match`.
    pub version: u64,
    /// Stage of its life cycle.
    pub stage: Stage,
    /// True while its agent's heartbeats come.
    pub reachable: bool,
    /// Reason for which it gets no new work.
    pub cordon: Option<String>,
    /// True while its agent has seen more of the log than the server has.
    pub protected: bool,
    /// What it is reserved for.
    pub role: NodeRole,
    /// How likely it is to fail, in thousandths a month.
    pub hazard: u32,
    /// Where it is.
    pub location: Location,
    /// Address that ranks reach it under.
    pub address: String,
    /// The operating-system instance it runs on.
    pub host: String,
    /// SKU of its GPUs, or `cpu`.
    pub sku: String,
    /// GPUs it reports; those in `gpus_missing` are not among them.
    pub gpus_total: u32,
    /// GPUs that it had and does not report any more, by index: off the bus, and not replaced yet.
    #[serde(default)]
    pub gpus_missing: Vec<u32>,
    /// GPUs that are allocated to jobs.
    pub gpus_used: u32,
    /// GPUs that no job may use, by index.
    pub gpus_excluded: Vec<u32>,
    /// Logical processors it offers.
    pub cpus_total: u32,
    /// Logical processors that are allocated to jobs.
    pub cpus_used: u32,
    /// Memory it offers.
    pub memory_total: Bytes,
    /// Memory that is allocated to jobs.
    pub memory_used: Bytes,
    /// What is in it.
    pub inventory: Inventory,
    /// What has something allocated there.
    pub jobs: Vec<NodeJob>,
    /// Attempts that still run there although they were given up, as `JOB.ATTEMPT`.
    pub orphans: Vec<String>,
    /// Its agent, as far as this server knows it.
    pub agent: Option<AgentInfo>,
    /// The test that runs; it gets no work meanwhile.
    #[serde(default)]
    pub qualifying: Option<Qualifying>,
    /// The last test that came to an end.
    #[serde(default)]
    pub qualified: Option<Qualified>,
    /// What it reported lately, newest first; empty in lists of nodes.
    #[serde(default)]
    pub faults: Vec<Fault>,
    /// Since when it is in its `state`; null when that is not stored.
    #[serde(default)]
    pub state_since: Option<Timestamp>,
    /// When it entered its stage; null when that was before this was stored.
    #[serde(default)]
    pub stage_since: Option<Timestamp>,
    /// Why it is in this state.
    #[serde(default)]
    pub stage_why: Option<String>,
    /// It has been there for too long after this.
    #[serde(default)]
    pub stage_until: Option<Timestamp>,
    /// How often it came into service.
    #[serde(default)]
    pub generation: u32,
    /// It is watched until then, after its return.
    #[serde(default)]
    pub probation: Option<Timestamp>,
    /// The open breaker that blocks new work on it, as `kind:name`.
    #[serde(default)]
    #[cfg_attr(feature = "openapi", schema(value_type = Option<String>))]
    pub breaker: Option<Entity>,
    /// New work goes there only where no other node fits: for this reason.
    #[serde(default)]
    pub avoided: Option<String>,
    /// No new work goes there, whatever its state says: for this reason.
    #[serde(default)]
    pub no_new_work: Option<String>,
    /// The remediation that is under way: its number.
    #[serde(default)]
    pub remediation: Option<String>,
    /// That remediation itself; null in lists of nodes.
    #[serde(default)]
    pub remediation_detail: Option<Remediation>,
    /// Open findings about it; empty in lists of nodes.
    #[serde(default)]
    pub findings: Vec<Finding>,
    /// Findings about it that this request closed; only in answers to requests that change it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub findings_closed: Vec<Finding>,
    /// What an operator may do with it, and whether it takes that now; empty in lists of nodes, and for tokens that are
    /// bound to a project.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub actions: Vec<NodeActionOffer>,
    /// Nodes that are managed alike.
    #[serde(default)]
    pub pool: String,
    /// When it joined.
    pub enrolled_at: Timestamp,
    /// When its agent was last lost or came back.
    pub changed_at: Timestamp,
}

/// Something that an operator may do with a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeActionOffer {
    /// What is done.
    pub action: NodeAction,
    /// Why it would be refused now, or would change nothing; null when the node takes it.
    pub refused: Option<String>,
    /// What to do in that case.
    pub hint: Option<String>,
    /// GPUs that it may be asked for, one at a time, by index; of `exclude` and `include` only.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gpus: Vec<u32>,
}

/// A job on a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeJob {
    /// `42`, or `42_3`.
    pub id: String,
    /// What its user calls it; `another project's` where the caller may not see it.
    pub name: String,
    /// Who owns it.
    pub project: String,
    /// Its state.
    pub state: JobState,
    /// Its GPUs here, by index.
    pub gpus: Vec<u32>,
}

/// What the server knows of an agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AgentInfo {
    /// The version of Muster that it runs.
    pub version: String,
    /// When its last heartbeat came.
    pub last_heartbeat: Timestamp,
    /// How far its clock is ahead of the server's, in milliseconds.
    pub skew_ms: i64,
}

/// What jobs hold on a node, and why they stay away: not in the node's own record, so the caller
/// says it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct NodeUse {
    /// GPUs allocated.
    pub gpus: GpuSet,
    /// Processors held.
    pub cpus: u32,
    /// Memory allocated.
    pub memory: Bytes,
    /// By which jobs.
    pub jobs: Vec<NodeJob>,
    /// Why new work goes there only where no other node fits.
    pub avoided: Option<String>,
    /// Why no new work goes there.
    pub no_new_work: Option<String>,
    /// The heaviest of its remediations that are under way.
    pub remediation: Option<u64>,
}

/// A page of nodes in order of their names.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct NodeList {
    /// The nodes of this page.
    pub items: Vec<Node>,
    /// Where the next page starts; null on the last one.
    pub cursor: Option<String>,
}

/// The location of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Topology {
    /// Always `Topology`.
    pub kind: Kind,
    /// The version: the record that set it; goes into `If-Match`.
    pub version: u64,
    /// Place of each node, also of those that have not joined yet.
    pub nodes: BTreeMap<String, Location>,
}

/// Every word that [`state_word`] says.
pub const NODE_STATES: [&str; 12] = [
    "ready",
    "cordoned",
    "draining",
    "drained",
    "lost",
    "protected",
    "qualifying",
    "suspect",
    "quarantined",
    "repairing",
    "enrolled",
    "retired",
];

/// A node's separate axes in one word for people: the one that matters most.
#[must_use]
pub fn state_word(node: &m::Node) -> &'static str {
    match node.stage {
        Stage::Retired => "retired",
        Stage::Enrolled => "enrolled",
        _ if !node.reachable => "lost",
        _ if node.protected => "protected",
        _ if node.qualifying.is_some() => "qualifying",
        Stage::Draining => "draining",
        Stage::Drained => "drained",
        Stage::Suspect => "suspect",
        Stage::Quarantined => "quarantined",
        Stage::Repairing => "repairing",
        Stage::Ready if node.cordon.is_some() => "cordoned",
        // `ready` is in service, by the one rule for it: whoever has only the word may count by it.
        Stage::Ready if NodeServiceFacts::from(node).is_in_service() => "ready",
        // Its role is what is left: nothing runs there until somebody has looked at it.
        Stage::Ready => "suspect",
    }
}

/// Since when a node is in the state that [`state_word`] names: one that is no stage has a moment of
/// its own.
fn state_since(node: &m::Node) -> Option<Time> {
    match state_word(node) {
        "lost" | "protected" => Some(node.changed_at),
        "qualifying" => node.qualifying.as_ref().map(|q| q.asked_at),
        "cordoned" => node.cordon.as_ref().and_then(|c| c.since),
        // By its role: the stage is older, and when the role was set is not stored.
        "suspect" if node.stage == Stage::Ready => None,
        _ => Some(node.stage_since).filter(|t| t.0 > 0),
    }
}

impl Node {
    /// The node as lists show it: without the checks of its test, its faults, findings and
    /// remediation.
    #[must_use]
    pub fn of(node: &m::Node, used: NodeUse, agent: Option<AgentInfo>) -> Node {
        let m::Node {
            name,
            stage,
            reachable,
            cordon,
            inventory,
            location,
            address,
            host,
            machine: _,
            enrolment: _,
            boot: _,
            orphans,
            protected,
            excluded_gpus,
            excluded_by_operator: _,
            missing_gpus,
            role,
            hazard,
            qualifying,
            qualified,
            past_figures: _,
            enrolled_at,
            changed_at,
            version,
            stage_since,
            stage_why,
            stage_until,
            drained_by_remediation: _,
            generation,
            probation,
            breaker,
            remediation: _,
            place: _,
        } = node;
        Node {
            id: name.to_string(),
            kind: Kind::Node,
            name: name.to_string(),
            state: state_word(node).into(),
            version: version.0,
            stage: *stage,
            reachable: *reachable,
            cordon: cordon.as_ref().map(|c| c.reason.clone()),
            protected: *protected,
            role: *role,
            hazard: *hazard,
            location: location.clone(),
            address: address.clone(),
            host: host.clone(),
            sku: node.sku().into(),
            gpus_total: node.gpu_set().len(),
            gpus_missing: missing_gpus.iter().map(|g| g.index).collect(),
            gpus_used: used.gpus.len(),
            gpus_excluded: excluded_gpus.iter().collect(),
            cpus_total: inventory.cpus,
            cpus_used: used.cpus,
            memory_total: inventory.memory,
            memory_used: used.memory,
            inventory: inventory.clone(),
            jobs: used.jobs,
            orphans: orphans.iter().map(ToString::to_string).collect(),
            agent,
            qualifying: qualifying.as_ref().map(Into::into),
            qualified: qualified.as_deref().map(Qualified::brief),
            faults: Vec::new(),
            state_since: state_since(node).map(Into::into),
            stage_since: (stage_since.0 > 0).then_some((*stage_since).into()),
            stage_why: Some(stage_why.clone()).filter(|w| !w.is_empty()),
            stage_until: stage_until.map(Into::into),
            generation: *generation,
            probation: probation.map(Into::into),
            breaker: breaker.clone(),
            avoided: used.avoided,
            no_new_work: used.no_new_work,
            remediation: used.remediation.map(|r| r.to_string()),
            remediation_detail: None,
            findings: Vec::new(),
            findings_closed: Vec::new(),
            actions: Vec::new(),
            pool: node.pool().into(),
            enrolled_at: (*enrolled_at).into(),
            changed_at: (*changed_at).into(),
        }
    }
}
