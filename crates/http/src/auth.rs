//! Who asks, and what they may do.

use super::App;
use super::cookie;
use super::error::{Failure, Reply};
use super::extract::{
    MUSTER_MIN_SEQ, TokenId, address, idempotency_key, if_match, number, text_header,
};
use super::guard::may_write;
use super::limits::TokenPlace;
use axum::extract::{FromRequestParts, MatchedPath};
use axum::http::request::Parts;
use axum::http::{HeaderMap, header};
use muster_link::token::{self, ApiToken};
use muster_model::names::ProjectName;
use muster_model::tenant::{Role, TokenUse};
use muster_model::{Actor, Command, IdempotencyKey, Request, Seq, Span, Time};
use muster_server::brain::{Attach, Committed};
use sha2::{Digest as _, Sha256};
use std::time::{Duration, Instant};

/// How long a wrong token waits for its answer.
const WRONG_TOKEN_DELAY: Duration = Duration::from_millis(50);
/// What clocks and timers may round.
const ROUNDING: Duration = Duration::from_millis(20);
/// How long an idempotency key is remembered.
const KEY_KEPT: Span = Span::mins(24 * 60);

/// Somebody with a valid token.
#[derive(Debug, Clone)]
pub(crate) struct Caller {
    pub(crate) actor: Actor,
    /// Public part of the token.
    pub(crate) token: String,
    pub(crate) expires_at: Option<Time>,
    /// When the session ends; none for who shows the token itself.
    pub(crate) session_until: Option<Time>,
    /// The record that they want to see; 0 where they did not say.
    pub(crate) min_seq: Seq,
}

impl FromRequestParts<App> for Caller {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
        match authenticate(parts, app) {
            Ok(caller) => match app.callers().take(&caller.token, Instant::now()) {
                Ok(()) => {
                    app.last_used().note(&caller.token, app.brain().now());
                    let held = app.request_permit(&caller.token)?;
                    if let Some(place) = parts.extensions.get::<TokenPlace>() {
                        let _ = place.0.set(held);
                    }
                    app.traces().project(caller.actor.project.as_ref());
                    // The body comes later, and is counted under this token.
                    parts.extensions.insert(TokenId(caller.token.as_str().into()));
                    Ok(caller)
                }
                Err(wait) => Err(Failure::rate_limited(wait)),
            },
            Err(Denied::Missing) => Err(Failure::unauthenticated("this needs a token")),
            Err(Denied::NotOwn) => Err(cookie::not_own()),
            Err(Denied::Wrong(why)) => {
                let address = address(&parts.extensions);
                if let Err(wait) = app.strangers().take(&address, Instant::now()) {
                    tracing::warn!(%address, "too many wrong tokens");
                    return Err(Failure::rate_limited(wait));
                }
                tokio::time::sleep(WRONG_TOKEN_DELAY).await;
                Err(Failure::unauthenticated(why))
            }
        }
    }
}

enum Denied {
    Missing,
    Wrong(String),
    /// A write by a session that does not come from the console.
    NotOwn,
}

/// What a request shows to say who asks.
enum Credential<'a> {
    Token(ApiToken),
    Session(cookie::SessionCookie<'a>),
}

fn credential<'a>(parts: &'a Parts, app: &App) -> Result<Credential<'a>, Denied> {
    if let Some(token) = bearer(&parts.headers)? {
        return Ok(Credential::Token(token));
    }
    let shown = cookie::shown(app, &parts.headers).ok_or(Denied::Missing)?;
    let own = || cookie::is_own(&parts.headers, &parts.uri, app.config().https);
    if !parts.method.is_safe() && !own() {
        return Err(Denied::NotOwn);
    }
    Ok(Credential::Session(shown))
}

