//! Work that many nodes do together, step by step.

use super::node::{GPUS, Load, Node};
use crate::rng::Rng;
use muster_link::messages::{FromAgent, ProgressReport};
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// What the program reports about itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reporting {
    /// Reading, computing, communicating.
    Stages,
    /// The same, and sending apart from waiting.
    Sends,
    /// Only how long a step took.
    Total,
    /// Nothing at all.
    Silent,
}

/// What ails the work as a whole; none of it is hardware.
#[derive(Debug, Clone)]
pub(crate) struct GangFx {
    pub(crate) slow: f64,
    pub(crate) comm: f64,
    /// Each step waits so long for data.
    pub(crate) read_s: f64,
    /// One after another has more to compute, never the same for long.
    pub(crate) uneven: f64,
    /// All draw little together, once in so many seconds.
    pub(crate) dips_s: f64,
    /// Nothing moves until then.
    pub(crate) pause: Option<Time>,
    /// This member stopped; the others wait.
    pub(crate) hung: Option<(usize, usize)>,
}

impl Default for GangFx {
    fn default() -> GangFx {
        GangFx {
            slow: 1.0,
            comm: 1.0,
            read_s: 0.0,
            uneven: 0.0,
            dips_s: 0.0,
            pause: None,
            hung: None,
        }
    }
}

/// A step that is being done.
#[derive(Debug, Clone)]
struct Step {
    end: Time,
    dur: f64,
    read: f64,
    compute: Vec<[f64; GPUS]>,
    send: Vec<f64>,
}

pub(crate) struct Gang {
    pub(crate) key: AttemptKey,
    /// Its nodes in the order of ranks.
    pub(crate) nodes: Vec<usize>,
    pub(crate) world: usize,
    pub(crate) ranks: u32,
    pub(crate) first_rank: BTreeMap<usize, u32>,
    pub(crate) reporting: Reporting,
    pub(crate) started: Option<Time>,
    pub(crate) ends_at: Time,
    pub(crate) episode: Option<u64>,
    pub(crate) free_after: Time,
    pub(crate) fx: GangFx,
    /// A member is not there: the others wait for it.
    pub(crate) broken: bool,
    base: f64,
    comm: f64,
    watts: f64,
    memory: f64,
    step: u64,
    current: Option<Step>,
    /// The next checkpoint, and the end of the one that is written.
    save_at: Time,
    saving: Option<Time>,
    save_s: f64,
    save_every: f64,
    reports_saves: bool,
}

impl Gang {
    pub(crate) fn new(
        key: AttemptKey,
        world: usize,
        ranks: u32,
        run_s: f64,
        now: Time,
        rng: &mut Rng,
    ) -> Gang {
        let reporting = match rng.below(20) {
            0..9 => Reporting::Stages,
            9..14 => Reporting::Sends,
            14..18 => Reporting::Total,
            _ => Reporting::Silent,
        };
        let base = rng.scale(6.0, 18.0);
        let save_every = rng.range(700.0, 1500.0);
        Gang {
            key,
            nodes: Vec::new(),
            world,
            ranks,
            first_rank: BTreeMap::new(),
            reporting,
            started: None,
            ends_at: later(now, run_s),
            episode: None,
            free_after: now,
            fx: GangFx::default(),
            broken: false,
            base,
            comm: base * rng.range(0.08, 0.25),
            watts: rng.range(520.0, 690.0),
            memory: rng.range(50e9, 78e9),
            step: 0,
            current: None,
            save_at: later(now, save_every * rng.range(0.4, 1.0)),
            saving: None,
            save_s: rng.range(12.0, 45.0),
            save_every,
            reports_saves: rng.chance(0.7),
        }
    }

    /// Long enough at work that it has a past.
    pub(crate) fn settled(&self, now: Time) -> bool {
        !self.broken
            && self.episode.is_none()
            && self.free_after <= now
            && self.started.is_some_and(|s| now.since(s).0 > 240_000)
            && self.ends_at.since(now).0 > 420_000
    }

    /// Seconds of a step when nothing ails it.
    pub(crate) fn usual_s(&self) -> f64 {
        self.base * 1.03 + self.comm
    }

    /// Puts a checkpoint now.
    pub(crate) fn save_now(&mut self, now: Time, length: f64, reports: bool) {
        (self.save_at, self.save_s, self.reports_saves) = (now, length, reports);
    }

    /// What one GPU of its `i`th node does now.
    pub(crate) fn load(&self, i: usize, gpu: usize, now: Time, rng: &mut Rng) -> Load {
        let load = |act: f64, wait: f64| Load { act, wait, watts: self.watts, memory: self.memory };
        let Some(step) = &self.current else {
            // Loading: memory in use, little else.
            return load(0.06 * rng.unit(), 0.0);
        };
        if self.broken {
            return load(0.0, 0.97);
        }
        if let Some(stopped) = self.fx.hung {
            return if stopped == (i, gpu) { load(0.0, 0.0) } else { load(0.0, 0.97) };
        }
        if self.fx.pause.is_some_and(|t| now < t) || self.saving.is_some() {
            return load(0.02 + 0.03 * rng.unit(), 0.02);
        }
        if self.fx.dips_s > 0.0 {
            let seconds = now.0 as f64 / 1000.0;
            if (seconds / self.fx.dips_s).fract() < 0.3 {
                return load(0.12, 0.05);
            }
        }
        let act = step.compute[i][gpu] / step.dur;
        let read = step.read / step.dur;
        load(act * (1.0 + 0.01 * rng.normal()), (1.0 - act - read).max(0.0))
    }

