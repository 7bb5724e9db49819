//! Puts the parts together: brain, agent link, log keeper, HTTP.

mod admin;
mod conns;
mod listen;
mod lock;
mod place;

pub use conns::ConnectionLimits;

use muster_engine::Policy;
use muster_http::remote::RemoteConfig;
use muster_http::{self as http, App, HttpConfig, LastUsed};
use muster_link::LinkError;
use muster_link::limits::raise_open_files;
use muster_link::pki::Authority;
use muster_link::private;
use muster_link::token::{ApiToken, JoinToken, hash};
use muster_model::command::{Command, Refusal};
use muster_model::entity::Entity;
use muster_model::ids::SiteId;
use muster_model::tenant::TokenUse;
use muster_model::topology::Topology;
use muster_model::units::{Bytes, Span, Time};
use muster_server::acts::{self, ActsConfig, ActsError};
use muster_server::agents::{self, Agents, AgentsConfig};
use muster_server::brain::lead::StartError;
use muster_server::brain::{Brain, BrainConfig, BrainError, clock};
use muster_server::history::HistoryConfig;
use muster_server::logs::{LogConfig, LogError, LogKeeper};
use muster_server::output_search::{OutputSearch, OutputSearchConfig, OutputSearchSwitch};
use muster_server::slo::Counter;
use muster_store::StoreUrl;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddr;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::net::{TcpListener, TcpSocket};
use tokio_util::sync::CancellationToken;

/// Where a certificate and its key are, for HTTPS.
#[derive(Debug, Clone)]
pub struct TlsFiles {
    /// Certificate chain, PEM.
    pub cert: PathBuf,
    /// Private key, PEM.
    pub key: PathBuf,
}

/// What a server needs to start.
#[derive(Debug, Clone)]
pub struct ServerConfig {
    /// Everything it keeps.
    pub data_dir: PathBuf,
    /// Where the log is.
    pub store: StoreUrl,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where agents connect.
    pub link_listen: SocketAddr,
    /// HTTPS instead of HTTP.
    pub tls: Option<TlsFiles>,
    /// Where nodes stand; kept as it is when absent.
    pub topology: Option<Topology>,
    /// The agent link.
    pub agents: AgentsConfig,
    /// The engine's policy.
    pub policy: Policy,
    /// Records between two snapshots.
    pub snapshot_every: u64,
    /// Records that stay in the store after a snapshot.
    pub retain: u64,
    /// Requests per second of one token.
    pub rate: Option<u32>,
    /// What connections of the API may take.
    pub connections: ConnectionLimits,
    /// Streams that one token may have open.
    pub streams_per_token: Option<usize>,
    /// Whether `/metrics` needs no token.
    pub open_metrics: bool,
    /// The page of `/metrics` is made at most so often.
    pub metrics_every: Option<Span>,
    /// How often the network between idle nodes is tested; never when absent.
    pub fabric_every: Option<Span>,
    /// What the site plugged in for tickets, pages and power.
    pub acts: ActsConfig,
    /// The console's name and colours.
    pub brand: muster_brand::Brand,
    /// Go by the machine's clock, although it was set while an earlier server of this directory ran.
    pub accept_clock: bool,
    /// Go on in a directory that was copied or moved from another place: nobody uses that any more.
    pub accept_copy: bool,
    /// Where people reach the console, for links in messages; the API's own address when absent.
    pub public_url: Option<String>,
    /// Where figures are sent; nowhere when absent.
    pub remote: Option<RemoteConfig>,
    /// Whether metrics are kept for longer than some minutes.
    pub history: bool,
    /// Bytes of that; 5 GiB or a tenth of the file system, whichever is less, when absent.
    pub history_bytes: Option<Bytes>,
    /// Whether job output is indexed for search.
    pub output_search: OutputSearchSwitch,
    /// Bytes of that index; 5 GiB or a twentieth of the file system, whichever is less, when absent.
    pub output_search_bytes: Option<Bytes>,
    /// Who listens to spans.
    pub traces: muster_server::trace::Traces,
}

