//! The HTTP API under `/v1`, its description, the figures and the web page.

mod admin;
mod auth;
mod brand;
mod causes;
mod console;
mod cookie;
mod endpoints;
mod error;
mod event_filter;
mod events;
mod extract;
mod fabric;
mod faults;
mod feed;
mod fleet;
mod fleet_metrics;
mod guard;
mod health;
mod injections;
mod jobs;
mod last_used;
mod limits;
mod logs;
mod metrics;
mod mig;
mod nodes;
#[cfg(feature = "openapi")]
pub mod openapi;
mod others;
mod paging;
mod period;
mod place;
mod policy;
mod power;
mod registry;
pub mod remote;
mod report;
mod reservations;
mod runbooks;
mod scenarios;
mod seal;
mod search;
mod session;
mod site;
mod slo;
mod telemetry;
#[cfg(test)]
mod tests;
mod ui;
mod whatif;

pub use last_used::LastUsed;
pub use limits::{Rate, TokenPlace};
pub(crate) use registry::{Registry, Sample};
pub use seal::load_or_create_key;
pub(crate) use site::write_metrics;

use crate::remote::RemoteStats;
use auth::Caller;
use axum::Extension;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use extract::MUSTER_SEQ;
use feed::Feed;
use injections::Injections;
use limits::{BodyPermit, Buckets, Heavy, InFlightCounts, PerCaller, StreamPermit};
use metrics::{HttpMetrics, Pages};
use muster_brand::Brand;
use muster_model::{Seq, Time};
use muster_server::agents::Agents;
use muster_server::brain::Brain;
use muster_server::console::Console;
use muster_server::delay::RuntimeDelay;
use muster_server::fabric::Fabric;
use muster_server::logs::LogKeeper;
use muster_server::output_search::OutputSearch;
use muster_server::slo::{AlertDelivery, Counter, ObjectiveStatuses};
use muster_server::trace::Traces;
use seal::Sealer;
use serde::Serialize;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::Semaphore;
use tower_http::compression::CompressionLayer;
use tower_http::compression::predicate::{NotForContentType, Predicate as _, SizeAbove};

/// What operators may choose about the API.
#[derive(Clone)]
pub struct HttpConfig {
    /// Largest body of a request, in bytes.
    pub body_limit: usize,
    /// Requests of one token.
    pub rate: Rate,
    /// Tasks of arrays that one token changes: each is a record of the log.
    pub task_changes: Rate,
    /// Wrong tokens from one address.
    pub wrong_tokens: Rate,
    /// Refusals (no token, a wrong one, too many requests) that one address gets at once.
    pub refusals: Rate,
    /// How long it waits for each beyond them.
    pub refusal_pause: Duration,
    /// Requests under way at once.
    pub concurrency: usize,
    /// Those of one token.
    pub requests_per_token: usize,
    /// Bodies of one token that have not come whole yet.
    pub bodies_per_token: usize,
    /// The same of one address.
    pub bodies_per_address: usize,
    /// A body of which nothing comes for so long is given up.
    pub body_idle: Duration,
    /// Streams (events, followed logs) open at once.
    pub streams: usize,
    /// Those of one token.
    pub streams_per_token: usize,
    /// Bytes of one event stream that its reader has not taken yet.
    pub stream_bytes: usize,
    /// The same of all event streams of one token.
    pub stream_bytes_per_token: usize,
    /// Whether browsers reach the API over TLS, also that of a proxy: they are then asked to come
    /// back no other way.
    pub https: bool,
    /// Longest time until the head of an answer.
    pub request_timeout: Duration,
    /// How long a simulation may take (a what-if, a scenario). Its caller has the answer by then: less than
    /// [`HttpConfig::request_timeout`], whose answer does not say what to do.
    pub simulation_limit: Duration,
    /// How long a read waits for the part of the log that it demands.
    pub min_seq_wait: Duration,
    /// How often an idle stream says that it is alive.
    pub keep_alive: Duration,
    /// A reader of a stream that takes nothing for so long is cut off.
    pub slow_reader: Duration,
    /// A store that has not answered for so long is away: `/readyz` says so, and writes are refused.
    pub store_patience: Duration,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
    /// The page of `/metrics` is made at most so often.
    pub metrics_every: Duration,
    /// Key of tenants' positions in the log ([`load_or_create_key`]).
    pub cursor_key: [u8; 32],
    /// Hex SHA-256 of the site's authority, for join tokens; none when agents cannot join here.
    pub join_pin: Option<String>,
    /// What this server is called.
    pub server: String,
    /// `sqlite` or `postgres`.
    pub store_kind: String,
    /// When this server started.
    pub started_at: Time,
    /// Where the past of the network's paths is kept.
    pub fabric_file: Option<std::path::PathBuf>,
    /// Where it is written when each token was last used; in memory only when absent.
    pub last_used_file: Option<std::path::PathBuf>,
    /// The console's name and colours.
    pub brand: Arc<Brand>,
    /// Who listens to spans.
    pub traces: Traces,
    /// Search over job output; off unless somebody puts it here.
    pub output_search: OutputSearch,
}

