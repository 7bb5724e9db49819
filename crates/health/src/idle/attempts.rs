//! Attempts whose GPUs are allocated and do nothing: which may be, since when they are, and when that is
//! reported.

use muster_model::ids::AttemptKey;
use muster_model::job::{Attempt, Job, SlotState};
use muster_model::names::NodeName;
use muster_model::placement::GpuSet;
use muster_model::units::{Span, Time};
use std::collections::BTreeMap;

/// An attempt that stays idle is reported again after this.
const AGAIN: Span = Span::secs(30);

/// GPUs of an attempt that runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AttemptGpus {
    /// The node that reports for the gang.
    pub speaker: NodeName,
    /// Those of each node that has some.
    pub gpus: Vec<(NodeName, GpuSet)>,
}

impl AttemptGpus {
    /// Those of an attempt all of whose ranks are up and that is not being stopped; none of another, and
    /// of one without GPUs.
    #[must_use]
    pub fn of(a: &Attempt) -> Option<AttemptGpus> {
        let runs = a.stop.is_none() && a.slots.iter().all(|s| matches!(s, SlotState::Running));
        let speaker = a.placement.slots.first().filter(|_| runs)?.node.clone();
        let with_gpus = a.placement.slots.iter().filter(|s| !s.gpus.is_empty());
        let gpus: Vec<_> = with_gpus.map(|s| (s.node.clone(), s.gpus)).collect();
        (!gpus.is_empty()).then_some(AttemptGpus { speaker, gpus })
    }

    /// Since when all of them have been idle, where that is `warn` or longer. `since`: since when all of
    /// a node have been; none while one of them is not.
    pub fn idle_since(
        &self,
        now: Time,
        warn: Span,
        since: impl Fn(&NodeName, GpuSet) -> Option<Time>,
    ) -> Option<Time> {
        let mut latest = None;
        for (node, gpus) in &self.gpus {
            latest = latest.max(Some(since(node, *gpus)?));
        }
        latest.filter(|t| now.since(*t) >= warn)
    }
}

/// Of these jobs, the attempts that may be idle.
pub fn candidates<'a>(jobs: impl Iterator<Item = &'a Job>) -> BTreeMap<AttemptKey, AttemptGpus> {
    let one = |job: &Job| Some((job.attempt_key()?, AttemptGpus::of(job.attempt.as_ref()?)?));
    jobs.filter_map(one).collect()
}

/// What was reported of an attempt.
#[derive(Debug, Clone, Copy)]
struct ReportedIdle {
    /// When, on the clock that never jumps.
    at: Time,
    /// Since when it was idle, on the same clock.
    since: Time,
    /// The same on the wall's clock. It stays as it was first reported while the GPUs stay idle: a
    /// beginning that moves, because a thread waited or the clock was set, is another idleness,
    /// and warned of anew.
    wall: Time,
}

/// What was reported, of attempts that are still idle.
#[derive(Debug, Default)]
pub struct IdleReports(BTreeMap<AttemptKey, ReportedIdle>);

impl IdleReports {
    /// What is to be reported now: the attempt, the node that reports for it, and since when it is idle
    /// on the wall's clock. `idle` has all that are, with since when on the clock that never jumps. It
    /// is `now` on that one, and `wall` on the other.
    pub fn due(
        &mut self,
        idle: BTreeMap<AttemptKey, (NodeName, Time)>,
        (now, wall): (Time, Time),
        warn: Span,
    ) -> Vec<(AttemptKey, NodeName, Time)> {
        self.0.retain(|key, _| idle.contains_key(key));
        let again = warn.min(AGAIN);
        let mut out = Vec::new();
        for (key, (node, since)) in idle {
            let before = self.0.get(&key);
            if before.is_some_and(|t| now.since(t.at) < again) {
                continue;
            }
            let began = before.filter(|t| t.since == since);
            let wall = began.map_or_else(|| wall - now.since(since), |t| t.wall);
            self.0.insert(key, ReportedIdle { at: now, since, wall });
            out.push((key, node, wall));
        }
        out
    }

