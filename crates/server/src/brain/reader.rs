//! Reads what memory does not hold, on a thread of its own: the stores block.

use super::{BrainError, load, secret_label};
use muster_model::event::Record;
use muster_model::ids::{JobId, Seq};
use muster_model::spec::RunSpec;
use muster_store::failpoint::hit;
use muster_store::seal::SealKey;
use muster_store::{Store, StoreError};
use std::sync::Arc;
use std::sync::mpsc::Receiver;
use tokio::sync::oneshot;

type Reply<T> = oneshot::Sender<Result<T, BrainError>>;

pub(crate) enum Read {
    Records {
        after: Seq,
        limit: usize,
        reply: Reply<Vec<Arc<Record>>>,
    },
    /// The chain of the log at an entry (see [`Store::chain_at`]).
    Chain {
        seq: Seq,
        reply: Reply<(Seq, [u8; 16])>,
    },
    Payload {
        job: JobId,
        reply: Reply<Option<RunSpec>>,
    },
    Secret {
        project: String,
        name: String,
        reply: Reply<Option<String>>,
    },
}

/// Answers until the last handle on the brain is gone. It has none itself, nor anything that holds the
/// other end of `reads`: it would wait for itself, and keep the whole state for as long as the process
/// runs.
pub(crate) fn run(seal: &SealKey, store: &mut dyn Store, reads: &Receiver<Read>) {
    while let Ok(read) = reads.recv() {
        hit("brain.reader");
        match read {
            Read::Records { after, limit, reply } => {
                let _ = reply.send(records(store, after, limit));
            }
            Read::Chain { seq, reply } => {
                let _ = reply.send(store.chain_at(seq).map_err(|e| failed(&e)));
            }
            Read::Payload { job, reply } => {
                let _ = reply.send(payload(store, job));
            }
            Read::Secret { project, name, reply } => {
                let _ = reply.send(secret(seal, store, &project, &name));
            }
        }
    }
}

fn failed(e: &StoreError) -> BrainError {
    tracing::error!(error = %e, "the store cannot be read");
    BrainError::Unavailable(e.to_string())
}

fn records(
    store: &mut dyn Store,
    after: Seq,
    limit: usize,
) -> Result<Vec<Arc<Record>>, BrainError> {
    let page = store.read(after, limit).map_err(|e| match e {
        StoreError::Archived { oldest } => {
            BrainError::Archived { behind: Seq(oldest.0.saturating_sub(1)) }
        }
        e => failed(&e),
    })?;
    page.iter()
        .map(|e| load::record(e.seq, &e.body).map(Arc::new))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|e| BrainError::Unavailable(e.to_string()))
}

fn payload(store: &mut dyn Store, job: JobId) -> Result<Option<RunSpec>, BrainError> {
    let Some(bytes) = store.payload(job).map_err(|e| failed(&e))? else { return Ok(None) };
    serde_json::from_slice(&bytes).map(Some).map_err(|e| {
        tracing::error!(%job, error = %e, "what the job runs cannot be read");
        BrainError::Unavailable(format!("what job {job} runs cannot be read"))
    })
}

fn secret(
    seal: &SealKey,
    store: &mut dyn Store,
    project: &str,
    name: &str,
) -> Result<Option<String>, BrainError> {
    let Some(sealed) = store.secret(project, name).map_err(|e| failed(&e))? else {
        return Ok(None);
    };
    let plain = seal
        .open(&sealed, &secret_label(project, name))
        .map_err(|e| BrainError::Unavailable(format!("secret {name} cannot be opened: {e}")))?;
    Ok(Some(String::from_utf8_lossy(&plain).into_owned()))
}
