//! What somebody wants, and what the brain answers.

pub use crate::actor::{Actor, user_of};
use crate::breaker::BreakerState;
use crate::entity::Entity;
use crate::fault::ObservedFault;
use crate::finding::ObservedFinding;
use crate::ids::{AttemptKey, JobId, Seq};
use crate::job::SlotEnd;
use crate::names::{Label, NodeName, ProjectName};
use crate::node::Inventory;
use crate::qualification::{Level, Qualification};
use crate::spec::{JobSpec, SpecProblem};
use crate::topology::Topology;
use crate::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Makes a write safe to repeat.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct IdempotencyKey {
    /// As the client gave it, scoped by the actor.
    pub key: String,
    /// Hash of the request it came with.
    pub fingerprint: String,
    /// Forgotten after this.
    pub keep_until: Time,
}

/// A request with who, when and under which key.
#[derive(Debug, Clone)]
pub struct Request {
    /// Who asks, and with which permissions.
    pub actor: Actor,
    /// The server's clock when it arrived.
    pub at: Time,
    /// Makes a repeat harmless.
    pub key: Option<IdempotencyKey>,
    /// The version the caller last saw, when it insists.
    pub if_version: Option<Seq>,
    /// What is wanted.
    pub command: Command,
}

/// What an agent saw of one attempt on its node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Observed {
    /// Its ranks are up.
    Running,
    /// Its ranks are gone.
    Ended(SlotEnd),
}

