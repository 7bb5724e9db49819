//! The API against a real brain over a real store.

mod arrays;
mod bounds;
mod brand;
mod breakers;
mod console;
mod counts;
mod depends;
mod events;
mod fabric;
mod fleet;
mod gangs;
mod hardware;
mod health;
pub(crate) mod history;
mod matrix;
mod metrics_page;
mod output_search;
mod preflight;
mod pressure;
mod report;
mod rules;
mod runbooks;
mod scenarios;
mod scheduling;
mod search;
mod session;
mod sorting;
mod store_unavailable;
mod streams;
mod telemetry;
mod whatif;

use super::limits::HeavyWorkPermit;
use super::{App, HttpConfig, router};
use axum::Router;
use axum::body::Body;
use axum::http::{HeaderMap, Request, StatusCode};
use bytes::Bytes;
use futures::FutureExt as _;
use http_body_util::BodyExt as _;
use muster_link::pki::Authority;
use muster_link::token::{self, ApiToken};
use muster_model::command::Command;
use muster_model::node::{Gpu, Inventory};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Bytes as Memory, Span};
use muster_server::agents::{self, AgentsConfig};
use muster_server::brain::{Brain, BrainConfig};
use muster_server::history::HistoryConfig;
use muster_server::logs::{LogConfig, LogKeeper};
use muster_store::StoreUrl;
use serde_json::{Value, json};
use std::sync::Arc;
use std::time::Duration;
use tower::ServiceExt as _;

/// How long something may take that must come.
pub(super) const PATIENCE: Duration = Duration::from_secs(60);

/// Projects `alpha` and `beta`, node `n1`, and tokens of every kind.
pub(super) struct Site {
    pub(super) brain: Brain,
    pub(super) logs: LogKeeper,
    pub(super) app: App,
    pub(super) router: Router,
    pub(super) admin: String,
    pub(super) operator: String,
    pub(super) viewer: String,
    pub(super) user: String,
    pub(super) other: String,
    _dir: tempfile::TempDir,
}

impl Drop for Site {
    fn drop(&mut self) {
        self.brain.stop();
    }
}

pub(super) struct Got {
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) body: Bytes,
}

impl Got {
    pub(super) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_else(|e| panic!("{e}: {:?}", self.body))
    }
    pub(super) fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |v| v.to_str().unwrap())
    }
    /// The code of an error; also checks its shape.
    pub(super) fn error(&self) -> String {
        let body = self.json();
        let e = body["error"].as_object().unwrap_or_else(|| panic!("{body}"));
        assert!(["code", "message", "field", "hint"].iter().all(|k| e.contains_key(*k)), "{body}");
        e["code"].as_str().unwrap().to_owned()
    }
}

/// What the tests begin with: nobody gives up what must come, however slow this machine or its disk
/// is. A test of one of these limits sets that one.
pub(super) fn patient() -> HttpConfig {
    let never = Duration::from_secs(3600);
    HttpConfig {
        body_idle: never,
        request_timeout: never,
        simulation_limit: never,
        min_seq_wait: never,
        keep_alive: never,
        slow_reader: never,
        store_patience: never,
        ..HttpConfig::default()
    }
}

pub(super) async fn site() -> Site {
    site_with(patient()).await
}

pub(super) async fn site_with(config: HttpConfig) -> Site {
    site_on(config, None).await
}

/// On this store, or on a file of its own.
pub(super) async fn site_on(config: HttpConfig, store: Option<StoreUrl>) -> Site {
    // Long: a slow disk does not make it uncertain who leads.
    site_leased(config, store, Span::mins(1)).await
}

/// The same with a lease of this length.
pub(super) async fn site_leased(config: HttpConfig, store: Option<StoreUrl>, lease: Span) -> Site {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    let brain_config = BrainConfig {
        store: store.unwrap_or_else(|| StoreUrl::Sqlite(path("muster.db"))),
        holder: "test".into(),
        archive: path("archive"),
        seal_key: path("seal.key"),
        policy: muster_engine::Policy::default(),
        lease,
        snapshot_every: 10_000,
        retain: 10_000,
    };
    let brain = tokio::task::spawn_blocking(move || Brain::lead(&brain_config, |_| {}))
        .await
        .unwrap()
        .unwrap();
    let logs = LogKeeper::open(&path("logs"), LogConfig::default(), Arc::new(|_| true)).unwrap();
    let authority = Arc::new(Authority::create_or_load(&path("pki")).unwrap());
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let link = AgentsConfig {
        names: vec!["127.0.0.1".into()],
        lost_after: Span::mins(60),
        watch: Span(50),
        history: Some(HistoryConfig { dir: path("history"), bytes: Memory::gib(1) }),
        ..AgentsConfig::default()
    };
    let agents = agents::serve(listener, brain.clone(), authority, logs.clone(), link).unwrap();
    for command in [
        Command::CreateSite { site: "test-site".into() },
        Command::CreateProject { name: "default".parse().unwrap(), description: String::new() },
        Command::CreateProject { name: "alpha".parse().unwrap(), description: String::new() },
        Command::CreateProject { name: "beta".parse().unwrap(), description: String::new() },
        Command::CreateToken {
            id: "t".into(),
            name: "join".parse().unwrap(),
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: Some(Span::mins(60)),
        },
        Command::Enroll {
            node: "n1".parse().unwrap(),
            machine: "m1".into(),
            token: "t".into(),
            key: None,
        },
    ] {
        // What the brain has already made by itself is refused.
        let _ = brain.system(command).await;
    }
    brain.system(node("n1")).await.unwrap();
    let app = App::new(brain.clone(), agents, logs.clone(), config);
    let mut site = Site {
        router: router(app.clone()),
        app,
        logs,
        admin: String::new(),
        operator: String::new(),
        viewer: String::new(),
        user: String::new(),
        other: String::new(),
        brain,
        _dir: dir,
    };
    site.admin = site.token("root", Role::Admin, None, None).await;
    site.operator = site.token("ops", Role::Operator, None, None).await;
    site.viewer = site.token("eyes", Role::Viewer, Some("alpha"), None).await;
    site.user = site.token("ann", Role::User, Some("alpha"), None).await;
    site.other = site.token("bob", Role::User, Some("beta"), None).await;
    site
}

