//! What followers of the log have in common: they are woken together, share the text of what
//! happened, and each has so many bytes that it has not taken yet.

use super::App;
use super::limits::PerCaller;
use bytes::Bytes;
use muster_model::Seq;
use muster_model::names::ProjectName;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Followers are woken at most so often for each one that there is: with 2,000 of them every 200 ms.
/// Otherwise waking them would be most of what the server does while jobs are submitted.
const PACE_EACH: Duration = Duration::from_micros(100);
/// However many there are, they hear of what happens within this.
const PACE_MOST: Duration = Duration::from_millis(500);
/// Texts that are kept for the followers that have not come for them yet.
const SHARED: usize = 128;
/// Their bytes.
const SHARED_BYTES: usize = 8 << 20;

/// What happened between two places of the log, as one audience is told of it.
pub(crate) struct Batch {
    /// The last record that was looked at.
    pub(crate) upto: Seq,
    /// The events; empty when none of them concerns this audience.
    pub(crate) text: Bytes,
}

/// Who reads: everybody of a project sees the same, and so do all who see the whole site.
type Audience = Option<ProjectName>;

#[derive(Default)]
struct Batches {
    kept: VecDeque<(Audience, Seq, Arc<Batch>)>,
    bytes: usize,
}

/// What followers of the log share.
pub(crate) struct Feed {
    /// The durable end of the log as followers are told of it.
    end: watch::Sender<Seq>,
    started: AtomicBool,
    followers: AtomicU32,
    batches: Mutex<Batches>,
    /// Bytes that the streams of one token may have waiting, all together.
    budgets: PerCaller,
}

/// Counts a follower while it is there.
pub(crate) struct Follower(App);

impl Drop for Follower {
    fn drop(&mut self) {
        self.0.feed().followers.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Feed {
    pub(crate) fn new() -> Feed {
        Feed {
            end: watch::Sender::new(Seq(0)),
            started: AtomicBool::new(false),
            followers: AtomicU32::new(0),
            batches: Mutex::default(),
            budgets: PerCaller::default(),
        }
    }

    fn pace(&self) -> Duration {
        (PACE_EACH * self.followers.load(Ordering::Relaxed)).min(PACE_MOST)
    }

    /// Begins to follow: what wakes the follower, and what counts it.
    pub(crate) fn follow(app: &App) -> (watch::Receiver<Seq>, Follower) {
        let feed = app.feed();
        if !feed.started.swap(true, Ordering::AcqRel) {
            // One task waits for the log itself; whoever commits wakes it alone.
            let (weak, durable) = (Arc::downgrade(&app.0), app.brain().watch());
            muster_server::supervise::task("http-feed", move || {
                pump(weak.clone(), durable.clone())
            });
        }
        feed.followers.fetch_add(1, Ordering::Relaxed);
        feed.end.send_if_modified(|end| {
            let durable = app.brain().durable();
            let first = end.0 == 0 && durable.0 > 0;
            if first {
                *end = durable;
            }
            first
        });
        (feed.end.subscribe(), Follower(app.clone()))
    }

    /// The text behind a place, if another follower has made it already.
    pub(crate) fn shared(&self, audience: &Audience, after: Seq) -> Option<Arc<Batch>> {
        let batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        let found = batches.kept.iter().rev().find(|(a, seq, _)| *seq == after && a == audience);
        found.map(|(_, _, batch)| batch.clone())
    }

    /// Keeps a text for the other followers.
    pub(crate) fn share(&self, audience: &Audience, after: Seq, batch: &Arc<Batch>) {
        let mut batches = self.batches.lock().unwrap_or_else(PoisonError::into_inner);
        batches.bytes += batch.text.len();
        batches.kept.push_back((audience.clone(), after, batch.clone()));
        while batches.kept.len() > SHARED || batches.bytes > SHARED_BYTES {
            let Some((_, _, old)) = batches.kept.pop_front() else { return };
            batches.bytes -= old.text.len();
        }
    }
}

async fn pump(app: Weak<super::Inner>, mut durable: watch::Receiver<Seq>) {
    loop {
        let pace = {
            let Some(app) = app.upgrade() else { return };
            app.feed.end.send_replace(*durable.borrow_and_update());
            app.feed.pace()
        };
        tokio::time::sleep(pace).await;
        if durable.changed().await.is_err() {
            return;
        }
    }
}

/// Bytes on their way to a reader, with the places that they take.
struct Piece {
    bytes: Bytes,
    _places: Option<(OwnedSemaphorePermit, OwnedSemaphorePermit)>,
}

/// Why nothing more can be sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unsent {
    /// The reader is gone.
    Gone,
    /// It takes nothing.
    Slow,
}

/// Where a stream's bytes wait until the reader takes them: so many, and no more.
pub(crate) struct Outlet {
    tx: mpsc::UnboundedSender<Piece>,
    own: Arc<Semaphore>,
    token: Arc<Semaphore>,
    /// What one piece may take of its stream's and its token's places.
    most: u32,
    patience: Duration,
}

impl Outlet {
    /// An outlet for a stream of this token, and the stream.
    pub(crate) fn new(
        app: &App,
        token: &str,
    ) -> (Outlet, impl futures::Stream<Item = Result<Bytes, io::Error>> + Send + use<>) {
        let config = app.config();
        let all = config.stream_bytes_per_token.max(1);
        let most = config.stream_bytes.clamp(1, all);
        let (tx, rx) = mpsc::unbounded_channel::<Piece>();
        let outlet = Outlet {
            tx,
            own: Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS))),
            token: app.feed().budgets.of(token, all),
            most: u32::try_from(most).unwrap_or(u32::MAX),
            patience: config.slow_reader,
        };
        // The places are free again when the connection takes the piece.
        (outlet, UnboundedReceiverStream::new(rx).map(|piece| Ok(piece.bytes)))
    }

    /// Sends as soon as there is a place for it.
    pub(crate) async fn send(&self, bytes: Bytes) -> Result<(), Unsent> {
        let need = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(self.most);
        let places = async {
            let own = self.own.clone().acquire_many_owned(need).await;
            let token = self.token.clone().acquire_many_owned(need).await;
            own.ok().zip(token.ok())
        };
        let places = tokio::select! {
            places = tokio::time::timeout(self.patience, places) => places,
            () = self.tx.closed() => return Err(Unsent::Gone),
        };
        let Ok(places) = places else { return Err(Unsent::Slow) };
        self.tx.send(Piece { bytes, _places: places }).map_err(|_| Unsent::Gone)
    }

    /// The last words, which need no place: there is nothing behind them.
    pub(crate) fn end(self, text: String) {
        let _ = self.tx.send(Piece { bytes: Bytes::from(text), _places: None });
    }

    /// Waits until the reader is gone.
    pub(crate) async fn closed(&self) {
        self.tx.closed().await;
    }
}
