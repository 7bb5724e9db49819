//! `muster server`.

use crate::options::ServerOptions;
use crate::traces::Traces;
use clap::Args;
use muster_health::faults::Catalogue;
use muster_model::units::Span;
use muster_server::acts::ActsConfig;
use muster_store::StoreUrl;
use muster_terminal::config;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;

/// Run the server alone, for production
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster server --data-dir /var/lib/muster --listen 0.0.0.0:7070 --link-listen 0.0.0.0:7071 \\\n    \
--tls-cert cert.pem --tls-key key.pem\n  muster server --store postgres://muster@db/muster\n  \
muster server --otlp http://127.0.0.1:4318 --otlp-sample 0.05\n  \
muster server --ticket-webhook https://tickets.example/muster \\\n    \
--power-cycle-command 'ipmi-cycle {node}'"
)]
pub struct Server {
    #[command(flatten)]
    place: Place,
    /// The topology: where nodes are
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Test the network between idle nodes so often [default: never]
    #[arg(long, env = "MUSTER_FABRIC_EVERY", value_name = "SPAN")]
    fabric_every: Option<Span>,
    /// Your own rules for what faults mean, over the built-in ones: for all nodes, whatever
    /// their agents were started with
    #[arg(long, env = "MUSTER_FAULTS", value_name = "FILE")]
    faults: Option<PathBuf>,
    #[command(flatten)]
    plugs: Plugs,
    #[command(flatten)]
    pub(crate) ways: Ways,
    /// Certificate of the API (PEM); without one it serves plain HTTP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

/// Where a server is and stores things, of `server` and of `up`.
#[derive(Debug, Args)]
pub(crate) struct Place {
    /// Address of the API and the web page
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDR")]
    listen: SocketAddr,
    /// Address that agents connect to
    #[arg(long, default_value = "127.0.0.1:7071", value_name = "ADDR")]
    link_listen: SocketAddr,
    /// Where everything is stored [default: the user's data directory]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    pub(crate) data_dir: Option<PathBuf>,
    /// Where the log is stored [default: sqlite:DATA_DIR/muster.db]
    #[arg(long, env = "MUSTER_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<StoreUrl>,
}

/// How a server works, of `server` and of `up`.
#[derive(Debug, Args)]
pub(crate) struct Ways {
    /// What the web console is called and looks like: a file with [brand]
    #[arg(long, env = "MUSTER_BRAND", value_name = "FILE")]
    brand: Option<PathBuf>,
    /// Trust this machine's clock although it was set since it started: limits and expiries move with it
    #[arg(long)]
    accept_clock: bool,
    /// Continue in a data directory that was copied or moved: nothing uses the one that it comes from any more
    #[arg(long)]
    accept_copy: bool,
    #[command(flatten)]
    outward: crate::outbound::OutboundArgs,
    #[command(flatten)]
    history: crate::history::HistoryArgs,
    #[command(flatten)]
    output_search: crate::output_search::OutputSearchArgs,
    #[command(flatten)]
    pub(crate) traces: crate::traces::TraceArgs,
}

impl Place {
    /// What a server is asked for that takes nothing but this.
    pub(crate) fn options(
        self,
        ways: Ways,
        ctx: &Ctx,
        traces: Option<Arc<Traces>>,
    ) -> Result<ServerOptions, Fail> {
        let brand = crate::brand::load(&ctx.global, ways.brand.as_deref())?;
        let data_dir = config::data_dir(self.data_dir)?;
        Ok(ServerOptions {
            listen: self.listen,
            link_listen: self.link_listen,
            store: self.store.unwrap_or_else(|| StoreUrl::in_data_dir(&data_dir)),
            data_dir,
            topology: None,
            tls: None,
            fabric_every: None,
            faults: None,
            acts: ActsConfig::default(),
            brand,
            accept_clock: ways.accept_clock,
            accept_copy: ways.accept_copy,
            outward: ways.outward,
            history: ways.history,
            output_search: ways.output_search,
            traces,
        })
    }
}

/// What the site plugs in for remediations.
#[derive(Debug, Args)]
struct Plugs {
    /// Power-cycles a node: a program and its arguments, {node} is the node
    #[arg(long, env = "MUSTER_POWER_CYCLE_COMMAND", value_name = "COMMAND")]
    power_cycle_command: Option<String>,
    /// Tickets are sent here, in addition to the files under DATA_DIR/tickets
    #[arg(long, env = "MUSTER_TICKET_WEBHOOK", value_name = "URL", hide_env_values = true)]
    ticket_webhook: Option<String>,
    /// Pages are sent here, in addition to DATA_DIR/pages.jsonl
    #[arg(long, env = "MUSTER_PAGE_WEBHOOK", value_name = "URL", hide_env_values = true)]
    page_webhook: Option<String>,
    /// A file with the secret that signs tickets and pages (HMAC-SHA256)
    #[arg(long, env = "MUSTER_WEBHOOK_SECRET_FILE", value_name = "FILE")]
    webhook_secret_file: Option<PathBuf>,
}

impl From<Plugs> for ActsConfig {
    fn from(p: Plugs) -> ActsConfig {
        ActsConfig {
            power_cycle: p.power_cycle_command,
            ticket_webhook: p.ticket_webhook,
            page_webhook: p.page_webhook,
            webhook_secret: p.webhook_secret_file,
        }
    }
}

impl Server {
    pub(crate) async fn run(self, ctx: &Ctx, traces: Option<Arc<Traces>>) -> Result<u8, Fail> {
        let faults = match &self.faults {
            Some(file) => {
                let catalogue = Catalogue::builtin()
                    .with_overrides(&output::read_text(file)?)
                    .map_err(|e| Fail::usage(format!("{}: {e}", file.display())))?;
                Some(Arc::new(catalogue))
            }
            None => None,
        };
        crate::up::serve(ServerOptions {
            topology: self.topology,
            tls: self.tls_cert.zip(self.tls_key),
            fabric_every: self.fabric_every,
            faults,
            acts: self.plugs.into(),
            ..self.place.options(self.ways, ctx, traces)?
        })
        .await
    }
}
