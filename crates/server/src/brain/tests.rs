//! What a start refuses, what a stop leaves, and what a restore changes.

use super::lead::{StartError, still_standby};
use super::{Brain, BrainConfig};
use muster_model::command::{Answer, Command};
use muster_model::event::Event;
use muster_model::ids::{JobId, Seq};
use muster_model::spec::JobSpec;
use muster_model::units::Span;
use muster_store::{StoreError, StoreUrl};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

fn config(dir: &Path) -> BrainConfig {
    BrainConfig {
        store: StoreUrl::in_data_dir(dir),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(10),
        snapshot_every: 10,
        retain: 1_000,
    }
}

async fn try_lead(dir: &Path) -> Result<Brain, StartError> {
    let config = config(dir);
    tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {})).await.unwrap()
}

async fn lead(dir: &Path) -> Brain {
    try_lead(dir).await.unwrap()
}

/// A site with so many projects.
async fn site(dir: &Path, projects: u32) -> Brain {
    let brain = lead(dir).await;
    brain.system(Command::CreateSite { site: "site-1".into() }).await.unwrap();
    for n in 0..projects {
        let name = if n == 0 { "default".to_owned() } else { format!("p{n}") };
        let (name, description) = (name.parse().unwrap(), String::new());
        brain.system(Command::CreateProject { name, description }).await.unwrap();
    }
    brain
}

async fn submit(brain: &Brain) -> JobId {
    let mut spec = JobSpec::default();
    spec.gang.nodes = Some(1);
    spec.gang.gpus_per_node = Some(0);
    match brain.system(Command::Submit { spec: Arc::new(spec) }).await.unwrap().answer {
        Answer::Submitted { first, .. } => first,
        other => panic!("{other:?}"),
    }
}

async fn stop(brain: &Brain) {
    brain.stop();
    brain.closed().await;
}

async fn until(what: &str, so: impl Fn() -> bool) {
    for _ in 0..6_000 {
        if so() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("never happened: {what}");
}

fn file(dir: &Path, ending: &str) -> PathBuf {
    dir.join(format!("muster.db{ending}"))
}

fn refused(result: Result<Brain, StartError>) -> StoreError {
    match result {
        Err(StartError::Store(e)) => e,
        other => panic!("it was not refused: {other:?}"),
    }
}

#[tokio::test]
async fn a_log_that_lost_its_end_is_not_led() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let brain = site(dir.path(), 3).await;
    // What a kill leaves, but for the `-wal` file, in which all of it still is.
    for ending in ["", ".head"] {
        std::fs::copy(file(dir.path(), ending), file(copy.path(), ending)).unwrap();
    }
    let last = brain.durable();
    let e = refused(try_lead(copy.path()).await);
    assert!(matches!(&e, StoreError::Lost { detail } if detail.contains(&last.to_string())), "{e}");
    let mut store = muster_store::open(&StoreUrl::in_data_dir(copy.path())).unwrap();
    assert_eq!(store.head().unwrap().epoch.0, 0, "nothing was written to it");
    drop(store);
    // Nothing was written to it, so the file that was missing still fits.
    let wal = file(copy.path(), "-wal");
    std::fs::copy(file(dir.path(), "-wal"), &wal).unwrap();
    let whole = lead(copy.path()).await;
    assert!(whole.durable() >= last);
    stop(&whole).await;
    stop(&brain).await;
}

#[tokio::test]
async fn a_loss_that_is_accepted_is_led_like_a_restored_log() {
    let (dir, copy) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let brain = site(dir.path(), 3).await;
    for ending in ["", ".head"] {
        std::fs::copy(file(dir.path(), ending), file(copy.path(), ending)).unwrap();
    }
    stop(&brain).await;
    refused(try_lead(copy.path()).await);
    let mut store = muster_store::open(&StoreUrl::in_data_dir(copy.path())).unwrap();
    store.accept_loss().unwrap().expect("something is lost");
    drop(store);
    let brain = site(copy.path(), 1).await;
    assert!(submit(&brain).await.0 > 1_000_000);
    brain.read(|s| assert_eq!(s.lives.len(), 1));
    stop(&brain).await;
}

