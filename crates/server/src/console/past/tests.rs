//! A look at a moment is the state replayed from the first record, wherever it begins.

use super::*;
use crate::brain::BrainConfig;
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_model::Span;
use muster_model::command::Command;
use muster_store::{ArchivedSnapshot, Snapshot, StoreUrl, archive_snapshot};
use muster_store::{archived_snapshots, open};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Tries, 10 ms apart each.
const PATIENCE: u32 = 6_000;

fn config(dir: &Path, snapshot_every: u64) -> BrainConfig {
    BrainConfig {
        store: StoreUrl::in_data_dir(dir),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(10),
        snapshot_every,
        retain: 5,
    }
}

async fn lead(dir: &Path, snapshot_every: u64) -> Brain {
    let config = config(dir, snapshot_every);
    tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {})).await.unwrap().unwrap()
}

async fn stop(brain: &Brain) {
    brain.stop();
    brain.closed().await;
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let files = std::fs::read_dir(dir.join("archive")).unwrap();
    let paths = files.map(|f| f.unwrap().path());
    paths.filter(|p| p.extension().is_some_and(|e| e == "gz")).collect()
}

fn snapshots(dir: &Path) -> Vec<ArchivedSnapshot> {
    archived_snapshots(&dir.join("archive")).unwrap()
}

fn without_snapshots(dir: &Path) {
    snapshots(dir).iter().for_each(|s| std::fs::remove_file(&s.path).unwrap());
}

