//! One node's conversation with the server: joins, says what it sees, does what it is asked to, and
//! goes on by itself for as long as nobody answers.

mod connection;
mod dial;
mod lease;
mod servers;
mod wire;

use crate::body::Body;
use crate::clock::wall;
use crate::devices::SimulatedAbsence;
use crate::error::AgentError;
use crate::identity::{SiteState, Store, Stored};
use dial::DialError;
use muster_link::token::JoinToken;
use muster_model::clock::StepWatch;
use muster_model::names::NodeName;
pub(crate) use servers::Servers;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tokio_util::sync::CancellationToken;

/// Back-off between two tries to connect.
const FIRST_PAUSE: Duration = Duration::from_millis(200);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// Two looks at the ranks are at least this far apart, however often something wakes us.
const BREATH: Duration = Duration::from_millis(5);

/// Who speaks, and to whom.
pub(crate) struct SessionConfig {
    pub(crate) servers: Servers,
    pub(crate) token: Option<JoinToken>,
    pub(crate) node: NodeName,
    pub(crate) machine: String,
    pub(crate) host: String,
    /// Which directory of the machine its records are in.
    pub(crate) place: String,
    pub(crate) address: String,
    pub(crate) store: Store,
    /// How many nodes of this process may be connecting at once.
    pub(crate) dials: Arc<Semaphore>,
    /// Ranks are ended when the agent is.
    pub(crate) end_ranks: bool,
}

pub(crate) struct Session {
    config: SessionConfig,
    body: Body,
    stored: Option<Stored>,
    site: SiteState,
    site_saved: (SiteState, Instant),
    instance: String,
    /// When the server was last certain to hear this node.
    heard: Instant,
    contact: lease::Contact,
    clock: StepWatch,
    looked: Instant,
    client: Option<Arc<rustls::ClientConfig>>,
    /// A key that waits for its certificate.
    renewing: Option<(String, Instant)>,
}

impl Session {
    pub(crate) fn new(config: SessionConfig, body: Body) -> Result<Session, AgentError> {
        let stored = config.store.load()?;
        if stored.is_none() && config.token.is_none() {
            return Err(AgentError::NotJoined { node: config.node.to_string() });
        }
        let site = stored.as_ref().map(|s| s.site.clone()).unwrap_or_default();
        let now = Instant::now();
        Ok(Session {
            instance: crate::process::random_id(),
            site_saved: (site.clone(), now),
            site,
            stored,
            body,
            heard: now,
            contact: lease::Contact::new(),
            clock: StepWatch::default(),
            looked: now,
            client: None,
            renewing: None,
            config,
        })
    }

    /// Runs until asked to end, or until the server says that trying again makes no sense.
    pub(crate) async fn run(mut self, shutdown: CancellationToken) -> Result<(), AgentError> {
        let mut tries = 0u32;
        let mut away = self.body.away();
        let result = loop {
            let pause = self.pause(tries, away.take());
            match self.dial(pause, &shutdown).await {
                None => break Ok(()),
                Some(Ok(stream)) => match Box::pin(self.talk(stream, &shutdown)).await {
                    connection::End::Shutdown => break Ok(()),
                    connection::End::Fatal(e) => break Err(e),
                    connection::End::Away(a) => (tries, away) = (0, Some(a)),
                    connection::End::Anew => tries = 1,
                    connection::End::Lost { why, welcomed } => {
                        tracing::info!(node = %self.config.node, why, "lost the server");
                        // Whoever welcomed us may only have lost the line; one that did not
                        // does not lead.
                        if !welcomed {
                            self.config.servers.next();
                        }
                        tries = if welcomed { 1 } else { tries + 1 };
                    }
                },
                Some(Err(DialError::Fatal(e))) => break Err(e),
                Some(Err(DialError::Again(why))) => {
                    // Once in a while is enough: a server may be away for hours.
                    if tries.is_multiple_of(16) {
                        tracing::warn!(node = %self.config.node, server = self.config.servers.current(), why,
                            "cannot reach the server; trying again");
                    }
                    tries += 1;
                    self.config.servers.next();
                }
            }
        };
        if self.config.end_ranks {
            self.end_ranks().await;
        }
        self.body.save();
        self.save_site(true);
        result
    }

