//! Things that go wrong, or look so: when they begin, whom they hit, when they are over.

use super::FaultFleet;
use super::gang::{GangFx, later};
use crate::rng::Rng;
use crate::truth::Truth;
use crate::{alike, faults};
use anyhow::Result;
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use std::collections::BTreeMap;

/// One kind: its name, how often it comes beside the others, and how it begins. It gives none
/// when there is nobody whom it could hit now.
pub(crate) type Kind = (&'static str, u32, fn(&mut FaultFleet) -> Option<Start>);

/// Something that begins.
#[derive(Debug, Clone, Default)]
pub(crate) struct Start {
    pub(crate) nodes: Vec<usize>,
    pub(crate) gpu: Option<u32>,
    pub(crate) port: Option<String>,
    pub(crate) mount: Option<String>,
    pub(crate) group: Option<(String, String)>,
    /// The work that it is about; nothing else happens to it meanwhile.
    pub(crate) gang: Option<AttemptKey>,
    /// Node of the rank that is the cause.
    pub(crate) culprit: Option<usize>,
    pub(crate) length_s: f64,
    pub(crate) params: BTreeMap<&'static str, f64>,
    /// Only the nodes, not all of the gang's, are taken.
    pub(crate) alone: bool,
}

impl Start {
    pub(crate) fn at(node: usize, length_s: f64) -> Start {
        Start { nodes: vec![node], length_s, ..Start::default() }
    }

    pub(crate) fn gpu(mut self, gpu: u32) -> Start {
        self.gpu = Some(gpu);
        self
    }

    pub(crate) fn slows(mut self, gang: AttemptKey) -> Start {
        (self.gang, self.alone) = (Some(gang), true);
        self
    }

    pub(crate) fn with(mut self, name: &'static str, value: f64) -> Start {
        self.params.insert(name, value);
        self
    }
}

/// Something that goes on.
pub(super) struct Episode {
    truth: Truth,
    nodes: Vec<usize>,
    gang: Option<AttemptKey>,
    until: Time,
}

/// How long a node or a gang is left alone afterwards.
const REST_S: f64 = 300.0;

impl FaultFleet {
    pub(super) fn start(&mut self, kind: &'static str, fault: bool, start: Start) {
        let id = self.next_id;
        self.next_id += 1;
        let mut nodes = start.nodes.clone();
        if let Some(gang) = start.gang.and_then(|k| self.gangs.get_mut(&k)) {
            gang.episode = Some(id);
            if !start.alone {
                nodes.extend(gang.nodes.iter().copied().filter(|n| !start.nodes.contains(n)));
            }
        }
        for n in &nodes {
            self.nodes[*n].episode = Some(id);
        }
        let until = later(self.now, start.length_s);
        // What is seen by its silence begins at once.
        let silent = |n: &usize| self.nodes[*n].back_at.is_some() || self.nodes[*n].fx.mute;
        let silent = nodes.iter().any(silent);
        let name = |n: &usize| self.nodes[*n].name.to_string();
        let truth = Truth {
            id,
            kind,
            fault,
            nodes: nodes.iter().map(name).collect(),
            gpu: start.gpu,
            port: start.port,
            mount: start.mount,
            group: start.group,
            job: start.gang.map(|k| k.job.0),
            culprit: start.culprit.as_ref().map(name),
            params: start.params,
            onset: silent.then_some(self.now),
            onset_wall: silent.then(crate::wall),
            end: None,
            end_wall: None,
            ended_by: "over",
        };
        self.episodes.insert(id, Episode { truth, nodes, gang: start.gang, until });
    }

    /// The node said something: what goes on there can be seen from now on.
    pub(crate) fn shown(&mut self, node: usize) {
        let now = self.now;
        let Some(e) = self.nodes[node].episode.and_then(|id| self.episodes.get_mut(&id)) else {
            return;
        };
        if e.truth.onset.is_none() {
            e.truth.onset = Some(now);
            e.truth.onset_wall = Some(crate::wall());
        }
    }

    pub(super) fn end_episodes(&mut self) -> Result<()> {
        let now = self.now;
        let over: Vec<u64> =
            self.episodes.iter().filter(|(_, e)| e.until <= now).map(|(id, _)| *id).collect();
        over.into_iter().try_for_each(|id| self.close(id))
    }

    pub(super) fn close_all(&mut self) -> Result<()> {
        let all: Vec<u64> = self.episodes.keys().copied().collect();
        all.into_iter().try_for_each(|id| self.close(id))
    }

    /// Somebody repaired the node: what ailed it is over. Says whether something did.
    pub(super) fn repair(&mut self, node: usize) -> bool {
        let now = self.now;
        let Some(e) = self.nodes[node].episode.and_then(|id| self.episodes.get_mut(&id)) else {
            return false;
        };
        if !e.truth.fault || e.nodes.len() > 1 {
            return false;
        }
        e.truth.ended_by = "repaired";
        e.until = now;
        true
    }

    /// The work that it was about is gone.
    pub(super) fn cut(&mut self, id: u64) {
        let now = self.now;
        if let Some(e) = self.episodes.get_mut(&id) {
            // What is the node's stays with the node.
            let of_gang = e.truth.culprit.is_some() || !e.truth.fault;
            if of_gang && e.until > now {
                e.truth.ended_by = "cut";
                e.until = now;
            }
        }
    }

    fn close(&mut self, id: u64) -> Result<()> {
        let Some(mut e) = self.episodes.remove(&id) else { return Ok(()) };
        e.truth.end = Some(self.now);
        e.truth.end_wall = Some(crate::wall());
        let rest = later(self.now, REST_S);
        for n in e.nodes {
            let node = &mut self.nodes[n];
            if node.episode == Some(id) {
                node.episode = None;
                node.free_after = rest;
                node.heal();
            }
        }
        if let Some(gang) = e.gang.and_then(|k| self.gangs.get_mut(&k))
            && gang.episode == Some(id)
        {
            gang.episode = None;
            gang.free_after = rest;
            gang.fx = GangFx::default();
        }
        self.log.write(&e.truth)
    }
}

/// What is still to come, in a random order in which every kind has its part.
pub(super) struct FaultSchedule {
    faults: FaultQueue,
    alikes: FaultQueue,
}

struct FaultQueue {
    fault: bool,
    kinds: Vec<Kind>,
    by_name: bool,
    cards: Vec<Kind>,
    left: u32,
    begun: u32,
    next: f64,
    mean: f64,
    end: f64,
    passed: f64,
}

impl FaultSchedule {
    pub(super) fn new(
        rng: &mut Rng,
        faults: u32,
        alikes: u32,
        only: &[String],
        calm_s: f64,
        busy_s: f64,
    ) -> FaultSchedule {
        let mut pile = |fault, kinds: &[Kind], n: u32| {
            let kinds: Vec<Kind> = kinds
                .iter()
                .filter(|k| only.is_empty() || only.iter().any(|o| o == k.0))
                .copied()
                .collect();
            let mean = busy_s / f64::from(n.max(1));
            let n = if kinds.is_empty() { 0 } else { n };
            FaultQueue {
                fault,
                kinds,
                by_name: !only.is_empty(),
                cards: Vec::new(),
                left: n,
                begun: 0,
                // Also a single one comes in time.
                next: calm_s + rng.wait(mean).min(busy_s * 0.6),
                mean,
                end: calm_s + busy_s,
                passed: 0.0,
            }
        };
        FaultSchedule {
            faults: pile(true, faults::KINDS, faults),
            alikes: pile(false, alike::KINDS, alikes),
        }
    }

    pub(super) fn deal(&mut self, world: &mut FaultFleet) -> Result<()> {
        self.faults.deal(world);
        self.alikes.deal(world);
        Ok(())
    }

    pub(super) fn words(&self) -> String {
        format!(
            "faults {} ({} left), look-alikes {} ({} left)",
            self.faults.begun, self.faults.left, self.alikes.begun, self.alikes.left
        )
    }
}

impl FaultQueue {
    fn deal(&mut self, world: &mut FaultFleet) {
        self.passed = world.now.since(world.begun).0 as f64 / 1000.0;
        // What could not begin for want of somebody to hit is made up for later.
        while self.left > 0 && self.passed >= self.next && self.passed < self.end {
            if !self.one(world) {
                return;
            }
            self.next += world.rng.wait(self.mean);
        }
    }

    /// Tries a few cards; those that nobody fits go to the bottom.
    fn one(&mut self, world: &mut FaultFleet) -> bool {
        for _ in 0..4 {
            if self.cards.is_empty() {
                for k in &self.kinds {
                    let often = if self.by_name { k.1.max(1) } else { k.1 };
                    self.cards.extend(std::iter::repeat_n(*k, often as usize));
                }
                world.rng.shuffle(&mut self.cards);
            }
            let Some(card) = self.cards.pop() else { return false };
            if let Some(start) = (card.2)(world) {
                world.start(card.0, self.fault, start);
                self.begun += 1;
                self.left -= 1;
                return true;
            }
            self.cards.insert(0, card);
        }
        false
    }
}
