//! Whose process is it? What the kernel and the driver say about a process names it by number.

use crate::process;
use muster_model::ids::AttemptKey;
use muster_model::placement::GpuSet;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a process is remembered after its slot ended: what is said about it may come late.
const REMEMBER: Duration = Duration::from_secs(60);
/// Processes of one slot that are remembered before the dead ones are forgotten.
const MOST: usize = 4096;
/// A chain of parents longer than this is none.
const DEPTH: usize = 64;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Owner {
    key: AttemptKey,
    rank: u32,
    /// The rank is only assumed: the process does not report it yet.
    assumed: bool,
}

#[derive(Debug)]
struct SlotProcesses {
    first_rank: u32,
    ranks: u32,
    supervisor: Option<i32>,
    about: SlotLabels,
    /// Processes by number, with their rank.
    pids: BTreeMap<i32, u32>,
    /// When its slot ended.
    ended: Option<Instant>,
}

impl SlotProcesses {
    /// GPUs are dealt out to the ranks of a node in order, each the same number.
    fn rank_of_gpu(&self, gpu: u32) -> Option<u32> {
        let place = u32::try_from(self.about.gpus.iter().position(|g| g == gpu)?).ok()?;
        let gpus = u32::try_from(self.about.gpus.iter().count()).ok()?;
        let each = gpus.checked_div(self.ranks).filter(|e| e * self.ranks == gpus && *e > 0)?;
        Some(self.first_rank + place / each)
    }
}

/// What a slot is, for those who name it beside a GPU's figures.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SlotLabels {
    pub(super) name: String,
    pub(super) project: String,
    pub(super) gpus: GpuSet,
}

/// Who holds a GPU.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Holder {
    /// The attempt that was given the GPU.
    pub key: AttemptKey,
    /// The job's name.
    pub name: String,
    /// The project that owns the job.
    pub project: String,
    /// The rank that has this GPU, where it is one rank's.
    pub rank: Option<u32>,
}

/// The processes of all slots of a runner; usable from any thread.
#[derive(Debug, Clone, Default)]
pub struct PidMap(Arc<Mutex<BTreeMap<AttemptKey, SlotProcesses>>>);

impl PidMap {
    /// The attempt and the rank that a process belongs to, or belonged to until a minute ago: a
    /// rank itself, or anything it started. What lost its parents is of the rank that its
    /// environment names, else of the slot's first.
    #[must_use]
    pub fn owner_of(&self, pid: i32) -> Option<(AttemptKey, u32)> {
        let mut at = pid;
        for _ in 0..DEPTH {
            if let Some(owner) = self.known(at, pid) {
                // A process that is just becoming its program has no environment for a moment.
                if !owner.assumed {
                    self.learn(owner, pid);
                }
                return Some((owner.key, owner.rank));
            }
            at = process::parent(at).filter(|p| *p > 1)?;
        }
        None
    }

    /// A process that is known by itself; `of` is whom the question is about.
    fn known(&self, at: i32, of: i32) -> Option<Owner> {
        let all = self.lock();
        // The newest attempt first: numbers are used again.
        let mut newest = all.iter().rev();
        newest.find_map(|(key, held)| {
            let (rank, assumed) = match held.pids.get(&at) {
                Some(rank) => (*rank, false),
                None if held.supervisor == Some(at) && held.ended.is_none() => {
                    let ranks = held.first_rank..held.first_rank + held.ranks;
                    let reported = rank_of(of).filter(|r| ranks.contains(r));
                    (reported.unwrap_or(held.first_rank), reported.is_none())
                }
                None => return None,
            };
            Some(Owner { key: *key, rank, assumed })
        })
    }

    /// Who holds a GPU now. Of several that share it, the first.
    #[must_use]
    pub fn holder_of(&self, gpu: u32) -> Option<Holder> {
        let all = self.lock();
        let mut live = all.iter().filter(|(_, h)| h.ended.is_none());
        let (key, held) = live.find(|(_, h)| h.about.gpus.iter().any(|g| g == gpu))?;
        Some(Holder {
            key: *key,
            name: held.about.name.clone(),
            project: held.about.project.clone(),
            rank: held.rank_of_gpu(gpu),
        })
    }

    /// Every process that is known of an attempt, ranks first.
    #[must_use]
    pub fn of_attempt(&self, key: AttemptKey) -> Vec<i32> {
        self.lock().get(&key).map_or_else(Vec::new, |h| h.pids.keys().copied().collect())
    }

