//! A small engine around the scheduler: it carries plans out, lets jobs end, nodes fail and time
//! pass, and checks after every step what must always hold.
#![allow(dead_code, unreachable_pub)]

pub mod check;
pub mod make;
pub mod shapes;
mod time;

pub use make::*;

use muster_model::ids::JobId;
use muster_model::job::Basis;
use muster_model::names::NodeName;
use muster_model::placement::Placement;
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::reservation::Overrun;
use muster_model::units::{Span, Time};
use muster_scheduler::{Block, Cluster, FAR, NodeFacts, Plan, ReservedNodes, Running, Work, plan};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// A reserved start as it was reported.
#[derive(Debug, Clone)]
pub struct ReportedStart {
    pub at: Time,
    pub nodes: Vec<NodeName>,
    pub basis: Basis,
}

/// A job and how long it really runs.
#[derive(Debug, Clone)]
pub struct Job {
    pub work: Arc<Work>,
    pub real: Option<Span>,
}

/// One life of a cluster.
#[derive(Debug, Clone)]
pub struct ClusterRun {
    pub c: Cluster,
    pub policy: SitePolicy,
    pub quotas: Quotas,
    pub now: Time,
    pub nodes: BTreeMap<NodeName, NodeFacts>,
    pub reservations: Vec<ReservedNodes>,
    pub jobs: BTreeMap<JobId, Job>,
    pub reported: BTreeMap<JobId, ReportedStart>,
    /// When running jobs end by themselves.
    pub ends: BTreeMap<JobId, Time>,
    /// When those on their way out are gone; their next size if they get another.
    pub stops: BTreeMap<JobId, (Time, Option<u32>)>,
    pub done: BTreeSet<JobId>,
    pub started: BTreeMap<JobId, Time>,
    pub look_again: Option<Time>,
    /// How long victims take to leave.
    pub grace: Span,
    /// Nodes failed or came back: reserved starts may have moved.
    pub failed: BTreeSet<NodeName>,
    /// Check every step (slow) and that a second plan is empty.
    pub strict: bool,
    /// Reserved starts must be kept to the letter: no quotas, limits or budgets besides time.
    pub reserved_starts_hold: bool,
    pub next: u64,
    pub cycles: u64,
}

impl ClusterRun {
    pub fn new(nodes: impl IntoIterator<Item = NodeFacts>) -> ClusterRun {
        let mut life = ClusterRun {
            c: Cluster::default(),
            policy: SitePolicy::default(),
            quotas: Quotas::default(),
            now: Time(1_000_000_000),
            nodes: BTreeMap::new(),
            reservations: Vec::new(),
            jobs: BTreeMap::new(),
            reported: BTreeMap::new(),
            ends: BTreeMap::new(),
            stops: BTreeMap::new(),
            done: BTreeSet::new(),
            started: BTreeMap::new(),
            look_again: None,
            grace: Span::secs(30),
            failed: BTreeSet::new(),
            strict: true,
            reserved_starts_hold: false,
            next: 1,
            cycles: 0,
        };
        for n in nodes {
            life.upsert(n);
        }
        life
    }

    pub fn with_policy(mut self, p: SitePolicy) -> ClusterRun {
        self.c.set_power(&p.power);
        self.policy = p;
        self
    }

    pub fn with_quotas(mut self, json: &str) -> ClusterRun {
        let q: Quotas = serde_json::from_str(json).unwrap();
        q.check().unwrap();
        self.c.set_quotas(&q);
        self.quotas = q;
        self
    }

    pub fn reserve(&mut self, closed: ReservedNodes) {
        self.reservations.push(closed);
        self.c.fleet.set_reservations(self.reservations.clone());
    }

    pub fn upsert(&mut self, n: NodeFacts) {
        self.nodes.insert(n.name.clone(), n.clone());
        self.c.fleet.upsert(n);
    }

    /// Submits without planning.
    pub fn add(&mut self, b: Build) -> JobId {
        let id = JobId(self.next);
        self.next += 1;
        let work = Arc::new(Work { job: id, since: self.now, ..b.work });
        self.jobs.insert(id, Job { work: work.clone(), real: b.real });
        self.c.queue.insert(work);
        id
    }

