//! The state as bytes, and its digest. As with events, a later version reads what an older one wrote.
//!
//! Format 1 is one JSON value, in which every job has a copy of its own of what the tasks of an array
//! share. Format 2 is lines of JSON: what jobs share stands once, before the first job that has it, so
//! that neither the bytes nor the memory of a start grow with the number of tasks times the size of
//! their spec. In format 3 that is so of changed tasks too: what was changed of a task is in its own
//! line. All are written and read piece by piece.

mod parts;

use crate::state::index::Index;
use crate::state::{
    BookedReservation, KeyEntry, LogGeneration, ReservedStartStats, State, StoredFault,
};
use muster_model::fault::FaultClass;
use muster_model::ids::{Epoch, Seq, SiteId};
use muster_model::job::{Job, PastAttempt};
use muster_model::names::{Label, ProjectName};
use muster_model::node::{Node, Stage};
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::tenant::{Project, Token};
use muster_model::topology::Topology;
use muster_model::units::Time;
use muster_scheduler::fairshare::Usage;
use muster_scheduler::history::History;
use parts::{FoldedJob, Parts, SharedPart};
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::io::{self, BufRead, BufWriter, Write};
use std::sync::Arc;

/// Shape of the bytes that are written; older ones are read too.
pub const SNAPSHOT_FORMAT: u32 = 3;

/// Bytes gathered before they are hashed.
const PIECE: usize = 64 * 1024;

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// From a newer version.
    #[error("the snapshot has format {0}, this version reads up to {SNAPSHOT_FORMAT}")]
    Newer(u32),
    /// Not what it should be.
    #[error("the snapshot cannot be read")]
    Unreadable(#[from] serde_json::Error),
    /// What it is read from or written to failed.
    #[error("the bytes of the snapshot cannot be moved")]
    Io(#[from] io::Error),
}

impl SnapshotError {
    fn odd(what: impl fmt::Display) -> SnapshotError {
        SnapshotError::Unreadable(serde_json::Error::custom(what))
    }
}

/// One line of formats 2 and 3.
#[derive(Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Line {
    /// Everything but the jobs; comes first, once.
    State(Box<Stored>),
    /// Something that the jobs below share.
    Part(SharedPart),
    /// A job, in the order of ids.
    Job(FoldedJob),
    /// Comes last: a snapshot that was cut short lacks it.
    End {
        /// How many jobs there are.
        jobs: usize,
    },
}

#[derive(Serialize, Deserialize)]
struct Stored {
    site: Option<SiteId>,
    epoch: Epoch,
    seq: Seq,
    at: Time,
    #[serde(default)]
    leads: Vec<(Seq, Epoch)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    lives: Vec<LogGeneration>,
    next_job: u64,
    /// None from format 2 on, where each has a line of its own.
    #[serde(deserialize_with = "unfolded_jobs")]
    jobs: Vec<Arc<Job>>,
    nodes: Vec<Arc<Node>>,
    projects: Vec<Project>,
    tokens: Vec<Token>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    over: Vec<String>,
    secrets: Vec<(ProjectName, Label)>,
    topology: Arc<Topology>,
    keys: Vec<(String, KeyEntry)>,
    #[serde(default)]
    policy: Arc<SitePolicy>,
    #[serde(default)]
    quotas: Arc<Quotas>,
    #[serde(default)]
    reservations: Vec<BookedReservation>,
    #[serde(default)]
    usage: Vec<((ProjectName, String), Usage)>,
    #[serde(default)]
    history: History<(ProjectName, String)>,
    #[serde(default)]
    moves: Vec<Time>,
    #[serde(default)]
    reserved_starts: ReservedStartStats,
    #[serde(default)]
    exposure: muster_health::Exposure,
    #[serde(default)]
    faults: Vec<Arc<StoredFault>>,
    #[serde(default)]
    fault_counts: Vec<(String, FaultClass, u64)>,
    #[serde(default)]
    health: crate::state::HealthState,
    #[serde(default, skip_serializing_if = "crate::state::SiteRunbooks::is_empty")]
    runbooks: crate::state::SiteRunbooks,
    #[serde(default)]
    slo: Option<crate::state::SloState>,
}

impl State {
    /// Writes the state, piece by piece, in the format [`SNAPSHOT_FORMAT`].
    ///
    /// # Errors
    /// When `out` fails; never because of a state that came from records.
    pub fn write_to(&self, out: &mut dyn Write) -> Result<(), SnapshotError> {
        put(out, &Line::State(Box::new(self.stored(Vec::new()))))?;
        let mut parts = Parts::default();
        for job in self.jobs.values() {
            let folded = parts.fold(job, &mut |part| put(out, &Line::Part(part)))?;
            put(out, &Line::Job(folded))?;
        }
        put(out, &Line::End { jobs: self.jobs.len() })
    }