    /// Lives up to `now`; gives what its ranks say, by node.
    pub(crate) fn live(
        &mut self,
        now: Time,
        nodes: &[Node],
        rng: &mut Rng,
    ) -> Vec<(usize, FromAgent)> {
        let mut said = Vec::new();
        let held = self.broken || self.fx.hung.is_some() || self.fx.pause.is_some_and(|t| now < t);
        if held {
            // The step goes on once it can.
            if let Some(step) = &mut self.current
                && step.end <= now
            {
                step.end = later(now, 1.0);
            }
            return said;
        }
        if let Some(until) = self.saving {
            if now < until {
                return said;
            }
            self.saving = None;
            self.save_at = later(now, self.save_every * rng.range(0.9, 1.1));
            self.say_saved(nodes, "done", &mut said);
            self.begin(now, nodes, rng);
        }
        match &self.current {
            Some(step) if step.end > now => {}
            Some(_) => {
                self.say_step(nodes, rng, &mut said);
                self.step += 1;
                if now >= self.save_at {
                    self.saving = Some(later(now, self.save_s));
                    self.say_saved(nodes, "started", &mut said);
                } else {
                    self.begin(now, nodes, rng);
                }
            }
            None => {
                // Rendezvous and loading take a while.
                if self.started.is_some_and(|s| now.since(s).0 > 40_000) {
                    self.begin(now, nodes, rng);
                }
            }
        }
        said
    }

    fn begin(&mut self, now: Time, nodes: &[Node], rng: &mut Rng) {
        let heavy = rng.below(self.nodes.len().max(1) * GPUS);
        let mut compute = Vec::with_capacity(self.nodes.len());
        let mut send = Vec::with_capacity(self.nodes.len());
        for (i, n) in self.nodes.iter().enumerate() {
            let node = &nodes[*n];
            let mut row = [0.0; GPUS];
            for (j, c) in row.iter_mut().enumerate() {
                let fx = &node.gpus[j].fx;
                let squeezed =
                    if fx.cap < self.watts { (fx.cap / self.watts).powf(0.6) } else { 1.0 };
                let mut t = self.base * self.fx.slow * fx.slow / (fx.clock * squeezed);
                t *= 1.0 + 0.01 * rng.normal();
                if self.fx.uneven > 0.0 {
                    let most = if i * GPUS + j == heavy { 1.0 } else { rng.unit() * 0.6 };
                    t *= 1.0 + self.fx.uneven * most;
                }
                *c = t;
            }
            compute.push(row);
            send.push(self.comm * self.fx.comm * node.fx.send * (1.0 + 0.04 * rng.normal()));
        }
        let slowest = compute.iter().flatten().fold(0.0, |a: f64, b| a.max(*b));
        let sending = send.iter().fold(0.0, |a: f64, b| a.max(*b));
        let read = self.base * 0.03 * rng.range(0.7, 1.3) + self.fx.read_s * rng.range(0.6, 1.4);
        let dur = read + slowest + sending;
        self.current = Some(Step { end: later(now, dur), dur, read, compute, send });
    }

    fn say_step(&self, nodes: &[Node], rng: &mut Rng, said: &mut Vec<(usize, FromAgent)>) {
        let Some(step) = self.current.as_ref().filter(|_| self.reporting != Reporting::Silent)
        else {
            return;
        };
        for (i, n) in self.nodes.iter().enumerate() {
            if !nodes[*n].up || nodes[*n].fx.mute {
                continue;
            }
            let Some(first) = self.first_rank.get(n) else { continue };
            for r in 0..self.ranks {
                // A rank with one GPU speaks of it; one with all of them of the slowest.
                let compute = if self.ranks as usize == GPUS {
                    step.compute[i][r as usize]
                } else {
                    step.compute[i].iter().fold(0.0, |a: f64, b| a.max(*b))
                };
                let t = step.dur * (1.0 + 0.002 * rng.normal());
                let rest = (t - step.read - compute).max(0.0);
                let mut stages = BTreeMap::new();
                match self.reporting {
                    Reporting::Stages => {
                        stages.insert("read".to_string(), step.read);
                        stages.insert("compute".to_string(), compute);
                        stages.insert("comm".to_string(), rest);
                    }
                    Reporting::Sends => {
                        let send = step.send[i].min(rest);
                        stages.insert("read".to_string(), step.read);
                        stages.insert("compute".to_string(), compute);
                        stages.insert("send".to_string(), send);
                        stages.insert("wait".to_string(), rest - send);
                    }
                    Reporting::Total | Reporting::Silent => {}
                }
                let loss = Some(2.0 + 4.0 / (1.0 + self.step as f64 / 50.0));
                let report = ProgressReport::Step { step: self.step, t: Some(t), stages, loss };
                said.push((*n, FromAgent::Progress { key: self.key, rank: first + r, report }));
            }
        }
    }

    fn say_saved(&self, nodes: &[Node], state: &str, said: &mut Vec<(usize, FromAgent)>) {
        let speaks = self.nodes.iter().find(|n| self.first_rank.get(n) == Some(&0));
        let Some(n) = speaks.filter(|n| self.reports_saves && nodes[**n].up) else { return };
        let report = ProgressReport::Checkpoint {
            state: state.to_owned(),
            step: Some(self.step),
            path: Some(format!("/ckpt/{}/step-{}", self.key, self.step)),
            bytes: None,
            blocked_s: (state == "done").then_some(self.save_s),
        };
        said.push((*n, FromAgent::Progress { key: self.key, rank: 0, report }));
    }
}

/// So many seconds later.
pub(crate) fn later(t: Time, seconds: f64) -> Time {
    Time(t.0 + (seconds * 1000.0) as i64)
}
