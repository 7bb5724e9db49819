//! `muster project …`.

use clap::{Args, Subcommand};
use muster_api::{CreateProject, Project};
use muster_terminal::ctx::Ctx;
use muster_terminal::fail::Fail;
use muster_terminal::output::table::{Table, cell};

/// Create and list projects
#[derive(Debug, Args)]
#[command(
    after_help = "Examples:\n  muster project create nlp --description 'language models'\n  muster project list"
)]
pub(crate) struct ProjectCmd {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    /// Create a project
    Create {
        /// Its name
        name: String,
        /// What it is for
        #[arg(long, default_value = "")]
        description: String,
    },
    /// List projects
    List,
}

impl ProjectCmd {
    /// Is a project made? It may be the one that the environment names.
    pub(crate) fn is_create(&self) -> bool {
        matches!(self.verb, Verb::Create { .. })
    }

    pub(crate) async fn run(self, ctx: &Ctx) -> Result<u8, Fail> {
        let client = ctx.client()?;
        match self.verb {
            Verb::Create { name, description } => {
                if ctx.typed_project().is_some_and(|p| p != name) {
                    let fail = Fail::usage("--project: a new project is part of no other");
                    return Err(fail.hint("leave it out; NAME is what the new one is called"));
                }
                let made = client.create_project(&CreateProject { name, description }).await?;
                ctx.show(&made, |p| format!("project {} is created\n", p.name))?;
            }
            Verb::List => {
                let list = client.projects().await?;
                ctx.show(&list, |l| table(&l.items).render())?;
            }
        }
        Ok(0)
    }
}

/// The projects as a table.
pub(crate) fn table(projects: &[Project]) -> Table {
    let mut table = Table::new(&["NAME", "DESCRIPTION"]);
    for p in projects {
        table.row(vec![cell(&p.name), cell(&p.description)]);
    }
    table
}
