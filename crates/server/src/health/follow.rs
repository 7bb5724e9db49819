//! Follows the log: which attempts run, which nodes are gone, what was found and how long it took
//! to recover.

use super::Shared;
use crate::follower::Follower;
use muster_model::event::{Event, Record};
use muster_model::ids::{JobId, Seq};
use muster_model::names::NodeName;
use muster_model::node::Stage;
use muster_model::projection::Projection;
use muster_model::units::Time;
use muster_slo::recoveries::CountedRecoveries;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

/// Begins with what stands now.
pub(super) fn start(shared: Arc<Shared>) {
    let (brain, stop) = (shared.brain.clone(), shared.stop.clone());
    let mut following = Following {
        shared,
        service: HashMap::new(),
        jobs: BTreeSet::new(),
        recovering: BTreeSet::new(),
        counted: CountedRecoveries::default(),
    };
    let after = following.begin_anew(Seq(0));
    Follower::start("health-follow", brain, after, following, stop);
}

struct Following {
    shared: Arc<Shared>,
    /// Since when each node has been in service without interruption.
    service: HashMap<NodeName, Time>,
    /// Jobs to look at again.
    jobs: BTreeSet<JobId>,
    /// Jobs whose attempts started, made their first step, or got another verdict.
    recovering: BTreeSet<JobId>,
    /// What was counted of recoveries. Those that were over before are not counted again.
    counted: CountedRecoveries,
}

impl Projection for Following {
    fn apply(&mut self, r: &Record) {
        let Following { shared, service, jobs, recovering, counted } = self;
        match &r.event {
            Event::JobPlaced { key, .. }
            | Event::StopOrdered { key, .. }
            | Event::AttemptEnded { key, .. } => {
                jobs.insert(key.job);
            }
            Event::AttemptStarted { key, .. } => {
                jobs.insert(key.job);
                recovering.insert(key.job);
            }
            Event::AttemptProgressed { key } | Event::AttemptAttributed { key, .. } => {
                recovering.insert(key.job);
            }
            Event::JobsForgotten { jobs } => jobs.iter().for_each(|job| counted.forget(*job)),
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
        self.recovering.clear();
        let (seq, service, counted) = self.shared.brain.read(|s| {
            self.shared.attempts.rebuild(s);
            let ready = s.nodes.values().filter(|n| n.stage == Stage::Ready);
            let mut counted = CountedRecoveries::default();
            for job in s.jobs.values() {
                counted.count(job);
            }
            (s.seq, ready.map(|n| (n.name.clone(), n.stage_since)).collect(), counted)
        });
        self.service = service;
        self.counted = counted;
        seq
    }

    fn wake(&mut self, _: Time, _: bool) -> Option<Time> {
        let jobs = std::mem::take(&mut self.jobs);
        let recovering = std::mem::take(&mut self.recovering);
        if jobs.is_empty() && recovering.is_empty() {
            return None;
        }
        let Following { shared, counted, .. } = self;
        let Shared { brain, attempts, figures, .. } = &**shared;
        brain.read(|s| {
            if !jobs.is_empty() {
                attempts.refresh(s, &jobs);
            }
            for job in recovering.iter().filter_map(|id| s.jobs.get(id)) {
                for new in counted.count(job) {
                    if new.resumed {
                        figures.recovered(&new.recovery);
                    }
                    if new.worked {
                        figures.loaded(&new.recovery);
                    }
                }
            }
        });
        None
    }
}
