//! What happened, for ever: nothing is renamed or removed, a new field has a default.
mod origin;
mod parts;
mod record;
use self::parts::*;
pub use self::{origin::Origin, record::Record, record::SCHEMA};

/// A fact of the log, in the past tense, with every id, deadline and choice in it.
#[derive(Debug, Clone, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(remote = "Self", rename_all = "snake_case")] // why so: event/record.rs
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
        /// After a restore, or a lost end of the log, a new life begins: jobs from here on.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        first_job: Option<JobId>,
    },
    /// A job, or a whole array of jobs with ids in a row, was accepted.
    JobSubmitted {
        /// First (or only) id; also the key of what runs.
        id: JobId,
        /// What its user calls it; not unique.
        name: Label,
        /// The project that owns it.
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
        /// Bytes that were submitted, with what runs; 0 in older logs.
        #[serde(default, skip_serializing_if = "crate::job::is_zero")]
        payload_bytes: u64,
    },
    /// A waiting job may not start.
    JobHeld {
        /// The job that is held.
        job: JobId,
        /// Who holds it, for people: a user, or the part of the control plane that chose it.
        by: String,
        /// What it is held by; older logs have the text alone.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        held_by: Option<crate::hold::HeldBy>,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// It may again.
    JobReleased {
        /// The job that is released.
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
    /// An attempt begins with a preflight, or more is known of it, or it is over.
    PreflightSet(crate::preflight::PreflightSet),
    /// The ranks of an attempt are up on a node.
    SlotStarted {
        /// The attempt whose ranks are up.
        key: AttemptKey,
        /// The node they run on.
        node: NodeName,
    },
    /// Every rank of an attempt is up.
    AttemptStarted {
        /// The attempt that runs.
        key: AttemptKey,
        /// When it will have run too long.
        deadline: Option<Time>,
    },
    /// The ranks of an attempt are gone from a node, and what it held is free; also after it was lost.
    SlotEnded {
        /// The attempt whose ranks are gone.
        key: AttemptKey,
        /// The node they ran on.
        node: NodeName,
        /// How the ranks ended there.
        end: SlotEnd,
        /// When they ended by what the agent said, where that was before the record; not before the start.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        ended_at: Option<Time>,
    },
    /// What an attempt does on a node is unknown: the node is lost.
    SlotLost {
        /// The attempt that is not heard of.
        key: AttemptKey,
        /// The node that is lost.
        node: NodeName,
    },
    /// An attempt is being stopped.
    StopOrdered {
        /// The attempt that is stopped.
        key: AttemptKey,
        /// Why it is stopped.
        reason: StopReason,
        /// Between SIGTERM and SIGKILL.
        grace: Span,
        /// No other attempt starts before this; none means: not before the lost node is heard.
        fence_until: Option<Time>,
    },
    /// An attempt is over.
    AttemptEnded {
        /// The attempt that is over.
        key: AttemptKey,
        /// What caused the end: the job, the infrastructure, a person, the scheduler and so on.
        verdict: Verdict,
        /// Why it ended, for people.
        reason: String,
    },
    /// A job goes back to the queue with its age.
    JobRequeued {
        /// The job that goes back.
        job: JobId,
        /// Why, for people.
        reason: String,
        /// It does not start before this: the wait between attempts grows while a job fails.
        #[serde(default)]
        not_before: Time,
        /// Who asked for it, where the job had ended: nothing else takes a job out of its end.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
        /// Lost nodes of its last attempt, where all other ranks ended with 0: see [`crate::job::Job`].
        #[serde(default, skip_serializing_if = "Vec::is_empty")]
        unreported: Vec<NodeName>,
    },
    /// A job ended well.
    JobSucceeded {
        /// The job that ended.
        job: JobId,
    },
    /// A job ended badly.
    JobFailed {
        /// The job that ended.
        job: JobId,
        /// Why it failed, for people.
        reason: String,
        /// Exit code to hand on.
        exit_code: i32,
    },
    /// A job was ended by somebody.
    JobCancelled {
        /// The job that was ended.
        job: JobId,
        /// Why, for people.
        reason: String,
    },
    /// Jobs that ended long ago leave the working state (the log keeps them).
    JobsForgotten {
        /// The jobs that leave.
        jobs: Vec<JobId>,
    },
    /// A checkpoint was asked for.
    CheckpointAsked {
        /// The attempt that was asked.
        key: AttemptKey,
    },
    /// A checkpoint was written.
    CheckpointDone {
        /// The job that wrote it.
        job: JobId,
        /// Its step, place, size and time.
        checkpoint: Checkpoint,
    },
    /// An agent was let in, or the key of one that was let in long ago was noted.
    NodeEnrolled {
        /// The node the agent runs on.
        node: NodeName,
        /// Identity of its machine.
        machine: String,
        /// Token it showed.
        token: String,
        /// Where it is.
        location: Location,
        /// Hex SHA-256 of its public key; logs of before have none.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        key: Option<String>,
    },
    /// An agent is heard again.
    NodeBack {
        /// The node that is heard again.
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
        /// Which directory of its machine the agent keeps its records in; empty: it does not say.
        #[serde(default, skip_serializing_if = "String::is_empty")]
        place: String,
    },
    /// What is in a node has changed, or is reported for the first time.
    NodeInventoried {
        /// The node that was looked at.
        node: NodeName,
        /// What is in it.
        inventory: Box<Inventory>,
    },
    /// The heartbeat of an agent is lost.
    NodeLost {
        /// The node whose heartbeat was lost.
        node: NodeName,
        /// When it last was.
        last_seen: Time,
    },
    /// An orphaned attempt is gone from a node.
    OrphanGone {
        /// The node it ran on.
        node: NodeName,
        /// The attempt that is gone.
        key: AttemptKey,
    },
    /// No new work for a node.
    NodeCordoned {
        /// The node that gets no new work.
        node: NodeName,
        /// Why, for people.
        reason: String,
        /// The control plane chose it; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// New work again.
    NodeUncordoned {
        /// The node that takes new work again.
        node: NodeName,
        /// The control plane chose it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// A node is being drained.
    DrainStarted {
        /// The node that is being emptied.
        node: NodeName,
        /// Why, for people.
        reason: String,
    },
    /// Nothing runs there any more.
    NodeDrained {
        /// The node that is empty.
        node: NodeName,
    },
    /// It may take work.
    NodeReady {
        /// The node that may take work.
        node: NodeName,
        /// Why, for people.
        reason: String,
    },
    /// It is gone for good.
    NodeRetired {
        /// The node that is gone.
        node: NodeName,
    },
    /// An operator let the server decide again about a node that was ahead of it.
    NodeReconciled {
        /// The node that was ahead of the server.
        node: NodeName,
    },
    /// The location of nodes.
    TopologySet {
        /// The whole tree, in place of the one before.
        topology: Arc<Topology>,
    },
    /// A project was made.
    ProjectCreated {
        /// The project's name, unique in the site.
        name: ProjectName,
        /// What it is for.
        description: String,
    },
    /// A token was made.
    TokenCreated {
        /// Public part.
        id: String,
        /// What people call the token.
        name: Label,
        /// Hex SHA-256 of the secret.
        hash: String,
        /// What it is for.
        usage: crate::tenant::TokenUse,
        /// When it stops working.
        expires_at: Option<Time>,
    },
    /// A token was ended.
    TokenRevoked {
        /// Public part.
        id: String,
    },
    /// A waiting job has a reserved start, or a better one.
    StartReserved {
        /// The waiting job.
        job: JobId,
        /// The reserved start: when, and on which nodes.
        reserved_start: crate::job::ReservedStart,
    },
    /// A reserved start was dropped: a new one is looked for.
    ReservedStartDropped {
        /// The waiting job.
        job: JobId,
        /// Why it could not be kept, for people.
        reason: String,
    },
    /// An attempt will be stopped, and has time to write a checkpoint first.
    NoticeGiven {
        /// The attempt that will be stopped.
        key: AttemptKey,
        /// Why it will be stopped.
        reason: StopReason,
        /// Stopped at the latest then.
        until: Time,
    },
    /// A notice was withdrawn: the attempt goes on.
    NoticeWithdrawn {
        /// The active attempt.
        key: AttemptKey,
        /// Why it goes on after all, for people.
        reason: String,
    },
    /// An elastic gang shall have another size from its next attempt on.
    JobResized {
        /// The elastic job.
        job: JobId,
        /// How many nodes it shall have.
        nodes: u32,
    },
    /// What a job asks for was changed.
    JobUpdated(JobUpdate),
    /// A job's GPUs do nothing; it was warned.
    IdleWarned {
        /// The job that was warned.
        job: JobId,
        /// Idle for so long.
        idle: Span,
    },
    /// What a node is kept for, and how likely it is to fail.
    NodeMarked {
        /// The node that was marked.
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
        /// The reservation's name.
        name: Label,
    },
    /// A secret has a new value.
    SecretSet {
        /// The project that owns the secret.
        project: ProjectName,
        /// The secret's name, unique in its project.
        name: Label,
    },
    /// A secret is gone.
    SecretDeleted {
        /// The project that owns the secret.
        project: ProjectName,
        /// The secret's name, unique in its project.
        name: Label,
    },
    /// A node reported a fault, for the first time or again after a while.
    FaultSeen {
        /// The node that reported it.
        node: NodeName,
        /// What it reported.
        fault: Box<crate::fault::ObservedFault>,
    },
    /// A node is to be tested before it takes more work.
    QualificationAsked {
        /// The node to test.
        node: NodeName,
        /// Names this one test; the agent answers with it.
        id: u64,
        /// How much is tested: quick, standard or full.
        level: crate::qualification::Level,
        /// It has failed when nothing was reported about it by then.
        until: Time,
        /// The policy asks it of a node that joins or returns; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        on_join: bool,
    },
    /// A test came to an end.
    QualificationEnded {
        /// The node that was tested.
        node: NodeName,
        /// The test's number, from `QualificationAsked`.
        id: u64,
        /// What was measured, judged against the node's past and its peers.
        report: Box<Qualification>,
        /// Its time was up; the node did not report.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// A test is not wanted any more.
    QualificationCancelled {
        /// The node whose test was called off.
        node: NodeName,
        /// The test's number, from `QualificationAsked`.
        id: u64,
    },
    /// Something was found to be wrong.
    FindingOpened {
        /// The finding as it was opened, with its number.
        finding: Box<crate::finding::Finding>,
        /// It follows from what the log holds; otherwise a detector reported it.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// More is known of a finding, or it became worse.
    FindingChanged {
        /// The finding's number.
        id: u64,
        /// What is known now.
        seen: Box<crate::finding::ObservedFinding>,
        /// It follows from what the log holds.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// A finding is over.
    FindingClosed {
        /// The finding's number.
        id: u64,
        /// Why it is over, for people.
        why: String,
        /// The control plane chose it; otherwise a detector's or an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        decided: bool,
    },
    /// Findings turned out to have one cause.
    IncidentOpened {
        /// What they have in common.
        incident: Box<crate::finding::Incident>,
    },
    /// More findings are part of an incident.
    IncidentGrew {
        /// The incident's number.
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
        /// The incident's number.
        id: u64,
        /// Why it is over, for people.
        why: String,
        /// The incident of which it became a part.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        part_of: Option<u64>,
    },
    /// A breaker opened, half opened or closed.
    BreakerSet {
        /// Its status now.
        breaker: Box<crate::breaker::Breaker>,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// Something is to be done about a finding.
    RemediationChosen {
        /// The remediation as it was chosen, with its number.
        remediation: Box<Remediation>,
    },
    /// A remediation took a step.
    RemediationStepped {
        /// The remediation's number.
        id: u64,
        /// Where it stands now.
        step: RemediationStep,
        /// Why it took the step, for people.
        why: String,
        /// To be noticed when it stands there for longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// The act that is under way.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        act: Option<u64>,
        /// It stays where it was and waits: nothing was taken. Older records do not say.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        held: bool,
    },
    /// An operator let a remediation go on.
    RemediationApproved {
        /// The remediation's number.
        id: u64,
        /// The operator who approved it.
        by: String,
    },
    /// A remediation is over.
    RemediationEnded {
        /// The remediation's number.
        id: u64,
        /// Whether it helped, and if not, why it is over.
        outcome: RemediationOutcome,
        /// Why it ended so, for people.
        why: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// Something is to be done once, outside.
    ActAsked {
        /// The act, with its number and its deadline.
        act: Box<AskedAct>,
    },
    /// It was done, or could not be.
    ActEnded {
        /// The act's number.
        id: u64,
        /// It was done.
        ok: bool,
        /// What came of it, for people.
        message: String,
        /// The control plane ended it, because its time was up or a heavier act follows; no report.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// A node entered another stage, by the control plane's decision or an operator's word.
    NodeStaged {
        /// The node whose stage changed.
        node: NodeName,
        /// Where it stands now.
        stage: crate::node::Stage,
        /// Why, for people.
        reason: String,
        /// To be noticed when it stands there for longer.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// GPUs of a node that take no work.
    GpusExcluded {
        /// The node whose GPUs are meant.
        node: NodeName,
        /// All GPUs that are excluded now.
        gpus: crate::placement::GpuSet,
        /// Why, for people.
        reason: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// A node is watched after its return, or not any more.
    ProbationSet {
        /// The node on probation.
        node: NodeName,
        /// Until then; none: it is over.
        until: Option<Time>,
    },
    /// The control plane stopped itself from doing more.
    AutomationStopped {
        /// Why, for people.
        reason: String,
        /// An operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// It may go on.
    AutomationResumed {
        /// Who said so.
        by: String,
    },
    /// Whose doing the end of an attempt was, as far as is known now.
    AttemptAttributed {
        /// The attempt that ended.
        key: AttemptKey,
        /// What caused the end: the job, the infrastructure, a person, the scheduler and so on.
        verdict: Verdict,
        /// Findings that it rests on.
        findings: Vec<u64>,
        /// Why that is concluded, for people.
        reason: String,
    },
    /// An attempt made its first step.
    AttemptProgressed {
        /// The attempt that made it.
        key: AttemptKey,
    },
    /// The site wrote a runbook, or changed one.
    RunbookSet {
        /// The runbook's name.
        name: String,
        /// The whole text.
        text: Arc<str>,
    },
    /// The site took back its own runbook; one that came with Muster counts again.
    RunbookDeleted {
        /// The runbook's name.
        name: String,
    },
    /// Somebody, or the machine for somebody, began to follow a runbook.
    RunbookStarted {
        /// The run as it began, with its number.
        run: Box<crate::runbook::Run>,
    },
    /// A step of a run is behind it. What an act did follows in the records beside this one.
    RunbookStepDone {
        /// The run's number.
        run: u64,
        /// What came of it.
        done: Box<crate::runbook::StepDone>,
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
        /// The run's number.
        run: u64,
        /// What it waits for, for people.
        why: String,
    },
    /// A run is over.
    RunbookEnded {
        /// The run's number.
        run: u64,
        /// Whether it resolved the matter, left it to people or was stopped.
        outcome: crate::runbook::RunOutcome,
        /// Why it ended so, for people.
        why: String,
        /// A person's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        by_operator: bool,
    },
    /// Somebody wrote something down about an incident.
    IncidentNoted {
        /// The incident's number.
        id: u64,
        /// The note, for people.
        text: String,
    },
    /// Somebody took an incident on, or let it go.
    IncidentOwned {
        /// The incident's number.
        id: u64,
        /// Who; none: nobody any more.
        owner: Option<String>,
    },
    /// The site's objectives.
    ObjectivesSet {
        /// All objectives, in place of those before.
        objectives: Arc<Objectives>,
    },
    /// Who is notified of what.
    RoutingSet {
        /// All receivers and routes, in place of those before.
        routing: Arc<Routing>,
    },
    /// Some alerts are not sent for a time; new, or in place of the one of that name.
    SilenceSet {
        /// The silence; its name says which one it replaces.
        silence: Box<Silence>,
    },
    /// A silence is over before its time, or for good.
    SilenceEnded {
        /// The silence's name.
        name: Label,
        /// Its time was up; otherwise it is an operator's word.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        expired: bool,
    },
    /// What was counted outside of the log.
    CountsReported {
        /// Good and all, by indicator and scope.
        counts: Vec<IndicatorCount>,
    },
    /// Something is wrong that nothing in the log shows. Older logs have it; nothing writes it any more.
    ConditionReported {
        /// The condition; its key says which one it replaces.
        condition: Box<Condition>,
        /// Taken for over after this, unless it is reported again.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        until: Option<Time>,
    },
    /// It is over. As [`Event::ConditionReported`], of older logs.
    ConditionOver {
        /// The condition's key.
        key: String,
    },
    /// How long a certificate is good.
    CertificateSeen(crate::entity::CertificateEnd),
    /// Somebody has to be notified of something.
    AlertOpened {
        /// The alert as it was opened.
        alert: Box<Alert>,
    },
    /// More is known of it, its urgency or its silence changed, or it was escalated.
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
        /// The alert's id.
        id: String,
        /// Who, and what they said.
        acknowledgement: Acknowledgement,
    },
    /// Somebody passed it on to the next escalation step; nobody has acknowledged it any more.
    AlertEscalated {
        /// Which, how far, and why.
        escalation: Escalated,
    },
    /// A receiver was notified.
    AlertsNotified {
        /// The receiver that was notified.
        receiver: Label,
        /// Ids of alerts, and what was sent for each.
        alerts: Vec<(String, AlertChange)>,
    },
    /// A receiver could not be notified.
    ReceiverFailed {
        /// The receiver that could not be reached.
        receiver: Label,
        /// What came of it.
        error: String,
    },
    /// The wall clock of the server's machine, or of a node, was set.
    ClockStepped(crate::clock::ClockStep),
    /// Alerts that were over long ago leave the working state (the log keeps them).
    AlertsForgotten {
        /// Ids of the alerts that leave.
        ids: Vec<String>,
    },
}
