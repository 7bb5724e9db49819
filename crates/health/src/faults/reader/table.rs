//! Repeats become few reports: the first at once, then summaries ever further apart.

use super::super::code::Code;
use super::super::pci::Pci;
use super::fault_report::{FaultReport, shown};
use super::rules::{LineVerdict, Note};
use muster_model::fault::{FaultAction, FaultClass, FaultSource};
use muster_model::units::Time;
use std::collections::BTreeMap;

/// The first summary comes after this; each further one after twice as long.
const FIRST_GAP: u64 = 5_000;
/// Summaries are never further apart than this. What is silent for as long is reported afresh.
const LAST_GAP: u64 = 60_000;
/// Processes of one device that are distinguished.
const PIDS: usize = 16;
/// The same where a fault is about nothing but a process: each may be another job's.
const PIDS_ALONE: usize = 128;
/// Faults that are distinguished.
const MOST: usize = 2_048;
/// Beyond that, one for each code of the catalogue, whatever the device.
const RESERVE: usize = 512;
/// Reports that wait for somebody to take them.
const WAITING: usize = 4_096;
/// A full table is not searched for room more often than this.
const SWEEP: u64 = 1_000;
/// When nothing else can be distinguished.
const FLOOD: Code = Code::Other("fault-flood");

/// What makes two lines the same fault.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Key {
    pub(super) code: Code,
    pub(super) pci: Option<Pci>,
    /// Stands for the device's name; 0 for none.
    pub(super) name: u64,
    pub(super) pid: Option<i32>,
}

/// A line that is to be reported.
pub(super) struct LineReport<'a> {
    pub(super) at: Time,
    /// 0 where it was counted before.
    pub(super) count: u64,
    pub(super) source: FaultSource,
    pub(super) device: Option<&'a str>,
    pub(super) process: Option<&'a [u8]>,
    pub(super) body: &'a [u8],
    pub(super) judged: LineVerdict,
}

#[derive(Debug)]
struct Open {
    seen: FaultReport,
    /// Lines since the last report.
    pending: u64,
    first_pending: Time,
    last: Time,
    /// The rest in milliseconds passed.
    last_passed: u64,
    due: u64,
    gap: u64,
    note: Note,
    /// Nothing was reported of it yet, for want of room.
    unreported: bool,
}

/// The faults that are open, and the reports that wait.
#[derive(Debug, Default)]
pub(super) struct Table {
    open: BTreeMap<Key, Open>,
    out: Vec<FaultReport>,
    /// Lines that could not be distinguished since the table was last full.
    folded: u64,
    /// When there is next a point in looking for what can be forgotten.
    sweep_due: u64,
}

impl Table {
    /// Whether a fault is open for a device, of whatever process.
    pub(super) fn is_open(&self, code: Code, pci: Option<Pci>) -> bool {
        self.any_of(code, pci).next().is_some()
    }

    fn any_of(&self, code: Code, pci: Option<Pci>) -> impl Iterator<Item = &Key> {
        // Without an address any device will do.
        let low = Key { code, pci, name: 0, pid: None };
        let fits = move |k: &&Key| k.code == code && (pci.is_none() || k.pci == pci);
        self.open.range(low..).map(|(k, _)| k).take_while(fits)
    }

    /// Forgets what waits to be reported of a fault that ended.
    pub(super) fn end(&mut self, code: Code, pci: Option<Pci>) {
        let keys: Vec<Key> = self.any_of(code, pci).copied().collect();
        for k in keys {
            self.open.remove(&k);
        }
    }

    /// Whether lines could not be distinguished because there were too many different ones.
    pub(super) fn folded(&self) -> u64 {
        self.folded
    }

    /// Whether a report waits.
    pub(super) fn waits(&self) -> bool {
        !self.out.is_empty()
    }

    /// When the next summary is due, in milliseconds passed.
    pub(super) fn due(&self) -> Option<u64> {
        self.open.values().filter(|o| o.pending > 0).map(|o| o.due).min()
    }