/// The token in the Authorization header, if there is one.
fn bearer(headers: &HeaderMap) -> Result<Option<ApiToken>, Denied> {
    let wrong = |why: &str| Denied::Wrong(why.to_owned());
    let mut all = headers.get_all(header::AUTHORIZATION).iter();
    let Some(value) = all.next() else { return Ok(None) };
    if all.next().is_some() {
        return Err(wrong("the Authorization header comes more than once"));
    }
    let text = value.to_str().map_err(|_| wrong("the Authorization header is not ASCII"))?;
    let (scheme, given) =
        text.trim().split_once(' ').ok_or_else(|| wrong("the token is missing"))?;
    if !scheme.eq_ignore_ascii_case("bearer") {
        return Err(wrong("the Authorization header must be `Bearer TOKEN`"));
    }
    given.parse().map(Some).map_err(|e: token::TokenError| Denied::Wrong(e.to_string()))
}

fn authenticate(parts: &Parts, app: &App) -> Result<Caller, Denied> {
    let wrong = |why: &str| Denied::Wrong(why.to_owned());
    let credential = credential(parts, app)?;
    let (id, unknown) = match &credential {
        Credential::Token(t) => (t.id.as_str(), "this token is not valid here, or was revoked"),
        Credential::Session(s) => (s.token, "this session has ended: log in again"),
    };
    let now = app.brain().now();
    // Before the state is looked at: whoever looks holds up the writer.
    let shown = match &credential {
        Credential::Token(t) => token::hash(&t.secret),
        Credential::Session(_) => String::new(),
    };
    app.brain().read(|state| {
        let known = state.tokens.get(id);
        // The comparison is made in any case, so that the time does not reveal which ids exist.
        let hash = known.map_or("", |t| t.hash.as_str());
        let right = match &credential {
            Credential::Token(_) => token::same(hash, &shown),
            Credential::Session(s) => s.is_good(app, hash, now),
        };
        let Some(t) = known.filter(|_| right) else {
            return Err(wrong(unknown));
        };
        if t.expires_at.is_some_and(|at| at <= now) {
            return Err(wrong("this token has expired"));
        }
        let TokenUse::Api { role, project } = &t.usage else {
            return Err(wrong("this token only lets agents join"));
        };
        let actor =
            Actor { name: format!("user:{}", t.name), role: *role, project: project.clone() };
        let session_until = match &credential {
            Credential::Token(_) => None,
            Credential::Session(s) => Some(s.until),
        };
        Ok(Caller {
            actor,
            token: id.to_owned(),
            expires_at: t.expires_at,
            session_until,
            min_seq: Seq(0),
        })
    })
}

impl Caller {
    /// When the caller is let in no longer: the end of the token, or of the session before it.
    pub(crate) fn ends_at(&self) -> Option<Time> {
        self.expires_at.into_iter().chain(self.session_until).min()
    }

    /// Comes back when the caller is let in no longer; never, where that has no end.
    pub(crate) async fn expired(&self, app: &App) {
        match self.ends_at() {
            Some(at) => {
                let left = at.since(app.brain().now()).0;
                // Clocks and timers round: a moment later it has expired for certain.
                tokio::time::sleep(Duration::from_millis(left) + ROUNDING).await;
            }
            None => std::future::pending().await,
        }
    }

    /// Is the session over? Who shows the token itself has none.
    pub(crate) fn session_ended(&self, now: Time) -> bool {
        self.session_until.is_some_and(|until| until <= now)
    }

    /// At least this role.
    pub(crate) fn at_least(&self, role: Role) -> Reply<()> {
        if self.actor.role >= role {
            return Ok(());
        }
        Err(Failure::not_allowed(format!(
            "a token with role {} may not do this; it takes {}",
            self.actor.role.word(),
            role.word()
        )))
    }

    /// At least this role, over the whole site.
    pub(crate) fn over_site(&self, role: Role) -> Reply<()> {
        self.at_least(role)?;
        match &self.actor.project {
            None => Ok(()),
            Some(p) => Err(Failure::not_allowed(format!("this token is bound to project {p}"))
                .hint(
                    "this concerns the whole site: ask an operator, or use a token that is \
                       bound to no project",
                )),
        }
    }

