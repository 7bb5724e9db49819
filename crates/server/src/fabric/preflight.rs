//! Tests of a large gang's nodes before its ranks start. Which gangs wait for one stands in the
//! log: a server that takes the lead goes on with those it finds there.

use super::choose::FabricTestRequest;
use super::{Fabric, lock};
use crate::supervise;
use muster_api::{FabricNodeHealth, FabricState, FabricTest};
use muster_engine::State;
use muster_executors::effect::{self, Effect, Outcome};
use muster_health::fabric::preflight::pick;
use muster_model::command::Command;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::preflight::PreflightReport;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// How often is looked whether a test is over.
const LOOK: Duration = Duration::from_millis(100);

impl Fabric {
    /// Tests the nodes of large gangs before their ranks start, for as long as the server leads.
    pub fn guard(&self) {
        let fabric = self.clone();
        supervise::task("fabric-preflight", move || fabric.clone().follow_preflights());
    }

    async fn follow_preflights(self) {
        let (brain, leads) = (self.0.brain.clone(), self.0.brain.clone());
        // Also when it is stopped: what goes on after that would hold everything that the server had.
        let stop = async move { leads.ended().await };
        effect::run(Arc::new(Preflights(self)), brain, stop).await;
    }

    /// What came of it; none when nobody waits for it any more.
    async fn measure(&self, key: AttemptKey) -> Option<PreflightReport> {
        let inner = &self.0;
        let gang = inner.brain.read(|s| nodes(s, key))?;
        // After a restart its nodes connect anew, one by one.
        while gang.iter().any(|n| inner.agents.session(n).is_none()) {
            tokio::time::sleep(LOOK).await;
            inner.brain.read(|s| nodes(s, key))?;
        }
        let (now, max_age) = (inner.brain.now(), inner.brain.read(|s| s.policy.fabric.max_age));
        let tested = {
            let book = lock(&inner.book);
            let fresh =
                |n: &&NodeName| book.good_at(n.as_str()).is_some_and(|at| now.since(at) < max_age);
            pick(&gang, fresh)
        };
        if tested.is_empty() {
            return Some(PreflightReport::Passed);
        }
        let wish =
            FabricTestRequest { nodes: tested, own: Some(key), ..FabricTestRequest::default() };
        let by = format!("start of job {}", key.job);
        let id = match self.begin(wish, &by, None) {
            Ok(test) => test.id.parse::<u64>().ok()?,
            Err(e) => return Some(PreflightReport::NotMeasured { reason: e.to_string() }),
        };
        loop {
            tokio::time::sleep(LOOK).await;
            inner.brain.read(|s| nodes(s, key))?;
            match self.get(id) {
                Some(t) if !matches!(t.state, FabricState::Done | FabricState::Failed) => {}
                Some(t) => return Some(make_report(t)),
                None => {
                    let reason = "the test was dropped for newer ones".into();
                    return Some(PreflightReport::NotMeasured { reason });
                }
            }
        }
    }
}

/// Tests that the log wants done before attempts start. What follows from the result, or from its time
/// being up, is the engine's to decide.
struct Preflights(Fabric);

impl Effect for Preflights {
    type Key = AttemptKey;
    type Task = ();
    type End = PreflightReport;

    fn intended(&self) -> (Vec<(AttemptKey, ())>, Option<Duration>) {
        (self.0.0.brain.read(|s| s.preflights().map(|key| (key, ())).collect()), None)
    }

    fn is_wanted(&self, key: &AttemptKey) -> bool {
        self.0.0.brain.read(|s| nodes(s, *key)).is_some()
    }

    async fn execute(&self, key: &AttemptKey, (): ()) -> Outcome<PreflightReport> {
        self.0.measure(*key).await.map_or(Outcome::Later, Outcome::Over)
    }

    fn report(&self, key: &AttemptKey, report: PreflightReport) -> Option<Command> {
        if let PreflightReport::NotMeasured { reason } = &report {
            tracing::info!(attempt = %key, why = %reason, "its network is not tested before it starts");
        }
        Some(Command::PreflightDone { key: *key, report })
    }
}

fn make_report(t: FabricTest) -> PreflightReport {
    if let Some(reason) = t.error {
        return PreflightReport::NotMeasured { reason };
    }
    let slow = t.nodes.iter().filter(|n| n.health == FabricNodeHealth::Slow);
    let nodes: Vec<NodeName> = slow.filter_map(|n| n.name.parse().ok()).collect();
    if nodes.is_empty() { PreflightReport::Passed } else { PreflightReport::Slow { nodes } }
}

/// The nodes of an attempt that waits for their test.
fn nodes(s: &State, key: AttemptKey) -> Option<Vec<NodeName>> {
    let job = s.jobs.get(&key.job).filter(|j| j.attempt_key() == Some(key))?;
    let attempt = job.attempt.as_ref().filter(|a| a.in_preflight().is_some())?;
    let all: BTreeSet<NodeName> = attempt.placement.slots.iter().map(|s| s.node.clone()).collect();
    Some(all.into_iter().collect())
}
