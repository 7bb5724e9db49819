//! Who may do what. One table, asked for every command.

use crate::lookup::no_job;
use crate::state::State;
use muster_model::command::{Actor, Command, Refusal, RefusalCode, Request};
use muster_model::ids::{AttemptKey, JobId};
use muster_model::names::{NodeName, ProjectName};
use muster_model::spec::Priority;
use muster_model::tenant::Role;
use muster_model::units::Span;

/// May this actor see things of that project?
#[must_use]
pub fn may_see(actor: &Actor, project: Option<&ProjectName>) -> bool {
    match (&actor.project, project) {
        (None, _) => true,
        (Some(mine), Some(p)) => mine == p,
        // What belongs to no project (nodes, tokens) is the operators'.
        (Some(_), None) => false,
    }
}

/// May this actor submit work of that priority class? Work of a high class stops the work of others:
/// a token that is bound to a project needs an allowance for it, whatever its role.
///
/// # Errors
/// What it may use, and who can change that.
pub fn may_use_class(state: &State, actor: &Actor, class: Priority) -> Result<(), Refusal> {
    let Some(project) = &actor.project else { return Ok(()) };
    let most = state.quotas.max_priority(project);
    if class <= most {
        return Ok(());
    }
    let (most, asked) = (most.word(), class.word());
    let message = format!(
        "priority {asked} is more than project {project} may use: its tokens may use up to {most}"
    );
    Err(Refusal::new(RefusalCode::NotAllowed, message).field("priority").hint(format!(
        "ask for {most}, or let an admin allow `max_priority: {asked}` for the project \
         (`muster quota apply`)"
    )))
}

pub(crate) fn check(state: &State, req: &Request) -> Result<(), Refusal> {
    let a = &req.actor;
    if a.role == Role::Agent {
        return from_agent(state, a, &req.command);
    }
    match &req.command {
        Command::Submit { spec } => {
            need(a, Role::User, "submit jobs")?;
            match &spec.project {
                Some(p) if !may_see(a, Some(p)) => Err(Refusal::new(
                    RefusalCode::NotAllowed,
                    format!("this token may not use project {p}"),
                )
                .field("project")),
                _ => may_use_class(state, a, spec.priority),
            }
        }
        Command::Cancel { job }
        | Command::Hold { job }
        | Command::Release { job }
        | Command::Requeue { job }
        | Command::RequeueFailed { job }
        | Command::AskCheckpoint { job } => {
            visible(state, a, *job)?;
            need(a, Role::User, "steer jobs")
        }
        Command::UpdateJob { job, priority, time_limit, .. } => {
            visible(state, a, *job)?;
            need(a, Role::User, "steer jobs")?;
            if extends_running(state, *job, *time_limit) {
                need(a, Role::Operator, "extend the time limit of a job that runs")?;
            }
            let has = state.jobs.get(job).map(|j| j.spec.priority);
            match priority {
                Some(class) if has != Some(*class) => may_use_class(state, a, *class),
                _ => Ok(()),
            }
        }
        Command::SetSecret { project, .. } | Command::DeleteSecret { project, .. } => {
            need(a, Role::User, "change secrets")?;
            if may_see(a, Some(project)) {
                Ok(())
            } else {
                Err(Refusal::new(
                    RefusalCode::NotAllowed,
                    format!("this token may not use project {project}"),
                ))
            }
        }
        Command::Cordon { .. }
        | Command::Uncordon { .. }
        | Command::Drain { .. }
        | Command::Undrain { .. }
        | Command::Retire { .. }
        | Command::MarkNode { .. }
        | Command::Qualify { .. }
        | Command::CancelQualification { .. }
        | Command::Repaired { .. }
        | Command::ReturnUntested { .. }
        | Command::ExcludeGpus { .. }
        | Command::Reconcile { .. } => need(a, Role::Operator, "steer nodes"),
        Command::CloseFinding { .. }
        | Command::ApproveRemediation { .. }
        | Command::DenyRemediation { .. }
        | Command::UndoRemediation { .. }
        | Command::ForceBreaker { .. }
        | Command::StopAutomation { .. }
        | Command::ResumeAutomation => need(a, Role::Operator, "manage remediations"),
        Command::NoteIncident { .. }
        | Command::OwnIncident { .. }
        | Command::CloseIncident { .. } => need(a, Role::Operator, "write about incidents"),
        Command::SetRunbook { .. } | Command::DeleteRunbook { .. } => {
            need(a, Role::Operator, "change runbooks")
        }
        // What a run does is checked again at each act, as if its owner asked for it.
        Command::StartRunbook { .. }
        | Command::AnswerRunbook { .. }
        | Command::StopRunbook { .. } => {
            need(a, Role::User, "follow runbooks")?;
            match a.project {
                None => Ok(()),
                Some(_) => Err(Refusal::new(
                    RefusalCode::NotAllowed,
                    "a token bound to a project may not follow runbooks",
                )
                .hint("runbooks are about the whole site")),
            }
        }
        Command::SetTopology { .. } => need(a, Role::Operator, "change the topology"),
        Command::SetPolicy { .. } => need(a, Role::Admin, "change the scheduling policy"),
        Command::SetQuotas { .. } => need(a, Role::Admin, "change quotas"),
        Command::SetReservation { .. } | Command::DeleteReservation { .. } => {
            need(a, Role::Operator, "change reservations")
        }
        Command::SetObjectives { .. }
        | Command::SetObjective { .. }
        | Command::DeleteObjective { .. } => need(a, Role::Admin, "change objectives"),
        Command::SetRouting { .. } => need(a, Role::Admin, "change who is notified"),
        Command::SetSilence { .. } | Command::EndSilence { .. } => {
            need(a, Role::Operator, "change silences")
        }
        Command::AcknowledgeAlert { .. } => need(a, Role::Operator, "acknowledge alerts"),
        Command::EscalateAlert { .. } => need(a, Role::Operator, "escalate alerts"),
        Command::CreateProject { .. } => need(a, Role::Admin, "create projects"),
        Command::CreateToken { .. } | Command::RevokeToken { .. } => {
            need(a, Role::Admin, "manage tokens")
        }
        // These come from the server's own edges, never from a request body.
        Command::CreateSite { .. }
        | Command::Lead { .. }
        | Command::CheckpointDone { .. }
        | Command::Enroll { .. }
        | Command::NoteNodeKey { .. }
        | Command::ReadmitNode { .. }
        | Command::ClockStepped { .. }
        | Command::NodeConnected { .. }
        | Command::AgentConnection { .. }
        | Command::NodeLost { .. }
        | Command::IdleReport { .. }
        | Command::FaultsSeen { .. }
        | Command::FindingsSeen { .. }
        | Command::ActDone { .. }
        | Command::PreflightDone { .. }
        | Command::FirstStep { .. }
        | Command::RunbookSaw { .. }
        | Command::QualificationDone { .. }
        | Command::ReportCounts { .. }
        | Command::CertificateSeen { .. }
        | Command::AlertsNotified { .. }
        | Command::ReceiverFailed { .. }
        | Command::SlotReport { .. } => need(a, Role::Admin, "act as the server"),
    }
}