    /// The project a request is about: the one it names, or the caller's own.
    pub(crate) fn project(&self, asked: Option<&str>) -> Reply<ProjectName> {
        let asked: Option<ProjectName> = match asked {
            Some(p) => Some(p.parse().map_err(|e: muster_model::names::NameError| {
                Failure::bad(e.to_string()).field("project")
            })?),
            None => None,
        };
        match (&self.actor.project, asked) {
            (Some(own), Some(asked)) if *own != asked => {
                Err(Failure::not_allowed(format!("this token is bound to project {own}"))
                    .field("project"))
            }
            (_, Some(asked)) => Ok(asked),
            (Some(own), None) => Ok(own.clone()),
            (None, None) => Ok(default_project()),
        }
    }

    /// May the caller know of this project's things?
    pub(crate) fn sees(&self, project: &ProjectName) -> bool {
        self.actor.project.as_ref().is_none_or(|own| own == project)
    }

    /// A position in the log as this caller may see it.
    pub(crate) fn position(&self, app: &App, seq: Seq) -> String {
        position(app, self.actor.project.as_ref(), seq)
    }

    /// An object's version as this caller may see it.
    pub(crate) fn version(&self, app: &App, version: u64) -> u64 {
        match &self.actor.project {
            Some(p) => app.sealer().seal_version(p, version),
            None => version,
        }
    }

    /// The version behind the number that this caller was shown.
    fn open_version(&self, app: &App, shown: u64) -> u64 {
        match &self.actor.project {
            Some(p) => app.sealer().open_version(p, shown),
            None => shown,
        }
    }

    /// The position in a text that this caller was given.
    pub(crate) fn open_position(&self, app: &App, text: &str) -> Option<Seq> {
        match &self.actor.project {
            // 0 is where everybody's log begins.
            Some(_) if text == "0" => Some(Seq(0)),
            Some(p) => app.sealer().open(p, text),
            None => number(text).map(Seq),
        }
    }
}

/// A position in the log as whoever is bound to this project, or to none, may see it.
pub(crate) fn position(app: &App, bound: Option<&ProjectName>, seq: Seq) -> String {
    match bound {
        Some(p) => app.sealer().seal(p, seq),
        None => seq.to_string(),
    }
}

/// The project of those who name none.
pub(crate) fn default_project() -> ProjectName {
    "default".parse().expect("a valid name")
}

/// Somebody who reads. By the time the handler runs, what they demanded to see is there.
pub(crate) struct Reader(pub(crate) Caller);

impl FromRequestParts<App> for Reader {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
        let mut caller = Caller::from_request_parts(parts, app).await?;
        if let Some(text) = text_header(&parts.headers, &MUSTER_MIN_SEQ)? {
            let seq = caller.open_position(app, text).ok_or_else(|| {
                Failure::bad("Muster-Min-Seq must be what an answer's Muster-Seq said")
                    .field("muster-min-seq")
            })?;
            let mut durable = app.brain().watch();
            let there = durable.wait_for(|d| *d >= seq);
            let wait = app.config().min_seq_wait;
            if !matches!(tokio::time::timeout(wait, there).await, Ok(Ok(_))) {
                return Err(Failure::unavailable(
                    "this server has not seen that part of the log yet",
                ));
            }
            caller.min_seq = seq;
        }
        Ok(Reader(caller))
    }
}

/// Somebody who may or may not show a token. A wrong one is refused.
pub(crate) struct MaybeCaller(pub(crate) Option<Caller>);

impl FromRequestParts<App> for MaybeCaller {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
        if !parts.headers.contains_key(header::AUTHORIZATION) {
            return Ok(MaybeCaller(None));
        }
        Caller::from_request_parts(parts, app).await.map(|c| MaybeCaller(Some(c)))
    }
}

/// Somebody who writes, with the headers that make it safe.
pub(crate) struct Writer {
    pub(crate) caller: Caller,
    key: Option<String>,
    /// The version the caller insists on.
    pub(crate) if_version: Option<Seq>,
    target: String,
}

