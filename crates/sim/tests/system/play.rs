//! How each act is carried out. Refusals are part of life.

use super::acts::Act;
use super::spec;
use super::test_site::{Ev, TestSite};
use muster_model::command::{Actor, Command};
use muster_model::ids::JobId;
use muster_model::node::{NodeRole, Stage};
use muster_model::policy::SitePolicy;
use muster_model::quota::Quotas;
use muster_model::spec::Tier;
use muster_model::units::Span;
use std::sync::Arc;

impl TestSite {
    fn node(&self, n: u8) -> usize {
        usize::from(n) % self.agents.len()
    }

    /// Some job that is known: as often as not one that is not over.
    fn job(&self, n: u8) -> Option<JobId> {
        let all = |open: bool| {
            let jobs = self.view.jobs.values();
            jobs.filter(move |j| !(open && j.state.is_final())).map(|j| j.id)
        };
        let (open, place) = (n.is_multiple_of(2), usize::from(n / 2));
        all(open).nth(place % all(open).count().max(1))
    }

    fn operator(&mut self, command: Command) {
        let _ = self.ask(Actor::system(), command);
    }

    fn on_job(&mut self, n: u8, f: impl FnOnce(JobId) -> Command) {
        if let Some(job) = self.job(n) {
            self.operator(f(job));
        }
    }

    /// The act at this place of the list happens, and the next one is on its way.
    pub(crate) fn act(&mut self, i: usize) {
        if let Some((wait, _)) = self.life.acts.get(i + 1) {
            let t = self.now + Span((*wait).into());
            self.at(t, Ev::Act(i + 1));
        }
        match self.life.acts[i].1 {
            Act::Submit(ask) => self.submit(&ask),
            Act::Cancel(n) => self.on_job(n, |job| Command::Cancel { job }),
            Act::Hold(n) => self.on_job(n, |job| Command::Hold { job }),
            Act::Release(n) => self.on_job(n, |job| Command::Release { job }),
            Act::Requeue(n) => self.on_job(n, |job| Command::Requeue { job }),
            Act::Update(n, class, limit) => self.on_job(n, |job| {
                let (priority, time_limit) = (Some(spec::class(class)), spec::limit(limit));
                Command::UpdateJob { job, priority, time_limit }
            }),
            Act::AskCheckpoint(n) => self.on_job(n, |job| Command::AskCheckpoint { job }),
            Act::Idle(n, mins) => self.idle(n, mins),
            Act::Crash(n, secs) => {
                let i = self.node(n);
                self.power_off(i);
                self.at(self.now + Span::secs(secs.into()), Ev::PowerOn(i));
            }
            Act::Cut(n, secs) => {
                let i = self.node(n);
                self.agents[i].link = false;
                self.hang_up(i);
                self.at(self.now + Span::secs(secs.into()), Ev::Repaired(i));
            }
            Act::Flap(n) => {
                let i = self.node(n);
                self.hang_up(i);
            }
            Act::Fail(n, which, node) => {
                let i = self.node(n);
                self.agents[i].fail(which, node, self.now);
                self.poll(i);
            }
            Act::Restart => self.restart(false),
            Act::Replay => self.restart(true),
            Act::StopShort => self.stop_short = true,
            Act::Snapshot => self.take_snapshot(),
            other => self.operate(other),
        }
    }

    /// What operators do to nodes and rules.
    fn operate(&mut self, act: Act) {
        let now = self.now;
        let nodes = self.agents.len();
        match act {
            Act::Cordon(n) => {
                let node = spec::name(self.node(n));
                self.operator(Command::Cordon { node, reason: "r".into() });
            }
            Act::Uncordon(n) => {
                let node = spec::name(self.node(n));
                self.operator(Command::Uncordon { node });
            }
            Act::Drain(n, stop) => {
                let node = spec::name(self.node(n));
                self.operator(Command::Drain { node, reason: "r".into(), stop });
            }
            Act::Undrain(n) => {
                let node = spec::name(self.node(n));
                self.operator(Command::Undrain { node });
            }
            Act::Retire(n) => self.retire(self.node(n)),
            Act::Enrol(n) => self.enrol_anew(self.node(n)),
            Act::Mark(n, role, hazard) => {
                let (node, role) = (spec::name(self.node(n)), Some(spec::role(role)));
                self.operator(Command::MarkNode { node, role, hazard: Some(hazard.into()) });
            }
            Act::Policy(n) => {
                self.operator(Command::SetPolicy { policy: Arc::new(spec::policy(n)) });
            }
            Act::Quotas(n) => {
                let quotas = serde_json::from_value(spec::quotas(n)).expect("quotas");
                self.operator(Command::SetQuotas { quotas: Arc::new(quotas) });
            }
            Act::Topology(n) => {
                let topology = Arc::new(spec::topology(nodes, 1 + usize::from(n) % 4));
                self.operator(Command::SetTopology { topology });
            }
            Act::Reserve(n, over, start, length, kind) => {
                let r = spec::reservation(n, (over, start, length, kind), nodes, now);
                let reservation = serde_json::from_value(r).expect("a reservation");
                self.operator(Command::SetReservation { reservation: Arc::new(reservation) });
            }
            Act::Unreserve(n) => {
                let name = format!("r{}", n % 3).parse().expect("a name");
                self.operator(Command::DeleteReservation { name });
            }
            _ => {}
        }
    }

