//! What breaks: each node has a life of its own, and some things happen once.

use crate::accounting::InterruptionCause;
use crate::causes::{self, takes_out};
use crate::chance::{Chance, exp, millis};
use crate::fleet::Fleet;
use crate::scenario::{Cause, Delay, Incident, Mode, Response, Scenario, Scope};
use crate::simulation::{Ev, Simulation};
use crate::traces::titan;
use muster_model::command::Command;
use muster_model::ids::AttemptKey;
use muster_model::job::{Exit, SlotEnd};
use muster_model::units::{Span, Time};
use std::collections::{BTreeMap, BTreeSet};

/// Something goes wrong, is found, or is repaired.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultEvent {
    /// The next failure of a node.
    Fails(u32),
    /// A sign of it shows.
    Sign(u32),
    /// A sign that means nothing.
    FalseSign(u32),
    /// What is wrong with a node becomes known.
    Found(u32),
    /// A node is as good as new.
    Repaired(u32),
    /// A gang that stood still goes on.
    GoesOn(AttemptKey),
    /// A job fails for reasons of its own.
    Job(AttemptKey),
    /// Something that happens once.
    Incident(usize),
    /// A failure that was recorded elsewhere.
    Recorded(usize),
}

/// The life of one node.
#[derive(Debug)]
struct NodeFaultPlan {
    chance: Chance,
    lemon: f64,
    /// The cause of the failure that comes next.
    next: usize,
    failures: Vec<Time>,
}

/// The failures of all nodes: what can happen, and what has.
#[derive(Debug)]
pub(crate) struct Faults {
    causes: Vec<(usize, f64)>,
    list: Vec<Cause>,
    names: Vec<InterruptionCause>,
    /// In a millisecond, one node.
    rate: f64,
    lives: Vec<NodeFaultPlan>,
    /// Nodes that are unhealthy right now, and of what.
    pub(crate) unhealthy: BTreeMap<u32, InterruptionCause>,
    repair: BTreeMap<u32, Delay>,
    pub(crate) total_milli: u64,
    /// Failures that were recorded elsewhere: when, where, what.
    recorded: Vec<(Span, u32, InterruptionCause)>,
    /// Nodes that each incident hits.
    hit: Vec<BTreeSet<u32>>,
    /// Nodes out for good.
    removed: BTreeSet<u32>,
    /// Signs seen and right ones; failures, and those of them that were predicted.
    pub(crate) signs: [u64; 4],
    signed: BTreeSet<u32>,
}

const DAY_MS: f64 = 86_400_000.0;
/// How far back failures of a node count.
const WINDOW: Span = Span::hours(28 * 24);

impl Faults {
    pub(crate) fn new(s: &Scenario, fleet: &Fleet) -> Faults {
        let list = causes::causes(&s.failures);
        let per_1000: f64 = list.iter().map(|c| c.per_1000_node_days).sum();
        let names = list.iter().map(|c| InterruptionCause::from(c.name.as_str())).collect();
        let lemons = s.failures.lemons.as_ref();
        let life = |m: &crate::fleet::Machine| {
            let mut chance = Chance::new(s.seed, &["node", m.name.as_str()]);
            let draw = chance.even();
            (NodeFaultPlan { chance, lemon: 1.0, next: 0, failures: Vec::new() }, draw)
        };
        let mut lives: Vec<(NodeFaultPlan, f64)> = fleet.machines.iter().map(life).collect();
        if let Some(l) = lemons {
            // Exactly so many, those with the lowest draws: chance has its say elsewhere.
            let count = (l.share * lives.len() as f64).round() as usize;
            let mut draws: Vec<f64> = lives.iter().map(|(_, d)| *d).collect();
            draws.sort_by(f64::total_cmp);
            let least = draws.get(count).copied().unwrap_or(1.0);
            for (life, _) in lives.iter_mut().filter(|(_, d)| *d < least) {
                life.lemon = l.factor;
            }
        }
        Faults {
            causes: list.iter().map(|c| c.per_1000_node_days).enumerate().collect(),
            list,
            names,
            rate: per_1000 / 1000.0 / DAY_MS,
            lives: lives.into_iter().map(|(l, _)| l).collect(),
            unhealthy: BTreeMap::new(),
            repair: BTreeMap::new(),
            total_milli: fleet.gpus() * 1000,
            recorded: Vec::new(),
            hit: Vec::new(),
            removed: BTreeSet::new(),
            signs: [0; 4],
            signed: BTreeSet::new(),
        }
    }
}

