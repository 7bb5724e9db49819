//! The fleet: machines, the work they do together, and what goes wrong.

mod choose;
mod episode;
pub(crate) mod gang;
pub(crate) mod node;
mod serve;

use crate::link::{Caller, ConnectionCommand, ConnectionEvent, Opening};
use crate::rng::Rng;
use crate::settings::{RunMode, Settings};
use crate::truth::Log;
use anyhow::{Context, Result};
pub(crate) use choose::Busy;
use episode::{Episode, FaultSchedule};
pub(crate) use episode::{Kind, Start};
use gang::{Gang, later};
use muster_link::messages::FromAgent;
use muster_link::token::JoinToken;
use muster_model::command::Observed;
use muster_model::fault::ObservedFault;
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use node::{GPUS, Load, Node};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::{Semaphore, mpsc};

/// Seconds of the fleet's clock from one row of a node to the next.
const ROW_S: f64 = 10.0;
/// Nodes take turns in so many parts of it.
const PARTS: usize = 10;
const HEARTBEAT: Duration = Duration::from_secs(1);

pub(crate) struct FaultFleet {
    pub(crate) rng: Rng,
    /// The fleet's clock.
    pub(crate) now: Time,
    pub(crate) nodes: Vec<Node>,
    pub(crate) gangs: BTreeMap<AttemptKey, Gang>,
    pub(crate) names: BTreeMap<String, usize>,
    /// Lines that the kernels will write.
    lines: Vec<(Time, usize, ObservedFault)>,
    /// Members of attempts that will die: when, node, attempt, signal, code.
    deaths: Vec<(Time, usize, AttemptKey, RankDeath)>,
    /// When whatever runs on a node dies.
    sour: Vec<(Time, usize)>,
    episodes: BTreeMap<u64, Episode>,
    next_id: u64,
    log: Log,
    begun: Time,
}

/// How a member of an attempt dies.
#[derive(Debug, Clone, Copy)]
pub(crate) enum RankDeath {
    Signal(i32),
    Code(i32),
    OutOfMemory,
}

/// Lives the whole life.
pub(crate) async fn live(settings: Settings) -> Result<()> {
    let RunMode::Scored { speed, calm_s, busy_s, tail_s, faults, alikes, only, truth } =
        settings.life.clone()
    else {
        anyhow::bail!("another mode was asked for");
    };
    let (heard, mut inbox) = mpsc::unbounded_channel();
    let mut world = FaultFleet::new(&settings, heard, Log::create(&truth)?)?;
    world.nodes.iter_mut().for_each(Node::open);
    let joining = Instant::now();
    while world.nodes.iter().any(|n| !n.up) {
        let (i, what) = inbox.recv().await.context("nobody is left")?;
        world.hear(i, what);
        if joining.elapsed() > Duration::from_secs(120) {
            anyhow::bail!("the fleet did not come up within two minutes");
        }
    }
    eprintln!("{} nodes joined after {:.1} s", world.nodes.len(), joining.elapsed().as_secs_f64());
    let mut deck = FaultSchedule::new(&mut world.rng, faults, alikes, &only, calm_s, busy_s);
    let part = Duration::from_secs_f64(ROW_S / PARTS as f64 / speed);
    let mut pace = tokio::time::interval(part);
    pace.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    let mut beat = Instant::now();
    let parts = ((calm_s + busy_s + tail_s) / ROW_S * PARTS as f64) as usize;
    let began = Instant::now();
    for n in 0..parts {
        pace.tick().await;
        while let Ok((i, what)) = inbox.try_recv() {
            world.hear(i, what);
        }
        world.part(n % PARTS)?;
        deck.deal(&mut world)?;
        if beat.elapsed() >= HEARTBEAT {
            beat = Instant::now();
            for node in &world.nodes {
                node.send(FromAgent::Heartbeat { at: crate::wall() });
            }
        }
        if n % (3 * PARTS) == 0 {
            let (row, wall) = (world.now, crate::wall());
            world.log.write(&serde_json::json!({"clock": {"row": row, "wall": wall}}))?;
        }
        if n % (60 * PARTS) == 0 {
            world.say_how_it_goes(&deck, began);
        }
    }
    world.close_all()?;
    world.say_how_it_goes(&deck, began);
    eprintln!("the run is over");
    Ok(())
}

impl Node {
    /// Connects, with what is left of what ran.
    fn open(&mut self) {
        self.columns_reported = false;
        let running = self.work.keys().map(|k| (*k, Observed::Running));
        let ended = self.ended.iter().map(|(k, e)| (*k, Observed::Ended(e.clone())));
        let opening = Opening {
            boot: format!("boot-{}", self.boot),
            observed: running.chain(ended).collect(),
        };
        let _ = self.say.send(ConnectionCommand::Open(Box::new(opening)));
    }
}

