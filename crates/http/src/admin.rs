//! Projects, tokens and secrets.

use super::auth::{AdminWriter, Reader, UserWriter, Writer};
use super::error::{Failure, Reply};
use super::extract::{JsonBody, Query, Segment};
use super::{App, answer, gone};
use axum::extract::State;
use axum::http::StatusCode;
use muster_api::{
    CreateProject, CreateToken, Project, ProjectList, ProjectQuery, SecretList, SecretName,
    SetSecret, Token, TokenCreated, TokenList,
};
use muster_engine::State as Site;
use muster_link::token::{self, ApiToken, JoinToken};
use muster_model::names::{Label, NameError, ProjectName};
use muster_model::resolve::some_lines;
use muster_model::tenant::{Role, TokenUse};
use muster_model::{Command, Refusal, Seq, Span};
use muster_server::brain::Attach;

/// How long a join token works when nothing is said.
const JOIN_TTL: Span = Span::mins(60);
/// Largest value of a secret.
const SECRET_LIMIT: usize = 64 << 10;

fn name_of<T: std::str::FromStr<Err = NameError>>(text: &str, field: &str) -> Reply<T> {
    text.parse().map_err(|e: NameError| Failure::senseless(e.to_string()).field(field))
}

/// List the projects that the caller may see.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/projects", tag = "projects",
    responses((status = 200, description = "The projects.", body = ProjectList))))]
pub(crate) async fn projects(State(app): State<App>, Reader(caller): Reader) -> Reply {
    let (seq, items) = app.brain().read(|s| {
        let seen = s.projects.values().filter(|p| caller.sees(&p.name));
        let version = |v: Seq| caller.version(&app, v.0);
        let items = seen
            .map(|p| Project::of(p.name.as_str(), &p.description, version(p.version)))
            .collect();
        (s.seq, items)
    });
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &ProjectList { items, cursor: None }))
}

/// Make a project.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/projects", tag = "projects", request_body = CreateProject,
    responses((status = 201, description = "The project.", body = Project))))]
pub(crate) async fn create_project(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    JsonBody { value, raw }: JsonBody<CreateProject>,
) -> Reply {
    let name: ProjectName = name_of(&value.name, "name")?;
    some_lines("description", &value.description).map_err(Refusal::from)?;
    if value.description.chars().count() > 1000 {
        return Err(
            Failure::senseless("a description has 1000 characters at most").field("description")
        );
    }
    let command = Command::CreateProject { name: name.clone(), description: value.description };
    let done = writer.call(&app, &raw, command).await?;
    let made = app.brain().read(|s| {
        s.projects.get(&name).map(|p| Project::of(p.name.as_str(), &p.description, p.version.0))
    });
    let made = made.ok_or_else(|| Failure::conflict("the project was changed meanwhile"))?;
    Ok(answer(&app, &writer.caller, StatusCode::CREATED, done.seq, Some(made.version), &made))
}

/// List tokens, without their secrets.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/tokens", tag = "tokens",
    responses((status = 200, description = "The tokens.", body = TokenList))))]
pub(crate) async fn tokens(State(app): State<App>, Reader(caller): Reader) -> Reply {
    caller.over_site(Role::Admin)?;
    let now = app.brain().now();
    let all = |s: &Site| s.tokens.values().map(|t| Token::of(t, now)).collect::<Vec<_>>();
    let (seq, mut items) = app.brain().read(|s| (s.seq, all(s)));
    app.last_used().fill(&mut items);
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &TokenList { items, cursor: None }))
}

/// Make a token. Its secret is in this answer and nowhere else.
///
/// A repeat with the same `Idempotency-Key` is refused: the secret cannot be shown again.
#[cfg_attr(feature = "openapi", utoipa::path(post, path = "/v1/tokens", tag = "tokens", request_body = CreateToken,
    responses((status = 201, description = "The token with its secret.", body = TokenCreated))))]
pub(crate) async fn create_token(
    State(app): State<App>,
    AdminWriter(writer): AdminWriter,
    JsonBody { value, raw }: JsonBody<CreateToken>,
) -> Reply {
    let name: Label = name_of(&value.name, "name")?;
    let random = |_| Failure::unavailable("the system gives no random numbers");
    let (id, hash, secret, usage, ttl) = if value.join {
        if value.role.is_some() || value.project.is_some() {
            return Err(Failure::senseless("a join token has no role and no project").field("join"));
        }
        if value.uses == Some(0) {
            return Err(Failure::senseless("uses is 0; leave it out for any number").field("uses"));
        }
        let Some(pin) = app.config().join_pin.clone() else {
            return Err(Failure::conflict(
                "agents cannot join this server: it has no certificate authority",
            ));
        };
        let t = JoinToken::generate(pin).map_err(random)?;
        let usage = TokenUse::Join { uses_left: value.uses };
        (
            t.id.clone(),
            token::hash(&t.secret),
            t.to_string(),
            usage,
            Some(value.ttl.unwrap_or(JOIN_TTL)),
        )
    } else {
        if value.uses.is_some() {
            return Err(Failure::senseless("uses is for join tokens").field("uses"));
        }
        let project: Option<ProjectName> = match &value.project {
            Some(p) => Some(name_of(p, "project")?),
            None => None,
        };
        let t = ApiToken::generate().map_err(random)?;
        let usage = TokenUse::Api { role: value.role.unwrap_or(Role::User), project };
        (t.id.clone(), token::hash(&t.secret), t.to_string(), usage, value.ttl)
    };
    if ttl == Some(Span(0)) {
        return Err(Failure::senseless("a token that works for no time is of no use").field("ttl"));
    }
    let command = Command::CreateToken { id: id.clone(), name, hash, usage, ttl };
    let done = writer.call(&app, &raw, command).await?;
    let now = app.brain().now();
    let made = app.brain().read(|s| s.tokens.get(&id).map(|t| Token::of(t, now)));
    // A replayed answer finds the earlier token, whose secret nobody has any more but its owner.
    let Some(token) = made else {
        return Err(Failure::conflict("a token was already made under this Idempotency-Key")
            .hint("its secret was shown once; make another one under another key"));
    };
    let version = token.version;
    let body = TokenCreated { token, secret };
    Ok(answer(&app, &writer.caller, StatusCode::CREATED, done.seq, Some(version), &body))
}

