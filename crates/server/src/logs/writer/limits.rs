//! What keeps the output of one job from taking what all need: the disk, and the space for the output of
//! others. No job is stopped for that; only less of its output is stored.

use super::super::no_space;
use super::{StreamId, StreamLog, Writer, attempts, disk_use};
use muster_model::ids::AttemptKey;
use std::fs;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// What a stream may have whatever the others of its attempt have: its beginning and its newest.
const LEAST: u64 = 512 << 10;
/// Between two looks at the free space, and what may come meanwhile.
const LOOK: Duration = Duration::from_secs(2);
const LOOK_BYTES: u64 = 4 << 20;
/// Between two looks for output that can be removed, where the last one found too little.
const AGAIN: Duration = Duration::from_secs(10);

/// What was found out about the limits.
#[derive(Debug)]
pub(super) struct Limits {
    /// When the free space was last looked at, and what has come since.
    looked: Option<Instant>,
    since: u64,
    /// Too little was free.
    short: bool,
    /// Removing the output of ended attempts did not help then.
    vain: Option<Instant>,
    /// Most of one attempt while those that run have more than all may have.
    share: u64,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { looked: None, since: 0, short: false, vain: None, share: u64::MAX }
    }
}

impl Writer {
    /// Most that a stream of this attempt may have now.
    pub(super) fn cap_of(&self, key: AttemptKey) -> u64 {
        let config = self.shared.config;
        let most = config.per_attempt.min(self.limits.share);
        let known = self.shared.index().get(&self.shared, key).map(|a| (a.bytes, a.streams.len()));
        let (used, streams) = known.unwrap_or_default();
        // From half of it on each stream has its part: those of others may still come.
        let share = if used <= most / 2 {
            config.per_stream
        } else if used <= most.saturating_mul(2) {
            most / u64::try_from(streams).unwrap_or(u64::MAX).max(1)
        } else {
            0
        };
        config.per_stream.min(share.max(LEAST))
    }

    /// Whether there is too little free space for more output. First the output of ended attempts goes.
    pub(super) fn is_short(&mut self, more: usize) -> bool {
        let reserve = self.shared.config.reserve;
        if reserve == 0 {
            return false;
        }
        let limits = &mut self.limits;
        limits.since = limits.since.saturating_add(more as u64);
        let fresh = limits.looked.is_some_and(|at| at.elapsed() < LOOK);
        if fresh && limits.since < LOOK_BYTES {
            return limits.short;
        }
        // Clearly more must be free before output is stored again.
        let ample = reserve.saturating_add(reserve / 8);
        let least = if limits.short { ample } else { reserve };
        let mut short = self.lacks(least);
        if short && self.limits.vain.is_none_or(|at| at.elapsed() >= AGAIN) {
            self.remove_oldest(|w| !w.lacks(ample));
            short = self.lacks(least);
            self.limits.vain = short.then(Instant::now);
        }
        self.limits.short = short;
        (self.limits.looked, self.limits.since) = (Some(Instant::now()), 0);
        short
    }

    /// Whether less than this is free on the disk; not where the system does not say.
    fn lacks(&self, least: u64) -> bool {
        let disk = rustix::fs::statvfs(&self.shared.dir);
        disk.is_ok_and(|d| d.f_bavail.saturating_mul(d.f_frsize) < least)
    }

    /// Notes that free space was short, where that begins.
    pub(super) fn note_short(&self, (key, rank, stream): StreamId, log: &StreamLog) {
        if log.taken != log.segments.last().map_or(0, |s| s.end()) {
            return;
        }
        let dir = self.shared.attempt_dir(key);
        match no_space::note(&dir, rank, stream, log.taken) {
            Ok(more) => {
                self.shared.bytes.fetch_add(more, Ordering::Relaxed);
            }
            Err(e) => tracing::debug!(dir = %dir.display(), error = %e, "cannot note a gap"),
        }
    }

    /// Whether there may be output to remove.
    pub(super) fn must_prune(&self) -> bool {
        let full = self.limits.share < u64::MAX;
        self.stored() > self.prune_at
            || (full && self.limits.vain.is_none_or(|at| at.elapsed() >= AGAIN))
    }

    fn stored(&self) -> u64 {
        self.shared.bytes.load(Ordering::Relaxed)
    }

    /// Removes the output of the oldest finished attempts until a tenth of the cap is free.
    pub(super) fn prune(&mut self) {
        let total = self.shared.config.total;
        let goal = total - total / 10;
        let alive = self.remove_oldest(|w| w.stored() <= goal);
        // When everything left is alive, looking again at each chunk would not help: then each that
        // runs has its share.
        let now = self.stored();
        self.prune_at = if now > total { now.saturating_add(total / 10) } else { total };
        self.limits.share = if now > total { total / alive.max(1) } else { u64::MAX };
        self.limits.vain = (now > total).then(Instant::now);
    }

    /// Removes the output of finished attempts, the oldest first, until it is `enough`. How many attempts
    /// that it met still run.
    fn remove_oldest(&mut self, enough: impl Fn(&Writer) -> bool) -> u64 {
        let mut attempts = attempts(&self.shared.dir);
        attempts.sort_unstable();
        let mut alive = 0;
        for (key, dir) in attempts {
            if enough(&*self) {
                break;
            }
            // An attempt of the same number of another life is over.
            let own = dir == self.shared.attempt_dir(key);
            if own && (self.shared.live)(key) {
                alive += 1;
                continue;
            }
            let freed = disk_use(&dir);
            if let Err(e) = fs::remove_dir_all(&dir) {
                tracing::warn!(path = %dir.display(), error = %e, "cannot remove old output");
                continue;
            }
            if own {
                self.files.retain(|id, _| id.0 != key);
                self.shared.index().forget(key);
            }
            self.shared.bytes.fetch_sub(freed, Ordering::Relaxed);
            self.shared.noted.removed();
            tracing::info!(attempt = %key, bytes = freed, "removed old output to free space");
        }
        alive
    }
}
