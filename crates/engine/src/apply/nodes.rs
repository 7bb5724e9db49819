//! What records say about nodes.

use crate::stage::enter;
use crate::state::index::Index;
use crate::state::{ApplyError, BookedReservation, State};
use muster_model::cordon::{Cordon, CordonedBy};
use muster_model::event::{Event, Record};
use muster_model::ids::JobId;
use muster_model::job::Job;
use muster_model::names::NodeName;
use muster_model::node::{Inventory, Node, NodeRole, Stage};
use muster_model::placement::GpuSet;
use muster_model::reservation::ReservationTarget;
use muster_model::slo::NodeServiceFacts;
use std::collections::BTreeSet;
use std::sync::Arc;

impl State {
    /// Jobs leave the index, before what it counts them by changes. Mostly there are none.
    fn take_out(&mut self, jobs: &[Arc<Job>]) {
        if !jobs.is_empty() {
            self.with_index(|ix, s| jobs.iter().for_each(|j| ix.remove(s, j)));
        }
    }

    /// The same jobs are counted again.
    fn put_back(&mut self, jobs: &[Arc<Job>]) {
        if !jobs.is_empty() {
            self.with_index(|ix, s| jobs.iter().for_each(|j| ix.add(s, j)));
        }
    }

    pub(super) fn apply_node(&mut self, r: &Record) -> Result<(), ApplyError> {
        match &r.event {
            Event::NodeEnrolled { node, machine, token, location, key } => {
                self.use_token(token);
                // An attempt that had ranks on a machine of this name before is still counted there.
                let host = self.nodes.get(node).map(|n| n.host.clone()).unwrap_or_default();
                let fresh = Node {
                    name: node.clone(),
                    stage: Stage::Enrolled,
                    reachable: false,
                    cordon: None,
                    inventory: Inventory::default(),
                    missing_gpus: Vec::new(),
                    location: location.clone(),
                    address: String::new(),
                    host,
                    machine: machine.clone(),
                    enrolment: key.clone(),
                    boot: String::new(),
                    place: String::new(),
                    orphans: BTreeSet::new(),
                    protected: false,
                    excluded_gpus: GpuSet::EMPTY,
                    excluded_by_operator: GpuSet::EMPTY,
                    role: NodeRole::Normal,
                    hazard: 0,
                    stage_since: r.at,
                    stage_why: String::new(),
                    stage_until: None,
                    drained_by_remediation: false,
                    generation: 0,
                    probation: None,
                    breaker: None,
                    remediation: None,
                    qualifying: None,
                    qualified: None,
                    past_figures: Vec::new(),
                    enrolled_at: r.at,
                    changed_at: r.at,
                    version: r.seq,
                };
                // The same machine that enrols again keeps its life; only its certificate is new.
                let keep = self.nodes.get(node).filter(|n| n.stage != Stage::Retired);
                if keep.is_none() {
                    // Quotas count by SKU, which is not known of the new machine yet.
                    let here = self.placed_on(node);
                    self.take_out(&here);
                    let avoided = self.avoids(&fresh.name);
                    self.index.node_changed(&fresh, avoided);
                    self.nodes.insert(node.clone(), Arc::new(fresh));
                    self.put_back(&here);
                    self.follow_domains();
                    self.follow_breakers(r, node)?;
                } else if key.is_some() {
                    self.node(r.seq, node, |n| n.enrolment.clone_from(key))?;
                }
                Ok(())
            }
            Event::NodeBack { node, boot, address, host, orphans, protected, place } => {
                self.note_place(node, boot, place);
                // Ports are counted by host: where that changes, jobs that were placed there are
                // taken out and put back in.
                let was = self.nodes.get(node).map_or("", |n| n.host.as_str());
                let moves = !was.is_empty() && was != host;
                let here = if moves { self.placed_on(node) } else { Vec::new() };
                self.take_out(&here);
                self.node(r.seq, node, |n| {
                    n.reachable = true;
                    n.boot.clone_from(boot);
                    n.place.clone_from(place);
                    n.address.clone_from(address);
                    n.host.clone_from(host);
                    n.orphans.clone_from(orphans);
                    n.protected = *protected;
                    n.changed_at = r.at;
                })?;
                self.put_back(&here);
                Ok(())
            }
            Event::NodeInventoried { node, inventory } => {
                let sku =
                    self.nodes.get(node).and_then(|n| n.inventory.gpus.first()).map(|g| &g.sku);
                let other = sku != inventory.gpus.first().map(|g| &g.sku);
                let here = if other { self.placed_on(node) } else { Vec::new() };
                self.take_out(&here);
                self.node(r.seq, node, |n| n.inventoried((**inventory).clone()))?;
                self.put_back(&here);
                self.follow_breakers(r, node)
            }
            Event::NodeLost { node, last_seen } => {
                self.node(r.seq, node, |n| {
                    n.reachable = false;
                    n.changed_at = r.at;
                })?;
                let here: Vec<JobId> = self.attempts_on(node).map(|j| j.id).collect();
                for id in here {
                    if let Some(job) = self.jobs.get_mut(&id).map(Arc::make_mut) {
                        crate::health::recovery_of_lost(job, *last_seen, r.at);
                        if let Some(a) = &mut job.attempt {
                            a.lost_at = a.lost_at.max(Some((*last_seen).max(a.placed_at)));
                        }
                    }
                }
                Ok(())
            }
            Event::OrphanGone { node, key } => self.node(r.seq, node, |n| {
                n.orphans.remove(key);
            }),
            Event::NodeCordoned { node, reason, decided } => {
                // The control plane cordons for one reason only.
                let by = if *decided { CordonedBy::FailedTest } else { CordonedBy::Operator };
                self.node(r.seq, node, |n| {
                    n.cordon = Some(Cordon::set(n.cordon.as_ref(), reason.clone(), by, r.at));
                })
            }
            Event::NodeUncordoned { node, .. } => self.node(r.seq, node, |n| n.cordon = None),
            Event::DrainStarted { node, reason } => self.node(r.seq, node, |n| {
                n.drained_by_remediation = false;
                enter(n, r.at, Stage::Draining, reason, None);
            }),
            Event::NodeDrained { node } => {
                self.node(r.seq, node, |n| enter(n, r.at, Stage::Drained, "", None))
            }
            Event::NodeReady { node, reason } => {
                self.node(r.seq, node, |n| enter(n, r.at, Stage::Ready, reason, None))
            }
            Event::NodeStaged { node, stage, reason, until, by_operator } => {
                self.node(r.seq, node, |n| {
                    let was = (n.stage, n.drained_by_remediation);
                    n.drained_by_remediation =
                        NodeServiceFacts::drained_by_remediation(was, *stage, *by_operator);
                    enter(n, r.at, *stage, reason, *until);
                })
            }
            Event::NodeRetired { node } => self.node(r.seq, node, |n| {
                enter(n, r.at, Stage::Retired, "", None);
                n.reachable = false;
                n.forget_details();
            }),
            Event::NodeReconciled { node } => self.node(r.seq, node, |n| n.protected = false),
            Event::NodeMarked { node, role, hazard, .. } => self.node(r.seq, node, |n| {
                n.role = *role;
                n.hazard = *hazard;
            }),
            _ => Ok(()),
        }
    }