    /// The state as bytes, in the format [`SNAPSHOT_FORMAT`].
    ///
    /// # Errors
    /// Never for a state that came from records.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SnapshotError> {
        let mut bytes = Vec::new();
        self.write_to(&mut bytes)?;
        Ok(bytes)
    }

    /// What is stored, with these jobs.
    fn stored(&self, jobs: Vec<Arc<Job>>) -> Stored {
        let State {
            site,
            epoch,
            leads,
            lives,
            seq,
            at,
            now: _,
            jobs: _,
            next_job,
            nodes,
            projects,
            tokens,
            over,
            secrets,
            topology,
            policy,
            quotas,
            reservations,
            usage,
            history,
            moves,
            reserved_starts,
            exposure,
            faults,
            fault_counts,
            health,
            runbooks,
            slo,
            keys,
            disconnected: _,
            index: _,
            spare: _,
        } = self;
        Stored {
            site: site.clone(),
            epoch: *epoch,
            seq: *seq,
            at: *at,
            leads: leads.clone(),
            lives: lives.clone(),
            next_job: *next_job,
            jobs,
            nodes: nodes.values().cloned().collect(),
            projects: projects.values().cloned().collect(),
            tokens: tokens.values().cloned().collect(),
            over: over.clone(),
            secrets: secrets.iter().cloned().collect(),
            topology: topology.clone(),
            keys: keys.iter().map(|(k, e)| (k.clone(), e.clone())).collect(),
            policy: policy.clone(),
            quotas: quotas.clone(),
            reservations: reservations.values().cloned().collect(),
            usage: usage.iter().map(|(k, u)| (k.clone(), *u)).collect(),
            history: history.clone(),
            moves: moves.clone(),
            reserved_starts: *reserved_starts,
            exposure: *exposure,
            faults: faults.values().cloned().collect(),
            fault_counts: fault_counts.iter().map(|((c, k), n)| (c.clone(), *k, *n)).collect(),
            health: health.clone(),
            runbooks: runbooks.clone(),
            slo: Some(slo.clone()),
        }
    }

    /// A state from bytes.
    ///
    /// # Errors
    /// As [`State::read_from`].
    // Compiled where it is called, for size: reading every type of the state is a third of this
    // crate's code, and it is read once at a start.
    #[inline]
    pub fn from_bytes(format: u32, bytes: &[u8]) -> Result<State, SnapshotError> {
        let mut bytes = bytes;
        State::read_from(format, &mut bytes)
    }

    /// Reads a state, piece by piece. Jobs share again whatever is equal in them.
    ///
    /// # Errors
    /// When it is from a newer version or damaged, or `input` fails.
    #[inline]
    pub fn read_from(format: u32, input: &mut dyn BufRead) -> Result<State, SnapshotError> {
        match format {
            0 | 1 => {
                // Whole, though it is large: reading it piece by piece would be a second copy of
                // the code that reads every type.
                let mut text = Vec::new();
                input.read_to_end(&mut text)?;
                Ok(State::restored_from(serde_json::from_slice(&text)?))
            }
            2 | 3 => {
                let mut line = Vec::new();
                let Some(Line::State(mut stored)) = next(input, &mut line)? else {
                    return Err(SnapshotError::odd("it does not begin with the state"));
                };
                let mut parts = Parts::default();
                loop {
                    match next(input, &mut line)? {
                        Some(Line::Part(part)) => parts.add(part)?,
                        Some(Line::Job(folded)) => {
                            let job = parts.unfold(folded).ok_or_else(|| {
                                SnapshotError::odd("a job names a part that is not there")
                            })?;
                            stored.jobs.push(job);
                        }
                        Some(Line::End { jobs }) if jobs == stored.jobs.len() => break,
                        Some(Line::End { jobs }) => {
                            let found = stored.jobs.len();
                            let what = format!("it has {found} jobs and announces {jobs}");
                            return Err(SnapshotError::odd(what));
                        }
                        Some(Line::State(_)) => {
                            return Err(SnapshotError::odd("it has a second state"));
                        }
                        None => return Err(SnapshotError::odd("it was cut short")),
                    }
                }
                if next(input, &mut line)?.is_some() {
                    return Err(SnapshotError::odd("something follows its end"));
                }
                Ok(State::restored_from(*stored))
            }
            newer => Err(SnapshotError::Newer(newer)),
        }
    }

    #[inline(never)]
    fn restored_from(s: Stored) -> State {
        let mut state = State {
            site: s.site,
            epoch: s.epoch,
            leads: s.leads,
            lives: s.lives,
            seq: s.seq,
            at: s.at,
            now: s.at,
            jobs: s.jobs.into_iter().map(|j| (j.id, read_job(j))).collect(),
            next_job: s.next_job,
            nodes: s.nodes.into_iter().map(|n| (n.name.clone(), read_node(n))).collect(),
            projects: s.projects.into_iter().map(|p| (p.name.clone(), p)).collect(),
            tokens: s.tokens.into_iter().map(|t| (t.id.clone(), t)).collect(),
            over: s.over,
            secrets: s.secrets.into_iter().collect(),
            topology: s.topology,
            keys: s.keys.into_iter().collect(),
            usage: s.usage.into_iter().collect(),
            history: s.history,
            moves: s.moves,
            reserved_starts: s.reserved_starts,
            exposure: s.exposure,
            faults: s.faults.into_iter().map(|f| (f.seq, f)).collect(),
            fault_counts: s.fault_counts.into_iter().map(|(c, k, n)| ((c, k), n)).collect(),
            health: s.health,
            runbooks: s.runbooks,
            slo: crate::state::SloState::default(),
            policy: s.policy,
            quotas: s.quotas,
            reservations: s
                .reservations
                .into_iter()
                .map(|b| (b.reservation.name.clone(), b))
                .collect(),
            disconnected: BTreeSet::new(),
            index: Box::default(),
            spare: None,
        };
        state.health.reindex();
        state.runbooks.reindex();
        state.index = Box::new(Index::build(&state));
        match s.slo {
            Some(slo) => {
                state.slo = slo;
                state.slo.reindex();
            }
            None => state.seed_slo(),
        }
        state
    }

    /// Fingerprint of everything the log adds up to: that of format 1, where it makes no difference
    /// what jobs share. It takes as long as writing all of it.
    #[must_use]
    pub fn digest(&self) -> String {
        let stored = self.stored(self.jobs.values().cloned().collect());
        let mut out = BufWriter::with_capacity(PIECE, blake3::Hasher::new());
        // Into the same type as a snapshot: for another one, all that writes a state is compiled again.
        let sink: &mut dyn Write = &mut out;
        if let Err(e) = serde_json::to_writer(sink, &stored) {
            return e.to_string();
        }
        let hasher = out.into_inner();
        hasher.map_or_else(|e| e.to_string(), |h| h.finalize().to_hex().to_string())
    }
}

