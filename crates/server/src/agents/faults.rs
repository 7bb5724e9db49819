//! Between what a node tells of faults and the log: a fault is written down at once when it is new,
//! its repeats are folded into one, and no node can fill the log.

use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, VecDeque};

/// Repeats within this time are told as one.
const FOLD: Span = Span::secs(60);
/// Faults of one node that are written down in such a time.
const MOST: usize = 20;
/// Kinds of fault remembered of a node; more are only counted.
const KINDS: usize = 256;

type Key = (String, Option<u32>, Option<AttemptKey>);

#[derive(Debug)]
struct Kind {
    /// When it was last written down; none: never.
    told: Option<Time>,
    folded: Option<ObservedFault>,
}

/// What a node told lately.
#[derive(Debug, Default)]
pub(super) struct Gate {
    kinds: BTreeMap<Key, Kind>,
    /// When the last ones were written down.
    recent: VecDeque<Time>,
}

/// What is to be written down now, and how many faults were not told one by one.
#[derive(Debug, Default)]
pub(super) struct AdmittedFaults {
    pub(super) faults: Vec<ObservedFault>,
    pub(super) folded: u64,
}

impl Gate {
    /// Takes in what a node told, at `now` on a clock that never jumps.
    pub(super) fn take(&mut self, faults: Vec<ObservedFault>, now: Time) -> AdmittedFaults {
        let mut out = AdmittedFaults::default();
        for fault in faults {
            let fault = fault.bounded();
            let key = (fault.code.clone(), fault.gpu, fault.attempt);
            if self.kinds.len() >= KINDS && !self.kinds.contains_key(&key) {
                out.folded = out.folded.saturating_add(fault.count);
                continue;
            }
            let kind = self.kinds.entry(key).or_insert(Kind { told: None, folded: None });
            let fresh = kind.told.is_none_or(|t| now.since(t) >= FOLD);
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
            let fresh = kind.told.is_none_or(|t| now.since(t) >= FOLD);
            if self.recent.len() >= MOST {
                break;
            }
            if fresh && let Some(fault) = kind.folded.take() {
                kind.told = Some(now);
                self.recent.push_back(now);
                out.push(fault);
            }
        }
        self.kinds.retain(|_, k| k.folded.is_some() || k.told.is_some_and(|t| now.since(t) < FOLD));
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::fault::{FaultAction, FaultClass, FaultSource};

    fn fault(code: &str, gpu: u32) -> ObservedFault {
        ObservedFault {
            code: code.into(),
            at: Time(1),
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

    #[test]
    fn the_first_is_told_at_once_and_repeats_are_folded() {
        let mut g = Gate::default();
        let first = g.take(vec![fault("xid-79", 2)], at(0));
        assert_eq!((first.faults.len(), first.folded), (1, 0));
        assert_eq!(first.faults[0].text.len(), 500);
        let mut folded = 0;
        for s in 1..=50 {
            let p = g.take(vec![fault("xid-79", 2)], at(s));
            assert!(p.faults.is_empty());
            folded += p.folded;
        }
        assert_eq!(folded, 50);
        assert_eq!(g.take(vec![fault("xid-79", 3)], at(51)).faults.len(), 1, "another GPU is new");
        assert!(g.due(at(59)).is_empty());
        let again = g.due(at(60));
        assert_eq!((again.len(), again[0].count), (1, 50));
        assert!(g.due(at(300)).is_empty());
        assert!(g.kinds.is_empty(), "what is over is forgotten");
    }

    #[test]
    fn no_node_can_fill_the_log() {
        let mut g = Gate::default();
        let (mut told, mut folded) = (0, 0);
        for n in 0..1000 {
            let p = g.take(vec![fault(&format!("xid-{n}"), 0)], at(0));
            told += p.faults.len();
            folded += p.folded;
        }
        assert_eq!(told, MOST);
        // What found no room any more is only counted; the rest is told as time goes by.
        assert_eq!(folded, 1000 - KINDS as u64);
        assert_eq!(g.kinds.len(), KINDS);
        let mut late = 0;
        for minute in 1..30 {
            late += g.due(at(60 * minute)).len();
        }
        assert_eq!(late, KINDS - MOST);
    }
}
