//! Reserved starts that rest on nodes which do not carry them any more.

use crate::fleet::Fleet;
use crate::node::Entry;
use muster_model::ids::JobId;
use muster_model::names::NodeName;
use muster_model::node::NodeRole;

/// What happened to a node that is reserved for a waiting job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Loss {
    /// It is gone or out of service.
    OutOfService(NodeName),
    /// It serves, and carries less than when it was reserved.
    CarriesLess(NodeName),
}

impl Fleet {
    /// Jobs whose reserved start rests on a node that left service or carries less than before.
    pub fn broken(&self) -> impl Iterator<Item = JobId> + '_ {
        self.broken.keys().copied()
    }

    pub(crate) fn is_broken(&self, job: JobId) -> bool {
        self.broken.contains_key(&job)
    }

    /// What is reserved on a node that left service rests on nothing. Where it carries less than
    /// before, what was reserved may not fit any more, alone or beside the others: it is planned
    /// anew.
    pub(crate) fn note_loss(&mut self, e: &Entry, less: bool) {
        if e.book.is_empty() {
            return;
        }
        let node = e.facts.name.clone();
        let loss = match (e.serving(), less) {
            (false, _) => Loss::OutOfService(node),
            (true, true) => Loss::CarriesLess(node),
            (true, false) => return,
        };
        self.broken.extend(e.book.iter().map(|b| (b.job, loss.clone())));
    }

    /// Lemons take gangs of at most so many nodes from now on. Where that is less than before, what
    /// is reserved on them is planned anew.
    pub(crate) fn set_lemon_max(&mut self, nodes: u32) {
        let less = self.lemon_max.unwrap_or(1) > nodes;
        self.lemon_max = Some(nodes);
        if !less {
            return;
        }
        let lemons = self.booked.iter().filter_map(|p| self.present(p.ix));
        let lost: Vec<(JobId, Loss)> = lemons
            .filter(|e| e.facts.role == NodeRole::Lemon)
            .flat_map(|e| {
                e.book.iter().map(move |b| (b.job, Loss::CarriesLess(e.facts.name.clone())))
            })
            .collect();
        self.broken.extend(lost);
    }

    /// Why the nodes that are reserved for a job do not carry it any more.
    #[must_use]
    pub fn why_broken(&self, job: JobId) -> String {
        match self.broken.get(&job) {
            Some(Loss::OutOfService(node)) => {
                let now = self.find(node).map(|ix| self.entry(ix).facts.block);
                match now {
                    Some(Some(block)) => format!("node {node} is {}", block.words()),
                    Some(None) => format!("node {node} was out of service"),
                    None => format!("node {node} is gone"),
                }
            }
            Some(Loss::CarriesLess(node)) if self.is_lemon(node) => {
                format!("node {node} is marked as a lemon")
            }
            Some(Loss::CarriesLess(node)) => format!("node {node} has less capacity than before"),
            None => "nothing happened to its nodes".into(),
        }
    }

    fn is_lemon(&self, node: &NodeName) -> bool {
        self.find(node).is_some_and(|ix| self.entry(ix).facts.role == NodeRole::Lemon)
    }
}