impl Faults {
    /// Failures of Titan's GPUs happen here too, each at the node that stands for its place: a
    /// place that failed again and again there does so here.
    pub(crate) fn replay(&mut self, of: &[titan::Failure]) {
        let nodes = self.lives.len().max(1) as u64;
        let (bits, bus) =
            (InterruptionCause::from("double bit error"), InterruptionCause::from("off the bus"));
        self.recorded.extend(of.iter().map(|f| {
            let place = format!("{:?}", f.location);
            let ix = Chance::new(0, &["titan", &place]).below(nodes);
            let why = match f.event {
                titan::TitanEvent::DoubleBit => bits.clone(),
                titan::TitanEvent::OffTheBus => bus.clone(),
            };
            (f.at, u32::try_from(ix).unwrap_or(0), why)
        }));
    }
}

/// How much more often a node fails at this age, and at most.
fn infant(s: &Scenario, age: Span) -> f64 {
    s.failures.infant.as_ref().map_or(1.0, |i| {
        let halves = age.0 as f64 / (i.half_life.0.max(1)) as f64;
        1.0 + (i.factor - 1.0) * exp(-halves * std::f64::consts::LN_2)
    })
}

/// How much more often because of incidents that are under way.
fn incidents(s: &Scenario, hit: &[BTreeSet<u32>], node: u32, at: Span) -> f64 {
    let on = |(x, hit): (&Incident, &BTreeSet<u32>)| {
        let factor = x.rate_factor.filter(|_| at >= x.at)?;
        let over = x.lasts.is_some_and(|l| at.0 >= x.at.0 + l.0);
        (!over && hit.contains(&node)).then_some(factor)
    };
    s.failures.incidents.iter().zip(hit).filter_map(on).fold(1.0, f64::max)
}

fn most_incidents(s: &Scenario) -> f64 {
    let factors = s.failures.incidents.iter().filter_map(|x| x.rate_factor);
    factors.fold(1.0, f64::max)
}