    fn idle(&mut self, n: u8, mins: u8) {
        let active: Vec<JobId> =
            self.view.jobs.values().filter(|j| j.attempt.is_some()).map(|j| j.id).collect();
        let Some(id) = active.get(usize::from(n) % active.len().max(1)) else { return };
        let Some(job) = self.view.jobs.get(id) else { return };
        let (Some(a), Some(key)) = (&job.attempt, job.attempt_key()) else { return };
        let node = a.placement.slots[0].node.clone();
        let since = (mins > 9).then(|| self.now - Span::mins(mins.into()));
        self.operator(Command::IdleReport { node, key, since });
    }

    fn power_off(&mut self, i: usize) {
        self.agents[i].power = false;
        self.hang_up(i);
        self.agents[i].lose_all();
    }

    /// Whoever says that a node is gone for good has switched it off.
    fn retire(&mut self, i: usize) {
        let node = spec::name(i);
        let may =
            self.view.nodes.get(&node).is_some_and(|n| {
                !n.reachable || matches!(n.stage, Stage::Drained | Stage::Enrolled)
            });
        if !may {
            return;
        }
        self.power_off(i);
        self.operator(Command::Retire { node: node.clone() });
        let gone = self.view.nodes.get(&node).is_some_and(|n| n.stage == Stage::Retired);
        self.agents[i].enrolled = !gone;
        if !gone {
            self.agents[i].power = true;
            self.poll(i);
        }
    }

    fn enrol_anew(&mut self, i: usize) {
        if self.agents[i].enrolled {
            return;
        }
        self.agents[i].machine += 1;
        self.agents[i].power = true;
        self.enrol(i);
        self.poll(i);
    }

    /// A spare that steps in for a node that is not back yet leaves its role to it: whoever wants
    /// no spares says so again, each time to one fewer.
    fn keep_no_spares(&mut self) {
        for _ in 0..self.agents.len() {
            let mut nodes = self.view.nodes.values();
            let spare = nodes.find(|n| n.role == NodeRole::Spare && n.stage != Stage::Retired);
            let Some(node) = spare.map(|n| n.name.clone()) else { return };
            let role = Some(NodeRole::Normal);
            self.operator(Command::MarkNode { node, role, hazard: Some(0) });
        }
    }

    /// Nothing is broken, and nothing is forbidden.
    pub(crate) fn set_free(&mut self) {
        self.operator(Command::SetPolicy { policy: Arc::new(SitePolicy::default()) });
        self.operator(Command::SetQuotas { quotas: Arc::new(Quotas::default()) });
        for name in self.view.reservations.keys().cloned().collect::<Vec<_>>() {
            self.operator(Command::DeleteReservation { name });
        }
        let topology = Arc::new(spec::topology(self.agents.len(), 2));
        self.operator(Command::SetTopology { topology });
        for i in 0..self.agents.len() {
            let node = spec::name(i);
            self.agents[i].link = true;
            self.agents[i].power = true;
            self.enrol_anew(i);
            self.poll(i);
            self.operator(Command::Uncordon { node: node.clone() });
            self.operator(Command::Undrain { node: node.clone() });
            let role = Some(NodeRole::Normal);
            self.operator(Command::MarkNode { node, role, hazard: Some(0) });
        }
        self.keep_no_spares();
        self.release_all();
    }

    /// Whoever held something lets it go.
    pub(crate) fn release_all(&mut self) {
        for (job, tier) in self.view.jobs.values().map(|j| (j.id, j.spec.tier)).collect::<Vec<_>>()
        {
            // What only runs in a reservation would wait for one for ever.
            self.operator(match tier {
                Tier::Reserved => Command::Cancel { job },
                _ => Command::Release { job },
            });
        }
    }
}