impl ServerConfig {
    /// The defaults for a data directory.
    #[must_use]
    pub fn new(data_dir: PathBuf) -> ServerConfig {
        ServerConfig {
            store: StoreUrl::in_data_dir(&data_dir),
            data_dir,
            listen: SocketAddr::from(([127, 0, 0, 1], 7070)),
            link_listen: SocketAddr::from(([127, 0, 0, 1], 7071)),
            tls: None,
            topology: None,
            agents: AgentsConfig::default(),
            policy: Policy { objectives: true, ..Policy::default() },
            // A start reads at most this many records after the snapshot: about a second.
            snapshot_every: 50_000,
            retain: 1_000_000,
            rate: None,
            connections: ConnectionLimits::default(),
            streams_per_token: None,
            open_metrics: false,
            metrics_every: None,
            fabric_every: None,
            acts: ActsConfig::default(),
            brand: muster_brand::Brand::default(),
            accept_clock: false,
            accept_copy: false,
            public_url: None,
            remote: None,
            history: true,
            history_bytes: None,
            output_search: OutputSearchSwitch::default(),
            output_search_bytes: None,
            traces: muster_server::trace::Traces::default(),
        }
    }
}

impl ServerConfig {
    /// Figures that tests and unusual sites set by environment: `MUSTER_LOST_AFTER`,
    /// `MUSTER_HEARTBEAT`, `MUSTER_TELEMETRY` (lengths of time), `MUSTER_SNAPSHOT_EVERY`,
    /// `MUSTER_RETAIN` (records) and `MUSTER_RATE` (requests a second of one token); of the API's
    /// connections `MUSTER_CONNECTIONS`, `MUSTER_CONNECTIONS_PER_ADDRESS`, `MUSTER_HEADER_TIMEOUT`,
    /// `MUSTER_IDLE_TIMEOUT` and `MUSTER_STREAMS_PER_TOKEN`; `MUSTER_METRICS_EVERY`. What is plugged in
    /// for remediations, where no flag names it: `MUSTER_POWER_CYCLE_COMMAND`, `MUSTER_TICKET_WEBHOOK`,
    /// `MUSTER_PAGE_WEBHOOK` and `MUSTER_WEBHOOK_SECRET_FILE`. What
    /// cannot be read is ignored with a warning.
    pub fn tune_from_environment(&mut self) {
        fn read<T: std::str::FromStr>(name: &str, into: impl FnOnce(T)) {
            let Ok(text) = std::env::var(name) else { return };
            match text.parse() {
                Ok(v) => into(v),
                Err(_) => tracing::warn!(name, text, "not understood; the default stays"),
            }
        }
        read("MUSTER_LOST_AFTER", |v| self.agents.lost_after = v);
        read("MUSTER_HEARTBEAT", |v| self.agents.heartbeat = v);
        read("MUSTER_TELEMETRY", |v| self.agents.telemetry = v);
        read("MUSTER_SNAPSHOT_EVERY", |v| self.snapshot_every = v);
        read("MUSTER_RETAIN", |v| self.retain = v);
        read("MUSTER_RATE", |v| self.rate = Some(v));
        let connections = &mut self.connections;
        read("MUSTER_CONNECTIONS", |v| connections.total = v);
        read("MUSTER_CONNECTIONS_PER_ADDRESS", |v| connections.per_address = v);
        read("MUSTER_HEADER_TIMEOUT", |v: Span| connections.head = v.to_std());
        read("MUSTER_IDLE_TIMEOUT", |v: Span| connections.idle = v.to_std());
        read("MUSTER_STREAMS_PER_TOKEN", |v| self.streams_per_token = Some(v));
        read("MUSTER_METRICS_EVERY", |v| self.metrics_every = Some(v));
        let acts = &mut self.acts;
        for (name, into) in [
            ("MUSTER_POWER_CYCLE_COMMAND", &mut acts.power_cycle),
            ("MUSTER_TICKET_WEBHOOK", &mut acts.ticket_webhook),
            ("MUSTER_PAGE_WEBHOOK", &mut acts.page_webhook),
        ] {
            let given = std::env::var(name).ok().filter(|v| !v.is_empty());
            *into = into.take().or(given);
        }
        let public = std::env::var("MUSTER_PUBLIC_URL").ok().filter(|v| !v.is_empty());
        self.public_url = self.public_url.take().or(public);
        let acts = &mut self.acts;
        let secret = std::env::var_os("MUSTER_WEBHOOK_SECRET_FILE").map(PathBuf::from);
        acts.webhook_secret = acts.webhook_secret.take().or(secret);
    }
}

