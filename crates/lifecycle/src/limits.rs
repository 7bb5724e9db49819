//! How much automation may take out of service. What would pass a limit waits, and people are
//! told.

use muster_model::remedy::{Limits, Share};

/// A group of nodes and how much of it automation holds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupUse {
    /// What it is called, like `fleet` or `leaf:eu/c1/s1/l2`.
    pub name: String,
    /// The share of its nodes that automation may hold out of service.
    pub share: Share,
    /// Nodes in it.
    pub nodes: u32,
    /// Of them, out of service by automation now.
    pub out: u32,
    /// Of them, taken within the last hour.
    pub hour: u32,
}

/// Why one more node of these groups may not be taken; none: it may.
#[must_use]
pub fn holds(groups: &[GroupUse]) -> Option<String> {
    groups.iter().find_map(|g| {
        let (total, hour) = g.share.of(g.nodes);
        if g.out >= total {
            Some(format!(
                "limit of {}: {} of {} nodes are out by automation, {total} may be",
                g.name, g.out, g.nodes
            ))
        } else if g.hour >= hour {
            Some(format!(
                "limit of {}: {} of {} nodes were taken within an hour, {hour} may be",
                g.name, g.hour, g.nodes
            ))
        } else {
            None
        }
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
        GroupUse { name: "fleet".into(), share: Limits::default().fleet, nodes, out, hour }
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
    fn a_storm_is_many_nodes_at_once() {
        let l = Limits::default();
        assert!(!storm(&l, 4, 8), "too few to tell");
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
            let mut g = GroupUse { name: "g".into(), share, nodes, out: 0, hour: 0 };
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