/// What somebody wants.
#[derive(Debug, Clone)]
pub enum Command {
    /// First record of a site's log.
    CreateSite {
        /// The site's id, made by the caller.
        site: String,
    },
    /// A server took the lead.
    Lead {
        /// Its fencing token.
        epoch: crate::ids::Epoch,
        /// Who it is.
        server: String,
        /// The log was restored from a backup, or lost its end, since the last lead.
        restored: bool,
    },
    /// Run this. `spec.run` has the image alone here: what runs is kept beside the log.
    Submit {
        /// What the job asks for.
        spec: Arc<JobSpec>,
    },
    /// End a job.
    Cancel {
        /// The job to end.
        job: JobId,
    },
    /// Keep a waiting job from starting.
    Hold {
        /// The waiting job to hold.
        job: JobId,
    },
    /// Let it start again.
    Release {
        /// The held job to release.
        job: JobId,
    },
    /// Stop the attempt that goes on, and try again; or queue an ended job anew.
    Requeue {
        /// The job to queue anew.
        job: JobId,
    },
    /// Queue a task anew with its array: only one that failed or was cancelled.
    RequeueFailed {
        /// The task to queue anew.
        job: JobId,
    },
    /// Ask a running job for a checkpoint.
    AskCheckpoint {
        /// The running job to ask.
        job: JobId,
    },
    /// A job said it has written one.
    CheckpointDone {
        /// The attempt that wrote it.
        key: AttemptKey,
        /// Step it is at.
        step: Option<u64>,
        /// Where it is.
        path: Option<String>,
        /// Its size in bytes, if the job said it.
        bytes: Option<u64>,
        /// How long it held the job up.
        blocked_ms: Option<u64>,
    },
    /// An agent was let in with a join token.
    Enroll {
        /// Its node's name.
        node: NodeName,
        /// Identity of its machine, as it says itself.
        machine: String,
        /// Id of the token it showed.
        token: String,
        /// Hex SHA-256 of its public key.
        key: Option<String>,
    },
    /// A node that was let in before keys were noted showed its certificate: from now on only
    /// certificates of this enrolment are the node's.
    NoteNodeKey {
        /// The node that connected.
        node: NodeName,
        /// Hex SHA-256 of the public key in its certificate.
        key: String,
    },
    /// A node showed a certificate of this site whose enrolment was lost with the end of the log.
    ReadmitNode {
        /// The node that connected.
        node: NodeName,
        /// Identity of its machine, as it says itself.
        machine: String,
        /// Hex SHA-256 of the public key in its certificate.
        key: String,
    },
    /// The wall clock of the server's machine, or of a node, was set.
    ClockStepped {
        /// Whose, when and by how much.
        step: crate::clock::ClockStep,
    },
    /// An agent connected and reported everything it sees.
    NodeConnected {
        /// The node the agent runs on.
        node: NodeName,
        /// Identity of its machine.
        machine: String,
        /// Boot id.
        boot: String,
        /// Address that ranks reach it under.
        address: String,
        /// Operating-system instance it runs on.
        host: String,
        /// What is in it.
        inventory: Box<Inventory>,
        /// Every attempt it knows of.
        observed: Vec<(AttemptKey, Observed)>,
        /// How long ago those ended that have, by the node's own clock; older agents do not say.
        ended_ago: Vec<(AttemptKey, Span)>,
        /// Which directory of its machine the agent keeps its records in; empty: it does not say.
        place: String,
        /// It has seen more of the log than this server has.
        ahead: bool,
        /// How long this server had not heard it before; none where it hears it for the first time.
        silent_for: Option<Span>,
    },
    /// The connection of an agent ended and no other began, or one began. Nothing is written for it:
    /// it says where new work does not go before the heartbeat is lost.
    AgentConnection {
        /// The node the agent runs on.
        node: NodeName,
        /// Is it connected?
        connected: bool,
    },
    /// The agent has not been heard for too long.
    NodeLost {
        /// The node whose heartbeat was lost.
        node: NodeName,
        /// When its last heartbeat came.
        last_seen: Time,
    },
    /// A change that the agent saw on one attempt.
    SlotReport {
        /// The node the agent runs on.
        node: NodeName,
        /// The attempt that changed.
        key: AttemptKey,
        /// What it saw.
        observed: Observed,
        /// How long ago it ended, by the node's own clock; older agents do not say.
        ago: Option<Span>,
    },
    /// No new work for a node.
    Cordon {
        /// The node that gets no new work.
        node: NodeName,
        /// Why, for people.
        reason: String,
    },
    /// New work again.
    Uncordon {
        /// The node that takes new work again.
        node: NodeName,
    },
    /// No new work, and what runs leaves: by itself, or at once when `stop` is set.
    Drain {
        /// The node to empty.
        node: NodeName,
        /// Why, for people.
        reason: String,
        /// Stop and requeue what runs there instead of letting it end.
        stop: bool,
    },
    /// Take work again after a drain.
    Undrain {
        /// The node whose drain ends.
        node: NodeName,
    },
    /// Remove a node that will not come back.
    Retire {
        /// The node that is gone for good.
        node: NodeName,
    },
    /// After a restored backup: let the server decide again about a node that is ahead of it.
    Reconcile {
        /// The node that was ahead of the server.
        node: NodeName,
    },
    /// The location of nodes.
    SetTopology {
        /// The whole tree, in place of the one before.
        topology: Arc<Topology>,
    },
    /// A new project.
    CreateProject {
        /// The new project's name, unique in the site.
        name: ProjectName,
        /// What it is for.
        description: String,
    },
    /// A new token; the secret was made by the caller, only its hash comes here.
    CreateToken {
        /// Public part.
        id: String,
        /// What a person calls it.
        name: Label,
        /// Hex SHA-256 of the secret.
        hash: String,
        /// What it is for.
        usage: crate::tenant::TokenUse,
        /// How long it works.
        ttl: Option<Span>,
    },
    /// End a token.
    RevokeToken {
        /// Public part.
        id: String,
    },
    /// Change what a waiting job asks for, or the time limit of one that runs.
    UpdateJob {
        /// The job to change.
        job: JobId,
        /// Its new priority class.
        priority: Option<crate::spec::Priority>,
        /// Its new time limit.
        time_limit: Option<Span>,
    },
    /// What a node is kept for, and how likely it is to fail.
    MarkNode {
        /// The node to mark.
        node: NodeName,
        /// Kept for; unchanged when absent.
        role: Option<crate::node::NodeRole>,
        /// In thousandths a month; unchanged when absent.
        hazard: Option<u32>,
    },
    /// The site's scheduling policy.
    SetPolicy {
        /// The whole of it.
        policy: Arc<crate::policy::SitePolicy>,
    },
    /// The tree of quotas.
    SetQuotas {
        /// The whole of it.
        quotas: Arc<crate::quota::Quotas>,
    },
    /// Make or replace a reservation.
    SetReservation {
        /// What is wanted.
        reservation: Arc<crate::reservation::Reservation>,
    },
    /// Delete a reservation.
    DeleteReservation {
        /// The reservation to delete.
        name: Label,
    },
    /// An agent saw that the GPUs of an attempt do nothing, or something again.
    IdleReport {
        /// The node the agent runs on.
        node: NodeName,
        /// The attempt whose GPUs are meant.
        key: AttemptKey,
        /// Idle since then; none: busy again.
        since: Option<Time>,
    },
    /// An agent saw faults on its node.
    FaultsSeen {
        /// The node the agent runs on.
        node: NodeName,
        /// What it saw.
        faults: Vec<ObservedFault>,
    },
    /// Test a node before it takes more work.
    Qualify {
        /// The node to test.
        node: NodeName,
        /// How much is tested: quick, standard or full.
        level: Level,
    },
    /// The test of a node is not wanted any more.
    CancelQualification {
        /// The node whose test is called off.
        node: NodeName,
    },
    /// An agent has tested its node.
    QualificationDone {
        /// The node that was tested.
        node: NodeName,
        /// The test's number, from `QualificationAsked`.
        id: u64,
        /// What was measured.
        report: Box<Qualification>,
    },
    /// Detectors concluded something from what nodes and jobs report.
    FindingsSeen {
        /// The findings, new ones and changed ones.
        findings: Vec<ObservedFinding>,
    },
    /// A finding is of no account any more.
    CloseFinding {
        /// The finding's number.
        id: u64,
        /// Why it does not count, for people.
        reason: String,
    },
    /// A remediation that waits may go on.
    ApproveRemediation {
        /// The remediation's number.
        id: u64,
    },
    /// A remediation that waits is not to be done; its node stays as it is.
    DenyRemediation {
        /// The remediation's number.
        id: u64,
        /// Why not, for people.
        reason: String,
    },
    /// What a remediation did is taken back: its node serves as before.
    UndoRemediation {
        /// The remediation's number.
        id: u64,
        /// Why it is taken back, for people.
        reason: String,
    },
    /// People repaired a node: it is tested, and returns when it passes.
    Repaired {
        /// The node that was repaired.
        node: NodeName,
        /// What was done.
        note: String,
    },
    /// A node returns to service without having passed a test.
    ReturnUntested {
        /// The node that returns.
        node: NodeName,
        /// Why without a test, for people.
        reason: String,
    },
    /// GPUs of a node take no work; the rest goes on.
    ExcludeGpus {
        /// The node whose GPUs are meant.
        node: NodeName,
        /// All GPUs that shall be excluded.
        gpus: crate::placement::GpuSet,
        /// Why, for people.
        reason: String,
    },
    /// An operator holds a breaker where it shall be, or lets it go.
    ForceBreaker {
        /// What the breaker protects: a node, a leaf, an image and so on.
        entity: Entity,
        /// Held there; none: it follows its own rules again.
        state: Option<BreakerState>,
        /// Why, for people.
        reason: String,
    },
    /// Automation does nothing more until it is resumed.
    StopAutomation {
        /// Why, for people.
        reason: String,
    },
    /// Automation may go on.
    ResumeAutomation,
    /// What came of something that was done outside.
    ActDone {
        /// The act's number.
        id: u64,
        /// It was done.
        ok: bool,
        /// What came of it, for people.
        message: String,
    },
    /// The network between the nodes of an attempt in preflight was measured, or could not be.
    PreflightDone {
        /// The attempt that waits for it.
        key: AttemptKey,
        /// What came of it.
        report: crate::preflight::PreflightReport,
    },
    /// An attempt made its first step.
    FirstStep {
        /// The attempt that made it.
        key: AttemptKey,
    },
    /// A runbook of the site's own, new or changed.
    SetRunbook {
        /// Its name; the text says the same.
        name: String,
        /// The whole text.
        text: Arc<str>,
    },
    /// The site's own runbook is not wanted any more.
    DeleteRunbook {
        /// The name of the site's own runbook.
        name: String,
    },
    /// Begin to follow a runbook.
    StartRunbook {
        /// The runbook's name.
        name: String,
        /// What it is about.
        vars: std::collections::BTreeMap<String, String>,
        /// Its steps are run automatically, with the permissions of whoever asks.
        auto: bool,
    },
    /// A person's word at the step a run stands at.
    AnswerRunbook {
        /// The run's number.
        run: u64,
        /// Which step is meant: a word about another one is refused.
        step: u32,
        /// What the person answers: go, a choice, yes, no or skip.
        answer: crate::runbook::StepAnswer,
        /// What they have to say to it.
        note: String,
        /// What the server saw of figures that are not in the log.
        seen: Option<String>,
    },
    /// The server saw a figure that a run waits for and that is not in the log.
    RunbookSaw {
        /// The run's number.
        run: u64,
        /// The number of the step that waits for it.
        step: u32,
        /// The value that was seen, as text.
        seen: String,
    },
    /// A run is not to go on.
    StopRunbook {
        /// The run's number.
        run: u64,
        /// Why it is stopped, for people.
        reason: String,
    },
    /// Somebody writes something down about an incident.
    NoteIncident {
        /// The incident's number.
        id: u64,
        /// The note, for people.
        text: String,
    },
    /// Somebody takes an incident on, or lets it go.
    OwnIncident {
        /// The incident's number.
        id: u64,
        /// Who; none: nobody any more.
        owner: Option<String>,
    },
    /// Somebody closes an incident, and with it everything that is open of it.
    CloseIncident {
        /// The incident's number.
        id: u64,
        /// Why, for people.
        reason: String,
    },
    /// The site's objectives, all of them.
    SetObjectives {
        /// All objectives, in place of those before.
        objectives: Arc<crate::slo::Objectives>,
    },
    /// One objective: new, or in place of the one of that name.
    SetObjective {
        /// The objective; its name says which one it replaces.
        objective: Arc<crate::slo::Objective>,
    },
    /// An objective is deleted.
    DeleteObjective {
        /// The objective's name.
        name: Label,
    },
    /// Who is notified of what, all of it.
    SetRouting {
        /// All receivers and routes, in place of those before.
        routing: Arc<crate::alert::Routing>,
    },
    /// Some alerts are not sent for a time.
    SetSilence {
        /// The silence; its name says which one it replaces.
        silence: Box<crate::alert::Silence>,
    },
    /// End a silence.
    EndSilence {
        /// The silence's name.
        name: Label,
    },
    /// The caller looks after an alert.
    AcknowledgeAlert {
        /// The alert's id.
        id: String,
        /// What they say.
        note: String,
    },
    /// An alert goes to the next escalation step of its routes now.
    EscalateAlert {
        /// The alert's id.
        id: String,
        /// Why, for people.
        reason: String,
    },
    /// What the server or a service counted about itself.
    ReportCounts {
        /// Good and all, by indicator and scope.
        counts: Vec<crate::slo::IndicatorCount>,
    },
    /// How long a certificate is good.
    CertificateSeen {
        /// What the certificate belongs to.
        entity: Entity,
        /// It ends then.
        ends: Time,
    },
    /// A receiver was notified.
    AlertsNotified {
        /// The receiver that was notified.
        receiver: Label,
        /// Ids of alerts, and what was sent for each.
        alerts: Vec<(String, crate::alert::AlertChange)>,
    },
    /// A receiver could not be notified.
    ReceiverFailed {
        /// The receiver that could not be reached.
        receiver: Label,
        /// What came of it.
        error: String,
    },
    /// A secret was stored or replaced; its value never comes here.
    SetSecret {
        /// The project that owns the secret.
        project: ProjectName,
        /// The secret's name, unique in its project.
        name: Label,
    },
    /// A secret is gone.
    DeleteSecret {
        /// The project that owns the secret.
        project: ProjectName,
        /// The secret's name, unique in its project.
        name: Label,
    },
}

