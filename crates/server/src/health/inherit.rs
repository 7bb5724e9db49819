//! Findings that a watch before this one reported: this one remembers nothing of them, so it would
//! never say that they are over.

use muster_engine::State;
use muster_model::FailureMode;
use muster_model::finding::ObservedFinding;
use muster_model::names::NodeName;
use muster_model::units::Time;
use std::time::{Duration, Instant};

/// What is still true is seen again by then.
const PATIENCE: Duration = Duration::from_secs(15 * 60);

/// Failure modes that only the watch reports. Others may rest on a fault, which is reported once
/// and true until somebody repairs it.
const KINDS: [FailureMode; 9] = [
    FailureMode::AGENT_HANG,
    FailureMode::CLOCKS_LOW,
    FailureMode::HANG,
    FailureMode::JOB_SLOW,
    FailureMode::LOADER_STARVED,
    FailureMode::PCIE_DOWNGRADE,
    FailureMode::STORAGE_SLOW,
    FailureMode::STRAGGLER,
    FailureMode::SYMBOL_ERRORS,
];

#[derive(Debug)]
pub(super) struct Inherited {
    since: Instant,
    open: Vec<ObservedFinding>,
}

impl Inherited {
    pub(super) fn of(s: &State, now: Instant) -> Inherited {
        let reported = s.health.open().filter(|f| FailureMode::is_one_of(&f.seen.kind, &KINDS));
        Inherited { since: now, open: reported.map(|f| f.seen.clone()).collect() }
    }

    /// This watch saw it too: from here on it says when it is over.
    pub(super) fn seen(&mut self, f: &ObservedFinding) {
        self.open.retain(|o| o.kind != f.kind || o.entity != f.entity);
    }

    /// Those that were not seen again in time, by nodes that can be heard.
    pub(super) fn over(
        &mut self,
        now: Instant,
        at: Time,
        heard: impl Fn(&NodeName) -> bool,
    ) -> Vec<ObservedFinding> {
        if self.open.is_empty() || now.duration_since(self.since) < PATIENCE {
            return Vec::new();
        }
        let reported = |f: &mut ObservedFinding| f.entity.node().is_none_or(&heard);
        let over = self.open.extract_if(.., reported);
        over.map(|mut f| {
            f.over = true;
            f.last_seen = at;
            f
        })
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::entity::Entity;
    use muster_model::finding::Severity;

    #[test]
    fn what_is_not_seen_again_is_over_once_its_node_can_be_heard() {
        let f = |kind: &str, node: &str| {
            let entity = Entity::Node(node.parse().unwrap());
            ObservedFinding::new(kind, entity, Severity::Degraded, Time(1))
        };
        let start = Instant::now();
        let open = vec![f("straggler", "a"), f("straggler", "b"), f("clocks-low", "c")];
        let mut i = Inherited { since: start, open };
        i.seen(&f("straggler", "a"));
        i.seen(&f("clocks-low", "a"));
        let all = |_: &NodeName| true;
        assert!(i.over(start + PATIENCE / 2, Time(5), all).is_empty());
        let only_b = |n: &NodeName| n.as_str() == "b";
        let over = i.over(start + PATIENCE, Time(5), only_b);
        assert_eq!(over.len(), 1);
        assert!(over[0].over && over[0].entity == Entity::Node("b".parse().unwrap()));
        assert_eq!(i.over(start + PATIENCE, Time(6), all).len(), 1, "once it is back");
        assert!(i.over(start + PATIENCE, Time(7), all).is_empty());
    }
}
