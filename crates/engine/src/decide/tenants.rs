//! Commands about projects, tokens and secrets.

use crate::Engine;
use crate::lookup::no_project;
use crate::state::ended_names;
use muster_model::command::{Answer, Command, Refusal, RefusalCode};
use muster_model::event::Event;
use muster_model::names::{Label, ProjectName};
use muster_model::policy::SECRETS_PER_PROJECT;
use muster_model::resolve::check_secret;
use muster_model::tenant::{Token, TokenUse};

pub(super) fn project(
    e: &mut Engine,
    name: &ProjectName,
    description: &str,
) -> Result<Answer, Refusal> {
    if e.state.projects.contains_key(name) {
        return Err(Refusal::new(RefusalCode::Conflict, format!("project {name} exists already")));
    }
    let event = Event::ProjectCreated { name: name.clone(), description: description.into() };
    e.emit(Some(name), event);
    Ok(Answer::Done)
}

pub(super) fn token(e: &mut Engine, c: &Command) -> Result<Answer, Refusal> {
    let Command::CreateToken { id, name, hash, usage, ttl } = c else { return Ok(Answer::Done) };
    if e.state.tokens.contains_key(id) {
        return Err(Refusal::new(RefusalCode::Conflict, format!("token {id} exists already")));
    }
    if let TokenUse::Api { project: Some(p), .. } = usage {
        known_project(e, p)?;
    }
    let event = Event::TokenCreated {
        id: id.clone(),
        name: name.clone(),
        hash: hash.clone(),
        usage: usage.clone(),
        expires_at: ttl.map(|t| e.state.now + t),
    };
    e.emit(None, event);
    Ok(Answer::Done)
}

pub(super) fn revoke(e: &mut Engine, id: &str) -> Result<Answer, Refusal> {
    if !e.state.tokens.contains_key(id) {
        let named = |t: &Token| t.name.as_str() == id;
        // Whoever repeats it has what they want. A name that another token has now names that one.
        if e.state.is_over(&ended_names::token(id)) && !e.state.tokens.values().any(named) {
            return Ok(Answer::Done);
        }
        return Err(Refusal::new(RefusalCode::NotFound, format!("there is no token {id}"))
            .hint("`muster token list` shows them"));
    }
    e.emit(None, Event::TokenRevoked { id: id.into() });
    Ok(Answer::Done)
}

fn known_project(e: &Engine, p: &ProjectName) -> Result<(), Refusal> {
    if e.state.projects.contains_key(p) {
        return Ok(());
    }
    Err(no_project(&e.state, p))
}

pub(super) fn set_secret(
    e: &mut Engine,
    project: &ProjectName,
    name: &Label,
) -> Result<Answer, Refusal> {
    known_project(e, project)?;
    check_secret(name.as_str()).map_err(|p| Refusal::from(p).field("name"))?;
    // A new value for one that is there takes no more space.
    if !e.state.secrets.contains(&(project.clone(), name.clone())) {
        let most = e.state.policy.limits.secrets_per_project.unwrap_or(SECRETS_PER_PROJECT);
        let has = e.state.secrets.iter().filter(|(p, _)| p == project).count();
        if has >= most as usize {
            let what =
                format!("project {project} has {has} secrets already; the site allows {most}");
            return Err(Refusal::new(RefusalCode::Policy, what).field("name").hint(
                "delete some that are not needed (`muster secret delete NAME`); an admin can \
                 raise `limits.secrets_per_project` (`muster policy`)",
            ));
        }
    }
    let event = Event::SecretSet { project: project.clone(), name: name.clone() };
    e.emit(Some(project), event);
    Ok(Answer::Done)
}

pub(super) fn delete_secret(
    e: &mut Engine,
    project: &ProjectName,
    name: &Label,
) -> Result<Answer, Refusal> {
    known_project(e, project)?;
    if !e.state.secrets.contains(&(project.clone(), name.clone())) {
        return Err(Refusal::new(
            RefusalCode::NotFound,
            format!("project {project} has no secret {name}"),
        ));
    }
    let event = Event::SecretDeleted { project: project.clone(), name: name.clone() };
    e.emit(Some(project), event);
    Ok(Answer::Done)
}
