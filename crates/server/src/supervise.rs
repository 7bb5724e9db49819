//! Every thread and task of the server has a name, and somebody who notices when it panics.
//!
//! What the lead needs (engine, writer, keeper of the lease) ends the lead, so that a standby or a
//! restart takes over: see `brain::lead`. Everything else reads the log or serves somebody, and is
//! started again, ever later. How often is told as a metric, and people are told as well.

use muster_model::units::Time;
use muster_store::failpoint::hit;
use std::any::Any;
use std::collections::BTreeMap;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Until a task that panicked is started again, the first time.
const FIRST: Duration = Duration::from_millis(100);
/// The longest such pause.
const LONGEST: Duration = Duration::from_secs(60);
/// What ran for so long starts anew with the first pause.
const WELL: Duration = Duration::from_secs(300);

/// What is known of a part of the server that panicked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Failed {
    /// Its name.
    pub part: &'static str,
    /// How often since the process began.
    pub times: u64,
    /// When it last did.
    pub last: Time,
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
pub(crate) fn words(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "it did not say why".to_owned())
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
        tracing::error!(part, said, again_in = ?wait, "a part of the server panicked");
        let last = crate::brain::clock();
        let mut book = book();
        let times = book.get(part).map_or(0, |f| f.times) + 1;
        book.insert(part, Failed { part, times, last, said });
        wait
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
            let (began, run) = (Instant::now(), make());
            let one = tokio::spawn(async move {
                hit(&format!("task.{part}"));
                run.await;
            });
            let Err(ended) = one.await else { return };
            // Cancelled: the runtime ends.
            let Ok(panic) = ended.try_into_panic() else { return };
            tokio::time::sleep(pause.after(part, began.elapsed(), &*panic)).await;
        }
    });
}

/// Runs a thread until it returns. One that panics is run again.
///
/// # Errors
/// When no thread can be started.
pub fn thread(part: &'static str, mut run: impl FnMut() + Send + 'static) -> std::io::Result<()> {
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
            std::thread::sleep(pause.after(part, began.elapsed(), &*panic));
        }
    };
    std::thread::Builder::new().name(part.into()).spawn(body).map(|_| ())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU32, Ordering};
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
        let told = of("two-panics").expect("it is counted");
        assert_eq!((told.times, told.said.as_str()), (2, "run 1 falls over"));
        assert_eq!(over.recv().await, None, "what returned is not run again");
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
    fn the_pause_grows_to_its_limit_and_is_short_again_after_a_good_while() {
        let mut pause = Pause(FIRST);
        let waits: Vec<_> = (0..12).map(|_| pause.after("pauses", Duration::ZERO, &"x")).collect();
        assert_eq!(waits[..3], [FIRST, FIRST * 2, FIRST * 4]);
        assert_eq!(waits.last(), Some(&LONGEST));
        assert_eq!(pause.after("pauses", WELL, &"x"), FIRST);
    }
}
