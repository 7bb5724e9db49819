//! The live picture of the fleet that all open consoles share.
//!
//! Once a second, and only while somebody watches, one task looks at every node, compares with
//! the second before and writes what changed into one frame. Every console gets the same bytes;
//! those of one project get a copy in which the others' work has no name. A reader that falls
//! behind gets a whole picture again.

mod fleet_map;
mod frame;
mod gather;
mod hints;
mod layout;
mod order;
mod past;
mod past_metrics;
mod snapshot;

use crate::agents::Agents;
use crate::brain::Brain;
use crate::follower::{Cursor, PastLog};
use crate::supervise;
use bytes::Bytes;
use fleet_map::FleetMap;
use muster_engine::State;
use muster_model::names::ProjectName;
use muster_model::{Seq, Time};
pub use past::PastError;
use past::PastSite;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, broadcast};

/// Time between two frames.
const EVERY: Duration = Duration::from_secs(1);
/// Frames a reader may be behind before it gets a whole picture.
const BEHIND: usize = 8;

/// Who a snapshot is for: everybody, with the whole site, or one project.
type Viewer = Option<ProjectName>;

/// A handle on the picture. Cheap to clone.
#[derive(Clone)]
pub struct Console {
    inner: Arc<Inner>,
}

impl std::fmt::Debug for Console {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console").finish_non_exhaustive()
    }
}

struct Inner {
    brain: Brain,
    agents: Agents,
    hub: Mutex<Hub>,
    past: Mutex<PastSite>,
}

#[derive(Default)]
struct Hub {
    running: bool,
    map: Option<FleetMap>,
    /// The log up to which hints were given.
    hinted: Seq,
    channels: BTreeMap<Viewer, AudienceChannel>,
}

/// Readers that may see the same.
struct AudienceChannel {
    frames: broadcast::Sender<Bytes>,
    /// The whole picture of one tick, for those who come in that tick.
    whole: Option<(u64, Bytes)>,
}

/// What a new reader gets.
pub struct ConsoleSubscription {
    /// To be sent first: names, then the whole picture.
    pub first: Bytes,
    /// Every frame after that.
    pub frames: broadcast::Receiver<Bytes>,
}

/// The picture could not be made; the server's log says why.
#[derive(Debug, Clone, Copy, thiserror::Error)]
#[error("the snapshot of the fleet cannot be made now")]
pub struct NoSnapshot;

impl Console {
    /// Nothing is done before somebody watches.
    #[must_use]
    pub fn new(brain: Brain, agents: Agents) -> Console {
        Console {
            inner: Arc::new(Inner { brain, agents, hub: Mutex::default(), past: Mutex::default() }),
        }
    }

    /// Which index of a frame is which GPU, and the same as JSON.
    pub async fn layout(&self) -> Result<(u64, Bytes), NoSnapshot> {
        let mut hub = self.inner.hub.lock().await;
        self.inner.refresh(&mut hub).await?;
        let map = hub.map.as_ref().ok_or(NoSnapshot)?;
        Ok((map.layout.version, map.layout.json.clone()))
    }

    /// The whole picture of a moment that has passed, with its layout and names.
    pub async fn at(&self, time: Time, viewer: &Viewer) -> Result<Bytes, PastError> {
        let mut past = self.inner.past.lock().await;
        past.go(&self.inner.brain, time).await?;
        let (agents, whose) = (self.inner.agents.clone(), viewer.clone());
        let look = past
            .with(move |state| gather::take_past_snapshot(state, &agents, time, &whose))
            .await?;
        // Files are read without the lock: other moments are shown meanwhile.
        drop(past);
        let (agents, viewer) = (self.inner.agents.clone(), viewer.clone());
        let draw = move || {
            let mut look = look;
            gather::fill_from_history(&mut look, &agents, &viewer);
            let (map, _) = FleetMap::next(None, look);
            frame::past(&map, &viewer)
        };
        tokio::task::spawn_blocking(draw).await.map_err(|_| PastError::Broken)
    }

    /// The oldest moment that can be shown; none where nothing was written yet. What is before the log
    /// that the store has is out of the archive.
    pub async fn past_begins_at(&self) -> Result<Option<Time>, PastError> {
        Ok(PastLog::begins_at(&self.inner.brain).await?)
    }

