//! What followers of the log have in common: they are woken together, share the text of what
//! happened, and each has so many bytes that it has not taken yet.

use super::App;
use super::limits::PerCaller;
use bytes::Bytes;
use muster_model::Seq;
use muster_model::names::ProjectName;
use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;
use tokio::sync::futures::Notified;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, mpsc, watch};
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::UnboundedReceiverStream;

/// Followers are woken at most so often for each one that there is: with 2,000 of them every 200 ms.
/// Otherwise waking them would be most of what the server does while jobs are submitted.
const PACE_EACH: Duration = Duration::from_micros(100);
/// However many there are, they hear of what happens within this.
const PACE_MOST: Duration = Duration::from_millis(500);
/// They are woken in so many groups, one after the other within that time: all of them at once would
/// be thousands of tasks before everybody else's.
const GROUPS: u32 = 8;
/// Between two groups at least: the runtime's clock is no finer. Fewer followers are woken together.
const PAUSE_LEAST: Duration = Duration::from_millis(1);
/// Texts that are kept for the followers that have not come for them yet.
const SHARED: usize = 128;
/// Their bytes.
const SHARED_BYTES: usize = 8 << 20;

/// What happened between two places of the log, as one audience sees it.
pub(crate) struct Batch {
    /// The last record that was looked at.
    pub(crate) upto: Seq,
    /// The events; empty when none of them concerns this audience.
    pub(crate) text: Bytes,
}

/// Who reads: everybody of a project sees the same, and so do all who see the whole site and may read the
/// same of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Audience {
    /// The project that their tokens are bound to; none where they see the whole site.
    pub(crate) project: Option<ProjectName>,
    /// They may read who is notified, and at which addresses.
    pub(crate) reads_routing: bool,
}

#[derive(Default)]
struct Batches {
    kept: VecDeque<(Audience, Seq, Arc<Batch>)>,
    bytes: usize,
    /// Those that a follower makes just now.
    making: Vec<(Audience, Seq)>,
}

/// How a follower comes to the text behind its place.
pub(crate) enum NextText<'a> {
    /// Another one has made it.
    Made(Arc<Batch>),
    /// It makes the text itself.
    Make(PendingBatch<'a>),
    /// Another one makes it: look again after this.
    Wait(Notified<'a>),
}

/// A text that is being made; over when dropped.
pub(crate) struct PendingBatch<'a> {
    feed: &'a Feed,
    audience: Audience,
    after: Seq,
}

impl PendingBatch<'_> {
    /// Keeps the text for the other followers.
    pub(crate) fn share(self, batch: &Arc<Batch>) {
        let mut batches = self.feed.batches();
        batches.bytes += batch.text.len();
        batches.kept.push_back((self.audience.clone(), self.after, batch.clone()));
        while batches.kept.len() > SHARED || batches.bytes > SHARED_BYTES {
            let Some((_, _, old)) = batches.kept.pop_front() else { break };
            batches.bytes -= old.text.len();
        }
    }
}

impl Drop for PendingBatch<'_> {
    fn drop(&mut self) {
        let is_this = |(a, seq): &(Audience, Seq)| *seq == self.after && *a == self.audience;
        self.feed.batches().making.retain(|other| !is_this(other));
        self.feed.made.notify_waiters();
    }
}

/// What followers of the log share.
pub(crate) struct Feed {
    /// The durable end of the log as each group of followers sees it.
    ends: [watch::Sender<Seq>; GROUPS as usize],
    started: AtomicBool,
    followers: AtomicU32,
    /// Followers so far.
    joined: AtomicUsize,
    batches: Mutex<Batches>,
    /// A follower has made a text, or has given it up.
    made: Notify,
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
            ends: std::array::from_fn(|_| watch::Sender::new(Seq(0))),
            started: AtomicBool::new(false),
            followers: AtomicU32::new(0),
            joined: AtomicUsize::new(0),
            batches: Mutex::default(),
            made: Notify::new(),
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
        let group = &feed.ends[feed.joined.fetch_add(1, Ordering::Relaxed) % feed.ends.len()];
        group.send_if_modified(|end| {
            let durable = app.brain().durable();
            let first = end.0 == 0 && durable.0 > 0;
            if first {
                *end = durable;
            }
            first
        });
        (group.subscribe(), Follower(app.clone()))
    }

    fn batches(&self) -> MutexGuard<'_, Batches> {
        self.batches.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The text behind a place, which one of the followers there makes for all.
    pub(crate) fn next_text(&self, audience: &Audience, after: Seq) -> NextText<'_> {
        let mut batches = self.batches();
        let found = batches.kept.iter().rev().find(|(a, seq, _)| *seq == after && a == audience);
        if let Some((_, _, batch)) = found {
            return NextText::Made(batch.clone());
        }
        if batches.making.iter().any(|(a, seq)| *seq == after && a == audience) {
            // Under the lock: the end of it cannot come before this.
            return NextText::Wait(self.made.notified());
        }
        batches.making.push((audience.clone(), after));
        NextText::Make(PendingBatch { feed: self, audience: audience.clone(), after })
    }

    /// Informs a group of followers where the log ends now.
    fn wake(&self, group: usize, durable: Seq) {
        self.ends[group].send_if_modified(|end| std::mem::replace(end, durable) != durable);
    }
}

