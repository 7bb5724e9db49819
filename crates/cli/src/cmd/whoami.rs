//! `muster whoami`.

use clap::Args;
use muster_terminal::ctx::{Ctx, now};
use muster_terminal::fail::Fail;
use muster_terminal::output::time::relative;

/// Show who you are to the server
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  muster whoami\n  muster whoami -o json | jq -r .role")]
pub(crate) struct Whoami {}

impl Whoami {
    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        let me = client.whoami().await?;
        ctx.show(&me, |w| {
            let role = format!("{:?}", w.role).to_lowercase();
            let project =
                w.project.as_deref().map_or("all projects".into(), |p| format!("project {p}"));
            let ends = w.expires_at.map(|t| format!(", token ends {}", relative(now(), t)));
            format!(
                "{} ({role}, {project}{}) at {}, site {}\n",
                w.name,
                ends.unwrap_or_default(),
                client.server(),
                w.site
            )
        })?;
        Ok(0)
    }
}
