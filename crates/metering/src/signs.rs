//! The first sign of what hits attempts: from there on the way back is counted, as in the job's own
//! recovery, and not from the order to stop that follows when it is noticed.

use muster_model::event::{Event, Record};
use muster_model::job::{SlotEnd, StopReason, Verdict};
use muster_model::names::NodeName;
use muster_model::units::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Findings that are remembered.
const KEPT: usize = 4096;

/// When nodes that are lost were last heard, when ranks ended of which their nodes knew nothing, and
/// when findings were first seen.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FailureSigns {
    lost: BTreeMap<NodeName, Time>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    gone: BTreeMap<NodeName, Time>,
    found: BTreeMap<u64, Time>,
}

impl FailureSigns {
    /// Folds one record in.
    pub(crate) fn apply(&mut self, r: &Record) {
        match &r.event {
            Event::NodeLost { node, last_seen } => {
                self.lost.insert(node.clone(), *last_seen);
            }
            Event::NodeBack { node, .. } | Event::NodeRetired { node } => {
                self.lost.remove(node);
                self.gone.remove(node);
            }
            // The order to stop follows at once.
            Event::SlotEnded { node, end: SlotEnd::NodeFault { .. }, ended_at, .. } => {
                match ended_at {
                    Some(t) => self.gone.insert(node.clone(), *t),
                    None => self.gone.remove(node),
                };
            }
            // Another way to go: what was noted of ranks there before is not its sign.
            Event::SlotLost { node, .. } => {
                self.gone.remove(node);
            }
            Event::FindingOpened { finding, .. } => {
                self.found.insert(finding.id, finding.seen.first_seen.min(finding.opened_at));
                if self.found.len() > KEPT {
                    self.found.pop_first();
                }
            }
            _ => {}
        }
    }

    /// The first sign of what an attempt is stopped for, where there was one before. That of ranks
    /// of which their node knew nothing is used once: it is of this attempt alone.
    pub(crate) fn behind(&mut self, reason: &StopReason) -> Option<Time> {
        match reason {
            StopReason::NodeLost { node } => self.lost.get(node).copied(),
            StopReason::SlotFailed { node, end: SlotEnd::NodeFault { .. } } => {
                self.gone.remove(node)
            }
            StopReason::Unhealthy { finding, .. } | StopReason::Hung { finding } => {
                self.found.get(finding).copied()
            }
            _ => None,
        }
    }

    /// The same of what its end is attributed to: the first of these findings is the cause.
    pub(crate) fn explained(&self, verdict: Verdict, findings: &[u64]) -> Option<Time> {
        let cause = findings.first().filter(|_| verdict.exonerates_job())?;
        self.found.get(cause).copied()
    }
}
