//! Follows the log: which attempts run, which nodes are gone, what was found and how long it took
//! to recover.

use super::Shared;
use crate::follower::Follower;
use muster_model::event::{Event, Record};
use muster_model::ids::{AttemptKey, JobId, Seq};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::projection::Projection;
use muster_model::units::Time;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Begins with what stands now.
pub(super) fn start(shared: Arc<Shared>) {
    let (brain, stop) = (shared.brain.clone(), shared.stop.clone());
    let mut following =
        Following { shared, service: HashMap::new(), jobs: BTreeSet::new(), recovered: Vec::new() };
    let after = following.begin_anew(Seq(0));
    Follower::start("health-follow", brain, after, following, stop);
}

struct Following {
    shared: Arc<Shared>,
    /// Since when each node has been in service without interruption.
    service: HashMap<NodeName, Time>,
    /// Jobs to look at again.
    jobs: BTreeSet<JobId>,
    /// Attempts that started, or made their first step, and when.
    recovered: Vec<(AttemptKey, Time, bool)>,
}

impl Projection for Following {
    fn apply(&mut self, r: &Record) {
        let Following { shared, service, jobs, recovered } = self;
        match &r.event {
            Event::JobPlaced { key, .. }
            | Event::StopOrdered { key, .. }
            | Event::AttemptEnded { key, .. } => {
                jobs.insert(key.job);
            }
            Event::AttemptStarted { key, .. } => {
                jobs.insert(key.job);
                recovered.push((*key, r.at, false));
            }
            Event::AttemptProgressed { key } => recovered.push((*key, r.at, true)),
            Event::NodeLost { node, .. } | Event::NodeRetired { node } => {
                shared.attempts.gone(node);
            }
            Event::NodeReady { node, .. } => {
                shared.attempts.repaired(node);
                service.entry(node.clone()).or_insert(r.at);
            }
            Event::NodeStaged { node, stage, by_operator, .. } => match stage {
                Stage::Ready => {
                    // Returned without a test: what still lasts is found again.
                    if *by_operator {
                        shared.attempts.repaired(node);
                    }
                    service.entry(node.clone()).or_insert(r.at);
                }
                Stage::Quarantined => {
                    if let Some(since) = service.remove(node) {
                        shared.figures.between.observe(r.at.since(since).to_std());
                    }
                }
                _ => {}
            },
            Event::FindingOpened { finding, .. } => shared.figures.finding(&finding.seen.kind),
            _ => {}
        }
    }

    fn begin_anew(&mut self, _: Seq) -> Seq {
        self.jobs.clear();
        self.recovered.clear();
        let (seq, service) = self.shared.brain.read(|s| {
            self.shared.attempts.rebuild(s);
            let ready = s.nodes.values().filter(|n| n.stage == Stage::Ready);
            (s.seq, ready.map(|n| (n.name.clone(), n.stage_since)).collect())
        });
        self.service = service;
        seq
    }

    fn wake(&mut self, _: Time, _: bool) -> Option<Time> {
        let jobs = std::mem::take(&mut self.jobs);
        let recovered = std::mem::take(&mut self.recovered);
        if jobs.is_empty() && recovered.is_empty() {
            return None;
        }
        let Shared { brain, attempts, figures, .. } = &*self.shared;
        brain.read(|s| {
            if !jobs.is_empty() {
                attempts.refresh(s, &jobs);
            }
            for (key, at, working) in recovered {
                let Some(job) = s.jobs.get(&key.job) else { continue };
                // What Muster or the job itself ended is no recovery from a fault of hardware.
                let Some(rec) = job.recovery.filter(|r| r.is_from_hardware(job)) else { continue };
                // Only the attempt that the recovery ended with.
                if working && rec.working_at == Some(at) {
                    figures.loaded(&rec);
                } else if !working && rec.started_at == Some(at) {
                    figures.recovered(&rec);
                }
            }
        });
        None
    }
}
