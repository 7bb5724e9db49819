//! A test of a real machine, on a thread of its own, one at a time.

use crate::clock::wall;
use crate::hooks::{Progress, Qualifier};
use muster_link::messages::FromAgent;
use muster_model::qualification::{Check, Level, Outcome, Qualification};
use muster_model::units::Time;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use tokio::sync::Notify;

/// What the thread and the agent share.
#[derive(Default)]
struct Shared {
    stop: AtomicBool,
    progress: Mutex<Option<Progress>>,
    report: Mutex<Option<Qualification>>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

struct Test {
    id: u64,
    shared: Arc<Shared>,
    reported: bool,
}

/// Tests, one at a time.
pub(crate) struct Tester {
    qualifier: Arc<dyn Qualifier>,
    wake: Arc<Notify>,
    test: Option<Test>,
    /// The newest thread; a new one waits for it, so that two never measure at once.
    thread: Option<JoinHandle<()>>,
}

impl Tester {
    pub(crate) fn new(qualifier: Arc<dyn Qualifier>, wake: Arc<Notify>) -> Tester {
        Tester { qualifier, wake, test: None, thread: None }
    }

    pub(crate) fn id(&self) -> Option<u64> {
        self.test.as_ref().map(|t| t.id)
    }

    /// Begins a test; one that is known already is only reported again.
    pub(crate) fn begin(&mut self, id: u64, level: Level) {
        if let Some(t) = self.test.as_mut().filter(|t| t.id == id) {
            t.reported = false;
            return;
        }
        self.end();
        let shared = Arc::new(Shared::default());
        let (before, theirs) = (self.thread.take(), shared.clone());
        let (qualifier, wake) = (self.qualifier.clone(), self.wake.clone());
        let body = move || {
            if let Some(t) = before {
                // How it ended is known from what it left behind.
                let _ = t.join();
            }
            let began = wall();
            let say = |p: Progress| {
                *lock(&theirs.progress) = Some(p);
                wake.notify_one();
            };
            let run = || qualifier.run(level, &say, &theirs.stop);
            let report = catch_unwind(AssertUnwindSafe(run))
                .unwrap_or_else(|_| broken(level, began, "the test itself broke off"));
            *lock(&theirs.report) = Some(report);
            wake.notify_one();
        };
        match std::thread::Builder::new().name("qualify".into()).spawn(body) {
            Ok(t) => self.thread = Some(t),
            Err(e) => {
                let why = format!("no thread for it: {e}");
                *lock(&shared.report) = Some(broken(level, wall(), &why));
            }
        }
        self.test = Some(Test { id, shared, reported: false });
    }

    /// This test's end is written down, or nobody wants it any more.
    pub(crate) fn over(&mut self, id: u64) {
        if self.id() == Some(id) {
            self.end();
        }
    }

    fn end(&mut self) {
        if let Some(t) = self.test.take() {
            t.shared.stop.store(true, Ordering::Relaxed);
        }
    }

    /// A new connection: what came of it is reported again.
    pub(crate) fn rewind(&mut self) {
        if let Some(t) = &mut self.test {
            t.reported = false;
        }
    }

    /// What there is to report.
    pub(crate) fn turn(&mut self, out: &mut Vec<FromAgent>) {
        let Some(t) = &mut self.test else { return };
        if let Some(report) = lock(&t.shared.report).as_ref() {
            if !std::mem::replace(&mut t.reported, true) {
                let report = Box::new(report.clone());
                out.push(FromAgent::Qualified { id: t.id, report });
            }
        } else if let Some(p) = lock(&t.shared.progress).take() {
            let Progress { done, of, doing, eta } = p;
            let eta_s = eta.map(|e| e.0.div_ceil(1000));
            out.push(FromAgent::Qualifying { id: t.id, done, of, doing, eta_s });
        }
    }
}

impl Drop for Tester {
    fn drop(&mut self) {
        self.end();
    }
}

fn broken(level: Level, began: Time, why: &str) -> Qualification {
    Qualification {
        level,
        started_at: began,
        took: wall().since(began),
        outcome: Outcome::Failed,
        checks: vec![Check::plain("test", None, Outcome::Failed, why)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::units::Span;
    use std::sync::atomic::AtomicU32;
    use std::time::{Duration, Instant};

    /// Works until asked to stop or let go; breaks when asked for a full test.
    #[derive(Default)]
    struct Slow {
        go: AtomicBool,
        at_once: AtomicU32,
        most_at_once: AtomicU32,
        runs: AtomicU32,
    }

    impl Qualifier for Slow {
        fn run(&self, level: Level, say: &dyn Fn(Progress), stop: &AtomicBool) -> Qualification {
            assert!(level != Level::Full, "a full test breaks");
            self.runs.fetch_add(1, Ordering::SeqCst);
            let n = self.at_once.fetch_add(1, Ordering::SeqCst) + 1;
            self.most_at_once.fetch_max(n, Ordering::SeqCst);
            say(Progress { done: 1, of: 2, doing: "waiting".into(), eta: Some(Span(1500)) });
            while !stop.load(Ordering::Relaxed) && !self.go.load(Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(1));
            }
            self.at_once.fetch_sub(1, Ordering::SeqCst);
            let mut q = broken(level, Time(0), "");
            (q.outcome, q.checks) = (Outcome::Passed, Vec::new());
            q
        }
    }

    fn until(t: &mut Tester, wanted: impl Fn(&FromAgent) -> bool) -> FromAgent {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let mut out = Vec::new();
            t.turn(&mut out);
            if let Some(m) = out.into_iter().find(|m| wanted(m)) {
                return m;
            }
            assert!(Instant::now() < end, "nothing came");
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    fn ended(id: u64) -> impl Fn(&FromAgent) -> bool {
        move |m| matches!(m, FromAgent::Qualified { id: got, .. } if *got == id)
    }

    #[test]
    fn one_test_at_a_time_and_each_is_reported_until_it_is_over() {
        let q = Arc::new(Slow::default());
        let mut t = Tester::new(q.clone(), Arc::default());
        t.begin(7, Level::Quick);
        until(&mut t, |m| matches!(m, FromAgent::Qualifying { id: 7, eta_s: Some(2), .. }));
        // Another one takes its place; the first is stopped before it begins.
        t.begin(8, Level::Quick);
        q.go.store(true, Ordering::Relaxed);
        until(&mut t, ended(8));
        let mut out = Vec::new();
        t.turn(&mut out);
        assert!(out.is_empty(), "reported once on a connection");
        t.rewind();
        until(&mut t, ended(8));
        t.begin(8, Level::Quick);
        until(&mut t, ended(8));
        assert_eq!(q.runs.load(Ordering::SeqCst), 2, "the same test is not run again");
        assert_eq!(q.most_at_once.load(Ordering::SeqCst), 1);
        t.over(7);
        assert_eq!(t.id(), Some(8));
        t.over(8);
        assert_eq!(t.id(), None);
    }

    #[test]
    fn a_test_that_breaks_off_has_failed() {
        let mut t = Tester::new(Arc::new(Slow::default()), Arc::default());
        t.begin(9, Level::Full);
        let FromAgent::Qualified { report, .. } = until(&mut t, ended(9)) else { return };
        assert_eq!(report.outcome, Outcome::Failed);
        assert_eq!(report.checks[0].note, "the test itself broke off");
    }
}
