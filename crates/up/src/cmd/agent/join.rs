//! The agent itself: joins a cluster, runs work, watches its GPUs.

use crate::options::{AgentOptions, MachineOptions};
use clap::{Args, ValueEnum};
use muster_agent::container::Limits;
use muster_agent::isolation::{Accounts, Isolation, UidRange};
use muster_machine::{Allowed, OptionalDuties, Scrub, WantOrder};
use muster_model::NodeName;
use muster_model::units::Span;
use muster_monitor::exporter::{HostnameLabel, Names};
use muster_terminal::config;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

/// How ranks are isolated from each other and from this machine
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum IsolationArg {
    /// As far as this machine can; ranks of an agent that is root are never root
    Best,
    /// Fully; where that is not possible no rank runs
    Required,
    /// Not at all: ranks are whoever the agent is, root too, and see each other and every device
    Off,
}

/// What a machine is joined with.
#[derive(Debug, Args)]
pub(crate) struct Join {
    /// Where the server listens for agents
    #[arg(long, env = "MUSTER_LINK", default_value = "127.0.0.1:7071", value_name = "HOST:PORT")]
    link: String,
    /// The join token, needed once
    #[arg(long, env = "MUSTER_JOIN", value_name = "TOKEN", hide_env_values = true)]
    join: Option<String>,
    /// A file with it
    #[arg(long, value_name = "FILE", conflicts_with = "join")]
    join_file: Option<PathBuf>,
    /// The node's name [default: this machine's]
    #[arg(long, value_name = "NODE")]
    name: Option<NodeName>,
    /// Address that other ranks reach this machine under
    #[arg(long, value_name = "ADDR")]
    address: Option<String>,
    /// Where certificates, logs and the state of ranks are stored
    #[arg(long, env = "MUSTER_AGENT_DIR", value_name = "DIR")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    watch: Watch,
}

/// How the machine is watched.
#[derive(Debug, Args)]
#[command(next_help_heading = "Devices")]
struct Watch {
    /// Where Prometheus finds this machine's metrics, or `off`
    #[arg(long, default_value = "0.0.0.0:9400", value_name = "ADDR", value_parser = exporter)]
    exporter: Exporter,
    /// What the exporter calls the label with the host's name: Hostname or hostname
    #[arg(long, default_value = "Hostname", value_name = "LABEL")]
    hostname_label: HostnameLabel,
    /// Whose names the exporter's metrics have: dcgm4 or dcgm46
    #[arg(long, default_value = "dcgm4", value_name = "NAMES")]
    metric_names: Names,
    /// How many times a second GPUs are sampled
    #[arg(long, default_value_t = 1.0, value_name = "HZ", value_parser = hertz)]
    sample_hz: f64,
    /// Your own rules for what faults mean; they override the built-in ones
    #[arg(long, value_name = "FILE")]
    faults: Option<PathBuf>,
    /// The pool this machine belongs to, for labels and for `--faults`
    #[arg(long, default_value = "", value_name = "POOL", hide_default_value = true)]
    pool: String,
    /// How ranks are isolated from each other and from this machine
    #[arg(long, value_enum, default_value = "best")]
    isolation: IsolationArg,
    /// User ids for the ranks of projects, the same on every node
    #[arg(long, default_value = "200000-265535", value_name = "FIRST-LAST")]
    uid_range: UidRange,
    /// A file with the real accounts of projects and users, in place of ids from the range
    #[arg(long, value_name = "FILE")]
    accounts: Option<PathBuf>,
    /// A directory that no rank may see, besides Muster's own; may be given several times
    #[arg(long, value_name = "DIR")]
    hide: Vec<PathBuf>,
    /// Overwrite a GPU's memory before the next job gets it
    #[arg(long)]
    scrub: bool,
    /// Let containers' images be fetched; without it only those that are here run
    #[arg(long)]
    pull: bool,
    /// How long fetching an image may take
    #[arg(long, value_name = "SPAN", default_value = "2h")]
    pull_limit: Span,
    /// How long a container runtime may take to start a job's containers once their images are here
    #[arg(long, value_name = "SPAN", default_value = "10m")]
    container_limit: Span,
    /// What this machine must have when it is tested, such as `h200-sxm:8` or `8`
    #[arg(long, value_name = "SKU:N", value_parser = super::qualify::want)]
    want: Option<WantOrder>,
    /// Your own targets for its tests; they override the built-in ones
    #[arg(long, value_name = "FILE")]
    expect: Option<PathBuf>,
    /// Cut GPUs that are in MIG mode into the slices that jobs are given
    #[arg(long)]
    allow_mig: bool,
    /// Read, write and look up this file system every half minute; may be given several times
    #[arg(long, value_name = "PATH")]
    watch_fs: Vec<PathBuf>,
    /// Let remediations reset GPUs that nobody uses
    #[arg(long)]
    allow_reset: bool,
    /// Let remediations restart this machine
    #[arg(long)]
    allow_reboot: bool,
    /// How this machine is restarted
    #[arg(
        long,
        default_value = "systemctl reboot",
        value_name = "COMMAND",
        requires = "allow_reboot"
    )]
    reboot_command: String,
}

