//! A job that makes no progress, and who stopped first.

use super::robust::PeerBaseline;
use super::verdict::DetectorVerdict;
use crate::config::WatchConfig;
use muster_model::finding::Severity;

/// How still a job is.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct StallSignals {
    /// Milliseconds since its last step.
    pub since_step: i64,
    /// Milliseconds since its last output; none where it never wrote any.
    pub since_output: Option<i64>,
    /// Its usual time between two steps, in milliseconds; none where it reported too few.
    pub usual_gap: Option<f64>,
    /// Its GPUs that report figures.
    pub gpus: u32,
    /// Of these, in use and drawing little: they spin, waiting for somebody.
    pub spinning: u32,
    /// In use and drawing less than usual; the spinning ones are among them.
    pub less: u32,
    /// And not in use at all.
    pub idle: u32,
    /// It writes a checkpoint.
    pub saving: bool,
    /// A file system that its nodes use answers nobody.
    pub storage_stalls: bool,
    /// One of its nodes is silent, or something else is known that stops it.
    pub explained: bool,
    /// Ranks are so many steps apart, beyond what they are while all is well.
    pub apart: u64,
}

/// How long a job may report no step.
#[must_use]
pub fn bound(c: &WatchConfig, gap: f64) -> f64 {
    // Twenty long steps would be hours: five of them, but a quarter of an hour, are enough.
    let steps = (gap * c.hang_steps).min((gap * 5.0).max(900_000.0));
    (c.hang_floor.0 as f64).max(steps)
}

/// No step, no output and no activity for longer than the job's own past allows; or GPUs that are
/// in use and draw little, on all of it. Writing a checkpoint and waiting for storage are no
/// hangs.
///
/// A false alarm costs one restart of the job from its checkpoint.
#[must_use]
pub fn hang(c: &WatchConfig, s: &StallSignals) -> DetectorVerdict {
    if s.saving || s.storage_stalls {
        return DetectorVerdict::Unknown;
    }
    // A node that was lost stops its gang: that is found elsewhere, and only later called a hang.
    if s.explained && s.since_step as f64 <= c.hang_idle_floor.0 as f64 * 2.0 {
        return DetectorVerdict::Unknown;
    }
    let most = |n: u32| s.gpus > 0 && u64::from(n) * 4 >= u64::from(s.gpus) * 3;
    let still = s.since_step as f64;
    let quiet = s.since_output.is_none_or(|o| o as f64 > c.hang_floor.0 as f64 / 2.0);
    let Some(gap) = s.usual_gap else {
        // It never reported its steps: only what its GPUs do can speak, and for longer.
        let long = still > c.hang_idle_floor.0 as f64;
        if long && quiet && most(s.spinning) {
            let why = format!("{} of {} GPUs in use draw little power", s.spinning, s.gpus);
            return DetectorVerdict::bad(Severity::Critical, 650, why);
        }
        return DetectorVerdict::good_if(!most(s.spinning));
    };
    let limit = bound(c, gap);
    if still <= limit / 2.0 {
        return DetectorVerdict::Good;
    }
    let secs = still / 1000.0;
    let reported = format!("no step for {secs:.0} s, usually one every {:.1} s", gap / 1000.0);
    let slowly = (c.hang_floor.0 as f64).max(gap * 5.0);
    if most(s.spinning) && quiet && still > slowly {
        let why = format!("{reported}; {} of {} GPUs in use draw little power", s.spinning, s.gpus);
        return DetectorVerdict::bad(Severity::Critical, 900, why);
    }
    if still <= limit {
        return DetectorVerdict::Unknown;
    }
    if s.gpus == 0 {
        // No figures of GPUs: words and steps are all there is.
        let long = still > limit * 3.0 && quiet;
        return if long {
            DetectorVerdict::bad(Severity::Critical, 700, reported)
        } else {
            DetectorVerdict::Unknown
        };
    }
    let idle = (c.hang_idle_floor.0 as f64).max(limit);
    let long = still > idle || most(s.less) || s.apart > 1;
    if most(s.less + s.idle) && quiet && long {
        let why = format!("{reported}; {} of {} GPUs do little", s.less + s.idle, s.gpus);
        return DetectorVerdict::bad(Severity::Critical, 800, why);
    }
    DetectorVerdict::Unknown
}

/// A rank of a job that hangs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct StalledRank {
    /// The global rank.
    pub rank: u32,
    /// Its last step; none where it reported none.
    pub step: Option<u64>,
    /// What its GPUs draw, in watts.
    pub power: f64,
    /// How much they are in use, in percent.
    pub util: f64,
}

