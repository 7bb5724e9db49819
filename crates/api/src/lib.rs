//! What the HTTP API speaks: requests and answers under `/v1`, in `snake_case` JSON.
//!
//! Times are RFC 3339 text, ids are text, and every object carries `id`, `kind`, `name`,
//! `state` and `version`. Findings, incidents and remediations have no name, and their `kind` is the
//! failure mode. These types are what `GET /openapi.json` is generated from.

pub mod admin;
pub mod alert;
pub mod brand;
pub mod cause;
pub mod console;
pub mod error;
pub mod event;
pub mod explain;
pub mod fabric;
pub mod finding;
pub mod fleet;
pub mod hardware;
pub mod health;
pub mod history;
pub mod inject;
pub mod job;
pub mod logs;
pub mod mig;
pub mod node;
pub mod period;
pub mod policy;
pub mod power;
pub mod query;
pub mod quota;
pub mod readiness;
pub mod record;
pub mod recovery;
pub mod remediation;
pub mod report;
pub mod reservation;
pub mod runbook;
#[cfg(feature = "samples")]
pub mod samples;
pub mod scenario;
pub mod search;
pub mod server;
pub mod slo;
pub mod telemetry;
pub mod time;
pub mod whatif;

pub use admin::{
    CreateProject, CreateToken, Project, ProjectList, SecretList, SecretName, SetSecret, Token,
    TokenCreated, TokenList, WhoAmI,
};
pub use alert::{
    AcknowledgeRequest, Acknowledged, Alert, AlertList, NotifiedReceiver, Receiver, ReceiverList,
    Routing, SetRouting, SetSilence, Silence, SilenceList,
};
pub use brand::{Brand, BrandColours, BrandLink};
pub use cause::{CauseJob, CauseList, CauseRunbook, OpenCause};
pub use console::{ConsoleLayout, LayoutNode, LayoutRack};
pub use error::{ErrorBody, ErrorInfo};
pub use event::{Event, EventList};
pub use explain::{Constraint, Estimate, Explanation, JobAhead};
pub use fabric::{
    FabricNode, FabricNodeHealth, FabricPair, FabricRequest, FabricState, FabricTest,
    FabricTestList, FabricVerdict,
};
pub use finding::{
    Breaker, BreakerList, Change, FailureMode, FailureModeList, Finding, FindingList, ForceBreaker,
    Incident, IncidentList, IncidentNote, ReasonRequest,
};
pub use fleet::{
    CapacityForecast, FleetAttribution, FleetJobs, FleetMetrics, FleetProject, FleetQuery,
    FleetReport, FleetRow, FleetSku, FleetStep,
};
pub use hardware::{Fault, FaultList, Qualified, QualifyProgress, QualifyRequest, Qualifying};
pub use health::{HealthSummary, TimelineEntry, TimelineKind, TimelineList, waiting_words};
pub use history::{HistoryMetricList, HistoryQuery, MetricSeries, MetricsHistory};
pub use inject::{Inject, Injected};
pub use job::{
    Attempt, AttemptPreflight, Job, JobArray, JobList, Notice, Progress, ReservedStart, Slot,
    Submitted,
};
pub use logs::{LineStamps, LogLine, LogStream};
pub use mig::{MigLeaver, MigPlan, MigPlanSlice, MigQuery};
pub use node::{AgentInfo, Node, NodeActionOffer, NodeJob, NodeList, NodeUse, Topology};
pub use period::{
    KindCount, NodeCount, PeriodAlerts, PeriodIncident, PeriodKind, PeriodObjective, PeriodQuery,
    PeriodReport, VersionCount,
};
pub use policy::{MarkRequest, Policy, SetPolicy, UpdateJob, whole_policy};
pub use power::{DomainPower, PowerBy, PowerInventory, PowerQuery};
pub use query::{
    AlertsQuery, EventOrder, EventsQuery, FaultsQuery, FindingsQuery, IncidentsQuery, JobStates,
    JobsQuery, LogsQuery, NodesQuery, ProjectQuery, RemediationsQuery, RequeueQuery, RunsQuery,
    SetDocumentQuery, SetReservationQuery, SloQuery, SubmitQuery, TimelineQuery,
};
pub use quota::{AccountRow, LimitRow, QuotaReport, QuotaRow, Quotas, SetQuotas};
pub use readiness::{Readiness, ReadinessCheck};
pub use record::{IncidentEntry, IncidentImpact, IncidentRecord, NoteRequest, OwnRequest};
pub use recovery::Recovery;
pub use remediation::{
    Act, Automation, DryRemediation, ExcludeRequest, NodeTakenOut, Remediation, RemediationDryRun,
    RemediationDryRunReport, RemediationList, RemediationStepEntry, RepairedRequest,
};
pub use report::{
    AdviceLine, AttemptReport, Efficiency, GpuParts, JobReport, StageReport, StepsReport, TimeParts,
};
pub use reservation::{
    DefragReport, DisplacedJob, Move, MoveProposal, NodeOutOfService, Reservation, ReservationList,
    SetReservation, Window,
};
pub use runbook::{
    AnswerRunbook, Runbook, RunbookAnswer, RunbookChoice, RunbookDryRun, RunbookDryStep,
    RunbookList, RunbookRun, RunbookRunList, RunbookStep, RunbookStepDone, SetRunbook,
    StartRunbook,
};
pub use scenario::{RunScenario, Scenario, ScenarioList, ScenarioRun};
pub use search::{
    OutputHit, OutputHitList, OutputSearchQuery, SearchHit, SearchHitList, SearchKind, SearchQuery,
};
pub use server::{CordonRequest, DrainRequest, ServerInfo, StoreStatus};
pub use slo::{
    BurnRate, CauseCount, ChartPoint, FiringRule, Objectives, SetObjectives, Slo, SloList,
    UnfiredRule,
};
pub use telemetry::{
    GpuLine, JobTelemetry, JobTelemetryQuery, RankLine, TelemetryBand, TelemetryField,
    TelemetryMark,
};
pub use time::Timestamp;
pub use whatif::WhatIf;

