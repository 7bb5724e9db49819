//! What happened. Past tense; the only way state changes; readable for ever.
//!
//! Never rename or remove a variant or a field; a new field has a default; a new variant is
//! written only once every server of the site knows it.

mod origin;
mod record;

pub use origin::Origin;
pub use record::Record;

use crate::alert::{Acknowledgement, Alert, Condition, News, Routing, Silence};
use crate::breaker::Breaker;
use crate::entity::Entity;
use crate::fault::SeenFault;
use crate::finding::{Finding, Incident, SeenFinding};
use crate::ids::{AttemptKey, Epoch, JobId, SiteId};
use crate::job::{Checkpoint, Dependency, SlotEnd, StopReason, Verdict};
use crate::names::{Label, NodeName, ProjectName};
use crate::node::Inventory;
use crate::placement::Placement;
use crate::qualification::{Level, Qualification};
use crate::remedy::{AskedAct, Remedy, RemedyOutcome, RemedyStep};
use crate::runbook::{Run, RunOutcome, StepDone};
use crate::slo::{Counted, Objectives};
use crate::spec::{Group, JobSpec};
use crate::tenant::TokenUse;
use crate::topology::{Location, Topology};
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Newest shape of records that this version writes.
pub const SCHEMA: u32 = 5;

/// What happened.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", content = "data", rename_all = "snake_case")]
pub enum Event {
    /// The log begins.
    SiteCreated {
        /// The site's id.
        site: SiteId,
    },
    /// A server took the lead.
    LeaderChanged {
        /// Its fencing token.
        epoch: Epoch,
        /// Who it is.
        server: String,
    },
    /// A job, or a whole array of jobs with ids in a row, was accepted.
    JobSubmitted {
        /// First (or only) id; also the key of what runs.
        id: JobId,
        /// Name.
        name: Label,
        /// Owner.
        project: ProjectName,
        /// Who submitted it.
        user: String,
        /// The spec without what runs.
        spec: Arc<JobSpec>,
        /// The gang with defaults filled in.
        groups: Arc<[Group]>,
        /// Jobs that must end first.
        #[serde(default, skip_serializing_if = "<[_]>::is_empty")]
        depends: Arc<[Dependency]>,
        /// Indices of the array; empty for a single job.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        array: Vec<u32>,
        /// Held from the start.
        #[serde(default)]
        held: bool,
    },
    /// A waiting job may not start.
    JobHeld {
        /// Which.
        job: JobId,
        /// By whom.
        by: String,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// It may again.
    JobReleased {
        /// Which.
        job: JobId,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// A gang was given its nodes.
    JobPlaced {
        /// Job and number of the attempt.
        key: AttemptKey,
        /// What it was given.
        placement: Arc<Placement>,
    },
    /// The ranks of an attempt are up on a node.
    SlotStarted {
        /// Attempt.
        key: AttemptKey,
        /// Node.
        node: NodeName,
    },
    /// Every rank of an attempt is up.
    AttemptStarted {
        /// Attempt.
        key: AttemptKey,
        /// When it will have run too long.
        deadline: Option<Time>,
    },
    /// The ranks of an attempt are gone from a node; what it held there is free.
    SlotEnded {
        /// Attempt.
        key: AttemptKey,
        /// Node.
        node: NodeName,
        /// How.
        end: SlotEnd,
    },
    /// What an attempt does on a node is unknown: the node is lost.
    SlotLost {
        /// Attempt.
        key: AttemptKey,
        /// Node.
        node: NodeName,
    },
    /// An attempt is being stopped.
    StopOrdered {
        /// Attempt.
        key: AttemptKey,
        /// Why.
        reason: StopReason,
        /// Between SIGTERM and SIGKILL.
        grace: Span,
        /// No other attempt starts before this; none means: not before the lost node is heard.
        fence_until: Option<Time>,
    },
    /// An attempt is over.
    AttemptEnded {
        /// Attempt.
        key: AttemptKey,
        /// Whose doing.
        verdict: Verdict,
        /// In words.
        reason: String,
    },
    /// A job goes back to the queue with its age.
    JobRequeued {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
        /// It does not start before this: a job that keeps failing is tried ever more slowly.
        #[serde(default)]
        not_before: Time,
    },
    /// A job ended well.
    JobSucceeded {
        /// Which.
        job: JobId,
    },
    /// A job ended badly.
    JobFailed {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
        /// Exit code to hand on.
        exit_code: i32,
    },
    /// A job was ended by somebody.
    JobCancelled {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// Jobs that ended long ago leave the working state (the log keeps them).
    JobsForgotten {
        /// Which.
        jobs: Vec<JobId>,
    },
    /// A checkpoint was asked for.
    CheckpointAsked {
        /// Attempt.
        key: AttemptKey,
    },
    /// A checkpoint was written.
    CheckpointDone {
        /// Which job.
        job: JobId,
        /// What.
        checkpoint: Checkpoint,
    },
    /// An agent was let in.
    NodeEnrolled {
        /// Its node.
        node: NodeName,
        /// Identity of its machine.
        machine: String,
        /// Token it showed.
        token: String,
        /// Where it stands.
        location: Location,
    },
    /// An agent is heard again.
    NodeBack {
        /// The node.
        node: NodeName,
        /// Boot id.
        boot: String,
        /// Address that ranks reach it under.
        address: String,
        /// Operating-system instance.
        host: String,
        /// Attempts that run there and must be stopped first.
        orphans: BTreeSet<AttemptKey>,
        /// It is ahead of this server: nothing is done there.
        #[serde(default)]
        protected: bool,
    },
    /// What is in a node has changed, or is told for the first time.
    NodeInventoried {
        /// The node.
        node: NodeName,
        /// What is in it.
        inventory: Box<Inventory>,
    },
    /// An agent is not heard any more.
    NodeLost {
        /// The node.
        node: NodeName,
        /// When it last was.
        last_seen: Time,
    },
    /// An orphaned attempt is gone from a node.
    OrphanGone {
        /// The node.
        node: NodeName,
        /// Attempt.
        key: AttemptKey,
    },
    /// No new work for a node.
    NodeCordoned {
        /// The node.
        node: NodeName,
        /// Why.
        reason: String,
        /// The control plane chose it; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// New work again.
    NodeUncordoned {
        /// The node.
        node: NodeName,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// A node is being drained.
    DrainStarted {
        /// The node.
        node: NodeName,
        /// Why.
        reason: String,
    },
    /// Nothing runs there any more.
    NodeDrained {
        /// The node.
        node: NodeName,
    },
    /// It may take work.
    NodeReady {
        /// The node.
        node: NodeName,
        /// Why.
        reason: String,
    },
    /// It is gone for good.
    NodeRetired {
        /// The node.
        node: NodeName,
    },
    /// An operator let the server decide again about a node that was ahead of it.
    NodeReconciled {
        /// The node.
        node: NodeName,
    },
    /// Where nodes stand.
    TopologySet {
        /// The tree.
        topology: Arc<Topology>,
    },
    /// A project was made.
    ProjectCreated {
        /// Its name.
        name: ProjectName,
        /// What it is for.
        description: String,
    },
    /// A token was made.
    TokenCreated {
        /// Public part.
        id: String,
        /// Its name.
        name: Label,
        /// Hex SHA-256 of the secret.
        hash: String,
        /// What it is for.
        usage: TokenUse,
        /// When it stops working.
        expires_at: Option<Time>,
    },
    /// A token was ended.
    TokenRevoked {
        /// Public part.
        id: String,
    },
    /// A waiting job was promised a start, or a better one.
    JobPromised {
        /// Which.
        job: JobId,
        /// What.
        promise: crate::job::Promise,
    },
    /// A promise was taken back: the job is asked anew what it can be promised.
    PromiseDropped {
        /// Which.
        job: JobId,
        /// Why.
        reason: String,
    },
    /// An attempt will be stopped, and has time to write a checkpoint first.
    NoticeGiven {
        /// Attempt.
        key: AttemptKey,
        /// Why.
        reason: StopReason,
        /// Stopped at the latest then.
        until: Time,
    },
    /// A notice was withdrawn: the attempt goes on.
    NoticeWithdrawn {
        /// Attempt.
        key: AttemptKey,
        /// Why.
        reason: String,
    },
    /// An elastic gang shall have another size from its next attempt on.
    JobResized {
        /// Which.
        job: JobId,
        /// Nodes.
        nodes: u32,
    },
    /// What a waiting job asks for was changed.
    JobUpdated {
        /// Which.
        job: JobId,
        /// Its spec now.
        spec: Arc<JobSpec>,
    },
    /// A job's GPUs do nothing; it was warned.
    IdleWarned {
        /// Which.
        job: JobId,
        /// Idle for so long.
        idle: Span,
    },
    /// What a node is kept for, and how likely it is to fail.
    NodeMarked {
        /// Which.
        node: NodeName,
        /// Kept for.
        role: crate::node::NodeRole,
        /// In thousandths a month.
        hazard: u32,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// The site's scheduling policy.
    PolicySet {
        /// The whole of it.
        policy: Arc<crate::policy::SitePolicy>,
    },
    /// The tree of quotas.
    QuotasSet {
        /// The whole of it.
        quotas: Arc<crate::quota::Quotas>,
    },
    /// A reservation was made or replaced.
    ReservationSet {
        /// What was asked for.
        reservation: Arc<crate::reservation::Reservation>,
        /// Its nodes, where they were chosen for it.
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        nodes: Vec<NodeName>,
    },
    /// A reservation is gone.
    ReservationDeleted {
        /// Its name.
        name: Label,
    },
    /// A secret has a new value.
    SecretSet {
        /// Whose.
        project: ProjectName,
        /// Its name.
        name: Label,
    },
    /// A secret is gone.
    SecretDeleted {
        /// Whose.
        project: ProjectName,
        /// Its name.
        name: Label,
    },
    /// A node told of a fault, for the first time or again after a while.
    FaultSeen {
        /// The node.
        node: NodeName,
        /// What it told.
        fault: Box<SeenFault>,
    },
    /// A node is to be tested before it takes more work.
    QualificationAsked {
        /// The node.
        node: NodeName,
        /// Names this one test; the agent answers with it.
        id: u64,
        /// How thoroughly.
        level: Level,
        /// It has failed when nothing was heard of it by then.
        until: Time,
        /// The policy asks it of a node that joins or returns; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_join: bool,
    },
    /// A test came to an end.
    QualificationEnded {
        /// The node.
        node: NodeName,
        /// Which test.
        id: u64,
        /// What was measured, judged against the node's past and its peers.
        report: Box<Qualification>,
        /// Its time was up; the node did not report.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// A test is not wanted any more.
    QualificationCancelled {
        /// The node.
        node: NodeName,
        /// Which test.
        id: u64,
    },
    /// Something was found to be wrong.
    FindingOpened {
        /// What.
        finding: Box<Finding>,
        /// It follows from what the log holds; otherwise a detector told it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// More is known of a finding, or it became worse.
    FindingChanged {
        /// Which.
        id: u64,
        /// What is known now.
        seen: Box<SeenFinding>,
        /// It follows from what the log holds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// A finding is over.
    FindingClosed {
        /// Which.
        id: u64,
        /// Why.
        why: String,
        /// The control plane chose it; otherwise a detector's or an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// Findings turned out to have one cause.
    IncidentOpened {
        /// What they have in common.
        incident: Box<Incident>,
    },
    /// More findings are part of an incident.
    IncidentGrew {
        /// Which.
        id: u64,
        /// The new ones.
        findings: Vec<u64>,
        /// How bad it is now.
        severity: crate::finding::Severity,
        /// In a sentence.
        summary: String,
    },
    /// An incident is over.
    IncidentClosed {
        /// Which.
        id: u64,
        /// Why.
        why: String,
    },
    /// A breaker opened, half opened or closed.
    BreakerSet {
        /// How it stands now.
        breaker: Box<Breaker>,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// Something is to be done about a finding.
    RemedyChosen {
        /// What.
        remedy: Box<Remedy>,
    },
    /// A remedy took a step.
    RemedyStepped {
        /// Which.
        id: u64,
        /// Where it stands now.
        step: RemedyStep,
        /// Why.
        why: String,
        /// To be noticed when it stands there for longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// The act that is under way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        act: Option<u64>,
    },
    /// An operator let a remedy go on.
    RemedyApproved {
        /// Which.
        id: u64,
        /// Who.
        by: String,
    },
    /// A remedy is over.
    RemedyEnded {
        /// Which.
        id: u64,
        /// How.
        outcome: RemedyOutcome,
        /// Why.
        why: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// Something is to be done once, outside.
    ActAsked {
        /// What.
        act: Box<AskedAct>,
    },
    /// It was done, or could not be.
    ActEnded {
        /// Which.
        id: u64,
        /// It was done.
        ok: bool,
        /// In words.
        message: String,
        /// Its time was up; nobody told.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// A node entered another stage, by the control plane's decision or an operator's word.
    NodeStaged {
        /// Which.
        node: NodeName,
        /// Where it stands now.
        stage: crate::node::Stage,
        /// Why.
        reason: String,
        /// To be noticed when it stands there for longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// GPUs of a node that take no work.
    GpusExcluded {
        /// Which node.
        node: NodeName,
        /// All GPUs that are excluded now.
        gpus: crate::placement::GpuSet,
        /// Why.
        reason: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// A node is watched after its return, or not any more.
    ProbationSet {
        /// Which.
        node: NodeName,
        /// Until then; none: it is over.
        until: Option<Time>,
    },
    /// The control plane stopped itself from doing more.
    AutomationStopped {
        /// Why.
        reason: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// It may go on.
    AutomationResumed {
        /// Who said so.
        by: String,
    },
    /// Whose doing the end of an attempt was, as far as is known now.
    AttemptAttributed {
        /// Attempt.
        key: AttemptKey,
        /// Whose doing.
        verdict: Verdict,
        /// Findings that it rests on.
        findings: Vec<u64>,
        /// In words.
        reason: String,
    },
    /// An attempt made its first step.
    AttemptProgressed {
        /// Attempt.
        key: AttemptKey,
    },
    /// The site wrote a runbook, or changed one.
    RunbookSet {
        /// Its name.
        name: String,
        /// The whole text.
        text: Arc<str>,
    },
    /// The site took back its own runbook; one that came with Muster counts again.
    RunbookDeleted {
        /// Its name.
        name: String,
    },
    /// Somebody, or the machine for somebody, began to follow a runbook.
    RunbookStarted {
        /// What.
        run: Box<Run>,
    },
    /// A step of a run is behind it. What an act did follows in the records beside this one.
    RunbookStepDone {
        /// Which run.
        run: u64,
        /// What came of it.
        done: Box<StepDone>,
        /// The step it stands at now.
        next: u32,
        /// That step's time is up then.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// The machine took the step; otherwise it is a person's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
        /// The node that the machine took from work by it: it counts as taken by automation.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        took: Option<NodeName>,
    },
    /// A run that the machine follows waits for a person.
    RunbookWaits {
        /// Which run.
        run: u64,
        /// For what.
        why: String,
    },
    /// A run is over.
    RunbookEnded {
        /// Which run.
        run: u64,
        /// How.
        outcome: RunOutcome,
        /// Why.
        why: String,
        /// A person's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        word: bool,
    },
    /// Somebody wrote something down about an incident.
    IncidentNoted {
        /// Which.
        id: u64,
        /// What.
        text: String,
    },
    /// Somebody took an incident on, or let it go.
    IncidentOwned {
        /// Which.
        id: u64,
        /// Who; none: nobody any more.
        owner: Option<String>,
    },
    /// What the site promises.
    ObjectivesSet {
        /// All of it.
        objectives: Arc<Objectives>,
    },
    /// Who is told of what.
    RoutingSet {
        /// All of it.
        routing: Arc<Routing>,
    },
    /// Some alerts are not told for a time; new, or in place of the one of that name.
    SilenceSet {
        /// Which, and when.
        silence: Box<Silence>,
    },
    /// A silence is over before its time, or for good.
    SilenceEnded {
        /// Its name.
        name: Label,
        /// Its time was up; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// What was counted outside of the log.
    CountsTold {
        /// What.
        counts: Vec<Counted>,
    },
    /// Something is wrong that nothing in the log shows.
    ConditionTold {
        /// What.
        condition: Box<Condition>,
        /// Taken for over after this, unless it is told again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// It is over.
    ConditionOver {
        /// Its key.
        key: String,
    },
    /// How long a certificate is good.
    CertificateSeen {
        /// Whose.
        entity: Entity,
        /// It ends then.
        ends: Time,
    },
    /// Somebody has to be told of something.
    AlertOpened {
        /// What.
        alert: Box<Alert>,
    },
    /// More is known of it, it became louder or quieter, or it was passed on.
    AlertChanged {
        /// How it is now.
        alert: Box<Alert>,
    },
    /// It is over.
    AlertClosed {
        /// How it was at its end.
        alert: Box<Alert>,
    },
    /// Somebody looks after it.
    AlertAcknowledged {
        /// Which.
        id: String,
        /// Who, and what they said.
        acknowledgement: Acknowledgement,
    },
    /// A receiver was told.
    AlertsTold {
        /// Which receiver.
        receiver: Label,
        /// Ids of alerts, and what it was told of each.
        alerts: Vec<(String, News)>,
    },
    /// A receiver could not be told.
    ReceiverFailed {
        /// Which.
        receiver: Label,
        /// What came of it.
        error: String,
    },
    /// Alerts that were over long ago leave the working state (the log keeps them).
    AlertsForgotten {
        /// Their ids.
        ids: Vec<String>,
    },
}
