//! Copies of the state for those who must not hold up its writer.

use super::State;
use super::index::Index;
use std::collections::BTreeSet;

impl State {
    /// What is stored, without all that is derived from it: cheap, as jobs and nodes are shared. It
    /// packs to the same bytes. Nothing else may be asked of it before [`State::indexed`].
    #[must_use]
    pub fn without_index(&self) -> State {
        State {
            site: self.site.clone(),
            epoch: self.epoch,
            leads: self.leads.clone(),
            lives: self.lives.clone(),
            seq: self.seq,
            at: self.at,
            now: self.now,
            jobs: self.jobs.clone(),
            next_job: self.next_job,
            nodes: self.nodes.clone(),
            projects: self.projects.clone(),
            tokens: self.tokens.clone(),
            over: self.over.clone(),
            secrets: self.secrets.clone(),
            topology: self.topology.clone(),
            policy: self.policy.clone(),
            quotas: self.quotas.clone(),
            reservations: self.reservations.clone(),
            usage: self.usage.clone(),
            history: self.history.clone(),
            reserved_starts: self.reserved_starts,
            exposure: self.exposure,
            faults: self.faults.clone(),
            fault_counts: self.fault_counts.clone(),
            health: self.health.clone(),
            runbooks: self.runbooks.clone(),
            slo: self.slo.clone(),
            moves: self.moves.clone(),
            keys: self.keys.clone(),
            // A copy follows records alone: it would not see that an agent is connected again.
            disconnected: BTreeSet::new(),
            index: Box::default(),
            spare: None,
        }
    }

    /// The same with all that is derived from it, built anew: as long as a start takes.
    #[must_use]
    pub fn indexed(mut self) -> State {
        let mut index = Index::build(&self);
        index.queue_due_retries(&self, self.now);
        self.index = Box::new(index);
        self
    }
}
