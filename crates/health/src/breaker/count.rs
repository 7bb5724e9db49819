//! When failures are enough to open a breaker.

use muster_model::distinct;
use muster_model::entity::Entity;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// Failures that are kept for one thing. More are never needed.
const KEPT: usize = 32;
const TEMPLATE_FAILURES: u32 = 5;
const IMAGE_JOBS: u32 = 3;
const NODE_JOBS: u32 = 3;
const NODES: u32 = 3;

/// Failed attempts of a template, an image, a node or the whole site, as far back as they matter.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Count {
    failed: Vec<(Time, JobId, NodeName)>,
}

/// How far back failures count. None for what does not count attempts.
fn window(of: &Entity) -> Option<Span> {
    match of {
        Entity::Template(..) | Entity::Image(_) | Entity::Site => Some(Span::hours(1)),
        Entity::Node(_) => Some(Span::hours(24)),
        _ => None,
    }
}

impl Count {
    /// An attempt failed on a node. Of a node only those count that may be its fault.
    pub fn failed(&mut self, of: &Entity, at: Time, job: JobId, node: &NodeName) {
        let Some(window) = window(of) else { return };
        self.failed.retain(|(t, ..)| *t + window >= at);
        if self.failed.len() >= KEPT {
            self.failed.remove(0);
        }
        self.failed.push((at, job, node.clone()));
    }

    /// What was counted of a job at that moment had another reason.
    pub fn discount_failure(&mut self, at: Time, job: JobId) {
        self.failed.retain(|(t, j, _)| (*t, *j) != (at, job));
    }

    /// Only jobs for which this holds are still counted.
    pub fn keep(&mut self, counts: impl Fn(JobId) -> bool) {
        self.failed.retain(|(_, job, _)| counts(*job));
    }

    /// An attempt went well: the row of failures of a template or an image ends. A node that also
    /// runs work well can still be one that breaks it.
    pub fn succeeded(&mut self, of: &Entity) {
        if !matches!(of, Entity::Node(_)) {
            self.failed.clear();
        }
    }

    /// Failures within the window: attempts of a template, different jobs elsewhere.
    #[must_use]
    pub fn failures(&self, of: &Entity, now: Time) -> u32 {
        let within = self.within(of, now);
        let n = if matches!(of, Entity::Template(..)) {
            within.count()
        } else {
            distinct(within.map(|(_, job, _)| *job)).len()
        };
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    /// Different nodes on which it failed within the window.
    #[must_use]
    pub fn nodes(&self, of: &Entity, now: Time) -> u32 {
        let nodes = distinct(self.within(of, now).map(|(.., node)| node));
        u32::try_from(nodes.len()).unwrap_or(u32::MAX)
    }

    fn within(&self, of: &Entity, now: Time) -> impl Iterator<Item = &(Time, JobId, NodeName)> {
        let window = window(of);
        self.failed.iter().filter(move |(t, ..)| window.is_some_and(|w| *t + w >= now))
    }

    /// The jobs that failed within the window, some of them repeatedly.
    pub fn jobs(&self, of: &Entity, now: Time) -> impl Iterator<Item = JobId> {
        self.within(of, now).map(|(_, job, _)| *job)
    }

    /// The last failure that is remembered.
    #[must_use]
    pub fn last(&self) -> Option<Time> {
        self.failed.iter().map(|(t, ..)| *t).max()
    }

    /// Whether nothing is remembered.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.failed.is_empty()
    }
}

/// Whether a breaker opens: by `failures` of a template (attempts), an image or a node (jobs), and
/// by `hits_nodes` of `of` nodes where a common cause was found in a group of nodes.
///
/// A breaker on a place needs a quarter of its nodes, one on a version or a SKU a twentieth: it
/// takes all of them out of reach, and below that it would cost more than what it prevents.
#[must_use]
pub fn should_trip(kind: &Entity, failures: u32, hits_nodes: u32, of: u32) -> bool {
    let share = |parts: u64| {
        hits_nodes >= NODES && u64::from(hits_nodes) * parts >= u64::from(of.max(hits_nodes))
    };
    match kind {
        Entity::Template(..) => failures >= TEMPLATE_FAILURES,
        Entity::Image(_) => failures >= IMAGE_JOBS,
        Entity::Node(_) => failures >= NODE_JOBS,
        Entity::Domain(..) | Entity::Feed(_) => share(4),
        Entity::Version(..) | Entity::Sku(_) => share(20),
        // Parts of a node are the node's remediation; jobs and projects have limits of their own; a file
        // system that is gone holds up its users without help.
        Entity::Site
        | Entity::Gpu(..)
        | Entity::Port(..)
        | Entity::Pool(_)
        | Entity::Project(_)
        | Entity::Job(_)
        | Entity::Storage(_) => false,
    }
}