pub use muster_model::whatif::{
    WhatIfAnswer, WhatIfEstimate, WhatIfJob, WhatIfMetric, WhatIfNever, WhatIfStart, WhatIfUnit,
};

use serde::{Deserialize, Serialize};

/// What an object is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub enum Kind {
    /// Work that was submitted.
    Job,
    /// Several jobs that were submitted as one.
    JobArray,
    /// A machine that runs work.
    Node,
    /// What owns jobs, secrets and quota.
    Project,
    /// What a caller or an agent identifies itself with.
    Token,
    /// A secret's name.
    Secret,
    /// The location of nodes.
    Topology,
    /// Why a job waits.
    Explanation,
    /// Where a job's time went.
    JobReport,
    /// The last minutes of a job in metrics.
    JobTelemetry,
    /// What became of all GPUs.
    FleetReport,
    /// What a week or a month was like.
    PeriodReport,
    /// The site's scheduling policy.
    Policy,
    /// Who is entitled to what.
    Quotas,
    /// A window of time in which nodes belong to somebody.
    Reservation,
    /// Moves that would let waiting gangs start.
    Defrag,
    /// How a GPU would be cut.
    MigPlan,
    /// Power by place.
    PowerInventory,
    /// How the site stands.
    Health,
    /// A test of the network between nodes.
    FabricTest,
    /// The site's objectives.
    Objectives,
    /// An objective and its status.
    Slo,
    /// A time in which some alerts send no notifications.
    Silence,
    /// Who is notified of what.
    Routing,
    /// A receiver of notifications.
    Receiver,
    /// The checklists of operators.
    Readiness,
    /// The server itself.
    Server,
}
