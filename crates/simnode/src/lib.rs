//! One pure model of a simulated node: devices, telemetry, simulated work, faults.
//!
//! Nothing here reads a clock or a file. The same seed and name give the same life, whichever
//! other nodes exist beside it, and however often the clock is looked at.

mod devices;
mod qualify;
mod random;
mod telemetry;
mod work;

pub use devices::{SimConfig, Sku};
pub use qualify::TestStep;
pub use random::Random;
pub use telemetry::COLUMNS;
pub use work::{Account, SimEvent, What};

use devices::Device;
use muster_model::ids::AttemptKey;
use muster_model::node::Inventory;
use muster_model::spec::Simulate;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;
use telemetry::{Load, Thermal};
use work::Work;

/// Faults a node can be told to have.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fault {
    /// Everything on it dies; it is back with a new boot after so long.
    Crash {
        /// How long it is away.
        down: Span,
    },
    /// It goes on working but hears and says nothing for so long.
    Partition {
        /// How long.
        length: Span,
    },
    /// The ranks of one attempt are killed.
    KillRanks {
        /// Which.
        key: AttemptKey,
    },
    /// A GPU falls off the bus.
    LoseGpu {
        /// Index.
        gpu: u32,
    },
    /// A GPU computes more slowly than it should; zero makes it well again.
    SlowGpu {
        /// Index.
        gpu: u32,
        /// By so many percent.
        percent: u32,
    },
}

/// What a fault does to the world around the node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Gone until then; every process with it.
    Down {
        /// When it is back.
        until: Time,
    },
    /// Neither hears nor says anything until then.
    Silent {
        /// When it is heard again.
        until: Time,
    },
    /// Something happened to pretended work.
    Event(SimEvent),
    /// Real ranks of this attempt, if there are any, must be killed.
    KillRanks(AttemptKey),
    /// The inventory has changed.
    Inventory,
    /// The node cannot have this fault.
    Impossible(String),
}

/// A simulated node.
#[derive(Debug, Clone)]
pub struct SimNode {
    name: String,
    config: SimConfig,
    seed: u64,
    devices: Vec<Device>,
    boots: u64,
    now: Time,
    work: BTreeMap<AttemptKey, Work>,
    /// What happened and is told with the next advance.
    backlog: Vec<SimEvent>,
    thermal: Vec<Thermal>,
}

