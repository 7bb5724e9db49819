//! Faults: what a node can be asked to have, and what each does to it. A fault changes the node;
//! whoever watches sees only what a real node would show.

use crate::condition::Condition;
use crate::work::{SimEvent, WorkEvent};
use crate::{SimNode, Thermal};
use muster_model::ids::AttemptKey;
pub use muster_model::inject::Inject as Fault;
use muster_model::units::{Span, Time};

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
    /// Something happened to simulated work.
    Event(SimEvent),
    /// Real ranks of this attempt, if there are any, must be killed.
    KillRanks(AttemptKey),
    /// The driver writes an XID into the kernel's log.
    Xid {
        /// The GPU.
        gpu: u32,
        /// The XID's number.
        code: u32,
    },
    /// The kernel writes a line.
    Line(String),
    /// The inventory has changed.
    Inventory,
    /// The node cannot have this fault.
    Impossible(String),
}

/// A driver's error ends the work on its GPU so long after it was reported.
pub(crate) const DIES_AFTER: Span = Span::secs(2);
/// Characters of a version that are kept.
const VERSION_MAX: usize = 64;
/// How long a reset of a GPU takes.
pub const RESET_TAKES: Span = Span::secs(5);
/// How long a boot takes.
pub const BOOT_TAKES: Span = Span::secs(20);

impl SimNode {
    /// Has a fault.
    pub fn apply(&mut self, fault: &Fault, now: Time) -> Vec<Effect> {
        self.catch_up(now);
        let effects = match self.suffer(fault) {
            Ok(effects) => effects,
            Err(why) => vec![Effect::Impossible(why)],
        };
        self.burden();
        effects
    }

    fn suffer(&mut self, fault: &Fault) -> Result<Vec<Effect>, String> {
        let now = self.now;
        match fault {
            Fault::Crash { down } => return Ok(vec![self.switch_off(*down)]),
            Fault::Partition { length } => {
                return Ok(vec![Effect::Silent { until: now + *length }]);
            }
            Fault::KillRanks { key } => return Ok(vec![self.kill(*key)]),
            Fault::LoseGpu { gpu } => {
                self.lose(*gpu)?;
                return Ok(vec![Effect::Inventory]);
            }
            Fault::Xid { gpu, code } => return self.xid(*gpu, *code),
            Fault::EccUncorrectable { gpu } => {
                self.uncorrectable(*gpu)?;
                let xid = |code| Effect::Xid { gpu: *gpu, code };
                return Ok(vec![xid(48), xid(63)]);
            }
            Fault::Remap { gpu, pending, failed } => {
                let c = self.condition(*gpu)?;
                let new = [(63, *pending && !c.pending), (64, *failed && !c.failed)];
                c.remapped += u64::from(new[0].1);
                (c.pending, c.failed) = (*pending, *failed);
                let reported = new.into_iter().filter(|(_, new)| *new);
                return Ok(reported.map(|(code, _)| Effect::Xid { gpu: *gpu, code }).collect());
            }
            Fault::SlowGpu { gpu, percent } => {
                self.condition(*gpu)?.slow_percent = (*percent).min(99);
            }
            Fault::Thermal { gpu } => self.condition(*gpu)?.hot = true,
            Fault::PowerBrake => self.host.brake = true,
            Fault::LowClocks { gpu, percent } => {
                self.condition(*gpu)?.low_clocks = (*percent).min(99);
            }
            Fault::EccRate { gpu, per_s } => {
                self.condition(*gpu)?.sbe.pace(u64::from(*per_s) * 3600, now);
            }
            Fault::Replay { gpu, per_min } => {
                self.condition(*gpu)?.replay.pace(u64::from(*per_min) * 60, now);
            }
            Fault::PcieDowngrade { gpu } => self.condition(*gpu)?.narrow = true,
            Fault::NvlinkErrors { gpu, per_s } => {
                let c = self.condition(*gpu)?;
                c.links.pace(u64::from(*per_s) * 3600, now);
                c.links_bad = *per_s > 0;
            }
            Fault::PortDown { port, length } => {
                self.host.port(port)?.down(now + *length, now);
            }
            Fault::PortFlap { port } => self.host.port(port)?.flap(now),
            Fault::SymbolErrors { port, per_s } => self.host.port(port)?.symbols(*per_s, now),
            Fault::LosePort { port } => {
                self.host.port(port)?.lost = true;
                return Ok(vec![Effect::Inventory]);
            }
            Fault::StorageStall { mount, length } => self.host.stall(mount, *length, now)?,
            Fault::StorageSlow { mount, factor } => self.host.slow(mount, *factor)?,
            Fault::StuckProcesses { count } => self.host.stuck = *count,
            Fault::AgentHang { length } => self.host.hang(*length, now),
            Fault::SlowWork { key, percent } => self.share(*key)?.slow_percent = *percent,
            Fault::StarveLoader { key } => self.share(*key)?.starved = true,
            Fault::HangWork { key } => self.share(*key)?.hung = true,
            Fault::KernelLine { text } => return Ok(vec![Effect::Line(text.clone())]),
            Fault::WrongResults { gpu } => self.condition(*gpu)?.wrong = true,
            Fault::Version { component, version } => return self.another(component, version),
            Fault::Repair => return Ok(self.repair()),
        }
        Ok(Vec::new())
    }

