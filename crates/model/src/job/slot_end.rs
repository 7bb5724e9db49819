//! Words of a node's fault that are told apart later, by those who say them and by those who read
//! them in the log.

use super::SlotEnd;
use crate::units::Span;

const NO_SERVER: &str = "no server for ";
const RANKS_GONE: &str = "its ranks are gone: the node or its agent started anew";
const AGENT_ANEW: &str = "its ranks are gone: the agent of the node started anew";

const MAY_RUN: &str = "its ranks may still run: ";

impl SlotEnd {
    /// Its agent gives the attempt up without having seen that its ranks ended.
    #[must_use]
    pub fn unproven(why: &str) -> SlotEnd {
        SlotEnd::NodeFault { reason: format!("{MAY_RUN}{why}") }
    }

    /// May its ranks still run? Then nobody starts beside them who would write where they do.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        matches!(self, SlotEnd::NodeFault { reason } if reason.starts_with(MAY_RUN))
    }

    /// Why an agent stops ranks that no server was there for, for so long.
    #[must_use]
    pub fn no_server(most: Span) -> String {
        format!("{NO_SERVER}{most}")
    }

    /// The ranks are gone, and so may the machine have been.
    #[must_use]
    pub fn ranks_gone() -> SlotEnd {
        SlotEnd::NodeFault { reason: RANKS_GONE.to_owned() }
    }

    /// The ranks went with their agent, and the machine was there all the time.
    #[must_use]
    pub fn agent_anew() -> SlotEnd {
        SlotEnd::NodeFault { reason: AGENT_ANEW.to_owned() }
    }

    /// Did its agent stop it because no server was there? That is nobody's failure.
    #[must_use]
    pub fn had_no_server(&self) -> bool {
        matches!(self, SlotEnd::NodeFault { reason } if reason.starts_with(NO_SERVER))
    }

    /// Did it go with an agent that started anew on a machine that went on? That is Muster's own
    /// failure.
    #[must_use]
    pub fn is_agent_anew(&self) -> bool {
        matches!(self, SlotEnd::NodeFault { reason } if reason == AGENT_ANEW)
    }

    /// Did it go with its agent? That is explained, though by no finding.
    #[must_use]
    pub fn went_with_agent(&self) -> bool {
        let gone = matches!(self, SlotEnd::NodeFault { reason } if reason == RANKS_GONE);
        gone || self.is_agent_anew()
    }
}
