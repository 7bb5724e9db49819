//! Buckets that keep one caller from taking the server from everybody else.

use std::collections::HashMap;
use std::hash::{BuildHasher, Hash, RandomState};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// So many a second, and so many at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    /// Refilled each second. With 0 a caller has its burst and never more.
    pub per_second: u32,
    /// Held at most.
    pub burst: u32,
}

const SHARDS: usize = 16;
/// Callers remembered per shard; beyond it those whose bucket is full again are forgotten.
const REMEMBERED: usize = 4096;

/// The answer to who waits for a bucket that is never filled again.
const NEVER: Duration = Duration::from_secs(24 * 3600);

struct Bucket {
    /// Thousandths of a request.
    level: u64,
    at: Instant,
}

/// One bucket for each caller.
pub(crate) struct Buckets<K> {
    rate: Rate,
    hasher: RandomState,
    shards: [Mutex<HashMap<K, Bucket>>; SHARDS],
}

impl<K: Hash + Eq + Clone> Buckets<K> {
    pub(crate) fn new(rate: Rate) -> Self {
        let rate = Rate { burst: rate.burst.max(1), ..rate };
        Buckets {
            rate,
            hasher: RandomState::new(),
            shards: std::array::from_fn(|_| Mutex::default()),
        }
    }

    fn full(&self) -> u64 {
        u64::from(self.rate.burst) * 1000
    }

    fn level(&self, b: &Bucket, now: Instant) -> u64 {
        let ms = u64::try_from(now.saturating_duration_since(b.at).as_millis()).unwrap_or(u64::MAX);
        let refill = ms.saturating_mul(u64::from(self.rate.per_second));
        b.level.saturating_add(refill).min(self.full())
    }

    /// Takes one; or says how long to wait until there is one.
    pub(crate) fn take(&self, who: &K, now: Instant) -> Result<(), Duration> {
        self.take_many(who, 1, now)
    }

    /// Takes so many, or none: then it says how long to wait until there are so many. Who asks for
    /// more than a bucket holds takes all of it.
    pub(crate) fn take_many(&self, who: &K, count: usize, now: Instant) -> Result<(), Duration> {
        let count = u64::try_from(count).unwrap_or(u64::MAX).saturating_mul(1000).min(self.full());
        let shard = usize::try_from(self.hasher.hash_one(who) % SHARDS as u64).unwrap_or(0);
        let mut shard = self.shards[shard].lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(b) = shard.get_mut(who) {
            let level = self.level(b, now);
            if level < count {
                let wait = match u64::from(self.rate.per_second) {
                    0 => NEVER,
                    per_second => {
                        Duration::from_millis((count - level).div_ceil(per_second).max(1))
                    }
                };
                return Err(wait);
            }
            // The clock of a bucket only moves when a whole millisecond was credited, so that
            // many calls within one millisecond do not starve it of its refill.
            if now.saturating_duration_since(b.at) >= Duration::from_millis(1) {
                b.at = now;
            }
            b.level = level - count;
            return Ok(());
        }
        if shard.len() >= REMEMBERED {
            let full = self.full();
            shard.retain(|_, b| self.level(b, now) < full);
            // Still full of busy callers: forgetting them all is better than growing for ever.
            if shard.len() >= REMEMBERED {
                shard.clear();
            }
        }
        shard.insert(who.clone(), Bucket { level: self.full() - count, at: now });
        Ok(())
    }
}

/// How many things of each caller are under way at once.
pub(crate) struct InFlightCounts<K> {
    most: usize,
    held: Mutex<HashMap<K, usize>>,
}

/// One thing under way; over when dropped.
pub(crate) struct InFlightGuard<K: Hash + Eq> {
    of: Arc<InFlightCounts<K>>,
    who: K,
}

impl<K: Hash + Eq + Clone> InFlightCounts<K> {
    pub(crate) fn new(most: usize) -> Arc<Self> {
        Arc::new(InFlightCounts { most, held: Mutex::default() })
    }

    /// One more of this caller's; none when that is too many.
    pub(crate) fn begin(self: &Arc<Self>, who: K) -> Option<InFlightGuard<K>> {
        let mut held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        match held.get_mut(&who) {
            Some(count) if *count >= self.most => return None,
            Some(count) => *count += 1,
            None if self.most == 0 => return None,
            None => {
                held.insert(who.clone(), 1);
            }
        }
        Some(InFlightGuard { of: Arc::clone(self), who })
    }

    /// How many of this caller's there are.
    #[cfg(test)]
    pub(crate) fn count(&self, who: &K) -> usize {
        let held = self.held.lock().unwrap_or_else(PoisonError::into_inner);
        held.get(who).copied().unwrap_or(0)
    }
}

impl<K: Hash + Eq> Drop for InFlightGuard<K> {
    fn drop(&mut self) {
        let mut held = self.of.held.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(count) = held.get_mut(&self.who) {
            *count -= 1;
            if *count == 0 {
                held.remove(&self.who);
            }
        }
    }
}

/// Callers whose semaphores are kept, before those that nobody uses are forgotten.
const CALLERS: usize = 1024;

/// A semaphore for each caller, kept while somebody holds or waits for some of it.
#[derive(Default)]
pub(crate) struct PerCaller(Mutex<HashMap<String, Weak<Semaphore>>>);

