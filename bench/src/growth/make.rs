//! Makes the log of a site that has run for long: the engine decides, and the store gets what the
//! server would give it, with the same snapshots and the same archive.

use super::SNAPSHOT_EVERY;
use anyhow::{Context, Result, bail, ensure};
use flate2::Compression;
use flate2::write::GzEncoder;
use muster_engine::{Engine, Policy, SNAPSHOT_FORMAT, State};
use muster_model::command::{Actor, Answer, Command, Observed, Request};
use muster_model::ids::{AttemptKey, Epoch, JobId, Seq};
use muster_model::job::SlotEnd;
use muster_model::names::NodeName;
use muster_model::spec::JobSpec;
use muster_model::tenant::{Role, TokenUse};
use muster_model::topology::{Location, Topology};
use muster_model::units::{Span, Time};
use muster_simnode::{SimConfig, SimNode};
use muster_store::{Batch, Entry, LeaseAnswer, Snapshot, Store, StoreUrl};
use serde_json::json;
use std::fs::DirBuilder;
use std::io::{BufWriter, IntoInnerError};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Whose jobs they are.
pub(super) const PROJECTS: [&str; 4] = ["vision", "language", "speech", "robots"];
/// Tasks of one array; its tasks run at once.
const TASKS: u64 = 500;
/// Nodes of 8 GPUs: some more than one array needs.
const NODES: usize = 80;
/// Different names of arrays.
const NAMES: u64 = 500;
/// From one array to the next, by the site's clock.
const ROUND: Span = Span::mins(10);
/// Records that stay in the store, as the server has it by default.
const RETAIN: u64 = 1_000_000;
/// Records that go into one segment of the archive, as with the server.
const ARCHIVED_AT_ONCE: u64 = 50_000;

/// How much is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) records: u64,
    pub(super) jobs: u64,
}

impl Size {
    /// Arrays that are submitted.
    fn rounds(self) -> u64 {
        self.jobs.div_ceil(TASKS).max(1)
    }

    /// Records that the log is to have after so many arrays.
    fn after(self, rounds: u64) -> u64 {
        let share = u128::from(self.records) * u128::from(rounds) / u128::from(self.rounds());
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// What was made.
#[derive(Debug, Clone, Copy)]
pub(super) struct Made {
    pub(super) records: u64,
    /// Jobs that have ended.
    pub(super) jobs: u64,
    /// Those that are still in the working state.
    pub(super) jobs_in_state: u64,
    pub(super) snapshots: u64,
    /// Records that are in segments of the archive.
    pub(super) archived: u64,
    pub(super) took: Duration,
}

/// Fills a data directory that no server has used.
pub(super) fn log(data_dir: &Path, size: Size) -> Result<Made> {
    let began = Instant::now();
    DirBuilder::new()
        .mode(0o700)
        .create(data_dir)
        .with_context(|| format!("cannot make {}", data_dir.display()))?;
    let mut log = Log::open(data_dir)?;
    // It ends before now: a log that is ahead of the clock is another case.
    let length = Span(ROUND.0 * (size.rounds() + 6));
    let mut site = Site::new(wall_clock()? - length)?;
    site.join()?;
    log.write(&mut site.engine, Vec::new())?;
    let mut shown = Instant::now();
    for n in 0..size.rounds() {
        site.round(&mut log, n, size.after(n + 1))?;
        if shown.elapsed() > Duration::from_secs(10) {
            shown = Instant::now();
            let records = site.engine.seq().0;
            eprintln!("  {records} of {} records are made", size.records);
        }
    }
    site.leave()?;
    log.write(&mut site.engine, Vec::new())?;
    log.close()?;
    Ok(Made {
        records: site.engine.seq().0,
        jobs: site.ended,
        jobs_in_state: site.engine.state().jobs.len() as u64,
        snapshots: log.snapshots,
        archived: log.archived,
        took: began.elapsed(),
    })
}

fn wall_clock() -> Result<Time> {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).context("the clock is not set")?;
    Ok(Time(i64::try_from(since.as_millis())?))
}

/// The store, as the server's writer and its thread for snapshots use it.
struct Log {
    store: Box<dyn Store>,
    epoch: Epoch,
    archive: PathBuf,
    last_snapshot: Seq,
    older_snapshot: Seq,
    snapshots: u64,
    archived: u64,
}

impl Log {
    fn open(data_dir: &Path) -> Result<Log> {
        let mut store = muster_store::open(&StoreUrl::in_data_dir(data_dir))?;
        let lease = store.acquire_lease("growth", Span::hours(24))?;
        let LeaseAnswer::Granted(epoch) = lease else { bail!("the store is in use") };
        Ok(Log {
            store,
            epoch,
            archive: data_dir.join("archive"),
            last_snapshot: Seq(0),
            older_snapshot: Seq(0),
            snapshots: 0,
            archived: 0,
        })
    }