    /// The agent of a node is heard from `place`. Where it ran in another directory until now, that
    /// one is remembered with the attempts that are not over there: their ranks were started from it.
    /// After a restart of the machine nothing of them is left, wherever they came from.
    fn note_place(&mut self, node: &NodeName, boot: &str, place: &str) {
        let Some(n) = self.nodes.get(node) else { return };
        let (restarted, was) = (n.boot != boot, n.place.clone());
        let moved = !was.is_empty() && was != place;
        if !restarted && !moved {
            return;
        }
        let here: Vec<JobId> = self.attempts_on(node).map(|j| j.id).collect();
        for id in here {
            let job = self.jobs.get_mut(&id).map(Arc::make_mut);
            let Some(a) = job.and_then(|j| j.attempt.as_mut()) else { continue };
            if restarted {
                a.started_from.remove(node);
            } else {
                a.started_from.entry(node.clone()).or_insert_with(|| was.clone());
            }
        }
    }

    /// Jobs whose attempt was given something on a node, be it over there or not.
    pub(super) fn placed_on(&self, node: &NodeName) -> Vec<Arc<Job>> {
        let all = self.index.left.keys().filter_map(|id| self.jobs.get(id));
        let here = |j: &&Arc<Job>| {
            j.attempt.iter().flat_map(|a| &a.placement.slots).any(|s| s.node == *node)
        };
        all.filter(here).cloned().collect()
    }

    /// A reservation over a domain covers the nodes that stand there now.
    pub(super) fn follow_domains(&mut self) {
        let over_domain =
            |b: &BookedReservation| matches!(b.reservation.over, ReservationTarget::Domain { .. });
        if self.reservations.values().any(over_domain) {
            self.with_index(Index::reservations_changed);
        }
    }
}
