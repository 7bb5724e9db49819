//! Where reading begins, what becomes of a record that a reader falls over, when it is woken, and what is
//! written down of it.

use super::*;
use crate::brain::BrainConfig;
use muster_model::command::Command;
use muster_model::units::{Span, Time};
use muster_store::{StoreError, StoreUrl};
use serde::{Deserialize, Serialize};
use std::path::Path;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug, PartialEq, Eq)]
enum FollowerEvent {
    Record(Seq),
    Anew(Seq),
    Woken { at_end: bool, last: bool },
}

/// Reports all that comes.
struct RecordingFollower {
    to: UnboundedSender<FollowerEvent>,
    /// It panics at this record.
    bad: Option<Seq>,
    stop: CancellationToken,
}

impl RecordingFollower {
    fn new(bad: Option<Seq>) -> (RecordingFollower, UnboundedReceiver<FollowerEvent>) {
        let (to, reported) = unbounded_channel();
        (RecordingFollower { to, bad, stop: CancellationToken::new() }, reported)
    }

    fn record(&self, what: FollowerEvent) {
        let _ = self.to.send(what);
    }
}

impl Projection for RecordingFollower {
    fn apply(&mut self, record: &Record) {
        assert!(self.bad != Some(record.seq), "a record that makes no sense");
        self.record(FollowerEvent::Record(record.seq));
    }

    fn begin_anew(&mut self, behind: Seq) -> Seq {
        self.record(FollowerEvent::Anew(behind));
        behind
    }

    fn wake(&mut self, now: Time, at_end: bool) -> Option<Time> {
        self.record(FollowerEvent::Woken { at_end, last: self.stop.is_cancelled() });
        Some(now + Span(1))
    }
}

async fn lead(dir: &Path) -> Brain {
    let config = BrainConfig {
        store: StoreUrl::Sqlite(dir.join("log.db")),
        holder: "test".into(),
        archive: dir.join("archive"),
        seal_key: dir.join("seal.key"),
        policy: muster_engine::Policy::default(),
        lease: Span::secs(10),
        snapshot_every: 10,
        retain: 5,
    };
    tokio::task::spawn_blocking(move || Brain::lead(&config, |_| {})).await.unwrap().unwrap()
}

async fn create_project(brain: &Brain, n: u32) {
    let name = format!("p{n}").parse().unwrap();
    brain.system(Command::CreateProject { name, description: String::new() }).await.unwrap();
}

fn records(from: u64, to: Seq) -> Vec<FollowerEvent> {
    (from..=to.0).map(|n| FollowerEvent::Record(Seq(n))).collect()
}

/// All that the log holds, and up to where that is.
async fn read_all(brain: &Brain) -> (Seq, Vec<FollowerEvent>) {
    let (projection, mut reported) = RecordingFollower::new(None);
    let cursor = Cursor::new(brain, Seq(0));
    let mut reading = Reading { cursor, projection, keep: None };
    while reading.take_batch(brain.durable()).await.unwrap() {}
    let after = reading.cursor.after;
    drop(reading);
    let mut all = Vec::new();
    while let Some(one) = reported.recv().await {
        all.push(one);
    }
    (after, all)
}