    /// Appends what the engine decided, and does what is due then.
    fn write(&mut self, engine: &mut Engine, payloads: Vec<(JobId, Vec<u8>)>) -> Result<()> {
        engine.discard_touched();
        let mut entries = Vec::new();
        for r in engine.take() {
            entries.push(Entry { seq: r.seq, at: r.at, body: r.to_json()? });
        }
        let unneeded = engine.take_unneeded();
        let batch = Batch { epoch: self.epoch, entries, payloads, unneeded, secrets: Vec::new() };
        self.store.append(&batch).context("the store did not take the records")?;
        let (seq, jobs) = (engine.seq(), engine.state().jobs.len() as u64);
        if seq.0 < self.last_snapshot.0 + SNAPSHOT_EVERY.max(jobs / 2) {
            return Ok(());
        }
        let state = engine.state();
        let snapshot = Snapshot { seq, at: state.at, format: SNAPSHOT_FORMAT, body: pack(state)? };
        self.store.put_snapshot(self.epoch, &snapshot).context("no snapshot was written")?;
        self.older_snapshot = self.last_snapshot;
        self.last_snapshot = seq;
        self.snapshots += 1;
        self.archive_old(seq)
    }

    fn archive_old(&mut self, durable: Seq) -> Result<()> {
        let all = Seq(durable.0.saturating_sub(RETAIN).min(self.older_snapshot.0));
        if all.0 == 0 {
            return Ok(());
        }
        loop {
            let head = self.store.head()?;
            let upto = all.min(Seq(head.first_seq.0.saturating_add(ARCHIVED_AT_ONCE - 1)));
            let done = self.store.archive(self.epoch, upto, &self.archive)?;
            self.archived += done.entries();
            if done.entries() == 0 || done.to >= all {
                return Ok(());
            }
        }
    }

    fn close(&mut self) -> Result<()> {
        self.store.release_lease(self.epoch)?;
        self.store.close()?;
        Ok(())
    }
}

/// The state, packed as the server packs it.
fn pack(state: &State) -> Result<Vec<u8>> {
    let gz = GzEncoder::new(Vec::new(), Compression::fast());
    let mut out = BufWriter::with_capacity(64 * 1024, gz);
    state.write_to(&mut out)?;
    let gz = out.into_inner().map_err(IntoInnerError::into_error)?;
    Ok(gz.finish()?)
}

/// The engine, its clock and its nodes.
struct Site {
    engine: Engine,
    now: Time,
    /// Jobs that have ended.
    ended: u64,
}

impl Site {
    fn new(now: Time) -> Result<Site> {
        // What `muster server` has.
        let policy = Policy { objectives: true, ..Policy::default() };
        let mut site = Site { engine: Engine::new(State::default(), policy), now, ended: 0 };
        site.send(Command::CreateSite { site: "site-growth".into() })?;
        site.send(Command::CreateToken {
            id: "join".into(),
            name: "join".parse()?,
            hash: String::new(),
            usage: TokenUse::Join { uses_left: None },
            ttl: Some(Span::hours(1)),
        })?;
        for project in ["default"].iter().chain(&PROJECTS) {
            let name = project.parse()?;
            site.send(Command::CreateProject { name, description: String::new() })?;
        }
        Ok(site)
    }