    /// Submits and plans.
    pub fn submit(&mut self, b: Build) -> JobId {
        let id = self.add(b);
        self.cycle();
        id
    }

    pub fn running(&self, id: JobId) -> bool {
        self.c.running.contains_key(&id)
    }

    pub fn waits(&self, id: JobId) -> bool {
        self.c.queue.get(id).is_some()
    }

    pub fn on(&self, id: JobId) -> Vec<String> {
        let r = self.c.running.get(&id);
        r.map_or_else(Vec::new, |r| r.slots().iter().map(|s| s.node.to_string()).collect())
    }

    /// Plans and carries out until there is nothing more to do. Whatever can start starts in the
    /// first plan; reserved starts, claims and growth come a few at a time, and come to an end.
    pub fn cycle(&mut self) -> Plan {
        let mut all = Plan::default();
        let mut first = true;
        for round in 0.. {
            assert!(round < 50, "planning never comes to an end");
            self.stop_for_reservations();
            let before = self.strict.then(|| self.clone());
            let p = plan(&mut self.c, &self.policy, self.now);
            self.cycles += 1;
            if let Some(before) = before {
                check::plan(&before, &p);
                assert!(self.c.problems().is_empty(), "{:?}", self.c.problems());
            }
            assert!(first || p.starts.is_empty(), "it could have started at once: {p:?}");
            let idle = p.starts.is_empty()
                && p.reserved_starts.is_empty()
                && p.victims.is_empty()
                && p.resizes.is_empty();
            self.execute(&p);
            if self.strict {
                check::state(self);
            }
            // Who is on its way out is gone before a reserved start that it stood against.
            first = p.more || !p.victims.is_empty() || !p.resizes.is_empty();
            all.starts.extend(p.starts);
            all.reserved_starts.extend(p.reserved_starts);
            all.victims.extend(p.victims);
            all.resizes.extend(p.resizes);
            all.dropped.extend(p.dropped);
            all.look_again = p.look_again;
            if idle && !p.more {
                break;
            }
        }
        self.look_again = all.look_again;
        all
    }

    pub fn execute(&mut self, p: &Plan) {
        for s in &p.starts {
            let work = self.c.queue.get(s.job).expect("only waiting jobs start").clone();
            self.c.queue.remove(s.job);
            self.c.fleet.release_reservation(s.job);
            if self.strict {
                check::start(self, &work, &s.placed);
            }
            let n = u32::try_from(s.placed.slots.len()).unwrap();
            let work = if n == work.demand.nodes() {
                work
            } else {
                assert!(work.elastic.is_some_and(|(min, _)| n >= min), "a gang is whole");
                Arc::new(Work { demand: Arc::new(work.demand.resized(n)), ..(*work).clone() })
            };
            let sku = s.placed.slots.iter().find(|x| !x.gpus.is_empty());
            let sku = sku.or(s.placed.slots.first()).map(|x| self.nodes[&x.node].sku.clone());
            self.run(s.job, work, s.placed.slots.clone(), sku.unwrap_or_default(), s);
        }
        for (job, _) in &p.dropped {
            self.c.fleet.release_reservation(*job);
            self.reported.remove(job);
        }
        for x in &p.reserved_starts {
            let w =
                self.c.queue.get(x.job).expect("only waiting jobs have a reserved start").clone();
            if self.strict {
                check::reserved_start(self, x);
            }
            self.c.fleet.keep(&w, &x.nodes, (x.at, w.ends(x.at)), x.basis);
            let reported = ReportedStart { at: x.at, nodes: x.nodes.clone(), basis: x.basis };
            self.reported.insert(x.job, reported);
        }
        for v in &p.victims {
            self.stop(v.job, self.now + self.grace, None);
        }
        for r in &p.resizes {
            let w = &self.c.running[&r.job].work;
            let w = Work { demand: Arc::new(w.demand.resized(r.nodes)), ..(**w).clone() };
            let at = self.now + self.policy.preemption.notice;
            self.c.fleet.keep(&w, &r.on, (at, w.ends(at)), Basis::Resize);
            let reported = ReportedStart { at, nodes: r.on.clone(), basis: Basis::Resize };
            self.reported.insert(r.job, reported);
            self.stop(r.job, self.now + self.grace, Some(r.nodes));
        }
    }

