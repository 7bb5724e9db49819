//! How much automation may take out of service. What would pass a limit waits, and people are
//! notified.

use muster_model::remediation::{Limits, Share, in_nodes, taken_by};

/// A group of nodes and how much of it automation holds. What an operator approved passes the limits and
/// counts in them: automation adds nothing to it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUse {
    /// What it is called, like `fleet` or `leaf:eu/c1/s1/l2`.
    pub name: String,
    /// The share of its nodes that automation may hold out of service.
    pub share: Share,
    /// Nodes in it.
    pub nodes: u32,
    /// Of them, out of service now, by automation or because an operator approved it.
    pub out: u32,
    /// Of them, taken within the last hour.
    pub hour: u32,
    /// Of those that are out, the ones that operators approved.
    pub out_approved: u32,
    /// Of those that were taken within the last hour, the ones that operators approved.
    pub hour_approved: u32,
    /// What automation took of the other nodes by isolating GPUs, in thousandths of a node.
    pub parts: u32,
    /// The same, within the last hour.
    pub parts_hour: u32,
    /// Of them, not out, but without new work by automation.
    pub stopped: u32,
    /// Of them, so many may be out or without new work by automation at a time.
    pub stoppable: u32,
}

/// A whole node, in thousandths.
const WHOLE: u32 = 1000;

/// Why one more node of these groups may not be taken; none: it may.
#[must_use]
pub fn holds(groups: &[GroupUse]) -> Option<String> {
    holds_part(groups, WHOLE)
}

/// Why so many thousandths of a node of these groups may not be taken; none: they may.
#[must_use]
pub fn holds_part(groups: &[GroupUse], part: u32) -> Option<String> {
    let milli = |nodes: u32, parts: u32| u64::from(nodes) * u64::from(WHOLE) + u64::from(parts);
    groups.iter().find_map(|g| {
        let (total, hour) = g.share.of(g.nodes);
        let (most, most_hour) = g.share.milli_of(g.nodes);
        if milli(g.out, g.parts) + u64::from(part) > most {
            let out = format!("{} of {} nodes", in_nodes(g.out, g.parts), g.nodes);
            let rest = match taken_by(g.out, g.parts, g.out_approved) {
                None => format!("are out by automation, {total} may be"),
                Some(who) => format!("are out ({who}), automation takes at most {total}"),
            };
            Some(format!("limit of {}: {out} {rest}", g.name))
        } else if milli(g.hour, g.parts_hour) + u64::from(part) > most_hour {
            let taken = format!("{} of {} nodes", in_nodes(g.hour, g.parts_hour), g.nodes);
            let rest = match taken_by(g.hour, g.parts_hour, g.hour_approved) {
                None => format!("{hour} may be"),
                Some(who) => format!("{who}; automation takes at most {hour}"),
            };
            Some(format!(
                "limit of {}: {taken} were taken out of service within an hour, {rest}",
                g.name
            ))
        } else {
            None
        }
    })
}

/// Nodes of a group of `n` that automation may keep from new work at a time, those it took
/// included: as many as make a storm, at most half of the group, and never fewer than it may take.
#[must_use]
pub fn stoppable(limits: &Limits, share: Share, n: u32) -> u32 {
    let storm = u64::from(n) * u64::from(limits.storm_percent) / 100;
    let storm = u32::try_from(storm).unwrap_or(u32::MAX).max(limits.storm_nodes);
    storm.min(n / 2).max(share.of(n).0)
}

/// Why new work may not be kept from one more node of these groups; none: it may. No hourly limit
/// and no error budget is asked: that alone takes nothing from anybody who runs.
#[must_use]
pub fn stop_holds(groups: &[GroupUse]) -> Option<String> {
    groups.iter().find_map(|g| {
        let without = g.out.saturating_add(g.stopped);
        (without >= g.stoppable).then(|| {
            let (name, nodes, most) = (&g.name, g.nodes, g.stoppable);
            match taken_by(without, 0, g.out_approved) {
                None => format!(
                    "limit of {name}: {without} of {nodes} nodes cordoned by automation, {most} may be"
                ),
                Some(who) => format!(
                    "limit of {name}: {without} of {nodes} nodes get no new work ({who}), {most} may be"
                ),
            }
        })
    })
}

