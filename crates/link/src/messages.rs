//! What agent and server say to each other. Self-describing JSON, so that a new field is
//! ignored by an older peer; job output travels as binary chunks beside it.

use muster_model::clock::ClockStep;
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::{AttemptKey, Epoch, Seq, SiteId};
use muster_model::inject::Inject;
use muster_model::job::ArrayTask;
use muster_model::names::{NodeName, ProjectName};
use muster_model::node::Inventory;
use muster_model::placement::{Fabric, Slot};
use muster_model::qualification::{Level, Qualification};
use muster_model::remediation::Act;
use muster_model::spec::{CheckpointSpec, OnPartition, RunSpec, Simulate, Volume};
use muster_model::units::{Bytes, Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// Version of this protocol. A server accepts its own and the one before.
pub const PROTOCOL: u32 = 1;

/// From agent to server.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromAgent {
    /// First and only message of a connection without a client certificate.
    Join {
        /// Version spoken.
        protocol: u32,
        /// The join token's id and secret (never its pin).
        token: JoinSecret,
        /// Name the node wants.
        node: NodeName,
        /// Identity of the machine.
        machine: String,
        /// Certificate request, PEM.
        csr: String,
    },
    /// First message of a connection with a certificate: everything the agent sees.
    Hello(Box<Hello>),
    /// Still here.
    Heartbeat {
        /// Agent's wall clock, so that skew can be seen.
        at: Time,
    },
    /// The node's wall clock was set.
    ClockStepped {
        /// When and by how much.
        step: ClockStep,
    },
    /// Something changed on one attempt. Sent until the server says `Forget` (ended) or has
    /// answered with a later `Desired`.
    Report {
        /// The attempt that changed.
        key: AttemptKey,
        /// What was seen.
        observed: Observed,
        /// How long ago it ended, by a clock that nobody can set. Older agents do not say.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ago: Option<Span>,
    },
    /// What a rank said through `MUSTER_REPORT`.
    Progress {
        /// The attempt the rank belongs to.
        key: AttemptKey,
        /// Global rank.
        rank: u32,
        /// What it said.
        report: ProgressReport,
    },
    /// A summary of the last seconds. Never logged.
    Telemetry(Box<Telemetry>),
    /// A new certificate, please: the present one ends soon.
    Renew {
        /// Certificate request, PEM.
        csr: String,
    },
    /// Faults that were seen since the last such message. Said again on the next connection when
    /// no heartbeat after it was answered.
    Faults {
        /// What was seen.
        faults: Vec<ObservedFault>,
    },
    /// How far a test of the node is. Never logged.
    Qualifying {
        /// The test's number, from `Qualify`.
        id: u64,
        /// Checks done.
        done: u32,
        /// Checks in all.
        of: u32,
        /// What is being done.
        doing: String,
        /// Seconds it will still take, about.
        #[serde(default)]
        eta_s: Option<u64>,
    },
    /// What came of a test. Said on every connection until `QualifyOver`.
    Qualified {
        /// The test's number, from `Qualify`.
        id: u64,
        /// What was measured.
        report: Box<Qualification>,
    },
    /// What came of an act. Said on every connection until `ActOver`.
    Acted {
        /// The act's number, from `Act`.
        id: u64,
        /// It was done.
        ok: bool,
        /// What came of it, for people.
        message: String,
    },
    /// A node listens for a test of the network.
    FabricReady {
        /// The test's number, from `FabricServe`.
        id: u64,
        /// The TCP port it listens on.
        port: u16,
        /// Why it does not, when it does not.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        error: Option<String>,
    },
    /// What a test of the network measured.
    FabricDone {
        /// The test's number, from `FabricDial`.
        id: u64,
        /// What was measured.
        result: FabricMeasurement,
    },
    /// What an injected fault did.
    Injected {
        /// Whether this node can do it.
        ok: bool,
        /// What it did, or why it could not, for people.
        message: String,
    },
}

/// A join token's id and secret. Never printed.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub struct JoinSecret(pub String);

impl fmt::Debug for JoinSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JoinSecret(…)")
    }
}

/// Everything an agent sees, reported on every connection.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Hello {
    /// Version spoken.
    pub protocol: u32,
    /// Version of the agent.
    pub version: String,
    /// The node the agent serves.
    pub node: NodeName,
    /// Identity of the machine.
    pub machine: String,
    /// Random for each agent process: two at once with one identity are distinguished by it.
    pub instance: String,
    /// Boot id.
    pub boot: String,
    /// Address that ranks reach it under.
    pub address: String,
    /// Operating-system instance (nodes that share it share ports).
    pub host: String,
    /// What is in the machine.
    pub inventory: Inventory,
    /// Site it serves, once it knows.
    pub site: Option<SiteId>,
    /// Highest sequence number it has seen.
    pub seq: Seq,
    /// Highest leader's epoch it has seen.
    pub epoch: Epoch,
    /// Every attempt it knows of.
    pub observed: Vec<(AttemptKey, Observed)>,
    /// How long ago those ended that have, by a clock that nobody can set. Older agents do not say.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ended_ago: Vec<(AttemptKey, Span)>,
    /// Which directory of the machine it keeps its records in: a copy of it is another one. Older
    /// agents do not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub place: String,
    /// Its wall clock.
    pub at: Time,
    /// The test of the node that goes on, or whose end was not taken in yet.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub qualifying: Option<u64>,
}