/// End a token.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/tokens/{id}", tag = "tokens",
    params(("id" = String, Path, description = "Public part of the token.")),
    responses((status = 204, description = "It works no longer."))))]
pub(crate) async fn revoke_token(
    State(app): State<App>,
    writer: Writer,
    Segment(id): Segment,
) -> Reply {
    writer.caller.over_site(Role::Admin)?;
    let done = writer.call(&app, b"", Command::RevokeToken { id }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}

/// A project that is there: the list of one that is not would be empty and look right.
pub(crate) fn known(app: &App, project: ProjectName) -> Reply<ProjectName> {
    let refusal = app.brain().read(|s| {
        let known = s.projects.contains_key(&project);
        (!known).then(|| muster_engine::no_project(s, &project))
    });
    match refusal {
        None => Ok(project),
        Some(refusal) => Err(refusal.into()),
    }
}

/// List the names of a project's secrets.
#[cfg_attr(feature = "openapi", utoipa::path(get, path = "/v1/secrets", tag = "secrets", params(ProjectQuery),
    responses((status = 200, description = "The names.", body = SecretList))))]
pub(crate) async fn secrets(
    State(app): State<App>,
    Reader(caller): Reader,
    Query(q): Query<ProjectQuery>,
) -> Reply {
    let project = known(&app, caller.project(q.project.as_deref())?)?;
    let (seq, items) = app.brain().read(|s| {
        let own = s.secrets.iter().filter(|(p, _)| *p == project);
        (s.seq, own.map(|(p, n)| SecretName::of(p.as_str(), n.as_str(), 0)).collect())
    });
    Ok(answer(&app, &caller, StatusCode::OK, seq, None, &SecretList { items, cursor: None }))
}

/// Set a secret. Its value goes to the ranks that name it, and never comes back.
#[cfg_attr(feature = "openapi", utoipa::path(put, path = "/v1/secrets/{name}", tag = "secrets", request_body = SetSecret,
    params(("name" = String, Path, description = "The secret's name."), ProjectQuery),
    responses((status = 200, description = "It is set.", body = SecretName))))]
pub(crate) async fn set_secret(
    State(app): State<App>,
    UserWriter(writer): UserWriter,
    Segment(name): Segment,
    Query(q): Query<ProjectQuery>,
    JsonBody { value, raw }: JsonBody<SetSecret>,
) -> Reply {
    let project = writer.caller.project(q.project.as_deref())?;
    let name: Label = name_of(&name, "name")?;
    if value.value.len() > SECRET_LIMIT {
        return Err(Failure::senseless("a secret has 64 KiB at most").field("value"));
    }
    if value.value.contains('\0') {
        return Err(Failure::senseless(
            "a secret cannot have a zero byte: programs could not read it",
        )
        .field("value"));
    }
    let command = Command::SetSecret { project: project.clone(), name: name.clone() };
    let request = writer.secret_request(&app, &raw, command);
    let secret = Some((project.clone(), name.clone(), Some(value.value)));
    let done = app.brain().call(request, Attach { secret, ..Attach::default() }).await?;
    let version = writer.caller.version(&app, done.seq.0);
    let body = SecretName::of(project.as_str(), name.as_str(), version);
    Ok(answer(&app, &writer.caller, StatusCode::OK, done.seq, Some(body.version), &body))
}

/// Delete a secret.
#[cfg_attr(feature = "openapi", utoipa::path(delete, path = "/v1/secrets/{name}", tag = "secrets",
    params(("name" = String, Path, description = "The secret's name."), ProjectQuery),
    responses((status = 204, description = "It is gone."))))]
pub(crate) async fn delete_secret(
    State(app): State<App>,
    writer: Writer,
    Segment(name): Segment,
    Query(q): Query<ProjectQuery>,
) -> Reply {
    writer.caller.at_least(Role::User)?;
    let project = writer.caller.project(q.project.as_deref())?;
    let name: Label = name_of(&name, "name")?;
    let command = Command::DeleteSecret { project: project.clone(), name: name.clone() };
    let request = writer.request(&app, b"", command);
    let secret = Some((project, name, None));
    let done = app.brain().call(request, Attach { secret, ..Attach::default() }).await?;
    Ok(gone(&app, &writer.caller, done.seq))
}
