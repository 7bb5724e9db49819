//! What a start refuses, what a stop leaves, what a restore changes, and who waits for whom.

use super::lead::{StartError, acquire_lead, outlast_full_disk, still_standby};
use super::{Brain, BrainConfig, LoadError};
use muster_model::command::{Answer, Command};
use muster_model::event::Event;
use muster_model::ids::{Epoch, JobId, Seq};
use muster_model::spec::JobSpec;
use muster_model::units::Span;
use muster_store::{LeaseAnswer, StoreError, StoreUrl};
use std::collections::BTreeSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::{Arc, TryLockError};
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
    lead_with(config(dir)).await
}

async fn lead_with(config: BrainConfig) -> Result<Brain, StartError> {
    tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {})).await.unwrap()
}

async fn lead(dir: &Path) -> Brain {
    try_lead(dir).await.unwrap()
}

/// A site with so many projects.
async fn site(dir: &Path, projects: u32) -> Brain {
    let brain = lead(dir).await;
    found(&brain, projects).await;
    brain
}

async fn found(brain: &Brain, projects: u32) {
    brain.system(Command::CreateSite { site: "site-1".into() }).await.unwrap();
    create_projects(brain, 0..projects).await;
}

async fn create_projects(brain: &Brain, numbers: Range<u32>) {
    for n in numbers {
        let name = if n == 0 { "default".to_owned() } else { format!("p{n}") };
        let (name, description) = (name.parse().unwrap(), String::new());
        brain.system(Command::CreateProject { name, description }).await.unwrap();
    }
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

/// A process may lead, stop and lead again: nothing of an earlier lead stays in its memory.
#[tokio::test]
async fn a_stopped_server_is_freed_with_its_last_handle() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 1).await;
    let job = submit(&brain).await;
    let (state, mut log) = (Arc::downgrade(&brain.shared), brain.watch());
    stop(&brain).await;
    assert!(brain.payload(job).await.unwrap().is_none(), "the store is read until then");
    drop(brain);
    // The other end of it is a part of what is to be freed.
    let freed = async { while log.changed().await.is_ok() {} };
    let in_time = tokio::time::timeout(Duration::from_secs(60), freed).await;
    assert!(in_time.is_ok(), "a thread still holds {} handles", state.strong_count());
    assert!(state.upgrade().is_none());
}

/// An empty database beside the `-wal` file in use would make SQLite delete that file, and with it
/// whatever was committed since the last checkpoint.
#[tokio::test]
async fn a_database_that_is_moved_away_and_back_loses_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 3).await;
    let job = submit(&brain).await;
    let committed = brain.durable();
    let (db, aside) = (file(dir.path(), ""), dir.path().join("aside.db"));
    std::fs::rename(&db, &aside).unwrap();
    let (name, description) = ("late".parse().unwrap(), String::new());
    brain.system(Command::CreateProject { name, description }).await.unwrap_err();
    until("a reload that failed", || brain.stats().reloads > 0 && brain.down().is_some()).await;
    assert!(!db.exists(), "an empty database was made");
    std::fs::rename(&aside, &db).unwrap();
    until("the log was read again", || brain.down().is_none()).await;
    create_projects(&brain, 3..4).await;
    let last = brain.durable();
    assert!(last > committed);
    stop(&brain).await;
    drop(brain);
    let again = lead(dir.path()).await;
    assert!(again.durable() >= last);
    again.read(|s| {
        let names: Vec<String> = s.projects.keys().map(ToString::to_string).collect();
        assert_eq!(names, ["default", "p1", "p2", "p3"]);
        assert!(s.jobs.contains_key(&job));
    });
    stop(&again).await;
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
        assert_eq!(s.generation_at(s.seq), s.epoch);
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
    assert!(still_standby(away()).is_ok());
    assert!(still_standby(StoreError::Lost { detail: "the end".into() }).is_err());
}

fn away() -> StoreError {
    StoreError::Unavailable { detail: "the database restarts".into(), outcome_unknown: true }
}