/// What a rank said through `MUSTER_REPORT`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ProgressReport {
    /// Progress, at most one a second for each rank.
    Step {
        /// Step number.
        step: u64,
        /// Seconds it took.
        t: Option<f64>,
        /// Seconds by stage.
        #[serde(default)]
        stages: BTreeMap<String, f64>,
        /// The loss at that step, if the job reports it.
        loss: Option<f64>,
    },
    /// A checkpoint began, was written or failed.
    Checkpoint {
        /// `started`, `done` or `failed`.
        state: String,
        /// The training step it holds.
        step: Option<u64>,
        /// Where it is; a path as the rank sees it.
        path: Option<String>,
        /// Its size in bytes.
        bytes: Option<u64>,
        /// Seconds it held the job up.
        blocked_s: Option<f64>,
    },
    /// Lines that were not understood since the last such message.
    Garbled {
        /// How many lines.
        lines: u64,
    },
}

/// Ten seconds of a node in numbers.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Telemetry {
    /// When it was sampled.
    pub at: Time,
    /// Names of the columns of `gpus`; sent when they change, empty otherwise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub columns: Vec<String>,
    /// One row per GPU; a value the device does not have is null.
    pub gpus: Vec<Vec<Option<f32>>>,
    /// Host figures by name.
    #[serde(default)]
    pub host: BTreeMap<String, f64>,
}

/// From server to agent.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
pub enum FromServer {
    /// Answer to `Join`.
    Joined {
        /// The node's certificate, PEM.
        cert: String,
        /// The site's authority, PEM.
        ca: String,
        /// The site's id.
        site: SiteId,
    },
    /// Answer to `Hello`.
    Welcome {
        /// The site's id.
        site: SiteId,
        /// Leader's epoch.
        epoch: Epoch,
        /// Durable end of the log.
        seq: Seq,
        /// How often to send a heartbeat.
        heartbeat: Span,
        /// How often to send telemetry.
        telemetry: Span,
        /// The agent has seen more of the log than this server: keep everything as it is.
        protected: bool,
        /// This server reads how old output is. Older servers do not say, and would not understand it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        output_age: bool,
    },
    /// The request is refused, or what came cannot be read; the connection closes.
    Refused {
        /// `token`, `identity`, `duplicate`, `protocol`, `changing`, `site`, `stale_leader` or
        /// `retired`.
        code: String,
        /// In words, with what to do.
        message: String,
        /// Whether trying again later makes sense.
        retry: bool,
    },
    /// Everything that must exist on the node. What is not named is stopped.
    Desired {
        /// Leader's epoch; an older one is refused.
        epoch: Epoch,
        /// State of the log this follows from.
        seq: Seq,
        /// Everything that must run there; the whole list each time.
        runs: Vec<RunOrder>,
    },
    /// Heard you; the log is durable up to here.
    Ack {
        /// Durable end of the log.
        seq: Seq,
        /// This server cannot be certain that it still leads: another may already count the time
        /// since it heard the node. Leases of ranks are not renewed by this answer.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        uncertain: bool,
    },
    /// Output up to these offsets need not be sent again: it is kept, or it is not this node's to send.
    LogKept {
        /// What need not be sent again.
        kept: Vec<LogMark>,
    },
    /// The end of these attempts is in the log; their traces on the node may go.
    Forget {
        /// The attempts that may be forgotten.
        keys: Vec<AttemptKey>,
    },
    /// Ask the ranks of an attempt for a checkpoint.
    AskCheckpoint {
        /// The attempt to ask.
        key: AttemptKey,
    },
    /// Answer to `Renew`.
    Renewed {
        /// The new certificate, PEM.
        cert: String,
    },
    /// The node is to be tested. One test at a time; one that goes on or has ended under this id
    /// is not begun again.
    Qualify {
        /// The test's number; answers carry it.
        id: u64,
        /// How much is tested: quick, standard or full.
        level: Level,
    },
    /// The test's end is in the log, or it is not wanted any more: it may be forgotten.
    QualifyOver {
        /// The test's number, from `Qualify`.
        id: u64,
    },
    /// Do this once; what was done or is being done under this id is not done again.
    Act {
        /// The act's number; the answer carries it.
        id: u64,
        /// What is to be done.
        act: Act,
    },
    /// The act's end is in the log, or it is not wanted any more: it may be forgotten.
    ActOver {
        /// The act's number, from `Act`.
        id: u64,
    },
    /// Listen for a test of the network.
    FabricServe {
        /// The test's number; the answer carries it.
        id: u64,
        /// Address to listen on; all when absent.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bind: Option<String>,
        /// For so long at most.
        length: Span,
    },
    /// Measure the way to a node that listens.
    FabricDial {
        /// The test's number; the answer carries it.
        id: u64,
        /// Where it listens.
        to: String,
        /// Address to dial from.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        bind: Option<String>,
        /// Connections side by side.
        streams: u32,
        /// For so long.
        length: Span,
        /// Only the way there: others measure at the same time.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        one_way: bool,
    },
    /// Make a simulated node fail.
    Inject {
        /// What goes wrong.
        fault: Inject,
    },
}

