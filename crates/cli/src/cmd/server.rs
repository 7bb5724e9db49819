//! `muster server`.

use crate::config;
use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::up::ServerOptions;
use clap::Args;
use muster_store::StoreUrl;
use std::net::SocketAddr;
use std::path::PathBuf;

/// Run the server alone, for production
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster server --data-dir /var/lib/muster --listen 0.0.0.0:7070 --link-listen 0.0.0.0:7071 \\\n    \
--tls-cert cert.pem --tls-key key.pem\n  muster server --store postgres://muster@db/muster"
)]
pub(crate) struct Server {
    /// Address of the API and the web page
    #[arg(long, default_value = "127.0.0.1:7070", value_name = "ADDR")]
    listen: SocketAddr,
    /// Address that agents connect to
    #[arg(long, default_value = "127.0.0.1:7071", value_name = "ADDR")]
    link_listen: SocketAddr,
    /// Where everything is kept [default: the user's data directory]
    #[arg(long, env = "MUSTER_DATA_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    /// Where the log is kept [default: sqlite:DATA_DIR/muster.db]
    #[arg(long, env = "MUSTER_STORE", value_name = "URL", hide_env_values = true)]
    store: Option<StoreUrl>,
    /// Where nodes stand
    #[arg(long, value_name = "FILE")]
    topology: Option<PathBuf>,
    /// Certificate of the API (PEM); without one it speaks plain HTTP
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    tls_cert: Option<PathBuf>,
    /// Its key (PEM)
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    tls_key: Option<PathBuf>,
}

impl Server {
    pub(crate) async fn run(self, _: &Ctx) -> Result<u8, Fail> {
        let Server { listen, link_listen, data_dir, store, topology, tls_cert, tls_key } = self;
        let data_dir = config::data_dir(data_dir)?;
        let store = store.unwrap_or_else(|| super::store::default_store(&data_dir));
        let tls = tls_cert.zip(tls_key);
        crate::up::serve(ServerOptions { listen, link_listen, data_dir, store, topology, tls })
            .await
    }
}