    /// A slot is up: its supervisor, and its ranks in order.
    pub(super) fn add(
        &self,
        key: AttemptKey,
        supervisor: Option<i32>,
        first: u32,
        pids: &[i32],
        about: SlotLabels,
    ) {
        let held = SlotProcesses {
            first_rank: first,
            ranks: u32::try_from(pids.len()).unwrap_or(u32::MAX),
            supervisor,
            about,
            pids: pids.iter().copied().zip(first..).collect(),
            ended: None,
        };
        self.lock().insert(key, held);
    }

    /// Looks who is there, so that one that is short-lived is known when it is asked about.
    pub(super) fn learn_all(&self, pids: impl IntoIterator<Item = i32>) {
        for pid in pids {
            let _known = self.owner_of(pid);
        }
    }

    fn learn(&self, owner: Owner, pid: i32) {
        if let Some(held) = self.lock().get_mut(&owner.key).filter(|h| h.ended.is_none()) {
            if held.pids.len() >= MOST {
                // A job may start processes for months: those that are gone make room.
                held.pids.retain(|p, _| !process::is_free(*p));
            }
            held.pids.entry(pid).or_insert(owner.rank);
        }
    }

    /// A slot is over; drops those that have been over for long.
    pub(super) fn end(&self, key: AttemptKey, now: Instant) {
        let mut all = self.lock();
        if let Some(held) = all.get_mut(&key) {
            held.ended.get_or_insert(now);
        }
        let old = |h: &SlotProcesses| {
            h.ended.is_some_and(|at| now.saturating_duration_since(at) > REMEMBER)
        };
        all.retain(|_, h| !old(h));
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<AttemptKey, SlotProcesses>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The rank that a process was given.
fn rank_of(pid: i32) -> Option<u32> {
    let environ = std::fs::read(format!("/proc/{pid}/environ")).ok()?;
    let value = environ.split(|b| *b == 0).find_map(|v| v.strip_prefix(b"RANK="))?;
    std::str::from_utf8(value).ok()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;

    #[test]
    fn a_process_is_known_by_its_parents_and_for_a_while_after() {
        let map = PidMap::default();
        let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
        let me = std::process::id().cast_signed();
        map.add(key(1), None, 4, &[me - 1_000_000, me], SlotLabels::default());
        let mut child = std::process::Command::new("sleep").arg("100").spawn().unwrap();
        let pid = child.id().cast_signed();
        assert_eq!(map.owner_of(pid), Some((key(1), 5)));
        assert_eq!(map.owner_of(1), None);
        child.kill().unwrap();
        child.wait().unwrap();
        let now = Instant::now();
        map.end(key(1), now);
        assert_eq!(map.owner_of(pid), Some((key(1), 5)), "it was seen while it lived");
        assert!(map.of_attempt(key(1)).contains(&pid));
        map.add(key(2), None, 0, &[pid], SlotLabels::default());
        assert_eq!(map.owner_of(pid), Some((key(2), 0)), "a number that is used again");
        map.end(key(2), now + REMEMBER + Duration::from_millis(1));
        assert!(map.of_attempt(key(1)).is_empty());
    }

    #[test]
    fn a_gpu_belongs_to_the_rank_it_was_dealt_to() {
        let map = PidMap::default();
        let key = AttemptKey { job: JobId(3), attempt: 1 };
        let about =
            || SlotLabels { name: "train".into(), gpus: GpuSet::first(8), ..SlotLabels::default() };
        map.add(key, None, 8, &[-1, -2, -3, -4], about());
        let rank = |gpu| map.holder_of(gpu).map(|h| h.rank);
        assert_eq!(
            [rank(0), rank(3), rank(7), rank(8)],
            [Some(Some(8)), Some(Some(9)), Some(Some(11)), None]
        );
        map.add(key, None, 0, &[-1, -2, -3], about());
        assert_eq!(rank(0), Some(None), "three ranks share eight GPUs");
        map.end(key, Instant::now());
        assert_eq!(map.holder_of(0), None);
    }

    #[test]
    fn what_a_supervisor_adopts_is_known_by_its_environment() {
        let map = PidMap::default();
        let key = AttemptKey { job: JobId(9), attempt: 2 };
        map.add(key, Some(std::process::id().cast_signed()), 2, &[-2, -3], SlotLabels::default());
        for (rank, owner) in [("3", 3), ("17", 2)] {
            let mut child =
                std::process::Command::new("sleep").arg("100").env("RANK", rank).spawn().unwrap();
            let pid = child.id().cast_signed();
            // While it becomes its program it has its parent's environment, and then none. What is
            // assumed meanwhile is not remembered.
            while rank_of(pid).is_none_or(|r| r.to_string() != rank) {
                assert!([Some((key, 2)), Some((key, owner))].contains(&map.owner_of(pid)));
                std::thread::yield_now();
            }
            assert_eq!(map.owner_of(pid), Some((key, owner)));
            child.kill().unwrap();
            child.wait().unwrap();
        }
    }
}
