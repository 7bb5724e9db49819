//! Between what a node reports of faults and the log: a fault is written down at once when it is
//! new, its repeats are folded into one, and no node can fill the log.

use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};
use std::hash::{DefaultHasher, Hash, Hasher};

/// Repeats within this time are reported as one.
const FOLD: Span = Span::secs(60);
/// Faults of one node that are written down in such a time.
const MOST: usize = 20;
/// Kinds of fault remembered of a node; more are only counted.
const KINDS: usize = 256;
/// Reports of a node that are recognised when they are sent again. An agent sends as many as this
/// again after a new connection: what it sent since the last heartbeat that was answered.
const RECEIVED: usize = 256;

type Key = (String, Option<u32>, Option<AttemptKey>);

#[derive(Debug)]
struct Kind {
    /// When it was last written down; none: never.
    reported: Option<Time>,
    folded: Option<ObservedFault>,
}

/// What a node reported lately.
#[derive(Debug, Default)]
pub(super) struct Gate {
    kinds: BTreeMap<Key, Kind>,
    /// When the last ones were written down.
    recent: VecDeque<Time>,
    /// The last reports, each as one number.
    received: VecDeque<u64>,
}

/// What is to be written down now, and how many faults were not reported one by one.
#[derive(Debug, Default)]
pub(super) struct AdmittedFaults {
    pub(super) faults: Vec<ObservedFault>,
    pub(super) folded: u64,
}

