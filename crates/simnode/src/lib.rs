//! One pure model of a simulated node: devices, telemetry, simulated work, faults.
//!
//! Nothing here reads a clock or a file. The same seed and name give the same life, whichever
//! other nodes exist beside it, and however often the clock is looked at.

#![forbid(unsafe_code)]

mod condition;
mod devices;
mod fault;
mod host;
mod past;
mod qualify;
mod random;
mod specs;
mod stages;
mod telemetry;
mod work;

pub use devices::{SimConfig, Sku};
pub use fault::{BOOT_TAKES, Effect, Fault, RESET_TAKES};
pub use past::{NodeHistory, Ongoing};
pub use qualify::TestStep;
pub use random::Random;
pub use stages::Stages;
pub use telemetry::COLUMNS;
pub use work::{Account, SimEvent, WorkEvent};

use devices::Device;
use host::Host;
use muster_model::ids::AttemptKey;
use muster_model::node::Inventory;
use muster_model::spec::Simulate;
use muster_model::units::{Span, Time};
use stages::Noise;
use std::collections::BTreeMap;
use telemetry::{Load, Thermal};
use work::Work;

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
    /// What happened and is reported with the next advance.
    backlog: Vec<SimEvent>,
    host: Host,
    /// Versions that are not those of its kind.
    versions: BTreeMap<String, String>,
}

impl SimNode {
    /// A node that was just switched on.
    #[must_use]
    pub fn new(seed: u64, config: SimConfig, name: &str, now: Time) -> SimNode {
        let devices = devices::devices(seed, &config, name);
        SimNode {
            name: name.to_owned(),
            host: Host::new(config.nics()),
            versions: BTreeMap::new(),
            config,
            seed,
            devices,
            boots: 0,
            now,
            work: BTreeMap::new(),
            backlog: Vec::new(),
        }
    }