    /// Every node joins.
    fn join(&mut self) -> Result<()> {
        let mut topology = Topology { nodes: [].into() };
        for i in 0..NODES {
            let node = name(i)?;
            let at = Location {
                region: "r".into(),
                cluster: "c".into(),
                spine: "s".into(),
                leaf: format!("l{}", i / 16),
                rack: format!("k{}", i / 4),
                nvlink: node.to_string(),
                feed: format!("f{}", i / 4 % 2),
                rails: Vec::new(),
            };
            topology.nodes.insert(node, at);
        }
        self.send(Command::SetTopology { topology: Arc::new(topology) })?;
        for i in 0..NODES {
            let (node, machine) = (name(i)?, format!("m{i}"));
            let device = SimNode::new(1, SimConfig::default(), node.as_str(), self.now);
            self.send(Command::Enroll {
                node: node.clone(),
                machine: machine.clone(),
                token: "join".into(),
                key: None,
            })?;
            self.send(Command::NodeConnected {
                node,
                machine,
                boot: "boot".into(),
                address: format!("10.0.0.{i}"),
                host: format!("h{i}"),
                inventory: Box::new(device.inventory()),
                observed: Vec::new(),
                ended_ago: Vec::new(),
                place: String::new(),
                ahead: false,
                silent_for: None,
            })?;
        }
        self.settle();
        Ok(())
    }

    /// The nodes go for good: the server that is measured does not wait for them.
    fn leave(&mut self) -> Result<()> {
        for i in 0..NODES {
            self.send(Command::NodeLost { node: name(i)?, last_seen: self.now })?;
        }
        self.settle();
        for i in 0..NODES {
            self.send(Command::Retire { node: name(i)? })?;
        }
        self.settle();
        Ok(())
    }

    /// An array is submitted, its tasks run and end. They write checkpoints, so many that the log then
    /// has as many records as it is to have.
    fn round(&mut self, log: &mut Log, n: u64, records: u64) -> Result<()> {
        let begin = self.now;
        let (first, count, payload) = self.submit(n)?;
        let mut payloads = vec![(first, payload)];
        let mut left: Vec<JobId> = (first.0..first.0 + u64::from(count)).map(JobId).collect();
        while !left.is_empty() {
            self.settle();
            let placed: Vec<_> = left.iter().filter_map(|id| self.placed(*id)).collect();
            ensure!(!placed.is_empty(), "{} tasks of job {first} have no place", left.len());
            self.now = self.now + Span::secs(2);
            self.report(&placed, &Observed::Running)?;
            // Each task that ends adds two.
            let known = self.engine.seq().0 + 2 * placed.len() as u64;
            self.checkpoint(&placed, records.saturating_sub(known))?;
            self.now = self.now + Span::mins(1);
            self.report(&placed, &Observed::Ended(SlotEnd::Ok))?;
            log.write(&mut self.engine, std::mem::take(&mut payloads))?;
            let before = left.len();
            let jobs = &self.engine.state().jobs;
            left.retain(|id| jobs.get(id).is_some_and(|j| !j.state.is_final()));
            ensure!(left.len() < before, "no task of job {first} ended");
            self.ended += (before - left.len()) as u64;
        }
        self.now = self.now.max(begin + ROUND);
        Ok(())
    }

