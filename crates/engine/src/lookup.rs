//! What a request names: it is there, and as the caller saw it, or the request is refused.

use crate::Engine;
use muster_model::command::{Refusal, RefusalCode, Request};
use muster_model::ids::{JobId, Seq};
use muster_model::names::NodeName;
use muster_model::node::Node;
use std::sync::Arc;

/// There is no such job.
pub(crate) fn no_job(job: JobId) -> Refusal {
    Refusal::new(RefusalCode::NotFound, format!("there is no job {job}"))
        .hint("`muster ps -a` lists the jobs")
}

/// The node of this name.
pub(crate) fn find(e: &Engine, name: &NodeName) -> Result<Arc<Node>, Refusal> {
    e.state.nodes.get(name).cloned().ok_or_else(|| {
        Refusal::new(RefusalCode::NotFound, format!("there is no node {name}"))
            .hint("`muster nodes` lists them")
    })
}

/// The same, if it is as the caller saw it.
pub(crate) fn find_versioned(
    e: &Engine,
    req: &Request,
    name: &NodeName,
) -> Result<Arc<Node>, Refusal> {
    let n = find(e, name)?;
    check_version(req, n.version)?;
    Ok(n)
}

/// Who did something, and why if they said so.
pub(crate) fn with_reason(by: &str, reason: &str) -> String {
    match reason.trim() {
        "" => format!("by {by}"),
        reason => format!("{by}: {reason}"),
    }
}

/// The caller insists on the version it saw.
pub(crate) fn check_version(req: &Request, version: Seq) -> Result<(), Refusal> {
    match req.if_version {
        Some(v) if v != version => Err(Refusal::new(
            RefusalCode::Conflict,
            format!("it has changed: you saw version {v}, it is at {version}"),
        )
        .field("If-Match")
        .hint("read it again and decide anew")),
        _ => Ok(()),
    }
}