    /// The condition of a GPU that is on the bus.
    fn condition(&mut self, gpu: u32) -> Result<&mut Condition, String> {
        let place = self.devices.iter().position(|d| d.index == gpu && !d.condition.lost);
        match place {
            Some(i) => Ok(&mut self.devices[i].condition),
            None => Err(self.lacks_gpu(gpu)),
        }
    }

    fn share(&mut self, key: AttemptKey) -> Result<&mut crate::work::Work, String> {
        let name = &self.name;
        let work = self.work.get_mut(&key).filter(|w| !w.over());
        work.ok_or_else(|| {
            format!("attempt {key} does not run a simulated workload on node {name}")
        })
    }

    fn kill(&mut self, key: AttemptKey) -> Effect {
        match self.work.remove(&key).filter(|w| !w.over()) {
            Some(_) => Effect::Event(SimEvent { key, at: self.now, what: WorkEvent::Killed }),
            None => Effect::KillRanks(key),
        }
    }

    fn lose(&mut self, gpu: u32) -> Result<(), String> {
        self.condition(gpu)?.lost = true;
        self.doom(gpu);
        Ok(())
    }

    /// An error that memory could not correct: the row is to be replaced at the next reset, and
    /// whoever used it dies.
    fn uncorrectable(&mut self, gpu: u32) -> Result<(), String> {
        let c = self.condition(gpu)?;
        c.dbe += 1;
        c.remapped += 1;
        c.pending = true;
        self.doom(gpu);
        Ok(())
    }

    fn xid(&mut self, gpu: u32, code: u32) -> Result<Vec<Effect>, String> {
        self.condition(gpu)?;
        let mut effects = vec![Effect::Xid { gpu, code }];
        match code {
            48 | 94 | 95 => {
                self.condition(gpu)?.dbe += 1;
                self.doom(gpu);
            }
            79 => {
                self.lose(gpu)?;
                effects.push(Effect::Inventory);
            }
            63 => self.condition(gpu)?.pending = true,
            64 => self.condition(gpu)?.failed = true,
            _ => {}
        }
        Ok(effects)
    }

    /// From now on it has another version of something.
    fn another(&mut self, component: &str, version: &str) -> Result<Vec<Effect>, String> {
        let has = self.inventory().versions;
        if !has.contains_key(component) {
            let names: Vec<&str> = has.keys().map(String::as_str).collect();
            let (name, names) = (&self.name, names.join(", "));
            return Err(format!("node {name} has no version of `{component}`; it has {names}"));
        }
        let version = version.chars().take(VERSION_MAX).collect();
        self.versions.insert(component.to_owned(), version);
        Ok(vec![Effect::Inventory])
    }

    /// Work on this GPU dies a moment later.
    pub(crate) fn doom(&mut self, gpu: u32) {
        let at = self.now + DIES_AFTER;
        for w in self.work.values_mut().filter(|w| w.uses(gpu)) {
            w.doom(at);
        }
    }

    /// Power or kernel are gone: so is everything that ran.
    fn switch_off(&mut self, down: Span) -> Effect {
        self.boots += 1;
        self.work.clear();
        self.backlog.clear();
        for d in &mut self.devices {
            d.thermal = Thermal::new(d.offset);
        }
        Effect::Down { until: self.now + down }
    }

    fn repair(&mut self) -> Vec<Effect> {
        let now = self.now;
        let gone = self.devices.iter().any(|d| d.condition.lost)
            || self.host.ports.iter().any(|p| p.lost)
            || !self.versions.is_empty();
        self.versions.clear();
        for d in &mut self.devices {
            // As with a new part: nothing was ever counted.
            d.condition = Condition::default();
        }
        self.host.repair(now);
        for w in self.work.values_mut() {
            (w.slow_percent, w.starved, w.hung) = (0, false, false);
        }
        if gone { vec![Effect::Inventory] } else { Vec::new() }
    }

    /// Resets a GPU.
    ///
    /// # Errors
    /// When it is not on the bus, or somebody works on it.
    pub fn reset_gpu(&mut self, gpu: u32, now: Time) -> Result<(), String> {
        self.catch_up(now);
        let now = self.now;
        if let Some((key, _)) = self.work.iter().find(|(_, w)| w.uses(gpu)) {
            return Err(format!("attempt {key} works on GPU {gpu}"));
        }
        if self.config.real_load & 1u64.checked_shl(gpu).unwrap_or(0) != 0 {
            return Err(format!("ranks work on GPU {gpu}"));
        }
        self.condition(gpu)?.reset(now);
        self.burden();
        Ok(())
    }

    /// Restarts the node: it is gone for a while, has a new boot, and what a boot repairs is repaired.
    pub fn reboot(&mut self, now: Time) -> Effect {
        self.catch_up(now);
        let down = self.switch_off(BOOT_TAKES);
        let now = self.now;
        for d in &mut self.devices {
            d.condition.boot(now);
        }
        self.host.boot();
        down
    }

    fn lacks_gpu(&self, gpu: u32) -> String {
        let name = &self.name;
        if self.devices.iter().any(|d| d.index == gpu) {
            return format!(
                "GPU {gpu} of node {name} is missing: it fell off its bus; \
                 `muster node inject repair {name}` brings it back"
            );
        }
        let all: Vec<String> = self.devices.iter().map(|d| d.index.to_string()).collect();
        if all.is_empty() {
            return format!("node {name} has no GPUs");
        }
        format!("node {name} has no GPU {gpu}; it has GPU {}", all.join(","))
    }
}