impl Default for HttpConfig {
    fn default() -> Self {
        HttpConfig {
            body_limit: 1 << 20,
            rate: Rate { per_second: 20_000, burst: 40_000 },
            task_changes: Rate { per_second: 333, burst: 20_000 },
            wrong_tokens: Rate { per_second: 5, burst: 100 },
            refusals: Rate { per_second: 50, burst: 500 },
            refusal_pause: Duration::from_secs(1),
            concurrency: 4096,
            requests_per_token: 1024,
            bodies_per_token: 128,
            bodies_per_address: 512,
            body_idle: Duration::from_secs(10),
            streams: 8192,
            streams_per_token: 2048,
            stream_bytes: 256 << 10,
            stream_bytes_per_token: 16 << 20,
            https: false,
            request_timeout: Duration::from_secs(30),
            simulation_limit: Duration::from_secs(25),
            min_seq_wait: Duration::from_secs(5),
            keep_alive: Duration::from_secs(15),
            slow_reader: Duration::from_secs(30),
            store_patience: Duration::from_secs(3),
            open_metrics: false,
            metrics_every: Duration::from_secs(2),
            cursor_key: [0; 32],
            join_pin: None,
            server: "server".into(),
            store_kind: "sqlite".into(),
            started_at: Time(0),
            fabric_file: None,
            last_used_file: None,
            brand: Arc::default(),
            traces: Traces::default(),
            output_search: OutputSearch::default(),
        }
    }
}

/// Everything a handler needs. Cheap to clone.
#[derive(Clone)]
pub struct App(Arc<Inner>);

struct Inner {
    brain: Brain,
    agents: Agents,
    logs: LogKeeper,
    fabric: Fabric,
    console: Console,
    config: HttpConfig,
    sealer: Sealer,
    callers: Buckets<String>,
    task_changes: Buckets<String>,
    strangers: Buckets<IpAddr>,
    refused: Buckets<IpAddr>,
    metrics: HttpMetrics,
    remote: RemoteStats,
    room: Semaphore,
    requests_by_token: Arc<InFlightCounts<String>>,
    bodies: Arc<Semaphore>,
    bodies_by_token: Arc<InFlightCounts<String>>,
    bodies_by_address: Arc<InFlightCounts<IpAddr>>,
    heavy: Heavy,
    streams: Arc<Semaphore>,
    streams_by_token: Arc<InFlightCounts<String>>,
    feed: Feed,
    pages: Pages,
    delay: RuntimeDelay,
    turn: tokio::sync::Mutex<()>,
    whatif: Arc<Semaphore>,
    injections: Injections,
    rehearsals: PerCaller,
    standings: ObjectiveStatuses,
    post: AlertDelivery,
    counter: Counter,
    last_used: LastUsed,
}