impl Gate {
    /// These faults of the node are in the log, oldest first: a server that was restarted, or leads
    /// anew, has received none of them itself.
    pub(super) fn note_logged<'a>(&mut self, faults: impl Iterator<Item = &'a ObservedFault>) {
        for fault in faults {
            self.is_new(fault);
            // It was put back because nobody knew whether it was written: it was.
            let key = (fault.code.clone(), fault.gpu, fault.attempt);
            let Some(kind) = self.kinds.get_mut(&key).filter(|k| k.reported.is_none()) else {
                continue;
            };
            if let Some(f) = &mut kind.folded
                && (f.at, &f.text) == (fault.at, &fault.text)
            {
                f.count = f.count.saturating_sub(fault.count);
                if f.count == 0 {
                    kind.folded = None;
                }
            }
        }
    }

    /// These were to be written down, and that failed: they are due again. Their reports stay known,
    /// so that they count once though the agent sends them again.
    pub(super) fn put_back(&mut self, faults: Vec<ObservedFault>) {
        for mut fault in faults {
            let key = (fault.code.clone(), fault.gpu, fault.attempt);
            let kind = self.kinds.entry(key).or_insert(Kind { reported: None, folded: None });
            if let Some(since) = kind.folded.take() {
                fault.count = fault.count.saturating_add(since.count);
            }
            *kind = Kind { reported: None, folded: Some(fault) };
            self.recent.pop_back();
        }
    }

    /// Whether this report was not received before: the same line, seen at the same time by the
    /// node's clock, is one fault however often it is sent.
    fn is_new(&mut self, fault: &ObservedFault) -> bool {
        let mut hasher = DefaultHasher::new();
        (fault.at, &fault.code, fault.gpu, &fault.text).hash(&mut hasher);
        let report = hasher.finish();
        if self.received.contains(&report) {
            return false;
        }
        if self.received.len() >= RECEIVED {
            self.received.pop_front();
        }
        self.received.push_back(report);
        true
    }

    /// Takes in what a node reported, at `now` on a clock that never jumps. `dated` says when by
    /// the server's clock something was that the node saw.
    pub(super) fn take(
        &mut self,
        faults: Vec<ObservedFault>,
        now: Time,
        dated: impl Fn(Time) -> Time,
    ) -> AdmittedFaults {
        let mut out = AdmittedFaults::default();
        for fault in faults {
            let mut fault = fault.bounded();
            if !self.is_new(&fault) {
                continue;
            }
            fault.at = dated(fault.at);
            let key = (fault.code.clone(), fault.gpu, fault.attempt);
            if self.kinds.len() >= KINDS && !self.kinds.contains_key(&key) {
                out.folded = out.folded.saturating_add(fault.count);
                continue;
            }
            let kind = self.kinds.entry(key).or_insert(Kind { reported: None, folded: None });
            let fresh = kind.reported.is_none_or(|t| now.since(t) >= FOLD);
            match &mut kind.folded {
                Some(f) => {
                    f.count = f.count.saturating_add(fault.count);
                    out.folded = out.folded.saturating_add(fault.count);
                }
                none => {
                    if !fresh {
                        out.folded = out.folded.saturating_add(fault.count);
                    }
                    *none = Some(fault);
                }
            }
        }
        out.faults = self.due(now);
        out
    }

    /// What was folded and may be written down by now.
    pub(super) fn due(&mut self, now: Time) -> Vec<ObservedFault> {
        while self.recent.front().is_some_and(|t| now.since(*t) >= FOLD) {
            self.recent.pop_front();
        }
        let mut out = Vec::new();
        for kind in self.kinds.values_mut() {
            let fresh = kind.reported.is_none_or(|t| now.since(t) >= FOLD);
            if self.recent.len() >= MOST {
                break;
            }
            if fresh && let Some(fault) = kind.folded.take() {
                kind.reported = Some(now);
                self.recent.push_back(now);
                out.push(fault);
            }
        }
        self.kinds
            .retain(|_, k| k.folded.is_some() || k.reported.is_some_and(|t| now.since(t) < FOLD));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::fault::{FaultAction, FaultClass, FaultSource};

    fn fault(code: &str, gpu: u32) -> ObservedFault {
        seen(code, gpu, 1)
    }

    fn seen(code: &str, gpu: u32, at: i64) -> ObservedFault {
        ObservedFault {
            code: code.into(),
            at: Time(at),
            count: 1,
            source: FaultSource::Kernel,
            class: FaultClass::Bus,
            action: FaultAction::Reboot,
            gpu: Some(gpu),
            pid: None,
            attempt: None,
            rank: None,
            text: "x".repeat(10_000),
        }
    }

    fn at(s: u64) -> Time {
        Time(1_000_000) + Span::secs(s)
    }

    fn same(t: Time) -> Time {
        t
    }

    #[test]
    fn a_report_that_is_sent_again_is_no_second_fault() {
        let mut g = Gate::default();
        assert_eq!(g.take(vec![fault("xid-79", 2)], at(0), same).faults.len(), 1);
        // After a new connection the agent's clock may be rated differently: it is the same line.
        let again = g.take(vec![fault("xid-79", 2)], at(1), |t| t + Span(7));
        assert_eq!((again.faults.len(), again.folded), (0, 0));
        assert!(g.due(at(60)).is_empty(), "nothing was folded");
        assert!(g.take(vec![fault("xid-79", 2)], at(600), same).faults.is_empty(), "however late");
        assert_eq!(g.take(vec![seen("xid-79", 2, 2)], at(601), same).faults.len(), 1);
        let mut next = Gate::default();
        next.note_logged([fault("xid-79", 2).bounded()].iter());
        assert!(next.take(vec![fault("xid-79", 2)], at(0), same).faults.is_empty());
    }

    #[test]
    fn a_fault_that_could_not_be_written_is_written_when_it_is_sent_again() {
        let mut g = Gate::default();
        let failed = g.take(vec![fault("xid-79", 2)], at(0), same).faults;
        assert_eq!(failed.len(), 1);
        // A repeat comes before it is known that the log could not be written.
        assert!(g.take(vec![seen("xid-79", 2, 2)], at(1), same).faults.is_empty());
        g.put_back(failed);
        let again = g.take(vec![fault("xid-79", 2), seen("xid-79", 2, 2)], at(2), same);
        assert_eq!((again.faults.len(), again.faults[0].count), (1, 2), "each counts once");
        // Nor is it lost when the agent does not send it again.
        g.put_back(again.faults);
        assert_eq!(g.due(at(3)).iter().map(|f| f.count).collect::<Vec<_>>(), [2]);
    }

    #[test]
    fn what_was_put_back_and_is_in_the_log_all_the_same_is_not_written_twice() {
        let mut g = Gate::default();
        let unsure = g.take(vec![fault("xid-79", 2)], at(0), |t| t + Span(7)).faults;
        g.put_back(unsure.clone());
        g.note_logged(unsure.iter());
        assert!(g.take(vec![fault("xid-79", 2)], at(1), same).faults.is_empty());
    }

    #[test]
    fn of_what_is_in_the_log_the_newest_is_recognised() {
        let logged = |n: usize| seen("xid-79", 2, i64::try_from(n).unwrap()).bounded();
        let all: Vec<ObservedFault> = (0..RECEIVED + 10).map(logged).collect();
        let mut g = Gate::default();
        g.note_logged(all.iter());
        let newest = all.last().cloned().into_iter().collect();
        assert!(g.take(newest, at(0), same).faults.is_empty());
        assert_eq!(g.take(vec![all[0].clone()], at(1), same).faults.len(), 1);
    }

    #[test]
    fn the_first_is_reported_at_once_and_repeats_are_folded() {
        let mut g = Gate::default();
        let first = g.take(vec![fault("xid-79", 2)], at(0), same);
        assert_eq!((first.faults.len(), first.folded), (1, 0));
        assert_eq!(first.faults[0].text.len(), 500);
        let mut folded = 0;
        for s in 1..=50 {
            let p = g.take(vec![seen("xid-79", 2, 1 + s)], at(s.unsigned_abs()), same);
            assert!(p.faults.is_empty());
            folded += p.folded;
        }
        assert_eq!(folded, 50);
        let other = g.take(vec![fault("xid-79", 3)], at(51), same);
        assert_eq!(other.faults.len(), 1, "another GPU is new");
        assert!(g.due(at(59)).is_empty());
        let again = g.due(at(60));
        assert_eq!((again.len(), again[0].count), (1, 50));
        assert!(g.due(at(300)).is_empty());
        assert!(g.kinds.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn no_node_can_fill_the_log() {
        let mut g = Gate::default();
        let (mut reported, mut folded) = (0, 0);
        for n in 0..1000 {
            let p = g.take(vec![fault(&format!("xid-{n}"), 0)], at(0), same);
            reported += p.faults.len();
            folded += p.folded;
        }
        assert_eq!(reported, MOST);
        // What found no room any more is only counted; the rest is reported as time goes by.
        assert_eq!(folded, 1000 - KINDS as u64);
        assert_eq!(g.kinds.len(), KINDS);
        let mut late = 0;
        for minute in 1..30 {
            late += g.due(at(60 * minute)).len();
        }
        assert_eq!(late, KINDS - MOST);
    }
}