#[test]
fn a_start_waits_for_a_full_disk_and_for_nothing_else() {
    let full = || StoreError::Full { detail: "no space left on device".into() };
    let (mut tries, mut waited) = (0, Vec::new());
    let led = outlast_full_disk(
        || {
            tries += 1;
            match tries {
                6 => Ok("led"),
                n if n % 2 == 0 => Err(StartError::Load(LoadError::Store(full()))),
                _ => Err(StartError::Store(full())),
            }
        },
        |wait| waited.push(wait.as_secs()),
    );
    assert_eq!(led.unwrap(), "led");
    assert_eq!(waited, [1, 2, 4, 8, 8]);
    let ended = outlast_full_disk::<()>(
        || Err(StartError::Store(away())),
        |_| panic!("nobody frees space for this"),
    );
    assert!(ended.is_err());
}

#[test]
fn a_standby_that_has_the_lease_outlasts_a_store_that_is_away() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let (mut other, mut mine) = (config.open().unwrap(), config.open().unwrap());
    let taken = other.acquire_lease("other", Span::hours(1)).unwrap();
    let LeaseAnswer::Granted(first) = taken else { panic!("{taken:?}") };
    let mut tries = 0;
    let (epoch, _, ()) = acquire_lead(
        &config,
        &mut *mine,
        |_| other.release_lease(first).unwrap(),
        |_, _| {
            tries += 1;
            match tries {
                1 => Err(StartError::Store(away())),
                2 => Err(StartError::Load(LoadError::Store(away()))),
                _ => Ok(()),
            }
        },
    )
    .unwrap();
    assert_eq!((tries, epoch), (3, Epoch(first.0 + 3)));
    mine.release_lease(epoch).unwrap();
    // A server that never stood by says at once what is wrong, and leaves the lease to others.
    let failed =
        acquire_lead(&config, &mut *mine, |_| {}, |_, _| Err::<(), _>(StartError::Store(away())));
    assert!(failed.is_err());
    let taken = other.acquire_lease("other", Span::hours(1)).unwrap();
    assert!(matches!(taken, LeaseAnswer::Granted(_)), "{taken:?}");
}

#[test]
fn the_lease_is_renewed_while_the_log_is_loaded() {
    let dir = tempfile::tempdir().unwrap();
    let config = BrainConfig { lease: Span::secs(3), ..config(dir.path()) };
    let mut store = config.open().unwrap();
    let db = rusqlite::Connection::open(file(dir.path(), "")).unwrap();
    let expires = || db.query_row("SELECT expires FROM head", [], |r| r.get::<_, i64>(0)).unwrap();
    let nap = || std::thread::sleep(Duration::from_millis(10));
    let (epoch, asked_ms, (last, loaded_ms)) = acquire_lead(
        &config,
        &mut *store,
        |_| {},
        |_, _| {
            let granted = expires();
            for _ in 0..6_000 {
                if expires() > granted {
                    let renewed = (expires(), super::clock::boot_ms());
                    nap();
                    return Ok(renewed);
                }
                nap();
            }
            panic!("never renewed");
        },
    )
    .unwrap();
    assert!(expires() > last, "and once more before anybody is let in");
    assert!(asked_ms >= loaded_ms, "it counts from there");
    store.release_lease(epoch).unwrap();
}

#[test]
fn a_server_whose_lease_was_taken_while_it_loaded_stands_by() {
    let dir = tempfile::tempdir().unwrap();
    let config = config(dir.path());
    let (mut thief, mut mine) = (config.open().unwrap(), config.open().unwrap());
    let stolen = std::cell::Cell::new(None);
    let (mut tries, mut other) = (0, config.open().unwrap());
    let (epoch, _, ()) = acquire_lead(
        &config,
        &mut *mine,
        |_| other.release_lease(stolen.take().unwrap()).unwrap(),
        |_, _| {
            tries += 1;
            if tries == 1 {
                let mine = thief.head().unwrap().epoch;
                thief.release_lease(mine).unwrap();
                match thief.acquire_lease("other", Span::hours(1)).unwrap() {
                    LeaseAnswer::Granted(epoch) => stolen.set(Some(epoch)),
                    held => panic!("{held:?}"),
                }
            }
            Ok(())
        },
    )
    .unwrap();
    assert_eq!(tries, 2, "the first lead was another's before it began");
    assert_eq!(mine.head().unwrap().epoch, epoch);
}

