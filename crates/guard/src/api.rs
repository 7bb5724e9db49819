//! Submissions through HTTP to their commit, in a whole server. Its threads take turns as they
//! come, so only what is written is the same every time; `site::submit` counts the work.

use crate::WriteCounts;
use axum::body::Body;
use axum::http::{Request, StatusCode};
use muster_http::{App, HttpConfig, router};
use muster_link::pki::Authority;
use muster_link::token::{self, ApiToken};
use muster_model::command::Command;
use muster_model::names::{NodeName, ProjectName};
use muster_model::tenant::{Role, TokenUse};
use muster_model::units::{Span, Time};
use muster_server::agents::{self, AgentsConfig};
use muster_server::brain::{Brain, BrainConfig};
use muster_server::logs::{LogConfig, LogKeeper};
use muster_simnode::{SimConfig, SimNode};
use muster_store::StoreUrl;
use std::path::Path;
use std::sync::Arc;
use tower::ServiceExt as _;

const SUBMISSIONS: usize = 20;

pub(crate) fn submit() -> WriteCounts {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let written = runtime.block_on(Box::pin(submissions(dir.path())));
    runtime.shutdown_background();
    written
}

async fn submissions(dir: &Path) -> WriteCounts {
    let brain = lead(dir).await;
    let project: ProjectName = "alpha".parse().expect("a good name");
    let authority = Arc::new(Authority::create_or_load(&dir.join("pki")).expect("an authority"));
    let logs = LogKeeper::open(&dir.join("logs"), LogConfig::default(), Arc::new(|_| true))
        .expect("a place for output");
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a free port");
    let config = AgentsConfig {
        names: vec!["127.0.0.1".into()],
        lost_after: Span::hours(24),
        ..AgentsConfig::default()
    };
    let agents = agents::serve(listener, brain.clone(), authority, logs.clone(), config)
        .expect("agents can be served");
    let token = found(&brain, &project).await;
    let router = router(App::new(brain.clone(), agents.clone(), logs, HttpConfig::default()));

    let before = brain.durable();
    for _ in 0..SUBMISSIONS {
        // Held: when it would be placed depends on the server's rounds.
        let body = r#"{"name": "train", "gang": {"gpus": 1}, "time_limit": "4h", "hold": true,
            "run": {"command": ["python", "train.py", "--config", "a.yaml"]}}"#;
        let request = Request::post("/v1/jobs")
            .header("authorization", format!("Bearer {token}"))
            .header("content-type", "application/json")
            .body(Body::from(body))
            .expect("a good request");
        let response = router.clone().oneshot(request).await.expect("it cannot fail");
        assert_eq!(response.status(), StatusCode::CREATED, "a submission was refused");
    }
    let records = brain.records(before, 100 * SUBMISSIONS).await.expect("they are in memory");
    let mut written = WriteCounts::default();
    for record in records.iter().filter(|r| r.project.as_ref() == Some(&project)) {
        written.records += 1;
        written.bytes += record.to_json().expect("it was written before").len() as u64;
    }
    agents.stop();
    brain.stop();
    written
}

async fn lead(dir: &Path) -> Brain {
    let config = BrainConfig {
        store: StoreUrl::Sqlite(dir.join("muster.db")),
        holder: "guard".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(60),
        snapshot_every: 10_000,
        retain: 10_000,
    };
    let lead = tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {}));
    lead.await.expect("it does not panic").expect("nobody else leads")
}

/// A project, a node to run its jobs, and a user's token.
async fn found(brain: &Brain, project: &ProjectName) -> String {
    let user = ApiToken::generate().expect("random numbers");
    let node = SimNode::new(1, SimConfig::default(), "n1", Time(1_767_225_600_000));
    let join = TokenUse::Join { uses_left: None };
    let api = TokenUse::Api { role: Role::User, project: Some(project.clone()) };
    let name: NodeName = "n1".parse().expect("a good name");
    let machine = "m1".to_owned();
    for (command, needed) in [
        // What the server has made by itself is refused.
        (Command::CreateSite { site: "guard".into() }, false),
        (Command::CreateProject { name: project.clone(), description: String::new() }, true),
        (
            Command::CreateToken {
                id: "t".into(),
                name: "join".parse().expect("a good name"),
                hash: String::new(),
                usage: join,
                ttl: None,
            },
            true,
        ),
        (
            Command::CreateToken {
                id: user.id.clone(),
                name: "ann".parse().expect("a good name"),
                hash: token::hash(&user.secret),
                usage: api,
                ttl: None,
            },
            true,
        ),
        (
            Command::Enroll {
                node: name.clone(),
                machine: machine.clone(),
                token: "t".into(),
                key: None,
            },
            true,
        ),
        (
            Command::NodeConnected {
                node: name,
                machine,
                boot: "b1".into(),
                address: "127.0.0.1".into(),
                host: "h1".into(),
                inventory: Box::new(node.inventory()),
                observed: Vec::new(),
                ended_ago: Vec::new(),
                place: String::new(),
                ahead: false,
                silent_for: None,
            },
            true,
        ),
    ] {
        let done = Box::pin(brain.system(command)).await;
        assert!(done.is_ok() || !needed, "a site cannot be made: {:?}", done.err());
    }
    user.to_string()
}