    /// Submits an array; its first task, how many there are, and what they run.
    fn submit(&mut self, n: u64) -> Result<(JobId, u32, Vec<u8>)> {
        let project = PROJECTS[(n % PROJECTS.len() as u64) as usize];
        let mut spec: JobSpec = serde_json::from_value(json!({
            "kind": "Job",
            "name": array_name(n),
            "project": project,
            "array": format!("0-{}", TASKS - 1),
            "gang": {"nodes": 1, "gpus_per_node": 1},
            "time_limit": "4h",
            "run": {"command": ["python", "train.py", "--config", "a.yaml"], "env": {"SEED": "1"}},
        }))?;
        let run = serde_json::to_vec(&std::mem::take(&mut spec.run))?;
        let actor = Actor { name: format!("user:u{}", n % 16), role: Role::Admin, project: None };
        let command = Command::Submit { spec: Arc::new(spec) };
        let req = Request { actor, at: self.now, key: None, if_version: None, command };
        let answer = self.engine.handle_with_payload(&req, run.len() as u64);
        match answer.context("an array was refused")? {
            Answer::Submitted { first, count } => Ok((first, count, run)),
            other => bail!("a submission was answered with {other:?}"),
        }
    }

    /// Where a task is, once it has a place.
    fn placed(&self, id: JobId) -> Option<(NodeName, AttemptKey)> {
        let job = self.engine.state().jobs.get(&id)?;
        let slot = job.attempt.as_ref()?.placement.slots.first()?;
        Some((slot.node.clone(), job.attempt_key()?))
    }

    /// Their nodes report the same of all of them.
    fn report(&mut self, placed: &[(NodeName, AttemptKey)], observed: &Observed) -> Result<()> {
        for (node, key) in placed {
            let (node, observed) = (node.clone(), observed.clone());
            self.send(Command::SlotReport { node, key: *key, observed, ago: None })?;
        }
        self.settle();
        Ok(())
    }

    /// So many checkpoints in all, the same number of each task but for one.
    fn checkpoint(&mut self, placed: &[(NodeName, AttemptKey)], wanted: u64) -> Result<()> {
        let mut left = wanted;
        let mut step = 0;
        while left > 0 {
            step += 1000;
            self.now = self.now + Span::secs(30);
            let some = usize::try_from(left).unwrap_or(usize::MAX).min(placed.len());
            for (_, key) in &placed[..some] {
                self.send(Command::CheckpointDone {
                    key: *key,
                    step: Some(step),
                    path: Some(format!("/checkpoints/{key}/{step}")),
                    bytes: Some(1 << 30),
                    blocked_ms: Some(800),
                })?;
            }
            left -= some as u64;
        }
        self.settle();
        Ok(())
    }

    fn send(&mut self, command: Command) -> Result<Answer> {
        let (actor, at) = (Actor::system(), self.now);
        let request = Request { actor, at, key: None, if_version: None, command };
        self.engine.handle(&request).context("the engine refused a part of the history")
    }

    /// The engine decides until it has nothing more to write.
    fn settle(&mut self) {
        while self.engine.tick(self.now) {}
    }
}

/// The name of an array; others have the same one.
pub(super) fn array_name(n: u64) -> String {
    format!("train-{:03}", n % NAMES)
}

fn name(i: usize) -> Result<NodeName> {
    Ok(format!("old-{i:03}").parse()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use xtask::proc::TempDir;

    #[test]
    fn the_log_has_what_was_asked_for_and_folds() {
        let dir = TempDir::new("growth-test").unwrap();
        let data = dir.path().join("data");
        let made = log(&data, Size { records: 10_000, jobs: 1000 }).unwrap();
        assert_eq!((made.jobs, made.jobs_in_state), (1000, 1000));
        assert!((9_000..=11_500).contains(&made.records), "{} records", made.records);
        let mut store = muster_store::open(&StoreUrl::in_data_dir(&data)).unwrap();
        let mut state = State::default();
        loop {
            let page = store.read(state.seq, 4096).unwrap();
            if page.is_empty() {
                break;
            }
            for e in page {
                state.apply(&muster_records::read(&e.body).unwrap()).unwrap();
            }
        }
        assert_eq!((state.seq.0, state.jobs.len()), (made.records, 1000));
    }

    #[test]
    fn records_are_spread_over_all_arrays() {
        let size = Size { records: 10_000_000, jobs: 1_000_000 };
        assert_eq!(size.rounds(), 2000);
        assert_eq!(size.after(1), 5000);
        assert_eq!(size.after(2000), 10_000_000);
    }
}
