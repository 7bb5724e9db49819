//! Faults that a simulated node is asked to have, and acts that are done to it.

use super::log::{Log, xid_line};
use super::{Simulated, wall};
use crate::devices::{Injected, SimulatedAbsence};
use muster_model::inject::Inject;
use muster_model::units::{Span, Time};
use muster_simnode::Effect;
use std::time::Instant;

/// The longest line of a kernel's log that is taken.
const LINE: usize = 4096;

/// The fault with a kernel's line as a kernel would write it: one, and not without end.
fn within(fault: &Inject) -> Inject {
    match fault {
        Inject::KernelLine { text } => {
            Inject::KernelLine { text: text.chars().filter(|c| *c != '\n').take(LINE).collect() }
        }
        other => other.clone(),
    }
}

/// What a fault did, for whoever asked for it.
fn describe(fault: &Inject) -> String {
    match fault {
        Inject::LoseGpu { gpu } => format!("GPU {gpu} fell off the bus"),
        Inject::SlowGpu { gpu, percent: 0 } => format!("GPU {gpu} is no longer slow"),
        Inject::SlowGpu { gpu, percent } => format!("GPU {gpu} is {percent}% slower"),
        Inject::Thermal { gpu } => format!("GPU {gpu} gets hot under load"),
        Inject::PowerBrake => "all GPUs slow down for their power".into(),
        Inject::LowClocks { gpu, percent: 0 } => format!("the clocks of GPU {gpu} are as usual"),
        Inject::LowClocks { gpu, percent } => {
            format!("the clocks of GPU {gpu} are {percent}% lower under load")
        }
        Inject::WrongResults { gpu } => format!("GPU {gpu} computes wrong results"),
        Inject::LosePort { port } => format!("port {port} is gone"),
        Inject::PortDown { port, length } => format!("port {port} is down for {length}"),
        Inject::Repair => "every fault was repaired".into(),
        _ => "the node has the fault".into(),
    }
}

impl Simulated {
    /// Has a fault.
    pub(super) fn suffer(&mut self, fault: &Inject, now: Instant) -> Injected {
        let at = self.clock.at(now);
        if let Inject::Xid { code, .. } = fault
            && let Err(why) = xid_line("", *code)
        {
            return Injected { outcome: Err(why), ..Injected::default() };
        }
        let effects = self.node.apply(&within(fault), at);
        self.gangs_seen = None;
        let mut done = self.feel(effects, at);
        if done.outcome.as_ref().is_ok_and(|said| said == "done") {
            done.outcome = Ok(describe(fault));
        }
        done
    }

    fn feel(&mut self, effects: Vec<Effect>, at: Time) -> Injected {
        let mut done = Injected::default();
        for effect in effects {
            match effect {
                Effect::Down { until } => {
                    self.switched_off();
                    done.crashed = true;
                    done.away = Some(SimulatedAbsence { until: self.clock.real(until) });
                    done.outcome = Ok("the node is down".into());
                }
                Effect::Silent { until } => {
                    done.away = Some(SimulatedAbsence { until: self.clock.real(until) });
                    done.outcome = Ok("the node is cut off".into());
                }
                Effect::Event(event) => self.take(event),
                Effect::KillRanks(key) => done.kill = Some(key),
                Effect::Xid { gpu, code } => {
                    if let Ok(line) = xid_line(&self.node.pci(gpu), code) {
                        self.log.line(at, &line, &self.node.sku(), &self.pool);
                        done.outcome = Ok(format!("GPU {gpu} reported Xid {code}"));
                    }
                }
                Effect::Line(text) => {
                    self.log.line(at, &text, &self.node.sku(), &self.pool);
                }
                Effect::Inventory => done.inventory = true,
                Effect::Impossible(why) => done.outcome = Err(why),
            }
        }
        self.read_kernel_log(at);
        if let Some(away) = &done.away {
            let left = away.until.saturating_duration_since(Instant::now());
            let left = Span(u64::try_from(left.as_millis()).unwrap_or(u64::MAX));
            self.away_until = Some(wall() + left);
        }
        self.keep();
        done
    }

    /// Restarts the node.
    pub(super) fn reboot(&mut self, now: Instant) -> Injected {
        let at = self.clock.at(now);
        let down = self.node.reboot(at);
        self.feel(vec![down], at)
    }

    /// Everything that ran is gone, and so is what nobody has written down.
    fn switched_off(&mut self) {
        for (key, w) in std::mem::take(&mut self.work) {
            self.gangs.set_share_needs(key, w.rank, None);
        }
        self.loads.clear();
        self.test = None;
        self.log = Log::default();
        self.resets.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_is_answered_with_what_it_did() {
        assert_eq!(describe(&Inject::LoseGpu { gpu: 2 }), "GPU 2 fell off the bus");
        assert_eq!(describe(&Inject::SlowGpu { gpu: 1, percent: 20 }), "GPU 1 is 20% slower");
        assert_eq!(describe(&Inject::SlowGpu { gpu: 1, percent: 0 }), "GPU 1 is no longer slow");
        assert_eq!(describe(&Inject::Repair), "every fault was repaired");
    }
}
