//! Every thread and task has a name, and somebody who notices when it panics.
//!
//! What a process needs to keep its word ends it, so that another takes over or it is started again:
//! [`vital`] for a task of an agent, and `brain::lead` for what a server's lead needs. Everything
//! else is started again, ever later. How often is counted; a server reports it as a metric, and
//! people are notified as well.

pub mod failpoint;
mod program;

use failpoint::hit;
pub use program::{foreign, output_within, wait_within, within};
use std::any::Any;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use tokio::task::JoinSet;

/// Until a task that panicked is started again, the first time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(60);
/// What ran for so long starts anew with the first pause.
const WELL: Duration = Duration::from_secs(300);

/// What is known of a part of this process that panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its name.
    pub part: &'static str,
    /// How often since the process began.
    pub times: u64,
    /// When it last did.
    pub last: Instant,
    /// What the panic said.
    pub said: String,
}

static FAILED: Mutex<BTreeMap<&'static str, Failed>> = Mutex::new(BTreeMap::new());

fn book() -> MutexGuard<'static, BTreeMap<&'static str, Failed>> {
    FAILED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The parts of this process that panicked and were started again, by name.
#[must_use]
pub fn failed() -> Vec<Failed> {
    book().values().cloned().collect()
}

/// What a panic said.
#[must_use]
pub fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it gave no reason".to_owned())
}

/// Grows from one panic to the next, and is short again after a good while.
struct Pause(Duration);

impl Pause {
    /// Counts a panic of what has run for `ran`; how long to wait.
    fn after(&mut self, part: &'static str, ran: Duration, panic: &(dyn Any + Send)) -> Duration {
        if ran >= WELL {
            self.0 = FIRST;
        }
        let wait = self.0;
        self.0 = (wait * 2).min(LONGEST);
        let said = words(panic);
        tracing::error!(part, said, again_in = ?wait, "a part of this process panicked");
        count(part, said);
        wait
    }
}

fn count(part: &'static str, said: String) {
    let last = Instant::now();
    let mut book = book();
    let times = book.get(part).map_or(0, |f| f.times) + 1;
    book.insert(part, Failed { part, times, last, said });
}

/// Does something that is done once, such as the session of one agent. When it panics that is counted, and
/// what the panic said is the error: the caller tidies up.
///
/// # Errors
/// What the panic said.
pub async fn once<T>(part: &'static str, run: impl Future<Output = T>) -> Result<T, String> {
    // In a box: otherwise it would be held twice, as an argument and where it is polled.
    let mut run = Box::pin(async move {
        hit(&format!("task.{part}"));
        run.await
    });
    let polled = poll_fn(|cx| {
        // What it shares with others is behind locks whose poison nobody minds.
        match catch_unwind(AssertUnwindSafe(|| run.as_mut().poll(cx))) {
            Ok(polled) => polled.map(Ok),
            Err(panic) => Poll::Ready(Err(panic)),
        }
    });
    polled.await.map_err(|panic| {
        let said = words(&*panic);
        tracing::error!(part, said, "a part of this process panicked");
        count(part, said.clone());
        said
    })
}

/// Runs a task that nobody can go on without. When it panics, what the panic said is the error,
/// and it is for the caller to end the process. It ends with this future.
///
/// # Errors
/// What the panic said.
pub async fn vital<T: Send + 'static>(
    part: &'static str,
    run: impl Future<Output = T> + Send + 'static,
) -> Result<T, String> {
    let mut one = JoinSet::new();
    one.spawn(run);
    match one.join_next().await {
        Some(Ok(done)) => Ok(done),
        Some(Err(ended)) => Err(ended.try_into_panic().map_or_else(
            |_| "it was cut off".to_owned(),
            |panic| {
                let said = words(&*panic);
                tracing::error!(part, said, "a part panicked that this process needs");
                said
            },
        )),
        None => Err("it never ran".to_owned()),
    }
}

