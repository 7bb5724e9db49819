//! Health over HTTP: findings, incidents, breakers, remediations, automation, and how the site stands.

pub(crate) mod automation;
pub(crate) mod breakers;
pub(crate) mod dry_run;
pub(crate) mod findings;
mod incident_timeline;
pub(crate) mod incidents;
pub(crate) mod record;
pub(crate) mod remediations;
pub(crate) mod summary;
pub(crate) mod timeline;

use super::App;
use super::auth::Writer;
use super::error::{Failure, Reply};
use super::extract::{number, shown};
use muster_engine::State as Site;
use muster_health::modes;
use muster_model::entity::Entity;
use muster_model::finding::{Finding, ObservedFinding};
use muster_model::names::{NameError, NodeName};
use muster_model::resolve::some_lines;
use muster_model::tenant::Role;
use muster_model::{Command, JobId, Refusal, Seq};

use super::auth::Caller;

/// What the map of failure modes calls a kind.
pub(crate) fn title(kind: &str) -> &'static str {
    modes::mode(kind).map_or("", |m| m.title)
}

/// What a finding is called.
pub(crate) fn title_of(seen: &ObservedFinding) -> &'static str {
    modes::title(&seen.kind, seen.severity)
}

/// May this caller see it? Tenants see what is about their own jobs.
pub(crate) fn sees(site: &Site, caller: &Caller, f: &Finding) -> bool {
    if caller.actor.project.is_none() {
        return true;
    }
    let own = |job: JobId| site.jobs.get(&job).is_some_and(|j| caller.sees(&j.project));
    f.seen.attempt.is_some_and(|a| own(a.job))
        || match &f.seen.entity {
            Entity::Job(j) => own(*j),
            Entity::Template(p, _) | Entity::Project(p) => caller.sees(p),
            _ => false,
        }
}

/// The number that a path names.
fn id(text: &str, what: &str) -> Reply<u64> {
    number(text).ok_or_else(|| {
        Failure::bad(format!("`{}` is not the number of a {what}", shown(text)))
            .field("id")
            .hint("it is a number such as 1207")
    })
}

fn missing(what: &str, id: u64, list: &str) -> Failure {
    Failure::not_found(format!("there is no {what} {id}"))
        .hint(format!("`{list}` lists them; what ended long ago is only in the log"))
}

fn node_name(text: Option<&str>) -> Reply<Option<NodeName>> {
    let parsed = text.map(str::parse).transpose();
    parsed.map_err(|e: NameError| Failure::bad(e.to_string()).field("node"))
}

/// A reason that is not too long and can be shown; where one is needed, it is there.
pub(crate) fn reason(given: String, needed: bool) -> Reply<String> {
    some_lines("reason", &given).map_err(Refusal::from)?;
    if given.chars().count() > 1000 {
        return Err(Failure::senseless("a reason has 1000 characters at most").field("reason"));
    }
    if needed && given.trim().is_empty() {
        return Err(Failure::senseless("this overrules what was measured, and gives no reason")
            .field("reason")
            .hint("give a `reason`: it is stored in the log"));
    }
    Ok(given)
}

/// An operator's word: carried out when it is durable.
async fn order(app: &App, writer: &Writer, raw: &[u8], command: Command) -> Reply<Seq> {
    writer.caller.over_site(Role::Operator)?;
    Ok(writer.call(app, raw, command).await?.seq)
}

#[cfg(test)]
mod fixture {
    use muster_model::{Event, Record, Seq, Time};

    /// A record of which nothing but its moment, its project and its event counts.
    pub(super) fn record(at: i64, project: Option<&str>, event: Event) -> Record {
        Record {
            seq: Seq(1),
            at: Time(at),
            v: 1,
            org: String::new(),
            project: project.map(|p| p.parse().unwrap()),
            actor: "system".into(),
            key: None,
            event,
        }
    }
}