    fn run(
        &mut self,
        id: JobId,
        work: Arc<Work>,
        slots: Vec<muster_model::placement::Slot>,
        sku: String,
        s: &muster_scheduler::Start,
    ) {
        let until = work.ends(self.now);
        let placement = Placement {
            slots,
            port: 0,
            domain: s.placed.domain.clone(),
            level: s.placed.level,
            fabric: s.placed.fabric,
            cap_watts: s.placed.cap_watts,
            checkpoint_every: None,
        };
        let r = Running {
            work,
            placement: Arc::new(placement),
            placed: self.now,
            saved: self.now,
            until,
            stopping: false,
            sku,
        };
        self.c.run(r, |_| true);
        self.reported.remove(&id);
        self.started.entry(id).or_insert(self.now);
        if let Some(real) = self.jobs[&id].real {
            self.ends.insert(id, (self.now + real).min(until));
        } else if until < FAR {
            self.ends.insert(id, until);
        }
    }

    /// A running job is asked to go, and is gone by then.
    pub fn stop(&mut self, id: JobId, by: Time, resize: Option<u32>) {
        let r = self.c.running.get_mut(&id).expect("only running jobs are stopped");
        assert!(!r.stopping, "{id} is stopped twice");
        r.stopping = true;
        r.until = r.until.min(by);
        let (until, nodes) =
            (r.until, r.slots().iter().map(|s| s.node.clone()).collect::<Vec<_>>());
        for n in nodes {
            self.c.fleet.set_until(id, &n, until);
        }
        self.stops.insert(id, (until, resize));
    }

    /// Work of others without a limit leaves nodes whose reservation begins.
    fn stop_for_reservations(&mut self) {
        let mut due = BTreeSet::new();
        for c in &self.reservations {
            let r = &c.reservation;
            let Some((start, _)) = r.window(self.now) else { continue };
            if start > self.now || r.overrun == Overrun::Finish {
                continue;
            }
            for (id, run) in &self.c.running {
                let lent = r.lend && run.work.tier == muster_model::spec::Tier::Spot;
                let there = run.slots().iter().any(|s| c.nodes.contains(&s.node));
                if there && !lent && !r.projects.contains(&run.work.project) && !run.stopping {
                    due.insert(*id);
                }
            }
        }
        for id in due {
            self.stop(id, self.now, None);
            self.gone(id);
        }
    }

    /// A job that runs ends by itself now.
    pub fn finish(&mut self, id: JobId) {
        self.c.end(id, |_| true);
        self.ends.remove(&id);
        self.stops.remove(&id);
        self.c.fleet.release_reservation(id);
        self.reported.remove(&id);
        self.done.insert(id);
    }

    /// A job on its way out is gone, and waits again.
    fn gone(&mut self, id: JobId) {
        let (_, resize) = self.stops.remove(&id).expect("it was stopped");
        self.requeue(id, resize);
    }

    fn requeue(&mut self, id: JobId, resize: Option<u32>) {
        self.c.end(id, |_| true);
        self.ends.remove(&id);
        self.stops.remove(&id);
        let mut w = (*self.jobs[&id].work).clone();
        if let Some(n) = resize {
            w.demand = Arc::new(w.demand.resized(n));
        }
        self.c.queue.insert(Arc::new(w));
    }

    /// A node fails; gangs on it start again from the queue.
    pub fn fail(&mut self, name: &NodeName) {
        let mut n = self.nodes[name].clone();
        if n.block.is_some() {
            return;
        }
        n.block = Some(Block::Unreachable);
        let hit: Vec<JobId> = self
            .c
            .running
            .iter()
            .filter(|(_, r)| r.slots().iter().any(|s| s.node == *name))
            .map(|(id, _)| *id)
            .collect();
        self.upsert(n);
        self.failed.insert(name.clone());
        for id in hit {
            let resize = self.stops.get(&id).and_then(|s| s.1);
            self.requeue(id, resize);
        }
    }

    pub fn heal(&mut self, name: &NodeName) {
        let mut n = self.nodes[name].clone();
        if n.block == Some(Block::Unreachable) {
            n.block = None;
            self.upsert(n);
        }
    }
}