/// Runs a task until it returns. One that panics is made and run again.
pub fn task<M, F>(part: &'static str, mut make: M)
where
    M: FnMut() -> F + Send + 'static,
    F: Future<Output = ()> + Send + 'static,
{
    tokio::spawn(async move {
        let mut pause = Pause(FIRST);
        loop {
            let began = Instant::now();
            // What it shares with others is behind locks whose poison nobody minds.
            let panic = match catch_unwind(AssertUnwindSafe(&mut make)) {
                Err(panic) => panic,
                Ok(run) => {
                    let one = tokio::spawn(async move {
                        hit(&format!("task.{part}"));
                        run.await;
                    });
                    let Err(ended) = one.await else { return };
                    // Cancelled: the runtime ends.
                    let Ok(panic) = ended.try_into_panic() else { return };
                    panic
                }
            };
            tokio::time::sleep(pause.after(part, began.elapsed(), &*panic)).await;
        }
    });
}

/// A thread that [`thread`] started. It goes on when this is dropped.
#[derive(Debug)]
pub struct SupervisedThread {
    ending: Arc<AtomicBool>,
    handle: JoinHandle<()>,
}

impl SupervisedThread {
    /// Waits until it returns. It is not run again from here on, and a pause between two runs ends.
    /// What it waits for itself is for the caller to end first.
    pub fn end(self) {
        self.ask_to_end();
        let _ = self.handle.join();
    }

    /// The same for several, one of which may wait for another.
    pub fn end_all(threads: impl IntoIterator<Item = SupervisedThread>) {
        let threads: Vec<_> = threads.into_iter().collect();
        threads.iter().for_each(SupervisedThread::ask_to_end);
        threads.into_iter().for_each(SupervisedThread::end);
    }

    fn ask_to_end(&self) {
        self.ending.store(true, Ordering::Release);
        self.handle.thread().unpark();
    }
}

/// Sleeps for so long, or until the thread is to end; says whether it is.
fn rest(most: Duration, ending: &AtomicBool) -> bool {
    let from = Instant::now();
    loop {
        let left = most.saturating_sub(from.elapsed());
        if ending.load(Ordering::Acquire) || left.is_zero() {
            return ending.load(Ordering::Acquire);
        }
        std::thread::park_timeout(left);
    }
}

/// Runs a thread until it returns. One that panics is run again.
///
/// # Errors
/// When no thread can be started.
pub fn thread(
    part: &'static str,
    mut run: impl FnMut() + Send + 'static,
) -> std::io::Result<SupervisedThread> {
    let ending = Arc::new(AtomicBool::new(false));
    let asked = ending.clone();
    let body = move || {
        let mut pause = Pause(FIRST);
        loop {
            let began = Instant::now();
            let once = || {
                hit(&format!("task.{part}"));
                run();
            };
            // What it shares with others is behind locks whose poison nobody minds.
            let Err(panic) = catch_unwind(AssertUnwindSafe(once)) else { return };
            if rest(pause.after(part, began.elapsed(), &*panic), &asked) {
                return;
            }
        }
    };
    let handle = std::thread::Builder::new().name(part.into()).spawn(body)?;
    Ok(SupervisedThread { ending, handle })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU32;
    use std::sync::mpsc;

    fn of(part: &str) -> Option<Failed> {
        failed().into_iter().find(|f| f.part == part)
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_run_again_until_it_returns() {
        let (runs, (done, mut over)) = (Arc::new(AtomicU32::new(0)), tokio::sync::mpsc::channel(1));
        let seen = runs.clone();
        task("two-panics", move || {
            let (runs, done) = (runs.clone(), done.clone());
            async move {
                let n = runs.fetch_add(1, Ordering::Relaxed);
                assert!(n >= 2, "run {n} falls over");
                let _ = done.send(()).await;
            }
        });
        over.recv().await.expect("the third run returns");
        assert_eq!(seen.load(Ordering::Relaxed), 3);
        let reported = of("two-panics").expect("it is counted");
        assert_eq!((reported.times, reported.said.as_str()), (2, "run 1 falls over"));
        assert_eq!(over.recv().await, None, "what returned is not run again");
    }

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_while_it_is_made_is_made_again() {
        let (done, mut over) = tokio::sync::mpsc::channel(1);
        let mut made = 0;
        task("falls-over-early", move || {
            made += 1;
            assert!(made > 1, "the first one is not even made");
            let done = done.clone();
            async move {
                let _ = done.send(made).await;
            }
        });
        assert_eq!(over.recv().await, Some(2));
        let reported = of("falls-over-early").expect("it is counted");
        assert_eq!((reported.times, reported.said.as_str()), (1, "the first one is not even made"));
    }

    #[tokio::test]
    async fn what_nobody_can_go_on_without_says_why_it_panicked() {
        assert_eq!(vital("whole", async { 7 }).await, Ok(7));
        let broken = vital("broken", async { assert!(failed().len() > 1000, "no way on") });
        assert_eq!(broken.await, Err("no way on".to_owned()));
        assert_eq!(of("broken"), None, "it is not run again");
    }

    #[tokio::test]
    async fn what_is_done_once_is_counted_when_it_panics() {
        assert_eq!(once("done-once", async { 7 }).await, Ok(7));
        assert_eq!(of("done-once"), None);
        let broken = once("broken-once", async {
            tokio::task::yield_now().await;
            assert!(failed().len() > 1000, "no way on");
        });
        assert_eq!(broken.await, Err("no way on".to_owned()));
        assert_eq!(of("broken-once").map(|f| f.times), Some(1));
    }

    #[test]
    fn a_thread_that_panics_is_run_again_until_it_returns() {
        let (done, over) = mpsc::channel();
        let mut runs = 0;
        thread("one-panic", move || {
            runs += 1;
            assert!(runs > 1, "the first run falls over");
            let _ = done.send(runs);
        })
        .unwrap();
        assert_eq!(over.recv(), Ok(2));
        assert_eq!(of("one-panic").map(|f| f.times), Some(1));
        assert!(over.recv().is_err(), "what returned is not run again");
    }

    #[test]
    fn who_is_asked_to_end_does_not_sleep_before() {
        let ending = AtomicBool::new(true);
        assert!(rest(Duration::MAX, &ending), "it would sleep for ever");
        assert!(!rest(Duration::ZERO, &AtomicBool::new(false)), "nobody asked");
    }

    #[test]
    fn a_thread_that_is_between_two_runs_ends_when_it_is_asked_to() {
        let (say, said) = mpsc::channel();
        let other = thread("between-two-runs", move || {
            let _ = say.send(());
            panic!("again and again");
        })
        .unwrap();
        for _ in 0..2 {
            said.recv().expect("another run");
        }
        // It would never return by itself.
        other.end();
        while said.try_recv().is_ok() {}
        assert!(said.recv().is_err(), "it ended");
    }

    #[test]
    fn the_pause_grows_to_its_limit_and_is_short_again_after_a_good_while() {
        let mut pause = Pause(FIRST);
        let waits: Vec<_> = (0..12).map(|_| pause.after("pauses", Duration::ZERO, &"x")).collect();
        assert_eq!(waits[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(waits.last(), Some(&LONGEST));
        assert_eq!(pause.after("pauses", WELL, &"x"), FIRST);
    }
}
