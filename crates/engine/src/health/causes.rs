//! Findings with one cause become an incident; the cause's breaker keeps work away.

use super::held::{image, of_work, template};
use crate::Engine;
use muster_health::correlate::{Common, CorrelationInput, NodeTraits, correlate};
use muster_lifecycle::groups::counts;
use muster_model::FailureMode;
use muster_model::breaker::{Breaker, BreakerState};
use muster_model::entity::Entity;
use muster_model::event::Event;
use muster_model::finding::{Finding, INCIDENT_FINDINGS, Incident};
use muster_model::names::NodeName;
use muster_model::remediation::{Action, RemediationOutcome, RemediationStep};
use muster_model::units::Span;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// Findings are compared with those of the last so long.
const WINDOW: Span = Span::hours(6);
/// The newest so many are compared: enough to see what is common.
const MOST: usize = 1024;

impl Engine {
    /// Looks for causes that several findings share.
    pub(super) fn correlate(&mut self) {
        let now = self.state.now;
        let book = &self.state.health;
        let recent: Vec<Arc<Finding>> = book
            .findings
            .values()
            .rev()
            .take_while(|f| now.since(f.opened_at) < WINDOW)
            .filter(|f| self.is_shown(f) && !self.ended_with_incident(f))
            .take(MOST)
            .cloned()
            .collect();
        if recent.len() < 2 {
            return;
        }
        let sizes = RefCell::new(std::mem::take(&mut self.work.sizes));
        let causes = {
            let hits: Vec<CorrelationInput<'_>> = recent.iter().map(|f| self.hit(f)).collect();
            let of_work = self.sizes_of_work(&hits);
            let size = |e: &Entity| match e {
                Entity::Job(_) => self.size_of(e),
                Entity::Template(..) | Entity::Image(_) => of_work.get(e).copied().unwrap_or(0),
                _ => {
                    let known = sizes.borrow().get(e).copied();
                    known.unwrap_or_else(|| {
                        let n = self.size_of(e);
                        sizes.borrow_mut().insert(e.clone(), n);
                        n
                    })
                }
            };
            correlate(&hits, &size, now)
        };
        self.work.sizes = sizes.into_inner();
        for c in causes {
            self.common_cause(c);
        }
    }

    /// Is it over, and its incident with it? It counts for no other cause: what an incident says of its
    /// beginning, its findings and what it cost is final. What is still so is found anew.
    fn ended_with_incident(&self, f: &Finding) -> bool {
        let Some(id) = f.incident.filter(|_| f.closed.is_some()) else { return false };
        self.state.health.incidents.get(&id).is_none_or(|i| i.closed.is_some())
    }

    fn hit<'a>(&'a self, f: &'a Finding) -> CorrelationInput<'a> {
        let node = f.seen.entity.node().and_then(|n| self.state.nodes.get(n));
        let job = f.seen.attempt.and_then(|k| self.state.jobs.get(&k.job));
        CorrelationInput {
            id: f.id,
            kind: &f.seen.kind,
            severity: f.seen.severity,
            entity: &f.seen.entity,
            at: f.seen.first_seen.max(f.opened_at - Span::mins(10)),
            place: node.map(|n| NodeTraits {
                node: &n.name,
                location: &n.location,
                pool: n.pool(),
                sku: n.sku(),
                versions: &n.inventory.versions,
            }),
            attempt: f.seen.attempt,
            template: job.map(|j| template(j)),
            image: job.and_then(|j| image(&j.spec)),
        }
    }