#[tokio::test]
async fn damage_before_the_newest_snapshot_stops_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 30).await;
    until("a snapshot is written", || brain.stats().snapshots > 0).await;
    stop(&brain).await;
    let db = rusqlite::Connection::open(file(dir.path(), "")).unwrap();
    let covered: i64 = db.query_row("SELECT min(seq) FROM snapshots", [], |r| r.get(0)).unwrap();
    assert!(covered > 5, "the snapshot stands for the fifth record too");
    db.execute("UPDATE log SET at = at + 1 WHERE seq = 5", []).unwrap();
    let e = refused(try_lead(dir.path()).await);
    assert!(matches!(&e, StoreError::Corrupt { place, .. } if place == "entry 5"), "{e}");
    db.execute("UPDATE log SET at = at - 1 WHERE seq = 5", []).unwrap();
    stop(&lead(dir.path()).await).await;
}

#[tokio::test]
async fn a_clean_stop_puts_everything_into_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 3).await;
    let last = brain.durable();
    stop(&brain).await;
    let left = std::fs::metadata(file(dir.path(), "-wal")).map_or(0, |m| m.len());
    assert_eq!(left, 0, "bytes that are only in the `-wal` file");
    let copy = tempfile::tempdir().unwrap();
    std::fs::copy(file(dir.path(), ""), file(copy.path(), "")).unwrap();
    let mut store = muster_store::open(&StoreUrl::in_data_dir(copy.path())).unwrap();
    assert_eq!(store.head().unwrap().last_seq, last);
}

#[tokio::test]
async fn no_id_of_a_job_returns_after_a_restore() {
    let (dir, other) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let brain = site(dir.path(), 1).await;
    let kept = submit(&brain).await;
    let backup = dir.path().join("backup");
    muster_store::backup(&StoreUrl::in_data_dir(dir.path()), &backup).unwrap();
    let lost = submit(&brain).await;
    assert_eq!(lost.0, kept.0 + 1);
    stop(&brain).await;

    let store = StoreUrl::in_data_dir(other.path());
    muster_store::restore(&backup, &store).unwrap();
    let brain = lead(other.path()).await;
    let first = submit(&brain).await;
    assert!(first.0 > lost.0 + 1_000_000, "{first} may have been given out before");
    brain.read(|s| {
        assert_eq!(s.lives.len(), 1);
        assert_eq!(s.life_at(s.seq), s.epoch);
    });
    until("the mark of the restore is gone", || {
        muster_store::open(&store).unwrap().restored().unwrap().is_none()
    })
    .await;
    stop(&brain).await;
    // That was one restore, however often the server starts.
    let brain = lead(other.path()).await;
    assert_eq!(submit(&brain).await.0, first.0 + 1);
    brain.read(|s| assert_eq!(s.lives.len(), 1));
    stop(&brain).await;
}

#[test]
fn a_standby_outlasts_a_store_that_is_away_and_nothing_worse() {
    let detail = String::from("the database restarts");
    let away = StoreError::Unavailable { detail: detail.clone(), outcome_unknown: true };
    assert!(still_standby(away).is_ok());
    assert!(still_standby(StoreError::Lost { detail }).is_err());
}

#[tokio::test]
async fn a_step_of_the_machines_clock_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    let _alone = super::clock::WALL.lock().await;
    let (mut hours, mut found) = (0, None);
    while found.is_none() {
        assert!(hours < 40, "no step is found");
        // Set again until the first look at it is over.
        hours += 1;
        super::clock::set_wall(hours * 3_600_000);
        tokio::time::sleep(Duration::from_millis(500)).await;
        let records = brain.records(Seq(0), 10_000).await.unwrap();
        found = records.iter().find_map(|r| match &r.event {
            Event::ClockStepped(step) => Some(step.clone()),
            _ => None,
        });
    }
    super::clock::set_wall(0);
    let step = found.unwrap();
    assert_eq!(step.node, None);
    assert!(step.by_ms > 3_500_000 && step.since_boot > Span(0), "{step:?}");
    assert_eq!(step.after.0 - step.before.0, step.by_ms);
    stop(&brain).await;
}