/// A server of a log whose beginning is archived in several segments, and all that was in the log when
/// its server was started again: nothing of it is in memory.
async fn archived_site(dir: &Path) -> (Brain, Vec<Arc<Record>>) {
    let brain = lead(dir, 10).await;
    brain.system(Command::CreateSite { site: "site-1".into() }).await.unwrap();
    let mut store = open(&StoreUrl::in_data_dir(dir)).unwrap();
    // Snapshots and segments are written by a thread that may be behind: then there are fewer of them, each
    // with more records.
    let mut is_archived = || {
        store.head().unwrap().first_seq >= Seq(60)
            && segments(dir).len() > 1
            && snapshots(dir).len() > 2
    };
    let mut n = 0;
    while !is_archived() {
        n += 1;
        assert!(n < PATIENCE, "too little was archived; is a tenth of the disk free?");
        let (name, description) = (format!("p{n}").parse().unwrap(), String::new());
        brain.system(Command::CreateProject { name, description }).await.unwrap();
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    stop(&brain).await;
    // It still has all of them in memory.
    let all = brain.records(Seq(0), usize::MAX).await.unwrap();
    assert_eq!(all.first().map(|r| r.seq), Some(Seq(1)));
    drop(brain);
    // From now on the archive stays as it is.
    (lead(dir, 1_000_000).await, all)
}

/// The state at a moment, replayed from record 1.
fn replayed(all: &[Arc<Record>], time: Time) -> State {
    let mut state = State::default();
    all.iter().take_while(|r| r.at <= time).for_each(|r| state.apply(r).unwrap());
    state
}

/// What a look at a moment shows, from where `site` is.
async fn look(site: &mut PastSite, brain: &Brain, time: Time) -> Result<(Seq, String), PastError> {
    site.go(brain, time).await?;
    site.with(|state| (state.seq, state.digest())).await
}

/// Looks at many moments of the log are what the log says: each on its own, and one after the other.
async fn assert_looks(brain: &Brain, all: &[Arc<Record>]) {
    let mut moving = PastSite::default();
    // Each look replays the log: of a long one not too many.
    for record in all.iter().step_by((all.len() / 25).max(3)) {
        let state = replayed(all, record.at);
        let expected = (state.seq, state.digest());
        let own = look(&mut PastSite::default(), brain, record.at).await;
        assert_eq!(own.unwrap(), expected, "at record {}", record.seq);
        assert_eq!(look(&mut moving, brain, record.at).await.unwrap(), expected);
    }
    // Backwards.
    for record in [&all[all.len() - 1], &all[all.len() / 2], &all[0]] {
        let state = replayed(all, record.at);
        assert_eq!(look(&mut moving, brain, record.at).await.unwrap(), (state.seq, state.digest()));
    }
    let before = look(&mut moving, brain, Time(all[0].at.0 - 1)).await;
    assert!(matches!(before, Err(PastError::Before)), "{before:?}");
}

#[tokio::test]
async fn a_look_before_and_after_an_archived_beginning_is_the_log_replayed() {
    let dir = tempfile::tempdir().unwrap();
    let (brain, all) = archived_site(dir.path()).await;
    let first = brain.records(Seq(0), 1).await;
    assert!(matches!(first, Err(BrainError::Archived { .. })), "{first:?}");
    assert!(segments(dir.path()).len() > 1);
    assert!(snapshots(dir.path()).len() > 2);
    assert_looks(&brain, &all).await;
    assert_eq!(PastLog::begins_at(&brain).await.unwrap(), Some(all[0].at));
    // The same from record 1 on alone.
    without_snapshots(dir.path());
    assert_looks(&brain, &all).await;
    stop(&brain).await;
}

#[tokio::test]
async fn a_look_begins_with_the_last_snapshot_before_it() {
    let dir = tempfile::tempdir().unwrap();
    let (brain, all) = archived_site(dir.path()).await;
    let last = snapshots(dir.path()).pop().unwrap();
    let Restart { state, log: _ } =
        PastLog::restart(&brain, Seq(0), last.at).await.unwrap().expect("a snapshot");
    assert_eq!((state.seq, state.digest()), (last.seq, replayed_to(&all, last.seq).digest()));
    // What is there already is sooner replayed.
    assert!(PastLog::restart(&brain, Seq(1), last.at).await.unwrap().is_none());
    // Without the beginning of the archive only what is before the first snapshot cannot be shown.
    let begin = segments(dir.path()).into_iter().find(|p| p.to_string_lossy().contains("/log-1-"));
    std::fs::remove_file(begin.unwrap()).unwrap();
    let shown = look(&mut PastSite::default(), &brain, last.at).await.unwrap();
    let state = replayed(&all, last.at);
    assert_eq!(shown, (state.seq, state.digest()));
    let missing = look(&mut PastSite::default(), &brain, all[0].at).await;
    assert!(matches!(missing, Err(PastError::Archived)), "{missing:?}");
    let begins = PastLog::begins_at(&brain).await.unwrap().unwrap();
    assert!(begins > all[0].at && begins <= last.at);
    stop(&brain).await;
}

/// The state up to a record, replayed from record 1.
fn replayed_to(all: &[Arc<Record>], seq: Seq) -> State {
    let mut state = State::default();
    all.iter().take_while(|r| r.seq <= seq).for_each(|r| state.apply(r).unwrap());
    state
}

/// After a restore the numbers of records come again.
#[tokio::test]
async fn a_snapshot_of_another_log_or_a_damaged_one_is_passed_over() {
    let dir = tempfile::tempdir().unwrap();
    let (brain, all) = archived_site(dir.path()).await;
    let mut known = snapshots(dir.path());
    let (last, first) = (known.pop().unwrap(), known.remove(0));
    let (format, at) = (first.read().unwrap().0.format, Time(last.at.0 - 1));
    let mut other = State::default();
    (other.seq, other.at) = (last.seq, at);
    let mut body = GzEncoder::new(Vec::new(), Compression::fast());
    other.write_to(&mut body).unwrap();
    let body = body.finish().unwrap();
    let wrong = Snapshot { seq: last.seq, at, format, body };
    std::fs::remove_file(&last.path).unwrap();
    archive_snapshot(&dir.path().join("archive"), &wrong, [7; 16]).unwrap();
    for s in &known {
        std::fs::write(&s.path, "no snapshot").unwrap();
    }
    let state = replayed(&all, last.at);
    let shown = look(&mut PastSite::default(), &brain, last.at).await.unwrap();
    assert_eq!(shown, (state.seq, state.digest()));
    assert_looks(&brain, &all).await;
    stop(&brain).await;
}

#[tokio::test]
async fn a_look_replays_so_many_records_and_the_next_one_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    let (brain, all) = archived_site(dir.path()).await;
    // A server that starts puts the newest snapshot there again: the moment is before it.
    let newest = snapshots(dir.path()).pop().unwrap().at;
    without_snapshots(dir.path());
    let end = all.iter().rfind(|r| r.at < newest).unwrap().at;
    let mut site = PastSite::default();
    // More is read at a time than the archive has: what is in the store comes after the bound.
    let went = site.go_forwards(&brain, end, 1).await;
    assert!(matches!(went, Err(PastError::TooMuch)), "{went:?}");
    let reached = site.state.seq;
    assert!(Seq(0) < reached && reached < replayed(&all, end).seq);
    site.go_forwards(&brain, end, MOST).await.unwrap();
    assert_eq!(site.state.digest(), replayed(&all, end).digest());
    stop(&brain).await;
}
