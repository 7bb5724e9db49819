//! How a slot ended, and which fault of its node it was where that decides what is done next.

use super::Exit;
use crate::units::Span;
use serde::{Deserialize, Serialize};

/// How a slot (a gang's share of one node) ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(tag = "how", rename_all = "snake_case", from = "StoredSlotEnd")]
pub enum SlotEnd {
    /// Every rank exited with code 0.
    Ok,
    /// A rank failed by itself; the first one is reported.
    Failed {
        /// The first rank that failed.
        exit: Exit,
    },
    /// The ranks could not be started; attributed to the job (no such program, for example).
    Unstartable {
        /// What was missing or wrong, for people.
        reason: String,
    },
    /// The node could not do it; not attributed to the job.
    NodeFault {
        /// What the node could not do, for people.
        reason: String,
        /// Which fault it was.
        kind: NodeFaultKind,
    },
    /// Stopped because it was asked to.
    Stopped,
}

/// Which fault of a node ended a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum NodeFaultKind {
    /// Its agent stopped it because no server was there. That is nobody's failure.
    NoServer,
    /// Its ranks are gone, and so may the machine have been.
    RanksGone,
    /// Its ranks went with their agent, and the machine was there all the time.
    AgentRestarted,
    /// Its agent gave it up without having seen that its ranks ended.
    MayStillRun,
    /// It was gone when the log was restored from a backup in which it ran.
    Restored,
    /// Any other: the reason says which.
    #[serde(other)]
    Other,
}

impl SlotEnd {
    /// The node could not do it, for a reason that changes nothing of what is done next.
    #[must_use]
    pub fn fault(reason: impl Into<String>) -> SlotEnd {
        SlotEnd::NodeFault { reason: reason.into(), kind: NodeFaultKind::Other }
    }

    /// Its agent gives the attempt up without having seen that its ranks ended.
    #[must_use]
    pub fn unproven(why: &str) -> SlotEnd {
        let reason = format!("{MAY_RUN}{why}");
        SlotEnd::NodeFault { reason, kind: NodeFaultKind::MayStillRun }
    }

    /// Its agent stopped the ranks: no server was there for them, for so long.
    #[must_use]
    pub fn no_server(most: Span) -> SlotEnd {
        let reason = format!("{NO_SERVER}{most}");
        SlotEnd::NodeFault { reason, kind: NodeFaultKind::NoServer }
    }

    /// The ranks are gone, and so may the machine have been.
    #[must_use]
    pub fn ranks_gone() -> SlotEnd {
        SlotEnd::NodeFault { reason: RANKS_GONE.to_owned(), kind: NodeFaultKind::RanksGone }
    }

    /// The ranks went with their agent, and the machine was there all the time.
    #[must_use]
    pub fn agent_anew() -> SlotEnd {
        SlotEnd::NodeFault { reason: AGENT_ANEW.to_owned(), kind: NodeFaultKind::AgentRestarted }
    }

    /// The log says that it runs, and it was restored from a backup: it has ended since then.
    #[must_use]
    pub fn restored() -> SlotEnd {
        SlotEnd::NodeFault { reason: RESTORED.to_owned(), kind: NodeFaultKind::Restored }
    }

    /// A fault as older logs and agents report it, by its reason alone: this is the one place that
    /// reads what it says.
    #[must_use]
    pub fn reported_fault(reason: String) -> SlotEnd {
        let kind = match reason.as_str() {
            RANKS_GONE => NodeFaultKind::RanksGone,
            AGENT_ANEW => NodeFaultKind::AgentRestarted,
            RESTORED => NodeFaultKind::Restored,
            r if r.starts_with(NO_SERVER) => NodeFaultKind::NoServer,
            r if r.starts_with(MAY_RUN) => NodeFaultKind::MayStillRun,
            _ => NodeFaultKind::Other,
        };
        SlotEnd::NodeFault { reason, kind }
    }

    /// May its ranks still run? Then nobody starts beside them who would write where they do.
    #[must_use]
    pub fn is_unproven(&self) -> bool {
        self.fault_kind() == Some(NodeFaultKind::MayStillRun)
    }

    /// Did its agent stop it because no server was there? That is nobody's failure.
    #[must_use]
    pub fn had_no_server(&self) -> bool {
        self.fault_kind() == Some(NodeFaultKind::NoServer)
    }

    /// Did it go with an agent that started anew on a machine that went on? That is Muster's own
    /// failure.
    #[must_use]
    pub fn is_agent_anew(&self) -> bool {
        self.fault_kind() == Some(NodeFaultKind::AgentRestarted)
    }

