//! The loop, with a log that is a list of what was written to it.

use super::{Effect, Log, Outcome, run};
use muster_engine::State;
use muster_model::command::Command;
use muster_model::ids::Epoch;
use muster_model::names::ProjectName;
use muster_model::units::Time;
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::sync::{oneshot, watch};

/// Longer than anything here takes; a test that waits so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);
/// Acts with larger numbers come to nothing.
const LATER: u64 = 50;
/// Acts with larger numbers are begun, and their end is seen elsewhere.
const BEGUN: u64 = 100;
/// Acts with larger numbers never come to an end, and two of them may be under way.
const STUCK: u64 = 200;

/// Takes one away where there is one.
fn one_less(count: &AtomicUsize) -> bool {
    let n = count.load(Ordering::SeqCst);
    count.store(n.saturating_sub(1), Ordering::SeqCst);
    n > 0
}

#[derive(Clone)]
struct List {
    reported: Arc<Mutex<Vec<u64>>>,
    grown: Arc<watch::Sender<()>>,
    /// So many reports are refused before one is taken.
    refusals: Arc<AtomicUsize>,
}

impl Log for List {
    type Growth = watch::Receiver<()>;

    fn growth(&self) -> Self::Growth {
        self.grown.subscribe()
    }

    async fn grown(growth: &mut Self::Growth) {
        let _ = growth.changed().await;
    }

    fn read<R>(&self, look: impl FnOnce(&State) -> R) -> R {
        look(&State::default())
    }

    fn now(&self) -> Time {
        Time(0)
    }

    fn certain_epoch(&self) -> Option<Epoch> {
        None
    }

    async fn record_command(
        &self,
        command: Command,
        wanted: impl Fn() -> bool + Send + Sync,
    ) -> bool {
        if !wanted() || one_less(&self.refusals) {
            return false;
        }
        let Command::ActDone { id, .. } = command else { panic!("{command:?}") };
        self.reported.lock().unwrap().push(id);
        self.grown.send_replace(());
        true
    }

    async fn secret(&self, _: &ProjectName, _: &str) -> Result<Option<String>, String> {
        Ok(None)
    }
}

/// What is intended, until it is reported; and what was done.
struct Acts {
    log: List,
    asked: Mutex<BTreeSet<u64>>,
    done: Mutex<Vec<u64>>,
    panics: AtomicUsize,
}

impl Effect for Acts {
    type Key = u64;
    type Task = ();
    type End = ();

    const PAUSES: (Duration, Duration) = (Duration::from_millis(1), Duration::from_millis(4));

    fn intended(&self) -> (Vec<(u64, ())>, Option<Duration>) {
        let asked = self.asked.lock().unwrap().clone();
        (asked.into_iter().filter(|id| self.is_wanted(id)).map(|id| (id, ())).collect(), None)
    }

    fn has_capacity<'a>(&self, key: &u64, under_way: impl Iterator<Item = &'a u64>) -> bool {
        *key <= STUCK || under_way.filter(|k| **k > STUCK).count() < 2
    }

    fn is_wanted(&self, key: &u64) -> bool {
        !self.log.reported.lock().unwrap().contains(key)
    }

    async fn execute(&self, key: &u64, (): ()) -> Outcome<()> {
        self.done.lock().unwrap().push(*key);
        assert!(!one_less(&self.panics), "as the test wants it");
        match *key {
            key if key > STUCK => std::future::pending().await,
            key if key > BEGUN => Outcome::Begun,
            key if key > LATER => Outcome::Later,
            _ => Outcome::Over(()),
        }
    }

    fn report(&self, key: &u64, (): ()) -> Option<Command> {
        Some(Command::ActDone { id: *key, ok: true, message: String::new() })
    }
}

impl Acts {
    fn new(panics: usize, refusals: usize) -> Arc<Acts> {
        let log = List {
            reported: Arc::default(),
            grown: Arc::new(watch::Sender::new(())),
            refusals: Arc::new(AtomicUsize::new(refusals)),
        };
        let (asked, done, panics) = (Mutex::default(), Mutex::default(), AtomicUsize::new(panics));
        Arc::new(Acts { log, asked, done, panics })
    }