/// Where the exporter listens; none is off.
#[derive(Debug, Clone, Copy)]
struct Exporter(Option<SocketAddr>);

fn exporter(text: &str) -> Result<Exporter, String> {
    if text == "off" {
        return Ok(Exporter(None));
    }
    let addr = text.parse().map_err(|_| {
        format!("`{text}` is not an address and a port, such as `0.0.0.0:9400`, nor `off`")
    })?;
    Ok(Exporter(Some(addr)))
}

pub(super) fn hertz(text: &str) -> Result<f64, String> {
    let hz: f64 = text.parse().map_err(|_| format!("`{text}` is not a number"))?;
    if (0.1..=10.0).contains(&hz) {
        Ok(hz)
    } else {
        Err("between 0.1 and 10 times a second".into())
    }
}

impl Join {
    pub(crate) async fn run(self) -> Result<u8, Fail> {
        let Join { link, join, join_file, name, address, data_dir, watch } = self;
        let join = match (join, join_file) {
            (Some(join), _) => Some(join),
            (None, Some(file)) => Some(output::read_text(&file)?.trim().to_owned()),
            (None, None) => None,
        };
        let data_dir = match data_dir {
            Some(dir) => config::data_dir(Some(dir))?,
            None => config::data_dir(None)?.join("agent"),
        };
        let machine = watch.machine()?;
        crate::up::agent(AgentOptions { link, join, name, address, data_dir, machine }).await
    }
}

impl Watch {
    fn machine(self) -> Result<MachineOptions, Fail> {
        let mut accounts = Accounts::in_range(self.uid_range);
        if let Some(file) = &self.accounts {
            let wrong = |e| Fail::usage(format!("{}: {e}", file.display()));
            accounts = accounts.with_file(&output::read_text(file)?).map_err(wrong)?;
        }
        let mut hidden = Vec::new();
        for dir in self.hide {
            hidden.push(config::data_dir(Some(dir))?);
        }
        // A server may be on this machine, too.
        hidden.push(config::default_data_dir());
        hidden.push("/var/lib/muster".into());
        Ok(MachineOptions {
            exporter: self.exporter.0,
            hostname_label: self.hostname_label,
            names: self.metric_names,
            every: Duration::from_secs_f64(1.0 / self.sample_hz),
            faults: self.faults.as_deref().map(output::read_text).transpose()?,
            pool: self.pool,
            isolation: match self.isolation {
                IsolationArg::Best => Isolation::Best,
                IsolationArg::Required => Isolation::Required,
                IsolationArg::Off => Isolation::Off,
            },
            accounts,
            hidden,
            scrub: if self.scrub { Scrub::Overwrite } else { Scrub::Look },
            pull: self.pull,
            container_limits: Limits {
                fetch: self.pull_limit.to_std(),
                start: self.container_limit.to_std(),
                ..Limits::default()
            },
            allow_mig: self.allow_mig,
            want: self.want.unwrap_or_default(),
            expect: self.expect.as_deref().map(super::qualify::bars).transpose()?,
            more: OptionalDuties {
                watch_fs: self.watch_fs,
                allowed: Allowed {
                    reset: self.allow_reset,
                    reboot: self.allow_reboot,
                    reboot_command: self.reboot_command,
                    ..Allowed::default()
                },
            },
        })
    }
}
