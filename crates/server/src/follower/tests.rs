//! Where reading begins, what becomes of a record that a reader falls over, and when it is woken.

use super::*;
use crate::brain::BrainConfig;
use muster_model::command::Command;
use muster_model::units::{Span, Time};
use muster_store::{StoreError, StoreUrl};
use std::path::Path;
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

#[derive(Debug, PartialEq, Eq)]
enum Told {
    Record(Seq),
    Anew(Seq),
    Woken { at_end: bool, last: bool },
}

/// Tells all that comes.
struct Teller {
    to: UnboundedSender<Told>,
    /// It panics at this record.
    bad: Option<Seq>,
    stop: CancellationToken,
}

impl Teller {
    fn new(bad: Option<Seq>) -> (Teller, UnboundedReceiver<Told>) {
        let (to, told) = unbounded_channel();
        (Teller { to, bad, stop: CancellationToken::new() }, told)
    }

    fn tell(&self, what: Told) {
        let _ = self.to.send(what);
    }
}

impl Projection for Teller {
    fn apply(&mut self, record: &Record) {
        assert!(self.bad != Some(record.seq), "a record that makes no sense");
        self.tell(Told::Record(record.seq));
    }

    fn begin_anew(&mut self, behind: Seq) -> Seq {
        self.tell(Told::Anew(behind));
        behind
    }

    fn wake(&mut self, now: Time, at_end: bool) -> Option<Time> {
        self.tell(Told::Woken { at_end, last: self.stop.is_cancelled() });
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

fn records(from: u64, to: Seq) -> Vec<Told> {
    (from..=to.0).map(|n| Told::Record(Seq(n))).collect()
}

/// All that the log holds, and up to where that is.
async fn read_all(brain: &Brain) -> (Seq, Vec<Told>) {
    let (projection, mut told) = Teller::new(None);
    let mut reading = Reading { cursor: Cursor::new(brain, Seq(0)), projection };
    while reading.take_batch(brain.durable()).await.unwrap() {}
    let after = reading.cursor.after;
    drop(reading);
    let mut all = Vec::new();
    while let Some(one) = told.recv().await {
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
    let Some(Told::Anew(behind)) = all.first() else { panic!("{all:?}") };
    assert_eq!(all[1..], records(behind.0 + 1, after));
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
    let (teller, mut told) = Teller::new(Some(bad));
    let stop = teller.stop.clone();
    let follower =
        Follower::start("reader-that-falls-over", brain.clone(), Seq(0), teller, stop.clone());
    let mut all = Vec::new();
    while all.last() != Some(&Told::Record(end)) {
        match told.recv().await.unwrap() {
            Told::Woken { .. } => {}
            one => all.push(one),
        }
    }
    let mut wanted = records(1, end);
    wanted.retain(|t| *t != Told::Record(bad));
    assert_eq!(all, wanted);
    let fell = |f: &supervise::Failed| f.part == "reader-that-falls-over" && f.times == 1;
    assert!(supervise::failed().iter().any(fell));
    // Whoever asks has all of it, and so nothing is left to be read.
    assert!(follower.caught_up(1).await.1);
    assert_eq!(brain.lags(), [("reader-that-falls-over", 0)]);
    stop.cancel();
    brain.stop();
}

#[tokio::test]
async fn a_reader_is_woken_when_it_asked_for_it_and_a_last_time_at_the_end() {
    let dir = tempfile::tempdir().unwrap();
    let brain = lead(dir.path()).await;
    let (teller, mut told) = Teller::new(None);
    let stop = teller.stop.clone();
    let end = brain.durable();
    drop(Follower::start("reader-that-asks", brain.clone(), end, teller, stop.clone()));
    let mut wakes = 0;
    while wakes < 3 {
        // Nothing is written meanwhile but what a new leader writes.
        wakes += u32::from(told.recv().await.unwrap() == Told::Woken { at_end: true, last: false });
    }
    stop.cancel();
    let mut last = None;
    while let Some(one) = told.recv().await {
        last = Some(one);
    }
    assert_eq!(last, Some(Told::Woken { at_end: true, last: true }));
    brain.stop();
}