impl App {
    /// Puts the parts together.
    #[must_use]
    pub fn new(brain: Brain, agents: Agents, logs: LogKeeper, config: HttpConfig) -> App {
        let file = config.fabric_file.clone();
        let used = config.last_used_file.clone();
        App(Arc::new(Inner {
            last_used: LastUsed::open(used, brain.epoch().0, brain.now()),
            fabric: Fabric::open(brain.clone(), agents.clone(), file),
            console: Console::new(brain.clone(), agents.clone()),
            brain,
            agents,
            logs,
            sealer: Sealer::new(&config.cursor_key),
            callers: Buckets::new(config.rate),
            task_changes: Buckets::new(config.task_changes),
            strangers: Buckets::new(config.wrong_tokens),
            refused: Buckets::new(config.refusals),
            metrics: HttpMetrics::default(),
            remote: RemoteStats::default(),
            room: Semaphore::new(config.concurrency.clamp(1, Semaphore::MAX_PERMITS)),
            requests_by_token: InFlightCounts::new(config.requests_per_token),
            // Whoever only waits for a body leaves half of everything to the others.
            bodies: Arc::new(Semaphore::new(
                (config.concurrency / 2).clamp(1, Semaphore::MAX_PERMITS),
            )),
            bodies_by_token: InFlightCounts::new(config.bodies_per_token),
            bodies_by_address: InFlightCounts::new(config.bodies_per_address),
            heavy: Heavy::new(std::thread::available_parallelism().map_or(2, usize::from)),
            streams: Arc::new(Semaphore::new(config.streams.min(Semaphore::MAX_PERMITS))),
            streams_by_token: InFlightCounts::new(config.streams_per_token),
            feed: Feed::new(),
            pages: Pages::default(),
            delay: RuntimeDelay::default(),
            turn: tokio::sync::Mutex::new(()),
            whatif: Arc::new(Semaphore::new(1)),
            injections: Injections::default(),
            rehearsals: PerCaller::default(),
            standings: ObjectiveStatuses::default(),
            post: AlertDelivery::default(),
            counter: Counter::default(),
            config,
        }))
    }

    fn brain(&self) -> &Brain {
        &self.0.brain
    }
    fn agents(&self) -> &Agents {
        &self.0.agents
    }
    fn logs(&self) -> &LogKeeper {
        &self.0.logs
    }
    fn output_search(&self) -> &OutputSearch {
        &self.0.config.output_search
    }
    /// Tests of the network.
    #[must_use]
    pub fn fabric(&self) -> &Fabric {
        &self.0.fabric
    }
    fn console(&self) -> &Console {
        &self.0.console
    }
    fn config(&self) -> &HttpConfig {
        &self.0.config
    }
    fn traces(&self) -> &Traces {
        &self.0.config.traces
    }
    fn sealer(&self) -> &Sealer {
        &self.0.sealer
    }
    fn callers(&self) -> &Buckets<String> {
        &self.0.callers
    }
    fn task_changes(&self) -> &Buckets<String> {
        &self.0.task_changes
    }
    fn strangers(&self) -> &Buckets<IpAddr> {
        &self.0.strangers
    }
    /// How long this answer waits: whoever is refused again and again asks as fast as it gets its
    /// answer.
    fn pause_of_refusal(&self, status: StatusCode, from: IpAddr) -> Option<Duration> {
        let refused = matches!(status, StatusCode::UNAUTHORIZED | StatusCode::TOO_MANY_REQUESTS);
        let many = refused && self.0.refused.take(&from, Instant::now()).is_err();
        many.then_some(self.0.config.refusal_pause)
    }
    fn http_metrics(&self) -> &HttpMetrics {
        &self.0.metrics
    }
    /// How sending figures goes.
    pub(crate) fn remote(&self) -> &RemoteStats {
        &self.0.remote
    }
    /// What this server is called.
    pub(crate) fn name(&self) -> &str {
        &self.0.config.server
    }
    /// The wall clock's time.
    pub(crate) fn now(&self) -> Time {
        self.0.brain.now()
    }
    fn room(&self) -> &Semaphore {
        &self.0.room
    }
    /// What followers of the log share.
    pub(crate) fn feed(&self) -> &Feed {
        &self.0.feed
    }

