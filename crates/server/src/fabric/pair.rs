//! The test of one pair.

use super::{Inner, choose};
use muster_link::messages::FabricMeasurement;
use muster_model::node::Node;
use muster_model::units::Span;
use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::Semaphore;

/// Pairs that are tested at once.
const AT_ONCE: usize = 128;
/// Pairs that are tested at once where both nodes have one address: they share a machine.
const ON_ONE_MACHINE: usize = 2;

/// What came of it.
pub(super) enum Outcome {
    /// Figures, or in them why nothing came through.
    Measured(FabricMeasurement),
    /// One of the two could not be tested: whether it is the first, and why.
    Away { first: bool, why: String },
}

/// How many are tested at once, and where.
pub(super) struct Lanes {
    all: Semaphore,
    machines: Mutex<HashMap<String, Arc<Semaphore>>>,
}

impl Default for Lanes {
    fn default() -> Self {
        Lanes { all: Semaphore::new(AT_ONCE), machines: Mutex::default() }
    }
}

impl Lanes {
    /// For so many at once.
    pub(super) fn wide(pairs: usize) -> Lanes {
        Lanes { all: Semaphore::new(pairs.max(AT_ONCE)), machines: Mutex::default() }
    }

    fn machine(&self, address: &str) -> Arc<Semaphore> {
        let mut all = self.machines.lock().unwrap_or_else(PoisonError::into_inner);
        let new = || Arc::new(Semaphore::new(ON_ONE_MACHINE));
        all.entry(address.to_owned()).or_insert_with(new).clone()
    }
}

/// Nobody who does not know the number gets an answer from a node that listens.
fn number() -> Result<u64, String> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes).map_err(|_| "the machine has no random numbers")?;
    Ok(u64::from_le_bytes(bytes))
}

fn address(host: &str, port: u16) -> String {
    if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
}

pub(super) async fn test(
    inner: &Inner,
    lanes: &Lanes,
    (a, b): (&Node, &Node),
    wish: &choose::FabricTestRequest,
    one_way: bool,
) -> Outcome {
    let machine = (a.address == b.address).then(|| lanes.machine(&a.address));
    let _place = match &machine {
        Some(m) => m.acquire().await.ok(),
        None => None,
    };
    // After the machine's turn: who waits for one shall not keep others from theirs.
    let _turn = lanes.all.acquire().await;
    // Work may have come since the test began.
    for (node, first) in [(a, true), (b, false)] {
        let why = inner.brain.read(|s| match s.nodes.get(&node.name) {
            Some(n) => choose::reason_untestable(s, &inner.agents, n, wish),
            None => Some("it is gone"),
        });
        if let Some(why) = why {
            return Outcome::Away { first, why: why.into() };
        }
    }
    let id = match number() {
        Ok(id) => id,
        Err(why) => return Outcome::Away { first: true, why },
    };
    let length = Span::secs(u64::from(wish.seconds));
    let listen = Span(length.0 + 60_000);
    let port = match inner.agents.fabric_listen(&a.name, id, listen).await {
        Ok(port) => port,
        Err(why) => return Outcome::Away { first: true, why },
    };
    let to = address(&a.address, port);
    match inner.agents.fabric_dial(&b.name, id, to, (wish.streams, length), one_way).await {
        Ok(figures) => Outcome::Measured(figures),
        Err(why) => Outcome::Away { first: false, why },
    }
}
