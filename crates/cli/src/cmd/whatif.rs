//! `muster whatif`: answers without side effects.

use super::job_args::JobArgs;
use crate::ctx::Ctx;
use crate::fail::Fail;
use clap::{Args, Subcommand};

/// Say what would happen if something were done; does nothing
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster whatif submit train.yaml\n  \
muster whatif submit --nodes 16 --gpus 8 --topology leaf -- true\n  \
muster whatif submit train.yaml --time 4h -o json | jq .estimated_start")]
pub(crate) struct Whatif {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Would this job start now, and where; else when, why not, and what would change that
    Submit(Box<Submit>),
}

#[derive(Debug, Args)]
struct Submit {
    /// The spec or script; `-` reads it from stdin
    #[arg(value_name = "FILE", required_unless_present = "command", conflicts_with = "command")]
    file: Option<String>,
    #[command(flatten)]
    job: JobArgs,
    /// The program and its arguments
    #[arg(last = true, value_name = "CMD")]
    command: Vec<String>,
}

impl Whatif {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let Verb::Submit(submit) = self.verb;
        let Submit { file, job, command } = *submit;
        let spec = super::submit::spec(ctx, file, job, command)?;
        super::submit::dry_run(ctx, &ctx.client()?, &spec).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::Parser;

    #[test]
    fn it_takes_what_submit_takes() {
        let read = |more: &[&str]| {
            let all = ["muster", "whatif", "submit"].iter().chain(more).copied();
            Cli::try_parse_from(all).map(|c| c.command)
        };
        let Ok(Command::Whatif(Whatif { verb: Verb::Submit(s) })) =
            read(&["--nodes", "4", "--elastic", "2-8", "--", "true"])
        else {
            panic!("good arguments")
        };
        assert_eq!((s.job.nodes.as_deref(), s.job.elastic.as_deref()), (Some("4"), Some("2-8")));
        assert!(read(&["train.yaml", "--time", "4h"]).is_ok());
        assert!(read(&[]).is_err(), "neither a file nor a command");
        assert!(read(&["train.yaml", "--", "true"]).is_err());
    }
}