    /// Nothing was reported: the policy asks for nothing.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use muster_model::ids::JobId;
    use muster_model::placement::{Fabric, Placement, Slot};
    use muster_model::topology::Level;
    use muster_model::units::Bytes;
    use std::sync::Arc;

    const WARN: Span = Span::mins(10);
    const NOW: Time = Time(100 * 60_000);

    fn node(n: u64) -> NodeName {
        format!("n{n}").parse().expect("a name")
    }

    fn ago(mins: u64) -> Time {
        NOW - Span::mins(mins)
    }

    /// One slot on each node; the second node has no GPUs.
    fn attempt() -> Attempt {
        let slot = |n: u32| Slot {
            node: node(n.into()),
            group: 0,
            node_rank: n,
            first_rank: n,
            ranks: 1,
            gpus: if n == 1 { GpuSet::EMPTY } else { GpuSet(0b11) },
            cpus: 1,
            memory: Bytes(1),
            part: None,
        };
        Attempt {
            no: 1,
            placement: Arc::new(Placement {
                slots: (0..3).map(slot).collect(),
                port: 1,
                domain: String::new(),
                level: Level::Rack,
                fabric: Fabric::default(),
                cap_watts: None,
                checkpoint_every: None,
            }),
            slots: vec![SlotState::Running; 3],
            placed_at: Time(0),
            started_at: None,
            deadline: None,
            stop: None,
            notice: None,
            preflight: None,
            freed_at: None,
            last_end: None,
            started_from: BTreeMap::new(),
            lost_at: None,
        }
    }

    #[test]
    fn an_attempt_may_be_idle_while_all_its_ranks_run_and_some_have_gpus() {
        let held = AttemptGpus::of(&attempt()).expect("it runs");
        let pair = GpuSet(0b11);
        assert_eq!((held.speaker, held.gpus), (node(0), vec![(node(0), pair), (node(2), pair)]));
        for state in [SlotState::Pending, SlotState::Lost] {
            let mut a = attempt();
            a.slots[1] = state;
            assert_eq!(AttemptGpus::of(&a), None);
        }
        let mut none = attempt();
        let mut placement = (*none.placement).clone();
        placement.slots.iter_mut().for_each(|s| s.gpus = GpuSet::EMPTY);
        none.placement = Arc::new(placement);
        assert_eq!(AttemptGpus::of(&none), None, "no GPUs");
    }

    #[test]
    fn a_gang_is_idle_since_the_last_of_its_nodes_is() {
        let held = AttemptGpus::of(&attempt()).expect("it runs");
        let of = |first: Option<Time>, last: Option<Time>| {
            held.idle_since(NOW, WARN, |n, _| if *n == node(0) { first } else { last })
        };
        assert_eq!(of(Some(ago(30)), Some(ago(10))), Some(ago(10)));
        assert_eq!(of(Some(ago(30)), Some(ago(9))), None, "not for long enough");
        assert_eq!(of(Some(ago(30)), None), None, "one of them works");
    }

    #[test]
    fn what_stays_idle_is_reported_again_with_the_same_beginning() {
        let key = AttemptKey { job: JobId(7), attempt: 1 };
        let mut reported = IdleReports::default();
        // The wall's clock is an hour ahead, then it is set.
        let wall = |hours: u64, now: Time| (now, now + Span::hours(hours));
        let idle = |since: Time| BTreeMap::from([(key, (node(0), since))]);
        let first = vec![(key, node(0), ago(20) + Span::hours(1))];
        assert_eq!(reported.due(idle(ago(20)), wall(1, NOW), WARN), first);
        assert!(reported.due(idle(ago(20)), wall(1, NOW + Span::secs(29)), WARN).is_empty());
        let later = NOW + Span::secs(30);
        assert_eq!(reported.due(idle(ago(20)), wall(5, later), WARN), first);
        // It worked in between: another idleness.
        let later = later + Span::mins(30);
        assert!(reported.due(BTreeMap::new(), wall(1, later), WARN).is_empty());
        let again = vec![(key, node(0), NOW + Span::hours(1))];
        assert_eq!(reported.due(idle(NOW), wall(1, later), WARN), again);
    }
}