    /// Was it gone when the log was restored? That is nobody's failure but Muster's own.
    #[must_use]
    pub fn was_restored(&self) -> bool {
        self.fault_kind() == Some(NodeFaultKind::Restored)
    }

    /// Did Muster end it: no server, an agent that started anew, or a restored backup? Then neither
    /// the job nor hardware failed, as far as the end itself says.
    #[must_use]
    pub fn is_by_platform(&self) -> bool {
        self.had_no_server() || self.is_agent_anew() || self.was_restored()
    }

    /// Did it go with its agent? That is explained, though by no finding.
    #[must_use]
    pub fn ended_with_agent(&self) -> bool {
        self.fault_kind() == Some(NodeFaultKind::RanksGone) || self.is_agent_anew()
    }

    fn fault_kind(&self) -> Option<NodeFaultKind> {
        match self {
            SlotEnd::NodeFault { kind, .. } => Some(*kind),
            _ => None,
        }
    }
}

// By these texts older logs and agents distinguish faults. New ones have them for people only.
const NO_SERVER: &str = "no server for ";
const RANKS_GONE: &str = "its ranks are gone: the node or its agent started anew";
const AGENT_ANEW: &str = "its ranks are gone: the agent of the node started anew";
const RESTORED: &str = "the log was restored from a backup; its ranks are gone";
const MAY_RUN: &str = "its ranks may still run: ";

/// How logs, snapshots and agents have it: older ones without the kind of a fault.
#[derive(Deserialize)]
#[serde(tag = "how", rename_all = "snake_case")]
enum StoredSlotEnd {
    Ok,
    Failed {
        exit: Exit,
    },
    Unstartable {
        reason: String,
    },
    NodeFault {
        reason: String,
        #[serde(default)]
        kind: Option<NodeFaultKind>,
    },
    Stopped,
}

impl From<StoredSlotEnd> for SlotEnd {
    fn from(w: StoredSlotEnd) -> SlotEnd {
        match w {
            StoredSlotEnd::Ok => SlotEnd::Ok,
            StoredSlotEnd::Failed { exit } => SlotEnd::Failed { exit },
            StoredSlotEnd::Unstartable { reason } => SlotEnd::Unstartable { reason },
            StoredSlotEnd::NodeFault { reason, kind: Some(kind) } => {
                SlotEnd::NodeFault { reason, kind }
            }
            StoredSlotEnd::NodeFault { reason, kind: None } => SlotEnd::reported_fault(reason),
            StoredSlotEnd::Stopped => SlotEnd::Stopped,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all() -> Vec<SlotEnd> {
        let exit = Exit { rank: 3, code: Some(1), signal: None, note: String::new() };
        vec![
            SlotEnd::Ok,
            SlotEnd::Failed { exit },
            SlotEnd::Unstartable { reason: "no such program".into() },
            SlotEnd::fault("no cgroup"),
            SlotEnd::no_server(Span::mins(5)),
            SlotEnd::ranks_gone(),
            SlotEnd::agent_anew(),
            SlotEnd::restored(),
            SlotEnd::unproven("the agent's directory is a copy"),
            SlotEnd::Stopped,
        ]
    }

    #[test]
    fn an_end_is_read_as_it_was_written() {
        for end in all() {
            let text = serde_json::to_string(&end).unwrap();
            assert_eq!(serde_json::from_str::<SlotEnd>(&text).unwrap(), end, "{text}");
        }
    }

    #[test]
    fn older_logs_and_agents_have_no_kind_and_mean_the_same() {
        for end in all() {
            let mut old = serde_json::to_value(&end).unwrap();
            old.as_object_mut().unwrap().remove("kind");
            assert_eq!(serde_json::from_value::<SlotEnd>(old).unwrap(), end);
        }
    }

    #[test]
    fn a_kind_decides_and_its_reason_does_not() {
        let text = r#"{"how":"node_fault","reason":"no server for 5m","kind":"other"}"#;
        let end: SlotEnd = serde_json::from_str(text).unwrap();
        assert_eq!(end, SlotEnd::fault("no server for 5m"));
        assert!(!end.had_no_server());
    }

    #[test]
    fn what_muster_ended_is_no_failure_of_hardware() {
        let own = [SlotEnd::no_server(Span::mins(5)), SlotEnd::agent_anew(), SlotEnd::restored()];
        for end in all() {
            assert_eq!(end.is_by_platform(), own.contains(&end), "{end:?}");
        }
    }

    #[test]
    fn a_kind_of_a_newer_agent_is_some_other_fault() {
        let text = r#"{"how":"node_fault","reason":"out of paper","kind":"paper"}"#;
        let end: SlotEnd = serde_json::from_str(text).unwrap();
        assert_eq!(end, SlotEnd::fault("out of paper"));
    }
}