    /// A place to watch from. A reader that fell behind takes a new one.
    pub async fn watch(&self, viewer: &Viewer) -> Result<ConsoleSubscription, NoSnapshot> {
        let mut hub = self.inner.hub.lock().await;
        self.inner.refresh(&mut hub).await?;
        let Hub { map, channels, running, .. } = &mut *hub;
        let map = map.as_ref().ok_or(NoSnapshot)?;
        let channel = channels.entry(viewer.clone()).or_insert_with(|| AudienceChannel {
            frames: broadcast::channel(BEHIND).0,
            whole: None,
        });
        let first = match &channel.whole {
            Some((tick, bytes)) if *tick == map.tick => bytes.clone(),
            _ => {
                let bytes = frame::full_frame(map, viewer);
                channel.whole = Some((map.tick, bytes.clone()));
                bytes
            }
        };
        let seat = ConsoleSubscription { first, frames: channel.frames.subscribe() };
        if !*running {
            *running = true;
            let inner = self.inner.clone();
            supervise::task("console-frames", move || run(inner.clone()));
        }
        Ok(seat)
    }
}

impl Inner {
    /// Makes the picture when nobody keeps it up to date.
    async fn refresh(&self, hub: &mut Hub) -> Result<(), NoSnapshot> {
        if hub.running && hub.map.is_some() {
            return Ok(());
        }
        hub.hinted = self.brain.durable();
        self.read_map(hub).await.map(|_| ())
    }

    /// Looks at everything once; says which GPUs changed.
    async fn read_map(&self, hub: &mut Hub) -> Result<fleet_map::Change, NoSnapshot> {
        let before = hub.map.take();
        let (brain, agents) = (self.brain.clone(), self.agents.clone());
        let work = tokio::task::spawn_blocking(move || {
            let seen = gather::take_snapshot(&brain, &agents);
            FleetMap::next(before, seen)
        });
        let (map, change) = work.await.map_err(|error| {
            tracing::error!(%error, "the console's snapshot of the fleet failed");
            NoSnapshot
        })?;
        hub.map = Some(map);
        Ok(change)
    }

    /// What the records since the last frame were about, for each kind of reader.
    async fn hints(&self, hub: &mut Hub) -> Vec<(Viewer, frame::Hints)> {
        let end = self.brain.durable();
        if end <= hub.hinted {
            return Vec::new();
        }
        let mut log = Cursor::new(&self.brain, hub.hinted);
        let records = log.next_batch(end).await.ok().flatten().unwrap_or_default();
        hub.hinted = end;
        // One batch is looked at; past that, everything may have changed.
        let all = log.is_cut() || records.last().is_none_or(|r| r.seq < end);
        hub.channels
            .keys()
            .map(|viewer| {
                let kinds: BTreeSet<String> =
                    records.iter().filter_map(|r| hints::hint(viewer, r)).collect();
                (viewer.clone(), frame::Hints { all, kinds })
            })
            .filter(|(_, hints)| hints.all || !hints.kinds.is_empty())
            .collect()
    }
}

/// The picture of a state without a server, frame by frame and without figures: what a frame costs
/// is counted with it (`cargo xtask guard`).
#[derive(Default)]
pub struct ConsoleSnapshot {
    map: Option<FleetMap>,
}

impl std::fmt::Debug for ConsoleSnapshot {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConsoleSnapshot").finish_non_exhaustive()
    }
}

impl ConsoleSnapshot {
    /// The frame after the one before: everything at first, then what changed.
    pub fn frame(&mut self, state: &State, at: Time) -> Bytes {
        let (map, change) = FleetMap::next(self.map.take(), gather::snapshot_from_log(state, at));
        let bytes = frame::next(&map, &change, None, &None);
        self.map = Some(map);
        bytes
    }
}

/// Makes frames for as long as somebody watches.
async fn run(inner: Arc<Inner>) {
    let mut clock = tokio::time::interval(EVERY);
    clock.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
    clock.tick().await;
    loop {
        clock.tick().await;
        let mut hub = inner.hub.lock().await;
        hub.channels.retain(|_, channel| channel.frames.receiver_count() > 0);
        if hub.channels.is_empty() {
            hub.running = false;
            return;
        }
        let Ok(change) = inner.read_map(&mut hub).await else {
            // Readers see their stream end, and come back.
            hub.channels.clear();
            hub.running = false;
            return;
        };
        let mut hints: BTreeMap<Viewer, frame::Hints> =
            inner.hints(&mut hub).await.into_iter().collect();
        let Hub { map: Some(map), channels, .. } = &mut *hub else { continue };
        for (viewer, channel) in channels {
            let bytes = frame::next(map, &change, hints.remove(viewer).as_ref(), viewer);
            // Nobody there is no harm.
            let _ = channel.frames.send(bytes);
        }
    }
}

#[cfg(test)]
mod tests;