    /// The status of objectives.
    fn objective_statuses(&self) -> &ObjectiveStatuses {
        &self.0.standings
    }

    /// What was sent to whom.
    fn post(&self) -> &AlertDelivery {
        &self.0.post
    }

    /// Counts how requests are answered.
    #[must_use]
    pub fn counter(&self) -> &Counter {
        &self.0.counter
    }

    /// Starts to count and to notify whom alerts concern. `base` is the console's address.
    ///
    /// # Errors
    /// When there can be no HTTP client.
    pub fn start_slo(
        &self,
        base: String,
        stop: &tokio_util::sync::CancellationToken,
    ) -> Result<(), reqwest::Error> {
        let (brain, agents) = (self.brain(), self.agents());
        muster_server::slo::start(brain, agents, self.post(), self.counter(), base, stop)
    }

    /// When each token was last used.
    #[must_use]
    pub fn last_used(&self) -> &LastUsed {
        &self.0.last_used
    }

    /// Starts to write down when each token was last used.
    pub fn keep_last_used(&self, stop: &tokio_util::sync::CancellationToken) {
        self.last_used().start(self.brain().clone(), stop);
    }

    /// Starts to look how late the runtime is.
    pub fn watch_delay(&self, stop: &tokio_util::sync::CancellationToken) {
        self.0.delay.start(stop);
    }

    /// Held while a document that is replaced as a whole is looked at and then written.
    fn turn(&self) -> &tokio::sync::Mutex<()> {
        &self.0.turn
    }

    /// Who tries remediations on the past.
    fn rehearsals(&self) -> &PerCaller {
        &self.0.rehearsals
    }

    /// Faults that were injected under a key.
    fn injections(&self) -> &Injections {
        &self.0.injections
    }

    /// The one turn at simulating what a change would do.
    fn whatif(&self) -> Arc<Semaphore> {
        Arc::clone(&self.0.whatif)
    }

    /// Does heavy work of this token off the threads that answer everybody: as much of it at once as
    /// there are cores, half of that for one token; the rest waits its turn.
    async fn aside<T: Send + 'static>(
        &self,
        token: &str,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> error::Reply<T> {
        // Held by the work itself: it goes on when its caller has given up.
        let turn = self.0.heavy.turn(token).await.ok_or_else(error::Failure::internal)?;
        let work = move || {
            let _turn = turn;
            work()
        };
        tokio::task::spawn_blocking(work).await.map_err(|e| {
            tracing::error!(error = %e, "heavy work of a request failed");
            error::Failure::internal()
        })
    }

    /// A place for one more request of this token.
    fn request_permit(&self, token: &str) -> error::Reply<limits::InFlightGuard<String>> {
        self.0.requests_by_token.begin(token.to_owned()).ok_or_else(|| {
            let most = self.config().requests_per_token;
            error::Failure::too_many(format!("this token has {most} requests under way at once"))
        })
    }

    /// A place for one more stream of this token.
    fn stream_permit(&self, token: &str) -> error::Reply<StreamPermit> {
        let own = self.0.streams_by_token.begin(token.to_owned()).ok_or_else(|| {
            let most = self.config().streams_per_token;
            error::Failure::too_many(format!("this token has {most} streams open, the most it may"))
        })?;
        let all = Arc::clone(&self.0.streams)
            .try_acquire_owned()
            .map_err(|_| error::Failure::unavailable("too many streams are open"))?;
        Ok(StreamPermit { _all: all, _own: own })
    }

    /// A place for one more body that has not come whole.
    fn body_permit(&self, token: Option<&str>, address: IpAddr) -> error::Reply<BodyPermit> {
        let too_many = |whose: &str| {
            error::Failure::too_many(format!("too many bodies {whose} have not come whole yet"))
        };
        let begin = |t: &str| self.0.bodies_by_token.begin(t.to_owned());
        let own = token.map(|t| begin(t).ok_or_else(|| too_many("of this token"))).transpose()?;
        let near = self.0.bodies_by_address.begin(address);
        let near = near.ok_or_else(|| too_many("from this address"))?;
        let all = Arc::clone(&self.0.bodies).try_acquire_owned();
        let all = all.map_err(|_| too_many("of all callers"))?;
        Ok(BodyPermit { _all: all, _token: own, _address: near })
    }
}

