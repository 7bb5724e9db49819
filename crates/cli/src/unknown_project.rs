//! `--project` and `MUSTER_PROJECT` with a name that no project has. An answer about everything would look like one
//! about that project, so that verbs which do not look at it refuse it too.

use crate::args::Command;
use crate::known_project::known_project;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::{Fail, NOT_ALLOWED, NOT_FOUND};
use muster_terminal::output;

/// What a verb does about a project that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum UnknownProject {
    /// The project is asked for before anything else, and refused.
    Refused,
    /// The verb names the project in what it asks, and is refused; or looks for it itself.
    Named,
    /// Whoever looks which projects there are may have a wrong one set: a note says so.
    Noted,
    /// No server is asked.
    NotAsked,
}

/// What this verb does about it.
fn of(command: &Command) -> UnknownProject {
    use UnknownProject::{Named, NotAsked, Noted, Refused};
    match command {
        Command::Run(_)
        | Command::Submit(_)
        | Command::Ps(_)
        | Command::Secret(_)
        | Command::Doctor(_) => Named,
        Command::Reservation(c) if c.names_projects() => Named,
        Command::Silence(c) if c.names_project() => Named,
        Command::Token(c) if c.names_project() => Named,
        Command::Project(c) if c.is_create() => Named,
        Command::Project(_) => Noted,
        Command::Get(c) if c.is_of_projects() => Noted,
        Command::Explain(c) if c.is_of_fault() => NotAsked,
        Command::Gameday(c) if !c.is_live() => NotAsked,
        Command::Quota(c) if c.is_check() => NotAsked,
        Command::Topology(c) if c.is_check() => NotAsked,
        Command::Whatif(c) if c.reads_file() => NotAsked,
        Command::Up(_)
        | Command::Server(_)
        | Command::Agent(_)
        | Command::Store(_)
        | Command::Sim(_)
        | Command::Completions(_)
        | Command::Export(_)
        | Command::Fleet => NotAsked,
        Command::Top(_)
        | Command::Get(_)
        | Command::Describe(_)
        | Command::Logs(_)
        | Command::Cancel(_)
        | Command::Hold(_)
        | Command::Release(_)
        | Command::Requeue(_)
        | Command::Checkpoint(_)
        | Command::Wait(_)
        | Command::Update(_)
        | Command::Explain(_)
        | Command::Report(_)
        | Command::Whatif(_)
        | Command::Nodes(_)
        | Command::Node(_)
        | Command::Topology(_)
        | Command::Quota(_)
        | Command::Policy(_)
        | Command::Reservation(_)
        | Command::Defrag(_)
        | Command::Events(_)
        | Command::Search(_)
        | Command::Fabric(_)
        | Command::Faults(_)
        | Command::Health(_)
        | Command::Findings(_)
        | Command::Incident(_)
        | Command::Remediations(_)
        | Command::Runbook(_)
        | Command::Breakers(_)
        | Command::Automation(_)
        | Command::Readiness(_)
        | Command::Slo(_)
        | Command::Alerts(_)
        | Command::Silence(_)
        | Command::Routing(_)
        | Command::FailureModes(_)
        | Command::Gameday(_)
        | Command::Token(_)
        | Command::Power(_)
        | Command::History(_)
        | Command::Whoami(_) => Refused,
    }
}

/// Refuses a project that is not there, or notes it, as this verb does.
pub(crate) async fn check(ctx: &Ctx, command: &Command) -> Result<(), Fail> {
    match of(command) {
        UnknownProject::Named | UnknownProject::NotAsked => Ok(()),
        UnknownProject::Refused => known_project(ctx).await,
        UnknownProject::Noted => match known_project(ctx).await {
            Err(e) if [NOT_FOUND, NOT_ALLOWED].contains(&e.code) => {
                output::note(&format!("note: {}", e.message));
                Ok(())
            }
            known => known,
        },
    }
}
