//! Options of a server for what it sends to others.

use clap::Args;
use muster_http::remote::{RemoteConfig, Secret};
use muster_model::units::Span;
use std::path::PathBuf;

/// What a server sends to others.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct OutboundArgs {
    /// Send the metrics to a Prometheus here (remote write)
    #[arg(long, env = "MUSTER_REMOTE_WRITE", value_name = "URL", hide_env_values = true)]
    remote_write: Option<String>,
    /// How often
    #[arg(long, default_value = "15s", value_name = "SPAN", requires = "remote_write")]
    remote_write_every: Span,
    /// A file with the API token for it; else MUSTER_REMOTE_WRITE_TOKEN
    #[arg(long, env = "MUSTER_REMOTE_WRITE_TOKEN_FILE", value_name = "FILE")]
    remote_write_token_file: Option<PathBuf>,
    /// Show /metrics to whoever asks, without a token
    #[arg(long, env = "MUSTER_OPEN_METRICS")]
    open_metrics: bool,
}

impl OutboundArgs {
    /// Whether /metrics needs no token.
    pub(crate) fn open_metrics(&self) -> bool {
        self.open_metrics
    }

    /// Where metrics are sent.
    pub(crate) fn remote(&self) -> Option<RemoteConfig> {
        let token = std::env::var("MUSTER_REMOTE_WRITE_TOKEN").ok().filter(|t| !t.is_empty());
        self.remote_write.clone().map(|url| RemoteConfig {
            url,
            token_file: self.remote_write_token_file.clone(),
            token: token.map(Secret),
            every: self.remote_write_every.to_std(),
        })
    }
}
