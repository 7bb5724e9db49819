//! The flags that describe a job, shared by `run` and `submit`.

use clap::Args;
use muster_model::spec::{JobSpec, SpecProblem};
use muster_specs::flags;
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output;
use std::path::Path;

/// The flags that describe a job.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Job")]
pub(crate) struct JobArgs {
    /// A name for people
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Nodes of the gang
    #[arg(long, value_name = "N")]
    pub(crate) nodes: Option<String>,
    /// GPUs on each node
    #[arg(long, value_name = "G")]
    pub(crate) gpus: Option<String>,
    /// Processes on each node [default: one per GPU, or 1]
    #[arg(long, value_name = "R")]
    pub(crate) ranks_per_node: Option<String>,
    /// Logical processors on each node
    #[arg(long, value_name = "N")]
    pub(crate) cpus: Option<String>,
    /// Memory on each node, such as 64GiB
    #[arg(long, value_name = "SIZE")]
    pub(crate) memory: Option<String>,
    /// SKU of the GPUs, such as h100-sxm; several that will do: 'h100-sxm|h200-sxm'
    #[arg(long)]
    pub(crate) sku: Option<String>,
    /// One MIG slice on each node instead of whole GPUs, such as 3g.40gb
    #[arg(long, value_name = "PROFILE")]
    pub(crate) mig: Option<String>,
    /// A share of one GPU on each node instead of whole GPUs, in thousandths
    #[arg(long, value_name = "N")]
    pub(crate) gpu_milli: Option<String>,
    /// Topology constraint: one leaf, rack, nvlink, … for all: [required:]LEVEL or preferred:LEVEL
    #[arg(long, value_name = "LEVEL")]
    pub(crate) topology: Option<String>,
    /// Cut the gang into pieces of so many nodes, each inside one NVLink domain
    #[arg(long, value_name = "N")]
    pub(crate) segment: Option<String>,
    /// Spread the nodes evenly over power feeds, leaves or racks
    #[arg(long, value_name = "feed|leaf|rack")]
    pub(crate) spread: Option<String>,
    /// Let it grow and shrink between so many nodes; needs checkpoints
    #[arg(long, value_name = "MIN-MAX")]
    pub(crate) elastic: Option<String>,
    /// Stop it after this long, such as 24h
    #[arg(long, value_name = "TIME")]
    pub(crate) time: Option<String>,
    /// low, normal, high or critical
    #[arg(long)]
    pub(crate) priority: Option<String>,
    /// spot, on-demand or reserved
    #[arg(long)]
    pub(crate) tier: Option<String>,
    /// Run once for each index, such as 0-9
    #[arg(long, value_name = "INDICES")]
    pub(crate) array: Option<String>,
    /// Start after another job, or a task of an array, ended: JOB[_TASK][:ok|:fail|:any]
    #[arg(long, value_name = "JOB[:HOW]")]
    pub(crate) after: Vec<String>,
    /// Container image
    #[arg(long)]
    pub(crate) image: Option<String>,
    /// Environment of every rank
    #[arg(long, short = 'e', value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// A secret of the project that the ranks may see
    #[arg(long, value_name = "NAME")]
    pub(crate) secret: Vec<String>,
    /// A directory to bind: SRC:DST[:ro]
    #[arg(long, value_name = "SRC:DST")]
    pub(crate) volume: Vec<String>,
    /// A tag for reports
    #[arg(long, value_name = "K=V")]
    pub(crate) tag: Vec<String>,
    /// Directory the ranks start in [default: this one, when the server is on this machine]
    #[arg(long, value_name = "DIR")]
    pub(crate) workdir: Option<String>,
    /// Where checkpoints are written
    #[arg(long, value_name = "DIR")]
    pub(crate) checkpoint_dir: Option<String>,
    /// What ranks do whose node cannot reach the server: stop after TIME, or `continue`. With a
    /// checkpoint directory the next attempt after a lost node waits for it
    #[arg(long, value_name = "TIME|continue")]
    pub(crate) on_partition: Option<String>,
    /// Application retries: how often it runs again after it failed by itself
    #[arg(long, value_name = "N")]
    pub(crate) retries: Option<String>,
    /// Do not start it before `muster release`
    #[arg(long)]
    pub(crate) hold: bool,
}

impl JobArgs {
    /// The spec for a command line.
    pub(crate) fn spec(self, ctx: &Ctx, command: Vec<String>) -> Result<JobSpec, Fail> {
        let mut spec = JobSpec::default();
        self.over(ctx, &mut spec)?;
        spec.run.command = command;
        Ok(spec)
    }

    /// Lays the flags over what a file says.
    pub(crate) fn over(self, ctx: &Ctx, spec: &mut JobSpec) -> Result<(), Fail> {
        self.apply(spec)?;
        settle(spec, ctx)
    }