impl SimNode {
    /// A node that was just switched on.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig, name: &str, now: Time) -> SimNode {
        let devices = devices::devices(seed, &config, name);
        let thermal = devices.iter().map(|d| Thermal::new(d.offset)).collect();
        SimNode {
            name: name.to_owned(),
            config,
            seed,
            devices,
            boots: 0,
            now,
            work: BTreeMap::new(),
            backlog: Vec::new(),
            thermal,
        }
    }

    /// What is in it.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        devices::inventory(self.seed, &self.config, &self.name, &self.devices)
    }

    /// Short name of the kind of its GPUs.
    #[must_use]
    pub fn sku(&self) -> String {
        self.config.sku.to_string()
    }

    /// Changes with every boot.
    #[must_use]
    pub fn boot(&self) -> String {
        let mut r = Random::new(self.seed, &[&self.name, "boot", &self.boots.to_string()]);
        r.uuid()
    }

    /// Starts pretended work on a set of GPUs; work that is known already is left as it is.
    pub fn start(&mut self, key: AttemptKey, work: &Simulate, gpus: u64, now: Time) {
        self.resume(key, work, gpus, Span(0), now);
    }

    /// The same, going on after so much useful time.
    pub fn resume(&mut self, key: AttemptKey, work: &Simulate, gpus: u64, after: Span, now: Time) {
        self.pass(now);
        let now = self.now;
        self.work.entry(key).or_insert_with(|| Work::new(work.clone(), gpus, after, now));
    }

    /// Stops pretended work. Says whether there was any.
    pub fn stop(&mut self, key: AttemptKey, now: Time) -> Option<SimEvent> {
        self.pass(now);
        self.work.remove(&key).filter(|w| !w.over())?;
        Some(SimEvent { key, at: self.now, what: What::Stopped })
    }

    /// Whether this work is being pretended.
    #[must_use]
    pub fn works_on(&self, key: AttemptKey) -> bool {
        self.work.get(&key).is_some_and(|w| !w.over())
    }

    /// Where its time went, as far as the node was advanced; also when that ended it.
    #[must_use]
    pub fn account(&self, key: AttemptKey) -> Option<Account> {
        self.work.get(&key).map(Work::account)
    }

    /// From now on it makes so many thousandths of its full speed. The node must have been
    /// advanced to this moment.
    pub fn set_rate(&mut self, key: AttemptKey, permille: u32) {
        if let Some(w) = self.work.get_mut(&key) {
            w.set_rate(permille);
        }
    }

    /// Asks pretended work for a checkpoint. One that costs nothing is written at once.
    pub fn ask_checkpoint(&mut self, key: AttemptKey, now: Time) -> Option<SimEvent> {
        self.pass(now);
        let at = self.now;
        let work = self.work.get_mut(&key)?;
        let backlog = &mut self.backlog;
        work.advance(at, |at, what| backlog.push(SimEvent { key, at, what }));
        let mut event = None;
        work.ask(at, |at, what| event = Some(SimEvent { key, at, what }));
        event
    }

    /// Lives on until `now` and says what happened meanwhile, in order of time and then of key.
    pub fn advance(&mut self, now: Time) -> Vec<SimEvent> {
        self.live(now, true)
    }

    /// The same, but of the checkpoints of each work only the newest is told.
    pub fn advance_briefly(&mut self, now: Time) -> Vec<SimEvent> {
        self.live(now, false)
    }

    fn live(&mut self, now: Time, all: bool) -> Vec<SimEvent> {
        let until = self.now.max(now);
        self.work.retain(|_, w| !w.over());
        let mut events = std::mem::take(&mut self.backlog);
        for (key, work) in &mut self.work {
            let mut newest = None;
            work.advance(until, |at, what| {
                let event = SimEvent { key: *key, at, what };
                if !all && matches!(event.what, What::Checkpoint { .. }) {
                    newest = Some(event);
                } else {
                    events.extend(newest.take());
                    events.push(event);
                }
            });
            events.extend(newest);
        }
        events.sort_by_key(|e| (e.at, e.key));
        self.pass(until);
        events
    }

    /// When something happens next, if nobody interferes.
    #[must_use]
    pub fn next_wake(&self) -> Option<Time> {
        let told_late = self.backlog.first().map(|_| self.now);
        told_late.or_else(|| self.work.values().filter_map(Work::next).min())
    }

    /// When work may next be over, whatever checkpoints it writes before.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.work.values().filter_map(Work::ends).min()
    }

    /// Has a fault.
    pub fn apply(&mut self, fault: &Fault, now: Time) -> Vec<Effect> {
        self.pass(now);
        match fault {
            Fault::Crash { down } => {
                self.boots += 1;
                self.work.clear();
                self.backlog.clear();
                for (t, d) in self.thermal.iter_mut().zip(&self.devices) {
                    *t = Thermal::new(d.offset);
                }
                vec![Effect::Down { until: self.now + *down }]
            }
            Fault::Partition { length } => vec![Effect::Silent { until: self.now + *length }],
            Fault::KillRanks { key } => match self.work.remove(key).filter(|w| !w.over()) {
                Some(_) => {
                    vec![Effect::Event(SimEvent { key: *key, at: self.now, what: What::Killed })]
                }
                None => vec![Effect::KillRanks(*key)],
            },
            Fault::LoseGpu { gpu } => {
                match self.devices.iter_mut().find(|d| d.index == *gpu && !d.lost) {
                    Some(device) => {
                        device.lost = true;
                        vec![Effect::Inventory]
                    }
                    None => vec![self.no_gpu(*gpu)],
                }
            }
            Fault::SlowGpu { gpu, percent } => {
                match self.devices.iter_mut().find(|d| d.index == *gpu && !d.lost) {
                    Some(device) => {
                        device.slow_percent = (*percent).min(99);
                        Vec::new()
                    }
                    None => vec![self.no_gpu(*gpu)],
                }
            }
        }
    }

    /// Whether this GPU is on the bus.
    #[must_use]
    pub fn has_gpu(&self, gpu: u32) -> bool {
        self.devices.iter().any(|d| d.index == gpu && !d.lost)
    }

    /// Says that there is no such GPU.
    #[must_use]
    pub fn no_gpu(&self, gpu: u32) -> Effect {
        Effect::Impossible(format!(
            "node {} has no GPU {gpu}; it has {}",
            self.name,
            self.devices.iter().filter(|d| !d.lost).count()
        ))
    }

    /// One row per GPU in the order of [`COLUMNS`]. A GPU off the bus tells nothing.
    #[must_use]
    pub fn telemetry(&self) -> Vec<Vec<Option<f32>>> {
        let sku = self.config.sku.figures();
        let rows = self.devices.iter().zip(&self.thermal).map(|(d, t)| {
            if d.lost {
                vec![None; COLUMNS.len()]
            } else {
                t.row(&sku, self.load(d.index), self.now)
            }
        });
        rows.collect()
    }

    /// Tells which GPUs are kept busy by ranks that really run.
    pub fn set_load(&mut self, gpus: u64, now: Time) {
        self.pass(now);
        self.config.real_load = gpus;
    }

    fn load(&self, index: u32) -> Load {
        let bit = 1u64.checked_shl(index).unwrap_or(0);
        if self.config.real_load & bit != 0 {
            return Load::Busy;
        }
        let here = self.work.values().filter(|w| w.gpus & bit != 0 && !w.over());
        here.map(Work::load).max().unwrap_or(Load::Free)
    }

    /// Lets the hardware warm up or cool down until `now`; the clock never goes back.
    fn pass(&mut self, now: Time) {
        let to = self.now.max(now);
        let sku = self.config.sku.figures();
        let loads: Vec<Load> = self.devices.iter().map(|d| self.load(d.index)).collect();
        for (t, load) in self.thermal.iter_mut().zip(loads) {
            t.pass(&sku, load, to.since(self.now));
        }
        self.now = to;
    }
}

#[cfg(test)]
mod tests;
