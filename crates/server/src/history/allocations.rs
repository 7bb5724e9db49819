//! Which GPUs were allocated to which attempt, for as long as their metrics are kept: the state
//! forgets it with the end of the attempt. One line of JSON for each, in a file next to the metrics.

use muster_model::ids::{AttemptKey, JobId};
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::placement::{GpuSet, Placement};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// As long as the longest metrics.
const KEPT: Span = Span::hours(24 * 90);
/// Attempts at a time that have a number for their steps.
const MOST_LINES: u32 = 65_536;
/// Bytes of the file; then the older half goes.
const MOST_BYTES: u64 = 64 << 20;

/// The GPUs of an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Allocation {
    /// The job.
    pub job: JobId,
    /// Which attempt of it.
    pub attempt: u32,
    /// When it was placed; with this it is the same attempt for certain.
    pub placed_at: Time,
    /// The GPUs, node by node.
    pub slots: Vec<AllocatedGpus>,
    /// Where its step times are; none where an older version noted it, or there were too many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub steps: Option<StepLine>,
}

/// Where the step times of an attempt are. Others have the same number before and after it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct StepLine {
    /// The number.
    pub line: u32,
    /// Since when it is this attempt's.
    pub from: Time,
}

/// GPUs of one node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AllocatedGpus {
    /// The node.
    pub node: NodeName,
    /// Which of its GPUs.
    pub gpus: GpuSet,
    /// Only a part of them: others may have the rest at the same time.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub shared: bool,
}

/// All that are known.
#[derive(Debug)]
pub(super) struct Allocations {
    path: PathBuf,
    file: File,
    bytes: u64,
    by_job: BTreeMap<JobId, Vec<Arc<Allocation>>>,
    /// When GPUs of a node were allocated, to whomever; in order.
    by_node: BTreeMap<NodeName, Vec<(Time, GpuSet)>>,
    /// Since when numbers of steps were attempts', whichever; in order.
    by_line: BTreeMap<u32, Vec<Time>>,
    /// The numbers of the attempts that are there now.
    lines: BTreeMap<AttemptKey, u32>,
    used: BTreeSet<u32>,
    /// All numbers before it are used.
    unused_from: u32,
}

fn append_to(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).open(path)
}

fn line(a: &Allocation) -> io::Result<Vec<u8>> {
    let mut out = serde_json::to_vec(a)?;
    out.push(b'\n');
    Ok(out)
}

/// Writes behind so many bytes: all of it, or nothing. Half a line would spoil the next one.
fn write_or_undo(
    file: &mut File,
    length: u64,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let written = write(file);
    if written.is_err() {
        // Where this fails too, the next line is left out when the file is read.
        let _ = file.set_len(length);
    }
    written
}

impl Allocations {
    /// Reads the file; what is too old or makes no sense is left out.
    pub(super) fn open(path: &Path, now: Time) -> io::Result<Allocations> {
        let text = match fs::read(path) {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Vec::new(),
            read => read?,
        };
        let lines: Vec<&[u8]> = text.split(|b| *b == b'\n').filter(|l| !l.is_empty()).collect();
        let all = lines.iter().filter_map(|l| serde_json::from_slice::<Allocation>(l).ok());
        let kept: Vec<Arc<Allocation>> =
            all.filter(|a| now.since(a.placed_at) < KEPT).map(Arc::new).collect();
        let torn = text.last().is_some_and(|b| *b != b'\n');
        let mut out = Allocations {
            path: path.into(),
            file: append_to(path)?,
            bytes: text.len() as u64,
            by_job: BTreeMap::new(),
            by_node: BTreeMap::new(),
            by_line: BTreeMap::new(),
            lines: BTreeMap::new(),
            used: BTreeSet::new(),
            unused_from: 0,
        };
        // A full disk refuses to have it written anew, and may still be read.
        if torn || kept.len() < lines.len() {
            out.rewrite(kept)?;
        } else {
            kept.into_iter().for_each(|a| out.index(a));
        }
        Ok(out)
    }

    /// Begins the file anew with these.
    fn rewrite(&mut self, all: Vec<Arc<Allocation>>) -> io::Result<()> {
        let tmp = self.path.with_extension("new");
        let mut bytes = Vec::new();
        for a in &all {
            bytes.extend(line(a)?);
        }
        fs::write(&tmp, &bytes)?;
        fs::rename(&tmp, &self.path)?;
        self.file = append_to(&self.path)?;
        self.bytes = bytes.len() as u64;
        self.by_job.clear();
        self.by_node.clear();
        self.by_line.clear();
        all.into_iter().for_each(|a| self.index(a));
        Ok(())
    }