#[tokio::test]
async fn a_log_whose_beginning_is_archived_is_read_from_where_it_begins() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    let mut n = 0;
    // The archive's file is there before the log is cut, and a leader that is replaced between
    // the two cuts nothing: so the log itself is asked where it begins.
    let mut log = muster_store::open(&StoreUrl::Sqlite(dir.path().join("log.db"))).unwrap();
    while !matches!(log.read(Seq(0), 1), Err(StoreError::Archived { .. })) {
        n += 1;
        assert!(n < 6000, "nothing was ever archived");
        create_project(&brain, n).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    // What this server wrote it still has in memory.
    let (after, all) = read_all(&brain).await;
    assert_eq!(after, brain.durable());
    assert_eq!(all, records(1, after));
    brain.stop();
    brain.closed().await;
    drop(brain);
    let brain = lead(dir.path()).await;
    let first = brain.records(Seq(0), 1).await;
    assert!(matches!(first, Err(BrainError::Archived { .. })), "{first:?}");
    let (after, all) = read_all(&brain).await;
    assert!(after >= brain.durable());
    let Some(FollowerEvent::Anew(behind)) = all.first() else { panic!("{all:?}") };
    assert_eq!(all[1..], records(behind.0 + 1, after));
    // What is archived may be of a time before it; what is stored is not.
    let cut = Cursor::seek(&brain, Time(0), (Seq(0), after)).await.unwrap();
    assert_eq!((cut.place(), cut.is_cut()), (*behind, true));
    let late = Cursor::seek(&brain, Time(i64::MAX), (Seq(0), after)).await.unwrap();
    assert_eq!((late.place(), late.is_cut()), (after, false));
    let none = Cursor::before(&brain, behind.next(), 100).await.unwrap();
    assert!(none.is_empty(), "{none:?}");
    brain.stop();
}

#[tokio::test]
async fn a_place_is_found_by_time_and_read_from_in_both_directions() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    for n in 0..3 {
        create_project(&brain, n).await;
        let at = brain.now();
        while brain.now() <= at {
            tokio::task::yield_now().await;
        }
    }
    let end = brain.durable();
    let all = brain.records(Seq(0), 100).await.unwrap();
    let seek = async |time: Time, least: Seq| {
        let log = Cursor::seek(&brain, time, (least, end)).await.unwrap();
        (log.place(), log.is_cut())
    };
    for record in all.iter().filter(|r| r.seq <= end) {
        let earlier = all.iter().filter(|r| r.at < record.at).map(|r| r.seq).max();
        assert_eq!(seek(record.at, Seq(0)).await, (earlier.unwrap_or(Seq(0)), false));
        // Not before the least.
        let within = earlier.unwrap_or(Seq(0)).max(Seq(2));
        assert_eq!(seek(record.at, Seq(2)).await, (within, false));
    }
    assert_eq!(seek(Time(0), Seq(0)).await.0, Seq(0));
    assert_eq!(seek(Time(i64::MAX), Seq(0)).await.0, end);
    let before = async |seq: u64, most: usize| {
        let found = Cursor::before(&brain, Seq(seq), most).await.unwrap();
        found.iter().map(|r| r.seq.0).collect::<Vec<_>>()
    };
    assert_eq!(before(4, 2).await, vec![2u64, 3]);
    assert_eq!(before(3, 100).await, vec![1u64, 2]);
    assert!(before(1, 2).await.is_empty() && before(0, 2).await.is_empty());
    brain.stop();
}

#[tokio::test]
async fn a_record_that_a_reader_falls_over_is_not_given_to_it_again() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    for n in 0..3 {
        create_project(&brain, n).await;
    }
    let (bad, end) = (Seq(2), brain.durable());
    let (follower, mut reported) = RecordingFollower::new(Some(bad));
    let stop = follower.stop.clone();
    let follower =
        Follower::start("reader-that-falls-over", brain.clone(), Seq(0), follower, stop.clone());
    let mut all = Vec::new();
    while all.last() != Some(&FollowerEvent::Record(end)) {
        match reported.recv().await.unwrap() {
            FollowerEvent::Woken { .. } => {}
            one => all.push(one),
        }
    }
    let mut wanted = records(1, end);
    wanted.retain(|t| *t != FollowerEvent::Record(bad));
    assert_eq!(all, wanted);
    let fell = |f: &supervise::Failed| f.part == "reader-that-falls-over" && f.times == 1;
    assert!(supervise::failed().iter().any(fell));
    // Whoever asks has all of it, and so nothing is left to be read.
    assert!(follower.caught_up(1).await.1);
    assert_eq!(brain.follower_lags(), [("reader-that-falls-over", 0)]);
    stop.cancel();
    brain.stop();
}

