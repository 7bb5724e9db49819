//! Two machines with the identity of one node: its directory was copied, with key and certificate. One
//! of them is refused, or they take turns. What shows that.

use muster_model::FailureMode;
use muster_model::entity::Entity;
use muster_model::finding::{ObservedFinding, Severity};
use muster_model::names::NodeName;
use muster_model::units::{Span, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Earlier boots of a node that are stored.
const BOOTS: usize = 8;
/// It is over when nothing of it was seen for so long.
const OVER: Span = Span::hours(1);

/// An agent that connects with the identity of a node.
#[derive(Debug, Clone, Copy)]
pub struct ConnectingAgent<'a> {
    /// The boot of its machine.
    pub boot: &'a str,
    /// Where it connects from.
    pub from: IpAddr,
    /// It simulates its node: its boot is not one of a machine, and shows nothing.
    pub simulated: bool,
}

impl ConnectingAgent<'_> {
    fn describe(&self) -> String {
        format!("an agent at {} (boot {})", self.from, self.boot.escape_debug())
    }

    /// What shows another machine when this one was refused because the node is enrolled with another.
    #[must_use]
    pub fn of_other_machine(&self) -> String {
        format!("{} was refused: the node is enrolled with another machine", self.describe())
    }
}

/// What is known of other machines that have a node's identity. Bounded: some boots of it.
#[derive(Debug, Default)]
pub struct OtherMachines {
    /// The boot of the agent that was let in last.
    boot: String,
    /// Boots before it, the newest last.
    earlier: VecDeque<String>,
    /// An agent in another boot that was refused because this one is connected. Once this one sends
    /// a heartbeat again, there are two machines: one that was only restarted sends none from its boot before.
    refused: Option<String>,
}

impl OtherMachines {
    /// An agent was let in. Says why that shows another machine: none returns to an earlier boot.
    pub fn entered(&mut self, agent: &ConnectingAgent<'_>) -> Option<String> {
        self.refused = None;
        if agent.simulated || agent.boot == self.boot {
            return None;
        }
        let again = self.earlier.iter().any(|b| b == agent.boot);
        let before = std::mem::replace(&mut self.boot, agent.boot.to_owned());
        self.earlier.retain(|b| b != agent.boot);
        if !before.is_empty() {
            self.earlier.push_back(before);
        }
        while self.earlier.len() > BOOTS {
            self.earlier.pop_front();
        }
        again.then(|| {
            format!("{} was let in again, after an agent in another boot", agent.describe())
        })
    }

    /// An agent was refused because another one is connected.
    pub fn refused(&mut self, agent: &ConnectingAgent<'_>) {
        if !agent.simulated && agent.boot != self.boot {
            let who = agent.describe();
            self.refused = Some(format!("{who} was refused while another one was connected"));
        }
    }

    /// The agent that is connected sent a heartbeat: what that shows.
    pub fn heartbeat(&mut self) -> Option<String> {
        self.refused.take()
    }
}

/// The finding that another machine has the identity of a node, and what shows it.
#[must_use]
pub fn copied(node: &NodeName, evidence: String, at: Time) -> ObservedFinding {
    let (mode, entity) = (FailureMode::COPIED_IDENTITY, Entity::Node(node.clone()));
    ObservedFinding::new(mode.code(), entity, Severity::Warning, at).because(evidence)
}

/// What ends such a finding, where nothing of it was seen for long.
#[must_use]
pub fn over(open: &ObservedFinding, now: Time) -> Option<ObservedFinding> {
    let over = open.kind == FailureMode::COPIED_IDENTITY && now.since(open.last_seen) >= OVER;
    over.then(|| ObservedFinding { over: true, ..open.clone() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

    fn agent(boot: &str) -> ConnectingAgent<'_> {
        let from = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 7));
        ConnectingAgent { boot, from, simulated: false }
    }

    #[test]
    fn a_machine_that_restarts_and_connects_again_is_one_machine() {
        let mut node = OtherMachines::default();
        for boot in ["a", "a", "b", "c", "c", "d"] {
            assert_eq!(node.entered(&agent(boot)), None, "{boot}");
            assert_eq!(node.heartbeat(), None);
        }
        // Its old connection is open still, and nobody speaks there.
        node.refused(&agent("e"));
        assert_eq!(node.entered(&agent("e")), None);
        assert_eq!(node.heartbeat(), None);
        // Another agent process of the same boot: an update, say.
        node.refused(&agent("e"));
        assert_eq!(node.heartbeat(), None);
    }

    #[test]
    fn a_boot_that_returns_shows_a_second_machine_each_time() {
        let mut node = OtherMachines::default();
        assert_eq!(node.entered(&agent("a")), None);
        assert_eq!(node.entered(&agent("b")), None);
        for boot in ["a", "b", "a"] {
            let said = node.entered(&agent(boot)).expect("it returned");
            assert!(
                said.starts_with(&format!("an agent at 10.0.0.7 (boot {boot}) was let in again"))
            );
        }
    }

    #[test]
    fn a_refused_machine_shows_once_the_connected_one_still_speaks() {
        let mut node = OtherMachines::default();
        assert_eq!(node.entered(&agent("a")), None);
        node.refused(&agent("b"));
        let said = node.heartbeat().expect("both are there");
        assert!(said.contains("boot b") && said.contains("was refused"), "{said}");
        assert_eq!(node.heartbeat(), None, "until it tries again");
    }

    #[test]
    fn what_is_stored_of_a_node_is_bounded() {
        let mut node = OtherMachines::default();
        let boots: Vec<String> = (0..100).map(|n| format!("boot-{n}")).collect();
        for boot in &boots {
            assert_eq!(node.entered(&agent(boot)), None);
        }
        assert_eq!(node.earlier.len(), BOOTS);
        assert!(node.entered(&agent(&boots[95])).is_some(), "one of the newest");
        assert_eq!(node.entered(&agent(&boots[3])), None, "forgotten");
    }

    #[test]
    fn simulated_nodes_have_no_boots() {
        let mut node = OtherMachines::default();
        for boot in ["a", "b", "a"] {
            let agent = ConnectingAgent { simulated: true, ..agent(boot) };
            node.refused(&agent);
            assert_eq!((node.heartbeat(), node.entered(&agent)), (None, None));
        }
    }

    #[test]
    fn it_is_over_an_hour_after_it_was_last_seen() {
        let start = Time(1_000_000);
        let n1: NodeName = "n1".parse().unwrap();
        let open = copied(&n1, agent("b").of_other_machine(), start);
        assert_eq!(over(&open, start + Span::mins(59)), None);
        let end = over(&open, start + Span::hours(1)).expect("over");
        assert!(end.over && end.entity == open.entity && end.kind == open.kind);
        let other = ObservedFinding { kind: "node-lost".into(), ..open };
        assert_eq!(over(&other, start + Span::hours(9)), None);
    }
}