fn node(name: &str) -> Command {
    let gpu = |index| Gpu {
        index,
        sku: "h100-sxm".into(),
        uuid: format!("{name}-{index}"),
        memory: Memory::gib(80),
        ..Gpu::default()
    };
    Command::NodeConnected {
        node: name.parse().unwrap(),
        machine: "m1".into(),
        boot: "b1".into(),
        address: "127.0.0.1".into(),
        host: "h1".into(),
        inventory: Box::new(Inventory {
            cpus: 64,
            memory: Memory::gib(512),
            gpus: (0..8).map(gpu).collect(),
            simulated: true,
            ..Inventory::default()
        }),
        observed: Vec::new(),
        ended_ago: Vec::new(),
        place: String::new(),
        ahead: false,
        silent_for: None,
    }
}

impl Site {
    /// The same site behind an API that is configured in another way.
    pub(super) fn with_config(mut self, config: HttpConfig) -> Site {
        let (brain, agents) = (self.brain.clone(), self.app.agents().clone());
        self.app = App::new(brain, agents, self.logs.clone(), config);
        self.router = router(self.app.clone());
        self
    }

    pub(super) async fn token(
        &self,
        name: &str,
        role: Role,
        project: Option<&str>,
        ttl: Option<Span>,
    ) -> String {
        let t = ApiToken::generate().unwrap();
        let command = Command::CreateToken {
            id: t.id.clone(),
            name: name.parse().unwrap(),
            hash: token::hash(&t.secret),
            usage: TokenUse::Api { role, project: project.map(|p| p.parse().unwrap()) },
            ttl,
        };
        self.brain.system(command).await.unwrap();
        t.to_string()
    }

    pub(super) async fn send(&self, request: Request<Body>) -> Got {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let body =
            tokio::time::timeout(PATIENCE, body.collect()).await.expect("an answer that ends");
        Got { status: parts.status, headers: parts.headers, body: body.unwrap().to_bytes() }
    }

    /// A call; a body that is null is not sent.
    pub(super) async fn call(
        &self,
        token: &str,
        method: &str,
        path: &str,
        body: &Value,
        headers: &[(&str, &str)],
    ) -> Got {
        self.send(request(token, method, path, body, headers)).await
    }

    pub(super) async fn get(&self, token: &str, path: &str) -> Got {
        self.call(token, "GET", path, &Value::Null, &[]).await
    }

    pub(super) async fn post(&self, token: &str, path: &str, body: &Value) -> Got {
        self.call(token, "POST", path, body, &[]).await
    }

    /// A job that waits because it is held.
    pub(super) async fn held_job(&self, token: &str) -> Value {
        let got = self.post(token, "/v1/jobs", &held("a")).await;
        assert_eq!(got.status, 201, "{:?}", got.body);
        got.json()
    }
}

/// The public part of a token.
pub(super) fn id_of(token: &str) -> String {
    token.parse::<ApiToken>().unwrap().id
}

/// All turns at heavy work that a token has: its next such work waits until they are dropped.
pub(super) fn all_turns(s: &Site, token: &str) -> Vec<HeavyWorkPermit> {
    let turn = || s.app.0.heavy.turn(&id_of(token)).now_or_never().flatten();
    std::iter::from_fn(turn).collect()
}

pub(super) fn held(name: &str) -> Value {
    json!({"name": name, "gang": {"gpus": 1}, "run": {"command": ["true"]}, "hold": true})
}

pub(super) fn request(
    token: &str,
    method: &str,
    path: &str,
    body: &Value,
    headers: &[(&str, &str)],
) -> Request<Body> {
    let mut r = Request::builder().method(method).uri(path);
    if !token.is_empty() {
        r = r.header("authorization", format!("Bearer {token}"));
    }
    for (k, v) in headers {
        r = r.header(*k, *v);
    }
    if body.is_null() {
        return r.body(Body::empty()).unwrap();
    }
    r.header("content-type", "application/json").body(Body::from(body.to_string())).unwrap()
}
