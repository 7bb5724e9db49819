//! Where the time of a simulated step goes, and who holds up whom in a gang.
//!
//! A sound step is cut into reading, copying, computing and talking to the other ranks. A share
//! that is held back takes longer for its own parts; the others wait for it in `comm`. A node
//! knows only its own share: whoever hosts several nodes of a gang says to each of them how long
//! the slowest share takes. Where nobody does, the peers of a slow share show a sound step.

use crate::random::Random;

/// Parts of a sound step in thousandths: reading, copying to the device, computing, talking.
const READ: u64 = 30;
const H2D: u64 = 40;
const COMPUTE: u64 = 780;
const COMM: u64 = 150;
/// A sound step.
pub(crate) const SOUND: u64 = READ + H2D + COMPUTE + COMM;
/// A loader that starves takes so many times as long.
const STARVED: u64 = 50;
/// A bus without most of its lanes takes so many times as long.
const NARROW: u64 = 4;

/// Time of a step by stage, in microseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Stages {
    /// Waiting for data.
    pub read: u64,
    /// Copying it to the devices.
    pub h2d: u64,
    /// Work on the devices.
    pub compute: u64,
    /// Talking to the other ranks, and waiting for them.
    pub comm: u64,
}

impl Stages {
    /// All stages together.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.read + self.h2d + self.compute + self.comm
    }
}

/// What holds a share of work back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WorkSlowdown {
    /// Computing takes so many thousandths of its sound time.
    pub(crate) compute: u64,
    pub(crate) starved: bool,
    pub(crate) narrow: bool,
    pub(crate) hung: bool,
}

impl Default for WorkSlowdown {
    fn default() -> WorkSlowdown {
        WorkSlowdown { compute: 1000, starved: false, narrow: false, hung: false }
    }
}

impl WorkSlowdown {
    fn read(&self) -> u64 {
        if self.starved { READ * STARVED } else { READ }
    }

    fn h2d(&self) -> u64 {
        if self.narrow { H2D * NARROW } else { H2D }
    }

    fn compute(&self) -> u64 {
        COMPUTE * self.compute / 1000
    }

    fn own(&self) -> u64 {
        self.read() + self.h2d() + self.compute()
    }

    /// Thousandths of a sound step that this share needs.
    pub(crate) fn needs(&self) -> u64 {
        self.own() + COMM
    }

    /// Thousandths of the time in which the devices run something, and in which they compute, as
    /// against a sound step, when a step takes so many thousandths.
    pub(crate) fn activity(&self, step: u64) -> (u64, u64) {
        let step = step.max(self.needs()).max(1);
        let idle = self.read() - READ;
        let computes = self.compute() * 1000 / step * SOUND / COMPUTE;
        ((step - idle) * 1000 / step, computes.min(1000))
    }

    /// Step number `n`, whose sound length is `sound_us`, when the slowest share needs `gang`
    /// thousandths. No two steps are quite alike; the whole is the same on all nodes.
    pub(crate) fn stages(&self, sound_us: u64, gang: u64, noise: Noise, n: u64) -> Stages {
        let part = |thousandths: u64| sound_us.saturating_mul(thousandths) / 1000;
        let off = |seed: u64, most: u64| 1000 - most + Random::at(seed, n).below(2 * most + 1);
        let whole = part(gang.max(self.needs())) * off(noise.gang, 10) / 1000;
        let compute = part(self.compute()) * off(noise.node, 4) / 1000;
        let (read, h2d) = (part(self.read()), part(self.h2d()));
        Stages { read, h2d, compute, comm: whole.saturating_sub(read + h2d + compute) }
    }
}

/// Seeds of what makes steps differ: on this node, and in the whole gang.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Noise {
    pub(crate) node: u64,
    pub(crate) gang: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slow_share_computes_long_and_its_peers_wait() {
        let noise = Noise { node: 1, gang: 2 };
        let slow = WorkSlowdown { compute: 1500, ..WorkSlowdown::default() };
        let gang = slow.needs();
        assert_eq!(gang, SOUND + COMPUTE / 2);
        let (s, p) = (
            slow.stages(1_000_000, gang, noise, 7),
            WorkSlowdown::default().stages(1_000_000, gang, Noise { node: 9, gang: 2 }, 7),
        );
        assert_eq!(s.total(), p.total(), "a gang steps together");
        assert!(s.compute > 1_100_000 && s.comm < 200_000, "{s:?}");
        assert!(p.compute < 800_000 && p.comm > 500_000, "{p:?}");
        assert!(WorkSlowdown::default().activity(gang).1 < 750 && slow.activity(gang).1 > 950);
    }

    #[test]
    fn a_starved_share_reads_and_its_devices_pause() {
        let d = WorkSlowdown { starved: true, ..WorkSlowdown::default() };
        let s = d.stages(1_000_000, 0, Noise::default(), 1);
        assert!(s.read * 2 > s.total(), "{s:?}");
        let (util, active) = d.activity(d.needs());
        assert!(util < 500 && active < 500, "{util} {active}");
        assert_eq!(WorkSlowdown::default().activity(SOUND), (1000, 1000));
    }
}