impl FaultFleet {
    fn new(
        settings: &Settings,
        heard: mpsc::UnboundedSender<(usize, ConnectionEvent)>,
        log: Log,
    ) -> Result<FaultFleet> {
        let mut rng = Rng::new(settings.seed);
        let token: JoinToken = settings.join.parse().context("the join token")?;
        let turns = Arc::new(Semaphore::new(32));
        let mut nodes = Vec::new();
        for (index, place) in settings.nodes.iter().enumerate() {
            let name: muster_model::names::NodeName =
                place.name.parse().with_context(|| format!("the node's name {}", place.name))?;
            let (say, orders) = mpsc::unbounded_channel();
            let caller = Caller {
                index,
                node: name.clone(),
                link: settings.link.clone(),
                token: token.clone(),
                inventory: node::inventory(&place.name),
                turns: turns.clone(),
                world: heard.clone(),
            };
            tokio::spawn(caller.run(orders));
            nodes.push(Node::new(name, place, say, &mut rng));
        }
        let names = settings.nodes.iter().enumerate().map(|(i, p)| (p.name.clone(), i)).collect();
        let now = crate::wall();
        Ok(FaultFleet {
            rng,
            now,
            nodes,
            gangs: BTreeMap::new(),
            names,
            lines: Vec::new(),
            deaths: Vec::new(),
            sour: Vec::new(),
            episodes: BTreeMap::new(),
            next_id: 1,
            log,
            begun: now,
        })
    }

    /// One part of a row's time passes.
    fn part(&mut self, part: usize) -> Result<()> {
        self.now = later(self.now, ROW_S / PARTS as f64);
        let now = self.now;
        self.returns();
        self.end_episodes()?;
        self.write_lines();
        self.sours();
        self.die();
        let mut said = Vec::new();
        for gang in self.gangs.values_mut().filter(|g| g.started.is_some()) {
            gang.broken = gang.nodes.iter().any(|n| {
                !self.nodes[*n].work.contains_key(&gang.key)
                    || !self.nodes[*n].up && self.nodes[*n].back_at.is_some()
            });
            said.extend(gang.live(now, &self.nodes, &mut self.rng));
        }
        for (n, message) in said {
            self.nodes[n].send(message);
        }
        self.finish_work();
        // Days have a warm and a cold half.
        let hours = now.since(self.begun).0 as f64 / 3.6e6;
        let day = 2.5 * (hours / 24.0 * std::f64::consts::TAU).sin();
        for i in (part..self.nodes.len()).step_by(PARTS) {
            let loads = self.loads(i);
            let row = self.nodes[i].row(now, ROW_S, day, &loads, &mut self.rng);
            let rows = self.nodes[i].rows(row);
            let shown = !rows.is_empty();
            for row in rows {
                self.nodes[i].send(FromAgent::Telemetry(Box::new(row)));
            }
            if shown {
                self.shown(i);
            }
        }
        Ok(())
    }

    fn loads(&mut self, i: usize) -> [Load; GPUS] {
        let mut loads = [Load::default(); GPUS];
        let keys: Vec<AttemptKey> = self.nodes[i].work.keys().copied().collect();
        for key in keys {
            let Some(gang) = self.gangs.get(&key) else { continue };
            let Some(at) = gang.nodes.iter().position(|n| *n == i) else { continue };
            for (j, load) in loads.iter_mut().enumerate() {
                *load = gang.load(at, j, self.now, &mut self.rng);
            }
        }
        loads
    }

    /// A kernel will write this line.
    pub(crate) fn line(&mut self, at: Time, node: usize, fault: ObservedFault) {
        self.lines.push((at, node, fault));
    }

    /// A member of an attempt will die.
    pub(crate) fn death(&mut self, at: Time, node: usize, key: AttemptKey, how: RankDeath) {
        self.deaths.push((at, node, key, how));
    }

    fn write_lines(&mut self) {
        let now = self.now;
        let all = std::mem::take(&mut self.lines);
        let (due, rest): (Vec<_>, Vec<_>) = all.into_iter().partition(|l| l.0 <= now);
        self.lines = rest;
        let mut by_node: BTreeMap<usize, Vec<ObservedFault>> = BTreeMap::new();
        for (at, node, mut fault) in due {
            fault.at = at;
            by_node.entry(node).or_default().push(fault);
        }
        for (node, faults) in by_node {
            self.nodes[node].send(FromAgent::Faults { faults });
            self.shown(node);
        }
    }

    fn say_how_it_goes(&self, deck: &FaultSchedule, began: Instant) {
        let busy = self.nodes.iter().filter(|n| !n.work.is_empty()).count();
        let up = self.nodes.iter().filter(|n| n.up).count();
        eprintln!(
            "{:>5.0} s: {:.1} h simulated, {up} up, {busy} busy, {} gangs, {} active, {}",
            began.elapsed().as_secs_f64(),
            self.now.since(self.begun).0 as f64 / 3.6e6,
            self.gangs.len(),
            self.episodes.len(),
            deck.words(),
        );
    }
}