/// What a server waits for before it starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Waiting<'a> {
    /// The process that used the data directory last has not let go of it. Reported once.
    DataDir(&'a Path),
    /// This server leads.
    Lead(&'a str),
}

/// Why a server did not start.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A file or a port.
    #[error("{what}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        #[source]
        source: io::Error,
    },
    /// Another server uses the data directory.
    #[error("another muster server already uses {0}; stop it, or choose another --data-dir")]
    Busy(PathBuf),
    /// The data directory is a copy of another one.
    #[error(
        "{} is a copy of {}, or was moved from there: the server and the ranks of that directory \
         may still run, and two servers must not lead one site. If nothing uses it any more, start \
         once with --accept-copy; for another site choose an empty --data-dir",
        .dir.display(),
        .from.display()
    )]
    Copied {
        /// The directory.
        dir: PathBuf,
        /// Where it was first.
        from: PathBuf,
    },
    /// The brain could not start: store, log, key or threads.
    #[error(transparent)]
    Start(#[from] StartError),
    /// Certificates could not be made or read.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// Kept output.
    #[error(transparent)]
    Logs(#[from] LogError),
    /// The site could not be set up.
    #[error("the site could not be set up: {0}")]
    Setup(String),
    /// What is plugged in for remediations.
    #[error(transparent)]
    Acts(#[from] ActsError),
    /// Where figures are sent.
    #[error(transparent)]
    Remote(#[from] muster_http::remote::RemoteError),
    /// HTTPS.
    #[error("the certificate or key for HTTPS cannot be used: {0}")]
    Tls(String),
}

fn io_error(what: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
    let what = what.into();
    move |source| ServeError::Io { what, source }
}

/// Name of the tokens that `up` makes for its own nodes.
const LOCAL_FLEET: &str = "local-fleet";

/// How long a clean stop may take.
const CLOSING: std::time::Duration = std::time::Duration::from_secs(10);

/// How much of that is for writing to the log what was counted.
const LAST_COUNTS: std::time::Duration = std::time::Duration::from_secs(2);

/// A server that runs.
#[derive(Debug)]
pub struct Server {
    /// The engine, its log and its view.
    pub brain: Brain,
    /// Who is connected.
    pub agents: Agents,
    /// Where the API listens.
    pub listen: SocketAddr,
    /// Where agents connect.
    pub link_listen: SocketAddr,
    /// The site's id.
    pub site: SiteId,
    /// Where the administrator's token is.
    pub admin_token: PathBuf,
    /// False when that token was revoked.
    pub admin_token_works: bool,
    /// Whether the API speaks HTTPS.
    pub https: bool,
    pin: String,
    counter: Counter,
    last_used: LastUsed,
    output_search: OutputSearch,
    stop: CancellationToken,
    _lock: File,
}

impl Server {
    /// Starts a server: waits for the data directory and the lease, loads the log, listens.
    /// `waits` gets the reason.
    ///
    /// # Errors
    /// [`ServeError`] with what failed.
    pub async fn start(
        config: ServerConfig,
        mut waits: impl FnMut(Waiting<'_>) + Send + 'static,
    ) -> Result<Server, ServeError> {
        let dir = config.data_dir.clone();
        private::data_dir(&dir)
            .map_err(io_error(format!("cannot use the data directory {}", dir.display())))?;
        let lock = lock::take(&dir, lock::PATIENCE, || waits(Waiting::DataDir(&dir))).await?;
        if let StoreUrl::Sqlite(path) = &config.store {
            let what = format!("cannot use the store {}", path.display());
            private::store_file(path).map_err(io_error(what))?;
        }
        place::settle(&dir, &config.store, config.accept_copy)?;
        muster_server::brain::clock::persist_clock_in(&dir.join("clock"), config.accept_clock);
        let holder = lease_holder(&dir)?;
        let authority = Arc::new(Authority::create_or_load(&dir.join("pki"))?);
        // Ports are taken before the lease is: a port in use must not cost a running server its lead.
        let ports = Ports::bind(&config)?;
        let waiting = ports.clone();
        let brain_config = BrainConfig {
            store: config.store.clone(),
            holder: holder.clone(),
            archive: dir.join("archive"),
            seal_key: dir.join("secrets.key"),
            policy: config.policy.clone(),
            lease: Span::secs(15),
            snapshot_every: config.snapshot_every,
            retain: config.retain,
        };
        let lead = move || {
            Brain::lead(&brain_config, |holder| {
                // Whoever looks for the leader is turned away at once, not left waiting.
                waiting.close();
                waits(Waiting::Lead(holder));
            })
        };
        let brain = tokio::task::spawn_blocking(lead)
            .await
            .map_err(|e| ServeError::Setup(e.to_string()))??;
        let (api, link) = ports.open(&config)?;
        let admin_token = dir.join("admin.token");
        let admin_token_works = admin::settle(&brain, &admin_token).await?;
        let site = set_up(&brain, &dir, config.topology).await?;
        let view = brain.clone();
        let live = Arc::new(move |key: muster_model::ids::AttemptKey| {
            view.read(|s| s.jobs.get(&key.job).is_some_and(|j| j.attempt_key() == Some(key)))
        });
        let view = brain.clone();
        let life = Arc::new(move |key| view.read(|s| s.generation_of(key).0));
        let logs =
            LogKeeper::open_generations(&dir.join("logs"), LogConfig::usual(&dir), live, life)?;
        let listen = api.local_addr().map_err(io_error("the API's address"))?;
        let link_listen = link.local_addr().map_err(io_error("the link's address"))?;
        let mut link_config = config.agents;
        link_config.figures_file.get_or_insert_with(|| dir.join("fleet.json"));
        link_config.history = config.history.then(|| {
            let bytes = config.history_bytes.unwrap_or_else(|| HistoryConfig::usual_bytes(&dir));
            HistoryConfig { dir: dir.join("history"), bytes }
        });
        let agents =
            agents::serve(link, brain.clone(), authority.clone(), logs.clone(), link_config)?;
        let stop = CancellationToken::new();
        // What was started ends with a start that fails.
        let running = stop.clone().drop_guard();
        let indexed =
            OutputSearchConfig::choose(&dir, config.output_search, config.output_search_bytes);
        let output_search = match indexed {
            Ok(index) => OutputSearch::start(index, logs.clone(), brain.clone(), stop.clone())
                .map_err(io_error("the thread that indexes output"))?,
            Err(why) => {
                tracing::info!(%why, "output search is off");
                OutputSearch::off(why)
            }
        };
        let mut http_config = HttpConfig {
            cursor_key: http::load_or_create_key(&dir.join("cursor.key"))
                .map_err(io_error("the key of cursors"))?,
            join_pin: Some(authority.pin()),
            server: holder,
            store_kind: match config.store {
                StoreUrl::Sqlite(_) => "sqlite".into(),
                StoreUrl::Postgres(_) => "postgres".into(),
            },
            started_at: clock(),
            https: config.tls.is_some() || is_https(config.public_url.as_deref()),
            fabric_file: Some(dir.join("fabric.json")),
            last_used_file: Some(dir.join("token-use.json")),
            brand: Arc::new(config.brand),
            traces: config.traces,
            output_search: output_search.clone(),
            ..HttpConfig::default()
        };
        if let Some(n) = config.rate {
            http_config.rate = http::Rate { per_second: n, burst: n.saturating_mul(2) };
        }
        if let Some(n) = config.streams_per_token {
            http_config.streams_per_token = n;
        }
        if let Some(every) = config.metrics_every {
            http_config.metrics_every = every.to_std();
        }
        http_config.open_metrics = config.open_metrics;
        let app = App::new(brain.clone(), agents.clone(), logs, http_config);
        app.fabric().guard();
        if let Some(every) = config.fabric_every {
            app.fabric().every(every);
        }
        let scheme = if config.tls.is_some() { "https" } else { "http" };
        let base = config.public_url.unwrap_or_else(|| format!("{scheme}://{listen}"));
        app.watch_delay(&stop);
        app.keep_last_used(&stop);
        app.start_slo(base, &stop).map_err(|e| ServeError::Setup(e.to_string()))?;
        let certificates = certificates_end(authority.ca_pem(), config.tls.as_ref())?;
        let command = Command::CertificateSeen { entity: Entity::Site, ends: certificates };
        brain.system(command).await.map_err(setup)?;
        if let Some(remote) = config.remote {
            muster_http::remote::start(app.clone(), remote, stop.clone())?;
        }
        let counter = app.counter().clone();
        let last_used = app.last_used().clone();
        let router = http::router(app);
        acts::start(brain.clone(), dir.clone(), config.acts, stop.clone())?;
        muster_server::runbooks::start(brain.clone(), agents.clone(), stop.clone());
        let tls = config.tls.as_ref().map(crate::listen::acceptor).transpose()?;
        let https = tls.is_some();
        let files = usize::try_from(raise_open_files()).unwrap_or(usize::MAX);
        let limits = config.connections.within(files);
        let (api, end) = (Arc::new(api), stop.clone());
        muster_server::supervise::task("api-accept", move || {
            let (api, tls, router) = (api.clone(), tls.clone(), router.clone());
            crate::listen::run(api, tls, router, limits, end.clone())
        });
        Ok(Server {
            brain,
            agents,
            listen,
            link_listen,
            site,
            admin_token,
            admin_token_works,
            https,
            pin: authority.pin(),
            counter,
            last_used,
            output_search,
            stop: running.disarm(),
            _lock: lock,
        })
    }

    /// A token with which the nodes of this machine may join for a while. Those of earlier starts
    /// end.
    ///
    /// # Errors
    /// When the server cannot decide now.
    pub async fn join_token(&self, ttl: Span) -> Result<JoinToken, ServeError> {
        let old: Vec<String> = self.brain.read(|s| {
            let mine = s.tokens.values().filter(|t| t.name.as_str() == LOCAL_FLEET);
            mine.map(|t| t.id.clone()).collect()
        });
        for id in old {
            self.revoke(&id).await;
        }
        let token = JoinToken::generate(self.pin.clone())?;
        let command = Command::CreateToken {
            id: token.id.clone(),
            name: label(LOCAL_FLEET)?,
            hash: hash(&token.secret),
            usage: TokenUse::Join { uses_left: None },
            ttl: Some(ttl),
        };
        self.brain.system(command).await.map_err(setup)?;
        Ok(token)
    }

    /// Ends a token.
    pub async fn revoke(&self, id: &str) {
        let _ = self.brain.system(Command::RevokeToken { id: id.into() }).await;
    }

    /// The API's address as people type it.
    #[must_use]
    pub fn url(&self) -> String {
        let scheme = if self.https { "https" } else { "http" };
        format!("{scheme}://{}", self.listen)
    }

    /// Stops: no new requests, the lease is given back, agents keep their work.
    pub async fn stop(&self) {
        self.stop.cancel();
        self.agents.stop();
        let index = self.output_search.clone();
        let indexed = tokio::task::spawn_blocking(move || index.wait_for_end());
        // The same of metrics: a disk that hangs is not waited for.
        let history = self.agents.history().clone();
        let flushed = tokio::task::spawn_blocking(move || history.flush());
        let _ = tokio::time::timeout(LAST_COUNTS, flushed).await;
        // And of when tokens were last used.
        let (used, brain) = (self.last_used.clone(), self.brain.clone());
        let written = tokio::task::spawn_blocking(move || used.flush(&brain));
        if let Ok(Ok(Err(e))) = tokio::time::timeout(LAST_COUNTS, written).await {
            tracing::warn!(error = %e, "when tokens were last used could not be written");
        }
        // What was counted is telemetry: a store that hangs is not waited for.
        let _ = tokio::time::timeout(LAST_COUNTS, self.counter.flush_counts(&self.brain)).await;
        self.brain.stop();
        // The keeper gives the lease back and closes the store; a store that hangs is left as it
        // is, which loses nothing.
        let _ = tokio::time::timeout(CLOSING, self.brain.closed()).await;
        // Nobody else may use the files of the index once this returns, unless their disk hangs.
        let _ = tokio::time::timeout(CLOSING, indexed).await;
    }
}

fn setup(e: BrainError) -> ServeError {
    ServeError::Setup(e.to_string())
}

fn label(s: &str) -> Result<muster_model::names::Label, ServeError> {
    s.parse().map_err(|e: muster_model::names::NameError| ServeError::Setup(e.to_string()))
}

/// The ports of a server that may have to stand by.
#[derive(Clone)]
struct Ports(Arc<Mutex<Option<(TcpListener, TcpListener)>>>);

impl Ports {
    fn bind(config: &ServerConfig) -> Result<Ports, ServeError> {
        Ok(Ports(Arc::new(Mutex::new(Some(Ports::both(config)?)))))
    }

    fn both(config: &ServerConfig) -> Result<(TcpListener, TcpListener), ServeError> {
        Ok((bind(config.listen, "the API")?, bind(config.link_listen, "the agent link")?))
    }

    fn close(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
    }

    fn open(&self, config: &ServerConfig) -> Result<(TcpListener, TcpListener), ServeError> {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        kept.map_or_else(|| Ports::both(config), Ok)
    }
}

fn bind(addr: SocketAddr, what: &str) -> Result<TcpListener, ServeError> {
    let listen = || {
        let socket = match addr {
            SocketAddr::V4(_) => TcpSocket::new_v4()?,
            SocketAddr::V6(_) => TcpSocket::new_v6()?,
        };
        socket.set_reuseaddr(true)?;
        socket.bind(addr)?;
        // A whole site that comes back at once must not run into retries of its first packets.
        socket.listen(4096)
    };
    listen().map_err(io_error(format!("cannot listen on {addr} for {what} (is it in use?)")))
}

/// The name under which this server holds the lease: the same after a restart, so that it need
/// not wait for its own old lease to end. Another in a copy of the data directory, which must not
/// take the lease from the server that it was copied from: a copy is another file, or is on a
/// machine that was started another time. After a reboot the old lease has ended or ends soon.
fn lease_holder(dir: &Path) -> Result<String, ServeError> {
    let id = server_id(dir)?;
    let path = dir.join("server.id");
    let file =
        std::fs::metadata(&path).map_err(io_error(format!("cannot read {}", path.display())))?;
    let boot = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    let mark = hash(&format!("{} {} {}", boot.trim(), file.dev(), file.ino()));
    Ok(format!("{id}.{}", &mark[..mark.len().min(6)]))
}

/// The name of this server, made with its data directory.
fn server_id(dir: &Path) -> Result<String, ServeError> {
    let path = dir.join("server.id");
    if let Ok(text) = std::fs::read_to_string(&path)
        && !text.trim().is_empty()
    {
        return Ok(text.trim().to_string());
    }
    let id = format!("server-{}", ApiToken::generate()?.id);
    write_private(&path, &id)?;
    Ok(id)
}

fn write_private(path: &Path, text: &str) -> Result<(), ServeError> {
    let what = || format!("cannot write {}", path.display());
    let tmp = path.with_extension("new");
    let mut f = OpenOptions::new()
        .create(true)
        .truncate(true)
        .write(true)
        .mode(0o600)
        .open(&tmp)
        .map_err(io_error(what()))?;
    f.write_all(text.as_bytes()).and_then(|()| f.sync_all()).map_err(io_error(what()))?;
    std::fs::rename(&tmp, path).map_err(io_error(what()))
}

/// The first records of a site, and whatever of them a crash has left undone.
async fn set_up(
    brain: &Brain,
    dir: &Path,
    topology: Option<Topology>,
) -> Result<SiteId, ServeError> {
    let site_file = &dir.join("site.id");
    let noted = std::fs::read_to_string(site_file).ok().map(|text| text.trim().to_owned());
    if brain.read(|s| s.site.is_none()) {
        // A log that lost everything goes on as the same site: its agents belong to it. A new log
        // is another site, so that nothing outside takes what it does for done.
        let same = brain.is_restored() || brain.read(|s| !s.lives.is_empty());
        let site = match noted.clone().filter(|id| same && !id.is_empty()) {
            Some(id) => id,
            None => format!("site-{}", ApiToken::generate()?.id),
        };
        brain.system(Command::CreateSite { site }).await.map_err(setup)?;
    }
    if brain.read(|s| s.projects.is_empty()) {
        let name = "default"
            .parse()
            .map_err(|e: muster_model::names::NameError| ServeError::Setup(e.to_string()))?;
        let description = "where jobs go that name no project".to_string();
        brain.system(Command::CreateProject { name, description }).await.map_err(setup)?;
    }
    if let Some(topology) = topology {
        let topology = Arc::new(topology);
        brain.system(Command::SetTopology { topology }).await.map_err(setup)?;
    }
    let site = brain.read(|s| s.site.clone());
    let site = site.ok_or_else(|| ServeError::Setup("the site has no id".into()))?;
    if noted.as_ref() != Some(&site.0) {
        write_private(site_file, &site.0)?;
    }
    Ok(site)
}

impl From<Refusal> for ServeError {
    fn from(r: Refusal) -> ServeError {
        ServeError::Setup(r.message)
    }
}

/// Do people reach the console over TLS, be it that of a proxy?
fn is_https(public_url: Option<&str>) -> bool {
    let scheme = public_url.and_then(|url| url.split_once("://")).map(|(scheme, _)| scheme);
    scheme.is_some_and(|s| s.eq_ignore_ascii_case("https"))
}

/// When the first of the server's own certificates ends: that which signs nodes', or that of the API.
fn certificates_end(ca: &str, tls: Option<&TlsFiles>) -> Result<Time, ServeError> {
    let bad = |what: &str, e: &dyn std::fmt::Display| ServeError::Tls(format!("{what}: {e}"));
    let mut ends = muster_link::tls::not_after(ca).map_err(|e| bad("the authority", &e))?;
    if let Some(files) = tls {
        let name = files.cert.display().to_string();
        let text = std::fs::read_to_string(&files.cert).map_err(|e| bad(&name, &e))?;
        ends = ends.min(muster_link::tls::not_after(&text).map_err(|e| bad(&name, &e))?);
    }
    Ok(ends)
}

#[cfg(test)]
mod tests;
