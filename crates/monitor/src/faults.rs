//! Faults on their way from whoever saw them to whoever reports to the server: a bounded queue with
//! a signal, so that nobody has to poll for them.

use muster_health::faults::Catalogue;
use muster_model::fault::{FaultAction, FaultClass, FaultSource, ObservedFault};
use muster_model::units::Time;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Faults kept for a reader that does not come; a node that sees more has one trouble, reported
/// often.
const MOST: usize = 1024;
/// Longest text of a fault, in bytes.
pub const LONGEST_TEXT: usize = 500;

/// Called when there is something to take, from the thread that saw it: it must not block.
pub type FaultSignal = Arc<dyn Fn() + Send + Sync>;

/// What a site says of a fault by its code; none for what the catalogue says.
pub type Verdicts = Arc<dyn Fn(&str) -> Option<(FaultClass, FaultAction)> + Send + Sync>;

/// Faults that wait to be reported. Cheap to clone; all clones are one queue.
#[derive(Clone)]
pub struct Outbox {
    inner: Arc<Mutex<Inner>>,
    wakeup: FaultSignal,
    verdicts: Option<Verdicts>,
}

#[derive(Default)]
struct Inner {
    queue: VecDeque<ObservedFault>,
    reported: u64,
    dropped: u64,
}

impl std::fmt::Debug for Outbox {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Outbox").field("waiting", &self.lock().queue.len()).finish_non_exhaustive()
    }
}

impl Outbox {
    /// An empty one that calls this signal.
    #[must_use]
    pub fn new(wakeup: FaultSignal) -> Outbox {
        Outbox { inner: Arc::default(), wakeup, verdicts: None }
    }

    /// The same, judging the agent's own findings as the site does.
    #[must_use]
    pub fn judging(mut self, verdicts: Verdicts) -> Outbox {
        self.verdicts = Some(verdicts);
        self
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        // A thread that died while it held the queue left it whole: every change is one call.
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds faults and signals them.
    pub fn put(&self, faults: impl IntoIterator<Item = ObservedFault>) {
        let mut any = false;
        {
            let mut inner = self.lock();
            for mut fault in faults {
                any = true;
                cut(&mut fault.text);
                // What was read was judged by whoever read it.
                if fault.source == FaultSource::Agent
                    && let Some(verdict) = self.verdicts.as_ref().and_then(|v| v(&fault.code))
                {
                    (fault.class, fault.action) = verdict;
                }
                inner.reported += 1;
                // The same trouble reported twice before anybody came is one with a higher count.
                let same = inner.queue.iter_mut().rev().take(64).find(|f| same(f, &fault));
                if let Some(old) = same {
                    old.count = old.count.saturating_add(fault.count);
                    old.at = old.at.min(fault.at);
                } else if inner.queue.len() < MOST {
                    inner.queue.push_back(fault);
                } else {
                    inner.dropped += 1;
                }
            }
        }
        if any {
            (self.wakeup)();
        }
    }

    /// Everything that waits, oldest first.
    #[must_use]
    pub fn take(&self) -> Vec<ObservedFault> {
        self.lock().queue.drain(..).collect()
    }

    /// Faults put in so far, and those for which there was no room.
    #[must_use]
    pub fn counts(&self) -> (u64, u64) {
        let inner = self.lock();
        (inner.reported, inner.dropped)
    }
}

fn same(a: &ObservedFault, b: &ObservedFault) -> bool {
    a.code == b.code
        && a.gpu == b.gpu
        && a.pid == b.pid
        && a.attempt == b.attempt
        && a.action == b.action
        && a.text == b.text
}

/// Cuts a text at a character's edge.
fn cut(text: &mut String) {
    if text.len() > LONGEST_TEXT {
        let mut end = LONGEST_TEXT;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        text.truncate(end);
    }
}

/// A fault that the agent saw by its own looking.
#[must_use]
pub fn agent_fault(
    code: &str,
    at: Time,
    gpu: Option<u32>,
    text: impl Into<String>,
) -> ObservedFault {
    let (class, action) = verdict(code);
    ObservedFault {
        code: code.into(),
        at,
        count: 1,
        source: FaultSource::Agent,
        class,
        action,
        gpu,
        pid: None,
        attempt: None,
        rank: None,
        text: text.into(),
    }
}

/// What the catalogue that comes along says of the agent's own findings.
fn verdict(code: &str) -> (FaultClass, FaultAction) {
    let catalogue = Catalogue::builtin();
    catalogue.code(code).map_or((FaultClass::Unknown, FaultAction::Watch), |code| {
        let rule = catalogue.evaluate(code, "", "");
        (rule.class, rule.action)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicU32, Ordering};

    #[test]
    fn faults_are_signalled_and_the_same_one_is_reported_once_with_its_count() {
        let signals = Arc::new(AtomicU32::new(0));
        let wakeup = signals.clone();
        let out = Outbox::new(Arc::new(move || {
            wakeup.fetch_add(1, Ordering::SeqCst);
        }));
        out.put([agent_fault("gpu-lost", Time(5), Some(3), "gone")]);
        out.put([
            agent_fault("gpu-lost", Time(4), Some(3), "gone"),
            agent_fault("oom", Time(6), None, "x"),
        ]);
        out.put([]);
        assert_eq!(signals.load(Ordering::SeqCst), 2);
        let all = out.take();
        assert_eq!(all.len(), 2);
        assert_eq!((all[0].count, all[0].at), (2, Time(4)));
        assert!(out.take().is_empty());
    }

    #[test]
    fn the_agents_own_findings_are_judged_by_the_catalogue_or_by_the_site() {
        for code in ["nvml-hang", "gpu-lost", "gpu-silent", "driver-missing", "driver-mismatch"]
            .into_iter()
            .chain(["disk-full", "ro-remount", "ib-down", "oom", "kmsg-overrun"])
        {
            assert_ne!(verdict(code).0, FaultClass::Unknown, "{code} is in the catalogue");
        }
        let out = Outbox::new(Arc::new(|| {})).judging(Arc::new(|c| {
            (c == "ib-down").then_some((FaultClass::Notice, FaultAction::None))
        }));
        out.put([
            agent_fault("ib-down", Time(0), None, "x"),
            agent_fault("gpu-lost", Time(0), None, "x"),
        ]);
        let actions: Vec<_> = out.take().iter().map(|f| f.action).collect();
        assert_eq!(actions, [FaultAction::None, FaultAction::Reboot]);
    }

    #[test]
    fn a_reader_that_never_comes_costs_a_bounded_amount() {
        let out = Outbox::new(Arc::new(|| {}));
        for i in 0..3000 {
            out.put([agent_fault("oom", Time(i), None, format!("{i}"))]);
        }
        assert_eq!(out.take().len(), MOST);
        assert_eq!(out.counts(), (3000, 3000 - MOST as u64));
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let out = Outbox::new(Arc::new(|| {}));
        out.put([agent_fault("x", Time(0), None, "ä".repeat(400))]);
        let text = out.take().remove(0).text;
        assert_eq!(text.len(), LONGEST_TEXT);
    }
}
