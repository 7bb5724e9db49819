//! What a simulated node has behind it, so that another process can take its life up: how often
//! it was restarted, what it suffers from, and what it works on.

use crate::{Fault, SimNode};
use muster_model::ids::AttemptKey;
use muster_model::spec::{OnPartition, Simulate};
use muster_model::units::{Span, Time};
use serde::{Deserialize, Serialize};

/// After this a device's temperature does not change any more.
const LONG: Span = Span::mins(20);

/// A life so far.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct NodeHistory {
    /// How often it was restarted.
    pub boots: u64,
    /// What it suffers from.
    pub faults: Vec<Fault>,
    /// Simulated work that goes on.
    pub work: Vec<Ongoing>,
    /// When this was so, by the wall's clock: what lasts for a time has less of it left since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at: Option<Time>,
    /// Down or cut off until then, by the wall's clock.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub away: Option<Time>,
}

/// A node's share of simulated work that goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ongoing {
    /// Job and number of the attempt.
    pub key: AttemptKey,
    /// What it pretends.
    pub work: Simulate,
    /// GPUs it has there, as a set.
    pub gpus: u64,
    /// Its first rank there.
    pub rank: u32,
    /// Nodes of the whole gang.
    pub shares: u32,
    /// Where its checkpoints are.
    pub checkpoints: Option<String>,
    /// What it does when no server is heard.
    pub on_partition: OnPartition,
    /// Useful time so far.
    pub done: Span,
}

impl SimNode {
    /// How often it was restarted.
    #[must_use]
    pub fn boots(&self) -> u64 {
        self.boots
    }

    /// Faults that a sound node must have to be as this one is, as far as they last.
    #[must_use]
    pub fn current_faults(&self) -> Vec<Fault> {
        let mut all = Vec::new();
        for d in &self.devices {
            let (gpu, c) = (d.index, &d.condition);
            let per = |hourly: u64, of: u64| u32::try_from(hourly / of).unwrap_or(u32::MAX);
            let mut has = |is: bool, fault: Fault| all.extend(is.then_some(fault));
            let (sbe, replay) = (per(c.sbe.per_hour(), 3600), per(c.replay.per_hour(), 60));
            let links = per(c.links.per_hour(), 3600);
            has(c.slow_percent > 0, Fault::SlowGpu { gpu, percent: c.slow_percent });
            has(c.hot, Fault::Thermal { gpu });
            has(c.low_clocks > 0, Fault::LowClocks { gpu, percent: c.low_clocks });
            has(sbe > 0, Fault::EccRate { gpu, per_s: sbe });
            has(replay > 0, Fault::Replay { gpu, per_min: replay });
            has(c.narrow, Fault::PcieDowngrade { gpu });
            has(links > 0, Fault::NvlinkErrors { gpu, per_s: links });
            let (pending, failed) = (c.pending, c.failed);
            has(pending || failed, Fault::Remap { gpu, pending, failed });
            has(c.wrong, Fault::WrongResults { gpu });
            // The last one: a GPU that is not there has nothing else.
            has(c.lost, Fault::LoseGpu { gpu });
        }
        all.extend(self.host.current_faults(self.now));
        let other = self.versions.iter();
        all.extend(other.map(|(component, version)| Fault::Version {
            component: component.clone(),
            version: version.clone(),
        }));
        all
    }

    /// Takes a life up: work goes on where it was, without starting again.
    pub fn take_up(&mut self, past: &NodeHistory, now: Time) {
        self.boots = past.boots;
        let passed = past.at.map_or(Span(0), |at| now.since(at));
        for fault in past.faults.iter().filter_map(|f| left_of(f, passed)) {
            // What it reports of them was reported before.
            self.apply(&fault, now);
        }
        for w in &past.work {
            let work = Simulate { startup: Span(0), ..w.work.clone() };
            self.resume(w.key, &work, w.gpus, w.done, now);
        }
        self.warm_up();
    }

    /// What has worked for long is as warm as that makes it.
    fn warm_up(&mut self) {
        let (sku, brake) = (self.config.sku.specs(), self.host.brake);
        let loads: Vec<_> = self.devices.iter().map(|d| self.load(d.index)).collect();
        for (d, load) in self.devices.iter_mut().zip(loads) {
            d.thermal.pass(&sku, load, &d.condition, brake, LONG);
        }
    }
}