    fn index(&mut self, a: Arc<Allocation>) {
        for slot in &a.slots {
            let node = self.by_node.entry(slot.node.clone()).or_default();
            let at = node.partition_point(|(at, _)| *at <= a.placed_at);
            node.insert(at, (a.placed_at, slot.gpus));
        }
        if let Some(steps) = a.steps {
            let line = self.by_line.entry(steps.line).or_default();
            line.insert(line.partition_point(|at| *at <= steps.from), steps.from);
        }
        self.by_job.entry(a.job).or_default().push(a);
    }

    /// Until when a number of steps was an attempt's; for ever where nobody had it after.
    pub(super) fn steps_until(&self, steps: StepLine) -> Time {
        let all = self.by_line.get(&steps.line).map_or(&[][..], Vec::as_slice);
        let next = all.get(all.partition_point(|at| *at <= steps.from)..).and_then(<[_]>::first);
        next.copied().unwrap_or(Time(i64::MAX))
    }

    /// The number of an attempt's steps, while it is there.
    pub(super) fn line_of(&self, key: AttemptKey) -> Option<u32> {
        self.lines.get(&key).copied()
    }

    /// These are all that have an attempt: the numbers of others are for new ones.
    pub(super) fn settle(&mut self, placed: &[Arc<Job>]) {
        let line = |job: &Arc<Job>| {
            let a = job.attempt.as_ref()?;
            let known = self.find(job.id, a.no, a.placed_at)?;
            Some((AttemptKey { job: job.id, attempt: a.no }, known.steps?.line))
        };
        self.lines = placed.iter().filter_map(line).collect();
        self.used = self.lines.values().copied().collect();
        self.unused_from = 0;
    }

    /// A number that no attempt has now.
    fn unused_line(&mut self) -> Option<u32> {
        while self.used.contains(&self.unused_from) {
            self.unused_from += 1;
        }
        (self.unused_from < MOST_LINES).then_some(self.unused_from)
    }

    /// When a GPU was next allocated after this; from then on it is another attempt's.
    pub(super) fn next_after(&self, node: &NodeName, gpu: u32, after: Time) -> Option<Time> {
        let all = self.by_node.get(node)?;
        let mut later = all.iter().skip(all.partition_point(|(at, _)| *at <= after));
        let next = later.find(|(_, gpus)| gpus.iter().any(|g| g == gpu));
        next.map(|(at, _)| *at)
    }

    fn find(&self, job: JobId, attempt: u32, placed_at: Time) -> Option<&Arc<Allocation>> {
        let same = |a: &&Arc<Allocation>| a.attempt == attempt && a.placed_at == placed_at;
        self.by_job.get(&job)?.iter().find(same)
    }

    fn knows(&self, job: JobId, attempt: u32, placed_at: Time) -> bool {
        self.find(job, attempt, placed_at).is_some()
    }

    /// Is the present attempt of a job still to be noted?
    pub(super) fn is_missing_attempt(&self, job: &Job) -> bool {
        job.attempt.as_ref().is_some_and(|a| !self.knows(job.id, a.no, a.placed_at))
    }

    /// Notes the present attempt of a job, unless it is known.
    pub(super) fn note(&mut self, job: &Job, now: Time) -> io::Result<()> {
        match &job.attempt {
            Some(a) if !self.knows(job.id, a.no, a.placed_at) => {
                self.add(job.id, a.no, a.placed_at, &a.placement, now)
            }
            _ => Ok(()),
        }
    }

    fn add(
        &mut self,
        job: JobId,
        no: u32,
        at: Time,
        placement: &Placement,
        now: Time,
    ) -> io::Result<()> {
        let slots = placement.slots.iter().filter(|s| !s.gpus.is_empty());
        let slots = slots.map(|s| AllocatedGpus {
            node: s.node.clone(),
            gpus: s.gpus,
            shared: s.part.is_some(),
        });
        let slots = slots.collect();
        let steps = self.unused_line().map(|line| StepLine { line, from: now });
        let new = Allocation { job, attempt: no, placed_at: at, slots, steps };
        let bytes = line(&new)?;
        if self.bytes.saturating_add(bytes.len() as u64) > MOST_BYTES {
            let mut all: Vec<_> = self.by_job.values().flatten().cloned().collect();
            all.sort_by_key(|a| a.placed_at);
            all.drain(..all.len().div_ceil(2));
            self.rewrite(all)?;
        }
        write_or_undo(&mut self.file, self.bytes, |file| file.write_all(&bytes))?;
        self.bytes += bytes.len() as u64;
        if let Some(steps) = new.steps {
            self.used.insert(steps.line);
            self.lines.insert(AttemptKey { job, attempt: no }, steps.line);
        }
        self.index(Arc::new(new));
        Ok(())
    }

