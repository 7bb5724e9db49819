//! Tests of a large gang's nodes before its ranks start.

use super::choose::Wish;
use super::{Fabric, lock};
use crate::supervise;
use muster_api::{FabricStanding, FabricState};
use muster_engine::State;
use muster_health::fabric::preflight::pick;
use muster_model::ids::AttemptKey;
use muster_model::job::Attempt;
use muster_model::names::NodeName;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Mutex;

/// How often is looked whether a test is over.
const LOOK: Duration = Duration::from_millis(100);
/// How long a gang with a slow node waits to be moved, after its test.
const MOVED: Duration = Duration::from_secs(5);

impl Fabric {
    /// Tests the nodes of large gangs before their ranks start, for as long as the server leads.
    pub fn guard(&self) {
        let Some(asked) = self.0.agents.preflights() else { return };
        let (fabric, asked) = (self.clone(), Arc::new(Mutex::new(asked)));
        supervise::task("fabric-preflight", move || {
            let (fabric, asked) = (fabric.clone(), asked.clone());
            async move {
                let mut asked = asked.lock().await;
                let mut over = fabric.0.brain.over();
                loop {
                    let key = tokio::select! {
                        key = asked.recv() => key,
                        _ = over.wait_for(|o| *o) => None,
                    };
                    let Some(key) = key else { return };
                    tokio::spawn(fabric.clone().preflight(key));
                }
            }
        });
    }

    async fn preflight(self, key: AttemptKey) {
        let inner = &self.0;
        let (nodes, within) = inner.brain.read(|s| {
            let nodes = attempt(s, key).map(nodes).unwrap_or_default();
            (nodes, s.policy.fabric.within.to_std())
        });
        if tokio::time::timeout(within, self.fly(key, &nodes)).await.is_err() {
            tracing::info!(attempt = %key, "the test of its network is not over; it starts");
        }
        inner.agents.let_go(key, &nodes);
    }

    async fn fly(&self, key: AttemptKey, nodes: &[NodeName]) {
        let inner = &self.0;
        let (now, max_age) = (inner.brain.now(), inner.brain.read(|s| s.policy.fabric.max_age));
        let tested = {
            let book = lock(&inner.book);
            let fresh =
                |n: &&NodeName| book.good_at(n.as_str()).is_some_and(|at| now.since(at) < max_age);
            pick(nodes, fresh)
        };
        if tested.is_empty() {
            return;
        }
        let wish = Wish { nodes: tested, own: Some(key), ..Wish::default() };
        let by = format!("start of job {}", key.job);
        let id = match self.begin(wish, &by, None) {
            Ok(test) => test.id,
            Err(e) => {
                tracing::info!(attempt = %key, why = %e, "its network is not tested before it starts");
                return;
            }
        };
        let Ok(id) = id.parse() else { return };
        let slow = loop {
            tokio::time::sleep(LOOK).await;
            match self.get(id) {
                Some(t) if !matches!(t.state, FabricState::Done | FabricState::Failed) => {}
                Some(t) => break t.nodes.iter().any(|n| n.standing == FabricStanding::Slow),
                None => return,
            }
        };
        if !slow {
            return;
        }
        // What follows from the finding is in the log: it leaves that node, if the site lets it.
        let leaves = async {
            while inner.brain.read(|s| attempt(s, key).is_some_and(|a| a.stop.is_none())) {
                tokio::time::sleep(LOOK).await;
            }
        };
        let _ = tokio::time::timeout(MOVED, leaves).await;
    }
}

fn attempt(s: &State, key: AttemptKey) -> Option<&Attempt> {
    let job = s.jobs.get(&key.job).filter(|j| j.attempt_key() == Some(key))?;
    job.attempt.as_ref()
}

fn nodes(a: &Attempt) -> Vec<NodeName> {
    let all: BTreeSet<&NodeName> = a.placement.slots.iter().map(|s| &s.node).collect();
    all.into_iter().cloned().collect()
}
