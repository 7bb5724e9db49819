//! What nodes reported about their hardware, folded in: faults, and tests that go on and come to an
//! end.

use crate::state::{ApplyError, State, StoredFault};
use muster_model::event::{Event, Record};
use muster_model::fault::ObservedFault;
use muster_model::names::NodeName;
use muster_model::qualification::{PastQualification, Qualified, Qualifying};
use std::sync::Arc;

/// Faults remembered of a node.
const FAULTS_KEPT: usize = 32;
/// Kinds of fault that are counted each for itself; the rest is counted as one.
const CODES_MAX: usize = 1000;
/// Tests of a node whose figures are remembered.
const FIGURES_KEPT: usize = 8;

impl State {
    pub(crate) fn apply_hardware(&mut self, r: &Record) -> Result<(), ApplyError> {
        match &r.event {
            Event::FaultSeen { node, fault } => {
                self.fault_seen(r, node, fault);
                Ok(())
            }
            Event::QualificationAsked { node, id, level, until, .. } => {
                let test = Qualifying { id: *id, level: *level, asked_at: r.at, until: *until };
                self.node(r.seq, node, |n| n.qualifying = Some(test))
            }
            Event::QualificationEnded { node, id, report, .. } => self.node(r.seq, node, |n| {
                n.qualifying = None;
                n.past_figures.push(Arc::new(PastQualification {
                    at: r.at,
                    level: report.level,
                    outcome: report.outcome,
                    figures: report.figures(),
                }));
                if n.past_figures.len() > FIGURES_KEPT {
                    n.past_figures.remove(0);
                }
                n.qualified = Some(Arc::new(Qualified {
                    id: *id,
                    ended_at: r.at,
                    report: (**report).clone(),
                }));
            }),
            Event::QualificationCancelled { node, .. } => {
                self.node(r.seq, node, |n| n.qualifying = None)
            }
            _ => Ok(()),
        }
    }

    fn fault_seen(&mut self, r: &Record, node: &NodeName, fault: &ObservedFault) {
        let mut kind = (fault.code.clone(), fault.class);
        if self.fault_counts.len() >= CODES_MAX && !self.fault_counts.contains_key(&kind) {
            kind.0 = "other".into();
        }
        let n = self.fault_counts.entry(kind).or_default();
        *n = n.saturating_add(fault.count);
        let kept = StoredFault {
            seq: r.seq,
            at: r.at,
            node: node.clone(),
            project: r.project.clone(),
            fault: fault.clone(),
        };
        self.faults.insert(r.seq, Arc::new(kept));
        let here = self.index.faults.entry(node.clone()).or_default();
        here.insert(r.seq);
        while here.len() > FAULTS_KEPT {
            if let Some(old) = here.pop_first() {
                self.faults.remove(&old);
            }
        }
    }
}