/// Do so many nodes with new findings, out of a fleet, mean that the detectors or the whole site
/// are at fault rather than the nodes?
#[must_use]
pub fn storm(limits: &Limits, asking: u32, fleet: u32) -> bool {
    let share = u64::from(fleet) * u64::from(limits.storm_percent) / 100;
    limits.storm_percent > 0 && asking >= limits.storm_nodes && u64::from(asking) >= share.max(1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn group(nodes: u32, out: u32, hour: u32) -> GroupUse {
        let limits = Limits::default();
        let share = limits.fleet;
        GroupUse {
            name: "fleet".into(),
            share,
            nodes,
            out,
            hour,
            out_approved: 0,
            hour_approved: 0,
            parts: 0,
            parts_hour: 0,
            stopped: 0,
            stoppable: stoppable(&limits, share, nodes),
        }
    }

    #[test]
    fn what_operators_approved_counts_and_is_not_called_automations() {
        let why = holds(&[GroupUse { out_approved: 3, ..group(17, 5, 0) }]).unwrap();
        assert_eq!(
            why,
            "limit of fleet: 5 of 17 nodes are out (3 approved by operators, 2 by automation), \
             automation takes at most 3"
        );
        let why = holds(&[GroupUse { hour_approved: 3, ..group(17, 0, 5) }]).unwrap();
        assert_eq!(
            why,
            "limit of fleet: 5 of 17 nodes were taken out of service within an hour, \
             3 approved by operators, 2 by automation; automation takes at most 2"
        );
        let why = stop_holds(&[GroupUse { out_approved: 3, ..group(17, 5, 0) }]).unwrap();
        assert_eq!(
            why,
            "limit of fleet: 5 of 17 nodes get no new work (3 approved by operators, \
             2 by automation), 5 may be"
        );
    }

    #[test]
    fn new_work_is_kept_from_as_many_as_make_a_storm() {
        let most = |n| group(n, 0, 0).stoppable;
        assert_eq!([most(1000), most(64), most(17), most(8)], [250, 16, 5, 4]);
        assert_eq!([most(4), most(3), most(2), most(1)], [2, 2, 1, 0], "as many as are taken");
        let off = Limits { storm_percent: 0, ..Limits::default() };
        assert_eq!(stoppable(&off, off.fleet, 100), 20, "no storm is looked for");
        let g = |out, stopped| GroupUse { stopped, ..group(17, out, 9) };
        assert_eq!(stop_holds(&[g(2, 2)]), None, "however many were taken within the hour");
        let why = stop_holds(&[g(2, 3)]).unwrap();
        assert_eq!(why, "limit of fleet: 5 of 17 nodes cordoned by automation, 5 may be");
    }

    #[test]
    fn a_tenth_an_hour_and_a_fifth_in_all() {
        assert_eq!(holds(&[group(100, 9, 9)]), None);
        assert!(holds(&[group(100, 10, 10)]).unwrap().contains("within an hour"));
        assert!(holds(&[group(100, 20, 0)]).unwrap().contains("20 of 100"));
        assert_eq!(holds(&[group(16, 1, 1)]), None, "two are always allowed");
        assert!(holds(&[group(16, 3, 2)]).is_some());
        assert!(holds(&[group(1, 0, 0)]).is_some(), "never the only one");
        assert!(holds(&[group(2, 1, 1)]).is_some(), "never the last one");
        assert_eq!(holds(&[]), None);
    }

    #[test]
    fn isolated_gpus_count_as_their_part_of_a_node() {
        let with = |out, parts| GroupUse { parts, parts_hour: parts, ..group(16, out, out) };
        assert_eq!(holds_part(&[with(0, 1875)], 125), None);
        let why = holds_part(&[with(0, 2000)], 125).unwrap();
        assert!(why.contains("2 of 16 nodes were taken out of service within an hour"), "{why}");
        assert!(holds(&[with(1, 1000)]).is_some(), "parts of nodes add up");
        let why = holds(&[GroupUse { hour: 0, parts_hour: 0, ..with(2, 250) }]).unwrap();
        assert_eq!(why, "limit of fleet: 2.250 of 16 nodes are out by automation, 3 may be");
        // Of the only node a GPU may be taken, never all of them.
        let alone = |parts| GroupUse { parts, ..group(1, 0, 0) };
        assert_eq!(holds_part(&[alone(0)], 125), None);
        assert!(holds_part(&[alone(875)], 125).is_some());
    }

    #[test]
    fn a_storm_is_many_nodes_at_once() {
        let l = Limits::default();
        assert!(!storm(&l, 4, 8), "too few to judge");
        assert!(storm(&l, 5, 16));
        assert!(!storm(&l, 100, 1000));
        assert!(storm(&l, 250, 1000));
        assert!(!storm(&Limits { storm_percent: 0, ..l }, 1000, 1000), "switched off");
    }

    proptest! {
        #[test]
        fn however_they_come_no_more_are_taken_than_the_limit(
            nodes in 1u32..3000, total in 0u32..=100, per_hour in 0u32..=100, at_least in 0u32..4,
        ) {
            let share = Share { total, per_hour, at_least };
            let mut g = GroupUse { share, stoppable: u32::MAX, ..group(nodes, 0, 0) };
            for n in 0..nodes {
                if holds(std::slice::from_ref(&g)).is_none() {
                    g.out += 1;
                    g.hour += 1;
                }
                // Every so often an hour passes.
                if n % 7 == 0 {
                    g.hour = 0;
                }
            }
            prop_assert!(g.out < nodes, "one is left");
            prop_assert!(g.out <= (nodes * total / 100).max(at_least));
        }
    }
}
