//! How a simulated GPU breaks: by itself, now and then, and when it is asked to.

use super::body::SimulatedGpu;
use super::fault::SimFault;
use super::load::wide;

impl SimulatedGpu {
    /// What breaks in this step.
    pub(super) fn wear(&mut self, dt: f64) -> Vec<u32> {
        let hours = dt / 3_600_000.0;
        let storm = self.has(SimFault::EccStorm);
        let (single, double) = if storm { (180_000.0, 4.0) } else { (0.0, 0.0) };
        let single = self.arrivals((self.rates.single_bit + single) * hours);
        let double = self.arrivals((self.rates.double_bit + double) * hours);
        let storm = if self.has(SimFault::ReplayStorm) { 360_000.0 } else { 0.0 };
        self.wires.replay += self.arrivals((self.rates.replay + storm) * hours);
        let storm = if self.has(SimFault::LinkErrors) { 720_000.0 } else { 0.0 };
        let link = self.arrivals((self.rates.link + storm) * hours);
        self.wires.flit += link;
        self.wires.link_replay += link;
        self.wires.data += link / 4;
        let mut xids = Vec::new();
        if storm > 0.0 {
            let broken = self.arrivals(120.0 * hours);
            self.wires.recovery += broken;
            xids.extend((0..broken).map(|_| 74));
        }
        let banks = self.specs.banks;
        for _ in 0..single {
            xids.extend(self.memory.single(&mut self.random, banks));
        }
        for _ in 0..double {
            xids.extend(self.memory.double(&mut self.random, banks));
        }
        xids
    }

    /// How many of something come in a step in which this many are expected.
    fn arrivals(&mut self, expected: f64) -> u64 {
        let draw = wide(self.random.below(1 << 53)) / wide(1 << 53);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "small counts")]
        let whole = expected.floor() as u64;
        whole + u64::from(draw < expected - expected.floor())
    }

    /// What happens at once when a fault comes. Returns the XIDs that the driver reports.
    pub(super) fn inject(&mut self, fault: SimFault) -> Vec<u32> {
        let banks = self.specs.banks;
        match fault {
            SimFault::Xid(xid) => return vec![xid],
            SimFault::RemapPending => return self.memory.double(&mut self.random, banks),
            SimFault::RemapFailed => return self.memory.fail(&mut self.random, banks),
            _ => {}
        }
        let new = self.faults.insert(fault);
        // What holds the clock down does so from now on, not from the next step.
        self.set_clock();
        match fault {
            SimFault::Lost if new => vec![79],
            SimFault::LinkErrors if new => vec![74],
            _ => Vec::new(),
        }
    }
}
