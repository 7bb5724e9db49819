//! Gangs whose nodes are tested with each other before their ranks start: their orders are kept
//! back meanwhile. Nothing of this is in the log: a server that starts anew tests anew.

use super::Agents;
use muster_executors::native::WantedRun;
use muster_health::fabric::preflight::wanted;
use muster_model::ids::AttemptKey;
use muster_model::names::NodeName;
use muster_model::policy::FabricPolicy;
use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use tokio::sync::mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel};

/// Attempts that are remembered. One that was forgotten is asked for again, which costs nothing
/// when its nodes were tested not long ago.
const REMEMBERED: usize = 4096;

/// Attempts that were kept back.
#[derive(Debug, Default)]
pub(super) struct Preflights {
    /// Who tests. Without one nothing is kept back.
    tester: OnceLock<UnboundedSender<AttemptKey>>,
    /// Whether their tests are over.
    over: Mutex<HashMap<AttemptKey, bool>>,
}

impl Preflights {
    fn lock(&self) -> MutexGuard<'_, HashMap<AttemptKey, bool>> {
        self.over.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether an order that its node has never heard of is kept back.
    pub(super) fn keeps(&self, policy: &FabricPolicy, run: &WantedRun) -> bool {
        let Some(tester) = self.tester.get().filter(|_| wanted(policy, &run.job)) else {
            return false;
        };
        let mut all = self.lock();
        if let Some(over) = all.get(&run.key) {
            return !over;
        }
        // Nobody tests any more: nobody waits.
        if tester.send(run.key).is_err() {
            return false;
        }
        all.insert(run.key, false);
        true
    }

    fn let_go(&self, key: AttemptKey) {
        let mut all = self.lock();
        if all.len() >= REMEMBERED {
            all.retain(|_, over| !*over);
        }
        all.insert(key, true);
    }
}

impl Agents {
    /// Attempts that are kept back until their nodes were tested. None when somebody else tests.
    pub(crate) fn preflights(&self) -> Option<UnboundedReceiver<AttemptKey>> {
        let (tx, rx) = unbounded_channel();
        self.inner.preflights.tester.set(tx).ok().map(|()| rx)
    }

    /// An attempt may start.
    pub(crate) fn let_go(&self, key: AttemptKey, nodes: &[NodeName]) {
        self.inner.preflights.let_go(key);
        for node in nodes {
            if let Some(session) = self.inner.seat(node).and_then(|s| s.session()) {
                session.touch();
            }
        }
    }
}