fn put(out: &mut dyn Write, line: &Line) -> Result<(), SnapshotError> {
    serde_json::to_writer(&mut *out, line)?;
    out.write_all(b"\n")?;
    Ok(())
}

/// The next line; none at the end. `line` is where it is read to.
#[inline]
fn next(input: &mut dyn BufRead, line: &mut Vec<u8>) -> Result<Option<Line>, SnapshotError> {
    line.clear();
    if input.read_until(b'\n', line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_slice(line)?))
}

/// Jobs of format 1: what is equal in them is shared as they are read.
fn unfolded_jobs<'de, D: Deserializer<'de>>(d: D) -> Result<Vec<Arc<Job>>, D::Error> {
    struct Jobs;
    impl<'de> Visitor<'de> for Jobs {
        type Value = Vec<Arc<Job>>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a list of jobs")
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Self::Value, A::Error> {
            let (mut jobs, mut parts) = (Vec::new(), Parts::default());
            while let Some(mut job) = seq.next_element::<Arc<Job>>()? {
                parts.share(Arc::make_mut(&mut job)).map_err(A::Error::custom)?;
                jobs.push(job);
            }
            Ok(jobs)
        }
    }
    d.deserialize_seq(Jobs)
}

/// A node of a snapshot. Older ones have everything of nodes that were retired.
fn read_node(mut node: Arc<Node>) -> Arc<Node> {
    if node.stage == Stage::Retired {
        Arc::make_mut(&mut node).forget_details();
    }
    node
}

/// A job of a snapshot. Older ones do not say what an attempt was stopped for, and keep the hold of a
/// job that ended: queued again, it would wait for somebody who let go of it.
fn read_job(mut job: Arc<Job>) -> Arc<Job> {
    let j = Arc::make_mut(&mut job);
    j.past.iter_mut().for_each(PastAttempt::read_canceller);
    if j.state.is_final() {
        j.held = None;
    }
    job
}
