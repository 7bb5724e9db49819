//! What the log adds up to about objectives and alerts.

use super::State;
use muster_model::FailureMode;
use muster_model::alert::{Alert, Condition, Routing, Silence};
use muster_model::entity::Entity;
use muster_model::ids::{JobId, Seq};
use muster_model::job::Job;
use muster_model::names::{Label, NodeName};
use muster_model::node::Node;
use muster_model::slo::{Objective, Objectives};
use muster_model::units::Time;
use muster_slo::budget::{Counts, Status, last_judged, status_judged};
use muster_slo::{Facts, Ledger, NotificationState, SliCounter, defaults};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Something that is wrong and that nothing in the log shows, as it was reported.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExternalCondition {
    /// The condition as it was reported.
    pub condition: Condition,
    /// Taken for over after this.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<Time>,
}

/// Everything that is known of objectives and alerts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SloState {
    /// The objectives as the site set them.
    pub objectives: Arc<Objectives>,
    /// The record in which the site said so; before that the objectives are those that come with
    /// Muster, and gate nothing.
    pub objectives_at: Seq,
    /// Who is notified of what.
    pub routing: Arc<Routing>,
    /// The record that said so.
    pub routing_at: Seq,
    /// Times in which some alerts are not sent.
    pub silences: BTreeMap<Label, Silence>,
    /// Alerts by id: all that are open, and those that were lately.
    pub alerts: BTreeMap<String, Alert>,
    /// What was sent to whom.
    pub desk: NotificationState,
    /// What was reported from outside, by key.
    pub outside: BTreeMap<String, ExternalCondition>,
    /// When certificates end.
    pub certificates: BTreeMap<Entity, Time>,
    /// What was counted.
    pub book: SliCounter,
    /// The objectives that hold; follows from what the site said.
    #[serde(skip)]
    in_force: Vec<Objective>,
}

impl Default for SloState {
    fn default() -> SloState {
        let mut out = SloState {
            objectives: Arc::default(),
            objectives_at: Seq(0),
            routing: Arc::default(),
            routing_at: Seq(0),
            silences: BTreeMap::new(),
            alerts: BTreeMap::new(),
            desk: NotificationState::default(),
            outside: BTreeMap::new(),
            certificates: BTreeMap::new(),
            book: SliCounter::default(),
            in_force: Vec::new(),
        };
        out.follow();
        out
    }
}

/// How an objective stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ObjectiveStatus {
    /// The objective as it was set.
    pub objective: Objective,
    /// Its budget, how much is left and the burn rate.
    pub status: Status,
}

impl SloState {
    /// The objectives that hold, in order of their names.
    #[must_use]
    pub fn in_force(&self) -> &[Objective] {
        &self.in_force
    }

    /// Has the site set its objectives? Default objectives stop nothing.
    #[must_use]
    pub fn is_stated(&self) -> bool {
        self.objectives_at > Seq(0)
    }

    /// Alerts that are not over.
    pub fn open(&self) -> impl Iterator<Item = &Alert> {
        self.alerts.values().filter(|a| a.is_open())
    }

    /// Works out which objectives hold, and counts for them.
    pub(crate) fn follow(&mut self) {
        self.in_force = defaults::in_force(&self.objectives);
        self.book.follow(&self.in_force);
    }

    /// After a snapshot was read: what is not stored follows.
    pub(crate) fn reindex(&mut self) {
        self.in_force = defaults::in_force(&self.objectives);
    }
}

impl State {
    /// What counts already although the log does not show its end; to be looked at together with
    /// what was counted ([`State::objective_statuses_with`]).
    #[must_use]
    pub fn slo_tail(&self, now: Time) -> Ledger {
        self.slo.book.tail(now, self)
    }

    /// How every objective stands at a moment.
    #[must_use]
    pub fn objective_statuses(&self, now: Time) -> Vec<ObjectiveStatus> {
        self.objective_statuses_with(&self.slo_tail(now), now)
    }

    /// How every objective stands, with what only counts at the moment given. Whoever asks gets the
    /// rules that fired at the last whole minute: a state and its alert are one computation.
    #[must_use]
    pub fn objective_statuses_with(&self, tail: &Ledger, now: Time) -> Vec<ObjectiveStatus> {
        let ledgers = [&self.slo.book.ledger, tail];
        let judged = last_judged(now);
        let of = |o: &Objective| ObjectiveStatus {
            objective: o.clone(),
            status: status_judged(o, Counts(&ledgers), now, judged),
        };
        self.slo.in_force.iter().map(of).collect()
    }

    /// How many jobs have not ended.
    pub(crate) fn open_job_count(&self) -> usize {
        self.jobs.len().saturating_sub(self.index.ended.len())
    }

    /// Takes up what was there before anything was counted: after a snapshot of an older version.
    pub(crate) fn seed_slo(&mut self) {
        let mut slo = SloState::default();
        slo.book.seed(self.at, self.nodes.values().map(|n| &**n));
        self.slo = slo;
    }
}

impl Facts for State {
    fn job(&self, id: JobId) -> Option<&Job> {
        self.jobs.get(&id).map(|j| &**j)
    }

    fn node(&self, name: &NodeName) -> Option<&Node> {
        self.nodes.get(name).map(|n| &**n)
    }

    fn crash_loops(&self, id: JobId) -> bool {
        self.health.open_of(&Entity::Job(id), FailureMode::CRASH_LOOP.code()).is_some()
    }

    fn open_jobs(&self) -> Box<dyn Iterator<Item = &Job> + '_> {
        Box::new(self.jobs.values().map(|j| &**j).filter(|j| j.ended_at.is_none()))
    }
}