    /// Sets what was given, and nothing else.
    fn apply(self, spec: &mut JobSpec) -> Result<(), SpecProblem> {
        let single = [
            ("name", self.name),
            ("nodes", self.nodes),
            ("gpus", self.gpus),
            ("ranks-per-node", self.ranks_per_node),
            ("cpus", self.cpus),
            ("memory", self.memory),
            ("sku", self.sku),
            ("mig", self.mig),
            ("gpu-milli", self.gpu_milli),
            ("topology", self.topology),
            ("segment", self.segment),
            ("spread", self.spread),
            ("elastic", self.elastic),
            ("time", self.time),
            ("priority", self.priority),
            ("tier", self.tier),
            ("array", self.array),
            ("image", self.image),
            ("workdir", self.workdir),
            ("checkpoint-dir", self.checkpoint_dir),
            ("on-partition", self.on_partition),
            ("retries", self.retries),
        ];
        for (flag, value) in single {
            if let Some(value) = value {
                flags::apply(spec, flag, Some(&value))?;
            }
        }
        let many = [
            ("after", self.after),
            ("env", self.env),
            ("secret", self.secret),
            ("volume", self.volume),
            ("tag", self.tag),
        ];
        for (flag, values) in many {
            for value in values {
                flags::apply(spec, flag, Some(&value))?;
            }
        }
        if self.hold {
            flags::apply(spec, "hold", None)?;
        }
        Ok(())
    }
}

/// Project and directory, where nothing was said.
fn settle(spec: &mut JobSpec, ctx: &Ctx) -> Result<(), Fail> {
    let settings = ctx.settings()?;
    let given = ctx.global.project.as_ref().filter(|p| !p.is_empty());
    // The flag wins over the file, the file over the settings.
    let chosen = match (given, &spec.project) {
        (Some(p), _) => Some(p),
        (None, None) => settings.project.as_ref(),
        (None, Some(_)) => None,
    };
    if let Some(name) = chosen {
        let name = name.parse().map_err(|e| Fail::usage(format!("--project: {e}")))?;
        spec.project = Some(name);
    }
    // A directory of this machine means nothing inside an image.
    if spec.run.workdir.is_none()
        && spec.run.image.is_none()
        && spec.simulate.is_none()
        && is_here(&settings.server)
        && let Ok(dir) = std::env::current_dir()
    {
        if rustix::process::geteuid().is_root() && !others_enter(&dir) {
            output::note(&format!(
                "note: ranks run as a user of their project, not as root, and cannot enter {}; the \
                 job starts in /. Work in a directory that others may enter, or give --workdir",
                dir.display()
            ));
        } else {
            spec.run.workdir = dir.to_str().map(Into::into);
        }
    }
    Ok(())
}

/// Whether somebody who is not root, nor the owner, can enter a directory.
fn others_enter(dir: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    let open = |d: &Path| std::fs::metadata(d).is_ok_and(|m| m.permissions().mode() & 1 == 1);
    dir.ancestors().all(open)
}

/// Whether the server runs on this machine, so that its nodes see the same files.
fn is_here(server: &str) -> bool {
    let rest = server.split_once("://").map_or(server, |(_, rest)| rest);
    let host = rest.split(['/', '?']).next().unwrap_or(rest);
    let host = host.rsplit_once(':').map_or(host, |(h, _)| h);
    host.eq_ignore_ascii_case("localhost") || host.starts_with("127.") || host == "[::1]"
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::{Arg, Command, FromArgMatches};
    use std::collections::BTreeSet;

    fn command() -> Command {
        JobArgs::augment_args(Command::new("job"))
    }

    /// A value that a flag takes and that is not its default.
    fn sample(flag: &str) -> &'static str {
        match flag {
            "memory" => "64GiB",
            "topology" | "spread" => "leaf",
            "elastic" => "2-4",
            "time" | "on-partition" => "24h",
            "priority" => "high",
            "tier" => "spot",
            "env" | "tag" => "KEY=value",
            "volume" => "/from:/to",
            _ => "7",
        }
    }

    /// One that is missing in `apply` would be accepted and ignored.
    #[test]
    fn every_flag_of_a_job_changes_its_spec() {
        for arg in command().get_arguments() {
            let flag = arg.get_long().expect("it has a long name");
            let dashed = format!("--{flag}");
            let mut line = vec!["job", dashed.as_str()];
            line.extend(flags::takes_value(flag).then(|| sample(flag)));
            let given = command().try_get_matches_from(line).expect(flag);
            let mut spec = JobSpec::default();
            JobArgs::from_arg_matches(&given).expect(flag).apply(&mut spec).expect(flag);
            assert_ne!(spec, JobSpec::default(), "{dashed} is ignored");
        }
    }

    #[test]
    fn the_command_line_has_the_flags_of_directives() {
        let command = command();
        let own = command.get_arguments().filter_map(Arg::get_long);
        // Every command has `--project`.
        let args: BTreeSet<&str> = own.chain(["project"]).collect();
        let known: BTreeSet<&str> = flags::names().collect();
        assert_eq!(args, known);
    }

    #[test]
    fn only_a_server_on_this_machine_shares_its_directories() {
        for here in ["http://127.0.0.1:7070", "http://localhost/", "https://[::1]:1"] {
            assert!(is_here(here), "{here}");
        }
        for away in ["http://muster.example:7070", "https://10.0.0.1", "http://localhost.evil"] {
            assert!(!is_here(away), "{away}");
        }
    }
}