impl FromRequestParts<App> for Writer {
    type Rejection = Failure;
    async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
        let caller = Caller::from_request_parts(parts, app).await?;
        // Before the body is read: nobody sends one, or waits, for a store that is away. What only asks
        // needs none.
        let route = parts.extensions.get::<MatchedPath>().map_or("none", MatchedPath::as_str);
        let writes = may_write(&parts.method, route, parts.uri.query());
        if writes && let Some(why) = app.brain().cannot_write(app.config().store_patience) {
            return Err(Failure::cannot_write(&why).hint("nothing was done; try again"));
        }
        let key = idempotency_key(&parts.headers)?.map(str::to_owned);
        let target = match &key {
            Some(_) => format!(
                "{} {}\n",
                parts.method,
                parts.uri.path_and_query().map_or("", |p| p.as_str())
            ),
            None => String::new(),
        };
        let if_version = if_match(&parts.headers)?.map(|v| Seq(caller.open_version(app, v)));
        Ok(Writer { caller, key, if_version, target })
    }
}

/// Those who write and must be somebody for it. Others are refused before their body is read: it may
/// be a large one, and what is wrong with it is shown only to those who may do this at all.
macro_rules! writers {
    ($($(#[$doc:meta])* $name:ident = $check:ident($role:ident);)*) => {$(
        $(#[$doc])*
        pub(crate) struct $name(pub(crate) Writer);

        impl FromRequestParts<App> for $name {
            type Rejection = Failure;
            async fn from_request_parts(parts: &mut Parts, app: &App) -> Reply<Self> {
                let writer = Writer::from_request_parts(parts, app).await?;
                writer.caller.$check(Role::$role)?;
                Ok($name(writer))
            }
        }
    )*};
}

writers! {
    /// An admin of the whole site.
    AdminWriter = over_site(Admin);
    /// An operator of the whole site.
    OperatorWriter = over_site(Operator);
    /// Anybody with a token that is bound to no project.
    SiteWriter = over_site(Viewer);
    /// A user of the whole site.
    SiteUserWriter = over_site(User);
    /// A user, of the site or of a project.
    UserWriter = at_least(User);
}

impl Writer {
    /// The command with who, when and under which key.
    pub(crate) fn request(&self, app: &App, body: &[u8], command: Command) -> Request {
        let at = app.brain().now();
        let key = self.idempotency_key(body, at);
        Request { actor: self.caller.actor.clone(), at, key, if_version: self.if_version, command }
    }

    /// The key of a write with this body, if the caller gave one.
    fn idempotency_key(&self, body: &[u8], at: Time) -> Option<IdempotencyKey> {
        let key = self.key.as_ref()?;
        let mut digest = Sha256::new();
        digest.update(self.target.as_bytes());
        digest.update(body);
        Some(IdempotencyKey {
            // By token, not by name: two tokens may bear one name in different projects.
            key: format!("{}/{key}", self.caller.token),
            fingerprint: token::hex(&digest.finalize()),
            keep_until: at + KEY_KEPT,
        })
    }

    /// Was this very write done already? It is then answered as it was, whatever has changed since:
    /// the write itself has moved the version that its caller saw.
    pub(crate) fn is_repeat(&self, app: &App, body: &[u8]) -> bool {
        let Some(key) = self.idempotency_key(body, app.brain().now()) else { return false };
        app.brain()
            .read(|s| s.keys.get(&key.key).is_some_and(|seen| seen.fingerprint == key.fingerprint))
    }

    /// The same when the body is a secret: its plain hash could be tried out by whoever reads the
    /// log, so the site's key goes into it.
    pub(crate) fn secret_request(&self, app: &App, body: &[u8], command: Command) -> Request {
        self.request(app, &app.sealer().keyed_hash(body), command)
    }

    /// Has the command carried out.
    pub(crate) async fn call(&self, app: &App, body: &[u8], command: Command) -> Reply<Committed> {
        let request = self.request(app, body, command);
        Ok(app.brain().call(request, Attach::default()).await?)
    }

    /// The same where the version that the caller saw is compared already.
    pub(crate) async fn put(&self, app: &App, body: &[u8], command: Command) -> Reply<Committed> {
        let mut request = self.request(app, body, command);
        request.if_version = None;
        Ok(app.brain().call(request, Attach::default()).await?)
    }
}