#[tokio::test]
async fn a_reader_is_woken_when_it_asked_for_it_and_a_last_time_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    let (follower, mut reported) = RecordingFollower::new(None);
    let stop = follower.stop.clone();
    let end = brain.durable();
    drop(Follower::start("reader-that-asks", brain.clone(), end, follower, stop.clone()));
    let mut wakes = 0;
    while wakes < 3 {
        // Nothing is written meanwhile but what a new leader writes.
        wakes += u32::from(
            reported.recv().await.unwrap() == FollowerEvent::Woken { at_end: true, last: false },
        );
    }
    stop.cancel();
    let mut last = None;
    while let Some(one) = reported.recv().await {
        last = Some(one);
    }
    assert_eq!(last, Some(FollowerEvent::Woken { at_end: true, last: true }));
    brain.stop();
}

/// How many records were read, and the last of them.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
struct Tally {
    read: u64,
    last: Seq,
}

/// Counts records, and is written down.
struct Counts(Tally);

impl Projection for Counts {
    fn apply(&mut self, record: &Record) {
        self.0 = Tally { read: self.0.read + 1, last: record.seq };
    }

    fn begin_anew(&mut self, behind: Seq) -> Seq {
        self.0 = Tally { read: 0, last: behind };
        behind
    }

    fn wake(&mut self, _: Time, _: bool) -> Option<Time> {
        None
    }
}

impl PersistedProjection for Counts {
    type Fold = Tally;

    fn fold(&self) -> &Tally {
        &self.0
    }

    fn place(tally: &Tally) -> Seq {
        tally.last
    }
}

/// What a reader begins with, and what is written down of it when it has read all.
async fn read_kept(brain: &Brain, file: &Path) -> (Tally, Tally) {
    let (mut begun, stop) = (Tally::default(), CancellationToken::new());
    let begin = |tally: Tally| {
        begun = tally.clone();
        Counts(tally)
    };
    let (part, kept) = ("reader-that-is-kept", Some(file.to_path_buf()));
    let follower = Follower::start_kept(part, brain.clone(), kept, begin, stop.clone());
    let (counts, whole) = follower.caught_up(100).await;
    let last = counts.0.last;
    drop(counts);
    assert!(whole, "all of it is in memory");
    stop.cancel();
    loop {
        let text = std::fs::read(file).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        match serde_json::from_value::<Tally>(value["fleet"].clone()) {
            Ok(tally) if tally.last >= last => return (begun, tally),
            _ => tokio::time::sleep(Duration::from_millis(10)).await,
        }
    }
}

#[tokio::test]
async fn a_reader_that_is_written_down_goes_on_where_it_was_but_not_with_another_log() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let file = one.path().join("tally.json");
    let brain = lead(one.path()).await;
    brain.system(Command::CreateSite { site: "one".into() }).await.unwrap();
    create_project(&brain, 0).await;
    let (begun, end) = read_kept(&brain, &file).await;
    assert_eq!((begun, end.read), (Tally::default(), end.last.0));
    brain.stop();
    brain.closed().await;
    drop(brain);
    let brain = lead(one.path()).await;
    create_project(&brain, 1).await;
    let (begun, later) = read_kept(&brain, &file).await;
    assert_eq!(begun, end, "it goes on where it was");
    assert!(later.last > end.last);
    assert_eq!(later.read, later.last.0, "each record once");
    brain.stop();
    let brain = lead(two.path()).await;
    brain.system(Command::CreateSite { site: "two".into() }).await.unwrap();
    for n in 0..6 {
        create_project(&brain, n).await;
    }
    let elsewhere = two.path().join("tally.json");
    std::fs::copy(&file, &elsewhere).unwrap();
    let (begun, end) = read_kept(&brain, &elsewhere).await;
    assert!(end.last > later.last, "the file was written anew");
    assert_eq!((begun, end.read), (Tally::default(), end.last.0));
    brain.stop();
}