impl Simulation<'_> {
    pub(crate) fn start_faults(&mut self) {
        let all = self.s.failures.incidents.iter().enumerate();
        self.faults.hit = all.map(|(i, x)| self.places(i, x).into_iter().collect()).collect();
        for ix in 0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX) {
            self.next_failure(ix);
            self.next_false_sign(ix);
        }
        for (i, x) in self.s.failures.incidents.iter().enumerate() {
            self.at(self.start + x.at, Ev::Trouble(FaultEvent::Incident(i)));
        }
        for i in 0..self.faults.recorded.len() {
            let at = self.start + self.faults.recorded[i].0;
            self.at(at, Ev::Trouble(FaultEvent::Recorded(i)));
        }
    }

    /// Draws when a node fails next, and of what.
    fn next_failure(&mut self, ix: u32) {
        let f = &mut self.faults;
        if f.rate <= 0.0 || f.removed.contains(&ix) {
            return;
        }
        let life = &mut f.lives[ix as usize];
        let most = infant(self.s, Span(0)).max(1.0) * most_incidents(self.s);
        let envelope = f.rate * life.lemon * most;
        let mut at = self.now;
        loop {
            at = at + millis(life.chance.exponential() / envelope) + Span(1);
            if at > self.end {
                return;
            }
            let age = at.since(self.start);
            let now = infant(self.s, age) * incidents(self.s, &f.hit, ix, age);
            if life.chance.happens(now / most) {
                break;
            }
        }
        life.next = life.chance.pick(&f.causes).copied().unwrap_or(0);
        let sign = f.list[life.next].precursor.as_ref().and_then(|p| {
            let shows = life.chance.happens(p.share);
            let lead = life.chance.delay(&p.lead);
            shows.then(|| at - lead)
        });
        let now = self.now;
        self.at(at, Ev::Trouble(FaultEvent::Fails(ix)));
        if let Some(t) = sign.filter(|t| *t > now) {
            self.at(t, Ev::Trouble(FaultEvent::Sign(ix)));
        }
    }

    fn next_false_sign(&mut self, ix: u32) {
        let per_1000: f64 = self
            .faults
            .list
            .iter()
            .filter_map(|c| c.precursor.as_ref())
            .map(|p| p.false_per_1000_node_days)
            .sum();
        if per_1000 <= 0.0 {
            return;
        }
        let life = &mut self.faults.lives[ix as usize];
        let after = millis(life.chance.exponential() * 1000.0 * DAY_MS / per_1000);
        self.at(self.now + after, Ev::Trouble(FaultEvent::FalseSign(ix)));
    }

    pub(crate) fn trouble(&mut self, t: FaultEvent) {
        match t {
            FaultEvent::Fails(ix) => self.fails(ix),
            FaultEvent::Found(ix) => self.found_out(ix),
            FaultEvent::Repaired(ix) => self.return_repaired(ix),
            FaultEvent::GoesOn(key) => self.goes_on(key),
            FaultEvent::Job(key) => self.job_fails(key),
            FaultEvent::Incident(i) => self.incident(i),
            FaultEvent::Recorded(i) => self.recorded(i),
            FaultEvent::Sign(ix) => self.sign(ix, true),
            FaultEvent::FalseSign(ix) => {
                self.sign(ix, false);
                self.next_false_sign(ix);
            }
        }
    }

    fn fails(&mut self, ix: u32) {
        // What is already in repair does not fail, and its next life begins when it is back.
        if self.out.contains(&ix) || self.faults.unhealthy.contains_key(&ix) {
            return;
        }
        let cause = self.faults.list[self.faults.lives[ix as usize].next].clone();
        let why = self.faults.names[self.faults.lives[ix as usize].next].clone();
        self.faults.signs[2] += 1;
        if self.faults.signed.remove(&ix) {
            self.faults.signs[1] += 1;
            self.faults.signs[3] += 1;
        }
        let nodes = self.neighbours(ix, cause.scope);
        let repair = cause.repair.unwrap_or(self.s.operations.repair);
        self.strike(&nodes, cause.mode, &why, repair);
        if !takes_out(cause.mode) {
            self.next_failure(ix);
        }
    }

    /// Every node that a failure of this one takes with it.
    fn neighbours(&self, ix: u32, scope: Scope) -> Vec<u32> {
        let of = |m: &crate::fleet::Machine| {
            let l = &m.location;
            match scope {
                Scope::Node => m.name.to_string(),
                Scope::Rack => format!("{}/{}/{}", l.cluster, l.leaf, l.rack),
                Scope::Leaf => format!("{}/{}", l.cluster, l.leaf),
                Scope::Feed => format!("{}/{}/{}", l.cluster, l.spine, l.feed),
            }
        };
        if scope == Scope::Node {
            return vec![ix];
        }
        let mine = of(&self.fleet.machines[ix as usize]);
        (0u32..).zip(&self.fleet.machines).filter(|(_, m)| of(m) == mine).map(|(i, _)| i).collect()
    }

    /// Something happens to nodes at once.
    fn strike(&mut self, nodes: &[u32], mode: Mode, why: &InterruptionCause, repair: Delay) {
        *self.accounting.faults.entry(why.clone()).or_default() += 1;
        let mut hit: BTreeSet<AttemptKey> = BTreeSet::new();
        for ix in nodes {
            let here = self.gangs.on[*ix as usize].clone();
            self.mark_fault(*ix, why, !here.is_empty());
            hit.extend(here);
            if takes_out(mode) && !self.out.contains(ix) {
                self.faults.unhealthy.insert(*ix, why.clone());
                self.faults.repair.insert(*ix, repair);
                let after = self.found_after(mode);
                self.at(self.now + after, Ev::Trouble(FaultEvent::Found(*ix)));
            }
        }
        let first = nodes.first().copied().unwrap_or(0);
        for key in hit {
            match mode {
                Mode::FailStop => self.break_gang(key, why),
                Mode::FailSlow(share) => {
                    self.set_speed(key, (share.clamp(0.0, 1.0) * 1000.0) as u32);
                }
                Mode::Corruption => self.spoil(key),
                Mode::Flap(span) => {
                    self.set_speed(key, 0);
                    self.at(self.now + span, Ev::Trouble(FaultEvent::GoesOn(key)));
                }
                Mode::Software => self.software_fails(key, first, why),
            }
        }
    }

    fn found_after(&self, mode: Mode) -> Span {
        let o = &self.s.operations;
        match (mode, o.response) {
            (Mode::FailSlow(_), _) => o.detect_slow,
            (Mode::Corruption, _) => o.detect_corruption,
            (_, Response::Swap) => o.detect,
            (_, Response::Requeue) => o.watchdog,
        }
    }

    /// From now on the results are wrong.
    fn spoil(&mut self, key: AttemptKey) {
        let Some(lead) = self.gangs.by_key.get(&key).map(|g| g.nodes[0]) else { return };
        self.set_speed(key, self.gangs.by_key.get(&key).map_or(1000, |g| g.rate));
        let account = self.nodes[lead as usize].account(key);
        if let (Some(g), Some(a)) = (self.gangs.by_key.get_mut(&key), account) {
            g.wrong_after.get_or_insert(Span(a.saved.0 + a.unsaved.0));
        }
    }

    fn goes_on(&mut self, key: AttemptKey) {
        let Some(n) = self.gangs.by_key.get(&key).map(|g| g.nodes.len()) else { return };
        let rate = self.size_rate(key, n);
        self.set_speed(key, rate);
    }

    fn software_fails(&mut self, key: AttemptKey, node: u32, why: &InterruptionCause) {
        self.break_gang(key, why);
        let exit = Exit { rank: 0, code: Some(1), signal: None, note: why.to_string() };
        let up = self.gangs.by_key.get(&key).is_some_and(|g| g.up.is_some());
        let node = self
            .gangs
            .by_key
            .get(&key)
            .map_or(node, |g| if g.nodes.contains(&node) { node } else { g.nodes[0] });
        if up {
            self.fail_slot(key, node, SlotEnd::Failed { exit });
        }
    }

    fn job_fails(&mut self, key: AttemptKey) {
        let Some(node) = self.gangs.by_key.get(&key).map(|g| g.nodes[0]) else { return };
        let why = InterruptionCause::from("job");
        self.break_gang(key, &why);
        self.fail_slot(key, node, SlotEnd::fault("the job's own surroundings failed"));
    }

    /// It becomes known that a node is unhealthy.
    fn found_out(&mut self, ix: u32) {
        let Some(why) = self.faults.unhealthy.get(&ix).cloned() else { return };
        if self.out.contains(&ix) {
            return;
        }
        self.drain_unhealthy(ix, &why, false);
    }

    /// Takes an unhealthy node out of service, and has what runs there started elsewhere.
    pub(crate) fn drain_unhealthy(&mut self, ix: u32, why: &InterruptionCause, sign: bool) {
        if self.out.contains(&ix) {
            return;
        }
        let here = self.gangs.on[ix as usize].clone();
        let swap = sign || self.s.operations.response == Response::Swap;
        if !sign {
            for key in &here {
                let broken = self.gangs.by_key.get(key).is_some_and(|g| g.broken.is_some());
                if !broken {
                    self.break_gang(*key, why);
                }
                if self.gangs.by_key.get(key).is_some_and(|g| g.nodes.len() > 1 || swap) {
                    // A gang that loses several nodes at once waits once.
                    if self.gangs.replacing.insert(key.job, self.now).is_none() {
                        self.gangs.needed += 1;
                    }
                }
            }
        }
        let reason = why.to_string();
        let node = self.name(ix).clone();
        self.submit_command(Command::Drain { node, reason: reason.clone(), stop: swap });
        if !swap {
            for key in here {
                self.fail_slot(key, ix, SlotEnd::fault(reason.clone()));
            }
        }
        self.set_out(ix, true);
        let repair = self.faults.repair.get(&ix).copied().unwrap_or(self.s.operations.repair);
        let life = &mut self.faults.lives[ix as usize];
        let took = life.chance.delay(&repair);
        life.failures.push(self.now);
        let now = self.now;
        life.failures.retain(|t| now.since(*t) <= WINDOW);
        let lemon = self.s.operations.remove_lemons_after;
        if lemon.is_some_and(|n| life.failures.len() >= n as usize) {
            self.faults.removed.insert(ix);
            return;
        }
        self.at(self.now + took, Ev::Trouble(FaultEvent::Repaired(ix)));
    }

    fn return_repaired(&mut self, ix: u32) {
        self.faults.unhealthy.remove(&ix);
        self.faults.repair.remove(&ix);
        self.faults.signed.remove(&ix);
        self.set_out(ix, false);
        let node = self.name(ix).clone();
        self.submit_command(Command::Undrain { node });
        self.next_failure(ix);
    }

    /// A sign of a coming failure shows, or one that means nothing.
    fn sign(&mut self, ix: u32, right: bool) {
        if self.out.contains(&ix) || self.faults.unhealthy.contains_key(&ix) {
            return;
        }
        self.faults.signs[0] += 1;
        let acts = self.s.operations.act_on_precursors;
        if right {
            self.faults.signed.insert(ix);
        }
        if !acts {
            return;
        }
        // It will not come to the failure: the node goes before.
        if right {
            self.faults.signs[1] += 1;
            self.faults.signs[2] += 1;
            self.faults.signs[3] += 1;
        }
        let why = InterruptionCause::from("precursor");
        let here = self.gangs.on[ix as usize].clone();
        let asks: Vec<AttemptKey> = here
            .into_iter()
            .filter(|k| {
                self.gangs.by_key.get(k).is_some_and(|g| g.up.is_some() && g.broken.is_none())
            })
            .filter(|k| {
                let job = self.engine.state().jobs.get(&k.job);
                job.is_some_and(|j| j.spec.checkpoint.is_some())
            })
            .collect();
        if let [key] = asks[..] {
            if let Some(g) = self.gangs.by_key.get_mut(&key) {
                g.then_drain = Some((ix, why));
            }
            self.submit_command(Command::AskCheckpoint { job: key.job });
        } else {
            self.drain_unhealthy(ix, &why, true);
        }
    }

    fn recorded(&mut self, i: usize) {
        let (_, ix, why) = self.faults.recorded[i].clone();
        if self.out.contains(&ix) || self.faults.unhealthy.contains_key(&ix) {
            return;
        }
        self.strike(&[ix], Mode::FailStop, &why, self.s.operations.repair);
    }

    /// Something that happens once.
    fn incident(&mut self, i: usize) {
        let x = self.s.failures.incidents[i].clone();
        // A bad driver only makes failures more frequent.
        if x.rate_factor.is_some() {
            return;
        }
        let nodes: Vec<u32> = self.faults.hit[i].iter().copied().collect();
        let repair = x.repair.unwrap_or(self.s.operations.repair);
        self.strike(&nodes, x.mode, &InterruptionCause::from(x.name.as_str()), repair);
    }

    fn places(&self, i: usize, x: &Incident) -> Vec<u32> {
        let all = 0..u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        if let Some(share) = x.share {
            let each = |n: &u32| {
                let names = [i.to_string(), self.name(*n).to_string()];
                self.chance(&["incident", &x.name, &names[0], &names[1]]).happens(share)
            };
            return all.filter(each).collect();
        }
        if x.on.is_empty() {
            let mut chance = self.chance(&["incident", &x.name, &i.to_string()]);
            let ix = u32::try_from(chance.below(self.nodes.len() as u64)).unwrap_or(0);
            return self.neighbours(ix, x.scope);
        }
        let named = |ix: &u32| {
            let m = &self.fleet.machines[*ix as usize];
            let l = &m.location;
            x.on.iter().any(|n| match x.scope {
                Scope::Node => *n == m.name.as_str(),
                Scope::Rack => *n == l.rack || *n == l.nvlink,
                Scope::Leaf => *n == l.leaf,
                Scope::Feed => *n == l.feed,
            })
        };
        all.filter(named).collect()
    }
}
