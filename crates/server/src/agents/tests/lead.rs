//! What agents get from a server that cannot be certain that it leads.

use super::support::{Agent, Line, hello, node};
use crate::agents::{AgentsConfig, serve};
use crate::brain::{Brain, BrainConfig};
use crate::logs::{LogConfig, LogKeeper};
use muster_link::messages::{FromAgent, FromServer};
use muster_link::pki::{Authority, Identity, new_request};
use muster_link::tls::{Trust, client_config};
use muster_model::command::Command;
use muster_model::ids::SiteId;
use muster_model::tenant::TokenUse;
use muster_model::units::Span;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(60);

/// A server whose lead lasts for 5 s after it last reached its store, and an agent of its.
async fn site(dir: &Path) -> (Brain, crate::agents::Agents, Agent) {
    let config = BrainConfig {
        store: muster_store::StoreUrl::in_data_dir(dir),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(5),
        snapshot_every: 10_000,
        retain: 10_000,
    };
    let lead = move || Brain::lead(&config, |_| {});
    let brain = tokio::task::spawn_blocking(lead).await.unwrap().unwrap();
    let (machine, token) = ("machine-n1".to_owned(), "t".to_owned());
    for command in [
        Command::CreateSite { site: "site-1".into() },
        Command::CreateToken {
            id: token.clone(),
            name: "agents".parse().unwrap(),
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: None,
        },
        Command::Enroll { node: node("n1"), machine, token, key: None },
    ] {
        brain.system(command).await.unwrap();
    }
    let authority = Arc::new(Authority::create_or_load(&dir.join("pki")).unwrap());
    let (key_pem, csr) = new_request(&node("n1")).unwrap();
    let (site_id, now) = (SiteId("site-1".into()), brain.now());
    let cert_pem =
        authority.sign_node(&csr, &node("n1"), None, &site_id, Span::mins(5), now).unwrap();
    let identity = Identity { cert_pem, key_pem };
    let tls = client_config(Some(&identity), &Trust::Ca(authority.ca_pem().into())).unwrap();
    let keeper =
        LogKeeper::open(&dir.join("logs"), LogConfig::default(), Arc::new(|_| true)).unwrap();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    let agents_config = AgentsConfig { lost_after: Span::mins(60), ..AgentsConfig::default() };
    let agents = serve(listener, brain.clone(), authority, keeper, agents_config).unwrap();
    (brain, agents, Agent { hello: hello("n1"), config: tls, addr })
}

/// Connects until it is welcome.
async fn welcome(agent: &Agent) -> Line {
    let tries = async {
        loop {
            let (line, first) = agent.greet().await;
            if matches!(first, FromServer::Welcome { .. }) {
                return line;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, tries).await.expect("it is never welcome")
}

/// Sends heartbeats until they are answered so.
async fn beat_until(line: &mut Line, uncertain: bool) {
    let beats = async {
        loop {
            line.say(FromAgent::Heartbeat { at: crate::brain::clock() }).await;
            let answer = line.hear_of(|m| match m {
                FromServer::Ack { uncertain, .. } => Some(uncertain),
                _ => None,
            });
            if answer.await == uncertain {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, beats).await.expect("the answer never changed");
}

#[tokio::test(flavor = "multi_thread")]
async fn leases_are_renewed_only_while_it_is_certain_that_this_server_leads() {
    let dir = tempfile::tempdir().unwrap();
    let (brain, agents, agent) = site(dir.path()).await;
    let mut line = welcome(&agent).await;
    beat_until(&mut line, false).await;
    let since = || *agents.inner.since.lock().unwrap();
    let started = since();
    // The store is away: nobody can write to it.
    let lock = rusqlite::Connection::open(dir.path().join("muster.db")).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    beat_until(&mut line, true).await;
    assert!(brain.is_leading(), "it has not heard of another leader");
    match agent.greet().await.1 {
        FromServer::Refused { code, retry: true, .. } => assert_eq!(code, "stale_leader"),
        other => panic!("a welcome renews leases, too: {other:?}"),
    }
    // Nor does it count how long it does not hear nodes that it does not let in.
    let counts_anew = async {
        while since() == started {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, counts_anew).await.expect("silence is counted");
    drop(lock);
    let mut line = welcome(&agent).await;
    beat_until(&mut line, false).await;
    agents.stop();
    brain.stop();
}
