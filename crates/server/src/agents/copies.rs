//! Two machines with the identity of one node: its directory was copied, with key and certificate. One
//! of them is refused, or they take turns. What shows that.

use super::pace::Pace;
use muster_link::messages::Hello;
use muster_model::units::{Span, Time};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Earlier boots of a node that are stored.
const BOOTS: usize = 8;
/// What goes on is reported so often for one node.
const EVERY: Span = Span::mins(1);

/// What is known of other machines that have a node's identity.
#[derive(Debug, Default)]
pub(super) struct OtherMachines {
    /// The boot of the agent that was let in last.
    boot: String,
    /// Boots before it, the newest last.
    earlier: VecDeque<String>,
    /// An agent in another boot that was refused because this one is connected. Once this one sends
    /// a heartbeat again, there are two machines: one that was only restarted sends none from its boot before.
    refused: Option<String>,
    pace: Pace,
}

impl OtherMachines {
    /// An agent was let in. Says why that shows another machine: none returns to an earlier boot.
    pub(super) fn entered(&mut self, hello: &Hello, from: IpAddr) -> Option<String> {
        self.refused = None;
        if hello.inventory.simulated || hello.boot == self.boot {
            return None;
        }
        let again = self.earlier.contains(&hello.boot);
        let before = std::mem::replace(&mut self.boot, hello.boot.clone());
        self.earlier.retain(|b| *b != hello.boot);
        if !before.is_empty() {
            self.earlier.push_back(before);
        }
        while self.earlier.len() > BOOTS {
            self.earlier.pop_front();
        }
        again.then(|| {
            format!("{} was let in again, after an agent in another boot", describe(hello, from))
        })
    }

    /// An agent was refused because another one is connected.
    pub(super) fn refused(&mut self, hello: &Hello, from: IpAddr) {
        if !hello.inventory.simulated && hello.boot != self.boot {
            let who = describe(hello, from);
            self.refused = Some(format!("{who} was refused while another one was connected"));
        }
    }

    /// The agent that is connected sent a heartbeat: what that shows.
    pub(super) fn heartbeat(&mut self) -> Option<String> {
        self.refused.take()
    }

    /// Whether it may be written down now.
    pub(super) fn may_report(&mut self, now: Time) -> bool {
        self.pace.wait(now, EVERY, 1).is_none()
    }
}

/// What is noted of an agent that is of another machine than the node is enrolled with.
pub(super) fn other_machine(hello: &Hello, from: IpAddr) -> String {
    format!("{} was refused: the node is enrolled with another machine", describe(hello, from))
}

fn describe(hello: &Hello, from: IpAddr) -> String {
    format!("an agent at {from} (boot {})", hello.boot.escape_debug())
}
