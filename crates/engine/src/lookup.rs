//! What a request names: it is there, and as the caller saw it, or the request is refused.

use crate::{Engine, State};
use muster_model::command::{Refusal, RefusalCode, Request};
use muster_model::ids::{JobId, Seq};
use muster_model::job::Job;
use muster_model::names::{NodeName, ProjectName};
use muster_model::near::closest;
use muster_model::node::Node;
use std::collections::BTreeMap;
use std::sync::Arc;

/// The task of this index, found without a walk over its array: tasks have ids in a row and growing
/// indices. Some may be forgotten.
#[must_use]
pub fn task(jobs: &BTreeMap<JobId, Arc<Job>>, first: JobId, index: u32) -> Option<&Arc<Job>> {
    // No task's id is farther from the first than its index is from zero.
    let (mut low, mut high) =
        (first, JobId(first.0.saturating_add(index.into()).saturating_add(1)));
    while low < high {
        let middle = JobId(low.0 + (high.0 - low.0) / 2);
        let next = jobs.range(middle..high).next().map(|(_, j)| j);
        let at = next.and_then(|j| Some((j, j.array.filter(|a| a.parent == first)?.index)));
        match at {
            Some((job, i)) if i == index => return Some(job),
            Some((job, i)) if i < index => low = JobId(job.id.0 + 1),
            _ => high = middle,
        }
    }
    None
}

/// There is no such job.
pub(crate) fn no_job(job: JobId) -> Refusal {
    Refusal::new(RefusalCode::NotFound, format!("there is no job {job}"))
        .hint("`muster ps -a` lists the jobs")
}

/// Projects that a refusal names.
const PROJECTS_NAMED: usize = 8;

/// There is no such project: with the one that is most likely meant.
#[must_use]
pub fn no_project(s: &State, project: &ProjectName) -> Refusal {
    let known: Vec<&str> = s.projects.keys().map(ProjectName::as_str).collect();
    let near = closest(project.as_str(), &known).map(|n| format!("did you mean `{n}`? "));
    let named = known.iter().take(PROJECTS_NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match known.len() > PROJECTS_NAMED {
        true => ", … (`muster project list` lists them)",
        false => "",
    };
    Refusal::new(RefusalCode::NotFound, format!("there is no project {project}"))
        .field("project")
        .hint(format!(
            "{}known projects: {named}{more}; `muster project create {project}` makes it",
            near.unwrap_or_default()
        ))
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
        // Without the numbers: they are the log's, and tenants see other ones.
        Some(v) if v != version => {
            Err(Refusal::new(RefusalCode::Conflict, "it has changed since you saw it")
                .field("If-Match")
                .hint("read it again and decide anew"))
        }
        _ => Ok(()),
    }
}