/// Would it run for longer than was known when it started? Reserved starts of others rest on that.
fn extends_running(state: &State, job: JobId, asked: Option<Span>) -> bool {
    let running = state.jobs.get(&job).filter(|j| j.runs());
    let known = running.and_then(|j| j.spec.time_limit);
    known.zip(asked).is_some_and(|(known, asked)| asked > known)
}

fn need(a: &Actor, role: Role, what: &str) -> Result<(), Refusal> {
    // A token bound to a project never reaches beyond it, whatever its role.
    let bound = a.project.is_some() && role >= Role::Operator;
    if a.role >= role && !bound {
        return Ok(());
    }
    Err(Refusal::new(RefusalCode::NotAllowed, format!("{} may not {what}", a.name))
        .hint(format!("use a token with the role {} or more", role.word())))
}

/// What the agent of a node may say: what it sees of itself and of its own slots.
fn from_agent(state: &State, a: &Actor, command: &Command) -> Result<(), Refusal> {
    let own = |node: &NodeName| a.node() == Some(node.as_str());
    let ran = |key: AttemptKey| {
        let node: Option<NodeName> = a.node().and_then(|n| n.parse().ok());
        node.is_some_and(|n| state.ran_here(&n, key).is_some())
    };
    let may = match command {
        Command::Enroll { node, .. }
        | Command::NodeConnected { node, .. }
        | Command::SlotReport { node, .. }
        | Command::IdleReport { node, .. }
        | Command::FaultsSeen { node, .. }
        | Command::QualificationDone { node, .. } => own(node),
        Command::CheckpointDone { key, .. } => ran(*key),
        Command::ActDone { id, .. } => state.health.acts.get(id).is_some_and(|x| {
            let here = x.act.node().filter(|&n| own(n)).and_then(|n| state.nodes.get(n));
            here.is_some_and(|n| x.act.is_done_by_agent(n.inventory.simulated))
        }),
        _ => false,
    };
    if may {
        return Ok(());
    }
    let message = format!("{} may only report about itself and its slots", a.name);
    Err(Refusal::new(RefusalCode::NotAllowed, message))
}

/// A job of somebody else's project does not exist for this actor.
fn visible(state: &State, a: &Actor, job: JobId) -> Result<(), Refusal> {
    match state.jobs.get(&job) {
        Some(j) if may_see(a, Some(&j.project)) => Ok(()),
        _ => Err(no_job(job)),
    }
}