    /// The attempts of a job.
    pub(super) fn of(&self, job: JobId) -> Vec<Arc<Allocation>> {
        self.by_job.get(&job).cloned().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::placement::{Fabric, Slot};
    use muster_model::topology::Level;
    use muster_model::units::Bytes;

    fn placement(gpus: u32) -> Placement {
        let slot = Slot {
            node: "n1".parse().unwrap(),
            group: 0,
            node_rank: 0,
            first_rank: 0,
            ranks: 1,
            gpus: GpuSet::first(gpus),
            cpus: 8,
            memory: Bytes(1),
            part: None,
        };
        Placement {
            slots: vec![slot],
            port: 1,
            domain: String::new(),
            level: Level::Leaf,
            fabric: Fabric::default(),
            cap_watts: None,
            checkpoint_every: None,
        }
    }

    #[test]
    fn what_was_allocated_is_known_after_a_restart_and_forgotten_with_its_metrics() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocations");
        let now = Time(1_000_000_000_000);
        let (old, new) = (now - KEPT, now - Span::hours(1));
        let mut all = Allocations::open(&path, now).unwrap();
        all.add(JobId(1), 1, old, &placement(8), now).unwrap();
        all.add(JobId(2), 1, new, &placement(4), now).unwrap();
        all.add(JobId(2), 2, now, &placement(2), now).unwrap();
        assert!(all.knows(JobId(2), 1, new) && !all.knows(JobId(2), 1, now));
        drop(all);
        // A line that was cut off by a crash.
        let mut text = fs::read(&path).unwrap();
        text.extend(b"{\"job\":3,\"att");
        fs::write(&path, text).unwrap();
        let mut all = Allocations::open(&path, now).unwrap();
        assert!(all.of(JobId(1)).is_empty() && all.of(JobId(3)).is_empty());
        let gpus: Vec<u32> = all.of(JobId(2)).iter().map(|a| a.slots[0].gpus.len()).collect();
        assert_eq!(gpus, [4, 2]);
        let n1: NodeName = "n1".parse().unwrap();
        assert_eq!(all.next_after(&n1, 0, new), Some(now), "the second attempt has it since");
        assert_eq!((all.next_after(&n1, 3, new), all.next_after(&n1, 0, now)), (None, None));
        all.add(JobId(4), 1, now, &placement(1), now).unwrap();
        let all = Allocations::open(&path, now).unwrap();
        assert_eq!(all.of(JobId(4)).len(), 1, "nothing was written behind half a line");
    }

    #[test]
    fn a_number_of_steps_is_one_attempts_at_a_time_and_others_see_nothing_of_its_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocations");
        let now = Time(1_000_000_000_000);
        let later = now + Span::mins(5);
        let mut all = Allocations::open(&path, now).unwrap();
        all.add(JobId(1), 1, now, &placement(8), now).unwrap();
        all.add(JobId(2), 1, now, &placement(8), now).unwrap();
        let key = |job| AttemptKey { job: JobId(job), attempt: 1 };
        assert_eq!((all.line_of(key(1)), all.line_of(key(2))), (Some(0), Some(1)));
        let first = all.of(JobId(1))[0].steps.unwrap();
        assert_eq!((first.from, all.steps_until(first)), (now, Time(i64::MAX)));
        // All are over; the next has the number of the first since it is noted, not since it was placed.
        all.settle(&[]);
        assert_eq!(all.line_of(key(1)), None);
        all.add(JobId(3), 1, now + Span::mins(1), &placement(8), later).unwrap();
        assert_eq!(all.line_of(key(3)), Some(0));
        drop(all);
        let all = Allocations::open(&path, now).unwrap();
        let third = all.of(JobId(3))[0].steps.unwrap();
        assert_eq!((third, third.from), (StepLine { line: 0, from: later }, later));
        assert_eq!((all.steps_until(first), all.steps_until(third)), (later, Time(i64::MAX)));
    }

    #[test]
    fn a_line_that_a_full_disk_cut_is_taken_back() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("allocations");
        let now = Time(1_000_000_000_000);
        let mut all = Allocations::open(&path, now).unwrap();
        all.add(JobId(1), 1, now, &placement(8), now).unwrap();
        let whole = fs::read(&path).unwrap();
        let refused = write_or_undo(&mut all.file, all.bytes, |file| {
            file.write_all(b"{\"job\":2,\"att")?;
            Err(io::ErrorKind::StorageFull.into())
        });
        assert_eq!(refused.unwrap_err().kind(), io::ErrorKind::StorageFull);
        assert_eq!(fs::read(&path).unwrap(), whole);
        all.add(JobId(3), 1, now, &placement(4), now).unwrap();
        drop(all);
        let all = Allocations::open(&path, now).unwrap();
        assert_eq!((all.of(JobId(1)).len(), all.of(JobId(3)).len()), (1, 1));
        assert_eq!(all.bytes, fs::metadata(&path).unwrap().len(), "nothing was written anew");
    }
}
