//! The same figures as on `/metrics`, sent to a Prometheus that cannot reach this server.

mod encode;

use crate::{App, Registry, write_metrics};
use std::collections::{BTreeMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

/// How long one try may take.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pages that wait at most: ten minutes of them. The oldest go first.
const WAITING: usize = 40;
/// The longest pause after tries that failed; each is twice the one before.
const PAUSE_MOST: Duration = Duration::from_secs(60);

/// Where figures are sent.
#[derive(Debug, Clone)]
pub struct RemoteConfig {
    /// Where to.
    pub url: String,
    /// A file with the token that is shown there; read again for every try.
    pub token_file: Option<PathBuf>,
    /// The token itself, from the environment.
    pub token: Option<Secret>,
    /// The time between two writes.
    pub every: Duration,
}

/// Text that is never shown.
#[derive(Clone)]
pub struct Secret(pub String);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret(…)")
    }
}

/// Why it cannot be sent there.
#[derive(Debug, thiserror::Error)]
pub enum RemoteError {
    /// The address makes no sense.
    #[error("metrics cannot be sent to that address: {0}; write http://… or https://…")]
    Url(String),
    /// No client can be made.
    #[error("metrics cannot be sent")]
    Client(#[from] reqwest::Error),
}

/// How sending goes.
#[derive(Debug, Default)]
pub(crate) struct RemoteStats {
    on: AtomicU64,
    sent: AtomicU64,
    refused: AtomicU64,
    dropped: AtomicU64,
    failed: AtomicU64,
    waiting: AtomicU64,
}

impl RemoteStats {
    /// As figures; none where nothing is sent.
    pub(crate) fn write(&self, out: &mut Registry) {
        let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
        if get(&self.on) == 0 {
            return;
        }
        for (name, help, n) in [
            ("muster_remote_write_sent_total", "Pages of metrics that were accepted.", &self.sent),
            (
                "muster_remote_write_refused_total",
                "Pages of metrics that were refused, and not sent again.",
                &self.refused,
            ),
            (
                "muster_remote_write_dropped_total",
                "Pages of metrics for which there was no space.",
                &self.dropped,
            ),
            ("muster_remote_write_failed_total", "Tries that failed.", &self.failed),
        ] {
            out.counter(name, help).set(get(n));
        }
        let help = "Pages of metrics that wait.";
        out.gauge("muster_remote_write_waiting", help).set(get(&self.waiting));
    }
}

/// What came of a try.
enum SendOutcome {
    Taken,
    /// Never sent again.
    Refused(String),
    Later(String),
}

struct Sender {
    client: reqwest::Client,
    url: reqwest::Url,
    config: RemoteConfig,
}

impl Sender {
    fn new(config: RemoteConfig) -> Result<Sender, RemoteError> {
        let url = reqwest::Url::parse(&config.url).map_err(|e| RemoteError::Url(e.to_string()))?;
        if !matches!(url.scheme(), "http" | "https") {
            return Err(RemoteError::Url(format!("{} is not understood", url.scheme())));
        }
        muster_link::tls::install();
        let client = reqwest::Client::builder()
            .timeout(PATIENCE)
            .redirect(reqwest::redirect::Policy::none())
            .user_agent(concat!("muster/", env!("CARGO_PKG_VERSION")))
            .build()?;
        Ok(Sender { client, url, config })
    }

    async fn send(&self, body: Vec<u8>) -> SendOutcome {
        let mut request = self
            .client
            .post(self.url.clone())
            .header("content-encoding", "snappy")
            .header("content-type", "application/x-protobuf")
            .header("x-prometheus-remote-write-version", "0.1.0")
            .body(body);
        match &self.config.token_file {
            Some(path) => match tokio::fs::read_to_string(path).await {
                Ok(token) => request = request.bearer_auth(token.trim()),
                Err(e) => {
                    return SendOutcome::Later(format!("cannot read {}: {e}", path.display()));
                }
            },
            None => {
                if let Some(Secret(token)) = &self.config.token {
                    request = request.bearer_auth(token);
                }
            }
        }
        match request.send().await {
            Err(e) => SendOutcome::Later(e.without_url().to_string()),
            Ok(a) if a.status().is_success() => SendOutcome::Taken,
            Ok(a) => {
                let status = a.status();
                let text = a.text().await.unwrap_or_default();
                let why = format!("it answered {status}: {}", shortened(&text));
                // Too many at once is no refusal.
                match status.is_client_error() && status.as_u16() != 429 {
                    true => SendOutcome::Refused(why),
                    false => SendOutcome::Later(why),
                }
            }
        }
    }
}

fn shortened(text: &str) -> String {
    text.chars().filter(|c| !c.is_control()).take(200).collect()
}

/// Sends the page of figures every so often, until `stop`.
///
/// # Errors
/// When the address makes no sense.
pub fn start(app: App, config: RemoteConfig, stop: CancellationToken) -> Result<(), RemoteError> {
    let sender = Sender::new(config)?;
    app.remote().on.store(1, Ordering::Relaxed);
    let sender = Arc::new(sender);
    muster_server::supervise::task("remote-write", move || {
        run(app.clone(), sender.clone(), stop.clone())
    });
    Ok(())
}

async fn run(app: App, sender: Arc<Sender>, stop: CancellationToken) {
    let stats = app.remote();
    let extra = BTreeMap::from([
        ("job".to_owned(), "muster".to_owned()),
        ("instance".to_owned(), app.name().to_owned()),
    ]);
    let mut queue: VecDeque<Vec<u8>> = VecDeque::new();
    let mut every = tokio::time::interval(sender.config.every.max(Duration::from_secs(1)));
    every.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Skip);
    let mut pause = Duration::ZERO;
    let mut again = tokio::time::Instant::now();
    loop {
        let look = tokio::select! {
            _ = every.tick() => true,
            () = tokio::time::sleep_until(again), if !queue.is_empty() => false,
            () = stop.cancelled() => return,
        };
        if look {
            // A page of a large site takes a moment; others are not to wait for it.
            let (site, extra) = (app.clone(), extra.clone());
            let made = tokio::task::spawn_blocking(move || {
                let samples = Registry::samples(|out| write_metrics(&site, true, out));
                encode::packed(&encode::request(&samples, site.now().0, &extra))
            });
            match made.await {
                Ok(Ok(body)) => queue.push_back(body),
                Ok(Err(error)) => tracing::warn!(%error, "metrics cannot be packed"),
                Err(error) => tracing::error!(%error, "metrics cannot be made"),
            }
        }
        while queue.len() > WAITING {
            queue.pop_front();
            stats.dropped.fetch_add(1, Ordering::Relaxed);
        }
        while tokio::time::Instant::now() >= again
            && let Some(body) = queue.front().cloned()
        {
            match sender.send(body).await {
                SendOutcome::Taken => {
                    queue.pop_front();
                    pause = Duration::ZERO;
                    stats.sent.fetch_add(1, Ordering::Relaxed);
                }
                SendOutcome::Refused(why) => {
                    queue.pop_front();
                    let n = stats.refused.fetch_add(1, Ordering::Relaxed) + 1;
                    tracing::warn!(why, refused = n, "metrics were refused and are not sent again");
                }
                SendOutcome::Later(why) => {
                    stats.failed.fetch_add(1, Ordering::Relaxed);
                    pause = (pause * 2).clamp(Duration::from_secs(1), PAUSE_MOST);
                    again = tokio::time::Instant::now() + pause;
                    tracing::warn!(why, pause_s = pause.as_secs(), "metrics could not be sent");
                }
            }
        }
        stats.waiting.store(queue.len() as u64, Ordering::Relaxed);
    }
}