/// What a test of the network between two nodes measured.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
pub struct FabricMeasurement {
    /// Megabits a second, one way.
    pub mbps: f64,
    /// Microseconds there and back, the middle of many.
    pub rtt_us: u64,
    /// Of a hundred, the worst but one.
    pub rtt_p99_us: u64,
    /// Packets that were sent again.
    #[serde(default)]
    pub resent: u64,
    /// Of a thousand parts of the time, how many the machine that measured and the one that
    /// listened were held up by something else.
    #[serde(default)]
    pub held: [u16; 2],
    /// Why nothing was measured, when nothing was.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

/// Output of one rank up to an offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct LogMark {
    /// The attempt the rank belongs to.
    pub key: AttemptKey,
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: Stream,
    /// Everything before this is kept.
    pub offset: u64,
}

/// Stdout or stderr.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Stream {
    /// Standard output.
    Stdout,
    /// Standard error.
    Stderr,
}

/// A piece of a rank's output. Travels as a binary frame. Every byte of a slot's output is sent
/// before the report that it ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LogChunk {
    /// The attempt the rank belongs to.
    pub key: AttemptKey,
    /// Global rank.
    pub rank: u32,
    /// Stdout or stderr.
    pub stream: Stream,
    /// Offset of its first byte in the stream. A gap means that the node had to drop output; a piece
    /// without data says that there is one before it.
    pub offset: u64,
    /// How long ago the agent saw it, by a clock that nobody can set. None where nobody looked when it
    /// was written.
    pub age: Option<Span>,
    /// What the rank wrote, as it is.
    pub data: bytes::Bytes,
}

/// One attempt that must exist on the node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunOrder {
    /// Job and number of the attempt.
    pub key: AttemptKey,
    /// Run it, or stop it.
    pub action: Action,
    /// Everything needed to start it; left out when the agent already has it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Arc<RunDetail>>,
}

/// What to do with an attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Its ranks must be up (started once; never started again after they ended).
    Run,
    /// SIGTERM, then SIGKILL after the grace.
    Stop {
        /// Between the two.
        grace: Span,
    },
}

/// Everything needed to start a gang's share of one node.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RunDetail {
    /// Job's name.
    pub name: String,
    /// The project that owns the job.
    pub project: ProjectName,
    /// Who submitted it.
    pub user: String,
    /// Script or command, image, environment.
    pub run: RunSpec,
    /// This node's share.
    pub slot: Slot,
    /// Nodes of the gang in rank order.
    pub nodes: Vec<NodeName>,
    /// Ranks in all.
    pub world_size: u32,
    /// Address of the first rank's node.
    pub master_addr: String,
    /// Port of its rendezvous.
    pub master_port: u16,
    /// Place in an array.
    #[serde(default)]
    pub array: Option<ArrayTask>,
    /// Limits of the cgroup.
    pub limits: Limits,
    /// Directories to bind.
    #[serde(default)]
    pub volumes: Vec<Volume>,
    /// Secrets by name. Never stored on the node, never printed.
    #[serde(default)]
    pub secrets: Secrets,
    /// Where and how the job writes checkpoints.
    #[serde(default)]
    pub checkpoint: Option<CheckpointSpec>,
    /// Path of the checkpoint to go on from.
    #[serde(default)]
    pub resume: Option<String>,
    /// The step in it, when whoever wrote it reported one; an older server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resume_step: Option<u64>,
    /// What to do without a server.
    pub on_partition: OnPartition,
    /// Pretend (simulated nodes only).
    #[serde(default)]
    pub simulate: Option<Simulate>,
    /// What a collective of the whole gang runs over; an older server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fabric: Option<Fabric>,
    /// Power cap for each GPU in watts, when a budget asks for one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cap_watts: Option<u32>,
    /// Which of the node's accounts for projects the ranks run as: no other project has it. An
    /// older server does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub account: Option<u32>,
}

/// Limits of a slot's cgroup; none means no limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Limits {
    /// Logical processors it may use.
    pub cpus: Option<u32>,
    /// Memory it may use, in bytes.
    pub memory: Option<Bytes>,
    /// Processes and threads it may have.
    pub pids: Option<u32>,
}

/// Secrets by name; prints only the names.
#[derive(Clone, Default, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Secrets(pub BTreeMap<String, String>);

impl fmt::Debug for Secrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}