/// What is left of a fault after so long; none when it is over.
fn left_of(fault: &Fault, passed: Span) -> Option<Fault> {
    let mut left = fault.clone();
    if let Fault::PortDown { length, .. }
    | Fault::StorageStall { length, .. }
    | Fault::AgentHang { length } = &mut left
    {
        *length = Span(length.0.saturating_sub(passed.0));
        return (length.0 > 0).then_some(left);
    }
    Some(left)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{SimConfig, WorkEvent};
    use muster_model::ids::JobId;

    #[test]
    fn a_life_is_taken_up_where_it_was() {
        let config = SimConfig::default();
        let start = Time(1_000_000);
        let key = AttemptKey { job: JobId(7), attempt: 2 };
        let work = Simulate { run: Span::mins(10), ..Simulate::default() };
        let mut first = SimNode::new(1, config.clone(), "n1", start);
        first.reboot(start);
        first.apply(&Fault::Thermal { gpu: 3 }, start);
        first.apply(&Fault::EccRate { gpu: 2, per_s: 4 }, start);
        first.apply(&Fault::Xid { gpu: 5, code: 79 }, start);
        let driver =
            Fault::Version { component: "driver".into(), version: "580.105.08".to_owned() };
        first.apply(&driver, start);
        let past = NodeHistory {
            boots: first.boots(),
            faults: first.current_faults(),
            work: vec![Ongoing {
                key,
                work,
                gpus: 3,
                rank: 0,
                shares: 1,
                checkpoints: None,
                on_partition: OnPartition::default(),
                done: Span::mins(4),
            }],
            ..NodeHistory::default()
        };
        assert_eq!(past.faults.len(), 4, "{:?}", past.faults);
        let text = serde_json::to_string(&past).expect("plain data");
        let past: NodeHistory = serde_json::from_str(&text).expect("plain data");
        let mut second = SimNode::new(1, config, "n1", start);
        second.take_up(&past, start);
        assert_eq!(second.boot(), first.boot());
        assert_eq!(second.inventory(), first.inventory());
        assert_eq!(second.current_faults(), first.current_faults());
        assert_eq!(second.advance(start + Span::mins(5)), []);
        let events = second.advance(start + Span::mins(7));
        assert!(events.iter().any(|e| e.what == WorkEvent::Ended { code: 0 }), "{events:?}");
    }

    #[test]
    fn what_lasts_for_a_time_has_less_of_it_left() {
        let start = Time(1_000_000);
        let mut first = SimNode::new(1, SimConfig::default(), "n1", start);
        let lasting = [
            Fault::LosePort { port: "mlx5_1".into() },
            Fault::PortFlap { port: "mlx5_2".into() },
            Fault::SymbolErrors { port: "mlx5_3".into(), per_s: 7 },
            Fault::StorageSlow { mount: "/data".into(), factor: 3 },
            Fault::StuckProcesses { count: 2 },
            Fault::PowerBrake,
        ];
        let (down, hang) = (Span::mins(10), Span::mins(1));
        for fault in &lasting {
            first.apply(fault, start);
        }
        first.apply(&Fault::PortDown { port: "mlx5_0".into(), length: down }, start);
        first.apply(&Fault::AgentHang { length: hang }, start);
        let past = NodeHistory {
            faults: first.current_faults(),
            at: Some(start),
            ..NodeHistory::default()
        };
        assert_eq!(past.faults.len(), lasting.len() + 2, "{:?}", past.faults);

        let later = start + Span::mins(4);
        let mut second = SimNode::new(1, SimConfig::default(), "n1", later);
        second.take_up(&past, later);
        assert_eq!(second.inventory(), first.inventory());
        let has = second.current_faults();
        assert!(lasting.iter().all(|f| has.contains(f)), "{has:?}");
        let rest = Fault::PortDown { port: "mlx5_0".into(), length: Span::mins(6) };
        assert!(has.contains(&rest), "{has:?}");
        assert_eq!(has.len(), lasting.len() + 1, "the hang is over: {has:?}");
    }
}
