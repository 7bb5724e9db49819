//! What callers are answered while the log cannot be written, and that they are answered at once.

use super::{PATIENCE, Site, held, patient, site, site_leased, site_on, site_with};
use crate::health::incidents::changes;
use crate::{App, HttpConfig, router};
use muster_model::entity::Entity;
use muster_model::finding::{Incident, Severity};
use muster_model::units::Span;
use muster_store::StoreUrl;
use serde_json::json;
use std::collections::BTreeSet;
use std::path::Path;

#[path = "../../../store/tests/common/mod.rs"]
mod stores;

/// Asks until `/readyz` answers so.
async fn ready(s: &Site, status: u16) -> super::Got {
    let asks = async {
        loop {
            let got = s.get("", "/readyz").await;
            if got.status == status {
                return got;
            }
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, asks)
        .await
        .unwrap_or_else(|_| panic!("/readyz never answered {status}"))
}

/// A submit is refused before it reaches the engine.
async fn refused_at_once(s: &Site, why: &str) {
    let decided = s.brain.stats().requests;
    let got = s.post(&s.user, "/v1/jobs", &held("b")).await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (503, "unavailable"));
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(why), "{message}");
    assert!(!got.header("retry-after").is_empty());
    assert_eq!(s.brain.stats().requests, decided, "it was not handed on");
    assert_eq!(s.get(&s.user, "/v1/jobs").await.status, 200, "reading goes on");
    assert_eq!(s.get("", "/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_store_that_does_not_answer_is_reported_and_submits_do_not_wait_for_it() {
    let store_patience = std::time::Duration::from_secs(1);
    let mut s = site_with(HttpConfig { store_patience, ..patient() }).await;
    ready(&s, 200).await;
    let lock = rusqlite::Connection::open(s._dir.path().join("muster.db")).unwrap();
    lock.busy_timeout(PATIENCE).unwrap();
    lock.execute_batch("BEGIN EXCLUSIVE").unwrap();
    let first = tokio::spawn({
        let (router, spec) = (s.router.clone(), held("a"));
        let request = super::request(&s.user, "POST", "/v1/jobs", &spec, &[]);
        async move { tower::ServiceExt::oneshot(router, request).await.unwrap().status() }
    });
    let got = ready(&s, 503).await;
    assert_eq!(got.error(), "unavailable");
    assert_eq!(first.await.unwrap(), 503, "who came before is informed, too");
    refused_at_once(&s, "the store").await;
    lock.execute_batch("ROLLBACK").unwrap();
    ready(&s, 200).await;
    // With the usual patience of a test: a disk that is slow for a second is not away.
    let (brain, agents, logs) = (s.brain.clone(), s.app.agents().clone(), s.logs.clone());
    s.router = router(App::new(brain, agents, logs, patient()));
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("c")).await.status, 201);
}

/// Where the server looks whether there is free space, made to be a disk without any.
fn fill(dir: &Path) -> std::path::PathBuf {
    let probe = dir.join("muster.db.space");
    let _ = std::fs::remove_file(&probe);
    std::os::unix::fs::symlink("/dev/full", &probe).unwrap();
    probe
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_disk_is_reported_before_anybody_writes() {
    let s = site().await;
    assert_eq!(s.get("", "/readyz").await.status, 200);
    let probe = fill(s._dir.path());
    let got = ready(&s, 503).await;
    assert!(got.json()["error"]["message"].as_str().unwrap().contains("full"), "{:?}", got.body);
    refused_at_once(&s, "full").await;
    // Nobody is notified that all is well meanwhile.
    for token in [&s.user, &s.operator] {
        let health = s.get(token, "/v1/health").await.json();
        assert_eq!((&health["state"], &health["service_affected"]), (&json!("bad"), &json!(true)));
        assert_eq!(health["reasons"][0], "changes are refused: the store's disk is full");
    }
    let refused = s.post(&s.admin, "/v1/projects", &json!({"name": "gamma"})).await;
    assert_eq!(refused.status, 503, "every write is refused");
    // What only asks is answered, as reads are.
    let what_if = json!({"changes": ["nodes=+1"], "seeds": 1, "budget": "1s"});
    for (token, path, body) in [
        (&s.user, "/v1/jobs?dry_run=true", held("b")),
        (&s.operator, "/v1/remediations/dry-run", json!({"days": 1})),
        (&s.operator, "/v1/whatif", what_if),
    ] {
        let got = s.post(token, path, &body).await;
        assert_eq!(got.status, 200, "{path}: {:?}", got.body);
    }
    std::fs::remove_file(probe).unwrap();
    ready(&s, 200).await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("c")).await.status, 201);
    assert_eq!(s.get(&s.user, "/v1/health").await.json()["service_affected"], false);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_file_that_is_deleted_under_the_server_is_reported_and_nothing_is_acknowledged() {
    let s = site().await;
    ready(&s, 200).await;
    let (wal, aside) = (s._dir.path().join("muster.db-wal"), s._dir.path().join("aside"));
    std::fs::rename(&wal, &aside).unwrap();
    let got = ready(&s, 503).await;
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains("was deleted or replaced"), "{message}");
    refused_at_once(&s, "was deleted or replaced").await;
    std::fs::rename(&aside, &wal).unwrap();
    ready(&s, 200).await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("c")).await.status, 201);
}