    fn ask(&self, ids: &[u64]) {
        self.asked.lock().unwrap().extend(ids);
        self.log.grown.send_replace(());
    }

    /// A server that carries out until what it returns is dropped.
    fn serve(self: &Arc<Self>) -> oneshot::Sender<()> {
        let (server, gone) = oneshot::channel();
        let stop = async move {
            let _ = gone.await;
        };
        tokio::spawn(run(Arc::clone(self), self.log.clone(), stop));
        server
    }

    async fn until(&self, is: impl Fn(&Acts) -> bool) {
        let all = async {
            while !is(self) {
                tokio::time::sleep(Duration::from_millis(1)).await;
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("it did not come");
    }

    async fn until_reported(&self, ids: &[u64]) {
        self.until(|a| ids.iter().all(|id| !a.is_wanted(id))).await;
    }

    fn times(&self, id: u64) -> usize {
        self.done.lock().unwrap().iter().filter(|d| **d == id).count()
    }
}

#[tokio::test]
async fn what_is_intended_is_done_once_and_reported_once() {
    let acts = Acts::new(0, 0);
    acts.ask(&[1, 2]);
    let _server = acts.serve();
    acts.until_reported(&[1, 2]).await;
    // Whatever else happens, it is not looked at again.
    acts.ask(&[3]);
    acts.until_reported(&[3]).await;
    assert_eq!([1, 2, 3].map(|id| acts.times(id)), [1, 1, 1]);
    assert_eq!(acts.log.reported.lock().unwrap().len(), 3);
}

#[tokio::test]
async fn what_fell_over_or_was_refused_is_tried_again() {
    let acts = Acts::new(1, 1);
    acts.ask(&[1, STUCK + 1]);
    let _server = acts.serve();
    acts.until_reported(&[1]).await;
    assert_eq!(acts.times(1), 3, "a panic, a refusal, and the end");
    assert_eq!(acts.times(STUCK + 1), 1, "what is under way is not begun again for that");
    assert_eq!(*acts.log.reported.lock().unwrap(), [1]);
}

#[tokio::test]
async fn what_came_to_nothing_is_tried_again_until_it_is_not_intended_any_more() {
    let later = LATER + 1;
    let acts = Acts::new(0, 0);
    acts.ask(&[later]);
    let _server = acts.serve();
    acts.until(|a| a.times(later) > 3).await;
    acts.asked.lock().unwrap().clear();
    acts.ask(&[1]);
    acts.until_reported(&[1]).await;
    let times = acts.times(later);
    acts.ask(&[2]);
    acts.until_reported(&[2]).await;
    assert_eq!(acts.times(later), times);
}

#[tokio::test]
async fn what_was_begun_is_begun_once_by_each_server_until_the_log_has_its_end() {
    let begun = BEGUN + 1;
    let acts = Acts::new(0, 0);
    acts.ask(&[begun, 1]);
    let server = acts.serve();
    acts.until_reported(&[1]).await;
    acts.ask(&[2]);
    acts.until_reported(&[2]).await;
    assert_eq!(acts.times(begun), 1);
    // The next server looks at it again: the act itself knows that it was begun.
    drop(server);
    let _next = acts.serve();
    acts.until(|a| a.times(begun) == 2).await;
    assert_eq!([1, 2].map(|id| acts.times(id)), [1, 1], "the log has these");
}

#[tokio::test]
async fn what_does_not_end_holds_up_nothing_else() {
    let acts = Acts::new(0, 0);
    acts.ask(&[STUCK + 1, STUCK + 2, STUCK + 3]);
    let _server = acts.serve();
    acts.ask(&[1]);
    acts.until_reported(&[1]).await;
    acts.ask(&[2]);
    acts.until_reported(&[2]).await;
    assert_eq!([1, 2, 3].map(|n| acts.times(STUCK + n)), [1, 1, 0]);
}