    /// How long to wait before the next try: longer each time, and different for each node, so
    /// that a large fleet does not come back all at once.
    fn pause(&self, tries: u32, away: Option<SimulatedAbsence>) -> Duration {
        if let Some(away) = away {
            return away.until.saturating_duration_since(Instant::now());
        }
        if tries == 0 {
            return Duration::ZERO;
        }
        let rounds = self.config.servers.rounds(tries);
        let longest = FIRST_PAUSE.saturating_mul(1 << rounds.min(6)).min(LONGEST_PAUSE);
        let spread = u32::try_from(fnv(&[self.config.node.as_str(), &tries.to_string()]) % 1000);
        // Between a half and the whole of it.
        longest / 2 + longest / 2 * spread.unwrap_or(0) / 1000
    }

    /// Waits for `what` while everything else goes on; none when asked to end.
    async fn meanwhile<T>(
        &mut self,
        what: impl Future<Output = T>,
        shutdown: &CancellationToken,
    ) -> Option<T> {
        tokio::pin!(what);
        loop {
            let (wake, news) = (self.body.waker(), self.body.news());
            let next = self.next_look(None, Duration::from_millis(100));
            tokio::select! {
                biased;
                () = shutdown.cancelled() => return None,
                done = &mut what => return Some(done),
                () = wake.notified() => tokio::time::sleep_until((self.looked + BREATH).into()).await,
                () = news.notified() => tokio::time::sleep_until((self.looked + BREATH).into()).await,
                () = tokio::time::sleep_until(next.into()) => {}
            }
            self.collect_messages(false);
        }
    }

    /// One look at everything; what there is to report.
    fn collect_messages(&mut self, connected: bool) -> Vec<muster_link::messages::FromAgent> {
        let now = Instant::now();
        self.looked = now;
        self.body.unheard(self.heard, now);
        self.body.turn(now, connected)
    }

    fn next_look(&self, other: Option<Instant>, at_least: Duration) -> Instant {
        let due = self.body.due(self.heard).into_iter().chain(other).min();
        let latest = self.looked + Duration::from_secs(60);
        due.map_or(latest, |d| d.min(latest).max(self.looked + at_least))
    }

    /// Writes down how far we have seen, now and then.
    fn save_site(&mut self, now_please: bool) {
        let (saved, at) = &self.site_saved;
        // Another site or leader must never be forgotten, nor that an earlier end of the log counts;
        // how far the log went may lag.
        let grave = (&saved.site, saved.epoch) != (&self.site.site, self.site.epoch)
            || self.site.seq < saved.seq;
        let due = *saved != self.site && at.elapsed() >= Duration::from_secs(5);
        if self.stored.is_none() || !(grave || due || (now_please && *saved != self.site)) {
            return;
        }
        if let Err(e) = self.config.store.save_site(&self.site) {
            tracing::warn!(node = %self.config.node, error = %e, "cannot write down the site's state");
        }
        self.site_saved = (self.site.clone(), Instant::now());
    }

    async fn end_ranks(&mut self) {
        self.body.end_all(Instant::now());
        let until = Instant::now() + Duration::from_secs(5);
        while self.body.has_ranks() && Instant::now() < until {
            self.body.turn(Instant::now(), false);
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Whether a third of the certificate's life is left, or less.
    fn must_renew(&self) -> bool {
        let Some(stored) = &self.stored else { return false };
        let Ok(end) = muster_link::tls::not_after(&stored.cert) else { return true };
        let life = end.since(self.site.certified.unwrap_or_default()).0;
        end.since(wall()).0 < life / 3
    }
}

/// A number for a name that is the same on every machine.
fn fnv(parts: &[&str]) -> u64 {
    let bytes = parts.iter().flat_map(|p| p.bytes().chain([0]));
    bytes.fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3))
}