/// `/readyz` refuses with these words.
async fn not_ready(s: &Site, why: &str) {
    let got = s.get("", "/readyz").await;
    assert_eq!((got.status.as_u16(), got.error().as_str()), (503, "unavailable"));
    let message = got.json()["error"]["message"].as_str().unwrap().to_owned();
    assert!(message.contains(why), "{message}");
    assert_eq!(s.get("", "/healthz").await.status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_whose_lease_may_have_ended_is_not_ready() {
    // A lease of no length has always ended, although the store takes each renewal.
    let s = site_leased(patient(), None, Span(0)).await;
    assert!(s.brain.is_leading(), "it has not heard of another leader");
    not_ready(&s, "another server may lead").await;
    let server = s.get(&s.admin, "/v1/server").await.json();
    assert_eq!(server["leader"], false, "{server}");
    let metrics = s.get(&s.admin, "/metrics").await;
    let page = String::from_utf8_lossy(&metrics.body).into_owned();
    assert!(page.lines().any(|l| l == "muster_leader 0"), "{page}");
    // The store itself refuses what is written under another's lease, so writes are not stopped here.
    s.held_job(&s.user).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_stops_is_not_ready_and_stays_so_without_its_lease() {
    let s = site().await;
    assert_eq!(s.get("", "/readyz").await.status, 200);
    s.brain.stop();
    not_ready(&s, "stopping").await;
    tokio::time::timeout(PATIENCE, s.brain.closed()).await.expect("it stops");
    not_ready(&s, "stopping").await;
}

/// A server that writes snapshots often, so that there is one; it has stopped.
async fn with_a_snapshot(dir: &Path) -> StoreUrl {
    let store = StoreUrl::Sqlite(dir.join("muster.db"));
    let config = muster_server::brain::BrainConfig {
        store: store.clone(),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(10),
        snapshot_every: 1,
        retain: 10_000,
    };
    let lead = move || muster_server::brain::Brain::lead(&config, |_| {});
    let brain = tokio::task::spawn_blocking(lead).await.unwrap().unwrap();
    let written = async {
        while brain.stats().snapshots == 0 {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, written).await.expect("a snapshot");
    brain.stop();
    brain.closed().await;
    store
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_snapshot_is_named_to_those_who_see_the_whole_site() {
    let s = site().await;
    let none = s.get(&s.admin, "/v1/server").await.json();
    assert_eq!(none["store"]["snapshot_seq"], json!(null), "{none:#}");
    let dir = tempfile::tempdir().unwrap();
    let store = with_a_snapshot(dir.path()).await;
    let s = site_on(patient(), Some(store)).await;
    let said = s.get(&s.admin, "/v1/server").await.json();
    assert!(said["store"]["snapshot_seq"].as_u64() > Some(0), "{said:#}");
    let tenant = s.get(&s.user, "/v1/server").await.json();
    assert_eq!(tenant["store"]["snapshot_seq"], json!(null), "{tenant:#}");
    // Nor is the size of the site a tenant's affair.
    for part in ["nodes", "nodes_lost", "nodes_protected"] {
        assert!(said[part].is_u64() && tenant.get(part).is_none(), "{part}: {tenant:#}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_log_that_cannot_be_read_is_not_reported_as_one_without_changes() {
    let dir = tempfile::tempdir().unwrap();
    let store = with_a_snapshot(dir.path()).await;
    let s = site_on(patient(), Some(store)).await;
    let incident = Incident {
        id: s.brain.durable().0,
        cause: Entity::Site,
        kind: "leaf-loss".into(),
        severity: Severity::Critical,
        summary: "leaf l1 is lost".into(),
        began_at: s.brain.now(),
        opened_at: s.brain.now(),
        findings: Vec::new(),
        count: 1,
        owner: None,
        notes: Vec::new(),
        closed: None,
        part_of: None,
    };
    let none = BTreeSet::new();
    let found = changes(&s.app, &incident, &none).await.unwrap_or_else(|_| panic!("it is read"));
    assert!(found.iter().any(|c| c.event == "leader_changed"), "{found:?}");
    // The first records are not in the memory of a server that came later.
    let file = rusqlite::Connection::open(dir.path().join("muster.db")).unwrap();
    file.busy_timeout(PATIENCE).unwrap();
    file.execute_batch("UPDATE log SET body = x'00' WHERE seq = 1").unwrap();
    assert!(changes(&s.app, &incident, &none).await.is_err(), "an error is no empty list");
}

/// Lets nobody into a database, or everybody again.
fn let_in(server: &str, database: &str, who: bool) {
    let mut admin = postgres::Client::connect(server, postgres::NoTls).unwrap();
    admin.batch_execute(&format!("ALTER DATABASE {database} ALLOW_CONNECTIONS {who}")).unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ";
    if !who {
        admin.batch_execute(&format!("{end}'{database}'")).unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_reported_before_anybody_writes() {
    let started = tokio::task::spawn_blocking(stores::Site::postgres).await.unwrap();
    let Some(database) = started else { return };
    let StoreUrl::Postgres(url) = &database.url else { unreachable!() };
    let name = url.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned();
    let server = stores::Server::get().unwrap().address("postgres");
    let s = site_on(patient(), Some(database.url.clone())).await;
    assert_eq!(s.get("", "/readyz").await.status, 200);
    let turn = async |who: bool| {
        let (server, name) = (server.clone(), name.clone());
        tokio::task::spawn_blocking(move || let_in(&server, &name, who)).await.unwrap();
    };
    turn(false).await;
    let got = ready(&s, 503).await;
    assert!(!String::from_utf8_lossy(&got.body).contains(&name), "strangers get no names");
    refused_at_once(&s, "store").await;
    // Whoever is called when nothing can be written is called now, too.
    let stuck = async {
        while s.brain.stuck().is_none() {
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::time::timeout(PATIENCE, stuck).await.expect("the server knows that it cannot write");
    turn(true).await;
    ready(&s, 200).await;
    assert_eq!(s.post(&s.user, "/v1/jobs", &held("c")).await.status, 201);
}