#[tokio::test]
async fn the_newest_snapshot_is_known_also_after_a_start() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    assert_eq!(brain.snapshot_seq(), None);
    found(&brain, 30).await;
    until("a snapshot is written", || brain.stats().snapshots > 0).await;
    assert!(brain.snapshot_seq().is_some_and(|seq| seq <= brain.durable()));
    stop(&brain).await;
    let db = rusqlite::Connection::open(file(dir.path(), "")).unwrap();
    let newest: i64 = db.query_row("SELECT max(seq) FROM snapshots", [], |r| r.get(0)).unwrap();
    let config = BrainConfig { snapshot_every: 10_000, ..config(dir.path()) };
    let brain = lead_with(config).await.unwrap();
    assert_eq!(brain.snapshot_seq(), Some(Seq(u64::try_from(newest).unwrap())));
    stop(&brain).await;
}

/// Who asks alone is answered by another thread than many who ask at once.
#[tokio::test(flavor = "multi_thread")]
async fn one_caller_and_many_write_into_one_log() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 1).await;
    let mut jobs = BTreeSet::new();
    for _ in 0..3 {
        jobs.insert(submit(&brain).await);
        let ask = |_| {
            let brain = brain.clone();
            tokio::spawn(async move { submit(&brain).await })
        };
        let many: Vec<_> = (0..40).map(ask).collect();
        for job in many {
            jobs.insert(job.await.unwrap());
        }
        brain.read(|s| assert!(jobs.iter().all(|j| s.jobs.contains_key(j))));
    }
    assert_eq!(jobs.len(), 3 * 41);
    let log = brain.records(Seq(0), 10_000).await.unwrap();
    assert!(log.iter().zip(1..).all(|(r, n)| r.seq == Seq(n)), "each record once, in order");
    stop(&brain).await;
    drop(brain);
    let again = lead(dir.path()).await;
    again.read(|s| assert!(jobs.iter().all(|j| s.jobs.contains_key(j))));
    stop(&again).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_is_seen_before_the_log_is_said_to_have_it() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 1).await;
    let log = brain.watch();
    let job = loop {
        // As long as somebody looks at the end of the log, it stays where it is.
        let end = log.borrow();
        let b = brain.clone();
        let submitted = tokio::spawn(async move { submit(&b).await });
        let (mut shut, mut open) = (0, 0);
        while shut < 20 && open < 200 {
            match brain.shared.view.try_read() {
                Ok(view) => {
                    open += 1;
                    assert_eq!(view.seq, *end, "the log does not end there yet");
                }
                Err(TryLockError::WouldBlock) => shut += 1,
                Err(TryLockError::Poisoned(e)) => panic!("{e}"),
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        drop(end);
        let job = submitted.await.unwrap();
        if shut >= 20 {
            break job;
        }
        // The writer had not come so far: it was about to wake those who wait for what was written
        // before, which also needs the end of the log.
    };
    let seen = brain.read(|s| s.jobs.contains_key(&job).then_some(s.seq)).unwrap();
    let records = brain.records(Seq(seen.0 - 1), 1).await.unwrap();
    assert_eq!(records.first().map(|r| r.seq), Some(seen));
    stop(&brain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn whoever_looks_for_long_holds_up_neither_the_writer_nor_readers() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 1).await;
    let (begun, has_begun) = tokio::sync::oneshot::channel();
    let (go_on, goes_on) = std::sync::mpsc::channel::<()>();
    let b = brain.clone();
    let looking = tokio::task::spawn_blocking(move || {
        b.read_copy(|s| {
            begun.send(()).unwrap();
            goes_on.recv().unwrap();
            s.seq
        })
    });
    has_begun.await.unwrap();
    let patience = Duration::from_secs(60);
    let job = tokio::time::timeout(patience, submit(&brain)).await.expect("it is written");
    brain.read(|s| assert!(s.jobs.contains_key(&job)));
    go_on.send(()).unwrap();
    assert!(looking.await.unwrap() < brain.durable(), "it saw what was there when it began");
    // The next look sees what came since, from memory or, where that does not reach back, anew.
    brain.read_copy(|s| assert!(s.jobs.contains_key(&job)));
    let same = || {
        let copy = brain.read_copy(|s| (s.seq, s.digest()));
        copy == brain.read(|s| (s.seq, s.digest()))
    };
    until("the copy is as the first", same).await;
    let job = submit(&brain).await;
    brain.shared.ring.write().unwrap().clear();
    brain.read_copy(|s| assert!(s.jobs.contains_key(&job)));
    until("the new copy is as the first", same).await;
    stop(&brain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn who_polls_now_and_then_makes_no_copy_of_the_state() {
    let dir = tempfile::tempdir().unwrap();
    let brain = site(dir.path(), 1).await;
    assert_eq!(brain.read_polled(|s| s.jobs.len()), 0);
    assert!(!brain.shared.copy.is_there(), "a copy for one visit");
    // One that is there is looked at.
    brain.read_copy(|_| ());
    assert!(brain.shared.copy.is_there());
    let job = submit(&brain).await;
    assert!(brain.read_polled(|s| s.jobs.contains_key(&job)), "the copy follows the log");
    stop(&brain).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_lease_is_renewed_while_the_disk_of_the_archive_hangs() {
    use rustix::fs::{CWD, Mode, OFlags};
    let dir = tempfile::tempdir().unwrap();
    let config = BrainConfig { lease: Span::secs(3), retain: 1, ..config(dir.path()) };
    std::fs::create_dir(&config.archive).unwrap();
    let archive = config.archive.clone();
    let brain = lead_with(config).await.unwrap();
    found(&brain, 10).await;
    until("a snapshot is written", || brain.stats().snapshots > 0).await;
    let db = rusqlite::Connection::open(file(dir.path(), "")).unwrap();
    let number = |sql: &str| db.query_row(sql, [], |r| r.get::<_, i64>(0)).unwrap();
    // Up to there is archived after the next snapshot. Whoever opens this file to write waits for
    // somebody who reads it.
    let upto = number("SELECT min(seq) FROM snapshots");
    let hangs = archive.join(format!(".log-1-{upto}.jsonl.gz.{}.tmp", std::process::id()));
    rustix::fs::mkfifoat(CWD, &hangs, Mode::RUSR | Mode::WUSR).unwrap();
    create_projects(&brain, 10..30).await;
    until("another snapshot is written", || brain.stats().snapshots > 1).await;
    let expires = || number("SELECT expires FROM head");
    let before = expires();
    until("the lease is renewed", || expires() > before).await;
    assert!(hangs.exists(), "the archive still waits");
    let reader =
        rustix::fs::open(&hangs, OFlags::RDONLY | OFlags::NONBLOCK, Mode::empty()).unwrap();
    until("the archive gives up a file that cannot be synced", || !hangs.exists()).await;
    drop(reader);
    stop(&brain).await;
}

#[tokio::test]
async fn a_step_of_the_machines_clock_is_in_the_log() {
    let dir = tempfile::tempdir().unwrap();
    // Before there is a server that could see the steps of another test.
    let _alone = super::clock::WALL.lock().await;
    let brain = lead(dir.path()).await;
    let (mut hours, mut found) = (0, None);
    while found.is_none() {
        assert!(hours < 200, "no step is found");
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