    /// Nodes on which the same template or image ran lately, where enough findings name one. All
    /// are counted in one pass: there may be very many jobs.
    fn sizes_of_work(&self, hits: &[CorrelationInput<'_>]) -> BTreeMap<Entity, u32> {
        let mut named: Vec<(&Entity, &NodeName)> = Vec::new();
        for h in hits {
            let Some(node) = h.entity.node() else { continue };
            named.extend([&h.template, &h.image].into_iter().flatten().map(|e| (e, node)));
        }
        named.sort_unstable();
        named.dedup();
        let mut nodes: Vec<(&Entity, BTreeSet<NodeName>)> = named
            .chunk_by(|a, b| a.0 == b.0)
            .filter(|hit| hit.len() >= muster_health::correlate::NODES_MIN)
            .map(|hit| (hit[0].0, BTreeSet::new()))
            .collect();
        if nodes.is_empty() {
            return BTreeMap::new();
        }
        let since = self.state.now - WINDOW;
        for job in self.state.jobs.values() {
            for e in of_work(job) {
                let Ok(at) = nodes.binary_search_by(|of| of.0.cmp(&e)) else { continue };
                let now = job.attempt.iter().flat_map(|a| &a.placement.slots).map(|s| &s.node);
                let lately = job.past.iter().filter(|p| p.ended_at >= since);
                nodes[at].1.extend(now.chain(lately.flat_map(|p| &p.nodes)).cloned());
            }
        }
        let count = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        nodes.into_iter().map(|(e, all)| (e.clone(), count(all.len()))).collect()
    }

    /// Nodes of the fleet that belong to a group. Those that are retired, or have not joined yet, fail
    /// no more and not yet.
    fn size_of(&self, e: &Entity) -> u32 {
        let all = self.state.nodes.values().filter(|n| counts(n));
        let n = match e {
            Entity::Job(j) => {
                let job = self.state.jobs.get(j);
                let nodes = job.map_or(0, |j| j.groups.iter().map(|g| g.nodes).sum::<u32>());
                nodes as usize
            }
            Entity::Site => all.count(),
            e => all.filter(|n| super::apply::in_group(n, e)).count(),
        };
        u32::try_from(n).unwrap_or(u32::MAX)
    }

    fn common_cause(&mut self, c: Common) {
        if self.is_explained_without(&c) {
            return;
        }
        let book = &self.state.health;
        let open = |f: &&u64| book.findings.get(f).is_some_and(|f| f.closed.is_none());
        let known = book.open_incidents().find(|i| i.cause == c.cause && i.kind == c.kind);
        if let Some(i) = known.cloned() {
            let new: Vec<u64> = c
                .findings
                .iter()
                // What is over is not counted afterwards.
                .filter(|f| {
                    open(f) && book.findings.get(f).is_some_and(|f| f.incident != Some(i.id))
                })
                .copied()
                .collect();
            if !new.is_empty() {
                let severity = c.severity.max(i.severity);
                let (id, summary) = (i.id, c.summary.clone());
                let grew = Event::IncidentGrew { id, findings: new.clone(), severity, summary };
                self.emit(None, grew);
                self.absorb(id, &c);
                self.explain_or_consider(&new, &c);
            }
            return;
        }
        if !c.findings.iter().any(|f| open(&f)) {
            return;
        }
        let began = c.findings.iter().filter_map(|f| book.findings.get(f));
        let began_at = began.map(|f| f.seen.first_seen).min().unwrap_or(self.state.now);
        let id = self.state.seq.next().0;
        // Only so many are listed with it; the others are of it all the same, and counted once.
        let (listed, rest) = c.findings.split_at(c.findings.len().min(INCIDENT_FINDINGS));
        let incident = Incident {
            id,
            cause: c.cause.clone(),
            kind: c.kind.clone(),
            severity: c.severity,
            summary: c.summary.clone(),
            began_at,
            opened_at: self.state.now,
            findings: listed.to_vec(),
            count: listed.len() as u64,
            owner: None,
            notes: Vec::new(),
            closed: None,
            part_of: None,
        };
        self.emit(None, Event::IncidentOpened { incident: Box::new(incident) });
        if !rest.is_empty() {
            let (findings, severity, summary) = (rest.to_vec(), c.severity, c.summary.clone());
            self.emit(None, Event::IncidentGrew { id, findings, severity, summary });
        }
        self.absorb(id, &c);
        match &c.cause {
            cause if is_group(cause) => {
                let (hit, of) = (self.nodes_hit(&c), self.size_of(&c.cause));
                if muster_health::breaker::should_trip(&c.cause, 0, hit, of) {
                    self.open_breaker(c.cause.clone(), &c.summary, Some(id));
                }
            }
            Entity::Job(j) if c.kind == FailureMode::NODE_KILLER => {
                self.quarantine_job(*j, &c.summary);
            }
            Entity::Template(..) | Entity::Image(_) => {
                self.open_breaker(c.cause.clone(), &c.summary, Some(id));
            }
            _ => {}
        }
        self.explain_or_consider(&c.findings, &c);
    }

    /// Nodes are left alone where what is done about the cause keeps work from them. Otherwise each
    /// unhealthy one gets a remediation, also one that was left alone for a cause that is over.
    fn explain_or_consider(&mut self, findings: &[u64], c: &Common) {
        if c.cause.node().is_some() {
            return;
        }
        if self.explains(&c.cause, &c.kind) {
            self.explain_by(findings, c);
        } else {
            self.reconsider_findings(findings);
        }
    }

    /// Nothing else is done about these any more: what was left alone gets a remediation. What has a
    /// remediation keeps it, and what was decided about one stays.
    pub(super) fn reconsider_findings(&mut self, findings: &[u64]) {
        for id in findings {
            let Some(f) = self.state.health.findings.get(id).cloned() else { continue };
            let last = f.remediation.and_then(|r| self.state.health.remediations.get(&r));
            if last.is_none_or(|r| r.outcome == Some(RemediationOutcome::Superseded)) {
                self.choose_remediation(&f);
            }
        }
    }

    /// A node was reconciled, or what covered its findings is over: each that has no remediation gets
    /// its own.
    pub(crate) fn reconsider_findings_on(&mut self, node: &NodeName) {
        let open: Vec<u64> = self.state.health.open_on(node).map(|f| f.id).collect();
        self.reconsider_findings(&open);
    }

    /// The breaker of a group has closed: what is still open of the incidents that have the group
    /// as their cause is each node's own again.
    pub(super) fn group_is_open_to_work(&mut self, cause: &Entity) {
        if !is_group(cause) {
            return;
        }
        let book = &self.state.health;
        let of_it: BTreeSet<u64> =
            book.open_incidents().filter(|i| i.cause == *cause).map(|i| i.id).collect();
        if of_it.is_empty() {
            return;
        }
        let theirs = |f: &&Arc<Finding>| f.incident.is_some_and(|i| of_it.contains(&i));
        let findings: Vec<u64> = book.open().filter(theirs).map(|f| f.id).collect();
        self.reconsider_findings(&findings);
    }

    /// Does what is done about a cause elsewhere keep work from the nodes it is seen on? A group of
    /// nodes is kept from work by its breaker alone: where that may not open, each unhealthy node is
    /// remediated for itself.
    fn is_dealt_with(&self, cause: &Entity) -> bool {
        let open = |b: &Arc<Breaker>| b.state != BreakerState::Closed;
        !is_group(cause) || self.state.health.breakers.get(cause).is_some_and(open)
    }

    fn nodes_hit(&self, c: &Common) -> u32 {
        let nodes = self.state.nodes_of_findings(&c.findings);
        u32::try_from(nodes.len()).unwrap_or(u32::MAX)
    }

    /// Incidents that have findings of this wider cause, and nothing open beside them, are part of
    /// it.
    fn absorb(&mut self, id: u64, c: &Common) {
        let all: BTreeSet<u64> = c.findings.iter().copied().collect();
        let book = &self.state.health;
        let parts: Vec<u64> = book
            .open_incidents()
            .filter(|i| i.id != id && i.findings.iter().any(|f| all.contains(f)))
            .filter(|i| !book.is_live(i))
            .map(|i| i.id)
            .collect();
        for part in parts {
            let why = format!("part of incident {id}");
            self.emit(None, Event::IncidentClosed { id: part, why, part_of: Some(id) });
            self.close_breaker_of(part, &format!("incident {id} has a wider cause"));
        }
    }

    /// Nodes whose findings have a cause elsewhere are left alone.
    fn explain_by(&mut self, findings: &[u64], c: &Common) {
        // What is proven and under way stays: the GPU is unhealthy whatever made it so.
        let keeps = |book: &crate::state::HealthState, f: &Finding| {
            let r = f.remediation.and_then(|r| book.remediations.get(&r));
            r.is_some_and(|r| r.step != RemediationStep::Proposed && r.action > Action::Drain)
        };
        for id in findings {
            let Some(f) = self.state.health.findings.get(id).cloned() else { continue };
            if keeps(&self.state.health, &f) {
                continue;
            }
            let Some(r) = f.remediation else { continue };
            self.take_back(r, RemediationOutcome::Superseded, &c.summary, false);
        }
        // One of them may be what its node got no new work for.
        let book = &self.state.health;
        let all = findings.iter().filter_map(|id| book.findings.get(id));
        self.work.due.extend(all.filter_map(|f| f.seen.entity.node().cloned()));
    }

    /// Is a finding explained by an incident whose cause is elsewhere?
    pub(super) fn explained(&self, f: &Finding) -> bool {
        let Some(i) = f.incident.and_then(|i| self.state.health.incidents.get(&i)) else {
            return false;
        };
        i.closed.is_none() && self.explains(&i.cause, &i.kind)
    }

    /// Does a cause elsewhere explain what is found on nodes, so that nothing is done about those? A
    /// job that is held for its nodes heals none of them.
    fn explains(&self, cause: &Entity, kind: &str) -> bool {
        let elsewhere = cause.node().is_none() && kind != FailureMode::NODE_KILLER.code();
        elsewhere && self.is_dealt_with(cause)
    }
}

/// Is a cause something that nodes have in common?
pub(super) fn is_group(cause: &Entity) -> bool {
    matches!(
        cause,
        Entity::Domain(..)
            | Entity::Feed(_)
            | Entity::Sku(_)
            | Entity::Version(..)
            | Entity::Pool(_)
    )
}
