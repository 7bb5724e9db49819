//! The state as bytes, and its digest. Snapshots keep the same promise as events: a later
//! version reads them.

use crate::state::index::Index;
use crate::state::{Booked, KeptFault, KeyEntry, Life, PromiseStats, State};
use muster_model::fault::FaultClass;
use muster_model::ids::{Epoch, Seq, SiteId};
use muster_model::job::{Job, PastAttempt};
use muster_model::names::{Label, ProjectName};
use muster_model::node::Node;
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::tenant::{Project, Token};
use muster_model::topology::Topology;
use muster_model::units::Time;
use muster_scheduler::fairshare::Usage;
use muster_scheduler::history::History;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// Shape of the bytes.
pub const SNAPSHOT_FORMAT: u32 = 1;

/// Why a snapshot cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum SnapshotError {
    /// From a newer version.
    #[error("the snapshot has format {0}, this version reads up to {SNAPSHOT_FORMAT}")]
    Newer(u32),
    /// Not what it should be.
    #[error("the snapshot cannot be read")]
    Unreadable(#[source] serde_json::Error),
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
    lives: Vec<Life>,
    next_job: u64,
    jobs: Vec<Arc<Job>>,
    nodes: Vec<Arc<Node>>,
    projects: Vec<Project>,
    tokens: Vec<Token>,
    secrets: Vec<(ProjectName, Label)>,
    topology: Arc<Topology>,
    keys: Vec<(String, KeyEntry)>,
    #[serde(default)]
    policy: Arc<SitePolicy>,
    #[serde(default)]
    quotas: Arc<Quotas>,
    #[serde(default)]
    reservations: Vec<Booked>,
    #[serde(default)]
    usage: Vec<((ProjectName, String), Usage)>,
    #[serde(default)]
    history: History<(ProjectName, String)>,
    #[serde(default)]
    moves: Vec<Time>,
    #[serde(default)]
    promises: PromiseStats,
    #[serde(default)]
    exposure: muster_health::Exposure,
    #[serde(default)]
    faults: Vec<Arc<KeptFault>>,
    #[serde(default)]
    fault_counts: Vec<(String, FaultClass, u64)>,
    #[serde(default)]
    health: crate::state::HealthBook,
    #[serde(default, skip_serializing_if = "crate::state::RunbookShelf::is_empty")]
    runbooks: crate::state::RunbookShelf,
    #[serde(default)]
    slo: Option<crate::state::Promises>,
}

impl State {
    /// The state as bytes.
    ///
    /// # Errors
    /// Never for a state that came from records.
    pub fn to_bytes(&self) -> Result<Vec<u8>, SnapshotError> {
        let State {
            site,
            epoch,
            leads,
            lives,
            seq,
            at,
            now: _,
            jobs,
            next_job,
            nodes,
            projects,
            tokens,
            secrets,
            topology,
            policy,
            quotas,
            reservations,
            usage,
            history,
            moves,
            promises,
            exposure,
            faults,
            fault_counts,
            health,
            runbooks,
            slo,
            keys,
            index: _,
        } = self;
        let stored = Stored {
            site: site.clone(),
            epoch: *epoch,
            seq: *seq,
            at: *at,
            leads: leads.clone(),
            lives: lives.clone(),
            next_job: *next_job,
            jobs: jobs.values().cloned().collect(),
            nodes: nodes.values().cloned().collect(),
            projects: projects.values().cloned().collect(),
            tokens: tokens.values().cloned().collect(),
            secrets: secrets.iter().cloned().collect(),
            topology: topology.clone(),
            keys: keys.iter().map(|(k, e)| (k.clone(), e.clone())).collect(),
            policy: policy.clone(),
            quotas: quotas.clone(),
            reservations: reservations.values().cloned().collect(),
            usage: usage.iter().map(|(k, u)| (k.clone(), *u)).collect(),
            history: history.clone(),
            moves: moves.clone(),
            promises: *promises,
            exposure: *exposure,
            faults: faults.values().cloned().collect(),
            fault_counts: fault_counts.iter().map(|((c, k), n)| (c.clone(), *k, *n)).collect(),
            health: health.clone(),
            runbooks: runbooks.clone(),
            slo: Some(slo.clone()),
        };
        serde_json::to_vec(&stored).map_err(SnapshotError::Unreadable)
    }

    /// A state from bytes.
    ///
    /// # Errors
    /// When the bytes are from a newer version or are damaged.
    // Compiled where it is called, for size: reading every type of the state is a third of this
    // crate's code, and it is read once at a start.
    #[inline]
    pub fn from_bytes(format: u32, bytes: &[u8]) -> Result<State, SnapshotError> {
        if format > SNAPSHOT_FORMAT {
            return Err(SnapshotError::Newer(format));
        }
        let s: Stored = serde_json::from_slice(bytes).map_err(SnapshotError::Unreadable)?;
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
            nodes: s.nodes.into_iter().map(|n| (n.name.clone(), n)).collect(),
            projects: s.projects.into_iter().map(|p| (p.name.clone(), p)).collect(),
            tokens: s.tokens.into_iter().map(|t| (t.id.clone(), t)).collect(),
            secrets: s.secrets.into_iter().collect(),
            topology: s.topology,
            keys: s.keys.into_iter().collect(),
            usage: s.usage.into_iter().collect(),
            history: s.history,
            moves: s.moves,
            promises: s.promises,
            exposure: s.exposure,
            faults: s.faults.into_iter().map(|f| (f.seq, f)).collect(),
            fault_counts: s.fault_counts.into_iter().map(|(c, k, n)| ((c, k), n)).collect(),
            health: s.health,
            runbooks: s.runbooks,
            slo: crate::state::Promises::default(),
            policy: s.policy,
            quotas: s.quotas,
            reservations: s
                .reservations
                .into_iter()
                .map(|b| (b.reservation.name.clone(), b))
                .collect(),
            index: Index::default(),
        };
        state.health.reindex();
        state.runbooks.reindex();
        state.index = Index::build(&state);
        match s.slo {
            Some(slo) => {
                state.slo = slo;
                state.slo.reindex();
            }
            None => state.seed_promises(),
        }
        Ok(state)
    }

    /// Fingerprint of everything the log adds up to.
    #[must_use]
    pub fn digest(&self) -> String {
        self.to_bytes().map_or_else(|e| e.to_string(), |b| blake3::hash(&b).to_hex().to_string())
    }
}

/// A job of a snapshot. Older ones do not say what an attempt was stopped for.
fn read_job(mut job: Arc<Job>) -> Arc<Job> {
    Arc::make_mut(&mut job).past.iter_mut().for_each(PastAttempt::read_canceller);
    job
}
