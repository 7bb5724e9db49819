//! Tests of the network between nodes: who is tested with whom, what is slow, and whose
//! fault that is. One test goes on at a time, so that tests do not slow each other down.

mod choose;
mod pair;
mod preflight;
mod ring;
mod run;

pub use choose::{FabricTestRequest, Refused};

use crate::agents::Agents;
use crate::brain::Brain;
use muster_api::{FabricState, FabricTest, Kind};
use muster_health::fabric::path_history::FabricHistory;
use muster_model::units::Span;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Tests that are remembered; the newest count.
const KEPT: usize = 100;
/// Pairs of theirs that are remembered.
const PAIRS_KEPT: usize = 100_000;
/// Tests that may wait for their turn.
const WAITING: usize = 16;

/// Tests of the network. Clones share them.
#[derive(Clone)]
pub struct Fabric(Arc<Inner>);

struct Inner {
    brain: Brain,
    agents: Agents,
    /// Where the past of paths is kept.
    file: Option<PathBuf>,
    book: Mutex<FabricHistory>,
    tests: Mutex<BTreeMap<u64, StoredFabricTest>>,
    turn: tokio::sync::Mutex<()>,
}

struct StoredFabricTest {
    test: FabricTest,
    /// What makes a repeat of the request harmless.
    key: Option<String>,
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Fabric {
    /// With the past that a file holds. One that cannot be read is begun anew.
    #[must_use]
    pub fn open(brain: Brain, agents: Agents, file: Option<PathBuf>) -> Fabric {
        let book = file.as_deref().map(read).unwrap_or_default();
        Fabric(Arc::new(Inner {
            brain,
            agents,
            file,
            book: Mutex::new(book),
            tests: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }))
    }

    /// Begins a test, or gives back the one that was begun under this key.
    ///
    /// # Errors
    /// [`Refused`], when there is nothing to test or too many wait.
    pub fn begin(
        &self,
        wish: FabricTestRequest,
        by: &str,
        key: Option<String>,
    ) -> Result<FabricTest, Refused> {
        let inner = &self.0;
        let mut tests = lock(&inner.tests);
        if let Some(k) = tests.values().find(|k| key.is_some() && k.key == key) {
            return Ok(k.test.clone());
        }
        let waiting = tests.values().filter(|k| k.test.state == FabricState::Waiting).count();
        if waiting >= WAITING {
            return Err(Refused::Full(waiting));
        }
        // Looked at again when its turn comes; now only so that a mistake is reported at once.
        inner.brain.read(|s| choose::choose(s, &inner.agents, &wish))?;
        let id = lock(&inner.book).begin();
        let test = FabricTest {
            id: id.to_string(),
            kind: Kind::FabricTest,
            state: FabricState::Waiting,
            by: by.to_owned(),
            asked_at: inner.brain.now().into(),
            ended_at: None,
            seconds: wish.seconds,
            seed: wish.seed.unwrap_or(id),
            rounds: 0,
            pairs: Vec::new(),
            nodes: Vec::new(),
            paths: Vec::new(),
            group: wish.group,
            together: Vec::new(),
            error: None,
        };
        tests.insert(id, StoredFabricTest { test: test.clone(), key });
        let pairs = |tests: &BTreeMap<u64, StoredFabricTest>| -> usize {
            tests.values().map(|k| k.test.pairs.len()).sum()
        };
        while tests.len() > KEPT || tests.len() > 1 && pairs(&tests) > PAIRS_KEPT {
            tests.pop_first();
        }
        drop(tests);
        let (inner, seed) = (inner.clone(), test.seed);
        tokio::spawn(async move {
            let run = run::run(inner.clone(), id, wish, seed);
            if let Err(said) = crate::supervise::once("fabric-test", run).await {
                inner.failed(id, format!("the server failed in the middle of it: {said}"));
            }
        });
        Ok(test)
    }

    /// The test with this number, if it is remembered.
    #[must_use]
    pub fn get(&self, id: u64) -> Option<FabricTest> {
        lock(&self.0.tests).get(&id).map(|k| k.test.clone())
    }

    /// All that are remembered, newest first, without their pairs and nodes.
    #[must_use]
    pub fn list(&self) -> Vec<FabricTest> {
        let tests = lock(&self.0.tests);
        let short = |k: &StoredFabricTest| FabricTest {
            pairs: Vec::new(),
            nodes: Vec::new(),
            ..k.test.clone()
        };
        tests.values().rev().map(short).collect()
    }

    /// Tests all idle nodes now and then, for as long as the server leads.
    pub fn every(&self, span: Span) {
        let fabric = self.clone();
        crate::supervise::task("fabric-tests", move || fabric.clone().again_and_again(span));
    }

    async fn again_and_again(self, span: Span) {
        loop {
            tokio::select! {
                () = tokio::time::sleep(span.to_std()) => {}
                () = self.0.brain.ended() => return,
            }
            let open = |k: &StoredFabricTest| {
                !matches!(k.test.state, FabricState::Done | FabricState::Failed)
            };
            if lock(&self.0.tests).values().any(open) {
                continue;
            }
            match self.begin(FabricTestRequest::default(), "server", None) {
                Ok(test) => tracing::debug!(test = test.id, "the network is tested"),
                Err(e) => tracing::debug!(why = %e, "the network is not tested this time"),
            }
        }
    }
}

impl Inner {
    /// Nothing more comes of it.
    fn failed(&self, id: u64, why: String) {
        let at = self.brain.now();
        self.change(id, |t| {
            t.state = FabricState::Failed;
            t.error = Some(why);
            t.ended_at = Some(at.into());
        });
    }

    fn change(&self, id: u64, change: impl FnOnce(&mut FabricTest)) {
        if let Some(k) = lock(&self.tests).get_mut(&id) {
            change(&mut k.test);
        }
    }

    /// Writes the past of paths down. It is only what later tests are held to: a server that
    /// cannot write goes on.
    async fn save(&self) {
        let Some(file) = self.file.clone() else { return };
        let text = serde_json::to_vec(&*lock(&self.book));
        let write = move || -> std::io::Result<()> {
            let new = file.with_extension("new");
            std::fs::write(&new, text.map_err(std::io::Error::other)?)?;
            std::fs::rename(&new, &file)
        };
        if let Ok(Err(e)) = tokio::task::spawn_blocking(write).await {
            tracing::warn!(error = %e, "the past of the network's paths cannot be written down");
        }
    }
}

fn read(file: &Path) -> FabricHistory {
    let text = match std::fs::read(file) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => return FabricHistory::default(),
        Err(e) => {
            tracing::warn!(error = %e, "the past of the network's paths cannot be read");
            return FabricHistory::default();
        }
    };
    serde_json::from_slice(&text).unwrap_or_else(|e| {
        tracing::warn!(error = %e, "the past of the network's paths makes no sense; begun anew");
        FabricHistory::default()
    })
}