impl PerCaller {
    /// This caller's; with so many permits when it is new.
    pub(crate) fn of(&self, who: &str, permits: usize) -> Arc<Semaphore> {
        let mut all = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(own) = all.get(who).and_then(Weak::upgrade) {
            return own;
        }
        if all.len() >= CALLERS {
            all.retain(|_, s| s.strong_count() > 0);
        }
        let own = Arc::new(Semaphore::new(permits.min(Semaphore::MAX_PERMITS)));
        all.insert(who.to_owned(), Arc::downgrade(&own));
        own
    }
}

/// Turns at heavy work: as many at once as there are cores but at least two, and half of them for one
/// caller, so that what another asks for does not wait behind all that one has asked for.
pub(crate) struct Heavy {
    all: Arc<Semaphore>,
    each: usize,
    own: PerCaller,
}

/// A turn at heavy work; over when dropped.
pub(crate) struct HeavyWorkPermit {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Heavy {
    pub(crate) fn new(most: usize) -> Heavy {
        let most = most.max(2);
        let all = Arc::new(Semaphore::new(most));
        Heavy { all, each: (most / 2).max(1), own: PerCaller::default() }
    }

    /// Waits for a turn; none if the semaphores were closed, which nothing does.
    pub(crate) async fn turn(&self, who: &str) -> Option<HeavyWorkPermit> {
        // The caller's own first: whoever waits for that is in nobody's way.
        let own = self.own.of(who, self.each).acquire_owned().await.ok()?;
        let all = Arc::clone(&self.all).acquire_owned().await.ok()?;
        Some(HeavyWorkPermit { _own: own, _all: all })
    }
}

/// Where a request puts its place among its token's, once the token is known. It is held until the
/// head of the answer is known; of an answer that is no stream, by whoever sends it until it is sent:
/// they find it among its extensions.
#[derive(Clone, Default)]
pub struct TokenPlace(pub(crate) Arc<OnceLock<InFlightGuard<String>>>);

/// A place for one stream, of all and of its token's.
pub(crate) struct StreamPermit {
    pub(crate) _all: OwnedSemaphorePermit,
    pub(crate) _own: InFlightGuard<String>,
}

/// A place for one body that has not come whole yet.
pub(crate) struct BodyPermit {
    pub(crate) _all: OwnedSemaphorePermit,
    pub(crate) _token: Option<InFlightGuard<String>>,
    pub(crate) _address: InFlightGuard<IpAddr>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_passes_then_the_rate_holds() {
        let b = Buckets::new(Rate { per_second: 10, burst: 3 });
        let t = Instant::now();
        for _ in 0..3 {
            assert!(b.take(&"a", t).is_ok());
        }
        let wait = b.take(&"a", t).unwrap_err();
        assert_eq!(wait, Duration::from_millis(100));
        assert!(b.take(&"b", t).is_ok(), "others are not held up");
        assert!(b.take(&"a", t + Duration::from_millis(100)).is_ok());
        assert!(b.take(&"a", t + Duration::from_millis(101)).is_err());
    }

    #[test]
    fn what_counts_many_times_takes_many_or_none() {
        let b = Buckets::new(Rate { per_second: 10, burst: 30 });
        let t = Instant::now();
        assert!(b.take_many(&"a", 20, t).is_ok());
        assert_eq!(b.take_many(&"a", 20, t).unwrap_err(), Duration::from_secs(1));
        assert!(b.take_many(&"a", 10, t).is_ok(), "what was refused took nothing");
        assert!(b.take_many(&"b", 1000, t).is_ok(), "all of it, where it is more than that");
        assert!(b.take(&"b", t).is_err());
    }

    #[test]
    fn what_is_under_way_is_counted_for_each_caller_until_it_is_over() {
        let all = InFlightCounts::new(2);
        let first = all.begin("a").unwrap();
        let _second = all.begin("a").unwrap();
        assert!(all.begin("a").is_none());
        let other = all.begin("b").unwrap();
        drop(first);
        assert!(all.begin("a").is_some(), "one is over");
        drop(other);
        assert_eq!(
            (all.count(&"a"), all.held.lock().unwrap().len()),
            (1, 1),
            "nothing is kept of b"
        );
    }

    #[tokio::test]
    async fn heavy_work_of_one_caller_leaves_turns_to_the_others() {
        let heavy = Heavy::new(4);
        let first = heavy.turn("a").await.unwrap();
        let _second = heavy.turn("a").await.unwrap();
        let third = heavy.turn("a");
        tokio::pin!(third);
        assert!(futures::poll!(third.as_mut()).is_pending(), "a has its half");
        let _other = heavy.turn("b").await.unwrap();
        drop(first);
        assert!(third.await.is_some());
    }

    #[test]
    fn the_table_does_not_grow_without_bound() {
        let b = Buckets::new(Rate { per_second: 1, burst: 2 });
        let t = Instant::now();
        for i in 0..200_000u32 {
            let _ = b.take(&i, t);
        }
        let held: usize = b.shards.iter().map(|s| s.lock().unwrap().len()).sum();
        assert!(held <= SHARDS * REMEMBERED, "{held}");
    }

    #[test]
    fn calls_within_one_millisecond_do_not_starve_the_refill() {
        let b = Buckets::new(Rate { per_second: 1000, burst: 1 });
        let t = Instant::now();
        let mut passed = 0;
        for us in (0..1_000_000u64).step_by(100) {
            passed += u32::from(b.take(&(), t + Duration::from_micros(us)).is_ok());
        }
        assert!((900..=1001).contains(&passed), "{passed}");
    }
}