    /// What is in it.
    #[must_use]
    pub fn inventory(&self) -> Inventory {
        let (seed, config) = (self.seed, &self.config);
        let mut all = devices::inventory(seed, config, &self.name, &self.devices, &self.host);
        all.versions.extend(self.versions.iter().map(|(c, v)| (c.clone(), v.clone())));
        all
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

    /// Starts simulated work on a set of GPUs; work that is known already is left as it is.
    pub fn start(&mut self, key: AttemptKey, work: &Simulate, gpus: u64, now: Time) {
        self.resume(key, work, gpus, Span(0), now);
    }

    /// The same, going on after so much useful time.
    pub fn resume(&mut self, key: AttemptKey, work: &Simulate, gpus: u64, after: Span, now: Time) {
        self.pass(now);
        if self.work.contains_key(&key) {
            return;
        }
        let name = key.to_string();
        let noise = Noise {
            node: Random::new(self.seed, &[&self.name, "work", &name]).next(),
            gang: Random::new(self.seed, &["work", &name]).next(),
        };
        self.work.insert(key, Work::new(work.clone(), gpus, after, self.now, noise));
        self.burden();
        let lost: Vec<u32> =
            self.devices.iter().filter(|d| d.condition.lost).map(|d| d.index).collect();
        for gpu in lost {
            // It was given a GPU that is not there: it gets as far as asking for it.
            self.doom(gpu);
        }
    }

    /// Thousandths of a sound step that this node's share of an attempt needs; `u32::MAX` when it
    /// hangs.
    #[must_use]
    pub fn share_needs(&self, key: AttemptKey) -> Option<u32> {
        let w = self.work.get(&key).filter(|w| !w.over())?;
        Some(w.needs().map_or(u32::MAX, |n| u32::try_from(n).unwrap_or(u32::MAX - 1)))
    }

    /// Sets what the slowest share of its gang needs; `u32::MAX` when one of them hangs.
    pub fn set_gang(&mut self, key: AttemptKey, slowest: u32, now: Time) {
        self.catch_up(now);
        if let Some(w) = self.work.get_mut(&key) {
            w.set_gang((slowest != u32::MAX).then(|| u64::from(slowest)));
        }
    }

    /// Stops simulated work. Says whether there was any.
    pub fn stop(&mut self, key: AttemptKey, now: Time) -> Option<SimEvent> {
        self.pass(now);
        self.work.remove(&key).filter(|w| !w.over())?;
        Some(SimEvent { key, at: self.now, what: WorkEvent::Stopped })
    }

    /// Whether this work is simulated.
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

    /// Asks simulated work for a checkpoint. One that costs nothing is written at once.
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

    /// The same, but of the checkpoints of each work only the newest is reported.
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
                if !all && matches!(event.what, WorkEvent::Checkpoint { .. }) {
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
        let reported_late = self.backlog.first().map(|_| self.now);
        reported_late.or_else(|| self.work.values().filter_map(Work::next).min())
    }

    /// When work may next be over, whatever checkpoints it writes before.
    #[must_use]
    pub fn next_end(&self) -> Option<Time> {
        self.work.values().filter_map(Work::ends).min()
    }

    /// PCI address of a GPU as the kernel writes it, such as `0000:18:00`.
    #[must_use]
    pub fn pci(&self, gpu: u32) -> String {
        format!("0000:{:02x}:00", devices::bus(gpu))
    }

    /// The GPU on this bus, whether or not it is still there.
    #[must_use]
    pub fn gpu_on_bus(&self, bus: u32) -> Option<u32> {
        self.devices.iter().map(|d| d.index).find(|i| devices::bus(*i) == bus)
    }

    /// One row per GPU in the order of [`COLUMNS`]. A GPU off the bus reports nothing.
    #[must_use]
    pub fn telemetry(&self) -> Vec<Vec<Option<f32>>> {
        let sku = self.config.sku.specs();
        let rows = self.devices.iter().map(|d| {
            if d.condition.lost {
                vec![None; COLUMNS.len()]
            } else {
                let load = self.load(d.index);
                d.thermal.row(&sku, load, &d.condition, self.host.brake, self.now)
            }
        });
        rows.collect()
    }

    /// Figures of the host by name, as far as the node was advanced.
    pub fn host_metrics(&mut self) -> BTreeMap<String, f64> {
        self.host.metrics(self.now)
    }

    /// Whether its agent reports figures now.
    #[must_use]
    pub fn reports(&self, now: Time) -> bool {
        self.host.reports(now)
    }

    /// Sets which GPUs are kept busy by ranks that really run.
    pub fn set_load(&mut self, gpus: u64, now: Time) {
        self.pass(now);
        self.config.real_load = gpus;
    }

    fn load(&self, index: u32) -> Load {
        let bit = 1u64.checked_shl(index).unwrap_or(0);
        if self.config.real_load & bit != 0 {
            return Load::FULL;
        }
        let here = self.work.values().filter(|w| w.gpus & bit != 0 && !w.over());
        here.map(Work::load).max().unwrap_or(Load::Free)
    }

    /// Lets the hardware warm up or cool down until `now`; the clock never goes back.
    fn pass(&mut self, now: Time) {
        let to = self.now.max(now);
        let time = to.since(self.now);
        let (sku, brake) = (self.config.sku.specs(), self.host.brake);
        let loads: Vec<Load> = self.devices.iter().map(|d| self.load(d.index)).collect();
        for (d, load) in self.devices.iter_mut().zip(loads) {
            d.thermal.pass(&sku, load, &d.condition, brake, time);
        }
        self.now = to;
    }

    /// The same, and work goes on too; what it did is reported with the next advance.
    fn catch_up(&mut self, now: Time) {
        self.pass(now);
        let (at, backlog) = (self.now, &mut self.backlog);
        for (key, work) in &mut self.work {
            work.advance(at, |at, what| backlog.push(SimEvent { key: *key, at, what }));
        }
    }

    /// Lets work feel the condition of its devices; it must be up to date.
    fn burden(&mut self) {
        for work in self.work.values_mut() {
            let mine = self.devices.iter().filter(|d| work.uses(d.index)).map(|d| &d.condition);
            let (mut left, mut narrow) = (100, false);
            for c in mine {
                left = left.min(c.speed_percent(self.host.brake));
                narrow |= c.narrow;
            }
            work.burden(left, narrow);
        }
    }
}

#[cfg(test)]
mod tests;
