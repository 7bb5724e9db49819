//! File systems as the nodes that use them see them.

use super::active_findings::{FindingSubject, Findings, PendingFindings};
use crate::config::{WatchConfig, ms};
use crate::detect::meter::Streak;
use crate::detect::robust::FadingAverage;
use crate::detect::storage::{self, StorageObservation};
use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::units::Time;

/// File systems of a fleet that are watched.
const MOST: usize = 256;
/// Rows that make a past.
const LEARN: u16 = 10;
/// The past fades over so many seconds.
const PAST: f32 = 1800.0;

/// A file system as one node sees it.
#[derive(Debug, Default)]
pub(super) struct Mount {
    /// Its place in the table.
    pub(super) fs: usize,
    usual: [FadingAverage; 3],
    rows: u16,
    slow: Streak,
    pub(super) stalled: bool,
    is_slow: bool,
}

impl Mount {
    /// Takes in a row: whether it stalls and whether it is slow.
    fn take(&mut self, c: &WatchConfig, latency: [f32; 3], waits: f32, at: Time, dt: f32) {
        self.stalled = f64::from(waits) * 1000.0 >= c.stall_after.0 as f64;
        let mut slow = false;
        for (usual, now) in self.usual.iter_mut().zip(latency) {
            let past = usual.get().filter(|_| self.rows >= LEARN);
            if past.is_some_and(|p| storage::is_slow(c, f64::from(now), p)) {
                slow = true;
            } else if now >= 0.0 {
                usual.add(now, dt.max(1.0), if self.rows < LEARN { 10.0 } else { PAST });
            }
        }
        self.rows = self.rows.saturating_add(1);
        self.slow.add(Some(slow), at);
        self.is_slow = self.slow.lasts(3, ms(c.slow_for)) && !self.stalled;
    }
}

/// One file system of the fleet.
#[derive(Debug)]
struct Fs {
    name: String,
    seen: StorageObservation,
    newest: Time,
    findings: Findings,
}

/// All file systems that were reported.
#[derive(Debug, Default)]
pub(super) struct Fleet(Vec<Fs>);

impl Fleet {
    /// The place of a file system, made where there is room for it.
    fn place(&mut self, name: &str) -> Option<usize> {
        if let Some(i) = self.0.iter().position(|f| f.name == name) {
            return Some(i);
        }
        // A place is only given away when nobody is there any more.
        let fs = Fs {
            name: name.to_owned(),
            seen: StorageObservation::default(),
            newest: Time(i64::MIN),
            findings: Findings::default(),
        };
        if let Some(i) = self.0.iter().position(|f| f.seen.nodes == 0 && f.findings.is_empty()) {
            self.0[i] = fs;
            return Some(i);
        }
        (self.0.len() < MOST).then(|| {
            self.0.push(fs);
            self.0.len() - 1
        })
    }

    /// A node uses it from now on.
    pub(super) fn join(&mut self, name: &str) -> Mount {
        let fs = self.place(name).unwrap_or(usize::MAX);
        if let Some(fs) = self.0.get_mut(fs) {
            fs.seen.nodes += 1;
        }
        Mount { fs, ..Mount::default() }
    }

    /// A node does not use it any more.
    pub(super) fn leave(&mut self, mount: &Mount) {
        let Some(fs) = self.0.get_mut(mount.fs) else { return };
        let less = |n: &mut u32, by: bool| *n = n.saturating_sub(u32::from(by));
        less(&mut fs.seen.nodes, true);
        less(&mut fs.seen.stalled, mount.stalled);
        less(&mut fs.seen.slow, mount.is_slow);
    }

    /// Does it answer nobody?
    pub(super) fn stalls(&self, i: usize) -> bool {
        self.0.get(i).is_some_and(|fs| storage::stall(fs.seen).is_bad())
    }

    /// Takes in a row of a node and judges the file system.
    pub(super) fn take(
        &mut self,
        c: &WatchConfig,
        mount: &mut Mount,
        (latency, waits): ([f32; 3], f32),
        (at, dt): (Time, f32),
        news: &mut PendingFindings,
    ) {
        let Some(fs) = self.0.get_mut(mount.fs) else { return };
        let before = (mount.stalled, mount.is_slow);
        mount.take(c, latency, waits, at, dt);
        let change = |n: &mut u32, was: bool, is: bool| match (was, is) {
            (false, true) => *n += 1,
            (true, false) => *n = n.saturating_sub(1),
            _ => {}
        };
        change(&mut fs.seen.stalled, before.0, mount.stalled);
        change(&mut fs.seen.slow, before.1, mount.is_slow);
        let quiet = fs.seen.stalled == 0 && fs.seen.slow == 0;
        if quiet && fs.findings.is_empty() {
            return;
        }
        // Clocks of nodes differ a little; one that is far ahead must not hold things up.
        let ahead = fs.newest.0.saturating_sub(at.0) > 600_000;
        fs.newest = if ahead { at } else { fs.newest.max(at) };
        let when = (fs.newest, ms(c.over_after));
        for (kind, say) in [
            (FailureMode::STORAGE_STALL, storage::stall(fs.seen)),
            (FailureMode::STORAGE_SLOW, storage::slow(fs.seen)),
        ] {
            let entity = || Entity::Storage(fs.name.clone());
            fs.findings.settle(news, kind, entity, say, when, FindingSubject::default());
        }
    }
}