    /// Adds a line.
    pub(super) fn add(&mut self, key: Key, reported: LineReport<'_>, known: bool, passed: u64) {
        let (key, folded) = self.room(key, known, passed);
        let Some(o) = self.open.get_mut(&key) else {
            return self.first(key, reported, folded, passed);
        };
        if o.pending == 0 {
            o.first_pending = reported.at;
        }
        o.pending = o.pending.saturating_add(reported.count);
        o.last = reported.at;
        o.last_passed = passed;
        let heavier = reported.judged.action > o.seen.action;
        if heavier {
            // It asks for more than was reported: that cannot wait.
            o.seen.action = reported.judged.action;
            o.seen.class = reported.judged.class;
            o.note = reported.judged.note;
            o.seen.text = shown(reported.body);
        }
        if (heavier || passed >= o.due && o.pending > 0) && self.out.len() < WAITING {
            let seen = report(o, heavier, passed);
            self.out.push(seen);
        } else if heavier {
            o.due = passed;
            o.pending = o.pending.max(1);
        }
    }

    /// The key that a line is counted under, its own where there is room; and whether it is not.
    fn room(&mut self, key: Key, known: bool, passed: u64) -> (Key, bool) {
        if self.open.contains_key(&key) {
            return (key, false);
        }
        let mut key = key;
        if key.pid.is_some() {
            let all = Key { pid: None, ..key };
            let same = |k: &Key| Key { pid: None, ..*k } == all;
            let alone = key.pci.is_none() && key.name == 0;
            let most = if alone { PIDS_ALONE } else { PIDS };
            let others = self.open.range(all..).take_while(|(k, _)| same(k)).take(most).count();
            if others >= most {
                key.pid = None;
            }
        }
        if self.open.len() < MOST || self.open.contains_key(&key) {
            return (key, false);
        }
        if passed >= self.sweep_due {
            self.sweep(passed);
            self.sweep_due = passed.saturating_add(SWEEP);
        }
        if self.open.len() < MOST {
            return (key, false);
        }
        self.folded = self.folded.saturating_add(1);
        let code = if known && self.open.len() < MOST + RESERVE { key.code } else { FLOOD };
        (Key { code, pci: None, name: 0, pid: None }, true)
    }

    fn first(&mut self, key: Key, reported: LineReport<'_>, folded: bool, passed: u64) {
        let flood = key.code == FLOOD;
        let LineVerdict { class, action, note, ends } = reported.judged;
        let seen = FaultReport {
            code: key.code,
            first: reported.at,
            last: reported.at,
            count: reported.count,
            source: reported.source,
            class: if flood { FaultClass::Notice } else { class },
            action: if flood { FaultAction::Watch } else { action },
            pci: key.pci,
            device: reported.device.filter(|_| key.name != 0).map(str::to_owned),
            pid: key.pid,
            process: key.pid.and(reported.process).map(shown),
            text: shown(reported.body),
            detail: None,
            fresh: reported.count > 0,
            ends,
        };
        let note = if folded && note == Note::None { Note::Folded } else { note };
        let reported_now = self.out.len() < WAITING;
        if reported_now {
            self.out.push(FaultReport { detail: note.words(), ..seen.clone() });
        }
        let open = Open {
            seen,
            pending: if reported_now { 0 } else { reported.count.max(1) },
            first_pending: reported.at,
            last: reported.at,
            last_passed: passed,
            due: if reported_now { passed.saturating_add(FIRST_GAP) } else { passed },
            gap: FIRST_GAP,
            note,
            unreported: !reported_now,
        };
        self.open.insert(key, open);
    }

    /// What is to be reported now.
    pub(super) fn take(&mut self, passed: u64) -> Vec<FaultReport> {
        let mut out = std::mem::take(&mut self.out);
        for o in self.open.values_mut().filter(|o| o.pending > 0 && o.due <= passed) {
            out.push(report(o, false, passed));
        }
        self.sweep(passed);
        if self.open.len() < MOST {
            self.folded = 0;
        }
        out
    }

    /// Forgets what has been silent for long and is reported.
    fn sweep(&mut self, passed: u64) {
        self.open.retain(|_, o| o.pending > 0 || passed.saturating_sub(o.last_passed) < LAST_GAP);
    }
}

fn report(o: &mut Open, fresh: bool, passed: u64) -> FaultReport {
    let seen = FaultReport {
        first: o.first_pending,
        last: o.last,
        count: o.pending,
        detail: o.note.words(),
        fresh: fresh || o.unreported,
        ..o.seen.clone()
    };
    o.unreported = false;
    o.pending = 0;
    o.gap = o.gap.saturating_mul(2).min(LAST_GAP);
    o.due = passed.saturating_add(o.gap);
    seen
}
