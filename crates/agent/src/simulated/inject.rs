//! Faults that a simulated node is told to have, and acts that are done to it.

use super::log::{Log, xid_line};
use super::{Away, Simulated};
use muster_link::messages::Fault;
use muster_model::ids::AttemptKey;
use muster_model::units::Time;
use muster_simnode::{Effect, Fault as Sim};
use std::time::Instant;

/// What a fault did.
pub(crate) struct Injected {
    pub(crate) outcome: Result<String, String>,
    pub(crate) away: Option<Away>,
    pub(crate) crashed: bool,
    pub(crate) kill: Option<AttemptKey>,
    pub(crate) inventory: bool,
}

impl Default for Injected {
    fn default() -> Injected {
        Injected {
            outcome: Ok("done".into()),
            away: None,
            crashed: false,
            kill: None,
            inventory: false,
        }
    }
}

/// The longest line of a kernel's log that is taken.
const LINE: usize = 4096;

fn of(fault: Fault) -> Sim {
    match fault {
        Fault::Crash { down } => Sim::Crash { down },
        Fault::Partition { length } => Sim::Partition { length },
        Fault::KillRanks { key } => Sim::KillRanks { key },
        Fault::LoseGpu { gpu } => Sim::LoseGpu { gpu },
        Fault::SlowGpu { gpu, percent } => Sim::SlowGpu { gpu, percent },
        Fault::Xid { gpu, code } => Sim::Xid { gpu, code },
        Fault::Thermal { gpu } => Sim::Thermal { gpu },
        Fault::PowerBrake => Sim::PowerBrake,
        Fault::LowClocks { gpu, percent } => Sim::LowClocks { gpu, percent },
        Fault::EccRate { gpu, per_s } => Sim::EccRate { gpu, per_s },
        Fault::EccUncorrectable { gpu } => Sim::EccUncorrectable { gpu },
        Fault::Remap { gpu, pending, failed } => Sim::Remap { gpu, pending, failed },
        Fault::Replay { gpu, per_min } => Sim::Replay { gpu, per_min },
        Fault::PcieDowngrade { gpu } => Sim::PcieDowngrade { gpu },
        Fault::NvlinkErrors { gpu, per_s } => Sim::NvlinkErrors { gpu, per_s },
        Fault::PortDown { port, length } => Sim::PortDown { port, length },
        Fault::PortFlap { port } => Sim::PortFlap { port },
        Fault::SymbolErrors { port, per_s } => Sim::SymbolErrors { port, per_s },
        Fault::LosePort { port } => Sim::LosePort { port },
        Fault::StorageStall { mount, length } => Sim::StorageStall { mount, length },
        Fault::StorageSlow { mount, factor } => Sim::StorageSlow { mount, factor },
        Fault::StuckProcesses { count } => Sim::StuckProcesses { count },
        Fault::AgentHang { length } => Sim::AgentHang { length },
        Fault::SlowWork { key, percent } => Sim::SlowWork { key, percent },
        Fault::StarveLoader { key } => Sim::StarveLoader { key },
        Fault::HangWork { key } => Sim::HangWork { key },
        Fault::KernelLine { text } => {
            Sim::KernelLine { text: text.chars().filter(|c| *c != '\n').take(LINE).collect() }
        }
        Fault::Mend => Sim::Mend,
    }
}

impl Simulated {
    pub(crate) fn inject(&mut self, fault: &Fault, now: Instant) -> Injected {
        let at = self.clock.at(now);
        if let Fault::Xid { code, .. } = fault
            && let Err(why) = xid_line("", *code)
        {
            return Injected { outcome: Err(why), ..Injected::default() };
        }
        let effects = self.node.apply(&of(fault.clone()), at);
        self.gangs_seen = None;
        self.feel(effects, at)
    }

    fn feel(&mut self, effects: Vec<Effect>, at: Time) -> Injected {
        let mut done = Injected::default();
        for effect in effects {
            match effect {
                Effect::Down { until } => {
                    self.switched_off();
                    done.crashed = true;
                    done.away = Some(Away { until: self.clock.real(until) });
                    done.outcome = Ok("the node is down".into());
                }
                Effect::Silent { until } => {
                    done.away = Some(Away { until: self.clock.real(until) });
                    done.outcome = Ok("the node is cut off".into());
                }
                Effect::Event(event) => self.take(event),
                Effect::KillRanks(key) => done.kill = Some(key),
                Effect::Xid { gpu, code } => {
                    if let Ok(line) = xid_line(&self.node.pci(gpu), code) {
                        self.log.line(at, &line, &self.node.sku(), &self.pool);
                        done.outcome = Ok(format!("GPU {gpu} told of Xid {code}"));
                    }
                }
                Effect::Line(text) => {
                    self.log.line(at, &text, &self.node.sku(), &self.pool);
                }
                Effect::Inventory => done.inventory = true,
                Effect::Impossible(why) => done.outcome = Err(why),
            }
        }
        self.hear(at);
        done
    }

    /// Restarts the node.
    pub(crate) fn reboot(&mut self, now: Instant) -> Injected {
        let at = self.clock.at(now);
        let down = self.node.reboot(at);
        self.feel(vec![down], at)
    }

    /// Everything that ran is gone, and so is what nobody has written down.
    fn switched_off(&mut self) {
        for (key, w) in std::mem::take(&mut self.work) {
            self.gangs.tell(key, w.rank, None);
        }
        self.loads.clear();
        self.test = None;
        self.log = Log::default();
        self.resets.clear();
    }
}