/// What came of a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// Nothing more to say than that it is done.
    Done,
    /// Jobs that were made: the first id and how many in a row.
    Submitted {
        /// First id.
        first: JobId,
        /// How many jobs were made; their ids follow each other.
        count: u32,
    },
    /// Something was begun that has a number.
    Begun {
        /// The number of what was begun: a run of a runbook.
        id: u64,
    },
    /// It is done, and findings are over with it.
    Closed {
        /// Their numbers, in the order in which they were closed.
        findings: Vec<u64>,
    },
}

/// Why a request is refused. Nothing has changed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct Refusal {
    /// The kind of refusal, for programs.
    pub code: RefusalCode,
    /// What is wrong, for people.
    pub message: String,
    /// Field at fault.
    pub field: Option<String>,
    /// How to fix it.
    pub hint: Option<String>,
}

/// Kinds of refusal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum RefusalCode {
    /// The request makes no sense.
    Invalid,
    /// No such thing.
    NotFound,
    /// The caller may not.
    NotAllowed,
    /// It contradicts the present state.
    Conflict,
    /// A rule says no.
    Policy,
    /// This version cannot do it yet.
    Unsupported,
}

impl Refusal {
    /// A refusal without field or hint.
    pub fn new(code: RefusalCode, message: impl Into<String>) -> Refusal {
        Refusal { code, message: message.into(), field: None, hint: None }
    }
    /// Names the field at fault.
    #[must_use]
    pub fn field(mut self, field: impl Into<String>) -> Refusal {
        self.field = Some(field.into());
        self
    }
    /// Says how to fix it.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Refusal {
        self.hint = Some(hint.into());
        self
    }
}

impl From<SpecProblem> for Refusal {
    fn from(p: SpecProblem) -> Refusal {
        let SpecProblem { field, message, hint } = p;
        Refusal { code: RefusalCode::Invalid, message, field: Some(field), hint }
    }
}