async fn pump(app: Weak<super::Inner>, mut durable: watch::Receiver<Seq>) {
    loop {
        durable.mark_unchanged();
        let mut pace = Duration::ZERO;
        for group in 0..GROUPS as usize {
            // Each group gets all that is there when its turn comes.
            let end = *durable.borrow();
            {
                let Some(app) = app.upgrade() else { return };
                pace = app.feed.pace();
                app.feed.wake(group, end);
            }
            if pace / GROUPS >= PAUSE_LEAST {
                tokio::time::sleep(pace / GROUPS).await;
            }
        }
        if pace / GROUPS < PAUSE_LEAST {
            tokio::time::sleep(pace).await;
        }
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
pub(crate) enum SendFailure {
    /// The reader is gone.
    Gone,
    /// It takes nothing.
    Slow,
}

/// Where a stream's bytes wait until the reader takes them: so many, and no more.
pub(crate) struct StreamBuffer {
    tx: mpsc::UnboundedSender<Piece>,
    own: Arc<Semaphore>,
    token: Arc<Semaphore>,
    /// What one piece may take of its stream's and its token's places.
    most: u32,
    patience: Duration,
}

impl StreamBuffer {
    /// An outlet for a stream of this token, and the stream.
    pub(crate) fn new(
        app: &App,
        token: &str,
    ) -> (StreamBuffer, impl futures::Stream<Item = Result<Bytes, io::Error>> + Send + use<>) {
        let config = app.config();
        let all = config.stream_bytes_per_token.max(1);
        let most = config.stream_bytes.clamp(1, all);
        let (tx, rx) = mpsc::unbounded_channel::<Piece>();
        let outlet = StreamBuffer {
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
    pub(crate) async fn send(&self, bytes: Bytes) -> Result<(), SendFailure> {
        let need = u32::try_from(bytes.len()).unwrap_or(u32::MAX).min(self.most);
        let places = async {
            let own = self.own.clone().acquire_many_owned(need).await;
            let token = self.token.clone().acquire_many_owned(need).await;
            own.ok().zip(token.ok())
        };
        let places = tokio::select! {
            places = tokio::time::timeout(self.patience, places) => places,
            () = self.tx.closed() => return Err(SendFailure::Gone),
        };
        let Ok(places) = places else { return Err(SendFailure::Slow) };
        self.tx.send(Piece { bytes, _places: places }).map_err(|_| SendFailure::Gone)
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn one_of_the_followers_at_a_place_makes_the_text_for_all() {
        let feed = Feed::new();
        let alpha = Audience { project: Some("alpha".parse().unwrap()), reads_routing: false };
        let site = Audience { project: None, reads_routing: true };
        let after = Seq(7);
        let NextText::Make(making) = feed.next_text(&alpha, after) else {
            panic!("nobody has made it yet")
        };
        let NextText::Wait(second) = feed.next_text(&alpha, after) else {
            panic!("it is being made")
        };
        tokio::pin!(second);
        assert!(futures::poll!(second.as_mut()).is_pending());
        assert!(
            matches!(feed.next_text(&alpha, Seq(8)), NextText::Make(_)),
            "from another place it is another text"
        );
        let NextText::Make(given_up) = feed.next_text(&site, after) else {
            panic!("the whole site sees another text")
        };
        let viewers = Audience { reads_routing: false, ..site.clone() };
        assert!(
            matches!(feed.next_text(&viewers, after), NextText::Make(_)),
            "who may not read the routing sees another one"
        );
        drop(given_up);
        assert!(matches!(feed.next_text(&site, after), NextText::Make(_)), "nobody makes it now");
        making.share(&Arc::new(Batch { upto: Seq(9), text: Bytes::from_static(b"text") }));
        second.await;
        let NextText::Made(made) = feed.next_text(&alpha, after) else { panic!("it is made") };
        assert_eq!((made.upto, &*made.text), (Seq(9), &b"text"[..]));
    }
}
