//! `muster agent`.

use crate::config;
use crate::ctx::Ctx;
use crate::fail::Fail;
use crate::up::AgentOptions;
use clap::Args;
use muster_model::NodeName;
use std::path::PathBuf;

/// Make this machine a node of a cluster
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster agent --link muster.example:7071 --join TOKEN    the first time\n  \
muster agent --link muster.example:7071                  afterwards: it has its own certificate\n\n\
`muster token create --join NAME` on the server makes the token."
)]
pub(crate) struct Agent {
    /// Where the server listens for agents
    #[arg(long, env = "MUSTER_LINK", default_value = "127.0.0.1:7071", value_name = "HOST:PORT")]
    link: String,
    /// The join token, needed once
    #[arg(long, env = "MUSTER_JOIN", value_name = "TOKEN", hide_env_values = true)]
    join: Option<String>,
    /// A file that holds it
    #[arg(long, value_name = "FILE", conflicts_with = "join")]
    join_file: Option<PathBuf>,
    /// The node's name [default: this machine's]
    #[arg(long, value_name = "NODE")]
    name: Option<NodeName>,
    /// Address that other ranks reach this machine under
    #[arg(long, value_name = "ADDR")]
    address: Option<String>,
    /// Where certificates, logs and the state of ranks are kept
    #[arg(long, env = "MUSTER_AGENT_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
}

impl Agent {
    pub(crate) async fn run(self, _: &Ctx) -> Result<u8, Fail> {
        let Agent { link, join, join_file, name, address, data_dir } = self;
        let join = match (join, join_file) {
            (Some(join), _) => Some(join),
            (None, Some(file)) => {
                let text = std::fs::read_to_string(&file)
                    .map_err(|e| Fail::usage(format!("cannot read {}: {e}", file.display())))?;
                Some(text.trim().to_owned())
            }
            (None, None) => None,
        };
        let data_dir = match data_dir {
            Some(dir) => config::data_dir(Some(dir))?,
            None => config::data_dir(None)?.join("agent"),
        };
        crate::up::agent(AgentOptions { link, join, name, address, data_dir }).await
    }
}