/// Who stopped first: the one that is behind by more than `usual` steps, or else the one whose GPUs do something else than
/// those of all others.
#[must_use]
pub fn stopped_first(ranks: &[StalledRank], usual: u64) -> Option<(u32, String)> {
    let reported: Vec<&StalledRank> = ranks.iter().filter(|r| r.step.is_some()).collect();
    if let (Some(least), Some(most)) =
        (reported.iter().filter_map(|r| r.step).min(), reported.iter().filter_map(|r| r.step).max())
        && most - least > usual
    {
        let behind: Vec<&&StalledRank> =
            reported.iter().filter(|r| r.step == Some(least)).collect();
        if behind.len() * 2 < reported.len().max(3) {
            return behind
                .first()
                .map(|r| (r.rank, format!("at step {least} while others are at {most}")));
        }
    }
    let alone = |figure: &dyn Fn(&StalledRank) -> f64, floor: f64| -> Option<(u32, f64, f64)> {
        let usual = PeerBaseline::of(ranks.iter().map(figure)).filter(|u| u.count >= 3)?;
        let far = |r: &&StalledRank| {
            let x = figure(r);
            let gap = (x - usual.median).abs();
            gap > floor && gap > usual.mad * 5.0
        };
        let mut out = ranks.iter().filter(far);
        let first = out.next()?;
        out.next().is_none().then(|| (first.rank, figure(first), usual.median))
    };
    if let Some((rank, own, usual)) = alone(&|r| r.util, 30.0) {
        return Some((rank, format!("GPU use of {own:.0}% while others have {usual:.0}%")));
    }
    let (rank, own, usual) = alone(&|r| r.power, 60.0)?;
    Some((rank, format!("draws {own:.0} W while others draw {usual:.0} W")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn still(since_step: i64, gap: f64) -> StallSignals {
        StallSignals { since_step, usual_gap: Some(gap), gpus: 16, ..StallSignals::default() }
    }

    #[test]
    fn gpus_that_spin_hang_soon_and_idle_ones_later() {
        let c = WatchConfig::default();
        let spin = |ms| StallSignals { spinning: 15, less: 15, ..still(ms, 500.0) };
        assert!(hang(&c, &spin(61_000)).is_bad());
        assert!(!hang(&c, &spin(55_000)).is_bad(), "nearly");
        let idle = |ms| StallSignals { idle: 16, ..still(ms, 500.0) };
        assert!(!hang(&c, &idle(200_000)).is_bad(), "a checkpoint that nobody reported");
        assert!(hang(&c, &idle(301_000)).is_bad());
        assert!(hang(&c, &StallSignals { apart: 4, ..idle(61_000) }).is_bad(), "a rank is behind");
    }

    #[test]
    fn work_that_goes_on_is_no_hang() {
        let c = WatchConfig::default();
        assert!(!hang(&c, &still(3_000_000, 500.0)).is_bad(), "busy with an evaluation");
        let talking = StallSignals { idle: 16, since_output: Some(1000), ..still(400_000, 500.0) };
        assert!(!hang(&c, &talking).is_bad());
        let saving = StallSignals { idle: 16, saving: true, ..still(900_000, 500.0) };
        assert_eq!(hang(&c, &saving), DetectorVerdict::Unknown);
        let stalled = StallSignals { idle: 16, storage_stalls: true, ..still(900_000, 500.0) };
        assert_eq!(hang(&c, &stalled), DetectorVerdict::Unknown, "storage is at fault");
        assert_eq!(hang(&c, &still(1000, 500.0)), DetectorVerdict::Good);
        let lost = StallSignals { spinning: 15, explained: true, ..still(200_000, 500.0) };
        assert_eq!(hang(&c, &lost), DetectorVerdict::Unknown, "a node is silent");
    }

    #[test]
    fn long_steps_have_long_bounds() {
        let c = WatchConfig::default();
        assert_eq!(bound(&c, 500.0), 60_000.0);
        assert_eq!(bound(&c, 10_000.0), 200_000.0);
        assert_eq!(bound(&c, 120_000.0), 900_000.0);
        assert_eq!(bound(&c, 600_000.0), 3_000_000.0);
    }

    #[test]
    fn who_reports_no_steps_is_judged_by_its_gpus() {
        let c = WatchConfig::default();
        let s =
            StallSignals { since_step: 301_000, gpus: 8, spinning: 8, ..StallSignals::default() };
        assert!(hang(&c, &s).is_bad());
        let idle = StallSignals { spinning: 0, idle: 8, ..s };
        assert!(!hang(&c, &idle).is_bad(), "somebody at lunch");
    }

    #[test]
    fn the_one_that_is_behind_stopped_first() {
        let r = |rank, step, util, power| StalledRank { rank, step, power, util };
        let mut ranks: Vec<StalledRank> = (0..8).map(|i| r(i, Some(100), 100.0, 200.0)).collect();
        assert_eq!(stopped_first(&ranks, 0), None);
        ranks[3].step = Some(99);
        assert_eq!(stopped_first(&ranks, 0).map(|s| s.0), Some(3));
        assert_eq!(stopped_first(&ranks, 1), None, "they are always one apart");
        ranks[3] = r(3, Some(100), 0.0, 90.0);
        assert_eq!(stopped_first(&ranks, 0).map(|s| s.0), Some(3));
        ranks[3] = r(3, Some(100), 100.0, 650.0);
        assert_eq!(stopped_first(&ranks, 0).map(|s| s.0), Some(3));
        ranks[4] = r(4, Some(100), 100.0, 650.0);
        assert_eq!(stopped_first(&ranks, 0), None, "two of them");
        assert_eq!(stopped_first(&[], 0), None);
    }
}