/// JSON with the position it follows from and, for one object, its version.
fn answer<T: Serialize>(
    app: &App,
    caller: &Caller,
    status: StatusCode,
    seq: Seq,
    version: Option<u64>,
    body: &T,
) -> Response {
    // A job is about 800 bytes: nothing is copied while it is written.
    let mut bytes = Vec::with_capacity(1024);
    if serde_json::to_writer(&mut bytes, body).is_err() {
        tracing::error!("an answer could not be written as JSON");
        return error::Failure::internal().into_response();
    }
    answer_bytes(app, caller, status, seq, version, bytes)
}

/// The same with a body that is JSON already.
fn answer_bytes(
    app: &App,
    caller: &Caller,
    status: StatusCode,
    seq: Seq,
    version: Option<u64>,
    bytes: Vec<u8>,
) -> Response {
    let length = bytes.len();
    let mut response =
        (status, Extension(CompleteResponse), extract::in_pieces(bytes.into())).into_response();
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    headers.insert(header::CONTENT_LENGTH, HeaderValue::from(length));
    mark(headers, app, caller, seq);
    if let Some(v) = version
        && let Ok(v) = HeaderValue::try_from(format!("\"{v}\""))
    {
        headers.insert(header::ETAG, v);
    }
    response
}

/// The answer of what took something away.
fn gone(app: &App, caller: &Caller, seq: Seq) -> Response {
    let mut response = StatusCode::NO_CONTENT.into_response();
    mark(response.headers_mut(), app, caller, seq);
    response
}

/// Says which part of the log an answer follows from.
fn mark(headers: &mut HeaderMap, app: &App, caller: &Caller, seq: Seq) {
    if let Ok(v) = HeaderValue::try_from(caller.position(app, seq)) {
        headers.insert(MUSTER_SEQ, v);
    }
}

/// The API's description, as `GET /openapi.json` gives it. `cargo xtask web` writes it from the
/// handlers, and a test compares the two.
pub static OPENAPI: muster_console::File = muster_console::File::new(
    "/openapi.json",
    Some(include_bytes!(concat!(env!("OUT_DIR"), "/openapi.json.gz"))),
    &[],
);

/// The answer to a caller for whom there is no connection left but to ask how the server is.
pub fn too_many_connections() -> Response {
    error::Failure::unavailable("the server has as many connections as it may have")
        .hint("close connections that are not used, or use one for several requests")
        .into_response()
}

/// Is this a question about the server's health, which is answered however busy it is?
#[must_use]
pub fn is_probe(path: &str) -> bool {
    matches!(path, "/healthz" | "/readyz")
}

/// Marks an answer that is all there, also where it is given in pieces or packed.
#[derive(Clone, Copy)]
struct CompleteResponse;

/// Everything that is served over HTTP.
pub fn router(app: App) -> axum::Router {
    // Small answers are not worth it, and streams must not wait for a block to fill.
    let worth_it = SizeAbove::new(1024)
        .and(NotForContentType::SSE)
        .and(NotForContentType::const_new("application/x-ndjson"))
        .and(NotForContentType::const_new("application/octet-stream"));
    let description = |asked: HeaderMap| async move { ui::packed(&OPENAPI, &asked) };
    endpoints::router()
        .route("/openapi.json", axum::routing::get(description))
        .merge(console::routes())
        .merge(ui::routes())
        .fallback(ui::page_or_nothing)
        .method_not_allowed_fallback(guard::no_such_method)
        .layer(CompressionLayer::new().gzip(true).compress_when(worth_it))
        .layer(axum::middleware::from_fn_with_state(app.clone(), guard::guard))
        .with_state(app)
}
